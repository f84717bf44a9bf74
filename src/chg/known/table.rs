//! A hash table of records of fixed width, which takes about 3 bytes per record in addition to the record.
//!
//! A record begins with its fingerprint, which is evenly distributed and therefore also serves as its hash. The
//! buckets of a [`linear`](crawlspace_compact::linear) hash table are lists of chunks of the same size. If each
//! bucket were a single block, a third of the memory of the process would be unused, because the sizes of buckets
//! change constantly.
//!
//! Beside the chunks, the list also stores one byte of each fingerprint, the tag. A lookup compares the tags of a
//! bucket, which are in a few adjacent cache lines, and reads only the records with the same tag.

use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::linear::{Bucket, Linear};
use crawlspace_host::sizes::class;

use super::record::{MAX_WIDTH, Stored};
use crate::prefetch;

/// Mean number of records per bucket.
const FULL: usize = 128;

/// Number of records per chunk.
const EACH: usize = 16;

/// Number of chunks by which a list grows. If lists had many different sizes, more memory would be
/// left unused.
const GROWTH: usize = 4;

/// Position of the tag in a record. The first bytes of a record select its bucket, so they are less suitable to
/// distinguish the records of a bucket.
const TAG: usize = 7;

/// The bits of a hash that are not in the tag.
const UNTAGGED: u64 = (1 << (8 * TAG)) - 1;

/// A chunk of records: the tag of each record, and its `R` other bytes. The total size of these bytes is a size class
/// of jemalloc.
#[derive(Clone, Debug)]
struct Chunk<const R: usize> {
    tags: [u8; EACH],
    rests: Box<[[u8; R]; EACH]>,
}

/// Records in no particular order.
#[derive(Clone, Debug, Default)]
struct Records<const R: usize> {
    chunks: Vec<Chunk<R>>,
    len: usize,
}

impl<const R: usize> Bucket for Records<R> {
    fn weight(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        self.chunks.len() * EACH * R + class(self.chunks.capacity() * size_of::<Chunk<R>>())
    }
}

/// Returns the hash of the record or fingerprint at the beginning of some bytes.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(
        *bytes
            .first_chunk()
            .expect("a fingerprint has 8 bytes or more"),
    )
}

/// Returns the position of a record in a walk.
pub(super) fn position(print: &[u8]) -> u64 {
    hash(print).reverse_bits()
}

fn tag(hash: u64) -> u8 {
    (hash >> (8 * TAG)) as u8
}

/// Compares a tag with others. In the result, byte `i` is 0x80 if tag `i` matches and, in rare cases, if it does not
/// match.
fn places_of(tag: u8, tags: &[u8; EACH]) -> u128 {
    const ONES: u128 = u128::MAX / 0xff;
    let differences = u128::from_le_bytes(*tags) ^ (ONES * u128::from(tag));
    // Sets the highest bit of each byte that is zero. A borrow may also set the highest bit of the next byte.
    differences.wrapping_sub(ONES) & !differences & (ONES << 7)
}

impl<const R: usize> Records<R> {
    /// Returns the tag and the other bytes of the record with this number.
    fn parts(&self, n: usize) -> (u8, &[u8; R]) {
        let chunk = &self.chunks[n / EACH];
        (chunk.tags[n % EACH], &chunk.rests[n % EACH])
    }

    /// Returns the hash of the record with this number.
    fn hash(&self, n: usize) -> u64 {
        let (tag, rest) = self.parts(n);
        hash(rest) & UNTAGGED | u64::from(tag) << (8 * TAG)
    }

    /// Returns the record with this number.
    fn get(&self, n: usize) -> Stored {
        let (tag, rest) = self.parts(n);
        let mut record = [0; MAX_WIDTH];
        record[..TAG].copy_from_slice(&rest[..TAG]);
        record[TAG] = tag;
        record[TAG + 1..=R].copy_from_slice(&rest[TAG..]);
        Stored::new(record, R + 1)
    }

    /// Returns the records.
    fn iter(&self) -> impl Iterator<Item = Stored> {
        (0..self.len).map(|n| self.get(n))
    }

    /// Returns the number of the first record that may have the tag of a hash and for which `is_it`
    /// returns true.
    fn find_tagged(&self, hash: u64, mut is_it: impl FnMut(usize) -> bool) -> Option<usize> {
        let tag = tag(hash);
        for (at, chunk) in self.chunks.iter().enumerate() {
            let mut places = places_of(tag, &chunk.tags);
            while places != 0 {
                let n = at * EACH + places.trailing_zeros() as usize / 8;
                if n < self.len && is_it(n) {
                    return Some(n);
                }
                places &= places - 1;
            }
        }
        None
    }

    /// Returns the number of the record with a fingerprint.
    fn find(&self, print: &[u8]) -> Option<usize> {
        let first = hash(print);
        let more = &print[TAG + 1..];
        self.find_tagged(first, |n| {
            self.hash(n) == first && self.parts(n).1[TAG..].starts_with(more)
        })
    }

    fn set(&mut self, n: usize, record: &[u8]) {
        let chunk = &mut self.chunks[n / EACH];
        let rest = &mut chunk.rests[n % EACH];
        chunk.tags[n % EACH] = record[TAG];
        rest[..TAG].copy_from_slice(&record[..TAG]);
        rest[TAG..].copy_from_slice(&record[TAG + 1..=R]);
    }

    fn add(&mut self, record: &[u8]) {
        if self.len == self.chunks.len() * EACH {
            if self.chunks.len() == self.chunks.capacity() {
                self.chunks.reserve_exact(GROWTH);
            }
            self.chunks.push(Chunk {
                tags: [0; EACH],
                rests: Box::new([[0; R]; EACH]),
            });
        }
        self.len += 1;
        self.set(self.len - 1, record);
    }

    fn remove(&mut self, n: usize) {
        let last = self.get(self.len - 1);
        self.set(n, &last);
        self.truncate(self.len - 1);
    }

    /// Keeps the first `len` records, and frees chunks that become empty.
    fn truncate(&mut self, len: usize) {
        self.len = len;
        self.chunks.truncate(len.div_ceil(EACH));
        let needed = self.chunks.len().next_multiple_of(GROWTH);
        if needed == 0 || needed + GROWTH < self.chunks.capacity() {
            self.chunks.shrink_to(needed);
        }
    }

    /// Removes and returns the records whose hash has this bit set.
    fn split(&mut self, bit: u32) -> Records<R> {
        let mut moved = Records::default();
        let mut kept = 0;
        for n in 0..self.len {
            let record = self.get(n);
            if hash(&record) >> bit & 1 == 1 {
                moved.add(&record);
            } else {
                self.set(kept, &record);
                kept += 1;
            }
        }
        self.truncate(kept);
        moved
    }

    fn absorb(&mut self, other: &Records<R>) {
        other.iter().for_each(|record| self.add(&record));
    }
}

/// The place of a record, or of a fingerprint without a record. A place is valid until records are
/// added or removed.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Number of the record in its bucket.
    n: Option<usize>,
    /// Number of additions and removals before the look-up.
    age: u64,
}

/// A hash table of records of `R + 1` bytes.
#[derive(Clone, Default)]
pub(super) struct Table<const R: usize> {
    buckets: Linear<Blocks<Records<R>>>,
    /// Number of additions and removals.
    age: u64,
}

impl<const R: usize> Table<R> {
    /// Returns the number of records.
    pub(super) fn len(&self) -> u64 {
        self.buckets.weight() as u64
    }

    /// Prefetches the memory in which records with these hashes are searched.
    pub(super) fn prefetch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        let buckets = hashes.filter_map(|hash| Some((hash, self.buckets.get(hash)?)));
        for (_, bucket) in buckets.clone() {
            prefetch::line(bucket);
        }
        for (_, bucket) in buckets.clone() {
            // A cache line has the tags of at least two chunks.
            bucket.chunks.iter().step_by(2).for_each(prefetch::line);
        }
        for (hash, bucket) in buckets {
            // If the record is not found, it may be added after the last record.
            let n = bucket.find_tagged(hash, |_| true).unwrap_or(bucket.len);
            if n < bucket.chunks.len() * EACH {
                prefetch::line(bucket.parts(n).1);
            }
        }
    }

    /// Returns the place of a fingerprint, and its record if there is one.
    pub(super) fn find(&self, print: &[u8]) -> (Place, Option<Stored>) {
        let bucket = self.buckets.get(hash(print));
        let n = bucket.and_then(|bucket| bucket.find(print));
        let record = bucket.and_then(|bucket| Some(bucket.get(n?)));
        (Place { n, age: self.age }, record)
    }

    /// Stores a record with a fingerprint of `print_bytes`. Searches for the place of the record unless a valid
    /// place is given. Returns the replaced record.
    pub(super) fn put(
        &mut self,
        place: Option<Place>,
        print_bytes: usize,
        record: &[u8],
    ) -> Option<Stored> {
        let place = place.filter(|place| place.age == self.age);
        let replaced = self.buckets.change(hash(record), |bucket| {
            let n = match place {
                Some(place) => place.n,
                None => bucket.find(&record[..print_bytes]),
            };
            if let Some(n) = n {
                let replaced = bucket.get(n);
                bucket.set(n, record);
                return Some(replaced);
            }
            bucket.add(record);
            None
        });
        if replaced.is_none() {
            self.age += 1;
            if self.buckets.weight() > self.buckets.len() * FULL {
                self.buckets.grow(Records::split);
            }
        }
        replaced
    }

    /// Removes the record with a fingerprint, and returns it.
    pub(super) fn remove(&mut self, print: &[u8]) -> Option<Stored> {
        let removed = self.buckets.change(hash(print), |bucket| {
            let n = bucket.find(print)?;
            let record = bucket.get(n);
            bucket.remove(n);
            Some(record)
        });
        self.age += 1;
        let buckets = self.buckets.len();
        if buckets > 1 && self.buckets.weight() < buckets * FULL / 3 {
            self.buckets.shrink(|bucket, last| bucket.absorb(&last));
        }
        removed
    }

    /// Visits the records of one bucket, as a step of a walk that starts at 0. Returns the position of the next
    /// bucket, or `None` after the last bucket. A walk over a changing table visits each record that exists during the
    /// whole walk exactly once.
    pub(super) fn page(&self, from: u64, each: &mut dyn FnMut(&[u8])) -> Option<u64> {
        let step = self.buckets.at(from)?;
        // A bucket that absorbed another bucket contains records that earlier pages have returned.
        let records = step.bucket.iter().filter(|record| position(record) >= from);
        records.for_each(|record| each(&record));
        step.next
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buckets.memory()
    }

    /// Returns the number of memory blocks.
    pub(super) fn pieces(&self) -> usize {
        // A bucket has a list of chunks.
        self.buckets.len() + self.buckets.weight() / EACH
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const WIDTH: usize = 17;

    fn record(n: u64, state: u8) -> [u8; WIDTH] {
        let mut record = [state; WIDTH];
        let print = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
        record[..8].copy_from_slice(&print.to_le_bytes());
        record
    }

    fn walk(table: &Table<{ WIDTH - 1 }>) -> Vec<Vec<u8>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            from = table.page(at, &mut |record| all.push(record.to_vec()));
        }
        all.sort();
        all
    }

    proptest! {
        #[test]
        fn table_holds_the_same_records_as_a_map(
            steps in proptest::collection::vec((0..400_u64, proptest::option::of(any::<u8>())), 0..3000),
        ) {
            let mut table = Table::<{ WIDTH - 1 }>::default();
            let mut model = BTreeMap::new();
            // Places that may be outdated.
            let mut places = BTreeMap::new();
            for (n, state) in steps {
                let print = record(n, 0)[..8].to_vec();
                match state {
                    Some(state) => {
                        let replaced = table.put(places.get(&n).copied(), 8, &record(n, state));
                        let expected = model.insert(print.clone(), record(n, state).to_vec());
                        prop_assert_eq!(replaced.map(|record| record.to_vec()), expected);
                    }
                    None => {
                        let removed = table.remove(&print).map(|record| record.to_vec());
                        prop_assert_eq!(removed, model.remove(&print));
                    }
                }
                table.prefetch([n, n + 1].map(|n| hash(&record(n, 0))).into_iter());
                places.insert(n, table.find(&print).0);
            }
            table.buckets.verify();
            prop_assert_eq!(table.len(), model.len() as u64);
            for n in 0..400 {
                let print = &record(n, 0)[..8];
                let found = table.find(print).1.map(|record| record.to_vec());
                prop_assert_eq!(found.as_ref(), model.get(print));
            }
            let mut all: Vec<Vec<u8>> = model.into_values().collect();
            all.sort();
            prop_assert_eq!(walk(&table), all);
        }
    }

    #[test]
    fn table_takes_three_bytes_more_than_each_record() {
        let mut table = Table::<{ WIDTH - 1 }>::default();
        for n in 0..200_000 {
            table.put(None, 8, &record(n, 1));
        }
        assert!(table.memory() < 200_000 * (WIDTH + 4), "{}", table.memory());
        for n in 0..200_000 {
            table.remove(&record(n, 0)[..8]);
        }
        assert_eq!(table.len(), 0);
        assert!(table.memory() < 10_000, "{}", table.memory());
    }
}
