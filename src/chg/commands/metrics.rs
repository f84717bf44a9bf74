//! Metrics of the family in `INFO crawlspace`.

use crawlspace_host::server::metric::Metric;

/// Number of cached frontiers.
pub static FRONTIERS: Metric = Metric::new(c"frontiers");
/// Number of URIs queued by `CHG.ADD`, `CHG.ADDURI`, `CHG.DISCOVER` and `CHG.SETTLE`.
pub static ADDED: Metric = Metric::new(c"chg_added");
/// Number of leases granted.
pub static LEASES: Metric = Metric::new(c"chg_leases");
/// Number of leases released.
pub static RELEASES: Metric = Metric::new(c"chg_releases");
/// Number of leases that expired.
pub static EXPIRED: Metric = Metric::new(c"chg_expired");
/// Number of requested pauses that were negative or longer than `chg-max-pause`.
pub static CLAMPED: Metric = Metric::new(c"chg_clamped");
/// Number of clients that are waiting for a lease now.
pub static WAITERS: Metric = Metric::new(c"chg_waiters");

/// The metrics of the family.
pub static METRICS: &[&Metric] = &[
    &FRONTIERS, &ADDED, &LEASES, &RELEASES, &EXPIRED, &CLAMPED, &WAITERS,
];
