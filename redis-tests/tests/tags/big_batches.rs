//! Batches above the limit run on background threads and use the tag space as it was when they
//! arrived. The server serves other clients meanwhile, and a reply never shows only a part of a
//! change.

use std::time::{Duration, Instant};

use crate::stage;
use redis_tests::{
    Options, Reply, Server, TagSpace, array, bulk, cmd, int, ok, rows, simple, until,
};

/// Number of lines that takes longer than a few round trips.
const LINES: usize = 60_000;

fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    s.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    s.ok("RULESET slow url '^https?://([a-z0-9.]+)(:\\d+)?/(.*)[aeiou]([^/]*)$' last:$4");
    s.ok("ADD TAG coll:1 org:1");
    s.ok("ADD TAG coll:2 org:1 private");
    s.ok("POINTSET all 'coll:* & !private'");
    s
}

fn line(n: usize) -> String {
    format!(
        "com,example)/{n} 20200102030405 http://example.com/{n}/abcde text/html 200 SHA1{n} - - 123 {n} d/ARCHIVEIT-{}-x.warc.gz",
        n % 3
    )
}

fn blob() -> Vec<u8> {
    let lines: Vec<String> = (0..LINES).map(line).collect();
    lines.join("\n").into_bytes()
}

/// Sends the batch without waiting.
fn send(s: &mut TagSpace, arguments: &str, blob: &[u8]) {
    let mut words = s.words(&format!("FILTER {arguments} BLOB"));
    words.push(blob.to_vec());
    s.wire.send(&words);
}

fn until_nothing_waits(server: &Server) {
    let waiting = || server.info_number("tags_batches_waiting");
    until("nothing waits any more", || waiting() == 0);
    server.until_blocked(0);
}

/// Waits until the batch is running or has ended.
fn until_begun(server: &Server, s: &mut TagSpace) {
    let blocked = || server.info_number("blocked_clients");
    until("the batch has begun", || {
        s.wire.has_reply() || blocked() > 0
    });
}

#[test]
fn big_batch_gives_the_same_reply_as_small_ones() {
    let (_server, mut s) = stage(space);
    let blob = blob();
    let lines: Vec<String> = (0..LINES).map(line).collect();
    let before: Vec<i64> = (0..LINES as i64).filter(|n| n % 3 != 2).collect();
    for arguments in rows![
        "POINT all"; "WHERE 'coll:{0|1}'"; "FILTER tag.coll:0|1"; "FILTER filename:.*ARCHIVEIT-(0|1)-.*";
    ] {
        let index = s.ok_with(&format!("FILTER {arguments} RETURN INDEX BLOB"), &[&blob]);
        assert_eq!(index.ints(), before, "{arguments}");
        let index = s.ok_with(&format!("FILTER {arguments} RETURN INDEX LINES"), &lines);
        assert_eq!(index.ints(), before, "{arguments}");
        let mut small = 0;
        for part in lines.chunks(1000).take(5) {
            small += s
                .ok_with(&format!("FILTER {arguments} RETURN COUNT LINES"), part)
                .int();
        }
        assert_eq!(small, before.iter().filter(|n| **n < 5000).count() as i64);
    }
    let text = s.ok_with("FILTER POINT all SKIP 7 LIMIT 2 BLOB", &[&blob]);
    assert_eq!(text, bulk(format!("{}\n{}\n", line(10), line(12))));
    // Errors are sent in the same way.
    let bad = [&blob[..], b"\nbad"].concat();
    let error = s.err_with("FILTER WHERE * RETURN COUNT BLOB", &[&bad]);
    assert!(
        error.starts_with(&format!("BADLINE line {}: ", LINES + 1)),
        "{error}"
    );
    s.refused_with("FILTER WHERE colour=red BLOB", &[&blob], "BADFIELD ");
    s.refused_with("FILTER POINT nobody BLOB", &[&blob], "NOPOINT ");
    s.key = "missing".into();
    assert_eq!(
        s.ok_with("FILTER WHERE * RETURN COUNT BLOB", &[&blob]),
        int(0)
    );
}

#[test]
fn others_are_served_while_a_big_batch_runs() {
    let (server, mut s) = stage(space);
    let mut other = server.wire();
    let blob = blob();
    send(&mut s, "POINT all RETURN COUNT", &blob);
    let (mut served, mut longest) = (0, Duration::ZERO);
    while !s.wire.has_reply() {
        let started = Instant::now();
        ok!(other, "SET", "k", served);
        longest = longest.max(started.elapsed());
        served += 1;
    }
    assert_eq!(s.wire.recv(), int(LINES as i64 / 3 * 2));
    assert!(served > 10, "only {served} commands were served");
    eprintln!("{served} commands served, the longest took {longest:?}");
    // Send several batches at once.
    let mut clients: Vec<TagSpace> = (0..4).map(|_| TagSpace::of(&server)).collect();
    for client in &mut clients {
        send(client, "POINT all RETURN COUNT", &blob);
    }
    ok!(other, "PING");
    for client in &mut clients {
        assert_eq!(client.wire.recv(), int(LINES as i64 / 3 * 2));
    }
}

#[test]
fn a_toggle_during_a_batch_is_visible_completely_or_not_at_all() {
    let (server, mut s) = stage(space);
    let mut other = TagSpace::of(&server);
    let lines = vec![line(1); 40_000];
    let blob = lines.join("\n").into_bytes();
    let changes = rows![
        "ADD TAG coll:1 private", "REM TAG coll:1 private";
        "LOAD FILE SET ARCHIVEIT-1-x.warc.gz private", "LOAD FILE REPLACE";
        "POINTSET all none", "POINTSET all 'coll:* & !private'";
        "RULEDEL coll", "RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1";
        "RULESET more status 200 private", "RULEDEL more";
    ];
    let (mut shown, mut hidden) = (0, 0);
    for (off, on) in changes {
        for before in [true, false] {
            other.ok(if before { on } else { off });
            // On a busy machine, the whole batch may be complete before this process is scheduled
            // again.
            let overlaps = (0..20).any(|_| {
                send(&mut s, "POINT all RETURN COUNT", &blob);
                let mut toggles = 0;
                while !s.wire.has_reply() {
                    other.ok(if before { off } else { on });
                    other.ok(if before { on } else { off });
                    toggles += 1;
                }
                match s.wire.recv() {
                    Reply::Int(40_000) => shown += 1,
                    Reply::Int(0) => hidden += 1,
                    other => panic!("{off}: only a part of the toggle is visible: {other:?}"),
                }
                toggles > 0
            });
            assert!(overlaps, "{off}");
            other.ok(on);
        }
    }
    assert!(shown > 0 && hidden > 0, "{shown} {hidden}");
    // A call that is sent after the reply to a toggle sees the toggle.
    for n in 0..10 {
        other.ok(if n % 2 == 0 {
            "ADD TAG coll:1 private"
        } else {
            "REM TAG coll:1 private"
        });
        let count = s.ok_with("FILTER POINT all RETURN COUNT BLOB", &[&blob]);
        assert_eq!(count, int(if n % 2 == 0 { 0 } else { 40_000 }));
    }
}

#[test]
fn key_may_be_deleted_while_a_batch_runs() {
    let mut server = Server::start();
    let blob = blob();
    let all = int(LINES as i64 / 3 * 2);
    let gone: [&[&str]; 7] = rows![
        &["DEL", "tags"]; &["UNLINK", "tags"]; &["FLUSHALL"]; &["FLUSHALL", "ASYNC"]; &["SET", "tags", "v"];
        &["RENAME", "tags", "elsewhere"]; &["SWAPDB", "0", "3"];
    ];
    for words in gone {
        let mut s = space(&server);
        let mut other = server.wire();
        send(&mut s, "POINT all RETURN COUNT", &blob);
        // The batch may be at any stage at this point.
        until_begun(&server, &mut s);
        other.expect_ok(words);
        let reply = s.wire.recv();
        assert_eq!(reply, all, "{words:?}");
        ok!(other, "FLUSHALL");
    }
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn disconnected_client_leaves_nothing_behind() {
    let mut server = Server::start();
    let blob = blob();
    let mut c = server.wire();
    for round in 0..6 {
        let mut s = space(&server);
        let id = ok!(s.wire, "CLIENT", "ID").int();
        send(&mut s, "POINT all", &blob);
        until_begun(&server, &mut s);
        match round % 3 {
            0 => s.wire.hang_up(),
            1 => {
                cmd!(c, "CLIENT", "KILL", "ID", id);
            }
            _ => {
                // A server may refuse to unblock a client of a module. In any case, the client gets
                // exactly one reply.
                cmd!(c, "CLIENT", "UNBLOCK", id, "ERROR");
                s.wire.recv();
                assert_eq!(s.wire.expect_ok(&["PING"]), simple("PONG"));
            }
        }
        ok!(c, "PING");
    }
    server.until_blocked(0);
    let mut s = space(&server);
    assert_eq!(
        s.ok_with("FILTER POINT all RETURN COUNT BLOB", &[&blob]),
        int(LINES as i64 / 3 * 2)
    );
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn server_can_stop_while_a_batch_runs() {
    let mut server = Options::new().aof_unsynced(true).start();
    let blob = blob();
    let mut s = space(&server);
    let digest = server.digest();
    for _ in 0..3 {
        send(&mut s, "POINT all", &blob);
    }
    server.shutdown();
    server.restart();
    assert_eq!(server.digest(), digest);
}

#[test]
fn batches_in_transactions_and_scripts_run_at_once() {
    let (_server, mut s) = stage(space);
    let blob = blob();
    let all = int(LINES as i64 / 3 * 2);
    ok!(s.wire, "MULTI");
    s.ok_with("FILTER POINT all RETURN COUNT BLOB", &[&blob]);
    s.ok("ADD TAG coll:0 private");
    s.ok_with("FILTER POINT all RETURN COUNT BLOB", &[&blob]);
    let replies = ok!(s.wire, "EXEC");
    assert_eq!(replies, array([all, int(1), int(LINES as i64 / 3)]));
    let script = "return redis.call('TAGS.FILTER', KEYS[1], 'POINT', 'all', 'RETURN', 'COUNT', 'BLOB', ARGV[1])";
    let count = ok!(s.wire, "EVAL", script, 1, "tags", &blob);
    assert_eq!(count, int(LINES as i64 / 3));
    // Such a batch must not be too large.
    let huge = vec![b'\n'; (64 << 20) + 1];
    ok!(s.wire, "MULTI");
    s.ok_with("FILTER WHERE * RETURN COUNT BLOB", &[&huge]);
    let replies = ok!(s.wire, "EXEC");
    assert!(
        matches!(&replies.items()[0], Reply::Error(line) if line.starts_with(b"TOOBIG ")),
        "{replies:?}"
    );
    assert_eq!(
        s.ok_with("FILTER WHERE * RETURN COUNT BLOB", &[&huge]),
        int(0),
        "outside of transactions, it may be larger"
    );
}

#[test]
fn big_batch_runs_on_a_replica_whose_master_goes_on() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut s = space(&server);
    server.wait_for_replica_offset(&replica);
    let blob = blob();
    let mut r = TagSpace::of(&replica);
    for _ in 0..3 {
        send(&mut r, "POINT all RETURN COUNT", &blob);
        while !r.wire.has_reply() {
            s.ok("ADD TAG coll:1 private");
            s.ok("REM TAG coll:1 private");
        }
        let count = r.wire.recv().int();
        let third = LINES as i64 / 3;
        assert!(count == third || count == 2 * third, "{count}");
    }
    // The replica discards its data while the batch is running.
    let fresh = Server::start();
    let mut f = space(&fresh);
    f.ok("ADD TAG coll:0 private");
    send(&mut r, "POINT all RETURN COUNT", &blob);
    ok!(replica.wire(), "REPLICAOF", "127.0.0.1", fresh.port());
    let reply = r.wire.recv();
    assert!(
        reply.is_error() || reply.int() % (LINES as i64 / 3) == 0,
        "{reply:?}"
    );
    fresh.wait_for_replica_offset(&replica);
    assert_eq!(replica.digest(), fresh.digest());
}

#[test]
fn master_that_becomes_a_replica_ends_its_batches() {
    let server = Server::start();
    let other = Server::start();
    let mut s = space(&server);
    send(&mut s, "POINT all RETURN COUNT", &blob());
    until_begun(&server, &mut s);
    ok!(server.wire(), "REPLICAOF", "127.0.0.1", other.port());
    let reply = s.wire.recv();
    let unblocked = matches!(&reply, Reply::Error(line) if line.starts_with(b"UNBLOCKED "));
    assert!(unblocked || reply == int(LINES as i64 / 3 * 2), "{reply:?}");
    other.wait_for_replica_offset(&server);
    until_nothing_waits(&server);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn two_spaces_and_two_databases_are_not_mixed_up() {
    let (server, mut one) = stage(space);
    let mut two = TagSpace::over(server.wire(), "other");
    two.ok("POINTSET all !x");
    let mut three = server.wire();
    ok!(three, "SELECT", 4);
    let mut three = TagSpace::over(three, "tags");
    three.ok("POINTSET all x");
    let blob = blob();
    for _ in 0..2 {
        for s in [&mut one, &mut two, &mut three] {
            send(s, "POINT all RETURN COUNT", &blob);
        }
        assert_eq!(one.wire.recv(), int(LINES as i64 / 3 * 2));
        assert_eq!(two.wire.recv(), int(LINES as i64));
        assert_eq!(three.wire.recv(), int(0));
    }
}

#[test]
fn limit_is_a_setting() {
    let (_server, mut s) = stage(space);
    let setting = ok!(s.wire, "CONFIG", "GET", "crawlspace.tags-inline-bytes");
    assert_eq!(
        setting.field("crawlspace.tags-inline-bytes"),
        bulk("262144")
    );
    let small = (0..200).map(line).collect::<Vec<_>>();
    let inline = s.ok_with("FILTER POINT all RETURN TAGS LINES", &small);
    s.wire.line("CONFIG SET crawlspace.tags-inline-bytes 1024");
    assert_eq!(
        s.ok_with("FILTER POINT all RETURN TAGS LINES", &small),
        inline
    );
    for bad in ["x", "-1", ""] {
        assert!(cmd!(s.wire, "CONFIG", "SET", "crawlspace.tags-inline-bytes", bad).is_error());
    }
    let server = Options::new()
        .module_args(&["tags-inline-bytes", "4096"])
        .start();
    let setting = ok!(
        server.wire(),
        "CONFIG",
        "GET",
        "crawlspace.tags-inline-bytes"
    );
    assert_eq!(setting.field("crawlspace.tags-inline-bytes"), bulk("4096"));
}

/// An expression whose regex takes thousands of steps per byte.
const EXPENSIVE: &str = "filename~\"(?:.{0,60}){60}z<1>\"";

/// Returns a batch that takes seconds of CPU time.
fn expensive() -> Vec<u8> {
    let name = "ab0-/".repeat(60);
    let line = format!("com,example)/ 2020 http://example.com/ text/html 200 S - - 1 2 {name}");
    vec![line; 500].join("\n").into_bytes()
}

#[test]
fn cheap_batch_is_answered_while_expensive_ones_continue() {
    let (mut server, mut s) = stage(space);
    let text = expensive();
    let mut others: Vec<TagSpace> = (0..24).map(|_| TagSpace::of(&server)).collect();
    for (n, other) in others.iter_mut().enumerate() {
        // Each client compiles a different regex.
        let asked = EXPENSIVE.replace('1', &n.to_string());
        send(other, &format!("WHERE '{asked}' RETURN COUNT"), &text);
    }
    until("all of them are under way", || {
        server.info_number("tags_batches_waiting") == 24
    });
    let lines: Vec<String> = (0..4000).map(line).collect();
    let blob = lines.join("\n").into_bytes();
    let kept = (0..4000).filter(|n| n % 3 != 2).count() as i64;
    for _ in 0..3 {
        send(&mut s, "POINT all RETURN COUNT", &blob);
        assert_eq!(s.wire.recv(), int(kept));
    }
    // The expensive batches, which were sent first, have no reply yet.
    let answered = others
        .iter_mut()
        .filter_map(|o| o.wire.has_reply().then_some(()));
    assert_eq!(
        answered.count(),
        0,
        "the expensive batches were not expensive"
    );
    for other in others {
        other.wire.hang_up();
    }
    until_nothing_waits(&server);
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn batch_beyond_its_time_is_refused() {
    let (mut server, mut s) = stage(space);
    ok!(s.wire, "CONFIG", "SET", "crawlspace.tags-batch-ms", 50);
    let text = expensive();
    let asked = format!("FILTER WHERE '{EXPENSIVE}' RETURN COUNT BLOB");
    let error = s.err_with(&asked, &[&text]);
    assert!(
        error.starts_with("TOOBIG ") && error.contains("tags-batch-ms"),
        "{error}"
    );
    // The server also refuses a batch on the main thread, after two seconds at the latest.
    ok!(s.wire, "MULTI");
    s.ok_with(&asked, &[&text]);
    let replies = ok!(s.wire, "EXEC");
    assert!(
        matches!(&replies.items()[0], Reply::Error(line) if line.starts_with(b"TOOBIG ")),
        "{replies:?}"
    );
    // A batch with little work is treated as small, regardless of its size.
    let blob = blob();
    ok!(s.wire, "CONFIG", "SET", "crawlspace.tags-batch-ms", 600_000);
    let count = s.ok_with("FILTER POINT all RETURN COUNT BLOB", &[&blob]);
    assert_eq!(count, int(LINES as i64 / 3 * 2));
    // The regexes together are too large to compile.
    let numbers: Vec<String> = (0..9000).map(|n| format!("{n:05}x")).collect();
    let many = vec![format!("!url:{}", numbers.join("|")); 24];
    let words = [
        &["FILTER"],
        &many.iter().map(|m| &m[..]).collect::<Vec<_>>()[..],
        &["LINES", "x"],
    ]
    .concat();
    s.refused_with("FILTER", &words, "TOOBIG all regexes together are larger");
    assert!(server.is_alive());
}

#[test]
fn batches_of_disconnected_clients_are_stopped() {
    let (mut server, mut s) = stage(space);
    s.wire.line("CONFIG SET crawlspace.tags-inline-bytes 1000");
    let name = "ab0-/".repeat(800);
    let line = format!("com,example)/ 2020 http://example.com/ text/html 200 S - - 1 2 {name}");
    // The search in one line cannot be interrupted, and each client compiles a different regex.
    let asked = |n: usize| {
        let expression = EXPENSIVE.replace('1', &n.to_string());
        format!("WHERE '{expression}' RETURN COUNT")
    };
    let spent = |server: &mut Server| -> f64 {
        let text = server.info("used_cpu_user").unwrap();
        text.parse().unwrap()
    };
    let before = spent(&mut server);
    send(&mut s, &asked(100), line.as_bytes());
    assert_eq!(s.wire.recv(), int(0));
    let one = spent(&mut server) - before;
    let mut others: Vec<TagSpace> = (0..16).map(|_| TagSpace::of(&server)).collect();
    for (n, other) in others.iter_mut().enumerate() {
        send(other, &asked(n), line.as_bytes());
    }
    until("all of them wait", || {
        server.info_number("tags_batches_waiting") == 16
    });
    for other in others {
        other.wire.hang_up();
    }
    let before = spent(&mut server);
    until_nothing_waits(&server);
    let all = spent(&mut server) - before;
    // There are at most five threads.
    assert!(all < 9.0 * one, "{all} s for 16, {one} s for one");
}
