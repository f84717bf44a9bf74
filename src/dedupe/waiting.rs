//! Revisits that Browsertrix's importer counted before it met their original.
//!
//! It notes them in two hashes for each hash of a payload, `rev:<hash>:c` and `rev:<hash>:s`: crawl → their number, and
//! crawl → their bytes. A commit that brings the original adds what they saved to the counts of these crawls.

use crawlspace_host::keyspace::KeyType;
use crawlspace_host::text::parse_signed;

use super::counts::{self, CONSERVED_SIZE};
use super::digest::Digest;
use super::error::Result;
use super::index::{CrawlState, Index};
use super::keys::CrawlKey;
use super::profile::Profile;
use super::record::Record;
use super::store::Store;

impl<K: Store> Index<K> {
    /// Returns whether an importer has been at work, so that there may be such revisits. An importer says how far it is
    /// from its first package on, and when it ended.
    pub(super) fn may_have_waiting(&mut self, ks: &mut K) -> Result<bool> {
        let names = self.names();
        Ok(self.profile() == Profile::Browsertrix
            && (ks.exists(&names.last_update)
                || ks.hash_has(&names.allcounts, counts::UPDATE_PROGRESS)?))
    }

    /// Counts what revisits saved that waited for the record of a crawl which is being committed.
    pub(super) fn settle_waiting(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<()> {
        // The importer writes a hash as its package does, with the label of its algorithm or without.
        for hash in [digest.canonical(), digest.written(self.profile())] {
            let [numbers, sizes] =
                [b":c", b":s"].map(|end| ks.name(&[self.prefix(), b"rev:", hash, end]));
            if !ks.exists(&numbers)
                || ks.check_type(&numbers, KeyType::Hash).is_err()
                || ks.check_type(&sizes, KeyType::Hash).is_err()
            {
                continue;
            }
            let record = self.record_of(ks, crawl, digest)?;
            let record = record.as_ref().map(AsRef::as_ref).and_then(Record::parse);
            let Some(size) = record.map(|record| record.size) else {
                return Ok(());
            };
            for (waiting, number) in counts::fields(ks, &numbers)?.iter() {
                let bytes = counts::read(ks, &sizes, waiting).unwrap_or(0);
                let number = parse_signed(number).unwrap_or(0);
                let saved = number
                    .saturating_mul(size as i64)
                    .saturating_sub(bytes.max(0));
                if saved > 0 {
                    self.add_saved(ks, crawl, waiting, saved)?;
                }
            }
            ks.delete(&numbers)?;
            ks.delete(&sizes)?;
        }
        Ok(())
    }

    /// Adds to what a crawl saved, while `crawl` is being committed.
    fn add_saved(&mut self, ks: &mut K, crawl: &[u8], waiting: &[u8], saved: i64) -> Result<()> {
        let Some(standing) = self.standing(ks, waiting)? else {
            return Ok(()); // it has been removed since
        };
        let [counts_key, baseline] =
            [CrawlKey::Counts, CrawlKey::Baseline].map(|key| self.crawl_key(ks, waiting, key));
        if counts::read(ks, &counts_key, CONSERVED_SIZE).is_err() {
            return Ok(()); // a repair begins it anew
        }
        counts::add(ks, &counts_key, CONSERVED_SIZE, saved)?;
        match standing {
            // A purge begins the sums anew.
            CrawlState::Outgoing => return Ok(()),
            CrawlState::Uncommitted if waiting == crawl => {
                let field = [b"merging.", CONSERVED_SIZE].concat();
                return counts::add(ks, &baseline, &field, saved);
            }
            CrawlState::Uncommitted => return Ok(()),
            CrawlState::Continued => {
                let field = [b"baseline.", CONSERVED_SIZE].concat();
                counts::add(ks, &baseline, &field, saved)?;
                if self.is_committing(ks, waiting)? {
                    let field = [b"merging.", CONSERVED_SIZE].concat();
                    counts::add(ks, &baseline, &field, saved)?;
                }
            }
            // The importer counts in both places from the first record on.
            CrawlState::Committed | CrawlState::Canceled | CrawlState::Unlisted => {}
        }
        counts::add(ks, &self.names().allcounts, CONSERVED_SIZE, saved)
    }
}
