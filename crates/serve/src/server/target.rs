//! The target of a request, common to all APIs.

use std::sync::Arc;

use http::header::HeaderValue;
use http::{Method, Response, StatusCode};

use super::body::Body;
use super::reply::message;
use crate::Federation;
use crate::collection::Collection;

/// The collection and access point in a request's path.
pub(crate) struct RequestTarget<'a> {
    pub federation: &'a Arc<Federation>,
    pub collection: &'a Arc<Collection>,
    pub point: Option<String>,
}

/// Refuses methods other than `GET` and `HEAD`.
pub(crate) fn only_read(method: &Method) -> Option<Response<Body>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut refused = message(
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("{method}: use GET or HEAD"),
    );
    let allowed = HeaderValue::from_static("GET, HEAD");
    refused.headers_mut().insert(http::header::ALLOW, allowed);
    Some(refused)
}
