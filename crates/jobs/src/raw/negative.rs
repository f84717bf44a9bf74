//! What was looked for in vain.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What was looked for in vain, for a short time: who asks again at once would find nothing, either.
#[derive(Debug)]
pub(super) struct Negative<K, V>(Mutex<HashMap<K, (Instant, V)>>);

impl<K, V> Default for Negative<K, V> {
    fn default() -> Self {
        Negative(Mutex::default())
    }
}

impl<K: Eq + Hash, V: Clone> Negative<K, V> {
    /// Caches the failure of a look-up, and evicts those older than `retry`.
    pub(crate) fn insert(&self, what: K, why: V, retry: Duration) {
        let mut cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Now and then, so that it takes no time to speak of.
        if cache.len().is_power_of_two() {
            cache.retain(|_, (since, _)| since.elapsed() < retry);
        }
        cache.insert(what, (Instant::now(), why));
    }

    /// The failure cached less than `retry` ago.
    pub(crate) fn get(&self, what: &K, retry: Duration) -> Option<V> {
        let cache = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, why) = cache.get(what)?;
        (since.elapsed() < retry).then(|| why.clone())
    }
}
