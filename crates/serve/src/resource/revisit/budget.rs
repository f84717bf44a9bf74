//! Cost limits of searches for originals.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::resource::record::LoadError;

/// Maximum number of rows read for originals, over all revisits of one request.
const MAX_ROWS: usize = 30_000;
/// Maximum number of records tried as originals, over all revisits of one request.
const MAX_TRIES: usize = 40;
/// Remaining budget of one request.
pub(in crate::resource) struct Budget {
    rows: AtomicUsize,
    tries: AtomicUsize,
}

impl Budget {
    /// Creates a full budget.
    pub(in crate::resource) fn new() -> Budget {
        Budget {
            rows: AtomicUsize::new(MAX_ROWS),
            tries: AtomicUsize::new(MAX_TRIES),
        }
    }

    /// Takes a row from the budget; returns false if none is left.
    pub(super) fn take_row(&self) -> bool {
        take(&self.rows)
    }

    /// Takes a record from the budget; returns false if none is left.
    pub(super) fn take_try(&self) -> bool {
        take(&self.tries)
    }

    /// Returns the error of the exhausted limit, if one is exhausted.
    pub(super) fn limit(&self) -> Option<LoadError> {
        let is_used_up = |left: &AtomicUsize| left.load(Ordering::Relaxed) == 0;
        let what = if is_used_up(&self.rows) {
            format!("{MAX_ROWS} rows")
        } else if is_used_up(&self.tries) {
            format!("{MAX_TRIES} records")
        } else {
            return None;
        };
        let what = format!(
            "the original of the revisit was not found among the {what} that a request may search"
        );
        Some(LoadError::Limit(what))
    }
}

fn take(left: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}
