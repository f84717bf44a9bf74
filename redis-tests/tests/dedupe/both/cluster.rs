//! A cluster: odd ids stay in the slot of the prefix, and a slot may leave in the middle of a job.

use redis_tests::{Cluster, Crawl, add, assert_consistent, begin_job, int, ok, owners, until};

const P: &str = "{coll-42}:";

#[test]
fn odd_ids_stay_in_the_slot_of_the_prefix() {
    let cluster = Cluster::start(1);
    let mut c = cluster.nodes()[0].wire();
    for id in ["{other}", "}{x}", "a{b}c"] {
        add(&mut c, P, id, [1]);
        ok!(c, "DEDUPE.WACZOPEN", P, id, "{w}.wacz");
        ok!(c, "DEDUPE.COMMIT", P, id);
    }
    for key in ok!(c, "KEYS", "*").texts() {
        assert_eq!(cluster.slot(&key), cluster.slot(P), "{key}");
    }
}

#[test]
fn job_whose_slot_leaves_harms_nothing() {
    let cluster = Cluster::start(2);
    let a = cluster.owner(P);
    let b = cluster.nodes().iter().find(|node| node.port() != a.port());
    let b = b.expect("another node");
    let (mut ca, mut cb) = (a.wire(), b.wire());
    ok!(ca, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl::of(P, "a", 0..24_000).add(&mut ca);
    let mut committer = begin_job(a, "DEDUPE.COMMIT", P, "a");
    cluster.begin_move(P, b);
    // Keys that the running job drops meanwhile are fine.
    cluster.move_keys(P, b);
    committer.recv();
    a.until_idle();
    assert_eq!(ok!(ca, "DBSIZE"), int(0));
    cluster.finish_move(P, b);
    until("the target serves the slot", || {
        !cb.call(&["DEDUPE.STATS", P]).is_error()
    });
    ok!(cb, "DEDUPE.COMMIT", P, "a");
    assert_eq!(owners(&mut cb, P, [0, 23_999]), ["a", "a"]);
    let total = ok!(cb, "HGET", format!("{P}allcounts"), "totalUrls");
    assert_eq!(total.text(), "24000");
    assert_consistent(&mut cb, P);
}
