//! Leases that free their host before their URIs are done: `RELEASE … LATER`, `NEXT … GATE` and `CHG.DONE`.

use redis_tests::{
    Frontier, Reply, Server, T0, assert_contains, assert_replicated, int, rows, simulated,
};

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

/// Leases a group with `line`; returns its name, the token, and the names of the URIs.
fn take(f: &mut Frontier, line: &str) -> (String, i64, Vec<String>) {
    let reply = f.ok(line);
    let lease = reply.items()[0].items();
    let items = lease[7].items().iter();
    let uris = items.map(|item| item.items()[0].text()).collect();
    (lease[0].text(), lease[1].int(), uris)
}

fn state(f: &mut Frontier, name: &str) -> String {
    f.ok(format!("KNOWN crawl {name}")).items()[0].items()[0].text()
}

/// Queues URLs of one group.
fn discover(f: &mut Frontier, chg: &str, urls: &[&str]) {
    for url in urls {
        f.ok(format!("DISCOVER crawl URI ITEMS 1 {chg} 0 0 {url}"));
    }
}

#[test]
fn host_is_free_while_the_url_is_still_leased() {
    let (_server, mut f) = packed();
    discover(&mut f, "h", &["u1", "u2"]);
    let (chg, first, _) = take(&mut f, "NEXT URIS 1");
    let due = f.ok(format!("RELEASE {chg} {first} DELAY 1000 LATER 60000"));
    assert_eq!(due, int(T0 + 1000));
    f.assert_consistent();
    // A repetition gets the first reply.
    assert_eq!(
        f.ok(format!("RELEASE {chg} {first} DELAY 1000 LATER 60000")),
        due
    );
    assert_eq!(state(&mut f, "u1"), "leased");
    assert!(f.ok("NEXT URIS 1").is_nil());
    f.pass(1000);
    let (_, second, uris) = take(&mut f, "NEXT URIS 1");
    assert_eq!(uris, ["u2"]);
    // The links of a page are queued before it is done.
    discover(&mut f, "h", &["u3"]);
    let error = f.refused(format!("RELEASE {chg} {first} DELAY 0 DONE crawl"), "ERR ");
    assert!(error.contains("CHG.DONE"), "{error}");
    f.refused(format!("DONE {chg} {first} other"), "ERR ");
    assert_eq!(f.ok(format!("DONE {chg} {first} crawl")), int(1));
    assert_eq!(f.ok(format!("DONE {chg} {first} crawl")), int(0));
    assert_eq!(state(&mut f, "u1"), "done");
    assert_eq!(f.figure("uris"), 2);
    f.assert_consistent();
    f.ok(format!("RELEASE {chg} {second} DELAY 0 DONE crawl"));
    f.pass(60_000);
    f.refused(format!("DONE {chg} {first} crawl"), "STALE ");
    f.refused(format!("DONE {chg} 1 crawl"), "STALE ");
    f.refused("DONE nobody 1 crawl", "NOCHG ");
    let (chg, third, uris) = take(&mut f, "NEXT URIS 1");
    assert_eq!(uris, ["u3"]);
    f.ok(format!("RELEASE {chg} {third} DELAY 0 DONE crawl"));
    assert_eq!(f.figure("uris"), 0);
    f.assert_consistent();
}

#[test]
fn leases_that_have_freed_their_groups_are_listed_by_their_second_deadline() {
    let (_server, mut f) = packed();
    for (chg, later) in [("a", 3000), ("b:b", 1000), ("c", 1000), ("a", 2000)] {
        discover(&mut f, chg, &[&format!("{chg}-{later}")]);
        let (chg, token, _) = take(&mut f, "NEXT URIS 1");
        f.ok(format!("RELEASE {chg} {token} DELAY 0 LATER {later}"));
    }
    discover(&mut f, "a", &["more"]);
    let mut listed = Vec::new();
    let mut cursor = "0".to_owned();
    while cursor != "0" || listed.is_empty() {
        let page = f.ok(format!("LIST STATE FREED COUNT 1 CURSOR {cursor}"));
        let [next, groups] = page.items() else {
            panic!("{page:?}")
        };
        cursor = next.text();
        listed.extend(groups.items().iter().map(|group| {
            let group = group.items();
            assert_eq!(group[1].text(), "freed");
            (group[0].text(), group[2].int() - T0, group[3].int())
        }));
    }
    let expected = [
        ("b:b", 1000, 1),
        ("c", 1000, 1),
        ("a", 2000, 3),
        ("a", 3000, 3),
    ];
    assert_eq!(listed, expected.map(|(chg, at, n)| (chg.to_owned(), at, n)));
    assert_eq!(
        f.ok("LIST").items()[1].items().len(),
        1,
        "the other lists do not have them"
    );
    for cursor in ["freed:1", "freed:1:2", "freed:1:x:a", "busy:1:a"] {
        f.refused(format!("LIST STATE FREED CURSOR {cursor}"), "ERR ");
    }
}

#[test]
fn url_returns_after_the_second_deadline_and_is_given_up() {
    let (_server, mut f) = packed();
    f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 1 h 0 2 u k p");
    for attempt in 1..=5 {
        let (chg, token, _) = take(&mut f, "NEXT URIS 1");
        f.ok(format!("RELEASE {chg} {token} DELAY 10 LATER 500"));
        f.ok(format!("EXTEND {chg} {token} 900"));
        f.pass(899);
        assert!(f.ok("NEXT URIS 1").is_nil());
        assert!(f.ok("EXPIRED").items().is_empty());
        f.pass(1);
        let reports = f.ok("EXPIRED");
        let report = reports.items()[0].items();
        assert_eq!(
            (report[2].text(), report[3].int()),
            ("u".to_owned(), attempt)
        );
        f.assert_consistent();
        // The group is deleted with its last URI.
        let code = if attempt < 5 { "STALE " } else { "NOCHG " };
        f.refused(format!("DONE {chg} {token} crawl"), code);
        f.refused(format!("EXTEND {chg} {token} 900"), code);
    }
    assert_eq!(state(&mut f, "k"), "given-up");
    assert_eq!(f.figure("uris"), 0);
    f.ok("FORGET crawl");
    f.ok("UNPACK");
    f.assert_consistent();
}

#[test]
fn stored_delay_replaces_the_pause_of_a_gate() {
    let (_server, mut f) = packed();
    discover(&mut f, "h", &["u1", "u2", "u3"]);
    for (delay, passes) in [(50, 50), (900, 900)] {
        f.ok(format!("LIMIT h DELAY {delay}"));
        take(&mut f, "NEXT LEASE 10000 GATE 300");
        f.pass(passes - 1);
        assert!(f.ok("NEXT GATE 300").is_nil());
        f.pass(1);
    }
    take(&mut f, "NEXT LEASE 10000 GATE 300");
    f.assert_consistent();
}

#[test]
fn gate_frees_the_host_at_once() {
    let (_server, mut f) = packed();
    discover(&mut f, "h", &["u1", "u2", "u3", "u4", "u5"]);
    let (chg, first, uris) = take(&mut f, "NEXT LEASE 10000 URIS 2 GATE 300");
    assert_eq!(uris, ["u1", "u2"]);
    assert!(f.ok("NEXT URIS 2 GATE 300").is_nil());
    f.pass(300);
    let (_, second, uris) = take(&mut f, "NEXT LEASE 10000 URIS 2 GATE 300");
    assert_eq!(uris, ["u3", "u4"]);
    f.assert_consistent();
    assert_eq!(f.ok(format!("DONE {chg} {first} crawl u2 nothing")), int(1));
    assert_eq!(
        f.ok("SETTLE crawl STATUS 404 ITEMS 1 h u3 NEVER").ints(),
        [1]
    );
    assert_eq!(f.ok(format!("SETTLE crawl ITEMS 1 h u4 {T0}")).ints(), [1]);
    f.refused("UNPACK", "KNOWN ");
    f.assert_consistent();
    f.pass(300);
    let (_, third, uris) = take(&mut f, "NEXT URIS 9 GATE 0");
    // u4 has been due since it was scheduled.
    assert_eq!(uris, ["u5", "u4"]);
    f.pass(9700);
    // u1 is leased again, but only once.
    let (_, fourth, uris) = take(&mut f, "NEXT URIS 9 GATE 0");
    assert_eq!(uris, ["u1"]);
    assert_eq!(f.ok(format!("DONE {chg} {fourth} crawl")), int(1));
    assert_eq!(f.ok(format!("DONE {chg} {third} crawl")), int(2));
    f.refused(format!("DONE {chg} {second} crawl"), "NOCHG ");
    assert_eq!(f.ok(format!("DONE {chg} {third} crawl")), int(0));
    assert_eq!(f.figure("uris"), 0);
    assert_eq!(f.ok("COUNT crawl").field("done").int(), 5);
    f.assert_consistent();
}

#[test]
fn waiting_client_gets_a_url_after_its_second_deadline() {
    let server = redis_tests::Options::new().packed().start();
    let mut f = Frontier::real(&server);
    discover(&mut f, "h", &["u"]);
    take(&mut f, "NEXT LEASE 50 GATE 0");
    let (_, _, uris) = take(&mut f, "NEXT BLOCK 30000 GATE 0");
    assert_eq!(uris, ["u"]);
}

#[test]
fn dropped_and_moved_urls_leave_their_lease() {
    let (_server, mut f) = packed();
    discover(&mut f, "a", &["u1", "u2", "u3"]);
    let (chg, token, _) = take(&mut f, "NEXT URIS 2 GATE 0");
    f.ok("MOVE a b");
    f.assert_consistent();
    let (other, _, uris) = take(&mut f, "NEXT URIS 2 GATE 0");
    assert_eq!((&other[..], &uris[..]), ("b", &["u3".to_owned()][..]));
    f.ok("DROP crawl");
    f.assert_consistent();
    assert_eq!(f.ok(format!("DONE {chg} {token} crawl")), int(0));
    assert_eq!(f.figure("uris"), 0);
    f.pass(1_000_000);
    f.ok("EXPIRED");
    f.assert_consistent();
}

#[test]
fn second_deadlines_survive_restart_and_replication() {
    let mut server = simulated().packed().aof(true).start();
    let replica = simulated().packed().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    discover(&mut f, "h", &["u1", "u2", "u3"]);
    let release = {
        let (chg, token, _) = take(&mut f, "NEXT URIS 2");
        format!("RELEASE {chg} {token} DELAY 0 LATER 5000 NEXT GATE 100")
    };
    let first = f.ok(&release);
    assert_eq!(f.ok(&release), first);
    assert_replicated(&server, &replica);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0 + 5000);
    let (_, _, uris) = take(&mut f, "NEXT URIS 9");
    assert_eq!(uris, ["u1", "u2"]);
    f.assert_consistent();
}

#[test]
fn plain_frontier_refuses_and_changes_nothing() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    f.ok("ADDURI crawl h 0 0 u1 g 0 0 u2");
    let lease = f.try_take().unwrap();
    let (chg, token) = (&lease.chg, lease.token);
    let digest = server.digest();
    for line in rows!["NEXT GATE 5"; "NEXT GROUP g GATE 5";] {
        f.refused(line, "PLAIN ");
    }
    f.refused(format!("RELEASE {chg} {token} DELAY 0 LATER 5"), "PLAIN ");
    f.refused(
        format!("RELEASE {chg} {token} DELAY 0 NEXT GATE 5"),
        "PLAIN ",
    );
    f.refused(format!("DONE {chg} {token} crawl"), "PLAIN ");
    assert_eq!(server.digest(), digest);
}

#[test]
fn why_shows_leases_that_have_freed_their_group() {
    for (next, release) in [
        ("NEXT URIS 1", Some("DELAY 0 LATER 60000")),
        ("NEXT LEASE 60000 GATE 0", None),
    ] {
        let (_server, mut f) = packed();
        discover(&mut f, "h", &["u1"]);
        let (chg, token, _) = take(&mut f, next);
        if let Some(release) = release {
            assert_eq!(f.why("h").field("state").text(), "busy");
            f.ok(format!("RELEASE {chg} {token} {release}"));
        }
        f.pass(1000);
        let why = f.why("h");
        assert_eq!(why.field("state").text(), "freed", "{next}");
        assert_contains(why.field("why").text(), format!("until {}", T0 + 60_000));
        assert_eq!(why.field("in"), int(59_000));
        let leases = why.field("leases");
        let [lease] = leases.items() else {
            panic!("{why:?}")
        };
        assert_eq!(
            ["token", "granted", "age", "deadline"].map(|name| lease.field(name).int()),
            [token, T0, 1000, T0 + 60_000]
        );
        assert_eq!(lease.field("uri").text(), "u1");
        // Another URL makes the group ready; the lease is still shown.
        discover(&mut f, "h", &["u2"]);
        let why = f.why("h");
        assert_eq!(why.field("state").text(), "waiting", "{next}");
        assert_eq!(why.field("leases").items().len(), 1);
        let (_, second, _) = take(&mut f, "NEXT URIS 1");
        let why = f.why("h");
        assert_eq!(why.field("state").text(), "busy");
        assert_eq!(why.field("leases").items().len(), 2);
        f.ok(format!("RELEASE h {second} DELAY 0 DONE crawl"));
        f.pass(59_000);
        assert_contains(f.why("h").field("why").text(), "expired");
        assert_eq!(take(&mut f, "NEXT URIS 1").2, ["u1"]);
    }
}

#[test]
fn repeated_release_gets_the_first_reply_after_its_group_is_gone() {
    for pause in [0, 1000] {
        let (_server, mut f) = packed();
        discover(&mut f, "h", &["u"]);
        let (_, token, _) = take(&mut f, "NEXT URIS 1");
        f.ok(format!("DONE h {token} crawl"));
        let line = format!("RELEASE h {token} DELAY {pause} LATER 60000");
        let due = f.ok(&line);
        assert_eq!(f.ok(&line), due);
        f.pass(3000);
        assert!(f.ok("NEXT").is_nil());
        assert_eq!(f.ok(&line), due, "{pause}");
        let error = f.refused(format!("RELEASE h {token} DELAY 0 DONE crawl"), "ERR ");
        assert!(error.contains("already freed"), "{error}");
    }
}

#[test]
fn expired_lease_behind_a_closed_gate_is_not_due() {
    let (_server, mut f) = packed();
    discover(&mut f, "h", &["1"]);
    discover(&mut f, "k", &["2"]);
    take(&mut f, "NEXT GROUP h LEASE 100 URIS 1");
    take(&mut f, "NEXT GROUP k LEASE 100000 URIS 1");
    f.ok("GROUP gate h k");
    f.pass(200);
    for line in ["INFO", "INFO EXECUTION crawl"] {
        assert_eq!(f.ok(line).field("next-due-ms"), int(T0 + 100_000), "{line}");
    }
    assert!(f.ok("NEXT EXECUTION crawl").is_nil());
}

#[test]
fn lease_without_stored_uris_cannot_be_kept_for_later() {
    let (_server, mut f) = packed();
    f.add("crawl", "h", T0);
    let reply = f.ok("NEXT GATE 100");
    let lease = reply.items()[0].items();
    assert_eq!(lease[7], Reply::Array(Vec::new()));
    let token = lease[1].int();
    f.refused(format!("RELEASE h {token} DELAY 0 LATER 100"), "ERR ");
    assert_eq!(f.ok(format!("DONE h {token} crawl")), int(0));
    f.ok(format!("RELEASE h {token} DELAY 0 DONE crawl"));
    assert_eq!(f.figure("uris"), 0);
    f.assert_consistent();
}

#[test]
fn time_of_returning_urls_includes_the_pause_of_their_group() {
    for is_grouped in [false, true] {
        let (_server, mut f) = packed();
        discover(&mut f, "h", &["u"]);
        if is_grouped {
            f.ok("GROUP gate h other");
        }
        take(&mut f, "NEXT LEASE 1000 GATE 5000");
        let due = |f: &mut Frontier| {
            ["INFO", "INFO EXECUTION crawl"].map(|line| f.ok(line).field("next-due-ms").int())
        };
        assert_eq!(due(&mut f), [T0 + 5000; 2]);
        for what in ["EXECUTION crawl", "h"] {
            f.ok(format!("PAUSE {what}"));
            assert_eq!(due(&mut f), [-1; 2], "{what}");
            f.ok(format!("RESUME {what}"));
        }
        f.pass(4999);
        assert!(f.ok("NEXT").is_nil());
        f.pass(1);
        assert_eq!(take(&mut f, "NEXT URIS 1").0, "h");
    }
}

#[test]
fn url_that_leaves_a_lease_of_a_free_host_can_be_leased_again() {
    let (_server, mut f) = packed();
    discover(&mut f, "h", &["u"]);
    let (chg, token, _) = take(&mut f, "NEXT LEASE 60000 GATE 0");
    assert_eq!(f.ok("INFO").field("next-due-ms").int(), T0 + 60_000);
    f.ok(format!("SETTLE crawl ITEMS 1 h u {}", T0 + 5000));
    f.assert_consistent();
    assert_eq!(f.ok("INFO").field("next-due-ms").int(), T0 + 5000);
    f.pass(5000);
    let (_, second, uris) = take(&mut f, "NEXT URIS 1");
    assert_eq!(uris, ["u"]);
    assert_eq!(f.ok(format!("DONE {chg} {token} crawl")), int(0));
    // A release of a lease whose URL is done already leaves nothing behind.
    assert_eq!(f.ok(format!("DONE {chg} {second} crawl")), int(1));
    f.ok(format!("RELEASE {chg} {second} DELAY 0 LATER 60000"));
    f.assert_consistent();
    assert_eq!(f.ok(format!("DONE {chg} {second} crawl")), int(0));
    assert_eq!(
        f.ok(format!("EXTEND {chg} {second} 70000")),
        int(T0 + 75_000)
    );
}

#[test]
fn status_and_order_survive_the_second_deadline() {
    let (_server, mut f) = packed();
    discover(&mut f, "a", &["u1"]);
    let lease = f.take("a");
    let (chg, token) = (&lease.chg, lease.token);
    f.ok(format!(
        "RELEASE {chg} {token} ELAPSED 1 STATUS 404 LATER 1000"
    ));
    f.refused(format!("RELEASE {chg} {token} DELAY 0 RETRY 0"), "ERR ");
    f.ok(format!("DISCOVER crawl URI ITEMS 1 b {} 0 u2", T0 + 2000));
    f.pass(5000);
    // u1 has been due since its second deadline.
    let leases = f.ok("NEXT COUNT 2");
    let groups = leases.items().iter().map(|lease| lease.items()[0].text());
    assert_eq!(groups.collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(leases.items()[0].items()[3], int(T0 + 1000));
    let token = leases.items()[0].items()[1].int();
    f.ok(format!("DONE a {token} crawl"));
    let known = f.ok("KNOWN crawl u1");
    assert_eq!(known.items()[0].items()[2], int(404));
    f.assert_consistent();
}

#[test]
fn lease_that_lost_its_url_does_not_change_the_payload() {
    let (_server, mut f) = packed();
    f.ok("DISCOVER crawl PAYLOAD ITEMS 1 h 0 0 u old");
    let lease = f.take("h");
    f.ok("SETTLE crawl ITEMS 1 h u NEVER");
    f.ok("DISCOVER crawl PAYLOAD FRESH 0 ITEMS 1 h 0 0 u fresh");
    f.release(&lease, "DELAY 0 RETRY 0 PAYLOAD stale");
    let reply = f.ok("NEXT URIS 1");
    let items = reply.items()[0].items()[7].items();
    assert_eq!(items[0].items()[2].text(), "fresh");
}

#[test]
fn dropped_crawl_stays_closed_while_a_worker_keeps_its_urls() {
    // Each case frees the group and keeps the URL for 30 seconds.
    for (next, release) in [
        ("NEXT URIS 1 LEASE 30000", "DELAY 0 LATER 30000"),
        ("NEXT GATE 0 LEASE 30000", ""),
    ] {
        for drops_first in [false, true] {
            let (_server, mut f) = packed();
            discover(&mut f, "h", &["u1", "u2"]);
            let (chg, token, _) = take(&mut f, next);
            if drops_first {
                f.ok("DROP crawl");
            }
            if !release.is_empty() {
                f.pass(1000);
                f.ok(format!("RELEASE {chg} {token} {release}"));
            }
            if !drops_first {
                f.ok("DROP crawl");
            }
            let case = format!("{next} {release}, dropped first: {drops_first}");
            let adds = |f: &mut Frontier| !f.ok("ADDURI crawl h 0 0 u3").items()[0].is_nil();
            f.pass(29_999);
            assert!(!adds(&mut f), "{case}");
            // The leases end 30 seconds after the release, or after the lease with a gate.
            f.pass(1);
            assert!(adds(&mut f), "{case}");
            f.assert_consistent();
        }
    }
}
