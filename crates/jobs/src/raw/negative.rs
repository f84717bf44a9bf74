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
    /// Remembers it, and forgets what is older than `retry`.
    pub(crate) fn remember(&self, what: K, why: V, retry: Duration) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Now and then, so that it takes no time to speak of.
        if known.len().is_power_of_two() {
            known.retain(|_, (since, _)| since.elapsed() < retry);
        }
        known.insert(what, (Instant::now(), why));
    }

    /// What was remembered less than `retry` ago.
    pub(crate) fn recall(&self, what: &K, retry: Duration) -> Option<V> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, why) = known.get(what)?;
        (since.elapsed() < retry).then(|| why.clone())
    }
}
