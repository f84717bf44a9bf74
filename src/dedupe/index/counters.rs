//! The counters in `crawlspace`: the numbers that were last assigned to a commit, to a claim, and
//! to a visible crawl.

use crate::dedupe::counts;
use crate::dedupe::error::Result;
use crate::dedupe::store::Store;

/// The number of the last commit.
pub(in crate::dedupe) const COMMITS: &[u8] = b"commits";
/// The token of the last claim.
pub(in crate::dedupe) const TOKENS: &[u8] = b"tokens";
/// The number of the crawl that last became visible.
pub(in crate::dedupe) const VISIBLE: &[u8] = b"visible";

/// Increments a counter and returns its new value.
pub(super) fn next<K: Store>(ks: &mut K, meta: &K::Name, counter: &[u8]) -> Result<u64> {
    let n = last(ks, meta, counter)? + 1;
    ks.hash_set(meta, counter, n.to_string().as_bytes())?;
    Ok(n)
}

/// Returns the current value of a counter.
pub(super) fn last<K: Store>(ks: &mut K, meta: &K::Name, counter: &[u8]) -> Result<u64> {
    Ok(counts::read(ks, meta, counter)?.max(0) as u64)
}
