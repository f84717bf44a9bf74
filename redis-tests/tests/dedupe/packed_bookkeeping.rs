//! Tests of a packed index's internal data: owners of logged changes, record counts, missing
//! records, access to keys, and the storage.

use redis_tests::{
    DATE, DedupeIndex, Options, Reply, Snapshot, Wire, assert_error, cmd, int, ok, sha256_of,
    size_of, url_of,
};

const P: &str = "{coll-42}:";

/// Fails if `DEDUPE.CHECK` reports anything except a running storage conversion.
#[track_caller]
fn assert_no_faults(findings: &Reply) {
    let moving = findings.field("interrupted").int();
    assert!((0..=1).contains(&moving), "{findings:?}");
    assert_eq!(findings.field("ok").int(), 1 - moving, "{findings:?}");
    let faults =
        "danglingOwners missingHashes hiddenOwners badRecords countDrift leakedKeys staleHolders";
    for fault in faults.split(' ') {
        assert_eq!(findings.field(fault), int(0), "{fault}: {findings:?}");
    }
}

/// Creates two crawls, committed and packed. With `is_canceled`, cancels them, which drops their
/// packed records, because they are no longer in `allcrawls`.
fn two_crawls(c: &mut DedupeIndex, ids: [&str; 2], is_canceled: bool, in_one_go: bool) {
    let [first, second] = ids;
    c.plain("CONFIG SET crawlspace.slice-us 1000");
    for (id, numbers) in [(first, 0..8), (second, 8..16)] {
        assert_eq!(c.committed(id, numbers), (8, 0));
    }
    assert_eq!(c.change("PACK").1, 16);
    if is_canceled {
        c.plain(format!("SREM {P}allcrawls {first} {second}"));
        if in_one_go {
            c.plain("MULTI");
        }
        for id in [first, second] {
            c.ok(format!("CANCEL {id}"));
        }
        c.ok("REPAIR"); // the sums still include the counts of the canceled crawls
        if in_one_go {
            c.plain("EXEC");
        }
        assert_eq!(c.plain("EXISTS {coll-42}:allhashes"), int(0));
    }
}

#[test]
fn logs_distinguish_crawls_whose_ids_end_alike() {
    let ids = [
        ["\x01b", "b"],
        ["b", "\x01b"],
        ["x\x03abc", "abc"],
        ["x\x02\x01b", "\x01b"],
    ];
    for (i, pair) in ids.into_iter().enumerate() {
        for (is_canceled, in_one_go) in [(false, false), (true, false), (true, true)] {
            let mut server = Options::new().plain().aof_unsynced(false).start();
            let replica = Options::new().plain().replica_of(&server).start();
            let mut c = DedupeIndex::of(&server, P);
            // After this point, changes are replicated as logs.
            server.wait_for_replica_offset(&replica);
            two_crawls(&mut c, pair, is_canceled, in_one_go);
            server.wait_for_replica_offset(&replica);
            let what = format!("pair {i}, canceled: {is_canceled}");
            let digest = server.digest();
            assert_eq!(replica.digest(), digest, "{what}: the replica");
            drop(replica);
            server.restart();
            assert_eq!(server.digest(), digest, "{what}: the file");
            DedupeIndex::of(&server, P).assert_consistent();
        }
    }
}

/// A record that only plain clients write.
const PLAIN_RECORD: &str = "1 20240501120000 http://plain.example/ 7";

/// Returns the look-ups of the hashes 0 to 39.
fn look_ups(c: &mut DedupeIndex) -> Vec<Reply> {
    let options = ["", "CRAWL a", "CRAWL b", "WITHWACZ"];
    let look_ups = options.map(|options| format!("LOOKUP {options} #0..40"));
    let claims = [0, 3, 15, 25].map(|n| format!("CLAIM c #{n} PX 1"));
    let lines = look_ups.iter().chain(&claims);
    lines.map(|line| c.ok(line)).collect()
}

/// Continues a committed crawl with a plain client, which stores the records of hashes that the
/// crawl has and of a new one. Look-ups of the crawl's own hashes must not change, even after the
/// commit and after `UNPACK`. Returns all replies, and the keys at the end.
fn continued_by_a_plain_client(options: Options) -> (Vec<Vec<Reply>>, Snapshot) {
    let (_server, mut c) = DedupeIndex::on(options, P);
    for (id, numbers) in [("a", 0..20), ("b", 10..30)] {
        c.committed(id, numbers);
    }
    let mut seen = vec![look_ups(&mut c)];
    for n in [0, 3, 15, 100] {
        // In plain keys, the crawl's own record is already in the hash.
        c.plain(format!("HSETNX {P}h:a #{n} '{PLAIN_RECORD}'"));
    }
    seen.push(look_ups(&mut c));
    let check = c.ok("CHECK");
    c.plain("SADD {coll-42}:uncommittedcrawls a");
    seen.push(look_ups(&mut c));
    let committed = c.ok("COMMIT a");
    seen.push(look_ups(&mut c));
    let new = c.ok("LOOKUP #100 #3");
    c.assert_consistent();
    c.change("UNPACK");
    seen.push(look_ups(&mut c));
    let when = ["beside", "continued", "committed", "unpacked"];
    for (later, when) in seen[1..].iter().zip(when) {
        assert_eq!(*later, seen[0], "{when}");
    }
    let records = c.hash("h:a");
    for n in [0, 3, 15] {
        let record = format!("0 {DATE} {} {}", url_of(n), size_of(n));
        assert_eq!(records[&sha256_of(n)], record);
    }
    assert_eq!(records[&sha256_of(100)], PLAIN_RECORD);
    c.assert_consistent();
    seen.push(vec![check, committed, new]);
    (seen, c.plain_view())
}

#[test]
fn a_plain_record_beside_a_packed_one_is_ignored() {
    let (packed, keys) = continued_by_a_plain_client(Options::new().packed());
    let (plain, plain_keys) = continued_by_a_plain_client(Options::new().plain());
    assert_eq!(packed, plain);
    keys.assert_same(&plain_keys, "as on plain keys");
}

#[test]
fn a_packed_index_without_its_value_is_found_and_repaired() {
    let (_server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    for (id, numbers) in [("a", 0..50), ("b", 50..100), ("c", 100..150)] {
        c.committed(id, numbers);
    }
    c.assert_consistent();
    for round in ["deleted", "deleted again"] {
        assert!(c.indexed() >= 50, "{round}");
        let lost = c.indexed();
        assert_eq!(c.plain("DEL {coll-42}:packedhashes"), int(1));
        c.tells("CHECK", &format!("ok 0 missingHashes {lost}"));
        assert!(c.ok("REPAIR").field("repaired").int() > 0);
        c.assert_consistent();
        c.tells("REPAIR", "repaired 0");
        // The index can be filled again.
        assert_eq!(c.committed("d", 0..80), (80, 0), "{round}");
        assert_eq!(c.owners([0, 79, 80]), ["d", "d", "-"], "{round}");
        c.assert_consistent();
    }
    assert_eq!(c.storage(), "packed");
}

#[test]
fn missing_packed_records_are_found() {
    let (_server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    c.committed("a", 0..50);
    c.plain("COPY {coll-42}:packedhashes {coll-42}-aside");
    c.committed("b", 40..100);
    c.assert_consistent();
    // Restore the packed value from an earlier time.
    c.plain("RENAME {coll-42}-aside {coll-42}:packedhashes");
    c.tells("CHECK", "ok 0 missingHashes 60");
    c.ok("REPAIR");
    c.assert_consistent();
    assert_eq!(c.owners([0, 45, 50]), ["a", "a", "-"]);
}

/// A log entry that moves the field `a-field-of-19-bytes` of a hash into the crawl `c`.
const TAKES_A_FIELD: &[u8] = b"\x01\x01c\x09\x00\x13a-field-of-19-bytes";

#[test]
fn a_log_reads_only_keys_that_its_user_may_read() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let reads = |rules: &str| {
        let mut c = DedupeIndex::of(&server, P);
        c.plain("FLUSHALL");
        c.plain("HSET secret a-field-of-19-bytes s3cr3t");
        let user = "ACL SETUSER reader reset on nopass +@all ~{coll-42}:*";
        c.plain(format!("{user} {rules}"));
        let mut reader = server.wire();
        ok!(reader, "AUTH", "reader", "any");
        let may = !cmd!(reader, "HGETALL", "secret").is_error();
        (reader, may)
    };
    let packed = "{coll-42}:allhashes";
    let apply = |user: &mut Wire, key: &str| {
        cmd!(
            user,
            "crawlspace.packed",
            packed,
            "APPLY",
            key,
            TAKES_A_FIELD
        )
    };
    for rules in ["", "%W~secret", "~secre ~secret?"] {
        let (mut reader, may) = reads(rules);
        assert!(!may, "{rules:?}");
        assert_error(&apply(&mut reader, "secret"), "NOPERM", rules);
        let keys = c.plain("KEYS *").texts();
        assert_eq!(keys, ["secret"], "{rules:?}");
        // The user may apply the log to the module's own keys.
        let own = "{coll-42}:h:c";
        ok!(reader, "HSET", own, "a-field-of-19-bytes", "own");
        assert!(!apply(&mut reader, own).is_error(), "{rules:?}");
    }
    // The log itself is valid.
    for rules in ["%R~secret", "~*"] {
        let (mut reader, may) = reads(rules);
        assert!(may, "{rules:?}");
        assert!(!apply(&mut reader, "secret").is_error(), "{rules:?}");
        c.plain("SADD {coll-42}:allcrawls c");
        c.plain("HSET {coll-42}:crawlspace storage packed");
        c.ok("UNPACK");
        let records = c.hash("h:c");
        assert_eq!(records["a-field-of-19-bytes"], "s3cr3t", "{rules:?}");
    }
}

/// Creates three crawls of this many hashes each. Slices are so short that a storage conversion
/// takes many of them.
fn three_crawls(c: &mut DedupeIndex, hashes: u64) {
    c.plain("CONFIG SET crawlspace.slice-us 50");
    for (id, first) in [("a", 0), ("b", hashes), ("c", 2 * hashes)] {
        c.committed(id, first..first + hashes);
    }
}

#[test]
fn checks_are_answered_while_the_storage_changes_again_and_again() {
    let server = Options::new().plain().start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut c = DedupeIndex::of(&server, P);
    three_crawls(&mut c, 2_000);
    ok!(replica.wire(), "CONFIG", "SET", "crawlspace.slice-us", 50);
    server.wait_for_replica_offset(&replica);
    let mut checkers = [&server, &server, &replica, &replica].map(|s| DedupeIndex::of(s, P));
    for checker in &mut checkers {
        checker.send("CHECK");
    }
    for _ in 0..20 {
        for name in ["PACK", "UNPACK"] {
            let (_, hashes, records) = c.change(name);
            assert_eq!((hashes, records), (6_000, 6_000), "{name}");
            // If a client has got the reply to its `CHECK`, it sends another one. The other clients are still waiting
            // when the next conversion begins.
            for checker in &mut checkers {
                if checker.has_reply() {
                    assert_no_faults(&checker.recv());
                    checker.send("CHECK");
                }
            }
        }
    }
    for checker in &mut checkers {
        assert_no_faults(&checker.recv());
    }
    server.wait_for_replica_offset(&replica);
    for server in [&server, &replica] {
        DedupeIndex::of(server, P).assert_consistent();
        assert_eq!(server.info_number("panics"), 0);
    }
}

/// A function that removes all data from an index whose storage conversion was interrupted.
type Emptied = fn(&mut DedupeIndex);

/// A storage conversion, and the storage after its interruption, after the removal of all data, and
/// after the opposite conversion.
const CHANGES: [(&str, [&str; 3]); 2] = [
    ("PACK", ["packing", "packed", "plain"]),
    ("UNPACK", ["unpacking", "plain", "packed"]),
];

#[test]
fn an_interrupted_change_has_ended_when_everything_is_removed() {
    let ways: [(&str, Emptied); 3] = [
        ("REMOVE", |c| {
            assert_eq!(c.ok("REMOVE a b c").ints(), [3, 18_000, 0]);
        }),
        ("RETAIN", |c| {
            assert_eq!(c.ok("RETAIN PURGE open").ints(), [3, 18_000, 0]);
        }),
        ("CANCEL", |c| {
            c.plain("SREM {coll-42}:allcrawls a b c");
            for id in ["a", "b", "c"] {
                assert_eq!(c.ok(format!("CANCEL {id}")), int(6_000));
            }
            c.ok("REPAIR"); // their counts are still in the sums
        }),
    ];
    for (way, empty) in ways {
        for (name, [cut_short, then, back]) in CHANGES {
            let what = format!("{name}, {way}");
            let (_server, mut c) = DedupeIndex::on(Options::new().plain(), P);
            three_crawls(&mut c, 6_000);
            c.add("open", 40_000..40_010);
            if name == "UNPACK" {
                c.change("PACK");
            }
            let mut changer = c.begun(name);
            c.plain("DEBUG RELOAD");
            assert!(
                changer.recv().is_error(),
                "{what}: the change ended too early"
            );
            assert_eq!(c.storage(), cut_short, "{what}");
            empty(&mut c);
            assert_eq!(c.plain("EXISTS {coll-42}:moving"), int(0), "{what}");
            assert_eq!(c.storage(), then, "{what}");
            c.assert_consistent();
            let way_back = if back == "plain" { "UNPACK" } else { "PACK" };
            assert_eq!(c.change(way_back), (back.to_owned(), 0, 0), "{what}");
            assert_eq!(c.commit("open"), (10, 0), "{what}");
            c.assert_consistent();
            assert_eq!(c.change(name).1, 10, "{what}");
            c.assert_consistent();
        }
    }
}
