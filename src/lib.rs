//! Crawlspace: the Redis module with the state that web-archive crawlers share.
//!
//! This file registers; the rules are in [`dedupe`], [`chg`] and [`tags`], what touches the server in `server`.

pub mod chg;
#[cfg(any(feature = "module", test))]
pub mod cluster;
pub mod dedupe;
pub mod defrag;
pub mod keyspace;
pub mod reply;
#[cfg(feature = "module")]
pub mod server;
pub mod sizes;
pub mod slices;
pub mod tags;
pub mod text;
pub mod turns;

/// Memory comes from the server, so that `INFO memory` and `maxmemory` see it. Unit tests have no
/// server around them.
#[cfg(all(feature = "module", not(test)))]
#[global_allocator]
static ALLOCATOR: redis_module::alloc::RedisAlloc = redis_module::alloc::RedisAlloc;

/// Called by the server when it loads the module.
///
/// # Safety
/// The pointers are the server's: a context, and `argc` live strings.
#[cfg(feature = "module")]
#[no_mangle]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: server::api::RawCtx,
    argv: *mut *mut server::api::raw::RedisModuleString,
    argc: std::os::raw::c_int,
) -> std::os::raw::c_int {
    // SAFETY: by contract.
    unsafe {
        server::load::on_load(server::api::Ctx::new(ctx), argv, argc, |ctx| {
            dedupe::commands::register_all(ctx)?;
            chg::commands::register_all(ctx)?;
            tags::commands::register_all(ctx)
        })
    }
}

/// Called by the server before it unloads the module, which is refused: the event loop holds a
/// callback of this module.
#[cfg(feature = "module")]
#[no_mangle]
#[allow(non_snake_case)]
pub extern "C" fn RedisModule_OnUnload(_: server::api::RawCtx) -> std::os::raw::c_int {
    server::api::raw::REDISMODULE_ERR as std::os::raw::c_int
}
