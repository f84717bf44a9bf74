//! The types and calls of the raw module API.
//!
//! The server fills the function table when it loads the module, and the table never changes; all
//! calls must be made on the server's main thread. The safe wrapper of the crate `redis_module` is
//! not used: it lacks most functions that this module needs, and a look-up would spend a fifth of
//! its time in the wrapper.

pub use redis_module::raw;

use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::os::raw::{c_char, c_int};
use std::ptr;

/// Calls a function of the module API.
///
/// The caller must ensure safety: the call needs the server's main thread and live pointers.
#[macro_export]
macro_rules! rm {
    ($name:ident ( $($arg:expr),* $(,)? )) => {
        // All functions that the module uses exist since Redis 7.0. On older servers, loading fails
        // before this point.
        ($crate::server::api::raw::$name.expect(stringify!($name)))($($arg),*)
    };
}
pub use crate::rm;

/// A context as the server passes it to a callback.
pub type RawCtx = *mut raw::RedisModuleCtx;

/// A module context: the client and the database on whose behalf the module calls the API. A
/// context is valid while the callback that received it runs. The detached context lives as long as
/// the module.
#[derive(Clone, Copy, Debug)]
pub struct Ctx(RawCtx);

impl Ctx {
    /// Wraps a context of the server.
    ///
    /// # Safety
    /// The context outlives the result, which is used only on the main thread.
    pub unsafe fn new(raw: RawCtx) -> Ctx {
        Ctx(raw)
    }

    /// Creates a null context, for calls that accept one.
    pub const fn none() -> Ctx {
        Ctx(ptr::null_mut())
    }

    /// Returns the raw pointer for a call of the module API.
    pub fn raw(self) -> RawCtx {
        self.0
    }
}

/// An owned reference to a server string.
#[derive(Debug)]
pub struct RmString {
    raw: *mut raw::RedisModuleString,
    bytes: *const u8,
    len: usize,
}

impl RmString {
    /// Creates a string from any bytes.
    pub fn new(bytes: &[u8]) -> RmString {
        // SAFETY: main thread; a string without context is released by `drop`.
        unsafe {
            RmString::from_owned(rm!(RedisModule_CreateString(
                ptr::null_mut(),
                bytes.as_ptr().cast(),
                bytes.len()
            )))
        }
    }

    /// Takes ownership of a reference.
    ///
    /// # Safety
    /// `raw` is a live string, and the caller owns the reference.
    pub(crate) unsafe fn from_owned(raw: *mut raw::RedisModuleString) -> RmString {
        // SAFETY: `raw` is alive by contract.
        let bytes = unsafe { string_bytes(raw) };
        RmString {
            raw,
            bytes: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// Takes another reference to a string owned elsewhere, such as an argument.
    ///
    /// # Safety
    /// `raw` is a live string.
    pub unsafe fn shared(raw: *mut raw::RedisModuleString) -> RmString {
        // SAFETY: by contract; this value owns the new reference.
        unsafe {
            rm!(RedisModule_RetainString(ptr::null_mut(), raw));
            RmString::from_owned(raw)
        }
    }

    /// Frees the unused memory of the string, for readers that outlive the command. The server
    /// itself does so for long arguments that are still referenced when the command returns; their
    /// bytes may then move.
    ///
    /// # Safety
    /// No code may read the bytes of the string at their old address after this call.
    pub(crate) unsafe fn trimmed(self) -> RmString {
        // SAFETY: main thread; the string is alive. `from_owned` takes over the reference that `ManuallyDrop`
        // does not release.
        unsafe {
            rm!(RedisModule_TrimStringAllocation(self.raw));
            RmString::from_owned(ManuallyDrop::new(self).raw)
        }
    }

    /// Returns the raw string and gives up this reference, for a call that takes it over.
    pub(crate) fn into_raw(self) -> *mut raw::RedisModuleString {
        ManuallyDrop::new(self).raw
    }

    /// Returns the raw string for a call that only reads it or takes its own reference.
    pub fn raw(&self) -> *mut raw::RedisModuleString {
        self.raw
    }
}

impl AsRef<[u8]> for RmString {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the string is alive. Neither a shared string nor one that this value owns is ever
        // changed.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }
}

impl Clone for RmString {
    fn clone(&self) -> Self {
        // SAFETY: main thread; the string is alive. The new reference is released by `drop`.
        unsafe { rm!(RedisModule_RetainString(ptr::null_mut(), self.raw)) };
        RmString { ..*self }
    }
}

impl Drop for RmString {
    fn drop(&mut self) {
        // SAFETY: main thread; this value owns the reference, which is not used again.
        unsafe { rm!(RedisModule_FreeString(ptr::null_mut(), self.raw)) };
    }
}

/// Returns the bytes of a server string.
///
/// # Safety
/// The string lives and is not changed for `'a`.
#[inline]
pub(crate) unsafe fn string_bytes<'a>(raw: *const raw::RedisModuleString) -> &'a [u8] {
    let mut len = 0;
    // SAFETY: `raw` is alive by contract.
    unsafe {
        let ptr = rm!(RedisModule_StringPtrLen(raw, &mut len));
        std::slice::from_raw_parts(ptr.cast(), len)
    }
}

/// Converts text for the server to a C string. The module's own text is ASCII. Other characters are
/// replaced, because the server treats each byte as a character.
pub(crate) fn c_string(text: &str) -> CString {
    let ascii: Vec<u8> = text
        .bytes()
        .map(|b| match b {
            0 | b'\r' | b'\n' => b' ',
            0x80.. => b'?',
            b => b,
        })
        .collect();
    CString::new(ascii).expect("NUL was replaced")
}

/// Log level of the server.
#[derive(Clone, Copy, Debug)]
pub enum Level {
    /// Information for operators.
    Notice,
    /// A problem on which an operator should act.
    Warning,
}

/// Writes a line to the server's log. `text` is passed as an argument of the format string, never
/// as the format string itself.
pub fn log(ctx: Ctx, level: Level, text: &str) {
    let level: *const c_char = match level {
        Level::Notice => c"notice".as_ptr(),
        Level::Warning => c"warning".as_ptr(),
    };
    let text = c_string(text);
    // SAFETY: main thread; the format takes exactly one string.
    unsafe {
        rm!(RedisModule_Log(
            ctx.raw(),
            level,
            c"%s".as_ptr(),
            text.as_ptr()
        ))
    };
}

/// Returns the flags of a context.
pub fn context_flags(ctx: Ctx) -> u32 {
    // SAFETY: main thread; for a null context, the call returns the server's own flags.
    unsafe { rm!(RedisModule_GetContextFlags(ctx.raw())) as u32 }
}

/// Returns the selected database of a context.
pub fn selected_db(ctx: Ctx) -> c_int {
    // SAFETY: main thread, live context.
    unsafe { rm!(RedisModule_GetSelectedDb(ctx.raw())) }
}
