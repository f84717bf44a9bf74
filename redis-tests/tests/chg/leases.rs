//! Leases of host groups: FIFO order, only one holder, increasing tokens, deadlines.

use crate::stage::stage;
use redis_tests::{
    Frontier, LEASE, Lease, Reply, Server, T0, array, bulk, int, nil, ok, release, rows, simulated,
};

/// Adds one URI to each of these groups, all due now.
fn add_all(f: &mut Frontier, groups: &[&str]) {
    let now = f.time();
    for chg in groups {
        f.add("crawl", chg, now);
    }
}

fn names(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.chg.as_str()).collect()
}

/// Fails unless `line` is refused with `STALE` and changes no data.
#[track_caller]
fn assert_stale(server: &Server, f: &mut Frontier, line: &str) {
    let before = server.snapshot();
    f.refused(line, "STALE ");
    server.snapshot().assert_same(&before, line);
}

#[test]
fn member_of_the_wait_queue_is_the_group_not_the_execution() {
    let (_server, mut f) = stage();
    assert_eq!(f.add("crawl", "host", T0 + 500), 1);
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 500)]);
    assert_eq!((f.due("host"), f.count("host")), (Some(T0 + 500), 1));
    assert_eq!((f.queued("crawl"), f.total()), (1, 1));
    assert_eq!(
        (f.place("host"), f.place("crawl")),
        ("wait".into(), "".into())
    );
}

#[test]
fn documented_example_gives_the_documented_data() {
    let (_server, mut f) = stage();
    let (t1, t2, t3, t5) = (T0 + 1000, T0 - 1000, T0 + 3000, T0 + 5000);
    let reply = f.ok(format!(
        "ADD e chg1 {t1} chg1 {t2} chg2 {t3} chg3 {t2} chg4 {t5}"
    ));
    assert_eq!(reply.ints(), [1, 2, 1, 1, 1]);
    for (chg, n, c) in rows![
        "chg1", T0, 2; "chg2", t3, 1; "chg3", T0, 1; "chg4", t5, 1;
    ] {
        assert_eq!((f.due(chg), f.count(chg)), (Some(n), c), "{chg}");
    }
    assert_eq!((f.queued("e"), f.total()), (5, 5));
    assert_eq!(f.ok("SWEEP").ints(), [2, 0]);
    let lease = f.take("chg1");
    assert_eq!(f.wait(), [("chg2".to_owned(), t3), ("chg4".to_owned(), t5)]);
    assert_eq!(f.busy(), [("chg1".to_owned(), lease.deadline)]);
    assert_eq!(f.ready(), ["chg3"]);
}

#[test]
fn lease_has_all_documented_elements() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD crawl host {} host {}", T0, T0 + 5));
    let reply = f.ok("NEXT LEASE 7000");
    let token = reply.items()[0].items()[1].clone();
    let lease = [
        bulk("host"),
        token,
        int(T0 + 7000),
        int(T0),
        int(2),
        nil(),
        nil(),
    ];
    assert_eq!(reply, array([array(lease)]));
    assert_eq!(f.busy(), [("host".to_owned(), T0 + 7000)]);
    assert_eq!(f.place("host"), "busy");
}

#[test]
fn next_returns_nil_when_nothing_is_due() {
    let (server, mut f) = stage();
    assert_eq!(f.ok("NEXT"), nil());
    f.add("crawl", "host", T0 + 1);
    let before = server.snapshot();
    assert_eq!(f.ok("NEXT"), nil());
    assert_eq!(f.ok("NEXT COUNT 10"), nil());
    server.snapshot().assert_same(&before, "NEXT too early");
    f.pass(1);
    f.take("host");
}

#[test]
fn groups_are_leased_in_the_order_in_which_they_came_due() {
    let (_server, mut f) = stage();
    for (chg, at) in [("a", 30), ("b", 10), ("c", 20)] {
        f.add("crawl", chg, T0 + at);
    }
    f.pass(100);
    for chg in ["b", "c", "a"] {
        f.take(chg);
    }
    f.take_none();
}

#[test]
fn groups_of_the_same_millisecond_keep_the_order_of_adding() {
    let (_server, mut f) = stage();
    let groups: Vec<String> = (0..60)
        .rev()
        .map(|n| format!("host-{:02}", n * 7 % 60))
        .collect();
    for pair in groups.chunks(2) {
        f.ok(format!("ADD crawl {} {T0} {} 0", pair[0], pair[1]));
    }
    for chg in &groups {
        assert_eq!(f.due(chg), Some(T0), "n is in whole milliseconds");
    }
    let leases = Lease::all(&f.ok("NEXT COUNT 60"));
    assert_eq!(names(&leases), groups);
}

#[test]
fn groups_of_the_same_future_millisecond_are_all_leased_at_it() {
    let (_server, mut f) = stage();
    for n in 0..20 {
        f.add("crawl", &format!("host-{n}"), T0 + 50);
    }
    f.pass(49);
    f.take_none();
    f.pass(1);
    assert_eq!(f.ok("NEXT COUNT 100").items().len(), 20);
}

#[test]
fn released_groups_are_first_in_first_out() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["a", "b", "c"]);
    let leases = Lease::all(&f.ok("NEXT COUNT 3"));
    for n in [2, 0, 1] {
        f.release(&leases[n], "AT 0");
    }
    assert_eq!(f.ready(), ["c", "a", "b"]);
    for chg in ["c", "a", "b"] {
        f.take(chg);
    }
}

#[test]
fn longest_waiting_group_is_leased_first_from_any_queue() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["expiring", "released"]);
    let expiring = Lease::only(&f.ok("NEXT LEASE 20"));
    let released = f.take("released");
    assert_eq!(expiring.chg, "expiring");
    f.add("crawl", "waiting", T0 + 10);
    f.pass(30);
    f.release(&released, "AT 0");
    f.pass(5);
    // The groups are due at +10, ready again at +20, and ready at +30.
    for chg in ["waiting", "expiring", "released"] {
        f.take(chg);
    }
}

#[test]
fn count_is_the_maximum_number_of_leases() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["a", "b", "c"]);
    let leases = Lease::all(&f.ok("NEXT COUNT 2"));
    assert_eq!(names(&leases), ["a", "b"]);
    assert_eq!(names(&Lease::all(&f.ok("NEXT COUNT 2"))), ["c"]);
    assert_eq!(f.ok("NEXT COUNT 2"), nil());
}

#[test]
fn leased_group_is_not_leased_again() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["host"]);
    let lease = f.take("host");
    assert_eq!(f.add("crawl", "host", T0), 2);
    f.pass(1000);
    f.take_none();
    assert_eq!(f.ok("SWEEP").ints(), [0, 0]);
    assert_eq!(f.place("host"), "busy");
    f.release(&lease, "AT 0 DONE crawl");
    assert_eq!(f.take("host").c, 1);
}

#[test]
fn old_tokens_change_nothing() {
    let (server, mut f) = stage();
    add_all(&mut f, &["host", "other"]);
    let old = f.take("host");
    let other = f.take("other");
    f.release(&old, "DELAY 10");
    f.pass(10);
    let new = f.take("host");
    assert!(new.token > old.token);
    for token in [old.token, other.token, new.token + 1, 1] {
        for rest in rows![
            "AT 0"; "DELAY 5 DONE crawl"; "ELAPSED 5"; "AT 0 RETRY 0"; "AT 0 DONE crawl NEXT";
        ] {
            assert_stale(&server, &mut f, &format!("RELEASE host {token} {rest}"));
        }
        assert_stale(&server, &mut f, &format!("EXTEND host {token} 1000"));
    }
    assert_eq!(
        f.ok(format!("EXTEND host {} 1000", new.token)),
        int(T0 + 1010)
    );
    f.release(&new, "AT 0 DONE crawl");
}

#[test]
fn released_token_cannot_extend() {
    let (server, mut f) = stage();
    add_all(&mut f, &["host"]);
    let lease = f.take("host");
    f.release(&lease, "DELAY 10");
    assert_stale(
        &server,
        &mut f,
        &format!("EXTEND host {} 1000", lease.token),
    );
}

#[test]
fn unknown_groups_are_an_error_of_their_own() {
    let (server, mut f) = stage();
    add_all(&mut f, &["host"]);
    let before = server.snapshot();
    for line in ["RELEASE nobody 1 AT 0", "EXTEND nobody 1 1000"] {
        let error = f.err(line);
        assert!(
            error.starts_with("NOCHG ") && error.contains("nobody"),
            "{line}: {error}"
        );
    }
    server.snapshot().assert_same(&before, "unknown groups");
}

#[test]
fn tokens_only_grow() {
    let (_server, mut f) = stage();
    let mut last = 0;
    for round in 0..40 {
        // Clocks may go backwards, and groups may be deleted and created again.
        f.now = Some(T0 + [0, 5000, 100, -3000][round % 4]);
        let now = f.time();
        f.add("crawl", "host", now);
        f.add("crawl", &format!("once-{round}"), now);
        for lease in Lease::all(&f.ok("NEXT COUNT 2")) {
            assert!(lease.token > last, "{} after {last}", lease.token);
            last = lease.token;
            f.release(&lease, "AT 0 DONE crawl");
        }
    }
}

#[test]
fn recreated_group_does_not_reuse_a_token() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    add_all(&mut f, &["host"]);
    let old = f.take("host");
    let key = f.key("CHG:host");
    let busy = f.key("chg_busy");
    ok!(f.wire, "DEL", key);
    ok!(f.wire, "ZREM", busy, "host");
    add_all(&mut f, &["host"]);
    let new = f.take("host");
    assert!(new.token > old.token);
    assert_stale(&server, &mut f, &release(&old, "AT 0 DONE crawl"));
}

#[test]
fn repeated_release_gets_the_same_reply_and_changes_nothing() {
    let (server, mut f) = stage();
    f.ok(format!("ADD crawl host {T0} host {T0}"));
    let lease = f.take("host");
    let due = f.release(&lease, "DELAY 2000 DONE crawl");
    assert_eq!(due, T0 + 2000);
    let before = server.snapshot();
    f.pass(7);
    for rest in ["DELAY 2000 DONE crawl", "DELAY 9000", "AT 0 DONE crawl"] {
        assert_eq!(f.release(&lease, rest), due, "{rest}");
        server.snapshot().assert_same(&before, rest);
    }
    f.pass(2000);
    assert_eq!(f.release(&lease, "DELAY 2000 DONE crawl"), due);
    server.snapshot().assert_same(&before, "when it is due");
    // The server stores the release until the next lease.
    f.take("host");
    assert_stale(&server, &mut f, &release(&lease, "DELAY 2000 DONE crawl"));
}

#[test]
fn repeated_release_of_the_last_uri_gets_the_same_reply_after_the_group_is_deleted() {
    let (server, mut f) = stage();
    add_all(&mut f, &["host", "other"]);
    let lease = f.take("host");
    let due = f.release(&lease, "DELAY 2000 DONE crawl");
    f.pass(2000);
    f.fetch("other", "DELAY 2000");
    f.ok("SWEEP");
    assert!(!f.exists("host"), "the gate has passed");
    let before = server.snapshot();
    assert_eq!(f.release(&lease, "DELAY 2000 DONE crawl"), due);
    server.snapshot().assert_same(&before, "the same release");
    let now = f.time();
    f.add("crawl", "host", now);
    f.take("host");
    assert_stale(&server, &mut f, &release(&lease, "DELAY 2000 DONE crawl"));
}

#[test]
fn release_with_next_gives_the_due_time_and_the_next_lease() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["a", "b"]);
    let a = f.take("a");
    let reply = f.ok(release(&a, "DELAY 2000 NEXT LEASE 500"));
    let [due, lease] = reply.items() else {
        panic!("{reply:?}");
    };
    assert_eq!(due.int(), T0 + 2000);
    let b = Lease::of(lease);
    assert_eq!((b.chg.as_str(), b.deadline), ("b", T0 + 500));
    let reply = f.ok(release(&b, "DELAY 3000 NEXT"));
    assert_eq!(reply, array([int(T0 + 3000), nil()]));
    f.pass(2000);
    let a = f.take("a");
    // The next lease may be for the same group.
    let reply = f.ok(release(&a, "AT 0 NEXT"));
    assert_eq!(Lease::of(&reply.items()[1]).chg, "a");
}

#[test]
fn release_with_next_sent_again_gives_the_same_lease_while_it_is_held() {
    let (server, mut f) = stage();
    add_all(&mut f, &["a", "b", "c"]);
    let a = f.take("a");
    let line = release(&a, "DELAY 2000 DONE crawl NEXT");
    let first = f.ok(&line);
    let b = Lease::of(&first.items()[1]);
    assert_eq!(b.chg, "b");
    let before = server.snapshot();
    assert_eq!(f.ok(&line), first);
    server.snapshot().assert_same(&before, "the same release");
    f.release(&b, "DELAY 2000");
    let before = server.snapshot();
    assert_eq!(f.ok(&line), array([first.items()[0].clone(), nil()]));
    server.snapshot().assert_same(&before, "when it is over");
    f.take("c");
}

#[test]
fn lease_ends_at_its_deadline() {
    let (server, mut f) = stage();
    add_all(&mut f, &["host"]);
    let old = Lease::only(&f.ok("NEXT LEASE 1000"));
    assert_eq!(old.deadline, T0 + 1000);
    f.pass(999);
    f.take_none();
    f.pass(1);
    let new = f.take("host");
    assert!(new.token > old.token);
    assert_eq!(new.c, 1, "no URI is lost");
    assert_stale(&server, &mut f, &release(&old, "AT 0 DONE crawl"));
    assert_eq!(f.place("host"), "busy");
}

#[test]
fn token_of_an_expired_lease_is_stale_even_before_the_expiry_is_noticed() {
    for notice in ["INFO", "SWEEP", "EXPIRED"] {
        let (server, mut f) = stage();
        add_all(&mut f, &["host"]);
        let lease = Lease::only(&f.ok("NEXT LEASE 1000"));
        f.pass(1000);
        f.ok(notice);
        if notice != "INFO" {
            assert_eq!(f.ready(), ["host"], "{notice}");
        }
        assert_stale(&server, &mut f, &release(&lease, "AT 0 DONE crawl"));
        assert_stale(&server, &mut f, &format!("EXTEND host {} 9", lease.token));
        f.take("host");
    }
}

#[test]
fn extension_moves_the_deadline() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["host"]);
    let lease = Lease::only(&f.ok("NEXT LEASE 1000"));
    f.pass(900);
    let extend = format!("EXTEND host {} 1000", lease.token);
    assert_eq!(f.ok(&extend), int(T0 + 1900));
    assert_eq!(f.busy(), [("host".to_owned(), T0 + 1900)]);
    f.pass(999);
    f.take_none();
    assert_eq!(
        f.ok(format!("EXTEND host {} 5", lease.token)),
        int(T0 + 1904)
    );
    f.pass(5);
    f.take("host");
}

#[test]
fn lease_without_a_length_has_that_of_the_setting() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["a", "b", "c"]);
    assert_eq!(f.take("a").deadline, T0 + LEASE);
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-lease", 5000);
    let b = f.take("b");
    assert_eq!(b.deadline, T0 + 5000);
    let reply = f.ok(release(&b, "DELAY 9 NEXT"));
    assert_eq!(Lease::of(&reply.items()[1]).deadline, T0 + 5000);
}

#[test]
fn ended_leases_are_reported_once() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["a", "b", "c"]);
    assert_eq!(f.ok("EXPIRED"), array([]));
    f.ok("NEXT LEASE 30");
    f.ok("NEXT LEASE 10");
    f.ok("NEXT LEASE 20");
    f.pass(100);
    let report = |chg: &str, times: i64| array([bulk(chg), nil(), nil(), int(times)]);
    assert_eq!(
        f.ok("EXPIRED COUNT 2"),
        array([report("b", 1), report("c", 1)])
    );
    assert_eq!(f.ok("EXPIRED"), array([report("a", 1)]));
    assert_eq!(f.ok("EXPIRED"), array([]));
    // The URI is queued again, and the next expiry is counted as its second.
    for _ in 0..3 {
        assert!(f.try_take().is_some());
    }
    f.pass(LEASE);
    let again = f.ok("EXPIRED");
    let mut times: Vec<Reply> = again.items().iter().map(|r| r.items()[3].clone()).collect();
    times.dedup();
    assert_eq!((again.items().len(), times), (3, vec![int(2)]));
}

#[test]
fn release_ends_the_count_of_ended_leases() {
    let (_server, mut f) = stage();
    add_all(&mut f, &["host"]);
    f.ok("NEXT LEASE 10");
    f.pass(10);
    let lease = Lease::only(&f.ok("NEXT LEASE 10"));
    f.release(&lease, "AT 0");
    f.ok("NEXT LEASE 10");
    f.pass(10);
    let reports = f.ok("EXPIRED");
    let times: Vec<i64> = reports.items().iter().map(|r| r.items()[3].int()).collect();
    assert_eq!(times, [1, 1]);
}
