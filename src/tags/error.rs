//! Errors of the `TAGS` commands: error codes and messages.

use std::fmt;

use crawlspace_cdx::FilterError;
use crawlspace_compact::limits::tags::FIELD_BYTES;

use crawlspace_host::keyspace::KeyError;
use crawlspace_host::text::Shown;

use super::index;

/// An error of a `TAGS` command.
#[derive(Debug)]
pub enum Error {
    /// A malformed expression, template or filter.
    Syntax {
        /// A description of the problem, without a full stop.
        what: String,
        /// Offset in bytes from the start of the expression, template or filter.
        at: usize,
    },
    /// The access point does not exist, or its name gives no value to a group.
    NoPoint(String),
    /// A malformed or too large regular expression.
    BadPattern(String),
    /// A field that the lines do not have.
    BadField(Box<[u8]>),
    /// A text that is not the name of a field.
    BadFieldName(Box<[u8]>),
    /// A column that the lines do not have. Column numbers start at 0.
    NoColumn(usize),
    /// A test of a field in a command that tests only tags (`TAGS.LIST`).
    NoFields,
    /// The reason why a line cannot be explained.
    Unexplained(String),
    /// A malformed line.
    BadLine {
        /// Number of the line in the batch, from 1.
        line: usize,
        /// A description of the problem.
        why: String,
    },
    /// A header with an unsupported order of columns.
    BadHeader {
        /// Number of the line in the batch, from 1.
        line: usize,
        /// The order of the columns, and how to fix it.
        why: String,
    },
    /// An access point that refers to itself, directly or indirectly.
    Cycle(Box<[u8]>),
    /// A limit was exceeded.
    TooBig(String),
    /// An error of the tagging index.
    Index(index::Error),
    /// An error of the key space.
    Key(KeyError),
    /// An invalid argument.
    Argument(String),
}

impl Error {
    /// Creates a syntax error at byte offset `at` of the input.
    pub fn syntax(what: impl Into<String>, at: usize) -> Error {
        Error::Syntax {
            what: what.into(),
            at,
        }
    }

    /// Creates the error for a batch that has exceeded its CPU time.
    pub fn too_long() -> Error {
        Error::TooBig(
            "the batch took more processor time than crawlspace.tags-batch-ms allows, or more than 2 seconds in MULTI or a script; send fewer lines at a time, or use tags or simpler regexes".to_string(),
        )
    }

    /// Creates an error about `spec`. `what` is the role of `spec` in the message: a filter, or the
    /// argument of `COLLAPSE`.
    pub fn of_spec(what: &str, spec: &[u8], error: FilterError) -> Error {
        match error {
            FilterError::Syntax { at, what: wrong } => Error::Syntax {
                what: format!("in {what} '{}': {wrong}", Shown(spec)),
                at,
            },
            FilterError::BadField(name) => Error::BadField(name),
            FilterError::BadPattern(error) => {
                Error::BadPattern(format!("in {what} '{}': {error}", Shown(spec)))
            }
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Syntax { what, at } => write!(f, "SYNTAX {what} at byte {at}"),
            Error::NoPoint(what) => write!(f, "NOPOINT {what}"),
            Error::BadPattern(what) => write!(f, "BADRE {what}"),
            Error::NoColumn(number) => write!(
                f,
                "BADFIELD these lines have no column {number}; columns are numbered from 0: a CDX line has 7 to 14, a CDXJ line the first 6, a RECORD id the first 2, and a file name none"
            ),
            Error::BadField(name) => write!(
                f,
                "BADFIELD these lines have no field '{}'; there are urlkey, timestamp, url, mime, status, digest, redirect, robotflags, length, offset, filename, and the JSON fields of CDXJ lines",
                Shown(name)
            ),
            Error::BadFieldName(name) => write!(
                f,
                "BADFIELD '{}' is not the name of a field; it must have 1 to {FIELD_BYTES} letters, digits, '_', '.' and '-'",
                Shown(name)
            ),
            Error::NoFields => f.write_str(
                "BADFIELD a tag has no fields; remove the tests of fields from the expression",
            ),
            Error::Unexplained(why) => write!(f, "BADLINE line 1: {why}"),
            Error::BadLine { line, why } => write!(
                f,
                "BADLINE line {line}: {why}; BADLINES DROP skips such lines"
            ),
            Error::BadHeader { line, why } => write!(f, "BADLINE line {line}: {why}"),
            Error::Cycle(name) => {
                write!(f, "CYCLE access point '{}' refers to itself", Shown(name))
            }
            Error::TooBig(what) => write!(f, "TOOBIG {what}"),
            Error::Index(error) => error.fmt(f),
            Error::Key(error) => error.fmt(f),
            Error::Argument(what) => write!(f, "ERR {what}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<index::Error> for Error {
    fn from(error: index::Error) -> Error {
        Error::Index(error)
    }
}

impl From<KeyError> for Error {
    fn from(error: KeyError) -> Error {
        Error::Key(error)
    }
}
