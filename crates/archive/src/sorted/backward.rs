//! Lines before an offset, the last one first.

use std::ops::Range;
use std::path::Path;

use super::Pieces;
use super::lines::MAX_PIECE;
use crate::lines::MAX_LINE;
use crate::sorted::line::trimmed;
use crate::sorted::steps::{Budget, Halt};

/// Lines before an offset, the last one first. Memory: a piece and a line.
#[derive(Debug)]
pub(crate) struct Backward {
    pieces: Pieces,
    buffer: Vec<u8>,
    line: Range<usize>,
    /// What is behind this was seen. Before it is the end of a line, or that of the file.
    end: usize,
    /// Nothing comes before what is there.
    all: bool,
    /// How much is read next.
    piece: usize,
    /// What comes before belongs to a line that is too long.
    skipping: bool,
    skipped: u64,
}

impl Backward {
    /// Lines before the place where `pieces` is, which is the beginning of one, or the end of the file.
    pub(crate) fn new(pieces: Pieces, piece: usize) -> Backward {
        Backward {
            pieces,
            buffer: Vec::new(),
            line: 0..0,
            end: 0,
            all: false,
            piece,
            skipping: false,
            skipped: 0,
        }
    }

    /// The line that was found last, without its end.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        trimmed(self.buffer.get(self.line.clone()).unwrap_or_default())
    }

    /// The file that they are of.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.pieces.path()
    }

    /// How many lines too long there were so far.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Continues to the line before; false at the beginning.
    #[inline]
    pub(crate) fn next(&mut self, budget: &mut Budget) -> Result<bool, Halt> {
        loop {
            let text = self.buffer.get(..self.end).unwrap_or_default();
            if self.skipping {
                if let Some(feed) = memchr::memrchr(b'\n', text) {
                    self.end = feed + 1;
                    self.skipping = false;
                    continue;
                }
                self.end = 0;
            } else if let [.., last] = text {
                let stop = self.end - usize::from(*last == b'\n');
                let line = text.get(..stop).unwrap_or_default();
                let begin = match memchr::memrchr(b'\n', line) {
                    Some(feed) => Some(feed + 1),
                    None => self.all.then_some(0),
                };
                if let Some(begin) = begin {
                    self.line = begin..stop;
                    self.end = begin;
                    if self.line.len() > MAX_LINE {
                        self.skipped += 1;
                        continue;
                    }
                    return Ok(true);
                }
                if line.len() > MAX_LINE {
                    self.skipping = true;
                    self.skipped += 1;
                    self.end = 0;
                }
            }
            if self.all {
                return Ok(false);
            }
            self.more(budget)?;
        }
    }

    fn more(&mut self, budget: &mut Budget) -> Result<(), Halt> {
        let mut buffer = Vec::with_capacity(self.piece + self.end);
        self.all = !self.pieces.before(budget, self.piece, &mut buffer)?;
        let before = buffer.len();
        buffer.extend_from_slice(self.buffer.get(..self.end).unwrap_or_default());
        self.end += before;
        self.buffer = buffer;
        self.line = 0..0;
        self.piece = (self.piece * 2).min(MAX_PIECE);
        Ok(())
    }
}
