//! Tests in which other programs change the key `crawlspace` between any two steps of `PACK`, `UNPACK` and
//! `REPAIR`.

use std::ops::Range;

use crate::dedupe::store::MemoryKeyspace;
use crawlspace_host::keyspace::{Batch, Keyspace};
use crawlspace_host::reply::Reply;

use super::add::{Adding, Response};
use super::begin::begin;
use super::check::check;
use super::commit::commit;
use super::digest::Digest;
use super::index::Index;
use super::index::storage::{Layout, Storage};
use super::job::{Job, Step};
use super::pack::move_to;
use super::packed::Part;
use super::profile::Profile;
use super::record::Record;
use super::removal::remove;

/// The crawls in commit order. The last crawl has no hashes.
const CRAWLS: [&[u8]; 3] = [b"a", b"b", b"z"];

/// The contents of an index.
#[derive(Clone, Copy, Debug)]
struct Contents {
    profile: Profile,
    /// True if two crawls share hashes, so that these hashes have lists of further holders.
    shared: bool,
    /// True if another program has deleted the merged index.
    unowned: bool,
}

impl Contents {
    /// Returns the hashes of each crawl.
    fn hashes(self) -> [Range<usize>; 3] {
        [0..5, if self.shared { 3..8 } else { 5..8 }, 0..0]
    }
}

/// A change of the key `crawlspace`.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// `DEL crawlspace`.
    Delete,
    /// `HSET crawlspace storage`, or `HDEL` for plain storage.
    Store(Storage),
}

const CHANGES: [Change; 3] = [
    Change::Delete,
    Change::Store(Storage::Packed),
    Change::Store(Storage::Plain),
];

/// A job that works on the storage of an index.
#[derive(Clone, Copy, Debug)]
enum Work {
    Pack,
    Unpack,
    Repair,
}

impl Work {
    fn job(self) -> Job<MemoryKeyspace> {
        match self {
            Work::Pack => move_to(Storage::Packed),
            Work::Unpack => move_to(Storage::Plain),
            Work::Repair => check(true),
        }
    }

    /// Returns the storage after the job, if the job determines it.
    fn storage(self) -> Option<&'static str> {
        match self {
            Work::Pack => Some("packed"),
            Work::Unpack => Some("plain"),
            Work::Repair => None,
        }
    }
}

fn digest(n: usize) -> Digest {
    Digest::parse(format!("sha256:{n:064x}").as_bytes()).unwrap()
}

/// An index with an empty prefix, and its key space.
struct World {
    contents: Contents,
    ks: MemoryKeyspace,
    index: Index<MemoryKeyspace>,
}

impl World {
    fn over(contents: Contents, mut ks: MemoryKeyspace) -> World {
        let index = Index::open(&mut ks, b"", Layout::default(), false).unwrap();
        World {
            contents,
            ks,
            index,
        }
    }

    /// Creates an index on plain keys.
    fn new(contents: Contents) -> World {
        let mut world = World::over(contents, MemoryKeyspace::default());
        let (index, ks) = (&mut world.index, &mut world.ks);
        index.set_profile(ks, contents.profile).unwrap();
        for (crawl, hashes) in CRAWLS.into_iter().zip(contents.hashes()) {
            let (index, ks) = (&mut world.index, &mut world.ks);
            begin(index, ks, crawl, false).unwrap();
            for n in hashes {
                let response = [Response {
                    digest: digest(n),
                    record: Record::parse(b"0 20260319102015 https://e/ 1000").unwrap(),
                }];
                let how = Adding::default();
                index.add(ks, crawl, &response, how, 1).unwrap();
            }
            world.finish(commit(crawl));
        }
        if contents.unowned {
            let merged = world.index.names().merged.clone();
            world.ks.delete(&merged).unwrap();
            world.reopen(false);
        }
        world
    }

    #[allow(clippy::field_reassign_with_default)]
    fn copied(&self) -> World {
        let mut ks = MemoryKeyspace::default();
        ks.keys = self.ks.keys.clone();
        World::over(self.contents, ks)
    }

    /// Replaces the marker by a hash with some of the entries that are still to be packed, as if another program had
    /// written it. Two plain hashes then have entries; `UNPACK` must join them.
    fn tear(&mut self) {
        let (merged, moving) = (self.index.names().merged.clone(), b"moving".to_vec());
        let (mut entries, mut cursor) = (Batch::default(), self.ks.cursor());
        while self
            .ks
            .hash_scan(&moving, &mut cursor, &mut entries)
            .unwrap()
        {}
        assert!(
            entries.iter().count() > 2,
            "some are in one of the hashes only"
        );
        self.ks.delete(&merged).unwrap();
        for (field, owner) in entries.iter().skip(1) {
            self.ks.hash_set(&merged, field, owner).unwrap();
        }
        self.reopen(false);
    }

    /// Opens the index again, as the server does after a change by another client. If `due`, also
    /// runs the timer that restores the marker.
    fn reopen(&mut self, due: bool) {
        self.index = Index::open(&mut self.ks, b"", Layout::default(), false).unwrap();
        if due {
            self.index.restore_marker(&mut self.ks).unwrap();
        }
    }

    fn change(&mut self, change: Change, due: bool) {
        let (ks, key) = (&mut self.ks, b"crawlspace".to_vec());
        match change {
            Change::Delete => drop(ks.delete(&key).unwrap()),
            Change::Store(Storage::Plain) => drop(ks.hash_del(&key, b"storage").unwrap()),
            Change::Store(Storage::Packed) => {
                ks.hash_set(&key, b"storage", b"packed").map(drop).unwrap()
            }
        }
        self.reopen(due);
    }

    /// Runs one slice of a job, as the server does.
    fn slice(&mut self, job: &mut Job<MemoryKeyspace>) -> Option<Reply> {
        let (index, ks) = (&mut self.index, &mut self.ks);
        index.prepare_storage(ks).unwrap();
        let step = job.step(index, ks, &mut || false).unwrap();
        index.refresh_storage(ks).unwrap();
        index.write_spelling(ks).unwrap();
        match step {
            Step::Done(reply) => Some(reply),
            Step::More => None,
        }
    }

    fn finish(&mut self, mut job: Job<MemoryKeyspace>) -> Reply {
        loop {
            if let Some(reply) = self.slice(&mut job) {
                return reply;
            }
        }
    }

    /// Asserts that each crawl has all of its records.
    fn assert_records(&mut self, when: &str) {
        for (crawl, hashes) in CRAWLS.into_iter().zip(self.contents.hashes()) {
            let plain = [b"h:", crawl].concat();
            for n in hashes {
                let field = digest(n).written(self.contents.profile).to_vec();
                let packed = self.index.places.packed(Part::Records(crawl));
                let has = packed.has(&mut self.ks, &field).unwrap()
                    || self.ks.hash_has(&plain, &field).unwrap();
                assert!(has, "record {n} of {crawl:?} is lost: {when}");
            }
        }
    }

    fn owner(&mut self, n: usize) -> Option<Vec<u8>> {
        let found = self.index.find(&mut self.ks, &digest(n), None).unwrap();
        found.map(|found| found.crawl().to_vec())
    }

    /// Asserts that lookups find each hash, and return the crawl that committed it first.
    fn assert_owners(&mut self, when: &str) {
        let [a, b, _] = self.contents.hashes();
        for n in 0..b.end {
            let expected = CRAWLS[usize::from(!a.contains(&n))];
            assert_eq!(self.owner(n).as_deref(), Some(expected), "hash {n}: {when}");
        }
    }

    fn assert_ok(&mut self, when: &str) {
        let Reply::Map(findings) = self.finish(check(false)) else {
            panic!("CHECK gives a map");
        };
        let ok = findings.contains(&(Reply::bulk("ok"), Reply::Int(1)));
        assert!(ok, "{findings:?}: {when}");
    }
}

/// Changes `crawlspace` after `slices` slices of a job, lets the job end, and runs another job.
/// Returns false if the first job ended before the change.
fn run(
    mut world: World,
    (begun, then): (Work, Work),
    (slices, change, due): (usize, Change, bool),
) -> bool {
    let contents = world.contents;
    let when = format!(
        "{contents:?}, {change:?} (timer {due}) after {slices} slices of {begun:?}, then {then:?}"
    );
    let mut job = begun.job();
    for _ in 0..slices {
        if world.slice(&mut job).is_some() {
            return false;
        }
    }
    world.change(change, due);
    for (work, mut job) in [(begun, job), (then, then.job())] {
        loop {
            world.assert_records(&when);
            if !contents.unowned {
                world.assert_owners(&when);
            }
            if world.slice(&mut job).is_some() {
                break;
            }
        }
        if let Some(storage) = work.storage() {
            let shown = world.index.places.shown();
            assert_eq!(shown, storage, "after {work:?}: {when}");
        }
    }
    world.finish(check(true));
    world.assert_owners(&when);
    world.assert_ok(&when);
    world.finish(remove(vec![b"a".to_vec()]));
    world.assert_ok(&when);
    let heir = contents.shared.then(|| b"b".to_vec());
    assert_eq!(world.owner(4), heir, "{when}");
    true
}

fn all_contents() -> impl Iterator<Item = Contents> {
    let all = Profile::ALL.into_iter().flat_map(|profile| {
        let flags = [(false, false), (true, false), (false, true), (true, true)];
        flags.map(|(shared, unowned)| Contents {
            profile,
            shared,
            unowned,
        })
    });
    // Without the key `crawlspace`, only the name of the merged index shows the profile.
    all.filter(|contents| !contents.unowned || contents.profile == Profile::default())
}

#[test]
fn joining_two_plain_hashes_loses_nothing_when_the_crawlspace_key_changes() {
    let contents = Contents {
        profile: Profile::default(),
        shared: true,
        unowned: false,
    };
    let mut torn = World::new(contents);
    let mut job = move_to(Storage::Packed);
    while torn.ks.hash_len(&b"moving".to_vec()).unwrap() != 4 {
        assert!(torn.slice(&mut job).is_none(), "entries are left to pack");
    }
    drop(job);
    torn.tear();
    for then in [Work::Pack, Work::Unpack, Work::Repair] {
        for change in CHANGES {
            for due in [false, true] {
                let mut slices = 0..;
                while slices
                    .next()
                    .is_some_and(|n| run(torn.copied(), (Work::Unpack, then), (n, change, due)))
                {
                }
                assert!(slices.start > 2, "UNPACK runs in slices");
            }
        }
    }
}

#[test]
fn a_change_of_storage_loses_nothing_when_the_crawlspace_key_changes() {
    for contents in all_contents() {
        let plain = World::new(contents);
        let mut packed = plain.copied();
        packed.finish(move_to(Storage::Packed));
        let mut packing = plain.copied();
        let mut job = move_to(Storage::Packed);
        for _ in 0..4 {
            assert!(packing.slice(&mut job).is_none());
        }
        for (begun, start) in [
            (Work::Pack, &plain),
            (Work::Unpack, &packed),
            (Work::Unpack, &packing),
            (Work::Repair, &packing),
        ] {
            for then in [Work::Pack, Work::Unpack, Work::Repair] {
                for change in CHANGES {
                    for due in [false, true] {
                        let works = (begun, then);
                        let mut slices = 0..;
                        while slices
                            .next()
                            .is_some_and(|n| run(start.copied(), works, (n, change, due)))
                        {
                        }
                        assert!(slices.start > 2, "{begun:?} runs in slices");
                    }
                }
            }
        }
    }
}
