//! Index API: `/<coll>/index`.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::timemap::{self, TimeMap};
use crate::collection::{Pages, some};
use crate::failure::Failure;
use crate::group::Report;
use crate::query::{Output, Query};
use crate::server::body::Body;
use crate::server::output::{Writer, refusal, respond, rows_as_text, with_errors, with_ignored};
use crate::server::reply::{JSON, message, page};
use crate::server::target::{RequestTarget, only_read};

/// Response to a query without rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoRows {
    /// 200 and an empty body, as pywb's warcserver does.
    Empty,
    /// 404, or 400 after the last page, as Common Crawl's server does.
    NotFound,
}

pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    no_rows: NoRows,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    match parameters(request.uri().query().unwrap_or(""), asked) {
        Ok(query) => {
            let report = Report::default();
            let answer = answer_to(asked, request, &query, &report, no_rows).await;
            let answer = answer.unwrap_or_else(|failure| with_errors(refusal(&failure), &report));
            with_ignored(answer, &query)
        }
        Err(failure) => refusal(&failure),
    }
}

async fn answer_to(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    query: &Arc<Query>,
    report: &Report,
    no_rows: NoRows,
) -> Result<Response<Body>, Failure> {
    if query.show_num_pages {
        let pages = asked.collection.pages(query, report).await?;
        return Ok(with_errors(number_of(pages, query.output), report));
    }
    let mut rows = asked.collection.rows(query, report).await?;
    if matches!(no_rows, NoRows::NotFound) {
        rows = match some(rows).await? {
            Some(rows) => rows,
            None => return Ok(with_errors(not_found(asked, query).await, report)),
        };
    }
    if query.output == Output::Link {
        let timemap = TimeMap::of_index(asked, request, query);
        return Ok(respond(
            timemap::text(rows, timemap),
            timemap::MEDIA,
            report,
        ));
    }
    let writer = Writer::new(query.output, query.fields.clone());
    let writer = writer.without_source(query.no_source);
    Ok(rows_as_text(rows, writer, report))
}

/// Parses a query string into a query.
pub(crate) fn parameters(text: &str, asked: &RequestTarget<'_>) -> Result<Arc<Query>, Failure> {
    let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    let query = Query::parse(pairs, asked.point.as_deref())?;
    asked.collection.prepare(query)
}

/// Answers a query without rows: with 400 for a page after the last one, and with 404 otherwise.
/// Clients that fetch page after page stop at 400. A page of blocks without matching rows is not
/// the last one, so it gets 404.
async fn not_found(asked: &RequestTarget<'_>, query: &Arc<Query>) -> Response<Body> {
    match query.page {
        Some(number @ 1..) if !asked.collection.has_blocks(query).await => {
            let text = format!(
                "page={number}: this page is after the last page; the first page is page 0"
            );
            message(StatusCode::BAD_REQUEST, &text)
        }
        _ => {
            let text = format!("No Captures found for: {}", query.url);
            message(StatusCode::NOT_FOUND, &text)
        }
    }
}

/// Returns the number of pages. As in pywb, `blocks` is the number of items on all pages. If the
/// items are rows, `rows` repeats that number. With `output=json` the media type is that of rows,
/// which clients of pywb and Common Crawl expect.
fn number_of(pages: Pages, output: Output) -> Response<Body> {
    let number = pages.count.div_ceil(pages.size);
    let mut value =
        serde_json::json!({ "pages": number, "pageSize": pages.size, "blocks": pages.count });
    if let (false, Some(members)) = (pages.of_blocks, value.as_object_mut()) {
        members.insert("rows".to_owned(), pages.count.into());
    }
    let media = match output {
        Output::Json => Writer::new(output, None).media(),
        _ => JSON,
    };
    page(StatusCode::OK, media, format!("{value}\n"))
}
