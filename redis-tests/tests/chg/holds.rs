//! Blocks and pauses of a group, a crawl or the whole frontier. After them, fetches continue where
//! they stopped.

use crate::stage::{add, plain_stage, real_stage, stage};
use redis_tests::{Lease, T0, int, ok};

#[test]
fn blocked_group_is_leased_when_its_block_ends_and_not_before() {
    let (_server, mut f) = stage();
    add(&mut f, "blocked", 1);
    add(&mut f, "free", 1);
    let reply = f.ok(format!("BLOCK blocked UNTIL {}", T0 + 5000));
    assert_eq!(reply.text(), "OK");
    f.take("free");
    f.take_none();
    assert_eq!(f.state("blocked"), "blocked");
    assert_eq!(f.why("blocked").field("blocked-until"), int(T0 + 5000));
    f.pass(4999);
    f.take_none();
    f.pass(1);
    f.take("blocked");
}

#[test]
fn block_in_the_past_has_no_effect() {
    let (_server, mut f) = stage();
    add(&mut f, "host", 1);
    f.ok(format!("BLOCK host UNTIL {}", T0 + 5000));
    f.take_none();
    f.ok("BLOCK host UNTIL 0");
    f.take("host");
    f.refused("BLOCK nobody UNTIL 0", "NOCHG ");
}

#[test]
fn removed_block_restores_the_previous_due_time() {
    for kept in [false, true] {
        let (_server, mut f) = stage();
        if kept {
            f.add_uri("crawl", "host", T0 + 9000, 0, "a");
        } else {
            f.add("crawl", "host", T0 + 9000);
        }
        for until in [T0 + 5000, T0 + 20_000] {
            f.ok(format!("BLOCK host UNTIL {until}"));
            f.ok("BLOCK host UNTIL 0");
            f.take_none();
            assert_eq!(f.due("host"), Some(T0 + 9000), "kept {kept}, until {until}");
        }
        f.pass(9000);
        f.take("host");
    }
}

#[test]
fn shorter_block_replaces_a_longer_one() {
    let (_server, mut f) = stage();
    add(&mut f, "host", 1);
    f.ok(format!("BLOCK host UNTIL {}", T0 + 9000));
    f.take_none();
    f.ok(format!("BLOCK host UNTIL {}", T0 + 2000));
    f.pass(1999);
    f.take_none();
    f.pass(1);
    f.take("host");
}

#[test]
fn block_holds_a_ready_group_a_leased_one_and_one_that_is_added_to() {
    let (_server, mut f) = stage();
    let until = T0 + 5000;
    add(&mut f, "ready", 1);
    f.ok("SWEEP");
    f.ok(format!("BLOCK ready UNTIL {until}"));
    f.take_none();
    add(&mut f, "leased", 2);
    let lease = f.take("leased");
    f.ok(format!("BLOCK leased UNTIL {until}"));
    assert_eq!(f.place("leased"), "busy", "the worker keeps its lease");
    assert_eq!(f.release(&lease, "AT 0 DONE crawl"), until);
    f.add("crawl", "added", T0 + 9000);
    f.ok(format!("BLOCK added UNTIL {until}"));
    f.add("crawl", "added", T0);
    f.take_none();
    f.now = Some(until - 1);
    f.take_none();
    f.pass(1);
    let mut names: Vec<String> = std::iter::from_fn(|| f.try_take()).map(|l| l.chg).collect();
    names.sort();
    assert_eq!(names, ["added", "leased", "ready"]);
}

#[test]
fn paused_frontier_leases_nothing_and_then_continues() {
    let (_server, mut f) = stage();
    for chg in ["a", "b", "c"] {
        add(&mut f, chg, 1);
    }
    f.ok("PAUSE");
    f.take_none();
    add(&mut f, "d", 1);
    f.pass(5000);
    f.take_none();
    f.ok("RESUME");
    for chg in ["a", "b", "c", "d"] {
        f.take(chg);
    }
}

#[test]
fn unknown_fields_in_the_hash_of_pauses_pause_nothing() {
    let (_server, mut f) = plain_stage();
    add(&mut f, "host", 1);
    ok!(f.wire, "HSET", "{f}:chg_paused", "x", 1);
    f.ok("PAUSE");
    f.ok("RESUME");
    f.take("host");
}

#[test]
fn leases_can_be_released_while_everything_is_paused() {
    let (_server, mut f) = stage();
    add(&mut f, "a", 2);
    add(&mut f, "b", 1);
    let (a, b) = (f.take("a"), f.take("b"));
    f.ok("PAUSE");
    f.release(&a, "AT 0 DONE crawl");
    f.ok(format!("EXTEND b {} 1000", b.token));
    f.pass(1000);
    f.take_none();
    f.ok("RESUME");
    let mut names = [f.try_take(), f.try_take()].map(|l| l.expect("both").chg);
    names.sort();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn paused_group_keeps_its_place() {
    let (_server, mut f) = stage();
    for chg in ["a", "b", "c"] {
        add(&mut f, chg, 1);
        f.pass(1);
    }
    f.ok("PAUSE a");
    assert_eq!(f.state("a"), "paused");
    f.take("b");
    f.ok("RESUME a");
    f.take("a");
    f.take("c");
    f.refused("PAUSE nobody", "NOCHG ");
    f.refused("RESUME nobody", "NOCHG ");
}

#[test]
fn many_paused_groups_do_not_hide_the_one_behind_them() {
    let (_server, mut f) = stage();
    for n in 0..1500 {
        let chg = format!("paused-{n}");
        add(&mut f, &chg, 1);
        f.ok(format!("PAUSE {chg}"));
    }
    f.ok("SWEEP");
    f.pass(1);
    add(&mut f, "free", 1);
    f.take("free");
    f.take_none();
    f.ok("RESUME paused-700");
    f.take("paused-700");
}

#[test]
fn many_paused_groups_do_not_hide_the_one_behind_them_in_real_time() {
    let (_server, mut f) = real_stage();
    f.ok("PAUSE EXECUTION paused");
    for first in 0..20 {
        let groups = (0..1000).map(|n| format!(" {first}-{n} 0"));
        f.ok(format!("ADD paused{}", groups.collect::<String>()));
    }
    f.add("free", "free", 0);
    f.take("free");
    f.take_none();
    f.ok("RESUME EXECUTION paused");
    f.take("0-0");
}

#[test]
fn uri_of_another_execution_makes_a_paused_group_ready() {
    for kept in [false, true] {
        let (_server, mut f) = stage();
        f.ok("PAUSE EXECUTION crawl");
        add(&mut f, "host", 1);
        f.take_none();
        if kept {
            f.add_uri("another", "host", T0, 0, "a");
        } else {
            f.add("another", "host", T0);
        }
        assert_eq!(f.take("host").c, 2, "kept {kept}");
        f.take_none();
    }
}

#[test]
fn paused_execution_holds_its_uris_and_no_others() {
    let (_server, mut f) = stage();
    f.add_uri("held", "both", T0, 0, "of-held");
    f.add_uri("free", "both", T0, 9, "of-free");
    f.add_uri("held", "only-held", T0, 0, "http://only-held/");
    f.add("held", "counted", T0);
    f.ok("PAUSE EXECUTION held");
    let lease = f.take("both");
    assert_eq!(lease.uri.as_deref(), Some("of-free"));
    f.take_none();
    f.release(&lease, "AT 0 DONE free");
    f.take_none();
    f.ok("RESUME EXECUTION held");
    let mut names: Vec<String> = std::iter::from_fn(|| f.try_take()).map(|l| l.chg).collect();
    names.sort();
    assert_eq!(names, ["both", "counted", "only-held"]);
}

#[test]
fn due_uri_makes_a_group_ready_beside_paused_uris() {
    let (_server, mut f) = stage();
    f.add_uri("held", "host", T0, 0, "of-held");
    f.add_uri("free", "host", T0 + 1000, 0, "of-free");
    f.ok("PAUSE EXECUTION held");
    f.take_none();
    f.pass(999);
    f.take_none();
    f.pass(1);
    let lease = f.take("host");
    assert_eq!(lease.uri.as_deref(), Some("of-free"));
    f.release(&lease, "AT 0 DONE free");
    f.take_none();
    f.ok("RESUME EXECUTION held");
    f.take("host");
}

#[test]
fn waiter_wakes_for_a_due_uri_beside_paused_uris() {
    let (_server, mut f) = real_stage();
    let due = f.time() + 200;
    f.ok("PAUSE EXECUTION held");
    f.add_uri("held", "host", 0, 0, "of-held");
    f.add_uri("free", "host", due, 0, "of-free");
    let lease = Lease::only(&f.ok("NEXT BLOCK 5000"));
    assert_eq!(lease.uri.as_deref(), Some("of-free"));
}

#[test]
fn group_is_held_until_both_block_and_pause_end() {
    let (_server, mut f) = stage();
    add(&mut f, "host", 1);
    f.ok("PAUSE host");
    f.ok("PAUSE EXECUTION crawl");
    f.ok("PAUSE");
    f.ok(format!("BLOCK host UNTIL {}", T0 + 100));
    f.pass(100);
    for line in ["RESUME", "RESUME EXECUTION crawl"] {
        f.take_none();
        f.ok(line);
    }
    f.take_none();
    f.ok("RESUME host");
    f.take("host");
}

#[test]
fn dropped_execution_is_not_paused_when_it_is_added_again() {
    let (_server, mut f) = stage();
    f.ok("PAUSE EXECUTION crawl");
    add(&mut f, "host", 1);
    f.take_none();
    f.ok("DROP crawl");
    add(&mut f, "other", 1);
    f.take("other");
}
