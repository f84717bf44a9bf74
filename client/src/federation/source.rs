//! What every source of rows is asked, and how it answers.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;

use super::memory::Full;
use super::query::{Order, Query};
use super::row::Row;

/// Rows that came together.
pub type Batch = Vec<Row>;

/// Rows as they come. Dropping it cancels whatever is under way for it.
pub type Batches = BoxStream<'static, Result<Batch, SourceError>>;

/// Where rows come from: a file, a server, …
///
/// A source gives only rows that match the URL of the query and lie within its `from` and `to`, and every row says
/// `source` and `source_type`. Filters, collapsing and limits are applied to what it gives. It is asked from many
/// tasks at once, must not block the thread it is asked on, and bounds what it keeps in memory.
pub trait Source: Send + Sync {
    /// Asks for rows. The future may be dropped at any time.
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>>;

    /// Whether what it reads is there, for the status page: `Err` says what is not.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// How many lines it has passed over since it was opened, because they are none.
    fn broken(&self) -> u64 {
        0
    }

    /// Its blocks, if it is made of some: then pages of answers are so many blocks, which nobody has to count rows
    /// for.
    fn blocks(&self) -> Option<&dyn Blocks> {
        None
    }
}

/// A source that has its rows in blocks of some thousand.
///
/// Blocks are numbered from 0 among those that rows of the look-up can be in. Rows of all blocks, one after the other,
/// are the rows in ascending order; whatever order the look-up says is not looked at.
pub trait Blocks: Send + Sync {
    /// How many blocks there are; 0 when there are no rows at all.
    ///
    /// # Errors
    /// [`SourceError::Unsupported`] when it turns out to be more than one set of blocks.
    fn count(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<u64, SourceError>>;

    /// The rows in some of the blocks.
    ///
    /// # Errors
    /// The same.
    fn rows_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>>;

    /// A row for each of some blocks: urlkey and timestamp of its first row, and as JSON `part`, `offset`, `length`
    /// and, if it is known, `lineno`. It is what `showPagedIndex` asks for.
    ///
    /// # Errors
    /// The same.
    fn index_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>>;
}

/// What a source is asked.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The whole query; a source uses what it understands of it.
    pub query: Arc<Query>,
    /// The order in which rows are wanted. A source that has them in another one says so.
    pub order: Order,
    /// No more rows than this are going to be used, because nothing filters or collapses what comes. A hint.
    pub at_most: Option<u64>,
    /// The name of the collection, for `{coll}` in templates.
    pub collection: Arc<str>,
}

/// What a source answers.
pub struct Rows {
    /// Whether the rows come in the order that was asked for. Rows that do not are sorted by whoever asked, as far
    /// as they fit into its limits.
    pub ordered: bool,
    /// The rows.
    pub batches: Batches,
}

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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceError {
    /// It took longer than it may.
    Timeout,
    /// It failed so often of late that it is not asked for a while.
    Skipped,
    /// It is at an address that must not be asked.
    Forbidden(String),
    /// No connection came about, or it broke.
    Connection(String),
    /// It answered with this HTTP status.
    Status(u16),
    /// Its answer is not what it should be.
    Answer(String),
    /// Its answer is larger than it may be; the limit in words.
    TooLarge(String),
    /// A file cannot be read.
    Io(String),
    /// It cannot answer a question of this kind, which is not its fault.
    Unsupported(String),
    /// This server has no memory left for its answer.
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
            SourceError::Status(_) | SourceError::TooLarge(_) | SourceError::Io(_) => {
                Fault::Question
            }
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
            SourceError::Io(_) => "io",
            SourceError::Unsupported(_) => "unsupported",
            SourceError::Busy => "busy",
        }
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceError::Timeout => f.write_str("timeout"),
            SourceError::Skipped => f.write_str("skipped, because it failed too often"),
            SourceError::Busy => f.write_str("no memory is left for its answer (--memory)"),
            SourceError::Status(status) => write!(f, "HTTP status {status}"),
            SourceError::Forbidden(what)
            | SourceError::Connection(what)
            | SourceError::Answer(what)
            | SourceError::TooLarge(what)
            | SourceError::Io(what)
            | SourceError::Unsupported(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for SourceError {}

impl From<Full> for SourceError {
    fn from(_: Full) -> SourceError {
        SourceError::Busy
    }
}
