//! The examples of the documentation: the commands on a page, and the replies that the page shows.
//!
//! An example is a fenced block ` ```redis ` with lines `> COMMAND args`, each followed by the
//! reply as redis-cli shows it. `<any>` in an expected line matches any text (a time left, a memory
//! size, the message of an error).
//!
//! Numbers of ten or more digits in a block ` ```redis live ` are times and tokens. Such a number
//! matches any number of the same length. If the number occurs again on the page, even in a
//! command, it represents the same actual number.

use std::collections::BTreeMap;

use crate::wire::Reply;
use crate::words::{escaped, words};

/// A command of an example, and the reply that the page shows.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    /// Line of the command in its file, from 1.
    pub line: usize,
    /// The command, as it would be typed.
    pub command: String,
    /// The reply, one line of redis-cli output each.
    pub expected: Vec<String>,
    /// True in a `live` block, in which times and tokens differ from run to run.
    pub live: bool,
}

impl Step {
    /// Returns the arguments of the command, with times and tokens replaced by their current
    /// values.
    pub fn words(&self, now: &Live) -> Vec<Vec<u8>> {
        if self.live {
            words(&now.translate(&self.command))
        } else {
            words(&self.command)
        }
    }

    /// Compares a reply with the expected one. Returns the difference and the line of the example,
    /// or `None` if the replies match.
    pub fn difference(&self, reply: &Reply, now: &mut Live) -> Option<String> {
        let got = show(reply);
        let same = got.len() == self.expected.len()
            && self
                .expected
                .iter()
                .zip(&got)
                .all(|(e, g)| matches_line(e, g) || (self.live && now.matches(e, g)));
        (!same).then(|| {
            format!(
                "{}: > {}\nexpected:\n  {}\ngot:\n  {}",
                self.line,
                self.command,
                self.expected.join("\n  "),
                got.join("\n  ")
            )
        })
    }
}

/// Parses the examples of a page, in order.
pub fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let (mut inside, mut live) = (false, false);
    for (number, line) in text.lines().enumerate() {
        if let Some(fence) = line.strip_prefix("```") {
            inside = !inside && matches!(fence.trim(), "redis" | "redis live");
            live = inside && fence.trim() == "redis live";
        } else if !inside {
            continue;
        } else if let Some(command) = line.strip_prefix("> ") {
            steps.push(Step {
                line: number + 1,
                command: command.to_owned(),
                expected: Vec::new(),
                live,
            });
        } else if let (Some(step), false) = (steps.last_mut(), line.trim().is_empty()) {
            step.expected.push(line.trim_end().to_owned());
        }
    }
    steps
}

/// Returns true if a line matches. `<any>` matches any text, including an empty one.
pub fn matches_line(expected: &str, got: &str) -> bool {
    let mut pieces = expected.split("<any>");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = got.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else {
            return false;
        };
        last = Some(piece);
        if !piece.is_empty() {
            rest = &rest[at + piece.len()..];
        }
    }
    match last {
        None => rest.is_empty(),
        Some(piece) => piece.is_empty() || got.ends_with(piece),
    }
}

/// The times and tokens of a page, and their current values.
#[derive(Debug, Default)]
pub struct Live {
    numbers: BTreeMap<String, String>,
}

impl Live {
    fn is_time(piece: &str) -> bool {
        piece.len() >= 10 && piece.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Splits a line into sequences of digits and the text between them.
    fn pieces(line: &str) -> Vec<&str> {
        let bytes = line.as_bytes();
        let mut pieces = Vec::new();
        let mut from = 0;
        for at in 1..=bytes.len() {
            let ends =
                at == bytes.len() || bytes[at].is_ascii_digit() != bytes[at - 1].is_ascii_digit();
            if ends && line.is_char_boundary(at) {
                pieces.push(&line[from..at]);
                from = at;
            }
        }
        pieces
    }

    /// Returns true if a line matches except for its times and tokens, which are recorded.
    pub fn matches(&mut self, expected: &str, got: &str) -> bool {
        let (expected, got) = (Live::pieces(expected), Live::pieces(got));
        expected.len() == got.len()
            && expected.iter().zip(got).all(|(&expected, got)| {
                if !Live::is_time(expected) {
                    return expected == got;
                }
                let known = self.numbers.entry(expected.to_owned());
                let now = known.or_insert_with(|| got.to_owned());
                now == got && got.len() == expected.len()
            })
    }

    /// Returns a command of the page with the current times and tokens.
    pub fn translate(&self, command: &str) -> String {
        let pieces = Live::pieces(command);
        let now = |piece| self.numbers.get(piece).map_or(piece, |now| &now[..]);
        pieces.into_iter().map(now).collect()
    }
}

/// Formats a RESP2 reply as lines of redis-cli output.
///
/// # Panics
/// Panics if the reply has a RESP3 type.
pub fn show(reply: &Reply) -> Vec<String> {
    match reply {
        Reply::Nil => vec!["(nil)".into()],
        Reply::Simple(text) => vec![String::from_utf8_lossy(text).into_owned()],
        Reply::Error(text) => vec![format!("(error) {}", String::from_utf8_lossy(text))],
        Reply::Int(n) => vec![format!("(integer) {n}")],
        Reply::Bulk(bytes) => vec![format!("\"{}\"", escaped(bytes))],
        Reply::Array(items) if items.is_empty() => vec!["(empty array)".into()],
        Reply::Array(items) => {
            let width = items.len().to_string().len();
            let indent = " ".repeat(width + 2);
            let mut lines = Vec::new();
            for (i, item) in items.iter().enumerate() {
                for (j, line) in show(item).into_iter().enumerate() {
                    let number = format!("{:>width$}) ", i + 1);
                    lines.push(if j == 0 {
                        number + &line
                    } else {
                        format!("{indent}{line}")
                    });
                }
            }
            lines
        }
        other => panic!("not a RESP2 reply: {other:?}"),
    }
}
