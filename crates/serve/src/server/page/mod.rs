//! The web page at `/`: collections, the state of their sources, and a search for captures.
//!
//! The page works without scripts, and its content policy forbids them. All links are relative, so that a proxy can
//! mount the page at any path.

mod calendar;
mod search;

use std::borrow::Cow;
use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use self::calendar::Span;
use self::search::{Search, SearchError};
use super::body::Body;
use super::reply::fresh;
use super::reply::{message, page};
use super::state::{Seen, look};
use crate::Federation;
use crate::breaker::BreakerState;
use crate::figures::Durations;

/// Content security policy: styles and images of this server only, no scripts, no frames.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Maximum number of sources listed.
const LISTED: usize = 500;

/// Answers with the page and the results of a search.
pub(crate) async fn answer(federation: &Arc<Federation>, query: &str) -> Response<Body> {
    let pairs = url::form_urlencoded::parse(query.as_bytes());
    let (mut coll, mut url, mut when) = (Cow::default(), Cow::default(), Cow::default());
    let mut skip = Cow::default();
    for (name, value) in pairs {
        match &*name {
            "coll" => coll = value,
            "url" => url = value,
            "when" => when = value,
            "skip" => skip = value,
            _ => {}
        }
    }
    let url = url.trim();
    let span = Span::parse(&when);
    let search = Search {
        collection: &coll,
        url,
        span: span.clone().unwrap_or_default(),
        // An invalid number is treated as 0: nothing is skipped.
        skip: skip.parse().unwrap_or(0),
    };
    let (status, result) = match (url.is_empty(), span) {
        (true, _) => (StatusCode::OK, html! {}),
        (false, None) => refused(SearchError {
            status: StatusCode::BAD_REQUEST,
            why: format!("when={when}: must be a year (4 digits), a month (6) or a day (8)"),
        }),
        (false, Some(_)) => match search.ask(federation).await {
            Ok(found) => (StatusCode::OK, found.show(&search, federation)),
            Err(error) => refused(error),
        },
    };
    let sources = look(federation).await;
    let body = html! {
        (form(federation, &search))
        (result)
        (collections(sources.as_deref()))
    };
    shown(status, &whole(&body, "./"))
}

/// Returns a "not found" page.
pub(crate) fn not_found(path: &str, text: &str) -> Response<Body> {
    // The path of the request may be deeper than the path of the page.
    let depth = path.bytes().skip(1).filter(|byte| *byte == b'/').count();
    let root = match depth {
        0 => "./".to_owned(),
        depth => "../".repeat(depth),
    };
    let body = html! {
        h2 { "Not found" }
        p class="error" role="alert" { (text) }
        p { a href=(root) { "Collections and search" } }
    };
    shown(StatusCode::NOT_FOUND, &whole(&body, &root))
}

fn shown(status: StatusCode, whole: &Markup) -> Response<Body> {
    let text = whole.0.clone();
    let mut response = fresh(page(status, "text/html; charset=utf-8", text));
    guard(&mut response);
    response
}

/// Answers `/static/…`.
pub(crate) fn file(name: &str) -> Response<Body> {
    let (media, text) = match name {
        "page.css" => ("text/css; charset=utf-8", include_str!("page.css")),
        "icon.svg" => ("image/svg+xml", include_str!("icon.svg")),
        _ => {
            let text = format!("there is no /static/{name}");
            return message(StatusCode::NOT_FOUND, &text);
        }
    };
    let mut response = page(StatusCode::OK, media, text);
    let hour = HeaderValue::from_static("max-age=3600");
    response.headers_mut().insert(header::CACHE_CONTROL, hour);
    guard(&mut response);
    response
}

fn guard(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let policy = HeaderValue::from_static(POLICY);
    headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    let none = HeaderValue::from_static("no-referrer");
    headers.insert(header::REFERRER_POLICY, none);
}

/// Returns a page with that body, whose links start with `root`.
fn whole(body: &Markup, root: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Crawlspace" }
                link rel="icon" href={ (root) "static/icon.svg" } type="image/svg+xml";
                link rel="stylesheet" href={ (root) "static/page.css" };
            }
            body {
                header { h1 { a href=(root) { "Crawlspace" } } }
                main { (body) }
            }
        }
    }
}

fn refused(error: SearchError) -> (StatusCode, Markup) {
    let text = html! { p class="error" role="alert" { (error.why) } };
    (error.status, text)
}

fn form(federation: &Federation, search: &Search<'_>) -> Markup {
    html! {
        form action="./" method="get" role="search" {
            label for="coll" { "Collection" }
            select id="coll" name="coll" {
                @for collection in &federation.collections {
                    @let name = &*collection.name;
                    option value=(name) selected[name == search.collection] { (name) }
                }
            }
            label for="url" { "URL" }
            input id="url" name="url" value=(search.url) required placeholder="example.com or example.com/*"
                autocapitalize="none" autocomplete="off" spellcheck="false";
            button { "Search" }
        }
    }
}

fn collections(sources: Option<&[Seen]>) -> Markup {
    let Some(sources) = sources else {
        return html! {
            p class="note" { "Checking all sources takes too long: a file system may be hanging." }
        };
    };
    html! {
        section aria-labelledby="collections" {
            h2 id="collections" { "Collections" }
            div class="wide" tabindex="0" role="region" aria-labelledby="collections" {
                table {
                    thead {
                        tr {
                            th scope="col" { "Collection" }
                            th scope="col" { "Source" }
                            th scope="col" { "Type" }
                            th scope="col" { "State" }
                            th scope="col" class="number" { "Asked" }
                            th scope="col" class="number" { "Errors" }
                            th scope="col" class="number" { "Median time" }
                        }
                    }
                    tbody { @for (index, seen) in sources.iter().take(LISTED).enumerate() {
                        @let before = index.checked_sub(1).and_then(|before| sources.get(before));
                        @let first = before.is_none_or(|before| !Arc::ptr_eq(&before.collection, &seen.collection));
                        (source(seen, first))
                    } }
                }
            }
            @if sources.len() > LISTED {
                p class="note" { (counted((sources.len() - LISTED) as u64, "more source")) "." }
            }
        }
    }
}

fn source(seen: &Seen, first: bool) -> Markup {
    let figures = &seen.member.figures;
    // Skipped requests do not count as errors.
    let asked = figures.errors().filter(|(word, _)| *word != "skipped");
    let errors: u64 = asked.map(|(_, count)| count).sum();
    let (class, state) = match (seen.breaker, &seen.health) {
        (BreakerState::Open(left), _) => (
            "bad",
            format!(
                "failed too often; not queried for {} s",
                left.as_secs().saturating_add(1)
            ),
        ),
        // Details, with paths and hosts, are only shown in the status.
        (_, Err(_)) => ("bad", "unavailable".to_owned()),
        (BreakerState::Trying, Ok(())) => ("", "failed too often; being tried again".to_owned()),
        (BreakerState::Closed, Ok(())) if figures.is_failing() => {
            ("bad", "failed at the last query".to_owned())
        }
        (BreakerState::Closed, Ok(())) if figures.requests() == 0 => {
            ("note", "not queried so far".to_owned())
        }
        (BreakerState::Closed, Ok(())) => ("good", "ok".to_owned()),
    };
    html! {
        tr {
            @if first { th scope="row" { (seen.collection.name) } } @else { td {} }
            td { (seen.member.name) }
            td { (seen.member.kind) }
            td class=(class) { (state) }
            td class="number" { (figures.requests()) }
            td class="number" { (errors) }
            td class="number" { (median(figures.durations())) }
        }
    }
}

/// Formats the upper bound of the median duration, if it is known.
fn median(durations: &Durations) -> String {
    match durations.quantile(0.5) {
        Some(half) => format!("≤ {} ms", half.as_secs_f64() * 1000.0),
        None if durations.count() > 0 => "> 30 s".to_owned(),
        None => String::new(),
    }
}

/// Formats a count: `1 capture`, `2 captures`.
fn counted(count: u64, what: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {what}{s}")
}
