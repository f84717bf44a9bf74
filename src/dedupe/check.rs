//! `CHECK` verifies the consistency of an index; `REPAIR` restores it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_signed;

use super::adopt::adopt_all;
use super::begin::drop_leftovers;
use super::counters::check_counters;
use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::findings::{Findings, Packed, packed_standing};
use super::index::Index;
use super::index::numbers::Numbers;
use super::index::storage::Of;
use super::job::{Job, Lent, Walk, crawls_in, each_crawl};
use super::keys::CrawlKey;
use super::pack::pack_rest;
use super::store::Store;
use super::stray::each_stray;
use super::sums::{committed_counts, uncertain_size};
use super::urls::compare;
use super::wacz::WaczEntry;

/// Returns a job that verifies every key of an index and, with `repair`, fixes the inconsistencies.
///
/// # Errors
/// The job fails with `WRONGTYPE` if a key holds another type, and with errors of the server.
pub fn check<K: Store>(repair: bool) -> Job<K> {
    Job::new(async move |lent: Lent<K>| {
        if repair {
            // Only one writing job of an index runs at a time, so the storage does not change
            // during a repair.
            return Check::new(true).run(&lent).await;
        }
        loop {
            let storage = |index: &mut Index<K>, _: &mut K| {
                let packed = index.places.packed_key().map(|key| key.as_ref().to_vec());
                (index.places.storage(), index.places.is_moving(), packed)
            };
            let began_in = lent.with(storage);
            let mut look = pin!(Check::new(false).run(&lent));
            let outcome = poll_fn(|context| {
                if lent.with(storage) != began_in {
                    // Records that were not checked yet may have been moved to the other storage,
                    // so start again.
                    return Poll::Ready(None);
                }
                look.as_mut().poll(context).map(Some)
            });
            if let Some(reply) = outcome.await {
                return reply;
            }
        }
    })
}

struct Check {
    sums: BTreeMap<Vec<u8>, i64>,
    /// Counts of crawls that another program canceled. The sums in `allcounts` may still include
    /// these counts.
    canceled: BTreeMap<Vec<u8>, i64>,
    sums_unknown: bool,
    /// Number of bytes that may be missing from the sum of sizes, because plain clients committed
    /// crawls.
    uncertain_size: i64,
    /// Crawls that are in no set but have keys that cannot be rebuilt.
    unlisted: BTreeSet<Vec<u8>>,
    findings: Findings,
}

impl Check {
    fn new(repair: bool) -> Check {
        Check {
            sums: BTreeMap::new(),
            canceled: BTreeMap::new(),
            sums_unknown: false,
            uncertain_size: 0,
            unlisted: BTreeSet::new(),
            findings: Findings {
                repair,
                ..Findings::default()
            },
        }
    }

    async fn run<K: Store>(mut self, lent: &Lent<K>) -> Result<Reply> {
        self.check_counters(lent).await?;
        if self.findings.repair {
            if lent.with(|index, ks| index.places.has_left_to_pack(ks, &index.crawls)) {
                self.findings.repaired += pack_rest(lent).await?;
            }
            adopt_all(lent).await?;
        }
        self.check_uncommitted(lent).await?;
        let crawls = crawls_in(lent, &[|names| &names.allcrawls]).await?;
        self.check_merged(lent).await?;
        self.findings.url_drift = lent.with(|index, _| index.urls.are_kept().then_some(0));
        for crawl in &crawls {
            self.check_crawl(lent, crawl).await?;
            lent.pause().await;
        }
        self.check_sums(lent).await?;
        self.findings.hashes = lent.with(|index, ks| index.places.merged().len(ks))?;
        self.check_holders(lent).await?;
        lent.with(|index, ks| self.count_interrupted(index, ks))?;
        for crawl in lent.with(|index, ks| index.places.packed_crawls(ks))? {
            self.check_packed(lent, crawl).await?;
            lent.pause().await;
        }
        self.check_strays(lent).await?;
        lent.with(|index, ks| {
            self.findings.to_remove_crawls = ks.set_len(&index.names().outgoing)?;
            if self.findings.repair {
                index.ledger.mark_trusted(ks, &index.crawls)?;
            }
            Ok(self.findings.report())
        })
    }

    /// Checks the counters in `crawlspace`, and the fields of `allcounts` about removed crawls.
    async fn check_counters<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let findings = &mut self.findings;
        let wrong = check_counters(lent, findings.repair).await?;
        findings.count_drift += wrong;
        findings.repaired += if findings.repair { wrong } else { 0 };
        lent.with(|index, ks| {
            let removed = [counts::REMOVED_CRAWLS, counts::REMOVED_CRAWL_SIZE];
            findings.check_integers(ks, &index.names().allcounts, &removed)
        })
    }

    async fn check_uncommitted<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let check = |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| {
            self.findings.check_counts(index, ks, crawl)
        };
        each_crawl(lent, &[|names| &names.uncommitted], check).await
    }

    async fn sum_canceled<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let crawls = lent.with(|index, ks| Walk::set(ks, index.names().canceled.clone()));
        let sum = |index: &mut Index<K>, ks: &mut K, crawl: &[u8], _: &[u8]| {
            if index.crawls.state(ks, crawl)?.is_none() {
                let counts_key = index.crawls.key(ks, crawl, CrawlKey::Counts);
                for (name, n) in counts::all(ks, &counts_key, b"")? {
                    let sum = self.canceled.entry(name).or_default();
                    *sum = sum.saturating_add(n);
                }
            }
            Ok(())
        };
        crawls.run(lent, sum).await
    }

    /// Checks the owners of all hashes, and whether every hash is stored in the notation that the module writes. Runs
    /// first, because lookups in the records of crawls depend on the notation.
    async fn check_merged<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let census = lent.with(|index, _| index.spelling.begin_census(index.opening()));
        let mut all_written = true;
        let merged = lent.with(|index, ks| Walk::stored(index, ks, Of::Merged));
        let check = |index: &mut Index<K>, ks: &mut K, field: &[u8], owner: &[u8]| {
            all_written &= Digest::of_field(field).written(index.profile()) == field;
            self.findings.check_owner(index, ks, field, owner)
        };
        merged.run(lent, check).await?;
        lent.with(|index, ks| {
            if all_written {
                index.spelling.end_census(index.opening(), census);
                Ok(())
            } else {
                index.spelling.invalidate(ks, &index.places)
            }
        })
    }

    /// Checks a committed crawl: its counts, its commits, its records.
    async fn check_crawl<K: Store>(&mut self, lent: &Lent<K>, crawl: &[u8]) -> Result<()> {
        lent.with(|index, ks| self.check_committed(index, ks, crawl))?;
        let numbers = lent.with(|index, ks| self.check_numbers(index, ks, crawl))?;
        lent.with(|index, ks| self.check_packed_value(index, ks, crawl))?;
        let of = Of::Records(crawl.to_vec());
        let records = lent.with(|index, ks| Walk::stored(index, ks, of));
        let check = |index: &mut Index<K>, ks: &mut K, field: &[u8], value: &[u8]| {
            self.findings
                .check_record(index, ks, crawl, &numbers, (field, value))
        };
        records.run(lent, check).await?;
        self.check_urls(lent, crawl).await
    }

    /// Checks the URL index of a crawl. Skips a continued crawl unless `repair` is set: the records
    /// that plain clients add enter the URL index only with the next commit.
    async fn check_urls<K: Store>(&mut self, lent: &Lent<K>, crawl: &[u8]) -> Result<()> {
        let repair = self.findings.repair;
        if let Some(drift) = &mut self.findings.url_drift
            && (repair || !lent.with(|index, ks| index.crawls.is_uncommitted(ks, crawl))?)
        {
            let wrong = compare(lent, crawl, repair).await?;
            *drift += wrong;
            self.findings.repaired += if repair { wrong } else { 0 };
        }
        Ok(())
    }

    async fn check_holders<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let holders = lent.with(|index, ks| Walk::stored(index, ks, Of::Holders));
        let check = |index: &mut Index<K>, ks: &mut K, hash: &[u8], value: &[u8]| {
            self.findings.check_holders(index, ks, hash, value)
        };
        holders.run(lent, check).await
    }

    /// Counts the jobs that were interrupted.
    fn count_interrupted<K: Store>(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        let committing = counts::fields(ks, &index.names().committing)?;
        let removing = counts::fields(ks, &index.names().removing)?;
        let marks = committing.iter().chain(removing.iter());
        let crawls: BTreeSet<&[u8]> = marks.map(|(c, _)| c).filter(|c| !c.is_empty()).collect();
        self.findings.interrupted = crawls.len() as u64 + u64::from(index.places.is_moving());
        Ok(())
    }

    /// Checks that packed records belong to a crawl of the index.
    async fn check_packed<K: Store>(&mut self, lent: &Lent<K>, crawl: Vec<u8>) -> Result<()> {
        match lent.with(|index, ks| packed_standing(index, ks, &crawl))? {
            Packed::Known => return Ok(()),
            Packed::Unlisted => {
                self.unlisted.insert(crawl);
                return Ok(());
            }
            Packed::Stray => self.findings.leaked_keys += 1,
        }
        if !self.findings.repair {
            return Ok(());
        }
        self.findings.repaired += 1;
        let of = Of::Packed(crawl.clone());
        let records = lent.with(|index, ks| Walk::stored(index, ks, of));
        let take_out = |index: &mut Index<K>, ks: &mut K, field: &[u8], _: &[u8]| {
            index.places.unpack_record(ks, &crawl, field)
        };
        records.run(lent, take_out).await
    }

    /// Finds keys of crawls that are in none of the sets.
    async fn check_strays<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let check = |index: &mut Index<K>, ks: &mut K, crawl: Vec<u8>, which: CrawlKey| {
            if !which.is_ours() {
                self.unlisted.insert(crawl);
            } else if !index.has_documents(ks, &crawl)? {
                // The key belongs to a crawl that does not exist.
                self.findings.leaked_keys += 1;
                if self.findings.repair {
                    drop_leftovers(index, ks, &crawl, &[which])?;
                    self.findings.repaired += 1;
                }
            }
            Ok(())
        };
        each_stray(lent, check).await?;
        self.findings.unlisted_crawls = self.unlisted.len() as u64;
        Ok(())
    }

    /// Checks the counts and the WACZ files of a committed crawl.
    fn check_committed<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<()> {
        self.findings.crawls += 1;
        if !index.crawls.is_uncommitted(ks, crawl)? {
            self.findings.check_counts(index, ks, crawl)?;
        }
        let waczs = index.crawls.key(ks, crawl, CrawlKey::Waczs);
        for i in 0..ks.list_len(&waczs)? {
            let closed = ks
                .list_get(&waczs, i)?
                .and_then(|json| WaczEntry::parse(json.as_ref()))
                .is_some_and(|entry| entry.is_closed());
            self.findings.placeholders += u64::from(!closed);
        }
        Ok(())
    }

    /// Adds the counts of a committed crawl to the sums.
    fn sum_committed<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<()> {
        // If plain clients both committed and continued the crawl, its committed share of the
        // counts is unknown.
        self.sums_unknown |= index.crawls.is_uncommitted(ks, crawl)?
            && !index.crawls.baseline(ks, crawl).has_numbers(ks)?;
        for (name, n) in committed_counts(index, ks, crawl)? {
            let sum = self.sums.entry(name).or_default();
            *sum = sum.saturating_add(n);
        }
        // `check_counts` reports unreadable counts.
        let uncertain = uncertain_size(index, ks, crawl).unwrap_or(0);
        self.uncertain_size = self.uncertain_size.saturating_add(uncertain);
        Ok(())
    }

    /// Checks whether the value of a packed index was lost. In that case, the records of crawls are
    /// lost together with the merged index. The only trace of the loss is the number of records
    /// that the baseline of each crawl stores.
    fn check_packed_value<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<()> {
        if index.places.packed_key().is_none() || index.crawls.is_uncommitted(ks, crawl)? {
            return Ok(());
        }
        let baseline = index.crawls.baseline(ks, crawl);
        let seen = baseline.seen(ks)?.unwrap_or(0);
        if seen > 0 && index.records_len(ks, crawl)? == 0 {
            self.findings.missing_hashes += seen;
            if self.findings.repair {
                // The records cannot be restored.
                baseline.set_seen(ks, 0)?;
                self.findings.repaired += 1;
            }
        }
        Ok(())
    }

    /// Checks that `commits` maps each commit number of a crawl to this crawl. Returns the valid
    /// numbers.
    fn check_numbers<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<Numbers> {
        let numbers = index.crawls.baseline(ks, crawl).numbers(ks)?;
        let mut kept = Numbers::new();
        for &number in &numbers {
            let known = index.ledger.crawl_of(ks, number)?;
            if known.as_deref() == Some(crawl) {
                kept.push(number);
                continue;
            }
            self.findings.stale_holders += 1;
            if self.findings.repair && known.is_none() && number <= index.last_number(ks)? {
                kept.push(number);
                index.ledger.record(ks, number, crawl)?;
            }
        }
        if !self.findings.repair {
            return Ok(numbers);
        }
        if kept != numbers {
            if kept.is_empty() {
                // All stored numbers belong to other crawls, so append this crawl to the commit
                // order.
                kept.push(index.next_number(ks)?);
                index.ledger.record(ks, kept[0], crawl)?;
            }
            index.crawls.baseline(ks, crawl).set_numbers(ks, &kept)?;
            self.findings.repaired += 1;
        }
        Ok(kept)
    }

    /// Checks that the sums in `allcounts` equal the sums of the crawls' counts.
    async fn check_sums<K: Store>(&mut self, lent: &Lent<K>) -> Result<()> {
        let sums = |index: &mut Index<K>, ks: &mut K| {
            let sums = counts::all(ks, &index.names().allcounts, b"")?;
            Ok::<BTreeMap<_, _>, Error>(sums.into_iter().collect())
        };
        let before = lent.with(sums)?;
        self.sum_canceled(lent).await?;
        let sum =
            |index: &mut Index<K>, ks: &mut K, crawl: &[u8]| self.sum_committed(index, ks, crawl);
        each_crawl(lent, &[|names| &names.allcrawls], sum).await?;
        lent.with(|index, ks| self.compare_sums(index, ks, &before))
    }

    /// Compares the sums. `before` is the content of `allcounts` at the start of the summation:
    /// since then, plain clients may have increased counts of crawls that were already read.
    fn compare_sums<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        before: &BTreeMap<Vec<u8>, i64>,
    ) -> Result<()> {
        if self.sums_unknown || index.crawls.are_purged(ks) {
            return Ok(()); // a purge by another program adds the counts crawl by crawl
        }
        for name in counts::SHOWN {
            self.sums.entry(name.to_vec()).or_default();
        }
        for (name, n) in counts::all(ks, &index.names().allcounts, b"")? {
            let sum = self.sums.entry(name.clone()).or_default();
            if n == 0 && *sum == 0 && !counts::SHOWN.contains(&&name[..]) {
                self.sums.remove(&name);
            }
        }
        for (name, &sum) in &self.sums {
            let is = ks
                .hash_get(&index.names().allcounts, name)?
                .map_or(Some(0), |value| parse_signed(value.as_ref()));
            // The sums may still include the counts of each canceled crawl.
            let canceled = self.canceled.get(name).copied().unwrap_or(0).max(0);
            let uncertain = match &name[..] {
                counts::TOTAL_CRAWL_SIZE => self.uncertain_size,
                _ => 0,
            };
            let grown = is.map_or(0, |n| {
                n.saturating_sub(before.get(name).copied().unwrap_or(0))
            });
            let (low, high) = (
                sum.saturating_add(grown.min(0)),
                sum.saturating_add(grown.max(0)),
            );
            let allowed = low.saturating_sub(uncertain)..=high.saturating_add(canceled);
            let is_drift = is.is_none_or(|n| !allowed.contains(&n));
            self.findings.count_drift += u64::from(is_drift);
            // A repair adds the missing sizes.
            let is_less = is.is_some_and(|n| n < low) && canceled == 0;
            if self.findings.repair && (is_drift || is_less) {
                let right = is.unwrap_or(sum).clamp(low, high);
                counts::set(ks, &index.names().allcounts, name, right)?;
                self.findings.repaired += 1;
            }
        }
        Ok(())
    }
}
