//! A batch together with all data that is needed to filter it. Any thread can continue a batch.

use std::sync::Arc;

use super::condition::Condition;
use super::error::Error;
use super::expression::Bounds;
use super::filter::{Batch, Progress, Request};
use super::space::{Conditions, Lent};
use super::view::View;
use crawlspace_host::reply::Reply;
use crawlspace_host::turns::{Next, Turn};

/// A batch that is filtered in several turns.
pub struct Task {
    request: Request,
    view: View,
    conditions: Conditions,
    lent: Lent,
    condition: Option<Arc<Condition>>,
    progress: Progress,
}

impl Task {
    /// Creates a task for a batch that has not started yet. Pass `condition` if the condition is
    /// prepared already.
    pub fn new(
        request: Request,
        view: View,
        conditions: Conditions,
        lent: Lent,
        condition: Option<Arc<Condition>>,
        batch: Batch<'_>,
    ) -> Task {
        Task {
            progress: request.begin(batch),
            request,
            view,
            conditions,
            lent,
            condition,
        }
    }

    /// Filters the whole batch without a pause.
    ///
    /// # Errors
    /// Fails if the request or the batch is invalid.
    pub fn at_once(&mut self, batch: Batch<'_>) -> Result<Reply, Error> {
        struct AtOnce;
        impl Turn for AtOnce {
            fn next(&mut self) -> Next {
                Next::GoOn
            }
        }
        loop {
            if let Some(outcome) = self.go_on(batch, &mut AtOnce) {
                return outcome;
            }
        }
    }

    /// Filters the batch of the task until the turn ends. Returns the reply when the batch is
    /// complete.
    pub fn go_on(&mut self, batch: Batch<'_>, turn: &mut dyn Turn) -> Option<Result<Reply, Error>> {
        let condition = match self.condition.clone() {
            Some(condition) => condition,
            None => {
                // Preparing the condition may take a whole turn.
                let bounds = Bounds::WIDE;
                match self.conditions.of(&self.request, &self.view, bounds) {
                    Err(error) => return Some(Err(error)),
                    Ok(condition) => self.condition = Some(condition.clone()),
                }
                return self.pause_or_go_on(batch, turn);
            }
        };
        let (cache, progress) = (self.lent.cache(), &mut self.progress);
        let request = &self.request;
        let outcome = request.go_on(&self.view, &condition, cache, batch, progress, turn);
        if outcome.is_none() {
            self.lent.keep_while_waiting();
        }
        outcome
    }

    fn pause_or_go_on(
        &mut self,
        batch: Batch<'_>,
        turn: &mut dyn Turn,
    ) -> Option<Result<Reply, Error>> {
        match turn.next() {
            Next::GoOn => self.go_on(batch, turn),
            Next::Pause => None,
            Next::Enough => Some(Err(Error::too_long())),
        }
    }
}
