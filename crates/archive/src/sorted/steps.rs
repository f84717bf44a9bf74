//! Work in small steps: on the thread of whoever asks as long as nothing has to be waited for, else on one that may
//! wait.

use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};
use tokio::task::JoinHandle;

use crate::source::{Batch, Batches, SourceError};

/// Limit of bytes read in a step on the caller's thread. In tests it is small, so that there are many steps.
const MAX_QUICK_STEP: usize = if cfg!(test) { 6 << 10 } else { 128 << 10 };
/// Limit of bytes read on the caller's thread in all steps of a query; later steps run on a thread that may wait.
const MAX_QUICK_TOTAL: usize = 512 << 10;
/// Limit of bytes read in a step on a thread that may wait.
const MAX_SLOW_STEP: usize = if cfg!(test) { 50 << 10 } else { 1 << 20 };
/// Time limit of a step on a thread that may wait.
const MAX_SLOW_TIME: Duration = Duration::from_millis(2);

/// What a step may do: whether it may wait, and how much it may read.
#[derive(Debug)]
pub struct Budget {
    may_wait: bool,
    /// Bytes that may still be read.
    left: usize,
    until: Option<Instant>,
}

/// Why a step ends before its work does.
#[derive(Debug, PartialEq)]
pub enum Halt {
    /// It has to go on where it may wait.
    Wait,
    /// It has done enough.
    Enough,
    /// It cannot go on.
    Failed(SourceError),
}

/// How it goes on after a step.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// There may be more rows.
    More,
    /// There may be more rows, but finding them may take a wait.
    Wait,
    /// That was all.
    End,
    /// It cannot go on.
    Failed(SourceError),
}

impl Next {
    /// What comes after work that ended so.
    pub fn after(work: Result<(), Halt>) -> Next {
        match work {
            Ok(()) => Next::End,
            Err(Halt::Enough) => Next::More,
            Err(Halt::Wait) => Next::Wait,
            Err(Halt::Failed(error)) => Next::Failed(error),
        }
    }
}

/// Something that finds rows step by step.
pub trait Steps: Send + 'static {
    /// Rows that are there, and how it goes on. Has to end soon after `budget` is used up.
    fn step(&mut self, budget: &mut Budget) -> (Batch, Next);
}

impl Budget {
    /// The budget of a step that must not wait, with at most `bytes` to read.
    pub(crate) fn quick(bytes: usize) -> Budget {
        Budget {
            may_wait: false,
            left: bytes.min(MAX_QUICK_STEP),
            until: None,
        }
    }

    /// The budget of a step that may wait.
    pub(crate) fn slow() -> Budget {
        Budget {
            may_wait: true,
            left: MAX_SLOW_STEP,
            until: Some(Instant::now() + MAX_SLOW_TIME),
        }
    }

    pub(crate) fn may_wait(&self) -> bool {
        self.may_wait
    }

    /// Takes `bytes` off what may still be read; to be called before they are read.
    ///
    /// # Errors
    /// When that was enough.
    pub(crate) fn spend(&mut self, bytes: usize) -> Result<(), Halt> {
        // A step that does nothing would never come to an end.
        if self.left == 0 || self.until.is_some_and(|until| Instant::now() > until) {
            return Err(Halt::Enough);
        }
        self.left = self.left.saturating_sub(bytes);
        Ok(())
    }
}

/// The rows of all steps. An empty batch says that a step was taken. Steps are taken only while the stream is polled.
pub fn batches(steps: impl Steps) -> Batches {
    let running = Running {
        steps: Some(Box::new(steps)),
        next: Next::More,
        quick: MAX_QUICK_TOTAL,
    };
    stream::unfold(running, |mut running| async move {
        let batch = running.batch().await?;
        Some((batch, running))
    })
    .boxed()
}

struct Running<S> {
    /// `None` while a step is under way elsewhere.
    steps: Option<Box<S>>,
    next: Next,
    /// Bytes that may still be read here.
    quick: usize,
}

impl<S: Steps> Running<S> {
    async fn batch(&mut self) -> Option<Result<Batch, SourceError>> {
        loop {
            let here = match std::mem::replace(&mut self.next, Next::End) {
                Next::More => self.quick > 0,
                Next::Wait => false,
                Next::End => return None,
                Next::Failed(error) => return Some(Err(error)),
            };
            let mut steps = self.steps.take()?;
            let (batch, next) = if here {
                let mut budget = Budget::quick(self.quick);
                let before = budget.left;
                let done = steps.step(&mut budget);
                // Steps that read nothing count as well.
                self.quick = self.quick.saturating_sub((before - budget.left).max(4096));
                self.steps = Some(steps);
                done
            } else {
                let task = tokio::task::spawn_blocking(move || {
                    let done = steps.step(&mut Budget::slow());
                    (steps, done)
                });
                match Aborted(task).wait().await {
                    Ok((steps, done)) => {
                        self.steps = Some(steps);
                        done
                    }
                    Err(error) => return Some(Err(error)),
                }
            };
            self.next = next;
            // Steps elsewhere take time, and whoever waits sees by them that something is done.
            if !batch.is_empty() || !here {
                return Some(Ok(batch));
            }
        }
    }
}

/// Does something on a thread that may wait. When nobody waits for it any more before it began, it is not done.
pub(crate) async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SourceError> {
    Aborted(tokio::task::spawn_blocking(work)).wait().await
}

/// Is not begun any more when it is dropped.
struct Aborted<T>(JoinHandle<T>);

impl<T> Aborted<T> {
    async fn wait(mut self) -> Result<T, SourceError> {
        let failed = |error| SourceError::Io(format!("reading broke off: {error}"));
        (&mut self.0).await.map_err(failed)
    }
}

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::row;

    /// Has rows without end.
    struct Endless {
        taken: Arc<AtomicUsize>,
        next: fn() -> Next,
    }

    impl Steps for Endless {
        fn step(&mut self, _: &mut Budget) -> (Batch, Next) {
            self.taken.fetch_add(1, Ordering::SeqCst);
            (
                row::build("a)/", "2016", "").into_iter().collect(),
                (self.next)(),
            )
        }
    }

    #[tokio::test]
    async fn no_step_is_taken_that_nobody_waits_for() {
        for next in [|| Next::More, || Next::Wait] {
            let taken = Arc::new(AtomicUsize::new(0));
            let mut rows = batches(Endless {
                taken: Arc::clone(&taken),
                next,
            });
            for _ in 0..300 {
                assert_eq!(rows.next().await.unwrap().unwrap().len(), 1);
            }
            assert_eq!(taken.load(Ordering::SeqCst), 300);
            drop(rows);
            assert_eq!(Arc::strong_count(&taken), 1);
        }
    }

    #[tokio::test]
    async fn rows_before_an_error_are_not_lost() {
        let mut rows = batches(Endless {
            taken: Arc::default(),
            next: || Next::Failed(SourceError::Timeout),
        });
        assert!(rows.next().await.unwrap().is_ok());
        assert_eq!(rows.next().await, Some(Err(SourceError::Timeout)));
        assert_eq!(rows.next().await, None);
    }
}
