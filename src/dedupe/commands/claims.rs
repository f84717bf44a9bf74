//! `DEDUPE.CLAIM` and `DEDUPE.UNCLAIM`, and the clients that wait for a claim.
//!
//! Whoever ends a claim serves those who wait for it, in the order in which they came: the first
//! gets the claim, or everybody learns that the payload is known now. A timer does the same when
//! a claim runs out. Nobody polls.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

use crate::dedupe::claim::{Millis, Outcome, CLAIM_MS};
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Error;
use crate::dedupe::keys::{possible_prefixes, CrawlKey};
use crate::dedupe::lookup::Found;
use crate::reply::Reply;
use crate::server::acl::Access;
use crate::server::api::{context_flags, now_ms, raw, rm, Ctx, RawCtx, RmString};
use crate::server::blocked::{can_block, BlockedClient};
use crate::server::command::{Answer, Arg, Call, Command, Spec, PREFIX_BYTES};
use crate::server::guard::guarded;
use crate::server::info::{count, FIGURES};
use crate::server::job;
use crate::server::keyspace::RedisKeyspace;
use crate::server::main_thread::MainThread;
use crate::server::notify::Change;

use super::indexes::{on_index, permit, with_index, Remembered};
use super::{crawl_argument, hash_argument};

/// Longest wait for a claim, in milliseconds; 0 waits for ever.
const BLOCK_MS: u64 = CLAIM_MS;

/// How soon to look again when the server asks not to write, in milliseconds.
const RETRY_MS: u64 = 5;

/// A client that waits for a claim.
struct Waiter {
    client: BlockedClient,
    db: c_int,
    prefix: Vec<u8>,
    crawl: Vec<u8>,
    digest: Digest,
    ms: u64,
    holder: Vec<u8>,
    /// When the claim that it waits for runs out.
    deadline: Millis,
    /// When it has waited enough. Our own timer watches this, and not the server's: that one may
    /// drop an answer that was given in the same turn of the event loop.
    until: Option<Millis>,
}

struct Waiters {
    /// In the order in which they came.
    all: Vec<Waiter>,
    /// The timer that is set, and when it fires.
    timer: Option<(u64, Millis)>,
}

static WAITERS: MainThread<Waiters> = MainThread::new(Waiters {
    all: Vec::new(),
    timer: None,
});

/// Looks a hash up, or else reserves it.
pub struct Claim;

impl Command for Claim {
    const SPEC: Spec = Spec {
        name: "dedupe.claim",
        flags: "write deny-oom blocking",
        arity: -6,
        summary:
            "Looks a hash up, or else reserves it, so that only one worker stores the payload.",
        complexity: "O(1)",
        args: &[
            Arg::prefix(),
            Arg::text("crawl"),
            Arg::text("hash"),
            Arg::integer("milliseconds").after("PX"),
            Arg::integer("block-milliseconds").after("BLOCK").optional(),
        ],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let crawl = crawl_argument(&mut call.args)?;
        let (_, digest) = hash_argument(&mut call.args)?;
        if !call.args.keyword("PX") {
            return Err(format!(
                "ERR syntax error: PX and the milliseconds that the claim lasts are missing (argument {})",
                call.args.position() + 1
            ));
        }
        let ms = call.args.unsigned("PX", 1, CLAIM_MS)?;
        let block = if call.args.keyword("BLOCK") {
            Some(call.args.unsigned("BLOCK", 0, BLOCK_MS)?)
        } else {
            None
        };
        call.args.end()?;
        permit(
            call,
            &[
                (|names| &names.merged, Access::Read),
                (|names| &names.allcrawls, Access::Read),
                (|names| &names.claims, Access::Write),
            ],
            &[(crawl, &[CrawlKey::Records], Access::Read)],
        )?;
        let now = now_ms();
        let outcome = on_index(call, |remembered, keys| {
            let Remembered { index, sweep, .. } = remembered;
            let outcome = index.claim(keys, crawl, &digest, ms, now)?;
            if matches!(outcome, Outcome::Claimed(_)) {
                index.sweep_claims(keys, sweep, now)?;
            }
            Ok(outcome)
        })?;
        match (outcome, block) {
            (Outcome::Pending { holder, deadline }, Some(block)) if can_block(call.ctx) => {
                let client = BlockedClient::block(call.ctx, gone, Some(timed_out));
                let mut waiters = WAITERS.borrow();
                waiters.all.push(Waiter {
                    client,
                    db: call.db,
                    prefix: call.prefix.to_vec(),
                    crawl: crawl.to_vec(),
                    digest,
                    ms,
                    holder,
                    deadline,
                    until: (block > 0).then(|| now + block),
                });
                waiters.arrange(call.ctx);
                Ok(Answer::Sent)
            }
            (outcome, _) => Ok(Answer::Reply(reply(&outcome, now))),
        }
    }
}

/// Gives a claim up.
pub struct Unclaim;

impl Command for Unclaim {
    const SPEC: Spec = Spec {
        name: "dedupe.unclaim",
        flags: "write fast",
        arity: 4,
        summary: "Gives a claim up, so that another worker can store the payload.",
        complexity: "O(1)",
        args: &[Arg::prefix(), Arg::text("hash"), Arg::integer("token")],
    };

    fn run(call: &mut Call<'_>) -> Result<Answer, String> {
        let (_, digest) = hash_argument(&mut call.args)?;
        let token = call.args.unsigned("token", 1, i64::MAX as u64)?;
        permit(call, &[(|names| &names.claims, Access::Write)], &[])?;
        let given_up = on_index(call, |remembered, keys| {
            remembered.index.unclaim(keys, &digest, token, now_ms())
        })?;
        if given_up && anybody_waits() {
            serve(
                call.ctx,
                call.db,
                call.prefix,
                &mut call.keys,
                Some(&[digest]),
            );
        }
        Ok(Answer::Reply(Reply::Int(i64::from(given_up))))
    }
}

fn reply(outcome: &Outcome<RmString>, now: Millis) -> Reply {
    match outcome {
        Outcome::Dupe(found) => Reply::Array(vec![Reply::bulk("DUPE"), record_reply(found)]),
        Outcome::Claimed(token) => {
            count(&FIGURES.claims_granted, 1);
            Reply::Array(vec![Reply::bulk("CLAIMED"), Reply::bulk(token.to_string())])
        }
        Outcome::Pending { holder, deadline } => pending_reply(holder, *deadline, now),
    }
}

fn record_reply(found: &Found<RmString>) -> Reply {
    let record = found.record();
    Reply::Array(vec![
        Reply::bulk(found.crawl.id()),
        Reply::count(record.wacz_index),
        Reply::bulk(record.date),
        Reply::bulk(record.url),
        Reply::count(record.size),
    ])
}

fn pending_reply(holder: &[u8], deadline: Millis, now: Millis) -> Reply {
    Reply::Array(vec![
        Reply::bulk("PENDING"),
        Reply::bulk(holder),
        Reply::count(deadline.saturating_sub(now)),
    ])
}

/// Whether any client waits for a claim; asked before the work of finding out which.
pub fn anybody_waits() -> bool {
    FIGURES.claims_pending.load(Relaxed) > 0
}

/// Serves those who wait for these hashes of an index, or for any of it.
pub fn serve(
    ctx: Ctx,
    db: c_int,
    prefix: &[u8],
    keys: &mut RedisKeyspace,
    digests: Option<&[Digest]>,
) {
    let wanted = |w: &Waiter| {
        w.db == db && w.prefix == prefix && digests.is_none_or(|d| d.contains(&w.digest))
    };
    let all = std::mem::take(&mut WAITERS.borrow().all);
    let mut kept = Vec::with_capacity(all.len());
    let now = now_ms();
    for mut waiter in all {
        if !wanted(&waiter) {
            kept.push(waiter);
            continue;
        }
        let outcome = with_index(db, prefix, keys, |remembered, keys| {
            let Waiter {
                crawl, digest, ms, ..
            } = &waiter;
            remembered.index.claim(keys, crawl, digest, *ms, now)
        });
        match outcome {
            Ok(Outcome::Pending { holder, deadline }) => {
                waiter.holder = holder;
                waiter.deadline = deadline;
                kept.push(waiter);
            }
            Ok(outcome) => waiter.client.answer(Ok(reply(&outcome, now))),
            Err(error) => waiter.client.answer(Err(error.to_string())),
        }
    }
    let mut waiters = WAITERS.borrow();
    waiters.all = kept;
    waiters.arrange(ctx);
}

impl Waiters {
    /// Shows how many wait, and sets the timer for the claim that runs out first.
    fn arrange(&mut self, ctx: Ctx) {
        FIGURES.claims_pending.store(self.all.len() as u64, Relaxed);
        let times = |waiter: &Waiter| waiter.until.unwrap_or(Millis::MAX).min(waiter.deadline);
        match self.all.iter().map(times).min() {
            Some(first) => self.wake_at(ctx, first),
            None => self.stop_timer(ctx),
        }
    }

    fn wake_at(&mut self, ctx: Ctx, when: Millis) {
        if self.timer.is_some_and(|(_, set)| set <= when) {
            return;
        }
        self.stop_timer(ctx);
        let delay = when.saturating_sub(now_ms());
        // SAFETY: main thread, live context; the timer carries no data.
        let id = unsafe {
            rm!(RedisModule_CreateTimer(
                ctx.raw(),
                delay as i64,
                Some(fired),
                std::ptr::null_mut()
            ))
        };
        self.timer = Some((id, when));
    }

    fn stop_timer(&mut self, ctx: Ctx) {
        if let Some((id, _)) = self.timer.take() {
            // SAFETY: main thread; a timer that fired meanwhile is unknown, which is no harm.
            unsafe { rm!(RedisModule_StopTimer(ctx.raw(), id, std::ptr::null_mut())) };
        }
    }
}

/// A claim ran out, or somebody else changed the index: those who wait look again.
extern "C" fn fired(ctx: RawCtx, _: *mut c_void) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a claim timer", || {
        let now = now_ms();
        let mut places: Vec<(c_int, Vec<u8>)> = {
            let mut waiters = WAITERS.borrow();
            waiters.timer = None;
            let done = |waiter: &Waiter| waiter.until.is_some_and(|until| until <= now);
            let (done, kept) = std::mem::take(&mut waiters.all).into_iter().partition(done);
            waiters.all = kept;
            waiters.arrange(ctx);
            for waiter in done {
                let reply = pending_reply(&waiter.holder, waiter.deadline, now);
                waiter.client.answer(Ok(reply));
            }
            let places = waiters.all.iter().map(|w| (w.db, w.prefix.clone()));
            places.collect()
        };
        if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0 {
            return;
        }
        if job::avoid_writing() {
            WAITERS.borrow().wake_at(ctx, now + RETRY_MS);
            return;
        }
        places.sort();
        places.dedup();
        for (db, prefix) in places {
            // SAFETY: main thread, the context of this timer.
            unsafe { rm!(RedisModule_SelectDb(ctx.raw(), db)) };
            serve(ctx, db, &prefix, &mut RedisKeyspace::new(ctx), None);
        }
    });
}

/// Those who wait for a claim in the name of a crawl that is canceled need not wait on.
pub fn cancel_waiters(db: c_int, prefix: &[u8], crawl: &[u8]) {
    if !anybody_waits() {
        return;
    }
    let mut waiters = WAITERS.borrow();
    let canceled = |w: &Waiter| w.db == db && w.prefix == prefix && w.crawl == crawl;
    let (gone, kept) = std::mem::take(&mut waiters.all)
        .into_iter()
        .partition(canceled);
    waiters.all = kept;
    let n = waiters.all.len() as u64;
    FIGURES.claims_pending.store(n, Relaxed);
    for waiter in gone {
        let error = Error::Canceled(crawl.to_vec()).to_string();
        waiter.client.answer(Err(error));
    }
}

/// A waiting client's connection ended.
fn gone(client: BlockedClient) {
    let mut waiters = WAITERS.borrow();
    waiters.all.retain(|waiter| waiter.client != client);
    let n = waiters.all.len() as u64;
    FIGURES.claims_pending.store(n, Relaxed);
}

/// Somebody ended a client's wait with `CLIENT UNBLOCK`: it learns who holds the claim.
fn timed_out(_: Ctx, client: BlockedClient) -> Result<Reply, String> {
    let mut waiters = WAITERS.borrow();
    let at = waiters.all.iter().position(|w| w.client == client);
    let waiter = at.map(|at| waiters.all.remove(at));
    let n = waiters.all.len() as u64;
    FIGURES.claims_pending.store(n, Relaxed);
    Ok(waiter.map_or(Reply::Nil, |waiter| {
        pending_reply(&waiter.holder, waiter.deadline, now_ms())
    }))
}

/// Others changed keys: those who wait look again soon, or are told why they cannot wait on.
pub fn on_change(ctx: Ctx, change: Change<'_>) {
    if !anybody_waits() {
        return;
    }
    let Some(mut waiters) = WAITERS.try_borrow() else {
        return;
    };
    match change {
        Change::Role => {
            for waiter in std::mem::take(&mut waiters.all) {
                waiter.client.answer(Err(
                    "UNBLOCKED the server is not a master any more; claim again on the master"
                        .to_string(),
                ));
            }
            FIGURES.claims_pending.store(0, Relaxed);
        }
        Change::Databases(_) | Change::Everything => waiters.wake_at(ctx, 0),
        Change::Key(db, key) => {
            let touched = possible_prefixes(key, PREFIX_BYTES)
                .any(|(prefix, _)| waiters.all.iter().any(|w| w.db == db && w.prefix == prefix));
            if touched {
                waiters.wake_at(ctx, 0);
            }
        }
    }
}
