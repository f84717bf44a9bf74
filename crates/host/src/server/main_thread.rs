//! State of the module, which only the server's main thread touches.

use std::cell::{RefCell, RefMut};

/// A value that lives as long as the module and belongs to the server's main thread.
pub struct MainThread<T>(RefCell<T>);

// SAFETY: every callback of this module that reaches such a value runs on the server's main
// thread: commands, timers, event-loop and keyspace callbacks, server events, replies to blocked
// clients. The threads of `worker` reach none.
unsafe impl<T> Sync for MainThread<T> {}

impl<T> MainThread<T> {
    /// A value for a `static`.
    pub const fn new(value: T) -> MainThread<T> {
        MainThread(RefCell::new(value))
    }

    /// The value, for a short time in which nothing of the server is called that could call back
    /// for the same value.
    ///
    /// # Panics
    /// When it is borrowed already, which the panic guard turns into an error reply.
    pub fn borrow(&self) -> RefMut<'_, T> {
        self.0.borrow_mut()
    }

    /// The value, unless a callback arrived in the middle of its use.
    pub fn try_borrow(&self) -> Option<RefMut<'_, T>> {
        self.0.try_borrow_mut().ok()
    }
}
