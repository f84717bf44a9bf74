use std::io;

/// What is wrong with a WARC file, and where.
#[derive(Debug, thiserror::Error)]
#[error("{file}: offset {offset}: {problem}")]
pub struct Error {
    /// The file, as the caller named it.
    pub file: String,
    /// Where in the file, in bytes from its beginning, the record begins that cannot be read.
    pub offset: u64,
    /// What is wrong with that record.
    #[source]
    pub problem: Problem,
}

/// What can be wrong with a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file cannot be read, whatever it holds.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The file holds nothing at all.
    #[error("the file is empty")]
    Empty,
    /// Neither a WARC record nor a gzip member begins here.
    #[error("this is not the beginning of a WARC record")]
    NotWarc,
    /// A WARC version that this reader does not know.
    #[error("WARC version {found:?} is not known (allowed: {})", known.join(", "))]
    Version {
        /// What stands after `WARC/`.
        found: String,
        /// The versions that are known.
        known: &'static [&'static str],
    },
    /// The header of the record breaks the rules; the text says which.
    #[error("the record header is not valid: {0}")]
    Header(String),
    /// The file ends within the record.
    #[error("the record is cut off")]
    Truncated,
    /// The gzip member is damaged.
    #[error("the gzip member is damaged: {0}")]
    Gzip(String),
    /// The record does not end where its `Content-Length` says.
    #[error("the record does not end after the {0} bytes that its Content-Length says")]
    ContentLength(u64),
    /// The block is not the one that the digest was made of which the header states; the text is that digest.
    #[error("the record is damaged: its WARC-Block-Digest is not {0}")]
    Digest(String),
    /// The gzip member holds more than one record, so that none has a place of its own in the file.
    #[error(
        "the gzip member holds more than one record; compress each record by itself (`warcio recompress` does)"
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
