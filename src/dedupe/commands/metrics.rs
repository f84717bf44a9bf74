//! Figures of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Hashes looked up by `DEDUPE.LOOKUP`.
pub static LOOKUPS: Metric = Metric::new(c"lookups");
/// Hashes looked up that were found.
pub static HITS: Metric = Metric::new(c"hits");
/// `response` records added.
pub static ADDS: Metric = Metric::new(c"adds");
/// `revisit` records added.
pub static REVISITS: Metric = Metric::new(c"revisits");
/// Claims granted.
pub static CLAIMS_GRANTED: Metric = Metric::new(c"claims_granted");
/// Clients that wait for a claim now.
pub static CLAIMS_PENDING: Metric = Metric::new(c"claims_pending");
/// Indexes that something is cached of.
pub static INDEXES: Metric = Metric::new(c"indexes");

/// The figures.
pub static METRICS: &[&Metric] = &[
    &LOOKUPS,
    &HITS,
    &ADDS,
    &REVISITS,
    &CLAIMS_GRANTED,
    &CLAIMS_PENDING,
    &INDEXES,
];
