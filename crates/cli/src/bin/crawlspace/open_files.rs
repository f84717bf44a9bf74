//! Limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the system's maximum, and returns it; `None` means no limit. Each connection, each
/// file or request of a source, and each index being merged uses a descriptor.
pub(crate) fn allow_more() -> Option<u64> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the current limit applies.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}
