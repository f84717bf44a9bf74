//! Applies random histories of commands, and compares the index with a model that uses no keys. The
//! index must contain the same data as a replay of the commits of all remaining crawls.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::dedupe::store::MemoryKeyspace;
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::keyspace::memory::Plain;
use crawlspace_host::reply::Reply;

use super::add::{Adding, Response};
use super::check::check;
use super::commit::commit;
use super::digest::Digest;
use super::error::Error;
use super::files::{Finished, close_wacz, open_wacz};
use super::index::Index;
use super::index::storage::{Layout, Of, Storage};
use super::job::{Job, Step, Walk};
use super::pack::move_to;
use super::profile::Profile;
use super::record::Record;
use super::removal::{cancel, check_cancelable, check_removable, remove, retain};
use super::revisit::{Dependency, Original, Revisit};
use super::urls::{Asked, look_up, switch};

type MemoryIndex = Index<MemoryKeyspace>;

const CRAWLS: [&[u8]; 4] = [b"a", b"b", b"crawl c", b"\xff\0d"];
const HASHES: usize = 7;

fn hash(i: usize) -> Vec<u8> {
    match i % 3 {
        0 => format!("sha256:{:064x}", i + 1).into_bytes(),
        1 => format!("md5:{:032x}", i + 1).into_bytes(),
        _ => format!("other-hash-number-{i:04}").into_bytes(),
    }
}

#[derive(Clone, Debug)]
enum Op {
    Add {
        crawl: usize,
        hash: usize,
        capture: Capture,
        earliest: bool,
    },
    Revisit {
        crawl: usize,
        hash: usize,
        noref: bool,
        /// The crawl that has the original, according to the revisit.
        original: Option<usize>,
    },
    /// A file is opened under one name and closed under a different name, which other crawls may
    /// also use.
    Wacz {
        crawl: usize,
        size: u16,
        shared: bool,
    },
    Begin {
        crawl: usize,
        visible: bool,
    },
    Commit {
        crawl: usize,
    },
    Cancel {
        crawl: usize,
    },
    Remove {
        crawls: Vec<usize>,
    },
    Purge {
        keep: Vec<usize>,
    },
    /// A plain client adds a record, in a different notation if the hash has several notations.
    PlainAdd {
        crawl: usize,
        hash: usize,
    },
    /// A plain client commits, in the documented way.
    PlainCommit {
        crawl: usize,
    },
    /// Runs `steps` steps of a commit, removal or cancel. Then the process dies.
    Crash {
        op: Box<Op>,
        steps: usize,
    },
    /// Runs `steps` steps of a commit. Then the process dies, and the commit is not repeated soon.
    Abandon {
        crawl: usize,
        steps: usize,
    },
    /// Moves the committed part to that storage.
    Move {
        to: Storage,
    },
    /// The process restarts with an empty cache.
    Restart,
}

/// Dates, each with its rank, its second and, if present, its milliseconds.
const DATES: [(u8, u8, Option<u16>, &str); 4] = [
    (2, 15, None, "20260319102015"),
    (2, 15, None, "2026-03-19T10:20:15Z"),
    (0, 14, Some(999), "20260319102014999"),
    (1, 15, Some(500), "2026-03-19T12:20:15.5+02:00"),
];

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Capture {
    date: usize,
    url: u8,
    wacz: u64,
    size: u64,
}

impl Capture {
    /// The record that plain clients write.
    const PLAIN: Capture = Capture {
        date: 0,
        url: u8::MAX,
        wacz: 0,
        size: 100,
    };

    fn order(&self) -> impl Ord + use<> {
        let (moment, _, _, text) = DATES[self.date];
        (moment, self.url(), self.wacz, self.size, text)
    }

    fn url(&self) -> String {
        format!("http://example.com/a b/{}", self.url)
    }

    fn value(&self) -> String {
        let (_, _, _, date) = DATES[self.date];
        format!("{} {date} {} {}", self.wacz, self.url(), self.size)
    }

    fn second(&self) -> (u8, u8) {
        (DATES[self.date].1, self.url)
    }

    fn millis(&self) -> Option<u16> {
        DATES[self.date].2
    }

    fn is_same(&self, other: &Capture) -> bool {
        let is_coarse = self.millis().is_none() || other.millis().is_none();
        self.second() == other.second() && (is_coarse || self.millis() == other.millis())
    }
}

fn capture() -> impl Strategy<Value = Capture> {
    (0..DATES.len(), 0..3u8, 0..2u64, 100..103u64).prop_map(|(date, url, wacz, size)| Capture {
        date,
        url,
        wacz,
        size,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let crawl = 0..CRAWLS.len();
    let job = prop_oneof![
        4 => crawl.clone().prop_map(|crawl| Op::Commit { crawl }),
        2 => crawl.clone().prop_map(|crawl| Op::Cancel { crawl }),
        2 => proptest::collection::vec(crawl.clone(), 1..3).prop_map(|crawls| Op::Remove { crawls }),
        1 => proptest::collection::vec(crawl.clone(), 1..3).prop_map(|keep| Op::Purge { keep }),
        1 => proptest::sample::select(&Storage::ALL[..]).prop_map(|to| Op::Move { to }),
    ];
    prop_oneof![
        12 => (crawl.clone(), 0..HASHES, capture(), any::<bool>())
            .prop_map(|(crawl, hash, capture, earliest)| Op::Add { crawl, hash, capture, earliest }),
        3 => (crawl.clone(), 0..HASHES, any::<bool>(), proptest::option::of(crawl.clone()))
            .prop_map(|(crawl, hash, noref, original)| Op::Revisit { crawl, hash, noref, original }),
        2 => (crawl.clone(), any::<u16>(), any::<bool>())
            .prop_map(|(crawl, size, shared)| Op::Wacz { crawl, size, shared }),
        2 => (crawl.clone(), any::<bool>()).prop_map(|(crawl, visible)| Op::Begin { crawl, visible }),
        8 => job.clone(),
        2 => (crawl.clone(), 0..HASHES).prop_map(|(crawl, hash)| Op::PlainAdd { crawl, hash }),
        1 => crawl.prop_map(|crawl| Op::PlainCommit { crawl }),
        4 => (job, 0..6usize).prop_map(|(op, steps)| Op::Crash { op: Box::new(op), steps }),
        2 => (0..CRAWLS.len(), 0..6usize).prop_map(|(crawl, steps)| Op::Abandon { crawl, steps }),
        1 => Just(Op::Restart),
    ]
}

/// A capture: hash, second and URL, and milliseconds.
type Met = (usize, (u8, u8), Option<u16>);

/// The state of a crawl at one point in time.
#[derive(Clone, Debug, Default, PartialEq)]
struct Part {
    records: BTreeMap<usize, Capture>,
    /// Captures added by `EARLIEST` since the last commit.
    others: BTreeSet<Met>,
    counts: BTreeMap<&'static str, i64>,
    waczs: Vec<String>,
    requires: BTreeSet<usize>,
    /// Numbers of revisits of originals in other crawls.
    deps: BTreeMap<usize, u64>,
}

impl Part {
    /// Returns the number of marks for the captures that are not stored.
    fn marks(&self) -> usize {
        let stored = self.records.iter();
        let stored = stored.map(|(&hash, capture)| (hash, capture.second(), capture.millis()));
        let stored: BTreeSet<Met> = stored.collect();
        let precise = self.others.union(&stored).filter(|met| met.2.is_some());
        let precise: BTreeSet<_> = precise.map(|met| (met.0, met.1)).collect();
        let marked = self.others.difference(&stored);
        let marked = marked.filter(|met| met.2.is_some() || !precise.contains(&(met.0, met.1)));
        let marked: Vec<&Met> = marked.collect();
        let seconds = marked.iter().filter(|met| met.2.is_some());
        let seconds: BTreeSet<_> = seconds.map(|met| (met.0, met.1)).collect();
        marked.len() + seconds.len()
    }

    fn count(&mut self, name: &'static str, by: i64) {
        let n = self.counts.entry(name).or_default();
        *n += by;
        if *n == 0 {
            self.counts.remove(name);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct ModelCrawl {
    now: Part,
    committed: Option<Part>,
    /// Hashes that an interrupted commit includes.
    cut: Option<BTreeSet<usize>>,
    uncommitted: bool,
    /// True if a plain client committed the crawl first.
    plainly: bool,
    /// Position of the crawl among visible crawls, if it is visible.
    visible: Option<u64>,
}

impl ModelCrawl {
    /// Returns true if a commit has merged a hash. Includes interrupted commits.
    fn took(&self, hash: usize) -> bool {
        let committed = self.committed.as_ref();
        committed.is_some_and(|part| part.records.contains_key(&hash))
            || self.cut.as_ref().is_some_and(|cut| cut.contains(&hash))
    }

    /// Adds a record, and returns the number of new hashes.
    fn add(&mut self, hash: usize, capture: Capture, earliest: bool) -> u64 {
        let mark = |capture: &Capture| (hash, capture.second(), capture.millis());
        let Some(&stored) = self.now.records.get(&hash) else {
            self.uncommitted = true;
            self.now.records.insert(hash, capture);
            self.now.count("totalUrls", 1);
            return 1;
        };
        if !earliest {
            let again = stored.is_same(&capture);
            self.uncommitted |= !again;
            self.now.count("totalUrls", i64::from(!again));
            return 0;
        }
        let mut met = self.now.others.clone();
        met.insert(mark(&stored));
        // The module counts the captures within a second once for each different millisecond, and at least once.
        let in_second = |met: &BTreeSet<Met>| {
            let of_second = |met: &&Met| (met.0, met.1) == (hash, capture.second());
            let all: Vec<_> = met.iter().filter(of_second).collect();
            let precise = all.iter().filter(|(_, _, millis)| millis.is_some()).count();
            precise.max(usize::from(!all.is_empty())) as i64
        };
        let before = in_second(&met);
        met.insert(mark(&capture));
        let more = in_second(&met) - before;
        let replaces = capture.order() < stored.order() && !self.took(hash);
        // An identical record changes nothing.
        self.uncommitted |= more > 0 || replaces;
        self.now.count("totalUrls", more);
        if self.uncommitted {
            self.now.others = met;
        }
        if replaces {
            self.now.records.insert(hash, capture);
        }
        0
    }
}

#[derive(Clone, Debug, Default)]
struct Model {
    crawls: BTreeMap<usize, ModelCrawl>,
    /// Commits in order, each with the hashes that were new in it.
    commits: Vec<(usize, Vec<usize>)>,
}

impl Model {
    fn owners(&self) -> BTreeMap<usize, usize> {
        let mut owners = BTreeMap::new();
        for (crawl, hashes) in &self.commits {
            for &hash in hashes {
                owners.entry(hash).or_insert(*crawl);
            }
        }
        owners
    }

    fn counts(&self) -> BTreeMap<&'static str, i64> {
        let mut sums = Part::default();
        for part in self.crawls.values().filter_map(|c| c.committed.as_ref()) {
            for (name, n) in &part.counts {
                sums.count(name, *n);
            }
        }
        sums.counts
    }

    fn committed(&self) -> Vec<usize> {
        let committed = self.crawls.iter().filter(|(_, c)| c.committed.is_some());
        committed.map(|(&crawl, _)| crawl).collect()
    }

    fn original(&self, crawl: usize, hash: usize) -> Option<(usize, u64)> {
        let owner = self.owners().get(&hash).copied();
        let own = self.crawls.get(&crawl);
        let own = own.filter(|c| c.now.records.contains_key(&hash));
        let holder = owner.or(own.map(|_| crawl)).or(self.running(hash))?;
        Some((holder, self.crawls[&holder].now.records[&hash].size))
    }

    /// Returns the first visible crawl that has the hash.
    fn running(&self, hash: usize) -> Option<usize> {
        let has = |c: &ModelCrawl| c.uncommitted && c.now.records.contains_key(&hash);
        let running = self.crawls.iter().filter(|(_, c)| has(c));
        let running = running.filter_map(|(crawl, c)| Some((c.visible?, *crawl)));
        running.min().map(|(_, crawl)| crawl)
    }

    fn commit(&mut self, crawl: usize) -> Option<(u64, u64)> {
        let owners = self.owners();
        let state = self.crawls.get_mut(&crawl)?;
        let before: BTreeSet<usize> = match &state.committed {
            Some(part) => part.records.keys().copied().collect(),
            None => BTreeSet::new(),
        };
        let fresh: Vec<usize> = state
            .now
            .records
            .keys()
            .copied()
            .filter(|h| !before.contains(h))
            .collect();
        let known = fresh.iter().filter(|h| owners.contains_key(h)).count() as u64;
        state.cut = None;
        state.now.others.clear();
        state.committed = Some(state.now.clone());
        state.uncommitted = false;
        state.visible = None;
        let new = fresh.len() as u64 - known;
        self.commits.push((crawl, fresh));
        Some((new, known))
    }

    fn cancel(&mut self, crawl: usize) -> Option<u64> {
        let state = self.crawls.get_mut(&crawl).filter(|c| c.uncommitted)?;
        let now = state.now.records.len();
        match state.committed.clone() {
            Some(part) => {
                let dropped = now - part.records.len();
                state.now = part;
                state.uncommitted = false;
                state.visible = None;
                state.cut = None;
                Some(dropped as u64)
            }
            None => {
                self.crawls.remove(&crawl);
                Some(now as u64)
            }
        }
    }

    fn remove(&mut self, crawls: &BTreeSet<usize>) -> (u64, u64, u64) {
        let before = self.owners();
        self.crawls.retain(|crawl, _| !crawls.contains(crawl));
        self.commits.retain(|(crawl, _)| !crawls.contains(crawl));
        let after = self.owners();
        let dropped = before.len() - after.len();
        let lost = before
            .values()
            .filter(|owner| crawls.contains(owner))
            .count();
        (crawls.len() as u64, dropped as u64, (lost - dropped) as u64)
    }
}

struct World {
    ks: MemoryKeyspace,
    index: MemoryIndex,
    model: Model,
    clock: u64,
    /// Storage of new indexes.
    storage: Storage,
    /// True if a plain client has committed a crawl. The names of its files are then missing in
    /// `src:d`.
    plainly: bool,
}

fn open(ks: &mut MemoryKeyspace, storage: Storage) -> MemoryIndex {
    let profile = Profile::Document;
    Index::open(ks, b"{p}:", Layout { profile, storage }, false).unwrap()
}

pub(super) fn run(
    mut job: Job<MemoryKeyspace>,
    index: &mut MemoryIndex,
    ks: &mut MemoryKeyspace,
) -> Result<Reply, Error> {
    loop {
        if let Step::Done(reply) = job.step(index, ks, &mut || false)? {
            return Ok(reply);
        }
    }
}

fn names(crawls: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    crawls.into_iter().map(|c| CRAWLS[c].to_vec()).collect()
}

impl World {
    #[allow(clippy::field_reassign_with_default)]
    fn new(repeat_every: u32, storage: Storage) -> World {
        let mut ks = MemoryKeyspace::default();
        ks.repeat_every = repeat_every;
        let mut index = open(&mut ks, storage);
        if repeat_every == 5 {
            run(switch(true), &mut index, &mut ks).unwrap();
        }
        World {
            ks,
            index,
            model: Model::default(),
            clock: 1_000_000,
            storage,
            plainly: false,
        }
    }

    fn add(&mut self, crawl: usize, hash_at: usize, capture: Capture, earliest: bool) {
        let url = capture.url();
        let response = [Response {
            digest: Digest::parse(&hash(hash_at)).unwrap(),
            record: Record {
                wacz_index: capture.wacz,
                date: DATES[capture.date].3.as_bytes(),
                url: url.as_bytes(),
                size: capture.size,
            },
        }];
        let how = Adding {
            earliest,
            ..Adding::default()
        };
        let (ks, clock) = (&mut self.ks, self.clock);
        let new = self.index.add(ks, CRAWLS[crawl], &response, how, clock);
        let state = self.model.crawls.entry(crawl).or_default();
        assert_eq!(new, Ok(state.add(hash_at, capture, earliest)));
    }

    fn revisit(&mut self, crawl: usize, hash_at: usize, noref: bool, original: Option<usize>) {
        let given = hash(hash_at);
        let digest = Digest::parse(&given).unwrap();
        let revisits = [Revisit {
            digest,
            given: &given,
            size: 40,
            original: original.map(|source| Original {
                crawl: CRAWLS[source],
                wacz_index: 3,
                size: 90,
            }),
        }];
        let dependency = if noref {
            Dependency::Elsewhere
        } else {
            Dependency::Crawl
        };
        let (index, ks) = (&mut self.index, &mut self.ks);
        let done = index.revisit(ks, CRAWLS[crawl], &revisits, dependency, None);
        let found = original.map(|source| (source, 90));
        let Some((holder, size)) = found.or_else(|| self.model.original(crawl, hash_at)) else {
            assert!(matches!(done, Err(Error::NoHash(_))), "{done:?}");
            return;
        };
        assert_eq!(done, Ok(1));
        let state = self.model.crawls.entry(crawl).or_default();
        state.uncommitted = true;
        state.now.count("totalUrls", 1);
        state.now.count("dupeUrls", 1);
        state.now.count("conservedSize", size as i64 - 40);
        if holder != crawl {
            *state.now.deps.entry(holder).or_default() += 1;
            if !noref {
                state.now.requires.insert(holder);
            }
        }
    }

    fn begin(&mut self, crawl: usize, visible: bool) {
        let begins = super::begin::begin(&mut self.index, &mut self.ks, CRAWLS[crawl], visible);
        let state = self.model.crawls.entry(crawl).or_default();
        let shows = visible && state.visible.is_none();
        assert_eq!(begins, Ok(shows || !state.uncommitted));
        state.uncommitted = true;
        if shows {
            self.clock += 1;
            state.visible = Some(self.clock);
        }
    }

    fn wacz(&mut self, crawl: usize, size: u16, shared: bool) {
        let state = self.model.crawls.entry(crawl).or_default();
        let n = state.now.waczs.len();
        let (index, ks) = (&mut self.index, &mut self.ks);
        let opened = format!("{crawl}-{n}.open.wacz");
        let i = open_wacz(index, ks, CRAWLS[crawl], opened.as_bytes());
        assert_eq!(i, Ok(n as u64));
        let name = if shared {
            "all.wacz".to_string()
        } else {
            format!("{crawl}-{n}.wacz")
        };
        for renames in [true, true, false] {
            let file = Finished {
                filename: name.as_bytes(),
                hash: b"sha256:00",
                size: u64::from(size),
                renames,
            };
            assert_eq!(close_wacz(index, ks, CRAWLS[crawl], n as u64, file), Ok(()));
        }
        state.uncommitted = true;
        state.now.waczs.push(name);
        state.now.count("totalCrawlSize", i64::from(size));
    }

    fn job(&mut self, op: &Op) -> Option<Job<MemoryKeyspace>> {
        Some(match op {
            Op::Commit { crawl } => commit(CRAWLS[*crawl]),
            Op::Cancel { crawl } => {
                check_cancelable(&mut self.index, &mut self.ks, CRAWLS[*crawl]).ok()?;
                cancel(CRAWLS[*crawl])
            }
            Op::Remove { crawls } => {
                let ids: Vec<&[u8]> = crawls.iter().map(|&c| CRAWLS[c]).collect();
                check_removable(&mut self.index, &mut self.ks, &ids).ok()?;
                remove(names(crawls.iter().copied()))
            }
            Op::Purge { keep } => retain(names(keep.iter().copied()), true),
            Op::Move { to } => move_to(*to),
            _ => return None,
        })
    }

    /// Runs a job to its end, on the keys and in the model.
    fn finish(&mut self, op: &Op) {
        let reply = self
            .job(op)
            .map(|job| run(job, &mut self.index, &mut self.ks));
        let model = &mut self.model;
        match op {
            Op::Commit { crawl } => {
                let reply = reply.unwrap();
                match model.commit(*crawl) {
                    Some((new, _)) if model.crawls[crawl].plainly => {
                        // Until then, the lists of holders lacked the crawl.
                        let Ok(Reply::Array(figures)) = &reply else {
                            panic!("{reply:?}")
                        };
                        assert_eq!(figures[0], Reply::count(new));
                    }
                    Some((new, known)) => assert_eq!(reply, Ok(Reply::counts(&[new, known]))),
                    None => assert!(matches!(reply, Err(Error::NoCrawl(_))), "{reply:?}"),
                }
            }
            Op::Cancel { crawl } => match model.cancel(*crawl) {
                Some(dropped) => assert_eq!(reply.unwrap(), Ok(Reply::count(dropped))),
                None => assert!(reply.is_none()),
            },
            Op::Remove { crawls } => {
                let crawls: BTreeSet<usize> = crawls.iter().copied().collect();
                let committed = model.committed();
                if crawls.iter().all(|c| committed.contains(c)) {
                    let (n, dropped, reowned) = model.remove(&crawls);
                    let figures = Reply::counts(&[n, dropped, reowned]);
                    assert_eq!(reply.unwrap(), Ok(figures));
                } else {
                    assert!(reply.is_none());
                }
            }
            Op::Purge { keep } => {
                let others = model
                    .committed()
                    .into_iter()
                    .filter(|c| !keep.contains(c))
                    .collect();
                let (n, dropped, reowned) = model.remove(&others);
                assert_eq!(reply.unwrap(), Ok(Reply::counts(&[n, dropped, reowned])));
                self.forget_tracked();
            }
            Op::Move { to } => {
                reply.unwrap().unwrap();
                assert_eq!(self.index.places.shown(), to.name());
            }
            _ => {}
        }
    }

    /// Deletes the counts of removed crawls, which these tests do not cover.
    fn forget_tracked(&mut self) {
        let allcounts = self.index.names().allcounts.clone();
        self.ks.hash_del(&allcounts, b"removedCrawls").unwrap();
        self.ks.hash_del(&allcounts, b"removedCrawlSize").unwrap();
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::Add {
                crawl,
                hash,
                capture,
                earliest,
            } => self.add(*crawl, *hash, *capture, *earliest),
            Op::Revisit {
                crawl,
                hash,
                noref,
                original,
            } => self.revisit(*crawl, *hash, *noref, *original),
            Op::Wacz {
                crawl,
                size,
                shared,
            } => self.wacz(*crawl, *size, *shared),
            Op::Begin { crawl, visible } => self.begin(*crawl, *visible),
            Op::PlainAdd { crawl, hash } => self.plain_add(*crawl, *hash),
            Op::PlainCommit { crawl } => {
                if !self.has_unplaced() {
                    self.plain_commit(*crawl);
                }
            }
            Op::Crash { op, steps } => {
                if let Some(mut job) = self.job(op) {
                    let mut done = false;
                    for _ in 0..*steps {
                        match job.step(&mut self.index, &mut self.ks, &mut || false) {
                            Ok(Step::More) => {}
                            Ok(Step::Done(_)) | Err(_) => {
                                done = true;
                                break;
                            }
                        }
                    }
                    drop(job);
                    self.index = open(&mut self.ks, self.storage);
                    if !done {
                        self.lookups_hold();
                        self.finish(op);
                        return;
                    }
                    self.settle_finished(op);
                } else {
                    self.finish(op);
                }
            }
            Op::Abandon { crawl, steps } => self.abandon(*crawl, *steps),
            Op::Restart => self.index = open(&mut self.ks, self.storage),
            job => self.finish(job),
        }
    }

    /// Runs a commit that is killed before it ends.
    fn abandon(&mut self, crawl: usize, steps: usize) {
        let id = CRAWLS[crawl];
        let began = self
            .index
            .under_way
            .is_committing(&mut self.ks, id)
            .unwrap();
        let mut job = commit(id);
        for _ in 0..steps {
            match job.step(&mut self.index, &mut self.ks, &mut || false) {
                Ok(Step::More) => {}
                Ok(Step::Done(_)) => {
                    self.model.commit(crawl);
                    break;
                }
                Err(_) => break,
            }
        }
        self.index = open(&mut self.ks, self.storage);
        if !self
            .index
            .under_way
            .is_committing(&mut self.ks, id)
            .unwrap()
        {
            return;
        }
        // Records added after the first run began may have joined its commit.
        let key = |ending: &[u8]| [b"{p}:h:", id, ending].concat();
        let (fresh, others) = (key(b":added"), key(b":unstored"));
        let state = self.model.crawls.get_mut(&crawl).unwrap();
        let mut cut: BTreeSet<usize> = state.now.records.keys().copied().collect();
        if began {
            cut.retain(|&n| {
                let digest = Digest::of_field(&hash(n));
                !self.ks.hash_has(&fresh, digest.canonical()).unwrap()
            });
        }
        state.cut = Some(cut);
        if !began || !self.ks.exists(&others) {
            state.now.others.clear();
        }
    }

    /// Updates the model after a job that ended before the test could interrupt it.
    fn settle_finished(&mut self, op: &Op) {
        let model = &mut self.model;
        match op {
            Op::Commit { crawl } => {
                model.commit(*crawl);
            }
            Op::Cancel { crawl } => {
                model.cancel(*crawl);
            }
            Op::Remove { crawls } => {
                model.remove(&crawls.iter().copied().collect());
            }
            Op::Purge { keep } => {
                let others = model
                    .committed()
                    .into_iter()
                    .filter(|c| !keep.contains(c))
                    .collect();
                model.remove(&others);
                self.forget_tracked();
            }
            _ => {}
        }
    }

    fn plain_add(&mut self, crawl: usize, hash_at: usize) {
        let state = self.model.crawls.entry(crawl).or_default();
        if state.now.records.contains_key(&hash_at) {
            return; // a crawler writes a revisit instead
        }
        if state.plainly {
            return; // the new records could not be distinguished from the committed ones
        }
        let id = CRAWLS[crawl];
        let key = |parts: &[&[u8]]| [&[&b"{p}:"[..]], parts].concat().concat();
        let spelled = hash(hash_at);
        let spelled = spelled.strip_prefix(b"md5:").unwrap_or(&spelled);
        let value = Capture::PLAIN.value();
        self.ks.set_add(&key(&[b"uncommittedcrawls"]), id).unwrap();
        self.ks
            .hash_set(&key(&[b"h:", id]), spelled, value.as_bytes())
            .unwrap();
        let counts_key = key(&[b"h:", id, b":counts"]);
        super::counts::add(&mut self.ks, &counts_key, b"totalUrls", 1).unwrap();
        self.index = open(&mut self.ks, self.storage);
        state.uncommitted = true;
        state.now.records.insert(hash_at, Capture::PLAIN);
        // The module cannot distinguish this hash from the hashes with which an interrupted commit
        // began.
        if let Some(cut) = &mut state.cut {
            cut.insert(hash_at);
        }
        state.now.count("totalUrls", 1);
        self.index_plain_urls();
    }

    /// Returns true if a crawl that plain clients committed does not have a commit number yet. The
    /// order of two such crawls would be undefined.
    fn has_unplaced(&mut self) -> bool {
        let plainly = self.model.crawls.iter().filter(|(_, c)| c.plainly);
        let crawls: Vec<usize> = plainly.map(|(&crawl, _)| crawl).collect();
        crawls.into_iter().any(|crawl| {
            let base = [b"{p}:h:", CRAWLS[crawl], b":baseline"].concat();
            !self.ks.hash_has(&base, b"commits").unwrap()
        })
    }

    /// Ends a crawl as a crawler that uses only plain commands does.
    fn plain_commit(&mut self, crawl: usize) {
        let Some(state) = self.model.crawls.get(&crawl) else {
            return;
        };
        if self.index.places.shown() != "plain" {
            return; // plain clients cannot write to a packed index
        }
        // The documentation defines neither a second commit of a crawl by plain clients, nor an
        // interrupted commit by the module.
        if state.committed.is_some() || self.ks.keys.contains_key(&b"{p}:committing"[..]) {
            return;
        }
        let id = CRAWLS[crawl];
        let key = |parts: &[&[u8]]| [&[&b"{p}:"[..]], parts].concat().concat();
        let fields = match self.ks.keys.get(&key(&[b"h:", id])) {
            Some(Plain::Hash(fields)) => fields.clone(),
            _ => BTreeMap::new(),
        };
        let merged = match self.ks.keys.get(&key(&[b"allhashes"])) {
            Some(Plain::Hash(merged)) => merged.clone(),
            _ => BTreeMap::new(),
        };
        let spelled_otherwise = |field: &Vec<u8>| {
            let same = |other: &&Vec<u8>| Digest::of_field(other) == Digest::of_field(field);
            merged.keys().find(same).is_some_and(|other| other != field)
        };
        if fields.keys().any(spelled_otherwise) {
            return; // plain commands treat another notation as a different hash
        }
        for field in fields.keys() {
            if !self.ks.hash_has(&key(&[b"allhashes"]), field).unwrap() {
                self.ks.hash_set(&key(&[b"allhashes"]), field, id).unwrap();
            }
        }
        let counts = match self.ks.keys.get(&key(&[b"h:", id, b":counts"])) {
            Some(Plain::Hash(counts)) => counts.clone(),
            _ => BTreeMap::new(),
        };
        for (name, n) in &counts {
            let sum = super::counts::read(&mut self.ks, &key(&[b"allcounts"]), name).unwrap();
            let n: i64 = std::str::from_utf8(n).unwrap().parse().unwrap();
            let sum = (sum + n).to_string();
            self.ks
                .hash_set(&key(&[b"allcounts"]), name, sum.as_bytes())
                .unwrap();
        }
        self.ks.set_del(&key(&[b"uncommittedcrawls"]), id).unwrap();
        self.ks.set_add(&key(&[b"allcrawls"]), id).unwrap();
        // The server would notify the module of these changes.
        self.index = open(&mut self.ks, self.storage);
        self.model.commit(crawl);
        self.model.crawls.get_mut(&crawl).unwrap().plainly = true;
        self.plainly = true;
    }

    /// Adds the records of plain clients to the URL index. In the module, this happens only on
    /// request.
    fn index_plain_urls(&mut self) {
        if self.index.urls.are_kept() {
            run(switch(true), &mut self.index, &mut self.ks).unwrap();
        }
    }

    /// Asserts that lookups by URL return the model's captures.
    fn urls_hold(&mut self) {
        let mut expected: BTreeMap<Vec<u8>, BTreeSet<[Vec<u8>; 3]>> = BTreeMap::new();
        for (&at, crawl) in &self.model.crawls {
            let shown = crawl.uncommitted && crawl.visible.is_some();
            let part = if shown {
                Some(&crawl.now)
            } else {
                crawl.committed.as_ref()
            };
            for (&n, capture) in part.iter().flat_map(|part| &part.records) {
                let digest = Digest::parse(&hash(n)).unwrap();
                let written = digest.written(self.index.profile()).to_vec();
                let date = DATES[capture.date].3.as_bytes().to_vec();
                let captures = expected.entry(capture.url().into_bytes()).or_default();
                captures.insert([CRAWLS[at].to_vec(), written, date]);
            }
        }
        let mut urls: Vec<Vec<u8>> = expected.keys().cloned().collect();
        urls.push(b"http://example.com/nothing".to_vec());
        let asked = Asked {
            own: None,
            limit: 1000,
            before: None,
            urls: urls.clone(),
        };
        let found = run(look_up(asked), &mut self.index, &mut self.ks);
        let Ok(Reply::Array(lists)) = found else {
            panic!("LOOKUPURL gives lists: {found:?}");
        };
        assert_eq!(lists.len(), urls.len());
        for (url, list) in urls.iter().zip(lists) {
            let Reply::Array(list) = list else {
                panic!("{list:?}");
            };
            let given = list.len();
            let captures = list.into_iter().map(|capture| match capture {
                Reply::Array(fields) => match &fields[..] {
                    [
                        Reply::Bulk(crawl),
                        Reply::Bulk(hash),
                        _,
                        Reply::Bulk(date),
                        ..,
                    ] => [crawl.clone(), hash.clone(), date.clone()],
                    other => panic!("{other:?}"),
                },
                other => panic!("{other:?}"),
            });
            let captures: BTreeSet<_> = captures.collect();
            assert_eq!(captures.len(), given);
            assert_eq!(captures, expected.remove(url).unwrap_or_default());
        }
    }

    /// Asserts that lookups return the model's owners, even while a job is interrupted.
    fn lookups_hold(&mut self) {
        let removing = self.ks.keys.contains_key(&b"{p}:removing"[..]);
        let owners = self.model.owners();
        for i in 0..HASHES {
            let digest = Digest::parse(&hash(i)).unwrap();
            let found = self.index.find(&mut self.ks, &digest, None).unwrap();
            let crawl = found.as_ref().map(|f| f.crawl().to_vec());
            if removing {
                // A removal removes hashes one by one, and lookups never return a removed record.
                if let Some(crawl) = crawl {
                    let holder = CRAWLS.iter().position(|c| *c == crawl).unwrap();
                    assert!(self.model.crawls[&holder].now.records.contains_key(&i));
                }
            } else {
                let owner = owners.get(&i).copied().or(self.model.running(i));
                let owner = owner.map(|o| CRAWLS[o].to_vec());
                assert_eq!(crawl, owner, "hash {i}");
            }
        }
    }

    fn deps_hold(&mut self, at: usize) {
        let (index, ks) = (&mut self.index, &mut self.ks);
        let key = index
            .crawls
            .key(ks, CRAWLS[at], super::keys::CrawlKey::Deps);
        let deps = super::counts::all(ks, &key, b"").unwrap();
        let model = self.model.crawls.get(&at);
        let expected = model.into_iter().flat_map(|crawl| &crawl.now.deps);
        let expected = expected.map(|(source, n)| (CRAWLS[*source].to_vec(), *n as i64));
        let expected: BTreeMap<Vec<u8>, i64> = expected.collect();
        assert!(deps.into_iter().eq(expected), "deps of crawl {at}");
    }

    fn keys_hold(&mut self) {
        self.lookups_hold();
        if self.index.urls.are_kept() {
            self.urls_hold();
        }
        let mut merged = BTreeMap::new();
        let mut walk = Walk::stored(&mut self.index, &mut self.ks, Of::Merged);
        let walked = walk.slice(
            &mut self.index,
            &mut self.ks,
            &mut || true,
            |_, _, field, owner| {
                merged.insert(field.to_vec(), owner.to_vec());
                Ok(())
            },
        );
        assert_eq!(walked, Ok(true));
        let len = self.index.places.merged().len(&mut self.ks).unwrap();
        assert_eq!(len, merged.len() as u64);
        // An interrupted commit has written hashes that are not visible.
        let under_way = self.ks.keys.contains_key(&b"{p}:committing"[..]);
        let merged: BTreeMap<Vec<u8>, Vec<u8>> = merged
            .into_iter()
            .map(|(field, owner)| (Digest::of_field(&field).canonical().to_vec(), owner))
            .collect();
        let expected: BTreeMap<Vec<u8>, Vec<u8>> = self
            .model
            .owners()
            .into_iter()
            .map(|(h, c)| {
                (
                    Digest::parse(&hash(h)).unwrap().canonical().to_vec(),
                    CRAWLS[c].to_vec(),
                )
            })
            .collect();
        assert!(under_way || merged == expected, "{merged:?} {expected:?}");
        let allcounts = self.index.names().allcounts.clone();
        let sums = super::counts::all(&mut self.ks, &allcounts, b"").unwrap();
        let sums: BTreeMap<String, i64> = sums
            .into_iter()
            .map(|(name, n)| (String::from_utf8(name).unwrap(), n))
            .collect();
        let expected: BTreeMap<String, i64> = self
            .model
            .counts()
            .into_iter()
            .map(|(name, n)| (name.to_string(), n))
            .collect();
        assert_eq!(sums, expected);
        for (at, id) in CRAWLS.iter().enumerate() {
            let state = self.index.crawls.state(&mut self.ks, id).unwrap();
            let model = self.model.crawls.get(&at);
            let expected = model.map(|m| (m.committed.is_some(), m.uncommitted));
            assert_eq!(
                state.map(super::index::CrawlState::name),
                expected.map(|e| match e {
                    (true, true) => "continued",
                    (true, false) => "committed",
                    (false, _) => "uncommitted",
                }),
                "crawl {at}"
            );
            let counts_key = self
                .index
                .crawls
                .key(&mut self.ks, id, super::keys::CrawlKey::Counts);
            let counts = super::counts::all(&mut self.ks, &counts_key, b"").unwrap();
            let counts: BTreeMap<String, i64> = counts
                .into_iter()
                .map(|(name, n)| (String::from_utf8(name).unwrap(), n))
                .collect();
            let expected: BTreeMap<String, i64> = model
                .map(|m| {
                    m.now
                        .counts
                        .iter()
                        .map(|(n, c)| (n.to_string(), *c))
                        .collect()
                })
                .unwrap_or_default();
            assert_eq!(counts, expected, "counts of crawl {at}");
            for i in 0..HASHES {
                let digest = Digest::parse(&hash(i)).unwrap();
                let stored = self.index.record_of(&mut self.ks, id, &digest).unwrap();
                let stored = stored.map(|v| String::from_utf8(v.as_ref().to_vec()).unwrap());
                let capture = model.and_then(|m| m.now.records.get(&i));
                assert_eq!(
                    stored,
                    capture.map(Capture::value),
                    "hash {i} of crawl {at}"
                );
            }
            let records = self.index.records_len(&mut self.ks, id).unwrap() as usize;
            assert_eq!(records, model.map_or(0, |m| m.now.records.len()));
            let others = self
                .index
                .crawls
                .key(&mut self.ks, id, super::keys::CrawlKey::Unstored);
            let n = self.ks.hash_len(&others).unwrap() as usize;
            // A commit by a plain client does not delete these keys.
            if model.is_none_or(|m| m.uncommitted || !m.plainly) {
                assert_eq!(n, model.map_or(0, |m| m.now.marks()), "crawl {at}");
            }
            let requires = self
                .index
                .crawls
                .key(&mut self.ks, id, super::keys::CrawlKey::Requires);
            let n = self.ks.set_len(&requires).unwrap() as usize;
            assert_eq!(
                n,
                model.map_or(0, |m| m.now.requires.len()),
                "requires of crawl {at}"
            );
            self.deps_hold(at);
        }
        if !under_way && !self.plainly {
            let finished = self.index.names().finished.clone();
            let names = super::counts::members(&mut self.ks, &finished).unwrap();
            let crawls = self.model.crawls.values();
            let parts = crawls.filter_map(|crawl| crawl.committed.as_ref());
            let expected = parts.flat_map(|part| part.waczs.iter().map(|name| name.as_bytes()));
            let expected: BTreeSet<&[u8]> = expected.collect();
            assert!(names.iter().map(Vec::as_slice).eq(expected), "{names:?}");
        }
        let Ok(Reply::Map(findings)) = run(check(false), &mut self.index, &mut self.ks) else {
            panic!("CHECK gives a map");
        };
        let ok = findings.contains(&(Reply::bulk("ok"), Reply::Int(1)));
        assert!(ok != under_way, "{findings:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(200), ..ProptestConfig::default() })]

    #[test]
    fn every_history_equals_a_replay_of_its_commits(
        ops in proptest::collection::vec(op(), 1..40),
        repeat_every in 2..6u32,
        storage in proptest::sample::select(&Storage::ALL[..]),
    ) {
        let mut world = World::new(repeat_every, storage);
        for op in &ops {
            world.apply(op);
            world.keys_hold();
        }
    }

    #[test]
    fn both_storages_give_the_same_keys(
        ops in proptest::collection::vec(op(), 1..40),
        repeat_every in 2..6u32,
    ) {
        let mut worlds = Storage::ALL.map(|storage| World::new(repeat_every, storage));
        for op in &ops {
            let (dies, moves) = match op {
                // An interrupted operation may take another commit number.
                Op::Crash { op, .. } => (true, matches!(**op, Op::Move { .. })),
                Op::Abandon { .. } | Op::PlainCommit { .. } => (true, false),
                op => (false, matches!(op, Op::Move { .. })),
            };
            if !dies && !moves {
                worlds[0].apply(op);
            }
            if !dies || moves {
                worlds[1].apply(op);
            }
        }
        worlds[1].apply(&Op::Move { to: Storage::Plain });
        let [plain, packed] = worlds;
        let meta = packed.index.names().meta.clone();
        let is_kept = |(key, _): &(&Vec<u8>, &Plain<crate::dedupe::packed::Packed>)| **key != meta;
        let kept = |world: &World| {
            let keys = world.ks.keys.iter().filter(is_kept);
            keys.map(|(key, value)| (key.clone(), value.clone())).collect::<BTreeMap<_, _>>()
        };
        prop_assert_eq!(kept(&plain), kept(&packed));
    }
}

#[test]
fn add_during_the_commit_of_an_unannounced_crawl_is_harmless() {
    let mut world = World::new(0, Storage::Plain);
    let records = [b"{p}:h:", CRAWLS[0]].concat();
    for n in 0..100 {
        let field = format!("sha256:{:064x}", 1000 + n).into_bytes();
        let value = Capture::PLAIN.value();
        let ks = &mut world.ks;
        ks.hash_set(&records, &field, value.as_bytes()).unwrap();
    }
    let counts_key = [b"{p}:h:", CRAWLS[0], b":counts"].concat();
    super::counts::add(&mut world.ks, &counts_key, b"totalUrls", 100).unwrap();
    let mut job = commit(CRAWLS[0]);
    while !world
        .index
        .under_way
        .is_committing(&mut world.ks, CRAWLS[0])
        .unwrap()
    {
        let step = job.step(&mut world.index, &mut world.ks, &mut || false);
        assert!(matches!(step, Ok(Step::More)));
    }
    let url = Capture::PLAIN.url();
    let response = Response {
        digest: Digest::parse(&hash(0)).unwrap(),
        record: Record {
            wacz_index: 0,
            date: b"20260319102015",
            url: url.as_bytes(),
            size: 1,
        },
    };
    let (index, ks) = (&mut world.index, &mut world.ks);
    let added = index.add(ks, CRAWLS[0], &[response], Adding::default(), 1);
    assert_eq!(added, Ok(1));
    for (figures, urls) in [([100, 0], 100), ([1, 0], 101)] {
        let done = run(job, index, ks);
        assert_eq!(done, Ok(Reply::counts(&figures)));
        let allcounts = index.names().allcounts.clone();
        let sum = super::counts::read(ks, &allcounts, b"totalUrls");
        assert_eq!(sum, Ok(urls));
        job = commit(CRAWLS[0]);
    }
}

#[test]
fn crawl_committed_and_continued_by_plain_clients_counts_once() {
    let mut world = World::new(0, Storage::Plain);
    world.add(0, 0, Capture::PLAIN, false);
    world.add(1, 1, Capture::PLAIN, false);
    world.plain_commit(0);
    world.plain_commit(1);
    world.model.crawls.get_mut(&0).unwrap().plainly = false;
    world.plain_add(0, 2);
    let commit = Op::Commit { crawl: 0 };
    world.apply(&commit);
    world.keys_hold();
}
