//! A hash table of the positions of records. It does not store the fields.
//!
//! The lowest bits of a hash select a shard. Shards are split and merged one at a time (linear
//! hashing). A shard is a list of buckets of one cache line each. The highest bits of a hash select
//! the bucket at which a search begins. Therefore a walk in the order of the highest bits can
//! continue after the shard has grown.

use super::place::{RecordSlot, Records};
use super::shard::{Ahead, FULL, Shard};
use crawlspace_compact::blocks::Blocks;
#[cfg(test)]
use crawlspace_compact::linear::{Bucket, address};
use crawlspace_compact::linear::{Linear, List as _};
use crawlspace_host::defrag::Mover;

/// Number of insertions per step in which memory for announced records is allocated.
const PACE: usize = 16;
/// Maximum number of shards, as limited by the bits of a hash that have no other use.
const SHARDS: usize = 1 << 24;
/// Maximum number of positions that can be announced.
const EXPECTED: usize = 1 << 28;
/// Maximum number of shards that one call creates.
const AT_ONCE: usize = 1 << 15;

#[derive(Clone, Default)]
pub(super) struct Table {
    shards: Linear<Blocks<Shard>>,
    /// Number of positions that were announced and not yet added.
    expected: usize,
}

/// A position in a walk over the table. Shards are visited in the order of the reversed lowest bits
/// of hashes, and the positions of a shard in the order of the highest bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableCursor {
    /// The reversed lowest bits. The walk has returned everything before them.
    shard: u32,
    /// Number of the lowest bits that selected the shard.
    depth: u32,
    /// The highest bits. In this shard, the walk has returned everything before them.
    within: u32,
}

impl TableCursor {
    /// Returns the number of the shard in the order of the walk. This number has as many bits as
    /// the number of shards can have.
    pub fn shard(self) -> u32 {
        self.shard >> (32 - SHARDS.ilog2())
    }

    /// Returns the beginning of a shard, given by its number in the order of the walk.
    pub fn at_shard(number: u32) -> TableCursor {
        TableCursor {
            shard: number << (32 - SHARDS.ilog2()),
            ..TableCursor::default()
        }
    }
}

impl Table {
    pub fn len(&self) -> usize {
        self.shards.weight()
    }

    #[inline]
    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get(hash)
    }

    /// Returns the numbers from which shards compute their capacity.
    fn ahead(&self) -> Ahead {
        Ahead {
            len: self.len(),
            expected: self.expected,
        }
    }

    /// Prefetches the memory that a search for a hash reads first.
    pub fn prefetch(&self, hash: u64) {
        if let Some(shard) = self.shard(hash) {
            shard.prefetch(hash);
        }
    }

    /// Returns the position with this hash for which `is` returns true.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnMut(RecordSlot) -> bool) -> Option<RecordSlot> {
        self.shard(hash)?.find(hash, is)
    }

    /// Adds a position. The table must not contain it yet.
    pub fn insert(&mut self, hash: u64, place: RecordSlot, records: &impl Records) {
        let ahead = self.ahead();
        self.shards
            .change(hash, |shard| shard.add(hash, place, ahead, records));
        self.expected = self.expected.saturating_sub(1);
        self.grow(records);
    }

    /// Removes a position.
    pub fn remove(&mut self, hash: u64, place: RecordSlot, records: &impl Records) {
        let may_shrink = self.expected == 0;
        self.shards.change(hash, |shard| {
            shard.remove(hash, place);
            if may_shrink {
                shard.shrink(records);
            }
        });
        self.expected = self.expected.saturating_sub(1);
        self.shrink(records);
    }

    /// Replaces a position with another one.
    pub fn replace(&mut self, hash: u64, place: RecordSlot, by: RecordSlot) {
        self.shards
            .change(hash, |shard| shard.replace(hash, place, by));
    }

    /// Announces the number of positions that will be added.
    pub fn expect(&mut self, more: usize) {
        self.expected = more.min(EXPECTED);
        let more = self.expected;
        if self.len() == 0 {
            let shards = more.div_ceil(FULL).min(AT_ONCE);
            while self.shards.len() < shards {
                self.shards.push(Shard::default());
            }
        }
    }

    /// Splits a shard if the mean number of positions per shard is too high.
    fn grow(&mut self, records: &impl Records) {
        let (len, shards) = (self.len(), self.shards.len());
        // Memory for announced positions is allocated gradually, because each split takes time.
        let more = if len.is_multiple_of(PACE) {
            self.expected
        } else {
            0
        };
        if len + more <= shards * FULL || shards == SHARDS {
            return;
        }
        let ahead = self.ahead();
        self.shards
            .grow(|shard, bit| shard.split(bit, ahead, records));
    }

    /// Merges two shards if the mean number of positions per shard is too low.
    fn shrink(&mut self, records: &impl Records) {
        if self.len() == 0 {
            *self = Table::default();
            return;
        }
        let shards = self.shards.len();
        if shards >= 2 && self.len() + self.expected <= shards * FULL / 3 {
            self.shards
                .shrink(|shard, last| shard.absorb(&last, records));
        }
    }

    /// Passes the positions of one or more buckets, starting at a position, to `each`. Returns the
    /// next position, or `None` at the end. A complete walk returns every position that remains in the
    /// table during the walk, and may return some positions twice.
    pub fn walk(
        &self,
        from: TableCursor,
        records: &impl Records,
        each: &mut dyn FnMut(RecordSlot),
    ) -> Option<TableCursor> {
        let step = self.shards.at(u64::from(from.shard) << 32)?;
        let depth = step.depth;
        // If the shard was merged since the last step, walk it from its beginning.
        let within = if depth < from.depth { 0 } else { from.within };
        if let Some(within) = step.bucket.walk(within, records, each) {
            return Some(TableCursor {
                within,
                depth,
                ..from
            });
        }
        step.next.map(|next| TableCursor {
            shard: (next >> 32) as u32,
            depth: 0,
            within: 0,
        })
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.shards.memory()
    }

    /// Returns the number of allocations.
    pub fn pieces(&self) -> usize {
        self.shards.buckets().pieces() + self.shards.len()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Moves the memory of a shard to reduce fragmentation.
    pub fn defrag(&mut self, shard: usize, mover: &mut Mover<'_>) {
        if let Some(shard) = self.shards.buckets_mut().get_mut(shard) {
            shard.defrag(mover);
        }
    }

    /// Returns the number of shards that have allocated memory. A shard that a split created may be
    /// empty.
    #[cfg(test)]
    pub fn shards_with_room(&self) -> usize {
        self.shards
            .iter()
            .filter(|shard| shard.memory() > 0)
            .count()
    }

    #[cfg(test)]
    pub fn most_passed(&self) -> u16 {
        self.shards
            .iter()
            .map(Shard::most_passed)
            .max()
            .unwrap_or(0)
    }

    #[cfg(test)]
    pub fn verify(&self, records: &impl Records) {
        self.shards.verify();
        for (i, shard) in self.shards.iter().enumerate() {
            shard.verify(|hash| address(hash, self.shards.len()) == i, records);
        }
    }
}
