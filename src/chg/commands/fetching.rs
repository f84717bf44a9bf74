//! What a crawler's fetch loop runs on: `CHG.NEXT`, `CHG.RELEASE`, `CHG.EXTEND` and `CHG.EXPIRED`.

use std::time::{Duration, Instant};

use crate::chg::Token;
use crate::chg::lease::{self, Fate, When};
use crate::chg::next::{Ask, Lease, Search};
use crate::chg::politeness::{Factor, Facts};
use crate::chg::time::Millis;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::args::Args;
use crawlspace_host::server::blocked::{BlockedClient, can_block};
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::server::config;
use crawlspace_host::text::{Shown, parse_unsigned};

use super::NOW;
use super::arguments::{self, Now, id, now, span, status, time, token};
use super::frontiers::{Touched, gone, on_frontier, permit, timed_out};
use super::reply::{leases_reply, released_reply};
use super::settings;
use super::waiters::Waiter;

/// Maximum number of leases at a time, and most reports.
const MAX_COUNT: u64 = 1000;

/// What is asked of `NEXT`, alone or as a part of `RELEASE`.
#[derive(Clone, Copy, Debug)]
struct Wanted<'a> {
    lease: Millis,
    count: usize,
    block: Option<Millis>,
    /// This group and no other.
    group: Option<&'a [u8]>,
}

impl<'g> Wanted<'g> {
    /// Reads options up to the end of the arguments.
    fn read(args: &mut Args<'g>, now: &Now, alone: bool) -> Result<Wanted<'g>, String> {
        let mut wanted = Wanted {
            lease: settings::LEASE.get(),
            count: 1,
            block: None,
            group: None,
        };
        let mut counts = false;
        while args.left() > 0 {
            if args.keyword("LEASE") {
                wanted.lease = span(args, "LEASE", 1)?;
            } else if alone && args.keyword("COUNT") {
                wanted.count = args.unsigned("COUNT", 1, MAX_COUNT)? as usize;
                counts = true;
            } else if alone && args.keyword("GROUP") {
                wanted.group = Some(id(args, "chg")?);
            } else if args.keyword("BLOCK") {
                if now.simulated {
                    return Err(format!(
                        "ERR BLOCK waits by the server's clock, and cannot be combined with NOW (argument {})",
                        args.position()
                    ));
                }
                wanted.block = Some(span(args, "BLOCK", 0)?);
            } else {
                args.end()?;
            }
        }
        if wanted.group.is_some() && (counts || wanted.block.is_some()) {
            return Err(format!(
                "ERR syntax error: GROUP asks for one lease of one group now, and cannot be combined with COUNT or BLOCK (argument {})",
                args.position()
            ));
        }
        Ok(wanted)
    }

    fn ask<'a>(&self, after: Option<(&'a [u8], Token)>) -> Ask<'a> {
        Ask {
            lease: self.lease,
            count: self.count,
            after,
        }
    }
}

/// A group is leased.
pub struct Next;

impl Command for Next {
    const SPEC: Spec = Spec {
        name: "chg.next",
        flags: "write blocking",
        arity: -2,
        summary: "Leases the groups that have been ready longest, waiting for them if asked to.",
        complexity: "O(N log M) where N is the number of leases and M that of waiting and busy groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::integer("milliseconds").after("LEASE").optional(),
            Arg::integer("count").after("COUNT").optional(),
            Arg::integer("block-milliseconds").after("BLOCK").optional(),
            Arg::text("chg").after("GROUP").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let wanted = Wanted::read(&mut call.args, &now, true)?;
        if let Some(chg) = wanted.group {
            permit(call, &Touched::Groups(&[chg]), Access::Write)?;
            return next_of(call, &wanted, chg, &now);
        }
        permit(call, &Touched::AnyGroup, Access::Write)?;
        match next(call, &wanted, None, &now)? {
            Some(leases) => Ok(Answer::Reply(leases_reply(&leases))),
            None => Ok(Answer::Sent),
        }
    }
}

/// A lease of one group, if it is due.
fn next_of(
    call: &mut Call<'_>,
    wanted: &Wanted<'_>,
    chg: &[u8],
    now: &Now,
) -> Result<Answer, String> {
    let lease = on_frontier(call, |cached, keys| {
        cached.simulated = now.simulated;
        // Clients in the line have waited longer.
        cached.serve(keys, now.ms)?;
        let ask = wanted.ask(None);
        let lease = cached.frontier.next_of(keys, chg, &ask, now.ms)?;
        cached.arrange(keys, now.ms, false)?;
        Ok(lease)
    })?;
    Ok(Answer::Reply(leases_reply(lease.as_slice())))
}

/// Leases for the client of a call, or `None` when it waits for them from now on.
fn next(
    call: &mut Call<'_>,
    wanted: &Wanted<'_>,
    after: Option<(&[u8], Token, Millis)>,
    now: &Now,
) -> Result<Option<Vec<Lease>>, String> {
    let ctx = call.ctx;
    on_frontier(call, |cached, keys| {
        cached.simulated = now.simulated;
        if !cached.waiters.is_empty() {
            // They have waited longer.
            cached.serve(keys, now.ms)?;
        }
        let ask = wanted.ask(after.map(|(chg, token, _)| (chg, token)));
        let mut leases = Vec::new();
        let start = Instant::now();
        let budget = Duration::from_micros(config::slice_us());
        // Asked when a candidate was no good; a clock would cost as much as a lease.
        let mut looked_at = 0_u32;
        let mut in_time = || {
            looked_at += 1;
            !looked_at.is_multiple_of(32) || start.elapsed() < budget
        };
        let frontier = &mut cached.frontier;
        let mut search = frontier.next(keys, &ask, now.ms, &mut in_time, &mut leases)?;
        // Who says what time it is gets the whole answer for that time.
        if search == Search::Unfinished && (now.simulated || !can_block(ctx)) {
            search = frontier.next(keys, &ask, now.ms, &mut || true, &mut leases)?;
        }
        let until = match (wanted.block, search) {
            _ if !leases.is_empty() => None,
            (Some(block), _) if can_block(ctx) => {
                Some((block > 0).then(|| now.ms.saturating_add(block)))
            }
            // Nothing yet, and more to look at than there is time for now.
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
        cached.waiters.push_back(Waiter {
            client: BlockedClient::block(ctx, gone, Some(timed_out)),
            lease: wanted.lease,
            count: wanted.count,
            until,
            searches: wanted.block.is_none(),
            after: after.map(|(chg, token, due)| (chg.to_vec(), token, due)),
            leases,
        });
        cached.arrange(keys, now.ms, search == Search::Unfinished)?;
        Ok(None)
    })
}

/// A fetch ended.
pub struct Release;

impl Command for Release {
    const SPEC: Spec = Spec {
        name: "chg.release",
        flags: "write blocking",
        arity: -4,
        summary: "Ends a lease: the group waits for as long as politeness asks, then it is due again.",
        complexity: "O(log M) where M is the number of waiting and busy groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("chg"),
            Arg::integer("token"),
            Arg::one_of(
                "when",
                &[
                    Arg::integer("time").after("AT"),
                    Arg::integer("milliseconds").after("DELAY"),
                    Arg::block(
                        "facts",
                        &[
                            Arg::integer("elapsed").after("ELAPSED"),
                            Arg::text("factor").after("FACTOR").optional(),
                            Arg::integer("min").after("MIN").optional(),
                            Arg::integer("max").after("MAX").optional(),
                            Arg::integer("crawl-delay").after("CRAWLDELAY").optional(),
                            Arg::integer("retry-after").after("RETRYAFTER").optional(),
                            Arg::integer("status").after("STATUS").optional(),
                        ],
                    ),
                ],
            )
            .optional(),
            Arg::one_of(
                "fate",
                &[
                    Arg::block(
                        "done",
                        &[Arg::text("execution"), Arg::integer("count").optional()],
                    )
                    .after("DONE"),
                    Arg::integer("at").after("RETRY"),
                ],
            )
            .optional(),
            Arg::block(
                "next",
                &[
                    Arg::word("take", "NEXT"),
                    Arg::integer("milliseconds").after("LEASE").optional(),
                    Arg::integer("block-milliseconds").after("BLOCK").optional(),
                ],
            )
            .optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let chg = id(args, "chg")?;
        let token = token(args)?;
        let when = read_when(args, &now)?;
        let mut fate = Fate::Unchanged;
        let mut wanted = None;
        while args.left() > 0 {
            let before = fate;
            if args.keyword("DONE") {
                fate = read_done(args)?;
            } else if args.keyword("RETRY") {
                fate = Fate::Retry(time(args, "RETRY", now.ms)?);
            } else if args.keyword("NEXT") {
                wanted = Some(Wanted::read(args, &now, false)?);
            } else {
                args.end()?;
            }
            if before != Fate::Unchanged && fate != before {
                return Err(format!(
                    "ERR syntax error: a URI is either DONE or to RETRY, and only once (argument {})",
                    args.position()
                ));
            }
        }
        let touched = match wanted {
            Some(_) => Touched::AnyGroup,
            None => Touched::Groups(&[chg]),
        };
        permit(call, &touched, Access::Write)?;
        let answer = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let frontier = &mut cached.frontier;
            frontier.rounding = u64::from(!now.simulated);
            let answer = frontier.release(keys, chg, token, &when, &fate, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(answer)
        })?;
        let due = match answer {
            lease::ReleaseReply::Released(due) => due,
            lease::ReleaseReply::Before(due, lease) => {
                return Ok(Answer::Reply(match wanted {
                    Some(_) => released_reply(due, lease.as_ref()),
                    None => Reply::count(due),
                }));
            }
        };
        let Some(wanted) = wanted else {
            return Ok(Answer::Reply(Reply::count(due)));
        };
        match next(call, &wanted, Some((chg, token, due)), &now)? {
            Some(leases) => Ok(Answer::Reply(released_reply(due, leases.first()))),
            None => Ok(Answer::Sent),
        }
    }
}

fn read_when(args: &mut Args<'_>, now: &Now) -> Result<When, String> {
    if args.keyword("AT") {
        return Ok(When::At(time(args, "AT", now.ms)?));
    }
    if args.keyword("DELAY") {
        return Ok(When::Delay(span(args, "DELAY", 0)?));
    }
    if !args.keyword("ELAPSED") {
        // What follows is what becomes of the URI, or not understood.
        return Ok(When::Stored);
    }
    let mut facts = Facts {
        elapsed: span(args, "ELAPSED", 0)?,
        factor: Factor::ONE,
        min: 0,
        max: None,
        crawl_delay: 0,
        retry_after: 0,
        status: None,
    };
    loop {
        if args.keyword("FACTOR") {
            let text = args.next("FACTOR")?;
            facts.factor = Factor::parse(text).ok_or_else(|| {
                format!(
                    "ERR invalid FACTOR '{}': a number from 0 to 1000 with at most three decimals is expected (argument {})",
                    Shown(text),
                    args.position()
                )
            })?;
        } else if args.keyword("MIN") {
            facts.min = span(args, "MIN", 0)?;
        } else if args.keyword("MAX") {
            facts.max = Some(span(args, "MAX", 0)?);
        } else if args.keyword("CRAWLDELAY") {
            facts.crawl_delay = span(args, "CRAWLDELAY", 0)?;
        } else if args.keyword("RETRYAFTER") {
            facts.retry_after = span(args, "RETRYAFTER", 0)?;
        } else if args.keyword("STATUS") {
            facts.status = Some(status(args)?);
        } else {
            break;
        }
    }
    match facts.max {
        Some(max) if max < facts.min => Err(format!(
            "ERR MAX {max} is less than MIN {} (argument {})",
            facts.min,
            args.position()
        )),
        _ => Ok(When::Facts(facts)),
    }
}

fn read_done<'a>(args: &mut Args<'a>) -> Result<Fate<'a>, String> {
    let execution = id(args, "execution")?;
    let has_count = args.peek().and_then(parse_unsigned).is_some();
    let count = if has_count {
        Some(args.unsigned("count", 1, i64::MAX as u64)?)
    } else {
        None
    };
    Ok(Fate::Done { execution, count })
}

/// A fetch takes longer.
pub struct Extend;

impl Command for Extend {
    const SPEC: Spec = Spec {
        name: "chg.extend",
        flags: "write fast",
        arity: -5,
        summary: "Gives a lease a new deadline, for a fetch that takes longer.",
        complexity: "O(log M) where M is the number of busy groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("chg"),
            Arg::integer("token"),
            Arg::integer("milliseconds"),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let chg = id(&mut call.args, "chg")?;
        let token = arguments::token(&mut call.args)?;
        let ms = span(&mut call.args, "milliseconds", 1)?;
        call.args.end()?;
        permit(call, &Touched::Groups(&[chg]), Access::Write)?;
        let deadline = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let deadline = cached.frontier.extend(keys, chg, token, ms, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(deadline)
        })?;
        Ok(Answer::Reply(Reply::count(deadline)))
    }
}

/// Leases ran out.
pub struct Expired;

impl Command for Expired {
    const SPEC: Spec = Spec {
        name: "chg.expired",
        flags: "write",
        arity: -2,
        summary: "Takes reports of leases that ran out off their list.",
        complexity: "O(N log M) where N is the number of reports and M that of busy groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::integer("count").after("COUNT").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let most = if call.args.keyword("COUNT") {
            call.args.unsigned("COUNT", 1, MAX_COUNT)?
        } else {
            100
        };
        call.args.end()?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        let reports = on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            let reports = cached.frontier.expired(keys, most as usize, now.ms)?;
            cached.serve(keys, now.ms)?;
            Ok(reports)
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
