//! Sorts more lines than fit into memory.
//!
//! Lines are gathered in memory up to a budget, sorted (`order`) and written to a temporary file, called a run (`run`),
//! as often as needed. At the end, the runs and the lines in memory are merged (`merge`). Temporary files are
//! unlinked when they are created, so that not even a crash leaves them behind.
//!
//! Lines are ordered by their bytes, as with `LC_ALL=C sort`. Equal lines are all kept.

mod merge;
mod order;
mod run;

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use self::merge::Merge;
use self::order::Gathered;
use self::run::Run;
use crate::{Error, Work};

/// Maximum number of runs that are merged at once. Each run needs [`run::BUFFER`] bytes of memory, and the
/// memory of a line.
const MAX_RUNS: usize = 64;
/// Number of lines between two checks for cancellation.
const CHECK_INTERVAL: u64 = 8192;

/// Sorts lines that are added in any order.
///
/// ```
/// use crawlspace_index::{sort::Sorter, Work};
/// let folder = tempfile::tempdir()?;
/// let mut sorter = Sorter::new(1 << 20, folder.path(), &Work::default());
/// for line in ["2 a", "1 b", "3 a"] {
///     // By the second word.
///     sorter.push_by(line.as_bytes(), 2..3)?;
/// }
/// let mut sorted = Vec::new();
/// sorter.finish()?.write_to(&mut sorted)?;
/// assert_eq!(sorted, b"2 a\n3 a\n1 b\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Sorter {
    memory: usize,
    threads: usize,
    folder: PathBuf,
    work: Work,
    gathered: Gathered,
    /// The runs, by the number of times that their lines were merged.
    runs: Vec<Vec<Run>>,
    lines: u64,
}

impl Sorter {
    /// Creates a sorter that uses about `memory` bytes (and 16 MiB more when it merges). Lines that do not
    /// fit into memory are written to files in `folder`, which needs space for nearly all lines.
    pub fn new(memory: usize, folder: &Path, work: &Work) -> Sorter {
        Sorter {
            memory,
            threads: 2,
            folder: folder.to_owned(),
            work: work.clone(),
            gathered: Gathered::default(),
            runs: Vec::new(),
            lines: 0,
        }
    }

    /// Sets the number of threads that sort: 1, or 2, which is the default.
    pub fn with_threads(mut self, threads: usize) -> Sorter {
        self.threads = threads;
        self
    }

    /// Adds a line that is sorted by all of its bytes. The line must not contain a line feed or be longer
    /// than 4 GiB.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or if the work was cancelled.
    pub fn push(&mut self, line: &[u8]) -> Result<(), Error> {
        self.push_by(line, 0..line.len())
    }

    /// Adds a line that is sorted by a range of its bytes. Lines with the same key are sorted by all of their bytes.
    ///
    /// # Errors
    /// Fails if a file cannot be written, or if the work was cancelled.
    #[inline]
    pub fn push_by(&mut self, line: &[u8], key: Range<usize>) -> Result<(), Error> {
        if !self.gathered.has_room(line.len(), self.memory) {
            self.spill()?;
        }
        self.lines += 1;
        if self.lines.is_multiple_of(CHECK_INTERVAL) {
            self.work.check()?;
        }
        self.gathered.push(line, key);
        Ok(())
    }

    /// Returns the number of lines added so far.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Sorts the lines.
    ///
    /// # Errors
    /// Fails if a file cannot be written or read, or if the work was cancelled.
    pub fn finish(mut self) -> Result<Sorted, Error> {
        self.work.check()?;
        self.gathered.sort(self.threads);
        let mut runs: Vec<Run> = std::mem::take(&mut self.runs)
            .into_iter()
            .flatten()
            .collect();
        // Merge the small runs first, that is, the runs that were merged least often.
        while runs.len() > MAX_RUNS {
            let rest = runs.split_off(MAX_RUNS);
            let merged = self.merged(runs)?;
            runs = rest;
            runs.push(merged);
        }
        Merge::of(runs, self.gathered, &self.folder).map(|merge| Sorted {
            merge,
            lines: self.lines,
            work: self.work,
        })
    }

    fn spill(&mut self) -> Result<(), Error> {
        self.work.check()?;
        self.gathered.sort(self.threads);
        let mut gathered = std::mem::take(&mut self.gathered);
        let mut run = run::Writer::create(&self.folder)?;
        for i in 0..gathered.len() {
            let (line, key) = gathered.line(i);
            run.push(line, key)?;
        }
        gathered.clear();
        self.gathered = gathered;
        let run = run.finish()?;
        self.keep(run, 0)
    }

    /// Adds a run, and merges all runs of its level into one of the next level when there are [`MAX_RUNS`].
    fn keep(&mut self, run: Run, level: usize) -> Result<(), Error> {
        if self.runs.len() <= level {
            self.runs.resize_with(level + 1, Vec::new);
        }
        let Some(runs) = self.runs.get_mut(level) else {
            return Ok(());
        };
        runs.push(run);
        if runs.len() < MAX_RUNS {
            return Ok(());
        }
        let runs = std::mem::take(runs);
        let merged = self.merged(runs)?;
        self.keep(merged, level + 1)
    }

    fn merged(&self, runs: Vec<Run>) -> Result<Run, Error> {
        let mut merge = Merge::of(runs, Gathered::default(), &self.folder)?;
        let mut run = run::Writer::create(&self.folder)?;
        let mut lines = 0_u64;
        while let Some((line, key)) = merge.next()? {
            run.push(line, key)?;
            lines += 1;
            if lines.is_multiple_of(CHECK_INTERVAL) {
                self.work.check()?;
            }
        }
        run.finish()
    }
}

/// The lines of a [`Sorter`], sorted.
pub struct Sorted {
    merge: Merge,
    lines: u64,
    work: Work,
}

impl Sorted {
    /// Returns the total number of lines.
    pub fn lines(&self) -> u64 {
        self.lines
    }

    /// Returns the next line, without a line end.
    ///
    /// # Errors
    /// Fails if a file cannot be read.
    #[allow(clippy::should_implement_trait)] // the line borrows the sorter, so this cannot be an Iterator
    #[inline]
    pub fn next(&mut self) -> Result<Option<&[u8]>, Error> {
        Ok(self.merge.next()?.map(|(line, _)| line))
    }

    /// Calls a function with each line.
    ///
    /// # Errors
    /// Fails if a file cannot be read, if the work was cancelled, or with the error of `take`.
    pub fn for_each(
        mut self,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let work = self.work.clone();
        let mut lines = 0_u64;
        while let Some(line) = self.next()? {
            take(line)?;
            lines += 1;
            if lines.is_multiple_of(CHECK_INTERVAL) {
                work.check()?;
            }
        }
        Ok(())
    }

    /// Writes each line with a line feed, in large pieces, and returns the number of bytes written.
    ///
    /// # Errors
    /// Fails if a file cannot be read or the work was cancelled. A failed write is an [`Error::Io`] without the name of
    /// the file.
    pub fn write_to(self, out: &mut impl Write) -> Result<u64, Error> {
        const PIECE: usize = 256 * 1024;
        let failed = |error| Error::Io {
            path: PathBuf::from("sorted lines"),
            action: "write",
            error,
        };
        let mut piece = Vec::with_capacity(PIECE + 4096);
        let mut bytes = 0;
        self.for_each(|line| {
            piece.extend_from_slice(line);
            piece.push(b'\n');
            if piece.len() >= PIECE {
                out.write_all(&piece).map_err(failed)?;
                bytes += piece.len() as u64;
                piece.clear();
            }
            Ok(())
        })?;
        out.write_all(&piece).map_err(failed)?;
        Ok(bytes + piece.len() as u64)
    }
}

#[cfg(test)]
mod tests;
