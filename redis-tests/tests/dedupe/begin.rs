//! A crawl that begins before its first record.

use redis_tests::{DedupeIndex, Options, array, assert_replicated, int};

const P: &str = "p:";

#[test]
fn crawl_without_records_can_be_committed() {
    let (server, mut c) = DedupeIndex::start(P);
    assert_eq!(c.ok("BEGIN a"), int(1));
    let before = server.snapshot();
    assert_eq!(c.ok("BEGIN a"), int(0));
    server.snapshot().assert_same(&before, "begun again");
    assert_eq!(c.set("uncommittedcrawls"), ["a"]);
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.set("allcrawls"), ["a"]);
    c.assert_consistent();
    assert_eq!(c.ok("REMOVE a").ints(), [1, 0, 0]);
    c.assert_consistent();
    c.refused("COMMIT a", "NOCRAWL");
}

#[test]
fn committed_crawl_that_begins_again_is_continued() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1]);
    assert_eq!(c.ok("BEGIN a"), int(1));
    assert_eq!(c.ok("BEGIN a"), int(0));
    c.tells("STATS a", "state continued");
    assert_eq!(c.commit("a"), (0, 0));
    assert_eq!(c.ok("BEGIN a"), int(1));
    assert_eq!(c.ok("CANCEL a"), int(0));
    c.tells("STATS a", "state committed");
    c.assert_consistent();
}

#[test]
fn begun_crawl_that_is_canceled_leaves_no_trace() {
    let (server, mut c) = DedupeIndex::start(P);
    c.committed("other", [1]);
    let before = server.snapshot();
    c.ok("BEGIN a");
    assert_eq!(c.ok("CANCEL a"), int(0));
    server.snapshot().assert_same(&before, "begun and canceled");
}

#[test]
fn beginning_is_replicated() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new(), P);
    c.committed("b", [1]);
    c.ok("BEGIN a VISIBLE");
    c.ok("BEGIN b VISIBLE");
    assert_replicated(&server, &replica);
    c.plain("MULTI");
    c.ok("BEGIN a");
    c.ok("BEGIN c");
    assert_eq!(c.plain("EXEC"), array([int(0), int(1)]));
    assert_replicated(&server, &replica);
}
