//! Lines of CDX and CDXJ, and the rows that are made from them.

use std::sync::{Arc, LazyLock};

use aho_corasick::packed::Searcher;
use bytes::Bytes;
use crawlspace_cdx::{Field, Format, Line, Read};

use crate::row::{Row, members, push_with, quote, text};
use crate::source::Batch;

/// Maximum number of digits of a timestamp.
const MAX_DIGITS: usize = 20;
/// Number of digits of a timestamp with minutes.
const MINUTE: usize = 12;
/// The zone that warcio for JavaScript 2.4 writes after the digits, if a `WARC-Date` ends with the minute.
const ZONE: u8 = b'Z';

/// Fields of a line of columns that its JSON has after the URL, in their order.
pub const FIELDS: [Field; 8] = [
    Field::Mime,
    Field::Status,
    Field::Digest,
    Field::Redirect,
    Field::Robotflags,
    Field::Length,
    Field::Offset,
    Field::Filename,
];

/// Members that describe the origin of a row. The source sets these members itself.
const SOURCE_MEMBERS: [&str; 5] = [
    "source",
    "source-coll",
    "source_type",
    "live_url",
    "load_url",
];

/// The positions of the urlkey and of the timestamp in a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Length of the urlkey in bytes.
    pub key: usize,
    /// Offset of the end of the timestamp in bytes, including the `Z` that may follow its digits.
    pub second: usize,
    /// True if the index has another form of the urlkey as the key.
    pub is_respelled: bool,
}

impl Shape {
    /// Finds the urlkey and the timestamp at the start of a line. Returns `None` if the urlkey or the
    /// timestamp is missing; the rest of the line is not checked. The timestamp has 1 to 20 digits. A `Z` after 12 or
    /// more digits is accepted.
    #[inline]
    pub fn of(line: &[u8]) -> Option<Shape> {
        let key = memchr::memchr(b' ', line)?;
        let rest = line.get(key + 1..)?;
        let digits = match rest.first_chunk::<15>() {
            // Nearly all timestamps have 14 digits.
            Some([digits @ .., b' ']) if digits.iter().all(u8::is_ascii_digit) => 14,
            _ => rest.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        };
        let zone = match rest.get(digits..) {
            Some([b' ', ..]) => 0,
            Some([ZONE, b' ', ..]) if digits >= MINUTE => 1,
            _ => return None,
        };
        (key > 0 && (1..=MAX_DIGITS).contains(&digits)).then_some(Shape {
            key,
            second: key + 1 + digits + zone,
            is_respelled: false,
        })
    }

    /// Returns the digits of the timestamp.
    #[inline]
    pub(crate) fn timestamp(self, line: &[u8]) -> &[u8] {
        &line[self.key + 1..self.second - usize::from(self.has_zone(line))]
    }

    /// Returns true if a `Z` follows the digits of the timestamp.
    #[inline]
    pub(crate) fn has_zone(self, line: &[u8]) -> bool {
        line[self.second - 1] == ZONE
    }

    /// Returns the urlkey and the timestamp, by which the lines of a file are sorted.
    #[inline]
    pub fn both(self, line: &[u8]) -> &[u8] {
        &line[..self.second]
    }
}

/// Removes trailing white space from a line.
#[inline]
pub fn trimmed(line: &[u8]) -> &[u8] {
    match line {
        [.., b'}'] => line,
        _ => line.trim_ascii_end(),
    }
}

/// Returns whether a line is valid without a capture: it is blank, or the ` CDX …` header of an index.
pub fn is_no_capture(line: &[u8]) -> bool {
    line.is_empty() || line.starts_with(b" CDX") || line.starts_with(b"CDX ")
}

/// The reasons why the JSON of a line may have to be parsed before it is used.
#[derive(Clone, Copy, Debug, Default)]
struct Marks {
    /// The JSON may have a member that the source sets itself.
    may_have_own: bool,
    /// The JSON may have several URLs. Access rules might be checked for one URL, while readers use another URL.
    may_have_urls: bool,
}

impl Marks {
    fn of(json: &[u8]) -> Marks {
        const OWN: [&str; 2] = ["\"source", "_url\""];
        // Search for the names of the URL member. A name may contain a letter that is written as an escape.
        const URL: [&str; 3] = ["\"url\"", "\"original\"", "\\u00"];
        // `None` on processors without vector instructions, where the JSON of each line is parsed.
        static ALL: LazyLock<Option<Searcher>> =
            LazyLock::new(|| Searcher::new(OWN.iter().chain(&URL)));
        let Some(all) = &*ALL else {
            return Marks {
                may_have_own: true,
                may_have_urls: true,
            };
        };
        let (mut marks, mut urls) = (Marks::default(), 0);
        for found in all.find_iter(json) {
            match found.pattern().as_usize() {
                0 | 1 => marks.may_have_own = true,
                2 => urls += 1,
                _ => urls += 2,
            }
        }
        marks.may_have_urls = urls > 1;
        marks
    }
}

#[cold]
fn is_about_one_url(json: &[u8]) -> bool {
    // Names may be written with escapes.
    let Some(members) = members(json) else {
        return true;
    };
    let urls = members.iter();
    let urls = urls.filter(|(name, _)| Field::named(name.as_bytes()) == Field::Url);
    let mut urls = urls.map(|(_, value)| text(value));
    let first = urls.next();
    urls.all(|url| Some(url) == first)
}

/// Converts lines to rows. The rows of a batch share their memory.
pub struct Writer {
    members: Arc<str>,
    text: Vec<u8>,
    /// Start, end, [`Shape`] and package number of each row.
    rows: Vec<(usize, usize, Shape, u64)>,
    /// The urlkey and the timestamp of the last row of the previous batch.
    last: Vec<u8>,
    /// The urlkey and the timestamp of the last row as written in its file. Only set if that timestamp ends with a
    /// `Z`, which the row omits.
    zoned: Option<Vec<u8>>,
}

impl Writer {
    /// Creates a writer that appends `members` to each row.
    pub fn new(members: Arc<str>) -> Writer {
        Writer {
            members,
            text: Vec::new(),
            rows: Vec::new(),
            last: Vec::new(),
            zoned: None,
        }
    }

    /// Returns the number of rows, and of bytes.
    pub fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.text.len())
    }

    /// Returns the urlkey and the timestamp of the last row; empty before the first row.
    #[inline]
    pub(crate) fn last(&self) -> &[u8] {
        match self.rows.last() {
            _ if self.zoned.is_some() => self.zoned.as_deref().unwrap_or_default(),
            Some((begin, end, shape, _)) => shape.both(&self.text[*begin..*end]),
            None => &self.last,
        }
    }

    /// Reserves memory for this number of bytes.
    pub(crate) fn expect(&mut self, bytes: usize) {
        self.text.reserve(bytes);
    }

    /// Adds a row for a line without its line end; `package` is the number of its package, or 0. Returns false if the
    /// line is invalid.
    #[inline]
    pub fn push(&mut self, line: &[u8], shape: Shape, package: u64) -> bool {
        if shape.has_zone(line) {
            return self.push_without_zone(line, shape, package);
        }
        let begin = self.text.len();
        let json = &line[shape.second + 1..];
        let written = match json {
            [b'{', .., b'}'] => {
                let marks = Marks::of(json);
                if marks.may_have_urls && !is_about_one_url(json) {
                    false
                } else if marks.may_have_own {
                    self.rewrite(line, shape, json)
                } else {
                    push_with(line, &self.members, &mut self.text);
                    true
                }
            }
            [b'{', ..] => false,
            _ => self.columns(line, shape),
        };
        if written {
            self.rows.push((begin, self.text.len(), shape, package));
            self.zoned = None;
        } else {
            self.text.truncate(begin);
        }
        written
    }

    /// Adds a row without the `Z` after the digits of the timestamp.
    #[cold]
    fn push_without_zone(&mut self, line: &[u8], shape: Shape, package: u64) -> bool {
        let (begin, rest) = line.split_at(shape.second);
        let plain = [&begin[..begin.len() - 1], rest].concat();
        let second = shape.second - 1;
        let written = self.push(&plain, Shape { second, ..shape }, package);
        if written {
            self.zoned = Some(begin.to_vec());
        }
        written
    }

    /// Takes the rows that were added so far.
    pub fn take(&mut self) -> Batch {
        self.last = self.last().to_vec();
        self.zoned = None;
        let text = Bytes::from(std::mem::take(&mut self.text));
        let rows = self
            .rows
            .drain(..)
            .filter_map(|(begin, end, shape, package)| {
                let key = u32::try_from(shape.key).ok()?;
                let second = u32::try_from(shape.second).ok()?;
                let row = Row::in_parts(text.slice(begin..end), key, second);
                Some(row.read_from(package, shape.is_respelled))
            });
        rows.collect()
    }

    /// Writes a line of JSON without the members that the source sets itself.
    #[cold]
    fn rewrite(&mut self, line: &[u8], shape: Shape, json: &[u8]) -> bool {
        let json = String::from_utf8_lossy(json);
        let Some(members) = members(json.as_bytes()) else {
            return false;
        };
        self.text.extend_from_slice(shape.both(line));
        self.text.extend_from_slice(b" {");
        for (name, value) in members {
            if !SOURCE_MEMBERS.contains(&&*name) {
                quote(name.as_bytes(), &mut self.text);
                self.text.extend_from_slice(b": ");
                self.text.extend_from_slice(value.get().as_bytes());
                self.text.extend_from_slice(b", ");
            }
        }
        self.text.extend_from_slice(self.members.as_bytes());
        self.text.push(b'}');
        true
    }

    /// Writes a line of columns as a line of JSON. A column `-` becomes a member `-`. Therefore, a revisit keeps a
    /// status, which the status of its original can replace, and the columns of `output=text` stay aligned.
    fn columns(&mut self, line: &[u8], shape: Shape) -> bool {
        let Ok(Read::Capture(read)) = Line::read(line, Format::Cdx) else {
            return false;
        };
        self.text.extend_from_slice(shape.both(line));
        self.text.extend_from_slice(b" {");
        let orig = [Field::OrigLength, Field::OrigOffset, Field::OrigFilename];
        let orig = orig.into_iter().filter(|field| {
            let value = read.field(field).unwrap_or_default();
            !value.is_empty() && *value != *b"-"
        });
        let fields = std::iter::once(Field::Url).chain(FIELDS);
        let fields = fields.filter(|field| read.has(field));
        for field in fields.chain(orig) {
            let value = read.field(&field).unwrap_or_default();
            quote(field.name(), &mut self.text);
            self.text.extend_from_slice(b": ");
            quote(&value, &mut self.text);
            self.text.extend_from_slice(b", ");
        }
        self.text.extend_from_slice(self.members.as_bytes());
        self.text.push(b'}');
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(line: &str) -> Option<String> {
        let line = trimmed(line.as_bytes());
        let mut writer = Writer::new(Arc::from(r#""source": "a", "source_type": "file""#));
        let made = writer.push(line, Shape::of(line)?, 0);
        let rows = writer.take();
        assert_eq!(made, !rows.is_empty());
        let row = rows.first()?;
        assert_eq!(Row::new(row.line().clone()).as_ref(), Some(row));
        Some(String::from_utf8_lossy(row.line()).into_owned())
    }

    #[test]
    fn row_names_its_source_and_copies_the_line() {
        for (line, expected) in [
            (
                "k 2016 {}",
                r#"k 2016 {"source": "a", "source_type": "file"}"#,
            ),
            (
                "k 20160 {}",
                r#"k 20160 {"source": "a", "source_type": "file"}"#,
            ),
            (
                "k 201601020304Z {}",
                r#"k 201601020304 {"source": "a", "source_type": "file"}"#,
            ),
            (
                "k 20160102030405Z http://a/ text/html 200 D 12",
                r#"k 20160102030405 {"url": "http://a/", "mime": "text/html", "status": "200", "digest": "D", "length": "12", "source": "a", "source_type": "file"}"#,
            ),
            (
                "k 2016 {\"url\":\"u\"} \r",
                r#"k 2016 {"url":"u", "source": "a", "source_type": "file"}"#,
            ),
            (
                r#"k 2016 {"source": "z", "a": [1, {"source": 2}], "live_url": "http://a/", "sourc\u0065_type": 1, "b": "\"source"}"#,
                r#"k 2016 {"a": [1, {"source": 2}], "b": "\"source", "source": "a", "source_type": "file"}"#,
            ),
            (
                "k 20160102030405 http://a/ text/html 200 D - - 12 34 a.warc.gz",
                r#"k 20160102030405 {"url": "http://a/", "mime": "text/html", "status": "200", "digest": "D", "redirect": "-", "robotflags": "-", "length": "12", "offset": "34", "filename": "a.warc.gz", "source": "a", "source_type": "file"}"#,
            ),
            (
                "k 20160102030405 http://a/ warc/revisit - D - 34 a.warc.gz",
                r#"k 20160102030405 {"url": "http://a/", "mime": "warc/revisit", "status": "-", "digest": "D", "redirect": "-", "offset": "34", "filename": "a.warc.gz", "source": "a", "source_type": "file"}"#,
            ),
            (
                "k 2016 http://a/\"\\ é 200 D 12",
                r#"k 2016 {"url": "http://a/\"\\", "mime": "é", "status": "200", "digest": "D", "length": "12", "source": "a", "source_type": "file"}"#,
            ),
        ] {
            assert_eq!(row(line).as_deref(), Some(expected));
        }
    }

    #[test]
    fn line_with_two_urls_makes_no_row() {
        for json in [
            r#"{"url": "http://a/", "url": "http://b/"}"#,
            r#"{"url": "http://a/", "original": "http://b/"}"#,
            r#"{"url": "http://a/", "\u0075rl": "http://b/"}"#,
            r#"{"source": "x", "url": "http://a/", "url": null}"#,
        ] {
            assert_eq!(row(&format!("k 2016 {json}")), None, "{json}");
        }
        for json in [
            r#"{"url": "http://a/", "url": "http:\/\/a/"}"#,
            r#"{"url": "http://a/", "x": {"url": "http://b/"}, "live_urls": "\"url\": 1"}"#,
            r#"{"original": "http://a/"}"#,
        ] {
            assert!(row(&format!("k 2016 {json}")).is_some(), "{json}");
        }
    }

    #[test]
    fn invalid_line_makes_no_row() {
        for line in [
            "",
            " ",
            "k",
            "k 2016",
            "k 2016 ",
            " 2016 {}",
            "k x {}",
            "k 2016x {}",
            "k 20160102Z {}",
            "k Z {}",
            "k 201601020304ZZ {}",
            "k 201601020304Z",
            "k 123456789012345678901 {}",
            "k 2016 {",
            "k 2016 {\"source\" 1}",
            "k 2016 three columns more",
            " CDX N b a m s k r M S V g",
        ] {
            assert_eq!(row(line), None, "{line:?}");
        }
    }
}
