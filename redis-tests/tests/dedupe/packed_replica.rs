//! Replicas of a server that packs and unpacks: they miss nothing, and are equal in the end, whenever
//! they joined.

use std::sync::atomic::{AtomicBool, Ordering};

use redis_tests::{
    Crawl, Options, Rng, Server, Wire, add, assert_consistent, begin_change, begin_job,
    change_storage, commit, indexed, ok, owners, plain_view, storage_of, until,
};

const P: &str = "p:";
const ALL: u64 = 18_000;

fn build(c: &mut Wire) {
    for (id, first) in [("a", 0), ("b", 6_000)] {
        Crawl::of(P, id, first..first + 12_000).add(c);
        commit(c, P, id);
    }
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
}

fn sees_all(c: &mut Wire, when: &str) {
    let seen = owners(c, P, (0..ALL).step_by(199));
    assert!(seen.iter().all(|owner| owner != "-"), "{when}: {seen:?}");
    assert_eq!(indexed(c, P), ALL as i64, "{when}");
}

/// Equal keys, and equal packed values whatever way they came.
fn assert_equal(server: &Server, replica: &Server, when: &str) {
    server.wait_for_replica_offset(replica);
    replica.snapshot().assert_same(&server.snapshot(), when);
    assert_eq!(server.digest(), replica.digest(), "{when}");
    let (is, should) = (
        plain_view(&mut replica.wire(), P).without_storage(),
        plain_view(&mut server.wire(), P).without_storage(),
    );
    is.assert_same(&should, when);
}

#[test]
fn replicas_miss_nothing_while_the_storage_changes() {
    let server = Options::new().plain().start();
    let replica = Options::new().plain().replica_of(&server).start();
    build(&mut server.wire());
    server.wait_for_replica_offset(&replica);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let watcher = scope.spawn(|| {
                let (mut r, mut during) = (replica.wire(), false);
                let mut looks = 0;
                while !done.load(Ordering::Relaxed) {
                    sees_all(&mut r, name);
                    during |= storage_of(&mut r, P).ends_with("ing");
                    looks += 1;
                }
                (looks, during)
            });
            change_storage(&mut server.wire(), name, P);
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
    let server = Options::new().plain().start();
    let early = Options::new().plain().replica_of(&server).start();
    let mut c = server.wire();
    build(&mut c);
    server.wait_for_replica_offset(&early);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let mut changer = begin_change(&server, name, P);
        let joined = Options::new().plain().replica_of(&server).start();
        sees_all(&mut c, name);
        changer.recv();
        assert_equal(&server, &joined, &format!("{name}, joined in the middle"));
        assert_equal(&server, &early, &format!("{name}, there all along"));
        sees_all(&mut joined.wire(), name);
    }
}

#[test]
fn a_replica_that_joins_during_jobs_on_a_packed_index_is_equal() {
    let server = Options::new().packed().start();
    let early = Options::new().packed().replica_of(&server).start();
    let mut c = server.wire();
    build(&mut c);
    let more = Crawl::of(P, "more", 12_000..24_000);
    more.add(&mut c);
    for (name, crawl) in [("DEDUPE.COMMIT", "more"), ("DEDUPE.REMOVE", "b")] {
        let mut waiting = begin_job(&server, name, P, crawl);
        let joined = Options::new().packed().replica_of(&server).start();
        assert!(!waiting.recv().is_error());
        assert_equal(&server, &joined, &format!("{name}, joined in the middle"));
        assert_equal(&server, &early, &format!("{name}, there all along"));
        assert_consistent(&mut joined.wire(), P);
    }
}

#[test]
fn a_new_master_finishes_the_change_of_the_old_one() {
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let mut server = Options::new().plain().start();
        let replica = Options::new().plain().replica_of(&server).start();
        let mut c = server.wire();
        build(&mut c);
        let before = plain_view(&mut c, P).without_storage();
        if name == "DEDUPE.UNPACK" {
            ok!(c, "DEDUPE.PACK", P);
        }
        server.wait_for_replica_offset(&replica);
        let _changer = begin_change(&server, name, P);
        let mut r = replica.wire();
        until("the replica is in the middle", || {
            storage_of(&mut r, P).ends_with("ing")
        });
        server.kill9();
        ok!(r, "REPLICAOF", "NO", "ONE");
        sees_all(&mut r, "promoted in the middle");
        change_storage(&mut r, name, P);
        sees_all(&mut r, "finished");
        let after = plain_view(&mut r, P).without_storage();
        after.assert_same(&before, name);
        assert_consistent(&mut r, P);
    }
}

#[test]
fn a_change_ends_with_an_error_when_its_server_becomes_a_replica() {
    let server = Options::new().plain().start();
    let other = Options::new().plain().start();
    let mut c = server.wire();
    build(&mut c);
    let mut changer = begin_change(&server, "DEDUPE.PACK", P);
    ok!(c, "REPLICAOF", "127.0.0.1", other.port());
    assert!(changer.recv().is_error());
    server.until_idle();
    other.wait_for_replica_offset(&server);
    assert_eq!(server.digest(), other.digest());
}

#[test]
fn what_replicas_and_files_are_told_gives_the_same_index() {
    let mut rng = Rng::new("what_replicas_and_files_are_told_gives_the_same_index");
    let mut server = Options::new().packed().aof_unsynced(false).start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut c = server.wire();
    for round in 0..60 {
        let crawl = format!("crawl {}", rng.below(6));
        let first = rng.below(300);
        add(&mut c, P, &crawl, first..first + 1 + rng.below(80));
        match rng.below(8) {
            0..=3 => drop(commit(&mut c, P, &crawl)),
            4 => drop(c.call(&["DEDUPE.REMOVE", P, &crawl])),
            5 => drop(c.call(&["DEDUPE.CANCEL", P, &crawl])),
            6 => drop(ok!(c, "DEDUPE.PACK", P)),
            _ => drop(ok!(c, "DEDUPE.UNPACK", P)),
        }
        if round % 15 == 14 {
            assert_equal(&server, &replica, &format!("round {round}"));
        }
    }
    let (digest, view) = (server.digest(), plain_view(&mut c, P).without_storage());
    server.restart();
    assert_eq!(server.digest(), digest, "the append-only file");
    let replayed = plain_view(&mut server.wire(), P).without_storage();
    replayed.assert_same(&view, "the append-only file");
    assert_consistent(&mut server.wire(), P);
}
