//! Requests an index, and interprets the response of the server.

use std::io::Read;
use std::time::Duration;

use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER,
};
use serde_json::Value;
use url::Url;

use super::super::{IndexKind, JobSet, Work};
use super::failure::Failure;
use crawlspace_fetch::Request;
use crawlspace_fetch::blocking::{Body, Response};
use crawlspace_fetch::is_transient;
use crawlspace_wacz::Options as WebOptions;

/// Time that the server waits for an index that is being built before it responds, in seconds.
const WAIT: u64 = 20;
/// Maximum pause that a server can request while it builds, in seconds.
const MAX_PAUSE: u64 = 30;
/// Maximum length of a URL that HTTP libraries and servers accept, in bytes.
const MAX_URL: usize = 65_534;
/// Maximum number of bytes read from a response without an index.
const MAX_EXPLANATION: u64 = 64 * 1024;
/// Maximum number of characters of a response in messages.
const MAX_SHOWN: usize = 300;

/// The response of a server.
pub(super) enum Answer {
    /// The index is being built; the stage, if the server names it, and the time until the next request.
    Building(Option<String>, Duration),
    /// The index.
    Arrived(Box<Arrived>),
}

/// An index that is being received.
pub(super) struct Arrived {
    /// The tar file.
    pub body: Body,
    /// The jobs in the index, if the server lists them.
    pub found: Option<JobSet>,
    /// The reasons why other jobs are missing.
    pub reasons: Value,
    /// The length of the tar file in bytes, if known.
    pub length: Option<u64>,
}

/// Returns the URL of a request.
pub(super) fn url(server: &Url, kind: IndexKind, jobs: &JobSet) -> Url {
    let mut url = server.clone();
    url.set_path(&format!("{}_indexes/{kind}", server.path()));
    url.set_query(Some(&format!("jobs={jobs}&wait={WAIT}")));
    url
}

/// Returns the URL of a request for messages: without the password, and with a long list of jobs cut off.
pub(super) fn shown(server: &Url, kind: IndexKind, jobs: &JobSet) -> String {
    let url = without_password(&url(server, kind, jobs));
    let short = url.split("&wait=").next().unwrap_or_default();
    match short.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", short.get(..end).unwrap_or_default()),
        None => short.to_owned(),
    }
}

/// Returns a server address without its login, which ends at the last `@`; the address may be an invalid URL.
pub(super) fn shown_server(server: &str) -> &str {
    server.rsplit_once('@').map_or(server, |(_, host)| host)
}

/// Returns a URL with its password masked.
pub(super) fn without_password(url: &Url) -> String {
    let mut url = url.clone();
    if url.password().is_some() {
        let _ = url.set_password(Some("***"));
    }
    url.into()
}

/// Sends one request.
pub(super) fn ask(url: &Url, silence: Duration, work: &Work) -> Result<Answer, Failure> {
    if url.as_str().len() > MAX_URL {
        return Err(Failure::Answer(format!(
            "the list of jobs is too long for a URL of {MAX_URL} bytes: request fewer jobs at a time"
        )));
    }
    let mut request = Request::get(url.clone());
    // The files in the tar are already compressed.
    let identity = HeaderValue::from_static("identity");
    request.headers.insert(ACCEPT_ENCODING, identity);
    let options = WebOptions {
        silence,
        ..WebOptions::default()
    };
    let response = options.send(request)?;
    match response.status {
        200 => Ok(Answer::Arrived(Box::new(arrived(response)?))),
        202 => {
            let pause = seconds(&response.headers).unwrap_or(1).min(MAX_PAUSE);
            let stage = building(&explanation(response.body), work);
            Ok(Answer::Building(stage, Duration::from_secs(pause)))
        }
        status => {
            let wait = seconds(&response.headers).map(Duration::from_secs);
            let message = explanation(response.body);
            let reported = match message.get("message").and_then(Value::as_str) {
                Some(text) => format!("{status}: {}", short(text)),
                None => format!(
                    "{status}, without a reason: check that this is a server of job indexes"
                ),
            };
            // From this kind of server, 500 means that the index cannot be built, so it is not retried.
            Err(if status != 500 && is_transient(status) {
                Failure::Transient(reported, wait)
            } else {
                Failure::Answer(reported)
            })
        }
    }
}

fn arrived(response: Response) -> Result<Arrived, Failure> {
    let headers = &response.headers;
    let media = text(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let plain = media.split(';').next().unwrap_or_default().trim();
    if !plain.eq_ignore_ascii_case("application/x-tar") {
        return Err(Failure::answer(format!(
            "it sends {:?} instead of an index (application/x-tar): check that this is a server of job indexes",
            short(&media)
        )));
    }
    let found = match text(headers, "jobs-found") {
        Some(found) => Some(found.parse().map_err(|error| {
            Failure::answer(format!("its list of found jobs is invalid: {error}"))
        })?),
        None => None,
    };
    let reasons = text(headers, "jobs-missing-reasons");
    let reasons = reasons.and_then(|reasons| serde_json::from_str(&reasons).ok());
    Ok(Arrived {
        found,
        reasons: reasons.unwrap_or_default(),
        length: text(headers, CONTENT_LENGTH.as_str()).and_then(|length| length.parse().ok()),
        body: response.body,
    })
}

/// Shows the progress of the server, and returns its stage.
fn building(state: &Value, work: &Work) -> Option<String> {
    let number = |name: &str| state.get(name).and_then(Value::as_u64).unwrap_or(0);
    let stage = state.get("stage").and_then(Value::as_str);
    let stage = stage.filter(|stage| !stage.is_empty()).map(short);
    let reported = match &stage {
        None => "the server is building the index".to_owned(),
        Some(stage) => format!("the server: {stage}"),
    };
    work.begin(&reported, number("total"));
    // Cancellation is checked before the next request.
    let _ = work.advance(number("done"));
    stage
}

/// Parses the JSON of a response without an index; null if it is invalid.
fn explanation(body: Body) -> Value {
    let mut bytes = Vec::new();
    match body.take(MAX_EXPLANATION).read_to_end(&mut bytes) {
        Ok(_) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(_) => Value::Null,
    }
}

/// Returns the `Retry-After` of a response in seconds.
fn seconds(headers: &HeaderMap) -> Option<u64> {
    let reported = text(headers, RETRY_AFTER.as_str())?;
    let is_number = !reported.is_empty() && reported.bytes().all(|b| b.is_ascii_digit());
    // A number that overflows counts as the maximum.
    is_number.then(|| reported.parse().unwrap_or(u64::MAX))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

/// Shortens a string from the server, and removes control characters, because it may be printed to a terminal.
fn short(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_SHOWN)
        .collect()
}
