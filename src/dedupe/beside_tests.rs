//! What other programs do to an index between our commands: nothing that a crawl holds is lost by it.

use crate::dedupe::store::MemoryKeyspace;
use crawlspace_host::keyspace::Keyspace;
use crawlspace_host::keyspace::memory::Plain;
use crawlspace_host::reply::Reply;

use super::add::{Adding, Response};
use super::check::check;
use super::commit::commit;
use super::digest::Digest;
use super::error::Error;
use super::index::Index;
use super::index::storage::{Layout, Storage};
use super::job::{Job, Step, adopt};
use super::profile::Profile;
use super::record::Record;
use super::removal::{cancel, check_cancelable, check_removable, remove, retain};
use super::tests::run;

type MemoryIndex = Index<MemoryKeyspace>;

/// An index of the Browsertrix profile with prefix ``, and the keys that it is in.
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

    /// Opens the index anew, as the server does after another client's change.
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

fn figure(findings: &[(String, i64)], name: &str) -> i64 {
    let found = findings.iter().find(|(field, _)| field == name);
    found.unwrap_or_else(|| panic!("{name} in {findings:?}")).1
}

#[test]
fn repair_in_the_middle_of_their_purge_deletes_nothing() {
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
fn repair_leaves_a_crawl_alone_that_is_in_no_set() {
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
    // Named by the caller it goes.
    assert_eq!(world.cancel(b"A"), Ok(Reply::count(2)));
    let left: Vec<_> = world.ks.keys.keys().collect();
    assert_eq!(left, [&b"crawlspace".to_vec()]);
}

#[test]
fn repair_deletes_what_a_plain_client_left_of_our_own_keys() {
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
fn a_removal_after_their_purge_loses_no_hash_that_another_crawl_holds() {
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
fn a_commit_beside_their_purge_takes_nothing_from_a_crawl_that_comes_back() {
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
fn a_commit_over_a_deleted_index_takes_nothing_for_good() {
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
fn lists_of_holders_are_trusted_again_after_a_repair() {
    let mut world = World::new();
    world.add(b"A", [1]);
    world.commit(b"A").unwrap();
    world.plain_begin_purge();
    world.add(b"C", [1, 2]);
    world.commit(b"C").unwrap();
    assert!(!world.index.holders_are_trusted());
    world.repair();
    assert!(!world.index.holders_are_trusted(), "the purge goes on");
    world.plain_put_back(b"A");
    assert!(!world.index.holders_are_trusted());
    world.repair();
    assert!(world.index.holders_are_trusted());
    assert_eq!(world.remove(&[b"C"]), Ok(Reply::counts(&[1, 1, 1])));
    assert_eq!(world.owner(1), Some(b"A".to_vec()));
}

#[test]
fn a_crawl_that_their_purge_set_aside_can_be_put_back_or_removed() {
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
fn a_crawl_that_is_committed_while_others_are_adopted_is_adopted_by_the_next_job() {
    let mut world = World::new();
    let plain_commit = |world: &mut World, crawl: &[u8]| {
        world.plain_crawl(crawl, 0..2);
        world.ks.set_add(&b"allcrawls".to_vec(), crawl).unwrap();
        world.reopen();
    };
    plain_commit(&mut world, b"a");
    plain_commit(&mut world, b"b");
    let mut adoption = Job::new(async |lent| adopt(&lent).await.map(|()| Reply::Ok));
    let (index, ks) = (&mut world.index, &mut world.ks);
    let step = adoption.step(index, ks, &mut || false);
    assert_eq!(step, Ok(Step::More));
    plain_commit(&mut world, b"later");
    world.run(adoption).unwrap();
    world.add(b"ours", 3..4);
    world.commit(b"ours").unwrap();
    let numbers = world.index.numbers_of(&mut world.ks, b"later").unwrap();
    assert_eq!(numbers.len(), 1);
}

#[test]
fn canceled_crawls_of_theirs_are_removed_with_the_others() {
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
fn what_only_their_importer_counts_is_no_drift() {
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
fn figures_are_given_of_a_crawl_that_can_be_committed() {
    let mut world = World::new();
    world.plain_crawl(b"A", [1, 2]);
    let stats = world.index.crawl_stats(&mut world.ks, b"A");
    let Ok(Reply::Map(stats)) = stats else {
        panic!("{stats:?}")
    };
    assert_eq!(stats[0].1, Reply::bulk("unlisted"));
    assert_eq!(stats[1].1, Reply::Int(2));
}

#[test]
fn bare_fields_of_uncommitted_crawls_tell_the_profile() {
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
fn a_repair_after_a_removal_cut_short_changes_nothing_of_its_outcome() {
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
fn a_repair_of_holders_in_another_spelling_ends() {
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
fn an_index_whose_prefix_looks_like_a_crawl_is_left_alone() {
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
    // A claim reads like a record.
    let claims = b"h:claims".to_vec();
    let canonical = [b"sha256:", &hash(1)[..]].concat();
    let claim = b"1 1700000000000 c1";
    world.ks.hash_set(&claims, &canonical, claim).unwrap();
    let found = world.check();
    assert_eq!(figure(&found, "leakedKeys"), 0, "{found:?}");
    assert_eq!(figure(&found, "unlistedCrawls"), 0, "{found:?}");
}
