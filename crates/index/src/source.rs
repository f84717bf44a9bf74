//! Batches of rows from a source, and the parts of a source that could not be read.

use std::sync::{Mutex, PoisonError};

use futures_util::stream::BoxStream;

pub use crawlspace_fetch::source::{Fault, Limits, SourceError};

use crate::row::Row;

/// Rows that were found in one step.
pub type Batch = Vec<Row>;

/// A stream of rows. Dropping it cancels all work for it.
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
}

impl Gaps {
    /// Adds a part that could not be read.
    pub fn add(&self, error: SourceError) {
        let mut counts = self.lock();
        counts.failed += 1;
        counts.first.get_or_insert(error);
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
        counts.first.clone().filter(|_| counts.read == 0)
    }

    /// Returns an error that names the failed parts, or `None` if there are no new failures since the last call.
    pub fn report(&self) -> Option<SourceError> {
        let mut counts = self.lock();
        if counts.failed == counts.reported {
            return None;
        }
        counts.reported = counts.failed;
        let first = counts.first.as_ref()?;
        Some(SourceError::Incomplete(match counts.failed {
            1 => first.to_string(),
            more => format!("{first}; and {} more parts cannot be read", more - 1),
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
