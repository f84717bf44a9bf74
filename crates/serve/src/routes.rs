//! Routes paths to APIs.

use std::sync::Arc;

use futures_util::FutureExt;
use http::header::ACCEPT;
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::Federation;
use crate::dialects::index::NoRows;
use crate::dialects::record::Form;
use crate::dialects::{cdx, common_crawl, index, outback, replay, resource, timegate, timemap};
use crate::figures::Api;
use crate::server::body::Body;
use crate::server::reply::message;
use crate::server::target::{RequestTarget, only_read};
use crate::server::{append, indexes, listing, page, records};

/// Answers a request to the public address.
pub(crate) async fn answer(
    federation: Arc<Federation>,
    request: Request<Incoming>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let Some((first, rest)) = path.strip_prefix('/').map(split) else {
        return message(StatusCode::BAD_REQUEST, "the path must begin with /");
    };
    if matches!(first, "" | "_status" | "_metrics" | "_indexes" | "static") {
        return own(&federation, &request, first, rest).await;
    }
    let name = decoded(first);
    let found = federation.collection(&name);
    let found = found.map(|collection| (collection, rest));
    let found = found.or_else(|| cdx::at_root(&federation, &path));
    let found = found.or_else(|| records::at_root(&federation, &path));
    let Some((collection, rest)) = found else {
        // Boxed to keep the response type small.
        let found = common_crawl::answer(&federation, &request, &name, rest).boxed();
        if let Some(answer) = found.await {
            return answer;
        }
        let text = format!("there is no collection {name:?}; / lists all collections");
        return nothing(request.headers(), &path, &text);
    };
    let (point, rest) = match split(rest) {
        ("ap", rest) => {
            let (point, rest) = split(rest);
            (Some(decoded(point)), rest)
        }
        _ => (None, rest),
    };
    let asked = RequestTarget {
        federation: &federation,
        collection,
        point,
    };
    // Some clients append replay and TimeMap paths to the URL of a TimeGate.
    let below = rest.strip_prefix("timegate/").unwrap_or(rest);
    let (api, response) = match (split(rest), replay::parts(below), timemap::parts(below)) {
        (("api", path), ..) if records::is_path(path) => {
            // Boxed to keep the response type small.
            let answer = records::answer(&asked, request, path).boxed();
            (Api::Other, answer.await)
        }
        _ if append::is_asked(&request, rest) => {
            let answer = append::answer(&asked, request, rest == "delete").boxed();
            (Api::Other, answer.await)
        }
        (("", ""), ..) if outback::is_asked(&request) => {
            (Api::Index, outback::answer(&asked, &request).boxed().await)
        }
        _ if cdx::is_path(rest) => (Api::Index, cdx::answer(&asked, &request).boxed().await),
        (_, Some(parts), _) => (Api::Replay, resource::replay(&asked, request, parts).await),
        (_, _, Some(parts)) => (Api::TimeMap, timemap::answer(&asked, &request, parts).await),
        (("list_sources", ""), ..) => (Api::Other, listing::answer(&asked, &request)),
        (("index", ""), ..) => (
            Api::Index,
            index::answer(&asked, &request, NoRows::Empty).await,
        ),
        (("resource", ""), ..) => {
            let query = request.uri().query().unwrap_or("").to_owned();
            let answer = resource::answer(&asked, request, Form::Record, &query);
            (Api::Resource, answer.await)
        }
        (("resource-post", "") | ("resource", "postreq"), ..) => {
            let answer = resource::answer_message(&asked, request);
            (Api::Resource, answer.await)
        }
        (("timegate", url), ..) => {
            let answer = timegate::answer(&asked, &request, url);
            (Api::TimeGate, answer.await)
        }
        // In other archives, the TimeGate of a URL is the URL appended to the path of the collection.
        ((scheme, _), ..)
            if ["http:", "https:"]
                .iter()
                .any(|web| scheme.eq_ignore_ascii_case(web)) =>
        {
            let answer = timegate::answer(&asked, &request, rest);
            (Api::TimeGate, answer.await)
        }
        _ => {
            let text = format!("{path:?}: {PATHS}");
            (Api::Other, nothing(request.headers(), &path, &text))
        }
    };
    let status = response.status().as_u16();
    asked.collection.requests.record(api, status);
    response
}

const PATHS: &str = "a collection has index, cdx, resource, resource-post, list_sources, <timestamp>id_/<url>, timegate/<url>, \
    and timemap/link/<url>, timemap/json/<url>, timemap/cdxj/<url>";

/// Message to clients that request the status at the public address.
const ELSEWHERE: &str = "the status is only served to the operator, at the address of --status, which the server logs \
 when it starts";

/// Answers paths outside of collections.
async fn own(
    federation: &Arc<Federation>,
    request: &Request<Incoming>,
    first: &str,
    rest: &str,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    match (first, rest) {
        ("", "") if listing::is_wanted(request.headers()) => listing::collections(federation),
        ("", "") => {
            listing::varies(page::answer(federation, request.uri().query().unwrap_or("")).await)
        }
        ("_status" | "_metrics", "") => message(StatusCode::NOT_FOUND, ELSEWHERE),
        ("_indexes", kind) => indexes::answer(federation, request, kind).await,
        ("static", name) => page::file(name),
        _ => {
            let path = request.uri().path();
            let text = format!("there is nothing at {path:?}");
            nothing(request.headers(), path, &text)
        }
    }
}

/// Answers unknown paths: with a page for browsers, and JSON for other clients.
fn nothing(headers: &HeaderMap, path: &str, text: &str) -> Response<Body> {
    let mut accepted = headers.get_all(ACCEPT).iter();
    let takes_pages = accepted.any(|value| {
        let value = value.as_bytes().to_ascii_lowercase();
        memchr::memmem::find(&value, b"text/html").is_some()
    });
    listing::varies(if takes_pages && !listing::is_wanted(headers) {
        page::not_found(path, text)
    } else {
        message(StatusCode::NOT_FOUND, text)
    })
}

/// Splits a path into its first segment and the rest.
fn split(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or((path, ""))
}

fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part)
        .decode_utf8_lossy()
        .into_owned()
}
