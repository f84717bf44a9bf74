//! Receivers of decoded strings.

use std::ops::DerefMut;

use smallvec::{Array, SmallVec};

use super::MAX_BYTES;
use super::bits::Bits;
use super::runs::{self, Alphabet};

/// Receives a decoded string, part by part. Each method returns `None` if the string becomes too
/// long.
pub trait TextSink {
    /// Appends bytes.
    fn push(&mut self, bytes: &[u8]) -> Option<()>;
    /// Appends the first `len` bytes. This is faster than `push`, because the maximum length is
    /// known at compile time.
    fn push_some<const N: usize>(&mut self, bytes: &[u8; N], len: usize) -> Option<()>;
    /// Appends a run.
    fn push_run(&mut self, alphabet: Alphabet, len: usize, bits: &mut Bits<'_>) -> Option<()>;
}

/// Computes the length of a string without storing it, to check that the string can be decoded.
#[derive(Default)]
pub struct Length(pub usize);

impl TextSink for Length {
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.0 += bytes.len();
        (self.0 <= MAX_BYTES).then_some(())
    }

    #[inline]
    fn push_some<const N: usize>(&mut self, _: &[u8; N], len: usize) -> Option<()> {
        self.0 += len;
        (self.0 <= MAX_BYTES).then_some(())
    }

    #[inline]
    fn push_run(&mut self, alphabet: Alphabet, len: usize, bits: &mut Bits<'_>) -> Option<()> {
        let mut run = [0; runs::MAX_BYTES];
        alphabet.read(bits, run.get_mut(..len)?)?;
        self.0 += len;
        (self.0 <= MAX_BYTES).then_some(())
    }
}

/// A byte vector that can be extended with zero bytes.
pub trait Buffer: DerefMut<Target = [u8]> {
    fn append(&mut self, bytes: &[u8]);
    /// Appends zero bytes until the vector has this length.
    fn extend_to(&mut self, len: usize);
    fn shorten(&mut self, len: usize);
}

impl Buffer for Vec<u8> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn extend_to(&mut self, len: usize) {
        self.resize(len, 0);
    }

    fn shorten(&mut self, len: usize) {
        self.truncate(len);
    }
}

impl<A: Array<Item = u8>> Buffer for SmallVec<A> {
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn extend_to(&mut self, len: usize) {
        self.resize(len, 0);
    }

    fn shorten(&mut self, len: usize) {
        self.truncate(len);
    }
}

/// A string that is appended to a buffer.
pub struct Text<'a, B> {
    /// The buffer, with spare room at its end.
    out: &'a mut B,
    /// Length of the buffer without the spare room.
    len: usize,
    /// Position at which the string begins.
    start: usize,
}

/// Initial space in bytes for a string, which is enough for most strings.
const ROOM: usize = 128;

impl<'a, B: Buffer> Text<'a, B> {
    /// Creates a string that is appended to `out`.
    pub fn new(out: &'a mut B) -> Text<'a, B> {
        let len = out.len();
        // Use `append`, because `extend_to` would write one byte at a time.
        out.append(&[0; ROOM]);
        Text {
            out,
            start: len,
            len,
        }
    }

    /// Removes the spare room, and returns the length of the string.
    pub fn finish(self) -> usize {
        self.out.shorten(self.len);
        self.len - self.start
    }

    /// Returns space for the next bytes. [`Text::advance`] appends them.
    #[inline]
    pub fn room(&mut self, bytes: usize) -> Option<&mut [u8]> {
        if self.len + bytes > self.out.len() {
            self.grow(bytes)?;
        }
        self.out.get_mut(self.len..self.len + bytes)
    }

    /// Appends bytes that the caller wrote into the space.
    #[inline]
    pub fn advance(&mut self, bytes: usize) {
        self.len += bytes;
    }

    #[cold]
    fn grow(&mut self, bytes: usize) -> Option<()> {
        let len = 2 * self.len + bytes;
        (self.len - self.start <= MAX_BYTES).then(|| self.out.extend_to(len))
    }
}

impl<B: Buffer> TextSink for Text<'_, B> {
    #[inline]
    fn push(&mut self, bytes: &[u8]) -> Option<()> {
        self.room(bytes.len())?.copy_from_slice(bytes);
        self.len += bytes.len();
        Some(())
    }

    #[inline]
    fn push_some<const N: usize>(&mut self, bytes: &[u8; N], len: usize) -> Option<()> {
        self.room(N)?.copy_from_slice(bytes);
        self.len += len;
        Some(())
    }

    fn push_run(&mut self, alphabet: Alphabet, len: usize, bits: &mut Bits<'_>) -> Option<()> {
        alphabet.read(bits, self.room(len)?)?;
        self.len += len;
        Some(())
    }
}
