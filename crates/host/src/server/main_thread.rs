//! Module state that only the server's main thread accesses.

use std::cell::{RefCell, RefMut};

/// A value that lives as long as the module and that only the server's main thread accesses.
pub struct MainThread<T>(RefCell<T>);

// SAFETY: every callback of this module that accesses such a value runs on the server's main
// thread: commands, timers, event-loop and keyspace callbacks, server events, replies to blocked
// clients. Threads of `worker` do not access such values.
unsafe impl<T> Sync for MainThread<T> {}

impl<T> MainThread<T> {
    /// Creates the value, for a `static`.
    pub const fn new(value: T) -> MainThread<T> {
        MainThread(RefCell::new(value))
    }

    /// Borrows the value. While the value is borrowed, do not call functions of the server that can
    /// call back into code that borrows the value again.
    ///
    /// # Panics
    /// Panics if the value is already borrowed; the panic guard turns the panic into an error
    /// reply.
    pub fn borrow(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }

    /// Borrows the value. Returns `None` if the value is already borrowed, because a callback runs
    /// while the value is in use.
    pub fn try_borrow(&self) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }
}
