//! `NEXT … EXECUTION`: leases of URIs of one execution.

use std::time::Duration;

use redis_tests::{Frontier, Lease, Options, Server, T0, blocked, bulk, int, nil, simulated};

const F: &str = "{f}:";
const QUIET: Duration = Duration::from_millis(120);

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

fn real() -> (Server, Frontier) {
    let server = Options::new().packed().start();
    let f = Frontier::real(&server);
    (server, f)
}

/// Leases the next URI of an execution.
#[track_caller]
fn take(f: &mut Frontier, execution: &str) -> Lease {
    let lease = Lease::only(&f.ok(format!("NEXT EXECUTION {execution}")));
    assert_eq!(lease.execution.as_deref(), Some(execution));
    lease
}

#[track_caller]
fn take_none(f: &mut Frontier, execution: &str) {
    assert_eq!(f.ok(format!("NEXT EXECUTION {execution}")), nil());
}

fn uri(lease: &Lease) -> &str {
    lease.uri.as_deref().expect("a URI")
}

#[test]
fn check_finds_the_times_of_all_groups_right_while_clients_work() {
    let (_server, mut f) = packed();
    for n in 0..60 {
        let execution = ["mine", "theirs", "other"][n % 3];
        let at = T0 + 50 * (n as i64 % 7);
        f.add_uri(execution, &format!("g{}", n % 11), at, 0, &n.to_string());
    }
    f.ok("GROUP gate g1 g2 g3");
    f.ok("GROUP another g4 g5");
    f.ok("LIMIT g6 PARALLEL 2");
    for round in 0..30 {
        let execution = ["mine", "theirs", "other", "unknown"][round % 4];
        let reply = f.ok(format!("NEXT LEASE 500 EXECUTION {execution}"));
        if round % 3 > 0 && !reply.is_nil() {
            f.release(&Lease::only(&reply), format!("DELAY 100 DONE {execution}"));
        }
        match round {
            5 => drop(f.ok("PAUSE g7")),
            8 => drop(f.ok("PAUSE EXECUTION theirs")),
            11 => drop(f.ok(format!("BLOCK g8 UNTIL {}", T0 + 900))),
            14 => drop(f.ok("MOVE g9 g1")),
            17 => drop(f.ok("DROP other")),
            20 => drop(f.ok("RESUME EXECUTION theirs")),
            _ => f.pass(60),
        }
        f.assert_consistent();
        assert_eq!(f.ok("REPAIR").field("mended"), int(0));
    }
}

#[test]
fn executions_do_not_mix() {
    let (_server, mut f) = packed();
    for (chg, mine, theirs) in [("a", "1", "2"), ("b", "3", "4")] {
        f.add_uri("theirs", chg, 0, 0, theirs);
        f.add_uri("mine", chg, 0, 1, mine);
    }
    f.add_uri("theirs", "c", 0, 0, "5");
    take_none(&mut f, "unknown");
    let first = take(&mut f, "mine");
    assert_eq!((&first.chg[..], uri(&first), first.c), ("a", "1", 2));
    // A group is leased by one worker at a time, whatever the execution.
    let other = take(&mut f, "theirs");
    assert_eq!((&other.chg[..], uri(&other)), ("b", "4"));
    take_none(&mut f, "mine");
    f.release(&other, "DELAY 1000 DONE theirs");
    take_none(&mut f, "mine");
    f.pass(1000);
    let second = take(&mut f, "mine");
    assert_eq!((&second.chg[..], uri(&second)), ("b", "3"));
    f.release(&first, "DELAY 0 DONE mine");
    f.release(&second, "DELAY 0 DONE mine");
    take_none(&mut f, "mine");
    let all = f.ok("NEXT COUNT 9 EXECUTION theirs");
    let chgs: Vec<String> = Lease::all(&all)
        .into_iter()
        .map(|lease| lease.chg)
        .collect();
    assert_eq!(chgs, ["c", "a"]);
    f.assert_consistent();
}

#[test]
fn group_that_could_be_leased_earliest_is_leased_first() {
    let (_server, mut f) = packed();
    f.add_uri("mine", "late", T0 + 300, 0, "1");
    f.add_uri("mine", "early", T0 + 200, 0, "2");
    f.add_uri("other", "blocked", T0, 0, "3");
    f.add_uri("mine", "blocked", T0, 0, "4");
    f.ok(format!("BLOCK blocked UNTIL {}", T0 + 250));
    take_none(&mut f, "mine");
    f.pass(300);
    let order: Vec<String> = (0..3).map(|_| take(&mut f, "mine").chg).collect();
    assert_eq!(order, ["early", "blocked", "late"]);
}

#[test]
fn pause_of_one_execution_or_group_holds_back_nothing_else() {
    let (_server, mut f) = packed();
    f.add_uri("mine", "a", 0, 0, "1");
    f.add_uri("theirs", "a", 0, 0, "2");
    f.add_uri("mine", "b", 0, 0, "3");
    f.ok("PAUSE EXECUTION theirs");
    take_none(&mut f, "theirs");
    let lease = take(&mut f, "mine");
    assert_eq!(lease.chg, "a");
    f.release(&lease, "DELAY 0 DONE mine");
    f.ok("PAUSE b");
    take_none(&mut f, "mine");
    f.ok("PAUSE");
    f.ok("RESUME b");
    take_none(&mut f, "mine");
    f.ok("RESUME");
    assert_eq!(take(&mut f, "mine").chg, "b");
    f.ok("RESUME EXECUTION theirs");
    assert_eq!(take(&mut f, "theirs").chg, "a");
}

#[test]
fn release_takes_the_next_uri_of_an_execution() {
    let (_server, mut f) = packed();
    f.add_uri("theirs", "a", 0, 0, "1");
    f.add_uri("mine", "b", 0, 0, "2");
    f.add_uri("mine", "c", 0, 0, "3");
    let lease = take(&mut f, "mine");
    let line = format!(
        "RELEASE b {} DELAY 5000 DONE mine NEXT EXECUTION mine",
        lease.token
    );
    let reply = f.ok(&line);
    assert_eq!(reply.items()[0], int(T0 + 5000));
    let next = Lease::of(&reply.items()[1]);
    assert_eq!((&next.chg[..], uri(&next)), ("c", "3"));
    assert_eq!(f.ok(&line), reply, "a retry");
    let line = format!("RELEASE c {} DELAY 0 NEXT EXECUTION mine", next.token);
    let next = Lease::of(&f.ok(&line).items()[1]);
    assert_eq!(uri(&next), "3", "the same URI, without a pause");
}

#[test]
fn expired_lease_returns_the_only_uri() {
    let (_server, mut f) = packed();
    f.add_uri("mine", "a", 0, 0, "1");
    f.add_uri("theirs", "b", 0, 0, "2");
    let lease = Lease::only(&f.ok("NEXT LEASE 1000 EXECUTION mine"));
    f.pass(999);
    take_none(&mut f, "mine");
    f.pass(1);
    let again = take(&mut f, "mine");
    assert_eq!(uri(&again), "1");
    assert!(again.token > lease.token);
}

#[test]
fn plain_frontier_refuses_and_changes_nothing() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    f.add_uri("mine", "a", 0, 0, "1");
    f.add_uri("mine", "b", 0, 0, "2");
    let lease = f.take("a");
    f.refused("NEXT EXECUTION mine", "PLAIN");
    f.refused("NEXT COUNT 2 EXECUTION mine", "PLAIN");
    let line = format!(
        "RELEASE a {} DELAY 0 DONE mine NEXT EXECUTION mine",
        lease.token
    );
    f.refused(&line, "PLAIN");
    assert_eq!(f.figure("leases"), 1);
    f.refused("NEXT GROUP b EXECUTION mine", "PLAIN");
    f.ok("PACK");
    let next = Lease::of(&f.ok(&line).items()[1]);
    assert_eq!(next.chg, "b");
}

#[test]
fn group_leases_only_uris_of_the_execution() {
    let (_server, mut f) = packed();
    f.add_uri("theirs", "a", 0, 0, "1");
    f.add_uri("mine", "a", T0 + 1000, 0, "2");
    f.add_uri("mine", "b", 0, 0, "3");
    f.refused("NEXT GROUP nowhere EXECUTION mine", "NOCHG");
    assert!(f.ok("NEXT GROUP a EXECUTION mine").is_nil());
    f.pass(1000);
    f.ok("PAUSE EXECUTION mine");
    assert!(f.ok("NEXT GROUP a EXECUTION mine").is_nil());
    f.ok("RESUME EXECUTION mine");
    let reply = f.ok("NEXT GROUP a EXECUTION mine URIS 9");
    let lease = &reply.items()[0];
    assert_eq!(lease.items()[0], bulk("a"));
    assert_eq!(lease.items()[7].items().len(), 1);
    assert_eq!(lease.items()[7].items()[0].items()[0], bulk("2"));
    assert!(f.ok("NEXT GROUP a EXECUTION theirs").is_nil());
    f.assert_consistent();
}

#[test]
fn restart_and_conversion_lose_no_group() {
    let (mut server, mut f) = packed();
    for n in 0..50 {
        f.add_uri("theirs", &format!("t{n}"), 0, 0, "1");
    }
    f.add_uri("mine", "a", 0, 0, "2");
    f.add_uri("mine", "b", T0 + 1000, 0, "3");
    let lease = take(&mut f, "mine");
    redis_tests::ok!(f.wire, "SAVE");
    server.restart();
    let mut f = Frontier::at(&server, T0);
    take_none(&mut f, "mine");
    f.release(&lease, "DELAY 0 RETRY 0");
    assert_eq!(take(&mut f, "mine").chg, "a");
    f.pass(1000);
    f.ok("UNPACK");
    f.refused("NEXT EXECUTION mine", "PLAIN");
    f.ok("PACK");
    assert_eq!(take(&mut f, "mine").chg, "b");
    f.ok("MOVE t0 c");
    f.add_uri("mine", "c", 0, 0, "4");
    assert_eq!(take(&mut f, "mine").chg, "c");
    f.ok("DROP mine");
    take_none(&mut f, "mine");
    f.assert_consistent();
}

#[test]
fn waiting_clients_get_uris_of_their_execution() {
    let (server, mut f) = real();
    let mut mine = blocked(&server, F, "NEXT BLOCK 0 EXECUTION mine");
    let mut theirs = blocked(&server, F, "NEXT BLOCK 0 EXECUTION theirs");
    let mut any = blocked(&server, F, "NEXT BLOCK 0");
    let mut late = blocked(&server, F, "NEXT BLOCK 0 EXECUTION theirs");
    // A client that keeps waiting does not block the clients behind it.
    f.add_uri("theirs", "a", 0, 0, "1");
    assert_eq!(uri(&Lease::only(&theirs.wire.recv())), "1");
    f.add_uri("theirs", "b", 0, 0, "2");
    // This client has waited longer than the second one for the execution.
    assert_eq!(uri(&Lease::only(&any.wire.recv())), "2");
    f.add_uri("theirs", "c", 0, 0, "3");
    assert_eq!(uri(&Lease::only(&late.wire.recv())), "3");
    f.add_uri("theirs", "d", 0, 0, "4");
    assert!(mine.wire.is_silent_for(QUIET));
    let due = f.time() + 200;
    f.add_uri("mine", "e", due, 0, "5");
    let lease = Lease::only(&mine.wire.recv());
    assert_eq!(uri(&lease), "5");
    assert!(lease.deadline - redis_tests::LEASE >= due);
    // The group of the other execution is still due.
    assert_eq!(take(&mut f, "theirs").chg, "d");
}

#[test]
fn waiting_client_wakes_for_every_event() {
    let (server, mut f) = real();
    f.add_uri("mine", "a", 0, 0, "1");
    f.add_uri("theirs", "b", 0, 0, "2");
    let wait = |server: &Server| blocked(server, F, "NEXT LEASE 300 BLOCK 0 EXECUTION mine");
    // The end of a pause after a fetch.
    let lease = take(&mut f, "mine");
    let mut waiter = wait(&server);
    let due = f.release(&lease, "DELAY 150 RETRY 0");
    let lease = Lease::only(&waiter.wire.recv());
    assert!(lease.deadline - 300 >= due);
    // The deadline of a lease.
    let mut waiter = wait(&server);
    let again = Lease::only(&waiter.wire.recv());
    assert!(again.token > lease.token && again.deadline - 300 >= lease.deadline);
    // The end of a pause of the execution, of the group, and of a block.
    f.ok("PAUSE EXECUTION mine");
    f.release(&again, "DELAY 0 RETRY 0");
    let mut waiter = wait(&server);
    f.ok("RESUME EXECUTION mine");
    let lease = Lease::only(&waiter.wire.recv());
    f.ok("PAUSE a");
    f.release(&lease, "DELAY 0 RETRY 0");
    let mut waiter = wait(&server);
    f.ok("RESUME a");
    let lease = Lease::only(&waiter.wire.recv());
    let until = f.time() + 200;
    f.ok(format!("BLOCK a UNTIL {until}"));
    f.release(&lease, "DELAY 0 RETRY 0");
    let mut waiter = wait(&server);
    let lease = Lease::only(&waiter.wire.recv());
    assert!(lease.deadline - 300 >= until);
    // An unpacked frontier.
    let mut waiter = wait(&server);
    f.ok("UNPACK");
    assert!(waiter.wire.recv().is_error());
}

#[test]
fn next_due_time_is_that_of_the_execution_in_a_large_frontier() {
    let (_server, mut f) = packed();
    let hour = T0 + 3_600_000;
    for n in 0..1_200 {
        f.ok(format!("ADDURI other g{n} 0 0 https://g{n}.example/"));
    }
    f.ok(format!("ADDURI own own {hour} 0 https://own.example/"));
    f.ok(format!(
        "ADDURI own blocked {T0} 0 https://blocked.example/"
    ));
    f.ok(format!("BLOCK blocked UNTIL {}", hour + 3_600_000));
    let mut due = |line: &str| {
        f.ok(line);
        f.ok("INFO EXECUTION own").field("next-due-ms")
    };
    assert_eq!(due("NEXT EXECUTION own"), int(hour));
    assert_eq!(
        due(&format!("BLOCK own UNTIL {}", hour + 3_600_000)),
        int(-1)
    );
    assert_eq!(due("BLOCK own UNTIL 0"), int(hour));
    f.pass(3_600_000);
    assert_eq!(uri(&take(&mut f, "own")), "https://own.example/");
}
