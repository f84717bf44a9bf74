//! A line of clients that wait for something, served in the order in which they came.

use std::collections::VecDeque;

use super::api::Ctx;
use super::blocked::{BlockedClient, Gone, TimedOut};
use super::reply::Outcome;

/// Clients that wait, with what each waits for.
pub struct Line<W> {
    /// In the order in which they came.
    pub all: VecDeque<Waiting<W>>,
}

/// A client that waits. It is answered once.
pub struct Waiting<W> {
    client: BlockedClient,
    /// When it has waited enough. An alarm of ours watches this, and not the server's timer: that one may
    /// drop an answer that was given in the same turn of the event loop.
    until: Option<u64>,
    /// What it waits for.
    pub wish: W,
}

impl<W> Waiting<W> {
    /// Whether it has waited enough.
    pub fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Answers it.
    pub fn answer(self, outcome: Outcome) {
        self.client.answer(outcome);
    }
}

impl<W> Line<W> {
    /// Makes the client of `ctx`, who may block, wait at the end of the line until a time.
    pub fn join(&mut self, ctx: Ctx, hooks: (Gone, TimedOut), until: Option<u64>, wish: W) {
        self.all.push_back(Waiting {
            client: BlockedClient::block(ctx, hooks.0, Some(hooks.1)),
            until,
            wish,
        });
    }

    /// Takes a client out whose wait was ended from outside.
    pub fn leave(&mut self, client: BlockedClient) -> Option<W> {
        let at = self
            .all
            .iter()
            .position(|waiting| waiting.client == client)?;
        self.all.remove(at).map(|waiting| waiting.wish)
    }

    /// Takes out those who are meant, in order.
    pub fn take(&mut self, meant: impl Fn(&Waiting<W>) -> bool) -> Vec<Waiting<W>> {
        let all = std::mem::take(&mut self.all).into_iter();
        let (taken, kept): (_, Vec<_>) = all.partition(meant);
        self.all = kept.into();
        taken
    }

    /// Gives those who are meant the same answer.
    pub fn end(&mut self, outcome: &Outcome, meant: impl Fn(&W) -> bool) {
        for waiting in self.take(|waiting| meant(&waiting.wish)) {
            waiting.answer(outcome.clone());
        }
    }

    /// When the first one has waited enough; `None` if all wait for ever.
    pub fn until(&self) -> Option<u64> {
        self.all.iter().filter_map(|waiting| waiting.until).min()
    }
}
