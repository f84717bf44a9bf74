//! Replicas of a server that packs and unpacks miss no change and are equal at the end, regardless
//! of the time at which they connected.

use std::sync::atomic::{AtomicBool, Ordering};

use redis_tests::{DedupeIndex, Options, Rng, Server, assert_replicated, ok, until};

const P: &str = "p:";
const ALL: u64 = 18_000;

fn build(c: &mut DedupeIndex) {
    for (id, first) in [("a", 0), ("b", 6_000)] {
        c.committed(id, first..first + 12_000);
    }
    c.plain("CONFIG SET crawlspace.slice-us 50");
}

fn sees_all(c: &mut DedupeIndex, when: &str) {
    let seen = c.owners((0..ALL).step_by(199));
    assert!(seen.iter().all(|owner| owner != "-"), "{when}: {seen:?}");
    assert_eq!(c.indexed(), ALL as i64, "{when}");
}

/// Fails unless the keys are equal and the packed values are equal, regardless of the changes that
/// created them.
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
fn replicas_miss_nothing_while_the_storage_changes() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let replica = plain_replica(&server);
    build(&mut c);
    server.wait_for_replica_offset(&replica);
    for name in ["PACK", "UNPACK"] {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let (mut r, mut during) = (DedupeIndex::of(&replica, P), false);
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    sees_all(&mut r, name);
                    during |= r.storage().ends_with("ing");
                    looks += 1;
                }
                (looks, during)
            });
            c.change(name);
            server.wait_for_replica_offset(&replica);
            done.store(true, Ordering::Relaxed);
            let (looks, during) = watcher.join().expect("nothing is missed");
            assert!(looks > 3 && during, "{looks} looks, {during}");
        });
        assert_equal(&server, &replica, name);
    }
}

#[test]
fn a_replica_that_joins_in_the_middle_is_equal() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let early = plain_replica(&server);
    build(&mut c);
    server.wait_for_replica_offset(&early);
    for name in ["PACK", "UNPACK"] {
        let mut changer = c.begun(name);
        let joined = plain_replica(&server);
        sees_all(&mut c, name);
        changer.recv();
        assert_equal(&server, &joined, &format!("{name}, joined in the middle"));
        assert_equal(&server, &early, &format!("{name}, there all along"));
        sees_all(&mut DedupeIndex::of(&joined, P), name);
    }
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
fn a_new_master_finishes_the_change_of_the_old_one() {
    for name in ["PACK", "UNPACK"] {
        let (mut server, mut c) = DedupeIndex::on(Options::new().plain(), P);
        let replica = plain_replica(&server);
        build(&mut c);
        let before = c.plain_view();
        if name == "UNPACK" {
            c.ok("PACK");
        }
        server.wait_for_replica_offset(&replica);
        let _changer = c.begun(name);
        let mut r = DedupeIndex::of(&replica, P);
        until("the replica is in the middle", || {
            r.storage().ends_with("ing")
        });
        server.kill9();
        r.plain("REPLICAOF NO ONE");
        sees_all(&mut r, "promoted in the middle");
        r.change(name);
        sees_all(&mut r, "finished");
        r.plain_view().assert_same(&before, name);
        r.assert_consistent();
    }
}

#[test]
fn a_change_ends_with_an_error_when_its_server_becomes_a_replica() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let other = Options::new().plain().start();
    build(&mut c);
    let mut changer = c.begun("PACK");
    ok!(c, "REPLICAOF", "127.0.0.1", other.port());
    assert!(changer.recv().is_error());
    server.until_idle();
    assert_replicated(&other, &server);
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
