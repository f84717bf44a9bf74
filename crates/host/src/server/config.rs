//! Settings: `CONFIG GET/SET crawlspace.*`, and module arguments with the same names.

use std::ops::RangeInclusive;
use std::os::raw::{c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::Relaxed};

use super::api::{Ctx, c_string, raw, rm};

/// A configuration setting of a family.
#[derive(Clone, Copy)]
pub enum Setting {
    /// An integer.
    Number(&'static Number),
    /// A choice between words.
    Choice(&'static Choice),
    /// A boolean (`yes` or `no`).
    Switch(&'static Switch),
}

impl Setting {
    /// Returns the name in lower case, without the prefix `crawlspace.`.
    pub fn name(&self) -> &'static str {
        match self {
            Setting::Number(number) => number.name,
            Setting::Choice(choice) => choice.name,
            Setting::Switch(switch) => switch.name,
        }
    }

    /// Sets the default from a module argument. The error message lists the valid values.
    fn read(&self, value: &[u8]) -> Result<(), String> {
        match self {
            Setting::Number(number) => number.read(value),
            Setting::Choice(choice) => choice.read(value),
            Setting::Switch(switch) => switch.read(value),
        }
    }

    /// # Safety
    /// Same as [`register`].
    unsafe fn register(&self, ctx: Ctx) -> c_int {
        // SAFETY: by contract.
        unsafe {
            match self {
                Setting::Number(number) => number.register(ctx),
                Setting::Choice(choice) => choice.register(ctx),
                Setting::Switch(switch) => switch.register(ctx),
            }
        }
    }
}

/// An integer setting.
pub struct Number {
    name: &'static str,
    value: AtomicI64,
    range: RangeInclusive<i64>,
}

impl Number {
    /// Creates a setting with a default and limits. Default and limits must not be negative.
    pub const fn new(name: &'static str, value: i64, range: RangeInclusive<i64>) -> Number {
        Number {
            name,
            value: AtomicI64::new(value),
            range,
        }
    }

    /// Returns the current value.
    pub fn get(&self) -> u64 {
        self.value.load(Relaxed) as u64
    }

    fn read(&self, value: &[u8]) -> Result<(), String> {
        let n = crate::text::parse_unsigned(value)
            .map(|n| n as i64)
            .filter(|n| self.range.contains(n))
            .ok_or_else(|| {
                let (least, most) = (self.range.start(), self.range.end());
                format!("a number from {least} to {most}")
            })?;
        self.value.store(n, Relaxed);
        Ok(())
    }

    /// # Safety
    /// Same as [`register`].
    unsafe fn register(&'static self, ctx: Ctx) -> c_int {
        // SAFETY: by contract; the server copies the name, and only the atomic value is ever
        // written.
        unsafe {
            rm!(RedisModule_RegisterNumericConfig(
                ctx.raw(),
                c_string(self.name).as_ptr(),
                self.value.load(Relaxed),
                raw::REDISMODULE_CONFIG_DEFAULT,
                *self.range.start(),
                *self.range.end(),
                Some(get_number),
                Some(set_number),
                None,
                data(self)
            ))
        }
    }
}

/// A setting that is one of several words.
pub struct Choice {
    name: &'static str,
    /// Index of the current word, counted from 0.
    value: AtomicUsize,
    words: fn() -> Vec<&'static str>,
}

impl Choice {
    /// Creates a choice between words; the first word is the default.
    pub const fn new(name: &'static str, words: fn() -> Vec<&'static str>) -> Choice {
        Choice {
            name,
            value: AtomicUsize::new(0),
            words,
        }
    }

    /// Returns the index of the current word, counted from 0.
    pub fn get(&self) -> usize {
        self.value.load(Relaxed)
    }

    /// Sets the value to a word, in upper or lower case.
    fn read(&self, word: &[u8]) -> Result<(), String> {
        let words = (self.words)();
        let is_it = |name: &&str| word.eq_ignore_ascii_case(name.as_bytes());
        let at = words.iter().position(is_it);
        self.value
            .store(at.ok_or_else(|| words.join(" or "))?, Relaxed);
        Ok(())
    }

    /// # Safety
    /// Same as [`register`].
    unsafe fn register(&'static self, ctx: Ctx) -> c_int {
        let words: Vec<_> = (self.words)().into_iter().map(c_string).collect();
        let mut pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        let values: Vec<c_int> = (0..words.len() as c_int).collect();
        // SAFETY: by contract; the server copies names and values, and only the atomic value is
        // ever written.
        unsafe {
            rm!(RedisModule_RegisterEnumConfig(
                ctx.raw(),
                c_string(self.name).as_ptr(),
                self.value.load(Relaxed) as c_int,
                raw::REDISMODULE_CONFIG_DEFAULT,
                pointers.as_mut_ptr(),
                values.as_ptr(),
                values.len() as c_int,
                Some(get_choice),
                Some(set_choice),
                None,
                data(self)
            ))
        }
    }
}

/// A boolean setting.
pub struct Switch {
    name: &'static str,
    value: AtomicBool,
    /// Called after each change of the setting on a running server.
    changed: fn(),
}

impl Switch {
    /// Creates a switch that is off by default.
    pub const fn off(name: &'static str) -> Switch {
        Switch::watched(name, || {})
    }

    /// Creates a switch that is off by default, and calls `changed` after each change on a running
    /// server.
    pub const fn watched(name: &'static str, changed: fn()) -> Switch {
        Switch {
            name,
            value: AtomicBool::new(false),
            changed,
        }
    }

    /// Returns true if the switch is on.
    pub fn get(&self) -> bool {
        self.value.load(Relaxed)
    }

    fn read(&self, value: &[u8]) -> Result<(), String> {
        let yes = match &value.to_ascii_lowercase()[..] {
            b"yes" => true,
            b"no" => false,
            _ => return Err("yes or no".to_string()),
        };
        self.value.store(yes, Relaxed);
        Ok(())
    }

    /// # Safety
    /// Same as [`register`].
    unsafe fn register(&'static self, ctx: Ctx) -> c_int {
        // SAFETY: by contract; the server copies the name, and only the atomic value is ever
        // written.
        unsafe {
            rm!(RedisModule_RegisterBoolConfig(
                ctx.raw(),
                c_string(self.name).as_ptr(),
                c_int::from(self.get()),
                raw::REDISMODULE_CONFIG_DEFAULT,
                Some(get_switch),
                Some(set_switch),
                None,
                data(self)
            ))
        }
    }
}

/// Returns the pointer that the server passes to the callbacks of a setting.
fn data<T>(setting: &'static T) -> *mut c_void {
    std::ptr::from_ref(setting).cast_mut().cast()
}

static SLICE_US: Number = Number::new("slice-us", 500, 50..=1000);

/// Settings that all families share.
pub(super) static OWN: &[Setting] = &[Setting::Number(&SLICE_US)];

/// Returns the maximum duration of a slice of a job, in microseconds.
pub fn slice_us() -> u64 {
    SLICE_US.get()
}

/// Returns the choice to which the data of a callback point.
///
/// # Safety
/// `data` is the pointer that [`register`] gave to the server with the choice.
unsafe fn choice<'a>(data: *mut c_void) -> &'a Choice {
    // SAFETY: by contract a pointer to a static.
    unsafe { &*data.cast::<Choice>() }
}

/// Returns the number to which the data of a callback point.
///
/// # Safety
/// `data` is the pointer that [`register`] gave to the server with the number.
unsafe fn number<'a>(data: *mut c_void) -> &'a Number {
    // SAFETY: by contract a pointer to a static.
    unsafe { &*data.cast::<Number>() }
}

extern "C" fn get_number(_: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the pointer that `register` gave it.
    unsafe { number(data) }.value.load(Relaxed)
}

extern "C" fn set_number(
    _: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the pointer that `register` gave it.
    unsafe { number(data) }.value.store(value, Relaxed);
    raw::REDISMODULE_OK as c_int
}

/// Returns the switch to which the data of a callback point.
///
/// # Safety
/// `data` is the pointer that [`register`] gave to the server with the switch.
unsafe fn switch<'a>(data: *mut c_void) -> &'a Switch {
    // SAFETY: by contract a pointer to a static.
    unsafe { &*data.cast::<Switch>() }
}

extern "C" fn get_switch(_: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the server passes the pointer that `register` gave it.
    c_int::from(unsafe { switch(data) }.get())
}

extern "C" fn set_switch(
    _: *const c_char,
    value: c_int,
    data: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the pointer that `register` gave it.
    let switch = unsafe { switch(data) };
    switch.value.store(value != 0, Relaxed);
    (switch.changed)();
    raw::REDISMODULE_OK as c_int
}

extern "C" fn get_choice(_: *const c_char, data: *mut c_void) -> c_int {
    // SAFETY: the server passes the pointer that `register` gave it.
    unsafe { choice(data) }.value.load(Relaxed) as c_int
}

extern "C" fn set_choice(
    _: *const c_char,
    value: c_int,
    data: *mut c_void,
    _: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the server passes the pointer that `register` gave it.
    let choice = unsafe { choice(data) };
    choice.value.store(value as usize, Relaxed);
    raw::REDISMODULE_OK as c_int
}

/// Sets the defaults of settings from module arguments, which are `name value` pairs.
///
/// # Errors
/// The error message names the argument and its valid values.
pub(crate) fn read_arguments(settings: &[Setting], arguments: &[&[u8]]) -> Result<(), String> {
    let mut rest = arguments;
    while let [name, tail @ ..] = rest {
        let shown = String::from_utf8_lossy(name).to_ascii_lowercase();
        let name = shown.strip_prefix("crawlspace.").unwrap_or(&shown);
        let [value, tail @ ..] = tail else {
            return Err(format!("module argument {name} needs a value"));
        };
        let setting = settings.iter().find(|setting| setting.name() == name);
        let setting = setting.ok_or_else(|| {
            let names: Vec<&str> = settings.iter().map(Setting::name).collect();
            format!(
                "unknown module argument {name}; valid arguments are {}",
                names.join(", ")
            )
        })?;
        setting.read(value).map_err(|allowed| {
            format!("invalid value for module argument {name}: {allowed} is expected")
        })?;
        rest = tail;
    }
    Ok(())
}

/// Registers settings with the server.
///
/// # Safety
/// Called once, with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses a setting.
pub unsafe fn register(ctx: Ctx, settings: &[Setting]) -> Result<(), String> {
    // SAFETY: by contract.
    let refused =
        |setting: &&Setting| unsafe { setting.register(ctx) } != raw::REDISMODULE_OK as c_int;
    if let Some(setting) = settings.iter().find(refused) {
        return Err(format!("the server refused setting {}", setting.name()));
    }
    // SAFETY: by contract.
    if unsafe { rm!(RedisModule_LoadConfigs(ctx.raw())) } != raw::REDISMODULE_OK as c_int {
        return Err("the server refused the settings".to_string());
    }
    Ok(())
}
