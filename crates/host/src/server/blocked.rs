//! Clients blocked until their reply is ready.

use std::os::raw::{c_int, c_void};
use std::ptr;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::api::{Ctx, RawCtx, context_flags, raw, rm};
use super::guard::guarded;
use super::main_thread::MainThread;
use super::reply::{Outcome, send_outcome};

/// A blocked client. The caller must send the client one reply, or drop this value after the client
/// disconnects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockedClient(*mut raw::RedisModuleBlockedClient);

/// Called when a blocked client disconnects.
pub type Gone = fn(BlockedClient);
/// Called when a blocked client times out or `CLIENT UNBLOCK` unblocks it. Returns the reply to the
/// client.
pub type TimedOut = fn(Ctx, BlockedClient) -> Outcome;

/// Returns true if the client of this context may be blocked: not in `MULTI`, in a script, or where
/// blocking is denied. Check this before blocking, because otherwise the server itself replies with
/// an error.
pub fn can_block(ctx: Ctx) -> bool {
    let denied = raw::REDISMODULE_CTX_FLAGS_MULTI
        | raw::REDISMODULE_CTX_FLAGS_LUA
        | raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING;
    context_flags(ctx) & denied == 0
}

/// Callbacks for a blocked client.
struct Hooks {
    gone: Gone,
    timed_out: Option<TimedOut>,
}

static HOOKS: MainThread<FxHashMap<usize, Hooks>> =
    MainThread::new(FxHashMap::with_hasher(FxBuildHasher));

fn take_hooks(client: BlockedClient) -> Option<Hooks> {
    HOOKS.borrow().remove(&(client.0 as usize))
}

extern "C" fn reply(ctx: RawCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a delayed reply", || {
        // SAFETY: main thread; the data is the outcome that `answer` stored. The server owns the
        // data until `free` takes it back.
        unsafe {
            let outcome = rm!(RedisModule_GetBlockedClientPrivateData(ctx.raw())).cast::<Outcome>();
            if let Some(outcome) = outcome.as_ref() {
                send_outcome(ctx, outcome);
            }
        }
    });
    raw::REDISMODULE_OK as c_int
}

extern "C" fn free(_: RawCtx, data: *mut c_void) {
    if !data.is_null() {
        // SAFETY: `answer` made this pointer with `Box::into_raw`, and the server returns it once.
        drop(unsafe { Box::from_raw(data.cast::<Outcome>()) });
    }
}

extern "C" fn timeout(ctx: RawCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let _ = guarded("a timeout", || {
        // SAFETY: main thread, context of a timed-out client.
        let client = BlockedClient(unsafe { rm!(RedisModule_GetBlockedClientHandle(ctx.raw())) });
        let Some(hooks) = take_hooks(client) else {
            return;
        };
        if let Some(timed_out) = hooks.timed_out {
            send_outcome(ctx, &timed_out(ctx, client));
        }
        // SAFETY: main thread; the client was not unblocked before, because its hooks still
        // existed. The server frees the resources of a blocked client only when it is unblocked.
        unsafe { rm!(RedisModule_UnblockClient(client.0, ptr::null_mut())) };
    });
    raw::REDISMODULE_OK as c_int
}

extern "C" fn disconnected(_: RawCtx, client: *mut raw::RedisModuleBlockedClient) {
    let client = BlockedClient(client);
    let _ = guarded("a disconnect", || {
        if let Some(hooks) = take_hooks(client) {
            (hooks.gone)(client);
            // SAFETY: main thread; the client was not unblocked before, because its hooks still
            // existed.
            unsafe { rm!(RedisModule_UnblockClient(client.0, ptr::null_mut())) };
        }
    });
}

impl BlockedClient {
    /// Blocks the client of `ctx` until `answer` is called. `timed_out` creates the reply if
    /// `CLIENT UNBLOCK` ends the wait.
    pub fn block(ctx: Ctx, gone: Gone, timed_out: Option<TimedOut>) -> BlockedClient {
        let on_timeout: raw::RedisModuleCmdFunc = if timed_out.is_some() {
            Some(timeout)
        } else {
            None
        };
        // SAFETY: main thread, live context of a client that may block.
        let client = BlockedClient(unsafe {
            let client = rm!(RedisModule_BlockClient(
                ctx.raw(),
                Some(reply),
                on_timeout,
                Some(free),
                0
            ));
            rm!(RedisModule_SetDisconnectCallback(
                client,
                Some(disconnected)
            ));
            client
        });
        HOOKS
            .borrow()
            .insert(client.0 as usize, Hooks { gone, timed_out });
        client
    }

    /// Sends the reply to the client, unless the client disconnected or timed out in the meantime.
    pub fn answer(self, outcome: Outcome) {
        if take_hooks(self).is_none() {
            return;
        }
        let data = Box::into_raw(Box::new(outcome));
        // SAFETY: main thread; the client is still blocked, and is unblocked once.
        unsafe { rm!(RedisModule_UnblockClient(self.0, data.cast())) };
    }
}
