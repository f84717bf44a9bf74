//! Commands: their descriptions, registration and calls.

pub use crawlspace_compact::limits::every::PREFIX_BYTES;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int};
use std::ptr;
use std::rc::Rc;

use smallvec::SmallVec;

use super::acl::User;
use super::api::{Ctx, RawCtx, RmString, c_string, raw, rm, selected_db, string_bytes};
use super::clock::now_ms;
use super::cluster::{self, in_cluster};
use super::guard::guarded;
use super::keyspace::RedisKeyspace;
use super::notify;
use super::reply::{send, send_error};
use crate::cluster::hash_tag;
use crate::grammar::{Arg, ArgKind, Described, Limits, Spec, arity, parse};
use crate::reply::Reply;

/// Result of running a command.
pub enum Answer {
    /// Send this reply.
    Reply(Reply),
    /// The reply has been sent already, or is sent later.
    Sent,
}

/// A command whose arguments are parsed before it is called.
pub trait Act: Described {
    /// Executes the command and returns its reply.
    ///
    /// # Errors
    /// The error reply, which begins with its code word.
    fn act(arguments: Self::Arguments<'_>, call: &mut Call<'_>) -> Result<Answer, String>;

    /// Answers the most frequent form of a call in fewer steps than [`Act::act`], with the same
    /// reply. Returns `None` for all other calls, whose arguments are then parsed.
    fn act_shortly(_: &ShortCall<'_>) -> Option<Result<(), String>> {
        None
    }
}

/// A call of a command before its arguments are parsed.
pub struct ShortCall<'a> {
    /// The context of the call.
    pub ctx: Ctx,
    /// The key prefix or key (the first argument).
    pub prefix: &'a [u8],
    /// The arguments after it.
    rest: &'a [*mut raw::RedisModuleString],
}

impl<'a> ShortCall<'a> {
    /// Returns the arguments after the prefix if there are exactly `N`.
    pub fn words<const N: usize>(&self) -> Option<[&'a [u8]; N]> {
        let words: [_; N] = self.rest.try_into().ok()?;
        // SAFETY: the arguments live as long as the call.
        Some(words.map(|word| unsafe { string_bytes(word) }))
    }
}

/// A call of a command.
pub struct Call<'a> {
    /// The context of the call.
    pub ctx: Ctx,
    /// The key prefix or key (the first argument).
    pub prefix: &'a [u8],
    /// The keys of the selected database.
    pub keys: RedisKeyspace,
    /// The number of the selected database.
    pub db: c_int,
    argv: &'a [*mut raw::RedisModuleString],
    /// Cached result of [`Call::user`].
    user: Option<Rc<User>>,
}

impl<'a> Call<'a> {
    /// Returns argument `n` counted from the end (1 is the last one), as a string of the server.
    pub fn from_end(&self, n: usize) -> RmString {
        self.argument(self.argv.len() - n)
    }

    /// Returns the last `n` arguments as strings of the server.
    pub fn last(&self, n: usize) -> impl Iterator<Item = RmString> + use<'a> {
        let last = &self.argv[self.argv.len() - n..];
        // SAFETY: the arguments live as long as the call.
        last.iter()
            .map(|&argument| unsafe { RmString::shared(argument) })
    }

    /// Returns the argument at this position; 1 is the key or prefix.
    pub fn argument(&self, position: usize) -> RmString {
        // SAFETY: the arguments live as long as the call.
        unsafe { RmString::shared(self.argv[position]) }
    }

    /// Returns the first argument as a key name.
    pub fn key(&self) -> RmString {
        self.argument(1)
    }

    /// Returns the user that sent the command.
    pub fn user(&mut self) -> Rc<User> {
        let ctx = self.ctx;
        Rc::clone(self.user.get_or_insert_with(|| Rc::new(User::current(ctx))))
    }
}

fn check_prefix(prefix: &[u8]) -> Result<(), String> {
    if prefix.len() > PREFIX_BYTES {
        return Err(format!(
            "BADPREFIX prefix has {} bytes, the maximum is {PREFIX_BYTES} (argument 1)",
            prefix.len()
        ));
    }
    if in_cluster() && hash_tag(prefix).is_none() {
        return Err(
            "BADPREFIX in cluster mode the prefix needs a hash tag, such as {coll-42}:, so that all keys of the index share a slot (argument 1)"
                .to_string(),
        );
    }
    Ok(())
}

extern "C" fn entry<C: Act>(
    ctx: RawCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server hands a live context to this callback, on its main thread.
    let ctx = unsafe { Ctx::new(ctx) };
    let called = guarded(C::SPEC.name, || {
        notify::watch(ctx);
        // SAFETY: the server passes `argc` live strings, which live until this function returns.
        let argv = unsafe { std::slice::from_raw_parts(argv, argc as usize) };
        let [_, first, rest @ ..] = argv else {
            // The server checks the arity before the call. Check it here for callers that bypass
            // the server's check.
            return Err(format!(
                "ERR wrong number of arguments for '{}' command",
                C::SPEC.name
            ));
        };
        // SAFETY: the arguments live as long as the call.
        let prefix = unsafe { string_bytes(*first) };
        if !C::SPEC.takes_key {
            check_prefix(prefix)?;
            if in_cluster() {
                // SAFETY: as above.
                let prefix = unsafe { RmString::shared(*first) };
                cluster::check(ctx, &prefix, C::SPEC.has_flag("write"))?;
            }
        }
        if let Some(done) = C::act_shortly(&ShortCall { ctx, prefix, rest }) {
            return done.map(|()| Answer::Sent);
        }
        let words: SmallVec<[&[u8]; 16]> = rest
            .iter()
            // SAFETY: as above.
            .map(|&argument| unsafe { string_bytes(argument) })
            .collect();
        let arguments = parse(&words, now_ms)?;
        let call = &mut Call {
            ctx,
            prefix,
            keys: RedisKeyspace::new(ctx),
            db: selected_db(ctx),
            argv,
            user: None,
        };
        C::act(arguments, call)
    });
    match called {
        Ok(Ok(Answer::Reply(reply))) => send(ctx, &reply),
        Ok(Ok(Answer::Sent)) => {}
        Ok(Err(error)) | Err(error) => send_error(ctx, &error),
    }
    raw::REDISMODULE_OK as c_int
}

/// A command that only the module itself sends: `name key argument …`. The command replies `OK`.
pub trait Internal {
    /// Name in lower case.
    const NAME: &'static CStr;
    /// Flags of the server.
    const FLAGS: &'static CStr;
    /// Executes the command.
    ///
    /// # Errors
    /// The error reply, which begins with its code word.
    fn run(call: &mut InternalCall<'_>) -> Result<(), String>;
}

/// A call of an internal command.
pub struct InternalCall<'a> {
    /// The context of the call.
    pub ctx: Ctx,
    /// The keys of the selected database.
    pub keys: RedisKeyspace,
    /// The key.
    pub key: RmString,
    /// The arguments after the key.
    pub arguments: &'a [&'a [u8]],
}

/// Registers an internal command; the server checks access to its key.
///
/// # Safety
/// Called with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses the registration.
pub unsafe fn register_internal<C: Internal>(ctx: Ctx) -> Result<(), String> {
    extern "C" fn entry<C: Internal>(
        ctx: RawCtx,
        argv: *mut *mut raw::RedisModuleString,
        argc: c_int,
    ) -> c_int {
        // SAFETY: the server hands a live context to this callback, on its main thread.
        let ctx = unsafe { Ctx::new(ctx) };
        notify::watch(ctx);
        let name = C::NAME.to_string_lossy();
        let called = guarded(&name, || {
            // SAFETY: the server passes `argc` live strings, which live until this function
            // returns.
            let argv = unsafe { std::slice::from_raw_parts(argv, argc as usize) };
            let [_, key, rest @ ..] = argv else {
                return Err(format!(
                    "ERR wrong number of arguments for '{name}' command"
                ));
            };
            let arguments: SmallVec<[&[u8]; 8]> = rest
                .iter()
                // SAFETY: as above.
                .map(|&argument| unsafe { string_bytes(argument) })
                .collect();
            C::run(&mut InternalCall {
                ctx,
                keys: RedisKeyspace::new(ctx),
                // SAFETY: as above.
                key: unsafe { RmString::shared(*key) },
                arguments: &arguments,
            })
        });
        match called {
            Ok(Ok(())) => send(ctx, &Reply::Ok),
            Ok(Err(error)) | Err(error) => send_error(ctx, &error),
        }
        raw::REDISMODULE_OK as c_int
    }
    // SAFETY: by contract.
    unsafe { create_command(ctx, C::NAME, entry::<C>, C::FLAGS, 1)? };
    // SAFETY: main thread, the context of the load, a live command.
    unsafe {
        if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
            let command = rm!(RedisModule_GetCommand(ctx.raw(), C::NAME.as_ptr()));
            set_categories(command, c"write slow admin dangerous".as_ptr());
        }
    }
    Ok(())
}

/// Registers a callback as a command. `key` is the position of its only key, or 0 if it has no key.
///
/// # Safety
/// Called with the context of the module's load.
pub(super) unsafe fn create_command(
    ctx: Ctx,
    name: &CStr,
    run: extern "C" fn(RawCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int,
    flags: &CStr,
    key: c_int,
) -> Result<(), String> {
    // SAFETY: main thread, the context of the load; the server copies the texts.
    let created = unsafe {
        rm!(RedisModule_CreateCommand(
            ctx.raw(),
            name.as_ptr(),
            Some(run),
            flags.as_ptr(),
            key,
            key,
            key
        ))
    };
    if created == raw::REDISMODULE_OK as c_int {
        return Ok(());
    }
    Err(format!(
        "the server refused command {}",
        name.to_string_lossy()
    ))
}

/// Registers a command with its documentation, arity and key specification.
///
/// # Safety
/// Called with the context of the module's load.
///
/// # Errors
/// Fails if the server refuses the registration.
pub unsafe fn register<C: Act>(ctx: Ctx) -> Result<(), String> {
    // SAFETY: by contract.
    unsafe { register_described::<C>(ctx, entry::<C>) }
}

/// Registers a callback as a described command.
///
/// # Safety
/// Called with the context of the module's load.
pub(super) unsafe fn register_described<C: Described>(
    ctx: Ctx,
    run: extern "C" fn(RawCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int,
) -> Result<(), String> {
    let spec = C::SPEC;
    let name = c_string(spec.name);
    let flags = c_string(spec.flags);
    // SAFETY: main thread, the context of the load; the server copies the texts.
    unsafe {
        create_command(ctx, &name, run, &flags, 0)?;
        let command = rm!(RedisModule_GetCommand(ctx.raw(), name.as_ptr()));
        describe(command, &spec, &C::all_args())?;
        // Redis 7.0 has no ACL categories of modules; it derives the categories from the flags.
        if let Some(set_categories) = raw::RedisModule_SetCommandACLCategories {
            let categories = c_string(&format!(
                "{} {}",
                if spec.has_flag("write") {
                    "write"
                } else {
                    "read"
                },
                if spec.has_flag("fast") {
                    "fast"
                } else {
                    "slow"
                }
            ));
            set_categories(command, categories.as_ptr());
        }
    }
    Ok(())
}

/// Strings that must stay alive while the server reads a description.
#[derive(Default)]
struct Texts {
    strings: Vec<CString>,
    arguments: Vec<Vec<raw::RedisModuleCommandArg>>,
}

impl Texts {
    fn keep(&mut self, text: &str) -> *const c_char {
        self.strings.push(c_string(text));
        self.strings.last().expect("just pushed").as_ptr()
    }

    /// Converts descriptions of arguments to the server's zero-terminated array.
    fn arguments(&mut self, args: &[Arg]) -> *mut raw::RedisModuleCommandArg {
        if args.is_empty() {
            return ptr::null_mut();
        }
        let mut described: Vec<raw::RedisModuleCommandArg> =
            args.iter().map(|arg| self.argument(arg)).collect();
        // SAFETY: the structure is plain data, and a structure of zeroes marks the end.
        described.push(unsafe { std::mem::zeroed() });
        self.arguments.push(described);
        self.arguments.last_mut().expect("just pushed").as_mut_ptr()
    }

    fn argument(&mut self, arg: &Arg) -> raw::RedisModuleCommandArg {
        let type_ = match arg.kind {
            ArgKind::Text => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING,
            ArgKind::Integer => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER,
            ArgKind::Prefix | ArgKind::Key => {
                raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY
            }
            ArgKind::Word => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN,
            ArgKind::OneOf => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF,
            ArgKind::Block => raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK,
        };
        let mut flags = raw::REDISMODULE_CMD_ARG_NONE;
        if arg.optional {
            flags |= raw::REDISMODULE_CMD_ARG_OPTIONAL;
        }
        if arg.multiple {
            flags |= raw::REDISMODULE_CMD_ARG_MULTIPLE;
        }
        raw::RedisModuleCommandArg {
            name: self.keep(&arg.name),
            type_,
            key_spec_index: if matches!(arg.kind, ArgKind::Prefix | ArgKind::Key) {
                0
            } else {
                -1
            },
            token: arg.token.map_or(ptr::null(), |token| self.keep(token)),
            summary: limits(arg.limits).map_or(ptr::null(), |text| self.keep(&text)),
            since: ptr::null(),
            flags: flags as c_int,
            deprecated_since: ptr::null(),
            subargs: self.arguments(&arg.parts),
            display_text: ptr::null(),
        }
    }
}

/// Returns the text for `COMMAND DOCS` that describes the valid values.
fn limits(limits: Limits) -> Option<String> {
    match limits {
        Limits::Bytes(least, most) => Some(format!("{least} to {most} bytes")),
        Limits::Range(least, most) => Some(format!("{least} to {most}")),
        Limits::Any | Limits::Like(_) => None,
    }
}

/// # Safety
/// `command` was just created by the server.
unsafe fn describe(
    command: *mut raw::RedisModuleCommand,
    spec: &Spec,
    args: &[Arg],
) -> Result<(), String> {
    let mut texts = Texts::default();
    let version = raw::RedisModuleCommandInfoVersion {
        version: 1,
        sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
        sizeof_keyspec: size_of::<raw::RedisModuleCommandKeySpec>(),
        sizeof_arg: size_of::<raw::RedisModuleCommandArg>(),
    };
    let (notes, flags) = if !spec.takes_key {
        // The prefix determines the slot of a command, but users need no permission for a key with
        // the name of the prefix: the module checks the keys derived from the prefix one by one.
        let notes = "key prefix: the names of all keys of the index or frontier begin with it";
        let flags = raw::REDISMODULE_CMD_KEY_NOT_KEY | raw::REDISMODULE_CMD_KEY_RW;
        (texts.keep(notes), flags)
    } else if spec.has_flag("write") {
        let flags = raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_UPDATE;
        (ptr::null(), flags)
    } else {
        let flags = raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS;
        (ptr::null(), flags)
    };
    let key_spec = raw::RedisModuleCommandKeySpec {
        notes,
        flags: u64::from(flags),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
            index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: 1 },
        },
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
                lastkey: 0,
                keystep: 1,
                limit: 0,
            },
        },
    };
    // SAFETY: plain data; a structure of zeroes marks the end of the list.
    let mut key_specs = [key_spec, unsafe { std::mem::zeroed() }];
    let info = raw::RedisModuleCommandInfo {
        version: &version,
        summary: texts.keep(spec.summary),
        complexity: texts.keep(spec.complexity),
        since: texts.keep(spec.since),
        history: ptr::null_mut(),
        tips: ptr::null(),
        arity: arity(args),
        key_specs: key_specs.as_mut_ptr(),
        args: texts.arguments(args),
    };
    // SAFETY: a live command; the server copies everything that the description points to.
    let described = unsafe { rm!(RedisModule_SetCommandInfo(command, &info)) };
    if described == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(format!(
            "the server refused the description of {}",
            spec.name
        ))
    }
}
