//! A server handle that fails at a given step.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use crawlspace_client::{Ask, Batch, Call, Error, Server, Steps};

/// Moment of the failure relative to a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Fails before the request reaches the server.
    Before,
    /// Fails after the server has executed the command.
    After,
}

/// A server handle whose client dies at a given step: this step and all later ones fail.
#[derive(Clone)]
pub struct Mortal {
    server: Server,
    when: When,
    /// Number of steps until the failure. Negative after the failure.
    left: Arc<AtomicI64>,
}

impl Mortal {
    pub fn after(steps: i64, when: When, server: &Server) -> Mortal {
        Mortal {
            server: server.clone(),
            when,
            left: Arc::new(AtomicI64::new(steps)),
        }
    }

    /// Returns true if the failure has happened.
    pub fn died(&self) -> bool {
        self.left.load(Ordering::SeqCst) < 0
    }

    fn live<T>(&self, step: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        match self.left.fetch_sub(1, Ordering::SeqCst) {
            1.. => step(),
            0 if self.when == When::After => step().and(Err(death())),
            _ => Err(death()),
        }
    }
}

fn death() -> Error {
    Server::open("redis://127.0.0.1:1/").expect_err("nobody listens on port 1")
}

impl Ask for Mortal {
    type Answer<T: Send + 'static> = Result<T, Error>;

    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Error> {
        self.live(|| self.server.ask(call))
    }
}

impl Steps for Mortal {
    async fn step<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Error> {
        self.ask(call)
    }

    async fn step_batch(&self, batch: &Batch) -> Result<(), Error> {
        self.live(|| batch.send(&self.server))
    }

    fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.server.run(steps)
    }
}
