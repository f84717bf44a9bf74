//! Chunks: blocks of memory filled with records, linked into segments.

use super::codec::Base;
use super::field;
use super::place::{CHUNK, RecordSlot, Records};
use super::record::{DEAD, Record};
use super::segments::Segment;
use crate::prefetch;
use crawlspace_compact::blocks::{Link, NONE, Slab};
use crawlspace_host::defrag::Mover;
use crawlspace_host::sizes::class;

/// Minimum size of a chunk, in bytes.
const SMALLEST: usize = 256;
/// Minimum size in bytes of a record that is stored in its own chunk.
pub(super) const LONG: usize = CHUNK / 4;
/// Maximum number of chunks, as limited by the chunk number in a [`RecordSlot`].
pub(super) const CHUNKS: u32 = 1 << 24;

/// A block of memory filled with records.
#[derive(Clone)]
pub(super) struct Chunk {
    bytes: Bytes,
    /// Total size of the live records, in bytes.
    live: u32,
    /// Number of the crawl to which the records belong.
    crawl: u32,
    /// Position in the segment: later chunks have higher numbers.
    sequence: u32,
    previous: u32,
    next: u32,
    /// Neighbours in the segment's list of mostly dead chunks.
    sparse_previous: u32,
    sparse_next: u32,
    is_sparse: bool,
    /// The base to which the packed values in this chunk refer.
    base: Base,
}

/// A byte vector whose clone has the same capacity.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Clone for Bytes {
    fn clone(&self) -> Self {
        Bytes(with_room(&self.0, self.0.capacity()))
    }
}

fn with_room(bytes: &[u8], room: usize) -> Vec<u8> {
    let mut copy = Vec::with_capacity(room);
    copy.extend_from_slice(bytes);
    copy
}

impl Default for Chunk {
    fn default() -> Self {
        Chunk {
            bytes: Bytes::default(),
            live: 0,
            crawl: NONE,
            sequence: 0,
            previous: NONE,
            next: NONE,
            sparse_previous: NONE,
            sparse_next: NONE,
            is_sparse: false,
            base: Base::default(),
        }
    }
}

impl Link for Chunk {
    fn link(&mut self) -> &mut u32 {
        &mut self.next
    }
}

impl Chunk {
    pub fn crawl(&self) -> u32 {
        self.crawl
    }

    pub fn base(&self) -> Base {
        self.base
    }

    pub fn sequence(&self) -> u32 {
        self.sequence
    }

    /// Returns the next chunk of the segment, or [`NONE`].
    pub fn next(&self) -> u32 {
        self.next
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes.0
    }

    #[cfg(test)]
    pub fn live(&self) -> usize {
        self.live as usize
    }

    #[cfg(test)]
    pub fn room(&self) -> usize {
        self.bytes.0.capacity()
    }

    fn fits(&self, bytes: usize) -> bool {
        let len = self.bytes.0.len();
        len <= usize::from(u16::MAX) && len + bytes <= self.bytes.0.capacity()
    }
}

/// The chunks of an index.
#[derive(Clone, Default)]
pub(super) struct Chunks {
    slab: Slab<Chunk>,
    /// Total capacity of the chunks, in bytes.
    room: usize,
}

impl Chunks {
    #[inline]
    pub fn get(&self, number: u32) -> &Chunk {
        self.slab.get(number)
    }

    /// Returns the record at a position, and its chunk.
    #[inline]
    pub fn record(&self, place: RecordSlot) -> (Record<'_>, &Chunk) {
        let chunk = self.slab.get(place.chunk);
        (
            Record::at(&chunk.bytes.0[usize::from(place.offset)..]),
            chunk,
        )
    }

    /// Returns true if the record at a position has this head and this field.
    #[inline]
    pub fn is(&self, place: RecordSlot, head: u8, raw: &[u8]) -> bool {
        let bytes = &self.slab.get(place.chunk).bytes.0;
        Record::begins(&bytes[usize::from(place.offset)..], head, raw)
    }

    /// Returns the bytes of a record and of all records after it in its chunk.
    pub fn bytes_mut(&mut self, place: RecordSlot) -> &mut [u8] {
        let chunk = self.slab.get_mut(place.chunk);
        &mut chunk.bytes.0[usize::from(place.offset)..]
    }

    /// Returns the base for the next record of a segment if a record of this length fits into the
    /// segment's last chunk.
    pub fn room(&self, segment: &Segment, bytes: usize) -> Option<Base> {
        let last = self.slab.peek(segment.last)?;
        last.fits(bytes).then_some(last.base)
    }

    /// Returns the base of the last chunk of a segment.
    pub fn last_base(&self, segment: &Segment) -> Option<Base> {
        Some(self.slab.peek(segment.last)?.base)
    }

    /// Returns true if the records of a mostly dead chunk can be moved to the end of the segment.
    pub fn can_move(&self, segment: &Segment, source: u32) -> bool {
        source != NONE && source != segment.last
    }

    /// Appends a record. There must be room for it.
    pub fn append(&mut self, segment: &mut Segment, record: &[u8]) -> RecordSlot {
        let last = self.slab.get_mut(segment.last);
        assert!(last.fits(record.len()), "there is room for a record");
        let place = RecordSlot {
            chunk: segment.last,
            offset: last.bytes.0.len() as u16,
        };
        last.bytes.0.extend_from_slice(record);
        last.live += record.len() as u32;
        segment.used += record.len() as u64;
        segment.live += record.len() as u64;
        place
    }

    /// Appends contiguous records to the last chunk of a segment. This chunk must be empty and have
    /// room for the records. Returns the number of the chunk.
    pub fn append_all(&mut self, segment: &mut Segment, records: &[u8]) -> u32 {
        let last = self.slab.get_mut(segment.last);
        assert!(last.bytes.0.is_empty() && last.fits(records.len()));
        last.bytes.0.extend_from_slice(records);
        last.live += records.len() as u32;
        segment.used += records.len() as u64;
        segment.live += records.len() as u64;
        segment.last
    }

    /// Appends a chunk to a segment, with room for a record of this length.
    pub fn open(&mut self, crawl: u32, segment: &mut Segment, base: Base, bytes: usize) {
        let room = if bytes >= LONG {
            class(bytes)
        } else {
            let share = (segment.live / 4).clamp(SMALLEST as u64, CHUNK as u64) as usize;
            let sparse = self.slab.peek(segment.sparse);
            let moves = sparse.map_or(0, |sparse| (sparse.live as usize).min(CHUNK / 2));
            class(share.max(bytes + moves))
        };
        let chunk = Chunk {
            bytes: Bytes(Vec::with_capacity(room)),
            crawl,
            sequence: segment.next_sequence,
            previous: segment.last,
            base,
            ..Chunk::default()
        };
        let room = chunk.bytes.0.capacity();
        let number = self.slab.insert(chunk, CHUNKS);
        self.room += room;
        let before = segment.last;
        segment.next_sequence = segment.next_sequence.wrapping_add(1);
        segment.last = number;
        match self.slab.peek_mut(before) {
            Some(chunk) => chunk.next = number,
            None => segment.first = number,
        }
        if before != NONE {
            self.close(segment, before);
        }
    }

    /// Frees the unused capacity of a chunk to which no more records will be appended.
    fn close(&mut self, segment: &mut Segment, number: u32) {
        let chunk = self.slab.get_mut(number);
        let room = class(chunk.bytes.0.len());
        if room < chunk.bytes.0.capacity() {
            self.room -= chunk.bytes.0.capacity();
            chunk.bytes.0 = with_room(&chunk.bytes.0, room);
            self.room += chunk.bytes.0.capacity();
        }
        self.look_for_dead(segment, number);
    }

    /// Marks a record of this length as dead. If this was the last live record of its chunk, frees
    /// the chunk and returns the base of the chunk. The caller must then retire that base.
    #[must_use]
    pub fn kill(&mut self, segment: &mut Segment, place: RecordSlot, bytes: usize) -> Option<Base> {
        let chunk = self.slab.get_mut(place.chunk);
        chunk.bytes.0[usize::from(place.offset)] |= DEAD;
        chunk.live -= bytes as u32;
        segment.live -= bytes as u64;
        if chunk.live == 0 {
            return Some(self.free(segment, place.chunk));
        }
        if place.chunk != segment.last {
            self.look_for_dead(segment, place.chunk);
        }
        None
    }

    fn free(&mut self, segment: &mut Segment, number: u32) -> Base {
        self.leave_sparse(segment, number);
        let chunk = self.slab.remove(number);
        self.room -= chunk.bytes.0.capacity();
        segment.used -= chunk.bytes.0.len() as u64;
        match self.slab.peek_mut(chunk.previous) {
            Some(previous) => previous.next = chunk.next,
            None => segment.first = chunk.next,
        }
        match self.slab.peek_mut(chunk.next) {
            Some(next) => next.previous = chunk.previous,
            None => segment.last = chunk.previous,
        }
        chunk.base
    }

    fn look_for_dead(&mut self, segment: &mut Segment, number: u32) {
        let chunk = self.slab.get_mut(number);
        if chunk.is_sparse || chunk.live as usize * 2 > chunk.bytes.0.len() {
            return;
        }
        chunk.is_sparse = true;
        chunk.sparse_next = segment.sparse;
        if let Some(next) = self.slab.peek_mut(segment.sparse) {
            next.sparse_previous = number;
        }
        segment.sparse = number;
    }

    fn leave_sparse(&mut self, segment: &mut Segment, number: u32) {
        let chunk = self.slab.get_mut(number);
        if !std::mem::take(&mut chunk.is_sparse) {
            return;
        }
        let previous = std::mem::replace(&mut chunk.sparse_previous, NONE);
        let next = std::mem::replace(&mut chunk.sparse_next, NONE);
        match self.slab.peek_mut(previous) {
            Some(previous) => previous.sparse_next = next,
            None => segment.sparse = next,
        }
        if let Some(next) = self.slab.peek_mut(next) {
            next.sparse_previous = previous;
        }
    }

    /// Returns the first chunk of a segment whose sequence number is at least `sequence`. `hint` is
    /// the probable number of that chunk.
    pub fn chunk_from(&self, segment: &Segment, crawl: u32, sequence: u32, hint: u32) -> u32 {
        let hinted = self.slab.peek(hint);
        if hinted.is_some_and(|chunk| chunk.crawl == crawl && chunk.sequence == sequence) {
            return hint;
        }
        let mut number = segment.first;
        while let Some(chunk) = self.slab.peek(number) {
            if chunk.sequence >= sequence {
                break;
            }
            number = chunk.next;
        }
        number
    }

    #[cfg(test)]
    pub fn room_of_all(&self) -> usize {
        self.room
    }

    #[cfg(test)]
    pub fn verify_links(&self, segment: &Segment) {
        let mut mostly_dead = std::collections::BTreeSet::new();
        let (mut before, mut number) = (NONE, segment.first);
        while let Some(chunk) = self.slab.peek(number) {
            assert_eq!(chunk.previous, before);
            if number != segment.last && chunk.live as usize * 2 <= chunk.bytes.0.len() {
                assert!(chunk.is_sparse);
            }
            if chunk.is_sparse {
                mostly_dead.insert(number);
            }
            (before, number) = (number, chunk.next);
        }
        assert_eq!(segment.last, before);
        let (mut before, mut number) = (NONE, segment.sparse);
        while let Some(chunk) = self.slab.peek(number) {
            assert!(mostly_dead.remove(&number));
            assert_eq!(chunk.sparse_previous, before);
            (before, number) = (number, chunk.sparse_next);
        }
        assert!(mostly_dead.is_empty());
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.slab.len()
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.slab.memory() + self.room
    }

    /// Returns the number of memory allocations.
    pub fn pieces(&self) -> usize {
        self.slab.pieces() + self.slab.len()
    }

    /// Returns the exclusive upper bound of all chunk numbers.
    pub fn end(&self) -> u32 {
        self.slab.end()
    }

    /// Moves the memory of a chunk to reduce fragmentation.
    pub fn defrag(&mut self, number: u32, mover: &mut Mover<'_>) {
        if let Some(chunk) = self.slab.peek_mut(number) {
            mover.list(&mut chunk.bytes.0);
        }
    }
}

impl Records for Chunks {
    fn hash(&self, place: RecordSlot) -> u64 {
        let (record, chunk) = self.record(place);
        let hash = field::hash(record.kind(), record.raw);
        if record.is_owner() {
            hash
        } else {
            field::hash_in(hash, chunk.crawl)
        }
    }

    #[inline]
    fn prefetch(&self, place: RecordSlot) {
        let bytes = &self.slab.get(place.chunk).bytes.0;
        let at = usize::from(place.offset);
        // A record of average length spans one or two cache lines, so prefetch two.
        prefetch::line(&bytes[at]);
        if let Some(end) = bytes.get(at + 63) {
            prefetch::line(end);
        }
    }
}
