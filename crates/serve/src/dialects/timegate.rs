//! TimeGates (RFC 7089, section 4): redirects to the memento of a URL that is closest to a datetime.

use http::header::{HeaderName, HeaderValue, LINK, LOCATION, VARY};
use http::{HeaderMap, Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::collection::next;
use crate::failure::Failure;
use crate::group::Report;
use crate::query::{BadQuery, Query};
use crate::server::body::Body;
use crate::server::links::{BaseUrl, link, memento_link, target, timemap_link};
use crate::server::output::{refusal, with_errors};
use crate::server::reply::{empty, message};
use crate::server::target::{RequestTarget, only_read};
use crawlspace_index::row::Row;
use crawlspace_index::timestamp::Timestamp;

const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");

/// Answers `/<coll>/timegate/<url>` with a redirect to the memento closest to `Accept-Datetime`, or to the last one.
pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    path: &str,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let url = target(path, request.uri().query());
    let base_url = BaseUrl::seen(
        asked.federation.public_url.as_deref(),
        request.headers(),
        &asked.collection.name,
        asked.point.as_deref(),
    );
    let report = Report::default();
    let mut response = match choose(asked, request.headers(), &url, &report).await {
        Ok(Some((query, row))) => match redirect(&query.url, &row, &base_url) {
            Some(response) => response,
            None => none(&url),
        },
        Ok(None) => none(&url),
        Err(failure) => refusal(&failure),
    };
    // RFC 7089 requires `Vary: accept-datetime` for 404 responses as well (section 4.5.6).
    response
        .headers_mut()
        .insert(VARY, HeaderValue::from_static("accept-datetime"));
    with_errors(response, &report)
}

fn none(url: &str) -> Response<Body> {
    message(
        StatusCode::NOT_FOUND,
        &format!("there is no memento of {url}"),
    )
}

/// Returns the row of the closest memento, with the query.
async fn choose(
    asked: &RequestTarget<'_>,
    headers: &HeaderMap,
    url: &str,
    report: &Report,
) -> Result<Option<(Query, Row)>, Failure> {
    let closest = match moment(headers)? {
        Some(time) => ("closest", time.to_string()),
        None => ("sort", "reverse".to_owned()),
    };
    let parameters = [
        ("url", url),
        ("matchType", "exact"),
        ("limit", "1"),
        (closest.0, &closest.1),
    ];
    let query = Query::parse(parameters, asked.point.as_deref())?;
    let query = asked.collection.prepare(query)?;
    let mut rows = asked.collection.rows(&query, report).await?;
    let first = next(&mut rows)
        .await?
        .and_then(|batch| batch.into_iter().next());
    Ok(first.map(|row| ((*query).clone(), row)))
}

/// Parses `Accept-Datetime`.
fn moment(headers: &HeaderMap) -> Result<Option<Timestamp>, BadQuery> {
    let Some(value) = headers.get(ACCEPT_DATETIME) else {
        return Ok(None);
    };
    let text = String::from_utf8_lossy(value.as_bytes());
    match Timestamp::from_http_date(&text) {
        Some(time) => Ok(Some(time)),
        None => Err(BadQuery(format!(
            "Accept-Datetime: invalid date {text:?}, expected one such as Thu, 31 May 2007 20:35:00 GMT"
        ))),
    }
}

/// Returns `302 Found` with the links of section 4.1.1, or `None` if the row has no valid timestamp.
fn redirect(url: &str, row: &Row, base_url: &BaseUrl) -> Option<Response<Body>> {
    let time = Timestamp::earliest(row.timestamp())?;
    let mut captured = row.field("url");
    if captured.is_empty() {
        url.clone_into(&mut captured);
    }
    let memento = base_url.memento(&captured, time);
    let links = [
        link(url, "original"),
        timemap_link(&base_url.timemap(url), "timemap"),
        memento_link(&memento, "memento", time),
    ];
    let mut response = empty(StatusCode::FOUND);
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_str(&memento).ok()?);
    headers.insert(LINK, HeaderValue::from_str(&links.join(", ")).ok()?);
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn dates_follow_http() {
        let moment = |text: &'static str| {
            let headers = HeaderMap::from_iter([(ACCEPT_DATETIME, HeaderValue::from_static(text))]);
            moment(&headers).map(|time| time.map(|time| time.to_string()))
        };
        assert_eq!(
            moment("Thu, 31 May 2007 20:35:00 GMT"),
            Ok(Some("20070531203500".to_owned()))
        );
        for wrong in [
            "",
            "2007",
            "20070531203500",
            "Thu, 31 Mai 2007 20:35:00 GMT",
            "Thu, 41 May 2007 20:35:00 GMT",
        ] {
            assert!(
                moment(wrong)
                    .unwrap_err()
                    .0
                    .starts_with("Accept-Datetime: "),
                "{wrong}"
            );
        }
        assert_eq!(super::moment(&HeaderMap::new()), Ok(None));
    }

    #[test]
    fn redirect_has_the_links_of_a_timegate() {
        let row = r#"com,a)/ 20140101000000 {"url": "http://www.a.com/?b&c"}"#;
        let row = Row::new(Bytes::from_static(row.as_bytes())).unwrap();
        let base_url = BaseUrl::at("http://h", "c", Some("p"));
        let response = redirect("http://a.com/?b&c", &row, &base_url).unwrap();
        assert_eq!(response.status(), 302);
        let memento = "http://h/c/ap/p/20140101000000id_/http://www.a.com/?b&c";
        assert_eq!(response.headers()[LOCATION], memento);
        let links = format!(
            "<http://a.com/?b&c>; rel=\"original\", \
             <http://h/c/ap/p/timemap/link/http://a.com/?b&c>; rel=\"timemap\"; type=\"application/link-format\", \
             <{memento}>; rel=\"memento\"; datetime=\"Wed, 01 Jan 2014 00:00:00 GMT\""
        );
        assert_eq!(response.headers()[LINK], links);
    }
}
