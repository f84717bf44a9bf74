//! The indexes that something is cached of, per database and prefix.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{metrics, settings};
use crate::dedupe::error::{Error, Result};
use crate::dedupe::index::Index;
use crate::dedupe::keys::{CrawlKey, Names, Shared, possible_prefixes, prefix_of_shared};
use crate::dedupe::storage::Layout;
use crawlspace_host::keyspace::{KeyError, Keyspace};
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::api::{Ctx, RawCtx, RmString, context_flags, raw, rm};
use crawlspace_host::server::cluster::{self, in_cluster};
use crawlspace_host::server::command::{Call, PREFIX_BYTES};
use crawlspace_host::server::guard::guarded;
use crawlspace_host::server::info::PANICS;
use crawlspace_host::server::job;
use crawlspace_host::server::keyspace::{RedisKeyspace, ScanCursor};
use crawlspace_host::server::main_thread::MainThread;
use crawlspace_host::server::notify::{Change, is_replicated};
use crawlspace_host::server::scope::{is_in, scope, split};

/// An index on the keys of this server.
pub type RedisIndex = Index<RedisKeyspace>;

/// How many indexes are cached at most; beyond it the cache is emptied.
const MAX_CACHED_INDEXES: usize = 4096;

/// What is cached of one index.
pub struct CachedIndex {
    /// The index.
    pub index: RedisIndex,
    /// Where the sweep of claims that ran out goes on.
    pub sweep: Option<ScanCursor>,
    /// The layout that it would have if it were new.
    new: Layout,
}

struct Indexes {
    by_scope: FxHashMap<Box<[u8]>, CachedIndex>,
    /// Where plain clients wrote to the merged index a moment ago; true where they took it away, or are
    /// about to.
    invalidated: FxHashMap<Box<[u8]>, bool>,
    panics: u64,
}

static INDEXES: MainThread<Indexes> = MainThread::new(Indexes {
    by_scope: FxHashMap::with_hasher(FxBuildHasher),
    invalidated: FxHashMap::with_hasher(FxBuildHasher),
    panics: 0,
});

/// Set when something changed while the indexes were in use.
static INVALIDATE_ALL: AtomicBool = AtomicBool::new(false);

/// Does something with an index, opening it if nothing is cached of it.
pub fn with_index<T>(
    db: c_int,
    prefix: &[u8],
    keys: &mut RedisKeyspace,
    act: impl FnOnce(&mut CachedIndex, &mut RedisKeyspace) -> Result<T>,
) -> Result<T> {
    let mut indexes = INDEXES.try_borrow().ok_or(Error::Busy)?;
    let indexes = &mut *indexes;
    let panics = PANICS.get();
    if INVALIDATE_ALL.swap(false, Relaxed) || indexes.panics != panics {
        // After a bug all caches are invalid.
        indexes.by_scope.clear();
        indexes.panics = panics;
    }
    let scope = scope(db, prefix);
    let new = settings::layout();
    let known = indexes
        .by_scope
        .get_mut(&scope[..])
        .filter(|cached| cached.new == new || cached.index.is_registered());
    let done = match known {
        Some(cached) => act(cached, keys),
        None => {
            let mut index = Index::open(keys, prefix, new, in_cluster())?;
            if indexes.invalidated.contains_key(&scope[..]) {
                index.invalidate_merged(keys)?;
            }
            if indexes.by_scope.len() >= MAX_CACHED_INDEXES {
                indexes.by_scope.clear();
            }
            let mut cached = CachedIndex {
                index,
                sweep: None,
                new,
            };
            let done = act(&mut cached, keys);
            indexes.by_scope.insert(scope[..].into(), cached);
            metrics::INDEXES.set(indexes.by_scope.len() as u64);
            done
        }
    };
    if matches!(done, Err(Error::Key(KeyError::Refused(_)))) {
        // The server stopped something half-way, so memory and keys may differ.
        indexes.by_scope.remove(&scope[..]);
    }
    done
}

/// Acts on the index of a command's call, with the error as its text.
pub fn on_index<T>(
    call: &mut Call<'_>,
    act: impl FnOnce(&mut CachedIndex, &mut RedisKeyspace) -> Result<T>,
) -> std::result::Result<T, String> {
    with_index(call.db, call.prefix, &mut call.keys, act).map_err(|e| e.to_string())
}

/// One of the keys of an index, for a check of permissions.
pub type Once = fn(&Names<RmString>) -> &RmString;

/// Refuses with `NOPERM` unless the user may do all of this.
pub fn permit(
    call: &mut Call<'_>,
    once: &[(Once, Access)],
    crawls: &[(&[u8], &[CrawlKey], Access)],
) -> std::result::Result<(), String> {
    let user = call.user();
    on_index(call, |cached, keys| {
        let index = &mut cached.index;
        let mut refused = Ok(());
        for (name, access) in once {
            refused = refused.and_then(|()| user.check(name(&index.names), *access));
        }
        for (crawl, which, access) in crawls {
            for &which in *which {
                let key = index.crawl_key(keys, crawl, which);
                refused = refused.and_then(|()| user.check(&key, *access));
            }
        }
        Ok(refused)
    })?
}

/// Invalidates what others changed.
pub fn on_change(ctx: Ctx, change: Change<'_>) {
    let Some(mut indexes) = INDEXES.try_borrow() else {
        INVALIDATE_ALL.store(true, Relaxed);
        return;
    };
    let Indexes {
        by_scope,
        invalidated,
        ..
    } = &mut *indexes;
    match change {
        Change::Everything | Change::Role => by_scope.clear(),
        Change::Databases(databases) => {
            by_scope.retain(|scope, _| !databases.iter().any(|&db| is_in(scope, db)));
        }
        Change::Key(db, key) => {
            if let Some((prefix, role)) = prefix_of_shared(key).filter(|_| !is_replicated(ctx)) {
                note_invalidated(ctx, invalidated, (db, key), prefix, role);
            }
            if by_scope.is_empty() {
                return;
            }
            for (prefix, crawl) in possible_prefixes(key, PREFIX_BYTES) {
                let scope = scope(db, prefix);
                match crawl {
                    // The next command reads everything anew.
                    None => drop(by_scope.remove(&scope[..])),
                    Some(crawl) => {
                        if let Some(cached) = by_scope.get_mut(&scope[..]) {
                            cached.index.invalidate_records(crawl);
                        }
                    }
                }
            }
        }
    }
}

/// A plain client wrote to a merged index, in whatever spelling, or removed keys that decide who owns a hash:
/// notes the index, whose claims about that are taken back once the event is over.
fn note_invalidated(
    ctx: Ctx,
    invalidated: &mut FxHashMap<Box<[u8]>, bool>,
    (db, key): (c_int, &[u8]),
    prefix: &[u8],
    role: Shared,
) {
    if prefix.len() > PREFIX_BYTES {
        return;
    }
    let purges = role == Shared::Outgoing || !RedisKeyspace::new(ctx).exists(&RmString::new(key));
    if role == Shared::Committed && !purges {
        return;
    }
    if invalidated.is_empty() {
        take_back_at(ctx, 0);
    }
    if invalidated.len() < MAX_CACHED_INDEXES {
        let scope = scope(db, prefix)[..].into();
        *invalidated.entry(scope).or_default() |= purges;
    }
}

fn take_back_at(ctx: Ctx, delay_ms: i64) {
    // SAFETY: main thread, live context; the timer carries no data.
    unsafe {
        rm!(RedisModule_CreateTimer(
            ctx.raw(),
            delay_ms,
            Some(take_back),
            std::ptr::null_mut()
        ))
    };
}

/// Indexes to which plain clients wrote no longer say that they have only written forms.
extern "C" fn take_back(ctx: RawCtx, _: *mut c_void) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a timer", || {
        if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER != 0 && job::avoid_writing() {
            return take_back_at(ctx, 5);
        }
        let scopes = std::mem::take(&mut INDEXES.borrow().invalidated);
        // A replica gets this from its master.
        if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0 {
            return;
        }
        for (scope, purges) in scopes {
            let (db, prefix) = split(&scope);
            // SAFETY: main thread, the context of this timer.
            unsafe { rm!(RedisModule_SelectDb(ctx.raw(), db)) };
            let mut keys = RedisKeyspace::new(ctx);
            // While its slot is open, keys come and go as they are.
            if cluster::check(ctx, &RmString::new(prefix), true).is_err() {
                continue;
            }
            let _ = with_index(db, prefix, &mut keys, |cached, keys| {
                let index = &mut cached.index;
                if purges && index.has_commits(keys) {
                    index.mark_holders_untrusted(keys)?;
                }
                index.invalidate_merged(keys)?;
                index.write_spelling(keys)
            });
        }
    });
}

/// What a slice of a job does with its index.
pub fn slice<T>(
    db: c_int,
    prefix: &[u8],
    keys: &mut RedisKeyspace,
    act: impl FnOnce(&mut RedisIndex, &mut RedisKeyspace) -> Result<T>,
) -> Result<T> {
    with_index(db, prefix, keys, |cached, keys| {
        act(&mut cached.index, keys)
    })
}
