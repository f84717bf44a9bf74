//! Leases of packages in progress: renews their guard keys, so that no other importer takes them over.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::queue::{Queue, Stage};

/// Packages in progress. One thread renews all their guards.
#[derive(Default)]
pub(super) struct Guards {
    held: Mutex<Vec<Arc<Held>>>,
    end: Condvar,
    ended: AtomicBool,
}

/// A package in progress.
pub(super) struct Held {
    queue: Queue,
    stage: Stage,
    name: String,
    lost: AtomicBool,
}

impl Held {
    /// Returns true if another worker has taken the package over.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Guards {
    /// Starts renewals; [`Guards::renew`] then runs until [`Guards::end`].
    pub(crate) fn begin(&self) {
        self.ended.store(false, Ordering::Relaxed);
    }

    pub(crate) fn hold(&self, queue: &Queue, stage: Stage, name: &str) -> Arc<Held> {
        let held = Arc::new(Held {
            queue: queue.clone(),
            stage,
            name: name.to_owned(),
            lost: AtomicBool::new(false),
        });
        self.lock().push(Arc::clone(&held));
        held
    }

    pub(crate) fn let_go(&self, held: &Arc<Held>) {
        self.lock().retain(|other| !Arc::ptr_eq(other, held));
    }

    /// Renews all guards at this interval, until [`Guards::end`].
    pub(crate) fn renew(&self, every: Duration) {
        loop {
            let held = self.lock();
            let ended = |_: &mut Vec<_>| !self.ended.load(Ordering::Relaxed);
            let waited = self.end.wait_timeout_while(held, every, ended);
            let (held, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if !timeout.timed_out() {
                return;
            }
            let all = held.clone();
            drop(held);
            for one in all {
                // Ignore other errors: the server may be reachable next time, and the scripts check
                // the guard in any case.
                if let Ok(false) = one.queue.renew(one.stage, &one.name) {
                    one.lost.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    pub(crate) fn end(&self) {
        let _held = self.lock();
        self.ended.store(true, Ordering::Relaxed);
        self.end.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Held>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
