//! Lines of text that comes piece by piece, in both directions.

use std::ops::Range;
use std::path::Path;

use crate::lines::MAX_LINE;
use crate::sorted::file::Snapshot;
use crate::sorted::line::trimmed;
use crate::source::SourceError;

/// Maximum size of a read, in bytes.
const MAX_PIECE: usize = 256 << 10;

/// Text, and a position in it.
pub(crate) trait Pieces: Send {
    /// The file that it is of; of a cluster, its secondary index.
    fn path(&self) -> &Path;

    /// Appends what comes next, some `bytes` of it. False at the end.
    fn after(
        &mut self,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, SourceError>> + Send;

    /// Appends what comes before, some `bytes` of it. False at the beginning.
    fn before(
        &mut self,
        bytes: usize,
        into: &mut Vec<u8>,
    ) -> impl Future<Output = Result<bool, SourceError>> + Send;
}

/// A file up to some offset in it.
#[derive(Debug)]
pub(crate) struct Stretch {
    file: Snapshot,
    at: u64,
    end: u64,
}

impl Stretch {
    /// A file from there on.
    pub(crate) fn of(file: Snapshot, at: u64) -> Stretch {
        let end = file.size();
        Stretch {
            at: at.min(end),
            end,
            file,
        }
    }

    /// As if the file had no more than so many bytes.
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
                // It has become shorter.
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

/// Which line comes next.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    Forward,
    Backward,
}

impl<P: Pieces> Lines<P> {
    /// Lines from the position of `pieces` on, or before it; `piece` bytes are read at first.
    pub(crate) fn of(pieces: P, direction: Direction, piece: usize) -> Lines<P> {
        match direction {
            Direction::Forward => Lines::Forward(Forward::new(pieces, piece)),
            Direction::Backward => Lines::Backward(Backward::new(pieces, piece)),
        }
    }

    /// The line that was found last, without its end.
    #[inline]
    pub(crate) fn line(&self) -> &[u8] {
        match self {
            Lines::Forward(lines) => lines.line(),
            Lines::Backward(lines) => lines.line(),
        }
    }

    /// Returns whether a blank follows the line that was found last.
    pub(crate) fn is_marked(&self) -> bool {
        let (buffer, line) = match self {
            Lines::Forward(lines) => (&lines.buffer, &lines.line),
            Lines::Backward(lines) => (&lines.buffer, &lines.line),
        };
        buffer
            .get(line.clone())
            .is_some_and(|line| line.ends_with(b" "))
    }

    /// Continues to the next line; false at the end.
    #[inline]
    pub(crate) async fn next(&mut self) -> Result<bool, SourceError> {
        match self {
            Lines::Forward(lines) => lines.next().await,
            Lines::Backward(lines) => lines.next().await,
        }
    }

    /// The file that they are of.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Lines::Forward(lines) => lines.pieces.path(),
            Lines::Backward(lines) => lines.pieces.path(),
        }
    }

    /// How many lines too long there were so far.
    pub(crate) fn skipped(&self) -> u64 {
        match self {
            Lines::Forward(lines) => lines.skipped,
            Lines::Backward(lines) => lines.skipped,
        }
    }
}

/// Lines from an offset on. Memory: a piece and a line.
#[derive(Debug)]
pub(crate) struct Forward<P> {
    pieces: P,
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

impl<P: Pieces> Forward<P> {
    /// Lines from the position of `pieces` on, which is the beginning of one.
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

    /// Lines that begin after the position of `pieces`.
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

    /// Returns the text that was read, from the line that was found last on.
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

    /// Reads a piece. What was done with is gone then.
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
    /// Where in the file the line that was found last begins.
    pub(crate) fn offset(&self) -> u64 {
        let after = self.buffer.len().saturating_sub(self.line.start);
        self.pieces.at.saturating_sub(after as u64)
    }
}

/// Lines before an offset, the last one first. Memory: a piece and a line.
#[derive(Debug)]
pub(crate) struct Backward<P> {
    pieces: P,
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

impl<P: Pieces> Backward<P> {
    /// Lines before the position of `pieces`, which is the beginning of one, or the end of the file.
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
