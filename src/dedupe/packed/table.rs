//! Where the records of fields are: a hash table of places, without the fields themselves.
//!
//! It is in shards by the lowest bits of hashes (linear hashing: one shard is split or merged at a time,
//! in order), so that no change takes long however many records there are. A shard is a list of buckets of
//! one cache line each, of any length; where a hash begins in it is told by the highest bits, so that a walk
//! by those bits goes on rightly in a shard that has grown.

use super::blocks::Blocks;
use super::bucket::{Bucket, SLOTS};
use crate::defrag::Mover;
use crate::sizes::class;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Number of the chunk, below 2^24.
    pub chunk: u32,
    pub offset: u16,
}

/// What the table does not know: the records.
pub(super) trait Records {
    /// The hash by which a record is in the table.
    fn hash(&self, place: Place) -> u64;
    /// Asks for the memory of a record.
    fn prefetch(&self, place: Place);
}

/// Mean number of places in a shard. A split of one takes about 50 us. Tests have many shards at once.
const FULL: usize = if cfg!(test) { 12 } else { 1536 };
/// A shard grows beyond so many percent of its slots: most of them are found in the first bucket.
const MOST: usize = 92;
/// A shard shrinks below so many percent.
const FEWEST: usize = 55;
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

#[derive(Default)]
struct Shard {
    buckets: Vec<Bucket>,
    len: u32,
}

impl Clone for Shard {
    fn clone(&self) -> Self {
        let mut buckets = Vec::with_capacity(self.buckets.capacity());
        buckets.extend_from_slice(&self.buckets);
        Shard { buckets, ..*self }
    }
}

/// A position in the order of hashes that a walk follows: shards by the lowest bits read backwards, in
/// each the highest bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Walk {
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
        if let Some(shard) = self.shard(hash).filter(|shard| shard.len > 0) {
            super::prefetch::line(&shard.buckets[shard.home(hash)]);
        }
    }

    /// The place of that hash of which `is` is true.
    #[inline]
    pub fn find(&self, hash: u64, is: impl FnMut(Place) -> bool) -> Option<Place> {
        self.shard(hash)?.find(hash, is)
    }

    /// Adds a place, which is not there.
    pub fn insert(&mut self, hash: u64, place: Place, records: &impl Records) {
        if self.shards.len() == 0 {
            self.shards.push(Shard::default());
        }
        let at = address(hash, self.shards.len());
        let (len, expected) = (self.len, self.expected);
        self.change(at, |shard| {
            if shard.is_full() {
                let ahead = shard.ahead(len, expected);
                shard.rebuild(ahead, records);
            }
            shard.insert(hash, place);
        });
        self.len += 1;
        self.expected = self.expected.saturating_sub(1);
        self.grow(records);
    }

    /// Takes a place out.
    pub fn remove(&mut self, hash: u64, place: Place, records: &impl Records) {
        let at = address(hash, self.shards.len());
        let may_shrink = self.expected == 0;
        self.change(at, |shard| {
            shard.remove(hash, place);
            if may_shrink && shard.is_empty() {
                shard.rebuild(shard.len as usize, records);
            }
        });
        self.len -= 1;
        self.expected = self.expected.saturating_sub(1);
        self.shrink(records);
    }

    /// Puts another place in place of one.
    pub fn replace(&mut self, hash: u64, place: Place, by: Place) {
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
        if self.len + self.expected <= shards * FULL || shards == SHARDS {
            return;
        }
        let level = shards.ilog2();
        let (len, expected) = (self.len, self.expected);
        let mut given = Shard::default();
        self.change(shards - (1 << level), |shard| {
            given = shard.split(level, len, expected, records);
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
        from: Walk,
        records: &impl Records,
        each: &mut dyn FnMut(Place),
    ) -> Option<Walk> {
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
            return Some(Walk {
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
        (next >> depth == 0).then(|| Walk {
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
            mover.list(&mut shard.buckets);
        }
    }

    #[cfg(test)]
    pub fn verify(&self, records: &impl Records) {
        let mut len = 0;
        let mut room = 0;
        for (i, shard) in self.shards.iter().enumerate() {
            len += shard.len as usize;
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
    if at < shards {
        at
    } else {
        at & (mask >> 1)
    }
}

impl Shard {
    fn room(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }

    fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    fn is_full(&self) -> bool {
        (self.len as usize + 1) * 100 > self.slots() * MOST
    }

    fn is_empty(&self) -> bool {
        self.buckets.len() > 1 && (self.len as usize) * 100 < self.slots() * FEWEST
    }

    /// How many slots it should have for the next ones: one more than there are places, and as large a
    /// share of those that are expected as it has of those that there are.
    fn ahead(&self, len: usize, expected: usize) -> usize {
        let own = self.len as usize + 1;
        if expected == 0 {
            return own;
        }
        (own + own * expected / (len + 1)).min(2 * FULL).max(own)
    }

    /// Where the search for a hash begins.
    #[inline]
    fn home(&self, hash: u64) -> usize {
        (((hash >> 32) * self.buckets.len() as u64) >> 32) as usize
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        if at + 1 < self.buckets.len() {
            at + 1
        } else {
            0
        }
    }

    #[inline]
    fn find(&self, hash: u64, mut is: impl FnMut(Place) -> bool) -> Option<Place> {
        if self.buckets.is_empty() {
            return None;
        }
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            for slot in bucket.marked(hash) {
                let place = bucket.place(slot);
                if is(place) {
                    return Some(place);
                }
            }
            if bucket.is_last() {
                return None;
            }
            at = self.after(at);
        }
        None
    }

    fn insert(&mut self, hash: u64, place: Place) {
        let mut at = self.home(hash);
        while !self.buckets[at].insert(hash, place) {
            self.buckets[at].pass();
            at = self.after(at);
        }
        self.len += 1;
    }

    fn remove(&mut self, hash: u64, place: Place) {
        let home = self.home(hash);
        let mut at = home;
        while !self.buckets[at].remove(hash, place) {
            assert!(!self.buckets[at].is_last(), "a record has a slot");
            at = self.after(at);
        }
        self.len -= 1;
        let mut passed = home;
        while passed != at {
            self.buckets[passed].unpass();
            passed = self.after(passed);
        }
    }

    fn replace(&mut self, hash: u64, place: Place, by: Place) {
        let mut at = self.home(hash);
        while !self.buckets[at].replace(hash, place, by) {
            assert!(!self.buckets[at].is_last(), "a record has a slot");
            at = self.after(at);
        }
    }

    /// All places with their hashes.
    fn all(&self, records: &impl Records, out: &mut Vec<(u64, Place)>) {
        // So that many records are waited for at a time.
        for buckets in self.buckets.chunks(8) {
            let from = out.len();
            for place in buckets.iter().flat_map(Bucket::places) {
                records.prefetch(place);
                out.push((0, place));
            }
            for (hash, place) in &mut out[from..] {
                *hash = records.hash(*place);
            }
        }
    }

    /// A shard of these places, with slots for `ahead` of them.
    fn of(places: impl Iterator<Item = (u64, Place)>, ahead: usize) -> Shard {
        let mut shard = Shard::default();
        if ahead > 0 {
            let buckets = (ahead * 100).div_ceil(SLOTS * MOST);
            let buckets = class(buckets * size_of::<Bucket>()) / size_of::<Bucket>();
            shard.buckets = vec![Bucket::default(); buckets];
        }
        for (hash, place) in places {
            shard.insert(hash, place);
        }
        shard
    }

    fn rebuild(&mut self, ahead: usize, records: &impl Records) {
        let mut all = Vec::with_capacity(self.len as usize);
        self.all(records, &mut all);
        // Freed first, so that its memory can be used for something else at once.
        self.buckets = Vec::new();
        *self = Shard::of(all.into_iter(), ahead);
    }

    /// Gives away all with that bit in their hashes.
    fn split(&mut self, bit: u32, len: usize, expected: usize, records: &impl Records) -> Shard {
        let mut all = Vec::with_capacity(self.len as usize);
        self.all(records, &mut all);
        let given = |&(hash, _): &(u64, Place)| hash >> bit & 1 == 1;
        let gives = all.iter().filter(|entry| given(entry)).count();
        self.buckets = Vec::new();
        let made = |len_of: usize, part: &mut dyn Iterator<Item = (u64, Place)>| {
            let shard = Shard {
                len: len_of as u32,
                ..Shard::default()
            };
            let ahead = match len_of {
                0 => 0,
                _ => shard.ahead(len, expected),
            };
            Shard::of(part, ahead)
        };
        let kept = made(
            all.len() - gives,
            &mut all.iter().copied().filter(|e| !given(e)),
        );
        let given = made(gives, &mut all.iter().copied().filter(given));
        *self = kept;
        given
    }

    fn absorb(&mut self, other: &Shard, records: &impl Records) {
        let mut all = Vec::with_capacity((self.len + other.len) as usize);
        self.all(records, &mut all);
        other.all(records, &mut all);
        let ahead = all.len();
        self.buckets = Vec::new();
        *self = Shard::of(all.into_iter(), ahead);
    }

    /// Gives the places whose hashes begin with `from` or more, as far as they have the same home, or the
    /// next few; where the others begin, if there are.
    fn walk(&self, from: u32, records: &impl Records, each: &mut dyn FnMut(Place)) -> Option<u32> {
        /// Homes of a step.
        const HOMES: usize = 2;
        if self.buckets.is_empty() {
            return None;
        }
        let buckets = self.buckets.len();
        let home = self.home(u64::from(from) << 32);
        let end = home + HOMES;
        let first_of = |home: usize| ((home as u64) << 32).div_ceil(buckets as u64);
        let mut at = home;
        for i in 0..buckets {
            for place in self.buckets[at].places() {
                let within = (records.hash(place) >> 32) as u32;
                let home_of = self.home(u64::from(within) << 32);
                if within >= from && (home..end).contains(&home_of) {
                    each(place);
                }
            }
            if i + 1 >= HOMES && self.buckets[at].is_last() {
                break;
            }
            at = self.after(at);
        }
        (end < buckets).then(|| first_of(end) as u32)
    }

    #[cfg(test)]
    fn verify(&self, is_here: impl Fn(u64) -> bool, records: &impl Records) {
        let mut passed = vec![0_u16; self.buckets.len()];
        let mut len = 0;
        for (i, bucket) in self.buckets.iter().enumerate() {
            for place in bucket.places() {
                let hash = records.hash(place);
                assert!(is_here(hash));
                assert!(bucket.marked(hash).any(|slot| bucket.place(slot) == place));
                len += 1;
                let mut at = self.home(hash);
                while at != i {
                    passed[at] += 1;
                    at = self.after(at);
                }
            }
        }
        assert_eq!(len, self.len);
        assert!(self.buckets.is_empty() || (len as usize) < self.slots());
        for (bucket, passed) in self.buckets.iter().zip(passed) {
            assert_eq!(bucket.passed(), passed);
        }
    }
}
