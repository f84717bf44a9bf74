use std::io::{self, BufRead, Read};

use super::http;
use super::reader::Reader;
use super::{Error, Extent, Header, Problem};

/// Maximum length of an HTTP header that [`Record::http_head`] gives, in bytes.
pub const MAX_HTTP_HEAD: usize = 64 * 1024;

/// A record that is being read. Its block is read through [`Read`], as much of it as is wanted.
pub struct Record<'r, R> {
    pub(super) reader: &'r mut Reader<R>,
    pub(super) header: Header,
}

impl<R: Read> Record<'_, R> {
    /// The record's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where the record begins in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
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
        loop {
            let before = head.len();
            let bytes = self.reader.block()?;
            let most = bytes.len().min(MAX_HTTP_HEAD - before);
            head.extend_from_slice(&bytes[..most]);
            let end = http::end_of_head(&head);
            head.truncate(end.unwrap_or(head.len()));
            let taken = head.len() - before;
            self.reader.take(taken);
            if end.is_some() || taken == 0 {
                return Ok(head);
            }
        }
    }

    /// Returns whether it is a record of an ARC file.
    pub fn is_arc(&self) -> bool {
        self.reader.is_arc()
    }

    /// Gives what was not read of the block, piece by piece.
    ///
    /// # Errors
    /// When the file ends before, or is damaged.
    pub fn for_each_piece(&mut self, mut each: impl FnMut(&[u8])) -> Result<(), Error> {
        loop {
            let piece = self.reader.block()?;
            if piece.is_empty() {
                return Ok(());
            }
            each(piece);
            let size = piece.len();
            self.reader.take(size);
        }
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

impl<R: Read> Read for Record<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(into)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: Read> BufRead for Record<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.reader.block().map_err(io::Error::other)
    }

    fn consume(&mut self, n: usize) {
        self.reader.take(n);
    }
}
