//! Safe output to a terminal, and questions on it.

use std::fmt::{self, Display};
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::Path;
use std::process;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use serde::{Serialize, Serializer};

/// Returns true for characters that a terminal interprets instead of showing them: control
/// characters, and characters that change the direction of the following text.
pub(crate) fn does_something(c: char) -> bool {
    let hidden = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    c.is_control() || hidden
}

/// Escapes untrusted text for a terminal.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match does_something(c) {
            true if c.is_control() => shown.extend(c.escape_default()),
            true => shown.extend(c.escape_unicode()),
            false => shown.push(c),
        }
    }
    shown
}

/// Formats bytes as text for people: bytes that are not UTF-8 as `\xff`, and the rest as [`shown`].
pub(crate) fn text(bytes: &[u8]) -> String {
    shown(&plain(bytes))
}

/// Formats bytes as text for programs: bytes that are not UTF-8 as `\xff`, like the library.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// An argument of any bytes, such as an id or a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    /// Returns a parser that accepts an argument unchanged.
    pub(crate) fn parser() -> impl TypedValueParser<Value = Bytes> {
        use std::os::unix::ffi::OsStringExt;
        OsStringValueParser::new().map(|given| Bytes(given.into_vec()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text(&self.0))
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&plain(&self.0))
    }
}

/// Returns a function that adds the path of a file to an error.
pub(crate) fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::other(format!("{}: {error}", path.display()))
}

/// Prints an error on standard error.
pub(crate) fn complain(what: impl Display) {
    say(format_args!("crawlspace: {what}"));
}

/// Prints a message on standard error, separate from the result.
pub(crate) fn say(what: impl Display) {
    // A closed standard error must not stop the program.
    let _ = writeln!(io::stderr(), "{}", shown(&what.to_string()));
}

/// Confirmation before an action that cannot be undone.
#[derive(Args)]
pub(crate) struct Consent {
    /// Do not ask for confirmation. Required when standard input is not a terminal.
    #[arg(long)]
    yes: bool,
}

impl Consent {
    /// Asks for confirmation. Exits with an error if standard input is not a terminal.
    pub(crate) fn given(&self, question: &str) -> io::Result<bool> {
        if self.yes {
            return Ok(true);
        }
        if !io::stdin().is_terminal() {
            complain("nothing was changed: pass --yes, because there is no terminal to confirm on");
            process::exit(2);
        }
        let mut out = io::stderr();
        write!(out, "{} [y/N] ", shown(question))?;
        out.flush()?;
        let mut answer = String::new();
        io::stdin().lock().read_line(&mut answer)?;
        let yes = matches!(answer.trim().to_lowercase().as_str(), "y" | "yes");
        if !yes {
            complain("nothing was changed");
        }
        Ok(yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_escapes_are_removed() {
        assert_eq!(text(b"a\x1b[31m\r\n\x7f"), "a\\u{1b}[31m\\r\\n\\u{7f}");
        assert_eq!(
            text("\u{9b}x \u{202e}cod".as_bytes()),
            "\\u{9b}x \\u{202e}cod"
        );
        assert_eq!(text(b"caf\xe9 \xc3\xa9"), "caf\\xe9 \u{e9}");
        assert_eq!(text("\u{65e5}\u{672c}".as_bytes()), "\u{65e5}\u{672c}");
        // Escaping is idempotent.
        let once = text(b"\x1b\xff");
        assert_eq!(shown(&once), once);
    }
}
