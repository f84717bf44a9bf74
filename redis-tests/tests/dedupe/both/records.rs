//! ADD, REVISIT and LOOKUP: spellings of a hash, odd bytes, exact counts.

use redis_tests::{
    DATE, DedupeIndex, Options, Reply, Rng, Server, Snapshot, Wire, Word, add, array, bulk, commit,
    counts, err, hash_key, int, nil, ok, plain_hash, plain_view, plainly, record_of, set_key,
    sha256_of, words_of,
};

const P: &str = "p:";
/// Digests of an empty payload.
const SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SHA1_BASE32: &str = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
const SHA1_HEX: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Spellings that mean the same hash, the written form of the `document` profile first.
fn spellings() -> Vec<Vec<String>> {
    vec![
        vec![
            format!("sha256:{SHA256}"),
            format!("sha-256:{SHA256}"),
            format!("sha256:{}", SHA256.to_uppercase()),
            format!("SHA256:{SHA256}"),
            SHA256.to_owned(),
            SHA256.to_uppercase(),
        ],
        vec![
            format!("sha1:{SHA1_BASE32}"),
            format!("sha1:{SHA1_HEX}"),
            format!("sha1:{}", SHA1_BASE32.to_lowercase()),
            SHA1_BASE32.to_owned(),
            SHA1_HEX.to_owned(),
            SHA1_HEX.to_uppercase(),
        ],
        vec![
            format!("md5:{MD5}"),
            format!("md5:{}", MD5.to_uppercase()),
            MD5.to_owned(),
            MD5.to_uppercase(),
        ],
    ]
}

fn add_one(c: &mut Wire, crawl: &str, hash: &str) -> i64 {
    ok!(
        c,
        "DEDUPE.ADD",
        P,
        crawl,
        hash,
        1,
        DATE,
        "http://e.com/",
        50
    )
    .int()
}

fn found(c: &mut Wire, hash: &str) -> bool {
    !ok!(c, "DEDUPE.LOOKUP", P, hash).items()[0].is_nil()
}

#[test]
fn every_spelling_means_the_same_hash_and_one_form_is_written() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for same in spellings() {
        for written in &same {
            ok!(c, "FLUSHALL");
            assert_eq!(add_one(&mut c, "a", written), 1, "{written}");
            for other in &same {
                assert_eq!(add_one(&mut c, "a", other), 0, "{written} and {other}");
            }
            let fields: Vec<String> = hash_key(&mut c, "p:h:a").into_keys().collect();
            assert_eq!(fields, [same[0].clone()], "written form of {written}");
            c.commit("a");
            for other in &same {
                assert!(found(&mut c, other), "{written} looked up as {other}");
            }
        }
    }
}

#[test]
fn browsertrix_profile_keeps_the_text_after_the_last_colon() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.ok("PROFILE browsertrix");
    add_one(&mut c, "a", &format!("sha256:{SHA256}"));
    c.commit("a");
    assert_eq!(ok!(c, "EXISTS", "p:allhashes"), int(0));
    assert_eq!(plain_hash(&mut c, P, "alldupes")[SHA256], "a");
    assert!(plain_hash(&mut c, P, "h:a").contains_key(SHA256));
    for spelling in &spellings()[0] {
        assert!(found(&mut c, spelling), "{spelling}");
    }
    c.add("b", [1]);
    let hash = format!("sha-256:{SHA256}");
    c.ok(format!("REVISIT b REF uid-1 '{hash}' 10"));
    assert_eq!(set_key(&mut c, "p:uid-1:duperef"), ["a 1"]);
    assert_eq!(ok!(c, "EXISTS", "p:uid-1:duperefs"), int(0));
}

#[test]
fn lookup_finds_what_a_plain_client_wrote_in_another_spelling() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let value = "3 20260101000000 http://e.com/a b 50";
    for same in spellings() {
        for written in &same {
            ok!(c, "FLUSHALL");
            plainly(&mut c, P, |c| {
                ok!(c, "SADD", "p:allcrawls", "a");
                ok!(c, "HSET", "p:h:a", written, value);
                ok!(c, "HSET", "p:allhashes", written, "a");
            });
            for asked in &same {
                let upper_hex = written.chars().any(char::is_uppercase) && written.len() != 32;
                if upper_hex && !written.contains(SHA1_BASE32) {
                    // Upper-case hex is accepted as an argument; nobody writes it.
                    continue;
                }
                if written == &format!("sha1:{}", SHA1_BASE32.to_lowercase()) {
                    continue;
                }
                assert!(found(&mut c, asked), "written {written}, asked {asked}");
            }
        }
    }
}

#[test]
fn unknown_kinds_of_hash_are_kept_as_given() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let odd = [
        "blake3:0123456789abcdef0123456789ABCDEF".to_owned(),
        "xxh3:0011223344556677".to_owned(),
        "x".repeat(16),
        "y".repeat(256),
    ];
    for hash in &odd {
        assert_eq!(add_one(&mut c, "a", hash), 1);
    }
    let mut fields: Vec<String> = odd.to_vec();
    fields.sort();
    assert_eq!(
        hash_key(&mut c, "p:h:a").into_keys().collect::<Vec<_>>(),
        fields
    );
    c.commit("a");
    for hash in &odd {
        assert!(found(&mut c, hash));
    }
}

#[test]
fn any_bytes_survive_in_urls_ids_and_prefixes() {
    let server = Server::start();
    let odd: [&[u8]; 6] = [
        b"a b  c",
        b"nul \0 byte",
        b"line\r\nend",
        b"\xff\xfe\x80",
        b" leading and trailing ",
        b"%s%n%d",
    ];
    for mut c in [server.wire(), server.wire3()] {
        for (i, bytes) in odd.iter().enumerate() {
            ok!(c, "FLUSHALL");
            let url = [b"http://e.com/".as_slice(), bytes, b" 7"].concat();
            let (prefix, crawl) = ([bytes, b":".as_slice()].concat(), bytes.to_vec());
            let hash = sha256_of(i as u64);
            ok!(c, "DEDUPE.ADD", prefix, crawl, hash, 2, DATE, url, 99);
            ok!(c, "DEDUPE.WACZOPEN", prefix, crawl, bytes);
            ok!(c, "DEDUPE.WACZOPEN", prefix, crawl, "1");
            ok!(c, "DEDUPE.WACZOPEN", prefix, crawl, bytes.repeat(2));
            ok!(c, "DEDUPE.COMMIT", prefix, crawl);
            let record = [
                bulk(&crawl),
                int(2),
                bulk(DATE),
                bulk(&url),
                int(99),
                bulk(bytes.repeat(2)),
            ];
            assert_eq!(
                ok!(c, "DEDUPE.LOOKUP", prefix, "WITHWACZ", hash).items()[0],
                Reply::Array(record.to_vec())
            );
            let records = [&prefix, b"h:".as_slice(), &crawl].concat();
            let stored = plainly(&mut c, &prefix, |c| ok!(c, "HGET", records, hash));
            let value = [format!("2 {DATE} ").as_bytes(), &url, b" 99"].concat();
            assert_eq!(stored, bulk(value));
            assert_eq!(ok!(c, "DEDUPE.REMOVE", prefix, crawl).ints(), [1, 1, 0]);
            assert_eq!(ok!(c, "DEDUPE.LOOKUP", prefix, hash), array([nil()]));
        }
    }
}

#[test]
fn crawl_ids_with_spaces_survive_dependencies() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("with two spaces", [1]);
    c.ok("WACZOPEN 'with two spaces' a.wacz");
    c.commit("with two spaces");
    c.add("b", [2]);
    c.ok("REVISIT b REF uuid #1 10");
    assert_eq!(set_key(&mut c, "p:uuid:duperefs"), ["with two spaces 0"]);
    let required = c.ok("REQUIRES REF uuid FORMAT RESP");
    assert_eq!(
        required.items()[0].field("crawlId"),
        bulk("with two spaces")
    );
}

#[test]
fn empty_prefix_gives_the_documented_names() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    add(&mut c, "", "a", [1]);
    commit(&mut c, "", "a");
    let keys = plain_view(&mut c, "").names();
    for key in ["allhashes", "allcrawls", "allcounts", "h:a", "h:a:counts"] {
        assert!(keys.contains(&key.to_owned()), "{key} in {keys:?}");
    }
}

#[test]
fn lookup_of_many_hashes_is_always_an_array() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1, 2]);
    c.ok("WACZOPEN a a.wacz");
    c.commit("a");
    assert_eq!(c.ok("LOOKUP #9"), array([nil()]));
    assert_eq!(c.ok("LOOKUP #1"), array([record_of("a", 1)]));
    assert_eq!(
        c.ok("LOOKUP #2 #9 #2"),
        array([record_of("a", 2), nil(), record_of("a", 2)])
    );
    let with = |filename: Reply| {
        let mut record = record_of("a", 1).items().to_vec();
        record.push(filename);
        array([Reply::Array(record)])
    };
    assert_eq!(c.ok("LOOKUP WITHWACZ #1"), with(bulk("a.wacz")));
    ok!(c, "DEL", "p:c:a:wacz");
    assert_eq!(c.ok("LOOKUP WITHWACZ #1"), with(nil()));
    assert_eq!(
        ok!(c, "DEDUPE.LOOKUP", "empty:", sha256_of(1)),
        array([nil()])
    );
}

#[test]
fn committed_record_wins_over_the_crawls_own() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.commit("a");
    c.add("b", [1, 2]);
    assert_eq!(
        c.ok("LOOKUP CRAWL b #1 #2"),
        array([record_of("a", 1), record_of("b", 2)])
    );
}

#[test]
fn same_record_again_is_a_retry_and_another_one_counts() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let hash = sha256_of(1);
    let mut put =
        |date: &str, url: &str| c.ok(format!("ADD a '{hash}' 0 '{date}' '{url}' 5")).int();
    assert_eq!(put(DATE, "http://e.com/a"), 1);
    assert_eq!(put(DATE, "http://e.com/a"), 0);
    assert_eq!(put(DATE, "http://e.com/b"), 0);
    assert_eq!(put("20260101000000", "http://e.com/a"), 0);
    assert_eq!(counts(&mut c, "p:h:a:counts")["totalUrls"], 3);
    assert_eq!(
        ok!(c, "HGET", "p:h:a", hash),
        bulk(format!("0 {DATE} http://e.com/a 5"))
    );
}

/// Records of a few hashes: every date and URL of each, some in two WACZ files.
fn many_records(rng: &mut Rng) -> Vec<[String; 5]> {
    let dates = [
        "20260319102015",
        "2026-03-19T10:20:15.5Z",
        "20260319102015250",
        "2026-03-19T12:20:14+02:00",
    ];
    let mut records = Vec::new();
    for n in 0..40 {
        for date in dates {
            for url in 0..3 {
                for wacz in 0..1 + rng.below(2) {
                    let url = format!("http://e.com/{url}");
                    let size = 100 + rng.below(3);
                    let wacz = wacz.to_string();
                    records.push([sha256_of(n), wacz, date.to_owned(), url, size.to_string()]);
                }
            }
        }
    }
    records
}

/// `SEQ` keeps what each call said, and which call finds a hash new depends on the order.
fn without_replies(server: &Server) -> Snapshot {
    server.snapshot().without(|key| key.ends_with(b":seq"))
}

#[test]
fn earliest_records_stay_whoever_adds_them_and_in_whatever_order() {
    let mut rng = Rng::new("earliest_records_stay_whoever_adds_them_and_in_whatever_order");
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut records = many_records(&mut rng);
    let mut expected: Option<[Snapshot; 2]> = None;
    for round in 0..6 {
        let mut c = DedupeIndex::of(&server, P);
        ok!(c, "FLUSHALL");
        c.add("a", [5, 6]);
        c.commit("a");
        rng.shuffle(&mut records);
        let writers = 1 + round % 4;
        let share = records.len().div_ceil(writers);
        std::thread::scope(|scope| {
            for (writer, records) in records.chunks(share).enumerate() {
                let mut c = DedupeIndex::of(&server, P);
                let mut rng = Rng::seeded(rng.bits());
                scope.spawn(move || {
                    let mut rest = records;
                    for n in 1.. {
                        let (some, more) =
                            rest.split_at(rest.len().min(1 + rng.below(30) as usize));
                        let mut words = vec!["DEDUPE.ADD".word(), P.word(), "a".word()];
                        let seq = ["EARLIEST".word(), "SEQ".word(), writer.word(), n.word()];
                        words.extend(seq);
                        words.extend(some.iter().flatten().map(|w| w.word()));
                        let reply = c.expect_ok(&words);
                        if rng.chance(30) {
                            assert_eq!(c.expect_ok(&words), reply);
                        }
                        rest = more;
                        if rest.is_empty() {
                            break;
                        }
                    }
                });
            }
        });
        let before = without_replies(&server);
        c.commit("a");
        let after = without_replies(&server);
        match &expected {
            None => expected = Some([before, after]),
            Some(expected) => {
                before.assert_same(&expected[0], "the records in another order");
                after.assert_same(&expected[1], "the same, committed");
            }
        }
        assert_eq!(ok!(c, "EXISTS", "p:h:a:unstored"), int(0));
        c.assert_consistent();
        server.wait_for_replica_offset(&replica);
        replica
            .snapshot()
            .assert_same(&server.snapshot(), "replica");
    }
}

#[test]
fn options_of_add_stand_in_any_order() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for (n, options) in [
        "EARLIEST SEQ w 1",
        "seq w 2 earliest",
        "TOKEN 9 Earliest SEQ w 3",
        "EARLIEST TOKEN 9",
    ]
    .into_iter()
    .enumerate()
    {
        let mut words = vec!["DEDUPE.ADD".word(), P.word(), "a".word()];
        words.extend(options.split(' ').map(|w| w.word()));
        words.extend(words_of(n as u64));
        assert_eq!(c.expect_ok(&words), int(1), "{options}");
    }
    let mut twice = vec!["DEDUPE.ADD", P, "a", "EARLIEST", "EARLIEST"];
    let words = words_of(7).map(|w| String::from_utf8(w).unwrap());
    twice.extend(words.iter().map(String::as_str));
    let Reply::Error(line) = c.wire().call(&twice) else {
        panic!("EARLIEST twice is no hash");
    };
    assert!(line.starts_with(b"BADHASH "));
}

#[test]
fn dates_of_all_forms_are_kept_as_given() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let dates = [
        "20260319102015",
        "20260319102015123",
        "2026-03-19T10:20:15Z",
        "2026-03-19T10:20:15.123Z",
    ];
    for (i, date) in dates.iter().enumerate() {
        let hash = sha256_of(i as u64);
        c.ok(format!("ADD a '{hash}' 0 '{date}' http://e.com/ 5"));
        let own = c.ok(format!("LOOKUP CRAWL a '{hash}'"));
        assert_eq!(own.items()[0].items()[2], bulk(date));
    }
    for date in ["", "yesterday", "2026 03 19"] {
        let line = c.err(format!("ADD a #9 0 '{date}' http://e.com/ 5"));
        assert!(line.starts_with("ERR ") && line.contains("date"), "{line}");
    }
}

#[test]
fn browsertrix_profile_stores_what_its_readers_can_split_and_retries_count_nothing() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.ok("PROFILE browsertrix");
    let spellings = [
        (
            "2026-03-19T10:20:15.250Z",
            "http://e.com/a b  c",
            "20260319102015250",
        ),
        ("20260319122015", "http://e.com/a%20b", "20260319122015"),
        (
            "2026-03-19T12:20:15+02:00",
            "http://e.com/",
            "20260319102015",
        ),
    ];
    for earliest in [false, true] {
        let crawl = if earliest { "early" } else { "first" };
        for (n, (date, url, stored)) in spellings.into_iter().enumerate() {
            let escaped = url.replace(' ', "%20");
            let hash = sha256_of(n as u64);
            let mut put = |date: &str, url: &str| {
                let mut words = vec!["DEDUPE.ADD", P, crawl];
                words.extend(earliest.then_some("EARLIEST"));
                words.extend([&hash, "3", date, url, "5"]);
                c.wire().call(&words).int()
            };
            assert_eq!(put(date, url), 1);
            for (date, url) in [(date, &escaped[..]), (stored, url), (stored, &escaped)] {
                assert_eq!(put(date, url), 0);
            }
            let key = format!("p:h:{crawl}");
            let field = hash.split_once(':').expect("a label").1;
            let value = format!("3 {stored} {escaped} 5");
            assert_eq!(ok!(c, "HGET", key, field), bulk(value));
            let own = c.ok(format!("LOOKUP CRAWL '{crawl}' '{hash}'"));
            let own = own.items()[0].items();
            assert_eq!([&own[2], &own[3]], [&bulk(stored), &bulk(escaped)]);
        }
        let counted = counts(&mut c, &format!("p:h:{crawl}:counts"));
        assert_eq!(counted["totalUrls"], spellings.len() as i64);
    }
}

#[test]
fn revisit_counts_urls_dupes_and_saved_bytes() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1, 2]);
    c.commit("a");
    // Sizes of the originals: 1001 and 1002.
    assert_eq!(c.ok("REVISIT b #1 300 #2 5000"), int(2));
    let counted = counts(&mut c, "p:h:b:counts");
    assert_eq!(counted["totalUrls"], 2);
    assert_eq!(counted["dupeUrls"], 2);
    assert_eq!(counted["conservedSize"], 701);
    assert_eq!(set_key(&mut c, "p:uncommittedcrawls"), ["b"]);
    assert_eq!(set_key(&mut c, "p:b:reqCrawls"), ["a"]);
}

#[test]
fn revisit_of_an_own_record_makes_no_dependency() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.ok("REVISIT a REF u #1 10");
    assert_eq!(counts(&mut c, "p:h:a:counts")["dupeUrls"], 1);
    assert_eq!(ok!(c, "EXISTS", "p:a:reqCrawls", "p:u:duperefs"), int(0));
}

#[test]
fn revisit_with_noref_keeps_no_dependency() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.commit("a");
    c.ok("REVISIT b NOREF #1 10");
    assert_eq!(counts(&mut c, "p:h:b:counts")["dupeUrls"], 1);
    assert_eq!(ok!(c, "EXISTS", "p:b:reqCrawls"), int(0));
}

#[test]
fn revisit_with_noref_is_counted_for_the_crawl_of_its_original() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.commit("a");
    let revisit = |c: &mut Wire, option: &[&str]| {
        let mut words = vec!["DEDUPE.REVISIT", P, "b"];
        words.extend(option);
        let hash = sha256_of(1);
        words.extend([&hash[..], "10"]);
        assert_eq!(c.expect_ok(&words), int(1));
    };
    let required = |c: &mut DedupeIndex| c.ok("REQUIREDBY a");
    revisit(&mut c, &["NOREF"]);
    assert_eq!(required(&mut c), array([array([bulk("b"), int(1)])]));
    c.commit("b");
    // What came since goes with a cancel, and no more.
    let before = server.snapshot();
    revisit(&mut c, &["NOREF"]);
    revisit(&mut c, &[]);
    assert_eq!(set_key(&mut c, "p:b:reqCrawls"), ["a"]);
    assert_eq!(required(&mut c), array([array([bulk("b"), int(3)])]));
    c.ok("CANCEL b");
    server.snapshot().assert_same(&before, "canceled");
    assert_eq!(c.ok("REMOVE b").ints(), [1, 0, 0]);
    assert_eq!(ok!(c, "EXISTS", "p:h:b:deps"), int(0));
}

#[test]
fn revisit_of_a_given_original_is_not_looked_up() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.commit("a");
    // It refers to a record of another crawl than the index would give, and to one that is gone.
    let (first, second) = (sha256_of(1), sha256_of(2));
    let words = ["DEDUPE.REVISIT", P, "b", "SEQ", "w", "1", "REF", "u"];
    let original = ["ORIGINAL", "old crawl", "3", "900"];
    let other = ["original", "gone", "0", "50"];
    let call = |c: &mut Wire| {
        let mut all = words.to_vec();
        all.extend([&first[..], "300"]);
        all.extend(original);
        all.extend([&first[..], "100"]);
        all.extend([&second[..], "100"]);
        all.extend(other);
        assert_eq!(c.expect_ok(&all), int(3));
    };
    call(&mut c);
    call(&mut c);
    let counted = counts(&mut c, "p:h:b:counts");
    assert_eq!((counted["totalUrls"], counted["dupeUrls"]), (3, 3));
    assert_eq!(counted["conservedSize"], 600 + (1001 - 100));
    assert_eq!(set_key(&mut c, "p:b:reqCrawls"), ["a", "gone", "old crawl"]);
    assert_eq!(
        set_key(&mut c, "p:u:duperefs"),
        ["a 0", "gone 0", "old crawl 3"]
    );
    c.ok(format!("REVISIT c NOREF '{second}' 5 ORIGINAL c 0 9"));
    assert_eq!(ok!(c, "EXISTS", "p:h:c:deps"), int(0), "its own record");
    let before = server.snapshot();
    for bad in [
        &["ORIGINAL"][..],
        &["ORIGINAL", "a"],
        &["ORIGINAL", "a", "0"],
        &["ORIGINAL", "a", "x", "5"],
        &["ORIGINAL", "a", "0", "-5"],
        &["ORIGINAL", "a:counts", "0", "5"],
        &["ORIGINAL", "a", "0", "5", "ORIGINAL", "a", "0", "5"],
        &["ORIGINALS", "a", "0", "5"],
    ] {
        let mut all = vec!["DEDUPE.REVISIT", P, "b", &first, "5"];
        all.extend(bad);
        assert!(c.wire().call(&all).is_error(), "{bad:?}");
    }
    server.snapshot().assert_same(&before, "bad originals");
}

#[test]
fn revisit_of_an_unknown_hash_changes_nothing() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    c.commit("a");
    let before = server.snapshot();
    let line = c.err("REVISIT b #1 10 #99 10");
    assert!(
        line.starts_with("NOHASH ") && line.contains(&sha256_of(99)),
        "{line}"
    );
    server.snapshot().assert_same(&before, "refused REVISIT");
    // Another crawl's uncommitted hash is unknown too.
    c.add("open", [5]);
    assert!(c.err("REVISIT b #5 10").starts_with("NOHASH "));
}

#[test]
fn repeated_sequence_number_gives_the_stored_reply() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("base", [100]);
    c.commit("base");
    let h = sha256_of;
    let first = |c: &mut Wire| {
        let u = "http://e.com/";
        ok!(
            c,
            "DEDUPE.ADD",
            P,
            "a",
            "SEQ",
            "w",
            1,
            h(1),
            0,
            DATE,
            u,
            5,
            h(2),
            0,
            DATE,
            u,
            5
        )
    };
    assert_eq!(first(&mut c), int(2));
    let before = server.snapshot();
    assert_eq!(first(&mut c), int(2));
    server.snapshot().assert_same(&before, "the same n again");

    let revisit = |c: &mut Wire, n: i64| {
        c.call(&[
            "DEDUPE.REVISIT",
            P,
            "a",
            "SEQ",
            "w",
            &n.to_string(),
            &h(100),
            "10",
        ])
    };
    assert_eq!(revisit(&mut c, 2), int(1));
    assert_eq!(revisit(&mut c, 2), int(1));
    let before = server.snapshot();
    assert_eq!(counts(&mut c, "p:h:a:counts")["dupeUrls"], 1);
    // A smaller number is a late retry of something already superseded.
    match revisit(&mut c, 1) {
        Reply::Error(line) => assert!(line.starts_with(b"STALE ")),
        other => panic!("{other:?}"),
    }
    server.snapshot().assert_same(&before, "a smaller n");
    // Writers and crawls number on their own.
    assert_eq!(
        ok!(c, "DEDUPE.REVISIT", P, "a", "SEQ", "other", 1, h(100), 10),
        int(1)
    );
    assert_eq!(
        ok!(c, "DEDUPE.REVISIT", P, "b", "SEQ", "w", 1, h(100), 10),
        int(1)
    );
    assert_eq!(counts(&mut c, "p:h:a:counts")["dupeUrls"], 2);
}

#[test]
fn failed_command_does_not_use_up_its_sequence_number() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    let retry = |c: &mut Wire| {
        c.call(&[
            "DEDUPE.REVISIT",
            P,
            "a",
            "SEQ",
            "w",
            "1",
            &sha256_of(7),
            "1",
        ])
    };
    assert!(retry(&mut c).is_error());
    c.add("a", [7]);
    assert_eq!(retry(&mut c), int(1));
}

#[test]
fn crawl_ids_that_would_share_keys_are_refused() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let mut refused: Vec<String> = [
        "counts", "wacz", "baseline", "added", "merging", "unstored", "deps", "refs", "seq",
    ]
    .iter()
    .map(|suffix| format!("a:{suffix}"))
    .collect();
    refused.push(String::new());
    for id in &refused {
        let lines = [
            err!(
                c,
                "DEDUPE.ADD",
                P,
                id,
                sha256_of(1),
                0,
                DATE,
                "http://e.com/",
                5
            ),
            c.err(format!("REVISIT '{id}' #1 5")),
            c.err(format!("WACZOPEN '{id}' a.wacz")),
            c.err(format!("CLAIM '{id}' #1 PX 1000")),
            c.err(format!("COMMIT '{id}'")),
        ];
        for line in lines {
            assert!(line.starts_with("BADCRAWL "), "{id}: {line}");
        }
    }
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn profile_is_kept_and_refused_once_the_index_has_crawls() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.ok("PROFILE"), bulk("document"));
    assert_eq!(
        server.snapshot().names(),
        [""; 0],
        "reading creates nothing"
    );
    ok!(
        c,
        "CONFIG",
        "SET",
        "crawlspace.dedupe-profile",
        "browsertrix"
    );
    assert_eq!(c.ok("PROFILE"), bulk("browsertrix"));
    c.add("a", [1]);
    ok!(c, "CONFIG", "SET", "crawlspace.dedupe-profile", "document");
    assert_eq!(c.ok("PROFILE"), bulk("browsertrix"));
    assert!(c.err("PROFILE document").starts_with("HASCRAWLS "));
    c.commit("a");
    assert_eq!(ok!(c, "EXISTS", "p:alldupes"), int(1));
    assert_eq!(c.owners([1]), ["a"]);
    let line = err!(c, "DEDUPE.PROFILE", "q:", "warcprox");
    assert!(line.contains("warcprox"), "{line}");
    assert_eq!(
        ok!(c, "DEDUPE.PROFILE", "q:", "browsertrix"),
        redis_tests::simple("OK")
    );
    assert_eq!(ok!(c, "DEDUPE.PROFILE", "q:"), bulk("browsertrix"));
}

#[test]
fn retry_after_the_commit_changes_nothing() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let h = sha256_of(1);
    let words = [
        "DEDUPE.ADD",
        P,
        "a",
        "SEQ",
        "w",
        "1",
        &h,
        "0",
        DATE,
        "http://e.com/",
        "5",
    ];
    let plain = ["DEDUPE.ADD", P, "a", &h, "0", DATE, "http://e.com/", "5"];
    assert_eq!(c.expect_ok(&words), int(1));
    c.commit("a");
    let before = server.snapshot();
    assert_eq!(c.expect_ok(&words), int(1));
    server.snapshot().assert_same(&before, "numbered retry");
    assert_eq!(c.expect_ok(&plain), int(0));
    server
        .snapshot()
        .assert_same(&before, "the same record again");
}

#[test]
fn index_of_a_newer_format_is_left_alone() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [1]);
    ok!(c, "HSET", "p:crawlspace", "format", "999");
    let before = server.snapshot();
    for words in [
        &["DEDUPE.LOOKUP", P, &sha256_of(1)][..],
        &["DEDUPE.COMMIT", P, "a"],
        &["DEDUPE.REPAIR", P],
        &["DEDUPE.STATS", P],
    ] {
        let line = c.expect_error(words);
        assert!(
            line.starts_with("BADFORMAT ") && line.contains("999"),
            "{line}"
        );
    }
    server.snapshot().assert_same(&before, "refused commands");
}
