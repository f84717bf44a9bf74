//! Replicas of a server with a packed index are equal in the end, whenever they joined.

use redis_tests::{DedupeIndex, Options, Rng, Server};

const P: &str = "p:";

fn build(c: &mut DedupeIndex) {
    for (id, first) in [("a", 0), ("b", 6_000)] {
        c.committed(id, first..first + 12_000);
    }
    c.plain("CONFIG SET crawlspace.slice-us 50");
}

/// Fails unless the keys are equal, and the packed values are equal regardless of how they were
/// built.
fn assert_equal(server: &Server, replica: &Server, when: &str) {
    server.wait_for_replica_offset(replica);
    replica.snapshot().assert_same(&server.snapshot(), when);
    assert_eq!(server.digest(), replica.digest(), "{when}");
    let [is, should] = [replica, server].map(|s| DedupeIndex::of(s, P).plain_view());
    is.assert_same(&should, when);
}

fn plain_replica(server: &Server) -> Server {
    Options::new().plain().replica_of(server).start()
}

#[test]
fn a_replica_that_joins_during_jobs_on_a_packed_index_is_equal() {
    let (server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    let early = Options::new().packed().replica_of(&server).start();
    build(&mut c);
    c.add("more", 12_000..24_000);
    for name in ["COMMIT more", "REMOVE b"] {
        let mut waiting = c.begun(name);
        let joined = Options::new().packed().replica_of(&server).start();
        assert!(!waiting.recv().is_error());
        assert_equal(&server, &joined, &format!("{name}, joined in the middle"));
        assert_equal(&server, &early, &format!("{name}, there all along"));
        DedupeIndex::of(&joined, P).assert_consistent();
    }
}

#[test]
fn replicated_and_logged_commands_give_the_same_index() {
    let mut rng = Rng::new("replicated_and_logged_commands_give_the_same_index");
    let (mut server, mut c) = DedupeIndex::on(Options::new().packed().aof_unsynced(false), P);
    let replica = plain_replica(&server);
    for round in 0..60 {
        let crawl = format!("crawl {}", rng.below(6));
        let first = rng.below(300);
        c.add(&crawl, first..first + 1 + rng.below(80));
        match rng.below(8) {
            0..=3 => drop(c.commit(&crawl)),
            4 => drop(c.call(format!("REMOVE '{crawl}'"))),
            5 => drop(c.call(format!("CANCEL '{crawl}'"))),
            6 => drop(c.ok("PACK")),
            _ => drop(c.ok("UNPACK")),
        }
        if round % 15 == 14 {
            assert_equal(&server, &replica, &format!("round {round}"));
        }
    }
    let (digest, view) = (server.digest(), c.plain_view());
    server.restart();
    assert_eq!(server.digest(), digest, "the append-only file");
    let mut c = DedupeIndex::of(&server, P);
    c.plain_view().assert_same(&view, "the append-only file");
    c.assert_consistent();
}
