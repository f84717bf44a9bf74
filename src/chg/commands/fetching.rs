//! The commands of a crawler's fetch loop: `CHG.NEXT`, `CHG.RELEASE`, `CHG.EXTEND` and
//! `CHG.EXPIRED`.

use std::time::{Duration, Instant};

use crate::chg::Token;
use crate::chg::error;
use crate::chg::grammar::{EndUris, Expired, Extend, Next, Now, Release};
use crate::chg::lease::{Fate, ReleaseReply, When};
use crate::chg::next::{Ask, Lease, Search};
use crate::chg::store::check_packed;
use crate::chg::time::Millis;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::blocked::can_block;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::config;

use super::allowed;
use super::frontiers::{CachedFrontier, Touched, change, gone, timed_out, write_to};
use super::reply::{leases_reply, released_reply};
use super::store::FrontierKeys;
use super::waiter::Waiter;
use super::{metrics, settings};

/// Options of `NEXT`, which `RELEASE` also accepts.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    lease: Millis,
    count: usize,
    /// Maximum number of URIs of each lease; `None` if the client expects one.
    uris: Option<usize>,
    /// Pause after which the group is free again; `None` if the group stays leased until the
    /// release.
    gate: Option<Millis>,
    block: Option<Millis>,
    execution: Option<&'a [u8]>,
}

impl<'a> Wanted<'a> {
    /// Returns true if the reply contains the details of each URI of a lease.
    fn is_full(&self) -> bool {
        self.uris.is_some() || self.gate.is_some() || self.execution.is_some()
    }

    /// Refuses a request that a plain frontier cannot fulfil, before anything changes.
    fn check(&self, keys: &mut FrontierKeys) -> error::Result<()> {
        if self.is_full() {
            check_packed(keys)?;
        }
        Ok(())
    }

    fn ask(&self, after: Option<(&'a [u8], Token)>) -> Ask<'a> {
        Ask {
            lease: self.lease,
            count: self.count,
            uris: self.uris.unwrap_or(1),
            gate: self.gate,
            execution: self.execution,
            after,
        }
    }
}

impl Act for Next<'static> {
    fn act(asked: Next<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let wanted = Wanted {
            lease: asked.lease.unwrap_or(settings::LEASE.get()),
            count: asked.count.unwrap_or(1) as usize,
            uris: asked.uris.map(|n| n as usize),
            gate: asked.gate,
            block: asked.block,
            execution: asked.execution,
        };
        if let Some(chg) = asked.group {
            return next_of(call, &wanted, chg, &now);
        }
        let ctx = call.ctx;
        write_to(call, &Touched::AnyGroup, |cached, keys| {
            cached.simulated = now.simulated;
            wanted.check(keys)?;
            if !cached.waiters.all.is_empty() {
                // Serve the waiting clients first, because they have waited longer.
                cached.serve(keys, now.ms)?;
            }
            Ok(match next(cached, keys, ctx, &wanted, None, &now)? {
                Some(leases) => Answer::Reply(leases_reply(leases, wanted.is_full())),
                None => Answer::Sent,
            })
        })
    }
}

/// Leases a given group, if it is due.
fn next_of(
    call: &mut Call<'_>,
    wanted: &Wanted<'_>,
    chg: &[u8],
    now: &Now,
) -> Result<Answer, String> {
    let lease = write_to(call, &Touched::Groups(&[chg]), |cached, keys| {
        cached.simulated = now.simulated;
        wanted.check(keys)?;
        // Serve the waiting clients first, because they have waited longer.
        cached.serve(keys, now.ms)?;
        let ask = wanted.ask(None);
        cached.frontier.rounding = u64::from(!now.simulated);
        let lease = cached.frontier.next_of(keys, chg, &ask, now.ms)?;
        cached.arrange(keys, now.ms, false)?;
        Ok(lease)
    })?;
    let leases = lease.into_iter().collect();
    Ok(Answer::Reply(leases_reply(leases, wanted.is_full())))
}

/// Grants leases to the calling client. Returns `None` if the client has to wait for a lease.
fn next(
    cached: &mut CachedFrontier,
    keys: &mut FrontierKeys,
    ctx: Ctx,
    wanted: &Wanted<'_>,
    after: Option<(&[u8], Token, Millis)>,
    now: &Now,
) -> error::Result<Option<Vec<Lease>>> {
    let ask = wanted.ask(after.map(|(chg, token, _)| (chg, token)));
    let mut leases = Vec::with_capacity(1);
    let start = Instant::now();
    let budget = Duration::from_micros(config::slice_us());
    // The search calls this function after each candidate that it did not lease. The function
    // rarely reads the clock, because reading the clock takes as long as granting a lease.
    let mut looked_at = 0_u32;
    let mut in_time = || {
        looked_at += 1;
        !looked_at.is_multiple_of(32) || start.elapsed() < budget
    };
    let frontier = &mut cached.frontier;
    frontier.rounding = u64::from(!now.simulated);
    let mut search = frontier.next(keys, &ask, now.ms, &mut in_time, &mut leases)?;
    // If the client specifies the time, the reply must be complete for that time.
    if search == Search::Unfinished && (now.simulated || !can_block(ctx)) {
        search = frontier.next(keys, &ask, now.ms, &mut || true, &mut leases)?;
    }
    let until = match (wanted.block, search) {
        _ if !leases.is_empty() => None,
        (Some(block), _) if can_block(ctx) => {
            Some((block > 0).then(|| now.ms.saturating_add(block)))
        }
        // The time is up, no lease was granted, and there are more candidates.
        (_, Search::Unfinished) => Some(None),
        _ => None,
    };
    let Some(until) = until else {
        if let (Some((chg, token, _)), Some(lease)) = (after, leases.first()) {
            frontier.keep_next(keys, chg, token, lease)?;
        }
        cached.arrange(keys, now.ms, false)?;
        return Ok(Some(leases));
    };
    let waiter = Waiter {
        lease: wanted.lease,
        count: wanted.count,
        uris: wanted.uris.unwrap_or(1),
        is_full: wanted.is_full(),
        gate: wanted.gate,
        execution: wanted.execution.map(<[u8]>::to_vec),
        searches: wanted.block.is_none(),
        after: after.map(|(chg, token, due)| (chg.to_vec(), token, due)),
        leases,
    };
    cached.waiters.join(ctx, (gone, timed_out), until, waiter);
    cached.arrange(keys, now.ms, search == Search::Unfinished)?;
    Ok(None)
}

impl Act for Release<'static> {
    fn act(asked: Release<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Release { chg, token, .. } = asked;
        let mut when = asked.when.unwrap_or(When::Stored);
        let clamped = match &mut when {
            When::Facts(facts) => facts.clamp_requests(settings::MAX_PAUSE.get()),
            _ => 0,
        };
        let fate = asked.fate.unwrap_or(Fate::Unchanged);
        let wanted = asked.next.map(|next| Wanted {
            lease: next.lease.unwrap_or(settings::LEASE.get()),
            count: 1,
            uris: next.uris.map(|n| n as usize),
            gate: next.gate,
            block: next.block,
            execution: next.execution,
        });
        let touched = match wanted {
            Some(_) => Touched::AnyGroup,
            None => Touched::Groups(&[chg]),
        };
        let ctx = call.ctx;
        write_to(call, &touched, |cached, keys| {
            cached.simulated = now.simulated;
            if let Some(wanted) = &wanted {
                wanted.check(keys)?;
            }
            let frontier = &mut cached.frontier;
            frontier.rounding = u64::from(!now.simulated);
            let released = frontier.release(keys, chg, token, &when, &fate, now.ms)?;
            if let ReleaseReply::Released(_) = released {
                metrics::CLAMPED.add(clamped);
            }
            let (reply, next_after) = match (released, wanted) {
                (ReleaseReply::Before(due, lease), Some(wanted)) => {
                    (released_reply(due, lease, wanted.is_full()), None)
                }
                (ReleaseReply::Released(due), Some(wanted)) => (Reply::Nil, Some((due, wanted))),
                (ReleaseReply::Released(due) | ReleaseReply::Before(due, _), None) => {
                    (Reply::count(due), None)
                }
            };
            let Some((due, wanted)) = next_after else {
                cached.serve(keys, now.ms)?;
                return Ok(Answer::Reply(reply));
            };
            // Serve the waiting clients first, because they have waited longer.
            if !cached.waiters.all.is_empty() {
                cached.serve(keys, now.ms)?;
            }
            let after = Some((chg, token, due));
            Ok(match next(cached, keys, ctx, &wanted, after, &now)? {
                Some(leases) => {
                    let lease = leases.into_iter().next();
                    Answer::Reply(released_reply(due, lease, wanted.is_full()))
                }
                None => Answer::Sent,
            })
        })
    }
}

impl Act for EndUris<'static> {
    fn act(asked: EndUris<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let EndUris {
            chg,
            token,
            execution,
            names,
            ..
        } = asked;
        let ended = change(call, &Touched::Groups(&[chg]), now, |frontier, keys| {
            frontier.done(keys, (chg, token), execution, names.as_deref(), now.ms)
        })?;
        Ok(Answer::Reply(Reply::count(ended)))
    }
}

impl Act for Extend<'static> {
    fn act(asked: Extend<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Extend { chg, token, ms, .. } = asked;
        let deadline = change(call, &Touched::Groups(&[chg]), now, |frontier, keys| {
            frontier.extend(keys, chg, token, ms, now.ms)
        })?;
        Ok(Answer::Reply(Reply::count(deadline)))
    }
}

impl Act for Expired {
    fn act(asked: Expired, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let most = asked.count.unwrap_or(100);
        let reports = change(call, &Touched::AnyGroup, now, |frontier, keys| {
            frontier.expired(keys, most as usize, now.ms)
        })?;
        let optional = |part: Option<&Vec<u8>>| part.map_or(Reply::Nil, Reply::bulk);
        let reports = reports.iter().map(|report| {
            let uri = report.uri.as_ref();
            Reply::Array(vec![
                Reply::bulk(&report.chg),
                optional(uri.map(|(execution, _)| execution)),
                optional(uri.map(|(_, uri)| uri)),
                Reply::count(report.times),
            ])
        });
        Ok(Answer::Reply(Reply::Array(reports.collect())))
    }
}
