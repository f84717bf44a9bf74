//! `DEDUPE.CLAIM` and `DEDUPE.UNCLAIM`, and the clients that block on a claim.
//!
//! The command that ends a claim serves the blocked clients in order of arrival: either the first
//! client gets the claim, or all clients get the new record. If the claim expires, a timer serves
//! the clients.

use std::collections::VecDeque;
use std::os::raw::c_int;

use crate::dedupe::claim::Outcome;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Error;
use crate::dedupe::grammar::{Claim, Unclaim};
use crate::dedupe::index::claims::Millis;
use crate::dedupe::keys::{CrawlKey, possible_prefixes};
use crate::dedupe::lookup::Original;
use crate::dedupe::record::OriginalText;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::alarm;
use crawlspace_host::server::api::{Ctx, RmString, context_flags, raw};
use crawlspace_host::server::blocked::{BlockedClient, can_block};
use crawlspace_host::server::clock::even_ms;
use crawlspace_host::server::command::{Act, Answer, Call, PREFIX_BYTES};
use crawlspace_host::server::keyspace::RedisKeyspace;
use crawlspace_host::server::line::{Line, Waiting};
use crawlspace_host::server::main_thread::MainThread;
use crawlspace_host::server::notify::Change;
use crawlspace_host::server::scope::{scope, visit};

use super::indexes::{self, CachedIndex, Keys, RedisIndex, on_index, permit, with_index};
use super::metrics;

/// The request of a client that sent `DEDUPE.CLAIM`.
struct Wish {
    crawl: Vec<u8>,
    digest: Digest,
    /// Duration of the claim, in milliseconds.
    ms: u64,
    with_wacz: bool,
    /// True if the client wants the record as a single string.
    as_text: bool,
}

/// The outcome of a blocked client's request at one point in time.
enum Granted {
    /// The reply to the client.
    Reply(Reply),
    /// Another client has the claim.
    Pending { holder: Vec<u8>, deadline: Millis },
}

/// A client that blocks on a claim.
struct Waiter {
    scope: Box<[u8]>,
    /// Name of the client's user; `None` if permissions are not checked.
    user: Option<RmString>,
    wish: Wish,
    holder: Vec<u8>,
    /// The time at which the pending claim expires.
    deadline: Millis,
}

struct Waiters {
    line: Line<Waiter>,
    /// True if a change by another client may end a wait.
    changed: bool,
}

static WAITERS: MainThread<Waiters> = MainThread::new(Waiters {
    line: Line {
        all: VecDeque::new(),
    },
    changed: false,
});

/// Registers the alarm that serves blocked clients.
pub fn start() {
    alarm::watches(end_waits);
    alarm::wakes(awake);
}

impl Act for Claim<'static> {
    fn act(asked: Claim<'_>, call: &mut Call<'_>) -> Result<Answer, String> {
        let Claim {
            crawl,
            digest,
            ms,
            block,
            with_wacz,
            as_text,
        } = asked;
        permit(
            call,
            &[
                (Keys::One(|names| &names.merged), Access::Read),
                (Keys::One(|names| &names.allcrawls), Access::Read),
                (Keys::One(|names| &names.claims), Access::Write),
                (Keys::Of(crawl, &[CrawlKey::Records]), Access::Read),
            ],
        )?;
        let now = even_ms();
        let wish = Wish {
            crawl: crawl.to_vec(),
            digest,
            ms,
            with_wacz,
            as_text,
        };
        let user = call.user();
        let granted = on_index(call, |cached, keys| {
            let CachedIndex { index, sweep, .. } = cached;
            let outcome = index.claim(keys, crawl, &wish.digest, ms, now)?;
            if matches!(outcome, Outcome::Claimed(_)) {
                index.claims.sweep(keys, sweep, now)?;
            }
            wish.granted(index, keys, &user, outcome)
        })?;
        match (granted, block) {
            (Granted::Reply(reply), _) => Ok(Answer::Reply(reply)),
            (Granted::Pending { holder, deadline }, Some(block)) if can_block(call.ctx) => {
                let waiter = Waiter {
                    scope: scope(call.db, call.prefix)[..].into(),
                    user: User::current_name(call.ctx),
                    wish,
                    holder,
                    deadline,
                };
                let until = (block > 0).then(|| now + block);
                let mut waiters = WAITERS.borrow();
                waiters
                    .line
                    .join(call.ctx, (gone, timed_out), until, waiter);
                waiters.arrange();
                Ok(Answer::Sent)
            }
            (Granted::Pending { holder, deadline }, _) => {
                Ok(Answer::Reply(pending_reply(&holder, deadline, now)))
            }
        }
    }
}

impl Wish {
    /// Converts an outcome to the reply for the client.
    fn granted(
        &self,
        index: &mut RedisIndex,
        keys: &mut RedisKeyspace,
        user: &User,
        outcome: Outcome<RedisKeyspace>,
    ) -> Result<Granted, Error> {
        Ok(match outcome {
            Outcome::Pending { holder, deadline } => Granted::Pending { holder, deadline },
            Outcome::Claimed(token) => {
                metrics::CLAIMS_GRANTED.add(1);
                let token = Reply::bulk(token.to_string());
                Granted::Reply(Reply::Array(vec![Reply::bulk("CLAIMED"), token]))
            }
            Outcome::Dupe(found) => {
                let permit = |key: &RmString| user.check(key, Access::Read).map_err(Error::Denied);
                permit(found.records())?;
                if self.as_text {
                    let mut text = OriginalText::new();
                    found.write_text(&mut text);
                    let reply = vec![Reply::bulk("DUPE"), Reply::bulk(&text[..])];
                    return Ok(Granted::Reply(Reply::Array(reply)));
                }
                let mut record = record_reply(&found);
                if self.with_wacz {
                    let container = index.container(keys, &found, permit)?;
                    record.push(container.map_or(Reply::Nil, Reply::bulk));
                }
                let record = Reply::Array(record);
                Granted::Reply(Reply::Array(vec![Reply::bulk("DUPE"), record]))
            }
        })
    }
}

impl Act for Unclaim {
    fn act(Unclaim { digest, token }: Unclaim, call: &mut Call<'_>) -> Result<Answer, String> {
        permit(call, &[(Keys::One(|names| &names.claims), Access::Write)])?;
        let given_up = on_index(call, |cached, keys| {
            cached.index.claims.give_up(keys, &digest, token, even_ms())
        })?;
        if given_up && anybody_waits() {
            serve(call.db, call.prefix, &mut call.keys, Some(&[digest]));
        }
        Ok(Answer::Reply(Reply::Int(i64::from(given_up))))
    }
}

fn record_reply(found: &Original<RedisKeyspace>) -> Vec<Reply> {
    let record = found.record();
    vec![
        Reply::bulk(found.crawl()),
        Reply::count(record.wacz_index),
        Reply::bulk(record.date),
        Reply::bulk(record.url),
        Reply::count(record.size),
    ]
}

fn pending_reply(holder: &[u8], deadline: Millis, now: Millis) -> Reply {
    Reply::Array(vec![
        Reply::bulk("PENDING"),
        Reply::bulk(holder),
        Reply::count(deadline.saturating_sub(now)),
    ])
}

/// Returns true if any client blocks on a claim. This check is cheap, because it does not consider
/// the claimed hashes.
pub fn anybody_waits() -> bool {
    metrics::CLAIMS_PENDING.get() > 0
}

/// Serves the clients that block on these hashes of an index, or on any hash if `digests` is `None`.
pub fn serve(db: c_int, prefix: &[u8], keys: &mut RedisKeyspace, digests: Option<&[Digest]>) {
    let scope = scope(db, prefix);
    let wanted = |w: &Waiting<Waiter>| {
        let w = &w.wish;
        *w.scope == scope[..] && digests.is_none_or(|d| d.contains(&w.wish.digest))
    };
    let wanted = WAITERS.borrow().line.take(wanted);
    let mut kept = Vec::new();
    let now = even_ms();
    for mut waiting in wanted {
        let waiter = &mut waiting.wish;
        let wish = &waiter.wish;
        let user = User::named_or_nobody(waiter.user.as_ref());
        let granted = with_index(db, prefix, keys, |cached, keys| {
            let index = &mut cached.index;
            let outcome = index.claim(keys, &wish.crawl, &wish.digest, wish.ms, now)?;
            wish.granted(index, keys, &user, outcome)
        });
        match granted {
            Ok(Granted::Pending { holder, deadline }) => {
                waiter.holder = holder;
                waiter.deadline = deadline;
                kept.push(waiting);
            }
            Ok(Granted::Reply(reply)) => waiting.answer(Ok(reply)),
            Err(error) => waiting.answer(Err(error.to_string())),
        }
    }
    let mut waiters = WAITERS.borrow();
    waiters.line.all.extend(kept);
    waiters.arrange();
}

impl Waiters {
    /// Updates the metric, and sets the alarm for the earliest end of a claim or of a wait.
    fn arrange(&self) {
        self.show();
        let ends = self.line.all.iter().map(|waiting| waiting.wish.deadline);
        if let Some(first) = ends.chain(self.line.until()).min() {
            alarm::set_in(first.saturating_sub(even_ms()));
        }
    }

    fn show(&self) {
        metrics::CLAIMS_PENDING.set(self.line.all.len() as u64);
    }

    /// Wakes all blocked clients after a change by another client.
    fn wake(&mut self) {
        self.changed = true;
        alarm::set_in(0);
    }
}

/// Replies to clients whose waiting time ended, with the holder of the claim.
fn end_waits() {
    let now = even_ms();
    let mut waiters = WAITERS.borrow();
    let done = waiters.line.take(|waiting| waiting.is_over(now));
    waiters.show();
    for waiting in done {
        let reply = pending_reply(&waiting.wish.holder, waiting.wish.deadline, now);
        waiting.answer(Ok(reply));
    }
    // If writes are impossible now, set no alarm for expired claims, which are handled later.
    let ends = waiters.line.all.iter().map(|waiting| waiting.wish.deadline);
    if let Some(first) = ends
        .chain(waiters.line.until())
        .filter(|end| *end > now)
        .min()
    {
        alarm::set_in(first - now);
    }
}

/// Retries the requests of clients whose pending claim expired, or of all clients after a change by another
/// client.
fn awake(ctx: Ctx) {
    let now = even_ms();
    let mut scopes: Vec<Box<[u8]>> = {
        let mut waiters = WAITERS.borrow();
        let changed = std::mem::take(&mut waiters.changed);
        let all = waiters.line.all.iter().map(|waiting| &waiting.wish);
        let due = all.filter(|w| changed || w.deadline <= now);
        due.map(|w| w.scope.clone()).collect()
    };
    if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0 {
        return;
    }
    scopes.sort();
    scopes.dedup();
    for scope in scopes {
        visit(ctx, &scope, |(db, prefix), keys, here| match here {
            Ok(()) => serve(db, prefix, keys, None),
            // The slot is being migrated away, so no client can be served here.
            Err(error) => end_waiting(&Err(error), |w| w.scope == scope),
        });
    }
}

/// Ends the waits of clients that want a claim for a canceled crawl.
pub fn cancel_waiters(db: c_int, prefix: &[u8], crawl: &[u8]) {
    if anybody_waits() {
        let canceled = Err(Error::Canceled(crawl.to_vec()).to_string());
        let scope = scope(db, prefix);
        end_waiting(&canceled, |w| {
            *w.scope == scope[..] && w.wish.crawl == crawl
        });
    }
}

/// Sends `answer` to the blocked clients for which `meant` returns true.
fn end_waiting(answer: &Result<Reply, String>, meant: impl Fn(&Waiter) -> bool) {
    let mut waiters = WAITERS.borrow();
    waiters.line.end(answer, meant);
    waiters.show();
}

/// Removes a blocked client whose connection closed.
fn gone(client: BlockedClient) {
    let mut waiters = WAITERS.borrow();
    waiters.line.leave(client);
    waiters.show();
}

/// Ends a client's wait after `CLIENT UNBLOCK`: the reply names the holder of the claim.
fn timed_out(_: Ctx, client: BlockedClient) -> Result<Reply, String> {
    let mut waiters = WAITERS.borrow();
    let waiter = waiters.line.leave(client);
    waiters.show();
    Ok(waiter.map_or(Reply::Nil, |waiter| {
        pending_reply(&waiter.holder, waiter.deadline, even_ms())
    }))
}

const ROLE_CHANGED: &str =
    "UNBLOCKED the server is not a master any more; run DEDUPE.CLAIM again on the master";

/// Handles changes of keys by other clients. The requests of blocked clients are retried soon, or
/// get an error if the clients cannot keep waiting.
pub fn on_change(_: Ctx, change: Change<'_>) {
    if !anybody_waits() {
        return;
    }
    let Some(mut waiters) = WAITERS.try_borrow() else {
        return;
    };
    match change {
        Change::Role => {
            waiters.line.end(&Err(ROLE_CHANGED.to_string()), |_| true);
            waiters.show();
        }
        Change::Databases(_) | Change::Everything => waiters.wake(),
        Change::Key(db, key) => {
            let touched = possible_prefixes(key, PREFIX_BYTES, indexes::lengths())
                .map(|(prefix, _)| scope(db, prefix))
                .any(|scope| waiters.line.all.iter().any(|w| *w.wish.scope == scope[..]));
            if touched {
                waiters.wake();
            }
        }
    }
}
