//! `NEXT`: which groups may be leased, in which order, and with which URI.

use std::collections::BTreeSet;

use redis_tests::Lease;

use crate::model::command::Grant;
use crate::model::expiry::run_out;
use crate::model::frontier_model::{Model, Verdict, must};
use crate::model::group::{Held, Place, Uri};

/// Where a group that may be leased comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Ready,
    Wait,
    Busy,
}

impl Model {
    pub fn next(&mut self, step: usize, lease: i64, count: usize, told: &[Lease]) -> Verdict {
        must!(
            told.len() <= count,
            "{} leases, asked for {count}",
            told.len()
        );
        for (nth, told) in told.iter().enumerate() {
            self.grant((step, nth), lease, told)?;
        }
        self.assert_nobody_waits_in_vain(told.len() < count)
    }

    /// When fewer groups were leased than asked for, none may be left that could be leased.
    pub fn assert_nobody_waits_in_vain(&mut self, fewer: bool) -> Verdict {
        let now = self.now;
        let chgs: Vec<String> = self.groups.keys().cloned().collect();
        for chg in chgs {
            let able = self.may_be_leased(&chg, true);
            must!(
                !(fewer && able.is_ok()),
                "{chg:?} could be leased, but was not: {:?}",
                self.groups[&chg]
            );
            let group = self.group(&chg);
            let came_up = match group.place {
                Place::Nowhere => group.has_run_out(now),
                Place::Wait => group.n <= now,
                Place::Ready | Place::Gated => true,
            };
            if came_up && able.is_err() {
                group.open = true;
            }
        }
        Ok(())
    }

    /// Why a group may not be leased. With `surely`, a group that perhaps may not is refused, too.
    fn may_be_leased(&self, chg: &str, surely: bool) -> Verdict {
        let now = self.now;
        let group = self.groups.get(chg).ok_or("there is no such group")?;
        must!(!self.all_paused, "all are paused");
        must!(!group.paused, "it is paused");
        if let Some(shared) = &group.shared {
            let until = self.gates.get(shared).copied().unwrap_or(0);
            must!(until <= now, "the gate of {shared} is closed until {until}");
            for (other, member) in &self.groups {
                let holds = |l: &Held| surely || l.deadline > now;
                let another = other != chg && member.shared.as_ref() == Some(shared);
                must!(
                    !another || !member.leases.iter().any(holds),
                    "{other:?} is leased behind the same gate"
                );
            }
        }
        // When the clock went back, it is ready when it is as late again.
        let n = group.n.max(group.late);
        must!(!surely || n <= now, "n is {n}");
        let mut seen = group.clone();
        if group.leases.len() >= group.parallel || !surely {
            run_out(&mut seen, now, self.attempts);
        }
        let busy = seen.leases.len();
        must!(
            !surely || busy == 0 || group.c() > busy as i64,
            "all its URIs are leased"
        );
        must!(busy < seen.parallel, "{busy} leases of it are out");
        let due = seen.due(|execution| self.allows(execution));
        // It was ready before the clock went back.
        let was_ready = group.place == Place::Ready && due <= self.latest && !surely;
        must!(due <= now || was_ready, "it is due at {due}");
        Ok(())
    }

    /// A lease that the server granted.
    pub fn grant(&mut self, grant: Grant, length: i64, told: &Lease) -> Verdict {
        let now = self.now;
        let chg = told.chg.as_str();
        let wrong = |what: String| format!("{chg:?} was leased, but {what}: {told:?}");
        self.may_be_leased(chg, false).map_err(wrong)?;
        self.has_its_turn(chg).map_err(wrong)?;
        let group = &self.groups[chg];
        let uri_ran_out = told.uri.as_ref().is_some_and(|uri| {
            let at = group.find(told.execution.as_deref().unwrap_or(""), uri);
            at.is_some_and(|at| group.kept[at].leased.is_some())
        });
        let given_up = told.c != group.c();
        let mut times = vec![group.n];
        if group.has_run_out(now)
            && (group.leases.len() >= group.parallel || uri_ran_out || given_up)
        {
            let over = group.leases.iter().filter(|lease| lease.deadline <= now);
            times.extend(over.map(|lease| lease.deadline));
            self.notice(chg);
        }
        let loose = self.is_loose(&self.groups[chg]);
        let group = &self.groups[chg];
        if group.plain {
            times = vec![now];
        }
        let mut token = (self.token + 1).max(now * 1000);
        if std::mem::take(&mut self.reloaded) {
            // The last token may not have reached the disk: some are left out.
            token = told.token.max(token);
        }
        must!(told.token == token, "the token was to be {token}: {told:?}");
        let deadline = now + length;
        must!(
            told.deadline == deadline,
            "the deadline was to be {deadline}: {told:?}"
        );
        must!(
            times.contains(&told.n) || loose && told.n <= now,
            "n was to be {times:?}: {told:?}"
        );
        must!(told.c == group.c(), "c was to be {}: {told:?}", group.c());
        let attempts = self.pick(told)?;

        self.token = token;
        self.grants.insert(grant, (chg.to_owned(), token));
        self.past.remove(chg);
        self.ready.retain(|(other, ..)| other != chg);
        let group = self.group(chg);
        group.place = Place::Nowhere;
        group.turn = None;
        group.n = told.n;
        group.hash = true;
        group.plain = false;
        group.open = group.parallel > 1;
        group.forget_weights();
        let until = if group.gap > 0 { now + group.gap } else { 0 };
        group.gap_until = group.gap_until.max(until);
        group.leases.push(Held {
            granted: now,
            deadline,
            attempts,
            told: told.clone(),
        });
        if group.parallel > group.leases.len() {
            // It is offered again at once, if there is more.
            group.place = Place::Ready;
        }
        group.lowered &= group.leases.len() > 1;
        Ok(())
    }

    /// Checks which URI of a group was leased, and takes it. How often that was in vain.
    fn pick(&mut self, told: &Lease) -> Result<i64, String> {
        let paused = self.paused.clone();
        let allowed = |execution: &str| !paused.contains(execution);
        let now = self.now;
        let group = self.group(&told.chg);
        let offered = group.offered(now, allowed);
        let (Some(execution), Some(uri)) = (&told.execution, &told.uri) else {
            must!(
                told.execution.is_none() && told.uri.is_none(),
                "an execution without its URI: {told:?}"
            );
            must!(
                offered.is_empty(),
                "a URI was to be leased: {offered:?}, got {told:?}"
            );
            return Ok(0);
        };
        let rivals: BTreeSet<String> = offered.iter().map(|uri| uri.execution.clone()).collect();
        let is_offered = |o: &&Uri| o.execution == *execution && o.uri == *uri;
        must!(
            offered.iter().any(is_offered),
            "one of {offered:?} was to be leased, got {told:?}"
        );
        let rivals: Vec<String> = rivals.into_iter().collect();
        group.pick(execution, &rivals)?;
        let at = group.find(execution, uri).expect("it was offered");
        group.kept[at].leased = Some(told.token);
        Ok(group.kept[at].attempts)
    }

    /// Where a group that may be leased comes from, and since when it could be.
    fn standing(&self, chg: &str) -> Option<(Source, i64)> {
        let group = &self.groups[chg];
        match group.place {
            Place::Ready => Some((Source::Ready, group.n)),
            Place::Wait if group.n <= self.now => Some((Source::Wait, group.n)),
            Place::Nowhere if group.has_run_out(self.now) => {
                Some((Source::Busy, group.deadline()?))
            }
            _ => None,
        }
    }

    /// Whether no other group should have been leased before this one.
    fn has_its_turn(&self, chg: &str) -> Verdict {
        let group = &self.groups[chg];
        // Since when a plain client's group is ready is not known.
        if self.is_loose(group) || group.plain {
            return Ok(());
        }
        let (source, since) = self.standing(chg).ok_or("it stands in no queue")?;
        for (other, rival) in &self.groups {
            let strict = other != chg && !self.is_loose(rival) && !rival.plain;
            if !strict || self.may_be_leased(other, true).is_err() {
                continue;
            }
            let Some((from, rival_since)) = self.standing(other) else {
                continue;
            };
            if from != source {
                // Only the heads of the queues are compared.
                let is_head = self.is_head(other, from);
                must!(
                    !is_head || rival_since >= since,
                    "{other:?} could be since {rival_since}, this one since {since}"
                );
                continue;
            }
            must!(
                !self.is_before(other, chg, from),
                "{other:?} stands before it"
            );
        }
        Ok(())
    }

    fn is_head(&self, chg: &str, source: Source) -> bool {
        if source == Source::Ready {
            // One that may not be leased hides those behind it until it was passed over.
            return self.ready.first().is_some_and(|entry| entry.0 == chg);
        }
        let mut rivals = self.groups.iter().filter(|(other, rival)| {
            let strict = *other != chg && !self.is_loose(rival) && !rival.plain;
            strict && self.may_be_leased(other, true).is_ok()
        });
        !rivals.any(|(other, _)| {
            self.standing(other).map(|s| s.0) == Some(source) && self.is_before(other, chg, source)
        })
    }

    /// Whether one group stands before another in the same queue.
    fn is_before(&self, one: &str, other: &str, source: Source) -> bool {
        let (a, b) = (&self.groups[one], &self.groups[other]);
        let place = |chg: &str| self.ready.iter().position(|entry| entry.0 == chg);
        match source {
            Source::Ready => place(one) < place(other),
            Source::Busy => a.deadline() < b.deadline(),
            Source::Wait => match (a.score, b.score) {
                (Some(a), Some(b)) => a < b,
                _ => a.n < b.n,
            },
        }
    }
}
