//! The URIs of a group as a native value of a key.

use std::ffi::CStr;
use std::os::raw::c_int;

use crate::chg::keys::ONCE;
use crate::chg::packed::both::{Both, Home};
use crate::chg::packed::either::Holder;
use crate::chg::packed::element::{Carrier, Element, Plain, PlainNames};
use crate::chg::packed::{ENVELOPE as PACKED_ENVELOPE, Moving, Name, Packed, mixed};
use crate::chg::store::{KEPT_URIS, Store};
use crate::chg::uris::{CHUNK_BYTES, Changed, ENVELOPE, Kept, Op, Uris};
use crate::marker::{Marker, mark};
use crate::storage::Storage;
use crawlspace_host::defrag::Mover;
use crawlspace_host::keyspace::{KeyType, Keyspace, Result};
use crawlspace_host::server::api::{Ctx, RmString, selected_db};
use crawlspace_host::server::command::{Internal, InternalCall, register_internal};
use crawlspace_host::server::keyspace::{By, LazyKeyspace, Place, RedisKeyspace, Replicated};
use crawlspace_host::server::native::{self, Native, Registered};
use crawlspace_host::server::notify::Change;
use crawlspace_host::server::replication::is_heard;
use crawlspace_host::slices::Time;

use super::frontiers::on_change;

/// The end of the key name of a packed frontier, after the prefix.
const KEY: &[u8] = b"chg_packed";

/// Name of the internal command that changes the URIs of a group. Replicas and append-only files
/// receive this command.
pub const CHANGE: &CStr = c"crawlspace.uris";

static URIS: Registered = Registered::new();

impl Native for Uris {
    const NAME: &'static CStr = c"crawluris";
    const VERSION: c_int = ENVELOPE.version as c_int;
    const WHAT: &'static str = match KEPT_URIS {
        KeyType::Native(what) => what,
        _ => panic!("kept URIs are a native value"),
    };
    const REBUILT_BY: &'static CStr = CHANGE;
    const REBUILT_WITH: &'static CStr = c"LOAD";

    fn registered() -> &'static Registered {
        &URIS
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        self.encode(CHUNK_BYTES, chunk);
    }

    fn load(&mut self, chunk: &[u8]) -> std::result::Result<(), String> {
        Uris::load(self, chunk).map(drop)
    }

    fn is_empty(&self) -> bool {
        Uris::is_empty(self)
    }

    fn memory(&self) -> usize {
        Uris::memory(self)
    }

    fn defrag(&mut self, mut cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        loop {
            cursor = Uris::defrag(self, cursor, mover);
            if cursor == 0 || !time() {
                return cursor;
            }
        }
    }

    fn free_effort(&self) -> usize {
        Uris::free_effort(self)
    }
}

impl Store for RedisKeyspace {
    fn uris<T>(&mut self, key: &RmString, read: impl FnOnce(&Kept<'_>) -> T) -> Result<Option<T>> {
        let uris = self.native::<Uris>(key)?;
        Ok(uris.map(|uris| read(&Kept::verbatim(uris))))
    }

    fn change_uris_then<T>(
        &mut self,
        key: &RmString,
        op: &Op<'_>,
        look: impl FnOnce(&Kept<'_>) -> T,
    ) -> Result<(Changed, Option<T>)> {
        let arguments = || op.to_args();
        let changed = self.change_native(key, op.makes_the_key(), |uris: &mut Uris| {
            let changed = uris.apply(op);
            let replicated = (changed != Changed::Nothing).then_some(Replicated {
                by: By::Arguments(&arguments),
                event: CHANGE,
            });
            ((changed, Some(look(&Kept::verbatim(uris)))), replicated)
        })?;
        Ok(changed.unwrap_or((Changed::Nothing, None)))
    }

    fn silently<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        RedisKeyspace::silently(self, act)
    }

    fn take_uris(&mut self, key: &RmString) -> Result<Option<Uris>> {
        self.change_native(key, false, |uris: &mut Uris| {
            (std::mem::take(uris), Some(MOVED))
        })
    }

    fn put_uris(&mut self, key: &RmString, uris: Uris) -> Result<()> {
        let stored = self.change_native(key, true, |stored: &mut Uris| {
            *stored = uris;
            ((), Some(MOVED))
        })?;
        debug_assert!(stored.is_some(), "it is made");
        Ok(())
    }
}

/// Describes a change that moves URIs to the other storage. The caller replicates the move.
const MOVED: Replicated<'static> = Replicated {
    by: By::Nothing,
    event: CHANGE,
};

/// The keys of a frontier on this server, in either storage.
pub type FrontierKeys = Both<RedisKeyspace, Held>;

/// The storage of a frontier, and the storage to which it is being converted.
pub type State = (Storage, Option<Storage>);

/// Name of the internal command that changes a packed frontier. Replicas and append-only files
/// receive this command.
const CHANGE_PACKED: &CStr = c"crawlspace.frontier";

static PACKED: Registered = Registered::new();

impl Native for Packed {
    const NAME: &'static CStr = c"crawlfron";
    const VERSION: c_int = PACKED_ENVELOPE.version as c_int;
    const WHAT: &'static str = "packed frontier";
    const REBUILT_BY: &'static CStr = CHANGE_PACKED;
    const REBUILT_WITH: &'static CStr = c"CHUNK";

    fn registered() -> &'static Registered {
        &PACKED
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        Packed::save(self, chunk);
    }

    fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        Packed::elements(self, element);
    }

    fn load(&mut self, chunk: &[u8]) -> std::result::Result<(), String> {
        Packed::load(self, chunk)
    }

    fn loaded(&self) -> std::result::Result<(), String> {
        Packed::loaded(self)
    }

    fn is_empty(&self) -> bool {
        // A frontier without any URIs stays packed.
        false
    }

    fn memory(&self) -> usize {
        Packed::memory(self)
    }

    fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        Packed::defrag(self, cursor, mover, time)
    }

    fn free_effort(&self) -> usize {
        Packed::free_effort(self)
    }
}

/// The packed frontier of a prefix. The first change creates the key.
pub struct Held {
    keys: LazyKeyspace,
    key: RmString,
    /// The value in the key, after it was found.
    value: *mut Packed,
    /// The place of the value, if an earlier command has found it.
    place: Option<Place<Packed>>,
    /// A new frontier that is not stored in the key yet.
    new: Option<Box<Packed>>,
}

/// Returns the name of the key of the packed frontier with this prefix.
pub fn packed_key(prefix: &[u8]) -> RmString {
    RmString::new(&[prefix, KEY].concat())
}

impl Held {
    /// Opens the frontier in a key. No other code may use this key space.
    pub fn new(keys: LazyKeyspace, key: RmString) -> Held {
        Held {
            keys,
            key,
            value: std::ptr::null_mut(),
            place: None,
            new: None,
        }
    }

    /// Opens the frontier in a key, whose value may still be at a place that an earlier command has found.
    pub fn at(keys: LazyKeyspace, key: RmString, place: Option<Place<Packed>>) -> Held {
        let mut held = Held::new(keys, key);
        held.place = place;
        held
    }

    /// Returns the place of the value, for the next command.
    pub fn take_place(&mut self) -> Option<Place<Packed>> {
        self.place.take()
    }

    /// Returns a pointer to the value of the key; null if the key does not exist.
    fn find(&mut self) -> Result<*mut Packed> {
        if let Some(value) = self.place.as_mut().and_then(Place::pointer) {
            return Ok(value);
        }
        self.place = self.keys.place(&self.key)?;
        self.keys.native_pointer(&self.key)
    }

    /// Stores the frontier, even if it is empty.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type; any server error.
    pub fn store(&mut self) -> Result<()> {
        let log = self.with(Packed::take_log)?;
        self.put(log)
    }

    /// Replicates the changes since the last call.
    ///
    /// # Errors
    ///
    /// `WRONGTYPE` if the key holds another type; any server error.
    pub fn flush(&mut self) -> Result<()> {
        if self.value.is_null() && self.new.is_none() {
            return Ok(());
        }
        match self.with(Packed::flush)? {
            Some(log) => self.put(log),
            None => Ok(()),
        }
    }

    fn put(&mut self, log: Vec<u8>) -> Result<()> {
        let replicated = Replicated {
            by: By::Log(&log),
            event: c"chg.packed",
        };
        if !self.value.is_null() {
            self.keys.note_change::<Packed>(&self.key, &replicated);
            return Ok(());
        }
        let mut new = self.new.take();
        self.keys
            .change_native(&self.key, true, |packed: &mut Packed| {
                if let Some(new) = new.take() {
                    *packed = *new;
                }
                ((), Some(replicated))
            })?;
        let key = self.key.clone();
        let prefix = &key.as_ref()[..key.as_ref().len() - KEY.len()];
        for row in ONCE.iter().filter(|row| row.documented) {
            let key = RmString::new(&[prefix, row.name.as_bytes()].concat());
            mark(&mut self.keys, &key)?;
        }
        Ok(())
    }
}

impl Holder for Held {
    fn with<T>(&mut self, act: impl FnOnce(&mut Packed) -> T) -> Result<T> {
        if self.value.is_null() {
            self.value = self.find()?;
            // SAFETY: as below.
            if let Some(packed) = unsafe { self.value.as_mut() } {
                packed.set_logged(is_heard());
            }
        }
        // SAFETY: main thread, and this is the only reference, which ends with this call. The pointer
        // was valid when this command or slice of a job found the value, and nothing deletes or moves
        // the value while a command or a slice of a job works on its frontier.
        match unsafe { self.value.as_mut() } {
            Some(packed) => Ok(act(packed)),
            None => Ok(act(self.new.get_or_insert_default())),
        }
    }

    fn check(&mut self, key: &Name) -> Result<()> {
        if !key.has_marker() {
            return Ok(());
        }
        let name = RmString::new(key.as_ref());
        match self.keys.holds_native::<Marker>(&name) {
            Some(true) => Ok(()),
            None if self.keys.native::<Packed>(&self.key)?.is_none() => Ok(()),
            None => {
                self.value = std::ptr::null_mut();
                mark(&mut self.keys, &name)
            }
            Some(false) => Err(mixed(key.as_ref())),
        }
    }

    fn is_misplaced(&mut self, key: &Name) -> bool {
        let name = RmString::new(key.as_ref());
        key.has_marker() && self.keys.holds_native::<Marker>(&name) == Some(false)
    }
}

impl Home<RedisKeyspace> for Held {
    fn open(plain: &RedisKeyspace, prefix: &[u8]) -> Held {
        Held::new(plain.lazily_another(), packed_key(prefix))
    }

    fn store(&mut self) -> Result<()> {
        self.flush()
    }

    fn remove(&mut self) -> Result<()> {
        self.flush()?;
        self.value = std::ptr::null_mut();
        self.new = None;
        let key = self.key.clone();
        self.keys.delete(&key)?;
        let prefix = &key.as_ref()[..key.as_ref().len() - KEY.len()];
        for row in ONCE.iter().filter(|row| row.documented) {
            let name = RmString::new(&[prefix, row.name.as_bytes()].concat());
            if self.keys.holds_native::<Marker>(&name) == Some(true) {
                self.keys.delete(&name)?;
            }
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            // The key was already opened as a packed frontier.
            debug_assert!(false, "{error}");
        }
    }
}

/// Returns the storage of the frontier with a prefix, or `None` if there is no frontier.
pub fn storage_of(keys: &mut RedisKeyspace, prefix: &[u8]) -> Option<State> {
    let name = |name: &[u8]| RmString::new(&[prefix, name].concat());
    let key = name(KEY);
    let held = keys.holds_native::<Packed>(&key);
    if held == Some(true) {
        let packed = keys.native::<Packed>(&key).ok().flatten();
        return Some(match packed.map_or(Moving::No, |packed| packed.moving()) {
            Moving::No => (Storage::Packed, None),
            Moving::In => (Storage::Plain, Some(Storage::Packed)),
            Moving::Out => (Storage::Packed, Some(Storage::Plain)),
        });
    }
    // If the key holds another type, commands on a packed frontier fail with `WRONGTYPE`.
    let mut found = held.map(|_| (Storage::Packed, None));
    for row in ONCE.iter().filter(|row| row.name.as_bytes() != KEY) {
        let key = name(row.name.as_bytes());
        match keys.holds_native::<Marker>(&key) {
            Some(true) => return Some((Storage::Packed, None)),
            Some(false) => found = Some((Storage::Plain, None)),
            None => {}
        }
    }
    found
}

/// The plain keys of a frontier whose elements a log moves.
struct PlainKeys<'a> {
    keys: RedisKeyspace,
    prefix: &'a [u8],
    /// The names of the keys, computed when they are first needed.
    names: Option<PlainNames<RmString>>,
}

impl Carrier for PlainKeys<'_> {
    fn bring(&mut self, packed: &mut Packed, element: &Element<'_>) {
        let (ks, prefix) = (&mut self.keys, self.prefix);
        let names = self
            .names
            .get_or_insert_with(|| PlainNames::new(ks, prefix));
        ks.silently(|ks| Plain { ks, names }.bring(packed, element));
    }
}

/// `crawlspace.frontier key log` and `crawlspace.frontier key CHUNK chunk`. Only the server sends this
/// command; a manual call changes the packed frontier without any checks of the `CHG.*` commands.
struct ChangePacked;

impl Internal for ChangePacked {
    const NAME: &'static CStr = CHANGE_PACKED;
    const FLAGS: &'static CStr = c"write deny-oom admin";

    fn run(call: &mut InternalCall<'_>) -> std::result::Result<(), String> {
        let (is_log, log): (bool, &[u8]) = match *call.arguments {
            [log] => (true, log),
            [b"CHUNK", chunk] => (false, chunk),
            _ => {
                return Err(
                    "ERR syntax error: a key, then a log, or CHUNK and a chunk are expected".into(),
                );
            }
        };
        let key = call.key.clone();
        let existed = call.keys.exists(&key);
        let prefix = key.as_ref().strip_suffix(KEY);
        let mut carrier = prefix.map(|prefix| PlainKeys {
            keys: call.keys.another(),
            prefix,
            names: None,
        });
        let changed = call.keys.change_native(&key, true, |packed: &mut Packed| {
            let replicated = Replicated {
                by: By::TheCommand,
                event: c"chg.packed",
            };
            let changed = if is_log {
                packed.apply(
                    log,
                    carrier.as_mut().map(|carrier| carrier as &mut dyn Carrier),
                )
            } else {
                packed.load(log)
            };
            // If a log is malformed, the entries before the error are applied, but do not create
            // the key.
            let is_stored = existed || changed.is_ok();
            (changed, is_stored.then_some(replicated))
        });
        // Replicas also cache frontiers, so invalidate the cache.
        let db = selected_db(call.ctx);
        call.keys.release();
        on_change(call.ctx, Change::Key(db, key.as_ref()));
        match changed {
            Ok(changed) => changed.unwrap_or(Ok(())).map_err(|e| format!("ERR {e}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Registers the type of packed frontiers and their internal command with the server.
///
/// # Safety
/// Must be called once, with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses the registration.
pub unsafe fn register(ctx: Ctx) -> std::result::Result<(), String> {
    // SAFETY: by contract.
    unsafe {
        native::register::<Packed>(ctx)?;
        register_internal::<ChangePacked>(ctx)
    }
}
