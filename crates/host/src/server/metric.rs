//! Figures that `INFO crawlspace` shows.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A figure in `INFO crawlspace`: a sum since the module was loaded, or what there is now.
pub struct Metric {
    pub(super) name: &'static CStr,
    value: AtomicU64,
}

impl Metric {
    /// A figure that is 0 so far.
    pub const fn new(name: &'static CStr) -> Metric {
        Metric {
            name,
            value: AtomicU64::new(0),
        }
    }

    /// The figure.
    pub fn get(&self) -> u64 {
        self.value.load(Relaxed)
    }

    /// Sets what there is now.
    pub fn set(&self, n: u64) {
        self.value.store(n, Relaxed);
    }

    /// Counts something, on the main thread.
    pub fn add(&self, n: u64) {
        // Only the main thread writes, so no atomic addition is needed.
        self.set(self.get().wrapping_add(n));
    }

    /// Keeps the larger.
    pub fn peak(&self, n: u64) {
        if n > self.get() {
            self.set(n);
        }
    }

    /// Adds one, from any thread.
    pub fn more(&self) {
        self.value.fetch_add(1, Relaxed);
    }

    /// Subtracts one, from any thread.
    pub fn less(&self) {
        self.value.fetch_sub(1, Relaxed);
    }
}

/// Jobs under way now, waiting ones included.
pub(super) static JOBS_RUNNING: Metric = Metric::new(c"jobs_running");
/// Jobs that ended.
pub(super) static JOBS_DONE: Metric = Metric::new(c"jobs_done");
/// Slices worked.
pub(super) static SLICES: Metric = Metric::new(c"slices");
/// The longest slice, in microseconds.
pub(super) static SLICE_LONGEST_US: Metric = Metric::new(c"slice_longest_us");
/// The longest slice, in microseconds that the server's thread had the processor, which other processes
/// cannot lengthen.
pub(super) static SLICE_LONGEST_CPU_US: Metric = Metric::new(c"slice_longest_cpu_us");
/// Whether all kinds of keyspace events are subscribed to: 1 from the first command of ours on.
pub(super) static WATCHING: Metric = Metric::new(c"keyspace_events");
/// Bugs that the panic guard caught.
pub static PANICS: Metric = Metric::new(c"panics");

/// The figures that every family shares.
pub(super) static OWN: &[&Metric] = &[
    &JOBS_RUNNING,
    &JOBS_DONE,
    &SLICES,
    &SLICE_LONGEST_US,
    &SLICE_LONGEST_CPU_US,
    &WATCHING,
    &PANICS,
];
