//! What a row says about the record of its capture.

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

/// Where a record is, as rows say it: a file by its name, and a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The name of the file, as yet unchecked.
    pub filename: String,
    /// Where the record begins, in bytes.
    pub offset: u64,
    /// The record's size in the file in bytes, when that is known.
    pub length: Option<u64>,
    /// The number of the package that the row was read from, or 0: of files with the same name, that of the package.
    pub package: u64,
}

/// A row, taken apart.
#[derive(Clone, Debug)]
pub struct Capture {
    /// The urlkey.
    pub urlkey: String,
    /// The digits of the timestamp.
    pub timestamp: String,
    /// The URL; empty when the row has none.
    pub url: String,
    /// The capture's media type, `warc/revisit` of a revisit.
    pub mime: String,
    /// The capture's HTTP status; empty when the row has none.
    pub status: String,
    /// The digest of its payload; empty when the row has none.
    pub digest: String,
    /// The capture's source.
    pub source: String,
    /// `file`, `cdx`, …
    pub source_type: String,
    /// The collection of another server of this kind that has the record.
    pub upstream: Option<Url>,
    /// Where the resource itself is; empty when the row does not say.
    pub load_url: String,
    /// The method and the body of the request, where they are a part of the key; empty otherwise.
    pub request: (String, String),
    /// Where its record is.
    pub extent: Option<Extent>,
    /// Where the record is that it refers to, when the row says so.
    pub original: Option<Extent>,
}

impl Capture {
    /// Takes a row apart.
    ///
    /// # Errors
    /// When its JSON is invalid.
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
    /// Whether it says where the resource itself is.
    pub(super) fn is_live(&self) -> bool {
        !self.load_url.is_empty()
    }

    /// Whether a record is the one that the row is about.
    ///
    /// # Errors
    /// When it is not, with what differs.
    pub(super) fn agrees_with(&self, header: &Header) -> Result<(), LoadError> {
        let differs = |what: String| {
            Err(LoadError::Record(format!(
                "the record there is another one: {what}"
            )))
        };
        let kind = header.kind();
        if !KINDS.contains(&kind) {
            return differs(format!(
                "it is of the type {:?}",
                String::from_utf8_lossy(kind)
            ));
        }
        if header.get("WARC-Segment-Number").is_some() {
            // Its block would pass for all of the capture.
            let what = "it is one segment of a record, and segments are not put together";
            return Err(LoadError::Record(what.to_owned()));
        }
        let uri = header.uri().unwrap_or_default();
        let same = uri == self.url
            || match surt::urlkey(&uri) {
                // A recorder may store the look-up URL of a request with a body.
                Ok(key) if self.url.is_empty() || key == self.urlkey => key == self.urlkey,
                Ok(key) => {
                    surt::urlkey(&self.url).is_ok_and(|own| own == key) || self.is_request(&uri)
                }
                Err(_) => false,
            };
        if !same {
            return differs(format!("it is of {uri:?}"));
        }
        let Some(date) = header.moment() else {
            return differs("it has no valid date".to_owned());
        };
        let digits = self.timestamp.as_bytes();
        let is_within = Timestamp::earliest(digits).is_some_and(|first| first <= date)
            && Timestamp::latest(digits).is_some_and(|last| date <= last);
        if !is_within {
            return differs(format!("it is of {date}"));
        }
        Ok(())
    }

    /// Returns whether a URL has the request of the row in it, as ArchiveWeb.page stores it.
    fn is_request(&self, uri: &str) -> bool {
        let (method, body) = &self.request;
        let aliases = Aliases::of_row(&self.url, &self.urlkey, method, body);
        matches!(aliases, Aliases::One { keys, .. } if !method.is_empty() && keys.contains(&warcio_js(uri)))
    }

    /// Whether a record sends on to the URL that it is the record of, as far as urlkeys tell URLs apart. Whoever
    /// follows it is sent there again and again.
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

    /// Whether it is a capture with that digest, as far as the row says.
    pub(super) fn may_have(&self, digest: &Digest) -> bool {
        let own = Digest::parse(self.digest.as_bytes());
        own.is_none_or(|own| own.algorithm != digest.algorithm || own == *digest)
    }
}

/// Types of records that rows are about.
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

/// What a source of that kind says; others do not know.
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

/// Whether a name from a row can be one of a file below a folder: relative, without steps up, and nothing in it that
/// means something else to the file system or in a URL.
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
    fn a_row_says_where_its_record_is() {
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
