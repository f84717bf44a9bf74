//! Loads the WARC records of rows.
//!
//! A request is looked up as by the index API. Its rows are tried in order, each with the loaders of its step in the
//! order of the configuration, until one returns a [record](record::Record). The [`server`](crate::server) turns the
//! result into a response.

mod attempts;
pub(crate) mod byte_range;
pub mod capture;
pub(crate) mod captured;
pub mod client_request;
mod in_vain;
mod input;
pub mod live;
mod loader;
mod look_up;
mod open_files;
pub mod record;
pub mod request_message;
pub(crate) mod revisit;
mod search;
pub mod spool;
mod stored;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::attempts::Attempts;
use self::capture::Extent;
use self::loader::Archives;
pub(crate) use self::open_files::MAX_IDLE as MAX_OPEN_RECORDS;
pub(crate) use self::search::{Found, Outcome, query, search};
use crate::collection::Collection;
use crate::packages::Packages;
use crawlspace_fetch::Net;
use crawlspace_index::source::Limits;
use crawlspace_warc::{Deviations, digest};

/// Logs and counts a record that deviates from the standard.
fn note(collection: &Collection, extent: &Extent, deviations: Deviations) {
    if !deviations.is_empty() {
        let (name, file, offset) = (&*collection.name, &*extent.filename, extent.offset);
        tracing::info!(collection = name, file, offset, %deviations, "a record deviates from the standard, but is served");
        collection.requests.deviated(deviations);
    }
}

/// State shared by the loaders of all collections.
pub struct Resources {
    archives: Archives,
    /// Limits of responses from other servers.
    limits: Limits,
}

impl Resources {
    /// Creates empty state. Relative paths in Redis hashes are relative to `folder`.
    pub(crate) fn new(net: &Arc<Net>, packages: Arc<Packages>, folder: &Path) -> Resources {
        Resources {
            archives: Archives::new(net, packages, folder),
            limits: Limits {
                first: std::time::Duration::from_secs(30),
                silence: std::time::Duration::from_secs(30),
                total: std::time::Duration::from_secs(600),
                bytes: 4 << 30,
                ..Limits::default()
            },
        }
    }
}
