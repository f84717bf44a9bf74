//! Index from hashes to numbers, in about nine and a half bytes per entry.
//!
//! Several entries may have the same hash. Entries are stored in the buckets of a
//! [`linear`](crate::linear) hash table. [`Interner`](crate::interner) finds an entry faster and
//! takes a third more memory.

use crate::blocks::Blocks;
use crate::linear::{Bucket, Linear, List};

/// Mean number of entries per bucket.
const FULL: usize = 48;

/// Number of entries by which a bucket grows.
const GROWTH: usize = 4;

/// A hash, and a number.
type Entry = (u32, u32);

/// Unordered entries.
#[derive(Clone, Default)]
struct Entries(Vec<Entry>);

impl Bucket for Entries {
    fn weight(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        self.0.capacity() * size_of::<Entry>()
    }
}

impl Entries {
    fn add(&mut self, entry: Entry) {
        if self.0.len() == self.0.capacity() {
            self.0.reserve_exact(GROWTH);
        }
        self.0.push(entry);
    }

    fn remove(&mut self, entry: Entry) {
        if let Some(at) = self.0.iter().position(|other| *other == entry) {
            self.0.swap_remove(at);
        }
        if self.0.capacity() > self.0.len() + 2 * GROWTH {
            self.0.shrink_to(self.0.len() + GROWTH);
        }
    }

    /// Moves all entries whose hash has this bit set to a new bucket.
    fn split(&mut self, bit: u32) -> Entries {
        let moved = self.0.extract_if(.., |(hash, _)| *hash >> bit & 1 == 1);
        let moved = Entries(moved.collect());
        self.0.shrink_to_fit();
        moved
    }

    fn absorb(&mut self, mut other: Entries) {
        self.0.reserve_exact(other.0.len());
        self.0.append(&mut other.0);
    }
}

/// An index from hashes to numbers.
#[derive(Clone, Default)]
pub struct Index(Linear<Blocks<Entries>>);

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("len", &self.len()).finish()
    }
}

impl Index {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.weight()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the numbers of all entries with this hash.
    pub fn numbers(&self, hash: u32) -> impl Iterator<Item = u32> {
        let bucket = self.0.get(hash.into());
        let entries = bucket.into_iter().flat_map(|bucket| &bucket.0);
        let same = entries.filter(move |(of, _)| *of == hash);
        same.map(|(_, number)| *number)
    }

    /// Adds an entry.
    pub fn add(&mut self, hash: u32, number: u32) {
        let entry = (hash, number);
        self.0.change(hash.into(), |bucket| bucket.add(entry));
        if self.0.weight() > self.0.len() * FULL {
            self.0.grow(Entries::split);
        }
    }

    /// Removes one entry with this hash and number, if there is one.
    pub fn remove(&mut self, hash: u32, number: u32) {
        let entry = (hash, number);
        self.0.change(hash.into(), |bucket| bucket.remove(entry));
        if self.0.len() > 1 && self.0.weight() < self.0.len() * FULL / 3 {
            self.0.shrink(Entries::absorb);
        }
    }

    /// Returns the memory use in bytes.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Returns the number of allocations.
    pub fn pieces(&self) -> usize {
        self.0.len()
    }

    /// Returns a memory block, which defragmentation moves.
    pub fn piece(&mut self, number: usize) -> Option<&mut Vec<(u32, u32)>> {
        let bucket = self.0.buckets_mut().get_mut(number)?;
        Some(&mut bucket.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn index_holds_the_same_entries_as_a_map(
            steps in proptest::collection::vec((any::<bool>(), 0..300_u32, 0..3_u32), 0..4000),
        ) {
            let mut index = Index::default();
            let mut model: BTreeMap<Entry, usize> = BTreeMap::new();
            for (adds, n, number) in steps {
                // Several numbers have the same hash.
                let hash = (n / 2).wrapping_mul(0x9e37_79b9);
                let count = model.entry((hash, number)).or_default();
                if adds {
                    *count += 1;
                    index.add(hash, number);
                } else {
                    *count = count.saturating_sub(1);
                    index.remove(hash, number);
                }
            }
            index.0.verify();
            prop_assert_eq!(index.len(), model.values().sum::<usize>());
            for (&(hash, number), &count) in &model {
                prop_assert_eq!(index.numbers(hash).filter(|&other| other == number).count(), count);
            }
        }
    }

    #[test]
    fn index_takes_nine_and_a_half_bytes_per_entry() {
        let mut index = Index::default();
        for n in 0..100_000_u32 {
            index.add(n.wrapping_mul(0x9e37_79b9).rotate_left(16), n);
        }
        assert!(index.memory() < 960_000, "{}", index.memory());
        for n in 0..100_000_u32 {
            index.remove(n.wrapping_mul(0x9e37_79b9).rotate_left(16), n);
        }
        assert!(index.is_empty());
        assert!(index.memory() < 10_000, "{}", index.memory());
    }
}
