//! Two frontiers on one server, the same prefix in two databases, and FLUSHDB and SWAPDB while
//! clients wait.

use std::time::Duration;

use crate::stage::add_thousands;
use redis_tests::{Frontier, LEASE, Lease, Options, Reply, Server, blocked, nil, ok, rows, until};

const F: &str = "{f}:";
const QUIET: Duration = Duration::from_millis(120);

fn in_database(server: &Server, prefix: &str, db: u32) -> Frontier {
    let mut wire = server.wire();
    ok!(wire, "SELECT", db);
    Frontier::over(wire, prefix)
}

fn blocked_in(server: &Server, db: u32) -> Frontier {
    let before = server.info_number("blocked_clients");
    let mut waiter = in_database(server, F, db);
    waiter.send("NEXT BLOCK 0");
    until("the client is blocked", || {
        server.info_number("blocked_clients") > before
    });
    waiter
}

#[track_caller]
fn lease_of(waiter: &mut Frontier, chg: &str) -> Lease {
    let lease = Lease::only(&waiter.wire.recv());
    assert_eq!(lease.chg, chg, "{lease:?}");
    lease
}

#[test]
fn frontiers_of_one_server_do_not_see_each_other() {
    let server = Server::start();
    let mut all = ["{f}:", "{g}:", "", "with space\r\n"].map(|p| Frontier::of(&server, p));
    for (n, f) in all.iter_mut().enumerate() {
        for uri in 0..=n {
            assert_eq!(f.add("crawl", "host", 0), uri as i64 + 1);
        }
    }
    for (n, f) in all.iter_mut().enumerate() {
        let uris = n as i64 + 1;
        let lease = f.take("host");
        assert_eq!(lease.c, uris);
        f.take_none();
        f.release(&lease, "AT 0 DONE crawl");
        assert_eq!((f.total(), f.queued("crawl")), (uris - 1, uris - 1));
        assert_eq!(f.ok("CHECK").field("consistent").int(), 1);
    }
    all[1].ok("PAUSE");
    all[1].take_none();
    all[3].take("host");
    let names = server.snapshot().names();
    assert!(names.contains(&"chg_ready".to_owned()), "{names:?}");
}

#[test]
fn waiters_wait_in_their_database() {
    let server = Server::start();
    let (mut zero, mut five) = (in_database(&server, F, 0), in_database(&server, F, 5));
    let (mut in_zero, mut in_five) = (blocked_in(&server, 0), blocked_in(&server, 5));
    five.add("crawl", "five", 0);
    lease_of(&mut in_five, "five");
    assert!(in_zero.wire.is_silent_for(QUIET));
    zero.add("crawl", "zero", 0);
    lease_of(&mut in_zero, "zero");
}

#[test]
fn client_that_selects_another_database_works_there() {
    let server = Server::start();
    let mut f = Frontier::of(&server, F);
    f.add("crawl", "zero", 0);
    ok!(f.wire, "SELECT", 7);
    f.take_none();
    f.add("crawl", "seven", 0);
    let due = f.time() + 100;
    f.add("crawl", "later", due);
    f.take("seven");
    let mut other = blocked_in(&server, 7);
    lease_of(&mut other, "later");
    ok!(f.wire, "SELECT", 0);
    f.take("zero");
}

#[test]
fn waiters_keep_waiting_after_a_flush() {
    let server = Server::start();
    for flush in ["FLUSHDB", "FLUSHALL"] {
        let mut f = Frontier::of(&server, F);
        let soon = f.time() + 100;
        f.add("crawl", "gone", soon);
        f.add("crawl", "leased", 0);
        f.ok("NEXT LEASE 100");
        f.ok("PAUSE leased");
        let mut waiter = blocked_in(&server, 0);
        ok!(f.wire, flush);
        until("what was there would be due", || f.time() > soon + 30);
        assert!(!waiter.wire.has_reply(), "{flush}");
        f.refused("WHY gone", "NOCHG ");
        assert_eq!(f.figure("uris"), 0);
        f.add("crawl", "leased", 0);
        lease_of(&mut waiter, "leased");
        assert_eq!(f.ok("EXPIRED").items().len(), 0, "{flush}");
        f.assert_conserved();
        ok!(f.wire, "FLUSHALL");
    }
}

#[test]
fn flush_of_another_database_has_no_effect() {
    let server = Server::start();
    let (mut zero, mut five) = (in_database(&server, F, 0), in_database(&server, F, 5));
    let due = zero.time() + 150;
    zero.add("crawl", "zero", due);
    five.add("crawl", "five", due);
    let mut waiter = blocked_in(&server, 0);
    ok!(five.wire, "FLUSHDB");
    ok!(five.wire, "SWAPDB", 5, 6);
    assert!(lease_of(&mut waiter, "zero").deadline - LEASE >= due);
}

#[test]
fn swapdb_wakes_waiters_for_groups_of_the_new_database() {
    let server = Server::start();
    let mut zero = in_database(&server, F, 0);
    let mut one = in_database(&server, F, 1);
    one.add("crawl", "from-one", 0);
    let mut waiter = blocked_in(&server, 0);
    assert!(waiter.wire.is_silent_for(QUIET));
    ok!(zero.wire, "SWAPDB", 0, 1);
    lease_of(&mut waiter, "from-one");
    assert_eq!(zero.place("from-one"), "busy");
    assert_eq!(one.ok("NEXT"), nil());
    // A group that was due in the other database is due in this one now.
    let due = zero.time() + 150;
    zero.add("crawl", "later", due);
    let mut waiter = blocked_in(&server, 1);
    ok!(zero.wire, "SWAPDB", 0, 1);
    assert!(lease_of(&mut waiter, "later").deadline - LEASE >= due);
}

#[test]
fn flush_during_a_sweep_ends_it() {
    let server = Server::start();
    let mut f = Frontier::of(&server, F);
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add_thousands(&mut f, "crawl", 40);
    let mut sweeper = Frontier::of(&server, F);
    sweeper.send("SWEEP");
    until("the sweep is under way", || f.figure("groups-ready") > 1000);
    ok!(f.wire, "FLUSHALL");
    sweeper.wire.recv();
    server.until_idle();
    assert_eq!(server.snapshot().names(), [""; 0]);
    f.add("crawl", "host", 0);
    f.take("host");
}

#[test]
fn deleted_keys_cause_no_hang() {
    let server = Options::new().plain().start();
    let mut f = Frontier::of(&server, F);
    for key in rows![
        "chg_wait"; "chg_busy"; "chg_ready"; "CHG:leased"; "EIDC"; "QCT"; "chg_token";
    ] {
        let due = f.time() + 50;
        f.add("crawl", "leased", 0);
        f.ok("NEXT LEASE 50");
        f.add("crawl", "waiting", due);
        let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
        let key = f.key(key);
        ok!(f.wire, "DEL", key);
        f.add("crawl", "new", 0);
        Lease::only(&waiter.wire.recv());
        f.ok("REPAIR");
        f.assert_conserved();
        ok!(f.wire, "FLUSHALL");
    }
    assert_eq!(server.info_number("panics"), 0);
}

/// Returns the prefixes of the frontiers that INFO names.
fn named(server: &Server) -> Vec<String> {
    let info = ok!(server.wire(), "INFO", "crawlspace").text();
    let names = info
        .lines()
        .filter_map(|line| line.strip_prefix("crawlspace_frontier_"));
    let prefixes = names.filter_map(|line| line.split_once("prefix="));
    prefixes.map(|(_, prefix)| prefix.to_owned()).collect()
}

#[test]
fn info_does_not_name_deleted_frontiers() {
    let server = Server::start();
    let mut wire = server.wire();
    for prefix in ["{a}:", "{b}:", "{c}:"] {
        Frontier::of(&server, prefix).add("crawl", "host", 0);
    }
    assert_eq!(named(&server), ["{a}:", "{b}:", "{c}:"]);
    // One command deletes all keys. Between two commands, the frontier could write to the keys that are left.
    let keys = ok!(wire, "KEYS", "{a}:*");
    let del = std::iter::once("DEL".to_owned()).chain(keys.items().iter().map(Reply::text));
    wire.expect_ok(&del.collect::<Vec<_>>());
    assert_eq!(named(&server), ["{b}:", "{c}:"]);
    // Reading a deleted frontier does not create it.
    Frontier::of(&server, "{a}:").ok("INFO");
    assert_eq!(named(&server), ["{b}:", "{c}:"]);
    Frontier::of(&server, "{a}:").add("crawl", "host", 0);
    assert_eq!(named(&server), ["{a}:", "{b}:", "{c}:"]);
    // A conversion deletes keys, but not the frontier.
    Frontier::of(&server, "{a}:").ok("PACK");
    assert_eq!(named(&server), ["{a}:", "{b}:", "{c}:"]);
    Frontier::of(&server, "{a}:").ok("UNPACK");
    assert_eq!(named(&server), ["{a}:", "{b}:", "{c}:"]);
    ok!(wire, "FLUSHALL");
    assert_eq!(named(&server), [""; 0]);
    // A waiting client keeps its frontier named.
    let mut waiter = blocked_in(&server, 0);
    ok!(wire, "FLUSHALL");
    assert_eq!(named(&server), [F]);
    Frontier::of(&server, F).add("crawl", "host", 0);
    lease_of(&mut waiter, "host");
}
