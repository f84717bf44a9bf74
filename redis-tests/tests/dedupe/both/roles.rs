//! Replicas read and do not write; a change of role ends jobs and waits with an error.

use redis_tests::{
    Crawl, Options, Server, Wire, add, assert_consistent, begin_job, commit, indexed, ok, owners,
    sha256_of, until,
};

const P: &str = "p:";

fn ends_with_an_error(who: &str, wire: &mut Wire) {
    let reply = wire.recv();
    assert!(reply.is_error(), "{who} got {reply:?}");
}

#[test]
fn becoming_a_replica_ends_jobs_and_waits() {
    let server = Server::start();
    let other = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add(&mut c, P, "base", 0..100);
    commit(&mut c, P, "base");
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    ok!(
        c,
        "DEDUPE.CLAIM",
        P,
        "x",
        sha256_of(5_000_000),
        "PX",
        600_000
    );
    let (mut committer, mut waiter) = (server.wire(), server.wire());
    let hash = sha256_of(5_000_000);
    waiter.send(&[
        "DEDUPE.CLAIM",
        P,
        "y",
        &hash,
        "PX",
        "1000",
        "BLOCK",
        "60000",
    ]);
    until("the claim is blocked", || {
        server.info_number("blocked_clients") == 1
    });
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || indexed(&mut c, P) > 4_000);
    ok!(c, "REPLICAOF", "127.0.0.1", other.port());
    ends_with_an_error("the committer", &mut committer);
    ends_with_an_error("the waiter", &mut waiter);
    server.until_idle();
    assert_eq!(server.info_number("blocked_clients"), 0);
    other.wait_for_replica_offset(&server);
    assert_eq!(server.digest(), other.digest());
}

#[test]
fn new_master_finishes_the_job_of_the_old_one() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add(&mut c, P, "base", 0..100);
    commit(&mut c, P, "base");
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    let mut r = replica.wire();
    // The master goes on in short moments until a part of it is there, and not while the replica leaves.
    loop {
        ok!(c, "CLIENT", "PAUSE", 60_000, "WRITE");
        if indexed(&mut c, P) > 4_000 {
            break;
        }
        ok!(c, "CLIENT", "UNPAUSE");
    }
    server.wait_for_replica_offset(&replica);
    assert!((4_001..39_000).contains(&indexed(&mut r, P)));
    ok!(r, "REPLICAOF", "NO", "ONE");
    ok!(c, "CLIENT", "UNPAUSE");
    assert_eq!(
        owners(&mut r, P, [0, 99, 200, 39_999]),
        ["base", "base", "-", "-"]
    );
    assert_eq!(commit(&mut r, P, "a"), (39_900, 100));
    assert_eq!(committer.recv().ints(), [39_900, 100]);
    assert_consistent(&mut r, P);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn role_change_during_a_removal_ends_it() {
    let server = Server::start();
    let other = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..40_000).add(&mut c);
    commit(&mut c, P, "a");
    let mut remover = begin_job(&server, "DEDUPE.REMOVE", P, "a");
    ok!(c, "REPLICAOF", "127.0.0.1", other.port());
    ends_with_an_error("the remover", &mut remover);
    server.until_idle();
    ok!(c, "REPLICAOF", "NO", "ONE");
    add(&mut c, "q:", "a", 0..3);
    assert_eq!(commit(&mut c, "q:", "a"), (3, 0));
}

#[test]
fn failover_pause_ends_or_delays_a_job_but_loses_nothing() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..24_000).add(&mut c);
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    ok!(c, "CLIENT", "PAUSE", 300, "WRITE");
    // Writes stand still meanwhile, those of the job too.
    let offset = server.info("master_repl_offset");
    let length = indexed(&mut c, P);
    assert!(committer.is_silent_for(std::time::Duration::from_millis(100)));
    assert_eq!(indexed(&mut c, P), length);
    assert_eq!(server.info("master_repl_offset"), offset);
    ok!(c, "CLIENT", "UNPAUSE");
    assert_eq!(committer.recv().ints(), [24_000, 0]);
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}
