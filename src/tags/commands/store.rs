//! A tag space as the value of a key.

use std::ffi::CStr;
use std::os::raw::c_int;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::metrics;
use crate::tags::encoding::ENVELOPE;
use crate::tags::error::Error;
use crate::tags::space::Space;
use crawlspace_host::defrag::Mover;
use crawlspace_host::server::api::Ctx;
use crawlspace_host::server::command::{Call, Internal, InternalCall, register_internal};
use crawlspace_host::server::keyspace::{By, Replicated};
use crawlspace_host::server::main_thread::MainThread;
use crawlspace_host::server::native::{self, Native, Registered};
use crawlspace_host::server::scope::{Names, names as names_of, scope};
use crawlspace_host::slices::Time;

/// Name of the internal command that adds a chunk to a space. Append-only files contain this
/// command.
const CHUNK: &CStr = c"crawlspace.tags";

static SPACE: Registered = Registered::new();

impl Native for Space {
    const NAME: &'static CStr = c"crawltags";
    const VERSION: c_int = ENVELOPE.version as c_int;
    const WHAT: &'static str = "tag space";
    const REBUILT_BY: &'static CStr = CHUNK;
    const REBUILT_WITH: &'static CStr = c"CHUNK";

    fn registered() -> &'static Registered {
        &SPACE
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        Space::save(self, chunk);
    }

    fn elements(&self, element: &mut dyn FnMut(&[&[u8]])) {
        Space::elements(self, element);
    }

    fn load(&mut self, chunk: &[u8]) -> Result<(), String> {
        self.load_chunk(chunk)
    }

    fn is_empty(&self) -> bool {
        Space::is_empty(self)
    }

    fn memory(&self) -> usize {
        Space::memory(self)
    }

    fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>, time: Time<'_>) -> u64 {
        Space::defrag(self, cursor, mover, time)
    }

    fn free_effort(&self) -> usize {
        self.index().free_effort()
    }
}

/// Scopes (database and prefix) of the spaces in use. When a command looks up a deleted space, the
/// space is removed from the list.
static SPACES: MainThread<FxHashSet<Box<[u8]>>> =
    MainThread::new(FxHashSet::with_hasher(FxBuildHasher));

/// Maximum number of scopes in the list.
const MAX_SPACES: usize = 4096;

/// Returns the names of the spaces in use, up to [`MAX_SPACES`].
pub fn names() -> Names {
    names_of(SPACES.borrow().iter().map(|scope| &scope[..]))
}

/// Records whether a space exists under a key.
fn note(db: c_int, key: &[u8], exists: bool) {
    let mut spaces = SPACES.borrow();
    let scope = scope(db, key);
    if !exists {
        spaces.remove(&scope[..]);
    } else if spaces.len() < MAX_SPACES && !spaces.contains(&scope[..]) {
        spaces.insert(scope[..].into());
    }
    metrics::SPACES.set(spaces.len() as u64);
}

/// Returns the space of a call, or `None` if it does not exist.
pub fn read<'a>(call: &'a mut Call<'_>) -> Result<Option<&'a Space>, String> {
    let key = call.key();
    let db = call.db;
    let space = call.keys.native::<Space>(&key);
    let space = space.map_err(|error| Error::Key(error).to_string())?;
    note(db, key.as_ref(), space.is_some());
    Ok(space)
}

/// Changes the space of a call. If the space does not exist, creates it if `makes` is true, and
/// returns `None` otherwise. The closure returns its result, and true if it changed the space.
pub fn change<R>(
    call: &mut Call<'_>,
    makes: bool,
    event: &'static CStr,
    change: impl FnOnce(&mut Space) -> Result<(R, bool), Error>,
) -> Result<Option<R>, String> {
    let (db, key) = (call.db, call.key());
    let changed = call
        .keys
        .change_native(&key, makes, |space: &mut Space| match change(space) {
            Ok((reply, changed)) => {
                let by = By::TheCommand;
                (Ok(reply), changed.then_some(Replicated { by, event }))
            }
            Err(error) => (Err(error), None),
        });
    match changed {
        Ok(reply) => {
            note(db, key.as_ref(), reply.is_some());
            reply.transpose().map_err(|error| error.to_string())
        }
        Err(error) => Err(Error::Key(error).to_string()),
    }
}

struct Chunk;

impl Internal for Chunk {
    const NAME: &'static CStr = CHUNK;
    const FLAGS: &'static CStr = c"write deny-oom admin";

    fn run(call: &mut InternalCall<'_>) -> Result<(), String> {
        let &[word, chunk] = call.arguments else {
            return Err("ERR syntax error: expected key CHUNK chunk".to_string());
        };
        if word != b"CHUNK" {
            return Err("ERR syntax error: expected key CHUNK chunk".to_string());
        }
        let key = call.key.clone();
        let loaded = call.keys.change_native(&key, true, |space: &mut Space| {
            match space.load_chunk(chunk) {
                Ok(()) => {
                    let event = c"tags.chunk";
                    let by = By::TheCommand;
                    (Ok(()), Some(Replicated { by, event }))
                }
                Err(error) => (Err(error), None),
            }
        });
        match loaded {
            Ok(loaded) => loaded.unwrap_or(Ok(())).map_err(|e| format!("ERR {e}")),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Registers the type and its internal command with the server.
///
/// # Safety
/// Must be called once, with the context of the module's load.
pub unsafe fn register_type(ctx: Ctx) -> Result<(), String> {
    // SAFETY: by contract.
    unsafe {
        native::register::<Space>(ctx)?;
        register_internal::<Chunk>(ctx)
    }
}
