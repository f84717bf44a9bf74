//! Crawlspace: a Redis module for the state that web-archive crawlers share.
//!
//! This file registers the module. The rules are in [`dedupe`], [`chg`] and [`tags`]; the code that
//! calls the server is in `server`.

pub mod chg;
pub mod dedupe;
#[cfg(feature = "module")]
mod marker;
mod prefetch;
pub mod storage;
pub mod tags;
mod texts;

#[cfg(test)]
mod grammar_tests;

/// The server's allocator, so that `INFO memory` and `maxmemory` include the module. Unit tests run
/// without a server and do not use this allocator.
#[cfg(all(feature = "module", not(test)))]
#[global_allocator]
static ALLOCATOR: crawlspace_host::server::allocator::ServerMemory =
    crawlspace_host::server::allocator::ServerMemory;

/// Called by the server when it loads the module.
///
/// # Safety
/// `ctx` must be a valid context of the server, and `argv` must point to `argc` live strings.
#[cfg(feature = "module")]
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: crawlspace_host::server::api::RawCtx,
    argv: *mut *mut crawlspace_host::server::api::raw::RedisModuleString,
    argc: std::os::raw::c_int,
) -> std::os::raw::c_int {
    let families = &[
        dedupe::commands::FAMILY,
        chg::commands::FAMILY,
        tags::commands::FAMILY,
    ];
    // SAFETY: by contract.
    unsafe {
        crawlspace_host::server::load::on_load(
            crawlspace_host::server::api::Ctx::new(ctx),
            argv,
            argc,
            families,
        )
    }
}

/// Called by the server before it unloads the module. Refuses, because the event loop still has a
/// callback of this module.
#[cfg(feature = "module")]
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub extern "C" fn RedisModule_OnUnload(
    _: crawlspace_host::server::api::RawCtx,
) -> std::os::raw::c_int {
    crawlspace_host::server::api::raw::REDISMODULE_ERR as std::os::raw::c_int
}
