//! Fields of a crawl that none of our commands listed: plain clients added them.

use super::Index;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::store::Store;

impl<K: Store> Index<K> {
    /// Whether a continued crawl has fields that none of our commands listed as added.
    pub(crate) fn has_unseen_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.unseen_fields(ks, crawl)? != Some(0))
    }

    /// Returns whether plain clients added fields to a committed crawl since its last commit.
    pub(crate) fn has_more_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        Ok(self.unseen_fields(ks, crawl)? > Some(0))
    }

    /// Returns whether a continued crawl may have fields that a plain client added after our command went on with it. Those
    /// that it added before are committed.
    pub(crate) fn has_unclear_fields(&mut self, ks: &mut K, crawl: &[u8]) -> Result<bool> {
        let committed = self.crawls.baseline(ks, crawl).more(ks);
        Ok(self.unseen_fields(ks, crawl)? != Some(committed))
    }

    /// Returns how many fields of a crawl none of our commands listed: below 0 when plain clients deleted some, nothing
    /// when no commit of ours counted them.
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
