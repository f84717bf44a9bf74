use std::io;
use std::time::Duration;

use crawlspace_fetch as fetch;
use crawlspace_fetch::is_transient;

/// What is wrong with a WACZ file or a manifest, and where.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {}{problem}", of(.member))]
pub struct Error {
    /// The file or URL; of a URL without what it may hold of passwords and keys.
    pub file: String,
    /// The member of the package that is at fault, if it is one.
    pub member: Option<String>,
    /// What is wrong.
    #[source]
    pub problem: Problem,
}

/// What can be wrong with a WACZ file or a manifest.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// It cannot be read, whatever it holds.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// It is not a zip file; the text says what it looks like.
    #[error("this is not a WACZ file: {0}")]
    NotZip(String),
    /// It is a zip file whose directory is damaged, cut off, or contradicts itself; the text says how.
    #[error("the zip file is damaged: {0}; download it again")]
    Directory(String),
    /// A member has a name that none may have; the text says why.
    #[error("{0}; no tool that makes WACZ files writes such names: do not use this file")]
    Name(String),
    /// The package lacks this member.
    #[error("there is no {0} in it; `wacz create` makes packages that have one")]
    Missing(&'static str),
    /// The member is encrypted.
    #[error(
        "it is encrypted, which a WACZ file must not be; make the package again without a password"
    )]
    Encrypted,
    /// The member is compressed by a method that is neither `stored` nor `deflate`: its number.
    #[error(
        "it is compressed by method {0}, where WACZ files have 0 (stored) and 8 (deflate); make the package again with \
         `wacz create`"
    )]
    Method(u16),
    /// What is stored of the member is not what the directory says; the text says how.
    #[error("{0}; download the file again")]
    Damaged(String),
    /// The gzip data in the member is damaged.
    #[error("the gzip data in it is damaged: {0}; make the index again")]
    Gzip(String),
    /// The file or the gzip data ends too soon.
    #[error("it is cut off; download the file again")]
    CutOff,
    /// Something is larger than it may be.
    #[error("{what} is larger than {limit}, which is the limit `{option}` of reading packages")]
    TooLarge {
        /// What it is.
        what: String,
        /// How large it may be, with its unit.
        limit: String,
        /// The option that says so.
        option: &'static str,
    },
    /// Invalid JSON, or JSON of another form; the text says which.
    #[error("invalid JSON: {0}")]
    Json(String),
    /// The location cannot be read; the text says why.
    #[error("{0}")]
    Location(String),
    /// The server answered with an HTTP status that says no.
    #[error("the server answers with HTTP status {status}{}", meaning(*status))]
    Status {
        /// Which one.
        status: u16,
        /// How long it wants to be left alone, if it says so.
        wait: Option<Duration>,
    },
    /// The server could not be reached, did not answer in time, or broke off too often; the text says which.
    #[error("{0}; try again later")]
    Connection(String),
    /// The server's address is one that the [guard](super::Options::guard) forbids; the text says which.
    #[error(
        "{0}; who may be asked all the same is said by `allow_private` in a configuration, or by naming it on the \
         command line"
    )]
    Forbidden(String),
    /// The server's certificate is not valid for this system; the text says why.
    #[error(
        "the server cannot be trusted: {0}; if it can, name the file with the certificate of its authority in \
         SSL_CERT_FILE"
    )]
    Untrusted(String),
    /// The server's answer cannot be right; the text says why.
    #[error("the server's answer cannot be right: {0}; download the file and use the copy")]
    Answer(String),
    /// The file is not the one any more that it was when it was opened; the text says how that shows.
    #[error("the file changed while it was read: {0}; try again when it is complete")]
    Changed(String),
    /// The package is signed, and what was asked for would make its signature worthless.
    #[error(
        "the package is signed, and a change makes its signature worthless; drop the signature (--drop-signature) and \
         sign the package again"
    )]
    Signed,
    /// What should be written makes no valid package; the text says why.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    pub(super) fn new(file: impl Into<String>, problem: Problem) -> Error {
        Error {
            file: file.into(),
            member: None,
            problem,
        }
    }

    pub(super) fn of_member(file: &str, member: &str, problem: Problem) -> Error {
        Error {
            file: file.to_owned(),
            member: Some(member.to_owned()),
            problem,
        }
    }

    /// Whether a later attempt may succeed without a change: a server that is down or slow, a file that was being
    /// replaced.
    pub fn is_transient(&self) -> bool {
        match &self.problem {
            Problem::Connection(_) | Problem::Changed(_) => true,
            // Also a failure of the server (5xx) that is not worth another attempt at once.
            Problem::Status { status, .. } => *status >= 500 || is_transient(*status),
            _ => false,
        }
    }
}

/// Names a member in a text for people.
fn of(member: &Option<String>) -> String {
    // A name may hold anything, and this goes to terminals.
    let shown = |member: &String| format!("member \"{}\": ", member.escape_debug());
    member.as_ref().map(shown).unwrap_or_default()
}

/// What to do about a status.
fn meaning(status: u16) -> &'static str {
    match status {
        300..=399 => ": it redirects to a URL that cannot be fetched",
        401 | 403 => ": it wants a password or a fresh link",
        404 | 410 => ": there is no such file",
        429 => ": it wants fewer requests; try again later",
        500.. => ": it is in trouble; try again later",
        _ => "",
    }
}

impl From<io::Error> for Problem {
    /// Takes out what our own readers put in on its way through `Read`.
    fn from(error: io::Error) -> Problem {
        let error = match error.downcast::<Problem>() {
            Ok(problem) => return problem,
            Err(error) => error,
        };
        match error.downcast::<fetch::Error>() {
            Ok(error) => error.into(),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Problem::CutOff,
            Err(error) => Problem::Io(error),
        }
    }
}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> io::Error {
        match problem {
            Problem::Io(error) => error,
            other => io::Error::other(other),
        }
    }
}

impl From<fetch::Error> for Problem {
    fn from(error: fetch::Error) -> Problem {
        use fetch::Error;
        match error {
            Error::Private(why) => Problem::Forbidden(why),
            // That of a location is checked before.
            Error::Refused(why) => Problem::Answer(format!(
                "it redirects to a URL that cannot be fetched ({why})"
            )),
            Error::Unreachable { why, .. } => {
                Problem::Connection(format!("no connection to the server: {why}"))
            }
            Error::Timeout | Error::Silence | Error::Connection(_) => {
                Problem::Connection(error.to_string())
            }
            Error::Untrusted(_) => Problem::Untrusted(error.to_string()),
            Error::Request(why) | Error::Answer(why) | Error::TooLarge(why) => Problem::Answer(why),
        }
    }
}
