//! Headers of HTTP messages: a first line and fields, as they were received or recorded.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::decimal;

/// Maximum size of a header that is looked for, in bytes.
pub const MAX_HEAD: usize = 256 * 1024;

/// What responses begin with: those of HTTP/1, those of NCSA httpd up to 1.5, and those of SHOUTcast.
const BEGINNINGS: [&[u8]; 3] = [b"HTTP/", b"HTTP ", b"ICY "];

/// Returns whether a block begins with the status line of a response. One of HTTP/0.9 has none.
pub fn is_response(block: &[u8]) -> bool {
    BEGINNINGS.iter().any(|beginning| {
        let rest = block.strip_prefix(*beginning);
        // Without a version, only the status tells it from text.
        rest.is_some_and(|rest| beginning.ends_with(b"/") || is_status(rest))
    })
}

/// Returns whether a block that begins with these bytes, of which there may be few, may be a response.
pub fn may_be_response(bytes: &[u8]) -> bool {
    let longest = BEGINNINGS.map(<[u8]>::len).into_iter().max().unwrap_or(0) + STATUS;
    is_response(bytes)
        || bytes.len() < longest
            && BEGINNINGS
                .iter()
                .any(|beginning| bytes.iter().zip(*beginning).all(|(a, b)| a == b))
}

/// Returns whether text begins with the three digits of a status, and no more of them.
fn is_status(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits == 3 && matches!(text.get(3), None | Some(b' ' | b'\r' | b'\n'))
}

/// Number of bytes of a status, and of what follows it.
const STATUS: usize = 4;

/// The header of a message: its bytes, and where its fields are in them.
///
/// It is read as leniently as archives are read: lines may end with a bare LF, a value may go on in the next line, and
/// a line that is no field counts for nothing. The bytes are kept, whatever they are.
#[derive(Clone, Debug)]
pub struct Head<First = (), Raw = Bytes> {
    /// What the first line says.
    pub first: First,
    raw: Raw,
    /// Where the first line ends, after its line end.
    begin: usize,
    fields: Vec<FieldRanges>,
}

/// The first line of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 100 to 999.
    pub code: u16,
    /// The digit after `HTTP/1.`.
    pub minor: u8,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Its name, without the white space after it that some servers send.
    pub name: &'a [u8],
    /// Its value, without white space around it; one that goes on in the next line has the line end in it.
    pub value: &'a [u8],
    /// All of its lines, with their ends.
    pub line: &'a [u8],
}

#[derive(Clone, Debug)]
struct FieldRanges {
    name: Range<usize>,
    value: Range<usize>,
    line: Range<usize>,
}

impl Field<'_> {
    /// Whether it has that name.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Its value in one line.
    pub fn unfolded(&self) -> Cow<'_, [u8]> {
        if memchr::memchr(b'\n', self.value).is_none() {
            return Cow::Borrowed(self.value);
        }
        let lines = self.value.split(|&byte| byte == b'\n');
        let lines = lines
            .map(<[u8]>::trim_ascii)
            .filter(|line| !line.is_empty());
        Cow::Owned(lines.collect::<Vec<_>>().join(&b' '))
    }
}

impl<'a> Head<(), &'a [u8]> {
    /// Parses the header that the block of a record begins with. It ends as [`end_of_head`] says, or with the block.
    pub fn of(block: &'a [u8]) -> Head<(), &'a [u8]> {
        let end = blank_line(block).map_or(block.len(), |line| line.start);
        Head::parse((), &block[..end])
    }

    /// A copy of the head whose fields of these names are replaced by those of `other`.
    pub fn with_fields_of(&self, other: &Head<(), &[u8]>, names: &[&str]) -> Vec<u8> {
        let mut head = without_end(self.first_line()).to_vec();
        let mut leave_out = false;
        for line in self.lines() {
            // A folded line goes the way of the one before.
            if !matches!(line.first(), Some(b' ' | b'\t')) {
                leave_out = is_one_of(line, names);
            }
            if !leave_out {
                head.extend_from_slice(b"\r\n");
                head.extend_from_slice(line);
            }
        }
        for line in other.lines().filter(|line| is_one_of(line, names)) {
            head.extend_from_slice(b"\r\n");
            head.extend_from_slice(line);
        }
        head.extend_from_slice(b"\r\n\r\n");
        head
    }

    /// The lines after the first one, without their ends.
    fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let raw: &'a [u8] = self.raw;
        raw[self.begin..]
            .split_inclusive(|&byte| byte == b'\n')
            .map(without_end)
    }
}

impl<First> Head<First> {
    /// Parses the header of a message. `raw` ends with the empty line after the fields; `first` reads the first line,
    /// which it gets without the line end.
    ///
    /// # Errors
    /// Those of `first`.
    pub fn new<E>(
        raw: Bytes,
        first: impl FnOnce(&[u8]) -> Result<First, E>,
    ) -> Result<Head<First>, E> {
        let line = &raw[..line_end(&raw, 0)];
        let first = first(without_end(line))?;
        Ok(Head::parse(first, raw))
    }

    /// All of it, from the first line to the empty line after the fields.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }
}

impl<First, Raw: AsRef<[u8]>> Head<First, Raw> {
    fn parse(first: First, bytes: Raw) -> Head<First, Raw> {
        let raw = bytes.as_ref();
        let begin = line_end(raw, 0);
        let mut fields: Vec<FieldRanges> = Vec::new();
        let mut at = begin;
        // Whether a line that begins with white space goes on with a field, and not with a line that is none.
        let mut open = false;
        while at < raw.len() {
            let line = at..line_end(raw, at);
            at = line.end;
            let text = without_end(&raw[line.clone()]);
            match text.first() {
                None => break,
                Some(b' ' | b'\t') => {
                    if let Some(field) = fields.last_mut().filter(|_| open) {
                        field.line.end = line.end;
                        let value = text.trim_ascii_start();
                        if !value.is_empty() {
                            let from = line.start + text.len() - value.len();
                            if field.value.is_empty() {
                                field.value.start = from;
                            }
                            field.value.end = from + value.trim_ascii_end().len();
                        }
                    }
                }
                Some(_) => {
                    let colon = memchr::memchr(b':', text);
                    open = false;
                    if let Some((name, value)) = colon.and_then(|colon| {
                        let (name, value) = text.split_at_checked(colon)?;
                        Some((name.trim_ascii_end(), value.get(1..)?))
                    }) && !name.is_empty()
                    {
                        open = true;
                        let from = line.start + text.len() - value.trim_ascii_start().len();
                        fields.push(FieldRanges {
                            name: line.start..line.start + name.len(),
                            value: from..from + value.trim_ascii().len(),
                            line,
                        });
                    }
                }
            }
        }
        Head {
            first,
            begin,
            fields,
            raw: bytes,
        }
    }

    /// The first line, with its end.
    pub fn first_line(&self) -> &[u8] {
        &self.raw.as_ref()[..self.begin]
    }

    /// The status, `None` when the first line has none.
    pub fn status(&self) -> Option<u16> {
        let line = without_end(self.first_line());
        let mut words = line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        let status = words.nth(1).filter(|_| is_response(line))?;
        std::str::from_utf8(status).ok()?.parse().ok()
    }

    /// The fields, in their order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let raw = self.raw.as_ref();
        let part = |range: &Range<usize>| &raw[range.clone()];
        self.fields.iter().map(move |ranges| Field {
            name: part(&ranges.name),
            value: part(&ranges.value),
            line: part(&ranges.line),
        })
    }

    /// The values of all fields of that name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields()
            .filter(move |field| field.is(name))
            .map(|field| field.value)
    }

    /// The value of the first field of that name.
    pub fn get<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// The value of the first field of that name, as text in one line; what is no UTF-8 in it is replaced.
    pub fn text(&self, name: &str) -> Option<String> {
        let field = self.fields().find(|field| field.is(name))?;
        Some(String::from_utf8_lossy(&field.unfolded()).into_owned())
    }

    /// The parts of a list with commas between them, over all fields of that name (RFC 9110, section 5.6.1).
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|part| !part.is_empty())
    }

    /// `Content-Length`, which some servers send many times. The error is a value that is not a number, or not the
    /// same as another one.
    ///
    /// # Errors
    /// That value.
    pub fn content_length(&self) -> Result<Option<u64>, &[u8]> {
        let mut length = None;
        for text in self.list("Content-Length") {
            match decimal(text) {
                Some(this) if length.is_none_or(|other| other == this) => length = Some(this),
                _ => return Err(text),
            }
        }
        Ok(length)
    }

    /// Whether the body that was recorded with it may be in chunks: they are the last coding (RFC 9112, section 6.3).
    pub fn is_chunked(&self) -> bool {
        let last = self.list("Transfer-Encoding").last();
        last.is_some_and(|coding| coding.to_ascii_lowercase().ends_with(b"chunked"))
    }
}

impl Status {
    /// Reads `HTTP/1.1 200 OK`, where the reason may lack and so may the space before it.
    ///
    /// # Errors
    /// When it is not a status line: what is invalid, in words.
    pub fn read(line: &[u8]) -> Result<Status, String> {
        let parts = || {
            let rest = line.strip_prefix(b"HTTP/1.")?;
            let (minor, rest) = rest.split_first()?;
            let rest = rest.strip_prefix(b" ")?.trim_ascii_start();
            let (code, reason) = rest.split_at_checked(3)?;
            let is_code = code.iter().all(u8::is_ascii_digit) && code.first() != Some(&b'0');
            let is_apart = matches!(reason.first(), None | Some(b' ' | b'\t'));
            (matches!(minor, b'0' | b'1') && is_code && is_apart).then_some((minor, code))
        };
        let Some((minor, code)) = parts() else {
            return Err(format!(
                "the answer does not begin as one of HTTP/1.1, but with {:?}",
                String::from_utf8_lossy(line.get(..line.len().min(60)).unwrap_or_default())
            ));
        };
        Ok(Status {
            code: code
                .iter()
                .fold(0, |code, digit| code * 10 + u16::from(digit - b'0')),
            minor: minor - b'0',
        })
    }
}

/// Where the header ends that the block of a record begins with: after its first line that is blank. `None` when
/// there is none.
pub fn end_of_head(block: &[u8]) -> Option<usize> {
    blank_line(block).map(|line| line.end)
}

/// Returns how many bytes of a block are responses that come before the final one (1xx: RFC 9110, section 15.2).
pub fn interim_heads(block: &[u8]) -> usize {
    let mut at = 0;
    while let Some(end) = block.get(at..).and_then(end_of_head) {
        let (head, rest) = block[at..].split_at(end);
        let is_interim = matches!(Head::of(head).status(), Some(100 | 102..=199));
        if !is_interim || !rest.starts_with(b"HTTP/") {
            break;
        }
        at += end;
    }
    at
}

fn blank_line(block: &[u8]) -> Option<Range<usize>> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', block).find_map(|at| {
        let line = start..at + 1;
        start = at + 1;
        // Programs that check WARC files take a line of nothing but spaces for the end as well.
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r' | 0x1c..=0x1f);
        let bytes = block.get(line.clone())?;
        bytes.iter().all(is_blank).then_some(line)
    })
}

fn is_one_of(line: &[u8], names: &[&str]) -> bool {
    let colon = memchr::memchr(b':', line).unwrap_or(0);
    let name = line[..colon].trim_ascii_end();
    names
        .iter()
        .any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// How long the header of a message is that the bytes begin with, its empty line included. `None` when it is not all
/// there; `from` is how much of it was looked at before.
pub fn length(bytes: &[u8], from: usize) -> Option<usize> {
    // The end may have begun in what was looked at.
    let from = from.saturating_sub(3);
    let rest = bytes.get(from..)?;
    memchr::memchr_iter(b'\n', rest).find_map(|at| {
        let end = from + at + 1;
        match (bytes.get(end), bytes.get(end + 1)) {
            (Some(b'\n'), _) => Some(end + 1),
            (Some(b'\r'), Some(b'\n')) => Some(end + 2),
            _ => None,
        }
    })
}

/// Where the line ends that begins there, after its line end.
fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |at| from + at + 1)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
