//! Long jobs in time slices, so that other clients are served while a job runs.
//!
//! Jobs in one queue run one after the other, and queues take turns. While there are jobs, each
//! iteration of the event loop runs one slice. A slice runs as an internal command, so that all its
//! writes are replicated as one transaction. (If the event-loop callback itself wrote, the server
//! would abort. If a thread took the global lock repeatedly, clients would wait for a long time.)

use std::collections::VecDeque;
use std::os::raw::{c_int, c_void};
use std::time::{Duration, Instant};

use super::api::{Ctx, RawCtx, context_flags, raw, rm};
use super::blocked::{BlockedClient, can_block};
use super::cluster::in_cluster;
use super::config;
use super::event;
use super::guard::guarded;
use super::main_thread::MainThread;
use super::metric::{JOBS_DONE, JOBS_RUNNING, SLICE_LONGEST_CPU_US, SLICE_LONGEST_US, SLICES};
use super::notify::{Change, Listener};
use super::reply::Outcome;
use super::turn::{self, LATER_MS};
use super::worker::processor_us;
use crate::slices::Completion;

/// Result of a slice.
pub enum Progress {
    /// More work remains.
    More,
    /// The job has ended.
    Done(Outcome),
}

/// A job that runs in slices.
pub trait Slices {
    /// Works until `time` returns false. Always makes some progress.
    fn slice(&mut self, ctx: Ctx, time: &mut dyn FnMut() -> bool) -> Progress;
    /// Returns the number of the database that the job works on.
    fn db(&self) -> c_int;
    /// Returns true if the job writes. A job that only reads may run on a replica.
    fn writes(&self) -> bool;
    /// Returns true if the job needs more memory. A job that needs more memory must stop at
    /// `maxmemory`.
    fn grows(&self) -> bool;
    /// Returns the progress of the job.
    fn completion(&self) -> Completion;
}

/// Identity of a job. Jobs with the same identity do the same work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobId {
    /// Kind of data set, such as `index`. An index and a frontier can have the same prefix.
    pub kind: &'static str,
    /// Database that the job works on.
    pub db: c_int,
    /// Prefix of the keys that the job works on.
    pub prefix: Vec<u8>,
    /// Kind of work, such as `commit`.
    pub work: &'static str,
    /// Arguments of the work, such as the id of a crawl.
    pub arguments: Vec<Vec<u8>>,
    writes: bool,
}

impl JobId {
    /// Creates the identity of a job on a data set, that is, on the keys of a prefix. Jobs that write
    /// to these keys run one after the other. Jobs that only read do not wait for these jobs.
    pub fn new(
        kind: &'static str,
        db: c_int,
        prefix: &[u8],
        writes: bool,
        work: &'static str,
        arguments: &[&[u8]],
    ) -> JobId {
        JobId {
            kind,
            db,
            prefix: prefix.to_vec(),
            work,
            arguments: arguments.iter().map(|argument| argument.to_vec()).collect(),
            writes,
        }
    }

    /// Returns true if both jobs do the same kind of work on the same keys, with any arguments.
    pub fn is_same_work(&self, other: &JobId) -> bool {
        self.work == other.work && self.has_same_keys(other)
    }

    fn has_same_keys(&self, other: &JobId) -> bool {
        (self.kind, self.db) == (other.kind, other.db) && self.prefix == other.prefix
    }

    /// Returns true if both jobs belong to one queue, so that they never run at the same time.
    fn shares_queue(&self, other: &JobId) -> bool {
        (self.writes && other.writes && self.has_same_keys(other)) || self == other
    }
}

/// Calls `each` for every running or queued job, with its progress.
pub fn each(mut each: impl FnMut(&JobId, Completion)) {
    for queued in RUNNER.borrow().queues.iter().flatten() {
        each(&queued.id, queued.job.completion());
    }
}

struct Queued {
    id: JobId,
    job: Box<dyn Slices>,
    waiting: Vec<BlockedClient>,
}

struct Runner {
    queues: VecDeque<VecDeque<Queued>>,
    /// Descriptor that wakes the event loop.
    event: c_int,
}

static RUNNER: MainThread<Runner> = MainThread::new(Runner {
    queues: VecDeque::new(),
    event: -1,
});

/// Result of submitting a job.
pub enum Submitted {
    /// The job is done, with this outcome.
    Done(Outcome),
    /// The client is blocked, and gets its reply when the job ends.
    Waiting,
}

/// Submits a job for the client of `ctx`. If the queue of the job is empty, the job starts
/// immediately. If one slice is enough, the client gets its reply without being blocked. With
/// `may_attach`, a client that requests the same work as an existing job waits for that job. If the
/// client cannot be blocked (`MULTI`, scripts), the call runs all jobs of the queue, and then this
/// job, to their end.
pub fn submit(ctx: Ctx, id: JobId, mut job: Box<dyn Slices>, may_attach: bool) -> Submitted {
    // A replica in a cluster serves reads only to a client that sent `READONLY`, so the job must
    // run within the call.
    let replica = || context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0;
    if !can_block(ctx) || (!job.writes() && in_cluster() && replica()) {
        finish_queue(ctx, &id);
        let outcome = run_to_end(ctx, &mut *job);
        JOBS_DONE.add(1);
        return Submitted::Done(outcome);
    }
    let idle = !RUNNER.borrow().queues.iter().any(|q| stands_for(q, &id));
    if idle && let Progress::Done(outcome) = timed_slice(ctx, &mut *job) {
        JOBS_DONE.add(1);
        return Submitted::Done(outcome);
    }
    let client = BlockedClient::block(ctx, drop_client, None);
    let mut runner = RUNNER.borrow();
    let queue = runner.queues.iter_mut().find(|q| stands_for(q, &id));
    let same = queue.and_then(|queue| {
        if may_attach && queue.iter().any(|queued| queued.id == id) {
            return queue.iter_mut().find(|queued| queued.id == id);
        }
        None
    });
    if let Some(queued) = same {
        queued.waiting.push(client);
        return Submitted::Waiting;
    }
    runner.add(Queued {
        id,
        job,
        waiting: vec![client],
    });
    Submitted::Waiting
}

/// Queues a job for which no client waits, unless the same work is already queued.
pub fn start_unattended(id: JobId, job: Box<dyn Slices>) {
    let mut runner = RUNNER.borrow();
    if runner.queues.iter().flatten().any(|queued| queued.id == id) {
        return;
    }
    runner.add(Queued {
        id,
        job,
        waiting: Vec::new(),
    });
}

/// Removes the jobs that `which` selects, and sends `outcome` to their clients. Returns the number
/// of removed jobs.
pub fn abort(outcome: &Outcome, which: impl Fn(&JobId, &dyn Slices) -> bool) -> usize {
    let mut aborted = Vec::new();
    {
        let mut runner = RUNNER.borrow();
        for queue in &mut runner.queues {
            let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(queue)
                .into_iter()
                .partition(|queued| which(&queued.id, &*queued.job));
            aborted.extend(gone);
            queue.extend(kept);
        }
        runner.queues.retain(|queue| !queue.is_empty());
        runner.show();
    }
    let n = aborted.len();
    for queued in aborted {
        for client in queued.waiting {
            client.answer(outcome.clone());
        }
    }
    n
}

/// Returns true if this is the job's queue. A queue is empty while its only job runs a slice.
fn stands_for(queue: &VecDeque<Queued>, id: &JobId) -> bool {
    let first = queue.front();
    first.is_some_and(|queued| queued.id.shares_queue(id))
}

/// Removes a client that disconnected. The client's job continues.
fn drop_client(client: BlockedClient) {
    for queued in RUNNER.borrow().queues.iter_mut().flatten() {
        queued.waiting.retain(|waiting| *waiting != client);
    }
}

fn run_to_end(ctx: Ctx, job: &mut dyn Slices) -> Outcome {
    loop {
        let step = guarded("a job", || job.slice(ctx, &mut || true));
        match step {
            Ok(Progress::More) => {}
            Ok(Progress::Done(outcome)) => return outcome,
            Err(panic) => return Err(panic),
        }
    }
}

/// Runs all jobs of a queue to their end, for a client that cannot wait.
fn finish_queue(ctx: Ctx, id: &JobId) {
    loop {
        let next = {
            let mut runner = RUNNER.borrow();
            let at = runner.queues.iter().position(|q| stands_for(q, id));
            let Some(at) = at else { return };
            let next = runner.queues[at].pop_front();
            runner.queues.retain(|queue| !queue.is_empty());
            next
        };
        let Some(mut queued) = next else { return };
        let outcome = run_to_end(ctx, &mut *queued.job);
        finished(queued, outcome);
    }
}

fn finished(queued: Queued, outcome: Outcome) {
    JOBS_DONE.add(1);
    RUNNER.borrow().show();
    for client in queued.waiting {
        client.answer(outcome.clone());
    }
}

fn timed_slice(ctx: Ctx, job: &mut dyn Slices) -> Progress {
    let start = Instant::now();
    let cpu_us = processor_us();
    let budget = Duration::from_micros(config::slice_us());
    let progress = guarded("a job", || job.slice(ctx, &mut || start.elapsed() < budget))
        .unwrap_or_else(|panic| Progress::Done(Err(panic)));
    SLICES.add(1);
    SLICE_LONGEST_US.peak(start.elapsed().as_micros() as u64);
    SLICE_LONGEST_CPU_US.peak(processor_us() - cpu_us);
    progress
}

impl Runner {
    /// Appends a job to its queue.
    fn add(&mut self, queued: Queued) {
        let mut queues = self.queues.iter();
        match queues.position(|queue| stands_for(queue, &queued.id)) {
            Some(at) => self.queues[at].push_back(queued),
            None => self.queues.push_back(VecDeque::from([queued])),
        }
        self.show();
        self.wake();
    }

    fn show(&self) {
        let jobs = self.queues.iter().map(VecDeque::len).sum::<usize>() as u64;
        JOBS_RUNNING.set(jobs);
    }

    /// Requests a slice in the next turn of the event loop.
    fn wake(&self) {
        if self.queues.is_empty() {
            return;
        }
        event::ring(self.event);
    }
}

extern "C" fn awake(bell: c_int, _: *mut c_void, _: c_int) {
    let _ = guarded("the event loop", || {
        event::heard(bell);
        if turn::must_wait() {
            later();
            return;
        }
        if !RUNNER.borrow().queues.is_empty() {
            turn::take(run_slice);
        }
        RUNNER.borrow().wake();
    });
}

/// Wakes the event loop again in a few milliseconds.
fn later() {
    extern "C" fn again(_: RawCtx, _: *mut c_void) {
        let _ = guarded("a timer", || RUNNER.borrow().wake());
    }
    turn::in_ms(LATER_MS, again);
}

/// Runs a slice of the next job.
fn run_slice(ctx: Ctx) {
    let mut queued = {
        let mut runner = RUNNER.borrow();
        // Queues take turns. A job is removed from its queue while it runs, but the queue stays.
        runner.queues.rotate_left(1);
        let Some(queued) = runner.queues.back_mut().and_then(VecDeque::pop_front) else {
            return;
        };
        queued
    };
    // SAFETY: main thread, live context.
    unsafe { rm!(RedisModule_SelectDb(ctx.raw(), queued.job.db())) };
    let progress = match obstacle(ctx, &*queued.job) {
        Some(error) => Progress::Done(Err(error)),
        None => timed_slice(ctx, &mut *queued.job),
    };
    let mut runner = RUNNER.borrow();
    match progress {
        Progress::More => {
            match runner.queues.back_mut() {
                Some(queue) if queue.front().is_none_or(|q| q.id.shares_queue(&queued.id)) => {
                    queue.push_front(queued);
                }
                // The queue is gone because all its jobs were aborted.
                _ => runner.queues.push_back(VecDeque::from([queued])),
            }
        }
        Progress::Done(outcome) => {
            runner.queues.retain(|queue| !queue.is_empty());
            drop(runner);
            finished(queued, outcome);
        }
    }
}

/// Returns the reason why a job cannot continue, if there is one.
fn obstacle(ctx: Ctx, job: &dyn Slices) -> Option<String> {
    if job.writes() && context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0 {
        return Some(ROLE_CHANGED.to_string());
    }
    // SAFETY: main thread.
    let full = unsafe { rm!(RedisModule_GetUsedMemoryRatio()) } > 1.0;
    (full && job.grows()).then(|| {
        "OOM the job stopped because the server reached 'maxmemory'; its completed part is kept: free memory or raise 'maxmemory', then run the command again"
            .to_string()
    })
}

const ROLE_CHANGED: &str = "UNBLOCKED the server is not a master any more; run the command again on the master to finish the job";

/// Aborts jobs whose data was replaced, and jobs that the server's new role does not permit.
fn on_change(_: Ctx, change: Change<'_>) {
    match change {
        Change::Key(..) => {}
        Change::Role => {
            abort(&Err(ROLE_CHANGED.to_string()), |_, job| job.writes());
        }
        Change::Databases(databases) => {
            abort(&Err(DATA_CHANGED.to_string()), |_, job| {
                databases.contains(&job.db())
            });
        }
        Change::Everything => {
            abort(&Err(DATA_CHANGED.to_string()), |_, _| true);
        }
    }
}

const DATA_CHANGED: &str = "UNBLOCKED the database was emptied, swapped or loaded while the job ran; run the command again";

/// Creates the event descriptor and registers the listener.
///
/// # Safety
/// Called once, during the module's load.
///
/// # Errors
/// Fails if the system provides no descriptor, or the event loop refuses it.
pub unsafe fn start() -> Result<(), String> {
    // SAFETY: by contract.
    RUNNER.borrow().event = unsafe { event::bell(awake)? };
    super::notify::listen(Listener {
        cares_for: |_| false,
        marks: |_| false,
        hear: on_change,
    });
    Ok(())
}
