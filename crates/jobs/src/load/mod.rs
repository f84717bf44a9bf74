//! The index of a job into a dedupe index: the job becomes a crawl, its (W)ARC files the list of that crawl's files.
//!
//! Loading twice is loading once, wherever the first time was cut off: the records themselves name the sequence of
//! calls, so that a call that was counted is known as such, and the crawl is committed when all of them are in. A
//! crawl that has anything else in it is refused, since nobody could tell what would come of the two.
//!
//! An index does not say how large the files are, nor what their hashes are. So they stay open in the list
//! (`DEDUPE.WACZOPEN`): known by name, and nothing is said about them that nobody knows.

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

/// Files whose places are asked for in a round trip.
const FILES_PER_BATCH: usize = 100;

/// The lines of an index, again each time that it is called.
pub(crate) type LineSource<'a> =
    dyn Fn(&mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<(), Error> + 'a;

/// The lines of the index in a folder, in the order of URLs: one of a cache, or a client's own.
pub fn lines_of(folder: &Path) -> Box<LineSource<'_>> {
    Box::new(move |each| {
        let lookup = Lookup::open(folder)?;
        for row in lookup.all()? {
            each(row?.line())?;
        }
        Ok(())
    })
}

/// What became of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Loaded {
    /// Which one.
    pub job: u64,
    /// The crawl that it is.
    pub crawl: String,
    /// Whether it is in the index now, and since when.
    pub outcome: Outcome,
    /// Records that the crawl has of it.
    pub records: u64,
    /// (W)ARC files that they are in.
    pub files: u64,
    /// What its commit added to the index.
    pub hashes: Committed,
    /// Lines that are not in the crawl.
    pub skipped: Skipped,
}

/// Whether a job is in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// Its crawl was committed now.
    Committed,
    /// It was committed before with the same records, and left alone.
    Known,
    /// There is nothing in it that can be loaded, and so no crawl.
    Nothing,
}

/// Why a job was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its index cannot be read, or the work was cancelled.
    #[error("{0}")]
    Cache(#[from] super::Error),
    /// The dedupe index refuses, or cannot be reached.
    #[error("{0}")]
    Index(#[from] crawlspace_client::Error),
    /// The crawl cannot take it.
    #[error("{0}")]
    Crawl(String),
    /// The calls broke off: another error says why.
    #[error("the dedupe index took nothing more")]
    Refused,
}

impl From<Refused> for Error {
    fn from(_: Refused) -> Error {
        Error::Refused
    }
}

/// Loads a job: adds its records, the earliest one of a hash, and commits the crawl. `lines` are those of its index,
/// in the same order each time.
///
/// # Errors
/// When the lines cannot be read, the dedupe index refuses or cannot be reached, or there is a crawl of that name that
/// has other records. What was sent until then stays, uncommitted; loading the same again goes on from there.
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
    /// What the names of the sequences begin with.
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

    /// Whether the crawl is committed and has all of these records.
    fn is_there(&self) -> Result<bool, Error> {
        let stats = match self.index.crawl_stats(self.crawl.as_bytes()) {
            Ok(stats) => stats,
            Err(error) if error.code() == Some(Code::NoCrawl) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // The numbers of a writer whose calls the crawl has counted stay with it.
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

    /// The writer whose one call says that all others were made.
    fn last(&self) -> String {
        format!("{} all", self.writer)
    }

    /// Gives each file its place in the list, in the order of names.
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
        // A record that is there already, which counts nothing, under the name that says that all of them are.
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

    /// What is added for a row, if it is a record.
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
        // A file that is not among them came after the survey, which nothing can that is in use.
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
