//! Replies of the server to commands that the module runs.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::ops::Deref;
use std::os::raw::c_int;

use smallvec::SmallVec;

use super::api::{Ctx, RmString, raw, rm};

/// A reply or a nested element of one.
pub struct Part<'a> {
    raw: *mut raw::RedisModuleCallReply,
    of: PhantomData<&'a ()>,
}

/// The reply to a command that the module ran. Dropping this value frees the reply.
pub(crate) struct CallReply(Part<'static>);

impl CallReply {
    /// Takes ownership of a reply of the server, which must not be null.
    pub fn new(raw: *mut raw::RedisModuleCallReply) -> CallReply {
        assert!(!raw.is_null(), "a reply");
        let of = PhantomData;
        CallReply(Part { raw, of })
    }

    /// Runs a read-only command and returns its reply; `None` if the server refuses to run it.
    pub fn of(ctx: Ctx, command: &CStr, arguments: &[&[u8]]) -> Option<CallReply> {
        let strings: SmallVec<[RmString; 2]> = arguments.iter().map(|b| RmString::new(b)).collect();
        let mut named: SmallVec<[_; 2]> = strings.iter().map(RmString::raw).collect();
        // SAFETY: main thread, live context; the format matches the arguments, all alive.
        let reply = unsafe {
            rm!(RedisModule_Call(
                ctx.raw(),
                command.as_ptr(),
                c"v".as_ptr(),
                named.as_mut_ptr(),
                named.len()
            ))
        };
        (!reply.is_null()).then(|| CallReply::new(reply))
    }
}

impl Deref for CallReply {
    type Target = Part<'static>;

    fn deref(&self) -> &Part<'static> {
        &self.0
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        // SAFETY: main thread; this value owns the reply and frees it once.
        unsafe { rm!(RedisModule_FreeCallReply(self.0.raw)) };
    }
}

impl Part<'_> {
    /// Returns true if the reply is an error.
    pub fn is_error(&self) -> bool {
        // SAFETY: main thread, live reply.
        let kind = unsafe { rm!(RedisModule_CallReplyType(self.raw)) };
        kind == raw::REDISMODULE_REPLY_ERROR as c_int
    }

    /// Returns the number of an integer reply.
    pub fn integer(&self) -> i64 {
        // SAFETY: main thread, live reply.
        unsafe { rm!(RedisModule_CallReplyInteger(self.raw)) }
    }

    /// Returns element `i` of an array.
    pub fn child(&self, i: usize) -> Option<Part<'_>> {
        // SAFETY: main thread, live reply; the element lives as long as the reply and must not be
        // freed.
        let raw = unsafe { rm!(RedisModule_CallReplyArrayElement(self.raw, i)) };
        let of = PhantomData;
        (!raw.is_null()).then_some(Part { raw, of })
    }

    /// Returns the bytes of element `i` of an array of strings.
    pub fn element(&self, i: usize) -> Option<Vec<u8>> {
        self.child(i).map(|element| element.bytes().to_vec())
    }

    /// Returns the bytes of a string; empty for any other type.
    pub fn bytes(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: main thread, live reply; the bytes live as long as it.
        unsafe {
            let ptr = rm!(RedisModule_CallReplyStringPtr(self.raw, &mut len));
            if ptr.is_null() {
                return &[];
            }
            std::slice::from_raw_parts(ptr.cast(), len)
        }
    }
}
