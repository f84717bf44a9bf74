//! A hash table of records of fixed width, in about 3 bytes more than the width of each.
//!
//! A record begins with its fingerprint, which is evenly distributed, so that it is its own hash. The buckets of a
//! [`linear`](crawlspace_compact::linear) hash table are lists of chunks of the same size: buckets of many sizes in one
//! block each would leave a third of the memory of the process unused, because buckets change their sizes all the time.

use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::linear::{Bucket, Linear};
use smallvec::SmallVec;

/// Mean number of records per bucket.
const FULL: usize = 80;

/// Size of a chunk in bytes: a size class of jemalloc, and just above a multiple of the width of most records (17).
const CHUNK: usize = 256;

/// Records in no order.
#[derive(Clone, Debug, Default)]
struct Records {
    #[expect(
        clippy::vec_box,
        reason = "one block of memory for all chunks would change its size"
    )]
    chunks: Vec<Box<[u8; CHUNK]>>,
    len: usize,
}

impl Bucket for Records {
    fn weight(&self) -> usize {
        self.len
    }

    fn memory(&self) -> usize {
        self.chunks.len() * CHUNK + self.chunks.capacity() * size_of::<usize>()
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

impl Records {
    /// Returns the records.
    fn iter(&self, width: usize) -> impl Iterator<Item = &[u8]> {
        let chunks = self.chunks.iter();
        let records = chunks.flat_map(move |chunk| chunk.chunks_exact(width));
        records.take(self.len)
    }

    /// Returns the number of the record with a fingerprint.
    fn find(&self, width: usize, print: &[u8]) -> Option<usize> {
        let (first, more) = (hash(print), &print[8..]);
        self.iter(width)
            .position(|record| hash(record) == first && record[8..print.len()] == *more)
    }

    /// Returns the record with a number.
    fn get(&self, width: usize, n: usize) -> &[u8] {
        let (chunk, at) = place(width, n);
        &self.chunks[chunk][at..at + width]
    }

    fn set(&mut self, n: usize, record: &[u8]) {
        let (chunk, at) = place(record.len(), n);
        self.chunks[chunk][at..at + record.len()].copy_from_slice(record);
    }

    fn add(&mut self, record: &[u8]) {
        let (chunk, _) = place(record.len(), self.len);
        if chunk == self.chunks.len() {
            self.chunks.push(Box::new([0; CHUNK]));
        }
        self.set(self.len, record);
        self.len += 1;
    }

    fn remove(&mut self, width: usize, n: usize) {
        let last = Stored::from_slice(self.get(width, self.len - 1));
        self.set(n, &last);
        self.truncate(width, self.len - 1);
    }

    /// Keeps the first `len` records, and frees the chunks without any.
    fn truncate(&mut self, width: usize, len: usize) {
        self.len = len;
        self.chunks.truncate(len.div_ceil(CHUNK / width));
        if self.chunks.is_empty() {
            self.chunks = Vec::new();
        }
    }

    /// Removes and returns the records whose hash has this bit set.
    fn split(&mut self, width: usize, bit: u32) -> Records {
        let mut moved = Records::default();
        let mut kept = 0;
        for n in 0..self.len {
            let record = Stored::from_slice(self.get(width, n));
            if hash(&record) >> bit & 1 == 1 {
                moved.add(&record);
            } else {
                self.set(kept, &record);
                kept += 1;
            }
        }
        self.truncate(width, kept);
        moved
    }

    fn absorb(&mut self, width: usize, other: &Records) {
        other.iter(width).for_each(|record| self.add(record));
    }
}

/// Returns the chunk of a record with a number, and its offset in the chunk.
fn place(width: usize, n: usize) -> (usize, usize) {
    let each = CHUNK / width;
    (n / each, n % each * width)
}

/// A record as it is stored.
pub(super) type Stored = SmallVec<[u8; 32]>;

/// A hash table of records.
#[derive(Clone)]
pub(super) struct Table {
    buckets: Linear<Blocks<Records>>,
    width: usize,
}

/// Records of one step of a walk over a table.
pub(super) struct Page<'a> {
    bucket: Option<&'a Records>,
    width: usize,
    /// Position of the page.
    from: u64,
    /// Position of the next page; `None` after the last one.
    pub next: Option<u64>,
}

impl<'a> Page<'a> {
    /// Returns the records.
    pub(super) fn records(&self) -> impl Iterator<Item = &'a [u8]> {
        let (from, width) = (self.from, self.width);
        let records = self.bucket.into_iter();
        let records = records.flat_map(move |bucket| bucket.iter(width));
        // A bucket that absorbed another one has records of earlier pages.
        records.filter(move |record| position(record) >= from)
    }
}

impl Table {
    /// Creates an empty table of records of this width.
    pub(super) fn new(width: usize) -> Table {
        Table {
            buckets: Linear::default(),
            width,
        }
    }

    /// Returns the number of records.
    pub(super) fn len(&self) -> u64 {
        self.buckets.weight() as u64
    }

    /// Returns the record with a fingerprint.
    pub(super) fn get(&self, print: &[u8]) -> Option<&[u8]> {
        let bucket = self.buckets.get(hash(print))?;
        let n = bucket.find(self.width, print)?;
        Some(bucket.get(self.width, n))
    }

    /// Stores a record. Returns the one with the same fingerprint, which is `print_bytes` long, that it replaces.
    pub(super) fn put(&mut self, print_bytes: usize, record: &[u8]) -> Option<Stored> {
        let width = self.width;
        let mut replaced = None;
        self.buckets.change(hash(record), |bucket| {
            match bucket.find(width, &record[..print_bytes]) {
                Some(n) => {
                    replaced = Some(Stored::from_slice(bucket.get(width, n)));
                    bucket.set(n, record);
                }
                None => bucket.add(record),
            }
        });
        if self.buckets.weight() > self.buckets.len() * FULL {
            self.buckets.grow(|bucket, bit| bucket.split(width, bit));
        }
        replaced
    }

    /// Removes the record with a fingerprint, if there is one.
    pub(super) fn remove(&mut self, print: &[u8]) {
        let width = self.width;
        self.buckets.change(hash(print), |bucket| {
            if let Some(n) = bucket.find(width, print) {
                bucket.remove(width, n);
            }
        });
        let buckets = self.buckets.len();
        if buckets > 1 && self.buckets.weight() < buckets * FULL / 3 {
            self.buckets
                .shrink(|bucket, last| bucket.absorb(width, &last));
        }
    }

    /// Returns the records of one bucket of a walk, which starts at 0. A walk over a changing table returns each record
    /// that exists from its first step to its last exactly once.
    pub(super) fn page(&self, from: u64) -> Page<'_> {
        let step = self.buckets.at(from);
        Page {
            bucket: step.as_ref().map(|step| step.bucket),
            width: self.width,
            from,
            next: step.and_then(|step| step.next),
        }
    }

    /// Returns the memory use in bytes.
    pub(super) fn memory(&self) -> usize {
        self.buckets.memory()
    }

    /// Returns the number of memory blocks.
    pub(super) fn pieces(&self) -> usize {
        // A bucket has a list of chunks.
        self.buckets.len() + self.buckets.weight() * self.width / CHUNK
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

    fn walk(table: &Table) -> Vec<Vec<u8>> {
        let (mut all, mut from) = (Vec::new(), Some(0));
        while let Some(at) = from {
            let page = table.page(at);
            all.extend(page.records().map(<[u8]>::to_vec));
            from = page.next;
        }
        all.sort();
        all
    }

    proptest! {
        #[test]
        fn table_holds_the_same_records_as_a_map(
            steps in proptest::collection::vec((0..400_u64, proptest::option::of(any::<u8>())), 0..3000),
        ) {
            let mut table = Table::new(WIDTH);
            let mut model = BTreeMap::new();
            for (n, state) in steps {
                let print = record(n, 0)[..8].to_vec();
                match state {
                    Some(state) => {
                        table.put(8, &record(n, state));
                        model.insert(print, record(n, state).to_vec());
                    }
                    None => {
                        table.remove(&print);
                        model.remove(&print);
                    }
                }
            }
            table.buckets.verify();
            prop_assert_eq!(table.len(), model.len() as u64);
            for n in 0..400 {
                let print = &record(n, 0)[..8];
                prop_assert_eq!(table.get(print), model.get(print).map(|record| &record[..]));
            }
            let mut all: Vec<Vec<u8>> = model.into_values().collect();
            all.sort();
            prop_assert_eq!(walk(&table), all);
        }
    }

    #[test]
    fn table_takes_three_bytes_more_than_each_record() {
        let mut table = Table::new(WIDTH);
        for n in 0..200_000 {
            table.put(8, &record(n, 1));
        }
        assert!(table.memory() < 200_000 * (WIDTH + 4), "{}", table.memory());
        for n in 0..200_000 {
            table.remove(&record(n, 0)[..8]);
        }
        assert_eq!(table.len(), 0);
        assert!(table.memory() < 10_000, "{}", table.memory());
    }
}
