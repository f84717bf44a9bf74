//! Running crawls whose hashes other crawls can see.

use redis_tests::{DedupeIndex, Options, array, bulk, int};

const P: &str = "p:";

fn begin(c: &mut DedupeIndex, crawl: &str) {
    assert_eq!(c.ok(format!("BEGIN '{crawl}' VISIBLE")), int(1));
}

#[test]
fn hashes_of_a_visible_crawl_are_seen_by_others_at_once() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("old", [1]);
    begin(&mut c, "run");
    c.add("hidden", [1, 2, 3]);
    c.add("run", [1, 2]);
    assert_eq!(c.owners(1..4), ["old", "run", "-"]);
    c.ok("WACZOPEN run run.wacz");
    let found = c.ok("LOOKUP WITHWACZ #2");
    assert_eq!(found.items()[0].items()[5], bulk("run.wacz"));
    // The crawl's own record comes first.
    let own = c.ok("LOOKUP CRAWL hidden #2");
    assert_eq!(own.items()[0].items()[0], bulk("hidden"));
    let claim = c.ok("CLAIM third #2 PX 1000");
    assert_eq!(claim.items()[0], bulk("DUPE"));
    assert_eq!(c.ok("REVISIT third #2 5"), int(1));
    assert_eq!(c.set("third:reqCrawls"), ["run"]);
    let required = c.ok("REQUIREDBY run");
    assert_eq!(required, array([array([bulk("third"), int(1)])]));
    let merged = c.plain_hash("allhashes");
    assert_eq!(merged.len(), 1, "not in the merged index");
    c.assert_consistent();
}

#[test]
fn visible_crawls_are_committed_and_canceled_like_any_other() {
    let (_server, mut c) = DedupeIndex::start(P);
    for crawl in ["a", "b"] {
        begin(&mut c, crawl);
    }
    c.add("b", [1, 2, 3]);
    c.add("a", [1, 2]);
    assert_eq!(c.owners(1..4), ["a", "a", "b"]);
    // Each crawl immediately sees the hashes of the other, and a cancel makes them invisible again.
    assert_eq!(c.ok("CANCEL a"), int(2));
    assert_eq!(c.owners(1..4), ["b", "b", "b"]);
    begin(&mut c, "a");
    assert_eq!(c.committed("a", [1]), (1, 0));
    assert_eq!(c.owners(1..4), ["a", "b", "b"]);
    assert_eq!(c.commit("b"), (2, 1));
    assert_eq!(c.ok("REMOVE a").ints(), [1, 0, 1]);
    assert_eq!(c.owners(1..4), ["b", "b", "b"]);
    let marks = c.plain_hash("crawlspace");
    let visible = marks.keys().any(|field| field.starts_with("visible "));
    assert!(!visible, "{marks:?}");
    // The crawl continues like any other crawl: its new hashes are invisible.
    c.add("b", [4]);
    assert_eq!(c.owners(3..5), ["b", "-"]);
    begin(&mut c, "b");
    assert_eq!(c.owners(3..5), ["b", "b"]);
    assert_eq!(c.ok("CANCEL b"), int(1));
    assert_eq!(c.owners(3..5), ["b", "-"]);
    c.assert_consistent();
}

#[test]
fn crawl_that_is_under_way_becomes_visible_and_stays_so() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("run", [1]);
    assert_eq!(c.owners([1]), ["-"]);
    c.ok("CLAIM x #1 PX 600000");
    let mut waiter = c.blocked("CLAIM y #1 PX 1000 BLOCK 0");
    begin(&mut c, "run");
    assert_eq!(waiter.recv().items()[0], bulk("DUPE"));
    for line in ["BEGIN run VISIBLE", "BEGIN run visible", "BEGIN run"] {
        assert_eq!(c.ok(line), int(0));
    }
    assert_eq!(c.owners([1]), ["run"]);
    c.refused("BEGIN run HIDDEN", "ERR");
    c.refused("BEGIN run VISIBLE VISIBLE", "ERR");
}

#[test]
fn waiters_of_other_crawls_learn_of_a_record_of_a_visible_one() {
    let (_server, mut c) = DedupeIndex::start(P);
    begin(&mut c, "run");
    let claim = c.ok("CLAIM run #1 PX 600000");
    let token = claim.items()[1].text();
    let mut waiter = c.blocked("CLAIM other #1 PX 1000 BLOCK 0");
    assert_eq!(c.ok(format!("ADD run TOKEN {token} @1")), int(1));
    let reply = waiter.recv();
    assert_eq!(reply.items()[0], bulk("DUPE"));
    assert_eq!(reply.items()[1].items()[0], bulk("run"));
}

#[test]
fn replicas_and_restarted_servers_see_visible_crawls() {
    let (mut server, replica, mut c) =
        DedupeIndex::replicated(Options::new().aof_unsynced(false), P);
    let mut reader = DedupeIndex::of(&replica, P);
    server.wait_for_replica_offset(&replica);
    assert_eq!(reader.owners([1]), ["-"]);
    begin(&mut c, "run");
    c.add("run", [1]);
    server.wait_for_replica_offset(&replica);
    assert_eq!(reader.owners([1]), ["run"]);
    assert_eq!(server.digest(), replica.digest());
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.owners([1]), ["run"]);
    c.ok("CANCEL run");
    assert_eq!(c.owners([1]), ["-"]);
}

#[test]
fn plain_client_that_ends_a_visible_crawl_ends_its_visibility() {
    let (_server, mut c) = DedupeIndex::start(P);
    begin(&mut c, "run");
    c.add("run", [1]);
    c.plainly(|c| c.plain("SREM p:uncommittedcrawls run"));
    assert_eq!(c.owners([1]), ["-"]);
    c.plainly(|c| c.plain("DEL p:h:run p:h:run:counts"));
    c.add("run", [2]);
    assert_eq!(
        c.owners([1, 2]),
        ["-", "-"],
        "the new crawl with this id is not visible"
    );
}

#[test]
fn number_of_visible_crawls_is_limited() {
    let (server, mut c) = DedupeIndex::start(P);
    for n in 0..64 {
        begin(&mut c, &format!("run-{n}"));
    }
    let before = server.snapshot();
    c.refused("BEGIN 'one more' VISIBLE", "ERR 64");
    server.snapshot().assert_same(&before, "one too many");
    assert_eq!(c.ok("BEGIN run-7 VISIBLE"), int(0));
    // Crawls that plain clients ended are not counted.
    c.plainly(|c| c.plain("SREM p:uncommittedcrawls run-3 run-4"));
    begin(&mut c, "one more");
    c.commit("run-5");
    begin(&mut c, "another");
}
