//! Sources that are Memento archives (RFC 7089).

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use crawlspace_cdx::surt::MatchType;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use http::header::{HeaderName, HeaderValue, LINK, LOCATION};
use http::{HeaderMap, Method};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::claim::Claim;
use super::rows::{Batched, rows};
use super::template::{NO_STEPS, Template, Values};
use super::whitelist::{Made, RecordLocation, Whitelist};
use crate::link_format::{Link, Links};
use crate::source::{Lookup, Rows, Source};
use crate::sources::Identity;
use crawlspace_fetch::{BodyStream, Net, Request, Response};
use crawlspace_index::sorted::Order;
use crawlspace_index::source::{Batch, Limits, SourceError};
use crawlspace_index::timestamp::Timestamp;

const ACCEPT_DATETIME: HeaderName = HeaderName::from_static("accept-datetime");
const MEMENTO_DATETIME: HeaderName = HeaderName::from_static("memento-datetime");
/// Maximum number of redirects of a TimeGate.
const MAX_REDIRECTS: usize = 10;
/// Maximum number of TimeMaps read for one answer.
const MAX_TIMEMAPS: usize = 1000;
/// Maximum nesting depth of TimeMaps.
const MAX_DEPTH: usize = 4;
/// Maximum number of rows in a batch; a batch ends earlier if the next row is not available yet.
const BATCH: usize = 512;

/// A Memento archive with TimeGates and TimeMaps.
///
/// Captures in order of their distance from a timestamp come from the TimeGate, which returns the closest one and a few
/// others; otherwise the TimeMap lists all captures. Only queries for a single URL are supported.
pub struct MementoSource {
    net: Arc<Net>,
    identity: Identity,
    timegate: Template,
    timemap: Template,
    replay: Template,
}

impl MementoSource {
    /// Creates a source with these three URLs.
    pub(crate) fn new(
        net: Arc<Net>,
        identity: Identity,
        timegate_url: &str,
        timemap_url: &str,
        replay_url: &str,
    ) -> MementoSource {
        MementoSource {
            net,
            identity,
            timegate: Template::new(timegate_url),
            timemap: Template::new(timemap_url),
            replay: Template::new(replay_url),
        }
    }

    async fn ask(&self, lookup: &Arc<Lookup>) -> Result<Rows, SourceError> {
        let query = &*lookup.query;
        if query.match_type != MatchType::Exact {
            let what = "a Memento archive supports queries for single URLs only";
            return Err(SourceError::Unsupported(what.to_owned()));
        }
        let reading = TimeMapReader {
            whitelist: Whitelist::new(
                query,
                self.identity.members.clone(),
                RecordLocation::Replay(self.replay.clone()),
                &lookup.collection,
            ),
            made: Made::default(),
            original: query.url.clone(),
            last: String::new(),
        };
        let url = |template: &Template| {
            let filled = template.fill(Values {
                url: &query.url,
                timestamp: "",
                collection: &lookup.collection,
            });
            let filled = filled.ok_or_else(|| SourceError::Unsupported(NO_STEPS.to_owned()))?;
            Url::parse(&filled).map_err(|error| {
                SourceError::Unsupported(format!("invalid URL of the request: {error}"))
            })
        };
        let limits = self.identity.limits;
        match lookup.order {
            Order::Closest(moment) => {
                self.timegate(url(&self.timegate)?, moment, reading, lookup)
                    .await
            }
            _ => {
                let timemaps = TimeMaps {
                    net: self.net.clone(),
                    limits,
                    from: query.from,
                    to: query.to,
                    ahead: VecDeque::from([(url(&self.timemap)?, 0)]),
                    known: HashSet::new(),
                    current: None,
                    links: Links::new(),
                    reading,
                    rows: 0,
                };
                rows(timemaps, lookup, &limits).await
            }
        }
    }

    /// Returns the captures in the response of a TimeGate.
    async fn timegate(
        &self,
        url: Url,
        moment: Timestamp,
        mut reading: TimeMapReader,
        lookup: &Lookup,
    ) -> Result<Rows, SourceError> {
        let mut request = Request {
            method: Method::HEAD,
            ..Request::get(url)
        };
        let date = HeaderValue::try_from(moment.http_date());
        let date = date.map_err(|_| {
            SourceError::Unsupported("this timestamp cannot be written as an HTTP date".to_owned())
        })?;
        request.headers.insert(ACCEPT_DATETIME, date);
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.net.send_once(&request, &self.identity.limits).await?;
            if matches!(answer.status, 405 | 501) && request.method == Method::HEAD {
                request.method = Method::GET;
                continue;
            }
            let links = links(&answer.headers);
            reading.note_original(&links);
            for link in &links {
                reading.memento(link);
            }
            let date = answer
                .headers
                .get(MEMENTO_DATETIME)
                .and_then(|date| date.to_str().ok());
            if let Some(date) = date.filter(|_| answer.status < 400) {
                reading.capture(date);
            }
            let mut batch = reading.made.take();
            if !batch.is_empty() {
                batch.sort_by(|a, b| lookup.order.compare(a, b));
                // The closest memento may also have other relations, such as first or last, and then occurs
                // several times.
                batch.dedup();
                let batches = stream::iter([Ok(batch)]).boxed();
                return Ok(Rows::whole(true, batches));
            }
            if reading.found() || answer.status == 404 {
                // The archive has captures, but outside of the requested range.
                return Ok(none());
            }
            match (answer.status, target(&answer)) {
                (301 | 302 | 303 | 307 | 308, Some(to)) => request.url = to,
                (200..=299, _) => {
                    let what = "its TimeGate names no memento";
                    return Err(SourceError::Answer(what.to_owned()));
                }
                (status, _) => return Err(SourceError::Status(status)),
            }
        }
        let what = "its TimeGate redirects more than 10 times";
        Err(SourceError::Answer(what.to_owned()))
    }
}

impl Source for MementoSource {
    fn rows(&self, lookup: Arc<Lookup>) -> BoxFuture<'_, Result<Rows, SourceError>> {
        async move { self.ask(&lookup).await }.boxed()
    }
}

fn none() -> Rows {
    Rows::whole(true, stream::empty().boxed())
}

/// Returns the links of a header.
fn links(headers: &HeaderMap) -> Vec<Link> {
    let fields = headers.get_all(LINK).into_iter();
    fields
        .flat_map(|field| Links::all(field.as_bytes()))
        .collect()
}

/// Returns the target of a redirect.
fn target(answer: &Response) -> Option<Url> {
    let location = answer.headers.get(LOCATION)?;
    answer
        .url
        .join(String::from_utf8_lossy(location.as_bytes()).trim())
        .ok()
}

/// Converts links into rows.
struct TimeMapReader {
    whitelist: Whitelist,
    made: Made,
    /// Original URL as stated by the archive.
    original: String,
    /// Timestamp of the last capture.
    last: String,
}

impl TimeMapReader {
    /// Uses the original URL as the archive writes it. The whitelist checks that both are the same URL.
    fn note_original(&mut self, links: &[Link]) {
        if let Some(link) = links.iter().find(|link| link.is("original")) {
            self.original.clone_from(&link.target);
        }
    }

    /// Adds a link if it leads to a memento.
    fn memento(&mut self, link: &Link) {
        if let Some(date) = link.attribute("datetime").filter(|_| link.is("memento")) {
            self.capture(date);
        }
    }

    fn capture(&mut self, date: &str) {
        let Some(moment) = Timestamp::from_http_date(date) else {
            return;
        };
        let timestamp = moment.to_string();
        // Skips repetitions of the last capture.
        if timestamp != self.last {
            let claim = Claim {
                timestamp: timestamp.as_str().into(),
                url: self.original.as_str().into(),
                ..Claim::default()
            };
            self.whitelist.push(&claim, &mut self.made);
            self.last = timestamp;
        }
    }

    /// Returns whether there was any capture.
    fn found(&self) -> bool {
        !self.last.is_empty()
    }
}

/// A TimeMap and the further TimeMaps that it links to.
struct TimeMaps {
    net: Arc<Net>,
    limits: Limits,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    /// TimeMaps that are still to be read, with their nesting depth.
    ahead: VecDeque<(Url, usize)>,
    known: HashSet<Url>,
    current: Option<Current>,
    links: Links,
    reading: TimeMapReader,
    rows: u64,
}

struct Current {
    url: Url,
    depth: usize,
    body: BodyStream,
}

impl TimeMaps {
    async fn read(&mut self, until: Option<Instant>) -> Result<Option<Batch>, SourceError> {
        loop {
            while let Some(link) = self.links.next() {
                let link = link.map_err(|bad| self.end(SourceError::Answer(bad.to_string())))?;
                self.take(&link);
                if self.reading.made.len() >= BATCH {
                    return self.batch().map(Some);
                }
            }
            if self.reading.made.len() > 0 {
                return self.batch().map(Some);
            }
            let Some(current) = &mut self.current else {
                let Some((url, depth)) = self.ahead.pop_front() else {
                    return Ok(None);
                };
                self.open(url, depth).await?;
                continue;
            };
            let came = match until {
                None => current.body.next().await,
                Some(until) => match timeout_at(until, current.body.next()).await {
                    Ok(came) => came,
                    Err(_) => return Ok(Some(Vec::new())),
                },
            };
            match came {
                Some(Ok(bytes)) => {
                    self.limits.bytes = self.limits.bytes.saturating_sub(bytes.len() as u64);
                    self.links.feed(&bytes);
                }
                Some(Err(error)) => return Err(self.end(error.into())),
                None => {
                    let last = self.links.finish();
                    let last =
                        last.map_err(|bad| self.end(SourceError::Answer(bad.to_string())))?;
                    if let Some(link) = last {
                        self.take(&link);
                    }
                    self.links = Links::new();
                    self.current = None;
                }
            }
        }
    }

    async fn open(&mut self, url: Url, depth: usize) -> Result<(), SourceError> {
        // Prevents cycles.
        if !self.known.insert(url.clone()) {
            return Ok(());
        }
        let mut limits = self.limits;
        if self.known.len() > 1 {
            limits.first = limits.first.max(limits.silence);
        }
        let answer = self.net.send(Request::get(url.clone()), &limits).await?;
        match answer.status {
            200 | 203 => {
                self.known.insert(answer.url.clone());
                self.current = Some(Current {
                    url: answer.url,
                    depth,
                    body: answer.body,
                });
                Ok(())
            }
            // The archive has no mementos of the URL.
            204 | 404 => Ok(()),
            status => Err(self.end(SourceError::Status(status))),
        }
    }

    fn take(&mut self, link: &Link) {
        if link.is("original") {
            self.reading.original.clone_from(&link.target);
        }
        self.reading.memento(link);
        let Some(current) = &self.current else {
            return;
        };
        if !link.is("timemap")
            || current.depth >= MAX_DEPTH
            || self.ahead.len() + self.known.len() >= MAX_TIMEMAPS
        {
            return;
        }
        // Links to other formats of the same TimeMap have another type.
        let is_links = link
            .attribute("type")
            .is_none_or(|kind| kind.starts_with("application/link-format"));
        let moment = |name: &str| link.attribute(name).and_then(Timestamp::from_http_date);
        let is_late = matches!((moment("from"), self.to), (Some(from), Some(to)) if from > to);
        let is_early =
            matches!((moment("until"), self.from), (Some(until), Some(from)) if until < from);
        if let Ok(url) = current.url.join(&link.target)
            && is_links
            && !is_late
            && !is_early
            && !self.known.contains(&url)
        {
            self.ahead.push_back((url, current.depth + 1));
        }
    }

    fn batch(&mut self) -> Result<Batch, SourceError> {
        let batch = self.reading.made.take();
        self.rows = self.rows.saturating_add(batch.len() as u64);
        if self.rows > self.limits.rows {
            let what = format!("it has more than {} rows", self.limits.rows);
            return Err(self.end(SourceError::TooLarge(what)));
        }
        Ok(batch)
    }

    /// Ends the stream: no further requests are sent.
    fn end(&mut self, error: SourceError) -> SourceError {
        self.current = None;
        self.ahead.clear();
        self.links = Links::new();
        error
    }
}

impl Batched for TimeMaps {
    fn next(
        &mut self,
        until: Option<Instant>,
    ) -> BoxFuture<'_, Result<Option<Batch>, SourceError>> {
        self.read(until).boxed()
    }
}
