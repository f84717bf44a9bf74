//! Dedupe API of Doppelgänger: `/<coll>/api/records`.

use std::sync::Arc;
use std::time::Duration;

use http::header::{ALLOW, HeaderName, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::body::Body;
use super::origin;
use super::reply::{closing, json as json_of, message};
use super::state::fresh;
use super::target::RequestTarget;
use crate::Federation;
use crate::collection::Collection;
use crate::sources::DedupeSource;
use crate::sources::dedupe::DedupeError;
use crawlspace_client::dedupe::Added;
use crawlspace_compact::limits::dedupe::URL_BYTES;

/// Maximum size of a request body, in bytes.
const MAX_BODY: usize = 16 << 20;
/// Maximum number of records in a request.
const MAX_RECORDS: usize = 10_000;
/// Timeout of a request body, until all of it has arrived.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Header with the crawl of the request, which overrides the configured crawl.
const CRAWL: HeaderName = HeaderName::from_static("crawlspace-crawl");

/// Returns whether a path below `api/` belongs to this API.
pub(crate) fn is_path(path: &str) -> bool {
    path == "records" || path.starts_with("records/")
}

/// Returns the collection and path of a request without a collection name, if only one collection has a dedupe index.
pub(crate) fn at_root<'a>(
    federation: &'a Federation,
    path: &'a str,
) -> Option<(&'a Arc<Collection>, &'a str)> {
    let path = path.strip_prefix('/')?;
    path.strip_prefix("api/").filter(|path| is_path(path))?;
    let mut all = federation.collections.iter();
    let mut all = all.by_ref().filter(|one| one.dedupe().is_some());
    match (all.next(), all.next()) {
        (Some(only), None) => Some((only, path)),
        _ => None,
    }
}

pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: Request<Incoming>,
    path: &str,
) -> Response<Body> {
    let Some(index) = asked.collection.dedupe() else {
        let what = "the collection has no dedupe index (type: dedupe in its configuration)";
        return message(StatusCode::NOT_FOUND, what);
    };
    let crawl = match request.headers().get(CRAWL) {
        Some(crawl) => Some(crawl.as_bytes().to_vec()),
        None => index.crawl().map(|crawl| crawl.as_bytes().to_vec()),
    };
    let digest = path.strip_prefix("records/");
    let outcome = match (digest, request.method()) {
        (Some(digest), &Method::GET | &Method::HEAD) => look_up(index, crawl, digest).await,
        (None, &Method::POST) => {
            let public_url = asked.federation.public_url.as_deref();
            let refused = origin::foreign(&request, public_url, None);
            match refused.or_else(|| origin::not_json(request.headers())) {
                Some(refused) => Err(refused),
                None => add(index, crawl, request).await,
            }
        }
        (digest, method) => {
            let allowed = if digest.is_some() {
                "GET, HEAD"
            } else {
                "POST"
            };
            let what = format!("{method}: use {allowed}");
            let mut refused = message(StatusCode::METHOD_NOT_ALLOWED, &what);
            let allowed = HeaderValue::from_static(allowed);
            refused.headers_mut().insert(ALLOW, allowed);
            return refused;
        }
    };
    // An unknown digest may become known at any time.
    fresh(outcome.unwrap_or_else(|refused| refused))
}

type Outcome = Result<Response<Body>, Response<Body>>;

async fn look_up(index: &DedupeSource, crawl: Option<Vec<u8>>, digest: &str) -> Outcome {
    let digest: Vec<u8> = percent_decode_str(digest).collect();
    let found = index.look_up(crawl.as_deref(), &digest).await;
    let Some(original) = found.map_err(|error| refusal(&error))? else {
        return Err(message(StatusCode::NOT_FOUND, "no record has this payload"));
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let record = json!({
        "id": text(&digest),
        "uri": text(&original.url),
        "date": date(&original.date),
    });
    Ok(json_of(StatusCode::OK, &record))
}

/// Returns the digits of a date, down to the second, as a number.
fn date(date: &[u8]) -> u64 {
    let digits = date.iter().filter(|byte| byte.is_ascii_digit()).take(14);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}

async fn add(index: &DedupeSource, crawl: Option<Vec<u8>>, request: Request<Incoming>) -> Outcome {
    let Some(crawl) = crawl else {
        let what = format!(
            "the crawl of the records is missing: set crawl in the configuration of the index, or send the header \
             {CRAWL}"
        );
        return Err(closing(StatusCode::BAD_REQUEST, &what));
    };
    let bytes = body(request).await?;
    let bad = |what: String| message(StatusCode::BAD_REQUEST, &what);
    let records: Vec<Value> = serde_json::from_slice(&bytes)
        .map_err(|error| bad(format!("the body is not an array of records: {error}")))?;
    if records.len() > MAX_RECORDS {
        return Err(bad(format!("more than {MAX_RECORDS} records")));
    }
    let read = records
        .iter()
        .enumerate()
        .map(|(n, one)| Record::of(one).map_err(|what| format!("record {n}: {what}")));
    let read = read.collect::<Result<Vec<_>, _>>().map_err(bad)?;
    let added: Vec<Added<'_>> = read.iter().map(Record::added).collect();
    match index.add(&crawl, &added).await {
        Ok(()) => Ok(json_of(
            StatusCode::CREATED,
            &json!({ "records": added.len() }),
        )),
        Err(error) => Err(refusal(&error)),
    }
}

/// A record in a request.
struct Record<'a> {
    digest: &'a str,
    url: &'a str,
    date: String,
}

impl<'a> Record<'a> {
    fn of(value: &'a Value) -> Result<Record<'a>, String> {
        let text = |name: &str| match &value[name] {
            Value::String(text) if !text.is_empty() => Ok(text.as_str()),
            _ => Err(format!("{name} is missing or not a string")),
        };
        let date = match &value["date"] {
            Value::Number(number) => number.to_string(),
            Value::String(text) => text.clone(),
            _ => String::new(),
        };
        if date.len() != 14 || !date.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err("date is missing or invalid: write 14 digits, yyyyMMddHHmmss".to_owned());
        }
        let (digest, url) = (text("id")?, text("uri")?);
        if url.len() > URL_BYTES {
            return Err(format!("uri is longer than {URL_BYTES} bytes"));
        }
        Ok(Record { digest, url, date })
    }

    fn added(&self) -> Added<'_> {
        let (digest, date, url) = (&self.digest, &self.date, &self.url);
        // Doppelgänger's API has no size.
        Added::new(digest.as_bytes(), 0, date.as_bytes(), url.as_bytes(), 0)
    }
}

async fn body(request: Request<Incoming>) -> Result<bytes::Bytes, Response<Body>> {
    let whole = Limited::new(request.into_body(), MAX_BODY).collect();
    match tokio::time::timeout(TIMEOUT, whole).await {
        Ok(Ok(whole)) => Ok(whole.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            let what = format!("the body is larger than {MAX_BODY} bytes");
            Err(closing(StatusCode::PAYLOAD_TOO_LARGE, &what))
        }
        Ok(Err(error)) => Err(closing(
            StatusCode::BAD_REQUEST,
            &format!("the body is incomplete: {error}"),
        )),
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            let what = format!("the body did not arrive within {seconds} seconds");
            Err(closing(StatusCode::REQUEST_TIMEOUT, &what))
        }
    }
}

fn refusal(error: &DedupeError) -> Response<Body> {
    match error {
        DedupeError::Invalid(why) => message(StatusCode::BAD_REQUEST, why),
        DedupeError::Closed(why) => message(StatusCode::CONFLICT, why),
        DedupeError::Unavailable(why) => {
            tracing::warn!(why, "a dedupe index did not answer");
            let what = "the dedupe index cannot be queried at the moment";
            message(StatusCode::SERVICE_UNAVAILABLE, what)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_numbers_of_14_digits() {
        for (text, number) in [
            ("20240131235959", 20_240_131_235_959),
            ("20240131235959123", 20_240_131_235_959),
            ("2024-01-31T23:59:59.123Z", 20_240_131_235_959),
        ] {
            assert_eq!(date(text.as_bytes()), number, "{text}");
        }
    }

    #[test]
    fn records_are_validated() {
        for (value, wrong) in [
            (json!({}), "date"),
            (json!({"date": 2024, "id": "a", "uri": "b"}), "date"),
            (
                json!({"date": 20_240_131_235_959_u64, "id": "", "uri": "b"}),
                "id",
            ),
            (json!({"date": "20240131235959", "id": "a"}), "uri"),
            (json!([]), "date"),
        ] {
            let why = Record::of(&value).map(|_| ()).unwrap_err();
            assert!(why.starts_with(wrong), "{value}: {why}");
        }
    }
}
