//! `CHECK` finds damage to an index and `REPAIR` repairs it. `STATS` and `CRAWLS` describe the
//! index.

use redis_tests::{
    DedupeIndex, Options, Server, bulk, int, ok, packed_by_default, rows, sha256_of, until,
};

const P: &str = "p:";

fn index(c: &mut DedupeIndex) {
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        c.wacz(id, &format!("{id}.wacz"));
        c.committed(id, hashes);
    }
    c.add("open", 25..40);
}

/// Damages the index with these lines, checks that `CHECK` reports the finding, and that `REPAIR`
/// removes it.
fn finds_and_repairs(damage: &[&str], finding: &str) {
    let (server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    c.assert_consistent();
    c.plainly(|c| damage.iter().for_each(|line| drop(c.plain(line))));
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
    server.snapshot().assert_same(&mended, "repaired again");
}

#[test]
fn dangling_owners_are_found_and_repaired() {
    finds_and_repairs(&["HDEL p:h:a #3"], "danglingOwners");
}

#[test]
fn owners_that_no_list_of_crawls_has_are_found_and_repaired() {
    finds_and_repairs(&["HSET p:allhashes #500 nobody"], "hiddenOwners");
}

#[test]
fn missing_hashes_are_found_and_repaired() {
    finds_and_repairs(&["HDEL p:allhashes #3"], "missingHashes");
}

#[test]
fn drifted_counts_are_found_and_repaired() {
    finds_and_repairs(&["HINCRBY p:allcounts totalUrls 5"], "countDrift");
}

#[test]
fn bad_records_are_found_and_own_nothing() {
    let (_server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    c.plainly(|c| c.plain("HSET p:h:a #3 'no record' #15 'no record'"));
    c.tells("CHECK", "badRecords 2");
    assert_eq!(c.owners([3, 15]), ["-", "b"]);
    c.ok("REPAIR");
    c.tells("CHECK", "danglingOwners 0");
    assert_eq!(c.owners([3, 15]), ["-", "b"]);
    let merged = c.plain_hash("allhashes");
    assert_eq!(merged.get(&sha256_of(3)), None);
}

#[test]
fn leaked_keys_are_found_and_repaired() {
    // A plain client removes a crawl, but leaves the module's own keys.
    let lines = [
        "DEL p:h:open p:h:open:counts",
        "SREM p:uncommittedcrawls open",
        "HSET p:h:open:seq writer '1 1'",
    ];
    finds_and_repairs(&lines, "leakedKeys");
}

#[test]
fn a_crawl_in_no_set_is_reported_and_left_alone_until_it_is_named() {
    let (_server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    let record = "0 20260101000000 http://e.com/ 5";
    c.plain(format!("HSET p:h:forgotten #3 '{record}'"));
    c.plain(r#"RPUSH p:c:begun:wacz {"filename":"b.wacz"}"#);
    for command in ["CHECK", "REPAIR"] {
        c.tells(command, "unlistedCrawls 2 ok 1");
    }
    assert_eq!(c.plain("HGET p:h:forgotten #3"), bulk(record));
    let unlisted = c.ok("CRAWLS UNLISTED").pairs();
    let names: Vec<_> = unlisted.iter().map(|(id, _)| id.text()).collect();
    assert_eq!(names, ["begun", "forgotten"]);
    c.tells("STATS forgotten", "state unlisted");
    c.refused("REMOVE forgotten", "UNCOMMITTED");
    assert_eq!(c.ok("CANCEL begun"), int(0));
    assert_eq!(c.commit("forgotten"), (0, 1));
    c.assert_consistent();
    assert_eq!(c.plain("EXISTS p:c:begun:wacz"), int(0));
}

#[test]
fn records_under_an_id_that_is_too_long_are_ignored() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", [1]);
    let record = "0 20260101000000 http://e.com/ 5";
    for (bytes, crawls) in [(1025, 0), (1024, 1)] {
        let key = format!("p:h:{}", "x".repeat(bytes));
        c.plain(format!("HSET {key} #2 '{record}'"));
        c.tells("CHECK", &format!("unlistedCrawls {crawls}"));
        let unlisted = c.ok("CRAWLS UNLISTED").pairs();
        assert_eq!(unlisted.len() as i64, crawls, "{bytes} bytes");
    }
}

#[test]
fn repaired_hash_is_assigned_to_its_next_holder() {
    let (_server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    c.plainly(|c| c.plain("HDEL p:h:a #15"));
    c.ok("REPAIR");
    let merged = c.plain_hash("allhashes");
    assert_eq!(merged[&sha256_of(15)], "b");
    assert_eq!(c.owners([14, 15]), ["a", "b"]);
}

#[test]
fn placeholders_are_counted_but_not_reported_as_damage() {
    let (_server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    c.ok("WACZOPEN open open.wacz");
    c.commit("open");
    c.tells("CHECK", "placeholders 1 ok 1");
}

#[test]
fn check_of_an_empty_index_is_ok() {
    let (server, mut c) = DedupeIndex::start(P);
    c.assert_consistent();
    c.ok("REPAIR");
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn check_of_a_large_index_does_not_block_other_clients() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("big", 0..80_000);
    let mut checker = c.sent("CHECK");
    let mut pings = 0;
    while !checker.has_reply() {
        c.plain("PING");
        pings += 1;
    }
    assert_eq!(checker.recv().field("ok"), int(1));
    assert!(pings > 5, "only {pings} pings during the check");
}

#[test]
fn stats_of_the_index_add_up() {
    let (_server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    c.ok("REVISIT open #1 1");
    for figures in [
        "profile document crawls 2 uncommitted 1 hashes 30",
        "totalUrls 40 dupeUrls 0 conservedSize 0 totalCrawlSize 200",
        "removedCrawls 0 removedCrawlSize 0 updateProgress nil",
    ] {
        c.tells("STATS", figures);
    }
    assert_eq!(c.storage() == "packed", packed_by_default());
    assert!(c.ok("STATS").field("memory").int() > 3000);
    c.plain("HSET p:allcounts updateProgress 0.25");
    c.tells("STATS", "updateProgress 0.25");
}

#[test]
fn stats_of_a_crawl_name_its_state() {
    let (_server, mut c) = DedupeIndex::start(P);
    index(&mut c);
    c.add("b", 100..105);
    c.ok("REVISIT b #1 1");
    c.tells("STATS a", "state committed");
    c.tells("STATS open", "state uncommitted");
    c.tells("STATS b", "state continued hashes 25 waczs 1 totalUrls 26");
    c.tells("STATS b", "dupeUrls 1 conservedSize 1000 requires 1");
}

#[test]
fn crawls_are_listed_by_state() {
    let server = Server::start();
    for wire in [server.wire(), server.wire3()] {
        let mut c = DedupeIndex::over(wire, P);
        c.plain("FLUSHALL");
        index(&mut c);
        c.add("b", 100..105);
        let mut list = |line: &str| {
            let crawls = c.ok(line).pairs().into_iter();
            let mut names: Vec<String> = crawls.map(|(id, _)| id.text()).collect();
            names.sort();
            names
        };
        assert_eq!(list("CRAWLS"), ["a", "b", "open"]);
        assert_eq!(list("CRAWLS UNCOMMITTED"), ["b", "open"]);
        assert_eq!(list("CRAWLS committed"), ["a", "b"]);
        let all = c.ok("CRAWLS");
        assert_eq!(all.field("a").field("totalUrls"), int(20));
        assert_eq!(all.field("b").field("state"), bulk("continued"));
        assert_eq!(all.field("open").field("hashes"), int(15));
        assert_eq!(ok!(c, "DEDUPE.CRAWLS", "empty:").pairs(), []);
    }
}

#[test]
fn claim_replies_the_same_in_both_protocols() {
    // For all other commands, see `matrix::discovery::replies_are_the_same_in_both_protocols`.
    let (server, mut two) = DedupeIndex::start(P);
    two.committed("a", [1]);
    let mut three = DedupeIndex::over(server.wire3(), P);
    let rich = three.ok("CLAIM a #1 PX 10");
    assert_eq!(rich, two.ok("CLAIM a #1 PX 10"));
}

#[test]
fn counts_of_an_interrupted_commit_are_reported() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().aof_unsynced(true), P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("big", 0..40_000);
    let _committer = c.sent("COMMIT big");
    until("the commit is half way", || c.indexed() > 8_000);
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    let check = c.ok("CHECK");
    assert!(check.field("interrupted").int() > 0, "{check:?}");
    c.ok("REPAIR");
    c.commit("big");
    c.assert_consistent();
    assert_eq!(c.counts("allcounts")["totalUrls"], 40_000);
}

#[test]
fn repair_spares_the_keys_of_indexes_with_a_longer_prefix() {
    // A key such as `h:h:a` has records of crawl `h:a` under one prefix, and of crawl `a` under
    // another.
    let server = Server::start();
    let prefixes = ["", "h:", "c:", "h:site:", "c:site:", "x", "xh:", "xc:h:"];
    let mut indexes = prefixes.map(|p| DedupeIndex::of(&server, p));
    for (n, c) in (0..).zip(&mut indexes) {
        c.wacz("a", "a.wacz");
        c.committed("a", n * 10..n * 10 + 5);
        // A continued crawl and an uncommitted one have more keys than a committed one.
        c.add("a", [n * 10 + 7]);
        c.add("open", [n * 10 + 8]);
    }
    let before = server.snapshot().without_counters();
    for c in &mut indexes {
        c.tells("CHECK", "leakedKeys 0 ok 1");
        c.tells("REPAIR", "repaired 0");
    }
    let after = server.snapshot().without_counters();
    after.assert_same(&before, "nothing had to be repaired");
    for (n, c) in (0..).zip(&mut indexes) {
        assert_eq!(c.owners([n * 10]), ["a"], "{:?}", c.prefix());
        assert_eq!(c.ok("WACZLIST a").items().len(), 1, "{:?}", c.prefix());
    }
}

#[test]
fn non_numeric_counts_are_found_and_repaired() {
    for key in ["p:h:a:counts", "p:h:open:counts", "p:allcounts"] {
        finds_and_repairs(&[&format!("HSET {key} totalUrls x")], "countDrift");
    }
}

#[test]
fn non_numeric_sums_of_removed_crawls_are_found_and_repaired() {
    for field in ["removedCrawls", "removedCrawlSize"] {
        let damage = format!("HSET p:allcounts {field} x");
        finds_and_repairs(&[&damage], "countDrift");
    }
}

#[test]
fn damaged_counters_are_found_and_restored_from_the_numbers_in_use() {
    for value in ["x", "-1", "0", "''"] {
        for (counter, last, line) in rows![
            "commits", "2", "COMMIT open";
            "tokens", "1", "CLAIM a #91 PX 60000";
            "visible", "1", "BEGIN more VISIBLE";
        ] {
            let (_server, mut c) = DedupeIndex::start(P);
            index(&mut c);
            assert_eq!(c.ok("CLAIM a #90 PX 60000").items()[1], bulk("1"));
            c.ok("BEGIN seen VISIBLE");
            let get = format!("HGET p:crawlspace {counter}");
            assert_eq!(c.plain(&get), bulk(last));
            c.plain(format!("HSET p:crawlspace {counter} {value}"));
            c.tells("CHECK", "countDrift 1");
            if ["x", "''"].contains(&value) {
                c.refused(line, "ERR DEDUPE.REPAIR");
            }
            c.tells("REPAIR", "repaired 1");
            assert_eq!(c.plain(&get), bulk(last));
            c.assert_consistent();
            c.commit("open");
            assert_eq!(c.ok("CLAIM a #91 PX 60000").items()[1], bulk("2"));
            c.ok("BEGIN more VISIBLE");
            c.assert_consistent();
        }
    }
}

#[test]
fn commands_that_failed_on_damaged_counts_work_after_a_repair() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", 0..5);
    c.plain("HSET p:h:a:counts totalUrls x");
    c.refused("ADD a @9", "ERR DEDUPE.REPAIR");
    c.ok("REPAIR");
    assert_eq!(c.add("a", [9]), 1);
    // No crawl is committed yet, so only the field itself is wrong.
    c.plain("HSET p:allcounts totalUrls x");
    c.refused("COMMIT a", "ERR DEDUPE.REPAIR");
    c.ok("REPAIR");
    assert_eq!(c.commit("a"), (6, 0));
    c.assert_consistent();
    assert_eq!(c.counts("allcounts"), c.counts("h:a:counts"));
}
