//! What must hold when a lease is granted, and when one runs out.

use super::super::worker::Fetch;
use super::super::{ATTEMPTS, EXECUTIONS, HALTING, LEASE};
use super::{BEHIND_A_GATE, Book, Held, State, id, number_of};
use crate::frontier::Lease;

impl Book {
    /// A lease was granted: everything that must hold, and the fetch that begins.
    ///
    /// `after` is the token of the release whose `NEXT` it comes from: that one's answer stays
    /// remembered even if the lease is of the same group.
    pub fn granted(&mut self, now: i64, lease: &Lease, after: Option<i64>) -> Option<Fetch> {
        self.report.fetches += 1;
        let Some(group) = number_of(&lease.chg).filter(|&g| g < self.groups.len()) else {
            self.fault("a strange group".into());
            return None;
        };
        self.run_out(now, group);
        if lease.token <= self.last_token {
            self.fault(format!("token {} after {}", lease.token, self.last_token));
        }
        self.last_token = lease.token;
        if lease.deadline != now + LEASE || lease.n > now {
            self.fault("a wrong deadline or due time".into());
        }
        self.expect_alone(now, group);
        self.expect_rested(now, group);
        self.expect_count(now, group, lease.c);
        if lease.c < 1 {
            self.fault("a lease without a URI".into());
        }
        let uri = self.leased_uri(now, group, lease)?;
        let g = &mut self.groups[group];
        g.held.push(Held {
            token: lease.token,
            deadline: lease.deadline,
            uri,
        });
        g.last.take_if(|last| Some(last.token) != after);
        let execution = match uri {
            Some(number) => self.uris[number].execution.into(),
            None => self.counted_execution(group),
        };
        Some(Fetch {
            group,
            token: lease.token,
            deadline: lease.deadline,
            uri,
            execution,
        })
    }

    /// At most as many leases as the group allows, and one behind a shared gate.
    fn expect_alone(&mut self, now: i64, group: usize) {
        let g = &self.groups[group];
        if g.held.len() >= g.parallel {
            let held = g.held.clone();
            self.fault(format!("{} has a holder already: {held:?}", id(group)));
        } else if !g.held.is_empty() {
            self.report.parallel += 1;
        }
        if let Some(gate) = self.groups[group].shared {
            self.report.gated += 1;
            let first = self.groups.len() - self.gates.len() * BEHIND_A_GATE;
            let members = first + gate * BEHIND_A_GATE..first + (gate + 1) * BEHIND_A_GATE;
            let holder = members.clone().find(|&other| {
                let held = &self.groups[other].held;
                other != group && held.iter().any(|held| held.deadline > now)
            });
            if let Some(other) = holder {
                self.fault(format!("{} behind the same gate is leased", id(other)));
            }
        }
    }

    /// Not before its gate, the shared gate and the end of a block.
    fn expect_rested(&mut self, now: i64, group: usize) {
        let g = &self.groups[group];
        let gate = g.shared.map_or(g.gate, |gate| self.gates[gate].max(g.gate));
        if gate > 0 {
            let margin = now - gate;
            self.report.smallest_margin = self.report.smallest_margin.min(margin);
            if margin < 0 {
                self.fault(format!("{} ms before the gate of {}", -margin, id(group)));
            }
        }
        let blocked = self.groups[group].blocked;
        if now < blocked {
            self.fault(format!("{} is blocked until {blocked}", id(group)));
        }
    }

    /// The URI of a lease, which must be one that is queued and due.
    #[allow(clippy::option_option)]
    fn leased_uri(&mut self, now: i64, group: usize, lease: &Lease) -> Option<Option<usize>> {
        if !self.groups[group].kept {
            if lease.uri.is_some() || lease.execution.is_some() {
                self.fault("a URI that nobody kept".into());
            }
            let halted = self.groups[group].counts.iter().enumerate();
            let only_halted = halted.filter(|(_, n)| **n > 0).all(|(e, _)| e == HALTING);
            if self.halted && only_halted {
                self.fault("all of this group is paused".into());
            }
            return Some(None);
        }
        let text = lease.uri.as_deref().unwrap_or_default();
        let number = text.rsplit('/').next().and_then(|n| n.parse().ok());
        let Some(number) = number.filter(|&n: &usize| n < self.uris.len()) else {
            self.fault(format!("no URI of ours: {lease:?}"));
            return None;
        };
        let uri = &mut self.uris[number];
        let execution = usize::from(uri.execution);
        let as_it_was = (uri.state, uri.due);
        let ours = uri.group as usize == group
            && lease.execution.as_deref() == Some(EXECUTIONS[execution].0);
        uri.state = State::Leased;
        if !ours || as_it_was.0 != State::Queued || as_it_was.1 > now {
            self.fault(format!("URI {number} is {as_it_was:?}: {lease:?}"));
        }
        if self.halted && execution == HALTING {
            self.fault("this execution is paused".into());
        }
        if let Some(shares) = &mut self.groups[group].shares {
            let competing = shares.queued.iter().enumerate();
            shares.over |= competing.filter(|(_, n)| **n > 0).count() < EXECUTIONS.len() - 1;
            shares.queued[execution] -= 1;
            if !shares.over {
                shares.leases[execution] += 1;
            }
        }
        Some(Some(number))
    }

    /// An execution that has something in a group of counts.
    fn counted_execution(&self, group: usize) -> usize {
        let counts = self.groups[group].counts.iter();
        counts
            .enumerate()
            .max_by_key(|(_, n)| **n)
            .map_or(0, |(e, _)| e)
    }

    /// Leases of a group that have run out by now.
    pub(super) fn run_out(&mut self, now: i64, group: usize) {
        let g = &mut self.groups[group];
        if g.held.iter().all(|held| held.deadline > now) {
            return;
        }
        let (out, held) = g.held.drain(..).partition(|held| held.deadline <= now);
        g.held = held;
        let out: Vec<Held> = out;
        for held in out {
            self.report.expired += 1;
            self.groups[group].unreported.push(held.uri);
            let Some(number) = held.uri else { continue };
            let uri = &mut self.uris[number];
            uri.attempts += 1;
            if uri.attempts < ATTEMPTS {
                uri.state = State::Queued;
                let execution = usize::from(uri.execution);
                if let Some(shares) = &mut self.groups[group].shares {
                    shares.queued[execution] += 1;
                }
            } else {
                uri.state = State::GivenUp;
                self.groups[group].c -= 1;
                self.queued -= 1;
                self.report.given_up += 1;
            }
        }
    }
}
