//! The crawls of an index, with a cache of their key names and of their membership in the sets of crawls.

use rustc_hash::FxHashMap;

use super::Index;
use super::baseline::Baseline;
use crate::dedupe::counts;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::{Error, Result};
use crate::dedupe::keys::{CrawlKey, Names};
use crate::dedupe::packed::Part;
use crate::dedupe::store::Store;

/// Maximum number of cached crawls; the cache is emptied when it is full.
const MAX_CACHED_CRAWLS: usize = 1 << 16;

/// The state of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlState {
    /// Listed in `uncommittedcrawls` only.
    Uncommitted,
    /// Listed in `allcrawls` only.
    Committed,
    /// Listed in both sets: continued after its commit.
    Continued,
    /// Listed in `to-remove-crawls`: a running purge by another program has not yet put the crawl
    /// back or deleted it.
    Outgoing,
    /// Listed in `canceledcrawls` only: another program canceled the crawl.
    Canceled,
    /// Not listed in any set: another program wrote it without registering it, or did not delete
    /// all of its keys.
    Unlisted,
}

impl CrawlState {
    /// Returns the name of the state in replies.
    pub fn name(self) -> &'static str {
        match self {
            CrawlState::Uncommitted => "uncommitted",
            CrawlState::Committed => "committed",
            CrawlState::Continued => "continued",
            CrawlState::Outgoing => "outgoing",
            CrawlState::Canceled => "canceled",
            CrawlState::Unlisted => "unlisted",
        }
    }
}

/// A cached crawl.
struct CachedCrawl<N> {
    records: N,
    counts: N,
    is_committed: Option<bool>,
    is_uncommitted: Option<bool>,
    /// True if every field of its records is known to be in the notation that the module writes.
    is_written: Option<bool>,
}

/// The crawls of an index: the names of their keys, and the sets that contain them.
pub struct Crawls<K: Store> {
    prefix: Vec<u8>,
    /// Name of the key `allcrawls`.
    committed: K::Name,
    /// Name of the key `uncommittedcrawls`.
    uncommitted: K::Name,
    /// Name of the key `to-remove-crawls`.
    outgoing: K::Name,
    /// Name of the key `canceledcrawls`.
    canceled: K::Name,
    cached: FxHashMap<Box<[u8]>, CachedCrawl<K::Name>>,
}

impl<K: Store> Crawls<K> {
    /// Creates an empty cache.
    pub(super) fn new(prefix: &[u8], names: &Names<K::Name>) -> Crawls<K> {
        Crawls {
            prefix: prefix.to_vec(),
            committed: names.allcrawls.clone(),
            uncommitted: names.uncommitted.clone(),
            outgoing: names.outgoing.clone(),
            canceled: names.canceled.clone(),
            cached: FxHashMap::default(),
        }
    }

    /// Clears the cache.
    pub(super) fn clear(&mut self) {
        self.cached.clear();
    }

    fn get(&self, crawl: &[u8]) -> Option<&CachedCrawl<K::Name>> {
        self.cached.get(crawl)
    }

    fn cached(&mut self, ks: &mut K, crawl: &[u8]) -> &mut CachedCrawl<K::Name> {
        if !self.cached.contains_key(crawl) {
            let [records, counts] = [CrawlKey::Records, CrawlKey::Counts].map(|which| {
                let (before, after) = which.around();
                ks.name(&[&self.prefix, before, crawl, after])
            });
            let known = CachedCrawl {
                records,
                counts,
                is_committed: None,
                is_uncommitted: None,
                is_written: None,
            };
            if self.cached.len() >= MAX_CACHED_CRAWLS {
                self.cached.clear();
            }
            self.cached.insert(crawl.into(), known);
        }
        self.cached.get_mut(crawl).expect("just inserted")
    }

    /// Returns the name of a crawl's key.
    pub(crate) fn key(&mut self, ks: &mut K, crawl: &[u8], which: CrawlKey) -> K::Name {
        match which {
            CrawlKey::Records => match self.get(crawl) {
                Some(cached) => cached.records.clone(),
                None => self.cached(ks, crawl).records.clone(),
            },
            CrawlKey::Counts => self.cached(ks, crawl).counts.clone(),
            _ => {
                let (before, after) = which.around();
                ks.name(&[&self.prefix, before, crawl, after])
            }
        }
    }

    /// Returns the baseline of a crawl.
    pub(crate) fn baseline(&mut self, ks: &mut K, crawl: &[u8]) -> Baseline<K> {
        Baseline::at(self.key(ks, crawl, CrawlKey::Baseline))
    }

    /// Returns the key of a crawl's records, if the crawl is cached as committed and not continued.
    pub(super) fn records_of_finished(&self, crawl: &[u8]) -> Option<&K::Name> {
        let known = self.get(crawl)?;
        let is_finished = (known.is_committed, known.is_uncommitted) == (Some(true), Some(false));
        is_finished.then_some(&known.records)
    }

    /// Returns true if every field of the crawl's records is known to be in the notation that the module writes.
    /// Returns `None` if this was not checked yet.
    pub(super) fn is_written(&self, crawl: &[u8]) -> Option<bool> {
        self.get(crawl)?.is_written
    }

    /// Records whether every field of the crawl's records is in the notation that the module writes.
    pub(super) fn set_written(&mut self, ks: &mut K, crawl: &[u8], is: bool) {
        self.cached(ks, crawl).is_written = Some(is);
    }

    /// Invalidates the records of a crawl after a write by a plain client. Returns true if the crawl may be committed.
    pub(super) fn invalidate_records(&mut self, crawl: &[u8]) -> bool {
        match self.cached.get_mut(crawl) {
            Some(cached) => {
                cached.is_written = Some(false);
                cached.is_uncommitted != Some(true)
            }
            None => false,
        }
    }

    /// Returns all committed crawls, sorted by id.
    pub(crate) fn committed(&self, ks: &mut K) -> Result<Vec<Vec<u8>>> {
        counts::members(ks, &self.committed)
    }

    /// Returns true if the crawl is in `allcrawls`.
    pub(crate) fn is_committed(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if let Some(known) = self.get(crawl).and_then(|c| c.is_committed) {
            return Ok(known);
        }
        let is = ks.set_has(&self.committed, crawl)?;
        self.cached(ks, crawl).is_committed = Some(is);
        Ok(is)
    }

    /// Returns true if the crawl is in `uncommittedcrawls`.
    pub(crate) fn is_uncommitted(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if let Some(known) = self.get(crawl).and_then(|c| c.is_uncommitted) {
            return Ok(known);
        }
        let is = ks.set_has(&self.uncommitted, crawl)?;
        self.cached(ks, crawl).is_uncommitted = Some(is);
        Ok(is)
    }

    /// Adds a crawl to `allcrawls`, or removes it.
    pub(super) fn set_committed(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        if is {
            ks.set_add(&self.committed, crawl)?;
        } else {
            ks.set_del(&self.committed, crawl)?;
        }
        self.cached(ks, crawl).is_committed = Some(is);
        Ok(())
    }

    /// Adds a crawl to `uncommittedcrawls`, or removes it.
    pub(super) fn set_uncommitted(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        if is {
            ks.set_add(&self.uncommitted, crawl)?;
        } else {
            ks.set_del(&self.uncommitted, crawl)?;
        }
        self.cached(ks, crawl).is_uncommitted = Some(is);
        Ok(())
    }

    /// Returns the state of the crawl, or `None` if the index has no such crawl.
    pub(crate) fn state(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<CrawlState>> {
        let committed = self.is_committed(ks, crawl)?;
        let uncommitted = self.is_uncommitted(ks, crawl)?;
        Ok(match (committed, uncommitted) {
            (true, false) => Some(CrawlState::Committed),
            (true, true) => Some(CrawlState::Continued),
            (false, true) => Some(CrawlState::Uncommitted),
            (false, false) => None,
        })
    }

    /// Returns true if a list of uncommitted hashes contains this hash of the crawl.
    pub(crate) fn is_listed(&mut self, ks: &mut K, crawl: &[u8], digest: &Digest) -> Result<bool> {
        for &list in CrawlKey::UNCOMMITTED {
            let list = self.key(ks, crawl, list);
            if ks.hash_has(&list, digest.canonical())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a purge by another program is running, or was interrupted.
    pub(crate) fn are_purged(&self, ks: &mut K) -> bool {
        ks.exists(&self.outgoing)
    }

    /// Returns true if a purge by another program removed the crawl from `allcrawls`, and has not
    /// yet put it back or deleted it.
    pub(crate) fn is_outgoing(&self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.are_purged(ks) && ks.set_has(&self.outgoing, crawl)?)
    }

    /// Returns true if another program canceled the crawl after its hashes were merged.
    pub(crate) fn is_canceled(&self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(ks.exists(&self.canceled) && ks.set_has(&self.canceled, crawl)?)
    }

    /// Returns true if a crawl may be removed: it is committed, or another program was about to remove it.
    pub(crate) fn is_removable(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.is_committed(ks, crawl)?
            || self.is_outgoing(ks, crawl)?
            || self.is_canceled(ks, crawl)?)
    }

    /// Refuses an operation that would remove a crawl's committed records together with its
    /// uncommitted records.
    ///
    /// # Errors
    /// `PURGING` for a crawl in `to-remove-crawls`.
    pub(crate) fn refuse_while_outgoing(&self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.is_outgoing(ks, crawl)? {
            Err(Error::Purging(crawl.to_vec()))
        } else {
            Ok(())
        }
    }

    /// Removes a crawl from the sets in which other programs mark crawls.
    pub(crate) fn drop_marks_of_others(&self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        for set in [&self.outgoing, &self.canceled] {
            if ks.exists(set) {
                ks.set_del(set, crawl)?;
            }
        }
        Ok(())
    }
}

impl<K: Store> Index<K> {
    /// Returns true if every field of the crawl's records is known to be in the notation that the module writes.
    pub(crate) fn has_written_records(&mut self, ks: &mut K, crawl: &[u8]) -> bool {
        if let Some(known) = self.crawls.is_written(crawl) {
            return known;
        }
        let records = self.crawls.key(ks, crawl, CrawlKey::Records);
        let packed = self.places.packed(Part::Records(crawl));
        let is_new = !ks.exists(&records) && packed.len(ks).is_ok_and(|len| len == 0);
        self.crawls.set_written(ks, crawl, is_new);
        is_new
    }

    /// Invalidates the records of a crawl after a write by a plain client. From now on, lookups in
    /// these records try every notation.
    pub fn invalidate_records(&mut self, crawl: &[u8]) {
        if self.crawls.invalidate_records(crawl) {
            self.ledger.forget_unrecorded();
        }
    }

    /// Adds a crawl to `allcrawls`, or removes it.
    pub(crate) fn set_committed(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        self.crawls.set_committed(ks, crawl, is)?;
        self.ledger.note_committed(crawl, is);
        Ok(())
    }

    /// Adds a crawl to `uncommittedcrawls`, or removes it.
    pub(crate) fn set_uncommitted(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        self.crawls.set_uncommitted(ks, crawl, is)?;
        if !is {
            self.visible.remove(ks, crawl)?;
        }
        Ok(())
    }

    /// Returns true if new records of the crawl belong to a later commit: the crawl is committed,
    /// or is being committed.
    pub(crate) fn is_continuing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.crawls.is_committed(ks, crawl)?
            || self.under_way.is_committing(ks, crawl)?
            || self.crawls.is_outgoing(ks, crawl)?)
    }
}
