//! `BEGIN`, and what comes before the first record of a crawl.

use super::adopt::{ensure_base, restore_if_set_aside};
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::store::Store;
use super::undo::rebase;

/// Makes a crawl known before its first record, or continues one that is committed. With `visible`
/// others see its hashes from now on. False when that changes nothing.
///
/// # Errors
/// `REMOVING` while it is being removed or canceled; `ERR` when too many crawls are visible.
pub fn begin<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    visible: bool,
) -> Result<bool> {
    index.check_types(ks, Some(crawl))?;
    if visible {
        index.visible.check_room(ks, &mut index.crawls, crawl)?;
    }
    let begins = !index.crawls.is_uncommitted(ks, crawl)?;
    start(index, ks, crawl)?;
    Ok((visible && index.visible.add(ks, &mut index.crawls, crawl)?) || begins)
}

/// Readies a crawl for a record: the first one makes it known, and one after its commit
/// makes it a continued crawl.
///
/// # Errors
/// `REMOVING` while it is being removed or canceled.
pub fn start<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    index.under_way.refuse_while_removing(ks, crawl)?;
    index.register(ks)?;
    if !index.crawls.is_uncommitted(ks, crawl)? {
        index.visible.remove(ks, crawl)?;
        restore_if_set_aside(index, ks, crawl)?;
        if index.crawls.is_committed(ks, crawl)? || index.crawls.is_outgoing(ks, crawl)? {
            ensure_base(index, ks, crawl)?;
            if index.crawls.is_committed(ks, crawl)? {
                rebase(index, ks, crawl)?;
            }
            // A plain client's commit does not know of these.
            let unstored = index.crawls.key(ks, crawl, CrawlKey::Unstored);
            ks.delete(&unstored)?;
        } else {
            drop_leftovers(index, ks, crawl, CrawlKey::OURS)?;
        }
        index.set_uncommitted(ks, crawl, true)?;
    }
    Ok(())
}

/// A plain client removes a crawl without knowing of our keys. Before its id is used again they
/// go, so that the new crawl is not taken for the old one.
pub(super) fn drop_leftovers<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    keys: &[CrawlKey],
) -> Result<()> {
    for number in index.crawls.baseline(ks, crawl).numbers(ks)? {
        if index.ledger.crawl_of(ks, number)?.as_deref() == Some(crawl) {
            index.ledger.drop_number(ks, number)?;
        }
    }
    for &which in keys {
        let key = index.crawls.key(ks, crawl, which);
        ks.delete(&key)?;
    }
    if index.under_way.is_committing(ks, crawl)? {
        index.under_way.set_commit_state(ks, crawl, None)?;
    }
    Ok(())
}
