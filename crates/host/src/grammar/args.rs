//! The cursor over the arguments of a call.

use crate::text::{Shown, parse_unsigned};

use super::Arg;

/// An error text with its code word first.
pub type Error = String;

/// Arguments after the command's name and its key or prefix, read from left to right. Errors name the argument
/// and its position, counted as a person would: the first one after the command's name is 1.
pub struct Args<'a> {
    all: &'a [&'a [u8]],
    at: usize,
    clock: fn() -> u64,
    now: Option<u64>,
}

impl<'a> Args<'a> {
    /// Over the arguments that follow the key or prefix. The clock is only looked at by commands to which the
    /// time matters.
    pub fn new(all: &'a [&'a [u8]], clock: fn() -> u64) -> Args<'a> {
        Args {
            all,
            at: 0,
            clock,
            now: None,
        }
    }

    /// The time of the call in milliseconds since the epoch, the same whenever it is asked.
    pub fn now(&mut self) -> u64 {
        *self.now.get_or_insert_with(self.clock)
    }

    /// Has it be this time, because the client says so.
    pub fn set_now(&mut self, now: u64) {
        self.now = Some(now);
    }

    /// Number of arguments not read yet.
    pub fn left(&self) -> usize {
        self.all.len() - self.at
    }

    /// The next argument without reading it.
    pub fn peek(&self) -> Option<&'a [u8]> {
        self.all.get(self.at).copied()
    }

    /// The argument after the next one, without reading it.
    pub fn peek_second(&self) -> Option<&'a [u8]> {
        self.all.get(self.at + 1).copied()
    }

    /// Position of the argument that was read last.
    pub fn position(&self) -> usize {
        self.at + 1
    }

    /// The next argument, called `name` in errors.
    ///
    /// # Errors
    /// `ERR` when it is missing.
    pub fn next(&mut self, name: &str) -> Result<&'a [u8], Error> {
        let argument = self
            .peek()
            .ok_or_else(|| format!("ERR {name} is missing (argument {})", self.position() + 1))?;
        self.at += 1;
        Ok(argument)
    }

    /// The next argument, which has `least` (0 or 1) to `maximum` bytes.
    ///
    /// # Errors
    /// `ERR` when it is missing, empty or too long.
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

    /// The next argument, an integer from `least` to `most`.
    ///
    /// # Errors
    /// `ERR` when it is missing, malformed or out of range.
    pub fn unsigned(&mut self, name: &str, least: u64, most: u64) -> Result<u64, Error> {
        let argument = self.next(name)?;
        match parse_unsigned(argument) {
            Some(n) if (least..=most).contains(&n) => Ok(n),
            parsed => {
                let allowed = match parsed {
                    Some(_) => format!("is out of range ({least} to {most})"),
                    None => "is not an integer of 0 or more".to_owned(),
                };
                Err(self.wrong(&format!("ERR {name} '{}' {allowed}", Shown(argument))))
            }
        }
    }

    /// Whether the next argument is this keyword, in any case.
    pub fn is(&self, word: &str) -> bool {
        self.peek()
            .is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    }

    /// Reads the next argument if it is this keyword, in any case.
    pub fn keyword(&mut self, word: &str) -> bool {
        let is = self.is(word);
        self.at += usize::from(is);
        is
    }

    /// All arguments not read yet.
    pub fn rest(&mut self) -> &'a [&'a [u8]] {
        let rest = &self.all[self.at..];
        self.at = self.all.len();
        rest
    }

    /// Refuses arguments that nobody asked for.
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

    /// An error about the argument that was read last.
    #[cold]
    pub fn wrong(&self, what: &str) -> Error {
        format!("{what} (argument {})", self.position())
    }

    #[cold]
    fn wrong_next(&self, what: &str) -> Error {
        format!("{what} (argument {})", self.position() + 1)
    }

    /// The error when something else stands next, or nothing, than what has this syntax.
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

    /// The error when an option that was read before stands next; `None` when that is a value which happens to
    /// look the same.
    #[cold]
    pub(super) fn again(&self, option: &Arg) -> Option<Error> {
        let word = Shown(self.peek()?);
        let why = match option.openers()[..] {
            [] => return None,
            [_] => format!("{word} stands twice"),
            ref several => format!(
                "unexpected '{word}', one of {} may stand",
                several.join(", ")
            ),
        };
        Some(self.wrong_next(&format!("ERR syntax error: {why}")))
    }
}
