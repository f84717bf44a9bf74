//! The three queues of groups, `chg_wait`, `chg_ready` and `chg_busy`, and the positions in these
//! queues at which searches continue.

use std::rc::Rc;

use super::error::Result;
use super::first::First;
use super::groups::Loaded;
use super::keys::Keys;
use super::skipped::{Place, Position, Skipped};
use super::store::Store;
use super::time::{Arrivals, Millis, of_score};

/// Maximum number of entries at each end of `chg_ready` that are searched for an emptied group. If
/// the group is further away from both ends, a search will skip it when it reaches the head.
const MAX_SEARCHED: u64 = 100;

/// The queues of a frontier.
pub(super) struct Queues<K: Store> {
    keys: Rc<Keys<K>>,
    arrivals: Arrivals,
    /// Paused groups at the heads of the queues.
    pub skipped: Skipped,
    /// Time when the first lease expires.
    first_busy: First,
}

impl<K: Store> Queues<K> {
    pub(super) fn new(keys: Rc<Keys<K>>) -> Queues<K> {
        Queues {
            keys,
            arrivals: Arrivals::default(),
            skipped: Skipped::default(),
            first_busy: First::default(),
        }
    }

    /// Copies the order of arrival from another instance for the same frontier.
    pub(super) fn take_over(&mut self, other: &mut Queues<K>) {
        self.arrivals = std::mem::take(&mut other.arrivals);
    }

    /// Invalidates the cached contents of the keys.
    pub(super) fn invalidate(&mut self) {
        self.search_from_head();
        self.first_busy.invalidate();
    }

    /// Invalidates the cached contents and the order of arrival. Called after the database or the
    /// master has changed.
    pub(super) fn invalidate_all(&mut self) {
        self.invalidate();
        self.arrivals = Arrivals::default();
    }

    /// Makes searches start from the heads of the queues again, so that they also examine paused
    /// groups.
    pub(super) fn search_from_head(&mut self) {
        self.skipped = Skipped::default();
    }

    /// Returns the number of groups that are due in `chg_wait` or are in `chg_ready`.
    pub(super) fn due(&self, ks: &mut K, now: Millis) -> Result<u64> {
        let wait = ks.zset_count(&self.keys.once.wait, now as f64 + 0.999)?;
        Ok(wait + ks.list_len(&self.keys.once.ready)?)
    }

    /// Returns the group whose lease expired first, and the deadline. Returns `None` if no lease
    /// has expired.
    pub(super) fn first_lapsed(
        &mut self,
        ks: &mut K,
        now: Millis,
    ) -> Result<Option<(K::Value, f64)>> {
        self.first_busy.due(ks, &self.keys.once.busy, now)
    }

    /// Returns the earliest time at which a search may find another group.
    pub(super) fn wake_at(&mut self, ks: &mut K, now: Millis) -> Result<Option<Millis>> {
        let wait = self.first_waiting(ks)?.map(|first| of_score(first.score));
        let busy = self.first_busy.read(ks, &self.keys.once.busy)?;
        let busy = busy.map(|(_, deadline)| of_score(deadline));
        let walk = self.skipped.walk();
        let ready = ks.list_len(&self.keys.once.ready)? > walk.ready();
        let times = [wait, busy, walk.wake_at(), ready.then_some(now)];
        Ok(times.into_iter().flatten().min())
    }

    /// Adds a group to `chg_wait`, or changes the time of a group in `chg_wait`.
    pub(super) fn wait(&mut self, ks: &mut K, id: &[u8], score: f64) -> Result<()> {
        if !self.skipped.is_empty() {
            if let Some(before) = ks.zset_score(&self.keys.once.wait, id)? {
                self.skipped.left_wait(&Place::new(before, id));
            }
            self.skipped.entered_wait(&Place::new(score, id));
        }
        Ok(ks.zset_add(&self.keys.once.wait, id, score)?)
    }

    /// Returns true if a group is in `chg_wait`.
    pub(super) fn stands_in_wait(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<bool> {
        Ok(ks.zset_score(&self.keys.once.wait, &loaded.id)?.is_some())
    }

    /// Returns the first group of `chg_wait` that is not skipped.
    pub(super) fn first_waiting(&mut self, ks: &mut K) -> Result<Option<Place>> {
        let walk = self.skipped.walk();
        if let Some(changed) = walk.changed_in_wait() {
            return Ok(Some(changed.clone()));
        }
        let first = ks.zset_at(&self.keys.once.wait, walk.end_of_wait())?;
        Ok(first.map(|(id, score)| Place::new(score, id.as_ref())))
    }

    /// Removes a group from `chg_wait`. Returns true if the group was in `chg_wait`.
    pub(super) fn leave_wait(&mut self, ks: &mut K, id: &[u8]) -> Result<bool> {
        if !self.skipped.is_empty()
            && let Some(score) = ks.zset_score(&self.keys.once.wait, id)?
        {
            self.skipped.left_wait(&Place::new(score, id));
        }
        Ok(ks.zset_del(&self.keys.once.wait, id)?)
    }

    /// Removes the group at a position of `chg_ready`.
    pub(super) fn take_ready(&mut self, ks: &mut K, at: u64) -> Result<()> {
        ks.list_take(&self.keys.once.ready, at)?;
        self.skipped.left_ready(at);
        Ok(())
    }

    /// Removes a group from `chg_ready` if it is near the head or the tail. Returns true if the
    /// group was removed.
    pub(super) fn leave_ready(&mut self, ks: &mut K, id: &[u8]) -> Result<bool> {
        let len = ks.list_len(&self.keys.once.ready)?;
        let tail = len.saturating_sub(MAX_SEARCHED).max(MAX_SEARCHED)..len;
        for i in (0..len.min(MAX_SEARCHED)).chain(tail) {
            let here = ks.list_get(&self.keys.once.ready, i)?;
            if here.is_some_and(|here| here.as_ref() == id) {
                self.take_ready(ks, i)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn push_ready(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        ks.list_push(&self.keys.once.ready, &loaded.id)?;
        Ok(())
    }

    /// Makes searches examine a changed group again, if they have skipped it.
    pub(super) fn note_change(&mut self, ks: &mut K, id: &[u8]) -> Result<()> {
        if !self.skipped.is_empty() {
            let position = match ks.zset_score(&self.keys.once.wait, id)? {
                Some(score) => Position::Wait(score),
                None => Position::Elsewhere,
            };
            self.skipped.changed(id, &position);
        }
        Ok(())
    }

    /// Adds a group to `chg_wait`. Groups that are due now keep their order of arrival.
    pub(super) fn wait_from(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        due: Millis,
        now: Millis,
    ) -> Result<()> {
        loaded.group.due = due;
        let score = if due == now {
            self.arrivals.score(now)
        } else {
            due as f64
        };
        self.wait(ks, &loaded.id, score)
    }

    /// Queues a group that is in no queue: in `chg_ready` if it is due, otherwise in `chg_wait`.
    pub(super) fn queue(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        due: Millis,
        now: Millis,
    ) -> Result<()> {
        loaded.group.due = due;
        if due <= now {
            self.push_ready(ks, loaded)
        } else {
            self.wait(ks, &loaded.id, due as f64)
        }
    }

    /// Changes the time of a group, if the group is in `chg_wait`.
    pub(super) fn reschedule(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        due: Millis,
    ) -> Result<()> {
        if !self.stands_in_wait(ks, loaded)? {
            return Ok(());
        }
        loaded.group.due = due;
        self.wait(ks, &loaded.id, due as f64)
    }

    /// Sets the score of a group in `chg_busy` to its first deadline, or removes the group from
    /// `chg_busy`.
    pub(super) fn show_busy(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        match loaded.group.first_deadline() {
            Some(deadline) => {
                ks.zset_add(&self.keys.once.busy, &loaded.id, deadline as f64)?;
                self.first_busy.add(deadline);
            }
            None => ks.zset_remove(&self.keys.once.busy, &loaded.id)?,
        }
        Ok(())
    }

    /// Returns the number of groups that are due at `now` or have expired leases.
    pub(super) fn due_or_lapsed(&self, ks: &mut K, now: Millis) -> Result<u64> {
        let until = now as f64 + 0.999;
        Ok(ks.zset_count(&self.keys.once.wait, until)?
            + ks.zset_count(&self.keys.once.busy, until)?)
    }
}
