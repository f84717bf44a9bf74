//! Long work on one frontier, in slices: between slices anything may happen, so the frontier is whole
//! wherever a job pauses.

use crawlspace_host::keyspace::Batch;
use crawlspace_host::slices;
pub use crawlspace_host::slices::{Step, Time};

use super::error::{Error, Result};
use super::frontier::Frontier;
use super::store::Store;

/// Work on one frontier, done in slices.
pub type Job<K> = slices::Job<Frontier<K>, K, Error>;

/// A frontier and its keys, as they are lent to a job.
pub(super) type Lent<K> = slices::Lent<Frontier<K>, K>;

/// What a scan goes over.
enum Over<N> {
    /// Keys of the frontier.
    Keys,
    Hash(N),
    SortedSet(N),
}

/// A scan in batches: each entry that is there from the beginning to the end is given, and may be given
/// again.
pub(super) struct Scan<'a, K: Store> {
    lent: &'a Lent<K>,
    over: Over<K::Name>,
    cursor: K::Cursor,
    more: bool,
    batch: Batch,
}

impl<'a, K: Store> Scan<'a, K> {
    /// Over the names of all keys of the frontier.
    pub(super) fn keys(lent: &'a Lent<K>) -> Scan<'a, K> {
        Scan::over(lent, Over::Keys)
    }

    /// Over the fields of a hash.
    pub(super) fn hash(lent: &'a Lent<K>, key: K::Name) -> Scan<'a, K> {
        Scan::over(lent, Over::Hash(key))
    }

    /// Over the members of a sorted set.
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

    /// The next entries, read in the slice that goes on when this returns; `None` at the end. Pauses
    /// only where nothing was found.
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
