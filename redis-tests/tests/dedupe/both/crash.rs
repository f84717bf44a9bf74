//! `kill -9` in the middle of a commit and of a removal: running it again finishes it, and the
//! data set is that of an undisturbed run.

use redis_tests::{
    Crawl, Options, Reply, Server, Wire, add, array, assert_consistent, commit, indexed, int, ok,
    owners, plain_hash, sha256_of, until,
};

const P: &str = "p:";
const HASHES: u64 = 80_000;

/// A committed crawl, and a large uncommitted one that shares 16 000 hashes with it.
fn build(c: &mut Wire) -> (Crawl<'static>, Crawl<'static>) {
    let first = Crawl::of(P, "first", 0..16_000);
    let big = Crawl::of(P, "big", 0..HASHES);
    first.add(c);
    assert_eq!(commit(c, P, "first"), (16_000, 0));
    big.add(c);
    (first, big)
}

/// Waits until a running commit has written `share` of its owners (beyond those of `first`).
fn until_indexed(server: &Server, at_least: i64) {
    let mut c = server.wire();
    until("the job is half way", || indexed(&mut c, P) >= at_least);
}

fn commit_survives_kill9(preamble: bool) {
    let options = Options::new().module_args(&["slice-us", "50"]);
    let mut server = options.aof_unsynced(preamble).start();
    build(&mut server.wire());
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "big"]);
    until_indexed(&server, 40_000);
    server.kill_under(&mut committer);
    let mut c = server.wire();
    assert_eq!(ok!(c, "HEXISTS", "p:committing", "big"), int(1));
    assert_eq!(owners(&mut c, P, [0, 32_000, 79_999]), ["first", "-", "-"]);
    assert_eq!(commit(&mut c, P, "big"), (64_000, 16_000));
    assert_eq!(
        owners(&mut c, P, [0, 32_000, 79_999]),
        ["first", "big", "big"]
    );
    assert_eq!(commit(&mut c, P, "big"), (0, 0));
    assert_consistent(&mut c, P);

    let undisturbed = Server::start();
    let mut u = undisturbed.wire();
    build(&mut u);
    assert_eq!(commit(&mut u, P, "big"), (64_000, 16_000));
    small(&server).assert_same(&small(&undisturbed), "crashed and undisturbed commit");
    assert_eq!(server.digest(), undisturbed.digest());

    // How many of the shared hashes have gone to their next holder.
    let moved = |c: &mut Wire| match ok!(c, "HGET", "p:removing", "") {
        Reply::Nil => 0,
        figures => figures
            .text()
            .split(' ')
            .nth(2)
            .map_or(0, |n| n.parse().unwrap()),
    };
    // The same server again, now in the middle of removing the crawl that owns the shared part.
    let remove = ["DEDUPE.REMOVE", P, "first"];
    let mut remover = server.wire();
    remover.send(&remove);
    until("the removal is half way", || moved(&mut c) >= 3_200);
    server.kill_under(&mut remover);
    let mut c = server.wire();
    assert_eq!(ok!(c, "EXISTS", "p:removing"), int(1));
    // No owner whose record is gone is ever shown.
    let seen = owners(&mut c, P, (0..16_000).step_by(401));
    assert!(seen.iter().all(|o| o == "first" || o == "big"), "{seen:?}");
    let (again, undisturbed_reply) = (
        ok!(c, &remove[0], P, "first"),
        ok!(u, &remove[0], P, "first"),
    );
    assert_eq!(again, undisturbed_reply);
    assert_eq!(again, array([int(1), int(0), int(16_000)]));
    let (crashed, whole) = (small(&server), small(&undisturbed));
    let crashed = crashed.without_counters();
    crashed.assert_same(&whole.without_counters(), "crashed and undisturbed removal");
    let big = [
        "DEBUG",
        "DIGEST-VALUE",
        "p:allhashes",
        "p:h:big",
        "p:holders",
    ];
    assert_eq!(c.expect_ok(&big), u.expect_ok(&big));
    assert_consistent(&mut c, P);
}

/// Everything but the keys with hundreds of thousands of members.
fn small(server: &Server) -> redis_tests::Snapshot {
    let mut c = server.wire();
    let keys = ok!(c, "KEYS", "*").texts();
    let lengths: Vec<(String, i64)> = keys
        .into_iter()
        .map(|key| {
            let len = match ok!(c, "TYPE", key).text().as_str() {
                "hash" => ok!(c, "HLEN", key).int(),
                _ => 0,
            };
            (key, len)
        })
        .collect();
    let big = |key: &[u8]| {
        lengths
            .iter()
            .any(|(k, n)| k.as_bytes() == key && *n > 2000)
    };
    redis_tests::Snapshot::of_keys(&mut c, |key| !big(key))
}

#[test]
fn killed_jobs_finish_after_an_append_only_file_with_preamble() {
    commit_survives_kill9(true);
}

#[test]
fn killed_jobs_finish_after_an_append_only_file_without_preamble() {
    commit_survives_kill9(false);
}

#[test]
fn killed_commit_can_be_canceled() {
    let mut server = Options::new().aof_unsynced(true).start();
    let mut c = server.wire();
    add(&mut c, P, "base", 0..100);
    commit(&mut c, P, "base");
    let before = server.snapshot();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "big", 50..40_050).add(&mut c);
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "big"]);
    until_indexed(&server, 12_000);
    server.kill_under(&mut committer);
    let mut c = server.wire();
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "big"), int(40_000));
    let after = server.snapshot().without_counters();
    after.assert_same(&before.without_counters(), "CANCEL after a partial commit");
    assert_consistent(&mut c, P);
}

#[test]
fn killed_cancel_finishes_when_run_again() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut c = server.wire();
    add(&mut c, P, "base", 0..100);
    commit(&mut c, P, "base");
    let before = server.snapshot();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "big", 50..120_050).add(&mut c);
    let mut canceler = server.wire();
    canceler.send(&["DEDUPE.CANCEL", P, "big"]);
    until("the cancel is under way", || {
        ok!(c, "EXISTS", "p:removing") == int(1) || ok!(c, "EXISTS", "p:h:big") == int(0)
    });
    server.kill9();
    server.restart();
    let mut c = server.wire();
    // If the kill came a moment too late, the crawl is gone already.
    let again = c.call(&["DEDUPE.CANCEL", P, "big"]);
    assert!(again.is_error() || again == int(120_000), "{again:?}");
    let after = server.snapshot().without_counters();
    after.assert_same(&before.without_counters(), "CANCEL run again");
    assert_consistent(&mut c, P);
}

#[test]
fn killed_continuation_keeps_the_first_part_visible() {
    let mut server = Options::new().aof_unsynced(true).start();
    let mut c = server.wire();
    add(&mut c, P, "a", 1_000_000..1_000_100);
    commit(&mut c, P, "a");
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until_indexed(&server, 12_000);
    server.kill_under(&mut committer);
    let mut c = server.wire();
    assert_eq!(owners(&mut c, P, [1_000_000, 0, 39_999]), ["a", "-", "-"]);
    assert_eq!(commit(&mut c, P, "a"), (40_000, 0));
    assert_eq!(owners(&mut c, P, [1_000_000, 0, 39_999]), ["a", "a", "a"]);
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalUrls").text(), "40100");
    assert_consistent(&mut c, P);
}

#[test]
fn sequence_numbers_survive_a_crash() {
    let mut server = Options::new().aof(false).start();
    let mut c = server.wire();
    let words: Vec<Vec<u8>> = ["DEDUPE.ADD", P, "a", "SEQ", "w1", "7"]
        .iter()
        .map(|w| w.as_bytes().to_vec())
        .chain((0..3).flat_map(redis_tests::words_of))
        .collect();
    assert_eq!(c.expect_ok(&words), int(3));
    let before = server.digest();
    server.kill9();
    server.restart();
    let mut c = server.wire();
    assert_eq!(c.expect_ok(&words), int(3), "the stored reply");
    assert_eq!(server.digest(), before);
    assert!(plain_hash(&mut c, P, "h:a").contains_key(&sha256_of(2)));
}

/// A server that died in the middle of committing `a` (24 000 hashes, from 0), with `base` (every
/// hash from 0 to 99, from 1 000 000 to 1 000 099) committed before and `b` (12 000 to 36 000) open.
fn died_in_a_commit() -> Server {
    let mut server = Options::new().aof_unsynced(true).start();
    let mut c = server.wire();
    add(&mut c, P, "base", (0..100).chain(1_000_000..1_000_100));
    commit(&mut c, P, "base");
    Crawl::of(P, "b", 12_000..36_000).add(&mut c);
    Crawl::of(P, "a", 0..24_000).add(&mut c);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until_indexed(&server, 8_000);
    server.kill_under(&mut committer);
    server
}

#[test]
fn another_commit_between_the_crash_and_the_retry_comes_first() {
    let server = died_in_a_commit();
    let mut c = server.wire();
    assert_eq!(commit(&mut c, P, "b"), (24_000, 0));
    assert_eq!(
        owners(&mut c, P, [50, 8_000, 12_000, 35_999]),
        ["base", "-", "b", "b"]
    );
    assert_eq!(commit(&mut c, P, "a"), (11_900, 12_100));
    assert_eq!(
        owners(&mut c, P, [50, 8_000, 12_000, 35_999]),
        ["base", "a", "b", "b"]
    );
    assert_consistent(&mut c, P);
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "b").ints(), [1, 12_000, 12_000]);
    assert_eq!(owners(&mut c, P, [8_000, 12_000, 35_999]), ["a", "a", "-"]);
    assert_consistent(&mut c, P);
}

#[test]
fn a_removal_between_the_crash_and_the_retry_is_taken_into_account() {
    let server = died_in_a_commit();
    let mut c = server.wire();
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "base").ints(), [1, 200, 0]);
    assert_eq!(owners(&mut c, P, [50, 8_000]), ["-", "-"]);
    assert_eq!(commit(&mut c, P, "a"), (24_000, 0));
    assert_eq!(owners(&mut c, P, [50, 8_000, 1_000_000]), ["a", "a", "-"]);
    assert_consistent(&mut c, P);
}

#[test]
fn records_added_between_the_crash_and_the_retry_are_committed_too() {
    let server = died_in_a_commit();
    let mut c = server.wire();
    assert_eq!(add(&mut c, P, "a", 2_000_000..2_000_010), 10);
    assert_eq!(commit(&mut c, P, "a"), (23_910, 100));
    assert_eq!(
        owners(&mut c, P, [50, 8_000, 2_000_005]),
        ["base", "a", "a"]
    );
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalUrls").text(), "24210");
    assert_consistent(&mut c, P);
}
