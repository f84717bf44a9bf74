//! MULTI, Lua, WATCH, client tracking and keyspace notifications.

use redis_tests::{Reply, Server, TagSpace, array, bulk, nil, ok, simple};

/// Every writing command in an order in which each of them changes something.
const WRITES: [&str; 16] = [
    "ADD FILE f a b",
    "ADD TAG a org:1",
    "REM FILE f b",
    "LOAD FILE MERGE g a",
    "LOAD FILE SET g b",
    "LOAD RECORD REPLACE 'k 1 f 0' a",
    "LOAD FILE STAGE h a",
    "LOAD FILE STAGE i a",
    "SWAP FILE EXPECT 2",
    "LOAD TAG STAGE t u",
    "SWAP TAG DISCARD",
    "RULESET r filename (.) x:$1",
    "POINTSET p-(.) org:$1",
    "POINTSET q @p-1",
    "RULEDEL r",
    "POINTDEL q",
];

const READS: [&str; 12] = [
    "GET FILE f",
    "GET FILE h ALL",
    "RULES",
    "POINTS",
    "POINTS p-1",
    "FILTER POINT p-1 FORMAT FILE LINES h",
    "FILTER WHERE * FORMAT FILE BLOB h",
    "EXPLAIN POINT p-1 FORMAT FILE LINES h",
    "LIST *",
    "SCAN RECORD 0",
    "INFO",
    "GET TAG a ALL",
];

#[test]
fn every_command_does_the_same_in_a_transaction_and_in_a_script() {
    let (direct, multi, scripted) = (Server::start(), Server::start(), Server::start());
    let lines: Vec<&str> = WRITES.iter().chain(&READS).copied().collect();
    let mut s = TagSpace::of(&direct);
    let expected: Vec<Reply> = lines.iter().map(|line| s.ok(line)).collect();
    let mut s = TagSpace::of(&multi);
    ok!(s.wire, "MULTI");
    for line in &lines {
        assert_eq!(s.ok(line), simple("QUEUED"));
    }
    assert_eq!(ok!(s.wire, "EXEC"), Reply::Array(expected.clone()));
    assert_eq!(multi.digest(), direct.digest());
    let mut s = TagSpace::of(&scripted);
    let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
    for (line, expected) in lines.iter().zip(&expected) {
        let words = s.words(line);
        let mut eval: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"1", &words[1], &words[0]];
        eval.extend(words[2..].iter().map(Vec::as_slice));
        assert_eq!(s.wire.expect_ok(&eval), *expected, "{line}");
    }
    assert_eq!(scripted.digest(), direct.digest());
}

fn filled(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    for line in WRITES {
        s.ok(line);
    }
    s
}

#[test]
fn reading_disturbs_no_watch() {
    let server = Server::start();
    let mut s = filled(&server);
    let mut other = TagSpace::of(&server);
    for line in READS {
        ok!(s.wire, "WATCH", "tags");
        other.ok(line);
        ok!(s.wire, "MULTI");
        ok!(s.wire, "PING");
        assert_eq!(ok!(s.wire, "EXEC"), array([simple("PONG")]), "{line}");
    }
}

#[test]
fn what_changes_nothing_disturbs_no_watch() {
    let server = Server::start();
    let mut s = filled(&server);
    let mut other = TagSpace::of(&server);
    for line in [
        "ADD FILE h a",
        "REM FILE h nothing",
        "REM FILE nobody t",
        "RULEDEL nobody",
        "POINTDEL nobody",
        "SWAP FILE DISCARD",
        "SWAP FILE",
        "ADD TAG a a",
        "ADD FILE h 'a b'",
        "POINTSET p (",
        "LOAD FILE MERGE",
    ] {
        ok!(s.wire, "WATCH", "tags");
        other.call(line);
        ok!(s.wire, "MULTI");
        ok!(s.wire, "PING");
        assert_eq!(ok!(s.wire, "EXEC"), array([simple("PONG")]), "{line}");
    }
}

#[test]
fn every_change_disturbs_a_watch() {
    let server = Server::start();
    let mut s = TagSpace::of(&server);
    let mut other = TagSpace::of(&server);
    for line in WRITES
        .iter()
        .chain(&["LOAD RECORD REPLACE", "LOAD FILE SET h ''"])
    {
        ok!(s.wire, "WATCH", "tags");
        other.ok(line);
        ok!(s.wire, "MULTI");
        ok!(s.wire, "PING");
        assert_eq!(ok!(s.wire, "EXEC"), nil(), "{line}");
    }
}

#[test]
fn every_change_is_an_event() {
    let server = Server::start();
    let mut s = TagSpace::of(&server);
    ok!(s.wire, "CONFIG", "SET", "notify-keyspace-events", "KA");
    let mut listener = server.wire3();
    listener.send(&["SUBSCRIBE", "__keyspace@0__:tags"]);
    listener.pushes();
    for line in WRITES {
        s.ok(line);
        let events = listener.pushes();
        assert_eq!(events.len(), 1, "{line}: {events:?}");
        let event = events[0].items()[2].text();
        let command = s.words(line)[0].to_ascii_lowercase();
        assert_eq!(event.as_bytes(), command, "{line}");
    }
    for line in READS
        .iter()
        .chain(&["ADD FILE h a", "REM FILE h nothing", "RULEDEL nobody"])
    {
        s.ok(line);
        assert_eq!(listener.pushes(), [], "{line}");
    }
    s.ok("LOAD FILE REPLACE");
    s.ok("LOAD RECORD REPLACE");
    s.ok("LOAD TAG REPLACE");
    listener.pushes();
    // The last of it.
    s.ok("POINTDEL p-(.)");
    let events: Vec<String> = listener
        .pushes()
        .iter()
        .map(|e| e.items()[2].text())
        .collect();
    assert!(!s.exists());
    assert_eq!(events, ["tags.pointdel", "del"]);
}

#[test]
fn clients_that_cache_are_told_of_changes_alone() {
    let server = Server::start();
    let mut s = filled(&server);
    let mut caching = TagSpace::over(server.wire3(), "tags");
    ok!(caching.wire, "CLIENT", "TRACKING", "ON");
    for read in READS {
        caching.ok(read);
        caching.wire.pushes();
        caching.ok(read);
        assert_eq!(caching.wire.pushes(), [], "{read} is no change");
    }
    caching.ok("GET FILE h");
    s.ok("ADD FILE h another");
    let told = caching.wire.pushes();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].items()[1], array([bulk("tags")]));
}

#[test]
fn aborted_transactions_change_nothing() {
    let server = Server::start();
    let mut s = filled(&server);
    let before = s.digest();
    ok!(s.wire, "MULTI");
    s.ok("ADD FILE f x");
    assert!(s.wire.call(&["TAGS.ADD", "tags"]).is_error());
    let error = s.wire.expect_error(&["EXEC"]);
    assert!(error.starts_with("EXECABORT "), "{error}");
    assert_eq!(s.digest(), before);
    ok!(s.wire, "MULTI");
    s.ok("POINTSET new x");
    s.ok("POINTSET bad (");
    let replies = ok!(s.wire, "EXEC");
    assert_eq!(replies.items()[0], simple("OK"));
    assert!(replies.items()[1].is_error());
    assert_eq!(s.kept("POINT new FORMAT FILE", &["h"]), [""; 0]);
}

#[test]
fn a_full_memory_refuses_what_grows_and_nothing_else() {
    let server = Server::start();
    let mut s = filled(&server);
    ok!(s.wire, "CONFIG", "SET", "maxmemory", 1);
    for line in [
        "ADD FILE n t",
        "LOAD FILE MERGE n t",
        "RULESET n filename x t",
        "POINTSET n t",
    ] {
        let error = s.err(line);
        assert!(error.starts_with("OOM "), "{line}: {error}");
    }
    for line in [
        "REM FILE h a",
        "RULEDEL r",
        "POINTDEL q",
        "SWAP FILE DISCARD",
        "FILTER WHERE * FORMAT FILE LINES h",
        "INFO",
    ] {
        s.ok(line);
    }
    ok!(s.wire, "CONFIG", "SET", "maxmemory", 0);
}
