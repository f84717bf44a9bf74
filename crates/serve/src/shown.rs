//! Captures as the Internet Archive's CDX server shows them: seven columns without spaces in their values.

use std::borrow::Cow;
use std::sync::Arc;

use crawlspace_cdx::{Field, Filter, Format, Line, Read};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::digest::{Algorithm, Digest};
use data_encoding::BASE32;

use crate::words::words;

/// Default columns of an answer, with their names there.
pub(crate) const COLUMNS: [&str; 7] =
    words("urlkey timestamp original mimetype statuscode digest length");

/// Fields of these columns.
pub(crate) const FIELDS: [Field; 7] = [
    Field::Urlkey,
    Field::Timestamp,
    Field::Url,
    Field::Mime,
    Field::Status,
    Field::Digest,
    Field::Length,
];

/// Media type of a revisit in an index.
const REVISIT: &[u8] = b"warc/revisit";

/// Returns the value of a field: SHA-1 digests in base 32, other digests unchanged, both without the algorithm;
/// timestamps with 14 digits; `-` for the status of a revisit and for missing values. The value has no spaces and is
/// not empty.
pub(crate) fn value<'a>(line: &Line<'a>, field: &Field) -> Cow<'a, [u8]> {
    let own = |field: &Field| line.field(field).unwrap_or_default();
    let value = match field {
        Field::Status if own(&Field::Mime)[..] == *REVISIT => Cow::Borrowed(&b""[..]),
        Field::Digest => bare(own(field)),
        Field::Timestamp => in_seconds(own(field)),
        _ => own(field),
    };
    if value.is_empty() {
        return Cow::Borrowed(b"-");
    }
    if value.iter().any(|&byte| separates(byte)) {
        return Cow::Owned(escaped(&value));
    }
    value
}

/// Formats SHA-1 digests in base 32, and removes the algorithm of all digests.
fn bare(digest: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    match Digest::parse(&digest) {
        Some(Digest {
            algorithm: Algorithm::Sha1,
            value,
        }) => Cow::Owned(BASE32.encode(&value).into_bytes()),
        _ => without_algorithm(digest),
    }
}

/// Returns `ABC` for `md5:ABC`.
fn without_algorithm(digest: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let Some(colon) = memchr::memchr(b':', &digest) else {
        return digest;
    };
    match digest {
        Cow::Borrowed(digest) => Cow::Borrowed(&digest[colon + 1..]),
        Cow::Owned(mut digest) => {
            digest.drain(..=colon);
            Cow::Owned(digest)
        }
    }
}

/// Formats a timestamp with 14 digits, as clients expect: without fractions of a second, and a shortened timestamp as
/// its first second.
fn in_seconds(digits: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if digits.len() < 14 {
        let first = Timestamp::earliest(&digits);
        return first.map_or(digits, |first| first.to_string().into_bytes().into());
    }
    match digits {
        Cow::Borrowed(digits) => Cow::Borrowed(digits.get(..14).unwrap_or(digits)),
        Cow::Owned(mut digits) => {
            digits.truncate(14);
            Cow::Owned(digits)
        }
    }
}

fn separates(byte: u8) -> bool {
    byte <= b' ' || byte == 0x7f
}

fn escaped(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len() + 8);
    for &byte in value {
        if separates(byte) {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            out.push(byte);
        }
    }
    out
}

/// A filter on the values of a capture as they are shown.
#[derive(Clone, Debug)]
pub(crate) struct ShownFilter {
    /// The parsed filter.
    pub filter: Arc<Filter>,
    /// Part of the capture to which the filter applies.
    pub reads: FilterSubject,
}

/// Part of a capture to which a filter applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterSubject {
    /// A single column of the seven, by its index.
    Column(usize),
    /// The line of all seven columns.
    Shown,
    /// Another field of the row.
    Row,
}

/// Returns whether a capture passes all of these filters.
pub(crate) fn passes(line: &Line<'_>, filters: &[ShownFilter]) -> bool {
    let passes = |one: &ShownFilter, line: &Line<'_>| {
        let passes = one.filter.passes(line, &mut |_| false);
        passes.unwrap_or(false)
    };
    filters.iter().all(|one| match one.reads {
        FilterSubject::Row => passes(one, line),
        // Most filters need a single column, so the other columns are not computed.
        FilterSubject::Column(number) => {
            let column = FIELDS.get(number).map(|field| value(line, field));
            let accepted = column.and_then(|column| one.filter.accepts(&column));
            accepted.unwrap_or(false)
        }
        FilterSubject::Shown => {
            let columns = FIELDS.each_ref().map(|field| value(line, field));
            let text = columns.join(&b' ');
            match Line::read(&text, Format::Cdx) {
                Ok(Read::Capture(shown)) => passes(one, &shown),
                _ => false,
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: &str) -> String {
        let text = format!("com,a)/ 201602 {json}");
        let Ok(Read::Capture(line)) = Line::read(text.as_bytes(), Format::Cdxj) else {
            panic!("{text}")
        };
        let columns = FIELDS.each_ref().map(|field| value(&line, field));
        String::from_utf8(columns.join(&b' ')).unwrap()
    }

    #[test]
    fn values_are_columns() {
        for (json, expected) in [
            ("{}", "com,a)/ 20160201000000 - - - - -"),
            (
                r#"{"url": "http://a.com/ b", "mime": "text/html; charset=x", "status": 200, "digest": "sha1:ABC", "length": "7"}"#,
                "com,a)/ 20160201000000 http://a.com/%20b text/html;%20charset=x 200 ABC 7",
            ),
            (
                r#"{"url": "u", "mime": "warc/revisit", "status": "200", "digest": "ABC", "length": ""}"#,
                "com,a)/ 20160201000000 u warc/revisit - ABC -",
            ),
        ] {
            assert_eq!(shown(json), expected);
        }
    }

    #[test]
    fn digests_are_in_base_32() {
        let base32 = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
        let hex = "0e973b59f476007fd10f87f347c3956065516fc0";
        for (digest, expected) in [
            (base32.to_owned(), base32),
            (format!("sha1:{base32}"), base32),
            (format!("SHA-1:{}", base32.to_lowercase()), base32),
            (hex.to_owned(), base32),
            (format!("sha1:{hex}"), base32),
            (hex.to_uppercase(), base32),
            (format!("md5:{}", &hex[..32]), &hex[..32]),
            (format!("sha256:{hex}"), hex),
            ("sha1:short".to_owned(), "short"),
        ] {
            let shown = shown(&format!("{{\"digest\": \"{digest}\"}}"));
            assert_eq!(shown.split(' ').nth(5), Some(expected), "{digest}");
        }
    }
}
