//! Imports WACZ files into a dedupe index: the importer of Browsertrix's documentation (seed, *Index Importing*).
//!
//! An import has four stages, each of which several importers can share (`queue`):
//!
//! 1. **Responses.** The index lines of each package become `DEDUPE.ADD` calls for its crawl. The calls are numbered,
//!    so that a restarted package counts nothing twice, and have `EARLIEST`, so that the result does not depend on the
//!    order.
//! 2. **Commit** of the crawls, in the order in which the manifest lists them.
//! 3. **Revisits.** Now every original of this import is in the index, at any position in the manifest. A revisit
//!    without original is set aside in the index and retried at the end of every import.
//! 4. **Commit** of the records that the revisits added; then crawls that the manifest does not
//!    list are tracked as removed, or removed (`DEDUPE.RETAIN`).
//!
//! ```no_run
//! use std::sync::atomic::AtomicBool;
//! use crawlspace_cli::indexer::{Event, Import};
//! let import = Import { redis: "redis://127.0.0.1/".into(), ..Import::of("collection.json")? };
//! let report = import.run_until(&|_: Event<'_>| {}, &AtomicBool::new(false))?;
//! println!("{} packages, {} records", report.imported, report.responses + report.revisits);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod crawls;
mod deferred;
mod failure;
mod guard;
mod job;
mod package;
mod present;
mod queue;
mod report;
mod responses;
mod revisits;
mod scripts;
mod text;
mod worker;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub use self::crawls::set_aside;
use self::deferred::RecordCache;
use self::guard::Guards;
use self::package::Package;
use self::present::Present;
use self::queue::{Queue, Stage};
pub use self::report::{CommittedCrawl, Event, Failed, LeftInPlace, Report};
use crate::any_index::{AnyIndex, IndexName, OpenError};
use crate::away::Patience;
use crawlspace_client::Server;
use crawlspace_client::dedupe::Profile;
use crawlspace_compact::calendar;
use crawlspace_compact::limits::dedupe::CRAWL_BYTES;
use crawlspace_wacz as wacz;
use crawlspace_wacz::{Location, Manifest};

/// Lease of a package; when it expires another importer may take the package over.
pub const LEASE: Duration = Duration::from_secs(30);

/// Retries of a call. This number is lower than the client's default, because a new run resumes the import, and
/// because several calls fail one after the other before the import ends.
const RETRIES: u32 = 4;

/// An import: its source, its target and its options.
#[derive(Clone, Debug)]
pub struct Import {
    /// A WACZ file, or a manifest that lists WACZ files.
    pub source: Location,
    /// The server: `redis://host:port/db`, or `unix:///path`.
    pub redis: String,
    /// Name of the index.
    pub index: IndexName,
    /// Crawl of packages for which the manifest names none. Without it, each such package is a
    /// crawl named after it.
    pub crawl: Option<String>,
    /// Number of packages processed at the same time.
    pub jobs: usize,
    /// Removes crawls of the index that the manifest does not list.
    pub remove: bool,
    /// Accepts an empty manifest even though that removes everything.
    pub allow_empty: bool,
    /// Reads each package completely and verifies its hash.
    pub verify: bool,
    /// Lease of a package; when it expires another importer may take the package over.
    pub lease: Duration,
    /// Maximum wait for a server that restarts or loads its data.
    pub wait: Duration,
    /// Limits and timeouts for reading WACZ files.
    pub reading: wacz::Options,
}

/// Error of a whole import. Unreadable packages are not an error of the import: see [`Report::failed`].
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source cannot be read.
    #[error("{0}")]
    Source(#[from] wacz::Error),
    /// The index returns an error, or cannot be reached.
    #[error("{0}")]
    Index(#[from] crawlspace_client::Error),
    /// The server is unreachable or loading its data, and the maximum wait is over.
    #[error(
        "{0}; run the same command again when the server is back: it continues where it stopped"
    )]
    Away(crawlspace_client::Error),
    /// The request was refused, for example because it would destroy data.
    #[error("{0}")]
    Refused(String),
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Error {
        match error {
            OpenError::Index(error) => Error::Index(error),
            OpenError::Missing(_) => Error::Refused(error.to_string()),
        }
    }
}

/// Receives events of an import, from several threads.
pub trait Watch: Sync {
    /// Handles an event.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Sync> Watch for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}

impl Import {
    /// Creates an import of this source into an index without prefix on this machine.
    ///
    /// # Errors
    /// Fails if the source is neither a path nor an HTTP URL.
    pub fn of(source: &str) -> Result<Import, Error> {
        Ok(Import {
            source: Location::parse(source)?,
            redis: "redis://127.0.0.1:6379/0".to_owned(),
            index: IndexName::Prefix(Vec::new()),
            crawl: None,
            jobs: 1,
            remove: false,
            allow_empty: false,
            verify: false,
            lease: LEASE,
            wait: Duration::ZERO,
            reading: wacz::Options::default(),
        })
    }

    /// Runs the import and reports progress to `watch`, until `stop` becomes true. A stopped import leaves begun work
    /// in a state that a later import can continue.
    ///
    /// # Errors
    /// See [`Error`]. Everything imported so far is kept; importing again continues from there.
    pub fn run_until(&self, watch: &dyn Watch, stop: &AtomicBool) -> Result<Report, Error> {
        let begun = Instant::now();
        let manifest = Manifest::open(&self.source, &self.reading)?;
        self.refuse_harm(&manifest)?;
        let report = Mutex::default();
        let mut patience = Patience::new(&self.redis, self.wait, stop);
        while let Err(error) = self.share(&manifest, &report, watch, stop) {
            let Error::Index(error) = error else {
                return Err(error);
            };
            let tell = |error: &crawlspace_client::Error, left| {
                watch.event(Event::Away { error, left });
            };
            let is_there = patience.wait(error, tell);
            is_there.map_err(|error| {
                if error.is_transient() {
                    Error::Away(error)
                } else {
                    Error::Index(error)
                }
            })?;
            if stop.load(Ordering::Relaxed) {
                lock(&report).stopped = true;
                break;
            }
            watch.event(Event::Back);
        }
        let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.seconds = begun.elapsed().as_secs_f64();
        Ok(report)
    }

    fn refuse_harm(&self, manifest: &Manifest) -> Result<(), Error> {
        if self.remove && !manifest.is_full {
            return Err(Error::Refused(
                "removing crawls needs a manifest of the whole collection, not a single WACZ file: pass a \
                 manifest".to_owned(),
            ));
        }
        if self.remove && manifest.entries.is_empty() && !self.allow_empty {
            return Err(Error::Refused(format!(
                "{} lists nothing, and removing all crawls that are not listed would empty the index: pass --allow-empty if that is intended",
                self.source
            )));
        }
        Ok(())
    }

    /// Imports everything that is not imported yet, and adds to the report of earlier attempts.
    fn share(
        &self,
        manifest: &Manifest,
        all: &Mutex<Report>,
        watch: &dyn Watch,
        stop: &AtomicBool,
    ) -> Result<(), Error> {
        let connections = self.jobs.max(1) * 2 + 2;
        let server = Server::options(&self.redis)
            .connections(connections)
            .retries(RETRIES)
            .open()?;
        let server = &server;
        let mut report = Report {
            listed: manifest.entries.len() as u64,
            ..Report::default()
        };
        let (packages, listed) = self.packages(manifest, &mut report, watch);
        let index = self.index.open(server)?;
        // Fail before anything is queued if the server has no module, or does not own this prefix's
        // slot.
        let profile = index.profile()?;
        let queue = Queue::new(
            server,
            index.home().prefix(),
            token(),
            self.lease,
            self.crawl.clone(),
        );
        let mut present = Present::new(index.home(), &queue);
        report.already_in_index = queue.adopt(|packages| Ok(present.sort(packages)?.others))?;
        let sorted = present.sort(packages)?;
        report.already_in_index += sorted.present.len() as u64;
        for failed in sorted.replaced {
            watch.event(Event::Failed(&failed));
            report.failed.push(failed);
        }
        let enqueued = queue.enqueue(&sorted.others, stop)?;
        queue.retry()?;
        report.already_imported = enqueued.done;
        watch.event(Event::Queued {
            listed: report.listed,
            already_imported: enqueued.done,
            already_in_index: report.already_in_index,
        });
        {
            let mut all = lock(all);
            if all.listed == 0 {
                *all = report;
            } else {
                // Packages that failed before the server went away are retried.
                all.failed = report.failed;
            }
        }

        let work = Work {
            import: self,
            server,
            index,
            profile,
            queue: &queue,
            guards: Guards::default(),
            kept: RecordCache::default(),
            places: Mutex::default(),
            report: all,
            watch,
            stop,
        };
        loop {
            work.all(Stage::Responses)?;
            if work.is_stopped() {
                break;
            }
            work.commit()?;
            watch.event(Event::Revisits);
            work.all(Stage::Revisits)?;
            if work.is_stopped() {
                break;
            }
            work.settle()?;
            work.commit()?;
            if manifest.is_full {
                work.retain(&listed)?;
            }
            if queue.close(&now())? {
                break;
            }
        }
        let stopped = work.is_stopped();
        work.report().stopped = stopped;
        Ok(())
    }

    /// Returns the entries of the manifest that can be queued, and everything that it lists.
    fn packages(
        &self,
        manifest: &Manifest,
        report: &mut Report,
        watch: &dyn Watch,
    ) -> (Vec<Package>, Listed) {
        let mut packages = Vec::new();
        let mut listed = Listed::default();
        for entry in &manifest.entries {
            if entry.location.is_err() && entry.crawl.is_none() {
                listed.of_unknown_crawl.push(entry.name.clone());
            }
            let crawl = entry.crawl.as_ref().or(self.crawl.as_ref());
            let crawl = crawl.unwrap_or(&entry.name).clone();
            listed.crawls.insert(entry.name.clone(), crawl.clone());
            let located = match &entry.location {
                Ok(_) if entry.name.len() > CRAWL_BYTES => {
                    Err(format!("its name is longer than {} KiB", CRAWL_BYTES >> 10))
                }
                Ok(location) => absolute(location),
                Err(reason) => Err(reason.clone()),
            };
            match located {
                Ok(path) => packages.push(Package::new(
                    entry.name.clone(),
                    path,
                    entry.hash.clone(),
                    entry.size,
                    crawl,
                )),
                Err(reason) => {
                    let failed = Failed {
                        name: entry.name.clone(),
                        path: match &entry.location {
                            Ok(location) => location.to_string(),
                            Err(_) => String::new(),
                        },
                        reason,
                    };
                    watch.event(Event::Failed(&failed));
                    report.failed.push(failed);
                }
            }
        }
        (packages, listed)
    }
}

/// Contents of the collection according to the manifest.
#[derive(Default)]
struct Listed {
    /// The crawl of each package, by the package's name.
    crawls: HashMap<String, String>,
    /// Packages that cannot be imported, and for which the manifest names no crawl.
    of_unknown_crawl: Vec<String>,
}

/// Positions of packages in the WACZ lists of their crawls.
type Places = HashMap<String, HashMap<String, u64>>;

/// A running import: state shared by its workers.
struct Work<'a> {
    import: &'a Import,
    server: &'a Server,
    index: AnyIndex,
    profile: Profile,
    queue: &'a Queue,
    guards: Guards,
    /// Records of packages whose responses this importer added; they need not be read again.
    kept: RecordCache,
    places: Mutex<Places>,
    report: &'a Mutex<Report>,
    watch: &'a dyn Watch,
    stop: &'a AtomicBool,
}

impl Work<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn report(&self) -> MutexGuard<'_, Report> {
        lock(self.report)
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn lock(report: &Mutex<Report>) -> MutexGuard<'_, Report> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes a location absolute, so that it is valid for an importer started elsewhere.
fn absolute(location: &Location) -> Result<String, String> {
    match location {
        Location::Url(url) => Ok(url.to_string()),
        Location::File(path) => match std::path::absolute(path) {
            Ok(path) => match path.to_str() {
                Some(path) => Ok(path.to_owned()),
                None => Err("its path is not UTF-8: rename the file".to_owned()),
            },
            Err(error) => Err(error.to_string()),
        },
    }
}

/// Returns a unique token.
fn token() -> String {
    let mut random = RandomState::new().build_hasher();
    random.write_u32(std::process::id());
    format!("{:016x}", random.finish())
}

/// Returns the time in the format of `last_update_ts`: `2026-03-19T10:20:15.123Z`.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    iso(since.unwrap_or_default())
}

fn iso(since_1970: Duration) -> String {
    let (days, seconds) = (since_1970.as_secs() / 86_400, since_1970.as_secs() % 86_400);
    let (year, month, day) = calendar::date(days as i64);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let millis = since_1970.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_written_as_iso_8601() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_772_323_199, "2026-02-28T23:59:59.000Z"),
            (1_772_323_200, "2026-03-01T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(Duration::from_secs(seconds)), text);
        }
        assert_eq!(iso(Duration::from_millis(7)), "1970-01-01T00:00:00.007Z");
    }

    #[test]
    fn importers_have_unique_tokens() {
        assert_ne!(token(), token());
    }
}
