//! URIs that the frontier stores: which URI a lease returns, and how a release handles it.

use std::collections::BTreeMap;

use crate::stage::{plain_stage, stage};
use crawlspace_compact::limits::chg::URI_BYTES;
use redis_tests::{Frontier, Lease, Rng, T0, array, bulk, int, ok, release, rows};

/// Leases this group, releases the URI as done, and returns it.
#[track_caller]
fn fetch(f: &mut Frontier, chg: &str) -> String {
    let lease = f.take(chg);
    let execution = lease.execution.clone().expect("a kept URI");
    f.release(&lease, format!("AT 0 DONE {execution}"));
    lease.uri.expect("a kept URI")
}

#[test]
fn lease_contains_the_uri_and_its_execution() {
    let (_server, mut f) = stage();
    assert_eq!(f.add_uri("crawl", "host", T0, 3, "http://host/a"), 1);
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (1, 1, 1));
    let lease = f.take("host");
    assert_eq!(lease.execution.as_deref(), Some("crawl"));
    assert_eq!(lease.uri.as_deref(), Some("http://host/a"));
    assert_eq!(lease.c, 1);
    f.release(&lease, "DELAY 2000 DONE crawl");
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (0, 0, 0));
    assert_eq!(f.place("host"), "");
}

#[test]
fn several_uris_are_added_at_once() {
    let (_server, mut f) = stage();
    let reply = f.ok(format!(
        "ADDURI crawl WEIGHT 4 a {T0} 0 http://a/1 b {T0} 0 http://b/1 a {T0} 1 http://a/2"
    ));
    assert_eq!(reply.ints(), [1, 1, 2]);
}

#[test]
fn same_uri_of_the_same_execution_counts_once() {
    let (server, mut f) = stage();
    f.add_uri("crawl", "host", T0, 5, "http://host/a");
    let before = server.snapshot();
    assert_eq!(f.add_uri("crawl", "host", T0, 5, "http://host/a"), 1);
    assert_eq!(f.add_uri("crawl", "host", T0 + 100, 0, "http://host/a"), 1);
    server
        .snapshot()
        .assert_same(&before, "the first one stays as it is");
    let lease = f.take("host");
    let before = server.snapshot();
    assert_eq!(f.add_uri("crawl", "host", T0, 5, "http://host/a"), 1);
    server.snapshot().assert_same(&before, "while it is leased");
    assert_eq!(f.add_uri("another", "host", T0, 5, "http://host/a"), 2);
    f.release(&lease, "AT 0 DONE crawl");
    // After a URI is done, it may be added again.
    assert_eq!(f.add_uri("crawl", "host", T0, 5, "http://host/a"), 2);
}

#[test]
fn lower_depth_is_leased_first_then_the_earlier_due_time() {
    let (_server, mut f) = stage();
    for (at, depth, uri) in rows![
        10, 2, "deep-early"; 30, 1, "mid-late"; 20, 1, "mid-early"; 40, 0, "top"; 50, 2, "deep-late";
    ] {
        f.add_uri("crawl", "host", T0 + at, depth, uri);
    }
    f.pass(100);
    let order: Vec<String> = (0..5).map(|_| fetch(&mut f, "host")).collect();
    assert_eq!(
        order,
        ["top", "mid-early", "mid-late", "deep-early", "deep-late"]
    );
}

#[test]
fn uri_due_later_does_not_block_one_that_is_due_now() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "host", T0 + 9000, 0, "later");
    f.add_uri("crawl", "host", T0, 7, "now");
    f.add_uri("another", "host", T0 + 9000, 0, "later-too");
    assert_eq!(f.due("host"), Some(T0));
    assert_eq!(fetch(&mut f, "host"), "now");
    f.take_none();
    assert_eq!(f.due("host"), Some(T0 + 9000));
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 9000)]);
    f.pass(9000);
    let mut both = [fetch(&mut f, "host"), fetch(&mut f, "host")];
    both.sort();
    assert_eq!(both, ["later", "later-too"]);
}

#[test]
fn release_waits_for_the_next_uri_as_well_as_for_the_gate() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "host", T0, 0, "first");
    f.add_uri("crawl", "host", T0 + 5000, 0, "second");
    let lease = f.take("host");
    assert_eq!(f.release(&lease, "DELAY 100 DONE crawl"), T0 + 5000);
    assert_eq!(f.due("host"), Some(T0 + 5000));
    f.add_uri("crawl", "host", T0, 0, "third");
    assert_eq!(
        f.due("host"),
        Some(T0 + 100),
        "the group is not due before its gate opens"
    );
    f.pass(100);
    assert_eq!(f.take("host").uri.as_deref(), Some("third"));
}

/// Adds `uris` URIs of an execution with a weight.
fn queue(f: &mut Frontier, execution: &str, weight: u64, chg: &str, uris: usize) {
    let now = f.time();
    let tuples = (0..uris).map(|n| format!(" {chg} {now} 0 http://{chg}/{execution}/{n}"));
    let line = format!(
        "ADDURI {execution} WEIGHT {weight}{}",
        tuples.collect::<String>()
    );
    assert_eq!(f.ok(line).items().len(), uris);
}

/// Returns the number of leases of each execution among the next `fetches`.
fn shares(f: &mut Frontier, chg: &str, fetches: usize) -> BTreeMap<String, usize> {
    let mut shares = BTreeMap::new();
    for _ in 0..fetches {
        let lease = f.take(chg);
        let execution = lease.execution.clone().expect("a kept URI");
        f.release(&lease, format!("AT 0 DONE {execution}"));
        *shares.entry(execution).or_insert(0) += 1;
    }
    shares
}

fn share(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    pairs.iter().map(|(e, n)| ((*e).to_owned(), *n)).collect()
}

#[test]
fn executions_share_a_group_in_proportion_to_their_weights() {
    let (_server, mut f) = stage();
    queue(&mut f, "one", 1, "host", 200);
    queue(&mut f, "three", 3, "host", 200);
    queue(&mut f, "four", 4, "host", 200);
    // Shares are exact after every full round.
    for _ in 0..5 {
        let got = shares(&mut f, "host", 8 * 8);
        assert_eq!(got, share(&[("one", 8), ("three", 24), ("four", 32)]));
    }
    // The remaining leases go to the remaining URIs: 40 of four, 80 of three, 160 of one.
    let got = shares(&mut f, "host", 280);
    assert_eq!(got, share(&[("one", 160), ("three", 80), ("four", 40)]));
    f.take_none();
}

#[test]
fn no_execution_waits_longer_than_its_share_allows() {
    let (_server, mut f) = stage();
    queue(&mut f, "light", 1, "host", 20);
    queue(&mut f, "heavy", 9, "host", 180);
    let mut since = 0;
    for _ in 0..200 {
        let lease = f.take("host");
        let execution = lease.execution.clone().expect("a kept URI");
        f.release(&lease, format!("AT 0 DONE {execution}"));
        since = if execution == "light" { 0 } else { since + 1 };
        assert!(since <= 18, "light waits for {since} fetches");
    }
}

#[test]
fn execution_without_queued_uris_does_not_catch_up_later() {
    let (_server, mut f) = stage();
    queue(&mut f, "early", 1, "host", 400);
    assert_eq!(shares(&mut f, "host", 100), share(&[("early", 100)]));
    queue(&mut f, "late", 1, "host", 100);
    let got = shares(&mut f, "host", 100);
    for execution in ["early", "late"] {
        assert!((49..=51).contains(&got[execution]), "{got:?}");
    }
}

#[test]
fn share_is_kept_for_each_group() {
    let (_server, mut f) = stage();
    for chg in ["a", "b"] {
        queue(&mut f, "one", 1, chg, 20);
        queue(&mut f, "three", 3, chg, 60);
    }
    let mut got: BTreeMap<(String, String), usize> = BTreeMap::new();
    for _ in 0..80 {
        let lease = f.try_take().expect("a group");
        let execution = lease.execution.clone().expect("a kept URI");
        f.release(&lease, format!("DELAY 1 DONE {execution}"));
        f.pass(1);
        *got.entry((lease.chg, execution)).or_default() += 1;
    }
    for chg in ["a", "b"] {
        let of = |execution: &str| got[&(chg.to_owned(), execution.to_owned())];
        let (one, three) = (of("one"), of("three"));
        let fetches = one + three;
        assert!(one.abs_diff(fetches / 4) <= 1, "{got:?}");
    }
}

#[test]
fn uri_that_was_not_done_is_queued_again_unchanged() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "host", T0, 0, "a");
    f.add_uri("crawl", "host", T0, 1, "b");
    f.fetch("host", "AT 0");
    assert_eq!(f.count("host"), 2);
    assert_eq!(f.take("host").uri.as_deref(), Some("a"));
}

#[test]
fn uri_to_be_retried_is_queued_again_at_its_time() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "host", T0, 0, "a");
    f.add_uri("crawl", "host", T0, 1, "b");
    f.fetch("host", format!("DELAY 10 RETRY {}", T0 + 3000));
    assert_eq!((f.count("host"), f.total()), (2, 2));
    f.pass(10);
    assert_eq!(fetch(&mut f, "host"), "b");
    f.take_none();
    assert_eq!(f.due("host"), Some(T0 + 3000));
    f.now = Some(T0 + 3000);
    assert_eq!(fetch(&mut f, "host"), "a");
}

#[test]
fn done_must_name_the_execution_of_the_uri() {
    let (server, mut f) = stage();
    f.add_uri("crawl", "host", T0, 0, "a");
    f.add_uri("another", "host", T0, 0, "a");
    let lease = f.take("host");
    let holder = lease.execution.clone().expect("a kept URI");
    let other = if holder == "crawl" {
        "another"
    } else {
        "crawl"
    };
    let before = server.snapshot();
    for done in [
        format!("DONE {other}"),
        format!("DONE {holder} 2"),
        format!("DONE {holder} 0"),
        format!("DONE {holder} RETRY 0"),
    ] {
        f.refused(release(&lease, format!("AT 0 {done}")), "ERR ");
        server.snapshot().assert_same(&before, &done);
    }
    f.release(&lease, format!("AT 0 DONE {holder} 1"));
}

#[test]
fn uri_of_an_expired_lease_is_queued_again() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "host", T0, 0, "a");
    f.ok("NEXT LEASE 100");
    f.pass(100);
    let lease = Lease::only(&f.ok("NEXT LEASE 100"));
    assert_eq!(lease.uri.as_deref(), Some("a"));
    let report = array([bulk("host"), bulk("crawl"), bulk("a"), int(1)]);
    assert_eq!(f.ok("EXPIRED"), array([report]));
}

#[test]
fn uri_whose_attempts_are_used_up_is_only_reported() {
    let (_server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 3);
    f.add_uri("crawl", "host", T0, 0, "poison");
    f.add_uri("crawl", "host", T0, 1, "good");
    for attempt in 1..=3 {
        assert_eq!(f.total(), 2, "before attempt {attempt}");
        let lease = Lease::only(&f.ok("NEXT LEASE 100"));
        assert_eq!(lease.uri.as_deref(), Some("poison"));
        f.pass(100);
    }
    let lease = f.take("host");
    assert_eq!(lease.uri.as_deref(), Some("good"));
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (1, 1, 1));
    let report = |times: i64| array([bulk("host"), bulk("crawl"), bulk("poison"), int(times)]);
    assert_eq!(f.ok("EXPIRED"), array([report(1), report(2), report(3)]));
    f.release(&lease, "AT 0 DONE crawl");
    f.take_none();
}

#[test]
fn last_uri_that_is_given_up_leaves_no_group() {
    let (_server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 1);
    f.add_uri("crawl", "host", T0, 0, "poison");
    f.ok("NEXT LEASE 100");
    f.pass(100);
    f.take_none();
    assert_eq!(f.sums(), [0, 0, 0]);
    assert_eq!(f.place("host"), "");
    assert_eq!(f.ok("EXPIRED").items().len(), 1);
    f.pass(1);
    f.take_none();
    assert!(!f.exists("host"));
    f.assert_conserved();
    // The URI may be added again.
    let now = f.time();
    assert_eq!(f.add_uri("crawl", "host", now, 0, "poison"), 1);
}

#[test]
fn attempts_are_reset_only_by_a_release_of_a_new_lease() {
    let (_server, mut f) = stage();
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-attempts", 2);
    f.add_uri("crawl", "host", T0, 0, "a");
    f.ok("NEXT LEASE 100");
    f.pass(100);
    // The host responded, so this does not count as a failed attempt.
    for _ in 0..5 {
        let lease = f.take("host");
        let now = f.time();
        f.release(&lease, format!("AT 0 RETRY {now}"));
    }
    assert_eq!(f.total(), 1);
    assert_eq!(fetch(&mut f, "host"), "a");
}

#[test]
fn counted_and_kept_uris_share_a_group() {
    let (_server, mut f) = stage();
    f.add("counts", "host", T0);
    f.add_uri("keeps", "host", T0, 0, "a");
    assert_eq!(f.count("host"), 2);
    let mut seen = Vec::new();
    for _ in 0..2 {
        let lease = f.take("host");
        let execution = lease.execution.clone().unwrap_or("counts".to_owned());
        f.release(&lease, format!("AT 0 DONE {execution}"));
        seen.push(lease.uri);
    }
    seen.sort();
    assert_eq!(seen, [None, Some("a".to_owned())]);
    f.take_none();
}

#[test]
fn uris_are_any_bytes_up_to_64_kib() {
    let (_server, mut f) = stage();
    let all: Vec<u8> = (0..=255).collect();
    let long = vec![b'u'; URI_BYTES];
    let odd: [&[u8]; 4] = [b"\0", b"\r\n", &all, &long];
    let mut added = Vec::new();
    for uri in odd {
        let mut words = f.words(format!("ADDURI crawl host {T0} 0"));
        words.push(uri.to_vec());
        f.wire.expect_ok(&words);
        added.push(uri.to_vec());
    }
    let mut fetched = Vec::new();
    for _ in odd {
        let reply = f.ok("NEXT");
        let items = reply.items()[0].items().to_vec();
        fetched.push(items[6].bytes().to_vec());
        f.ok(format!("RELEASE host {} AT 0 DONE crawl", items[1].int()));
    }
    assert_eq!(
        fetched, added,
        "in the order of adding, depth and time being equal"
    );
}

#[test]
fn kept_uris_survive_reads_by_plain_clients() {
    let (_server, mut f) = plain_stage();
    for n in 0..50 {
        f.add_uri("crawl", "host", T0 + n, 0, &format!("http://host/{n}"));
    }
    let kept = f.key("chg_uris:host");
    let kind = ok!(f.wire, "TYPE", kept).text();
    assert_eq!(ok!(f.wire, "EXISTS", kept), int(1), "{kind}");
    let usage = ok!(f.wire, "MEMORY", "USAGE", kept).int();
    assert!(usage > 500, "{usage}");
    let dump = ok!(f.wire, "DUMP", kept);
    let copy = f.key("chg_uris:copy");
    ok!(f.wire, "RESTORE", copy, 0, dump.bytes());
    let digests = ok!(f.wire, "DEBUG", "DIGEST-VALUE", kept, copy);
    assert_eq!(digests.items()[0], digests.items()[1]);
    ok!(f.wire, "DEL", copy);
    ok!(f.wire, "OBJECT", "ENCODING", kept);
}

#[test]
fn counts_can_be_worked_off_after_the_value_of_kept_uris_is_lost() {
    let (_server, mut f) = plain_stage();
    f.add_uri("crawl", "host", T0, 0, "a");
    f.add_uri("crawl", "other", T0 + 5, 0, "b");
    let kept = f.key("chg_uris:host");
    ok!(f.wire, "DEL", kept);
    let lease = f.take("host");
    assert_eq!((lease.c, lease.uri.clone()), (1, None));
    f.release(&lease, "DELAY 5 DONE crawl");
    f.ok("REPAIR");
    f.assert_conserved();
    f.pass(5);
    let lease = f.take("other");
    assert_eq!(lease.uri.as_deref(), Some("b"));
    f.release(&lease, "DELAY 5 DONE crawl");
    assert_eq!(f.total(), 0);
}

#[test]
fn every_kept_uri_is_fetched_exactly_once() {
    let mut rng = Rng::new("every_kept_uri_is_fetched_exactly_once");
    let (_server, mut f) = stage();
    let mut added = Vec::new();
    for n in 0..400 {
        let (chg, execution) = (rng.below(10), rng.below(3));
        let at = T0 + rng.below(2000) as i64;
        let uri = format!("{execution}:http://host-{chg}/{n}");
        f.add_uri(
            &format!("{execution}"),
            &format!("host-{chg}"),
            at,
            rng.below(4) as u32,
            &uri,
        );
        added.push(uri);
    }
    let mut fetched = Vec::new();
    while f.total() > 0 {
        f.pass(rng.below(30) as i64);
        for lease in Lease::all(&f.ok("NEXT LEASE 200 COUNT 3")) {
            let execution = lease.execution.clone().expect("kept");
            match rng.below(10) {
                // Some workers die. With five attempts, the frontier rarely gives up a URI, so most
                // URIs leave it in another way.
                0 => f.pass(200),
                // Another lease of the same batch may have expired in the meantime.
                1 => {
                    let at = f.time() + 50;
                    f.call(release(&lease, format!("DELAY 5 RETRY {at}")));
                }
                2 => {
                    f.call(release(&lease, "DELAY 5"));
                }
                _ => {
                    let reply = f.call(release(&lease, format!("DELAY 5 DONE {execution}")));
                    if !reply.is_error() {
                        fetched.push(lease.uri.expect("kept"));
                    }
                }
            }
        }
    }
    for report in f.ok("EXPIRED COUNT 1000").items() {
        if report.items()[3] == int(5) {
            fetched.push(report.items()[2].text());
        }
    }
    added.sort();
    fetched.sort();
    assert_eq!(added, fetched);
}
