//! Many sorted runs as one.

use std::cmp::Ordering;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::order::{self, Gathered};
use super::run::{Reader, Run};
use crate::Error;

/// The lines of some runs and of what is in memory.
pub(super) struct Merge {
    readers: Vec<Reader>,
    gathered: Gathered,
    /// Which line in memory is the next one, and whether one is.
    here: usize,
    /// A heap of those that have a line, by that line. The number after the last reader is what is in memory.
    heap: Vec<usize>,
    /// The first of the heap has been given out.
    given: bool,
    folder: PathBuf,
}

impl Merge {
    pub(crate) fn of(runs: Vec<Run>, gathered: Gathered, folder: &Path) -> Result<Merge, Error> {
        let mut merge = Merge {
            readers: runs.into_iter().map(Reader::of).collect(),
            gathered,
            here: 0,
            heap: Vec::new(),
            given: false,
            folder: folder.to_owned(),
        };
        for (i, reader) in merge.readers.iter_mut().enumerate() {
            if reader.advance(folder)? {
                merge.heap.push(i);
            }
        }
        if merge.gathered.len() > 0 {
            merge.heap.push(merge.readers.len());
        }
        for slot in (0..merge.heap.len() / 2).rev() {
            merge.sift(slot);
        }
        Ok(merge)
    }

    /// Goes to the next line. False when there is none.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<bool, Error> {
        let Some(first) = self.heap.first().copied() else {
            return Ok(false);
        };
        if !self.given {
            self.given = true;
            return Ok(true);
        }
        let more = match self.readers.get_mut(first) {
            Some(reader) => reader.advance(&self.folder)?,
            None => {
                self.here += 1;
                self.here < self.gathered.len()
            }
        };
        if !more {
            self.heap.swap_remove(0);
        }
        self.sift(0);
        Ok(!self.heap.is_empty())
    }

    /// The line it is at, and where its key is.
    #[inline]
    pub(crate) fn line(&self) -> (&[u8], Range<usize>) {
        match self.heap.first() {
            Some(which) => self.line_of(*which),
            None => (&[], 0..0),
        }
    }

    #[inline]
    fn line_of(&self, which: usize) -> (&[u8], Range<usize>) {
        match self.readers.get(which) {
            Some(reader) => reader.line(),
            None => self.gathered.line(self.here),
        }
    }

    /// Moves what is at a slot of the heap down to where it belongs.
    fn sift(&mut self, mut slot: usize) {
        loop {
            let below = [2 * slot + 1, 2 * slot + 2];
            let least = below.into_iter().fold(slot, |least, other| {
                if self.is_less(other, least) {
                    other
                } else {
                    least
                }
            });
            if least == slot {
                return;
            }
            self.heap.swap(slot, least);
            slot = least;
        }
    }

    fn is_less(&self, a: usize, b: usize) -> bool {
        let (Some(a), Some(b)) = (self.heap.get(a), self.heap.get(b)) else {
            return false;
        };
        let ((a, a_key), (b, b_key)) = (self.line_of(*a), self.line_of(*b));
        order::order(a, a_key, b, b_key) == Ordering::Less
    }
}
