//! A packed index is the same after a restart, on a replica, in a copy and in a dump.

use redis_tests::{
    Crawl, Options, Reply, Server, Snapshot, Wire, add, assert_consistent, bulk, cmd, commit, int,
    ok, owners, plain_view, sha256_of, simple, until,
};

const P: &str = "p:";

/// What a plain client may have left behind: fields and values of all kinds, entries of the merged
/// index whose crawl has no such record, and records that the merged index does not know.
fn odd(c: &mut Wire) {
    let long = vec![b'u'; 100_000];
    let records: [(&[u8], &[u8]); 9] = [
        (b"", b""),
        (b"\xff\0\r\n", b"\0"),
        (
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            b"0 20200101000000 http://a.org/ 5",
        ),
        (
            b"sha1:ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
            b"7 20200101000000123 http://a.org/b c 05",
        ),
        (
            b"22222222222222222222222222222222",
            b"0 2020-01-01T00:00:00Z x 1",
        ),
        (
            b"md5:0123456789abcdef0123456789abcdef",
            b"18446744073709551616 2 3 4",
        ),
        (b"sha256:short", &long),
        (&long[..5_000], b"0 20200101000000 https://a.org/"),
        (
            b"sha-256:0000000000000000000000000000000000000000000000000000000000000000",
            b"-1 0 - -0",
        ),
    ];
    for (n, (field, value)) in records.iter().enumerate() {
        ok!(c, "HSET", "p:h:odd", *field, *value);
        if n % 3 != 2 {
            ok!(c, "HSET", "p:allhashes", *field, "odd");
        }
    }
    ok!(
        c,
        "HSET",
        "p:allhashes",
        "nobody's own hash, as text",
        "nobody"
    );
    ok!(c, "HSET", "p:allhashes", sha256_of(900_000), "\u{ff}\0");
    ok!(c, "SADD", "p:allcrawls", "odd");
}

/// An index with all of that, crawls that share hashes, and one that has not committed.
fn fill(c: &mut Wire) {
    odd(c);
    for (crawl, numbers) in [("a", 0..300), ("b", 200..500), ("c\r\n", 100..400)] {
        add(c, P, crawl, numbers);
        commit(c, P, crawl);
    }
    add(c, P, "open", 450..600);
    let done = ok!(c, "DEDUPE.PACK", P);
    assert_eq!(done.field("storage"), bulk("packed"));
    add(c, P, "later", 550..700);
    commit(c, P, "later");
}

fn packed() -> (Server, Wire) {
    start(Options::new())
}

fn start(options: Options) -> (Server, Wire) {
    let server = options.plain().start();
    let mut c = server.wire();
    fill(&mut c);
    (server, c)
}

type Told = (Vec<String>, Vec<(Reply, Reply)>, Snapshot);

/// What can be asked of it, and what it would be unpacked.
fn told(c: &mut Wire) -> Told {
    let mut stats = ok!(c, "DEDUPE.STATS", P, "b").pairs();
    // Memory is what it is.
    stats.retain(|(name, _)| *name != bulk("memory"));
    (owners(c, P, 0..720), stats, plain_view(c, P))
}

/// More can be done with it.
fn goes_on(c: &mut Wire) {
    assert_eq!(ok!(c, "DEDUPE.STATS", P).field("storage"), bulk("packed"));
    add(c, P, "new", 690..800);
    commit(c, P, "new");
    assert_eq!(owners(c, P, [695, 750]), ["later", "new"]);
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(owners(c, P, [10, 250, 150]), ["-", "b", "c\r\n"]);
}

#[track_caller]
fn assert_same(c: &mut Wire, before: &Told, what: &str) {
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
    let mut c = server.wire();
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
    restart_keeps_everything(
        Options::new().aof_unsynced(false),
        Server::restart_rewritten,
    );
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

/// A committed and packed crawl of so many hashes.
fn big(c: &mut Wire, hashes: u64) {
    Crawl::of(P, "big", 0..hashes).add(c);
    commit(c, P, "big");
    ok!(c, "DEDUPE.PACK", P);
}

#[test]
fn big_index_survives_a_rewritten_append_only_file_that_then_grows() {
    let mut server = Options::new().plain().aof_unsynced(false).start();
    let mut c = server.wire();
    big(&mut c, 24_000);
    let digest = server.digest();
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut c = server.wire();
    add(&mut c, P, "more", 23_000..25_000);
    commit(&mut c, P, "more");
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    let mut c = server.wire();
    assert_eq!(owners(&mut c, P, [23_500, 24_500]), ["big", "more"]);
    assert_consistent(&mut c, P);
}

#[test]
fn replica_has_what_the_master_has() {
    let server = Options::new().plain().start();
    let early = Options::new().plain().replica_of(&server).start();
    let mut c = server.wire();
    fill(&mut c);
    let late = Options::new().plain().replica_of(&server).start();
    let before = told(&mut c);
    for replica in [&early, &late] {
        server.wait_for_replica_offset(replica);
        assert_eq!(replica.digest(), server.digest());
        assert_same(&mut replica.wire(), &before, "replica");
    }
    goes_on(&mut c);
    let before = told(&mut c);
    for replica in [&early, &late] {
        server.wait_for_replica_offset(replica);
        assert_eq!(replica.digest(), server.digest());
        assert_same(&mut replica.wire(), &before, "replica, later");
    }
    ok!(early.wire(), "REPLICAOF", "NO", "ONE");
    let mut r = early.wire();
    add(&mut r, P, "own", 5_000..5_010);
    commit(&mut r, P, "own");
    assert_eq!(owners(&mut r, P, [5_005]), ["own"]);
}

fn value_digest(c: &mut Wire, key: &str) -> String {
    ok!(c, "DEBUG", "DIGEST-VALUE", key).texts().remove(0)
}

#[test]
fn copies_and_dumps_are_equal_and_apart() {
    let (server, mut c) = packed();
    let before = told(&mut c);
    let digest = value_digest(&mut c, "p:allhashes");
    ok!(c, "COPY", "p:allhashes", "copy");
    let payload = ok!(c, "DUMP", "p:allhashes").bytes().to_vec();
    ok!(c, "RESTORE", "restored", 0, &payload);
    ok!(c, "COPY", "p:allhashes", "p:allhashes", "DB", 5);
    // Valkey 8.1 leaves the client in the other database.
    ok!(c, "SELECT", 0);
    for key in ["copy", "restored"] {
        assert_eq!(value_digest(&mut c, key), digest, "{key}");
    }
    goes_on(&mut c);
    assert_ne!(value_digest(&mut c, "p:allhashes"), digest);
    for key in ["copy", "restored"] {
        assert_eq!(value_digest(&mut c, key), digest, "{key}");
    }
    // A copy of all keys is an index of its own.
    let (other, mut o) = packed();
    for key in ok!(o, "KEYS", "p:*").texts() {
        ok!(o, "COPY", &key, format!("q{}", &key[1..]));
    }
    goes_on(&mut o);
    for key in ok!(o, "KEYS", "q:*").texts() {
        let name = format!("p{}", &key[1..]);
        ok!(o, "RENAME", &key, &name);
    }
    ok!(o, "DEL", "p:h:new");
    assert_eq!(owners(&mut o, P, 0..720), before.0);
    assert_eq!(
        server.info_number("panics") + other.info_number("panics"),
        0
    );
}

#[test]
fn digest_does_not_depend_on_how_an_index_came_about() {
    let all: Vec<(&str, std::ops::Range<u64>)> =
        vec![("a", 0..300), ("b", 200..500), ("c", 100..400)];
    let mut digests = Vec::new();
    // Packed at the end, packed from the beginning, packed in between, with crawls that went.
    for round in 0..4 {
        let server = match round {
            1 => Options::new().packed().start(),
            _ => Options::new().plain().start(),
        };
        let mut c = server.wire();
        for (n, (crawl, numbers)) in all.iter().enumerate() {
            if round == 3 {
                let passing = format!("passing-{n}");
                add(&mut c, P, &passing, 2_000..2_400);
                commit(&mut c, P, &passing);
                ok!(c, "DEDUPE.PACK", P);
            }
            add(&mut c, P, crawl, numbers.clone());
            commit(&mut c, P, crawl);
            if round == 2 && n == 1 {
                ok!(c, "DEDUPE.PACK", P);
                ok!(c, "DEDUPE.UNPACK", P);
                ok!(c, "DEDUPE.PACK", P);
            }
        }
        if round == 3 {
            ok!(c, "DEDUPE.REMOVE", P, "passing-0", "passing-1", "passing-2");
        }
        ok!(c, "DEDUPE.PACK", P);
        // Numbers of commits differ where more has been committed.
        if round != 3 {
            digests.push(value_digest(&mut c, "p:allhashes"));
        }
        let view = plain_view(&mut c, P).without_counters();
        assert_eq!(view.hash("p:allhashes").len(), 500);
        ok!(c, "DEBUG", "RELOAD");
        plain_view(&mut c, P)
            .without_counters()
            .assert_same(&view, "reloaded");
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "{digests:?}");
}

#[test]
fn every_change_is_another_digest() {
    let (_server, mut c) = packed();
    let mut seen = vec![value_digest(&mut c, "p:allhashes")];
    for (crawl, n) in [("a", 3_000), ("b", 3_000), ("d", 3_000), ("d", 3_001)] {
        add(&mut c, P, crawl, [n]);
        commit(&mut c, P, crawl);
        let digest = value_digest(&mut c, "p:allhashes");
        assert!(!seen.contains(&digest), "{crawl} {n}");
        seen.push(digest);
    }
}

#[test]
fn memory_usage_is_what_the_server_measures() {
    for loaded in [false, true] {
        let server = Options::new().plain().start();
        let mut c = server.wire();
        // Valkey frees what is deleted on another thread, some time later.
        ok!(c, "CONFIG", "SET", "lazyfree-lazy-user-del", "no");
        big(&mut c, 80_000);
        if loaded {
            ok!(c, "DEBUG", "RELOAD");
        }
        let said = ok!(c, "MEMORY", "USAGE", "p:allhashes").int();
        let before = server.info_number("used_memory");
        ok!(c, "DEL", "p:allhashes");
        let measured = before - server.info_number("used_memory");
        eprintln!("{said} said, {measured} measured, loaded: {loaded}");
        assert!(
            (said - measured).abs() * 50 <= measured,
            "{said} said, {measured} measured, loaded: {loaded}"
        );
    }
}

#[test]
fn big_index_is_freed_aside() {
    let server = Options::new().plain().start();
    let mut c = server.wire();
    big(&mut c, 80_000);
    let before = server.info_number("lazyfreed_objects");
    let usage = ok!(c, "MEMORY", "USAGE", "p:allhashes").int();
    let used = server.info_number("used_memory");
    ok!(c, "UNLINK", "p:allhashes");
    until("it is freed aside", || {
        server.info_number("lazyfreed_objects") > before
            && server.info_number("used_memory") < used - usage / 2
    });
    ok!(c, "FLUSHALL", "ASYNC");
}

#[test]
fn defragmentation_moves_it_and_harms_nothing() {
    let server = Options::new().plain().start();
    let mut c = server.wire();
    fill(&mut c);
    if let Reply::Error(line) = cmd!(c, "CONFIG", "SET", "activedefrag", "yes") {
        eprintln!("not tried: {}", String::from_utf8_lossy(&line));
        return;
    }
    for (name, value) in [
        ("active-defrag-ignore-bytes", "1"),
        ("active-defrag-threshold-lower", "0"),
        ("active-defrag-threshold-upper", "1"),
        ("active-defrag-cycle-min", "50"),
        ("active-defrag-cycle-max", "90"),
    ] {
        ok!(c, "CONFIG", "SET", name, value);
    }
    // Holes: every other crawl goes again.
    for n in 0..8_u64 {
        let id = format!("x{n}");
        add(&mut c, P, &id, 10_000 + n * 2_000..10_000 + (n + 1) * 2_000);
        commit(&mut c, P, &id);
    }
    for n in (0..8).step_by(2) {
        ok!(c, "DEDUPE.REMOVE", P, format!("x{n}"));
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
    assert_consistent(&mut c, P);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn type_expiry_and_scan_are_those_of_a_key() {
    let (_server, mut c) = packed();
    let key = "p:allhashes";
    assert_eq!(ok!(c, "TYPE", key), simple("crawlpack"));
    assert_eq!(ok!(c, "OBJECT", "ENCODING", key), bulk("raw"));
    assert!(cmd!(c, "HGET", key, sha256_of(1)).is_error());
    assert_eq!(
        ok!(c, "SCAN", 0, "TYPE", "crawlpack", "COUNT", 1_000).items()[1].texts(),
        [key]
    );
    assert_eq!(ok!(c, "PEXPIRE", key, 600_000), int(1));
    add(&mut c, P, "more", 4_000..4_010);
    commit(&mut c, P, "more");
    assert!(
        ok!(c, "PTTL", key).int() > 0,
        "changes keep the time to live"
    );
}
