//! Runs programs from a command line to their end, and returns their output.

use std::borrow::BorrowMut;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::OsStringExt;
use std::process::Command;

use serde_json::Value;

use crate::words::words;

/// Splits a command line at spaces. `'…'` and `"…"` enclose an argument with spaces.
///
/// # Panics
/// Panics if a quote is not closed.
pub fn arguments(line: impl AsRef<str>) -> Vec<OsString> {
    let words = words(line.as_ref()).into_iter();
    words.map(OsString::from_vec).collect()
}

/// Creates a command from a command line: the first argument is the program.
///
/// # Panics
/// Panics if the line is empty or a quote is not closed.
pub fn program(line: impl AsRef<str>) -> Command {
    let mut words = arguments(line).into_iter();
    let mut program = Command::new(words.next().expect("the line names a program"));
    program.args(words);
    program
}

/// The result of running a program.
#[derive(Debug)]
pub struct Outcome {
    /// The exit status.
    pub status: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub errors: String,
}

impl Outcome {
    /// Returns the outcome if the exit status is as expected.
    ///
    /// # Panics
    /// Panics if the exit status differs.
    #[track_caller]
    pub fn exits(self, status: i32) -> Outcome {
        assert_eq!(self.status, status, "{self:?}");
        self
    }

    /// Parses standard output as lines of JSON.
    ///
    /// # Panics
    /// Panics if a line is not JSON.
    #[track_caller]
    pub fn json(&self) -> Vec<Value> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {self:?}"));
        self.out.lines().map(read).collect()
    }

    /// Parses standard output as one line of JSON.
    ///
    /// # Panics
    /// Panics if the output is not one line of JSON.
    #[track_caller]
    pub fn object(&self) -> Value {
        let mut lines = self.json();
        assert_eq!(lines.len(), 1, "{self:?}");
        lines.remove(0)
    }
}

/// Runs a program to its end, with empty standard input unless the command sets another input.
///
/// # Panics
///
/// Panics if the program does not start, is killed, or prints invalid UTF-8.
#[track_caller]
pub fn outcome(mut command: impl BorrowMut<Command>) -> Outcome {
    let output = command.borrow_mut().output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Outcome {
        status: output
            .status
            .code()
            .expect("the program exits without a signal"),
        out: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// Runs a program that must end with this exit status.
///
/// # Panics
/// Panics if the program does not start, or ends with another status.
#[track_caller]
pub fn ends(command: impl BorrowMut<Command>, status: i32) -> Outcome {
    outcome(command).exits(status)
}

/// Fails unless `text` contains `part`.
#[track_caller]
pub fn assert_contains(text: impl Display, part: impl AsRef<str>) {
    let (text, part) = (text.to_string(), part.as_ref());
    assert!(text.contains(part), "{part:?} is not in: {text}");
}

/// Fails unless `text` starts with `start`.
#[track_caller]
pub fn assert_starts(text: impl Display, start: impl AsRef<str>) {
    let (text, start) = (text.to_string(), start.as_ref());
    assert!(
        text.starts_with(start),
        "does not start with {start:?}: {text}"
    );
}

/// Fails if `text` contains `part`.
#[track_caller]
pub fn assert_lacks(text: impl Display, part: impl AsRef<str>) {
    let (text, part) = (text.to_string(), part.as_ref());
    assert!(!text.contains(part), "{part:?} is in: {text}");
}
