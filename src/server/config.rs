//! Settings: `CONFIG GET/SET crawlspace.*`, and module arguments of the same names.

use std::ops::RangeInclusive;
use std::os::raw::{c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};

use crate::dedupe::profile::Profile;
use crate::dedupe::storage::{Layout, Storage};

use super::api::{c_string, raw, rm, Ctx};

/// A whole number that can be set.
struct Number {
    name: &'static str,
    value: AtomicI64,
    range: RangeInclusive<i64>,
}

impl Number {
    const fn new(name: &'static str, value: i64, range: RangeInclusive<i64>) -> Number {
        Number {
            name,
            value: AtomicI64::new(value),
            range,
        }
    }

    fn get(&self) -> u64 {
        self.value.load(Relaxed) as u64
    }
}

static SLICE_US: Number = Number::new("slice-us", 500, 50..=1000);
static CHG_LEASE: Number = Number::new("chg-lease", 600_000, 1..=315_360_000_000);
static CHG_ATTEMPTS: Number = Number::new("chg-attempts", 5, 1..=1_000_000);
static TAGS_INLINE_BYTES: Number = Number::new("tags-inline-bytes", 262_144, 0..=67_108_864);
static TAGS_BATCH_MS: Number = Number::new("tags-batch-ms", 60_000, 1..=86_400_000);
static NUMBERS: [&Number; 5] = [
    &SLICE_US,
    &CHG_LEASE,
    &CHG_ATTEMPTS,
    &TAGS_INLINE_BYTES,
    &TAGS_BATCH_MS,
];
static CHG_SIMULATED_TIME: AtomicBool = AtomicBool::new(false);
/// One of some words that can be set.
struct Choice {
    name: &'static str,
    /// Which one, counted from 0.
    value: AtomicUsize,
    names: fn() -> Vec<&'static str>,
}

impl Choice {
    /// Reads a word, in any case.
    fn parse(&self, word: &[u8]) -> Option<usize> {
        let is_it = |name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
        (self.names)().iter().position(is_it)
    }
}

static DEDUPE_PROFILE: Choice = Choice {
    name: "dedupe-profile",
    value: AtomicUsize::new(0),
    names: || Profile::ALL.iter().map(|profile| profile.name()).collect(),
};
static DEDUPE_STORAGE: Choice = Choice {
    name: "dedupe-storage",
    value: AtomicUsize::new(0),
    names: || Storage::ALL.iter().map(|storage| storage.name()).collect(),
};
static CHOICES: [&Choice; 2] = [&DEDUPE_PROFILE, &DEDUPE_STORAGE];

/// How long a slice of a job may take, in microseconds.
pub fn slice_us() -> u64 {
    SLICE_US.get()
}

/// How long a lease lasts unless its client says, in milliseconds.
pub fn chg_lease() -> u64 {
    CHG_LEASE.get()
}

/// How many leases of a kept URI may run out before it is given up.
pub fn chg_attempts() -> u64 {
    CHG_ATTEMPTS.get()
}

/// Up to how many bytes of captures are filtered at once; larger batches go to another thread.
pub fn tags_inline_bytes() -> usize {
    TAGS_INLINE_BYTES.get() as usize
}

/// How much of a processor's time a batch of captures may take in the background, in milliseconds.
pub fn tags_batch_ms() -> u64 {
    TAGS_BATCH_MS.get()
}

/// Whether clients may say what time it is.
pub fn chg_simulated_time() -> bool {
    CHG_SIMULATED_TIME.load(Relaxed)
}

/// The layout of indexes that do not exist yet.
pub fn dedupe_layout() -> Layout {
    let profile = DEDUPE_PROFILE.value.load(Relaxed) % Profile::ALL.len();
    let storage = DEDUPE_STORAGE.value.load(Relaxed) % Storage::ALL.len();
    Layout {
        profile: Profile::ALL[profile],
        storage: Storage::ALL[storage],
    }
}

/// The choice that a callback is about.
///
/// # Safety
/// `data` is what [`register`] gave to the server with the choice.
unsafe fn choice<'a>(data: *mut c_void) -> &'a Choice {
    // SAFETY: by contract a pointer to one of the statics above.
    unsafe { &*data.cast::<Choice>() }
}

/// The number that a callback is about.
///
/// # Safety
/// `data` is what [`register`] gave to the server with the number.
unsafe fn number<'a>(data: *mut c_void) -> &'a Number {
    // SAFETY: by contract a pointer to one of the statics above.
    unsafe { &*data.cast::<Number>() }
}

extern "C" fn get_number(_: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the data that was registered.
    unsafe { number(data) }.value.load(Relaxed)
}

extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the data that was registered.
    unsafe { number(data) }.value.store(value, Relaxed);
    raw::REDISMODULE_OK as c_int
}

extern "C" fn get_switch(_: *const c_char, _: *mut c_void) -> c_int {
    c_int::from(chg_simulated_time())
}

extern "C" fn set_switch(
    _: *const c_char,
    value: c_int,
    _: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    CHG_SIMULATED_TIME.store(value != 0, Relaxed);
    raw::REDISMODULE_OK as c_int
}

extern "C" fn get_choice(_: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the data that was registered.
    unsafe { choice(data) }.value.load(Relaxed) as c_int
}

extern "C" fn set_choice(
    _: *const c_char,
    value: c_int,
    data: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the data that was registered.
    let choice = unsafe { choice(data) };
    choice.value.store(value as usize, Relaxed);
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
        read_argument(plain, value)?;
        rest = tail;
    }
    Ok(())
}

fn read_argument(name: &str, value: &[u8]) -> Result<(), String> {
    if let Some(number) = NUMBERS.iter().find(|number| number.name == name) {
        let n = crate::text::parse_unsigned(value)
            .map(|n| n as i64)
            .filter(|n| number.range.contains(n))
            .ok_or_else(|| {
                let (least, most) = (number.range.start(), number.range.end());
                format!("module argument {name} is a number from {least} to {most}")
            })?;
        number.value.store(n, Relaxed);
        return Ok(());
    }
    if let Some(choice) = CHOICES.iter().find(|choice| choice.name == name) {
        let at = choice.parse(value).ok_or_else(|| {
            let names = (choice.names)().join(" or ");
            format!("module argument {name} is {names}")
        })?;
        choice.value.store(at, Relaxed);
        return Ok(());
    }
    match name {
        "chg-simulated-time" => {
            let yes = match &value.to_ascii_lowercase()[..] {
                b"yes" => true,
                b"no" => false,
                _ => return Err("module argument chg-simulated-time is yes or no".to_string()),
            };
            CHG_SIMULATED_TIME.store(yes, Relaxed);
        }
        _ => {
            return Err(format!(
                "unknown module argument {name}; there are dedupe-profile, dedupe-storage, slice-us, chg-lease, chg-attempts, chg-simulated-time, tags-inline-bytes and tags-batch-ms"
            ))
        }
    }
    Ok(())
}

/// Makes the settings known to the server.
///
/// # Safety
/// Called once, with the context of the module's load.
pub unsafe fn register(ctx: Ctx) -> Result<(), String> {
    let mut done = Vec::new();
    // SAFETY: main thread, the context of the load; the server copies names and values. The numbers
    // are statics, and only their atomics are ever written.
    unsafe {
        for choice in CHOICES {
            let names: Vec<_> = (choice.names)().into_iter().map(c_string).collect();
            let mut pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();
            let values: Vec<c_int> = (0..names.len() as c_int).collect();
            done.push(rm!(RedisModule_RegisterEnumConfig(
                ctx.raw(),
                c_string(choice.name).as_ptr(),
                choice.value.load(Relaxed) as c_int,
                raw::REDISMODULE_CONFIG_DEFAULT,
                pointers.as_mut_ptr(),
                values.as_ptr(),
                values.len() as c_int,
                Some(get_choice),
                Some(set_choice),
                None,
                std::ptr::from_ref(choice).cast_mut().cast()
            )));
        }
        for number in NUMBERS {
            done.push(rm!(RedisModule_RegisterNumericConfig(
                ctx.raw(),
                c_string(number.name).as_ptr(),
                number.value.load(Relaxed),
                raw::REDISMODULE_CONFIG_DEFAULT,
                *number.range.start(),
                *number.range.end(),
                Some(get_number),
                Some(set_number),
                None,
                std::ptr::from_ref(number).cast_mut().cast()
            )));
        }
        done.push(rm!(RedisModule_RegisterBoolConfig(
            ctx.raw(),
            c"chg-simulated-time".as_ptr(),
            c_int::from(chg_simulated_time()),
            raw::REDISMODULE_CONFIG_DEFAULT,
            Some(get_switch),
            Some(set_switch),
            None,
            std::ptr::null_mut()
        )));
        done.push(rm!(RedisModule_LoadConfigs(ctx.raw())));
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
