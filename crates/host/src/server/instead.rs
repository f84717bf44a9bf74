//! Commands that run instead of commands of the server: see [`filter`](super::filter).

use std::ffi::CStr;
use std::os::raw::c_int;

use super::api::{Ctx, RawCtx, RmString, context_flags, raw, rm, selected_db, string_bytes};
use super::call_reply::CallReply;
use super::command::register_described;
use super::guard::guarded;
use super::notify;
use super::reply::send_error;
use crate::grammar::Described;

/// A command that replaces a command of the server for some keys. It takes the same arguments as
/// the server's command, and sends the same replies and errors.
pub trait Instead: Described {
    /// The command of the server.
    const ORIGINAL: &'static CStr;

    /// Sends the reply, or returns an error reply. Returns `None` if the server's own command must
    /// run.
    fn act(call: &InsteadCall<'_>) -> Option<Result<(), String>>;
}

/// A call of a command that runs instead of a command of the server.
pub struct InsteadCall<'a> {
    /// The context of the call.
    pub ctx: Ctx,
    /// The words of the call, beginning with the name of the command.
    argv: &'a [*mut raw::RedisModuleString],
}

impl<'a> InsteadCall<'a> {
    /// Returns the number of the selected database.
    pub fn db(&self) -> c_int {
        selected_db(self.ctx)
    }

    /// Returns all words after the name of the command.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        // SAFETY: the words live as long as the call.
        let bytes = |&word: &*mut _| unsafe { string_bytes(word) };
        self.argv[1..].iter().map(bytes)
    }

    /// Returns the words after the name of the command if there are exactly `N`.
    pub fn exactly<const N: usize>(&self) -> Option<[&'a [u8]; N]> {
        let words: [_; N] = self.argv[1..].try_into().ok()?;
        // SAFETY: the words live as long as the call.
        Some(words.map(|word| unsafe { string_bytes(word) }))
    }

    /// Returns true if the master of this server sent the command.
    pub fn is_replicated(&self) -> bool {
        context_flags(self.ctx) & raw::REDISMODULE_CTX_FLAGS_REPLICATED != 0
    }

    /// Runs the server's command with the words of this call, and sends its reply.
    pub fn run_original<C: Instead>(&self) {
        // SAFETY: main thread, live context, live strings. `!` replicates a write, `0` gives the reply
        // in the protocol of the client, and `E` gives errors as replies.
        unsafe {
            let reply = rm!(RedisModule_Call(
                self.ctx.raw(),
                C::ORIGINAL.as_ptr(),
                c"!0Ev".as_ptr(),
                self.argv.as_ptr().add(1).cast_mut(),
                self.argv.len() - 1
            ));
            if reply.is_null() {
                return send_error(self.ctx, "ERR the server refused to run its own command");
            }
            rm!(RedisModule_ReplyWithCallReply(self.ctx.raw(), reply));
            rm!(RedisModule_FreeCallReply(reply));
        }
    }

    /// Runs the server's command on the given key, with the given words after it.
    pub(crate) fn original_reply<C: Instead>(
        &self,
        key: &RmString,
        words: &[&[u8]],
    ) -> Option<CallReply> {
        let mut all = vec![key.as_ref()];
        all.extend_from_slice(words);
        CallReply::of(self.ctx, C::ORIGINAL, &all)
    }

    /// Returns the error that the server's command returns for these words after a key. `key` is
    /// the name of an existing key of the right type. Returns `None` if the server accepts them.
    pub fn original_error<C: Instead>(&self, key: &RmString, words: &[&[u8]]) -> Option<String> {
        let reply = self.original_reply::<C>(key, words)?;
        let text = || String::from_utf8_lossy(reply.bytes()).into_owned();
        reply.is_error().then(text)
    }

    /// Scans a hash with the server's command. Passes fields and values to `each`, and returns the
    /// next cursor.
    ///
    /// # Errors
    /// The error of the server.
    pub fn scan_original<C: Instead>(
        &self,
        key: &RmString,
        words: &[&[u8]],
        mut each: impl FnMut(&[u8]),
    ) -> Result<u64, String> {
        let refused = || "ERR the server refused to scan a hash".to_string();
        let reply = self.original_reply::<C>(key, words).ok_or_else(refused)?;
        if reply.is_error() {
            return Err(String::from_utf8_lossy(reply.bytes()).into_owned());
        }
        let cursor = reply.child(0).and_then(|cursor| {
            let digits = std::str::from_utf8(cursor.bytes()).ok()?;
            digits.parse().ok()
        });
        let found = reply.child(1).ok_or_else(refused)?;
        let mut at = 0;
        while let Some(text) = found.child(at) {
            each(text.bytes());
            at += 1;
        }
        cursor.ok_or_else(refused)
    }

    /// Announces a change of a key, as the server does for its own commands.
    pub fn announce(&self, key: &RmString, event: &CStr) {
        // SAFETY: main thread, live context and string.
        unsafe {
            rm!(RedisModule_SignalModifiedKey(self.ctx.raw(), key.raw()));
            rm!(RedisModule_NotifyKeyspaceEvent(
                self.ctx.raw(),
                raw::REDISMODULE_NOTIFY_HASH as c_int,
                event.as_ptr(),
                key.raw()
            ));
        }
    }
}

/// Registers a command that runs instead of a command of the server.
///
/// # Safety
/// Called with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses the registration.
pub unsafe fn register<C: Instead>(ctx: Ctx) -> Result<(), String> {
    extern "C" fn entry<C: Instead>(
        ctx: RawCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> c_int {
        // SAFETY: the server hands a live context to this callback, on its main thread.
        let ctx = unsafe { Ctx::new(ctx) };
        let done = guarded(C::SPEC.name, || {
            notify::watch(ctx);
            // SAFETY: the server passes `argc` live strings, which live until this function returns.
            let argv = unsafe { std::slice::from_raw_parts(argv, argc as usize) };
            let call = InsteadCall { ctx, argv };
            C::act(&call).unwrap_or_else(|| {
                call.run_original::<C>();
                Ok(())
            })
        });
        if let Ok(Err(error)) | Err(error) = done {
            send_error(ctx, &error);
        }
        raw::REDISMODULE_OK as c_int
    }
    // SAFETY: by contract.
    unsafe { register_described::<C>(ctx, entry::<C>) }
}
