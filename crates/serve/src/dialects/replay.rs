//! Raw replay: `/<coll>/<timestamp>id_/<url>`, the unaltered capture for replay systems and Memento clients.
//!
//! Captured content is not trusted. The body is sent unchanged; header fields that a browser needs to display the body
//! keep their names, and all others are renamed to `X-Archive-Orig-…`, so that none of them takes effect for this
//! server's origin. The response is sandboxed: the browser gives the page an origin of its own and runs no scripts.

use std::borrow::Cow;
use std::ops::Range;

use bytes::BytesMut;
use futures_util::stream::{self, StreamExt};
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_LOCATION, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, LINK, LOCATION,
};
use http::{HeaderMap, Response, StatusCode};
use hyper::ext::ReasonPhrase;
use percent_encoding::{CONTROLS, percent_encode};
use url::Url;

use crate::gate::Released;
use crate::resource::byte_range::{ByteRange, Piece, piece_of};
use crate::resource::captured::{Captured, Pieces, unchunked};
use crate::resource::record::{LoadError, Record};
use crate::server::body::Body;
use crate::server::body::{pieces, whole};
use crate::server::links::{BaseUrl, in_header, link, memento_link, quoted, timemap_link};
use crate::server::reply::{empty, message};
use crawlspace_warc::http::{Head, MAX_HEAD};

/// Prefix of header fields that must not take effect.
const ORIGINAL: &str = "x-archive-orig-";
/// Fields that keep their names, because they only describe how to read the body.
const KEPT: [&str; 5] = [
    "content-type",
    "content-language",
    "content-disposition",
    "content-range",
    "x-content-type-options",
];
/// Fields that recorders add to responses for their own use, and fields of requests, which identify the recording user.
/// ArchiveWeb.page stores the cookies of its user as `x-wabac-preset-cookie`.
const PRIVATE: [&str; 4] = ["cookie", "cookie2", "authorization", "proxy-authorization"];
/// Prefix of further private fields.
const PRIVATE_PREFIX: &str = "x-wabac-";
/// Sandbox without exceptions: no scripts, no forms, no plugins, and a unique origin.
const SANDBOX: HeaderValue = HeaderValue::from_static("sandbox");
const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");
/// Source of the capture. Archives that send this field prefix all captured fields.
const SOURCE: HeaderName = HeaderName::from_static("x-archive-src");

/// Maximum number of captured header names and values that are sent. A header map of `http` holds about 24 000 names.
const MAX_FIELDS: usize = 1000;
/// Maximum number of digits of a timestamp (milliseconds). Queries use the digits down to the second.
const MAX_DIGITS: usize = 17;
const DIGITS: usize = 14;

/// Splits a replay path into the digits of the timestamp, which may be empty, and the part of the URL that is in the
/// path. Returns `None` if the path is not that of a replay.
pub(crate) fn parts(path: &str) -> Option<(&str, &str)> {
    let (moment, url) = path.split_once("id_/")?;
    let is_moment = moment.len() <= MAX_DIGITS && moment.bytes().all(|byte| byte.is_ascii_digit());
    let digits = moment.get(..DIGITS).unwrap_or(moment);
    is_moment.then_some((digits, url))
}

/// Returns the captured response, or the requested range of it. `source` is the name of the record's source.
///
/// # Errors
/// Fails if the record is invalid in a part that has to be read.
pub(crate) async fn response(
    record: Released<Record>,
    source: &str,
    base_url: &BaseUrl,
    range: Option<ByteRange>,
) -> Result<Response<Body>, LoadError> {
    let record = record.into_inner();
    let (date, target) = (record.date, record.target_uri.clone());
    let captured = Captured::of(record).await?;
    let Some(mut status) = status(&captured) else {
        let text = "the capture is not an HTTP response that can be replayed: request its record from /resource";
        return Ok(message(StatusCode::BAD_GATEWAY, text));
    };
    let memento = base_url.memento(&target, date);
    let mut headers = fields(&captured, &target, |url| base_url.memento(url, date));
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
    let mut reason = reason(&captured);
    let mut response = match (status.as_u16(), captured.chunks()) {
        (204 | 304, _) => empty(status),
        (_, Some(chunks)) => Response::new(plain(unchunked(captured.payload, chunks)).await),
        (_, None) => {
            let part = Part::of(&captured, status, range);
            if part.status != status {
                reason = None;
            }
            status = part.status;
            part.describe(&mut headers);
            Response::new(match part.bytes {
                None => pieces(captured.payload),
                Some(bytes) => pieces(between(captured.payload, bytes)),
            })
        }
    };
    *response.status_mut() = status;
    if let Some(reason) = reason {
        response.extensions_mut().insert(reason);
    }
    response.headers_mut().extend(headers);
    Ok(response)
}

/// The part of a payload that is sent.
struct Part {
    status: StatusCode,
    /// Byte range within the payload, or `None` for all of it.
    bytes: Option<Range<u64>>,
    length: u64,
    /// `Content-Range`: first and last byte within the resource and its size, if the part is not the whole resource.
    content_range: Option<String>,
    has_ranges: bool,
}

impl Part {
    fn of(captured: &Captured, status: StatusCode, range: Option<ByteRange>) -> Part {
        let head = captured.head.as_deref().unwrap_or_default();
        let piece = piece_of(&Head::of(head));
        // The payload of a truncated capture is shorter than its `Content-Range` says.
        let piece = piece.and_then(|piece| piece.cut(captured.length));
        let piece = piece.filter(|piece| captured.length == piece.last - piece.from + 1);
        let mut part = Part {
            status,
            bytes: None,
            length: captured.length,
            content_range: None,
            has_ranges: true,
        };
        let whole = Piece {
            from: 0,
            last: captured.length.saturating_sub(1),
            total: Some(captured.length),
        };
        let piece = match piece {
            None if status == StatusCode::OK => whole,
            None => {
                part.has_ranges = false;
                return part;
            }
            Some(piece) if piece.is_whole() => {
                part.status = StatusCode::OK;
                piece
            }
            Some(piece) => piece,
        };
        let total = piece
            .total
            .map_or("*".to_owned(), |total| total.to_string());
        match range.map(|range| range.of_piece(piece)) {
            None if piece.is_whole() || piece == whole => {}
            None => {
                part.content_range = Some(format!("bytes {}-{}/{total}", piece.from, piece.last))
            }
            Some(Some((first, last))) => {
                part.status = StatusCode::PARTIAL_CONTENT;
                part.content_range = Some(format!("bytes {first}-{last}/{total}"));
                part.bytes = Some(first - piece.from..last + 1 - piece.from);
                part.length = last - first + 1;
            }
            Some(None) => {
                part.status = StatusCode::RANGE_NOT_SATISFIABLE;
                // Without a total size there is no `Content-Range` to send (RFC 9110, section 14.4).
                part.content_range = piece.total.map(|total| format!("bytes */{total}"));
                part.bytes = Some(0..0);
                part.length = 0;
            }
        }
        part
    }

    fn describe(&self, headers: &mut HeaderMap) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(self.length));
        if !self.has_ranges {
            return;
        }
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers.remove(CONTENT_RANGE);
        let content_range = self.content_range.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(content_range)) = content_range {
            headers.insert(CONTENT_RANGE, content_range);
        }
    }
}

/// Returns a byte range of a payload.
fn between(payload: Pieces, bytes: Range<u64>) -> Pieces {
    let some = stream::unfold((payload, bytes), |(mut payload, mut bytes)| async move {
        while !bytes.is_empty() {
            let mut piece = match payload.next().await? {
                Ok(piece) => piece,
                Err(error) => return Some((Err(error), (payload, 0..0))),
            };
            let size = piece.len() as u64;
            let skipped = bytes.start.min(size);
            let taken = bytes.end.min(size) - skipped;
            bytes = bytes.start - skipped..bytes.end - size.min(bytes.end);
            let within = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
            let piece = piece.split_off(within(skipped)).split_to(within(taken));
            if !piece.is_empty() {
                return Some((Ok(piece), (payload, bytes)));
            }
        }
        None
    });
    some.boxed()
}

/// Returns the captured status, if it is valid for a response.
fn status(captured: &Captured) -> Option<StatusCode> {
    let Some(head) = &captured.head else {
        return Some(StatusCode::OK);
    };
    let status = StatusCode::from_u16(Head::of(head).status()?).ok()?;
    (!status.is_informational()).then_some(status)
}

fn reason(captured: &Captured) -> Option<ReasonPhrase> {
    let head = captured.head.as_ref()?;
    let line = head.split(|&byte| matches!(byte, b'\r' | b'\n')).next()?;
    let reason = line.splitn(3, |&byte| byte == b' ').nth(2)?;
    ReasonPhrase::try_from(reason).ok()
}

/// Returns the header fields to send. `memento` maps a URL to its replay URL.
fn fields(captured: &Captured, target: &str, memento: impl Fn(&str) -> String) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(head) = &captured.head else {
        let media = HeaderValue::from_bytes(&captured.media).ok();
        if let Some(media) = media.filter(|media| !media.is_empty()) {
            headers.insert(CONTENT_TYPE, media);
        }
        return headers;
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
        if PRIVATE.contains(&&*lower) || lower.starts_with(PRIVATE_PREFIX) {
            continue;
        }
        let keeps = KEPT.contains(&&*lower)
            || lower == CONTENT_ENCODING.as_str() && captured.is_packed(value.as_bytes());
        let own = HeaderName::from_bytes(lower.as_bytes());
        if let (Ok(own), true) = (own, keeps) {
            headers.append(own, value.clone());
        }
        let original = HeaderName::from_bytes(format!("{ORIGINAL}{lower}").as_bytes());
        // Fields that describe the unchanged body keep their names, and are not sent twice.
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
    headers
}

/// Returns a reference as text. Percent-encodes bytes that are not UTF-8, as browsers do.
fn as_url(reference: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(reference) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => percent_encode(reference, CONTROLS).to_string().into(),
    }
}

/// Returns a body of these pieces. A small body is buffered to send its length.
async fn plain(mut bytes: Pieces) -> Body {
    let mut begin = BytesMut::new();
    while begin.len() <= MAX_HEAD {
        match bytes.next().await {
            Some(Ok(piece)) => begin.extend_from_slice(&piece),
            Some(Err(error)) => {
                return pieces(stream::iter([Ok(begin.freeze()), Err(error)]).boxed());
            }
            None => return whole(begin),
        }
    }
    pieces(stream::iter([Ok(begin.freeze())]).chain(bytes).boxed())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn replay_paths_are_recognized() {
        for (path, expected) in [
            (
                "20160102030405id_/http://a.com/?b",
                Some(("20160102030405", "http://a.com/?b")),
            ),
            ("2016id_/http://a.com/", Some(("2016", "http://a.com/"))),
            ("id_/a.com//x/id_/y", Some(("", "a.com//x/id_/y"))),
            (
                "20160102030405678id_/a.com",
                Some(("20160102030405", "a.com")),
            ),
            ("201601020304056789id_/a.com", None),
            ("http://a.com/2016id_/b", None),
            ("2016/http://a.com/", None),
            ("2016if_/http://a.com/", None),
            ("index", None),
        ] {
            assert_eq!(parts(path), expected, "{path}");
        }
    }

    fn headers(head: impl Into<Bytes>) -> HeaderMap {
        let captured = Captured {
            head: Some(head.into()),
            media: Vec::new(),
            length: 0,
            begin: Bytes::new(),
            payload: stream::empty().boxed(),
        };
        let memento = |url: &str| format!("/all/2020id_/{url}");
        fields(&captured, "http://example.com/", memento)
    }

    #[test]
    fn excess_header_fields_are_omitted() {
        let many: String = (0..25_000).map(|n| format!("{n:x}:\r\n")).collect();
        let headers = headers(format!("HTTP/1.1 200 OK\r\n{many}\r\n"));
        assert_eq!(headers.len(), MAX_FIELDS);
    }

    #[test]
    fn connection_and_security_headers_of_a_capture_are_not_sent() {
        let private = "X-Wabac-Preset-Cookie: secret=1\r\nx-wabac-other: secret\r\nCookie: secret\r\n\
                       AUTHORIZATION: secret\r\nProxy-Authorization: secret\r\n";
        let headers = headers(format!(
            "HTTP/1.1 200 OK\r\n{private}Set-Cookie: theirs\r\n\r\n"
        ));
        let values: Vec<_> = headers.values().collect();
        assert_eq!(values, ["theirs"]);
    }

    #[test]
    fn redirect_bytes_are_escaped_as_browsers_do() {
        let head = b"HTTP/1.1 302 Found\r\nLocation: /h\xe9?a=%20b\r\n\r\n";
        let headers = headers(&head[..]);
        let location = headers[LOCATION].to_str().unwrap();
        assert_eq!(location, "/all/2020id_/http://example.com/h%E9?a=%20b");
    }
}
