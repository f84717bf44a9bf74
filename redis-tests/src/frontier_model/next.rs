//! `NEXT`: selects the groups to lease, their order, and their URIs.

use std::collections::BTreeSet;

use super::group::Hold;
use super::queues::Score;
use super::words::Args;
use super::{FrontierModel, Outcome};
use crate::frontier::Lease;
use crate::wire::{Reply, bulk, int};

/// Maximum number of leases of one call.
const COUNT: i64 = 1000;

/// The queue of a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    /// The group is in `chg_ready`, at this position.
    Ready(usize),
    Wait,
    /// The group is in no queue, because its lease has just expired.
    Busy,
}

/// The decision about a candidate.
enum Fate {
    /// Lease the group, with a URI of this execution or with a counted URI.
    Lease(Option<String>),
    /// Move the group to `chg_wait` until this time.
    Park(i64),
    /// Skip the group, which is paused and keeps its place.
    Pass,
    /// Move the group behind its shared gate, which opens at this time.
    Gate(i64),
    /// Remove the group from the queue, in which it does not belong.
    Remove,
}

/// The arguments of a request.
pub struct Ask<'a> {
    pub lease: i64,
    pub count: usize,
    /// The release with which this request was combined.
    pub after: Option<(&'a str, i64)>,
    /// The leases in the reply, for cases in which the documentation allows several results.
    pub told: &'a [Lease],
}

impl FrontierModel {
    pub(super) fn next_command(&mut self, args: &mut Args<'_>, told: &[Lease]) -> Outcome {
        let (mut lease, mut count, mut group) = (self.lease, None, None);
        while args.left() > 0 {
            if let Some(ms) = args.span_option("LEASE", 1)? {
                lease = ms;
            } else if let Some(n) = args.option("COUNT", 1, COUNT)? {
                count = Some(n);
            } else if args.keyword("GROUP") {
                group = Some(args.id()?);
            } else {
                return Err("ERR");
            }
        }
        let ask = Ask {
            lease,
            count: count.unwrap_or(1) as usize,
            after: None,
            told,
        };
        let leases = match group {
            Some(_) if count.is_some() => return Err("ERR"),
            Some(chg) => self.next_of(chg, &ask)?.into_iter().collect(),
            None => self.next(&ask),
        };
        if leases.is_empty() {
            return Ok(Reply::Nil);
        }
        Ok(Reply::Array(leases.iter().map(lease_reply).collect()))
    }

    /// Leases the groups that have been due for longest.
    pub(super) fn next(&mut self, ask: &Ask<'_>) -> Vec<Lease> {
        self.tidy();
        let mut leases = Vec::new();
        // The paused groups that this search skipped.
        let mut passed = BTreeSet::new();
        while leases.len() < ask.count && !self.all_paused {
            let Some((from, chg)) = self.front(&passed) else {
                break;
            };
            if from == From::Busy {
                passed.remove(&chg);
                let was_queued = self.group(&chg).stands_beside_leases();
                self.expire(&chg);
                if was_queued || !self.group(&chg).is_runnable() {
                    self.rest(&chg);
                    continue;
                }
            }
            let told = ask.told.get(leases.len());
            let fate = self.fate(&chg, told);
            if let Fate::Pass = fate {
                passed.insert(chg.clone());
            }
            leases.extend(self.place(from, &chg, fate, ask));
        }
        leases
    }

    /// Returns the group that has been due for longest. If several groups have been due for equally
    /// long, a group in `chg_ready` comes before a group in `chg_wait`.
    fn front(&mut self, passed: &BTreeSet<String>) -> Option<(From, String)> {
        let now = self.now;
        let wait = self.wait.first_but(passed);
        let wait = wait.filter(|(score, _)| score.ms <= now);
        let busy = self.busy.first().filter(|(deadline, _)| *deadline <= now);
        let wait_from = wait.as_ref().map(|(score, _)| *score);
        let busy_from = busy.as_ref().map(|(deadline, _)| Score::at(*deadline));
        let ready = self.ready.iter().position(|chg| !passed.contains(chg));
        if let Some(at) = ready {
            let chg = self.ready[at].clone();
            // A group in `chg_ready` is ready, regardless of its due time.
            let since = self.groups.get(&chg).map_or(0, |group| group.due.min(now));
            let is_first =
                |other: Option<Score>| other.is_none_or(|other| Score::at(since) <= other);
            let is_first = is_first(wait_from) && is_first(busy_from);
            let paused = !self.paused.is_empty() || self.group(&chg).options.paused;
            // A paused group must not hide the groups behind it, which may have been due for
            // longer.
            if is_first || paused && matches!(self.fate(&chg, None), Fate::Pass) {
                return Some((From::Ready(at), chg));
            }
        }
        match (wait, busy) {
            (wait, Some((_, chg))) if wait.is_none() || busy_from < wait_from => {
                Some((From::Busy, chg))
            }
            (wait, _) => wait.map(|(_, chg)| (From::Wait, chg)),
        }
    }

    /// Leases a candidate, or moves it to the right queue.
    fn place(&mut self, from: From, chg: &str, fate: Fate, ask: &Ask<'_>) -> Option<Lease> {
        let unqueue = |model: &mut FrontierModel| match from {
            From::Ready(at) => drop(model.ready.remove(at)),
            From::Wait => drop(model.wait.remove(chg)),
            From::Busy => {}
        };
        match fate {
            Fate::Lease(execution) => {
                unqueue(self);
                return Some(self.grant(chg, execution, ask));
            }
            Fate::Park(due) => {
                self.hand_over(chg);
                unqueue(self);
                self.wait.set(chg, Score::at(due));
                let group = self.group(chg);
                group.due = due;
                group.ours = true;
            }
            Fate::Gate(until) => {
                unqueue(self);
                self.stand_behind(chg, until);
                self.group(chg).ours = true;
            }
            Fate::Pass => {
                if from == From::Busy {
                    let due = self.group(chg).due_of();
                    self.queue(chg, due);
                }
                self.hand_over(chg);
            }
            Fate::Remove => {
                unqueue(self);
                if !self.group(chg).holds.is_empty() {
                    self.show_busy(chg);
                } else if self.group(chg).is_idle() {
                    self.rest(chg);
                }
            }
        }
        None
    }

    /// Decides how to handle a group, from every condition that can hold it back.
    fn fate(&mut self, chg: &str, told: Option<&Lease>) -> Fate {
        let now = self.now;
        let group = self.group(chg);
        let held = group.holds.len() as i64;
        // A plain client may queue an unknown group.
        let from_outside = !group.ours && group.uris == 0;
        if held >= group.options.parallel || group.uris <= held && !from_outside {
            return Fate::Remove;
        }
        if group.options.paused {
            return Fate::Pass;
        }
        let by_uris = self.fate_by_uris(chg, told);
        if let Fate::Pass = by_uris {
            return by_uris;
        }
        let group = self.group(chg);
        let closed = group.closed_until();
        if closed > now && (group.ours || group.options.blocked > now) {
            return Fate::Park(closed);
        }
        let gate = group.options.gate.clone();
        let opens = self.gate_opens(&gate);
        if !gate.is_empty() && opens > now {
            return Fate::Gate(opens);
        }
        by_uris
    }

    /// Decides how to handle a group, from its URIs.
    fn fate_by_uris(&mut self, chg: &str, told: Option<&Lease>) -> Fate {
        let now = self.now;
        let paused = self.paused.clone();
        let allowed = |execution: &str| !paused.contains(execution);
        let group = self.group(chg);
        let held = group.holds.len() as i64;
        let from_outside = !group.ours && group.uris == 0;
        let told = told.and_then(|lease| lease.execution.as_deref());
        if let Some(execution) = group.kept.pick(now, allowed, told) {
            return Fate::Lease(Some(execution));
        }
        // The group may have counted URIs in addition to its stored URIs. The documentation does
        // not say to which execution the lease of a counted URI belongs.
        let counted = group.uris - group.kept.len();
        let kept_leases = group.kept.leases.len() as i64;
        let free = (counted - (held - kept_leases).max(0)).max(0);
        let counts = group
            .counts
            .iter()
            .filter(|(execution, _)| !allowed(execution));
        let unpaused = counted - counts.map(|(_, n)| n).sum::<i64>();
        if free.min(unpaused) > 0 || from_outside {
            return Fate::Lease(None);
        }
        match group.kept.earliest(|_| true) {
            Some(earliest) if earliest > now && free == 0 => Fate::Park(earliest),
            _ => Fate::Pass,
        }
    }

    /// Leases a group that is in no queue.
    fn grant(&mut self, chg: &str, execution: Option<String>, ask: &Ask<'_>) -> Lease {
        let now = self.now;
        let token = self.mint();
        let deadline = now + ask.lease;
        let group = self.group(chg);
        if !group.ours && group.uris == 0 && group.due == 0 {
            group.due = now;
        }
        group.ours = true;
        let margin = (group.released > 0).then_some(now - group.gate);
        let (n, c) = (group.due, group.uris);
        let is_parallel = !group.holds.is_empty();
        group.holds.push(Hold {
            token,
            granted: now,
            deadline,
        });
        if group.options.gap > 0 {
            group.gate = group.gate.max(now + group.options.gap);
        }
        let is_first = group.released == 0 && group.last.is_none();
        // The last release is stored until the next lease, or longer if that lease was granted with
        // the same release.
        group
            .last
            .take_if(|last| ask.after != Some((chg, last.token)));
        let uri = execution
            .as_ref()
            .map(|execution| group.kept.take(token, execution, now).uri);
        let gate = group.options.gate.clone();
        if is_first {
            self.past.remove(chg);
        }
        self.figures.leases += 1;
        let margins = [self.figures.smallest_margin, margin];
        self.figures.smallest_margin = margins.into_iter().flatten().min();
        self.figures.parallel += u64::from(is_parallel);
        self.figures.gated += u64::from(!gate.is_empty());
        self.show_busy(chg);
        if !gate.is_empty() {
            self.update_gate(&gate, chg, now);
        }
        if self.group(chg).is_runnable() {
            // A group that allows parallel fetches is queued again for the next fetch.
            let due = self.group(chg).due_of().max(now);
            self.wait_from(chg, due);
        }
        let chg = chg.to_owned();
        Lease {
            chg,
            token,
            deadline,
            n,
            c,
            execution,
            uri,
        }
    }

    /// Leases a given group, if it is due and nothing holds it back.
    fn next_of(&mut self, chg: &str, ask: &Ask<'_>) -> Result<Option<Lease>, &'static str> {
        self.tidy();
        let now = self.now;
        self.known(chg)?;
        if self.busy.get(chg).is_some_and(|deadline| deadline <= now) {
            self.make_ready(chg);
        }
        if self.all_paused {
            return Ok(None);
        }
        let Fate::Lease(execution) = self.fate(chg, ask.told.first()) else {
            return Ok(None);
        };
        let found = match self.wait.get(chg) {
            Some(score) => score.ms <= now && self.leave_wait(chg),
            None => self.leave_ready(chg) || self.leave_gate(chg),
        };
        Ok(found.then(|| self.grant(chg, execution, ask)))
    }
}

/// Formats a lease as a reply.
pub fn lease_reply(lease: &Lease) -> Reply {
    let optional = |text: &Option<String>| text.as_ref().map_or(Reply::Nil, bulk);
    let numbers = [lease.token, lease.deadline, lease.n, lease.c].map(int);
    let mut parts = vec![bulk(&lease.chg)];
    parts.extend(numbers);
    parts.extend([optional(&lease.execution), optional(&lease.uri)]);
    Reply::Array(parts)
}
