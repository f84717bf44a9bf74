//! Tests servers that are full, unreachable, protected by a password, or without the module.

use std::thread;

use redis_tests::archive::Shape;
use redis_tests::{Options, Relay, Wire, assert_contains, assert_lacks, ok, sha256_of, until};
use serde_json::json;

use crate::indexer::guards::larger;
use crate::indexer::stage::{COPY, Indexer, LIVE, Outcome, Stage, in_the_middle, succeeded};

#[test]
fn lost_server_is_reported_and_the_import_resumes() {
    let mut stage = Stage::with("gone", Options::new().aof(true), 3, larger());
    let relay = Relay::to(&stage.server);
    for bytes in [0, 3_000, 60_000, 300_000] {
        relay.hold_after(bytes);
        let mut program = stage.import_over(&relay, COPY).jobs(2).start();
        in_the_middle(&relay, &mut program);
        stage.server.kill9();
        relay.refuse(true);
        relay.cut();
        let ended = program.end();
        assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
        let last = ended.errors.lines().last().unwrap_or_default();
        assert!(last.starts_with("crawlspace: "), "{}", ended.errors);
        assert_contains(last, "run the same command again");
        relay.refuse(false);
        stage.server.restart();
    }
    stage.import().succeeds();
    stage.assert_once();
}

/// Message of an import that waits for the server.
const WAITS: &str = "waiting for the server for another ";

#[test]
fn import_waits_for_a_restarting_server() {
    let mut stage = Stage::with("killed server", Options::new().aof(true), 3, larger());
    let relay = Relay::to(&stage.server);
    for (round, bytes) in [3_000, 60_000, 300_000].into_iter().enumerate() {
        let prefix = format!("{{waits-{round}}}:");
        relay.hold_after(bytes);
        let import = stage.import_over(&relay, &prefix).jobs(2);
        let mut program = import.with("--wait", "1h").start();
        until("the relay holds the import", || relay.holds());
        stage.server.kill9();
        relay.refuse(true);
        relay.cut();
        until("the program waits for the server", || {
            program.errors().contains(WAITS)
        });
        stage.server.restart();
        relay.refuse(false);
        assert!(program.ended().is_none(), "{bytes}");
        let ended = program.end();
        let report = succeeded(&ended);
        assert_eq!(report["listed"], stage.folder.entries.len());
        assert_eq!(report["failed"], json!([]));
        assert_eq!(ended.errors.matches(WAITS).count(), 1, "{}", ended.errors);
        assert_contains(&ended.errors, "the server is back");
        stage.assert_once_in(&prefix);
    }
}

#[test]
fn import_waits_for_a_loading_server() {
    let options = Options::new().rdb();
    let mut stage = Stage::with("loading server", options.clone(), 3, Shape::default());
    let mut c = stage.server.wire();
    for n in 0..10_000 {
        ok!(c, "SET", format!("key-{n}"), sha256_of(n));
    }
    stage.server.shutdown();
    // Loading takes 100 seconds, unless the test changes that.
    let slow = ["--key-load-delay", "10000"];
    let often = ["--loading-process-events-interval-bytes", "1024"];
    let import = stage.import().with("--wait", "1h");
    let port = stage.server.port();
    let asked = move |words: &[&str]| {
        let mut c = Wire::tcp(port).ok()?;
        c.try_send(words).ok()?;
        c.try_recv().ok().map(|reply| format!("{reply:?}"))
    };
    thread::scope(|scope| {
        let imported = scope.spawn(move || {
            until("the server is loading its data", || {
                asked(&["PING"]).is_some_and(|reply| reply.contains("LOADING"))
            });
            let program = import.start();
            until("the program waits for the server", || {
                program.errors().contains(WAITS)
            });
            assert_contains(program.errors(), "LOADING");
            until("the server accepts a shorter load delay", || {
                let quick = asked(&["CONFIG", "SET", "key-load-delay", "0"]);
                quick.is_some_and(|reply| reply.contains("OK"))
            });
            program.end()
        });
        // The server process exits with the thread that started it.
        stage.server.restart_as(options.args(&slow).args(&often));
        succeeded(&imported.join().expect("it ends"));
    });
    stage.assert_once();
}

#[test]
fn import_that_gives_up_says_how_to_continue() {
    let stage = Stage::new("in vain");
    let import = stage.import().redis("redis://127.0.0.1:1/");
    let errors = import.with("--wait", "700ms").fails();
    assert_contains(&errors, WAITS);
    let last = errors.lines().last().unwrap_or_default();
    assert_contains(last, "127.0.0.1:1");
    assert_contains(
        last,
        "run the same command again when the server is back: it continues where it stopped",
    );
}

#[test]
fn full_server_is_reported_and_the_import_resumes() {
    let mut stage = Stage::with("full", Options::new(), 3, larger());
    let mut c = stage.server.wire();
    let relay = Relay::to(&stage.server);
    for round in 0..4 {
        relay.hold_after(1 + stage.rng.below(300_000));
        let mut program = stage.import_over(&relay, COPY).start();
        in_the_middle(&relay, &mut program);
        let used = stage.server.info_number("used_memory");
        ok!(c, "CONFIG", "SET", "maxmemory", used - 1);
        relay.go_on();
        let ended = program.end();
        let code = ended.status.code();
        assert_eq!(code, Some(1), "round {round}: {}", ended.errors);
        let last = ended.errors.lines().last().unwrap_or_default();
        assert_contains(last, "OOM");
        assert_contains(last, "maxmemory");
        ok!(c, "CONFIG", "SET", "maxmemory", 0);
    }
    stage.import().succeeds();
    stage.assert_once();
}

#[test]
fn invalid_index_is_refused_with_a_reason() {
    let stage = Stage::new("refused");
    let plain = Options::new().no_module().start();
    let errors = stage.import().redis(&plain.url()).fails();
    assert_contains(&errors, "module");
    let keys = ok!(plain.wire(), "DBSIZE").int();
    assert_eq!(keys, 0, "no key is left in that database");

    let locked = Options::new().start();
    ok!(locked.wire(), "CONFIG", "SET", "requirepass", "s3cret");
    let port = locked.port();
    for (url, why) in [
        (format!("redis://127.0.0.1:{port}/"), "NOAUTH"),
        (format!("redis://:wr0ng@127.0.0.1:{port}/"), "WRONGPASS"),
        ("redis://127.0.0.1:1/".to_owned(), "127.0.0.1:1"),
        ("http://127.0.0.1/".to_owned(), "write redis://HOST:PORT/DB"),
    ] {
        let errors = stage.import().redis(&url).fails();
        let is_named = errors.to_lowercase().contains(&why.to_lowercase());
        assert!(is_named || why == "WRONGPASS", "{url}: {errors}");
        assert_lacks(&errors, "wr0ng");
        assert_lacks(&errors, "s3cret");
    }
    let url = format!("redis://:s3cret@127.0.0.1:{port}/");
    stage.import().redis(&url).succeeds();

    let mut c = stage.server.wire();
    ok!(c, "SET", format!("{COPY}src:q"), "no list");
    let errors = stage.import().fails();
    assert_contains(&errors, "WRONGTYPE");
    ok!(c, "DEL", format!("{COPY}src:q"));
    stage.import().succeeds();
    stage.assert_once();

    let replica = Options::new().replica_of(&stage.server).start();
    stage.server.wait_for_replica_offset(&replica);
    let import = stage.import().redis(&replica.url());
    let errors = import.prefix("{other}:").fails();
    let is_named = errors.contains("READONLY") || errors.contains("replica");
    assert!(is_named, "{errors}");
}

#[test]
fn prefix_without_hash_tag_is_refused_in_a_cluster() {
    let cluster = redis_tests::Cluster::start(3);
    let stage = Stage::new("no tag");
    let import = Indexer::new(stage.folder.manifest()).redis(&cluster.url());
    let errors = import.prefix("coll:").fails();
    assert_contains(&errors, "BADPREFIX");
}

#[test]
fn index_may_be_in_another_database() {
    let stage = Stage::new("database");
    let url = format!("{}3", stage.server.url());
    stage.import().redis(&url).succeeds();
    let live = Outcome::of(&mut stage.server.wire(), LIVE);
    let mut c = stage.server.wire();
    ok!(c, "SELECT", 3);
    Outcome::of(&mut c, COPY).assert_same(&live, "in database 3");
    let socket = format!("unix://{}?db=5", stage.server.unix_path().display());
    stage.import().redis(&socket).succeeds();
    ok!(c, "SELECT", 5);
    Outcome::of(&mut c, COPY).assert_same(&live, "over a socket");
}

#[test]
fn resp3_replies_are_parsed() {
    let stage = Stage::new("resp3");
    let url = format!("{}?protocol=resp3", stage.server.url());
    stage.import().redis(&url).jobs(2).succeeds();
    stage.assert_once();
}
