//! TimeMaps (RFC 7089, section 5): all mementos of a URL, as links.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::collection::{Rows, next};
use crate::failure::Failure;
use crate::group::Report;
use crate::operations::is_self_redirect;
use crate::query::{Output, Query};
use crate::server::body::Body;
use crate::server::links::{BaseUrl, link, memento_link, quoted, target, timemap_link};
use crate::server::output::{Writer, refusal, respond, rows_as_text, with_errors};
use crate::server::reply::message;
use crate::server::target::{RequestTarget, only_read};
use crawlspace_cdx::Field;
use crawlspace_cdx::surt::MatchType;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::source::Batch;
use crawlspace_index::timestamp::Timestamp;

/// The media type of TimeMaps (RFC 6690).
pub(crate) const MEDIA: &str = "application/link-format";

/// Splits a TimeMap path into the format and the part of the URL in the path. Returns `None` for other paths.
pub(crate) fn parts(path: &str) -> Option<(Output, &str)> {
    let (format, url) = path.strip_prefix("timemap/")?.split_once('/')?;
    let output = match format {
        "link" => Output::Link,
        "json" => Output::Json,
        "cdxj" => Output::Cdxj,
        _ => return None,
    };
    Some((output, url))
}

/// Answers `/<coll>/timemap/link/<url>`, and the same captures as rows: `/<coll>/timemap/json/<url>`, `…/cdxj/<url>`.
pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    (output, path): (Output, &str),
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let url = target(path, request.uri().query());
    let query = [("url", &url[..]), ("matchType", "exact")];
    let query = Query::parse(query, asked.point.as_deref()).map_err(Failure::Query);
    let query = match query.and_then(|query| asked.collection.prepare(query)) {
        Ok(query) => query,
        Err(failure) => return refusal(&failure),
    };
    let report = Report::default();
    let found = match asked.collection.rows(&query, &report).await {
        Ok(rows) => {
            let is_link = output == Output::Link;
            let mut rows = rows
                .map(move |batch| {
                    if is_link {
                        batch.map(|rows| rows.map(mementos))
                    } else {
                        batch.map(|rows| rows.map(dated))
                    }
                })
                .boxed();
            next(&mut rows)
                .await
                .map(|first| first.map(|first| (first, rows)))
        }
        Err(failure) => Err(failure),
    };
    let (first, rest) = match found {
        Ok(Some(found)) => found,
        Ok(None) => {
            let none = message(
                StatusCode::NOT_FOUND,
                &format!("there is no memento of {url}"),
            );
            return with_errors(none, &report);
        }
        Err(failure) => return with_errors(refusal(&failure), &report),
    };
    let rows = stream::once(async { Ok(first) }).chain(rest).boxed();
    if output != Output::Link {
        return rows_as_text(rows, Writer::new(output, None), &report);
    }
    let base_url = BaseUrl::seen(
        asked.federation.public_url.as_deref(),
        request.headers(),
        &asked.collection.name,
        asked.point.as_deref(),
    );
    let own = base_url.timemap(&query.url);
    respond(
        text(rows, TimeMap::new(&query, base_url, own)),
        MEDIA,
        &report,
    )
}

/// Removes rows without a valid timestamp.
fn dated(mut batch: Batch) -> Batch {
    batch.retain(|row| Timestamp::earliest(row.timestamp()).is_some());
    batch
}

/// Returns the rows that are mementos. Removes rows that have no valid timestamp, and rows known to redirect to the
/// same URL.
fn mementos(mut batch: Batch) -> Batch {
    batch.retain(|row| !is_self_redirect(row));
    dated(batch)
}

/// Formats rows as a TimeMap, which is empty if there are no rows.
pub(crate) fn text(rows: Rows, timemap: TimeMap) -> BoxStream<'static, Result<Bytes, Failure>> {
    let parts = stream::unfold(Some((rows, timemap)), |state| async move {
        let (mut rows, mut timemap) = state?;
        let mut out = String::new();
        match rows.next().await {
            Some(Ok(batch)) => {
                timemap.take(&batch, &mut out);
                Some((Ok(out.into()), Some((rows, timemap))))
            }
            Some(Err(failure)) => Some((Err(failure), None)),
            None => {
                timemap.finish(&mut out);
                Some((Ok(out.into()), None))
            }
        }
    });
    parts.boxed()
}

/// Writes a TimeMap while its rows arrive. Only the last memento is held back until the next row or the end is known;
/// the TimeMap's link to itself, with its `from` and `until`, comes last.
pub(crate) struct TimeMap {
    base_url: BaseUrl,
    own: String,
    /// URL template of mementos on another server: `https://h/{timestamp}/{url}`.
    format: Option<String>,
    query: Arc<Query>,
    /// URL of the original resource.
    url: String,
    held: Option<Memento>,
    /// First and last datetime so far.
    span: Option<(Timestamp, Timestamp)>,
}

struct Memento {
    url: String,
    time: Timestamp,
    source: String,
    is_first: bool,
}

impl TimeMap {
    /// Creates the TimeMap of a query's answer; `own` is the URL of the TimeMap.
    pub(crate) fn new(query: &Arc<Query>, base_url: BaseUrl, own: String) -> TimeMap {
        TimeMap {
            base_url,
            own,
            format: None,
            query: Arc::clone(query),
            url: query.url.clone(),
            held: None,
            span: None,
        }
    }

    /// Creates a TimeMap for the index API. `memento_format=https://h/{timestamp}/{url}` is for replay servers such as
    /// pywb, which add the leading links of the TimeMap themselves.
    pub(crate) fn of_index(
        asked: &RequestTarget<'_>,
        request: &Request<Incoming>,
        query: &Arc<Query>,
    ) -> TimeMap {
        let text = request.uri().query().unwrap_or("");
        let base_url = BaseUrl::seen(
            asked.federation.public_url.as_deref(),
            request.headers(),
            &asked.collection.name,
            asked.point.as_deref(),
        );
        let own = base_url.index(text);
        let format =
            url::form_urlencoded::parse(text.as_bytes()).find(|(name, _)| name == "memento_format");
        let format = format.map(|(_, format)| format.into_owned());
        TimeMap {
            format: format.filter(|format| !format.is_empty()),
            ..TimeMap::new(query, base_url, own)
        }
    }

    /// Appends the links of rows.
    pub(crate) fn take(&mut self, batch: &[Row], out: &mut String) {
        for row in batch {
            let Some(mut memento) = self.memento(row) else {
                continue;
            };
            if self.span.is_none() {
                self.begin(out);
                memento.is_first = true;
            }
            let (from, until) = self.span.unwrap_or((memento.time, memento.time));
            self.span = Some((from.min(memento.time), until.max(memento.time)));
            if let Some(before) = self.held.replace(memento) {
                self.write(&before, false, out);
            }
        }
    }

    /// Appends the last memento and the TimeMap's link to itself.
    pub(crate) fn finish(&mut self, out: &mut String) {
        let (Some(last), Some((from, until))) = (self.held.take(), self.span) else {
            return;
        };
        self.write(&last, true, out);
        if self.format.is_none() {
            let own = timemap_link(&self.own, "self");
            let (from, until) = (from.http_date(), until.http_date());
            out.push_str(&format!(",\n{own}; from=\"{from}\"; until=\"{until}\""));
        }
        out.push('\n');
    }

    fn begin(&self, out: &mut String) {
        // Mementos of a whole host have no common original.
        if self.query.match_type != MatchType::Exact || self.format.is_some() {
            return;
        }
        let url = &self.url;
        for link in [
            link(url, "original"),
            link(&self.base_url.timegate(url), "timegate"),
        ] {
            out.push_str(&link);
            out.push_str(",\n");
        }
    }

    fn memento(&self, row: &Row) -> Option<Memento> {
        let time = Timestamp::earliest(row.timestamp())?;
        let capture = row.capture();
        let text = |field: Field| {
            let value = capture.as_ref().and_then(|line| line.field(&field));
            String::from_utf8_lossy(&value.unwrap_or_default()).into_owned()
        };
        let mut url = text(Field::Url);
        if url.is_empty() && self.query.match_type == MatchType::Exact {
            url.clone_from(&self.url);
        }
        (!url.is_empty()).then(|| Memento {
            url,
            time,
            source: text(Field::Other(b"source"[..].into())),
            is_first: false,
        })
    }

    fn write(&self, memento: &Memento, is_last: bool, out: &mut String) {
        let (starts, ends) = match self.query.order {
            _ if !self.is_whole() => (false, false),
            Order::Ascending => (memento.is_first, is_last),
            Order::Descending => (is_last, memento.is_first),
            Order::Closest(_) => (false, false),
        };
        let relation = match (starts, ends) {
            (true, true) => "first last memento",
            (true, false) => "first memento",
            (false, true) => "last memento",
            (false, false) => "memento",
        };
        let url = match &self.format {
            Some(format) => format
                .replace("{timestamp}", &memento.time.to_string())
                .replace("{url}", &memento.url),
            None => self.base_url.memento(&memento.url, memento.time),
        };
        if !memento.is_first {
            out.push_str(",\n");
        }
        out.push_str(&memento_link(&url, relation, memento.time));
        if !memento.source.is_empty() {
            out.push_str(&format!("; collection=\"{}\"", quoted(&memento.source)));
        }
    }

    /// Returns whether the query omits no mementos. If so, the first memento of the answer is the first memento of
    /// the URL.
    fn is_whole(&self) -> bool {
        let query = &self.query;
        query.match_type == MatchType::Exact
            && query.from.is_none()
            && query.to.is_none()
            && query.limit.is_none()
            && query.page.is_none()
            && query.keeps_all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(parameters: &[(&str, &str)], batches: &[&[&str]]) -> String {
        let query = Query::parse(parameters.iter().copied(), None).unwrap();
        let base_url = BaseUrl::at("http://h", "c", None);
        let mut timemap = TimeMap::new(&Arc::new(query), base_url, "http://h/own".to_owned());
        let mut out = String::new();
        for batch in batches {
            let row = |line: &&str| Row::new(Bytes::copy_from_slice(line.as_bytes())).unwrap();
            timemap.take(&batch.iter().map(row).collect::<Vec<_>>(), &mut out);
        }
        timemap.finish(&mut out);
        out
    }

    const A: &str = r#"com,a)/ 20140101000000 {"url": "http://a.com/", "source": "north"}"#;
    const B: &str =
        r#"com,a)/ 20150101000000 {"url": "http://www.a.com:80/?", "source": "a \"b\""}"#;
    const C: &str = r#"com,a)/ 20160101000000 {}"#;

    #[test]
    fn timemap_is_complete() {
        let text = written(&[("url", "a.com/")], &[&[A, B], &[C]]);
        let expected = "<http://a.com/>; rel=\"original\",\n\
            <http://h/c/timegate/http://a.com/>; rel=\"timegate\",\n\
            <http://h/c/20140101000000id_/http://a.com/>; rel=\"first memento\"; \
            datetime=\"Wed, 01 Jan 2014 00:00:00 GMT\"; collection=\"north\",\n\
            <http://h/c/20150101000000id_/http://www.a.com:80/?>; rel=\"memento\"; \
            datetime=\"Thu, 01 Jan 2015 00:00:00 GMT\"; collection=\"a%20%22b%22\",\n\
            <http://h/c/20160101000000id_/http://a.com/>; rel=\"last memento\"; \
            datetime=\"Fri, 01 Jan 2016 00:00:00 GMT\",\n\
            <http://h/own>; rel=\"self\"; type=\"application/link-format\"; \
            from=\"Wed, 01 Jan 2014 00:00:00 GMT\"; until=\"Fri, 01 Jan 2016 00:00:00 GMT\"\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn first_and_last_follow_time() {
        let relations = |parameters: &[(&str, &str)], rows: &[&str]| {
            let text = written(parameters, &[rows]);
            let relations = text
                .split("rel=\"")
                .skip(1)
                .filter_map(|rest| rest.split('"').next());
            relations
                .filter(|one| one.contains("memento"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
                .join(",")
        };
        let url = ("url", "a.com");
        assert_eq!(relations(&[url], &[A]), "first last memento");
        assert_eq!(relations(&[url], &[A, B]), "first memento,last memento");
        assert_eq!(
            relations(&[url, ("sort", "reverse")], &[C, B, A]),
            "last memento,memento,first memento"
        );
        for part in [
            ("limit", "2"),
            ("from", "2014"),
            ("to", "2016"),
            ("closest", "2015"),
            ("filter", "status:200"),
        ] {
            assert_eq!(
                relations(&[url, part], &[A, B]),
                "memento,memento",
                "{part:?}"
            );
        }
    }

    #[test]
    fn timemap_of_nothing_is_empty() {
        assert_eq!(written(&[("url", "a.com")], &[]), "");
        assert_eq!(
            written(
                &[("url", "a.com")],
                &[&[], &[r#"com,a)/ 20169999 {"url": "x"}"#]]
            ),
            ""
        );
    }

    #[test]
    fn mementos_may_be_on_another_server() {
        let query = Query::parse([("url", "http://a.com/")], None).unwrap();
        let mut timemap = TimeMap::new(&Arc::new(query), BaseUrl::at("", "c", None), String::new());
        timemap.format = Some("http://r/{timestamp}mp_/{url}".to_owned());
        let mut out = String::new();
        for line in [A, C] {
            timemap.take(
                &[Row::new(Bytes::from_static(line.as_bytes())).unwrap()],
                &mut out,
            );
        }
        timemap.finish(&mut out);
        let expected = "<http://r/20140101000000mp_/http://a.com/>; rel=\"first memento\"; \
            datetime=\"Wed, 01 Jan 2014 00:00:00 GMT\"; collection=\"north\",\n\
            <http://r/20160101000000mp_/http://a.com/>; rel=\"last memento\"; \
            datetime=\"Fri, 01 Jan 2016 00:00:00 GMT\"\n";
        assert_eq!(out, expected);
    }

    #[test]
    fn timemap_of_many_urls_has_no_original() {
        let text = written(&[("url", "a.com/*")], &[&[A, C]]);
        assert!(
            !text.contains("original") && !text.contains("timegate"),
            "{text}"
        );
        assert_eq!(text.matches("\"memento\"").count(), 1, "{text}");
    }
}
