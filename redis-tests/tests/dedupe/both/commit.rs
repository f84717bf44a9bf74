//! `COMMIT` and `CANCEL`: visibility, owners and counts.

use redis_tests::{
    DedupeIndex, Snapshot, Wire, array, assert_error, bulk, int, nil, record_of, sha256_of, until,
};

const P: &str = "{coll-42}:";

#[test]
fn hashes_are_invisible_until_commit_and_all_visible_after() {
    let (_server, mut c) = DedupeIndex::start(P);
    assert_eq!(c.add("a", 0..3), 3);
    assert_eq!(c.owners(0..3), ["-", "-", "-"]);
    assert_eq!(c.ok("LOOKUP CRAWL a #1"), array([record_of("a", 1)]));
    assert_eq!(c.set("uncommittedcrawls"), ["a"]);
    assert_eq!(c.commit("a"), (3, 0));
    assert_eq!(c.owners(0..4), ["a", "a", "a", "-"]);
    assert_eq!(c.set("uncommittedcrawls"), [""; 0]);
    assert_eq!(c.set("allcrawls"), ["a"]);
    let merged = c.plain_hash("allhashes");
    assert_eq!(merged[&sha256_of(2)], "a");
    c.assert_consistent();
}

#[test]
fn commit_twice_adds_nothing_to_allcounts() {
    let (server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..50);
    c.ok("WACZOPEN a a.wacz");
    c.ok("WACZCLOSE a 0 a.wacz sha256:ab 777");
    c.ok("REVISIT a #3 100");
    c.commit("a");
    let before = server.snapshot();
    let counted = c.counts("allcounts");
    assert_eq!(counted, c.counts("h:a:counts"));
    let sums = ["totalUrls", "totalCrawlSize", "dupeUrls", "conservedSize"];
    assert_eq!(sums.map(|name| counted[name]), [51, 777, 1, 903]);
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.counts("allcounts"), counted);
    server.snapshot().assert_same(&before, "second commit");
}

#[test]
fn first_committer_owns() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("late", 0..10);
    assert_eq!(c.committed("early", 5..15), (10, 0));
    assert_eq!(c.commit("late"), (5, 5));
    let expected = [&["late"; 5][..], &["early"; 10]].concat();
    assert_eq!(c.owners(0..15), expected);
    assert_eq!(c.counts("allcounts")["totalUrls"], 20);
    c.assert_consistent();
}

#[test]
fn commit_puts_names_of_finished_waczs_into_src_d() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..1);
    c.wacz("a", "one.wacz");
    c.wacz("a", "two \r\n.wacz");
    c.ok("WACZOPEN a open.wacz");
    assert_eq!(c.plain("EXISTS {coll-42}:src:d"), int(0));
    c.commit("a");
    assert_eq!(c.set("src:d"), ["one.wacz", "two \r\n.wacz"]);
    // The last file is closed after the commit, so the next commit publishes it.
    c.ok("WACZCLOSE a 2 open.wacz sha256:ab 1");
    c.commit("a");
    assert_eq!(c.set("src:d").len(), 3);
}

#[test]
fn commit_of_an_unknown_crawl_fails_with_nocrawl() {
    let (server, mut c) = DedupeIndex::start(P);
    c.refused("COMMIT nobody", "NOCRAWL");
    c.refused("CANCEL nobody", "NOCRAWL");
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn crawl_without_hashes_commits() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.ok("WACZOPEN a a.wacz");
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.set("allcrawls"), ["a"]);
    c.assert_consistent();
}

#[test]
fn cancel_leaves_no_trace() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("base", 0..10);
    let before = Snapshot::of(&mut c);

    c.add("gone", 5..25);
    c.ok("REVISIT gone REF uuid-1 #1 10");
    c.ok("REVISIT gone SEQ w 1 #2 10");
    c.ok("WACZOPEN gone gone.wacz");
    c.ok("WACZCLOSE gone 0 gone.wacz sha256:ab 5");
    c.ok("CLAIM gone #100 PX 100000");
    assert_eq!(c.set("gone:reqCrawls"), ["base"]);
    assert_eq!(c.ok("CANCEL gone"), int(20));
    let after = Snapshot::of(&mut c).without_counters();
    after.assert_same(&before.without_counters(), "after CANCEL");
    c.refused("CANCEL gone", "NOCRAWL");
}

#[test]
fn cancel_of_a_committed_crawl_fails_with_committed() {
    let (server, mut c) = DedupeIndex::start(P);
    c.committed("a", 0..3);
    let before = server.snapshot();
    c.refused("CANCEL a", "COMMITTED");
    server.snapshot().assert_same(&before, "refused CANCEL");
}

#[test]
fn crawl_id_used_again_adds_only_the_difference() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("a", 0..10);
    assert_eq!(c.add("a", 5..15), 5);
    for set in ["uncommittedcrawls", "allcrawls"] {
        assert_eq!(c.set(set), ["a"], "{set}");
    }
    assert_eq!(c.owners(0..15), [["a"; 10].as_slice(), &["-"; 5]].concat());
    assert_eq!(c.ok("LOOKUP CRAWL a #12"), array([record_of("a", 12)]));
    assert_eq!(c.counts("allcounts")["totalUrls"], 10);
    assert_eq!(c.commit("a"), (5, 0));
    assert_eq!(c.owners(0..15), ["a"; 15]);
    assert_eq!(c.counts("allcounts"), c.counts("h:a:counts"));
    c.assert_consistent();
}

#[test]
fn new_hashes_of_a_continued_crawl_do_not_change_owners() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("a", 0..10);
    c.committed("b", 10..20);
    assert_eq!(c.committed("a", 10..30), (10, 10));
    assert_eq!(c.owners(10..20), ["b"; 10]);
    assert_eq!(c.owners(20..30), ["a"; 10]);
    c.assert_consistent();
}

#[test]
fn cancel_of_a_continuation_undoes_changes_since_the_commit() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("other", 100..103);
    c.add("a", 0..10);
    c.ok("REVISIT a #1 10");
    c.ok("WACZOPEN a first.wacz");
    c.ok("WACZCLOSE a 0 first.wacz sha256:ab 11");
    c.commit("a");
    let before = Snapshot::of(&mut c);

    c.add("a", 5..25);
    c.ok("REVISIT a REF u #100 10");
    c.ok("WACZOPEN a second.wacz");
    c.ok("WACZCLOSE a 1 second.wacz sha256:cd 22");
    assert_eq!(c.ok("CANCEL a"), int(15));
    Snapshot::of(&mut c).assert_same(&before, "after CANCEL of the continuation");
    assert_eq!(c.owners([0, 9, 10, 24]), ["a", "a", "-", "-"]);
    c.refused("CANCEL a", "COMMITTED");
    c.assert_consistent();
}

#[test]
fn only_crawls_known_to_the_index_own_hashes() {
    // Look-ups skip an owner that is not in `allcrawls`.
    let (_server, mut c) = DedupeIndex::start(P);
    c.plain("HSET {coll-42}:allhashes #1 ghost");
    c.plain("HSET {coll-42}:h:ghost #1 '0 20260101000000 http://e.com/ 5'");
    assert_eq!(c.owners([1]), ["-"]);
    c.plain("SADD {coll-42}:allcrawls ghost");
    assert_eq!(c.owners([1]), ["ghost"]);
}

#[test]
fn lookup_falls_back_when_the_owners_record_is_gone() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..2);
    c.add("b", 1..3);
    c.commit("a");
    c.commit("b");
    c.plainly(|c| c.plain("HDEL {coll-42}:h:a #0 #1"));
    assert_eq!(c.owners(0..3), ["-", "b", "b"]);
}

/// Number of hashes of a crawl. Its commit takes long enough to be interrupted.
const MANY: u64 = 40_000;

/// Fails unless the commit of `a` is still running and then ends as expected.
#[track_caller]
fn assert_runs_to_its_end(c: &mut DedupeIndex, mut committer: Wire) {
    let still = c.plain("HEXISTS {coll-42}:committing a");
    assert_eq!(still, int(1), "the commit ended too early for this test");
    assert_eq!(committer.recv(), array([int(40_000), int(0)]));
}

#[test]
fn add_during_own_commit_belongs_to_the_next_one() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..MANY);
    let committer = c.begun("COMMIT a");
    assert_eq!(c.add("a", 1_000_000..1_000_010), 10);
    assert_runs_to_its_end(&mut c, committer);
    assert_eq!(c.owners([0, 39_999, 1_000_003]), ["a", "a", "-"]);
    assert_eq!(c.counts("allcounts")["totalUrls"], 40_000);
    assert_eq!(c.commit("a"), (10, 0));
    assert_eq!(c.owners([1_000_003]), ["a"]);
    assert_eq!(c.counts("allcounts"), c.counts("h:a:counts"));
    c.assert_consistent();
}

#[test]
fn records_of_a_running_commit_are_not_replaced_by_an_earlier_record() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..MANY);
    let committer = c.begun("COMMIT a");
    let (date, url) = ("20000101000000", "http://e.com/early");
    for n in [7, 1_000_007] {
        c.add("a", [n]);
        c.ok(format!("ADD a EARLIEST #{n} 0 {date} {url} 5"));
    }
    assert_runs_to_its_end(&mut c, committer);
    let early = array([bulk("a"), int(0), bulk(date), bulk(url), int(5)]);
    let stored = c.ok("LOOKUP CRAWL a #7 #1000007");
    assert_eq!(stored, array([record_of("a", 7), early]));
    assert_eq!(c.commit("a"), (1, 0));
    assert_eq!(c.counts("allcounts")["totalUrls"], 40_003);
    c.assert_consistent();
}

#[test]
fn cancel_during_commit_wins() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.committed("base", 0..10);
    let before = Snapshot::of(&mut c);
    c.add("a", 5..5 + MANY);
    let mut committer = c.begun("COMMIT a");
    assert_eq!(c.ok("CANCEL a"), int(40_000));
    assert_error(&committer.recv(), "CANCELED", "the committer");
    let after = Snapshot::of(&mut c).without_counters();
    after.assert_same(&before.without_counters(), "after CANCEL during COMMIT");
    c.assert_consistent();
}

#[test]
fn cancel_ends_the_commit_of_several_crawls() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("small", 0..10);
    c.add("a", 5..5 + MANY);
    c.add("other", 0..20);
    let mut committer = c.sent("COMMIT small a other");
    until("the crawl is being committed", || {
        c.hash("committing").contains_key("a")
    });
    assert_eq!(c.ok("CANCEL a"), int(MANY as i64));
    assert_error(&committer.recv(), "CANCELED", "the committer");
    assert_eq!(c.set("allcrawls"), ["small"]);
    c.assert_consistent();
    assert_eq!(
        c.ok("COMMIT small other"),
        array([array([int(0), int(0)]), array([int(10), int(10)])])
    );
    assert_eq!(c.counts("allcounts")["totalUrls"], 30);
    c.assert_consistent();
}

#[test]
fn several_crawls_are_committed_in_the_given_order() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("b", 5..50);
    c.add("a", 0..10);
    c.add("c", 100..103);
    let counts = |new, known| array([int(new), int(known)]);
    c.refused("COMMIT b unknown a c b", "NOCRAWL");
    assert_eq!(c.set("allcrawls"), [""; 0]);
    let replies = [counts(45, 0), counts(5, 5), counts(3, 0), counts(0, 0)];
    assert_eq!(c.ok("COMMIT b a c b"), array(replies));
    let expected = [&["a"; 5][..], &["b"; 45]].concat();
    assert_eq!(c.owners(0..50), expected);
    assert_eq!(c.counts("allcounts")["totalUrls"], 58);
    // Crawls that are continued.
    c.add("a", [5, 60]);
    c.add("c", [60]);
    c.ok("REVISIT c #0 100");
    assert_eq!(c.ok("COMMIT c a"), array([counts(1, 0), counts(0, 1)]));
    assert_eq!(c.owners([60]), ["c"]);
    assert_eq!(c.counts("allcounts")["dupeUrls"], 1);
    c.assert_consistent();
}

#[test]
fn a_second_committer_attaches_to_the_running_commit() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..MANY);
    let mut first = c.begun("COMMIT a");
    let mut two = c.sent("COMMIT a");
    assert_eq!(first.recv(), array([int(40_000), int(0)]));
    assert_eq!(two.recv(), array([int(40_000), int(0)]));
    assert_eq!(c.counts("allcounts")["totalUrls"], 40_000);
}

#[test]
fn commit_outlives_its_client() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..MANY);
    c.begun("COMMIT a").hang_up();
    until("the commit is done", || c.set("allcrawls") == ["a"]);
    assert_eq!(c.indexed(), 40_000);
    assert_eq!(c.plain("EXISTS {coll-42}:committing"), int(0));
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.counts("allcounts")["totalUrls"], 40_000);
}

#[test]
fn two_commits_and_a_cancel_at_once_end_in_a_serial_outcome() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    for (id, first) in [("a", 0), ("b", 12_000), ("c", 6_000)] {
        c.add(id, first..first + 24_000);
    }
    let mut jobs = ["COMMIT a", "COMMIT b", "CANCEL c"].map(|line| c.sent(line));
    // While the jobs run, each look-up must return the same owner, or none, for all shared hashes.
    let shared: Vec<u64> = (12_000..24_000).step_by(37).collect();
    until("both commits are done", || {
        let mut seen = c.owners(shared.iter().copied());
        seen.dedup();
        assert!(seen.len() == 1, "one look-up saw several owners: {seen:?}");
        c.plain("SCARD {coll-42}:allcrawls") == int(2)
    });
    let (first, second) = (jobs[0].recv().ints(), jobs[1].recv().ints());
    assert_eq!(jobs[2].recv(), int(24_000));
    let owner = c.owners([12_000])[0].clone();
    match owner.as_str() {
        "a" => assert_eq!((first, second), (vec![24_000, 0], vec![12_000, 12_000])),
        "b" => assert_eq!((second, first), (vec![24_000, 0], vec![12_000, 12_000])),
        other => panic!("the shared part belongs to {other}"),
    }
    let all = c.plain_hash("allhashes");
    assert_eq!(all.len(), 36_000);
    assert!((12_000..24_000).all(|n| all[&sha256_of(n)] == owner));
    assert_eq!(c.counts("allcounts")["totalUrls"], 48_000);
    assert_eq!(c.plain("HGET {coll-42}:h:c #6000"), nil());
    c.assert_consistent();
}

#[test]
fn numbers_from_before_the_commit_outlive_a_canceled_continuation() {
    let (_server, mut c) = DedupeIndex::start(P);
    let revisit = "REVISIT a SEQ w 1 #1 10";
    c.add("a", 0..5);
    assert_eq!(c.ok(revisit), int(1));
    c.commit("a");
    let sums = c.counts("h:a:counts");
    assert_eq!(sums["dupeUrls"], 1);
    c.add("a", 5..9);
    assert_eq!(c.ok("CANCEL a"), int(4));
    // A retry of the earlier call returns its stored reply, and changes no count.
    assert_eq!(c.ok(revisit), int(1));
    assert_eq!(c.counts("h:a:counts"), sums);
    c.assert_consistent();
}
