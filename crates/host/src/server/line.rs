//! A queue of blocked clients, served in the order of arrival.

use std::collections::VecDeque;

use super::api::Ctx;
use super::blocked::{BlockedClient, Gone, TimedOut};
use super::reply::Outcome;

/// Blocked clients, each with its request.
pub struct Line<W> {
    /// Blocked clients in the order of arrival.
    pub all: VecDeque<Waiting<W>>,
}

/// A blocked client, which gets one reply.
pub struct Waiting<W> {
    client: BlockedClient,
    /// Deadline of the wait. The module's alarm checks the deadline, because the server's timer may
    /// drop a reply that is created in the same turn of the event loop.
    until: Option<u64>,
    /// The request of the client.
    pub wish: W,
}

impl<W> Waiting<W> {
    /// Returns true if the deadline has passed.
    pub fn is_over(&self, now: u64) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Sends the reply to the client.
    pub fn answer(self, outcome: Outcome) {
        self.client.answer(outcome);
    }
}

impl<W> Line<W> {
    /// Blocks the client of `ctx` and appends it to the queue, with an optional deadline. The
    /// caller must have checked that the client can be blocked.
    pub fn join(&mut self, ctx: Ctx, hooks: (Gone, TimedOut), until: Option<u64>, wish: W) {
        self.all.push_back(Waiting {
            client: BlockedClient::block(ctx, hooks.0, Some(hooks.1)),
            until,
            wish,
        });
    }

    /// Removes a client that other code has unblocked.
    pub fn leave(&mut self, client: BlockedClient) -> Option<W> {
        let at = self
            .all
            .iter()
            .position(|waiting| waiting.client == client)?;
        self.all.remove(at).map(|waiting| waiting.wish)
    }

    /// Removes the clients for which `meant` returns true, and returns them in order.
    pub fn take(&mut self, meant: impl Fn(&Waiting<W>) -> bool) -> Vec<Waiting<W>> {
        let all = std::mem::take(&mut self.all).into_iter();
        let (taken, kept): (_, Vec<_>) = all.partition(meant);
        self.all = kept.into();
        taken
    }

    /// Removes all clients for which `meant` returns true, and sends the same outcome to each.
    pub fn end(&mut self, outcome: &Outcome, meant: impl Fn(&W) -> bool) {
        for waiting in self.take(|waiting| meant(&waiting.wish)) {
            waiting.answer(outcome.clone());
        }
    }

    /// Returns the earliest deadline. Returns `None` if all clients wait without a deadline.
    pub fn until(&self) -> Option<u64> {
        self.all.iter().filter_map(|waiting| waiting.until).min()
    }
}
