//! Reading what a chunk is made of.

use super::Wrong;

pub(super) const TRUNCATED: &str = "is truncated";

/// Reads the parts of a chunk in turn.
pub(in crate::dedupe::packed) struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Wrong> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or(TRUNCATED)?;
        self.rest = rest;
        Ok(taken)
    }

    pub fn number(&mut self) -> Result<u64, Wrong> {
        let wrong = || Wrong::from("has a malformed number");
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or_else(wrong)?;
            self.rest = rest;
            let bits = u64::from(byte & 0x7f);
            // Bits beyond the 64th, or a last byte that says nothing.
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(wrong());
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(wrong())
    }

    /// Length and bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Wrong> {
        let len = usize::try_from(self.number()?).map_err(|_| TRUNCATED)?;
        self.take(len)
    }

    pub fn end(&self) -> Result<(), Wrong> {
        match self.rest {
            [] => Ok(()),
            _ => Err("has bytes behind its end".into()),
        }
    }
}
