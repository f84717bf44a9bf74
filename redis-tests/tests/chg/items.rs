//! Keys and payloads of URLs, and leases of several URIs.

use redis_tests::{
    Frontier, Reply, Server, T0, assert_replicated, bulk, int, nil, rows, simulated,
};

const F: &str = "{f}:";

fn packed() -> (Server, Frontier) {
    let server = simulated().packed().start();
    let f = Frontier::at(&server, T0);
    (server, f)
}

/// Returns a leased URI as a full lease shows it.
fn item(uri: &str, key: Option<&str>, payload: Option<&str>, depth: i64, attempts: i64) -> Reply {
    let optional = |text: Option<&str>| text.map_or(nil(), bulk);
    Reply::Array(vec![
        bulk(uri),
        optional(key),
        optional(payload),
        int(depth),
        int(attempts),
    ])
}

/// Leases a group with `line`; returns its name, the token, and the URIs.
fn take(f: &mut Frontier, line: &str) -> (String, i64, Vec<Reply>) {
    let reply = f.ok(line);
    let [lease] = reply.items() else {
        panic!("expected one lease, got {reply:?}")
    };
    let [chg, token, _, _, _, execution, uri, items] = lease.items() else {
        panic!("expected eight elements, got {lease:?}")
    };
    assert!(uri.is_nil() && !execution.is_nil(), "{lease:?}");
    (chg.text(), token.int(), items.items().to_vec())
}

fn state(f: &mut Frontier, name: &str) -> String {
    f.ok(format!("KNOWN crawl {name}")).items()[0].items()[0].text()
}

#[test]
fn key_identifies_a_url_and_the_payload_comes_back() {
    let (_server, mut f) = packed();
    let discovered =
        f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 2 a 0 3 http://a/1 k1 p1 a 0 0 http://a/2 k2 p2");
    assert_eq!(discovered.ints(), [1, 2]);
    // The same key means the same URL.
    let known = f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 1 b 0 0 http://b/ k1 other");
    assert_eq!(known.ints(), [0]);
    assert_eq!(
        f.ok("DISCOVER crawl KEY ITEMS 1 a 0 0 http://a/3 k2")
            .ints(),
        [0]
    );
    // The URL with the lowest depth is leased first.
    let (chg, token, items) = take(&mut f, "NEXT URIS 1");
    assert_eq!(items, [item("http://a/2", Some("k2"), Some("p2"), 0, 0)]);
    assert_eq!(state(&mut f, "k2"), "leased");
    f.ok(format!("RELEASE {chg} {token} DELAY 0 DONE crawl"));
    assert_eq!(state(&mut f, "k2"), "done");
    // Without the new options, a lease has seven elements, and its URI is the URL.
    let lease = f.try_take().unwrap();
    assert_eq!(lease.uri.as_deref(), Some("http://a/1"));
    let why = f.ok("WHY a");
    assert_eq!(
        why.field("leases").items()[0].field("uri").text(),
        "http://a/1"
    );
    f.release(&lease, format!("DELAY 0 RETRY {T0} PAYLOAD changed"));
    let (chg, token, items) = take(&mut f, "NEXT URIS 5");
    assert_eq!(
        items,
        [item("http://a/1", Some("k1"), Some("changed"), 3, 0)]
    );
    // A release that is sent again, and one with another token, change nothing.
    f.ok(format!(
        "RELEASE {chg} {token} DELAY 0 RETRY {T0} PAYLOAD again"
    ));
    f.ok(format!(
        "RELEASE {chg} {token} DELAY 0 RETRY {T0} PAYLOAD twice"
    ));
    f.refused(
        format!("RELEASE {chg} 1 DELAY 0 RETRY {T0} PAYLOAD stale"),
        "STALE ",
    );
    let (_, _, items) = take(&mut f, "NEXT URIS 5");
    assert_eq!(items, [item("http://a/1", Some("k1"), Some("again"), 3, 0)]);
    f.assert_consistent();
}

#[test]
fn payload_may_be_any_bytes_and_empty() {
    let (_server, mut f) = packed();
    let long = vec![b'x'; 65_536];
    let payloads: [&[u8]; 4] = [b"", b"\0\xff\r\n", b"ITEMS", &long];
    for (n, payload) in (0_u8..).zip(payloads) {
        let url = [b'u', n];
        let words: [&[u8]; 11] = [
            b"CHG.DISCOVER",
            F.as_bytes(),
            b"crawl",
            b"PAYLOAD",
            b"ITEMS",
            b"1",
            b"h",
            b"0",
            b"0",
            &url,
            payload,
        ];
        assert_eq!(f.wire.expect_ok(&words).ints(), [i64::from(n) + 1]);
    }
    let (_, _, items) = take(&mut f, "NEXT URIS 4");
    for (n, (payload, item)) in payloads.iter().zip(&items).enumerate() {
        let parts = item.items();
        assert_eq!(parts[0].bytes(), [b'u', n as u8]);
        assert!(parts[1].is_nil());
        assert_eq!(parts[2].bytes(), *payload);
    }
}

#[test]
fn lease_of_several_uris_ends_for_all() {
    let (_server, mut f) = packed();
    for n in 0..7 {
        f.ok(format!("ADDURI other h 0 0 http://h/o{n}"));
        f.ok(format!("DISCOVER crawl URI ITEMS 1 h 0 0 http://h/{n}"));
    }
    f.ok("LIMIT h PARALLEL 2");
    let (chg, first, items) = take(&mut f, "NEXT URIS 5");
    assert_eq!(items.len(), 5);
    // The other execution has the next turn.
    let (_, second, items) = take(&mut f, "NEXT URIS 1000");
    assert_eq!(items.len(), 7);
    assert!(f.ok("NEXT URIS 5").is_nil());
    f.refused(
        format!("RELEASE {chg} {first} DELAY 0 DONE other 4"),
        "ERR ",
    );
    f.refused(
        format!("RELEASE {chg} {first} DELAY 0 RETRY {T0} PAYLOAD p"),
        "ERR ",
    );
    f.assert_consistent();
    f.ok(format!("RELEASE {chg} {first} DELAY 0 DONE other 5"));
    f.ok(format!("RELEASE {chg} {second} DELAY 0 RETRY {T0}"));
    assert_eq!(f.figure("uris"), 9);
    f.assert_consistent();
    let mut left = 0;
    while let Some(lease) = f.try_take() {
        left += 1;
        let execution = lease.execution.clone().unwrap();
        f.release(&lease, format!("DELAY 0 DONE {execution}"));
    }
    assert_eq!((left, f.figure("uris")), (9, 0));
    assert_eq!(f.ok("COUNT crawl").field("done").int(), 7);
    f.assert_consistent();
}

#[test]
fn expired_lease_of_several_uris_reports_each() {
    let (_server, mut f) = packed();
    f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 3 h 0 0 u1 k1 p1 h 0 0 u2 k2 p2 h 0 0 u3 k3 p3");
    take(&mut f, "NEXT LEASE 1000 URIS 2");
    f.pass(1000);
    let reports = f.ok("EXPIRED");
    let reports = reports
        .items()
        .iter()
        .map(|report| report.items()[2].text());
    assert_eq!(reports.collect::<Vec<_>>(), ["u1", "u2"]);
    f.assert_consistent();
    let (_, _, items) = take(&mut f, "NEXT URIS 9");
    assert_eq!(
        items,
        [
            item("u1", Some("k1"), Some("p1"), 0, 1),
            item("u2", Some("k2"), Some("p2"), 0, 1),
            item("u3", Some("k3"), Some("p3"), 0, 0)
        ]
    );
    f.refused("UNPACK", "KNOWN ");
    f.ok("DROP crawl");
    assert_eq!(f.figure("uris"), 0);
    f.assert_consistent();
}

#[test]
fn release_with_next_repeats_the_full_lease() {
    let (_server, mut f) = packed();
    f.ok("DISCOVER crawl PAYLOAD ITEMS 3 a 0 0 u1 p1 a 0 0 u2 p2 b 0 0 u3 p3");
    let (chg, token, _) = take(&mut f, "NEXT URIS 1");
    let release = format!("RELEASE {chg} {token} DELAY 0 DONE crawl NEXT URIS 3");
    let first = f.ok(&release);
    assert_eq!(first.items()[1].items()[7].items().len(), 1);
    assert_eq!(f.ok(&release), first);
}

#[test]
fn plain_lease_of_several_uris_is_refused() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    f.ok("ADDURI crawl h 0 0 u1 h 0 0 u2");
    let digest = server.digest();
    for line in rows!["NEXT URIS 2"; "NEXT GROUP h URIS 2"; "DISCOVER crawl KEY ITEMS 1 a 0 0 u k";]
    {
        f.refused(line, "PLAIN ");
    }
    let lease = f.try_take().unwrap();
    let (chg, token) = (&lease.chg, lease.token);
    f.refused(
        format!("RELEASE {chg} {token} DELAY 0 NEXT URIS 2"),
        "PLAIN ",
    );
    f.refused(
        format!("RELEASE {chg} {token} DELAY 0 RETRY 0 PAYLOAD p"),
        "PLAIN ",
    );
    f.release(&lease, "DELAY 0");
    assert_ne!(server.digest(), digest);
}

#[test]
fn uris_lists_the_url_and_the_key_of_a_request() {
    let (_server, mut f) = packed();
    f.ok("DISCOVER crawl KEYPAYLOAD ITEMS 2 h 0 1 http://h/a key-1 p h 0 2 http://h/b key-2 p");
    f.ok("DISCOVER crawl URI ITEMS 1 h 0 3 http://h/c");
    let page = f.ok("URIS h");
    let listed = |entry: &Reply| {
        entry.items()[4..]
            .iter()
            .map(Reply::text)
            .collect::<Vec<_>>()
    };
    let listed: Vec<_> = page.items()[1].items().iter().map(listed).collect();
    assert_eq!(
        listed,
        [
            &["http://h/a", "key-1"][..],
            &["http://h/b", "key-2"],
            &["http://h/c"]
        ]
    );
}

#[test]
fn wrong_items_change_nothing() {
    let (server, mut f) = packed();
    f.ok("ADDURI plain h 0 0 u");
    let digest = server.digest();
    let long = "k".repeat(65);
    for line in [
        "DISCOVER crawl KEY ITEMS 1 h 0 0 u",
        "DISCOVER crawl KEYPAYLOAD ITEMS 1 h 0 0 u k",
        "DISCOVER crawl PAYLOAD ITEMS 2 h 0 0 u p",
        "DISCOVER crawl URI ITEMS 1 h 0 0 u k",
        "DISCOVER crawl KEYS ITEMS 1 h 0 0 u k",
        &format!("DISCOVER crawl KEY ITEMS 1 h 0 0 u {long}"),
        "NEXT URIS 0",
        "NEXT URIS 1001",
        "NEXT URIS",
    ] {
        f.refused(line, "ERR ");
    }
    assert_eq!(server.digest(), digest);
    let lease = f.try_take().unwrap();
    let (chg, token) = (&lease.chg, lease.token);
    let digest = server.digest();
    // The execution has no space.
    f.refused(
        format!("RELEASE {chg} {token} DELAY 0 RETRY 0 PAYLOAD p"),
        "KNOWN ",
    );
    assert_eq!(server.digest(), digest);
}

#[test]
fn keys_payloads_and_leases_survive_restart_and_replication() {
    let mut server = simulated().packed().aof(true).start();
    let replica = simulated().packed().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    for n in 0..40 {
        let host = n % 3;
        f.ok(format!(
            "DISCOVER crawl KEYPAYLOAD ITEMS 1 h{host} 0 0 http://h/{n} key{n} payload{n}"
        ));
    }
    let (chg, token, _) = take(&mut f, "NEXT URIS 6");
    f.ok(format!("RELEASE {chg} {token} DELAY 0 DONE crawl"));
    take(&mut f, "NEXT URIS 4 LEASE 5000");
    assert_replicated(&server, &replica);
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0 + 5000);
    f.ok("MOVE h2 h1");
    f.assert_consistent();
    let mut all = 0;
    loop {
        let reply = f.ok("NEXT URIS 7");
        if reply.is_nil() {
            break;
        }
        let lease = reply.items()[0].items();
        for leased in lease[7].items() {
            all += 1;
            let parts = leased.items();
            let n = parts[0].text().replace("http://h/", "");
            assert_eq!(parts[1].text(), format!("key{n}"));
            assert_eq!(parts[2].text(), format!("payload{n}"));
        }
        let (chg, token) = (lease[0].text(), lease[1].int());
        f.ok(format!("RELEASE {chg} {token} DELAY 0 DONE crawl"));
    }
    assert_eq!(all, 34);
}
