//! A packed index is unchanged after a restart, on a replica, in a copy and in a dump.

use redis_tests::{
    DedupeIndex, Options, Reply, Server, Snapshot, assert_replicated, bulk, cmd, err, int, ok,
    plain_view, rows, sha256_of, simple, until,
};

const P: &str = "p:";

/// Writes leftovers of a plain client: fields and values of all kinds, entries of the merged index
/// whose crawl has no such record, and records without an entry in the merged index.
fn odd(c: &mut DedupeIndex) {
    let long = vec![b'u'; 100_000];
    let zeros = format!("sha-256:{}", "0".repeat(64));
    let records: [(&[u8], &[u8]); 9] = rows![
        b"", b"";
        b"\xff\0\r\n", b"\0";
        b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"0 20200101000000 http://a.org/ 5";
        b"sha1:ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", b"7 20200101000000123 http://a.org/b c 05";
        b"22222222222222222222222222222222", b"0 2020-01-01T00:00:00Z x 1";
        b"md5:0123456789abcdef0123456789abcdef", b"18446744073709551616 2 3 4";
        b"sha256:short", &long;
        &long[..5_000], b"0 20200101000000 https://a.org/";
        zeros.as_bytes(), b"-1 0 - -0";
    ];
    for (n, (field, value)) in records.iter().enumerate() {
        ok!(c, "HSET", "p:h:odd", *field, *value);
        if n % 3 != 2 {
            ok!(c, "HSET", "p:allhashes", *field, "odd");
        }
    }
    let own = "nobody's own hash, as text";
    ok!(c, "HSET", "p:allhashes", own, "nobody");
    c.plain("HSET p:allhashes #900000 \u{ff}\0");
    c.plain("SADD p:allcrawls odd");
}

/// Creates an index with such leftovers, crawls that share hashes, and an uncommitted crawl.
fn fill(c: &mut DedupeIndex) {
    odd(c);
    for (crawl, numbers) in [("a", 0..300), ("b", 200..500), ("c\r\n", 100..400)] {
        c.committed(crawl, numbers);
    }
    c.add("open", 450..600);
    c.tells("PACK", "storage packed");
    c.committed("later", 550..700);
}

fn packed() -> (Server, DedupeIndex) {
    start(Options::new())
}

fn start(options: Options) -> (Server, DedupeIndex) {
    let (server, mut c) = DedupeIndex::on(options.plain(), P);
    fill(&mut c);
    (server, c)
}

type Told = (Vec<String>, Vec<(Reply, Reply)>, Snapshot);

/// Returns all replies about the index, and its keys after unpacking.
fn told(c: &mut DedupeIndex) -> Told {
    let mut stats = c.ok("STATS b").pairs();
    // The memory figure may differ.
    stats.retain(|(name, _)| *name != bulk("memory"));
    (c.owners(0..720), stats, plain_view(c, P))
}

/// Checks that the index can still be changed.
fn goes_on(c: &mut DedupeIndex) {
    c.tells("STATS", "storage packed");
    c.committed("new", 690..800);
    assert_eq!(c.owners([695, 750]), ["later", "new"]);
    c.ok("REMOVE a");
    assert_eq!(c.owners([10, 250, 150]), ["-", "b", "c\r\n"]);
}

#[track_caller]
fn assert_same(c: &mut DedupeIndex, before: &Told, what: &str) {
    let after = told(c);
    assert_eq!(after.0, before.0, "{what}");
    assert_eq!(after.1, before.1, "{what}");
    after.2.assert_same(&before.2, what);
}

fn restart_keeps_everything(options: Options, how: impl Fn(&mut Server)) {
    let (mut server, mut c) = start(options);
    let (before, digest) = (told(&mut c), server.digest());
    how(&mut server);
    assert_eq!(server.digest(), digest);
    let mut c = DedupeIndex::of(&server, P);
    assert_same(&mut c, &before, "after the restart");
    goes_on(&mut c);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn rdb_restart_keeps_everything() {
    restart_keeps_everything(Options::new().rdb(), |server| {
        server.shutdown();
        server.restart();
    });
}

#[test]
fn replayed_append_only_file_keeps_everything() {
    restart_keeps_everything(Options::new().aof_unsynced(false), Server::restart);
}

#[test]
fn rewritten_append_only_file_keeps_everything() {
    let options = Options::new().aof_unsynced(false);
    restart_keeps_everything(options, Server::restart_rewritten);
}

#[test]
fn append_only_file_with_preamble_keeps_everything() {
    restart_keeps_everything(Options::new().aof_unsynced(true), Server::restart_rewritten);
}

#[test]
fn debug_reload_keeps_everything() {
    restart_keeps_everything(Options::new(), |server| {
        ok!(server.wire(), "DEBUG", "RELOAD");
    });
}

/// Creates a committed and packed crawl of this many hashes.
fn big(c: &mut DedupeIndex, hashes: u64) {
    c.committed("big", 0..hashes);
    c.ok("PACK");
}

#[test]
fn big_index_survives_a_rewritten_append_only_file_that_then_grows() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().plain().aof_unsynced(false), P);
    big(&mut c, 24_000);
    let digest = server.digest();
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut c = DedupeIndex::of(&server, P);
    c.committed("more", 23_000..25_000);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.owners([23_500, 24_500]), ["big", "more"]);
    c.assert_consistent();
}

#[test]
fn replica_has_what_the_master_has() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let early = Options::new().plain().replica_of(&server).start();
    fill(&mut c);
    let late = Options::new().plain().replica_of(&server).start();
    for when in ["replica", "replica, later"] {
        let before = told(&mut c);
        for replica in [&early, &late] {
            assert_replicated(&server, replica);
            assert_same(&mut DedupeIndex::of(replica, P), &before, when);
        }
        if when == "replica" {
            goes_on(&mut c);
        }
    }
    let mut r = DedupeIndex::of(&early, P);
    r.plain("REPLICAOF NO ONE");
    r.committed("own", 5_000..5_010);
    assert_eq!(r.owners([5_005]), ["own"]);
}

fn value_digest(c: &mut DedupeIndex, key: &str) -> String {
    let digests = c.plain(format!("DEBUG DIGEST-VALUE {key}"));
    digests.texts().remove(0)
}

#[test]
fn copies_and_dumps_are_equal_and_independent() {
    let (server, mut c) = packed();
    let before = told(&mut c);
    let digest = value_digest(&mut c, "p:packedhashes");
    c.plain("COPY p:packedhashes copy");
    let payload = c.plain("DUMP p:packedhashes").bytes().to_vec();
    ok!(c, "RESTORE", "restored", 0, payload);
    c.plain("COPY p:packedhashes p:packedhashes DB 5");
    // Valkey 8.1 leaves the client in the other database.
    c.plain("SELECT 0");
    for key in ["copy", "restored"] {
        assert_eq!(value_digest(&mut c, key), digest, "{key}");
    }
    goes_on(&mut c);
    assert_ne!(value_digest(&mut c, "p:packedhashes"), digest);
    for key in ["copy", "restored"] {
        assert_eq!(value_digest(&mut c, key), digest, "{key}");
    }
    // A copy of all keys forms an independent index.
    let (other, mut o) = packed();
    for key in o.plain("KEYS p:*").items() {
        ok!(o, "COPY", key.bytes(), [b"q", &key.bytes()[1..]].concat());
    }
    goes_on(&mut o);
    let mut keys = o.plain("KEYS q:*").texts();
    // Moving `packedhashes` deletes the marker at `allhashes`, so move `allhashes` first.
    keys.sort();
    for key in keys {
        ok!(o, "RENAME", &key, format!("p{}", &key[1..]));
    }
    o.plain("DEL p:h:new");
    assert_eq!(o.owners(0..720), before.0);
    for server in [server, other] {
        assert_eq!(server.info_number("panics"), 0);
    }
}

#[test]
fn digest_does_not_depend_on_the_history_of_an_index() {
    let all = [("a", 0..300), ("b", 200..500), ("c", 100..400)];
    let mut digests = Vec::new();
    // The index is packed at the end, at the beginning, in between, or after crawls were removed.
    for round in 0..4 {
        let options = match round {
            1 => Options::new().packed(),
            _ => Options::new().plain(),
        };
        let (_server, mut c) = DedupeIndex::on(options, P);
        for (n, (crawl, numbers)) in all.iter().enumerate() {
            if round == 3 {
                c.committed(&format!("passing-{n}"), 2_000..2_400);
                c.ok("PACK");
            }
            c.committed(crawl, numbers.clone());
            if round == 2 && n == 1 {
                for name in ["PACK", "UNPACK", "PACK"] {
                    c.ok(name);
                }
            }
        }
        if round == 3 {
            c.ok("REMOVE passing-0 passing-1 passing-2");
        }
        c.ok("PACK");
        // Commit numbers differ if the number of commits differs.
        if round != 3 {
            digests.push(value_digest(&mut c, "p:packedhashes"));
        }
        let view = c.plain_view().without_counters();
        assert_eq!(view.hash("p:allhashes").len(), 500);
        c.plain("DEBUG RELOAD");
        let reloaded = c.plain_view().without_counters();
        reloaded.assert_same(&view, "reloaded");
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
}

#[test]
fn every_change_changes_the_digest() {
    let (_server, mut c) = packed();
    let mut seen = vec![value_digest(&mut c, "p:packedhashes")];
    for (crawl, n) in [("a", 3_000), ("b", 3_000), ("d", 3_000), ("d", 3_001)] {
        c.committed(crawl, [n]);
        let digest = value_digest(&mut c, "p:packedhashes");
        assert!(!seen.contains(&digest), "{crawl} {n}");
        seen.push(digest);
    }
}

#[test]
fn memory_usage_equals_the_growth_of_the_server() {
    for loaded in [false, true] {
        let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
        // Valkey frees deleted values on another thread, some time later.
        c.plain("CONFIG SET lazyfree-lazy-user-del no");
        big(&mut c, 80_000);
        if loaded {
            c.plain("DEBUG RELOAD");
        }
        let said = c.plain("MEMORY USAGE p:packedhashes").int();
        let before = server.info_number("used_memory");
        c.plain("DEL p:packedhashes");
        let measured = before - server.info_number("used_memory");
        let what = format!("{said} said, {measured} measured, loaded: {loaded}");
        eprintln!("{what}");
        assert!((said - measured).abs() * 50 <= measured, "{what}");
    }
}

#[test]
fn big_index_is_freed_in_the_background() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    big(&mut c, 80_000);
    let before = server.info_number("lazyfreed_objects");
    let usage = c.plain("MEMORY USAGE p:packedhashes").int();
    let used = server.info_number("used_memory");
    c.plain("UNLINK p:packedhashes");
    until("it is freed in the background", || {
        server.info_number("lazyfreed_objects") > before
            && server.info_number("used_memory") < used - usage / 2
    });
    c.plain("FLUSHALL ASYNC");
}

#[test]
fn defragmentation_moves_the_value_and_does_no_harm() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    fill(&mut c);
    if let Reply::Error(line) = cmd!(c.wire(), "CONFIG", "SET", "activedefrag", "yes") {
        eprintln!("not tried: {}", String::from_utf8_lossy(&line));
        return;
    }
    for setting in [
        "ignore-bytes 1",
        "threshold-lower 0",
        "threshold-upper 1",
        "cycle-min 50",
        "cycle-max 90",
    ] {
        c.plain(format!("CONFIG SET active-defrag-{setting}"));
    }
    // Removing every second crawl leaves gaps in memory.
    for n in 0..8 {
        let first = 10_000 + n * 2_000;
        c.committed(&format!("x{n}"), first..first + 2_000);
    }
    for n in (0..8).step_by(2) {
        c.ok(format!("REMOVE x{n}"));
    }
    let before = told(&mut c);
    let digest = server.digest();
    let hits = server.info_number("active_defrag_hits");
    until("something has moved", || {
        server.info_number("active_defrag_hits") > hits + 1_000
            || server.info_number("active_defrag_key_hits") > 0
    });
    assert_eq!(server.digest(), digest);
    assert_same(&mut c, &before, "while memory moves");
    goes_on(&mut c);
    c.assert_consistent();
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn type_expiry_and_scan_are_those_of_a_key() {
    let (_server, mut c) = packed();
    assert_eq!(c.plain("TYPE p:packedhashes"), simple("crawlpack"));
    assert_eq!(c.plain("OBJECT ENCODING p:packedhashes"), bulk("raw"));
    err!(c.wire(), "HGET", "p:packedhashes", sha256_of(1));
    let found = c.plain("SCAN 0 TYPE crawlpack COUNT 1000");
    assert_eq!(found.items()[1].texts(), ["p:packedhashes"]);
    assert_eq!(c.plain("PEXPIRE p:packedhashes 600000"), int(1));
    c.committed("more", 4_000..4_010);
    let left = c.plain("PTTL p:packedhashes").int();
    assert!(left > 0, "changes keep the time to live");
}
