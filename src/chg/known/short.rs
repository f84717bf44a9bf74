//! Short byte strings that are copied instead of allocated.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::ops::Deref;

/// A byte string of at most `MAX` bytes, which must be below 256.
#[derive(Clone, Copy, Debug)]
pub struct Short<const MAX: usize> {
    bytes: [u8; MAX],
    len: u8,
}

impl<const MAX: usize> Short<MAX> {
    /// Creates a string from the first `len` bytes of an array.
    pub fn new(bytes: [u8; MAX], len: usize) -> Short<MAX> {
        Short {
            bytes,
            len: len.min(MAX) as u8,
        }
    }

    /// Copies bytes.
    ///
    /// # Panics
    /// Panics if there are more than `MAX` bytes.
    pub fn of(bytes: &[u8]) -> Short<MAX> {
        let mut short = Short::new([0; MAX], bytes.len());
        short.bytes[..bytes.len()].copy_from_slice(bytes);
        short
    }
}

impl<const MAX: usize> Deref for Short<MAX> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl<const MAX: usize> Borrow<[u8]> for Short<MAX> {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl<const MAX: usize> PartialEq for Short<MAX> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<const MAX: usize> Eq for Short<MAX> {}

impl<const MAX: usize> Ord for Short<MAX> {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl<const MAX: usize> PartialOrd for Short<MAX> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
