//! Changes of the URIs of a group.

use super::bounds::{MAX_INTEGER, MAX_NUMBER, STORED_BYTES};
use super::executions::Gone;
use super::op::Changed;
use super::queue::Record;
use super::record::Position;
use super::{Lease, Uris};
use crate::chg::time::Millis;

/// A URI that is added.
pub(super) struct Unplaced<'a> {
    pub due: Millis,
    pub depth: u32,
    pub attempts: u32,
    pub uri: &'a [u8],
    /// True if the execution certainly does not have the URI.
    pub is_new: bool,
}

impl Uris {
    pub(super) fn add(
        &mut self,
        execution: &[u8],
        weight: Option<u64>,
        added: Unplaced<'_>,
    ) -> Changed {
        let Unplaced { due, uri, .. } = added;
        if !(1..=STORED_BYTES).contains(&uri.len()) {
            return Changed::Nothing;
        }
        if self.next >= MAX_NUMBER {
            return Changed::Nothing;
        }
        let Some(number) = self.executions.enter(execution, weight) else {
            return Changed::Nothing;
        };
        let weighed = weight.is_some_and(|weight| self.executions.weigh(number, weight));
        if !added.is_new && self.knows(number, uri) {
            return if weighed {
                Changed::Weighed
            } else {
                Changed::Nothing
            };
        }
        let place = Position {
            execution: number,
            depth: added.depth,
            due: due.min(MAX_INTEGER),
            seq: self.next,
        };
        self.enqueue(Record {
            place,
            attempts: added.attempts,
            uri,
        });
        Changed::Added
    }

    /// Queues a URI that the execution does not have yet.
    pub(super) fn enqueue(&mut self, record: Record<'_>) {
        let mut record = record;
        self.next = self.next.max(record.place.seq + 1);
        while !self.queue.insert(record) {
            // Two URIs can have the same position only in a forged value.
            record.place.seq = (record.place.seq + 1) % MAX_NUMBER;
            self.next = self.next.max(record.place.seq + 1);
        }
        let execution = self.executions.by_number_mut(record.place.execution);
        let execution = execution.expect("a queued URI has an execution");
        execution.queued += 1;
        execution.earliest = execution.earliest.min(record.place.due);
    }

    /// Removes a URI from the queue.
    pub(super) fn dequeue(&mut self, place: Position) -> Option<(u32, Box<[u8]>)> {
        let removed = self.queue.remove(place)?;
        let execution = self.executions.by_number_mut(place.execution);
        let execution = execution.expect("a queued URI has an execution");
        execution.queued -= 1;
        if execution.earliest == place.due {
            execution.earliest = Millis::MAX;
            if execution.queued > 0 {
                let mut earliest = Millis::MAX;
                self.queue.each_depth(place.execution, |first| {
                    earliest = earliest.min(first.due);
                    true
                });
                let execution = self.executions.by_number_mut(place.execution);
                execution.expect("as above").earliest = earliest;
            }
        }
        Some(removed)
    }

    pub(super) fn take(
        &mut self,
        token: u64,
        execution: &[u8],
        now: Millis,
        gone: Gone<'_>,
    ) -> Changed {
        let known = self.executions.find(execution);
        let Some(execution) = known.filter(|e| e.queued > 0 && e.earliest <= now) else {
            return Changed::Nothing;
        };
        let number = execution.number;
        let mut leases = self.leases.iter();
        let of_other = |lease: &Lease| lease.token == token && lease.place.execution != number;
        if leases.any(of_other) || self.is_full() {
            return Changed::Nothing;
        }
        let mut next = None;
        self.queue.each_depth(number, |first| {
            next = (first.due <= now).then_some(first);
            next.is_none()
        });
        let Some(place) = next else {
            return Changed::Nothing;
        };
        let Some((attempts, uri)) = self.dequeue(place) else {
            return Changed::Nothing;
        };
        if self.leases.is_empty() {
            self.leases.reserve_exact(1);
        }
        self.leases.push(Lease {
            token,
            place,
            attempts,
            dropped: false,
            uri,
        });
        if let Some(execution) = self.executions.by_number_mut(number) {
            execution.leased += 1;
            execution.held += 1;
        }
        self.executions.advance(number, gone);
        Changed::Taken
    }

    /// Ends the lease of the first URI under a token.
    fn end(&mut self, token: u64) -> Option<Lease> {
        let at = self.leases.iter().position(|lease| lease.token == token)?;
        let lease = self.leases.remove(at);
        if self.leases.is_empty() {
            self.leases = Vec::new();
        }
        if let Some(execution) = self.executions.by_number_mut(lease.place.execution) {
            execution.held -= 1;
            execution.leased -= u32::from(!lease.dropped);
        }
        Some(lease)
    }

    pub(super) fn done(&mut self, token: u64, gone: Gone<'_>) -> Changed {
        let Some(lease) = self.end(token) else {
            return Changed::Nothing;
        };
        self.executions.drop_idle(lease.place.execution, gone);
        Changed::Removed(u64::from(!lease.dropped))
    }

    pub(super) fn put_back(
        &mut self,
        token: u64,
        due: Option<Millis>,
        failed: bool,
        gone: Gone<'_>,
    ) -> Changed {
        let Some(lease) = self.end(token) else {
            return Changed::Nothing;
        };
        if lease.dropped {
            self.executions.drop_idle(lease.place.execution, gone);
            return Changed::Removed(0);
        }
        let mut place = lease.place;
        place.due = due.unwrap_or(place.due).min(MAX_INTEGER);
        self.enqueue(Record {
            place,
            attempts: lease.attempts.saturating_add(failed.into()),
            uri: &lease.uri,
        });
        Changed::Returned
    }

    pub(super) fn drop_execution(
        &mut self,
        execution: &[u8],
        limit: u64,
        gone: Gone<'_>,
    ) -> Changed {
        let Some(number) = self.executions.find(execution).map(|e| e.number) else {
            return Changed::Nothing;
        };
        let mut removed = 0;
        for lease in &mut self.leases {
            if lease.place.execution == number && !lease.dropped {
                lease.dropped = true;
                removed += 1;
            }
        }
        if let Some(execution) = self.executions.by_number_mut(number) {
            execution.leased = 0;
        }
        let mut left = limit;
        while left > 0 {
            let first = self.queue.first_from(Position::first_of(number));
            let Some(place) = first.filter(|place| place.execution == number) else {
                break;
            };
            self.dequeue(place);
            removed += 1;
            left -= 1;
        }
        self.executions.drop_idle(number, gone);
        match removed {
            0 => Changed::Nothing,
            n => Changed::Removed(n),
        }
    }

    pub(super) fn remove(&mut self, execution: &[u8], uri: &[u8], gone: Gone<'_>) -> Changed {
        let Some(number) = self.executions.find(execution).map(|e| e.number) else {
            return Changed::Nothing;
        };
        let Some(place) = self.queue.find(number, uri) else {
            return Changed::Nothing;
        };
        self.dequeue(place);
        self.executions.drop_idle(number, gone);
        Changed::Removed(1)
    }

    /// Drops a leased URI from its lease. Returns the position of the URI in `leases`; `None` if
    /// the URI is not leased.
    fn drop_lease(&mut self, number: u64, uri: &[u8]) -> Option<usize> {
        let at = self.leases.iter().position(|lease| {
            !lease.dropped && lease.place.execution == number && *lease.uri == *uri
        })?;
        self.leases[at].dropped = true;
        if let Some(execution) = self.executions.by_number_mut(number) {
            execution.leased -= 1;
        }
        Some(at)
    }

    pub(super) fn end_uri(&mut self, execution: &[u8], uri: &[u8], gone: Gone<'_>) -> Changed {
        let Some(number) = self.executions.find(execution).map(|e| e.number) else {
            return Changed::Nothing;
        };
        match self.drop_lease(number, uri) {
            Some(_) => Changed::Removed(1),
            None => self.remove(execution, uri, gone),
        }
    }

    pub(super) fn reschedule(&mut self, execution: &[u8], uri: &[u8], due: Millis) -> Changed {
        let Some(number) = self.executions.find(execution).map(|e| e.number) else {
            return Changed::Nothing;
        };
        let due = due.min(MAX_INTEGER);
        let leased = self.drop_lease(number, uri).map(|at| {
            let lease = &self.leases[at];
            (lease.place, lease.uri.clone(), true)
        });
        let queued = || {
            let place = self.queue.find(number, uri)?;
            let (attempts, uri) = self.dequeue(place)?;
            Some((place, uri, place.due != due || attempts > 0))
        };
        let Some((place, uri, changes)) = leased.or_else(queued) else {
            return Changed::Nothing;
        };
        self.enqueue(Record {
            place: Position { due, ..place },
            attempts: 0,
            uri: &uri,
        });
        if changes {
            Changed::Returned
        } else {
            Changed::Nothing
        }
    }
}
