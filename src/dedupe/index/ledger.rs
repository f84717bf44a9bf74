//! Who holds a hash, in the order of commits.
//!
//! The merged index names the owner. Every commit has a number, `commits` says whose it is, and
//! `holders` keeps for a hash the numbers of the commits that met it after its owner's. Crawls that
//! plain clients committed get a number when they are first seen, but nobody wrote down what they
//! hold: it is found by looking.

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

/// The field of `crawlspace` that says that lists of holders may lack somebody.
const UNTRUSTED: &[u8] = b"untrusted";

/// Crawls whose holdings nobody wrote down, each after the number of its commit, in their order.
pub type Unrecorded = Vec<(u64, Vec<u8>)>;

/// The order of commits, and the lists of further holders of hashes.
pub struct Ledger<K: Store> {
    /// Name of `commits`.
    commits: K::Name,
    /// Name of the key that says whether lists are whole.
    meta: K::Name,
    /// Whether any hash has a list of further holders.
    has_lists: Option<bool>,
    /// Committed crawls whose holdings nobody wrote down.
    unrecorded: Option<Rc<Unrecorded>>,
    /// All committed crawls.
    in_order: Option<Rc<Unrecorded>>,
    /// Whether all committed crawls have their place in the order of commits.
    adopted: bool,
    /// Whether lists of holders may lack somebody; see [`super::beside`].
    untrusted: bool,
}

impl<K: Store> Ledger<K> {
    /// Reads what must not be found out again.
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

    /// Notes that a crawl is among the committed ones from now on, or no more.
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

    /// Drops what is cached of crawls whose holdings nobody wrote down: plain clients have added to one of them, or one
    /// has come back.
    pub(crate) fn forget_unrecorded(&mut self) {
        self.unrecorded = None;
    }

    /// Gives a number to a crawl whose holdings nobody wrote down.
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

    /// Notes that lists of holders are kept elsewhere from now on.
    pub(super) fn note_moved(&mut self) {
        self.has_lists = None;
    }

    /// Returns whether any commit of ours has left its number, so that there may be lists of holders.
    pub fn has_commits(&self, ks: &mut K) -> bool {
        ks.exists(&self.commits)
    }

    /// Writes down whose commit has a number.
    pub(crate) fn record(&self, ks: &mut K, number: u64, crawl: &[u8]) -> Result<()> {
        ks.hash_set(&self.commits, number.to_string().as_bytes(), crawl)?;
        Ok(())
    }

    /// Drops the number of a commit.
    pub(crate) fn drop_number(&self, ks: &mut K, number: u64) -> Result<()> {
        ks.hash_del(&self.commits, number.to_string().as_bytes())?;
        Ok(())
    }

    /// Returns whether lists of holders name every committed crawl that has the hash.
    pub(crate) fn is_trusted(&self) -> bool {
        !self.untrusted
    }

    /// Notes that lists of holders may be incomplete from now on.
    pub(super) fn mark_untrusted(&mut self, ks: &mut K) -> Result<()> {
        ks.hash_set(&self.meta, UNTRUSTED, b"1")?;
        self.untrusted = true;
        Ok(())
    }

    /// Notes that lists of holders are complete: all of the index was checked and repaired, and nobody purges it.
    pub(crate) fn mark_trusted(&mut self, ks: &mut K, crawls: &Crawls<K>) -> Result<()> {
        if self.untrusted && !crawls.are_purged(ks) {
            ks.hash_del(&self.meta, UNTRUSTED)?;
            self.untrusted = false;
        }
        Ok(())
    }

    /// Returns whether all committed crawls have their place in the order of commits.
    pub fn all_adopted(&self) -> bool {
        self.adopted
    }

    /// Says that they have.
    pub fn set_all_adopted(&mut self) {
        self.adopted = true;
    }

    /// Takes note of the crawls whose holdings nobody wrote down, found by going through all.
    pub fn set_unrecorded(&mut self, mut unrecorded: Unrecorded) {
        unrecorded.sort();
        unrecorded.dedup();
        self.unrecorded = Some(Rc::new(unrecorded));
    }

    /// Returns how many hashes may be worked on between two looks at the clock: each costs a look into every
    /// crawl whose holdings nobody wrote down.
    pub fn batch(&self, usual: usize) -> usize {
        let looked = [&self.unrecorded, &self.in_order];
        let looked = looked.into_iter().flatten().map(|list| list.len()).max();
        (usual * 16 / (looked.unwrap_or(0) + 16)).max(1)
    }

    /// Further holders of a hash: numbers of commits.
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

    /// Writes the further holders of a hash.
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

    /// The crawl of a commit number.
    pub(crate) fn crawl_of(&self, ks: &mut K, number: u64) -> Result<Option<Vec<u8>>> {
        Ok(ks
            .hash_get(&self.commits, number.to_string().as_bytes())?
            .map(|crawl| crawl.as_ref().to_vec()))
    }
}

impl<K: Store> Index<K> {
    /// Notes that nobody wrote down all that a committed crawl holds: plain clients added to it.
    pub(crate) fn mark_unrecorded(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        if self.crawls.baseline(ks, crawl).mark_unrecorded(ks)? {
            self.ledger.forget_unrecorded();
        }
        Ok(())
    }

    /// Returns the first number of a crawl's commits if it may hold hashes that nobody wrote down: plain clients
    /// committed it, or added to it since its last commit.
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

    /// Committed crawls whose holdings nobody wrote down, because plain clients committed them,
    /// in commit order as far as it is known.
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

    /// All committed crawls, in commit order as far as it is known.
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

    /// Name of the key of the records of a usual crawl: committed, not gone on with, and known to be so while no
    /// commit and no removal is under way.
    pub(crate) fn records_if_quiet(&self, crawl: &[u8]) -> Option<&K::Name> {
        let is_quiet = self.under_way.is_nothing();
        self.crawls.records_of_finished(crawl).filter(|_| is_quiet)
    }

    /// The record of a crawl for a hash, if it is part of the merged index.
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
        // A continued crawl that is being committed again shows none of its new hashes yet.
        let committing = self.under_way.is_committing(ks, crawl)?;
        if (self.crawls.is_uncommitted(ks, crawl)? || committing)
            && self.crawls.is_listed(ks, crawl, digest)?
        {
            return Ok(None);
        }
        let value = self.record_of(ks, crawl, digest)?;
        Ok(value.filter(|value| Record::parse(value.as_ref()).is_some()))
    }

    /// The first committed crawl, in commit order, that holds the hash beside its `owner`; crawls
    /// that `excluded` names do not count. Gives the crawl and its record.
    pub(crate) fn next_holder(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        owner: &[u8],
        excluded: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Under<K::Value>>> {
        let numbers = self.ledger.holders(ks, &self.places, digest)?;
        // A plain client's commit may have taken a hash from any crawl that owned it.
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
            // The usual case, in which there may be thousands of them.
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
        // Both are in order, and are gone through together.
        let (mut recorded, mut looked) =
            (candidates.iter().peekable(), unrecorded.iter().peekable());
        loop {
            let (_, crawl) = match (recorded.peek(), looked.peek()) {
                (Some(r), Some(l)) if r.0 <= l.0 => recorded.next().expect("peeked"),
                (_, Some(_)) => {
                    let next = looked.next().expect("peeked");
                    // What such a crawl got by a later commit of ours is written down like any other.
                    if candidates.iter().any(|(_, c)| *c == next.1) {
                        continue;
                    }
                    // Of a crawl that goes on, what plain clients add is not committed, and nothing
                    // tells it from what is.
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
