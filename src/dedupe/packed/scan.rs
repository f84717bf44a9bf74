//! Incremental scans of a part of a packed index. The part may change between two steps.

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
        let mut text = Text::new();
        for _ in 0..8 {
            let mut each = |place: RecordSlot| {
                let (record, _) = self.chunks.record(place);
                if record.is_owner() {
                    text.clear();
                    field::write(record.kind(), record.raw, &mut text);
                    out.push(&text, &self.crawls.get(self.owner_at(place)).id);
                }
            };
            match self.table.walk(cursor.walk, &self.chunks, &mut each) {
                Some(next) => cursor.walk = next,
                None => return false,
            }
            if out.len() - before >= ENTRIES {
                break;
            }
        }
        true
    }

    fn scan_list(&self, list: u32, cursor: &mut Cursor, out: &mut Batch) -> bool {
        let segment = &self.crawls.list(list).segment;
        let mut number = self
            .chunks
            .chunk_from(segment, list, cursor.sequence, cursor.chunk);
        let (mut given, mut looked_at, mut bytes) = (0, 0, 0);
        let mut text = Text::new();
        let mut value = Value::new();
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
                let record = Record::at(&chunk.bytes()[offset..]);
                let place = RecordSlot {
                    chunk: number,
                    offset: offset as u16,
                };
                offset += self.len_of(list, &record);
                if record.is_dead() {
                    continue;
                }
                text.clear();
                value.clear();
                field::write(record.kind(), record.raw, &mut text);
                self.value_at(place, &mut value);
                out.push(&text, &value);
                given += 1;
                bytes += text.len() + value.len();
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

    /// Returns the value in a part, for a position that `find` returned. For [`Part::Owners`], the
    /// value is the owner.
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
