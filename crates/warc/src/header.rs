//! Header of a WARC record (ISO 28500, chapter 4).

use std::borrow::Cow;
use std::ops::Range;

use super::{Date, Deviation, Deviations, Problem};

/// Maximum length of a record header in bytes. A longer header is an error, so that untrusted input cannot
/// exhaust memory.
pub const MAX_HEADER: usize = 64 * 1024;
/// Maximum number of fields in a header. A header with more fields is an error.
const MAX_FIELDS: usize = 1000;
/// Supported versions of the format. 0.17 and 0.18 are drafts of the standard, written by early versions of
/// Heritrix.
const VERSIONS: &[&str] = &["1.0", "1.1", "0.18", "0.17"];

/// Header of a WARC record: its version and its named fields, as written in the file.
///
/// The bytes are preserved until a field is changed, except for folded lines, line ends other than CRLF, and
/// control characters, which are normalized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    raw: Vec<u8>,
    fields: Vec<FieldRanges>,
    is_changed: bool,
    deviations: Deviations,
    content_length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRanges {
    /// The lines of the field, without the last line end.
    line: Range<usize>,
    name: Range<usize>,
    value: Range<usize>,
}

/// Type of a record (ISO 28500, chapter 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the names in the standard
pub enum RecordType {
    Warcinfo,
    Response,
    Resource,
    Request,
    Metadata,
    Revisit,
    Conversion,
    Continuation,
    /// A type that the standard does not define. Readers skip such records (chapter 5.5).
    Other,
}

impl RecordType {
    fn parse(value: &[u8]) -> RecordType {
        match value.to_ascii_lowercase().as_slice() {
            b"warcinfo" => RecordType::Warcinfo,
            b"response" => RecordType::Response,
            b"resource" => RecordType::Resource,
            b"request" => RecordType::Request,
            b"metadata" => RecordType::Metadata,
            b"revisit" => RecordType::Revisit,
            b"conversion" => RecordType::Conversion,
            b"continuation" => RecordType::Continuation,
            _ => RecordType::Other,
        }
    }
}

/// Returns the end of the header at the start of these bytes, including its empty line. Returns `None` if the
/// header is incomplete.
pub fn end_of_header(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| {
        let rest = bytes.get(at + 1..)?;
        let returns = rest.iter().take_while(|&&byte| byte == b'\r').count();
        (rest.get(returns) == Some(&b'\n')).then_some(at + returns + 2)
    })
}

impl Header {
    /// Parses a header, from its version to its empty line.
    ///
    /// # Errors
    /// Fails with the first invalid line, or the name of a missing field.
    pub fn parse(raw: &[u8]) -> Result<Header, Problem> {
        Header::parse_lines(raw)?.complete()
    }

    /// Checks the mandatory fields of a parsed header, and sets its content length.
    pub(crate) fn complete(mut self) -> Result<Header, Problem> {
        let missing = |name: &str| Problem::Header(format!("{name} is missing"));
        let length = self.get("Content-Length");
        let length = length.ok_or_else(|| missing("Content-Length"))?;
        self.content_length = decimal(length).ok_or_else(|| {
            let length = String::from_utf8_lossy(length);
            Problem::Header(format!("Content-Length {length:?} is not a number"))
        })?;
        self.get("WARC-Type").ok_or_else(|| missing("WARC-Type"))?;
        Ok(self)
    }

    /// Parses the available lines, up to the empty line.
    pub(crate) fn parse_lines(raw: &[u8]) -> Result<Header, Problem> {
        let mut header = Header {
            raw: Vec::with_capacity(raw.len() + 64),
            fields: Vec::with_capacity(16),
            is_changed: false,
            deviations: Deviations::default(),
            content_length: 0,
        };
        let mut rest = raw;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(at);
            rest = &after[1..];
            let mut text = line.strip_suffix(b"\r").unwrap_or(line);
            header.is_changed |= text.len() == line.len();
            while let [text_without @ .., b'\r'] = text {
                // A file transfer in text mode has added a CR to the line end.
                text = text_without;
                header.deviations.add(Deviation::Header);
            }
            let clean = without_control_characters(text);
            if let Cow::Owned(clean) = &clean {
                text = clean;
                header.deviations.add(Deviation::Header);
            }
            match text.first() {
                _ if header.raw.is_empty() => version(text)?,
                None => break,
                Some(b' ' | b'\t') => {
                    header.fold(text)?;
                    continue;
                }
                Some(_) if header.fields.len() == MAX_FIELDS => {
                    let what = format!("exceeds the limit of {MAX_FIELDS} fields");
                    return Err(invalid(text, &what));
                }
                Some(_) => header.field(text)?,
            }
            header.raw.extend_from_slice(text);
            header.raw.extend_from_slice(b"\r\n");
        }
        header.raw.extend_from_slice(b"\r\n");
        header.is_changed |= !header.deviations.is_empty();
        Ok(header)
    }

    /// Records the position of the field on the next line.
    fn field(&mut self, text: &[u8]) -> Result<(), Problem> {
        let colon = memchr::memchr(b':', text).filter(|&at| at > 0);
        let Some((name, value)) = colon.and_then(|at| text.split_at_checked(at)) else {
            return Err(invalid(text, "is not a field"));
        };
        let value = &value[1..];
        let start = self.raw.len();
        let end = start + text.len();
        let name_start = start + name.len() - name.trim_ascii_start().len();
        let value_start = end - value.trim_ascii_start().len();
        self.fields.push(FieldRanges {
            line: start..end,
            name: name_start..name_start + name.trim_ascii().len(),
            value: value_start..value_start + value.trim_ascii().len(),
        });
        Ok(())
    }

    /// Appends a line that continues the value of the previous line.
    fn fold(&mut self, text: &[u8]) -> Result<(), Problem> {
        let Some(field) = self.fields.last_mut() else {
            return Err(invalid(text, "continues a field, but no field precedes it"));
        };
        self.raw.truncate(field.value.end);
        self.raw.push(b' ');
        self.raw.extend_from_slice(text.trim_ascii());
        field.value.end = self.raw.len();
        field.line.end = self.raw.len();
        self.raw.extend_from_slice(b"\r\n");
        self.is_changed = true;
        Ok(())
    }

    /// Creates a header without fields. `version` is, for example, `WARC/1.1`.
    pub fn new(version: &str) -> Header {
        Header {
            raw: [version.as_bytes(), b"\r\n\r\n"].concat(),
            fields: Vec::new(),
            is_changed: true,
            deviations: Deviations::default(),
            content_length: 0,
        }
    }

    /// Returns the bytes of the header, including its empty line.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Returns the deviations of the header's lines from the standard.
    pub(crate) fn deviations(&self) -> Deviations {
        self.deviations
    }

    /// Returns true if the bytes differ from those in the file.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Returns the version, such as `WARC/1.0`.
    pub fn version(&self) -> &[u8] {
        let end = memchr::memchr(b'\r', &self.raw);
        end.and_then(|end| self.raw.get(..end)).unwrap_or_default()
    }

    /// Returns the value of a field; names are case-insensitive. For a repeated field, returns the first
    /// value.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.fields();
        fields.find_map(|(own, value)| own.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
    }

    /// Returns all fields, in the order of the file.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |range: &Range<usize>| &self.raw[range.clone()];
        let fields = self.fields.iter();
        fields.map(move |field| (part(&field.name), part(&field.value)))
    }

    /// Removes all fields with this name.
    pub fn remove(&mut self, name: &str) {
        loop {
            let is_named = |(own, _): (&[u8], _)| own.eq_ignore_ascii_case(name.as_bytes());
            let Some(at) = self.fields().position(is_named) else {
                return;
            };
            let gone = self.fields.remove(at);
            // The size includes the line end, because every line ends with CRLF at this point.
            let size = gone.line.len() + 2;
            self.raw.drain(gone.line.start..gone.line.end + 2);
            for field in self.fields.iter_mut().skip(at) {
                for range in [&mut field.line, &mut field.name, &mut field.value] {
                    *range = range.start - size..range.end - size;
                }
            }
            self.is_changed = true;
        }
    }

    /// Sets a field to this value, replacing all existing values. Control characters are replaced by spaces.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.raw.truncate(self.raw.len().saturating_sub(2));
        let start = self.raw.len();
        self.raw.extend_from_slice(name.as_bytes());
        self.raw.extend_from_slice(b": ");
        let value_start = self.raw.len();
        let clean = |&byte: &u8| if byte < b' ' { b' ' } else { byte };
        self.raw.extend(value.iter().map(clean));
        self.fields.push(FieldRanges {
            line: start..self.raw.len(),
            name: start..start + name.len(),
            value: value_start..self.raw.len(),
        });
        self.raw.extend_from_slice(b"\r\n\r\n");
        self.is_changed = true;
    }

    /// Sets `Content-Length`.
    pub fn set_content_length(&mut self, length: u64) {
        self.set("Content-Length", length.to_string().as_bytes());
        self.content_length = length;
    }

    /// Returns the record type (`WARC-Type`).
    pub fn record_type(&self) -> RecordType {
        RecordType::parse(self.get("WARC-Type").unwrap_or_default())
    }

    /// Returns the size of the uncompressed block in bytes (`Content-Length`).
    pub fn content_length(&self) -> u64 {
        self.content_length
    }

    /// Returns `WARC-Target-URI`, without the angle brackets that WARC/1.0 allows and wget writes.
    pub fn target_uri(&self) -> Option<&[u8]> {
        let uri = self.get("WARC-Target-URI")?;
        let bare = uri.strip_prefix(b"<");
        Some(bare.and_then(|uri| uri.strip_suffix(b">")).unwrap_or(uri))
    }

    /// Returns `WARC-Record-ID`, with its angle brackets.
    pub fn record_id(&self) -> Option<&[u8]> {
        self.get("WARC-Record-ID")
    }

    /// Returns `WARC-Payload-Digest` as written: `sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A`.
    pub fn payload_digest(&self) -> Option<&[u8]> {
        self.get("WARC-Payload-Digest")
            .filter(|digest| !digest.is_empty())
    }

    /// Returns `WARC-Date` as written: `2026-03-19T10:20:15Z`.
    pub fn date(&self) -> Option<&[u8]> {
        self.get("WARC-Date")
    }

    /// Returns `WARC-Date` in the format of CDX files and dedupe records: 14 digits, or 17 if the date has
    /// fractions of a second. Returns `None` if the date is missing, invalid, or not in UTC.
    pub fn timestamp(&self) -> Option<Vec<u8>> {
        let date = Date::parse(self.date()?)?;
        (date.zone.unwrap_or(0) == 0).then(|| date.timestamp())
    }
}

/// Replaces control characters except tabs by spaces.
fn without_control_characters(text: &[u8]) -> Cow<'_, [u8]> {
    let is_control = |byte: u8| byte.is_ascii_control() && byte != b'\t';
    // Without an early exit, the compiler vectorizes the loop.
    let bytes = text.iter();
    let is_clean = bytes.fold(true, |is_clean, &byte| is_clean & !is_control(byte));
    if is_clean {
        return Cow::Borrowed(text);
    }
    let clean = text
        .iter()
        .map(|&byte| if is_control(byte) { b' ' } else { byte });
    Cow::Owned(clean.collect())
}

fn version(text: &[u8]) -> Result<(), Problem> {
    let version = text.strip_prefix(b"WARC/").ok_or(Problem::NotWarc)?;
    let mut known = VERSIONS.iter();
    if known.any(|known| known.as_bytes() == version) {
        return Ok(());
    }
    Err(Problem::Version {
        found: String::from_utf8_lossy(version).into_owned(),
        known: VERSIONS,
    })
}

fn invalid(line: &[u8], what: &str) -> Problem {
    let shown = String::from_utf8_lossy(line.get(..80).unwrap_or(line));
    Problem::Header(format!("{shown:?} {what}"))
}

/// Parses a number that consists of digits only.
pub fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests;
