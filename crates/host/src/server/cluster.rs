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
//!
//! A slot may also move as a whole (`CLUSTER MIGRATESLOTS` of Valkey 9): the old owner serves it until the last write
//! has reached the new one, which begins to serve it then. A server allows that only while every module declares
//! that it can (`take_slots_whole`). The new owner applies commands of the old one, as a replica would
//! (`is_importing`).

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use smallvec::SmallVec;

use crate::cluster::{Nodes, Open, SLOTS, hash_tag, moves_whole, needs_client, slot_of};

use super::api::{Ctx, RmString, context_flags, raw, rm};
use super::call_reply::CallReply;
use super::facts::server_info;

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
    if let Some(version) = valkey {
        NEEDS_CLIENT.store(needs_client(&version), Relaxed);
        MOVES_WHOLE.store(moves_whole(&version), Relaxed);
    }
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

/// A set of slots: a bit for each.
struct Slots([AtomicU64; SLOTS / 64]);

impl Slots {
    const fn new() -> Slots {
        Slots([const { AtomicU64::new(0) }; SLOTS / 64])
    }

    fn has(&self, slot: usize) -> bool {
        self.0[slot / 64].load(Relaxed) & 1 << (slot % 64) != 0
    }

    fn set(&self, slot: usize, to: bool) {
        let (word, bit) = (&self.0[slot / 64], 1 << (slot % 64));
        if to {
            word.fetch_or(bit, Relaxed);
        } else {
            word.fetch_and(!bit, Relaxed);
        }
    }
}

/// Slots from which keys were deleted, or into which keys were put whole, by others, since they were last seen at
/// rest here.
static CHANGED: Slots = Slots::new();

/// Slots that another node sends here as a whole now.
static IMPORTING: Slots = Slots::new();

/// Whether a key changes because another node sends its slot here as a whole.
pub(crate) fn is_importing(key: &[u8]) -> bool {
    in_cluster() && IMPORTING.has(slot_of(key))
}

/// Whether the server moves slots as a whole and asks modules whether they can.
static MOVES_WHOLE: AtomicBool = AtomicBool::new(false);

/// What the server tells of a slot that moves as a whole, as Valkey 9 numbers it.
pub(crate) const SLOTS_MOVE: raw::RedisModuleEvent = raw::RedisModuleEvent { id: 19, dataver: 1 };

/// The event of a node that begins to send slots here. Every other one ends that, or is about slots that are sent from
/// here.
const IMPORT_STARTED: u64 = 0;

/// First and last slot of a range.
#[repr(C)]
struct Range {
    first: c_int,
    last: c_int,
}

/// The data of [`SLOTS_MOVE`].
#[repr(C)]
pub(crate) struct Move {
    version: u64,
    job: [c_char; 41],
    ranges: *const Range,
    count: u32,
}

/// The option and the event of slots that move as a whole, on a server that has both.
pub(crate) fn take_slots_whole() -> (c_int, Option<raw::RedisModuleEvent>) {
    if MOVES_WHOLE.load(Relaxed) {
        (1 << 5, Some(SLOTS_MOVE))
    } else {
        (0, None)
    }
}

/// Takes note of slots that move as a whole.
///
/// # Safety
/// This is the data of [`SLOTS_MOVE`], alive during the call.
pub(crate) unsafe fn note_move(subevent: u64, slots: *const Move) {
    // SAFETY: by contract: the server's own structure, with as many ranges as it says.
    let ranges = unsafe {
        let slots = &*slots;
        std::slice::from_raw_parts(slots.ranges, slots.count as usize)
    };
    let slots = ranges.iter().flat_map(|range| range.first..=range.last);
    for slot in slots.filter_map(|slot| usize::try_from(slot).ok().filter(|&slot| slot < SLOTS)) {
        IMPORTING.set(slot, subevent == IMPORT_STARTED);
    }
}

/// Takes note of an event of a key that others caused.
pub(crate) fn note_event(event: &CStr, key: &[u8]) {
    // What no prefix of ours has is not looked at.
    if matches!(event.to_bytes(), b"del" | b"restore" | b"key_trimmed") && hash_tag(key).is_some() {
        let slot = slot_of(key);
        CHANGED.set(slot, true);
    }
}

/// Takes note that keys may have come and gone anywhere.
pub(crate) fn note_all_changed() {
    for slots in &CHANGED.0 {
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
    if !writes && !CHANGED.has(slot) && ask(ctx, c"EXISTS", &[prefix])? == 1 {
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
    CHANGED.set(slot, false);
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
    CallReply::of(ctx, c"CLUSTER", &[what])
}
