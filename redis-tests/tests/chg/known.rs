//! Known URLs: `CHG.DISCOVER`, `CHG.KNOWN`, `CHG.COUNT`, `CHG.FORGET` and `CHG.SPACE`.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use redis_tests::{
    Frontier, Lease, Options, Reply, Server, T0, assert_replicated, bulk, int, nil, ok, rows,
    simulated,
};

const F: &str = "{f}:";
const STATES: [&str; 4] = ["queued", "leased", "done", "given-up"];

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

fn discover(f: &mut Frontier, execution: &str, urls: &[(&str, &str)]) -> Vec<i64> {
    let items: String = urls
        .iter()
        .map(|(chg, url)| format!(" {chg} 0 0 {url}"))
        .collect();
    let line = format!("DISCOVER {execution} URI ITEMS {}{items}", urls.len());
    f.ok(line).ints()
}

/// Returns the status of the last fetch of a URL.
fn status(f: &mut Frontier, url: &str) -> i64 {
    let known = f.ok(format!("KNOWN crawl {url}"));
    known.items()[0].items()[2].int()
}

#[test]
fn status_of_a_fetch_is_known_however_the_release_ends() {
    let (_server, mut f) = packed();
    discover(&mut f, "crawl", &[("a", "u")]);
    let ends = ["RETRY 0", "", "LATER 1000"];
    for (code, end) in (400..).zip(ends) {
        let lease = take(&mut f);
        f.release(&lease, format!("ELAPSED 0 STATUS {code} {end}").trim_end());
        assert_eq!(status(&mut f, "u"), code, "{end}");
        f.pass(1000);
    }
    // A release without a status keeps the last one.
    let lease = take(&mut f);
    f.release(&lease, "DELAY 0 DONE crawl");
    assert_eq!(status(&mut f, "u"), 402);
    f.assert_consistent();
}

/// Returns the numbers of queued, leased, done and given-up URLs.
fn counts(f: &mut Frontier, execution: &str) -> [i64; 4] {
    let reply = f.ok(format!("COUNT {execution}"));
    let counts = STATES.map(|state| reply.field(state).int());
    assert_eq!(reply.field("known").int(), counts.iter().sum::<i64>());
    counts
}

/// Leases a group that is due.
fn take(f: &mut Frontier) -> Lease {
    f.try_take().expect("a lease")
}

fn uri(lease: &Lease) -> String {
    lease.uri.clone().expect("a URI")
}

fn state(f: &mut Frontier, execution: &str, url: &str) -> Option<String> {
    match &f.ok(format!("KNOWN {execution} {url}")).items()[0] {
        known if known.is_nil() => None,
        known => Some(known.items()[0].text()),
    }
}

#[test]
fn url_is_known_through_its_whole_life() {
    let (_server, mut f) = packed();
    let url = "http://a.example/";
    assert_eq!(state(&mut f, "crawl", url), None);
    assert_eq!(discover(&mut f, "crawl", &[("a", url)]), [1]);
    // A URL in another group is still the same URL.
    assert_eq!(discover(&mut f, "crawl", &[("b", url), ("a", url)]), [0, 0]);
    assert_eq!(f.ok(format!("ADDURI crawl b 0 0 {url}")).ints(), [0]);
    assert_eq!(
        f.ok(format!("KNOWN crawl {url}")).items()[0].items(),
        [
            bulk("queued"),
            int(T0),
            int(-1),
            int(0),
            int(T0 / 600_000 * 600_000)
        ]
    );
    let lease = take(&mut f);
    assert_eq!(state(&mut f, "crawl", url).unwrap(), "leased");
    assert_eq!(discover(&mut f, "crawl", &[("a", url)]), [0]);
    f.release(&lease, "DELAY 0 RETRY 0");
    assert_eq!(state(&mut f, "crawl", url).unwrap(), "queued");
    let lease = take(&mut f);
    f.release(&lease, "ELAPSED 5 STATUS 404 DONE crawl");
    let known = f.ok(format!("KNOWN crawl {url}"));
    assert_eq!(
        known.items()[0].items()[..3],
        [bulk("done"), int(-1), int(404)]
    );
    assert_eq!(counts(&mut f, "crawl"), [0, 0, 1, 0]);
    assert_eq!(discover(&mut f, "crawl", &[("a", url)]), [0]);
    // A recrawl, after a day.
    let line = format!("DISCOVER crawl URI FRESH 86400000 ITEMS 1 a 0 0 {url}");
    assert_eq!(f.ok(&line), Reply::Array(vec![int(0)]));
    f.now = Some(T0 + 86_400_000);
    assert_eq!(f.ok(&line), Reply::Array(vec![int(1)]));
    assert_eq!(counts(&mut f, "crawl"), [1, 0, 0, 0]);
    assert_eq!(f.ok(format!("FORGET crawl URIS 1 {url}")), int(1));
    assert_eq!(state(&mut f, "crawl", url), None);
    assert_eq!(f.figure("uris"), 0);
    f.assert_consistent();
}

#[test]
fn lease_that_expires_too_often_gives_the_url_up() {
    let (_server, mut f) = packed();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 2);
    discover(&mut f, "crawl", &[("a", "u")]);
    for attempts in 1..=2 {
        f.ok("NEXT LEASE 10");
        f.now = Some(T0 + 100 * attempts);
        f.ok("EXPIRED");
    }
    let known = f.ok("KNOWN crawl u").items()[0].clone();
    assert_eq!(known.items()[0], bulk("given-up"));
    assert_eq!(known.items()[3], int(2));
    assert_eq!(discover(&mut f, "crawl", &[("a", "u")]), [0]);
    assert_eq!(counts(&mut f, "crawl"), [0, 0, 0, 1]);
    assert_eq!(f.ok("FORGET crawl STATE DONE"), int(0));
    assert_eq!(f.ok("FORGET crawl STATE GIVENUP"), int(1));
    assert_eq!(discover(&mut f, "crawl", &[("a", "u")]), [1]);
}

#[test]
fn dropped_crawl_keeps_what_is_done() {
    let (_server, mut f) = packed();
    discover(&mut f, "crawl", &[("a", "1"), ("b", "2"), ("c", "3")]);
    let done = take(&mut f);
    f.release(&done, "DELAY 0 DONE crawl");
    let held = take(&mut f);
    f.ok("DROP crawl");
    assert_eq!(counts(&mut f, "crawl"), [0, 0, 1, 0]);
    let refused = f.ok("DISCOVER crawl URI ITEMS 1 d 0 0 4");
    assert_eq!(refused, Reply::Array(vec![nil()]));
    f.release(&held, "DELAY 0 DONE crawl");
    assert_eq!(counts(&mut f, "crawl"), [0, 0, 1, 0]);
    f.ok("RESUME EXECUTION crawl");
    assert_eq!(
        discover(&mut f, "crawl", &[("a", &uri(&done)), ("b", &uri(&held))]),
        [0, 1]
    );
}

#[test]
fn moved_group_takes_its_known_urls_along() {
    let (_server, mut f) = packed();
    discover(&mut f, "crawl", &[("a", "1"), ("a", "2")]);
    let lease = take(&mut f);
    f.release(&lease, "DELAY 0 DONE crawl");
    f.ok("MOVE a b");
    for (group, expected) in [("a", [0, 0]), ("b", [1, 1])] {
        let reply = f.ok(format!("COUNT crawl GROUP {group}"));
        assert_eq!(
            [reply.field("queued").int(), reply.field("done").int()],
            expected
        );
    }
    assert_eq!(discover(&mut f, "crawl", &[("a", "1"), ("a", "2")]), [0, 0]);
    f.assert_consistent();
}

#[test]
fn shared_space_is_one_memory_and_counts_by_discoverer() {
    let (_server, mut f) = packed();
    f.ok("SPACE one SHARE all");
    f.ok("SPACE two BITS 96 SHARE all");
    assert_eq!(discover(&mut f, "one", &[("a", "1"), ("a", "2")]), [1, 2]);
    assert_eq!(discover(&mut f, "two", &[("a", "1"), ("b", "3")]), [0, 1]);
    assert_eq!(discover(&mut f, "apart", &[("c", "1")]), [1]);
    assert_eq!(counts(&mut f, "one"), [2, 0, 0, 0]);
    assert_eq!(counts(&mut f, "two"), [1, 0, 0, 0]);
    assert_eq!(state(&mut f, "two", "2").unwrap(), "queued");
    // Another execution cannot take a URL out of the queue.
    assert_eq!(f.ok("FORGET two URIS 2 1 3"), int(1));
    f.refused("SPACE one", "KNOWN ");
    f.refused("SPACE three BITS 128 SHARE all", "KNOWN ");
    f.assert_consistent();
}

#[test]
fn plain_frontier_and_counted_uris_are_refused() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    f.add("crawl", "a", T0);
    let digest = server.digest();
    for line in rows!["DISCOVER crawl URI ITEMS 1 a 0 0 u"; "SETTLE crawl ITEMS 1 a u NEVER"; "SETTLE crawl ITEMS 1 a u 0"; "SPACE crawl"; "KNOWN crawl u"; "COUNT crawl"; "COUNT crawl GROUP a"; "FORGET crawl"; "FORGET crawl URIS 1 u";]
    {
        let error = f.refused(line, "PLAIN ");
        assert!(error.contains("CHG.PACK"), "{error}");
    }
    assert_eq!(server.digest(), digest);
    f.ok("PACK");
    let error = f.refused("DISCOVER crawl URI ITEMS 1 a 0 0 u", "KNOWN ");
    assert!(error.contains("queued before"), "{error}");
    discover(&mut f, "new", &[("a", "u")]);
    f.refused("ADD new a 0", "KNOWN ");
    f.refused("UNPACK", "KNOWN ");
    f.ok("DROP new");
    f.ok("FORGET new");
    f.ok("UNPACK");
    f.assert_consistent();
}

#[test]
fn invalid_arguments_change_nothing() {
    let (server, mut f) = packed();
    discover(&mut f, "crawl", &[("a", "u")]);
    let digest = server.digest();
    for line in rows![
        "DISCOVER crawl URI ITEMS 2 a 0 0 x"; "DISCOVER crawl URI ITEMS 0"; "DISCOVER crawl URI ITEMS 1 a 0 0 x y";
        "DISCOVER crawl ITEMS 1 a 0 0 x"; "DISCOVER crawl URI FRESH -1 ITEMS 1 a 0 0 x"; "DISCOVER crawl URI WEIGHT 0 ITEMS 1 a 0 0 x";
        "DISCOVER crawl URI FRESH 1 FRESH 1 ITEMS 1 a 0 0 x"; "DISCOVER crawl URI ITEMS 10001 a 0 0 x"; "DISCOVER crawl URI";
        "SPACE crawl BITS 64"; "SPACE"; "KNOWN crawl"; "COUNT"; "COUNT crawl GROUP"; "FORGET crawl STATE QUEUED"; "FORGET crawl URIS 2 x";
        "FORGET"; "SETTLE crawl ITEMS 1 a x"; "SETTLE crawl ITEMS 0"; "SETTLE crawl ITEMS 2 a x 0"; "SETTLE crawl ITEMS 1 a x SOON";
        "SETTLE crawl ITEMS 1 a x 0 y"; "SETTLE crawl ITEMS 10001 a x 0"; "SETTLE crawl STATUS 1000 ITEMS 1 a x NEVER"; "SETTLE crawl";
        "SETTLE crawl STATUS 1 STATUS 1 ITEMS 1 a x NEVER"; "SETTLE crawl STATUS -1 ITEMS 1 a x NEVER"; "SETTLE crawl ITEMS 1 a x -1";
    ] {
        f.refused(line, "ERR ");
    }
    assert_eq!(server.digest(), digest);
}

#[test]
fn any_bytes_are_a_url() {
    let (_server, mut f) = packed();
    let urls: Vec<Vec<u8>> = vec![
        b"URIS".to_vec(),
        b"\0\xff\r\n ITEMS".to_vec(),
        vec![b'x'; 65_536],
        b"http://a.example/?q=%C3%A9".to_vec(),
    ];
    for url in &urls {
        let call = |f: &mut Frontier| {
            let words: [&[u8]; 9] = [
                b"CHG.DISCOVER",
                F.as_bytes(),
                b"ITEMS",
                b"URI",
                b"ITEMS",
                b"1",
                b"GROUP",
                b"0",
                b"0",
            ];
            let words: Vec<&[u8]> = words.into_iter().chain([&url[..]]).collect();
            f.wire.expect_ok(&words).ints()
        };
        let first = call(&mut f);
        assert!(first[0] > 0, "{first:?}");
        assert_eq!(call(&mut f), [0]);
        let known = f
            .wire
            .expect_ok(&[&b"CHG.KNOWN"[..], F.as_bytes(), b"ITEMS", url]);
        assert_eq!(known.items()[0].items()[0], bulk("queued"));
    }
    f.assert_consistent();
}

#[test]
fn memory_survives_restart_rewrite_replication_and_copies() {
    let mut server = simulated().packed().aof(true).start();
    let replica = simulated().packed().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    f.ok("SPACE wide BITS 128 SHARE s");
    for n in 0..50 {
        let (chg, url) = (format!("h{}", n % 7), format!("http://h/{n}"));
        discover(&mut f, "crawl", &[(&chg, &url)]);
        discover(&mut f, "wide", &[(&chg, &url)]);
    }
    for status in [200, 301, 404, 500] {
        let lease = take(&mut f);
        let execution = lease.execution.clone().unwrap();
        f.release(
            &lease,
            format!("ELAPSED 0 STATUS {status} DONE {execution}"),
        );
    }
    take(&mut f);
    let known: Vec<String> = (0..50).map(|n| format!("http://h/{n}")).collect();
    let line = format!("KNOWN crawl {}", known.join(" "));
    let shown = f.ok(&line);
    assert_replicated(&server, &replica);
    assert_eq!(Frontier::at(&replica, T0).ok(&line), shown);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0);
    assert_eq!(f.ok(&line), shown);
    let dump = ok!(f.wire, "DUMP", f.key("chg_packed"));
    ok!(f.wire, "RESTORE", "{f}2:chg_packed", 0, dump.bytes());
    assert_eq!(Frontier::over(f.wire.handle(), "{f}2:").ok(&line), shown);
    f.assert_consistent();
}

#[test]
fn workers_that_race_fetch_every_url_once() {
    let server = Options::new().packed().start();
    let workers = (0..4_u32).map(|worker| {
        let mut f = Frontier::real(&server);
        thread::spawn(move || {
            let mut fetched = Vec::new();
            // Each page links to the next ones, so that workers find the same links.
            discover(&mut f, "crawl", &[("h0", "0")]);
            let mut idle = 0;
            while idle < 200 {
                let Some(lease) = f.try_take() else {
                    idle += 1;
                    thread::yield_now();
                    continue;
                };
                idle = 0;
                let n: u32 = uri(&lease).parse().unwrap();
                let links: Vec<(String, String)> = (1..=3)
                    .map(|step| (n * 2 + step).min(400 + worker % 2))
                    .map(|n| (format!("h{}", n % 20), n.to_string()))
                    .collect();
                let links: Vec<(&str, &str)> = links
                    .iter()
                    .map(|(chg, url)| (&chg[..], &url[..]))
                    .collect();
                discover(&mut f, "crawl", &links);
                fetched.push(n);
                f.release(&lease, "DELAY 0 DONE crawl");
            }
            fetched
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    for worker in workers {
        for n in worker.join().unwrap() {
            *times.entry(n).or_default() += 1;
        }
    }
    let mut f = Frontier::real(&server);
    while let Some(lease) = f.try_take() {
        let n = uri(&lease).parse().unwrap();
        *times.entry(n).or_default() += 1;
        f.release(&lease, "DELAY 0 DONE crawl");
    }
    assert_eq!(
        times.values().copied().collect::<BTreeSet<_>>(),
        BTreeSet::from([1])
    );
    assert!(times.len() > 100, "{}", times.len());
    assert_eq!(counts(&mut f, "crawl"), [0, 0, times.len() as i64, 0]);
    f.assert_consistent();
}
