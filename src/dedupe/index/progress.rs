//! What is under way: `committing` and `removing`, written with each slice of a job, so that one cut
//! short goes on where it was.

use rustc_hash::{FxHashMap, FxHashSet};

use super::Index;
use super::holders::{parse_numbers, write_numbers};
use crate::dedupe::counts;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::store::Store;

/// What a removal under way marks its crawls with, in `removing`.
pub const REMOVE: &[u8] = b"remove";

/// What it marks those with that are out already.
pub const GONE: &[u8] = b"gone";

/// What a cancel under way marks its crawl with, before the number of hashes dropped so far.
pub const CANCEL: &[u8] = b"cancel ";

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

/// Which crawls jobs are at work on, as far as it was asked.
#[derive(Default)]
pub(super) struct UnderWay {
    committing: Option<FxHashSet<Box<[u8]>>>,
    /// Crawls on their way out; true for those that leave whole, and not only what is new of them.
    removing: Option<FxHashMap<Box<[u8]>, bool>>,
}

impl UnderWay {
    /// Whether it is known that there are none.
    pub fn is_nothing(&self) -> bool {
        self.committing.as_ref().is_some_and(FxHashSet::is_empty)
            && self.removing.as_ref().is_some_and(FxHashMap::is_empty)
    }
}

impl<K: Store> Index<K> {
    fn committing(&mut self, ks: &mut K) -> Result<&mut FxHashSet<Box<[u8]>>> {
        if self.under_way.committing.is_none() {
            let batch = counts::fields(ks, &self.names.committing)?;
            let crawls = batch.iter().map(|(crawl, _)| crawl.into());
            self.under_way.committing = Some(crawls.collect());
        }
        Ok(self.under_way.committing.as_mut().expect("read above"))
    }

    /// Whether a commit of the crawl is under way, or was cut short.
    pub(crate) fn is_committing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.committing(ks)?.contains(crawl))
    }

    /// How far the commit of a crawl is.
    pub(crate) fn commit_state(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<CommitState>> {
        Ok(ks
            .hash_get(&self.names.committing, crawl)?
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
                ks.hash_set(&self.names.committing, crawl, &state.to_value())?;
                self.committing(ks)?.insert(crawl.into());
            }
            None => {
                ks.hash_del(&self.names.committing, crawl)?;
                self.committing(ks)?.remove(crawl);
            }
        }
        Ok(())
    }

    /// Whether the crawl is being removed or canceled, or such a job was cut short.
    pub(crate) fn is_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.contains_key(crawl))
    }

    /// Whether the crawl is being removed whole. Look-ups skip it from the start, so that all
    /// of it goes at once.
    pub(crate) fn is_leaving(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.removing(ks)?.get(crawl) == Some(&true))
    }

    fn removing(&mut self, ks: &mut K) -> Result<&FxHashMap<Box<[u8]>, bool>> {
        if self.under_way.removing.is_none() {
            let marks = counts::fields(ks, &self.names.removing)?;
            let marks = marks
                .iter()
                .map(|(crawl, state)| (crawl.into(), leaves_whole(state)));
            self.under_way.removing = Some(marks.collect());
        }
        Ok(self.under_way.removing.as_ref().expect("read above"))
    }

    /// Marks a crawl as being removed (`Some(state)`), or no longer.
    pub(crate) fn set_removing(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        state: Option<&[u8]>,
    ) -> Result<()> {
        match state {
            Some(state) => ks.hash_set(&self.names.removing, crawl, state)?,
            None => ks.hash_del(&self.names.removing, crawl)?,
        };
        if let Some(removing) = &mut self.under_way.removing {
            match state {
                Some(state) => removing.insert(crawl.into(), leaves_whole(state)),
                None => removing.remove(crawl),
            };
        }
        Ok(())
    }

    /// Ends a removal: nothing is marked any more.
    pub(crate) fn clear_removing(&mut self, ks: &mut K) -> Result<()> {
        ks.delete(&self.names.removing)?;
        self.under_way.removing = None;
        Ok(())
    }

    /// Refuses work on a crawl that is on its way out.
    pub(crate) fn refuse_while_removing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.is_removing(ks, crawl)? {
            return Err(Error::Removing(crawl.to_vec()));
        }
        Ok(())
    }
}
