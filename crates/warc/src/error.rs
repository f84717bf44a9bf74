use std::fmt;
use std::io;

/// What is wrong with a WARC file, and where.
#[derive(Debug)]
pub struct Error {
    /// The file, as the caller named it.
    pub file: String,
    /// Where in the file, in bytes from its beginning, the record begins that cannot be read.
    pub offset: u64,
    /// What is wrong with that record.
    pub problem: Problem,
}

/// What can be wrong with a record.
#[derive(Debug)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read, whatever it holds.
    Io(io::Error),
    /// The file holds nothing at all.
    Empty,
    /// Neither a WARC record nor a gzip member begins here.
    NotWarc,
    /// A WARC version that this reader does not know.
    Version {
        /// What stands after `WARC/`.
        found: String,
        /// The versions that are known.
        known: &'static [&'static str],
    },
    /// The header of the record breaks the rules; the text says which.
    Header(String),
    /// The file ends within the record.
    Truncated,
    /// The gzip member is damaged.
    Gzip(String),
    /// The record does not end where its `Content-Length` says.
    ContentLength(u64),
    /// The block is not the one that the digest was made of which the header states; the text is that digest.
    Digest(String),
    /// The gzip member holds more than one record, so that none has a place of its own in the file.
    NotRecordCompressed,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: offset {}: {}", self.file, self.offset, self.problem)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Io(error) => error.fmt(f),
            Problem::Empty => f.write_str("the file is empty"),
            Problem::NotWarc => f.write_str("this is not the beginning of a WARC record"),
            Problem::Version { found, known } => {
                let known = known.join(", ");
                write!(f, "WARC version {found:?} is not known (allowed: {known})")
            }
            Problem::Header(what) => write!(f, "the record header is not valid: {what}"),
            Problem::Truncated => f.write_str("the record is cut off"),
            Problem::Gzip(what) => write!(f, "the gzip member is damaged: {what}"),
            Problem::ContentLength(length) => write!(
                f,
                "the record does not end after the {length} bytes that its Content-Length says"
            ),
            Problem::Digest(digest) => write!(
                f,
                "the record is damaged: its WARC-Block-Digest is not {digest}"
            ),
            Problem::NotRecordCompressed => f.write_str(
                "the gzip member holds more than one record; compress each record by itself \
                 (`warcio recompress` does)",
            ),
        }
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
    fn from(error: io::Error) -> Problem {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Truncated,
            _ => Problem::Io(error),
        }
    }
}
