//! Gates that several groups share. A gate is closed while one of its groups is leased, and during
//! the pause of any of its groups.
//!
//! One member waits for a closed gate in `chg_wait`. All other due members wait in the gate's
//! queue, in the order in which they became due.

use std::collections::{BTreeMap, VecDeque};

use super::FrontierModel;
use super::queues::Score;

/// A shared gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    pub opens: i64,
    /// The end of the longest pause.
    pauses: i64,
    /// The last deadline of each leased member.
    leased: BTreeMap<String, i64>,
    /// The group that waits in `chg_wait` for all members, if there is one.
    first: Option<String>,
    pub queue: VecDeque<String>,
}

impl FrontierModel {
    fn gate(&mut self, gate: &str) -> &mut Gate {
        self.gates.entry(gate.to_owned()).or_default()
    }

    pub(super) fn gate_opens(&self, gate: &str) -> i64 {
        self.gates.get(gate).map_or(0, |gate| gate.opens)
    }

    fn first_at(&mut self, gate: &str) -> Option<String> {
        let first = self.gate(gate).first.clone()?;
        self.wait.get(&first).map(|_| first)
    }

    /// Updates a gate after one of its groups changed: the deadline of the group's leases, and the
    /// end of the pause.
    pub(super) fn update_gate(&mut self, gate: &str, chg: &str, pause: i64) {
        let group = self.group(chg);
        let leased = group.last_deadline().filter(|_| group.options.gate == gate);
        let entry = self.gate(gate);
        entry.leased.remove(chg);
        entry
            .leased
            .extend(leased.map(|deadline| (chg.to_owned(), deadline)));
        entry.pauses = entry.pauses.max(pause);
        let last = entry.leased.values().copied().max().unwrap_or(0);
        entry.opens = last.max(entry.pauses);
        let first = self.first_at(gate).filter(|first| first != chg);
        if !first.is_some_and(|first| self.stand_first(&first, self.gates[gate].opens)) {
            self.promote(gate);
        }
    }

    /// Makes a member wait until its gate opens: in `chg_wait` as the representative of all members,
    /// or in the gate's queue. A member that becomes due after the gate opens waits in `chg_wait`
    /// separately.
    pub(super) fn stand_behind(&mut self, chg: &str, until: i64) {
        let gate = self.group(chg).options.gate.clone();
        let first = self.first_at(&gate);
        let others = first.is_some_and(|first| first != chg);
        if others && self.group(chg).due_of() <= until {
            self.gate(&gate).queue.push_back(chg.to_owned());
            self.group(chg).due = until;
        } else if self.stand_first(chg, until) && !others {
            self.gate(&gate).first = Some(chg.to_owned());
        }
    }

    /// Moves a member behind all other waiting members after a fetch from it.
    pub(super) fn stand_last(&mut self, chg: &str, until: i64) {
        let gate = self.group(chg).options.gate.clone();
        if self.first_at(&gate).is_some() {
            return self.stand_behind(chg, until);
        }
        let group = self.group(chg);
        let due = group.due_of().max(until);
        group.due = due;
        self.enter_wait(chg, Score::last_of(due));
    }

    /// Puts a member into `chg_wait` with the time when the gate opens. Returns true if the member
    /// is due when the gate opens.
    fn stand_first(&mut self, chg: &str, until: i64) -> bool {
        let own = self.group(chg).due_of();
        self.wait_at(chg, own.max(until));
        own <= until
    }

    /// Moves the next member from the gate's queue to `chg_wait`, as the representative of all
    /// members.
    fn promote(&mut self, gate: &str) {
        let until = self.gate_opens(gate);
        while let Some(chg) = self.gate(gate).queue.pop_front() {
            if !self.group(&chg).is_runnable() || self.wait.get(&chg).is_some() {
                continue;
            }
            if self.group(&chg).options.gate != gate {
                self.stand_first(&chg, 0);
            } else if self.stand_first(&chg, until) {
                self.gate(gate).first = Some(chg);
                return;
            }
        }
        self.gate(gate).first = None;
    }

    /// Makes another member the representative of the gate. Returns true if this member was the
    /// representative.
    pub(super) fn hand_over(&mut self, chg: &str) -> bool {
        let gate = self.group(chg).options.gate.clone();
        let was_first = !gate.is_empty() && self.gate(&gate).first.as_deref() == Some(chg);
        if was_first {
            self.promote(&gate);
        }
        was_first
    }

    /// Removes a member from the gate's queue. Returns true if the queue contained the member.
    pub(super) fn leave_gate(&mut self, chg: &str) -> bool {
        let gate = self.group(chg).options.gate.clone();
        if gate.is_empty() || self.hand_over(chg) {
            return false;
        }
        let queue = &mut self.gate(&gate).queue;
        let at = queue.iter().position(|other| other == chg);
        at.is_some_and(|at| queue.remove(at).is_some())
    }
}
