//! Moves groups between queues and gates, makes them idle, and writes their hashes.

use std::rc::Rc;

use super::error::Result;
use super::first::First;
use super::gates::Gates;
use super::group::Options;
use super::groups::{Groups, Loaded};
use super::keys::Keys;
use super::ledger::Ledger;
use super::past::Past;
use super::queues::Queues;
use super::store::Store;
use super::time::Millis;
use super::transition::{Placement, Step};

/// The parts of a frontier that change when a group moves.
pub(super) struct Placing<'a, K: Store> {
    pub(super) keys: &'a Rc<Keys<K>>,
    pub(super) groups: &'a mut Groups<K>,
    pub(super) queues: &'a mut Queues<K>,
    pub(super) ledger: &'a mut Ledger<K>,
    pub(super) past: &'a mut Past<K>,
    pub(super) gates: &'a Gates<K>,
    pub(super) first_idle: &'a mut First,
}

impl<K: Store> Placing<'_, K> {
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

    /// Writes the changed fields of a group.
    pub(super) fn save(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        self.save_with(ks, loaded, None)
    }

    /// Writes the changed fields of a group, and one additional field.
    pub(super) fn save_with(
        &mut self,
        ks: &mut K,
        loaded: &Loaded<K>,
        more: Option<(&K::Name, &[u8])>,
    ) -> Result<()> {
        self.ledger
            .audits
            .before(&loaded.id, || loaded.stored_count());
        self.ledger.count_missing(ks, self.groups, loaded)?;
        self.queues.note_change(ks, &loaded.id)?;
        self.groups.write(ks, loaded, more)
    }

    /// Defers the write of a group until it is known whether a new lease follows, or until the
    /// group is read.
    pub(super) fn save_later(&mut self, ks: &mut K, loaded: Box<Loaded<K>>) -> Result<()> {
        self.groups.write_back(ks, None)?;
        self.ledger
            .audits
            .before(&loaded.id, || loaded.stored_count());
        self.ledger.count_missing(ks, self.groups, &loaded)?;
        self.queues.note_change(ks, &loaded.id)?;
        self.groups.keep_unsaved(loaded);
        Ok(())
    }

    /// Deletes the hash of a group, except for its options, and stores its last release.
    pub(super) fn delete_group(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        if let Some(last) = loaded.group.last {
            self.past.keep_last(ks, loaded, last)?;
        }
        self.ledger
            .audits
            .before(&loaded.id, || loaded.stored_count());
        if loaded.group.options == Default::default() {
            ks.delete(&loaded.key)?;
            return Ok(());
        }
        if ks.reset_group(&loaded.key)? {
            return Ok(());
        }
        let names = &self.keys.fields;
        for field in [
            &names.due,
            &names.count,
            &names.state,
            &names.leases,
            &names.next,
        ] {
            ks.hash_del(&loaded.key, field.as_ref())?;
        }
        Ok(())
    }

    /// Saves a group that may have only options. Such a group gets no due time; otherwise, a plain
    /// client that queues its first URI would not recognize the group as new.
    pub(super) fn save_options(&mut self, ks: &mut K, loaded: &Loaded<K>) -> Result<()> {
        if loaded.group.ours || !loaded.group.is_idle() || loaded.group.due != 0 {
            return self.save(ks, loaded);
        }
        if ks.put_options(&loaded.key, &loaded.group.options)? {
            return self.queues.note_change(ks, &loaded.id);
        }
        let field = self.keys.fields.options.clone();
        if loaded.group.options == Options::default() {
            ks.hash_del(&loaded.key, field.as_ref())?;
        } else {
            ks.hash_set_many(&loaded.key, &[(&field, &loaded.group.options.write())])?;
        }
        self.queues.note_change(ks, &loaded.id)
    }
}
