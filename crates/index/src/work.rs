//! Progress and cancellation of long-running work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// A handle to long-running work, which shows its progress and cancels it. Clones refer to the same
/// work.
///
/// ```
/// use crawlspace_index::Work;
/// let work = Work::default();
/// work.begin("sorting", 1_000);
/// work.advance(10)?;
/// assert_eq!((work.progress().done, work.progress().total), (10, 1_000));
/// work.cancel();
/// assert!(work.advance(10).is_err());
/// # Ok::<(), crawlspace_index::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Work(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    cancelled: Arc<AtomicBool>,
    stage: Mutex<String>,
    done: AtomicU64,
    total: AtomicU64,
}

/// The progress of some work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// A description of the current stage, for display.
    pub stage: String,
    /// Number of steps or bytes that are done.
    pub done: u64,
    /// Total number of steps or bytes; 0 if unknown.
    pub total: u64,
}

impl Work {
    /// Cancels the work at the next check. Finished parts are kept.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Checks for cancellation.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the work was cancelled.
    pub fn check(&self) -> Result<(), Error> {
        if self.0.cancelled.load(Ordering::Relaxed) {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    }

    /// Returns a handle for a part of the work, which is cancelled with the work but whose progress
    /// is not shown.
    pub fn part(&self) -> Work {
        Work(Arc::new(Inner {
            cancelled: Arc::clone(&self.0.cancelled),
            ..Inner::default()
        }))
    }

    /// Begins a stage of `total` steps or bytes; 0 if unknown.
    pub fn begin(&self, stage: &str, total: u64) {
        let mut now = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
        stage.clone_into(&mut now);
        self.0.total.store(total, Ordering::Relaxed);
        self.0.done.store(0, Ordering::Relaxed);
    }

    /// Adds `steps` to the progress, and checks for cancellation.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the work was cancelled.
    pub fn advance(&self, steps: u64) -> Result<(), Error> {
        self.0.done.fetch_add(steps, Ordering::Relaxed);
        self.check()
    }

    /// Returns the current progress.
    pub fn progress(&self) -> Progress {
        let stage = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
        Progress {
            stage: stage.clone(),
            done: self.0.done.load(Ordering::Relaxed),
            total: self.0.total.load(Ordering::Relaxed),
        }
    }
}
