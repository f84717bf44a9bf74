//! The sums in `allcounts`, and the part that each crawl contributes.

use std::collections::BTreeMap;

use super::counts;
use super::error::Result;
use super::index::Index;
use super::job::{Lent, each_crawl};
use super::keys::CrawlKey;
use super::store::Store;

/// Differences between the sums in `allcounts` and the sums of the counts of committed crawls.
#[derive(Default)]
pub(super) struct Lacks {
    /// Missing amount, by name of the sum. Negative if the sum is too high.
    pub(super) by_name: BTreeMap<&'static [u8], i64>,
    /// Total size of canceled crawls in bytes, which the sum may include.
    pub(super) canceled_size: i64,
}

/// Returns the key that contains the committed counts of a crawl, and the prefix of their field
/// names.
fn committed_in<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
) -> Result<(K::Name, &'static [u8])> {
    // If a crawl is not continued, all of its counts are committed, regardless of the client that
    // committed it.
    let is_continued = index.crawls.is_uncommitted(ks, crawl)?
        && index.crawls.baseline(ks, crawl).has_numbers(ks)?;
    let (which, before) = if is_continued {
        (CrawlKey::Baseline, &b"baseline."[..])
    } else {
        (CrawlKey::Counts, &b""[..])
    };
    Ok((index.crawls.key(ks, crawl, which), before))
}

/// Returns the contribution of a committed crawl to a field of `allcounts`.
pub fn committed_count<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    name: &[u8],
) -> Result<i64> {
    let (key, before) = committed_in(index, ks, crawl)?;
    counts::read(ks, &key, &[before, name].concat())
}

/// Returns the contributions of a committed crawl to all fields of `allcounts`.
pub fn committed_counts<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
) -> Result<Vec<(Vec<u8>, i64)>> {
    let (key, before) = committed_in(index, ks, crawl)?;
    counts::all(ks, &key, before)
}

/// Returns the contribution to `allcounts` of a crawl that plain clients both committed and
/// continued. It is the sum minus the contributions of the other crawls.
pub fn committed_share<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    name: &[u8],
) -> Result<i64> {
    let mut share = counts::read(ks, &index.names().allcounts, name)?;
    for other in index.crawls.committed(ks)? {
        if other != crawl {
            share = share.saturating_sub(committed_count(index, ks, &other, name)?);
        }
    }
    Ok(share.max(0))
}

/// Returns the amount that a crawl's removal subtracts from a field of `allcounts`.
pub fn removed_count<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    name: &[u8],
) -> Result<i64> {
    if index.crawls.is_committed(ks, crawl)? {
        return committed_count(index, ks, crawl, name);
    }
    if !index.crawls.is_canceled(ks, crawl)? {
        return Ok(0); // a purge by Browsertrix recomputes the sums
    }
    // Browsertrix adds the counts of a crawl to `allcounts` while it crawls.
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    let sum = counts::read(ks, &index.names().allcounts, name)?;
    Ok(counts::read(ks, &counts_key, name)?.min(sum.max(0)))
}

/// Subtracts the contribution of a removed crawl from `allcounts`, and updates `lacks`.
pub fn uncount<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    lacks: &mut Lacks,
) -> Result<()> {
    let is_committed = index.crawls.is_committed(ks, crawl)?;
    for (name, _) in counts::all(ks, &index.names().allcounts, b"")? {
        let mut share = removed_count(index, ks, crawl, &name)?;
        if let Some(lack) = lacks.by_name.get_mut(&name[..]) {
            if !is_committed {
                if name == counts::TOTAL_CRAWL_SIZE {
                    lacks.canceled_size = lacks.canceled_size.saturating_sub(share);
                }
                // A purge by Browsertrix may have subtracted the counts already.
                share = share.min(lack.saturating_neg()).max(0);
                *lack += share;
            } else if name == counts::TOTAL_CRAWL_SIZE {
                let own = uncertain_size(index, ks, crawl)?;
                let all = lack.saturating_add(lacks.canceled_size);
                let own = own.min(all).min(share).max(0);
                *lack -= own;
                share -= own;
            }
        }
        counts::add(ks, &index.names().allcounts, &name, share.saturating_neg())?;
    }
    Ok(())
}

/// Returns the number of bytes of a committed crawl's WACZ files that may be missing from
/// `allcounts`. A concurrent crawl of Browsertrix adds its counts to both keys while it runs, but
/// adds the sizes of its files only to its own counts.
pub fn uncertain_size<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<i64> {
    let size = committed_count(index, ks, crawl, counts::TOTAL_CRAWL_SIZE)?;
    let baseline = index.crawls.baseline(ks, crawl);
    if baseline.unrecorded_number(ks)?.is_some() {
        return Ok(size.max(0));
    }
    let more = size.saturating_sub(baseline.count(ks, counts::TOTAL_CRAWL_SIZE)?);
    Ok(baseline.uncertain_size(ks)?.saturating_add(more.max(0)))
}

/// Compares the sums with the counts of the committed crawls, if one of `crawls` may have caused a
/// difference, and returns the differences.
pub async fn lacks<K: Store>(lent: &Lent<K>, crawls: &[Vec<u8>]) -> Result<Lacks> {
    let mut may_lack = false;
    for crawl in crawls {
        may_lack |= lent.with(|index, ks| {
            if index.crawls.is_committed(ks, crawl)? {
                Ok(uncertain_size(index, ks, crawl)? > 0)
            } else {
                index.crawls.is_canceled(ks, crawl)
            }
        })?;
        lent.pause().await;
    }
    let mut lacks = Lacks::default();
    if !may_lack {
        return Ok(lacks);
    }
    let add = |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| {
        for name in counts::SHOWN {
            let lack = lacks.by_name.entry(name).or_default();
            *lack = lack.saturating_add(committed_count(index, ks, crawl, name)?);
        }
        Ok(())
    };
    each_crawl(lent, &[|names| &names.allcrawls], add).await?;
    let add = |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| {
        if !index.crawls.is_committed(ks, crawl)? {
            let size = committed_count(index, ks, crawl, counts::TOTAL_CRAWL_SIZE)?;
            lacks.canceled_size = lacks.canceled_size.saturating_add(size);
        }
        Ok(())
    };
    each_crawl(lent, &[|names| &names.canceled], add).await?;
    lent.with(|index, ks| {
        for name in counts::SHOWN {
            let sum = counts::read(ks, &index.names().allcounts, name)?;
            let lack = lacks.by_name.entry(name).or_default();
            *lack = lack.saturating_sub(sum);
        }
        Ok(lacks)
    })
}
