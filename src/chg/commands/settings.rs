//! Settings of the family.

use crawlspace_compact::limits::chg as limits;
use crawlspace_host::server::config::{Number, Setting, Switch};

/// How long a lease lasts unless its client says, in milliseconds.
pub static LEASE: Number = Number::new(
    "chg-lease",
    limits::LEASE_MS as i64,
    1..=limits::TEN_YEARS as i64,
);
/// How many leases of a kept URI may expire before it is given up.
pub static ATTEMPTS: Number = Number::new(
    "chg-attempts",
    limits::ATTEMPTS as i64,
    1..=limits::MAX_ATTEMPTS as i64,
);
/// Whether clients may say what time it is.
pub static SIMULATED_TIME: Switch = Switch::off("chg-simulated-time");

/// The settings.
pub static SETTINGS: &[Setting] = &[
    Setting::Number(&LEASE),
    Setting::Number(&ATTEMPTS),
    Setting::Switch(&SIMULATED_TIME),
];
