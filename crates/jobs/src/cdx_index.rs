//! Indexes of the lines of CDX files.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::combine::{Holding, carry_over};
use super::raw::RawCaches;
use super::{
    Combine, CombiningMultiFileBasedCache, Draft, Error, JobSet, Manifest, MultiFileBasedCache,
    PROGRESS_INTERVAL, Prepared, Work,
};
use crawlspace_index::LoserTree;

/// A cache of files with the CDX lines of all jobs of a set, sorted by their bytes.
pub type CdxIndexCache = CombiningMultiFileBasedCache<CdxIndex>;

/// Builds CDX indexes from the CDX of each job.
#[derive(Debug)]
pub struct CdxIndex {
    raw: Arc<RawCaches>,
}

impl CdxIndex {
    /// Creates a builder that uses the raw data of jobs.
    pub(crate) fn of(raw: Arc<RawCaches>) -> CdxIndex {
        CdxIndex { raw }
    }
}

impl Combine for CdxIndex {
    fn prepare(
        &self,
        _cache: &MultiFileBasedCache,
        jobs: &JobSet,
        rebuild: bool,
        work: &Work,
    ) -> Result<Prepared, Error> {
        let holding = Holding::default();
        let one_more = |cdx| holding.one_more(cdx);
        let (parts, missing) = self.raw.cdx_of(jobs, rebuild, work, one_more)?;
        Ok(Prepared::of(parts, missing))
    }

    fn is_current(&self, manifest: &Manifest, work: &Work) -> Result<bool, Error> {
        self.raw.is_current(manifest, work)
    }

    fn combine(&self, prepared: &Prepared, draft: &mut Draft, work: &Work) -> Result<(), Error> {
        carry_over(&prepared.parts, draft);
        let (path, file) = draft.create("cdx")?;
        let lines = prepared
            .parts
            .iter()
            .filter_map(|part| part.manifest().counts.get("lines"));
        work.begin("merging", lines.sum());
        let mut inputs: Vec<PathBuf> = prepared
            .parts
            .iter()
            .map(|part| part.path().to_owned())
            .collect();
        let mut rounds = 0;
        while inputs.len() > MAX_INPUTS {
            let mut merged = Vec::new();
            for some in inputs.chunks(MAX_INPUTS) {
                let path = draft.folder().join(format!("merging-{rounds}"));
                rounds += 1;
                let file = File::create(&path).map_err(Error::io(&path, "create"))?;
                // Intermediate rounds are not counted: each line is counted in the last round.
                merge(some, &path, file, &mut |_| work.check())?;
                merged.push(path);
            }
            inputs = merged;
        }
        merge(&inputs, &path, file, &mut |lines| work.advance(lines))
    }
}

/// Size of the read buffer of each file and of the write buffer, in bytes.
const BUFFER: usize = 256 * 1024;
/// Maximum number of files that are merged at once.
const MAX_INPUTS: usize = 128;

/// Merges the lines of sorted files, and calls `done` every [`PROGRESS_INTERVAL`] lines.
fn merge(
    parts: &[PathBuf],
    path: &Path,
    file: File,
    done: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let inputs = parts.iter().map(|part| Input::open(part));
    let mut inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let mut tree = LoserTree::new(inputs.len(), |a, b| is_before(&inputs, a, b));
    let mut out = BufWriter::with_capacity(BUFFER, file);
    let mut written = 0;
    while let Some(first) = inputs.get_mut(tree.winner())
        && !first.line.is_empty()
    {
        let line = out.write_all(&first.line);
        line.map_err(Error::io(path, "write"))?;
        written += 1;
        if written % PROGRESS_INTERVAL == 0 {
            done(PROGRESS_INTERVAL)?;
        }
        first.advance()?;
        tree.replay(|a, b| is_before(&inputs, a, b));
    }
    out.flush().map_err(Error::io(path, "write"))
}

/// A sorted file, and the position of the merge in it.
struct Input<'a> {
    path: &'a Path,
    lines: BufReader<File>,
    /// The line with its line end; empty after the last line.
    line: Vec<u8>,
}

impl Input<'_> {
    fn open(path: &Path) -> Result<Input<'_>, Error> {
        let file = File::open(path).map_err(Error::io(path, "open"))?;
        let mut input = Input {
            path,
            lines: BufReader::with_capacity(BUFFER, file),
            line: Vec::new(),
        };
        input.advance()?;
        Ok(input)
    }

    /// Advances to the next line. Lengths were checked when the file was written.
    fn advance(&mut self) -> Result<(), Error> {
        self.line.clear();
        let read = self.lines.read_until(b'\n', &mut self.line);
        read.map_err(Error::io(self.path, "read"))?;
        if self.line.last().is_some_and(|end| *end != b'\n') {
            self.line.push(b'\n');
        }
        Ok(())
    }
}

/// Returns whether the line of one input comes before the line of another input. Line ends are not
/// compared.
fn is_before(inputs: &[Input<'_>], a: usize, b: usize) -> bool {
    let line = |n: usize| inputs.get(n).and_then(|input| input.line.split_last());
    match (line(a), line(b)) {
        (Some((_, first)), Some((_, second))) => (first, a) < (second, b),
        (first, _) => first.is_some(),
    }
}
