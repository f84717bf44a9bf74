//! Holding groups back: blocks, pauses, limits, shared gates; moving and dropping what is queued.

use redis_tests::{array, int, nil, ok, simulated, until, Frontier, Lease, Server, T0};

fn stage() -> (Server, Frontier) {
    let server = simulated().start();
    let frontier = Frontier::at(&server, T0);
    (server, frontier)
}

/// `uris` URIs for a group, due now.
fn add(f: &mut Frontier, chg: &str, uris: usize) {
    let now = f.time();
    f.ok(format!("ADD crawl{}", format!(" {chg} {now}").repeat(uris)));
}

// Blocks.

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
    f.assert_conserved();
}

#[test]
fn block_that_has_passed_is_none() {
    let (_server, mut f) = stage();
    add(&mut f, "host", 1);
    f.ok(format!("BLOCK host UNTIL {}", T0 + 5000));
    f.take_none();
    f.ok("BLOCK host UNTIL 0");
    f.take("host");
    assert!(f.err("BLOCK nobody UNTIL 0").starts_with("NOCHG "));
}

#[test]
fn block_that_is_taken_away_leaves_the_due_time_that_was_before() {
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
    assert_eq!(f.place("leased"), "busy", "whoever has it keeps it");
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
    f.assert_conserved();
}

// Pauses.

#[test]
fn paused_frontier_leases_nothing_and_goes_on_where_it_was() {
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
fn what_a_plain_client_wrote_among_the_pauses_pauses_nothing() {
    let (_server, mut f) = stage();
    add(&mut f, "host", 1);
    ok!(f.wire, "HSET", "{f}:chg_paused", "x", 1);
    f.ok("PAUSE");
    f.ok("RESUME");
    f.take("host");
}

#[test]
fn leases_end_well_while_all_is_paused() {
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
    f.assert_conserved();
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
    assert!(f.err("PAUSE nobody").starts_with("NOCHG "));
    assert!(f.err("RESUME nobody").starts_with("NOCHG "));
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
    let server = Server::start();
    let mut f = Frontier::real(&server);
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
fn uri_of_another_execution_brings_a_paused_group_up() {
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
    f.assert_conserved();
}

// Limits.

#[test]
fn parallel_group_is_leased_as_often_as_it_says() {
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
    // A lease that ends makes room as well; the others stay.
    f.pass(1000);
    leases.retain(|lease| lease.deadline > T0 + 1000);
    assert_eq!(leases.len(), 2);
    leases.push(f.take("host"));
    f.take_none();
    for lease in leases {
        f.release(&lease, "AT 0 DONE crawl");
    }
    assert_eq!(f.count("host"), 5);
    f.assert_conserved();
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
fn limit_lowered_below_the_leases_that_are_out_takes_none_away() {
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
    f.assert_conserved();
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
            // A quick fetch does not shorten it.
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
    // A fetch that took longer than the gap leaves no pause of it.
    f.pass(900);
    f.release(&lease, "AT 0 DONE crawl");
    f.take("slow");
}

#[test]
fn budget_is_how_many_uris_a_group_takes() {
    let (_server, mut f) = stage();
    assert_eq!(f.ok("LIMIT host BUDGET 3").text(), "OK");
    let line = format!("ADD crawl host {T0} other {T0} host {T0} host {T0} host {T0}");
    assert_eq!(f.ok(&line), array([int(1), int(1), int(2), int(3), nil()]));
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (3, 4, 4));
    assert_eq!(f.why("host").field("budget"), int(0));
    let lease = f.take("host");
    f.release(&lease, "AT 0 DONE crawl");
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
    f.assert_conserved();
}

#[test]
fn uri_that_is_there_already_spends_no_budget() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host BUDGET 2");
    for _ in 0..3 {
        assert_eq!(f.add_uri("crawl", "host", T0, 0, "a"), 1);
    }
    assert_eq!(f.add_uri("crawl", "host", T0, 0, "b"), 2);
    let line = format!("ADDURI crawl host {T0} 0 c host {T0} 0 a");
    assert_eq!(f.ok(line), array([nil(), int(2)]));
    f.assert_conserved();
}

#[test]
fn limits_come_before_the_first_uri_and_outlive_the_last() {
    let (_server, mut f) = stage();
    f.ok("LIMIT host PARALLEL 2 BUDGET 3");
    assert_eq!(f.place("host"), "");
    f.take_none();
    for _ in 0..2 {
        let now = f.time();
        f.add("crawl", "host", now);
        let lease = f.take("host");
        f.release(&lease, "DELAY 10 DONE crawl");
        f.pass(10_000);
        f.take_none();
    }
    let now = f.time();
    let line = format!("ADD crawl host {now} host {now}");
    assert_eq!(f.ok(line), array([int(1), nil()]));
    assert_eq!(f.why("host").field("parallel"), int(2));
    f.assert_conserved();
}

// Shared gates.

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
    f.assert_conserved();
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
    f.assert_conserved();
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
    // All of them come, one after the other, in order.
    for chg in &members[1..] {
        f.pass(1000);
        let lease = f.take(chg);
        f.take_none();
        f.release(&lease, "DELAY 1000 DONE crawl");
        assert!(f.wait().len() <= 1, "{:?}", f.wait());
    }
    assert_eq!(f.total(), 0);
    f.assert_conserved();
}

#[test]
fn member_that_leaves_is_its_own_again() {
    let (_server, mut f) = stage();
    f.ok("GROUP shared a b");
    add(&mut f, "a", 1);
    add(&mut f, "b", 1);
    let a = f.take("a");
    f.take_none();
    // The empty name.
    f.ok("GROUP  b");
    f.take("b");
    f.release(&a, "AT 0 DONE crawl");
    f.assert_conserved();
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
    let lease = f.try_take().expect("one of the two");
    names.push(lease.chg.clone());
    f.take_none();
    f.release(&lease, "AT 0 DONE crawl");
    names.push(f.try_take().expect("the other").chg);
    names.sort();
    assert_eq!(names, ["a", "b"]);
    f.assert_conserved();
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
    f.assert_conserved();
}

// Moving and dropping.

#[test]
fn move_takes_everything_that_is_queued() {
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
    f.assert_conserved();
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
    f.assert_conserved();
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
    let lease = f.take("to");
    f.release(&lease, "AT 0 DONE crawl");
    f.take_none();
    assert_eq!(f.total(), 0);
}

#[test]
fn moves_that_cannot_be_are_refused() {
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
        let error = f.err(line);
        assert!(error.starts_with(code), "{line}: {error}");
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
    f.assert_conserved();
}

#[test]
fn dropped_execution_leaves_the_pause_of_what_is_being_fetched() {
    let (_server, mut f) = stage();
    f.add_uri("gone", "kept", T0, 0, "u1");
    add(&mut f, "counted", 1);
    let kept = f.take("kept");
    let counted = f.take("counted");
    f.ok("DROP gone");
    f.ok("DROP crawl");
    assert_eq!(f.sums(), [0, 0, 0]);
    for chg in ["kept", "counted"] {
        assert_eq!(f.place(chg), "busy", "{chg}: somebody is still there");
    }
    assert_eq!(f.release(&kept, "DELAY 1000 DONE gone"), T0 + 1000);
    assert_eq!(f.release(&counted, "DELAY 1000 DONE crawl"), T0 + 1000);
    assert_eq!(f.sums(), [0, 0, 0]);
    f.add("another", "kept", T0);
    assert_eq!(f.due("kept"), Some(T0 + 1000));
    f.assert_conserved();
}

#[test]
fn large_drop_is_a_job() {
    let (server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for first in 0..30 {
        let groups = (0..1000).map(|n| format!(" host-{first}-{n} {T0}"));
        f.ok(format!("ADD gone{}", groups.collect::<String>()));
    }
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
    f.assert_conserved();
}

#[test]
fn large_drop_outlives_its_client_and_can_be_asked_for_again() {
    let (server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for first in 0..20 {
        let groups = (0..1000).map(|n| format!(" host-{first}-{n} {T0}"));
        f.ok(format!("ADD gone{}", groups.collect::<String>()));
    }
    let mut dropper = Frontier::at(&server, T0);
    dropper.send("DROP gone");
    until("it is under way", || f.total() < 20_000);
    dropper.wire.hang_up();
    f.ok("DROP gone");
    assert_eq!(f.sums(), [0, 0, 0]);
    f.take_none();
    f.assert_conserved();
}
