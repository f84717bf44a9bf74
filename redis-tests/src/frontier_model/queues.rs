//! The queues of groups: waiting, ready and leased.

use std::collections::{BTreeMap, BTreeSet};

use super::FrontierModel;

/// Number of entries at each end of `chg_ready` that are searched for a group.
const SEARCHED: usize = 100;

/// Maximum number of groups that become due in the same millisecond and keep their order.
const ARRIVALS: u32 = 2048;

/// A position in `chg_wait`: a time, and the order within this millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Score {
    pub ms: i64,
    nth: u32,
}

impl Score {
    /// Returns the first position of a millisecond.
    pub fn at(ms: i64) -> Score {
        Score { ms, nth: 0 }
    }

    /// Returns a position after all other positions of this millisecond.
    pub fn last_of(ms: i64) -> Score {
        let nth = ARRIVALS - 2;
        Score { ms, nth }
    }

    /// Returns the score in the plain key.
    pub fn shown(self) -> f64 {
        let is_last = self == Score::last_of(self.ms);
        let part = f64::from(self.nth) / f64::from(ARRIVALS);
        self.ms as f64 + if is_last { 0.999 } else { part }
    }
}

/// Names sorted by a score, then by name, like a sorted set.
#[derive(Clone, Debug, Default)]
pub struct Queue<S: Ord> {
    order: BTreeSet<(S, String)>,
    scores: BTreeMap<String, S>,
}

impl<S: Ord + Copy> Queue<S> {
    pub fn set(&mut self, name: &str, score: S) {
        if self.get(name) == Some(score) {
            return;
        }
        self.remove(name);
        self.order.insert((score, name.to_owned()));
        self.scores.insert(name.to_owned(), score);
    }

    /// Removes a name. Returns true if the name existed.
    pub fn remove(&mut self, name: &str) -> bool {
        let score = self.scores.remove(name);
        score.is_some_and(|score| self.order.remove(&(score, name.to_owned())))
    }

    pub fn get(&self, name: &str) -> Option<S> {
        self.scores.get(name).copied()
    }

    pub fn nth(&self, n: usize) -> Option<(S, String)> {
        self.order.iter().nth(n).cloned()
    }

    pub fn first(&self) -> Option<(S, String)> {
        self.nth(0)
    }

    /// Returns the first name that is not among these.
    pub fn first_but(&self, names: &BTreeSet<String>) -> Option<(S, String)> {
        let mut order = self.order.iter();
        order.find(|(_, name)| !names.contains(name)).cloned()
    }

    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn in_order(&self) -> Vec<String> {
        self.order.iter().map(|(_, name)| name.clone()).collect()
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.scores.keys()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&String, S)> {
        self.scores.iter().map(|(name, score)| (name, *score))
    }
}

impl FrontierModel {
    /// Puts a group into `chg_wait`. Groups that are due now keep their order of arrival.
    pub(super) fn wait_from(&mut self, chg: &str, due: i64) {
        self.group(chg).due = due;
        let mut score = Score::at(due);
        // If simulated time goes backwards, groups from the later time keep their order.
        if due == self.now && self.now >= self.arrivals.0 {
            let (ms, nth) = self.arrivals;
            let nth = if ms == due {
                (nth + 1).min(ARRIVALS - 1)
            } else {
                0
            };
            self.arrivals = (due, nth);
            score.nth = nth;
        }
        self.enter_wait(chg, score);
    }

    /// Puts a group into `chg_wait` with this time. Groups with equal times are ordered by id.
    pub(super) fn wait_at(&mut self, chg: &str, due: i64) {
        self.group(chg).due = due;
        self.enter_wait(chg, Score::at(due));
    }

    /// Puts a group into `chg_wait`, or changes its position there.
    pub(super) fn enter_wait(&mut self, chg: &str, score: Score) {
        self.wait.set(chg, score);
    }

    /// Removes a group from `chg_wait`. Returns true if the group was in `chg_wait`.
    pub(super) fn leave_wait(&mut self, chg: &str) -> bool {
        self.wait.remove(chg)
    }

    /// Queues a group that is in no queue.
    pub(super) fn queue(&mut self, chg: &str, due: i64) {
        if due <= self.now {
            self.group(chg).due = due;
            self.ready.push_back(chg.to_owned());
        } else {
            self.wait_at(chg, due);
        }
    }

    /// Removes a group from its queue if it was runnable before and is not any more.
    pub(super) fn leave_queues(&mut self, chg: &str, was_runnable: bool) {
        if !was_runnable || self.group(chg).is_runnable() || self.leave_wait(chg) {
            return;
        }
        if !self.leave_gate(chg) {
            self.leave_ready(chg);
        }
    }

    /// Removes a group from `chg_ready` if it is near either end.
    pub(super) fn leave_ready(&mut self, chg: &str) -> bool {
        let len = self.ready.len();
        let tail = len.saturating_sub(SEARCHED).max(SEARCHED)..len;
        let mut near = (0..len.min(SEARCHED)).chain(tail);
        let at = near.find(|at| self.ready[*at] == chg);
        if let Some(at) = at {
            self.ready.remove(at);
        }
        at.is_some()
    }

    /// Updates a queued group after one of its leases ended, because the returned URI may be due
    /// before the current time of the group.
    pub(super) fn come_forward(&mut self, chg: &str, counted: bool) {
        let now = self.now;
        let group = self.group(chg);
        let earliest = if counted {
            Some(0)
        } else {
            group.kept.earliest(|_| true)
        };
        let due = earliest.map(|due| due.max(group.closed_until()).max(now));
        if let Some(due) = due.filter(|due| *due < group.due)
            && self.wait.get(chg).is_some()
        {
            self.wait_from(chg, due);
        }
    }

    /// Sets the score of a group in `chg_busy` to its first deadline.
    pub(super) fn show_busy(&mut self, chg: &str) {
        match self.group(chg).first_deadline() {
            Some(deadline) => self.busy.set(chg, deadline),
            None => drop(self.busy.remove(chg)),
        }
    }
}
