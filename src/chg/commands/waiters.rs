//! Clients that wait for a lease.
//!
//! The clients of a frontier wait in one FIFO queue. Whenever a group becomes due, the waiting
//! clients are served in order of arrival; a client that waits for URIs of an execution holds up
//! only clients that wait for the same execution. If a command makes the group due, that command
//! serves the queue. Otherwise, the alarm, a timer that is set to the due time of the next group,
//! serves the queue.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::chg::error::{Error, Result};
use crate::chg::next::{Ask, Search};
use crate::chg::time::Millis;
use crawlspace_host::server::alarm;
use crawlspace_host::server::config;

use super::frontiers::CachedFrontier;
use super::store::FrontierKeys;

impl CachedFrontier {
    /// Grants leases to waiting clients, the longest-waiting client first, and sets the alarm for
    /// later events.
    pub fn serve(&mut self, keys: &mut FrontierKeys, now: Millis) -> Result<()> {
        if self.waiters.all.is_empty() {
            return self.arrange(keys, now, false);
        }
        self.frontier.rounding = u64::from(!self.simulated);
        let start = Instant::now();
        let budget = Duration::from_micros(config::slice_us());
        let mut time = || start.elapsed() < budget;
        let mut unfinished = false;
        // Executions for which no URI is due. The entry `None` means that no group is due for any
        // execution.
        let mut unmet = BTreeSet::new();
        let mut at = 0;
        while let Some(waiting) = self.waiters.all.get_mut(at) {
            let over = waiting.is_over(now);
            let first = &mut waiting.wish;
            let is_unmet = unmet.contains(&first.execution);
            if is_unmet && !first.searches {
                at += 1;
                continue;
            }
            let ask = Ask {
                lease: first.lease,
                count: first.count,
                uris: first.uris,
                gate: first.gate,
                execution: first.execution.as_deref(),
                after: first
                    .after
                    .as_ref()
                    .map(|(chg, token, _)| (&chg[..], *token)),
            };
            let searched = if is_unmet {
                Ok(Search::Complete)
            } else {
                self.frontier
                    .next(keys, &ask, now, &mut time, &mut first.leases)
            };
            let over = first.searches || over;
            let waits_on = match searched {
                Ok(Search::Unfinished) => {
                    unfinished = true;
                    break;
                }
                Ok(Search::Complete) => first.leases.is_empty() && !over,
                Err(_) => false,
            };
            if waits_on {
                // Clients behind this one may wait for a different execution.
                unmet.insert(first.execution.clone());
                at += 1;
                continue;
            }
            let Some(mut waiting) = self.waiters.all.remove(at) else {
                break;
            };
            let waiter = &mut waiting.wish;
            let answer = match searched {
                Ok(_) => waiter.answer(&mut self.frontier, keys),
                // A client that already has leases gets its leases instead of the error.
                Err(_) if !waiter.leases.is_empty() => waiter.answer(&mut self.frontier, keys),
                Err(error) => Err(error),
            };
            waiting.answer(answer.map_err(|error| error.to_string()));
        }
        self.arrange(keys, now, unfinished)
    }

    /// Updates the metric of waiting clients, and sets the alarm.
    pub fn arrange(
        &mut self,
        keys: &mut FrontierKeys,
        now: Millis,
        unfinished: bool,
    ) -> Result<()> {
        let mut wake = if unfinished {
            Some(now)
        } else if self.waiters.all.is_empty() {
            self.frontier.next_idle(keys)?
        } else {
            let until = self.waiters.until();
            let due = self.next_due(keys, now)?;
            [until, due].into_iter().flatten().min()
        };
        if !self.touched.is_empty() {
            wake = Some(now);
        }
        if self.simulated && self.waiters.all.is_empty() {
            wake = None;
        }
        self.wake = wake;
        if let Some(wake) = wake {
            alarm::set(wake);
        }
        Ok(())
    }

    /// Returns the earliest time when a waiting client may be served or a group must be deleted.
    fn next_due(&mut self, keys: &mut FrontierKeys, now: Millis) -> Result<Option<Millis>> {
        let waiting = self.waiters.all.iter();
        let wanted: BTreeSet<_> = waiting.map(|waiting| &waiting.wish.execution).collect();
        let mut due = None;
        for execution in wanted {
            let next = match execution {
                None => self.frontier.wake_at(keys, now)?,
                // If the storage has changed, the next search sends the client an error.
                Some(execution) => match self.frontier.wake_for(keys, execution) {
                    Err(Error::Plain | Error::Moving) => Some(now),
                    next => next?,
                },
            };
            due = [due, next].into_iter().flatten().min();
        }
        let others = [
            self.frontier.later.first_deadline(keys)?,
            self.frontier.next_idle(keys)?,
        ];
        Ok(others.into_iter().chain([due]).flatten().min())
    }

    /// Performs all actions that are due.
    pub(super) fn awake(&mut self, keys: &mut FrontierKeys, now: Millis) -> Result<()> {
        self.frontier.types.check(keys)?;
        for id in std::mem::take(&mut self.touched) {
            self.frontier.requeue_if_idle(keys, &id, now)?;
        }
        self.frontier.evict_idle(keys, now)?;
        self.serve(keys, now)?;
        // Send replies to clients whose timeout has passed, even if they are behind a client that
        // keeps waiting.
        for mut waiting in self.waiters.take(|waiting| waiting.is_over(now)) {
            let answer = waiting.wish.answer(&mut self.frontier, keys);
            waiting.answer(answer.map_err(|error| error.to_string()));
        }
        self.arrange(keys, now, self.wake == Some(now))
    }
}
