//! Long-running work in time slices: the building blocks of dedupe jobs.
//!
//! A job is an async function that borrows the index and its keys for one slice at a time. Anything
//! may happen between two slices: other commands, a crash, a restart. Therefore a job stores counts
//! in keys, in the same slice as the counted work, and every part of a job can be repeated safely.

use std::collections::BTreeSet;

use crawlspace_host::keyspace::Batch;
use crawlspace_host::slices;
pub use crawlspace_host::slices::{Step, Time};

use super::error::{Error, Result};
use super::index::Index;
use super::index::storage::{Of, Source};
use super::keys::Pick;
use super::store::Store;

/// A job on an index.
pub type Job<K> = slices::Job<Index<K>, K, Error>;

/// The index and its keys, which a job borrows for one slice.
pub type Lent<K> = slices::Lent<Index<K>, K>;

/// Maximum number of entries per batch. A batch is always processed in the slice that read it, because other
/// clients may change entries between slices.
const BATCH: usize = if cfg!(test) { 2 } else { 32 };

/// Number of entries in the first batch.
const FIRST_BATCH: usize = if cfg!(test) { 2 } else { 8 };

/// A walk over all entries of a hash or set.
pub struct Walk<K: Store> {
    /// Sources still to be walked, the next one last.
    sources: Vec<Source<K>>,
    batch: Batch,
    given: u64,
    /// Fields that a scan returned in addition to a full batch. A server returns a small hash in
    /// one step. If the walk deletes fields, the server also returns the last fields of a large
    /// hash in one step, because few buckets remain.
    left: Vec<Box<[u8]>>,
    left_of: Option<K::Name>,
    /// Number of entries per batch. The number is smaller if each entry takes long to process, for
    /// example, if thousands of crawls hold a hash.
    size: usize,
}

impl<K: Store> Walk<K> {
    /// Walks the fields of a hash.
    pub fn hash(ks: &mut K, key: K::Name) -> Walk<K> {
        let cursor = ks.cursor();
        Walk::over(vec![Source::Hash(key, cursor)])
    }

    /// Walks the members of a set.
    pub fn set(ks: &mut K, key: K::Name) -> Walk<K> {
        let cursor = ks.cursor();
        Walk::over(vec![Source::Set(key, cursor)])
    }

    /// Walks the members of a sorted set.
    pub fn sorted_set(ks: &mut K, key: K::Name) -> Walk<K> {
        let cursor = ks.cursor();
        Walk::over(vec![Source::SortedSet(key, cursor)])
    }

    /// Walks a hash that can be in either storage.
    pub fn stored(index: &mut Index<K>, ks: &mut K, of: Of) -> Walk<K> {
        Walk::over(index.places.sources(ks, &mut index.crawls, &of))
    }

    pub(super) fn over(sources: Vec<Source<K>>) -> Walk<K> {
        Walk {
            sources,
            batch: Batch::default(),
            given: 0,
            left: Vec::new(),
            left_of: None,
            size: FIRST_BATCH,
        }
    }

    /// Passes every entry to `each`, and pauses between batches when the slice has used up its time.
    ///
    /// # Errors
    /// The first error of `each`, or of a read.
    pub(super) async fn run(
        mut self,
        lent: &Lent<K>,
        mut each: impl FnMut(&mut Index<K>, &mut K, &[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        lent.slices(|index, ks, time| self.slice(index, ks, time, &mut each))
            .await
    }

    /// Passes entries to `each` until the slice has used up its time. Returns true after the last entry.
    ///
    /// # Errors
    /// The errors of [`Walk::run`].
    pub(super) fn slice(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        time: Time<'_>,
        mut each: impl FnMut(&mut Index<K>, &mut K, &[u8], &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut batches = 0;
        loop {
            let (batch, done) = self.next(index, ks)?;
            if let (Some(key), true) = (index.places.packed_key(), batch.len() > 1) {
                let fields = batch.iter().map(|(field, _)| field);
                ks.packed(key, |packed| packed.expect_look_ups(fields))?;
            }
            for (field, value) in batch.iter() {
                each(index, ks, field, value)?;
            }
            batches += 1;
            if !done && time() {
                continue;
            }
            self.adapt(batches);
            return Ok(done);
        }
    }

    /// Adapts the batch size to the number of batches in a slice, so that a slice overruns by at most one batch.
    pub(super) fn adapt(&mut self, batches: usize) {
        match batches {
            ..4 => self.size = (self.size / 2).max(1),
            4..8 => {}
            _ => self.size = (self.size * 2).min(BATCH),
        }
    }

    /// Returns the next entries, and true if they are the last ones. The caller must process these entries in the
    /// same slice.
    pub(super) fn next(&mut self, index: &Index<K>, ks: &mut K) -> Result<(&Batch, bool)> {
        self.batch.clear();
        let size = index.ledger.batch(self.size);
        while self.batch.len() < size
            && let (Some(hash), Some(field)) = (&self.left_of, self.left.pop())
        {
            // Read the value again, because other clients may have changed it since the scan.
            if let Some(value) = ks.hash_get(hash, &field)? {
                self.batch.push(&field, value.as_ref());
            }
        }
        // A scan may return these fields again, but a batch must contain each field only once.
        let is_left = !self.batch.is_empty();
        while !is_left && self.batch.len() < size {
            let Some(source) = self.sources.last_mut() else {
                break;
            };
            let more = source.scan(ks, &mut self.batch)?;
            if let (Source::Hash(key, _), true) = (&*source, self.batch.len() > 2 * size) {
                self.left_of = Some(key.clone());
                let beyond = (size..self.batch.len()).map(|i| self.batch.get(i).0.into());
                self.left.extend(beyond);
                self.batch.truncate(size);
            }
            if !more {
                self.sources.pop();
            }
        }
        self.given += self.batch.len() as u64;
        let done = self.sources.is_empty() && self.left.is_empty();
        Ok((&self.batch, done))
    }

    /// Returns the number of entries that the walk has returned so far.
    pub(super) fn given(&self) -> u64 {
        self.given
    }
}

/// Returns all crawls that are in any of these sets, sorted.
///
/// # Errors
///
/// `WRONGTYPE` if a key holds another type; errors of the server.
pub(super) async fn crawls_in<K: Store>(
    lent: &Lent<K>,
    sets: &[Pick<K::Name>],
) -> Result<Vec<Vec<u8>>> {
    let mut crawls = BTreeSet::new();
    for set in sets {
        let set = lent.with(|index, ks| Walk::set(ks, set(index.names()).clone()));
        let note = |_: &mut Index<K>, _: &mut K, crawl: &[u8], _: &[u8]| {
            crawls.insert(crawl.to_vec());
            Ok(())
        };
        set.run(lent, note).await?;
    }
    Ok(crawls.into_iter().collect())
}

/// Number of crawls that are processed between two checks of the time. Therefore, a job over few crawls
/// needs only one slice.
const CRAWLS_AT_ONCE: usize = 16;

/// Passes each crawl in any of these sets to `each`, in sorted order.
///
/// # Errors
/// The errors of `each`; `WRONGTYPE` if a key holds another type; errors of the server.
pub(super) async fn each_crawl<K: Store>(
    lent: &Lent<K>,
    sets: &[Pick<K::Name>],
    mut each: impl FnMut(&mut Index<K>, &mut K, &[u8]) -> Result<()>,
) -> Result<()> {
    let crawls = crawls_in(lent, sets).await?;
    let mut chunks = crawls.chunks(CRAWLS_AT_ONCE);
    let work = |index: &mut Index<K>, ks: &mut K, time: Time<'_>| {
        for crawls in chunks.by_ref() {
            for crawl in crawls {
                each(index, ks, crawl)?;
            }
            if !time() {
                break;
            }
        }
        Ok(chunks.len() == 0)
    };
    lent.slices(work).await
}

#[cfg(test)]
mod tests {
    use crawlspace_host::keyspace::Keyspace;

    use super::*;
    use crate::dedupe::profile::Profile;
    use crate::dedupe::store::MemoryKeyspace;

    #[test]
    fn walk_processes_large_scan_results_in_small_batches() {
        let mut ks = MemoryKeyspace::default();
        let index = Index::open(&mut ks, b"", Profile::default(), false).unwrap();
        let key = b"h:crawl".to_vec();
        let fields: Vec<Vec<u8>> = (b'a'..=b'p').map(|field| vec![field]).collect();
        for field in &fields {
            ks.hash_set(&key, field, b"before").unwrap();
        }
        let mut walk = Walk::hash(&mut ks, key.clone());
        walk.size = 1;
        let mut found = Vec::new();
        loop {
            let (batch, done) = walk.next(&index, &mut ks).unwrap();
            assert!(batch.len() <= 2, "{batch:?}");
            let value = if found.is_empty() {
                b"before"
            } else {
                &b"after"[..]
            };
            assert!(batch.iter().all(|(_, now)| now == value));
            found.extend(batch.iter().map(|(field, _)| field.to_vec()));
            if done {
                break;
            }
            // Deletes the fields whose value was read, and changes the other fields.
            for field in &fields {
                if found.contains(field) {
                    ks.hash_del(&key, field).unwrap();
                } else {
                    ks.hash_set(&key, field, b"after").unwrap();
                }
            }
        }
        found.sort();
        assert_eq!(found, fields);
    }
}
