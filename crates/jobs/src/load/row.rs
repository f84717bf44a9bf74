//! Classifies the lines of an index for loading.

use std::borrow::Cow;

use crawlspace_cdx::{Field, Format, Line, Read};
use crawlspace_compact::limits::dedupe::FILENAME_BYTES;

use crawlspace_index::capture::Capture;

/// A line of an index, as loading treats it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Row<'a> {
    /// A record, and the (W)ARC file that contains it.
    Record {
        hash: Cow<'a, [u8]>,
        date: Cow<'a, [u8]>,
        url: Cow<'a, [u8]>,
        size: u64,
        file: Cow<'a, [u8]>,
    },
    /// A capture whose file is unknown.
    Nowhere,
    /// A capture that was not fetched by HTTP.
    Other,
    /// An invalid line, with the reason.
    Bad(String),
}

impl<'a> Row<'a> {
    pub(crate) fn of(raw: &'a [u8]) -> Row<'a> {
        let line = match Line::read(raw, Format::Cdxj) {
            Ok(Read::Capture(line)) => line,
            Ok(Read::Skipped) => return Row::Other,
            Err(reason) => return Row::Bad(reason.to_string()),
        };
        match Capture::of(&line) {
            Capture::Response {
                hash,
                date,
                url,
                size,
            } => match line.filename() {
                file if matches!(&file[..], b"" | b"-") => Row::Nowhere,
                file if file.len() > FILENAME_BYTES => Row::Bad(format!(
                    "the name of its file is longer than {} KiB",
                    FILENAME_BYTES >> 10
                )),
                file => Row::Record {
                    hash: spelled(hash),
                    date,
                    url,
                    size: match size {
                        0 => fetched(&line),
                        size => size,
                    },
                    file,
                },
            },
            Capture::Revisit { .. } | Capture::Other | Capture::Nothing | Capture::Order(_) => {
                Row::Other
            }
            Capture::Bad(reason) => Row::Bad(reason),
        }
    }
}

/// Returns the size of the fetched content, for rows without the length of their records.
fn fetched(line: &Line<'_>) -> u64 {
    let size = line.field(&Field::named(b"size")).unwrap_or_default();
    let size = std::str::from_utf8(&size).unwrap_or_default();
    size.parse().unwrap_or(0)
}

/// Adds the name of the algorithm to a digest without one, if the digits identify it.
fn spelled(digest: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let is_base32 = |b: &u8| matches!(b, b'A'..=b'Z' | b'2'..=b'7');
    let named = |name: &[u8]| Cow::Owned([name, &digest].concat());
    match digest.len() {
        32 if digest.iter().all(is_base32) => named(b"sha1:"),
        64 if digest.iter().all(u8::is_ascii_hexdigit) => named(b"sha256:"),
        _ => digest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA1: &str = "B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";

    fn line(url: &str, digest: &str, rest: &str) -> String {
        format!(
            r#"org,example)/ 20260102030405 {{"url":"{url}","mime":"image/png","status":"200","digest":"{digest}"{rest},"job":"7"}}"#
        )
    }

    const PLACE: &str = r#","length":"1043","offset":"333","filename":"7-1.warc.gz""#;

    #[test]
    fn row_with_a_location_is_a_record() {
        let raw = line("http://example.org/", SHA1, PLACE);
        let expected = Row::Record {
            hash: format!("sha1:{SHA1}").into_bytes().into(),
            date: b"20260102030405"[..].into(),
            url: b"http://example.org/"[..].into(),
            size: 1043,
            file: b"7-1.warc.gz"[..].into(),
        };
        assert_eq!(Row::of(raw.as_bytes()), expected);
    }

    #[test]
    fn record_without_a_length_has_the_fetched_size() {
        let sizes = [
            (r#","size":"9","offset":"3","filename":"a.arc""#, 9),
            (
                r#","size":"9","length":"5","offset":"3","filename":"a.arc""#,
                5,
            ),
            (r#","size":"-","offset":"3","filename":"a.arc""#, 0),
            (r#","offset":"3","filename":"a.arc""#, 0),
        ];
        for (rest, expected) in sizes {
            let raw = line("http://example.org/", SHA1, rest);
            match Row::of(raw.as_bytes()) {
                Row::Record { size, .. } => assert_eq!(size, expected, "{rest}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn capture_without_a_location_is_no_original() {
        let raw = line("http://example.org/", SHA1, "");
        assert_eq!(Row::of(raw.as_bytes()), Row::Nowhere);
    }

    #[test]
    fn digest_is_labelled_by_its_length() {
        let spelled = |text: &'static str| {
            let spelled = super::spelled(text.as_bytes().into()).into_owned();
            String::from_utf8(spelled).expect("it was text")
        };
        let sha256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(spelled(sha256), format!("sha256:{sha256}"));
        // Other digests, such as MD5 in hexadecimal, are left unchanged.
        let md5 = "098f6bcd4621d373cade4e832627b4f6";
        assert_eq!(spelled(md5), md5);
        let other = "some-other-digest-of-some-kind";
        assert_eq!(spelled(other), other);
    }

    #[test]
    fn non_http_captures_are_skipped() {
        let raw = line("dns:example.org", SHA1, PLACE);
        assert_eq!(Row::of(raw.as_bytes()), Row::Other);
    }

    #[test]
    fn bad_lines_report_the_reason() {
        for (raw, why) in [
            (line("http://example.org/", "short", PLACE), "digest"),
            ("nonsense".to_owned(), ""),
            (
                line(
                    "http://a/",
                    SHA1,
                    &format!(r#","filename":"{}""#, "a".repeat(FILENAME_BYTES + 1)),
                ),
                "4 KiB",
            ),
        ] {
            match Row::of(raw.as_bytes()) {
                Row::Bad(reason) => assert!(reason.contains(why), "{reason}"),
                other => panic!("{raw}: {other:?}"),
            }
        }
    }
}
