//! A cursor over the arguments of a command.

use crate::text::{Shown, parse_unsigned};

/// Arguments after the command's name, read from left to right. Errors name the argument and its
/// position, counted as a person would: the first one after the command's name is 1.
pub struct Args<'a> {
    all: &'a [&'a [u8]],
    at: usize,
    before: usize,
}

/// An error text with its code word first.
pub type Error = String;

impl<'a> Args<'a> {
    /// Over the arguments that follow the command's name and the prefix.
    pub(crate) fn after_prefix(all: &'a [&'a [u8]]) -> Args<'a> {
        Args {
            all,
            at: 0,
            before: 1,
        }
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
        self.at + self.before
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

    /// The next argument, which has 1 to `maximum` bytes.
    ///
    /// # Errors
    /// `ERR` when it is missing, empty or too long.
    pub fn bytes(&mut self, name: &str, maximum: usize) -> Result<&'a [u8], Error> {
        let argument = self.next(name)?;
        if argument.is_empty() {
            return Err(format!(
                "ERR {name} is empty (argument {})",
                self.position()
            ));
        }
        if argument.len() > maximum {
            return Err(format!(
                "ERR {name} has {} bytes, the maximum is {maximum} (argument {})",
                argument.len(),
                self.position()
            ));
        }
        Ok(argument)
    }

    /// The next argument, an integer from `least` to `most`.
    ///
    /// # Errors
    /// `ERR` when it is missing, malformed or out of range.
    pub fn unsigned(&mut self, name: &str, least: u64, most: u64) -> Result<u64, Error> {
        let argument = self.next(name)?;
        match parse_unsigned(argument) {
            Some(n) if (least..=most).contains(&n) => Ok(n),
            Some(_) => Err(format!(
                "ERR {name} '{}' is out of range ({least} to {most}) (argument {})",
                Shown(argument),
                self.position()
            )),
            None => Err(format!(
                "ERR {name} '{}' is not an integer of 0 or more (argument {})",
                Shown(argument),
                self.position()
            )),
        }
    }

    /// Reads the next argument if it is this keyword, in any case.
    pub fn keyword(&mut self, word: &str) -> bool {
        let is = self
            .peek()
            .is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()));
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
        match self.peek() {
            None => Ok(()),
            Some(argument) => Err(format!(
                "ERR syntax error: unexpected '{}' (argument {})",
                Shown(argument),
                self.position() + 1
            )),
        }
    }
}
