//! The write API of OutbackCDX: `POST /<coll>` adds the CDX lines in the body, `POST /<coll>/delete` deletes them.
//!
//! The collection must be writable, and each request needs the token of the collection. Lines are written while the
//! body arrives. After a failure, the request can be sent again: it writes each row once.

use std::time::Duration;

use http::header::{ALLOW, AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::body::Body;
use super::reply::{closing, page};
use super::state::fresh;
use super::target::RequestTarget;
use crate::writable::{Writable, WriteError, Written};
use crawlspace_index::lines::MAX_LINE;

/// Number of lines that are written at a time.
const LINES: usize = 1000;
/// Timeout of the next part of a body.
const SILENCE: Duration = Duration::from_secs(60);

/// Returns whether a path below the collection belongs to this API.
pub(crate) fn is_asked(request: &Request<Incoming>, rest: &str) -> bool {
    request.method() == Method::POST && matches!(rest, "" | "delete")
}

pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: Request<Incoming>,
    deletes: bool,
) -> Response<Body> {
    let outcome = match &asked.collection.writable {
        Some(writable) => write(writable, request, deletes).await,
        None => {
            let what = "the collection is not writable: set writable in its configuration";
            let mut refused = closing(StatusCode::METHOD_NOT_ALLOWED, what);
            let allowed = HeaderValue::from_static("GET, HEAD");
            refused.headers_mut().insert(ALLOW, allowed);
            Err(refused)
        }
    };
    fresh(outcome.unwrap_or_else(|refused| refused))
}

type Outcome = Result<Response<Body>, Response<Body>>;

async fn write(writable: &Writable, request: Request<Incoming>, deletes: bool) -> Outcome {
    let given = request.headers().get(AUTHORIZATION);
    if !given.is_some_and(|given| writable.token().permits(given.as_bytes())) {
        let what = "a write needs the token of the collection: Authorization: Bearer TOKEN";
        let mut refused = closing(StatusCode::UNAUTHORIZED, what);
        let scheme = HeaderValue::from_static("Bearer");
        refused.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        return Err(refused);
    }
    let query = request.uri().query().unwrap_or("").as_bytes();
    let skips = url::form_urlencoded::parse(query)
        .any(|(name, value)| name == "badLines" && value == "skip");
    let mut batches = Batches {
        writable,
        deletes,
        skips,
        lines: Vec::new(),
        number: 0,
        rows: 0,
    };
    let mut body = request.into_body();
    let mut rest: Vec<u8> = Vec::new();
    loop {
        let frame = match tokio::time::timeout(SILENCE, body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                let what = format!("the body is incomplete: {error}");
                return Err(batches.refused(StatusCode::BAD_REQUEST, &what));
            }
            Err(_) => {
                let what = format!(
                    "no part of the body arrived within {} seconds",
                    SILENCE.as_secs()
                );
                return Err(batches.refused(StatusCode::REQUEST_TIMEOUT, &what));
            }
        };
        let Some(data) = frame.data_ref() else {
            continue;
        };
        let mut data = &data[..];
        while let Some(at) = memchr::memchr(b'\n', data) {
            let line = &data[..at];
            data = &data[at + 1..];
            if rest.is_empty() {
                batches.line(line).await?;
            } else {
                rest.extend_from_slice(line);
                batches.line(&rest).await?;
                rest.clear();
            }
        }
        // One more byte makes a line too long, and is enough to refuse it.
        let room = (MAX_LINE + 1).saturating_sub(rest.len()).min(data.len());
        rest.extend_from_slice(&data[..room]);
    }
    if !rest.is_empty() {
        batches.line(&rest).await?;
    }
    batches.flush().await?;
    let done = if deletes { "Deleted" } else { "Added" };
    let text = format!("{done} {} records\n", batches.rows);
    Ok(page(StatusCode::OK, "text/plain; charset=utf-8", text))
}

/// Collects lines, and writes many at a time.
struct Batches<'a> {
    writable: &'a Writable,
    deletes: bool,
    /// Skips invalid lines.
    skips: bool,
    lines: Vec<Written>,
    /// Number of the last line.
    number: u64,
    /// Number of rows and aliases.
    rows: u64,
}

impl Batches<'_> {
    async fn line(&mut self, line: &[u8]) -> Result<(), Response<Body>> {
        self.number += 1;
        let is_alias = match Written::parse(line) {
            Ok(Written::Nothing) => return Ok(()),
            Ok(written) => {
                let is_alias = matches!(written, Written::Alias { .. });
                self.lines.push(written);
                is_alias
            }
            Err(_) if self.skips => return Ok(()),
            Err(why) => {
                let what = format!("line {}: {why}", self.number);
                return Err(self.refused(StatusCode::BAD_REQUEST, &what));
            }
        };
        self.rows += 1;
        // An alias may be invalid, so it is the last line of its batch.
        if self.lines.len() < LINES && !is_alias {
            return Ok(());
        }
        self.flush().await
    }

    async fn flush(&mut self) -> Result<(), Response<Body>> {
        let lines = std::mem::take(&mut self.lines);
        let written = if self.deletes {
            self.writable.delete(lines).await
        } else {
            self.writable.add(lines).await
        };
        match written {
            Ok(()) => Ok(()),
            Err(WriteError::Alias(_)) if self.skips => {
                self.rows -= 1;
                Ok(())
            }
            Err(WriteError::Alias(why)) => {
                let what = format!("line {}: {why}", self.number);
                Err(self.refused(StatusCode::BAD_REQUEST, &what))
            }
            Err(WriteError::Server(error)) => {
                tracing::warn!(%error, "the sorted set of a writable collection cannot be written");
                let what = "the rows cannot be written at the moment";
                Err(self.refused(StatusCode::SERVICE_UNAVAILABLE, what))
            }
        }
    }

    /// Refuses the rest of a request.
    fn refused(&self, status: StatusCode, what: &str) -> Response<Body> {
        let what =
            format!("{what}; some of the lines before it may be written: send the request again");
        closing(status, &what)
    }
}
