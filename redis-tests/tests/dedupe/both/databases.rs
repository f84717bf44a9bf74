//! An index belongs to one database. `FLUSHDB`, `FLUSHALL` and `SWAPDB` must also affect its state
//! in memory.

use redis_tests::DedupeIndex;

const P: &str = "p:";

#[test]
fn jobs_work_in_the_database_of_their_client() {
    let (server, mut three) = DedupeIndex::start(P);
    three.plain("SELECT 3");
    assert_eq!(three.committed("a", 0..20_000), (20_000, 0));
    assert_eq!(three.indexed(), 20_000);
    assert_eq!(three.ok("REMOVE a").ints(), [1, 20_000, 0]);
    assert_eq!(server.snapshot().names(), [""; 0]);
    three.assert_consistent();
}

#[test]
fn flush_in_the_middle_of_a_job_ends_it() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    c.add("a", 0..40_000);
    let mut committer = c.begun("COMMIT a");
    c.plain("FLUSHALL");
    let reply = committer.recv();
    assert!(reply.is_error(), "the crawl no longer exists: {reply:?}");
    server.until_idle();
    assert_eq!(server.snapshot().names(), [""; 0]);
    assert_eq!(c.committed("a", 0..10), (10, 0));
}

#[test]
fn swapdb_in_the_middle_of_a_job_harms_nothing() {
    let (server, mut zero) = DedupeIndex::in_slices(P);
    let mut one = zero.another();
    one.plain("SELECT 1");
    zero.add("a", 0..40_000);
    one.add("a", 500_000..500_010);
    let mut committer = zero.begun("COMMIT a");
    zero.plain("SWAPDB 0 1");
    let reply = committer.recv();
    server.until_idle();
    // The crawl with the same name in the other database is unchanged.
    assert_eq!(zero.set("uncommittedcrawls"), ["a"]);
    assert_eq!(zero.owners([500_000]), ["-"]);
    if reply.is_error() {
        assert_eq!(one.commit("a"), (40_000, 0));
    }
    assert_eq!(one.owners([0, 39_999]), ["a", "a"]);
    zero.assert_consistent();
    one.assert_consistent();
}

#[test]
fn deleting_keys_in_the_middle_of_a_job_does_not_hang_it() {
    let (server, mut c) = DedupeIndex::in_slices(P);
    for key in ["h:a", "committing", "allhashes", "uncommittedcrawls"] {
        c.plain("FLUSHALL");
        c.add("a", 0..24_000);
        let mut committer = c.begun("COMMIT a");
        c.plain(format!("DEL p:{key}"));
        committer.recv();
        server.until_idle();
        c.ok("REPAIR");
        c.assert_consistent();
    }
}

#[test]
fn flush_and_swap_of_other_databases_leave_jobs_and_waits_alone() {
    let (_server, mut c) = DedupeIndex::in_slices(P);
    let mut five = c.another();
    five.plain("SELECT 5");
    c.add("a", 0..40_000);
    five.add("a", 0..3);
    c.ok("CLAIM a #900000 PX 600000");
    let mut waiter = c.blocked("CLAIM b #900000 PX 600000 BLOCK 60000");
    let mut committer = c.begun("COMMIT a");
    five.plain("FLUSHDB");
    five.plain("SWAPDB 5 6");
    assert_eq!(committer.recv().ints(), [40_000, 0]);
    c.assert_consistent();
    assert!(!waiter.has_reply());
    c.plain("DEL p:claims");
    assert_eq!(waiter.recv().items()[0].text(), "CLAIMED");
}
