//! `LIST` and `URIS` list queued groups and URIs page by page while other clients change them.

use std::collections::BTreeMap;

use crate::stage::stage;
use redis_tests::{BusyFrontier, Frontier, Reply, T0, array, bulk, int, ok, simulated};

/// Returns the entries of all pages of a listing, each split into its parts. `between` is called
/// between two pages.
fn pages(
    f: &mut Frontier,
    line: &str,
    count: usize,
    mut between: impl FnMut(&mut Frontier),
) -> Vec<Vec<Reply>> {
    let (mut listed, mut cursor) = (Vec::new(), "0".to_owned());
    for _ in 0..10_000 {
        let reply = f.ok(format!("{line} COUNT {count} CURSOR {cursor}"));
        let [next, entries] = reply.items() else {
            panic!("{reply:?}")
        };
        assert!(entries.items().len() <= count);
        listed.extend(entries.items().iter().map(|entry| entry.items().to_vec()));
        cursor = next.text();
        if cursor == "0" {
            return listed;
        }
        between(f);
    }
    panic!("{line} returns too many pages");
}

fn names(listed: &[Vec<Reply>]) -> Vec<(String, String)> {
    let name = |entry: &Vec<Reply>| (entry[1].text(), entry[0].text());
    listed.iter().map(name).collect()
}

#[test]
fn list_has_every_group_of_the_queues_with_state_time_and_count() {
    let (_server, mut f) = stage();
    BusyFrontier::build(&mut f);
    for count in [1, 2, 3, 5, 100, 1000] {
        let listed = pages(&mut f, "LIST", count, |_| {});
        let mut expected = Vec::new();
        let ready = f.ready().into_iter().rev();
        let ready = ready
            .map(|chg| (chg.clone(), f.due(&chg).expect("due")))
            .collect();
        for (state, groups) in [("waiting", f.wait()), ("ready", ready), ("busy", f.busy())] {
            assert!(!groups.is_empty(), "{state}");
            let entries = groups.into_iter().map(|(chg, time)| {
                let c = f.count(&chg);
                vec![bulk(chg), bulk(state), int(time), int(c)]
            });
            let entries: Vec<_> = entries.collect();
            let own = pages(&mut f, &format!("LIST STATE {state}"), count, |_| {});
            assert_eq!(own, entries, "{count}");
            expected.extend(entries);
        }
        assert_eq!(listed, expected, "{count}");
    }
}

#[test]
fn permanent_group_is_listed_while_leases_begin_and_end() {
    let (_server, mut f) = stage();
    for n in 0..60 {
        f.add("crawl", &format!("due-{n:02}"), T0);
        f.add("crawl", &format!("later-{n:02}"), T0 + 1_000_000 + n % 7);
    }
    f.ok("SWEEP");
    let mut worked = 0;
    let listed = pages(&mut f, "LIST", 7, |f| {
        // The first groups are leased, and then released, alternately with a short and a long
        // delay. New groups are added.
        for lease in redis_tests::Lease::all(&f.ok("NEXT COUNT 2")) {
            let delay = if worked % 2 == 0 { 1 } else { 5_000_000 };
            f.release(&lease, format!("DELAY {delay}"));
            worked += 1;
        }
        f.add("crawl", &format!("new-{worked}"), T0);
    });
    assert!(worked > 20);
    let mut times: BTreeMap<(String, String), usize> = BTreeMap::new();
    for name in names(&listed) {
        *times.entry(name).or_default() += 1;
    }
    for n in 0..60 {
        let later = ("waiting".to_owned(), format!("later-{n:02}"));
        assert_eq!(times.get(&later), Some(&1), "{later:?}");
    }
    for n in worked..60 {
        let stays = ("ready".to_owned(), format!("due-{n:02}"));
        assert!(times.contains_key(&stays), "{stays:?} of {worked}");
    }
}

#[test]
fn list_shows_what_plain_clients_queued() {
    let server = simulated().plain().start();
    let mut f = Frontier::at(&server, T0);
    ok!(f.wire, "HSET", "{f}:CHG:theirs", "n", T0, "c", 3);
    ok!(f.wire, "RPUSH", "{f}:chg_ready", "theirs");
    ok!(f.wire, "ZADD", "{f}:chg_wait", T0 + 5, "nothing");
    let group = |chg: &str, state: &str, time: i64, c: i64| {
        array([bulk(chg), bulk(state), int(time), int(c)])
    };
    let all = array([
        group("nothing", "waiting", T0 + 5, 0),
        group("theirs", "ready", T0, 3),
    ]);
    assert_eq!(f.ok("LIST"), array([bulk("0"), all]));
}

#[test]
fn uris_are_listed_in_order_once_each() {
    let (_server, mut f) = stage();
    for n in 0..300 {
        let (crawl, depth, due) = (n % 3, n % 5, T0 + n % 7);
        f.ok(format!(
            "ADDURI crawl-{crawl} host {due} {depth} http://host/{n:03}"
        ));
    }
    let whole = pages(&mut f, "URIS host", 1000, |_| {});
    let key = |entry: &Vec<Reply>| (entry[0].text(), entry[1].int(), entry[2].int());
    assert!(whole.is_sorted_by_key(key));
    let mut uris: Vec<_> = whole.iter().map(|entry| entry[4].text()).collect();
    uris.sort();
    let all: Vec<_> = (0..300).map(|n| format!("http://host/{n:03}")).collect();
    assert_eq!(uris, all);
    for count in [1, 7, 100, 299, 300] {
        assert_eq!(pages(&mut f, "URIS host", count, |_| {}), whole, "{count}");
    }
}

#[test]
fn uri_that_stays_is_listed_while_others_are_fetched_and_come() {
    let (_server, mut f) = stage();
    for n in 0..200 {
        f.ok(format!(
            "ADDURI crawl host {T0} {} http://host/{n:03}",
            n / 20
        ));
    }
    let mut gone = 0;
    let listed = pages(&mut f, "URIS host", 9, |f| {
        f.fetch("host", "DELAY 0 DONE crawl");
        gone += 1;
        f.ok(format!("ADDURI crawl host {T0} 0 http://host/new-{gone}"));
    });
    assert!(gone > 15);
    let uris: Vec<_> = listed.iter().map(|entry| entry[4].text()).collect();
    for n in 20..200 {
        let uri = format!("http://host/{n:03}");
        assert_eq!(uris.iter().filter(|u| **u == uri).count(), 1, "{uri}");
    }
}

#[test]
fn uris_shows_attempts_and_omits_leased_uris() {
    let (_server, mut f) = stage();
    f.ok(format!("ADDURI crawl host {T0} 4 http://host/1"));
    let uri = |attempts| {
        array([
            bulk("crawl"),
            int(4),
            int(T0),
            int(attempts),
            bulk("http://host/1"),
        ])
    };
    assert_eq!(f.ok("URIS host"), array([bulk("0"), array([uri(0)])]));
    f.ok("NEXT LEASE 10");
    assert_eq!(f.ok("URIS host"), array([bulk("0"), array([])]));
    f.pass(10);
    f.ok("SWEEP");
    assert_eq!(f.ok("URIS host"), array([bulk("0"), array([uri(1)])]));
    f.add("crawl", "counted", T0);
    assert_eq!(f.ok("URIS counted"), array([bulk("0"), array([])]));
    f.refused("URIS nobody", "NOCHG ");
}

#[test]
fn page_of_long_uris_ends_early() {
    let (_server, mut f) = stage();
    let tail = "x".repeat(60_000);
    for n in 0..40 {
        f.ok(format!("ADDURI crawl host {T0} 0 http://host/{n:02}{tail}"));
    }
    let first = f.ok("URIS host COUNT 1000").items()[1].items().len();
    assert!((15..=20).contains(&first), "{first}");
    assert_eq!(pages(&mut f, "URIS host", 1000, |_| {}).len(), 40);
}

#[test]
fn cursors_are_valid_on_a_replica() {
    let (server, mut f) = stage();
    let replica = simulated().replica_of(&server).start();
    for n in 0..50 {
        f.ok(format!("ADDURI crawl host {T0} 0 http://host/{n:02}"));
        f.add("crawl", &format!("host-{n:02}"), T0 + n);
    }
    server.wait_for_replica_offset(&replica);
    let mut r = Frontier::at(&replica, T0);
    for line in ["LIST", "URIS host"] {
        let whole = pages(&mut f, line, 1000, |_| {});
        let page = f.ok(format!("{line} COUNT 20"));
        let [next, first] = page.items() else {
            panic!("{page:?}")
        };
        let rest = r.ok(format!("{line} COUNT 1000 CURSOR {}", next.text()));
        let mut both = first.items().to_vec();
        both.extend(rest.items()[1].items().to_vec());
        assert_eq!(
            both,
            whole.into_iter().map(Reply::Array).collect::<Vec<_>>(),
            "{line}"
        );
    }
}
