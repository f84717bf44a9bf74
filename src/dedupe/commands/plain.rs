//! Commands of plain clients on packed indexes: `HGET`, `HSETNX`, `HLEN`, `HSCAN`, `RENAME` and `RENAMENX`.
//!
//! If the setting `dedupe-plain-commands` is on, a [filter](crawlspace_host::server::filter)
//! redirects these commands to the commands in this module whenever their key may be a hash of a
//! packed index on this server. The commands here read and write the packed index, or run the
//! server's own command.

use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::dedupe::error::Result;
use crate::dedupe::grammar::{HGet, HLen, HScan, HSetNx, Rename, RenameNx};
use crate::dedupe::index::storage::Storage;
use crate::dedupe::keys::{META, PACKED_INDEX, RECORDS, as_purge, packed_names};
use crate::dedupe::pack::move_to;
use crate::dedupe::packed::Part;
use crate::dedupe::profile::Profile;
use crate::dedupe::stand_in::{Document, ScanOptions, ScanPosition};
use crate::dedupe::store::{Holds, Store};
use crawlspace_host::keyspace::{Batch, Keyspace};
use crawlspace_host::names::Lengths;
use crawlspace_host::server::acl::{Access, User};
use crawlspace_host::server::api::{Ctx, RawCtx, RmString, context_flags, raw, rm};
use crawlspace_host::server::clock::even_ms;
use crawlspace_host::server::cluster;
use crawlspace_host::server::filter::{self, Words};
use crawlspace_host::server::guard::guarded;
use crawlspace_host::server::instead::{Instead, InsteadCall};
use crawlspace_host::server::keyspace::RedisKeyspace;
use crawlspace_host::server::main_thread::MainThread;
use crawlspace_host::server::notify::Change;
use crawlspace_host::server::reply::{send_array, send_bulk, send_int, send_nil};
use crawlspace_host::server::scope::{scope, visit};
use crawlspace_host::server::turn;

use super::indexes::{self, RedisIndex, with_index, with_place};
use super::{claims, jobs, metrics, settings};

/// Prefixes of packed indexes, and the databases that contain these indexes.
struct Prefixes {
    known: FxHashMap<Box<[u8]>, SmallVec<[c_int; 1]>>,
    /// True if a timer will look for the indexes.
    scheduled: bool,
    /// True if all packed indexes will then be scheduled for packing.
    packs_all: bool,
    /// Meanings of keys of recent calls. The command that runs after the filter, and later calls, need not search for
    /// the prefix again.
    recent: [Option<Meaning>; RECENT],
}

/// Number of keys whose meaning is cached.
const RECENT: usize = 16;

/// Meaning of a key: the hash of one packed index.
struct Meaning {
    key: SmallVec<[u8; 64]>,
    prefix: usize,
    is_merged: bool,
}

impl Prefixes {
    fn slot(key: &[u8]) -> usize {
        usize::from(*key.last().unwrap_or(&0)).wrapping_add(key.len()) % RECENT
    }

    /// Returns the only hash that a key of a recent call names, with its prefix.
    fn recall<'k>(&self, key: &'k [u8]) -> Option<(&'k [u8], Document<'k>)> {
        let meaning = self.recent[Prefixes::slot(key)].as_ref()?;
        if meaning.key[..] != *key {
            return None;
        }
        let document = if meaning.is_merged {
            Document::Merged
        } else {
            Document::Records(&key[meaning.prefix + RECORDS.len()..])
        };
        Some((&key[..meaning.prefix], document))
    }

    /// Caches the meaning of a key that names one hash only.
    fn remember(&mut self, key: &[u8], meant: &[(&[u8], Document<'_>)]) {
        let [(prefix, document)] = *meant else { return };
        self.recent[Prefixes::slot(key)] = Some(Meaning {
            key: key.into(),
            prefix: prefix.len(),
            is_merged: matches!(document, Document::Merged),
        });
    }

    /// Forgets the meanings of keys, because the prefixes of packed indexes changed.
    fn forget(&mut self) {
        self.recent = [const { None }; RECENT];
    }
}

static PREFIXES: MainThread<Prefixes> = MainThread::new(Prefixes {
    known: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
    scheduled: false,
    packs_all: false,
    recent: [const { None }; RECENT],
});

/// Lengths of these prefixes.
static LENGTHS: Lengths = Lengths::new();

/// Returns the hashes of packed indexes that a key may name, each with its prefix.
fn documents<'p, 'k>(
    prefixes: &'p Prefixes,
    key: &'k [u8],
) -> Option<impl Iterator<Item = (&'k [u8], Document<'k>)> + use<'p, 'k>> {
    // This runs for keys of other programs, too, so the cheapest checks come first.
    if !Document::may_be_merged(key) && !LENGTHS.any(key, RECORDS) {
        return None;
    }
    let starts = LENGTHS.find(key, RECORDS);
    let is_prefix = move |prefix: &[u8]| prefixes.known.contains_key(prefix);
    Some(Document::of_key(key, starts, is_prefix))
}

/// Chooses the command that runs instead of a call, for the filter.
fn rename(words: &Words<'_>) -> Option<&'static str> {
    let is = |name: &[u8]| words.name().eq_ignore_ascii_case(name);
    let name = match words.name().len() {
        4 if words.len() == 3 && is(b"HGET") => "dedupe.hget",
        4 if words.len() == 2 && is(b"HLEN") => "dedupe.hlen",
        5 if words.len() >= 3 && is(b"HSCAN") => "dedupe.hscan",
        6 if words.len() == 4 && is(b"HSETNX") => "dedupe.hsetnx",
        6 if words.len() == 3 && is(b"RENAME") => return rename_purge(words, "dedupe.rename"),
        8 if words.len() == 3 && is(b"RENAMENX") => return rename_purge(words, "dedupe.renamenx"),
        _ => return None,
    };
    let mut prefixes = PREFIXES.try_borrow()?;
    let key = words.get(1);
    if let Some(meant) = prefixes.recall(key) {
        return may_be_packed(&prefixes, &meant).then_some(name);
    }
    let meant: SmallVec<[_; 1]> = documents(&prefixes, key)?.collect();
    prefixes.remember(key, &meant);
    let mut meant = meant.iter();
    meant
        .any(|meant| may_be_packed(&prefixes, meant))
        .then_some(name)
}

/// Returns true if a hash may have packed fields.
fn may_be_packed(prefixes: &Prefixes, (prefix, document): &(&[u8], Document<'_>)) -> bool {
    match document {
        Document::Merged => true,
        // Records of other crawls, such as a crawl that a crawler is writing, are in plain hashes.
        Document::Records(crawl) => {
            let databases = prefixes.known.get(*prefix);
            let may_have = |&db: &c_int| indexes::may_have_packed(db, prefix, crawl);
            databases.is_some_and(|all| all.is_empty() || all.iter().any(may_have))
        }
    }
}

/// Returns `name` if a call may begin a purge of a packed index.
fn rename_purge(words: &Words<'_>, name: &'static str) -> Option<&'static str> {
    let prefix = as_purge(words.get(1), words.get(2))?;
    let is_packed = PREFIXES.try_borrow()?.known.contains_key(prefix);
    is_packed.then_some(name)
}

/// Records that a packed index with this prefix may exist, and schedules a check. If the running command creates a
/// packed index, plain commands are served from it starting with the next command.
fn note(db: c_int, prefix: &[u8], is_packed: bool) {
    let Some(mut prefixes) = PREFIXES.try_borrow() else {
        return;
    };
    let known = prefixes.known.get_mut(prefix);
    let is_new = known.is_none();
    match known {
        // No database is known yet, so the key may be in any database.
        Some(databases) if databases.is_empty() || databases.contains(&db) => return,
        Some(databases) => databases.push(db),
        None => {
            LENGTHS.note(prefix.len());
            let databases = if is_packed { vec![db] } else { Vec::new() };
            prefixes.known.insert(prefix.into(), databases.into());
            prefixes.forget();
        }
    }
    // On a replica, keys of an index other than the packed index change all the time.
    prefixes.schedule(if is_packed { 0 } else { META_MS });
    if is_new && is_packed && settings::PLAIN_COMMANDS.get() {
        filter::set(turn::ctx(), Some(rename));
    }
}

/// Records the storage of an index after the module changed the index.
pub fn note_storage(db: c_int, index: &RedisIndex) {
    if index.places.packed_key().is_some() {
        note(db, index.prefix(), true);
    } else if PREFIXES.borrow().known.contains_key(index.prefix()) {
        check_soon();
    }
}

/// Schedules a check of all packed indexes.
pub fn check_soon() {
    if let Some(mut prefixes) = PREFIXES.try_borrow() {
        prefixes.schedule(0);
    }
}

/// Records a packed index whose key changed, and schedules a check after other changes.
pub fn on_change(change: Change<'_>) {
    match change {
        Change::Key(db, key) => {
            if let Some(prefix) = PACKED_INDEX.prefix_of(key) {
                note(db, prefix, true);
                check_soon();
                // The key may come from another server, where plain clients had just committed crawls.
                note_commit(db, prefix);
            } else if let Some(prefix) = META.prefix_of(key) {
                note(db, prefix, false);
            }
        }
        Change::Databases(_) | Change::Everything => check_soon(),
        Change::Role => {
            // The former master may not have packed the last crawls that plain clients committed.
            if let Some(mut prefixes) = PREFIXES.try_borrow() {
                prefixes.packs_all = true;
                prefixes.schedule(0);
            }
        }
    }
}

/// Delay before the check of an index whose `crawlspace` key changed, in milliseconds.
const META_MS: u64 = 100;

impl Prefixes {
    fn schedule(&mut self, delay_ms: u64) {
        if !self.scheduled {
            self.scheduled = true;
            turn::in_ms(delay_ms, check);
        }
    }
}

/// Finds out which indexes are packed, and registers or unregisters the filter.
extern "C" fn check(ctx: RawCtx, _: *mut c_void) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a timer", || {
        let mut prefixes = PREFIXES.borrow();
        prefixes.scheduled = false;
        let mut found: FxHashMap<Box<[u8]>, SmallVec<[c_int; 1]>> = FxHashMap::default();
        let mut db = 0;
        // SAFETY: main thread, the context of a timer.
        while !prefixes.known.is_empty() && unsafe { rm!(RedisModule_SelectDb(ctx.raw(), db)) } == 0
        {
            let mut keys = RedisKeyspace::new(ctx);
            for prefix in prefixes.known.keys() {
                if is_packed(&mut keys, prefix) {
                    found.entry(prefix.clone()).or_default().push(db);
                }
            }
            db += 1;
        }
        prefixes.known = found;
        prefixes.forget();
        let filters = settings::PLAIN_COMMANDS.get() && !prefixes.known.is_empty();
        // Plain clients may have committed crawls while the setting was off.
        let begins = metrics::PLAIN_COMMANDS.get() == 0;
        let packs_all = std::mem::take(&mut prefixes.packs_all) || begins;
        metrics::PLAIN_COMMANDS.set(filters.into());
        let mut unpacked: Vec<(c_int, Box<[u8]>)> = Vec::new();
        for (prefix, databases) in prefixes.known.iter().filter(|_| filters && packs_all) {
            unpacked.extend(databases.iter().map(|&db| (db, prefix.clone())));
        }
        drop(prefixes);
        filter::set(ctx, filters.then_some(rename));
        for (db, prefix) in unpacked {
            absorb_after(db, &prefix, QUIET_MS, false);
        }
    });
}

/// Returns true if there is a packed index with this prefix in the selected database. The index may be empty, and
/// then has no value yet.
fn is_packed(keys: &mut RedisKeyspace, prefix: &[u8]) -> bool {
    let key = |name: &str| RmString::new(&[prefix, name.as_bytes()].concat());
    let has_value = packed_names().any(|name| keys.holds(&key(name)) == Holds::Packed);
    has_value || {
        let meta = key(META.name(Profile::Document));
        let storage = keys.hash_get(&meta, b"storage").ok().flatten();
        storage.is_some_and(|storage| Storage::parse(storage.as_ref()) == Some(Storage::Packed))
    }
}

/// Time in milliseconds after the last commit by a plain client until the crawls that plain clients committed
/// are packed.
const QUIET_MS: u64 = 1000;
/// Time in milliseconds after which new records of a running crawl are packed if the crawl is already
/// committed.
const RUNNING_MS: u64 = 60_000;
/// Number of such records after which they are packed immediately.
const RUNNING_RECORDS: u32 = 10_000;

/// Plain records of committed crawls in packed indexes, which the module will pack.
struct Unpacked {
    /// The time at which the records of each scope will be packed, and their number as far as known.
    due: FxHashMap<Box<[u8]>, (u64, u32)>,
    /// The time at which the next timer fires.
    alarm: Option<u64>,
}

static UNPACKED: MainThread<Unpacked> = MainThread::new(Unpacked {
    due: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
    alarm: None,
});

/// Maximum number of indexes that wait for packing. Further indexes are not packed before their
/// next commit.
const MAX_WAITING: usize = 4096;

/// Schedules packing of an index in which plain clients may have committed crawls.
pub fn note_commit(db: c_int, prefix: &[u8]) {
    if settings::PLAIN_COMMANDS.get() {
        absorb_after(db, prefix, QUIET_MS, true);
    }
}

/// Schedules packing of the plain records of an index after `delay_ms`. With `restarts`, replaces
/// an earlier time.
fn absorb_after(db: c_int, prefix: &[u8], delay_ms: u64, restarts: bool) {
    let Some(mut unpacked) = UNPACKED.try_borrow() else {
        return;
    };
    let at = even_ms() + delay_ms;
    let scope = scope(db, prefix);
    let is_full = unpacked.due.len() >= MAX_WAITING;
    match unpacked.due.get_mut(&scope[..]) {
        Some((due, _)) if restarts => *due = at,
        Some((due, records)) => {
            *records += 1;
            if *records == RUNNING_RECORDS {
                *due = even_ms();
            }
        }
        None if is_full => return,
        None => {
            unpacked.due.insert(scope[..].into(), (at, 0));
        }
    }
    unpacked.arrange();
}

impl Unpacked {
    /// Sets a timer for the earliest time.
    fn arrange(&mut self) {
        let Some(first) = self.due.values().map(|&(due, _)| due).min() else {
            return;
        };
        if self.alarm.is_none_or(|alarm| first < alarm) {
            self.alarm = Some(first);
            turn::in_ms(first.saturating_sub(even_ms()), absorb);
        }
    }
}

/// Starts packing the indexes that are due.
extern "C" fn absorb(ctx: RawCtx, _: *mut c_void) {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a timer", || {
        let now = even_ms();
        let mut due = Vec::new();
        {
            let mut unpacked = UNPACKED.borrow();
            unpacked.alarm = None;
            unpacked.due.retain(|scope, &mut (at, _)| {
                let waits = at > now;
                if !waits {
                    due.push(scope.clone());
                }
                waits
            });
            unpacked.arrange();
        }
        // A replica receives the changes from its master.
        if context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_MASTER == 0 {
            return;
        }
        for scope in due {
            visit(ctx, &scope, |(db, prefix), keys, here| {
                let packs = with_index(db, prefix, keys, |cached, keys| {
                    let index = &mut cached.index;
                    // The first command of the module determines the layout of a new index.
                    let is_packed =
                        index.is_registered() && index.places.storage() == Storage::Packed;
                    Ok(is_packed && !index.crawls.are_purged(keys))
                });
                if here.is_err() && is_packed(keys, prefix) {
                    // The slot is being migrated, or the cluster is down.
                    absorb_after(db, prefix, QUIET_MS, false);
                } else if here.is_ok() && matches!(packs, Ok(true)) {
                    jobs::start_packing(db, prefix, move_to(Storage::Packed));
                }
            });
        }
    });
}

/// Returns the hashes of packed indexes that the key of a call may name.
fn meant(key: &[u8]) -> SmallVec<[(&[u8], Document<'_>); 1]> {
    let Some(mut prefixes) = PREFIXES.try_borrow() else {
        return SmallVec::new();
    };
    if let Some(meant) = prefixes.recall(key) {
        return std::iter::once(meant).collect();
    }
    let all = documents(&prefixes, key);
    let all: SmallVec<[_; 1]> = all.into_iter().flatten().collect();
    prefixes.remember(key, &all);
    all
}

/// Runs `act` on the hash of a packed index that a key names. Returns `None` if the server's own
/// command must run.
fn on_document<'a, T>(
    call: &InsteadCall<'a>,
    key: &'a [u8],
    writes: bool,
    mut act: impl FnMut(&mut RedisIndex, &mut RedisKeyspace, Document<'a>) -> Result<Option<T>>,
) -> Option<std::result::Result<T, String>> {
    for (prefix, document) in meant(key) {
        if cluster::in_cluster()
            && let Err(error) = cluster::check(call.ctx, &RmString::new(prefix), writes)
        {
            return Some(Err(error));
        }
        let mut keys = RedisKeyspace::new(call.ctx);
        let done = with_index(call.db(), prefix, &mut keys, |cached, keys| {
            if cached.index.stands_in_for(keys, key, document)? {
                act(&mut cached.index, keys, document).map(Some)
            } else {
                Ok(None)
            }
        });
        match done {
            Ok(Some(done)) => return done.map(Ok),
            Ok(None) => {}
            Err(error) => return Some(Err(error.to_string())),
        }
    }
    None
}

/// Reads a field in the usual case: the index is not being converted, and the crawl is committed and
/// not continued. Returns `None` in all other cases.
fn get_shortly(ctx: Ctx, key: &[u8], field: &[u8]) -> Option<()> {
    let [(prefix, document)] = meant(key)[..] else {
        return None;
    };
    with_place(ctx, prefix, |index, packed| {
        if index.places.is_moving() {
            return None;
        }
        let part = match document {
            Document::Merged => (index.names().merged.as_ref() == key).then_some(Part::Owners)?,
            Document::Records(crawl) => {
                index.records_if_quiet(crawl)?;
                Part::Records(crawl)
            }
        };
        match packed.get(part, field) {
            Some(value) => send_bulk(ctx, &value),
            None if part == Part::Owners => send_nil(ctx),
            // The crawl may have plain records, too.
            None => return None,
        }
        Some(())
    })
}

impl Instead for HGet<'static> {
    const ORIGINAL: &'static CStr = c"HGET";

    fn act(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
        let [key, field] = call.exactly()?;
        if get_shortly(call.ctx, key, field).is_some() {
            return Some(Ok(()));
        }
        let value = on_document(call, key, false, |index, keys, document| {
            index.plain_get(keys, document, field).map(Some)
        })?;
        Some(value.map(|value| match value {
            Some(value) => send_bulk(call.ctx, value.as_ref()),
            None => send_nil(call.ctx),
        }))
    }
}

impl Instead for HLen {
    const ORIGINAL: &'static CStr = c"HLEN";

    fn act(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
        let [key] = call.exactly()?;
        let len = on_document(call, key, false, |index, keys, document| {
            index.plain_len(keys, document).map(Some)
        })?;
        Some(len.map(|len| send_int(call.ctx, len as i64)))
    }
}

impl Instead for HSetNx<'static> {
    const ORIGINAL: &'static CStr = c"HSETNX";

    fn act(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
        let [key, field, value] = call.exactly()?;
        if call.is_replicated() {
            return None;
        }
        let mut unpacked = None;
        let set = on_document(call, key, true, |index, keys, document| match document {
            Document::Merged => index.plain_own(keys, field, value).map(Some),
            Document::Records(_) if index.is_packed_field(keys, document, field)? => {
                Ok(Some(false))
            }
            // New records of a crawl are plain until they are packed.
            Document::Records(_) => {
                unpacked = Some(index.prefix().to_vec());
                Ok(None)
            }
        });
        match set {
            Some(Ok(set)) => {
                if set {
                    call.announce(&RmString::new(key), c"hset");
                    claims::on_change(call.ctx, Change::Key(call.db(), key));
                }
                send_int(call.ctx, i64::from(set));
                Some(Ok(()))
            }
            Some(Err(error)) => Some(Err(error)),
            None => {
                call.run_original::<Self>();
                if let Some(prefix) = unpacked.filter(|_| settings::PLAIN_COMMANDS.get()) {
                    absorb_after(call.db(), &prefix, RUNNING_MS, false);
                }
                Some(Ok(()))
            }
        }
    }
}

impl Instead for HScan<'static> {
    const ORIGINAL: &'static CStr = c"HSCAN";

    fn act(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
        let words: SmallVec<[&[u8]; 8]> = call.words().collect();
        let [key, cursor, ref options @ ..] = words[..] else {
            return None;
        };
        Some(
            scan(call, key, cursor, options)?.map(|(next, found, without_values)| {
                let per_entry = if without_values { 1 } else { 2 };
                send_array(call.ctx, 2);
                send_bulk(call.ctx, next.to_string().as_bytes());
                send_array(call.ctx, found.len() * per_entry);
                for (field, value) in found.iter() {
                    send_bulk(call.ctx, field);
                    if !without_values {
                        send_bulk(call.ctx, value);
                    }
                }
            }),
        )
    }
}

/// Scans a hash. Returns the next cursor, the entries, and true if the reply must contain only
/// their fields.
fn scan(
    call: &InsteadCall<'_>,
    key: &[u8],
    cursor: &[u8],
    words: &[&[u8]],
) -> Option<std::result::Result<(u64, Batch, bool), String>> {
    let (first, options) = (ScanPosition::parse(cursor), ScanOptions::parse(words));
    // For all other cursors and options, find out whether the server accepts them by running its own
    // command on an existing hash.
    let unclear = options.filter(|options| !options.without_values).is_none();
    if unclear || first.is_none() {
        let meta = on_document(call, key, false, |index, _, _| {
            Ok(Some(index.names().meta.clone()))
        })?;
        let all = [&[cursor], words].concat();
        match meta.map(|meta| call.original_error::<HScan<'_>>(&meta, &all)) {
            Ok(None) if options.is_some() => {}
            Ok(None) => return Some(Err("ERR syntax error".to_string())),
            Ok(Some(error)) | Err(error) => return Some(Err(error)),
        }
    }
    let options = options?;
    // No reply of this module contains a cursor that only the server accepts, so a scan at such a
    // cursor has no further entries.
    let mut position = first;
    let (mut found, mut read) = (Batch::default(), 0);
    while let Some(at) = position.filter(|_| read < options.count) {
        let step = on_document(call, key, false, |index, keys, document| {
            let plain = index.plain_part(keys, document);
            let mut entries = Batch::default();
            let next = match at {
                ScanPosition::Packed(at) => {
                    match index.scan_packed(keys, document, at, &mut entries)? {
                        Some(next) => Step::At(ScanPosition::Packed(next)),
                        None if plain.is_some_and(|(_, unpacks)| unpacks) => {
                            Step::At(ScanPosition::PlainAgain(0))
                        }
                        None => Step::End,
                    }
                }
                ScanPosition::Plain(_) | ScanPosition::PlainAgain(_) => match plain {
                    Some((key, _)) => Step::Plain(key),
                    None if matches!(at, ScanPosition::Plain(_)) => {
                        Step::At(ScanPosition::Packed(0))
                    }
                    None => Step::End,
                },
            };
            Ok(Some((next, entries)))
        })?;
        let (step, entries) = match step {
            Ok(step) => step,
            Err(error) => return Some(Err(error)),
        };
        read += entries.len() as u64;
        for (field, value) in entries.iter().filter(|(field, _)| options.matches(field)) {
            found.push(field, value);
        }
        position = match step {
            Step::At(position) => Some(position),
            Step::End => None,
            Step::Plain(key) => {
                match scan_plain(call, &key, at, &options, options.count - read, &mut found) {
                    Ok((next, entries)) => {
                        read += entries;
                        next
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
        };
    }
    let next = position.map_or(0, ScanPosition::cursor);
    Some(Ok((next, found, options.without_values)))
}

/// The next step of a scan.
enum Step {
    /// Continue at a position.
    At(ScanPosition),
    /// Scan this plain hash.
    Plain(RmString),
    /// The scan is complete.
    End,
}

/// Scans the plain part of a hash. Returns the next position, and the number of entries read.
fn scan_plain(
    call: &InsteadCall<'_>,
    key: &RmString,
    at: ScanPosition,
    options: &ScanOptions<'_>,
    count: u64,
    found: &mut Batch,
) -> std::result::Result<(Option<ScanPosition>, u64), String> {
    let cursor = match at {
        ScanPosition::Plain(cursor) | ScanPosition::PlainAgain(cursor) => cursor,
        ScanPosition::Packed(_) => return Ok((Some(at), 0)),
    };
    let (cursor, count) = (cursor.to_string(), count.to_string());
    let words = [cursor.as_bytes(), b"COUNT", count.as_bytes()];
    let (mut field, mut read) = (None::<Vec<u8>>, 0);
    let next = call.scan_original::<HScan<'_>>(key, &words, |text| match field.take() {
        None => field = Some(text.to_vec()),
        Some(name) => {
            read += 1;
            if options.matches(&name) {
                found.push(&name, text);
            }
        }
    })?;
    let next = match (at, next) {
        (ScanPosition::PlainAgain(_), 0) => None,
        (ScanPosition::PlainAgain(_), next) => Some(ScanPosition::PlainAgain(next)),
        (_, 0) => Some(ScanPosition::Packed(0)),
        (_, next) => Some(ScanPosition::Plain(next)),
    };
    Ok((next, read))
}

impl Instead for Rename<'static> {
    const ORIGINAL: &'static CStr = c"RENAME";

    fn act(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
        refuse_purge(call)
    }
}

impl Instead for RenameNx<'static> {
    const ORIGINAL: &'static CStr = c"RENAMENX";

    fn act(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
        refuse_purge(call)
    }
}

/// Refuses a call that begins a purge of a packed index. Returns `None` for any other call.
fn refuse_purge(call: &InsteadCall<'_>) -> Option<std::result::Result<(), String>> {
    let [from, to] = call.exactly()?;
    if call.is_replicated() {
        return None;
    }
    // The server has checked the permissions of the first key only.
    let user = User::current(call.ctx);
    if let Err(error) = user.check(&RmString::new(to), Access::Write) {
        return Some(Err(error));
    }
    let prefix = as_purge(from, to)?;
    let mut keys = RedisKeyspace::new(call.ctx);
    let is_packed = with_index(call.db(), prefix, &mut keys, |cached, keys| {
        let key = cached.index.places.packed_key().cloned();
        Ok(key.is_some_and(|key| keys.exists(&key)))
    });
    match is_packed {
        Ok(true) => Some(Err(PURGE_REFUSED.to_string())),
        Ok(false) => None,
        Err(error) => Some(Err(error.to_string())),
    }
}

const PURGE_REFUSED: &str = "ERR a purge by plain commands would lose the records of a packed index: \
    remove crawls with 'crawlspace indexer --remove' or DEDUPE.REMOVE, or run DEDUPE.UNPACK first";
