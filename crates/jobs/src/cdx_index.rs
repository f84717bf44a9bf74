//! Indexes of the lines of CDX files.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::combine::{Holding, carry_over};
use super::raw::RawCaches;
use super::{
    Combine, CombiningMultiFileBasedCache, Draft, Error, JobSet, MultiFileBasedCache,
    PROGRESS_INTERVAL, Prepared, Work,
};

/// A cache of files with the lines of the CDX of all jobs of a set, sorted by their bytes.
pub type CdxIndexCache = CombiningMultiFileBasedCache<CdxIndex>;

/// How such files are made.
#[derive(Debug)]
pub struct CdxIndex {
    raw: Arc<RawCaches>,
}

impl CdxIndex {
    /// From the raw data of jobs.
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
        let (parts, missing) = self.raw.get(jobs, rebuild, work, |raw| {
            raw.cdx.map(|cdx| holding.one_more(cdx))
        })?;
        Ok(Prepared::of(parts, missing))
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
                // Their lines come once more.
                merge(some, &path, file, &mut |_| work.check())?;
                merged.push(path);
            }
            inputs = merged;
        }
        merge(&inputs, &path, file, &mut |lines| work.advance(lines))
    }
}

/// What is read at once of each file, and written, in bytes.
const BUFFER: usize = 256 * 1024;
/// Files that are read at once.
const MAX_INPUTS: usize = 128;

/// Writes the lines of sorted files in their order, and says so of every few.
fn merge(
    parts: &[PathBuf],
    path: &Path,
    file: File,
    done: &mut dyn FnMut(u64) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut inputs = Vec::with_capacity(parts.len());
    let mut heap = BinaryHeap::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let file = File::open(part).map_err(Error::io(part, "open"))?;
        let mut lines = BufReader::with_capacity(BUFFER, file);
        let mut line = Vec::new();
        if next(&mut lines, &mut line).map_err(Error::io(part, "read"))? {
            heap.push(Reverse((line, number)));
        }
        inputs.push((part, lines));
    }
    let mut out = BufWriter::with_capacity(BUFFER, file);
    let mut written = 0;
    while let Some(mut first) = heap.peek_mut() {
        let Reverse((line, number)) = &mut *first;
        line.push(b'\n');
        out.write_all(line).map_err(Error::io(path, "write"))?;
        written += 1;
        if written % PROGRESS_INTERVAL == 0 {
            done(PROGRESS_INTERVAL)?;
        }
        let number = *number;
        let more = match inputs.get_mut(number) {
            Some((part, lines)) => next(lines, line).map_err(Error::io(part, "read"))?,
            None => false,
        };
        if !more {
            PeekMut::pop(first);
        }
    }
    out.flush().map_err(Error::io(path, "write"))
}

/// The next line, without its end. They were looked at when the file was made, so that none is too long.
fn next(lines: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = lines.read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok(read > 0)
}
