//! A filter that redirects some calls of the server's own commands to commands of this module.
//!
//! The server calls the filter before every command of every client, so it must reject other calls
//! in a few instructions. The filter only changes the name of the command; the server then checks
//! permissions, slots and memory for the new command.

use std::os::raw::c_int;
use std::ptr;

use super::api::{Ctx, RmString, raw, rm, string_bytes};
use super::guard::guarded;
use super::main_thread::MainThread;

/// Returns the name of the command that is to run instead of this call, if any. Must not call the
/// server.
pub type Rename = fn(&Words<'_>) -> Option<&'static str>;

/// The words of a call that has not been looked up yet.
pub struct Words<'a> {
    call: *mut raw::RedisModuleCommandFilterCtx,
    first: &'a [u8],
    len: usize,
}

impl<'a> Words<'a> {
    /// Returns the number of words, including the name of the command.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no words.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the name of the command, as the client sent it.
    pub fn name(&self) -> &'a [u8] {
        self.first
    }

    /// Returns the word at this position, which must be less than [`Words::len`].
    pub fn get(&self, position: usize) -> &'a [u8] {
        // SAFETY: main thread, within a call of the filter; the strings live until it returns, because
        // only the name is replaced, after the last use of these bytes.
        unsafe { string_bytes(argument(self.call, position)) }
    }
}

/// # Safety
/// Called within a call of the filter, with a position below the number of words.
unsafe fn argument(
    call: *mut raw::RedisModuleCommandFilterCtx,
    position: usize,
) -> *const raw::RedisModuleString {
    // SAFETY: by contract.
    unsafe { rm!(RedisModule_CommandFilterArgGet(call, position as c_int)) }
}

struct Filter {
    /// The registered filter; null while none is registered.
    registered: *mut raw::RedisModuleCommandFilter,
    rename: Option<Rename>,
}

static FILTER: MainThread<Filter> = MainThread::new(Filter {
    registered: ptr::null_mut(),
    rename: None,
});

/// Registers the filter, or unregisters it if `rename` is `None`. Unregister it from a timer only,
/// because the server must not be iterating over its list of filters.
pub fn set(ctx: Ctx, rename: Option<Rename>) {
    let mut filter = FILTER.borrow();
    filter.rename = rename;
    // SAFETY: main thread, live context; a registered filter is unregistered once.
    unsafe {
        if rename.is_none() && !filter.registered.is_null() {
            rm!(RedisModule_UnregisterCommandFilter(
                ctx.raw(),
                filter.registered
            ));
            filter.registered = ptr::null_mut();
        } else if rename.is_some() && filter.registered.is_null() {
            // Without this flag, the filter would also apply to the module's own calls, in an
            // endless recursion.
            let not_own = raw::REDISMODULE_CMDFILTER_NOSELF as c_int;
            filter.registered = rm!(RedisModule_RegisterCommandFilter(
                ctx.raw(),
                Some(filter_call),
                not_own
            ));
        }
    }
}

extern "C" fn filter_call(call: *mut raw::RedisModuleCommandFilterCtx) {
    let Some(rename) = FILTER.try_borrow().and_then(|filter| filter.rename) else {
        return;
    };
    // SAFETY: main thread, within a call of the filter.
    let len = unsafe { rm!(RedisModule_CommandFilterArgsCount(call)) } as usize;
    if len == 0 {
        return;
    }
    // SAFETY: as above; there is a first word.
    let first = unsafe { string_bytes(argument(call, 0)) };
    let words = Words { call, first, len };
    let Ok(Some(name)) = guarded("a command filter", || rename(&words)) else {
        return;
    };
    let name = RmString::new(name.as_bytes()).into_raw();
    // SAFETY: as above; the server takes over the reference to the name.
    unsafe { rm!(RedisModule_CommandFilterArgReplace(call, 0, name)) };
}
