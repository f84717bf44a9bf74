//! Metrics of sources and collections: counts, durations and outcomes of requests.
//!
//! Counting takes a few atomic additions, and a lock for failures only. It costs less than 100 ns per request.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crawlspace_index::source::{Fault, SourceError};
use crawlspace_index::timestamp::Timestamp;
use crawlspace_warc::{Deviation, Deviations};

use crate::words::words;

/// Upper bounds of the duration buckets, in microseconds; the last bucket is unbounded.
pub(crate) const CLASSES: [u64; 17] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000,
];

/// Names of errors, as returned by [`SourceError::word`].
pub(crate) const ERRORS: [&str; 12] = words(
    "timeout skipped forbidden connection status answer too-large io incomplete indexing unsupported busy",
);

/// Metrics of one source.
#[derive(Debug, Default)]
pub struct Figures {
    rows: AtomicU64,
    errors: [AtomicU64; ERRORS.len()],
    last: Mutex<Option<(Timestamp, String)>>,
    durations: Durations,
    is_failing: AtomicBool,
}

/// API of a request to a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Api {
    /// `index`.
    Index,
    /// `resource` and `resource-post`.
    Resource,
    /// `<timestamp>id_/…`.
    Replay,
    /// `timemap/…`.
    TimeMap,
    /// `timegate/…`.
    TimeGate,
    /// Unknown paths.
    Other,
}

impl Api {
    /// List of all APIs.
    pub(crate) const ALL: [Api; 6] = [
        Api::Index,
        Api::Resource,
        Api::Replay,
        Api::TimeMap,
        Api::TimeGate,
        Api::Other,
    ];

    /// Returns the name of the API in metrics.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Api::Index => "index",
            Api::Resource => "resource",
            Api::Replay => "replay",
            Api::TimeMap => "timemap",
            Api::TimeGate => "timegate",
            Api::Other => "other",
        }
    }
}

/// Counters of a collection's requests and their outcomes.
#[derive(Debug, Default)]
pub struct Requests {
    /// Counts by API ([`Api::ALL`]) and status class, from 1xx to 5xx.
    counts: [[AtomicU64; 5]; Api::ALL.len()],
    /// Number of records by deviation ([`Deviation::ALL`]).
    deviations: [AtomicU64; Deviation::ALL.len()],
}

impl Requests {
    /// Counts a request.
    pub(crate) fn record(&self, api: Api, status: u16) {
        let class = usize::from(status / 100).saturating_sub(1).min(4);
        let counts = self.counts.get(api as usize);
        if let Some(count) = counts.and_then(|counts| counts.get(class)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a record that deviates from the standard.
    pub(crate) fn deviated(&self, deviations: Deviations) {
        for deviation in deviations.iter() {
            if let Some(count) = self.deviations.get(deviation as usize) {
                count.fetch_add(1, Relaxed);
            }
        }
    }

    /// Returns the number of records for each deviation that occurred.
    pub(crate) fn deviations(&self) -> impl Iterator<Item = (Deviation, u64)> + '_ {
        let all = Deviation::ALL.into_iter().zip(&self.deviations);
        let all = all.map(|(deviation, count)| (deviation, count.load(Relaxed)));
        all.filter(|(_, count)| *count > 0)
    }

    /// Returns the counts above 0: API, first digit of the status, and number of responses.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (Api, u16, u64)> + '_ {
        let apis = Api::ALL.into_iter().zip(&self.counts);
        let all = apis.flat_map(|(api, counts)| {
            let counts = (1_u16..).zip(counts);
            counts.map(move |(hundred, count)| (api, hundred, count.load(Relaxed)))
        });
        all.filter(|(.., count)| *count > 0)
    }
}

/// A histogram of durations.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    micros: AtomicU64,
    classes: [AtomicU64; CLASSES.len()],
    longer: AtomicU64,
}

impl Figures {
    /// Records a request to the source: its outcome up to the first rows or its end, the time it took, and the number
    /// of rows so far.
    pub(crate) fn record(&self, outcome: Result<(), &SourceError>, elapsed: Duration, rows: u64) {
        self.durations.record(elapsed);
        self.more_rows(rows);
        match outcome {
            Ok(()) => self.is_failing.store(false, Relaxed),
            Err(error) => self.failed(error),
        }
    }

    /// Counts further rows.
    pub(crate) fn more_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Relaxed);
    }

    /// Records a failure after the first rows, or of a skipped source.
    pub(crate) fn failed(&self, error: &SourceError) {
        let word = error.word();
        let class = ERRORS.iter().position(|known| *known == word);
        if let Some(count) = class.and_then(|class| self.errors.get(class)) {
            count.fetch_add(1, Relaxed);
        }
        if *error != SourceError::Skipped {
            let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some((Timestamp::now(), error.to_string()));
        }
        if error.fault() == Fault::Source
            || matches!(error, SourceError::Io(_) | SourceError::Incomplete(_))
        {
            self.is_failing.store(true, Relaxed);
        }
    }

    /// Returns time and detailed reason of the last failure, for the operator.
    pub(crate) fn last_error(&self) -> Option<(Timestamp, String)> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// Returns whether the last request failed for a reason other than the query.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Relaxed)
    }

    /// Returns the number of requests.
    pub(crate) fn requests(&self) -> u64 {
        self.durations.count()
    }

    /// Returns the number of rows.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Relaxed)
    }

    /// Returns the number of failures by error name.
    pub(crate) fn errors(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.errors.iter().map(|count| count.load(Relaxed));
        ERRORS.into_iter().zip(counts)
    }

    /// Returns the histogram of times until the first rows, or until an end without rows.
    pub(crate) fn durations(&self) -> &Durations {
        &self.durations
    }
}

impl Durations {
    /// Adds a duration.
    pub(crate) fn record(&self, elapsed: Duration) {
        let micros = u64::try_from(elapsed.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Relaxed);
        let class = CLASSES.iter().position(|end| micros <= *end);
        let count = class.and_then(|class| self.classes.get(class));
        count.unwrap_or(&self.longer).fetch_add(1, Relaxed);
    }

    /// Returns the number of durations.
    pub(crate) fn count(&self) -> u64 {
        let counts = self.classes.iter().map(|count| count.load(Relaxed));
        counts
            .sum::<u64>()
            .saturating_add(self.longer.load(Relaxed))
    }

    /// Returns the sum of all durations.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_micros(self.micros.load(Relaxed))
    }

    /// Returns the mean duration, or `None` if there are none.
    pub(crate) fn mean(&self) -> Option<Duration> {
        let micros = self.micros.load(Relaxed).checked_div(self.count())?;
        Some(Duration::from_micros(micros))
    }

    /// Returns the cumulative counts: for each of the [`CLASSES`], the number of durations up to its bound.
    pub(crate) fn up_to(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        let ends = CLASSES.into_iter().map(Duration::from_micros);
        let counts = self.classes.iter().scan(0_u64, |sum, count| {
            *sum = sum.saturating_add(count.load(Relaxed));
            Some(*sum)
        });
        ends.zip(counts)
    }

    /// Returns the upper bound of the bucket that contains this quantile (0.99 for the 99th percentile). Returns `None`
    /// if there are no durations, or if the quantile is beyond the last bound.
    pub(crate) fn quantile(&self, share: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = (share * count as f64).ceil().max(1.0);
        let reached = |(_, sum): &(Duration, u64)| *sum as f64 >= wanted;
        self.up_to().find(reached).map(|(end, _)| end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_name() {
        let text = String::new;
        let all = [
            SourceError::Timeout,
            SourceError::Skipped,
            SourceError::Forbidden(text()),
            SourceError::Connection(text()),
            SourceError::Status(500),
            SourceError::Answer(text()),
            SourceError::TooLarge(text()),
            SourceError::Io(text()),
            SourceError::Incomplete(text()),
            SourceError::Indexing(text()),
            SourceError::Unsupported(text()),
            SourceError::Busy,
        ];
        let figures = Figures::default();
        for error in &all {
            figures.failed(error);
        }
        assert!(figures.errors().all(|(_, count)| count == 1));
        assert_eq!(figures.errors().count(), all.len());
    }

    #[test]
    fn requests_are_counted_with_rows_and_durations() {
        let figures = Figures::default();
        assert_eq!(figures.durations().mean(), None);
        assert_eq!(figures.durations().quantile(0.5), None);
        for millis in [1, 2, 3] {
            figures.record(Ok(()), Duration::from_millis(millis), 10);
        }
        figures.record(Err(&SourceError::Timeout), Duration::from_secs(60), 0);
        figures.more_rows(5);
        assert_eq!((figures.requests(), figures.rows()), (4, 35));
        let durations = figures.durations();
        assert_eq!(durations.sum(), Duration::from_millis(60_006));
        assert_eq!(durations.mean(), Some(Duration::from_micros(15_001_500)));
        assert_eq!(durations.quantile(0.5), Some(Duration::from_micros(2_500)));
        assert_eq!(durations.quantile(0.75), Some(Duration::from_millis(5)));
        // The quantile is beyond the last bound.
        assert_eq!(durations.quantile(0.99), None);
        assert_eq!(durations.up_to().last(), Some((Duration::from_secs(30), 3)));
        assert!(figures.is_failing());
        figures.failed(&SourceError::Skipped);
        figures.record(Ok(()), Duration::from_millis(1), 0);
        assert!(!figures.is_failing());
        figures.failed(&SourceError::Unsupported(String::new()));
        assert!(
            !figures.is_failing(),
            "an unsupported query is not a failure of the source"
        );
    }

    #[test]
    fn collection_requests_are_counted_by_type_and_outcome() {
        let requests = Requests::default();
        assert_eq!(requests.counts().count(), 0);
        for (api, status) in [
            (Api::Index, 200),
            (Api::Index, 204),
            (Api::Index, 400),
            (Api::Resource, 404),
            (Api::Resource, 404),
            (Api::TimeMap, 200),
            (Api::Other, 999),
        ] {
            requests.record(api, status);
        }
        let counts: Vec<_> = requests.counts().collect();
        assert_eq!(
            counts,
            [
                (Api::Index, 2, 2),
                (Api::Index, 4, 1),
                (Api::Resource, 4, 2),
                (Api::TimeMap, 2, 1),
                (Api::Other, 5, 1)
            ]
        );
    }
}
