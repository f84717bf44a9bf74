//! Short responses.

use http::header::{self, HeaderValue};
use http::{Response, StatusCode};

use super::body::{Body, whole};

/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// Returns a JSON object with a human-readable `message`.
pub(crate) fn message(status: StatusCode, text: &str) -> Response<Body> {
    json(status, &serde_json::json!({ "message": text }))
}

/// Returns a JSON value as a response.
pub(crate) fn json(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    let mut text = value.to_string();
    text.push('\n');
    page(status, JSON, text)
}

/// Returns `text` with that media type.
pub(crate) fn page(
    status: StatusCode,
    media: &'static str,
    text: impl Into<Vec<u8>>,
) -> Response<Body> {
    let mut response = Response::new(whole(text.into()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    response
}

/// Marks a response as not cacheable, because it is valid only at the moment.
pub(crate) fn fresh(mut response: Response<Body>) -> Response<Body> {
    let value = HeaderValue::from_static("no-store");
    response.headers_mut().insert(header::CACHE_CONTROL, value);
    response
}

/// Returns a message and closes the connection, since the rest of the request is not read.
pub(crate) fn closing(status: StatusCode, text: &str) -> Response<Body> {
    let mut response = message(status, text);
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(header::CONNECTION, close);
    response
}

/// Returns a response without a body.
pub(crate) fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(whole(Vec::new()));
    *response.status_mut() = status;
    response
}
