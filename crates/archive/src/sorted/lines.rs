//! Lines from an offset on.

use std::ops::Range;
use std::path::Path;

use super::Pieces;
use crate::lines::MAX_LINE;
use crate::sorted::line::trimmed;
use crate::sorted::steps::{Budget, Halt};

/// Maximum size of a read, in bytes.
pub(super) const MAX_PIECE: usize = 256 << 10;

/// Lines from an offset on. Memory: a piece and a line.
#[derive(Debug)]
pub(crate) struct Forward {
    pieces: Pieces,
    buffer: Vec<u8>,
    line: Range<usize>,
    /// Where the next line begins, and up to where its end was looked for.
    next: usize,
    searched: usize,
    /// How much is read next.
    piece: usize,
    /// What comes up to the end of the line is no line, or the end of one.
    skipping: bool,
    /// How many lines were too long.
    skipped: u64,
}

impl Forward {
    /// Lines from the place where `pieces` is, which is the beginning of one.
    pub(crate) fn new(pieces: Pieces, piece: usize) -> Forward {
        Forward {
            pieces,
            buffer: Vec::new(),
            line: 0..0,
            next: 0,
            searched: 0,
            piece,
            skipping: false,
            skipped: 0,
        }
    }

    /// Lines that begin after the place where `pieces` is.
    pub(crate) fn amid(pieces: Pieces, piece: usize) -> Forward {
        Forward {
            skipping: true,
            ..Forward::new(pieces, piece)
        }
    }

    /// The line that was found last, without its end.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        trimmed(self.buffer.get(self.line.clone()).unwrap_or_default())
    }

    /// Where in the file that line begins.
    pub(crate) fn offset(&self) -> u64 {
        let after = self.buffer.len().saturating_sub(self.line.start);
        self.pieces.at().saturating_sub(after as u64)
    }

    /// The file that they are of.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.pieces.path()
    }

    /// How many lines too long there were so far.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Continues to the next line; false at the end.
    #[inline]
    pub(crate) fn next(&mut self, budget: &mut Budget) -> Result<bool, Halt> {
        loop {
            let rest = self.buffer.get(self.searched..).unwrap_or_default();
            if let Some(length) = memchr::memchr(b'\n', rest) {
                let end = self.searched + length;
                self.line = self.next..end;
                self.next = end + 1;
                self.searched = end + 1;
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                if self.line.len() > MAX_LINE {
                    self.skipped += 1;
                    continue;
                }
                return Ok(true);
            }
            if !self.more(budget)? {
                self.line = self.next..self.buffer.len();
                self.next = self.buffer.len();
                return Ok(!std::mem::take(&mut self.skipping) && !self.line.is_empty());
            }
        }
    }

    /// Reads a piece. What was done with is gone then.
    fn more(&mut self, budget: &mut Budget) -> Result<bool, Halt> {
        self.searched = self.buffer.len();
        if self.buffer.len() - self.next > MAX_LINE {
            self.skipped += u64::from(!self.skipping);
            self.skipping = true;
        }
        if self.skipping {
            self.next = self.buffer.len();
        }
        self.buffer.drain(..self.next);
        self.searched = self.buffer.len();
        self.next = 0;
        self.line = 0..0;
        let more = self.pieces.after(budget, self.piece, &mut self.buffer)?;
        self.piece = (self.piece * 2).min(MAX_PIECE);
        Ok(more)
    }
}
