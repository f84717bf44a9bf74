//! Notifications of changes to cached keys that the module itself did not make.
//!
//! The server reports every change of a key, by commands, replication, expiry or eviction. The
//! module marks its own changes, so that these do not invalidate its caches.
//!
//! Every event slows down commands that do not concern the module. Therefore `watch` subscribes to
//! most kinds of events only when they are needed:
//!
//! - at the module's first command
//! - at the first restored key that may belong to the module (from a file, a master, or by
//!   `RESTORE`)
//! - when such a key may exist without an event: after an append-only file was loaded, or when a
//!   replica becomes a master

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::api::{Ctx, RawCtx, context_flags, raw, rm, selected_db, string_bytes};
use super::cluster;
use super::facts::warn_of_eviction;
use super::guard::guarded;
use super::main_thread::MainThread;
use super::metric::WATCHING;
use super::replication;

/// Number of live [`OwnWrite`] marks; main thread only.
static OWN_WRITES: AtomicU32 = AtomicU32::new(0);

/// Marks key changes as the module's own while it lives.
pub(crate) struct OwnWrite(());

/// Marks the following writes as the module's own.
pub(crate) fn own_write() -> OwnWrite {
    OWN_WRITES.store(OWN_WRITES.load(Relaxed) + 1, Relaxed);
    OwnWrite(())
}

impl Drop for OwnWrite {
    fn drop(&mut self) {
        OWN_WRITES.store(OWN_WRITES.load(Relaxed) - 1, Relaxed);
    }
}

/// A change that this module did not make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// A key of a database changed.
    Key(c_int, &'a [u8]),
    /// A database was flushed, or two databases were swapped. The caches of these databases are
    /// invalid.
    Databases(&'a [c_int]),
    /// Every database was flushed, or a file is being loaded.
    Everything,
    /// The server became a master or a replica.
    Role,
}

/// Returns true if a key changes because the master replicates to this server, another node
/// migrates the slot to it, or a file is being loaded. The module's own bookkeeping keys arrive
/// from the same origin. This check is slower than most others, so callers make it last.
pub fn is_replicated(ctx: Ctx, key: &[u8]) -> bool {
    if cluster::is_importing(key) {
        return true;
    }
    let flags = context_flags(ctx);
    flags & raw::REDISMODULE_CTX_FLAGS_LOADING != 0
        || flags & raw::REDISMODULE_CTX_FLAGS_MASTER == 0
}

/// A listener for changes. A listener must not change keys.
#[derive(Clone, Copy)]
pub struct Listener {
    /// Returns true if a change of a key with this name can matter. Called for every change of
    /// every key of the server, so it must be fast.
    pub cares_for: fn(&[u8]) -> bool,
    /// Returns true if a key with this name shows that a data set exists. Changes of the keys of this data set matter
    /// even before the module's first command. A listener is also notified when such a key is loaded from a file.
    pub marks: fn(&[u8]) -> bool,
    /// Handles a change.
    pub hear: fn(Ctx, Change<'_>),
}

static LISTENERS: MainThread<Vec<Listener>> = MainThread::new(Vec::new());

/// Returns the first listener at or after this position for which `says` returns true, and its position. The list is
/// borrowed only during the search, because a listener may itself cause events.
fn next_listener(from: usize, says: impl Fn(&Listener) -> bool) -> Option<(usize, Listener)> {
    let listeners = LISTENERS.try_borrow()?;
    let at = from + listeners.get(from..)?.iter().position(says)?;
    Some((at, listeners[at]))
}

/// Calls the listener at this position, and all later listeners for which `says` returns true.
fn tell(
    ctx: Ctx,
    change: Change<'_>,
    first: Option<(usize, Listener)>,
    says: impl Fn(&Listener) -> bool,
) {
    let mut next = first;
    while let Some((at, listener)) = next {
        (listener.hear)(ctx, change);
        next = next_listener(at + 1, &says);
    }
}

/// Registers a listener for all further changes.
pub fn listen(listener: Listener) {
    LISTENERS.borrow().push(listener);
}

extern "C" fn key_changed(
    ctx: RawCtx,
    kind: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    // SAFETY: the key's name lives during the callback.
    let name = unsafe { string_bytes(key) };
    // Expiry and eviction can happen during the module's own writes, but the module never causes
    // them.
    let forced = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    let is_loaded = kind & raw::REDISMODULE_NOTIFY_LOADED != 0;
    let marks = |listener: &Listener| (listener.marks)(name);
    if is_loaded || !is_watching() {
        let first = next_listener(0, marks);
        if first.is_some() {
            watch(ctx);
        }
        if is_loaded {
            let change = Change::Key(selected_db(ctx), name);
            let _ = guarded("a loaded key", || tell(ctx, change, first, marks));
            return raw::REDISMODULE_OK as c_int;
        }
    }
    if OWN_WRITES.load(Relaxed) > 0 && kind & forced == 0 {
        return raw::REDISMODULE_OK as c_int;
    }
    if cluster::in_cluster() {
        // SAFETY: the server terminates the name with a null byte, and the name lives during the
        // callback.
        cluster::note_event(unsafe { CStr::from_ptr(event) }, name);
    }
    let cares = |listener: &Listener| (listener.cares_for)(name);
    let first = next_listener(0, cares);
    if first.is_some() {
        let _ = guarded("a keyspace event", || {
            tell(ctx, Change::Key(selected_db(ctx), name), first, cares);
        });
    }
    raw::REDISMODULE_OK as c_int
}

extern "C" fn server_event(
    ctx: RawCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a server event", || {
        replication::invalidate();
        if event.id == raw::REDISMODULE_EVENT_CONFIG {
            warn_of_eviction(ctx);
            return;
        }
        if event.id == raw::REDISMODULE_EVENT_MODULE_CHANGE {
            return;
        }
        let from_commands = event.id == raw::REDISMODULE_EVENT_LOADING
            && subevent == raw::REDISMODULE_SUBEVENT_LOADING_AOF_START;
        if from_commands || event.id == raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED {
            watch(ctx);
        }
        cluster::note_all_changed();
        if event.id == cluster::SLOTS_MOVE.id {
            // The server also sends an event for each key that is added or deleted with a slot.
            watch(ctx);
            // SAFETY: for this event, the server passes this structure, which lives during the
            // callback.
            unsafe { cluster::note_move(subevent, data.cast()) };
            return;
        }
        let mut databases = [0; 2];
        let change = match event.id {
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => Change::Role,
            raw::REDISMODULE_EVENT_FLUSHDB => {
                // SAFETY: for this event, the server passes this structure, which lives during the
                // callback.
                let flushed = unsafe { &*data.cast::<raw::RedisModuleFlushInfo>() };
                databases[0] = flushed.dbnum;
                match flushed.dbnum {
                    0.. => Change::Databases(&databases[..1]),
                    _ => Change::Everything,
                }
            }
            raw::REDISMODULE_EVENT_SWAPDB => {
                // SAFETY: as above.
                let swapped = unsafe { &*data.cast::<raw::RedisModuleSwapDbInfo>() };
                databases = [swapped.dbnum_first, swapped.dbnum_second];
                Change::Databases(&databases)
            }
            _ => Change::Everything,
        };
        tell(ctx, change, next_listener(0, |_| true), |_| true);
    });
}

fn subscribe_to_keys(ctx: Ctx, kinds: c_int) -> bool {
    // SAFETY: main thread, a context of this module.
    let subscribed = unsafe {
        rm!(RedisModule_SubscribeToKeyspaceEvents(
            ctx.raw(),
            kinds,
            Some(key_changed)
        ))
    };
    subscribed == raw::REDISMODULE_OK as c_int
}

/// Returns true if the module is subscribed to all kinds of changes.
fn is_watching() -> bool {
    WATCHING.get() == 1
}

/// Returns the event type for keys that the server deletes after an atomic slot migration, if the server has one (Redis
/// 8.4). Other servers report these keys as deleted.
fn key_trimmed() -> c_int {
    const KEY_TRIMMED: c_int = 1 << 17;
    // SAFETY: main thread; the call only returns a number.
    unsafe { rm!(RedisModule_GetKeyspaceNotificationFlagsAll()) & KEY_TRIMMED }
}

/// Subscribes to all kinds of changes.
pub(crate) fn watch(ctx: Ctx) {
    let kinds = raw::REDISMODULE_NOTIFY_STRING
        | raw::REDISMODULE_NOTIFY_LIST
        | raw::REDISMODULE_NOTIFY_SET
        | raw::REDISMODULE_NOTIFY_HASH
        | raw::REDISMODULE_NOTIFY_ZSET
        | raw::REDISMODULE_NOTIFY_STREAM
        | raw::REDISMODULE_NOTIFY_EXPIRED
        | raw::REDISMODULE_NOTIFY_EVICTED
        | key_trimmed();
    if !is_watching() && subscribe_to_keys(ctx, kinds) {
        WATCHING.set(1);
        cluster::note_all_changed();
    }
}

/// Returns true if any database has a key.
fn has_keys(ctx: Ctx) -> bool {
    let selected = selected_db(ctx);
    // SAFETY: main thread, the context of the load.
    let select = |db| unsafe { rm!(RedisModule_SelectDb(ctx.raw(), db)) } == 0;
    let mut found = false;
    let mut db = 0;
    while !found && select(db) {
        // SAFETY: as above.
        found = unsafe { rm!(RedisModule_DbSize(ctx.raw())) } > 0;
        db += 1;
    }
    select(selected);
    found
}

/// Subscribes to the events that are needed before the first command, or to all events if data
/// already exists.
///
/// # Safety
/// Called once, with the context of the module's load.
pub(crate) unsafe fn subscribe(ctx: Ctx) -> Result<(), &'static CStr> {
    if !subscribe_to_keys(
        ctx,
        raw::REDISMODULE_NOTIFY_GENERIC | raw::REDISMODULE_NOTIFY_LOADED,
    ) {
        return Err(c"keyspace events");
    }
    if has_keys(ctx) {
        watch(ctx);
    }
    let events = [
        raw::REDISMODULE_EVENT_FLUSHDB,
        raw::REDISMODULE_EVENT_SWAPDB,
        raw::REDISMODULE_EVENT_LOADING,
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        raw::REDISMODULE_EVENT_CONFIG,
        raw::REDISMODULE_EVENT_MODULE_CHANGE,
    ]
    .map(|id| raw::RedisModuleEvent { id, dataver: 1 });
    for event in events.into_iter().chain(cluster::take_slots_whole().1) {
        // SAFETY: as above.
        let subscribed = unsafe {
            rm!(RedisModule_SubscribeToServerEvent(
                ctx.raw(),
                event,
                Some(server_event)
            ))
        };
        if subscribed != raw::REDISMODULE_OK as c_int {
            return Err(c"server events");
        }
    }
    // SAFETY: by contract.
    if !unsafe { replication::subscribe(ctx) } {
        return Err(c"events of forks and replicas");
    }
    Ok(())
}
