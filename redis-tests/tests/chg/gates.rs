//! Tests that the pause between two fetches also applies after a group has lost its last URI.

use crate::stage::stage;
use redis_tests::{Frontier, T0, release};

/// Leases the group that was just added, and releases it without URIs and with a pause until
/// `gate`.
fn emptied(f: &mut Frontier, chg: &str, gate: i64) {
    let now = f.time();
    f.add("crawl", chg, now);
    let lease = f.take(chg);
    assert_eq!(f.release(&lease, format!("AT {gate} DONE crawl")), gate);
}

#[test]
fn release_with_nothing_queued_does_not_requeue() {
    let (_server, mut f) = stage();
    emptied(&mut f, "host", T0 + 2000);
    assert_eq!(f.place("host"), "");
    assert_eq!((f.due("host"), f.count("host")), (Some(T0 + 2000), 0));
    assert_eq!(f.state("host"), "idle");
    assert_eq!(f.ok("SWEEP").ints(), [0, 0]);
    f.take_none();
}

#[test]
fn gate_outlives_the_last_uri() {
    let (_server, mut f) = stage();
    emptied(&mut f, "host", T0 + 2000);
    f.pass(1);
    assert_eq!(f.add("crawl", "host", T0), 1);
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 2000)]);
    assert_eq!(f.due("host"), Some(T0 + 2000));
    f.pass(1998);
    f.take_none();
    f.pass(1);
    assert_eq!(f.take("host").n, T0 + 2000);
}

#[test]
fn uri_for_later_than_the_gate_waits_for_its_own_time() {
    let (_server, mut f) = stage();
    emptied(&mut f, "host", T0 + 2000);
    f.add("crawl", "host", T0 + 5000);
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 5000)]);
    f.add("crawl", "host", T0 + 1000);
    assert_eq!(
        f.wait(),
        [("host".to_owned(), T0 + 2000)],
        "the group is not due before its gate opens"
    );
}

#[test]
fn hash_of_an_empty_group_is_deleted_after_its_gate() {
    let (server, mut f) = stage();
    emptied(&mut f, "host", T0 + 2000);
    f.pass(1999);
    f.take_none();
    assert!(f.exists("host"));
    f.pass(1);
    f.take_none();
    assert!(!f.exists("host"));
    assert_eq!(f.ok("CHECK").field("groups").int(), 0);
    let left = server.snapshot().names();
    assert!(!left.iter().any(|key| key.contains("host")), "{left:?}");
    // URIs may be added to the group again, and the group is due immediately.
    let now = f.time();
    f.add("crawl", "host", now);
    f.take("host");
}

#[test]
fn empty_group_without_a_pause_is_deleted_at_once() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0);
    f.fetch("host", "AT 0 DONE crawl");
    f.take_none();
    assert!(!f.exists("host"));
}

#[test]
fn hashes_of_many_empty_groups_are_deleted_without_a_sweep() {
    let (_server, mut f) = stage();
    for n in 0..2000 {
        emptied(&mut f, &format!("host-{n}"), T0 + 1000 + n % 7);
    }
    let counted = |f: &mut Frontier| f.read(&["DBSIZE"]).int();
    assert!(counted(&mut f) >= 2000);
    f.pass(2000);
    // Each command on a busy frontier deletes a few idle groups.
    for n in 0..2000 {
        if n % 100 == 0 && counted(&mut f) < 20 {
            break;
        }
        let now = f.time();
        emptied(&mut f, "busy", now);
    }
    assert!(counted(&mut f) < 20, "{} keys are left", counted(&mut f));
}

#[test]
fn earlier_time_makes_a_waiting_group_due_earlier() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0 + 9000);
    f.add("crawl", "host", T0 + 12_000);
    assert_eq!(f.due("host"), Some(T0 + 9000), "never back");
    f.add("crawl", "host", T0 + 100);
    assert_eq!(f.due("host"), Some(T0 + 100));
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 100)]);
    f.pass(100);
    assert_eq!(f.take("host").c, 3);
}

#[test]
fn earlier_time_does_not_make_a_group_due_before_its_gate() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD crawl host {T0} host {T0}"));
    let lease = f.take("host");
    assert_eq!(f.release(&lease, "DELAY 3000 DONE crawl"), T0 + 3000);
    f.pass(10);
    assert_eq!(f.add("crawl", "host", 0), 2);
    assert_eq!(f.due("host"), Some(T0 + 3000));
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 3000)]);
    f.pass(2989);
    f.take_none();
    f.pass(1);
    f.take("host");
}

#[test]
fn time_in_the_past_becomes_now() {
    let (_server, mut f) = stage();
    for (chg, at) in [("zero", 0), ("past", T0 - 1), ("now", T0)] {
        f.add("crawl", chg, at);
        assert_eq!(f.due(chg), Some(T0), "{chg}");
    }
    for chg in ["zero", "past", "now"] {
        assert_eq!(f.take(chg).n, T0);
    }
}

#[test]
fn release_for_the_past_makes_the_group_ready() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0);
    for when in ["AT 0", "DELAY 0", &format!("AT {T0}")] {
        let lease = f.take("host");
        let due = f.release(&lease, when);
        assert!(due <= T0, "{when}: {due}");
        assert_eq!(f.due("host"), Some(due), "{when}");
        assert_eq!(f.ready(), ["host"], "{when}");
    }
}

#[test]
fn release_for_later_waits_until_exactly_that_time() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0);
    for when in ["AT", "DELAY"] {
        let lease = f.take("host");
        let due = f.time() + 1500;
        let argument = if when == "AT" { due } else { 1500 };
        assert_eq!(f.release(&lease, format!("{when} {argument}")), due);
        assert_eq!(f.due("host"), Some(due));
        assert_eq!(f.wait(), [("host".to_owned(), due)]);
        f.pass(1499);
        f.take_none();
        f.pass(1);
    }
    f.take("host");
}

#[test]
fn release_without_done_leaves_the_counts() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0);
    f.fetch("host", "AT 0");
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (1, 1, 1));
}

#[test]
fn retry_of_the_only_uri_is_for_its_own_time() {
    let (_server, mut f) = stage();
    f.add("crawl", "host", T0);
    let lease = f.take("host");
    let retry = format!("DELAY 1000 RETRY {}", T0 + 8000);
    assert_eq!(f.release(&lease, retry), T0 + 8000);
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 8000)]);
    // The pause is the requested one: after it, another URI may be fetched.
    f.add("crawl", "host", T0);
    assert_eq!(f.due("host"), Some(T0 + 1000));
    f.pass(1000);
    let lease = f.take("host");
    assert_eq!(
        f.release(&lease, format!("DELAY 500 RETRY {T0}")),
        T0 + 1500
    );
    assert_eq!(f.count("host"), 2);
}

#[test]
fn release_sent_again_after_uris_were_added_still_changes_nothing() {
    let (server, mut f) = stage();
    f.add("crawl", "host", T0);
    let lease = f.take("host");
    let line = release(&lease, "DELAY 2000 DONE crawl");
    let due = f.ok(&line).int();
    f.add("crawl", "host", T0 + 7000);
    f.add("crawl", "host", T0);
    let before = server.snapshot();
    assert_eq!(f.ok(&line).int(), due);
    server.snapshot().assert_same(&before, "the same release");
}
