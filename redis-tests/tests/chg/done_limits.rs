//! `LIMIT … DONE n EXECUTION e`: a group is not served for an execution that has enough done URLs in it.

use std::thread;
use std::time::Duration;

use redis_tests::{
    Frontier, Lease, Options, Server, T0, assert_replicated, blocked, bulk, int, ok, rows,
    simulated,
};

const F: &str = "{f}:";
/// A time that is long enough to be sure that a command is blocked, and short enough for a fast
/// test.
const QUIET: Duration = Duration::from_millis(120);

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

/// Discovers `h/0`, `h/1`, … of an execution in a group.
fn discover(f: &mut Frontier, execution: &str, chg: &str, urls: u32) {
    for n in 0..urls {
        f.ok(format!(
            "DISCOVER {execution} URI ITEMS 1 {chg} 0 0 {chg}/{n}"
        ));
    }
}

/// Fetches URLs of an execution until none is left that may be fetched, and returns them.
fn fetch_all(f: &mut Frontier, execution: &str) -> Vec<String> {
    let mut fetched = Vec::new();
    loop {
        let reply = f.ok(format!("NEXT EXECUTION {execution}"));
        if reply.is_nil() {
            return fetched;
        }
        let lease = Lease::only(&reply);
        f.release(&lease, format!("DELAY 0 DONE {execution}"));
        fetched.extend(lease.uri);
    }
}

fn done(f: &mut Frontier, execution: &str, chg: &str) -> i64 {
    let reply = f.ok(format!("COUNT {execution} GROUP {chg}"));
    reply.field("done").int()
}

#[test]
fn group_is_served_until_enough_urls_are_done() {
    let (_server, mut f) = packed();
    // The limit may come before the first URL.
    f.ok("LIMIT a DONE 2 EXECUTION one");
    assert_eq!(f.state("a"), "idle");
    discover(&mut f, "one", "a", 4);
    discover(&mut f, "two", "b", 1);
    for _ in 0..2 {
        assert_ne!(f.state("a"), "limited");
        f.fetch("a", "DELAY 0 DONE one");
    }
    assert_eq!(f.state("a"), "limited");
    let why = f.why("a");
    let limit = &why.field("done-limits").items()[0].clone();
    assert_eq!(limit.field("execution"), bulk("one"));
    assert_eq!(
        [limit.field("limit"), limit.field("done")],
        [int(2), int(2)]
    );
    // Other groups, and other executions in this group, are served.
    f.fetch("b", "DELAY 0 DONE two");
    f.take_none();
    assert!(f.ok("NEXT EXECUTION one").is_nil());
    assert!(f.ok("NEXT GROUP a").is_nil());
    assert_eq!(f.figure("next-due-ms"), -1);
    assert_eq!(f.ok("INFO EXECUTION one").field("next-due-ms"), int(-1));
    discover(&mut f, "three", "a", 1);
    assert_eq!(f.figure("next-due-ms"), T0);
    f.fetch("a", "DELAY 0 DONE three");
    f.take_none();
    // The group is served again after the limit is raised or removed.
    f.ok("LIMIT a DONE 3 EXECUTION one");
    f.fetch("a", "DELAY 0 DONE one");
    f.take_none();
    f.ok("LIMIT a DONE 0 EXECUTION one");
    f.fetch("a", "DELAY 0 DONE one");
    assert_eq!(f.figure("uris"), 0);
    f.refused("WHY a", "NOCHG ");
    f.assert_consistent();
}

#[test]
fn url_that_is_done_again_counts_once() {
    let (_server, mut f) = packed();
    discover(&mut f, "crawl", "a", 5);
    f.ok("LIMIT a DONE 2 EXECUTION crawl PARALLEL 2");
    let mut fetched = fetch_all(&mut f, "crawl");
    assert_eq!(fetched.len(), 2);
    for line in [
        "DISCOVER crawl URI FRESH 0 ITEMS 1 a 0 0 <last>",
        "SETTLE crawl ITEMS 1 a <last> 0",
        "FORGET crawl URIS 1 <last>",
        "FORGET crawl GROUP a STATE DONE",
    ] {
        f.take_none();
        f.ok(line.replace("<last>", fetched.last().expect("a URL")));
        fetched = fetch_all(&mut f, "crawl");
        assert!(!fetched.is_empty(), "{line}");
        assert_eq!(done(&mut f, "crawl", "a"), 2, "{line}");
        f.assert_consistent();
    }
    assert_eq!(f.ok("SETTLE crawl ITEMS 1 a new NEVER").ints(), [1]);
    assert_eq!(
        f.ok("SETTLE crawl STATUS 200 ITEMS 1 a new NEVER").ints(),
        [1]
    );
    assert_eq!(done(&mut f, "crawl", "a"), 3);
    f.assert_consistent();
}

#[test]
fn url_that_is_given_up_is_not_done() {
    let (_server, mut f) = packed();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 1);
    discover(&mut f, "crawl", "a", 3);
    f.ok("LIMIT a DONE 1 EXECUTION crawl");
    f.ok("NEXT LEASE 10");
    f.pass(100);
    f.fetch("a", "DELAY 0 DONE crawl");
    f.take_none();
    let reply = f.ok("COUNT crawl GROUP a");
    let counts = ["queued", "leased", "done", "given-up"].map(|state| reply.field(state).int());
    assert_eq!(counts, [1, 0, 1, 1]);
    f.assert_consistent();
}

#[test]
fn limit_counts_the_urls_that_change_meanwhile() {
    let server = Options::new().packed().start();
    let mut f = Frontier::real(&server);
    let urls: Vec<String> = (0..60_000).map(|n| format!("u{n}")).collect();
    let settle = |f: &mut Frontier, urls: &[String], at: &str| {
        for some in urls.chunks(1000) {
            let items: String = some.iter().map(|url| format!(" a {url} {at}")).collect();
            f.ok(format!("SETTLE crawl ITEMS {}{items}", some.len()));
        }
    };
    settle(&mut f, &urls, "NEVER");
    let mut others = Frontier::real(&server);
    let changing = urls.clone();
    let other = thread::spawn(move || {
        for some in changing[..30_000].chunks(100) {
            others.ok(format!(
                "FORGET crawl URIS {} {}",
                some.len(),
                some.join(" ")
            ));
        }
        for some in changing[..10_000].chunks(100) {
            let items: String = some.iter().map(|url| format!(" a {url} NEVER")).collect();
            others.ok(format!("SETTLE crawl ITEMS {}{items}", some.len()));
        }
    });
    for n in 0..10 {
        f.ok(format!("LIMIT a DONE {} EXECUTION crawl", 1000 + n));
        f.ok("LIMIT a DONE 0 EXECUTION crawl");
    }
    f.ok("LIMIT a DONE 50000 EXECUTION crawl");
    other.join().expect("the other client");
    assert_eq!(done(&mut f, "crawl", "a"), 40_000);
    f.assert_consistent();
}

#[test]
fn waiter_wakes_when_a_limit_no_longer_holds_its_group_back() {
    for wait in ["NEXT BLOCK 0", "NEXT BLOCK 0 EXECUTION crawl"] {
        let server = Options::new().packed().start();
        let mut f = Frontier::real(&server);
        discover(&mut f, "crawl", "a", 4);
        f.ok("LIMIT a DONE 1 EXECUTION crawl");
        f.fetch("a", "DELAY 0 DONE crawl");
        for line in rows![
            "LIMIT a DONE 2 EXECUTION crawl"; "LIMIT a DONE 0 EXECUTION crawl"; "FORGET crawl STATE DONE";
        ] {
            if line.starts_with("FORGET") {
                f.ok("LIMIT a DONE 3 EXECUTION crawl");
            }
            let mut waiter = blocked(&server, F, wait);
            assert!(waiter.wire.is_silent_for(QUIET), "{line}");
            f.ok(line);
            let lease = Lease::only(&waiter.wire.recv());
            waiter.release(&lease, "DELAY 0 DONE crawl");
        }
        f.assert_consistent();
    }
}

#[test]
fn limits_survive_restart_rewrite_replication_and_copies() {
    let mut server = simulated().packed().aof(true).start();
    let replica = simulated().packed().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    f.ok("SPACE shared SHARE s");
    for execution in ["crawl", "shared"] {
        discover(&mut f, execution, "a", 3);
        f.ok(format!("LIMIT b DONE 5 EXECUTION {execution}"));
    }
    assert_eq!(fetch_all(&mut f, "crawl").len(), 3);
    f.ok("LIMIT a DONE 4 EXECUTION crawl");
    f.ok("LIMIT a DONE 1 EXECUTION shared");
    discover(&mut f, "crawl", "a", 6);
    assert_eq!(fetch_all(&mut f, "crawl").len(), 1);
    assert_eq!(fetch_all(&mut f, "shared").len(), 1);
    let shown = |f: &mut Frontier| {
        let mut shown: Vec<_> = ["a", "b"].map(|chg| f.why(chg).field("done-limits")).into();
        for (execution, chg) in [("crawl", "a"), ("shared", "a"), ("crawl", "b")] {
            shown.push(f.ok(format!("COUNT {execution} GROUP {chg}")));
        }
        f.assert_consistent();
        shown
    };
    let before = shown(&mut f);
    assert_replicated(&server, &replica);
    assert_eq!(shown(&mut Frontier::at(&replica, T0)), before);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0);
    assert_eq!(shown(&mut f), before);
    f.take_none();
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0);
    assert_eq!(shown(&mut f), before);
    let dump = ok!(f.wire, "DUMP", f.key("chg_packed"));
    ok!(f.wire, "RESTORE", "{f}2:chg_packed", 0, dump.bytes());
    let mut copy = Frontier::over(f.wire.handle(), "{f}2:");
    copy.now = Some(T0);
    assert_eq!(shown(&mut copy), before);
    copy.take_none();
    copy.ok("LIMIT a DONE 0 EXECUTION crawl");
    assert_eq!(fetch_all(&mut copy, "crawl").len(), 2);
    f.take_none();
}

#[test]
fn moved_group_takes_its_limit_along() {
    let (_server, mut f) = packed();
    discover(&mut f, "crawl", "a", 4);
    discover(&mut f, "crawl", "b", 2);
    discover(&mut f, "other", "b", 2);
    f.ok("LIMIT a DONE 3 EXECUTION crawl");
    f.ok("LIMIT a DONE 9 EXECUTION other");
    f.ok("LIMIT b DONE 1 EXECUTION other");
    f.fetch("a", "DELAY 0 DONE crawl");
    assert_eq!(fetch_all(&mut f, "other").len(), 1);
    f.ok("MOVE a b");
    assert_eq!(f.why("b").field("done-limits").items().len(), 2);
    // The done URLs of `a` count, and the limit of the other execution stays.
    assert_eq!(done(&mut f, "crawl", "b"), 1);
    assert_eq!(fetch_all(&mut f, "crawl").len(), 2);
    assert_eq!(fetch_all(&mut f, "other").len(), 0);
    f.ok("LIMIT b DONE 0 EXECUTION crawl");
    f.ok("LIMIT b DONE 0 EXECUTION other");
    assert_eq!(fetch_all(&mut f, "crawl").len(), 3);
    f.refused("WHY a", "NOCHG ");
    f.assert_consistent();
}

#[test]
fn invalid_limits_change_nothing() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    f.add("crawl", "a", T0);
    let digest = server.digest();
    let error = f.refused("LIMIT a PARALLEL 2 DONE 2 EXECUTION crawl", "PLAIN ");
    assert!(error.contains("CHG.PACK"), "{error}");
    assert_eq!(server.digest(), digest);
    f.ok("PACK");
    f.ok("LIMIT a DONE 2 EXECUTION crawl");
    let digest = server.digest();
    for line in rows![
        "LIMIT a DONE 2"; "LIMIT a EXECUTION crawl"; "LIMIT a DONE -1 EXECUTION crawl"; "LIMIT a DONE x EXECUTION crawl";
        "LIMIT a DONE 1 EXECUTION"; "LIMIT a DONE 1 EXECUTION crawl DONE 1 EXECUTION crawl";
        "LIMIT a DONE 1 EXECUTION crawl PARALLEL 0"; "LIMIT a DONE 1 PARALLEL 2 EXECUTION crawl";
    ] {
        f.refused(line, "ERR ");
    }
    let error = f.refused("UNPACK", "KNOWN ");
    assert!(error.contains("CHG.LIMIT"), "{error}");
    assert_eq!(server.digest(), digest);
    f.ok("LIMIT a DONE 0 EXECUTION crawl");
    f.ok("UNPACK");
    f.assert_consistent();
}
