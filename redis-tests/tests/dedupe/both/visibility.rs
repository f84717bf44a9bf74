//! A look-up sees either all or none of a crawl that is being committed, on the master and on a
//! replica.

use std::sync::atomic::{AtomicBool, Ordering};

use redis_tests::{DedupeIndex, Options, Server, assert_replicated, int, until};

const P: &str = "p:";
const HASHES: u64 = 60_000;

/// Returns a sample of the hashes of crawl `a`.
fn sample() -> std::iter::StepBy<std::ops::Range<u64>> {
    (0..HASHES).step_by(331)
}

/// Looks up the sample repeatedly until `done` is true, and then a few more times. Returns how many
/// calls found none of the hashes, and how many found all of them.
fn watch(server: &Server, done: &AtomicBool) -> (usize, usize) {
    let mut c = DedupeIndex::of(server, P);
    let (mut none, mut all) = (0, 0);
    until("all hashes are visible", || {
        let found = c.owners(sample()).iter().filter(|o| *o == "a").count();
        match found {
            0 => {
                assert_eq!(all, 0, "hashes disappeared again");
                none += 1;
            }
            n if n == sample().count() => all += 1,
            n => panic!("one look-up saw {n} of {} hashes", sample().count()),
        }
        done.load(Ordering::Relaxed) && all > 3
    });
    (none, all)
}

fn race<const N: usize>(c: &mut DedupeIndex, watched: [&Server; N]) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchers = watched.map(|server| scope.spawn(|| watch(server, &done)));
        let reply = c.commit("a");
        done.store(true, Ordering::Relaxed);
        assert_eq!(reply, (HASHES as i64, 0));
        for watcher in watchers {
            let (none, _) = watcher.join().expect("the watcher finds no error");
            assert!(none > 0, "no look-up ran during the commit");
        }
    });
}

#[test]
fn lookups_during_a_commit_see_none_or_all() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..HASHES);
    race(&mut c, [&server]);
    c.assert_consistent();
}

#[test]
fn lookups_on_a_replica_during_a_commit_see_none_or_all() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new(), P);
    c.add("a", 0..HASHES);
    server.wait_for_replica_offset(&replica);
    race(&mut c, [&server, &replica]);
    assert_replicated(&server, &replica);
}

#[test]
fn continued_crawl_keeps_its_old_hashes_visible_and_shows_the_new_ones_at_once() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    c.committed("a", 10_000_000..10_000_100);
    c.add("a", 0..HASHES);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let old = scope.spawn(|| {
            let mut c = DedupeIndex::of(&server, P);
            while !done.load(Ordering::Relaxed) {
                let seen = c.owners(10_000_000..10_000_100);
                assert!(
                    seen.iter().all(|o| o == "a"),
                    "an old hash became invisible"
                );
            }
        });
        let new = scope.spawn(|| watch(&server, &done));
        let reply = c.commit("a");
        done.store(true, Ordering::Relaxed);
        assert_eq!(reply, (HASHES as i64, 0));
        old.join().expect("old hashes stay");
        assert!(
            new.join()
                .expect("all new hashes become visible together")
                .0
                > 0
        );
    });
}

#[test]
fn own_crawl_sees_its_hashes_during_its_commit() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..HASHES);
    let mut committer = c.begun("COMMIT a");
    let mut calls = 0;
    let hashes: String = sample().map(|n| format!(" #{n}")).collect();
    while c.plain("SISMEMBER p:allcrawls a") == int(0) {
        let seen = c.ok(format!("LOOKUP CRAWL a{hashes}"));
        assert!(seen.items().iter().all(|r| !r.is_nil()));
        calls += 1;
    }
    assert!(calls > 0);
    assert_eq!(committer.recv().ints(), [HASHES as i64, 0]);
}

#[test]
fn shared_hash_is_never_missing_while_its_owner_is_removed() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    for id in ["a", "b"] {
        c.committed(id, 0..24_000);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut c = DedupeIndex::of(&server, P);
            let mut calls = 0;
            while !done.load(Ordering::Relaxed) {
                let seen = c.owners((0..24_000).step_by(331));
                assert!(seen.iter().all(|o| o == "a" || o == "b"), "{seen:?}");
                calls += 1;
            }
            calls
        });
        let reply = c.ok("REMOVE a").ints();
        done.store(true, Ordering::Relaxed);
        assert_eq!(reply, [1, 0, 24_000]);
        assert!(watcher.join().expect("look-ups go on") > 0);
    });
    assert_eq!(c.owners([0, 23_999]), ["b", "b"]);
    c.assert_consistent();
}

#[test]
fn lookups_during_a_removal_see_all_or_none() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.committed("a", 0..HASHES);
    let mut remover = c.sent("REMOVE a");
    let (mut looks, mut gone) = (0, false);
    while !remover.has_reply() {
        let mut seen = c.owners(sample());
        seen.dedup();
        assert_eq!(seen.len(), 1, "look-up {looks} saw a part of the crawl");
        assert!(!gone || seen == ["-"], "the crawl came back");
        gone = seen == ["-"];
        looks += 1;
    }
    assert!(looks > 10, "only {looks} look-ups during the removal");
    assert_eq!(remover.recv().ints(), [1, HASHES as i64, 0]);
    c.assert_consistent();
}
