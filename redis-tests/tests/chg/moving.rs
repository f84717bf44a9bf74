//! Moving the URIs of one group to another, and dropping a whole crawl.

use crate::stage::{add, add_thousands, stage};
use redis_tests::{Frontier, T0, ok, simulated, until};

#[test]
fn move_moves_everything_that_is_queued() {
    let (_server, mut f) = stage();
    f.add("one", "from", T0 + 1000);
    f.add_uri("two", "from", T0 + 2000, 0, "a");
    f.add_uri("two", "to", T0 + 3000, 0, "b");
    assert_eq!(f.ok("MOVE from to").ints(), [2, 3]);
    assert_eq!(f.sums(), [3, 3, 3]);
    assert_eq!((f.count("from"), f.count("to")), (0, 3));
    assert_eq!((f.queued("one"), f.queued("two")), (1, 2));
    assert_eq!(f.place("from"), "");
    assert_eq!(f.due("to"), Some(T0 + 1000));
    f.pass(3000);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let lease = f.take("to");
        let execution = lease.execution.clone().unwrap_or("one".into());
        f.release(&lease, format!("AT 0 DONE {execution}"));
        seen.push(lease.uri.unwrap_or_default());
    }
    seen.sort();
    assert_eq!(seen, ["", "a", "b"]);
}

#[test]
fn pause_moves_also_when_nothing_is_queued() {
    for known in [false, true] {
        let (_server, mut f) = stage();
        if known {
            f.ok("LIMIT to GAP 1");
        }
        add(&mut f, "from", 1);
        f.fetch("from", "DELAY 1000 DONE crawl");
        assert_eq!(f.ok("MOVE from to").ints(), [0, 0]);
        add(&mut f, "to", 1);
        f.pass(999);
        f.take_none();
        f.pass(1);
        f.take("to");
        f.assert_conserved();
    }
}

#[test]
fn leases_that_ran_out_count_in_a_row_while_the_group_is_known() {
    // If its pause is still running, a group is kept. Otherwise, it is deleted with its URIs.
    for (gap, times) in [(5000, 2), (0, 1)] {
        let (_server, mut f) = stage();
        f.ok(format!("LIMIT from GAP {gap}"));
        add(&mut f, "from", 1);
        let ran_out = |f: &mut Frontier| {
            let lease = f.ok("NEXT LEASE 1000");
            assert_eq!(lease.items().len(), 1);
            f.pass(1000);
            f.ok("EXPIRED").items()[0].items()[3].int()
        };
        assert_eq!(ran_out(&mut f), 1);
        assert_eq!(f.ok("MOVE from to").ints(), [1, 1]);
        f.ok("PAUSE to");
        add(&mut f, "from", 1);
        f.pass(gap);
        assert_eq!(ran_out(&mut f), times);
    }
}

#[test]
fn moved_group_keeps_the_later_of_both_gates() {
    for (from, to) in [(4000, 1000), (1000, 4000)] {
        let (_server, mut f) = stage();
        add(&mut f, "from", 2);
        add(&mut f, "to", 2);
        let leases = [f.take("from"), f.take("to")];
        f.release(&leases[0], format!("DELAY {from} DONE crawl"));
        f.release(&leases[1], format!("DELAY {to} DONE crawl"));
        assert_eq!(f.ok("MOVE from to").ints(), [1, 2]);
        assert_eq!(f.due("to"), Some(T0 + 4000));
        f.pass(3999);
        f.take_none();
        f.pass(1);
        f.take("to");
        f.assert_conserved();
    }
}

#[test]
fn move_into_a_leased_group_leaves_its_lease() {
    let (_server, mut f) = stage();
    add(&mut f, "to", 1);
    let to = f.take("to");
    add(&mut f, "from", 2);
    assert_eq!(f.ok("MOVE from to").ints(), [2, 3]);
    f.take_none();
    f.release(&to, "AT 0 DONE crawl");
    assert_eq!(f.take("to").c, 2);
}

#[test]
fn same_uri_in_both_groups_is_counted_once_after_a_move() {
    let (_server, mut f) = stage();
    for chg in ["from", "to"] {
        f.add_uri("crawl", chg, T0, 0, "http://same/");
    }
    let reply = f.ok("MOVE from to").ints();
    assert_eq!(reply[1], f.count("to"));
    f.assert_conserved();
    f.fetch("to", "AT 0 DONE crawl");
    f.take_none();
    assert_eq!(f.total(), 0);
}

#[test]
fn invalid_moves_are_refused() {
    let (server, mut f) = stage();
    add(&mut f, "leased", 2);
    f.take("leased");
    add(&mut f, "host", 1);
    let before = server.snapshot();
    for (line, code) in [
        ("MOVE leased host", "LEASED "),
        ("MOVE nobody host", "NOCHG "),
        ("MOVE host host", "ERR "),
    ] {
        f.refused(line, code);
        server.snapshot().assert_same(&before, line);
    }
    assert_eq!(f.ok("MOVE host new").ints(), [1, 1]);
    f.take("new");
}

#[test]
fn drop_takes_one_execution_out_of_every_group() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD gone a {T0} a {T0} b {T0} c {}", T0 + 500));
    f.ok(format!("ADD stays a {T0} d {T0}"));
    f.add_uri("gone", "kept", T0, 0, "u1");
    f.add_uri("stays", "kept", T0, 0, "u2");
    assert_eq!(f.ok("DROP gone").ints(), [4, 5]);
    assert_eq!(f.sums(), [3, 3, 3]);
    assert_eq!((f.queued("gone"), f.queued("stays")), (0, 3));
    let mut names: Vec<String> = std::iter::from_fn(|| f.try_take()).map(|l| l.chg).collect();
    names.sort();
    assert_eq!(names, ["a", "d", "kept"]);
    f.pass(1000);
    f.take_none();
    assert_eq!(f.ok("DROP gone").ints(), [0, 0]);
    assert_eq!(f.ok("DROP nobody").ints(), [0, 0]);
}

#[test]
fn dropped_execution_keeps_the_pause_of_a_current_fetch() {
    let (_server, mut f) = stage();
    f.add_uri("gone", "kept", T0, 0, "u1");
    add(&mut f, "counted", 1);
    let kept = f.take("kept");
    let counted = f.take("counted");
    f.ok("DROP gone");
    f.ok("DROP crawl");
    assert_eq!(f.sums(), [0, 0, 0]);
    for chg in ["kept", "counted"] {
        assert_eq!(
            f.place(chg),
            "busy",
            "{chg}: a worker still holds the lease"
        );
    }
    assert_eq!(f.release(&kept, "DELAY 1000 DONE gone"), T0 + 1000);
    assert_eq!(f.release(&counted, "DELAY 1000 DONE crawl"), T0 + 1000);
    assert_eq!(f.sums(), [0, 0, 0]);
    f.add("another", "kept", T0);
    assert_eq!(f.due("kept"), Some(T0 + 1000));
}

#[test]
fn large_drop_is_a_job() {
    let (server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add_thousands(&mut f, "gone", 30);
    f.ok(format!("ADD stays host-0-0 {T0} host-29-999 {T0}"));
    let slices = server.info_number("slices");
    let mut dropper = Frontier::at(&server, T0);
    dropper.send("DROP gone");
    let mut pings = 0;
    while !dropper.wire.has_reply() {
        ok!(f.wire, "PING");
        pings += 1;
    }
    assert_eq!(dropper.wire.recv().ints(), [30_000, 30_000]);
    assert!(pings > 20, "only {pings} PINGs were served");
    assert!(server.info_number("slices") - slices > 20);
    assert_eq!(f.sums(), [2, 2, 2]);
    f.take("host-0-0");
    f.take("host-29-999");
    f.take_none();
}

#[test]
fn large_drop_outlives_its_client_and_can_be_asked_for_again() {
    let (server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add_thousands(&mut f, "gone", 20);
    let mut dropper = Frontier::at(&server, T0);
    dropper.send("DROP gone");
    until("the drop is under way", || f.figure("uris") < 20_000);
    dropper.wire.hang_up();
    f.ok("DROP gone");
    assert_eq!(f.sums(), [0, 0, 0]);
    f.take_none();
}

#[test]
fn drop_leaves_a_writer_free_to_begin_again() {
    let (_server, mut f) = stage();
    f.ok(format!("ADD gone SEQ w 9 host {T0}"));
    f.ok("DROP gone");
    // The writers' numbers were dropped with the execution.
    assert_eq!(f.ok(format!("ADD gone SEQ w 1 host {T0}")).ints(), [1]);
    f.take("host");
}

#[test]
fn moved_uris_keep_their_attempts_and_weights() {
    let (_server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 2);
    f.add_uri("crawl", "from", T0, 0, "poison");
    f.ok("NEXT LEASE 100");
    f.pass(100);
    f.ok("SWEEP");
    assert_eq!(f.ok("MOVE from to").ints(), [1, 1]);
    f.ok("NEXT LEASE 100");
    f.pass(100);
    f.take_none();
    assert_eq!(
        f.total(),
        0,
        "the URI is given up after its second lease expired"
    );
}

#[test]
fn move_of_several_into_a_leased_group_queues_it() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 3");
    add(&mut f, "host", 1);
    let first = f.take("host");
    f.ok("DROP crawl");
    let now = f.time();
    f.ok(format!("ADD other from {now} from {now}"));
    assert_eq!(f.ok("MOVE from host").ints(), [2, 2]);
    let second = f.take("host");
    f.release(&first, "AT 0");
    f.release(&second, "AT 0 DONE other");
    f.fetch("host", "AT 0 DONE other");
    f.take_none();
    assert_eq!(f.total(), 0);
}

#[test]
fn move_of_a_full_batch_leaves_nothing_behind_in_the_queues() {
    let server = simulated().start();
    for uris in [63, 64, 65, 128] {
        let mut f = Frontier::at(&server, T0);
        ok!(f.wire, "FLUSHALL");
        for n in 0..uris {
            f.add_uri("crawl", "from", T0, 0, &format!("https://host/{n}"));
        }
        f.ok("SWEEP");
        assert_eq!(f.ready(), ["from"]);
        assert_eq!(f.ok("MOVE from to").ints(), [uris, uris]);
        assert!(f.ready().is_empty(), "{uris}");
        f.take("to");
        f.take_none();
        f.assert_conserved();
    }
}

#[test]
fn expired_lease_ends_with_the_move() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "from", 0, 0, "a");
    f.ok("NEXT LEASE 1000");
    f.pass(999);
    f.refused("MOVE from to", "LEASED ");
    f.pass(1);
    assert_eq!(f.ok("MOVE from to").ints(), [1, 1]);
    // The expired lease is reported as usual.
    let expired = f.ok("EXPIRED");
    assert_eq!(expired.items()[0].items()[0].text(), "from");
    assert_eq!(f.take("to").uri.as_deref(), Some("a"));
    f.assert_conserved();
}

#[test]
fn moved_url_keeps_the_time_of_its_last_change() {
    let mut server = simulated().packed().aof_unsynced(false).start();
    let mut f = Frontier::at(&server, T0);
    f.ok("DISCOVER crawl URI ITEMS 1 from 0 0 u");
    let known = f.ok("KNOWN crawl u");
    server.kill9();
    server.restart();
    let mut f = Frontier::at(&server, T0 + 7_200_000);
    assert_eq!(f.ok("MOVE from to").ints(), [1, 1]);
    assert_eq!(f.ok("KNOWN crawl u"), known);
}
