//! What can be wrong, with the code word and the sentence beside each other.

use std::fmt;

use crawlspace_cdx::FilterError;

use crawlspace_host::keyspace::KeyError;
use crawlspace_host::text::Shown;

use super::index;

/// An error of a `TAGS` command.
#[derive(Debug)]
pub enum Error {
    /// An expression, a template or a filter that cannot be read.
    Syntax {
        /// What is wrong, and where it stands: a sentence without its end.
        what: String,
        /// Offset in bytes from the start of the text.
        at: usize,
    },
    /// There is no such access point, or it gives no value for a group.
    NoPoint(String),
    /// A regular expression that is malformed, or too large.
    BadPattern(String),
    /// A field that the lines do not have.
    BadField(Box<[u8]>),
    /// A column that the lines do not have, by its number from 0.
    NoColumn(usize),
    /// A field asked of tags, which have none.
    NoFields,
    /// A line that cannot be explained, and why.
    Unexplained(String),
    /// A line that cannot be read.
    BadLine {
        /// Its number in the batch, from 1.
        line: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A header with another order of columns than those that are read.
    BadHeader {
        /// Its number in the batch, from 1.
        line: usize,
        /// Which order, and what to do.
        why: String,
    },
    /// Points that refer to each other in a cycle.
    Cycle(Box<[u8]>),
    /// More than there may be.
    TooBig(String),
    /// From the tagging index.
    Index(index::Error),
    /// From the key space.
    Key(KeyError),
    /// An argument that is not what it should be.
    Argument(String),
}

impl Error {
    /// A text that cannot be read from byte `at` on.
    pub fn syntax(what: impl Into<String>, at: usize) -> Error {
        Error::Syntax {
            what: what.into(),
            at,
        }
    }

    /// A batch has had all of its time.
    pub fn too_long() -> Error {
        Error::TooBig(
            "a batch that takes more of a processor's time than crawlspace.tags-batch-ms allows, or than 2 seconds in MULTI and scripts; send fewer lines at a time, or use tags or simpler regexes".to_string(),
        )
    }

    /// What is wrong with `spec`, which is called `what`: a filter, or what is collapsed.
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
                "BADFIELD these lines have no column {number}; columns count from 0: a CDX line has 7 to 14, a CDXJ line the first 6, a RECORD id the first 2, and a file name none"
            ),
            Error::BadField(name) => write!(
                f,
                "BADFIELD these lines have no field '{}'; there are urlkey, timestamp, url, mime, status, digest, redirect, robotflags, length, offset, filename, and the JSON fields of CDXJ lines",
                Shown(name)
            ),
            Error::NoFields => f.write_str(
                "BADFIELD a tag has no fields; leave tests of fields out of the expression",
            ),
            Error::Unexplained(why) => write!(f, "BADLINE line 1: {why}"),
            Error::BadLine { line, why } => write!(
                f,
                "BADLINE line {line}: {why}; BADLINES DROP leaves such lines out"
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
