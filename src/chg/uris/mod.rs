//! The URIs that the frontier keeps for one crawl host group.
//!
//! [`Uris`] is a value: it changes by [`Op`]s alone, which are replicated as they are, and knows no
//! clock. Queued URIs stand in `queue`, whose turn it is says `share`.
//!
//! For URLs of 91 bytes that share their host and nothing else, all included: a group takes about 240
//! bytes and 110 for its first URI, ten URIs take 88 to 100 bytes each, a hundred or a million 98; with
//! a directory in common, 86. A change takes some microseconds however many there are, because nothing
//! grows but by pages of two kilobytes and by nodes of B-trees.

mod bounds;
mod change;
mod encoding;
mod execution;
mod executions;
mod op;
mod page;
mod queue;
mod record;
mod share;
#[cfg(test)]
mod tests;

use super::time::Millis;

pub use bounds::{EXECUTION_BYTES, MAX_WEIGHT, URI_BYTES};
pub use encoding::{CHUNK_BYTES, ENVELOPE};
pub use op::{Changed, Op};
pub use record::Position;

use queue::Queue;
use share::Executions;

/// The URIs of a group: queued ones and leased ones.
#[derive(Clone, Debug, Default)]
pub struct Uris {
    queue: Queue,
    executions: Executions,
    leases: Vec<Lease>,
    /// Order of adding of the next URI.
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

/// A URI that is leased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased<'a> {
    /// Names the lease.
    pub token: u64,
    /// The crawl execution.
    pub execution: &'a [u8],
    /// The URI.
    pub uri: &'a [u8],
    /// How often it was tried in vain.
    pub attempts: u32,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// When it was due.
    pub due: Millis,
    /// Whether its execution was dropped meanwhile: it counts no more.
    pub dropped: bool,
}

/// What one execution has in a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share<'a> {
    /// Grows in order of appearance.
    pub number: u64,
    /// The crawl execution.
    pub id: &'a [u8],
    /// Its weight.
    pub weight: u64,
    /// URIs that are queued.
    pub queued: u64,
    /// URIs that count: queued ones, and leased ones that were not dropped.
    pub uris: u64,
}

/// What a group has of kept URIs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stock {
    /// How many count, as [`Uris::len`] says.
    pub uris: u64,
    /// When the first queued one is due.
    pub earliest: Option<Millis>,
}

/// A URI that is queued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queued {
    /// The crawl execution.
    pub execution: Vec<u8>,
    /// The weight of the execution.
    pub weight: u64,
    /// When the URI is due.
    pub due: Millis,
    /// How many links it is away from a seed.
    pub depth: u32,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// The URI.
    pub uri: Vec<u8>,
}

/// How many leases there are of one group at most; more than a group may have fetches at a time.
const MAX_LEASES: usize = 4096;

/// How many bytes of URIs one batch holds, more or less.
const BATCH_BYTES: usize = 1 << 20;

impl Uris {
    /// Whether nothing is queued or leased. Then the key of the value goes.
    pub fn is_empty(&self) -> bool {
        self.queue.len() == 0 && self.leases.is_empty()
    }

    /// How many URIs count: queued ones, and leased ones that were not dropped.
    pub fn len(&self) -> u64 {
        let leased = self.leases.iter().filter(|lease| !lease.dropped).count();
        self.queue.len() + leased as u64
    }

    /// How many URIs of one execution count.
    pub fn count_of(&self, execution: &[u8]) -> u64 {
        self.executions
            .find(execution)
            .map_or(0, |e| e.queued + u64::from(e.leased))
    }

    /// Which execution is next, among those with a URI that is due now and that are not `paused`:
    /// in proportion to their weights, and among equals the one that came first.
    pub fn pick(&self, now: Millis, paused: &dyn Fn(&[u8]) -> bool) -> Option<&[u8]> {
        self.executions.pick(now, paused).map(|e| &*e.id)
    }

    /// When the first queued URI is due; `None` without any.
    pub fn earliest(&self) -> Option<Millis> {
        let queued = self.executions.iter().filter(|e| e.queued > 0);
        queued.map(|e| e.earliest).min()
    }

    /// How many count, and when the first queued one is due.
    pub fn stock(&self) -> Stock {
        Stock {
            uris: self.len(),
            earliest: self.earliest(),
        }
    }

    /// The earliest due time of executions that are not `paused`.
    pub fn earliest_of(&self, paused: &dyn Fn(&[u8]) -> bool) -> Option<Millis> {
        let queued = self.executions.iter().filter(|e| e.queued > 0);
        queued.filter(|e| !paused(&e.id)).map(|e| e.earliest).min()
    }

    /// The URI of a lease.
    pub fn leased(&self, token: u64) -> Option<Leased<'_>> {
        self.leases().find(|lease| lease.token == token)
    }

    /// All leased URIs, in the order in which they were taken.
    pub fn leases(&self) -> impl Iterator<Item = Leased<'_>> {
        self.leases.iter().map(|lease| Leased {
            token: lease.token,
            execution: self
                .executions
                .by_number(lease.place.execution)
                .map_or(&[], |e| &e.id),
            uri: &lease.uri,
            attempts: lease.attempts,
            depth: lease.place.depth,
            due: lease.place.due,
            dropped: lease.dropped,
        })
    }

    /// Executions with URIs that count, in order of appearance.
    pub fn executions(&self) -> impl Iterator<Item = Share<'_>> {
        self.executions_from(0)
    }

    /// Executions with URIs that count, in order of appearance, from a number on.
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

    /// Up to `limit` queued URIs, first ones first; fewer if they are long, but at least one.
    pub fn batch(&self, limit: usize) -> Vec<Queued> {
        self.page(Position::default(), limit).0
    }

    /// Up to `limit` queued URIs from a place on, in order, and where the next one stands; fewer if they
    /// are long, but at least one.
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

    /// Whether a URI is queued or leased for an execution, so that adding it changes nothing.
    pub fn contains(&self, execution: &[u8], uri: &[u8]) -> bool {
        let execution = self.executions.find(execution);
        execution.is_some_and(|execution| self.knows(execution.number, uri))
    }

    /// Whether an execution has a URI, queued or leased.
    fn knows(&self, execution: u64, uri: &[u8]) -> bool {
        let leased = self.leases.iter().any(|lease| {
            !lease.dropped && lease.place.execution == execution && *lease.uri == *uri
        });
        leased || self.queue.find(execution, uri).is_some()
    }

    /// Bytes of memory.
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

    /// How much work it is to free the value: pieces of memory.
    pub fn free_effort(&self) -> usize {
        1 + self.queue.pieces() + self.leases.len() + self.executions.pieces()
    }

    /// Makes a change. The same changes in the same order give the same value everywhere.
    ///
    /// ```
    /// use crawlspace::chg::uris::{Changed, Op, Uris};
    ///
    /// let mut uris = Uris::default();
    /// let add = Op::Add {
    ///     execution: b"crawl-1",
    ///     weight: None,
    ///     due: 1000,
    ///     depth: 0,
    ///     attempts: 0,
    ///     uri: b"http://example.com/",
    /// };
    /// assert_eq!(uris.apply(&add), Changed::Added);
    /// assert_eq!(uris.apply(&add), Changed::Nothing);
    /// assert_eq!(uris.pick(999, &|_| false), None);
    /// let next = uris.pick(1000, &|_| false).unwrap().to_vec();
    /// uris.apply(&Op::Take { token: 7, execution: &next, now: 1000 });
    /// assert_eq!(uris.leased(7).unwrap().uri, b"http://example.com/");
    /// assert_eq!(uris.apply(&Op::Done { token: 7 }), Changed::Removed(1));
    /// assert!(uris.is_empty());
    /// ```
    pub fn apply(&mut self, op: &Op<'_>) -> Changed {
        if self.is_empty() {
            // Nothing depends on whether its key went. What it still has of executions is freed with the key, in the
            // background when that is much.
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
            } => self.add(execution, weight, due, depth, attempts, uri),
            Op::Take {
                token,
                execution,
                now,
            } => self.take(token, execution, now),
            Op::Done { token } => self.done(token),
            Op::Return { token, due, failed } => self.put_back(token, due, failed),
            Op::Drop { execution, limit } => self.drop_execution(execution, limit),
            Op::Remove { execution, uri } => self.remove(execution, uri),
            Op::Load { chunk } => match self.load(chunk) {
                Ok(uris) => Changed::Loaded(uris),
                Err(_) => Changed::Nothing,
            },
        }
    }
}

/// By content, in order; how it lies in memory is no matter.
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
            from = Position {
                seq: ours.place.seq + 1,
                ..ours.place
            };
            same
        });
        same
    }
}
