//! CDX server API in the dialect of the Internet Archive: `/<coll>/cdx` and its aliases.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use super::wayback::{Layout, Progress, WaybackQuery};
use crate::Federation;
use crate::collection::{Collection, Rows, next, some};
use crate::failure::Failure;
use crate::gate::Seen;
use crate::group::Report;
use crate::memory::Reservation;
use crate::query::Query;
use crate::server::body::Body;
use crate::server::output::{refusal, respond, with_errors, with_ignored};
use crate::server::reply::{JSON, page};
use crate::server::target::{RequestTarget, only_read};
use crate::shown;
use crawlspace_cdx::Field;
use crawlspace_index::row::{Row, quote};

const TEXT: &str = "text/plain; charset=utf-8";

/// Returns whether a path below a collection belongs to the CDX server API: the Internet Archive's paths, and shorter
/// aliases.
pub(crate) fn is_path(path: &str) -> bool {
    matches!(
        path,
        "cdx" | "cdx/search/cdx" | "search/cdx" | "web/timemap/cdx" | "timemap/cdx"
    )
}

/// Returns the collection and path of a CDX request without a collection name, on a server with a single collection.
pub(crate) fn at_root<'a>(
    federation: &'a Federation,
    path: &'a str,
) -> Option<(&'a Arc<Collection>, &'a str)> {
    let path = path.strip_prefix('/')?;
    match &federation.collections[..] {
        [only] if is_path(path) => Some((only, path)),
        _ => None,
    }
}

pub(crate) async fn answer(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
) -> Response<Body> {
    answer_in(asked, request, &shown::COLUMNS, true).await
}

/// Answers with these columns unless the request names others. If `is_named`, JSON begins with the column names.
pub(crate) async fn answer_in(
    asked: &RequestTarget<'_>,
    request: &Request<Incoming>,
    columns: &[&str],
    is_named: bool,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    let text = request.uri().query().unwrap_or("");
    let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    let read = WaybackQuery::parse(pairs, asked.point.as_deref(), columns).map_err(Failure::Query);
    let prepared = read.and_then(|read| Ok((asked.collection.prepare(read.query)?, read.layout)));
    match prepared {
        Ok((query, mut layout)) => {
            layout.is_named = is_named;
            with_ignored(answer_to(asked, &query, layout).await, &query)
        }
        Err(failure) => refusal(&failure),
    }
}

async fn answer_to(
    asked: &RequestTarget<'_>,
    query: &Arc<Query>,
    layout: Layout,
) -> Response<Body> {
    let report = Report::default();
    match answer_with(asked, query, layout, &report).await {
        Ok(response) => response,
        Err(failure) => with_errors(refusal(&failure), &report),
    }
}

async fn answer_with(
    asked: &RequestTarget<'_>,
    query: &Arc<Query>,
    layout: Layout,
    report: &Report,
) -> Result<Response<Body>, Failure> {
    let collection = asked.collection;
    if query.show_num_pages {
        let pages = collection.pages(query, report).await?;
        let number = pages.count.div_ceil(pages.size);
        let number = page(StatusCode::OK, TEXT, format!("{number}\n"));
        return Ok(with_errors(number, report));
    }
    let media = if layout.json { JSON } else { TEXT };
    let mut rows = collection.rows(query, report).await?;
    if layout.is_reversed {
        rows = reversed(rows).await?;
    }
    // Clients recognize the page after the last one by its empty body. A page of blocks without matching rows is not
    // the last one, so its body must not be empty.
    if layout.json && query.page.is_some() {
        rows = match some(rows).await? {
            Some(rows) => rows,
            None if collection.has_blocks(query).await => stream::empty().boxed(),
            None => return Ok(with_errors(page(StatusCode::OK, media, ""), report)),
        };
    }
    Ok(respond(text(rows, Writer::new(layout)), media, report))
}

/// Returns the rows in reverse order.
async fn reversed(mut rows: Rows) -> Result<Rows, Failure> {
    let (mut all, mut kept) = (Vec::new(), Reservation::default());
    while let Some(batch) = next(&mut rows).await? {
        all.extend(kept.rows(&batch)?);
    }
    all.reverse();
    let rows = stream::once(async move {
        // Holds the memory reservation until the rows are written.
        let _kept = kept;
        Ok(Seen::again(all))
    });
    Ok(rows.boxed())
}

/// Formats rows as text.
fn text(rows: Rows, writer: Writer) -> BoxStream<'static, Result<Bytes, Failure>> {
    let parts = stream::unfold(Some((rows, writer)), |state| async move {
        let (mut rows, mut writer) = state?;
        match rows.next().await {
            Some(Ok(batch)) => {
                let mut out = Vec::with_capacity(batch.len() * 128);
                if writer.rows(&batch, &mut out) {
                    Some((Ok(out.into()), Some((rows, writer))))
                } else {
                    writer.finish(&mut out);
                    Some((Ok(out.into()), None))
                }
            }
            Some(Err(failure)) => Some((Err(failure), None)),
            None => {
                let mut out = Vec::new();
                writer.finish(&mut out);
                Some((Ok(out.into()), None))
            }
        }
    });
    parts.boxed()
}

/// Writes the rows of an answer.
struct Writer {
    columns: Vec<(String, Field)>,
    json: bool,
    /// Begins JSON with the column names.
    is_named: bool,
    /// Number of rows that may still be written.
    left: u64,
    /// Set if there are more rows than the limit.
    is_cut: bool,
    show_resume_key: bool,
    progress: Progress,
    /// Set once something was written.
    begun: bool,
}

impl Writer {
    fn new(layout: Layout) -> Writer {
        Writer {
            columns: layout.columns,
            json: layout.json,
            is_named: layout.is_named,
            left: layout.limit.unwrap_or(u64::MAX),
            is_cut: false,
            show_resume_key: layout.show_resume_key,
            progress: Progress::after(layout.after),
            begun: false,
        }
    }

    /// Appends rows. Returns `false` once the limit is reached.
    fn rows(&mut self, batch: &[Row], into: &mut Vec<u8>) -> bool {
        for row in batch {
            if !self.progress.admits(row) {
                continue;
            }
            if self.left == 0 {
                self.is_cut = true;
                return false;
            }
            if self.row(row, into) {
                self.left -= 1;
                if self.show_resume_key {
                    self.progress.note(row);
                }
            }
        }
        true
    }

    /// Appends a row if its JSON is valid.
    fn row(&mut self, row: &Row, into: &mut Vec<u8>) -> bool {
        let Some(line) = row.capture() else {
            return false;
        };
        if self.json {
            self.separate(into);
        }
        for (n, (_, field)) in self.columns.iter().enumerate() {
            let value = shown::value(&line, field);
            if n > 0 {
                into.extend_from_slice(if self.json { b", " } else { b" " });
            }
            if self.json {
                quote(&value, into);
            } else {
                into.extend_from_slice(String::from_utf8_lossy(&value).as_bytes());
            }
        }
        into.push(if self.json { b']' } else { b'\n' });
        true
    }

    /// Appends the separator before an array; before the first one, the start of JSON and, if wanted, the column names.
    fn separate(&mut self, into: &mut Vec<u8>) {
        let is_first = !std::mem::replace(&mut self.begun, true);
        if is_first {
            into.push(b'[');
        }
        if is_first && self.is_named {
            into.push(b'[');
            for (n, (name, _)) in self.columns.iter().enumerate() {
                into.extend_from_slice(if n == 0 { b"" } else { b", " });
                quote(name.as_bytes(), into);
            }
            into.push(b']');
        }
        into.extend_from_slice(if is_first && !self.is_named {
            b"["
        } else {
            b",\n["
        });
    }

    /// Appends the end of the answer, with a resume key if there are more rows and the client asked for one.
    fn finish(&mut self, into: &mut Vec<u8>) {
        let key = self
            .progress
            .key()
            .filter(|_| self.is_cut && self.show_resume_key);
        let key = key.map(|key| key.text());
        match key {
            Some(key) if self.json => {
                into.extend_from_slice(format!(",\n[],\n[\"{key}\"]]\n").as_bytes());
            }
            Some(key) => into.extend_from_slice(format!("\n{key}\n").as_bytes()),
            None if !self.json => {}
            None => into.extend_from_slice(if self.begun { b"]\n" } else { b"[]\n" }),
        }
    }
}
