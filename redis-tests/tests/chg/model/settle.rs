//! The plain keys beside the model: they must be as it expects them. Where it leaves a group's
//! place open, what the server did is checked and adopted.

use crate::model::frontier_model::{Model, Verdict, must};
use crate::model::group::{Group, NEVER, Place};
use crate::model::shown::Shown;

impl Model {
    /// Compares the plain keys with the model after a command.
    pub fn settle(&mut self, shown: &Shown) -> Verdict {
        let chgs: Vec<String> = self.groups.keys().cloned().collect();
        let mut by_deadline = chgs.clone();
        by_deadline.sort_by_key(|chg| self.groups[chg].deadline());
        for chg in &by_deadline {
            self.adopt_expiry(chg, shown);
        }
        self.has_no_strangers(shown)?;
        for chg in &chgs {
            self.settle_group(chg, shown)
                .map_err(|e| format!("{chg:?}: {e}: {:?}", self.groups.get(chg)))?;
        }
        self.settle_ready(shown)?;
        self.keeps_the_order_of_adding()?;
        let mut executions = shown.executions.clone();
        for group in self.groups.values() {
            let kept = group.kept.iter().map(|uri| (&uri.execution, 1));
            let counts = group.counts.iter().map(|(execution, n)| (execution, *n));
            for (execution, n) in counts.chain(kept) {
                *executions.entry(execution.clone()).or_insert(0) -= n;
            }
        }
        executions.retain(|_, n| *n != 0);
        must!(executions.is_empty(), "EIDC is off by {executions:?}");
        let total = self.total();
        must!(
            shown.total == total,
            "QCT {} was to be {total}",
            shown.total
        );
        Ok(())
    }

    /// A group whose place is open may have been seen to be over, or not yet.
    fn adopt_expiry(&mut self, chg: &str, shown: &Shown) {
        let group = &self.groups[chg];
        if !group.has_run_out(self.now) || !self.is_loose(group) {
            return;
        }
        let deadline = group.deadline().unwrap_or(NEVER);
        if shown.busy.get(chg).copied() != Some(deadline as f64) {
            self.notice(chg);
        }
    }

    /// Nothing is in the plain keys but groups that the model has.
    fn has_no_strangers(&self, shown: &Shown) -> Verdict {
        let members = shown.wait.keys().chain(shown.busy.keys());
        let members = members.chain(shown.groups.keys()).chain(&shown.ready);
        for chg in members.chain(&shown.gated) {
            must!(self.groups.contains_key(chg), "{chg:?} has no place here");
        }
        let mut ready = shown.ready.clone();
        ready.sort();
        ready.dedup();
        must!(
            ready.len() == shown.ready.len(),
            "chg_ready has one twice: {:?}",
            shown.ready
        );
        Ok(())
    }

    fn settle_group(&mut self, chg: &str, shown: &Shown) -> Verdict {
        let now = self.now;
        let group = &self.groups[chg];
        let c = group.c();
        let deadline = group.deadline();
        let busy = shown.busy.get(chg).copied();
        must!(
            busy == deadline.map(|deadline| deadline as f64),
            "its score in chg_busy was to be {deadline:?}, got {busy:?}"
        );
        let mut places = Vec::new();
        if shown.wait.contains_key(chg) {
            places.push(Place::Wait);
        }
        if shown.ready.contains(&chg.to_owned()) {
            places.push(Place::Ready);
        }
        // Entries that are left over in the queue of a gate are passed over when they come up.
        let gated = c > 0 && places.is_empty() && group.leases.is_empty();
        if gated && shown.gated.contains(&chg.to_owned()) {
            places.push(Place::Gated);
        }
        must!(places.len() <= 1, "it stands in several queues: {places:?}");
        let place = places.first().copied().unwrap_or(Place::Nowhere);
        let Some((n, shown_c)) = shown.groups.get(chg).copied() else {
            return self.is_gone(chg, place);
        };
        must!(!group.plain, "a hash for a group that was never leased");
        must!(
            shown_c.unwrap_or(0) == c,
            "c was to be {c}, got {shown_c:?}"
        );
        if c == 0 && group.leases.is_empty() {
            must!(place == Place::Nowhere, "an idle group in {place:?}");
            let gate = group.gate.max(group.gap_until);
            let until = self.gates.values().copied().max().unwrap_or(0);
            // One that never had a pause goes at once.
            let forgotten = gate == 0 || n.is_none_or(|n| n != gate);
            let n = n.unwrap_or(0);
            let shared = group.shared.is_some() && n >= gate && n <= gate.max(until);
            must!(
                n == gate || shared || n <= now && gate <= self.latest,
                "n was to be the gate {gate}, got {n}"
            );
            let latest = self.latest;
            let group = self.group_mut(chg);
            group.hash = true;
            group.open &= group.blocked > now;
            if gate <= latest && forgotten {
                // Only its settings keep it.
                (group.steps, group.expired) = (0, 0);
            }
            return Ok(());
        }
        let n = n.ok_or("it has no n")?;
        self.stands_where_it_should(chg, place, shown)?;
        self.is_due_in_time(chg, n, place, shown)?;
        let loose = self.is_loose(&self.groups[chg]);
        let group = self.group_mut(chg);
        group.hash = true;
        if n != group.n {
            // It came from behind a gate, say: not by being added.
            group.turn = None;
        }
        group.n = n;
        group.or_n = None;
        group.score = shown.wait.get(chg).copied();
        if loose {
            group.place = place;
            let in_order = match place {
                Place::Nowhere => group.parallel == 1,
                Place::Gated => false,
                Place::Wait => n == group.due_of_all(),
                Place::Ready => group.due_of_all() <= now,
            };
            group.open &= !in_order || group.blocked > now;
        }
        Ok(())
    }

    /// The hash of a group is not there.
    fn is_gone(&mut self, chg: &str, place: Place) -> Verdict {
        let now = self.now;
        let group = &self.groups[chg];
        if group.plain && group.c() == 0 && group.leases.is_empty() {
            let open = self.is_loose(group) && place != Place::Nowhere;
            must!(
                place == group.place || open,
                "it was to be in {:?}",
                group.place
            );
            self.group_mut(chg).place = place;
            return Ok(());
        }
        must!(
            group.c() == 0 && group.leases.is_empty(),
            "its hash is gone"
        );
        must!(place == Place::Nowhere, "in {place:?} without a hash");
        let gate = group.gate.max(group.gap_until);
        must!(
            gate <= now || group.open,
            "its hash went before the gate at {gate}"
        );
        must!(
            !group.has_settings(now),
            "its settings went with its last URI"
        );
        self.groups.remove(chg);
        Ok(())
    }

    fn stands_where_it_should(&self, chg: &str, place: Place, shown: &Shown) -> Verdict {
        let group = &self.groups[chg];
        let out = group.leases.len();
        let run_out = group.leases.iter().filter(|l| l.deadline <= self.now);
        let run_out = run_out.count();
        if !self.is_loose(group) {
            must!(
                place == group.place,
                "it was to be in {:?}, got {place:?}",
                group.place
            );
        }
        must!(
            place != Place::Gated || group.shared.is_some(),
            "behind a gate that it does not share"
        );
        if out == 0 {
            must!(place != Place::Nowhere, "it stands in no queue: {shown:?}");
        } else if out - run_out < group.parallel && run_out > 0 && group.open {
            // That it ran out is seen some time.
        } else if out >= group.parallel {
            must!(
                place == Place::Nowhere,
                "leased as often as it may be, yet in {place:?}"
            );
        } else if group.c() > out as i64 {
            must!(
                place != Place::Nowhere,
                "it may be leased once more, yet stands in no queue"
            );
        }
        Ok(())
    }

    fn is_due_in_time(&self, chg: &str, n: i64, place: Place, shown: &Shown) -> Verdict {
        let group = &self.groups[chg];
        let score = shown.wait.get(chg).map(|score| score.floor() as i64);
        must!(
            score.is_none_or(|score| score == n) || group.shared.is_some(),
            "its score in chg_wait is {score:?}, n is {n}"
        );
        if !self.is_loose(group) {
            // Its leases may still be several.
            let several = group.lowered && n <= self.latest;
            let expected = n == group.n || Some(n) == group.or_n || several;
            must!(expected, "n was to be {}, got {n}", group.n);
            return Ok(());
        }
        // Whose count it was that asked for the earliest time is not remembered.
        let unknown = group.shared.is_some() || self.has_paused(group);
        if !matches!(place, Place::Wait | Place::Ready) || unknown {
            return Ok(());
        }
        // Too early is put right when it comes up. Too late would be for good.
        let latest = group.due(|execution| self.allows(execution));
        must!(
            n <= latest.max(self.latest).max(group.late),
            "n was to be {latest} or earlier, got {n}"
        );
        Ok(())
    }

    /// `chg_ready` is in the order in which groups became ready.
    fn settle_ready(&mut self, shown: &Shown) -> Verdict {
        let listed = |group: &Group| group.place == Place::Ready;
        let groups = &self.groups;
        self.ready
            .retain(|entry| groups.get(&entry.0).is_some_and(listed));
        let mut last: Option<usize> = None;
        for chg in &shown.ready {
            let Some(at) = self.ready.iter().position(|entry| entry.0 == *chg) else {
                continue;
            };
            if let Some(last) = last.filter(|last| *last > at) {
                let (one, other) = (&self.ready[last], &self.ready[at]);
                let alike = one.1 == other.1 && one.2 <= other.2;
                let loose = |chg: &String| self.is_loose(&self.groups[chg]);
                must!(
                    alike || loose(&one.0) || loose(&other.0),
                    "chg_ready is {:?}, and was to be {:?}",
                    shown.ready,
                    self.ready
                );
            }
            last = last.max(Some(at));
        }
        let entry = |chg: &String| {
            let known = self.ready.iter().find(|entry| entry.0 == *chg);
            known.cloned().unwrap_or((chg.clone(), 0, 0))
        };
        self.ready = shown.ready.iter().map(entry).collect();
        Ok(())
    }

    /// Groups that were added for the same moment stand in the order of adding.
    fn keeps_the_order_of_adding(&self) -> Verdict {
        let waiting = self.groups.iter().filter(|(_, g)| g.place == Place::Wait);
        let turns = waiting.filter_map(|(chg, g)| Some((chg, g.n, g.turn?, g.score?)));
        let mut turns: Vec<_> = turns.collect();
        turns.sort_by_key(|(_, n, turn, _)| (*n, *turn));
        for pair in turns.windows(2) {
            must!(
                pair[0].1 != pair[1].1 || pair[0].3 < pair[1].3,
                "{:?} was added before {:?}: {pair:?}",
                pair[0].0,
                pair[1].0
            );
        }
        Ok(())
    }

    fn group_mut(&mut self, chg: &str) -> &mut Group {
        self.groups.get_mut(chg).expect("the group is there")
    }
}
