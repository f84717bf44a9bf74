//! Crawls that other programs took out of `allcrawls`, or canceled, and that go on.

use super::adopt::ensure_base;
use super::counts;
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::store::Store;

/// Takes a crawl off the sets of other programs, before they delete it. One that they canceled no longer counts as
/// removed.
pub(super) fn drop_marks<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    if index.crawls.is_canceled(ks, crawl)? {
        let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
        let size = counts::read(ks, &counts_key, counts::TOTAL_CRAWL_SIZE).unwrap_or(0);
        let tracked = [
            (counts::REMOVED_CRAWLS, 1),
            (counts::REMOVED_CRAWL_SIZE, size),
        ];
        for (name, n) in tracked {
            let sum = counts::read(ks, &index.names().allcounts, name).unwrap_or(0);
            if sum > 0 && n > 0 {
                let left = sum.saturating_sub(n).max(0).to_string();
                ks.hash_set(&index.names().allcounts, name, left.as_bytes())?;
            }
        }
    }
    index.crawls.drop_marks_of_others(ks, crawl)
}

/// Puts such a crawl back before it goes on.
pub(super) fn restore_if_set_aside<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
) -> Result<()> {
    let is_known =
        index.crawls.is_uncommitted(ks, crawl)? || index.crawls.is_committed(ks, crawl)?;
    if !is_known && !index.crawls.is_outgoing(ks, crawl)? && index.was_set_aside(ks, crawl)? {
        restore(index, ks, crawl)?;
    }
    Ok(())
}

/// Puts a crawl back that another program took out of `allcrawls`, and whose records are packed.
pub(super) fn restore<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    index.set_committed(ks, crawl, true)?;
    drop_marks(index, ks, crawl)?;
    ensure_base(index, ks, crawl)?;
    // While it was out, removals passed it over.
    index.crawls.baseline(ks, crawl).set_seen(ks, 0)?;
    index.mark_unrecorded(ks, crawl)?;
    index.ledger.forget_unrecorded();
    Ok(())
}
