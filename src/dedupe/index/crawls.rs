//! Which crawls an index has, and what is cached of each: the names of its keys, and the sets that it is in.

use rustc_hash::FxHashMap;

use super::Index;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::packed::Part;
use crate::dedupe::store::Store;

/// How many crawls are cached at most; beyond it the cache is emptied.
const MAX_CACHED_CRAWLS: usize = 1 << 16;

/// Where a crawl stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrawlState {
    /// In `uncommittedcrawls` only.
    Uncommitted,
    /// In `allcrawls` only.
    Committed,
    /// In both: used again after its commit.
    Continued,
    /// In `to-remove-crawls`: another program's purge has not done with it.
    Outgoing,
    /// In `canceledcrawls` only: another program canceled it.
    Canceled,
    /// In no set: another program's crawl that was not announced, or is left over.
    Unlisted,
}

impl CrawlState {
    /// The state's name in replies.
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

/// What is cached of one crawl.
struct CachedCrawl<N> {
    records: N,
    counts: N,
    is_committed: Option<bool>,
    is_uncommitted: Option<bool>,
    /// Whether every field of its records is known to be in the written form.
    is_written: bool,
}

/// What is cached of crawls.
pub(super) struct Crawls<N>(FxHashMap<Box<[u8]>, CachedCrawl<N>>);

impl<N> Default for Crawls<N> {
    fn default() -> Self {
        Crawls(FxHashMap::default())
    }
}

impl<N> Crawls<N> {
    fn get(&self, crawl: &[u8]) -> Option<&CachedCrawl<N>> {
        self.0.get(crawl)
    }

    /// Name of the key of a crawl's records, if the crawl is known to be committed and not gone on with.
    pub fn records_of_settled(&self, crawl: &[u8]) -> Option<&N> {
        let known = self.get(crawl)?;
        let is_settled = (known.is_committed, known.is_uncommitted) == (Some(true), Some(false));
        is_settled.then_some(&known.records)
    }

    /// Drops what is cached of all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

impl<K: Store> Index<K> {
    fn cached(&mut self, ks: &mut K, crawl: &[u8]) -> &mut CachedCrawl<K::Name> {
        let crawls = &self.crawls.0;
        if !crawls.contains_key(crawl) {
            let [records, counts] = [CrawlKey::Records, CrawlKey::Counts].map(|which| {
                let (before, after) = which.around();
                ks.name(&[&self.prefix, before, crawl, after])
            });
            let part = Part::Records(crawl);
            let is_written =
                !ks.exists(&records) && self.packed(part).len(ks).is_ok_and(|len| len == 0);
            let known = CachedCrawl {
                records,
                counts,
                is_committed: None,
                is_uncommitted: None,
                is_written,
            };
            if crawls.len() >= MAX_CACHED_CRAWLS {
                self.crawls.clear();
            }
            self.crawls.0.insert(crawl.into(), known);
        }
        self.crawls.0.get_mut(crawl).expect("just inserted")
    }

    /// The name of a crawl's key.
    pub fn crawl_key(&mut self, ks: &mut K, crawl: &[u8], which: CrawlKey) -> K::Name {
        match which {
            CrawlKey::Records => match self.crawls.get(crawl) {
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

    /// Whether every field of the crawl's records is known to be in the written form.
    pub(crate) fn has_written_records(&mut self, ks: &mut K, crawl: &[u8]) -> bool {
        self.cached(ks, crawl).is_written
    }

    /// Notes that a plain client wrote records of a crawl: look-ups in it try every spelling from now on.
    pub fn invalidate_records(&mut self, crawl: &[u8]) {
        if let Some(cached) = self.crawls.0.get_mut(crawl) {
            cached.is_written = false;
            if cached.is_uncommitted != Some(true) {
                self.ledger.forget_unrecorded();
            }
        }
    }

    /// Whether the crawl is in `allcrawls`.
    pub(crate) fn is_committed(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if let Some(known) = self.crawls.get(crawl).and_then(|c| c.is_committed) {
            return Ok(known);
        }
        let is = ks.set_has(&self.names.allcrawls, crawl)?;
        self.cached(ks, crawl).is_committed = Some(is);
        Ok(is)
    }

    /// Whether the crawl is in `uncommittedcrawls`.
    pub(crate) fn is_uncommitted(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        if let Some(known) = self.crawls.get(crawl).and_then(|c| c.is_uncommitted) {
            return Ok(known);
        }
        let is = ks.set_has(&self.names.uncommitted, crawl)?;
        self.cached(ks, crawl).is_uncommitted = Some(is);
        Ok(is)
    }

    /// Adds to or removes from `allcrawls`.
    pub(crate) fn set_committed(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        if is {
            ks.set_add(&self.names.allcrawls, crawl)?;
        } else {
            ks.set_del(&self.names.allcrawls, crawl)?;
        }
        self.ledger.note_committed(crawl, is);
        self.cached(ks, crawl).is_committed = Some(is);
        Ok(())
    }

    /// Adds to or removes from `uncommittedcrawls`.
    pub(crate) fn set_uncommitted(&mut self, ks: &mut K, crawl: &[u8], is: bool) -> Result<()> {
        if is {
            ks.set_add(&self.names.uncommitted, crawl)?;
        } else {
            ks.set_del(&self.names.uncommitted, crawl)?;
            self.hide(ks, crawl)?;
        }
        self.cached(ks, crawl).is_uncommitted = Some(is);
        Ok(())
    }

    /// Where the crawl stands; `None` when the index does not know it.
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

    /// Whether records that come now are a later commit's: the crawl is committed, or a commit
    /// of it is under way.
    pub(crate) fn is_continuing(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.is_committed(ks, crawl)?
            || self.is_committing(ks, crawl)?
            || self.is_outgoing(ks, crawl)?)
    }
}
