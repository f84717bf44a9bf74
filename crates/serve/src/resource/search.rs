//! The search for a record: of a URL, of the first row for which there is one.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;

use super::attempts::Attempts;
use super::capture::Capture;
use super::client_request::ClientRequest;
use super::record::{LoadError, Record};
use super::revisit::Originals;
use super::stored::header::Fields;
use super::{Resources, live, note};
use crate::Federation;
use crate::collection::{Collection, Failure, Step};
use crate::config::Loader;
use crate::gate::{Reader, Released, Withheld};
use crate::group::Report;
use crate::query::{Output, Query};
use crawlspace_archive::row::Row;
use crawlspace_archive::sorted::Order;
use crawlspace_archive::timestamp::Timestamp;
use crawlspace_cdx::surt::urlkey;

/// Maximum number of rows tried.
const MAX_TRIES: u64 = 100;
/// Timeout until a record is found.
const TIMEOUT: Duration = Duration::from_secs(120);
/// What comes of a search.
pub(crate) struct Search {
    /// The sources that did not answer.
    pub report: Report,
    /// What was found.
    pub outcome: Outcome,
}

/// What is found.
pub(crate) enum Outcome {
    /// The first row that has a record.
    Found(Box<Found>),
    /// An access rule blocks the record of the first row, or has a public message where there is none.
    Blocked(Option<String>),
    /// No row has one; what was tried.
    Nothing(Attempts),
    /// The index cannot be asked.
    Failed(Failure),
}

/// A record, and the row that it is of.
pub(crate) struct Found {
    /// The row.
    pub row: Row,
    /// Its record.
    pub record: Released<Record>,
    /// The source that the record came from.
    pub source: String,
}

/// Loads a record.
struct RecordSearch<'a> {
    federation: &'a Federation,
    collection: &'a Arc<Collection>,
    query: &'a Arc<Query>,
    message: &'a ClientRequest,
    report: Report,
    tried: Attempts,
}

/// What is asked of the index by a query string, for a request that is to be sent on.
///
/// # Errors
/// When a parameter is invalid, or the body of the request cannot be read.
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
    // Programs that replay ask this alone.
    Arc::make_mut(&mut query).fuzzy.get_or_insert(true);
    Ok(query)
}

/// Searches for the record of the first row that has one.
pub(crate) async fn search(
    federation: &Federation,
    collection: &Arc<Collection>,
    query: &Arc<Query>,
    message: &ClientRequest,
) -> Search {
    let mut search = RecordSearch {
        federation,
        collection,
        query,
        message,
        report: Report::default(),
        tried: Attempts::default(),
    };
    // What it may have to do is too much for the future of a connection to hold all of it.
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

/// What access rules say of captures of the URL that is looked for.
fn public_message(collection: &Collection, query: &Query) -> Option<String> {
    let moment = match query.order {
        Order::Closest(moment) => moment,
        _ => Timestamp::now(),
    };
    let urlkey = urlkey(&query.url).ok()?;
    let message = collection.gate.public_message(urlkey.as_bytes(), moment)?;
    Some(message.to_owned())
}

impl RecordSearch<'_> {
    async fn run(&mut self) -> Result<Option<Outcome>, Failure> {
        // A query for one second names one record: a redirect among the rows is that record, and is not skipped.
        let names_one_moment = self.query.from.is_some() && self.query.from == self.query.to;
        for step in &self.collection.steps {
            let mut rows = self.collection.step(step, self.query, &self.report).await?;
            while let Some(batch) = rows.next().await.transpose()? {
                for row in batch {
                    if self.tried.rows() >= MAX_TRIES {
                        return Ok(None);
                    }
                    if self.collection.gate.blocks_record(&row) {
                        return Ok(Some(Outcome::Blocked(None)));
                    }
                    let Ok(capture) = Capture::of(&row) else {
                        self.tried.add(
                            None,
                            None,
                            &LoadError::Unfit("the row is not valid".to_owned()),
                        );
                        continue;
                    };
                    let Some(record) = self.load(step, &capture).await else {
                        continue;
                    };
                    if names_one_moment || !capture.sends_on_to_itself(&record) {
                        let source = record.source.clone().unwrap_or(capture.source.clone());
                        let reader = Reader::of(self.query);
                        let gate = &self.collection.gate;
                        let is_elsewhere = capture.is_live() || capture.upstream.is_some();
                        let record = match gate.release(record, &row, is_elsewhere, reader).await {
                            Ok(record) => record,
                            Err(Withheld::Blocked) => return Ok(Some(Outcome::Blocked(None))),
                            Err(Withheld::Unknown(error)) => return Err(error.into()),
                            Err(Withheld::Hidden) => {
                                let what = "the record of this capture is not there";
                                let missing = LoadError::Missing(what.to_owned());
                                self.tried.add(Some(&capture), None, &missing);
                                continue;
                            }
                        };
                        return Ok(Some(Outcome::Found(Box::new(Found {
                            row,
                            record,
                            source,
                        }))));
                    }
                    self.tried
                        .add(Some(&capture), None, &LoadError::SelfRedirect);
                }
            }
        }
        Ok(None)
    }

    /// The record of a row, by the first loader that has it.
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
                (true, _) => "the row has a live_url, and $live is not among the loaders",
                (_, true) => "the row names a file, and no loader of files is there",
                _ => "the row says neither live_url nor filename and offset",
            };
            self.tried
                .add(Some(capture), None, &LoadError::Unfit(what.to_owned()));
        }
        None
    }

    async fn read(
        &self,
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
        };
        let resolve: BoxFuture<'_, _> = Box::pin(originals.resolve(capture, stored));
        resolve.await
    }
}
