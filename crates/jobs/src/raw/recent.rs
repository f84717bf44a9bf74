//! Caches the outcomes of look-ups for a short time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A cache of the outcomes of look-ups. An outcome expires after a while; until then, repeating the
/// look-up would most likely have the same outcome.
#[derive(Debug)]
pub(super) struct Recent<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// Caches the outcome of a look-up, and evicts outcomes older than `retry`.
    pub(crate) fn insert(&self, what: K, outcome: V, retry: Duration) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Evict rarely, so that it costs almost nothing.
        if cache.len().is_power_of_two() {
            cache.retain(|_, (since, _)| since.elapsed() < retry);
        }
        cache.insert(what, (Instant::now(), outcome));
    }

    /// Returns the outcome of a look-up, if it was cached less than `retry` ago.
    pub(crate) fn get(&self, what: &K, retry: Duration) -> Option<V> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, outcome) = cache.get(what)?;
        (since.elapsed() < retry).then(|| outcome.clone())
    }
}
