//! Who is told of changes: replicas, and the append-only file.
//!
//! The server makes a command of a change that is to be passed on before it looks whether there is anybody to pass it on
//! to. That takes a third of a microsecond, and a step of a frontier has three to five changes. So whether there is
//! anybody is asked once and remembered, as long as it is certain.
//!
//! It is certain until the server forks, changes its role or its configuration, or loads a file. Who comes anew, a
//! replica or an append-only file, gets what was written before from a process that the server forks, and
//! what is written from that moment on. Who has been there before can only go on where a backlog has been kept for it,
//! and a server that keeps one counts as one that has replicas. In a cluster slots go their own ways to other nodes, so
//! there everything is told.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::api::{Ctx, RawCtx, raw, rm};
use super::cluster::in_cluster;
use super::load::server_info;

const UNKNOWN: u8 = 0;
const NOBODY: u8 = 1;
const SOMEBODY: u8 = 2;

/// What is known of it.
static LISTENING: AtomicU8 = AtomicU8::new(UNKNOWN);

/// Whether anybody is told of changes now.
pub(crate) fn is_heard() -> bool {
    match LISTENING.load(Relaxed) {
        NOBODY => false,
        SOMEBODY => true,
        _ => {
            let heard = in_cluster() || ask();
            LISTENING.store(if heard { SOMEBODY } else { NOBODY }, Relaxed);
            heard
        }
    }
}

fn ask() -> bool {
    let fields = [
        (c"replication", c"connected_slaves"),
        (c"replication", c"repl_backlog_active"),
        (c"persistence", c"aof_enabled"),
    ];
    let is_none = |(section, field)| server_info(section, field).as_deref() == Some("0");
    !fields.into_iter().all(is_none)
}

/// Passes a change on by `replicate`, if there is anybody to pass it on to. It counts as a change either way, for the
/// server's snapshots.
pub(crate) fn replicate(ctx: Ctx, replicate: impl FnOnce()) {
    if is_heard() {
        return replicate();
    }
    // SAFETY: main thread, live context of a command. Nothing is passed on, for want of anybody; the change counts.
    unsafe { rm!(RedisModule_ReplicateVerbatim(ctx.raw())) };
}

/// What is known does not hold any more.
pub(crate) fn invalidate() {
    LISTENING.store(UNKNOWN, Relaxed);
}

extern "C" fn changed(_: RawCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    invalidate();
}

/// Hears of forks and of replicas; of other events that matter `notify` tells.
///
/// # Safety
/// Called once, with the context of the module's load.
pub(crate) unsafe fn subscribe(ctx: Ctx) -> bool {
    let events = [
        raw::REDISMODULE_EVENT_FORK_CHILD,
        raw::REDISMODULE_EVENT_REPLICA_CHANGE,
    ];
    events.into_iter().all(|id| {
        let event = raw::RedisModuleEvent { id, dataver: 1 };
        // SAFETY: by contract.
        let subscribed = unsafe {
            rm!(RedisModule_SubscribeToServerEvent(
                ctx.raw(),
                event,
                Some(changed)
            ))
        };
        subscribed == raw::REDISMODULE_OK as c_int
    })
}
