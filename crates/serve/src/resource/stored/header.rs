//! Typed access to the fields of a record's header.

use crate::resource::record::LoadError;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{Header, decimal};

/// Known record types.
const KINDS: [&[u8]; 8] = [
    b"warcinfo",
    b"response",
    b"resource",
    b"request",
    b"metadata",
    b"revisit",
    b"conversion",
    b"continuation",
];

/// Parses the header of one record.
///
/// # Errors
/// Fails if it violates ISO 28500, chapter 4, in a way that makes its meaning ambiguous.
pub(in crate::resource) fn parse(raw: &[u8]) -> Result<Header, LoadError> {
    let header = Header::parse(raw)?;
    check_length(&header)?;
    Ok(header)
}

/// Checks that repeated `Content-Length` fields do not contradict each other.
pub(super) fn check_length(header: &Header) -> Result<(), LoadError> {
    let is_length = |name: &[u8]| name.eq_ignore_ascii_case(b"Content-Length");
    let mut lengths = header.fields().filter(|(name, _)| is_length(name));
    let other = lengths.find(|(_, value)| decimal(value) != Some(header.content_length()));
    other.map_or(Ok(()), |(_, value)| {
        let value = String::from_utf8_lossy(value);
        let what =
            format!("the record header is not valid: {value:?} is the second Content-Length");
        Err(LoadError::Record(what))
    })
}

/// Typed access to fields of a header.
pub(in crate::resource) trait Fields {
    /// Returns the value of a field as text, with invalid UTF-8 replaced.
    fn text(&self, name: &str) -> Option<String>;
    /// Returns `WARC-Type`, in lower case if it is a known type; empty if it is missing.
    fn kind(&self) -> &[u8];
    /// Returns `WARC-Target-URI` as text, without angle brackets.
    fn uri(&self) -> Option<String>;
    /// Returns `WARC-Date`, with a resolution of one second.
    fn moment(&self) -> Option<Timestamp>;
}

impl Fields for Header {
    fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(self.get(name)?).into_owned())
    }

    fn kind(&self) -> &[u8] {
        let kind = self.get("WARC-Type").unwrap_or_default();
        let mut known = KINDS.iter();
        // Keywords of the grammar are case-insensitive (RFC 2616, section 2.1).
        known
            .find(|known| known.eq_ignore_ascii_case(kind))
            .map_or(kind, |known| known)
    }

    fn uri(&self) -> Option<String> {
        Some(String::from_utf8_lossy(self.target_uri()?).into_owned())
    }

    fn moment(&self) -> Option<Timestamp> {
        Timestamp::from_iso(self.date()?)
    }
}
