//! Metrics of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Number of hashes looked up by `DEDUPE.LOOKUP`.
pub static LOOKUPS: Metric = Metric::new(c"lookups");
/// Number of looked-up hashes that were found.
pub static HITS: Metric = Metric::new(c"hits");
/// Number of `response` records added.
pub static ADDS: Metric = Metric::new(c"adds");
/// Number of `revisit` records added.
pub static REVISITS: Metric = Metric::new(c"revisits");
/// Number of claims granted.
pub static CLAIMS_GRANTED: Metric = Metric::new(c"claims_granted");
/// Number of clients that block on a claim now.
pub static CLAIMS_PENDING: Metric = Metric::new(c"claims_pending");
/// Number of cached indexes.
pub static INDEXES: Metric = Metric::new(c"indexes");
/// 1 while commands of plain clients are served from packed indexes, otherwise 0.
pub static PLAIN_COMMANDS: Metric = Metric::new(c"plain_commands");

/// All metrics of the family.
pub static METRICS: &[&Metric] = &[
    &LOOKUPS,
    &HITS,
    &ADDS,
    &REVISITS,
    &CLAIMS_GRANTED,
    &CLAIMS_PENDING,
    &INDEXES,
    &PLAIN_COMMANDS,
];
