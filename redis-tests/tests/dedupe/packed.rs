//! Tests that `PACK` and `UNPACK` neither lose nor change data.

use redis_tests::{
    DedupeIndex, Options, Word, array, err, int, moved, ok, record_of, replies_of, sha256_of,
    small_index,
};

const P: &str = "{coll-42}:";

/// Returns unusual fields that any client might have written.
fn odd_fields() -> Vec<Vec<u8>> {
    let hex = "0123456789abcdef".repeat(4);
    let base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut fields: Vec<Vec<u8>> = Vec::new();
    let lengths = [&hex[..], &hex[..40], &hex[..32], &hex[..31], &hex[..33]];
    for name in " sha256: sha-256: SHA256: SHA-256: Sha256: sha1: md5: x:".split(' ') {
        for digits in lengths.into_iter().chain([base32]) {
            fields.push(format!("{name}{digits}").into_bytes());
            fields.push(format!("{name}{}", digits.to_uppercase()).into_bytes());
            fields.push(format!("{name}{}", digits.to_lowercase()).into_bytes());
            fields.push(format!("{name}{}G", &digits[1..]).into_bytes());
            fields.push(format!("{name}{} ", &digits[1..]).into_bytes());
        }
    }
    let odd: [&[u8]; 4] = [b"", b"\0", b"\xff\r\n", &[b'x'; 70_000]];
    fields.extend(odd.map(<[u8]>::to_vec));
    fields.extend((0..=u8::MAX).map(|byte| vec![byte; 16]));
    fields.sort();
    fields.dedup();
    fields
}

/// Returns unusual values that any client might have written: records of every form, and invalid
/// ones.
fn odd_values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = Vec::new();
    let dates = "20260319102015 20260319102015123 00000000000000 99999999999999 99991231235959999 \
                 20260230250000 2026-03-19T10:20:15.123Z 2026-03-19T10:20:15+01:00  x";
    let waczs = "0 1 255 256 65536 007 -1 +1 18446744073709551616 ";
    let sizes = "0 1 127 1003 4294967296 007 9223372036854775808 -5 ";
    for date in dates.split(' ') {
        for wacz in waczs.split(' ') {
            for size in sizes.split(' ') {
                values.push(format!("{wacz} {date} http://e.com/{size} {size}").into_bytes());
            }
        }
    }
    let urls: [&[u8]; 10] = [
        b"",
        b" ",
        b"http://e.com/with raw  spaces 7",
        b"http://\xff\0\r\n/",
        b"https://example.org",
        b"http://example.org:8080/path/../x?q=1#f",
        b"urn:uuid:0123456789",
        b"HTTP://E.COM/A%20B",
        b"http:///",
        &[b'u'; 100_000],
    ];
    for url in urls {
        values.push([b"3 20260319102015123 ", url, b" 1003"].concat());
        values.push(url.to_vec());
    }
    let odd: [&[u8]; 3] = [b"0 1 2", b"0  20260319102015 u 5", &[0; 300]];
    values.extend(odd.map(<[u8]>::to_vec));
    values.extend((0..=u8::MAX).map(|byte| vec![byte]));
    values
}

/// Writes all unusual fields and values as plain clients do, with existing and missing owners, and
/// valid and invalid records.
fn odd_index(c: &mut DedupeIndex, merged: &str) {
    let p = c.prefix().to_owned();
    small_index(c, &p);
    let (fields, values) = (odd_fields(), odd_values());
    let owners: [&[u8]; 6] = [b"a", b"b", b"odd\r\n\0", b"nobody", b"", b"\xff"];
    let mut commands: Vec<Vec<Vec<u8>>> = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let owner = owners[i % owners.len()].to_vec();
        let name = format!("{p}{merged}").into_bytes();
        if i % 7 != 0 {
            commands.push(vec!["HSET".word(), name, field.clone(), owner]);
        }
        for (j, crawl) in [&b"a"[..], b"odd\r\n\0"].into_iter().enumerate() {
            let records = [p.as_bytes(), b"h:", crawl].concat();
            let value = values[(i * 2 + j) % values.len()].clone();
            commands.push(vec!["HSET".word(), records, field.clone(), value]);
        }
        if i % 5 == 0 {
            let numbers = ["1", "2 1", "1 2 3", "x", "", "18446744073709551616"][i % 6];
            let holders = format!("{p}holders").into_bytes();
            commands.push(vec!["HSET".word(), holders, field.clone(), numbers.word()]);
        }
    }
    // Write every value under its own field.
    for (n, value) in (0..).zip(&values) {
        let records = format!("{p}h:b").into_bytes();
        let field = sha256_of(1_000_000 + n).into_bytes();
        commands.push(vec!["HSET".word(), records, field, value.clone()]);
    }
    let crawls = format!("{p}allcrawls").into_bytes();
    commands.push(vec!["SADD".word(), crawls, b"odd\r\n\0".to_vec()]);
    for reply in c.pipeline(commands) {
        assert!(!reply.is_error(), "{reply:?}");
    }
}

#[test]
fn unpack_restores_the_plain_keys_byte_for_byte() {
    let server = Options::new().plain().start();
    for p in [P, "", "p\r\n\0:"] {
        for (profile, merged) in [("document", "allhashes"), ("browsertrix", "alldupes")] {
            let mut c = DedupeIndex::of(&server, p);
            c.plain("FLUSHALL");
            c.ok(format!("PROFILE {profile}"));
            odd_index(&mut c, merged);
            let before = server.snapshot().without_storage();
            let fields = c.plain(format!("HLEN {p}{merged}")).int();
            let committed = ["a", "b", "odd\r\n\0"].map(|id| format!("{p}h:{id}"));
            let packed = c.change("PACK");
            assert_eq!((packed.0.as_str(), packed.1), ("packed", fields));
            assert_eq!(c.plain(format!("TYPE {p}{merged}")).text(), "crawlmark");
            assert_eq!(c.plain(format!("TYPE {p}packedhashes")).text(), "crawlpack");
            assert_eq!(c.plain(format!("EXISTS {p}holders {p}moving")), int(0));
            assert_eq!(ok!(c, "EXISTS", &committed[0], &committed[2]), int(0));
            // Data outside of the committed part are unchanged.
            let moved = |key: &[u8]| {
                let hashes = ["packedhashes", merged, "holders"].map(|name| format!("{p}{name}"));
                let mut moved = committed.iter().chain(&hashes);
                moved.any(|name| name.as_bytes() == key)
            };
            let (rest, was) = (server.snapshot().without_storage(), before.clone());
            let rest = rest.without(moved);
            rest.assert_same(&was.without(moved), "the rest");
            let copy = c.plain_view();
            copy.assert_same(&before, "a copy that was unpacked");
            assert_eq!(c.change("PACK"), ("packed".into(), 0, 0));
            let unpacked = c.change("UNPACK");
            assert_eq!(unpacked, ("plain".into(), packed.1, packed.2));
            let after = server.snapshot().without_storage();
            after.assert_same(&before, "PACK and UNPACK");
            assert_eq!(c.change("UNPACK"), ("plain".into(), 0, 0));
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn replies_are_the_same_before_and_after() {
    let (_server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    small_index(&mut c, P);
    let before = replies_of(&mut c, P);
    for name in ["PACK", "UNPACK", "PACK"] {
        c.ok(name);
        assert_eq!(replies_of(&mut c, P), before, "after {name}");
    }
    c.assert_consistent();
}

#[test]
fn stats_name_the_storage() {
    let (_server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    assert_eq!(c.storage(), "plain");
    small_index(&mut c, P);
    let plain = c.ok("STATS").field("memory").int();
    c.ok("PACK");
    assert_eq!(c.storage(), "packed");
    assert!(c.ok("STATS").field("memory").int() > 0 && plain > 0);
    c.ok("UNPACK");
    assert_eq!(c.storage(), "plain");
}

#[test]
fn transactions_and_scripts_change_the_storage_at_once() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    small_index(&mut c, P);
    c.committed("large", 1000..25_000);
    let before = server.snapshot().without_storage();
    let expected = replies_of(&mut c, P);
    c.plain("MULTI");
    c.ok("PACK");
    c.ok("LOOKUP #1");
    c.ok("UNPACK");
    c.ok("PACK");
    let all = |storage: &str| (storage.to_owned(), 24_030, 24_040);
    let inside = c.plain("EXEC");
    let inside = inside.items();
    assert_eq!(moved(&inside[0]), all("packed"));
    assert_eq!(inside[1], array([record_of("a", 1)]));
    assert_eq!(moved(&inside[2]), all("plain"));
    assert_eq!(replies_of(&mut c, P), expected);
    let script = "return redis.call(ARGV[1], KEYS[1])";
    let reply = ok!(c, "EVAL", script, 1, P, "DEDUPE.UNPACK");
    assert_eq!(moved(&reply), all("plain"));
    let after = server.snapshot().without_storage();
    after.assert_same(&before, "in a transaction and a script");
    let reply = ok!(c, "EVAL", script, 1, P, "DEDUPE.PACK");
    assert_eq!(moved(&reply), all("packed"));
    assert!(err!(c, "EVAL_RO", script, 1, P, "DEDUPE.UNPACK").contains("read-only"));
}
