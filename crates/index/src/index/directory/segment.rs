//! A table that maps hashes of urlkeys to the files that can contain them. The table uses less than 16 bits
//! for each urlkey of a file.
//!
//! The upper bits of a hash select its bucket. A slot in the bucket holds the next bits of the hash and the number of a
//! file (quotienting: Knuth, "The Art of Computer Programming", volume 3, exercise 6.4-13). The sizes of the buckets
//! are stored in unary, as in an Elias-Fano code.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of files of a segment.
pub(super) const MAX_FILES: usize = 1 << 10;
/// Maximum number of urlkeys of a segment. A urlkey counts once for each file that contains it.
pub(super) const MAX_KEYS: usize = 4 << 20;
/// Memory limit of all segments of the process, in bytes.
pub(super) const MAX_MEMORY: usize = 256 << 20;
/// Size of a slot in bits.
const SLOT: usize = 14;
/// Number of buckets per sample. With 3/4 of a bucket per slot, a slot takes 14 + 1 + 3/4 (1 + 32/256) = 15.84 bits in
/// total.
const SAMPLED: usize = 256;
/// Mask of the bits of a [`pair`] that hold the number of the file.
const FILE: u64 = MAX_FILES as u64 - 1;

/// Memory used by all segments, in bytes.
static USED: AtomicUsize = AtomicUsize::new(0);

/// Returns the hash of a urlkey.
pub(super) fn hash(urlkey: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(urlkey);
    hasher.finish()
}

/// Combines a hash with the number of a file, which replaces its lowest bits.
pub(super) fn pair(hash: u64, file: usize) -> u64 {
    hash & !FILE | file as u64 & FILE
}

/// A table that maps hashes to files.
#[derive(Debug)]
pub(super) struct Segment {
    files: usize,
    keys: usize,
    buckets: usize,
    /// Number of bits of a slot for the number of the file; the bits of the hash are above them.
    file_bits: u32,
    slots: Box<[u8]>,
    /// Bucket sizes in unary: a one for each slot of a bucket, followed by a zero.
    sizes: Box<[u64]>,
    /// Number of slots before each bucket whose number is a multiple of [`SAMPLED`].
    samples: Box<[u32]>,
}

impl Segment {
    /// Builds the table from sorted, distinct [`pair`]s of files whose numbers are below `files`.
    pub(super) fn new(pairs: &[u64], files: usize) -> Segment {
        let keys = pairs.len();
        let buckets = (keys * 3 / 4).max(1);
        let mut segment = Segment {
            files,
            keys,
            buckets,
            file_bits: usize::BITS - files.saturating_sub(1).leading_zeros(),
            // Padding: a slot is read together with the bytes after it, three bytes at a time.
            slots: vec![0; (keys * SLOT).div_ceil(8) + 2].into(),
            sizes: vec![0; (keys + buckets).div_ceil(64)].into(),
            samples: vec![0; buckets.div_ceil(SAMPLED)].into(),
        };
        let mut sampled = 0;
        for (number, pair) in pairs.iter().enumerate() {
            let (bucket, rest) = segment.place(*pair);
            while sampled * SAMPLED <= bucket {
                segment.samples[sampled] = number as u32;
                sampled += 1;
            }
            segment.sizes[(number + bucket) / 64] |= 1 << ((number + bucket) % 64);
            segment.put(number, rest << segment.file_bits | (pair & FILE) as u32);
        }
        segment.samples[sampled..].fill(keys as u32);
        USED.fetch_add(segment.size(), Ordering::Relaxed);
        segment
    }

    /// Returns the memory used by all segments of the process, in bytes.
    pub(super) fn used() -> usize {
        USED.load(Ordering::Relaxed)
    }

    /// Returns the number of files that the segment was built from.
    pub(super) fn files(&self) -> usize {
        self.files
    }

    /// Returns the number of urlkeys. A urlkey counts once for each file that contains it.
    pub(super) fn keys(&self) -> usize {
        self.keys
    }

    /// Returns the numbers of the files that can contain a urlkey with this hash. The result
    /// includes all files that do contain it and, with 1024 files, a false positive in one of
    /// twelve look-ups. Numbers may repeat.
    pub(super) fn files_with(&self, hash: u64) -> impl Iterator<Item = usize> {
        let (bucket, rest) = self.place(hash);
        let slots = self.bucket(bucket).map(|number| self.slot(number));
        slots
            .skip_while(move |slot| slot >> self.file_bits < rest)
            .take_while(move |slot| slot >> self.file_bits == rest)
            .map(|slot| (slot & ((1 << self.file_bits) - 1)) as usize)
    }

    fn size(&self) -> usize {
        let tables = self.slots.len() + size_of_val(&*self.sizes) + size_of_val(&*self.samples);
        size_of::<Segment>() + tables
    }

    /// Returns the bucket of a hash, and the bits of the hash that its slot stores.
    fn place(&self, hash: u64) -> (usize, u32) {
        let product = u128::from(hash & !FILE) * self.buckets as u128;
        let rest = (product as u64) >> (64 - SLOT as u32 + self.file_bits);
        ((product >> 64) as usize, rest as u32)
    }

    fn put(&mut self, number: usize, slot: u32) {
        let bits = (slot << (number * SLOT % 8)).to_le_bytes();
        let begin = number * SLOT / 8;
        let bytes = self.slots[begin..].iter_mut().zip(bits);
        bytes.for_each(|(byte, bits)| *byte |= bits);
    }

    fn slot(&self, number: usize) -> u32 {
        let begin = number * SLOT / 8;
        let bytes = [0, 1, 2].map(|n| u32::from(self.slots[begin + n]) << (8 * n));
        bytes.iter().sum::<u32>() >> (number * SLOT % 8) & ((1 << SLOT) - 1)
    }

    /// Returns the slot numbers of a bucket.
    fn bucket(&self, bucket: usize) -> Range<usize> {
        let sample = bucket / SAMPLED;
        let first = self.samples[sample] as usize + sample * SAMPLED;
        let begin = match bucket % SAMPLED {
            0 => first,
            before => self.zero(first, before - 1) + 1,
        };
        // The number of zeros before a position equals the number of buckets before this position.
        begin - bucket..self.zero(begin, 0) - bucket
    }

    /// Returns the position of a zero bit in the sizes: skips `skipped` zeros, starting at `first`, and
    /// returns the position of the next zero.
    fn zero(&self, first: usize, mut skipped: usize) -> usize {
        let mut word = first / 64;
        let mut zeros = !self.sizes[word] & u64::MAX << (first % 64);
        while skipped >= zeros.count_ones() as usize {
            skipped -= zeros.count_ones() as usize;
            word += 1;
            zeros = !self.sizes[word];
        }
        for _ in 0..skipped {
            zeros &= zeros - 1;
        }
        word * 64 + zeros.trailing_zeros() as usize
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        USED.fetch_sub(self.size(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redis_tests::Rng;

    use super::*;

    fn segment(pairs: &mut Vec<u64>, files: usize) -> Segment {
        pairs.sort_unstable();
        pairs.dedup();
        Segment::new(pairs, files)
    }

    fn has(segment: &Segment, hash: u64, file: usize) -> bool {
        segment.files_with(hash).any(|found| found == file)
    }

    #[test]
    fn segment_finds_its_keys_and_few_others() {
        let mut rng = Rng::new("segment_finds_its_keys_and_few_others");
        for keys in [0, 1, 2, 100, 1000, 1001, 30_000, 250_000] {
            for files in [1, 2, 3, 100, 1023, 1024] {
                let key = |n: u64| hash(format!("com,example)/page/{n}").as_bytes());
                let mut all: Vec<(u64, usize)> = Vec::new();
                for n in 0..keys {
                    all.push((key(n), rng.below(files) as usize));
                }
                let mut pairs = all.iter().map(|(hash, file)| pair(*hash, *file)).collect();
                let segment = segment(&mut pairs, files as usize);
                assert!(all.iter().all(|(hash, file)| has(&segment, *hash, *file)));
                let found = |n| segment.files_with(key(n)).count();
                let found: usize = (keys..keys + 50_000).map(found).sum();
                let rests = 1 << (SLOT as u32 - segment.file_bits);
                let load = keys as f64 / segment.buckets as f64;
                let expected = 50_000.0 * load / f64::from(rests);
                assert!(
                    (found as f64) < 1.1 * expected + 20.0,
                    "{keys} of {files}: {found}"
                );
                assert!(keys < 100 || load < 1.35, "{keys}: {load}");
                let bytes = segment.size() - size_of::<Segment>();
                assert!(
                    keys < 1000 || bytes as u64 <= keys * 2,
                    "{keys}: {bytes} bytes"
                );
            }
        }
    }

    #[test]
    fn urlkey_may_be_in_all_files_or_few() {
        let mut rng = Rng::new("urlkey_may_be_in_all_files_or_few");
        for files in [1, 7, 1024] {
            let all: Vec<(u64, Vec<usize>)> = (0..200)
                .map(|n| {
                    let some = (0..files).filter(|file| n % 3 == 0 || (file + n) % 100 == 0);
                    (rng.bits(), some.collect())
                })
                .collect();
            // Add pairs in the first and in the last bucket.
            let mut pairs = vec![pair(0, 0), pair(u64::MAX, files - 1)];
            for (hash, files) in &all {
                pairs.extend(files.iter().map(|file| pair(*hash, *file)));
            }
            let segment = segment(&mut pairs, files);
            assert!(has(&segment, 0, 0) && has(&segment, u64::MAX, files - 1));
            for (hash, right) in &all {
                let found: BTreeSet<usize> = segment.files_with(*hash).collect();
                assert!(right.iter().all(|file| found.contains(file)));
                assert!(found.iter().all(|file| *file < files));
                assert!(
                    found.len() <= right.len() + 2 * files / 100 + 2,
                    "{found:?}"
                );
            }
        }
    }
}
