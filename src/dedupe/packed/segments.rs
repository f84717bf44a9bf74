//! The chunks of one crawl, or of another list of records.
//!
//! They are a chain, the last one of which is appended to. Records stay where they are until they are
//! changed or removed, or until half of their chunk is of that sort and the segment needs another chunk:
//! then those that are left move to the end. So a walk along the chain gives everything that stays,
//! whatever else happens between its steps.

use super::Packed;
use super::blocks::NONE;
use super::codec::Base;
use super::place::CHUNK;
use super::record::Record;

/// The records of one crawl, or of another list.
#[derive(Clone)]
pub(super) struct Segment {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) next_sequence: u32,
    /// First of the chunks that are mostly dead.
    pub(super) sparse: u32,
    /// Bytes of all records, and of those that are not dead.
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

    /// Whether most of it is dead, beyond what little there may always be.
    pub fn is_sparse(&self) -> bool {
        self.used - self.live > self.live + 2 * CHUNK as u64
    }
}

impl Packed {
    /// Numbers of the chunks of a list, in order.
    pub(super) fn chunks_of(&self, list: u32) -> impl Iterator<Item = u32> + '_ {
        let first = self.crawls.list(list).segment.first;
        let there = |number: u32| (number != NONE).then_some(number);
        std::iter::successors(there(first), move |&number| {
            there(self.chunks.get(number).next())
        })
    }

    /// What the records of a chunk refer to.
    pub(super) fn base_of(&self, chunk: u32) -> Base {
        self.chunks.get(chunk).base()
    }

    /// The records of a chunk that are not dead, in order, each as its bytes.
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
