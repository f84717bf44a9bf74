//! Captures of a URL: tests which captures a look-up lists, and that the list stays correct when
//! records change.

use redis_tests::{DedupeIndex, Options, assert_replicated, int, sha256_of};

const P: &str = "p:";
const URL: &str = "http://e.com/a";

/// Returns crawl and hash of the captures that a look-up lists.
fn captures(c: &mut DedupeIndex, options: &str) -> Vec<(String, String)> {
    let reply = c.ok(format!("LOOKUPURL {options} {URL}"));
    let list = reply.items()[0].items();
    let capture = |capture: &redis_tests::Reply| {
        let fields = capture.items();
        (fields[0].text(), fields[1].text())
    };
    list.iter().map(capture).collect()
}

fn expected(captures: &[(&str, u64)]) -> Vec<(String, String)> {
    let capture = |&(crawl, n): &(&str, u64)| (crawl.to_string(), sha256_of(n));
    captures.iter().map(capture).collect()
}

fn add(c: &mut DedupeIndex, crawl: &str, n: u64, date: u64) {
    c.ok(format!("ADD {crawl} #{n} 0 {date} {URL} 5"));
}

#[test]
fn captures_are_listed_newest_first_and_only_if_visible_to_the_crawl() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.refused(format!("LOOKUPURL {URL}"), "NOURLS");
    add(&mut c, "a", 1, 20240101000000);
    add(&mut c, "a", 2, 20240301000000);
    c.ok(format!("ADD a #3 0 20240101000000 {URL}b 5"));
    c.commit("a");
    add(&mut c, "b", 4, 20240201000000);
    c.tells("URLS ON", "crawls 2 records 4");
    assert_eq!(captures(&mut c, ""), expected(&[("a", 2), ("a", 1)]));
    let all = [("a", 2), ("b", 4), ("a", 1)];
    assert_eq!(captures(&mut c, "CRAWL b"), expected(&all));
    assert_eq!(captures(&mut c, "CRAWL b LIMIT 2"), expected(&all[..2]));
    let older = captures(&mut c, "CRAWL b BEFORE 2024-03-01T00:00:00Z");
    assert_eq!(older, expected(&all[1..]));
    c.commit("b");
    assert_eq!(captures(&mut c, ""), expected(&all));
    c.ok("REMOVE a");
    assert_eq!(captures(&mut c, ""), expected(&all[1..2]));
    c.ok("URLS OFF");
    assert_eq!(c.plain("EXISTS p:h:b:urls"), int(0));
    c.refused(format!("LOOKUPURL {URL}"), "NOURLS");
    c.assert_consistent();
}

#[test]
fn entries_follow_their_records_on_replicas_too() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new(), P);
    c.ok("URLS ON");
    add(&mut c, "a", 1, 20240301000000);
    c.ok(format!("ADD a EARLIEST #1 0 20240101000000 {URL}b 5"));
    assert_eq!(captures(&mut c, "CRAWL a"), []);
    c.commit("a");
    add(&mut c, "a", 2, 20240301000000);
    assert_eq!(captures(&mut c, "CRAWL a"), expected(&[("a", 2)]));
    c.ok("CANCEL a");
    assert_eq!(captures(&mut c, "CRAWL a"), []);
    assert_eq!(c.plain("ZCARD p:h:a:urls"), int(1));
    c.assert_consistent();
    assert_replicated(&server, &replica);
}

#[test]
fn damage_by_plain_clients_is_found_and_repaired() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.ok("URLS ON");
    c.plain(format!("HSET p:h:a #1 '0 20240101000000 {URL} 5'"));
    c.commit("a");
    assert_eq!(captures(&mut c, ""), expected(&[("a", 1)]));
    // An entry under another URL, and an entry without a record, whose fingerprint matches no
    // queried URL.
    c.plain("ZADD p:h:a:urls 7 #1 9 #2");
    assert_eq!(captures(&mut c, ""), []);
    c.tells("CHECK", "urlDrift 2 ok 0");
    c.tells("REPAIR", "urlDrift 2 repaired 2");
    c.tells("CHECK", "urlDrift 0 ok 1");
    assert_eq!(captures(&mut c, ""), expected(&[("a", 1)]));
}

#[test]
fn urls_of_one_fingerprint_are_distinguished() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.ok("URLS ON");
    add(&mut c, "a", 1, 20240101000000);
    c.ok(format!("ADD a #2 0 20240101000000 {URL}b 5"));
    c.commit("a");
    let score = c.plain("ZSCORE p:h:a:urls #1").text();
    c.plain(format!("ZADD p:h:a:urls {score} #2"));
    assert_eq!(captures(&mut c, ""), expected(&[("a", 1)]));
}
