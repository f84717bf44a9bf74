//! Segments: the chunks of a crawl, or of another list of records.
//!
//! Chunks form a linked list, and records are appended to the last chunk. A record keeps its position
//! until it is changed or deleted. It also moves if half of its chunk is dead when the segment needs
//! another chunk: the live records of such a chunk move to the end of the list. Therefore a walk
//! along the list returns every record that remains, even if other records change between the steps
//! of the walk.

use super::Packed;
use super::codec::Base;
use super::place::CHUNK;
use super::record::Record;
use crawlspace_compact::blocks::NONE;

/// The records of a crawl, or of another list.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) next_sequence: u32,
    /// The first chunk in the list of mostly dead chunks.
    pub(super) sparse: u32,
    /// Total size in bytes of all records, and of the live records.
    pub(super) used: u64,
    pub(super) live: u64,
}

impl Default for Segment {
    fn default() -> Self {
        Segment {
            first: NONE,
            last: NONE,
            next_sequence: 0,
            sparse: NONE,
            used: 0,
            live: 0,
        }
    }
}

impl Segment {
    #[cfg(test)]
    pub fn sizes(&self) -> (u64, u64) {
        (self.used, self.live)
    }

    /// Returns true if most of the segment is dead. Always returns false for a small number of dead
    /// bytes.
    pub fn is_sparse(&self) -> bool {
        self.used - self.live > self.live + 2 * CHUNK as u64
    }
}

impl Packed {
    /// Returns the numbers of the chunks of a list, in order.
    pub(super) fn chunks_of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.crawls.list(list).segment.first;
        let there = |number: u32| (number != NONE).then_some(number);
        std::iter::successors(there(first), move |&number| {
            there(self.chunks.get(number).next())
        })
    }

    /// Returns the base of a chunk.
    pub(super) fn base_of(&self, chunk: u32) -> Base {
        self.chunks.get(chunk).base()
    }

    /// Returns the live records of a chunk, in order, each as its bytes.
    pub(super) fn records_of(&self, chunk: u32) -> impl Iterator<Item = &[u8]> {
        let chunk = self.chunks.get(chunk);
        let mut rest = chunk.bytes();
        let all = std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let record = Record::at(rest);
            let bytes;
            (bytes, rest) = rest.split_at(self.len_of(chunk.crawl(), &record));
            Some((record.is_dead(), bytes))
        });
        all.filter_map(|(is_dead, bytes)| (!is_dead).then_some(bytes))
    }
}
