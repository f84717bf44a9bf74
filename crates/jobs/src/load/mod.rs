//! Loads the index of a job into a dedupe index: the job becomes a crawl, with its (W)ARC files as the list of files.
//!
//! Loading is idempotent, even after an interruption: the name of the sequence of calls is derived from the records, so
//! that the dedupe index recognises calls that it has already counted. The crawl is committed once all calls were made.
//! A crawl with any other content is refused, because the result of mixing the two would be unpredictable.
//!
//! A job index contains neither the sizes nor the hashes of the files. Therefore, the files are never marked as
//! finished in the file list of the crawl (`DEDUPE.WACZOPEN`), which only contains their names.

mod crawl_name;
mod row;
mod survey;

use std::path::Path;

use serde::Serialize;

pub use self::crawl_name::CrawlName;
use self::row::Row;
pub use self::survey::Skipped;
use self::survey::Survey;
use super::{JobId, PROGRESS_INTERVAL, Work};
use crawlspace_client::dedupe::feed::{RECORDS, Refused, feed, writer_at};
use crawlspace_client::dedupe::{
    Added, Adding, Committed, CrawlState, CrawlStats, Index, Sequence,
};
use crawlspace_client::{Ask, Batch, Call, Code};
use crawlspace_index::Lookup;

/// Number of files that are opened in one round trip.
const FILES_PER_BATCH: usize = 100;

/// Passes the lines of an index to a function; may be called repeatedly.
pub(crate) type LineSource<'a> =
    dyn Fn(&mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> + 'a;

/// Returns the lines of the index in a folder, in the order of URLs. The folder is an entry of a cache, or a client's
/// copy.
pub fn lines_of(folder: &Path) -> Box<LineSource<'_>> {
    Box::new(move |each| {
        let lookup = Lookup::open(folder)?;
        for row in lookup.all()? {
            each(row?.line())?;
        }
        Ok(())
    })
}

/// The result of loading a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loaded {
    /// The number of the job.
    pub job: u64,
    /// The name of the crawl of the job.
    pub crawl: String,
    /// The outcome: committed now, already committed, or nothing to load.
    pub outcome: Outcome,
    /// Number of records of the job in the crawl.
    pub records: u64,
    /// Number of (W)ARC files that contain these records.
    pub files: u64,
    /// Changes of the index by the commit.
    pub hashes: Committed,
    /// Counts of the lines that are not in the crawl.
    pub skipped: Skipped,
}

/// The outcome of loading a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The crawl was committed now.
    Committed,
    /// The crawl had been committed with the same records before, and is unchanged.
    Known,
    /// The job has nothing that can be loaded, so there is no crawl.
    Nothing,
}

/// The reason why a job was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index of the job cannot be read, or the work was cancelled.
    #[error("{0}")]
    Cache(#[from] super::Error),
    /// The dedupe index returned an error, or cannot be reached.
    #[error("{0}")]
    Index(#[from] crawlspace_client::Error),
    /// The crawl has other content.
    #[error("{0}")]
    Crawl(String),
    /// The calls were stopped, because the dedupe index accepted no further records. The cause is
    /// reported as a separate error.
    #[error("the dedupe index accepted no further records")]
    Refused,
}

impl From<Refused> for Error {
    fn from(_: Refused) -> Error {
        Error::Refused
    }
}

/// Loads a job: adds its records, keeping the earliest of each hash, and commits the crawl. `lines` passes
/// the lines of the job's index, in the same order in each call.
///
/// # Errors
/// Fails if the lines cannot be read, if the dedupe index returns an error or cannot be reached, or
/// if there is a crawl of that name with other records. The records sent so far stay uncommitted.
/// Loading the same index again continues after these records.
pub fn load(
    index: &Index,
    name: &CrawlName,
    job: JobId,
    lines: &LineSource<'_>,
    work: &Work,
) -> Result<Loaded, Error> {
    let crawl = name.of(job);
    work.begin(&format!("reading job {job}"), 0);
    let survey = Survey::of(lines, work)?;
    let mut loading = Loading {
        index,
        crawl: &crawl,
        writer: format!("index {} {RECORDS}", survey.checksum),
        survey,
    };
    let (outcome, hashes) = loading.load(lines, work)?;
    let survey = loading.survey;
    Ok(Loaded {
        job: job.0,
        outcome,
        records: survey.records,
        files: survey.files.len() as u64,
        hashes,
        skipped: survey.skipped,
        crawl,
    })
}

struct Loading<'a> {
    index: &'a Index,
    crawl: &'a str,
    survey: Survey,
    /// The prefix of the names of the sequences.
    writer: String,
}

impl Loading<'_> {
    fn load(&mut self, lines: &LineSource<'_>, work: &Work) -> Result<(Outcome, Committed), Error> {
        if self.survey.records == 0 {
            return Ok((Outcome::Nothing, Committed::default()));
        }
        if self.is_there()? {
            return Ok((Outcome::Known, Committed::default()));
        }
        self.open_files()?;
        work.begin(&format!("loading crawl {}", self.crawl), self.survey.lines);
        self.add(lines, work)?;
        work.begin(&format!("committing crawl {}", self.crawl), 0);
        let hashes = self.index.commit(self.crawl.as_bytes())?;
        Ok((Outcome::Committed, hashes))
    }

    /// Returns whether the crawl is committed and has all of these records.
    fn is_there(&self) -> Result<bool, Error> {
        let stats = match self.index.crawl_stats(self.crawl.as_bytes()) {
            Ok(stats) => stats,
            Err(error) if error.code() == Some(Code::NoCrawl) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // The crawl keeps the sequence numbers of each writer whose calls it has counted.
        let mut writers = crawlspace_client::redis::cmd("HMGET");
        writers.arg([self.index.prefix(), b"h:", self.crawl.as_bytes(), b":seq"].concat());
        writers.arg(writer_at(&self.writer, 0)).arg(self.last());
        let writers = Call::<Vec<Option<Vec<u8>>>>::new(writers).repeatable();
        let writers = self.index.server().ask(writers)?;
        let [begun, finished] = [0, 1].map(|i| writers.get(i).is_some_and(Option::is_some));
        if finished && stats.state != CrawlState::Uncommitted {
            return Ok(true);
        }
        if begun || stats.total_urls == 0 {
            Ok(false)
        } else {
            Err(Error::Crawl(other_content(self.crawl, &stats)))
        }
    }

    /// Returns the name of the writer that makes a single call, after all other calls, to mark the load as complete.
    fn last(&self) -> String {
        format!("{} all", self.writer)
    }

    /// Assigns an index of the file list to each file, in the order of names.
    fn open_files(&mut self) -> Result<(), Error> {
        let mut files: Vec<(&Vec<u8>, &mut u64)> = self.survey.files.iter_mut().collect();
        for some in files.chunks_mut(FILES_PER_BATCH) {
            let batch = Batch::new();
            let index = self.index.over(&batch);
            let opened: Vec<_> = some
                .iter()
                .map(|(name, _)| index.wacz_open(self.crawl.as_bytes(), name))
                .collect();
            batch.send(self.index.server())?;
            for ((_, place), opened) in some.iter_mut().zip(opened) {
                **place = opened.take()?;
            }
        }
        Ok(())
    }

    fn add(&self, lines: &LineSource<'_>, work: &Work) -> Result<(), Error> {
        let crawl = self.crawl.as_bytes();
        let mut count = 0;
        let mut first = None;
        feed::<_, Error>(self.index, crawl, &self.writer, |feed| {
            lines(&mut |line| {
                count += 1;
                if count % PROGRESS_INTERVAL == 0 {
                    work.advance(PROGRESS_INTERVAL)?;
                }
                if let Some(record) = self.record(&Row::of(line)) {
                    feed.push(record)?;
                    if first.is_none() {
                        first = Some(line.to_owned());
                    }
                }
                Ok(())
            })
        })?;
        // Add one record again, under the writer name that marks the load as complete. The server does not
        // count the record twice.
        let first = first.unwrap_or_default();
        if let Some(record) = self.record(&Row::of(&first)) {
            let last = self.last();
            let sequence = Some(Sequence {
                writer: last.as_bytes(),
                number: 1,
            });
            let adding = Adding {
                sequence,
                earliest: true,
                ..Adding::default()
            };
            self.index.add(crawl, &adding, &[record])?;
        }
        Ok(())
    }

    /// Returns the arguments for adding a row; `None` if it is not a record.
    fn record<'r>(&self, row: &'r Row<'_>) -> Option<Added<'r>> {
        let Row::Record {
            hash,
            date,
            url,
            size,
            file,
        } = row
        else {
            return None;
        };
        // The survey found all files, because the entry cannot change while it is in use.
        let place = self.survey.files.get(&file[..]);
        Some(Added::new(
            hash,
            place.copied().unwrap_or_default(),
            date,
            url,
            *size,
        ))
    }
}

fn other_content(crawl: &str, stats: &CrawlStats) -> String {
    let way_out = match stats.state {
        CrawlState::Uncommitted => format!("cancel it (crawlspace dedupe cancel {crawl})"),
        _ => format!("remove it (crawlspace dedupe remove {crawl})"),
    };
    format!(
        "crawl {crawl} has other records than this index ({} of {} payloads): {way_out}, or load into another one",
        stats.total_urls, stats.hashes
    )
}
