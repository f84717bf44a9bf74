//! COMMIT and CANCEL: what becomes visible, who owns it, what the counts say.

use redis_tests::{
    Crawl, Server, Snapshot, Wire, add, array, assert_consistent, bulk, commit, counts, err,
    indexed, int, nil, ok, owners, plain_hash, plainly, record_of, set_key, sha256_of, until,
};

const P: &str = "{coll-42}:";
const COUNTS: &str = "{coll-42}:allcounts";

fn key(name: &str) -> String {
    format!("{P}{name}")
}

#[test]
fn hashes_are_invisible_until_commit_and_all_visible_after() {
    let server = Server::start();
    let mut c = server.wire();
    assert_eq!(add(&mut c, P, "a", 0..3), 3);
    assert_eq!(owners(&mut c, P, 0..3), ["-", "-", "-"]);
    assert_eq!(
        ok!(c, "DEDUPE.LOOKUP", P, "CRAWL", "a", sha256_of(1)),
        array([record_of("a", 1)])
    );
    assert_eq!(set_key(&mut c, &key("uncommittedcrawls")), ["a"]);
    assert_eq!(commit(&mut c, P, "a"), (3, 0));
    assert_eq!(owners(&mut c, P, 0..4), ["a", "a", "a", "-"]);
    assert_eq!(set_key(&mut c, &key("uncommittedcrawls")), [""; 0]);
    assert_eq!(set_key(&mut c, &key("allcrawls")), ["a"]);
    let merged = plain_hash(&mut c, P, "allhashes");
    assert_eq!(merged[&sha256_of(2)], "a");
    assert_consistent(&mut c, P);
}

#[test]
fn commit_twice_adds_nothing_to_allcounts() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..50);
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "a.wacz");
    ok!(c, "DEDUPE.WACZCLOSE", P, "a", 0, "a.wacz", "sha256:ab", 777);
    ok!(c, "DEDUPE.REVISIT", P, "a", sha256_of(3), 100);
    commit(&mut c, P, "a");
    let before = server.snapshot();
    let counted = counts(&mut c, COUNTS);
    assert_eq!(counted, counts(&mut c, &key("h:a:counts")));
    assert_eq!(counted["totalUrls"], 51);
    assert_eq!(counted["totalCrawlSize"], 777);
    assert_eq!(counted["dupeUrls"], 1);
    assert_eq!(counted["conservedSize"], 903);
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_eq!(counts(&mut c, COUNTS), counted);
    server.snapshot().assert_same(&before, "second commit");
}

#[test]
fn first_committer_owns() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "late", 0..10);
    add(&mut c, P, "early", 5..15);
    assert_eq!(commit(&mut c, P, "early"), (10, 0));
    assert_eq!(commit(&mut c, P, "late"), (5, 5));
    let mut expected = vec!["late"; 5];
    expected.extend(["early"; 10]);
    assert_eq!(owners(&mut c, P, 0..15), expected);
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 20);
    assert_consistent(&mut c, P);
}

#[test]
fn commit_puts_names_of_finished_waczs_into_src_d() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..1);
    for (i, name) in ["one.wacz", "two \r\n.wacz", "open.wacz"]
        .iter()
        .enumerate()
    {
        ok!(c, "DEDUPE.WACZOPEN", P, "a", name);
        if i < 2 {
            ok!(c, "DEDUPE.WACZCLOSE", P, "a", i, name, "sha256:ab", 1);
        }
    }
    assert_eq!(ok!(c, "EXISTS", key("src:d")), int(0));
    commit(&mut c, P, "a");
    assert_eq!(
        set_key(&mut c, &key("src:d")),
        ["one.wacz", "two \r\n.wacz"]
    );
    // The last file is finished after the commit: it follows with the next one.
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        P,
        "a",
        2,
        "open.wacz",
        "sha256:ab",
        1
    );
    commit(&mut c, P, "a");
    assert_eq!(set_key(&mut c, &key("src:d")).len(), 3);
}

#[test]
fn commit_of_an_unknown_crawl_says_nocrawl() {
    let server = Server::start();
    let mut c = server.wire();
    assert!(err!(c, "DEDUPE.COMMIT", P, "nobody").starts_with("NOCRAWL "));
    assert!(err!(c, "DEDUPE.CANCEL", P, "nobody").starts_with("NOCRAWL "));
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn crawl_without_hashes_commits() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "a.wacz");
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_eq!(set_key(&mut c, &key("allcrawls")), ["a"]);
    assert_consistent(&mut c, P);
}

#[test]
fn cancel_leaves_no_trace() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "base", 0..10);
    commit(&mut c, P, "base");
    let before = Snapshot::of(&mut c);

    add(&mut c, P, "gone", 5..25);
    ok!(
        c,
        "DEDUPE.REVISIT",
        P,
        "gone",
        "REF",
        "uuid-1",
        sha256_of(1),
        10
    );
    ok!(
        c,
        "DEDUPE.REVISIT",
        P,
        "gone",
        "SEQ",
        "w",
        1,
        sha256_of(2),
        10
    );
    ok!(c, "DEDUPE.WACZOPEN", P, "gone", "gone.wacz");
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        P,
        "gone",
        0,
        "gone.wacz",
        "sha256:ab",
        5
    );
    ok!(c, "DEDUPE.CLAIM", P, "gone", sha256_of(100), "PX", 100_000);
    assert_eq!(set_key(&mut c, &key("gone:reqCrawls")), ["base"]);
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "gone"), int(20));
    let after = Snapshot::of(&mut c).without_counters();
    after.assert_same(&before.without_counters(), "after CANCEL");
    assert!(err!(c, "DEDUPE.CANCEL", P, "gone").starts_with("NOCRAWL "));
}

#[test]
fn cancel_of_a_committed_crawl_says_committed() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    let before = server.snapshot();
    assert!(err!(c, "DEDUPE.CANCEL", P, "a").starts_with("COMMITTED "));
    server.snapshot().assert_same(&before, "refused CANCEL");
}

#[test]
fn crawl_id_used_again_adds_only_the_difference() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..10);
    commit(&mut c, P, "a");
    assert_eq!(add(&mut c, P, "a", 5..15), 5);
    let both = |c: &mut redis_tests::Wire| {
        (
            set_key(c, &key("uncommittedcrawls")),
            set_key(c, &key("allcrawls")),
        )
    };
    assert_eq!(both(&mut c), (vec!["a".to_owned()], vec!["a".to_owned()]));
    let mut expected = vec!["a"; 10];
    expected.extend(["-"; 5]);
    assert_eq!(owners(&mut c, P, 0..15), expected);
    assert_eq!(
        ok!(c, "DEDUPE.LOOKUP", P, "CRAWL", "a", sha256_of(12)),
        array([record_of("a", 12)])
    );
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 10);
    assert_eq!(commit(&mut c, P, "a"), (5, 0));
    assert_eq!(owners(&mut c, P, 0..15), ["a"; 15]);
    assert_eq!(counts(&mut c, COUNTS), counts(&mut c, &key("h:a:counts")));
    assert_consistent(&mut c, P);
}

#[test]
fn fresh_hashes_of_a_continued_crawl_do_not_take_over() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..10);
    commit(&mut c, P, "a");
    add(&mut c, P, "b", 10..20);
    commit(&mut c, P, "b");
    add(&mut c, P, "a", 10..30);
    assert_eq!(commit(&mut c, P, "a"), (10, 10));
    assert_eq!(owners(&mut c, P, 10..20), ["b"; 10]);
    assert_eq!(owners(&mut c, P, 20..30), ["a"; 10]);
    assert_consistent(&mut c, P);
}

#[test]
fn cancel_of_a_continuation_takes_back_what_came_since_the_commit() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "other", 100..103);
    commit(&mut c, P, "other");
    add(&mut c, P, "a", 0..10);
    ok!(c, "DEDUPE.REVISIT", P, "a", sha256_of(1), 10);
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "first.wacz");
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        P,
        "a",
        0,
        "first.wacz",
        "sha256:ab",
        11
    );
    commit(&mut c, P, "a");
    let before = Snapshot::of(&mut c);

    add(&mut c, P, "a", 5..25);
    ok!(c, "DEDUPE.REVISIT", P, "a", "REF", "u", sha256_of(100), 10);
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "second.wacz");
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        P,
        "a",
        1,
        "second.wacz",
        "sha256:cd",
        22
    );
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(15));
    Snapshot::of(&mut c).assert_same(&before, "after CANCEL of the continuation");
    assert_eq!(owners(&mut c, P, [0, 9, 10, 24]), ["a", "a", "-", "-"]);
    assert!(err!(c, "DEDUPE.CANCEL", P, "a").starts_with("COMMITTED "));
    assert_consistent(&mut c, P);
}

#[test]
fn only_crawls_known_to_the_index_own_hashes() {
    // An owner counts only once it is in `allcrawls`.
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "HSET", key("allhashes"), sha256_of(1), "ghost");
    ok!(
        c,
        "HSET",
        key("h:ghost"),
        sha256_of(1),
        "0 20260101000000 http://e.com/ 5"
    );
    assert_eq!(owners(&mut c, P, [1]), ["-"]);
    ok!(c, "SADD", key("allcrawls"), "ghost");
    assert_eq!(owners(&mut c, P, [1]), ["ghost"]);
}

#[test]
fn lookup_falls_back_when_the_owners_record_is_gone() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..2);
    add(&mut c, P, "b", 1..3);
    commit(&mut c, P, "a");
    commit(&mut c, P, "b");
    plainly(&mut c, P, |c| {
        ok!(c, "HDEL", key("h:a"), sha256_of(0), sha256_of(1))
    });
    assert_eq!(owners(&mut c, P, 0..3), ["-", "b", "b"]);
}

/// A crawl whose commit takes long enough to be met in its middle.
fn long_crawl<'a>(id: &'a str, first: u64) -> Crawl<'a> {
    Crawl {
        prefix: P,
        id,
        first,
        hashes: 100_000,
    }
}

fn until_committing(server: &Server, crawl: &str) {
    let mut c = server.wire();
    until("the commit is under way", || {
        ok!(c, "HEXISTS", key("committing"), crawl) == int(1)
    });
}

#[test]
fn add_during_own_commit_belongs_to_the_next_one() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until_committing(&server, "a");
    assert_eq!(add(&mut c, P, "a", 1_000_000..1_000_010), 10);
    let still = ok!(c, "HEXISTS", key("committing"), "a");
    assert_eq!(still, int(1), "the commit was over too soon for this test");
    assert_eq!(committer.recv(), array([int(100_000), int(0)]));
    assert_eq!(owners(&mut c, P, [0, 99_999, 1_000_003]), ["a", "a", "-"]);
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 100_000);
    assert_eq!(commit(&mut c, P, "a"), (10, 0));
    assert_eq!(owners(&mut c, P, [1_000_003]), ["a"]);
    assert_eq!(counts(&mut c, COUNTS), counts(&mut c, &key("h:a:counts")));
    assert_consistent(&mut c, P);
}

#[test]
fn what_a_running_commit_takes_is_not_replaced_by_an_earlier_record() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until_committing(&server, "a");
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
    assert_eq!(committer.recv(), array([int(100_000), int(0)]));
    let early = array([bulk("a"), int(0), bulk("20000101000000"), bulk(url), int(5)]);
    let stored = |c: &mut Wire, n: u64| {
        let found = ok!(c, "DEDUPE.LOOKUP", P, "CRAWL", "a", sha256_of(n));
        found.items()[0].clone()
    };
    assert_eq!(stored(&mut c, 7), record_of("a", 7));
    assert_eq!(stored(&mut c, 1_000_007), early);
    assert_eq!(commit(&mut c, P, "a"), (1, 0));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 100_003);
    assert_consistent(&mut c, P);
}

#[test]
fn cancel_during_commit_wins() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    add(&mut c, P, "base", 0..10);
    commit(&mut c, P, "base");
    let before = Snapshot::of(&mut c);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 5).add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until_committing(&server, "a");
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(100_000));
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
    one.send(&["DEDUPE.COMMIT", P, "a"]);
    until_committing(&server, "a");
    two.send(&["DEDUPE.COMMIT", P, "a"]);
    assert_eq!(one.recv(), array([int(100_000), int(0)]));
    assert_eq!(two.recv(), array([int(100_000), int(0)]));
    assert_eq!(counts(&mut one, COUNTS)["totalUrls"], 100_000);
}

#[test]
fn commit_outlives_its_client() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    long_crawl("a", 0).add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until_committing(&server, "a");
    committer.hang_up();
    until("the commit is done", || {
        ok!(c, "SISMEMBER", key("allcrawls"), "a") == int(1)
    });
    assert_eq!(indexed(&mut c, P), 100_000);
    assert_eq!(ok!(c, "EXISTS", key("committing")), int(0));
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 100_000);
}

#[test]
fn two_commits_and_a_cancel_at_once_end_in_a_serial_outcome() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let (a, b, gone) = (
        Crawl {
            hashes: 60_000,
            ..long_crawl("a", 0)
        },
        Crawl {
            hashes: 60_000,
            ..long_crawl("b", 30_000)
        },
        Crawl {
            hashes: 60_000,
            ..long_crawl("c", 15_000)
        },
    );
    for crawl in [a, b, gone] {
        crawl.add(&mut c);
    }
    let mut jobs: Vec<_> = (0..3).map(|_| server.wire()).collect();
    jobs[0].send(&["DEDUPE.COMMIT", P, "a"]);
    jobs[1].send(&["DEDUPE.COMMIT", P, "b"]);
    jobs[2].send(&["DEDUPE.CANCEL", P, "c"]);
    // Look-ups meanwhile: the shared part has at most one owner in any one reply.
    let shared: Vec<u64> = (30_000..60_000).step_by(37).collect();
    until("both commits are done", || {
        let mut seen = owners(&mut c, P, shared.iter().copied());
        seen.dedup();
        assert!(seen.len() == 1, "one look-up saw several owners: {seen:?}");
        ok!(c, "SCARD", key("allcrawls")) == int(2)
    });
    let (first, second) = (jobs[0].recv().ints(), jobs[1].recv().ints());
    assert_eq!(jobs[2].recv(), int(60_000));
    let owner = owners(&mut c, P, [30_000])[0].clone();
    match owner.as_str() {
        "a" => assert_eq!((first, second), (vec![60_000, 0], vec![30_000, 30_000])),
        "b" => assert_eq!((second, first), (vec![60_000, 0], vec![30_000, 30_000])),
        other => panic!("the shared part belongs to {other}"),
    }
    let all = plain_hash(&mut c, P, "allhashes");
    assert_eq!(all.len(), 90_000);
    assert!((30_000..60_000).all(|n| all[&sha256_of(n)] == owner));
    assert_eq!(counts(&mut c, COUNTS)["totalUrls"], 120_000);
    assert_eq!(ok!(c, "HGET", key("h:c"), sha256_of(15_000)), nil());
    assert_consistent(&mut c, P);
}

#[test]
fn numbers_from_before_the_commit_outlive_a_canceled_continuation() {
    let server = Server::start();
    let mut c = server.wire();
    let revisit = |c: &mut Wire, n: i32| {
        let words = ok!(c, "DEDUPE.REVISIT", P, "a", "SEQ", "w", n, sha256_of(1), 10);
        words.int()
    };
    add(&mut c, P, "a", 0..5);
    assert_eq!(revisit(&mut c, 1), 1);
    commit(&mut c, P, "a");
    let sums = counts(&mut c, &key("h:a:counts"));
    assert_eq!(sums["dupeUrls"], 1);
    add(&mut c, P, "a", 5..9);
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(4));
    // A retry of the call from before: its stored reply, and nothing is counted.
    assert_eq!(revisit(&mut c, 1), 1);
    assert_eq!(counts(&mut c, &key("h:a:counts")), sums);
    assert_consistent(&mut c, P);
}
