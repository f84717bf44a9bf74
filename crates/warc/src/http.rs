//! Headers of HTTP messages: a first line and fields, as received or recorded.

use std::borrow::Cow;
use std::ops::Range;

use bytes::Bytes;

use super::decimal;

/// Maximum size of a header that is searched for, in bytes.
pub const MAX_HEAD: usize = 256 * 1024;

/// Prefixes of responses: HTTP/1, NCSA httpd up to 1.5, and SHOUTcast.
const BEGINNINGS: [&[u8]; 3] = [b"HTTP/", b"HTTP ", b"ICY "];

/// Returns true if a URI has the scheme `http` or `https`. Schemes are case-insensitive (RFC 3986, section 3.1).
///
/// ```
/// use crawlspace_warc::http::is_web;
/// assert!(is_web(b"HTTP://example.com/"));
/// assert!(!is_web(b"httpx://example.com/"));
/// ```
pub fn is_web(uri: &[u8]) -> bool {
    let scheme = uri.split(|&byte| byte == b':').next();
    let scheme = scheme.filter(|scheme| scheme.len() < uri.len());
    scheme.is_some_and(|scheme| {
        scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https")
    })
}

/// Returns true if a block begins with the status line of a response. HTTP/0.9 responses have no status line.
pub fn is_response(block: &[u8]) -> bool {
    BEGINNINGS.iter().any(|beginning| {
        let rest = block.strip_prefix(*beginning);
        // Without a version, only the status distinguishes the line from other text.
        rest.is_some_and(|rest| beginning.ends_with(b"/") || is_status(rest))
    })
}

/// Returns true if these bytes, possibly only the first few of a block, can be the start of a response.
pub fn may_be_response(bytes: &[u8]) -> bool {
    let longest = BEGINNINGS.map(<[u8]>::len).into_iter().max().unwrap_or(0) + STATUS;
    is_response(bytes)
        || bytes.len() < longest
            && BEGINNINGS
                .iter()
                .any(|beginning| bytes.iter().zip(*beginning).all(|(a, b)| a == b))
}

/// Returns true if the text begins with exactly three digits, a status code.
fn is_status(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits == 3 && matches!(text.get(3), None | Some(b' ' | b'\r' | b'\n'))
}

/// Number of bytes of a status code and the byte after it.
const STATUS: usize = 4;

/// Header of a message: its bytes, and the positions of its fields.
///
/// Parsing is lenient, as for archived messages: lines may end with a bare LF, values may be folded, and
/// invalid lines are ignored. The bytes are kept unchanged.
#[derive(Clone, Debug)]
pub struct Head<First = (), Raw = Bytes> {
    /// Parsed first line.
    pub first: First,
    raw: Raw,
    /// End of the first line, including its line end.
    begin: usize,
    fields: Vec<FieldRanges>,
}

/// Status line of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Status code, 100 to 999.
    pub code: u16,
    /// Minor version: the digit after `HTTP/1.`.
    pub minor: u8,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// Name of the field, without the white space that some servers send after it.
    pub name: &'a [u8],
    /// Value without surrounding white space; a folded value contains its line ends.
    pub value: &'a [u8],
    /// The lines of the field, including line ends.
    pub line: &'a [u8],
}

#[derive(Clone, Debug)]
struct FieldRanges {
    name: Range<usize>,
    value: Range<usize>,
    line: Range<usize>,
}

impl Field<'_> {
    /// Returns true if the field has this name, which is case-insensitive.
    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value as a single line.
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
    /// Parses the header at the start of the block of a record. The header ends at [`end_of_head`], or at the
    /// end of the block.
    pub fn of(block: &'a [u8]) -> Head<(), &'a [u8]> {
        let end = blank_line(block).map_or(block.len(), |line| line.start);
        Head::parse((), &block[..end])
    }

    /// Returns a copy of the header in which `other` supplies the fields with these names.
    pub fn with_fields_of(&self, other: &Head<(), &[u8]>, names: &[&str]) -> Vec<u8> {
        let mut head = without_end(self.first_line()).to_vec();
        let mut leave_out = false;
        for line in self.lines() {
            // A folded line is treated like the line before it.
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

    /// Returns the lines after the first one, without line ends.
    fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let raw: &'a [u8] = self.raw;
        raw[self.begin..]
            .split_inclusive(|&byte| byte == b'\n')
            .map(without_end)
    }
}

impl<First> Head<First> {
    /// Parses the header of a message. `raw` ends with the empty line after the fields; `first` parses the
    /// first line, without its line end.
    ///
    /// # Errors
    /// Fails with the errors of `first`.
    pub fn new<E>(
        raw: Bytes,
        first: impl FnOnce(&[u8]) -> Result<First, E>,
    ) -> Result<Head<First>, E> {
        let line = &raw[..line_end(&raw, 0)];
        let first = first(without_end(line))?;
        Ok(Head::parse(first, raw))
    }

    /// Returns the whole header, from the first line to the empty line after the fields.
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
        // True if the previous line belongs to a valid field, which a line that begins with white
        // space then continues.
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

    /// Returns the first line, with its line end.
    pub fn first_line(&self) -> &[u8] {
        &self.raw.as_ref()[..self.begin]
    }

    /// Returns the status code, or `None` if the first line does not contain one.
    pub fn status(&self) -> Option<u16> {
        let line = without_end(self.first_line());
        let mut words = line
            .split(|&byte| byte == b' ')
            .filter(|word| !word.is_empty());
        let status = words.nth(1).filter(|_| is_response(line))?;
        std::str::from_utf8(status).ok()?.parse().ok()
    }

    /// Returns the fields in order.
    pub fn fields(&self) -> impl Iterator<Item = Field<'_>> {
        let raw = self.raw.as_ref();
        let part = |range: &Range<usize>| &raw[range.clone()];
        self.fields.iter().map(move |ranges| Field {
            name: part(&ranges.name),
            value: part(&ranges.value),
            line: part(&ranges.line),
        })
    }

    /// Returns the values of all fields with this name.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.fields()
            .filter(move |field| field.is(name))
            .map(|field| field.value)
    }

    /// Returns the value of the first field with this name.
    pub fn get<'a>(&'a self, name: &'a str) -> Option<&'a [u8]> {
        self.values(name).next()
    }

    /// Returns the value of the first field with this name as a single line of text; invalid UTF-8 is
    /// replaced.
    pub fn text(&self, name: &str) -> Option<String> {
        let field = self.fields().find(|field| field.is(name))?;
        Some(String::from_utf8_lossy(&field.unfolded()).into_owned())
    }

    /// Returns the elements of a comma-separated list, over all fields with this name (RFC 9110, section
    /// 5.6.1).
    pub fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.values(name)
            .flat_map(|value| value.split(|&byte| byte == b','))
            .map(<[u8]>::trim_ascii)
            .filter(|part| !part.is_empty())
    }

    /// Returns `Content-Length`, which some servers send several times.
    ///
    /// # Errors
    /// Fails with the first value that is not a number, or that differs from the previous ones.
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

    /// Returns true if the recorded body may be chunked: `chunked` is the last coding (RFC 9112, section
    /// 6.3).
    pub fn is_chunked(&self) -> bool {
        let last = self.list("Transfer-Encoding").last();
        last.is_some_and(|coding| coding.to_ascii_lowercase().ends_with(b"chunked"))
    }
}

impl Status {
    /// Parses a line such as `HTTP/1.1 200 OK`. The reason phrase and the space before it may be
    /// missing.
    ///
    /// # Errors
    /// Fails with a description of what is invalid in the status line.
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
                "the response is not HTTP/1.1, but begins with {:?}",
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

/// Returns the end of the header at the start of the block of a record: after its first blank line. Returns
/// `None` if there is no blank line.
pub fn end_of_head(block: &[u8]) -> Option<usize> {
    blank_line(block).map(|line| line.end)
}

/// Returns the total size, in bytes, of the interim responses (1xx; RFC 9110, section 15.2) before the
/// final response.
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
        // WARC validators also accept a line of white space as the end of the header.
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

/// Returns the length of the header at the start of these bytes, including its empty line. Returns
/// `None` if the header is incomplete; `from` is the number of bytes that were searched before.
pub fn length(bytes: &[u8], from: usize) -> Option<usize> {
    // The end of the header may have begun in the bytes that were searched before.
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

/// Returns the end of the line that starts at `from`, including its line end.
fn line_end(bytes: &[u8], from: usize) -> usize {
    memchr::memchr(b'\n', &bytes[from..]).map_or(bytes.len(), |at| from + at + 1)
}

fn without_end(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests;
