//! Tests of unmodified third-party programs (PyPI) as clients: crawlers that look up payloads, and tools that page
//! through an index.
//!
//! Each test takes its sizes from [`sized`]: small in `make test`, full size in `make test-peers`.

mod access;
mod cdx_clients;
mod cdxj;
mod crawls;
mod makers;
mod site;
mod warcprox;

use std::path::{Path, PathBuf};

use redis_tests::packages::{self, left_out};

/// Returns the folder of an installation, which is kept between runs.
fn installation(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Returns a Python with these packages in a folder of this name, or `None` if they cannot be fetched.
fn python(name: &str, packages: &[&str]) -> Option<PathBuf> {
    match packages::python(&installation(name), packages) {
        Ok(python) => Some(python),
        Err(reason) => {
            left_out(name, &reason);
            None
        }
    }
}
