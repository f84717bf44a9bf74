//! `/<coll>/<timestamp>id_/<url>`: a capture as it came, where replay systems and Memento clients look for it.

use http::{HeaderName, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::links::target;
use super::{Body, RequestTarget, message, resource};
use crate::resource::Form;

/// What a browser says when it fetches the script of a service worker.
const SERVICE_WORKER: HeaderName = HeaderName::from_static("service-worker");
/// Digits of a moment down to the millisecond. Queries take it down to the second.
const MAX_DIGITS: usize = 17;
const DIGITS: usize = 14;

/// The digits of the moment, which may be none, and the URL, as far as it is in the path. `None` when the path is
/// not that of a replay.
pub(crate) fn parts(path: &str) -> Option<(&str, &str)> {
    let (moment, url) = path.split_once("id_/")?;
    let is_moment = moment.len() <= MAX_DIGITS && moment.bytes().all(|byte| byte.is_ascii_digit());
    let digits = moment.get(..DIGITS).unwrap_or(moment);
    is_moment.then_some((digits, url))
}

/// The capture that is closest to a moment, or to now.
pub(super) async fn answer(
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
    resource::answer(asked, request, Form::Replay, &query).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_told_from_other_paths() {
        for (path, expected) in [
            (
                "20160102030405id_/http://a.com/?b",
                Some(("20160102030405", "http://a.com/?b")),
            ),
            ("2016id_/http://a.com/", Some(("2016", "http://a.com/"))),
            ("id_/a.com//x/id_/y", Some(("", "a.com//x/id_/y"))),
            (
                "20160102030405678id_/a.com",
                Some(("20160102030405", "a.com")),
            ),
            ("201601020304056789id_/a.com", None),
            ("http://a.com/2016id_/b", None),
            ("2016/http://a.com/", None),
            ("2016if_/http://a.com/", None),
            ("index", None),
        ] {
            assert_eq!(parts(path), expected, "{path}");
        }
    }
}
