//! Synthetic crawls: hashes, records, and large crawls as a plain client writes them.

use std::ops::Range;

use crate::wire::{Reply, Wire, Word};

/// The date of synthetic records.
pub const DATE: &str = "20260319102015123";

/// Returns the `n`-th synthetic hash as the `document` profile writes it. The hash is not a digest of
/// any content. All 64 hex digits of the hash depend on `n`.
pub fn sha256_of(n: u64) -> String {
    let mut hex = String::from("sha256:");
    let mut state = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for lane in 1..=4u64 {
        state = (state ^ (state >> 29))
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
            .wrapping_add(n ^ lane);
        hex.push_str(&format!("{state:016x}"));
    }
    hex
}

/// Returns the URL of the `n`-th synthetic record.
pub fn url_of(n: u64) -> String {
    format!("http://example.com/page/{n}")
}

/// Returns the size of the `n`-th synthetic record.
pub fn size_of(n: u64) -> u64 {
    1000 + n % 500
}

/// Returns the five arguments of the `n`-th synthetic record: hash, WACZ index, date, URL, size.
pub fn words_of(n: u64) -> [Vec<u8>; 5] {
    [
        sha256_of(n).word(),
        "0".word(),
        DATE.word(),
        url_of(n).word(),
        size_of(n).word(),
    ]
}

/// A synthetic crawl of consecutive hashes.
#[derive(Clone, Copy, Debug)]
pub struct Crawl<'a> {
    /// Prefix of the index.
    pub prefix: &'a str,
    /// Id of the crawl.
    pub id: &'a str,
    /// Number of the first hash (see [`sha256_of`]).
    pub first: u64,
    /// Number of hashes.
    pub hashes: u64,
}

impl<'a> Crawl<'a> {
    /// Creates a crawl of these hashes.
    pub fn of(prefix: &'a str, id: &'a str, hashes: Range<u64>) -> Crawl<'a> {
        Crawl {
            prefix,
            id,
            first: hashes.start,
            hashes: hashes.end - hashes.start,
        }
    }

    /// Returns the `i`-th hash of this crawl.
    pub fn hash(&self, i: u64) -> String {
        sha256_of(self.first + i)
    }

    /// Returns all hashes of this crawl.
    pub fn all(&self) -> impl Iterator<Item = String> + '_ {
        (0..self.hashes).map(|i| self.hash(i))
    }

    /// Adds the crawl with `DEDUPE.ADD`, a few hundred hashes per command.
    ///
    /// # Panics
    /// Panics if the server returns an error.
    pub fn add(&self, wire: &mut Wire) {
        let numbers: Vec<u64> = (0..self.hashes).collect();
        let commands = numbers.chunks(200).map(|chunk| {
            let mut words = vec!["DEDUPE.ADD".word(), self.prefix.word(), self.id.word()];
            words.extend(chunk.iter().flat_map(|i| words_of(self.first + i)));
            words
        });
        for reply in wire.pipeline(commands) {
            assert!(!reply.is_error(), "DEDUPE.ADD replied {reply:?}");
        }
    }
}

/// Writes a crawl as a plain client does: `SADD uncommittedcrawls`, `HSET h:<crawl>`, counts.
///
/// # Panics
/// Panics if the server returns an error.
pub fn fill_crawl(wire: &mut Wire, crawl: &Crawl<'_>) {
    let Crawl {
        prefix,
        id,
        first,
        hashes,
    } = *crawl;
    wire.expect_ok(&["SADD", &format!("{prefix}uncommittedcrawls"), id]);
    let numbers: Vec<u64> = (0..hashes).collect();
    let commands = numbers.chunks(200).map(|chunk| {
        let mut words = vec!["HSET".word(), format!("{prefix}h:{id}").word()];
        for &i in chunk {
            let n = first + i;
            words.push(crawl.hash(i).word());
            words.push(format!("0 {DATE} {} {}", url_of(n), size_of(n)).word());
        }
        words
    });
    for reply in wire.pipeline(commands) {
        assert!(matches!(reply, Reply::Int(_)), "HSET replied {reply:?}");
    }
    wire.expect_ok(&[
        "HINCRBY".word(),
        format!("{prefix}h:{id}:counts").word(),
        "totalUrls".word(),
        hashes.word(),
    ]);
}
