//! Replicas read and do not write. A change of role ends waits and jobs, and loses no data.

use redis_tests::{
    Frontier, LEASE, Lease, Options, Server, T0, blocked, ok, packed_by_default, release,
    simulated, until,
};

const F: &str = "{f}:";

/// Checks that the module does not wake up again and again. Each call takes the server a turn of its event loop, and a
/// timer that is set to a time in the past goes off in every turn.
#[track_caller]
fn assert_sleeps(server: &Server) {
    let mut wire = server.wire();
    let before = server.info_number("alarms");
    (0..200).for_each(|_| {
        ok!(wire, "PING");
    });
    let alarms = server.info_number("alarms") - before;
    assert!(
        alarms < 100,
        "the alarm went off {alarms} times in 200 turns"
    );
}

#[test]
fn replica_that_was_read_sleeps() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    f.add("crawl", "one", 0);
    server.wait_for_replica_offset(&replica);
    // The replica caches the frontier, and therefore notices later changes.
    Frontier::real(&replica).ok("INFO");
    f.add("crawl", "two", 0);
    f.take("one");
    server.wait_for_replica_offset(&replica);
    assert_sleeps(&replica);
}

#[test]
fn master_that_becomes_a_replica_sleeps_and_works_as_a_master_again() {
    let server = Server::start();
    let other = Options::new().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    f.add("crawl", "kept", 0);
    f.add("crawl", "gated", 0);
    // The lease expires, and the pause of the group ends, while the server is a replica.
    f.ok("NEXT LEASE 1");
    let gated = f.take("gated");
    f.release(&gated, "DELAY 20 DONE crawl");
    server.wait_for_replica_offset(&other);
    let mut o = Frontier::real(&other);
    ok!(o.wire, "REPLICAOF", "NO", "ONE");
    ok!(f.wire, "REPLICAOF", "127.0.0.1", other.port());
    other.wait_for_replica_offset(&server);
    f.ok("INFO");
    o.add("crawl", "new", 0);
    other.wait_for_replica_offset(&server);
    assert_sleeps(&server);
    ok!(f.wire, "REPLICAOF", "NO", "ONE");
    let mut leased = [(); 2].map(|()| Lease::only(&f.ok("NEXT BLOCK 0")).chg);
    leased.sort();
    assert_eq!(leased, ["kept", "new"]);
    assert_sleeps(&server);
}

#[test]
fn becoming_a_replica_ends_waits() {
    let (server, other) = (Server::start(), Server::start());
    let mut f = Frontier::real(&server);
    f.add("crawl", "host", 0);
    let held = f.take("host");
    let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
    let mut releaser = blocked(
        &server,
        F,
        &release(&held, "DELAY 600000 DONE crawl NEXT BLOCK 0"),
    );
    ok!(f.wire, "REPLICAOF", "127.0.0.1", other.port());
    for waiter in [&mut waiter, &mut releaser] {
        let reply = waiter.wire.recv();
        assert!(reply.is_error(), "{reply:?}");
        assert!(format!("{reply:?}").contains("UNBLOCKED"), "{reply:?}");
    }
    assert_eq!(server.info_number("blocked_clients"), 0);
    other.wait_for_replica_offset(&server);
    assert_eq!(server.digest(), other.digest());
    // The server works again once it is a master again.
    ok!(f.wire, "REPLICAOF", "NO", "ONE");
    let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
    f.add("crawl", "host", 0);
    assert_eq!(Lease::only(&waiter.wire.recv()).chg, "host");
}

#[test]
fn failover_with_blocked_clients_loses_no_lease_gate_or_group() {
    let mut server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    f.ok("ADD crawl gated 0 leased 0 held 0 gated 0");
    let gated = f.take("gated");
    let leased = Lease::only(&f.ok("NEXT LEASE 5500"));
    let held = f.take("held");
    let gate = f.release(&gated, "DELAY 5000 DONE crawl");
    let due = f.time() + 5200;
    f.add("crawl", "waiting", due);
    let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
    server.kill9();
    assert!(waiter.wire.try_recv().is_err());
    let mut r = Frontier::real(&replica);
    ok!(r.wire, "REPLICAOF", "NO", "ONE");
    assert_eq!(leased.chg, "leased");
    for (chg, at) in [
        ("gated", gate),
        ("waiting", due),
        ("leased", leased.deadline),
    ] {
        let lease = Lease::only(&r.ok("NEXT BLOCK 0"));
        assert_eq!(lease.chg, chg);
        let granted = lease.deadline - LEASE;
        assert!(granted >= at, "{chg} {} ms too early", at - granted);
        assert!(lease.token > held.token, "{chg}");
    }
    r.release(&held, "AT 0 DONE crawl");
    r.assert_conserved();
}

#[test]
fn leases_of_waiters_are_replicated() {
    let server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    let mut waiters: Vec<Frontier> = (0..6)
        .map(|_| blocked(&server, F, "NEXT BLOCK 0"))
        .collect();
    let now = f.time();
    // Groups become available through a command, at their due time, through a plain write, and
    // through an expired lease.
    f.ok(format!("ADD crawl a 0 b {} c {}", now + 40, now + 80));
    // A plain client can write to a plain frontier only.
    if packed_by_default() {
        f.add("crawl", "plain", 0);
    } else {
        let ready = f.key("chg_ready");
        ok!(f.wire, "RPUSH", ready, "plain");
    }
    let leases: Vec<Lease> = waiters[..4]
        .iter_mut()
        .map(|waiter| Lease::only(&waiter.wire.recv()))
        .collect();
    let lease = leases.iter().find(|lease| lease.chg == "a").unwrap();
    f.ok(format!("EXTEND a {} 30", lease.token));
    assert_eq!(Lease::only(&waiters[4].wire.recv()).chg, "a");
    server.wait_for_replica_offset(&replica);
    replica
        .snapshot()
        .assert_same(&server.snapshot(), "replica");
    assert_eq!(server.digest(), replica.digest());
    let digest = server.digest();
    let mut server = server;
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
}

#[test]
fn failover_pause_delays_waiters_and_writes_nothing_meanwhile() {
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    server.wait_for_replica_offset(&replica);
    let due = f.time() + 500;
    f.add("crawl", "host", due);
    let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
    ok!(f.wire, "CLIENT", "PAUSE", 60_000, "WRITE");
    let place = f.place("host");
    until("it is due", || f.time() > due + 100);
    assert!(!waiter.wire.has_reply());
    assert_eq!(f.place("host"), place);
    ok!(f.wire, "CLIENT", "UNPAUSE");
    assert_eq!(Lease::only(&waiter.wire.recv()).chg, "host");
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn role_change_during_a_sweep_loses_nothing() {
    let server = simulated().start();
    let replica = simulated().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let groups = 40_000;
    let head = f.words("ADD crawl");
    for first in (0..groups).step_by(1000) {
        let mut words = head.clone();
        for n in first..first + 1000 {
            words.push(format!("host-{n}").into_bytes());
            words.push((T0 + n).to_string().into_bytes());
        }
        f.wire.expect_ok(&words);
    }
    server.wait_for_replica_offset(&replica);
    let mut sweeper = Frontier::at(&server, T0 + 1_000_000);
    sweeper.send("SWEEP");
    until("the sweep is under way", || f.figure("groups-ready") > 2000);
    ok!(f.wire, "REPLICAOF", "127.0.0.1", replica.port());
    assert!(sweeper.wire.recv().is_error());
    server.until_idle();
    // The new master finishes the sweep.
    let mut r = Frontier::at(&replica, T0 + 1_000_000);
    ok!(r.wire, "REPLICAOF", "NO", "ONE");
    r.ok("SWEEP");
    let ready = r.ready();
    let order: Vec<String> = (0..groups).map(|n| format!("host-{n}")).collect();
    assert!(ready == order, "{} of {groups} in order", ready.len());
    r.assert_conserved();
}
