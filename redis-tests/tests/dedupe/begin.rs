//! A crawl that begins without a record.

use redis_tests::{DedupeIndex, Options, Server, array, int, ok, set_key};

const P: &str = "p:";

#[test]
fn crawl_that_stores_nothing_can_be_committed() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.ok("BEGIN a"), int(1));
    let before = server.snapshot();
    assert_eq!(c.ok("BEGIN a"), int(0));
    server.snapshot().assert_same(&before, "begun again");
    assert_eq!(set_key(&mut c, "p:uncommittedcrawls"), ["a"]);
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(set_key(&mut c, "p:allcrawls"), ["a"]);
    c.assert_consistent();
    assert_eq!(c.ok("REMOVE a").ints(), [1, 0, 0]);
    c.assert_consistent();
    assert!(c.err("COMMIT a").starts_with("NOCRAWL "));
}

#[test]
fn committed_crawl_that_begins_again_is_continued() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.commit("a");
    for begins in [1, 0] {
        assert_eq!(c.ok("BEGIN a"), int(begins));
    }
    let state = c.ok("STATS a").field("state");
    assert_eq!(state.text(), "continued");
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.ok("BEGIN a"), int(1));
    assert_eq!(c.ok("CANCEL a"), int(0));
    let state = c.ok("STATS a").field("state");
    assert_eq!(state.text(), "committed");
    c.assert_consistent();
}

#[test]
fn begun_crawl_that_is_canceled_leaves_no_trace() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("other", [1]);
    c.commit("other");
    let before = server.snapshot();
    c.ok("BEGIN a");
    assert_eq!(c.ok("CANCEL a"), int(0));
    server.snapshot().assert_same(&before, "begun and canceled");
}

#[test]
fn beginning_is_replicated() {
    let server = Options::new().start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("b", [1]);
    c.commit("b");
    for crawl in ["a", "b"] {
        c.ok(format!("BEGIN '{crawl}' VISIBLE"));
    }
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
    ok!(c, "MULTI");
    for crawl in ["a", "c"] {
        c.ok(format!("BEGIN '{crawl}'"));
    }
    assert_eq!(ok!(c, "EXEC"), array([int(0), int(1)]));
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}
