//! Crawls whose hashes others see while they run.

use redis_tests::{
    DedupeIndex, Options, Server, Wire, array, bulk, int, ok, owners, plain_hash, plainly, set_key,
    sha256_of, until, words_of,
};

const P: &str = "p:";

fn begin(c: &mut Wire, crawl: &str) {
    assert_eq!(ok!(c, "DEDUPE.BEGIN", P, crawl, "VISIBLE"), int(1));
}

#[test]
fn hashes_of_a_visible_crawl_are_seen_by_others_at_once() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("old", [1]);
    c.commit("old");
    begin(&mut c, "run");
    c.add("hidden", [1, 2, 3]);
    c.add("run", [1, 2]);
    assert_eq!(c.owners(1..4), ["old", "run", "-"]);
    c.ok("WACZOPEN run run.wacz");
    let hash = sha256_of(2);
    let found = c.ok(format!("LOOKUP WITHWACZ '{hash}'"));
    assert_eq!(found.items()[0].items()[5], bulk("run.wacz"));
    // What a crawl has itself comes first.
    let own = c.ok(format!("LOOKUP CRAWL hidden '{hash}'"));
    assert_eq!(own.items()[0].items()[0], bulk("hidden"));
    let claim = c.ok(format!("CLAIM third '{hash}' PX 1000"));
    assert_eq!(claim.items()[0], bulk("DUPE"));
    assert_eq!(c.ok(format!("REVISIT third '{hash}' 5")), int(1));
    assert_eq!(set_key(&mut c, "p:third:reqCrawls"), ["run"]);
    let required = c.ok("REQUIREDBY run");
    assert_eq!(required, array([array([bulk("third"), int(1)])]));
    assert_eq!(
        plain_hash(&mut c, P, "allhashes").len(),
        1,
        "not in the merged index"
    );
    c.assert_consistent();
}

#[test]
fn commit_and_cancel_of_visible_crawls_are_those_of_any_other() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for crawl in ["a", "b"] {
        begin(&mut c, crawl);
    }
    c.add("b", [1, 2, 3]);
    c.add("a", [1, 2]);
    assert_eq!(c.owners(1..4), ["a", "a", "b"]);
    // Each hash of the one is the other's at once, and comes back with it.
    assert_eq!(c.ok("CANCEL a"), int(2));
    assert_eq!(c.owners(1..4), ["b", "b", "b"]);
    begin(&mut c, "a");
    c.add("a", [1]);
    assert_eq!(c.commit("a"), (1, 0));
    assert_eq!(c.owners(1..4), ["a", "b", "b"]);
    assert_eq!(c.commit("b"), (2, 1));
    assert_eq!(c.ok("REMOVE a").ints(), [1, 0, 1]);
    assert_eq!(c.owners(1..4), ["b", "b", "b"]);
    let marks = plain_hash(&mut c, P, "crawlspace");
    assert!(
        !marks.keys().any(|field| field.starts_with("visible ")),
        "{marks:?}"
    );
    // It goes on as any other would: nobody sees what is new.
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
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("run", [1]);
    assert_eq!(c.owners([1]), ["-"]);
    let mut waiter = server.wire();
    let hash = sha256_of(1);
    ok!(c, "DEDUPE.CLAIM", P, "x", hash, "PX", 600_000);
    let words = ["DEDUPE.CLAIM", P, "y", &hash, "PX", "1000", "BLOCK", "0"];
    waiter.send(&words);
    until("the claim is blocked", || {
        server.info_number("claims_pending") == 1
    });
    begin(&mut c, "run");
    assert_eq!(waiter.recv().items()[0], bulk("DUPE"));
    for option in [&["VISIBLE"][..], &["visible"], &[]] {
        let mut words = vec!["DEDUPE.BEGIN", P, "run"];
        words.extend(option);
        assert_eq!(c.expect_ok(&words), int(0));
    }
    assert_eq!(c.owners([1]), ["run"]);
    assert!(c.err("BEGIN run HIDDEN").starts_with("ERR "));
    assert!(c.err("BEGIN run VISIBLE VISIBLE").starts_with("ERR "));
}

#[test]
fn waiters_of_other_crawls_learn_of_a_record_of_a_visible_one() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    begin(&mut c, "run");
    let hash = sha256_of(1);
    let claim = ok!(c, "DEDUPE.CLAIM", P, "run", hash, "PX", 600_000);
    let token = claim.items()[1].text();
    let mut waiter = server.wire();
    waiter.send(&[
        "DEDUPE.CLAIM",
        P,
        "other",
        &hash,
        "PX",
        "1000",
        "BLOCK",
        "0",
    ]);
    until("the claim is blocked", || {
        server.info_number("claims_pending") == 1
    });
    let mut words: Vec<Vec<u8>> = ["DEDUPE.ADD", P, "run", "TOKEN", &token]
        .map(|word| word.as_bytes().to_vec())
        .to_vec();
    words.extend(words_of(1));
    assert_eq!(c.wire().call(&words), int(1));
    let reply = waiter.recv();
    assert_eq!(reply.items()[0], bulk("DUPE"));
    assert_eq!(reply.items()[1].items()[0], bulk("run"));
}

#[test]
fn replicas_and_restarted_servers_see_visible_crawls() {
    let mut server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = DedupeIndex::of(&server, P);
    let mut reader = replica.wire();
    server.wait_for_replica_offset(&replica);
    assert_eq!(owners(&mut reader, P, [1]), ["-"]);
    begin(&mut c, "run");
    c.add("run", [1]);
    server.wait_for_replica_offset(&replica);
    assert_eq!(owners(&mut reader, P, [1]), ["run"]);
    assert_eq!(server.digest(), replica.digest());
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.owners([1]), ["run"]);
    c.ok("CANCEL run");
    assert_eq!(c.owners([1]), ["-"]);
}

#[test]
fn plain_client_that_ends_a_visible_crawl_ends_its_visibility() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    begin(&mut c, "run");
    c.add("run", [1]);
    plainly(&mut c, P, |c| {
        ok!(c, "SREM", "p:uncommittedcrawls", "run");
    });
    assert_eq!(c.owners([1]), ["-"]);
    plainly(&mut c, P, |c| {
        ok!(c, "DEL", "p:h:run", "p:h:run:counts");
    });
    c.add("run", [2]);
    assert_eq!(c.owners([1, 2]), ["-", "-"], "another crawl of the same id");
}

#[test]
fn so_many_crawls_and_no_more_are_visible() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for n in 0..64 {
        begin(&mut c, &format!("run-{n}"));
    }
    let before = server.snapshot();
    let line = c.err("BEGIN 'one more' VISIBLE");
    assert!(line.starts_with("ERR ") && line.contains("64"), "{line}");
    server.snapshot().assert_same(&before, "one too many");
    assert_eq!(c.ok("BEGIN run-7 VISIBLE"), int(0));
    // Those that plain clients have ended do not count.
    plainly(&mut c, P, |c| {
        ok!(c, "SREM", "p:uncommittedcrawls", "run-3", "run-4");
    });
    begin(&mut c, "one more");
    c.commit("run-5");
    begin(&mut c, "another");
}
