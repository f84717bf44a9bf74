//! Whether the keys of a prefix are here: the one check that every command, slice and timer makes in a
//! cluster.
//!
//! A command of a family declares its prefix to the server, which is not a key to the server's eyes, and
//! reads and writes many keys, some of which are found only on the way. While a slot moves key by key, a key
//! that is not here may be on the other node, or nowhere. So a prefix is served here only
//!
//! - while its slot is this node's and at rest; or
//! - to read, while its slot is open to leave and nothing has left it yet. (To write as well would take keys that
//!   do not exist yet, and those the server wants to be made on the other node.)
//!
//! Otherwise the reply is what the server itself would say of a command that names all these keys: `MOVED`,
//! `ASK` when the prefix key is not here any more, `TRYAGAIN`, or `CLUSTERDOWN`. Some servers send a command
//! to the right node by its prefix before it gets here, others (Redis 8.6) do not.
//!
//! Whether anything has left is known by events: the server tells of every key that it deletes after it was
//! sent to another node, and of every key that it takes in.

use std::ffi::CStr;
use std::os::raw::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;

use crate::cluster::{Nodes, Open, SLOTS, hash_tag, needs_client, slot_of};

use super::api::{Ctx, RmString, context_flags, raw, rm};
use super::call_reply::CallReply;
use super::load::server_info;

static IN_CLUSTER: AtomicBool = AtomicBool::new(false);

/// Whether the server is a cluster's.
pub fn in_cluster() -> bool {
    IN_CLUSTER.load(Relaxed)
}

/// Takes note of the server's mode, which stays as it is. (Asking for the flags of a context also
/// measures the server's memory, which is too much for every command.)
pub(crate) fn note_mode(ctx: Ctx) {
    let flags = context_flags(ctx);
    IN_CLUSTER.store(flags & raw::REDISMODULE_CTX_FLAGS_CLUSTER != 0, Relaxed);
    let valkey = server_info(c"server", c"valkey_version");
    NEEDS_CLIENT.store(
        valkey.is_some_and(|version| needs_client(&version)),
        Relaxed,
    );
    note_all_changed();
}

/// Whether the server must not be asked of its cluster while it serves no client.
static NEEDS_CLIENT: AtomicBool = AtomicBool::new(false);

/// Whether a client is being served, and not a timer, or a client that waits.
fn serves_client(ctx: Ctx) -> bool {
    // SAFETY: main thread, live context; nothing is written where there is no structure.
    unsafe {
        let id = rm!(RedisModule_GetClientId(ctx.raw()));
        let known = rm!(RedisModule_GetClientInfoById(ptr::null_mut(), id));
        known == raw::REDISMODULE_OK as c_int
    }
}

/// A bit for each slot from which keys were deleted, or into which keys were put whole, by others, since it
/// was last seen at rest here.
static CHANGED: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];

fn has_changed(slot: usize) -> bool {
    CHANGED[slot / 64].load(Relaxed) & 1 << (slot % 64) != 0
}

fn note_at_rest(slot: usize) {
    CHANGED[slot / 64].fetch_and(!(1 << (slot % 64)), Relaxed);
}

/// Takes note of an event of a key that others caused.
pub(crate) fn note_event(event: &CStr, key: &[u8]) {
    // What no prefix of ours has is not looked at.
    if matches!(event.to_bytes(), b"del" | b"restore") && hash_tag(key).is_some() {
        let slot = slot_of(key);
        CHANGED[slot / 64].fetch_or(1 << (slot % 64), Relaxed);
    }
}

/// Takes note that keys may have come and gone anywhere.
pub(crate) fn note_all_changed() {
    for slots in &CHANGED {
        slots.store(u64::MAX, Relaxed);
    }
}

/// Refuses, with the error that sends a client where it must go, unless every key of the prefix that exists
/// is here and may be used by the client of the context. Outside of a cluster everything is.
///
/// # Errors
/// `MOVED`, `ASK`, `TRYAGAIN` or `CLUSTERDOWN`, as the server says it.
pub fn check(ctx: Ctx, prefix: &RmString, writes: bool) -> Result<(), String> {
    if !in_cluster() {
        return Ok(());
    }
    let slot = slot_of(prefix.as_ref());
    let refusal = match look(ctx, prefix, slot, writes) {
        Ok(()) => return Ok(()),
        Err(refusal) => refusal,
    };
    Err(match refusal {
        Refusal::Down => "CLUSTERDOWN The cluster is down".to_string(),
        Refusal::ReadOnly => {
            "CLUSTERDOWN The cluster is down and only accepts read commands".to_string()
        }
        Refusal::Elsewhere => elsewhere(ctx, prefix, slot),
    })
}

/// Why the server does not let keys be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The cluster is down.
    Down,
    /// The cluster is down, and what only reads is served.
    ReadOnly,
    /// They may be on another node.
    Elsewhere,
}

fn look(ctx: Ctx, prefix: &RmString, slot: usize, writes: bool) -> Result<(), Refusal> {
    if !writes && !has_changed(slot) && ask(ctx, c"EXISTS", &[prefix])? == 1 {
        return Ok(());
    }
    // A name beside the prefix key that is never a key: both together are refused while the slot is open.
    let nothing = RmString::new(&[prefix.as_ref(), b"crawlspace:nothing"].concat());
    if writes {
        // Nothing can be moved out of a set that is not there.
        ask(ctx, c"SMOVE", &[&nothing, prefix, prefix])?;
    } else {
        ask(ctx, c"EXISTS", &[&nothing, prefix])?;
    }
    note_at_rest(slot);
    Ok(())
}

/// The number that a command replies, run as the client of the context would run it; 0 for an error.
fn ask(ctx: Ctx, command: &CStr, arguments: &[&RmString]) -> Result<i64, Refusal> {
    let mut names: SmallVec<[_; 3]> = arguments.iter().map(|name| name.raw()).collect();
    // SAFETY: main thread, live context and names.
    let reply = unsafe {
        rm!(RedisModule_Call(
            ctx.raw(),
            command.as_ptr(),
            c"v".as_ptr(),
            names.as_mut_ptr(),
            names.len()
        ))
    };
    if reply.is_null() {
        return Err(match std::io::Error::last_os_error().raw_os_error() {
            Some(libc::ENETDOWN) => Refusal::Down,
            Some(libc::EROFS) => Refusal::ReadOnly,
            _ => Refusal::Elsewhere,
        });
    }
    Ok(CallReply::new(reply).integer().max(0))
}

/// What a client is told of a prefix whose keys are not all here.
fn elsewhere(ctx: Ctx, prefix: &RmString, slot: usize) -> String {
    let Some(nodes) = cluster(ctx, b"NODES") else {
        return try_again(slot);
    };
    let text = String::from_utf8_lossy(nodes.bytes());
    let nodes = Nodes(&text);
    let may_use = ask(ctx, c"EXISTS", &[prefix]).is_ok();
    match nodes.open(slot) {
        Some(Open::Migrating(_)) | Some(Open::Importing(_)) if may_use => try_again(slot),
        // What the server says to a command of one key, which the prefix stands for.
        Some(Open::Migrating(to)) => format!("ASK {slot} {}", endpoint(ctx, nodes, to)),
        _ => match nodes.owner(slot) {
            Some(owner) => format!("MOVED {slot} {}", endpoint(ctx, nodes, owner)),
            None => "CLUSTERDOWN Hash slot not served".to_string(),
        },
    }
}

/// What a client is told when the server refuses a command of the module's own because the key is not there
/// while its slot is open.
pub(crate) fn not_here(key: &RmString, refusal: &str) -> Option<String> {
    let says_so = in_cluster() && refusal.contains("non local key");
    says_so.then(|| try_again(slot_of(key.as_ref())))
}

fn try_again(slot: usize) -> String {
    format!(
        "TRYAGAIN slot {slot} is moving key by key, and only a part of the keys of this prefix is here; try again until it has moved"
    )
}

/// Host and port under which clients reach a node.
fn endpoint(ctx: Ctx, nodes: Nodes<'_>, id: &str) -> String {
    preferred(ctx, id).unwrap_or_else(|| nodes.address(id).unwrap_or_default().to_string())
}

/// Host and port of a node with slots, or of its replica, in the form that the server is set to give to clients.
fn preferred(ctx: Ctx, id: &str) -> Option<String> {
    let ranges = cluster(ctx, b"SLOTS")?;
    let range = |at| ranges.child(at);
    for range in (0..).map_while(range) {
        // First slot, last slot, and the nodes: address, port, id.
        for node in (2..).map_while(|at| range.child(at)) {
            if node.element(2).is_some_and(|owner| owner == id.as_bytes()) {
                let host = node.element(0).unwrap_or_default();
                let port = node.child(1)?.integer();
                return Some(format!("{}:{port}", String::from_utf8_lossy(&host)));
            }
        }
    }
    None
}

/// What the server says of its cluster, unless it must not be asked now.
fn cluster(ctx: Ctx, what: &[u8]) -> Option<CallReply> {
    if NEEDS_CLIENT.load(Relaxed) && !serves_client(ctx) {
        return None;
    }
    let what = RmString::new(what);
    // SAFETY: main thread, live context and name.
    let reply = unsafe {
        rm!(RedisModule_Call(
            ctx.raw(),
            c"CLUSTER".as_ptr(),
            c"s".as_ptr(),
            what.raw()
        ))
    };
    (!reply.is_null()).then(|| CallReply::new(reply))
}
