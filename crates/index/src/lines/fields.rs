//! What lines have between their white space.

use memchr::memchr;

/// The fields of a line, from the left, as bytes: a field that is not UTF-8 concerns no other field.
pub struct Fields<'a> {
    rest: &'a [u8],
    /// All white space is spaces, as it mostly is: these are found many bytes at once.
    spaces: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a line, separated by spaces or tabs.
    pub fn of(line: &'a [u8]) -> Fields<'a> {
        Fields {
            rest: line,
            spaces: line
                .iter()
                .fold(true, |is, byte| is & (*byte >= b' ') & (*byte != 0x7f)),
        }
    }

    /// The next one. Empty at the end.
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

    /// What comes after those that were taken.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// Whether nothing in it would steer a terminal.
pub fn is_printable(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

/// Whether nothing in it would end a word or steer a terminal.
pub fn is_word(text: &str) -> bool {
    // To the end in any case: that is many bytes at once.
    text.bytes()
        .fold(true, |is, byte| is & (byte > b' ') & (byte != 0x7f))
}

/// Whether it is digits.
pub fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// A number without a sign.
pub fn number(text: &[u8]) -> Option<u64> {
    is_number(text).then_some(())?;
    text.iter().try_fold(0_u64, |number, digit| {
        let digit = u64::from(digit.wrapping_sub(b'0'));
        number.checked_mul(10)?.checked_add(digit)
    })
}
