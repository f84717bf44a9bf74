//! A look-up sees none or all of a crawl that is being committed, on the master and on a replica.

use std::sync::atomic::{AtomicBool, Ordering};

use redis_tests::{
    Crawl, Options, Server, add, assert_consistent, begin_job, commit, int, ok, owners, until,
};

const P: &str = "p:";
const HASHES: u64 = 60_000;

fn sample(crawl: &Crawl<'_>) -> Vec<u64> {
    (0..crawl.hashes)
        .step_by(331)
        .map(|i| crawl.first + i)
        .collect()
}

/// Looks the sample up again and again until `done` and some calls more; gives how many calls saw
/// none and how many saw all.
fn watch(server: &Server, crawl: &Crawl<'_>, done: &AtomicBool) -> (usize, usize) {
    let mut c = server.wire();
    let sample = sample(crawl);
    let (mut none, mut all) = (0, 0);
    until("all hashes are visible", || {
        let seen = owners(&mut c, P, sample.iter().copied());
        let found = seen.iter().filter(|o| *o == crawl.id).count();
        match found {
            0 => {
                assert_eq!(all, 0, "hashes disappeared again");
                none += 1;
            }
            n if n == sample.len() => all += 1,
            n => panic!("one look-up saw {n} of {} hashes", sample.len()),
        }
        done.load(Ordering::Relaxed) && all > 3
    });
    (none, all)
}

fn race(server: &Server, watched: &[&Server], crawl: &Crawl<'_>) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watchers: Vec<_> = watched
            .iter()
            .map(|s| scope.spawn(|| watch(s, crawl, &done)))
            .collect();
        let reply = commit(&mut server.wire(), P, crawl.id);
        done.store(true, Ordering::Relaxed);
        assert_eq!(reply.0 + reply.1, crawl.hashes as i64);
        for watcher in watchers {
            let (none, _) = watcher.join().expect("the watcher is content");
            assert!(none > 0, "no look-up ran during the commit");
        }
    });
}

#[test]
fn lookups_during_a_commit_see_none_or_all() {
    let server = Server::start();
    let crawl = Crawl::of(P, "a", 0..HASHES);
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    crawl.add(&mut c);
    race(&server, &[&server], &crawl);
    assert_consistent(&mut c, P);
}

#[test]
fn lookups_on_a_replica_during_a_commit_see_none_or_all() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let crawl = Crawl::of(P, "a", 0..HASHES);
    crawl.add(&mut server.wire());
    server.wait_for_replica_offset(&replica);
    race(&server, &[&server, &replica], &crawl);
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn continued_crawl_keeps_its_old_hashes_visible_and_shows_the_new_ones_at_once() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add(&mut c, P, "a", 10_000_000..10_000_100);
    commit(&mut c, P, "a");
    let more = Crawl::of(P, "a", 0..HASHES);
    more.add(&mut c);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let old = scope.spawn(|| {
            let mut c = server.wire();
            while !done.load(Ordering::Relaxed) {
                let seen = owners(&mut c, P, 10_000_000..10_000_100);
                assert!(seen.iter().all(|o| o == "a"), "an old hash vanished");
            }
        });
        let new = scope.spawn(|| watch(&server, &more, &done));
        let reply = commit(&mut server.wire(), P, "a");
        done.store(true, Ordering::Relaxed);
        assert_eq!(reply, (HASHES as i64, 0));
        old.join().expect("old hashes stay");
        assert!(new.join().expect("new hashes come at once").0 > 0);
    });
}

#[test]
fn own_crawl_sees_its_hashes_during_its_commit() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let crawl = Crawl::of(P, "a", 0..HASHES);
    crawl.add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    let mut calls = 0;
    while ok!(c, "SISMEMBER", "p:allcrawls", "a") == int(0) {
        let mut words = vec![
            "DEDUPE.LOOKUP".to_owned(),
            P.into(),
            "CRAWL".into(),
            "a".into(),
        ];
        words.extend(sample(&crawl).into_iter().map(redis_tests::sha256_of));
        let seen = c.expect_ok(&words);
        assert!(seen.items().iter().all(|r| !r.is_nil()));
        calls += 1;
    }
    assert!(calls > 0);
    assert_eq!(committer.recv().ints(), [HASHES as i64, 0]);
}

#[test]
fn shared_hash_is_never_missing_while_its_owner_is_removed() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for id in ["a", "b"] {
        Crawl::of(P, id, 0..24_000).add(&mut c);
        commit(&mut c, P, id);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut c = server.wire();
            let mut calls = 0;
            while !done.load(Ordering::Relaxed) {
                let seen = owners(&mut c, P, (0..24_000).step_by(331));
                assert!(seen.iter().all(|o| o == "a" || o == "b"), "{seen:?}");
                calls += 1;
            }
            calls
        });
        let reply = ok!(server.wire(), "DEDUPE.REMOVE", P, "a").ints();
        done.store(true, Ordering::Relaxed);
        assert_eq!(reply, [1, 0, 24_000]);
        assert!(watcher.join().expect("look-ups go on") > 0);
    });
    assert_eq!(owners(&mut c, P, [0, 23_999]), ["b", "b"]);
    assert_consistent(&mut c, P);
}

#[test]
fn lookups_during_a_removal_see_all_or_none() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let crawl = Crawl::of(P, "a", 0..HASHES);
    crawl.add(&mut c);
    commit(&mut c, P, "a");
    let mut remover = server.wire();
    remover.send(&["DEDUPE.REMOVE", P, "a"]);
    let (mut looks, mut gone) = (0, false);
    while !remover.has_reply() {
        let mut seen = owners(&mut c, P, sample(&crawl));
        seen.dedup();
        assert_eq!(seen.len(), 1, "look {looks} saw a part of the crawl");
        assert!(!gone || seen == ["-"], "the crawl came back");
        gone = seen == ["-"];
        looks += 1;
    }
    assert!(looks > 10, "only {looks} looks during the removal");
    assert_eq!(remover.recv().ints(), [1, HASHES as i64, 0]);
    assert_consistent(&mut c, P);
}
