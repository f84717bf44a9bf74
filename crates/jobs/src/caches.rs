//! All the caches of a folder, one on the other.

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

/// Which index is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKind {
    /// Captures whose payloads are worth deduplicating: all that is not text.
    Dedup,
    /// All captures.
    Full,
    /// The lines of the CDX files.
    Cdx,
}

impl IndexKind {
    /// All there are.
    pub const ALL: [IndexKind; 3] = [IndexKind::Dedup, IndexKind::Full, IndexKind::Cdx];

    /// Its name: `dedup`, `full`, `cdx`.
    pub const fn name(self) -> &'static str {
        match self {
            IndexKind::Dedup => "dedup",
            IndexKind::Full => "full",
            IndexKind::Cdx => "cdx",
        }
    }

    /// The folder of the cache of such indexes, as NetarchiveSuite names it.
    pub const fn folder(self) -> &'static str {
        match self {
            IndexKind::Dedup => "dedupcrawllogindex",
            IndexKind::Full => "fullcrawllogindex",
            IndexKind::Cdx => "cdxindex",
        }
    }

    /// The folder of a client's own copies of them.
    pub const fn client_folder(self) -> &'static str {
        match self {
            IndexKind::Dedup => "DEDUP_CRAWL_LOG",
            IndexKind::Full => "FULL_CRAWL_LOG",
            IndexKind::Cdx => "CDX",
        }
    }

    /// Whether its entries are files or folders.
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
        found
            .ok_or_else(|| format!("invalid kind of index {text:?}: there are dedup, full and cdx"))
    }
}

/// Where caches and metadata files are, and the limits of building indexes.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the caches.
    pub cache_dir: PathBuf,
    /// Where metadata files are: folders, files that list them, and the same on web servers.
    pub metadata: Vec<String>,
    /// Timeout for waiting for a build by another thread or process: [`DEFAULT_WAIT`] by default.
    pub wait: Duration,
    /// Time after which a missing job is looked for again, and an index compared with the archive again:
    /// [`DEFAULT_RETRY_MISSING`] by default.
    pub retry_missing: Duration,
    /// Limit of memory for sorting, in bytes: [`DEFAULT_MEMORY`] by default. What does not fit is sorted on disk.
    pub memory: usize,
    /// Maximum number of jobs read at once: one a core by default, and no more than eight.
    pub threads: usize,
    /// Limits of the caches.
    pub limits: Limits,
    /// Which addresses web servers with metadata files may have; with `None`, a place that is named may have any, and
    /// one at public addresses leads to public ones alone.
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

/// Limits of the caches of a folder. What was used longest ago is evicted first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of all entries, in bytes.
    pub max_bytes: Option<u64>,
    /// Minimum of free space on the file system, in bytes.
    pub min_free: Option<u64>,
    /// Time after its last use after which an entry is evicted.
    pub max_age: Option<Duration>,
    /// Time after its last use for which an entry is not evicted, [`DEFAULT_GRACE`] by default: a process that has its
    /// path may be about to open it.
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

/// Indexes of all kinds, and the caches below them.
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
    /// Opens the caches of a folder, which is made if need be.
    ///
    /// # Errors
    /// When the folder cannot be made, or a location of metadata files cannot be read.
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

    /// An index over those of the jobs that there are. See [`Index`] for which these are.
    ///
    /// # Errors
    /// When there can be no index at all. A job that is missing is no error.
    pub fn get_index(&self, kind: IndexKind, jobs: &JobSet, work: &Work) -> Result<Index, Error> {
        self.get(kind, jobs, false, work)
    }

    /// The index over all of the jobs if it is there, and made of what there is now, without building anything.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn hit(&self, kind: IndexKind, jobs: &JobSet, work: &Work) -> Result<Option<Index>, Error> {
        match kind {
            IndexKind::Dedup => self.dedup.hit(jobs, work),
            IndexKind::Full => self.full.hit(jobs, work),
            IndexKind::Cdx => self.cdx.hit(jobs, work),
        }
    }

    /// Builds an index from what the archive has now, whatever is in the cache. Other indexes of these jobs are rebuilt
    /// when somebody asks for them, if anything is different.
    ///
    /// # Errors
    /// As [`IndexCaches::get_index`].
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

    /// Lists those of the jobs of an index whose metadata files could not be read a short time ago, and why. The index has
    /// them as they were before.
    pub fn outdated(&self, index: &Index) -> Vec<MissingJob> {
        let jobs = index.found.iter();
        jobs.filter_map(|job| {
            let why = self.raw.unreadable(job)?;
            Some(MissingJob { job, why })
        })
        .collect()
    }

    /// Removes what is more than the limits allow, as far as nobody uses it.
    ///
    /// # Errors
    /// As [`collect`](operations::collect).
    pub fn make_room(&self, work: &Work) -> Result<operations::Collected, Error> {
        let options = &self.options;
        let collected = operations::collect(&options.cache_dir, &options.limits, false, work)?;
        let removed = collected.removed.len();
        self.figures.evicted(removed.try_into().unwrap_or(u64::MAX));
        Ok(collected)
    }

    /// How it was opened.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What happened in these caches since they were opened, in all layers.
    pub fn figures(&self) -> Counts {
        self.figures.counts()
    }
}
