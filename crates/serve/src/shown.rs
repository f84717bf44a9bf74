//! Captures as the Internet Archive's CDX server shows them: in seven columns, without spaces in them.

use std::borrow::Cow;

use crawlspace_cdx::{Field, Format, Line, Read};

use crate::query::{FilterSubject, ShownFilter};
use crate::words::words;

/// The columns of an answer that names none, by the names that they have there.
pub(crate) const COLUMNS: [&str; 7] =
    words("urlkey timestamp original mimetype statuscode digest length");

/// The fields of these columns.
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

/// The value of a field: a digest without its algorithm, a moment in
/// seconds, `-` for the status of a revisit and for what is missing. It
/// has no spaces and is not empty.
pub(crate) fn value<'a>(line: &Line<'a>, field: &Field) -> Cow<'a, [u8]> {
    let own = |field: &Field| line.field(field).unwrap_or_default();
    let value = match field {
        Field::Status if own(&Field::Mime)[..] == *REVISIT => Cow::Borrowed(&b""[..]),
        Field::Digest => without_algorithm(own(field)),
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

/// `ABC` of `sha1:ABC`.
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

/// A moment without parts of a second, which some programs that read it do not expect.
fn in_seconds(digits: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
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

/// Whether a capture passes all of these filters.
pub(crate) fn passes(line: &Line<'_>, filters: &[ShownFilter]) -> bool {
    let passes = |one: &ShownFilter, line: &Line<'_>| {
        let passes = one.filter.passes(line, &mut |_| false);
        passes.unwrap_or(false)
    };
    filters.iter().all(|one| match one.reads {
        FilterSubject::Row => passes(one, line),
        // Most filters read one column, and the others need not be made for them.
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
        let text = format!("com,a)/ 2016 {json}");
        let Ok(Read::Capture(line)) = Line::read(text.as_bytes(), Format::Cdxj) else {
            panic!("{text}")
        };
        let columns = FIELDS.each_ref().map(|field| value(&line, field));
        String::from_utf8(columns.join(&b' ')).unwrap()
    }

    #[test]
    fn values_are_columns() {
        for (json, expected) in [
            ("{}", "com,a)/ 2016 - - - - -"),
            (
                r#"{"url": "http://a.com/ b", "mime": "text/html; charset=x", "status": 200, "digest": "sha1:ABC", "length": "7"}"#,
                "com,a)/ 2016 http://a.com/%20b text/html;%20charset=x 200 ABC 7",
            ),
            (
                r#"{"url": "u", "mime": "warc/revisit", "status": "200", "digest": "ABC", "length": ""}"#,
                "com,a)/ 2016 u warc/revisit - ABC -",
            ),
        ] {
            assert_eq!(shown(json), expected);
        }
    }
}
