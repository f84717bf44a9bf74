use std::io::{self, BufRead, Read};

use super::http;
use super::reader::Reader;
use super::{Error, Extent, Header, Problem};

/// Maximum length of an HTTP header returned by [`Record::http_head`], in bytes.
pub const MAX_HTTP_HEAD: usize = 64 * 1024;

/// A record that is being read. The block of the record is read through [`Read`], completely or in
/// part.
pub struct Record<'r, R> {
    pub(super) reader: &'r mut Reader<R>,
    pub(super) header: Header,
}

impl<R: Read> Record<'_, R> {
    /// Returns the header of the record.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the offset of the record in the file, in bytes.
    pub fn offset(&self) -> u64 {
        self.reader.offset()
    }

    /// Creates an error about this record, for callers with requirements beyond the standard.
    pub fn error(&self, problem: Problem) -> Error {
        self.reader.error(problem)
    }

    /// Reads the status line and the header fields at the start of the block of a `response`, including the
    /// empty line after them. If there is no empty line, returns the start of the block, up to
    /// [`MAX_HTTP_HEAD`] bytes.
    ///
    /// # Errors
    /// Fails when the file is truncated or damaged.
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

    /// Returns true if the record is from an ARC file.
    pub fn is_arc(&self) -> bool {
        self.reader.is_arc()
    }

    /// Passes the unread rest of the block to `each`, piece by piece.
    ///
    /// # Errors
    /// Fails when the file is truncated or damaged.
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

    /// Skips the rest of the record and returns its position. Only this call verifies that the record is
    /// complete.
    ///
    /// # Errors
    /// Fails when the record is truncated or damaged, or does not end where it should.
    pub fn finish(self) -> Result<Extent, Error> {
        self.reader.finish()
    }

    /// Does the same as [`Record::finish`], and also returns the header.
    ///
    /// # Errors
    /// Fails with the errors of [`Record::finish`].
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
