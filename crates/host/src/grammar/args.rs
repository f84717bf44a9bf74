//! A reader of the arguments of a call.

use crate::text::{Shown, parse_unsigned};

use super::Arg;

/// An error message that begins with its error code.
pub type Error = String;

/// The arguments after the command's name and its key or prefix, read from left to right. Errors name the argument and
/// its position; the first argument after the command's name is 1.
pub struct Args<'a> {
    all: &'a [&'a [u8]],
    at: usize,
    clock: fn() -> u64,
    now: Option<u64>,
}

impl<'a> Args<'a> {
    /// Creates a reader of the arguments after the key or prefix. Calls `clock` only if a command
    /// needs the time.
    pub fn new(all: &'a [&'a [u8]], clock: fn() -> u64) -> Args<'a> {
        Args {
            all,
            at: 0,
            clock,
            now: None,
        }
    }

    /// Returns the time of the call in milliseconds since the epoch; repeated calls return the same
    /// time.
    pub fn now(&mut self) -> u64 {
        *self.now.get_or_insert_with(self.clock)
    }

    /// Sets the time of the call to a time sent by the client.
    pub fn set_now(&mut self, now: u64) {
        self.now = Some(now);
    }

    /// Returns the number of unread arguments.
    #[inline]
    pub fn left(&self) -> usize {
        self.all.len() - self.at
    }

    /// Returns the next argument without reading it.
    #[inline]
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.all.get(self.at).copied()
    }

    /// Returns the argument after the next one, without reading it.
    pub fn peek_second(&self) -> Option<&'a [u8]> {
        self.all.get(self.at + 1).copied()
    }

    /// Returns the position of the last argument read.
    pub fn position(&self) -> usize {
        self.at + 1
    }

    /// Reads the next argument. Error messages use `name` for the argument.
    ///
    /// # Errors
    /// `ERR` if the argument is missing.
    pub fn next(&mut self, name: &str) -> Result<&'a [u8], Error> {
        let argument = self
            .peek()
            .ok_or_else(|| format!("ERR {name} is missing (argument {})", self.position() + 1))?;
        self.at += 1;
        Ok(argument)
    }

    /// Reads the next argument, which must have `least` (0 or 1) to `maximum` bytes.
    ///
    /// # Errors
    /// `ERR` if the argument is missing, empty or too long.
    pub fn bytes(&mut self, name: &str, least: usize, maximum: usize) -> Result<&'a [u8], Error> {
        let argument = self.next(name)?;
        match argument.len() {
            n if n < least => Err(self.wrong(&format!("ERR {name} is empty"))),
            n if n > maximum => Err(self.wrong(&format!(
                "ERR {name} has {n} bytes, the maximum is {maximum}"
            ))),
            _ => Ok(argument),
        }
    }

    /// Reads the next argument as an integer from `least` to `most`. Errors append `note` to the range.
    ///
    /// # Errors
    /// `ERR` if the argument is missing, malformed or out of range.
    pub fn unsigned(
        &mut self,
        name: &str,
        least: u64,
        most: u64,
        note: &str,
    ) -> Result<u64, Error> {
        let argument = self.next(name)?;
        if let Some(n) = parse_unsigned(argument).filter(|n| (least..=most).contains(n)) {
            return Ok(n);
        }
        let digits = argument.strip_prefix(b"-").unwrap_or(argument);
        let is_integer = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        let why = if is_integer {
            "is out of range"
        } else {
            "is not an integer"
        };
        Err(self.wrong(&format!(
            "ERR {name} '{}' {why} ({least} to {most}{note})",
            Shown(argument)
        )))
    }

    /// Returns true if the next argument is this keyword, in upper or lower case.
    #[inline(always)]
    pub fn is(&self, word: &str) -> bool {
        let word = word.as_bytes();
        let begins =
            |argument: &[u8]| argument.len() == word.len() && (argument[0] ^ word[0]) & !0x20 == 0;
        self.peek()
            .is_some_and(|argument| begins(argument) && is_keyword(argument, word))
    }

    /// Reads the next argument if it is this keyword, in upper or lower case.
    #[inline]
    pub fn keyword(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    /// Reads all remaining arguments.
    pub fn rest(&mut self) -> &'a [&'a [u8]] {
        let rest = &self.all[self.at..];
        self.at = self.all.len();
        rest
    }

    /// Rejects surplus arguments.
    ///
    /// # Errors
    /// `ERR`, with the first unexpected argument.
    pub fn end(&self) -> Result<(), Error> {
        self.peek().map_or(Ok(()), |argument| {
            Err(self.wrong_next(&format!(
                "ERR syntax error: unexpected '{}'",
                Shown(argument)
            )))
        })
    }

    /// Returns an error about the last argument that was read.
    #[cold]
    pub fn wrong(&self, what: &str) -> Error {
        format!("{what} (argument {})", self.position())
    }

    #[cold]
    fn wrong_next(&self, what: &str) -> Error {
        format!("{what} (argument {})", self.position() + 1)
    }

    /// Returns the error to report if the next argument is missing or does not match this syntax.
    #[cold]
    pub fn expected(&self, syntax: &str) -> Error {
        self.wrong_next(&match self.peek() {
            None => format!("ERR syntax error: {syntax} is missing"),
            Some(other) => format!(
                "ERR syntax error: unexpected '{}', {syntax} is expected",
                Shown(other)
            ),
        })
    }

    /// Returns the error for a repeated option if the next argument is this option again. Returns
    /// `None` if the next argument is a plain value.
    #[cold]
    pub(super) fn again(&self, option: &Arg) -> Option<Error> {
        let word = Shown(self.peek()?);
        let why = match option.openers()[..] {
            [] => return None,
            [_] => format!("{word} is given twice"),
            ref several => format!(
                "unexpected '{word}', only one of {} is allowed",
                several.join(", ")
            ),
        };
        Some(self.wrong_next(&format!("ERR syntax error: {why}")))
    }
}

/// Returns true if an argument is this keyword of the same length, in upper or lower case.
#[inline]
fn is_keyword(argument: &[u8], word: &[u8]) -> bool {
    // Most clients send the keyword exactly as it is written in the grammar.
    *argument == *word || argument.eq_ignore_ascii_case(word)
}
