//! WARC records, as streams to the client.

use std::ops::Range;

use bytes::Bytes;
use futures_util::stream::BoxStream;
use thiserror::Error;

use crawlspace_fetch as fetch;
use crawlspace_index::source::SourceError;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::Problem;

/// A valid WARC record, created by a loader from a row.
///
/// The head is in memory, because it states lengths and digests before the body. The body is
/// streamed. Dropping the record cancels all work for it.
pub struct Record {
    /// WARC header with the empty line after it; for a `response` also the HTTP header.
    pub head: Bytes,
    /// Size of the whole record in bytes, from `WARC/` to the two line breaks that end it.
    pub length: u64,
    /// The bytes after `head`, including the two line breaks that end the record. The stream ends with an error if the
    /// rest is unavailable, and never exceeds `length`.
    pub body: BoxStream<'static, Result<Bytes, LoadError>>,
    /// `WARC-Target-URI`, without angle brackets.
    pub target_uri: String,
    /// `WARC-Date`, with a resolution of one second.
    pub date: Timestamp,
    /// Name of the source in a record from an upstream server.
    pub source: Option<String>,
}

/// Returns a record id: a UUID of these bits, except for its version and variant bits (RFC 9562).
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

/// The reason why a record cannot be loaded.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The row lacks the fields that this loader needs.
    #[error("{0}")]
    Unfit(String),
    /// The request must not or cannot be forwarded because of its method, URL or header.
    #[error("{0}")]
    Request(String),
    /// No record is at the location that the index gives.
    #[error("{0}")]
    Missing(String),
    /// Another server failed to respond properly, or requests to it are forbidden.
    #[error("{0}")]
    Net(#[from] SourceError),
    /// The record is invalid, or is not the capture of the row.
    #[error("{0}")]
    Record(String),
    /// The capture redirects to its own URL, which would make clients loop.
    #[error("it redirects to its own URL")]
    SelfRedirect,
    /// The search for the record hit a limit of its cost.
    #[error("{0}")]
    Limit(String),
    /// A file cannot be read or written.
    #[error("{0}")]
    Io(String),
}

impl LoadError {
    /// Returns the name of the error in metrics.
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
            // An invalid request is the client's fault.
            fetch::Error::Request(what) => LoadError::Request(what),
            error => LoadError::Net(error.into()),
        }
    }
}

impl From<Problem> for LoadError {
    fn from(problem: Problem) -> LoadError {
        LoadError::Record(match problem {
            Problem::Empty => "the file ends before the record".to_owned(),
            Problem::NotWarc => "there is neither a WARC record nor an ARC record".to_owned(),
            problem => problem.to_string(),
        })
    }
}
