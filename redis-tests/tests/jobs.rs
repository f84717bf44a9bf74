//! Long work goes in slices: others are served meanwhile, and nothing that happens to the server
//! or to the client in between does harm.

use std::time::{Duration, Instant};

use redis_tests::{
    add, assert_consistent, commit, int, ok, owners, until, Crawl, Options, Server, Wire,
};

const P: &str = "p:";

fn big(prefix: &'static str, id: &'static str, hashes: u64) -> Crawl<'static> {
    Crawl {
        prefix,
        id,
        first: 0,
        hashes,
    }
}

/// Starts a commit and waits until it is under way.
fn started(server: &Server, prefix: &str, crawl: &str) -> Wire {
    let (mut c, mut committer) = (server.wire(), server.wire());
    committer.send(&["DEDUPE.COMMIT", prefix, crawl]);
    until("the commit is under way", || {
        ok!(c, "HEXISTS", format!("{prefix}committing"), crawl) == int(1)
    });
    committer
}

#[test]
fn others_are_served_while_jobs_run() {
    let server = Server::start();
    let mut c = server.wire();
    big(P, "a", 300_000).add(&mut c);
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
        big(prefix, "a", 60_000).add(&mut c);
    }
    let (mut p, mut q) = (server.wire(), server.wire());
    p.send(&["DEDUPE.COMMIT", "p:", "a"]);
    q.send(&["DEDUPE.COMMIT", "q:", "a"]);
    assert_eq!(p.recv().ints(), [60_000, 0]);
    assert_eq!(q.recv().ints(), [60_000, 0]);
    for prefix in ["p:", "q:"] {
        assert_eq!(owners(&mut c, prefix, [0, 59_999]), ["a", "a"]);
        assert_consistent(&mut c, prefix);
    }
}

#[test]
fn small_commit_beside_a_large_one_is_not_lost() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    big(P, "large", 100_000).add(&mut c);
    add(&mut c, P, "small", 99_995..100_005);
    let mut large = started(&server, P, "large");
    let small = commit(&mut c, P, "small");
    let large = large.recv().ints();
    let serial = [((5, 5), vec![100_000, 0]), ((10, 0), vec![99_995, 5])];
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
    big(P, "a", 100_000).add(&mut c);
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
    big(P, "a", 150_000).add(&mut c);
    let mut committer = started(&server, P, "a");
    ok!(c, "BGREWRITEAOF");
    assert_eq!(committer.recv().ints(), [150_000, 0]);
    until("the append-only file is rewritten", || {
        server.info_number("aof_rewrite_in_progress") == 0
            && server.info_number("aof_rewrite_scheduled") == 0
    });
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
    big(P, "a", 150_000).add(&mut c);
    let _committer = started(&server, P, "a");
    server.shutdown();
    server.restart();
    let mut c = server.wire();
    assert_eq!(owners(&mut c, P, [0, 149_999]), ["-", "-"]);
    assert_eq!(commit(&mut c, P, "a"), (150_000, 0));
    assert_consistent(&mut c, P);
}

#[test]
fn reload_during_a_job_harms_nothing() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    big(P, "a", 100_000).add(&mut c);
    let mut committer = started(&server, P, "a");
    ok!(c, "DEBUG", "RELOAD");
    let reply = committer.recv();
    until("nothing runs any more", || {
        server.info_number("jobs_running") == 0
    });
    let again = commit(&mut c, P, "a");
    assert!(
        reply.is_error() && again == (100_000, 0) || again == (0, 0),
        "{reply:?} {again:?}"
    );
    assert_eq!(owners(&mut c, P, [0, 99_999]), ["a", "a"]);
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalUrls").text(), "100000");
    assert_consistent(&mut c, P);
}

#[test]
fn lookups_and_adds_of_other_crawls_go_on_during_a_removal() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    big(P, "a", 100_000).add(&mut c);
    commit(&mut c, P, "a");
    add(&mut c, P, "keep", 90_000..90_010);
    commit(&mut c, P, "keep");
    let mut remover = server.wire();
    remover.send(&["DEDUPE.REMOVE", P, "a"]);
    until("the removal is under way", || {
        ok!(c, "EXISTS", "p:removing") == int(1)
    });
    let mut added = 0;
    while !remover.has_reply() {
        add(&mut c, P, "new", [500_000 + added]);
        let seen = owners(&mut c, P, [90_005]);
        assert!(seen == ["a"] || seen == ["keep"], "{seen:?}");
        added += 1;
    }
    assert_eq!(remover.recv().ints(), [1, 99_990, 10]);
    assert_eq!(commit(&mut c, P, "new"), (added as i64, 0));
    assert_consistent(&mut c, P);
}
