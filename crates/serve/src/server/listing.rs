//! Lists collections and their sources as JSON, in pywb's format.

use http::header::{ACCEPT, VARY};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use super::body::Body;
use super::output::refusal;
use super::reply::json as reply_json;
use super::target::{RequestTarget, only_read};
use crate::Federation;
use crate::query::Selection;

/// Returns whether a client prefers JSON to the page: it lists JSON first in `Accept`.
pub(crate) fn is_wanted(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|value| value.to_str().ok());
    let media = |one: &str| one.split(';').next().unwrap_or_default().trim().to_owned();
    let first = accepted
        .flat_map(|value| value.split(',').map(media))
        .find(|media| matches!(&**media, "application/json" | "text/html" | "*/*"));
    first.is_some_and(|media| media == "application/json")
}

/// Answers with all collections and their APIs.
pub(crate) fn collections(federation: &Federation) -> Response<Body> {
    let collections = federation.collections.iter();
    let modes = json!({ "modes": ["list_sources", "index", "resource"] });
    let collections = collections.map(|one| (format!("/{}", one.name), modes.clone()));
    varies(reply_json(
        StatusCode::OK,
        &Value::Object(collections.collect()),
    ))
}

/// Adds `Vary: accept`, since the response at `/` depends on the header `Accept`.
pub(crate) fn varies(mut response: Response<Body>) -> Response<Body> {
    let accept = HeaderValue::from_static("accept");
    response.headers_mut().insert(VARY, accept);
    response
}

/// Answers `/<coll>/list_sources`: name and kind of the sources that `sources=` selects.
pub(crate) fn answer(asked: &RequestTarget<'_>, request: &Request<Incoming>) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let query = request.uri().query().unwrap_or("");
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let names = pairs.filter(|(name, _)| name == "sources").last();
    let selected = Selection::parse(&names.map(|(_, names)| names).unwrap_or_default());
    if let Err(bad) = asked.collection.knows(&selected) {
        return refusal(&bad.into());
    }
    let members = asked.collection.members();
    let members = members.filter(|member| selected.includes(&member.name));
    let sources: Map<String, Value> = members
        .map(|member| (member.name.to_string(), member.kind.into()))
        .collect();
    reply_json(StatusCode::OK, &json!({ "sources": sources }))
}
