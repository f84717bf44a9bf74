//! The URIs that the frontier stores for one crawl host group.
//!
//! [`Uris`] is a value that is only changed by applying [`Op`]s. [`Op`]s are replicated unchanged,
//! and do not depend on a clock. `queue` contains the queued URIs, and `share` selects the next
//! execution.
//!
//! Total memory for URLs of 91 bytes that share only their host: a group takes about 240 bytes,
//! plus 110 for its first URI. With ten URIs, each URI takes 88 to 100 bytes; with a hundred or a
//! million, 98 bytes. URLs in the same directory take 86 bytes each.

mod bounds;
mod change;
mod compact;
mod encoding;
mod execution;
mod executions;
mod kept;
mod op;
mod page;
mod queue;
mod record;
mod share;
#[cfg(test)]
mod tests;
mod translation;

use super::time::Millis;
use crawlspace_host::defrag::Mover;

pub use bounds::{EXECUTION_BYTES, MAX_WEIGHT, URI_BYTES};
pub(super) use encoding::{Bytes, first_uri};
pub use encoding::{CHUNK_BYTES, ENVELOPE};
pub use kept::{Kept, Words};
pub use op::{Changed, End, Op};
pub use record::Position;

use change::Unplaced;
use executions::Gone;
use queue::Queue;
pub(super) use queue::raw_form;
use share::Executions;

/// The queued and leased URIs of a group.
#[derive(Clone, Debug, Default)]
pub struct Uris {
    queue: Queue,
    executions: Executions,
    leases: Vec<Lease>,
    /// Insertion order of the URI that is added next.
    next: u64,
}

/// A leased URI.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    token: u64,
    place: Position,
    attempts: u32,
    dropped: bool,
    uri: Box<[u8]>,
}

/// A leased URI, as returned to callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased<'a> {
    /// Token of the lease.
    pub token: u64,
    /// The crawl execution.
    pub execution: &'a [u8],
    /// The stored form of the URI.
    pub stored: &'a [u8],
    /// Number of failed attempts.
    pub attempts: u32,
    /// Number of links between a seed and the URI.
    pub depth: u32,
    /// Due time of the URI.
    pub due: Millis,
    /// True if the execution was dropped during the lease. The URI is then not counted any more.
    pub dropped: bool,
}

/// The URIs of one execution in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    /// Number of the execution. Numbers increase in order of appearance.
    pub number: u64,
    /// The crawl execution.
    pub id: &'a [u8],
    /// Weight of the execution.
    pub weight: u64,
    /// Number of queued URIs.
    pub queued: u64,
    /// Number of counted URIs: all queued URIs, and leased URIs that were not dropped.
    pub uris: u64,
}

/// Summary of the stored URIs of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// Number of counted URIs; see [`Uris::len`].
    pub uris: u64,
    /// Due time of the first queued URI.
    pub earliest: Option<Millis>,
}

/// A queued URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The crawl execution.
    pub execution: Vec<u8>,
    /// The weight of the execution.
    pub weight: u64,
    /// Due time of the URI.
    pub due: Millis,
    /// Number of links between a seed and the URI.
    pub depth: u32,
    /// Number of failed attempts.
    pub attempts: u32,
    /// The URI.
    pub uri: Vec<u8>,
}

/// Maximum number of leased URIs per group. This number exceeds the maximum number of concurrent
/// fetches.
const MAX_LEASES: usize = 4096;

/// Approximate maximum size of the URIs in a batch, in bytes.
const BATCH_BYTES: usize = 1 << 20;

impl Uris {
    /// Returns true if no URI is queued or leased. The server deletes the key of an empty value.
    pub fn is_empty(&self) -> bool {
        self.queue.len() == 0 && self.leases.is_empty()
    }

    /// Returns the number of counted URIs: all queued URIs, and leased URIs that were not dropped.
    pub fn len(&self) -> u64 {
        let leased = self.leases.iter().filter(|lease| !lease.dropped).count();
        self.queue.len() + leased as u64
    }

    /// Returns the number of counted URIs of one execution.
    pub fn count_of(&self, execution: &[u8]) -> u64 {
        self.executions
            .find(execution)
            .map_or(0, |e| e.queued + u64::from(e.leased))
    }

    /// Returns the due time of the first queued URI of an execution, and true if a counted URI of the execution
    /// is leased.
    pub fn due_for(&self, execution: &[u8]) -> (Option<Millis>, bool) {
        let found = self.executions.find(execution);
        found.map_or((None, false), |e| {
            ((e.queued > 0).then_some(e.earliest), e.leased > 0)
        })
    }

    /// Returns the next execution among the executions that are not `paused` and have a due URI.
    /// Selects executions in proportion to their weights. If several executions have the same pass,
    /// selects the execution that appeared first.
    pub fn pick(&self, now: Millis, paused: &dyn Fn(&[u8]) -> bool) -> Option<&[u8]> {
        if self.is_full() {
            return None;
        }
        self.executions.pick(now, paused).map(|e| &*e.id)
    }

    /// Returns true if no further URI can be leased.
    fn is_full(&self) -> bool {
        self.leases.len() >= MAX_LEASES
    }

    /// Returns the due time of the first queued URI, or `None` if no URI is queued.
    pub fn earliest(&self) -> Option<Millis> {
        let queued = self.executions.iter().filter(|e| e.queued > 0);
        queued.map(|e| e.earliest).min()
    }

    /// Returns the number of counted URIs, and the due time of the first queued URI.
    pub fn stock(&self) -> Stock {
        Stock {
            uris: self.len(),
            earliest: self.earliest(),
        }
    }

    /// Returns the earliest due time over the executions that are not `paused`.
    pub fn earliest_of(&self, paused: &dyn Fn(&[u8]) -> bool) -> Option<Millis> {
        let queued = self.executions.iter().filter(|e| e.queued > 0);
        queued.filter(|e| !paused(&e.id)).map(|e| e.earliest).min()
    }

    /// Returns the first URI of a lease.
    pub fn leased(&self, token: u64) -> Option<Leased<'_>> {
        self.leases().find(|lease| lease.token == token)
    }

    /// Returns all leased URIs, in the order in which they were leased.
    pub fn leases(&self) -> impl Iterator<Item = Leased<'_>> {
        self.leases.iter().map(|lease| Leased {
            token: lease.token,
            execution: self
                .executions
                .by_number(lease.place.execution)
                .map_or(&[], |e| &e.id),
            stored: &lease.uri,
            attempts: lease.attempts,
            depth: lease.place.depth,
            due: lease.place.due,
            dropped: lease.dropped,
        })
    }

    /// Returns the executions with counted URIs, in order of appearance.
    pub fn executions(&self) -> impl Iterator<Item = Share<'_>> {
        self.executions_from(0)
    }

    /// Returns the executions with counted URIs, in order of appearance, starting with a number.
    pub fn executions_from(&self, number: u64) -> impl Iterator<Item = Share<'_>> {
        let all = self.executions.from(number);
        let count = all.filter(|e| e.queued > 0 || e.leased > 0);
        count.map(|e| Share {
            number: e.number,
            id: &e.id,
            weight: e.weight.into(),
            queued: e.queued,
            uris: e.queued + u64::from(e.leased),
        })
    }

    /// Returns the first queued URIs, at most `limit`. If the URIs are long, returns fewer URIs,
    /// but at least one.
    pub fn batch(&self, limit: usize) -> Vec<Queued> {
        self.page(Position::default(), limit).0
    }

    /// Returns up to `limit` queued URIs in order, starting at a position, and the position at
    /// which to continue. If the URIs are long, returns fewer URIs, but at least one.
    pub fn page(&self, from: Position, limit: usize) -> (Vec<Queued>, Option<Position>) {
        let mut page = Vec::new();
        let mut bytes = 0;
        let mut next = None;
        self.queue.walk(from, &mut |record| {
            if page.len() >= limit || bytes >= BATCH_BYTES {
                next = Some(record.place);
                return false;
            }
            let execution = self.executions.by_number(record.place.execution);
            let execution = execution.expect("a queued URI has an execution");
            bytes += record.uri.len();
            page.push(Queued {
                execution: execution.id.to_vec(),
                weight: execution.weight.into(),
                due: record.place.due,
                depth: record.place.depth,
                attempts: record.attempts,
                uri: record.uri.to_vec(),
            });
            true
        });
        (page, next)
    }

    /// Returns true if a URI is already queued or leased for an execution. Adding the URI then
    /// changes nothing.
    pub fn contains(&self, execution: &[u8], uri: &[u8]) -> bool {
        let execution = self.executions.find(execution);
        execution.is_some_and(|execution| self.knows(execution.number, uri))
    }

    /// Returns the due time of a URI that is queued or leased for an execution.
    pub(super) fn due_of(&self, execution: &[u8], uri: &[u8]) -> Option<Millis> {
        let number = self.executions.find(execution)?.number;
        let mut leases = self.leases.iter().filter(|lease| !lease.dropped);
        let leased = leases.find(|lease| lease.place.execution == number && *lease.uri == *uri);
        let place = leased.map(|lease| lease.place);
        place
            .or_else(|| self.queue.find(number, uri))
            .map(|place| place.due)
    }

    /// Returns the URIs that [`Op::Drop`] would remove.
    pub(super) fn dropped_by(&self, execution: &[u8], limit: u64) -> Vec<Box<[u8]>> {
        let Some(number) = self.executions.find(execution).map(|e| e.number) else {
            return Vec::new();
        };
        let leases = self.leases.iter();
        let leased = leases.filter(|lease| lease.place.execution == number && !lease.dropped);
        let mut uris: Vec<Box<[u8]>> = leased.map(|lease| lease.uri.clone()).collect();
        let mut left = limit;
        self.queue.walk(Position::first_of(number), &mut |record| {
            let is_next = left > 0 && record.place.execution == number;
            if is_next {
                left -= 1;
                uris.push(record.uri.into());
            }
            is_next
        });
        uris
    }

    /// Returns true if a URI is queued or leased for an execution.
    fn knows(&self, execution: u64, uri: &[u8]) -> bool {
        let leased = self.leases.iter().any(|lease| {
            !lease.dropped && lease.place.execution == execution && *lease.uri == *uri
        });
        leased || self.queue.find(execution, uri).is_some()
    }

    /// Returns true if an execution has URIs, or had URIs and its pass is still ahead of the clock.
    pub(super) fn has_execution(&self, execution: &[u8]) -> bool {
        self.executions.find(execution).is_some()
    }

    /// Returns the ids of all executions, in order of appearance.
    pub(super) fn ids(&self) -> impl Iterator<Item = &[u8]> {
        self.executions.iter().map(|execution| &*execution.id)
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        let leased: usize = self
            .leases
            .iter()
            .map(|lease| lease.uri.len().next_multiple_of(16))
            .sum();
        size_of::<Uris>()
            + self.queue.memory()
            + self.executions.memory()
            + self.leases.capacity() * size_of::<Lease>()
            + leased
    }

    /// Moves a part of the memory to reduce fragmentation, starting at a cursor. Returns the next cursor; 0
    /// at the end.
    pub fn defrag(&mut self, cursor: u64, mover: &mut Mover<'_>) -> u64 {
        if cursor == 0 {
            mover.list(&mut self.leases);
            let uris = self.leases.iter_mut().map(|lease| &mut lease.uri);
            uris.for_each(|uri| mover.boxed(uri));
        }
        self.queue.defrag(cursor, mover)
    }

    /// Returns the number of memory blocks to be freed with the value.
    pub fn free_effort(&self) -> usize {
        1 + self.queue.pieces() + self.leases.len() + self.executions.pieces()
    }

    /// Applies a change. The same changes in the same order result in the same value on every
    /// server.
    pub fn apply(&mut self, op: &Op<'_>) -> Changed {
        self.apply_noting(op, &mut |_| ())
    }

    /// Applies a change, and calls `gone` with the name of each execution that is removed from the
    /// group.
    pub(super) fn apply_noting(&mut self, op: &Op<'_>, gone: Gone<'_>) -> Changed {
        self.apply_to(op, false, gone)
    }

    /// Applies a change as [`Uris::apply_noting`] does. With `is_new`, does not check whether an
    /// added URI is already present: the caller knows that the execution does not have the URI.
    pub(super) fn apply_to(&mut self, op: &Op<'_>, is_new: bool, gone: Gone<'_>) -> Changed {
        if self.is_empty() {
            // Reset the empty value, so that the result is the same as if the key had been deleted
            // in the meantime. The remaining executions are freed together with the key, in the
            // background if there are many of them.
            self.ids().for_each(&mut *gone);
            *self = Uris::default();
        }
        match *op {
            Op::Add {
                execution,
                weight,
                due,
                depth,
                attempts,
                uri,
            } => {
                let uri = Unplaced {
                    due,
                    depth,
                    attempts,
                    uri,
                    is_new,
                };
                self.add(execution, weight, uri)
            }
            Op::Take {
                token,
                execution,
                now,
            } => self.take(token, execution, now, gone),
            Op::Done { token, .. } => self.done(token, gone),
            Op::Return { token, due, failed } => self.put_back(token, due, failed, gone),
            Op::Drop { execution, limit } => self.drop_execution(execution, limit, gone),
            Op::Remove { execution, uri } => self.remove(execution, uri, gone),
            Op::End { execution, uri, .. } => self.end_uri(execution, uri, gone),
            Op::Reschedule {
                execution,
                uri,
                due,
            } => self.reschedule(execution, uri, due),
            Op::Load { chunk } => match self.load(chunk) {
                Ok(uris) => Changed::Loaded(uris),
                Err(_) => Changed::Nothing,
            },
        }
    }
}

/// Compares the contents in order, regardless of their layout in memory.
impl PartialEq for Uris {
    fn eq(&self, other: &Uris) -> bool {
        if self.is_empty() && other.is_empty() {
            return true;
        }
        let mut same = self.next == other.next
            && self.executions == other.executions
            && self.leases == other.leases
            && self.queue.len() == other.queue.len();
        let mut from = Position::first_of(0);
        self.queue.walk(from, &mut |ours| {
            other.queue.walk(from, &mut |theirs| {
                same &= ours == theirs;
                false
            });
            from = ours.place.next();
            same
        });
        same
    }
}
