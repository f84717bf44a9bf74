//! Tests that every pause, block and lease is unchanged after a restart and on a replica, with
//! absolute times.

use redis_tests::{
    BusyFrontier, Frontier, Lease, Options, Reply, T0, int, ok, release, simulated, until,
};

/// Returns the reply of `WHY` for every group.
fn told(f: &mut Frontier) -> Vec<(String, Reply)> {
    let groups = BusyFrontier::GROUPS.iter().chain(&["ready"]);
    groups.map(|chg| ((*chg).to_owned(), f.why(chg))).collect()
}

/// Checks that leases, gates, blocks, pauses and numbers continue to work.
fn goes_on(f: &mut Frontier, out: &BusyFrontier) {
    // Repeat the release of a group that is idle during its pause.
    let (idle, gate) = &out.released;
    let again = release(idle, format!("AT {} DONE crawl", gate + 1));
    assert_eq!(f.ok(again).int(), *gate);
    assert_eq!(f.ok("ADD crawl SEQ writer 3 numbered 0").ints(), [1]);
    f.refused("ADD crawl SEQ writer 2 numbered 0", "STALE ");
    // Of three leases, the test releases one, extends one, and lets one expire at its deadline.
    let now = f.time();
    assert_eq!(f.release(&out.held, "DELAY 1000 DONE crawl"), now + 1000);
    let extended = f.ok(format!("EXTEND kept {} 9000", out.kept.token));
    assert_eq!(extended.int(), now + 9000);
    assert_eq!(f.take("ready").c, 1);
    assert_eq!(f.why("ready").field("expired").int(), 1);
    f.take_none();
    f.add("crawl", "idle", 0);
    assert_eq!(f.due("idle"), Some(*gate));
    f.pass(1000);
    let mut came = vec![
        f.try_take().expect("held").chg,
        f.try_take().expect("parallel").chg,
    ];
    came.sort();
    assert_eq!(came, ["held", "parallel"]);
    f.take_none();
    f.pass(9000 - 1000 - 1);
    f.take_none();
    f.pass(1);
    let kept = f.take("kept");
    assert!(kept.uri.is_some());
    f.now = Some(T0 + 60_000);
    let mut came: Vec<String> = std::iter::from_fn(|| f.try_take()).map(|l| l.chg).collect();
    came.sort();
    assert_eq!(came, ["later", "numbered", "waiting"]);
    f.now = Some(gate - 1);
    f.take_none();
    f.pass(1);
    f.take("idle");
    f.now = Some(T0 + 180_000 - 1);
    f.take_none();
    f.pass(1);
    f.take("blocked");
    f.take_none();
    f.ok("RESUME paused");
    f.take("paused");
    f.ok("RESUME EXECUTION held-back");
    f.take("of-a-paused-crawl");
    f.take_none();
    f.assert_conserved();
}

#[test]
fn release_with_next_is_answered_again_after_a_restart_and_a_failover() {
    let mut server = simulated().aof_unsynced(false).start();
    let replica = simulated().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    f.ok(format!(
        "ADDURI crawl a {T0} 0 http://a/ b {T0} 0 http://b/"
    ));
    let a = f.take("a");
    let line = release(&a, "DELAY 2000 DONE crawl NEXT LEASE 5000");
    let first = f.ok(&line);
    assert_eq!(Lease::of(&first.items()[1]).chg, "b");
    server.wait_for_replica_offset(&replica);
    server.kill9();
    ok!(replica.wire(), "REPLICAOF", "NO", "ONE");
    server.restart();
    for server in [&server, &replica] {
        let mut f = Frontier::at(server, T0 + 10);
        let before = server.digest();
        assert_eq!(f.ok(&line), first);
        assert_eq!(server.digest(), before);
        let b = Lease::of(&first.items()[1]);
        f.release(&b, "DELAY 5 DONE crawl");
        assert_eq!(f.ok(&line).items()[1], redis_tests::nil());
        f.assert_conserved();
    }
}

#[test]
fn tokens_grow_on_after_a_restart() {
    let mut server = simulated().aof_unsynced(false).start();
    let mut f = Frontier::at(&server, T0);
    f.add("crawl", "host", T0);
    let first = f.take("host");
    f.release(&first, "AT 0");
    server.kill9();
    server.restart();
    // The clock of the other machine may be behind.
    let mut f = Frontier::at(&server, T0 - 60_000);
    f.add("crawl", "another", 0);
    let second = f.take("another");
    assert!(second.token > first.token);
}

#[test]
fn replica_has_the_data_of_the_master_and_continues_with_it() {
    let mut server = simulated().start();
    let early = simulated().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    let out = BusyFrontier::build(&mut f);
    let late = simulated().replica_of(&server).start();
    let before = told(&mut f);
    for replica in [&early, &late] {
        server.wait_for_replica_offset(replica);
        replica
            .snapshot()
            .assert_same(&server.snapshot(), "replica");
        assert_eq!(replica.digest(), server.digest());
        let mut r = Frontier::at(replica, f.now.expect("simulated"));
        assert_eq!(told(&mut r), before);
    }
    server.kill9();
    for replica in [&early, &late] {
        ok!(replica.wire(), "REPLICAOF", "NO", "ONE");
        let mut r = Frontier::at(replica, f.now.expect("simulated"));
        goes_on(&mut r, &out);
    }
}

#[test]
fn ten_failovers_keep_every_gate_block_and_lease() {
    let mut server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    let out = BusyFrontier::build(&mut f);
    // Enough for many slices, and due after everything else.
    let later = T0 + 3_600_000;
    for some in 0..80 {
        let uris = (0..100).map(|n| format!(" more-{some}-{n} {later} 0 http://more/{n}"));
        f.ok(format!("ADDURI more{}", uris.collect::<String>()));
    }
    let before = (told(&mut f), f.figure("uris"));
    let mut in_the_middle = 0;
    for failover in 0..10 {
        let replica = simulated().replica_of(&server).start();
        server.wait_for_replica_offset(&replica);
        for server in [&server, &replica] {
            ok!(server.wire(), "CONFIG", "SET", "crawlspace.slice-us", 50);
        }
        let mut mover = Frontier::at(&server, f.time());
        mover.send(["PACK", "UNPACK"][failover % 2]);
        let mut r = Frontier::at(&replica, f.time());
        until("the replica is in the middle", || {
            let moves = r.ok("INFO").field("storage").text().ends_with("ing");
            in_the_middle += usize::from(moves);
            moves || mover.wire.has_reply()
        });
        server.kill9();
        ok!(r.wire, "REPLICAOF", "NO", "ONE");
        let after = (told(&mut r), r.figure("uris"));
        assert_eq!(after, before, "failover {failover}");
        assert_eq!(r.ok("CHECK").field("consistent"), int(1));
        (server, f) = (replica, r);
    }
    assert!(in_the_middle > 0);
    goes_on(&mut f, &out);
}

#[test]
fn frontier_without_kept_uris_loads_without_the_module() {
    let mut server = simulated().plain().aof_unsynced(true).start();
    let bare = Options::new().no_module().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    for n in 0..20 {
        f.ok(format!("ADD crawl SEQ w {} host-{n} {T0} all {T0}", n + 1));
    }
    f.ok("GROUP shared host-1 host-2");
    f.ok("LIMIT all PARALLEL 2");
    f.ok("PAUSE host-3");
    let leases = f.ok("NEXT LEASE 5 COUNT 7");
    assert_eq!(leases.items().len(), 7);
    f.pass(5);
    f.ok("SWEEP");
    server.wait_for_replica_offset(&bare);
    let digest = server.digest();
    assert_eq!(bare.digest(), digest);
    server.kill9();
    server.restart_as(Options::new().no_module().aof_unsynced(true));
    assert_eq!(server.digest(), digest);
}

#[test]
fn commands_that_depend_on_the_clock_are_not_replicated_verbatim() {
    // With the wall clock, the replica applies every command later than the master did.
    let server = Options::new().aof_unsynced(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    for n in 0..30 {
        f.ok(format!("ADD crawl host-{n} 0 host-{n} 0"));
        let lease = Lease::only(&f.ok("NEXT LEASE 1"));
        if n % 3 == 0 {
            f.call(release(&lease, "DELAY 5 DONE crawl"));
        }
        let lease = Lease::only(&f.ok("NEXT BLOCK 0 LEASE 2"));
        f.call(release(&lease, "ELAPSED 3 MIN 1 STATUS 503"));
    }
    until("some leases have ended", || f.figure("expired") > 0);
    f.ok("EXPIRED COUNT 5");
    server.wait_for_replica_offset(&replica);
    replica
        .snapshot()
        .assert_same(&server.snapshot(), "replica");
    assert_eq!(replica.digest(), server.digest());
    let digest = server.digest();
    let mut server = server;
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
}
