//! Detects changes that other programs make to an index with plain commands.
//!
//! Browsertrix purges an index in steps. It renames `allcrawls` to `to-remove-crawls`, deletes the
//! merged index and its counts, and then restores the crawls that it keeps one by one. Until the
//! last step of the purge, the keys of the crawls in `to-remove-crawls` are the only copy of their
//! records. Crawls that Browsertrix canceled after some of their hashes were merged are in
//! `canceledcrawls`.
//!
//! Such a purge changes the owners of hashes without updating the module's lists of holders. When
//! the module detects a purge, it sets the field `untrusted` of the `crawlspace` key, and deletes
//! the field after `REPAIR` has checked the whole index. Until then, the module looks up the next
//! holder of a hash in every committed crawl.

use crawlspace_host::keyspace::Batch;

use super::{CrawlState, Index};
use crate::dedupe::counts;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::store::Store;

impl<K: Store> Index<K> {
    /// Returns true if a crawl has any of the keys that cannot be rebuilt.
    pub(crate) fn has_documents(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        for &which in CrawlKey::CONTENT {
            let key = self.crawls.key(ks, crawl, which);
            if ks.exists(&key) {
                return Ok(true);
            }
        }
        Ok(self.places.packed_len(ks, crawl)? > 0)
    }

    /// Returns true if another program removed a crawl with packed (that is, committed) records
    /// from `allcrawls`, but left the crawl's other keys in place. Returns false if the program
    /// deleted the crawl, or if a new crawl has since used the same id.
    pub(crate) fn was_set_aside(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if self.places.packed_len(ks, crawl)? == 0 {
            return Ok(false);
        }
        if self.crawls.is_outgoing(ks, crawl)? {
            return Ok(true);
        }
        match self.standing(ks, crawl)? {
            Some(CrawlState::Unlisted) => {}
            // If the crawl was never committed, its packed records are copies that an interrupted
            // commit left behind.
            Some(CrawlState::Uncommitted)
                if !self.crawls.baseline(ks, crawl).numbers(ks)?.is_empty() => {}
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
        let committed = self.crawls.baseline(ks, crawl).files(ks)?;
        Ok(files as i64 >= committed && (files > 0 || ks.exists(&counts_key)))
    }

    /// Returns true if the packed records of a crawl are copies of the records in its plain hash.
    pub(crate) fn has_copies(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let is_uncommitted = self.crawls.state(ks, crawl)? == Some(CrawlState::Uncommitted);
        Ok(is_uncommitted && !self.was_set_aside(ks, crawl)?)
    }

    /// Returns the state of a crawl, including crawls that other programs removed from the sets and
    /// crawls in no set. Returns `None` if there is no such crawl.
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

    /// Marks the lists of holders as possibly incomplete, in the keys and in the cache.
    pub(crate) fn mark_holders_untrusted(&mut self, ks: &mut K) -> Result<()> {
        if self.ledger.is_trusted() {
            self.register(ks)?;
            self.ledger.mark_untrusted(ks)?;
        }
        Ok(())
    }

    /// Detects a purge by another program. Must be called at the start of every step that changes owners.
    pub(crate) fn note_purge(&mut self, ks: &mut K) -> Result<()> {
        if self.ledger.is_trusted() && self.crawls.are_purged(ks) {
            self.mark_holders_untrusted(ks)
        } else {
            Ok(())
        }
    }

    /// Returns true if the list of holders of a hash also contains the owner of the hash. This
    /// happens only if another program changed the owner.
    pub(crate) fn is_owner_listed(
        &mut self,
        ks: &mut K,
        owner: &[u8],
        holders: &[u64],
    ) -> Result<bool> {
        Ok(!holders.is_empty() && {
            let own = self.crawls.baseline(ks, owner).numbers(ks)?;
            holders.iter().any(|n| own.contains(n))
        })
    }

    /// Returns true if the hash of the crawl's first record is a SHA-256 without a label, as
    /// Browsertrix writes it.
    pub(crate) fn has_bare_fields(&mut self, ks: &mut K, crawl: &[u8]) -> bool {
        let records = self.crawls.key(ks, crawl, CrawlKey::Records);
        let (mut cursor, mut first) = (ks.cursor(), Batch::default());
        while first.is_empty() && ks.hash_scan(&records, &mut cursor, &mut first) == Ok(true) {}
        let mut fields = first.iter();
        fields
            .next()
            .is_some_and(|(field, _)| field.len() == 64 && field.iter().all(u8::is_ascii_hexdigit))
    }

    /// Returns the state of a crawl, and fails if the index does not know it.
    ///
    /// # Errors
    /// `NOCRAWL`, with the id of the crawl.
    pub(crate) fn require_known(&mut self, ks: &mut K, crawl: &[u8]) -> Result<CrawlState> {
        self.standing(ks, crawl)?
            .ok_or_else(|| Error::NoCrawl(crawl.to_vec()))
    }

    /// Returns true if a continued crawl may have fields that no command of the module listed.
    pub(crate) fn has_unseen_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.unseen_fields(ks, crawl)? != Some(0))
    }

    /// Returns true if plain clients added fields to a committed crawl since its last commit.
    pub(crate) fn has_more_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.unseen_fields(ks, crawl)? > Some(0))
    }

    /// Returns true if plain clients may have added fields to a continued crawl after a command of
    /// the module continued it. Fields that plain clients added before that command are committed.
    pub(crate) fn has_unclear_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let committed = self.crawls.baseline(ks, crawl).more(ks);
        Ok(self.unseen_fields(ks, crawl)? != Some(committed))
    }

    /// Returns the number of fields of a crawl that no command of the module listed. The number is
    /// negative if plain clients deleted fields. Returns `None` if no commit by the module has
    /// counted the fields.
    pub(crate) fn unseen_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<i64>> {
        let Some(seen) = self.crawls.baseline(ks, crawl).seen(ks)? else {
            return Ok(None);
        };
        let mut listed = 0;
        for &key in CrawlKey::UNCOMMITTED {
            let key = self.crawls.key(ks, crawl, key);
            listed += ks.hash_len(&key)?;
        }
        let records = self.records_len(ks, crawl)?;
        Ok(Some(records as i64 - (seen + listed) as i64))
    }
}
