//! Finds the new fields of a continued crawl, including fields that plain clients wrote and that no
//! list contains yet.

use super::counts;
use super::digest::Digest;
use super::error::Result;
use super::index::Index;
use super::index::numbers::Numbers;
use super::index::storage::Of;
use super::job::{Lent, Walk};
use super::keys::CrawlKey;
use super::store::Store;

/// Lists the new fields of a continued crawl in `h:<crawl>:merging`; see [`Gather`].
///
/// # Errors
/// `WRONGTYPE` if a key holds another type; errors of the server.
pub(super) async fn gather<K: Store>(lent: &Lent<K>, crawl: &[u8], spares: bool) -> Result<()> {
    let of = Of::Records(crawl.to_vec());
    let mut records = lent.with(|index, ks| Walk::stored(index, ks, of));
    lent.slices(|index, ks, time| {
        let mut gather = Gather::new(index, ks, crawl, spares)?;
        records.slice(index, ks, time, |index, ks, field, _| {
            gather.field(index, ks, crawl, field)
        })
    })
    .await
}

/// Finds the fields of a continued crawl that a plain client added. Adds them to
/// `h:<crawl>:merging`, like the fields that the module's commands write.
pub struct Gather<N> {
    merging: N,
    added: N,
    numbers: Numbers,
    /// True if the hashes of another crawl are skipped, because plain clients committed the crawl
    /// without adding it to the lists of holders. A commit may safely treat such hashes as
    /// new, but other jobs must not change them.
    spare_unrecorded: bool,
}

impl<N: Clone + AsRef<[u8]>> Gather<N> {
    /// Creates the state for a crawl. `spares` is the value of `spare_unrecorded`.
    pub(super) fn new<K: Store<Name = N>>(
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        spares: bool,
    ) -> Result<Gather<N>> {
        let baseline = index.crawls.baseline(ks, crawl);
        let mut numbers = baseline.numbers(ks)?;
        let is_unrecorded = numbers.is_empty() || baseline.is_unrecorded(ks)?;
        if let Some(state) = index.under_way.commit_state(ks, crawl)? {
            numbers.push(state.number);
        }
        Ok(Gather {
            merging: index.crawls.key(ks, crawl, CrawlKey::Merging),
            added: index.crawls.key(ks, crawl, CrawlKey::Added),
            numbers,
            spare_unrecorded: spares && is_unrecorded,
        })
    }

    /// Adds a field to the list if it is new.
    pub(super) fn field<K: Store<Name = N>>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        field: &[u8],
    ) -> Result<()> {
        let digest = Digest::of_field(field);
        if ks.hash_has(&self.added, digest.canonical())? {
            return Ok(());
        }
        let recorded = self.is_recorded(index, ks, crawl, &digest)?;
        if !recorded && !ks.hash_has(&self.merging, digest.canonical())? {
            ks.hash_set(&self.merging, digest.canonical(), b"")?;
        }
        Ok(())
    }

    /// Returns true if a commit has merged this hash of the crawl.
    pub(super) fn is_recorded<K: Store<Name = N>>(
        &self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<bool> {
        Ok(match index.spelling.owner(ks, &index.places, digest)? {
            Some(owner) if owner.as_ref() == crawl => true,
            Some(_) if self.spare_unrecorded => true,
            Some(_) => {
                let holders = index.ledger.holders(ks, &index.places, digest)?;
                holders.iter().any(|n| self.numbers.contains(n))
            }
            None => false,
        })
    }
}

/// Returns true if anything was written to the crawl since its running commit began.
pub(super) fn changed_since_commit_began<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
) -> Result<bool> {
    let added = index.crawls.key(ks, crawl, CrawlKey::Added);
    if ks.hash_len(&added)? > 0 {
        return Ok(true);
    }
    let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
    let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
    let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
    if counts::all(ks, &counts_key, b"")? != counts::all(ks, &baseline, b"merging.")? {
        return Ok(true);
    }
    Ok(ks.list_len(&waczs)? as i64 != counts::read(ks, &baseline, b"merging-wacz")?)
}
