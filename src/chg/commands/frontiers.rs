//! The frontiers that something is cached of, per database and prefix.

use std::collections::VecDeque;
use std::os::raw::c_int;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::chg::error::{Error, Result};
use crate::chg::frontier::Frontier;
use crate::chg::keys::{GROUP, Heard, heard_once, possible_groups};
use crate::chg::time::Millis;
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::reply::Reply;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::alarm;
use crawlspace_host::server::api::{Ctx, RmString, context_flags, raw, rm};
use crawlspace_host::server::blocked::BlockedClient;
use crawlspace_host::server::clock::now_ms;
use crawlspace_host::server::cluster::{self, in_cluster};
use crawlspace_host::server::command::{Call, PREFIX_BYTES};
use crawlspace_host::server::info::PANICS;
use crawlspace_host::server::keyspace::RedisKeyspace;
use crawlspace_host::server::main_thread::MainThread;
use crawlspace_host::server::notify::{Change, is_replicated};
use crawlspace_host::server::scope::{is_in, scope, split};

use super::waiters::Waiter;
use super::{metrics, settings};

/// How many frontiers are cached at most; beyond it those that no client and no job waits for are evicted.
const MAX_CACHED_FRONTIERS: usize = 4096;

/// Maximum number of groups that plain clients wrote to and that wait for the next alarm.
const MAX_TOUCHED: usize = 1024;

/// What is cached of one frontier.
pub struct CachedFrontier {
    /// The frontier.
    pub frontier: Frontier<RedisKeyspace>,
    /// Who waits, in the order in which they came.
    pub waiters: VecDeque<Waiter>,
    /// Groups that plain clients wrote to.
    pub(super) touched: Vec<Box<[u8]>>,
    /// When there is something to do.
    pub(super) wake: Option<Millis>,
    /// Whether its clients say what time it is: then nothing happens by the clock.
    pub simulated: bool,
}

struct Frontiers {
    by_scope: FxHashMap<Box<[u8]>, CachedFrontier>,
    panics: u64,
}

static FRONTIERS: MainThread<Frontiers> = MainThread::new(Frontiers {
    by_scope: FxHashMap::with_hasher(FxBuildHasher),
    panics: 0,
});

/// Set when something changed while the frontiers were in use.
static INVALIDATE_ALL: AtomicBool = AtomicBool::new(false);

/// Does something with a frontier.
pub fn with_frontier<T>(
    db: c_int,
    prefix: &[u8],
    keys: &mut RedisKeyspace,
    act: impl FnOnce(&mut CachedFrontier, &mut RedisKeyspace) -> Result<T>,
) -> Result<T> {
    let mut frontiers = FRONTIERS.try_borrow().ok_or(Error::Busy)?;
    let frontiers = &mut *frontiers;
    let panics = PANICS.get();
    if INVALIDATE_ALL.swap(false, Relaxed) || frontiers.panics != panics {
        // After a bug nothing that was cached is believed.
        frontiers.panics = panics;
        for cached in frontiers.by_scope.values_mut() {
            cached.frontier.invalidate();
        }
    }
    let scope = scope(db, prefix);
    if !frontiers.by_scope.contains_key(&scope[..]) {
        if frontiers.by_scope.len() >= MAX_CACHED_FRONTIERS {
            let in_use = |r: &CachedFrontier| !r.waiters.is_empty() || r.frontier.is_worked_on();
            frontiers.by_scope.retain(|_, r| in_use(r));
        }
        let cached = CachedFrontier {
            frontier: Frontier::open(keys, prefix),
            waiters: VecDeque::new(),
            touched: Vec::new(),
            wake: None,
            simulated: false,
        };
        frontiers.by_scope.insert(scope[..].into(), cached);
        show_frontiers(frontiers);
    }
    let cached = frontiers.by_scope.get_mut(&scope[..]);
    let cached = cached.expect("just made sure of");
    cached.frontier.attempts = settings::ATTEMPTS.get();
    let before = cached.frontier.figures.totals();
    let waited = cached.waiters.len() as u64;
    let done = act(cached, keys);
    let written = cached.frontier.write_back(keys, None);
    let done = done.and_then(|done| written.map(|()| done));
    let wait = cached.waiters.len() as u64;
    if wait != waited {
        let all = metrics::WAITERS.get().saturating_sub(waited);
        metrics::WAITERS.set(all + wait);
    }
    let after = cached.frontier.figures.totals();
    let shown = [
        &metrics::ADDED,
        &metrics::LEASES,
        &metrics::RELEASES,
        &metrics::EXPIRED,
    ];
    for (metric, (before, after)) in shown.into_iter().zip(before.into_iter().zip(after)) {
        if after > before {
            metric.add(after - before);
        }
    }
    done
}

/// Acts on the frontier of a command's call, with the error as its text.
pub fn on_frontier<T>(
    call: &mut Call<'_>,
    act: impl FnOnce(&mut CachedFrontier, &mut RedisKeyspace) -> Result<T>,
) -> std::result::Result<T, String> {
    with_frontier(call.db, call.prefix, &mut call.keys, act).map_err(|e| e.to_string())
}

/// Which keys a command touches, beside those that exist once.
pub enum Touched<'a> {
    /// Hashes of these groups.
    Groups(&'a [&'a [u8]]),
    /// Those of any group.
    AnyGroup,
}

/// Refuses with `NOPERM` unless the user may do this to the documented keys.
pub fn permit(
    call: &mut Call<'_>,
    touched: &Touched<'_>,
    access: Access,
) -> std::result::Result<(), String> {
    let user = call.user();
    on_frontier(call, |cached, keys| {
        if access == Access::Write {
            cached.frontier.check_types(keys)?;
        }
        let frontier = &cached.frontier;
        let mut documented = frontier.names.all().filter(|(_, row)| row.documented);
        let mut result = documented.try_for_each(|(key, _)| user.check(key, access));
        // Any group has the shortest name that one could have.
        let groups = match touched {
            Touched::Groups(groups) => *groups,
            Touched::AnyGroup => &[&b""[..]],
        };
        for id in groups {
            let key = frontier.key(keys, GROUP, id);
            result = result.and_then(|()| user.check(&key, access));
        }
        Ok(result)
    })?
}

/// In a cluster there is a key of exactly the prefix's name, so that the server sends clients to the
/// right node while the slot migrates.
pub fn anchor(call: &mut Call<'_>) -> std::result::Result<(), String> {
    if !in_cluster() {
        return Ok(());
    }
    let anchor = RmString::new(call.prefix);
    if call.keys.exists(&anchor) {
        return Ok(());
    }
    let made = call.keys.string_set(&anchor, b"crawlspace");
    made.map_err(|error| error.to_string())
}

/// The figure of those who wait, of all frontiers: when some of them left otherwise than by what was
/// done with a frontier.
fn show_waiters(frontiers: &Frontiers) {
    let waiters = frontiers.by_scope.values().map(|r| r.waiters.len() as u64);
    metrics::WAITERS.set(waiters.sum());
}

fn show_frontiers(frontiers: &Frontiers) {
    let frontiers = frontiers.by_scope.len() as u64;
    metrics::FRONTIERS.set(frontiers);
}

/// The alarm went off.
pub fn awake(ctx: Ctx) {
    let now = now_ms();
    let scopes: Vec<Box<[u8]>> = {
        let frontiers = FRONTIERS.borrow();
        show_waiters(&frontiers);
        let due = frontiers.by_scope.iter();
        due.filter(|(_, r)| r.wake.is_some_and(|wake| wake <= now))
            .map(|(scope, _)| scope.clone())
            .collect()
    };
    if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER != 0 {
        for scope in scopes {
            let (db, prefix) = split(&scope);
            // SAFETY: main thread, the context of this callback.
            unsafe { rm!(RedisModule_SelectDb(ctx.raw(), db)) };
            let mut keys = RedisKeyspace::new(ctx);
            let here = cluster::check(ctx, &RmString::new(prefix), true);
            let woken = with_frontier(db, prefix, &mut keys, |cached, keys| {
                cached.wake = None;
                let sleeps_on = cached.simulated && cached.waiters.is_empty();
                if sleeps_on || here.is_err() {
                    Ok(())
                } else {
                    cached.awake(keys, now)
                }
            });
            if let Err(error) = here.and(woken.map_err(|error| error.to_string())) {
                // Its slot leaves, or a key has another type: nobody can be served here until that is
                // over, and those who wait are told so.
                fail_waiters(db, prefix, &error);
            }
        }
    }
    let frontiers = FRONTIERS.borrow();
    show_waiters(&frontiers);
    let next = frontiers.by_scope.values().filter_map(|r| r.wake).min();
    drop(frontiers);
    if let Some(next) = next {
        alarm::set(next);
    }
}

fn fail_waiters(db: c_int, prefix: &[u8], error: &str) {
    let mut frontiers = FRONTIERS.borrow();
    if let Some(cached) = frontiers.by_scope.get_mut(&scope(db, prefix)[..]) {
        for waiter in std::mem::take(&mut cached.waiters) {
            waiter.client.answer(Err(error.to_string()));
        }
    }
}

/// A waiting client's connection ended.
pub fn gone(client: BlockedClient) {
    let mut frontiers = FRONTIERS.borrow();
    for cached in frontiers.by_scope.values_mut() {
        cached.waiters.retain(|waiter| waiter.client != client);
    }
    show_waiters(&frontiers);
}

/// Ends a client's wait after `CLIENT UNBLOCK`: it gets what it has, mostly nothing.
pub fn timed_out(_: Ctx, client: BlockedClient) -> std::result::Result<Reply, String> {
    let mut frontiers = FRONTIERS.borrow();
    let mut answer = Reply::Nil;
    for cached in frontiers.by_scope.values_mut() {
        let waiters = &mut cached.waiters;
        if let Some(at) = waiters.iter().position(|waiter| waiter.client == client) {
            let waiter = waiters.remove(at).expect("just found");
            answer = waiter.reply();
        }
    }
    show_waiters(&frontiers);
    Ok(answer)
}

/// Others changed keys: those who wait are served soon, or are told why they cannot wait on.
pub fn on_change(ctx: Ctx, change: Change<'_>) {
    let Some(mut frontiers) = FRONTIERS.try_borrow() else {
        INVALIDATE_ALL.store(true, Relaxed);
        return;
    };
    let by_scope = &mut frontiers.by_scope;
    if by_scope.is_empty() {
        return;
    }
    match change {
        Change::Role => {
            for cached in by_scope.values_mut() {
                cached.frontier.invalidate_all();
                cached.touched.clear();
                for waiter in std::mem::take(&mut cached.waiters) {
                    waiter.client.answer(Err(
                        "UNBLOCKED the server is not the master any more, or only just became it; ask again, on the master".to_string(),
                    ));
                }
            }
            show_waiters(&frontiers);
        }
        Change::Everything => {
            for cached in by_scope.values_mut() {
                cached.emptied();
            }
        }
        Change::Databases(databases) => {
            for (scope, cached) in by_scope.iter_mut() {
                if databases.iter().any(|&db| is_in(scope, db)) {
                    cached.emptied();
                }
            }
        }
        Change::Key(db, key) => {
            for (prefix, heard) in heard_once(key) {
                let cached = by_scope.get_mut(&scope(db, prefix)[..]);
                let Some(cached) = cached else {
                    continue;
                };
                match heard {
                    Heard::Queue => cached.disturbed(),
                    Heard::Type => cached.frontier.invalidate_types(),
                    Heard::Tokens => cached.frontier.invalidate_all(),
                }
            }
            for (prefix, id) in possible_groups(key, PREFIX_BYTES) {
                let Some(cached) = by_scope.get_mut(&scope(db, prefix)[..]) else {
                    continue;
                };
                cached.frontier.disturb_audit();
                if cached.touched.len() < MAX_TOUCHED && !is_replicated(ctx) {
                    cached.touched.push(id.into());
                    cached.wake = Some(0);
                    alarm::set(0);
                }
            }
        }
    }
}

impl CachedFrontier {
    /// There is another database now.
    fn emptied(&mut self) {
        self.frontier.invalidate_all();
        self.disturbed();
    }

    /// Others changed what was read.
    fn disturbed(&mut self) {
        self.frontier.invalidate();
        self.wake = Some(0);
        alarm::set(0);
    }
}
