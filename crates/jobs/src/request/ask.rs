//! A request for an index, and what the server says to it.

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

/// How long the server is to wait for an index that is being built, in seconds, before it says so.
const WAIT: u64 = 20;
/// Maximum pause that a server can ask for while it builds, in seconds.
const MAX_PAUSE: u64 = 30;
/// Maximum length of a URL that HTTP libraries and servers take, in bytes.
const MAX_URL: usize = 65_534;
/// Maximum number of bytes read of an answer without an index.
const MAX_EXPLANATION: u64 = 64 * 1024;
/// Maximum number of characters of it that are shown.
const MAX_SHOWN: usize = 300;

/// What a server says.
pub(super) enum Answer {
    /// It is being built, which is at that stage, if the server says so; ask again after that time.
    Building(Option<String>, Duration),
    /// Here it is.
    Arrived(Box<Arrived>),
}

/// An index on its way.
pub(super) struct Arrived {
    /// The tar.
    pub body: Body,
    /// The jobs that are in it, if the server says so.
    pub found: Option<JobSet>,
    /// Why others are missing.
    pub reasons: Value,
    /// How long the tar is.
    pub length: Option<u64>,
}

/// Where an index is asked for.
pub(super) fn url(server: &Url, kind: IndexKind, jobs: &JobSet) -> Url {
    let mut url = server.clone();
    url.set_path(&format!("{}_indexes/{kind}", server.path()));
    url.set_query(Some(&format!("jobs={jobs}&wait={WAIT}")));
    url
}

/// Where an index is asked for, shortened for messages: without a password, and without all of a thousand jobs.
pub(super) fn shown(server: &Url, kind: IndexKind, jobs: &JobSet) -> String {
    let url = without_password(&url(server, kind, jobs));
    let short = url.split("&wait=").next().unwrap_or_default();
    match short.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}…", short.get(..end).unwrap_or_default()),
        None => short.to_owned(),
    }
}

/// Returns a server, also one that is no URL, without a login, which ends at the last `@`.
pub(super) fn shown_server(server: &str) -> &str {
    server.rsplit_once('@').map_or(server, |(_, host)| host)
}

/// A URL with its password, if it has one, masked.
pub(super) fn without_password(url: &Url) -> String {
    let mut url = url.clone();
    if url.password().is_some() {
        let _ = url.set_password(Some("***"));
    }
    url.into()
}

/// Asks once.
pub(super) fn ask(url: &Url, silence: Duration, work: &Work) -> Result<Answer, Failure> {
    if url.as_str().len() > MAX_URL {
        return Err(Failure::Answer(format!(
            "the list of jobs is too long for its URL, which may have {MAX_URL} bytes: ask for fewer at a time"
        )));
    }
    let mut request = Request::get(url.clone());
    // What is in the tar is packed as far as it can be.
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
                None => format!("{status}, without a reason: is that a server of indexes?"),
            };
            // Of this server, 500 says that the index cannot be built.
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
            "it sends {:?} where an index (application/x-tar) was expected: is that a server of indexes?",
            short(&media)
        )));
    }
    let found = match text(headers, "jobs-found") {
        Some(found) => Some(found.parse().map_err(|error| {
            Failure::answer(format!(
                "what it says of the jobs that it found is wrong: {error}"
            ))
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

/// Shows how far the server is, and gives back its stage.
fn building(state: &Value, work: &Work) -> Option<String> {
    let number = |name: &str| state.get(name).and_then(Value::as_u64).unwrap_or(0);
    let stage = state.get("stage").and_then(Value::as_str);
    let stage = stage.filter(|stage| !stage.is_empty()).map(short);
    let reported = match &stage {
        None => "the server builds".to_owned(),
        Some(stage) => format!("the server: {stage}"),
    };
    work.begin(&reported, number("total"));
    // Whether to go on is asked before the next request.
    let _ = work.advance(number("done"));
    stage
}

/// The JSON of an answer that is no index, or nothing.
fn explanation(body: Body) -> Value {
    let mut bytes = Vec::new();
    match body.take(MAX_EXPLANATION).read_to_end(&mut bytes) {
        Ok(_) => serde_json::from_slice(&bytes).unwrap_or_default(),
        Err(_) => Value::Null,
    }
}

/// When the server wants to be asked again, in seconds.
fn seconds(headers: &HeaderMap) -> Option<u64> {
    let reported = text(headers, RETRY_AFTER.as_str())?;
    let is_number = !reported.is_empty() && reported.bytes().all(|b| b.is_ascii_digit());
    // Whatever is too large for a number is as long as can be.
    is_number.then(|| reported.parse().unwrap_or(u64::MAX))
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?;
    Some(String::from_utf8_lossy(value.as_bytes()).trim().to_owned())
}

/// What a server says goes to terminals.
fn short(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .take(MAX_SHOWN)
        .collect()
}
