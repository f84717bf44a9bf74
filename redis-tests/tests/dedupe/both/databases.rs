//! Indexes live in their database; FLUSHDB, FLUSHALL and SWAPDB take what is in memory along.

use redis_tests::{
    Crawl, Reply, Server, add, assert_consistent, begin_job, commit, indexed, int, ok, owners,
    sha256_of, until,
};

const P: &str = "p:";

#[test]
fn jobs_work_in_the_database_of_their_client() {
    let server = Server::start();
    let mut three = server.wire();
    ok!(three, "SELECT", 3);
    Crawl::of(P, "a", 0..20_000).add(&mut three);
    assert_eq!(commit(&mut three, P, "a"), (20_000, 0));
    assert_eq!(indexed(&mut three, P), 20_000);
    assert_eq!(ok!(three, "DEDUPE.REMOVE", P, "a").ints(), [1, 20_000, 0]);
    assert_eq!(server.snapshot().names(), [""; 0]);
    assert_consistent(&mut three, P);
}

#[test]
fn flush_in_the_middle_of_a_job_ends_it() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(c, "FLUSHALL");
    let reply = committer.recv();
    assert!(
        reply.is_error(),
        "the crawl is gone, but the committer got {reply:?}"
    );
    server.until_idle();
    assert_eq!(server.snapshot().names(), [""; 0]);
    add(&mut c, P, "a", 0..10);
    assert_eq!(commit(&mut c, P, "a"), (10, 0));
}

#[test]
fn swapdb_in_the_middle_of_a_job_harms_nothing() {
    let server = Server::start();
    let (mut zero, mut one) = (server.wire(), server.wire());
    ok!(one, "SELECT", 1);
    ok!(zero, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut zero);
    add(&mut one, P, "a", 500_000..500_010);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(zero, "SWAPDB", 0, 1);
    let reply = committer.recv();
    server.until_idle();
    // The other database's crawl of the same name is untouched.
    assert_eq!(ok!(zero, "SISMEMBER", "p:uncommittedcrawls", "a"), int(1));
    assert_eq!(owners(&mut zero, P, [500_000]), ["-"]);
    if let Reply::Error(_) = reply {
        assert_eq!(commit(&mut one, P, "a"), (40_000, 0));
    }
    assert_eq!(owners(&mut one, P, [0, 39_999]), ["a", "a"]);
    assert_consistent(&mut zero, P);
    assert_consistent(&mut one, P);
}

#[test]
fn deleting_keys_in_the_middle_of_a_job_does_not_hang_it() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for key in [
        "p:h:a",
        "p:committing",
        "p:allhashes",
        "p:uncommittedcrawls",
    ] {
        ok!(c, "FLUSHALL");
        Crawl::of(P, "a", 0..24_000).add(&mut c);
        let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
        ok!(c, "DEL", key);
        committer.recv();
        server.until_idle();
        ok!(c, "DEDUPE.REPAIR", P);
        assert_consistent(&mut c, P);
    }
}

#[test]
fn flush_and_swap_of_other_databases_leave_jobs_and_waits_alone() {
    let server = Server::start();
    let (mut c, mut five) = (server.wire(), server.wire());
    ok!(five, "SELECT", 5);
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    add(&mut five, P, "a", 0..3);
    let (hash, mut waiter) = (sha256_of(900_000), server.wire());
    ok!(c, "DEDUPE.CLAIM", P, "a", hash, "PX", 600_000);
    waiter.send(&[
        "DEDUPE.CLAIM",
        P,
        "b",
        &hash,
        "PX",
        "600000",
        "BLOCK",
        "60000",
    ]);
    until("the claim is blocked", || {
        server.info_number("claims_pending") == 1
    });
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(five, "FLUSHDB");
    ok!(five, "SWAPDB", 5, 6);
    assert_eq!(committer.recv().ints(), [40_000, 0]);
    assert_consistent(&mut c, P);
    assert!(!waiter.has_reply());
    ok!(c, "DEL", "p:claims");
    assert_eq!(waiter.recv().items()[0].text(), "CLAIMED");
}
