//! Variable-length integers (LEB128): 7 bits per byte, lowest bits first; all bytes but the last
//! have the highest bit set. The shortest encoding is mandatory.
//!
//! Each number has exactly one encoding. Numbers with more than 64 bits, with unnecessary bytes, or
//! with missing bytes are errors.

use std::borrow::Cow;

use crate::sink::Sink;

/// Maximum size of a number in bytes.
pub const MAX_BYTES: usize = 10;

/// Appends a number.
#[inline]
pub fn put(out: &mut impl Sink, mut n: u64) {
    while n >= 0x80 {
        out.put_byte(n as u8 | 0x80);
        n >>= 7;
    }
    out.put_byte(n as u8);
}

/// Appends the number of bytes, followed by the bytes.
pub fn put_bytes(out: &mut impl Sink, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.put_slice(bytes);
}

/// An error about malformed bytes. The message is a predicate that completes a sentence, as in *the
/// log is truncated*.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl Malformed {
    /// Input that ends in the middle of a value.
    pub const TRUNCATED: Malformed = Malformed("is truncated");
    /// A number that is not in its shortest encoding, or is above its limit.
    pub const NUMBER: Malformed = Malformed("has a malformed number");
}

impl From<Malformed> for Cow<'static, str> {
    fn from(Malformed(what): Malformed) -> Self {
        Cow::Borrowed(what)
    }
}

/// Reads values from bytes, in order.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Creates a reader at the first byte.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// Creates a reader at an offset, which is at most the number of bytes.
    pub fn from(bytes: &'a [u8], at: usize) -> Reader<'a> {
        Reader { bytes, at }
    }

    /// Returns the offset of the next byte.
    #[inline]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns all bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Returns true if all bytes have been read.
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads the next byte.
    ///
    /// # Errors
    /// Fails at the end of the input.
    #[inline]
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed::TRUNCATED)?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads the next `len` bytes.
    ///
    /// # Errors
    /// Fails when fewer bytes are left.
    #[inline]
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let end = self.at.checked_add(len).ok_or(Malformed::TRUNCATED)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed::TRUNCATED)?;
        self.at = end;
        Ok(taken)
    }

    /// Reads the next `N` bytes as an array, for numbers of fixed size.
    ///
    /// # Errors
    /// Fails when fewer bytes are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let taken = self.take(N)?;
        Ok(taken
            .try_into()
            .expect("`take` returns the requested number of bytes"))
    }

    /// Reads the next number.
    ///
    /// # Errors
    /// Fails when the number is malformed or truncated.
    #[inline]
    pub fn number(&mut self) -> Result<u64, Malformed> {
        match self.bytes.get(self.at) {
            Some(&byte @ ..0x80) => {
                self.at += 1;
                Ok(byte.into())
            }
            _ => self.long_number(),
        }
    }

    fn long_number(&mut self) -> Result<u64, Malformed> {
        let rest = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk);
        let word = rest.map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes));
        // The highest bit of each byte that may be the last one.
        let ends = !word & 0x8080_8080_8080_8080;
        if ends == 0 {
            return self.longest_number();
        }
        // All bytes of the number at once: first remove the highest bit of each byte, then the gaps
        // between pairs of bytes, and so on.
        let bits = ends.trailing_zeros();
        let word = word & (u64::MAX >> (63 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
        if word >> (bits - 7) == 0 && bits > 7 {
            return Err(Malformed::NUMBER);
        }
        self.at += bits as usize / 8 + 1;
        let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
        let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
        Ok(word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4)
    }

    /// Reads a number byte by byte: a number of more than eight bytes, or one near the end.
    fn longest_number(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The number has bits beyond the 64th, or an unnecessary last byte.
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(Malformed::NUMBER);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed::NUMBER)
    }

    /// Reads the next number, which must be at most `most`.
    ///
    /// # Errors
    /// Fails when the number is larger, malformed or truncated.
    #[inline]
    pub fn number_to(&mut self, most: u64) -> Result<u64, Malformed> {
        let number = self.number()?;
        if number <= most {
            Ok(number)
        } else {
            Err(Malformed::NUMBER)
        }
    }

    /// Reads bytes that are preceded by their length.
    ///
    /// # Errors
    /// Fails when fewer bytes are left, or the length is malformed.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.number()?).map_err(|_| Malformed::TRUNCATED)?;
        self.take(len)
    }

    /// Reads bytes that are preceded by their length, at least one and at most `most` bytes.
    ///
    /// # Errors
    ///
    /// Fails when fewer bytes are left, or the length is malformed or out of range.
    pub fn text(&mut self, most: usize) -> Result<&'a [u8], Malformed> {
        match self.number_to(most as u64)? {
            0 => Err(Malformed("has an empty string")),
            len => self.take(len as usize),
        }
    }

    /// Checks that all bytes have been read.
    ///
    /// # Errors
    /// Fails when bytes are left.
    pub fn end(&self) -> Result<(), Malformed> {
        if self.is_empty() {
            Ok(())
        } else {
            Err(Malformed("has extra bytes after its end"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(n: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, n);
        bytes
    }

    #[test]
    fn numbers_have_64_bits_and_one_form() {
        let most = [&[0xff; 9][..], &[1]].concat();
        for (bytes, n) in [
            (&[0][..], 0),
            (&[0x7f], 127),
            (&[0x80, 1], 128),
            (&most, u64::MAX),
        ] {
            assert_eq!(Reader::new(bytes).number(), Ok(n));
            assert_eq!(encoded(n), bytes);
        }
        for bad in [
            // The number has bits beyond the 64th.
            [&[0xff; 9][..], &[2]].concat(),
            [&[0xff; 9][..], &[0x7f]].concat(),
            [&[0x80; 9][..], &[0x42]].concat(),
            [&[0xff; 10][..], &[0]].concat(),
            // The number has unnecessary bytes.
            vec![0x80, 0],
            vec![0xff, 0x80, 0],
            [&[0xff; 9][..], &[0]].concat(),
        ] {
            assert_eq!(
                Reader::new(&bad).number(),
                Err(Malformed::NUMBER),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn limits_are_enforced() {
        assert_eq!(Reader::new(&[5]).number_to(5), Ok(5));
        assert_eq!(Reader::new(&[6]).number_to(5), Err(Malformed::NUMBER));
        assert_eq!(Reader::new(&[2, b'a', b'b']).text(2), Ok(&b"ab"[..]));
        for bad in [&[3, b'a', b'b', b'c'][..], &[0], &[2, b'a'], &[]] {
            assert!(Reader::new(bad).text(2).is_err(), "{bad:?}");
        }
        assert!(Reader::new(&encoded(u64::MAX)).bytes().is_err());
        assert!(Reader::new(&[0]).end().is_err());
    }

    proptest! {
        #[test]
        fn number_reads_back(n in any::<u64>(), bits in 0..64u32, more in any::<Vec<u8>>()) {
            let n = n >> bits;
            let mut bytes = encoded(n);
            prop_assert!(bytes.len() <= MAX_BYTES);
            for len in 0..bytes.len() {
                prop_assert_eq!(Reader::new(&bytes[..len]).number(), Err(Malformed::TRUNCATED));
            }
            bytes.extend(&more);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.number(), Ok(n));
            prop_assert_eq!(reader.rest(), &more[..]);
        }

        #[test]
        fn parsed_number_has_no_other_form(bytes in proptest::collection::vec(prop_oneof![0x7e..0x82u8, any::<u8>()], 0..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(n) = reader.number() {
                prop_assert_eq!(encoded(n), &bytes[..reader.at()]);
            }
        }
    }
}
