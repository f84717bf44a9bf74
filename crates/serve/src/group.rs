//! Queries several sources in parallel and merges their rows.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::Span;

use super::breaker::Breaker;
use super::figures::Figures;
use super::memory::Reservation;
use super::merge::{Ordered, merge};
use super::operations::SORTED;
use super::query::Query;
use super::reason::Reason;
use crate::source::{Lookup, Source};
use crawlspace_index::source::{Batch, Batches, Fault, Gaps, Limits, SourceError};

/// Minimum number of rows that are sorted on a blocking thread.
const INLINE_SORT: usize = 10_000;
/// Batch size of rows that were stored and sorted.
const BATCH: usize = 512;

/// A source with its limits, circuit breaker and metrics.
pub struct Member {
    /// Name of the source in the `source` field of rows.
    pub name: Arc<str>,
    /// Kind of the source in the `source_type` field of rows.
    pub kind: &'static str,
    /// The source.
    pub source: Arc<dyn Source>,
    /// Limits of its answers.
    pub limits: Limits,
    /// Circuit breaker, which skips the source while it keeps failing.
    pub breaker: Breaker,
    /// Metrics of its requests.
    pub figures: Figures,
}

/// Sources that are queried in parallel.
pub struct Group {
    /// Members, in the order in which the configuration lists them. Equal rows are returned in this order.
    pub members: Vec<Arc<Member>>,
}

/// The part of the sources to query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The complete rows of a query.
    All,
    /// Rows in these blocks, of a source that has blocks.
    Blocks(Range<u64>),
    /// Index rows: one for each of these blocks.
    Index(Range<u64>),
}

/// The sources missing from an answer, with reasons. Clones share their content.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    missing: Arc<Mutex<Vec<Missing>>>,
    /// True once a source answered, even if its answer had no rows.
    answered: Arc<AtomicBool>,
    /// Span of the request, for events logged after the response head was sent.
    span: Span,
}

/// The sources of a query, all of which failed, with the reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered(pub Vec<(Arc<str>, Reason)>);

impl Unanswered {
    /// Returns whether this is the only reason.
    pub(crate) fn all(&self, why: Reason) -> bool {
        self.0.iter().all(|(_, reason)| *reason == why)
    }

    /// Returns whether this is one of the reasons.
    pub(crate) fn any(&self, why: Reason) -> bool {
        self.0.iter().any(|(_, reason)| *reason == why)
    }
}

impl fmt::Display for Unanswered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no source answered")?;
        for (n, (name, reason)) in self.0.iter().enumerate() {
            let mark = if n == 0 { ":" } else { ";" };
            write!(f, "{mark} {name}: {reason}")?;
        }
        Ok(())
    }
}

/// Name of a missing source, and its error.
type Missing = (Arc<str>, SourceError);

impl Default for Report {
    fn default() -> Report {
        Report {
            missing: Arc::default(),
            answered: Arc::default(),
            span: Span::current(),
        }
    }
}

impl Report {
    /// Adds a missing source, and logs the full error for the operator.
    pub(crate) fn add(&self, name: &Arc<str>, error: SourceError) {
        // These would be logged for every query.
        if !matches!(error, SourceError::Skipped | SourceError::Indexing(_)) {
            self.span
                .in_scope(|| tracing::info!(source = &**name, %error, "a source has no answer"));
        }
        self.lock().push((Arc::clone(name), error));
    }

    /// Records that a source answered.
    pub(crate) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Returns the failed sources if no queried source answered.
    pub(crate) fn unanswered(&self) -> Option<Unanswered> {
        let mut reasons = self.reasons();
        reasons.retain(|(_, reason)| *reason != Reason::Unsupported);
        let answered = self.answered.load(Ordering::Relaxed) || reasons.is_empty();
        (!answered).then_some(Unanswered(reasons))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Missing>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of missing sources.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns whether no source is missing.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all errors, in the order of the failures. Their messages are for the operator only.
    #[cfg(test)]
    pub(crate) fn errors(&self) -> Vec<Missing> {
        self.lock().clone()
    }

    /// Returns all failures in order, with the reasons that clients may see.
    pub(crate) fn reasons(&self) -> Vec<(Arc<str>, Reason)> {
        let missing = self.lock();
        let reasons = missing
            .iter()
            .map(|(name, error)| (Arc::clone(name), error.into()));
        reasons.collect()
    }

    /// Returns the value of the header `Source-Errors`: an ASCII JSON object from source names to reasons. The first
    /// `reported` failures were already reported and are skipped; returns `None` if there are no others.
    pub(crate) fn header(&self, reported: usize) -> Option<String> {
        let reasons = self.reasons();
        let new = reasons.get(reported..).filter(|new| !new.is_empty())?;
        let members = new
            .iter()
            .map(|(name, reason)| (name.to_string(), reason.to_string().into()));
        let text = serde_json::Value::Object(members.collect()).to_string();
        Some(ascii(&text))
    }
}

/// Escapes all non-ASCII characters of JSON, for headers.
pub(crate) fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            ' '..='~' => out.push(c),
            _ => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
        }
    }
    out
}

impl Group {
    /// Queries all selected sources, and waits until each has returned its first rows, failed or timed out. Rows are
    /// merged in the order of the lookup; a source that fails later is missing from that point on.
    pub(crate) async fn ask(&self, lookup: &Arc<Lookup>, part: &Part, report: &Report) -> Ordered {
        let mut asked = self.selected(&lookup.query);
        let streams = match (asked.next(), asked.next()) {
            (Some(only), None) => vec![only.begin(lookup, part, report).await],
            _ => {
                let all = self.selected(&lookup.query);
                join_all(all.map(|member| member.begin(lookup, part, report))).await
            }
        };
        merge(streams.into_iter().flatten().collect(), lookup.order)
    }
}

impl Group {
    fn selected<'a>(&'a self, query: &'a Query) -> impl Iterator<Item = &'a Arc<Member>> {
        let members = self.members.iter();
        members.filter(|member| query.sources.includes(&member.name))
    }

    /// Returns the number of blocks that may have rows of the query, if exactly one source is selected and it has
    /// blocks; otherwise `None`.
    ///
    /// # Errors
    /// Fails if the source fails to answer.
    pub(crate) async fn blocks(
        &self,
        lookup: &Arc<Lookup>,
    ) -> Result<Option<u64>, (Arc<str>, SourceError)> {
        let mut asked = self.selected(&lookup.query);
        let (Some(only), None) = (asked.next(), asked.next()) else {
            return Ok(None);
        };
        let Some(blocks) = only.source.blocks() else {
            return Ok(None);
        };
        let counting = timeout(only.limits.first, blocks.count(Arc::clone(lookup)));
        match counting.await.unwrap_or(Err(SourceError::Timeout)) {
            Ok(count) => Ok(Some(count)),
            Err(SourceError::Unsupported(_)) => Ok(None),
            Err(error) => Err((Arc::clone(&only.name), error)),
        }
    }
}

impl Member {
    /// Returns the rows of this source, after waiting for the first ones. Returns `None` if there are none, or on
    /// failure.
    async fn begin(
        self: &Arc<Member>,
        lookup: &Arc<Lookup>,
        part: &Part,
        report: &Report,
    ) -> Option<Ordered> {
        let started = Instant::now();
        if !self.breaker.permits(started) {
            self.figures.failed(&SourceError::Skipped);
            report.add(&self.name, SourceError::Skipped);
            return None;
        }
        // Time of the last batch of the source.
        let mut came = None;
        let first = async {
            let asking = match (part, self.source.blocks()) {
                (Part::Blocks(some), Some(blocks)) => {
                    blocks.rows_of(Arc::clone(lookup), some.clone())
                }
                (Part::Index(some), Some(blocks)) => {
                    blocks.index_of(Arc::clone(lookup), some.clone())
                }
                _ => self.source.rows(Arc::clone(lookup)),
            };
            let mut rows = asking.await?;
            let batch = next(&mut rows.batches, &mut came).await?;
            match (batch, rows.ordered) {
                // Unsorted rows can only be sent once all of them have arrived.
                (Some(batch), false) => {
                    let sorted = self.sorted(batch, rows.batches, lookup, &mut came);
                    let (sorted, kept) = sorted.await?;
                    Ok((sorted, Coming::Sorted(kept), rows.gaps))
                }
                (batch, _) => {
                    let coming = Coming::Ordered(rows.batches);
                    Ok((batch.unwrap_or_default(), coming, rows.gaps))
                }
            }
        };
        let outcome = timeout(self.limits.first, first).await;
        let outcome = outcome.unwrap_or(Err(SourceError::Timeout));
        let count = match &outcome {
            Ok((batch, ..)) => batch.len() as u64,
            Err(_) => 0,
        };
        let reported = outcome.as_ref().map(|_| ());
        self.figures.record(reported, started.elapsed(), count);
        let (batch, batches, gaps) = match outcome {
            Ok(found) => found,
            Err(error) => {
                // A source that was still sending at the timeout is slow for this query, but not broken.
                if error == SourceError::Timeout && came.is_some() {
                    self.breaker.not_asked();
                } else {
                    self.judge(&error, &lookup.query);
                }
                report.add(&self.name, error);
                return None;
            }
        };
        report.answered();
        self.answers();
        self.report_gaps(gaps.as_ref(), report);
        match batches {
            _ if batch.is_empty() => None,
            Coming::Sorted(kept) => Some(kept_rows(batch, kept)),
            Coming::Ordered(batches) => {
                let rest = Rest {
                    batches,
                    gaps,
                    until: tokio::time::Instant::now() + self.limits.total,
                    silence: self.limits.silence,
                };
                Some(self.stream(batch, rest, report.clone()))
            }
        }
    }

    /// Returns the next rows after the first ones.
    async fn more(&self, rest: &mut Rest) -> Result<Option<Batch>, SourceError> {
        let outcome = rest.next().await;
        match &outcome {
            Ok(Some(batch)) => self.figures.more_rows(batch.len() as u64),
            Ok(None) => {}
            Err(error) => self.figures.failed(error),
        }
        outcome
    }

    /// Reports the parts of the source that failed since the last report.
    fn report_gaps(&self, gaps: Option<&Arc<Gaps>>, report: &Report) {
        if let Some(error) = gaps.and_then(|gaps| gaps.report()) {
            self.figures.failed(&error);
            report.add(&self.name, error);
        }
    }

    fn answers(&self) {
        if self.breaker.succeeded() {
            tracing::info!(source = &*self.name, "the source answers again");
        }
    }

    /// Reports an error before the first rows to the breaker. Later errors are ignored: a source that sent rows is up,
    /// and a client that reads too slowly can also cause the error.
    fn judge(&self, error: &SourceError, query: &Query) {
        match error.fault() {
            Fault::Neither => self.breaker.not_asked(),
            Fault::Question => self.answers(),
            Fault::Source => {
                let mut question = DefaultHasher::new();
                (&query.keys.from, &query.keys.to).hash(&mut question);
                let pause = self.breaker.failed(question.finish(), Instant::now());
                if let Some(pause) = pause {
                    let seconds = pause.as_secs();
                    tracing::warn!(source = &*self.name, %error, seconds, "the source failed too often and is skipped \
                     for a while");
                }
            }
        }
    }

    /// Returns a stream of the first rows and all following ones.
    fn stream(self: &Arc<Member>, first: Batch, rest: Rest, report: Report) -> Ordered {
        let member = Arc::clone(self);
        let more = stream::unfold(rest, move |mut rest| {
            let (member, report) = (Arc::clone(&member), report.clone());
            async move {
                let more = member.more(&mut rest).await;
                member.report_gaps(rest.gaps.as_ref(), &report);
                match more {
                    Ok(batch) => batch.map(|batch| (batch, rest)),
                    Err(error) => {
                        report.add(&member.name, error);
                        None
                    }
                }
            }
        });
        stream::once(async { first }).chain(more).boxed()
    }

    /// Returns all rows in order, within the limits of sorting.
    async fn sorted(
        &self,
        first: Batch,
        mut batches: Batches,
        lookup: &Lookup,
        came: &mut Option<tokio::time::Instant>,
    ) -> Result<(Batch, Reservation), SourceError> {
        let most = self.limits.rows.min(SORTED as u64);
        let mut kept = Reservation::default();
        let mut rows = kept.rows(&first)?;
        drop(first);
        while let Some(batch) = next(&mut batches, came).await? {
            rows.extend(kept.rows(&batch)?);
            if rows.len() as u64 > most {
                let what = format!("more than {most} rows would have to be sorted");
                return Err(SourceError::TooLarge(what));
            }
        }
        let (order, at_most, few) = (lookup.order, lookup.at_most, rows.len() < INLINE_SORT);
        let sort = move || {
            rows.sort_by(|a, b| order.compare(a, b));
            if let Some(most) = at_most.and_then(|most| usize::try_from(most).ok()) {
                rows.truncate(most);
            }
            rows
        };
        let sorted = if few {
            sort()
        } else {
            spawn_blocking(sort)
                .await
                .map_err(|error| SourceError::Io(error.to_string()))?
        };
        Ok((sorted, kept))
    }
}

/// Returns stored rows as a stream of batches.
pub(crate) fn kept_rows(rows: Batch, kept: Reservation) -> Ordered {
    let state = (rows.into_iter(), kept);
    let batches = stream::unfold(state, |(mut rows, kept)| async move {
        let batch: Batch = rows.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some((batch, (rows, kept)))
    });
    batches.boxed()
}

/// The remainder of a source after its first rows.
enum Coming {
    /// The source has ended: the first rows are all of its rows, and this reservation holds their memory.
    Sorted(Reservation),
    /// Further batches, in order.
    Ordered(Batches),
}

/// State of a source's remaining stream.
struct Rest {
    batches: Batches,
    gaps: Option<Arc<Gaps>>,
    until: tokio::time::Instant,
    silence: Duration,
}

impl Rest {
    async fn next(&mut self) -> Result<Option<Batch>, SourceError> {
        let now = tokio::time::Instant::now();
        let left = self.until.saturating_duration_since(now);
        let mut came = None;
        let next = next(&mut self.batches, &mut came);
        match timeout(left.min(self.silence), next).await {
            Ok(outcome) => outcome,
            Err(_) if left < self.silence => {
                let what = "the answer exceeds its total timeout";
                Err(SourceError::TooLarge(what.to_owned()))
            }
            Err(_) => Err(SourceError::Timeout),
        }
    }
}

/// Returns the next batch that is not empty. An empty batch shows that the source is still working.
async fn next(
    batches: &mut Batches,
    came: &mut Option<tokio::time::Instant>,
) -> Result<Option<Batch>, SourceError> {
    loop {
        let batch = batches.next().await.transpose()?;
        *came = Some(tokio::time::Instant::now());
        if batch.as_ref().is_none_or(|batch| !batch.is_empty()) {
            return Ok(batch);
        }
    }
}

#[cfg(test)]
mod tests;
