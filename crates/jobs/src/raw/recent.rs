//! Outcomes of look-ups that are not repeated so soon.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Outcomes of look-ups, for a short time: who asks again at once would find the same.
#[derive(Debug)]
pub(super) struct Recent<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Recent(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Recent<K, V> {
    /// Caches the outcome of a look-up, and evicts those older than `retry`.
    pub(crate) fn insert(&self, what: K, outcome: V, retry: Duration) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Now and then, so that it takes no time to speak of.
        if cache.len().is_power_of_two() {
            cache.retain(|_, (since, _)| since.elapsed() < retry);
        }
        cache.insert(what, (Instant::now(), outcome));
    }

    /// The outcome cached less than `retry` ago.
    pub(crate) fn get(&self, what: &K, retry: Duration) -> Option<V> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, outcome) = cache.get(what)?;
        (since.elapsed() < retry).then(|| outcome.clone())
    }
}
