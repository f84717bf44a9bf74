use std::io;

/// Error of reading a WARC file: the problem, and the position of the record.
#[derive(Debug, thiserror::Error)]
#[error("{file}: offset {offset}: {problem}")]
pub struct Error {
    /// Name of the file, as given by the caller.
    pub file: String,
    /// Offset of the invalid record in the file, in bytes.
    pub offset: u64,
    /// The problem of the record.
    #[source]
    pub problem: Problem,
}

/// A problem of a record or a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file is empty.
    #[error("the file is empty")]
    Empty,
    /// Neither a WARC record nor a gzip member begins here.
    #[error("no WARC record begins here")]
    NotWarc,
    /// A WARC version that this reader does not support.
    #[error("WARC version {found:?} is not supported (supported: {})", known.join(", "))]
    Version {
        /// The text after `WARC/`.
        found: String,
        /// The supported versions.
        known: &'static [&'static str],
    },
    /// The header of the record is invalid; the string says why.
    #[error("the record header is not valid: {0}")]
    Header(String),
    /// The file ends within the record.
    #[error("the record is truncated")]
    Truncated,
    /// The gzip member is damaged.
    #[error("the gzip member is damaged: {0}")]
    Gzip(String),
    /// The record does not end at its `Content-Length`.
    #[error("the record does not end after {0} bytes, its Content-Length")]
    ContentLength(u64),
    /// The block does not match this `WARC-Block-Digest` of its header.
    #[error("the record is damaged: its block does not match the WARC-Block-Digest {0}")]
    Digest(String),
    /// The gzip member contains several records; therefore, its records have no offsets of their
    /// own in the file.
    #[error(
        "the gzip member contains more than one record; compress each record separately, as `warcio recompress` does"
    )]
    NotRecordCompressed,
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Problem::Truncated,
            _ => Problem::Io(error),
        }
    }
}
