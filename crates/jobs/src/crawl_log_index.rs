//! Indexes of crawl logs, for deduplication and for replay.
//!
//! The index of one job is built from the sorted lines of its `crawl.log` and its CDX. The index of
//! several jobs is merged from the indexes of the single jobs, called segments, or from larger
//! existing indexes that contain some of the jobs. Therefore, adding a job only requires building
//! its segment and one merge.

use std::fs::File;
use std::io::BufReader;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;

use super::combine::{Holding, both, carry_over, each_job, inputs_of};
use super::join::{Counts, Flavour, Row, rows};
use super::raw::{RawCaches, older};
use super::{
    Combine, CombiningMultiFileBasedCache, Draft, Entry, Error, JobId, JobSet, Manifest, Missing,
    MultiFileBasedCache, Options, PROGRESS_INTERVAL, Prepared, Work,
};
use crawlspace_index::lines::MAX_LINE;
use crawlspace_index::sort::Sorter;
use crawlspace_index::zipnum::{self, Writer};

/// The stems of the file names of an index, one for each order of its lines.
pub(super) const URL: &str = "url";
pub(super) const DIGEST: &str = "digest";

/// A cache of indexes for deduplication: captures of all media types except text (`^text/.*`, ignoring case).
pub type DedupCrawlLogIndexCache = CombiningMultiFileBasedCache<CrawlLogIndex<Dedup>>;

/// A cache of indexes for replay: all captures.
pub type FullCrawlLogIndexCache = CombiningMultiFileBasedCache<CrawlLogIndex<Full>>;

/// Selects the lines of crawl logs for an index.
pub trait Flavoured: Send + Sync + 'static {
    /// The selection.
    const FLAVOUR: Flavour;
}

/// Selects the captures for deduplication.
#[derive(Clone, Copy, Debug)]
pub struct Dedup;

/// Selects all captures.
#[derive(Clone, Copy, Debug)]
pub struct Full;

impl Flavoured for Dedup {
    const FLAVOUR: Flavour = Flavour::Dedup;
}

impl Flavoured for Full {
    const FLAVOUR: Flavour = Flavour::Full;
}

/// Builds indexes of crawl logs.
#[derive(Debug)]
pub struct CrawlLogIndex<F> {
    raw: Arc<RawCaches>,
    threads: usize,
    memory: usize,
    flavour: PhantomData<fn() -> F>,
}

impl<F: Flavoured> CrawlLogIndex<F> {
    /// Creates a builder that uses the raw data of jobs.
    pub(crate) fn of(raw: Arc<RawCaches>, options: &Options) -> CrawlLogIndex<F> {
        CrawlLogIndex {
            raw,
            threads: options.threads.max(1),
            memory: options.memory,
            flavour: PhantomData,
        }
    }

    /// Returns the index of one job.
    fn segment(
        &self,
        cache: &MultiFileBasedCache,
        job: JobId,
        rebuild: bool,
        sharing: usize,
        work: &Work,
    ) -> Result<Result<Entry, Missing>, Error> {
        let set: JobSet = [job].into_iter().collect();
        let there = cache.hit(&set, work)?.filter(|_| !rebuild);
        let there = match there {
            Some(there) if self.is_current(there.manifest(), work)? => return Ok(Ok(there)),
            there => there,
        };
        let raw = self.raw.get_one(job, rebuild, work)?;
        let raw = match raw.and_then(|raw| Ok((raw.crawl_log?, raw.cdx))) {
            Ok(raw) => raw,
            Err(why) => {
                let is_unreadable = matches!(why, Missing::Unreadable { .. });
                let old = there.filter(|_| is_unreadable);
                return Ok(old.map(|old| older(job, old, &why)).ok_or(why));
            }
        };
        drop(there);
        let (crawl_log, cdx) = raw;
        let inputs = inputs_of([Some(&crawl_log), cdx.as_ref().ok()].into_iter().flatten());
        let accept = |there: &Manifest| !rebuild && there.inputs == inputs;
        cache
            .cache_if(&set, work, &accept, |draft| {
                inputs.iter().for_each(|input| draft.input(input.clone()));
                let memory = self.memory / sharing.max(1);
                write_segment(
                    job,
                    &crawl_log,
                    cdx.as_ref(),
                    F::FLAVOUR,
                    memory,
                    draft,
                    work,
                )
            })
            .map(Ok)
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
            cache.parts_of(jobs, work, |part| self.is_current(part, work))?
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

    fn is_current(&self, manifest: &Manifest, work: &Work) -> Result<bool, Error> {
        self.raw.is_current(manifest, work)
    }

    fn combine(&self, prepared: &Prepared, draft: &mut Draft, work: &Work) -> Result<(), Error> {
        carry_over(&prepared.parts, draft);
        let lines: u64 = prepared.parts.iter().map(|part| counted(part, ROWS)).sum();
        work.begin("merging", lines * 2);
        let folders: Vec<_> = prepared
            .parts
            .iter()
            .map(|part| part.path().to_owned())
            .collect();
        write(
            draft,
            |out| zipnum::merge(URL, &folders, out, work),
            |out| zipnum::merge(DIGEST, &folders, out, work),
        )
    }
}

/// The name of the count of rows in a manifest.
pub(super) const ROWS: &str = "rows";

/// Writes an index in both orders concurrently.
fn write(
    draft: &mut Draft,
    by_url: impl FnOnce(&mut Writer) -> Result<(), Error> + Send,
    by_digest: impl FnOnce(&mut Writer) -> Result<(), Error>,
) -> Result<(), Error> {
    for stem in [URL, DIGEST] {
        for end in ["idx", "cdxj.gz"] {
            draft.add(&format!("{stem}.{end}"));
        }
    }
    let folder = draft.folder();
    let create = |stem, options| Writer::create(folder, stem, options);
    let (by_url, by_digest) = both(
        || {
            let mut out = create(URL, zipnum::Options::by_url())?;
            by_url(&mut out)?;
            out.finish().map(|_| ())
        },
        || {
            let mut out = create(DIGEST, zipnum::Options::by_digest())?;
            by_digest(&mut out)?;
            out.finish().map(|_| ())
        },
    );
    by_url.and(by_digest)
}

/// Builds the index of one job from its raw data.
fn write_segment(
    job: JobId,
    crawl_log: &Entry,
    cdx: Result<&Entry, &Missing>,
    flavour: Flavour,
    memory: usize,
    draft: &mut Draft,
    work: &Work,
) -> Result<(), Error> {
    let lines = counted(crawl_log, "lines");
    work.begin(&format!("job {job}: merging crawl.log and CDX"), lines);
    let mut sorting = Sorting {
        by_url: Sorter::new(memory / 2, draft.folder(), work),
        by_digest: Sorter::new(memory / 2, draft.folder(), work),
    };
    let lines_of = |entry: &Entry| -> Result<BufReader<File>, Error> {
        let file = File::open(entry.path()).map_err(Error::io(entry.path(), "open"))?;
        Ok(BufReader::with_capacity(256 * 1024, file))
    };
    let cdx_lines = cdx.ok().map(lines_of).transpose()?;
    let crawl_log_lines = lines_of(crawl_log)?;
    let (mut counts, too_long) =
        sorting.fill(|take| rows(crawl_log_lines, cdx_lines, flavour, job, work, take))?;
    counts.rows -= too_long;
    tell(job, &counts, crawl_log, cdx, draft);
    if too_long > 0 {
        draft.count("tooLong", too_long);
        draft.note(format!(
            "job {job}: {too_long} captures have URLs that are too long for an index"
        ));
    }
    work.begin(&format!("job {job}: writing"), counts.rows * 2);
    write(
        draft,
        |out| push_all(sorting.by_url, out, work),
        |out| push_all(sorting.by_digest, out, work),
    )
}

/// The rows of a job, being sorted in both orders.
struct Sorting {
    by_url: Sorter,
    by_digest: Sorter,
}

impl Sorting {
    /// Sorts the rows that `make` produces, on a separate thread. Returns the counts of `make`, and the number of rows
    /// that are too long.
    fn fill(
        &mut self,
        make: impl FnOnce(&mut dyn FnMut(Row<'_>) -> Result<(), Error>) -> Result<Counts, Error>,
    ) -> Result<(Counts, u64), Error> {
        let (send, batches) = sync_channel::<Batch>(WAITING);
        let (sorted, made) = both(
            move || batches.iter().try_for_each(|batch| self.take(&batch)),
            move || {
                // If the sorting thread stopped, it returns the cause.
                let send = |batch| send.send(batch).map_err(|_| Error::Cancelled);
                let (mut batch, mut too_long) = (Batch::new(), 0);
                let counts = make(&mut |row| {
                    too_long += u64::from(!batch.push(&row));
                    if batch.text.len() < BATCH {
                        return Ok(());
                    }
                    send(std::mem::replace(&mut batch, Batch::new()))
                })?;
                send(batch)?;
                Ok((counts, too_long))
            },
        );
        sorted.and(made)
    }

    fn take(&mut self, batch: &Batch) -> Result<(), Error> {
        let mut begin = 0;
        for &(by_url_ends, end) in &batch.ends {
            let line = |range| batch.text.get(range).unwrap_or_default();
            self.by_url.push(line(begin..by_url_ends))?;
            if by_url_ends < end {
                self.by_digest.push(line(by_url_ends..end))?;
            }
            begin = end;
        }
        Ok(())
    }
}

/// Size of a batch of lines in bytes, and maximum number of batches waiting to be sorted.
const BATCH: usize = 256 * 1024;
const WAITING: usize = 4;

/// A batch of rows. Each row is stored as two lines: by URL, and by digest.
struct Batch {
    text: Vec<u8>,
    /// The ends of the two lines of each row: by URL, and by digest.
    ends: Vec<(usize, usize)>,
}

impl Batch {
    fn new() -> Batch {
        Batch {
            text: Vec::with_capacity(BATCH + 4096),
            ends: Vec::new(),
        }
    }

    /// Adds a row. Returns false if a line of the row would be longer than readers accept, because
    /// the `crawl.log` contains a very long line.
    fn push(&mut self, row: &Row<'_>) -> bool {
        let begin = self.text.len();
        row.push_by_url(&mut self.text);
        let by_url_ends = self.text.len();
        row.push_by_digest(&mut self.text);
        let end = self.text.len();
        if (by_url_ends - begin).max(end - by_url_ends) > MAX_LINE {
            self.text.truncate(begin);
            return false;
        }
        self.ends.push((by_url_ends, end));
        true
    }
}

fn push_all(lines: Sorter, out: &mut Writer, work: &Work) -> Result<(), Error> {
    let mut lines = lines.finish()?;
    let mut pushed = 0;
    while let Some(line) = lines.next()? {
        out.push(line)?;
        pushed += 1;
        if pushed % PROGRESS_INTERVAL == 0 {
            work.advance(PROGRESS_INTERVAL)?;
        }
    }
    Ok(())
}

fn counted(entry: &Entry, what: &str) -> u64 {
    entry.manifest().counts.get(what).copied().unwrap_or(0)
}

/// Records the counts of lines in the manifest.
fn tell(
    job: JobId,
    counts: &Counts,
    crawl_log: &Entry,
    cdx: Result<&Entry, &Missing>,
    draft: &mut Draft,
) {
    let bad = |entry| counted(entry, "badLines");
    let numbers = [
        ("lines", counts.lines),
        (ROWS, counts.rows),
        ("noCaptures", counts.no_captures),
        ("text", counts.text),
        ("originDuplicate", counts.duplicates),
        ("originCdx", counts.same_date),
        ("originNearest", counts.nearest),
        ("originLogged", counts.logged),
        ("withoutOrigin", counts.without_origin),
        ("revisits", counts.elsewhere),
        (
            "badLines",
            counts.bad.total() + bad(crawl_log) + cdx.map_or(0, bad),
        ),
    ];
    for (what, number) in numbers {
        draft.count(what, number);
    }
    for entry in [Some(crawl_log), cdx.ok()].into_iter().flatten() {
        for note in &entry.manifest().notes {
            draft.note(note.clone());
        }
    }
    for example in counts.bad.examples() {
        draft.note(example.clone());
    }
    let without = "the positions of captures come only from its crawl.log";
    match cdx {
        Ok(_) => {}
        Err(Missing::Unreadable { why }) => {
            draft.note(format!(
                "job {job}: its CDX is not used, and {without}: {why}"
            ));
        }
        Err(_) => draft.note(format!("job {job} has no CDX: {without}")),
    }
    if counts.nearest > 0 {
        let nearest = counts.nearest;
        draft.note(format!(
            "job {job}: {nearest} captures have the position of a CDX row whose timestamp differs by a second, because no row has \
             the same second"
        ));
    }
    if counts.beyond > 0 {
        let beyond = counts.beyond;
        draft.note(format!(
            "job {job}: {beyond} rows of the CDX were skipped, because a URL has too many rows"
        ));
    }
}
