//! Interner: stores each distinct value once, and finds the number of an equal value.
//!
//! The caller stores the values by number. The interner stores the number and 32 bits of the hash
//! of each value. The table grows by [`linear`](crate::linear) hashing.

use crate::linear::{Bucket, Linear, List};

/// Mean number of entries per bucket.
const FULL: usize = 128;

/// Finds numbers, starting at 1, by hash.
#[derive(Clone, Default)]
pub struct Interner<L>(Linear<L>);

impl<L: List<Item = Handles>> Interner<L> {
    /// Returns the number with this hash for which `is` returns true.
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.get(hash)?.find(hash as u32, is)
    }

    /// Inserts a number that is not present yet.
    pub fn insert(&mut self, hash: u64, number: u32) {
        self.0
            .change(hash, |handles| handles.insert(hash as u32, number));
        if self.0.weight() > self.0.len() * FULL {
            self.0.grow(Handles::split);
        }
    }

    /// Removes a number, if it is present.
    pub fn remove(&mut self, hash: u64, number: u32) {
        self.0
            .change(hash, |handles| handles.remove(hash as u32, number));
        if self.0.weight() == 0 {
            self.0 = Linear::default();
        } else if self.0.len() > 1 && self.0.weight() < self.0.len() * FULL / 3 {
            self.0.shrink(Handles::absorb);
        }
    }

    /// Returns all numbers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let slots = self.0.iter().flat_map(|handles| &handles.slots);
        slots
            .map(|&(_, number)| number)
            .filter(|&number| number > 0)
    }

    /// Returns the memory in bytes.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Returns the number of allocations.
    pub fn pieces(&self) -> usize {
        self.0.len()
    }

    /// Checks that the stored counts match the actual contents.
    ///
    /// # Panics
    /// Panics when a count differs from the actual contents.
    pub fn verify(&self) {
        self.0.verify();
    }
}

/// A bucket of numbers, each with 32 bits of the hash of its value.
#[derive(Clone, Default)]
pub struct Handles {
    /// Open addressing: a search starts at the slot of the hash, and ends at the first slot with number 0.
    slots: Vec<(u32, u32)>,
    len: usize,
}

impl Handles {
    fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.slot(hash, |&(of, number)| of == hash && is(number))?;
        Some(self.slots[found].1)
    }

    fn insert(&mut self, hash: u32, number: u32) {
        // At least one of four slots stays empty.
        if (self.len + 1) * 4 > self.slots.len() * 3 {
            self.make_slots(self.len + 1);
        }
        self.put(hash, number);
    }

    fn remove(&mut self, hash: u32, number: u32) {
        let Some(mut gap) = self.slot(hash, |&(_, n)| n == number) else {
            return;
        };
        self.len -= 1;
        // Move displaced entries closer to their first slot.
        let slots = self.slots.len();
        let mut at = gap;
        loop {
            at = (at + 1) % slots;
            let (hash, number) = self.slots[at];
            if number == 0 {
                break;
            }
            let first = place(hash, slots);
            if (at + slots - first) % slots >= (at + slots - gap) % slots {
                self.slots[gap] = (hash, number);
                gap = at;
            }
        }
        self.slots[gap] = (0, 0);
    }

    fn slot(&self, hash: u32, is: impl Fn(&(u32, u32)) -> bool) -> Option<usize> {
        if self.slots.is_empty() {
            return None;
        }
        let mut at = place(hash, self.slots.len());
        loop {
            let slot = &self.slots[at];
            if slot.1 == 0 {
                return None;
            }
            if is(slot) {
                return Some(at);
            }
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
    }

    fn put(&mut self, hash: u32, number: u32) {
        let mut at = place(hash, self.slots.len());
        while self.slots[at].1 > 0 {
            at += 1;
            if at == self.slots.len() {
                at = 0;
            }
        }
        self.slots[at] = (hash, number);
        self.len += 1;
    }

    /// Reallocates with room for more than `numbers` entries, and reinserts the existing ones.
    fn make_slots(&mut self, numbers: usize) {
        let slots = (numbers * 3 / 2).next_multiple_of(4);
        let old = std::mem::replace(&mut self.slots, vec![(0, 0); slots]);
        self.len = 0;
        for (hash, number) in old {
            if number > 0 {
                self.put(hash, number);
            }
        }
    }

    /// Moves all entries with this bit set in their hash to a new bucket.
    fn split(&mut self, bit: u32) -> Self {
        let (mut given, mut kept) = (Handles::default(), Handles::default());
        for (hash, number) in std::mem::take(&mut self.slots) {
            if number > 0 {
                let goes = (hash >> bit) & 1 == 1;
                let to = if goes { &mut given } else { &mut kept };
                to.insert(hash, number);
            }
        }
        *self = kept;
        given
    }

    fn absorb(&mut self, other: Self) {
        for (hash, number) in other.slots {
            if number > 0 {
                self.insert(hash, number);
            }
        }
    }
}

/// Returns the slot at which the search for a hash starts. Mixes the hash first, because all hashes
/// of a bucket have the same lowest bits.
fn place(hash: u32, slots: usize) -> usize {
    let mixed = hash.wrapping_mul(0x9e37_79b9);
    ((u64::from(mixed) * slots as u64) >> 32) as usize
}

impl Bucket for Handles {
    fn weight(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        self.slots.len() * size_of::<(u32, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn interner_equals_a_map(
            steps in proptest::collection::vec((any::<bool>(), 1..2000_u32), 0..1500),
            same in 0..3_u32,
        ) {
            // Generate few, some or many distinct hashes.
            let hash = |number: u32| u64::from(number.wrapping_mul(0x9e37_79b9) & [0x3f, 0xfff, u32::MAX][same as usize]);
            let mut interner: Interner<Vec<Handles>> = Interner::default();
            let mut model = BTreeMap::new();
            for (adds, number) in steps {
                if adds && model.insert(number, ()).is_none() {
                    interner.insert(hash(number), number);
                } else if !adds {
                    model.remove(&number);
                    interner.remove(hash(number), number);
                }
            }
            interner.verify();
            for number in 1..2000 {
                let found = interner.find(hash(number), |of| of == number);
                prop_assert_eq!(found.is_some(), model.contains_key(&number));
            }
            for &number in model.keys() {
                interner.remove(hash(number), number);
            }
            prop_assert_eq!((interner.memory(), interner.pieces()), (0, 0));
        }
    }
}
