//! The fields of a row that describe its capture and locate its record.

use std::borrow::Cow;

use crawlspace_cdx::{Field, Line, surt};
use url::Url;

use super::digest::Digest;
use super::record::{LoadError, Record};
use super::stored::header::Fields;
use crawlspace_index::Aliases;
use crawlspace_index::row::Row;
use crawlspace_index::spelling::warcio_js;
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::http::Head;
use crawlspace_warc::{Header, decimal, end_of_header};

/// Location of a record: file name, offset and length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Name of the file, not validated.
    pub filename: String,
    /// Offset of the record in the file, in bytes.
    pub offset: u64,
    /// Size of the record in the file, in bytes, if known.
    pub length: Option<u64>,
    /// Number of the package that the row was read from, or 0. If several files have the same name,
    /// the file in that package is used.
    pub package: u64,
}

/// A parsed row.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The urlkey.
    pub urlkey: String,
    /// Digits of the timestamp.
    pub timestamp: String,
    /// URL; empty if the row has none.
    pub url: String,
    /// Media type of the capture; `warc/revisit` for a revisit.
    pub mime: String,
    /// HTTP status of the capture; empty if the row has none.
    pub status: String,
    /// Digest of the payload; empty if the row has none.
    pub digest: String,
    /// Name of the source.
    pub source: String,
    /// `file`, `cdx`, …
    pub source_type: String,
    /// URL of the collection of an upstream server that has the record.
    pub upstream: Option<Url>,
    /// URL of the resource itself; empty if the row has none.
    pub load_url: String,
    /// Method and body of the request if they are part of the key; otherwise empty.
    pub request: (String, String),
    /// Location of the record.
    pub extent: Option<Extent>,
    /// Location of the original of a revisit, if the row has it.
    pub original: Option<Extent>,
}

impl Capture {
    /// Parses a row.
    ///
    /// # Errors
    /// Fails if its JSON is invalid.
    pub fn of(row: &Row) -> Result<Capture, LoadError> {
        let line = row
            .capture()
            .ok_or_else(|| LoadError::Unfit("the row is not valid".to_owned()))?;
        let whole = row.original();
        let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(Capture {
            urlkey: lossy(row.urlkey()),
            timestamp: lossy(row.timestamp()),
            url: text(&line, &Field::Url),
            mime: text(&line, &Field::Mime),
            status: text(&line, &Field::Status),
            digest: text(&line, &Field::Digest),
            source: named(&line, "source"),
            source_type: named(&line, "source_type"),
            upstream: upstream(&line),
            load_url: Some(named(&line, "live_url"))
                .filter(|url| !url.is_empty())
                .unwrap_or_else(|| named(&line, "load_url")),
            request: (named(&line, "method"), named(&line, "requestBody")),
            extent: extent(
                &line,
                [&Field::Filename, &Field::Offset, &Field::Length],
                row.package(),
            ),
            original: extent(
                whole.as_ref().unwrap_or(&line),
                [&Field::OrigFilename, &Field::OrigOffset, &Field::OrigLength],
                row.package(),
            ),
        })
    }
}

impl Capture {
    /// Returns whether the row has a URL of the resource itself.
    pub(super) fn is_live(&self) -> bool {
        !self.load_url.is_empty()
    }

    /// Checks that a record is the capture of this row.
    ///
    /// # Errors
    /// Fails if the record differs; the error names the difference.
    pub(super) fn agrees_with(&self, header: &Header) -> Result<(), LoadError> {
        let differs = |what: String| {
            Err(LoadError::Record(format!(
                "the file holds a different record there: {what}"
            )))
        };
        let kind = header.kind();
        if !KINDS.contains(&kind) {
            return differs(format!("its type is {:?}", String::from_utf8_lossy(kind)));
        }
        if header.get("WARC-Segment-Number").is_some() {
            // A single segment must not be mistaken for the whole capture.
            let what = "it is one segment of a record, and combining segments is not supported";
            return Err(LoadError::Record(what.to_owned()));
        }
        let uri = header.uri().unwrap_or_default();
        let same = uri == self.url
            || match surt::urlkey(&uri) {
                // Recorders may store the lookup URL of a request with a body.
                Ok(key) if self.url.is_empty() || key == self.urlkey => key == self.urlkey,
                Ok(key) => {
                    surt::urlkey(&self.url).is_ok_and(|own| own == key) || self.is_request(&uri)
                }
                Err(_) => false,
            };
        if !same {
            return differs(format!("its URL is {uri:?}"));
        }
        let Some(date) = header.moment() else {
            return differs("it has no valid date".to_owned());
        };
        let digits = self.timestamp.as_bytes();
        let is_within = Timestamp::earliest(digits).is_some_and(|first| first <= date)
            && Timestamp::latest(digits).is_some_and(|last| date <= last);
        if !is_within {
            return differs(format!("its date is {date}"));
        }
        Ok(())
    }

    /// Returns whether a URL encodes the row's request, as ArchiveWeb.page stores it.
    fn is_request(&self, uri: &str) -> bool {
        let (method, body) = &self.request;
        let aliases = Aliases::of_row(&self.url, &self.urlkey, method, body);
        matches!(aliases, Aliases::One { keys, .. } if !method.is_empty() && keys.contains(&warcio_js(uri)))
    }

    /// Returns whether a record redirects to its own URL, judged by urlkeys. Clients would loop if they followed such a
    /// redirect.
    pub(super) fn sends_on_to_itself(&self, record: &Record) -> bool {
        if self.source_type == "live" || self.status.starts_with(['2', '4', '5']) {
            return false;
        }
        let block = end_of_header(&record.head).and_then(|end| record.head.get(end..));
        let head = Head::of(block.unwrap_or_default());
        if !matches!(head.status(), Some(300..=303 | 305..=399)) {
            return false;
        }
        let location = head.get("Location").map(String::from_utf8_lossy);
        let target = Url::parse(&record.target_uri).ok();
        let location = location
            .zip(target)
            .and_then(|(location, target)| target.join(&location).ok());
        location.is_some_and(|location| {
            surt::urlkey(location.as_str()).is_ok_and(|key| key == self.urlkey)
        })
    }

    /// Returns whether the capture may have that digest, according to the row.
    pub(super) fn may_have(&self, digest: &Digest) -> bool {
        let own = Digest::parse(self.digest.as_bytes());
        own.is_none_or(|own| own.algorithm != digest.algorithm || own == *digest)
    }
}

/// Record types that rows can refer to.
const KINDS: [&[u8]; 5] = [
    b"response",
    b"revisit",
    b"resource",
    b"metadata",
    b"conversion",
];

fn value<'a>(line: &Line<'a>, field: &Field) -> Option<Cow<'a, [u8]>> {
    line.field(field)
        .filter(|value| !value.is_empty() && **value != *b"-")
}

/// Returns the URL of the upstream collection, which only rows of `upstream` sources have.
fn upstream(line: &Line<'_>) -> Option<Url> {
    let url = Some(named(line, "upstream_url"))
        .filter(|url| !url.is_empty() && named(line, "source_type") == "upstream")?;
    Url::parse(&url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
}

fn text(line: &Line<'_>, field: &Field) -> String {
    let value = value(line, field).unwrap_or_default();
    String::from_utf8_lossy(&value).into_owned()
}

fn named(line: &Line<'_>, name: &str) -> String {
    text(line, &Field::Other(name.as_bytes().into()))
}

fn extent(
    line: &Line<'_>,
    [filename, offset, length]: [&Field; 3],
    package: u64,
) -> Option<Extent> {
    let filename = String::from_utf8(value(line, filename)?.into_owned()).ok()?;
    let offset = decimal(&value(line, offset)?)?;
    let length = value(line, length).and_then(|value| decimal(&value));
    Some(Extent {
        filename,
        offset,
        length: length.filter(|length| *length > 0),
        package,
    })
}

/// Returns whether a file name from a row is safe below a folder: it must be relative, without
/// `..`, and without characters that have a special meaning for the file system or in a URL.
pub(super) fn is_name(name: &str) -> bool {
    let part = |part: &str| !part.is_empty() && part != "." && part != "..";
    name.len() <= 4096
        && name.split('/').all(part)
        && !name.chars().any(|c| c.is_control() || c == '\\')
        && !name.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capture(json: &str) -> Capture {
        let line = format!("com,example)/ 20160101000000 {json}");
        Capture::of(&Row::new(line.into()).unwrap()).unwrap()
    }

    #[test]
    fn row_says_where_its_record_is() {
        let row = capture(
            r#"{"url": "http://example.com/", "filename": "a/b.warc.gz", "offset": "12", "length": 34,
                "orig.filename": "c.warc.gz", "orig.offset": 5, "orig.length": "-", "source": "s"}"#,
        );
        let extent = |filename: &str, offset, length| Extent {
            filename: filename.to_owned(),
            offset,
            length,
            package: 0,
        };
        assert_eq!(row.extent, Some(extent("a/b.warc.gz", 12, Some(34))));
        assert_eq!(row.original, Some(extent("c.warc.gz", 5, None)));
        assert_eq!(row.source, "s");
        for without in [
            r#"{"filename": "a", "offset": "-1"}"#,
            r#"{"filename": "-", "offset": "1"}"#,
            r#"{"filename": "a"}"#,
            r#"{"filename": "a", "offset": "99999999999999999999"}"#,
        ] {
            assert_eq!(capture(without).extent, None, "{without}");
        }
        assert_eq!(
            capture(r#"{"filename": "a", "offset": 1, "length": 0}"#).extent,
            Some(extent("a", 1, None))
        );
    }

    #[test]
    fn names_stay_below_their_folder() {
        for name in [
            "a.warc.gz",
            "2016/01/a.warc.gz",
            "..a",
            "a..",
            "a b",
            "ä.warc",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a\\b",
            "..\\a",
            "a\0b",
            "a\nb",
            "http://a/b",
            "file:///a",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
