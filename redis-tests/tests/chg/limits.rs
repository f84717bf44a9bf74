//! Limits of a group: the number of concurrent fetches, the time between their starts, and the
//! number of accepted URIs.

use crate::stage::{add, stage};
use redis_tests::{Lease, T0, array, int, nil, ok, rows};

#[test]
fn parallel_group_has_at_most_the_given_number_of_leases() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 3");
    add(&mut f, "host", 9);
    let mut leases: Vec<Lease> = (0..3)
        .map(|n| Lease::only(&f.ok(format!("NEXT LEASE {}", 3000 - 1000 * n))))
        .collect();
    f.take_none();
    let mut tokens: Vec<i64> = leases.iter().map(|l| l.token).collect();
    tokens.dedup();
    assert_eq!(tokens.len(), 3);
    assert_eq!(
        f.busy(),
        [("host".to_owned(), T0 + 1000)],
        "the earliest deadline"
    );
    assert_eq!(f.why("host").field("leases").items().len(), 3);
    let one = leases.remove(1);
    f.release(&one, "AT 0 DONE crawl");
    assert_eq!(f.place("host"), "ready+busy");
    leases.push(f.take("host"));
    f.take_none();
    // When a lease expires, the group can also grant another one. The other leases remain.
    f.pass(1000);
    leases.retain(|lease| lease.deadline > T0 + 1000);
    assert_eq!(leases.len(), 2);
    leases.push(f.take("host"));
    f.take_none();
    for lease in leases {
        f.release(&lease, "AT 0 DONE crawl");
    }
    assert_eq!(f.count("host"), 5);
}

#[test]
fn parallel_leases_are_of_different_uris() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 9");
    for n in 0..4 {
        f.add_uri("crawl", "host", T0, 0, &format!("http://host/{n}"));
    }
    let mut uris: Vec<String> = (0..4).map(|_| f.take("host").uri.expect("kept")).collect();
    uris.sort();
    uris.dedup();
    assert_eq!(uris.len(), 4);
    f.take_none();
}

#[test]
fn lowered_limit_does_not_end_existing_leases() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 3");
    add(&mut f, "host", 9);
    let leases: Vec<Lease> = (0..3).map(|_| f.take("host")).collect();
    f.ok("LIMIT host PARALLEL 1");
    f.release(&leases[0], "AT 0 DONE crawl");
    f.take_none();
    f.release(&leases[1], "AT 0 DONE crawl");
    f.take_none();
    f.release(&leases[2], "AT 0 DONE crawl");
    f.take("host");
    f.take_none();
}

#[test]
fn gap_is_from_the_start_of_one_fetch_to_the_start_of_the_next() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 4 GAP 500");
    add(&mut f, "host", 9);
    for n in 0..4 {
        f.take("host");
        f.take_none();
        if n == 1 {
            // A quick fetch does not shorten the gap.
            f.pass(100);
            f.take_none();
            f.pass(399);
        } else {
            f.pass(499);
        }
        f.take_none();
        f.pass(1);
    }
    f.take_none();
    f.ok("LIMIT slow GAP 800");
    add(&mut f, "slow", 3);
    let lease = f.take("slow");
    f.pass(100);
    f.release(&lease, "AT 0 DONE crawl");
    f.pass(699);
    f.take_none();
    f.pass(1);
    let lease = f.take("slow");
    // After a fetch that took longer than the gap, the group is due immediately.
    f.pass(900);
    f.release(&lease, "AT 0 DONE crawl");
    f.take("slow");
}

#[test]
fn budget_is_the_number_of_uris_that_a_group_accepts() {
    let (_server, mut f) = stage();
    assert_eq!(f.ok("LIMIT host BUDGET 3").text(), "OK");
    let line = format!("ADD crawl host {T0} other {T0} host {T0} host {T0} host {T0}");
    assert_eq!(f.ok(&line), array([int(1), int(1), int(2), int(3), nil()]));
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (3, 4, 4));
    assert_eq!(f.why("host").field("budget"), int(0));
    f.fetch("host", "AT 0 DONE crawl");
    assert_eq!(
        f.ok(format!("ADD crawl host {T0}")),
        array([nil()]),
        "done is spent"
    );
    f.ok("LIMIT host BUDGET 1");
    assert_eq!(
        f.ok(format!("ADD crawl host {T0} host {T0}")),
        array([int(3), nil()])
    );
    f.ok("LIMIT host BUDGET -1");
    assert_eq!(f.add("crawl", "host", T0), 4);
}

#[test]
fn known_uri_uses_no_budget() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host BUDGET 2");
    for _ in 0..3 {
        assert_eq!(f.add_uri("crawl", "host", T0, 0, "a"), 1);
    }
    assert_eq!(f.add_uri("crawl", "host", T0, 0, "b"), 2);
    let line = format!("ADDURI crawl host {T0} 0 c host {T0} 0 a");
    assert_eq!(f.ok(line), array([nil(), int(2)]));
}

#[test]
fn limits_can_be_set_before_the_first_uri_and_outlive_the_last() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 2 BUDGET 3");
    assert_eq!(f.place("host"), "");
    f.take_none();
    for _ in 0..2 {
        let now = f.time();
        f.add("crawl", "host", now);
        f.fetch("host", "DELAY 10 DONE crawl");
        f.pass(10_000);
        f.take_none();
    }
    let now = f.time();
    let line = format!("ADD crawl host {now} host {now}");
    assert_eq!(f.ok(line), array([int(1), nil()]));
    assert_eq!(f.why("host").field("parallel"), int(2));
}

#[test]
fn pause_after_one_of_several_fetches_holds_for_all() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 2");
    add(&mut f, "host", 9);
    let leases = [f.take("host"), f.take("host")];
    f.release(&leases[0], "DELAY 1000 DONE crawl");
    f.take_none();
    assert_eq!(f.release(&leases[1], "AT 0 DONE crawl"), T0 + 1000);
    f.pass(999);
    f.take_none();
    f.pass(1);
    f.take("host");
    f.take("host");
    f.take_none();
}

#[test]
fn leases_of_a_parallel_group_are_extended_one_by_one() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 2");
    add(&mut f, "host", 2);
    let short = Lease::only(&f.ok("NEXT LEASE 1000"));
    let long = Lease::only(&f.ok("NEXT LEASE 5000"));
    f.ok(format!("EXTEND host {} 9000", short.token));
    assert_eq!(f.busy(), [("host".to_owned(), T0 + 5000)]);
    f.pass(5000);
    let again = f.take("host");
    assert!(again.token > long.token);
    f.take_none();
    f.release(&short, "AT 0 DONE crawl");
    f.refused(redis_tests::release(&long, "AT 0"), "STALE ");
}

#[test]
fn repeated_release_of_a_parallel_lease_gets_the_same_reply() {
    let (server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 2");
    add(&mut f, "host", 2);
    let kept = Lease::only(&f.ok("NEXT LEASE 1000"));
    let lease = f.take("host");
    let line = redis_tests::release(&lease, "DELAY 5000 DONE crawl");
    let due = f.ok(&line).int();
    let before = server.snapshot();
    assert_eq!(f.ok(&line).int(), due);
    server.snapshot().assert_same(&before, "the same release");
    // The other lease expires. The expiry does not count as a new lease.
    f.pass(kept.deadline - T0);
    f.ok("EXPIRED");
    let before = server.snapshot();
    assert_eq!(f.ok(&line).int(), due);
    server.snapshot().assert_same(&before, "the same release");
}

#[test]
fn repeated_numbered_add_returns_the_refusals_of_the_budget() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host BUDGET 1");
    let line = format!("ADD crawl SEQ w 1 host {T0} host {T0}");
    let first = f.ok(&line);
    assert_eq!(first, array([int(1), nil()]));
    f.ok("LIMIT host BUDGET 5");
    assert_eq!(f.ok(&line), first);
    assert_eq!(f.total(), 1);
}

#[test]
fn server_out_of_memory_accepts_no_uris_and_lets_workers_continue() {
    let (_server, mut f) = stage();
    add(&mut f, "a", 2);
    add(&mut f, "b", 1);
    ok!(f.wire, "CONFIG", "SET", "maxmemory", 1);
    for line in ["ADD crawl c 0", "ADDURI crawl c 0 0 http://c/"] {
        f.refused(line, "OOM ");
    }
    let a = f.take("a");
    f.ok(format!("EXTEND a {} 1000", a.token));
    let reply = f.ok(redis_tests::release(&a, "DELAY 9 DONE crawl NEXT"));
    assert_eq!(Lease::of(&reply.items()[1]).chg, "b");
    f.ok("WHY a");
    f.ok("DROP crawl");
    ok!(f.wire, "CONFIG", "SET", "maxmemory", 0);
    assert_eq!(f.total(), 0);
}

#[test]
fn stored_delay_is_the_default_and_the_minimum_of_computed_pauses() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host DELAY 30000");
    for (when, pause) in rows![
        "", 30_000; "DELAY 5 ", 5; "ELAPSED 10 ", 30_000; "ELAPSED 40000 ", 40_000;
        "ELAPSED 10 STATUS 503 ", 30_000;
    ] {
        f.add("crawl", "host", 0);
        let lease = f.take("host");
        let now = f.now.expect("simulated time");
        let due = f.release(&lease, format!("{when}DONE crawl"));
        assert_eq!(due - now, pause, "{when}");
        f.pass(pause);
    }
    let stored = f.now.expect("simulated time") + 5;
    f.add("crawl", "host", 0);
    let lease = f.take("host");
    assert_eq!(f.release(&lease, format!("AT {stored} DONE crawl")), stored);
    f.pass(5);
    f.ok("LIMIT host DELAY -1");
    f.add("crawl", "host", 0);
    let lease = f.take("host");
    let error = f.err(format!("RELEASE host {} DONE crawl", lease.token));
    assert!(error.contains("no delay is stored"), "{error}");
    f.release(&lease, "DELAY 0 DONE crawl");
}

#[test]
fn next_of_a_group_leases_that_one_and_only_if_it_is_due() {
    let (_server, mut f) = stage();
    for chg in ["a", "b", "c"] {
        f.add_uri("crawl", chg, T0, 0, "http://h/");
    }
    f.add("crawl", "later", T0 + 100);
    let lease = |reply: redis_tests::Reply| redis_tests::Lease::only(&reply);
    let b = lease(f.ok("NEXT GROUP b"));
    assert_eq!((b.chg.as_str(), b.uri.as_deref()), ("b", Some("http://h/")));
    assert!(f.ok("NEXT GROUP b").is_nil(), "it is leased");
    assert!(f.ok("NEXT GROUP later").is_nil(), "it is not due");
    f.refused("NEXT GROUP nowhere", "NOCHG");
    f.ok("PAUSE c");
    assert!(f.ok("NEXT GROUP c").is_nil(), "it is paused");
    f.ok("RESUME c");
    f.ok("PAUSE");
    assert!(f.ok("NEXT GROUP c").is_nil(), "everything is paused");
    f.ok("RESUME");
    f.ok("SWEEP");
    assert_eq!(f.place("c"), "ready");
    let c = lease(f.ok("NEXT LEASE 50 GROUP c"));
    f.assert_conserved();
    f.pass(50);
    assert_eq!(
        lease(f.ok("NEXT GROUP c")).n,
        c.deadline,
        "its lease expired"
    );
    f.release(&b, "DELAY 1000");
    assert!(f.ok("NEXT GROUP b").is_nil(), "its pause runs");
    f.pass(1000);
    assert_eq!(lease(f.ok("NEXT GROUP b")).chg, "b");
    f.take("a");
}

#[test]
fn next_of_a_group_keeps_to_its_shared_gate() {
    let (_server, mut f) = stage();
    f.ok("GROUP gate a b c");
    for chg in ["a", "b", "c"] {
        f.add("crawl", chg, T0);
    }
    let a = f.take("a");
    f.take_none();
    assert!(
        f.ok("NEXT GROUP c").is_nil(),
        "another group of the gate is leased"
    );
    f.release(&a, "DELAY 1000 DONE crawl");
    f.pass(1000);
    let c = redis_tests::Lease::only(&f.ok("NEXT GROUP c"));
    assert!(
        f.ok("NEXT GROUP b").is_nil(),
        "another group of the gate is leased"
    );
    f.assert_conserved();
    f.release(&c, "AT 0 DONE crawl");
    f.fetch("b", "AT 0 DONE crawl");
}
