use std::time::Duration;
use std::{fmt, io};

use super::http::RETRIED_STATUSES;

/// What is wrong with a WACZ file or a manifest, and where.
#[derive(Debug)]
pub struct Error {
    /// The file or URL; of a URL without what it may hold of passwords and keys.
    pub file: String,
    /// The member of the package that is at fault, if it is one.
    pub member: Option<String>,
    /// What is wrong.
    pub problem: Problem,
}

/// What can be wrong with a WACZ file or a manifest.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// It cannot be read, whatever it holds.
    Io(io::Error),
    /// It is not a zip file; the text says what it looks like.
    NotZip(String),
    /// It is a zip file whose directory is damaged, cut off, or contradicts itself; the text says how.
    Directory(String),
    /// A member has a name that none may have; the text says why.
    Name(String),
    /// The package lacks this member.
    Missing(&'static str),
    /// The member is encrypted.
    Encrypted,
    /// The member is compressed by a method that is neither `stored` nor `deflate`: its number.
    Method(u16),
    /// What is stored of the member is not what the directory says; the text says how.
    Damaged(String),
    /// The gzip data in the member is damaged.
    Gzip(String),
    /// The file or the gzip data ends too soon.
    CutOff,
    /// Something is larger than it may be.
    TooLarge {
        /// What it is.
        what: String,
        /// How large it may be, with its unit.
        limit: String,
        /// The option that says so.
        option: &'static str,
    },
    /// Invalid JSON, or JSON of another form; the text says which.
    Json(String),
    /// The location cannot be read; the text says why.
    Location(String),
    /// The server answered with an HTTP status that says no.
    Status {
        /// Which one.
        status: u16,
        /// How long it wants to be left alone, if it says so.
        wait: Option<Duration>,
    },
    /// The server could not be reached, did not answer in time, or broke off too often; the text says which.
    Connection(String),
    /// The server's address is one that the [guard](super::Options::guard) forbids; the text says which.
    Forbidden(String),
    /// The server's certificate is not valid for this system; the text says why.
    Untrusted(String),
    /// The server's answer cannot be right; the text says why.
    Answer(String),
    /// The file is not the one any more that it was when it was opened; the text says how that shows.
    Changed(String),
    /// The package is signed, and what was asked for would make its signature worthless.
    Signed,
    /// What should be written makes no valid package; the text says why.
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
    pub fn is_passing(&self) -> bool {
        match &self.problem {
            Problem::Connection(_) | Problem::Changed(_) => true,
            // Also a failure of the server (5xx) that is not worth another attempt at once.
            Problem::Status { status, .. } => *status >= 500 || RETRIED_STATUSES.contains(status),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if let Some(member) = &self.member {
            // A name may hold anything, and this goes to terminals.
            write!(f, "member \"{}\": ", member.escape_debug())?;
        }
        self.problem.fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => error.fmt(f),
            Problem::NotZip(what) => write!(f, "this is not a WACZ file: {what}"),
            Problem::Directory(how) => {
                write!(f, "the zip file is damaged: {how}; download it again")
            }
            Problem::Name(why) => {
                write!(f, "{why}; no tool that makes WACZ files writes such names: do not use this file")
            }
            Problem::Missing(member) => {
                write!(f, "there is no {member} in it; `wacz create` makes packages that have one")
            }
            Problem::Encrypted => {
                f.write_str("it is encrypted, which a WACZ file must not be; make the package again without a password")
            }
            Problem::Method(method) => write!(
                f,
                "it is compressed by method {method}, where WACZ files have 0 (stored) and 8 (deflate); make the \
                 package again with `wacz create`"
            ),
            Problem::Damaged(how) => write!(f, "{how}; download the file again"),
            Problem::Gzip(how) => write!(f, "the gzip data in it is damaged: {how}; make the index again"),
            Problem::CutOff => f.write_str("it is cut off; download the file again"),
            Problem::TooLarge {
                what,
                limit,
                option,
            } => write!(
                f,
                "{what} is larger than {limit}, which is the limit `{option}` of reading packages"
            ),
            Problem::Json(how) => write!(f, "invalid JSON: {how}"),
            Problem::Location(why) => f.write_str(why),
            Problem::Status { status, .. } => {
                write!(f, "the server answers with HTTP status {status}{}", meaning(*status))
            }
            Problem::Connection(how) => write!(f, "{how}; try again later"),
            Problem::Forbidden(why) => write!(
                f,
                "{why}; who may be asked all the same is said by `allow_private` in a configuration, or by naming it on \
                 the command line"
            ),
            Problem::Untrusted(why) => write!(
                f,
                "the server cannot be trusted: {why}; if it can, name the file with the certificate of its authority in \
                 SSL_CERT_FILE"
            ),
            Problem::Answer(why) => {
                write!(f, "the server's answer cannot be right: {why}; download the file and use the copy")
            }
            Problem::Changed(how) => {
                write!(f, "the file changed while it was read: {how}; try again when it is complete")
            }
            Problem::Signed => f.write_str(
                "the package is signed, and a change makes its signature worthless; drop the signature \
                 (--drop-signature) and sign the package again",
            ),
            Problem::Refused(why) => f.write_str(why),
        }
    }
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Problem {
    /// Takes out what our own readers put in on its way through `Read`.
    fn from(error: io::Error) -> Problem {
        match error.downcast::<Carried>() {
            Ok(Carried(problem)) => problem,
            Err(error) => match error.kind() {
                io::ErrorKind::UnexpectedEof => Problem::CutOff,
                _ => Problem::Io(error),
            },
        }
    }
}

/// A problem on its way through `Read`.
#[derive(Debug)]
struct Carried(Problem);

impl fmt::Display for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Carried {}

impl From<Problem> for io::Error {
    fn from(problem: Problem) -> io::Error {
        match problem {
            Problem::Io(error) => error,
            other => io::Error::other(Carried(other)),
        }
    }
}
