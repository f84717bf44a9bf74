//! Redirects (RFC 9110, section 15.4).

use bytes::Bytes;
use data_encoding::BASE64;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION};
use http::{HeaderValue, Method};
use percent_encoding::percent_decode_str;
use url::Url;

use super::{Error, Request, Response};

/// Returns the request that a redirect leads to, or `None` if the response is not a redirect.
pub(super) fn next(request: &Request, answer: &Response) -> Result<Option<Request>, Error> {
    if !matches!(answer.status, 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = answer.headers.get(LOCATION) else {
        return Ok(None);
    };
    // Some servers send a `Location` that is not percent-encoded.
    let location = String::from_utf8_lossy(location.as_bytes());
    let to = request.url.join(location.trim());
    let mut to =
        to.map_err(|error| Error::Answer(format!("invalid redirect to {location:?}: {error}")))?;
    // Credentials are only sent to the servers that the configuration names.
    let is_elsewhere = request.url.origin() != to.origin();
    let (name, password) = if is_elsewhere {
        ("", None)
    } else {
        (request.url.username(), request.url.password())
    };
    let _ = to.set_username(name);
    let _ = to.set_password(password);
    to.set_fragment(None);
    let mut next = Request {
        url: to,
        ..request.clone()
    };
    if is_elsewhere {
        next.headers.remove(AUTHORIZATION);
        next.headers.remove(COOKIE);
    }
    if next.method == Method::POST && matches!(answer.status, 301..=303) {
        next.method = Method::GET;
        next.body = Bytes::new();
        next.headers.remove(CONTENT_LENGTH);
        next.headers.remove(CONTENT_TYPE);
    }
    Ok(Some(next))
}

/// Returns the value of `Authorization` for the user and password of a URL.
pub(super) fn credentials(url: &Url) -> Option<HeaderValue> {
    let mut plain: Vec<u8> = percent_decode_str(url.username()).collect();
    plain.push(b':');
    plain.extend(percent_decode_str(url.password().unwrap_or_default()));
    let mut value = HeaderValue::try_from(format!("Basic {}", BASE64.encode(&plain))).ok()?;
    value.set_sensitive(true);
    Some(value)
}
