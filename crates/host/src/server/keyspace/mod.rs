//! Implementation of [`Keyspace`] on the keys of a Redis database.
//!
//! Hashes and queues (`hashes`, `queues`) use the raw key API; sets use commands, because they have
//! no raw API. Every write is replicated as the plain command with the same effect, and consecutive
//! fields of one hash as one `HSET` or `HDEL`. Therefore, replicas and append-only files work
//! without the module.

mod hashes;
mod native;
mod open;
mod queues;
mod scans;

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut, RangeInclusive};

use smallvec::SmallVec;

use crate::keyspace::{Batch, KeyError, KeyType, Keyspace, Result};
use crate::names::join;

use super::acl::User;
use super::api::{Ctx, RmString, raw, rm};
use super::call_reply::CallReply;
use super::cluster;
use super::notify::own_write;
use super::replication::{Silence, is_silent, replicate};

use hashes::{MANY_FIELDS, Pending};
pub use native::{By, Gathering, Place, Replicated};
use open::OpenKey;
pub use scans::ScanCursor;

/// Keys of the database selected by `ctx`, for the duration of one command or slice.
pub struct RedisKeyspace {
    ctx: Ctx,
    /// The inline capacity is small, because a key space is moved several times before the first
    /// key is opened.
    open: SmallVec<[(RmString, OpenKey); 4]>,
    pending: Option<Pending>,
    /// Changes of a native value that are not replicated yet. Never set together with `pending`.
    gathered: Option<native::Gathered>,
    last_value: Option<RmString>,
    last_field: Option<RmString>,
    /// Fields that will probably be requested next, in this order: from the last scan, or from
    /// `offer_fields`.
    expected: Option<VecDeque<RmString>>,
    reader: Option<Box<Reader>>,
}

/// A key space that is created when it is first used. It takes little memory until then.
pub struct LazyKeyspace {
    ctx: Ctx,
    keys: OnceCell<Box<RedisKeyspace>>,
}

impl LazyKeyspace {
    fn made(&self) -> &RedisKeyspace {
        self.keys
            .get_or_init(|| Box::new(RedisKeyspace::new(self.ctx)))
    }
}

impl Deref for LazyKeyspace {
    type Target = RedisKeyspace;

    fn deref(&self) -> &RedisKeyspace {
        self.made()
    }
}

impl DerefMut for LazyKeyspace {
    fn deref_mut(&mut self) -> &mut RedisKeyspace {
        self.made();
        self.keys.get_mut().expect("just made")
    }
}

/// Returns true for a bookkeeping key, which every command may read even if the user has no
/// permission to read it. The argument is the key's name after the prefix.
pub(crate) type Exempt = fn(&[u8]) -> bool;

/// User whose permissions apply to reads.
struct Reader {
    user: User,
    /// Length of the common prefix of all keys.
    prefix: usize,
    exempt: Exempt,
    /// Two keys: permission to read the second key also permits reading the first.
    stands_for: Option<(RmString, RmString)>,
}

impl RedisKeyspace {
    /// Creates a key space for the duration of one callback.
    #[inline]
    pub fn new(ctx: Ctx) -> RedisKeyspace {
        RedisKeyspace {
            ctx,
            open: SmallVec::new(),
            pending: None,
            gathered: None,
            last_value: None,
            last_field: None,
            expected: None,
            reader: None,
        }
    }

    /// Creates another key space for the same callback.
    #[inline]
    pub fn another(&self) -> RedisKeyspace {
        RedisKeyspace::new(self.ctx)
    }

    /// Creates another key space for the same callback, when it is first used.
    #[inline]
    pub fn lazily_another(&self) -> LazyKeyspace {
        LazyKeyspace {
            ctx: self.ctx,
            keys: OnceCell::new(),
        }
    }

    /// Refuses every read of a key that this user may not read, except for exempt keys with this
    /// prefix. Use this only for operations that do not write: a refusal in the middle would leave
    /// a partial change. For the first key of `stands_for`, permission to read the second key
    /// suffices.
    pub fn read_as(
        &mut self,
        user: User,
        prefix: &[u8],
        exempt: Exempt,
        stands_for: Option<(RmString, RmString)>,
    ) {
        self.reader = Some(Box::new(Reader {
            user,
            prefix: prefix.len(),
            exempt,
            stands_for,
        }));
    }

    /// Replicates all writes since the last call, and sends keyspace events.
    #[inline]
    pub fn flush(&mut self) {
        if let Some(gathered) = self.gathered.take() {
            self.replicate_gathered(gathered);
        }
        if let Some(pending) = self.pending.take() {
            self.replicate_fields(pending);
        }
    }

    /// Calls `act` without replicating its writes: the caller replicates them in another way.
    pub fn silently<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.flush();
        let silence = Silence::begin();
        let done = act(self);
        self.flush();
        drop(silence);
        done
    }

    /// Replicates all pending writes and closes every key, because other code may change the keys
    /// after this call.
    pub fn release(&mut self) {
        self.flush();
        self.open.clear();
    }

    /// Offers strings for fields that will probably be requested next, in this order. Arguments are
    /// server strings already, so they can be reused.
    pub fn offer_fields(&mut self, mut fields: impl Iterator<Item = RmString>) {
        self.last_field = fields.next();
        let expected = self.expected.get_or_insert_default();
        expected.clear();
        expected.extend(fields);
    }

    /// Runs a command on one key and replicates it unchanged.
    fn call(
        &mut self,
        command: &std::ffi::CStr,
        key: &RmString,
        rest: &[&[u8]],
    ) -> Result<CallReply> {
        self.flush();
        self.open.clear();
        let format = if is_silent() { c"Esv" } else { c"!Esv" };
        self.call_unflushed(command, format, key, rest)
    }

    /// Runs a read-only command.
    fn ask(
        &mut self,
        command: &std::ffi::CStr,
        key: &RmString,
        rest: &[&[u8]],
    ) -> Result<CallReply> {
        self.call_unflushed(command, c"Esv", key, rest)
    }

    /// Replicates a command on a key with these arguments.
    fn replicate_command<'a>(
        &self,
        command: &std::ffi::CStr,
        key: &RmString,
        arguments: impl IntoIterator<Item = &'a RmString>,
    ) {
        let arguments = arguments.into_iter().map(RmString::raw);
        let mut arguments: SmallVec<[*mut raw::RedisModuleString; 4]> = arguments.collect();
        // SAFETY: main thread, live context; the format matches the arguments, which live until after the call, and
        // the server takes its own references.
        replicate(self.ctx, || unsafe {
            rm!(RedisModule_Replicate(
                self.ctx.raw(),
                command.as_ptr(),
                c"sv".as_ptr(),
                key.raw(),
                arguments.as_mut_ptr(),
                arguments.len()
            ));
        });
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

impl Keyspace for RedisKeyspace {
    type Name = RmString;
    type Value = RmString;
    type Cursor = ScanCursor;

    fn name(&mut self, parts: &[&[u8]]) -> RmString {
        RmString::new(&join::<128>(parts))
    }

    fn cursor(&mut self) -> ScanCursor {
        ScanCursor::new()
    }

    fn exists(&mut self, key: &RmString) -> bool {
        self.settle(key);
        !OpenKey::open(self.ctx, key, false).is_null()
    }

    fn delete(&mut self, key: &RmString) -> Result<bool> {
        if !self.exists(key) {
            return Ok(false);
        }
        self.flush();
        self.close_reads(key);
        let handle = OpenKey::open(self.ctx, key, true);
        // SAFETY: main thread, key open for writing, and nothing uses its value any more.
        unsafe { rm!(RedisModule_UnlinkKey(handle.raw())) };
        drop(handle);
        self.replicate_command(c"UNLINK", key, []);
        self.notify(
            raw::REDISMODULE_NOTIFY_GENERIC as std::os::raw::c_int,
            c"del",
            key,
            false,
        );
        Ok(true)
    }

    fn rename(&mut self, from: &RmString, to: &RmString) -> Result<()> {
        self.call(c"RENAME", from, &[to.as_ref()]).map(drop)
    }

    fn memory(&mut self, key: &RmString) -> u64 {
        // An existence check takes a tenth of the time of a command, and most keys that an index
        // can have are missing.
        if !self.exists(key) {
            return 0;
        }
        self.flush();
        let usage = RmString::new(b"USAGE");
        self.call_unflushed(c"MEMORY", c"Esv", &usage, &[key.as_ref(), b"SAMPLES", b"5"])
            .map_or(0, |answer| answer.integer().max(0) as u64)
    }

    fn string_set(&mut self, key: &RmString, value: &[u8]) -> Result<()> {
        self.call(c"SET", key, &[value]).map(drop)
    }

    fn hash_get(&mut self, key: &RmString, field: &[u8]) -> Result<Option<RmString>> {
        self.get_field(key, field)
    }

    fn hash_get_many<const N: usize>(
        &mut self,
        key: &RmString,
        fields: [&RmString; N],
    ) -> Result<[Option<RmString>; N]> {
        self.get_fields(key, fields)
    }

    fn hash_has(&mut self, key: &RmString, field: &[u8]) -> Result<bool> {
        self.has_field(key, field)
    }

    fn hash_add(&mut self, key: &RmString, field: &[u8], change: i64) -> Result<u64> {
        self.add_to_field(key, field, change)
    }

    fn hash_del(&mut self, key: &RmString, field: &[u8]) -> Result<bool> {
        self.delete_field(key, field)
    }

    fn hash_set_many(&mut self, key: &RmString, fields: &[(&RmString, &[u8])]) -> Result<()> {
        for some in fields.chunks(MANY_FIELDS) {
            self.put_fields(key, some)?;
        }
        Ok(())
    }

    fn hash_len(&mut self, key: &RmString) -> Result<u64> {
        self.length(key, KeyType::Hash)
    }

    fn hash_set(&mut self, key: &RmString, field: &[u8], value: &[u8]) -> Result<bool> {
        // Without a flag, the server returns the number of fields that existed before the call.
        Ok(self.set_field(key, field, value, raw::REDISMODULE_HASH_NONE)? == 0)
    }

    fn hash_set_new(&mut self, key: &RmString, field: &[u8], value: &[u8]) -> Result<bool> {
        let flags = raw::REDISMODULE_HASH_NX | raw::REDISMODULE_HASH_COUNT_ALL;
        Ok(self.set_field(key, field, value, flags)? == 1)
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

    fn zset_between(
        &mut self,
        key: &RmString,
        scores: RangeInclusive<f64>,
        n: u64,
        out: &mut Batch,
    ) -> Result<bool> {
        self.with_scores(key, scores, n, out)
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
        self.scan_keys(prefix, cursor, out)
    }
}
