//! Checks access (ACL) to keys whose names a command derives from its prefix.
//!
//! The server does not treat the prefix as a key and does not check access to it. Instead, this
//! module checks every key.

use std::os::raw::c_int;

use crate::text::Shown;

use super::api::{Ctx, RmString, context_flags, raw, rm};
use super::main_thread::MainThread;

/// Access of a command to a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads the key.
    Read,
    /// Reads and writes the key.
    Write,
}

/// The user that runs the current command. Null for operations of the server itself.
pub struct User {
    raw: *mut raw::RedisModuleUser,
    /// True if the raw user is freed when this value is dropped.
    owned: bool,
}

/// The user `default`, which is looked up only once: nearly all clients run as this user, and it
/// cannot be deleted.
static DEFAULT: MainThread<Option<User>> = MainThread::new(None);

/// Number of cached client ids.
const SEEN_CLIENTS: usize = 256;

/// Ids of clients known to have a user. Determining whether a client id has a user takes longer
/// than reading the name of the current user. Ids are never reused. A client that has a user always
/// has one until it disconnects, although `AUTH`, `RESET` or the deletion of the user may assign a
/// different user to the client.
static SEEN: MainThread<[u64; SEEN_CLIENTS]> = MainThread::new([0; SEEN_CLIENTS]);

impl User {
    const NOBODY: User = User {
        raw: std::ptr::null_mut(),
        owned: false,
    };

    /// Returns the user of the client that sent the current command.
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

    /// Returns the user with this name. Without a name, returns a user with all permissions.
    pub fn named_or_nobody(name: Option<&RmString>) -> User {
        name.map_or(User::NOBODY, User::named)
    }

    /// Returns the user with this name, for operations that continue after the client's command.
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

    /// Returns the user name of the context's client. Returns `None` if there is no user because
    /// the server itself or another module runs the command; no permission is checked then.
    pub fn current_name(ctx: Ctx) -> Option<RmString> {
        // SAFETY: main thread, live context; the strings are the caller's.
        unsafe {
            let id = rm!(RedisModule_GetClientId(ctx.raw()));
            let mut name = rm!(RedisModule_GetClientUserNameById(ctx.raw(), id));
            if !name.is_null() {
                SEEN.borrow()[id as usize % SEEN_CLIENTS] = id;
            }
            // The client of a script is not in the table of clients; its user is the user of the script's caller.
            // Outside of scripts, do not request the user name of a client that has no user: Redis 7.0 would crash.
            if name.is_null() && context_flags(ctx) & raw::REDISMODULE_CTX_FLAGS_LUA != 0 {
                name = rm!(RedisModule_GetCurrentUserName(ctx.raw()));
            }
            (!name.is_null()).then(|| RmString::from_owned(name))
        }
    }

    /// Refuses access that the user does not have.
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
            // SAFETY: main thread; the module owns the user and releases it once.
            unsafe { rm!(RedisModule_FreeModuleUser(self.raw)) };
        }
    }
}
