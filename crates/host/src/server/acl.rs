//! What the current user may do to keys whose names a command derives from its prefix.
//!
//! The prefix itself is declared to the server as not being a key, so that it checks nothing; this
//! is where every key is checked instead.

use std::os::raw::c_int;

use crate::text::Shown;

use super::api::{Ctx, RmString, context_flags, raw, rm};
use super::main_thread::MainThread;

/// What a command does to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads it.
    Read,
    /// Reads it and changes it.
    Write,
}

/// The user that runs the current command; none for the server's own work.
pub struct User {
    raw: *mut raw::RedisModuleUser,
    /// Released with this value.
    owned: bool,
}

/// The user `default`, which nearly every client is, and which cannot be deleted: made ready once.
static DEFAULT: MainThread<Option<User>> = MainThread::new(None);

/// Number of clients that are remembered.
const SEEN_CLIENTS: usize = 256;

/// Ids of clients that had a user when they were looked up by id, which costs more than the name of their user does.
/// No id is given twice; and a client that has a user has one until it goes, be it another one: after `AUTH` or
/// `RESET`, or when that user is deleted.
static SEEN: MainThread<[u64; SEEN_CLIENTS]> = MainThread::new([0; SEEN_CLIENTS]);

impl User {
    const NOBODY: User = User {
        raw: std::ptr::null_mut(),
        owned: false,
    };

    /// The user of the context's client, which sent the command that runs.
    pub fn current(ctx: Ctx) -> User {
        // SAFETY: main thread, live context.
        let id = unsafe { rm!(RedisModule_GetClientId(ctx.raw())) };
        let seen = SEEN.borrow()[id as usize % SEEN_CLIENTS] == id && id > 0;
        let name = if seen {
            // SAFETY: main thread, live context of a client with a user; the string is the caller's.
            Some(unsafe { RmString::from_owned(rm!(RedisModule_GetCurrentUserName(ctx.raw()))) })
        } else {
            User::current_name(ctx)
        };
        User::named_or_nobody(name.as_ref())
    }

    /// The user of this name; without a name one that may do everything.
    pub fn named_or_nobody(name: Option<&RmString>) -> User {
        name.map_or(User::NOBODY, User::named)
    }

    /// The user of this name, for work that goes on after its client's command.
    pub fn named(name: &RmString) -> User {
        // SAFETY: main thread, live name; released by `drop`.
        let make = || unsafe { rm!(RedisModule_GetModuleUserFromUserName(name.raw())) };
        if name.as_ref() != b"default" {
            return User {
                raw: make(),
                owned: true,
            };
        }
        let mut default = DEFAULT.borrow();
        let user = default.get_or_insert_with(|| User {
            raw: make(),
            owned: false,
        });
        User { ..*user }
    }

    /// Name of the user of the context's client; `None` when there is none, and then nothing is
    /// checked: the server itself, or another module that runs a command in nobody's name.
    pub fn current_name(ctx: Ctx) -> Option<RmString> {
        // SAFETY: main thread, live context; the strings are the caller's.
        unsafe {
            let id = rm!(RedisModule_GetClientId(ctx.raw()));
            let mut name = rm!(RedisModule_GetClientUserNameById(ctx.raw(), id));
            if !name.is_null() {
                SEEN.borrow()[id as usize % SEEN_CLIENTS] = id;
            }
            // The client of a script is not in the table of clients, and has its caller's user.
            // Elsewhere a client without user must not be asked: Redis 7.0 does not expect it.
            if name.is_null() && context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_LUA != 0 {
                name = rm!(RedisModule_GetCurrentUserName(ctx.raw()));
            }
            (!name.is_null()).then(|| RmString::from_owned(name))
        }
    }

    /// Refuses with `NOPERM` when the user may not do that to the key.
    ///
    /// # Errors
    /// `NOPERM`, with the key.
    pub fn check(&self, key: &RmString, access: Access) -> Result<(), String> {
        if self.raw.is_null() {
            return Ok(());
        }
        let flags = match access {
            Access::Read => raw::REDISMODULE_CMD_KEY_ACCESS,
            Access::Write => {
                raw::REDISMODULE_CMD_KEY_ACCESS
                    | raw::REDISMODULE_CMD_KEY_UPDATE
                    | raw::REDISMODULE_CMD_KEY_INSERT
                    | raw::REDISMODULE_CMD_KEY_DELETE
            }
        };
        // SAFETY: main thread, live user and name.
        let allowed = unsafe {
            rm!(RedisModule_ACLCheckKeyPermissions(
                self.raw,
                key.raw(),
                flags as c_int
            ))
        };
        if allowed == raw::REDISMODULE_OK as c_int {
            return Ok(());
        }
        let what = match access {
            Access::Read => "read",
            Access::Write => "write",
        };
        Err(format!(
            "NOPERM this user may not {what} key '{}'; grant it with ACL SETUSER",
            Shown(key.as_ref())
        ))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        if self.owned && !self.raw.is_null() {
            // SAFETY: main thread; ours, released once.
            unsafe { rm!(RedisModule_FreeModuleUser(self.raw)) };
        }
    }
}
