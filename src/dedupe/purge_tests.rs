//! Runs the steps of a purge by Browsertrix in their order, interleaved with slices of the module's
//! jobs, and with crashes. Checks that no hash that a crawl holds is ever lost.
//!
//! The model knows the records that each crawl must have. Records are deleted only on request: by
//! the last step of such a purge, by `REMOVE`, by `RETAIN PURGE`, or by `CANCEL`. At the end of
//! each history, the test finishes every started operation, runs the documented repair, and looks
//! up each hash that a committed crawl holds.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use crate::dedupe::store::MemoryKeyspace;
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::keyspace::memory::Plain;
use crawlspace_host::reply::Reply;

use super::add::{Adding, Response};
use super::check::check;
use super::commit::commit;
use super::counts;
use super::digest::Digest;
use super::index::storage::{Layout, Storage};
use super::index::{CrawlState, Index};
use super::job::{Job, Step};
use super::keys::CrawlKey;
use super::pack::move_to;
use super::packed::Part;
use super::profile::Profile;
use super::record::Record;
use super::removal::{cancel, check_removable, remove, retain};
use super::tests::run;

/// Default number of histories (`CRAWLSPACE_PURGE_HISTORIES` overrides it), and the length of each
/// history.
const HISTORIES: u64 = 150;
const STEPS: usize = 120;

const HASHES: u64 = 9;

type Crawl = Vec<u8>;

/// A random number generator that always returns the same numbers for the same seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        match all.len() as u64 {
            0 => None,
            n => Some(all[self.below(n) as usize].clone()),
        }
    }
}

/// One plain command of a purge.
#[derive(Clone)]
enum Plainly {
    SetAside,
    DropMerged,
    DropCounts,
    /// All commands that put a crawl back. The test chooses these commands when it runs the first
    /// of them.
    PutBack(Crawl),
    Own(Crawl, Vec<u8>),
    Count(Vec<u8>, i64),
    List(Crawl),
    Unlist(Crawl),
    MoveBack(Crawl),
    /// Deletes the remaining crawls one by one.
    DeleteRest,
    Delete(Crawl),
}

impl fmt::Debug for Plainly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plainly::SetAside => f.write_str("RENAME allcrawls"),
            Plainly::DropMerged => f.write_str("DEL alldupes"),
            Plainly::DropCounts => f.write_str("DEL allcounts"),
            Plainly::PutBack(crawl) => write!(f, "put {} back", shown(crawl)),
            Plainly::Own(crawl, field) => {
                write!(
                    f,
                    "HSETNX alldupes …{} {}",
                    shown(&field[62..]),
                    shown(crawl)
                )
            }
            Plainly::Count(name, n) => write!(f, "HINCRBY allcounts {} {n}", shown(name)),
            Plainly::List(crawl) => write!(f, "SADD allcrawls {}", shown(crawl)),
            Plainly::Unlist(crawl) => write!(f, "SREM to-remove-crawls {}", shown(crawl)),
            Plainly::MoveBack(crawl) => write!(f, "SMOVE allcrawls {}", shown(crawl)),
            Plainly::DeleteRest => f.write_str("SPOP to-remove-crawls"),
            Plainly::Delete(crawl) => write!(f, "DEL h:{}", shown(crawl)),
        }
    }
}

/// A writing job of the module that has begun.
struct Begun {
    what: String,
    job: Job<MemoryKeyspace>,
    /// Crawls whose records the job may delete.
    leaving: Vec<Crawl>,
}

struct World {
    rng: Rng,
    ks: MemoryKeyspace,
    index: Index<MemoryKeyspace>,
    /// The hashes whose records each crawl must have.
    holds: BTreeMap<Crawl, BTreeSet<u64>>,
    /// Crawls for which a removal was requested.
    leaving: BTreeSet<Crawl>,
    purge: VecDeque<Plainly>,
    /// The remaining commands of an interrupted purge.
    cut: VecDeque<Plainly>,
    job: Option<Begun>,
    made: u64,
    log: Vec<String>,
}

fn hash(n: u64) -> Vec<u8> {
    format!("{:064x}", n + 1).into_bytes()
}

fn digest(n: u64) -> Digest {
    Digest::parse(&hash(n)).unwrap()
}

const RECORD: &[u8] = b"0 20260319102015123 https://e/ 1000";

fn open(ks: &mut MemoryKeyspace) -> Index<MemoryKeyspace> {
    let layout = Layout {
        profile: Profile::Browsertrix,
        storage: Storage::Plain,
    };
    Index::open(ks, b"", layout, false).unwrap()
}

fn name(text: &[u8]) -> Vec<u8> {
    text.to_vec()
}

impl World {
    fn new(seed: u64) -> World {
        let mut ks = MemoryKeyspace::default();
        let index = open(&mut ks);
        World {
            rng: Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1),
            ks,
            index,
            holds: BTreeMap::new(),
            leaving: BTreeSet::new(),
            purge: VecDeque::new(),
            cut: VecDeque::new(),
            job: None,
            made: 0,
            log: Vec::new(),
        }
    }

    fn note(&mut self, what: impl Into<String>) {
        self.log.push(what.into());
    }

    fn members(&self, set: &[u8]) -> Vec<Crawl> {
        match self.ks.keys.get(set) {
            Some(Plain::Set(members)) => members.iter().cloned().collect(),
            _ => Vec::new(),
        }
    }

    fn fields(&self, key: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self.ks.keys.get(key) {
            Some(Plain::Hash(fields)) => fields.clone().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn records_key(crawl: &[u8]) -> Vec<u8> {
        [b"h:", crawl].concat()
    }

    fn counts_key(crawl: &[u8]) -> Vec<u8> {
        [b"h:", crawl, b":counts"].concat()
    }

    fn is_plain(&self) -> bool {
        self.index.places.shown() == "plain"
    }

    /// Notifies the module of a plain client's change, as the server does. The timer of the module
    /// may fire immediately or later.
    fn reopen(&mut self) {
        self.index = open(&mut self.ks);
        if self.rng.chance(50) {
            self.index.restore_marker(&mut self.ks).unwrap();
        }
    }

    /// Kills the server, which interrupts all operations.
    fn crash(&mut self) {
        self.note("CRASH");
        let begun = self.job.take();
        self.cut = std::mem::take(&mut self.purge);
        self.reopen();
        self.keep_unmarked(begun.map(|begun| begun.leaving).unwrap_or_default());
    }

    /// Handles a removal that ended early: crawls that the removal has not marked remain.
    fn keep_unmarked(&mut self, leaving: Vec<Crawl>) {
        for crawl in leaving {
            if !self
                .index
                .under_way
                .is_removing(&mut self.ks, &crawl)
                .unwrap()
            {
                self.leaving.remove(&crawl);
            }
        }
    }

    fn live(&self) -> Vec<Crawl> {
        let live = self.holds.keys().filter(|c| !self.leaving.contains(*c));
        live.cloned().collect()
    }

    fn running(&mut self) -> Vec<Crawl> {
        let live = self.live();
        let committed = self.members(b"allcrawls");
        let out = self.members(b"to-remove-crawls");
        let of_job = self.job.as_ref().map(|job| job.what.clone());
        live.into_iter()
            .filter(|c| !committed.contains(c) && !out.contains(c))
            .filter(|c| of_job.as_ref().is_none_or(|job| !job.contains(&shown(c))))
            .collect()
    }

    fn add(&mut self, crawl: &[u8], n: u64, plainly: bool) {
        if self
            .index
            .under_way
            .is_removing(&mut self.ks, crawl)
            .unwrap()
        {
            return;
        }
        self.note(format!("add {} {n} plainly {plainly}", shown(crawl)));
        if plainly {
            // The crawler registers the crawl as uncommitted at its start, or not at all.
            let is_new = !self.holds.contains_key(crawl);
            if is_new && self.rng.chance(70) {
                let set = name(b"uncommittedcrawls");
                self.ks.set_add(&set, crawl).unwrap();
            }
            let records = Self::records_key(crawl);
            let new = self.ks.hash_set_new(&records, &hash(n), RECORD).unwrap();
            let counts = Self::counts_key(crawl);
            self.ks
                .hash_add(&counts, b"totalUrls", i64::from(new))
                .unwrap();
            self.reopen();
        } else {
            let response = [Response {
                digest: digest(n),
                record: Record::parse(RECORD).unwrap(),
            }];
            let how = Adding::default();
            self.index
                .add(&mut self.ks, crawl, &response, how, 1)
                .unwrap();
        }
        self.holds.entry(crawl.to_vec()).or_default().insert(n);
    }

    /// Starts a purge that keeps a random set of crawls.
    fn begin_purge(&mut self) {
        if !self.may_purge() {
            return;
        }
        if !self.ks.exists(&name(b"allcrawls")) {
            return; // RENAME fails
        }
        let mut keep: Vec<Crawl> = self.live();
        let running = self.running();
        keep.retain(|c| !running.contains(c));
        let drops = self.rng.chance(60);
        let mut kept = Vec::new();
        for crawl in keep {
            if !drops || self.rng.chance(70) {
                let at = self.rng.below(kept.len() as u64 + 1) as usize;
                kept.insert(at, crawl);
            }
        }
        let shown: Vec<String> = kept.iter().map(|c| shown(c)).collect();
        self.note(format!("purge begins, keeps {shown:?}"));
        self.cut.clear();
        self.purge = [Plainly::SetAside, Plainly::DropMerged, Plainly::DropCounts].into();
        self.purge.extend(kept.into_iter().map(Plainly::PutBack));
        self.purge.push_back(Plainly::DeleteRest);
    }

    fn purge_step(&mut self) {
        let Some(step) = self.purge.pop_front() else {
            return;
        };
        self.note(format!("purge: {step:?}"));
        let (merged, sums) = (name(b"alldupes"), name(b"allcounts"));
        let (all, out) = (name(b"allcrawls"), name(b"to-remove-crawls"));
        let ks = &mut self.ks;
        match step {
            Plainly::SetAside => {
                if !ks.exists(&all) {
                    self.purge.clear();
                    return;
                }
                ks.delete(&out).unwrap();
                ks.rename(&all, &out).unwrap();
            }
            Plainly::DropMerged => drop(ks.delete(&merged).unwrap()),
            Plainly::DropCounts => drop(ks.delete(&sums).unwrap()),
            Plainly::PutBack(crawl) => {
                for step in self.put_back(crawl).into_iter().rev() {
                    self.purge.push_front(step);
                }
                return;
            }
            Plainly::Own(crawl, field) => {
                if ks.hash_set_new(&merged, &field, &crawl).is_err() {
                    self.purge.clear(); // WRONGTYPE: the program dies
                }
            }
            Plainly::Count(field, n) => drop(ks.hash_add(&sums, &field, n).unwrap()),
            Plainly::List(crawl) => {
                ks.set_del(&name(b"uncommittedcrawls"), &crawl).unwrap();
                ks.set_add(&all, &crawl).unwrap();
            }
            Plainly::Unlist(crawl) => drop(ks.set_del(&out, &crawl).unwrap()),
            Plainly::MoveBack(crawl) => {
                if ks.set_del(&out, &crawl).unwrap() {
                    ks.set_add(&all, &crawl).unwrap();
                }
            }
            Plainly::DeleteRest => {
                let Some(crawl) = self.members(&out).first().cloned() else {
                    return;
                };
                self.ks.set_del(&out, &crawl).unwrap();
                self.purge.push_front(Plainly::DeleteRest);
                self.purge.push_front(Plainly::Delete(crawl));
            }
            Plainly::Delete(crawl) => {
                for key in [
                    Self::records_key(&crawl),
                    Self::counts_key(&crawl),
                    [b"c:", &crawl[..], b":wacz"].concat(),
                ] {
                    ks.delete(&key).unwrap();
                }
                self.holds.remove(&crawl);
            }
        }
        self.reopen();
    }

    /// Returns the commands that put a crawl back. Older versions of Browsertrix add the crawl to
    /// `allcrawls` first, newer versions last.
    fn put_back(&mut self, crawl: Crawl) -> Vec<Plainly> {
        let is_old = self.rng.chance(40);
        let mut steps = Vec::new();
        if is_old {
            steps.push(Plainly::List(crawl.clone()));
        }
        for (field, _) in self.fields(&Self::records_key(&crawl)) {
            steps.push(Plainly::Own(crawl.clone(), field));
        }
        let counts = self.fields(&Self::counts_key(&crawl));
        let counts = counts.into_iter().map(|(field, n)| {
            let n = String::from_utf8(n).unwrap().parse().unwrap();
            Plainly::Count(field, n)
        });
        if is_old {
            steps.extend(counts);
            steps.push(Plainly::Unlist(crawl));
        } else {
            steps.push(Plainly::MoveBack(crawl));
            steps.extend(counts);
        }
        steps
    }

    /// Commits a crawl with plain commands.
    fn plain_commit(&mut self, crawl: &[u8]) {
        let (index, ks) = (&mut self.index, &mut self.ks);
        if index.places.shown() != "plain" || index.under_way.is_committing(ks, crawl).unwrap() {
            return;
        }
        if self.retains() {
            return; // a client that declares the whole collection must name this crawl
        }
        self.note(format!("plain commit {}", shown(crawl)));
        for (field, _) in self.fields(&Self::records_key(crawl)) {
            let merged = name(b"alldupes");
            self.ks.hash_set_new(&merged, &field, crawl).unwrap();
        }
        for (field, n) in self.fields(&Self::counts_key(crawl)) {
            let n = String::from_utf8(n).unwrap().parse().unwrap();
            let sums = name(b"allcounts");
            self.ks.hash_add(&sums, &field, n).unwrap();
        }
        let set = name(b"uncommittedcrawls");
        self.ks.set_del(&set, crawl).unwrap();
        self.ks.set_add(&name(b"allcrawls"), crawl).unwrap();
        self.reopen();
    }

    fn retains(&self) -> bool {
        let job = self.job.as_ref();
        job.is_some_and(|begun| begun.what.starts_with("RETAIN"))
    }

    /// Returns true if a purge may start, or continue.
    fn may_purge(&self) -> bool {
        let packs = |begun: &Begun| begun.what == "Packed";
        !self.retains() && !self.job.as_ref().is_some_and(packs)
    }

    fn begin_job(&mut self) {
        if self.job.is_some() {
            return;
        }
        let running = self.running();
        let live = self.live();
        let (what, job, leaving): (String, Job<MemoryKeyspace>, Vec<Crawl>) =
            match self.rng.below(20) {
                0..=7 => {
                    let all = if self.rng.chance(80) { running } else { live };
                    let Some(crawl) = self.rng.one_of(&all) else {
                        return;
                    };
                    let what = format!("COMMIT {}", shown(&crawl));
                    (what, commit(&crawl), vec![])
                }
                8..=10 => {
                    let Some(crawl) = self.rng.one_of(&live) else {
                        return;
                    };
                    let (index, ks) = (&mut self.index, &mut self.ks);
                    if check_removable(index, ks, &[&crawl]).is_err() {
                        return;
                    }
                    let what = format!("REMOVE {}", shown(&crawl));
                    let job = remove(vec![crawl.clone()]);
                    (what, job, vec![crawl])
                }
                11 if self.purge.is_empty() => {
                    let keep: Vec<Crawl> =
                        live.into_iter().filter(|_| self.rng.chance(80)).collect();
                    let (index, ks) = (&mut self.index, &mut self.ks);
                    let mut removed = Vec::new();
                    for crawl in self.holds.keys() {
                        if !keep.contains(crawl) && index.crawls.is_removable(ks, crawl).unwrap() {
                            removed.push(crawl.clone());
                        }
                    }
                    let what = "RETAIN PURGE".to_owned();
                    (what, retain(keep, true), removed)
                }
                11..=13 => ("CHECK".into(), check(false), vec![]),
                14..=17 => ("REPAIR".into(), check(true), vec![]),
                _ => {
                    let to = if self.is_plain() {
                        Storage::Packed
                    } else {
                        Storage::Plain
                    };
                    let begins = !self.purge.is_empty()
                        && !self.index.crawls.are_purged(&mut self.ks)
                        && to == Storage::Packed;
                    if begins {
                        return; // as the guide requires
                    }
                    (format!("{to:?}"), move_to(to), vec![])
                }
            };
        self.note(format!("{what} begins"));
        self.leaving.extend(leaving.iter().cloned());
        self.job = Some(Begun { what, job, leaving });
    }

    /// Runs a slice of the job. Returns true when no job is left.
    fn job_step(&mut self) -> bool {
        let Some(mut begun) = self.job.take() else {
            return true;
        };
        let (index, ks) = (&mut self.index, &mut self.ks);
        let step = begun.job.step(index, ks, &mut || false);
        index.refresh_storage(ks).unwrap();
        index.write_spelling(ks).unwrap();
        match step {
            Ok(Step::More) => {
                self.job = Some(begun);
                return false;
            }
            Ok(Step::Done(reply)) => {
                self.note(format!("{} done: {}", begun.what, flat(&reply)));
                for crawl in begun.leaving {
                    self.forget(&crawl);
                }
            }
            Err(error) => {
                self.note(format!("{}: {error}", begun.what));
                self.keep_unmarked(begun.leaving);
            }
        }
        true
    }

    /// Handles the end of a removal. Either the crawl was removed, or it still exists because it
    /// was in no set when the removal reached it.
    fn forget(&mut self, crawl: &[u8]) {
        if self.index.has_documents(&mut self.ks, crawl).unwrap() {
            self.leaving.remove(crawl);
        } else {
            self.holds.remove(crawl);
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..=17 => {
                let running = self.running();
                let crawl = match self.rng.one_of(&running) {
                    Some(crawl) if self.rng.chance(75) => crawl,
                    _ => {
                        self.made += 1;
                        format!("c{}", self.made).into_bytes()
                    }
                };
                let n = self.rng.below(HASHES);
                let plainly = self.rng.chance(40);
                self.add(&crawl, n, plainly);
            }
            18..=20 => {
                // The operation continues a committed crawl.
                let live = self.live();
                if let Some(crawl) = self.rng.one_of(&live) {
                    let n = self.rng.below(HASHES);
                    self.add(&crawl, n, false);
                }
            }
            21..=24 => {
                let running = self.running();
                if let Some(crawl) = self.rng.one_of(&running) {
                    self.plain_commit(&crawl);
                }
            }
            25..=30 if self.purge.is_empty() => match self.rng.chance(40) {
                true if self.may_purge() => self.purge = std::mem::take(&mut self.cut),
                true => {}
                false => self.begin_purge(),
            },
            25..=55 => self.purge_step(),
            56..=66 => self.begin_job(),
            67..=95 => drop(self.job_step()),
            96..=97 => self.crash(),
            _ => self.cut = std::mem::take(&mut self.purge),
        }
    }

    /// Returns true if a record exists, in either storage.
    fn has_record(&mut self, crawl: &[u8], n: u64) -> bool {
        let records = Self::records_key(crawl);
        self.ks.hash_has(&records, &hash(n)).unwrap()
            || self
                .index
                .places
                .packed(Part::Records(crawl))
                .has(&mut self.ks, &hash(n))
                .unwrap()
    }

    fn records_hold(&mut self) {
        for (crawl, hashes) in self.holds.clone() {
            if self.leaving.contains(&crawl) {
                continue;
            }
            for n in hashes {
                let has = self.has_record(&crawl, n);
                assert!(has, "record {n} of {} is lost", shown(&crawl));
            }
        }
    }

    fn run(&mut self, what: &str, job: Job<MemoryKeyspace>) -> Reply {
        let reply = run(job, &mut self.index, &mut self.ks);
        let reply = reply.unwrap_or_else(|error| panic!("{what}: {error}"));
        self.note(format!("{what}: {}", flat(&reply)));
        reply
    }

    fn owner(&mut self, n: u64) -> Option<Crawl> {
        let found = self.index.find(&mut self.ks, &digest(n), None).unwrap();
        found.map(|found| found.crawl().to_vec())
    }

    /// Asserts that lookups find every hash that a committed crawl holds, and that they return a
    /// crawl that holds the hash.
    fn look_ups_hold(&mut self) {
        let committed = self.members(b"allcrawls");
        for n in 0..HASHES {
            let mut holders = Vec::new();
            for crawl in &committed {
                let key = self.index.crawls.key(&mut self.ks, crawl, CrawlKey::Added);
                let fresh = self.ks.hash_has(&key, digest(n).canonical()).unwrap();
                let fresh = fresh
                    && self
                        .index
                        .crawls
                        .is_uncommitted(&mut self.ks, crawl)
                        .unwrap();
                if !fresh && self.has_record(crawl, n) {
                    holders.push(crawl.clone());
                }
            }
            let owner = self.owner(n);
            match &owner {
                Some(owner) => assert!(holders.contains(owner), "hash {n}: {owner:?}"),
                None => assert!(holders.is_empty(), "hash {n} of {holders:?} is lost"),
            }
        }
    }

    /// Finishes every started operation, and runs the documented repair.
    fn settle(&mut self) {
        self.note("SETTLE");
        while !self.job_step() {}
        if self.rng.chance(50) && self.may_purge() {
            self.note("the purge goes on to its end");
            self.purge.extend(std::mem::take(&mut self.cut));
            while !self.purge.is_empty() {
                self.purge_step();
                self.records_hold();
            }
        }
        self.purge.clear();
        // Send the interrupted operations again.
        let removing = self.fields(b"removing");
        let removing: Vec<Crawl> = removing.into_iter().map(|(crawl, _)| crawl).collect();
        if !removing.is_empty() {
            self.run("REMOVE again", remove(Vec::new()));
            for crawl in removing {
                self.holds.remove(&crawl);
            }
        }
        for (crawl, _) in self.fields(b"committing") {
            self.run("COMMIT again", commit(&crawl));
        }
        if self.index.places.is_moving() || (!self.is_plain() && self.rng.chance(70)) {
            self.run("UNPACK", move_to(Storage::Plain));
        }
        for crawl in self.live() {
            let standing = self.index.standing(&mut self.ks, &crawl).unwrap();
            let aside = matches!(
                standing,
                Some(CrawlState::Outgoing | CrawlState::Unlisted | CrawlState::Uncommitted)
            );
            if aside {
                self.note(format!("{} is {standing:?}", shown(&crawl)));
                self.run("COMMIT", commit(&crawl));
            }
        }
        // A purge by Browsertrix does not delete the packed records of its crawls.
        for made in 1..=self.made {
            let crawl = format!("c{made}").into_bytes();
            let standing = self.index.standing(&mut self.ks, &crawl).unwrap();
            if standing == Some(CrawlState::Unlisted) && !self.holds.contains_key(&crawl) {
                self.run(&format!("CANCEL c{made}"), cancel(&crawl));
            }
        }
        // A purge by Browsertrix may have put back crawls that the module removed in the meantime.
        for crawl in self.members(b"to-remove-crawls") {
            self.run("REMOVE", remove(vec![crawl.clone()]));
            self.holds.remove(&crawl);
        }
        self.run("REPAIR", check(true));
        self.records_hold();
        self.look_ups_hold();
        let continued = self.members(b"uncommittedcrawls");
        for crawl in continued {
            self.run("COMMIT", commit(&crawl));
        }
        self.run("REPAIR", check(true));
        self.is_sound();
        assert!(self.index.ledger.is_trusted());
        // The lists of holders are correct again, so removing a crawl does not lose a hash of
        // another crawl.
        while let Some(crawl) = self.rng.one_of(&self.members(b"allcrawls")) {
            let removal = remove(vec![crawl.clone()]);
            self.run(&format!("REMOVE {}", shown(&crawl)), removal);
            self.holds.remove(&crawl);
            self.records_hold();
            self.look_ups_hold();
            self.is_sound();
        }
    }

    fn is_sound(&mut self) {
        let Reply::Map(findings) = self.run("CHECK", check(false)) else {
            panic!("CHECK gives a map");
        };
        let ok = findings.contains(&(Reply::bulk("ok"), Reply::Int(1)));
        assert!(ok, "{}", flat(&Reply::Map(findings)));
        self.look_ups_hold();
        for (field, sum) in counts::all(&mut self.ks, &name(b"allcounts"), b"").unwrap() {
            let mut expected = 0;
            for crawl in self.members(b"allcrawls") {
                let counts = Self::counts_key(&crawl);
                expected += counts::read(&mut self.ks, &counts, &field).unwrap();
            }
            assert_eq!(sum, expected, "{}", shown(&field));
        }
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn flat(reply: &Reply) -> String {
    match reply {
        Reply::Int(n) => n.to_string(),
        Reply::Bulk(text) => shown(text),
        Reply::Array(items) => format!("{:?}", items.iter().map(flat).collect::<Vec<_>>()),
        Reply::Map(pairs) => {
            let pairs = pairs.iter().filter(|(_, n)| *n != Reply::Int(0));
            let pairs: Vec<String> = pairs
                .map(|(a, b)| format!("{} {}", flat(a), flat(b)))
                .collect();
            pairs.join(", ")
        }
        other => format!("{other:?}"),
    }
}

fn history(seed: u64) {
    let mut world = World::new(seed);
    let lived = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for _ in 0..STEPS {
            world.step();
            world.records_hold();
        }
        world.settle();
    }));
    if let Err(panic) = lived {
        for line in &world.log {
            eprintln!("{line}");
        }
        eprintln!("seed {seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn purge_by_plain_commands_loses_nothing_that_a_crawl_holds() {
    let number = |name: &str| std::env::var(name).map(|n| n.parse::<u64>().expect("a number"));
    let first = number("SEED").unwrap_or(0);
    let histories = number("CRAWLSPACE_PURGE_HISTORIES").unwrap_or(HISTORIES);
    println!("SEED={first}, {histories} histories");
    for seed in (first..).take(histories as usize) {
        history(seed);
    }
}
