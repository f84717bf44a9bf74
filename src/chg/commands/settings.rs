//! Settings of the family.

use crawlspace_compact::limits::chg as limits;
use crawlspace_host::server::config::{Choice, Number, Setting, Switch};

use crate::storage::Storage;

/// Default duration of a lease, in milliseconds.
pub static LEASE: Number = Number::new(
    "chg-lease",
    limits::LEASE_MS as i64,
    1..=limits::TEN_YEARS as i64,
);
/// Number of leases on a kept URI that may expire before the frontier gives up the URI.
pub static ATTEMPTS: Number = Number::new(
    "chg-attempts",
    limits::ATTEMPTS as i64,
    1..=limits::MAX_ATTEMPTS as i64,
);
/// Maximum pause that a host can request with `Crawl-delay` or `Retry-After`, in milliseconds.
pub static MAX_PAUSE: Number = Number::new(
    "chg-max-pause",
    limits::MAX_PAUSE_MS as i64,
    limits::MIN_MAX_PAUSE_MS as i64..=limits::TEN_YEARS as i64,
);
/// Allows clients to specify the current time.
pub static SIMULATED_TIME: Switch = Switch::off("chg-simulated-time");

static STORAGE: Choice = Choice::new("chg-storage", || {
    Storage::ALL.iter().map(|storage| storage.name()).collect()
});

/// Returns the storage of new frontiers.
pub fn storage() -> Storage {
    Storage::ALL[STORAGE.get()]
}

/// The settings of the family.
pub static SETTINGS: &[Setting] = &[
    Setting::Number(&LEASE),
    Setting::Number(&ATTEMPTS),
    Setting::Number(&MAX_PAUSE),
    Setting::Switch(&SIMULATED_TIME),
    Setting::Choice(&STORAGE),
];
