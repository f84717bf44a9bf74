//! Metrics of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Cached frontiers.
pub static FRONTIERS: Metric = Metric::new(c"frontiers");
/// URIs queued by `CHG.ADD` and `CHG.ADDURI`.
pub static ADDED: Metric = Metric::new(c"chg_added");
/// Leases granted.
pub static LEASES: Metric = Metric::new(c"chg_leases");
/// Leases released.
pub static RELEASES: Metric = Metric::new(c"chg_releases");
/// Leases that expired.
pub static EXPIRED: Metric = Metric::new(c"chg_expired");
/// Clients that currently wait for a lease.
pub static WAITERS: Metric = Metric::new(c"chg_waiters");

/// The metrics of the family.
pub static METRICS: &[&Metric] = &[&FRONTIERS, &ADDED, &LEASES, &RELEASES, &EXPIRED, &WAITERS];
