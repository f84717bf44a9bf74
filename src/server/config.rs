//! Settings: `CONFIG GET/SET crawlspace.*`, and module arguments of the same names.

use std::os::raw::{c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use crate::dedupe::profile::Profile;

use super::api::{c_string, raw, rm, Ctx};

static SLICE_US: AtomicI64 = AtomicI64::new(500);
static DEDUPE_PROFILE: AtomicUsize = AtomicUsize::new(0);

const SLICE_US_RANGE: std::ops::RangeInclusive<i64> = 50..=1000;

/// How long a slice of a job may take, in microseconds.
pub fn slice_us() -> u64 {
    SLICE_US.load(Relaxed) as u64
}

/// The layout of indexes that do not exist yet.
pub fn dedupe_profile() -> Profile {
    Profile::ALL[DEDUPE_PROFILE.load(Relaxed) % Profile::ALL.len()]
}

extern "C" fn get_number(_: *const c_char, _: *mut c_void) -> c_longlong {
    SLICE_US.load(Relaxed)
}

extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    _: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    SLICE_US.store(value, Relaxed);
    raw::REDISMODULE_OK as c_int
}

extern "C" fn get_choice(_: *const c_char, _: *mut c_void) -> c_int {
    DEDUPE_PROFILE.load(Relaxed) as c_int
}

extern "C" fn set_choice(
    _: *const c_char,
    value: c_int,
    _: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    DEDUPE_PROFILE.store(value as usize, Relaxed);
    raw::REDISMODULE_OK as c_int
}

/// Reads module arguments, `name value` pairs, into the defaults.
pub fn read_arguments(arguments: &[&[u8]]) -> Result<(), String> {
    let mut rest = arguments;
    while let [name, tail @ ..] = rest {
        let shown = String::from_utf8_lossy(name).to_ascii_lowercase();
        let plain = shown.strip_prefix("crawlspace.").unwrap_or(&shown);
        let [value, tail @ ..] = tail else {
            return Err(format!("module argument {plain} has no value"));
        };
        match plain {
            "dedupe-profile" => {
                let profile = Profile::parse(value).ok_or_else(|| {
                    "module argument dedupe-profile is document or browsertrix".to_string()
                })?;
                let at = Profile::ALL.iter().position(|p| *p == profile);
                DEDUPE_PROFILE.store(at.unwrap_or(0), Relaxed);
            }
            "slice-us" => {
                let us = crate::text::parse_unsigned(value)
                    .map(|us| us as i64)
                    .filter(|us| SLICE_US_RANGE.contains(us))
                    .ok_or_else(|| {
                        "module argument slice-us is a number from 50 to 1000".to_string()
                    })?;
                SLICE_US.store(us, Relaxed);
            }
            _ => {
                return Err(format!(
                    "unknown module argument {plain}; there are dedupe-profile and slice-us"
                ))
            }
        }
        rest = tail;
    }
    Ok(())
}

/// Makes the settings known to the server.
///
/// # Safety
/// Called once, with the context of the module's load.
pub unsafe fn register(ctx: Ctx) -> Result<(), String> {
    let names: Vec<_> = Profile::ALL.iter().map(|p| c_string(p.name())).collect();
    let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
    let values: Vec<c_int> = (0..names.len() as c_int).collect();
    // SAFETY: main thread, the context of the load; the server copies names and values.
    let done = unsafe {
        [
            rm!(RedisModule_RegisterEnumConfig(
                ctx.raw(),
                c"dedupe-profile".as_ptr(),
                DEDUPE_PROFILE.load(Relaxed) as c_int,
                raw::REDISMODULE_CONFIG_DEFAULT,
                pointers.as_mut_ptr(),
                values.as_ptr(),
                values.len() as c_int,
                Some(get_choice),
                Some(set_choice),
                None,
                std::ptr::null_mut()
            )),
            rm!(RedisModule_RegisterNumericConfig(
                ctx.raw(),
                c"slice-us".as_ptr(),
                SLICE_US.load(Relaxed),
                raw::REDISMODULE_CONFIG_DEFAULT,
                *SLICE_US_RANGE.start(),
                *SLICE_US_RANGE.end(),
                Some(get_number),
                Some(set_number),
                None,
                std::ptr::null_mut()
            )),
            rm!(RedisModule_LoadConfigs(ctx.raw())),
        ]
    };
    if done
        .iter()
        .all(|&status| status == raw::REDISMODULE_OK as c_int)
    {
        Ok(())
    } else {
        Err("the server refused the settings".to_string())
    }
}
