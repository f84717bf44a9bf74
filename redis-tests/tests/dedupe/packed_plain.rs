//! Plain commands on a packed index, with the setting `dedupe-plain-commands`.

use std::collections::BTreeMap;

use redis_tests::{
    Cluster, DedupeIndex, Options, Reply, Rng, Server, Wire, assert_error, bulk, int, nil, ok,
    sha256_of, until,
};

const P: &str = "p:";

/// Returns options that enable `dedupe-plain-commands`.
fn served() -> Options {
    Options::new().module_args(&["dedupe-plain-commands", "yes"])
}

/// Starts a server with a packed index of two crawls that share hashes, and an uncommitted crawl.
fn index_on(options: Options) -> (Server, DedupeIndex) {
    let (server, mut c) = DedupeIndex::on(options.plain(), P);
    fill(&mut c);
    c.tells("PACK", "storage packed");
    (server, c)
}

fn fill(c: &mut DedupeIndex) {
    c.committed("a", 0..300);
    c.committed("b", 200..400);
    c.add("open", 390..420);
}

/// Returns how often the server has run one of its own commands.
fn runs(server: &Server, command: &str) -> i64 {
    let stats = server.info(&format!("cmdstat_{command}"));
    let calls = stats
        .as_deref()
        .and_then(|text| text.strip_prefix("calls="));
    calls.map_or(0, |text| {
        let (calls, _) = text.split_once(',').expect("more figures");
        calls.parse().expect("a number")
    })
}

fn until_served(c: &mut Wire, key: &str) {
    until("plain commands are served", || {
        !c.call(&["HLEN", key]).is_error()
    });
}

/// Sends a call that is refused, and returns the error.
fn refusal(c: &mut DedupeIndex, line: &str) -> String {
    assert_error(&c.plain_call(line), "", line)
}

/// Reads a hash with `HSCAN`, and calls `between` after each step.
fn scanned(
    c: &mut Wire,
    key: &str,
    options: &[&str],
    mut between: impl FnMut(),
) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut cursor = "0".to_owned();
    loop {
        let words = [&["HSCAN", key, &cursor], options].concat();
        let reply = c.expect_ok(&words);
        let [next, found] = reply.items() else {
            panic!("HSCAN gives {reply:?}");
        };
        for pair in found.items().chunks_exact(2) {
            all.insert(pair[0].bytes().to_vec(), pair[1].bytes().to_vec());
        }
        cursor = next.text();
        if cursor == "0" {
            return all;
        }
        between();
    }
}

/// Adds the records of a crawl and their owners, as Browsertrix does before it commits the crawl.
fn add_plainly(c: &mut DedupeIndex, crawl: &str, numbers: std::ops::Range<u64>) {
    let (records, merged) = (c.key(&format!("h:{crawl}")), c.key("allhashes"));
    for n in numbers {
        let hash = sha256_of(n);
        let record = "0 20260319102015000 https://e/ 1000";
        ok!(c, "HSETNX", &records, &hash, record);
        ok!(c, "HSETNX", &merged, &hash, crawl);
    }
}

/// Commits a crawl as Browsertrix does.
fn commit_plainly(c: &mut DedupeIndex, crawl: &str, numbers: std::ops::Range<u64>) {
    add_plainly(c, crawl, numbers);
    let counts = c.key(&format!("h:{crawl}:counts"));
    let (crawls, sums) = (c.key("allcrawls"), c.key("allcounts"));
    ok!(c, "HINCRBY", counts, "totalUrls", "1");
    ok!(c, "SADD", crawls, crawl);
    ok!(c, "HINCRBY", sums, "totalUrls", "1");
}

/// Commits a crawl as Browsertrix does, and waits until it is packed.
fn until_packed(c: &mut DedupeIndex, crawl: &str, numbers: std::ops::Range<u64>) {
    commit_plainly(c, crawl, numbers);
    let records = c.key(&format!("h:{crawl}"));
    until("the crawl is packed", || {
        ok!(c, "EXISTS", &records) == int(0)
    });
}

/// Commits a crawl as Browsertrix does, on a server that does not pack it because the setting is off by then.
fn commit_unpacked(c: &mut DedupeIndex, crawl: &str, numbers: std::ops::Range<u64>) {
    add_plainly(c, crawl, numbers);
    c.plain("CONFIG SET crawlspace.dedupe-plain-commands no");
    let crawls = c.key("allcrawls");
    ok!(c, "SADD", crawls, crawl);
}

/// The calls whose replies must not depend on the storage. `#n` is a hash, `@` its record.
const CALLS: &[&str] = &[
    "HGET p:allhashes #1",
    "HGET p:allhashes #250",
    "HGET p:allhashes #395",
    "HGET p:allhashes #9999",
    "hget p:allhashes ''",
    "HGET p:h:a #1",
    "HGET p:h:a #9999",
    "HGET p:h:b #250",
    "HGET p:h:open #400",
    "HGET p:h:unknown #1",
    "HGET p:allhashes",
    "HGET p:allhashes #1 #2",
    "HLEN p:allhashes",
    "HLEN p:h:a",
    "HLEN p:h:b",
    "HLEN p:h:open",
    "HLEN p:h:unknown",
    "HLEN p:allhashes x",
    "HLEN",
    "HSCAN p:allhashes",
    "HSCAN p:allhashes x",
    "HSCAN p:allhashes 18446744073709551616",
    "HSCAN p:allhashes 0 COUNT 0",
    "HSCAN p:allhashes 0 COUNT x",
    "HSCAN p:allhashes 0 COUNT +1",
    "HSCAN p:allhashes 0 COUNT 01",
    "HSCAN p:allhashes 0 COUNT",
    "HSCAN p:h:a 0 MATCH",
    "HSCAN p:h:a 0 BAD 1",
    "HSETNX p:allhashes #1 other",
    "HSETNX p:allhashes #5000 other",
    "HSETNX p:allhashes #5000 again",
    "HGET p:allhashes #5000",
    "HLEN p:allhashes",
    "HSETNX p:h:a #1 other",
    "HSETNX p:h:a #6000 'a new record'",
    "HGET p:h:a #6000",
    "HSETNX p:h:a #6000 again",
    "HLEN p:h:a",
    "HSETNX p:allhashes #1",
    "HSETNX p:h:open #6001 value",
    "HGET p:h:open #6001",
    "EVAL \"return redis.call('HGET', KEYS[1], ARGV[1])\" 1 p:allhashes #1",
    "EVAL \"return redis.call('HLEN', KEYS[1])\" 1 p:h:a",
    "MULTI",
    "HGET p:allhashes #1",
    "HSETNX p:allhashes #7000 c",
    "HLEN p:h:b",
    "EXEC",
    "DEL p:h:a:nothing",
    "RENAME p:nothing p:other",
    "RENAME p:allcrawls",
    "RENAMENX p:nothing p:other",
    "RENAMENX p:allcrawls",
];

#[test]
fn replies_are_those_of_a_plain_index() {
    let (_plain, mut plain) = DedupeIndex::on(Options::new().plain(), P);
    fill(&mut plain);
    let (server, mut packed) = index_on(served());
    until_served(packed.wire(), "p:allhashes");
    for resp3 in [false, true] {
        if resp3 {
            for c in [&mut plain, &mut packed] {
                let hello = c.plain("HELLO 3");
                assert!(!hello.is_error());
            }
        }
        for line in CALLS {
            let [expected, given] = [&mut plain, &mut packed].map(|c| c.plain_call(line));
            assert_eq!(given, expected, "{line}");
        }
    }
    let mut wires = [plain.wire(), packed.wire()];
    for key in ["p:allhashes", "p:h:a", "p:h:b", "p:h:open", "p:h:unknown"] {
        for options in [
            &[][..],
            &["COUNT", "1"],
            &["COUNT", "1000"],
            &["MATCH", "sha256:[0-9]*"],
            &["match", "*7?", "count", "30"],
            &["MATCH", "nothing"],
        ] {
            let [expected, given] = wires.each_mut().map(|c| scanned(c, key, options, || {}));
            assert_eq!(given, expected, "{key} {options:?}");
        }
    }
    // Servers that know the option return only fields; other servers refuse it.
    let [expected, given] = wires
        .each_mut()
        .map(|c| c.call(&["HSCAN", "p:h:b", "0", "COUNT", "500", "NOVALUES"]));
    if expected.is_error() {
        assert_eq!(given, expected);
    } else {
        let sorted = |reply: &Reply| {
            let mut fields = reply.items()[1].texts();
            fields.sort();
            fields
        };
        assert_eq!(sorted(&given), sorted(&expected));
    }
    assert_eq!(packed.storage(), "packed");
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn binary_fields_and_values_are_returned_byte_for_byte() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    let mut rng = Rng::new("binary_fields_and_values_are_returned_byte_for_byte");
    for _ in 0..200 {
        let bytes = |rng: &mut Rng| {
            (0..rng.below(200))
                .map(|_| rng.bits() as u8)
                .collect::<Vec<u8>>()
        };
        let (field, crawl) = (bytes(&mut rng), bytes(&mut rng));
        let words = [b"HSETNX", &b"p:allhashes"[..], &field, &crawl];
        if c.wire().call(&words) == int(1) {
            let value = c.wire().call(&[b"HGET", &b"p:allhashes"[..], &field]);
            assert_eq!(value, bulk(&crawl));
        }
    }
}

#[test]
fn scans_from_any_cursor_end_without_harm() {
    let (server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    let mut rng = Rng::new("scans_from_any_cursor_end_without_harm");
    for _ in 0..300 {
        let cursor = (rng.bits() >> rng.below(64)).to_string();
        for key in ["p:allhashes", "p:h:a"] {
            ok!(c, "HSCAN", key, &cursor);
            // Newer servers refuse a sign.
            c.plain_call(format!("HSCAN {key} -{cursor}"));
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn scan_misses_nothing_while_crawls_are_packed() {
    for count in ["10", "100"] {
        let (_server, mut c) = index_on(served());
        until_served(c.wire(), "p:allhashes");
        c.plain("CONFIG SET crawlspace.slice-us 50");
        commit_plainly(&mut c, "theirs", 1000..4000);
        let mut scanner = c.another();
        let mut packing = None;
        let mut steps = 0;
        let found = scanned(scanner.wire(), "p:h:theirs", &["COUNT", count], || {
            steps += 1;
            if steps == 3 {
                packing = Some(c.sent("PACK"));
            }
        });
        assert_eq!(found.len(), 3000, "{count}");
        assert!(!packing.expect("more than three steps").recv().is_error());
        assert_eq!(c.plain("EXISTS p:h:theirs"), int(0));
        let all = scanned(scanner.wire(), "p:h:theirs", &["COUNT", count], || {});
        assert_eq!(all.len(), 3000, "{count}");
        c.assert_consistent();
    }
}

#[test]
fn scan_misses_nothing_while_an_index_is_unpacked() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    c.committed("big", 1000..4000);
    c.plain("CONFIG SET crawlspace.slice-us 50");
    let mut scanner = c.another();
    let mut steps = 0;
    // The index is being unpacked, but is not plain yet, when the scan ends.
    let mut unpacking = None;
    let found = scanned(scanner.wire(), "p:h:big", &["COUNT", "1"], || {
        steps += 1;
        if steps == 1 {
            unpacking = Some(c.begun("UNPACK"));
        }
    });
    assert_eq!(found.len(), 3000);
    assert!(!unpacking.expect("more than one step").recv().is_error());
}

#[test]
fn crawls_committed_by_plain_clients_are_packed() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    commit_plainly(&mut c, "theirs", 1000..1100);
    until("the crawl is packed", || {
        c.plain("EXISTS p:h:theirs") == int(0)
    });
    assert_eq!(c.plain("HLEN p:h:theirs"), int(100));
    assert_eq!(c.owners([1000, 1099]), ["theirs", "theirs"]);
    c.assert_consistent();
}

#[test]
fn records_stay_plain_if_the_crawl_id_is_that_of_another_key() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    commit_plainly(&mut c, "x:counts", 2000..2010);
    commit_plainly(&mut c, "theirs", 1000..1010);
    until("the other crawl is packed", || {
        c.plain("EXISTS p:h:theirs") == int(0)
    });
    assert_eq!(c.plain("HLEN p:h:x:counts"), int(10));
    c.tells("PACK", "storage packed");
    assert_eq!(c.plain("HLEN p:h:x:counts"), int(10));
    assert_eq!(c.owners([1000, 2009]), ["theirs", "x:counts"]);
}

#[test]
fn crawl_at_the_name_of_a_key_of_another_crawl_does_not_prevent_packing() {
    let (_server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    for (crawl, numbers) in [("x", 0..10), ("x:urls", 10..20), ("x:refs", 20..30)] {
        commit_plainly(&mut c, crawl, numbers);
    }
    let owners = ["x", "x:urls", "x:refs"];
    c.tells("PACK", "storage packed hashes 30 records 10");
    assert_eq!(c.plain("EXISTS p:h:x"), int(0));
    assert_eq!(c.plain("HLEN p:h:x:urls"), int(10));
    assert_eq!(c.owners([1, 11, 21]), owners);
    c.assert_consistent();
    c.tells("UNPACK", "storage plain hashes 30 records 10");
    assert_eq!(c.plain("HLEN p:h:x"), int(10));
    assert_eq!(c.owners([1, 11, 21]), owners);
    c.assert_consistent();
}

#[test]
fn commit_of_plain_clients_does_not_decide_about_a_new_index() {
    let (server, mut c) = DedupeIndex::on(served().packed(), P);
    // Plain commands are served because of another index.
    let mut other = DedupeIndex::of(&server, "other:");
    other.committed("a", 0..10);
    until_served(c.wire(), "other:allhashes");
    ok!(c, "SADD", "p:allcrawls", "theirs");
    ok!(
        c,
        "HSETNX",
        "other:h:x",
        sha256_of(20),
        "0 20260319102015 http://e/ 1"
    );
    ok!(c, "SADD", "other:allcrawls", "x");
    // The module packs the indexes in the order of these commits.
    until("the later commit is packed", || {
        c.plain("EXISTS other:h:x") == int(0)
    });
    assert_eq!(c.plain("EXISTS p:crawlspace"), int(0));
    ok!(c, "HSETNX", "p:alldupes", "a".repeat(64), "theirs");
    assert_eq!(c.plain("TYPE p:alldupes"), Reply::Simple("hash".into()));
}

#[test]
fn records_of_a_running_crawl_are_packed_while_it_runs() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    commit_plainly(&mut c, "running", 2000..2001);
    until("its first record is packed", || {
        c.plain("EXISTS p:h:running") == int(0)
    });
    let mut calls = Vec::new();
    for n in 2001..12_100 {
        let hash = sha256_of(n);
        let call =
            |key: &str, value: &str| ["HSETNX", key, &hash, value].map(str::to_owned).to_vec();
        calls.push(call("p:h:running", "0 20260319102015000 https://e/ 1000"));
        calls.push(call("p:allhashes", "running"));
    }
    c.wire().pipeline(calls);
    // Ten thousand records are packed at once, the remaining ones after a minute.
    until("its records are packed", || {
        c.plain("HKEYS p:h:running").items().len() < 1000
    });
    assert_eq!(c.plain("HLEN p:h:running"), int(10_100));
    assert_eq!(c.owners([2000, 12_099]), ["running", "running"]);
}

#[test]
fn setting_is_off_by_default_and_costs_nothing_then() {
    let (server, mut c) = index_on(Options::new());
    assert!(refusal(&mut c, "HLEN p:allhashes").starts_with("WRONGTYPE"));
    ok!(
        c,
        "CONFIG",
        "SET",
        "crawlspace.dedupe-plain-commands",
        "yes"
    );
    until_served(c.wire(), "p:allhashes");
    assert_eq!(server.info_number("plain_commands"), 1);
    assert_eq!(c.plain("HGET p:allhashes #1"), bulk("a"));
    ok!(c, "CONFIG", "SET", "crawlspace.dedupe-plain-commands", "no");
    until("the filter is gone", || {
        c.wire().call(&["HLEN", "p:allhashes"]).is_error()
    });
    assert_eq!(server.info_number("plain_commands"), 0);
    // The commands themselves work at any time.
    assert_eq!(c.plain("DEDUPE.HGET p:allhashes #1"), bulk("a"));
    ok!(
        c,
        "CONFIG",
        "SET",
        "crawlspace.dedupe-plain-commands",
        "yes"
    );
    until_served(c.wire(), "p:allhashes");
    c.ok("UNPACK");
    until("no index is packed", || {
        server.info_number("plain_commands") == 0
    });
    let before = runs(&server, "hget");
    assert_eq!(c.plain("HGET p:allhashes #1"), bulk("a"));
    assert_eq!(runs(&server, "hget"), before + 1);
}

#[test]
fn other_keys_and_databases_stay_with_the_server() {
    let (server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    c.plain("HGET p:allhashes #1");
    let before = runs(&server, "dedupe.hget");
    for line in [
        "HGET h:a #1",
        "HGET p:h:open #400",
        "HGET p:h:a:counts totalUrls",
        "HGET q:allhashes #1",
        "HGET p:allcounts totalUrls",
        "HGETALL p:h:open",
    ] {
        c.plain(line);
    }
    assert_eq!(runs(&server, "dedupe.hget"), before);
    c.plain("SELECT 1");
    ok!(c, "HSET", "p:allhashes", "x", "y", "z", "w");
    assert_eq!(c.plain("HGET p:allhashes x"), bulk("y"));
    assert_eq!(c.plain("HLEN p:allhashes"), int(2));
    assert_eq!(c.plain("HSETNX p:allhashes v u"), int(1));
    assert_eq!(scanned(c.wire(), "p:allhashes", &[], || {}).len(), 3);
    ok!(c, "SET", "p:h:a", "text");
    assert!(refusal(&mut c, "HGET p:h:a x").starts_with("WRONGTYPE"));
    c.plain("SELECT 0");
    assert_eq!(c.plain("HLEN p:allhashes"), int(400));
}

#[test]
fn one_prefix_in_two_databases_is_two_indexes() {
    let (server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    c.plain("SELECT 1");
    c.committed("other", 1000..1010);
    c.ok("PACK");
    until_served(c.wire(), "p:allhashes");
    for _ in 0..2 {
        assert_eq!(c.plain("HLEN p:h:other"), int(10));
        assert_eq!(c.plain("HSETNX p:h:other #1000 x"), int(0));
        c.plain("SELECT 0");
        assert_eq!(c.plain("HLEN p:h:a"), int(300));
        assert_eq!(c.plain("HLEN p:h:other"), int(0));
        c.plain("SELECT 1");
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn prefix_may_begin_with_the_prefix_of_another_index() {
    let (server, mut c) = index_on(served());
    let mut inner = DedupeIndex::of(&server, "p:h:");
    inner.committed("a", 1000..1010);
    inner.ok("PACK");
    until_served(c.wire(), "p:allhashes");
    until_served(c.wire(), "p:h:allhashes");
    assert_eq!(c.plain("HLEN p:h:h:a"), int(10));
    assert_eq!(c.plain("HSETNX p:h:h:a #1000 x"), int(0));
    assert!(!c.plain("HGET p:h:h:a #1000").is_nil());
    assert_eq!(c.plain("HLEN p:h:a"), int(300));
    // `p:h:h:b` names the records of the crawl `h:b` in the index `p:`, and those of the crawl `b`
    // in the index `p:h:`.
    c.committed("h:b", 2000..2005);
    assert_eq!(c.plain("HLEN p:h:h:b"), int(5));
}

#[test]
fn plain_commands_are_served_from_the_first_slice_of_pack_on() {
    for _ in 0..5 {
        let (_server, mut c) = DedupeIndex::on(served().plain(), P);
        c.committed("a", 0..5000);
        c.plain("CONFIG SET crawlspace.slice-us 50");
        let mut crawler = c.another();
        let mut packing = c.sent("PACK");
        for n in 0..200 {
            assert_eq!(crawler.plain(format!("HGET p:allhashes #{n}")), bulk("a"));
            assert_eq!(crawler.plain("HLEN p:h:a"), int(5000));
        }
        assert!(!packing.recv().is_error());
    }
}

#[test]
fn purge_by_plain_commands_is_refused_and_loses_nothing() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    for command in ["rename", "RENAMENX", "DEDUPE.RENAME", "DEDUPE.RENAMENX"] {
        let text = refusal(&mut c, &format!("{command} p:allcrawls p:to-remove-crawls"));
        assert!(text.starts_with("ERR a purge"), "{text}");
        assert!(text.contains("crawlspace indexer --remove") && text.contains("DEDUPE.UNPACK"));
    }
    assert_eq!(c.owners([1, 250]), ["a", "a"]);
    c.assert_consistent();
    c.ok("UNPACK");
    assert_eq!(c.plain("RENAMENX p:allcrawls p:to-remove-crawls"), int(1));
    ok!(c, "RENAME", "p:to-remove-crawls", "p:allcrawls");
    ok!(c, "RENAME", "p:allcrawls", "p:to-remove-crawls");
}

#[test]
fn renaming_the_marker_or_a_hash_to_its_name_loses_nothing() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    assert!(refusal(&mut c, "RENAME p:h:a p:h:z").starts_with("ERR no such key"));
    ok!(c, "RENAME", "p:allhashes", "p:elsewhere");
    until("the marker exists again", || {
        c.plain("EXISTS p:allhashes") == int(1)
    });
    assert_eq!(c.plain("HGET p:allhashes #1"), bulk("a"));
    let record = "0 20260319102015000 https://e/ 1000";
    ok!(c, "HSETNX", "p:h:theirs", sha256_of(3000), record);
    ok!(c, "HSETNX", "p:mine", sha256_of(3000), "theirs");
    assert_eq!(c.plain("RENAMENX p:mine p:allhashes"), int(0));
    ok!(c, "RENAME", "p:mine", "p:allhashes");
    ok!(c, "SADD", "p:allcrawls", "theirs");
    until("the crawl is packed", || {
        c.plain("EXISTS p:h:theirs") == int(0)
    });
    assert_eq!(c.owners([1, 250, 3000]), ["a", "a", "theirs"]);
    assert_eq!(c.plain("HGET p:allhashes #3000"), bulk("theirs"));
    assert_eq!(c.plain("HLEN p:allhashes"), int(401));
}

#[test]
fn restart_serves_plain_commands_from_the_first_command_on() {
    for options in [
        served().rdb(),
        served().aof_unsynced(false),
        served().aof_unsynced(true),
    ] {
        let (mut server, mut c) = index_on(options);
        until_served(c.wire(), "p:allhashes");
        commit_plainly(&mut c, "theirs", 1000..1010);
        assert_eq!(c.plain("HSETNX p:allhashes #2000 theirs"), int(1));
        server.shutdown();
        server.restart();
        let mut c = server.wire();
        until_served(&mut c, "p:allhashes");
        let record = c.call(&["HGET".to_owned(), "p:h:a".to_owned(), sha256_of(1)]);
        assert!(!record.is_nil(), "records");
        assert_eq!(ok!(c, "HLEN", "p:allhashes"), int(411));
        assert_eq!(ok!(c, "HLEN", "p:h:theirs"), int(10));
        assert_eq!(scanned(&mut c, "p:allhashes", &[], || {}).len(), 411);
        assert_eq!(scanned(&mut c, "p:h:a", &[], || {}).len(), 300);
        assert_eq!(scanned(&mut c, "p:h:theirs", &[], || {}).len(), 10);
    }
}

#[test]
fn replica_serves_reads_and_takes_over() {
    let (server, mut c) = DedupeIndex::on(served(), P);
    let replica = served().replica_of(&server).start();
    fill(&mut c);
    c.ok("PACK");
    until_served(c.wire(), "p:allhashes");
    commit_plainly(&mut c, "theirs", 1000..1010);
    server.wait_for_replica_offset(&replica);
    let mut r = DedupeIndex::of(&replica, P);
    until_served(r.wire(), "p:allhashes");
    assert_eq!(r.plain("HGET p:allhashes #1"), bulk("a"));
    assert_eq!(r.plain("HLEN p:h:theirs"), int(10));
    assert_eq!(scanned(r.wire(), "p:allhashes", &[], || {}).len(), 410);
    assert!(refusal(&mut r, "HSETNX p:allhashes #1 x").starts_with("READONLY"));
    assert_eq!(server.digest(), replica.digest());
    ok!(r, "REPLICAOF", "NO", "ONE");
    assert_eq!(r.plain("HSETNX p:allhashes #1 x"), int(0));
    assert_eq!(r.plain("HSETNX p:allhashes #3000 theirs"), int(1));
    assert_eq!(
        r.plain("HSETNX p:h:theirs #3000 '0 20260319102015000 https://e/ 1000'"),
        int(1)
    );
    assert_eq!(r.plain("HGET p:h:a #1"), c.plain("HGET p:h:a #1"));
    for (key, entries) in [("p:allhashes", 411), ("p:h:a", 300), ("p:h:theirs", 11)] {
        assert_eq!(scanned(r.wire(), key, &[], || {}).len(), entries, "{key}");
    }
    r.assert_consistent();
}

#[test]
fn promoted_replica_packs_what_the_lost_master_did_not_pack() {
    let (mut server, mut c) = DedupeIndex::on(served(), P);
    let replica = served().replica_of(&server).start();
    fill(&mut c);
    c.ok("PACK");
    until_served(c.wire(), "p:allhashes");
    server.wait_for_replica_offset(&replica);
    let mut r = DedupeIndex::of(&replica, P);
    until_served(r.wire(), "p:allhashes");
    // Afterwards, no server has a reason to pack anything.
    until_packed(&mut c, "first", 1000..1010);
    commit_unpacked(&mut c, "second", 2000..2010);
    server.wait_for_replica_offset(&replica);
    server.kill9();
    assert_eq!(r.plain("EXISTS p:h:second"), int(1));
    ok!(r, "REPLICAOF", "NO", "ONE");
    until("the second crawl is packed", || {
        r.plain("EXISTS p:h:second") == int(0)
    });
    assert_eq!(r.plain("HLEN p:h:second"), int(10));
    assert_eq!(r.owners([1000, 2009]), ["first", "second"]);
}

#[test]
fn index_is_served_where_its_slot_went() {
    const P: &str = "{coll-42}:";
    let cluster = Cluster::with(2, served().packed());
    let owner = cluster.owner(P);
    let other = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != owner.port());
    let other = other.expect("two nodes");
    let mut c = DedupeIndex::of(owner, P);
    c.committed("a", 0..50);
    until_served(c.wire(), "{coll-42}:allhashes");
    assert_eq!(c.plain("HGET {coll-42}:allhashes #1"), bulk("a"));
    cluster.move_slot(P, other);
    let mut c = DedupeIndex::of(other, P);
    until_served(c.wire(), "{coll-42}:allhashes");
    assert_eq!(c.plain("HGET {coll-42}:allhashes #1"), bulk("a"));
    assert_eq!(c.plain("HLEN {coll-42}:h:a"), int(50));
    assert_eq!(c.plain("HSETNX {coll-42}:allhashes #60 b"), int(1));
    let mut old = DedupeIndex::of(owner, P);
    assert!(refusal(&mut old, "HGET {coll-42}:allhashes #1").starts_with("MOVED"));
}

#[test]
fn records_are_packed_where_the_slot_of_their_index_went() {
    const P: &str = "{coll-42}:";
    let cluster = Cluster::with(2, served().packed());
    let owner = cluster.owner(P);
    let others = cluster.nodes().iter();
    let mut others = others.filter(|node| node.port() != owner.port());
    let other = others.next().expect("two nodes");
    // Both nodes serve an index, and have no reason to pack anything.
    let ids = (0..).map(|n| format!("{{other-{n}}}:"));
    let mut there = ids.filter(|prefix| cluster.owner(prefix).port() == other.port());
    let there = there.next().expect("many slots");
    for (node, prefix) in [(other, &there[..]), (owner, P)] {
        let mut c = DedupeIndex::of(node, prefix);
        c.committed("a", 0..50);
        until_served(c.wire(), &format!("{prefix}allhashes"));
        until_packed(&mut c, "first", 100..110);
    }
    commit_unpacked(&mut DedupeIndex::of(owner, P), "second", 200..210);
    cluster.move_slot(P, other);
    let mut c = DedupeIndex::of(other, P);
    until("the records are packed", || {
        c.plain("EXISTS {coll-42}:h:second") == int(0)
    });
    assert_eq!(c.plain("HLEN {coll-42}:h:second"), int(10));
    assert_eq!(c.owners([1, 105, 205]), ["a", "first", "second"]);
}

#[test]
fn deletion_of_committed_records_removes_nothing() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    for command in ["DEL", "UNLINK"] {
        assert_eq!(c.plain(format!("{command} p:h:a")), int(0));
        assert_eq!(c.plain("HLEN p:h:a"), int(300));
        assert_eq!(c.owners([1, 250]), ["a", "a"]);
    }
    c.assert_consistent();
}

#[test]
fn permissions_are_those_of_the_renamed_command() {
    let (server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    let user = |rules: &[&str]| {
        let words = [&["ACL", "SETUSER", "u", "reset", "on", "nopass"], rules].concat();
        server.wire().expect_ok(&words);
        let mut wire = server.wire();
        ok!(wire, "AUTH", "u", "x");
        wire
    };
    let hash = sha256_of(1);
    let get = |wire: &mut Wire, key: &str| wire.call(&["HGET", key, &hash]);
    let denied = |reply: &Reply| matches!(reply, Reply::Error(text) if text.starts_with(b"NOPERM"));
    let mut native = user(&["+hget", "~p:*"]);
    assert!(denied(&get(&mut native, "p:allhashes")));
    let mut both = user(&["+hget", "+dedupe.hget", "~p:allhashes"]);
    assert_eq!(get(&mut both, "p:allhashes"), bulk("a"));
    assert!(denied(&get(&mut both, "p:h:a")));
    let mut reader = user(&["+dedupe.hsetnx", "%R~p:*"]);
    let set = reader.call(&["HSETNX", "p:allhashes", "x", "y"]);
    assert!(denied(&set), "{set:?}");
    assert_eq!(c.plain("HGET p:allhashes x"), nil());
    let mut renamer = user(&["+rename", "+dedupe.rename", "~p:*"]);
    ok!(c, "SET", "p:mine", "1");
    let renamed = renamer.call(&["DEDUPE.RENAME", "p:mine", "theirs"]);
    assert!(denied(&renamed), "{renamed:?}");
    ok!(renamer, "DEDUPE.RENAME", "p:mine", "p:new");
    let mut renamer = user(&["+dedupe.renamenx", "~p:*"]);
    let renamed = renamer.call(&["DEDUPE.RENAMENX", "p:new", "theirs"]);
    assert!(denied(&renamed), "{renamed:?}");
    for (from, to, renamed) in [("p:new", "p:newer", 1), ("p:newer", "p:allcrawls", 0)] {
        assert_eq!(renamer.call(&["DEDUPE.RENAMENX", from, to]), int(renamed));
    }
}

#[test]
fn full_server_refuses_new_fields() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    c.plain("CONFIG SET maxmemory 1");
    assert!(refusal(&mut c, "HSETNX p:allhashes #3000 a").starts_with("OOM"));
    assert_eq!(c.plain("HGET p:allhashes #1"), bulk("a"));
}

#[test]
fn watching_and_listening_clients_notice_a_new_owner() {
    let (server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    ok!(c, "CONFIG", "SET", "notify-keyspace-events", "KEA");
    let mut listener = server.wire();
    let listening = ["SUBSCRIBE", "__keyspace@0__:p:allhashes"];
    assert_eq!(listener.call(&listening).items()[0], bulk("subscribe"));
    let mut watcher = server.wire();
    ok!(watcher, "WATCH", "p:allhashes");
    assert_eq!(c.plain("HSETNX p:allhashes #1 x"), int(0));
    assert_eq!(c.plain("HSETNX p:allhashes #3000 x"), int(1));
    assert_eq!(listener.recv().items()[2], bulk("hset"));
    ok!(watcher, "MULTI");
    ok!(watcher, "PING");
    assert_eq!(watcher.call(&["EXEC"]), nil());
}

#[test]
fn caching_clients_are_told_about_the_keys_that_they_read() {
    let (server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    let hash = sha256_of(1);
    for (key, change) in [
        ("p:allhashes", "HSETNX p:allhashes #3000 x"),
        (
            "p:h:a",
            "HSETNX p:h:a #3000 '0 20260319102015000 https://e/ 1000'",
        ),
    ] {
        let mut caching = server.wire3();
        ok!(caching, "CLIENT", "TRACKING", "ON");
        assert!(!ok!(caching, "HGET", key, &hash).is_nil());
        assert_eq!(c.plain(change), int(1));
        let push = caching.next_push();
        let [kind, keys] = push.items() else {
            panic!("{push:?}");
        };
        assert_eq!(
            (kind.text(), keys.texts()),
            ("invalidate".into(), vec![key.to_owned()])
        );
    }
}

#[test]
fn waiting_claim_is_answered_when_a_plain_client_stores_the_payload() {
    let (_server, mut c) = index_on(served());
    until_served(c.wire(), "p:allhashes");
    ok!(c, "SADD", "p:allcrawls", "running");
    c.ok("CLAIM open #3000 PX 3600000");
    let mut waiting = c.blocked("CLAIM open #3000 PX 1000 BLOCK 0");
    let record = "0 20260319102015000 https://e/ 1000";
    ok!(c, "HSETNX", "p:h:running", sha256_of(3000), record);
    ok!(c, "HSETNX", "p:allhashes", sha256_of(3000), "running");
    assert_eq!(waiting.recv().items()[0], bulk("DUPE"));
}
