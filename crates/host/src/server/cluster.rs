//! Cluster check: determines whether this node has all keys of a prefix. In a cluster, every
//! command, slice and timer runs this check.
//!
//! A command reads and writes many keys, some of which it discovers only while it runs. The command
//! declares its prefix to the server, but not as a key. While a slot moves key by key, a missing
//! key may be on the other node, or may not exist at all. Therefore this node serves a prefix only
//!
//! - while it owns the slot and the slot is not moving; or
//! - for reading, while the slot is migrating away and no key has left yet. (Writing could create
//!   new keys, which the server requires to be created on the other node.)
//!
//! Otherwise, the client gets the reply that the server would send for a command that names all
//! these keys: `MOVED`, `ASK` (if the key with the name of the prefix has left), `TRYAGAIN`, or
//! `CLUSTERDOWN`. Some servers redirect a command by its prefix before it reaches the module;
//! others (Redis 8.6) do not.
//!
//! Keyspace events show if a key has left: the server reports every key that it receives, and every
//! key that it deletes after sending it to another node.
//!
//! Valkey 9 can also migrate a slot atomically (`CLUSTER MIGRATESLOTS`): the old owner serves the
//! slot until the new owner has received the last write and takes over. A server allows this only
//! if every module declares support (`take_slots_whole`). The new owner applies commands of the old
//! one, like a replica (`is_importing`).

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

/// Returns true if the server runs in cluster mode.
pub fn in_cluster() -> bool {
    IN_CLUSTER.load(Relaxed)
}

/// Caches the server's mode, which never changes. Reading the flags of a context also computes the
/// server's memory use, which is too slow to do in every command.
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

/// True if cluster information must not be queried while no client is being served.
static NEEDS_CLIENT: AtomicBool = AtomicBool::new(false);

/// Returns true while the server is serving a connected client, and false for timers and blocked
/// clients.
fn serves_client(ctx: Ctx) -> bool {
    // SAFETY: main thread, live context; with a null structure, nothing is written.
    unsafe {
        let id = rm!(RedisModule_GetClientId(ctx.raw()));
        let known = rm!(RedisModule_GetClientInfoById(ptr::null_mut(), id));
        known == raw::REDISMODULE_OK as c_int
    }
}

/// A bitmap of slots.
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

/// Slots in which keys were deleted or restored since the slot was last known to be stable, but not
/// by this module.
static CHANGED: Slots = Slots::new();

/// Slots that another node is migrating to this node atomically.
static IMPORTING: Slots = Slots::new();

/// Returns true if a key changes because another node migrates its slot to this node atomically.
pub(crate) fn is_importing(key: &[u8]) -> bool {
    in_cluster() && IMPORTING.has(slot_of(key))
}

/// True if the server migrates slots atomically and requires modules to declare support.
static MOVES_WHOLE: AtomicBool = AtomicBool::new(false);

/// Event for slots that are migrated atomically, as numbered by Valkey 9.
pub(crate) const SLOTS_MOVE: raw::RedisModuleEvent = raw::RedisModuleEvent { id: 19, dataver: 1 };

/// Subevent: another node begins to migrate slots to this node. Every other subevent reports the
/// end of such a migration, or concerns slots that leave this node.
const IMPORT_STARTED: u64 = 0;

/// A range of slots, first and last included.
#[repr(C)]
struct Range {
    first: c_int,
    last: c_int,
}

/// Data of the event [`SLOTS_MOVE`].
#[repr(C)]
pub(crate) struct Move {
    version: u64,
    job: [c_char; 41],
    ranges: *const Range,
    count: u32,
}

/// Returns the module option and the event for atomically migrated slots, if the server supports them.
pub(crate) fn take_slots_whole() -> (c_int, Option<raw::RedisModuleEvent>) {
    if MOVES_WHOLE.load(Relaxed) {
        (1 << 5, Some(SLOTS_MOVE))
    } else {
        (0, None)
    }
}

/// Records the start or end of an atomic slot migration.
///
/// # Safety
/// `slots` is the data of the event [`SLOTS_MOVE`] and lives during the call.
pub(crate) unsafe fn note_move(subevent: u64, slots: *const Move) {
    // SAFETY: by contract, this is the server's structure, with the number of ranges that it
    // contains.
    let ranges = unsafe {
        let slots = &*slots;
        std::slice::from_raw_parts(slots.ranges, slots.count as usize)
    };
    let slots = ranges.iter().flat_map(|range| range.first..=range.last);
    for slot in slots.filter_map(|slot| usize::try_from(slot).ok().filter(|&slot| slot < SLOTS)) {
        IMPORTING.set(slot, subevent == IMPORT_STARTED);
    }
}

/// Records a keyspace event that this module did not cause.
pub(crate) fn note_event(event: &CStr, key: &[u8]) {
    // Every prefix in a cluster has a hash tag, so other keys do not belong to the module.
    if matches!(event.to_bytes(), b"del" | b"restore" | b"key_trimmed") && hash_tag(key).is_some() {
        let slot = slot_of(key);
        CHANGED.set(slot, true);
    }
}

/// Records that any slot may have lost or received keys.
pub(crate) fn note_all_changed() {
    for slots in &CHANGED.0 {
        slots.store(u64::MAX, Relaxed);
    }
}

/// Refuses, with the error that redirects the client, unless every existing key of the prefix is on this node and the
/// client of the context may use it. Always succeeds outside of a cluster.
///
/// # Errors
/// `MOVED`, `ASK`, `TRYAGAIN` or `CLUSTERDOWN`, with the server's wording.
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

/// The reason why the server refuses access to keys on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// The cluster is down.
    Down,
    /// The cluster is down, except for reads.
    ReadOnly,
    /// The keys may be on another node.
    Elsewhere,
}

fn look(ctx: Ctx, prefix: &RmString, slot: usize, writes: bool) -> Result<(), Refusal> {
    if !writes && !CHANGED.has(slot) && ask(ctx, c"EXISTS", &[prefix])? == 1 {
        return Ok(());
    }
    // A key name in the slot of the prefix. This key never exists. While the slot is moving, the
    // server refuses a command with this name and the prefix.
    let nothing = RmString::new(&[prefix.as_ref(), b"crawlspace:nothing"].concat());
    if writes {
        // `SMOVE` from a missing set changes nothing.
        ask(ctx, c"SMOVE", &[&nothing, prefix, prefix])?;
    } else {
        ask(ctx, c"EXISTS", &[&nothing, prefix])?;
    }
    CHANGED.set(slot, false);
    Ok(())
}

/// Runs a command for the client of the context. Returns its integer reply, or 0 for an error.
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

/// Returns the error for a prefix whose keys are not all on this node.
fn elsewhere(ctx: Ctx, prefix: &RmString, slot: usize) -> String {
    let Some(nodes) = cluster(ctx, b"NODES") else {
        return try_again(slot);
    };
    let text = String::from_utf8_lossy(nodes.bytes());
    let nodes = Nodes(&text);
    let may_use = ask(ctx, c"EXISTS", &[prefix]).is_ok();
    match nodes.open(slot) {
        Some(Open::Migrating(_)) | Some(Open::Importing(_)) if may_use => try_again(slot),
        // Imitate the server's reply to a command with one key. The module treats the prefix as
        // this key.
        Some(Open::Migrating(to)) => format!("ASK {slot} {}", endpoint(ctx, nodes, to)),
        _ => match nodes.owner(slot) {
            Some(owner) => format!("MOVED {slot} {}", endpoint(ctx, nodes, owner)),
            None => "CLUSTERDOWN Hash slot not served".to_string(),
        },
    }
}

/// Returns the error for the client if the server refused one of the module's own commands because
/// the key is missing while its slot is moving.
pub(crate) fn not_here(key: &RmString, refusal: &str) -> Option<String> {
    let says_so = in_cluster() && refusal.contains("non local key");
    says_so.then(|| try_again(slot_of(key.as_ref())))
}

fn try_again(slot: usize) -> String {
    format!(
        "TRYAGAIN slot {slot} is being migrated, and this node has only some keys of the prefix; retry until the migration is complete"
    )
}

/// Returns the host and port under which clients reach a node.
fn endpoint(ctx: Ctx, nodes: Nodes<'_>, id: &str) -> String {
    preferred(ctx, id).unwrap_or_else(|| nodes.address(id).unwrap_or_default().to_string())
}

/// Returns the host and port of a master with slots, or of a replica of such a master, in the form
/// that the server is configured to announce.
fn preferred(ctx: Ctx, id: &str) -> Option<String> {
    let ranges = cluster(ctx, b"SLOTS")?;
    let range = |at| ranges.child(at);
    for range in (0..).map_while(range) {
        // A range consists of the first slot, the last slot, and the nodes (address, port, id).
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

/// Runs `CLUSTER` with this subcommand. Returns `None` if cluster information must not be queried
/// now.
fn cluster(ctx: Ctx, what: &[u8]) -> Option<CallReply> {
    if NEEDS_CLIENT.load(Relaxed) && !serves_client(ctx) {
        return None;
    }
    CallReply::of(ctx, c"CLUSTER", &[what])
}
