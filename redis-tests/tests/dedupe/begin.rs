//! A crawl that begins without a record.

use redis_tests::{Options, Server, add, array, assert_consistent, commit, err, int, ok, set_key};

const P: &str = "p:";

#[test]
fn crawl_that_stores_nothing_can_be_committed() {
    let server = Server::start();
    let mut c = server.wire();
    assert_eq!(ok!(c, "DEDUPE.BEGIN", P, "a"), int(1));
    let before = server.snapshot();
    assert_eq!(ok!(c, "DEDUPE.BEGIN", P, "a"), int(0));
    server.snapshot().assert_same(&before, "begun again");
    assert_eq!(set_key(&mut c, "p:uncommittedcrawls"), ["a"]);
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_eq!(set_key(&mut c, "p:allcrawls"), ["a"]);
    assert_consistent(&mut c, P);
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "a").ints(), [1, 0, 0]);
    assert_consistent(&mut c, P);
    assert!(err!(c, "DEDUPE.COMMIT", P, "a").starts_with("NOCRAWL "));
}

#[test]
fn committed_crawl_that_begins_again_is_continued() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", [1]);
    commit(&mut c, P, "a");
    for begins in [1, 0] {
        assert_eq!(ok!(c, "DEDUPE.BEGIN", P, "a"), int(begins));
    }
    let state = ok!(c, "DEDUPE.STATS", P, "a").field("state");
    assert_eq!(state.text(), "continued");
    assert_eq!(commit(&mut c, P, "a"), (0, 0));
    assert_eq!(ok!(c, "DEDUPE.BEGIN", P, "a"), int(1));
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(0));
    let state = ok!(c, "DEDUPE.STATS", P, "a").field("state");
    assert_eq!(state.text(), "committed");
    assert_consistent(&mut c, P);
}

#[test]
fn begun_crawl_that_is_canceled_leaves_no_trace() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "other", [1]);
    commit(&mut c, P, "other");
    let before = server.snapshot();
    ok!(c, "DEDUPE.BEGIN", P, "a");
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "a"), int(0));
    server.snapshot().assert_same(&before, "begun and canceled");
}

#[test]
fn beginning_is_replicated() {
    let server = Options::new().start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = server.wire();
    add(&mut c, P, "b", [1]);
    commit(&mut c, P, "b");
    for crawl in ["a", "b"] {
        ok!(c, "DEDUPE.BEGIN", P, crawl, "VISIBLE");
    }
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
    ok!(c, "MULTI");
    for crawl in ["a", "c"] {
        ok!(c, "DEDUPE.BEGIN", P, crawl);
    }
    assert_eq!(ok!(c, "EXEC"), array([int(0), int(1)]));
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}
