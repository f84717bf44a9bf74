//! A script that runs next to the test and exchanges lines with it.

use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use crate::wire::Reply;

/// Time limit for the next line of a script.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running script. Dropping this value kills the script.
pub struct Script {
    /// Name of the script in messages.
    pub name: String,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: std::fs::File,
}

impl Script {
    /// Starts a script.
    ///
    /// # Panics
    /// Panics if the script cannot be started.
    pub fn start(mut command: Command) -> Script {
        let errors = tempfile::tempfile().expect("a temporary file");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone().expect("a second handle"))
            .spawn()
            .expect("the script starts");
        let output = child.stdout.take().expect("a piped stdout");
        let (tell, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Script {
            name: format!("{command:?}"),
            input: child.stdin.take().expect("a piped stdin"),
            child,
            lines,
            errors,
        }
    }

    /// Returns the next line of the script, or `None` if the script has ended successfully.
    ///
    /// # Panics
    /// Panics if the script failed, or prints nothing for a minute.
    pub fn next_line(&mut self) -> Option<String> {
        match self.lines.recv_timeout(TIMEOUT) {
            Ok(line) => Some(line),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
                if self.child.wait().is_ok_and(|status| status.success()) =>
            {
                None
            }
            Err(reason) => {
                let mut errors = String::new();
                let _ = self.errors.rewind();
                let _ = self.errors.read_to_string(&mut errors);
                panic!("{}: {reason}\n{errors}", self.name)
            }
        }
    }

    /// Returns the next line of a script that must still be running.
    ///
    /// # Panics
    /// Panics if the script has ended.
    pub fn line(&mut self) -> String {
        let line = self.next_line();
        line.unwrap_or_else(|| panic!("{} has ended", self.name))
    }

    /// Sends a line to the script.
    ///
    /// # Panics
    /// Panics if the script has ended.
    pub fn say(&mut self, line: &str) {
        let said = writeln!(self.input, "{line}").and_then(|()| self.input.flush());
        if let Err(reason) = said {
            // If this fails, the message of `next_line` explains the cause.
            self.next_line();
            panic!("{}: {reason}", self.name);
        }
    }

    /// Makes the script send a command to the server, and returns the reply as its client decoded
    /// it.
    ///
    /// # Panics
    /// Panics if the script prints anything other than a reply.
    pub fn call(&mut self, words: &[Vec<u8>]) -> Reply {
        let words: Vec<String> = words.iter().map(|word| hex(word)).collect();
        self.say(&words.join(","));
        let line = self.line();
        let mut parts = line.split(' ');
        let reply = self.reply(&mut parts);
        assert_eq!(parts.next(), None, "{}: {line}", self.name);
        reply
    }

    fn reply<'a>(&self, parts: &mut impl Iterator<Item = &'a str>) -> Reply {
        let mut next = || parts.next().unwrap_or_default();
        let kind = next();
        if kind == "nil" {
            return Reply::Nil;
        }
        let value = next();
        let mut many =
            |count: usize| -> Vec<Reply> { (0..count).map(|_| self.reply(&mut *parts)).collect() };
        match (kind, value.parse::<i64>()) {
            ("int", Ok(n)) => Reply::Int(n),
            ("bytes", _) => Reply::Bulk(bytes(value)),
            ("error", _) => Reply::Error(bytes(value)),
            ("array", Ok(n)) => Reply::Array(many(n as usize)),
            ("map", Ok(n)) => {
                let parts = many(2 * n as usize);
                let pairs = parts.chunks_exact(2);
                Reply::Map(pairs.map(|p| (p[0].clone(), p[1].clone())).collect())
            }
            _ => panic!("{}: unknown type of reply: {kind} {value}", self.name),
        }
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits, which may follow a `-`.
///
/// # Panics
/// Panics if there are other characters.
pub fn bytes(hex: &str) -> Vec<u8> {
    let hex = hex.trim_start_matches('-').as_bytes();
    let byte = |pair: &[u8]| {
        let pair = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(pair, 16).ok()
    };
    let bytes: Option<_> = hex.chunks(2).map(byte).collect();
    bytes.expect("hexadecimal digits")
}
