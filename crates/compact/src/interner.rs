//! Numbers of things by their contents: an interner keeps each thing once, and finds the number of an equal one.
//!
//! The things stand elsewhere under their numbers; kept here are 32 bits of the hash of each, and its number. The table
//! grows by [`linear`](crate::linear) hashing.

use crate::linear::{Bucket, Linear, List};

/// Mean number of entries of a bucket.
const FULL: usize = 128;

/// Finds numbers, from 1 on, by hash.
#[derive(Clone, Default)]
pub struct Interner<L>(Linear<L>);

impl<L: List<Item = Handles>> Interner<L> {
    /// The number of a thing of that hash for which `is` is true.
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.0.get(hash)?.find(hash as u32, is)
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, hash: u64, number: u32) {
        self.0
            .change(hash, |handles| handles.insert(hash as u32, number));
        if self.0.weight() > self.0.len() * FULL {
            self.0.grow(Handles::split);
        }
    }

    /// Takes a number out, if it is there.
    pub fn remove(&mut self, hash: u64, number: u32) {
        self.0
            .change(hash, |handles| handles.remove(hash as u32, number));
        if self.0.weight() == 0 {
            self.0 = Linear::default();
        } else if self.0.len() > 1 && self.0.weight() < self.0.len() * FULL / 3 {
            self.0.shrink(Handles::absorb);
        }
    }

    /// All numbers, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        let slots = self.0.iter().flat_map(|handles| &handles.slots);
        slots
            .map(|&(_, number)| number)
            .filter(|&number| number > 0)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.0.memory()
    }

    /// Pieces of memory.
    pub fn pieces(&self) -> usize {
        self.0.len()
    }

    /// Checks what is counted as it goes.
    ///
    /// # Panics
    /// When it differs from what there is.
    pub fn verify(&self) {
        self.0.verify();
    }
}

/// A bucket of numbers, each with 32 bits of the hash of its thing.
#[derive(Clone, Default)]
pub struct Handles {
    /// Searched from the place of a hash on, to the first with number 0.
    slots: Vec<(u32, u32)>,
    len: usize,
}

impl Handles {
    fn find(&self, hash: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        let found = self.slot(hash, |&(of, number)| of == hash && is(number))?;
        Some(self.slots[found].1)
    }

    fn insert(&mut self, hash: u32, number: u32) {
        // One slot of four stays empty.
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
        // Those that were not put into their first places because of it move up.
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

    /// Makes slots that have some room beyond so many numbers, and fills those that there are in.
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

    /// Gives away all with that bit in their hashes.
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

/// The slot where the search for a hash begins. All hashes of a bucket have their lowest bits in common.
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
        fn it_finds_what_a_map_finds(
            steps in proptest::collection::vec((any::<bool>(), 1..2000_u32), 0..1500),
            same in 0..3_u32,
        ) {
            // Few hashes, some or many.
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
