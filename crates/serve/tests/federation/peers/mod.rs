//! Programs of others (PyPI), as they are, in front of ours: crawlers that ask whether a payload is known, and tools that
//! page through an index.
//!
//! Each test takes its numbers from [`sized`]: few in `make test`, all that is promised in `make test-peers`.

mod access;
mod cdx_clients;
mod crawls;
mod makers;
mod site;
mod warcprox;

use std::path::{Path, PathBuf};

use redis_tests::packages::{self, left_out};

/// A Python with these packages in a folder of this name, or `None` where they cannot be fetched.
fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    match packages::python(&folder, packages) {
        Ok(python) => Some(python),
        Err(reason) => {
            left_out(name, &reason);
            None
        }
    }
}
