//! A row: a capture of an index, as sources return it.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::ops::Range;

use bytes::Bytes;
use crawlspace_cdx::{Field, Format, Line, Read};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A capture: a line of CDXJ, `urlkey timestamp {json}`, without its line end.
///
/// The JSON names the source (`source`, `source_type`) and the position of the record: `live_url`, or `filename`,
/// `offset` and `length`. The row shares the memory of the batch that it was read in.
#[derive(Clone, Debug)]
pub struct Row {
    line: Bytes,
    /// Offsets of the end of the urlkey and of the end of the timestamp.
    key: u32,
    second: u32,
    /// Number of the package that the row was read from, or 0.
    package: u64,
    is_respelled: bool,
    /// The original line, if its members about the original of a revisit were removed.
    whole: Option<Box<Bytes>>,
}

/// The members that locate the original of a revisit.
const ORIGINAL: [Field; 3] = [Field::OrigLength, Field::OrigOffset, Field::OrigFilename];

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.line == other.line
    }
}

impl Eq for Row {}

impl Row {
    /// Creates a row from a line. Returns `None` if the line lacks one of the three parts; the content of the
    /// JSON is not checked.
    pub fn new(line: Bytes) -> Option<Row> {
        let key = memchr::memchr(b' ', &line)?;
        let second = key + 1 + memchr::memchr(b' ', &line[key + 1..])?;
        let digits = &line[key + 1..second];
        let json = &line[second + 1..];
        let shaped = !digits.is_empty()
            && digits.len() <= 20
            && digits.iter().all(u8::is_ascii_digit)
            && json.starts_with(b"{")
            && json.ends_with(b"}");
        Some(Row {
            key: u32::try_from(key).ok()?,
            second: u32::try_from(second).ok().filter(|_| shaped)?,
            line,
            package: 0,
            is_respelled: false,
            whole: None,
        })
    }

    /// Creates a row from a line whose parts are known: the urlkey ends at `key`, the timestamp at `second`. Wrong
    /// offsets produce a row with wrong parts.
    pub fn in_parts(line: Bytes, key: u32, second: u32) -> Row {
        let last = u32::try_from(line.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        let second = second.min(last);
        Row {
            line,
            key: key.min(second.saturating_sub(1)),
            second,
            package: 0,
            is_respelled: false,
            whole: None,
        }
    }

    /// Sets the number of the package that the row was read from, or 0, and whether the index has
    /// another form of the urlkey as the key.
    pub(crate) fn read_from(mut self, package: u64, is_respelled: bool) -> Row {
        (self.package, self.is_respelled) = (package, is_respelled);
        self
    }

    /// Copies the package and the flag of [`is_respelled`](Row::is_respelled) from the row that this row was
    /// derived from.
    pub fn made_of(self, other: &Row) -> Row {
        self.read_from(other.package, other.is_respelled)
    }

    /// Returns whether the index has another form of the urlkey as the key.
    pub fn is_respelled(&self) -> bool {
        self.is_respelled
    }

    /// Returns the number of the package that the row was read from, or 0. The number is only valid in this process.
    pub fn package(&self) -> u64 {
        self.package
    }

    /// Copies rows into separate memory, so that they do not keep their batches alive.
    pub fn detached(rows: &[Row]) -> Vec<Row> {
        let mut lines = Vec::with_capacity(rows.iter().map(Row::size).sum());
        for row in rows {
            lines.extend_from_slice(&row.line);
            lines.extend_from_slice(row.whole.as_deref().unwrap_or(&Bytes::new()));
        }
        let mut lines = Bytes::from(lines);
        let detached = |row: &Row| Row {
            line: lines.split_to(row.line.len()),
            whole: row
                .whole
                .as_ref()
                .map(|whole| Box::new(lines.split_to(whole.len()))),
            ..*row
        };
        rows.iter().map(detached).collect()
    }

    /// Returns the total length of the row's lines in bytes.
    pub fn size(&self) -> usize {
        self.line.len() + self.whole.as_ref().map_or(0, |whole| whole.len())
    }

    /// Returns the whole line.
    pub fn line(&self) -> &Bytes {
        &self.line
    }

    /// Returns the urlkey: `com,example)/path`.
    pub fn urlkey(&self) -> &[u8] {
        &self.line[..self.key as usize]
    }

    /// Returns the digits of the timestamp, usually 14.
    pub fn timestamp(&self) -> &[u8] {
        &self.line[self.key as usize + 1..self.second as usize]
    }

    /// Returns the JSON object, including its braces.
    pub fn json(&self) -> &[u8] {
        &self.line[self.second as usize + 1..]
    }

    /// Parses the line, for filters and field selection. Returns `None` if the JSON is invalid.
    pub fn capture(&self) -> Option<Line<'_>> {
        match Line::read(&self.line, Format::Cdxj) {
            Ok(Read::Capture(line)) => Some(line),
            _ => None,
        }
    }

    /// Returns the value of a field, by any of its names; empty if it is missing. To read more than one field of a row,
    /// use its [`capture`](Row::capture).
    pub fn field(&self, name: &str) -> String {
        let field = Field::named(name.as_bytes());
        self.capture()
            .and_then(|line| {
                let value = line.field(&field)?;
                Some(String::from_utf8_lossy(&value).into_owned())
            })
            .unwrap_or_default()
    }

    /// Returns a copy of the row with these members, as [`member`] writes them, appended to its JSON.
    pub fn with(&self, members: &str) -> Row {
        let mut line = Vec::with_capacity(self.line.len() + members.len() + 2);
        push_with(&self.line, members, &mut line);
        Row {
            line: line.into(),
            whole: self.whole.clone(),
            ..*self
        }
    }

    /// Removes the members that locate the original of a revisit from the line; [`original`](Row::original) still
    /// returns them. Returns `None` if the JSON is invalid.
    pub fn without_original(self) -> Option<Row> {
        let json = self.json();
        // Names may be written with escapes.
        if memchr::memmem::find(json, b"orig").is_none() && memchr::memchr(b'\\', json).is_none() {
            return Some(self);
        }
        let is_of_original = |name: &str| ORIGINAL.contains(&Field::named(name.as_bytes()));
        let all = members(json)?;
        if !all.iter().any(|(name, _)| is_of_original(name)) {
            return Some(self);
        }
        let mut kept = String::new();
        for (name, value) in all.iter().filter(|(name, _)| !is_of_original(name)) {
            written(name, value.get(), &mut kept);
        }
        let parts = &self.line[..=self.second as usize];
        let line = [parts, b"{", kept.as_bytes(), b"}"].concat();
        Some(Row {
            line: line.into(),
            whole: Some(Box::new(self.line)),
            ..self
        })
    }

    /// Returns the capture including the members removed by [`without_original`](Row::without_original).
    /// Returns `None` if the JSON is invalid.
    pub fn original(&self) -> Option<Line<'_>> {
        let line = self.whole.as_deref().unwrap_or(&self.line);
        match Line::read(line, Format::Cdxj) {
            Ok(Read::Capture(line)) => Some(line),
            _ => None,
        }
    }
}

/// Appends a line of CDXJ, with these members added at the end of its JSON, to a buffer. The lines of a batch can share
/// one buffer.
pub(crate) fn push_with(line: &[u8], members: &str, into: &mut Vec<u8>) -> Range<usize> {
    let begin = into.len();
    let body = line.strip_suffix(b"}").unwrap_or(line);
    into.extend_from_slice(body);
    if !body.trim_ascii_end().ends_with(b"{") {
        into.extend_from_slice(b", ");
    }
    into.extend_from_slice(members.as_bytes());
    into.push(b'}');
    begin..into.len()
}

/// Returns whether bytes are UTF-8. Nearly all lines are ASCII, so ASCII is checked first. The check
/// has no early exit, because lines are short and the compiler can then vectorise the loop.
pub fn is_utf8(bytes: &[u8]) -> bool {
    let all = bytes.iter().fold(0, |all, byte| all | byte);
    all.is_ascii() || std::str::from_utf8(bytes).is_ok()
}

/// Appends `"name": "value"` to the members, preceded by a comma unless it is the first.
pub fn member(name: &str, value: &str, into: &mut String) {
    written(name, &serde_json::Value::from(value).to_string(), into);
}

/// Appends `"name": value` to the members, where the value already is JSON, preceded by a comma unless it is the first.
pub fn written(name: &str, value: &str, into: &mut String) {
    if !into.is_empty() {
        into.push_str(", ");
    }
    // Writing to a string cannot fail.
    let _ = write!(into, "{}: {value}", serde_json::Value::from(name));
}

/// Appends `text` as a JSON string. Invalid UTF-8 is replaced.
pub fn quote(text: &[u8], into: &mut Vec<u8>) {
    let plain = |byte: &u8| (b' '..0x7f).contains(byte) && !matches!(byte, b'"' | b'\\');
    if text.iter().all(plain) {
        into.push(b'"');
        into.extend_from_slice(text);
        into.push(b'"');
    } else {
        let text = String::from_utf8_lossy(text);
        // Serializing a string into memory cannot fail.
        let _ = serde_json::to_writer(into, &text);
    }
}

/// Parses the members of a JSON object, in order, with their values as raw JSON. Returns `None` if the text
/// is not a JSON object.
///
/// ```
/// use crawlspace_index::row::members;
/// let found = members(br#"{"url": "http://a.com/", "status": 200}"#).unwrap();
/// assert_eq!((&found[1].0[..], found[1].1.get()), ("status", "200"));
/// ```
pub fn members(json: &[u8]) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
    struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);
    impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Each;
            impl<'de> Visitor<'de> for Each {
                type Value = Members<'de>;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a JSON object")
                }

                fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                    let mut members = Vec::with_capacity(16);
                    while let Some(Name(name)) = map.next_key()? {
                        members.push((name, map.next_value()?));
                    }
                    Ok(Members(members))
                }
            }
            deserializer.deserialize_map(Each)
        }
    }
    #[derive(serde::Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_slice::<Members<'_>>(json)
        .ok()
        .map(|members| members.0)
}

/// Returns the text of a JSON value: the content of a string, and any other value as raw JSON.
pub fn text(value: &RawValue) -> Cow<'_, str> {
    match value.get().as_bytes() {
        [b'"', inner @ .., b'"'] if !inner.contains(&b'\\') => {
            Cow::Borrowed(&value.get()[1..value.get().len() - 1])
        }
        [b'"', ..] => match serde_json::from_str::<String>(value.get()) {
            Ok(text) => Cow::Owned(text),
            Err(_) => Cow::Borrowed(value.get()),
        },
        _ => Cow::Borrowed(value.get()),
    }
}

/// Builds a row from its parts; `members` are as [`member`] writes them. Returns `None` if the urlkey
/// contains a space, or the timestamp is invalid.
pub fn build(urlkey: &str, timestamp: &str, members: &str) -> Option<Row> {
    if urlkey.is_empty() || urlkey.bytes().any(|byte| byte.is_ascii_whitespace()) {
        return None;
    }
    Row::new(Bytes::from(format!("{urlkey} {timestamp} {{{members}}}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_hides_where_its_original_is() {
        let row = |json: &str| Row::new(format!("com,a)/ 2016 {json}").into()).unwrap();
        for (json, left) in [
            (
                r#"{"url": "u", "orig.filename": "f", "orig.offset": 5, "a": {"orig.length": 1}}"#,
                r#"{"url": "u", "a": {"orig.length": 1}}"#,
            ),
            (
                r#"{"\u006frig.filename": "f", "originalOffset": "5"}"#,
                "{}",
            ),
        ] {
            let pruned = row(json).read_from(7, true).without_original().unwrap();
            assert_eq!(pruned.json(), left.as_bytes());
            assert_eq!((pruned.package(), pruned.is_respelled()), (7, true));
            let detached = Row::detached(std::slice::from_ref(&pruned)).remove(0);
            for copy in [detached, pruned.with(r#""b": 1"#), pruned] {
                let original = copy.original().unwrap();
                let value = |field| original.field(&field).unwrap_or_default().into_owned();
                assert_eq!(value(Field::OrigFilename), b"f");
                assert_eq!(value(Field::OrigOffset), b"5");
                assert_eq!(copy.field("orig.filename"), "");
            }
        }
        let plain = row(r#"{"url": "http://a.com/original?a=\"b\""}"#);
        assert_eq!(plain.clone().without_original(), Some(plain));
        assert_eq!(row(r#"{"orig.filename": f}"#).without_original(), None);
    }

    #[test]
    fn row_has_three_parts() {
        let row = Row::new(Bytes::from_static(
            b"com,a)/ 2016 {\"url\": \"http://a.com/\"}",
        ))
        .unwrap();
        assert_eq!(row.urlkey(), b"com,a)/");
        assert_eq!(row.timestamp(), b"2016");
        assert_eq!(row.json(), b"{\"url\": \"http://a.com/\"}");
        assert_eq!(row.field("original"), "http://a.com/");
        for wrong in [
            "",
            "a",
            "a 2016",
            "a 2016 ",
            "a x {}",
            "a  {}",
            "a 2016 {",
            "a 2016 []",
        ] {
            assert!(
                Row::new(Bytes::from_static(wrong.as_bytes())).is_none(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn members_are_inserted_before_the_closing_brace() {
        let mut members = String::new();
        member("source", "a \"b\"", &mut members);
        member("source_type", "file", &mut members);
        for (before, after) in [
            (
                "k 2016 {}",
                r#"k 2016 {"source": "a \"b\"", "source_type": "file"}"#,
            ),
            (
                r#"k 2016 {"a": 1}"#,
                r#"k 2016 {"a": 1, "source": "a \"b\"", "source_type": "file"}"#,
            ),
        ] {
            let row = Row::new(Bytes::copy_from_slice(before.as_bytes())).unwrap();
            assert_eq!(row.with(&members).line(), after.as_bytes());
            assert_eq!(row.with(&members).field("source"), "a \"b\"");
        }
    }
}
