//! Incremental scans of a part of a packed index. The part may change between two steps.

use super::chunk::CHUNKS;
use super::crawls::{HOLDERS, OWNERS};
use super::field::{self, Text};
use super::place::RecordSlot;
use super::record::Record;
use super::table::TableCursor;
use super::{Packed, Part, Value};
use crawlspace_compact::blocks::NONE;
use crawlspace_host::keyspace::Batch;

/// A position in a scan of a part. A scan returns each entry that exists from its first step to its
/// last at least once, even if other entries change between steps.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    /// Position in the merged index, by hash: an entry may move from one crawl to another, but its
    /// hash stays the same.
    walk: TableCursor,
    /// Position in a list of records: the chunk's sequence number in its segment, the chunk, and
    /// the next record.
    sequence: u32,
    chunk: u32,
    offset: u32,
}

/// A step ends after `ENTRIES` entries or `BYTES` bytes, and examines at most `LOOKED_AT` records.
const ENTRIES: usize = 16;
const BYTES: usize = 1 << 16;
const LOOKED_AT: usize = 256;

/// Number of bits of a position that contain the number of a chunk.
const CHUNK_BITS: u32 = CHUNKS.ilog2();
const CHUNK_MASK: u64 = (1 << CHUNK_BITS) - 1;

impl Packed {
    /// Appends the next entries of a part to `out`. Returns false when the scan is complete.
    pub fn scan(&self, part: Part<'_>, cursor: &mut Cursor, out: &mut Batch) -> bool {
        match part {
            Part::Owners => self.scan_owners(cursor, out),
            Part::Holders => self.scan_list(HOLDERS, cursor, out),
            Part::Records(crawl) => match self.crawls.find(crawl) {
                Some(crawl) => self.scan_list(crawl, cursor, out),
                None => false,
            },
        }
    }

    fn scan_owners(&self, cursor: &mut Cursor, out: &mut Batch) -> bool {
        let before = out.len();
        for _ in 0..8 {
            match self.push_owners(cursor.walk, out) {
                Some(next) => cursor.walk = next,
                None => return false,
            }
            if out.len() - before >= ENTRIES {
                break;
            }
        }
        true
    }

    /// Appends the hashes of the next buckets that have an owner to `out`. Returns the next
    /// position, or `None` at the end.
    fn push_owners(&self, from: TableCursor, out: &mut Batch) -> Option<TableCursor> {
        let mut text = Text::new();
        let mut each = |place: RecordSlot| {
            let (record, _) = self.chunks.record(place);
            if record.is_owner() {
                text.clear();
                field::write(record.kind(), record.raw, &mut text);
                out.push(&text, &self.crawls.get(self.owner_at(place)).id);
            }
        };
        self.table.walk(from, &self.chunks, &mut each)
    }

    fn scan_list(&self, list: u32, cursor: &mut Cursor, out: &mut Batch) -> bool {
        let segment = &self.crawls.list(list).segment;
        let mut number = self
            .chunks
            .chunk_from(segment, list, cursor.sequence, cursor.chunk);
        let (mut given, mut looked_at, mut bytes) = (0, 0, 0);
        while number != NONE {
            let chunk = self.chunks.get(number);
            let mut offset = if chunk.sequence() == cursor.sequence {
                cursor.offset as usize
            } else {
                0
            };
            while offset < chunk.bytes().len() {
                if given == ENTRIES || looked_at == LOOKED_AT || bytes >= BYTES {
                    *cursor = Cursor {
                        sequence: chunk.sequence(),
                        chunk: number,
                        offset: offset as u32,
                        ..*cursor
                    };
                    return true;
                }
                looked_at += 1;
                let pushed = self.push_entry(list, number, &mut offset, out);
                given += usize::from(pushed > 0);
                bytes += pushed;
            }
            *cursor = Cursor {
                sequence: chunk.sequence(),
                chunk: number,
                offset: offset as u32,
                ..*cursor
            };
            number = chunk.next();
        }
        false
    }

    /// Appends the entry of a list at an offset in a chunk to `out`, and sets `offset` to the next
    /// entry. Returns the number of bytes; 0 for a deleted entry.
    fn push_entry(&self, list: u32, chunk: u32, offset: &mut usize, out: &mut Batch) -> usize {
        let record = Record::at(&self.chunks.get(chunk).bytes()[*offset..]);
        let place = RecordSlot {
            chunk,
            offset: *offset as u16,
        };
        *offset += self.len_of(list, &record);
        if record.is_dead() {
            return 0;
        }
        let (mut text, mut value) = (Text::new(), Value::new());
        field::write(record.kind(), record.raw, &mut text);
        self.value_at(place, &mut value);
        out.push(&text, &value);
        text.len() + value.len()
    }

    /// Appends the entries of a part at a position to `out`; position 0 is the beginning. Returns the next position,
    /// or `None` at the end. The position is the only state of a scan. The scan gives the same guarantee as a scan
    /// with a [`Cursor`]. Any number is a valid position.
    pub fn scan_at(&self, part: Part<'_>, position: u64, out: &mut Batch) -> Option<u64> {
        match part {
            Part::Owners => {
                let first = TableCursor::at_shard(position as u32);
                let mut walk = first;
                while walk.shard() == first.shard() {
                    walk = self.push_owners(walk, out)?;
                }
                Some(walk.shard().into())
            }
            Part::Holders => self.scan_chunk(HOLDERS, position, out),
            Part::Records(crawl) => self.scan_chunk(self.crawls.find(crawl)?, position, out),
        }
    }

    /// Appends the entries of the chunk at a position of a list to `out`.
    fn scan_chunk(&self, list: u32, position: u64, out: &mut Batch) -> Option<u64> {
        let (sequence, hint) = ((position >> CHUNK_BITS) as u32, position & CHUNK_MASK);
        let segment = &self.crawls.list(list).segment;
        let number = self.chunks.chunk_from(segment, list, sequence, hint as u32);
        if number == NONE {
            return None;
        }
        let chunk = self.chunks.get(number);
        let mut offset = 0;
        while offset < chunk.bytes().len() {
            self.push_entry(list, number, &mut offset, out);
        }
        let next = chunk.next();
        (next != NONE)
            .then(|| u64::from(self.chunks.get(next).sequence()) << CHUNK_BITS | u64::from(next))
    }

    /// Returns the value that a part has at a position returned by `find`. For [`Part::Owners`],
    /// the value is the owner.
    pub(super) fn value_of(&self, place: RecordSlot, part: Part<'_>) -> Value {
        let mut value = Value::new();
        match part {
            Part::Owners => {
                value.extend_from_slice(&self.crawls.get(self.owner_at(place)).id);
            }
            _ => self.value_at(place, &mut value),
        }
        debug_assert!(part == Part::Owners || self.list_of(place) != OWNERS);
        value
    }
}
