//! Clusters: with unusual ids, all keys stay in the slot of the prefix. Waiting clients wake even
//! if their slot moves away.

use redis_tests::{Cluster, Frontier, LEASE, Lease, T0, blocked, int, ok, simulated};

const F: &str = "{f}:";

#[test]
fn odd_ids_stay_in_the_slot_of_the_prefix() {
    let cluster = Cluster::with(1, simulated());
    let mut f = Frontier::at(&cluster.nodes()[0], T0);
    for id in ["{other}", "}{x}", "a{b}c"] {
        f.ok(format!("ADDURI {id} {id} 0 0 http://{id}/"));
        f.ok(format!("ADD {id} SEQ {id} 1 {id}2 0"));
        f.ok(format!("GROUP {id} {id}"));
        let lease = f.try_take().expect("a group");
        f.release(&lease, "DELAY 60000");
    }
    for key in ok!(f.wire, "KEYS", "*").texts() {
        assert_eq!(cluster.slot(&key), cluster.slot(F), "{key}");
    }
    f.assert_conserved();
}

#[test]
fn waiters_wake_in_a_cluster() {
    let cluster = Cluster::start(1);
    let node = &cluster.nodes()[0];
    let mut f = Frontier::real(node);
    let mut waiter = blocked(node, F, "NEXT BLOCK 0");
    let due = f.time() + 100;
    f.add("crawl", "host", due);
    let lease = Lease::only(&waiter.wire.recv());
    assert!(lease.deadline - LEASE >= due);
}

#[test]
fn waiter_does_not_hang_when_its_slot_moves_away() {
    let cluster = Cluster::start(2);
    let a = cluster.owner(F);
    let b = cluster.nodes().iter().find(|node| node.port() != a.port());
    let mut fa = Frontier::real(a);
    fa.ok("ADD crawl host 0 host 0");
    fa.take("host");
    let mut waiter = blocked(a, F, "NEXT BLOCK 2000");
    cluster.move_slot(F, b.expect("another node"));
    // The reply is either a redirect to the other node, or nil at the end of the wait.
    let reply = waiter.wire.recv();
    assert!(reply.is_nil() || reply.is_error(), "{reply:?}");
    assert_eq!(ok!(fa.wire, "DBSIZE"), int(0));
}
