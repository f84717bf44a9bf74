//! Search for captures on the page: the form, the query, and the results.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use maud::{Markup, html};
use tokio::time::{Instant, timeout_at};
use url::form_urlencoded;

use super::calendar::{Counts, Span, calendar, path};
use super::counted;
use crate::Federation;
use crate::collection::{Collection, next};
use crate::group::Report;
use crate::query::Query;
use crate::reason::Reason;
use crate::server::links::BaseUrl;
use crate::server::output::status_of;
use crawlspace_index::row::Row;
use crawlspace_index::timestamp::Timestamp;

/// Number of captures listed per page.
const PAGE_SIZE: u64 = 100;
/// Number of captures at which counting stops.
const MAX_COUNTED: u64 = 250_000;
/// Timeout of counting.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Parameters of the search form.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    pub collection: &'a str,
    pub url: &'a str,
    pub span: Span,
    /// Number of captures to skip in the list.
    pub skip: u64,
}

/// Result of a search.
pub(crate) struct SearchResult {
    /// Number of captures in each part of the span.
    counts: Counts,
    /// Listed captures.
    rows: Vec<Row>,
    total: u64,
    /// Reason why only some of the captures were counted.
    cut: Option<&'static str>,
    /// Missing sources, with reasons.
    missing: Vec<(Arc<str>, Reason)>,
}

/// The reason why a search was refused.
pub(crate) struct SearchError {
    pub status: StatusCode,
    pub why: String,
}

impl Search<'_> {
    /// Returns the URL of this search with another span.
    pub(crate) fn link(&self, span: &Span) -> String {
        self.link_beyond(span, 0)
    }

    /// Returns the URL of this search with another span, after the first `skip` captures.
    fn link_beyond(&self, span: &Span, skip: u64) -> String {
        link(self.collection, self.url, span, skip)
    }

    /// Returns a wildcard for all URLs below this one, unless the URL has a wildcard already.
    fn prefix(&self) -> Option<String> {
        let below = self.url.split(['?', '#']).next()?.trim_end_matches('/');
        let has_wildcard = self.url.starts_with("*.") || self.url.ends_with('*');
        (!has_wildcard).then(|| format!("{below}/*"))
    }

    /// Renders links to a search below this URL, and to the same search in other collections.
    fn wider(&self, federation: &Federation) -> Markup {
        let link = |collection: &str, url: &str| link(collection, url, &self.span, 0);
        let names = federation.collections.iter().map(|other| &*other.name);
        let others: Vec<&str> = names.filter(|name| *name != self.collection).collect();
        html! {
            @if let Some(prefix) = self.prefix() {
                p { "Search everything below: " a href=(link(self.collection, &prefix)) { (prefix) } }
            }
            @if !others.is_empty() {
                p { "Search in another collection:" }
                ul { @for name in others { li { a href=(link(name, self.url)) { (name) } } } }
            }
        }
    }

    /// Returns the URL of the index API for this search.
    fn rows(&self) -> String {
        let path = format!("./{}/index?", self.collection);
        let mut query = form_urlencoded::Serializer::for_suffix(path.clone(), path.len());
        self.parameters().into_iter().for_each(|(name, value)| {
            query.append_pair(name, value);
        });
        query.finish()
    }

    fn parameters(&self) -> Vec<(&'static str, &str)> {
        let mut parameters = vec![("url", self.url)];
        if !self.span.digits().is_empty() {
            parameters.extend([("from", self.span.digits()), ("to", self.span.digits())]);
        }
        parameters
    }

    /// Runs the search.
    ///
    /// # Errors
    /// Fails if the collection does not exist, or the query is invalid.
    pub(crate) async fn ask(&self, federation: &Federation) -> Result<SearchResult, SearchError> {
        let Some(collection) = federation.collection(self.collection) else {
            return Err(SearchError {
                status: StatusCode::NOT_FOUND,
                why: format!("There is no collection {:?}.", self.collection),
            });
        };
        let refused = |why: &dyn std::fmt::Display| SearchError {
            status: StatusCode::BAD_REQUEST,
            why: why.to_string(),
        };
        let query = Query::parse(self.parameters(), None).map_err(|bad| refused(&bad))?;
        let query = collection
            .prepare(query)
            .map_err(|failure| refused(&failure))?;
        let counted = self.count(collection, &query).await;
        counted.map_err(|failure| SearchError {
            status: status_of(&failure),
            why: failure.to_string(),
        })
    }

    async fn count(
        &self,
        collection: &Collection,
        query: &Arc<Query>,
    ) -> Result<SearchResult, crate::failure::Failure> {
        let report = Report::default();
        let until = Instant::now() + TIMEOUT;
        let mut found = SearchResult {
            counts: Counts::new(),
            rows: Vec::new(),
            total: 0,
            cut: None,
            missing: Vec::new(),
        };
        let slow = "the index is slow";
        match timeout_at(until, collection.rows(query, &report)).await {
            Err(_) => found.cut = Some(slow),
            Ok(rows) => {
                let mut rows = rows?;
                loop {
                    match timeout_at(until, next(&mut rows)).await {
                        Ok(Ok(Some(batch))) => {
                            batch.into_iter().for_each(|row| found.take(row, self))
                        }
                        Ok(Ok(None)) => break,
                        Ok(Err(failure)) => return Err(failure),
                        Err(_) => {
                            found.cut = Some(slow);
                            break;
                        }
                    }
                    if found.total >= MAX_COUNTED {
                        found.cut = Some("there are too many");
                        break;
                    }
                }
            }
        }
        found.missing = report.reasons();
        Ok(found)
    }
}

/// Returns the URL of a search.
fn link(collection: &str, url: &str, span: &Span, skip: u64) -> String {
    let mut query = form_urlencoded::Serializer::for_suffix("?".to_owned(), "?".len());
    query.append_pair("coll", collection);
    query.append_pair("url", url);
    if !span.digits().is_empty() {
        query.append_pair("when", span.digits());
    }
    if skip > 0 {
        query.append_pair("skip", &skip.to_string());
    }
    query.finish()
}

impl SearchResult {
    fn take(&mut self, row: Row, search: &Search<'_>) {
        self.total += 1;
        let span = &search.span;
        if let Some(part) = span.part(row.timestamp()).filter(|_| !span.is_day()) {
            *self.counts.entry(part).or_default() += 1;
        }
        if self.total > search.skip && (self.rows.len() as u64) < PAGE_SIZE {
            self.rows.push(row);
        }
    }

    /// Renders the captures and their calendar.
    pub(crate) fn show(&self, search: &Search<'_>, federation: &Federation) -> Markup {
        html! {
            section aria-labelledby="found" {
                h2 id="found" {
                    (counted(self.total, "capture")) " of "
                    span class="url" { (search.url) }
                    @if !search.span.digits().is_empty() { ", " (search.span.long()) }
                }
                @if let Some(why) = self.cut {
                    p class="note" { "Not all captures were counted: " (why) "." }
                }
                @if !self.missing.is_empty() {
                    p class="note" { "Some sources are missing from this answer:" }
                    ul class="note" {
                        @for (name, reason) in &self.missing { li { b { (name) } ": " (reason) } }
                    }
                }
                (path(&search.span, |span| search.link(span)))
                (calendar(&search.span, &self.counts, |span| search.link(span)))
                @if self.total == 0 {
                    p { "The index of " b { (search.collection) } " has no matching captures." }
                    (search.wider(federation))
                } @else {
                    (self.list(search))
                    (self.more(search))
                    p { a href=(search.rows()) { "All of these captures as rows of the index" } }
                }
            }
        }
    }

    /// Returns the caption of the list.
    fn listed(&self, search: &Search<'_>) -> String {
        let count = self.rows.len() as u64;
        match (count == self.total, count) {
            (true, _) => "Captures".to_owned(),
            (false, 0) => format!("There are no captures after the first {}", search.skip),
            (false, _) => {
                let (first, last) = (search.skip + 1, search.skip + count);
                format!(
                    "{first} to {last} of {}, in the order of the index",
                    self.total
                )
            }
        }
    }

    /// Renders links to the previous and next captures.
    fn more(&self, search: &Search<'_>) -> Markup {
        let next = search.skip + self.rows.len() as u64;
        let has_next = next < self.total && !self.rows.is_empty();
        let before = search.skip.min(self.total).saturating_sub(PAGE_SIZE);
        let link = |skip| search.link_beyond(&search.span, skip);
        html! {
            @if search.skip > 0 || has_next {
                nav class="more" aria-label="Captures" {
                    @if search.skip > 0 { a href=(link(before)) rel="prev" { "Previous " (PAGE_SIZE) } }
                    @if has_next { a href=(link(next)) rel="next" { "Next " (PAGE_SIZE.min(self.total - next)) } }
                }
            }
        }
    }

    fn list(&self, search: &Search<'_>) -> Markup {
        html! {
            div class="wide" tabindex="0" role="region" aria-label="Captures" {
                table class="captures" {
                    caption { (self.listed(search)) }
                    thead {
                        tr {
                            th scope="col" { "Time (UTC)" }
                            th scope="col" { "Get" }
                            th scope="col" { "Status" }
                            th scope="col" { "Type" }
                            th scope="col" { "Source" }
                            th scope="col" { "URL" }
                        }
                    }
                    tbody { @for row in &self.rows { (capture(row, search.collection)) } }
                }
            }
        }
    }
}

fn capture(row: &Row, collection: &str) -> Markup {
    let digits = String::from_utf8_lossy(row.timestamp());
    let [url, status, mime, source, live] =
        ["url", "status", "mime", "source", "live_url"].map(|name| row.field(name));
    let time = readable(&digits);
    let moment = Timestamp::earliest(row.timestamp());
    let base_url = BaseUrl::at(".", collection, None);
    html! {
        tr {
            td class="time" { (time) }
            td class="get" {
                @if let Some(moment) = moment {
                    a href=(base_url.memento(&url, moment)) rel="nofollow" aria-label={ "Content of " (time) } { "content" }
                    " "
                }
                a href=(base_url.resource(&record(row, &url, &digits))) rel="nofollow" aria-label={ "WARC record of " (time) } { "WARC" }
                // `live_url` comes from another server, so only `http` and `https` links are shown.
                @if live.starts_with("http://") || live.starts_with("https://") {
                    " " a href=(live) rel="noreferrer nofollow" aria-label={ "Replay of " (time) } { "replay" }
                }
            }
            td { (status) }
            td { (mime) }
            td { (source) }
            td class="url" { (url) }
        }
    }
}

/// Returns the query of the resource API for exactly this capture, even if it redirects to its own URL.
fn record(row: &Row, url: &str, digits: &str) -> String {
    // Queries have a resolution of one second.
    let digits = digits.get(..14).unwrap_or(digits);
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("url", url);
    query.append_pair("from", digits).append_pair("to", digits);
    for name in ["digest", "status"] {
        let value = row.field(name);
        if !matches!(&*value, "" | "-") {
            query.append_pair("filter", &format!("={name}:{value}"));
        }
    }
    query.finish()
}

/// Formats 14 digits as `2014-03-05 12:00:00`; others stay unchanged.
fn readable(digits: &str) -> String {
    let part = |from: usize, to: usize| digits.get(from..to);
    let parts = (
        part(0, 4),
        part(4, 6),
        part(6, 8),
        part(8, 10),
        part(10, 12),
        part(12, 14),
    );
    match parts {
        (Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second)) => {
            format!("{year}-{month}-{day} {hour}:{minute}:{second}")
        }
        _ => digits.to_owned(),
    }
}
