//! Metrics of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Batches of captures filtered by `TAGS.FILTER`.
pub static BATCHES: Metric = Metric::new(c"tags_batches");
/// Batches filtered on another thread.
pub static BATCHES_AWAY: Metric = Metric::new(c"tags_batches_away");
/// Batches that are queued for another thread or being filtered there.
pub static BATCHES_WAITING: Metric = Metric::new(c"tags_batches_waiting");

/// Tag spaces in use.
pub static SPACES: Metric = Metric::new(c"tags_spaces");

/// All metrics of the family.
pub static METRICS: &[&Metric] = &[&BATCHES, &BATCHES_AWAY, &BATCHES_WAITING, &SPACES];
