//! COMMIT and CANCEL: what becomes visible, who owns it, what the counts say.

use redis_tests::{
    Crawl, DedupeIndex, Server, Snapshot, Wire, add, array, assert_consistent, begin_job, bulk,
    commit, counts, indexed, int, nil, ok, owners, plain_hash, plainly, record_of, set_key,
    sha256_of, until,
};

const P: &str = "{coll-42}:";
const COUNTS: &str = "{coll-42}:allcounts";

fn key(name: &str) -> String {
    format!("{P}{name}")
}

#[test]
fn hashes_are_invisible_until_commit_and_all_visible_after() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.add("a", 0..3), 3);
    assert_eq!(c.owners(0..3), ["-", "-", "-"]);
    assert_eq!(c.ok("LOOKUP CRAWL a #1"), array([record_of("a", 1)]));
    assert_eq!(set_key(&mut c, &key("uncommittedcrawls")), ["a"]);
    assert_eq!(c.commit("a"), (3, 0));
    assert_eq!(c.owners(0..4), ["a", "a", "a", "-"]);
    assert_eq!(set_key(&mut c, &key("uncommittedcrawls")), [""; 0]);
    assert_eq!(set_key(&mut c, &key("allcrawls")), ["a"]);
    let merged = plain_hash(&mut c, P, "allhashes");
    assert_eq!(merged[&sha256_of(2)], "a");
    c.assert_consistent();
}

#[test]
fn commit_twice_adds_nothing_to_allcounts() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..50);
    c.ok("WACZOPEN a a.wacz");
    c.ok("WACZCLOSE a 0 a.wacz sha256:ab 777");
    c.ok("REVISIT a #3 100");
    c.commit("a");
    let before = server.snapshot();
    let counted = counts(&mut c, COUNTS);
    assert_eq!(counted, counts(&mut c, &key("h:a:counts")));
    assert_eq!(counted["totalUrls"], 51);
    assert_eq!(counted["totalCrawlSize"], 777);
    assert_eq!(counted["dupeUrls"], 1);
    assert_eq!(counted["conservedSize"], 903);
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(counts(&mut c, COUNTS), counted);
    server.snapshot().assert_same(&before, "second commit");
}

#[test]
fn first_committer_owns() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("late", 0..10);
    c.add("early", 5..15);
    assert_eq!(c.commit("early"), (10, 0));
    assert_eq!(c.commit("late"), (5, 5));
    let mut expected = vec!["late"; 5];
    expected.extend(["early"; 10]);
    assert_eq!(c.owners(0..15), expected);
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 20);
    c.assert_consistent();
}

#[test]
fn commit_puts_names_of_finished_waczs_into_src_d() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..1);
    for (i, name) in ["one.wacz", "two \r\n.wacz", "open.wacz"]
        .iter()
        .enumerate()
    {
        c.ok(format!("WACZOPEN a '{name}'"));
        if i < 2 {
            c.ok(format!("WACZCLOSE a '{i}' '{name}' sha256:ab 1"));
        }
    }
    assert_eq!(ok!(c, "EXISTS", key("src:d")), int(0));
    c.commit("a");
    assert_eq!(
        set_key(&mut c, &key("src:d")),
        ["one.wacz", "two \r\n.wacz"]
    );
    // The last file is finished after the commit: it follows with the next one.
    c.ok("WACZCLOSE a 2 open.wacz sha256:ab 1");
    c.commit("a");
    assert_eq!(set_key(&mut c, &key("src:d")).len(), 3);
}

#[test]
fn commit_of_an_unknown_crawl_says_nocrawl() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    assert!(c.err("COMMIT nobody").starts_with("NOCRAWL "));
    assert!(c.err("CANCEL nobody").starts_with("NOCRAWL "));
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn crawl_without_hashes_commits() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.ok("WACZOPEN a a.wacz");
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(set_key(&mut c, &key("allcrawls")), ["a"]);
    c.assert_consistent();
}

#[test]
fn cancel_leaves_no_trace() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("base", 0..10);
    c.commit("base");
    let before = Snapshot::of(&mut c);

    c.add("gone", 5..25);
    c.ok("REVISIT gone REF uuid-1 #1 10");
    c.ok("REVISIT gone SEQ w 1 #2 10");
    c.ok("WACZOPEN gone gone.wacz");
    c.ok("WACZCLOSE gone 0 gone.wacz sha256:ab 5");
    ok!(c, "DEDUPE.CLAIM", P, "gone", sha256_of(100), "PX", 100_000);
    assert_eq!(set_key(&mut c, &key("gone:reqCrawls")), ["base"]);
    assert_eq!(c.ok("CANCEL gone"), int(20));
    let after = Snapshot::of(&mut c).without_counters();
    after.assert_same(&before.without_counters(), "after CANCEL");
    assert!(c.err("CANCEL gone").starts_with("NOCRAWL "));
}

#[test]
fn cancel_of_a_committed_crawl_says_committed() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..3);
    c.commit("a");
    let before = server.snapshot();
    assert!(c.err("CANCEL a").starts_with("COMMITTED "));
    server.snapshot().assert_same(&before, "refused CANCEL");
}

#[test]
fn crawl_id_used_again_adds_only_the_difference() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..10);
    c.commit("a");
    assert_eq!(c.add("a", 5..15), 5);
    let both = |c: &mut redis_tests::Wire| {
        (
            set_key(c, &key("uncommittedcrawls")),
            set_key(c, &key("allcrawls")),
        )
    };
    assert_eq!(both(&mut c), (vec!["a".to_owned()], vec!["a".to_owned()]));
    let mut expected = vec!["a"; 10];
    expected.extend(["-"; 5]);
    assert_eq!(c.owners(0..15), expected);
    assert_eq!(c.ok("LOOKUP CRAWL a #12"), array([record_of("a", 12)]));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 10);
    assert_eq!(c.commit("a"), (5, 0));
    assert_eq!(c.owners(0..15), ["a"; 15]);
    assert_eq!(counts(&mut c, COUNTS), counts(&mut c, &key("h:a:counts")));
    c.assert_consistent();
}

#[test]
fn fresh_hashes_of_a_continued_crawl_do_not_take_over() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..10);
    c.commit("a");
    c.add("b", 10..20);
    c.commit("b");
    c.add("a", 10..30);
    assert_eq!(c.commit("a"), (10, 10));
    assert_eq!(c.owners(10..20), ["b"; 10]);
    assert_eq!(c.owners(20..30), ["a"; 10]);
    c.assert_consistent();
}

#[test]
fn cancel_of_a_continuation_takes_back_what_came_since_the_commit() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("other", 100..103);
    c.commit("other");
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
    assert!(c.err("CANCEL a").starts_with("COMMITTED "));
    c.assert_consistent();
}

#[test]
fn only_crawls_known_to_the_index_own_hashes() {
    // An owner counts only once it is in `allcrawls`.
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "HSET", key("allhashes"), sha256_of(1), "ghost");
    ok!(
        c,
        "HSET",
        key("h:ghost"),
        sha256_of(1),
        "0 20260101000000 http://e.com/ 5"
    );
    assert_eq!(c.owners([1]), ["-"]);
    ok!(c, "SADD", key("allcrawls"), "ghost");
    assert_eq!(c.owners([1]), ["ghost"]);
}

#[test]
fn lookup_falls_back_when_the_owners_record_is_gone() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..2);
    c.add("b", 1..3);
    c.commit("a");
    c.commit("b");
    plainly(&mut c, P, |c| {
        ok!(c, "HDEL", key("h:a"), sha256_of(0), sha256_of(1))
    });
    assert_eq!(c.owners(0..3), ["-", "b", "b"]);
}

/// A crawl whose commit takes long enough to be met in its middle.
fn long_crawl<'a>(id: &'a str, first: u64) -> Crawl<'a> {
    Crawl::of(P, id, first..first + 40_000)
}

#[test]
fn add_during_own_commit_belongs_to_the_next_one() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    assert_eq!(add(&mut c, P, "a", 1_000_000..1_000_010), 10);
    let still = ok!(c, "HEXISTS", key("committing"), "a");
    assert_eq!(still, int(1), "the commit was over too soon for this test");
    assert_eq!(committer.recv(), array([int(40_000), int(0)]));
    assert_eq!(owners(&mut c, P, [0, 39_999, 1_000_003]), ["a", "a", "-"]);
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 40_000);
    assert_eq!(commit(&mut c, P, "a"), (10, 0));
    assert_eq!(owners(&mut c, P, [1_000_003]), ["a"]);
    assert_eq!(counts(&mut c, COUNTS), counts(&mut c, &key("h:a:counts")));
    assert_consistent(&mut c, P);
}

#[test]
fn what_a_running_commit_takes_is_not_replaced_by_an_earlier_record() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    let url = "http://e.com/early";
    for n in [7, 1_000_007] {
        add(&mut c, P, "a", [n]);
        let hash = sha256_of(n);
        ok!(
            c,
            "DEDUPE.ADD",
            P,
            "a",
            "EARLIEST",
            hash,
            0,
            "20000101000000",
            url,
            5
        );
    }
    let still = ok!(c, "HEXISTS", key("committing"), "a");
    assert_eq!(still, int(1), "the commit was over too soon for this test");
    assert_eq!(committer.recv(), array([int(40_000), int(0)]));
    let early = array([bulk("a"), int(0), bulk("20000101000000"), bulk(url), int(5)]);
    let stored = |c: &mut Wire, n: u64| {
        let found = ok!(c, "DEDUPE.LOOKUP", P, "CRAWL", "a", sha256_of(n));
        found.items()[0].clone()
    };
    assert_eq!(stored(&mut c, 7), record_of("a", 7));
    assert_eq!(stored(&mut c, 1_000_007), early);
    assert_eq!(commit(&mut c, P, "a"), (1, 0));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 40_003);
    assert_consistent(&mut c, P);
}

#[test]
fn cancel_during_commit_wins() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "base", 0..10);
    commit(&mut c, P, "base");
    let before = Snapshot::of(&mut c);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 5).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(40_000));
    match committer.recv() {
        redis_tests::Reply::Error(line) => assert!(line.starts_with(b"CANCELED "), "{line:?}"),
        other => panic!("the committer got {other:?}"),
    }
    let after = Snapshot::of(&mut c).without_counters();
    after.assert_same(&before.without_counters(), "after CANCEL during COMMIT");
    assert_consistent(&mut c, P);
}

#[test]
fn a_second_committer_attaches_to_the_running_commit() {
    let server = Server::start();
    let (mut one, mut two) = (server.wire(), server.wire());
    ok!(one, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut one);
    let mut first = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    two.send(&["DEDUPE.COMMIT", P, "a"]);
    assert_eq!(first.recv(), array([int(40_000), int(0)]));
    assert_eq!(two.recv(), array([int(40_000), int(0)]));
    assert_eq!(counts(&mut one, COUNTS)["totalUrls"], 40_000);
}

#[test]
fn commit_outlives_its_client() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut c);
    let committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    committer.hang_up();
    until("the commit is done", || {
        ok!(c, "SISMEMBER", key("allcrawls"), "a") == int(1)
    });
    assert_eq!(indexed(&mut c, P), 40_000);
    assert_eq!(ok!(c, "EXISTS", key("committing")), int(0));
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 40_000);
}

#[test]
fn two_commits_and_a_cancel_at_once_end_in_a_serial_outcome() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for (id, first) in [("a", 0), ("b", 12_000), ("c", 6_000)] {
        Crawl::of(P, id, first..first + 24_000).add(&mut c);
    }
    let mut jobs: Vec<_> = (0..3).map(|_| server.wire()).collect();
    jobs[0].send(&["DEDUPE.COMMIT", P, "a"]);
    jobs[1].send(&["DEDUPE.COMMIT", P, "b"]);
    jobs[2].send(&["DEDUPE.CANCEL", P, "c"]);
    // Look-ups meanwhile: the shared part has at most one owner in any one reply.
    let shared: Vec<u64> = (12_000..24_000).step_by(37).collect();
    until("both commits are done", || {
        let mut seen = c.owners(shared.iter().copied());
        seen.dedup();
        assert!(seen.len() == 1, "one look-up saw several owners: {seen:?}");
        ok!(c, "SCARD", key("allcrawls")) == int(2)
    });
    let (first, second) = (jobs[0].recv().ints(), jobs[1].recv().ints());
    assert_eq!(jobs[2].recv(), int(24_000));
    let owner = c.owners([12_000])[0].clone();
    match owner.as_str() {
        "a" => assert_eq!((first, second), (vec![24_000, 0], vec![12_000, 12_000])),
        "b" => assert_eq!((second, first), (vec![24_000, 0], vec![12_000, 12_000])),
        other => panic!("the shared part belongs to {other}"),
    }
    let all = plain_hash(&mut c, P, "allhashes");
    assert_eq!(all.len(), 36_000);
    assert!((12_000..24_000).all(|n| all[&sha256_of(n)] == owner));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 48_000);
    assert_eq!(ok!(c, "HGET", key("h:c"), sha256_of(6_000)), nil());
    c.assert_consistent();
}

#[test]
fn numbers_from_before_the_commit_outlive_a_canceled_continuation() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let revisit = |c: &mut DedupeIndex, n: i32| {
        let words = c.ok(format!("REVISIT a SEQ w '{n}' #1 10"));
        words.int()
    };
    c.add("a", 0..5);
    assert_eq!(revisit(&mut c, 1), 1);
    c.commit("a");
    let sums = counts(&mut c, &key("h:a:counts"));
    assert_eq!(sums["dupeUrls"], 1);
    c.add("a", 5..9);
    assert_eq!(c.ok("CANCEL a"), int(4));
    // A retry of the call from before: its stored reply, and nothing is counted.
    assert_eq!(revisit(&mut c, 1), 1);
    assert_eq!(counts(&mut c, &key("h:a:counts")), sums);
    c.assert_consistent();
}
