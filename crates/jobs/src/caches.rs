//! The caches of a folder, some of which are built from others.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::cdx_index::{CdxIndex, CdxIndexCache};
use super::crawl_log_index::{CrawlLogIndex, DedupCrawlLogIndexCache, FullCrawlLogIndexCache};
use super::raw::RawCaches;
use super::{
    CombiningMultiFileBasedCache, Counts, Error, Figures, Form, Index, JobSet, MissingJob,
    MultiFileBasedCache, Work, operations,
};
use crawlspace_fetch::Guard;

/// Default of [`Options::wait`]: an hour.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(3600);
/// Default of [`Options::retry_missing`]: a minute.
pub const DEFAULT_RETRY_MISSING: Duration = Duration::from_secs(60);
/// Default of [`Options::memory`], in bytes: 1 GiB.
pub const DEFAULT_MEMORY: usize = 1 << 30;
/// Default of [`Limits::grace`]: ten minutes.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(600);

/// The kind of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKind {
    /// Captures whose payloads are worth deduplicating: all media types except text.
    Dedup,
    /// Every capture.
    Full,
    /// The lines of the CDX files.
    Cdx,
}

impl IndexKind {
    /// The list of all kinds.
    pub const ALL: [IndexKind; 3] = [IndexKind::Dedup, IndexKind::Full, IndexKind::Cdx];

    /// Returns the name: `dedup`, `full` or `cdx`.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Dedup => "dedup",
            IndexKind::Full => "full",
            IndexKind::Cdx => "cdx",
        }
    }

    /// Returns the folder of the cache of these indexes, with the name that NetarchiveSuite uses.
    pub const fn folder(self) -> &'static str {
        match self {
            IndexKind::Dedup => "dedupcrawllogindex",
            IndexKind::Full => "fullcrawllogindex",
            IndexKind::Cdx => "cdxindex",
        }
    }

    /// Returns the folder of a client's own copies of these indexes.
    pub const fn client_folder(self) -> &'static str {
        match self {
            IndexKind::Dedup => "DEDUP_CRAWL_LOG",
            IndexKind::Full => "FULL_CRAWL_LOG",
            IndexKind::Cdx => "CDX",
        }
    }

    /// Returns the form of the entries.
    pub const fn form(self) -> Form {
        match self {
            IndexKind::Dedup | IndexKind::Full => Form::Folder,
            IndexKind::Cdx => Form::File,
        }
    }
}

impl fmt::Display for IndexKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl FromStr for IndexKind {
    type Err = String;

    fn from_str(text: &str) -> Result<IndexKind, String> {
        let found = IndexKind::ALL.into_iter().find(|kind| kind.name() == text);
        found.ok_or_else(|| format!("invalid kind of index {text:?}: use dedup, full or cdx"))
    }
}

/// The locations of caches and metadata files, and the limits of building indexes.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the caches.
    pub cache_dir: PathBuf,
    /// The locations of metadata files: folders and files that list them, local or on web servers.
    pub metadata: Vec<String>,
    /// Timeout of waits for a build by another thread or process. Default: [`DEFAULT_WAIT`].
    pub wait: Duration,
    /// Time after which a missing job is looked for again, and an index is compared with the archive again. Default:
    /// [`DEFAULT_RETRY_MISSING`].
    pub retry_missing: Duration,
    /// Memory limit for sorting, in bytes; the rest is sorted on disk. Default: [`DEFAULT_MEMORY`].
    pub memory: usize,
    /// Maximum number of jobs that are read concurrently. Default: the number of cores, at most eight.
    pub threads: usize,
    /// Limits of the caches.
    pub limits: Limits,
    /// Restricts the addresses of web servers with metadata files. With `None`, a configured location may have any
    /// address, and a location at a public address may only refer to public ones.
    pub guard: Option<Guard>,
}

impl Default for Options {
    fn default() -> Options {
        let threads = std::thread::available_parallelism();
        Options {
            cache_dir: PathBuf::new(),
            metadata: Vec::new(),
            wait: DEFAULT_WAIT,
            retry_missing: DEFAULT_RETRY_MISSING,
            memory: DEFAULT_MEMORY,
            threads: threads.map_or(1, |threads| threads.get().min(8)),
            limits: Limits::default(),
            guard: None,
        }
    }
}

/// Limits of the caches of a folder. The least recently used entries are evicted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum total size of all entries, in bytes.
    pub max_bytes: Option<u64>,
    /// Minimum free space on the file system, in bytes.
    pub min_free: Option<u64>,
    /// Time since its last use after which an entry is evicted.
    pub max_age: Option<Duration>,
    /// Time since its last use during which an entry is not evicted: a process that has its path may be about to open
    /// it. Default: [`DEFAULT_GRACE`].
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_bytes: None,
            min_free: None,
            max_age: None,
            grace: DEFAULT_GRACE,
        }
    }
}

/// The caches of indexes of all kinds, and the caches that they are built from.
#[derive(Debug)]
pub struct IndexCaches {
    dedup: DedupCrawlLogIndexCache,
    full: FullCrawlLogIndexCache,
    cdx: CdxIndexCache,
    raw: Arc<RawCaches>,
    options: Options,
    figures: Arc<Figures>,
}

impl IndexCaches {
    /// Opens the caches of a folder, which is created if needed.
    ///
    /// # Errors
    /// Fails if the folder cannot be created, or a location of metadata files cannot be read.
    pub fn open(options: Options) -> Result<IndexCaches, Error> {
        let figures = Arc::<Figures>::default();
        let raw = Arc::new(RawCaches::open(&options, &figures)?);
        let cache = |kind: IndexKind| -> Result<MultiFileBasedCache, Error> {
            let cache = MultiFileBasedCache::open(&options.cache_dir, kind.folder(), kind.form())?;
            Ok(cache.waiting(options.wait).counting(Arc::clone(&figures)))
        };
        let raw_of = || Arc::clone(&raw);
        Ok(IndexCaches {
            dedup: CombiningMultiFileBasedCache::new(
                cache(IndexKind::Dedup)?,
                CrawlLogIndex::of(raw_of(), &options),
            ),
            full: CombiningMultiFileBasedCache::new(
                cache(IndexKind::Full)?,
                CrawlLogIndex::of(raw_of(), &options),
            ),
            cdx: CombiningMultiFileBasedCache::new(cache(IndexKind::Cdx)?, CdxIndex::of(raw_of())),
            raw,
            options,
            figures,
        })
    }

    /// Returns an index of the jobs that were found; see [`Index`].
    ///
    /// # Errors
    /// Fails if no index can be built. A missing job is not an error.
    pub fn get_index(&self, kind: IndexKind, jobs: &JobSet, work: &Work) -> Result<Index, Error> {
        self.get(kind, jobs, false, work)
    }

    /// Returns the index of all of the jobs if it exists and is up to date, without building anything.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn hit(&self, kind: IndexKind, jobs: &JobSet, work: &Work) -> Result<Option<Index>, Error> {
        match kind {
            IndexKind::Dedup => self.dedup.hit(jobs, work),
            IndexKind::Full => self.full.hit(jobs, work),
            IndexKind::Cdx => self.cdx.hit(jobs, work),
        }
    }

    /// Builds an index from the current state of the archive, ignoring the cache. Other indexes of these jobs are
    /// rebuilt when they are next requested, if anything has changed.
    ///
    /// # Errors
    /// Fails like [`IndexCaches::get_index`].
    pub fn rebuild_index(
        &self,
        kind: IndexKind,
        jobs: &JobSet,
        work: &Work,
    ) -> Result<Index, Error> {
        self.get(kind, jobs, true, work)
    }

    fn get(
        &self,
        kind: IndexKind,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
    ) -> Result<Index, Error> {
        match kind {
            IndexKind::Dedup => self.dedup.get_index(jobs, rebuild, work),
            IndexKind::Full => self.full.get_index(jobs, rebuild, work),
            IndexKind::Cdx => self.cdx.get_index(jobs, rebuild, work),
        }
    }

    /// Lists the jobs of an index whose metadata files could not be read recently, with the
    /// reasons. The index contains these jobs in their previous state.
    pub fn outdated(&self, index: &Index) -> Vec<MissingJob> {
        let jobs = index.found.iter();
        jobs.filter_map(|job| {
            let why = self.raw.unreadable(job)?;
            Some(MissingJob { job, why })
        })
        .collect()
    }

    /// Evicts entries until the limits are met, except entries in use.
    ///
    /// # Errors
    /// Fails like [`collect`](operations::collect).
    pub fn make_room(&self, work: &Work) -> Result<operations::Collected, Error> {
        let options = &self.options;
        let collected = operations::collect(&options.cache_dir, &options.limits, false, work)?;
        let removed = collected.removed.len();
        self.figures.evicted(removed.try_into().unwrap_or(u64::MAX));
        Ok(collected)
    }

    /// Returns the options that the caches were opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Returns the counts of events in these caches since they were opened, at all levels.
    pub fn figures(&self) -> Counts {
        self.figures.counts()
    }
}
