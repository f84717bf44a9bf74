//! Commands whose work is done in slices: `CHG.SWEEP`, `CHG.DROP`, `CHG.MOVE`, `CHG.CHECK`,
//! `CHG.REPAIR`.

use std::os::raw::c_int;

use crate::chg::check::check;
use crate::chg::dropping::{drop_execution, empty_group};
use crate::chg::job::{Job, Step};
use crate::chg::keys::is_bookkeeping;
use crate::chg::moving::move_group;
use crate::chg::sweep::sweep;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString};
use crawlspace_host::server::clock::now_ms;
use crawlspace_host::server::cluster;
use crawlspace_host::server::command::{Answer, Arg, Call, Command, Spec};
use crawlspace_host::server::job::{self, JobId, Progress, Slices, Submitted};
use crawlspace_host::server::keyspace::RedisKeyspace;

use super::NOW;
use super::arguments::{Now, id, now};
use super::frontiers::{Touched, permit, with_frontier};

/// A job of the rules, on the keys of this server.
struct FrontierJob {
    db: c_int,
    prefix: Vec<u8>,
    writes: bool,
    /// In whose name a job reads.
    user: Option<RmString>,
    /// What time the client says it is.
    simulated: Option<u64>,
    job: Job<RedisKeyspace>,
}

impl Slices for FrontierJob {
    fn slice(&mut self, ctx: Ctx, time: &mut dyn FnMut() -> bool) -> Progress {
        let mut keys = RedisKeyspace::new(ctx);
        if let Err(error) = cluster::check(ctx, &RmString::new(&self.prefix), self.writes) {
            return Progress::Done(Err(error));
        }
        if let (false, Some(user)) = (self.writes, &self.user) {
            keys.read_as(User::named(user), &self.prefix, is_bookkeeping);
        }
        let (job, writes, simulated) = (&mut self.job, self.writes, self.simulated);
        let step = with_frontier(self.db, &self.prefix, &mut keys, |cached, keys| {
            if writes {
                cached.frontier.check_types(keys)?;
            }
            let step = job.step(&mut cached.frontier, keys, time)?;
            if writes {
                cached.simulated = simulated.is_some();
                cached.serve(keys, simulated.unwrap_or_else(now_ms))?;
            }
            Ok(step)
        });
        match step {
            Ok(Step::More) => Progress::More,
            Ok(Step::Done(reply)) => Progress::Done(Ok(reply)),
            Err(error) => Progress::Done(Err(error.to_string())),
        }
    }

    fn db(&self) -> c_int {
        self.db
    }

    fn writes(&self) -> bool {
        self.writes
    }

    fn grows(&self) -> bool {
        false
    }
}

/// Hands a job in for the client that called; `now` for one that writes.
fn submit(
    call: &mut Call<'_>,
    now: Option<&Now>,
    (work, arguments): (&str, &[&[u8]]),
    job: Job<RedisKeyspace>,
) -> Result<Answer, String> {
    // What the command did so far is replicated before the job's own writes, and no key stays open
    // that the job may free.
    call.keys.release();
    let writes = now.is_some();
    let simulated = now.filter(|now| now.simulated).map(|now| now.ms);
    let id = JobId::new(call.db, call.prefix, writes, work, arguments);
    let job = FrontierJob {
        db: call.db,
        prefix: call.prefix.to_vec(),
        writes,
        user: User::current_name(call.ctx),
        simulated,
        job,
    };
    // Who says what time it is asks for something else each time, and so does who reads as himself.
    let may_attach = writes && simulated.is_none();
    match job::submit(call.ctx, id, Box::new(job), may_attach) {
        Submitted::Done(outcome) => outcome.map(Answer::Reply),
        Submitted::Waiting => Ok(Answer::Sent),
    }
}

/// What is due becomes ready.
pub struct Sweep;

impl Command for Sweep {
    const SPEC: Spec = Spec {
        name: "chg.sweep",
        flags: "write blocking",
        arity: -2,
        summary: "Moves groups that are due to the ready queue, for workers that pop it themselves.",
        complexity: "O(N log M) where N is the number of groups moved and M that of waiting and busy ones, in slices",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::integer("groups").after("LIMIT").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let limited = call.args.keyword("LIMIT");
        let limit = if limited {
            call.args.unsigned("LIMIT", 1, i64::MAX as u64)?
        } else {
            u64::MAX
        };
        call.args.end()?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        let limit_text = limit.to_string();
        let work = ("sweep", &[limit_text.as_bytes()][..]);
        submit(call, Some(&now), work, sweep(now.ms, limit))
    }
}

/// A crawl is aborted.
pub struct Drop;

impl Command for Drop {
    const SPEC: Spec = Spec {
        name: "chg.drop",
        flags: "write blocking",
        arity: -3,
        summary: "Takes the URIs of a crawl execution out of all groups, or all URIs out of a group.",
        complexity: "O(N + M log K) where N is the number of groups and M of URIs of the execution, and K of waiting groups, in slices",
        args: &[
            Arg::prefix(),
            NOW,
            Arg::one_of(
                "what",
                &[Arg::text("execution"), Arg::text("chg").after("GROUP")],
            ),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        // An execution may be called GROUP: the number of arguments tells.
        if call.args.left() == 2 && call.args.keyword("GROUP") {
            let chg = id(&mut call.args, "chg")?;
            permit(call, &Touched::Groups(&[chg]), Access::Write)?;
            let work = ("empty", &[chg][..]);
            let job = empty_group(chg, now.ms);
            return submit(call, Some(&now), work, job);
        }
        let execution = id(&mut call.args, "execution")?;
        call.args.end()?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        let job = drop_execution(execution, now.ms);
        submit(call, Some(&now), ("drop", &[execution]), job)
    }
}

/// A host got another group.
pub struct Move;

impl Command for Move {
    const SPEC: Spec = Spec {
        name: "chg.move",
        flags: "write deny-oom blocking",
        arity: -4,
        summary: "Moves everything that is queued for one group to another.",
        complexity: "O(N log M) where N is the number of URIs moved and M that of the other group, in slices",
        args: &[Arg::prefix(), NOW, Arg::text("from"), Arg::text("to")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        let from = id(&mut call.args, "from")?;
        let to = id(&mut call.args, "to")?;
        if from == to {
            return Err(format!(
                "ERR from and to are the same group (argument {})",
                call.args.position()
            ));
        }
        call.args.end()?;
        permit(call, &Touched::Groups(&[from, to]), Access::Write)?;
        let job = move_group(from, to, now.ms);
        submit(call, Some(&now), ("move", &[from, to]), job)
    }
}

/// Proof of conservation.
pub struct Check;

impl Command for Check {
    const SPEC: Spec = Spec {
        name: "chg.check",
        flags: "readonly blocking",
        arity: -2,
        summary: "Proves that every queued URI is counted once and every group stands in one queue.",
        complexity: "O(N) where N is the number of keys in the database, in slices",
        args: &[Arg::prefix(), NOW],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        call.args.end()?;
        permit(call, &Touched::AnyGroup, Access::Read)?;
        submit(call, None, ("check", &[]), check(false, now.ms))
    }
}

/// What a check finds is mended.
pub struct Repair;

impl Command for Repair {
    const SPEC: Spec = Spec {
        name: "chg.repair",
        flags: "write deny-oom blocking",
        arity: -2,
        summary: "Mends what CHG.CHECK finds: counts that drifted, and groups that stand in no queue.",
        complexity: "O(N) where N is the number of keys in the database, in slices",
        args: &[Arg::prefix(), NOW],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let now = now(call)?;
        call.args.end()?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        submit(call, Some(&now), ("repair", &[]), check(true, now.ms))
    }
}
