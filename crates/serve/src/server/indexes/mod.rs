//! `/_indexes`: job indexes, each sent as a tar of its cache entry.

pub(crate) mod listing;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName,
    HeaderValue, IF_NONE_MATCH, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use hyper::body::{Frame, Incoming};
use serde_json::json;
use tokio::task::spawn_blocking;

use super::body::{Body, Broken, frames, whole};
use super::reply::fresh;
use super::reply::{empty, json as reply_json, message};
use super::target::only_read;
use crate::Federation;
use crate::indexes::{BuildStatus, Outcome, Refused};
use crawlspace_jobs::{Error, Id, Index, IndexKind, JobSet, Missing, MissingJob, Parcel, reasons};

/// Header field that lists the jobs contained in an index.
const FOUND: HeaderName = HeaderName::from_static("jobs-found");
/// Header field that lists the requested jobs that are not contained in an index.
const MISSING: HeaderName = HeaderName::from_static("jobs-missing");
/// Header field with the reasons why jobs are missing.
const REASONS: HeaderName = HeaderName::from_static("jobs-missing-reasons");
/// Maximum size of a list of jobs in a header, in bytes. Longer lists are omitted, since proxies refuse such headers;
/// the manifest contains them.
const MAX_LIST: usize = 16 * 1024;
/// Maximum size of the reasons in a header, in bytes. Further reasons are omitted.
const MAX_REASONS: usize = 8 * 1024;
/// Maximum number of jobs in one request.
const MAX_JOBS: usize = 100_000;
/// Default and maximum wait for an index that is being built, in seconds.
const WAIT: (u64, u64) = (20, 300);
/// `Retry-After` while this server builds the index, in seconds.
const RETRY_BUILDING: u64 = 1;
/// `Retry-After` while another process builds the index, or while there is no room for it, in seconds.
const RETRY_ELSEWHERE: u64 = 30;

/// Answers a request; `rest` is the path after `_indexes/`.
pub(crate) async fn answer(
    federation: &Arc<Federation>,
    request: &Request<Incoming>,
    rest: &str,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let Some(indexes) = &federation.indexes else {
        let text = "this server offers no indexes of jobs: add indexes to its configuration";
        return message(StatusCode::NOT_FOUND, text);
    };
    if rest.is_empty() {
        return listing::answer(indexes).await;
    }
    let kind = match rest.parse::<IndexKind>() {
        Ok(kind) => kind,
        Err(what) => return message(StatusCode::NOT_FOUND, &what),
    };
    let (jobs, wait) = match parameters(request.uri().query().unwrap_or("")) {
        Ok(parameters) => parameters,
        Err(what) => return message(StatusCode::BAD_REQUEST, &what),
    };
    match indexes.get(kind, &jobs, wait).await {
        BuildStatus::Done(outcome) => finished(outcome, request).await,
        BuildStatus::Waiting => {
            let state = json!({
                "state": "waiting",
                "stage": "waiting for the builds of other indexes",
                "done": 0,
                "total": 0,
            });
            again(reply_json(StatusCode::ACCEPTED, &state), RETRY_BUILDING)
        }
        BuildStatus::Building(progress) => {
            let state = json!({
                "state": "building",
                "stage": progress.stage,
                "done": progress.done,
                "total": progress.total,
            });
            again(reply_json(StatusCode::ACCEPTED, &state), RETRY_BUILDING)
        }
    }
}

/// Parses `jobs=1,2,5-8` and `wait` (in seconds).
fn parameters(query: &str) -> Result<(JobSet, Duration), String> {
    let mut jobs = None;
    let mut wait = WAIT.0;
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "jobs" if jobs.is_some() => {
                return Err(
                    "jobs occurs twice: separate jobs with commas, as in jobs=1,2,5-8".to_owned(),
                );
            }
            "jobs" => {
                let set = JobSet::parse(&value, MAX_JOBS);
                jobs = Some(set.map_err(|error| format!("jobs: {error}"))?);
            }
            "wait" => {
                let seconds = value.parse().ok().filter(|seconds| *seconds <= WAIT.1);
                let wrong = || {
                    format!(
                        "wait must be a number of seconds from 0 to {} (got {value:?})",
                        WAIT.1
                    )
                };
                wait = seconds.ok_or_else(wrong)?;
            }
            _ => {}
        }
    }
    // An empty list is valid: the index of no jobs is empty.
    let jobs = jobs.ok_or("jobs is missing: add it, as in jobs=1,2,5-8")?;
    Ok((jobs, Duration::from_secs(wait)))
}

/// Answers with a finished index, or with the reason of the failure.
async fn finished(outcome: Outcome, request: &Request<Incoming>) -> Response<Body> {
    let index = match &*outcome {
        Ok(index) => index,
        Err(refused) => return refusal(refused),
    };
    let tag = format!("\"{}\"", index.entry.manifest().checksum);
    if is_known(request.headers(), &tag) {
        let mut response = empty(StatusCode::NOT_MODIFIED);
        describe(response.headers_mut(), index, &tag);
        return response;
    }
    let of = Arc::clone(&outcome);
    let parcel = spawn_blocking(move || match &*of {
        Ok(index) => Parcel::of(&index.entry),
        Err(_) => Err(Error::Cancelled),
    });
    let parcel = match parcel.await.unwrap_or(Err(Error::Cancelled)) {
        Ok(parcel) => parcel,
        Err(error) => return failure(&error),
    };
    let length = parcel.length();
    let body = if *request.method() == Method::HEAD {
        whole(Bytes::new())
    } else {
        streamed(parcel, Arc::clone(&outcome))
    };
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    describe(headers, index, &tag);
    let media = HeaderValue::from_static("application/x-tar");
    headers.insert(CONTENT_TYPE, media);
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    let name = index.found.name();
    let name = format!("attachment; filename=\"{name}-cache.tar\"");
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    response
}

/// Adds header fields with the jobs of an index and its version.
fn describe(headers: &mut HeaderMap, index: &Index, tag: &str) {
    let missing: JobSet = index.missing.iter().map(|one| one.job).collect();
    let mut say = |name: HeaderName, text: &str| {
        if let Ok(value) = HeaderValue::from_str(text) {
            headers.insert(name, value);
        }
    };
    say(ETAG, tag);
    say(CACHE_CONTROL, "no-cache");
    for (name, jobs) in [(FOUND, &index.found), (MISSING, &missing)] {
        let list = jobs.to_string();
        if list.len() <= MAX_LIST && (name == FOUND || !jobs.is_empty()) {
            say(name, &list);
        }
    }
    if !missing.is_empty() {
        let missing = for_clients(&index.missing);
        say(REASONS, &reasons::header(&missing, MAX_REASONS));
    }
}

/// Removes the details of read failures from the reasons, because they may reveal local files and servers. The log
/// contains the details.
fn for_clients(missing: &[MissingJob]) -> Vec<MissingJob> {
    let mut missing = missing.to_vec();
    for MissingJob { job, why } in &mut missing {
        if let Missing::Unreadable { why } = why {
            tracing::info!(job = job.0, why, "the metadata of a job cannot be read");
            "its metadata cannot be read".clone_into(why);
        }
    }
    missing
}

/// Returns whether the client already has this version (RFC 9110, section 13.1.2).
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(IF_NONE_MATCH).iter();
    let mut tags = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(',').map(str::trim));
    tags.any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// Streams the tar. The index stays in use until the last byte.
fn streamed(parcel: Parcel, outcome: Outcome) -> Body {
    let parts = stream::unfold(Some((parcel, outcome)), |state| async move {
        let (mut parcel, outcome) = state?;
        let read = spawn_blocking(move || {
            let part = parcel.part();
            (parcel, part)
        });
        let broken = |error: String| {
            tracing::warn!(error, "an index could not be sent");
            Some((Err(Broken(error)), None))
        };
        match read.await {
            Ok((_, Ok(None))) => None,
            Ok((parcel, Ok(Some(part)))) => {
                let frame = Frame::data(Bytes::from(part));
                Some((Ok(frame), Some((parcel, outcome))))
            }
            Ok((_, Err(error))) => broken(error.to_string()),
            Err(error) => broken(error.to_string()),
        }
    });
    frames(parts)
}

fn refusal(refused: &Refused) -> Response<Body> {
    let unavailable = |text| {
        again(
            message(StatusCode::SERVICE_UNAVAILABLE, text),
            RETRY_ELSEWHERE,
        )
    };
    match refused {
        Refused::Failed(error) => failure(error),
        Refused::Full => unavailable("too many indexes are queued: try again later"),
        Refused::Stopped => unavailable("the server is shutting down: try again after its restart"),
    }
}

fn failure(error: &Error) -> Response<Body> {
    let (status, text) = match error {
        Error::Request(_) => (StatusCode::BAD_REQUEST, error.to_string()),
        Error::Busy { owner, waited, .. } => {
            let seconds = waited.as_secs();
            let text = format!("still being built after {seconds} s, by {owner}");
            (StatusCode::SERVICE_UNAVAILABLE, text)
        }
        Error::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
        error if error.is_full() => {
            let text = "the disk is full; no incomplete index was kept";
            (StatusCode::INSUFFICIENT_STORAGE, text.to_owned())
        }
        _ => {
            let text = "the index cannot be built; see the log of the server for the reason";
            (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
        }
    };
    if status.is_server_error() {
        tracing::warn!(%error, "an index of jobs cannot be sent");
    }
    let response = message(status, &text);
    match status {
        StatusCode::SERVICE_UNAVAILABLE => again(response, RETRY_ELSEWHERE),
        _ => response,
    }
}

/// Marks a response as temporary, with a `Retry-After`.
fn again(response: Response<Body>, seconds: u64) -> Response<Body> {
    let mut response = fresh(response);
    let seconds = HeaderValue::from(seconds);
    response.headers_mut().insert(RETRY_AFTER, seconds);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_jobs_and_timeouts() {
        let (jobs, wait) = parameters("jobs=1,2,5-8").unwrap();
        assert_eq!(jobs.to_string(), "1,2,5-8");
        assert_eq!(wait, Duration::from_secs(20));
        let (_, wait) = parameters("wait=0&x=y&jobs=1%2C2").unwrap();
        assert_eq!(wait, Duration::ZERO);
        for (query, part) in [
            ("", "jobs is missing"),
            ("job=1", "jobs is missing"),
            ("jobs=1,x", "\"x\""),
            ("jobs=1&jobs=2", "twice"),
            ("jobs=3-1", "\"3-1\""),
            ("jobs=1-100001", "more than 100000 jobs"),
            ("jobs=1-99999,7,8,9", "more than 100000 jobs"),
            ("jobs=1-99999999999", "more than 100000 jobs"),
            ("jobs=1&wait=x", "wait must be"),
            ("jobs=1&wait=301", "from 0 to 300"),
        ] {
            let error = parameters(query).unwrap_err();
            assert!(error.contains(part), "{query}: {error}");
        }
        assert!(parameters("jobs=1-100000&wait=300").is_ok());
        assert!(parameters("jobs=").unwrap().0.is_empty());
    }

    #[test]
    fn version_is_identified_by_its_etag() {
        let known = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, HeaderValue::from_static(value));
            is_known(&headers, "\"abc\"")
        };
        for value in ["\"abc\"", "*", "W/\"abc\"", "\"x\", \"abc\""] {
            assert!(known(value), "{value}");
        }
        for value in ["\"ab\"", "abc", ""] {
            assert!(!known(value), "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"abc\""));
    }
}
