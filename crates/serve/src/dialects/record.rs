//! Responses with the record that a search found, or with the attempts if it found none.

use futures_util::stream::{self, StreamExt};
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, HeaderName, HeaderValue, IF_RANGE, RANGE};
use http::{HeaderMap, Response, StatusCode};
use serde_json::{Value, json};

use super::replay;
use crate::group::{Report, ascii};
use crate::reason::Reason;
use crate::resource::byte_range::ByteRange;
use crate::resource::client_request::ClientRequest;
use crate::resource::record::Record;
use crate::resource::{self, Attempts, Found, Outcome};
use crate::server::body::{Body, pieces, whole};
use crate::server::links::{BaseUrl, in_header, link, timemap_link};
use crate::server::output::{refusal, with_errors, with_ignored};
use crate::server::reply::{fresh, message};
use crate::server::target::RequestTarget;
use crate::server::{gzip, reply};
use crawlspace_index::row::Row;

/// Maximum size of a row in a header, in bytes. The JSON of a longer row is reduced to a few fields.
const MAX_ROW: usize = 6 * 1024;

/// Form of the response with a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A WARC record.
    Record,
    /// The captured HTTP response.
    Replay,
}

/// Answers with the record of the first row that has one, otherwise with 404 and a list of attempts. `text` is the
/// query string; `request` is forwarded to the server of the resource.
pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    headers: &HeaderMap,
    form: Form,
    text: &str,
    request: ClientRequest,
) -> Response<Body> {
    let (federation, collection) = (asked.federation, asked.collection);
    let point = asked.point.as_deref();
    let query = match resource::query(text, point, collection, &request).await {
        Ok(query) => query,
        Err(failure) => return refusal(&failure),
    };
    let range = headers.get(RANGE).filter(|_| form == Form::Replay);
    // Captures have no validators, so `If-Range` never matches and the range is ignored.
    let range = range.filter(|_| !headers.contains_key(IF_RANGE));
    let range = range.and_then(|range| ByteRange::parse(range.as_bytes()));
    let search = resource::search(federation, collection, &query, &request, range).await;
    let report = search.report;
    let response = match search.outcome {
        Outcome::Found(found) => {
            let public = federation.public_url.as_deref();
            let base_url = BaseUrl::seen(public, headers, &collection.name, point);
            match form {
                Form::Record if query.compress => compressed(present(*found, &base_url)),
                Form::Record => present(*found, &base_url),
                Form::Replay => replay::response(found.record, &found.source, &base_url, range)
                    .await
                    .unwrap_or_else(|error| {
                        tracing::info!(%error, "a record cannot be replayed");
                        let reason = Reason::from(&error).to_string();
                        message(StatusCode::BAD_GATEWAY, &reason)
                    }),
            }
        }
        Outcome::Blocked(public) => {
            let what = "an access rule of the collection blocks this capture";
            let what = public.map_or(what.to_owned(), |public| format!("{what}: {public}"));
            message(StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS, &what)
        }
        Outcome::Failed(failure) => return with_errors(refusal(&failure), &report),
        Outcome::Nothing(tried) => match report.unanswered() {
            Some(sources) if tried.is_empty() => refusal(&sources.into()),
            _ => not_found(&tried, &query.url, &report),
        },
    };
    with_ignored(with_errors(response, &report), &query)
}

/// Returns the response with a record.
fn present(found: Found, base_url: &BaseUrl) -> Response<Body> {
    let Found {
        row,
        record,
        source,
    } = found;
    let record = record.into_inner();
    let length = record.length;
    let mut headers = HeaderMap::new();
    let mut add = |name: &'static str, value: &[u8]| {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    let source = in_header(&source);
    add("archive-source-coll", source.as_bytes());
    add("warcserver-source-coll", source.as_bytes());
    add("warcserver-type", b"warc");
    add("warcserver-cdx", &shown(&row, &record));
    add("memento-datetime", record.date.http_date().as_bytes());
    let target = &record.target_uri;
    add("warc-target-uri", in_header(target).as_bytes());
    let links = [
        link(target, "original"),
        link(&base_url.timegate(target), "timegate"),
        timemap_link(&base_url.timemap(target), "timemap"),
    ];
    add("link", links.join(", ").as_bytes());
    add("content-type", b"application/warc-record");
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    let body = if length == record.head.len() as u64 {
        whole(record.head)
    } else {
        let head = stream::iter([Ok(record.head)]);
        pieces(head.chain(record.body).boxed())
    };
    let mut response = Response::new(body);
    *response.headers_mut() = headers;
    response
}

/// Compresses the body of a response with gzip while it is sent.
fn compressed(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(CONTENT_ENCODING, gzip);
    Response::from_parts(parts, gzip::body(body))
}

/// Formats the row for a response header, so that clients know the capture of the record.
fn shown(row: &Row, record: &Record) -> Vec<u8> {
    let date = record.date.to_string();
    // The archive may have returned a capture whose time differs from the time in its index.
    let timestamp = if row.timestamp().starts_with(date.as_bytes()) {
        row.timestamp()
    } else {
        date.as_bytes()
    };
    let json = String::from_utf8_lossy(row.json());
    let json = if row.line().len() > MAX_ROW {
        let members = ["url", "source", "source-coll"];
        let members = members.map(|name| (name.to_owned(), row.field(name).into()));
        serde_json::Value::Object(members.into_iter().collect()).to_string()
    } else {
        json.into_owned()
    };
    [row.urlkey(), b" ", timestamp, b" ", ascii(&json).as_bytes()].concat()
}

/// Returns the response without a record: 404, or 504 after a timeout and 503 if the search hit its limit. Caches must
/// not store it if there are rows.
fn not_found(tried: &Attempts, url: &str, report: &Report) -> Response<Body> {
    let errors = report.reasons().into_iter();
    let errors = errors.map(|(name, reason)| (name.to_string(), Value::from(reason.to_string())));
    let mut value = json!({
        "message": tried.summary(url),
        "tried": tried.listed(),
        "errors": Value::Object(errors.collect()),
    });
    if let (more @ 1.., Some(object)) = (tried.unlisted(), value.as_object_mut()) {
        object.insert("more".to_owned(), more.into());
    }
    let status = if tried.is_late() {
        StatusCode::GATEWAY_TIMEOUT
    } else if tried.is_limited() {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::NOT_FOUND
    };
    let response = reply::json(status, &value);
    if tried.is_empty() {
        response
    } else {
        fresh(response)
    }
}
