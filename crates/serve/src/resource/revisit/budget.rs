//! What the search for originals may cost.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::resource::record::LoadError;

/// Maximum number of rows that are read for the originals of revisits, by all revisits that one request tries.
const MAX_ROWS: usize = 30_000;
/// Maximum number of records that are tried as originals, by all revisits that one request tries.
const MAX_TRIES: usize = 40;
/// What is left for the searches of one request.
pub(in crate::resource) struct Budget {
    rows: AtomicUsize,
    tries: AtomicUsize,
}

impl Budget {
    /// All that a request may cost.
    pub(in crate::resource) fn new() -> Budget {
        Budget {
            rows: AtomicUsize::new(MAX_ROWS),
            tries: AtomicUsize::new(MAX_TRIES),
        }
    }

    /// Takes a row; false when none is left.
    pub(super) fn take_row(&self) -> bool {
        take(&self.rows)
    }

    /// Takes a try; false when none is left.
    pub(super) fn take_try(&self) -> bool {
        take(&self.tries)
    }

    /// Returns the limit that was reached, if one was.
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
            "the original of the revisit is not among the {what} that a request may search"
        );
        Some(LoadError::Limit(what))
    }
}

fn take(left: &AtomicUsize) -> bool {
    let less = |left: usize| left.checked_sub(1);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
        .is_ok()
}
