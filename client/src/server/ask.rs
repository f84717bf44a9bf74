//! Whatever takes calls.

use std::future::Future;
use std::time::Duration;

use super::{Batch, Call, Error, TIMEOUT};

/// Whatever takes calls.
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_client::Ask;
/// /// Works over a server, whose answers are there, and over one whose answers are futures.
/// fn commit<S: Ask>(server: &S) -> S::Answer<crawlspace_client::dedupe::Committed> {
///     Index::on(server, "{coll-42}:").commit(b"crawl-1")
/// }
/// ```
pub trait Ask: Clone {
    /// What a call comes to: a `Result` for a [`Server`](super::Server), a future for an [`AsyncServer`](super::AsyncServer), a
    /// [`Pending`](super::Pending) for a [`Batch`].
    type Answer<T: Send + 'static>;

    /// Sends the call.
    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Self::Answer<T>;

    /// Timeout of calls that wait: the server must not be asked to let a call wait for longer.
    fn job_timeout(&self) -> Duration {
        TIMEOUT
    }
}

/// Servers that can do several steps, where a call depends on the answer to the one before.
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
    /// Maximum time for which a server may be asked to let a call wait, before it is asked again.
    fn max_wait(&self) -> Duration {
        self.job_timeout() / 2
    }

    /// One step.
    fn step<T: Send + 'static>(
        &self,
        call: Call<T>,
    ) -> impl Future<Output = Result<T, Error>> + Send;

    /// One step of many calls at once.
    fn step_batch(&self, batch: &Batch) -> impl Future<Output = Result<(), Error>> + Send;

    /// All steps. A [`Server`](super::Server) takes them before it returns.
    fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Self::Answer<T>;
}
