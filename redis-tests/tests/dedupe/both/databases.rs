//! Indexes live in their database; FLUSHDB, FLUSHALL and SWAPDB take what is in memory along.

use redis_tests::{
    Crawl, Reply, Server, add, assert_consistent, commit, err, indexed, int, ok, owners, sha256_of,
    until,
};

const P: &str = "p:";

#[test]
fn databases_do_not_see_each_other() {
    let server = Server::start();
    let (mut zero, mut three) = (server.wire(), server.wire());
    ok!(three, "SELECT", 3);
    add(&mut three, P, "a", 0..5);
    assert!(err!(zero, "DEDUPE.COMMIT", P, "a").starts_with("NOCRAWL "));
    commit(&mut three, P, "a");
    assert_eq!(owners(&mut zero, P, [1]), ["-"]);
    assert_eq!(owners(&mut three, P, [1]), ["a"]);
    ok!(three, "DEDUPE.PROFILE", "q:", "browsertrix");
    assert_eq!(ok!(zero, "DEDUPE.PROFILE", "q:").text(), "document");
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn jobs_work_in_the_database_of_their_client() {
    let server = Server::start();
    let mut three = server.wire();
    ok!(three, "SELECT", 3);
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 50_000,
    }
    .add(&mut three);
    assert_eq!(commit(&mut three, P, "a"), (50_000, 0));
    assert_eq!(indexed(&mut three, P), 50_000);
    assert_eq!(ok!(three, "DEDUPE.REMOVE", P, "a").ints(), [1, 50_000, 0]);
    assert_eq!(server.snapshot().names(), [""; 0]);
    assert_consistent(&mut three, P);
}

#[test]
fn flush_forgets_everything() {
    let server = Server::start();
    let mut c = server.wire();
    for flush in ["FLUSHDB", "FLUSHALL"] {
        ok!(c, "DEDUPE.PROFILE", P, "browsertrix");
        add(&mut c, P, "a", 0..5);
        commit(&mut c, P, "a");
        add(&mut c, P, "b", 0..5);
        ok!(c, "DEDUPE.CLAIM", P, "b", sha256_of(9), "PX", 600_000);
        ok!(c, flush);
        assert_eq!(owners(&mut c, P, [1]), ["-"]);
        assert!(err!(c, "DEDUPE.COMMIT", P, "b").starts_with("NOCRAWL "));
        assert_eq!(ok!(c, "DEDUPE.PROFILE", P).text(), "document");
        let claim = ok!(c, "DEDUPE.CLAIM", P, "b", sha256_of(9), "PX", 600_000);
        assert_eq!(claim.items()[0].text(), "CLAIMED");
        assert_eq!(add(&mut c, P, "a", 0..5), 5);
        assert_eq!(commit(&mut c, P, "a"), (5, 0));
        ok!(c, "FLUSHALL");
    }
}

#[test]
fn swapdb_swaps_the_indexes() {
    let server = Server::start();
    let (mut zero, mut one) = (server.wire(), server.wire());
    ok!(one, "SELECT", 1);
    ok!(one, "DEDUPE.PROFILE", P, "browsertrix");
    for (c, crawl) in [(&mut zero, "zero"), (&mut one, "one")] {
        add(c, P, crawl, 0..5);
        commit(c, P, crawl);
        // What look-ups keep in memory is filled.
        assert_eq!(owners(c, P, [1]), [crawl]);
    }
    ok!(zero, "SWAPDB", 0, 1);
    assert_eq!(owners(&mut zero, P, [1]), ["one"]);
    assert_eq!(owners(&mut one, P, [1]), ["zero"]);
    assert_eq!(ok!(zero, "DEDUPE.PROFILE", P).text(), "browsertrix");
    assert_eq!(ok!(one, "DEDUPE.PROFILE", P).text(), "document");
    add(&mut zero, P, "one", 0..9);
    assert_eq!(commit(&mut zero, P, "one"), (4, 0));
    assert_consistent(&mut zero, P);
    assert_consistent(&mut one, P);
}

#[test]
fn flush_in_the_middle_of_a_job_ends_it() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 100_000,
    }
    .add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || {
        ok!(c, "EXISTS", "p:committing") == int(1)
    });
    ok!(c, "FLUSHALL");
    let reply = committer.recv();
    assert!(
        reply.is_error(),
        "the crawl is gone, but the committer got {reply:?}"
    );
    until("nothing runs any more", || {
        server.info_number("jobs_running") == 0
    });
    assert_eq!(server.snapshot().names(), [""; 0]);
    add(&mut c, P, "a", 0..10);
    assert_eq!(commit(&mut c, P, "a"), (10, 0));
}

#[test]
fn swapdb_in_the_middle_of_a_job_harms_nothing() {
    let server = Server::start();
    let (mut zero, mut one, mut committer) = (server.wire(), server.wire(), server.wire());
    ok!(one, "SELECT", 1);
    ok!(zero, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 100_000,
    }
    .add(&mut zero);
    add(&mut one, P, "a", 500_000..500_010);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || {
        ok!(zero, "EXISTS", "p:committing") == int(1)
    });
    ok!(zero, "SWAPDB", 0, 1);
    let reply = committer.recv();
    until("nothing runs any more", || {
        server.info_number("jobs_running") == 0
    });
    // The other database's crawl of the same name is untouched.
    assert_eq!(ok!(zero, "SISMEMBER", "p:uncommittedcrawls", "a"), int(1));
    assert_eq!(owners(&mut zero, P, [500_000]), ["-"]);
    if let Reply::Error(_) = reply {
        assert_eq!(commit(&mut one, P, "a"), (100_000, 0));
    }
    assert_eq!(owners(&mut one, P, [0, 99_999]), ["a", "a"]);
    assert_consistent(&mut zero, P);
    assert_consistent(&mut one, P);
}

#[test]
fn deleting_keys_in_the_middle_of_a_job_does_not_hang_it() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for key in [
        "p:h:a",
        "p:committing",
        "p:allhashes",
        "p:uncommittedcrawls",
    ] {
        ok!(c, "FLUSHALL");
        Crawl {
            prefix: P,
            id: "a",
            first: 0,
            hashes: 60_000,
        }
        .add(&mut c);
        committer.send(&["DEDUPE.COMMIT", P, "a"]);
        until("the commit is under way", || {
            ok!(c, "EXISTS", "p:committing") == int(1)
        });
        ok!(c, "DEL", key);
        committer.recv();
        until("nothing runs any more", || {
            server.info_number("jobs_running") == 0
        });
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
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 100_000,
    }
    .add(&mut c);
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
    let mut committer = server.wire();
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || {
        ok!(c, "EXISTS", "p:committing") == int(1)
    });
    ok!(five, "FLUSHDB");
    ok!(five, "SWAPDB", 5, 6);
    assert_eq!(committer.recv().ints(), [100_000, 0]);
    assert_consistent(&mut c, P);
    assert!(!waiter.has_reply());
    ok!(c, "DEL", "p:claims");
    assert_eq!(waiter.recv().items()[0].text(), "CLAIMED");
}
