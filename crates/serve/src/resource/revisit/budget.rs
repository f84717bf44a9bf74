//! What the search for originals may cost, and searches that were in vain.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::resource::record::LoadError;

/// Maximum number of rows that are read for the originals of revisits, by all revisits that one request tries.
const MAX_ROWS: usize = 30_000;
/// Maximum number of records that are tried as originals, by all revisits that one request tries.
const MAX_TRIES: usize = 40;
/// How long a search in vain is remembered.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of searches that are remembered.
const MAX_REMEMBERED: usize = 10_000;

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

/// Searches that were in vain a moment ago.
#[derive(Default)]
pub(in crate::resource) struct InVain(Mutex<HashMap<String, (Instant, LoadError)>>);

impl InVain {
    /// Returns what a search came to that is remembered.
    pub(super) fn get(&self, search: &str) -> Option<LoadError> {
        let searches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, error) = searches.get(search)?;
        (at.elapsed() < REMEMBERED).then(|| error.clone())
    }

    /// Remembers a search.
    pub(super) fn add(&self, search: String, error: LoadError) {
        let mut searches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if searches.len() >= MAX_REMEMBERED {
            searches.retain(|_, (at, _)| at.elapsed() < REMEMBERED);
        }
        if searches.len() < MAX_REMEMBERED {
            searches.insert(search, (Instant::now(), error));
        }
    }
}
