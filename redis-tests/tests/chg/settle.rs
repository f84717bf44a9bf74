//! `CHG.SETTLE`: URLs that are marked as done or scheduled by name.

use std::thread;

use redis_tests::{
    Frontier, Lease, Options, Reply, Server, T0, assert_replicated, int, nil, ok, rows, simulated,
};

/// Moves the due time of a URL beyond the end of a test.
const LATER: i64 = T0 + 3_600_000;

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

fn discover(f: &mut Frontier, line: &str) {
    let reply = f.ok(format!("DISCOVER crawl URI ITEMS 1 {line}"));
    assert!(reply.items()[0].int() > 0, "{line}: {reply:?}");
}

/// Settles one URL twice; the second time, nothing changes.
fn settle(f: &mut Frontier, line: &str) -> i64 {
    let line = format!("SETTLE crawl {line}");
    let reply = f.ok(&line).ints();
    assert_eq!(f.ok(&line).ints(), [0], "{line} again");
    reply[0]
}

/// Returns the state, due time, status and attempts of a URL.
fn known(f: &mut Frontier, url: &str) -> Option<(String, i64, i64, i64)> {
    match &f.ok(format!("KNOWN crawl {url}")).items()[0] {
        known if known.is_nil() => None,
        known => {
            let [state, due, status, attempts, _] = known.items() else {
                panic!("{known:?}")
            };
            Some((state.text(), due.int(), status.int(), attempts.int()))
        }
    }
}

fn record(state: &str, due: i64, status: i64, attempts: i64) -> Option<(String, i64, i64, i64)> {
    Some((state.to_owned(), due, status, attempts))
}

fn counts(f: &mut Frontier) -> [i64; 4] {
    let reply = f.ok("COUNT crawl");
    ["queued", "leased", "done", "given-up"].map(|state| reply.field(state).int())
}

fn take(f: &mut Frontier) -> Lease {
    f.try_take().expect("a lease")
}

/// Puts a URL into a state, and returns the lease of a leased one.
fn bring(f: &mut Frontier, state: &str) -> Option<Lease> {
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 1);
    if state == "unknown" {
        return None;
    }
    discover(f, "a 0 3 u");
    match state {
        "leased" => return Some(take(f)),
        "done" => {
            let lease = take(f);
            f.release(&lease, "ELAPSED 0 STATUS 404 DONE crawl");
        }
        "given-up" => {
            f.ok("NEXT LEASE 1");
            f.pass(2);
            f.ok("EXPIRED");
        }
        _ => {}
    }
    None
}

#[test]
fn unknown_urls_are_done_or_queued() {
    let (_server, mut f) = packed();
    assert_eq!(settle(&mut f, "ITEMS 1 a u NEVER"), 1);
    assert_eq!(known(&mut f, "u"), record("done", -1, -1, 0));
    assert_eq!(settle(&mut f, "STATUS 410 ITEMS 1 b u NEVER"), 1);
    // Without a status, the old one stays.
    assert_eq!(settle(&mut f, "ITEMS 1 b u NEVER"), 0);
    assert_eq!(known(&mut f, "u"), record("done", -1, 410, 0));
    let at = T0 + 500;
    assert_eq!(settle(&mut f, &format!("ITEMS 1 a v {at}")), 1);
    assert_eq!(known(&mut f, "v"), record("queued", at, -1, 0));
    assert_eq!(counts(&mut f), [1, 0, 1, 0]);
    assert!(f.try_take().is_none());
    f.now = Some(at);
    assert_eq!(take(&mut f).uri.as_deref(), Some("v"));
    f.assert_consistent();
}

#[test]
fn queued_url_ends_or_moves_within_its_group() {
    let (_server, mut f) = packed();
    discover(&mut f, "a 0 0 1");
    discover(&mut f, "a 0 0 2");
    discover(&mut f, "b 0 0 3");
    // The group of the call does not matter, because the URL is known.
    assert_eq!(settle(&mut f, &format!("ITEMS 1 x 1 {LATER}")), 1);
    assert_eq!(known(&mut f, "1"), record("queued", LATER, -1, 0));
    assert_eq!(settle(&mut f, "STATUS 301 ITEMS 1 x 3 NEVER"), 1);
    assert_eq!(known(&mut f, "3"), record("done", -1, 301, 0));
    assert_eq!(f.figure("uris"), 2);
    let lease = take(&mut f);
    assert_eq!(lease.uri.as_deref(), Some("2"));
    f.release(&lease, "DELAY 0 DONE crawl");
    assert!(f.try_take().is_none());
    assert_eq!(f.ok("INFO").field("next-due-ms"), int(LATER));
    // The URL is due earlier again, so its group is due at once.
    assert_eq!(settle(&mut f, "ITEMS 1 x 1 0"), 1);
    assert_eq!(f.ok("INFO").field("next-due-ms"), int(T0));
    assert_eq!(take(&mut f).uri.as_deref(), Some("1"));
    assert_eq!(counts(&mut f), [0, 1, 2, 0]);
    f.assert_consistent();
}

#[test]
fn group_waits_for_its_first_url_wherever_that_moves() {
    let (_server, mut f) = packed();
    discover(&mut f, &format!("a {} 0 1", T0 + 1000));
    discover(&mut f, &format!("a {} 0 2", T0 + 2000));
    for (at, due) in [
        (T0 + 3000, T0 + 2000),
        (T0 + 500, T0 + 500),
        (LATER, T0 + 2000),
    ] {
        f.ok(format!("SETTLE crawl ITEMS 1 a 1 {at}"));
        assert_eq!(f.ok("WHY a").field("due"), int(due));
        assert_eq!(f.ok("INFO").field("next-due-ms"), int(due));
    }
}

#[test]
fn leased_url_ends_and_its_host_stays_leased_until_the_release() {
    for fate in [" DONE crawl", " RETRY 0", ""] {
        let (_server, mut f) = packed();
        let lease = bring(&mut f, "leased").unwrap();
        discover(&mut f, "a 0 0 w");
        assert_eq!(settle(&mut f, "STATUS 200 ITEMS 1 a u NEVER"), 1);
        assert_eq!(known(&mut f, "u"), record("done", -1, 200, 0));
        assert_eq!(counts(&mut f), [1, 0, 1, 0]);
        assert_eq!(f.figure("groups-busy"), 1);
        assert!(f.try_take().is_none(), "the host is leased");
        f.assert_consistent();
        f.release(&lease, format!("DELAY 1000{fate}"));
        assert_eq!(counts(&mut f), [1, 0, 1, 0]);
        assert!(f.try_take().is_none(), "the pause has begun");
        f.pass(1001);
        assert_eq!(take(&mut f).uri.as_deref(), Some("w"));
        f.assert_consistent();
    }
}

#[test]
fn scheduled_url_leaves_its_lease_without_an_attempt() {
    for fate in [" DONE crawl", " RETRY 0", ""] {
        let (_server, mut f) = packed();
        let lease = bring(&mut f, "leased").unwrap();
        let at = T0 + 5000;
        assert_eq!(settle(&mut f, &format!("ITEMS 1 a u {at}")), 1);
        assert_eq!(known(&mut f, "u"), record("queued", at, -1, 0));
        assert_eq!(counts(&mut f), [1, 0, 0, 0]);
        f.pass(5000);
        assert!(f.try_take().is_none(), "the host is leased");
        f.assert_consistent();
        // The worker has nothing left to end.
        f.release(&lease, format!("DELAY 1000{fate}"));
        assert_eq!(known(&mut f, "u"), record("queued", at, -1, 0));
        f.pass(1001);
        assert_eq!(take(&mut f).uri.as_deref(), Some("u"));
        f.assert_consistent();
    }
}

#[test]
fn lease_without_its_url_expires_and_changes_no_url() {
    for line in [
        "ITEMS 1 a u NEVER".to_owned(),
        format!("ITEMS 1 a u {LATER}"),
    ] {
        let (_server, mut f) = packed();
        bring(&mut f, "leased");
        settle(&mut f, &line);
        let before = known(&mut f, "u");
        f.pass(700_000);
        f.ok("EXPIRED");
        assert_eq!(f.figure("groups-busy"), 0);
        assert_eq!(known(&mut f, "u"), before);
        f.assert_consistent();
    }
}

#[test]
fn several_leases_of_a_group_end_one_by_one() {
    let (_server, mut f) = packed();
    f.ok("LIMIT a PARALLEL 3");
    for n in 0..5 {
        discover(&mut f, &format!("a 0 0 {n}"));
    }
    let leases: Vec<Lease> = (0..2).map(|_| take(&mut f)).collect();
    let leased = leases[0].uri.clone().unwrap();
    let other = leases[1].uri.clone().unwrap();
    assert_eq!(settle(&mut f, &format!("ITEMS 1 a {leased} {LATER}")), 1);
    assert_eq!(settle(&mut f, &format!("ITEMS 1 a {other} NEVER")), 1);
    assert_eq!(counts(&mut f), [4, 0, 1, 0]);
    f.assert_consistent();
    for lease in &leases {
        f.release(lease, "DELAY 0 DONE crawl");
    }
    for _ in 0..3 {
        take(&mut f);
    }
    assert!(f.try_take().is_none());
    assert_eq!(known(&mut f, &leased).unwrap().0, "queued");
    f.assert_consistent();
}

#[test]
fn url_that_is_over_is_queued_again() {
    for (state, status) in [("done", 404), ("given-up", -1)] {
        let (_server, mut f) = packed();
        bring(&mut f, state);
        assert_eq!(settle(&mut f, &format!("ITEMS 1 b u {LATER}")), 1);
        assert_eq!(known(&mut f, "u"), record("queued", LATER, status, 0));
        assert_eq!(f.ok("COUNT crawl GROUP b").field("queued"), int(1));
        assert_eq!(settle(&mut f, "ITEMS 1 b u NEVER"), 1);
        assert_eq!(known(&mut f, "u"), record("done", -1, status, 0));
        f.assert_consistent();
    }
    let (_server, mut f) = packed();
    bring(&mut f, "given-up");
    assert_eq!(settle(&mut f, "ITEMS 1 b u NEVER"), 1);
    assert_eq!(known(&mut f, "u"), record("done", -1, -1, 1));
}

/// Returns the URI and the payload of the next lease.
fn payload(f: &mut Frontier) -> (String, Option<String>) {
    let reply = f.ok("NEXT LEASE 1000 URIS 1");
    let uris = reply.items()[0].items()[7].items();
    let [uri, _, payload, ..] = uris[0].items() else {
        panic!("{reply:?}")
    };
    let text = |reply: &Reply| (!reply.is_nil()).then(|| reply.text());
    (text(uri).unwrap(), text(payload))
}

#[test]
fn payload_of_a_scheduled_url_is_replaced_in_every_state() {
    for state in ["unknown", "queued", "leased", "done", "given-up"] {
        let (_server, mut f) = packed();
        bring(&mut f, state);
        assert_eq!(settle(&mut f, "PAYLOAD ITEMS 1 b u 0 first"), 1, "{state}");
        // The first call changes only the payload. The second call has no PAYLOAD, and changes nothing.
        assert_eq!(settle(&mut f, "PAYLOAD ITEMS 1 b u 0 second"), 1);
        assert_eq!(f.ok("SETTLE crawl ITEMS 1 b u 0").ints(), [0]);
        f.pass(700_000);
        f.ok("EXPIRED");
        assert_eq!(payload(&mut f), ("u".into(), Some("second".into())));
        // The word after the last space is empty, and an empty payload removes the payload of the leased URL.
        assert_eq!(settle(&mut f, "PAYLOAD ITEMS 1 b u 0 "), 1);
        f.pass(700_000);
        f.ok("EXPIRED");
        assert_eq!(payload(&mut f), ("u".into(), None));
        assert_eq!(settle(&mut f, "PAYLOAD ITEMS 1 b u NEVER ignored"), 1);
        assert_eq!(known(&mut f, "u").unwrap().0, "done");
        f.assert_consistent();
    }
}

#[test]
fn settling_a_keyed_url_keeps_its_url() {
    let (_server, mut f) = packed();
    f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 1 a 0 0 http://a/ key old");
    let later = T0 + 10;
    assert_eq!(
        settle(&mut f, &format!("PAYLOAD ITEMS 1 a key {later} new")),
        1
    );
    f.pass(10);
    assert_eq!(payload(&mut f), ("http://a/".into(), Some("new".into())));
    f.assert_consistent();
}

#[test]
fn scheduled_url_has_no_attempts() {
    let (_server, mut f) = packed();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 3);
    discover(&mut f, "a 0 0 u");
    for _ in 0..2 {
        f.ok("NEXT LEASE 1");
        f.pass(2);
        f.ok("EXPIRED");
    }
    let now = f.now.unwrap();
    assert_eq!(known(&mut f, "u"), record("queued", T0, -1, 2));
    assert_eq!(settle(&mut f, "ITEMS 1 a u 0"), 1);
    assert_eq!(known(&mut f, "u"), record("queued", now, -1, 0));
    f.ok("NEXT LEASE 1");
    f.pass(2);
    f.ok("EXPIRED");
    take(&mut f);
    assert_eq!(settle(&mut f, "ITEMS 1 a u 0"), 1);
    assert_eq!(known(&mut f, "u").unwrap().3, 0);
    f.assert_consistent();
}

#[test]
fn budget_and_drop_refuse_and_the_other_items_count() {
    let (_server, mut f) = packed();
    f.ok("LIMIT a BUDGET 1");
    let reply = f.ok("SETTLE crawl ITEMS 5 a 1 0 a 2 0 a 2 NEVER b 3 0 b 3 0");
    assert_eq!(
        reply,
        Reply::Array(vec![int(1), nil(), int(1), int(1), int(0)])
    );
    // A URL that is queued already needs no budget.
    assert_eq!(settle(&mut f, &format!("ITEMS 1 a 1 {LATER}")), 1);
    take(&mut f);
    f.ok("DROP crawl");
    let reply = f.ok("SETTLE crawl ITEMS 2 a 1 0 a 4 NEVER");
    assert_eq!(reply, Reply::Array(vec![nil(), nil()]));
    assert_eq!(known(&mut f, "4"), None);
    f.assert_consistent();
}

#[test]
fn shared_space_settles_urls_of_the_other_execution() {
    let (_server, mut f) = packed();
    f.ok("SPACE crawl SHARE all");
    f.ok("SPACE other SHARE all");
    discover(&mut f, "a 0 0 u");
    discover(&mut f, "a 0 0 v");
    assert_eq!(f.ok("SETTLE other ITEMS 1 a u NEVER").ints(), [1]);
    assert_eq!(
        f.ok(format!("SETTLE other ITEMS 1 a v {LATER}")).ints(),
        [1]
    );
    assert_eq!(known(&mut f, "v"), record("queued", LATER, -1, 0));
    // The execution that discovered a URL counts it.
    assert_eq!(counts(&mut f), [1, 0, 1, 0]);
    f.assert_consistent();
}

#[test]
fn paused_blocked_and_gated_groups_follow_their_urls() {
    let (_server, mut f) = packed();
    f.ok("GROUP shared a b");
    for chg in ["a", "b", "c", "d"] {
        discover(&mut f, &format!("{chg} {LATER} 0 {chg}"));
    }
    f.ok(format!("BLOCK c UNTIL {}", T0 + 100_000));
    f.ok("PAUSE d");
    for url in ["a", "b", "c", "d"] {
        assert_eq!(settle(&mut f, &format!("ITEMS 1 x {url} 0")), 1);
    }
    let first = take(&mut f);
    assert!(f.try_take().is_none(), "the gate is closed");
    f.assert_consistent();
    f.release(&first, "DELAY 0 DONE crawl");
    let second = take(&mut f);
    assert_eq!([&first.chg[..], &second.chg[..]], ["a", "b"]);
    f.release(&second, "DELAY 0 DONE crawl");
    assert!(f.try_take().is_none());
    f.ok("RESUME d");
    assert_eq!(take(&mut f).chg, "d");
    f.pass(200_000);
    assert_eq!(take(&mut f).chg, "c");
    f.assert_consistent();
}

#[test]
fn settled_urls_survive_restart_rewrite_and_replication() {
    let mut server = simulated().packed().aof(true).start();
    let replica = simulated().packed().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    for n in 0..40 {
        discover(&mut f, &format!("h{} {} 0 {n}", n % 5, T0 + n % 3));
    }
    f.pass(10);
    for _ in 0..4 {
        take(&mut f);
    }
    for n in (0..60).step_by(3) {
        let until = match n % 2 {
            0 => "NEVER".to_owned(),
            _ => LATER.to_string(),
        };
        f.ok(format!(
            "SETTLE crawl STATUS {} PAYLOAD ITEMS 1 h{} {n} {until} payload-{n}",
            200 + n,
            n % 7
        ));
    }
    assert_replicated(&server, &replica);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0);
    f.assert_consistent();
    assert_eq!(counts(&mut f).iter().sum::<i64>(), 46);
}

#[test]
fn workers_that_race_with_a_client_that_settles_agree() {
    let server = Options::new().packed().start();
    let mut f = Frontier::real(&server);
    for n in 0..300 {
        discover(&mut f, &format!("h{} 0 0 {n}", n % 10));
    }
    let mut other = Frontier::real(&server);
    let settler = thread::spawn(move || {
        for n in 0..300 {
            let until = if n % 3 == 0 { "0" } else { "NEVER" };
            other.ok(format!("SETTLE crawl STATUS 299 ITEMS 1 x {n} {until}"));
        }
    });
    let work = |f: &mut Frontier, turn: usize| {
        let Some(lease) = f.try_take() else {
            return false;
        };
        let fate = ["DONE crawl", "RETRY 0", "DONE crawl"][turn % 3];
        f.release(&lease, format!("DELAY 0 {fate}"));
        true
    };
    let mut turn = 0;
    while !settler.is_finished() {
        turn += 1;
        work(&mut f, turn);
    }
    settler.join().unwrap();
    while work(&mut f, 0) {}
    assert_eq!(counts(&mut f), [0, 0, 300, 0]);
    assert_eq!(f.figure("uris"), 0);
    f.assert_consistent();
}

/// The state of a URL after a command, and the reply, for each state before it.
type Row = [(&'static str, Option<Reply>); 5];

#[test]
fn every_command_does_to_a_url_what_the_documentation_says() {
    const STATES: [&str; 5] = ["unknown", "queued", "leased", "done", "given-up"];
    let at = format!("SETTLE crawl ITEMS 1 a u {LATER}");
    let release = |end: &str| format!("RELEASE a {{token}} DELAY 0 {end}");
    let (done, retry) = (release("DONE crawl"), release("RETRY 0"));
    // For each state: the state afterwards and, if relevant, the reply.
    let table: Vec<(&str, Row)> = vec![
        (
            "DISCOVER crawl URI ITEMS 1 a 0 0 u",
            [
                ("queued", Some(ints(&[1]))),
                ("queued", Some(ints(&[0]))),
                ("leased", Some(ints(&[0]))),
                ("done", Some(ints(&[0]))),
                ("given-up", Some(ints(&[0]))),
            ],
        ),
        (
            "ADDURI crawl a 0 0 u",
            [
                ("queued", Some(ints(&[1]))),
                ("queued", Some(ints(&[1]))),
                ("leased", Some(ints(&[1]))),
                ("done", Some(ints(&[0]))),
                ("given-up", Some(ints(&[0]))),
            ],
        ),
        (
            &at,
            [
                ("queued", Some(ints(&[1]))),
                ("queued", Some(ints(&[1]))),
                ("queued", Some(ints(&[1]))),
                ("queued", Some(ints(&[1]))),
                ("queued", Some(ints(&[1]))),
            ],
        ),
        (
            "SETTLE crawl ITEMS 1 a u NEVER",
            [
                ("done", Some(ints(&[1]))),
                ("done", Some(ints(&[1]))),
                ("done", Some(ints(&[1]))),
                ("done", Some(ints(&[0]))),
                ("done", Some(ints(&[1]))),
            ],
        ),
        (
            "NEXT",
            [
                ("unknown", None),
                ("leased", None),
                ("leased", None),
                ("done", None),
                ("given-up", None),
            ],
        ),
        (
            &done,
            [
                ("unknown", None),
                ("queued", None),
                ("done", None),
                ("done", None),
                ("given-up", None),
            ],
        ),
        (
            &retry,
            [
                ("unknown", None),
                ("queued", None),
                ("queued", None),
                ("done", None),
                ("given-up", None),
            ],
        ),
        (
            "EXPIRED",
            [
                ("unknown", None),
                ("queued", None),
                ("given-up", None),
                ("done", None),
                ("given-up", None),
            ],
        ),
        (
            "FORGET crawl URIS 1 u",
            [
                ("unknown", Some(int(0))),
                ("unknown", Some(int(1))),
                ("leased", Some(int(0))),
                ("unknown", Some(int(1))),
                ("unknown", Some(int(1))),
            ],
        ),
        (
            "DROP crawl",
            [
                ("unknown", None),
                ("unknown", None),
                ("unknown", None),
                ("done", None),
                ("given-up", None),
            ],
        ),
    ];
    let (_server, f) = packed();
    for (n, (line, row)) in table.iter().enumerate() {
        for (before, (after, reply)) in STATES.iter().zip(row) {
            let mut f = Frontier::over(f.wire.handle(), &format!("{{{before}}}{n}:"));
            f.now = Some(T0);
            f.ok("PACK");
            f.ok("SPACE crawl");
            let lease = bring(&mut f, before);
            if *line == "EXPIRED" {
                f.pass(700_000);
            }
            let token = lease.map_or(1, |lease| lease.token);
            let line = line.replace("{token}", &token.to_string());
            let is_stale = line.starts_with("RELEASE") && *before != "leased";
            let got = if is_stale {
                f.refused(&line, "");
                None
            } else {
                Some(f.ok(&line))
            };
            let state = known(&mut f, "u").map_or("unknown".to_owned(), |known| known.0);
            assert_eq!(state, *after, "{before}: {line}");
            if let Some(reply) = reply {
                assert_eq!(got.as_ref(), Some(reply), "{before}: {line}");
            }
            f.assert_consistent();
        }
    }
}

fn ints(numbers: &[i64]) -> Reply {
    Reply::Array(numbers.iter().map(|n| int(*n)).collect())
}

#[test]
fn info_says_when_the_next_group_may_be_leased() {
    for server in [simulated().plain().start(), simulated().packed().start()] {
        let mut f = Frontier::at(&server, T0);
        let due = |f: &mut Frontier| f.ok("INFO").field("next-due-ms").int();
        let due_of = |f: &mut Frontier, execution: &str| {
            let info = f.ok(format!("INFO EXECUTION {execution}"));
            info.field("next-due-ms").int()
        };
        assert_eq!((due(&mut f), due_of(&mut f, "crawl")), (-1, -1));
        f.ok(format!("ADDURI crawl a {} 0 u", T0 + 700));
        f.ok(format!("ADDURI other b {} 0 u", T0 + 900));
        assert_eq!(due(&mut f), T0 + 700);
        assert_eq!(
            (due_of(&mut f, "crawl"), due_of(&mut f, "other")),
            (T0 + 700, T0 + 900)
        );
        for line in rows!["PAUSE a"; "PAUSE EXECUTION crawl"; "BLOCK a UNTIL 4000000050000";] {
            f.ok(line);
            assert_eq!(due(&mut f), T0 + 900, "{line}");
            assert_eq!(due_of(&mut f, "crawl"), -1, "{line}");
            let back = line
                .replace("PAUSE", "RESUME")
                .replace("4000000050000", "0");
            f.ok(&back);
            assert_eq!(due(&mut f), T0 + 700, "{back}");
        }
        f.ok("PAUSE");
        assert_eq!((due(&mut f), due_of(&mut f, "crawl")), (-1, -1));
        f.ok("RESUME");
        f.pass(2000);
        assert_eq!(due(&mut f), T0 + 2000);
        f.ok("NEXT COUNT 2 LEASE 60000");
        // The leases expire.
        assert_eq!(
            (due(&mut f), due_of(&mut f, "other")),
            (T0 + 62_000, T0 + 62_000)
        );
        f.ok("ADDURI crawl a 0 0 v");
        assert_eq!(due(&mut f), T0 + 62_000);
        f.ok("ADD crawl c 0");
        assert_eq!(
            (due(&mut f), due_of(&mut f, "crawl")),
            (T0 + 2000, T0 + 2000)
        );
    }
}

#[test]
fn info_of_an_execution_counts_its_urls() {
    let (_server, mut f) = packed();
    discover(&mut f, "a 0 0 1");
    discover(&mut f, "b 0 0 2");
    discover(&mut f, "c 0 0 3");
    let lease = take(&mut f);
    f.release(&lease, "DELAY 0 DONE crawl");
    take(&mut f);
    f.ok("PAUSE EXECUTION crawl");
    let info = f.ok("INFO EXECUTION crawl");
    for (field, value) in [
        ("uris", 2),
        ("paused", 1),
        ("next-due-ms", -1),
        ("queued", 1),
        ("leased", 1),
        ("done", 1),
        ("given-up", 0),
        ("known", 3),
    ] {
        assert_eq!(info.field(field), int(value), "{field}");
    }
    assert!(f.ok("INFO EXECUTION nobody").field("known").is_nil());
}

#[test]
fn time_of_a_frontier_with_many_held_groups_is_not_too_late() {
    let (_server, mut f) = packed();
    for n in 0..100 {
        f.ok(format!("ADDURI crawl h{n} {} 0 u", T0 + 1000 + n));
        f.ok(format!("PAUSE h{n}"));
    }
    f.ok(format!("ADDURI crawl free {} 0 u", T0 + 5000));
    for execution in ["", " EXECUTION crawl"] {
        let due = f.ok(format!("INFO{execution}")).field("next-due-ms").int();
        assert!((T0 + 1000..=T0 + 5000).contains(&due), "{due}");
    }
    // Searches remember the groups that they skipped.
    f.pass(2000);
    assert!(f.try_take().is_none());
    assert_eq!(f.ok("INFO").field("next-due-ms"), int(T0 + 5000));
}
