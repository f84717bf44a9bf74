//! The cached indexes, per database and prefix.

use std::os::raw::{c_int, c_void};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::{metrics, plain, settings};
use crate::dedupe::error::{Error, Result};
use crate::dedupe::index::Index;
use crate::dedupe::index::storage::Layout;
use crate::dedupe::keys::{CrawlKey, Group, Pick, Shared, possible_prefixes, prefix_of_shared};
use crate::dedupe::packed::Packed;
use crawlspace_host::keyspace::{KeyError, Keyspace};
use crawlspace_host::names::Lengths;
use crawlspace_host::server::acl::Access;
use crawlspace_host::server::api::{Ctx, RawCtx, RmString, context_flags, raw, selected_db};
use crawlspace_host::server::cluster::in_cluster;
use crawlspace_host::server::command::{Call, PREFIX_BYTES};
use crawlspace_host::server::guard::guarded;
use crawlspace_host::server::keyspace::{Place, RedisKeyspace, ScanCursor};
use crawlspace_host::server::main_thread::MainThread;
use crawlspace_host::server::notify::{Change, is_replicated};
use crawlspace_host::server::registry::{Cached, Registry};
use crawlspace_host::server::scope::{Names, scope, visit};
use crawlspace_host::server::turn;

/// An index in the key space of this server.
pub type RedisIndex = Index<RedisKeyspace>;

/// A cached index.
pub struct CachedIndex {
    /// The index.
    pub index: RedisIndex,
    /// Cursor at which the next sweep of expired claims continues.
    pub sweep: Option<ScanCursor>,
    /// The layout that a new index with this prefix would get now.
    new: Layout,
    /// The address of the packed index in memory, if it is cached.
    place: Option<Place<Packed>>,
}

impl Cached for CachedIndex {
    fn is_current(&self) -> bool {
        self.new == settings::layout() || self.index.is_registered()
    }
}

static INDEXES: Registry<CachedIndex> = Registry::new(&metrics::INDEXES);

/// Indexes to whose merged index plain clients wrote recently. The value is true if a key was
/// deleted or is about to be deleted.
static INVALIDATED: MainThread<FxHashMap<Box<[u8]>, bool>> =
    MainThread::new(FxHashMap::with_hasher(FxBuildHasher));

/// Maximum number of entries in `INVALIDATED`.
const MAX_INVALIDATED: usize = 4096;

/// Returns the lengths of the prefixes of cached indexes.
pub fn lengths() -> &'static Lengths {
    INDEXES.lengths()
}

/// Returns the names of the first cached indexes.
pub fn names() -> Names {
    INDEXES.names()
}

/// Runs `act` on an index, and opens the index if it is not cached.
pub fn with_index<T>(
    db: c_int,
    prefix: &[u8],
    keys: &mut RedisKeyspace,
    act: impl FnOnce(&mut CachedIndex, &mut RedisKeyspace) -> Result<T>,
) -> Result<T> {
    let open = |keys: &mut RedisKeyspace| {
        let new = settings::layout();
        let mut index = Index::open(keys, prefix, new, in_cluster())?;
        plain::note_storage(db, &index);
        if INVALIDATED.borrow().contains_key(&scope(db, prefix)[..]) {
            index.spelling.invalidate(keys, &index.places)?;
        }
        Ok(CachedIndex {
            index,
            sweep: None,
            new,
            place: None,
        })
    };
    let done = INDEXES.with((db, prefix), keys, open, act);
    let done = done.ok_or(Error::Busy)?;
    if matches!(done, Err(Error::Key(KeyError::Refused(_)))) {
        // The server refused a write halfway, so the cache and the keys may differ.
        INDEXES.borrow().evict(db, prefix);
    }
    done
}

/// Runs `act` on a cached index and its packed value, without opening the key if the address of the value is
/// cached. Returns `None` if the index is not cached or not packed, if `act` returns `None`, and in a
/// cluster.
pub fn with_place<T>(
    ctx: Ctx,
    prefix: &[u8],
    act: impl FnOnce(&RedisIndex, &Packed) -> Option<T>,
) -> Option<T> {
    if in_cluster() {
        return None;
    }
    INDEXES.with_cached((selected_db(ctx), prefix), |cached| {
        let CachedIndex { index, place, .. } = cached;
        if let Some(packed) = place.as_mut().and_then(Place::value) {
            return act(index, packed);
        }
        let key = index.places.packed_key()?;
        *place = RedisKeyspace::new(ctx).place(key).ok()?;
        act(index, place.as_mut()?.value()?)
    })
}

/// Returns false if the packed index with this prefix certainly contains no data of a crawl. Does not
/// call the server.
pub fn may_have_packed(db: c_int, prefix: &[u8], crawl: &[u8]) -> bool {
    let has = INDEXES.with_cached((db, prefix), |cached| {
        Some(cached.place.as_ref()?.peek()?.has_crawl(crawl))
    });
    has != Some(false)
}

/// Runs `act` on the index of a command call, and converts errors to strings.
pub fn on_index<T>(
    call: &mut Call<'_>,
    act: impl FnOnce(&mut CachedIndex, &mut RedisKeyspace) -> Result<T>,
) -> std::result::Result<T, String> {
    with_index(call.db, call.prefix, &mut call.keys, act).map_err(|e| e.to_string())
}

/// Keys of an index, as arguments of a permission check.
#[derive(Clone, Copy)]
pub enum Keys<'a> {
    /// A key that exists once per index.
    One(Pick<RmString>),
    /// The keys of a group.
    All(Group),
    /// Keys of a crawl.
    Of(&'a [u8], &'a [CrawlKey]),
}

/// Refuses with `NOPERM` unless the user has all of these permissions.
pub fn permit(
    call: &mut Call<'_>,
    asked: &[(Keys<'_>, Access)],
) -> std::result::Result<(), String> {
    let user = call.user();
    on_index(call, |cached, keys| {
        let index = &mut cached.index;
        let checked = asked.iter().try_for_each(|&(some, access)| match some {
            Keys::One(name) => user.check(name(index.names()), access),
            Keys::All(group) => {
                let mut names = index.names().group(group);
                names.try_for_each(|name| user.check(name, access))
            }
            Keys::Of(crawl, which) => which.iter().try_for_each(|&which| {
                let key = index.crawls.key(keys, crawl, which);
                user.check(&key, access)
            }),
        });
        checked.map_err(Error::Denied)
    })
}

/// Refuses with `NOPERM` unless the user may access these keys of each committed crawl.
pub fn permit_committed(
    call: &mut Call<'_>,
    which: &[CrawlKey],
    access: Access,
) -> std::result::Result<(), String> {
    let committed = on_index(call, |cached, keys| cached.index.crawls.committed(keys))?;
    let asked = committed
        .iter()
        .map(|crawl| (Keys::Of(crawl, which), access));
    permit(call, &asked.collect::<Vec<_>>())
}

/// Invalidates the cache after changes by other clients.
pub fn on_change(ctx: Ctx, change: Change<'_>) {
    plain::on_change(change);
    INDEXES.on_change(change, |indexes, db, key| {
        if let Some((prefix, role)) = prefix_of_shared(key).filter(|_| !is_replicated(ctx, key)) {
            note_invalidated(ctx, (db, key), prefix, role);
            if role == Shared::Committed {
                plain::note_commit(db, prefix);
            }
        }
        if indexes.is_empty() {
            return;
        }
        for (prefix, crawl) in possible_prefixes(key, PREFIX_BYTES, lengths()) {
            match crawl {
                // The next command reads the index from the keys again.
                None => indexes.evict(db, prefix),
                Some(crawl) => {
                    if let Some(cached) = indexes.get_mut(db, prefix) {
                        cached.index.invalidate_records(crawl);
                    }
                }
            }
        }
    });
}

/// Records that an index must be invalidated, because a plain client wrote to its merged index (under either of its
/// names), or because the index lost a key that determines the owners of hashes. A timer then invalidates the
/// stored information about notations and holders.
fn note_invalidated(ctx: Ctx, (db, key): (c_int, &[u8]), prefix: &[u8], role: Shared) {
    if prefix.len() > PREFIX_BYTES {
        return;
    }
    let purges = role == Shared::Outgoing || !RedisKeyspace::new(ctx).exists(&RmString::new(key));
    if matches!(role, Shared::Committed | Shared::Packed) && !purges {
        return;
    }
    let mut invalidated = INVALIDATED.borrow();
    if invalidated.is_empty() {
        turn::in_ms(0, invalidate_noted);
    }
    if invalidated.len() < MAX_INVALIDATED {
        let scope = scope(db, prefix)[..].into();
        *invalidated.entry(scope).or_default() |= purges;
    }
}

/// Clears the `written` flag of indexes that plain clients wrote to. The flag means that every hash is stored only in
/// the notation that the module writes.
extern "C" fn invalidate_noted(ctx: RawCtx, _: *mut c_void) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a timer", || {
        if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER != 0 && turn::avoid_writing() {
            return turn::in_ms(5, invalidate_noted);
        }
        let scopes = std::mem::take(&mut *INVALIDATED.borrow());
        // A replica receives this change from its master.
        if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0 {
            return;
        }
        for (scope, purges) in scopes {
            let mark = |cached: &mut CachedIndex, keys: &mut RedisKeyspace| {
                let index = &mut cached.index;
                if purges && index.ledger.has_commits(keys) {
                    index.mark_holders_untrusted(keys)?;
                }
                index.spelling.invalidate(keys, &index.places)?;
                index.restore_marker(keys)?;
                if purges {
                    index.places.unmark_emptied(keys)?;
                }
                index.write_spelling(keys)
            };
            visit(ctx, &scope, |(db, prefix), keys, here| {
                // While the slot is being migrated, keys appear and disappear although no client
                // changes them.
                if here.is_ok() {
                    let _ = with_index(db, prefix, keys, mark);
                }
            });
        }
    });
}

/// Runs a slice of a job on its index.
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
