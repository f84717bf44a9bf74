//! What stands at the name of a merged index that is packed.

use std::ffi::CStr;
use std::os::raw::c_int;

use crawlspace_host::server::native::{Native, Registered};

/// The internal command that changes a packed index, for replicas and append-only files.
pub(super) const CHANGE: &CStr = c"crawlspace.packed";

static REGISTERED: Registered = Registered::new();

/// A value that says nothing but that it is there. Plain commands get `WRONGTYPE` from it, and whoever deletes or renames
/// it destroys no record.
#[derive(Clone, Default)]
pub struct Marker;

/// What is stored of it, for versions that may have more to say.
const CONTENT: &[u8] = b"1";

impl Native for Marker {
    const NAME: &'static CStr = c"crawlmark";
    const VERSION: c_int = 1;
    const WHAT: &'static str = "marker of a packed index";
    const REBUILT_BY: &'static CStr = CHANGE;
    const REBUILT_WITH: &'static CStr = c"MARK";

    fn registered() -> &'static Registered {
        &REGISTERED
    }

    fn save(&self, chunk: &mut dyn FnMut(&[u8])) {
        chunk(CONTENT);
    }

    fn load(&mut self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn is_empty(&self) -> bool {
        false
    }

    fn memory(&self) -> usize {
        // The server's own structures around it count as the key's.
        size_of::<usize>()
    }

    fn free_effort(&self) -> usize {
        1
    }
}
