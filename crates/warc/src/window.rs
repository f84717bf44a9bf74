//! Read buffer between a source of bytes and their consumer.

use std::io::{self, Read};

/// Number of bytes read or decompressed at a time.
const STEP: usize = 64 * 1024;

/// Bytes received but not yet consumed, with room for more on demand.
#[derive(Debug, Default)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    used: u64,
}

impl Window {
    /// Returns the available bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Returns the total number of bytes consumed.
    pub(crate) fn position(&self) -> u64 {
        self.used
    }

    /// Marks the first bytes as consumed.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.used += bytes as u64;
    }

    /// Returns the free space. After writing to it, call [`Window::grow`] with the number of bytes
    /// written.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() == self.end {
            self.buffer.resize(self.end + STEP, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Adds bytes that were written to [`Window::room`].
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Reads more bytes, and returns their number: 0 at the end of the input.
    pub(crate) fn fill(&mut self, input: &mut impl Read) -> io::Result<usize> {
        loop {
            match input.read(self.room()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(bytes) => {
                    self.grow(bytes);
                    return Ok(bytes);
                }
                Err(error) => return Err(error),
            }
        }
    }
}
