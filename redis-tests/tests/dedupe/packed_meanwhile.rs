//! While the storage of an index changes, nobody misses anything, and jobs wait.

use redis_tests::{
    Crawl, Options, Server, Wire, Word, add, array, assert_consistent, begin_change, begin_job,
    bulk, commit, counts, indexed, int, is_packed, moved, ok, owners, record_of, sha256_of,
    storage_of, until, words_of,
};

const P: &str = "{coll-42}:";

fn key(name: &str) -> String {
    format!("{P}{name}")
}

/// New indexes are plain there until somebody packs them.
fn plain_server() -> Server {
    Options::new().plain().start()
}

/// A crawl whose change of storage takes many slices.
fn large(id: &'static str, first: u64) -> Crawl<'static> {
    Crawl::of(P, id, first..first + 24_000)
}

fn short_slices(c: &mut Wire) {
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
}

#[test]
fn nobody_misses_anything_while_the_storage_changes() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    for (id, first) in [("a", 0), ("b", 12_000)] {
        large(id, first).add(&mut c);
        commit(&mut c, P, id);
    }
    let seq = |c: &mut Wire, n: u64| {
        let mut words = ["DEDUPE.ADD", P, "meanwhile", "SEQ", "w"]
            .map(|w| w.word())
            .to_vec();
        words.push((n + 1).word());
        words.extend(words_of(1_000_000 + n));
        c.expect_ok(&words).int()
    };
    let mut n = 0;
    for (name, during) in [("DEDUPE.PACK", "packing"), ("DEDUPE.UNPACK", "unpacking")] {
        let mut changer = begin_change(&server, name, P);
        let (mut looks, mut seen_during) = (0, false);
        while !changer.has_reply() {
            let start = looks % 977;
            let seen = owners(&mut c, P, (start..36_000).step_by(977));
            let expected = (start..36_000).step_by(977);
            let expected = expected.map(|n| if n < 24_000 { "a" } else { "b" });
            assert!(seen.iter().eq(expected), "{name}: {seen:?}");
            assert_eq!(owners(&mut c, P, [36_000 + looks]), ["-"]);
            assert_eq!(indexed(&mut c, P), 36_000);
            seen_during |= storage_of(&mut c, P) == during;
            assert_eq!(seq(&mut c, n), 1);
            let size = 1000 + n % 500;
            let revisit = ok!(c, "DEDUPE.REVISIT", P, "meanwhile", sha256_of(looks), size);
            assert_eq!(revisit, int(1));
            let claim = ok!(c, "DEDUPE.CLAIM", P, "x", sha256_of(looks), "PX", 1000);
            assert_eq!(claim, array([bulk("DUPE"), record_of("a", looks)]));
            (n, looks) = (n + 1, looks + 1);
        }
        assert!(seen_during && looks > 5, "only {looks} looks during {name}");
        let storage = if name == "DEDUPE.PACK" {
            "packed"
        } else {
            "plain"
        };
        assert_eq!(moved(&changer.recv()), (storage.to_owned(), 36_000, 48_000));
    }
    assert_eq!(
        counts(&mut c, &key("h:meanwhile:counts"))["totalUrls"],
        2 * n as i64
    );
    assert_eq!(commit(&mut c, P, "meanwhile"), (n as i64, 0));
    assert_consistent(&mut c, P);
}

#[test]
fn jobs_wait_until_the_storage_has_changed() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        ok!(c, "FLUSHALL");
        ok!(c, "CONFIG", "SET", "crawlspace.dedupe-storage", "plain");
        large("a", 0).add(&mut c);
        commit(&mut c, P, "a");
        add(&mut c, P, "b", 0..10);
        commit(&mut c, P, "b");
        add(&mut c, P, "new", 23_990..24_010);
        add(&mut c, P, "gone", 23_600..23_700);
        if name == "DEDUPE.UNPACK" {
            ok!(c, "DEDUPE.PACK", P);
        }
        let mut changer = begin_change(&server, name, P);
        let mut others: Vec<Wire> = (0..4).map(|_| server.wire()).collect();
        others[0].send(&["DEDUPE.COMMIT", P, "new"]);
        others[1].send(&["DEDUPE.CANCEL", P, "gone"]);
        others[2].send(&["DEDUPE.REMOVE", P, "b"]);
        others[3].send(&[name, P]);
        let same = moved(&others[3].recv());
        // The one who asked for the same work gets the same reply.
        assert_eq!(moved(&changer.recv()), same, "{name}");
        assert_eq!(same.1, 24_000);
        assert_eq!(others[0].recv().ints(), [10, 10]);
        assert_eq!(others[1].recv(), int(100));
        assert_eq!(others[2].recv().ints(), [1, 0, 0]);
        assert_eq!(owners(&mut c, P, [5, 23_995, 24_005]), ["a", "a", "new"]);
        assert_eq!(indexed(&mut c, P), 24_010);
        assert_consistent(&mut c, P);
        assert_eq!(is_packed(&mut c, P), name == "DEDUPE.PACK");
    }
}

#[test]
fn a_change_that_follows_a_commit_waits_for_it() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    large("a", 0).add(&mut c);
    let mut packer = server.wire();
    let mut committer = begin_job(&server, "DEDUPE.COMMIT", P, "a");
    packer.send(&["DEDUPE.PACK", P]);
    assert_eq!(committer.recv().ints(), [24_000, 0]);
    assert_eq!(moved(&packer.recv()), ("packed".into(), 24_000, 24_000));
    assert_consistent(&mut c, P);
}

#[test]
fn pack_and_unpack_at_once_end_in_one_of_the_two() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    large("a", 0).add(&mut c);
    commit(&mut c, P, "a");
    let before = server.snapshot().without_storage();
    let mut packer = begin_change(&server, "DEDUPE.PACK", P);
    let mut unpacker = server.wire();
    unpacker.send(&["DEDUPE.UNPACK", P]);
    assert_eq!(moved(&packer.recv()), ("packed".into(), 24_000, 24_000));
    assert_eq!(moved(&unpacker.recv()), ("plain".into(), 24_000, 24_000));
    let after = server.snapshot().without_storage();
    after.assert_same(&before, "PACK and UNPACK at once");
}

#[test]
fn transaction_while_the_storage_changes_sees_all_of_the_index() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    large("a", 0).add(&mut c);
    commit(&mut c, P, "a");
    add(&mut c, P, "b", 23_995..24_005);
    let mut packer = begin_change(&server, "DEDUPE.PACK", P);
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.LOOKUP", P, sha256_of(23_999));
    ok!(c, "DEDUPE.COMMIT", P, "b");
    ok!(c, "DEDUPE.UNPACK", P);
    let inside = ok!(c, "EXEC");
    assert_eq!(inside.items()[0], array([record_of("a", 23_999)]));
    assert_eq!(inside.items()[1].ints(), [5, 5]);
    assert_eq!(inside.items()[2].field("storage"), bulk("plain"));
    packer.recv();
    server.until_idle();
    assert_eq!(indexed(&mut c, P), 24_005);
    assert_eq!(owners(&mut c, P, [0, 23_999, 24_004]), ["a", "a", "b"]);
    assert_consistent(&mut c, P);
}

#[test]
fn waiters_wake_while_the_storage_changes() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    large("a", 0).add(&mut c);
    commit(&mut c, P, "a");
    for (n, name) in (40_000..).zip(["DEDUPE.PACK", "DEDUPE.UNPACK"]) {
        let hash = sha256_of(n);
        let claim = ok!(c, "DEDUPE.CLAIM", P, "b", hash, "PX", 600_000);
        let token = claim.items()[1].text();
        let mut waiter = server.wire();
        let words = [
            "DEDUPE.CLAIM",
            P,
            "b",
            &hash,
            "PX",
            "1000",
            "BLOCK",
            "60000",
        ];
        waiter.send(&words);
        until("the claim is blocked", || {
            server.info_number("blocked_clients") == 1
        });
        let mut changer = begin_change(&server, name, P);
        let mut settle = ["DEDUPE.ADD", P, "b", "TOKEN", &token]
            .map(|w| w.word())
            .to_vec();
        settle.extend(words_of(n));
        assert_eq!(c.expect_ok(&settle), int(1));
        let woken = array([bulk("DUPE"), record_of("b", n)]);
        assert_eq!(waiter.recv(), woken, "{name}");
        changer.recv();
    }
    assert_eq!(commit(&mut c, P, "b"), (2, 0));
    assert_consistent(&mut c, P);
}

#[test]
fn swapdb_while_the_storage_changes_harms_nothing() {
    let server = plain_server();
    let (mut zero, mut one) = (server.wire(), server.wire());
    ok!(one, "SELECT", 1);
    short_slices(&mut zero);
    add(&mut one, P, "a", 500_000..500_010);
    commit(&mut one, P, "a");
    large("a", 0).add(&mut zero);
    commit(&mut zero, P, "a");
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let mut changer = begin_change(&server, name, P);
        ok!(zero, "SWAPDB", 0, 1);
        changer.recv();
        server.until_idle();
        assert_eq!(owners(&mut zero, P, [0, 500_000]), ["-", "a"], "{name}");
        assert_eq!(
            owners(&mut one, P, [0, 23_999, 500_000]),
            ["a", "a", "-"],
            "{name}"
        );
        ok!(one, name, P);
        assert_eq!(indexed(&mut one, P), 24_000);
        assert_consistent(&mut zero, P);
        assert_consistent(&mut one, P);
        ok!(zero, "SWAPDB", 0, 1);
    }
}

#[test]
fn flush_while_the_storage_changes_ends_the_change() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        large("a", 0).add(&mut c);
        commit(&mut c, P, "a");
        if name == "DEDUPE.UNPACK" {
            ok!(c, "DEDUPE.PACK", P);
        }
        let mut changer = begin_change(&server, name, P);
        ok!(c, "FLUSHALL");
        changer.recv();
        server.until_idle();
        assert_eq!(owners(&mut c, P, [1]), ["-"]);
        ok!(c, "FLUSHALL");
        add(&mut c, P, "a", 0..10);
        assert_eq!(commit(&mut c, P, "a"), (10, 0));
        assert_consistent(&mut c, P);
        ok!(c, "FLUSHALL");
    }
}

#[test]
fn keys_deleted_while_the_storage_changes_do_not_hang_it() {
    let server = plain_server();
    let mut c = server.wire();
    short_slices(&mut c);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        for deleted in ["allhashes", "moving", "h:a", "allcrawls", "holders"] {
            ok!(c, "FLUSHALL");
            large("a", 0).add(&mut c);
            commit(&mut c, P, "a");
            if name == "DEDUPE.UNPACK" {
                ok!(c, "DEDUPE.PACK", P);
            }
            let mut changer = begin_change(&server, name, P);
            ok!(c, "DEL", key(deleted));
            changer.recv();
            server.until_idle();
            ok!(c, "DEDUPE.REPAIR", P);
            if deleted == "allcrawls" {
                // The crawl has its records, and only its name says whether it is to stay.
                let check = ok!(c, "DEDUPE.CHECK", P);
                assert_eq!(check.field("unlistedCrawls"), int(1), "{name}: {check:?}");
                commit(&mut c, P, "a");
                // Its counts were in the sums already.
                ok!(c, "DEDUPE.REPAIR", P);
            }
            let check = ok!(c, "DEDUPE.CHECK", P);
            assert_eq!(
                check.field("ok"),
                int(1),
                "{name} without {deleted}: {check:?}"
            );
            add(&mut c, P, "b", 0..10);
            commit(&mut c, P, "b");
            let check = ok!(c, "DEDUPE.CHECK", P);
            assert_eq!(
                check.field("ok"),
                int(1),
                "{name} without {deleted}: {check:?}"
            );
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}
