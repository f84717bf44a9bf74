//! Native types: key values of types that the module defines.
//!
//! A native type implements [`Native`], which writes its value in chunks and reads it from chunks.
//! From these methods, this module derives the server's callbacks for RDB files, append-only files,
//! copies, digests, memory and freeing. Each callback runs inside the panic guard.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use super::api::{Ctx, Level, log, raw, rm};
use super::guard::guarded;
use crate::defrag::Mover;
use crate::slices::Time;

/// A native value of a key. Only one thread at a time uses a value, usually the main thread. If a
/// large value is deleted, a background thread of the server drops it.
pub trait Native: Clone + Default + Send + 'static {
    /// Name of the type in RDB files: nine characters of `A-Za-z0-9_-`. Must never change.
    const NAME: &'static CStr;
    /// Version of the format that [`Native::save`] writes. Other versions are refused.
    const VERSION: c_int;
    /// Description of the type in error messages.
    const WHAT: &'static str;
    /// Command that adds one chunk to a key when an append-only file is replayed, called as `command key word
    /// chunk`.
    const REBUILT_BY: &'static CStr;
    /// The `word` in calls of [`Native::REBUILT_BY`].
    const REBUILT_WITH: &'static CStr;

    /// Returns the variable that stores the server's handle of the type.
    fn registered() -> &'static Registered;
    /// Writes the value in chunks of at most a few MiB.
    fn save(&self, chunk: &mut dyn FnMut(&[u8]));
    /// Passes each element of the value to `element` once, as a list of parts, for digests. Equal
    /// values must have the same elements, in any order. By default, the elements are the chunks,
    /// so equal values must have equal chunks.
    fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        self.save(&mut |chunk| element(&[chunk]));
    }
    /// Adds the contents of a chunk. The chunk may be hostile: it can come from any client with
    /// permission to run `RESTORE`.
    ///
    /// # Errors
    /// A description of the problem in the chunk.
    fn load(&mut self, chunk: &[u8]) -> Result<(), String>;
    /// Checks that the value is complete, after the last chunk. By default, an empty value is
    /// incomplete.
    ///
    /// # Errors
    /// A description of the missing part.
    fn loaded(&self) -> Result<(), String> {
        if self.is_empty() {
            Err("it is empty".to_string())
        } else {
            Ok(())
        }
    }
    /// Returns true if the value is empty; its key is then deleted.
    fn is_empty(&self) -> bool;
    /// Returns the memory used, in bytes. Must be fast.
    fn memory(&self) -> usize;
    /// Defragments memory, starting at a cursor, until `time` returns false. Returns the next
    /// cursor; 0 at the end.
    fn defrag(&mut self, _cursor: u64, _mover: &mut Mover<'_>, _time: Time<'_>) -> u64 {
        0
    }
    /// Returns the number of allocations to be freed with the value. Above 64, the server frees the
    /// value in the background.
    fn free_effort(&self) -> usize;
}

/// Storage for the server's handle of a type, set when the type is registered.
pub struct Registered {
    raw: AtomicPtr<raw::RedisModuleType>,
    /// Number of times that a value of the type left its key, was freed or moved in memory.
    losses: AtomicU64,
}

impl Registered {
    /// Creates an empty handle, for a `static`.
    pub const fn new() -> Registered {
        Registered {
            raw: AtomicPtr::new(ptr::null_mut()),
            losses: AtomicU64::new(0),
        }
    }

    /// Returns the raw handle for calls of the module API.
    pub fn raw(&self) -> *mut raw::RedisModuleType {
        self.raw.load(Relaxed)
    }

    /// Returns a number that changes whenever a value of the type leaves its key, is freed or moves in memory. While
    /// this number is unchanged, pointers to values are valid.
    pub(super) fn losses(&self) -> u64 {
        self.losses.load(Relaxed)
    }

    /// Records that a value left its key, was freed or moved. Any thread may call this. Before a
    /// background thread frees a value, the main thread has removed the value from its key.
    fn note_loss(&self) {
        self.losses.fetch_add(1, Relaxed);
    }
}

impl Default for Registered {
    fn default() -> Self {
        Registered::new()
    }
}

/// Registers a native type with the server.
///
/// # Safety
/// Called once per type, with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses the registration.
pub unsafe fn register<T: Native>(ctx: Ctx) -> Result<(), String> {
    // SAFETY: plain data; zero means that a callback is not set.
    let mut methods: raw::RedisModuleTypeMethods = unsafe { std::mem::zeroed() };
    // The highest version that Redis 7.0 supports.
    methods.version = 4;
    methods.rdb_load = Some(rdb_load::<T>);
    methods.rdb_save = Some(rdb_save::<T>);
    methods.aof_rewrite = Some(aof_rewrite::<T>);
    methods.digest = Some(digest::<T>);
    methods.free = Some(free::<T>);
    methods.mem_usage2 = Some(mem_usage::<T>);
    methods.free_effort2 = Some(free_effort::<T>);
    methods.unlink2 = Some(unlink::<T>);
    methods.copy2 = Some(copy::<T>);
    methods.defrag = Some(defrag::<T>);
    // SAFETY: main thread, the context of the load; the server copies the methods and the name.
    let made = unsafe {
        rm!(RedisModule_CreateDataType(
            ctx.raw(),
            T::NAME.as_ptr(),
            T::VERSION,
            &mut methods
        ))
    };
    if made.is_null() {
        return Err(format!(
            "the server refused the type {}",
            T::NAME.to_string_lossy()
        ));
    }
    T::registered().raw.store(made, Relaxed);
    Ok(())
}

/// Marks in an RDB file: `MORE` if another chunk follows, `END` at the end of the value.
const MORE: u64 = 1;
const END: u64 = 0;

extern "C" fn rdb_save<T: Native>(rdb: *mut raw::RedisModuleIO, value: *mut c_void) {
    // After a panic, do not write the end marker: without the marker, the server refuses the file
    // instead of reading it as complete.
    let _ = guarded("saving a value", || {
        // SAFETY: the server passes one of the module's values.
        let value = unsafe { &*value.cast::<T>() };
        value.save(&mut |chunk| {
            // SAFETY: `rdb` lives during the callback; the bytes are written before the call ends.
            unsafe {
                rm!(RedisModule_SaveUnsigned(rdb, MORE));
                rm!(RedisModule_SaveStringBuffer(
                    rdb,
                    chunk.as_ptr().cast(),
                    chunk.len()
                ));
            }
        });
        // SAFETY: as above.
        unsafe { rm!(RedisModule_SaveUnsigned(rdb, END)) };
    });
}

extern "C" fn rdb_load<T: Native>(rdb: *mut raw::RedisModuleIO, version: c_int) -> *mut c_void {
    let loaded = guarded("loading a value", || {
        let mut value = T::default();
        if version != T::VERSION {
            return Err(format!(
                "it has version {version}; this module reads version {}",
                T::VERSION
            ));
        }
        if !read_mark(rdb)? {
            return Err("it is empty".to_string());
        }
        loop {
            with_chunk(rdb, |chunk| value.load(chunk))?;
            if !read_mark(rdb)? {
                break;
            }
        }
        value.loaded()?;
        Ok(value)
    });
    match loaded {
        Ok(Ok(value)) => Box::into_raw(Box::new(value)).cast(),
        Ok(Err(error)) | Err(error) => {
            let what = T::WHAT;
            let text = format!("crawlspace: a {what} cannot be read: {error}");
            log(Ctx::none(), Level::Warning, &text);
            ptr::null_mut()
        }
    }
}

const TRUNCATED: &str = "it is truncated";

/// Reads a mark. Returns true if a chunk follows.
fn read_mark(rdb: *mut raw::RedisModuleIO) -> Result<bool, String> {
    // SAFETY: `rdb` lives during the callback; the mark is used only if there was no error.
    let (mark, failed) = unsafe {
        let mark = rm!(RedisModule_LoadUnsigned(rdb));
        (mark, rm!(RedisModule_IsIOError(rdb)) != 0)
    };
    match mark {
        _ if failed => Err(TRUNCATED.to_string()),
        MORE => Ok(true),
        END => Ok(false),
        _ => Err("a chunk is missing".to_string()),
    }
}

/// Reads a chunk. Always frees the server's copy.
fn with_chunk(
    rdb: *mut raw::RedisModuleIO,
    load: impl FnOnce(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    struct Buffer(*mut c_char);
    impl Drop for Buffer {
        fn drop(&mut self) {
            if !self.0.is_null() {
                // SAFETY: the server's allocator made the buffer, and this value frees it once.
                unsafe { rm!(RedisModule_Free(self.0.cast())) };
            }
        }
    }
    let mut len = 0;
    // SAFETY: as in `read_mark`.
    let (buffer, failed) = unsafe {
        let buffer = Buffer(rm!(RedisModule_LoadStringBuffer(rdb, &mut len)));
        (buffer, rm!(RedisModule_IsIOError(rdb)) != 0)
    };
    if failed || buffer.0.is_null() {
        return Err(TRUNCATED.to_string());
    }
    // SAFETY: the server returned `len` bytes, which live as long as the buffer.
    load(unsafe { std::slice::from_raw_parts(buffer.0.cast::<u8>(), len) })
}

extern "C" fn aof_rewrite<T: Native>(
    aof: *mut raw::RedisModuleIO,
    key: *mut raw::RedisModuleString,
    value: *mut c_void,
) {
    let _ = guarded("rewriting a value", || {
        // SAFETY: the server passes one of the module's values.
        let value = unsafe { &*value.cast::<T>() };
        value.save(&mut |chunk| {
            // SAFETY: `aof` and `key` live during the callback; the format matches the arguments,
            // which are written before the call ends.
            unsafe {
                rm!(RedisModule_EmitAOF(
                    aof,
                    T::REBUILT_BY.as_ptr(),
                    c"scb".as_ptr(),
                    key,
                    T::REBUILT_WITH.as_ptr(),
                    chunk.as_ptr(),
                    chunk.len()
                ));
            }
        });
    });
}

extern "C" fn digest<T: Native>(digest: *mut raw::RedisModuleDigest, value: *mut c_void) {
    let _ = guarded("the digest of a value", || {
        // SAFETY: the server passes one of the module's values; `digest` lives during the callback.
        unsafe {
            let value = &*value.cast::<T>();
            // The server combines the elements regardless of their order.
            value.elements(&mut |parts| {
                for part in parts {
                    // The length precedes each part, so that different lists of parts have
                    // different digests.
                    rm!(RedisModule_DigestAddLongLong(digest, part.len() as i64));
                    rm!(RedisModule_DigestAddStringBuffer(
                        digest,
                        part.as_ptr().cast(),
                        part.len()
                    ));
                }
                rm!(RedisModule_DigestEndSequence(digest));
            });
        }
    });
}

extern "C" fn free<T: Native>(value: *mut c_void) {
    // Any thread of the server may call this.
    T::registered().note_loss();
    let _ = guarded("freeing a value", || {
        // SAFETY: the value was made by `Box::into_raw`, and the server returns each value exactly
        // once.
        drop(unsafe { Box::from_raw(value.cast::<T>()) });
    });
}

/// Called when a value leaves its key, before the server frees it or stores it elsewhere.
extern "C" fn unlink<T: Native>(_: *mut raw::RedisModuleKeyOptCtx, _: *const c_void) {
    T::registered().note_loss();
}

extern "C" fn mem_usage<T: Native>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
    _samples: usize,
) -> usize {
    // SAFETY: the server passes one of the module's values.
    guarded("the size of a value", || unsafe {
        (*value.cast::<T>()).memory()
    })
    .unwrap_or(0)
}

extern "C" fn free_effort<T: Native>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> usize {
    // SAFETY: the server passes one of the module's values.
    guarded("the effort to free a value", || unsafe {
        // Zero would make the server always free the value in the background.
        (*value.cast::<T>()).free_effort().max(1)
    })
    .unwrap_or(1)
}

extern "C" fn copy<T: Native>(
    _: *mut raw::RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    // SAFETY: the server passes one of the module's values.
    let copied = guarded("copying a value", || unsafe {
        (*value.cast::<T>()).clone()
    });
    match copied {
        Ok(value) => Box::into_raw(Box::new(value)).cast(),
        // Null tells the server that the value cannot be copied.
        Err(_) => ptr::null_mut(),
    }
}

/// Defragments the value until the server's time limit is reached. Returns 0 when the whole value
/// is done.
extern "C" fn defrag<T: Native>(
    ctx: *mut raw::RedisModuleDefragCtx,
    _: *mut raw::RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guarded("moving a value", || {
        // SAFETY: main thread; the server passes the location of one of the module's values, and
        // its allocator moves allocations as `Mover` requires, because it is the global allocator.
        unsafe {
            let mut cursor = 0;
            // A cursor exists only if the server continues with a value.
            if rm!(RedisModule_DefragCursorGet(ctx, &mut cursor)) != raw::REDISMODULE_OK as c_int {
                cursor = 0;
            }
            if cursor == 0 {
                let moved = rm!(RedisModule_DefragAlloc(ctx, *value));
                if !moved.is_null() {
                    *value = moved;
                    T::registered().note_loss();
                }
            }
            let mut ask = |piece: *mut u8| rm!(RedisModule_DefragAlloc(ctx, piece.cast())).cast();
            let mut time = || rm!(RedisModule_DefragShouldStop(ctx)) == 0;
            let next =
                (**value.cast::<*mut T>()).defrag(cursor, &mut Mover::new(&mut ask), &mut time);
            if next != 0 {
                rm!(RedisModule_DefragCursorSet(ctx, next));
            }
            c_int::from(next != 0)
        }
    })
    .unwrap_or(0)
}
