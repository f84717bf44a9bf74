//! `kill -9` during a commit or a removal: the same command completes the interrupted job, and the
//! data set equals that of an undisturbed run.

use redis_tests::{DedupeIndex, Options, Reply, Server, Snapshot, cmd, int, sha256_of, until};

const P: &str = "p:";
const HASHES: u64 = 80_000;

/// Creates a committed crawl, and a large uncommitted crawl that shares 16 000 hashes with it.
fn build(c: &mut DedupeIndex) {
    assert_eq!(c.committed("first", 0..16_000), (16_000, 0));
    c.add("big", 0..HASHES);
}

/// Sends a commit and kills the server when this many hashes have an owner.
fn killed_in_commit(server: &mut Server, crawl: &str, at_least: i64) -> DedupeIndex {
    let mut c = DedupeIndex::of(server, P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    let mut committer = c.sent(format!("COMMIT {crawl}"));
    until("the job is half way", || c.indexed() >= at_least);
    server.kill_under(&mut committer);
    DedupeIndex::of(server, P)
}

fn commit_survives_kill9(preamble: bool) {
    let options = Options::new().module_args(&["slice-us", "50"]);
    let (mut server, mut c) = DedupeIndex::on(options.aof_unsynced(preamble), P);
    build(&mut c);
    let mut c = killed_in_commit(&mut server, "big", 40_000);
    assert_eq!(c.plain("HEXISTS p:committing big"), int(1));
    assert_eq!(c.owners([0, 32_000, 79_999]), ["first", "-", "-"]);
    assert_eq!(c.commit("big"), (64_000, 16_000));
    assert_eq!(c.owners([0, 32_000, 79_999]), ["first", "big", "big"]);
    assert_eq!(c.commit("big"), (0, 0));
    c.assert_consistent();

    let (undisturbed, mut u) = DedupeIndex::start(P);
    build(&mut u);
    assert_eq!(u.commit("big"), (64_000, 16_000));
    small(&server).assert_same(&small(&undisturbed), "crashed and undisturbed commit");
    assert_eq!(server.digest(), undisturbed.digest());

    // Returns how many of the shared hashes have moved to their next holder.
    let moved = |c: &mut DedupeIndex| match c.plain("HGET p:removing ''") {
        Reply::Nil => 0,
        figures => {
            let figures = figures.text();
            figures.split(' ').nth(2).map_or(0, |n| n.parse().unwrap())
        }
    };
    // Kill the same server again, during the removal of the crawl that owns the shared hashes.
    let mut remover = c.sent("REMOVE first");
    until("the removal is half way", || moved(&mut c) >= 3_200);
    server.kill_under(&mut remover);
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.plain("EXISTS p:removing"), int(1));
    // No reply must name an owner whose record was deleted.
    let seen = c.owners((0..16_000).step_by(401));
    assert!(seen.iter().all(|o| o == "first" || o == "big"), "{seen:?}");
    for d in [&mut c, &mut u] {
        assert_eq!(d.ok("REMOVE first").ints(), [1, 0, 16_000]);
    }
    let (crashed, whole) = (small(&server), small(&undisturbed));
    let crashed = crashed.without_counters();
    crashed.assert_same(&whole.without_counters(), "crashed and undisturbed removal");
    let big = "DEBUG DIGEST-VALUE p:allhashes p:h:big p:holders";
    assert_eq!(c.plain(big), u.plain(big));
    c.assert_consistent();
}

/// Returns all keys except those with hundreds of thousands of members.
fn small(server: &Server) -> Snapshot {
    let (mut c, mut keys) = (server.wire(), server.wire());
    let is_big = |key: &[u8]| matches!(cmd!(keys, "HLEN", key), Reply::Int(2001..));
    let is_big = std::cell::RefCell::new(is_big);
    Snapshot::of_keys(&mut c, |key| !is_big.borrow_mut()(key))
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
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof_unsynced(true), P);
    c.committed("base", 0..100);
    let before = server.snapshot();
    c.add("big", 50..40_050);
    let mut c = killed_in_commit(&mut server, "big", 12_000);
    assert_eq!(c.ok("CANCEL big"), int(40_000));
    let after = server.snapshot().without_counters();
    after.assert_same(&before.without_counters(), "CANCEL after a partial commit");
    c.assert_consistent();
}

#[test]
fn killed_cancel_finishes_when_run_again() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof_unsynced(false), P);
    c.committed("base", 0..100);
    let before = server.snapshot();
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("big", 50..120_050);
    let _canceler = c.sent("CANCEL big");
    until("the cancel is under way", || {
        c.plain("EXISTS p:removing") == int(1) || c.plain("EXISTS p:h:big") == int(0)
    });
    server.kill9();
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    // If the kill came too late, the crawl was already removed.
    let again = c.call("CANCEL big");
    assert!(again.is_error() || again == int(120_000), "{again:?}");
    let after = server.snapshot().without_counters();
    after.assert_same(&before.without_counters(), "CANCEL run again");
    c.assert_consistent();
}

#[test]
fn killed_continuation_keeps_the_first_part_visible() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof_unsynced(true), P);
    c.committed("a", 1_000_000..1_000_100);
    c.add("a", 0..40_000);
    let mut c = killed_in_commit(&mut server, "a", 12_000);
    assert_eq!(c.owners([1_000_000, 0, 39_999]), ["a", "-", "-"]);
    assert_eq!(c.commit("a"), (40_000, 0));
    assert_eq!(c.owners([1_000_000, 0, 39_999]), ["a", "a", "a"]);
    assert_eq!(c.plain("HGET p:allcounts totalUrls").text(), "40100");
    c.assert_consistent();
}

#[test]
fn sequence_numbers_survive_a_crash() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof(false), P);
    let add = "ADD a SEQ w1 7 @0..3";
    assert_eq!(c.ok(add), int(3));
    let before = server.digest();
    server.kill9();
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.ok(add), int(3), "the stored reply");
    assert_eq!(server.digest(), before);
    assert!(c.plain_hash("h:a").contains_key(&sha256_of(2)));
}

/// Returns a server that was killed during the commit of `a` (24,000 hashes, from 0). `base` (every
/// hash from 0 to 99 and from 1,000,000 to 1,000,099) was committed before, and `b` (12,000 to
/// 36,000) is uncommitted.
fn died_in_a_commit() -> (Server, DedupeIndex) {
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof_unsynced(true), P);
    c.committed("base", (0..100).chain(1_000_000..1_000_100));
    c.add("b", 12_000..36_000);
    c.add("a", 0..24_000);
    let c = killed_in_commit(&mut server, "a", 8_000);
    (server, c)
}

#[test]
fn another_commit_between_the_crash_and_the_retry_comes_first() {
    let (_server, mut c) = died_in_a_commit();
    let some = [50, 8_000, 12_000, 35_999];
    assert_eq!(c.commit("b"), (24_000, 0));
    assert_eq!(c.owners(some), ["base", "-", "b", "b"]);
    assert_eq!(c.commit("a"), (11_900, 12_100));
    assert_eq!(c.owners(some), ["base", "a", "b", "b"]);
    c.assert_consistent();
    assert_eq!(c.ok("REMOVE b").ints(), [1, 12_000, 12_000]);
    assert_eq!(c.owners([8_000, 12_000, 35_999]), ["a", "a", "-"]);
    c.assert_consistent();
}

#[test]
fn a_removal_between_the_crash_and_the_retry_is_taken_into_account() {
    let (_server, mut c) = died_in_a_commit();
    assert_eq!(c.ok("REMOVE base").ints(), [1, 200, 0]);
    assert_eq!(c.owners([50, 8_000]), ["-", "-"]);
    assert_eq!(c.commit("a"), (24_000, 0));
    assert_eq!(c.owners([50, 8_000, 1_000_000]), ["a", "a", "-"]);
    c.assert_consistent();
}

#[test]
fn records_added_between_the_crash_and_the_retry_are_committed_too() {
    let (_server, mut c) = died_in_a_commit();
    assert_eq!(c.add("a", 2_000_000..2_000_010), 10);
    assert_eq!(c.commit("a"), (23_910, 100));
    assert_eq!(c.owners([50, 8_000, 2_000_005]), ["base", "a", "a"]);
    assert_eq!(c.plain("HGET p:allcounts totalUrls").text(), "24210");
    c.assert_consistent();
}
