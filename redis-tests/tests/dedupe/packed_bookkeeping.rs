//! What a packed index keeps books of stays right: whose change a log tells, which record counts, what
//! is missing, who may have a key read, and what storage there is.

use redis_tests::{
    Crawl, Options, Reply, Server, Snapshot, Wire, Word, add, assert_consistent, begin_change,
    change_storage, commit, hash_key, indexed, int, ok, owners, plain_view, sha256_of, storage_of,
    words_of,
};

const P: &str = "{coll-42}:";

fn key(name: &str) -> String {
    format!("{P}{name}")
}

/// A `DEDUPE.CHECK` must have found nothing but a change of storage that was under way.
#[track_caller]
fn assert_no_faults(findings: &Reply) {
    let moving = findings.field("interrupted").int();
    assert!((0..=1).contains(&moving), "{findings:?}");
    assert_eq!(findings.field("ok").int(), 1 - moving, "{findings:?}");
    for fault in [
        "danglingOwners",
        "missingHashes",
        "hiddenOwners",
        "badRecords",
        "countDrift",
        "leakedKeys",
        "staleHolders",
    ] {
        assert_eq!(findings.field(fault), int(0), "{findings:?}");
    }
}

/// Two crawls, committed and packed; and with `is_canceled` the cancel that drops what is packed of
/// them, because `allcrawls` has them no more.
fn two_crawls(c: &mut Wire, [first, second]: [&[u8]; 2], is_canceled: bool, in_one_go: bool) {
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 1000);
    for (id, numbers) in [(first, 0..8), (second, 8..16)] {
        let mut words = vec!["DEDUPE.ADD".word(), P.word(), id.word()];
        words.extend(numbers.flat_map(words_of));
        assert_eq!(c.expect_ok(&words), int(8));
        ok!(c, "DEDUPE.COMMIT", P, id);
    }
    assert_eq!(change_storage(c, "DEDUPE.PACK", P).1, 16);
    if is_canceled {
        ok!(c, "SREM", key("allcrawls"), first, second);
        if in_one_go {
            ok!(c, "MULTI");
        }
        for id in [first, second] {
            ok!(c, "DEDUPE.CANCEL", P, id);
        }
        ok!(c, "DEDUPE.REPAIR", P); // their counts are still in the sums
        if in_one_go {
            ok!(c, "EXEC");
        }
        assert_eq!(ok!(c, "EXISTS", key("allhashes")), int(0));
    }
}

#[test]
fn logs_tell_crawls_apart_whose_ids_end_alike() {
    let ids: [[&[u8]; 2]; 4] = [
        [b"\x01b", b"b"],
        [b"b", b"\x01b"],
        [b"x\x03abc", b"abc"],
        [b"x\x02\x01b", b"\x01b"],
    ];
    for (i, pair) in ids.into_iter().enumerate() {
        for (is_canceled, in_one_go) in [(false, false), (true, false), (true, true)] {
            let mut server = Options::new().plain().aof_unsynced(false).start();
            let replica = Options::new().plain().replica_of(&server).start();
            let mut c = server.wire();
            // What comes now is told by logs.
            server.wait_for_replica_offset(&replica);
            two_crawls(&mut c, pair, is_canceled, in_one_go);
            server.wait_for_replica_offset(&replica);
            let (digest, what) = (
                server.digest(),
                format!("pair {i}, canceled: {is_canceled}"),
            );
            assert_eq!(replica.digest(), digest, "{what}: the replica");
            drop(replica);
            server.restart();
            assert_eq!(server.digest(), digest, "{what}: the file");
            assert_consistent(&mut server.wire(), P);
        }
    }
}

/// A record that nobody else writes, as a plain client stores it.
const PLAIN_RECORD: &str = "1 20240501120000 http://plain.example/ 7";

/// What look-ups say of the hashes 0 to 39.
fn look_ups(c: &mut Wire) -> Vec<Reply> {
    let options: [&[&str]; 4] = [&[], &["CRAWL", "a"], &["CRAWL", "b"], &["WITHWACZ"]];
    let mut replies = Vec::new();
    for options in options {
        let mut words = vec!["DEDUPE.LOOKUP".word(), P.word()];
        words.extend(options.iter().map(Word::word));
        words.extend((0..40).map(|n| sha256_of(n).word()));
        replies.push(c.expect_ok(&words));
    }
    for n in [0, 3, 15, 25] {
        replies.push(ok!(c, "DEDUPE.CLAIM", P, "c", sha256_of(n), "PX", 1));
    }
    replies
}

/// A client that knows only the documents goes on with a committed crawl: it stores the records of
/// hashes that the crawl has, and of one that is new. Look-ups of the former must not change by it, nor
/// by the commit and by `UNPACK`. What all of it replies, and the keys in the end.
fn continued_by_a_plain_client(options: Options) -> (Vec<Vec<Reply>>, Snapshot) {
    let server = options.start();
    let mut c = server.wire();
    for (id, numbers) in [("a", 0..20), ("b", 10..30)] {
        add(&mut c, P, id, numbers);
        commit(&mut c, P, id);
    }
    let mut seen = vec![look_ups(&mut c)];
    for n in [0, 3, 15, 100] {
        // On plain keys it finds the crawl's own record there.
        ok!(c, "HSETNX", key("h:a"), sha256_of(n), PLAIN_RECORD);
    }
    seen.push(look_ups(&mut c));
    let check = ok!(c, "DEDUPE.CHECK", P);
    ok!(c, "SADD", key("uncommittedcrawls"), "a");
    seen.push(look_ups(&mut c));
    let committed = ok!(c, "DEDUPE.COMMIT", P, "a");
    seen.push(look_ups(&mut c));
    let new = ok!(c, "DEDUPE.LOOKUP", P, sha256_of(100), sha256_of(3));
    assert_consistent(&mut c, P);
    change_storage(&mut c, "DEDUPE.UNPACK", P);
    seen.push(look_ups(&mut c));
    for (later, when) in seen[1..]
        .iter()
        .zip(["beside", "continued", "committed", "unpacked"])
    {
        assert_eq!(*later, seen[0], "{when}");
    }
    let records = hash_key(&mut c, &key("h:a"));
    for n in [0, 3, 15] {
        let [_, _, date, url, size] = words_of(n).map(|word| String::from_utf8(word).unwrap());
        assert_eq!(records[&sha256_of(n)], format!("0 {date} {url} {size}"));
    }
    assert_eq!(records[&sha256_of(100)], PLAIN_RECORD);
    assert_consistent(&mut c, P);
    seen.push(vec![check, committed, new]);
    (seen, plain_view(&mut c, P).without_storage())
}

#[test]
fn a_plain_record_beside_a_packed_one_is_as_if_it_were_not_there() {
    let (packed, keys) = continued_by_a_plain_client(Options::new().packed());
    let (plain, plain_keys) = continued_by_a_plain_client(Options::new().plain());
    assert_eq!(packed, plain);
    keys.assert_same(&plain_keys, "as on plain keys");
}

#[test]
fn a_packed_index_whose_value_went_is_found_and_repaired() {
    let server = Options::new().packed().start();
    let mut c = server.wire();
    for (id, numbers) in [("a", 0..50), ("b", 50..100), ("c", 100..150)] {
        add(&mut c, P, id, numbers);
        commit(&mut c, P, id);
    }
    assert_consistent(&mut c, P);
    for round in ["deleted", "deleted again"] {
        assert!(indexed(&mut c, P) >= 50, "{round}");
        let lost = indexed(&mut c, P);
        assert_eq!(ok!(c, "DEL", key("allhashes")), int(1));
        let check = ok!(c, "DEDUPE.CHECK", P);
        assert_eq!(check.field("ok"), int(0), "{round}: {check:?}");
        assert_eq!(check.field("missingHashes"), int(lost), "{round}");
        assert!(ok!(c, "DEDUPE.REPAIR", P).field("repaired").int() > 0);
        assert_consistent(&mut c, P);
        let again = ok!(c, "DEDUPE.REPAIR", P);
        assert_eq!(again.field("repaired"), int(0), "{round}: {again:?}");
        // It can be filled again.
        add(&mut c, P, "d", 0..80);
        assert_eq!(commit(&mut c, P, "d"), (80, 0), "{round}");
        assert_eq!(owners(&mut c, P, [0, 79, 80]), ["d", "d", "-"], "{round}");
        assert_consistent(&mut c, P);
    }
    assert_eq!(storage_of(&mut c, P), "packed");
}

#[test]
fn a_part_of_the_packed_records_that_went_is_found_too() {
    let server = Options::new().packed().start();
    let mut c = server.wire();
    add(&mut c, P, "a", 0..50);
    commit(&mut c, P, "a");
    ok!(c, "COPY", key("allhashes"), "{coll-42}-aside");
    add(&mut c, P, "b", 40..100);
    commit(&mut c, P, "b");
    assert_consistent(&mut c, P);
    // The value of another time.
    ok!(c, "RENAME", "{coll-42}-aside", key("allhashes"));
    let check = ok!(c, "DEDUPE.CHECK", P);
    assert_eq!(check.field("ok"), int(0), "{check:?}");
    assert_eq!(check.field("missingHashes"), int(60), "{check:?}");
    ok!(c, "DEDUPE.REPAIR", P);
    assert_consistent(&mut c, P);
    assert_eq!(owners(&mut c, P, [0, 45, 50]), ["a", "a", "-"]);
}

/// A log that takes the field `a-field-of-19-bytes` of a hash into the crawl `c`.
const TAKES_A_FIELD: &[u8] = b"\x01\x01c\x09\x00\x13a-field-of-19-bytes";

#[test]
fn a_log_reads_no_key_that_its_user_may_not() {
    let server = Options::new().plain().start();
    let mut c = server.wire();
    let reads = |rules: &[&str]| {
        let mut words = vec!["ACL", "SETUSER", "reader", "reset", "on", "nopass"];
        words.extend(["+@all", "~{coll-42}:*"]);
        words.extend(rules);
        let mut c = server.wire();
        ok!(c, "FLUSHALL");
        ok!(c, "HSET", "secret", "a-field-of-19-bytes", "s3cr3t");
        c.expect_ok(&words);
        let mut reader = server.wire();
        ok!(reader, "AUTH", "reader", "any");
        let may = !reader.call(&["HGETALL", "secret"]).is_error();
        (reader, may)
    };
    let apply = |user: &mut Wire| {
        let name = key("allhashes");
        let words = ["crawlspace.packed", &name, "APPLY", "secret"].map(Word::word);
        user.call(&[&words[..], &[TAKES_A_FIELD.to_vec()]].concat())
    };
    for rules in [&[][..], &["%W~secret"], &["~secre", "~secret?"]] {
        let (mut reader, may) = reads(rules);
        assert!(!may, "{rules:?}");
        match apply(&mut reader) {
            Reply::Error(line) => assert!(line.starts_with(b"NOPERM "), "{line:?}"),
            other => panic!("{rules:?}: {other:?}"),
        }
        let keys = ok!(c, "KEYS", "*").texts();
        assert_eq!(keys, ["secret"], "{rules:?}");
        // It may change what is its own.
        ok!(reader, "HSET", key("h:c"), "a-field-of-19-bytes", "own");
        let mut words = ["crawlspace.packed", &key("allhashes"), "APPLY", &key("h:c")]
            .map(Word::word)
            .to_vec();
        words.push(TAKES_A_FIELD.to_vec());
        reader.expect_ok(&words);
    }
    // The log is a good one.
    for rules in [&["%R~secret"][..], &["~*"]] {
        let (mut reader, may) = reads(rules);
        assert!(may, "{rules:?}");
        assert!(!apply(&mut reader).is_error(), "{rules:?}");
        ok!(c, "SADD", key("allcrawls"), "c");
        ok!(c, "HSET", key("crawlspace"), "storage", "packed");
        ok!(c, "DEDUPE.UNPACK", P);
        let records = hash_key(&mut c, &key("h:c"));
        assert_eq!(records["a-field-of-19-bytes"], "s3cr3t", "{rules:?}");
    }
}

/// Three crawls of so many hashes each, and slices so short that a change of storage takes many.
fn three_crawls(c: &mut Wire, hashes: u64) {
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for (id, first) in [("a", 0), ("b", hashes), ("c", 2 * hashes)] {
        Crawl::of(P, id, first..first + hashes).add(c);
        commit(c, P, id);
    }
}

#[test]
fn checks_are_answered_while_the_storage_changes_again_and_again() {
    let server = Options::new().plain().start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut c = server.wire();
    three_crawls(&mut c, 2_000);
    ok!(replica.wire(), "CONFIG", "SET", "crawlspace.slice-us", 50);
    server.wait_for_replica_offset(&replica);
    let mut checkers: Vec<Wire> = [&server, &server, &replica, &replica]
        .map(Server::wire)
        .into();
    for checker in &mut checkers {
        checker.send(&["DEDUPE.CHECK", P]);
    }
    for _ in 0..20 {
        for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
            let (_, hashes, records) = change_storage(&mut c, name, P);
            assert_eq!((hashes, records), (6_000, 6_000), "{name}");
            // Those that are answered ask again; the others meet the next change as well.
            for checker in &mut checkers {
                if checker.has_reply() {
                    assert_no_faults(&checker.recv());
                    checker.send(&["DEDUPE.CHECK", P]);
                }
            }
        }
    }
    for checker in &mut checkers {
        assert_no_faults(&checker.recv());
    }
    server.wait_for_replica_offset(&replica);
    for server in [&server, &replica] {
        assert_consistent(&mut server.wire(), P);
        assert_eq!(server.info_number("panics"), 0);
    }
}

/// Takes everything out of an index whose change of storage was cut short.
type Emptied = fn(&mut Wire);

/// A change of storage, and what the storage is when it was cut short, when then everything is removed,
/// and after the way back.
const CHANGES: [(&str, [&str; 3]); 2] = [
    ("DEDUPE.PACK", ["packing", "packed", "plain"]),
    ("DEDUPE.UNPACK", ["unpacking", "plain", "packed"]),
];

#[test]
fn a_change_cut_short_has_ended_when_everything_is_removed() {
    let ways: [(&str, Emptied); 3] = [
        ("REMOVE", |c| {
            let removed = ok!(c, "DEDUPE.REMOVE", P, "a", "b", "c").ints();
            assert_eq!(removed, [3, 18_000, 0]);
        }),
        ("RETAIN", |c| {
            let purged = ok!(c, "DEDUPE.RETAIN", P, "PURGE", "open").ints();
            assert_eq!(purged, [3, 18_000, 0]);
        }),
        ("CANCEL", |c| {
            ok!(c, "SREM", key("allcrawls"), "a", "b", "c");
            for id in ["a", "b", "c"] {
                assert_eq!(ok!(c, "DEDUPE.CANCEL", P, id), int(6_000));
            }
            ok!(c, "DEDUPE.REPAIR", P); // their counts are still in the sums
        }),
    ];
    for (way, empty) in ways {
        for (name, [cut_short, then, back]) in CHANGES {
            let what = format!("{name}, {way}");
            let server = Options::new().plain().start();
            let mut c = server.wire();
            three_crawls(&mut c, 6_000);
            add(&mut c, P, "open", 40_000..40_010);
            if name == "DEDUPE.UNPACK" {
                change_storage(&mut c, "DEDUPE.PACK", P);
            }
            let mut changer = begin_change(&server, name, P);
            ok!(c, "DEBUG", "RELOAD");
            assert!(changer.recv().is_error(), "{what}: it was over too soon");
            assert_eq!(storage_of(&mut c, P), cut_short, "{what}");
            empty(&mut c);
            assert_eq!(ok!(c, "EXISTS", key("moving")), int(0), "{what}");
            assert_eq!(storage_of(&mut c, P), then, "{what}");
            assert_consistent(&mut c, P);
            let way_back = if back == "plain" {
                "DEDUPE.UNPACK"
            } else {
                "DEDUPE.PACK"
            };
            let went = change_storage(&mut c, way_back, P);
            assert_eq!(went, (back.to_owned(), 0, 0), "{what}");
            assert_eq!(commit(&mut c, P, "open"), (10, 0), "{what}");
            assert_consistent(&mut c, P);
            assert_eq!(change_storage(&mut c, name, P).1, 10, "{what}");
            assert_consistent(&mut c, P);
        }
    }
}
