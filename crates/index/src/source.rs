//! Batches of rows from a source, and the parts of a source that could not be read.

use std::sync::{Mutex, PoisonError};

use futures_util::stream::BoxStream;

pub use crawlspace_fetch::source::{Fault, Limits, SourceError};

use crate::row::Row;

/// Rows that were found in one step.
pub type Batch = Vec<Row>;

/// A stream of rows. Dropping the stream cancels all work for it.
pub type Batches = BoxStream<'static, Result<Batch, SourceError>>;

/// Counts the parts of a source that could not be read for a query while the rest of the source answered.
#[derive(Debug, Default)]
pub struct Gaps(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    /// Number of parts that were read.
    read: u64,
    failed: u64,
    /// Number of failures that were reported.
    reported: u64,
    first: Option<SourceError>,
    /// Number of files that are not indexed yet.
    waiting: u64,
    /// True once these files were reported.
    is_waiting_reported: bool,
}

impl Gaps {
    /// Adds a part that could not be read.
    pub fn add(&self, error: SourceError) {
        let mut counts = self.lock();
        counts.failed += 1;
        counts.first.get_or_insert(error);
    }

    /// Sets the number of files that are not indexed yet, and are missing for this reason.
    pub fn set_waiting(&self, files: u64) {
        self.lock().waiting = files;
    }

    /// Counts a part that was read.
    pub fn read(&self) {
        self.lock().read += 1;
    }

    /// Resets all counts, because the query starts again.
    pub fn clear(&self) {
        *self.lock() = Counts::default();
    }

    /// Returns the number of parts that could not be read.
    pub fn len(&self) -> u64 {
        self.lock().failed
    }

    /// Returns whether every part could be read.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the first failure if no part could be read.
    pub fn only(&self) -> Option<SourceError> {
        let counts = self.lock();
        let has_none = counts.read == 0 && counts.waiting == 0;
        counts.first.clone().filter(|_| has_none)
    }

    /// Returns an error that names the failed and missing parts, or `None` if there are no new failures since the last call.
    pub fn report(&self) -> Option<SourceError> {
        let mut counts = self.lock();
        let is_waiting = counts.waiting > 0 && !counts.is_waiting_reported;
        if counts.failed == counts.reported && !is_waiting {
            return None;
        }
        counts.reported = counts.failed;
        let failed = counts.first.as_ref().map(|first| match counts.failed {
            1 => first.to_string(),
            more => format!("{first}; and {} more parts cannot be read", more - 1),
        });
        if !is_waiting {
            return failed.map(SourceError::Incomplete);
        }
        counts.is_waiting_reported = true;
        let failed = failed.map_or(String::new(), |failed| format!("; {failed}"));
        let waiting = counts.waiting;
        Some(SourceError::Indexing(format!(
            "WARC files that are not indexed yet: {waiting}{failed}"
        )))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
