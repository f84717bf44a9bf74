//! File descriptors that wake the server's event loop.

use std::os::raw::{c_int, c_void};

use super::api::{raw, rm};

/// Callback on the main thread, called when the descriptor is readable.
pub(crate) type Woken = extern "C" fn(c_int, *mut c_void, c_int);

/// Adds a descriptor to the event loop, for the life of the process.
///
/// # Safety
/// Called on the main thread, while the module loads; the descriptor is open and owned by the module.
pub unsafe fn listen(descriptor: c_int, woken: Woken) -> Result<(), String> {
    // SAFETY: by contract.
    let added = unsafe {
        rm!(RedisModule_EventLoopAdd(
            descriptor,
            raw::REDISMODULE_EVENTLOOP_READABLE as c_int,
            Some(woken),
            std::ptr::null_mut()
        ))
    };
    if added == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err("the server's event loop refused a descriptor".to_string())
    }
}

/// Creates an event descriptor with which any thread can wake the event loop.
///
/// # Safety
/// Same as [`listen`].
pub(crate) unsafe fn bell(woken: Woken) -> Result<c_int, String> {
    // SAFETY: by contract; the module owns the descriptor for the life of the process.
    unsafe {
        let bell = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
        if bell < 0 {
            return Err("creating an event descriptor failed".to_string());
        }
        listen(bell, woken)?;
        Ok(bell)
    }
}

/// Wakes the event loop. Any thread may call this.
pub fn ring(bell: c_int) {
    let one: u64 = 1;
    // SAFETY: an event descriptor of the module accepts 8 bytes. If the counter is full and the
    // write fails, the event loop wakes anyway.
    unsafe { libc::write(bell, (&raw const one).cast(), 8) };
}

/// Drains an event or timer descriptor, so that it does not wake the event loop again.
pub fn heard(descriptor: c_int) {
    let mut n: u64 = 0;
    // SAFETY: reads the 8-byte counter of an eventfd or timerfd that the module owns.
    unsafe { libc::read(descriptor, (&raw mut n).cast(), 8) };
}
