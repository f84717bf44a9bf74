//! Limits of sources, and the errors of sources.

use std::time::Duration;

use thiserror::Error;

/// Limits on the time and the data that a source may use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Timeout for the connection.
    pub connect: Duration,
    /// Timeout for the first row, or for the response that there are no rows: `index_timeout`.
    pub first: Duration,
    /// Timeout for the next rows, after the first.
    pub silence: Duration,
    /// Timeout for the whole response.
    pub total: Duration,
    /// Maximum size of a response from the network, in bytes.
    pub bytes: u64,
    /// Maximum number of rows in a response from the network, and of rows that are kept for
    /// sorting.
    pub rows: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(5),
            first: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            total: Duration::from_secs(120),
            bytes: 256 << 20,
            rows: 1_000_000,
        }
    }
}

/// The reason why a source failed, or why its response was interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// The source exceeded a timeout.
    #[error("timeout")]
    Timeout,
    /// The source failed repeatedly and is skipped for a while.
    #[error("skipped, because it failed too often")]
    Skipped,
    /// The source is at an address that is not permitted.
    #[error("{0}")]
    Forbidden(String),
    /// The connection could not be established, or it broke.
    #[error("{0}")]
    Connection(String),
    /// The source answered with this HTTP status.
    #[error("HTTP status {0}")]
    Status(u16),
    /// The response is invalid.
    #[error("{0}")]
    Answer(String),
    /// The response exceeds a limit, which the text names.
    #[error("{0}")]
    TooLarge(String),
    /// A file cannot be read.
    #[error("{0}")]
    Io(String),
    /// The source does not support this kind of query, which is not a failure of the source.
    #[error("{0}")]
    Unsupported(String),
    /// A file has changed or disappeared since it was listed.
    #[error("{0}")]
    Changed(String),
    /// Parts of the source cannot be read; the other parts were read.
    #[error("{0}")]
    Incomplete(String),
    /// WARC files of the source are not indexed yet; the others were searched.
    #[error("{0}")]
    Indexing(String),
    /// This server is out of memory for the response.
    #[error("this server has no memory left for its response (--memory sets the limit)")]
    Busy,
}

/// The cause of an error: the source, the query, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The source does not respond, or responds incorrectly.
    Source,
    /// The source works, but this query fails.
    Question,
    /// The error does not show whether the source works.
    Neither,
}

impl SourceError {
    /// Returns true if a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            SourceError::Timeout | SourceError::Connection(_) => true,
            SourceError::Status(status) => crate::is_transient(*status),
            _ => false,
        }
    }

    /// Classifies an error for the circuit breaker: a failure caused by one query must not disable the source for other
    /// queries.
    pub fn fault(&self) -> Fault {
        match self {
            // 508 Loop Detected: the query has already passed through this server, or through too
            // many servers.
            SourceError::Status(508) => Fault::Question,
            SourceError::Timeout
            | SourceError::Forbidden(_)
            | SourceError::Connection(_)
            | SourceError::Status(500..)
            | SourceError::Answer(_) => Fault::Source,
            SourceError::Status(_)
            | SourceError::TooLarge(_)
            | SourceError::Io(_)
            | SourceError::Changed(_)
            | SourceError::Incomplete(_) => Fault::Question,
            SourceError::Skipped
            | SourceError::Unsupported(_)
            | SourceError::Indexing(_)
            | SourceError::Busy => Fault::Neither,
        }
    }

    /// Returns the label of the error in metrics.
    pub fn word(&self) -> &'static str {
        match self {
            SourceError::Timeout => "timeout",
            SourceError::Skipped => "skipped",
            SourceError::Forbidden(_) => "forbidden",
            SourceError::Connection(_) => "connection",
            SourceError::Status(_) => "status",
            SourceError::Answer(_) => "answer",
            SourceError::TooLarge(_) => "too-large",
            SourceError::Io(_) | SourceError::Changed(_) => "io",
            SourceError::Incomplete(_) => "incomplete",
            SourceError::Unsupported(_) => "unsupported",
            SourceError::Indexing(_) => "indexing",
            SourceError::Busy => "busy",
        }
    }
}
