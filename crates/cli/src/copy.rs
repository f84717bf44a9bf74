//! Copies a dedupe index from a server that need not have the module, and writes and reads an index as lines.
//!
//! The source is read by plain commands that Redis, Valkey, Kvrocks and Dragonfly have. A scan reads each hash of
//! records over a single connection. If that connection breaks, the scan starts again at the beginning of the hash,
//! because the cursor of a scan may mean something else after a restart or a failover. All writes to the target can be
//! repeated: they set the same fields to the same values. A crawl becomes visible in the target once all of its records
//! are there. Small keys get exactly the content that they have in the source. Records are never deleted: a target with
//! more crawls or records than the source is refused.
//!
//! ```no_run
//! use std::time::Duration;
//! use crawlspace_cli::any_index::IndexName;
//! use crawlspace_cli::copy::Copy;
//! use crawlspace_index::Work;
//! let copy = Copy {
//!     from: "redis://old.example:6379/".to_owned(),
//!     from_prefix: b"{coll-42}:".to_vec(),
//!     to: "redis://127.0.0.1:6379/".to_owned(),
//!     copy: IndexName::Prefix(b"{coll-42}:".to_vec()),
//!     packed: true,
//!     wait: Duration::from_secs(120),
//! };
//! let copied = copy.run(&Work::default(), &|outage| eprintln!("{outage:?}"))?;
//! println!("{} records", copied.records);
//! # Ok::<(), crawlspace_cli::copy::Error>(())
//! ```

mod export;
mod import;
mod source;
mod target;

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::{Duration, Instant};

use crawlspace_client::dedupe::{Profile, Storage};
use crawlspace_index::Work;
use serde::Serialize;

pub use self::export::{Export, Exported};
pub use self::import::{BadLine, Import, Imported};
use self::source::{Kept, Source};
use self::target::Target;
use crate::any_index::IndexName;
use crate::away::Patience;

/// Number of fields that a scan asks for, and maximum number of fields per write.
const PAGE: usize = 1000;
/// Number of pages that are read ahead of the writes.
const AHEAD: usize = 4;
/// Number of records after which a packed copy packs what it has written, so that it never needs the memory of the
/// whole index in plain keys.
const PACK_AFTER: u64 = 1_000_000;

/// A copy: its source, its target and its options.
#[derive(Clone, Debug)]
pub struct Copy {
    /// URL of the server with the index. In a cluster, the node that owns the slot of the prefix.
    pub from: String,
    /// Prefix of the index on that server.
    pub from_prefix: Vec<u8>,
    /// URL of the server with the module, to which the index is copied.
    pub to: String,
    /// Name of the copy.
    pub copy: IndexName,
    /// Packs the copy.
    pub packed: bool,
    /// Maximum time to wait for a server that restarts or loads its data.
    pub wait: Duration,
}

/// The result of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Copied {
    /// Key names of the index.
    pub profile: Profile,
    /// Storage of the copy.
    pub storage: Storage,
    /// Number of crawls in the source.
    pub crawls: u64,
    /// Number of crawls whose records were in the target already.
    pub already_copied: u64,
    /// Number of records of all crawls.
    pub records: u64,
    /// Number of times that the copy had to continue after a server had become unavailable.
    pub interruptions: u64,
    /// Duration in seconds.
    pub seconds: f64,
}

/// An unavailable server: its error, and the remaining time to wait for it.
pub type Away<'a> = (&'a crawlspace_client::Error, Duration);

/// Error of a copy. Everything that was copied so far is kept; the same copy continues from there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source returns an error, or cannot be reached.
    #[error("source: {0}")]
    Source(crawlspace_client::Error),
    /// The target returns an error, or cannot be reached.
    #[error("target: {0}")]
    Target(crawlspace_client::Error),
    /// The indexes do not allow a copy.
    #[error("{0}")]
    Refused(String),
    /// The lines cannot be read or written.
    #[error("{0}")]
    Lines(#[from] io::Error),
    /// The copy was canceled.
    #[error("stopped; run the same command again to continue")]
    Stopped,
}

impl From<crawlspace_index::Error> for Error {
    fn from(_: crawlspace_index::Error) -> Error {
        Error::Stopped
    }
}

/// A crawl of the source.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// True if the crawl is in `allcrawls`.
    committed: bool,
    /// True if the crawl is in `uncommittedcrawls`.
    uncommitted: bool,
    /// Number of fields of `h:<crawl>`.
    records: u64,
}

/// The crawls of the source, in the order in which they are copied.
type Crawls = BTreeMap<Vec<u8>, Standing>;

/// Refuses a target with a crawl that has more records than in the source, or is not committed in the source.
fn refuse_more(there: &Crawls, crawls: &Crawls) -> Result<(), Error> {
    for (crawl, there) in there {
        let standing = crawls.get(crawl).copied().unwrap_or_default();
        if there.records > standing.records || there.committed && !standing.committed {
            let crawl = crawl.escape_ascii();
            return Err(Error::Refused(format!(
                "the target has records or a commit of the crawl '{crawl}' that the source does not have: remove this \
                 crawl from the target, then run the same command again"
            )));
        }
    }
    Ok(())
}

impl Copy {
    /// Copies the index, and continues when a server that was unavailable is back. Calls `tell` with the error and the
    /// remaining time before each attempt to connect, and with `None` when the server is back.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn run(&self, work: &Work, tell: &dyn Fn(Option<Away<'_>>)) -> Result<Copied, Error> {
        let begun = Instant::now();
        let away = |error: &crawlspace_client::Error, left| tell(Some((error, left)));
        let goes_on = AtomicBool::new(false);
        let mut source = Patience::new(&self.from, self.wait, &goes_on);
        let mut target = Patience::new(&self.to, self.wait, &goes_on);
        let (mut interruptions, mut already_copied) = (0, None);
        loop {
            match self.attempt(work, &mut already_copied) {
                Ok(copied) => {
                    return Ok(Copied {
                        already_copied: already_copied.unwrap_or(0),
                        interruptions,
                        seconds: begun.elapsed().as_secs_f64(),
                        ..copied
                    });
                }
                Err(Error::Source(error)) => source.wait(error, away).map_err(Error::Source)?,
                Err(Error::Target(error)) => target.wait(error, away).map_err(Error::Target)?,
                Err(error) => return Err(error),
            }
            tell(None);
            work.check()?;
            interruptions += 1;
        }
    }

    /// Copies everything that is not in the target yet. The first attempt stores the number of crawls that an
    /// earlier run had copied.
    fn attempt(&self, work: &Work, already_copied: &mut Option<u64>) -> Result<Copied, Error> {
        work.begin("reading keys", 0);
        let mut source = Source::open(&self.from, &IndexName::Prefix(self.from_prefix.clone()))?;
        let mut crawls = source.crawls()?;
        source.find_profile(&crawls)?;
        let kept = source.scan_keys(&mut crawls, work)?;
        source.count_records(&mut crawls)?;
        let mut target = Target::open(&self.to, &self.copy, self.packed)?;
        let there = target.prepare(source.profile, &crawls)?;
        target.refuse_unlisted(&crawls)?;
        refuse_more(&there, &crawls)?;
        let is_there = |crawl: &Vec<u8>, standing: &Standing| {
            there.get(crawl).is_some_and(|there| {
                there.records >= standing.records
                    && (there.committed, there.uncommitted)
                        == (standing.committed, standing.uncommitted)
            })
        };
        let all = || crawls.iter();
        let present = all().filter(|(crawl, standing)| is_there(crawl, standing));
        already_copied.get_or_insert(present.count() as u64);
        let left = all().filter(|(crawl, standing)| !is_there(crawl, standing));
        work.begin(
            "copying records",
            left.map(|(_, standing)| standing.records).sum(),
        );
        for (crawl, standing) in &crawls {
            target.replace(&source.details(crawl)?)?;
            if is_there(crawl, standing) {
                continue;
            }
            self.copy_records(&source, &target, crawl, *standing, work)?;
            target.list(crawl, *standing)?;
        }
        work.begin("copying other keys", 0);
        target.delete_others(&kept)?;
        for Kept { name, value } in source.other_keys(kept) {
            target.replace(&[(name, value?)])?;
            work.check()?;
        }
        let storage = target.finish(&crawls, work)?;
        // The source may have got records in the meantime.
        let mut counted = crawls.clone();
        source.count_records(&mut counted)?;
        refuse_more(&target.there(&crawls)?, &counted)?;
        Ok(Copied {
            profile: source.profile,
            storage,
            crawls: crawls.len() as u64,
            already_copied: 0,
            records: all().map(|(_, standing)| standing.records).sum(),
            interruptions: 0,
            seconds: 0.0,
        })
    }

    /// Copies the records of a crawl and, for a committed crawl, the hashes that it owns. A second thread reads
    /// ahead.
    fn copy_records(
        &self,
        source: &Source,
        target: &Target,
        crawl: &[u8],
        standing: Standing,
        work: &Work,
    ) -> Result<(), Error> {
        let (to_write, pages) = sync_channel(AHEAD);
        thread::scope(|scope| {
            let reader = scope.spawn(move || {
                source.read_records(crawl, standing.committed, |page| {
                    to_write.send(page).is_ok()
                })
            });
            let mut written = Ok(());
            for page in pages {
                written = target
                    .write_page(crawl, &page)
                    .and_then(|()| Ok(work.advance(page.records() as u64)?));
                if written.is_err() {
                    break;
                }
            }
            // The loop has dropped the receiver, so the reader ends.
            let read = match reader.join() {
                Ok(read) => read,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            written.and(read)
        })
    }
}
