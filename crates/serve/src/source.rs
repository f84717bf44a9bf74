//! What every source of rows is asked, and how it answers.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::memory::Full;
use crate::query::Query;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batches, Gaps, SourceError};

/// Where rows come from: a file, a server, …
///
/// A source gives only rows that match the URL of the query and lie within its `from` and `to`, and every row says
/// `source` and `source_type`. Filters, collapsing and limits are applied to what it gives. It is asked from many
/// tasks at once, must not block the thread it is asked on, and bounds what it keeps in memory.
pub trait Source: Send + Sync {
    /// Asks for rows. The future may be dropped at any time.
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>>;

    /// Whether what it reads is there, for the status page.
    ///
    /// # Errors
    /// What is missing.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// Number of invalid lines that were skipped since it was opened.
    fn broken(&self) -> u64 {
        0
    }

    /// Its blocks, if it is made of some: then pages of answers are counted in blocks, and no rows have
    /// to be counted.
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
    /// [`SourceError::Unsupported`] when it turns out to be more than one set of blocks.
    fn rows_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>>;

    /// A row for each of some blocks: urlkey and timestamp of its first row, and as JSON `part`, `offset`, `length`
    /// and, if it is known, `lineno`. It is what `showPagedIndex` asks for.
    ///
    /// # Errors
    /// [`SourceError::Unsupported`] when it turns out to be more than one set of blocks.
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
    /// Whether the rows come in the order that was asked for. Rows that do not are sorted by the caller, as far
    /// as they fit into its limits.
    pub ordered: bool,
    /// The rows.
    pub batches: Batches,
    /// Collects parts of the source that fail while the rows come.
    pub gaps: Option<Arc<Gaps>>,
}

impl Rows {
    /// Rows of a source that answers as a whole, or fails.
    pub fn whole(ordered: bool, batches: Batches) -> Rows {
        Rows {
            ordered,
            batches,
            gaps: None,
        }
    }
}

impl From<Full> for SourceError {
    fn from(_: Full) -> SourceError {
        SourceError::Busy
    }
}
