//! Indexes of the lines of CDX files.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::PathBuf;
use std::sync::Arc;

use super::combine::carry_over;
use super::raw::RawCaches;
use super::{
    Combine, CombiningMultiFileBasedCache, Draft, Entry, Error, JobSet, Missing,
    MultiFileBasedCache, Prepared, Work,
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
    pub fn of(raw: Arc<RawCaches>) -> CdxIndex {
        CdxIndex { raw }
    }
}

impl Combine for CdxIndex {
    fn prepare(
        &self,
        _cache: &MultiFileBasedCache,
        jobs: &JobSet,
        anew: bool,
        work: &Work,
    ) -> Result<Prepared, Error> {
        let (parts, missing) = self.raw.get(jobs, anew, work, |raw| {
            raw.cdx.ok_or(Missing::NoRecord { files: raw.files })
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
        let mut out = BufWriter::with_capacity(BUFFER, file);
        let mut written = 0;
        let merged = merge(&prepared.parts, &mut |line| {
            out.write_all(line)?;
            out.write_all(b"\n")?;
            written += 1;
            match written % OFTEN {
                0 => work.advance(OFTEN).map_err(io::Error::other),
                _ => Ok(()),
            }
        });
        work.check()?;
        merged.map_err(|(at, error)| Error::io(at.as_deref().unwrap_or(&path), "merge")(error))?;
        out.flush().map_err(Error::io(&path, "write"))
    }
}

/// Lines between two looks at whether this should go on.
const OFTEN: u64 = 4096;
/// What is read or written at once, at most and at least, in bytes; and for all inputs together.
const BUFFER: usize = 256 * 1024;
const LEAST: usize = 4 * 1024;
const ALL: usize = 64 << 20;

/// Gives the lines of sorted files in their order. Errors name the file that cannot be read, if it is one of these.
fn merge(
    parts: &[Entry],
    take: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), (Option<PathBuf>, io::Error)> {
    let buffer = (ALL / parts.len().max(1)).clamp(LEAST, BUFFER);
    let mut inputs = Vec::with_capacity(parts.len());
    let mut heap = BinaryHeap::with_capacity(parts.len());
    for (number, part) in parts.iter().enumerate() {
        let of_input = |error| (Some(part.path().to_owned()), error);
        let file = File::open(part.path()).map_err(of_input)?;
        let mut lines = BufReader::with_capacity(buffer, file);
        let mut line = Vec::new();
        if next(&mut lines, &mut line).map_err(of_input)? {
            heap.push(Reverse((line, number)));
        }
        inputs.push(lines);
    }
    while let Some(mut first) = heap.peek_mut() {
        let Reverse((line, number)) = &mut *first;
        take(line).map_err(|error| (None, error))?;
        let number = *number;
        let more = match inputs.get_mut(number) {
            Some(lines) => next(lines, line).map_err(|error| {
                let path = parts.get(number).map(|part| part.path().to_owned());
                (path, error)
            })?,
            None => false,
        };
        if !more {
            PeekMut::pop(first);
        }
    }
    Ok(())
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
