//! Determines whether changes must be sent to recipients: as commands to replicas and the
//! append-only file, and as keyspace events to clients and other modules.
//!
//! The server builds the command for a replicated change before it checks for recipients. Building
//! the command takes a third of a microsecond, and a step of a frontier makes three to five
//! changes. For each keyspace event, the server creates a client and a context for each subscribed
//! module, including this one. Doing so takes half as long as building a command. Therefore this
//! module caches whether there are recipients, for as long as the answer is certain.
//!
//! The answer for commands is certain until the server forks, changes its role or configuration, or
//! loads a file. A new replica or append-only file gets earlier writes from a process that the
//! server forks, and all later writes as commands. A reconnecting replica can resume only if the
//! server kept a backlog. Therefore, a server with a backlog is treated like a server with
//! replicas. In a cluster, all changes are sent, because slots can migrate to other nodes without
//! causing any of these events.
//!
//! The answer for keyspace events is certain until the configuration changes or a module is loaded
//! or unloaded.

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use super::api::{Ctx, RawCtx, raw, rm};
use super::call_reply::CallReply;
use super::cluster::in_cluster;
use super::facts::server_info;

const UNKNOWN: u8 = 0;
const NO_LISTENERS: u8 = 1;
const LISTENERS: u8 = 2;

/// Cached answer: listeners exist, listeners do not exist, or unknown.
struct Listening(AtomicU8);

impl Listening {
    const fn new() -> Listening {
        Listening(AtomicU8::new(UNKNOWN))
    }

    fn get(&self, ask: impl FnOnce() -> bool) -> bool {
        match self.0.load(Relaxed) {
            NO_LISTENERS => false,
            LISTENERS => true,
            _ => {
                let is = ask();
                self.0
                    .store(if is { LISTENERS } else { NO_LISTENERS }, Relaxed);
                is
            }
        }
    }
}

static TO_COMMANDS: Listening = Listening::new();
static TO_EVENTS: Listening = Listening::new();

/// Returns true if changes must be replicated to a replica or an append-only file.
pub fn is_heard() -> bool {
    TO_COMMANDS.get(|| in_cluster() || ask())
}

/// Returns true if a client or another module receives keyspace events.
pub(crate) fn has_event_listeners(ctx: Ctx) -> bool {
    TO_EVENTS.get(|| {
        let kinds = CallReply::of(ctx, c"CONFIG", &[b"GET", b"notify-keyspace-events"]);
        let modules = CallReply::of(ctx, c"MODULE", &[b"LIST"]);
        // If a reply is missing, assume that there is a listener.
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

static SILENT: AtomicBool = AtomicBool::new(false);

/// Suppresses the replication of changes while it exists. Main thread only.
pub(crate) struct Silence(());

impl Silence {
    /// Begins the silence. The caller must replicate the changes in another way.
    pub fn begin() -> Silence {
        SILENT.store(true, Relaxed);
        Silence(())
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        SILENT.store(false, Relaxed);
    }
}

/// Returns true while changes are not replicated.
pub(crate) fn is_silent() -> bool {
    SILENT.load(Relaxed)
}

/// Replicates a change by calling `replicate` if there is a recipient. In either case, the server
/// counts the change for its snapshots.
pub(crate) fn replicate(ctx: Ctx, replicate: impl FnOnce()) {
    if is_silent() {
        return;
    }
    if is_heard() {
        return replicate();
    }
    // SAFETY: main thread, live context of a command. Without a recipient, nothing is sent, but the
    // change is counted.
    unsafe { rm!(RedisModule_ReplicateVerbatim(ctx.raw())) };
}

/// Invalidates the cached answers.
pub(crate) fn invalidate() {
    for listening in [&TO_COMMANDS, &TO_EVENTS] {
        listening.0.store(UNKNOWN, Relaxed);
    }
}

extern "C" fn changed(_: RawCtx, _: raw::RedisModuleEvent, _: u64, _: *mut c_void) {
    invalidate();
}

/// Subscribes to events about forks and replicas. `notify` reports all other relevant events to
/// this module.
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
