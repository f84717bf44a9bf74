//! A gate that many groups share: while one of them is leased, no other group is leased.

use crate::stage::{Audited, add, plain_stage, real_stage, stage};
use redis_tests::{Frontier, LEASE, Lease, Server, T0, ok};

#[test]
fn members_of_a_group_share_one_gate() {
    let (_server, mut f) = stage();
    assert_eq!(f.ok("GROUP shared a b c").text(), "OK");
    for chg in ["a", "b", "c", "d"] {
        add(&mut f, chg, 2);
    }
    let a = f.take("a");
    f.take("d");
    f.take_none();
    assert_eq!(f.state("b"), "gated");
    assert_eq!(f.why("b").field("group").text(), "shared");
    assert_eq!(f.release(&a, "DELAY 1000 DONE crawl"), T0 + 1000);
    f.pass(999);
    f.take_none();
    f.pass(1);
    let b = f.take("b");
    f.take_none();
    f.release(&b, "DELAY 1000 DONE crawl");
    f.pass(1000);
    f.take("c");
    f.take_none();
}

#[test]
fn members_take_turns() {
    take_turns(false);
}

#[test]
fn members_take_turns_when_others_ask_meanwhile() {
    take_turns(true);
}

fn take_turns(asked_meanwhile: bool) {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b");
    add(&mut f, "a", 9);
    add(&mut f, "b", 9);
    let mut order = Vec::new();
    for _ in 0..6 {
        let lease = f.try_take().expect("one of them");
        if asked_meanwhile {
            f.take_none();
        }
        f.release(&lease, "DELAY 100 DONE crawl");
        order.push(lease.chg);
        f.pass(100);
    }
    assert_eq!(order, ["a", "b", "a", "b", "a", "b"]);
}

#[test]
fn one_of_many_gated_members_waits_for_the_gate() {
    let (_server, mut f) = stage();
    let members: Vec<String> = (0..200).map(|n| format!("m{n:03}")).collect();
    f.ok(format!("GROUP shared {}", members.join(" ")));
    for chg in &members {
        add(&mut f, chg, 1);
    }
    let first = f.take("m000");
    f.take_none();
    f.release(&first, "DELAY 1000 DONE crawl");
    f.take_none();
    assert_eq!(f.wait().len(), 1, "{:?}", f.wait());
    assert_eq!(f.wait()[0].1, T0 + 1000);
    assert_eq!((f.ready().len(), f.busy().len()), (0, 0));
    // All members are leased one after the other, in order.
    for chg in &members[1..] {
        f.pass(1000);
        let lease = f.take(chg);
        f.take_none();
        f.release(&lease, "DELAY 1000 DONE crawl");
        assert!(f.wait().len() <= 1, "{:?}", f.wait());
    }
    assert_eq!(f.total(), 0);
}

#[test]
fn lease_that_runs_out_does_not_requeue_all_that_stand_behind_the_gate() {
    for leaves in [false, true] {
        let (_server, mut f) = stage();
        let members: Vec<String> = (0..50).map(|n| format!("m{n:03}")).collect();
        f.ok(format!("GROUP shared {}", members.join(" ")));
        // URIs are added long after the last pause behind this gate.
        f.pass(60_000);
        let now = f.time();
        for chg in &members {
            f.add_uri("crawl", chg, now, 0, "u");
        }
        assert_eq!(Lease::only(&f.ok("NEXT LEASE 1000")).chg, "m000");
        f.take_none();
        let behind = f.key("chg_gated:shared");
        let len = |f: &mut Frontier| f.read(&["LLEN", &behind]).int();
        assert_eq!(len(&mut f), 48);
        if leaves {
            f.ok("GROUP other m000");
        } else {
            f.pass(1000);
        }
        f.take("m001");
        assert_eq!(len(&mut f), 47);
        assert_eq!(f.wait().len(), 1, "{:?}", f.wait());
        f.assert_conserved();
    }
}

#[test]
fn member_that_leaves_is_independent_again() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b");
    add(&mut f, "a", 1);
    add(&mut f, "b", 1);
    let a = f.take("a");
    f.take_none();
    // The name of the gate is empty.
    f.ok("GROUP  b");
    f.take("b");
    f.release(&a, "AT 0 DONE crawl");
}

#[test]
fn member_with_a_lease_that_ended_opens_the_gate() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b");
    add(&mut f, "a", 1);
    add(&mut f, "b", 1);
    assert_eq!(Lease::only(&f.ok("NEXT LEASE 100")).chg, "a");
    f.take_none();
    f.pass(100);
    let mut names = Vec::new();
    let lease = f.try_take().expect("one of the two groups is leased");
    names.push(lease.chg.clone());
    f.take_none();
    f.release(&lease, "AT 0 DONE crawl");
    names.push(f.try_take().expect("the other").chg);
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn member_that_leaves_a_closed_gate_is_due_as_if_there_had_been_none() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b");
    let now = f.time();
    f.add_uri("crawl", "a", now, 0, "1");
    f.add_uri("crawl", "b", now, 0, "1");
    f.take("a");
    f.take_none();
    // The URI is due before the gate opens, but after the queued one.
    f.add_uri("crawl", "b", now + 50, 0, "2");
    f.pass(10);
    f.ok("GROUP  b");
    f.take("b");
}

#[test]
fn leased_group_may_join_a_group() {
    let (_server, mut f) = stage();
    add(&mut f, "a", 1);
    let a = f.take("a");
    f.ok("GROUP shared a b");
    add(&mut f, "b", 1);
    f.take_none();
    f.release(&a, "DELAY 500 DONE crawl");
    f.take_none();
    f.pass(500);
    f.take("b");
}

/// Creates a closed gate: `a` is leased, `b` waits as the representative of the gate, and `c` and
/// `d` are queued behind the gate.
fn closed() -> (Server, Audited, Lease) {
    closed_on(stage())
}

/// Creates the same as [`closed`], in plain storage.
fn plain_closed() -> (Server, Audited, Lease) {
    closed_on(plain_stage())
}

fn closed_on((server, mut f): (Server, Audited)) -> (Server, Audited, Lease) {
    f.ok("GROUP shared a b c d");
    for chg in ["a", "b", "c", "d"] {
        add(&mut f, chg, 1);
    }
    let a = f.take("a");
    f.take_none();
    (server, f, a)
}

#[test]
fn member_that_is_held_back_does_not_hold_back_the_next_ones() {
    for line in [
        "PAUSE b".to_owned(),
        format!("BLOCK b UNTIL {}", T0 + 600_000),
        "MOVE b elsewhere".to_owned(),
        // The name of the gate is empty.
        "GROUP  b".to_owned(),
    ] {
        let (_server, mut f, a) = closed();
        f.ok(&line);
        f.release(&a, "DELAY 1000 DONE crawl");
        f.pass(1000);
        let mut names = Vec::new();
        for _ in 0..4 {
            if let Some(lease) = f.try_take() {
                f.release(&lease, "DELAY 1000 DONE crawl");
                names.push(lease.chg);
            }
            f.pass(1000);
        }
        names.retain(|chg| chg == "c" || chg == "d");
        assert_eq!(names, ["c", "d"], "{line}");
        f.assert_conserved();
    }
}

#[test]
fn next_member_waits_for_the_gate_when_the_first_one_is_dropped() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b c");
    add(&mut f, "a", 1);
    f.add("dropped", "b", T0);
    add(&mut f, "c", 1);
    let a = f.take("a");
    f.take_none();
    f.ok("DROP dropped");
    f.release(&a, "DELAY 1000 DONE crawl");
    f.pass(1000);
    f.take("c");
}

#[test]
fn member_of_a_paused_execution_does_not_block_the_others() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b c");
    add(&mut f, "a", 1);
    f.add("paused", "b", T0);
    add(&mut f, "c", 1);
    let a = f.take("a");
    f.take_none();
    f.ok("PAUSE EXECUTION paused");
    f.release(&a, "DELAY 1000 DONE crawl");
    f.pass(1000);
    f.take("c");
}

#[test]
fn member_deleted_by_a_plain_client_is_replaced_after_repair() {
    let (_server, mut f, a) = plain_closed();
    for key in ["CHG:b", "chg_wait"] {
        let key = f.key(key);
        ok!(f.wire, "DEL", key);
    }
    f.release(&a, "DELAY 1000 DONE crawl");
    f.ok("REPAIR");
    f.assert_conserved();
    f.pass(1000);
    let mut names = Vec::new();
    while let Some(lease) = f.try_take() {
        f.release(&lease, "DELAY 1000 DONE crawl");
        names.push(lease.chg);
        f.pass(1000);
    }
    names.sort();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(f.total(), 0);
}

#[test]
fn lost_gate_is_repaired() {
    for keys in [
        &["chg_gate:shared"][..],
        &["chg_gated:shared"],
        &["chg_gate:shared", "chg_gated:shared"],
    ] {
        let (_server, mut f, a) = plain_closed();
        for key in keys {
            let key = f.key(key);
            ok!(f.wire, "DEL", key);
        }
        f.ok("REPAIR");
        f.assert_conserved();
        assert_eq!(f.ok("CHECK").field("problems-total").int(), 0, "{keys:?}");
        f.release(&a, "DELAY 1000 DONE crawl");
        let mut names = Vec::new();
        for _ in 0..10 {
            // The time is long enough for the client that waits for the expired lease.
            f.pass(600_000);
            while let Some(lease) = f.try_take() {
                f.release(&lease, "DELAY 1000 DONE crawl");
                names.push(lease.chg);
            }
        }
        names.sort();
        assert_eq!(names, ["b", "c", "d"], "{keys:?}");
        f.assert_conserved();
    }
}

#[test]
fn group_may_change_its_gate() {
    let (_server, mut f, a) = closed();
    f.ok("GROUP another c");
    f.take("c");
    f.take_none();
    f.release(&a, "AT 0 DONE crawl");
    f.take("b");
    f.take_none();
    assert_eq!(f.why("c").field("group").text(), "another");
}

#[test]
fn gate_holds_for_uris_that_come_while_it_is_closed() {
    let (_server, mut f, a) = closed();
    f.ok("GROUP shared late");
    add(&mut f, "late", 1);
    f.take_none();
    f.release(&a, "DELAY 1000 DONE crawl");
    f.take_none();
    for chg in ["b", "c", "d", "late"] {
        f.pass(1000);
        let lease = f.take(chg);
        f.take_none();
        f.release(&lease, "DELAY 1000 DONE crawl");
    }
}

#[test]
fn gate_is_respected_for_blocking_clients() {
    let (_server, mut f) = real_stage();
    f.ok("GROUP shared a b c d e");
    f.ok("ADD crawl a 0 b 0 c 0 d 0 e 0");
    let mut last = 0;
    let mut names = Vec::new();
    for _ in 0..5 {
        let lease = Lease::only(&f.ok("NEXT BLOCK 5000"));
        let granted = lease.deadline - LEASE;
        assert!(granted >= last + 30, "{} ms after the last", granted - last);
        last = f.release(&lease, "DELAY 30 DONE crawl") - 30;
        names.push(lease.chg);
    }
    assert_eq!(names, ["a", "b", "c", "d", "e"]);
}

#[test]
fn gate_of_groups_that_were_leased_before_stays_closed_for_all_their_leases() {
    let (_server, mut f) = stage();
    add(&mut f, "a", 2);
    add(&mut f, "b", 1);
    let (a, b) = (f.take("a"), f.take("b"));
    f.ok("GROUP late a b c");
    add(&mut f, "c", 1);
    f.pass(1);
    f.release(&a, "DELAY 10 DONE crawl");
    f.pass(19);
    // `b` is still leased.
    f.take_none();
    f.release(&b, "DELAY 0 DONE crawl");
    let next = f.try_take().expect("the gate is open");
    assert!(["a", "c"].contains(&&next.chg[..]));
}

#[test]
fn longest_pause_behind_a_gate_counts() {
    let (_server, mut f) = stage();
    f.ok("GROUP late c d");
    add(&mut f, "a", 1);
    add(&mut f, "c", 1);
    let (a, c) = (f.take("a"), f.take("c"));
    f.ok("GROUP late a");
    add(&mut f, "d", 1);
    f.release(&c, "DELAY 30000 DONE crawl");
    f.pass(1);
    f.release(&a, "DELAY 0 DONE crawl");
    f.pass(29_998);
    f.take_none();
    f.pass(1);
    f.take("d");
}

#[test]
fn extension_of_a_short_lease_does_not_open_the_gate_of_a_longer_one() {
    let (_server, mut f) = stage();
    add(&mut f, "a", 1);
    add(&mut f, "b", 1);
    let (_a, b) = (f.take("a"), f.take("b"));
    f.ok("GROUP late a b c");
    add(&mut f, "c", 1);
    f.ok(format!("EXTEND b {} 100", b.token));
    f.pass(200);
    // The lease of `b` has expired, and `b` is due again. `a` keeps the gate closed for ten
    // minutes.
    f.take_none();
}

#[test]
fn member_that_was_just_fetched_comes_after_the_waiting_ones() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared m0 m1 m2");
    for chg in ["m0", "m0", "m1", "m2"] {
        add(&mut f, chg, 1);
    }
    let mut order = Vec::new();
    for _ in 0..4 {
        let lease = f.try_take().expect("one of them");
        f.pass(1);
        f.release(&lease, "DELAY 100 DONE crawl");
        f.pass(1);
        f.take_none();
        f.pass(99);
        order.push(lease.chg);
    }
    assert_eq!(order, ["m0", "m1", "m2", "m0"]);
}

#[test]
fn broken_key_of_a_gate_stops_a_release_before_anything_is_written() {
    let (server, mut f) = plain_stage();
    f.ok("GROUP shared a b");
    add(&mut f, "a", 2);
    add(&mut f, "b", 1);
    let a = f.take("a");
    f.take_none();
    let gate = f.key("chg_gate:shared");
    ok!(f.wire, "DEL", gate);
    ok!(f.wire, "SET", gate, "x");
    let before = server.digest();
    f.refused(
        format!("RELEASE a {} DELAY 500 DONE crawl", a.token),
        "WRONGTYPE ",
    );
    assert_eq!(server.digest(), before);
    ok!(f.wire, "DEL", gate);
    f.release(&a, "DELAY 500 DONE crawl");
}
