//! A placeholder value for the names of plain keys whose contents are in a packed value.

use std::ffi::CStr;
use std::os::raw::c_int;

use crawlspace_host::keyspace::Result;
use crawlspace_host::server::api::RmString;
use crawlspace_host::server::keyspace::{By, RedisKeyspace, Replicated};
use crawlspace_host::server::native::{Native, Registered};

/// Internal command that changes a packed index. Replicas and append-only files receive this
/// command.
pub(crate) const CHANGE: &CStr = c"crawlspace.packed";

static REGISTERED: Registered = Registered::new();

/// A value that marks a key as in use and contains no data. Plain commands fail with `WRONGTYPE` on
/// such a key, and deleting or renaming the key does not destroy any record.
#[derive(Clone, Default)]
pub struct Marker;

/// Stores a marker in a key.
pub(crate) fn mark(keys: &mut RedisKeyspace, key: &RmString) -> Result<()> {
    let arguments = || vec![Marker::REBUILT_WITH.to_bytes().to_vec(), CONTENT.to_vec()];
    let replicated = Replicated {
        by: By::Arguments(&arguments),
        event: EVENT,
    };
    keys.change_native(key, true, |_: &mut Marker| ((), Some(replicated)))
        .map(drop)
}

/// Name of the keyspace event of a new marker. The name does not include the command family, because a replica
/// cannot tell to which family the marker belongs.
pub(crate) const EVENT: &CStr = c"crawlspace.marker";

/// The stored content, reserved for later versions.
const CONTENT: &[u8] = b"1";

impl Native for Marker {
    const NAME: &'static CStr = c"crawlmark";
    const VERSION: c_int = 1;
    const WHAT: &'static str = "marker of a packed value";
    const REBUILT_BY: &'static CStr = CHANGE;
    const REBUILT_WITH: &'static CStr = c"MARK";

    fn registered() -> &'static Registered {
        &REGISTERED
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        chunk(CONTENT);
    }

    fn load(&mut self, _: &[u8]) -> std::result::Result<(), String> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn memory(&self) -> usize {
        // `MEMORY USAGE` already includes the server's own data structures for the key.
        size_of::<usize>()
    }

    fn free_effort(&self) -> usize {
        1
    }
}
