//! The read API of OutbackCDX, for pywb and OpenWayback: `/<coll>?url=…` and `/<coll>?q=type:urlquery …`.

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response};
use hyper::body::Incoming;
use percent_encoding::percent_decode_str;

use super::cdx;
use super::wayback::WaybackQuery;
use crate::collection::Rows;
use crate::failure::Failure;
use crate::group::Report;
use crate::query::BadQuery;
use crate::server::body::Body;
use crate::server::output::{refusal, respond, with_errors, with_ignored};
use crate::server::target::{RequestTarget, only_read};
use crate::shown;
use crate::words::words;
use crawlspace_cdx::Field;
use crawlspace_cdx::surt::MatchType;
use crawlspace_index::row::Row;
use crawlspace_index::timestamp::Timestamp;

/// Columns of a line: those of an 11-column CDX file.
const COLUMNS: [&str; 11] = words(
    "urlkey timestamp original mimetype statuscode digest redirect robotflags length offset filename",
);
const XML: &str = "application/xml; charset=utf-8";
/// Default number of captures of an OpenWayback query.
const RESULTS: &str = "10000";

/// XML elements of a capture, and the fields that they contain.
const ELEMENTS: [(&str, Field); 11] = [
    ("compressedoffset", Field::Offset),
    // Despite the name of this element, clients read its value as the length.
    ("compressedendoffset", Field::Length),
    ("mimetype", Field::Mime),
    ("file", Field::Filename),
    ("redirecturl", Field::Redirect),
    ("urlkey", Field::Urlkey),
    ("digest", Field::Digest),
    ("httpresponsecode", Field::Status),
    ("robotflags", Field::Robotflags),
    ("url", Field::Url),
    ("capturedate", Field::Timestamp),
];

/// Returns whether a request to the path of a collection is a query.
pub(crate) fn is_asked(request: &Request<Incoming>) -> bool {
    let query = request.uri().query().unwrap_or("").as_bytes();
    url::form_urlencoded::parse(query).any(|(name, _)| name == "url" || name == "q")
}

pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let query = request.uri().query().unwrap_or("").as_bytes();
    let mut pairs = url::form_urlencoded::parse(query);
    match pairs.find(|(name, _)| name == "q") {
        Some((_, words)) => captures(asked, &words).await,
        None => cdx::answer_in(asked, request, &COLUMNS, false).await,
    }
}

/// Answers an OpenWayback query.
async fn captures(asked: &RequestTarget<'_>, words: &str) -> Response<Body> {
    let report = Report::default();
    let found = async {
        let read = parsed(words, asked.point.as_deref())?;
        let (first, limit) = (read.query.offset, read.layout.limit.unwrap_or(0));
        let by_url = read.query.match_type != MatchType::Exact;
        let query = asked.collection.prepare(read.query)?;
        let rows = asked.collection.rows(&query, &report).await?;
        let key = query
            .keys
            .from
            .strip_suffix(b" ")
            .unwrap_or(&query.keys.from);
        let mut head =
            String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<wayback>\n<request>");
        let moment = |given: Option<Timestamp>, otherwise: &str| {
            given.map_or_else(|| otherwise.to_owned(), |moment| moment.to_string())
        };
        for (name, value) in [
            ("startdate", moment(query.from, "19960101000000")),
            ("enddate", moment(query.to, "29991231235959")),
            (
                "type",
                if by_url { "prefixquery" } else { "urlquery" }.to_owned(),
            ),
            ("firstreturned", first.to_string()),
            ("url", String::from_utf8_lossy(key).into_owned()),
            ("resultsrequested", limit.to_string()),
            (
                "resultstype",
                if by_url {
                    "resultstypeurl"
                } else {
                    "resultstypecapture"
                }
                .to_owned(),
            ),
        ] {
            element(name, value.as_bytes(), &mut head);
        }
        head.push_str("</request>\n<results>\n");
        let response = respond(xml(head, rows, by_url), XML, &report);
        Ok::<_, Failure>(with_ignored(response, &query))
    };
    match found.await {
        Ok(response) => response,
        Err(failure) => with_errors(refusal(&failure), &report),
    }
}

/// Parses `type:urlquery url:http%3A%2F%2Fexample.com%2F limit:10`.
fn parsed(words: &str, point: Option<&str>) -> Result<WaybackQuery, BadQuery> {
    let mut pairs = vec![
        ("limit", RESULTS.to_owned()),
        ("matchType", "exact".to_owned()),
    ];
    for word in words.split_whitespace() {
        let (name, value) = word.split_once(':').unwrap_or((word, ""));
        let value = value.replace('+', " ");
        let value = percent_decode_str(&value).decode_utf8_lossy().into_owned();
        match name {
            "type" => {
                let matches = match &*value {
                    "urlquery" => "exact",
                    "prefixquery" => "prefix",
                    _ => {
                        let what = format!("q: type:{value}: must be urlquery or prefixquery");
                        return Err(BadQuery(what));
                    }
                };
                pairs.push(("matchType", matches.to_owned()));
            }
            "url" => pairs.push(("url", value)),
            "limit" | "count" => pairs.push(("limit", value)),
            "offset" => pairs.push(("offset", value)),
            "startdate" => pairs.push(("from", value)),
            "enddate" => pairs.push(("to", value)),
            _ => {}
        }
    }
    let pairs = pairs.iter().map(|(name, value)| (*name, &value[..]));
    let read = WaybackQuery::parse(pairs, point, &COLUMNS)?;
    if read.layout.is_reversed {
        return Err(BadQuery(
            "q: limit: must be a number of at least 0".to_owned(),
        ));
    }
    Ok(read)
}

/// Formats rows as XML between `head` and the closing elements.
fn xml(head: String, rows: Rows, by_url: bool) -> BoxStream<'static, Result<Bytes, Failure>> {
    let mut url = None;
    let ended = rows.map(Some).chain(stream::once(async { None }));
    let results = ended.map(move |batch| {
        let mut out = String::new();
        match batch {
            Some(batch) if by_url => {
                for row in &batch? {
                    UrlResult::take(&mut url, row, &mut out);
                }
            }
            Some(batch) => batch?.iter().for_each(|row| result(row, &mut out)),
            None => url
                .take()
                .iter()
                .for_each(|url: &UrlResult| url.write(&mut out)),
        }
        Ok(out.into())
    });
    let first = stream::once(async { Ok(head.into()) });
    let last = stream::once(async { Ok("</results>\n</wayback>\n".into()) });
    // After an error, the closing elements are omitted, so that the document is visibly incomplete.
    let all =
        first
            .chain(results)
            .chain(last)
            .scan(false, |failed, part: Result<Bytes, Failure>| {
                let goes_on = !*failed;
                *failed |= part.is_err();
                std::future::ready(goes_on.then_some(part))
            });
    all.boxed()
}

fn result(row: &Row, out: &mut String) {
    let Some(line) = row.capture() else { return };
    out.push_str("<result>");
    for (name, field) in &ELEMENTS {
        element(name, &shown::value(&line, field), out);
    }
    out.push_str("</result>\n");
}

/// Aggregates consecutive captures of one URL.
struct UrlResult {
    urlkey: Vec<u8>,
    url: Vec<u8>,
    count: u64,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl UrlResult {
    /// Counts a capture. At the first capture of the next URL, writes the previous URL.
    fn take(current: &mut Option<UrlResult>, row: &Row, out: &mut String) {
        let Some(line) = row.capture() else { return };
        let moment = shown::value(&line, &Field::Timestamp).into_owned();
        match current {
            Some(url) if url.urlkey == row.urlkey() => {
                url.count += 1;
                url.last = moment;
            }
            _ => {
                let new = UrlResult {
                    urlkey: row.urlkey().to_vec(),
                    url: shown::value(&line, &Field::Url).into_owned(),
                    count: 1,
                    first: moment.clone(),
                    last: moment,
                };
                if let Some(before) = current.replace(new) {
                    before.write(out);
                }
            }
        }
    }

    fn write(&self, out: &mut String) {
        out.push_str("<result>");
        for (name, value) in [
            ("urlkey", &self.urlkey[..]),
            ("originalurl", &self.url),
            ("numversions", self.count.to_string().as_bytes()),
            ("numcaptures", self.count.to_string().as_bytes()),
            ("firstcapturets", &self.first),
            ("lastcapturets", &self.last),
        ] {
            element(name, value, out);
        }
        out.push_str("</result>\n");
    }
}

fn element(name: &str, text: &[u8], out: &mut String) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    for c in String::from_utf8_lossy(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // XML forbids control characters and noncharacters.
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}
