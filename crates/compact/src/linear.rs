//! Linear hashing: a hash table of small buckets that grows and shrinks by one bucket at a time, so that a
//! change takes little time even in a large table.
//!
//! The lowest bits of a hash select its bucket. If hashes are ordered by their reversed bits (lowest bit
//! first), all hashes of a bucket are adjacent, for any number of buckets. [`Linear::at`] visits the buckets
//! in this order, so a walk over a changing table returns every entry that exists during the whole walk.

/// A list that grows and shrinks at its end. The implementation determines the cost of cloning the table.
pub trait List: Default {
    /// Type of the items.
    type Item;
    /// Returns the number of items.
    fn len(&self) -> usize;
    /// Returns true if the list is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns the item at an index.
    fn get(&self, at: usize) -> Option<&Self::Item>;
    /// Returns a mutable reference to the item at an index.
    fn get_mut(&mut self, at: usize) -> Option<&mut Self::Item>;
    /// Appends an item.
    fn push(&mut self, item: Self::Item);
    /// Removes the last item and returns it.
    fn pop(&mut self) -> Option<Self::Item>;
    /// Returns the memory of the list in bytes, excluding memory that its items point to.
    fn memory(&self) -> usize;
}

/// A bucket of a hash table.
pub trait Bucket: Default {
    /// Returns the weight of the bucket: its number of entries or bytes. The weight determines when
    /// the table grows.
    fn weight(&self) -> usize;
    /// Returns the memory that the bucket points to, in bytes.
    fn memory(&self) -> usize;
}

/// A hash table of buckets.
#[derive(Clone, Default)]
pub struct Linear<L> {
    buckets: L,
    weight: usize,
    memory: usize,
}

/// A bucket visited by a walk.
pub struct Step<'a, B> {
    /// The visited bucket.
    pub bucket: &'a B,
    /// Number of lowest bits of a hash that select this bucket.
    pub depth: u32,
    /// Cursor of the next bucket; `None` after the last one.
    pub next: Option<u64>,
}

impl<L: List<Item: Bucket>> Linear<L> {
    /// Returns the number of buckets.
    #[inline]
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    /// Returns true if there are no buckets.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the total weight of all buckets.
    #[inline]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the memory in bytes.
    pub fn memory(&self) -> usize {
        self.memory + self.buckets.memory()
    }

    /// Returns the buckets as a list.
    pub fn buckets(&self) -> &L {
        &self.buckets
    }

    /// Returns the buckets as a mutable list. The weight and memory of each bucket, and the number of
    /// buckets, must not change.
    pub fn buckets_mut(&mut self) -> &mut L {
        &mut self.buckets
    }

    /// Returns all buckets.
    pub fn iter(&self) -> impl Iterator<Item = &L::Item> {
        (0..self.len()).filter_map(|at| self.buckets.get(at))
    }

    /// Returns the bucket for a hash, if the table is not empty.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<&L::Item> {
        self.buckets.get(address(hash, self.buckets.len()))
    }

    /// Changes the bucket for a hash, creating the first bucket if necessary.
    #[inline]
    pub fn change<R>(&mut self, hash: u64, change: impl FnOnce(&mut L::Item) -> R) -> R {
        if self.is_empty() {
            self.push(L::Item::default());
        }
        self.count(address(hash, self.buckets.len()), change)
    }

    /// Appends a bucket: the first bucket of a table, or the second half of a split bucket.
    pub fn push(&mut self, bucket: L::Item) {
        self.weight += bucket.weight();
        self.memory += bucket.memory();
        self.buckets.push(bucket);
    }

    /// Adds a bucket. `split` moves all entries whose hash has this bit set from a bucket to a new
    /// one.
    pub fn grow(&mut self, split: impl FnOnce(&mut L::Item, u32) -> L::Item) {
        let len = self.buckets.len();
        let level = len.ilog2();
        let given = self.count(len - (1 << level), |bucket| split(bucket, level));
        self.push(given);
    }

    /// Removes the last of at least two buckets. `absorb` moves the entries of the removed bucket
    /// to another bucket.
    pub fn shrink(&mut self, absorb: impl FnOnce(&mut L::Item, L::Item)) {
        let Some(last) = self.buckets.pop() else {
            return;
        };
        self.weight -= last.weight();
        self.memory -= last.memory();
        let len = self.buckets.len();
        self.count(len - (1 << len.ilog2()), |bucket| absorb(bucket, last));
    }

    /// Returns the bucket at a cursor of a walk, which starts at 0.
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
            // After the last bucket, the addition overflows by one bit, which the shift drops.
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

    /// Checks that the stored counts match the actual contents.
    ///
    /// # Panics
    /// Panics when a count differs from the actual contents.
    pub fn verify(&self) {
        assert_eq!(self.weight, self.iter().map(L::Item::weight).sum::<usize>());
        assert_eq!(self.memory, self.iter().map(L::Item::memory).sum::<usize>());
    }
}

/// Returns the index of the bucket for a hash in a table of `len` buckets.
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
        /// A walk returns every entry that exists during the whole walk.
        #[test]
        fn scan_of_a_changing_table_misses_nothing(
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
