//! Traits of the types that send calls.

use std::future::Future;
use std::time::Duration;

use super::{Batch, Call, Error, TIMEOUT};

/// A type that sends calls: [`Server`](super::Server), [`AsyncServer`](super::AsyncServer), [`Batch`] or
/// [`Unsent`](super::Unsent).
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_client::Ask;
/// /// Works with a blocking server and with an async one.
/// fn commit<S: Ask>(server: &S) -> S::Answer<crawlspace_client::dedupe::Committed> {
///     Index::on(server, "{coll-42}:").commit(b"crawl-1")
/// }
/// ```
pub trait Ask: Clone {
    /// The result of a call: a `Result` for a [`Server`](super::Server), a future for an
    /// [`AsyncServer`](super::AsyncServer), a [`Pending`](super::Pending) for a [`Batch`].
    type Answer<T: Send + 'static>;

    /// Sends the call.
    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Self::Answer<T>;

    /// Returns the timeout of blocking calls. No call may ask the server to block for longer.
    fn job_timeout(&self) -> Duration {
        TIMEOUT
    }
}

/// A server that can run several steps, in which a call depends on the reply to the previous call.
///
/// ```no_run
/// use crawlspace_client::{dedupe::{Index, Stats}, Steps, Unsent};
/// fn commit_and_look<S: Steps>(server: &S) -> S::Answer<Stats> {
///     let (server, index) = (server.clone(), Index::on(&Unsent, "{coll-42}:"));
///     server.clone().run(async move {
///         server.step(index.commit(b"crawl-1")).await?;
///         server.step(index.stats()).await
///     })
/// }
/// ```
pub trait Steps: Ask + Send + Sync + 'static {
    /// Returns the maximum time for which the server may block a call. For longer waits, repeat the
    /// call.
    fn max_wait(&self) -> Duration {
        self.job_timeout() / 2
    }

    /// Sends one call as a step.
    fn step<T: Send + 'static>(
        &self,
        call: Call<T>,
    ) -> impl Future<Output = Result<T, Error>> + Send;

    /// Sends a batch of calls as one step.
    fn step_batch(&self, batch: &Batch) -> impl Future<Output = Result<(), Error>> + Send;

    /// Runs a sequence of steps. A [`Server`](super::Server) completes them before it returns.
    fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Self::Answer<T>;
}
