//! What of a record's header is text or a moment here.

use crate::resource::record::LoadError;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{Header, decimal};

/// The types of records that are told apart here.
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
/// When it breaks the rules of ISO 28500, chapter 4, in a way that leaves doubts about what is meant.
pub(in crate::resource) fn parse(raw: &[u8]) -> Result<Header, LoadError> {
    let header = Header::parse(raw)?;
    check_length(&header)?;
    Ok(header)
}

/// Sees to it that there are no two lengths that differ.
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

/// Fields of a header as they are needed here.
pub(in crate::resource) trait Fields {
    /// The value of a field as text, with bytes that are not valid UTF-8 replaced.
    fn text(&self, name: &str) -> Option<String>;
    /// `WARC-Type`, a known one in small letters; empty when there is none.
    fn kind(&self) -> &[u8];
    /// `WARC-Target-URI` as text, without angle brackets.
    fn uri(&self) -> Option<String>;
    /// `WARC-Date`, to the second.
    fn moment(&self) -> Option<Timestamp>;
}

impl Fields for Header {
    fn text(&self, name: &str) -> Option<String> {
        Some(String::from_utf8_lossy(self.get(name)?).into_owned())
    }

    fn kind(&self) -> &[u8] {
        let kind = self.get("WARC-Type").unwrap_or_default();
        let mut known = KINDS.iter();
        // Words of the grammar are the same in either case (RFC 2616, section 2.1).
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
