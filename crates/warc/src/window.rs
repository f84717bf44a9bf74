//! Bytes on their way from where they come from to where they are used.

use std::io::{self, Read};

/// Number of bytes read or unpacked at once.
const STEP: usize = 64 * 1024;

/// Bytes that came and were not used yet. There is room for more of them whenever it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    used: u64,
}

impl Window {
    /// What is there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// How many bytes were used, ever since.
    pub(crate) fn position(&self) -> u64 {
        self.used
    }

    /// Notes that the first bytes are used.
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
        self.used += bytes as u64;
    }

    /// Where the next bytes go; then [`Window::grow`] says how many came.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.buffer.len() == self.end {
            self.buffer.resize(self.end + STEP, 0);
        }
        self.buffer.get_mut(self.end..).unwrap_or_default()
    }

    /// Notes that so many bytes have come.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Reads more, and tells how much: 0 at the end of the input.
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
