//! Metrics of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Number of batches of captures that `TAGS.FILTER` filtered.
pub static BATCHES: Metric = Metric::new(c"tags_batches");
/// Number of batches that were filtered on another thread.
pub static BATCHES_AWAY: Metric = Metric::new(c"tags_batches_away");
/// Number of batches that wait for another thread or are being filtered on it.
pub static BATCHES_WAITING: Metric = Metric::new(c"tags_batches_waiting");

/// Number of tag spaces in use.
pub static SPACES: Metric = Metric::new(c"tags_spaces");

/// All metrics of the family.
pub static METRICS: &[&Metric] = &[&BATCHES, &BATCHES_AWAY, &BATCHES_WAITING, &SPACES];
