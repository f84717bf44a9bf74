//! Plain clients and a packed index: no plain write to a documented key destroys a record, and the
//! index stays packed. An index that version 0.1.0 packed is moved to a key that plain clients do
//! not use.

use redis_tests::{DedupeIndex, Options, Server, assert_replicated, int, sha256_of, simple, until};

const P: &str = "p:";

/// Creates a packed index in which `a` and `b` share hashes.
fn build(c: &mut DedupeIndex) {
    c.ok("PROFILE browsertrix");
    for (id, numbers) in [("a", 0..100), ("b", 50..200)] {
        c.add(id, numbers);
        c.wacz(id, &format!("{id}.wacz"));
        c.commit(id);
    }
    assert_eq!(owners(c), [("a", 100), ("b", 100), ("-", 1)]);
}

/// Returns the number of hashes that each crawl owns.
fn owners(c: &mut DedupeIndex) -> Vec<(&'static str, usize)> {
    let mut rows: Vec<(&str, usize)> = Vec::new();
    for owner in c.owners(0..201) {
        let owner = ["a", "b", "c", "-"]
            .into_iter()
            .find(|known| *known == owner);
        let owner = owner.expect("a crawl of the test");
        match rows.last_mut() {
            Some((last, n)) if *last == owner => *n += 1,
            _ => rows.push((owner, 1)),
        }
    }
    rows
}

#[track_caller]
fn kind(c: &mut DedupeIndex, name: &str) -> String {
    c.plain(format!("TYPE {P}{name}")).text()
}

/// Waits for the marker. The module restores it after a plain command.
fn until_marked(c: &mut DedupeIndex) {
    until("the marker is back", || kind(c, "alldupes") == "crawlmark");
}

/// Sends the commands with which Browsertrix removes all crawls except `kept`. Without `ends`, sends
/// only the first half of them.
fn purge(c: &mut DedupeIndex, kept: &[&str], gone: &[&str], ends: bool) {
    c.plain("RENAME p:allcrawls p:to-remove-crawls");
    c.plain("DEL p:alldupes");
    c.plain("DEL p:allcounts");
    for crawl in kept {
        let found = c.plain(format!("HSCAN p:h:{crawl} 0 COUNT 10"));
        assert!(found.items()[1].items().is_empty(), "they find no hash");
        c.plain(format!("SADD p:src:d {crawl}.wacz"));
        c.plain(format!("SMOVE p:to-remove-crawls p:allcrawls {crawl}"));
        for (field, n) in c.plain(format!("HGETALL p:h:{crawl}:counts")).pairs() {
            let (field, n) = (field.text(), n.text());
            c.plain(format!("HINCRBY p:allcounts {field} {n}"));
        }
    }
    if !ends {
        return;
    }
    for crawl in gone {
        assert_eq!(c.plain("SPOP p:to-remove-crawls").text(), *crawl);
        c.plain(format!("LPOP p:c:{crawl}:wacz"));
        c.plain(format!("SREM p:src:d {crawl}.wacz"));
        c.plain(format!(
            "DEL p:h:{crawl} p:h:{crawl}:counts p:c:{crawl}:wacz"
        ));
    }
}

/// Returns a master with an append-only file, its replica, and the same index on plain keys.
fn stage() -> (Server, Server, DedupeIndex) {
    let server = Options::new().packed().aof_unsynced(true).start();
    let replica = Options::new().packed().replica_of(&server).start();
    let mut c = DedupeIndex::of(&server, P);
    build(&mut c);
    server.wait_for_replica_offset(&replica);
    (server, replica, c)
}

/// Compares every copy of the data with `told`: on the master, on the replica, and after a reload,
/// a replay and a rewrite.
fn assert_everywhere(
    server: &mut Server,
    replica: &Server,
    expected: &[(&str, usize)],
    when: &str,
) {
    let mut c = DedupeIndex::of(server, P);
    assert_eq!(owners(&mut c), expected, "{when}");
    assert_replicated(server, replica);
    let mut r = DedupeIndex::of(replica, P);
    assert_eq!(owners(&mut r), expected, "{when}, on the replica");
    c.plain("DEBUG RELOAD");
    assert_eq!(owners(&mut c), expected, "{when}, after a reload");
    server.kill9();
    server.restart();
    let mut c = DedupeIndex::of(server, P);
    assert_eq!(owners(&mut c), expected, "{when}, after a replay");
    server.restart_rewritten();
    let mut c = DedupeIndex::of(server, P);
    assert_eq!(owners(&mut c), expected, "{when}, after a rewrite");
}

#[test]
fn purge_of_browsertrix_has_the_same_result_on_every_copy() {
    let (mut server, replica, mut c) = stage();
    purge(&mut c, &["b"], &["a"], true);
    until_marked(&mut c);
    let expected = [("-", 50), ("b", 150), ("-", 1)];
    assert_everywhere(&mut server, &replica, &expected, "purged");
    let mut c = DedupeIndex::of(&server, P);
    c.ok("REPAIR");
    assert_eq!(owners(&mut c), expected, "repaired");
    // The module reports records that the purge did not reach. The operator removes or restores
    // them.
    c.tells("CHECK", "unlistedCrawls 1");
    c.ok("CANCEL a");
    c.ok("REPAIR");
    c.assert_consistent();
    assert_eq!(owners(&mut c), expected, "canceled");
    assert_eq!(c.storage(), "packed");
    assert_eq!(c.committed("c", 0..60), (50, 10));
    assert_eq!(owners(&mut c), [("c", 50), ("b", 150), ("-", 1)]);
    c.assert_consistent();
}

#[test]
fn purge_that_was_cut_short_loses_nothing() {
    for kept in [&[][..], &["b"]] {
        let (mut server, replica, mut c) = stage();
        purge(&mut c, kept, &[], false);
        c.ok("REPAIR");
        for crawl in ["a", "b"] {
            assert_eq!(c.commit(crawl), (0, 0));
        }
        c.ok("REPAIR");
        until_marked(&mut c);
        let expected = [("a", 100), ("b", 100), ("-", 1)];
        assert_everywhere(&mut server, &replica, &expected, "taken back");
        DedupeIndex::of(&server, P).assert_consistent();
    }
}

#[test]
fn no_plain_command_on_a_documented_key_destroys_a_record() {
    let (_server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    c.plain("SET other x");
    let other = c.plain("DUMP other");
    let other = other.bytes();
    for name in [
        "alldupes",
        "allcounts",
        "allcrawls",
        "uncommittedcrawls",
        "src:d",
        "h:a",
        "h:a:counts",
        "c:a:wacz",
        "a:reqCrawls",
    ] {
        let key = format!("p:{name}");
        for line in [
            format!("DEL {key}"),
            format!("UNLINK {key}"),
            format!("RENAME {key} elsewhere"),
            format!("RENAMENX {key} elsewhere"),
            format!("MOVE {key} 1"),
            format!("SET {key} x"),
            format!("COPY other {key} REPLACE"),
            format!("RENAME other {key}"),
            format!("SUNIONSTORE {key} nothing"),
            format!("PEXPIRE {key} 1"),
            format!("RESTORE {key} 0 <dump> REPLACE"),
        ] {
            c.plain("FLUSHALL");
            c.plain("SET other x");
            build(&mut c);
            let mut words: Vec<Vec<u8>> = line.split(' ').map(|word| word.into()).collect();
            for word in words.iter_mut().filter(|word| *word == b"<dump>") {
                *word = other.to_vec();
            }
            c.wire().call(&words);
            // Valkey 8.1 leaves the client in the other database.
            c.plain("SELECT 0");
            if line.starts_with("PEXPIRE") {
                until("the key has expired", || {
                    c.plain(format!("EXISTS {key}")) == int(0) || name == "alldupes"
                });
            }
            // The test deletes leftover values at these keys. Then the records are found again.
            if c.plain(format!("TYPE {key}")) == simple("string") {
                c.plain(format!("DEL {key}"));
            }
            for crawl in ["a", "b"] {
                c.commit(crawl);
            }
            c.ok("REPAIR");
            assert_eq!(owners(&mut c), [("a", 100), ("b", 100), ("-", 1)], "{line}");
            until_marked(&mut c);
            assert_eq!(c.storage(), "packed", "{line}");
            assert_eq!(c.ok("REMOVE a").ints(), [1, 50, 50], "{line}");
            c.ok("REPAIR");
            c.assert_consistent();
        }
    }
}

#[test]
fn a_plain_hash_at_the_merged_name_is_packed_and_changes_no_owner() {
    let (mut server, replica, mut c) = stage();
    // A plain client wrote and committed this crawl while the marker was missing. Some of its
    // hashes are new, and some are known.
    let bare = |n| sha256_of(n).trim_start_matches("sha256:").to_owned();
    c.plain("MULTI");
    c.plain("DEL p:alldupes");
    for n in [10, 60, 200] {
        c.plain(format!(
            "HSET p:h:c {} '0 20260319102015123 https://e/{n} 7'",
            bare(n)
        ));
        c.plain(format!("HSETNX p:alldupes {} c", bare(n)));
    }
    c.plain("HINCRBY p:h:c:counts totalUrls 3");
    c.plain("HINCRBY p:allcounts totalUrls 3");
    c.plain("SADD p:allcrawls c");
    c.plain("EXEC");
    let expected = [("a", 100), ("b", 100), ("c", 1)];
    assert_eq!(owners(&mut c), expected);
    until_marked(&mut c);
    assert_eq!(c.storage(), "packing");
    assert_eq!(owners(&mut c), expected);
    c.tells("CHECK", "interrupted 1");
    c.ok("REPAIR");
    assert_eq!(c.storage(), "packed");
    c.assert_consistent();
    assert_everywhere(&mut server, &replica, &expected, "repaired");
    let mut c = DedupeIndex::of(&server, P);
    c.ok("UNPACK");
    assert_eq!(kind(&mut c, "alldupes"), "hash");
    assert_eq!(c.plain("EXISTS p:packedhashes p:moving"), int(0));
    assert_eq!(
        c.plain(format!("HGET p:alldupes {}", bare(200))).text(),
        "c"
    );
    assert_eq!(owners(&mut c), expected);
}

#[test]
fn two_plain_hashes_become_one_with_unpack() {
    let (_server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    build(&mut c);
    c.plain("HSET p:moving x a");
    c.plain("MULTI");
    c.plain("DEL p:alldupes");
    c.plain("HSET p:alldupes y a");
    c.plain("EXEC");
    c.ok("UNPACK");
    assert_eq!(c.plain("EXISTS p:packedhashes p:moving"), int(0));
    let merged = c.plain_hash("alldupes");
    assert_eq!((&merged["x"][..], &merged["y"][..]), ("a", "a"));
    assert_eq!(owners(&mut c), [("a", 100), ("b", 100), ("-", 1)]);
}

/// Recreates the layout of version 0.1.0: the packed value is at the key of the merged index or,
/// during `UNPACK`, in `moving`.
fn as_of_0_1_0(c: &mut DedupeIndex, unpacks: bool) {
    c.plain("MULTI");
    c.plain("DEL p:alldupes");
    c.plain(format!(
        "RENAME p:packedhashes p:{}",
        if unpacks { "moving" } else { "alldupes" }
    ));
    if unpacks {
        c.plain("HDEL p:crawlspace storage");
    }
    c.plain("EXEC");
}

#[test]
fn an_index_of_0_1_0_moves_with_its_first_write_everywhere() {
    let expected = [("a", 100), ("b", 100), ("-", 1)];
    for unpacks in [false, true] {
        for line in [
            "ADD c #300 0 20260319102015 u 1",
            "COMMIT b",
            "REPAIR",
            "PACK",
            "RETAIN a",
        ] {
            let (mut server, replica, mut c) = stage();
            // While the server loads its data, it sends no keyspace events about plain clients.
            as_of_0_1_0(&mut c, unpacks);
            c.plain("DEBUG RELOAD");
            let old = if unpacks { "moving" } else { "alldupes" };
            if kind(&mut c, old) == "crawlpack" {
                assert_eq!(owners(&mut c), expected, "before {line}");
            }
            server.wait_for_replica_offset(&replica);
            assert_eq!(owners(&mut DedupeIndex::of(&replica, P)), expected);
            c.ok(line);
            assert_ne!(kind(&mut c, old), "crawlpack", "{line}");
            assert_eq!(kind(&mut c, "packedhashes"), "crawlpack", "{line}");
            assert_everywhere(&mut server, &replica, &expected, line);
            let mut c = DedupeIndex::of(&server, P);
            c.ok("PACK");
            assert_eq!(kind(&mut c, "alldupes"), "crawlmark", "{line}");
            assert_eq!(c.ok("REMOVE a").ints(), [1, 50, 50], "{line}");
            c.assert_consistent();
        }
    }
}

#[test]
fn changes_of_storage_end_even_with_foreign_data_at_their_keys() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    // The key contains the hash of another program, which no command changes.
    for line in ["PACK", "REPAIR", "UNPACK"] {
        c.plain("FLUSHALL");
        c.plain("HSET p:moving f v");
        c.plain("MULTI");
        c.plain(format!("DEDUPE.{line} p:"));
        assert_eq!(c.plain("EXEC").items().len(), 1, "{line}");
        assert_eq!(c.plain("HGETALL p:moving").texts(), ["f", "v"], "{line}");
        assert_eq!(c.plain("EXISTS p:packedhashes"), int(0), "{line}");
    }
    c.plain("FLUSHALL");
    build(&mut c);
    c.plain("HSET p:moving f v");
    let before = server.snapshot();
    c.refused("PACK", "ERR");
    server.snapshot().assert_same(&before, "PACK was refused");
    // The key that stores the storage is missing.
    for (begun, line) in [
        ("PACK", "PACK"),
        ("PACK", "REPAIR"),
        ("PACK", "UNPACK"),
        ("UNPACK", "PACK"),
        ("UNPACK", "UNPACK"),
    ] {
        for change in ["DEL p:crawlspace", "HSET p:crawlspace storage packed"] {
            c.plain("FLUSHALL");
            build(&mut c);
            c.committed("c", 1_000..21_000);
            if begun == "UNPACK" {
                c.ok("PACK");
            }
            c.plain("CONFIG SET crawlspace.slice-us 50");
            let mut changer = c.begun(begun);
            c.plain(change);
            changer.recv();
            c.ok(line);
            c.plain("CONFIG SET crawlspace.slice-us 500");
            server.until_idle();
            let what = format!("{change} while {begun} ran, then {line}");
            assert_eq!(owners(&mut c), [("a", 100), ("b", 100), ("-", 1)], "{what}");
        }
    }
}

#[test]
fn a_commit_of_a_crawl_taken_out_of_allcrawls_restores_all_of_it() {
    let histories = [
        &[
            "SREM p:allcrawls b",
            "DEDUPE.REMOVE p: a",
            "DEDUPE.COMMIT p: b",
        ][..],
        &[
            "SREM p:allcrawls b",
            "DEDUPE.REPAIR p:",
            "DEDUPE.COMMIT p: b",
            "DEDUPE.REMOVE p: a",
        ],
        &[
            "RENAME p:allcrawls p:to-remove-crawls",
            "DEL p:alldupes p:allcounts",
            "DEDUPE.REMOVE p: a",
            "DEDUPE.COMMIT p: b",
        ],
    ];
    for lines in histories {
        for options in [Options::new().plain(), Options::new().packed()] {
            let (_server, mut c) = DedupeIndex::on(options, P);
            build(&mut c);
            for line in lines {
                c.plain(line);
            }
            let all_of_b = [("-", 50), ("b", 150), ("-", 1)];
            assert_eq!(owners(&mut c), all_of_b, "{lines:?}");
            c.ok("REPAIR");
            c.assert_consistent();
            assert_eq!(owners(&mut c), all_of_b, "{lines:?}, repaired");
        }
    }
}

#[test]
fn foreign_data_in_place_of_the_marker_is_not_part_of_the_index() {
    let expected = [("a", 100), ("b", 100), ("-", 1)];
    for line in ["SET p:alldupes x", "SUNIONSTORE p:alldupes p:allcrawls"] {
        let (server, mut c) = DedupeIndex::on(Options::new().packed(), P);
        build(&mut c);
        c.plain(line);
        assert_eq!(owners(&mut c), expected, "{line}");
        c.ok("REPAIR");
        c.assert_consistent();
        let before = server.snapshot();
        c.refused("UNPACK", "WRONGTYPE p:alldupes");
        server.snapshot().assert_same(&before, "UNPACK was refused");
        assert_eq!(c.committed("c", 150..210), (10, 50), "{line}");
        c.plain("DEL p:alldupes");
        until_marked(&mut c);
        c.ok("UNPACK");
        c.assert_consistent();
    }
    // The key for unfinished packing contains the marker, or the value of another index.
    let (_server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    build(&mut c);
    c.plain("RENAME p:alldupes p:moving");
    until_marked(&mut c);
    c.ok("UNPACK");
    assert_eq!(owners(&mut c), expected);
    c.plain("DEL p:moving");
    c.ok("PACK");
    c.plain("COPY p:packedhashes p:alldupes REPLACE");
    c.refused("UNPACK", "WRONGTYPE p:alldupes");
    assert_eq!(owners(&mut c), expected);
    assert_eq!(c.storage(), "packed");
    c.assert_consistent();
}

#[test]
fn keys_that_are_moved_one_by_one_leave_no_marker() {
    let (server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    build(&mut c);
    let expected = owners(&mut c);
    for [from, to] in [["p:", "q:"], ["q:", "p:"]] {
        let mut names = server.snapshot().names();
        names.sort();
        for name in names {
            let other = name.replacen(from, to, 1);
            assert_eq!(
                c.plain(format!("RENAMENX {name} {other}")),
                int(1),
                "{name}"
            );
        }
        let mut other = DedupeIndex::of(&server, to);
        assert_eq!(owners(&mut other), expected);
        other.assert_consistent();
        until("nothing is left", || {
            c.plain(format!("KEYS {from}*")).items().is_empty()
        });
    }
}
