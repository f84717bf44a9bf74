//! How much a source may cost, and why it has no answer.

use std::time::Duration;

use thiserror::Error;

/// How much a source may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Until the connection stands.
    pub connect: Duration,
    /// Until the first row, or the news that there is none: `index_timeout`.
    pub first: Duration,
    /// Until the next rows, afterwards.
    pub silence: Duration,
    /// For everything.
    pub total: Duration,
    /// Bytes of an answer from the network.
    pub bytes: u64,
    /// Rows of an answer from the network, and rows that are kept to be sorted.
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

/// Why a source has no answer, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SourceError {
    /// It took longer than it may.
    #[error("timeout")]
    Timeout,
    /// It failed so often of late that it is not asked for a while.
    #[error("skipped, because it failed too often")]
    Skipped,
    /// It is at an address that must not be asked.
    #[error("{0}")]
    Forbidden(String),
    /// No connection came about, or it broke.
    #[error("{0}")]
    Connection(String),
    /// It answered with this HTTP status.
    #[error("HTTP status {0}")]
    Status(u16),
    /// Its answer is not what it should be.
    #[error("{0}")]
    Answer(String),
    /// Its answer is larger than it may be; the limit in words.
    #[error("{0}")]
    TooLarge(String),
    /// A file cannot be read.
    #[error("{0}")]
    Io(String),
    /// It cannot answer a question of this kind, which is not its fault.
    #[error("{0}")]
    Unsupported(String),
    /// A file is another one since it was listed, or gone.
    #[error("{0}")]
    Changed(String),
    /// Parts of it cannot be read; the rest has answered.
    #[error("{0}")]
    Incomplete(String),
    /// This server has no memory left for its answer.
    #[error("no memory is left for its answer (--memory)")]
    Busy,
}

/// Whose failure an error is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The source does not answer, or not as it should.
    Source,
    /// The source works, but not for this question.
    Question,
    /// Nothing is known of the source by it.
    Neither,
}

impl SourceError {
    /// Returns true if the next answer may be another one.
    pub fn is_transient(&self) -> bool {
        match self {
            SourceError::Timeout | SourceError::Connection(_) => true,
            SourceError::Status(status) => crate::is_transient(*status),
            _ => false,
        }
    }

    /// Whose failure it is, for the breaker: a question's own must not turn a source off for others.
    pub fn fault(&self) -> Fault {
        match self {
            // A question that has come by this server before, or by too many (508).
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
            SourceError::Skipped | SourceError::Unsupported(_) | SourceError::Busy => {
                Fault::Neither
            }
        }
    }

    /// One word for figures.
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
            SourceError::Busy => "busy",
        }
    }
}
