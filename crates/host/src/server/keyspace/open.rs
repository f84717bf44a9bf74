//! Open keys. Handles for reading stay open until a write could invalidate them.

use std::os::raw::c_int;

use crate::keyspace::{KeyError, KeyType, Result};

use super::RedisKeyspace;
use crate::server::acl::Access;
use crate::server::api::{Ctx, RmString, raw, rm};

/// Maximum number of keys that stay open for reading.
const OPEN_KEYS: usize = 16;

/// An open key. Dropping this value closes the key.
pub(super) struct OpenKey {
    raw: *mut raw::RedisModuleKey,
    writes: bool,
}

impl OpenKey {
    /// Opens a key for reading, or with `writes` for reading and writing.
    pub(super) fn open(ctx: Ctx, key: &RmString, writes: bool) -> OpenKey {
        let mut mode = raw::REDISMODULE_READ;
        if writes {
            mode |= raw::REDISMODULE_WRITE;
        }
        // SAFETY: main thread, live context and name.
        let raw = unsafe { rm!(RedisModule_OpenKey(ctx.raw(), key.raw(), mode as c_int)) };
        OpenKey { raw, writes }
    }

    pub(super) fn raw(&self) -> *mut raw::RedisModuleKey {
        self.raw
    }

    /// Returns true if the key did not exist. Always returns false if the key was opened for
    /// writing.
    pub(super) fn is_null(&self) -> bool {
        self.raw.is_null()
    }

    fn writes(&self) -> bool {
        self.writes
    }
}

impl Drop for OpenKey {
    fn drop(&mut self) {
        if !self.raw.is_null() {
            // SAFETY: main thread; this value opened the key and closes it once.
            unsafe { rm!(RedisModule_CloseKey(self.raw)) };
        }
    }
}

impl RedisKeyspace {
    /// Opens a key for reading; null if it is missing.
    pub(super) fn read(
        &mut self,
        key: &RmString,
        needs: KeyType,
    ) -> Result<*mut raw::RedisModuleKey> {
        let found = self.open.iter().find(|(name, _)| name.raw() == key.raw());
        match found {
            Some((_, handle)) => Ok(handle.raw()),
            None => self.open(key, needs, false),
        }
    }

    /// Returns a handle of a key, writable if requested. Returns null if a key to be read is
    /// missing.
    pub(super) fn handle(
        &mut self,
        key: &RmString,
        needs: KeyType,
        writes: bool,
    ) -> Result<*mut raw::RedisModuleKey> {
        let names = || self.open.iter().map(|(name, _)| name);
        // Most callers pass the same string again, so compare the bytes only if no address matches.
        let same = names().position(|name| name.raw() == key.raw());
        let bytes: &[u8] = key.as_ref();
        if let Some(at) = same.or_else(|| names().position(|name| name.as_ref() == bytes)) {
            let handle = &self.open[at].1;
            if handle.writes() || (!writes && !handle.is_null()) {
                check_type(handle, key, needs)?;
                return Ok(handle.raw());
            }
            self.open.swap_remove(at);
        }
        self.open(key, needs, writes)
    }

    fn open(
        &mut self,
        key: &RmString,
        needs: KeyType,
        writes: bool,
    ) -> Result<*mut raw::RedisModuleKey> {
        self.permit_reading(key)?;
        let handle = OpenKey::open(self.ctx, key, writes);
        if !handle.is_null() {
            check_type(&handle, key, needs)?;
        }
        let raw = handle.raw();
        // A command that reads many keys reads few of them again. Keep the list short, because it
        // is searched linearly.
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
        let asked = match &reader.stands_for {
            Some((key_of_ours, named)) if key_of_ours.as_ref() == key.as_ref() => named,
            _ => key,
        };
        let checked = reader.user.check(asked, Access::Read);
        checked.map_err(KeyError::Refused)
    }

    /// Closes read handles of one key before a change that open handles would not see.
    pub(super) fn close_reads(&mut self, key: &RmString) {
        self.open
            .retain(|(name, _)| name.raw() != key.raw() && name.as_ref() != key.as_ref());
    }

    /// Returns true if the key of a handle does not exist, or was deleted through this handle.
    pub(super) fn is_empty(handle: *mut raw::RedisModuleKey) -> bool {
        // SAFETY: main thread, open key.
        let is = unsafe { rm!(RedisModule_KeyType(handle)) };
        is == raw::REDISMODULE_KEYTYPE_EMPTY as c_int
    }

    /// Returns the length of a key of this type, or 0 if it is missing.
    pub(super) fn length(&mut self, key: &RmString, kind: KeyType) -> Result<u64> {
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
}

pub(super) fn check_type(handle: &OpenKey, key: &RmString, needs: KeyType) -> Result<()> {
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
