//! The URIs of a group as a native value of a key.

use std::ffi::CStr;
use std::os::raw::c_int;

use crate::chg::store::{KEPT_URIS, Store};
use crate::chg::uris::{CHUNK_BYTES, Changed, ENVELOPE, Op, Uris};
use crawlspace_host::keyspace::{KeyType, Result};
use crawlspace_host::server::api::RmString;
use crawlspace_host::server::keyspace::{By, RedisKeyspace, Replicated};
use crawlspace_host::server::native::{Native, Registered};

/// Name of the internal command that makes a change, for replicas and append-only files.
pub const CHANGE: &CStr = c"crawlspace.uris";

static URIS: Registered = Registered::new();

impl Native for Uris {
    const NAME: &'static CStr = c"crawluris";
    const VERSION: c_int = ENVELOPE.version as c_int;
    const WHAT: &'static str = match KEPT_URIS {
        KeyType::Native(what) => what,
        _ => panic!("kept URIs are a native value"),
    };
    const REBUILT_BY: &'static CStr = CHANGE;
    const REBUILT_WITH: &'static CStr = c"LOAD";

    fn registered() -> &'static Registered {
        &URIS
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        self.encode(CHUNK_BYTES, chunk);
    }

    fn load(&mut self, chunk: &[u8]) -> std::result::Result<(), String> {
        Uris::load(self, chunk).map(drop)
    }

    fn is_empty(&self) -> bool {
        Uris::is_empty(self)
    }

    fn memory(&self) -> usize {
        Uris::memory(self)
    }

    fn free_effort(&self) -> usize {
        Uris::free_effort(self)
    }
}

impl Store for RedisKeyspace {
    fn uris<T>(&mut self, key: &RmString, read: impl FnOnce(&Uris) -> T) -> Result<Option<T>> {
        Ok(self.native::<Uris>(key)?.map(read))
    }

    fn change_uris_then<T>(
        &mut self,
        key: &RmString,
        op: &Op<'_>,
        look: impl FnOnce(&Uris) -> T,
    ) -> Result<(Changed, Option<T>)> {
        let arguments = || op.to_args();
        let changed = self.change_native(key, op.makes_the_key(), |uris: &mut Uris| {
            let changed = uris.apply(op);
            let replicated = (changed != Changed::Nothing).then_some(Replicated {
                by: By::Arguments(&arguments),
                event: CHANGE,
            });
            ((changed, Some(look(uris))), replicated)
        })?;
        Ok(changed.unwrap_or((Changed::Nothing, None)))
    }
}
