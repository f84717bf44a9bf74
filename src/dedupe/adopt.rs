//! Adopts crawls that other programs committed, canceled, or removed from `allcrawls`. Committed crawls get a
//! number in the commit order; canceled and removed crawls are restored when a command uses them again.

use super::counts;
use super::error::{Error, Result};
use super::index::Index;
use super::job::{Lent, Walk};
use super::keys::CrawlKey;
use super::store::Store;
use super::sums::committed_share;

/// Creates the baseline of a crawl that a plain client committed from the current counts of the
/// crawl. Does nothing if the baseline exists.
pub fn ensure_base<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    if index.crawls.baseline(ks, crawl).has_numbers(ks)? {
        return Ok(());
    }
    let number = index.next_number(ks)?;
    adopt(index, ks, crawl, number)
}

/// Assigns a commit number to a crawl that a plain client committed.
fn adopt<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8], number: u64) -> Result<()> {
    let [counts_key, waczs] =
        [CrawlKey::Counts, CrawlKey::Waczs].map(|which| index.crawls.key(ks, crawl, which));
    let baseline = index.crawls.baseline(ks, crawl);
    let continued = index.crawls.is_uncommitted(ks, crawl)?;
    for (name, n) in counts::all(ks, &counts_key, b"")? {
        let n = if continued {
            match committed_share(index, ks, crawl, &name)? {
                0 => continue,
                share => share,
            }
        } else {
            n
        };
        baseline.set_count(ks, &name, n)?;
    }
    let hashes = index.records_len(ks, crawl)?;
    let files = ks.list_len(&waczs)?;
    if !continued {
        // The keys do not show which hashes of a continued crawl the commit merged.
        baseline.set_seen(ks, hashes)?;
    }
    baseline.set_files(ks, files)?;
    baseline.mark_unrecorded(ks)?;
    baseline.set_numbers(ks, &[number])?;
    index.ledger.adopt(ks, crawl, number)
}

/// Returns the number of records that a crawl had after its last commit, or 0 while the crawl is being
/// removed.
fn seen_by_commit<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<u64> {
    if index.under_way.is_removing(ks, crawl)? {
        return Ok(0);
    }
    let seen = index.crawls.baseline(ks, crawl).seen(ks)?;
    Ok(seen.unwrap_or(0))
}

/// Assigns a commit number to every crawl that a plain client committed, in the order of the crawl
/// ids. A job calls this before it takes its own commit number.
///
/// # Errors
/// `WRONGTYPE` if a key holds another type; errors of the server.
pub async fn adopt_all<K: Store>(lent: &Lent<K>) -> Result<()> {
    if lent.with(|index, _| index.ledger.all_adopted()) {
        return Ok(());
    }
    let opening = lent.with(|index, _| index.opening());
    let (mut found, mut unrecorded) = (Vec::new(), Vec::new());
    let mut most_seen = 0;
    let crawls = lent.with(|index, ks| Walk::set(ks, index.names().allcrawls.clone()));
    let note = |index: &mut Index<K>, ks: &mut K, crawl: &[u8], _: &[u8]| {
        most_seen = seen_by_commit(index, ks, crawl)?.max(most_seen);
        match index.first_unrecorded(ks, crawl)? {
            Some(u64::MAX) => found.push(crawl.to_vec()),
            Some(number) => unrecorded.push((number, crawl.to_vec())),
            None => {}
        }
        Ok(())
    };
    crawls.run(lent, note).await?;
    lent.with(|index, ks| {
        if most_seen > index.places.merged().len(ks)? {
            // The crawl had more hashes than the merged index now has, so another program must have
            // removed hashes.
            index.mark_holders_untrusted(ks)?;
        }
        if opening == index.opening() {
            index.ledger.set_unrecorded(unrecorded);
        }
        Ok::<_, Error>(())
    })?;
    found.sort();
    found.dedup();
    for crawl in found {
        lent.with(|index, ks| {
            if index.crawls.baseline(ks, &crawl).numbers(ks)?.is_empty() {
                let number = index.next_number(ks)?;
                adopt(index, ks, &crawl, number)?;
            }
            Ok::<_, Error>(())
        })?;
        lent.pause().await;
    }
    lent.with(|index, _| {
        // If a plain client commits a crawl that this walk has already passed, the next job adopts
        // that crawl.
        if opening == index.opening() {
            index.ledger.set_all_adopted();
        }
    });
    Ok(())
}

/// Removes a crawl from the sets in which other programs mark crawls that they are about to delete.
/// If another program canceled the crawl, subtracts the crawl and its size from the counts of
/// removed crawls.
pub fn drop_marks<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
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

/// Restores a crawl that another program removed from the sets, before a command continues the
/// crawl.
pub fn restore_if_set_aside<K: Store>(
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

/// Restores a crawl with packed records that another program removed from `allcrawls`.
pub fn restore<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
    index.set_committed(ks, crawl, true)?;
    drop_marks(index, ks, crawl)?;
    ensure_base(index, ks, crawl)?;
    // While the crawl was in no set, removals of other crawls did not make it the owner of hashes.
    index.crawls.baseline(ks, crawl).set_seen(ks, 0)?;
    index.mark_unrecorded(ks, crawl)?;
    index.ledger.forget_unrecorded();
    Ok(())
}
