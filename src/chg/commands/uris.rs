//! `crawlspace.uris key change …`: one change of the URIs of a group.
//!
//! The master sends this command to replicas, and writes it to append-only files. No client should
//! send the command: it changes the URIs of the key, and the counts of the group may be wrong
//! afterwards.

use std::ffi::CStr;

use crate::chg::store::Store;
use crate::chg::uris::{Op, Uris};
use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::{Internal, InternalCall, register_internal};
use crawlspace_host::server::native;

use super::store::CHANGE;

struct ChangeUris;

impl Internal for ChangeUris {
    const NAME: &'static CStr = CHANGE;
    const FLAGS: &'static CStr = c"write deny-oom admin";

    fn run(call: &mut InternalCall<'_>) -> Result<(), String> {
        let op = Op::parse(call.arguments).map_err(|error| format!("ERR {error}"))?;
        let changed = call.keys.change_uris(&call.key, &op);
        changed.map(drop).map_err(|error| error.to_string())
    }
}

/// Registers the type and the command with the server.
///
/// # Safety
/// Must be called once, with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses the registration.
pub unsafe fn register(ctx: Ctx) -> Result<(), String> {
    // SAFETY: by contract.
    unsafe {
        native::register::<Uris>(ctx)?;
        register_internal::<ChangeUris>(ctx)
    }
}
