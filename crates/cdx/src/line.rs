//! A line of an index. Reading a CDX line only counts its columns; fields are extracted on demand, because
//! most queries only need the filename near the end.

mod columns;
mod header;
mod json;
mod spaces;

use std::borrow::Cow;
use std::fmt;

use crate::Field;
use json::Object;
use spaces::Spaces;

/// Format of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// CDXJ if the third column begins with `{`, otherwise CDX.
    Auto,
    /// CDX with 7, 9, 10, 11, 12, 13 or 14 columns, separated by single spaces.
    Cdx,
    /// `urlkey timestamp {json}`.
    Cdxj,
    /// Name of a WARC file as the whole line.
    File,
    /// A RECORD id: `urlkey timestamp filename offset`, with `-` for missing values.
    Record,
}

impl Format {
    /// Parses the name of a format, case-insensitively.
    ///
    /// ```
    /// use crawlspace_cdx::Format;
    /// assert_eq!(Format::parse(b"cdxJ"), Some(Format::Cdxj));
    /// assert_eq!(Format::parse(b"json"), None);
    /// ```
    pub fn parse(word: &[u8]) -> Option<Format> {
        [
            Format::Auto,
            Format::Cdx,
            Format::Cdxj,
            Format::File,
            Format::Record,
        ]
        .into_iter()
        .find(|format| format.name().as_bytes().eq_ignore_ascii_case(word))
    }

    /// Returns the name of the format, in capitals.
    pub fn name(self) -> &'static str {
        match self {
            Format::Auto => "AUTO",
            Format::Cdx => "CDX",
            Format::Cdxj => "CDXJ",
            Format::File => "FILE",
            Format::Record => "RECORD",
        }
    }

    /// Returns true if lines of this format can be CDXJ, whose fields may have any name.
    pub fn may_have_json(self) -> bool {
        matches!(self, Format::Auto | Format::Cdxj)
    }

    /// Returns the maximum number of columns in lines of this format; see [`Line::columns`].
    pub fn columns(self) -> usize {
        match self {
            Format::Auto | Format::Cdx => COLUMNS,
            Format::Cdxj => LEADING.len(),
            Format::Record => 2,
            Format::File => 0,
        }
    }
}

/// Result of reading a line.
#[derive(Clone, Debug)]
pub enum Read<'a> {
    /// A blank line, or the ` CDX …` header of an index with a supported order of columns.
    Skipped,
    /// A capture.
    Capture(Line<'a>),
}

/// The line of a capture. It borrows the bytes from which it was read.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    raw: &'a [u8],
    /// End of the second column, in the formats that have columns.
    second_end: usize,
    shape: Shape<'a>,
}

#[derive(Clone, Debug)]
enum Shape<'a> {
    Cdx {
        // The type is a whole machine word. If the struct had padding, the compiler would copy it in
        // several steps that depend on each other.
        width: usize,
        /// Offset of the start of the last column.
        last: usize,
    },
    Cdxj(Object<'a>),
    File,
    Record,
}

/// Value of a field for which the line has no column.
const NONE: &[u8] = b"-";

/// Maximum number of columns of a CDX line.
const COLUMNS: usize = 14;

/// The first columns, which are the same in CDX lines of every width.
const LEADING: [Field; 6] = [
    Field::Urlkey,
    Field::Timestamp,
    Field::Url,
    Field::Mime,
    Field::Status,
    Field::Digest,
];

impl<'a> Line<'a> {
    /// Reads one line, with or without its line feed. Takes time linear in its length.
    ///
    /// ```
    /// use crawlspace_cdx::{Field, Format, Line, Read};
    /// let raw = br#"org,example)/ 20240102030405 {"url": "http://example.org/", "status": 200}"#;
    /// let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
    /// assert_eq!(line.format(), Format::Cdxj);
    /// assert_eq!(line.field(&Field::Status).unwrap(), &b"200"[..]);
    ///
    /// assert!(matches!(Line::read(b" CDX N b a m s k S", Format::Auto), Ok(Read::Skipped)));
    /// assert!(Line::read(b"three columns only", Format::Auto).is_err());
    /// ```
    ///
    /// # Errors
    /// Fails when the line is malformed; the error contains the reason and the position. Also fails when the
    /// line is the header of a CDX file whose columns are in a different order than in [`Format::Cdx`]; see
    /// [`BadLine::is_order`].
    #[inline]
    pub fn read(raw: &'a [u8], format: Format) -> Result<Read<'a>, BadLine> {
        let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
        let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
        if raw.first().is_none_or(|b| b.is_ascii_whitespace()) && is_skipped(raw) {
            return header_read(raw, format);
        }
        if format == Format::File {
            one_line(raw)?;
            return Ok(Read::Capture(Line {
                raw,
                second_end: 0,
                shape: Shape::File,
            }));
        }
        // This also counts all spaces of a CDXJ line, although only its first two spaces separate columns.
        // Counting is a small part of the cost.
        let spaces = Spaces::of(raw);
        if spaces.count == 0 {
            return Err(BadLine(Reason::Columns(1, format)));
        }
        let second = spaces.first + 1;
        let second_end = second + columns::timestamp_end(&raw[second..], format);
        if second_end == second || raw.get(second_end).is_some_and(|&b| b != b' ') {
            return header_read(raw, format).and(Err(BadLine(Reason::Timestamp)));
        }
        let is_json = raw.get(second_end + 1) == Some(&b'{');
        let shape = match format {
            Format::Auto | Format::Cdxj if is_json => {
                Object::read(raw, second_end + 1).map(Shape::Cdxj)
            }
            Format::Cdxj => Err(Reason::NoJson),
            _ => columns::check(raw, spaces, format),
        }
        .map_err(BadLine)?;
        // Between JSON tokens, line ends and tabs are insignificant.
        if spaces.broken && !(is_json && format.may_have_json()) {
            return Err(BadLine(Reason::LineEnd));
        }
        if spaces.broken {
            one_line(&raw[..second])?;
        }
        Ok(Read::Capture(Line {
            raw,
            second_end,
            shape,
        }))
    }

    /// Returns the line as read, without its line end.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Returns the format of the line; never [`Format::Auto`].
    pub fn format(&self) -> Format {
        match self.shape {
            Shape::Cdx { .. } => Format::Cdx,
            Shape::Cdxj(_) => Format::Cdxj,
            Shape::File => Format::File,
            Shape::Record => Format::Record,
        }
    }

    /// Returns the value of a field. For a standard field that has no column in the format, returns `-`; for
    /// a field that is missing from a CDXJ line or is `null`, returns an empty value. JSON strings are
    /// decoded, numbers and booleans are returned as written, and arrays and objects as JSON. Returns `None`
    /// only for [`Field::Other`] if the line is not CDXJ.
    ///
    /// ```
    /// use crawlspace_cdx::{Field, Format, Line, Read};
    /// let raw = b"org,example)/ 20240102030405 http://example.org/ text/html 200 SHA1AAAA 1043";
    /// let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
    /// assert_eq!(line.field(&Field::Mime).unwrap(), &b"text/html"[..]);
    /// assert_eq!(line.field(&Field::Filename).unwrap(), &b"-"[..]);
    /// assert_eq!(line.field(&Field::named(b"languages")), None);
    /// ```
    pub fn field(&self, field: &Field) -> Option<Cow<'a, [u8]>> {
        let column = match &self.shape {
            Shape::Cdxj(object) => match field {
                Field::Urlkey | Field::Timestamp => self.leading(field),
                _ => return Some(object.text(field).unwrap_or_default()),
            },
            Shape::Cdx { width, .. } => match field {
                Field::Urlkey | Field::Timestamp => self.leading(field),
                Field::Other(_) => return None,
                _ => columns::of_cdx(self.raw, *width, field).unwrap_or(NONE),
            },
            Shape::Record => match field {
                Field::Urlkey | Field::Timestamp => self.leading(field),
                Field::Filename => columns::from_right(self.raw, 1),
                Field::Offset => columns::from_right(self.raw, 0),
                Field::Other(_) => return None,
                _ => NONE,
            },
            Shape::File => match field {
                Field::Filename => self.raw,
                Field::Other(_) => return None,
                _ => NONE,
            },
        };
        Some(Cow::Borrowed(column))
    }

    /// Returns the JSON members of a CDXJ line in order: decoded names, and values as written. Empty for
    /// lines of other formats.
    pub fn members(&self) -> &[(Cow<'a, str>, &'a str)] {
        match &self.shape {
            Shape::Cdxj(object) => &object.members,
            _ => &[],
        }
    }

    /// Returns the number of columns that can be addressed by number: all columns of a CDX line; for other
    /// formats, the columns that have the same position in every CDX line.
    ///
    /// ```
    /// use crawlspace_cdx::{Format, Line, Read};
    /// let raw = b"org,example)/ 20240102030405 http://example.org/ text/html 200 SHA1AAAA 1043";
    /// let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
    /// assert_eq!(line.columns(), 7);
    /// assert_eq!(line.column(4).unwrap(), &b"200"[..]);
    /// assert_eq!(line.column(7), None);
    ///
    /// let raw = br#"org,example)/ 20240102030405 {"status": "200", "filename": "a.warc.gz"}"#;
    /// let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
    /// assert_eq!((line.columns(), line.column(4).unwrap()), (6, b"200"[..].into()));
    /// ```
    pub fn columns(&self) -> usize {
        match self.shape {
            Shape::Cdx { width, .. } => width,
            _ => self.format().columns(),
        }
    }

    /// Returns the column with this number, starting at 0. Returns `None` if the line has fewer
    /// [`columns`](Line::columns).
    pub fn column(&self, number: usize) -> Option<Cow<'a, [u8]>> {
        if number >= self.columns() {
            return None;
        }
        match (&self.shape, LEADING.get(number)) {
            (_, Some(field)) => self.field(field),
            (Shape::Cdx { width, .. }, None) => {
                let skipped = width - 1 - number;
                Some(Cow::Borrowed(columns::from_right(self.raw, skipped)))
            }
            _ => None,
        }
    }

    /// Returns true if the line has its own value for the field, even an empty one.
    ///
    /// ```
    /// use crawlspace_cdx::{Field, Format, Line, Read};
    /// let raw = br#"org,example)/ 2024 {"url": "http://example.org/", "languages": null}"#;
    /// let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
    /// assert!(line.has(&Field::named(b"languages")));
    /// assert!(!line.has(&Field::Mime));
    /// ```
    pub fn has(&self, field: &Field) -> bool {
        match (&self.shape, field) {
            (Shape::File, _) => *field == Field::Filename,
            (_, Field::Urlkey | Field::Timestamp) => true,
            (Shape::Cdxj(object), _) => object.text(field).is_some(),
            (Shape::Cdx { width, .. }, _) => columns::of_cdx(self.raw, *width, field).is_some(),
            (Shape::Record, _) => matches!(field, Field::Filename | Field::Offset),
        }
    }

    /// Returns [`Line::field`] of [`Field::Filename`], which most callers need for every line.
    ///
    /// ```
    /// use crawlspace_cdx::{Format, Line, Read};
    /// let Ok(Read::Capture(line)) = Line::read(b"2024/a.warc.gz", Format::File) else { panic!() };
    /// assert_eq!(line.filename(), &b"2024/a.warc.gz"[..]);
    /// ```
    #[inline]
    pub fn filename(&self) -> Cow<'a, [u8]> {
        match &self.shape {
            Shape::Cdx { width, last } => Cow::Borrowed(columns::filename(self.raw, *width, *last)),
            Shape::Record => Cow::Borrowed(columns::from_right(self.raw, 1)),
            Shape::File => Cow::Borrowed(self.raw),
            Shape::Cdxj(object) => object.text(&Field::Filename).unwrap_or_default(),
        }
    }

    /// Overwrites `into` with the RECORD id: `urlkey timestamp filename offset`, with `-` for missing values.
    ///
    /// ```
    /// use crawlspace_cdx::{Format, Line, Read};
    /// let raw = br#"org,example)/ 20240102030405 {"filename": "a.warc.gz", "offset": "43"}"#;
    /// let Ok(Read::Capture(line)) = Line::read(raw, Format::Auto) else { panic!() };
    /// let mut id = Vec::new();
    /// line.record_id(&mut id);
    /// assert_eq!(id, b"org,example)/ 20240102030405 a.warc.gz 43");
    /// ```
    pub fn record_id(&self, into: &mut Vec<u8>) {
        into.clear();
        match self.shape {
            Shape::Record => return into.extend_from_slice(self.raw),
            Shape::File => into.extend_from_slice(b"- -"),
            _ => into.extend_from_slice(&self.raw[..self.second_end]),
        }
        let filename = self.filename();
        // A FILE line has neither an offset nor columns.
        let offset = self.field(&Field::Offset).unwrap_or_default();
        for value in [&filename, &offset] {
            into.push(b' ');
            into.extend_from_slice(if value.is_empty() { NONE } else { value });
        }
    }

    /// Returns the first or the second column.
    fn leading(&self, field: &Field) -> &'a [u8] {
        let both = &self.raw[..self.second_end];
        // The second column contains no space.
        let space = memchr::memrchr(b' ', both).unwrap_or(both.len());
        match field {
            Field::Urlkey => &both[..space],
            _ => &both[space + 1..],
        }
    }
}

/// Returns true for a blank line or a header.
#[cold]
fn is_skipped(raw: &[u8]) -> bool {
    raw.trim_ascii().is_empty() || raw.starts_with(b" CDX")
}

/// Reads a header. Fails if the columns of the CDX lines below the header are in an unsupported
/// order.
#[cold]
fn header_read(raw: &[u8], format: Format) -> Result<Read<'_>, BadLine> {
    match (format, header::unread_order(raw)) {
        (Format::Auto | Format::Cdx, Some(letters)) => Err(BadLine(Reason::Order(letters))),
        _ => Ok(Read::Skipped),
    }
}

/// Splits bytes into lines at line feeds. Lines contain neither the line feed nor a carriage return
/// before it. The last line may lack a line feed; a final line feed does not produce an empty line.
///
/// ```
/// let found: Vec<_> = crawlspace_cdx::lines(b"a\r\n\nb").collect();
/// assert_eq!(found, [&b"a"[..], b"", b"b"]);
/// ```
pub fn lines(blob: &[u8]) -> Lines<'_> {
    Lines { rest: blob }
}

/// Iterator returned by [`lines`].
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Returns the part of the text that has not been split yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let Some(end) = memchr::memchr(b'\n', self.rest) else {
            return match std::mem::take(&mut self.rest) {
                [] => None,
                last => Some(last.strip_suffix(b"\r").unwrap_or(last)),
            };
        };
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Rejects bytes that contain a line end, which would corrupt names.
#[inline]
fn one_line(text: &[u8]) -> Result<(), BadLine> {
    match memchr::memchr2(b'\r', b'\n', text) {
        None => Ok(()),
        Some(_) => Err(BadLine(Reason::LineEnd)),
    }
}

/// Error: a line that is invalid in its format. [`Display`](fmt::Display) shows the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadLine(Reason);

impl BadLine {
    /// Returns true for a header with an unsupported order of columns. The columns of the lines below such
    /// a header would be misinterpreted. Therefore, a reader that skips bad lines must stop at the header.
    ///
    /// ```
    /// use crawlspace_cdx::{Format, Line};
    /// let bad = Line::read(b" CDX a b a m s k r M V g u", Format::Auto).unwrap_err();
    /// assert!(bad.is_order());
    /// ```
    pub fn is_order(&self) -> bool {
        matches!(self.0, Reason::Order(_))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    /// An unsupported number of columns for the format.
    Columns(usize, Format),
    /// Number of an empty column, starting at 1.
    Empty(usize),
    Timestamp,
    /// Number of a column that must be numeric, starting at 1.
    Number(usize),
    /// A tab, or a line end in the middle of the line.
    LineEnd,
    NoJson,
    /// The column letters of a header.
    Order(Box<str>),
    Utf8(usize),
    /// Description of the error, and byte offset in the line.
    Json(Box<str>, Option<usize>),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Reason::Columns(n, format) => {
                let s = if *n == 1 { "" } else { "s" };
                let wanted = match format {
                    Format::Record => "RECORD ids have 4",
                    Format::Cdxj => "CDXJ has 3",
                    _ => "CDX has 7, 9, 10, 11, 12, 13 or 14",
                };
                write!(f, "{n} column{s}, where {wanted}")
            }
            Reason::Empty(column) => write!(f, "column {column} is empty"),
            Reason::Timestamp => {
                write!(f, "its second column must be a timestamp of digits")
            }
            Reason::Number(column) => write!(
                f,
                "column {column} must be a number or '-'; check the other columns for spaces"
            ),
            Reason::LineEnd => write!(f, "it contains a tab or a line break"),
            Reason::NoJson => write!(f, "its third column must be a JSON object"),
            Reason::Order(letters) => write!(
                f,
                "its header names columns in an unsupported order: {letters}; write the index with the columns \
                 N b a m s k r M S V g, or as CDXJ"
            ),
            Reason::Utf8(at) => write!(f, "its JSON is not UTF-8 at byte {at} of the line"),
            Reason::Json(what, at) => {
                write!(f, "its JSON is malformed: {what}")?;
                at.map_or(Ok(()), |at| write!(f, " at byte {at} of the line"))
            }
        }
    }
}

impl std::error::Error for BadLine {}

#[cfg(test)]
mod tests;
