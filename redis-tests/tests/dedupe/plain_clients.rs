//! Clients that use only the documented keys work before, between and after commands.

use redis_tests::{
    Crawl, DATE, DedupeIndex, Options, Server, array, bulk, fill_crawl, int, nil, ok, record_of,
    rows, sha256_of,
};

const P: &str = "p:";

/// Returns options for plain storage, because the clients access the merged index and the records
/// of committed crawls directly.
fn plain() -> Options {
    Options::new().plain()
}

fn start() -> (Server, DedupeIndex) {
    DedupeIndex::on(plain(), P)
}

/// Commits as documented: writes an owner for each hash without one, then the counts, then the
/// sets.
fn commit_plainly(c: &mut DedupeIndex, crawl: &str) {
    for hash in c.plain(format!("HKEYS p:h:{crawl}")).texts() {
        c.plain(format!("HSETNX p:allhashes {hash} {crawl}"));
    }
    let sums = c.plain(format!("HGETALL p:h:{crawl}:counts")).pairs();
    for (field, n) in sums {
        ok!(c, "HINCRBY", "p:allcounts", field.bytes(), n.bytes());
    }
    c.plain(format!("SMOVE p:uncommittedcrawls p:allcrawls {crawl}"));
}

fn plain_crawl(c: &mut DedupeIndex, id: &str, first: u64, hashes: u64) {
    fill_crawl(c, &Crawl::of(P, id, first..first + hashes));
}

#[test]
fn documented_lookup_works_on_what_commands_wrote() {
    let (_server, mut c) = start();
    c.add("a", 0..10);
    c.wacz("a", "a.wacz");
    c.commit("a");
    let owner = c.plain("HGET p:allhashes #3").text();
    assert_eq!(owner, "a");
    let record = c.plain(format!("HGET p:h:{owner} #3"));
    let written = format!("0 {DATE} http://example.com/page/3 1003");
    assert_eq!(record, bulk(written));
    let entry = r#"{"filename":"a.wacz","hash":"sha256:ab","size":100}"#;
    assert_eq!(c.plain("LRANGE p:c:a:wacz 0 -1"), array([bulk(entry)]));
    assert_eq!(c.plain("HGET p:h:a:counts totalUrls"), bulk("10"));
    assert_eq!(c.plain("HGET p:allcounts totalCrawlSize"), bulk("100"));
}

#[test]
fn command_commits_what_plain_clients_wrote() {
    let (_server, mut c) = DedupeIndex::start(P);
    plain_crawl(&mut c, "a", 0, 5000);
    assert_eq!(c.ok("LOOKUP CRAWL a #7"), array([record_of("a", 7)]));
    assert_eq!(c.commit("a"), (5000, 0));
    assert_eq!(c.owners([0, 4999]), ["a", "a"]);
    assert_eq!(c.counts("allcounts")["totalUrls"], 5000);
    assert_eq!(c.commit("a"), (0, 0));
    c.assert_consistent();
}

#[test]
fn commands_see_what_plain_clients_committed() {
    let (_server, mut c) = start();
    plain_crawl(&mut c, "a", 0, 20);
    commit_plainly(&mut c, "a");
    assert_eq!(c.owners([0, 19, 20]), ["a", "a", "-"]);
    assert_eq!(c.committed("b", 10..30), (10, 10));
    assert_eq!(c.ok("REMOVE a").ints(), [1, 10, 10]);
    assert_eq!(c.owners([0, 15, 25]), ["-", "b", "b"]);
    assert_eq!(c.counts("allcounts")["totalUrls"], 20);
    c.assert_consistent();
}

#[test]
fn plain_loop_and_commands_may_alternate_on_one_crawl() {
    let (_server, mut c) = DedupeIndex::start(P);
    plain_crawl(&mut c, "a", 0, 10);
    c.add("a", 5..15);
    c.plain(format!("HSETNX p:h:a #20 '0 {DATE} http://e.com/ 7'"));
    c.plain("HINCRBY p:h:a:counts totalUrls 1");
    c.plain(r#"RPUSH p:c:a:wacz {"filename":"plain.wacz"}"#);
    assert_eq!(c.ok("WACZOPEN a next.wacz"), int(1));
    c.ok("WACZCLOSE a 0 plain.wacz sha256:ab 50");
    // The same record again is a retry, regardless of which client wrote it first.
    assert_eq!(c.counts("h:a:counts")["totalUrls"], 16);
    assert_eq!(c.commit("a"), (16, 0));
    assert_eq!(c.counts("allcounts")["totalCrawlSize"], 50);
    assert_eq!(c.set("src:d"), ["plain.wacz"]);
    c.assert_consistent();
}

#[test]
fn plain_commit_after_command_adds_owns_the_hashes() {
    let (_server, mut c) = start();
    c.add("a", 0..10);
    commit_plainly(&mut c, "a");
    assert_eq!(c.owners(0..10), ["a"; 10]);
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.counts("allcounts")["totalUrls"], 10);
    c.assert_consistent();
}

#[test]
fn half_a_plain_commit_is_finished_by_the_command() {
    let (_server, mut c) = start();
    plain_crawl(&mut c, "a", 0, 100);
    for n in 0..50 {
        c.plain(format!("HSETNX p:allhashes #{n} a"));
    }
    assert_eq!(c.owners([0, 99]), ["-", "-"]);
    // The hashes that the plain client has committed may or may not be counted as new.
    let (new, known) = c.commit("a");
    assert!((50..=100).contains(&(new + known)), "{new} {known}");
    assert_eq!(c.owners([0, 99]), ["a", "a"]);
    assert_eq!(c.counts("allcounts")["totalUrls"], 100);
    c.assert_consistent();
}

#[test]
fn half_a_plain_commit_is_undone_by_cancel() {
    let (_server, mut c) = start();
    c.committed("keep", 40..60);
    plain_crawl(&mut c, "a", 0, 100);
    for n in 0..50 {
        c.plain(format!("HSETNX p:allhashes #{n} a"));
    }
    assert_eq!(c.ok("CANCEL a"), int(100));
    assert_eq!(c.plain("HLEN p:allhashes"), int(20));
    assert_eq!(c.plain("HGET p:allhashes #3"), nil());
    assert_eq!(c.plain("HGET p:allhashes #45"), bulk("keep"));
    c.assert_consistent();
}

#[test]
fn plain_purge_is_seen_by_the_commands() {
    // As documented, delete the keys of the crawl, and create the keys of the merged index again.
    let (_server, mut c) = start();
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        c.committed(id, hashes);
    }
    c.plain("DEL p:h:a p:h:a:counts p:c:a:wacz");
    assert_eq!(c.owners([0, 15]), ["-", "b"]);
    c.plain("SREM p:allcrawls a");
    c.plain("DEL p:allhashes p:allcounts");
    c.plain("SMOVE p:allcrawls p:uncommittedcrawls b");
    commit_plainly(&mut c, "b");
    assert_eq!(c.owners([0, 15, 25]), ["-", "b", "b"]);
    assert_eq!(c.committed("c", 0..5), (5, 0));
}

#[test]
fn plain_dependencies_are_read_and_kept() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("base", [1]);
    c.ok("WACZOPEN base base.wacz");
    c.commit("base");
    c.add("a", [2]);
    c.plain("SADD p:a:reqCrawls base");
    c.plain("SADD p:uuid:duperefs 'base 0'");
    let crawl = c.ok("REQUIRES a FORMAT RESP");
    let wacz = c.ok("REQUIRES REF uuid FORMAT RESP");
    assert_eq!(crawl, wacz);
    assert_eq!(crawl.items()[0].field("filename"), bulk("base.wacz"));
}

#[test]
fn odd_values_of_plain_clients_are_no_records_and_do_no_harm() {
    let (_server, mut c) = start();
    c.plain("SADD p:allcrawls a");
    let odd = [
        "",
        " ",
        "0",
        "x y z w",
        "0 20260101000000",
        "a 20260101000000 http://e.com/ b",
    ];
    for (n, value) in odd.iter().enumerate() {
        c.plain(format!("HSET p:h:a #{n} '{value}'"));
        c.plain(format!("HSET p:allhashes #{n} a"));
    }
    let seen = c.owners(0..odd.len() as u64);
    assert_eq!(seen, vec!["-"; odd.len()]);
    c.tells("CHECK", "ok 0");
    c.plain("PING");
}

#[test]
fn record_whose_size_is_not_a_number_is_a_record_of_size_zero() {
    let (server, mut c) = start();
    let value = "2 20260319102015 http://e.com/a NaN";
    c.plain("SADD p:uncommittedcrawls a");
    c.plain(format!("HSET p:h:a #1 '{value}'"));
    c.ok("COMMIT a");
    let before = server.snapshot();
    for storage in ["PACK", "UNPACK"] {
        c.ok(storage);
        let (date, url) = (bulk("20260319102015"), bulk("http://e.com/a"));
        let record = array([bulk("a"), int(2), date, url, int(0)]);
        assert_eq!(c.ok("LOOKUP #1"), array([record]));
        c.assert_consistent();
    }
    assert_eq!(c.plain("HGET p:h:a #1"), bulk(value));
    let changed = |key: &[u8]| key.ends_with(b"crawlspace");
    assert_eq!(server.snapshot().without(changed), before.without(changed));
    c.ok("REVISIT b #1 10");
    assert_eq!(c.plain("HGET p:h:b:counts conservedSize"), nil());
    // A capture that is added twice is a retry.
    let add = c.ok("ADD a #1 2 20260319102015 http://e.com/a 7");
    assert_eq!(add, int(0));
    assert_eq!(c.plain("HGET p:h:a:counts totalUrls"), nil());
}

#[test]
fn state_in_memory_follows_every_plain_change() {
    let (server, mut c) = start();
    let replica = plain().replica_of(&server).start();
    let mut r = DedupeIndex::of(&replica, P);
    let hash = sha256_of(1);
    let bare = hash.trim_start_matches("sha256:");
    c.committed("a", [1]);
    assert_eq!(c.owners([1]), ["a"]);
    // Each line changes the owner of hash 1 in a different way.
    for (line, owner) in rows![
        "SREM p:allcrawls a", "-";
        "SADD p:allcrawls a", "a";
        "RENAME p:allcrawls x", "-";
        "COPY x p:allcrawls", "a";
        "PEXPIRE p:allcrawls 0", "-";
        "SUNIONSTORE p:allcrawls x", "a";
        "DEL p:allhashes", "-";
        &format!("HSET p:allhashes {bare} a"), "a";
        // Crawl `b` is not committed. `allcrawls` was deleted once, so the look-up searches every
        // crawl.
        "HSET p:allhashes #1 b", "a";
        "SADD p:allcrawls b", "a"; // b has no record of the hash, and a has one
        &format!("HSET p:h:b {bare} '0 {DATE} http://e.com/ 7'"), "b";
        "HSET p:committing b '9 0 0'", "b";
        "SREM p:allcrawls b", "a";
        "HSET p:allhashes #1 a", "a";
        "RENAME p:h:a y", "-";
        "EVAL 'return redis.call(\"RENAME\", \"y\", \"p:h:a\")' 2 y p:h:a", "a";
        "FLUSHDB", "-";
    ] {
        c.plain(line);
        assert_eq!(c.owners([1]), [owner], "after {line}");
        server.wait_for_replica_offset(&replica);
        assert_eq!(r.owners([1]), [owner], "on the replica after {line}");
    }
}

#[test]
fn holders_found_by_searching_come_after_recorded_ones() {
    let (_server, mut c) = start();
    c.committed("a", 0..10);
    c.committed("b", 0..10);
    // A plain client commits a third holder. No command of the module has noticed this commit.
    plain_crawl(&mut c, "0-plain", 0, 10);
    commit_plainly(&mut c, "0-plain");
    assert_eq!(c.ok("REMOVE a").ints(), [1, 0, 10]);
    assert_eq!(c.owners(0..10), ["b"; 10]);
    assert_eq!(c.ok("REMOVE b").ints(), [1, 0, 10]);
    assert_eq!(c.owners(0..10), ["0-plain"; 10]);
    assert_eq!(c.counts("allcounts"), c.counts("h:0-plain:counts"));
    c.assert_consistent();
}

#[test]
fn id_of_a_crawl_that_was_purged_plainly_starts_from_nothing() {
    let (_server, mut c) = start();
    c.committed("a", 0..5);
    c.plain("DEL p:h:a p:h:a:counts p:c:a:wacz");
    c.plain("SREM p:allcrawls a");
    c.plain("DEL p:allhashes p:allcounts");
    assert_eq!(c.committed("a", [1]), (1, 0));
    assert_eq!(c.counts("allcounts")["totalUrls"], 1);
    assert_eq!(c.owners(0..2), ["-", "a"]);
    c.assert_consistent();
}

#[test]
fn sequence_numbers_of_a_plainly_canceled_crawl_do_not_apply_to_the_next_one() {
    let (_server, mut c) = DedupeIndex::start(P);
    for round in 0..2 {
        assert_eq!(c.ok("ADD a SEQ w 1 @1"), int(1), "round {round}");
        assert_eq!(c.plain("HLEN p:h:a"), int(1), "round {round}");
        c.plain("DEL p:h:a p:h:a:counts p:c:a:wacz");
        c.plain("SREM p:uncommittedcrawls a");
    }
}

#[test]
fn field_in_another_spelling_is_found_after_flushes_swaps_and_failovers() {
    let (mut server, mut c) = DedupeIndex::on(plain().aof(true), P);
    let replica = plain().replica_of(&server).start();
    let (mut r, mut three) = (DedupeIndex::of(&replica, P), c.another());
    three.plain("SELECT 3");
    let hash = sha256_of(1);
    let bare = hash.trim_start_matches("sha256:");
    c.committed("a", 0..3);
    assert_eq!(c.owners([1]), ["a"]);
    server.wait_for_replica_offset(&replica);
    assert_eq!(r.owners([1]), ["a"]);
    // The number of fields is unchanged, so it does not reveal the change.
    c.plain(format!("HDEL p:allhashes {hash}"));
    c.plain(format!("HSET p:allhashes {bare} a"));
    assert_eq!(c.owners([1]), ["a"]);
    three.plain("SET x 1");
    three.plain("FLUSHDB");
    assert_eq!(c.owners([1]), ["a"], "after FLUSHDB of another");
    server.wait_for_replica_offset(&replica);
    assert_eq!(r.owners([1]), ["a"], "on the replica");
    c.plain("SWAPDB 3 4");
    assert_eq!(c.owners([1]), ["a"], "after SWAPDB of others");
    c.plain("DEBUG RELOAD");
    assert_eq!(c.owners([1]), ["a"], "after a reload");
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.owners([1]), ["a"], "after a restart");
    server.wait_for_replica_offset(&replica);
    r.plain("REPLICAOF NO ONE");
    assert_eq!(r.owners([1]), ["a"], "on the new master");
    for d in [&mut c, &mut r] {
        d.tells("CHECK", "missingHashes 0");
        d.ok("REPAIR");
        assert_eq!(d.plain("HLEN p:allhashes"), int(3));
    }
}

#[test]
fn key_with_an_ambiguous_name_is_written_like_any_other() {
    let (server, mut c) = DedupeIndex::start("");
    let mut p = DedupeIndex::of(&server, P);
    c.committed("a", 0..3);
    p.committed("a", 0..3);
    for part in ["h:", "c:", "p:h:", "h:c:claims"] {
        let name = part.repeat(1_000_000);
        c.plain(format!("SET {name} 1"));
        c.plain(format!("HSET {name}x #1 '0 2 3 4'"));
        c.plain(format!("DEL {name}"));
        assert_eq!(c.owners([1]), ["a"]);
    }
    for d in [&mut c, &mut p] {
        assert_eq!(d.owners(0..4), ["a", "a", "a", "-"]);
        d.assert_consistent();
    }
}

#[test]
fn counts_spoiled_during_a_commit_do_not_add_a_part_of_it_twice() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    let fill = |c: &mut DedupeIndex| {
        c.add("a", 0..24_000);
        c.wacz("a", "a.wacz");
        c.ok("REVISIT a #1 1");
    };
    fill(&mut c);
    let sums = c.counts("h:a:counts");
    assert!(sums.len() >= 3, "{sums:?}");
    for name in sums.keys() {
        let mut committer = c.begun("COMMIT a");
        c.plain(format!("HSET p:allcounts {name} x"));
        assert!(committer.recv().is_error(), "{name} is not a number");
        c.plain(format!("HDEL p:allcounts {name}"));
        assert_eq!(c.counts("allcounts").len(), 0, "after {name}");
        // Start again with an empty crawl.
        assert_eq!(c.ok("CANCEL a"), int(24_000));
        fill(&mut c);
    }
    assert_eq!(c.commit("a"), (24_000, 0));
    assert_eq!(c.counts("allcounts"), sums);
    c.assert_consistent();
}
