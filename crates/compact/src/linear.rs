//! Linear hashing: a hash table in small buckets that grows and shrinks by one bucket at a time, so that no change
//! takes long however much there is.
//!
//! The bucket of a hash is told by its lowest bits. So the order of hashes read backwards (lowest bit first) goes through
//! all buckets in turn however many there are: that is the order of [`Linear::at`], and what makes a walk over a
//! changing table miss nothing.

/// A list that grows and shrinks at its end. What it is made of decides what a copy of the table costs.
pub trait List: Default {
    /// What it holds.
    type Item;
    /// Number of items.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// The item at a place.
    fn get(&self, at: usize) -> Option<&Self::Item>;
    /// The item at a place, to be changed.
    fn get_mut(&mut self, at: usize) -> Option<&mut Self::Item>;
    /// Appends an item.
    fn push(&mut self, item: Self::Item);
    /// Takes the last item out.
    fn pop(&mut self) -> Option<Self::Item>;
    /// Bytes of the list, without what its items point to.
    fn memory(&self) -> usize;
}

/// A piece of a hash table.
pub trait Bucket: Default {
    /// What it counts for when the table decides whether it grows: entries, or bytes.
    fn weight(&self) -> usize;
    /// Bytes that it points to.
    fn memory(&self) -> usize;
}

/// A hash table of buckets.
#[derive(Clone, Default)]
pub struct Linear<L> {
    buckets: L,
    weight: usize,
    memory: usize,
}

/// A bucket in the order of a walk.
pub struct Step<'a, B> {
    /// The bucket.
    pub bucket: &'a B,
    /// How many of the lowest bits of a hash tell it.
    pub depth: u32,
    /// Where the next bucket begins; `None` after the last one.
    pub next: Option<u64>,
}

impl<L: List<Item: Bucket>> Linear<L> {
    /// Number of buckets.
    #[inline]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Whether there is no bucket.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What all buckets weigh.
    #[inline]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.memory + self.buckets.memory()
    }

    /// The buckets as a list.
    pub fn buckets(&self) -> &L {
        &self.buckets
    }

    /// The buckets as a list. Weight and memory of each, and their number, must stay.
    pub fn buckets_mut(&mut self) -> &mut L {
        &mut self.buckets
    }

    /// All buckets.
    pub fn iter(&self) -> impl Iterator<Item = &L::Item> {
        (0..self.len()).filter_map(|at| self.buckets.get(at))
    }

    /// The bucket where something of that hash is, if it is.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<&L::Item> {
        self.buckets.get(address(hash, self.buckets.len()))
    }

    /// Changes the bucket where something of that hash is or will be.
    #[inline]
    pub fn change<R>(&mut self, hash: u64, change: impl FnOnce(&mut L::Item) -> R) -> R {
        if self.is_empty() {
            self.push(L::Item::default());
        }
        self.count(address(hash, self.buckets.len()), change)
    }

    /// Appends a bucket, while there is nothing in the table or as the half of another one.
    pub fn push(&mut self, bucket: L::Item) {
        self.weight += bucket.weight();
        self.memory += bucket.memory();
        self.buckets.push(bucket);
    }

    /// Makes one bucket more: `split` gives away all of a bucket with that bit in their hashes.
    pub fn grow(&mut self, split: impl FnOnce(&mut L::Item, u32) -> L::Item) {
        let len = self.buckets.len();
        let level = len.ilog2();
        let given = self.count(len - (1 << level), |bucket| split(bucket, level));
        self.push(given);
    }

    /// Makes one bucket less, of at least two: `absorb` puts all of the last one into another.
    pub fn shrink(&mut self, absorb: impl FnOnce(&mut L::Item, L::Item)) {
        let Some(last) = self.buckets.pop() else {
            return;
        };
        self.weight -= last.weight();
        self.memory -= last.memory();
        let len = self.buckets.len();
        self.count(len - (1 << len.ilog2()), |bucket| absorb(bucket, last));
    }

    /// The bucket at a place of the walk, which begins at 0.
    pub fn at(&self, cursor: u64) -> Option<Step<'_, L::Item>> {
        let len = self.buckets.len();
        let at = address(cursor.reverse_bits(), len);
        let bucket = self.buckets.get(at)?;
        let half = len.next_power_of_two() / 2;
        let mut depth = len.next_power_of_two().trailing_zeros();
        if at < half && at + half >= len {
            depth -= 1;
        }
        let next = match depth {
            0 => None,
            _ => ((cursor >> (64 - depth)) + 1).checked_shl(64 - depth),
        };
        Some(Step {
            bucket,
            depth,
            // Past the last one the sum has a bit too many, which the shift drops.
            next: next.filter(|&next| next > 0),
        })
    }

    #[inline]
    fn count<R>(&mut self, at: usize, change: impl FnOnce(&mut L::Item) -> R) -> R {
        let bucket = self.buckets.get_mut(at).expect("a bucket for each hash");
        let (weight, memory) = (bucket.weight(), bucket.memory());
        let changed = change(bucket);
        self.weight = self.weight - weight + bucket.weight();
        self.memory = self.memory - memory + bucket.memory();
        changed
    }

    /// Checks what is counted as it goes.
    ///
    /// # Panics
    /// When it differs from what there is.
    pub fn verify(&self) {
        assert_eq!(self.weight, self.iter().map(L::Item::weight).sum::<usize>());
        assert_eq!(self.memory, self.iter().map(L::Item::memory).sum::<usize>());
    }
}

/// The place of a hash in a table of so many buckets.
#[inline]
pub fn address(hash: u64, len: usize) -> usize {
    let mask = len.next_power_of_two() - 1;
    let at = hash as usize & mask;
    if at < len { at } else { at & (mask >> 1) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use proptest::prelude::*;

    impl Bucket for BTreeSet<u64> {
        fn weight(&self) -> usize {
            self.len()
        }

        fn memory(&self) -> usize {
            8 * self.len()
        }
    }

    impl<B> List for Vec<B> {
        type Item = B;

        fn len(&self) -> usize {
            Vec::len(self)
        }

        fn get(&self, at: usize) -> Option<&B> {
            <[B]>::get(self, at)
        }

        fn get_mut(&mut self, at: usize) -> Option<&mut B> {
            <[B]>::get_mut(self, at)
        }

        fn push(&mut self, item: B) {
            Vec::push(self, item);
        }

        fn pop(&mut self) -> Option<B> {
            Vec::pop(self)
        }

        fn memory(&self) -> usize {
            size_of_val(&self[..])
        }
    }

    type Table = Linear<Vec<BTreeSet<u64>>>;

    fn grow(table: &mut Table) {
        table.grow(|bucket, bit| {
            let (given, kept) = bucket.iter().partition(|&hash| hash >> bit & 1 == 1);
            *bucket = kept;
            given
        });
    }

    proptest! {
        /// Whatever is there from the first step of a walk to the last is given.
        #[test]
        fn a_walk_over_a_changing_table_misses_nothing(
            stays in proptest::collection::btree_set(any::<u64>(), 1..100),
            comes in proptest::collection::btree_set(any::<u64>(), 0..100),
            first in 1..20_usize,
            steps in proptest::collection::vec(0..3_u8, 0..60),
        ) {
            let mut table = Table::default();
            for &hash in stays.union(&comes) {
                table.change(hash, |bucket| bucket.insert(hash));
            }
            for _ in 0..first {
                grow(&mut table);
            }
            let (mut found, mut cursor) = (BTreeSet::new(), Some(0));
            let mut steps = steps.into_iter();
            while let Some(from) = cursor {
                let step = table.at(from).unwrap();
                found.extend(step.bucket.iter().copied());
                cursor = step.next;
                match steps.next() {
                    Some(0) => grow(&mut table),
                    Some(1) if table.len() > 1 => table.shrink(|bucket, last| bucket.extend(last)),
                    Some(2) => for &hash in comes.difference(&stays) {
                        table.change(hash, |bucket| bucket.remove(&hash));
                    },
                    _ => {}
                }
                table.verify();
                for &hash in &stays {
                    prop_assert!(table.get(hash).unwrap().contains(&hash));
                }
            }
            prop_assert!(stays.is_subset(&found));
        }
    }
}
