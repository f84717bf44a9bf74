//! `RELEASE` and `EXTEND`: the end of a fetch, and the pause after it.

use redis_tests::{Lease, Reply};

use crate::model::command::{Facts, Release, Token, When};
use crate::model::frontier_model::{LEASE, Model, Verdict, must};
use crate::model::group::{Group, Held, NEVER, Place};
use crate::model::replies::{equal, error_word, lease_of, refused};

/// The release that was last, with what it replied.
#[derive(Clone, Debug)]
pub struct Past {
    pub token: i64,
    pub due: i64,
    pub lease: Option<Lease>,
}

impl Model {
    pub fn release(&mut self, step: usize, release: &Release, reply: &Reply) -> Verdict {
        let chg = release.chg.as_str();
        let token = self.number(release.token).unwrap_or(0);
        if release.done.is_some() && release.retry.is_some() {
            return refused(reply, "ERR");
        }
        if let Some(past) = self.past.get(chg).filter(|past| past.token == token) {
            return self.released_again(past, release, reply);
        }
        if error_word(reply).as_deref() == Some("NOCHG") || !self.is_known(chg) {
            return self.knows(chg, reply).map(|_| ());
        }
        let held = self.groups[chg].lease(token);
        let Some(held) = held.filter(|held| held.deadline > self.now).cloned() else {
            return self.token_is_old(chg, token, release, reply);
        };
        if !self.may_release(&held, release) {
            return refused(reply, "ERR");
        }
        let (due, next) = match (&release.next, reply) {
            (None, Reply::Int(due)) => (*due, None),
            (Some(length), Reply::Array(items)) if items.len() == 2 => {
                let Reply::Int(due) = items[0] else {
                    return Err(format!("a due time was to come: {reply:?}"));
                };
                let lease = match &items[1] {
                    Reply::Nil => None,
                    lease => Some(lease_of(lease)?),
                };
                (due, Some((length.unwrap_or(LEASE), lease)))
            }
            _ => return Err(format!("no reply to a release: {reply:?}")),
        };
        self.end_fetch(&held, release, due)?;
        self.answers.insert(token, due);
        let past = Past {
            token,
            due,
            lease: next.as_ref().and_then(|next| next.1.clone()),
        };
        self.past.insert(chg.to_owned(), past.clone());
        if let Some((length, lease)) = next {
            if let Some(lease) = &lease {
                self.grant((step, 0), length, lease)?;
                if lease.chg == chg {
                    // It is its own successor, which a retry should be told, too.
                    self.past.insert(chg.to_owned(), past);
                }
            }
            self.assert_nobody_waits_in_vain(lease.is_none())?;
        }
        Ok(())
    }

    pub fn is_known(&self, chg: &str) -> bool {
        self.groups.get(chg).is_some_and(|group| group.hash)
    }

    /// A repeated release: the first answer, and nothing changes.
    fn released_again(&self, past: &Past, release: &Release, reply: &Reply) -> Verdict {
        let is_held = |lease: &&Lease| {
            let held = self.groups.get(&lease.chg);
            let held = held.and_then(|group| group.lease(lease.token));
            held.is_some_and(|held| held.deadline > self.now)
        };
        let own = past.lease.as_ref().filter(|lease| lease.chg == release.chg);
        if own.is_some_and(|lease| !is_held(&lease)) && reply.is_error() {
            // It was the group's next lease, which is over, too.
            return refused(reply, "STALE");
        }
        if release.next.is_none() {
            return equal(reply, &Reply::Int(past.due));
        }
        let held = past.lease.as_ref().filter(is_held);
        let Reply::Array(items) = reply else {
            return Err(format!("an array was to come: {reply:?}"));
        };
        must!(items.len() == 2, "two items were to come: {reply:?}");
        equal(&items[0], &Reply::Int(past.due))?;
        let Some(first) = held else {
            return equal(&items[1], &Reply::Nil);
        };
        let mut told = lease_of(&items[1])?;
        let group = &self.groups[&first.chg];
        let deadline = group.lease(first.token).map(|held| held.deadline);
        must!(
            Some(told.deadline) == deadline || told.deadline == first.deadline,
            "the deadline was to be {deadline:?}: {told:?}"
        );
        must!(told.c == group.c() || told.c == first.c, "{told:?}");
        must!(told.n == group.n || told.n == first.n, "{told:?}");
        (told.deadline, told.n, told.c) = (first.deadline, first.n, first.c);
        must!(told == *first, "{first:?} was to come, got {told:?}");
        Ok(())
    }

    fn token_is_old(&self, chg: &str, token: i64, release: &Release, reply: &Reply) -> Verdict {
        let answer = self.answers.get(&token);
        let group = &self.groups[chg];
        // Of the releases of parallel leases, more than the last one may be remembered.
        let its = self.grants.values().any(|g| g.0 == chg && g.1 == token);
        let may_know = its && group.parallel > 1;
        if may_know && answer.is_some() && !reply.is_error() {
            let told = if release.next.is_some() {
                match reply {
                    Reply::Array(items) => items.first(),
                    _ => None,
                }
            } else {
                Some(reply)
            };
            return match told {
                Some(Reply::Int(due)) if Some(due) == answer => Ok(()),
                _ => Err(format!("{answer:?} was to come, got {reply:?}")),
            };
        }
        refused(reply, "STALE")
    }

    /// Whether what a release says of its URI makes sense.
    fn may_release(&self, held: &Held, release: &Release) -> bool {
        match (&release.done, &held.told.execution) {
            (Some((execution, count)), Some(leased)) => {
                execution == leased && count.unwrap_or(1) == 1
            }
            _ => true,
        }
    }

    fn end_fetch(&mut self, held: &Held, release: &Release, told: i64) -> Verdict {
        let now = self.now;
        let chg = release.chg.as_str();
        let paused = self.paused.clone();
        let group = self.group(chg);
        let asked = match &release.when {
            // A time in the past means now.
            When::At(at) => (*at).max(now),
            When::Delay(ms) => now + ms,
            When::Facts(facts) => now + pause(group, facts, held.granted, now),
        };
        let gate = asked.max(group.gap_until);
        group.leases.retain(|lease| lease.token() != held.token());
        group.gate = group.gate.max(gate);
        group.expired = 0;
        if group.counted() > 0 {
            group.asked = 0;
        }
        match (&held.told.execution, &held.told.uri) {
            (Some(execution), Some(uri)) => {
                let at = group.find(execution, uri);
                // A dropped URI counts no more, and may have been added again.
                let mine = |at: &usize| group.kept[*at].leased == Some(held.token());
                if let Some(at) = at.filter(mine) {
                    if release.done.is_some() {
                        group.kept.remove(at);
                    } else {
                        let kept = &mut group.kept[at];
                        kept.leased = None;
                        kept.due = release.retry.unwrap_or(kept.due);
                    }
                }
            }
            _ => {
                if let Some((execution, count)) = &release.done {
                    lower(group, execution, count.unwrap_or(1));
                }
                if let Some(at) = release.retry.filter(|_| group.c() == 1) {
                    group.asked = at;
                }
            }
        }
        group.forget_weights();
        if let Some(shared) = group.shared.clone() {
            let until = self.gates.entry(shared).or_insert(0);
            *until = (*until).max(gate);
        }
        let until = self.gate_of(chg);
        let group = self.group(chg);
        if group.leases.is_empty() && group.c() == 0 {
            group.settle_down();
            let shown = group.n.max(now);
            let allowed = [group.n, shown, group.n.max(until), shown.max(until)];
            must!(
                allowed.contains(&told) || group.n <= now && told <= now,
                "the gate was to be {}, got {told}",
                group.n
            );
            return Ok(());
        }
        if !group.leases.is_empty() {
            group.open = true;
            must!(
                told >= asked.min(now),
                "the due time was to be {asked} or later, got {told}"
            );
            if group.leases.len() < group.parallel && group.place == Place::Nowhere {
                group.place = Place::Ready;
            }
            return Ok(());
        }
        let all = group.due_of_all().max(now);
        let allowed = group.due(|e| !paused.contains(e)).max(now);
        let behind_gate = all.max(until);
        must!(
            [all, allowed, behind_gate].contains(&told),
            "the due time was to be {all}, got {told}"
        );
        let was_waiting = group.place == Place::Wait;
        group.n = told;
        group.score = None;
        group.turn = None;
        if told <= now {
            group.place = Place::Ready;
            let already = self.ready.iter().any(|entry| entry.0 == chg);
            if !already {
                self.ready.push((chg.to_owned(), self.commands, told));
            }
        } else {
            group.place = Place::Wait;
            group.open |= was_waiting;
            self.ready.retain(|entry| entry.0 != chg);
        }
        Ok(())
    }

    /// When the shared gate of a group opens.
    fn gate_of(&self, chg: &str) -> i64 {
        let shared = self.groups[chg].shared.as_ref();
        let until = shared.and_then(|shared| self.gates.get(shared));
        until.copied().unwrap_or(0)
    }

    pub fn extend(&mut self, chg: &str, token: Token, ms: i64, reply: &Reply) -> Verdict {
        let token = self.number(token).unwrap_or(0);
        if !self.is_known(chg) || error_word(reply).as_deref() == Some("NOCHG") {
            return self.knows(chg, reply).map(|_| ());
        }
        let now = self.now;
        let deadline = now + ms;
        let mut leases = self.group(chg).leases.iter_mut();
        let Some(held) = leases.find(|l| l.token() == token && l.deadline > now) else {
            return refused(reply, "STALE");
        };
        held.deadline = deadline;
        let told = held.told.execution.clone();
        let kept = self.group(chg).kept.iter();
        let is_dropped = !kept.into_iter().any(|uri| uri.leased == Some(token));
        let until = told.and_then(|execution| self.dropped.get_mut(&execution));
        if let Some(until) = until.filter(|until| **until > now && is_dropped) {
            *until = deadline.max(*until);
        }
        equal(reply, &Reply::Int(deadline))
    }
}

/// Lowers the counts of an execution by at most what there is.
fn lower(group: &mut Group, execution: &str, count: i64) {
    if let Some(there) = group.counts.get_mut(execution) {
        *there -= count.min(*there);
        if *there == 0 {
            group.counts.remove(execution);
        }
    }
    if group.counted() == 0 {
        group.asked = NEVER;
    }
}

/// The pause that follows from what a worker knows of its fetch.
fn pause(group: &mut Group, facts: &Facts, granted: i64, now: i64) -> i64 {
    let factor = facts.factor.map_or(1000, |factor| factor.1);
    let computed = facts.elapsed * factor / 1000;
    let computed = computed
        .max(facts.min.unwrap_or(0))
        .min(facts.max.unwrap_or(NEVER));
    let back_off = group.back_off(facts.status, computed, granted, now);
    let asked = facts.crawl_delay.max(facts.retry_after).unwrap_or(0);
    computed.max(asked).max(back_off)
}
