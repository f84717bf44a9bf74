//! Long work in slices.
//!
//! A job does a little at each step and says whether it is done. Between steps anything may
//! happen: other commands, a crash, a restart. So a job keeps what it must not lose in keys,
//! written in the same step as the work that it counts, and every step is safe to repeat.

use crawlspace_host::keyspace::Batch;
pub use crawlspace_host::slices::{Step, Time};

use super::error::Result;
use super::holders::Unrecorded;
use super::index::Index;
use super::storage::{Of, Source};
use super::store::Store;

/// Work on one index, done in slices.
pub trait Job<K: Store> {
    /// Works until done or out of time. At least a little is done at each step.
    ///
    /// # Errors
    /// What ends the job; what was done stays.
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step>;
}

/// How many entries are read before they are worked on. A batch is always worked off in the slice
/// that read it: nothing read is kept while others may change it.
const BATCH: usize = if cfg!(test) { 2 } else { 32 };

/// How many at first.
const FIRST_BATCH: usize = if cfg!(test) { 2 } else { 8 };

/// A walk over all entries of a hash or set.
pub struct Walk<K: Store> {
    /// What is still to be gone through, the next one last.
    sources: Vec<Source<K>>,
    batch: Batch,
    /// How many entries are read before they are worked on: fewer where the work on each is long, such
    /// as that on a hash that thousands of crawls hold.
    size: usize,
}

impl<K: Store> Walk<K> {
    /// Over the fields of a hash.
    pub fn hash(ks: &mut K, key: K::Name) -> Walk<K> {
        let cursor = ks.cursor();
        Walk::over(vec![Source::Hash(key, cursor)])
    }

    /// Over the members of a set.
    pub fn set(ks: &mut K, key: K::Name) -> Walk<K> {
        let cursor = ks.cursor();
        Walk::over(vec![Source::Set(key, cursor)])
    }

    /// Over one of the hashes that can be in either storage.
    pub fn stored(index: &mut Index<K>, ks: &mut K, of: Of) -> Walk<K> {
        Walk::over(index.sources(ks, &of))
    }

    pub(super) fn over(sources: Vec<Source<K>>) -> Walk<K> {
        Walk {
            sources,
            batch: Batch::default(),
            size: FIRST_BATCH,
        }
    }

    /// Hands every entry to `each` until time is up; true when all were given.
    pub(super) fn run(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        time: Time<'_>,
        mut each: impl FnMut(&mut Index<K>, &mut K, &[u8], &[u8]) -> Result<()>,
    ) -> Result<bool> {
        let mut batches = 0;
        loop {
            let (batch, done) = self.next(index, ks)?;
            index.expect_look_ups(ks, batch)?;
            for (field, value) in batch.iter() {
                each(index, ks, field, value)?;
            }
            batches += 1;
            if !done && time() {
                continue;
            }
            match batches {
                1 => self.size = (self.size / 2).max(1),
                2 | 3 => {}
                _ => self.size = (self.size * 2).min(BATCH),
            }
            return Ok(done);
        }
    }

    /// The next entries, and whether they are the last. They must be worked off in the same slice.
    pub(super) fn next(&mut self, index: &Index<K>, ks: &mut K) -> Result<(&Batch, bool)> {
        self.batch.clear();
        while let Some(source) = self.sources.last_mut() {
            if self.batch.len() >= index.batch(self.size) {
                break;
            }
            if !source.scan(ks, &mut self.batch)? {
                self.sources.pop();
            }
        }
        Ok((&self.batch, self.sources.is_empty()))
    }
}

/// Gives every committed crawl its place in the order of commits: those that plain clients
/// committed get theirs here, sorted by id, before the job that asks gets its own.
pub struct Adoption<K: Store> {
    walk: Option<Walk<K>>,
    /// The opening of the index in which the walk began.
    opening: u64,
    found: Vec<Vec<u8>>,
    unrecorded: Unrecorded,
    listed: bool,
    /// The most records that a commit of ours has left in one crawl.
    most: u64,
}

impl<K: Store> Default for Adoption<K> {
    fn default() -> Self {
        Adoption {
            walk: None,
            opening: 0,
            found: Vec::new(),
            unrecorded: Vec::new(),
            listed: false,
            most: 0,
        }
    }
}

impl<K: Store> Adoption<K> {
    /// Works until done (true) or out of time.
    pub(super) fn step(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        time: Time<'_>,
    ) -> Result<bool> {
        if index.all_adopted() {
            return Ok(true);
        }
        if self.walk.is_none() {
            self.walk = Some(Walk::set(ks, index.names.allcrawls.clone()));
            self.opening = index.opening();
        }
        let walk = self.walk.as_mut().expect("made above");
        let (found, unrecorded) = (&mut self.found, &mut self.unrecorded);
        let most = &mut self.most;
        let complete = walk.run(index, ks, time, |index, ks, crawl, _| {
            *most = index.seen_by_commit(ks, crawl)?.max(*most);
            match index.unrecorded_number(ks, crawl)? {
                Some(u64::MAX) => found.push(crawl.to_vec()),
                Some(number) => unrecorded.push((number, crawl.to_vec())),
                None => {}
            }
            Ok(())
        })?;
        if !complete {
            return Ok(false);
        }
        if self.most > index.merged_len(ks)? {
            // Another program took hashes out of it.
            index.mark_holders_untrusted(ks)?;
        }
        if !self.listed && self.opening == index.opening() {
            index.set_unrecorded(std::mem::take(unrecorded));
            self.listed = true;
        }
        // From the back, so that the crawl with the lowest id is last off and first in order.
        self.found.sort_by(|a, b| b.cmp(a));
        self.found.dedup();
        while let Some(crawl) = self.found.pop() {
            if index.numbers_of(ks, &crawl)?.is_empty() {
                let number = index.next_number(ks)?;
                index.adopt(ks, &crawl, number)?;
            }
            if !time() {
                return Ok(false);
            }
        }
        // A crawl that was committed behind the walk, by a plain client, is the next job's to adopt.
        if self.opening == index.opening() {
            index.set_all_adopted();
        }
        Ok(true)
    }
}
