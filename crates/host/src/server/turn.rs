//! An internal command for writes that no client requested: a slice of a job, or the actions of an
//! alarm.
//!
//! All writes of one call are replicated as one transaction.

use std::os::raw::{c_int, c_void};

use super::api::{Ctx, RawCtx, context_flags, raw, rm};
use super::command::create_command;
use super::guard::guarded;
use super::main_thread::MainThread;
use super::reply::{send, send_error};
use crate::reply::Reply;

struct Turn {
    ctx: Ctx,
    /// The function that the internal command runs; `None` if a client calls the command.
    work: Option<fn(Ctx)>,
}

static TURN: MainThread<Turn> = MainThread::new(Turn {
    ctx: Ctx::none(),
    work: None,
});

/// Delay before the next attempt while writes are forbidden, in milliseconds.
pub(super) const LATER_MS: u64 = 5;

/// Returns the module's detached context.
pub fn ctx() -> Ctx {
    TURN.borrow().ctx
}

/// Calls a function from a timer of the server, after this many milliseconds.
pub fn in_ms(delay_ms: u64, call: extern "C" fn(RawCtx, *mut c_void)) {
    // SAFETY: main thread, the module's detached context; the timer carries no data.
    unsafe {
        rm!(RedisModule_CreateTimer(
            ctx().raw(),
            delay_ms as i64,
            Some(call),
            std::ptr::null_mut()
        ))
    };
}

/// Returns true if writes that no client requested must wait.
pub(super) fn must_wait() -> bool {
    avoid_writing() || in_the_middle()
}

/// Runs this function in the internal command, so that all its writes are replicated as one
/// transaction.
pub(super) fn take(work: fn(Ctx)) {
    let ctx = ctx();
    TURN.borrow().work = Some(work);
    // SAFETY: main thread, the module's detached context; `!` replicates the writes.
    unsafe {
        let reply = rm!(RedisModule_Call(
            ctx.raw(),
            c"crawlspace.slice".as_ptr(),
            c"!".as_ptr()
        ));
        if !reply.is_null() {
            rm!(RedisModule_FreeCallReply(reply));
        }
    }
    TURN.borrow().work = None;
}

/// Returns true while the server forbids writes by modules: during a failover, or while writes are
/// paused. Check this before every write outside of a client's command: otherwise the server
/// aborts.
pub fn avoid_writing() -> bool {
    // SAFETY: main thread.
    unsafe { rm!(RedisModule_AvoidReplicaTraffic()) != 0 }
}

/// Returns true if the event loop runs inside another operation. While a slow script runs or a file
/// is loaded, the server handles file descriptors, but no timers.
fn in_the_middle() -> bool {
    let busy = raw::REDISMODULE_CTX_FLAGS_LUA
        | raw::REDISMODULE_CTX_FLAGS_MULTI
        | raw::REDISMODULE_CTX_FLAGS_LOADING;
    context_flags(Ctx::none()) & busy != 0
}

fn run(ctx: Ctx) -> Result<(), String> {
    let work = TURN.borrow().work.take();
    let internal = "ERR crawlspace.slice is internal; only the module calls it";
    work.ok_or(internal)?(ctx);
    Ok(())
}

extern "C" fn slice(ctx: RawCtx, _: *mut *mut raw::RedisModuleString, _: c_int) -> c_int {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    match guarded("crawlspace.slice", || run(ctx)) {
        Ok(Ok(())) => send(ctx, &Reply::Ok),
        Ok(Err(error)) | Err(error) => send_error(ctx, &error),
    }
    raw::REDISMODULE_OK as c_int
}

/// Registers the internal command.
///
/// # Safety
/// Called once, with the context of the module's load.
pub(super) unsafe fn start(ctx: Ctx) -> Result<(), String> {
    // SAFETY: by contract.
    unsafe {
        TURN.borrow().ctx = Ctx::new(rm!(RedisModule_GetDetachedThreadSafeContext(ctx.raw())));
        let flags = c"write admin deny-script no-slowlog no-monitor";
        create_command(ctx, c"crawlspace.slice", slice, flags, 0)
    }
}
