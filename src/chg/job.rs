//! Long operations on one frontier, in slices. Other commands may run between slices, so a job
//! leaves the frontier consistent whenever it pauses.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::slices;
pub use crawlspace_host::slices::{Step, Time};

use super::error::{Error, Result};
use super::frontier::Frontier;
use super::store::Store;

/// A long operation on one frontier, which runs in slices.
pub type Job<K> = slices::Job<Frontier<K>, K, Error>;

/// A frontier and its keys, as lent to a job for one slice.
pub(super) type Lent<K> = slices::Lent<Frontier<K>, K>;

/// The entries that a scan visits.
enum Over<N> {
    /// Keys of the frontier.
    Keys,
    Hash(N),
    SortedSet(N),
}

/// A scan in batches. The scan returns each entry that exists during the whole scan at least once.
pub(super) struct Scan<'a, K: Store> {
    lent: &'a Lent<K>,
    over: Over<K::Name>,
    cursor: K::Cursor,
    more: bool,
    batch: Batch,
}

impl<'a, K: Store> Scan<'a, K> {
    /// Scans the names of all keys of the frontier.
    pub(super) fn keys(lent: &'a Lent<K>) -> Scan<'a, K> {
        Scan::over(lent, Over::Keys)
    }

    /// Scans the fields of a hash.
    pub(super) fn hash(lent: &'a Lent<K>, key: K::Name) -> Scan<'a, K> {
        Scan::over(lent, Over::Hash(key))
    }

    /// Scans the members of a sorted set.
    pub(super) fn sorted_set(lent: &'a Lent<K>, key: K::Name) -> Scan<'a, K> {
        Scan::over(lent, Over::SortedSet(key))
    }

    fn over(lent: &'a Lent<K>, over: Over<K::Name>) -> Scan<'a, K> {
        Scan {
            lent,
            over,
            cursor: lent.with(|_, ks| ks.cursor()),
            more: true,
            batch: Batch::default(),
        }
    }

    /// Returns the next entries, or `None` at the end. The caller runs in the same slice in which
    /// the entries were read: this function only pauses if a step of the scan returned no entries.
    pub(super) async fn next(&mut self) -> Result<Option<&Batch>> {
        self.batch.clear();
        while self.more && self.batch.is_empty() {
            let (cursor, batch) = (&mut self.cursor, &mut self.batch);
            self.more = self.lent.with(|frontier, ks| match &self.over {
                Over::Keys => Ok(ks.keys_scan(&frontier.keys.prefix, cursor, batch)),
                Over::Hash(key) => ks.hash_scan(key, cursor, batch),
                Over::SortedSet(key) => ks.zset_scan(key, cursor, batch),
            })?;
            if self.more && self.batch.is_empty() {
                self.lent.pause().await;
            }
        }
        Ok((!self.batch.is_empty()).then_some(&self.batch))
    }
}
