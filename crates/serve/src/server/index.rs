//! `/<coll>/index`.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{
    CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, TRAILER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::{Frame, Incoming};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::body::{Body, Broken, Ready, frames, ready, whole};
use super::output::Writer;
use super::reply::{json, message};
use super::state::fresh;
use super::timemap::{self, TimeMap};
use super::{RequestTarget, only_read};
use crate::access::AccessError;
use crate::collection::{Failure, Pages, Rows};
use crate::group::Report;
use crate::query::{BadQuery, Output, Query};
use crate::reason::Reason;

/// Which sources are missing from an answer. The second name is that of pywb.
const MISSING: [HeaderName; 2] = [
    HeaderName::from_static("source-errors"),
    HeaderName::from_static("reserrors"),
];
/// Parameters of the request that have no effect.
const IGNORED: HeaderName = HeaderName::from_static("ignored-parameters");
const IN_NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');
/// Size up to which an answer that is ready at once says how long it is, in bytes.
const MAX_BUFFERED: usize = 64 * 1024;
/// `Retry-After`, in seconds, of a request that was refused for want of a resource of this server.
const RETRY_SECONDS: u64 = 10;

pub(super) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    match parameters(request.uri().query().unwrap_or(""), asked) {
        Ok(query) => with_ignored(answer_to(asked, request, &query).await, &query),
        Err(failure) => refusal(&failure),
    }
}

async fn answer_to(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    query: &Arc<Query>,
) -> Response<Body> {
    let report = Report::default();
    if query.show_num_pages {
        return match asked.collection.pages(query, &report).await {
            Ok(pages) => with_errors(number_of(pages), &report),
            Err(failure) => with_errors(refusal(&failure), &report),
        };
    }
    let rows = match asked.collection.rows(query, &report).await {
        Ok(rows) => rows,
        Err(failure) => return with_errors(refusal(&failure), &report),
    };
    if query.output == Output::Link {
        let timemap = TimeMap::of_index(asked, request, query);
        return respond(timemap::text(rows, timemap), timemap::MEDIA, &report);
    }
    let writer = Writer::new(query.output, query.fields.clone());
    rows_as_text(rows, writer.without_source(query.no_source), &report)
}

/// Names the parameters of the request that have no effect, in `Ignored-Parameters`.
pub(super) fn with_ignored(mut response: Response<Body>, query: &Query) -> Response<Body> {
    if !query.ignored.is_empty() {
        let names = query
            .ignored
            .iter()
            .map(|name| utf8_percent_encode(name, IN_NAME).to_string());
        let names = names.collect::<Vec<_>>().join(", ");
        if let Ok(names) = HeaderValue::from_str(&names) {
            response.headers_mut().insert(IGNORED, names);
        }
    }
    response
}

/// The answer with rows, a line each.
pub(super) fn rows_as_text(rows: Rows, writer: Writer, report: &Report) -> Response<Body> {
    let media = writer.media();
    respond(text(rows, writer), media, report)
}

/// The query that a query string asks.
pub(super) fn parameters(text: &str, asked: &RequestTarget<'_>) -> Result<Arc<Query>, Failure> {
    let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    let query = Query::parse(pairs, asked.point.as_deref())?;
    asked.collection.prepare(query)
}

/// Rows as text.
fn text(rows: Rows, writer: Writer) -> BoxStream<'static, Result<Bytes, Failure>> {
    let lines = rows.map(move |batch| {
        let batch = batch?;
        let mut out = Vec::with_capacity(batch.iter().map(|row| row.line().len() + 32).sum());
        batch.iter().for_each(|row| writer.write(row, &mut out));
        Ok(Bytes::from(out))
    });
    lines.boxed()
}

/// An answer that streams text. Sources that fail after its head are named in its trailer.
pub(super) fn respond(
    text: BoxStream<'static, Result<Bytes, Failure>>,
    media: &'static str,
    report: &Report,
) -> Response<Body> {
    let (body, streams) = match ready(text, MAX_BUFFERED) {
        Err(failure) => return refusal(&failure),
        Ok(Ready::All(bytes)) => (whole(bytes), false),
        Ok(Ready::More(first, rest)) => (streamed(first, rest, report), true),
    };
    let mut response = with_errors(Response::new(body), report);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if streams {
        headers.insert(
            TRAILER,
            HeaderValue::from_static("Source-Errors, ResErrors"),
        );
    }
    response
}

fn streamed(
    first: Vec<u8>,
    rest: BoxStream<'static, Result<Bytes, Failure>>,
    report: &Report,
) -> Body {
    let first = (!first.is_empty()).then(|| Ok(Frame::data(Bytes::from(first))));
    let rest = rest.map(|part| match part {
        Ok(bytes) => Ok(Frame::data(bytes)),
        Err(failure) => Err(Broken(failure.to_string())),
    });
    let (reported, report) = (report.len(), report.clone());
    let last = stream::once(async move {
        let value = report.header(reported)?;
        let value = HeaderValue::from_str(&value).ok()?;
        let trailers = HeaderMap::from_iter(MISSING.map(|name| (name, value.clone())));
        Some(Ok(Frame::trailers(trailers)))
    });
    let last = last.filter_map(|trailers| async { trailers });
    frames(stream::iter(first).chain(rest).chain(last))
}

/// Names the sources that are missing from an answer, which caches must not keep then.
pub(super) fn with_errors(response: Response<Body>, report: &Report) -> Response<Body> {
    let value = report.header(0);
    let Some(value) = value.and_then(|value| HeaderValue::from_str(&value).ok()) else {
        return response;
    };
    let mut response = fresh(response);
    let headers = response.headers_mut();
    headers.extend(MISSING.map(|name| (name, value.clone())));
    response
}

/// How many pages there are. `blocks` is what pages are counted in, as in pywb; where that is rows, `rows` says it too.
fn number_of(pages: Pages) -> Response<Body> {
    let number = pages.count.div_ceil(pages.size);
    let mut value =
        serde_json::json!({ "pages": number, "pageSize": pages.size, "blocks": pages.count });
    if let (false, Some(members)) = (pages.of_blocks, value.as_object_mut()) {
        members.insert("rows".to_owned(), pages.count.into());
    }
    json(StatusCode::OK, &value)
}

/// Why there is no answer.
pub(super) fn refusal(failure: &Failure) -> Response<Body> {
    let mut response = message(status_of(failure), &failure.to_string());
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from(RETRY_SECONDS);
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    if response.status().is_server_error() {
        fresh(response)
    } else {
        response
    }
}

/// The HTTP status of a failure.
pub(super) fn status_of(failure: &Failure) -> StatusCode {
    match failure {
        Failure::Query(BadQuery(_)) | Failure::TooMany => StatusCode::BAD_REQUEST,
        Failure::Access(AccessError::Query(_)) => StatusCode::BAD_REQUEST,
        Failure::Access(AccessError::NoPoint(_)) => StatusCode::NOT_FOUND,
        Failure::Access(AccessError::Unavailable(_)) => StatusCode::SERVICE_UNAVAILABLE,
        Failure::Busy => StatusCode::SERVICE_UNAVAILABLE,
        Failure::Unanswered(sources) if sources.any(Reason::Busy) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Failure::Unanswered(sources) if sources.all(Reason::Timeout) => StatusCode::GATEWAY_TIMEOUT,
        Failure::Unanswered(_) => StatusCode::BAD_GATEWAY,
    }
}
