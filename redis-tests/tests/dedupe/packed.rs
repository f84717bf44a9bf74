//! PACK and UNPACK: what goes in comes out.

use redis_tests::{
    Crawl, Options, Reply, Server, Wire, Word, array, assert_consistent, bulk, change_storage,
    commit, err, int, moved, ok, plain_view, record_of, replies_of, sha256_of, small_index,
    storage_of,
};

const P: &str = "{coll-42}:";

/// New indexes are plain there until somebody packs them.
fn plain_server() -> Server {
    Options::new().plain().start()
}

/// Fields as anybody may have written them.
fn odd_fields() -> Vec<Vec<u8>> {
    let hex = "0123456789abcdef".repeat(4);
    let base32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut fields: Vec<Vec<u8>> = Vec::new();
    for name in [
        "", "sha256:", "sha-256:", "SHA256:", "SHA-256:", "Sha256:", "sha1:", "md5:", "x:",
    ] {
        for digits in [
            &hex[..],
            &hex[..40],
            &hex[..32],
            &hex[..31],
            &hex[..33],
            base32,
        ] {
            fields.push(format!("{name}{digits}").into_bytes());
            fields.push(format!("{name}{}", digits.to_uppercase()).into_bytes());
            fields.push(format!("{name}{}", digits.to_lowercase()).into_bytes());
            fields.push(format!("{name}{}G", &digits[1..]).into_bytes());
            fields.push(format!("{name}{} ", &digits[1..]).into_bytes());
        }
    }
    fields.extend([
        vec![],
        b"\0".to_vec(),
        b"\xff\r\n".to_vec(),
        vec![b'x'; 70_000],
    ]);
    fields.extend((0..=u8::MAX).map(|byte| vec![byte; 16]));
    fields.sort();
    fields.dedup();
    fields
}

/// Values as anybody may have written them: records of every form, and what is none.
fn odd_values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = Vec::new();
    let dates = [
        "20260319102015",
        "20260319102015123",
        "00000000000000",
        "99999999999999",
        "99991231235959999",
        "20260230250000",
        "2026-03-19T10:20:15.123Z",
        "2026-03-19T10:20:15+01:00",
        "",
        "x",
    ];
    for date in dates {
        for wacz in [
            "0",
            "1",
            "255",
            "256",
            "65536",
            "007",
            "-1",
            "+1",
            "18446744073709551616",
            "",
        ] {
            for size in [
                "0",
                "1",
                "127",
                "1003",
                "4294967296",
                "007",
                "9223372036854775808",
                "-5",
                "",
            ] {
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
    values.extend([
        b"0 1 2".to_vec(),
        b"0  20260319102015 u 5".to_vec(),
        vec![0; 300],
    ]);
    values.extend((0..=u8::MAX).map(|byte| vec![byte]));
    values
}

/// Writes all of it as plain clients do: owners that exist or not, records that are some or not.
fn odd_index(c: &mut Wire, p: &str, merged: &str) {
    small_index(c, p);
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
    // Every value under a field of its own.
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
fn unpack_gives_the_plain_keys_back_byte_for_byte() {
    let server = plain_server();
    let mut c = server.wire();
    for p in [P, "", "p\r\n\0:"] {
        for (profile, merged) in [("document", "allhashes"), ("browsertrix", "alldupes")] {
            ok!(c, "FLUSHALL");
            ok!(c, "DEDUPE.PROFILE", p, profile);
            odd_index(&mut c, p, merged);
            let before = server.snapshot().without_storage();
            let fields = ok!(c, "HLEN", format!("{p}{merged}")).int();
            let committed = ["a", "b", "odd\r\n\0"].map(|id| format!("{p}h:{id}"));
            let packed = change_storage(&mut c, "DEDUPE.PACK", p);
            assert_eq!((packed.0.as_str(), packed.1), ("packed", fields));
            assert_eq!(ok!(c, "TYPE", format!("{p}{merged}")).text(), "crawlpack");
            assert_eq!(
                ok!(c, "EXISTS", format!("{p}holders"), format!("{p}moving")),
                int(0)
            );
            assert_eq!(ok!(c, "EXISTS", &committed[0], &committed[2]), int(0));
            // What is not of the committed part stays as it is.
            let moved = |key: &[u8]| {
                let hashes = [format!("{p}{merged}"), format!("{p}holders")];
                let mut moved = committed.iter().chain(&hashes);
                moved.any(|name| name.as_bytes() == key)
            };
            let (rest, was) = (server.snapshot().without_storage(), before.clone());
            rest.without(moved)
                .assert_same(&was.without(moved), "the rest");
            plain_view(&mut c, p)
                .without_storage()
                .assert_same(&before, "a copy that was unpacked");
            assert_eq!(
                change_storage(&mut c, "DEDUPE.PACK", p),
                ("packed".into(), 0, 0)
            );
            let unpacked = change_storage(&mut c, "DEDUPE.UNPACK", p);
            assert_eq!(unpacked, ("plain".into(), packed.1, packed.2));
            let after = server.snapshot().without_storage();
            after.assert_same(&before, "PACK and UNPACK");
            assert_eq!(
                change_storage(&mut c, "DEDUPE.UNPACK", p),
                ("plain".into(), 0, 0)
            );
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn replies_are_the_same_before_and_after() {
    let server = plain_server();
    let mut c = server.wire();
    small_index(&mut c, P);
    let before = replies_of(&mut c, P);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK", "DEDUPE.PACK"] {
        ok!(c, name, P);
        assert_eq!(replies_of(&mut c, P), before, "after {name}");
    }
    assert_consistent(&mut c, P);
}

#[test]
fn stats_name_the_storage() {
    let server = plain_server();
    let mut c = server.wire();
    assert_eq!(storage_of(&mut c, P), "plain");
    small_index(&mut c, P);
    let plain = ok!(c, "DEDUPE.STATS", P).field("memory").int();
    ok!(c, "DEDUPE.PACK", P);
    assert_eq!(storage_of(&mut c, P), "packed");
    assert!(ok!(c, "DEDUPE.STATS", P).field("memory").int() > 0 && plain > 0);
    ok!(c, "DEDUPE.UNPACK", P);
    assert_eq!(storage_of(&mut c, P), "plain");
}

#[test]
fn transactions_and_scripts_change_the_storage_at_once() {
    let server = plain_server();
    let mut c = server.wire();
    small_index(&mut c, P);
    Crawl::of(P, "large", 1000..25_000).add(&mut c);
    commit(&mut c, P, "large");
    let before = server.snapshot().without_storage();
    let expected = replies_of(&mut c, P);
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.PACK", P);
    ok!(c, "DEDUPE.LOOKUP", P, sha256_of(1));
    ok!(c, "DEDUPE.UNPACK", P);
    ok!(c, "DEDUPE.PACK", P);
    let inside = ok!(c, "EXEC");
    let inside = inside.items();
    assert_eq!(moved(&inside[0]), ("packed".into(), 24_030, 24_040));
    assert_eq!(inside[1], array([record_of("a", 1)]));
    assert_eq!(moved(&inside[2]), ("plain".into(), 24_030, 24_040));
    assert_eq!(replies_of(&mut c, P), expected);
    let script = "return redis.call(ARGV[1], KEYS[1])";
    let reply = ok!(c, "EVAL", script, 1, P, "DEDUPE.UNPACK");
    assert_eq!(moved(&reply), ("plain".into(), 24_030, 24_040));
    let after = server.snapshot().without_storage();
    after.assert_same(&before, "in a transaction and a script");
    let reply = ok!(c, "EVAL", script, 1, P, "DEDUPE.PACK");
    assert_eq!(moved(&reply), ("packed".into(), 24_030, 24_040));
    assert!(err!(c, "EVAL_RO", script, 1, P, "DEDUPE.UNPACK").contains("read-only"));
}

#[test]
fn resp3_replies_are_maps() {
    let server = plain_server();
    let (mut two, mut three) = (server.wire(), server.wire3());
    small_index(&mut two, P);
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let (rich, flat) = (ok!(three, name, P), ok!(two, name, P));
        assert!(matches!(rich, Reply::Map(_)), "{rich:?}");
        let names = |reply: &Reply| -> Vec<Reply> {
            reply.pairs().into_iter().map(|(name, _)| name).collect()
        };
        assert_eq!(
            names(&rich),
            ["storage", "hashes", "records", "memory"].map(bulk)
        );
        assert_eq!(names(&rich), names(&flat));
    }
}
