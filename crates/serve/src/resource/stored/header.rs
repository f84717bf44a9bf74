//! The header of a WARC record, as it stands in a file.

use std::ops::Range;

use crate::resource::record::LoadError;
use crawlspace_archive::timestamp::Timestamp;

/// Maximum size of a header, in bytes.
pub(in crate::resource) const MAX_HEADER: usize = 64 * 1024;

/// How many fields it may have.
const MAX_FIELDS: usize = 1000;

/// The versions that are told apart by nothing that matters here.
const VERSIONS: [&[u8]; 4] = [b"WARC/1.0", b"WARC/1.1", b"WARC/0.18", b"WARC/0.17"];

/// A header whose fields can be asked for and changed. As long as none is, its bytes stay what they were, if they
/// were valid: line ends of one byte and folded lines are rewritten.
#[derive(Clone, Debug)]
pub(in crate::resource) struct Header {
    raw: Vec<u8>,
    fields: Vec<Field>,
    changed: bool,
}

#[derive(Clone, Debug)]
struct Field {
    line: Range<usize>,
    name: Range<usize>,
    value: Range<usize>,
}

/// Where the header ends that these bytes begin with: after its empty line. `None` when that is not there. Files that
/// were taken for text on their way have more than one CR before an LF.
pub(in crate::resource) fn end_of(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find_map(|at| {
        let rest = bytes.get(at + 1..)?;
        let returns = rest.iter().take_while(|&&byte| byte == b'\r').count();
        (rest.get(returns) == Some(&b'\n')).then_some(at + returns + 2)
    })
}

impl Header {
    /// Reads a header that ends with its empty line.
    ///
    /// # Errors
    /// When it breaks the rules of ISO 28500, chapter 4, in a way that leaves doubts about what is meant.
    pub(in crate::resource) fn parse(raw: &[u8]) -> Result<Header, LoadError> {
        let mut header = Header {
            raw: Vec::with_capacity(raw.len() + 64),
            fields: Vec::with_capacity(16),
            changed: false,
        };
        let mut rest = raw;
        let mut is_first = true;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(at + 1);
            rest = after;
            let mut text = line.strip_suffix(b"\n").unwrap_or(line);
            while let Some(shorter) = text.strip_suffix(b"\r") {
                text = shorter;
            }
            header.changed |= text.len() + 2 != line.len();
            if text.is_empty() {
                break;
            }
            if text
                .iter()
                .any(|&byte| byte < b' ' && byte != b'\t' || byte == 0x7f)
            {
                return Err(wrong(text, "holds a control character"));
            }
            if std::mem::take(&mut is_first) {
                if !VERSIONS.contains(&text) {
                    return Err(wrong(text, "is not a known WARC version"));
                }
                header.raw.extend_from_slice(text);
                header.raw.extend_from_slice(b"\r\n");
            } else if matches!(text.first(), Some(b' ' | b'\t')) {
                header.fold(text)?;
            } else {
                header.line(text)?;
            }
        }
        if is_first {
            return Err(LoadError::Record("there is no WARC record".to_owned()));
        }
        header.raw.extend_from_slice(b"\r\n");
        Ok(header)
    }

    /// A header without fields.
    pub(in crate::resource) fn new(version: &[u8]) -> Header {
        Header {
            raw: [version, b"\r\n\r\n"].concat(),
            fields: Vec::new(),
            changed: true,
        }
    }

    fn line(&mut self, text: &[u8]) -> Result<(), LoadError> {
        if self.fields.len() == MAX_FIELDS {
            return Err(wrong(text, "exceeds the limit of 1000 fields"));
        }
        let colon = memchr::memchr(b':', text).filter(|&at| at > 0);
        let Some((name, value)) = colon.and_then(|at| text.split_at_checked(at)) else {
            return Err(wrong(text, "is not a header field"));
        };
        let name = name.trim_ascii_end();
        let value = value.strip_prefix(b":").unwrap_or(value);
        let before = value.len() - value.trim_ascii_start().len();
        let start = self.raw.len();
        let value_start = start + text.len() - value.len() + before;
        self.raw.extend_from_slice(text);
        self.fields.push(Field {
            line: start..self.raw.len(),
            name: start..start + name.len(),
            value: value_start..value_start + value.trim_ascii().len(),
        });
        self.raw.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// A line that goes on with the value of the one before.
    fn fold(&mut self, text: &[u8]) -> Result<(), LoadError> {
        let Some(field) = self.fields.last_mut() else {
            return Err(wrong(text, "goes on with no field"));
        };
        self.raw.truncate(field.value.end);
        self.raw.push(b' ');
        self.raw.extend_from_slice(text.trim_ascii());
        field.value.end = self.raw.len();
        field.line.end = self.raw.len();
        self.raw.extend_from_slice(b"\r\n");
        self.changed = true;
        Ok(())
    }

    /// The header, with its empty line.
    pub(in crate::resource) fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Whether it is not what stands in the file any more.
    pub(in crate::resource) fn is_changed(&self) -> bool {
        self.changed
    }

    /// `WARC/1.0`.
    pub(in crate::resource) fn version(&self) -> &[u8] {
        let end = memchr::memchr(b'\r', &self.raw);
        end.and_then(|end| self.raw.get(..end)).unwrap_or_default()
    }

    /// The value of a field, whose name is compared without regard to case; the first, of more than one.
    pub(in crate::resource) fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields
            .iter()
            .find(|field| self.is(field, name))
            .and_then(|field| self.raw.get(field.value.clone()))
    }

    /// The header as text, with bytes that are not valid UTF-8 replaced.
    pub(in crate::resource) fn text(&self, name: &str) -> Option<String> {
        let value = self.get(name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    }

    fn is(&self, field: &Field, name: &str) -> bool {
        self.raw
            .get(field.name.clone())
            .is_some_and(|own| own.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Takes all fields of that name out.
    pub(in crate::resource) fn remove(&mut self, name: &str) {
        while let Some(at) = self.fields.iter().position(|field| self.is(field, name)) {
            let gone = self.fields.remove(at);
            // With its line end, which every line here has.
            let size = gone.line.len() + 2;
            self.raw.drain(gone.line.start..gone.line.end + 2);
            for field in self.fields.iter_mut().skip(at) {
                for range in [&mut field.line, &mut field.name, &mut field.value] {
                    *range = range.start - size..range.end - size;
                }
            }
            self.changed = true;
        }
    }

    /// Gives a field this value, in place of all that it had. Line ends in it become spaces.
    pub(in crate::resource) fn set(&mut self, name: &str, value: &[u8]) {
        self.remove(name);
        self.raw.truncate(self.raw.len().saturating_sub(2));
        let start = self.raw.len();
        self.raw.extend_from_slice(name.as_bytes());
        self.raw.extend_from_slice(b": ");
        let value_start = self.raw.len();
        self.raw.extend(
            value
                .iter()
                .map(|&byte| if byte < b' ' { b' ' } else { byte }),
        );
        self.fields.push(Field {
            line: start..self.raw.len(),
            name: start..start + name.len(),
            value: value_start..self.raw.len(),
        });
        self.raw.extend_from_slice(b"\r\n\r\n");
        self.changed = true;
    }

    /// `Content-Length`.
    ///
    /// # Errors
    /// When it is missing, no number, or there are two that differ.
    pub(in crate::resource) fn content_length(&self) -> Result<u64, LoadError> {
        let mut length = None;
        for field in self
            .fields
            .iter()
            .filter(|field| self.is(field, "Content-Length"))
        {
            let value = self.raw.get(field.value.clone()).unwrap_or_default();
            let number =
                decimal(value).ok_or_else(|| wrong(value, "is not a valid Content-Length"))?;
            if length.is_some_and(|other| other != number) {
                return Err(wrong(value, "is the second Content-Length"));
            }
            length = Some(number);
        }
        length.ok_or_else(|| LoadError::Record("the record has no Content-Length".to_owned()))
    }

    /// `WARC-Type`, empty when there is none.
    pub(in crate::resource) fn record_type(&self) -> &[u8] {
        self.get("WARC-Type").unwrap_or_default()
    }

    /// `WARC-Target-URI`, without the angle brackets that WARC/1.0 allows.
    pub(in crate::resource) fn target_uri(&self) -> Option<String> {
        let uri = self.get("WARC-Target-URI")?;
        let bare = uri
            .strip_prefix(b"<")
            .and_then(|uri| uri.strip_suffix(b">"));
        Some(String::from_utf8_lossy(bare.unwrap_or(uri)).into_owned())
    }

    /// `WARC-Date`, to the second.
    pub(in crate::resource) fn date(&self) -> Option<Timestamp> {
        moment(self.get("WARC-Date")?)
    }
}

/// `2016-01-01T00:00:00Z`, also with fractions of a second, which do not count.
pub(in crate::resource) fn moment(iso: &[u8]) -> Option<Timestamp> {
    const FORM: &[u8] = b"0000-00-00T00:00:00";
    let (seconds, rest) = iso.split_at_checked(FORM.len())?;
    let form = seconds.iter().zip(FORM);
    let shaped = form.clone().all(|(&byte, &form)| match form {
        b'0' => byte.is_ascii_digit(),
        _ => byte == form,
    });
    let fraction = rest.strip_suffix(b"Z").unwrap_or(rest);
    if !shaped
        || !fraction
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.')
    {
        return None;
    }
    let digits: Vec<u8> = seconds.iter().copied().filter(u8::is_ascii_digit).collect();
    Timestamp::earliest(&digits)
}

/// A number in digits and nothing else.
pub(in crate::resource) fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

fn wrong(text: &[u8], what: &str) -> LoadError {
    let shown = String::from_utf8_lossy(text.get(..80).unwrap_or(text)).into_owned();
    LoadError::Record(format!("the record header is not valid: {shown:?} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &[u8] =
        b"WARC/1.0\r\nWARC-Type: response\r\nwarc-target-uri:  <http://a.example/> \r\nContent-Length: 3\r\n\r\n";

    #[test]
    fn a_valid_header_keeps_its_bytes() {
        let header = Header::parse(PLAIN).unwrap();
        assert_eq!(header.raw(), PLAIN);
        assert!(!header.is_changed());
        assert_eq!(header.record_type(), b"response");
        assert_eq!(header.target_uri().as_deref(), Some("http://a.example/"));
        assert_eq!(header.content_length().unwrap(), 3);
        assert_eq!(end_of(PLAIN), Some(PLAIN.len()));
        assert_eq!(end_of(&PLAIN[..PLAIN.len() - 1]), None);
    }

    #[test]
    fn line_ends_and_folds_are_written_anew() {
        let header = Header::parse(b"WARC/0.18\nA: b\n  c\nD:\n\n").unwrap();
        assert!(header.is_changed());
        assert_eq!(header.raw(), b"WARC/0.18\r\nA: b c\r\nD:\r\n\r\n");
        assert_eq!(header.get("a"), Some(&b"b c"[..]));
        assert_eq!(header.get("d"), Some(&b""[..]));
        let twice = b"WARC/1.0\r\r\nA: b\r\r\n\r\r\n";
        assert_eq!(end_of(twice), Some(twice.len()));
        assert_eq!(
            Header::parse(twice).unwrap().raw(),
            b"WARC/1.0\r\nA: b\r\n\r\n"
        );
    }

    #[test]
    fn fields_are_replaced_and_taken_out() {
        let mut header = Header::parse(PLAIN).unwrap();
        header.set("warc-type", b"rev\nisit");
        header.remove("content-length");
        header.set("WARC-Date", b"2016-01-01T00:00:00Z");
        let expected = "WARC/1.0\r\nwarc-target-uri:  <http://a.example/> \r\nwarc-type: rev isit\r\n\
                        WARC-Date: 2016-01-01T00:00:00Z\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(header.raw()), expected);
        assert_eq!(header.date().unwrap().to_string(), "20160101000000");
        let again = Header::parse(header.raw()).unwrap();
        assert_eq!(again.raw(), header.raw());
        assert_eq!(again.get("WARC-Type"), header.get("WARC-Type"));
    }

    #[test]
    fn what_leaves_doubts_is_refused() {
        for wrong in [
            &b"WARC/2.0\r\n\r\n"[..],
            b"\r\n",
            b"WARC/1.0\r\n a: b\r\n\r\n",
            b"WARC/1.0\r\nno field\r\n\r\n",
            b"WARC/1.0\r\n: b\r\n\r\n",
            b"WARC/1.0\r\na: b\0\r\n\r\n",
            b"WARC/1.0\r\na: b\rc: d\r\n\r\n",
        ] {
            assert!(Header::parse(wrong).is_err(), "{wrong:?}");
        }
        for wrong in [
            "",
            "-1",
            "+1",
            "1, 1",
            "99999999999999999999",
            "1\r\nContent-Length: 2",
        ] {
            let raw = format!("WARC/1.0\r\nContent-Length: {wrong}\r\n\r\n");
            assert!(
                Header::parse(raw.as_bytes())
                    .unwrap()
                    .content_length()
                    .is_err(),
                "{wrong}"
            );
        }
    }
}
