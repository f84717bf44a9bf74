//! Caches of per-job index files, each built once across threads and processes.
//!
//! A harvester logs each fetch of a job in a `crawl.log`, and keeps it in a metadata (W)ARC file, together with a CDX
//! of the stored captures. From these files, this crate builds indexes of any set of jobs: of known payloads
//! (dedup), of all captures for replay (full), and of the lines of the CDX. A request goes through four
//! layers of caches, as in the index server of NetarchiveSuite:
//!
//! ```text
//! IndexRequestClient            a client's own copies, unzipped
//!   └ DedupCrawlLogIndexCache, FullCrawlLogIndexCache, CdxIndexCache     by set of jobs, gzipped
//!       └ CrawlLogDataCache, CdxDataCache                              by job, sorted lines
//!           └ metadata (W)ARC files
//! ```
//!
//! Each cache is a [`FileBasedCache`]: a request gets an item from the cache or builds it, and no two threads
//! or processes build the same item at the same time.

#![warn(unreachable_pub)]

mod cache;
mod caches;
mod cdx_index;
pub mod cdx_line;
mod combine;
pub mod crawl_log;
mod crawl_log_index;
mod id;
mod join;
pub mod load;
pub mod metadata;
mod missing;
pub mod operations;
mod outdated;
mod raw;
mod read_ahead;
mod request;

pub use self::cache::{
    Counts, Draft, Entry, Eviction, Figures, FileBasedCache, FileSum, Form, Input, Manifest,
    MultiFileBasedCache, Unreadable,
};
pub use self::caches::{
    DEFAULT_GRACE, DEFAULT_MEMORY, DEFAULT_RETRY_MISSING, DEFAULT_WAIT, IndexCaches, IndexKind,
    Limits, Options,
};
pub use self::cdx_index::{CdxIndex, CdxIndexCache};
pub use self::combine::{Combine, CombiningMultiFileBasedCache, Index, Prepared};
pub use self::crawl_log_index::{
    CrawlLogIndex, Dedup, DedupCrawlLogIndexCache, Flavoured, Full, FullCrawlLogIndexCache,
};
pub use self::id::{Id, JobId, JobSet};
pub use self::missing::{Missing, MissingJob};
pub use self::raw::{Raw, RawCaches, RawMetadataCache};
pub use self::request::reasons;
pub use self::request::{IndexRequestClient, Parcel};
pub use crawlspace_index::{Error, Progress, Work};

use std::io::{self, BufRead};

use crawlspace_index::lines::{Bad, Reader};

/// Number of lines after which progress is reported and cancellation is checked.
const PROGRESS_INTERVAL: u64 = 4096;

/// Passes each line of an input, with its number, to `take`. The progress of `work` is counted in lines.
///
/// # Errors
/// Returns the errors of `take`; the errors of the input, converted by `failed`; and [`Error::Cancelled`].
fn each_line(
    input: impl BufRead,
    work: &Work,
    failed: impl Fn(&io::Error) -> Error,
    mut take: impl FnMut(u64, Result<&[u8], Bad>) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut lines = Reader::new(input);
    let mut reported = 0;
    while let Some((number, line)) = lines.next().map_err(|error| failed(&error))? {
        if number >= reported + PROGRESS_INTERVAL {
            work.advance(number - reported)?;
            reported = number;
        }
        take(number, line)?;
    }
    Ok(())
}

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
