//! Commands that run in slices: `CHG.SWEEP`, `CHG.DROP`, `CHG.MOVE`, `CHG.CHECK`, `CHG.REPAIR`,
//! `CHG.PACK`, `CHG.UNPACK`.

use std::os::raw::c_int;

use crate::chg::check::check;
use crate::chg::dropping::{drop_execution, empty_group};
use crate::chg::grammar::{Check, Drop, Dropped, Move, Now, Pack, Repair, Sweep, Unpack};
use crate::chg::hold::pause_execution;
use crate::chg::job::{Job, Step};
use crate::chg::keys::is_bookkeeping;
use crate::chg::moving::move_group;
use crate::chg::packing::move_to;
use crate::chg::sweep::sweep;
use crate::storage::Storage;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RmString};
use crawlspace_host::server::clock::now_ms;
use crawlspace_host::server::cluster;
use crawlspace_host::server::command::{Act, Answer, Call};
use crawlspace_host::server::job::{self, JobId, Progress, Slices, Submitted};
use crawlspace_host::slices::Completion;

use super::allowed;
use super::frontiers::{Touched, anchor, make_packed, permit, with_frontier};
use super::store::{FrontierKeys, State, storage_of};

/// A job on the keys of this server.
struct FrontierJob {
    db: c_int,
    prefix: Vec<u8>,
    writes: bool,
    /// The user with whose permissions the job reads.
    user: Option<RmString>,
    /// The current time, if the client specified it.
    simulated: Option<u64>,
    work: Work,
    /// Storage of the frontier at the end of the last slice.
    storage: Option<State>,
}

/// A job, and how to run it.
pub(super) struct Work {
    job: Job<FrontierKeys>,
    /// Creates the job again. This is necessary if the storage of the frontier has changed since the last
    /// slice, because any client can delete, move or restore the packed value. The names of all keys depend
    /// on the storage.
    make: Box<dyn Fn() -> Job<FrontierKeys>>,
    /// True if the job needs more memory.
    grows: bool,
}

impl Work {
    pub(super) fn new(make: impl Fn() -> Job<FrontierKeys> + 'static) -> Work {
        Work {
            job: make(),
            make: Box::new(make),
            grows: false,
        }
    }
}

impl Slices for FrontierJob {
    fn slice(&mut self, ctx: Ctx, time: &mut dyn FnMut() -> bool) -> Progress {
        let mut keys = crawlspace_host::server::keyspace::RedisKeyspace::new(ctx);
        if let Err(error) = cluster::check(ctx, &RmString::new(&self.prefix), self.writes) {
            return Progress::Done(Err(error));
        }
        if let (false, Some(user)) = (self.writes, &self.user) {
            keys.read_as(User::named(user), &self.prefix, is_bookkeeping, None);
        }
        let (work, writes, simulated) = (&mut self.work, self.writes, self.simulated);
        let storage = &mut self.storage;
        let step = with_frontier(self.db, &self.prefix, &mut keys, |cached, keys| {
            if writes {
                cached.frontier.types.check(keys)?;
            }
            if storage.is_some_and(|before| before != keys.storage()) {
                work.job = (work.make)();
            }
            let step = work.job.step(&mut cached.frontier, keys, time)?;
            *storage = Some(keys.storage());
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
        self.work.grows
    }

    fn completion(&self) -> Completion {
        self.work.job.completion()
    }
}

/// Submits a job for the calling client. `now` is `None` for jobs that only read.
pub(super) fn submit(
    call: &mut Call<'_>,
    now: Option<&Now>,
    (name, arguments): (&'static str, &[&[u8]]),
    work: Work,
) -> Result<Answer, String> {
    let writes = now.is_some();
    let id = JobId::new("frontier", call.db, call.prefix, writes, name, arguments);
    // Only jobs that write and use the time of the clock can be shared. If clients specify the
    // time, every request is different. A job that only reads uses the permissions of its own user.
    let may_attach = now.is_some_and(|now| !now.simulated);
    submit_as(call, id, (now, may_attach), work)
}

/// Submits a job with an id. With `may_attach`, the client waits for a running job with the same id
/// if there is one.
fn submit_as(
    call: &mut Call<'_>,
    id: JobId,
    (now, may_attach): (Option<&Now>, bool),
    work: Work,
) -> Result<Answer, String> {
    // Replicate the writes of the command before those of the job, and close keys that the job may
    // free.
    call.keys.release();
    let simulated = now.filter(|now| now.simulated).map(|now| now.ms);
    let job = FrontierJob {
        db: call.db,
        prefix: call.prefix.to_vec(),
        writes: now.is_some(),
        user: User::current_name(call.ctx),
        simulated,
        work,
        storage: None,
    };
    match job::submit(call.ctx, id, Box::new(job), may_attach) {
        Submitted::Done(outcome) => outcome.map(Answer::Reply),
        Submitted::Waiting => Ok(Answer::Sent),
    }
}

/// Pauses or resumes an execution.
pub(super) fn pause_in_slices(
    call: &mut Call<'_>,
    now: &Now,
    execution: &[u8],
    pause: bool,
) -> Result<Answer, String> {
    // A pause waits only for other pauses, because other jobs on the frontier may take a long time.
    let id = JobId::new("frontier", call.db, call.prefix, false, "pause", &[]);
    let (execution, ms) = (execution.to_vec(), now.ms);
    let work = Work::new(move || pause_execution(&execution, pause, ms));
    submit_as(call, id, (Some(now), false), work)
}

impl Act for Sweep {
    fn act(asked: Sweep, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        let limit_text = asked.limit.map(|limit| limit.to_string());
        let limits: Vec<&[u8]> = limit_text.iter().map(String::as_bytes).collect();
        let limit = asked.limit.unwrap_or(u64::MAX);
        let work = Work::new(move || sweep(now.ms, limit));
        submit(call, Some(&now), ("sweep", &limits), work)
    }
}

impl Act for Drop<'static> {
    fn act(asked: Drop<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let execution = match asked.what {
            Dropped::Execution(execution) => execution,
            Dropped::Group(chg) => {
                permit(call, &Touched::Groups(&[chg]), Access::Write)?;
                let group = chg.to_vec();
                let work = Work::new(move || empty_group(&group, now.ms));
                return submit(call, Some(&now), ("empty", &[chg]), work);
            }
        };
        permit(call, &Touched::AnyGroup, Access::Write)?;
        let dropped = execution.to_vec();
        let work = Work::new(move || drop_execution(&dropped, now.ms));
        submit(call, Some(&now), ("drop", &[execution]), work)
    }
}

impl Act for Move<'static> {
    fn act(asked: Move<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        let Move { from, to, .. } = asked;
        permit(call, &Touched::Groups(&[from, to]), Access::Write)?;
        let ends = [from, to].map(<[u8]>::to_vec);
        let work = Work::new(move || move_group(&ends[0], &ends[1], now.ms));
        submit(call, Some(&now), ("move", &[from, to]), work)
    }
}

impl Act for Check {
    fn act(asked: Check, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        permit(call, &Touched::AnyGroup, Access::Read)?;
        let work = Work::new(move || check(false, now.ms));
        submit(call, None, ("check", &[]), work)
    }
}

impl Act for Repair {
    fn act(asked: Repair, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        let work = Work::new(move || check(true, now.ms));
        submit(call, Some(&now), ("repair", &[]), work)
    }
}

impl Act for Pack {
    fn act(asked: Pack, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        if make_packed(call)? {
            anchor(call)?;
            return Ok(Answer::Reply(Reply::count(0)));
        }
        // Each slice frees more memory than it uses.
        let work = Work::new(move || move_to(Storage::Packed, now.ms));
        submit(call, Some(&now), ("pack", &[]), work)
    }
}

impl Act for Unpack {
    fn act(asked: Unpack, call: &mut Call<'_>) -> Result<Answer, String> {
        let now = allowed(asked.now)?;
        permit(call, &Touched::AnyGroup, Access::Write)?;
        if storage_of(&mut call.keys, call.prefix).is_none() {
            return Ok(Answer::Reply(Reply::count(0)));
        }
        let work = Work {
            grows: true,
            ..Work::new(move || move_to(Storage::Plain, now.ms))
        };
        submit(call, Some(&now), ("unpack", &[]), work)
    }
}
