//! Splits lines into fields at white space.

use memchr::memchr;

/// The fields of a line from left to right, as bytes: a field that is not UTF-8 does not affect the others.
pub struct Fields<'a> {
    rest: &'a [u8],
    /// True if spaces are the only white space, which is the usual case and allows a vectorised search.
    spaces: bool,
}

impl<'a> Fields<'a> {
    /// Splits a line at spaces and tabs.
    pub fn of(line: &'a [u8]) -> Fields<'a> {
        Fields {
            rest: line,
            spaces: line
                .iter()
                .fold(true, |is, byte| is & (*byte >= b' ') & (*byte != 0x7f)),
        }
    }

    /// Returns the next field; empty at the end.
    #[inline]
    pub fn next_field(&mut self) -> &'a [u8] {
        let text = self.rest.trim_ascii_start();
        let end = if self.spaces {
            memchr(b' ', text)
        } else {
            text.iter().position(u8::is_ascii_whitespace)
        };
        let (field, rest) = text.split_at(end.unwrap_or(text.len()));
        self.rest = rest;
        field
    }

    /// Returns the rest of the line after the fields taken so far.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Returns whether a string has no control characters.
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// Returns whether a string has neither white space nor control characters.
pub fn is_word(text: &str) -> bool {
    // No early exit, so that the loop is vectorised.
    text.bytes()
        .fold(true, |is, byte| is & (byte > b' ') & (byte != 0x7f))
}

/// Returns whether a string consists of one or more digits.
pub fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// Parses an unsigned number.
pub fn number(text: &[u8]) -> Option<u64> {
    is_number(text).then_some(())?;
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        number.checked_mul(10)?.checked_add(digit)
    })
}
