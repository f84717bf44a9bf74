//! A replica, an append-only file replayed and an RDB file reloaded hold the same data set.

use redis_tests::{
    DATE, Options, Reply, Rng, Server, Wire, assert_consistent, indexed, ok, packed_by_default,
    sha256_of,
};

const PREFIXES: [&str; 3] = ["", "{coll-42}:", "b\r\n\0:"];

/// A few hundred random commands of every kind; errors are part of it.
fn mixed_workload(c: &mut Wire, rng: &mut Rng, steps: u64) {
    let crawls = ["a", "b", "crawl with spaces", "\u{e9}\r\n"];
    ok!(c, "DEDUPE.PROFILE", "{coll-42}:", "browsertrix");
    let mut succeeded = 0;
    for step in 0..steps {
        let p = *rng.pick(&PREFIXES);
        let crawl = *rng.pick(&crawls);
        let hash = sha256_of(rng.below(80));
        let url = format!(
            "http://e.com/{} {}",
            rng.below(3),
            "x".repeat(rng.below(90) as usize)
        );
        let text = |n: u64| n.to_string();
        let size = text(rng.below(5000));
        let name = format!("{}.wacz", rng.below(4));
        let (seq, uuid) = (text(step + 1), text(rng.below(5)));
        let words: Vec<&str> = match rng.below(100) {
            0..=22 => vec!["DEDUPE.ADD", p, crawl, &hash, "0", DATE, &url, &size],
            23..=29 => vec![
                "DEDUPE.ADD",
                p,
                crawl,
                "EARLIEST",
                &hash,
                "0",
                DATE,
                &url,
                &size,
            ],
            30..=39 => vec![
                "DEDUPE.ADD",
                p,
                crawl,
                "SEQ",
                "w",
                &seq,
                &hash,
                "1",
                DATE,
                &url,
                &size,
            ],
            40..=49 => vec!["DEDUPE.REVISIT", p, crawl, "REF", &uuid, &hash, &size],
            50..=51 => vec!["DEDUPE.REVISIT", p, crawl, &hash, &size],
            52 => vec!["DEDUPE.BEGIN", p, crawl, "VISIBLE"],
            53..=54 => vec![
                "DEDUPE.REVISIT",
                p,
                crawl,
                "NOREF",
                &hash,
                &size,
                "ORIGINAL",
                "b",
                "1",
                "900",
            ],
            55..=62 => vec!["DEDUPE.CLAIM", p, crawl, &hash, "PX", "600000"],
            63..=64 => vec!["DEDUPE.CLAIM", p, crawl, &hash, "PX", "1"],
            65..=72 => vec!["DEDUPE.WACZOPEN", p, crawl, &name],
            73..=76 => vec!["DEDUPE.WACZCLOSE", p, crawl, "0", &name, "sha256:ab", &size],
            77..=79 => vec![
                "DEDUPE.WACZCLOSE",
                p,
                crawl,
                "0",
                "all.wacz",
                "sha256:ab",
                &size,
                "RENAME",
            ],
            80..=88 => vec!["DEDUPE.COMMIT", p, crawl],
            89..=92 => vec!["DEDUPE.CANCEL", p, crawl],
            93..=94 => vec!["DEDUPE.REMOVE", p, crawl],
            95..=96 => vec!["DEDUPE.RETAIN", p, crawl],
            97 => vec!["DEDUPE.RETAIN", p, "PURGE", crawl],
            98 => vec!["DEDUPE.REPAIR", p],
            _ => vec!["DEDUPE.LOOKUP", p, &hash],
        };
        if rng.chance(10) {
            ok!(c, "MULTI");
            c.expect_ok(&words);
            ok!(c, "EXEC");
        } else {
            let reply = c.call(&words);
            succeeded += u64::from(!reply.is_error());
            if let Reply::Error(line) = reply {
                let line = String::from_utf8_lossy(&line).into_owned();
                assert!(
                    !line.to_lowercase().contains("internal"),
                    "{words:?}: {line}"
                );
            }
        }
    }
    assert!(
        succeeded * 2 > steps,
        "only {succeeded} of {steps} commands succeeded"
    );
    for p in PREFIXES {
        assert_consistent(c, p);
    }
}

fn rewrite_aof(server: &Server) {
    let mut c = server.wire();
    ok!(c, "BGREWRITEAOF");
    redis_tests::until("the append-only file is rewritten", || {
        server.info_number("aof_rewrite_in_progress") == 0
            && server.info_number("aof_rewrite_scheduled") == 0
    });
}

fn replay_equals_the_original(preamble: bool) {
    let mut rng = Rng::new("replay_equals_the_original");
    let mut server = Options::new().aof_unsynced(preamble).start();
    let replica = Options::new().replica_of(&server).start();
    // Plain keys need no module.
    let bare =
        (!packed_by_default()).then(|| Options::new().no_module().replica_of(&server).start());
    mixed_workload(&mut server.wire(), &mut rng, 1500);

    server.wait_for_replica_offset(&replica);
    let (digest, snapshot) = (server.digest(), server.snapshot());
    replica.snapshot().assert_same(&snapshot, "replica");
    assert_eq!(replica.digest(), digest);
    if let Some(bare) = &bare {
        server.wait_for_replica_offset(bare);
        let copy = bare.snapshot();
        copy.assert_same(&snapshot, "replica without the module");
        assert_eq!(bare.digest(), digest);
    }

    server.kill9();
    server.restart();
    server
        .snapshot()
        .assert_same(&snapshot, "replayed append-only file");
    assert_eq!(server.digest(), digest);

    mixed_workload_again(&mut server.wire(), &mut rng);
    let (digest, snapshot) = (server.digest(), server.snapshot());
    rewrite_aof(&server);
    server.kill9();
    server.restart();
    server
        .snapshot()
        .assert_same(&snapshot, "rewritten append-only file");
    assert_eq!(server.digest(), digest);

    let mut c = server.wire();
    ok!(c, "DEBUG", "RELOAD");
    assert_eq!(server.digest(), digest, "RDB reload");
    // A replica that comes late gets an RDB.
    let late = Options::new().replica_of(&server).start();
    server.wait_for_replica_offset(&late);
    assert_eq!(late.digest(), digest);

    if bare.is_some() {
        let port_free = Options::new().no_module().aof_unsynced(preamble);
        server.restart_as(port_free);
        assert_eq!(server.digest(), digest, "without the module");
    }
}

fn mixed_workload_again(c: &mut Wire, rng: &mut Rng) {
    for p in PREFIXES {
        assert_consistent(c, p);
    }
    for n in 0..50 {
        let hash = sha256_of(rng.below(200));
        ok!(
            c,
            "DEDUPE.ADD",
            "",
            "after",
            hash,
            0,
            DATE,
            format!("http://e.com/{n}"),
            5
        );
    }
    ok!(c, "DEDUPE.COMMIT", "", "after");
}

#[test]
fn replicas_and_append_only_files_with_preamble_equal_the_master() {
    replay_equals_the_original(true);
}

#[test]
fn replicas_and_append_only_files_without_preamble_equal_the_master() {
    replay_equals_the_original(false);
}

#[test]
fn rdb_restart_equals_the_original() {
    let mut rng = Rng::new("rdb_restart_equals_the_original");
    let mut server = Options::new().rdb().start();
    mixed_workload(&mut server.wire(), &mut rng, 800);
    let (digest, snapshot) = (server.digest(), server.snapshot());
    server.shutdown();
    server.restart();
    server.snapshot().assert_same(&snapshot, "RDB");
    assert_eq!(server.digest(), digest);
    mixed_workload_again(&mut server.wire(), &mut rng);
}

#[test]
fn sliced_jobs_replicate_like_small_ones() {
    let server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for (id, first) in [("a", 0), ("b", 20_000), ("c", 10_000)] {
        let crawl = redis_tests::Crawl {
            prefix: "p:",
            id,
            first,
            hashes: 40_000,
        };
        crawl.add(&mut c);
    }
    redis_tests::commit(&mut c, "p:", "a");
    redis_tests::commit(&mut c, "p:", "b");
    ok!(c, "DEDUPE.CANCEL", "p:", "c");
    ok!(c, "DEDUPE.REMOVE", "p:", "a");
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
    assert_eq!(indexed(&mut replica.wire(), "p:"), 40_000);
}

#[test]
fn replica_that_takes_over_goes_on_where_the_master_was() {
    let mut server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    redis_tests::add(&mut c, "p:", "a", 0..50);
    redis_tests::commit(&mut c, "p:", "a");
    redis_tests::add(&mut c, "p:", "b", 25..75);
    server.wait_for_replica_offset(&replica);
    server.kill9();
    let mut c = replica.wire();
    ok!(c, "REPLICAOF", "NO", "ONE");
    assert_eq!(redis_tests::commit(&mut c, "p:", "b"), (25, 25));
    assert_eq!(
        redis_tests::owners(&mut c, "p:", [0, 30, 60]),
        ["a", "a", "b"]
    );
    assert_consistent(&mut c, "p:");
}
