//! A packed index is unchanged after a restart, on a replica, in a copy and in a dump.

use redis_tests::{
    DedupeIndex, Options, Reply, Server, Snapshot, assert_replicated, bulk, ok, plain_view, rows,
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
