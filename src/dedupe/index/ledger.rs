//! The holders of a hash, in commit order.
//!
//! The merged index names the owner of a hash. Every commit has a number. `commits` maps the number
//! to the crawl. `holders` maps a hash to the numbers of the later commits that also contained the
//! hash. A crawl that a plain client committed gets a number when the module first reads it. Lists
//! of holders may lack these *unrecorded* crawls, so the records of these crawls must be searched.

use std::rc::Rc;

use super::Index;
use super::crawls::Crawls;
use super::numbers::{Numbers, parse_numbers, write_numbers};
use super::storage::Places;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Result;
use crate::dedupe::keys::Names;
use crate::dedupe::record::Record;
use crate::dedupe::store::{Store, Stored, Under};

/// Field of `crawlspace` that marks the lists of holders as possibly incomplete.
const UNTRUSTED: &[u8] = b"untrusted";

/// Unrecorded crawls, each with its commit number, in commit order.
pub type Unrecorded = Vec<(u64, Vec<u8>)>;

/// The commit order, and the lists of further holders of hashes.
pub struct Ledger<K: Store> {
    /// Name of the key `commits`.
    commits: K::Name,
    /// Name of the key that marks the lists as incomplete.
    meta: K::Name,
    /// True if any hash has a list of further holders; `None` if unknown.
    has_lists: Option<bool>,
    /// Committed crawls that lists of holders may lack.
    unrecorded: Option<Rc<Unrecorded>>,
    /// All committed crawls, in commit order.
    in_order: Option<Rc<Unrecorded>>,
    /// True if all committed crawls have a commit number.
    adopted: bool,
    /// True if the lists of holders may be incomplete; see [`super::beside`].
    untrusted: bool,
}

impl<K: Store> Ledger<K> {
    /// Reads the part of the state that cannot be derived from other keys later.
    pub(super) fn read(ks: &mut K, names: &Names<K::Name>) -> Result<Ledger<K>> {
        Ok(Ledger {
            commits: names.commits.clone(),
            meta: names.meta.clone(),
            has_lists: None,
            unrecorded: None,
            in_order: None,
            adopted: false,
            untrusted: ks.hash_has(&names.meta, UNTRUSTED)?,
        })
    }

    /// Updates the cache after a crawl was added to or removed from the committed crawls.
    pub(super) fn note_committed(&mut self, crawl: &[u8], is: bool) {
        if is {
            self.in_order = None;
            return;
        }
        let lists = [&mut self.in_order, &mut self.unrecorded];
        for list in lists.into_iter().flatten() {
            Rc::make_mut(list).retain(|(_, other)| other != crawl);
        }
    }

    /// Drops the cache of unrecorded crawls after plain clients added to a crawl, or after a crawl
    /// was restored.
    pub(crate) fn forget_unrecorded(&mut self) {
        self.unrecorded = None;
    }

    /// Assigns a commit number to an unrecorded crawl.
    pub(crate) fn adopt(&mut self, ks: &mut K, crawl: &[u8], number: u64) -> Result<()> {
        self.record(ks, number, crawl)?;
        self.in_order = None;
        if let Some(unrecorded) = &mut self.unrecorded {
            let unrecorded = Rc::make_mut(unrecorded);
            unrecorded.retain(|(_, other)| other != crawl);
            unrecorded.push((number, crawl.to_vec()));
            unrecorded.sort();
        }
        Ok(())
    }

    /// Updates the cache after the lists of holders were moved to the other storage.
    pub(super) fn note_moved(&mut self) {
        self.has_lists = None;
    }

    /// Returns true if any commit number is stored. Only then can lists of holders exist.
    pub fn has_commits(&self, ks: &mut K) -> bool {
        ks.exists(&self.commits)
    }

    /// Stores the crawl to which a commit number belongs.
    pub(crate) fn record(&self, ks: &mut K, number: u64, crawl: &[u8]) -> Result<()> {
        ks.hash_set(&self.commits, number.to_string().as_bytes(), crawl)?;
        Ok(())
    }

    /// Deletes a commit number.
    pub(crate) fn drop_number(&self, ks: &mut K, number: u64) -> Result<()> {
        ks.hash_del(&self.commits, number.to_string().as_bytes())?;
        Ok(())
    }

    /// Returns true if the lists of holders name every committed crawl that has the hash.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.untrusted
    }

    /// Marks the lists of holders as possibly incomplete.
    pub(super) fn mark_untrusted(&mut self, ks: &mut K) -> Result<()> {
        ks.hash_set(&self.meta, UNTRUSTED, b"1")?;
        self.untrusted = true;
        Ok(())
    }

    /// Marks the lists of holders as complete after the whole index was checked and repaired. Does
    /// nothing during a purge by another program.
    pub(crate) fn mark_trusted(&mut self, ks: &mut K, crawls: &Crawls<K>) -> Result<()> {
        if self.untrusted && !crawls.are_purged(ks) {
            ks.hash_del(&self.meta, UNTRUSTED)?;
            self.untrusted = false;
        }
        Ok(())
    }

    /// Returns true if all committed crawls have a commit number.
    pub fn all_adopted(&self) -> bool {
        self.adopted
    }

    /// Records that all committed crawls have a commit number.
    pub fn set_all_adopted(&mut self) {
        self.adopted = true;
    }

    /// Caches the unrecorded crawls that a walk over all crawls found.
    pub fn set_unrecorded(&mut self, mut unrecorded: Unrecorded) {
        unrecorded.sort();
        unrecorded.dedup();
        self.unrecorded = Some(Rc::new(unrecorded));
    }

    /// Returns the number of hashes to process between two checks of the time. The number is lower
    /// than `usual` if unrecorded crawls exist, because each hash then takes a lookup in every such
    /// crawl.
    pub fn batch(&self, usual: usize) -> usize {
        let looked = [&self.unrecorded, &self.in_order];
        let looked = looked.into_iter().flatten().map(|list| list.len()).max();
        (usual * 16 / (looked.unwrap_or(0) + 16)).max(1)
    }

    /// Returns the further holders of a hash, as commit numbers.
    pub(crate) fn holders(
        &mut self,
        ks: &mut K,
        places: &Places<K>,
        digest: &Digest,
    ) -> Result<Numbers> {
        if self.has_lists.is_none() {
            self.has_lists = Some(places.further_holders().len(ks)? > 0);
        }
        if self.has_lists == Some(false) {
            return Ok(Numbers::new());
        }
        Ok(places
            .further_holders()
            .get(ks, digest.canonical())?
            .map(|value| parse_numbers(value.as_ref()))
            .unwrap_or_default())
    }

    /// Stores the further holders of a hash.
    pub(crate) fn set_holders(
        &mut self,
        ks: &mut K,
        places: &Places<K>,
        digest: &Digest,
        numbers: &[u64],
    ) -> Result<()> {
        let field = digest.canonical();
        if numbers.is_empty() {
            return places.further_holders().del(ks, field).map(drop);
        }
        self.has_lists = Some(true);
        let numbers = write_numbers(numbers);
        places.further_holders().set(ks, field, &numbers)
    }

    /// Returns the crawl to which a commit number belongs.
    pub(crate) fn crawl_of(&self, ks: &mut K, number: u64) -> Result<Option<Vec<u8>>> {
        Ok(ks
            .hash_get(&self.commits, number.to_string().as_bytes())?
            .map(|crawl| crawl.as_ref().to_vec()))
    }
}

impl<K: Store> Index<K> {
    /// Marks a committed crawl as unrecorded after plain clients added to it.
    pub(crate) fn mark_unrecorded(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.crawls.baseline(ks, crawl).mark_unrecorded(ks)? {
            self.ledger.forget_unrecorded();
        }
        Ok(())
    }

    /// Returns the first commit number of a crawl if lists of holders may lack the crawl for some of its
    /// hashes. This is the case if plain clients committed the crawl, or added to it since its last commit.
    pub(crate) fn first_unrecorded(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<u64>> {
        if let Some(number) = self.crawls.baseline(ks, crawl).unrecorded_number(ks)? {
            return Ok(Some(number));
        }
        if self.crawls.is_uncommitted(ks, crawl)? || !self.has_more_fields(ks, crawl)? {
            return Ok(None);
        }
        Ok(self
            .crawls
            .baseline(ks, crawl)
            .numbers(ks)?
            .first()
            .copied())
    }

    /// Returns the unrecorded crawls, in commit order as far as known.
    pub(crate) fn unrecorded(&mut self, ks: &mut K) -> Result<Rc<Unrecorded>> {
        if let Some(known) = &self.ledger.unrecorded {
            return Ok(Rc::clone(known));
        }
        let mut unrecorded = Vec::new();
        for crawl in self.crawls.committed(ks)? {
            if let Some(number) = self.first_unrecorded(ks, &crawl)? {
                unrecorded.push((number, crawl));
            }
        }
        self.ledger.set_unrecorded(unrecorded);
        Ok(self.ledger.unrecorded.clone().unwrap_or_default())
    }

    /// Returns all committed crawls, in commit order as far as known.
    fn committed_in_order(&mut self, ks: &mut K) -> Result<Rc<Unrecorded>> {
        if let Some(known) = &self.ledger.in_order {
            return Ok(Rc::clone(known));
        }
        let mut in_order = Unrecorded::new();
        for crawl in self.crawls.committed(ks)? {
            let first = self
                .crawls
                .baseline(ks, &crawl)
                .numbers(ks)?
                .first()
                .copied();
            in_order.push((first.unwrap_or(u64::MAX), crawl));
        }
        in_order.sort();
        let in_order = Rc::new(in_order);
        self.ledger.in_order = Some(Rc::clone(&in_order));
        Ok(in_order)
    }

    /// Returns the key of a crawl's records in the common case: the crawl is known to be committed and not continued,
    /// and no commit or removal is running.
    pub(crate) fn records_if_quiet(&self, crawl: &[u8]) -> Option<&K::Name> {
        let is_quiet = self.under_way.is_nothing();
        self.crawls.records_of_finished(crawl).filter(|_| is_quiet)
    }

    /// Returns a crawl's record of a hash if it is part of the merged index.
    pub(crate) fn committed_record(
        &mut self,
        ks: &mut K,
        crawl: &[u8],
        digest: &Digest,
    ) -> Result<Option<Stored<K::Value>>> {
        if self.records_if_quiet(crawl).is_some() {
            let value = self.record_of(ks, crawl, digest)?;
            return Ok(value.filter(|value| Record::parse(value.as_ref()).is_some()));
        }
        if !self.crawls.is_committed(ks, crawl)? || self.under_way.is_leaving(ks, crawl)? {
            return Ok(None);
        }
        // While a continued crawl is being committed again, its new hashes are not visible.
        let committing = self.under_way.is_committing(ks, crawl)?;
        if (self.crawls.is_uncommitted(ks, crawl)? || committing)
            && self.crawls.is_listed(ks, crawl, digest)?
        {
            return Ok(None);
        }
        let value = self.record_of(ks, crawl, digest)?;
        Ok(value.filter(|value| Record::parse(value.as_ref()).is_some()))
    }

    /// Returns the first committed crawl, in commit order, that has the hash and is not its
    /// `owner`, together with the record of that crawl. Skips crawls for which `excluded` returns
    /// true.
    pub(crate) fn next_holder(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        owner: &[u8],
        excluded: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Under<K::Value>>> {
        let numbers = self.ledger.holders(ks, &self.places, digest)?;
        // A commit by a plain client may have made the committed crawl the owner of a hash that
        // another crawl owned.
        let plain = !self.ledger.is_trusted()
            || (self.crawls.is_committed(ks, owner)?
                && self
                    .crawls
                    .baseline(ks, owner)
                    .unrecorded_number(ks)?
                    .is_some())
            || self.is_owner_listed(ks, owner, &numbers)?;
        let unrecorded = if plain {
            self.committed_in_order(ks)?
        } else {
            self.unrecorded(ks)?
        };
        if unrecorded.is_empty() {
            // The common case. The hash may have thousands of holders.
            for number in numbers {
                let Some(crawl) = self.ledger.crawl_of(ks, number)? else {
                    continue;
                };
                if !excluded(&crawl)
                    && let Some(record) = self.committed_record(ks, &crawl, digest)?
                {
                    return Ok(Some((crawl, record)));
                }
            }
            return Ok(None);
        }
        let mut candidates: Vec<(u64, Vec<u8>)> = Vec::new();
        for number in numbers {
            if let Some(crawl) = self.ledger.crawl_of(ks, number)? {
                candidates.push((number, crawl));
            }
        }
        candidates.sort();
        // Both lists are sorted: merge them.
        let (mut recorded, mut looked) =
            (candidates.iter().peekable(), unrecorded.iter().peekable());
        loop {
            let (_, crawl) = match (recorded.peek(), looked.peek()) {
                (Some(r), Some(l)) if r.0 <= l.0 => recorded.next().expect("peeked"),
                (_, Some(_)) => {
                    let next = looked.next().expect("peeked");
                    // If the module has committed such a crawl again, the list of holders contains
                    // that later commit.
                    if candidates.iter().any(|(_, c)| *c == next.1) {
                        continue;
                    }
                    // Hashes that plain clients added to a continued crawl are uncommitted, and
                    // cannot be distinguished from committed ones.
                    let unclear = plain
                        && self.crawls.is_uncommitted(ks, &next.1)?
                        && self.has_unclear_fields(ks, &next.1)?;
                    if unclear {
                        continue;
                    }
                    next
                }
                (Some(_), None) => recorded.next().expect("peeked"),
                (None, None) => return Ok(None),
            };
            if excluded(crawl) {
                continue;
            }
            if let Some(record) = self.committed_record(ks, crawl, digest)? {
                return Ok(Some((crawl.clone(), record)));
            }
        }
    }
}
