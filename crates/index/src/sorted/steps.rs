//! Runs reads in small steps: on the caller's thread as long as they do not have to wait, otherwise on a thread that
//! may block.
//!
//! A read is an `async fn` that is polled once per step. The read pauses at the end of the step, and
//! continues in the next step, possibly on another thread. No waker is used: the consumer of the rows polls
//! the read again when it takes the next step. Responses of other servers are awaited between two steps.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::task::JoinHandle;

use crate::sorted::line::Writer;
use crate::source::{Batch, Batches, SourceError};
use crawlspace_fetch::blocking;

/// Maximum number of bytes read in a step on the caller's thread. The number is small in tests, so
/// that queries take many steps.
const MAX_QUICK_STEP: usize = if cfg!(test) { 6 << 10 } else { 128 << 10 };
/// Maximum number of bytes read on the caller's thread in all steps of a query; later steps run on a blocking thread.
const MAX_QUICK_TOTAL: usize = 512 << 10;
/// Maximum number of bytes read in a step on a blocking thread.
const MAX_SLOW_STEP: usize = if cfg!(test) { 50 << 10 } else { 1 << 20 };
/// Maximum duration of a step on a blocking thread.
const MAX_SLOW_TIME: Duration = Duration::from_millis(2);

/// The budget of a step, and how the step ended.
#[derive(Clone, Copy, Debug)]
struct Step {
    may_wait: bool,
    /// Number of bytes that may still be read.
    left: usize,
    until: Option<Instant>,
    /// True if the step ended because the work has to wait.
    halted: bool,
}

thread_local! {
    /// The step that is running on this thread.
    static STEP: Cell<Step> = const { Cell::new(Step::here(0)) };
    /// The future that the work of the step awaits, if the step ended because of it.
    static AWAITED: Cell<Option<Awaited>> = const { Cell::new(None) };
}

/// A future that runs between two steps and wakes the consumer.
type Awaited = BoxFuture<'static, ()>;

impl Step {
    /// Creates a step that must not block, and may read up to `bytes` bytes.
    const fn here(bytes: usize) -> Step {
        Step {
            may_wait: false,
            left: if bytes < MAX_QUICK_STEP {
                bytes
            } else {
                MAX_QUICK_STEP
            },
            until: None,
            halted: false,
        }
    }

    /// Creates a step that may block.
    fn elsewhere() -> Step {
        Step {
            may_wait: true,
            left: MAX_SLOW_STEP,
            until: Some(Instant::now() + MAX_SLOW_TIME),
            halted: false,
        }
    }

    /// Polls the work once. Returns the result, the rest of the step's budget, and the future that the work awaits.
    fn take<T>(
        self,
        work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
    ) -> (Poll<T>, Step, Option<Awaited>) {
        STEP.set(self);
        let polled = work.poll(&mut Context::from_waker(Waker::noop()));
        (polled, STEP.get(), AWAITED.take())
    }
}

/// Awaits a future between two steps, so that the consumer is woken by it.
///
/// The future of a look-up contains every future that it may await. The future awaited here is
/// boxed, so that look-ups in memory stay small.
pub(crate) fn outcome<T: Send + 'static>(
    awaited: impl Future<Output = T> + Send + 'static,
) -> impl Future<Output = T> {
    let came = Arc::new(Mutex::new(None));
    let slot = Arc::clone(&came);
    let awaited = async move {
        let outcome = awaited.await;
        *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
    };
    let mut awaited = Some(awaited.boxed());
    poll_fn(move |_| {
        if let Some(awaited) = awaited.take() {
            AWAITED.set(Some(awaited));
            return Poll::Pending;
        }
        let outcome = came.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.map_or(Poll::Pending, Poll::Ready)
    })
}

/// Subtracts `bytes` from the budget of the step before they are read. Pauses if the budget is used
/// up.
pub(crate) async fn spend(bytes: usize) {
    poll_fn(|_| {
        let step = STEP.get();
        // Pause only when the budget is used up, so that each step makes progress.
        if step.left == 0 || step.until.is_some_and(|until| Instant::now() > until) {
            return Poll::Pending;
        }
        let left = step.left.saturating_sub(bytes);
        STEP.set(Step { left, ..step });
        Poll::Ready(())
    })
    .await;
}

/// Returns whether the thread may block.
pub(crate) fn may_wait() -> bool {
    STEP.get().may_wait
}

/// Pauses until the work is on a thread that may block.
pub(crate) async fn until_it_may_wait() {
    poll_fn(|_| {
        let step = STEP.get();
        if step.may_wait {
            return Poll::Ready(());
        }
        STEP.set(Step {
            halted: true,
            ..step
        });
        Poll::Pending
    })
    .await;
}

/// Ends the step, so that the rows found so far are sent.
pub(crate) async fn pause() {
    let mut paused = false;
    poll_fn(|_| {
        if std::mem::replace(&mut paused, true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    })
    .await;
}

/// Runs work to completion on this thread, which may block.
pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    let step = Step {
        may_wait: true,
        left: usize::MAX,
        until: None,
        halted: false,
    };
    loop {
        match step.take(work.as_mut()) {
            (Poll::Ready(done), ..) => return done,
            (Poll::Pending, _, Some(awaited)) => blocking::wait(awaited),
            (Poll::Pending, ..) => {}
        }
    }
}

/// The rows that some work has found.
#[derive(Clone)]
pub(crate) struct Rows(Arc<Mutex<Writer>>);

impl Rows {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Work = Pin<Box<dyn Future<Output = Result<(), SourceError>> + Send>>;

/// Streams the rows that some work finds, step by step. An empty batch means that a step was taken. Steps are taken
/// only while the stream is polled.
pub(crate) fn batches<W>(writer: Writer, work: impl FnOnce(Rows) -> W) -> Batches
where
    W: Future<Output = Result<(), SourceError>> + Send + 'static,
{
    let rows = Rows(Arc::new(Mutex::new(writer)));
    let running = Running {
        next: Next::Here(Box::pin(work(rows.clone()))),
        rows,
        quick: MAX_QUICK_TOTAL,
    };
    stream::unfold(running, |mut running| async move {
        let batch = running.batch().await?;
        Some((batch, running))
    })
    .boxed()
}

struct Running {
    next: Next,
    rows: Rows,
    /// Number of bytes that may still be read on the caller's thread.
    quick: usize,
}

/// The next step of the work.
enum Next {
    /// Continues on the caller's thread, within its budget.
    Here(Work),
    /// Continues on a thread that may block.
    Elsewhere(Work),
    /// Continues on the caller's thread when the future is ready.
    After(Work, Awaited),
    Failed(SourceError),
    End,
}

impl Running {
    async fn batch(&mut self) -> Option<Result<Batch, SourceError>> {
        loop {
            let (mut work, here) = match std::mem::replace(&mut self.next, Next::End) {
                Next::Here(work) => (work, self.quick > 0),
                Next::Elsewhere(work) => (work, false),
                Next::After(work, awaited) => {
                    awaited.await;
                    (work, self.quick > 0)
                }
                Next::Failed(error) => return Some(Err(error)),
                Next::End => return None,
            };
            let (polled, step, awaited) = if here {
                let whole = Step::here(self.quick);
                let taken = whole.take(work.as_mut());
                // Steps that read nothing also use up the budget.
                let read = (whole.left - taken.1.left).max(4096);
                self.quick = self.quick.saturating_sub(read);
                taken
            } else {
                let task = move || {
                    let taken = Step::elsewhere().take(work.as_mut());
                    (taken, work)
                };
                match elsewhere(task).await {
                    Ok((taken, same)) => {
                        work = same;
                        taken
                    }
                    Err(error) => return Some(Err(error)),
                }
            };
            self.next = match (polled, awaited) {
                (Poll::Pending, Some(awaited)) => Next::After(work, awaited),
                (Poll::Pending, None) if step.halted => Next::Elsewhere(work),
                (Poll::Pending, None) => Next::Here(work),
                (Poll::Ready(Ok(())), _) => Next::End,
                (Poll::Ready(Err(error)), _) => Next::Failed(error),
            };
            let batch = self.rows.lock().take();
            // Steps on blocking threads take time: an empty batch shows the consumer that work is in progress.
            if !batch.is_empty() || !here {
                return Some(Ok(batch));
            }
        }
    }
}

/// Runs a closure on a thread that may block. If the future is dropped before the closure begins, the closure never
/// runs.
pub(crate) async fn elsewhere<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SourceError> {
    let mut task = Aborted(tokio::task::spawn_blocking(work));
    let failed = |error| SourceError::Io(format!("reading failed: {error}"));
    (&mut task.0).await.map_err(failed)
}

/// Aborts the task when dropped, unless it has begun.
struct Aborted<T>(JoinHandle<T>);

impl<T> Drop for Aborted<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::sorted::line::Shape;

    /// Adds a row.
    fn find(rows: &Rows) {
        let line = b"a)/ 2016 {}";
        assert!(rows.lock().push(line, Shape::of(line).unwrap(), 0));
    }

    fn writer() -> Writer {
        Writer::new(Arc::from(r#""source": "a""#))
    }

    #[tokio::test]
    async fn no_step_runs_without_a_waiting_query() {
        for elsewhere in [false, true] {
            let taken = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&taken);
            let mut batches = batches(writer(), |rows| async move {
                loop {
                    if elsewhere {
                        until_it_may_wait().await;
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                    find(&rows);
                    pause().await;
                }
            });
            for _ in 0..300 {
                assert_eq!(batches.next().await.unwrap().unwrap().len(), 1);
            }
            assert_eq!(taken.load(Ordering::SeqCst), 300);
            drop(batches);
            assert_eq!(Arc::strong_count(&taken), 1);
        }
    }

    #[tokio::test]
    async fn rows_before_an_error_are_returned() {
        let mut batches = batches(writer(), |rows| async move {
            find(&rows);
            Err(SourceError::Timeout)
        });
        assert_eq!(batches.next().await.unwrap().unwrap().len(), 1);
        assert_eq!(batches.next().await, Some(Err(SourceError::Timeout)));
        assert_eq!(batches.next().await, None);
    }

    #[tokio::test]
    async fn remote_data_is_awaited_between_steps() {
        for elsewhere in [false, true] {
            let (send, receive) = tokio::sync::oneshot::channel();
            let mut batches = batches(writer(), move |rows| async move {
                if elsewhere {
                    until_it_may_wait().await;
                }
                find(&rows);
                assert_eq!(outcome(receive).await, Ok(7));
                find(&rows);
                Ok(())
            });
            let mut found = 0;
            while found == 0 {
                found = batches.next().await.unwrap().unwrap().len();
            }
            let mut next = batches.next();
            assert!((&mut next).now_or_never().is_none());
            send.send(7).unwrap();
            assert_eq!(next.await.unwrap().unwrap().len(), 1);
        }
    }

    #[test]
    fn blocking_caller_waits_for_remote_data() {
        let (send, receive) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || send.send(7));
        assert_eq!(wait(outcome(receive)), Ok(7));
    }

    #[tokio::test]
    async fn rows_are_returned_before_a_wait() {
        let mut batches = batches(writer(), |rows| async move {
            find(&rows);
            until_it_may_wait().await;
            assert!(may_wait());
            find(&rows);
            Ok(())
        });
        for _ in 0..2 {
            assert_eq!(batches.next().await.unwrap().unwrap().len(), 1);
        }
        assert_eq!(batches.next().await, None);
    }
}
