//! What other programs do to an index without our commands.
//!
//! Browsertrix purges by renaming `allcrawls` to `to-remove-crawls`, deleting the merged index and its
//! counts, and putting the crawls to keep back one by one. Between its first and its last step the
//! crawls of that set are crawls whose records nobody can restore. Crawls that it canceled while their
//! hashes were in the merged index already are in `canceledcrawls`.
//!
//! Such a purge gives hashes to other owners than our lists of holders were written for. From the moment
//! that one is seen until `REPAIR` has gone through the whole index, `untrusted` in the `crawlspace` key
//! says so, and the next holder of a hash is looked for in every committed crawl.

use std::collections::BTreeMap;

use crawlspace_host::keyspace::Batch;
use crawlspace_host::text::parse_unsigned;

use super::{CrawlState, Index};
use crate::dedupe::counts;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::store::Store;

/// The field of `crawlspace` that says that lists of holders may lack somebody.
pub(crate) const UNTRUSTED: &[u8] = b"untrusted";

/// What sums in `allcounts` lack of those of the committed crawls.
#[derive(Default)]
pub(crate) struct Lacks {
    /// By the name of the sum; below 0 where it has more.
    pub(crate) by_name: BTreeMap<&'static [u8], i64>,
    /// The bytes of canceled crawls, which may be in the sum.
    pub(crate) canceled_size: i64,
}

/// The field of `h:<crawl>:baseline` with the bytes that plain clients added to the crawl between its commits.
const UNCERTAIN: &[u8] = b"uncertain";

impl<K: Store> Index<K> {
    /// Whether a crawl has any of the keys that nobody can restore.
    pub(crate) fn has_documents(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        for &which in CrawlKey::CONTENT {
            let key = self.crawls.key(ks, crawl, which);
            if ks.exists(&key) {
                return Ok(true);
            }
        }
        Ok(self.places.packed_len(ks, crawl)? > 0)
    }

    /// Whether another program took a crawl out of `allcrawls` whose records are packed, and thus committed, and left what
    /// it has besides: not one that it deleted, or whose id was used again since.
    pub(crate) fn was_set_aside(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if self.places.packed_len(ks, crawl)? == 0 {
            return Ok(false);
        }
        if self.crawls.is_outgoing(ks, crawl)? {
            return Ok(true);
        }
        match self.standing(ks, crawl)? {
            Some(CrawlState::Unlisted) => {}
            // Of one that was never committed, they are copies that a commit left.
            Some(CrawlState::Uncommitted) if !self.numbers_of(ks, crawl)?.is_empty() => {}
            _ => return Ok(false),
        }
        let [counts_key, waczs, baseline] = [CrawlKey::Counts, CrawlKey::Waczs, CrawlKey::Baseline]
            .map(|which| self.crawls.key(ks, crawl, which));
        for (name, n) in counts::all(ks, &baseline, b"baseline.")? {
            if counts::read(ks, &counts_key, &name)? < n {
                return Ok(false);
            }
        }
        let files = ks.list_len(&waczs)?;
        let committed = counts::read(ks, &baseline, b"wacz")?;
        Ok(files as i64 >= committed && (files > 0 || ks.exists(&counts_key)))
    }

    /// Whether packed records of a crawl are copies of what its plain hash has.
    pub(crate) fn has_copies(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let is_uncommitted = self.crawls.state(ks, crawl)? == Some(CrawlState::Uncommitted);
        Ok(is_uncommitted && !self.was_set_aside(ks, crawl)?)
    }

    /// Where a crawl stands, with those that other programs put aside and those that are in no set;
    /// `None` when there is no such crawl.
    pub(crate) fn standing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<CrawlState>> {
        if self.crawls.is_outgoing(ks, crawl)? {
            return Ok(Some(CrawlState::Outgoing));
        }
        let state = self.crawls.state(ks, crawl)?;
        Ok(if state.is_some() {
            state
        } else if self.crawls.is_canceled(ks, crawl)? {
            Some(CrawlState::Canceled)
        } else if self.has_documents(ks, crawl)? {
            Some(CrawlState::Unlisted)
        } else {
            None
        })
    }

    /// Takes a crawl off the sets of other programs, before they delete it. One that they canceled no longer counts as
    /// removed.
    pub(crate) fn take_back(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.crawls.is_canceled(ks, crawl)? {
            let counts_key = self.crawls.key(ks, crawl, CrawlKey::Counts);
            let size = counts::read(ks, &counts_key, counts::TOTAL_CRAWL_SIZE).unwrap_or(0);
            let tracked = [
                (counts::REMOVED_CRAWLS, 1),
                (counts::REMOVED_CRAWL_SIZE, size),
            ];
            for (name, n) in tracked {
                let sum = counts::read(ks, &self.names.allcounts, name).unwrap_or(0);
                if sum > 0 && n > 0 {
                    let left = sum.saturating_sub(n).max(0).to_string();
                    ks.hash_set(&self.names.allcounts, name, left.as_bytes())?;
                }
            }
        }
        self.crawls.drop_marks_of_others(ks, crawl)
    }

    /// Puts such a crawl back before it goes on.
    pub(crate) fn put_back_if_set_aside(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        let is_known =
            self.crawls.is_uncommitted(ks, crawl)? || self.crawls.is_committed(ks, crawl)?;
        if !is_known && !self.crawls.is_outgoing(ks, crawl)? && self.was_set_aside(ks, crawl)? {
            self.put_back(ks, crawl)?;
        }
        Ok(())
    }

    /// Puts a crawl back that another program took out of `allcrawls`, and whose records are packed.
    pub(crate) fn put_back(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        self.set_committed(ks, crawl, true)?;
        self.take_back(ks, crawl)?;
        self.ensure_base(ks, crawl)?;
        // While it was out, removals passed it over.
        self.recommit_all(ks, crawl)?;
        self.mark_unrecorded(ks, crawl)?;
        self.ledger.forget_unrecorded();
        Ok(())
    }

    /// What a crawl's removal takes out of a field of `allcounts`.
    pub(crate) fn removed_count(&mut self, ks: &mut K, crawl: &[u8], name: &[u8]) -> Result<i64> {
        if self.crawls.is_committed(ks, crawl)? {
            return self.committed_count(ks, crawl, name);
        }
        if !self.crawls.is_canceled(ks, crawl)? {
            return Ok(0); // their purge begins the sums anew
        }
        // They count while they write.
        let counts_key = self.crawls.key(ks, crawl, CrawlKey::Counts);
        let sum = counts::read(ks, &self.names.allcounts, name)?;
        Ok(counts::read(ks, &counts_key, name)?.min(sum.max(0)))
    }

    /// Takes what a crawl that leaves adds to the sums out of `allcounts`, and its part of what they lack out of `lacks`.
    pub(crate) fn uncount(&mut self, ks: &mut K, crawl: &[u8], lacks: &mut Lacks) -> Result<()> {
        let is_committed = self.crawls.is_committed(ks, crawl)?;
        for (name, _) in counts::all(ks, &self.names.allcounts, b"")? {
            let mut share = self.removed_count(ks, crawl, &name)?;
            if let Some(lack) = lacks.by_name.get_mut(&name[..]) {
                if !is_committed {
                    if name == counts::TOTAL_CRAWL_SIZE {
                        lacks.canceled_size = lacks.canceled_size.saturating_sub(share);
                    }
                    // A purge by Browsertrix may have taken it out of the sums.
                    share = share.min(lack.saturating_neg()).max(0);
                    *lack += share;
                } else if name == counts::TOTAL_CRAWL_SIZE {
                    let own = self.uncertain_size(ks, crawl)?;
                    let all = lack.saturating_add(lacks.canceled_size);
                    let own = own.min(all).min(share).max(0);
                    *lack -= own;
                    share -= own;
                }
            }
            counts::add(ks, &self.names.allcounts, &name, share.saturating_neg())?;
        }
        Ok(())
    }

    /// Returns the bytes of a committed crawl's WACZ files that may be missing in `allcounts`: a concurrent crawl of
    /// Browsertrix counts all in both places as it writes, but the sizes of its files in its own counts alone.
    pub(crate) fn uncertain_size(&mut self, ks: &mut K, crawl: &[u8]) -> Result<i64> {
        let size = self.committed_count(ks, crawl, counts::TOTAL_CRAWL_SIZE)?;
        if self.unrecorded_number(ks, crawl)?.is_some() {
            return Ok(size.max(0));
        }
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        let was = [b"baseline.", counts::TOTAL_CRAWL_SIZE].concat();
        let more = size.saturating_sub(counts::read(ks, &baseline, &was)?);
        Ok(counts::read(ks, &baseline, UNCERTAIN)?.saturating_add(more.max(0)))
    }

    /// Notes that plain clients added `more` to a count of a committed crawl, which becomes part of its baseline.
    pub(crate) fn note_uncertain(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        name: &[u8],
        more: i64,
    ) -> Result<()> {
        if name == counts::TOTAL_CRAWL_SIZE && more > 0 {
            let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
            counts::add(ks, &baseline, UNCERTAIN, more)?;
        }
        Ok(())
    }

    /// Whether lists of holders name every committed crawl that has the hash.
    #[cfg(test)]
    pub fn holders_are_trusted(&self) -> bool {
        self.ledger.is_trusted()
    }

    /// Whether any commit of ours has left its number, so that there may be lists of holders.
    pub fn has_commits(&self, ks: &mut K) -> bool {
        ks.exists(&self.names.commits)
    }

    /// Notes that lists of holders may be incomplete from now on.
    pub(crate) fn mark_holders_untrusted(&mut self, ks: &mut K) -> Result<()> {
        if self.ledger.is_trusted() {
            self.register(ks)?;
            ks.hash_set(&self.names.meta, UNTRUSTED, b"1")?;
            self.ledger.set_trusted(false);
        }
        Ok(())
    }

    /// Takes note of another program's purge. Belongs at the start of every step that changes owners.
    pub(crate) fn heed_purge(&mut self, ks: &mut K) -> Result<()> {
        if self.ledger.is_trusted() && self.crawls.are_purged(ks) {
            self.mark_holders_untrusted(ks)
        } else {
            Ok(())
        }
    }

    /// Notes that lists of holders are complete: all of the index was checked and repaired.
    pub(crate) fn mark_holders_trusted(&mut self, ks: &mut K) -> Result<()> {
        if !self.ledger.is_trusted() && !self.crawls.are_purged(ks) {
            ks.hash_del(&self.names.meta, UNTRUSTED)?;
            self.ledger.set_trusted(true);
        }
        Ok(())
    }

    /// How many records the last commit of a crawl left in it, as far as all of them count.
    pub(crate) fn seen_by_commit(&mut self, ks: &mut K, crawl: &[u8]) -> Result<u64> {
        if self.under_way.is_removing(ks, crawl)? {
            return Ok(0);
        }
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        let seen = ks.hash_get(&baseline, b"hashes")?;
        Ok(seen.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0))
    }

    /// Whether the list of a hash's holders shows that another program changed the owner: our own
    /// changes never leave the owner in it.
    pub(crate) fn is_owner_listed(
        &mut self,
        ks: &mut K,
        owner: &[u8],
        holders: &[u64],
    ) -> Result<bool> {
        Ok(!holders.is_empty() && {
            let own = self.numbers_of(ks, owner)?;
            holders.iter().any(|n| own.contains(n))
        })
    }

    /// Whether the crawl's first record stands under a bare SHA-256, as Browsertrix writes it.
    pub(crate) fn has_bare_fields(&mut self, ks: &mut K, crawl: &[u8]) -> bool {
        let records = self.crawls.key(ks, crawl, CrawlKey::Records);
        let (mut cursor, mut first) = (ks.cursor(), Batch::default());
        while first.is_empty() && ks.hash_scan(&records, &mut cursor, &mut first) == Ok(true) {}
        let mut fields = first.iter();
        fields
            .next()
            .is_some_and(|(field, _)| field.len() == 64 && field.iter().all(u8::is_ascii_hexdigit))
    }
}
