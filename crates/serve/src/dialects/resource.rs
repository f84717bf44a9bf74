//! Resource API: `/<coll>/resource`, `/<coll>/resource-post`, and `/<coll>/<timestamp>id_/<url>`.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use http::header::{ALLOW, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, BodyStream};
use hyper::body::{Body as _, Incoming};

use super::record::{self, Form};
use crate::resource::client_request::ClientRequest;
use crate::resource::record::LoadError;
use crate::resource::request_message;
use crate::resource::spool::Spooled;
use crate::server::body::Body;
use crate::server::links::target;
use crate::server::reply::closing;
use crate::server::reply::message;
use crate::server::target::RequestTarget;
use crawlspace_index::source::SourceError;

/// Header that browsers send when they fetch the script of a service worker.
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");
/// Maximum size of a request body, in bytes.
const MAX_BODY: u64 = 64 << 20;
/// Timeout of a request body, until all of it has arrived.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Answers with a capture that the query string selects, of a request with the same method and body.
pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: Request<Incoming>,
    form: Form,
    query: &str,
) -> Response<Body> {
    if let Some(refused) = too_large(&request) {
        return refused;
    }
    let (parts, body) = request.into_parts();
    let spooled = if body.is_end_stream() {
        None
    } else {
        match arrive(Spooled::of(pieces(body), MAX_BODY)).await {
            Ok(spooled) => Some(spooled).filter(|spooled| !spooled.is_empty()),
            Err(refused) => return refused,
        }
    };
    // HEAD loads the record as well, since the response states its length.
    let method = if parts.method == Method::HEAD {
        Method::GET
    } else {
        parts.method.clone()
    };
    let message = ClientRequest::plain(method, &parts.headers, spooled);
    record::answer(asked, &parts.headers, form, query, message).await
}

/// Answers with the capture closest to a timestamp, or to the current time.
pub(crate) async fn replay(
    asked: &RequestTarget<'_>,
    request: Request<Incoming>,
    (moment, path): (&str, &str),
) -> Response<Body> {
    if request.headers().contains_key(SERVICE_WORKER) {
        let text = "a captured script cannot be a service worker of this server";
        return message(StatusCode::FORBIDDEN, text);
    }
    let query = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("url", &target(path, request.uri().query()))
        .append_pair("matchType", "exact")
        .append_pair("closest", if moment.is_empty() { "now" } else { moment })
        .finish();
    answer(asked, request, Form::Replay, &query).await
}

/// Answers with a capture for the HTTP request that is posted in the body.
pub(crate) async fn answer_message(
    asked: &RequestTarget<'_>,
    request: Request<Incoming>,
) -> Response<Body> {
    if let Some(refused) = too_large(&request) {
        return refused;
    }
    let (parts, body) = request.into_parts();
    if parts.method != Method::POST {
        let text = format!("{}: use POST, with a request as the body", parts.method);
        let mut refused = message(StatusCode::METHOD_NOT_ALLOWED, &text);
        refused
            .headers_mut()
            .insert(ALLOW, HeaderValue::from_static("POST"));
        return refused;
    }
    match arrive(request_message::read(pieces(body), MAX_BODY)).await {
        Ok(message) => {
            let query = parts.uri.query().unwrap_or("");
            record::answer(asked, &parts.headers, Form::Record, query, message).await
        }
        Err(refused) => refused,
    }
}

/// Returns the body of a request as a stream of pieces.
fn pieces(body: Incoming) -> BoxStream<'static, Result<Bytes, LoadError>> {
    let frames = BodyStream::new(
        body.map_err(|error| LoadError::Request(format!("the body is incomplete: {error}"))),
    );
    let data =
        frames.filter_map(|frame| async { frame.map(|frame| frame.into_data().ok()).transpose() });
    data.boxed()
}

/// Waits for the body of a request until the timeout.
async fn arrive<T>(
    body: impl std::future::Future<Output = Result<T, LoadError>>,
) -> Result<T, Response<Body>> {
    let error = match tokio::time::timeout(TIMEOUT, body).await {
        Ok(Ok(arrived)) => return Ok(arrived),
        Ok(Err(error)) => error,
        Err(_) => {
            let what = format!(
                "the body did not arrive within {} seconds",
                TIMEOUT.as_secs()
            );
            return Err(closing(StatusCode::REQUEST_TIMEOUT, &what));
        }
    };
    Err(match &error {
        LoadError::Net(SourceError::TooLarge(_)) => {
            closing(StatusCode::PAYLOAD_TOO_LARGE, &larger())
        }
        LoadError::Io(_) => {
            tracing::warn!(%error, "the body of a request cannot be kept");
            let what = "the body of the request cannot be kept";
            closing(StatusCode::INTERNAL_SERVER_ERROR, what)
        }
        _ => closing(StatusCode::BAD_REQUEST, &error.to_string()),
    })
}

/// Refuses a body whose announced size is too large before reading any of it.
fn too_large(request: &Request<Incoming>) -> Option<Response<Body>> {
    let is_large = request.body().size_hint().lower() > MAX_BODY;
    is_large.then(|| closing(StatusCode::PAYLOAD_TOO_LARGE, &larger()))
}

fn larger() -> String {
    format!("the body is larger than {MAX_BODY} bytes")
}
