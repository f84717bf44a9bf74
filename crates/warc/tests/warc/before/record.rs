use super::Problem;

/// The header of a WARC record: its named fields, in the order of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    record_type: RecordType,
    content_length: u64,
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

impl Header {
    pub(super) fn new(fields: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Header, Problem> {
        let missing = |name: &str| Problem::Header(format!("{name} is missing"));
        let length = field(&fields, "Content-Length").ok_or_else(|| missing("Content-Length"))?;
        let content_length = decimal(length).ok_or_else(|| {
            Problem::Header(format!(
                "Content-Length {:?} is not a number",
                String::from_utf8_lossy(length)
            ))
        })?;
        let record_type = field(&fields, "WARC-Type").ok_or_else(|| missing("WARC-Type"))?;
        Ok(Header {
            record_type: RecordType::parse(record_type),
            content_length,
            fields,
        })
    }

    /// The value of a field, whose name is compared without regard to case. Of a field that stands
    /// there more than once, the first.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        field(&self.fields, name)
    }

    /// All fields, in the order of the file.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]))
    }

    /// `WARC-Type`.
    pub fn record_type(&self) -> RecordType {
        self.record_type
    }

    /// `Content-Length`: the size of the block in bytes, before compression.
    pub fn content_length(&self) -> u64 {
        self.content_length
    }

    /// `WARC-Target-URI`, without the angle brackets that WARC/1.0 allows and wget writes.
    pub fn target_uri(&self) -> Option<&[u8]> {
        let uri = self.get("WARC-Target-URI")?;
        Some(
            uri.strip_prefix(b"<")
                .and_then(|uri| uri.strip_suffix(b">"))
                .unwrap_or(uri),
        )
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
        timestamp(self.date()?)
    }
}

fn field<'a>(fields: &'a [(Vec<u8>, Vec<u8>)], name: &str) -> Option<&'a [u8]> {
    fields
        .iter()
        .find(|(field, _)| field.eq_ignore_ascii_case(name.as_bytes()))
        .map(|(_, value)| &value[..])
}

pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

/// `2026-03-19T10:20:15Z` to `20260319102015`, and `2026-03-19T10:20:15.1234Z` to `20260319102015123`.
fn timestamp(iso: &[u8]) -> Option<Vec<u8>> {
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
    let fraction = rest.strip_suffix(b"Z")?;
    if let Some(fraction) = fraction.strip_prefix(b".") {
        if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
            return None;
        }
        digits.extend((0..3).map(|i| fraction.get(i).copied().unwrap_or(b'0')));
    } else if !fraction.is_empty() {
        return None;
    }
    Some(digits)
}
