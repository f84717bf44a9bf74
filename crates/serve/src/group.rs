//! Sources that are asked at once.

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

/// Number of rows from which on they are sorted on a thread that may block.
const INLINE_SORT: usize = 10_000;
/// Number of rows in a batch of rows that were kept and sorted.
const BATCH: usize = 512;

/// A source, and what is known of how it behaves.
pub struct Member {
    /// What its rows say in `source`.
    pub name: Arc<str>,
    /// What they say in `source_type`.
    pub kind: &'static str,
    /// The source.
    pub source: Arc<dyn Source>,
    /// How much it may cost.
    pub limits: Limits,
    /// Whether it is asked.
    pub breaker: Breaker,
    /// How often it was asked, and how that went.
    pub figures: Figures,
}

/// Sources that are asked at once.
pub struct Group {
    /// The members, in the order of the configuration, which decides between rows that are equal otherwise.
    pub members: Vec<Arc<Member>>,
}

/// What is asked of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// All rows.
    All,
    /// Those in these blocks, of a source that has blocks.
    Blocks(Range<u64>),
    /// A row for each of these blocks.
    Index(Range<u64>),
}

/// Which sources are missing from an answer, and why. Clones share what is in it.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    missing: Arc<Mutex<Vec<Missing>>>,
    /// Whether any source answered, if only that it has nothing.
    answered: Arc<AtomicBool>,
    /// The request that is answered, for what is logged after its head has left.
    span: Span,
}

/// Sources, all of which failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unanswered(pub Vec<(Arc<str>, Reason)>);

impl Unanswered {
    /// Whether it is because of this alone.
    pub(crate) fn all(&self, why: Reason) -> bool {
        self.0.iter().all(|(_, reason)| *reason == why)
    }

    /// Whether it is because of this, among others.
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

/// The name of a source, and why it is missing.
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
    /// Adds a source that is missing. The log has the whole error, for the operator.
    pub(crate) fn add(&self, name: &Arc<str>, error: SourceError) {
        if error != SourceError::Skipped {
            self.span
                .in_scope(|| tracing::info!(source = &**name, %error, "a source has no answer"));
        }
        self.lock().push((Arc::clone(name), error));
    }

    /// Notes that a source answered.
    pub(crate) fn answered(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// Sources that failed, if that is why there is no answer: none of those that were asked gave any.
    pub(crate) fn unanswered(&self) -> Option<Unanswered> {
        let mut reasons = self.reasons();
        reasons.retain(|(_, reason)| *reason != Reason::Unsupported);
        let answered = self.answered.load(Ordering::Relaxed) || reasons.is_empty();
        (!answered).then_some(Unanswered(reasons))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Missing>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is missing.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them, in the order in which they failed. The texts are for the operator alone.
    #[cfg(test)]
    pub(crate) fn errors(&self) -> Vec<Missing> {
        self.lock().clone()
    }

    /// All failures in their order, as clients are told.
    pub(crate) fn reasons(&self) -> Vec<(Arc<str>, Reason)> {
        let missing = self.lock();
        let reasons = missing
            .iter()
            .map(|(name, error)| (Arc::clone(name), error.into()));
        reasons.collect()
    }

    /// The value of the header `Source-Errors`: a JSON object in ASCII, from the name of a source to the reason. `None`
    /// when nothing is missing but the first `reported` failures, which were reported before.
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

/// JSON in which everything that is not ASCII is escaped, for headers.
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
    /// Asks all sources that the query selects, and waits until each has given its first rows, has failed or is late.
    /// The rows come in the order of the lookup; a source that fails later is missing from there on.
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

    /// How many blocks rows of the query can be in. None when it is not about one source that has blocks.
    ///
    /// # Errors
    /// When that source cannot say.
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
    /// The rows of this source, of which the first are there already. None when there are none, or it failed.
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
        // When something came of it last.
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
                // None of them can leave before all of them are there.
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
                // A source that was at work when its time was over is slow for this query, and not out of order.
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

    /// The next rows after the first ones.
    async fn more(&self, rest: &mut Rest) -> Result<Option<Batch>, SourceError> {
        let outcome = rest.next().await;
        match &outcome {
            Ok(Some(batch)) => self.figures.more_rows(batch.len() as u64),
            Ok(None) => {}
            Err(error) => self.figures.failed(error),
        }
        outcome
    }

    /// Reports the parts of the source that failed since it was reported last.
    fn report_gaps(&self, gaps: Option<&Arc<Gaps>>, report: &Report) {
        if let Some(error) = gaps.and_then(|gaps| gaps.report()) {
            self.figures.failed(&error);
            report.add(&self.name, error);
        }
    }

    fn answers(&self) {
        if self.breaker.succeeded() {
            tracing::info!(source = &*self.name, "it answers again");
        }
    }

    /// Tells the breaker of an error that came in place of first rows. Later ones do not count: a source that has rows
    /// answers, and that it breaks off may be the fault of a client that reads too slowly.
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
                    tracing::warn!(source = &*self.name, %error, seconds, "it failed too often, and is skipped for a while");
                }
            }
        }
    }

    /// The first rows, and then the others as they come.
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

    /// All rows, put in order, as far as that is allowed.
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
                let what = format!("more than {most} rows, which would have to be sorted");
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

/// Rows that are kept for a request, some at a time.
pub(crate) fn kept_rows(rows: Batch, kept: Reservation) -> Ordered {
    let state = (rows.into_iter(), kept);
    let batches = stream::unfold(state, |(mut rows, kept)| async move {
        let batch: Batch = rows.by_ref().take(BATCH).collect();
        (!batch.is_empty()).then_some((batch, (rows, kept)))
    });
    batches.boxed()
}

/// What comes after the first rows of a source.
enum Coming {
    /// The first rows were all of them, which are kept.
    Sorted(Reservation),
    /// More, in order.
    Ordered(Batches),
}

/// What is still to come of a source.
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

/// The next batch with something in it. One without anything shows that the source is at work.
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
