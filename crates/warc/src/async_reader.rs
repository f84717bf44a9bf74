//! Async reader of one record from a stream of bytes.

use std::future::Future;

use bytes::{Buf, Bytes};

use super::gunzip::{Gunzip, MAGIC};
use super::parser::LOOK;
use super::{After, Deviations, END, Ending, Header, Parser, Problem};

/// Number of bytes read at a time while parsing a header.
const STEP: usize = 16 * 1024;

/// An async source of bytes.
pub trait Source: Send {
    /// Error of the source. The type must be able to represent invalid records.
    type Error: From<Problem>;

    /// Returns the next bytes, which are empty at the end of the source.
    ///
    /// # Errors
    /// Fails when the bytes cannot be read.
    fn more(&mut self) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;

    /// Returns true if the source ended because the requested range ended, which means that the file may
    /// continue.
    fn is_end_of_range(&self) -> bool {
        false
    }
}

/// Reads one record into buffers of the caller, decompressing a gzip member. The reader may read beyond
/// the end of the record.
pub struct AsyncReader<S> {
    source: S,
    /// Bytes received but not yet consumed.
    packed: Bytes,
    /// True if the record is a gzip member; `None` before the first byte.
    is_packed: Option<bool>,
    after: After,
    gunzip: Gunzip,
    parser: Parser,
}

impl<S: Source> AsyncReader<S> {
    /// Creates a reader at the start of a record.
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

    /// Returns true if the record is from an ARC file; valid once its header was read.
    pub fn is_arc(&self) -> bool {
        self.parser.is_arc()
    }

    /// Returns the bytes that terminate a record of this format.
    pub fn closing(&self) -> &'static [u8] {
        if self.is_arc() { b"\n" } else { END }
    }

    /// Reads the header, and returns it with its length in bytes. Appends all bytes that were read to
    /// `bytes`, which must be empty: the header, and possibly the start of the block.
    ///
    /// # Errors
    /// [`Problem::Empty`] for an empty input; an error when the input does not begin with a valid
    /// record, or the source fails.
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

    /// Appends up to `most` bytes, and returns their number: 0 at the end of the input.
    ///
    /// # Errors
    /// Fails when the source fails, or the gzip member is damaged or truncated.
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
                self.after = if self.source.is_end_of_range() {
                    After::Range
                } else {
                    After::File
                };
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

    /// Determines the end of the record. `tail` holds the bytes read after the block of the record.
    ///
    /// # Errors
    /// Fails when the record does not end near the end of its block, or the gzip member is damaged.
    pub async fn end(&mut self, tail: &mut Vec<u8>) -> Result<Ending, S::Error> {
        self.parser.block(usize::MAX);
        loop {
            if let Some(ending) = self.parser.end(tail, self.after)? {
                return Ok(ending);
            }
            self.read(tail, LOOK).await?;
        }
    }

    /// Returns true if a complete gzip member was read, which means that its record is complete.
    pub fn is_whole_member(&self) -> bool {
        self.after == After::Member
    }

    /// Returns the deviations from the standard in the part of the record that was read so far.
    pub fn deviations(&self) -> Deviations {
        self.parser.deviations()
    }

    /// Returns the error for an input that ends before the block is complete.
    pub fn cut_off(&self) -> Problem {
        self.parser.cut_off(self.after)
    }
}
