//! One record whose bytes come one after the other, for a task that others wait beside.

use std::future::Future;

use bytes::{Buf, Bytes};

use super::gunzip::{Gunzip, MAGIC};
use super::parser::LOOK;
use super::{After, Deviations, END, Ending, Header, Parser, Problem};

/// Number of bytes read at once while a header is looked for.
const STEP: usize = 16 * 1024;

/// Bytes that come one after the other.
pub trait Source: Send {
    /// Why they do not come, or what is wrong with the record.
    type Error: From<Problem>;

    /// The next bytes; none at the end.
    ///
    /// # Errors
    /// When they cannot be had.
    fn more(&mut self) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;
}

/// Reads one record, unpacked when it is a gzip member, into buffers of its caller. What follows it may be read, too.
pub struct AsyncReader<S> {
    source: S,
    /// What came and was not used yet.
    packed: Bytes,
    /// Whether it is a gzip member; `None` before the first byte.
    is_packed: Option<bool>,
    after: After,
    gunzip: Gunzip,
    parser: Parser,
}

impl<S: Source> AsyncReader<S> {
    /// Reads from there, where a record begins.
    pub fn new(source: S) -> AsyncReader<S> {
        AsyncReader {
            source,
            packed: Bytes::new(),
            is_packed: None,
            after: After::More,
            gunzip: Gunzip::default(),
            parser: Parser::of_record(),
        }
    }

    /// Whether the record is one of an ARC file, once its header was read.
    pub fn is_arc(&self) -> bool {
        self.parser.is_arc()
    }

    /// Returns what closes a record of its kind.
    pub fn closing(&self) -> &'static [u8] {
        if self.is_arc() { b"\n" } else { END }
    }

    /// Reads the header, and tells how long it is. All that was read is appended to `bytes`, which is empty: the
    /// header, and what came with it.
    ///
    /// # Errors
    /// [`Problem::Empty`] when there is nothing; when no valid record begins there, or the bytes cannot be had.
    pub async fn header(&mut self, bytes: &mut Vec<u8>) -> Result<(Header, usize), S::Error> {
        loop {
            if self.read(bytes, STEP).await? == 0 && bytes.is_empty() {
                return Err(Problem::Empty.into());
            }
            if let Some(found) = self.parser.header(bytes, self.after)? {
                return Ok(found);
            }
        }
    }

    /// Appends what comes, `most` bytes at most, and gives their number: 0 when there are no more.
    ///
    /// # Errors
    /// When they cannot be had, or the gzip member is damaged or cut off.
    pub async fn read(&mut self, into: &mut Vec<u8>, most: usize) -> Result<usize, S::Error> {
        while most > 0 && self.after == After::More {
            self.gunzip.check()?;
            if self.packed.is_empty() {
                self.packed = self.source.more().await?;
            }
            let Some(&first) = self.packed.first() else {
                if self.gunzip.is_open() {
                    return Err(Problem::Truncated.into());
                }
                self.after = After::File;
                break;
            };
            if !*self.is_packed.get_or_insert(first == MAGIC) {
                let bytes = self.packed.split_to(self.packed.len().min(most));
                into.extend_from_slice(&bytes);
                return Ok(bytes.len());
            }
            let step = self.gunzip.append(&self.packed, into, most)?;
            self.packed.advance(step.read);
            if step.is_end {
                self.after = After::Member;
            }
            if step.written > 0 {
                return Ok(step.written);
            }
        }
        Ok(0)
    }

    /// Tells where the record ends. `tail` is what was read after its block.
    ///
    /// # Errors
    /// When it does not end near the end of its block, or the gzip member is damaged.
    pub async fn end(&mut self, tail: &mut Vec<u8>) -> Result<Ending, S::Error> {
        self.parser.block(usize::MAX);
        loop {
            if let Some(ending) = self.parser.end(tail, self.after)? {
                return Ok(ending);
            }
            self.read(tail, LOOK).await?;
        }
    }

    /// Returns whether all of a gzip member was read, so that nothing is missing of its record.
    pub fn is_whole_member(&self) -> bool {
        self.after == After::Member
    }

    /// Returns how the record deviates from the standard, as far as it was read.
    pub fn deviations(&self) -> Deviations {
        self.parser.deviations()
    }

    /// The problem when nothing comes although the block is not complete.
    pub fn cut_off(&self) -> Problem {
        self.parser.cut_off(self.after)
    }
}
