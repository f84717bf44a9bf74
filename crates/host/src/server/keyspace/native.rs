//! Native values, as commands read and change them.

use std::ffi::CStr;
use std::os::raw::{c_int, c_void};

use crate::keyspace::{KeyError, KeyType, Result};
use crate::server::api::{RmString, raw, rm};
use crate::server::cluster::in_cluster;
use crate::server::native::Native;
use crate::server::replication::replicate;

use super::RedisKeyspace;
use super::open::{OpenKey, check_type};

/// Describes how a change of a value is replicated and announced.
pub struct Replicated<'a> {
    /// Command to replicate.
    pub by: By<'a>,
    /// Name of the keyspace event.
    pub event: &'static std::ffi::CStr,
}

/// Command that repeats a change on replicas and in the append-only file.
pub enum By<'a> {
    /// [`Native::REBUILT_BY`] with these arguments after the key. The arguments are computed only
    /// if there is a replica or an append-only file.
    Arguments(&'a dyn Fn() -> Vec<Vec<u8>>),
    /// [`Native::REBUILT_BY`] with one argument after the key.
    Log(&'a [u8]),
    /// The running command, unchanged. The command must have the same effect on a replica.
    TheCommand,
    /// Nothing: the caller replicates the change in another way.
    Nothing,
}

/// Maximum number of bytes of changes that are replicated as one command.
const GATHERED_BYTES: usize = 256 << 10;

/// Combines many small changes of one value into one replicated command: [`Native::REBUILT_BY`] `key word beside log`.
#[derive(Clone, Copy)]
pub struct Gathering {
    /// The `word` of this command.
    pub word: &'static CStr,
    /// Name of the keyspace event.
    pub event: &'static CStr,
}

/// Changes that are made but not replicated yet.
pub(super) struct Gathered {
    key: RmString,
    /// Another key to which the changes refer, if any.
    beside: Option<RmString>,
    handle: OpenKey,
    replicated: Gathering,
    command: &'static CStr,
    is_empty: fn(*mut c_void) -> bool,
    log: Vec<u8>,
    /// A number that the code appending to the log stores between two changes.
    mark: usize,
}

impl Gathered {
    fn takes(&self, key: &RmString, beside: Option<&RmString>) -> bool {
        let same = |a: &RmString, b: &RmString| a.raw() == b.raw() || a.as_ref() == b.as_ref();
        let beside = match (&self.beside, beside) {
            (Some(mine), Some(other)) => same(mine, other),
            _ => true,
        };
        beside && same(&self.key, key) && self.log.len() < GATHERED_BYTES
    }
}

/// Number of uses for which a [`Place`] is valid before the key is opened again. The server
/// considers only opened keys as used, so it would evict a key that is never opened.
const USES: u32 = 256;

/// The place in memory of a key's value, for access without opening the key. Drop the place when
/// another client changes the key, because the change may give the key a time to live.
pub struct Place<T> {
    value: *mut T,
    losses: u64,
    uses: u32,
}

impl<T: Native> Place<T> {
    /// Returns the value, unless the key must be opened again.
    pub fn value(&mut self) -> Option<&T> {
        self.count_use()?;
        self.peek()
    }

    /// Returns a pointer to the value, unless the key must be opened again. The pointer is valid like
    /// that of [`RedisKeyspace::native_pointer`].
    pub fn pointer(&mut self) -> Option<*mut T> {
        self.count_use()?;
        self.is_valid().then_some(self.value)
    }

    fn count_use(&mut self) -> Option<()> {
        self.uses = self.uses.checked_sub(1)?;
        Some(())
    }

    fn is_valid(&self) -> bool {
        self.losses == T::registered().losses()
    }

    /// Returns the value without counting a use of the key. Returns `None` if the value may have
    /// moved.
    pub fn peek(&self) -> Option<&T> {
        if !self.is_valid() {
            return None;
        }
        // SAFETY: main thread; since the place was noted, no value of this type has left its key or
        // moved, so the key still has this value. No code changes it while the result is in use,
        // because a change needs a call of the server.
        Some(unsafe { &*self.value })
    }
}

fn holds_nothing<T: Native>(value: *mut c_void) -> bool {
    // SAFETY: called with the value of an open key that was created as a `T`.
    unsafe { (*value.cast::<T>()).is_empty() }
}

impl RedisKeyspace {
    /// Changes the value of a key. Creates a missing key, and deletes a key whose value becomes empty.
    /// `change` gets the value, the log, and a mark, and appends to the log the data with which replicas
    /// repeat the change. `beside` is the name of another key, which is replicated with the log. The mark is
    /// 0 at the start of a log, and then has the value that the previous change assigned.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn gather_native<T: Native, R>(
        &mut self,
        key: &RmString,
        beside: Option<&RmString>,
        replicated: Gathering,
        change: impl FnOnce(&mut T, &mut Vec<u8>, &mut usize) -> R,
    ) -> Result<R> {
        let fits = self.gathered.as_ref().is_some_and(|g| g.takes(key, beside));
        if !fits {
            self.flush();
            let handle = OpenKey::open(self.ctx, key, true);
            check_type(&handle, key, KeyType::Native(T::WHAT))?;
            if Self::is_empty(handle.raw()) {
                let value = Box::into_raw(Box::<T>::default());
                // SAFETY: main thread, key open for writing; the server owns the value from now on.
                unsafe {
                    rm!(RedisModule_ModuleTypeSetValue(
                        handle.raw(),
                        T::registered().raw(),
                        value.cast()
                    ));
                }
                // A handle that was opened while the key was missing does not see the new key.
                self.close_reads(key);
            }
            self.gathered = Some(Gathered {
                key: key.clone(),
                beside: None,
                handle,
                replicated,
                command: T::REBUILT_BY,
                is_empty: holds_nothing::<T>,
                log: Vec::new(),
                mark: 0,
            });
        }
        let gathered = self.gathered.as_mut().expect("made above");
        if gathered.beside.is_none() {
            gathered.beside = beside.cloned();
        }
        let value = value_of::<T>(gathered.handle.raw(), key)?;
        // SAFETY: a value of the module, in an open key; nothing else accesses it meanwhile.
        let value = unsafe { &mut *value };
        Ok(change(value, &mut gathered.log, &mut gathered.mark))
    }

    /// Replicates and announces the recorded changes.
    pub(super) fn replicate_gathered(&mut self, gathered: Gathered) {
        let Gathered {
            key,
            beside,
            handle,
            replicated,
            command,
            is_empty,
            log,
            ..
        } = gathered;
        // SAFETY: main thread, open key with a value of the type that `is_empty` expects.
        let emptied = is_empty(unsafe { rm!(RedisModule_ModuleTypeGetValue(handle.raw())) });
        if emptied {
            self.close_reads(&key);
            // SAFETY: main thread, key open for writing; the value is not used again.
            unsafe { rm!(RedisModule_UnlinkKey(handle.raw())) };
        }
        drop(handle);
        if log.is_empty() {
            return;
        }
        let beside = beside.unwrap_or_else(|| RmString::new(b""));
        // SAFETY: main thread, live context; the format matches the arguments, and the server takes
        // its own references and copies.
        replicate(self.ctx, || unsafe {
            rm!(RedisModule_Replicate(
                self.ctx.raw(),
                command.as_ptr(),
                c"scsb".as_ptr(),
                key.raw(),
                replicated.word.as_ptr(),
                beside.raw(),
                log.as_ptr(),
                log.len()
            ));
        });
        self.notify(
            raw::REDISMODULE_NOTIFY_MODULE as c_int,
            replicated.event,
            &key,
            emptied,
        );
    }

    /// Replicates the recorded changes of this key, if there are any, so that the server sees its
    /// current value.
    pub(super) fn settle(&mut self, key: &RmString) {
        let this = |gathered: &mut Gathered| gathered.key.as_ref() == key.as_ref();
        if let Some(gathered) = self.gathered.take_if(this) {
            self.replicate_gathered(gathered);
        }
    }

    /// Returns `Some(true)` if the key holds a value of this type, `Some(false)` for any other type, and `None` for a
    /// missing key.
    pub fn holds_native<T: Native>(&mut self, key: &RmString) -> Option<bool> {
        self.settle(key);
        let handle = OpenKey::open(self.ctx, key, false);
        (!handle.is_null()).then(|| {
            // SAFETY: main thread, open key.
            let of = unsafe { rm!(RedisModule_ModuleTypeGetType(handle.raw())) };
            of == T::registered().raw()
        })
    }

    /// Returns the value of a key, or `None` for a missing key.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn native<T: Native>(&mut self, key: &RmString) -> Result<Option<&T>> {
        let handle = self.handle(key, KeyType::Native(T::WHAT), false)?;
        if handle.is_null() {
            return Ok(None);
        }
        match value_of::<T>(handle, key) {
            // SAFETY: a value of the module, alive while the key stays open, which `self` ensures;
            // nothing changes it while `self` is borrowed.
            Ok(value) => Ok(Some(unsafe { &*value })),
            Err(_) if Self::is_empty(handle) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the place of the value of a key. Returns `None` for a missing key, for a key with a
    /// time to live (it may expire at any time), and in a cluster (a slot may move to another node
    /// with its keys).
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn place<T: Native>(&mut self, key: &RmString) -> Result<Option<Place<T>>> {
        if in_cluster() {
            return Ok(None);
        }
        let handle = self.handle(key, KeyType::Native(T::WHAT), false)?;
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(None);
        }
        // SAFETY: main thread, open key.
        let expires = unsafe { rm!(RedisModule_GetExpire(handle)) };
        if expires != raw::REDISMODULE_NO_EXPIRE.into() {
            return Ok(None);
        }
        let value = value_of::<T>(handle, key)?;
        Ok(Some(Place {
            value,
            losses: T::registered().losses(),
            uses: USES,
        }))
    }

    /// Returns a pointer to the value of a key; null for a missing key. The pointer is valid until
    /// this key space writes to the key or closes it, or until another key space deletes it.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn native_pointer<T: Native>(&mut self, key: &RmString) -> Result<*mut T> {
        let handle = self.handle(key, KeyType::Native(T::WHAT), false)?;
        if handle.is_null() || Self::is_empty(handle) {
            return Ok(std::ptr::null_mut());
        }
        value_of::<T>(handle, key)
    }

    /// Changes the value of a key, and replicates the change if `change` returns a command. With
    /// `makes`, creates a missing key. Deletes a key whose value becomes empty. Stores a new value
    /// only if `change` returns a command.
    ///
    /// # Errors
    /// `WRONGTYPE` if the key holds another type.
    pub fn change_native<'a, T: Native, R>(
        &mut self,
        key: &RmString,
        makes: bool,
        change: impl FnOnce(&mut T) -> (R, Option<Replicated<'a>>),
    ) -> Result<Option<R>> {
        // Open the key for reading, because opening it for writing signals it as modified.
        let handle = self.handle(key, KeyType::Native(T::WHAT), false)?;
        if handle.is_null() || Self::is_empty(handle) {
            if !makes {
                return Ok(None);
            }
            let mut value = T::default();
            let (changed, replicated) = change(&mut value);
            if let Some(replicated) = replicated.filter(|_| !value.is_empty()) {
                self.flush();
                let handle = self.handle(key, KeyType::Native(T::WHAT), true)?;
                let value = Box::into_raw(Box::new(value));
                // SAFETY: main thread, key open for writing; the server owns the value from now on.
                unsafe {
                    rm!(RedisModule_ModuleTypeSetValue(
                        handle,
                        T::registered().raw(),
                        value.cast()
                    ));
                }
                self.tell::<T>(key, &replicated, false);
            }
            return Ok(Some(changed));
        }
        let value = value_of::<T>(handle, key)?;
        // SAFETY: as in `native`; nothing else accesses it meanwhile.
        let value = unsafe { &mut *value };
        let (changed, replicated) = change(value);
        let emptied = value.is_empty();
        if let Some(replicated) = replicated {
            if emptied {
                self.flush();
                let handle = self.handle(key, KeyType::Native(T::WHAT), true)?;
                // SAFETY: main thread, key open for writing; the value is not used again.
                unsafe { rm!(RedisModule_UnlinkKey(handle)) };
                self.tell::<T>(key, &replicated, true);
            } else {
                self.note_change::<T>(key, &replicated);
            }
        }
        Ok(Some(changed))
    }

    /// Replicates and announces a change that was made to the value of a key in place.
    pub fn note_change<T: Native>(&mut self, key: &RmString, replicated: &Replicated<'_>) {
        self.flush();
        // Closing the key does not signal the change.
        // SAFETY: main thread, live context and name.
        unsafe { rm!(RedisModule_SignalModifiedKey(self.ctx.raw(), key.raw())) };
        self.tell::<T>(key, replicated, false);
    }

    fn tell<T: Native>(&mut self, key: &RmString, replicated: &Replicated<'_>, emptied: bool) {
        match &replicated.by {
            By::Nothing => {}
            By::TheCommand => {
                // SAFETY: main thread, live context of the command.
                unsafe { rm!(RedisModule_ReplicateVerbatim(self.ctx.raw())) };
            }
            By::Log(log) => replicate(self.ctx, || {
                // SAFETY: main thread, live context; the format matches the arguments, and the server takes its own
                // reference and copy.
                unsafe {
                    rm!(RedisModule_Replicate(
                        self.ctx.raw(),
                        T::REBUILT_BY.as_ptr(),
                        c"sb".as_ptr(),
                        key.raw(),
                        log.as_ptr(),
                        log.len()
                    ));
                }
            }),
            By::Arguments(arguments) => replicate(self.ctx, || {
                let strings: Vec<RmString> = arguments().iter().map(|a| RmString::new(a)).collect();
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
            }),
        }
        self.notify(
            raw::REDISMODULE_NOTIFY_MODULE as c_int,
            replicated.event,
            key,
            emptied,
        );
    }
}

/// Returns the value of an open key.
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
            needs: KeyType::Native(T::WHAT),
        })
    }
}
