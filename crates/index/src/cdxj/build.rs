//! Indexes many files with several threads, and sorts the rows in bounded memory.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crawlspace_warc::Reader;

use super::{Tally, rows};
use crate::sort::{Sorted, Sorter};
use crate::{Error, Work};

/// Size of the rows that a thread collects before it adds them to the sorter, in bytes.
const BATCH: usize = 256 * 1024;

/// A job that indexes WARC and ARC files.
pub struct Job<'a> {
    /// The files, each with its name in the rows.
    pub files: &'a [(PathBuf, String)],
    /// Number of threads, each of which reads a file at a time.
    pub threads: usize,
    /// Memory for sorting in bytes. If the rows need more, they are sorted on the disk.
    pub memory: usize,
    /// The folder for temporary files.
    pub folder: &'a Path,
}

/// The sorted rows of a [`Job`].
pub struct Built {
    sorted: Sorted,
    /// Counts of the records and rows.
    pub tally: Tally,
    /// Errors of files that could not be read completely, in the order of the files. The rows before the damage are in
    /// the index.
    pub errors: Vec<Error>,
}

struct State {
    sorter: Sorter,
    tally: Tally,
    errors: Vec<(usize, Error)>,
    /// The error that ended the job.
    failure: Option<Error>,
}

impl Job<'_> {
    /// Reads all files. The progress of the work is in bytes.
    ///
    /// # Errors
    /// Fails if the temporary files cannot be written, or if the work was cancelled.
    pub fn run(&self, work: &Work) -> Result<Built, Error> {
        let size = |(path, _): &(PathBuf, String)| path.metadata().map_or(0, |file| file.len());
        work.begin("indexing", self.files.iter().map(size).sum());
        let threads = self.threads.clamp(1, self.files.len().max(1));
        let state = Mutex::new(State {
            sorter: Sorter::new(self.memory, self.folder, work).with_threads(self.threads),
            tally: Tally::default(),
            errors: Vec::new(),
            failure: None,
        });
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| self.read_files(&next, &state, work));
            }
            self.read_files(&next, &state, work);
        });
        let state = state.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some(failure) = state.failure {
            return Err(failure);
        }
        let mut errors = state.errors;
        errors.sort_by_key(|(number, _)| *number);
        work.begin("sorting", 0);
        Ok(Built {
            sorted: state.sorter.finish()?,
            tally: state.tally,
            errors: errors.into_iter().map(|(_, error)| error).collect(),
        })
    }

    fn read_files(&self, next: &AtomicUsize, state: &Mutex<State>, work: &Work) {
        let lock = || state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some((path, name)) = self.files.get(number) else {
                return;
            };
            if lock().failure.is_some() {
                return;
            }
            let mut tally = Tally::default();
            let flush = |batch: &mut Vec<u8>| {
                let mut state = lock();
                let mut start = 0;
                let pushed = memchr::memchr_iter(b'\n', batch).try_for_each(|end| {
                    let row = &batch[start..end];
                    start = end + 1;
                    state.sorter.push(row)
                });
                batch.clear();
                pushed
            };
            let read = Reader::open(path).map_err(Error::from).and_then(|warc| {
                rows(warc, name, &mut tally, work, &mut |row| {
                    batch.extend_from_slice(row);
                    batch.push(b'\n');
                    if batch.len() < BATCH {
                        return Ok(());
                    }
                    flush(&mut batch)
                })
            });
            let flushed = flush(&mut batch);
            let mut state = lock();
            state.tally.add(&tally);
            match read.and(flushed) {
                Ok(()) => {}
                Err(error @ Error::Warc(_)) => state.errors.push((number, error)),
                Err(error) => state.failure = state.failure.take().or(Some(error)),
            }
        }
    }
}

impl Built {
    /// Passes each row to `take`, sorted by their bytes, and without its line end. Passes repeated rows only
    /// once. Returns the counts of the records and rows.
    ///
    /// # Errors
    /// Fails if a temporary file cannot be read, if the work was cancelled, or with the error of `take`.
    pub fn for_each(
        self,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<Tally, Error> {
        let mut previous = Vec::new();
        let mut tally = self.tally;
        tally.rows = 0;
        self.sorted.for_each(|row| {
            if row != previous {
                take(row)?;
                tally.rows += 1;
                previous.clear();
                previous.extend_from_slice(row);
            }
            Ok(())
        })?;
        Ok(tally)
    }
}
