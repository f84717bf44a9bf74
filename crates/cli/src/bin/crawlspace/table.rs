//! Output of results: tables for people, JSON for programs.

use std::io::{self, IsTerminal, StdoutLock, Write};

use serde::Serialize;

use crate::terminal::does_something;
pub(crate) use crate::terminal::shown;

/// Prints a value as one line of JSON.
pub(crate) fn print_json(value: &impl Serialize) -> io::Result<()> {
    let line = json(value)?;
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// Formats a value as one line of JSON with its line break.
pub(crate) fn json(value: &impl Serialize) -> io::Result<String> {
    let mut line = String::new();
    for c in serde_json::to_string(value)?.chars() {
        // These characters occur only within strings. JSON itself does not escape them.
        if does_something(c) {
            line.push_str(&format!("\\u{:04x}", u32::from(c)))
        } else {
            line.push(c)
        }
    }
    line.push('\n');
    Ok(line)
}

/// A table on standard output with three columns: name, number and meaning. Control characters in texts are escaped.
pub(crate) struct Table {
    out: StdoutLock<'static>,
    width: usize,
}

impl Table {
    /// Begins a table with a heading, for names of up to `width` characters.
    pub(crate) fn new(heading: &str, width: usize) -> io::Result<Table> {
        let heading = shown(heading);
        let mut out = io::stdout().lock();
        if out.is_terminal() {
            writeln!(out, "\x1b[1m{heading}\x1b[0m")?;
        } else {
            writeln!(out, "{heading}")?;
        }
        Ok(Table { out, width })
    }

    /// Prints a row; an empty note prints nothing after the number.
    pub(crate) fn row(
        &mut self,
        name: &str,
        figure: impl AsRef<str>,
        note: &str,
    ) -> io::Result<()> {
        let (figure, width) = (figure.as_ref(), self.width);
        let line = shown(&format!("  {name:<width$}{figure:>12}  {note}"));
        writeln!(self.out, "{}", line.trim_end())
    }

    /// Prints text below the rows.
    pub(crate) fn line(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "  {}", shown(text))
    }

    /// Flushes the output.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Formats 1234567 as `1 234 567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun: `1 group`, `2 groups`.
pub(crate) fn many(n: u64, what: &str) -> String {
    let end = if n == 1 { "" } else { "s" };
    format!("{} {what}{end}", count(n))
}

/// Formats a part as a percentage of the whole.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

/// Formats bytes in a fitting unit. Returns an empty string below a kilobyte, because the exact count
/// is printed next to it.
pub(crate) fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        _ => String::new(),
    }
}

/// Formats a number of bytes in a fitting unit: `B` or larger.
pub(crate) fn bytes(n: u64) -> String {
    match size(n) {
        none if none.is_empty() => format!("{n} B"),
        size => size,
    }
}

/// Formats milliseconds in a fitting unit.
pub(crate) fn duration(ms: u64) -> String {
    match ms as f64 / 1000.0 {
        s if s >= 2.0 * 86_400.0 => format!("{:.1} days", s / 86_400.0),
        s if s >= 2.0 * 3600.0 => format!("{:.1} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.1} min", s / 60.0),
        s if s >= 1.0 => format!("{s:.1} s"),
        _ => format!("{ms} ms"),
    }
}
