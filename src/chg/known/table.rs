//! A hash table of records of fixed width, in about 1.8 bytes more than the width of each.
//!
//! A record begins with its fingerprint, which is evenly distributed, so that it is its own hash. Records lie one after
//! the other in buckets of a [`linear`](crawlspace_compact::linear) hash table.

use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::linear::{Bucket, Linear};
use crawlspace_host::sizes::class;
use smallvec::SmallVec;

/// Mean number of records per bucket.
const FULL: usize = 32;

/// Records in no order.
#[derive(Clone, Debug, Default)]
struct Records(Vec<u8>);

impl Bucket for Records {
    fn weight(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        self.0.capacity()
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
    /// Returns the offset of the record with a fingerprint.
    fn find(&self, width: usize, print: &[u8]) -> Option<usize> {
        let (first, more) = (hash(print), &print[8..]);
        let mut records = self.0.chunks_exact(width);
        let at =
            records.position(|record| hash(record) == first && record[8..print.len()] == *more)?;
        Some(at * width)
    }

    fn add(&mut self, record: &[u8]) {
        let len = self.0.len() + record.len();
        if len > self.0.capacity() {
            self.0.reserve_exact(class(len) - self.0.len());
        }
        self.0.extend_from_slice(record);
    }

    fn remove(&mut self, width: usize, at: usize) {
        let last = self.0.len() - width;
        self.0.copy_within(last.., at);
        self.0.truncate(last);
        self.tighten(2 * width);
    }

    /// Frees memory if more than `slack` bytes are unused.
    fn tighten(&mut self, slack: usize) {
        let needed = class(self.0.len());
        if self.0.capacity() > needed + slack {
            self.0.shrink_to(needed);
        }
    }

    /// Moves the records out whose hash has this bit set.
    fn split(&mut self, width: usize, bit: u32) -> Records {
        let mut moved = Records::default();
        let mut kept = Vec::with_capacity(self.0.len());
        for record in self.0.chunks_exact(width) {
            if hash(record) >> bit & 1 == 1 {
                moved.0.extend_from_slice(record);
            } else {
                kept.extend_from_slice(record);
            }
        }
        self.0 = kept;
        self.tighten(0);
        moved.tighten(0);
        moved
    }

    fn absorb(&mut self, other: &Records) {
        self.0
            .reserve_exact(class(self.0.len() + other.0.len()) - self.0.len());
        self.0.extend_from_slice(&other.0);
    }
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
    bytes: &'a [u8],
    width: usize,
    /// Position of the page.
    from: u64,
    /// Position of the next page; `None` after the last one.
    pub next: Option<u64>,
}

impl<'a> Page<'a> {
    /// Returns the records.
    pub(super) fn records(&self) -> impl Iterator<Item = &'a [u8]> {
        let from = self.from;
        let records = self.bytes.chunks_exact(self.width);
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
        (self.buckets.weight() / self.width) as u64
    }

    /// Returns the record with a fingerprint.
    pub(super) fn get(&self, print: &[u8]) -> Option<&[u8]> {
        let bucket = self.buckets.get(hash(print))?;
        let at = bucket.find(self.width, print)?;
        Some(&bucket.0[at..at + self.width])
    }

    /// Stores a record. Returns the one with the same fingerprint, which is `print_bytes` long, that it replaces.
    pub(super) fn put(&mut self, print_bytes: usize, record: &[u8]) -> Option<Stored> {
        let width = self.width;
        let mut replaced = None;
        self.buckets.change(hash(record), |bucket| {
            match bucket.find(width, &record[..print_bytes]) {
                Some(at) => {
                    let place = &mut bucket.0[at..at + width];
                    replaced = Some(Stored::from_slice(place));
                    place.copy_from_slice(record);
                }
                None => bucket.add(record),
            }
        });
        if self.buckets.weight() > self.buckets.len() * FULL * width {
            self.buckets.grow(|bucket, bit| bucket.split(width, bit));
        }
        replaced
    }

    /// Removes the record with a fingerprint, if there is one.
    pub(super) fn remove(&mut self, print: &[u8]) {
        let width = self.width;
        self.buckets.change(hash(print), |bucket| {
            if let Some(at) = bucket.find(width, print) {
                bucket.remove(width, at);
            }
        });
        let buckets = self.buckets.len();
        if buckets > 1 && self.buckets.weight() < buckets * FULL * width / 3 {
            self.buckets.shrink(|bucket, last| bucket.absorb(&last));
        }
    }

    /// Returns the records of one bucket of a walk, which starts at 0. A walk over a changing table returns each record
    /// that exists from its first step to its last exactly once.
    pub(super) fn page(&self, from: u64) -> Page<'_> {
        let step = self.buckets.at(from);
        Page {
            bytes: step.as_ref().map_or(&[], |step| &step.bucket.0),
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
        self.buckets.len()
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
    fn table_takes_two_bytes_more_than_each_record() {
        let mut table = Table::new(WIDTH);
        for n in 0..200_000 {
            table.put(8, &record(n, 1));
        }
        assert!(table.memory() < 200_000 * (WIDTH + 3), "{}", table.memory());
        for n in 0..200_000 {
            table.remove(&record(n, 0)[..8]);
        }
        assert_eq!(table.len(), 0);
        assert!(table.memory() < 10_000, "{}", table.memory());
    }
}
