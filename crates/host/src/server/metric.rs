//! Metrics shown by `INFO crawlspace`.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A metric in `INFO crawlspace`: a counter since the module was loaded, or a gauge.
pub struct Metric {
    pub(super) name: &'static CStr,
    value: AtomicU64,
}

impl Metric {
    /// Creates a metric with the value 0.
    pub const fn new(name: &'static CStr) -> Metric {
        Metric {
            name,
            value: AtomicU64::new(0),
        }
    }

    /// Returns the value.
    pub fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    /// Sets the gauge.
    pub fn set(&self, n: u64) {
        self.value.store(n, Relaxed);
    }

    /// Adds to the counter, on the main thread.
    pub fn add(&self, n: u64) {
        // Only the main thread writes, so an atomic addition is unnecessary.
        self.set(self.get().wrapping_add(n));
    }

    /// Sets the value to `n` if the value is lower than `n`.
    pub fn peak(&self, n: u64) {
        if n > self.get() {
            self.set(n);
        }
    }

    /// Increments the gauge, from any thread.
    pub fn more(&self) {
        self.value.fetch_add(1, Relaxed);
    }

    /// Decrements the gauge, from any thread.
    pub fn less(&self) {
        self.value.fetch_sub(1, Relaxed);
    }
}

/// Number of jobs that are running or queued.
pub(super) static JOBS_RUNNING: Metric = Metric::new(c"jobs_running");
/// Number of completed jobs.
pub(super) static JOBS_DONE: Metric = Metric::new(c"jobs_done");
/// Number of executed slices.
pub(super) static SLICES: Metric = Metric::new(c"slices");
/// Duration of the longest slice, in microseconds.
pub(super) static SLICE_LONGEST_US: Metric = Metric::new(c"slice_longest_us");
/// Maximum CPU time of the server's thread in a slice, in microseconds. The load of other processes
/// does not increase this time.
pub(super) static SLICE_LONGEST_CPU_US: Metric = Metric::new(c"slice_longest_cpu_us");
/// Number of times that the alarm went off.
pub(super) static ALARMS: Metric = Metric::new(c"alarms");
/// 1 if the module is subscribed to all kinds of keyspace events, otherwise 0. The module
/// subscribes at its first command.
pub(super) static WATCHING: Metric = Metric::new(c"keyspace_events");
/// Number of panics that the panic guard caught.
pub static PANICS: Metric = Metric::new(c"panics");

/// Metrics shared by all families.
pub(super) static OWN: &[&Metric] = &[
    &JOBS_RUNNING,
    &JOBS_DONE,
    &SLICES,
    &SLICE_LONGEST_US,
    &SLICE_LONGEST_CPU_US,
    &ALARMS,
    &WATCHING,
    &PANICS,
];
