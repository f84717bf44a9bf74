//! Groups at the head of the queues that are paused and keep their place: those behind them are looked at
//! as if they were not there.

use std::collections::{BTreeSet, VecDeque};

use super::error::Result;
use super::frontier::Id;
use super::store::Store;
use super::time::{Millis, of_score};

/// How many groups are passed over at the head of `chg_ready` and of `chg_wait`.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    ready: u64,
    wait: u64,
    /// The score of the last one in `chg_wait`.
    wait_score: f64,
    /// Those of them that something was queued for since: perhaps they can be leased now.
    again: VecDeque<Id>,
    /// When a URI that is not paused comes due in one of them.
    later: BTreeSet<(Millis, Id)>,
}

impl Skipped {
    /// The first position in `chg_ready` that is not passed over.
    pub(super) fn ready(&self) -> u64 {
        self.ready
    }

    /// The first rank in `chg_wait` that is not passed over.
    pub(super) fn wait(&self) -> u64 {
        self.wait
    }

    /// Passes over the first group of `chg_ready`.
    pub(super) fn pass_ready(&mut self) {
        self.ready += 1;
    }

    /// Passes over the first group of `chg_wait`, which has this score.
    pub(super) fn pass_wait(&mut self, score: f64) {
        self.wait += 1;
        self.wait_score = score;
    }

    /// Looks at a group again that is passed over when a URI comes due.
    pub(super) fn look_at(&mut self, due: Millis, id: &Id) {
        self.later.insert((due, id.clone()));
    }

    /// A group left `chg_ready`, not from behind those passed over: it is looked at from its head.
    pub(super) fn ready_changed(&mut self) {
        self.ready = 0;
    }

    /// A group left `chg_wait`, or came to stand among those passed over: it is looked at from its head.
    pub(super) fn wait_changed(&mut self) {
        self.wait = 0;
    }

    /// A group that was passed over in `chg_wait` left it, or went behind the others.
    pub(super) fn one_left_wait(&mut self) {
        self.wait = self.wait.saturating_sub(1);
    }

    /// A group comes into `chg_wait`, or moves in it.
    pub(super) fn comes_to_wait<K: Store>(
        &mut self,
        ks: &mut K,
        wait: &K::Name,
        id: &[u8],
        score: f64,
    ) -> Result<()> {
        if self.wait > 0 && (score <= self.wait_score || ks.zset_score(wait, id)?.is_some()) {
            self.wait = 0;
        }
        Ok(())
    }

    /// Something was queued for a group that may have been passed over.
    pub(super) fn look_again<K: Store>(
        &mut self,
        ks: &mut K,
        wait: &K::Name,
        id: &Id,
    ) -> Result<()> {
        if self.ready == 0 && self.wait == 0 {
            return Ok(());
        }
        match ks.zset_score(wait, id)? {
            None => self.ready = 0,
            Some(score) if score <= self.wait_score => self.again.push_back(id.clone()),
            Some(_) => {}
        }
        Ok(())
    }

    /// One that was passed over in `chg_wait` and is to be looked at again.
    pub(super) fn next_again<K: Store>(
        &mut self,
        ks: &mut K,
        wait: &K::Name,
        now: Millis,
    ) -> Result<Option<Id>> {
        while self.later.first().is_some_and(|(due, _)| *due <= now) {
            let (_, id) = self.later.pop_first().expect("just seen");
            if ks.zset_score(wait, &id)?.is_none() {
                self.ready = 0;
            }
            self.again.push_back(id);
        }
        while let Some(id) = self.again.pop_front() {
            let score = ks.zset_score(wait, &id)?;
            if score.is_some_and(|score| score <= self.wait_score && of_score(score) <= now) {
                return Ok(Some(id));
            }
        }
        Ok(None)
    }

    /// When one that is passed over is to be looked at again.
    pub(super) fn wake_at(&self, now: Millis) -> Option<Millis> {
        match self.later.first() {
            _ if !self.again.is_empty() => Some(now),
            later => later.map(|(due, _)| *due),
        }
    }
}
