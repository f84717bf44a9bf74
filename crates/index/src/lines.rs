//! Reads the lines of logs and indexes in bounded memory, however long or invalid they are, and counts invalid lines.

pub mod fields;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead};

pub use crawlspace_cdx::MAX_LINE;
use memchr::memchr;

/// Maximum number of bad lines that a [`Tally`] keeps as examples, and maximum number of bytes shown of each.
const MAX_EXAMPLES: usize = 5;
const MAX_SHOWN: usize = 120;

/// The reason why a line is invalid. [`Display`](fmt::Display) is the message; `Bad::name` is a short, fixed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bad {
    /// The line is longer than [`MAX_LINE`].
    TooLong,
    /// The line is not UTF-8; the value is the offset of the first invalid byte.
    NotUtf8(usize),
    /// Wrong number of fields: the actual number, and the expected one.
    Fields(usize, &'static str),
    /// The field of this name is not a number.
    Number(&'static str),
    /// The date has neither 14 nor 17 digits.
    Date,
    /// The digest cannot be a key of an index.
    Digest,
    /// The URL has no urlkey.
    Url,
}

impl Bad {
    /// Returns the name under which bad lines of this kind are counted.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Bad::TooLong => "too long",
            Bad::NotUtf8(_) => "not UTF-8",
            Bad::Fields(..) => "wrong number of fields",
            Bad::Number(field) => field,
            Bad::Date => "date",
            Bad::Digest => "digest",
            Bad::Url => "URL",
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bad::TooLong => write!(out, "it is longer than {MAX_LINE} bytes"),
            Bad::NotUtf8(at) => write!(out, "it is not UTF-8 at byte {at}"),
            Bad::Fields(1, wanted) => write!(out, "it has 1 field instead of {wanted}"),
            Bad::Fields(n, wanted) => write!(out, "it has {n} fields instead of {wanted}"),
            Bad::Number(field) => write!(out, "its {field} is not a number"),
            Bad::Date => out.write_str("its date is invalid: 14 or 17 digits are needed"),
            Bad::Digest => out.write_str("its digest is invalid"),
            Bad::Url => out.write_str("its URL is invalid"),
        }
    }
}

impl std::error::Error for Bad {}

/// Reads the lines of an input, except blank lines. A line that is too long is reported without its text.
///
/// ```
/// use crawlspace_index::lines::Reader;
/// let mut lines = Reader::new(&b"one\r\n\nlast"[..]);
/// assert_eq!(lines.next()?, Some((1, Ok(&b"one"[..]))));
/// assert_eq!(lines.next()?, Some((3, Ok(&b"last"[..]))));
/// assert_eq!(lines.next()?, None);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    /// Number of bytes of the input's buffer that the last line occupies.
    taken: usize,
    /// A line that is split over two or more fills of the buffer.
    joined: Vec<u8>,
    number: u64,
}

/// A line, with its number in the input, from 1.
pub type Numbered<'a> = (u64, Result<&'a [u8], Bad>);

/// The position of the next line.
enum NextLine {
    /// A line at the start of the input's buffer, with this length in bytes.
    Buffered(usize),
    Joined,
    TooLong,
    End,
}

impl<R: BufRead> Reader<R> {
    /// Reads the lines of `input`. The buffer of `input` should be large: lines are returned as slices of
    /// the buffer.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            input,
            taken: 0,
            joined: Vec::new(),
            number: 0,
        }
    }

    /// Returns the next line that is not blank, without its line end (optional in the last line). Line numbers include
    /// blank lines. A line beyond [`MAX_LINE`] is returned as [`Bad::TooLong`].
    ///
    /// # Errors
    /// Returns the errors of the input.
    #[allow(clippy::should_implement_trait)] // the line borrows the reader, so this cannot be an Iterator
    pub fn next(&mut self) -> io::Result<Option<Numbered<'_>>> {
        loop {
            match self.find()? {
                NextLine::End => return Ok(None),
                NextLine::TooLong => return Ok(Some((self.number, Err(Bad::TooLong)))),
                NextLine::Joined if is_blank(&self.joined) => {}
                NextLine::Joined => {
                    return Ok(Some((self.number, Ok(without_end(&self.joined)))));
                }
                NextLine::Buffered(length) => {
                    // The line is already buffered, so this does not read.
                    let line = &self.input.fill_buf()?[..length];
                    if is_blank(line) {
                        continue;
                    }
                    let line = &self.input.fill_buf()?[..length];
                    return Ok(Some((self.number, Ok(without_end(line)))));
                }
            }
        }
    }

    fn find(&mut self) -> io::Result<NextLine> {
        self.input.consume(std::mem::take(&mut self.taken));
        let buffer = fill(&mut self.input)?;
        if buffer.is_empty() {
            return Ok(NextLine::End);
        }
        self.number += 1;
        if let Some(end) = memchr(b'\n', buffer) {
            self.taken = end + 1;
            return Ok(if end <= MAX_LINE {
                NextLine::Buffered(end)
            } else {
                NextLine::TooLong
            });
        }
        self.joined.clear();
        let mut too_long = false;
        loop {
            let buffer = fill(&mut self.input)?;
            let end = memchr(b'\n', buffer);
            let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or(buffer);
            too_long |= part.len() > MAX_LINE - self.joined.len();
            if !too_long {
                self.joined.extend_from_slice(part);
            }
            let taken = part.len() + usize::from(end.is_some());
            self.input.consume(taken);
            if end.is_some() || taken == 0 {
                break;
            }
        }
        Ok(if too_long {
            NextLine::TooLong
        } else {
            NextLine::Joined
        })
    }
}

/// Returns the buffer of the input after filling it; empty at the end of the input.
fn fill<R: BufRead>(input: &mut R) -> io::Result<&[u8]> {
    loop {
        match input.fill_buf() {
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    input.fill_buf()
}

fn is_blank(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_whitespace)
}

fn without_end(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Counts bad lines by kind, and keeps the first few as examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: BTreeMap<&'static str, u64>,
    examples: Vec<String>,
}

impl Tally {
    /// Counts a bad line. `line` is the text of the bad line, empty for a line that was too long.
    pub fn add(&mut self, file: &str, number: u64, line: &[u8], bad: Bad) {
        *self.counts.entry(bad.name()).or_default() += 1;
        if self.examples.len() < MAX_EXAMPLES {
            let shown = line.get(..MAX_SHOWN).unwrap_or(line).escape_ascii();
            let more = if line.len() > MAX_SHOWN { "…" } else { "" };
            let file = file.escape_debug();
            self.examples.push(if line.is_empty() {
                format!("{file}, line {number}: {bad}")
            } else {
                format!("{file}, line {number}: {bad}: {shown}{more}")
            });
        }
    }

    /// Adds the counts and examples of another tally.
    pub fn merge(&mut self, other: &Tally) {
        for (name, count) in &other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        let room = MAX_EXAMPLES.saturating_sub(self.examples.len());
        self.examples
            .extend(other.examples.iter().take(room).cloned());
    }

    /// Returns the total number of bad lines.
    pub fn total(&self) -> u64 {
        self.counts.values().sum()
    }

    /// Returns the number of bad lines of each kind, by `Bad::name`.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.counts.iter().map(|(name, count)| (*name, *count))
    }

    /// Returns messages about the first few bad lines, with file, line number, and reason.
    pub fn examples(&self) -> &[String] {
        &self.examples
    }
}

/// `3 bad lines (2 date, 1 digest)`.
impl fmt::Display for Tally {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let s = if total == 1 { "" } else { "s" };
        write!(out, "{total} bad line{s}")?;
        let mut between = " (";
        for (name, count) in self.counts() {
            write!(out, "{between}{count} {name}")?;
            between = ", ";
        }
        match total {
            0 => Ok(()),
            _ => out.write_str(")"),
        }
    }
}

#[cfg(test)]
mod tests;
