//! Tests that jobs stop cleanly at `maxmemory`. (`matrix::memory` tests which commands are
//! refused.)

use redis_tests::{DedupeIndex, Options, assert_contains, assert_error, assert_replicated, until};

const P: &str = "p:";

#[test]
fn commit_that_reaches_maxmemory_stops_cleanly_and_finishes_later() {
    let options = Options::new().aof_unsynced(false);
    let (server, replica, mut c) = DedupeIndex::replicated(options, P);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    c.add("a", 0..60_000);
    let mut committer = c.sent("COMMIT a");
    until("the commit is under way", || c.indexed() > 8_000);
    c.plain("CONFIG SET maxmemory 1");
    assert_error(&committer.recv(), "OOM", "the committer");
    assert!(c.indexed() < 60_000);
    assert_eq!(c.owners([0, 59_999]), ["-", "-"]);
    c.plain("CONFIG SET maxmemory 0");
    assert_eq!(c.commit("a"), (60_000, 0));
    assert_eq!(c.owners([0, 59_999]), ["a", "a"]);
    assert_eq!(c.counts("allcounts")["totalUrls"], 60_000);
    c.assert_consistent();
    assert_replicated(&server, &replica);
}

#[test]
fn evicting_policy_is_reported_in_info_and_in_the_log() {
    let (server, mut c) = DedupeIndex::start(P);
    assert_eq!(server.info("evicting_policy").as_deref(), Some("0"));
    c.plain("CONFIG SET maxmemory 1gb");
    c.plain("CONFIG SET maxmemory-policy allkeys-lru");
    assert_eq!(server.info("evicting_policy").as_deref(), Some("1"));
    let evicting = ["--maxmemory", "1gb", "--maxmemory-policy", "allkeys-lru"];
    let server = Options::new().args(&evicting).start();
    assert_contains(server.log(), "maxmemory-policy may evict");
}
