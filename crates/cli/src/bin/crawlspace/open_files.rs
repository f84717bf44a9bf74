//! How many files may be open at a time.

use rustix::process::{Resource, getrlimit, setrlimit};

/// As many as the system lets one have: each connection is one, each file and request of a source, and each index that
/// is merged.
pub(crate) fn allow_more() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Those that there are will have to do, then.
    let _ = setrlimit(Resource::Nofile, limit);
}
