//! What lines have between their white space.

use memchr::memchr;

/// The fields of a line, from the left.
pub struct Fields<'a> {
    rest: &'a str,
    /// All white space is spaces, as it mostly is: these are found many bytes at once.
    spaces: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a line, separated by spaces or tabs.
    pub fn of(line: &'a str) -> Fields<'a> {
        Fields {
            rest: line,
            spaces: line
                .bytes()
                .fold(true, |is, byte| is & (byte >= b' ') & (byte != 0x7f)),
        }
    }

    /// The next one. Empty at the end.
    #[inline]
    pub fn next_field(&mut self) -> &'a str {
        let text = self.rest.trim_ascii_start();
        let end = if self.spaces {
            memchr(b' ', text.as_bytes())
        } else {
            text.bytes().position(|byte| byte.is_ascii_whitespace())
        };
        let (field, rest) = text.split_at(end.unwrap_or(text.len()));
        self.rest = rest;
        field
    }

    /// What comes after those that were taken.
    pub fn rest(&self) -> &'a str {
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
pub fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// A number without a sign.
pub fn number(text: &str) -> Option<u64> {
    is_number(text).then(|| text.parse().ok()).flatten()
}
