//! Who is told of changes: replicas and the append-only file by commands, clients and other modules by keyspace events.
//!
//! The server makes a command of a change that is to be passed on before it looks whether there is anybody to pass it on
//! to. That takes a third of a microsecond, and a step of a frontier has three to five changes. It makes a client and a
//! context for each module that subscribes to keyspace events, this one included, which takes half as long. So whether
//! there is anybody is asked once and cached, as long as it is certain.
//!
//! For commands it is certain until the server forks, changes its role or its configuration, or loads a file. Who comes anew, a
//! replica or an append-only file, gets what was written before from a process that the server forks, and
//! what is written from that moment on. Who has been there before can only go on where a backlog has been kept for it,
//! and a server that keeps one counts as one that has replicas. In a cluster slots go their own ways to other nodes, so
//! there everything is told. For events it is certain until the configuration changes or a module comes or goes.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::api::{Ctx, RawCtx, raw, rm};
use super::call_reply::CallReply;
use super::cluster::in_cluster;
use super::facts::server_info;

const UNKNOWN: u8 = 0;
const NOBODY: u8 = 1;
const SOMEBODY: u8 = 2;

/// Whether anybody is told, as far as that is cached.
struct Listening(AtomicU8);

impl Listening {
    const fn new() -> Listening {
        Listening(AtomicU8::new(UNKNOWN))
    }

    fn get(&self, ask: impl FnOnce() -> bool) -> bool {
        match self.0.load(Relaxed) {
            NOBODY => false,
            SOMEBODY => true,
            _ => {
                let is = ask();
                self.0.store(if is { SOMEBODY } else { NOBODY }, Relaxed);
                is
            }
        }
    }
}

static TO_COMMANDS: Listening = Listening::new();
static TO_EVENTS: Listening = Listening::new();

/// Whether a replica or an append-only file is told of changes now.
pub(crate) fn is_heard() -> bool {
    TO_COMMANDS.get(|| in_cluster() || ask())
}

/// Whether a client, or a module other than this one, is told of keyspace events now.
pub(crate) fn has_event_listeners(ctx: Ctx) -> bool {
    TO_EVENTS.get(|| {
        let kinds = CallReply::of(ctx, c"CONFIG", &[b"GET", b"notify-keyspace-events"]);
        let modules = CallReply::of(ctx, c"MODULE", &[b"LIST"]);
        // In doubt there is somebody.
        kinds.and_then(|kinds| kinds.element(1)).as_deref() != Some(b"")
            || modules.is_none_or(|all| all.child(0).is_none() || all.child(1).is_some())
    })
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

/// What is cached does not hold any more.
pub(crate) fn invalidate() {
    for listening in [&TO_COMMANDS, &TO_EVENTS] {
        listening.0.store(UNKNOWN, Relaxed);
    }
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
