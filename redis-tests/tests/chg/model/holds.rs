//! `PAUSE`, `MOVE` and `DROP`.

use redis_tests::Reply;

use crate::model::command::Whom;
use crate::model::frontier_model::{Model, Verdict};
use crate::model::group::{NEVER, Place};
use crate::model::replies::{equal, is_ok, refused};

impl Model {
    pub fn pause(&mut self, whom: &Whom, on: bool, reply: &Reply) -> Verdict {
        match whom {
            Whom::All => self.all_paused = on,
            Whom::Execution(execution) => {
                if on {
                    self.paused.insert(execution.clone());
                } else {
                    self.paused.remove(execution);
                    self.dropped.remove(execution);
                }
            }
            Whom::Group(chg) => {
                if !self.knows(chg, reply)? {
                    return Ok(());
                }
                self.group(chg).paused = on;
            }
        }
        let affected: Vec<String> = match whom {
            Whom::Group(chg) => vec![chg.clone()],
            _ => self.groups.keys().cloned().collect(),
        };
        for chg in affected {
            let now = self.now;
            let group = self.group(&chg);
            let came_up = group.place != Place::Nowhere && group.n <= now;
            group.open |= matches!(whom, Whom::Execution(_)) && came_up;
        }
        is_ok(reply)
    }

    /// `MOVE`.
    pub fn shift(&mut self, from: &str, to: &str, reply: &Reply) -> Verdict {
        if from == to {
            return refused(reply, "ERR");
        }
        if !self.knows(from, reply)? {
            return Ok(());
        }
        if !self.groups[from].leases.is_empty() {
            let over = self.groups[from].has_run_out(self.now);
            if !over || reply.is_error() {
                return refused(reply, "LEASED");
            }
            self.notice(from);
        }
        self.ready.retain(|entry| entry.0 != from);
        let source = self.group(from);
        source.place = Place::Nowhere;
        source.open = true;
        let kept = std::mem::take(&mut source.kept);
        let counts = std::mem::take(&mut source.counts);
        let asked = std::mem::replace(&mut source.asked, NEVER);
        let gate = source.gate.max(source.gap_until);
        let weights = std::mem::take(&mut source.weights);
        let blocked = source.blocked;
        source.n = gate;
        let now = self.now;
        let target = self.group(to);
        let mut moved = 0;
        for (execution, weight) in weights {
            // Which of two weights counts is left open.
            let both = target.kept.iter().any(|uri| uri.execution == execution);
            target
                .weights
                .insert(execution, if both { 0 } else { weight });
        }
        for uri in &target.kept {
            let both = kept.iter().any(|other| other.execution == uri.execution);
            if both {
                target.weights.insert(uri.execution.clone(), 0);
            }
        }
        for uri in kept {
            if target.find(&uri.execution, &uri.uri).is_none() {
                target.kept.push(uri);
                moved += 1;
            }
        }
        for (execution, n) in counts {
            *target.counts.entry(execution).or_insert(0) += n;
            moved += n;
        }
        target.asked = target.asked.min(asked);
        target.gate = target.gate.max(gate);
        // Whether a block goes with what was blocked is left open.
        target.late = target.late.max(blocked);
        target.open = true;
        if target.c() > 0 && target.leases.is_empty() {
            let due = target.due_of_all().max(now);
            match target.place {
                Place::Nowhere => (target.place, target.n) = (Place::Wait, due),
                _ => target.n = due,
            }
            target.score = None;
            target.turn = None;
        }
        target.hash |= moved > 0 || target.gate > now;
        let c = target.c();
        equal(reply, &Reply::Array(vec![Reply::Int(moved), Reply::Int(c)]))
    }

    pub fn drop_execution(&mut self, execution: &str, reply: &Reply) -> Verdict {
        let (mut touched, mut dropped) = (0, 0);
        let mut until = 0;
        for group in self.groups.values_mut() {
            let before = group.c();
            let counts = group.counts.contains_key(execution);
            let leases = group.leases.iter().filter(|held| {
                let own = held.told.execution.as_deref();
                own.map_or(counts, |own| own == execution)
            });
            let last = leases.map(|held| held.deadline).max().unwrap_or(0);
            group.counts.remove(execution);
            group.kept.retain(|uri| uri.execution != execution);
            group.forget_weights();
            let gone = before - group.c();
            if gone == 0 {
                continue;
            }
            until = until.max(last);
            touched += 1;
            dropped += gone;
            group.open = true;
            if group.counted() == 0 {
                group.asked = NEVER;
            }
            if group.c() == 0 && group.leases.is_empty() {
                group.settle_down();
            }
        }
        let groups = &self.groups;
        self.ready
            .retain(|entry| groups[&entry.0].place == Place::Ready);
        self.numbered.retain(|key, _| key.0 != execution);
        self.paused.remove(execution);
        if until > self.now {
            let known = self.dropped.entry(execution.to_owned()).or_insert(0);
            *known = until.max(*known);
        }
        let expected = Reply::Array(vec![Reply::Int(touched), Reply::Int(dropped)]);
        equal(reply, &expected)
    }
}
