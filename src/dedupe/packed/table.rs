//! Where the records of fields are: a hash table of places, without the fields themselves.
//!
//! It is in shards by the lowest bits of hashes (linear hashing: one shard is split or merged at a time,
//! in order), so that no change takes long however many records there are. A shard is a list of buckets of
//! one cache line each, of any length; where a hash begins in it is told by the highest bits, so that a walk
//! by those bits goes on rightly in a shard that has grown.

use super::blocks::Blocks;
use super::shard::{Ahead, Shard};
use crawlspace_host::defrag::Mover;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordSlot {
    /// Number of the chunk, below 2^24.
    pub chunk: u32,
    pub offset: u16,
}

/// What the table does not know: the records.
pub(super) trait Records {
    /// The hash by which a record is in the table.
    fn hash(&self, place: RecordSlot) -> u64;
    /// Asks for the memory of a record.
    fn prefetch(&self, place: RecordSlot);
}

/// Mean number of places in a shard. One has twice as many before it is split, which
/// takes less than 100 us. Tests have many shards at once.
pub(super) const FULL: usize = if cfg!(test) { 12 } else { 1024 };
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
    shards: Blocks<Shard>,
    len: usize,
    /// How many more are about to come.
    expected: usize,
    /// Bytes of all buckets.
    room: usize,
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
        self.len
    }

    fn shard(&self, hash: u64) -> Option<&Shard> {
        self.shards.get(address(hash, self.shards.len()))
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
        if self.shards.len() == 0 {
            self.shards.push(Shard::default());
        }
        let at = address(hash, self.shards.len());
        let (len, expected) = (self.len, self.expected);
        self.change(at, |shard| {
            shard.add(hash, place, Ahead { len, expected }, records);
        });
        self.len += 1;
        self.expected = self.expected.saturating_sub(1);
        self.grow(records);
    }

    /// Takes a place out.
    pub fn remove(&mut self, hash: u64, place: RecordSlot, records: &impl Records) {
        let at = address(hash, self.shards.len());
        let may_shrink = self.expected == 0;
        self.change(at, |shard| {
            shard.remove(hash, place);
            if may_shrink {
                shard.shrink(records);
            }
        });
        self.len -= 1;
        self.expected = self.expected.saturating_sub(1);
        self.shrink(records);
    }

    /// Puts another place in place of one.
    pub fn replace(&mut self, hash: u64, place: RecordSlot, by: RecordSlot) {
        let at = address(hash, self.shards.len());
        if let Some(shard) = self.shards.get_mut(at) {
            shard.replace(hash, place, by);
        }
    }

    /// Says that so many more are about to come.
    pub fn expect(&mut self, more: usize) {
        self.expected = more.min(EXPECTED);
        let more = self.expected;
        if self.len == 0 {
            let shards = more.div_ceil(FULL).min(AT_ONCE);
            while self.shards.len() < shards {
                self.shards.push(Shard::default());
            }
        }
    }

    /// Splits a shard if there are many more to each than there should be.
    fn grow(&mut self, records: &impl Records) {
        let shards = self.shards.len();
        // Room for what is announced is made little by little, because each split takes its time.
        let ahead = if self.len.is_multiple_of(PACE) {
            self.expected
        } else {
            0
        };
        if self.len + ahead <= shards * FULL || shards == SHARDS {
            return;
        }
        let level = shards.ilog2();
        let (len, expected) = (self.len, self.expected);
        let mut given = Shard::default();
        self.change(shards - (1 << level), |shard| {
            given = shard.split(level, Ahead { len, expected }, records);
        });
        self.room += given.room();
        self.shards.push(given);
    }

    /// Merges two shards if there are far fewer to each than there should be.
    fn shrink(&mut self, records: &impl Records) {
        if self.len == 0 {
            *self = Table::default();
            return;
        }
        let shards = self.shards.len();
        if shards < 2 || self.len + self.expected > shards * FULL / 3 {
            return;
        }
        let Some(last) = self.shards.pop() else {
            return;
        };
        self.room -= last.room();
        let shards = shards - 1;
        self.change(shards - (1 << shards.ilog2()), |shard| {
            shard.absorb(&last, records);
        });
    }

    fn change(&mut self, at: usize, change: impl FnOnce(&mut Shard)) {
        let shard = self.shards.get_mut(at).expect("a shard for each hash");
        let room = shard.room();
        change(shard);
        self.room = self.room - room + shard.room();
    }

    /// Gives places from a position on, at least those of one bucket; where to go on, if there are more.
    /// All that stay are given by a walk from the first position to the last, some twice.
    pub fn walk(
        &self,
        from: TableCursor,
        records: &impl Records,
        each: &mut dyn FnMut(RecordSlot),
    ) -> Option<TableCursor> {
        let shards = self.shards.len();
        let at = address(from.shard.reverse_bits().into(), shards);
        let shard = self.shards.get(at)?;
        let mut depth = shards.next_power_of_two().trailing_zeros();
        if at + shards.next_power_of_two() / 2 >= shards && at < shards.next_power_of_two() / 2 {
            depth -= 1;
        }
        // A shard that was merged since is walked from its beginning.
        let within = if depth < from.depth { 0 } else { from.within };
        if let Some(within) = shard.walk(within, records, each) {
            return Some(TableCursor {
                within,
                depth,
                ..from
            });
        }
        if depth == 0 {
            return None;
        }
        let next = (from.shard >> (32 - depth)) + 1;
        // Beyond the last one there is a bit more.
        (next >> depth == 0).then(|| TableCursor {
            shard: next << (32 - depth),
            depth: 0,
            within: 0,
        })
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.shards.memory() + self.room
    }

    /// Pieces of memory.
    pub fn pieces(&self) -> usize {
        self.shards.pieces() + self.shards.len()
    }

    /// Shards that there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// Moves the memory of a shard to a better place.
    pub fn defrag(&mut self, shard: usize, mover: &mut Mover<'_>) {
        if let Some(shard) = self.shards.get_mut(shard) {
            shard.defrag(mover);
        }
    }

    /// Shards that have memory of their own: one that was split off may have got no place.
    #[cfg(test)]
    pub fn shards_with_room(&self) -> usize {
        self.shards.iter().filter(|shard| shard.room() > 0).count()
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
        let mut len = 0;
        let mut room = 0;
        for (i, shard) in self.shards.iter().enumerate() {
            len += shard.len();
            room += shard.room();
            shard.verify(|hash| address(hash, self.shards.len()) == i, records);
        }
        assert_eq!((len, room), (self.len, self.room));
    }
}

/// The shard of a hash in a table of so many.
fn address(hash: u64, shards: usize) -> usize {
    let mask = shards.next_power_of_two().wrapping_sub(1);
    let at = hash as usize & mask & (SHARDS - 1);
    if at < shards { at } else { at & (mask >> 1) }
}
