//! A cached lower bound of the earliest time in a sorted set.

use super::error::Result;
use super::store::Store;
use super::time::{Millis, of_score};

/// A lower bound of the times in a sorted set; `None` if unknown.
#[derive(Default)]
pub(super) struct First(Option<Millis>);

impl First {
    /// Invalidates the cached bound.
    pub(super) fn invalidate(&mut self) {
        self.0 = None;
    }

    /// Returns true if the sorted set is known to be empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0 == Some(Millis::MAX)
    }

    /// Updates the bound after a member with this time was added.
    pub(super) fn add(&mut self, at: Millis) {
        self.0 = self.0.map(|first| first.min(at));
    }

    /// Reads the first member with its score.
    pub(super) fn read<K: Store>(
        &mut self,
        ks: &mut K,
        key: &K::Name,
    ) -> Result<Option<(K::Value, f64)>> {
        let first = ks.zset_at(key, 0)?;
        let at = first.as_ref().map(|(_, score)| of_score(*score));
        self.0 = Some(at.unwrap_or(Millis::MAX));
        Ok(first)
    }

    /// Returns the first member if it is due. Reads nothing if the bound shows that the first
    /// member is not due.
    pub(super) fn due<K: Store>(
        &mut self,
        ks: &mut K,
        key: &K::Name,
        now: Millis,
    ) -> Result<Option<(K::Value, f64)>> {
        if self.0.is_some_and(|first| first > now) {
            return Ok(None);
        }
        let first = self.read(ks, key)?;
        Ok(first.filter(|(_, score)| of_score(*score) <= now))
    }

    /// Returns the time of the first member.
    pub(super) fn at<K: Store>(&mut self, ks: &mut K, key: &K::Name) -> Result<Option<Millis>> {
        if self.0.is_none() {
            self.read(ks, key)?;
        }
        Ok(self.0.filter(|&first| first < Millis::MAX))
    }
}
