//! Clusters: with unusual ids, all keys stay in the slot of the prefix. A slot may move away during
//! a job.

use redis_tests::{Cluster, DedupeIndex, int, until};

const P: &str = "{coll-42}:";

#[test]
fn odd_ids_stay_in_the_slot_of_the_prefix() {
    let cluster = Cluster::start(1);
    let mut c = DedupeIndex::of(&cluster.nodes()[0], P);
    for id in ["{other}", "}{x}", "a{b}c"] {
        c.ok(format!("WACZOPEN {id} {{w}}.wacz"));
        c.committed(id, [1]);
    }
    for key in c.plain("KEYS *").texts() {
        assert_eq!(cluster.slot(&key), cluster.slot(P), "{key}");
    }
}

#[test]
fn job_does_no_harm_when_its_slot_moves_away() {
    let cluster = Cluster::start(2);
    let a = cluster.owner(P);
    let b = cluster.nodes().iter().find(|node| node.port() != a.port());
    let b = b.expect("another node");
    let [mut ca, mut cb] = [a, b].map(|node| DedupeIndex::of(node, P));
    ca.plain("CONFIG SET crawlspace.slice-us 50");
    ca.add("a", 0..24_000);
    let mut committer = ca.begun("COMMIT a");
    cluster.begin_move(P, b);
    // Meanwhile, the running job may delete keys.
    cluster.move_keys(P, b);
    committer.recv();
    a.until_idle();
    assert_eq!(ca.plain("DBSIZE"), int(0));
    cluster.finish_move(P, b);
    until("the target serves the slot", || {
        !cb.call("STATS").is_error()
    });
    cb.ok("COMMIT a");
    assert_eq!(cb.owners([0, 23_999]), ["a", "a"]);
    assert_eq!(cb.counts("allcounts")["totalUrls"], 24_000);
    cb.assert_consistent();
}
