//! Entry point: loads the module and registers everything with the server.

use std::ffi::CStr;
use std::os::raw::c_int;
use std::path::Path;

use super::api::{Ctx, Level, log, raw, rm, string_bytes};
use super::config::Setting;
use super::facts::{server_info, warn_of_eviction};
use super::info::Named;
use super::metric::Metric;
use super::{alarm, allocator, cluster, config, guard, include, info, job, notify, turn, worker};
use crate::aligned::ALIGNED;

const NAME: &CStr = c"crawlspace";

/// Version of the module as a single number, as the server expects: 200 is 0.2.0.
const VERSION: c_int = 200;

/// Registration data of a command family.
pub struct Family {
    /// Settings, which are also module arguments.
    pub settings: &'static [Setting],
    /// Metrics in `INFO crawlspace`.
    pub metrics: &'static [&'static Metric],
    /// Data sets listed in `INFO crawlspace`.
    pub named: Named,
    /// Registers commands, native types and event listeners. Called once, with the context of the module's load.
    pub register: fn(Ctx) -> Result<(), String>,
}

/// Registers all families. The server calls this once.
///
/// # Safety
/// The pointers come from the server: a context, and `argc` live strings.
pub unsafe fn on_load(
    ctx: Ctx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    families: &[Family],
) -> c_int {
    // Do not allocate memory before this call, because the global allocator uses the server's
    // allocator. SAFETY: by contract; fills the function table used by all other calls.
    let ready = unsafe {
        raw::Export_RedisModule_Init(
            ctx.raw(),
            NAME.as_ptr(),
            VERSION,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if ready == raw::REDISMODULE_ERR as c_int {
        // SAFETY: by contract; the function table is filled, and only the name of the module is
        // already in use.
        return unsafe { load_again(ctx) };
    }
    let loaded = guard::guarded("loading", || {
        // SAFETY: by contract.
        unsafe {
            let arguments: Vec<&[u8]> = if argc == 0 {
                Vec::new()
            } else {
                std::slice::from_raw_parts(argv, argc as usize)
                    .iter()
                    .map(|&argument| string_bytes(argument))
                    .collect()
            };
            register(ctx, &arguments, families)
        }
    });
    match loaded {
        Ok(Ok(())) => raw::REDISMODULE_OK as c_int,
        Ok(Err(error)) | Err(error) => {
            log(
                ctx,
                Level::Warning,
                &format!("crawlspace did not load: {error}"),
            );
            raw::REDISMODULE_ERR as c_int
        }
    }
}

/// Ignores a second `loadmodule` line, so that the server can start. `CONFIG REWRITE` (which
/// Sentinel sends at each failover) adds such a line if the existing `loadmodule` line is in an
/// included file. `MODULE LOAD` by a client is refused.
///
/// # Safety
/// Same as [`on_load`], after the function table is filled.
unsafe fn load_again(ctx: Ctx) -> c_int {
    let starting = server_info(c"clients", c"connected_clients").is_some_and(|count| count == "0");
    if !starting {
        return raw::REDISMODULE_ERR as c_int;
    }
    // SAFETY: by contract. The server keeps the module that is already loaded under this name, and
    // an unreferenced record of the second load.
    unsafe {
        rm!(RedisModule_SetModuleAttribs(
            ctx.raw(),
            NAME.as_ptr(),
            VERSION,
            raw::REDISMODULE_APIVER_1 as c_int
        ));
    }
    log(
        ctx,
        Level::Warning,
        "crawlspace: ignored a second loadmodule line and its arguments, because the module is loaded already; \
         delete one of the two lines from the server's configuration",
    );
    raw::REDISMODULE_OK as c_int
}

/// # Safety
/// Same as [`on_load`], after the function table is filled.
unsafe fn register(ctx: Ctx, arguments: &[&[u8]], families: &[Family]) -> Result<(), String> {
    if raw_missing() {
        return Err("this server is too old; Redis 7.0 or Valkey 8.0 is needed".to_string());
    }
    if !allocator_aligns() {
        return Err(
            "this server's allocator aligns memory to 8 bytes only, 16 are needed; \
                    build the server with MALLOC=jemalloc"
                .to_string(),
        );
    }
    cluster::note_mode(ctx);
    let of_families = families.iter().flat_map(|family| family.settings);
    let settings: Vec<Setting> = of_families.chain(config::OWN).copied().collect();
    config::read_arguments(&settings, arguments)?;
    // SAFETY: main thread, the context of the load; each function is called once.
    unsafe {
        // A truncated payload must cause an error in the module instead of aborting the process.
        rm!(RedisModule_SetModuleOptions(
            ctx.raw(),
            raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS as c_int | cluster::take_slots_whole().0
        ));
        turn::start(ctx)?;
        families
            .iter()
            .try_for_each(|family| (family.register)(ctx))?;
        config::register(ctx, &settings)?;
        info::register(
            ctx,
            families.iter().map(|family| (family.metrics, family.named)),
        );
        job::start()?;
        alarm::start()?;
        worker::ready()?;
        notify::subscribe(ctx)
            .map_err(|what| format!("the server refused {}", what.to_string_lossy()))?;
    }
    warn_of_eviction(ctx);
    warn_of_include(ctx);
    allocator::keep_blocks();
    Ok(())
}

/// Logs a warning if the configuration includes the package's file instead of loading the module by its own line.
fn warn_of_include(ctx: Ctx) {
    let path = server_info(c"server", c"config_file").filter(|path| !path.is_empty());
    if let Some(advice) = path.and_then(|path| include::advice(Path::new(&path))) {
        log(ctx, Level::Warning, &format!("crawlspace: {advice}"));
    }
}

fn raw_missing() -> bool {
    // SAFETY: reads a function table that was filled before.
    unsafe {
        let event_loop = raw::RedisModule_EventLoopAdd;
        let command_info = raw::RedisModule_SetCommandInfo;
        let maps = raw::RedisModule_ReplyWithMap;
        let settings = raw::RedisModule_RegisterEnumConfig;
        event_loop.is_none() || command_info.is_none() || maps.is_none() || settings.is_none()
    }
}

/// Returns true if the server's allocator aligns blocks for every type. A server without jemalloc
/// prepends a header of 8 bytes to each block if its C library cannot tell the size of a block
/// (musl).
fn allocator_aligns() -> bool {
    const SIZE: usize = 32;
    // SAFETY: main thread, after the function table is filled; the block is freed once.
    unsafe {
        let block = rm!(RedisModule_Alloc(SIZE));
        let aligned = (block as usize).is_multiple_of(ALIGNED);
        rm!(RedisModule_Free(block));
        aligned
    }
}
