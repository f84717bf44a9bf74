//! Tests that damaged or malicious dumps and files of a packed index are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_tests::payload::{Payload, crc64, sealed};
use redis_tests::{DedupeIndex, Options, Server, assert_contains, assert_error, cmd, ok};

const P: &str = "p:";
const KEY: &str = "p:packedhashes";

/// Creates a small index and returns its dump.
fn packed(c: &mut DedupeIndex, hashes: u64) -> Vec<u8> {
    c.plain("CONFIG SET rdbcompression no");
    c.plain("HSET p:h:odd \u{ff} '' '' x");
    ok!(
        c,
        "HSET",
        "p:allhashes",
        "\u{ff}",
        "odd",
        "no record",
        "odd"
    );
    c.plain("SADD p:allcrawls odd");
    for (crawl, first) in [("a", 0), ("b", 1)] {
        c.committed(crawl, first..first + hashes);
    }
    c.ok("PACK");
    ok!(c, "DUMP", KEY).bytes().to_vec()
}

fn digest(c: &mut DedupeIndex, key: &str) -> String {
    let digests = c.plain(format!("DEBUG DIGEST-VALUE {key}"));
    digests.texts().remove(0)
}

/// Fails unless the value is unchanged and the index is consistent.
#[track_caller]
fn assert_unharmed(server: &mut Server, c: &mut DedupeIndex, before: &str) {
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
    assert_eq!(digest(c, KEY), before);
    assert_eq!(c.owners([0, 1]), ["a", "a"]);
    // Two owners without records existed before.
    c.tells("CHECK", "danglingOwners 2 missingHashes 0");
}

#[test]
fn checksum_of_a_dump_is_the_one_that_redis_makes() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let (_server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let dump = packed(&mut c, 5);
    assert_eq!(sealed(dump.clone()), dump);
    let again = Payload::of(&dump).dump();
    ok!(c, "RESTORE", "again", 0, again);
    assert_eq!(digest(&mut c, "again"), digest(&mut c, KEY));
}

#[test]
fn missing_repeated_swapped_and_foreign_chunks_are_refused() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let dump = packed(&mut c, 40_000);
    let before = digest(&mut c, KEY);
    let good = Payload::of(&dump);
    // Create the dump of another value with the same number of chunks.
    c.committed("a", [900_000]);
    let foreign = Payload::of(ok!(c, "DUMP", KEY).bytes());
    ok!(c, "RESTORE", KEY, 0, &dump, "REPLACE");
    let n = good.chunks.len();
    assert!(n >= 3, "{n} chunks");
    let mut refused = |payload: Payload, what: String| {
        let reply = cmd!(c.wire(), "RESTORE", "other", 0, payload.dump(), "REPLACE");
        assert_error(&reply, "ERR Bad data format", &what);
    };
    let changed = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut payload = good.clone();
        change(&mut payload.chunks);
        payload
    };
    for i in 0..n {
        let without = changed(&|chunks| drop(chunks.remove(i)));
        refused(without, format!("without chunk {i}"));
        let few = changed(&|chunks| chunks.truncate(i));
        refused(few, format!("{i} chunks only"));
        let twice = changed(&|chunks| chunks.insert(i, good.chunks[i].clone()));
        refused(twice, format!("chunk {i} twice"));
        let empty = changed(&|chunks| chunks[i].clear());
        refused(empty, format!("chunk {i} empty"));
        for j in 0..i {
            let swapped = changed(&|chunks| chunks.swap(i, j));
            refused(swapped, format!("chunks {i} and {j} swapped"));
        }
        if i < foreign.chunks.len() && good.chunks[i] != foreign.chunks[i] {
            let of_another = changed(&|chunks| chunks[i].clone_from(&foreign.chunks[i]));
            refused(of_another, format!("chunk {i} of another value"));
        }
    }
    let twice = changed(&|chunks| chunks.extend_from_within(..));
    refused(twice, "all twice".to_owned());
    refused(changed(&|chunks| chunks.clear()), "not a chunk".to_owned());
    for version in [1, 3, 1023] {
        let other = good.clone().of_version(version);
        refused(other, format!("version {version}"));
    }
    let newer = "it has version 1; this module reads version 2";
    assert_contains(server.log(), newer);
    assert_unharmed(&mut server, &mut c, &before);
}

#[test]
fn truncated_and_damaged_files_are_refused_at_the_start() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().plain().rdb(), P);
    packed(&mut c, 3_000);
    let before = digest(&mut c, KEY);
    c.plain("SAVE");
    server.kill9();
    let path = server.dir().join("dump.rdb");
    let whole = std::fs::read(&path).expect("a saved file");
    // The position of the value does not depend on the rest of the file.
    let mut bad = vec![whole[..whole.len() / 2].to_vec()];
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x10;
    bad.push(sealed(damaged));
    for bytes in bad {
        std::fs::write(&path, bytes).expect("the directory is writable");
        let started = catch_unwind(AssertUnwindSafe(|| server.restart()));
        assert!(started.is_err(), "a server with a bad file does not start");
    }
    assert_contains(server.log(), "packed index");
    std::fs::write(&path, whole).expect("the directory is writable");
    server.restart();
    let mut c = DedupeIndex::of(&server, P);
    assert_unharmed(&mut server, &mut c, &before);
}

#[test]
fn internal_chunks_are_not_for_clients() {
    let (mut server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let payload = Payload::of(&packed(&mut c, 10));
    let before = digest(&mut c, KEY);
    let chunk = &payload.chunks[0];
    for words in [
        &[][..],
        &[&b"k"[..]],
        &[b"k", b"CHUNK"],
        &[b"k", b"CHUNK", b""],
        &[b"k", b"CHUNK", b"garbage"],
        &[b"k", b"NOTHING", chunk],
        &[KEY.as_bytes(), b"CHUNK", chunk],
    ] {
        let words = [&[&b"crawlspace.packed"[..]], words].concat();
        c.expect_error(&words);
    }
    assert_eq!(c.plain("EXISTS k").int(), 0);
    let script = "return redis.call('crawlspace.packed', 'k', 'CHUNK', 'x')";
    assert!(cmd!(c.wire(), "EVAL", script, 0).is_error());
    assert_unharmed(&mut server, &mut c, &before);
}

#[test]
fn an_incomplete_value_can_be_used() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    let payload = Payload::of(&packed(&mut c, 40_000));
    let whole = c.indexed();
    let chunk = |c: &mut DedupeIndex, i: usize| {
        cmd!(
            c.wire(),
            "crawlspace.packed",
            KEY,
            "CHUNK",
            &payload.chunks[i]
        )
    };
    ok!(c, "DEL", KEY);
    assert!(!chunk(&mut c, 0).is_error());
    let some = c.indexed();
    assert!(some > 0 && some < whole, "{some} of {whole}");
    // A chunk that belongs to another value changes nothing.
    let before = digest(&mut c, KEY);
    for i in [0, 2] {
        let reply = chunk(&mut c, i);
        assert_contains(format!("{reply:?}"), "out of order: chunk 1 is expected");
    }
    assert_eq!(digest(&mut c, KEY), before);
    assert_eq!(c.committed("new", 50_000..50_010), (10, 0));
    assert_eq!(c.owners([50_005]), ["new"]);
    let reply = chunk(&mut c, 1);
    assert_contains(format!("{reply:?}"), "arrived after the value was changed");
    let before = digest(&mut c, KEY);
    c.plain("DEBUG RELOAD");
    assert_eq!(digest(&mut c, KEY), before);
    assert_eq!(c.indexed(), some + 10);
    // Loading all chunks in order results in the value.
    ok!(c, "DEL", KEY);
    for i in 0..payload.chunks.len() {
        assert!(!chunk(&mut c, i).is_error());
    }
    assert_eq!(c.indexed(), whole);
    let reply = chunk(&mut c, 0);
    assert_contains(format!("{reply:?}"), "the key has a value already");
    assert_eq!(server.info_number("panics"), 0);
}
