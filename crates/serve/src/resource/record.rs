//! A WARC record on its way to the client.

use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use thiserror::Error;

use crawlspace_fetch as fetch;
use crawlspace_index::source::SourceError;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::Problem;

/// A valid WARC record: what loaders make of rows.
///
/// Its beginning is there, and with it everything that a header has to say before the body: lengths, digests. The
/// rest comes as it is read. Dropping it ends the work for it.
pub struct Record {
    /// The WARC header and the empty line after it; of a `response`, the HTTP header as well.
    pub head: Bytes,
    /// The size of the whole record in bytes, from `WARC/` to the two line ends that close it.
    pub length: u64,
    /// What comes after `head`, to the two line ends that close the record. It ends with an error when the rest
    /// cannot be had, and never goes on beyond `length`.
    pub body: BoxStream<'static, Result<Bytes, LoadError>>,
    /// `WARC-Target-URI`, without angle brackets.
    pub target_uri: String,
    /// `WARC-Date`, to the second.
    pub date: Timestamp,
    /// Of a record that another server of this kind has: the source that it names.
    pub source: Option<String>,
}

/// The name of a record: a UUID of these bits, but for those that say its version and variant (RFC 9562).
pub(super) fn urn(bits: u128, version: u128) -> String {
    let bits = bits & !(0xf << 76 | 0x3 << 62) | version << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    let part = |range: Range<usize>| digits.get(range).unwrap_or_default();
    let parts = [
        part(0..8),
        part(8..12),
        part(12..16),
        part(16..20),
        part(20..32),
    ];
    format!("<urn:uuid:{}>", parts.join("-"))
}

/// Why there is no record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The row has nothing that this loader works with.
    #[error("{0}")]
    Unfit(String),
    /// The request must not or cannot be sent on: its method, its URL, its header.
    #[error("{0}")]
    Request(String),
    /// The record is not where it should be.
    #[error("{0}")]
    Missing(String),
    /// Another server did not answer as it should, or must not be asked.
    #[error("{0}")]
    Net(#[from] SourceError),
    /// The record is invalid, or is not the one of the row.
    #[error("{0}")]
    Record(String),
    /// The capture redirects to its own URL, which makes a cycle for clients.
    #[error("it redirects to its own URL")]
    SelfRedirect,
    /// The search for it would cost more than a request may.
    #[error("{0}")]
    Limit(String),
    /// A file cannot be read or written.
    #[error("{0}")]
    Io(String),
}

impl LoadError {
    /// One word for figures.
    pub fn word(&self) -> &'static str {
        match self {
            LoadError::Unfit(_) => "unfit",
            LoadError::Request(_) => "request",
            LoadError::Missing(_) => "missing",
            LoadError::Net(error) => error.word(),
            LoadError::Record(_) => "record",
            LoadError::SelfRedirect => "self-redirect",
            LoadError::Limit(_) => "limit",
            LoadError::Io(_) => "io",
        }
    }
}

impl From<fetch::Error> for LoadError {
    fn from(error: fetch::Error) -> LoadError {
        match error {
            // What cannot be sent is the client's business.
            fetch::Error::Request(what) => LoadError::Request(what),
            error => LoadError::Net(error.into()),
        }
    }
}

impl From<Problem> for LoadError {
    fn from(problem: Problem) -> LoadError {
        LoadError::Record(match problem {
            Problem::Empty => "the file ends before".to_owned(),
            Problem::NotWarc => "there is neither a WARC record nor an ARC record".to_owned(),
            problem => problem.to_string(),
        })
    }
}
