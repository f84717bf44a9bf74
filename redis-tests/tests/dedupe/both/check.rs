//! CHECK finds what is wrong with an index, REPAIR mends it; STATS and CRAWLS say what is there.

use redis_tests::{
    DedupeIndex, Options, Reply, Server, Wire, add, assert_consistent, bulk, commit, counts, err,
    indexed, int, nil, ok, owners, packed_by_default, plain_hash, plainly, sha256_of,
};

const P: &str = "p:";

fn index(c: &mut Wire) {
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        add(c, P, id, hashes);
        let name = format!("{id}.wacz");
        ok!(c, "DEDUPE.WACZOPEN", P, id, name);
        ok!(c, "DEDUPE.WACZCLOSE", P, id, 0, name, "sha256:ab", 100);
        commit(c, P, id);
    }
    add(c, P, "open", 25..40);
}

/// Damages the index, expects the finding, repairs, expects none.
fn finds_and_repairs(damage: impl Fn(&mut Wire), finding: &str) {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    c.assert_consistent();
    plainly(&mut c, P, |c| damage(c));
    let before = server.snapshot();
    let check = c.ok("CHECK");
    assert_eq!(check.field("ok"), int(0), "{check:?}");
    assert!(check.field(finding).int() > 0, "{finding} in {check:?}");
    server.snapshot().assert_same(&before, "CHECK reads only");
    let repair = c.ok("REPAIR");
    assert!(repair.field("repaired").int() > 0, "{repair:?}");
    c.assert_consistent();
    let mended = server.snapshot();
    c.ok("REPAIR");
    server
        .snapshot()
        .assert_same(&mended, "nothing is left to repair");
}

#[test]
fn dangling_owners_are_found_and_repaired() {
    finds_and_repairs(
        |c| drop(ok!(c, "HDEL", "p:h:a", sha256_of(3))),
        "danglingOwners",
    );
}

#[test]
fn owners_that_no_list_of_crawls_has_are_found_and_repaired() {
    finds_and_repairs(
        |c| drop(ok!(c, "HSET", "p:allhashes", sha256_of(500), "nobody")),
        "hiddenOwners",
    );
}

#[test]
fn missing_hashes_are_found_and_repaired() {
    finds_and_repairs(
        |c| drop(ok!(c, "HDEL", "p:allhashes", sha256_of(3))),
        "missingHashes",
    );
}

#[test]
fn drifted_counts_are_found_and_repaired() {
    finds_and_repairs(
        |c| drop(ok!(c, "HINCRBY", "p:allcounts", "totalUrls", 5)),
        "countDrift",
    );
}

#[test]
fn bad_records_are_found_and_own_nothing() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    plainly(&mut c, P, |c| {
        for n in [3, 15] {
            ok!(c, "HSET", "p:h:a", sha256_of(n), "no record");
        }
    });
    let check = c.ok("CHECK");
    assert_eq!(check.field("badRecords"), int(2), "{check:?}");
    assert_eq!(c.owners([3, 15]), ["-", "b"]);
    c.ok("REPAIR");
    let check = c.ok("CHECK");
    assert_eq!(check.field("danglingOwners"), int(0), "{check:?}");
    assert_eq!(c.owners([3, 15]), ["-", "b"]);
    let merged = plain_hash(&mut c, P, "allhashes");
    assert_eq!(merged.get(&sha256_of(3)), None);
}

#[test]
fn leaked_keys_are_found_and_repaired() {
    finds_and_repairs(
        |c| {
            // A plain client removes a crawl, and knows nothing of our own keys.
            ok!(c, "DEL", "p:h:open", "p:h:open:counts");
            ok!(c, "SREM", "p:uncommittedcrawls", "open");
            ok!(c, "HSET", "p:h:open:seq", "writer", "1 1");
        },
        "leakedKeys",
    );
}

#[test]
fn a_crawl_in_no_set_is_reported_and_left_alone_until_it_is_named() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    let record = "0 20260101000000 http://e.com/ 5";
    ok!(c, "HSET", "p:h:forgotten", sha256_of(3), record);
    ok!(c, "RPUSH", "p:c:begun:wacz", r#"{"filename":"b.wacz"}"#);
    for command in ["DEDUPE.CHECK", "DEDUPE.REPAIR"] {
        let found = c.expect_ok(&[command, P]);
        assert_eq!(found.field("unlistedCrawls"), int(2), "{found:?}");
        assert_eq!(found.field("ok"), int(1), "{found:?}");
    }
    assert_eq!(ok!(c, "HGET", "p:h:forgotten", sha256_of(3)), bulk(record));
    let unlisted = c.ok("CRAWLS UNLISTED").pairs();
    let names: Vec<_> = unlisted.iter().map(|(id, _)| id.text()).collect();
    assert_eq!(names, ["begun", "forgotten"]);
    let stats = c.ok("STATS forgotten");
    assert_eq!(stats.field("state"), bulk("unlisted"));
    assert!(c.err("REMOVE forgotten").starts_with("UNCOMMITTED "));
    assert_eq!(c.ok("CANCEL begun"), int(0));
    assert_eq!(c.commit("forgotten"), (0, 1));
    c.assert_consistent();
    assert_eq!(ok!(c, "EXISTS", "p:c:begun:wacz"), int(0));
}

#[test]
fn records_under_an_id_that_is_too_long_are_of_no_crawl() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    let record = "0 20260101000000 http://e.com/ 5";
    for (bytes, crawls) in [(1025, 0), (1024, 1)] {
        let key = format!("p:h:{}", "x".repeat(bytes));
        ok!(c, "HSET", key, sha256_of(2), record);
        let found = c.ok("CHECK");
        assert_eq!(found.field("unlistedCrawls"), int(crawls), "{bytes} bytes");
        let unlisted = c.ok("CRAWLS UNLISTED").pairs();
        assert_eq!(unlisted.len() as i64, crawls, "{bytes} bytes");
    }
}

#[test]
fn repaired_hash_goes_to_its_next_holder() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    plainly(&mut c, P, |c| ok!(c, "HDEL", "p:h:a", sha256_of(15)));
    c.ok("REPAIR");
    let merged = plain_hash(&mut c, P, "allhashes");
    assert_eq!(merged[&sha256_of(15)], "b");
    assert_eq!(c.owners([14, 15]), ["a", "b"]);
}

#[test]
fn placeholders_are_counted_but_are_no_fault() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    c.ok("WACZOPEN open open.wacz");
    c.commit("open");
    let check = c.ok("CHECK");
    assert_eq!(check.field("placeholders"), int(1));
    assert_eq!(check.field("ok"), int(1));
}

#[test]
fn check_of_an_empty_index_is_ok() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.assert_consistent();
    c.ok("REPAIR");
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn check_of_a_large_index_lets_others_through() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    redis_tests::Crawl::of(P, "big", 0..80_000).add(&mut c);
    c.commit("big");
    let mut checker = server.wire();
    checker.send(&["DEDUPE.CHECK", P]);
    let mut pings = 0;
    while !checker.has_reply() {
        ok!(c, "PING");
        pings += 1;
    }
    assert_eq!(checker.recv().field("ok"), int(1));
    assert!(pings > 5, "only {pings} pings during the check");
}

#[test]
fn stats_of_the_index_add_up() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    c.ok("REVISIT open #1 1");
    let stats = c.ok("STATS");
    let number = |field: &str| stats.field(field).int();
    assert_eq!(stats.field("profile"), bulk("document"));
    let storage = if packed_by_default() {
        "packed"
    } else {
        "plain"
    };
    assert_eq!(stats.field("storage"), bulk(storage));
    assert_eq!(
        (number("crawls"), number("uncommitted"), number("hashes")),
        (2, 1, 30)
    );
    assert_eq!((number("totalUrls"), number("dupeUrls")), (40, 0));
    assert_eq!(
        (number("conservedSize"), number("totalCrawlSize")),
        (0, 200)
    );
    assert_eq!(
        (number("removedCrawls"), number("removedCrawlSize")),
        (0, 0)
    );
    assert_eq!(stats.field("updateProgress"), nil());
    assert!(number("memory") > 3000);
    ok!(c, "HSET", "p:allcounts", "updateProgress", "0.25");
    assert_eq!(c.ok("STATS").field("updateProgress"), bulk("0.25"));
}

#[test]
fn stats_of_a_crawl_name_its_state() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    index(&mut c);
    c.add("b", 100..105);
    c.ok("REVISIT b #1 1");
    let stats = |c: &mut DedupeIndex, id: &str| c.ok(format!("STATS '{id}'"));
    assert_eq!(stats(&mut c, "a").field("state"), bulk("committed"));
    assert_eq!(stats(&mut c, "open").field("state"), bulk("uncommitted"));
    let b = stats(&mut c, "b");
    assert_eq!(b.field("state"), bulk("continued"));
    assert_eq!((b.field("hashes"), b.field("waczs")), (int(25), int(1)));
    assert_eq!(
        (b.field("totalUrls"), b.field("dupeUrls")),
        (int(26), int(1))
    );
    assert_eq!(b.field("conservedSize"), int(1000));
    assert_eq!(b.field("requires"), int(1));
}

#[test]
fn crawls_are_listed_by_state() {
    let server = Server::start();
    for mut c in [server.wire(), server.wire3()] {
        ok!(c, "FLUSHALL");
        index(&mut c);
        add(&mut c, P, "b", 100..105);
        let list = |c: &mut Wire, which: &[&str]| {
            let words = [&["DEDUPE.CRAWLS", P], which].concat();
            let mut names: Vec<String> = c
                .expect_ok(&words)
                .pairs()
                .iter()
                .map(|p| p.0.text())
                .collect();
            names.sort();
            names
        };
        assert_eq!(list(&mut c, &[]), ["a", "b", "open"]);
        assert_eq!(list(&mut c, &["UNCOMMITTED"]), ["b", "open"]);
        assert_eq!(list(&mut c, &["committed"]), ["a", "b"]);
        let all = ok!(c, "DEDUPE.CRAWLS", P);
        assert_eq!(all.field("a").field("totalUrls"), int(20));
        assert_eq!(all.field("b").field("state"), bulk("continued"));
        assert_eq!(all.field("open").field("hashes"), int(15));
        assert_eq!(ok!(c, "DEDUPE.CRAWLS", "empty:").pairs(), []);
    }
}

#[test]
fn resp3_replies_are_maps_and_resp2_replies_the_same_flat() {
    let server = Server::start();
    let (mut two, mut three) = (server.wire(), server.wire3());
    index(&mut two);
    ok!(
        two,
        "DEDUPE.REVISIT",
        P,
        "open",
        "REF",
        "u",
        sha256_of(1),
        1
    );
    let hash = sha256_of(1);
    let commands: [(&[&str], bool); 12] = [
        (&["DEDUPE.STATS", P], true),
        (&["DEDUPE.STATS", P, "a"], true),
        (&["DEDUPE.CRAWLS", P], true),
        (&["DEDUPE.CHECK", P], true),
        (&["DEDUPE.REPAIR", P], true),
        (&["DEDUPE.LOOKUP", P, &hash], false),
        (&["DEDUPE.LOOKUP", P, "WITHWACZ", &hash], false),
        (&["DEDUPE.WACZLIST", P, "a"], false),
        (&["DEDUPE.REQUIRES", P, "open"], false),
        (&["DEDUPE.REQUIRES", P, "open", "FORMAT", "RESP"], false),
        (&["DEDUPE.REQUIREDBY", P, "a"], false),
        (&["DEDUPE.CLAIM", P, "a", &hash, "PX", "10"], false),
    ];
    // Figures of memory may differ from call to call.
    let steady = |reply: Reply| match reply {
        Reply::Array(items) => {
            let memory = items.iter().position(|i| *i == bulk("memory"));
            let mut items = items;
            if let Some(at) = memory {
                items[at + 1] = nil();
            }
            Reply::Array(items)
        }
        other => other,
    };
    for (words, is_map) in commands {
        let (flat, rich) = (two.expect_ok(words), three.expect_ok(words));
        assert_eq!(matches!(rich, Reply::Map(_)), is_map, "{words:?}: {rich:?}");
        assert_eq!(steady(rich.as_resp2()), steady(flat), "{words:?}");
    }
    let list = ok!(three, "DEDUPE.WACZLIST", P, "a");
    assert!(matches!(list.items()[0], Reply::Map(_)), "{list:?}");
}

#[test]
fn counts_of_an_interrupted_commit_are_told() {
    let mut server = Options::new().aof_unsynced(true).start();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    redis_tests::Crawl::of(P, "big", 0..40_000).add(&mut c);
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "big"]);
    redis_tests::until("the commit is half way", || indexed(&mut c, P) > 8_000);
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    let check = c.ok("CHECK");
    assert!(check.field("interrupted").int() > 0, "{check:?}");
    c.ok("REPAIR");
    c.commit("big");
    c.assert_consistent();
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 40_000);
}

#[test]
fn repair_spares_the_keys_of_indexes_with_a_longer_prefix() {
    // Keys such as `h:h:a` are records of crawl `h:a` under one prefix, of crawl `a` under another.
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let prefixes = ["", "h:", "c:", "h:site:", "c:site:", "x", "xh:", "xc:h:"];
    for (n, p) in (0..).zip(prefixes) {
        add(&mut c, p, "a", n * 10..n * 10 + 5);
        ok!(c, "DEDUPE.WACZOPEN", p, "a", "a.wacz");
        ok!(c, "DEDUPE.WACZCLOSE", p, "a", 0, "a.wacz", "sha256:ab", 9);
        commit(&mut c, p, "a");
        // A continuation and an open crawl have more keys than a committed one.
        add(&mut c, p, "a", [n * 10 + 7]);
        add(&mut c, p, "open", [n * 10 + 8]);
    }
    let before = server.snapshot().without_counters();
    for p in prefixes {
        let check = ok!(c, "DEDUPE.CHECK", p);
        assert_eq!(check.field("leakedKeys"), int(0), "{p:?}: {check:?}");
        assert_consistent(&mut c, p);
        let repair = ok!(c, "DEDUPE.REPAIR", p);
        assert_eq!(repair.field("repaired"), int(0), "{p:?}: {repair:?}");
    }
    server
        .snapshot()
        .without_counters()
        .assert_same(&before, "nothing was to repair");
    for (n, p) in (0..).zip(prefixes) {
        assert_eq!(owners(&mut c, p, [n * 10]), ["a"], "{p:?}");
        assert_eq!(ok!(c, "DEDUPE.WACZLIST", p, "a").items().len(), 1, "{p:?}");
    }
}

#[test]
fn counts_that_are_no_numbers_are_found_and_repaired() {
    for key in ["p:h:a:counts", "p:h:open:counts", "p:allcounts"] {
        finds_and_repairs(
            |c| drop(ok!(c, "HSET", key, "totalUrls", "x")),
            "countDrift",
        );
    }
}

#[test]
fn sums_of_removed_crawls_that_are_no_numbers_are_found_and_repaired() {
    for field in ["removedCrawls", "removedCrawlSize"] {
        finds_and_repairs(
            |c| drop(ok!(c, "HSET", "p:allcounts", field, "x")),
            "countDrift",
        );
    }
}

#[test]
fn spoiled_counters_are_found_and_taken_from_the_numbers_in_use() {
    for value in ["x", "-1", "0", ""] {
        for (counter, last) in [("commits", "2"), ("tokens", "1"), ("visible", "1")] {
            let server = Server::start();
            let mut c = DedupeIndex::of(&server, P);
            index(&mut c);
            assert_eq!(c.ok("CLAIM a #90 PX 60000").items()[1], bulk("1"));
            c.ok("BEGIN seen VISIBLE");
            assert_eq!(ok!(c, "HGET", "p:crawlspace", counter), bulk(last));
            ok!(c, "HSET", "p:crawlspace", counter, value);
            let check = c.ok("CHECK");
            assert_eq!(check.field("countDrift"), int(1), "{check:?}");
            let refused = |c: &mut DedupeIndex, line: &str| {
                let error = c.err(line);
                assert!(error.contains("DEDUPE.REPAIR"), "{line}: {error}");
            };
            if ["x", ""].contains(&value) {
                match counter {
                    "commits" => refused(&mut c, "COMMIT open"),
                    "tokens" => refused(&mut c, "CLAIM a #91 PX 60000"),
                    _ => refused(&mut c, "BEGIN more VISIBLE"),
                }
            }
            assert_eq!(c.ok("REPAIR").field("repaired"), int(1), "{counter}");
            assert_eq!(ok!(c, "HGET", "p:crawlspace", counter), bulk(last));
            c.assert_consistent();
            c.commit("open");
            assert_eq!(c.ok("CLAIM a #91 PX 60000").items()[1], bulk("2"));
            c.ok("BEGIN more VISIBLE");
            c.assert_consistent();
        }
    }
}

#[test]
fn commands_that_met_spoiled_counts_work_after_a_repair() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..5);
    ok!(c, "HSET", "p:h:a:counts", "totalUrls", "x");
    let [hash, index, date, url, size] = redis_tests::words_of(9);
    let line = err!(c, "DEDUPE.ADD", P, "a", hash, index, date, url, size);
    assert!(line.contains("DEDUPE.REPAIR"), "{line}");
    c.ok("REPAIR");
    assert_eq!(c.add("a", [9]), 1);
    // No crawl is committed yet, so that nothing but the field itself is wrong.
    ok!(c, "HSET", "p:allcounts", "totalUrls", "x");
    let line = c.err("COMMIT a");
    assert!(line.contains("DEDUPE.REPAIR"), "{line}");
    c.ok("REPAIR");
    assert_eq!(c.commit("a"), (6, 0));
    c.assert_consistent();
    assert_eq!(
        counts(&mut c, "p:allcounts"),
        counts(&mut c, "p:h:a:counts")
    );
}
