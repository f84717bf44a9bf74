//! Tests that no record of a crawl is lost when other programs write to the keys between commands
//! of the module.

use crate::dedupe::store::MemoryKeyspace;
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::keyspace::memory::Plain;
use crawlspace_host::reply::Reply;

use super::add::{Adding, Response};
use super::adopt::adopt_all;
use super::check::check;
use super::commit::commit;
use super::counts;
use super::digest::Digest;
use super::error::Error;
use super::index::Index;
use super::index::storage::{Layout, Storage};
use super::job::{Job, Step};
use super::profile::Profile;
use super::record::Record;
use super::removal::{cancel, check_cancelable, check_removable, remove, retain};
use super::stats::crawl_stats;
use super::tests::run;

type MemoryIndex = Index<MemoryKeyspace>;

/// An index of the Browsertrix profile with an empty prefix, and its key space.
struct World {
    ks: MemoryKeyspace,
    index: MemoryIndex,
}

fn hash(n: usize) -> Vec<u8> {
    format!("{n:064x}").into_bytes()
}

const RECORD: &[u8] = b"0 20260319102015123 https://e/ 1000";

fn key(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

fn open(ks: &mut MemoryKeyspace) -> MemoryIndex {
    let layout = Layout {
        profile: Profile::Browsertrix,
        storage: Storage::Plain,
    };
    Index::open(ks, b"", layout, false).unwrap()
}

impl World {
    fn new() -> World {
        let mut ks = MemoryKeyspace::default();
        let index = open(&mut ks);
        World { ks, index }
    }

    /// Reopens the index, as the server does after a change by another client.
    fn reopen(&mut self) {
        self.index = open(&mut self.ks);
    }

    fn run(&mut self, job: Job<MemoryKeyspace>) -> Result<Reply, Error> {
        run(job, &mut self.index, &mut self.ks)
    }

    fn add(&mut self, crawl: &[u8], hashes: impl IntoIterator<Item = usize>) {
        for n in hashes {
            let response = [Response {
                digest: Digest::parse(&hash(n)).unwrap(),
                record: Record::parse(RECORD).unwrap(),
            }];
            let how = Adding::default();
            self.index
                .add(&mut self.ks, crawl, &response, how, 1)
                .unwrap();
        }
    }

    fn commit(&mut self, crawl: &[u8]) -> Result<Reply, Error> {
        self.run(commit(crawl))
    }

    fn remove(&mut self, crawls: &[&[u8]]) -> Result<Reply, Error> {
        check_removable(&mut self.index, &mut self.ks, crawls)?;
        let crawls = crawls.iter().map(|c| c.to_vec()).collect();
        self.run(remove(crawls))
    }

    fn cancel(&mut self, crawl: &[u8]) -> Result<Reply, Error> {
        check_cancelable(&mut self.index, &mut self.ks, crawl)?;
        self.run(cancel(crawl))
    }

    fn check(&mut self) -> Vec<(String, i64)> {
        self.findings(false)
    }

    fn repair(&mut self) -> Vec<(String, i64)> {
        self.findings(true)
    }

    fn findings(&mut self, repair: bool) -> Vec<(String, i64)> {
        let Ok(Reply::Map(findings)) = self.run(check(repair)) else {
            panic!("CHECK gives a map");
        };
        let number = |reply: &Reply| match reply {
            Reply::Int(n) => *n,
            other => panic!("{other:?}"),
        };
        let name = |reply: &Reply| match reply {
            Reply::Bulk(name) => String::from_utf8(name.clone()).unwrap(),
            other => panic!("{other:?}"),
        };
        findings
            .iter()
            .map(|(field, n)| (name(field), number(n)))
            .collect()
    }

    fn owner(&mut self, n: usize) -> Option<Vec<u8>> {
        let digest = Digest::parse(&hash(n)).unwrap();
        let found = self.index.find(&mut self.ks, &digest, None).unwrap();
        found.map(|found| found.crawl().to_vec())
    }

    fn plain_crawl(&mut self, crawl: &[u8], hashes: impl IntoIterator<Item = usize>) {
        for n in hashes {
            let ks = &mut self.ks;
            ks.hash_set(&key(&[b"h:", crawl]), &hash(n), RECORD)
                .unwrap();
        }
        let counts = key(&[b"h:", crawl, b":counts"]);
        self.ks.hash_set(&counts, b"totalUrls", b"1").unwrap();
        let waczs = key(&[b"c:", crawl, b":wacz"]);
        let entry = br#"{"filename":"w","hash":"sha256:00","size":1}"#;
        self.ks.list_push(&waczs, entry).unwrap();
        self.reopen();
    }

    fn plain_begin_purge(&mut self) {
        let (all, out) = (b"allcrawls".to_vec(), b"to-remove-crawls".to_vec());
        self.ks.rename(&all, &out).unwrap();
        self.ks.delete(&b"alldupes".to_vec()).unwrap();
        self.ks.delete(&b"allcounts".to_vec()).unwrap();
        self.reopen();
    }

    fn plain_put_back(&mut self, crawl: &[u8]) {
        if let Some(Plain::Hash(fields)) = self.ks.keys.get(&key(&[b"h:", crawl])).cloned() {
            for field in fields.keys() {
                let merged = b"alldupes".to_vec();
                self.ks.hash_set_new(&merged, field, crawl).unwrap();
            }
        }
        let (all, out) = (b"allcrawls".to_vec(), b"to-remove-crawls".to_vec());
        self.ks.set_del(&out, crawl).unwrap();
        self.ks.set_add(&all, crawl).unwrap();
        let counts = key(&[b"h:", crawl, b":counts"]);
        if let Some(Plain::Hash(fields)) = self.ks.keys.get(&counts).cloned() {
            for (name, n) in fields {
                let n: i64 = std::str::from_utf8(&n).unwrap().parse().unwrap();
                let sums = b"allcounts".to_vec();
                self.ks.hash_add(&sums, &name, n).unwrap();
            }
        }
        self.reopen();
    }
}

impl World {
    /// Adds to a count of a crawl and, with `in_sums`, to the sum over all crawls.
    fn plain_count(&mut self, crawl: &[u8], name: &[u8], by: i64, in_sums: bool) {
        let counts = key(&[b"h:", crawl, b":counts"]);
        self.ks.hash_add(&counts, name, by).unwrap();
        if in_sums {
            let sums = b"allcounts".to_vec();
            self.ks.hash_add(&sums, name, by).unwrap();
        }
    }

    /// Imports a package as Browsertrix's importer does, but omits the last step.
    fn plain_import_records(&mut self, crawl: &[u8], hashes: impl IntoIterator<Item = usize>) {
        for n in hashes {
            let merged = b"alldupes".to_vec();
            self.ks.hash_set_new(&merged, &hash(n), crawl).unwrap();
            let records = key(&[b"h:", crawl]);
            self.ks.hash_set_new(&records, &hash(n), RECORD).unwrap();
            self.plain_count(crawl, b"totalUrls", 1, true);
        }
        self.reopen();
    }

    /// Imports a package as Browsertrix's importer does.
    fn plain_import(&mut self, crawl: &[u8], hashes: impl IntoIterator<Item = usize>, name: &str) {
        self.plain_import_records(crawl, hashes);
        let finished = b"src:d".to_vec();
        self.ks.set_add(&finished, name.as_bytes()).unwrap();
        self.ks.set_add(&b"allcrawls".to_vec(), crawl).unwrap();
        self.plain_file(crawl, name, 10);
        self.plain_count(crawl, b"totalCrawlSize", 10, true);
        self.reopen();
    }

    fn plain_file(&mut self, crawl: &[u8], name: &str, size: u64) {
        let waczs = key(&[b"c:", crawl, b":wacz"]);
        let entry = format!(r#"{{"filename":"{name}","hash":"00","size":{size}}}"#);
        self.ks.list_push(&waczs, entry.as_bytes()).unwrap();
    }

    /// Writes a crawl as with `--dedupeConcurrent`: the sizes of its files are added to the counts
    /// of the crawl only.
    fn plain_concurrent(
        &mut self,
        crawl: &[u8],
        hashes: impl IntoIterator<Item = usize>,
        name: &str,
    ) {
        self.ks.set_add(&b"allcrawls".to_vec(), crawl).unwrap();
        self.plain_import_records(crawl, hashes);
        self.plain_file(crawl, name, 100);
        self.plain_count(crawl, b"totalCrawlSize", 100, false);
        self.reopen();
    }

    fn number(&mut self, name: &[u8], field: &[u8]) -> i64 {
        counts::read(&mut self.ks, &name.to_vec(), field).unwrap()
    }

    fn urls(&mut self) -> [i64; 2] {
        let of_all = self.number(b"allcounts", b"totalUrls");
        [self.number(b"h:A:counts", b"totalUrls"), of_all]
    }

    fn is_finished(&mut self, name: &str) -> bool {
        let finished = b"src:d".to_vec();
        self.ks.set_has(&finished, name.as_bytes()).unwrap()
    }

    fn assert_ok(&mut self) {
        let found = self.check();
        assert_eq!(figure(&found, "ok"), 1, "{found:?}");
        let found = self.repair();
        assert_eq!(figure(&found, "repaired"), 0, "{found:?}");
    }
}

#[test]
fn commit_lists_the_files_of_a_crawl_that_plain_clients_committed() {
    for has_new in [false, true] {
        let mut world = World::new();
        world.plain_concurrent(b"A", [1], "a.wacz");
        world.commit(b"A").unwrap();
        assert!(world.is_finished("a.wacz"));
        world.plain_file(b"A", "b.wacz", 100);
        world.plain_count(b"A", b"totalCrawlSize", 100, false);
        if has_new {
            world.plain_import_records(b"A", [2]);
        }
        world.reopen();
        world.commit(b"A").unwrap();
        assert!(world.is_finished("b.wacz"));
        assert_eq!(figure(&world.check(), "ok"), 1);
        let keys = world.ks.keys.clone();
        assert_eq!(world.commit(b"A"), Ok(Reply::counts(&[0, 0])));
        assert_eq!(world.ks.keys, keys, "a commit with nothing new");
        world.remove(&[b"A"]).unwrap();
        assert!(!world.is_finished("a.wacz") && !world.is_finished("b.wacz"));
    }
}

#[test]
fn plain_clients_counts_in_a_committed_crawl_count_once() {
    for begun_by_us in [false, true] {
        let mut world = World::new();
        if begun_by_us {
            world.add(b"A", [1]);
            world.commit(b"A").unwrap();
        } else {
            world.plain_import(b"A", [1], "a.wacz");
        }
        world.plain_import(b"A", [2, 3], "b.wacz");
        world.assert_ok();
        assert_eq!(world.urls(), [3, 3]);
        world.commit(b"A").unwrap();
        assert_eq!(world.urls(), [3, 3]);
        world.assert_ok();
        // The module's commands continue the crawl, after another import by the plain client.
        world.plain_import(b"A", [4], "c.wacz");
        world.add(b"A", [5, 6]);
        assert_eq!(world.urls(), [6, 4]);
        world.assert_ok();
        world.commit(b"A").unwrap();
        assert_eq!(world.urls(), [6, 6]);
        world.assert_ok();
        world.remove(&[b"A"]).unwrap();
        assert_eq!(world.number(b"allcounts", b"totalUrls"), 0);
        assert_eq!(world.number(b"allcounts", b"totalCrawlSize"), 0);
        let left: Vec<_> = world.ks.keys.keys().collect();
        assert_eq!(left, [&b"crawlspace".to_vec()]);
    }
}

#[test]
fn cancel_keeps_what_plain_clients_added_before_the_crawl_continued() {
    let mut world = World::new();
    world.add(b"B", [2]);
    world.commit(b"B").unwrap();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    // Another crawl owns one of the hashes.
    world.plain_import(b"A", [2, 3], "a.wacz");
    let records = world.ks.keys[&b"h:A"[..]].clone();
    world.add(b"A", [4]);
    assert_eq!(world.cancel(b"A"), Ok(Reply::count(1)));
    assert_eq!(world.ks.keys[&b"h:A"[..]], records);
    assert_eq!(world.urls(), [3, 4]);
    assert_eq!(world.ks.list_len(&b"c:A:wacz".to_vec()), Ok(1));
    world.assert_ok();
    world.commit(b"A").unwrap();
    assert_eq!(world.urls(), [3, 4]);
    world.assert_ok();
    world.remove(&[b"B"]).unwrap();
    assert_eq!(world.owner(2), Some(b"A".to_vec()));
    world.assert_ok();
}

/// Interleaves plain writes and commands of the module with each step of a commit, with and without
/// a crash at that step.
#[test]
fn commit_among_plain_writes_counts_nothing_twice() {
    for continued in [false, true] {
        for (ours, cut) in [(false, false), (false, true), (true, false), (true, true)] {
            for steps in 0..12 {
                let mut world = World::new();
                world.add(b"A", 0..3);
                world.commit(b"A").unwrap();
                world.plain_import(b"A", 3..8, "a.wacz");
                let mut urls = 8;
                if continued {
                    world.add(b"A", 20..23);
                    urls += 3;
                }
                let mut job = commit(b"A");
                for _ in 0..steps {
                    let step = job.step(&mut world.index, &mut world.ks, &mut || false);
                    if !matches!(step, Ok(Step::More)) {
                        job = commit(b"A");
                        break;
                    }
                }
                let is_settled = !world
                    .index
                    .crawls
                    .is_uncommitted(&mut world.ks, b"A")
                    .unwrap();
                // While a crawl is in both sets, counts written by plain clients cannot be
                // distinguished from the module's counts.
                if is_settled {
                    world.plain_import_records(b"A", 10..13);
                    urls += 3;
                }
                if ours {
                    world.add(b"A", 30..32);
                    urls += 2;
                }
                if cut {
                    job = commit(b"A");
                }
                let done = world.run(job);
                assert!(done.is_ok(), "{done:?}");
                world.commit(b"A").unwrap();
                world.commit(b"A").unwrap();
                let at = format!("{continued} {ours} {cut} {steps}");
                assert_eq!(world.urls(), [urls, urls], "{at}");
                assert_eq!(figure(&world.check(), "ok"), 1, "{at}");
                world.remove(&[b"A"]).unwrap();
                assert_eq!(world.number(b"allcounts", b"totalUrls"), 0, "{at}");
            }
        }
    }
}

#[test]
fn plain_commit_during_our_commit_counts_once() {
    for steps in 1..5 {
        let mut world = World::new();
        world.plain_crawl(b"A", 0..6);
        let uncommitted = b"uncommittedcrawls".to_vec();
        world.ks.set_add(&uncommitted, b"A").unwrap();
        world.reopen();
        let mut job = commit(b"A");
        for _ in 0..steps {
            let step = job.step(&mut world.index, &mut world.ks, &mut || false);
            assert!(matches!(step, Ok(Step::More)), "{steps}");
        }
        world.ks.set_del(&uncommitted, b"A").unwrap();
        world.plain_put_back(b"A");
        world.run(job).unwrap();
        assert_eq!(world.urls(), [1, 1], "{steps}");
        assert_eq!(figure(&world.check(), "ok"), 1, "{steps}");
    }
}

#[test]
fn hash_added_by_an_importer_has_another_owner_before_the_next_commit() {
    let mut world = World::new();
    for crawl in [b"B", b"A"] {
        world.add(crawl, [usize::from(crawl[0])]);
        world.commit(crawl).unwrap();
    }
    world.plain_import(b"A", [usize::from(b'B')], "a.wacz");
    world.assert_ok();
    assert_eq!(world.remove(&[b"B"]), Ok(Reply::counts(&[1, 0, 1])));
    assert_eq!(world.owner(usize::from(b'B')), Some(b"A".to_vec()));
    world.assert_ok();
}

#[test]
fn sums_may_lack_sizes_of_concurrent_crawls() {
    let size = |world: &mut World| world.number(b"allcounts", b"totalCrawlSize");
    let mut world = World::new();
    world.plain_concurrent(b"A", [1], "a.wacz");
    world.plain_import(b"B", [2], "b.wacz");
    assert_eq!(figure(&world.check(), "ok"), 1);
    assert_eq!(size(&mut world), 10);
    // If the module committed or continued the crawl and then removes it, it does not subtract the
    // missing size.
    world.add(b"A", [3]);
    world.commit(b"A").unwrap();
    assert_eq!(figure(&world.check(), "ok"), 1);
    world.plain_concurrent(b"A", [4], "c.wacz");
    world.commit(b"A").unwrap();
    assert_eq!(figure(&world.check(), "ok"), 1);
    let keys = world.ks.keys.clone();
    world.remove(&[b"A"]).unwrap();
    assert_eq!(size(&mut world), 10);
    assert_eq!(figure(&world.check(), "ok"), 1);
    // A repair counts all sizes.
    world.ks.keys = keys;
    world.reopen();
    let found = world.repair();
    assert_eq!(
        (figure(&found, "countDrift"), figure(&found, "repaired")),
        (0, 1)
    );
    assert_eq!(size(&mut world), 210);
    world.remove(&[b"A"]).unwrap();
    assert_eq!(size(&mut world), 10);
    world.assert_ok();
    // Any other sum must be reported as an error.
    for wrong in [9, 11] {
        let sums = b"allcounts".to_vec();
        let field = b"totalCrawlSize";
        world.add(b"C", [9]);
        world.commit(b"C").unwrap();
        world
            .ks
            .hash_set(&sums, field, format!("{wrong}").as_bytes())
            .unwrap();
        world.reopen();
        let is_drift = i64::from(wrong > 10);
        assert_eq!(figure(&world.check(), "countDrift"), is_drift, "{wrong}");
    }
}

#[test]
fn size_that_we_committed_is_never_missing() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.plain_file(b"A", "a.wacz", 50);
    world.plain_count(b"A", b"totalCrawlSize", 50, false);
    world.commit(b"A").unwrap();
    let sums = b"allcounts".to_vec();
    world.ks.hash_set(&sums, b"totalCrawlSize", b"49").unwrap();
    world.reopen();
    assert_eq!(figure(&world.check(), "countDrift"), 1);
    world.repair();
    // The sizes that a concurrent crawl adds may be missing.
    world.plain_concurrent(b"A", [2], "b.wacz");
    for _ in 0..2 {
        assert_eq!(figure(&world.check(), "ok"), 1);
        world.commit(b"A").unwrap();
    }
    world.remove(&[b"A"]).unwrap();
    assert_eq!(world.number(b"allcounts", b"totalCrawlSize"), 0);
}

#[test]
fn repair_keeps_counts_that_plain_clients_add_meanwhile() {
    let mut world = World::new();
    let crawls: Vec<Vec<u8>> = (0..30).map(|n| format!("crawl-{n}").into_bytes()).collect();
    for (n, crawl) in crawls.iter().enumerate() {
        world.plain_import(crawl, [n], "a.wacz");
    }
    let sum = |world: &mut World| world.number(b"allcounts", b"totalUrls");
    let before = sum(&mut world);
    let mut job = check(true);
    let mut added = 0;
    while let Step::More = job
        .step(&mut world.index, &mut world.ks, &mut || false)
        .unwrap()
    {
        world.plain_count(&crawls[added % crawls.len()], b"totalUrls", 1, true);
        added += 1;
    }
    assert!(added > crawls.len(), "{added}");
    assert_eq!(sum(&mut world), before + added as i64);
    world.reopen();
    world.assert_ok();
}

#[test]
fn crawl_canceled_by_browsertrix_leaves_nothing_in_the_sums() {
    for by_cancel in [false, true] {
        for in_both in [false, true] {
            let mut world = World::new();
            world.plain_import(b"B", [2], "b.wacz");
            world.plain_concurrent(b"A", [1, 2], "a.wacz");
            let all = b"allcrawls".to_vec();
            if !in_both {
                world.ks.set_del(&all, b"A").unwrap();
            }
            let canceled = b"canceledcrawls".to_vec();
            world.ks.set_add(&canceled, b"A").unwrap();
            let sums = b"allcounts".to_vec();
            world.ks.hash_set(&sums, b"removedCrawls", b"3").unwrap();
            world
                .ks
                .hash_set(&sums, b"removedCrawlSize", b"107")
                .unwrap();
            world.reopen();
            assert_eq!(figure(&world.check(), "ok"), 1);
            if by_cancel && in_both {
                let error = world.cancel(b"A").unwrap_err();
                assert!(matches!(error, Error::Committed(_)));
                continue;
            }
            if by_cancel {
                world.cancel(b"A").unwrap();
            } else {
                world.remove(&[b"A"]).unwrap();
            }
            assert_eq!(world.number(b"allcounts", b"totalUrls"), 1);
            assert_eq!(world.number(b"allcounts", b"totalCrawlSize"), 10);
            assert_eq!(world.number(b"allcounts", b"removedCrawls"), 2);
            assert_eq!(world.number(b"allcounts", b"removedCrawlSize"), 7);
            assert_eq!(world.owner(2), Some(b"B".to_vec()));
            assert!(!world.ks.keys.contains_key(&canceled));
            world.assert_ok();
        }
    }
}

#[test]
fn crawl_canceled_by_browsertrix_is_a_holder_until_its_removal() {
    for by_cancel in [false, true] {
        let mut world = World::new();
        for crawl in [b"B", b"A"] {
            world.add(crawl, [1]);
            world.commit(crawl).unwrap();
        }
        world.ks.set_del(&b"allcrawls".to_vec(), b"A").unwrap();
        let canceled = b"canceledcrawls".to_vec();
        world.ks.set_add(&canceled, b"A").unwrap();
        world.reopen();
        world.assert_ok();
        if by_cancel {
            world.cancel(b"A").unwrap();
        } else {
            world.remove(&[b"A"]).unwrap();
        }
        world.assert_ok();
        let left = [&b"holders"[..], b"h:A:baseline"].map(|key| world.ks.keys.contains_key(key));
        assert_eq!(left, [false; 2]);
    }
}

#[test]
fn counts_of_canceled_crawls_may_be_in_the_sums_or_not() {
    let mut world = World::new();
    world.plain_import(b"C", [3], "c.wacz");
    world.plain_concurrent(b"A", [1], "a.wacz");
    for n in 0..2 {
        let crawl: &[u8] = if n == 0 { b"A" } else { b"B" };
        world.ks.set_del(&b"allcrawls".to_vec(), crawl).unwrap();
        world
            .ks
            .set_add(&b"canceledcrawls".to_vec(), crawl)
            .unwrap();
        if n == 0 {
            // A purge recomputes the sums of committed crawls.
            world.plain_begin_purge();
            world.plain_put_back(b"C");
            world.ks.delete(&b"to-remove-crawls".to_vec()).unwrap();
            world.reopen();
            world.repair();
            world.plain_concurrent(b"B", [2], "b.wacz");
        }
    }
    world.reopen();
    world.assert_ok();
    world.remove(&[b"A", b"B"]).unwrap();
    assert_eq!(world.number(b"allcounts", b"totalUrls"), 1);
    assert_eq!(world.number(b"allcounts", b"totalCrawlSize"), 10);
    world.assert_ok();
}

#[test]
fn commit_restores_a_crawl_canceled_by_browsertrix() {
    let mut world = World::new();
    world.plain_concurrent(b"A", [1, 2], "a.wacz");
    world.ks.set_del(&b"allcrawls".to_vec(), b"A").unwrap();
    world.ks.set_add(&b"canceledcrawls".to_vec(), b"A").unwrap();
    world
        .ks
        .hash_set(&b"allcounts".to_vec(), b"removedCrawls", b"1")
        .unwrap();
    world.reopen();
    world.commit(b"A").unwrap();
    assert_eq!(world.urls(), [2, 2]);
    assert_eq!(world.number(b"allcounts", b"removedCrawls"), 0);
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
    assert_eq!(figure(&world.check(), "ok"), 1);
}

impl World {
    /// Adds revisits without an original to a crawl, and counts them as Browsertrix's importer
    /// does.
    fn plain_waiting(&mut self, crawl: &[u8], spelling: &str, number: i64, bytes: i64) {
        for (end, n) in [("c", number), ("s", bytes)] {
            let name = format!("rev:{spelling}:{end}").into_bytes();
            self.ks.hash_add(&name, crawl, n).unwrap();
        }
        self.plain_count(crawl, b"totalUrls", number, true);
        self.plain_count(crawl, b"dupeUrls", number, true);
        let sums = b"allcounts".to_vec();
        self.ks.hash_set(&sums, b"updateProgress", b"0.5").unwrap();
        self.reopen();
    }

    fn saved(&mut self, crawl: &str) -> i64 {
        let name = format!("h:{crawl}:counts");
        self.number(name.as_bytes(), b"conservedSize")
    }
}

#[test]
fn commit_of_the_original_settles_pending_revisits() {
    let spelled = |n: usize| String::from_utf8(hash(n)).unwrap();
    for storage in Storage::ALL {
        for labelled in [false, true] {
            let mut world = World::new();
            let label = if labelled { "sha256:" } else { "" };
            let name = |n: usize| format!("{label}{}", spelled(n));
            // Crawls in every possible state, and a crawl without any keys.
            world.plain_import(b"settled", [10], "s.wacz");
            world.plain_import(b"continued", [11], "c.wacz");
            let waiting = ["settled", "continued", "open", "halfway", "own", "gone"];
            for (crawl, number) in waiting.iter().zip(1..) {
                world.plain_waiting(crawl.as_bytes(), &name(1), number, 100 * number);
                if matches!(*crawl, "open" | "own") {
                    // The sums do not include crawls that no importer has registered.
                    for field in [&b"totalUrls"[..], b"dupeUrls"] {
                        let sums = b"allcounts".to_vec();
                        world.ks.hash_add(&sums, field, -number).unwrap();
                    }
                    let open = b"uncommittedcrawls".to_vec();
                    world.ks.set_add(&open, crawl.as_bytes()).unwrap();
                }
            }
            world.ks.delete(&b"h:gone:counts".to_vec()).unwrap();
            // A revisit with more bytes than its original, and a revisit of a hash without any
            // original.
            world.plain_waiting(b"settled", &name(2), 1, 5000);
            world.plain_waiting(b"settled", &name(3), 1, 5);
            world.reopen();
            world.add(b"continued", [12]);
            world.add(b"own", [1, 2]);
            if storage == Storage::Packed {
                world.run(super::pack::move_to(storage)).unwrap();
            }
            world.commit(b"own").unwrap();
            for (crawl, number) in waiting[..5].iter().zip(1..) {
                assert_eq!(world.saved(crawl), number * 900, "{crawl}");
            }
            assert!(!world.ks.keys.contains_key(&b"h:gone:counts"[..]));
            let sum = |world: &mut World| world.number(b"allcounts", b"conservedSize");
            assert_eq!(sum(&mut world), 900 * (1 + 2 + 4 + 5));
            let left: Vec<_> = world
                .ks
                .keys
                .keys()
                .filter(|k| k.starts_with(b"rev:"))
                .collect();
            assert_eq!(left.len(), 2, "{left:?}");
            world.commit(b"continued").unwrap();
            assert_eq!(sum(&mut world), 900 * (1 + 2 + 4 + 5));
            world.commit(b"own").unwrap();
            assert_eq!(sum(&mut world), 900 * (1 + 2 + 4 + 5));
            world.commit(b"open").unwrap();
            assert_eq!(sum(&mut world), 900 * (1 + 2 + 3 + 4 + 5));
        }
    }
}

#[test]
fn interrupted_commit_settles_pending_revisits_once() {
    for steps in 1..10 {
        let mut world = World::new();
        world.plain_import(b"A", [10], "a.wacz");
        for n in 0..6 {
            let spelling = String::from_utf8(hash(n)).unwrap();
            world.plain_waiting(b"A", &spelling, 1, 100);
        }
        world.add(b"B", 0..6);
        let mut job = commit(b"B");
        for _ in 0..steps {
            let step = job.step(&mut world.index, &mut world.ks, &mut || false);
            if !matches!(step, Ok(Step::More)) {
                break;
            }
        }
        drop(job);
        world.reopen();
        world.commit(b"B").unwrap();
        assert_eq!(world.saved("A"), 6 * 900, "{steps}");
        world.assert_ok();
    }
}

#[test]
fn pending_revisits_are_settled_by_commits_of_any_size() {
    // With few records, the commit looks up each record. With many records, it first scans the key
    // names to find out whether any revisit is waiting.
    for records in [1, 15, 16, 400] {
        for waits in [false, true] {
            let mut world = World::new();
            world.plain_import(b"A", [1000], "a.wacz");
            if waits {
                let spelling = String::from_utf8(hash(0)).unwrap();
                world.plain_waiting(b"A", &spelling, 2, 100);
            }
            world.add(b"B", 0..records);
            world.commit(b"B").unwrap();
            let saved = if waits { 1900 } else { 0 };
            assert_eq!(world.saved("A"), saved, "{records}");
            world.assert_ok();
        }
    }
}

#[test]
fn keys_of_a_browsertrix_import_are_left_alone() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    let spelling = String::from_utf8(hash(7)).unwrap();
    world.plain_waiting(b"A", &spelling, 1, 100);
    world
        .ks
        .set_add(&b"noremove:1764349282000".to_vec(), b"A")
        .unwrap();
    world.reopen();
    let theirs = |world: &World| {
        let keys = world.ks.keys.iter();
        let theirs = keys.filter(|(k, _)| k.starts_with(b"rev:") || k.starts_with(b"noremove"));
        theirs
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<Vec<_>>()
    };
    let before = theirs(&world);
    assert_eq!(before.len(), 3);
    world.assert_ok();
    world.remove(&[b"A"]).unwrap();
    world.assert_ok();
    assert_eq!(theirs(&world), before);
}

fn figure(findings: &[(String, i64)], name: &str) -> i64 {
    let found = findings.iter().find(|(field, _)| field == name);
    found.unwrap_or_else(|| panic!("{name} in {findings:?}")).1
}

#[test]
fn repair_during_a_purge_deletes_nothing() {
    let mut world = World::new();
    for crawl in [b"A", b"B"] {
        world.plain_crawl(crawl, [1]);
        world.ks.set_add(&b"allcrawls".to_vec(), crawl).unwrap();
    }
    let merged = b"alldupes".to_vec();
    world.ks.hash_set(&merged, &hash(1), b"A").unwrap();
    world.plain_begin_purge();
    let before = world.ks.keys.clone();
    let found = world.check();
    assert_eq!(figure(&found, "leakedKeys"), 0);
    assert_eq!(figure(&found, "toRemoveCrawls"), 2);
    assert_eq!(figure(&found, "ok"), 0);
    assert_eq!(world.ks.keys, before);
    let found = world.repair();
    assert_eq!(figure(&found, "repaired"), 0);
    for (name, value) in &before {
        assert_eq!(world.ks.keys.get(name), Some(value));
    }
}

#[test]
fn repair_leaves_an_unlisted_crawl_alone() {
    let mut world = World::new();
    world.plain_crawl(b"A", [1, 2]);
    let before = world.ks.keys.clone();
    let found = world.repair();
    assert_eq!(figure(&found, "unlistedCrawls"), 1);
    assert_eq!(figure(&found, "leakedKeys"), 0);
    assert_eq!(figure(&found, "ok"), 1, "it may be a crawl that runs");
    for (name, value) in &before {
        assert_eq!(world.ks.keys.get(name), Some(value));
    }
    // If the caller names the crawl, the module removes it.
    assert_eq!(world.cancel(b"A"), Ok(Reply::count(2)));
    let left: Vec<_> = world.ks.keys.keys().collect();
    assert_eq!(left, [&b"crawlspace".to_vec()]);
}

#[test]
fn repair_deletes_leftover_keys_of_the_module() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.plain_begin_purge();
    for name in [&b"h:A"[..], b"h:A:counts", b"c:A:wacz", b"to-remove-crawls"] {
        world.ks.delete(&name.to_vec()).unwrap();
    }
    world.reopen();
    assert_eq!(figure(&world.check(), "leakedKeys"), 1);
    world.repair();
    assert_eq!(figure(&world.check(), "ok"), 1);
    let left: Vec<_> = world.ks.keys.keys().collect();
    assert_eq!(left, [&b"crawlspace".to_vec()]);
}

#[test]
fn repair_keeps_records_at_the_name_of_a_key_of_the_module() {
    let mut world = World::new();
    for ending in ["baseline", "added", "merging", "unstored", "deps", "seq"] {
        let crawl = format!("zz:{ending}").into_bytes();
        world.plain_import_records(&crawl, [1]);
        world.ks.set_add(&b"allcrawls".to_vec(), &crawl).unwrap();
    }
    world.reopen();
    let before = world.owner(1);
    assert!(before.is_some());
    world.repair();
    assert_eq!(world.owner(1), before);
    world.assert_ok();
}

#[test]
fn sums_beyond_the_range_of_integers_are_checked() {
    let mut world = World::new();
    for (crawl, n) in [(&b"A"[..], "9223372036854775807"), (b"B", "1")] {
        world.plain_import(crawl, [1], "a.wacz");
        let counts = key(&[b"h:", crawl, b":counts"]);
        world
            .ks
            .hash_set(&counts, b"totalUrls", n.as_bytes())
            .unwrap();
    }
    world.reopen();
    assert_eq!(figure(&world.repair(), "countDrift"), 1);
    assert_eq!(world.number(b"allcounts", b"totalUrls"), i64::MAX);
    world.assert_ok();
}

#[test]
fn removal_after_a_purge_loses_no_hash_of_another_crawl() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.add(b"B", [1]);
    world.commit(b"B").unwrap();
    world.plain_begin_purge();
    world.plain_put_back(b"B");
    world.plain_put_back(b"A");
    assert_eq!(world.owner(1), Some(b"B".to_vec()));
    assert_eq!(world.remove(&[b"B"]), Ok(Reply::counts(&[1, 0, 1])));
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
    world.repair();
    assert_eq!(figure(&world.check(), "ok"), 1);
}

#[test]
fn commit_during_a_purge_takes_nothing_from_a_restored_crawl() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.plain_begin_purge();
    world.add(b"C", [1]);
    world.commit(b"C").unwrap();
    world.plain_put_back(b"A");
    assert_eq!(world.owner(1), Some(b"C".to_vec()));
    world.remove(&[b"C"]).unwrap();
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
}

#[test]
fn commit_over_a_deleted_index_loses_nothing_permanently() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.ks.delete(&b"alldupes".to_vec()).unwrap();
    world.reopen();
    world.add(b"C", [1]);
    world.commit(b"C").unwrap();
    world.remove(&[b"C"]).unwrap();
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
}

#[test]
fn holder_lists_are_trusted_again_after_a_repair() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.plain_begin_purge();
    world.add(b"C", [1, 2]);
    world.commit(b"C").unwrap();
    assert!(!world.index.ledger.is_trusted());
    world.repair();
    assert!(!world.index.ledger.is_trusted(), "the purge goes on");
    world.plain_put_back(b"A");
    assert!(!world.index.ledger.is_trusted());
    world.repair();
    assert!(world.index.ledger.is_trusted());
    assert_eq!(world.remove(&[b"C"]), Ok(Reply::counts(&[1, 1, 1])));
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
}

#[test]
fn crawl_set_aside_by_a_purge_can_be_restored_or_removed() {
    let mut world = World::new();
    for crawl in [b"A", b"B"] {
        world.add(crawl, [1]);
        world.commit(crawl).unwrap();
    }
    world.plain_begin_purge();
    let purging = world.cancel(b"A").unwrap_err().to_string();
    assert!(purging.starts_with("PURGING "), "{purging}");
    world.commit(b"A").unwrap();
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
    world.remove(&[b"B"]).unwrap();
    assert!(!world.ks.keys.contains_key(&b"to-remove-crawls"[..]));
    assert!(!world.ks.keys.contains_key(&b"h:B"[..]));
    world.repair();
    assert_eq!(figure(&world.check(), "ok"), 1);
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
}

#[test]
fn crawl_committed_during_an_adoption_is_adopted_by_the_next_job() {
    let mut world = World::new();
    let plain_commit = |world: &mut World, crawl: &[u8]| {
        world.plain_crawl(crawl, 0..2);
        world.ks.set_add(&b"allcrawls".to_vec(), crawl).unwrap();
        world.reopen();
    };
    plain_commit(&mut world, b"a");
    plain_commit(&mut world, b"b");
    let mut adoption = Job::new(async |lent| adopt_all(&lent).await.map(|()| Reply::Ok));
    let (index, ks) = (&mut world.index, &mut world.ks);
    let step = adoption.step(index, ks, &mut || false);
    assert_eq!(step, Ok(Step::More));
    plain_commit(&mut world, b"later");
    world.run(adoption).unwrap();
    world.add(b"ours", 3..4);
    world.commit(b"ours").unwrap();
    let numbers = world
        .index
        .crawls
        .baseline(&mut world.ks, b"later")
        .numbers(&mut world.ks)
        .unwrap();
    assert_eq!(numbers.len(), 1);
}

#[test]
fn crawls_canceled_by_browsertrix_are_removed_with_the_others() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.plain_crawl(b"K", [1, 2]);
    let canceled = b"canceledcrawls".to_vec();
    world.ks.set_add(&canceled, b"K").unwrap();
    let merged = b"alldupes".to_vec();
    world.ks.hash_set(&merged, &hash(2), b"K").unwrap();
    world
        .ks
        .hash_add(&b"allcounts".to_vec(), b"totalUrls", 1)
        .unwrap();
    world.reopen();
    assert_eq!(figure(&world.check(), "ok"), 1);
    assert_eq!(figure(&world.repair(), "repaired"), 0);
    let keep = || vec![b"A".to_vec()];
    let tracked = world.run(retain(keep(), false));
    assert_eq!(tracked, Ok(Reply::counts(&[1, 0, 0])));
    let purged = world.run(retain(keep(), true));
    assert_eq!(purged, Ok(Reply::counts(&[1, 1, 0])));
    assert!(!world.ks.keys.contains_key(&canceled));
    assert!(!world.ks.keys.contains_key(&b"h:K"[..]));
    assert_eq!(figure(&world.check(), "ok"), 1);
}

#[test]
fn counts_of_the_browsertrix_importer_are_no_drift() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    let sums = b"allcounts".to_vec();
    for name in [&b"estimatedRedundantSize"[..], b"redundantUrls"] {
        world.ks.hash_add(&sums, name, 7).unwrap();
    }
    world.reopen();
    assert_eq!(figure(&world.check(), "ok"), 1);
    world.repair();
    let kept = world.ks.hash_get(&sums, b"redundantUrls").unwrap();
    assert_eq!(kept, Some(b"7".to_vec()));
}

#[test]
fn fields_of_no_crawl_in_the_counts_of_a_crawl_are_no_drift() {
    let mut world = World::new();
    for crawl in [b"A", b"B"] {
        world.add(crawl, [1]);
        world.plain_count(crawl, b"updateProgress", 1, false);
        world.plain_count(crawl, b"removedCrawls", 3, false);
        world.commit(crawl).unwrap();
        world.assert_ok();
        // The crawl is continued: its committed counts are in its baseline.
        world.add(crawl, [2]);
        world.assert_ok();
    }
    let sums = b"allcounts".to_vec();
    world.ks.hash_set(&sums, b"updateProgress", b"7").unwrap();
    world.reopen();
    world.commit(b"A").unwrap();
    world.cancel(b"B").unwrap();
    world.assert_ok();
    assert_eq!(figure(&world.repair(), "repaired"), 0);
    world.remove(&[b"A"]).unwrap();
    world.assert_ok();
    assert_eq!(world.number(b"allcounts", b"updateProgress"), 7);
    assert_eq!(world.number(b"allcounts", b"removedCrawls"), 0);
}

#[test]
fn lowest_integer_is_a_count() {
    let mut world = World::new();
    world.plain_import(b"A", [1], "a.wacz");
    let counts = b"h:A:counts".to_vec();
    let lowest = i64::MIN.to_string();
    for key in [&counts, &b"allcounts".to_vec()] {
        let set = world.ks.hash_set(key, b"totalUrls", lowest.as_bytes());
        set.unwrap();
    }
    world.reopen();
    world.assert_ok();
    assert_eq!(figure(&world.repair(), "repaired"), 0);
    assert_eq!(world.urls(), [i64::MIN; 2]);
    world.add(b"A", [2]);
    world.commit(b"A").unwrap();
    assert_eq!(world.urls(), [i64::MIN + 1; 2]);
    world.assert_ok();
    world.remove(&[b"A"]).unwrap();
    world.assert_ok();
}

#[test]
fn stats_include_a_crawl_that_can_be_committed() {
    let mut world = World::new();
    world.plain_crawl(b"A", [1, 2]);
    let stats = crawl_stats(&mut world.index, &mut world.ks, b"A");
    let Ok(Reply::Map(stats)) = stats else {
        panic!("{stats:?}")
    };
    assert_eq!(stats[0].1, Reply::bulk("unlisted"));
    assert_eq!(stats[1].1, Reply::Int(2));
}

#[test]
fn bare_hashes_of_uncommitted_crawls_determine_the_profile() {
    for announced in [true, false] {
        let mut world = World::new();
        world.plain_crawl(b"A", [1]);
        if announced {
            let set = b"uncommittedcrawls".to_vec();
            world.ks.set_add(&set, b"A").unwrap();
        }
        let document = Layout::default();
        world.index = Index::open(&mut world.ks, b"", document, false).unwrap();
        world.commit(b"A").unwrap();
        assert_eq!(world.index.profile(), Profile::Browsertrix);
        assert!(world.ks.keys.contains_key(&b"alldupes"[..]));
        assert!(!world.ks.keys.contains_key(&b"allhashes"[..]));
        assert_eq!(world.owner(1), Some(b"A".to_vec()));
    }
}

#[test]
fn repair_after_an_interrupted_removal_does_not_change_the_result() {
    let replies = [false, true].map(|repair| {
        let mut world = World::new();
        for (crawl, hashes) in [(b"A", 0..20), (b"B", 10..30)] {
            world.add(crawl, hashes);
            world.commit(crawl).unwrap();
        }
        let mut job = remove(vec![b"A".to_vec()]);
        let (index, ks) = (&mut world.index, &mut world.ks);
        while ks.hash_len(&b"alldupes".to_vec()) == Ok(30) {
            let step = job.step(index, ks, &mut || false);
            assert!(matches!(step, Ok(Step::More)));
        }
        world.reopen();
        let found = world.check();
        assert_eq!(figure(&found, "interrupted"), 1);
        for fault in ["missingHashes", "staleHolders", "hiddenOwners"] {
            assert_eq!(figure(&found, fault), 0, "{found:?}");
        }
        if repair {
            assert_eq!(figure(&world.repair(), "repaired"), 0);
        }
        let reply = world.remove(&[b"A"]);
        assert_eq!(figure(&world.check(), "ok"), 1);
        reply
    });
    assert_eq!(replies[0], Ok(Reply::counts(&[1, 10, 10])));
    assert_eq!(replies[1], replies[0]);
}

#[test]
fn repair_of_holders_in_another_spelling_terminates() {
    let mut world = World::new();
    for crawl in [b"A", b"B"] {
        world.add(crawl, [1]);
        world.commit(crawl).unwrap();
    }
    let holders = b"holders".to_vec();
    let foreign = [b"SHA-256:", &hash(1)[..]].concat();
    world.ks.hash_set(&holders, &foreign, b"9").unwrap();
    world.reopen();
    world.repair();
    assert_eq!(figure(&world.check(), "ok"), 1);
    let Some(Plain::Hash(left)) = world.ks.keys.get(&holders) else {
        panic!("holders are there");
    };
    assert_eq!(left.len(), 1);
    world.remove(&[b"A"]).unwrap();
    assert_eq!(world.owner(1), Some(b"B".to_vec()));
}

#[test]
fn index_with_a_prefix_like_a_crawl_key_is_left_alone() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    let mut other = Index::open(&mut world.ks, b"h:", Profile::Document, true).unwrap();
    for crawl in [b"A", b"B"] {
        let response = [Response {
            digest: Digest::parse(&hash(1)).unwrap(),
            record: Record::parse(RECORD).unwrap(),
        }];
        let how = Adding::default();
        other.add(&mut world.ks, crawl, &response, how, 1).unwrap();
        run(commit(crawl), &mut other, &mut world.ks).unwrap();
    }
    // A claim has the syntax of a record.
    let claims = b"h:claims".to_vec();
    let canonical = [b"sha256:", &hash(1)[..]].concat();
    let claim = b"1 1700000000000 c1";
    world.ks.hash_set(&claims, &canonical, claim).unwrap();
    let found = world.check();
    assert_eq!(figure(&found, "leakedKeys"), 0, "{found:?}");
    assert_eq!(figure(&found, "unlistedCrawls"), 0, "{found:?}");
}
