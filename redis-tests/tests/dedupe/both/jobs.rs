//! Long work goes in slices: others are served meanwhile, and nothing that happens to the server
//! or to the client in between does harm.

use std::time::{Duration, Instant};

use redis_tests::{
    Crawl, DATE, Options, Reply, Server, Wire, add, array, assert_consistent, begin_job, bulk,
    commit, err, indexed, int, ok, owners, record_of, sha256_of, until,
};

const P: &str = "p:";

#[test]
fn others_are_served_while_jobs_run() {
    let server = Server::start();
    let mut c = server.wire();
    Crawl::of(P, "a", 0..120_000).add(&mut c);
    for (words, at_least) in [
        (&["DEDUPE.COMMIT", P, "a"], 50),
        (&["DEDUPE.REMOVE", P, "a"], 50),
    ] {
        let mut asker = server.wire();
        asker.send(words);
        let mut waits = Vec::new();
        while !asker.has_reply() {
            let start = Instant::now();
            ok!(c, "PING");
            waits.push(start.elapsed());
        }
        asker.recv();
        let served = waits.len();
        waits.sort();
        // Slices take at most half a millisecond; the bound leaves room for a busy machine.
        let median = waits[served / 2];
        assert!(
            median < Duration::from_millis(5),
            "{median:?} during {words:?}"
        );
        assert!(served > at_least, "only {served} PINGs during {words:?}");
    }
    assert!(server.info_number("slices") > 100);
    assert!(server.info_number("jobs_done") >= 2);
}

#[test]
fn jobs_of_two_indexes_run_at_the_same_time() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for prefix in ["p:", "q:"] {
        Crawl::of(prefix, "a", 0..24_000).add(&mut c);
    }
    let (mut p, mut q) = (server.wire(), server.wire());
    p.send(&["DEDUPE.COMMIT", "p:", "a"]);
    q.send(&["DEDUPE.COMMIT", "q:", "a"]);
    assert_eq!(p.recv().ints(), [24_000, 0]);
    assert_eq!(q.recv().ints(), [24_000, 0]);
    for prefix in ["p:", "q:"] {
        assert_eq!(owners(&mut c, prefix, [0, 23_999]), ["a", "a"]);
        assert_consistent(&mut c, prefix);
    }
}

#[test]
fn small_commit_beside_a_large_one_is_not_lost() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "large", 0..40_000).add(&mut c);
    add(&mut c, P, "small", 39_995..40_005);
    let mut large = begin_job(&server, "DEDUPE.COMMIT", P, "large");
    let small = commit(&mut c, P, "small");
    let large = large.recv().ints();
    let serial = [((5, 5), vec![40_000, 0]), ((10, 0), vec![39_995, 5])];
    assert!(
        serial.contains(&(small, large.clone())),
        "{small:?} {large:?}"
    );
    assert_consistent(&mut c, P);
}

#[test]
fn killed_connection_does_not_end_the_job() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    let mut committer = server.wire();
    let id = ok!(committer, "CLIENT", "ID").int();
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || {
        ok!(c, "EXISTS", "p:committing") == int(1)
    });
    ok!(c, "CLIENT", "KILL", "ID", id);
    until("the commit is done", || {
        ok!(c, "SISMEMBER", "p:allcrawls", "a") == int(1)
    });
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_consistent(&mut c, P);
}

#[test]
fn append_only_file_rewritten_during_a_job_is_whole() {
    let mut server = Options::new().aof_unsynced(false).start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..60_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(c, "BGREWRITEAOF");
    assert_eq!(committer.recv().ints(), [60_000, 0]);
    server.until_rewritten();
    let digest = server.digest();
    server.restart();
    assert_eq!(server.digest(), digest);
    assert_consistent(&mut server.wire(), P);
}

#[test]
fn shutdown_during_a_job_leaves_what_can_be_finished() {
    let mut server = Options::new().rdb().start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..60_000).add(&mut c);
    let _committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    server.shutdown();
    server.restart();
    let mut c = server.wire();
    assert_eq!(owners(&mut c, P, [0, 59_999]), ["-", "-"]);
    assert_eq!(commit(&mut c, P, "a"), (60_000, 0));
    assert_consistent(&mut c, P);
}

#[test]
fn reload_during_a_job_harms_nothing() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(c, "DEBUG", "RELOAD");
    let reply = committer.recv();
    server.until_idle();
    let again = commit(&mut c, P, "a");
    assert!(
        reply.is_error() && again == (40_000, 0) || again == (0, 0),
        "{reply:?} {again:?}"
    );
    assert_eq!(owners(&mut c, P, [0, 39_999]), ["a", "a"]);
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalUrls").text(), "40000");
    assert_consistent(&mut c, P);
}

#[test]
fn lookups_and_adds_of_other_crawls_go_on_during_a_removal() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    commit(&mut c, P, "a");
    add(&mut c, P, "keep", 36_000..36_010);
    commit(&mut c, P, "keep");
    let mut remover = begin_job(&server, "DEDUPE.REMOVE", P, "a");
    let mut added = 0;
    while !remover.has_reply() {
        add(&mut c, P, "new", [500_000 + added]);
        let seen = owners(&mut c, P, [36_005]);
        assert!(seen == ["a"] || seen == ["keep"], "{seen:?}");
        added += 1;
    }
    assert_eq!(remover.recv().ints(), [1, 39_990, 10]);
    assert_eq!(commit(&mut c, P, "new"), (added as i64, 0));
    assert_consistent(&mut c, P);
}

#[test]
fn jobs_stand_still_while_a_script_runs() {
    // A long script lets the server answer BUSY to others in between; nobody may write then.
    let server = Server::start();
    let (mut c, mut runner) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    ok!(c, "CONFIG", "SET", "lua-time-limit", 20);
    Crawl::of(P, "a", 0..80_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    let script = "local function hashes() \
                      local stats = redis.call('DEDUPE.STATS', KEYS[1]) \
                      for i = 1, #stats, 2 do \
                          if stats[i] == 'hashes' then return stats[i + 1] end \
                      end \
                  end \
                  local before = hashes() \
                  for i = 1, 100000000 do end \
                  return {before, hashes()}";
    runner.send(&["EVAL", script, "1", P]);
    until("others are told that a script runs", || {
        assert!(!runner.has_reply(), "the script was too short");
        c.call(&["PING"]).is_error()
    });
    let lengths = runner.recv().ints();
    assert_eq!(lengths[0], lengths[1], "the script saw a change under it");
    assert!(lengths[0] < 80_000, "the commit was over already");
    assert_eq!(committer.recv().ints(), [80_000, 0]);
    assert_consistent(&mut c, P);
}

#[test]
fn module_cannot_be_unloaded_under_a_job() {
    let server = Options::new()
        .args(&["--enable-module-command", "yes"])
        .start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    begin_job(&server, "DEDUPE.COMMIT", P, "a").hang_up();
    err!(c, "MODULE", "UNLOAD", "crawlspace");
    assert_eq!(commit(&mut c, P, "a"), (40_000, 0));
    err!(c, "MODULE", "UNLOAD", "crawlspace");
    assert_consistent(&mut c, P);
}

/// One crawl and the keys it needs, by a plain client: nothing of the index is in memory.
fn cold(c: &mut Wire, p: &str, committed: bool) {
    let key = |name: &str| format!("{p}{name}");
    let (set, hash) = if committed {
        ("allcrawls", sha256_of(1))
    } else {
        ("uncommittedcrawls", sha256_of(2))
    };
    let record = format!("0 {DATE} http://e.com/ 7");
    ok!(c, "HSET", key("h:c"), hash, record);
    ok!(c, "HSET", key("h:c:counts"), "totalUrls", 1);
    ok!(c, "RPUSH", key("c:c:wacz"), r#"{"filename":"c.wacz"}"#);
    ok!(c, "SADD", key(set), "c");
    if committed {
        ok!(c, "HSET", key("allhashes"), hash, "c");
        ok!(c, "HSET", key("allcounts"), "totalUrls", 1);
        ok!(c, "SADD", key("src:d"), "c.wacz");
    }
}

#[test]
fn jobs_that_end_in_their_first_slice_harm_nothing() {
    // They delete keys which the command itself has looked at a moment ago.
    let server = Server::start();
    let mut c = server.wire();
    for round in 0..150 {
        for (command, committed) in [
            ("DEDUPE.CANCEL", false),
            ("DEDUPE.COMMIT", false),
            ("DEDUPE.REMOVE", true),
        ] {
            let direct = |p: &str| format!("{command}-{round}-{p}:");
            let expected = |reply: Reply| match command {
                "DEDUPE.CANCEL" => assert_eq!(reply, int(1)),
                "DEDUPE.COMMIT" => assert_eq!(reply.ints(), [1, 0]),
                _ => assert_eq!(reply.ints(), [1, 1, 0]),
            };
            let p = direct("direct");
            cold(&mut c, &p, committed);
            expected(c.call(&[command, &p, "c"]));
            let p = direct("multi");
            cold(&mut c, &p, committed);
            ok!(c, "MULTI");
            ok!(c, command, p, "c");
            expected(ok!(c, "EXEC").items()[0].clone());
            let p = direct("script");
            cold(&mut c, &p, committed);
            let script = "return redis.call(ARGV[1], KEYS[1], 'c')";
            expected(ok!(c, "EVAL", script, 1, p, command));
        }
        ok!(c, "FLUSHALL");
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn work_on_thousands_of_small_crawls_goes_in_slices() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let crawls = 3000;
    for n in 0..crawls {
        let crawl = format!("crawl-{n}");
        add(&mut c, P, &crawl, [n]);
        commit(&mut c, P, &crawl);
    }
    let kept: Vec<String> = (0..crawls)
        .step_by(2)
        .map(|n| format!("crawl-{n}"))
        .collect();
    let mut retain = vec!["DEDUPE.RETAIN", P, "PURGE"];
    retain.extend(kept.iter().map(String::as_str));
    for words in [
        &["DEDUPE.CHECK", P][..],
        &["DEDUPE.REPAIR", P],
        &["DEDUPE.CRAWLS", P],
        &retain,
        &["DEDUPE.CHECK", P],
    ] {
        let before = server.info_number("slices");
        c.expect_ok(words);
        let slices = server.info_number("slices") - before;
        assert!(slices > 20, "{} went in {slices} slices", words[0]);
    }
    assert_consistent(&mut c, P);
}

#[test]
fn large_jobs_run_through_inside_a_transaction() {
    let server = Server::start();
    let mut c = server.wire();
    Crawl::of(P, "a", 0..12_000).add(&mut c);
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.COMMIT", P, "a");
    ok!(c, "DEDUPE.LOOKUP", P, sha256_of(11_999));
    let replies = ok!(c, "EXEC");
    assert_eq!(replies.items()[0], array([int(12_000), int(0)]));
    assert_eq!(replies.items()[1], array([record_of("a", 11_999)]));
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(ok!(c, "EXEC").items()[0].ints(), [1, 12_000, 0]);
    assert_consistent(&mut c, P);
}

#[test]
fn transaction_during_a_running_job_ends_in_a_serial_outcome() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..24_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.COMMIT", P, "a");
    let inside = ok!(c, "EXEC").items()[0].clone();
    let outside = committer.recv();
    let full = array([int(24_000), int(0)]);
    assert!(inside == full || outside == full, "{inside:?} {outside:?}");
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalUrls"), bulk("24000"));
    assert_eq!(owners(&mut c, P, [0, 23_999]), ["a", "a"]);
    assert_consistent(&mut c, P);
}

#[test]
fn jobs_notify_the_keys_of_their_slices() {
    let server = Server::start();
    let mut c = server.wire();
    Crawl::of(P, "a", 0..12_000).add(&mut c);
    ok!(c, "CONFIG", "SET", "notify-keyspace-events", "KA");
    let mut listener = server.wire();
    ok!(listener, "SUBSCRIBE", "__keyspace@0__:p:allhashes");
    commit(&mut c, P, "a");
    assert!(!listener.is_silent_for(std::time::Duration::from_secs(5)));
}

#[test]
fn sliced_jobs_replicate_like_small_ones() {
    let server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for (id, first) in [("a", 0), ("b", 8_000), ("c", 4_000)] {
        Crawl::of(P, id, first..first + 16_000).add(&mut c);
    }
    commit(&mut c, P, "a");
    commit(&mut c, P, "b");
    ok!(c, "DEDUPE.CANCEL", P, "c");
    ok!(c, "DEDUPE.REMOVE", P, "a");
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
    assert_eq!(indexed(&mut replica.wire(), P), 16_000);
}
