//! Hashes: reads and writes single fields, and several fields in one call.
//!
//! Consecutive writes to fields of one hash are replicated as one `HSET` or `HDEL`.

use std::os::raw::{c_int, c_void};
use std::ptr;

use smallvec::SmallVec;

use crate::keyspace::{KeyType, Result};
use crate::server::api::{RmString, raw, rm};
use crate::server::replication::is_heard;
use crate::text::{parse_unsigned, push_number};

use super::open::{OpenKey, check_type};
use super::{RedisKeyspace, cached};

/// Maximum number of fields that are replicated as one command.
const REPLICATED_FIELDS: usize = 512;

/// Maximum number of fields read in one call.
pub(super) const MANY_FIELDS: usize = 6;

/// `REDISMODULE_HASH_DELETE`: the value that deletes a field.
const HASH_DELETE: *mut raw::RedisModuleString = ptr::without_provenance_mut(1);

/// Hash fields that are written but not replicated yet.
pub(super) struct Pending {
    key: RmString,
    handle: OpenKey,
    deletes: bool,
    /// Arguments of the replicated command: alternating fields and values for `HSET`, or fields for
    /// `HDEL`. Empty if there is no replica and no append-only file.
    arguments: Vec<RmString>,
    is_heard: bool,
    is_changed: bool,
}

impl Pending {
    /// Records a field that was set to a value or deleted.
    fn note(&mut self, field: &RmString, value: Option<RmString>) {
        self.is_changed = true;
        if self.is_heard {
            self.arguments.push(field.clone());
            self.arguments.extend(value);
        }
    }
}

impl RedisKeyspace {
    /// Opens a hash for writing and prepares the replication of the fields written.
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
                is_heard: is_heard(),
                is_changed: false,
            });
        }
        Ok(self.pending.as_mut().expect("just made"))
    }

    /// Replicates the fields written since the last call, and sends keyspace events.
    pub(super) fn replicate_fields(&self, pending: Pending) {
        if !pending.is_changed {
            return;
        }
        let (command, event) = if pending.deletes {
            (c"HDEL", c"hdel")
        } else {
            (c"HSET", c"hset")
        };
        self.replicate_command(command, &pending.key, &pending.arguments);
        // SAFETY: main thread, open key.
        let type_ = unsafe { rm!(RedisModule_KeyType(pending.handle.raw())) };
        let emptied = type_ == raw::REDISMODULE_KEYTYPE_EMPTY as c_int;
        drop(pending.handle);
        self.notify(raw::REDISMODULE_NOTIFY_HASH, event, &pending.key, emptied);
    }

    /// Returns the value string for `bytes`; consecutive equal values share one string.
    fn value_string(&mut self, bytes: &[u8]) -> RmString {
        cached(&mut self.last_value, bytes)
    }

    /// Returns the field string for `bytes`. Callers often look up the same field in several keys
    /// one after the other, so the last string is reused.
    pub(super) fn field_string(&mut self, bytes: &[u8]) -> RmString {
        match &self.last_field {
            Some(last) if last.as_ref() == bytes => return last.clone(),
            _ => {}
        }
        let expected = self.expected.as_mut().and_then(|expected| {
            let is_next = expected.front().is_some_and(|f| f.as_ref() == bytes);
            is_next.then(|| expected.pop_front()).flatten()
        });
        let field = expected.unwrap_or_else(|| RmString::new(bytes));
        self.last_field.insert(field).clone()
    }

    pub(super) fn get_field(&mut self, key: &RmString, field: &[u8]) -> Result<Option<RmString>> {
        let handle = self.read(key, KeyType::Hash)?;
        if handle.is_null() {
            return Ok(None);
        }
        Ok(field_of(handle, &self.field_string(field)))
    }

    pub(super) fn get_fields<const N: usize>(
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
            // SAFETY: main thread, open hash; fields and out-parameters in pairs, ended by null.
            // The first null field also ends the list.
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
        // SAFETY: the caller owns the values that the server returned.
        Ok(std::array::from_fn(|i| unsafe {
            (!values[i].is_null()).then(|| RmString::from_owned(values[i]))
        }))
    }

    pub(super) fn has_field(&mut self, key: &RmString, field: &[u8]) -> Result<bool> {
        let handle = self.read(key, KeyType::Hash)?;
        if handle.is_null() {
            return Ok(false);
        }
        let field = self.field_string(field);
        let mut there: c_int = 0;
        // SAFETY: as in `field_of`, with an integer as out-parameter.
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

    /// Sets a field according to `flags`, and queues it for replication if it was set. Returns the
    /// number of fields that the server reports.
    pub(super) fn set_field(
        &mut self,
        key: &RmString,
        field: &[u8],
        value: &[u8],
        flags: u32,
    ) -> Result<c_int> {
        let field = self.field_string(field);
        self.put_field(key, field, value, flags)
    }

    /// Sets up to `MANY_FIELDS` fields in one call.
    pub(super) fn put_fields(
        &mut self,
        key: &RmString,
        fields: &[(&RmString, &[u8])],
    ) -> Result<()> {
        let mut values = [const { None }; MANY_FIELDS];
        let mut named = [ptr::null_mut(); MANY_FIELDS];
        let mut set = [ptr::null_mut(); MANY_FIELDS];
        for (i, (field, value)) in fields.iter().enumerate() {
            named[i] = field.raw();
            set[i] = values[i].insert(RmString::new(value)).raw();
        }
        let pending = self.write(key, false)?;
        // SAFETY: main thread, hash open for writing; fields and values in pairs, ended by null.
        // The first null field also ends the list.
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
            pending.note(field, value);
        }
        self.see_new(key);
        Ok(())
    }

    /// Closes read handles of a key that may have just been created: a handle that was opened while
    /// the key was missing does not see the new value.
    fn see_new(&mut self, key: &RmString) {
        if self.open.iter().any(|(_, open)| open.is_null()) {
            self.open
                .retain(|(name, open)| !open.is_null() || name.as_ref() != key.as_ref());
        }
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
            pending.note(&field, Some(value));
            self.see_new(key);
        }
        Ok(counted)
    }

    pub(super) fn add_to_field(
        &mut self,
        key: &RmString,
        field: &[u8],
        change: i64,
    ) -> Result<u64> {
        let name = self.field_string(field);
        let handle = self.write(key, false)?.handle.raw();
        let before = field_of(handle, &name);
        let before = before.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0);
        match before.saturating_add_signed(change) {
            0 => drop(self.delete_field(key, field)?),
            sum => {
                let mut text: SmallVec<[u8; 20]> = SmallVec::new();
                push_number(&mut text, sum);
                self.put_field(key, name, &text, raw::REDISMODULE_HASH_NONE)?;
            }
        }
        Ok(before)
    }

    pub(super) fn delete_field(&mut self, key: &RmString, field: &[u8]) -> Result<bool> {
        if !self.has_field(key, field)? {
            return Ok(false);
        }
        // Deleting the last field deletes the key, so no other handle of the key may stay open.
        self.close_reads(key);
        let field = self.field_string(field);
        let pending = self.write(key, true)?;
        // SAFETY: as in `put_field`, with the value that deletes a field.
        unsafe {
            rm!(RedisModule_HashSet(
                pending.handle.raw(),
                raw::REDISMODULE_HASH_NONE as c_int,
                field.raw(),
                HASH_DELETE,
                ptr::null_mut::<c_void>()
            ));
        }
        pending.note(&field, None);
        Ok(true)
    }
}

/// Returns the value of a field of an open hash.
fn field_of(handle: *mut raw::RedisModuleKey, field: &RmString) -> Option<RmString> {
    let mut value: *mut raw::RedisModuleString = ptr::null_mut();
    // SAFETY: main thread, open hash or null; field and out-parameter in pairs, ended by null.
    unsafe {
        rm!(RedisModule_HashGet(
            handle,
            raw::REDISMODULE_HASH_NONE as c_int,
            field.raw(),
            &mut value as *mut *mut raw::RedisModuleString,
            ptr::null_mut::<c_void>()
        ));
        (!value.is_null()).then(|| RmString::from_owned(value))
    }
}
