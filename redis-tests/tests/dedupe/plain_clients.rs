//! Clients that know only the documents work on the same keys, before, between and after commands.

use redis_tests::{
    Crawl, DATE, DedupeIndex, Options, Server, Wire, add, array, assert_consistent, begin_job,
    bulk, commit, counts, fill_crawl, int, nil, ok, owners, record_of, set_key, sha256_of,
};

const P: &str = "p:";

/// They read and write the merged index and the records of committed crawls themselves.
fn plain() -> Options {
    Options::new().plain()
}

fn plain_server() -> Server {
    plain().start()
}

/// The documented commit: an owner for each hash unless it has one, counts, then the sets.
fn commit_plainly(c: &mut Wire, crawl: &str) {
    for hash in ok!(c, "HKEYS", format!("p:h:{crawl}")).texts() {
        ok!(c, "HSETNX", "p:allhashes", hash, crawl);
    }
    let sums = ok!(c, "HGETALL", format!("p:h:{crawl}:counts")).pairs();
    for (field, n) in sums {
        ok!(c, "HINCRBY", "p:allcounts", field.bytes(), n.bytes());
    }
    ok!(c, "SMOVE", "p:uncommittedcrawls", "p:allcrawls", crawl);
}

fn plain_crawl(c: &mut Wire, id: &str, first: u64, hashes: u64) {
    fill_crawl(c, &Crawl::of(P, id, first..first + hashes));
}

#[test]
fn documented_lookup_works_on_what_commands_wrote() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..10);
    c.ok("WACZOPEN a a.wacz");
    c.ok("WACZCLOSE a 0 a.wacz sha256:ab 9");
    c.commit("a");
    let owner = ok!(c, "HGET", "p:allhashes", sha256_of(3)).text();
    assert_eq!(owner, "a");
    let record = ok!(c, "HGET", format!("p:h:{owner}"), sha256_of(3));
    assert_eq!(
        record,
        bulk(format!("0 {DATE} http://example.com/page/3 1003"))
    );
    assert_eq!(
        ok!(c, "LRANGE", "p:c:a:wacz", 0, -1),
        array([bulk(r#"{"filename":"a.wacz","hash":"sha256:ab","size":9}"#)])
    );
    assert_eq!(ok!(c, "HGET", "p:h:a:counts", "totalUrls"), bulk("10"));
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalCrawlSize"), bulk("9"));
}

#[test]
fn command_commits_what_plain_clients_wrote() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    plain_crawl(&mut c, "a", 0, 5000);
    assert_eq!(c.ok("LOOKUP CRAWL a #7"), array([record_of("a", 7)]));
    assert_eq!(c.commit("a"), (5000, 0));
    assert_eq!(c.owners([0, 4999]), ["a", "a"]);
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 5000);
    assert_eq!(c.commit("a"), (0, 0));
    c.assert_consistent();
}

#[test]
fn commands_see_what_plain_clients_committed() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    plain_crawl(&mut c, "a", 0, 20);
    commit_plainly(&mut c, "a");
    assert_eq!(c.owners([0, 19, 20]), ["a", "a", "-"]);
    c.add("b", 10..30);
    assert_eq!(c.commit("b"), (10, 10));
    assert_eq!(c.ok("REMOVE a").ints(), [1, 10, 10]);
    assert_eq!(c.owners([0, 15, 25]), ["-", "b", "b"]);
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 20);
    c.assert_consistent();
}

#[test]
fn plain_loop_and_commands_may_alternate_on_one_crawl() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    plain_crawl(&mut c, "a", 0, 10);
    c.add("a", 5..15);
    ok!(
        c,
        "HSETNX",
        "p:h:a",
        sha256_of(20),
        format!("0 {DATE} http://e.com/ 7")
    );
    ok!(c, "HINCRBY", "p:h:a:counts", "totalUrls", 1);
    ok!(c, "RPUSH", "p:c:a:wacz", r#"{"filename":"plain.wacz"}"#);
    assert_eq!(c.ok("WACZOPEN a next.wacz"), int(1));
    c.ok("WACZCLOSE a 0 plain.wacz sha256:ab 50");
    // The same record again is a retry, whoever wrote it first.
    assert_eq!(counts(&mut c, "p:h:a:counts")["totalUrls"], 16);
    assert_eq!(c.commit("a"), (16, 0));
    assert_eq!(counts(&mut c, "p:allcounts")["totalCrawlSize"], 50);
    assert_eq!(set_key(&mut c, "p:src:d"), ["plain.wacz"]);
    c.assert_consistent();
}

#[test]
fn plain_commit_after_command_adds_owns_the_hashes() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..10);
    commit_plainly(&mut c, "a");
    assert_eq!(c.owners(0..10), ["a"; 10]);
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 10);
    c.assert_consistent();
}

#[test]
fn half_a_plain_commit_is_finished_by_the_command() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    plain_crawl(&mut c, "a", 0, 100);
    for n in 0..50 {
        ok!(c, "HSETNX", "p:allhashes", sha256_of(n), "a");
    }
    assert_eq!(c.owners([0, 99]), ["-", "-"]);
    // What the plain client did already may or may not count as the command's.
    let (new, known) = c.commit("a");
    assert!((50..=100).contains(&(new + known)), "{new} {known}");
    assert_eq!(c.owners([0, 99]), ["a", "a"]);
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 100);
    c.assert_consistent();
}

#[test]
fn half_a_plain_commit_is_taken_back_by_cancel() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    c.add("keep", 40..60);
    c.commit("keep");
    plain_crawl(&mut c, "a", 0, 100);
    for n in 0..50 {
        ok!(c, "HSETNX", "p:allhashes", sha256_of(n), "a");
    }
    assert_eq!(c.ok("CANCEL a"), int(100));
    assert_eq!(ok!(c, "HLEN", "p:allhashes"), int(20));
    assert_eq!(ok!(c, "HGET", "p:allhashes", sha256_of(3)), nil());
    assert_eq!(ok!(c, "HGET", "p:allhashes", sha256_of(45)), bulk("keep"));
    c.assert_consistent();
}

#[test]
fn plain_purge_is_seen_by_the_commands() {
    // As the document tells it: per-crawl keys deleted, merged keys recreated from scratch.
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        c.add(id, hashes);
        c.commit(id);
    }
    ok!(c, "DEL", "p:h:a", "p:h:a:counts", "p:c:a:wacz");
    assert_eq!(c.owners([0, 15]), ["-", "b"]);
    ok!(c, "SREM", "p:allcrawls", "a");
    ok!(c, "DEL", "p:allhashes", "p:allcounts");
    ok!(c, "SMOVE", "p:allcrawls", "p:uncommittedcrawls", "b");
    commit_plainly(&mut c, "b");
    assert_eq!(c.owners([0, 15, 25]), ["-", "b", "b"]);
    c.add("c", 0..5);
    assert_eq!(c.commit("c"), (5, 0));
}

#[test]
fn plain_dependencies_are_read_and_kept() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("base", [1]);
    c.ok("WACZOPEN base base.wacz");
    c.commit("base");
    c.add("a", [2]);
    ok!(c, "SADD", "p:a:reqCrawls", "base");
    ok!(c, "SADD", "p:uuid:duperefs", "base 0");
    let crawl = c.ok("REQUIRES a FORMAT RESP");
    let wacz = c.ok("REQUIRES REF uuid FORMAT RESP");
    assert_eq!(crawl, wacz);
    assert_eq!(crawl.items()[0].field("filename"), bulk("base.wacz"));
}

#[test]
fn odd_values_of_plain_clients_are_no_records_and_do_no_harm() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "SADD", "p:allcrawls", "a");
    let odd = [
        "",
        " ",
        "0",
        "x y z w",
        "0 20260101000000",
        "a 20260101000000 http://e.com/ b",
    ];
    for (n, value) in odd.iter().enumerate() {
        let hash = sha256_of(n as u64);
        ok!(c, "HSET", "p:h:a", hash, value);
        ok!(c, "HSET", "p:allhashes", hash, "a");
    }
    let seen = c.owners(0..odd.len() as u64);
    assert_eq!(seen, vec!["-"; odd.len()]);
    let check = c.ok("CHECK");
    assert_eq!(check.field("ok"), int(0), "{check:?}");
    ok!(c, "PING");
}

#[test]
fn record_whose_size_is_not_a_number_is_a_record_of_size_zero() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    let hash = sha256_of(1);
    let value = "2 20260319102015 http://e.com/a NaN";
    ok!(c, "SADD", "p:uncommittedcrawls", "a");
    ok!(c, "HSET", "p:h:a", hash, value);
    c.ok("COMMIT a");
    let before = server.snapshot();
    for storage in ["PACK", "UNPACK"] {
        ok!(c, format!("DEDUPE.{storage}"), P);
        let found = c.ok(format!("LOOKUP '{hash}'"));
        let found = found.items()[0].items();
        assert_eq!(
            found[1..],
            [
                int(2),
                bulk("20260319102015"),
                bulk("http://e.com/a"),
                int(0)
            ]
        );
        c.assert_consistent();
    }
    assert_eq!(ok!(c, "HGET", "p:h:a", hash), bulk(value));
    let changed = |key: &[u8]| key.ends_with(b"crawlspace");
    assert_eq!(server.snapshot().without(changed), before.without(changed));
    c.ok(format!("REVISIT b '{hash}' 10"));
    assert_eq!(ok!(c, "HGET", "p:h:b:counts", "conservedSize"), nil());
    // A capture that is added twice is a retry.
    let add = c.ok(format!("ADD a '{hash}' 2 20260319102015 http://e.com/a 7"));
    assert_eq!(add, int(0));
    assert_eq!(ok!(c, "HGET", "p:h:a:counts", "totalUrls"), nil());
}

#[test]
fn what_is_kept_in_memory_follows_every_plain_change() {
    let server = plain_server();
    let replica = plain().replica_of(&server).start();
    let (mut c, mut r) = (server.wire(), replica.wire());
    let hash = sha256_of(1);
    let bare = hash.strip_prefix("sha256:").unwrap().to_owned();
    let value = format!("0 {DATE} http://e.com/ 7");
    // Each line changes what the owner of hash 1 is, in another way.
    let steps: Vec<(Vec<&str>, &str)> = vec![
        (vec!["SREM", "p:allcrawls", "a"], "-"),
        (vec!["SADD", "p:allcrawls", "a"], "a"),
        (vec!["RENAME", "p:allcrawls", "x"], "-"),
        (vec!["COPY", "x", "p:allcrawls"], "a"),
        (vec!["PEXPIRE", "p:allcrawls", "0"], "-"),
        (vec!["SUNIONSTORE", "p:allcrawls", "x"], "a"),
        (vec!["DEL", "p:allhashes"], "-"),
        (vec!["HSET", "p:allhashes", &bare, "a"], "a"),
        // The crawl b is not committed. Since allcrawls went once, every crawl is asked.
        (vec!["HSET", "p:allhashes", &hash, "b"], "a"),
        (vec!["SADD", "p:allcrawls", "b"], "a"), // it has no record, and a has
        (vec!["HSET", "p:h:b", &bare, &value], "b"),
        (vec!["HSET", "p:committing", "b", "9 0 0"], "b"),
        (vec!["SREM", "p:allcrawls", "b"], "a"),
        (vec!["HSET", "p:allhashes", &hash, "a"], "a"),
        (vec!["RENAME", "p:h:a", "y"], "-"),
        (
            vec![
                "EVAL",
                "return redis.call('RENAME', 'y', 'p:h:a')",
                "2",
                "y",
                "p:h:a",
            ],
            "a",
        ),
        (vec!["FLUSHDB"], "-"),
    ];
    add(&mut c, P, "a", [1]);
    commit(&mut c, P, "a");
    assert_eq!(owners(&mut c, P, [1]), ["a"]);
    for (words, owner) in steps {
        c.expect_ok(&words);
        assert_eq!(owners(&mut c, P, [1]), [owner], "after {words:?}");
        server.wait_for_replica_offset(&replica);
        assert_eq!(
            owners(&mut r, P, [1]),
            [owner],
            "on the replica after {words:?}"
        );
    }
}

#[test]
fn holders_found_by_looking_come_after_those_on_record() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..10);
    c.commit("a");
    c.add("b", 0..10);
    c.commit("b");
    // A plain client commits a third holder, which no command has seen.
    plain_crawl(&mut c, "0-plain", 0, 10);
    commit_plainly(&mut c, "0-plain");
    assert_eq!(c.ok("REMOVE a").ints(), [1, 0, 10]);
    assert_eq!(c.owners(0..10), ["b"; 10]);
    assert_eq!(c.ok("REMOVE b").ints(), [1, 0, 10]);
    assert_eq!(c.owners(0..10), ["0-plain"; 10]);
    assert_eq!(
        counts(&mut c, "p:allcounts"),
        counts(&mut c, "p:h:0-plain:counts")
    );
    c.assert_consistent();
}

#[test]
fn id_of_a_crawl_that_was_purged_plainly_starts_from_nothing() {
    let server = plain_server();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", 0..5);
    c.commit("a");
    ok!(c, "DEL", "p:h:a", "p:h:a:counts", "p:c:a:wacz");
    ok!(c, "SREM", "p:allcrawls", "a");
    ok!(c, "DEL", "p:allhashes", "p:allcounts");
    assert_eq!(c.add("a", [1]), 1);
    assert_eq!(c.commit("a"), (1, 0));
    assert_eq!(counts(&mut c, "p:allcounts")["totalUrls"], 1);
    assert_eq!(c.owners(0..2), ["-", "a"]);
    c.assert_consistent();
}

#[test]
fn numbers_of_a_crawl_that_was_canceled_plainly_do_not_count_for_the_next() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let [hash, index, date, url, size] = redis_tests::words_of(1);
    for round in 0..2 {
        let words = ["DEDUPE.ADD", P, "a", "SEQ", "w", "1"].map(|w| w.as_bytes().to_vec());
        let record = [&hash, &index, &date, &url, &size].map(Vec::clone);
        let new = c.expect_ok(&[&words[..], &record].concat());
        assert_eq!(new, int(1));
        assert_eq!(ok!(c, "HLEN", "p:h:a"), int(1), "round {round}");
        ok!(c, "DEL", "p:h:a", "p:h:a:counts", "p:c:a:wacz");
        ok!(c, "SREM", "p:uncommittedcrawls", "a");
    }
}

#[test]
fn field_in_another_spelling_is_found_whatever_happens_to_the_server() {
    let mut server = plain().aof(true).start();
    let replica = plain().replica_of(&server).start();
    let (mut c, mut r, mut three) = (server.wire(), replica.wire(), server.wire());
    ok!(three, "SELECT", 3);
    let hash = sha256_of(1);
    let bare = hash.strip_prefix("sha256:").unwrap();
    add(&mut c, P, "a", 0..3);
    commit(&mut c, P, "a");
    assert_eq!(owners(&mut c, P, [1]), ["a"]);
    server.wait_for_replica_offset(&replica);
    assert_eq!(owners(&mut r, P, [1]), ["a"]);
    // As many fields as before, so that their number tells nothing.
    ok!(c, "HDEL", "p:allhashes", hash);
    ok!(c, "HSET", "p:allhashes", bare, "a");
    assert_eq!(owners(&mut c, P, [1]), ["a"]);
    ok!(three, "SET", "x", 1);
    ok!(three, "FLUSHDB");
    assert_eq!(owners(&mut c, P, [1]), ["a"], "after FLUSHDB of another");
    server.wait_for_replica_offset(&replica);
    assert_eq!(owners(&mut r, P, [1]), ["a"], "on the replica");
    ok!(c, "SWAPDB", 3, 4);
    assert_eq!(owners(&mut c, P, [1]), ["a"], "after SWAPDB of others");
    ok!(c, "DEBUG", "RELOAD");
    assert_eq!(owners(&mut c, P, [1]), ["a"], "after a reload");
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.owners([1]), ["a"], "after a restart");
    server.wait_for_replica_offset(&replica);
    ok!(r, "REPLICAOF", "NO", "ONE");
    assert_eq!(owners(&mut r, P, [1]), ["a"], "on the new master");
    for wire in [&mut c, &mut r] {
        assert_eq!(ok!(wire, "DEDUPE.CHECK", P).field("missingHashes"), int(0));
        ok!(wire, "DEDUPE.REPAIR", P);
        assert_eq!(ok!(wire, "HLEN", "p:allhashes"), int(3));
    }
}

#[test]
fn key_whose_name_looks_like_thousands_of_ours_is_written_as_any_other() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for p in ["", P] {
        add(&mut c, p, "a", 0..3);
        commit(&mut c, p, "a");
    }
    for part in ["h:", "c:", "p:h:", "h:c:claims"] {
        let name = part.repeat(1_000_000);
        ok!(c, "SET", name, 1);
        ok!(c, "HSET", format!("{name}x"), sha256_of(1), "0 2 3 4");
        ok!(c, "DEL", name);
        assert_eq!(owners(&mut c, "", [1]), ["a"]);
    }
    for p in ["", P] {
        assert_eq!(owners(&mut c, p, 0..4), ["a", "a", "a", "-"]);
        assert_consistent(&mut c, p);
    }
}

#[test]
fn counts_spoiled_during_a_commit_do_not_add_a_part_of_it_twice() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let crawl = Crawl::of(P, "a", 0..24_000);
    crawl.add(&mut c);
    c.ok("WACZOPEN a a.wacz");
    c.ok("WACZCLOSE a 0 a.wacz sha256:ab 9");
    c.ok("REVISIT a #1 1");
    let sums = counts(&mut c, "p:h:a:counts");
    assert!(sums.len() >= 3, "{sums:?}");
    for name in sums.keys() {
        let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
        ok!(c, "HSET", "p:allcounts", name, "x");
        assert!(committer.recv().is_error(), "{name} is no number");
        ok!(c, "HDEL", "p:allcounts", name);
        assert_eq!(counts(&mut c, "p:allcounts").len(), 0, "after {name}");
        // From the start again.
        assert_eq!(c.ok("CANCEL a"), int(24_000));
        crawl.add(&mut c);
        c.ok("WACZOPEN a a.wacz");
        c.ok("WACZCLOSE a 0 a.wacz sha256:ab 9");
        c.ok("REVISIT a #1 1");
    }
    assert_eq!(c.commit("a"), (24_000, 0));
    assert_eq!(counts(&mut c, "p:allcounts"), sums);
    c.assert_consistent();
}
