//! Where the records of fields are: a hash table of places, without the fields themselves.
//!
//! It is in shards by the lowest bits of hashes, one of which is split or merged at a time. A shard is a list of buckets of
//! one cache line each, of any length; where a hash begins in it is told by the highest bits, so that a walk
//! by those bits goes on rightly in a shard that has grown.

use super::blocks::Blocks;
use super::place::{RecordSlot, Records};
use super::shard::{Ahead, FULL, Shard};
#[cfg(test)]
use crawlspace_compact::linear::{Bucket, address};
use crawlspace_compact::linear::{Linear, List as _};
use crawlspace_host::defrag::Mover;

/// Room for what is announced is made at one of so many insertions.
const PACE: usize = 16;
/// Most shards: how many the bits of a hash that are not otherwise used can tell.
const SHARDS: usize = 1 << 24;
/// Most places that can be expected.
const EXPECTED: usize = 1 << 28;
/// Most shards that are made at once.
const AT_ONCE: usize = 1 << 15;

#[derive(Clone, Default)]
pub(super) struct Table {
    shards: Linear<Blocks<Shard>>,
    /// How many more are about to come.
    expected: usize,
}

/// A position in the order of hashes that a walk follows: shards by the lowest bits read backwards, in
/// each the highest bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableCursor {
    /// The lowest bits, highest first: all that comes before it was given.
    shard: u32,
    /// How many of these bits told the shard.
    depth: u32,
    /// The highest bits: all of the shard that comes before it was given.
    within: u32,
}

impl Table {
    pub fn len(&self) -> usize {
        self.shards.weight()
    }

    #[inline]
    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get(hash)
    }

    /// For whom room is made ahead.
    fn ahead(&self) -> Ahead {
        Ahead {
            len: self.len(),
            expected: self.expected,
        }
    }

    /// Asks for the memory that a search for a hash needs first.
    pub fn prefetch(&self, hash: u64) {
        if let Some(shard) = self.shard(hash) {
            shard.prefetch(hash);
        }
    }

    /// The place of that hash of which `is` is true.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnMut(RecordSlot) -> bool) -> Option<RecordSlot> {
        self.shard(hash)?.find(hash, is)
    }

    /// Adds a place, which is not there.
    pub fn insert(&mut self, hash: u64, place: RecordSlot, records: &impl Records) {
        let ahead = self.ahead();
        self.shards
            .change(hash, |shard| shard.add(hash, place, ahead, records));
        self.expected = self.expected.saturating_sub(1);
        self.grow(records);
    }

    /// Takes a place out.
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

    /// Puts another place in place of one.
    pub fn replace(&mut self, hash: u64, place: RecordSlot, by: RecordSlot) {
        self.shards
            .change(hash, |shard| shard.replace(hash, place, by));
    }

    /// Says that so many more are about to come.
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

    /// Splits a shard if there are many more to each than there should be.
    fn grow(&mut self, records: &impl Records) {
        let (len, shards) = (self.len(), self.shards.len());
        // Room for what is announced is made little by little, because each split takes its time.
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

    /// Merges two shards if there are far fewer to each than there should be.
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

    /// Gives places from a position on, at least those of one bucket; where to go on, if there are more.
    /// All that stay are given by a walk from the first position to the last, some twice.
    pub fn walk(
        &self,
        from: TableCursor,
        records: &impl Records,
        each: &mut dyn FnMut(RecordSlot),
    ) -> Option<TableCursor> {
        let step = self.shards.at(u64::from(from.shard) << 32)?;
        let depth = step.depth;
        // A shard that was merged since is walked from its beginning.
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

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.shards.memory()
    }

    /// Pieces of memory.
    pub fn pieces(&self) -> usize {
        self.shards.buckets().pieces() + self.shards.len()
    }

    /// Shards that there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Moves the memory of a shard to a better place.
    pub fn defrag(&mut self, shard: usize, mover: &mut Mover<'_>) {
        if let Some(shard) = self.shards.buckets_mut().get_mut(shard) {
            shard.defrag(mover);
        }
    }

    /// Shards that have memory of their own: one that was split off may have got no place.
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
