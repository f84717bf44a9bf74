//! Progress of running jobs in `committing` and `removing`. Each slice updates the progress, so
//! that an interrupted job resumes where it stopped.

use crawlspace_host::text::parse_unsigned;
use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::{parse_numbers, write_numbers};
use crate::dedupe::counts;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::Names;
use crate::dedupe::store::Store;

/// Mark in `removing` of a crawl that is being removed.
pub const REMOVE: &[u8] = b"remove";

/// Mark of a crawl that a running removal has already removed.
pub const GONE: &[u8] = b"gone";

/// Mark of a crawl that is being canceled, followed by the number of hashes dropped so far.
const CANCEL: &[u8] = b"cancel ";

fn leaves_whole(state: &[u8]) -> bool {
    state == REMOVE || state == GONE
}

/// The progress of a commit, as stored in `committing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitState {
    /// Commit number.
    pub number: u64,
    /// Number of hashes so far for which the crawl became the owner.
    pub new: u64,
    /// Number of hashes so far that the index already had.
    pub known: u64,
}

impl CommitState {
    /// Parses the value of a field of `committing`.
    pub fn parse(value: &[u8]) -> Option<CommitState> {
        match parse_numbers(value)[..] {
            [number, new, known] => Some(CommitState { number, new, known }),
            _ => None,
        }
    }

    /// Formats the value that [`CommitState::parse`] reads.
    pub fn to_value(self) -> Vec<u8> {
        write_numbers(&[self.number, self.new, self.known])
    }
}

/// The crawls that jobs are working on, with a cache of their marks.
pub struct UnderWay<K: Store> {
    /// Name of the key `committing`.
    commits: K::Name,
    /// Name of the key `removing`.
    removals: K::Name,
    committing: Option<FxHashSet<Box<[u8]>>>,
    /// Crawls that are being removed (true), or whose uncommitted records are being canceled
    /// (false).
    removing: Option<FxHashMap<Box<[u8]>, bool>>,
}

impl<K: Store> UnderWay<K> {
    /// Creates an empty cache.
    pub(super) fn new(names: &Names<K::Name>) -> UnderWay<K> {
        UnderWay {
            commits: names.committing.clone(),
            removals: names.removing.clone(),
            committing: None,
            removing: None,
        }
    }

    /// Returns true if, according to the cache, no job is running.
    pub(super) fn is_nothing(&self) -> bool {
        self.committing.as_ref().is_some_and(FxHashSet::is_empty)
            && self.removing.as_ref().is_some_and(FxHashMap::is_empty)
    }

    fn committing(&mut self, ks: &mut K) -> Result<&mut FxHashSet<Box<[u8]>>> {
        if self.committing.is_none() {
            let batch = counts::fields(ks, &self.commits)?;
            let crawls = batch.iter().map(|(crawl, _)| crawl.into());
            self.committing = Some(crawls.collect());
        }
        Ok(self.committing.as_mut().expect("read above"))
    }

    /// Returns true if a commit of the crawl is running, or was interrupted.
    pub(crate) fn is_committing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.committing(ks)?.contains(crawl))
    }

    /// Returns the progress of a crawl's commit.
    pub(crate) fn commit_state(&self, ks: &mut K, crawl: &[u8]) -> Result<Option<CommitState>> {
        Ok(ks
            .hash_get(&self.commits, crawl)?
            .and_then(|value| CommitState::parse(value.as_ref())))
    }

    /// Stores the progress of a commit; `None` when it has ended.
    pub(crate) fn set_commit_state(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        state: Option<CommitState>,
    ) -> Result<()> {
        // Load the cache before the write; otherwise, it would have to be read again afterwards.
        self.committing(ks)?;
        match state {
            Some(state) => {
                ks.hash_set(&self.commits, crawl, &state.to_value())?;
                self.committing(ks)?.insert(crawl.into());
            }
            None => {
                ks.hash_del(&self.commits, crawl)?;
                self.committing(ks)?.remove(crawl);
            }
        }
        Ok(())
    }

    /// Returns true if the crawl is being removed or canceled, or if such a job was interrupted.
    pub(crate) fn is_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.contains_key(crawl))
    }

    /// Returns true if the whole crawl is being removed. Lookups skip such a crawl from the start
    /// of the removal, so that it disappears at once.
    pub(crate) fn is_leaving(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.get(crawl) == Some(&true))
    }

    /// Returns true if an unfinished removal has already removed this crawl.
    pub(crate) fn is_gone(&self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let state = ks.hash_get(&self.removals, crawl)?;
        Ok(state.is_some_and(|state| state.as_ref() == GONE))
    }

    /// Returns true if the crawl is being canceled, or a cancel was interrupted.
    pub(crate) fn is_canceling(&self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let state = ks.hash_get(&self.removals, crawl)?;
        Ok(state.is_some_and(|state| state.as_ref().starts_with(CANCEL)))
    }

    /// Returns the number of hashes that a running or interrupted cancel of the crawl has dropped.
    pub(crate) fn canceled(&self, ks: &mut K, crawl: &[u8]) -> Result<Option<u64>> {
        let state = ks.hash_get(&self.removals, crawl)?;
        Ok(state.and_then(|state| parse_unsigned(state.as_ref().strip_prefix(CANCEL)?)))
    }

    fn removing(&mut self, ks: &mut K) -> Result<&FxHashMap<Box<[u8]>, bool>> {
        if self.removing.is_none() {
            let marks = counts::fields(ks, &self.removals)?;
            let marks = marks
                .iter()
                .map(|(crawl, state)| (crawl.into(), leaves_whole(state)));
            self.removing = Some(marks.collect());
        }
        Ok(self.removing.as_ref().expect("read above"))
    }

    /// Marks a crawl as being removed (`Some(state)`), or removes the mark.
    pub(crate) fn set_removing(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        state: Option<&[u8]>,
    ) -> Result<()> {
        match state {
            Some(state) => ks.hash_set(&self.removals, crawl, state)?,
            None => ks.hash_del(&self.removals, crawl)?,
        };
        if let Some(removing) = &mut self.removing {
            match state {
                Some(state) => removing.insert(crawl.into(), leaves_whole(state)),
                None => removing.remove(crawl),
            };
        }
        Ok(())
    }

    /// Marks a crawl as being canceled, with the number of hashes dropped so far.
    pub(crate) fn set_canceled(&mut self, ks: &mut K, crawl: &[u8], dropped: u64) -> Result<()> {
        let state = [CANCEL, dropped.to_string().as_bytes()].concat();
        self.set_removing(ks, crawl, Some(&state))
    }

    /// Ends a removal: deletes its marks, and keeps the marks of interrupted cancels.
    pub(crate) fn end_removal(&mut self, ks: &mut K) -> Result<()> {
        let marks = counts::fields(ks, &self.removals)?;
        if !marks.iter().any(|(_, state)| state.starts_with(CANCEL)) {
            ks.delete(&self.removals)?;
            self.removing = None;
            return Ok(());
        }
        for (crawl, state) in marks.iter() {
            if !state.starts_with(CANCEL) {
                self.set_removing(ks, crawl, None)?;
            }
        }
        Ok(())
    }

    /// Refuses work on a crawl that is being removed.
    ///
    /// # Errors
    /// `REMOVING` while the crawl is being removed or canceled.
    pub(crate) fn refuse_while_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.is_removing(ks, crawl)? {
            return Err(Error::Removing(crawl.to_vec()));
        }
        Ok(())
    }
}
