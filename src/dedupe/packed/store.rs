//! Insertion, update, move and removal of records in segments and in the table.

use smallvec::SmallVec;

use super::chunk::LONG;
use super::codec::Base;
use super::crawls::{HOLDERS, OWNERS};
use super::field::{Field, hash_in};
use super::place::{CHUNK, RecordSlot, Records};
use super::record::{self, OWNER, Record};
use super::segments::Segment;
use super::{Packed, Value};
use crawlspace_compact::blocks::NONE;
use crawlspace_compact::number::{Reader, put_bytes};

/// The data that follows the field in a record.
#[derive(Clone, Copy)]
pub(super) enum Kept<'a> {
    /// The value of a record, in a crawl.
    Value(&'a [u8]),
    /// The number of the owner, in the list of owners without a record.
    Owner(u32),
    /// The value, in the list of holders.
    Holders(&'a [u8]),
}

/// Maximum capacity in bytes of the reused record buffer. A larger buffer is freed.
const SCRATCH: usize = 4096;

impl Packed {
    /// Returns the record of a field in the crawl that owns it, or the entry that names an owner
    /// without a record.
    #[inline]
    pub(super) fn find_owner(&self, field: &Field<'_>, hash: u64) -> Option<RecordSlot> {
        self.table
            .find(hash, |place| self.is_owned_at(place, field))
    }

    /// Returns true if the record at this position is the one that [`Packed::find_owner`] returns.
    #[inline]
    pub(super) fn is_owned_at(&self, place: RecordSlot, field: &Field<'_>) -> bool {
        self.chunks.is(place, field.kind() | OWNER, field.raw())
    }

    /// Returns the record of a field in a list, except the record of the crawl that owns the field.
    pub(super) fn find_in(&self, list: u32, field: &Field<'_>, hash: u64) -> Option<RecordSlot> {
        let head = field.kind();
        let raw = field.raw();
        self.table.find(hash_in(hash, list), |place| {
            self.chunks.is(place, head, raw) && self.list_of(place) == list
        })
    }

    /// Returns the record of a field in a crawl.
    pub(super) fn find_record(
        &self,
        crawl: u32,
        field: &Field<'_>,
        hash: u64,
    ) -> Option<RecordSlot> {
        let owner = self.find_owner(field, hash);
        owner
            .filter(|&place| self.list_of(place) == crawl)
            .or_else(|| self.find_other(crawl, field, hash))
    }

    /// Returns the record of a field in a crawl that does not own it.
    pub(super) fn find_other(
        &self,
        crawl: u32,
        field: &Field<'_>,
        hash: u64,
    ) -> Option<RecordSlot> {
        let of = self.crawls.get(crawl);
        if of.owned == of.list.records {
            return None;
        }
        self.find_in(crawl, field, hash)
    }

    /// Returns the list that contains a record.
    pub(super) fn list_of(&self, place: RecordSlot) -> u32 {
        self.chunks.get(place.chunk).crawl()
    }

    /// Returns the number of the crawl that owns the field. `place` is a result of
    /// [`Packed::find_owner`].
    pub(super) fn owner_at(&self, place: RecordSlot) -> u32 {
        let (record, chunk) = self.chunks.record(place);
        match chunk.crawl() {
            OWNERS => owner_number(record.rest),
            crawl => crawl,
        }
    }

    /// Appends the value of a record to `out`.
    pub(super) fn value_at(&self, place: RecordSlot, out: &mut Value) {
        let (record, chunk) = self.chunks.record(place);
        match chunk.crawl() {
            OWNERS => out.extend_from_slice(&self.crawls.get(owner_number(record.rest)).id),
            HOLDERS => out.extend_from_slice(holders(record.rest)),
            _ => _ = self.codec.decode(chunk.base(), record.rest, out),
        }
    }

    /// Returns the length of a record in bytes.
    pub(super) fn len_of(&self, list: u32, record: &Record<'_>) -> usize {
        let kept = match list {
            OWNERS => 4,
            HOLDERS => {
                let mut kept = Reader::new(record.rest);
                kept.bytes().expect("a chunk is whole");
                kept.at()
            }
            _ => self.codec.len(record.rest),
        };
        record.start + kept
    }

    /// Inserts a record. The list must not have a record of the field yet.
    pub(super) fn put(
        &mut self,
        list: u32,
        field: &Field<'_>,
        hash: u64,
        is_owner: bool,
        kept: Kept<'_>,
    ) {
        let place = self.append(list, field.kind(), field.raw(), is_owner, kept);
        let hash = if is_owner { hash } else { hash_in(hash, list) };
        self.table.insert(hash, place, &self.chunks);
        self.count(list, is_owner, 1);
    }

    /// Updates the counts after a record was added (1) or removed (-1).
    pub(super) fn count(&mut self, list: u32, is_owner: bool, change: i64) {
        let add = |count: &mut u64| *count = count.wrapping_add_signed(change);
        add(&mut self.crawls.list_mut(list).records);
        if list != OWNERS && list != HOLDERS {
            add(&mut self.records);
            if is_owner {
                add(&mut self.crawls.get_mut(list).owned);
            }
        }
    }

    /// Removes a record. Keeps the crawl even if it has no more records.
    pub(super) fn take_out(&mut self, place: RecordSlot) {
        let list = self.list_of(place);
        let hash = self.chunks.hash(place);
        let is_owner = self.chunks.record(place).0.is_owner();
        self.table.remove(hash, place, &self.chunks);
        self.free_record(list, place);
        self.count(list, is_owner, -1);
        let list = self.crawls.list_mut(list);
        if list.records == 0 {
            // Sequence numbers start at 0 again. This is safe, because the segment is empty, so a
            // running scan cannot miss a record.
            list.segment = Segment::default();
        }
    }

    /// Frees the memory of a record that was removed from the table.
    fn free_record(&mut self, list: u32, place: RecordSlot) {
        let (record, chunk) = self.chunks.record(place);
        let len = self.len_of(list, &record);
        let is_packed = list != OWNERS && list != HOLDERS;
        if is_packed {
            self.codec.release(chunk.base(), record.rest);
        }
        let segment = &mut self.crawls.list_mut(list).segment;
        if let Some(base) = self.chunks.kill(segment, place, len)
            && is_packed
        {
            self.codec.retire(base);
        }
    }

    /// Replaces the data of a record.
    pub(super) fn put_again(&mut self, place: RecordSlot, kept: Kept<'_>) {
        let list = self.list_of(place);
        let (record, chunk) = self.chunks.record(place);
        let len = self.len_of(list, &record);
        let (start, base, is_owner, kind) =
            (record.start, chunk.base(), record.is_owner(), record.kind());
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        self.encode(base, kept, &mut bytes);
        let as_before = start + bytes.len() == len;
        if as_before {
            if list != OWNERS && list != HOLDERS {
                let (record, _) = self.chunks.record(place);
                self.codec.release(base, record.rest);
            }
            self.chunks.bytes_mut(place)[start..len].copy_from_slice(&bytes);
        } else if list != OWNERS && list != HOLDERS {
            self.codec.release(base, &bytes);
        }
        self.keep_scratch(bytes);
        if as_before {
            return;
        }
        let hash = self.chunks.hash(place);
        let raw = SmallVec::<[u8; 64]>::from_slice(self.chunks.record(place).0.raw);
        // Mark the old record as dead first, because appending the new record may compact the
        // segment.
        self.table.remove(hash, place, &self.chunks);
        self.free_record(list, place);
        let place = self.append(list, kind, &raw, is_owner, kept);
        self.table.insert(hash, place, &self.chunks);
    }

    /// Makes the crawl of a record the owner of the field, which must have no owner, or ends its
    /// ownership.
    pub(super) fn set_owner(&mut self, place: RecordSlot, is_owner: bool) {
        let crawl = self.list_of(place);
        let hash = self.chunks.hash(place);
        self.table.remove(hash, place, &self.chunks);
        self.chunks.bytes_mut(place)[0] ^= OWNER;
        let hash = self.chunks.hash(place);
        self.table.insert(hash, place, &self.chunks);
        let owned = &mut self.crawls.get_mut(crawl).owned;
        *owned = if is_owner { *owned + 1 } else { *owned - 1 };
    }

    fn encode(&mut self, base: Base, kept: Kept<'_>, out: &mut Vec<u8>) {
        match kept {
            Kept::Value(value) => self.codec.encode(base, value, out),
            Kept::Owner(number) => out.extend_from_slice(&number.to_le_bytes()),
            Kept::Holders(value) => put_bytes(out, value),
        }
    }

    fn keep_scratch(&mut self, bytes: Vec<u8>) {
        if bytes.capacity() <= SCRATCH {
            self.scratch = bytes;
        }
    }

    /// Appends a record to its segment.
    fn append(
        &mut self,
        list: u32,
        kind: u8,
        raw: &[u8],
        is_owner: bool,
        kept: Kept<'_>,
    ) -> RecordSlot {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        record::begin(kind, raw, is_owner, &mut bytes);
        let start = bytes.len();
        let last = self.chunks.last_base(&self.crawls.list(list).segment);
        if let Some(base) = last {
            self.encode(base, kept, &mut bytes);
            let segment = &mut self.crawls.list_mut(list).segment;
            if self.chunks.room(segment, bytes.len()).is_some() {
                let place = self.chunks.append(segment, &bytes);
                self.keep_scratch(bytes);
                return place;
            }
        }
        let base = match kept {
            Kept::Value(value) => self.codec.base(list, value),
            _ => Base::default(),
        };
        if last != Some(base) {
            if let (Some(last), Kept::Value(_)) = (last, kept) {
                self.codec.release(last, &bytes[start..]);
            }
            bytes.truncate(start);
            self.encode(base, kept, &mut bytes);
        }
        let segment = &mut self.crawls.list_mut(list).segment;
        self.chunks.open(list, segment, base, bytes.len());
        if bytes.len() < LONG {
            self.compact(list, bytes.len(), CHUNK / 2);
        }
        let segment = &mut self.crawls.list_mut(list).segment;
        let place = self.chunks.append(segment, &bytes);
        self.keep_scratch(bytes);
        place
    }

    /// Moves records from mostly dead chunks of a segment to its last chunk. Stops when that chunk
    /// has fewer than `reserve` bytes left, or after about `most` bytes.
    pub(super) fn compact(&mut self, list: u32, reserve: usize, most: usize) {
        let mut moved = 0;
        let mut bytes = Vec::new();
        let mut value = Value::new();
        while moved < most / 2 {
            let segment = &self.crawls.list(list).segment;
            let source = segment.sparse;
            let Some(base) = self
                .chunks
                .room(segment, reserve)
                .filter(|_| self.chunks.can_move(segment, source))
            else {
                return;
            };
            for place in self.live(source) {
                let (record, chunk) = self.chunks.record(place);
                let len = self.len_of(list, &record);
                bytes.clear();
                let is_packed = list != OWNERS && list != HOLDERS;
                if is_packed && chunk.base() != base {
                    value.clear();
                    self.codec.decode(chunk.base(), record.rest, &mut value);
                    record::begin(record.kind(), record.raw, record.is_owner(), &mut bytes);
                    self.codec.encode(base, &value, &mut bytes);
                } else {
                    let record = &chunk.bytes()[usize::from(place.offset)..][..len];
                    bytes.extend_from_slice(record);
                    if is_packed {
                        let (record, _) = self.chunks.record(place);
                        self.codec.hold(base, record.rest);
                    }
                }
                let segment = &mut self.crawls.list_mut(list).segment;
                if self.chunks.room(segment, bytes.len() + reserve).is_none() {
                    if is_packed {
                        self.codec.release(base, Record::at(&bytes).rest);
                    }
                    return;
                }
                let to = self.chunks.append(segment, &bytes);
                self.table.replace(self.chunks.hash(place), place, to);
                self.free_record(list, place);
                moved += bytes.len();
                if moved > most {
                    return;
                }
            }
        }
    }

    /// Returns the positions of the live records of a chunk.
    fn live(&self, number: u32) -> Vec<RecordSlot> {
        let mut live = Vec::new();
        let chunk = self.chunks.get(number);
        let mut offset = 0;
        while offset < chunk.bytes().len() {
            let record = Record::at(&chunk.bytes()[offset..]);
            if !record.is_dead() {
                live.push(RecordSlot {
                    chunk: number,
                    offset: offset as u16,
                });
            }
            offset += self.len_of(chunk.crawl(), &record);
        }
        live
    }

    /// Compacts a segment if most of it is dead after removals.
    pub(super) fn tidy(&mut self, list: u32) {
        let segment = &self.crawls.list(list).segment;
        if !segment.is_sparse() || segment.sparse == NONE {
            return;
        }
        let Some(base) = self.chunks.last_base(segment) else {
            return;
        };
        let last = self.chunks.room(segment, LONG - 1);
        if last.is_none() || !self.chunks.can_move(segment, segment.sparse) {
            if list != OWNERS && list != HOLDERS {
                self.codec.adopt(base);
            }
            let segment = &mut self.crawls.list_mut(list).segment;
            self.chunks.open(list, segment, base, LONG - 1);
        }
        // Move only a few records, because every removal may do this.
        self.compact(list, 0, CHUNK / 8);
    }
}

/// Returns the number in an owner entry.
fn owner_number(rest: &[u8]) -> u32 {
    u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]])
}

/// Returns the value in a holders entry.
pub(super) fn holders(rest: &[u8]) -> &[u8] {
    Reader::new(rest).bytes().expect("a chunk is whole")
}
