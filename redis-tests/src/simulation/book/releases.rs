//! What must hold when a lease is given back, extended, or its group blocked.

use super::super::worker::{End, Fetch, Release};
use super::{Book, Outcome, Released, State, number_of};
use crate::frontier::Lease;
use crate::wire::Reply;

impl Book {
    /// The reply to a release.
    pub fn released(&mut self, now: i64, release: &Release, reply: &Reply) -> Outcome {
        let Fetch { group, token, .. } = release.fetch;
        let held = self.groups[group].held.iter();
        let mut valid = held.filter(|held| held.deadline > now);
        if valid.any(|held| held.token == token) {
            return self.accepted(now, release, reply);
        }
        let g = &self.groups[group];
        if g.last.as_ref().is_some_and(|last| last.token == token) {
            self.answered_again(now, release, reply);
            return Outcome::default();
        }
        // Its last URIs may have been given up, which nobody has been told of yet.
        let gone = self.certain_count(now, group) == 0 && g.held.iter().all(|h| h.deadline <= now);
        let Reply::Error(line) = reply else {
            self.fault("an old token was accepted".into());
            return Outcome::default();
        };
        let right = line.starts_with(b"STALE ") || gone && line.starts_with(b"NOCHG ");
        if !right {
            self.fault("STALE was expected".into());
        }
        self.report.stale += 1;
        Outcome::default()
    }

    fn accepted(&mut self, now: i64, release: &Release, reply: &Reply) -> Outcome {
        let Some((due, lease)) = due_and_lease(release, reply) else {
            self.fault("a due time was expected".into());
            return Outcome::default();
        };
        self.report.released += 1;
        let Fetch {
            group,
            token,
            execution,
            ..
        } = release.fetch;
        let g = &mut self.groups[group];
        let at = g.held.iter().position(|held| held.token == token);
        let held = g.held.remove(at.expect("it is held"));
        let done = match held.uri {
            Some(number) => self.end_uri(now, number, release.end),
            None => self.end_counts(group, execution, release.end),
        };
        let g = &mut self.groups[group];
        g.gate = g.gate.max(now + release.pause);
        if let Some(gate) = g.shared {
            self.gates[gate] = self.gates[gate].max(g.gate);
        }
        g.last = Some(Released {
            token,
            due,
            next: lease
                .as_ref()
                .and_then(|lease| Some((number_of(&lease.chg)?, lease.token))),
        });
        // Of a group without URIs, the answer is the gate.
        let earliest = match g.c {
            0 => g.gate,
            _ => g.gate.max(g.blocked),
        };
        let simple = release.exact && g.shared.is_none() && g.parallel == 1 && !g.kept;
        let retried = matches!(release.end, End::Retry(_));
        if due < earliest || (simple && !retried && due != earliest) {
            self.fault(format!("due at {due}, not {earliest}"));
        }
        Outcome { lease, done }
    }

    fn end_uri(&mut self, now: i64, number: usize, end: End) -> bool {
        let uri = &mut self.uris[number];
        let (group, execution) = (uri.group as usize, usize::from(uri.execution));
        match end {
            End::Done(_) => {
                uri.state = State::Done;
                self.groups[group].c -= 1;
                self.queued -= 1;
                return true;
            }
            End::Retry(at) => uri.due = at.max(now),
            End::Unchanged => (),
        }
        uri.state = State::Queued;
        if let Some(shares) = &mut self.groups[group].shares {
            shares.queued[execution] += 1;
        }
        false
    }

    fn end_counts(&mut self, group: usize, execution: usize, end: End) -> bool {
        let End::Done(n) = end else { return false };
        let g = &mut self.groups[group];
        let n = n.min(g.counts[execution]);
        g.counts[execution] -= n;
        g.c -= i64::from(n);
        self.queued -= i64::from(n);
        true
    }

    /// A repeated release: the first answer, with its lease while that is held.
    fn answered_again(&mut self, now: i64, release: &Release, reply: &Reply) {
        self.report.repeated += 1;
        let Some((due, lease)) = due_and_lease(release, reply) else {
            return self.fault("the first answer was expected".into());
        };
        let last = self.groups[release.fetch.group].last.as_ref();
        let last = last.expect("looked at before");
        let held = last.next.filter(|&(group, token)| {
            let mut held = self.groups[group].held.iter();
            release.next && held.any(|held| held.token == token && held.deadline > now)
        });
        let lease = lease.and_then(|lease| Some((number_of(&lease.chg)?, lease.token)));
        if due != last.due || lease != held {
            let first = last.due;
            self.fault(format!("first it was due at {first} with lease {held:?}"));
        }
    }

    /// The reply to an extension.
    pub fn extended(&mut self, now: i64, fetch: &Fetch, ms: i64, reply: &Reply) {
        let g = &mut self.groups[fetch.group];
        let mut held = g.held.iter_mut();
        let held = held.find(|held| held.token == fetch.token && held.deadline > now);
        let Some(held) = held else {
            if !reply.is_error() {
                self.fault("an old lease was extended".into());
            }
            return;
        };
        held.deadline = now + ms;
        self.report.extended += 1;
        if *reply != Reply::Int(now + ms) {
            self.fault("a wrong deadline".into());
        }
    }

    /// The reply to a block.
    pub fn blocked(&mut self, group: usize, until: i64, reply: &Reply) {
        let g = &mut self.groups[group];
        if !reply.is_error() {
            self.report.blocked += 1;
            g.blocked = until;
        } else if g.c > 0 {
            self.fault("a group with URIs cannot be blocked".into());
        }
    }
}

/// Due time and lease in the reply of a release.
fn due_and_lease(release: &Release, reply: &Reply) -> Option<(i64, Option<Lease>)> {
    match (release.next, reply) {
        (false, Reply::Int(due)) => Some((*due, None)),
        (true, Reply::Array(items)) => match items.as_slice() {
            [Reply::Int(due), Reply::Nil] => Some((*due, None)),
            [Reply::Int(due), lease] => Some((*due, Some(Lease::of(lease)))),
            _ => None,
        },
        _ => None,
    }
}
