//! `WHY`, `INFO`, `CHECK` and `REPAIR`: operators see why no worker fetches from a host, and if the
//! data are consistent.

use crate::stage::{Audited, add_thousands, plain_stage, real_stage, stage};
use redis_tests::{BusyFrontier, Frontier, Reply, Server, T0, blocked, int, nil, ok, rows};

fn busy() -> (Server, Audited, BusyFrontier) {
    busy_on(stage())
}

/// Creates the same as [`busy`], in plain storage.
fn plain_busy() -> (Server, Audited, BusyFrontier) {
    busy_on(plain_stage())
}

fn busy_on((server, mut f): (Server, Audited)) -> (Server, Audited, BusyFrontier) {
    let out = BusyFrontier::build(&mut f);
    (server, f, out)
}

fn fields(map: &Reply) -> Vec<String> {
    map.pairs().iter().map(|(name, _)| name.text()).collect()
}

#[test]
fn why_has_the_same_fields_in_the_same_order_for_every_group() {
    let (_server, mut f, _) = busy();
    for chg in BusyFrontier::GROUPS {
        let why = f.why(chg);
        let names = rows![
            "chg"; "state"; "why"; "due"; "in"; "count"; "gate"; "blocked-until"; "paused"; "leases";
            "parallel"; "gap"; "delay"; "budget"; "group"; "group-gate"; "backoff"; "expired"; "executions";
            "more-executions";
        ];
        assert_eq!(fields(&why), names, "{chg}");
        assert_eq!(why.field("chg").text(), chg);
        let sentence = why.field("why").text();
        assert!(
            sentence.is_ascii() && sentence.len() > 10,
            "{chg}: {sentence}"
        );
        assert_eq!(why.field("count").int(), f.count(chg), "{chg}");
    }
    f.refused("WHY nobody", "NOCHG ");
}

#[test]
fn why_shows_the_state_and_its_end() {
    let (_server, mut f, out) = busy();
    let now = f.time();
    for (chg, state) in rows![
        "waiting", "waiting"; "later", "waiting"; "ready", "ready"; "held", "busy"; "kept", "busy";
        "idle", "idle"; "blocked", "blocked"; "paused", "paused"; "of-a-paused-crawl", "paused";
        "member1", "busy"; "member2", "gated"; "numbered", "waiting";
    ] {
        let why = f.why(chg);
        assert_eq!(why.field("state").text(), state, "{chg}: {why:?}");
    }
    let waiting = f.why("waiting");
    assert_eq!(waiting.field("due"), int(T0 + 60_000));
    assert_eq!(waiting.field("in"), int(T0 + 60_000 - now));
    let idle = f.why("idle");
    assert_eq!(idle.field("gate"), int(out.released.1));
    assert_eq!(f.why("blocked").field("blocked-until"), int(T0 + 180_000));
    assert_eq!(f.why("parallel").field("parallel"), int(2));
    assert_eq!(f.why("parallel").field("gap"), int(500));
    assert_eq!(f.why("parallel").field("budget"), int(6));
    assert_eq!(f.why("waiting").field("budget"), nil());
    assert_eq!(f.why("member2").field("group").text(), "shared");
    assert_eq!(f.why("ready").field("expired"), int(1));
}

#[test]
fn why_of_a_due_group_names_the_shared_gate_that_another_one_holds() {
    let (_server, mut f) = stage();
    f.ok("GROUP gate one two");
    f.ok(format!("ADD crawl one {T0} two {T0}"));
    let lease = f.take("one");
    // This is before `NEXT` has found the gate closed, and after the group was moved to the gate's
    // list.
    for _ in 0..2 {
        let why = f.why("two");
        assert_eq!(why.field("state").text(), "gated", "{why:?}");
        assert_eq!(why.field("due"), int(lease.deadline));
        f.take_none();
    }
}

#[test]
fn why_shows_the_leases_of_a_group() {
    let (_server, mut f, out) = busy();
    f.pass(1234);
    let now = f.time();
    let why = f.why("kept");
    let leases = why.field("leases");
    assert_eq!(leases.items().len(), 1, "{why:?}");
    let lease = &leases.items()[0];
    assert_eq!(
        fields(lease),
        ["token", "granted", "age", "deadline", "execution", "uri"]
    );
    assert_eq!(lease.field("token"), int(out.kept.token));
    assert_eq!(lease.field("deadline"), int(out.kept.deadline));
    let granted = lease.field("granted").int();
    assert_eq!(granted, T0);
    assert_eq!(lease.field("age"), int(now - granted));
    assert_eq!(
        lease.field("execution").text(),
        out.kept.execution.expect("kept")
    );
    assert_eq!(lease.field("uri").text(), out.kept.uri.expect("kept"));
    let held = f.why("held");
    let lease = held.field("leases").items()[0].clone();
    assert_eq!(
        (lease.field("execution"), lease.field("uri")),
        (nil(), nil())
    );
    let deadline = out.held.deadline.to_string();
    assert!(held.field("why").text().contains(&deadline), "{held:?}");
}

#[test]
fn why_shows_the_executions_and_their_weights() {
    let (_server, mut f, _) = busy();
    let why = f.why("kept");
    let mut told: Vec<(String, i64, i64)> = why
        .field("executions")
        .items()
        .iter()
        .map(|e| {
            assert_eq!(fields(e), ["execution", "weight", "uris"]);
            let number = |field: &str| e.field(field).int();
            (
                e.field("execution").text(),
                number("weight"),
                number("uris"),
            )
        })
        .collect();
    told.sort();
    assert_eq!(
        told,
        [("crawl".to_owned(), 1, 1), ("other".to_owned(), 3, 1)]
    );
}

#[test]
fn reading_changes_nothing() {
    let (server, mut f, _) = busy();
    f.pass(1_000_000);
    let before = server.digest();
    for chg in BusyFrontier::GROUPS {
        // The pause of the idle group has ended, so the group does not exist any more.
        f.call(format!("WHY {chg}"));
    }
    f.ok("INFO");
    f.ok("CHECK");
    assert_eq!(server.digest(), before);
}

#[test]
fn info_shows_the_sizes_of_the_queues() {
    let (_server, mut f, _) = busy();
    let info = f.ok("INFO");
    let number = |field: &str| info.field(field).int();
    assert_eq!(number("groups-busy"), f.busy().len() as i64);
    assert_eq!(number("groups-ready"), f.ready().len() as i64);
    assert_eq!(number("groups-waiting"), f.wait().len() as i64);
    assert_eq!(number("groups-idle"), 1);
    // The first group behind a gate waits in `chg_wait` as the representative of the gate.
    assert_eq!(number("groups-gated"), 0);
    assert_eq!(number("uris"), f.total());
    assert_eq!(number("executions"), 3);
    assert!(number("leases") >= 6, "{info:?}");
    assert_eq!(number("releases"), 1);
    assert_eq!(number("expired"), 1);
    assert_eq!(number("expired-reports"), 1);
    assert_eq!(number("waiters"), 0);
    for field in rows![
        "groups-waiting"; "due"; "oldest-ready-ms"; "paused"; "token";
    ] {
        assert!(info.find(field).is_some(), "no {field} in {info:?}");
    }
    f.ok("GROUP shared member3 member4");
    f.add("crawl", "member3", T0);
    f.add("crawl", "member4", T0);
    while f.try_take().is_some() {}
    assert_eq!(f.figure("groups-gated"), 2);
    f.pass(60_000);
    assert!(f.figure("due") > number("due"));
    assert!(f.figure("oldest-ready-ms") >= 60_000);
}

#[test]
fn info_of_a_frontier_that_is_not_there_is_all_zeros() {
    let (server, mut f) = real_stage();
    for field in rows![
        "groups-waiting"; "groups-ready"; "groups-busy"; "uris"; "executions"; "waiters";
    ] {
        assert_eq!(f.figure(field), 0, "{field}");
    }
    f.assert_conserved();
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn info_counts_waiters_and_the_rate() {
    let (server, mut f) = real_stage();
    let waiters: Vec<Frontier> = (0..3)
        .map(|_| blocked(&server, "{f}:", "NEXT BLOCK 0"))
        .collect();
    assert_eq!(f.figure("waiters"), 3);
    for waiter in waiters {
        waiter.wire.hang_up();
    }
    redis_tests::until("no client waits any more", || f.figure("waiters") == 0);
}

#[test]
fn info_shows_the_rate_of_the_last_seconds() {
    let (_server, mut f) = stage();
    for n in 0..90 {
        f.add("crawl", &format!("host-{n}"), T0);
        f.take(&format!("host-{n}"));
    }
    f.pass(1000);
    assert_eq!(f.figure("leases"), 90);
    let rate = f.figure("rate-leases");
    assert!((9..=10).contains(&rate), "{rate}");
    f.pass(20_000);
    assert_eq!(f.figure("rate-leases"), 0);
}

#[test]
fn check_proves_that_nothing_is_lost() {
    let (_server, mut f, _) = busy();
    let check = f.ok("CHECK");
    let names = fields(&check);
    for field in rows![
        "groups"; "executions"; "total"; "sum-groups"; "sum-executions"; "consistent"; "problems";
        "problems-total";
    ] {
        assert!(names.iter().any(|n| n == field), "{field}: {names:?}");
    }
    let total = f.total();
    for field in ["total", "sum-groups", "sum-executions"] {
        assert_eq!(check.field(field), int(total), "{field}");
    }
    assert_eq!(check.field("consistent"), int(1));
    assert_eq!(check.field("problems"), Reply::Array(vec![]));
}

#[test]
fn check_finds_and_repair_repairs_damage() {
    let spoils: [(&str, &[&str]); 12] = rows![
        "a group in no queue", &["ZREM", "{f}:chg_wait", "waiting"];
        "a ready group in no queue", &["LREM", "{f}:chg_ready", "0", "ready"];
        "a lease in no queue", &["ZREM", "{f}:chg_busy", "held"];
        "no wait queue", &["DEL", "{f}:chg_wait"];
        "no busy queue", &["DEL", "{f}:chg_busy"];
        "a queued group twice", &["RPUSH", "{f}:chg_ready", "waiting"];
        "a member without a group", &["ZADD", "{f}:chg_busy", "0", "nobody"];
        "a lost total", &["DEL", "{f}:QCT"];
        "a wrong total", &["INCRBY", "{f}:QCT", "7"];
        "a wrong execution", &["HINCRBY", "{f}:EIDC", "crawl", "-2"];
        "lost executions", &["DEL", "{f}:EIDC"];
        "a wrong count", &["HINCRBY", "{f}:CHG:waiting", "c", "5"];
    ];
    for (what, spoil) in spoils {
        let (server, mut f, _) = plain_busy();
        f.wire.expect_ok(spoil);
        let check = f.ok("CHECK");
        let problems = check.field("problems-total").int();
        let consistent = check.field("consistent").int();
        assert!(problems > 0 || consistent == 0, "{what}: {check:?}");
        let before = server.digest();
        f.ok("CHECK");
        assert_eq!(server.digest(), before, "CHECK mends nothing");
        let mended = f.ok("REPAIR");
        assert!(!mended.pairs().is_empty(), "{mended:?}");
        f.assert_conserved();
        let check = f.ok("CHECK");
        assert_eq!(check.field("problems-total"), int(0), "{what}: {check:?}");
        let before = server.digest();
        f.ok("REPAIR");
        assert_eq!(
            server.digest(),
            before,
            "{what}: REPAIR changes a consistent frontier"
        );
    }
}

#[test]
fn repair_queues_a_group_whose_count_it_corrects() {
    for kept in [true, false] {
        let (_server, mut f) = plain_stage();
        if kept {
            f.add_uri("crawl", "host", T0, 0, "http://host/")
        } else {
            f.add("crawl", "host", T0)
        };
        ok!(f.wire, "HSET", "{f}:CHG:host", "c", 0);
        ok!(f.wire, "ZREM", "{f}:chg_wait", "host");
        f.ok("REPAIR");
        f.assert_conserved();
        let check = f.ok("CHECK");
        assert_eq!(
            check.field("problems-total"),
            int(0),
            "kept {kept}: {check:?}"
        );
        if f.total() > 0 {
            assert_eq!(f.take("host").c, 1, "kept {kept}");
        }
        assert!(!kept || f.total() == 1, "a kept URI counts");
    }
}

#[test]
fn repair_queues_a_group_of_which_only_an_execution_is_known() {
    let (_server, mut f) = plain_stage();
    ok!(f.wire, "HSET", "{f}:CHG:host", "e:crawl", 2);
    f.ok("REPAIR");
    f.assert_conserved();
    let check = f.ok("CHECK");
    assert_eq!(check.field("problems-total"), int(0), "{check:?}");
    assert_eq!(f.take("host").c, 2);
}

#[test]
fn repaired_frontier_fetches_everything() {
    let (_server, mut f, out) = plain_busy();
    for key in ["chg_wait", "chg_ready", "chg_busy"] {
        let key = f.key(key);
        ok!(f.wire, "DEL", key);
    }
    f.ok("REPAIR");
    f.assert_conserved();
    // The leases are unchanged.
    f.release(&out.held, "AT 0 DONE crawl");
    f.ok("RESUME paused");
    f.ok("RESUME EXECUTION held-back");
    let mut rounds = 0;
    while f.total() > 0 {
        rounds += 1;
        assert!(rounds < 1000, "{} URIs are not fetched", f.total());
        f.pass(60_000);
        while let Some(lease) = f.try_take() {
            let done = lease.execution.clone().unwrap_or(match lease.chg.as_str() {
                "of-a-paused-crawl" => "held-back".to_owned(),
                _ => "crawl".to_owned(),
            });
            f.release(&lease, format!("AT 0 DONE {done}"));
        }
    }
}

#[test]
fn check_of_a_large_frontier_is_a_job() {
    let (server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    add_thousands(&mut f, "crawl", 30);
    let slices = server.info_number("slices");
    let mut checker = Frontier::at(&server, T0);
    checker.send("CHECK");
    let mut pings = 0;
    while !checker.wire.has_reply() {
        ok!(f.wire, "PING");
        pings += 1;
    }
    let check = checker.wire.recv();
    assert_eq!(check.field("groups"), int(30_000), "{check:?}");
    assert_eq!(check.field("consistent"), int(1), "{check:?}");
    assert!(pings > 20, "only {pings} PINGs were served");
    assert!(server.info_number("slices") - slices > 20);
    // Concurrent changes must cause no false alarms.
    let mut checker = Frontier::at(&server, T0);
    checker.send("CHECK");
    let mut leased = 0;
    while !checker.wire.has_reply() {
        let lease = f.try_take().expect("many groups are due");
        f.release(&lease, "AT 0 DONE crawl");
        leased += 1;
    }
    let check = checker.wire.recv();
    assert!(leased > 0);
    assert_eq!(
        check.field("problems-total"),
        int(0),
        "after {leased}: {check:?}"
    );
}
