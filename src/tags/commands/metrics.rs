//! Figures of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Batches of captures filtered by `TAGS.FILTER`.
pub static BATCHES: Metric = Metric::new(c"tags_batches");
/// Batches that another thread filtered.
pub static BATCHES_AWAY: Metric = Metric::new(c"tags_batches_away");
/// Batches that another thread has to filter, or is filtering.
pub static BATCHES_WAITING: Metric = Metric::new(c"tags_batches_waiting");

/// Tag spaces that were used.
pub static SPACES: Metric = Metric::new(c"tags_spaces");

/// The figures.
pub static METRICS: &[&Metric] = &[&BATCHES, &BATCHES_AWAY, &BATCHES_WAITING, &SPACES];
