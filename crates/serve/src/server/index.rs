//! `/<coll>/index`.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::body::Body;
use super::output::{Writer, refusal, respond, rows_as_text, with_errors, with_ignored};
use super::reply::json;
use super::timemap::{self, TimeMap};
use super::{RequestTarget, only_read};
use crate::collection::{Failure, Pages};
use crate::group::Report;
use crate::query::{Output, Query};

pub(super) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    match parameters(request.uri().query().unwrap_or(""), asked) {
        Ok(query) => with_ignored(answer_to(asked, request, &query).await, &query),
        Err(failure) => refusal(&failure),
    }
}

async fn answer_to(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    query: &Arc<Query>,
) -> Response<Body> {
    let report = Report::default();
    if query.show_num_pages {
        return match asked.collection.pages(query, &report).await {
            Ok(pages) => with_errors(number_of(pages), &report),
            Err(failure) => with_errors(refusal(&failure), &report),
        };
    }
    let rows = match asked.collection.rows(query, &report).await {
        Ok(rows) => rows,
        Err(failure) => return with_errors(refusal(&failure), &report),
    };
    if query.output == Output::Link {
        let timemap = TimeMap::of_index(asked, request, query);
        return respond(timemap::text(rows, timemap), timemap::MEDIA, &report);
    }
    let writer = Writer::new(query.output, query.fields.clone());
    rows_as_text(rows, writer.without_source(query.no_source), &report)
}

/// The query that a query string asks.
pub(super) fn parameters(text: &str, asked: &RequestTarget<'_>) -> Result<Arc<Query>, Failure> {
    let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    let query = Query::parse(pairs, asked.point.as_deref())?;
    asked.collection.prepare(query)
}

/// How many pages there are. `blocks` is what pages are counted in, as in pywb; where that is rows, `rows` says it too.
fn number_of(pages: Pages) -> Response<Body> {
    let number = pages.count.div_ceil(pages.size);
    let mut value =
        serde_json::json!({ "pages": number, "pageSize": pages.size, "blocks": pages.count });
    if let (false, Some(members)) = (pages.of_blocks, value.as_object_mut()) {
        members.insert("rows".to_owned(), pages.count.into());
    }
    json(StatusCode::OK, &value)
}
