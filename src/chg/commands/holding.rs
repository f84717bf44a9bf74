//! What holds groups back or lets them go: `CHG.BLOCK`, `CHG.PAUSE`, `CHG.RESUME`, `CHG.LIMIT`,
//! `CHG.GROUP`; and what is known of them: `CHG.WHY`, `CHG.INFO`.

use crate::chg::hold::{Limits, Target};
use crate::chg::keys::ID_BYTES;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::args::Args;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};

use super::NOW;
use super::arguments::{id, now, span, time};
use super::frontiers::{Touched, anchor, on_frontier, permit};

/// Maximum number of fetches at a time from one group.
const MAX_PARALLEL: u64 = 1000;

/// One group is held.
pub struct Block;

impl Command for Block {
    const SPEC: Spec = Spec {
        name: "chg.block",
        flags: "write fast",
        arity: -5,
        summary: "Holds a group until a time, for example after a 429 or in an outage.",
        complexity: "O(log M) where M is the number of waiting groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("chg"),
            Arg::integer("time").after("UNTIL"),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let chg = id(args, "chg")?;
        if !args.keyword("UNTIL") {
            return Err(format!(
                "ERR syntax error: UNTIL and a time are missing (argument {})",
                args.position() + 1
            ));
        }
        let until = time(args, "UNTIL", now.ms)?;
        args.end()?;
        permit(call, &Touched::Groups(&[chg]), Access::Write)?;
        on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            cached.frontier.block(keys, chg, until, now.ms)?;
            cached.serve(keys, now.ms)
        })?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

/// What `PAUSE` and `RESUME` are about: two arguments are an execution, one is a group, none is all.
fn target<'a>(args: &mut Args<'a>) -> Result<Target<'a>, String> {
    Ok(match args.left() {
        0 => Target::All,
        1 => Target::Group(id(args, "chg")?),
        _ if args.keyword("EXECUTION") => Target::Execution(id(args, "execution")?),
        _ => {
            return Err(format!(
                "ERR syntax error: a group, or EXECUTION and its id, or nothing is expected (argument {})",
                args.position() + 1
            ));
        }
    })
}

fn pause(call: &mut Call<'_>, pause: bool) -> Result<Answer, String> {
    let now = now(call)?;
    let target = target(&mut call.args)?;
    call.args.end()?;
    let touched = match &target {
        Target::Group(chg) => Touched::Groups(std::slice::from_ref(chg)),
        _ => Touched::AnyGroup,
    };
    permit(call, &touched, Access::Write)?;
    on_frontier(call, |cached, keys| {
        cached.simulated = now.simulated;
        cached.frontier.pause(keys, target, pause, now.ms)?;
        cached.serve(keys, now.ms)
    })?;
    Ok(Answer::Reply(Reply::Ok))
}

const TARGET: [Arg; 3] = [
    Arg::prefix(),
    NOW,
    Arg::one_of(
        "what",
        &[Arg::text("chg"), Arg::text("execution").after("EXECUTION")],
    )
    .optional(),
];

/// A group, an execution or everything is paused.
pub struct Pause;

impl Command for Pause {
    const SPEC: Spec = Spec {
        name: "chg.pause",
        flags: "write",
        arity: -2,
        summary: "Holds a group, a crawl execution or the whole frontier until it is resumed.",
        complexity: "O(1)",
        args: &TARGET,
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        pause(call, true)
    }
}

/// A pause ends.
pub struct Resume;

impl Command for Resume {
    const SPEC: Spec = Spec {
        name: "chg.resume",
        flags: "write",
        arity: -2,
        summary: "Lets a group, a crawl execution or the whole frontier go on.",
        complexity: "O(1)",
        args: &TARGET,
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        pause(call, false)
    }
}

/// Limits of a group.
pub struct Limit;

impl Command for Limit {
    const SPEC: Spec = Spec {
        name: "chg.limit",
        flags: "write deny-oom",
        arity: -5,
        summary: "Sets how many fetches at a time a group allows, how far apart, the pause after each, and how many URIs.",
        complexity: "O(log M) where M is the number of waiting groups",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("chg"),
            Arg::one_of(
                "limit",
                &[
                    Arg::integer("fetches").after("PARALLEL"),
                    Arg::integer("milliseconds").after("GAP"),
                    Arg::integer("delay-milliseconds").after("DELAY"),
                    Arg::integer("uris").after("BUDGET"),
                ],
            )
            .multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let chg = id(args, "chg")?;
        let mut limits = Limits::default();
        while args.left() > 0 {
            if args.keyword("PARALLEL") {
                limits.parallel = Some(args.unsigned("PARALLEL", 1, MAX_PARALLEL)?);
            } else if args.keyword("GAP") {
                limits.gap = Some(span(args, "GAP", 0)?);
            } else if args.keyword("DELAY") {
                limits.delay = Some(if args.keyword("-1") {
                    None
                } else {
                    Some(span(args, "DELAY", 0)?)
                });
            } else if args.keyword("BUDGET") {
                limits.budget = Some(if args.keyword("-1") {
                    None
                } else {
                    Some(args.unsigned("BUDGET", 0, i64::MAX as u64)?)
                });
            } else {
                args.end()?;
            }
        }
        if limits == Limits::default() {
            return Err(format!(
                "ERR syntax error: PARALLEL, GAP, DELAY or BUDGET is missing (argument {})",
                args.position() + 1
            ));
        }
        permit(call, &Touched::Groups(&[chg]), Access::Write)?;
        on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            cached.frontier.limit(keys, chg, &limits, now.ms)?;
            cached.serve(keys, now.ms)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

/// A gate is shared.
pub struct Group;

impl Command for Group {
    const SPEC: Spec = Spec {
        name: "chg.group",
        flags: "write deny-oom",
        arity: -4,
        summary: "Puts groups behind one shared gate, because one server or operator is behind them.",
        complexity: "O(N log M) where N is the number of groups and M that of waiting ones",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::text("group"),
            Arg::text("chg").multiple(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let args = &mut call.args;
        let gate = args.next("group")?;
        if gate.len() > ID_BYTES {
            return Err(format!(
                "ERR group has {} bytes, the maximum is {ID_BYTES} (argument {})",
                gate.len(),
                args.position()
            ));
        }
        let mut groups = vec![id(args, "chg")?];
        while args.left() > 0 {
            groups.push(id(args, "chg")?);
        }
        permit(call, &Touched::Groups(&groups), Access::Write)?;
        on_frontier(call, |cached, keys| {
            cached.simulated = now.simulated;
            cached.frontier.group(keys, gate, &groups, now.ms)?;
            cached.serve(keys, now.ms)
        })?;
        anchor(call)?;
        Ok(Answer::Reply(Reply::Ok))
    }
}

/// Why a host is not being fetched from.
pub struct Why;

impl Command for Why {
    const SPEC: Spec = Spec {
        name: "chg.why",
        flags: "readonly",
        arity: -3,
        summary: "Tells why a group is not being fetched from: its state, holder, gate and when it is due.",
        complexity: "O(N) where N is the number of executions that have URIs queued for it",
        args: &[Arg::prefix(), NOW, Arg::text("chg")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let chg = id(&mut call.args, "chg")?;
        call.args.end()?;
        permit(call, &Touched::Groups(&[chg]), Access::Read)?;
        on_frontier(call, |cached, keys| cached.frontier.why(keys, chg, now.ms)).map(Answer::Reply)
    }
}

/// Figures of a frontier.
pub struct Info;

impl Command for Info {
    const SPEC: Spec = Spec {
        name: "chg.info",
        flags: "readonly",
        arity: -2,
        summary: "Tells the sizes of the queues, rates, and whether politeness was kept.",
        complexity: "O(log M) where M is the number of waiting groups",
        args: &[Arg::prefix(), NOW],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        call.args.end()?;
        permit(call, &Touched::AnyGroup, Access::Read)?;
        on_frontier(call, |cached, keys| {
            let waiters = cached.waiters.len() as u64;
            cached.frontier.info(keys, waiters, now.ms)
        })
        .map(Answer::Reply)
    }
}
