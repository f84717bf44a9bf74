//! Long operations in slices, for the rules of the command families.
//!
//! A [`Job`] is an async function over two values, such as an index and its key space. Both values
//! are lent to the job for one slice at a time. The job accesses these values through closures,
//! which cannot await, so no borrow and no partial write lasts across a pause. Jobs run without an
//! async runtime: one step of the job is one poll.
//!
//! Anything may happen between slices: other commands, a crash, a restart. Therefore a job stores
//! each count in the same closure that computed it, and every part of a job can be repeated safely.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::ptr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::reply::Reply;

/// A function that returns true while time is left in this slice.
pub type Time<'a> = &'a mut dyn FnMut() -> bool;

/// Result of one step of a job.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// More work remains.
    More,
    /// The job is done, with this reply.
    Done(Reply),
}

/// Progress of a job: entries done and entries in total. Both numbers are 0 while unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// Number of entries processed.
    pub done: u64,
    /// Number of entries in total.
    pub total: u64,
}

/// The two values lent for one slice, and its time limit.
struct Slice<'a, A, B> {
    a: &'a mut A,
    b: &'a mut B,
    time: Time<'a>,
}

/// Pointer to the lent slice. Null while no slice is lent.
type Place<A, B> = Cell<*mut Slice<'static, A, B>>;

/// State shared by a job and its function.
struct Shared<A: 'static, B: 'static> {
    place: Place<A, B>,
    completion: Cell<Completion>,
}

/// Sets the pointer to a slice. Dropping this value restores the previous pointer, even after a
/// panic.
struct Loan<'a, A: 'static, B: 'static> {
    place: &'a Place<A, B>,
    before: *mut Slice<'static, A, B>,
}

impl<'a, A, B> Loan<'a, A, B> {
    fn new(place: &'a Place<A, B>, loan: *mut Slice<'static, A, B>) -> Loan<'a, A, B> {
        let before = place.replace(loan);
        Loan { place, before }
    }
}

impl<A, B> Drop for Loan<'_, A, B> {
    fn drop(&mut self) {
        self.place.set(self.before);
    }
}

/// Gives the function of a job access to the two values.
pub struct Lent<A: 'static, B: 'static>(Rc<Shared<A, B>>);

impl<A, B> Lent<A, B> {
    /// Calls `act` with both values.
    ///
    /// # Panics
    /// Panics if calls are nested, or if it is called from outside the job's function.
    pub fn with<T>(&self, act: impl FnOnce(&mut A, &mut B) -> T) -> T {
        self.with_time(|a, b, _| act(a, b))
    }

    /// Calls `act` with both values and the time limit of the slice.
    ///
    /// # Panics
    /// Same as [`Lent::with`].
    pub fn with_time<T>(&self, act: impl FnOnce(&mut A, &mut B, Time<'_>) -> T) -> T {
        let loan = Loan::new(&self.0.place, ptr::null_mut());
        let slice = loan.before;
        assert!(
            !slice.is_null(),
            "lent values are accessed without nesting, and only while the job runs"
        );
        // SAFETY: only `Job::step` sets the place, while it borrows the slice mutably, and it does
        // not use the slice itself meanwhile. The place is null until this call ends, so there is
        // no second borrow.
        let slice = unsafe { &mut *slice };
        act(slice.a, slice.b, slice.time)
    }

    /// Reports the job's progress: `done` entries of `total`.
    pub fn report(&self, done: u64, total: u64) {
        let done = done.min(total);
        self.0.completion.set(Completion { done, total });
    }

    /// Pauses the job if the time of the slice is up.
    pub async fn pause(&self) {
        let mut over = !self.with_time(|_, _, time| time());
        poll_fn(|_| {
            if std::mem::take(&mut over) {
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Calls `act` once per slice until it returns true. `act` must work until the time is up, and
    /// store its counts before it returns.
    ///
    /// # Errors
    /// Returns the first error of `act`.
    pub async fn slices<E>(
        &self,
        mut act: impl FnMut(&mut A, &mut B, Time<'_>) -> Result<bool, E>,
    ) -> Result<(), E> {
        while !self.with_time(&mut act)? {
            self.pause().await;
        }
        Ok(())
    }
}

/// A long operation in slices, which ends with a reply, or with an error of type `E`.
pub struct Job<A: 'static, B: 'static, E> {
    shared: Rc<Shared<A, B>>,
    work: Pin<Box<dyn Future<Output = Result<Reply, E>>>>,
}

impl<A, B, E> Job<A, B, E> {
    /// Creates a job. The function does not run before the first step.
    pub fn new<F>(work: impl FnOnce(Lent<A, B>) -> F) -> Job<A, B, E>
    where
        F: Future<Output = Result<Reply, E>> + 'static,
    {
        let shared = Rc::new(Shared {
            place: Cell::new(ptr::null_mut()),
            completion: Cell::default(),
        });
        let work = Box::pin(work(Lent(shared.clone())));
        Job { shared, work }
    }

    /// Returns the progress of the job.
    pub fn completion(&self) -> Completion {
        self.shared.completion.get()
    }

    /// Runs the job until it is done or the time is up. The job makes some progress even if no time
    /// is left. Do not call this function again after the job has ended.
    ///
    /// # Errors
    /// Returns the error that ended the job. The effects of completed steps remain.
    pub fn step(&mut self, a: &mut A, b: &mut B, time: Time<'_>) -> Result<Step, E> {
        let mut slice = Slice { a, b, time };
        // The lifetime is erased only until this call returns. Afterwards, the job has no pointer to
        // the slice.
        let lent = ptr::from_mut(&mut slice).cast();
        let _loan = Loan::new(&self.shared.place, lent);
        let mut context = Context::from_waker(Waker::noop());
        match self.work.as_mut().poll(&mut context) {
            Poll::Pending => Ok(Step::More),
            Poll::Ready(done) => done.map(Step::Done),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    type Sum = Job<Vec<u64>, u64, &'static str>;

    /// Adds all numbers to a sum, three per slice, and removes each number that is zero.
    fn sum() -> Sum {
        Job::new(async |lent: Lent<Vec<u64>, u64>| {
            let total = lent.with(|numbers, _| numbers.len() as u64);
            lent.slices(|numbers, sum, time| {
                loop {
                    lent.report(total - numbers.len() as u64, total);
                    for _ in 0..3 {
                        match numbers.pop() {
                            None => return Ok(true),
                            Some(0) => return Err("zero"),
                            Some(n) => *sum += n,
                        }
                    }
                    if !time() {
                        return Ok(false);
                    }
                }
            })
            .await?;
            lent.pause().await;
            Ok(lent.with(|_, sum| Reply::counts(&[*sum])))
        })
    }

    #[test]
    fn job_pauses_when_time_is_up_and_resumes() {
        let (mut numbers, mut total) = ((1..=8).collect(), 0);
        let mut job = sum();
        assert_eq!(job.completion(), Completion::default());
        for expected in [8 + 7 + 6, 21 + 5 + 4 + 3, 36] {
            let step = job.step(&mut numbers, &mut total, &mut || false);
            assert_eq!((step, total), (Ok(Step::More), expected));
        }
        let done = Ok(Step::Done(Reply::counts(&[36])));
        assert_eq!(job.step(&mut numbers, &mut total, &mut || false), done);
        assert_eq!(job.completion(), Completion { done: 6, total: 8 });
        let (mut numbers, mut total) = ((1..=8).collect(), 0);
        assert_eq!(sum().step(&mut numbers, &mut total, &mut || true), done);
    }

    #[test]
    fn values_may_change_between_slices() {
        let mut job = sum();
        let (mut first, mut second, mut total) = (vec![1; 4], vec![1; 2], 0);
        assert_eq!(
            job.step(&mut first, &mut total, &mut || false),
            Ok(Step::More)
        );
        assert_eq!(first, [1]);
        assert_eq!(
            job.step(&mut second, &mut total, &mut || false),
            Ok(Step::More)
        );
        assert_eq!((second.len(), total), (0, 5));
    }

    #[test]
    fn error_ends_a_job_and_keeps_completed_work() {
        let (mut numbers, mut total) = (vec![1, 0, 2], 0);
        let step = sum().step(&mut numbers, &mut total, &mut || true);
        assert_eq!((step, total), (Err("zero"), 2));
    }

    #[test]
    fn nothing_is_lent_twice_or_outside_a_step() {
        let outside = Rc::new(Cell::new(None));
        let kept = outside.clone();
        let mut job = Sum::new(async move |lent| {
            let twice = catch_unwind(AssertUnwindSafe(|| {
                lent.with(|_, _| lent.with(|_, _| ()));
            }));
            assert!(twice.is_err());
            lent.with(|_, sum| *sum += 1); // without nesting it works
            kept.set(Some(lent));
            Ok(Reply::counts(&[]))
        });
        let mut total = 0;
        assert!(job.step(&mut Vec::new(), &mut total, &mut || true).is_ok());
        assert_eq!(total, 1);
        let lent = outside.take().expect("the job left it");
        assert!(catch_unwind(AssertUnwindSafe(|| lent.with(|_, _| ()))).is_err());
    }
}
