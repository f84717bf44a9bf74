//! A shard of the table: buckets of positions, indexed by the highest bits of their hashes.

use super::bucket::{Bucket, SLOTS};
use super::place::{RecordSlot, Records};
use crate::prefetch;
use crawlspace_compact::linear;
use crawlspace_host::defrag::Mover;
use crawlspace_host::sizes::class;

/// Mean number of positions in a shard. A shard is split when it has twice as many positions. A split
/// takes about 100 µs if none of the records is in the CPU cache. Tests use small values to have
/// many shards.
pub(super) const FULL: usize = if cfg!(test) { 12 } else { 512 };

/// Maximum load of a shard in percent of its slots, at which most positions are found in the first
/// bucket.
const MAX_LOAD: usize = 94;
/// Minimum load of a shard in percent of its slots. A shard with a lower load shrinks.
const MIN_LOAD: usize = 55;
/// Number of positions in the whole table, and number of positions that are expected to be added.
#[derive(Clone, Copy)]
pub(super) struct Ahead {
    pub len: usize,
    pub expected: usize,
}

impl Ahead {
    /// Returns the capacity for a shard with `own` positions: room for these positions, and for a
    /// share of the expected positions that is proportional to `own`.
    fn of(self, own: usize) -> usize {
        let share = own * self.expected / (self.len + 1);
        (own + share).min(2 * FULL).max(own)
    }
}

/// A shard: a small array of buckets that grows independently.
#[derive(Default)]
pub(super) struct Shard {
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

impl linear::Bucket for Shard {
    fn weight(&self) -> usize {
        self.len()
    }

    fn memory(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
    }
}

impl Shard {
    fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// Returns the number of positions.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns the bucket at which the search for a hash begins.
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

    /// Returns the position with this hash for which `is` returns true.
    #[inline]
    pub fn find(&self, hash: u64, mut is: impl FnMut(RecordSlot) -> bool) -> Option<RecordSlot> {
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

    /// Prefetches the first bucket of a search.
    pub fn prefetch(&self, hash: u64) {
        if let Some(bucket) = self.buckets.get(self.home(hash)) {
            prefetch::line(bucket);
        }
    }

    /// Adds a position. The shard must not contain it yet.
    pub fn add(&mut self, hash: u64, place: RecordSlot, ahead: Ahead, records: &impl Records) {
        if (self.len() + 1) * 100 > self.slots() * MAX_LOAD {
            self.rebuild(ahead.of(self.len() + 1), records);
        }
        self.insert(hash, place);
    }

    /// Frees slots if few of them are in use.
    pub fn shrink(&mut self, records: &impl Records) {
        if self.buckets.len() > 1 && self.len() * 100 < self.slots() * MIN_LOAD {
            self.rebuild(self.len(), records);
        }
    }

    /// Moves the memory of the shard to reduce fragmentation.
    pub fn defrag(&mut self, mover: &mut Mover<'_>) {
        mover.list(&mut self.buckets);
    }

    fn insert(&mut self, hash: u64, place: RecordSlot) {
        let mut at = self.home(hash);
        while !self.buckets[at].insert(hash, place) {
            self.buckets[at].pass();
            at = self.after(at);
        }
        self.len += 1;
    }

    /// Removes a position.
    pub fn remove(&mut self, hash: u64, place: RecordSlot) {
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

    /// Replaces a position with another one.
    pub fn replace(&mut self, hash: u64, place: RecordSlot, by: RecordSlot) {
        let mut at = self.home(hash);
        while !self.buckets[at].replace(hash, place, by) {
            assert!(!self.buckets[at].is_last(), "a record has a slot");
            at = self.after(at);
        }
    }

    /// Appends all positions and their hashes to `out`.
    fn all(&self, records: &impl Records, out: &mut Vec<(u64, RecordSlot)>) {
        // Process groups of buckets, so that the memory accesses of many records overlap.
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

    /// Creates a shard of these positions, with the capacity that `ahead` determines.
    fn of(places: impl Iterator<Item = (u64, RecordSlot)>, ahead: usize) -> Shard {
        let mut shard = Shard::default();
        if ahead > 0 {
            let buckets = (ahead * 100).div_ceil(SLOTS * MAX_LOAD);
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
        // Free the old memory first, so that the allocator can reuse it.
        self.buckets = Vec::new();
        *self = Shard::of(all.into_iter(), ahead);
    }

    /// Moves all positions whose hashes have this bit set to a new shard.
    pub fn split(&mut self, bit: u32, ahead: Ahead, records: &impl Records) -> Shard {
        let mut all = Vec::with_capacity(self.len());
        self.all(records, &mut all);
        let is_given = |&(hash, _): &(u64, RecordSlot)| hash >> bit & 1 == 1;
        let gives = all.iter().filter(|entry| is_given(entry)).count();
        self.buckets = Vec::new();
        let given = all.iter().copied().filter(is_given);
        let given = Shard::of(given, ahead.of(gives));
        let kept = all.iter().copied().filter(|entry| !is_given(entry));
        *self = Shard::of(kept, ahead.of(all.len() - gives));
        given
    }

    /// Adds all positions of another shard.
    pub fn absorb(&mut self, other: &Shard, records: &impl Records) {
        let mut all = Vec::with_capacity((self.len + other.len) as usize);
        self.all(records, &mut all);
        other.all(records, &mut all);
        let ahead = all.len();
        self.buckets = Vec::new();
        *self = Shard::of(all.into_iter(), ahead);
    }

    /// Passes the positions of the next buckets to `each`, starting with hashes that begin with
    /// `from`. Returns the position of the next bucket, or `None` at the end.
    pub fn walk(
        &self,
        from: u32,
        records: &impl Records,
        each: &mut dyn FnMut(RecordSlot),
    ) -> Option<u32> {
        /// Number of buckets per step. Each position is assigned to the bucket at which the search for
        /// its hash begins.
        const HOMES: usize = 2;
        if self.buckets.is_empty() {
            return None;
        }
        let buckets = self.buckets.len();
        let home = self.home(u64::from(from) << 32);
        let end = home + HOMES;
        let first_of = |home: usize| ((home as u64) << 32).div_ceil(buckets as u64);
        let mut at = home;
        for bucket in self.buckets[home..].iter().take(HOMES) {
            bucket.places().for_each(|place| records.prefetch(place));
        }
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
    pub fn most_passed(&self) -> u16 {
        self.buckets.iter().map(Bucket::passed).max().unwrap_or(0)
    }

    #[cfg(test)]
    pub fn verify(&self, is_here: impl Fn(u64) -> bool, records: &impl Records) {
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
