//! Stored URIs determine what is queued: a plain client that deletes or empties the hash of a group
//! removes none of them.

use crate::stage::{plain_stage as stage, real_plain_stage as real_stage};
use redis_tests::{Frontier, Server, T0, ok, rows, until};

/// Takes the only waiting group and completes one URI like Veidemann's release script: it
/// decrements the count and deletes the hash when the count is 0 or less.
fn fetch_by_script(server: &Server, chg: &str, execution: &str) {
    let mut wire = server.wire();
    let key = format!("{{f}}:CHG:{chg}");
    ok!(wire, "ZREM", "{f}:chg_wait", chg);
    ok!(wire, "ZADD", "{f}:chg_busy", T0 + 1000, chg);
    let left = ok!(wire, "HINCRBY", &key, "c", -1).int();
    ok!(wire, "HINCRBY", "{f}:EIDC", execution, -1);
    ok!(wire, "DECR", "{f}:QCT");
    ok!(wire, "ZREM", "{f}:chg_busy", chg);
    if left <= 0 {
        ok!(wire, "DEL", &key);
    }
}

/// Fetches all URIs of one group, and checks that no URI is left.
fn fetch_all(f: &mut Frontier, chg: &str, execution: &str, uris: usize) {
    for _ in 0..uris {
        let lease = f.take(chg);
        assert!(lease.uri.is_some(), "{lease:?}");
        f.release(&lease, format!("AT 0 DONE {execution}"));
    }
    f.take_none();
    assert_eq!((f.queued(execution), f.total()), (0, 0));
    f.assert_conserved();
}

#[test]
fn check_finds_kept_uris_without_a_group_and_repair_restores_the_group() {
    for counts_down in [true, false] {
        let (server, mut f) = stage();
        f.add_uri("crawl", "h", T0, 0, "http://h/1");
        f.add_uri("other", "elsewhere", T0 + 900, 0, "http://elsewhere/");
        if counts_down {
            fetch_by_script(&server, "h", "crawl")
        } else {
            ok!(f.wire, "DEL", "{f}:CHG:h");
            ok!(f.wire, "ZREM", "{f}:chg_wait", "h");
        }
        let check = f.ok("CHECK");
        assert_eq!(check.field("consistent").int(), 0, "{check:?}");
        let problems = check.field("problems").texts().join("; ");
        assert!(problems.contains("group 'h' counts 0 URIs, but 1 are queued for it"));
        assert!(problems.contains("group 'h' has 1 URIs queued, but is in none of the queues"));
        assert!(f.ok("REPAIR").field("mended").int() > 0);
        assert_eq!((f.count("h"), f.queued("crawl"), f.total()), (1, 1, 2));
        f.assert_conserved();
        fetch_one_and_the_other(&mut f);
    }
}

fn fetch_one_and_the_other(f: &mut Frontier) {
    f.fetch("h", "AT 0 DONE crawl");
    f.pass(900);
    fetch_all(f, "elsewhere", "other", 1);
}

#[test]
fn next_command_on_a_deleted_group_queues_its_kept_uris() {
    let commands = rows![
        "ADDURI crawl h 0 0 http://h/1"; "ADDURI crawl h 0 0 http://h/2"; "ADD crawl h 0"; "BLOCK h UNTIL 0";
        "PAUSE h"; "LIMIT h GAP 0"; "GROUP gate h"; "MOVE h other";
    ];
    for counts_down in [true, false] {
        for command in commands {
            let (server, mut f) = stage();
            f.add_uri("crawl", "h", T0, 0, "http://h/1");
            if counts_down {
                fetch_by_script(&server, "h", "crawl")
            } else {
                drop(ok!(f.wire, "DEL", "{f}:CHG:h"))
            }
            let _ = f.call(command);
            let here = if command.starts_with("MOVE") {
                "other"
            } else {
                "h"
            };
            assert_eq!(f.place(here), "wait", "{command}");
            f.assert_conserved();
            f.call("RESUME h");
            let lease = f.take(here);
            assert_eq!(lease.uri.as_deref(), Some("http://h/1"), "{command}");
            f.assert_conserved();
        }
    }
}

#[test]
fn refused_release_or_extension_of_a_deleted_group_changes_nothing() {
    for is_leased in [true, false] {
        for command in [
            "EXTEND h 1 1000",
            "RELEASE h 1 DELAY 0",
            "RELEASE h 1 AT 0 DONE crawl",
        ] {
            let (server, mut f) = stage();
            f.ok("ADDURI crawl h 0 0 http://h/1 h 0 0 http://h/2");
            let lease = is_leased.then(|| f.take("h"));
            ok!(f.wire, "DEL", "{f}:CHG:h");
            let before = server.digest();
            let error = f.err(command);
            assert!(error.starts_with("STALE "), "{command}: {error}");
            assert_eq!(server.digest(), before, "{command}");
            // The client still holds the lease, although the entry was deleted with the hash.
            if let Some(lease) = lease {
                f.ok(format!("EXTEND h {} 1000", lease.token));
                f.release(&lease, "AT 0 DONE crawl");
            } else {
                f.ok("REPAIR");
            }
            let place = f.place("h");
            assert!(["wait", "ready"].contains(&&*place), "{command}: {place}");
            f.assert_conserved();
            fetch_all(&mut f, "h", "crawl", if is_leased { 1 } else { 2 });
        }
    }
}

#[test]
fn next_deletes_no_group_for_which_uris_are_kept() {
    let (_server, mut f) = stage();
    f.ok("ADDURI crawl h 0 0 http://h/1 h 0 0 http://h/2");
    ok!(f.wire, "HSET", "{f}:CHG:h", "c", 0);
    let lease = f.take("h");
    assert_eq!((lease.uri.as_deref(), lease.c), (Some("http://h/1"), 2));
    f.assert_conserved();
    f.release(&lease, "AT 0");
    ok!(f.wire, "HSET", "{f}:CHG:h", "c", 1);
    fetch_all(&mut f, "h", "crawl", 2);
}

#[test]
fn lease_that_went_with_the_hash_is_held_until_its_deadline() {
    let (_server, mut f) = stage();
    f.add_uri("crawl", "h", T0, 0, "http://h/1");
    let lease = f.take("h");
    ok!(f.wire, "DEL", "{f}:CHG:h");
    f.add_uri("crawl", "h", T0, 0, "http://h/2");
    f.take_none();
    assert_eq!(
        f.release(&lease, format!("AT {} DONE crawl", T0 + 5)),
        T0 + 5
    );
    f.pass(5);
    fetch_all(&mut f, "h", "crawl", 1);

    f.add_uri("crawl", "h", T0, 0, "http://h/3");
    f.take("h");
    ok!(f.wire, "DEL", "{f}:CHG:h", "{f}:chg_busy");
    assert_eq!(f.call("PAUSE h").text(), "OK");
    f.ok("RESUME h");
    fetch_all(&mut f, "h", "crawl", 1);
}

#[test]
fn other_groups_of_the_crawl_keep_their_counts() {
    let (server, mut f) = stage();
    for n in 0..200 {
        f.add_uri("crawl", &format!("other-{n}"), T0 + 10, 0, "http://h/");
    }
    f.add_uri("crawl", "h", T0, 0, "http://h/1");
    fetch_by_script(&server, "h", "crawl");
    f.add_uri("crawl", "h", T0, 0, "http://h/2");
    assert_eq!((f.queued("crawl"), f.total()), (202, 202));
}

#[test]
fn stranded_uris_are_found_by_the_servers_own_clock() {
    let (_server, mut f) = real_stage();
    f.add_uri("crawl", "h", 0, 0, "http://h/1");
    ok!(f.wire, "DEL", "{f}:CHG:h");
    until("the group is back", || f.exists("h"));
    fetch_all(&mut f, "h", "crawl", 1);
}

#[test]
fn release_sees_what_a_plain_client_wrote_to_a_leased_group() {
    let (_server, mut f) = stage();
    f.ok("ADDURI crawl h 0 0 http://h/1 h 0 0 http://h/2");
    let lease = f.take("h");
    // The field that contains the lease.
    ok!(f.wire, "HDEL", "{f}:CHG:h", "l");
    f.refused(redis_tests::release(&lease, "AT 0"), "STALE ");
}
