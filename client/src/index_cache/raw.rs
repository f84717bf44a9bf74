//! The lines of each job, as they were taken out of the archive: its `crawl.log` and its CDX, sorted.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufWriter, Write};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::ahead::read_ahead;
use super::archive::{Archive, Found, Kind, Record};
use super::cache::Slot;
use super::combine::{both, each_job};
use super::lines::{Bad, Reader, Tally};
use super::sort::Sorter;
use super::{
    cdx_line, crawl_log, Draft, Entry, Error, Figures, FileBasedCache, Form, JobId, JobSet,
    Missing, MissingJob, Options, Work,
};

/// What is written at once, in bytes.
const BUFFER: usize = 256 * 1024;
/// Every so many lines, whoever waits is asked whether this should go on.
const OFTEN: u64 = 4096;
/// Records from this size on, in bytes, are unpacked on a thread of their own.
const LARGE: u64 = 4 << 20;

/// What a job has in the archive, taken out of it.
#[derive(Debug)]
pub struct Raw {
    /// The lines of its `crawl.log`, sorted by URL.
    pub crawl_log: Option<Entry>,
    /// The lines of its CDX, sorted.
    pub cdx: Option<Entry>,
    /// The names of the metadata files that were read; none when nothing had to be read.
    pub files: Vec<String>,
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
    threads: usize,
    memory: usize,
    retry: Duration,
    missing: Mutex<HashMap<JobId, (Instant, Missing)>>,
}

impl RawCaches {
    /// Opens the caches of a folder over the archive.
    ///
    /// # Errors
    /// When a folder cannot be made, or the archive not be read.
    pub fn open(options: &Options, figures: &Arc<Figures>) -> Result<RawCaches, Error> {
        let cache = |kind: Kind| -> Result<RawMetadataCache, Error> {
            let name = folder_of(kind);
            let cache = RawMetadataCache::open(&options.cache_dir, name, Form::File)?;
            let figures = Arc::clone(figures);
            Ok(cache
                .prefixed(&format!("{name}-"))
                .waiting(options.wait)
                .counting(figures))
        };
        Ok(RawCaches {
            archive: Archive::open(&options.metadata)?,
            crawl_log: cache(Kind::CrawlLog)?,
            cdx: cache(Kind::Cdx)?,
            threads: options.threads.max(1),
            memory: options.memory / options.threads.max(1),
            retry: options.retry_missing,
            missing: Mutex::default(),
        })
    }

    /// The cache of a kind of raw data.
    pub fn cache(&self, kind: Kind) -> &RawMetadataCache {
        match kind {
            Kind::CrawlLog => &self.crawl_log,
            Kind::Cdx => &self.cdx,
        }
    }

    /// What is wanted of the raw data of many jobs, some of them at once, and which jobs do not have it. Each metadata
    /// file is read once, whatever it is read for.
    ///
    /// # Errors
    /// As [`RawCaches::get_one`].
    pub fn get<T: Send>(
        &self,
        jobs: &JobSet,
        anew: bool,
        work: &Work,
        wanted: impl Fn(Raw) -> Result<T, Missing> + Sync,
    ) -> Result<(Vec<T>, Vec<MissingJob>), Error> {
        each_job(jobs, self.threads, work, |job, work| {
            Ok(self.get_one(job, anew, work)?.and_then(&wanted))
        })
    }

    /// The raw data of a job, from the caches or else from the archive; with `anew`, from the archive in any case.
    /// What the archive does not have is not asked of it again so soon.
    ///
    /// # Errors
    /// When the caches cannot be read or written. A job that is missing, or cannot be read, is the inner one.
    pub fn get_one(
        &self,
        job: JobId,
        anew: bool,
        work: &Work,
    ) -> Result<Result<Raw, Missing>, Error> {
        if !anew {
            if let Some(missing) = self.recall(job) {
                return Ok(Err(missing));
            }
            if let (Some(crawl_log), Some(cdx)) =
                (self.crawl_log.hit(&job, work)?, self.cdx.hit(&job, work)?)
            {
                return Ok(Ok(Raw {
                    crawl_log: Some(crawl_log),
                    cdx: Some(cdx),
                    files: Vec::new(),
                }));
            }
        }
        // Nothing is left in the caches of jobs that there are not, not even lock files.
        match self.archive.has(job, work) {
            Ok(true) => {}
            Ok(false) => {
                self.remember(job, &Missing::NoJob);
                return Ok(Err(Missing::NoJob));
            }
            Err(error) => return unreadable(error).map(Err),
        }
        // Always in this order, so that no two wait for each other.
        let crawl_log = self.crawl_log.slot(&job, anew, work)?;
        let cdx = self.cdx.slot(&job, anew, work)?;
        let got = self.fill(job, crawl_log, cdx, work)?;
        if let Err(missing) = &got {
            self.remember(job, missing);
        }
        Ok(got)
    }

    fn remember(&self, job: JobId, missing: &Missing) {
        let mut known = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        // Now and then, so that it takes no time to speak of.
        if known.len().is_power_of_two() {
            known.retain(|_, (since, _)| since.elapsed() < self.retry);
        }
        known.insert(job, (Instant::now(), missing.clone()));
    }

    /// Why a job was missing a short time ago.
    fn recall(&self, job: JobId) -> Option<Missing> {
        let known = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let (since, missing) = known.get(&job)?;
        (since.elapsed() < self.retry).then(|| missing.clone())
    }

    fn fill(
        &self,
        job: JobId,
        crawl_log: Slot,
        cdx: Slot,
        work: &Work,
    ) -> Result<Result<Raw, Missing>, Error> {
        if let (Slot::There(_), Slot::There(_)) = (&crawl_log, &cdx) {
            return Ok(Ok(Raw {
                crawl_log: crawl_log.there(),
                cdx: cdx.there(),
                files: Vec::new(),
            }));
        }
        // A crawl.log has more to say than a CDX.
        let memory = |thirds: usize| self.memory / 3 * thirds;
        let lines = |kind, thirds| {
            let folder = self.cache(kind).folder();
            Lines::new(kind, Sorter::new(memory(thirds), folder, work))
        };
        let mut of_crawl_log = lines(Kind::CrawlLog, 2);
        let mut of_cdx = lines(Kind::Cdx, 1);
        work.begin(&format!("job {job}: reading"), 0);
        // What is wrong with the caches concerns all jobs, and what is wrong with the archive only this one.
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
        for lines in [&of_crawl_log, &of_cdx] {
            if let Some(why) = lines.are_worthless(job) {
                return Ok(Err(Missing::Unreadable { why }));
            }
        }
        let files = found.files.iter().map(|file| file.name.clone()).collect();
        let (crawl_log, cdx) = both(
            || self.keep(job, of_crawl_log, crawl_log, &found, work),
            || self.keep(job, of_cdx, cdx, &found, work),
        );
        Ok(Ok(Raw {
            crawl_log: crawl_log?,
            cdx: cdx?,
            files,
        }))
    }

    /// Puts lines into the cache, if there was a record of them.
    fn keep(
        &self,
        job: JobId,
        lines: Lines,
        slot: Slot,
        found: &Found,
        work: &Work,
    ) -> Result<Option<Entry>, Error> {
        let lock = match slot {
            Slot::There(entry) => return Ok(Some(entry)),
            Slot::Ours(lock) => lock,
        };
        let kind = lines.kind;
        if found.count(kind) == 0 {
            return Ok(None);
        }
        let build = |draft: &mut Draft| {
            for file in &found.files {
                draft.input(file.clone());
            }
            for note in &found.notes {
                draft.note(note.clone());
            }
            lines.write(draft)
        };
        self.cache(kind).build(&job, &lock, work, build).map(Some)
    }
}

impl Slot {
    fn there(self) -> Option<Entry> {
        match self {
            Slot::There(entry) => Some(entry),
            Slot::Ours(_) => None,
        }
    }
}

/// Why a job is missing that could not be read. What has nothing to do with the archive stays an error.
fn unreadable(error: Error) -> Result<Missing, Error> {
    match error {
        Error::Cancelled => Err(error),
        error if error.is_exhausted() => Err(error),
        error => Ok(Missing::Unreadable {
            why: error.to_string(),
        }),
    }
}

/// The folder of a kind of raw data, and what the names of its entries begin with.
fn folder_of(kind: Kind) -> &'static str {
    match kind {
        Kind::CrawlLog => "crawllog",
        Kind::Cdx => "cdxdata",
    }
}

/// The lines of one kind that a job has, while they are taken out of the archive.
struct Lines {
    kind: Kind,
    sorter: Sorter,
    seen: u64,
    bad: Tally,
}

impl Lines {
    fn new(kind: Kind, sorter: Sorter) -> Lines {
        Lines {
            kind,
            sorter,
            seen: 0,
            bad: Tally::default(),
        }
    }

    /// Takes the lines of a record. What goes wrong with the sorter, and not with the record, goes to `ours`.
    fn take(
        &mut self,
        mut record: Record<'_>,
        work: &Work,
        ours: &mut Option<Error>,
    ) -> Result<(), Error> {
        let file = format!("{} ({})", record.file, record.url);
        match record.length {
            0..LARGE => self.take_lines(&mut record, file, work, ours),
            _ => read_ahead(&mut record, |lines| {
                self.take_lines(lines, file, work, ours)
            }),
        }
    }

    fn take_lines(
        &mut self,
        input: &mut dyn BufRead,
        file: String,
        work: &Work,
        ours: &mut Option<Error>,
    ) -> Result<(), Error> {
        let mut lines = Reader::new(input);
        let mut told = 0;
        loop {
            let number = lines.number() + 1;
            if number >= told + OFTEN {
                work.advance(number - told)?;
                told = number;
            }
            let line = match lines.next() {
                Ok(None) => break,
                Ok(Some(line)) => line,
                Err(error) => {
                    let what = error.to_string();
                    return Err(Error::Lines { file, what });
                }
            };
            let (raw, key) = match line {
                Ok(raw) => (raw, key_of(self.kind, raw)),
                Err(bad) => (&b""[..], Err(bad)),
            };
            let pushed = match key {
                // The header of a CDX.
                Ok(None) => continue,
                Ok(Some(key)) => {
                    self.seen += 1;
                    self.sorter.push_by(raw, key)
                }
                Err(bad) => {
                    self.seen += 1;
                    self.bad.add(&file, number, raw, bad);
                    Ok(())
                }
            };
            if let Err(error) = pushed {
                *ours = Some(error);
                return Err(Error::Cancelled);
            }
        }
        Ok(())
    }

    /// Why nothing can be made of them: there are some, and all of them are bad.
    fn are_worthless(&self, job: JobId) -> Option<String> {
        if self.seen == 0 || self.bad.total() < self.seen {
            return None;
        }
        let example = self.bad.examples().first().map_or("", String::as_str);
        Some(format!(
            "none of the {} lines of {} of job {job} is one: {example}",
            self.seen,
            match self.kind {
                Kind::CrawlLog => "the crawl.log",
                Kind::Cdx => "the CDX",
            },
        ))
    }

    fn write(self, draft: &mut Draft) -> Result<(), Error> {
        draft.count("lines", self.sorter.lines());
        draft.count("badLines", self.bad.total());
        for (reason, number) in self.bad.counts() {
            draft.count(&format!("badLines: {reason}"), number);
        }
        for example in self.bad.examples() {
            draft.note(example.clone());
        }
        let (path, file) = draft.create("lines")?;
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let write = |out: &mut BufWriter<File>, line: &[u8]| {
            out.write_all(line)?;
            out.write_all(b"\n")
        };
        self.sorter
            .finish()?
            .for_each(|line| write(&mut out, line).map_err(Error::io(&path, "write")))?;
        out.flush().map_err(Error::io(&path, "write"))
    }
}

/// By what a line is sorted: its URL in a crawl.log, and all of it in a CDX, which begins with the URL. None for what
/// is no line but may be there.
fn key_of(kind: Kind, line: &[u8]) -> Result<Option<Range<usize>>, Bad> {
    match kind {
        Kind::CrawlLog => crawl_log::Line::parse(line).map(|parsed| Some(parsed.url_range())),
        Kind::Cdx if cdx_line::is_header(line) => Ok(None),
        Kind::Cdx => cdx_line::Line::parse(line).map(|_| Some(0..line.len())),
    }
}
