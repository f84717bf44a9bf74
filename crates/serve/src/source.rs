//! The interface of all sources of rows.

use std::ops::Range;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::memory::Full;
use crate::query::Query;
use crawlspace_index::WarcCounts;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batches, Gaps, SourceError};

/// A source of rows: a file, a server, …
///
/// A source returns only rows that match the URL of the query and are within its `from` and `to`, and every row has
/// `source` and `source_type`. Filters, collapsing and limits are applied to its rows afterwards. A source is used by
/// many tasks concurrently, must not block their threads, and must bound its memory.
pub trait Source: Send + Sync {
    /// Requests rows. The future may be dropped at any time.
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>>;

    /// Checks whether the data of the source is accessible, for the status page.
    ///
    /// # Errors
    /// Fails if something is missing; the message says what.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the number of invalid lines skipped since the source was opened.
    fn broken(&self) -> u64 {
        0
    }

    /// Returns the number of WARC files by state, if the source indexes them.
    fn warcs(&self) -> Option<WarcCounts> {
        None
    }

    /// Returns the block interface, if the source consists of blocks. Pages are then counted in
    /// blocks, so that no rows need to be counted.
    fn blocks(&self) -> Option<&dyn Blocks> {
        None
    }
}

/// A source with blocks of some thousand rows.
///
/// Blocks are numbered from 0, counting only blocks that may contain rows that match the lookup. The rows of all blocks
/// in sequence are the rows in ascending order; the lookup's order is ignored.
pub trait Blocks: Send + Sync {
    /// Returns the number of blocks, which is 0 if there are no rows.
    ///
    /// # Errors
    /// [`SourceError::Unsupported`] if the source consists of more than one set of blocks.
    fn count(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<u64, SourceError>>;

    /// Returns the rows in a range of the blocks.
    ///
    /// # Errors
    /// [`SourceError::Unsupported`] if the source consists of more than one set of blocks.
    fn rows_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>>;

    /// Returns one row for each block in a range: urlkey and timestamp of its first row, and JSON with
    /// `part`, `offset`, `length` and, if known, `lineno`. Used for `showPagedIndex`.
    ///
    /// # Errors
    /// [`SourceError::Unsupported`] if the source consists of more than one set of blocks.
    fn index_of(
        &self,
        lookup: Arc<Lookup>,
        blocks: Range<u64>,
    ) -> BoxFuture<'_, Result<Rows, SourceError>>;
}

/// A query to a source.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The whole query; a source uses the parts that it supports.
    pub query: Arc<Query>,
    /// Requested order of rows. A source may return another order, and reports that in
    /// [`Rows::ordered`].
    pub order: Order,
    /// Hint: no more than this number of rows will be used, because nothing filters or collapses them.
    pub at_most: Option<u64>,
    /// Name of the collection, for `{coll}` in templates.
    pub collection: Arc<str>,
}

/// Answer of a source.
pub struct Rows {
    /// Set if the rows are in the requested order. Otherwise the caller sorts them, and refuses more rows than it can
    /// sort.
    pub ordered: bool,
    /// Stream of rows.
    pub batches: Batches,
    /// Collects parts of the source that fail while rows are streamed.
    pub gaps: Option<Arc<Gaps>>,
}

impl Rows {
    /// Creates an answer of a source that either answers completely or fails.
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
