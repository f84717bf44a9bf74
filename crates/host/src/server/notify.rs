//! What others do to the keys that the module has something cached of.
//!
//! The server tells of every change of a key, by commands, replication, expiry or eviction. Changes
//! that this module makes itself are marked, so that it does not invalidate its own caches.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};

use super::api::{Ctx, RawCtx, context_flags, raw, rm, selected_db, string_bytes};
use super::cluster;
use super::guard::guarded;
use super::main_thread::MainThread;

thread_local! {
    static OWN_WRITES: Cell<u32> = const { Cell::new(0) };
}

/// While this lives, changes of keys are this module's own.
pub(crate) struct OwnWrite(());

/// Marks what follows as this module's own writes.
pub(crate) fn own_write() -> OwnWrite {
    OWN_WRITES.with(|n| n.set(n.get() + 1));
    OwnWrite(())
}

impl Drop for OwnWrite {
    fn drop(&mut self) {
        OWN_WRITES.with(|n| n.set(n.get() - 1));
    }
}

/// Something happened to keys that this module did not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// One key of a database changed.
    Key(c_int, &'a [u8]),
    /// One or two databases were emptied or swapped: nothing that was cached of them holds.
    Databases(&'a [c_int]),
    /// All of them were emptied, or are loaded.
    Everything,
    /// The server became a master or a replica.
    Role,
}

/// Whether changes come from the master now, or from a file that is being loaded: from there comes a
/// whole story, the module's own book-keeping included. Costs more than most that is done with a
/// change, so it is asked last.
pub fn is_replicated(ctx: Ctx) -> bool {
    let flags = context_flags(ctx);
    flags & raw::REDISMODULE_CTX_FLAGS_LOADING != 0
        || flags & raw::REDISMODULE_CTX_FLAGS_MASTER == 0
}

/// Takes note of changes. It must not change keys.
#[derive(Clone, Copy)]
pub struct Listener {
    /// Whether a key of this name can matter. Asked for every change of every key of the server,
    /// so it must be quick.
    pub cares_for: fn(&[u8]) -> bool,
    /// Takes note of one change.
    pub hear: fn(Ctx, Change<'_>),
}

static LISTENERS: MainThread<Vec<Listener>> = MainThread::new(Vec::new());

/// Whether anybody listens for changes of this key; yes when that is unknown now.
fn anybody_cares_for(key: &[u8]) -> bool {
    LISTENERS
        .try_borrow()
        .is_none_or(|listeners| listeners.iter().any(|listener| (listener.cares_for)(key)))
}

fn tell(ctx: Ctx, change: Change<'_>) {
    // One at a time, so that a listener may cause events itself; and without a copy of the list,
    // because this runs for every change of every key.
    let listener = |at: usize| LISTENERS.try_borrow()?.get(at).copied();
    let mut at = 0;
    while let Some(listener) = listener(at) {
        (listener.hear)(ctx, change);
        at += 1;
    }
}

/// Hears of every change from now on.
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
    // Expiry and eviction can happen in the middle of our own writes, and are never ours.
    let forced = raw::REDISMODULE_NOTIFY_EXPIRED | raw::REDISMODULE_NOTIFY_EVICTED;
    if OWN_WRITES.with(Cell::get) > 0 && kind & forced == 0 {
        return raw::REDISMODULE_OK as c_int;
    }
    // SAFETY: the key's name lives during the callback.
    let name = unsafe { string_bytes(key) };
    if cluster::in_cluster() {
        // SAFETY: a name that the server ended with a null byte, alive during the callback.
        cluster::note_event(unsafe { CStr::from_ptr(event) }, name);
    }
    if !anybody_cares_for(name) {
        return raw::REDISMODULE_OK as c_int;
    }
    let _ = guarded("a keyspace event", || {
        tell(ctx, Change::Key(selected_db(ctx), name));
    });
    raw::REDISMODULE_OK as c_int
}

extern "C" fn server_event(
    ctx: RawCtx,
    event: raw::RedisModuleEvent,
    _subevent: u64,
    data: *mut c_void,
) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a server event", || {
        if event.id == raw::REDISMODULE_EVENT_CONFIG {
            super::load::warn_of_eviction(ctx);
            return;
        }
        cluster::note_all_changed();
        let mut databases = [0; 2];
        let change = match event.id {
            raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => Change::Role,
            raw::REDISMODULE_EVENT_FLUSHDB => {
                // SAFETY: this event's data is this structure, alive during the callback.
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
        tell(ctx, change);
    });
}

/// Subscribes to everything that matters.
///
/// # Safety
/// Called once, with the context of the module's load.
pub(crate) unsafe fn subscribe(ctx: Ctx) -> Result<(), &'static CStr> {
    let kinds = raw::REDISMODULE_NOTIFY_GENERIC
        | raw::REDISMODULE_NOTIFY_STRING
        | raw::REDISMODULE_NOTIFY_LIST
        | raw::REDISMODULE_NOTIFY_SET
        | raw::REDISMODULE_NOTIFY_HASH
        | raw::REDISMODULE_NOTIFY_ZSET
        | raw::REDISMODULE_NOTIFY_STREAM
        | raw::REDISMODULE_NOTIFY_EXPIRED
        | raw::REDISMODULE_NOTIFY_EVICTED;
    // SAFETY: main thread, the context of the load.
    let subscribed = unsafe {
        rm!(RedisModule_SubscribeToKeyspaceEvents(
            ctx.raw(),
            kinds,
            Some(key_changed)
        ))
    };
    if subscribed != raw::REDISMODULE_OK as c_int {
        return Err(c"keyspace events");
    }
    for id in [
        raw::REDISMODULE_EVENT_FLUSHDB,
        raw::REDISMODULE_EVENT_SWAPDB,
        raw::REDISMODULE_EVENT_LOADING,
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
        raw::REDISMODULE_EVENT_CONFIG,
    ] {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
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
    Ok(())
}
