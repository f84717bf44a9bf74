//! `CHECK` proves an index consistent; `REPAIR` makes it so.

use std::collections::{BTreeMap, BTreeSet};

use crawlspace_host::keyspace::Batch;
use crawlspace_host::reply::Reply;
use crawlspace_host::text::{parse_signed, parse_unsigned};

use super::counts;
use super::digest::Digest;
use super::error::Result;
use super::holders::{Numbers, parse_numbers, write_numbers};
use super::index::{CrawlState, Index};
use super::job::{Adoption, Job, Step, Time, Walk};
use super::keys::CrawlKey;
use super::record::Record;
use super::storage::{Of, Storage};
use super::store::Store;
use super::wacz::WaczEntry;

#[derive(Default)]
struct Findings {
    crawls: u64,
    hashes: u64,
    dangling_owners: u64,
    missing_hashes: u64,
    hidden_owners: u64,
    bad_records: u64,
    count_drift: u64,
    leaked_keys: u64,
    unlisted_crawls: u64,
    to_remove_crawls: u64,
    stale_holders: u64,
    interrupted: u64,
    placeholders: u64,
    repaired: u64,
}

enum Phase<K: Store> {
    Adopt(Adoption<K>),
    Uncommitted(Walk<K>),
    Canceled(Walk<K>),
    Crawls(Walk<K>),
    Records(Walk<K>),
    Merged(Walk<K>),
    Holders(Walk<K>),
    /// Packed records of crawls that the index does not have, the next crawl last.
    Packed(Vec<Vec<u8>>),
    Stray(Vec<Vec<u8>>, Vec<u8>, Walk<K>),
    Keys(K::Cursor),
    Report,
}

/// A look at every key of an index.
pub struct Check<K: Store> {
    repair: bool,
    phase: Phase<K>,
    /// Committed crawls still to be looked at, the next one last.
    crawls: Vec<Vec<u8>>,
    current: Vec<u8>,
    numbers: Numbers,
    sums: BTreeMap<Vec<u8>, i64>,
    /// What crawls that another program canceled may add to them.
    canceled: BTreeMap<Vec<u8>, i64>,
    sums_unknown: bool,
    /// Crawls with keys that nobody can restore, and in no set.
    unlisted: BTreeSet<Vec<u8>>,
    /// Whether every hash of the merged index is in the written form; look-ups are faster then.
    all_written: bool,
    /// Which look at the merged index this is.
    census: (u64, u64),
    /// Storage of the index at the last step, and whether it is moving there.
    places: Option<(Storage, bool)>,
    findings: Findings,
}

impl<K: Store> Check<K> {
    /// Not yet begun. With `repair` what is found is set right.
    pub fn new(index: &Index<K>, ks: &mut K, repair: bool) -> Check<K> {
        Check {
            repair,
            phase: if repair {
                Phase::Adopt(Adoption::default())
            } else {
                Phase::Uncommitted(Walk::set(ks, index.names.uncommitted.clone()))
            },
            crawls: Vec::new(),
            current: Vec::new(),
            numbers: Numbers::new(),
            sums: BTreeMap::new(),
            canceled: BTreeMap::new(),
            sums_unknown: false,
            unlisted: BTreeSet::new(),
            all_written: true,
            census: (0, 0),
            places: None,
            findings: Findings::default(),
        }
    }

    /// The next committed crawl, or what comes after all of them.
    fn next_crawl(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<Phase<K>> {
        let Some(crawl) = self.crawls.pop() else {
            self.check_sums(index, ks)?;
            self.findings.hashes = index.merged_len(ks)?;
            return Ok(Phase::Holders(Walk::stored(index, ks, Of::Holders)));
        };
        self.findings.crawls += 1;
        if !index.is_uncommitted(ks, &crawl)? {
            check_counts(index, ks, &crawl, &mut self.findings, self.repair)?;
        }
        let baseline = index.crawl_key(ks, &crawl, CrawlKey::Baseline);
        let counts_key = index.crawl_key(ks, &crawl, CrawlKey::Counts);
        let adopted = ks.hash_has(&baseline, b"commits")?;
        let committed = if adopted && index.is_uncommitted(ks, &crawl)? {
            counts::all(ks, &baseline, b"baseline.")?
        } else {
            counts::all(ks, &counts_key, b"")?
        };
        // Plain clients both committed it and went on with it: what part of its counts is
        // committed, nothing says.
        self.sums_unknown |= !adopted && index.is_uncommitted(ks, &crawl)?;
        for (name, n) in committed {
            *self.sums.entry(name).or_default() += n;
        }
        let waczs = index.crawl_key(ks, &crawl, CrawlKey::Waczs);
        for i in 0..ks.list_len(&waczs)? {
            let closed = ks
                .list_get(&waczs, i)?
                .and_then(|json| WaczEntry::parse(json.as_ref()))
                .is_some_and(|entry| entry.is_closed());
            self.findings.placeholders += u64::from(!closed);
        }
        self.check_numbers(index, ks, &crawl)?;
        self.check_packed_value(index, ks, &crawl, &baseline)?;
        let walk = Walk::stored(index, ks, Of::Records(crawl.clone()));
        self.current = crawl;
        Ok(Phase::Records(walk))
    }

    /// With the value of a packed index the records of crawls go as well as their hashes, and nothing that
    /// is left would miss them but the numbers of records that the last commits saw.
    fn check_packed_value(
        &mut self,
        index: &mut Index<K>,
        ks: &mut K,
        crawl: &[u8],
        baseline: &K::Name,
    ) -> Result<()> {
        if index.packed_key().is_none() || index.is_uncommitted(ks, crawl)? {
            return Ok(());
        }
        let seen = ks.hash_get(baseline, b"hashes")?;
        let seen = seen.and_then(|n| parse_unsigned(n.as_ref())).unwrap_or(0);
        if seen > 0 && index.records_len(ks, crawl)? == 0 {
            self.findings.missing_hashes += seen;
            if self.repair {
                // They cannot be brought back.
                ks.hash_set(baseline, b"hashes", b"0")?;
                self.findings.repaired += 1;
            }
        }
        Ok(())
    }

    /// The numbers of a crawl's commits must lead back to it.
    fn check_numbers(&mut self, index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<()> {
        self.numbers = index.numbers_of(ks, crawl)?;
        let mut kept = Numbers::new();
        for &number in &self.numbers {
            let known = index.crawl_of(ks, number)?;
            if known.as_deref() == Some(crawl) {
                kept.push(number);
                continue;
            }
            self.findings.stale_holders += 1;
            if self.repair && known.is_none() && number <= index.last_number(ks)? {
                kept.push(number);
                ks.hash_set(&index.names.commits, number.to_string().as_bytes(), crawl)?;
            }
        }
        if self.repair && kept != self.numbers {
            let baseline = index.crawl_key(ks, crawl, CrawlKey::Baseline);
            if kept.is_empty() {
                // All are another crawl's: this one goes to the end of the order.
                kept.push(index.next_number(ks)?);
                let number = kept[0].to_string();
                ks.hash_set(&index.names.commits, number.as_bytes(), crawl)?;
            }
            ks.hash_set(&baseline, b"commits", &write_numbers(&kept))?;
            self.findings.repaired += 1;
        }
        if self.repair {
            self.numbers = kept;
        }
        Ok(())
    }

    /// Sums in `allcounts` that are not the sums of the crawls' counts.
    fn check_sums(&mut self, index: &mut Index<K>, ks: &mut K) -> Result<()> {
        if self.sums_unknown || index.is_purged(ks) {
            return Ok(()); // their purge adds crawl by crawl
        }
        let of_no_crawl = counts::OF_NO_CRAWL;
        for name in counts::SHOWN {
            self.sums.entry(name.to_vec()).or_default();
        }
        for (name, n) in counts::all(ks, &index.names.allcounts, b"")? {
            if !of_no_crawl.contains(&&name[..]) {
                let sum = self.sums.entry(name.clone()).or_default();
                if n == 0 && *sum == 0 && !counts::SHOWN.contains(&&name[..]) {
                    self.sums.remove(&name);
                }
            }
        }
        for (name, &sum) in &self.sums {
            let is = ks
                .hash_get(&index.names.allcounts, name)?
                .map_or(Some(0), |value| parse_signed(value.as_ref()));
            let canceled = self.canceled.get(name).copied().unwrap_or(0);
            if is != Some(sum) && is != Some(sum.saturating_add(canceled)) {
                self.findings.count_drift += 1;
                if self.repair {
                    counts::set(ks, &index.names.allcounts, name, sum)?;
                    self.findings.repaired += 1;
                }
            }
        }
        Ok(())
    }

    fn report(&self) -> Reply {
        let f = &self.findings;
        let faults = f.dangling_owners
            + f.missing_hashes
            + f.hidden_owners
            + f.bad_records
            + f.count_drift
            + f.leaked_keys
            + f.to_remove_crawls
            + f.stale_holders
            + f.interrupted;
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
        if self.repair {
            entries.push(("repaired", f.repaired));
        }
        Reply::named(entries.into_iter().map(|(name, n)| (name, Reply::count(n))))
    }
}

impl<K: Store> Job<K> for Check<K> {
    fn step(&mut self, index: &mut Index<K>, ks: &mut K, time: Time<'_>) -> Result<Step> {
        let repair = self.repair;
        let places = Some((index.storage(), index.is_moving()));
        if self.places != places && (!repair || self.places.is_none()) {
            // What was to be gone through next may be elsewhere now. (Nobody moves it while it is repaired.)
            *self = Check::new(index, ks, repair);
            self.places = places;
        }
        loop {
            let findings = &mut self.findings;
            match &mut self.phase {
                Phase::Adopt(adoption) => {
                    if !adoption.step(index, ks, time)? {
                        return Ok(Step::More);
                    }
                    let uncommitted = index.names.uncommitted.clone();
                    self.phase = Phase::Uncommitted(Walk::set(ks, uncommitted));
                }
                Phase::Uncommitted(walk) => {
                    let done = walk.run(index, ks, time, |index, ks, crawl, _| {
                        check_counts(index, ks, crawl, findings, repair)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = Phase::Canceled(Walk::set(ks, index.names.canceled.clone()));
                }
                Phase::Canceled(walk) => {
                    let sums = &mut self.canceled;
                    let done = walk.run(index, ks, time, |index, ks, crawl, _| {
                        if index.state(ks, crawl)?.is_none() {
                            let counts_key = index.crawl_key(ks, crawl, CrawlKey::Counts);
                            for (name, n) in counts::all(ks, &counts_key, b"")? {
                                *sums.entry(name).or_default() += n;
                            }
                        }
                        Ok(())
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = Phase::Crawls(Walk::set(ks, index.names.allcrawls.clone()));
                }
                Phase::Crawls(walk) => {
                    let crawls = &mut self.crawls;
                    let done = walk.run(index, ks, time, |_, _, crawl, _| {
                        crawls.push(crawl.to_vec());
                        Ok(())
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.crawls.sort();
                    self.crawls.dedup();
                    self.crawls.reverse();
                    self.census = index.begin_census();
                    self.phase = Phase::Merged(Walk::stored(index, ks, Of::Merged));
                }
                Phase::Records(walk) => {
                    let (crawl, numbers) = (&self.current, &self.numbers);
                    let done = walk.run(index, ks, time, |index, ks, field, value| {
                        check_record(index, ks, crawl, numbers, (field, value), findings, repair)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = self.next_crawl(index, ks)?;
                    if !time() {
                        return Ok(Step::More);
                    }
                }
                Phase::Merged(walk) => {
                    let all_written = &mut self.all_written;
                    let done = walk.run(index, ks, time, |index, ks, field, owner| {
                        *all_written &= Digest::of_field(field).written(index.profile()) == field;
                        check_owner(index, ks, field, owner, findings, repair)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    // Known before the crawls' hashes are looked for in it.
                    if self.all_written {
                        index.end_census(self.census);
                    } else {
                        index.invalidate_merged(ks)?;
                    }
                    self.phase = self.next_crawl(index, ks)?;
                }
                Phase::Holders(walk) => {
                    let done = walk.run(index, ks, time, |index, ks, hash, value| {
                        check_holders(index, ks, hash, value, findings, repair)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    let committing = counts::fields(ks, &index.names.committing)?;
                    let removing = counts::fields(ks, &index.names.removing)?;
                    let marks = committing.iter().chain(removing.iter());
                    let crawls: BTreeSet<&[u8]> =
                        marks.map(|(c, _)| c).filter(|c| !c.is_empty()).collect();
                    self.findings.interrupted = crawls.len() as u64 + u64::from(index.is_moving());
                    self.phase = Phase::Packed(index.packed_crawls(ks)?);
                }
                Phase::Packed(crawls) => {
                    let Some(crawl) = crawls.pop() else {
                        self.phase = Phase::Keys(ks.cursor());
                        continue;
                    };
                    match packed_standing(index, ks, &crawl)? {
                        Packed::Known => continue,
                        Packed::Unlisted => {
                            self.unlisted.insert(crawl);
                            continue;
                        }
                        Packed::Stray => {}
                    }
                    findings.leaked_keys += 1;
                    if repair {
                        findings.repaired += 1;
                        let walk = Walk::stored(index, ks, Of::Packed(crawl.clone()));
                        self.phase = Phase::Stray(std::mem::take(crawls), crawl, walk);
                    } else if !time() {
                        return Ok(Step::More);
                    }
                }
                Phase::Stray(crawls, crawl, walk) => {
                    let done = walk.run(index, ks, time, |index, ks, field, _| {
                        index.unpack_record(ks, crawl, field)
                    })?;
                    if !done {
                        return Ok(Step::More);
                    }
                    self.phase = Phase::Packed(std::mem::take(crawls));
                }
                Phase::Keys(cursor) => {
                    let mut batch = Batch::default();
                    let more = ks.keys_scan(&index.prefix, cursor, &mut batch);
                    for (key, _) in batch.iter() {
                        let Some((crawl, which)) = index.stray(ks, key)? else {
                            continue;
                        };
                        if !which.is_ours() {
                            self.unlisted.insert(crawl);
                        } else if !index.has_documents(ks, &crawl)? {
                            // Nothing is left that it tells of.
                            findings.leaked_keys += 1;
                            if repair {
                                index.drop_leftovers(ks, &crawl, &[which])?;
                                findings.repaired += 1;
                            }
                        }
                    }
                    if !more {
                        self.phase = Phase::Report;
                    } else if !time() {
                        return Ok(Step::More);
                    }
                }
                Phase::Report => {
                    self.findings.unlisted_crawls = self.unlisted.len() as u64;
                    self.findings.to_remove_crawls = ks.set_len(&index.names.outgoing)?;
                    if repair {
                        index.mark_holders_trusted(ks)?;
                    }
                    return Ok(Step::Done(self.report()));
                }
            }
        }
    }
}

/// What a crawl with packed records is.
enum Packed {
    /// Committed, or a job of it was cut short, or another program's purge has set it aside.
    Known,
    /// In no set.
    Unlisted,
    /// Uncommitted: its records are in its plain hash, and these are copies that a commit left.
    Stray,
}

fn packed_standing<K: Store>(index: &mut Index<K>, ks: &mut K, crawl: &[u8]) -> Result<Packed> {
    if index.is_committing(ks, crawl)? || index.is_removing(ks, crawl)? {
        return Ok(Packed::Known);
    }
    Ok(match index.standing(ks, crawl)? {
        Some(CrawlState::Uncommitted) => Packed::Stray,
        Some(CrawlState::Unlisted) => Packed::Unlisted,
        _ => Packed::Known,
    })
}

/// A crawl's counts must be integers.
fn check_counts<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    findings: &mut Findings,
    repair: bool,
) -> Result<()> {
    let key = index.crawl_key(ks, crawl, CrawlKey::Counts);
    for name in counts::SHOWN {
        let value = ks.hash_get(&key, name)?;
        if value.is_some_and(|value| parse_signed(value.as_ref()).is_none()) {
            findings.count_drift += 1;
            if repair {
                ks.hash_del(&key, name)?;
                findings.repaired += 1;
            }
        }
    }
    Ok(())
}

/// A committed crawl's hash must be in the merged index, as its owner or as a holder.
fn check_record<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    crawl: &[u8],
    numbers: &[u64],
    (field, value): (&[u8], &[u8]),
    findings: &mut Findings,
    repair: bool,
) -> Result<()> {
    if index.is_removing(ks, crawl)? {
        return Ok(()); // its hashes go one by one
    }
    if Record::parse(value).is_none() {
        findings.bad_records += 1;
        return Ok(());
    }
    let digest = Digest::of_field(field);
    // A plain client's commit leaves these lists behind.
    if index.is_uncommitted(ks, crawl)? || index.is_committing(ks, crawl)? {
        for part in [CrawlKey::Added, CrawlKey::Merging] {
            let part = index.crawl_key(ks, crawl, part);
            if ks.hash_has(&part, digest.canonical())? {
                return Ok(()); // not committed yet
            }
        }
    }
    // What a plain client added to a continued crawl is not listed anywhere before its commit.
    let unlisted = index.is_uncommitted(ks, crawl)? && index.has_unseen_fields(ks, crawl)?;
    match index.get_owner(ks, &digest)? {
        None if unlisted => {}
        None => {
            findings.missing_hashes += 1;
            if repair {
                index.note_merged(&digest, field);
                index.merged_set(ks, field, crawl)?;
                findings.repaired += 1;
            }
        }
        Some(owner) if owner.as_ref() == crawl => {}
        Some(_) => {
            // Nothing says whether a crawl that plain clients committed should be a holder.
            let Some(&last) = numbers.last() else {
                return Ok(());
            };
            let baseline = index.crawl_key(ks, crawl, CrawlKey::Baseline);
            let mut holders = index.holders(ks, &digest)?;
            let recorded = holders.iter().any(|n| numbers.contains(n));
            if !recorded && !unlisted && !ks.hash_has(&baseline, b"found")? {
                findings.stale_holders += 1;
                if repair {
                    holders.push(last);
                    holders.sort_unstable();
                    index.set_holders(ks, &digest, &holders)?;
                    findings.repaired += 1;
                }
            }
        }
    }
    Ok(())
}

/// The owner of a hash must be committed, or on its way, and have its record.
fn check_owner<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    field: &[u8],
    owner: &[u8],
    findings: &mut Findings,
    repair: bool,
) -> Result<()> {
    let digest = Digest::of_field(field);
    if index.committed_record(ks, owner, &digest)?.is_some() || index.is_committing(ks, owner)? {
        return Ok(());
    }
    if index.is_removing(ks, owner)? {
        return Ok(());
    }
    if index.is_committed(ks, owner)? {
        findings.dangling_owners += 1;
    } else {
        if index.is_canceled(ks, owner)? {
            return Ok(());
        }
        // Also what a plain client's commit looks like while it runs, and a purge by another program; a
        // repair must not undo them.
        findings.hidden_owners += 1;
        if index.standing(ks, owner)?.is_some() {
            return Ok(());
        }
    }
    if repair {
        index.withdraw(ks, owner, &[], field, &|other| other == owner)?;
        findings.repaired += 1;
    }
    Ok(())
}

/// Every holder must be a commit whose crawl has the hash, beside the owner.
fn check_holders<K: Store>(
    index: &mut Index<K>,
    ks: &mut K,
    hash: &[u8],
    value: &[u8],
    findings: &mut Findings,
    repair: bool,
) -> Result<()> {
    let digest = Digest::of_field(hash);
    let numbers = parse_numbers(value);
    let owner = index.get_owner(ks, &digest)?;
    let owner = owner.as_ref().map(AsRef::as_ref);
    let mut kept = Numbers::new();
    let mut under_way = false;
    for &number in &numbers {
        match index.crawl_of(ks, number)? {
            Some(crawl) if index.is_removing(ks, &crawl)? || index.is_outgoing(ks, &crawl)? => {
                kept.push(number); // whoever works on it takes it out
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
        // Look-ups do not find this spelling.
        findings.stale_holders += 1;
        if repair {
            index.holders_del_field(ks, hash)?;
            let mut all = index.holders(ks, &digest)?;
            all.extend(kept);
            all.sort_unstable();
            all.dedup();
            index.set_holders(ks, &digest, &all)?;
            findings.repaired += 1;
        }
        return Ok(());
    }
    // A number without a crawl may be that of a commit under way.
    under_way &= ks.hash_len(&index.names.committing)? > 0;
    if kept != numbers && !under_way {
        findings.stale_holders += 1;
        if repair {
            index.set_holders(ks, &digest, &kept)?;
            findings.repaired += 1;
        }
    }
    Ok(())
}
