//! What is under way: `committing` and `removing`, written with each slice of a job, so that one cut
//! short goes on where it was.

use crawlspace_host::text::parse_unsigned;
use rustc_hash::{FxHashMap, FxHashSet};

use super::numbers::{parse_numbers, write_numbers};
use crate::dedupe::counts;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::Names;
use crate::dedupe::store::Store;

/// What a removal under way marks its crawls with, in `removing`.
pub const REMOVE: &[u8] = b"remove";

/// What it marks those with that are out already.
pub const GONE: &[u8] = b"gone";

/// What a cancel under way marks its crawl with, before the number of hashes dropped so far.
const CANCEL: &[u8] = b"cancel ";

fn leaves_whole(state: &[u8]) -> bool {
    state == REMOVE || state == GONE
}

/// A commit under way, as `committing` keeps it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitState {
    /// Its number in the order of commits.
    pub number: u64,
    /// Hashes that became the crawl's own so far.
    pub new: u64,
    /// Hashes met that the index knew.
    pub known: u64,
}

impl CommitState {
    /// Reads the value of a field of `committing`.
    pub fn parse(value: &[u8]) -> Option<CommitState> {
        match parse_numbers(value)[..] {
            [number, new, known] => Some(CommitState { number, new, known }),
            _ => None,
        }
    }

    /// The value that [`CommitState::parse`] reads.
    pub fn to_value(self) -> Vec<u8> {
        write_numbers(&[self.number, self.new, self.known])
    }
}

/// Crawls that jobs are at work on. What was read of their marks is cached.
pub struct UnderWay<K: Store> {
    /// Name of `committing`.
    commits: K::Name,
    /// Name of `removing`.
    removals: K::Name,
    committing: Option<FxHashSet<Box<[u8]>>>,
    /// Crawls on their way out; true for those that leave whole, and not only what is new of them.
    removing: Option<FxHashMap<Box<[u8]>, bool>>,
}

impl<K: Store> UnderWay<K> {
    /// Knows nothing yet.
    pub(super) fn new(names: &Names<K::Name>) -> UnderWay<K> {
        UnderWay {
            commits: names.committing.clone(),
            removals: names.removing.clone(),
            committing: None,
            removing: None,
        }
    }

    /// Returns whether it is known that there are none.
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

    /// Returns whether a commit of the crawl is under way, or was cut short.
    pub(crate) fn is_committing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.committing(ks)?.contains(crawl))
    }

    /// Returns how far the commit of a crawl is.
    pub(crate) fn commit_state(&self, ks: &mut K, crawl: &[u8]) -> Result<Option<CommitState>> {
        Ok(ks
            .hash_get(&self.commits, crawl)?
            .and_then(|value| CommitState::parse(value.as_ref())))
    }

    /// Writes down how far a commit is; `None` when it has ended.
    pub(crate) fn set_commit_state(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        state: Option<CommitState>,
    ) -> Result<()> {
        // Before it is written, so that it is not read twice.
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

    /// Returns whether the crawl is being removed or canceled, or such a job was cut short.
    pub(crate) fn is_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.contains_key(crawl))
    }

    /// Returns whether the crawl is being removed whole. Look-ups skip it from the start, so that all
    /// of it goes at once.
    pub(crate) fn is_leaving(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.get(crawl) == Some(&true))
    }

    /// Returns whether an unfinished removal has already taken this crawl out.
    pub(crate) fn is_gone(&self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let state = ks.hash_get(&self.removals, crawl)?;
        Ok(state.is_some_and(|state| state.as_ref() == GONE))
    }

    /// Returns whether the crawl is being canceled, or a cancel was cut short.
    pub(crate) fn is_canceling(&self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let state = ks.hash_get(&self.removals, crawl)?;
        Ok(state.is_some_and(|state| state.as_ref().starts_with(CANCEL)))
    }

    /// Returns how many hashes a cancel of the crawl has dropped, if one is under way or was cut short.
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

    /// Marks a crawl as being removed (`Some(state)`), or no longer.
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

    /// Ends a removal: its marks go, those of cancels that were cut short stay.
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

    /// Refuses work on a crawl that is on its way out.
    ///
    /// # Errors
    /// `REMOVING` while it is being removed or canceled.
    pub(crate) fn refuse_while_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.is_removing(ks, crawl)? {
            return Err(Error::Removing(crawl.to_vec()));
        }
        Ok(())
    }
}
