//! What was captured, as it is replayed: the HTTP response that is in a record.
//!
//! Its author is a stranger to this server. The body goes on as it is; of the header, fields that a browser needs to
//! show the body keep their names, and all others become `X-Archive-Orig-…`, so that none of them acts for this server's
//! origin. The answer is sandboxed: to a browser, the page has an origin of its own, and no scripts.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, HeaderValue, LINK, LOCATION,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::body::Frame;
use hyper::ext::ReasonPhrase;
use percent_encoding::{CONTROLS, percent_encode};
use url::Url;

use super::in_header;
use super::record::{LoadError, Record};
use super::stored::header::{self, Fields};
use crate::server::links::{BaseUrl, link, memento_link, quoted, timemap_link};
use crate::server::{Body, Broken, empty, frames, message, whole};
use crawlspace_warc::chunked::{Chunked, Piece};
use crawlspace_warc::http::{Head, MAX_HEAD, end_of_head};
use crawlspace_warc::{END, Rules, end_of_header};

/// What is put before the name of a field that must not act here.
const ORIGINAL: &str = "x-archive-orig-";
/// Fields that keep their names: they say how the body is to be read, and nothing about the server it is from.
const KEPT: [&str; 5] = [
    "content-type",
    "content-language",
    "content-disposition",
    "content-range",
    "x-content-type-options",
];
/// No scripts, no forms, no plugins, and an origin that no other page has.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");
/// Whose capture it is. Archives that have this field give the prefix to all that was captured.
const SOURCE: HeaderName = HeaderName::from_static("x-archive-src");

/// Limit of names and values of a captured header that go on. A header of `http` has room for some 24 000 names.
const MAX_FIELDS: usize = 1000;
/// Number of bytes of a payload that are read first: enough to recognize its coding.
const LOOK: usize = 64;

type Pieces = BoxStream<'static, Result<Bytes, LoadError>>;

/// The captured response. `source` is the source that the record came from.
///
/// # Errors
/// When the record is not valid as far as it has to be read for that.
pub(super) async fn response(
    record: Record,
    source: &str,
    base_url: &BaseUrl,
) -> Result<Response<Body>, LoadError> {
    let (date, target) = (record.date, record.target_uri.clone());
    let captured = Captured::of(record).await?;
    let Some(status) = captured.status() else {
        let text =
            "the capture is not an HTTP response that can be replayed: /resource has its record";
        return Ok(message(StatusCode::BAD_GATEWAY, text));
    };
    let memento = base_url.memento(&target, date);
    let (mut headers, is_chunked) = captured.headers(&target, |url| base_url.memento(url, date));
    let links = [
        link(&target, "original"),
        link(&base_url.timegate(&target), "timegate"),
        timemap_link(&base_url.timemap(&target), "timemap"),
        format!(
            "{}; collection=\"{}\"",
            memento_link(&memento, "memento", date),
            quoted(source)
        ),
    ];
    let mut own = |name: HeaderName, value: &str| {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(name, value);
        }
    };
    own(LINK, &links.join(", "));
    own(MEMENTO_DATETIME, &date.http_date());
    own(CONTENT_LOCATION, &memento);
    own(SOURCE, &in_header(source));
    headers.insert(CONTENT_SECURITY_POLICY, SANDBOX);
    let reason = captured.reason();
    let mut response = match (status.as_u16(), is_chunked) {
        (204 | 304, _) => empty(status),
        (_, true) => Response::new(unchunked(captured.payload).await),
        (_, false) => {
            let length = HeaderValue::from(captured.length);
            headers.insert(CONTENT_LENGTH, length);
            Response::new(body(captured.payload))
        }
    };
    *response.status_mut() = status;
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response.headers_mut().extend(headers);
    Ok(response)
}

/// The block of a record, taken apart.
struct Captured {
    /// Status line and fields; none of a record that has no HTTP response.
    head: Option<Bytes>,
    /// The media type that the record says its block has.
    media: Vec<u8>,
    /// The size of the payload in bytes.
    length: u64,
    /// The first bytes of the payload.
    begin: Bytes,
    /// The whole payload.
    payload: Pieces,
}

impl Captured {
    async fn of(record: Record) -> Result<Captured, LoadError> {
        let wrong = |what: &str| LoadError::Record(what.to_owned());
        let end = end_of_header(&record.head, &Rules::RECORD).unwrap_or_default();
        let header = header::parse(&record.head[..end])?;
        let around = (end + END.len()) as u64;
        let length = record.length.checked_sub(around);
        let mut left = length.ok_or_else(|| wrong("it is shorter than its header"))?;
        let mut begin = BytesMut::new();
        let mut block = first(record.head.slice(end..), record.body, left);
        let is_http = matches!(header.kind(), b"response" | b"revisit");
        let mut at = None;
        while at.is_none() && begin.len() <= MAX_HEAD {
            let Some(piece) = block.next().await.transpose()? else {
                break;
            };
            begin.extend_from_slice(&piece);
            let may_be_http = begin.iter().zip(b"HTTP/").all(|(a, b)| a == b);
            if !is_http || !may_be_http {
                break;
            }
            at = end_of_head(&begin);
        }
        let is_http = is_http && begin.starts_with(b"HTTP/");
        while begin.len() < at.unwrap_or_default() + LOOK {
            let Some(piece) = block.next().await.transpose()? else {
                break;
            };
            begin.extend_from_slice(&piece);
        }
        let begin = begin.freeze();
        let head = match (is_http, at) {
            (false, _) => None,
            (true, Some(at)) => Some(begin.slice(..at)),
            // Without a blank line all of it is header.
            (true, None) if begin.len() as u64 == left => Some(begin.clone()),
            (true, None) => return Err(wrong("its HTTP header is incomplete")),
        };
        let begin = begin.slice(head.as_ref().map_or(0, Bytes::len)..);
        left -= head.as_ref().map_or(0, Bytes::len) as u64;
        let start = stream::iter((!begin.is_empty()).then(|| Ok(begin.clone())));
        Ok(Captured {
            head,
            media: header.get("Content-Type").unwrap_or_default().to_vec(),
            length: left,
            begin,
            payload: start.chain(block).boxed(),
        })
    }

    /// The status, if it is one that a request can be answered with.
    fn status(&self) -> Option<StatusCode> {
        let Some(head) = &self.head else {
            return Some(StatusCode::OK);
        };
        let status = StatusCode::from_u16(Head::of(head).status()?).ok()?;
        (!status.is_informational()).then_some(status)
    }

    fn reason(&self) -> Option<ReasonPhrase> {
        let head = self.head.as_ref()?;
        let line = head.split(|&byte| matches!(byte, b'\r' | b'\n')).next()?;
        let reason = line.splitn(3, |&byte| byte == b' ').nth(2)?;
        ReasonPhrase::try_from(reason).ok()
    }

    /// The fields as they go on, and whether the payload is in chunks. `memento` says where a URL is replayed.
    fn headers(&self, target: &str, memento: impl Fn(&str) -> String) -> (HeaderMap, bool) {
        let mut headers = HeaderMap::new();
        let Some(head) = &self.head else {
            let media = HeaderValue::from_bytes(&self.media).ok();
            if let Some(media) = media.filter(|media| !media.is_empty()) {
                headers.insert(CONTENT_TYPE, media);
            }
            return (headers, false);
        };
        let head = Head::of(head);
        for field in head.fields() {
            if headers.len() >= MAX_FIELDS {
                break;
            }
            let Ok(value) = HeaderValue::from_bytes(&field.unfolded()) else {
                continue;
            };
            let lower = String::from_utf8_lossy(field.name).to_ascii_lowercase();
            let keeps = KEPT.contains(&&*lower)
                || lower == CONTENT_ENCODING.as_str() && self.is_packed(value.as_bytes());
            let own = HeaderName::from_bytes(lower.as_bytes());
            if let (Ok(own), true) = (own, keeps) {
                headers.append(own, value.clone());
            }
            let original = HeaderName::from_bytes(format!("{ORIGINAL}{lower}").as_bytes());
            // Of what stays true nothing more has to be said.
            if let (Ok(original), false) = (original, keeps && lower.starts_with("content-")) {
                headers.append(original, value);
            }
        }
        if let Some(location) = head.get("Location").map(|location| as_url(location)) {
            let to = Url::parse(target).and_then(|target| target.join(location.trim()));
            let to = to.ok().filter(|to| matches!(to.scheme(), "http" | "https"));
            let to = to.map(|to| match to.fragment() {
                Some(fragment) => format!("{}#{fragment}", memento(to.as_str())),
                None => memento(to.as_str()),
            });
            if let Some(Ok(to)) = to.map(HeaderValue::try_from) {
                headers.insert(LOCATION, to);
            }
        }
        // Many programs that write records undo the chunks, and leave the header.
        let is_chunked = head.is_chunked() && begins_with_chunk(&self.begin);
        (headers, is_chunked)
    }

    /// Whether the payload is in that content coding, as far as its first bytes say so.
    fn is_packed(&self, coding: &[u8]) -> bool {
        let is_gzip =
            coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip");
        let line = if begins_with_chunk(&self.begin) {
            memchr::memchr(b'\n', &self.begin).map_or(0, |at| at + 1)
        } else {
            0
        };
        let bytes = self.begin.get(line..).unwrap_or_default();
        !is_gzip || bytes.is_empty() || bytes.starts_with(b"\x1f\x8b")
    }
}

/// The first `length` bytes of `head` and `rest`.
fn first(head: Bytes, rest: Pieces, length: u64) -> Pieces {
    let head = stream::iter((!head.is_empty()).then_some(Ok(head)));
    let pieces = stream::unfold((head.chain(rest), length), |(mut rest, left)| async move {
        if left == 0 {
            return None;
        }
        Some(match rest.next().await? {
            Ok(mut piece) => {
                piece.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                let left = left - piece.len() as u64;
                (Ok(piece), (rest, left))
            }
            Err(error) => (Err(error), (rest, 0)),
        })
    });
    pieces.fuse().boxed()
}

/// The text of a reference. Browsers send bytes that are not UTF-8 as they are, percent-encoded.
fn as_url(reference: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(reference) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => percent_encode(reference, CONTROLS).to_string().into(),
    }
}

/// Whether these bytes begin with the size of a chunk.
fn begins_with_chunk(bytes: &[u8]) -> bool {
    let mut input = BytesMut::from(bytes);
    Chunked::default().next(&mut input).is_ok() && memchr::memchr(b'\n', bytes).is_some()
}

/// A payload without its chunks. What is wrong in them ends it.
async fn unchunked(payload: Pieces) -> Body {
    let state = (payload, Chunked::default(), BytesMut::new());
    let mut plain = stream::unfold(Some(state), |state| async {
        let (mut payload, mut chunked, mut input) = state?;
        loop {
            match chunked.next(&mut input) {
                Ok(Piece::Data(data)) => return Some((Ok(data), Some((payload, chunked, input)))),
                Ok(Piece::End) => return None,
                Err(what) => {
                    let what = format!("its chunks are not valid: {what}");
                    return Some((Err(LoadError::Record(what)), None));
                }
                // A capture that was cut off is what there is of it.
                Ok(Piece::More) => match payload.next().await? {
                    Ok(piece) => input.extend_from_slice(&piece),
                    Err(error) => return Some((Err(error), None)),
                },
            }
        }
    })
    .boxed();
    // A small one says how long it is.
    let mut begin = BytesMut::new();
    while begin.len() <= MAX_HEAD {
        match plain.next().await {
            Some(Ok(piece)) => begin.extend_from_slice(&piece),
            Some(Err(error)) => {
                return body(stream::iter([Ok(begin.freeze()), Err(error)]).boxed());
            }
            None => return whole(begin),
        }
    }
    body(stream::iter([Ok(begin.freeze())]).chain(plain).boxed())
}

/// Pieces as they come. A failure cuts the connection, so that the client sees that the answer is incomplete.
pub(super) fn body(pieces: Pieces) -> Body {
    let span = tracing::Span::current();
    frames(pieces.map(move |piece| match piece {
        Ok(bytes) => Ok(Frame::data(bytes)),
        Err(error) => {
            span.in_scope(|| tracing::warn!(%error, "a record broke off"));
            Err(Broken(error.to_string()))
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(head: impl Into<Bytes>) -> HeaderMap {
        let captured = Captured {
            head: Some(head.into()),
            media: Vec::new(),
            length: 0,
            begin: Bytes::new(),
            payload: stream::empty().boxed(),
        };
        let memento = |url: &str| format!("/all/2020id_/{url}");
        captured.headers("http://example.com/", memento).0
    }

    #[test]
    fn more_fields_than_a_header_can_have_are_left_out() {
        let many: String = (0..25_000).map(|n| format!("{n:x}:\r\n")).collect();
        let headers = headers(format!("HTTP/1.1 200 OK\r\n{many}\r\n"));
        assert_eq!(headers.len(), MAX_FIELDS);
    }

    #[test]
    fn bytes_of_a_redirect_are_sent_as_browsers_send_them() {
        let head = b"HTTP/1.1 302 Found\r\nLocation: /h\xe9?a=%20b\r\n\r\n";
        let headers = headers(&head[..]);
        let location = headers[LOCATION].to_str().unwrap();
        assert_eq!(location, "/all/2020id_/http://example.com/h%E9?a=%20b");
    }
}
