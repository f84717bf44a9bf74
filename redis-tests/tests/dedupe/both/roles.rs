//! Replicas read and do not write. A change of role ends jobs and waits with an error.

use redis_tests::{DedupeIndex, Options, Server, Wire, assert_replicated, ok, until};

const P: &str = "p:";

fn ends_with_an_error(who: &str, wire: &mut Wire) {
    let reply = wire.recv();
    assert!(reply.is_error(), "{who} got {reply:?}");
}

#[test]
fn becoming_a_replica_ends_jobs_and_waits() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    let other = Server::start();
    c.committed("base", 0..100);
    c.add("a", 0..40_000);
    c.ok("CLAIM x #5000000 PX 600000");
    let mut waiter = c.blocked("CLAIM y #5000000 PX 1000 BLOCK 60000");
    let mut committer = c.sent("COMMIT a");
    until("the commit is under way", || c.indexed() > 4_000);
    ok!(c, "REPLICAOF", "127.0.0.1", other.port());
    ends_with_an_error("the committer", &mut committer);
    ends_with_an_error("the waiter", &mut waiter);
    server.until_idle();
    assert_eq!(server.info_number("blocked_clients"), 0);
    assert_replicated(&other, &server);
}

#[test]
fn new_master_finishes_the_job_of_the_old_one() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new(), P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.committed("base", 0..100);
    c.add("a", 0..40_000);
    let mut committer = c.begun("COMMIT a");
    let mut r = DedupeIndex::of(&replica, P);
    // The master continues in short intervals until it has replicated a part of the job, and stops
    // before the replica disconnects.
    loop {
        c.plain("CLIENT PAUSE 60000 WRITE");
        if c.indexed() > 4_000 {
            break;
        }
        c.plain("CLIENT UNPAUSE");
    }
    server.wait_for_replica_offset(&replica);
    assert!((4_001..39_000).contains(&r.indexed()));
    r.plain("REPLICAOF NO ONE");
    c.plain("CLIENT UNPAUSE");
    let seen = r.owners([0, 99, 200, 39_999]);
    assert_eq!(seen, ["base", "base", "-", "-"]);
    assert_eq!(r.commit("a"), (39_900, 100));
    assert_eq!(committer.recv().ints(), [39_900, 100]);
    r.assert_consistent();
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn role_change_during_a_removal_ends_it() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    let other = Server::start();
    c.committed("a", 0..40_000);
    let mut remover = c.begun("REMOVE a");
    ok!(c, "REPLICAOF", "127.0.0.1", other.port());
    ends_with_an_error("the remover", &mut remover);
    server.until_idle();
    c.plain("REPLICAOF NO ONE");
    let mut q = DedupeIndex::of(&server, "q:");
    assert_eq!(q.committed("a", 0..3), (3, 0));
}

#[test]
fn failover_pause_ends_or_delays_a_job_but_loses_nothing() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new(), P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("a", 0..24_000);
    let mut committer = c.begun("COMMIT a");
    c.plain("CLIENT PAUSE 300 WRITE");
    // Meanwhile, all writes are paused, including the writes of the job.
    let offset = server.info("master_repl_offset");
    let length = c.indexed();
    assert!(committer.is_silent_for(std::time::Duration::from_millis(100)));
    assert_eq!(c.indexed(), length);
    assert_eq!(server.info("master_repl_offset"), offset);
    c.plain("CLIENT UNPAUSE");
    assert_eq!(committer.recv().ints(), [24_000, 0]);
    assert_replicated(&server, &replica);
}
