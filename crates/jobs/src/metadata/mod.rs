//! Reads the raw data of jobs from metadata (W)ARC files, in folders and on web servers.
//!
//! NetarchiveSuite stores the logs and reports of a job in files that are named after the job
//! (`117-metadata-1.warc.gz`). [`Archive`] finds the files of a job, and reads its `crawl.log` and its CDX in one pass.
//! [`Archive`] distinguishes three failures: the job does not exist, its files do not contain the record, or
//! reading failed.

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

/// The kind of a record of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The log of all fetches of Heritrix: `metadata://…/crawl/logs/crawl.log…`, with the type `text/plain`.
    CrawlLog,
    /// The positions of the stored records: `metadata://…/crawl/index/cdx…`, with the type `application/x-cdx`.
    Cdx,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Kind; 2] = [Kind::CrawlLog, Kind::Cdx];

    /// The name of the entry of a job.
    pub(crate) fn entry_name(self, job: JobId) -> String {
        format!("{}-{job}-cache", self.folder())
    }

    /// The folder of this kind of raw data, and the prefix of the names of its entries.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Kind::CrawlLog => "crawllog",
            Kind::Cdx => "cdxdata",
        }
    }
}

/// Options for reading an archive.
#[derive(Clone, Debug)]
pub struct Options {
    /// Minimum interval between scans of the locations when unknown jobs are requested. Default: 5 s.
    pub rescan: Duration,
    /// Timeouts, retries and allowed addresses of web servers. Without a guard, a configured location may have any
    /// address, and a location at a public address may only lead to public addresses, by its lists and by redirects.
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

/// The result of reading the metadata files of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobContents {
    /// Number of records with a `crawl.log`.
    pub crawl_logs: u64,
    /// Number of records with a CDX.
    pub cdxs: u64,
    /// The metadata files of the job, all of which were read completely. Empty if the job does not
    /// exist.
    pub files: Vec<Input>,
    /// Files whose names also match this job, but that belong to other jobs.
    pub(crate) files_of_others: Vec<Input>,
    /// New positions of records in archives that were compressed later.
    pub(crate) migrations: Migrations,
    /// Other jobs with records in these files, according to the `jobid=` in their URLs: the first 16.
    pub others: BTreeSet<JobId>,
    /// Notes for users: on files that were skipped because another file has the same name, for example.
    pub notes: Vec<String>,
}

impl JobContents {
    /// Returns the number of records of a kind.
    pub fn count(&self, kind: Kind) -> u64 {
        match kind {
            Kind::CrawlLog => self.crawl_logs,
            Kind::Cdx => self.cdxs,
        }
    }

    /// Returns the reason why there is no record of a kind; `None` if there is one.
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

/// A record of a job, whose block is read through [`BufRead`]. The record is only known to be intact when
/// [`Archive::read`] has returned.
pub struct Record<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// The offset of the record in the file, in bytes.
    pub offset: u64,
    /// The URL of the record.
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

/// A callback that receives the records of a job.
pub(crate) type Taker<'t> = dyn FnMut(Kind, Record<'_>) -> Result<(), Error> + 't;

impl Archive {
    /// Opens the archive in these locations: folders, metadata files, lists of metadata files, and any of these at
    /// `http(s)` URLs. The locations are scanned on demand.
    ///
    /// # Errors
    /// [`Error::Request`] for an invalid location.
    pub fn open(locations: &[String]) -> Result<Archive, Error> {
        Archive::open_with(locations, Options::default())
    }

    /// Opens an archive like [`Archive::open`], with options for reading it.
    ///
    /// # Errors
    /// Fails like [`Archive::open`].
    pub fn open_with(locations: &[String], options: Options) -> Result<Archive, Error> {
        Ok(Archive {
            catalogue: Catalogue::of(locations)?,
            options,
        })
    }

    /// Returns whether a job has metadata files.
    ///
    /// # Errors
    /// Fails if a location cannot be read, because it might contain the job.
    pub(crate) fn has(&self, job: JobId, work: &Work) -> Result<bool, Error> {
        let (files, _) = self.catalogue.files(job, &self.options, work)?;
        Ok(!files.is_empty())
    }

    /// Lists the metadata files of a job with their sizes in bytes, which are unknown on web servers. Scans
    /// the locations again if the last scan is older than `refresh`.
    ///
    /// # Errors
    /// Fails if a location cannot be read.
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

    /// Reads the metadata files of a job, and passes its records to `into` in order. If there are several of one kind,
    /// those of the file with the lowest number come first.
    ///
    /// # Errors
    /// Fails if a location or a file cannot be read, or is damaged. Also returns errors of `into`. After an
    /// error, discard the data that `into` has received.
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
                // The files may have been moved since the scan.
                self.catalogue.invalidate();
                return Err(error);
            }
        }
        found.notes.extend(files.1);
        Ok(found)
    }
}
