//! Sorted sets, lists and numbers, of which the queues consist.
//!
//! Uses the raw key API with one open handle per key and command. A command reads a queue, removes
//! entries and adds entries; opening the key for each of these steps would double the cost.

use std::ffi::CStr;
use std::ops::RangeInclusive;
use std::os::raw::{c_int, c_long};
use std::ptr;

use crate::keyspace::{Batch, KeyError, KeyType, Result};
use crate::server::api::{RmString, raw, rm};
use crate::server::notify::own_write;
use crate::server::replication::{has_event_listeners, replicate};
use crate::text::parse_signed;

use super::RedisKeyspace;

/// Placeholder for a list element that is about to be removed; longer than any id.
const TAKEN: &[u8] = &[0; 2048];

const TAIL: c_int = raw::REDISMODULE_LIST_TAIL as c_int;

impl RedisKeyspace {
    /// Sends a keyspace event for a key, and a `del` event if the change emptied the key. Does
    /// nothing without listeners.
    pub(super) fn notify(&self, kind: c_int, event: &CStr, key: &RmString, emptied: bool) {
        if !has_event_listeners(self.ctx) {
            return;
        }
        let _own = own_write();
        // SAFETY: main thread, live context and name.
        unsafe {
            rm!(RedisModule_NotifyKeyspaceEvent(
                self.ctx.raw(),
                kind,
                event.as_ptr(),
                key.raw()
            ));
            if emptied {
                rm!(RedisModule_NotifyKeyspaceEvent(
                    self.ctx.raw(),
                    raw::REDISMODULE_NOTIFY_GENERIC,
                    c"del".as_ptr(),
                    key.raw()
                ));
            }
        }
    }

    pub(super) fn score(&mut self, key: &RmString, member: &[u8]) -> Result<Option<f64>> {
        let handle = self.handle(key, KeyType::SortedSet, false)?;
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(None);
        }
        let member = self.field_string(member);
        let mut score = 0.0;
        // SAFETY: main thread, open sorted set, live member.
        let found = unsafe { rm!(RedisModule_ZsetScore(handle, member.raw(), &mut score)) };
        Ok((found == raw::REDISMODULE_OK as c_int).then_some(score))
    }

    pub(super) fn at_rank(&mut self, key: &RmString, rank: u64) -> Result<Option<(RmString, f64)>> {
        if rank > 0 {
            return self.at_higher_rank(key, rank);
        }
        let handle = self.handle(key, KeyType::SortedSet, false)?;
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(None);
        }
        let mut score = 0.0;
        // SAFETY: main thread, open sorted set; the iteration ends before any other call uses the
        // set, and the caller owns the returned string.
        let first = unsafe {
            let begun = rm!(RedisModule_ZsetFirstInScoreRange(
                handle,
                f64::NEG_INFINITY,
                f64::INFINITY,
                0,
                0
            ));
            if begun != raw::REDISMODULE_OK as c_int {
                return Ok(None);
            }
            let first = rm!(RedisModule_ZsetRangeCurrentElement(handle, &mut score));
            rm!(RedisModule_ZsetRangeStop(handle));
            (!first.is_null()).then(|| RmString::from_owned(first))
        };
        Ok(first.map(|member| (member, score)))
    }

    /// Returns the member at a rank with a command, because the raw API has no ranks.
    fn at_higher_rank(&mut self, key: &RmString, rank: u64) -> Result<Option<(RmString, f64)>> {
        let rank = rank.to_string();
        let answer = self.ask(c"ZRANGE", key, &[rank.as_bytes(), rank.as_bytes()])?;
        let Some(member) = answer.element(0) else {
            return Ok(None);
        };
        Ok(self
            .score(key, &member)?
            .map(|score| (RmString::new(&member), score)))
    }

    /// Appends the first `n` members with scores in this range to `out`; returns true if there are more.
    pub(super) fn with_scores(
        &mut self,
        key: &RmString,
        scores: RangeInclusive<f64>,
        n: u64,
        out: &mut Batch,
    ) -> Result<bool> {
        let handle = self.handle(key, KeyType::SortedSet, false)?;
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(false);
        }
        // SAFETY: main thread, open sorted set; the iteration ends before any other call uses the
        // set, and the caller owns the returned strings.
        unsafe {
            let begun = rm!(RedisModule_ZsetFirstInScoreRange(
                handle,
                *scores.start(),
                *scores.end(),
                0,
                0
            ));
            if begun != raw::REDISMODULE_OK as c_int {
                return Ok(false);
            }
            for _ in 0..n {
                let member = rm!(RedisModule_ZsetRangeCurrentElement(handle, ptr::null_mut()));
                if member.is_null() {
                    break;
                }
                out.push(RmString::from_owned(member).as_ref(), b"");
                if rm!(RedisModule_ZsetRangeNext(handle)) == 0 {
                    break;
                }
            }
            let more = rm!(RedisModule_ZsetRangeEndReached(handle)) == 0;
            rm!(RedisModule_ZsetRangeStop(handle));
            Ok(more)
        }
    }

    pub(super) fn count_up_to(&mut self, key: &RmString, most: f64) -> Result<u64> {
        if self.length(key, KeyType::SortedSet)? == 0 {
            return Ok(0);
        }
        let most = most.to_string();
        let answer = self.ask(c"ZCOUNT", key, &[b"-inf", most.as_bytes()])?;
        Ok(answer.integer().max(0) as u64)
    }

    pub(super) fn put_score(&mut self, key: &RmString, member: &[u8], score: f64) -> Result<()> {
        self.flush();
        let handle = self.handle(key, KeyType::SortedSet, true)?;
        let member = self.field_string(member);
        // SAFETY: main thread, sorted set open for writing, live member.
        unsafe {
            rm!(RedisModule_ZsetAdd(
                handle,
                score,
                member.raw(),
                ptr::null_mut()
            ));
        }
        // SAFETY: main thread, live context; the format matches its arguments, which live until after the call.
        replicate(self.ctx, || unsafe {
            if score.fract() == 0.0 && score.abs() < 9e15 {
                rm!(RedisModule_Replicate(
                    self.ctx.raw(),
                    c"ZADD".as_ptr(),
                    c"sls".as_ptr(),
                    key.raw(),
                    score as i64,
                    member.raw()
                ));
            } else {
                let text = score.to_string();
                rm!(RedisModule_Replicate(
                    self.ctx.raw(),
                    c"ZADD".as_ptr(),
                    c"sbs".as_ptr(),
                    key.raw(),
                    text.as_ptr(),
                    text.len(),
                    member.raw()
                ));
            }
        });
        self.notify(raw::REDISMODULE_NOTIFY_ZSET, c"zadd", key, false);
        Ok(())
    }

    pub(super) fn drop_member(&mut self, key: &RmString, member: &[u8]) -> Result<bool> {
        if !self.holds(key, KeyType::SortedSet)? {
            return Ok(false);
        }
        self.take_member(key, member)
    }

    /// Removes a member. Opens the key for writing even if the member is missing.
    pub(super) fn take_member(&mut self, key: &RmString, member: &[u8]) -> Result<bool> {
        self.flush();
        let handle = self.handle(key, KeyType::SortedSet, true)?;
        if Self::is_empty(handle) {
            return Ok(false);
        }
        let member = self.field_string(member);
        let mut deleted = 0;
        // SAFETY: as in `put_score`.
        unsafe { rm!(RedisModule_ZsetRem(handle, member.raw(), &mut deleted)) };
        if deleted == 0 {
            return Ok(false);
        }
        self.replicate_command(c"ZREM", key, [&member]);
        let emptied = Self::is_empty(handle);
        self.notify(raw::REDISMODULE_NOTIFY_ZSET, c"zrem", key, emptied);
        Ok(true)
    }

    /// Returns true if the key exists and is not empty. Does not open the key for writing.
    fn holds(&mut self, key: &RmString, kind: KeyType) -> Result<bool> {
        let handle = self.handle(key, kind, false)?;
        Ok(!handle.is_null() && !Self::is_empty(handle))
    }

    pub(super) fn push(&mut self, key: &RmString, element: &[u8]) -> Result<u64> {
        self.flush();
        let handle = self.handle(key, KeyType::List, true)?;
        let element = self.field_string(element);
        // SAFETY: as in `put_score`, for a list.
        let len = unsafe {
            rm!(RedisModule_ListPush(handle, TAIL, element.raw()));
            rm!(RedisModule_ValueLength(handle)) as u64
        };
        self.replicate_command(c"RPUSH", key, [&element]);
        self.notify(raw::REDISMODULE_NOTIFY_LIST, c"rpush", key, false);
        Ok(len)
    }

    pub(super) fn element(&mut self, key: &RmString, i: u64) -> Result<Option<RmString>> {
        let handle = self.handle(key, KeyType::List, false)?;
        let Ok(i) = c_long::try_from(i) else {
            return Ok(None);
        };
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(None);
        }
        // SAFETY: main thread, open list; the caller owns the returned string.
        unsafe {
            let element = rm!(RedisModule_ListGet(handle, i));
            Ok((!element.is_null()).then(|| RmString::from_owned(element)))
        }
    }

    /// Appends up to `n` elements or members, beginning at `i`, with a command that takes the first
    /// and the last index.
    pub(super) fn range(
        &mut self,
        command: &CStr,
        key: &RmString,
        kind: KeyType,
        (i, n): (u64, u64),
        out: &mut Batch,
    ) -> Result<()> {
        if n == 0 || self.length(key, kind)? <= i {
            return Ok(());
        }
        let (first, last) = (i.to_string(), (i + n - 1).to_string());
        let answer = self.ask(command, key, &[first.as_bytes(), last.as_bytes()])?;
        for at in 0.. {
            let Some(element) = answer.element(at) else {
                break;
            };
            out.push(&element, b"");
        }
        Ok(())
    }

    pub(super) fn take(&mut self, key: &RmString, i: u64) -> Result<Option<RmString>> {
        let Some(element) = self.element(key, i)? else {
            return Ok(None);
        };
        if i > 0 {
            // Lists have no command that removes an element by index.
            let i = i.to_string();
            self.call(c"LSET", key, &[i.as_bytes(), TAKEN])?;
            self.call(c"LREM", key, &[b"1", TAKEN])?;
            return Ok(Some(element));
        }
        self.flush();
        let handle = self.handle(key, KeyType::List, true)?;
        // SAFETY: as in `put_score`, for a list; the caller owns the popped string.
        unsafe {
            let popped = rm!(RedisModule_ListPop(
                handle,
                raw::REDISMODULE_LIST_HEAD as c_int
            ));
            if popped.is_null() {
                return Ok(None);
            }
            drop(RmString::from_owned(popped));
        }
        self.replicate_command(c"LPOP", key, []);
        let emptied = Self::is_empty(handle);
        self.notify(raw::REDISMODULE_NOTIFY_LIST, c"lpop", key, emptied);
        Ok(Some(element))
    }

    pub(super) fn read_number(&mut self, key: &RmString) -> Result<i64> {
        let handle = self.handle(key, KeyType::String, false)?;
        if handle.is_null() {
            return Ok(0);
        }
        Ok(number_of(handle).unwrap_or(0))
    }

    pub(super) fn write_number(&mut self, key: &RmString, n: i64) -> Result<()> {
        self.flush();
        let handle = self.handle(key, KeyType::String, true)?;
        put_number(handle, key, n)?;
        // SAFETY: main thread, live context; the format matches its arguments.
        replicate(self.ctx, || unsafe {
            rm!(RedisModule_Replicate(
                self.ctx.raw(),
                c"SET".as_ptr(),
                c"slc".as_ptr(),
                key.raw(),
                n,
                c"KEEPTTL".as_ptr()
            ));
        });
        self.notify(raw::REDISMODULE_NOTIFY_STRING, c"set", key, false);
        Ok(())
    }

    pub(super) fn add_to_number(&mut self, key: &RmString, change: i64) -> Result<()> {
        self.flush();
        let handle = self.handle(key, KeyType::String, true)?;
        let before = number_of(handle);
        let Some(before) = before.filter(|&n| n.checked_add(change).is_some_and(|sum| sum >= 0))
        else {
            let sum = before.unwrap_or(0).saturating_add(change);
            return self.write_number(key, sum.max(0));
        };
        put_number(handle, key, before + change)?;
        // SAFETY: as in `write_number`.
        replicate(self.ctx, || unsafe {
            rm!(RedisModule_Replicate(
                self.ctx.raw(),
                c"INCRBY".as_ptr(),
                c"sl".as_ptr(),
                key.raw(),
                change
            ));
        });
        self.notify(raw::REDISMODULE_NOTIFY_STRING, c"incrby", key, false);
        Ok(())
    }
}

/// Returns the number in an open string: 0 if the string is empty, `None` if it is not a number.
fn number_of(handle: *mut raw::RedisModuleKey) -> Option<i64> {
    if RedisKeyspace::is_empty(handle) {
        return Some(0);
    }
    let mut len = 0;
    // SAFETY: main thread, open string; the bytes are read before any other call uses the key.
    let text = unsafe {
        let start = rm!(RedisModule_StringDMA(
            handle,
            &mut len,
            raw::REDISMODULE_READ as c_int
        ));
        std::slice::from_raw_parts(start.cast::<u8>(), len)
    };
    parse_signed(text)
}

/// Writes a number to a string that is open for writing. If the string has a value already, changes
/// it in place.
fn put_number(handle: *mut raw::RedisModuleKey, key: &RmString, n: i64) -> Result<()> {
    let text = n.to_string();
    // SAFETY: main thread, string open for writing; before the write, it is resized to the written
    // length.
    unsafe {
        if RedisKeyspace::is_empty(handle) {
            rm!(RedisModule_StringSet(
                handle,
                RmString::new(text.as_bytes()).raw()
            ));
            return Ok(());
        }
        let mut len = 0;
        let writes = raw::REDISMODULE_WRITE as c_int;
        let mut start = rm!(RedisModule_StringDMA(handle, &mut len, writes));
        if len != text.len() {
            rm!(RedisModule_StringTruncate(handle, text.len()));
            start = rm!(RedisModule_StringDMA(handle, &mut len, writes));
        }
        if start.is_null() || len != text.len() {
            return Err(KeyError::Refused(format!(
                "ERR the server refused to write key '{}'",
                crate::text::Shown(key.as_ref())
            )));
        }
        ptr::copy_nonoverlapping(text.as_ptr(), start.cast(), len);
    }
    Ok(())
}
