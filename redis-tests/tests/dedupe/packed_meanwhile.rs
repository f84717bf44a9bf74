//! Tests that look-ups find every entry during a storage conversion, and that other jobs wait.

use redis_tests::{DedupeIndex, Options, Server, array, bulk, int, moved, record_of};

const P: &str = "{coll-42}:";

/// Starts a server whose indexes are plain until they are packed, with slices so short that a
/// conversion takes many of them.
fn start() -> (Server, DedupeIndex) {
    let short = ["slice-us", "50"];
    DedupeIndex::on(Options::new().plain().module_args(&short), P)
}

#[test]
fn look_ups_are_complete_while_the_storage_changes() {
    let (_server, mut c) = start();
    for (id, first) in [("a", 0), ("b", 12_000)] {
        c.committed(id, first..first + 24_000);
    }
    let mut n = 0;
    for (name, during) in [("PACK", "packing"), ("UNPACK", "unpacking")] {
        let mut changer = c.begun(name);
        let (mut looks, mut seen_during) = (0, false);
        while !changer.has_reply() {
            let start = looks % 977;
            let seen = c.owners((start..36_000).step_by(977));
            let expected = (start..36_000).step_by(977);
            let expected = expected.map(|n| if n < 24_000 { "a" } else { "b" });
            assert!(seen.iter().eq(expected), "{name}: {seen:?}");
            assert_eq!(c.owners([36_000 + looks]), ["-"]);
            assert_eq!(c.indexed(), 36_000);
            seen_during |= c.storage() == during;
            let add = format!("ADD meanwhile SEQ w {} @{}", n + 1, 1_000_000 + n);
            assert_eq!(c.ok(add), int(1));
            let size = 1000 + n % 500;
            let revisit = c.ok(format!("REVISIT meanwhile #{looks} {size}"));
            assert_eq!(revisit, int(1));
            let claim = c.ok(format!("CLAIM x #{looks} PX 1000"));
            assert_eq!(claim, array([bulk("DUPE"), record_of("a", looks)]));
            (n, looks) = (n + 1, looks + 1);
        }
        assert!(seen_during && looks > 5, "only {looks} looks during {name}");
        let storage = if name == "PACK" { "packed" } else { "plain" };
        assert_eq!(moved(&changer.recv()), (storage.to_owned(), 36_000, 48_000));
    }
    assert_eq!(c.counts("h:meanwhile:counts")["totalUrls"], 2 * n as i64);
    assert_eq!(c.commit("meanwhile"), (n as i64, 0));
    c.assert_consistent();
}

#[test]
fn jobs_wait_until_the_storage_has_changed() {
    let (_server, mut c) = start();
    for name in ["PACK", "UNPACK"] {
        c.plain("FLUSHALL");
        c.plain("CONFIG SET crawlspace.dedupe-storage plain");
        c.committed("a", 0..24_000);
        c.committed("b", 0..10);
        c.add("new", 23_990..24_010);
        c.add("gone", 23_600..23_700);
        if name == "UNPACK" {
            c.ok("PACK");
        }
        let mut changer = c.begun(name);
        let lines = ["COMMIT new", "CANCEL gone", "REMOVE b", name];
        let mut others = lines.map(|line| c.sent(line));
        let same = moved(&others[3].recv());
        // A second client that requests the same conversion gets the same reply.
        assert_eq!(moved(&changer.recv()), same, "{name}");
        assert_eq!(same.1, 24_000);
        assert_eq!(others[0].recv().ints(), [10, 10]);
        assert_eq!(others[1].recv(), int(100));
        assert_eq!(others[2].recv().ints(), [1, 0, 0]);
        assert_eq!(c.owners([5, 23_995, 24_005]), ["a", "a", "new"]);
        assert_eq!(c.indexed(), 24_010);
        c.assert_consistent();
        assert_eq!(c.storage() == "packed", name == "PACK");
    }
}

#[test]
fn a_change_that_follows_a_commit_waits_for_it() {
    let (_server, mut c) = start();
    c.add("a", 0..24_000);
    let mut committer = c.begun("COMMIT a");
    let mut packer = c.sent("PACK");
    assert_eq!(committer.recv().ints(), [24_000, 0]);
    assert_eq!(moved(&packer.recv()), ("packed".into(), 24_000, 24_000));
    c.assert_consistent();
}

#[test]
fn transaction_while_the_storage_changes_sees_all_of_the_index() {
    let (server, mut c) = start();
    c.committed("a", 0..24_000);
    c.add("b", 23_995..24_005);
    let mut packer = c.begun("PACK");
    c.plain("MULTI");
    c.ok("LOOKUP #23999");
    c.ok("COMMIT b");
    c.ok("UNPACK");
    let inside = c.plain("EXEC");
    assert_eq!(inside.items()[0], array([record_of("a", 23_999)]));
    assert_eq!(inside.items()[1].ints(), [5, 5]);
    assert_eq!(inside.items()[2].field("storage"), bulk("plain"));
    packer.recv();
    server.until_idle();
    assert_eq!(c.indexed(), 24_005);
    assert_eq!(c.owners([0, 23_999, 24_004]), ["a", "a", "b"]);
    c.assert_consistent();
}

#[test]
fn waiters_wake_while_the_storage_changes() {
    let (_server, mut c) = start();
    c.committed("a", 0..24_000);
    for (n, name) in (40_000..).zip(["PACK", "UNPACK"]) {
        let claim = c.ok(format!("CLAIM b #{n} PX 600000"));
        let token = claim.items()[1].text();
        let mut waiter = c.blocked(format!("CLAIM b #{n} PX 1000 BLOCK 60000"));
        let mut changer = c.begun(name);
        assert_eq!(c.ok(format!("ADD b TOKEN {token} @{n}")), int(1));
        let woken = array([bulk("DUPE"), record_of("b", n)]);
        assert_eq!(waiter.recv(), woken, "{name}");
        changer.recv();
    }
    assert_eq!(c.commit("b"), (2, 0));
    c.assert_consistent();
}
