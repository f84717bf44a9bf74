//! How many files may be open at a time.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit to the maximum that the system allows, and returns it; `None` means no limit. Each connection takes a
/// descriptor, each file and request of a source, and each index that is merged.
pub(crate) fn allow_more() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where that fails, those that there are have to do.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}
