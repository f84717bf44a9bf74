//! Long work: how far it is, and whether it should go on.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

/// What whoever waits for long work can look at, and stop. A clone is about the same work.
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

/// How far it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is done now, for people.
    pub stage: String,
    /// How much of it is done.
    pub done: u64,
    /// How much there is; 0 when that is not known.
    pub total: u64,
}

impl Work {
    /// Stops it at the next opportunity. What is finished stays.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// Whether it should go on.
    ///
    /// # Errors
    /// [`Error::Cancelled`] when not.
    pub fn check(&self) -> Result<(), Error> {
        if self.0.cancelled.load(Ordering::Relaxed) {
            Err(Error::Cancelled)
        } else {
            Ok(())
        }
    }

    /// A part of the work, which is cancelled with it, and whose own progress is not shown.
    pub fn part(&self) -> Work {
        Work(Arc::new(Inner {
            cancelled: Arc::clone(&self.0.cancelled),
            ..Inner::default()
        }))
    }

    /// Begins a stage of `total` steps or bytes; 0 when that is not known.
    pub fn begin(&self, stage: &str, total: u64) {
        let mut now = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
        stage.clone_into(&mut now);
        self.0.total.store(total, Ordering::Relaxed);
        self.0.done.store(0, Ordering::Relaxed);
    }

    /// Adds `steps` to what is done.
    ///
    /// # Errors
    /// [`Error::Cancelled`] when it should not go on.
    pub fn advance(&self, steps: u64) -> Result<(), Error> {
        self.0.done.fetch_add(steps, Ordering::Relaxed);
        self.check()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        let stage = self.0.stage.lock().unwrap_or_else(PoisonError::into_inner);
        Progress {
            stage: stage.clone(),
            done: self.0.done.load(Ordering::Relaxed),
            total: self.0.total.load(Ordering::Relaxed),
        }
    }
}
