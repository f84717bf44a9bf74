use std::io;
use std::time::Duration;

use crawlspace_fetch as fetch;
use crawlspace_fetch::is_transient;

/// An error of a WACZ file or a manifest, with its location.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {}{problem}", of(.member))]
pub struct Error {
    /// The file or URL. User, password and query of a URL are omitted, because they may be secret.
    pub file: String,
    /// The faulty member of the package, if the error is about a member.
    pub member: Option<String>,
    /// The kind of error.
    #[source]
    pub problem: Problem,
}

/// The kinds of errors of WACZ files and manifests.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file is not a zip file; the text names the apparent format.
    #[error("this is not a WACZ file: {0}")]
    NotZip(String),
    /// The directory of the zip file is damaged, truncated, or inconsistent; the text says how.
    #[error("the zip file is damaged: {0}; download it again")]
    Directory(String),
    /// A member has an invalid name; the text says why.
    #[error("{0}; no tool that makes WACZ files writes such names: do not use this file")]
    Name(String),
    /// The package lacks this member.
    #[error("it contains no {0}; `wacz create` makes packages that have one")]
    Missing(&'static str),
    /// The member is encrypted.
    #[error(
        "it is encrypted, which a WACZ file must not be; make the package again without a password"
    )]
    Encrypted,
    /// The member is compressed by this method, which is neither `stored` nor `deflate`.
    #[error(
        "it is compressed by method {0}, but WACZ files only use 0 (stored) and 8 (deflate); make the package again with \
         `wacz create`"
    )]
    Method(u16),
    /// The stored data of the member does not match the directory; the text says how.
    #[error("{0}; download the file again")]
    Damaged(String),
    /// The gzip data in the member is damaged.
    #[error("the gzip data in it is damaged: {0}; make the index again")]
    Gzip(String),
    /// The file or the gzip data is truncated.
    #[error("it is truncated; download the file again")]
    CutOff,
    /// A limit is exceeded.
    #[error("{what} is larger than {limit}, the limit `{option}` for reading packages")]
    TooLarge {
        /// Description of the text, line or download that is too large.
        what: String,
        /// The limit, with its unit.
        limit: String,
        /// The option that sets the limit.
        option: &'static str,
    },
    /// Invalid JSON, or JSON with an unexpected structure; the text describes the problem.
    #[error("invalid JSON: {0}")]
    Json(String),
    /// The location cannot be read; the text says why.
    #[error("{0}")]
    Location(String),
    /// The server responded with an HTTP error status.
    #[error("the server answers with HTTP status {status}{}", meaning(*status))]
    Status {
        /// The status code.
        status: u16,
        /// The time until the next attempt that the server asks for (`Retry-After`), if any.
        wait: Option<Duration>,
    },
    /// The server could not be reached, timed out, or broke the connection too often; the text names the
    /// reason.
    #[error("{0}; try again later")]
    Connection(String),
    /// The [guard](super::Options::guard) forbids the address of the server; the text contains the
    /// address.
    #[error(
        "{0}; allow the server with `allow_private` in a configuration, or name it on the command line"
    )]
    Forbidden(String),
    /// This system does not trust the certificate of the server; the text says why.
    #[error(
        "the certificate of the server is not trusted: {0}; to trust it, set SSL_CERT_FILE to a file with the \
         certificate of its authority"
    )]
    Untrusted(String),
    /// The response of the server is invalid; the text says why.
    #[error("the server's response is invalid: {0}; download the file and use the copy")]
    Answer(String),
    /// The file changed after it was opened; the text says how this was detected.
    #[error("the file changed while it was read: {0}; try again when it is complete")]
    Changed(String),
    /// The package is signed, and the requested change would invalidate its signature.
    #[error(
        "the package is signed, and a change would invalidate its signature; drop the signature (--drop-signature) and \
         sign the package again"
    )]
    Signed,
    /// The data to write does not make a valid package; the text says why.
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

    /// Returns whether a later attempt may succeed without any change: the server is down or slow, or the file was
    /// being replaced at that moment.
    pub fn is_transient(&self) -> bool {
        match &self.problem {
            Problem::Connection(_) | Problem::Changed(_) => true,
            // A later attempt may succeed after any server error (5xx), even if an immediate retry is pointless.
            Problem::Status { status, .. } => *status >= 500 || is_transient(*status),
            _ => false,
        }
    }
}

/// Formats the name of a member for an error message.
fn of(member: &Option<String>) -> String {
    // Names are untrusted, and the message may be printed to a terminal.
    let shown = |member: &String| format!("member \"{}\": ", member.escape_debug());
    member.as_ref().map(shown).unwrap_or_default()
}

/// Returns an explanation of a status code, to append to the message.
fn meaning(status: u16) -> &'static str {
    match status {
        300..=399 => ": it redirects to a URL that cannot be fetched",
        401 | 403 => ": it requires a password or a new link",
        404 | 410 => ": there is no such file",
        429 => ": too many requests; try again later",
        500.. => ": the server has failed; try again later",
        _ => "",
    }
}

impl From<io::Error> for Problem {
    /// Unwraps the errors that readers of this crate wrapped to pass them through `Read`.
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
            // The URLs of locations were checked before, so the refused URL comes from a redirect.
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
            Error::Changed(how) => Problem::Changed(how),
            Error::Status { status, wait } => Problem::Status { status, wait },
            Error::Request(why) | Error::Answer(why) | Error::TooLarge(why) => Problem::Answer(why),
        }
    }
}
