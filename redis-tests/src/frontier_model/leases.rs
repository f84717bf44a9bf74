//! `RELEASE` and `EXTEND`, and expired leases.

use super::group::{Facts, Hold, Released};
use super::next::{Ask, lease_reply};
use super::words::{Args, MAX_PAUSE};
use super::{FrontierModel, Outcome};
use crate::frontier::Lease;
use crate::wire::{Reply, bulk, int};

/// The time of the next fetch from a group.
enum When {
    At(i64),
    Delay(i64),
    Facts(Facts),
    /// The stored delay of the group.
    Stored,
}

/// The result for a URI.
#[derive(PartialEq)]
enum End<'a> {
    Unchanged,
    Done(&'a str, Option<i64>),
    Retry(i64),
}

impl FrontierModel {
    pub(super) fn release_command(&mut self, args: &mut Args<'_>, told: &[Lease]) -> Outcome {
        let (chg, token) = (args.id()?, args.number(0, i64::MAX)?);
        let when = read_when(args)?;
        let (mut end, mut next) = (End::Unchanged, None);
        while args.left() > 0 {
            let found = if args.keyword("DONE") {
                let execution = args.id()?;
                let count = if args.is_number() {
                    Some(args.number(1, i64::MAX)?)
                } else {
                    None
                };
                End::Done(execution, count)
            } else if args.keyword("RETRY") {
                End::Retry(args.time()?)
            } else if args.keyword("NEXT") {
                next = Some(args.span_option("LEASE", 1)?.unwrap_or(self.lease));
                args.end()?;
                continue;
            } else {
                return Err("ERR");
            };
            if end != End::Unchanged && found != end {
                return Err("ERR");
            }
            end = found;
        }
        let (due, before) = self.release(chg, token, &when, &end)?;
        let lease = match (next, before) {
            (None, _) => return Ok(int(due)),
            (Some(_), Some(before)) => before,
            (Some(lease), None) => {
                let ask = Ask {
                    lease,
                    count: 1,
                    after: Some((chg, token)),
                    told,
                };
                let lease = self.next(&ask).pop();
                if let Some(lease) = &lease {
                    self.remember_next(chg, token, lease);
                }
                lease
            }
        };
        let lease = lease.as_ref().map_or(Reply::Nil, lease_reply);
        Ok(Reply::Array(vec![int(due), lease]))
    }

    /// Returns the due time. If the release was applied before, also returns the lease that was
    /// granted with it, if that lease is still held.
    #[allow(clippy::option_option)]
    fn release(
        &mut self,
        chg: &str,
        token: i64,
        when: &When,
        end: &End<'_>,
    ) -> Result<(i64, Option<Option<Lease>>), &'static str> {
        let now = self.now;
        let group = self.group(chg);
        let Some(hold) = group.hold(token, now) else {
            let (due, lease) = self.released_before(chg, token)?;
            return Ok((due, Some(lease)));
        };
        if matches!(when, When::Stored) && group.options.delay.is_none() {
            return Err("ERR");
        }
        if let (Some(leased), End::Done(execution, count)) = (group.kept.leased(token), end)
            && (leased.execution != *execution || count.is_some_and(|count| count != 1))
        {
            return Err("ERR");
        }
        let was_runnable = group.is_runnable();
        group.holds.retain(|held| held.token != token);
        group.expired = 0;
        let counts_only = self.settle(chg, token, end);
        let group = self.group(chg);
        let gate = match when {
            When::At(at) => (*at).max(now),
            When::Delay(delay) => now + delay,
            When::Facts(facts) => now + group.pause(facts, hold.granted, now),
            When::Stored => now + group.options.delay.unwrap_or(0),
        };
        group.gate = group.gate.max(gate);
        group.released = now;
        let mut due = group.due_of();
        if let (End::Retry(at), true, 1) = (end, counts_only, group.uris) {
            // This is the only URI of the group, and the crawler stores its due time.
            due = due.max(*at);
        }
        let shared = group.options.gate.clone();
        self.show_busy(chg);
        self.leave_queues(chg, was_runnable);
        if !shared.is_empty() {
            self.update_gate(&shared, chg, gate);
        }
        let group = self.group(chg);
        let is_runnable = group.is_runnable();
        if group.is_idle() {
            due = group.gate;
        } else if is_runnable && was_runnable {
            // The group allows parallel fetches, so it is already queued.
            self.come_forward(chg, counts_only && !matches!(end, End::Done(..)));
            if due > self.group(chg).due && self.wait.get(chg).is_some() {
                self.wait_at(chg, due);
            }
        } else if is_runnable && shared.is_empty() {
            self.queue(chg, due);
        } else if is_runnable {
            let opens = self.gate_opens(&shared);
            self.stand_last(chg, opens);
        }
        self.group(chg).last = Some(Released {
            token,
            due,
            next: None,
        });
        self.figures.releases += 1;
        self.rest(chg);
        Ok((due, None))
    }

    /// Applies the result of a release to its URI. Returns true if the URI is only counted.
    fn settle(&mut self, chg: &str, token: i64, end: &End<'_>) -> bool {
        let group = self.group(chg);
        if let Some(leased) = group.kept.leased(token).cloned() {
            match end {
                End::Unchanged => group.kept.give_back(token, None, false),
                End::Retry(at) => group.kept.give_back(token, Some(*at), false),
                End::Done(..) => {
                    group.kept.end(token);
                    group.uris -= i64::from(!leased.dropped);
                    if !leased.dropped {
                        self.remember_end(&leased.execution, &leased.uri.uri, false);
                    }
                    self.enlist(&leased.execution, chg);
                }
            }
            return false;
        }
        if let End::Done(execution, count) = end {
            // Subtract at most the number of existing URIs.
            group.uncount(execution, count.unwrap_or(1));
            self.enlist(execution, chg);
        }
        true
    }

    fn remember_next(&mut self, chg: &str, token: i64, lease: &Lease) {
        let last = match &mut self.group(chg).last {
            Some(last) if last.token == token => Some(last),
            _ => self.past.get_mut(chg).filter(|last| last.token == token),
        };
        if let Some(last) = last {
            last.next = Some((lease.chg.clone(), lease.token));
        }
    }

    /// Returns the first reply of a repeated release, while the model remembers this reply.
    fn released_before(
        &mut self,
        chg: &str,
        token: i64,
    ) -> Result<(i64, Option<Lease>), &'static str> {
        let group = self.group(chg).clone();
        let past = match &group.last {
            None if group.holds.is_empty() => self.past.get(chg),
            last => last.as_ref(),
        };
        let Some(last) = past.filter(|last| last.token == token).cloned() else {
            self.figures.stale += 1;
            return Err(if group.is_known() { "STALE" } else { "NOCHG" });
        };
        self.figures.repeated += 1;
        let now = self.now;
        let lease = last.next.and_then(|(chg, token)| {
            let group = self.group(&chg);
            let hold = group.hold(token, now)?;
            let leased = group.kept.leased(token).cloned();
            let (execution, uri) = leased
                .map(|leased| (leased.execution, leased.uri.uri))
                .unzip();
            let (n, c, deadline) = (group.due, group.uris, hold.deadline);
            Some(Lease {
                chg,
                token,
                deadline,
                n,
                c,
                execution,
                uri,
            })
        });
        Ok((last.due, lease))
    }

    pub(super) fn extend(&mut self, args: &mut Args<'_>) -> Outcome {
        let (chg, token) = (args.id()?, args.number(0, i64::MAX)?);
        let deadline = self.now + args.span(1)?;
        args.end()?;
        let now = self.now;
        let mut holds = self.known(chg)?.holds.iter_mut();
        let Some(hold) = holds.find(|hold| hold.token == token && now < hold.deadline) else {
            self.figures.stale += 1;
            return Err("STALE");
        };
        hold.deadline = deadline;
        self.figures.extended += 1;
        let group = self.group(chg);
        let gate = group.options.gate.clone();
        let dropped = group.kept.leased(token).filter(|leased| leased.dropped);
        let dropped = dropped.map(|leased| leased.execution.clone());
        self.show_busy(chg);
        if !gate.is_empty() {
            self.update_gate(&gate, chg, now);
        }
        // While one of the leases of a dropped execution is held, new URIs of the execution are
        // refused.
        if let Some(until) = dropped.and_then(|execution| self.dropped.get_mut(&execution))
            && *until > now
        {
            *until = deadline.max(*until);
        }
        Ok(int(deadline))
    }

    /// Ends the expired leases of a group. Queues the URIs of these leases again, or gives up the
    /// URIs.
    pub(super) fn expire(&mut self, chg: &str) {
        let now = self.now;
        let group = self.group(chg);
        group.ours = true;
        let was_queued = group.stands_beside_leases();
        let is_over = |hold: &Hold| hold.deadline <= now;
        let over: Vec<Hold> = group
            .holds
            .iter()
            .filter(|hold| is_over(hold))
            .copied()
            .collect();
        group.holds.retain(|hold| !is_over(hold));
        let last = over.iter().map(|hold| hold.deadline).max().unwrap_or(now);
        if !was_queued {
            // The group has been ready since the lease ended.
            group.due = last;
        }
        let mut counted = false;
        for hold in over {
            counted |= self.end_attempt(chg, hold.token);
        }
        let gate = self.group(chg).options.gate.clone();
        if !gate.is_empty() {
            self.update_gate(&gate, chg, last);
        }
        if was_queued {
            self.come_forward(chg, counted);
        }
        self.show_busy(chg);
    }

    /// Reports an expired lease and queues its URI again. Returns true if the URI is only counted.
    fn end_attempt(&mut self, chg: &str, token: i64) -> bool {
        self.figures.expired += 1;
        let attempts = self.attempts;
        let group = self.group(chg);
        group.expired += 1;
        let Some(leased) = group.kept.leased(token).cloned() else {
            let times = int(group.expired);
            self.reports
                .push_back(Reply::Array(vec![bulk(chg), Reply::Nil, Reply::Nil, times]));
            return true;
        };
        let times = leased.uri.attempts + 1;
        let is_given_up = times >= attempts && !leased.dropped;
        if is_given_up {
            group.kept.end(token);
            group.uris -= 1;
        } else {
            group.kept.give_back(token, None, true);
        }
        let (execution, uri) = (leased.execution, leased.uri.uri);
        if is_given_up {
            self.remember_end(&execution, &uri, true);
        }
        self.enlist(&execution, chg);
        self.figures.given_up += u64::from(is_given_up);
        let report = vec![bulk(chg), bulk(execution), bulk(uri), int(times)];
        self.reports.push_back(Reply::Array(report));
        false
    }

    /// Ends the expired leases of a group, and moves the group to `chg_ready`.
    pub(super) fn make_ready(&mut self, chg: &str) {
        let was_queued = self.group(chg).stands_beside_leases();
        self.expire(chg);
        self.rest(chg);
        if !was_queued && self.group(chg).is_runnable() {
            self.ready.push_back(chg.to_owned());
        }
    }
}

fn read_when(args: &mut Args<'_>) -> Result<When, &'static str> {
    if args.keyword("AT") {
        return args.time().map(When::At);
    }
    if args.keyword("DELAY") {
        return args.span(0).map(When::Delay);
    }
    if !args.keyword("ELAPSED") {
        return Ok(When::Stored);
    }
    let mut facts = Facts {
        elapsed: args.span(0)?,
        thousandths: 1000,
        ..Facts::default()
    };
    loop {
        if args.keyword("FACTOR") {
            facts.thousandths = thousandths(args.text()?).ok_or("ERR")?;
        } else if let Some(min) = args.span_option("MIN", 0)? {
            facts.min = min;
        } else if let Some(max) = args.span_option("MAX", 0)? {
            facts.max = Some(max);
        } else if let Some(delay) = args.option("CRAWLDELAY", i64::MIN, i64::MAX)? {
            facts.asked = facts.asked.max(delay.clamp(0, MAX_PAUSE));
        } else if let Some(after) = args.option("RETRYAFTER", i64::MIN, i64::MAX)? {
            facts.asked = facts.asked.max(after.clamp(0, MAX_PAUSE));
        } else if let Some(status) = args.option("STATUS", i64::MIN, i64::MAX)? {
            facts.status = Some(status);
        } else {
            break;
        }
    }
    match facts.max {
        Some(max) if max < facts.min => Err("ERR"),
        _ => Ok(When::Facts(facts)),
    }
}

/// Parses a factor from 0 to 1000 with at most three decimals.
fn thousandths(text: &str) -> Option<i64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let padded = format!("{decimals:0<3}");
    let number = format!("{whole}{padded}").parse::<u32>().ok()?;
    let is_right = !whole.is_empty() && !decimals.is_empty() && padded.len() == 3;
    (is_right && number <= 1_000_000).then_some(number.into())
}
