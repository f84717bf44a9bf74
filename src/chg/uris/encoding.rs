//! Serialization of the URIs of a group for RDB files, append-only files and other servers.
//!
//! A value is saved as one or more chunks of about 1 MiB. Each chunk is self-contained. Loading all
//! chunks into an empty value results in an equal value. In its [`crawlspace_compact::envelope`], a
//! chunk has this form:
//!
//! | bytes | |
//! |---|---|
//! | number, 16 bytes, number | insertion order of the next URI; the group's clock, little-endian; number of the next execution |
//! | number | count of the executions that follow, numbers ascending: number, weight, 16 bytes of pass, length and bytes of the name |
//! | number | count of the leases that follow: token, 1 if dropped, number of execution, depth, due time, insertion order, attempts, length and bytes of the URI |
//! | rest | queued URIs in order, as described in [`super::record`] |
//!
//! Numbers are varints ([`crawlspace_compact::number`]). All input is checked before it is used,
//! because it may come from a damaged file or from any client with permission to run `RESTORE`.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::SmallVec;

use super::bounds::{EXECUTION_BYTES, MAX_INTEGER, MAX_NUMBER, MAX_PASS, MAX_WEIGHT, STORED_BYTES};
use super::execution::Execution;
use super::kept::{Verbatim, Words};
use super::queue::RAW;
use super::record::{Position, Record, Records, append};
use super::{Lease, MAX_LEASES, Uris};
use crawlspace_compact::envelope::Envelope;
use crawlspace_compact::number::{Malformed, Reader, put, put_bytes};

/// Approximate size of a chunk in bytes.
pub const CHUNK_BYTES: usize = 1 << 20;

/// Envelope of each chunk.
pub const ENVELOPE: Envelope = Envelope {
    what: "URIs",
    version: 2,
};

/// Maximum expansion of a chunk: the number of bytes of full URIs per byte of the chunk, measured
/// at the end of each record. A URI is written without the prefix that it shares with the previous
/// URI. Without this limit, a few bytes could therefore expand to a very large value. A URI that
/// would exceed the limit is written in full.
const STOOD_FOR: usize = 16;

/// The stored form of an execution or URI.
pub(in crate::chg) type Bytes = SmallVec<[u8; 128]>;

/// A chunk that has been checked.
struct Chunk<'a> {
    next: u64,
    clock: u128,
    next_execution: u64,
    /// Executions, in ascending order of their numbers.
    executions: Vec<StoredExecution<'a>>,
    leases: Vec<StoredLease<'a>>,
    records: &'a [u8],
}

struct StoredExecution<'a> {
    number: u64,
    weight: u32,
    pass: u128,
    id: &'a [u8],
}

struct StoredLease<'a> {
    token: u64,
    dropped: bool,
    place: Position,
    attempts: u32,
    uri: &'a [u8],
}

/// Reads a pass, which is at most [`MAX_PASS`].
fn pass(parts: &mut Reader<'_>) -> Result<u128, Malformed> {
    let pass = u128::from_le_bytes(parts.array()?);
    if pass <= MAX_PASS {
        Ok(pass)
    } else {
        Err(Malformed::NUMBER)
    }
}

impl<'a> Chunk<'a> {
    fn read(bytes: &'a [u8]) -> Result<Chunk<'a>, String> {
        Chunk::read_body(ENVELOPE.body(bytes)?)
            .map_err(|Malformed(what)| format!("a chunk of URIs {what}"))
    }

    fn read_body(body: &'a [u8]) -> Result<Chunk<'a>, Malformed> {
        let mut parts = Reader::new(body);
        let next = parts.number_to(MAX_NUMBER)?;
        let clock = pass(&mut parts)?;
        let next_execution = parts.number_to(MAX_NUMBER)?;

        let mut executions: Vec<StoredExecution<'_>> = Vec::new();
        let mut ids = BTreeSet::new();
        for _ in 0..parts.number_to(MAX_INTEGER)? {
            let stored = StoredExecution {
                number: parts.number_to(MAX_NUMBER - 1)?,
                weight: parts.number_to(MAX_WEIGHT)? as u32,
                pass: pass(&mut parts)?,
                id: parts.text(EXECUTION_BYTES)?,
            };
            let ascends = executions.last().is_none_or(|l| l.number < stored.number);
            if !ascends || stored.weight == 0 || !ids.insert(stored.id) {
                return Err(Malformed("has executions out of order"));
            }
            executions.push(stored);
        }
        let known = |number: u64| {
            executions
                .binary_search_by_key(&number, |e| e.number)
                .is_ok()
        };

        let mut leases = Vec::new();
        for _ in 0..parts.number_to(MAX_LEASES as u64)? {
            let lease = StoredLease {
                token: parts.number_to(MAX_INTEGER)?,
                dropped: parts.number_to(1)? == 1,
                place: Position {
                    execution: parts.number_to(MAX_NUMBER - 1)?,
                    depth: parts.number_to(u32::MAX.into())? as u32,
                    due: parts.number_to(MAX_INTEGER)?,
                    seq: parts.number_to(MAX_NUMBER - 1)?,
                },
                attempts: parts.number_to(u32::MAX.into())? as u32,
                uri: parts.text(STORED_BYTES)?,
            };
            if !known(lease.place.execution) {
                return Err(Malformed("has a lease of an unknown execution"));
            }
            leases.push(lease);
        }

        let records = parts.rest();
        let mut reader = Records::new(records);
        let mut last = None;
        let mut uris = 0;
        while reader.next()? {
            let record = reader.record().ok_or(Malformed::TRUNCATED)?;
            uris += record.uri.len();
            let ascends = last.is_none_or(|last| last < record.place);
            if !ascends || !known(record.place.execution) || uris > STOOD_FOR * reader.at() {
                return Err(Malformed("has URIs out of order, or too many"));
            }
            last = Some(record.place);
        }
        Ok(Chunk {
            next,
            clock,
            next_execution,
            executions,
            leases,
            records,
        })
    }
}

/// Checks that a chunk is well-formed.
pub(super) fn check(chunk: &[u8]) -> Result<(), String> {
    Chunk::read(chunk).map(drop)
}

/// Returns the first queued URI of a chunk or, without queued URIs, the first leased URI.
///
/// # Errors
/// Fails if the chunk is malformed.
pub(in crate::chg) fn first_uri(chunk: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let chunk = Chunk::read(chunk)?;
    let mut queued = Records::new(chunk.records);
    if let Ok(true) = queued.next() {
        return Ok(queued.record().map(|record| record.uri.to_vec()));
    }
    let leased = chunk.leases.first();
    Ok(leased.map(|lease| lease.uri.to_vec()))
}

/// A chunk under construction.
struct Encoder<'a> {
    uris: &'a Uris,
    words: &'a dyn Words,
    chunk_bytes: usize,
    each: &'a mut dyn FnMut(&[u8]),
    executions: BTreeMap<u64, &'a Execution>,
    leases: Vec<u8>,
    leased: u64,
    records: Vec<u8>,
    last: Option<(Position, Vec<u8>)>,
    /// Number of bytes of executions. `stood_for` is the number of bytes of full URIs.
    named: usize,
    stood_for: usize,
}

impl<'a> Encoder<'a> {
    fn name(&mut self, execution: &'a Execution) {
        if self
            .executions
            .insert(execution.number, execution)
            .is_none()
        {
            self.named += self.words.execution(&execution.id).len() + 40;
        }
    }

    fn execution(&self, number: u64) -> &'a Execution {
        let execution = self.uris.executions.by_number(number);
        execution.expect("a URI has an execution")
    }

    fn lease(&mut self, lease: &Lease) {
        self.name(self.execution(lease.place.execution));
        let out = &mut self.leases;
        put(out, lease.token);
        put(out, lease.dropped.into());
        put(out, lease.place.execution);
        put(out, lease.place.depth.into());
        put(out, lease.place.due);
        put(out, lease.place.seq);
        put(out, lease.attempts.into());
        put_bytes(out, &self.words.uri(&lease.uri));
        self.leased += 1;
        self.end_if_long();
    }

    fn record(&mut self, stored: Record<'_>) {
        let uri = self.words.uri(stored.uri);
        let record = Record {
            uri: &uri,
            ..stored
        };
        self.name(self.execution(record.place.execution));
        let stood_for = self.stood_for + record.uri.len();
        let shares = stood_for <= STOOD_FOR * self.records.len();
        let last = self.last.as_ref().filter(|_| shares);
        let before = last.map(|(place, uri)| Record {
            place: *place,
            attempts: 0,
            uri,
        });
        append(&mut self.records, before, record);
        self.stood_for = stood_for;
        let last = self.last.get_or_insert_with(|| (record.place, Vec::new()));
        last.0 = record.place;
        last.1.clear();
        last.1.extend_from_slice(record.uri);
        self.end_if_long();
    }

    fn end_if_long(&mut self) {
        let long = self.named + self.leases.len() + self.records.len();
        if long >= self.chunk_bytes {
            self.end();
        }
    }

    fn end(&mut self) {
        let mut chunk =
            Vec::with_capacity(self.named + self.leases.len() + self.records.len() + 64);
        ENVELOPE.begin(&mut chunk);
        put(&mut chunk, self.uris.next);
        chunk.extend_from_slice(&self.uris.executions.clock.to_le_bytes());
        put(&mut chunk, self.uris.executions.next);
        put(&mut chunk, self.executions.len() as u64);
        for execution in self.executions.values() {
            put(&mut chunk, execution.number);
            put(&mut chunk, execution.weight.into());
            chunk.extend_from_slice(&execution.pass.to_le_bytes());
            put_bytes(&mut chunk, self.words.execution(&execution.id));
        }
        put(&mut chunk, self.leased);
        chunk.extend_from_slice(&self.leases);
        chunk.extend_from_slice(&self.records);
        ENVELOPE.seal(&mut chunk, 0);
        (self.each)(&chunk);
        self.executions.clear();
        self.leases.clear();
        self.records.clear();
        self.last = None;
        (self.leased, self.named, self.stood_for) = (0, 0, 0);
    }
}

impl Uris {
    /// Serializes the value in chunks of about `chunk_bytes`. A chunk ends after the URI or
    /// execution with which it reaches this size. Equal values have equal chunks.
    pub fn encode(&self, chunk_bytes: usize, each: &mut dyn FnMut(&[u8])) {
        self.encode_in(&Verbatim, chunk_bytes, each);
    }

    /// Serializes a value whose executions and URIs are in a different stored form, and translates
    /// them.
    pub(in crate::chg) fn encode_in(
        &self,
        words: &dyn Words,
        chunk_bytes: usize,
        each: &mut dyn FnMut(&[u8]),
    ) {
        let mut encoder = Encoder {
            uris: self,
            words,
            chunk_bytes,
            each,
            executions: BTreeMap::new(),
            leases: Vec::new(),
            leased: 0,
            records: Vec::new(),
            last: None,
            named: 0,
            stood_for: 0,
        };
        for lease in &self.leases {
            encoder.lease(lease);
        }
        self.queue.walk(Position::first_of(0), &mut |record| {
            encoder.record(record);
            true
        });
        // Write executions without URIs last: when they are loaded, the value is no longer empty.
        // Executions without URIs are kept only until the clock reaches their pass.
        for execution in self.executions.iter().filter(|e| e.is_idle()) {
            encoder.name(execution);
            encoder.end_if_long();
        }
        if !encoder.executions.is_empty() || self.is_empty() {
            encoder.end();
        }
    }

    /// Adds the contents of a chunk. Returns the number of added URIs, including leased ones. Skips
    /// URIs that exist already. After an error, which describes the problem, the value is
    /// unchanged.
    pub(crate) fn load(&mut self, chunk: &[u8]) -> Result<u64, String> {
        self.load_in(&mut |id| id.into(), &mut |uri| uri.into(), chunk)
    }

    /// Adds the contents of a chunk, translated to the stored form of this value.
    pub(in crate::chg) fn load_in(
        &mut self,
        stored_id: &mut dyn FnMut(&[u8]) -> Bytes,
        stored_uri: &mut dyn FnMut(&[u8]) -> Bytes,
        chunk: &[u8],
    ) -> Result<u64, String> {
        let chunk = Chunk::read(chunk)?;
        let mut loaded = 0;
        let ids = chunk.executions.iter().map(|stored| stored_id(stored.id));
        let ids: Vec<Bytes> = ids.collect();
        let numbers = self.load_head(&ids, stored_uri, &chunk, &mut loaded)?;
        let mut reader = Records::new(chunk.records);
        while let Ok(true) = reader.next() {
            let Some(mut record) = reader.record() else {
                break;
            };
            record.place.execution = numbers[&record.place.execution];
            let uri = stored_uri(record.uri);
            record.uri = &uri;
            if !self.knows(record.place.execution, record.uri) {
                self.enqueue(record);
                loaded += 1;
            }
        }
        Ok(loaded)
    }

    /// Adds the contents of a chunk with URIs in their stored form, which must come after all queued URIs of
    /// this value. `stored_id` returns the stored form of an execution, or `None` if the execution is
    /// unknown.
    ///
    /// # Errors
    /// Returns a description of the error in the chunk. A part of the chunk may have been added.
    pub(in crate::chg) fn load_stored(
        &mut self,
        stored_id: &mut dyn FnMut(&[u8]) -> Option<Bytes>,
        chunk: &[u8],
    ) -> Result<(), String> {
        let chunk = Chunk::read(chunk)?;
        let ids = chunk.executions.iter().map(|stored| stored_id(stored.id));
        let ids: Option<Vec<Bytes>> = ids.collect();
        let ids = ids.ok_or("a chunk of URIs has an unknown execution")?;
        if self.is_mixed() && chunk.leases.iter().any(|lease| *lease.uri == [RAW]) {
            return Err("a chunk of URIs has an empty URI".to_string());
        }
        let numbers = self.load_head(&ids, &mut |uri| uri.into(), &chunk, &mut 0)?;
        if numbers.iter().any(|(stored, number)| stored != number) {
            return Err("a chunk of URIs belongs to another group".to_string());
        }
        let mut records = Records::new(chunk.records);
        let extended = self.queue.extend(&mut records, &mut |place| {
            self.next = self.next.max(place.seq + 1);
            if let Some(execution) = self.executions.by_number_mut(place.execution) {
                execution.queued += 1;
                execution.earliest = execution.earliest.min(place.due);
            }
        });
        match extended {
            Ok(true) => Ok(()),
            _ => Err("a chunk of URIs does not follow the previous chunk".to_string()),
        }
    }

    /// Adds the executions of a chunk, in their stored form, and its leases. Returns the numbers that the
    /// executions have in this value.
    fn load_head(
        &mut self,
        ids: &[Bytes],
        stored_uri: &mut dyn FnMut(&[u8]) -> Bytes,
        chunk: &Chunk<'_>,
        loaded: &mut u64,
    ) -> Result<BTreeMap<u64, u64>, String> {
        let mut numbers = BTreeMap::new();
        for (stored, id) in chunk.executions.iter().zip(ids) {
            let known = self.executions.find(id);
            if known.is_none() && self.executions.by_number(stored.number).is_some() {
                return Err("a chunk of URIs belongs to another group".to_string());
            }
            numbers.insert(stored.number, known.map_or(stored.number, |e| e.number));
        }
        self.next = self.next.max(chunk.next);
        self.executions.clock = self.executions.clock.max(chunk.clock);
        self.executions.next = self.executions.next.max(chunk.next_execution);
        for (stored, id) in chunk.executions.iter().zip(ids) {
            self.executions
                .restore(id, stored.number, stored.weight, stored.pass);
        }
        for stored in &chunk.leases {
            let execution = numbers[&stored.place.execution];
            let uri = stored_uri(stored.uri);
            let is_here = |lease: &Lease| {
                lease.token == stored.token
                    && (lease.place.seq == stored.place.seq || lease.place.execution != execution)
            };
            if self.leases.iter().any(is_here)
                || self.leases.len() >= MAX_LEASES
                || (!stored.dropped && self.knows(execution, &uri))
            {
                continue;
            }
            self.next = self.next.max(stored.place.seq + 1);
            self.leases.push(Lease {
                token: stored.token,
                place: Position {
                    execution,
                    ..stored.place
                },
                attempts: stored.attempts,
                dropped: stored.dropped,
                uri: uri[..].into(),
            });
            if let Some(execution) = self.executions.by_number_mut(execution) {
                execution.held += 1;
                execution.leased += u32::from(!stored.dropped);
            }
            *loaded += 1;
        }
        Ok(numbers)
    }
}
