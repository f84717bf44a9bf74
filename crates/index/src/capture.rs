//! Classifies the lines of CDX(J) files for a dedupe index.

use std::borrow::Cow;

use crawlspace_cdx::{Field, Format, Line, Read};
use crawlspace_compact::limits::dedupe::{MAX_HASH_BYTES, MIN_HASH_BYTES, URL_BYTES};
use crawlspace_warc::digest::is_of_nothing;

const REVISIT: &[u8] = b"warc/revisit";

/// A line of a CDX(J) file, as a dedupe index treats it.
#[derive(Debug, PartialEq, Eq)]
pub enum Capture<'a> {
    /// A `response` record.
    Response {
        /// The payload digest, as written in the line.
        hash: Cow<'a, [u8]>,
        /// The capture date: 14 or 17 digits.
        date: Cow<'a, [u8]>,
        /// The URL.
        url: Cow<'a, [u8]>,
        /// Compressed length of the record in bytes; 0 if unknown.
        size: u64,
    },
    /// A `revisit` record.
    Revisit {
        /// The payload digest, as written in the line.
        hash: Cow<'a, [u8]>,
        /// Compressed length of the record in bytes; 0 if unknown.
        size: u64,
    },
    /// A capture without a payload to deduplicate. Either the capture was not fetched by HTTP (extracted
    /// text, metadata, DNS), or its digest is the digest of the empty string, which some programs also write
    /// for an unknown digest.
    Other,
    /// A header or a blank line.
    Nothing,
    /// An invalid line, with the reason.
    Bad(String),
    /// A header that lists the columns in an unsupported order, with a remedy. The lines below such a header
    /// must not be read, because the parser would confuse their columns.
    Order(String),
}

impl<'a> Capture<'a> {
    /// Parses a line of a CDX or CDXJ file, without its line end.
    pub fn of_line(raw: &'a [u8]) -> Capture<'a> {
        match Line::read(raw, Format::Auto) {
            Ok(Read::Capture(line)) => Capture::of(&line),
            Ok(Read::Skipped) => Capture::Nothing,
            Err(reason) if reason.is_order() => Capture::Order(reason.to_string()),
            Err(reason) => Capture::Bad(reason.to_string()),
        }
    }

    /// Classifies a parsed line.
    pub fn of(line: &Line<'a>) -> Capture<'a> {
        let field = |field| line.field(&field).unwrap_or_default();
        let url = field(Field::Url);
        if !is_http(&url) {
            return Capture::Other;
        }
        let hash = field(Field::Digest);
        if !is_hash(&hash) {
            return Capture::Bad(match &hash[..] {
                b"" | b"-" => "it has no digest".to_owned(),
                _ => format!(
                    "its digest is invalid, it must have {MIN_HASH_BYTES} to {MAX_HASH_BYTES} bytes and no control \
                     characters: {}",
                    hash.escape_ascii()
                ),
            });
        }
        if is_of_nothing(&hash) {
            return Capture::Other;
        }
        let length = field(Field::Length);
        let Some(size) = size_of(&length) else {
            let length = length.escape_ascii();
            return Capture::Bad(format!(
                "its length is not a number of up to 15 digits: {length}"
            ));
        };
        if field(Field::Mime)[..] == *REVISIT {
            return Capture::Revisit { hash, size };
        }
        let date = field(Field::Timestamp);
        if !is_date(&date) {
            let date = date.escape_ascii();
            return Capture::Bad(format!(
                "its date is invalid, it must have 14 or 17 digits: {date}"
            ));
        }
        if url.len() > URL_BYTES {
            return Capture::Bad(format!("its URL is longer than {} MiB", URL_BYTES >> 20));
        }
        Capture::Response {
            hash,
            date,
            url,
            size,
        }
    }
}

/// Returns whether a URL was fetched by HTTP. Indexes also contain captures that crawlers generate (`urn:text:…`,
/// `metadata://…`, `dns:…`); these are neither `response` nor `revisit` records.
fn is_http(url: &[u8]) -> bool {
    let begins = |with: &[u8]| {
        url.get(..with.len())
            .is_some_and(|b| b.eq_ignore_ascii_case(with))
    };
    begins(b"http://") || begins(b"https://")
}

/// Returns whether the server accepts a digest as a hash. A single invalid hash would make the server reject
/// the whole batch.
pub fn is_hash(digest: &[u8]) -> bool {
    (MIN_HASH_BYTES..=MAX_HASH_BYTES).contains(&digest.len())
        && !digest.iter().any(u8::is_ascii_control)
}

fn is_date(date: &[u8]) -> bool {
    matches!(date.len(), 14 | 17) && date.iter().all(u8::is_ascii_digit)
}

/// Parses the length of a record in bytes. Returns 0 for an unknown length (empty or `-`).
fn size_of(length: &[u8]) -> Option<u64> {
    match length {
        b"" | b"-" => Some(0),
        digits if digits.iter().all(u8::is_ascii_digit) && digits.len() <= 15 => {
            std::str::from_utf8(digits).ok()?.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn cdxj(url: &str, mime: &str, digest: &str, length: &str) -> String {
        format!(
            r#"org,example)/ 20240102030405 {{"url": "{url}", "mime": "{mime}", "status": "200", "digest": "{digest}", "length": "{length}", "offset": "0", "filename": "a.warc.gz"}}"#
        )
    }

    #[test]
    fn line_is_a_response_unless_its_type_is_revisit() {
        let line = cdxj("https://example.org/", "text/html", HASH, "1043");
        assert_eq!(
            Capture::of_line(line.as_bytes()),
            Capture::Response {
                hash: HASH.as_bytes().into(),
                date: b"20240102030405"[..].into(),
                url: b"https://example.org/"[..].into(),
                size: 1043
            }
        );
        let line = cdxj("https://example.org/", "warc/revisit", HASH, "523");
        assert_eq!(
            Capture::of_line(line.as_bytes()),
            Capture::Revisit {
                hash: HASH.as_bytes().into(),
                size: 523
            }
        );
    }

    #[test]
    fn eleven_column_indexes_are_read() {
        let line = b"org,example)/ 20240102030405 http://example.org/ text/html 200 B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A - - 1043 333 a.warc.gz";
        assert!(matches!(
            Capture::of_line(line),
            Capture::Response { size: 1043, .. }
        ));
        assert_eq!(
            Capture::of_line(b" CDX N b a m s k r M S V g"),
            Capture::Nothing
        );
        let wget = Capture::of_line(b" CDX a b a m s k r M V g u");
        assert!(matches!(wget, Capture::Order(reason) if reason.contains("a b a m s k r M V g u")));
    }

    #[test]
    fn lines_that_are_no_captures_are_skipped() {
        for url in [
            "urn:text:https://example.org/",
            "dns:example.org",
            "metadata://gnu.org/software/wget/warc/MANIFEST.txt",
        ] {
            let line = cdxj(url, "text/plain", HASH, "1043");
            assert_eq!(Capture::of_line(line.as_bytes()), Capture::Other, "{url}");
        }
    }

    #[test]
    fn digest_of_empty_content_is_no_digest() {
        for digest in [
            "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
            "md5:d41d8cd98f00b204e9800998ecf8427e",
        ] {
            for mime in ["text/html", "warc/revisit"] {
                let line = cdxj("https://example.org/", mime, digest, "1043");
                assert_eq!(Capture::of_line(line.as_bytes()), Capture::Other, "{line}");
            }
        }
    }

    #[test]
    fn refused_line_reports_the_reason() {
        let bad = |line: &str, why: &str| match Capture::of_line(line.as_bytes()) {
            Capture::Bad(reason) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{line}: {other:?}"),
        };
        bad(&cdxj("http://a/", "text/html", "-", "1"), "no digest");
        bad(&cdxj("http://a/", "text/html", "short", "1"), "digest");
        bad(&cdxj("http://a/", "text/html", HASH, "-5"), "length");
        bad(
            &cdxj("http://a/", "text/html", HASH, "99999999999999999999"),
            "length",
        );
        bad(
            "org,example)/ 2024 {\"url\": \"http://a/\", \"digest\": \"B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\"}",
            "date",
        );
        bad("nonsense", "");
    }
}
