//! Bit streams in bytes, lowest bit first.

/// Minimum number of valid bits that [`Bits::peek`] returns, unless fewer bits are left.
pub const PEEK: u32 = 57;

/// Appends bits to a vector of bytes.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    bits: u64,
    count: u32,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer {
            out,
            bits: 0,
            count: 0,
        }
    }

    /// Appends the lowest `count` bits of a number, at most 32. Higher bits must be 0.
    #[inline]
    pub fn put(&mut self, bits: u32, count: u32) {
        self.bits |= u64::from(bits) << self.count;
        self.count += count;
        if self.count >= 32 {
            self.out
                .extend_from_slice(&(self.bits as u32).to_le_bytes());
            self.bits >>= 32;
            self.count -= 32;
        }
    }

    /// Appends the lowest `count` bits of a number, at most 64. Higher bits must be 0.
    #[inline]
    pub fn put_long(&mut self, bits: u64, count: u32) {
        self.put(bits as u32, count.min(32));
        if count > 32 {
            self.put((bits >> 32) as u32, count - 32);
        }
    }

    /// Fills the last byte with ones.
    pub fn finish(self) {
        let bytes = self.count.div_ceil(8) as usize;
        let bits = self.bits | u64::MAX << self.count;
        self.out.extend_from_slice(&bits.to_le_bytes()[..bytes]);
    }
}

/// Reads bits from bytes.
#[derive(Clone, Copy)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Bits<'a> {
    /// Creates a reader of the first `len` bytes. `peek` may look at later bytes, but no call
    /// consumes them.
    pub fn new(bytes: &'a [u8], len: usize) -> Bits<'a> {
        Bits {
            bytes,
            at: 0,
            end: len * 8,
        }
    }

    /// Returns the number of bits left.
    pub fn left(&self) -> usize {
        self.end - self.at
    }

    /// Returns the next bits without consuming them. Bits after the end are arbitrary.
    #[inline]
    pub fn peek(&self) -> u64 {
        let (from, shift) = (self.at / 8, self.at % 8);
        let word = match self.bytes.get(from..from + 8) {
            Some(word) => u64::from_le_bytes(word.try_into().expect("eight bytes")),
            None => self.last(from),
        };
        word >> shift
    }

    #[cold]
    fn last(&self, from: usize) -> u64 {
        let mut word = [0; 8];
        let rest = self.bytes.get(from..).unwrap_or_default();
        word[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
        u64::from_le_bytes(word)
    }

    /// Consumes this number of bits. If fewer bits are left, consumes nothing and returns false.
    #[must_use]
    #[inline]
    pub fn skip(&mut self, count: u32) -> bool {
        let is_there = count as usize <= self.left();
        if is_there {
            self.at += count as usize;
        }
        is_there
    }

    /// Returns and consumes the next bits, at most [`PEEK`].
    #[inline]
    pub fn take(&mut self, count: u32) -> Option<u64> {
        let bits = self.peek() & ((1 << count) - 1);
        self.skip(count).then_some(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_round_trip(numbers in proptest::collection::vec((any::<u64>(), 0..=PEEK), 0..50)) {
            let mut out = Vec::new();
            let mut writer = Writer::new(&mut out);
            let numbers: Vec<_> = numbers.into_iter().map(|(n, count)| (n & ((1 << count) - 1), count)).collect();
            for &(n, count) in &numbers {
                writer.put_long(n, count);
            }
            writer.finish();
            let total: u32 = numbers.iter().map(|(_, count)| count).sum();
            prop_assert_eq!(out.len(), total.div_ceil(8) as usize);
            let mut bits = Bits::new(&out, out.len());
            for &(n, count) in &numbers {
                prop_assert_eq!(bits.take(count), Some(n));
            }
            let left = bits.left() as u32;
            prop_assert!(left < 8);
            prop_assert_eq!(bits.take(left + 1), None);
            prop_assert_eq!(bits.take(left), Some((1 << left) - 1));
        }
    }
}
