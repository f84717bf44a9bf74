//! Values of our own types, as the commands use them.

use std::os::raw::c_int;

use crate::keyspace::{KeyError, Kind, Result};
use crate::server::api::{raw, rm, RmString};
use crate::server::native::Native;

use super::RedisKeyspace;

/// How a change of a value is told to replicas, the append-only file and listeners.
pub struct Told {
    /// What does the same there.
    pub by: By,
    /// The keyspace event.
    pub event: &'static std::ffi::CStr,
}

/// What makes a change in another place.
pub enum By {
    /// [`Native::REBUILT_BY`] with these arguments after the key.
    Arguments(Vec<Vec<u8>>),
    /// The command that is running, as it was given. It must come to the same there.
    TheCommand,
}

impl RedisKeyspace {
    /// The value of a key; `None` when there is no such key.
    pub fn native<T: Native>(&mut self, key: &RmString) -> Result<Option<&T>> {
        let handle = self.handle(key, Kind::Native(T::WHAT), false)?;
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(None);
        }
        let value = value_of::<T>(handle, key)?;
        // SAFETY: one of our values, alive while the key stays open, which `self` sees to, and
        // nobody changes it while `self` is borrowed.
        Ok(Some(unsafe { &*value }))
    }

    /// Changes the value of a key, and tells of it if there was a change. A key that is not there
    /// is made if the change may do so, and goes when nothing is left in it. What the change does to a
    /// new value counts only if it tells of it.
    pub fn change_native<T: Native, R>(
        &mut self,
        key: &RmString,
        makes: bool,
        change: impl FnOnce(&mut T) -> (R, Option<Told>),
    ) -> Result<Option<R>> {
        // Opened for writing is only what has changed: the server tells all who watch the key.
        let handle = self.handle(key, Kind::Native(T::WHAT), false)?;
        if handle.is_null() || Self::is_empty(handle) {
            if !makes {
                return Ok(None);
            }
            let mut value = T::default();
            let (changed, told) = change(&mut value);
            if let Some(told) = told.filter(|_| !value.is_empty()) {
                self.flush();
                let handle = self.handle(key, Kind::Native(T::WHAT), true)?;
                let value = Box::into_raw(Box::new(value));
                // SAFETY: main thread, key open for writing; the value is the server's from now on.
                unsafe {
                    rm!(RedisModule_ModuleTypeSetValue(
                        handle,
                        T::registered().raw(),
                        value.cast()
                    ));
                }
                self.tell::<T>(key, &told, false);
            }
            return Ok(Some(changed));
        }
        let value = value_of::<T>(handle, key)?;
        // SAFETY: as in `native`; nobody else looks at it meanwhile.
        let value = unsafe { &mut *value };
        let (changed, told) = change(value);
        let emptied = value.is_empty();
        if let Some(told) = told {
            self.flush();
            let handle = self.handle(key, Kind::Native(T::WHAT), true)?;
            if emptied {
                // SAFETY: main thread, key open for writing; the value is not used again.
                unsafe { rm!(RedisModule_DeleteKey(handle)) };
            }
            self.tell::<T>(key, &told, emptied);
        }
        Ok(Some(changed))
    }

    fn tell<T: Native>(&mut self, key: &RmString, told: &Told, emptied: bool) {
        match &told.by {
            By::TheCommand => {
                // SAFETY: main thread, live context of the command.
                unsafe { rm!(RedisModule_ReplicateVerbatim(self.ctx.raw())) };
            }
            By::Arguments(arguments) => {
                let strings: Vec<RmString> = arguments.iter().map(|a| RmString::new(a)).collect();
                let mut arguments: Vec<_> = strings.iter().map(RmString::raw).collect();
                // SAFETY: main thread, live context; the format matches the arguments, and the server
                // takes its own references.
                unsafe {
                    rm!(RedisModule_Replicate(
                        self.ctx.raw(),
                        T::REBUILT_BY.as_ptr(),
                        c"sv".as_ptr(),
                        key.raw(),
                        arguments.as_mut_ptr(),
                        arguments.len()
                    ));
                }
            }
        }
        self.notify(
            raw::REDISMODULE_NOTIFY_MODULE as c_int,
            told.event,
            key,
            emptied,
        );
    }
}

/// The value that an open key holds.
fn value_of<T: Native>(handle: *mut raw::RedisModuleKey, key: &RmString) -> Result<*mut T> {
    // SAFETY: main thread, open key with a module's value.
    let (of, value) = unsafe {
        (
            rm!(RedisModule_ModuleTypeGetType(handle)),
            rm!(RedisModule_ModuleTypeGetValue(handle)),
        )
    };
    if of == T::registered().raw() && !value.is_null() {
        Ok(value.cast())
    } else {
        Err(KeyError::WrongType {
            key: key.as_ref().to_vec(),
            needs: Kind::Native(T::WHAT),
        })
    }
}
