//! Facts from the server's `INFO`, and a check whether the server may evict keys.

use std::ffi::CStr;
use std::os::raw::c_char;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::api::{Ctx, Level, log, rm};

/// Logs a warning each time the server's eviction policy changes to one that could destroy an
/// index.
pub(crate) fn warn_of_eviction(ctx: Ctx) {
    static WARNED: AtomicBool = AtomicBool::new(false);
    let evicts = policy_may_evict();
    if evicts && !WARNED.swap(evicts, Relaxed) {
        log(
            ctx,
            Level::Warning,
            "crawlspace: maxmemory-policy may evict keys, which destroys an index; set it to noeviction",
        );
    }
    WARNED.store(evicts, Relaxed);
}

/// Returns true if the server may evict keys without expiry when memory is short.
pub(crate) fn policy_may_evict() -> bool {
    server_info(c"memory", c"maxmemory_policy").is_some_and(|policy| policy.starts_with("allkeys"))
}

/// Returns a field of a section of `INFO`.
pub(crate) fn server_info(section: &CStr, field: &CStr) -> Option<String> {
    // SAFETY: main thread; the server data is released after the text was copied.
    unsafe {
        let info = rm!(RedisModule_GetServerInfo(ptr::null_mut(), section.as_ptr()));
        if info.is_null() {
            return None;
        }
        let text: *const c_char = rm!(RedisModule_ServerInfoGetFieldC(info, field.as_ptr()));
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        rm!(RedisModule_FreeServerInfo(ptr::null_mut(), info));
        text
    }
}
