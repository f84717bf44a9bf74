//! The header of a WARC record (ISO 28500, chapter 4).

use std::ops::Range;

use super::{Problem, Rules};

/// Maximum length of a record header, in bytes. A longer one is an error: the memory that a record
/// takes must not depend on who wrote it.
pub const MAX_HEADER: usize = 64 * 1024;

/// The header of a WARC record: its version and its named fields, as they stand in the file.
///
/// As long as nothing is changed, its bytes stay what they were, but for folded lines and line ends other than CRLF,
/// which are rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    raw: Vec<u8>,
    fields: Vec<FieldRanges>,
    is_changed: bool,
    content_length: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRanges {
    /// Its lines, without the last line end.
    line: Range<usize>,
    name: Range<usize>,
    value: Range<usize>,
}

/// The type of a record (ISO 28500, chapter 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the words are the standard's
pub enum RecordType {
    Warcinfo,
    Response,
    Resource,
    Request,
    Metadata,
    Revisit,
    Conversion,
    Continuation,
    /// A type that the standard does not know, to be skipped (chapter 5.5).
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

/// Where the header ends that these bytes begin with, after its empty line; `None` when that is not there.
pub fn end_of_header(bytes: &[u8], rules: &Rules) -> Option<usize> {
    let most = if rules.repeated_returns {
        usize::MAX
    } else {
        1
    };
    memchr::memchr_iter(b'\n', bytes).find_map(|at| {
        let rest = bytes.get(at + 1..)?;
        let returns = rest.iter().take(most).take_while(|&&byte| byte == b'\r');
        let returns = returns.count();
        (rest.get(returns) == Some(&b'\n')).then_some(at + returns + 2)
    })
}

impl Header {
    /// Parses a header, from its version to its empty line.
    ///
    /// # Errors
    /// What is wrong with its first line that breaks the rules, or which field is missing.
    pub fn parse(raw: &[u8], rules: &Rules) -> Result<Header, Problem> {
        let mut header = Header::parse_lines(raw, rules)?;
        let missing = |name: &str| Problem::Header(format!("{name} is missing"));
        let length = header.get("Content-Length");
        let length = length.ok_or_else(|| missing("Content-Length"))?;
        header.content_length = decimal(length).ok_or_else(|| {
            let length = String::from_utf8_lossy(length);
            Problem::Header(format!("Content-Length {length:?} is not a number"))
        })?;
        header
            .get("WARC-Type")
            .ok_or_else(|| missing("WARC-Type"))?;
        Ok(header)
    }

    /// Parses the lines that are there, up to the empty one.
    pub(crate) fn parse_lines(raw: &[u8], rules: &Rules) -> Result<Header, Problem> {
        let mut header = Header {
            raw: Vec::with_capacity(raw.len() + 64),
            fields: Vec::with_capacity(16),
            is_changed: false,
            content_length: 0,
        };
        let mut rest = raw;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(at);
            rest = after.get(1..).unwrap_or_default();
            let mut text = line.strip_suffix(b"\r").unwrap_or(line);
            while rules.repeated_returns && text.ends_with(b"\r") {
                text = text.strip_suffix(b"\r").unwrap_or(text);
            }
            header.is_changed |= text.len() + 1 != line.len();
            let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
            if !rules.control_characters && text.iter().any(is_control) {
                return Err(invalid(text, "holds a control character"));
            }
            match text.first() {
                _ if header.raw.is_empty() => version(text, rules)?,
                None => break,
                Some(b' ' | b'\t') => {
                    header.fold(text)?;
                    continue;
                }
                Some(_) if header.fields.len() == rules.max_fields => {
                    let what = format!("exceeds the limit of {} fields", rules.max_fields);
                    return Err(invalid(text, &what));
                }
                Some(_) => header.field(text)?,
            }
            header.raw.extend_from_slice(text);
            header.raw.extend_from_slice(b"\r\n");
        }
        header.raw.extend_from_slice(b"\r\n");
        Ok(header)
    }

    /// Notes where the field is whose line comes next.
    fn field(&mut self, text: &[u8]) -> Result<(), Problem> {
        let colon = memchr::memchr(b':', text).filter(|&at| at > 0);
        let Some((name, value)) = colon.and_then(|at| text.split_at_checked(at)) else {
            return Err(invalid(text, "is not a field"));
        };
        let value = value.get(1..).unwrap_or_default();
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

    /// Takes a line that continues the value of the line before.
    fn fold(&mut self, text: &[u8]) -> Result<(), Problem> {
        let Some(field) = self.fields.last_mut() else {
            return Err(invalid(text, "continues no field"));
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

    /// Makes a header without fields. `version` is one such as `WARC/1.1`.
    pub fn new(version: &str) -> Header {
        Header {
            raw: [version.as_bytes(), b"\r\n\r\n"].concat(),
            fields: Vec::new(),
            is_changed: true,
            content_length: 0,
        }
    }

    /// The bytes of the header, with its empty line.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Whether its bytes differ from those of the file.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The version: `WARC/1.0`.
    pub fn version(&self) -> &[u8] {
        let end = memchr::memchr(b'\r', &self.raw);
        end.and_then(|end| self.raw.get(..end)).unwrap_or_default()
    }

    /// The value of a field, whose name is compared without regard to case. Of a field that stands
    /// there more than once, the first.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.fields();
        fields.find_map(|(own, value)| own.eq_ignore_ascii_case(name.as_bytes()).then_some(value))
    }

    /// All fields, in the order of the file.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let part = |range: &Range<usize>| self.raw.get(range.clone()).unwrap_or_default();
        let fields = self.fields.iter();
        fields.map(move |field| (part(&field.name), part(&field.value)))
    }

    /// Removes all fields of that name.
    pub fn remove(&mut self, name: &str) {
        loop {
            let is_named = |(own, _): (&[u8], _)| own.eq_ignore_ascii_case(name.as_bytes());
            let Some(at) = self.fields().position(is_named) else {
                return;
            };
            let gone = self.fields.remove(at);
            // With its line end, which every line here has.
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

    /// Gives a field this value, in place of all that it had. Control characters in it become spaces.
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

    /// Gives `Content-Length` this value.
    pub fn set_content_length(&mut self, length: u64) {
        self.set("Content-Length", length.to_string().as_bytes());
        self.content_length = length;
    }

    /// `WARC-Type`.
    pub fn record_type(&self) -> RecordType {
        RecordType::parse(self.get("WARC-Type").unwrap_or_default())
    }

    /// `Content-Length`: the size of the block in bytes, before compression.
    pub fn content_length(&self) -> u64 {
        self.content_length
    }

    /// `WARC-Target-URI`, without the angle brackets that WARC/1.0 allows and wget writes.
    pub fn target_uri(&self) -> Option<&[u8]> {
        let uri = self.get("WARC-Target-URI")?;
        let bare = uri.strip_prefix(b"<");
        Some(bare.and_then(|uri| uri.strip_suffix(b">")).unwrap_or(uri))
    }

    /// `WARC-Record-ID`, with its angle brackets.
    pub fn record_id(&self) -> Option<&[u8]> {
        self.get("WARC-Record-ID")
    }

    /// `WARC-Payload-Digest`, as it is written: `sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A`.
    pub fn payload_digest(&self) -> Option<&[u8]> {
        self.get("WARC-Payload-Digest")
            .filter(|digest| !digest.is_empty())
    }

    /// `WARC-Date`, as it is written: `2026-03-19T10:20:15Z`.
    pub fn date(&self) -> Option<&[u8]> {
        self.get("WARC-Date")
    }

    /// `WARC-Date` as CDX files and dedupe records have it: 14 digits, or 17 where the date has
    /// fractions of a second. `None` when there is no date, or it has not the form that the standard
    /// asks for.
    pub fn timestamp(&self) -> Option<Vec<u8>> {
        let (mut digits, rest) = date_digits(self.date()?)?;
        match rest.strip_suffix(b"Z")?.split_first() {
            None => {}
            Some((b'.', fraction)) if decimal(fraction.get(..1)?).is_some() => {
                if !fraction.iter().all(u8::is_ascii_digit) {
                    return None;
                }
                digits.extend((0..3).map(|i| fraction.get(i).copied().unwrap_or(b'0')));
            }
            Some(_) => return None,
        }
        Some(digits)
    }
}

fn version(text: &[u8], rules: &Rules) -> Result<(), Problem> {
    let version = text.strip_prefix(b"WARC/").ok_or(Problem::NotWarc)?;
    let mut known = rules.versions.iter();
    if known.any(|known| known.as_bytes() == version) {
        return Ok(());
    }
    Err(Problem::Version {
        found: String::from_utf8_lossy(version).into_owned(),
        known: rules.versions,
    })
}

fn invalid(line: &[u8], what: &str) -> Problem {
    let shown = String::from_utf8_lossy(line.get(..80).unwrap_or(line));
    Problem::Header(format!("{shown:?} {what}"))
}

/// A number in digits and nothing else.
pub fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// The 14 digits of `2026-03-19T10:20:15`, and what stands behind it.
pub fn date_digits(iso: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let (seconds, rest) = iso.split_at_checked(FORM.len())?;
    let mut digits = Vec::with_capacity(17);
    for (&byte, &form) in seconds.iter().zip(FORM) {
        match form {
            b'0' if byte.is_ascii_digit() => digits.push(byte),
            b'0' => return None,
            _ if byte == form => {}
            _ => return None,
        }
    }
    Some((digits, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] =
        b"WARC/1.0\r\nWARC-Type: response\r\nwarc-target-uri:  <http://a.example/> \r\nContent-Length: 3\r\n\r\n";
    /// What every header has, with a line end of one byte.
    const LEAST: &str = "WARC-Type: x\nContent-Length: 0\n";

    fn parse(raw: &[u8]) -> Result<Header, Problem> {
        Header::parse(raw, &Rules::RECORD)
    }

    #[test]
    fn dates_become_the_digits_that_cdx_files_have() {
        let of = |iso: &str| {
            let mut header = Header::new("WARC/1.0");
            header.set("WARC-Date", iso.as_bytes());
            header.timestamp().map(|t| String::from_utf8(t).unwrap())
        };
        assert_eq!(
            of("2026-03-19T10:20:15Z").as_deref(),
            Some("20260319102015")
        );
        assert_eq!(
            of("2026-03-19T10:20:15.5Z").as_deref(),
            Some("20260319102015500")
        );
        assert_eq!(
            of("2026-03-19T10:20:15.123456789Z").as_deref(),
            Some("20260319102015123")
        );
        for wrong in [
            "",
            "2026",
            "2026-03-19T10:20:15",
            "2026-03-19 10:20:15Z",
            "2026-03-19T10:20:15.Z",
            "2026-03-19T10:20:15+01:00",
            "2o26-03-19T10:20:15Z",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn angle_brackets_of_wget_are_not_part_of_the_uri() {
        let of = |uri: &str| {
            let mut header = Header::new("WARC/1.0");
            header.set("warc-target-uri", uri.as_bytes());
            String::from_utf8(header.target_uri().unwrap().to_vec()).unwrap()
        };
        assert_eq!(of("<http://a.example/>"), "http://a.example/");
        assert_eq!(of("http://a.example/"), "http://a.example/");
        assert_eq!(of("<http://a.example/"), "<http://a.example/");
    }

    #[test]
    fn a_length_that_is_no_number_is_refused() {
        for length in [
            "",
            "-1",
            "+1",
            "+5",
            "0x10",
            "1 2",
            "1, 1",
            "99999999999999999999",
        ] {
            let raw =
                format!("WARC/1.0\r\nWARC-Type: response\r\nContent-Length: {length}\r\n\r\n");
            for rules in [Rules::FILE, Rules::RECORD] {
                let header = Header::parse(raw.as_bytes(), &rules);
                assert!(matches!(header, Err(Problem::Header(_))), "{length:?}");
            }
        }
    }

    #[test]
    fn a_valid_header_keeps_its_bytes() {
        let header = parse(PLAIN).unwrap();
        assert_eq!(header.raw(), PLAIN);
        assert!(!header.is_changed());
        assert_eq!(header.version(), b"WARC/1.0");
        assert_eq!(header.record_type(), RecordType::Response);
        assert_eq!(header.target_uri(), Some(&b"http://a.example/"[..]));
        assert_eq!(header.content_length(), 3);
        for rules in [Rules::FILE, Rules::RECORD] {
            assert_eq!(end_of_header(PLAIN, &rules), Some(PLAIN.len()));
            assert_eq!(end_of_header(&PLAIN[..PLAIN.len() - 1], &rules), None);
        }
    }

    #[test]
    fn line_ends_and_folds_are_written_anew() {
        let raw = format!("WARC/0.18\nA: b\n  c\nD:\n{LEAST}\n");
        let header = parse(raw.as_bytes()).unwrap();
        assert!(header.is_changed());
        let expected = "WARC/0.18\r\nA: b c\r\nD:\r\nWARC-Type: x\r\nContent-Length: 0\r\n\r\n";
        assert_eq!(header.raw(), expected.as_bytes());
        assert_eq!(header.get("a"), Some(&b"b c"[..]));
        assert_eq!(header.get("d"), Some(&b""[..]));
        let raw = format!("WARC/1.0\nA: b\n{LEAST}\n");
        let twice = raw.replace('\n', "\r\r\n");
        let twice = twice.as_bytes();
        assert_eq!(end_of_header(twice, &Rules::RECORD), Some(twice.len()));
        let header = parse(twice).unwrap();
        assert_eq!(header.raw(), raw.replace('\n', "\r\n").as_bytes());
        assert_eq!(end_of_header(twice, &Rules::FILE), None);
        assert!(Header::parse(twice, &Rules::FILE).is_err());
    }

    #[test]
    fn fields_are_replaced_and_taken_out() {
        let mut header = parse(PLAIN).unwrap();
        header.set("warc-type", b"rev\nisit");
        header.remove("content-length");
        header.set("WARC-Date", b"2016-01-01T00:00:00Z");
        let expected = "WARC/1.0\r\nwarc-target-uri:  <http://a.example/> \r\nwarc-type: rev isit\r\n\
                        WARC-Date: 2016-01-01T00:00:00Z\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(header.raw()), expected);
        assert_eq!(header.date(), Some(&b"2016-01-01T00:00:00Z"[..]));
        header.set_content_length(7);
        assert_eq!(header.content_length(), 7);
        let again = parse(header.raw()).unwrap();
        assert_eq!(again.raw(), header.raw());
        assert_eq!(again.get("WARC-Type"), header.get("WARC-Type"));
        assert_eq!(again.content_length(), 7);
    }

    #[test]
    fn what_leaves_doubts_is_refused() {
        for (wrong, in_files, in_records) in [
            ("WARC/2.0\r\n", false, false),
            ("WARC/0.17\r\n", false, true),
            ("\r\n", false, false),
            ("WARC/1.0\r\n a: b\r\n", false, false),
            ("WARC/1.0\r\nno field\r\n", false, false),
            ("WARC/1.0\r\n: b\r\n", false, false),
            ("WARC/1.0\r\na: b\0\r\n", true, false),
            ("WARC/1.0\r\na: b\rc: d\r\n", true, false),
            ("WARC/1.0\r\n", true, true),
        ] {
            let raw = format!("{wrong}{LEAST}\n");
            for (rules, allowed) in [(Rules::FILE, in_files), (Rules::RECORD, in_records)] {
                let parsed = Header::parse(raw.as_bytes(), &rules);
                assert_eq!(parsed.is_ok(), allowed, "{wrong:?}: {parsed:?}");
            }
        }
        for missing in LEAST.lines() {
            let raw = format!("WARC/1.0\n{missing}\n\n");
            assert!(parse(raw.as_bytes()).is_err(), "{missing}");
        }
        let many = format!("WARC/1.0\n{LEAST}{}\n", "a: b\n".repeat(999));
        assert!(parse(many.as_bytes()).is_err());
    }
}
