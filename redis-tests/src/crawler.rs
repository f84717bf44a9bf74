//! The steps of a crawler with synthetic records (see [`sha256_of`]), one line each.

use std::collections::BTreeMap;

use crate::corpus::{DATE, sha256_of, size_of, url_of, words_of};
use crate::wire::{Reply, Wire, Word, array, bulk, int};

/// Returns the reply that a look-up must return for the `n`-th synthetic record if `crawl` owns it.
pub fn record_of(crawl: &str, n: u64) -> Reply {
    array([
        bulk(crawl),
        int(0),
        bulk(DATE),
        bulk(url_of(n)),
        int(size_of(n) as i64),
    ])
}

/// Runs `DEDUPE.ADD` with these synthetic records and returns the number of new ones.
pub fn add(c: &mut Wire, p: &str, crawl: &str, numbers: impl IntoIterator<Item = u64>) -> i64 {
    let mut words = vec!["DEDUPE.ADD".word(), p.word(), crawl.word()];
    words.extend(numbers.into_iter().flat_map(words_of));
    c.expect_ok(&words).int()
}

/// Runs `DEDUPE.COMMIT` and returns the numbers of new and of known hashes.
pub fn commit(c: &mut Wire, p: &str, crawl: &str) -> (i64, i64) {
    let reply = c.expect_ok(&["DEDUPE.COMMIT", p, crawl]).ints();
    assert_eq!(reply.len(), 2, "{reply:?}");
    (reply[0], reply[1])
}

/// Runs `DEDUPE.LOOKUP` with these synthetic hashes and returns the owner of each, or `-`.
pub fn owners(c: &mut Wire, p: &str, numbers: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut words = vec!["DEDUPE.LOOKUP".word(), p.word()];
    words.extend(numbers.into_iter().map(|n| sha256_of(n).word()));
    let reply = c.expect_ok(&words);
    let owner = |found: &Reply| match found {
        Reply::Nil => "-".to_owned(),
        record => record.items()[0].text(),
    };
    reply.items().iter().map(owner).collect()
}

/// Returns the fields of a hash key as text.
pub fn hash_key(c: &mut Wire, key: &str) -> BTreeMap<String, String> {
    let pairs = c.expect_ok(&["HGETALL", key]).pairs();
    pairs.iter().map(|(f, v)| (f.text(), v.text())).collect()
}

/// Returns the fields of a counts key as numbers, without fields that are 0 or not integers.
pub fn counts(c: &mut Wire, key: &str) -> BTreeMap<String, i64> {
    let fields = hash_key(c, key).into_iter();
    let numbers = fields.filter_map(|(f, v)| Some((f, v.parse().ok()?)));
    numbers.filter(|(_, n)| *n != 0).collect()
}

/// Returns the members of a set, sorted.
pub fn set_key(c: &mut Wire, key: &str) -> Vec<String> {
    let mut members = c.expect_ok(&["SMEMBERS", key]).texts();
    members.sort();
    members
}

/// Checks with `DEDUPE.CHECK` that the index is consistent. If not, fails with the findings.
#[track_caller]
pub fn assert_consistent(c: &mut Wire, p: &str) {
    let findings = c.expect_ok(&["DEDUPE.CHECK", p]);
    assert_eq!(findings.field("ok"), int(1), "{findings:?}");
}
