//! Scans of one key and of all keys.

use std::collections::VecDeque;
use std::os::raw::c_void;
use std::ptr;

use crate::keyspace::{Batch, KeyType, Result};
use crate::server::api::{RawCtx, RmString, raw, rm, string_bytes};

use super::RedisKeyspace;

/// Maximum number of scanned fields that are kept for later reads.
const SCANNED_FIELDS: usize = 64;

/// Position of a scan.
pub struct ScanCursor(*mut raw::RedisModuleScanCursor);

impl ScanCursor {
    /// Creates a cursor before the first step.
    pub(super) fn new() -> ScanCursor {
        // SAFETY: main thread.
        ScanCursor(unsafe { rm!(RedisModule_ScanCursorCreate()) })
    }
}

impl Drop for ScanCursor {
    fn drop(&mut self) {
        // SAFETY: main thread; this value created the cursor and destroys it once.
        unsafe { rm!(RedisModule_ScanCursorDestroy(self.0)) };
    }
}

impl RedisKeyspace {
    /// Appends the entries of the next step of a key scan. Returns false at the end.
    pub(super) fn scan(
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
            // SAFETY: `found` is the data pointer passed to the call below, and nothing else
            // accesses it during the call. The strings are valid during the callback, and the field
            // as long as a reference to it exists.
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
        if out.is_empty()
            && let Some(expected) = &mut self.expected
        {
            expected.clear();
        }
        let handle = match kind {
            KeyType::SortedSet => self.handle(key, kind, false)?,
            _ => self.read(key, kind)?,
        };
        if handle.is_null() {
            return Ok(false);
        }
        let mut found = Found(out, self.expected.get_or_insert_default());
        // SAFETY: main thread, open key and cursor; the callback gets the value that it expects.
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

    /// Appends the names with this prefix from the next step of a scan of all keys. Returns false
    /// at the end.
    pub(super) fn scan_keys(
        &mut self,
        prefix: &[u8],
        cursor: &mut ScanCursor,
        out: &mut Batch,
    ) -> bool {
        struct Wanted<'a>(&'a [u8], &'a mut Batch);
        extern "C" fn each(
            _ctx: RawCtx,
            name: *mut raw::RedisModuleString,
            _key: *mut raw::RedisModuleKey,
            wanted: *mut c_void,
        ) {
            // SAFETY: `wanted` is the data pointer passed to the call below, and nothing else
            // accesses it during the call. The name is valid during the callback.
            unsafe {
                let Wanted(prefix, out) = &mut *wanted.cast::<Wanted<'_>>();
                let name = string_bytes(name);
                if name.starts_with(prefix) {
                    out.push(name, b"");
                }
            }
        }
        let mut wanted = Wanted(prefix, out);
        // SAFETY: main thread, live context and cursor; the callback gets the value that it expects.
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
