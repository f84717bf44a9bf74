//! Checks the invariants of each entry of an index, and restores them for `REPAIR`.

use crawlspace_host::reply::Reply;
use crawlspace_host::text::parse_signed;

use super::counts;
use super::digest::Digest;
use super::error::{Error, Result};
use super::index::numbers::{Numbers, parse_numbers};
use super::index::{CrawlState, Index};
use super::keys::CrawlKey;
use super::merge::withdraw;
use super::record::Record;
use super::store::Store;
use super::sums::committed_share;

/// The results of a check, as counts. With `repair`, the check fixes each problem as soon as it
/// finds it.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) repair: bool,
    pub(super) crawls: u64,
    pub(super) hashes: u64,
    pub(super) dangling_owners: u64,
    pub(super) missing_hashes: u64,
    pub(super) hidden_owners: u64,
    pub(super) bad_records: u64,
    pub(super) count_drift: u64,
    pub(super) leaked_keys: u64,
    pub(super) unlisted_crawls: u64,
    pub(super) to_remove_crawls: u64,
    pub(super) stale_holders: u64,
    pub(super) interrupted: u64,
    pub(super) placeholders: u64,
    /// Number of missing, wrong or orphaned entries in the URL index; `None` if the URL index is off.
    pub(super) url_drift: Option<u64>,
    pub(super) repaired: u64,
}

impl Findings {
    /// Checks that a crawl's counts are integers, including the counts as of its last commit. A
    /// repair recomputes an invalid count as of the last commit: it is the sum minus the counts of
    /// the other crawls.
    pub fn check_counts<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
    ) -> Result<()> {
        let key = index.crawls.key(ks, crawl, CrawlKey::Counts);
        self.check_integers(ks, &key, &counts::SHOWN)?;
        let baseline = index.crawls.key(ks, crawl, CrawlKey::Baseline);
        self.check_integers(ks, &baseline, &[b"wacz", b"merging-wacz"])?;
        for (field, value) in counts::fields(ks, &baseline)?.iter() {
            let Some(name) = field.strip_prefix(b"baseline.") else {
                continue;
            };
            if parse_signed(value).is_some() {
                continue;
            }
            self.count_drift += 1;
            if self.repair {
                let share = match committed_share(index, ks, crawl, name) {
                    // If the counts of several crawls are unreadable, their shares of the sum
                    // cannot be separated.
                    Err(Error::Argument(_)) => 0,
                    share => share?,
                };
                counts::set(ks, &baseline, field, share)?;
                self.repaired += 1;
            }
        }
        Ok(())
    }

    /// Checks that these fields of a hash are integers; a repair deletes invalid ones.
    pub fn check_integers<K: Store>(
        &mut self,
        ks: &mut K,
        key: &K::Name,
        fields: &[&[u8]],
    ) -> Result<()> {
        for field in fields {
            let value = ks.hash_get(key, field)?;
            if value.is_some_and(|value| parse_signed(value.as_ref()).is_none()) {
                self.count_drift += 1;
                if self.repair {
                    ks.hash_del(key, field)?;
                    self.repaired += 1;
                }
            }
        }
        Ok(())
    }

    /// Checks that the merged index has a hash of a committed crawl, and names the crawl as the
    /// owner or a holder of the hash.
    pub fn check_record<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        numbers: &[u64],
        (field, value): (&[u8], &[u8]),
    ) -> Result<()> {
        if index.under_way.is_removing(ks, crawl)? {
            return Ok(()); // the removal deletes the hashes of this crawl one by one
        }
        if Record::parse(value).is_none() {
            self.bad_records += 1;
            return Ok(());
        }
        let digest = Digest::of_field(field);
        // A commit by a plain client leaves these lists in place.
        let may_be_listed =
            index.crawls.is_uncommitted(ks, crawl)? || index.under_way.is_committing(ks, crawl)?;
        if may_be_listed && index.crawls.is_listed(ks, crawl, &digest)? {
            return Ok(()); // not committed yet
        }
        match index.spelling.owner(ks, &index.places, &digest)? {
            // Until the next commit, no list contains the hashes that a plain client adds to a
            // continued crawl.
            None if index.crawls.is_uncommitted(ks, crawl)?
                && index.has_unseen_fields(ks, crawl)? => {}
            None => {
                self.missing_hashes += 1;
                if self.repair {
                    index.spelling.note_merged(&digest, field);
                    index.places.merged().set(ks, field, crawl)?;
                    self.repaired += 1;
                }
            }
            Some(owner) if owner.as_ref() == crawl => {}
            Some(_) => {
                // If plain clients committed the crawl, the keys do not show whether the list
                // should contain the crawl.
                let Some(&last) = numbers.last() else {
                    return Ok(());
                };
                let baseline = index.crawls.baseline(ks, crawl);
                let mut holders = index.ledger.holders(ks, &index.places, &digest)?;
                let is_recorded = holders.iter().any(|n| numbers.contains(n));
                // The same applies to hashes that a plain client added to a committed crawl: their
                // holders are found by lookups in the records.
                if !is_recorded && !baseline.is_unrecorded(ks)? && !may_have_more(index, ks, crawl)?
                {
                    self.stale_holders += 1;
                    if self.repair {
                        holders.push(last);
                        holders.sort_unstable();
                        index
                            .ledger
                            .set_holders(ks, &index.places, &digest, &holders)?;
                        self.repaired += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that the owner of a hash is committed, or being committed, and has the record.
    pub fn check_owner<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        field: &[u8],
        owner: &[u8],
    ) -> Result<()> {
        let digest = Digest::of_field(field);
        if index.committed_record(ks, owner, &digest)?.is_some()
            || index.under_way.is_committing(ks, owner)?
        {
            return Ok(());
        }
        if index.under_way.is_removing(ks, owner)? {
            return Ok(());
        }
        if index.crawls.is_committed(ks, owner)? {
            self.dangling_owners += 1;
        } else {
            if index.crawls.is_canceled(ks, owner)? {
                return Ok(());
            }
            // A commit by a plain client and a purge by another program pass through the same
            // state. A repair must not undo either of them.
            self.hidden_owners += 1;
            if index.standing(ks, owner)?.is_some() {
                return Ok(());
            }
        }
        if self.repair {
            withdraw(index, ks, owner, &[], field, &|other| other == owner)?;
            self.repaired += 1;
        }
        Ok(())
    }

    /// Checks that every commit number in a list of holders belongs to a crawl that has the hash
    /// and does not own it.
    pub fn check_holders<K: Store>(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        hash: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let digest = Digest::of_field(hash);
        let numbers = parse_numbers(value);
        let owner = index.spelling.owner(ks, &index.places, &digest)?;
        let owner = owner.as_ref().map(AsRef::as_ref);
        let mut kept = Numbers::new();
        let mut under_way = false;
        for &number in &numbers {
            match index.ledger.crawl_of(ks, number)? {
                Some(crawl)
                    if index.under_way.is_removing(ks, &crawl)?
                        || index.crawls.is_outgoing(ks, &crawl)?
                        || index.crawls.is_canceled(ks, &crawl)? =>
                {
                    kept.push(number); // the running removal deletes this number
                }
                Some(crawl) if Some(&crawl[..]) == owner => {}
                Some(crawl) if index.committed_record(ks, &crawl, &digest)?.is_some() => {
                    kept.push(number);
                }
                Some(_) => {}
                None => under_way = true,
            }
        }
        if digest.canonical() != hash {
            // Lookups do not find a list that is stored in this notation.
            self.stale_holders += 1;
            if self.repair {
                index.places.further_holders().del(ks, hash)?;
                let mut all = index.ledger.holders(ks, &index.places, &digest)?;
                all.extend(kept);
                all.sort_unstable();
                all.dedup();
                index.ledger.set_holders(ks, &index.places, &digest, &all)?;
                self.repaired += 1;
            }
            return Ok(());
        }
        // A number without a crawl may belong to a running commit.
        under_way &= ks.hash_len(&index.names().committing)? > 0;
        if kept != numbers && !under_way {
            self.stale_holders += 1;
            if self.repair {
                index
                    .ledger
                    .set_holders(ks, &index.places, &digest, &kept)?;
                self.repaired += 1;
            }
        }
        Ok(())
    }

    /// Formats the findings as the reply of the command.
    pub fn report(&self) -> Reply {
        let f = self;
        let faults = f.dangling_owners
            + f.missing_hashes
            + f.hidden_owners
            + f.bad_records
            + f.count_drift
            + f.leaked_keys
            + f.to_remove_crawls
            + f.stale_holders
            + f.interrupted
            + f.url_drift.unwrap_or(0);
        let mut entries = vec![
            ("crawls", f.crawls),
            ("hashes", f.hashes),
            ("danglingOwners", f.dangling_owners),
            ("missingHashes", f.missing_hashes),
            ("hiddenOwners", f.hidden_owners),
            ("badRecords", f.bad_records),
            ("countDrift", f.count_drift),
            ("leakedKeys", f.leaked_keys),
            ("unlistedCrawls", f.unlisted_crawls),
            ("toRemoveCrawls", f.to_remove_crawls),
            ("staleHolders", f.stale_holders),
            ("interrupted", f.interrupted),
            ("placeholders", f.placeholders),
            ("ok", u64::from(faults == 0)),
        ];
        entries.extend(f.url_drift.map(|drift| ("urlDrift", drift)));
        if self.repair {
            entries.push(("repaired", f.repaired));
        }
        Reply::named(entries.into_iter().map(|(name, n)| (name, Reply::count(n))))
    }
}

/// Returns true if a committed crawl may have hashes that no list contains.
fn may_have_more<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<bool> {
    if index.crawls.is_uncommitted(ks, crawl)? {
        index.has_unseen_fields(ks, crawl)
    } else {
        index.has_more_fields(ks, crawl)
    }
}

/// The state of a crawl with packed records.
pub(super) enum Packed {
    /// The crawl is committed, or one of its jobs is running or was interrupted, or a purge by
    /// another program took it out of the sets.
    Known,
    /// The crawl is in no set.
    Unlisted,
    /// The crawl is uncommitted: its records are in the plain hash, and an abandoned commit left
    /// copies of them in the packed index.
    Stray,
}

pub fn packed_standing<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<Packed> {
    if index.under_way.is_committing(ks, crawl)? || index.under_way.is_removing(ks, crawl)? {
        return Ok(Packed::Known);
    }
    Ok(match index.standing(ks, crawl)? {
        Some(CrawlState::Uncommitted) if index.has_copies(ks, crawl)? => Packed::Stray,
        Some(CrawlState::Unlisted) => Packed::Unlisted,
        _ => Packed::Known,
    })
}
