//! Where the raw data of jobs come from: metadata (W)ARC files, in folders and on web servers.
//!
//! NetarchiveSuite keeps what a harvester says about a job in files that are named after it
//! (`117-metadata-1.warc.gz`). [`Archive`] knows which files a job has, and reads its `crawl.log` and CDX out of them
//! in one pass. That there is no such job, that its files have no such record, and that reading failed are three
//! different answers.

mod catalogue;
mod folder;
mod list;
mod listing;
mod migration;
mod name;
mod pass;
mod reach;

use std::collections::BTreeSet;
use std::io::{self, BufRead, Read};
use std::time::Duration;

use self::catalogue::{Catalogue, MetadataFile};
pub(crate) use self::migration::Migrations;
pub(crate) use self::name::unpacked;
use super::{Error, Input, JobId, Missing, Work};
use crawlspace_wacz as wacz;
use crawlspace_wacz::Location;

/// Which record of a job it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// What Heritrix logged of every fetch: `metadata://…/crawl/logs/crawl.log…`, of type `text/plain`.
    CrawlLog,
    /// What was stored where: `metadata://…/crawl/index/cdx…`, of type `application/x-cdx`.
    Cdx,
}

impl Kind {
    /// Both.
    pub const ALL: [Kind; 2] = [Kind::CrawlLog, Kind::Cdx];

    /// The name of the entry of a job.
    pub(crate) fn entry_name(self, job: JobId) -> String {
        format!("{}-{job}-cache", self.folder())
    }

    /// The folder of this kind of raw data, and what the names of its entries begin with.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Kind::CrawlLog => "crawllog",
            Kind::Cdx => "cdxdata",
        }
    }
}

/// How the archive is read.
#[derive(Clone, Debug)]
pub struct Options {
    /// How soon after the last look into its places one looks again, when an unknown job is asked for: 5 s.
    pub rescan: Duration,
    /// Timeouts and retries of web servers, and which of them may be asked. Without a guard the places may have any
    /// address, and those at public addresses lead to public ones alone, by what they list and by redirects.
    pub http: wacz::Options,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            rescan: Duration::from_secs(5),
            http: wacz::Options::default(),
        }
    }
}

/// The metadata files of all jobs.
///
/// ```no_run
/// use std::io::BufRead;
/// use crawlspace_jobs::metadata::{Archive, Kind};
/// use crawlspace_jobs::{Error, JobId, Work};
/// let archive = Archive::open(&["/archive/metadata".to_owned()])?;
/// let mut lines = 0;
/// let found = archive.read(JobId(117), &Work::default(), &mut |kind, record| {
///     if kind == Kind::CrawlLog {
///         lines += record.lines().map_while(Result::ok).count();
///     }
///     Ok(())
/// })?;
/// match found.missing(Kind::CrawlLog) {
///     Some(why) => println!("{why}"),
///     None => println!("{lines} lines"),
/// }
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Archive {
    catalogue: Catalogue,
    options: Options,
}

/// What was found of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobContents {
    /// How many records with a `crawl.log` there were.
    pub crawl_logs: u64,
    /// How many records with a CDX there were.
    pub cdxs: u64,
    /// The metadata files of the job, all of which were read to their ends. None means that there is no such job.
    pub files: Vec<Input>,
    /// Files whose names may be those of files of the job, and which are of other jobs.
    pub(crate) files_of_others: Vec<Input>,
    /// New places of records in archives that were compressed later.
    pub(crate) migrations: Migrations,
    /// Other jobs that records in these files are of, by the `jobid=` in their URLs: the first 16 that come.
    pub others: BTreeSet<JobId>,
    /// What people should know: files that were skipped because another one has their name, for example.
    pub notes: Vec<String>,
}

impl JobContents {
    /// How many records of that kind there were.
    pub fn count(&self, kind: Kind) -> u64 {
        match kind {
            Kind::CrawlLog => self.crawl_logs,
            Kind::Cdx => self.cdxs,
        }
    }

    /// Why there is no record of that kind; `None` when there is one.
    pub fn missing(&self, kind: Kind) -> Option<Missing> {
        if self.count(kind) > 0 {
            return None;
        }
        Some(if self.files.is_empty() {
            Missing::NoJob
        } else {
            Missing::NoRecord {
                files: self.files.iter().map(|file| file.name.clone()).collect(),
                others: self.others.iter().copied().collect(),
            }
        })
    }
}

/// A record of a job, whose block is read through [`BufRead`]. Whether all of it was right is known only when
/// [`Archive::read`] has returned.
pub struct Record<'a> {
    /// The file that it is in.
    pub file: &'a str,
    /// Where in that file it begins, in bytes.
    pub offset: u64,
    /// The URL that it has there.
    pub url: &'a str,
    /// The size of the block in bytes.
    pub length: u64,
    block: &'a mut dyn BufRead,
}

impl Read for Record<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.block.read(into)
    }
}

impl BufRead for Record<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.block.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.block.consume(n);
    }
}

/// Who gets the records of a job.
pub(crate) type Taker<'t> = dyn FnMut(Kind, Record<'_>) -> Result<(), Error> + 't;

impl Archive {
    /// The archive in these places: folders, metadata files, files that list them, and the same at `http(s)` URLs.
    /// They are looked into when something is asked for.
    ///
    /// # Errors
    /// [`Error::Request`] for an invalid location.
    pub fn open(locations: &[String]) -> Result<Archive, Error> {
        Archive::open_with(locations, Options::default())
    }

    /// Opens an archive as [`Archive::open`] does, with options for how it is read.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn open_with(locations: &[String], options: Options) -> Result<Archive, Error> {
        Ok(Archive {
            catalogue: Catalogue::of(locations)?,
            options,
        })
    }

    /// Whether there are metadata files of a job.
    ///
    /// # Errors
    /// When one of the places cannot be read, for it may be there.
    pub(crate) fn has(&self, job: JobId, work: &Work) -> Result<bool, Error> {
        let (files, _) = self.catalogue.files(job, &self.options, work)?;
        Ok(!files.is_empty())
    }

    /// Lists the metadata files of a job with their sizes in bytes, which are unknown on web servers. Scans the places
    /// again if the last scan is older than `refresh`.
    ///
    /// # Errors
    /// When one of the places cannot be read.
    pub(crate) fn listed(
        &self,
        job: JobId,
        refresh: Duration,
        work: &Work,
    ) -> Result<Vec<(String, Option<u64>)>, Error> {
        self.catalogue.refresh(refresh, &self.options, work)?;
        let files = self.catalogue.known_files(job).0.into_iter();
        let size = |file: &MetadataFile| match &file.location {
            Location::File(path) => std::fs::metadata(path).ok().map(|there| there.len()),
            Location::Url(_) => None,
        };
        Ok(files.map(|file| (file.name.clone(), size(&file))).collect())
    }

    /// Reads the metadata files of a job, and gives its records to `into` as they come: of several of one kind, first
    /// those of the file with the lowest number.
    ///
    /// # Errors
    /// When one of the places or files cannot be read, or is damaged: what `into` got is worth nothing then. Also what
    /// `into` says.
    pub fn read(
        &self,
        job: JobId,
        work: &Work,
        into: &mut Taker<'_>,
    ) -> Result<JobContents, Error> {
        let files = self.catalogue.files(job, &self.options, work)?;
        let mut found = JobContents::default();
        for file in &files.0 {
            let outcome = pass::read(file, job, &self.options, work, into, &mut found);
            if let Err(error) = outcome {
                // Files may have been moved since.
                self.catalogue.invalidate();
                return Err(error);
            }
        }
        found.notes.extend(files.1);
        Ok(found)
    }
}
