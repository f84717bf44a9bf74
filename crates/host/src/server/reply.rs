//! Sends replies to clients.

use std::os::raw::c_long;

use crate::reply::Reply;

use super::api::{Ctx, c_string, rm};

/// Outcome of a command: a reply, or an error message that begins with its error code.
pub type Outcome = Result<Reply, String>;

/// Sends an outcome.
pub(crate) fn send_outcome(ctx: Ctx, outcome: &Outcome) {
    match outcome {
        Ok(reply) => send(ctx, reply),
        Err(text) => send_error(ctx, text),
    }
}

/// Sends an error. Characters that an error line cannot contain are replaced.
pub(crate) fn send_error(ctx: Ctx, text: &str) {
    let text = c_string(text);
    // SAFETY: main thread, live context.
    unsafe { rm!(RedisModule_ReplyWithError(ctx.raw(), text.as_ptr())) };
}

/// Sends a complete reply.
pub fn send(ctx: Ctx, reply: &Reply) {
    match reply {
        Reply::Nil => send_nil(ctx),
        Reply::Ok => {
            // SAFETY: main thread, live context.
            unsafe { rm!(RedisModule_ReplyWithSimpleString(ctx.raw(), c"OK".as_ptr())) };
        }
        Reply::Int(n) => send_int(ctx, *n),
        Reply::Bulk(bytes) => send_bulk(ctx, bytes),
        Reply::Array(elements) => {
            send_array(ctx, elements.len());
            for element in elements {
                send(ctx, element);
            }
        }
        Reply::Map(entries) => {
            // SAFETY: main thread, live context; this number of pairs follows. RESP2 clients get a
            // flat array.
            unsafe { rm!(RedisModule_ReplyWithMap(ctx.raw(), entries.len() as c_long)) };
            for (key, value) in entries {
                send(ctx, key);
                send(ctx, value);
            }
        }
    }
}

/// Sends a null.
pub fn send_nil(ctx: Ctx) {
    // SAFETY: main thread, live context.
    unsafe { rm!(RedisModule_ReplyWithNull(ctx.raw())) };
}

/// Sends an integer.
pub fn send_int(ctx: Ctx, n: i64) {
    // SAFETY: main thread, live context.
    unsafe { rm!(RedisModule_ReplyWithLongLong(ctx.raw(), n)) };
}

/// Sends a bulk string of any bytes.
pub fn send_bulk(ctx: Ctx, bytes: &[u8]) {
    // SAFETY: main thread, live context; the bytes are copied.
    unsafe {
        rm!(RedisModule_ReplyWithStringBuffer(
            ctx.raw(),
            bytes.as_ptr().cast(),
            bytes.len()
        ))
    };
}

/// Starts an array. Exactly `len` elements must follow.
pub fn send_array(ctx: Ctx, len: usize) {
    // SAFETY: main thread, live context.
    unsafe { rm!(RedisModule_ReplyWithArray(ctx.raw(), len as c_long)) };
}
