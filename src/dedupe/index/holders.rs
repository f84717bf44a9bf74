//! Who holds a hash, in the order of commits.
//!
//! The merged index names the owner. Every commit has a number, `commits` says whose it is, and
//! `holders` keeps for a hash the numbers of the commits that met it after its owner's. Crawls that
//! plain clients committed get a number when they are first seen, but nobody wrote down what they
//! hold: it is found by looking.

use std::rc::Rc;

use super::Index;
use super::beside::UNTRUSTED;
use super::numbers::{Numbers, parse_numbers, write_numbers};
use crate::dedupe::counts;
use crate::dedupe::digest::Digest;
use crate::dedupe::error::Result;
use crate::dedupe::keys::CrawlKey;
use crate::dedupe::record::Record;
use crate::dedupe::store::{Store, Stored, Under};

/// The field of `h:<crawl>:baseline` that says that nobody wrote down all that the crawl holds.
pub(crate) const FOUND: &[u8] = b"found";

/// Crawls whose holdings nobody wrote down, each after the number of its commit, in their order.
pub type Unrecorded = Vec<(u64, Vec<u8>)>;

/// What is cached of who holds what.
#[derive(Default)]
pub(super) struct Ledger {
    /// Whether any hash has a list of further holders.
    has_lists: Option<bool>,
    /// Committed crawls whose holdings nobody wrote down.
    unrecorded: Option<Rc<Unrecorded>>,
    /// All committed crawls.
    everybody: Option<Rc<Unrecorded>>,
    /// Whether all committed crawls have their place in the order of commits.
    adopted: bool,
    /// Whether lists of holders may lack somebody; see [`super::beside`].
    untrusted: bool,
}

impl Ledger {
    /// Reads what must not be found out again.
    pub fn read<K: Store>(ks: &mut K, meta: &K::Name) -> Result<Ledger> {
        Ok(Ledger {
            untrusted: ks.hash_has(meta, UNTRUSTED)?,
            ..Ledger::default()
        })
    }

    /// Notes that a crawl is among the committed ones from now on, or no more.
    pub fn note_committed(&mut self, crawl: &[u8], is: bool) {
        if is {
            self.everybody = None;
            return;
        }
        let lists = [&mut self.everybody, &mut self.unrecorded];
        for list in lists.into_iter().flatten() {
            Rc::make_mut(list).retain(|(_, other)| other != crawl);
        }
    }

    /// Drops what is cached of crawls whose holdings nobody wrote down: plain clients have added to one of them, or one
    /// has come back.
    pub fn forget_unrecorded(&mut self) {
        self.unrecorded = None;
    }

    /// Notes that a crawl whose holdings nobody wrote down has got a number.
    fn note_adopted(&mut self, crawl: &[u8], number: u64) {
        self.everybody = None;
        if let Some(unrecorded) = &mut self.unrecorded {
            let unrecorded = Rc::make_mut(unrecorded);
            unrecorded.retain(|(_, other)| other != crawl);
            unrecorded.push((number, crawl.to_vec()));
            unrecorded.sort();
        }
    }

    /// Notes that lists of holders are kept elsewhere from now on.
    pub fn note_moved(&mut self) {
        self.has_lists = None;
    }

    /// Whether lists of holders name every committed crawl that has the hash.
    pub fn is_trusted(&self) -> bool {
        !self.untrusted
    }

    /// Notes whether they do.
    pub fn set_trusted(&mut self, is: bool) {
        self.untrusted = !is;
    }
}

impl<K: Store> Index<K> {
    /// A committed crawl that plain clients committed gets a baseline: its counts as they are.
    pub(crate) fn ensure_base(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        if ks.hash_has(&baseline, b"commits")? {
            return Ok(());
        }
        let number = self.next_number(ks)?;
        self.adopt(ks, crawl, number)
    }

    /// Gives a crawl that plain clients committed a place in the order of commits.
    pub(crate) fn adopt(&mut self, ks: &mut K, crawl: &[u8], number: u64) -> Result<()> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        let counts_key = self.crawls.key(ks, crawl, CrawlKey::Counts);
        let waczs = self.crawls.key(ks, crawl, CrawlKey::Waczs);
        let continued = self.crawls.is_uncommitted(ks, crawl)?;
        for (name, n) in counts::all(ks, &counts_key, b"")? {
            let n = if continued {
                match self.committed_share(ks, crawl, &name)? {
                    0 => continue,
                    share => share,
                }
            } else {
                n
            };
            ks.hash_set(
                &baseline,
                &[b"baseline.", &name[..]].concat(),
                n.to_string().as_bytes(),
            )?;
        }
        let hashes = self.records_len(ks, crawl)?;
        let wacz_files = ks.list_len(&waczs)?;
        if !continued {
            // Of a continued crawl nobody knows which of its hashes came before the commit.
            ks.hash_set(&baseline, b"hashes", hashes.to_string().as_bytes())?;
        }
        ks.hash_set(&baseline, b"wacz", wacz_files.to_string().as_bytes())?;
        ks.hash_set(&baseline, FOUND, b"1")?;
        let text = number.to_string();
        ks.hash_set(&baseline, b"commits", text.as_bytes())?;
        ks.hash_set(&self.names.commits, text.as_bytes(), crawl)?;
        self.ledger.note_adopted(crawl, number);
        Ok(())
    }

    /// Notes that nobody wrote down all that a committed crawl holds: plain clients added to it.
    pub(crate) fn mark_unrecorded(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        if !ks.hash_has(&baseline, FOUND)? {
            ks.hash_set(&baseline, FOUND, b"1")?;
            self.ledger.forget_unrecorded();
        }
        Ok(())
    }

    /// What of `allcounts` is this crawl's, when plain clients both committed it and went on with
    /// it: what the other crawls do not account for.
    pub(crate) fn committed_share(&mut self, ks: &mut K, crawl: &[u8], name: &[u8]) -> Result<i64> {
        let mut share = counts::read(ks, &self.names.allcounts, name)?;
        for other in self.crawls.committed(ks)? {
            if other != crawl {
                share = share.saturating_sub(self.committed_count(ks, &other, name)?);
            }
        }
        Ok(share.max(0))
    }

    /// What a committed crawl adds to a field of `allcounts`.
    pub(crate) fn committed_count(&mut self, ks: &mut K, crawl: &[u8], name: &[u8]) -> Result<i64> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        // Of a crawl that is not gone on with, all of its counts are committed, whoever did that.
        if self.crawls.is_uncommitted(ks, crawl)? && ks.hash_has(&baseline, b"commits")? {
            return counts::read(ks, &baseline, &[b"baseline.", name].concat());
        }
        let counts_key = self.crawls.key(ks, crawl, CrawlKey::Counts);
        counts::read(ks, &counts_key, name)
    }

    /// Whether all committed crawls have their place in the order of commits.
    pub fn all_adopted(&self) -> bool {
        self.ledger.adopted
    }

    /// Says that they have.
    pub fn set_all_adopted(&mut self) {
        self.ledger.adopted = true;
    }

    /// Takes note of the crawls whose holdings nobody wrote down, found by going through all.
    pub fn set_unrecorded(&mut self, mut unrecorded: Unrecorded) {
        unrecorded.sort();
        unrecorded.dedup();
        self.ledger.unrecorded = Some(Rc::new(unrecorded));
    }

    /// How many hashes may be worked on between two looks at the clock: each costs a look into every
    /// crawl whose holdings nobody wrote down.
    pub fn batch(&self, usual: usize) -> usize {
        let looked = [&self.ledger.unrecorded, &self.ledger.everybody];
        let looked = looked.into_iter().flatten().map(|list| list.len()).max();
        (usual * 16 / (looked.unwrap_or(0) + 16)).max(1)
    }

    /// Has the next commit of a committed crawl look at all of it.
    pub(crate) fn recommit_all(&mut self, ks: &mut K, crawl: &[u8]) -> Result<()> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        ks.hash_set(&baseline, b"hashes", b"0")?;
        Ok(())
    }

    /// Returns the first number of a crawl's commits if it may hold hashes that nobody wrote down: plain clients
    /// committed it, or added to it since its last commit.
    pub(crate) fn looked_for(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<u64>> {
        if let Some(number) = self.unrecorded_number(ks, crawl)? {
            return Ok(Some(number));
        }
        if self.crawls.is_uncommitted(ks, crawl)? || !self.has_more_fields(ks, crawl)? {
            return Ok(None);
        }
        Ok(self.numbers_of(ks, crawl)?.first().copied())
    }

    /// Whether a crawl is one of those, with the first number of its commits.
    pub(crate) fn unrecorded_number(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Option<u64>> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        let number = ks
            .hash_get(&baseline, b"commits")?
            .and_then(|n| parse_numbers(n.as_ref()).first().copied());
        Ok(match number {
            None => Some(u64::MAX),
            Some(number) => ks.hash_has(&baseline, FOUND)?.then_some(number),
        })
    }

    /// Numbers of the commits of a crawl.
    pub(crate) fn numbers_of(&mut self, ks: &mut K, crawl: &[u8]) -> Result<Numbers> {
        let baseline = self.crawls.key(ks, crawl, CrawlKey::Baseline);
        Ok(ks
            .hash_get(&baseline, b"commits")?
            .map(|value| parse_numbers(value.as_ref()))
            .unwrap_or_default())
    }

    /// Further holders of a hash: numbers of commits.
    pub(crate) fn holders(&mut self, ks: &mut K, digest: &Digest) -> Result<Numbers> {
        if self.ledger.has_lists.is_none() {
            self.ledger.has_lists = Some(self.places.further_holders().len(ks)? > 0);
        }
        if self.ledger.has_lists == Some(false) {
            return Ok(Numbers::new());
        }
        Ok(self
            .places
            .further_holders()
            .get(ks, digest.canonical())?
            .map(|value| parse_numbers(value.as_ref()))
            .unwrap_or_default())
    }

    /// Writes the further holders of a hash.
    pub(crate) fn set_holders(
        &mut self,
        ks: &mut K,
        digest: &Digest,
        numbers: &[u64],
    ) -> Result<()> {
        let field = digest.canonical();
        if numbers.is_empty() {
            return self.places.further_holders().del(ks, field).map(drop);
        }
        self.ledger.has_lists = Some(true);
        let numbers = write_numbers(numbers);
        self.places.further_holders().set(ks, field, &numbers)
    }

    /// The crawl of a commit number.
    pub(crate) fn crawl_of(&mut self, ks: &mut K, number: u64) -> Result<Option<Vec<u8>>> {
        Ok(ks
            .hash_get(&self.names.commits, number.to_string().as_bytes())?
            .map(|crawl| crawl.as_ref().to_vec()))
    }

    /// Committed crawls whose holdings nobody wrote down, because plain clients committed them,
    /// in commit order as far as it is known.
    pub(crate) fn unrecorded(&mut self, ks: &mut K) -> Result<Rc<Unrecorded>> {
        if let Some(known) = &self.ledger.unrecorded {
            return Ok(Rc::clone(known));
        }
        let mut unrecorded = Vec::new();
        for crawl in self.crawls.committed(ks)? {
            if let Some(number) = self.looked_for(ks, &crawl)? {
                unrecorded.push((number, crawl));
            }
        }
        self.set_unrecorded(unrecorded);
        Ok(self.ledger.unrecorded.clone().unwrap_or_default())
    }

    /// All committed crawls, in commit order as far as it is known.
    fn everybody(&mut self, ks: &mut K) -> Result<Rc<Unrecorded>> {
        if let Some(known) = &self.ledger.everybody {
            return Ok(Rc::clone(known));
        }
        let mut everybody = Unrecorded::new();
        for crawl in self.crawls.committed(ks)? {
            let first = self.numbers_of(ks, &crawl)?.first().copied();
            everybody.push((first.unwrap_or(u64::MAX), crawl));
        }
        everybody.sort();
        let everybody = Rc::new(everybody);
        self.ledger.everybody = Some(Rc::clone(&everybody));
        Ok(everybody)
    }

    /// Name of the key of the records of a usual crawl: committed, not gone on with, and known to be so while no
    /// commit and no removal is under way.
    pub(crate) fn usual(&self, crawl: &[u8]) -> Option<&K::Name> {
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
        if self.usual(crawl).is_some() {
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
        let numbers = self.holders(ks, digest)?;
        // A plain client's commit may have taken a hash from any crawl that owned it.
        let plain = !self.ledger.is_trusted()
            || (self.crawls.is_committed(ks, owner)?
                && self.unrecorded_number(ks, owner)?.is_some())
            || self.is_owner_listed(ks, owner, &numbers)?;
        let unrecorded = if plain {
            self.everybody(ks)?
        } else {
            self.unrecorded(ks)?
        };
        if unrecorded.is_empty() {
            // The usual case, in which there may be thousands of them.
            for number in numbers {
                let Some(crawl) = self.crawl_of(ks, number)? else {
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
            if let Some(crawl) = self.crawl_of(ks, number)? {
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
