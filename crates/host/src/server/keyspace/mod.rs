//! [`Keyspace`] on the keys of a Redis database.
//!
//! Hash fields and `queues` go through the raw key API; sets through commands, because they have
//! no raw API. Every write is replicated as the plain command that has its effect: consecutive
//! fields of one hash as one `HSET` or `HDEL`. So a replica or an AOF needs no module.

mod native;
mod queues;

use std::collections::VecDeque;
use std::os::raw::{c_int, c_void};
use std::ptr;

use smallvec::SmallVec;

use crate::keyspace::{Batch, KeyError, KeyType, Keyspace, Result};
use crate::text::{parse_unsigned, push_number};

use super::acl::{Access, User};
use super::api::{Ctx, RawCtx, RmString, raw, rm, string_bytes};
use super::call_reply::CallReply;
use super::cluster;
use super::notify::own_write;

pub use native::{By, Gathering, Replicated};

/// How many fields are gathered at most before they are replicated as one command.
const REPLICATED_FIELDS: usize = 512;

/// How many fields of a scan are kept at most.
const SCANNED_FIELDS: usize = 64;

/// How many fields are read at once at most.
const MANY_FIELDS: usize = 6;

/// How many keys stay open for reading at most.
const OPEN_KEYS: usize = 16;

/// `REDISMODULE_HASH_DELETE`: the value that stands for deletion.
const HASH_DELETE: *mut raw::RedisModuleString = ptr::without_provenance_mut(1);

/// An open key; closed when dropped.
struct OpenKey {
    raw: *mut raw::RedisModuleKey,
    writes: bool,
}

impl OpenKey {
    /// Opens a key, to be written to as well if asked for.
    fn open(ctx: Ctx, key: &RmString, writes: bool) -> OpenKey {
        let mut mode = raw::REDISMODULE_READ;
        if writes {
            mode |= raw::REDISMODULE_WRITE;
        }
        // SAFETY: main thread, live context and name.
        let raw = unsafe { rm!(RedisModule_OpenKey(ctx.raw(), key.raw(), mode as c_int)) };
        OpenKey { raw, writes }
    }

    fn raw(&self) -> *mut raw::RedisModuleKey {
        self.raw
    }

    /// Whether there was no such key. Never so when opened for writing.
    fn is_null(&self) -> bool {
        self.raw.is_null()
    }

    fn writes(&self) -> bool {
        self.writes
    }
}

impl Drop for OpenKey {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: main thread; opened by us, closed once.
            unsafe { rm!(RedisModule_CloseKey(self.raw)) };
        }
    }
}

/// Hash fields written and not yet replicated.
struct Pending {
    key: RmString,
    handle: OpenKey,
    deletes: bool,
    /// For `HSET` field and value in turn, for `HDEL` fields.
    arguments: Vec<RmString>,
}

/// A position in a scan.
pub struct ScanCursor(*mut raw::RedisModuleScanCursor);

impl Drop for ScanCursor {
    fn drop(&mut self) {
        // SAFETY: main thread; made by us, destroyed once.
        unsafe { rm!(RedisModule_ScanCursorDestroy(self.0)) };
    }
}

/// The keys of the database that `ctx` has selected, for the time of one command or slice.
pub struct RedisKeyspace {
    ctx: Ctx,
    open: SmallVec<[(RmString, OpenKey); 8]>,
    pending: Option<Pending>,
    /// Changes of a native value that were not replicated yet; never beside `pending`.
    gathered: Option<native::Gathered>,
    last_value: Option<RmString>,
    last_field: Option<RmString>,
    /// Fields that are likely to be asked for next, in this order: those that the last scan gave, or
    /// that somebody offered.
    expected: VecDeque<RmString>,
    reader: Option<Reader>,
}

/// Whether a key is the module's own book-keeping, which any user of a command may have read, by its name
/// behind the prefix.
pub(crate) type Exempt = fn(&[u8]) -> bool;

/// In whose name keys are read.
struct Reader {
    user: User,
    /// The length of the prefix that all keys have.
    prefix: usize,
    exempt: Exempt,
}

impl RedisKeyspace {
    /// For the time of one callback with this context.
    pub fn new(ctx: Ctx) -> RedisKeyspace {
        RedisKeyspace {
            ctx,
            open: SmallVec::new(),
            pending: None,
            gathered: None,
            last_value: None,
            last_field: None,
            expected: VecDeque::new(),
            reader: None,
        }
    }

    /// Refuses every read of a key that this user may not read, but for exempt ones with this prefix. For
    /// work that only reads: a refusal in the middle of writing would leave half of it.
    pub fn read_as(&mut self, user: User, prefix: &[u8], exempt: Exempt) {
        self.reader = Some(Reader {
            user,
            prefix: prefix.len(),
            exempt,
        });
    }

    /// A key opened for reading; null when there is none. Stays open until something is written
    /// that could move it.
    fn read(&mut self, key: &RmString, needs: KeyType) -> Result<*mut raw::RedisModuleKey> {
        let found = self.open.iter().find(|(name, _)| name.raw() == key.raw());
        if let Some((_, handle)) = found {
            return Ok(handle.raw());
        }
        self.permit_reading(key)?;
        let handle = OpenKey::open(self.ctx, key, false);
        if !handle.is_null() {
            check_type(&handle, key, needs)?;
        }
        let raw = handle.raw();
        // Whoever goes through many keys comes back to few of them; and the list is searched.
        if self.open.len() >= OPEN_KEYS {
            self.open.clear();
        }
        self.open.push((key.clone(), handle));
        Ok(raw)
    }

    fn permit_reading(&self, key: &RmString) -> Result<()> {
        let Some(reader) = &self.reader else {
            return Ok(());
        };
        let name = key.as_ref().get(reader.prefix..);
        if name.is_some_and(reader.exempt) {
            return Ok(());
        }
        let checked = reader.user.check(key, Access::Read);
        checked.map_err(KeyError::Refused)
    }

    /// Closes what was read of one key, before it changes in a way that open handles do not see.
    fn close_reads(&mut self, key: &RmString) {
        self.open
            .retain(|(name, _)| name.raw() != key.raw() && name.as_ref() != key.as_ref());
    }

    /// Opens a hash for writing and readies the replication of what is written.
    fn write(&mut self, key: &RmString, deletes: bool) -> Result<&mut Pending> {
        let fits = self.pending.as_ref().is_some_and(|pending| {
            pending.deletes == deletes
                && pending.arguments.len() < 2 * REPLICATED_FIELDS
                && (pending.key.raw() == key.raw() || pending.key.as_ref() == key.as_ref())
        });
        if !fits {
            self.flush();
            let handle = OpenKey::open(self.ctx, key, true);
            check_type(&handle, key, KeyType::Hash)?;
            self.pending = Some(Pending {
                key: key.clone(),
                handle,
                deletes,
                arguments: Vec::new(),
            });
        }
        Ok(self.pending.as_mut().expect("just made"))
    }

    /// Replicates what was written so far, and tells the key space's listeners.
    pub fn flush(&mut self) {
        self.replicate_gathered();
        let Some(pending) = self.pending.take() else {
            return;
        };
        if pending.arguments.is_empty() {
            return;
        }
        let mut arguments: Vec<*mut raw::RedisModuleString> =
            pending.arguments.iter().map(RmString::raw).collect();
        let (command, event) = if pending.deletes {
            (c"HDEL", c"hdel")
        } else {
            (c"HSET", c"hset")
        };
        // SAFETY: main thread, live context; key and argument strings live until after the call,
        // and the server takes its own references.
        let emptied = unsafe {
            rm!(RedisModule_Replicate(
                self.ctx.raw(),
                command.as_ptr(),
                c"sv".as_ptr(),
                pending.key.raw(),
                arguments.as_mut_ptr(),
                arguments.len()
            ));
            rm!(RedisModule_KeyType(pending.handle.raw()))
                == raw::REDISMODULE_KEYTYPE_EMPTY as c_int
        };
        drop(pending.handle);
        let _own = own_write();
        // SAFETY: main thread, live context and name.
        unsafe {
            rm!(RedisModule_NotifyKeyspaceEvent(
                self.ctx.raw(),
                raw::REDISMODULE_NOTIFY_HASH,
                event.as_ptr(),
                pending.key.raw()
            ));
            if emptied {
                rm!(RedisModule_NotifyKeyspaceEvent(
                    self.ctx.raw(),
                    raw::REDISMODULE_NOTIFY_GENERIC,
                    c"del".as_ptr(),
                    pending.key.raw()
                ));
            }
        }
    }

    /// Replicates what was written and closes every key: somebody else may change them from here.
    pub fn release(&mut self) {
        self.flush();
        self.open.clear();
    }

    /// The value string for `bytes`; consecutive equal values share one.
    fn value_string(&mut self, bytes: &[u8]) -> RmString {
        cached(&mut self.last_value, bytes)
    }

    /// Offers a string that a field is likely to be asked for by: an argument is a string of the
    /// server already, and need not be made again.
    pub fn offer_field(&mut self, field: RmString) {
        self.last_field = Some(field);
    }

    /// Offers many fields, which are asked for one after the other.
    pub fn offer_fields(&mut self, fields: impl Iterator<Item = RmString>) {
        self.expected.clear();
        self.expected.extend(fields);
    }

    /// The field string for `bytes`; the same hash is mostly looked for in several keys in turn.
    fn field_string(&mut self, bytes: &[u8]) -> RmString {
        match &self.last_field {
            Some(last) if last.as_ref() == bytes => return last.clone(),
            _ => {}
        }
        if self.expected.front().is_some_and(|f| f.as_ref() == bytes) {
            self.last_field = self.expected.pop_front();
        }
        cached(&mut self.last_field, bytes)
    }

    /// Runs a command on one key, replicated as it is.
    fn call(
        &mut self,
        command: &std::ffi::CStr,
        key: &RmString,
        rest: &[&[u8]],
    ) -> Result<CallReply> {
        self.flush();
        self.open.clear();
        self.call_unflushed(command, c"!Esv", key, rest)
    }

    /// Runs a command that only reads.
    fn ask(
        &mut self,
        command: &std::ffi::CStr,
        key: &RmString,
        rest: &[&[u8]],
    ) -> Result<CallReply> {
        self.call_unflushed(command, c"Esv", key, rest)
    }

    fn call_unflushed(
        &mut self,
        command: &std::ffi::CStr,
        format: &std::ffi::CStr,
        key: &RmString,
        rest: &[&[u8]],
    ) -> Result<CallReply> {
        let strings: SmallVec<[RmString; 4]> = rest.iter().map(|b| RmString::new(b)).collect();
        let mut arguments: SmallVec<[*mut raw::RedisModuleString; 4]> =
            strings.iter().map(RmString::raw).collect();
        let _own = own_write();
        // SAFETY: main thread, live context; the format matches the arguments, all alive.
        let reply = unsafe {
            rm!(RedisModule_Call(
                self.ctx.raw(),
                command.as_ptr(),
                format.as_ptr(),
                key.raw(),
                arguments.as_mut_ptr(),
                arguments.len()
            ))
        };
        if reply.is_null() {
            return Err(KeyError::Refused(format!(
                "ERR the server refused {} on key '{}'",
                command.to_string_lossy(),
                crate::text::Shown(key.as_ref())
            )));
        }
        let reply = CallReply::new(reply);
        if reply.is_error() {
            let text = String::from_utf8_lossy(reply.bytes()).into_owned();
            let text = cluster::not_here(key, &text).unwrap_or(text);
            return Err(KeyError::Refused(text));
        }
        Ok(reply)
    }

    /// Sets a field as `flags` say, and readies it for replication if it was set; gives what the
    /// server counted.
    fn set_field(
        &mut self,
        key: &RmString,
        field: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<c_int> {
        let field = self.field_string(field);
        self.put_field(key, field, value, flags)
    }

    /// Sets as many fields as one call takes.
    fn put_fields(&mut self, key: &RmString, fields: &[(&RmString, &[u8])]) -> Result<()> {
        let values: SmallVec<[RmString; MANY_FIELDS]> = fields
            .iter()
            .map(|(_, value)| RmString::new(value))
            .collect();
        let mut named = [ptr::null_mut(); MANY_FIELDS];
        let mut set = [ptr::null_mut(); MANY_FIELDS];
        for (i, ((field, _), value)) in fields.iter().zip(&values).enumerate() {
            named[i] = field.raw();
            set[i] = value.raw();
        }
        let pending = self.write(key, false)?;
        // SAFETY: main thread, hash open for writing; fields and values in pairs, ended by null, and
        // the first null field ends them too.
        unsafe {
            rm!(RedisModule_HashSet(
                pending.handle.raw(),
                raw::REDISMODULE_HASH_NONE as c_int,
                named[0],
                set[0],
                named[1],
                set[1],
                named[2],
                set[2],
                named[3],
                set[3],
                named[4],
                set[4],
                named[5],
                set[5],
                ptr::null_mut::<c_void>()
            ));
        }
        for ((field, _), value) in fields.iter().zip(values) {
            pending.arguments.push((*field).clone());
            pending.arguments.push(value);
        }
        // A handle that saw no key does not see the new one.
        self.open
            .retain(|(name, open)| !open.is_null() || name.as_ref() != key.as_ref());
        Ok(())
    }

    fn put_field(
        &mut self,
        key: &RmString,
        field: RmString,
        value: &[u8],
        flags: u32,
    ) -> Result<c_int> {
        let value = self.value_string(value);
        let pending = self.write(key, false)?;
        let handle = pending.handle.raw();
        // SAFETY: main thread, hash open for writing; field and value in pairs, ended by null.
        let counted = unsafe {
            rm!(RedisModule_HashSet(
                handle,
                flags as c_int,
                field.raw(),
                value.raw(),
                ptr::null_mut::<c_void>()
            ))
        };
        if flags & raw::REDISMODULE_HASH_NX == 0 || counted > 0 {
            pending.arguments.push(field);
            pending.arguments.push(value);
            // A handle that saw no key does not see the new one.
            self.open
                .retain(|(name, open)| !open.is_null() || name.as_ref() != key.as_ref());
        }
        Ok(counted)
    }

    /// The length of a key of the given kind; 0 when there is none.
    fn length(&mut self, key: &RmString, kind: KeyType) -> Result<u64> {
        let handle = match kind {
            KeyType::List | KeyType::SortedSet => self.handle(key, kind, false)?,
            _ => self.read(key, kind)?,
        };
        if handle.is_null() {
            return Ok(0);
        }
        // SAFETY: main thread, open key.
        Ok(unsafe { rm!(RedisModule_ValueLength(handle)) } as u64)
    }

    fn scan(
        &mut self,
        key: &RmString,
        kind: KeyType,
        cursor: &mut ScanCursor,
        out: &mut Batch,
    ) -> Result<bool> {
        struct Found<'a>(&'a mut Batch, &'a mut VecDeque<RmString>);
        extern "C" fn each(
            _key: *mut raw::RedisModuleKey,
            field: *mut raw::RedisModuleString,
            value: *mut raw::RedisModuleString,
            found: *mut c_void,
        ) {
            // SAFETY: `found` is the value of the call below, used by nobody else meanwhile; the
            // strings live during the callback, and the field for as long as we hold it.
            unsafe {
                let Found(batch, expected) = &mut *found.cast::<Found<'_>>();
                let value = if value.is_null() {
                    &[]
                } else {
                    string_bytes(value)
                };
                batch.push(string_bytes(field), value);
                if expected.len() < SCANNED_FIELDS {
                    expected.push_back(RmString::shared(field));
                }
            }
        }
        if out.is_empty() {
            self.expected.clear();
        }
        let handle = match kind {
            KeyType::SortedSet => self.handle(key, kind, false)?,
            _ => self.read(key, kind)?,
        };
        if handle.is_null() {
            return Ok(false);
        }
        let mut found = Found(out, &mut self.expected);
        // SAFETY: main thread, open key and cursor; the callback gets the value it expects.
        let more = unsafe {
            rm!(RedisModule_ScanKey(
                handle,
                cursor.0,
                Some(each),
                ptr::from_mut(&mut found).cast()
            ))
        };
        Ok(more == 1)
    }
}

impl Drop for RedisKeyspace {
    fn drop(&mut self) {
        self.flush();
    }
}

fn cached(last: &mut Option<RmString>, bytes: &[u8]) -> RmString {
    match last {
        Some(last) if last.as_ref() == bytes => last.clone(),
        _ => last.insert(RmString::new(bytes)).clone(),
    }
}

/// The number in a field of an open hash; 0 when there is none.
fn number_in(handle: *mut raw::RedisModuleKey, field: &RmString) -> u64 {
    let mut value: *mut raw::RedisModuleString = ptr::null_mut();
    // SAFETY: main thread, open hash or nothing yet; field and out-parameter in pairs, ended by null.
    let value = unsafe {
        rm!(RedisModule_HashGet(
            handle,
            raw::REDISMODULE_HASH_NONE as c_int,
            field.raw(),
            &mut value as *mut *mut raw::RedisModuleString,
            ptr::null_mut::<c_void>()
        ));
        (!value.is_null()).then(|| RmString::from_owned(value))
    };
    let number = value.and_then(|value| parse_unsigned(value.as_ref()));
    number.unwrap_or(0)
}

fn check_type(handle: &OpenKey, key: &RmString, needs: KeyType) -> Result<()> {
    // SAFETY: main thread, open key.
    let is = unsafe { rm!(RedisModule_KeyType(handle.raw())) } as isize;
    let wanted = match needs {
        KeyType::Hash => raw::REDISMODULE_KEYTYPE_HASH,
        KeyType::Set => raw::REDISMODULE_KEYTYPE_SET,
        KeyType::List => raw::REDISMODULE_KEYTYPE_LIST,
        KeyType::SortedSet => raw::REDISMODULE_KEYTYPE_ZSET,
        KeyType::String => raw::REDISMODULE_KEYTYPE_STRING,
        KeyType::Native(_) => raw::REDISMODULE_KEYTYPE_MODULE,
    };
    if is == wanted || is == raw::REDISMODULE_KEYTYPE_EMPTY {
        Ok(())
    } else {
        Err(KeyError::WrongType {
            key: key.as_ref().to_vec(),
            needs,
        })
    }
}

impl Keyspace for RedisKeyspace {
    type Name = RmString;
    type Value = RmString;
    type Cursor = ScanCursor;

    fn name(&mut self, parts: &[&[u8]]) -> RmString {
        let mut name: SmallVec<[u8; 128]> = SmallVec::new();
        for part in parts {
            name.extend_from_slice(part);
        }
        RmString::new(&name)
    }

    fn cursor(&mut self) -> ScanCursor {
        // SAFETY: main thread.
        ScanCursor(unsafe { rm!(RedisModule_ScanCursorCreate()) })
    }

    fn exists(&mut self, key: &RmString) -> bool {
        self.settle(key);
        !OpenKey::open(self.ctx, key, false).is_null()
    }

    fn delete(&mut self, key: &RmString) -> Result<bool> {
        if !self.exists(key) {
            return Ok(false);
        }
        Ok(self.call(c"UNLINK", key, &[])?.integer() == 1)
    }

    fn rename(&mut self, from: &RmString, to: &RmString) -> Result<()> {
        self.call(c"RENAME", from, &[to.as_ref()]).map(drop)
    }

    fn memory(&mut self, key: &RmString) -> u64 {
        self.flush();
        let usage = RmString::new(b"USAGE");
        self.call_unflushed(c"MEMORY", c"Esv", &usage, &[key.as_ref(), b"SAMPLES", b"5"])
            .map_or(0, |answer| answer.integer().max(0) as u64)
    }

    fn string_set(&mut self, key: &RmString, value: &[u8]) -> Result<()> {
        self.call(c"SET", key, &[value]).map(drop)
    }

    fn hash_get(&mut self, key: &RmString, field: &[u8]) -> Result<Option<RmString>> {
        let handle = self.read(key, KeyType::Hash)?;
        if handle.is_null() {
            return Ok(None);
        }
        let field = self.field_string(field);
        let mut value: *mut raw::RedisModuleString = ptr::null_mut();
        // SAFETY: main thread, open hash; field and out-parameter in pairs, ended by null.
        unsafe {
            rm!(RedisModule_HashGet(
                handle,
                raw::REDISMODULE_HASH_NONE as c_int,
                field.raw(),
                &mut value as *mut *mut raw::RedisModuleString,
                ptr::null_mut::<c_void>()
            ));
            Ok((!value.is_null()).then(|| RmString::from_owned(value)))
        }
    }

    fn hash_get_many<const N: usize>(
        &mut self,
        key: &RmString,
        fields: [&RmString; N],
    ) -> Result<[Option<RmString>; N]> {
        const { assert!(N <= MANY_FIELDS, "the call below passes that many") };
        let handle = self.read(key, KeyType::Hash)?;
        let mut values = [ptr::null_mut::<raw::RedisModuleString>(); MANY_FIELDS];
        if !handle.is_null() {
            let mut named = [ptr::null_mut(); MANY_FIELDS];
            for (name, field) in named.iter_mut().zip(fields) {
                *name = field.raw();
            }
            let [a, b, c, d, e, f] = &mut values;
            // SAFETY: main thread, open hash; fields and out-parameters in pairs, ended by null,
            // and the first null field ends them too.
            unsafe {
                rm!(RedisModule_HashGet(
                    handle,
                    raw::REDISMODULE_HASH_NONE as c_int,
                    named[0],
                    ptr::from_mut(a),
                    named[1],
                    ptr::from_mut(b),
                    named[2],
                    ptr::from_mut(c),
                    named[3],
                    ptr::from_mut(d),
                    named[4],
                    ptr::from_mut(e),
                    named[5],
                    ptr::from_mut(f),
                    ptr::null_mut::<c_void>()
                ));
            }
        }
        // SAFETY: the values that the server gave are the caller's.
        Ok(std::array::from_fn(|i| unsafe {
            (!values[i].is_null()).then(|| RmString::from_owned(values[i]))
        }))
    }

    fn hash_set_many(&mut self, key: &RmString, fields: &[(&RmString, &[u8])]) -> Result<()> {
        for some in fields.chunks(MANY_FIELDS) {
            self.put_fields(key, some)?;
        }
        Ok(())
    }

    fn hash_has(&mut self, key: &RmString, field: &[u8]) -> Result<bool> {
        let handle = self.read(key, KeyType::Hash)?;
        if handle.is_null() {
            return Ok(false);
        }
        let field = self.field_string(field);
        let mut there: c_int = 0;
        // SAFETY: as in `hash_get`, with an integer as out-parameter.
        unsafe {
            rm!(RedisModule_HashGet(
                handle,
                raw::REDISMODULE_HASH_EXISTS as c_int,
                field.raw(),
                &mut there as *mut c_int,
                ptr::null_mut::<c_void>()
            ));
        }
        Ok(there != 0)
    }

    fn hash_len(&mut self, key: &RmString) -> Result<u64> {
        self.length(key, KeyType::Hash)
    }

    fn hash_set(&mut self, key: &RmString, field: &[u8], value: &[u8]) -> Result<bool> {
        // Without a flag the server counts fields that were there.
        Ok(self.set_field(key, field, value, raw::REDISMODULE_HASH_NONE)? == 0)
    }

    fn hash_set_new(&mut self, key: &RmString, field: &[u8], value: &[u8]) -> Result<bool> {
        let flags = raw::REDISMODULE_HASH_NX | raw::REDISMODULE_HASH_COUNT_ALL;
        Ok(self.set_field(key, field, value, flags)? == 1)
    }

    fn hash_add(&mut self, key: &RmString, field: &[u8], change: i64) -> Result<u64> {
        let name = self.field_string(field);
        let handle = self.write(key, false)?.handle.raw();
        let before = number_in(handle, &name);
        match before.saturating_add_signed(change) {
            0 => drop(self.hash_del(key, field)?),
            sum => {
                let mut text: SmallVec<[u8; 20]> = SmallVec::new();
                push_number(&mut text, sum);
                self.put_field(key, name, &text, raw::REDISMODULE_HASH_NONE)?;
            }
        }
        Ok(before)
    }

    fn hash_del(&mut self, key: &RmString, field: &[u8]) -> Result<bool> {
        if !self.hash_has(key, field)? {
            return Ok(false);
        }
        // The last field takes the key with it, so no other handle may stay open.
        self.close_reads(key);
        let field = self.field_string(field);
        let pending = self.write(key, true)?;
        // SAFETY: as in `hash_set`, with the value that stands for deletion.
        unsafe {
            rm!(RedisModule_HashSet(
                pending.handle.raw(),
                raw::REDISMODULE_HASH_NONE as c_int,
                field.raw(),
                HASH_DELETE,
                ptr::null_mut::<c_void>()
            ));
        }
        pending.arguments.push(field);
        Ok(true)
    }

    fn hash_scan(
        &mut self,
        key: &RmString,
        cursor: &mut ScanCursor,
        out: &mut Batch,
    ) -> Result<bool> {
        self.scan(key, KeyType::Hash, cursor, out)
    }

    fn set_has(&mut self, key: &RmString, member: &[u8]) -> Result<bool> {
        if self.length(key, KeyType::Set)? == 0 {
            return Ok(false);
        }
        Ok(self.ask(c"SISMEMBER", key, &[member])?.integer() == 1)
    }

    fn set_len(&mut self, key: &RmString) -> Result<u64> {
        self.length(key, KeyType::Set)
    }

    fn set_add(&mut self, key: &RmString, member: &[u8]) -> Result<bool> {
        if self.set_has(key, member)? {
            return Ok(false);
        }
        Ok(self.call(c"SADD", key, &[member])?.integer() == 1)
    }

    fn set_del(&mut self, key: &RmString, member: &[u8]) -> Result<bool> {
        if !self.set_has(key, member)? {
            return Ok(false);
        }
        Ok(self.call(c"SREM", key, &[member])?.integer() == 1)
    }

    fn set_scan(
        &mut self,
        key: &RmString,
        cursor: &mut ScanCursor,
        out: &mut Batch,
    ) -> Result<bool> {
        self.scan(key, KeyType::Set, cursor, out)
    }

    fn list_len(&mut self, key: &RmString) -> Result<u64> {
        self.length(key, KeyType::List)
    }

    fn list_get(&mut self, key: &RmString, i: u64) -> Result<Option<RmString>> {
        self.element(key, i)
    }

    fn list_push(&mut self, key: &RmString, element: &[u8]) -> Result<u64> {
        self.push(key, element)
    }

    fn list_set(&mut self, key: &RmString, i: u64, element: &[u8]) -> Result<()> {
        self.length(key, KeyType::List)?;
        self.call(c"LSET", key, &[i.to_string().as_bytes(), element])
            .map(drop)
    }

    fn list_trim(&mut self, key: &RmString, len: u64) -> Result<()> {
        if self.length(key, KeyType::List)? <= len {
            return Ok(());
        }
        if len == 0 {
            return self.delete(key).map(drop);
        }
        let last = (len - 1).to_string();
        self.call(c"LTRIM", key, &[b"0", last.as_bytes()]).map(drop)
    }

    fn list_take(&mut self, key: &RmString, i: u64) -> Result<Option<RmString>> {
        self.take(key, i)
    }

    fn list_range(&mut self, key: &RmString, i: u64, n: u64, out: &mut Batch) -> Result<()> {
        self.range(c"LRANGE", key, KeyType::List, (i, n), out)
    }

    fn zset_score(&mut self, key: &RmString, member: &[u8]) -> Result<Option<f64>> {
        self.score(key, member)
    }

    fn zset_at(&mut self, key: &RmString, rank: u64) -> Result<Option<(RmString, f64)>> {
        self.at_rank(key, rank)
    }

    fn zset_range(&mut self, key: &RmString, rank: u64, n: u64, out: &mut Batch) -> Result<()> {
        self.range(c"ZRANGE", key, KeyType::SortedSet, (rank, n), out)
    }

    fn zset_len(&mut self, key: &RmString) -> Result<u64> {
        self.length(key, KeyType::SortedSet)
    }

    fn zset_count(&mut self, key: &RmString, most: f64) -> Result<u64> {
        self.count_up_to(key, most)
    }

    fn zset_add(&mut self, key: &RmString, member: &[u8], score: f64) -> Result<()> {
        self.put_score(key, member, score)
    }

    fn zset_remove(&mut self, key: &RmString, member: &[u8]) -> Result<()> {
        self.take_member(key, member).map(drop)
    }

    fn zset_del(&mut self, key: &RmString, member: &[u8]) -> Result<bool> {
        self.drop_member(key, member)
    }

    fn zset_scan(
        &mut self,
        key: &RmString,
        cursor: &mut ScanCursor,
        out: &mut Batch,
    ) -> Result<bool> {
        self.scan(key, KeyType::SortedSet, cursor, out)
    }

    fn number(&mut self, key: &RmString) -> Result<i64> {
        self.read_number(key)
    }

    fn number_add(&mut self, key: &RmString, change: i64) -> Result<()> {
        self.add_to_number(key, change)
    }

    fn number_set(&mut self, key: &RmString, n: i64) -> Result<()> {
        self.write_number(key, n)
    }

    fn keys_scan(&mut self, prefix: &[u8], cursor: &mut ScanCursor, out: &mut Batch) -> bool {
        struct Wanted<'a>(&'a [u8], &'a mut Batch);
        extern "C" fn each(
            _ctx: RawCtx,
            name: *mut raw::RedisModuleString,
            _key: *mut raw::RedisModuleKey,
            wanted: *mut c_void,
        ) {
            // SAFETY: `wanted` is the value of the call below, used by nobody else meanwhile;
            // the name lives during the callback.
            unsafe {
                let Wanted(prefix, out) = &mut *wanted.cast::<Wanted<'_>>();
                let name = string_bytes(name);
                if name.starts_with(prefix) {
                    out.push(name, b"");
                }
            }
        }
        let mut wanted = Wanted(prefix, out);
        // SAFETY: main thread, live context and cursor; the callback gets the value it expects.
        let more = unsafe {
            rm!(RedisModule_Scan(
                self.ctx.raw(),
                cursor.0,
                Some(each),
                ptr::from_mut(&mut wanted).cast()
            ))
        };
        more == 1
    }
}
