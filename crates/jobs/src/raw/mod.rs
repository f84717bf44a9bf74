//! Caches of the lines of each job, extracted from the archive: its `crawl.log` and its CDX, sorted.

mod lines;
mod recent;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use self::lines::JobLines;
use self::recent::Recent;
use super::cache::{Accept, Slot, evict};
use super::combine::{both, each_job};
use super::outdated::{Contents, MadeOf};
use super::{
    Draft, Entry, Error, Figures, FileBasedCache, Form, JobId, JobSet, Manifest, Missing,
    MissingJob, Options, Work,
};
use crate::metadata::{self, Archive, JobContents, Kind};
use crawlspace_index::sort::Sorter;

/// Raw data of a job, extracted from the archive.
#[derive(Debug)]
pub struct Raw {
    /// Lines of its `crawl.log`, sorted by URL, or the reason why they are missing.
    pub crawl_log: Result<Entry, Missing>,
    /// Lines of its CDX, sorted, or the reason why they are missing.
    pub cdx: Result<Entry, Missing>,
}

/// A cache of the raw data of jobs, of one kind.
pub type RawMetadataCache = FileBasedCache<JobId>;

/// The caches of both kinds, `CrawlLogDataCache` and `CdxDataCache`: one pass over the metadata files of a job fills
/// both.
#[derive(Debug)]
pub struct RawCaches {
    archive: Archive,
    crawl_log: RawMetadataCache,
    cdx: RawMetadataCache,
    cache_dir: PathBuf,
    threads: usize,
    memory: usize,
    retry: Duration,
    missing: Recent<JobId, Missing>,
    /// Reasons why jobs have no record of a kind.
    absent: Recent<(JobId, Kind), Missing>,
    /// Entries known to be current: the checksum of the manifest, and the number of builds up to that
    /// check.
    current: Recent<String, (String, u64)>,
    figures: Arc<Figures>,
}

impl RawCaches {
    /// Opens the caches of a folder over the archive.
    ///
    /// # Errors
    /// Fails if a folder cannot be created, or the archive cannot be read.
    pub(crate) fn open(options: &Options, figures: &Arc<Figures>) -> Result<RawCaches, Error> {
        let cache = |kind: Kind| -> Result<RawMetadataCache, Error> {
            let name = kind.folder();
            let cache = RawMetadataCache::open(&options.cache_dir, name, Form::File)?;
            let figures = Arc::clone(figures);
            Ok(cache
                .prefixed(&format!("{name}-"))
                .waiting(options.wait)
                .counting(figures))
        };
        let mut reading = metadata::Options::default();
        reading.http.guard.clone_from(&options.guard);
        Ok(RawCaches {
            archive: Archive::open_with(&options.metadata, reading)?,
            crawl_log: cache(Kind::CrawlLog)?,
            cdx: cache(Kind::Cdx)?,
            cache_dir: options.cache_dir.clone(),
            threads: options.threads.max(1),
            memory: options.memory / options.threads.max(1),
            retry: options.retry_missing,
            missing: Recent::default(),
            absent: Recent::default(),
            current: Recent::default(),
            figures: Arc::clone(figures),
        })
    }

    /// Returns the cache of a kind of raw data.
    pub(crate) fn cache(&self, kind: Kind) -> &RawMetadataCache {
        match kind {
            Kind::CrawlLog => &self.crawl_log,
            Kind::Cdx => &self.cdx,
        }
    }

    /// Returns whether an entry of any cache is up to date with the caches and the archive, by names and sizes of
    /// metadata files. An archive that cannot be read counts as unchanged. A positive answer is cached for a short
    /// time, unless this process builds something.
    ///
    /// # Errors
    /// Fails if the work was cancelled.
    pub(crate) fn is_current(&self, manifest: &Manifest, work: &Work) -> Result<bool, Error> {
        let name = format!("{}/{}", manifest.cache, manifest.entry);
        let now = (manifest.checksum.clone(), self.figures.counts().builds);
        if self.current.get(&name, self.retry).as_ref() == Some(&now) {
            return Ok(true);
        }
        let is_current = self.find_out_whether_current(manifest, work)?;
        if is_current {
            self.current.insert(name, now, self.retry);
        }
        Ok(is_current)
    }

    fn find_out_whether_current(&self, manifest: &Manifest, work: &Work) -> Result<bool, Error> {
        if !Contents::of(&self.cache_dir).are_in(manifest) {
            return Ok(false);
        }
        let made_of = MadeOf::of(manifest);
        for job in manifest.jobs.iter() {
            match self.archive.listed(job, self.retry, work) {
                Ok(files) if made_of.has(&files) => {}
                Ok(_) => return Ok(false),
                Err(Error::Cancelled) => return Err(Error::Cancelled),
                Err(error) => {
                    tracing::debug!(%error, "cannot check for new metadata files");
                    return Ok(true);
                }
            }
        }
        Ok(true)
    }

    /// Returns the error if the archive could not be read for a job a short time ago.
    pub(crate) fn unreadable(&self, job: JobId) -> Option<Missing> {
        let missing = self.missing.get(&job, self.retry);
        missing.filter(|why| matches!(why, Missing::Unreadable { .. }))
    }

    /// Returns the CDX of many jobs, reading several jobs concurrently, and the jobs without a CDX.
    ///
    /// # Errors
    /// Fails like [`RawCaches::get_one`].
    pub(crate) fn cdx_of<T: Send>(
        &self,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
        found: impl Fn(Entry) -> T + Sync,
    ) -> Result<(Vec<T>, Vec<MissingJob>), Error> {
        each_job(jobs, self.threads, work, |job, work| {
            let cdx = self.get_one(job, rebuild, work)?.and_then(|raw| raw.cdx);
            let cdx = match cdx {
                Err(why @ Missing::Unreadable { .. }) if !rebuild => self
                    .cdx
                    .hit(&job, work)?
                    .map(|old| older(job, old, &why))
                    .ok_or(why),
                cdx => cdx,
            };
            Ok(cdx.map(&found))
        })
    }

    /// Returns the raw data of a job from the caches. Reads the archive if the caches lack them, if the job's metadata
    /// files have changed, or if `rebuild` is set. Records that the archive lacked are looked for again only after
    /// [`Options::retry_missing`].
    ///
    /// # Errors
    /// Fails if the caches cannot be read or written. The inner error means that the job is missing or unreadable.
    pub(crate) fn get_one(
        &self,
        job: JobId,
        rebuild: bool,
        work: &Work,
    ) -> Result<Result<Raw, Missing>, Error> {
        let files = match self.archive.listed(job, self.retry, work) {
            Ok(files) => files,
            Err(Error::Cancelled) => return Err(Error::Cancelled),
            // The archive cannot be read: use the cached entries.
            Err(_) => Vec::new(),
        };
        let accept = |there: &Manifest| !rebuild && MadeOf::of(there).has(&files);
        if !rebuild {
            if let Some(missing) = self.missing.get(&job, self.retry) {
                return Ok(Err(missing));
            }
            let crawl_log = self.known(&self.crawl_log, job, Kind::CrawlLog, &accept, work)?;
            let cdx = self.known(&self.cdx, job, Kind::Cdx, &accept, work)?;
            if let (Some(crawl_log), Some(cdx)) = (crawl_log, cdx) {
                return Ok(Ok(Raw { crawl_log, cdx }));
            }
        }
        // Jobs that do not exist leave nothing in the caches, not even lock files.
        match self.archive.has(job, work) {
            Ok(true) => {}
            Ok(false) => {
                self.missing.insert(job, Missing::NoJob, self.retry);
                return Ok(Err(Missing::NoJob));
            }
            Err(error) => return unreadable(error).map(Err),
        }
        // Always lock in this order, to prevent deadlocks.
        let crawl_log = self.crawl_log.slot(&job, &accept, work)?;
        let cdx = self.cdx.slot(&job, &accept, work)?;
        let got = self.fill(job, crawl_log, cdx, work)?;
        match &got {
            Err(missing) => self.missing.insert(job, missing.clone(), self.retry),
            Ok(raw) => {
                let are_there = [(Kind::CrawlLog, &raw.crawl_log), (Kind::Cdx, &raw.cdx)];
                for (kind, entry) in are_there {
                    if let Err(missing) = entry {
                        let missing = missing.clone();
                        self.absent.insert((job, kind), missing, self.retry);
                    }
                }
            }
        }
        Ok(got)
    }

    /// Returns the cached entry, or the recently cached reason why there is no entry; `None` if neither is known.
    fn known(
        &self,
        cache: &RawMetadataCache,
        job: JobId,
        kind: Kind,
        accept: &Accept<'_>,
        work: &Work,
    ) -> Result<Option<Result<Entry, Missing>>, Error> {
        if let Some(entry) = cache.hit(&job, work)? {
            return Ok(accept(entry.manifest()).then_some(Ok(entry)));
        }
        let missing = self.absent.get(&(job, kind), self.retry);
        Ok(missing.map(Err))
    }

    fn fill(
        &self,
        job: JobId,
        crawl_log: Slot,
        cdx: Slot,
        work: &Work,
    ) -> Result<Result<Raw, Missing>, Error> {
        let (crawl_log, cdx) = match (crawl_log, cdx) {
            (Slot::There(crawl_log), Slot::There(cdx)) => {
                return Ok(Ok(Raw {
                    crawl_log: Ok(crawl_log),
                    cdx: Ok(cdx),
                }));
            }
            slots => slots,
        };
        // The `crawl.log` gets more memory, because it has more text than the CDX.
        let memory = |thirds: usize| self.memory / 3 * thirds;
        let lines = |kind, thirds| {
            let folder = self.cache(kind).folder();
            JobLines::new(kind, Sorter::new(memory(thirds), folder, work))
        };
        let mut of_crawl_log = lines(Kind::CrawlLog, 2);
        let mut of_cdx = lines(Kind::Cdx, 1);
        work.begin(&format!("job {job}: reading"), 0);
        // An error of the caches affects all jobs; an error of the archive affects only this job.
        let mut ours = None;
        let read = self.archive.read(job, work, &mut |kind, record| {
            let (lines, slot) = match kind {
                Kind::CrawlLog => (&mut of_crawl_log, &crawl_log),
                Kind::Cdx => (&mut of_cdx, &cdx),
            };
            match slot {
                Slot::There(_) => Ok(()),
                Slot::Ours(_) => lines.take(record, work, &mut ours),
            }
        });
        if let Some(error) = ours {
            return Err(error);
        }
        let found = match read {
            Ok(found) => found,
            Err(error) => return unreadable(error).map(Err),
        };
        if found.files.is_empty() {
            return Ok(Err(Missing::NoJob));
        }
        let (crawl_log, cdx) = both(
            || self.keep(job, of_crawl_log, crawl_log, &found, work),
            || self.keep(job, of_cdx, cdx, &found, work),
        );
        Ok(Ok(Raw {
            crawl_log: crawl_log?,
            cdx: cdx?,
        }))
    }

    /// Stores lines in the cache if there was a record of them. Otherwise returns the reason why they are missing.
    fn keep(
        &self,
        job: JobId,
        lines: JobLines,
        slot: Slot,
        found: &JobContents,
        work: &Work,
    ) -> Result<Result<Entry, Missing>, Error> {
        let lock = match slot {
            Slot::There(entry) => return Ok(Ok(entry)),
            Slot::Ours(lock) => lock,
        };
        let kind = lines.kind;
        let unreadable = || {
            lines
                .are_worthless(job)
                .map(|why| Missing::Unreadable { why })
        };
        if let Some(missing) = found.missing(kind).or_else(unreadable) {
            // The existing entry is outdated: it was built from an earlier metadata file.
            drop(lock);
            evict(&self.cache(kind).path(&job), Form::File, Duration::ZERO)?;
            return Ok(Err(missing));
        }
        let build = |draft: &mut Draft| {
            for file in found.files.iter().chain(&found.files_of_others) {
                draft.input(file.clone());
            }
            for note in &found.notes {
                draft.note(note.clone());
            }
            lines.write(job, &found.migrations, draft)
        };
        self.cache(kind).build(&job, &lock, work, build).map(Ok)
    }
}

/// Converts an error of the archive to the reason why a job is missing. Other errors are returned.
fn unreadable(error: Error) -> Result<Missing, Error> {
    match error {
        Error::Cancelled => Err(error),
        error if error.is_exhausted() => Err(error),
        error => Ok(Missing::Unreadable {
            why: error.to_string(),
        }),
    }
}

/// Returns an entry that was built before the archive became unreadable, and logs the reason.
pub(crate) fn older(job: JobId, entry: Entry, why: &Missing) -> Entry {
    tracing::warn!(%job, %why, "an older index is used");
    entry
}
