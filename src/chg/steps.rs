//! Applies steps, which result from events of groups, to the queues, gates and hashes.

use super::error::Result;
use super::frontier::Frontier;
use super::groups::Loaded;
use super::store::Store;
use super::time::Millis;
use super::transition::{Placement, Step};

impl<K: Store> Frontier<K> {
    /// Applies the step that results from an event of a group, and saves the group.
    pub(super) fn apply(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        step: &Step,
        now: Millis,
    ) -> Result<()> {
        self.place(ks, loaded, step, now)?;
        if step.placement == Placement::Retire {
            return self.retire_if_idle(ks, loaded, now);
        }
        self.save(ks, loaded)
    }

    /// Moves a group to its proper queue after a step. The caller saves the group or makes it idle.
    pub(super) fn place(
        &mut self,
        ks: &mut K,
        loaded: &mut Loaded<K>,
        step: &Step,
        now: Millis,
    ) -> Result<()> {
        if step.leases {
            self.queues.show_busy(ks, loaded)?;
        }
        if step.leaves
            && !self.queues.leave_wait(ks, &loaded.id)?
            && !self.leave_gate(ks, loaded)?
        {
            self.queues.leave_ready(ks, &loaded.id)?;
        }
        if step.wakes && !self.first_idle.is_empty() {
            ks.zset_del(&self.keys.once.idle, &loaded.id)?;
        }
        let is_gated = !loaded.group.options.gate.is_empty();
        if let (Some(pause), true) = (step.pause, is_gated) {
            let gate = loaded.group.options.gate.clone();
            self.update_gate(ks, &gate, loaded, pause)?;
        }
        match step.placement {
            Placement::Stay | Placement::Retire => Ok(()),
            Placement::Ready => self.queues.push_ready(ks, loaded),
            Placement::Wait(due) => self.queues.wait_from(ks, loaded, due, now),
            Placement::Queue(_) if is_gated => {
                let opens = self.gates.closed_until(ks, &loaded.group.options.gate)?;
                self.wait_last_behind_gate(ks, loaded, opens)
            }
            Placement::Queue(due) => self.queues.queue(ks, loaded, due, now),
            Placement::Reschedule(due) => self.queues.reschedule(ks, loaded, due),
            Placement::Shift { latest, earliest } => {
                if let Some(due) = latest.filter(|&due| due < loaded.group.due)
                    && self.queues.stands_in_wait(ks, loaded)?
                {
                    self.queues.wait_from(ks, loaded, due, now)?;
                }
                if earliest > loaded.group.due {
                    self.queues.reschedule(ks, loaded, earliest)?;
                }
                Ok(())
            }
        }
    }

    /// Returns the time for the alarm: the earliest time at which a lease may be granted or a group
    /// must be deleted.
    ///
    /// # Errors
    /// `WRONGTYPE` if a key holds another type; any server error.
    pub fn wake_at(&mut self, ks: &mut K, now: Millis) -> Result<Option<Millis>> {
        let idle = self.next_idle(ks)?;
        let later = self.first_later(ks)?;
        let idle = [idle, later].into_iter().flatten().min();
        if self.pauses.read(ks)?.all {
            return Ok(idle);
        }
        let search = self.queues.wake_at(ks, now)?;
        Ok([idle, search].into_iter().flatten().min())
    }
}
