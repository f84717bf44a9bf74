//! `BLOCK`, `PAUSE`, `RESUME`, `LIMIT` and `GROUP`.

use super::words::Args;
use super::{FrontierModel, Outcome};
use crate::packed_by_default;
use crate::wire::simple;
use crawlspace_compact::limits::chg as limits;

impl FrontierModel {
    pub(super) fn block(&mut self, args: &mut Args<'_>) -> Outcome {
        let chg = args.id()?;
        if !args.keyword("UNTIL") {
            return Err("ERR");
        }
        let until = args.time()?;
        args.end()?;
        let now = self.now;
        let group = self.known(chg)?;
        let until = if until > now { until } else { 0 };
        let before = std::mem::replace(&mut group.options.blocked, until);
        group.ours = true;
        self.figures.blocked += 1;
        if before > 0 {
            self.settle_in(chg, before);
        }
        Ok(simple("OK"))
    }

    /// Updates the position of a group after its block, pause or limit has changed: a group that
    /// was waiting until `before` now waits until its new due time.
    fn settle_in(&mut self, chg: &str, before: i64) {
        let now = self.now;
        let group = self.group(chg);
        let due = group.due_of().max(now);
        if group.due == before && self.wait.get(chg).is_some() {
            self.wait_at(chg, due);
        }
    }

    pub(super) fn pause(&mut self, args: &mut Args<'_>, on: bool) -> Outcome {
        if args.left() == 0 {
            self.all_paused = on;
        } else if args.left() == 2 && args.keyword("EXECUTION") {
            let execution = args.id()?;
            if on {
                self.paused.insert(execution.to_owned());
            } else {
                self.dropped.remove(execution);
                self.paused.remove(execution);
            }
        } else {
            let chg = args.id()?;
            args.end()?;
            let group = self.known(chg)?;
            group.options.paused = on;
            group.ours = true;
        }
        Ok(simple("OK"))
    }

    pub(super) fn limit(&mut self, args: &mut Args<'_>) -> Outcome {
        let chg = args.id()?;
        let (mut parallel, mut gap, mut delay, mut budget) = (None, None, None, None);
        let mut done = None;
        if args.left() == 0 {
            return Err("ERR");
        }
        let unlimited = |n: i64| (n >= 0).then_some(n);
        while args.left() > 0 {
            if let Some(n) = args.option("PARALLEL", 1, 1000)? {
                parallel = Some(n);
            } else if let Some(ms) = args.span_option("GAP", 0)? {
                gap = Some(ms);
            } else if let Some(ms) = args.span_option("DELAY", -1)? {
                delay = Some(unlimited(ms));
            } else if let Some(n) = args.option("BUDGET", -1, i64::MAX)? {
                budget = Some(unlimited(n));
            } else if let Some(n) = args.option("DONE", 0, i64::MAX)? {
                if !args.keyword("EXECUTION") {
                    return Err("ERR");
                }
                done = Some((args.id()?, n));
            } else {
                return Err("ERR");
            }
        }
        if let Some((execution, n)) = done {
            if !packed_by_default() {
                return Err("PLAIN");
            }
            let place = (chg.to_owned(), execution.to_owned());
            if n > 0 {
                self.done_limits.insert(place, n);
            } else {
                self.done_limits.remove(&place);
            }
            if [parallel, gap].iter().all(Option::is_none) && delay.is_none() && budget.is_none() {
                return Ok(simple("OK"));
            }
        }
        let now = self.now;
        let group = self.group(chg);
        let was_runnable = group.is_runnable();
        let options = &mut group.options;
        options.parallel = parallel.unwrap_or(options.parallel);
        options.gap = gap.unwrap_or(options.gap);
        options.delay = delay.unwrap_or(options.delay);
        options.budget = budget.unwrap_or(options.budget);
        let begun = group.holds.iter().map(|hold| hold.granted).max();
        if let (Some(begun), 1..) = (begun, group.options.gap) {
            group.gate = group.gate.max(begun + group.options.gap);
        }
        self.leave_queues(chg, was_runnable);
        if !was_runnable && self.group(chg).is_runnable() {
            let due = self.group(chg).due_of().max(now);
            self.wait_from(chg, due);
        }
        self.save_options(chg);
        Ok(simple("OK"))
    }

    pub(super) fn group_command(&mut self, args: &mut Args<'_>) -> Outcome {
        let gate = args.text()?;
        let mut members = Vec::new();
        while args.left() > 0 {
            members.push(args.id()?);
        }
        if gate.len() > limits::ID_BYTES || members.is_empty() {
            return Err("ERR");
        }
        for chg in members {
            self.join(chg, gate);
        }
        Ok(simple("OK"))
    }

    /// Assigns a group to another gate, or to none.
    fn join(&mut self, chg: &str, gate: &str) {
        let now = self.now;
        let old = self.group(chg).options.gate.clone();
        if old == gate {
            return;
        }
        let before = self.gate_opens(&old);
        let stood_behind = self.leave_gate(chg);
        let group = self.group(chg);
        group.options.gate = gate.to_owned();
        let is_held = !group.holds.is_empty();
        if !old.is_empty() && is_held {
            self.update_gate(&old, chg, now);
        }
        if stood_behind && self.group(chg).is_runnable() {
            let due = self.group(chg).due_of().max(now);
            self.wait_from(chg, due);
        } else {
            self.settle_in(chg, before);
        }
        self.save_options(chg);
        // If the group is leased or pauses, this closes the new gate, too.
        let pause = self.group(chg).gate;
        if !gate.is_empty() && (is_held || pause > now) {
            self.update_gate(gate, chg, pause.max(now));
        }
    }

    /// Saves the options of a group. A group that has only options gets no `n`, so that a plain
    /// client that queues its first URI sees that the group is new.
    fn save_options(&mut self, chg: &str) {
        let group = self.group(chg);
        if !group.ours && (!group.is_idle() || group.due != 0) {
            group.ours = true;
        }
    }
}
