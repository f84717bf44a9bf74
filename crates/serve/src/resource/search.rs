//! Searches for the record of a URL: the first row that can be loaded.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;

use super::attempts::Attempts;
use super::byte_range::ByteRange;
use super::capture::Capture;
use super::client_request::ClientRequest;
use super::record::{LoadError, Record};
use super::revisit::{Budget, Originals};
use super::stored::header::Fields;
use super::{Resources, live, note};
use crate::Federation;
use crate::collection::{Collection, Step};
use crate::config::Loader;
use crate::failure::Failure;
use crate::gate::{Reader, Released, Withheld};
use crate::group::Report;
use crate::query::{Output, Query};
use crawlspace_cdx::surt::urlkey;
use crawlspace_index::row::Row;
use crawlspace_index::sorted::Order;
use crawlspace_index::timestamp::Timestamp;

/// Maximum number of rows tried.
const MAX_TRIES: u64 = 100;
/// Timeout until a record is found.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Result of a search.
pub(crate) struct Search {
    /// Sources that did not answer.
    pub report: Report,
    /// Outcome of the search.
    pub outcome: Outcome,
}

/// Outcome of a search.
pub(crate) enum Outcome {
    /// The first row that has a record.
    Found(Box<Found>),
    /// An access rule blocks the record of the first row (`None`), or excludes all captures and has a public
    /// message (`Some`).
    Blocked(Option<String>),
    /// The search found no record; lists the attempts.
    Nothing(Attempts),
    /// The index query failed.
    Failed(Failure),
}

/// A record with its row.
pub(crate) struct Found {
    /// Row of the capture.
    pub row: Row,
    /// Record of the capture.
    pub record: Released<Record>,
    /// Name of the source that the record came from.
    pub source: String,
}

/// State of a search.
struct RecordSearch<'a> {
    federation: &'a Federation,
    collection: &'a Arc<Collection>,
    query: &'a Arc<Query>,
    message: &'a ClientRequest,
    report: Report,
    tried: Attempts,
    budget: Budget,
    /// Byte range that the client requested.
    range: Option<ByteRange>,
    /// The first record with another part of the resource, as a fallback.
    piece: Option<Outcome>,
}

/// Parses a query string for a request that may be forwarded.
///
/// # Errors
/// Fails if a parameter is invalid, or the body of the request cannot be read.
pub(crate) async fn query(
    text: &str,
    point: Option<&str>,
    collection: &Collection,
    message: &ClientRequest,
) -> Result<Arc<Query>, Failure> {
    let pairs: Vec<_> = url::form_urlencoded::parse(text.as_bytes()).collect();
    let pairs = pairs.iter().map(|(name, value)| (&name[..], &value[..]));
    let mut query = Query::parse(pairs, point)?;
    query.limit = Some(query.limit.unwrap_or(MAX_TRIES).min(MAX_TRIES));
    query.output = Output::default();
    query.fields = None;
    query.show_num_pages = false;
    message.look_up(&mut query).await?;
    let mut query = collection.prepare(query)?;
    // Replay systems query only this API, so it matches similar URLs by default.
    Arc::make_mut(&mut query).fuzzy.get_or_insert(true);
    Ok(query)
}

/// Searches for the record of the first row that has one. Among captures of parts of a resource,
/// the search prefers the part in which `range` starts.
pub(crate) async fn search(
    federation: &Federation,
    collection: &Arc<Collection>,
    query: &Arc<Query>,
    message: &ClientRequest,
    range: Option<ByteRange>,
) -> Search {
    let mut search = RecordSearch {
        federation,
        collection,
        query,
        message,
        report: Report::default(),
        tried: Attempts::default(),
        budget: Budget::new(),
        range,
        piece: None,
    };
    // Boxed, because the future is too large to be part of each connection's future.
    let run: BoxFuture<'_, _> = Box::pin(search.run());
    let found = tokio::time::timeout(TIMEOUT, run).await;
    let RecordSearch {
        report, mut tried, ..
    } = search;
    let outcome = match found {
        Ok(Ok(Some(outcome))) => outcome,
        Ok(Ok(None)) => {
            let message = public_message(collection, query).filter(|_| tried.is_empty());
            message.map_or(Outcome::Nothing(tried), |message| {
                Outcome::Blocked(Some(message))
            })
        }
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(_) => {
            tried.timed_out(TIMEOUT);
            Outcome::Nothing(tried)
        }
    };
    Search { report, outcome }
}

/// Returns the public message of access rules about captures of the URL.
fn public_message(collection: &Collection, query: &Query) -> Option<String> {
    let moment = match query.order {
        Order::Closest(moment) => moment,
        _ => Timestamp::now(),
    };
    let urlkey = urlkey(&query.url).ok()?;
    let message = collection.gate.public_message(urlkey.as_bytes(), moment)?;
    Some(message.to_owned())
}

/// Returns whether two rows are captures of one URL at the same time.
fn is_tied(a: &Row, b: &Row) -> bool {
    a.urlkey() == b.urlkey() && a.timestamp() == b.timestamp()
}

fn without_scheme(url: &str) -> &str {
    url.split_once("://").map_or(url, |(_, rest)| rest)
}

/// Returns a sort key for rows with the same timestamp: captures of the exact URL first, then complete ones.
fn misfit(row: &Row, url: &str) -> (u8, u8) {
    let own = row.field("url");
    let (own_rest, rest) = (without_scheme(&own), without_scheme(url));
    let of_url = if own == url {
        0
    } else if own_rest == rest {
        1
    } else if own_rest.eq_ignore_ascii_case(rest) {
        2
    } else {
        3
    };
    let of_status = match row.field("status").as_bytes() {
        b"200" => 0,
        b"206" => 3,
        [b'2', ..] => 1,
        b"" | b"-" => 2,
        [b'3', ..] => 4,
        _ => 5,
    };
    (of_url, of_status)
}

impl RecordSearch<'_> {
    async fn run(&mut self) -> Result<Option<Outcome>, Failure> {
        for step in &self.collection.steps {
            let mut rows = self.collection.step(step, self.query, &self.report).await?;
            let mut batch = Vec::new().into_iter();
            let mut tied: Vec<Row> = Vec::new();
            loop {
                let mut row = batch.next();
                while row.is_none() {
                    let Some(more) = rows.next().await.transpose()? else {
                        break;
                    };
                    batch = more.into_iter().collect::<Vec<_>>().into_iter();
                    row = batch.next();
                }
                let next = match row {
                    Some(row) if tied.first().is_none_or(|first| is_tied(first, &row)) => {
                        tied.push(row);
                        continue;
                    }
                    next => next,
                };
                if let Some(outcome) = self.first_of(step, &mut tied).await? {
                    return Ok(Some(outcome));
                }
                if self.tried.rows() >= MAX_TRIES {
                    return Ok(self.piece.take());
                }
                match next {
                    Some(row) => tied.push(row),
                    None => break,
                }
            }
        }
        Ok(self.piece.take())
    }

    /// Returns the outcome of the first row with a record, from rows of the same time, best match first.
    async fn first_of(
        &mut self,
        step: &Step,
        tied: &mut Vec<Row>,
    ) -> Result<Option<Outcome>, Failure> {
        if tied.len() > 1 {
            tied.sort_by_cached_key(|row| misfit(row, &self.query.url));
        }
        for row in tied.drain(..) {
            if self.tried.rows() >= MAX_TRIES {
                break;
            }
            if let Some(outcome) = self.of_row(step, row).await? {
                return Ok(Some(outcome));
            }
        }
        Ok(None)
    }

    async fn of_row(&mut self, step: &Step, row: Row) -> Result<Option<Outcome>, Failure> {
        // A query for a single second requests exactly that record, even if it redirects to its own
        // URL.
        let names_one_moment = self.query.from.is_some() && self.query.from == self.query.to;
        if self.collection.gate.blocks_record(&row) {
            return Ok(Some(Outcome::Blocked(None)));
        }
        let Ok(capture) = Capture::of(&row) else {
            let unfit = LoadError::Unfit("the row is not valid".to_owned());
            self.tried.add(None, None, &unfit);
            return Ok(None);
        };
        let Some(record) = self.load(step, &capture).await else {
            return Ok(None);
        };
        if !names_one_moment && capture.sends_on_to_itself(&record) {
            self.tried
                .add(Some(&capture), None, &LoadError::SelfRedirect);
            return Ok(None);
        }
        let is_fit = self.range.is_none_or(|range| range.is_begun_by(&record));
        let source = record.source.clone().unwrap_or(capture.source.clone());
        let is_elsewhere = capture.is_live() || capture.upstream.is_some();
        let (gate, reader) = (&self.collection.gate, Reader::of(self.query));
        let record = match gate.release(record, &row, is_elsewhere, reader).await {
            Ok(record) => record,
            Err(Withheld::Blocked) => return Ok(Some(Outcome::Blocked(None))),
            Err(Withheld::Unknown(error)) => return Err(error.into()),
            Err(Withheld::Hidden) => {
                let what = "the record of this capture is missing";
                let missing = LoadError::Missing(what.to_owned());
                self.tried.add(Some(&capture), None, &missing);
                return Ok(None);
            }
        };
        let found = Outcome::Found(Box::new(Found {
            row,
            record,
            source,
        }));
        if is_fit {
            return Ok(Some(found));
        }
        let other = LoadError::Missing("it is a different part of the resource".to_owned());
        self.tried.add(Some(&capture), None, &other);
        self.piece.get_or_insert(found);
        Ok(None)
    }

    /// Returns the record of a row from the first loader that has it.
    async fn load(&mut self, step: &Step, capture: &Capture) -> Option<Record> {
        let (net, limits) = (&self.federation.net, &self.federation.resources.limits);
        let mut is_fit = false;
        for loader in &step.resource {
            let is_live = *loader == Loader::Live;
            let fits = if is_live {
                capture.is_live() || capture.upstream.is_some()
            } else {
                capture.extent.is_some()
            };
            if !fits {
                continue;
            }
            is_fit = true;
            let loaded = if is_live {
                live::load(net, limits, capture, self.message).await
            } else {
                self.read(step, loader, capture).await
            };
            match loaded {
                Ok(record) => return Some(record),
                Err(error) => self.tried.add(Some(capture), Some(loader), &error),
            }
        }
        if !is_fit {
            let what = match (capture.is_live(), capture.extent.is_some()) {
                (true, _) => "the row has a live_url, but $live is not among the loaders",
                (_, true) => "the row names a file, but no file loader is configured",
                _ => "the row has neither live_url nor filename and offset",
            };
            self.tried
                .add(Some(capture), None, &LoadError::Unfit(what.to_owned()));
        }
        None
    }

    async fn read(
        &mut self,
        step: &Step,
        loader: &Loader,
        capture: &Capture,
    ) -> Result<Record, LoadError> {
        let Resources { archives, .. } = &self.federation.resources;
        let Some(extent) = &capture.extent else {
            return Err(LoadError::Unfit("the row names no file".to_owned()));
        };
        let accept = |stored: &super::stored::Stored| capture.agrees_with(stored.header());
        let stored = archives
            .load(loader, extent, &self.collection.name, &accept)
            .await?;
        note(self.collection, extent, stored.deviations());
        if stored.header().kind() != b"revisit" {
            return stored.into_record();
        }
        let others = self.federation.collections.iter();
        let others = others.filter(|other| other.name != self.collection.name);
        let originals = Originals {
            archives,
            net: (&self.federation.net, &self.federation.resources.limits),
            collections: std::iter::once(self.collection).chain(others).collect(),
            loaders: &step.resource,
            reader: Reader {
                point: self.query.point.as_deref(),
                tag_filters: &[],
            },
            budget: &self.budget,
        };
        let resolve: BoxFuture<'_, _> = Box::pin(originals.resolve(capture, stored));
        resolve.await
    }
}
