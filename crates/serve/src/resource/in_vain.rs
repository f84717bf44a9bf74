//! Cache of failed searches for originals.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::record::LoadError;

/// Time for which a failed search is cached.
const REMEMBERED: Duration = Duration::from_secs(60);
/// Maximum number of cached searches.
const MAX_REMEMBERED: usize = 10_000;

/// Recent searches that failed.
#[derive(Default)]
pub(super) struct InVain(Mutex<HashMap<String, (Instant, LoadError)>>);

impl InVain {
    /// Returns the cached error of a search.
    pub(super) fn get(&self, search: &str) -> Option<LoadError> {
        let searches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, error) = searches.get(search)?;
        (at.elapsed() < REMEMBERED).then(|| error.clone())
    }

    /// Caches the error of a search.
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
