//! `CHG.URIS … EXECUTION`: lists of the URLs of an execution, and spaces that keep done URLs in full.

use std::collections::BTreeSet;

use redis_tests::{
    Frontier, Reply, Server, T0, assert_replicated, bulk, int, nil, ok, rows, simulated,
};

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

/// Returns all pages of a list.
fn listed(f: &mut Frontier, list: &str, count: usize) -> Vec<Reply> {
    let (mut all, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let page = f.ok(format!("URIS {list} CURSOR {cursor} COUNT {count}"));
        let [next, entries] = page.items() else {
            panic!("{page:?}")
        };
        assert!(entries.items().len() <= count);
        all.extend(entries.items().to_vec());
        cursor = next.text();
        if cursor == "0" {
            return all;
        }
    }
}

/// Returns the URIs of a list.
fn uris(f: &mut Frontier, list: &str) -> BTreeSet<String> {
    let all = listed(f, list, 3);
    let uris: BTreeSet<String> = all.iter().map(|url| url.items()[1].text()).collect();
    assert_eq!(uris.len(), all.len(), "{list}: a URL is listed twice");
    uris
}

fn set<const N: usize>(uris: [&str; N]) -> BTreeSet<String> {
    uris.map(str::to_owned).into()
}

#[test]
fn urls_that_are_done_are_listed_with_their_texts() {
    let (_server, mut f) = packed();
    f.ok("SPACE crawl TEXT YES");
    f.ok("SPACE crawl TEXT yes");
    f.refused("SPACE crawl", "KNOWN ");
    f.ok("DISCOVER crawl URI ITEMS 2 a.example 0 1 https://a.example/1 ip 0 2 https://a.example/2");
    f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 1 b 0 3 https://b/3 key payload");
    assert_eq!(listed(&mut f, "EXECUTION crawl STATE DONE", 9), []);
    while let Some(lease) = f.try_take() {
        f.release(&lease, "ELAPSED 0 STATUS 200 DONE crawl");
    }
    f.ok("SETTLE crawl STATUS 410 ITEMS 1 c gone NEVER");
    let mut all = listed(&mut f, "EXECUTION crawl STATE DONE", 1);
    all.sort_by_key(|url| url.items()[0].text());
    let changed = T0 / 600_000 * 600_000;
    let done = |chg: &str, uri: &str, key: Reply, status: i64| {
        Reply::Array(vec![
            bulk(chg),
            bulk(uri),
            key,
            int(-1),
            bulk("done"),
            int(-1),
            int(status),
            int(0),
            int(changed),
        ])
    };
    let expected = [
        done("a.example", "https://a.example/1", nil(), 200),
        done("b", "https://b/3", bulk("key"), 200),
        done("c", "gone", nil(), 410),
        done("ip", "https://a.example/2", nil(), 200),
    ];
    assert_eq!(all, expected);
    // The stored URL is deleted with the record, and stored again when the URL is done again.
    f.ok("FORGET crawl URIS 1 key");
    f.ok("DISCOVER crawl URI FRESH 0 ITEMS 1 a.example 0 1 https://a.example/1");
    let list = "EXECUTION crawl STATE DONE";
    assert_eq!(uris(&mut f, list), set(["gone", "https://a.example/2"]));
    f.ok("MOVE a.example d");
    f.fetch("d", "DELAY 0 DONE crawl");
    f.ok("DISCOVER crawl URI ITEMS 1 ip 0 0 new");
    f.ok("MOVE ip c");
    let groups = listed(&mut f, list, 9);
    let groups: BTreeSet<String> = groups.iter().map(|url| url.items()[0].text()).collect();
    assert_eq!(groups, set(["c", "d"]));
    f.ok("DROP crawl");
    assert_eq!(uris(&mut f, list).len(), 3);
    f.assert_consistent();
    assert_eq!(f.ok("FORGET crawl"), int(3));
    f.ok("UNPACK");
}

#[test]
fn urls_that_were_given_up_are_listed_with_their_texts() {
    let (_server, mut f) = packed();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 1);
    f.ok("SPACE crawl TEXT YES BITS 128 SHARE all");
    f.ok("SPACE other TEXT YES BITS 128 SHARE all");
    f.ok("DISCOVER crawl URI ITEMS 1 a 0 0 u");
    f.ok("NEXT LEASE 10");
    f.pass(100);
    f.ok("EXPIRED");
    assert_eq!(uris(&mut f, "EXECUTION crawl STATE GIVENUP"), set(["u"]));
    assert_eq!(uris(&mut f, "EXECUTION crawl STATE DONE"), set([]));
    assert_eq!(uris(&mut f, "EXECUTION other STATE GIVENUP"), set([]));
    f.assert_consistent();
}

#[test]
fn every_queued_and_leased_url_is_listed() {
    let (_server, mut f) = packed();
    for n in 0..30 {
        let chg = n % 7;
        f.ok(format!("ADDURI crawl h{chg} 0 {n} http://h/{n}"));
        f.ok(format!("ADDURI other h{chg} 0 0 http://other/{n}"));
    }
    // Groups behind a gate, paused and blocked groups, and several URIs of one lease.
    f.ok("GROUP gate h0 h1 h2");
    f.ok("PAUSE h3");
    f.ok(format!("BLOCK h4 UNTIL {}", T0 + 1000));
    f.ok("NEXT COUNT 9 URIS 2 EXECUTION crawl");
    let all: BTreeSet<String> = (0..30).map(|n| format!("http://h/{n}")).collect();
    assert_eq!(uris(&mut f, "EXECUTION crawl"), all);
    let leased = uris(&mut f, "EXECUTION crawl STATE LEASED");
    let queued = uris(&mut f, "EXECUTION crawl STATE QUEUED");
    assert!(leased.len() > 2, "{leased:?}");
    assert!(leased.is_disjoint(&queued) && &leased | &queued == all);
    assert_eq!(uris(&mut f, "EXECUTION nobody"), set([]));
    for count in [1, 2, 1000] {
        let page = listed(&mut f, "EXECUTION crawl", count);
        assert_eq!(page.len(), 30);
    }
    let first = &listed(&mut f, "EXECUTION crawl STATE QUEUED", 1)[0];
    let rest = &first.items()[3..];
    assert!(rest[0].int() >= 0);
    assert_eq!(
        rest[1..],
        [bulk("queued"), int(T0), int(-1), int(0), int(-1)]
    );
}

#[test]
fn lists_are_refused_where_they_are_impossible() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    f.add_uri("crawl", "a", T0, 0, "u");
    f.refused("URIS EXECUTION crawl", "PLAIN ");
    f.ok("PACK");
    f.ok("DISCOVER new URI ITEMS 1 a 0 0 v");
    for line in rows![
        "URIS EXECUTION new STATE DONE"; "URIS EXECUTION crawl STATE GIVENUP"; "URIS EXECUTION nobody STATE DONE";
        "SPACE new TEXT YES";
    ] {
        let error = f.refused(line, "KNOWN ");
        assert!(error.contains("TEXT"), "{error}");
    }
    for line in rows![
        "URIS a STATE QUEUED"; "URIS EXECUTION new STATE WAITING"; "URIS EXECUTION new CURSOR 0-0-0-1";
        "URIS EXECUTION new CURSOR ended:5"; "URIS EXECUTION new STATE DONE CURSOR queued:0:0:0-0-0-0";
        "URIS a CURSOR ended:5"; "URIS EXECUTION new COUNT 0"; "URIS EXECUTION new CURSOR queued:x:0:0-0-0-0";
        "SPACE e TEXT MAYBE"; "SPACE e TEXT";
    ] {
        f.refused(line, "ERR ");
    }
    // Without a value, it is the id of a group.
    f.ok("ADDURI crawl EXECUTION 0 0 w");
    assert_eq!(f.ok("URIS EXECUTION").items()[1].items().len(), 1);
}

#[test]
fn texts_survive_restart_replication_and_copies() {
    let mut server = simulated().packed().aof(true).start();
    let replica = simulated().packed().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    f.ok("SPACE crawl TEXT YES");
    for n in 0..3000 {
        let url = format!(
            "https://www.h{}.example/news/2026/page-{n}.html?lang=de",
            n % 50
        );
        f.ok(format!("DISCOVER crawl URI ITEMS 1 h{} 0 0 {url}", n % 50));
        f.ok(format!("SETTLE crawl ITEMS 1 x {url} NEVER"));
    }
    f.ok("SETTLE crawl ITEMS 1 x https://x/new NEVER");
    let list = "EXECUTION crawl STATE DONE";
    let before = uris(&mut f, list);
    assert_eq!(before.len(), 3001);
    assert_replicated(&server, &replica);
    let mut follower = Frontier::at(&replica, T0);
    assert_eq!(uris(&mut follower, list), before);
    follower.assert_consistent();
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0);
    assert_eq!(uris(&mut f, list), before);
    f.assert_consistent();
    let dump = ok!(f.wire, "DUMP", f.key("chg_packed"));
    ok!(f.wire, "RESTORE", "{f}2:chg_packed", 0, dump.bytes());
    let mut copy = Frontier::over(f.wire.handle(), "{f}2:");
    assert_eq!(uris(&mut copy, list), before);
    f.ok("FORGET crawl");
    assert_eq!(uris(&mut copy, list), before);
    copy.assert_consistent();
    f.assert_consistent();
}
