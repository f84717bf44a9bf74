//! A hash table that maps fingerprints to the texts of URLs that are neither queued nor leased, in spaces that keep
//! texts.
//!
//! A bucket of the [`linear`](crawlspace_compact::linear) hash table stores its texts one after the other.
//! Each text is stored as its fingerprint, its length (a varint), and its bytes.

use crawlspace_compact::blocks::Blocks;
use crawlspace_compact::linear::{Bucket, Linear};
use crawlspace_compact::number::{Reader, put};
use crawlspace_host::sizes::class;

use super::table::hash;

/// Mean size of a bucket, in bytes.
const FULL: usize = 1024;

/// The texts of a bucket, in no particular order.
#[derive(Clone, Debug, Default)]
struct Bodies(Vec<u8>);

impl Bucket for Bodies {
    fn weight(&self) -> usize {
        self.0.len()
    }

    fn memory(&self) -> usize {
        self.0.capacity()
    }
}

/// Position of a text in its bucket: the range of the whole entry, and the offset of the text.
struct Entry {
    from: usize,
    text: usize,
    to: usize,
}

impl Bodies {
    /// Returns the entries.
    fn entries(&self, print_bytes: usize) -> impl Iterator<Item = Entry> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let rest = self.0.get(at + print_bytes..)?;
            let mut reader = Reader::new(rest);
            let len = reader.number().ok()? as usize;
            let from = at;
            let text = at + print_bytes + reader.at();
            at = text + len;
            Some(Entry { from, text, to: at })
        })
    }

    fn find(&self, print: &[u8]) -> Option<Entry> {
        let mut entries = self.entries(print.len());
        entries.find(|entry| self.0[entry.from..].starts_with(print))
    }

    fn add(&mut self, print: &[u8], text: &[u8]) {
        let mut len = Vec::with_capacity(4);
        put(&mut len, text.len() as u64);
        let bytes = self.0.len() + print.len() + len.len() + text.len();
        if bytes > self.0.capacity() {
            self.0.reserve_exact(class(bytes) - self.0.len());
        }
        for part in [print, &len, text] {
            self.0.extend_from_slice(part);
        }
    }

    fn remove(&mut self, entry: &Entry) {
        self.0.drain(entry.from..entry.to);
        self.tighten(FULL / 8);
    }

    /// Frees memory if more than `slack` bytes are unused.
    fn tighten(&mut self, slack: usize) {
        let needed = class(self.0.len());
        if self.0.capacity() > needed + slack {
            self.0.shrink_to(needed);
        }
    }

    /// Moves the texts whose hash has this bit set to a new bucket.
    fn split(&mut self, print_bytes: usize, bit: u32) -> Bodies {
        let (mut moved, mut kept) = (Bodies::default(), Vec::with_capacity(self.0.len()));
        for entry in self.entries(print_bytes) {
            let bytes = &self.0[entry.from..entry.to];
            let half = if hash(bytes) >> bit & 1 == 1 {
                &mut moved.0
            } else {
                &mut kept
            };
            half.extend_from_slice(bytes);
        }
        self.0 = kept;
        self.tighten(0);
        moved.tighten(0);
        moved
    }
}

/// Texts by fingerprint.
#[derive(Clone)]
pub(super) struct Texts {
    buckets: Linear<Blocks<Bodies>>,
    print_bytes: usize,
    len: u64,
}

impl Texts {
    /// Creates an empty table for fingerprints of this length.
    pub(super) fn new(print_bytes: usize) -> Texts {
        Texts {
            buckets: Linear::default(),
            print_bytes,
            len: 0,
        }
    }

    /// Returns the number of texts.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the text for a fingerprint.
    pub(super) fn get(&self, print: &[u8]) -> Option<&[u8]> {
        let bucket = self.buckets.get(hash(print))?;
        let entry = bucket.find(print)?;
        Some(&bucket.0[entry.text..entry.to])
    }

    /// Stores the text for a fingerprint. The table must not contain a text for it yet.
    pub(super) fn put(&mut self, print: &[u8], text: &[u8]) {
        self.len += 1;
        self.buckets
            .change(hash(print), |bucket| bucket.add(print, text));
        if self.buckets.weight() > self.buckets.len() * FULL {
            let print_bytes = self.print_bytes;
            self.buckets
                .grow(|bucket, bit| bucket.split(print_bytes, bit));
        }
    }

    /// Removes the text for a fingerprint, and returns it.
    pub(super) fn take(&mut self, print: &[u8]) -> Option<Vec<u8>> {
        let taken = self.buckets.change(hash(print), |bucket| {
            let entry = bucket.find(print)?;
            let text = bucket.0[entry.text..entry.to].to_vec();
            bucket.remove(&entry);
            Some(text)
        });
        self.len -= u64::from(taken.is_some());
        let buckets = self.buckets.len();
        if buckets > 1 && self.buckets.weight() < buckets * FULL / 3 {
            self.buckets
                .shrink(|bucket, last| bucket.0.extend_from_slice(&last.0));
        }
        taken
    }

    /// Visits the fingerprints of one bucket, as a step of a walk that starts at 0. Returns the position of the
    /// next bucket.
    pub(super) fn page(&self, from: u64, each: &mut dyn FnMut(&[u8])) -> Option<u64> {
        let step = self.buckets.at(from)?;
        for entry in step.bucket.entries(self.print_bytes) {
            each(&step.bucket.0[entry.from..entry.from + self.print_bytes]);
        }
        step.next
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

    proptest! {
        #[test]
        fn table_holds_what_a_map_would(
            steps in prop::collection::vec(
                (0..400_u64, proptest::option::of(prop::collection::vec(any::<u8>(), 0..300))), 0..900,
            ),
            is_wide in any::<bool>(),
        ) {
            let len = if is_wide { 12 } else { 8 };
            let mut texts = Texts::new(len);
            let mut map = BTreeMap::new();
            for (n, text) in steps {
                let mut print = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().to_vec();
                print.resize(len, 7);
                prop_assert_eq!(texts.get(&print), map.get(&n).map(|text: &Vec<u8>| &text[..]));
                prop_assert_eq!(texts.take(&print), map.remove(&n));
                if let Some(text) = text {
                    texts.put(&print, &text);
                    map.insert(n, text);
                }
                prop_assert_eq!(texts.len(), map.len() as u64);
            }
        }
    }
}
