//! Indexes WARC and ARC files: reads their records and writes the rows of a CDXJ index.
//!
//! Rows have the fields of cdxj-indexer 1.5.0, and the urlkeys of [`surt`]. Responses to `POST` and `PUT` requests get
//! the urlkey of [`post`](crawlspace_cdx::post), if `WARC-Concurrent-To` of either record names the other one, and at
//! most 15 captures or requests are between them. [`rows`] reads one file; [`Job`] reads many files with several
//! threads, and sorts the rows.

mod build;
mod json;
mod linked;
#[cfg(test)]
mod tests;

use std::io::Read;

use bytes::BytesMut;
use crawlspace_cdx::surt;
use crawlspace_warc::chunked::{Chunked, Piece};
use crawlspace_warc::digest::{Algorithm, Digester};
use crawlspace_warc::http::{self, Head};
use crawlspace_warc::{self as warc, Header, Reader, Record, RecordType};
use serde::Serialize;

use self::linked::{Pending, Request};
use crate::timestamp::Timestamp;
use crate::{Error, Work};

pub use self::build::{Built, Job};
pub use self::json::push_field;

/// Counts of the records and rows of WARC files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Number of files that were read completely.
    pub files: u64,
    /// Number of records of all types.
    pub records: u64,
    /// Number of rows.
    pub rows: u64,
    /// Number of captures without a row, because they have no valid URL or date.
    pub skipped: u64,
    /// Size of all records in the files, in bytes.
    pub bytes: u64,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.files += other.files;
        self.records += other.records;
        self.rows += other.rows;
        self.skipped += other.skipped;
        self.bytes += other.bytes;
    }
}

/// Reads a WARC or ARC file, and passes the rows of its captures to `each`, in the order of the file and without line
/// ends. `filename` is the name of the file in the rows. After an error, all rows before the damage were passed.
///
/// ```
/// use crawlspace_index::{Work, cdxj};
/// use crawlspace_warc::{Compression, Reader, Writer};
/// let mut file = Vec::new();
/// Writer::new(&mut file, Compression::None).write(
///     &[
///         ("WARC-Type", b"response"),
///         ("WARC-Target-URI", b"http://example.com/"),
///         ("WARC-Date", b"2026-03-19T10:20:15Z"),
///         ("WARC-Payload-Digest", b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"),
///     ],
///     b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\nhello",
/// )?;
/// let (warc, mut tally) = (Reader::new("a.warc", &file[..]), cdxj::Tally::default());
/// cdxj::rows(warc, "a.warc", &mut tally, &Work::default(), &mut |row| {
///     let row = std::str::from_utf8(row).unwrap();
///     assert!(row.starts_with(
///         r#"com,example)/ 20260319102015 {"url": "http://example.com/", "mime": "text/html", "status": "200", "#
///     ));
///     Ok(())
/// })?;
/// assert_eq!(tally.rows, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Fails if the file is damaged, with the errors of `each`, or if the work was cancelled. The progress of
/// `work` is in bytes.
pub fn rows<R: Read>(
    mut warc: Reader<R>,
    filename: &str,
    tally: &mut Tally,
    work: &Work,
    each: &mut dyn FnMut(&[u8]) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut out = Output {
        filename,
        line: Vec::new(),
        rows: 0,
        each,
    };
    let read = read(&mut warc, tally, work, &mut out);
    tally.rows += out.rows;
    tally.files += u64::from(read.is_ok());
    read
}

/// Writes rows as lines.
struct Output<'a> {
    filename: &'a str,
    line: Vec<u8>,
    rows: u64,
    each: &'a mut dyn FnMut(&[u8]) -> Result<(), Error>,
}

/// The row of a capture.
struct Row {
    url: String,
    timestamp: Timestamp,
    mime: Option<String>,
    status: Option<String>,
    digest: Option<String>,
    length: u64,
    offset: u64,
}

fn read<R: Read>(
    warc: &mut Reader<R>,
    tally: &mut Tally,
    work: &Work,
    out: &mut Output<'_>,
) -> Result<(), Error> {
    let mut pending = Pending::default();
    let read = loop {
        let mut record = match warc.next() {
            Ok(Some(record)) => record,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.into()),
        };
        let content = match Content::read(&mut record) {
            Ok(content) => content,
            Err(error) => break Err(error.into()),
        };
        let (header, extent) = match record.into_header() {
            Ok(whole) => whole,
            Err(error) => break Err(error.into()),
        };
        tally.records += 1;
        tally.bytes += extent.size;
        match content {
            Content::Capture(found) => match Row::new(&header, found, &extent) {
                Some(row) => {
                    let kind = header.record_type();
                    let has_request = matches!(kind, RecordType::Response | RecordType::Revisit);
                    pending.capture(&header, row, has_request, out)?;
                }
                None => tally.skipped += 1,
            },
            Content::Request(request) => pending.request(&header, request, out)?,
            Content::Other => {}
        }
        work.advance(extent.size)?;
    };
    pending.finish(out)?;
    read
}

/// The indexed content of a record.
enum Content {
    Capture(Capture),
    Request(Request),
    /// A record that is not indexed.
    Other,
}

/// The fields of a capture that are not in its WARC header.
#[derive(Default)]
struct Capture {
    mime: Option<String>,
    status: Option<String>,
    digest: Option<String>,
}

impl Content {
    fn read<R: Read>(record: &mut Record<'_, R>) -> Result<Content, warc::Error> {
        let header = record.header();
        let kind = header.record_type();
        match kind {
            RecordType::Response | RecordType::Revisit => {}
            RecordType::Request => return Request::read(record).map(Content::Request),
            RecordType::Resource | RecordType::Metadata => {
                let media_type = header.get("Content-Type");
                if media_type == Some(b"application/warc-fields") {
                    return Ok(Content::Other);
                }
                return Ok(Content::Capture(Capture {
                    mime: media_type.map(mime),
                    status: None,
                    digest: digest(record, b"", false)?,
                }));
            }
            _ => return Ok(Content::Other),
        }
        let is_http = header.target_uri().is_some_and(http::is_web);
        let mut capture = Capture::default();
        let mut payload = Vec::new();
        let mut is_chunked = false;
        if is_http && header.content_length() > 0 {
            let mut block = record.http_head()?;
            // Skip interim responses, which precede the final response.
            while http::interim_heads(&[&block[..], b"HTTP/"].concat()) == block.len() {
                let next = record.http_head()?;
                if !http::is_response(&next) {
                    payload = next;
                    break;
                }
                block = next;
            }
            if http::is_response(&block) {
                let head = Head::of(&block);
                capture.status = head.status().map(|status| status.to_string());
                capture.mime = head.get("Content-Type").map(mime);
                is_chunked = head.is_chunked();
            } else {
                payload = block;
            }
        }
        if kind == RecordType::Revisit {
            capture.mime = Some("warc/revisit".to_owned());
            capture.digest = record.header().payload_digest().map(text);
        } else {
            capture.digest = digest(record, &payload, is_chunked)?;
        }
        Ok(Content::Capture(capture))
    }
}

/// Returns the payload digest of the header, or computes it from the payload: the bytes read so far, and the rest. The
/// payload of an HTTP response has no chunked coding (WARC 1.1, section 6.3.2). An invalid coding stays.
fn digest<R: Read>(
    record: &mut Record<'_, R>,
    read: &[u8],
    is_chunked: bool,
) -> Result<Option<String>, warc::Error> {
    if let Some(digest) = record.header().payload_digest() {
        return Ok(Some(text(digest)));
    }
    let mut digester = Digester::new(Algorithm::Sha1);
    let mut plain = is_chunked.then(Unchunked::default);
    let mut update = |piece: &[u8]| {
        digester.update(piece);
        plain = plain.take().and_then(|plain| plain.with(piece));
    };
    update(read);
    record.for_each_piece(update)?;
    let plain = plain.filter(|plain| plain.chunked.has_all_data());
    let digester = plain.map_or(digester, |plain| plain.digester);
    Ok(Some(digester.finish().text()))
}

/// Computes the digest of a body without its chunked coding.
struct Unchunked {
    chunked: Chunked,
    coded: BytesMut,
    digester: Digester,
}

impl Default for Unchunked {
    fn default() -> Unchunked {
        Unchunked {
            chunked: Chunked::lenient(),
            coded: BytesMut::new(),
            digester: Digester::new(Algorithm::Sha1),
        }
    }
}

impl Unchunked {
    /// Decodes the next bytes; `None` if the coding is invalid. Bytes after the last chunk are ignored.
    fn with(mut self, piece: &[u8]) -> Option<Unchunked> {
        if self.chunked.has_all_data() {
            return Some(self);
        }
        self.coded.extend_from_slice(piece);
        loop {
            match self.chunked.next(&mut self.coded) {
                Ok(Piece::Data(data)) => self.digester.update(&data),
                Ok(Piece::More | Piece::End) => return Some(self),
                Err(_) => return self.chunked.has_all_data().then_some(self),
            }
        }
    }
}

/// Returns a media type without its parameters.
fn mime(value: &[u8]) -> String {
    let is_end = |byte: &u8| matches!(byte, b';' | b' ' | b'\t'..=b'\r' | 0x1c..=0x1f);
    let end = value.iter().position(is_end).unwrap_or(value.len());
    text(&value[..end])
}

/// Decodes a value as UTF-8, or as ISO 8859-1 if it is not UTF-8.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// Returns the URL of a record, with spaces escaped.
fn url(header: &Header) -> Option<String> {
    let url = text(header.target_uri()?);
    Some(if url.contains(' ') {
        url.replace(' ', "%20")
    } else {
        url
    })
}

impl Row {
    /// Returns `None` if the record has no valid URL or date.
    fn new(header: &Header, found: Capture, extent: &warc::Extent) -> Option<Row> {
        Some(Row {
            url: url(header).filter(|url| !url.is_empty())?,
            timestamp: Timestamp::from_iso(header.date()?)?,
            mime: found.mime,
            status: found.status,
            digest: found.digest,
            length: extent.size - extent.closing,
            offset: extent.offset,
        })
    }
}

impl Output<'_> {
    fn write(&mut self, row: &Row, request: Option<&Request>) -> Result<(), Error> {
        use std::io::Write as _;
        let looked_up = request.map(|request| request.look_up_url(&row.url));
        let looked_up = looked_up.as_deref().unwrap_or(&row.url);
        let line = &mut self.line;
        line.clear();
        match surt::urlkey(looked_up) {
            Ok(key) => line.extend_from_slice(key.as_bytes()),
            // A row needs a key without white space.
            Err(_) => line.extend(looked_up.bytes().filter(|byte| *byte > b' ')),
        }
        // Writing to memory cannot fail.
        let _ = write!(line, " {} {{", row.timestamp);
        push_field(line, "url", &row.url);
        for (name, value) in [
            ("mime", &row.mime),
            ("status", &row.status),
            ("digest", &row.digest),
        ] {
            if let Some(value) = value {
                push_field(line, name, value);
            }
        }
        let _ = write!(
            line,
            r#", "length": "{}", "offset": "{}""#,
            row.length, row.offset
        );
        push_field(line, "filename", self.filename);
        if let Some(request) = request {
            push_field(line, "requestBody", &request.body);
            push_field(line, "method", &request.method);
        }
        line.push(b'}');
        self.rows += 1;
        (self.each)(line)
    }
}
