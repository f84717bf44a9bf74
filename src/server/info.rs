//! `INFO crawlspace`: figures worth graphing.

use std::os::raw::{c_int, c_ulonglong};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::api::{raw, rm, Ctx};
use super::guard::guarded;

/// Figures of the module since it was loaded.
pub struct Figures {
    /// Hashes looked up by `DEDUPE.LOOKUP`.
    pub lookups: AtomicU64,
    /// Of them found.
    pub hits: AtomicU64,
    /// `response` records told of.
    pub adds: AtomicU64,
    /// `revisit` records told of.
    pub revisits: AtomicU64,
    /// Claims granted.
    pub claims_granted: AtomicU64,
    /// Clients that wait for a claim now.
    pub claims_pending: AtomicU64,
    /// Jobs under way now, waiting ones included.
    pub jobs_running: AtomicU64,
    /// Jobs that ended.
    pub jobs_done: AtomicU64,
    /// Slices worked.
    pub slices: AtomicU64,
    /// The longest slice, in microseconds.
    pub slice_longest_us: AtomicU64,
    /// The same in time that the server's thread had the processor, which other processes cannot
    /// lengthen.
    pub slice_longest_cpu_us: AtomicU64,
    /// Bugs that the panic guard caught.
    pub panics: AtomicU64,
    /// Indexes that something is remembered of.
    pub indexes: AtomicU64,
    /// Frontiers that something is remembered of.
    pub frontiers: AtomicU64,
    /// URIs queued by `CHG.ADD` and `CHG.ADDURI`.
    pub chg_added: AtomicU64,
    /// Leases granted.
    pub chg_leases: AtomicU64,
    /// Leases released.
    pub chg_releases: AtomicU64,
    /// Leases that ran out.
    pub chg_expired: AtomicU64,
    /// Clients that wait for a lease now.
    pub chg_waiters: AtomicU64,
    /// Batches of captures filtered by `TAGS.FILTER`.
    pub tags_batches: AtomicU64,
    /// Of them those that another thread did.
    pub tags_batches_away: AtomicU64,
    /// Batches that another thread has to do, or is doing.
    pub tags_batches_waiting: AtomicU64,
}

/// The figures.
pub static FIGURES: Figures = Figures {
    lookups: AtomicU64::new(0),
    hits: AtomicU64::new(0),
    adds: AtomicU64::new(0),
    revisits: AtomicU64::new(0),
    claims_granted: AtomicU64::new(0),
    claims_pending: AtomicU64::new(0),
    jobs_running: AtomicU64::new(0),
    jobs_done: AtomicU64::new(0),
    slices: AtomicU64::new(0),
    slice_longest_us: AtomicU64::new(0),
    slice_longest_cpu_us: AtomicU64::new(0),
    panics: AtomicU64::new(0),
    indexes: AtomicU64::new(0),
    frontiers: AtomicU64::new(0),
    chg_added: AtomicU64::new(0),
    chg_leases: AtomicU64::new(0),
    chg_releases: AtomicU64::new(0),
    chg_expired: AtomicU64::new(0),
    chg_waiters: AtomicU64::new(0),
    tags_batches: AtomicU64::new(0),
    tags_batches_away: AtomicU64::new(0),
    tags_batches_waiting: AtomicU64::new(0),
};

/// Counts something once.
pub fn count(figure: &AtomicU64, by: u64) {
    // Only the main thread writes, so no atomic addition is needed.
    figure.store(figure.load(Relaxed).wrapping_add(by), Relaxed);
}

/// Keeps the larger.
pub fn peak(figure: &AtomicU64, n: u64) {
    if n > figure.load(Relaxed) {
        figure.store(n, Relaxed);
    }
}

/// Counts a caught bug, on whatever thread.
pub fn count_panic() {
    FIGURES.panics.fetch_add(1, Relaxed);
}

extern "C" fn report(info: *mut raw::RedisModuleInfoCtx, for_crash_report: c_int) {
    if for_crash_report != 0 {
        return;
    }
    let _ = guarded("INFO", || {
        let f = &FIGURES;
        let entries = [
            (c"lookups", &f.lookups),
            (c"hits", &f.hits),
            (c"adds", &f.adds),
            (c"revisits", &f.revisits),
            (c"claims_granted", &f.claims_granted),
            (c"claims_pending", &f.claims_pending),
            (c"jobs_running", &f.jobs_running),
            (c"jobs_done", &f.jobs_done),
            (c"slices", &f.slices),
            (c"slice_longest_us", &f.slice_longest_us),
            (c"slice_longest_cpu_us", &f.slice_longest_cpu_us),
            (c"panics", &f.panics),
            (c"indexes", &f.indexes),
            (c"frontiers", &f.frontiers),
            (c"chg_added", &f.chg_added),
            (c"chg_leases", &f.chg_leases),
            (c"chg_releases", &f.chg_releases),
            (c"chg_expired", &f.chg_expired),
            (c"chg_waiters", &f.chg_waiters),
            (c"tags_batches", &f.tags_batches),
            (c"tags_batches_away", &f.tags_batches_away),
            (c"tags_batches_waiting", &f.tags_batches_waiting),
        ];
        // SAFETY: main thread, the info context of this callback; names are constants.
        unsafe {
            rm!(RedisModule_InfoAddSection(info, c"".as_ptr()));
            for (name, figure) in entries {
                let n = figure.load(Relaxed) as c_ulonglong;
                rm!(RedisModule_InfoAddFieldULongLong(info, name.as_ptr(), n));
            }
            let evicting = c_ulonglong::from(super::load::policy_may_evict());
            rm!(RedisModule_InfoAddFieldULongLong(
                info,
                c"evicting_policy".as_ptr(),
                evicting
            ));
        }
    });
}

/// Makes the figures known to the server.
///
/// # Safety
/// Called once, with the context of the module's load.
pub unsafe fn register(ctx: Ctx) {
    // SAFETY: by contract.
    unsafe { rm!(RedisModule_RegisterInfoFunc(ctx.raw(), Some(report))) };
}
