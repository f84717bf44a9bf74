//! Reads lines of text that arrives in pieces, forward and backward.

use std::ops::Range;
use std::path::Path;

use crate::lines::MAX_LINE;
use crate::sorted::file::Snapshot;
use crate::sorted::line::trimmed;
use crate::source::SourceError;

/// Maximum size of a read, in bytes.
const MAX_PIECE: usize = 256 << 10;

/// Text with a position in it, from which it is read in both directions.
pub(crate) trait Pieces: Send {
    /// Returns the path of the file; for a cluster, of its secondary index.
    fn path(&self) -> &Path;

    /// Appends about `bytes` bytes after the position. Returns false at the end.
    fn after(
        &mut self,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, SourceError>> + Send;

    /// Appends about `bytes` bytes before the position. Returns false at the beginning.
    fn before(
        &mut self,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, SourceError>> + Send;
}

/// A file, up to an end offset.
#[derive(Debug)]
pub(crate) struct Stretch {
    file: Snapshot,
    at: u64,
    end: u64,
}

impl Stretch {
    /// Reads a file from an offset on.
    pub(crate) fn of(file: Snapshot, at: u64) -> Stretch {
        let end = file.size();
        Stretch {
            at: at.min(end),
            end,
            file,
        }
    }

    /// Limits the text to the bytes before `end`.
    pub(crate) fn up_to(self, end: u64) -> Stretch {
        let end = self.end.min(end);
        Stretch {
            at: self.at.min(end),
            end,
            ..self
        }
    }
}

impl Pieces for Stretch {
    fn path(&self) -> &Path {
        self.file.path()
    }

    async fn after(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, SourceError> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(false);
        }
        let read = self.file.read(self.at, bytes.min(left), into).await?;
        self.at += read as u64;
        Ok(read > 0)
    }

    async fn before(&mut self, bytes: usize, into: &mut Vec<u8>) -> Result<bool, SourceError> {
        let from = self.at.saturating_sub(bytes as u64);
        let begin = into.len();
        let mut at = from;
        while at < self.at {
            let left = usize::try_from(self.at - at).unwrap_or(usize::MAX);
            match self.file.read(at, left, into).await? {
                // The file was truncated.
                0 => break,
                read => at += read as u64,
            }
        }
        self.at = from;
        Ok(into.len() > begin)
    }
}

/// Lines in one direction.
#[derive(Debug)]
pub(crate) enum Lines<P> {
    Forward(Forward<P>),
    Backward(Backward<P>),
}

/// The direction in which lines are read.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl<P: Pieces> Lines<P> {
    /// Reads lines after or before the position of `pieces`; `piece` is the size of the first read in bytes.
    pub(crate) fn of(pieces: P, direction: Direction, piece: usize) -> Lines<P> {
        match direction {
            Direction::Forward => Lines::Forward(Forward::new(pieces, piece)),
            Direction::Backward => Lines::Backward(Backward::new(pieces, piece)),
        }
    }

    /// Returns the current line, without its line end.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        match self {
            Lines::Forward(lines) => lines.line(),
            Lines::Backward(lines) => lines.line(),
        }
    }

    /// Returns whether a blank follows the current line.
    pub(crate) fn is_marked(&self) -> bool {
        let (buffer, line) = match self {
            Lines::Forward(lines) => (&lines.buffer, &lines.line),
            Lines::Backward(lines) => (&lines.buffer, &lines.line),
        };
        buffer
            .get(line.clone())
            .is_some_and(|line| line.ends_with(b" "))
    }

    /// Advances to the next line; returns false at the end.
    #[inline]
    pub(crate) async fn next(&mut self) -> Result<bool, SourceError> {
        match self {
            Lines::Forward(lines) => lines.next().await,
            Lines::Backward(lines) => lines.next().await,
        }
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Lines::Forward(lines) => lines.pieces.path(),
            Lines::Backward(lines) => lines.pieces.path(),
        }
    }

    /// Returns the number of lines that were skipped because they are too long.
    pub(crate) fn skipped(&self) -> u64 {
        match self {
            Lines::Forward(lines) => lines.skipped,
            Lines::Backward(lines) => lines.skipped,
        }
    }
}

/// Lines from an offset on. Uses the memory of a piece and a line.
#[derive(Debug)]
pub(crate) struct Forward<P> {
    pieces: P,
    buffer: Vec<u8>,
    line: Range<usize>,
    /// Offset of the next line in the buffer, and the offset up to which its end was searched.
    next: usize,
    searched: usize,
    /// Size of the next read, in bytes.
    piece: usize,
    /// True if the text up to the next line end must be skipped, because it is a partial line or a
    /// line that is too long.
    skipping: bool,
    /// Number of lines that were too long.
    skipped: u64,
}

impl<P: Pieces> Forward<P> {
    /// Reads lines from the position of `pieces` on, which must be the start of a line.
    fn new(pieces: P, piece: usize) -> Forward<P> {
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

    /// Reads the lines that begin after the position of `pieces`.
    pub(crate) fn amid(pieces: P, piece: usize) -> Forward<P> {
        Forward {
            skipping: true,
            ..Forward::new(pieces, piece)
        }
    }

    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        trimmed(&self.buffer[self.line.clone()])
    }

    /// Returns the text that was read, starting at the current line.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.line.start..]
    }

    #[inline]
    pub(crate) async fn next(&mut self) -> Result<bool, SourceError> {
        loop {
            let rest = &self.buffer[self.searched..];
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
            if !self.more().await? {
                self.line = self.next..self.buffer.len();
                self.next = self.buffer.len();
                return Ok(!std::mem::take(&mut self.skipping) && !self.line.is_empty());
            }
        }
    }

    /// Reads the next piece, and discards the text before it that was used.
    async fn more(&mut self) -> Result<bool, SourceError> {
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
        let more = self.pieces.after(self.piece, &mut self.buffer).await?;
        self.piece = (self.piece * 2).min(MAX_PIECE);
        Ok(more)
    }
}

impl Forward<Stretch> {
    /// Returns the offset of the current line in the file.
    pub(crate) fn offset(&self) -> u64 {
        let after = self.buffer.len().saturating_sub(self.line.start);
        self.pieces.at.saturating_sub(after as u64)
    }
}

/// Lines before an offset, last one first. Uses the memory of a piece and a line.
#[derive(Debug)]
pub(crate) struct Backward<P> {
    pieces: P,
    buffer: Vec<u8>,
    line: Range<usize>,
    /// End of the text that is still to be searched: the end of a line, or of the file.
    end: usize,
    /// True if the start of the text has been read.
    all: bool,
    /// Size of the next read, in bytes.
    piece: usize,
    /// True if the preceding text belongs to a line that is too long.
    skipping: bool,
    skipped: u64,
}

impl<P: Pieces> Backward<P> {
    /// Reads lines before the position of `pieces`, which must be the start of a line or the end of the file.
    fn new(pieces: P, piece: usize) -> Backward<P> {
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

    #[inline]
    fn line(&self) -> &[u8] {
        trimmed(&self.buffer[self.line.clone()])
    }

    #[inline]
    async fn next(&mut self) -> Result<bool, SourceError> {
        loop {
            let text = &self.buffer[..self.end];
            if self.skipping {
                if let Some(feed) = memchr::memrchr(b'\n', text) {
                    self.end = feed + 1;
                    self.skipping = false;
                    continue;
                }
                self.end = 0;
            } else if let [.., last] = text {
                let stop = self.end - usize::from(*last == b'\n');
                let line = &text[..stop];
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
            self.more().await?;
        }
    }

    async fn more(&mut self) -> Result<(), SourceError> {
        let mut buffer = Vec::with_capacity(self.piece + self.end);
        self.all = !self.pieces.before(self.piece, &mut buffer).await?;
        let before = buffer.len();
        buffer.extend_from_slice(&self.buffer[..self.end]);
        self.end += before;
        self.buffer = buffer;
        self.line = 0..0;
        self.piece = (self.piece * 2).min(MAX_PIECE);
        Ok(())
    }
}
