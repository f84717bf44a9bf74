//! A dump or file of a packed index that was damaged, or made by somebody who means harm, is refused.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redis_tests::payload::{Payload, crc64, sealed};
use redis_tests::{Options, Server, Wire, add, cmd, commit, indexed, int, ok, owners};

const P: &str = "p:";
const KEY: &str = "p:allhashes";

/// A small index, and its dump.
fn packed(c: &mut Wire, hashes: u64) -> Vec<u8> {
    ok!(c, "CONFIG", "SET", "rdbcompression", "no");
    ok!(c, "HSET", "p:h:odd", "\u{ff}", "", "", "x");
    ok!(c, "HSET", KEY, "\u{ff}", "odd", "no record", "odd");
    ok!(c, "SADD", "p:allcrawls", "odd");
    for (crawl, first) in [("a", 0), ("b", 1)] {
        add(c, P, crawl, first..first + hashes);
        commit(c, P, crawl);
    }
    ok!(c, "DEDUPE.PACK", P);
    ok!(c, "DUMP", KEY).bytes().to_vec()
}

fn digest(c: &mut Wire, key: &str) -> String {
    ok!(c, "DEBUG", "DIGEST-VALUE", key).texts().remove(0)
}

/// The value is as it was, and nothing is broken.
#[track_caller]
fn assert_unharmed(server: &mut Server, c: &mut Wire, before: &str) {
    assert!(server.is_alive());
    assert_eq!(server.info_number("panics"), 0);
    assert_eq!(digest(c, KEY), before);
    assert_eq!(owners(c, P, [0, 1]), ["a", "a"]);
    // Two owners without records are what there was.
    let findings = ok!(c, "DEDUPE.CHECK", P);
    assert_eq!(findings.field("danglingOwners"), int(2), "{findings:?}");
    assert_eq!(findings.field("missingHashes"), int(0), "{findings:?}");
}

#[test]
fn checksum_of_a_dump_is_the_one_that_redis_makes() {
    assert_eq!(crc64(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    let server = Options::new().plain().start();
    let mut c = server.wire();
    let dump = packed(&mut c, 5);
    assert_eq!(sealed(dump.clone()), dump);
    let again = Payload::of(&dump).dump();
    ok!(c, "RESTORE", "again", 0, again);
    assert_eq!(digest(&mut c, "again"), digest(&mut c, KEY));
}

#[test]
fn missing_repeated_swapped_and_foreign_chunks_are_refused() {
    let mut server = Options::new().plain().start();
    let mut c = server.wire();
    let dump = packed(&mut c, 40_000);
    let before = digest(&mut c, KEY);
    let good = Payload::of(&dump);
    // Of another value, with the same number of chunks.
    add(&mut c, P, "a", [900_000]);
    commit(&mut c, P, "a");
    let foreign = Payload::of(ok!(c, "DUMP", KEY).bytes());
    ok!(c, "RESTORE", KEY, 0, &dump, "REPLACE");
    let n = good.chunks.len();
    assert!(n >= 3, "{n} chunks");
    let mut refused = |payload: Payload, what: String| {
        let line = c.expect_error(&[
            b"RESTORE".to_vec(),
            b"other".to_vec(),
            b"0".to_vec(),
            payload.dump(),
            b"REPLACE".to_vec(),
        ]);
        assert!(line.contains("Bad data format"), "{what}: {line}");
    };
    for i in 0..n {
        let mut payload = good.clone();
        payload.chunks.remove(i);
        refused(payload, format!("without chunk {i}"));
        let mut payload = good.clone();
        payload.chunks.truncate(i);
        refused(payload, format!("{i} chunks only"));
        let mut payload = good.clone();
        payload.chunks.insert(i, good.chunks[i].clone());
        refused(payload, format!("chunk {i} twice"));
        let mut payload = good.clone();
        payload.chunks[i].clear();
        refused(payload, format!("chunk {i} empty"));
        for j in 0..i {
            let mut payload = good.clone();
            payload.chunks.swap(i, j);
            refused(payload, format!("chunks {i} and {j} swapped"));
        }
        if i < foreign.chunks.len() && good.chunks[i] != foreign.chunks[i] {
            let mut payload = good.clone();
            payload.chunks[i] = foreign.chunks[i].clone();
            refused(payload, format!("chunk {i} of another value"));
        }
    }
    let mut payload = good.clone();
    payload.chunks.extend(good.chunks.clone());
    refused(payload, "all twice".to_string());
    let mut empty = good.clone();
    empty.chunks.clear();
    refused(empty, "no chunk at all".to_string());
    for version in [2, 3, 1023] {
        refused(
            good.clone().of_version(version),
            format!("version {version}"),
        );
    }
    assert!(
        server
            .log()
            .contains("version 2 is newer than this module reads (1)")
    );
    assert_unharmed(&mut server, &mut c, &before);
}

#[test]
fn truncated_and_damaged_files_are_refused_at_the_start() {
    let mut server = Options::new().plain().rdb().start();
    let mut c = server.wire();
    packed(&mut c, 3_000);
    let before = digest(&mut c, KEY);
    ok!(c, "SAVE");
    server.kill9();
    let path = server.dir().join("dump.rdb");
    let whole = std::fs::read(&path).expect("a saved file");
    // Where the value is, whatever else is in the file.
    let mut bad = vec![whole[..whole.len() / 2].to_vec()];
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 0x10;
    let end = damaged.len() - 8;
    let crc = crc64(&damaged[..end]);
    damaged[end..].copy_from_slice(&crc.to_le_bytes());
    bad.push(damaged);
    for bytes in bad {
        std::fs::write(&path, bytes).expect("the directory is writable");
        let started = catch_unwind(AssertUnwindSafe(|| server.restart()));
        assert!(started.is_err(), "a server with a bad file does not start");
    }
    assert!(server.log().contains("packed index"), "{}", server.log());
    std::fs::write(&path, whole).expect("the directory is writable");
    server.restart();
    let mut c = server.wire();
    assert_unharmed(&mut server, &mut c, &before);
}

#[test]
fn internal_chunks_are_not_for_clients() {
    let mut server = Options::new().plain().start();
    let mut c = server.wire();
    let payload = Payload::of(&packed(&mut c, 10));
    let before = digest(&mut c, KEY);
    let chunk = &payload.chunks[0];
    for words in [
        &[&b"crawlspace.packed"[..]][..],
        &[b"crawlspace.packed", b"k"],
        &[b"crawlspace.packed", b"k", b"CHUNK"],
        &[b"crawlspace.packed", b"k", b"CHUNK", b""],
        &[b"crawlspace.packed", b"k", b"CHUNK", b"garbage"],
        &[b"crawlspace.packed", b"k", b"NOTHING", chunk],
        &[b"crawlspace.packed", KEY.as_bytes(), b"CHUNK", chunk],
    ] {
        assert!(c.call(words).is_error(), "{words:?}");
    }
    assert_eq!(ok!(c, "EXISTS", "k").int(), 0);
    let script = "return redis.call('crawlspace.packed', 'k', 'CHUNK', 'x')";
    assert!(cmd!(c, "EVAL", script, 0).is_error());
    assert_unharmed(&mut server, &mut c, &before);
}

#[test]
fn a_value_whose_chunks_are_not_all_there_can_be_used() {
    let server = Options::new().plain().start();
    let mut c = server.wire();
    let payload = Payload::of(&packed(&mut c, 40_000));
    let whole = indexed(&mut c, P);
    let chunk = |i: usize| {
        [
            &b"crawlspace.packed"[..],
            KEY.as_bytes(),
            b"CHUNK",
            &payload.chunks[i],
        ]
    };
    ok!(c, "DEL", KEY);
    c.expect_ok(&chunk(0));
    let some = indexed(&mut c, P);
    assert!(some > 0 && some < whole, "{some} of {whole}");
    // A chunk that does not belong here changes nothing.
    let before = digest(&mut c, KEY);
    for words in [&chunk(0), &chunk(2)] {
        assert!(
            c.expect_error(words)
                .contains("out of order: chunk 1 is expected")
        );
    }
    assert_eq!(digest(&mut c, KEY), before);
    add(&mut c, P, "new", 50_000..50_010);
    assert_eq!(commit(&mut c, P, "new"), (10, 0));
    assert_eq!(owners(&mut c, P, [50_005]), ["new"]);
    let line = c.expect_error(&chunk(1));
    assert!(line.contains("follows a change of the value"), "{line}");
    let before = digest(&mut c, KEY);
    ok!(c, "DEBUG", "RELOAD");
    assert_eq!(digest(&mut c, KEY), before);
    assert_eq!(indexed(&mut c, P), some + 10);
    // And all of them in their order are the value.
    ok!(c, "DEL", KEY);
    for i in 0..payload.chunks.len() {
        c.expect_ok(&chunk(i));
    }
    assert_eq!(indexed(&mut c, P), whole);
    assert!(
        c.expect_error(&chunk(0))
            .contains("the key has a value already")
    );
    assert_eq!(server.info_number("panics"), 0);
}
