//! Byte ranges in responses (RFC 9110, section 14), and the validators that tell versions of a file apart.

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED};
use url::Url;

/// The part of a file that a response contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of the first byte.
    pub from: u64,
    /// Offset of the last byte.
    pub last: u64,
    /// Size of the file in bytes, if known.
    pub total: Option<u64>,
}

/// Header fields that tell one version of a file from another (RFC 9110, section 8.8).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Validators {
    tag: Option<String>,
    modified: Option<String>,
}

impl Part {
    /// Parses the field `Content-Range`: `bytes 0-3/1234`, where the total may be `*`.
    pub fn parse(field: &str) -> Option<Part> {
        let (unit, range) = field.split_once(' ')?;
        let (range, total) = range.split_once('/')?;
        let (from, last) = range.split_once('-')?;
        let (from, last) = (number(from.trim())?, number(last.trim())?);
        let total = match total.trim() {
            "*" => None,
            total => Some(number(total)?),
        };
        let is_sound = unit.eq_ignore_ascii_case("bytes")
            && from <= last
            && total.is_none_or(|total| last < total);
        is_sound.then_some(Part { from, last, total })
    }

    /// Returns the part that remains if only the first `length` bytes were recorded, as a recorder may stop early.
    pub fn cut(self, length: u64) -> Option<Part> {
        let last = self.from.checked_add(length.checked_sub(1)?)?;
        Some(Part {
            last: last.min(self.last),
            ..self
        })
    }

    /// Returns true if the part is the whole file.
    pub fn is_whole(self) -> bool {
        self.from == 0 && self.total == Some(self.last + 1)
    }
}

/// Returns the size of a file from the header of a response with the status 416 (`bytes */1234`).
pub fn total(headers: &HeaderMap) -> Option<u64> {
    let range = field(headers, CONTENT_RANGE)?;
    number(range.strip_prefix("bytes */")?)
}

/// Returns the content coding that a server applied although the request asked for none. Returns `None`
/// if the coding belongs to the file itself.
pub fn foreign_coding(headers: &HeaderMap, url: &Url) -> Option<String> {
    let is_own = |coding: &String| match coding.to_ascii_lowercase().as_str() {
        "identity" => true,
        // Some servers send `Content-Encoding: gzip` for gzip files (`AddEncoding` of Apache).
        "gzip" | "x-gzip" => url.path().ends_with(".gz"),
        _ => false,
    };
    field(headers, CONTENT_ENCODING).filter(|coding| !is_own(coding))
}

/// Returns the text of a header field.
pub fn field(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

fn number(digits: &str) -> Option<u64> {
    digits
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| digits.parse().ok())?
}

impl Validators {
    /// Returns the validators of a response.
    pub fn of(headers: &HeaderMap) -> Validators {
        Validators {
            tag: field(headers, ETAG),
            modified: field(headers, LAST_MODIFIED),
        }
    }

    /// Describes the difference between these validators and earlier ones. A field that exists on only one
    /// side is ignored.
    pub fn difference(&self, first: &Validators) -> Option<String> {
        let differs = |name: &str, a: &Option<String>, b: &Option<String>| match (a, b) {
            (Some(now), Some(before)) if now != before => {
                Some(format!("its {name} was {before}, and is {now}"))
            }
            _ => None,
        };
        differs("ETag", &self.tag, &first.tag)
            .or_else(|| differs("Last-Modified", &self.modified, &first.modified))
    }
}

#[cfg(test)]
mod tests {
    use super::Part;

    #[test]
    fn content_range_is_parsed_as_in_the_standard() {
        let part = |from, last, total| Some(Part { from, last, total });
        assert_eq!(Part::parse("bytes 0-3/10"), part(0, 3, Some(10)));
        assert_eq!(Part::parse("bytes 9-9/10"), part(9, 9, Some(10)));
        assert_eq!(Part::parse("bytes 7-8/*"), part(7, 8, None));
        assert_eq!(Part::parse("Bytes 7 - 8 / 10"), part(7, 8, Some(10)));
        assert!(part(0, 9, Some(10)).is_some_and(Part::is_whole));
        for piece in [part(0, 8, Some(10)), part(1, 9, Some(10)), part(0, 9, None)] {
            assert!(!piece.is_some_and(Part::is_whole));
        }
        for wrong in [
            "",
            "bytes",
            "bytes */10",
            "0-3/10",
            "bytes 3-2/10",
            "bytes 0-10/10",
            "bytes 0-3",
            "bytes -3/10",
            "bytes 0-/10",
            "bytes +0-3/10",
            "lines 0-3/10",
            "bytes 0-3/x",
            "bytes 0-99999999999999999999/*",
        ] {
            assert_eq!(Part::parse(wrong), None, "{wrong}");
        }
    }
}
