//! The three queues of groups: who waits, who is ready, who is being fetched from.

use super::error::Result;
use super::frontier::{Frontier, Loaded};
use super::skipped::{Place, Position};
use super::store::Store;
use super::time::{Millis, of_score};
use super::transition::{Placement, Step};
use super::uris::{Stock, Uris};

/// Maximum number of entries of `chg_ready` that are searched for a group that has nothing left; one further
/// behind is skipped when it comes up.
const MAX_SEARCHED: u64 = 100;

impl<K: Store> Frontier<K> {
    /// Carries out what follows from something that happened to a group, and saves it.
    pub(super) fn carry_out(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        step: &Step,
        now: Millis,
    ) -> Result<()> {
        self.place(ks, loaded, step, now)?;
        if step.placement == Placement::Rest {
            return self.rest(ks, loaded, now);
        }
        self.save(ks, loaded)
    }

    /// Puts a group into the queues where it belongs after a step; it is the caller's to save, or to lay
    /// to rest.
    pub(super) fn place(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        step: &Step,
        now: Millis,
    ) -> Result<()> {
        if step.leases {
            self.show_busy(ks, loaded)?;
        }
        if step.leaves && !self.leave_wait(ks, &loaded.id)? && !self.leave_gate(ks, loaded)? {
            self.leave_ready(ks, &loaded.id)?;
        }
        if step.wakes {
            ks.zset_del(&self.names.idle, &loaded.id)?;
        }
        let is_gated = !loaded.group.options.gate.is_empty();
        if let (Some(pause), true) = (step.pause, is_gated) {
            let gate = loaded.group.options.gate.clone();
            self.tell_gate(ks, &gate, loaded, pause)?;
        }
        match step.placement {
            Placement::Stay | Placement::Rest => Ok(()),
            Placement::Ready => self.push_ready(ks, loaded),
            Placement::Wait(due) => self.wait_from(ks, loaded, due, now),
            Placement::Queue(_) if is_gated => {
                let opens = self.gate_closed_until(ks, &loaded.group.options.gate)?;
                self.stand_last(ks, loaded, opens)
            }
            Placement::Queue(due) => self.queue(ks, loaded, due, now),
            Placement::Reschedule(due) => self.reschedule(ks, loaded, due),
            Placement::Shift { latest, earliest } => {
                if let Some(due) = latest.filter(|&due| due < loaded.group.due)
                    && self.stands_in_wait(ks, loaded)?
                {
                    self.wait_from(ks, loaded, due, now)?;
                }
                if earliest > loaded.group.due {
                    self.reschedule(ks, loaded, earliest)?;
                }
                Ok(())
            }
        }
    }

    /// Puts a group into `chg_wait`, or moves it there.
    pub(super) fn wait(&mut self, ks: &mut K, id: &[u8], score: f64) -> Result<()> {
        if !self.skipped.is_empty() {
            if let Some(before) = ks.zset_score(&self.names.wait, id)? {
                self.skipped.left_wait(&Place::new(before, id));
            }
            self.skipped.entered_wait(&Place::new(score, id));
        }
        Ok(ks.zset_add(&self.names.wait, id, score)?)
    }

    /// The first group of `chg_wait` that is not skipped.
    pub(super) fn first_waiting(&mut self, ks: &mut K) -> Result<Option<Place>> {
        let walk = self.skipped.walk();
        if let Some(changed) = walk.changed_in_wait() {
            return Ok(Some(changed.clone()));
        }
        let first = ks.zset_at(&self.names.wait, walk.end_of_wait())?;
        Ok(first.map(|(id, score)| Place::new(score, id.as_ref())))
    }

    /// Searches look at a group again that changed, if they skip it.
    pub(super) fn note_change(&mut self, ks: &mut K, id: &[u8]) -> Result<()> {
        if !self.skipped.is_empty() {
            let position = match ks.zset_score(&self.names.wait, id)? {
                Some(score) => Position::Wait(score),
                None => Position::Elsewhere,
            };
            self.skipped.changed(id, &position);
        }
        Ok(())
    }

    /// Takes out the group at a position of `chg_ready`.
    pub(super) fn take_ready(&mut self, ks: &mut K, at: u64) -> Result<()> {
        ks.list_take(&self.names.ready, at)?;
        self.skipped.left_ready(at);
        Ok(())
    }

    /// Puts a group into `chg_wait`; those due now in the order in which they came.
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

    /// Whether a group stands in `chg_wait`.
    pub(super) fn stands_in_wait(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<bool> {
        Ok(ks.zset_score(&self.names.wait, &loaded.id)?.is_some())
    }

    /// Takes a group out of `chg_wait`; true when it was there.
    pub(super) fn leave_wait(&mut self, ks: &mut K, id: &[u8]) -> Result<bool> {
        if !self.skipped.is_empty()
            && let Some(score) = ks.zset_score(&self.names.wait, id)?
        {
            self.skipped.left_wait(&Place::new(score, id));
        }
        Ok(ks.zset_del(&self.names.wait, id)?)
    }

    /// Takes a group out of `chg_ready` if it stands near its head or its tail; true when it did.
    pub(super) fn leave_ready(&mut self, ks: &mut K, id: &[u8]) -> Result<bool> {
        let len = ks.list_len(&self.names.ready)?;
        let tail = len.saturating_sub(MAX_SEARCHED).max(MAX_SEARCHED)..len;
        for i in (0..len.min(MAX_SEARCHED)).chain(tail) {
            let here = ks.list_get(&self.names.ready, i)?;
            if here.is_some_and(|here| here.as_ref() == id) {
                self.take_ready(ks, i)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Queues a group that stands in no queue: into `chg_ready` when it is due, else into
    /// `chg_wait`.
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

    fn push_ready(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        ks.list_push(&self.names.ready, &loaded.id)?;
        Ok(())
    }

    /// Moves a group within `chg_wait`, if it stands there.
    fn reschedule(&mut self, ks: &mut K, loaded: &mut Loaded<K>, due: Millis) -> Result<()> {
        if !self.stands_in_wait(ks, loaded)? {
            return Ok(());
        }
        loaded.group.due = due;
        self.wait(ks, &loaded.id, due as f64)
    }

    /// Sets the score of a group in `chg_busy` to its first deadline, or takes it out.
    pub(super) fn show_busy(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        match loaded.group.first_deadline() {
            Some(deadline) => {
                ks.zset_add(&self.names.busy, &loaded.id, deadline as f64)?;
                self.first_busy.add(deadline);
            }
            None => ks.zset_remove(&self.names.busy, &loaded.id)?,
        }
        Ok(())
    }

    /// What is kept for a group.
    pub(super) fn stock(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Stock> {
        Ok(self.kept(ks, loaded, Uris::stock)?.unwrap_or_default())
    }

    /// When a group is due that has just become free.
    pub(super) fn due_of(&self, ks: &mut K, loaded: &Loaded<K>) -> Result<Millis> {
        Ok(loaded.group.due_with(self.stock(ks, loaded)?))
    }

    /// When something may next be given out or must be tidied up, for whoever sets a timer.
    ///
    /// # Errors
    /// `WRONGTYPE` when a key holds another type; or when the server refuses.
    pub fn wake_at(&mut self, ks: &mut K, now: Millis) -> Result<Option<Millis>> {
        let idle = self.next_idle(ks)?;
        if self.pauses.read(ks)?.all {
            return Ok(idle);
        }
        let wait = self.first_waiting(ks)?.map(|first| of_score(first.score));
        let busy = self.first_busy.read(ks, &self.names.busy)?;
        let busy = busy.map(|(_, deadline)| of_score(deadline));
        let walk = self.skipped.walk();
        let ready = ks.list_len(&self.names.ready)? > walk.ready();
        let times = [wait, busy, idle, walk.wake_at(), ready.then_some(now)];
        Ok(times.into_iter().flatten().min())
    }
}
