//! `BEGIN`, and the preparation of a crawl for its first record.

use super::adopt::{ensure_base, restore_if_set_aside};
use super::error::Result;
use super::index::Index;
use super::keys::CrawlKey;
use super::store::Store;
use super::undo::rebase;

/// Registers a crawl before its first record, or continues a committed crawl. With `visible`, other
/// crawls see its hashes from now on. Returns false if nothing changed.
///
/// # Errors
/// `REMOVING` while the crawl is being removed or canceled; `ERR` if too many crawls are visible.
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

/// Prepares a crawl for a record: registers a new crawl, and turns a committed crawl into a
/// continued one.
///
/// # Errors
/// `REMOVING` while the crawl is being removed or canceled.
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
            // Delete this key here, because a commit by a plain client does not delete it.
            let unstored = index.crawls.key(ks, crawl, CrawlKey::Unstored);
            ks.delete(&unstored)?;
        } else {
            drop_leftovers(index, ks, crawl, CrawlKey::OURS)?;
        }
        index.set_uncommitted(ks, crawl, true)?;
    }
    Ok(())
}

/// Deletes the module's keys of a crawl that a plain client removed. Plain clients do not know
/// these keys and leave them behind; a new crawl with the same id would inherit them.
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
