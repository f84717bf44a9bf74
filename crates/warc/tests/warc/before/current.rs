use std::io::{self, BufRead, Read};

use super::reader::Reader;
use super::{Error, Extent, Header, Problem, problem};

/// Maximum length of an HTTP header that [`Record::http_head`] gives, in bytes.
pub const MAX_HTTP_HEAD: usize = 64 * 1024;

/// A record that is being read. Its block is read through [`Read`], as much of it as is wanted.
pub struct Record<'r, R: BufRead> {
    pub(super) reader: &'r mut Reader<R>,
    pub(super) header: Header,
}

impl<R: BufRead> Record<'_, R> {
    /// The record's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the record begins in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.reader.offset
    }

    /// An error about this record, for a caller who asks more of it than the standard does.
    pub fn error(&self, problem: Problem) -> Error {
        self.reader.error(problem)
    }

    /// Reads the status line and the header fields that the block of a `response` begins with, the empty
    /// line after them included; or, where none comes, what there is, up to [`MAX_HTTP_HEAD`] bytes.
    ///
    /// # Errors
    /// When the file ends before, or is damaged.
    pub fn http_head(&mut self) -> Result<Vec<u8>, Error> {
        let mut head = Vec::new();
        let mut byte = [0];
        while head.len() < MAX_HTTP_HEAD && self.reader.read_block(&mut byte)? == 1 {
            head.push(byte[0]);
            if head.ends_with(b"\r\n\r\n") || head.ends_with(b"\n\n") {
                break;
            }
        }
        Ok(head)
    }

    /// Skips the rest of the record and tells where it lies. Only this makes sure that the record is whole.
    ///
    /// # Errors
    /// When the record is cut off or damaged, or does not end where it should.
    pub fn finish(self) -> Result<Extent, Error> {
        self.reader.finish()
    }

    /// Does what [`Record::finish`] does, and keeps the header.
    ///
    /// # Errors
    /// Those of [`Record::finish`].
    pub fn into_header(self) -> Result<(Header, Extent), Error> {
        let extent = self.reader.finish()?;
        Ok((self.header, extent))
    }
}

impl<R: BufRead> Read for Record<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.read_block(into).map_err(io::Error::other)
    }
}

impl<R: BufRead> BufRead for Record<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let remaining = self.reader.remaining.unwrap_or(0);
        if remaining == 0 {
            return Ok(&[]);
        }
        match self.reader.input.fill_buf() {
            Ok([]) => return Err(io::Error::other(self.reader.cut_off())),
            Ok(_) => {}
            Err(error) => return Err(io::Error::other(self.reader.error(problem(error)))),
        }
        // What is there is given again without reading.
        let here = self.reader.input.fill_buf()?;
        let most = usize::try_from(remaining).unwrap_or(usize::MAX);
        Ok(&here[..here.len().min(most)])
    }

    fn consume(&mut self, n: usize) {
        let remaining = self.reader.remaining.unwrap_or(0);
        self.reader.remaining = Some(remaining.saturating_sub(n as u64));
        self.reader.input.consume(n);
    }
}
