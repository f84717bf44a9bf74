//! At `maxmemory` growing commands are refused, freeing ones work, and jobs stop cleanly.

use redis_tests::{
    Crawl, DATE, Options, Reply, Server, add, array, assert_consistent, commit, counts, indexed,
    int, ok, owners, record_of, sha256_of, until,
};

const P: &str = "p:";

#[test]
fn growing_commands_are_refused_and_others_work() {
    let server = Server::start();
    let mut c = server.wire();
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        add(&mut c, P, id, hashes);
        commit(&mut c, P, id);
    }
    add(&mut c, P, "open", [50]);
    ok!(c, "DEDUPE.CLAIM", P, "open", sha256_of(60), "PX", 600_000);
    ok!(c, "CONFIG", "SET", "maxmemory", 1);
    let before = server.snapshot();
    let h = sha256_of(70);
    let growing: [&[&str]; 7] = [
        &["DEDUPE.BEGIN", P, "new"],
        &["DEDUPE.ADD", P, "a", &h, "0", DATE, "http://e.com/", "5"],
        &["DEDUPE.REVISIT", P, "a", &sha256_of(1), "5"],
        &["DEDUPE.CLAIM", P, "a", &h, "PX", "1000"],
        &["DEDUPE.WACZOPEN", P, "a", "a.wacz"],
        &["DEDUPE.WACZCLOSE", P, "a", "0", "a.wacz", "sha256:ab", "5"],
        &["DEDUPE.COMMIT", P, "open"],
    ];
    for words in growing {
        let line = c.expect_error(words);
        assert!(line.starts_with("OOM "), "{words:?}: {line}");
    }
    server
        .snapshot()
        .assert_same(&before, "refused for want of memory");
    assert_eq!(
        ok!(c, "DEDUPE.LOOKUP", P, sha256_of(1)),
        array([record_of("a", 1)])
    );
    for read in ["DEDUPE.STATS", "DEDUPE.CRAWLS", "DEDUPE.CHECK"] {
        ok!(c, read, P);
    }
    ok!(c, "DEDUPE.UNCLAIM", P, sha256_of(60), "1");
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "open"), int(1));
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "b").ints(), [1, 10, 0]);
    assert_eq!(owners(&mut c, P, [0, 15, 25]), ["a", "a", "-"]);
    ok!(c, "CONFIG", "SET", "maxmemory", 0);
    assert_consistent(&mut c, P);
}

#[test]
fn commit_that_meets_maxmemory_stops_cleanly_and_finishes_later() {
    let server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..60_000).add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || indexed(&mut c, P) > 8_000);
    ok!(c, "CONFIG", "SET", "maxmemory", 1);
    match committer.recv() {
        Reply::Error(line) => assert!(line.starts_with(b"OOM "), "{}", line.escape_ascii()),
        other => panic!("the committer got {other:?}"),
    }
    assert!(indexed(&mut c, P) < 60_000);
    assert_eq!(owners(&mut c, P, [0, 59_999]), ["-", "-"]);
    ok!(c, "CONFIG", "SET", "maxmemory", 0);
    assert_eq!(commit(&mut c, P, "a"), (60_000, 0));
    assert_eq!(owners(&mut c, P, [0, 59_999]), ["a", "a"]);
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 60_000);
    assert_consistent(&mut c, P);
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn evicting_policy_is_told_in_info_and_in_the_log() {
    let server = Server::start();
    let mut c = server.wire();
    assert_eq!(server.info("evicting_policy").as_deref(), Some("0"));
    ok!(c, "CONFIG", "SET", "maxmemory", 1 << 30);
    ok!(c, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    assert_eq!(server.info("evicting_policy").as_deref(), Some("1"));
    let evicting = ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"];
    let server = Options::new().args(&evicting).start();
    assert!(
        server.log().contains("maxmemory-policy may evict"),
        "{}",
        server.log()
    );
}
