//! Growable byte buffers.

use smallvec::{Array, SmallVec};

/// A byte buffer that grows at its end.
pub trait Sink {
    /// Appends a byte.
    fn put_byte(&mut self, byte: u8);
    /// Appends bytes.
    fn put_slice(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put_byte(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn put_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<A: Array<Item = u8>> Sink for SmallVec<A> {
    #[inline]
    fn put_byte(&mut self, byte: u8) {
        self.push(byte);
    }

    #[inline]
    fn put_slice(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
