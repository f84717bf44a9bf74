//! Indexes over crawl logs: for deduplication, and for replay.
//!
//! The index of one job is made of the sorted lines of its `crawl.log` and CDX. It is a segment: those of several jobs
//! are merged from the segments of each, or from larger indexes that are there and have some of them already, so that
//! one more job costs one more segment and a merge.

use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;

use super::combine::{Holding, both, carry_over, each_job};
use super::join::{Counts, Flavour, rows};
use super::raw::RawCaches;
use super::{
    Combine, CombiningMultiFileBasedCache, Draft, Entry, Error, JobId, JobSet, Missing,
    MultiFileBasedCache, Options, PROGRESS_INTERVAL, Prepared, Work,
};
use crawlspace_archive::lines::MAX_LINE;
use crawlspace_archive::sort::{Sorted, Sorter};
use crawlspace_archive::zipnum::{self, Writer};

/// The two orders in which an index has its lines: the names of its files without their ends.
pub(super) const URL: &str = "url";
pub(super) const DIGEST: &str = "digest";

/// A cache of indexes for deduplication: captures of all types but text (`^text/.*`, in any case).
pub type DedupCrawlLogIndexCache = CombiningMultiFileBasedCache<CrawlLogIndex<Dedup>>;

/// A cache of indexes for replay: all captures.
pub type FullCrawlLogIndexCache = CombiningMultiFileBasedCache<CrawlLogIndex<Full>>;

/// Which lines of crawl logs an index has.
pub trait Flavoured: Send + Sync + 'static {
    /// The lines.
    const FLAVOUR: Flavour;
}

/// Those for deduplication.
#[derive(Clone, Copy, Debug)]
pub struct Dedup;

/// All.
#[derive(Clone, Copy, Debug)]
pub struct Full;

impl Flavoured for Dedup {
    const FLAVOUR: Flavour = Flavour::Dedup;
}

impl Flavoured for Full {
    const FLAVOUR: Flavour = Flavour::Full;
}

/// How such indexes are made.
#[derive(Debug)]
pub struct CrawlLogIndex<F> {
    raw: Arc<RawCaches>,
    threads: usize,
    memory: usize,
    flavour: PhantomData<fn() -> F>,
}

impl<F: Flavoured> CrawlLogIndex<F> {
    /// From the raw data of jobs.
    pub(crate) fn of(raw: Arc<RawCaches>, options: &Options) -> CrawlLogIndex<F> {
        CrawlLogIndex {
            raw,
            threads: options.threads.max(1),
            memory: options.memory,
            flavour: PhantomData,
        }
    }

    /// The index of one job.
    fn segment(
        &self,
        cache: &MultiFileBasedCache,
        job: JobId,
        rebuild: bool,
        sharing: usize,
        work: &Work,
    ) -> Result<Result<Entry, Missing>, Error> {
        let set: JobSet = [job].into_iter().collect();
        if !rebuild && let Some(entry) = cache.hit(&set, work)? {
            return Ok(Ok(entry));
        }
        let raw = match self.raw.get_one(job, rebuild, work)? {
            Ok(raw) => raw,
            Err(missing) => return Ok(Err(missing)),
        };
        let crawl_log = match raw.crawl_log {
            Ok(crawl_log) => crawl_log,
            Err(missing) => return Ok(Err(missing)),
        };
        let build = |draft: &mut Draft| {
            let memory = self.memory / sharing.max(1);
            write_segment(
                job,
                &crawl_log,
                raw.cdx.as_ref().ok(),
                F::FLAVOUR,
                memory,
                draft,
                work,
            )
        };
        if rebuild {
            cache.rebuild(&set, work, build).map(Ok)
        } else {
            cache.cache(&set, work, build).map(Ok)
        }
    }
}

impl<F: Flavoured> Combine for CrawlLogIndex<F> {
    fn prepare(
        &self,
        cache: &MultiFileBasedCache,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
    ) -> Result<Prepared, Error> {
        let mut parts = if rebuild {
            Vec::new()
        } else {
            cache.parts_of(jobs, work)?
        };
        let have: JobSet = parts
            .iter()
            .flat_map(|part| part.manifest().jobs.iter())
            .collect();
        let others = jobs.without(&have);
        let sharing = self.threads.min(others.len());
        let holding = Holding::default();
        let (segments, missing) = each_job(&others, self.threads, work, |job, work| {
            let segment = self.segment(cache, job, rebuild, sharing, work)?;
            Ok(segment.map(|segment| holding.one_more(segment)))
        })?;
        parts.extend(segments);
        Ok(Prepared::of(parts, missing))
    }

    fn combine(&self, prepared: &Prepared, draft: &mut Draft, work: &Work) -> Result<(), Error> {
        carry_over(&prepared.parts, draft);
        let lines: u64 = prepared
            .parts
            .iter()
            .filter_map(|part| part.manifest().counts.get(ROWS))
            .sum();
        work.begin("merging", lines * 2);
        let folders: Vec<_> = prepared
            .parts
            .iter()
            .map(|part| part.path().to_owned())
            .collect();
        add_files(draft);
        let folder = draft.folder().to_owned();
        let (by_url, by_digest) = both(
            || merged(URL, &folders, &folder, zipnum::Options::by_url(), work),
            || {
                merged(
                    DIGEST,
                    &folders,
                    &folder,
                    zipnum::Options::by_digest(),
                    work,
                )
            },
        );
        by_url.and(by_digest)
    }
}

/// How many rows there are, among the counts of a manifest.
pub(super) const ROWS: &str = "rows";

fn merged(
    stem: &str,
    inputs: &[std::path::PathBuf],
    folder: &Path,
    options: zipnum::Options,
    work: &Work,
) -> Result<(), Error> {
    let mut out = Writer::create(folder, stem, options)?;
    zipnum::merge(stem, inputs, &mut out, work)?;
    out.finish().map(|_| ())
}

fn add_files(draft: &mut Draft) {
    for stem in [URL, DIGEST] {
        for end in ["idx", "cdxj.gz"] {
            draft.add(&format!("{stem}.{end}"));
        }
    }
}

/// Makes the index of one job of its raw data.
fn write_segment(
    job: JobId,
    crawl_log: &Entry,
    cdx: Option<&Entry>,
    flavour: Flavour,
    memory: usize,
    draft: &mut Draft,
    work: &Work,
) -> Result<(), Error> {
    for raw in [Some(crawl_log), cdx].into_iter().flatten() {
        draft.input(raw.manifest().as_input());
    }
    let lines = crawl_log
        .manifest()
        .counts
        .get("lines")
        .copied()
        .unwrap_or(0);
    work.begin(&format!("job {job}: merging crawl.log and CDX"), lines);
    let mut by_url = Sorter::new(memory / 2, draft.folder(), work);
    let mut by_digest = Sorter::new(memory / 2, draft.folder(), work);
    let mut line = Vec::with_capacity(1024);
    let lines_of = |entry: &Entry| -> Result<BufReader<File>, Error> {
        let file = File::open(entry.path()).map_err(Error::io(entry.path(), "open"))?;
        Ok(BufReader::with_capacity(256 * 1024, file))
    };
    let cdx_lines = cdx.map(lines_of).transpose()?;
    // A line of a crawl.log may be so long that what is made of it is longer than readers of indexes take.
    let mut too_long = 0;
    let mut counts = rows(
        lines_of(crawl_log)?,
        cdx_lines,
        flavour,
        job,
        work,
        &mut |row| {
            line.clear();
            row.push_by_url(&mut line);
            let by_url_ends = line.len();
            row.push_by_digest(&mut line);
            let (of_url, of_digest) = line.split_at(by_url_ends);
            if of_url.len().max(of_digest.len()) > MAX_LINE {
                too_long += 1;
                return Ok(());
            }
            by_url.push(of_url)?;
            if of_digest.is_empty() {
                Ok(())
            } else {
                by_digest.push(of_digest)
            }
        },
    )?;
    counts.rows -= too_long;
    tell(job, &counts, crawl_log, cdx, draft);
    if too_long > 0 {
        draft.count("tooLong", too_long);
        draft.note(format!(
            "job {job}: {too_long} captures have URLs that are too long for an index"
        ));
    }
    add_files(draft);
    work.begin(&format!("job {job}: writing"), counts.rows * 2);
    let folder = draft.folder().to_owned();
    let (by_url, by_digest) = both(
        || {
            written(
                by_url.finish()?,
                URL,
                &folder,
                zipnum::Options::by_url(),
                work,
            )
        },
        || {
            written(
                by_digest.finish()?,
                DIGEST,
                &folder,
                zipnum::Options::by_digest(),
                work,
            )
        },
    );
    by_url.and(by_digest)
}

fn written(
    mut lines: Sorted,
    stem: &str,
    folder: &Path,
    options: zipnum::Options,
    work: &Work,
) -> Result<(), Error> {
    let mut out = Writer::create(folder, stem, options)?;
    let mut pushed = 0;
    while let Some(line) = lines.next()? {
        out.push(line)?;
        pushed += 1;
        if pushed % PROGRESS_INTERVAL == 0 {
            work.advance(PROGRESS_INTERVAL)?;
        }
    }
    out.finish().map(|_| ())
}

/// Says in the manifest what became of the lines.
fn tell(job: JobId, counts: &Counts, crawl_log: &Entry, cdx: Option<&Entry>, draft: &mut Draft) {
    let bad = |entry: &Entry| {
        entry
            .manifest()
            .counts
            .get("badLines")
            .copied()
            .unwrap_or(0)
    };
    let numbers = [
        ("lines", counts.lines),
        (ROWS, counts.rows),
        ("noCaptures", counts.no_captures),
        ("text", counts.text),
        ("originDuplicate", counts.duplicates),
        ("originCdx", counts.same_date + counts.nearest),
        ("originLogged", counts.logged),
        ("withoutOrigin", counts.without_origin),
        (
            "badLines",
            counts.bad.total() + bad(crawl_log) + cdx.map_or(0, bad),
        ),
    ];
    for (what, number) in numbers {
        draft.count(what, number);
    }
    for entry in [Some(crawl_log), cdx].into_iter().flatten() {
        for note in &entry.manifest().notes {
            draft.note(note.clone());
        }
    }
    for example in counts.bad.examples() {
        draft.note(example.clone());
    }
    if cdx.is_none() {
        draft.note(format!(
            "job {job} has no CDX: only what its crawl.log says itself tells where captures are"
        ));
    }
    if counts.beyond > 0 {
        let beyond = counts.beyond;
        draft.note(format!(
            "job {job}: {beyond} rows of the CDX were not looked at: there are too many of one URL"
        ));
    }
}
