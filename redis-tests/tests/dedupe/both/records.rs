//! `ADD`, `REVISIT` and `LOOKUP`: notations of a hash, unusual bytes, exact counts.

use redis_tests::{
    DATE, DedupeIndex, Options, Reply, Rng, Server, Snapshot, array, bulk, int, nil, ok, plainly,
    record_of, rows, sha256_of, simple,
};

const P: &str = "p:";
/// Digests of an empty payload.
const SHA256: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SHA1_BASE32: &str = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ";
const SHA1_HEX: &str = "da39a3ee5e6b4b0d3255bfef95601890afd80709";
const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Returns the equivalent notations of a hash, starting with the one that the `document` profile writes.
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

fn add_one(c: &mut DedupeIndex, crawl: &str, hash: &str) -> i64 {
    let added = c.ok(format!("ADD {crawl} {hash} 1 {DATE} http://e.com/ 50"));
    added.int()
}

fn found(c: &mut DedupeIndex, hash: &str) -> bool {
    !c.ok(format!("LOOKUP {hash}")).items()[0].is_nil()
}

#[test]
fn every_spelling_means_the_same_hash_and_one_form_is_written() {
    let (_server, mut c) = DedupeIndex::start(P);
    for same in spellings() {
        for written in &same {
            c.plain("FLUSHALL");
            assert_eq!(add_one(&mut c, "a", written), 1, "{written}");
            for other in &same {
                assert_eq!(add_one(&mut c, "a", other), 0, "{written} and {other}");
            }
            let fields: Vec<String> = c.hash("h:a").into_keys().collect();
            assert_eq!(fields, [same[0].clone()], "stored notation of {written}");
            c.commit("a");
            for other in &same {
                assert!(found(&mut c, other), "{written} looked up as {other}");
            }
        }
    }
}

#[test]
fn browsertrix_profile_keeps_the_text_after_the_last_colon() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.ok("PROFILE browsertrix");
    add_one(&mut c, "a", &format!("sha256:{SHA256}"));
    c.commit("a");
    assert_eq!(c.plain("EXISTS p:allhashes"), int(0));
    assert_eq!(c.plain_hash("alldupes")[SHA256], "a");
    assert!(c.plain_hash("h:a").contains_key(SHA256));
    for spelling in &spellings()[0] {
        assert!(found(&mut c, spelling), "{spelling}");
    }
    c.add("b", [1]);
    let hash = format!("sha-256:{SHA256}");
    c.ok(format!("REVISIT b REF uid-1 {hash} 10"));
    assert_eq!(c.set("uid-1:duperef"), ["a 1"]);
    assert_eq!(c.plain("EXISTS p:uid-1:duperefs"), int(0));
}

#[test]
fn lookup_finds_what_a_plain_client_wrote_in_another_spelling() {
    let (_server, mut c) = DedupeIndex::start(P);
    let value = "3 20260101000000 http://e.com/a b 50";
    for same in spellings() {
        for written in &same {
            c.plain("FLUSHALL");
            c.plainly(|c| {
                c.plain("SADD p:allcrawls a");
                c.plain(format!("HSET p:h:a {written} '{value}'"));
                c.plain(format!("HSET p:allhashes {written} a"));
            });
            for asked in &same {
                let upper_hex = written.chars().any(char::is_uppercase) && written.len() != 32;
                if upper_hex && !written.contains(SHA1_BASE32) {
                    // Upper-case hex is accepted as an argument, but no client writes it.
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
    let (_server, mut c) = DedupeIndex::start(P);
    let odd = [
        "blake3:0123456789abcdef0123456789ABCDEF".to_owned(),
        "xxh3:0011223344556677".to_owned(),
        "x".repeat(16),
        "y".repeat(256),
    ];
    for hash in &odd {
        assert_eq!(add_one(&mut c, "a", hash), 1);
    }
    assert!(c.hash("h:a").into_keys().eq(odd.clone()));
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
            let (owner, wacz) = (bulk(&crawl), bulk(bytes.repeat(2)));
            let record = [owner, int(2), bulk(DATE), bulk(&url), int(99), wacz];
            let found = ok!(c, "DEDUPE.LOOKUP", prefix, "WITHWACZ", hash);
            assert_eq!(found, array([array(record)]));
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
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("with two spaces", [1]);
    c.ok("WACZOPEN 'with two spaces' a.wacz");
    c.commit("with two spaces");
    c.add("b", [2]);
    c.ok("REVISIT b REF uuid #1 10");
    assert_eq!(c.set("uuid:duperefs"), ["with two spaces 0"]);
    let required = c.ok("REQUIRES REF uuid FORMAT RESP");
    let id = required.items()[0].field("crawlId");
    assert_eq!(id, bulk("with two spaces"));
}

#[test]
fn empty_prefix_gives_the_documented_names() {
    let (_server, mut c) = DedupeIndex::start("");
    c.committed("a", [1]);
    let keys = c.plain_view().names();
    for key in ["allhashes", "allcrawls", "allcounts", "h:a", "h:a:counts"] {
        assert!(keys.contains(&key.to_owned()), "{key} in {keys:?}");
    }
}

#[test]
fn lookup_of_many_hashes_is_always_an_array() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", [1, 2]);
    c.ok("WACZOPEN a a.wacz");
    c.commit("a");
    assert_eq!(c.ok("LOOKUP #9"), array([nil()]));
    assert_eq!(c.ok("LOOKUP #1"), array([record_of("a", 1)]));
    let [first, second] = [1, 2].map(|n| record_of("a", n));
    let both = [second.clone(), nil(), second];
    assert_eq!(c.ok("LOOKUP #2 #9 #2"), array(both));
    let with = |filename: Reply| array([Reply::Array([first.items(), &[filename]].concat())]);
    assert_eq!(c.ok("LOOKUP WITHWACZ #1"), with(bulk("a.wacz")));
    c.plain("DEL p:c:a:wacz");
    assert_eq!(c.ok("LOOKUP WITHWACZ #1"), with(nil()));
    let unknown = ok!(c, "DEDUPE.LOOKUP", "empty:", sha256_of(1));
    assert_eq!(unknown, array([nil()]));
}

#[test]
fn committed_record_wins_over_the_crawls_own() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1]);
    c.add("b", [1, 2]);
    let expected = array([record_of("a", 1), record_of("b", 2)]);
    assert_eq!(c.ok("LOOKUP CRAWL b #1 #2"), expected);
}

#[test]
fn same_record_again_is_a_retry_and_another_one_counts() {
    let (_server, mut c) = DedupeIndex::start(P);
    for (date, path, new) in rows![
        DATE, "a", 1;
        DATE, "a", 0;
        DATE, "b", 0;
        "20260101000000", "a", 0;
    ] {
        let reply = c.ok(format!("ADD a #1 0 {date} http://e.com/{path} 5"));
        assert_eq!(reply, int(new), "{date} {path}");
    }
    assert_eq!(c.counts("h:a:counts")["totalUrls"], 3);
    let stored = c.plain("HGET p:h:a #1");
    assert_eq!(stored, bulk(format!("0 {DATE} http://e.com/a 5")));
}

/// Returns records of a few hashes: each hash with every date and URL, some in two WACZ files.
fn many_records(rng: &mut Rng) -> Vec<String> {
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
                    let size = 100 + rng.below(3);
                    records.push(format!("#{n} {wacz} {date} http://e.com/{url} {size}"));
                }
            }
        }
    }
    records
}

/// Removes the replies that `SEQ` stores, because they depend on the call that adds a hash first.
fn without_replies(server: &Server) -> Snapshot {
    server.snapshot().without(|key| key.ends_with(b":seq"))
}

#[test]
fn earliest_records_stay_regardless_of_crawl_and_order() {
    let mut rng = Rng::new("earliest_records_stay_regardless_of_crawl_and_order");
    let server = Server::start();
    let replica = Options::new().replica_of(&server).start();
    let mut records = many_records(&mut rng);
    let mut expected: Option<[Snapshot; 2]> = None;
    for round in 0..6 {
        let mut c = DedupeIndex::of(&server, P);
        c.plain("FLUSHALL");
        c.committed("a", [5, 6]);
        rng.shuffle(&mut records);
        let writers = 1 + round % 4;
        let share = records.len().div_ceil(writers);
        std::thread::scope(|scope| {
            for (writer, records) in records.chunks(share).enumerate() {
                let mut c = DedupeIndex::of(&server, P);
                let mut rng = Rng::seeded(rng.bits());
                scope.spawn(move || {
                    let (mut rest, mut n) = (records, 0);
                    while !rest.is_empty() {
                        let (some, more) =
                            rest.split_at(rest.len().min(1 + rng.below(30) as usize));
                        n += 1;
                        let line = format!("ADD a EARLIEST SEQ {writer} {n} {}", some.join(" "));
                        let reply = c.ok(&line);
                        if rng.chance(30) {
                            assert_eq!(c.ok(&line), reply);
                        }
                        rest = more;
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
        assert_eq!(c.plain("EXISTS p:h:a:unstored"), int(0));
        c.assert_consistent();
        server.wait_for_replica_offset(&replica);
        let there = replica.snapshot();
        there.assert_same(&server.snapshot(), "replica");
    }
}

#[test]
fn options_of_add_stand_in_any_order() {
    let (_server, mut c) = DedupeIndex::start(P);
    for line in [
        "ADD a EARLIEST SEQ w 1 @0",
        "ADD a seq w 2 earliest @1",
        "ADD a TOKEN 9 Earliest SEQ w 3 @2",
        "ADD a EARLIEST TOKEN 9 @3",
    ] {
        assert_eq!(c.ok(line), int(1), "{line}");
    }
    let twice = "ERR syntax error: EARLIEST is given twice (argument 4)";
    c.refused("ADD a EARLIEST EARLIEST @7", twice);
}

#[test]
fn dates_of_all_forms_are_kept_as_given() {
    let (_server, mut c) = DedupeIndex::start(P);
    for (n, date) in rows![
        0, "20260319102015";
        1, "20260319102015123";
        2, "2026-03-19T10:20:15Z";
        3, "2026-03-19T10:20:15.123Z";
    ] {
        c.ok(format!("ADD a #{n} 0 {date} http://e.com/ 5"));
        let own = c.ok(format!("LOOKUP CRAWL a #{n}"));
        assert_eq!(own.items()[0].items()[2], bulk(date));
    }
    for date in ["", "yesterday", "2026 03 19"] {
        let add = format!("ADD a #9 0 '{date}' http://e.com/ 5");
        c.refused(add, "ERR date");
    }
}

#[test]
fn browsertrix_profile_stores_what_its_readers_can_split_and_retries_count_nothing() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.ok("PROFILE browsertrix");
    let spellings = rows![
        0, "2026-03-19T10:20:15.250Z", "http://e.com/a b  c", "20260319102015250";
        1, "20260319122015", "http://e.com/a%20b", "20260319122015";
        2, "2026-03-19T12:20:15+02:00", "http://e.com/", "20260319102015";
    ];
    for (crawl, option) in [("first", ""), ("early", "EARLIEST")] {
        for (n, date, url, stored) in spellings {
            let escaped = url.replace(' ', "%20");
            let mut put = |date: &str, url: &str| {
                let add = format!("ADD {crawl} {option} #{n} 3 {date} '{url}' 5");
                c.ok(add).int()
            };
            assert_eq!(put(date, url), 1);
            for (date, url) in [(date, &escaped[..]), (stored, url), (stored, &escaped)] {
                assert_eq!(put(date, url), 0);
            }
            let hash = sha256_of(n);
            let records = c.hash(&format!("h:{crawl}"));
            let value = format!("3 {stored} {escaped} 5");
            assert_eq!(records[hash.trim_start_matches("sha256:")], value);
            let own = c.ok(format!("LOOKUP CRAWL {crawl} {hash}"));
            let own = own.items()[0].items();
            assert_eq!([&own[2], &own[3]], [&bulk(stored), &bulk(escaped)]);
        }
        let counted = c.counts(&format!("h:{crawl}:counts"));
        assert_eq!(counted["totalUrls"], spellings.len() as i64);
    }
}

#[test]
fn revisit_counts_urls_dupes_and_saved_bytes() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1, 2]);
    // Sizes of the originals: 1001 and 1002.
    assert_eq!(c.ok("REVISIT b #1 300 #2 5000"), int(2));
    let counted = c.counts("h:b:counts");
    assert_eq!(counted["totalUrls"], 2);
    assert_eq!(counted["dupeUrls"], 2);
    assert_eq!(counted["conservedSize"], 701);
    assert_eq!(c.set("uncommittedcrawls"), ["b"]);
    assert_eq!(c.set("b:reqCrawls"), ["a"]);
}

#[test]
fn revisit_of_an_own_record_makes_no_dependency() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", [1]);
    c.ok("REVISIT a REF u #1 10");
    assert_eq!(c.counts("h:a:counts")["dupeUrls"], 1);
    assert_eq!(c.plain("EXISTS p:a:reqCrawls p:u:duperefs"), int(0));
}

#[test]
fn revisit_with_noref_keeps_no_dependency() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1]);
    c.ok("REVISIT b NOREF #1 10");
    assert_eq!(c.counts("h:b:counts")["dupeUrls"], 1);
    assert_eq!(c.plain("EXISTS p:b:reqCrawls"), int(0));
}

#[test]
fn revisit_with_noref_is_counted_for_the_crawl_of_its_original() {
    let (server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1]);
    let required = |times| array([array([bulk("b"), int(times)])]);
    assert_eq!(c.ok("REVISIT b NOREF #1 10"), int(1));
    assert_eq!(c.ok("REQUIREDBY a"), required(1));
    c.commit("b");
    // A cancel removes exactly the records that were added since the commit.
    let before = server.snapshot();
    assert_eq!(c.ok("REVISIT b NOREF #1 10"), int(1));
    assert_eq!(c.ok("REVISIT b #1 10"), int(1));
    assert_eq!(c.set("b:reqCrawls"), ["a"]);
    assert_eq!(c.ok("REQUIREDBY a"), required(3));
    c.ok("CANCEL b");
    server.snapshot().assert_same(&before, "canceled");
    assert_eq!(c.ok("REMOVE b").ints(), [1, 0, 0]);
    assert_eq!(c.plain("EXISTS p:h:b:deps"), int(0));
}

#[test]
fn revisit_of_a_given_original_is_not_looked_up() {
    let (server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1]);
    // The revisits refer to a record of a crawl that the index would not select, and to a deleted
    // record.
    for _ in 0..2 {
        let line = "REVISIT b SEQ w 1 REF u #1 300 ORIGINAL 'old crawl' 3 900 \
                    #1 100 #2 100 original gone 0 50";
        assert_eq!(c.ok(line), int(3));
    }
    let counted = c.counts("h:b:counts");
    assert_eq!((counted["totalUrls"], counted["dupeUrls"]), (3, 3));
    assert_eq!(counted["conservedSize"], 600 + (1001 - 100));
    assert_eq!(c.set("b:reqCrawls"), ["a", "gone", "old crawl"]);
    assert_eq!(c.set("u:duperefs"), ["a 0", "gone 0", "old crawl 3"]);
    c.ok("REVISIT c NOREF #2 5 ORIGINAL c 0 9");
    assert_eq!(c.plain("EXISTS p:h:c:deps"), int(0), "its own record");
    let before = server.snapshot();
    for bad in [
        "ORIGINAL",
        "ORIGINAL a",
        "ORIGINAL a 0",
        "ORIGINAL a x 5",
        "ORIGINAL a 0 -5",
        "ORIGINAL a:counts 0 5",
        "ORIGINAL a 0 5 ORIGINAL a 0 5",
        "ORIGINALS a 0 5",
    ] {
        c.err(format!("REVISIT b #1 5 {bad}"));
    }
    server.snapshot().assert_same(&before, "bad originals");
}

#[test]
fn revisit_of_an_unknown_hash_changes_nothing() {
    let (server, mut c) = DedupeIndex::start(P);
    c.committed("a", [1]);
    let before = server.snapshot();
    let told = format!("NOHASH {}", sha256_of(99));
    c.refused("REVISIT b #1 10 #99 10", &told);
    server.snapshot().assert_same(&before, "refused REVISIT");
    // An uncommitted hash of another crawl is unknown, too.
    c.add("open", [5]);
    c.refused("REVISIT b #5 10", "NOHASH");
}

#[test]
fn repeated_sequence_number_gives_the_stored_reply() {
    let (server, mut c) = DedupeIndex::start(P);
    c.committed("base", [100]);
    let first = "ADD a SEQ w 1 @1 @2";
    assert_eq!(c.ok(first), int(2));
    let before = server.snapshot();
    assert_eq!(c.ok(first), int(2));
    server.snapshot().assert_same(&before, "the same n again");

    assert_eq!(c.ok("REVISIT a SEQ w 2 #100 10"), int(1));
    assert_eq!(c.ok("REVISIT a SEQ w 2 #100 10"), int(1));
    let before = server.snapshot();
    assert_eq!(c.counts("h:a:counts")["dupeUrls"], 1);
    // A smaller number means a late retry of a call that was followed by others.
    c.refused("REVISIT a SEQ w 1 #100 10", "STALE");
    server.snapshot().assert_same(&before, "a smaller n");
    // Each writer has its own sequence numbers in each crawl.
    assert_eq!(c.ok("REVISIT a SEQ other 1 #100 10"), int(1));
    assert_eq!(c.ok("REVISIT b SEQ w 1 #100 10"), int(1));
    assert_eq!(c.counts("h:a:counts")["dupeUrls"], 2);
}

#[test]
fn failed_command_does_not_use_up_its_sequence_number() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", [1]);
    c.err("REVISIT a SEQ w 1 #7 1");
    c.add("a", [7]);
    assert_eq!(c.ok("REVISIT a SEQ w 1 #7 1"), int(1));
}

#[test]
fn crawl_ids_that_would_share_keys_are_refused() {
    let (server, mut c) = DedupeIndex::start(P);
    let ids =
        "'' a:counts a:wacz a:baseline a:added a:merging a:unstored a:deps a:refs a:seq a:urls";
    for id in ids.split(' ') {
        for line in [
            format!("ADD {id} @1"),
            format!("REVISIT {id} #1 5"),
            format!("WACZOPEN {id} a.wacz"),
            format!("CLAIM {id} #1 PX 1000"),
            format!("COMMIT {id}"),
        ] {
            c.refused(line, "BADCRAWL");
        }
    }
    assert_eq!(server.snapshot().names(), [""; 0]);
}

#[test]
fn profile_is_kept_and_refused_once_the_index_has_crawls() {
    let (server, mut c) = DedupeIndex::start(P);
    assert_eq!(c.ok("PROFILE"), bulk("document"));
    let names = server.snapshot().names();
    assert_eq!(names, [""; 0], "reading creates nothing");
    c.plain("CONFIG SET crawlspace.dedupe-profile browsertrix");
    assert_eq!(c.ok("PROFILE"), bulk("browsertrix"));
    c.add("a", [1]);
    c.plain("CONFIG SET crawlspace.dedupe-profile document");
    assert_eq!(c.ok("PROFILE"), bulk("browsertrix"));
    c.refused("PROFILE document", "HASCRAWLS");
    c.commit("a");
    assert_eq!(c.plain("EXISTS p:alldupes"), int(1));
    assert_eq!(c.owners([1]), ["a"]);
    let mut q = DedupeIndex::of(&server, "q:");
    q.refused("PROFILE warcprox", "ERR warcprox");
    assert_eq!(q.ok("PROFILE browsertrix"), simple("OK"));
    assert_eq!(q.ok("PROFILE"), bulk("browsertrix"));
}

#[test]
fn retry_after_the_commit_changes_nothing() {
    let (server, mut c) = DedupeIndex::start(P);
    assert_eq!(c.ok("ADD a SEQ w 1 @1"), int(1));
    c.commit("a");
    let before = server.snapshot();
    assert_eq!(c.ok("ADD a SEQ w 1 @1"), int(1));
    server.snapshot().assert_same(&before, "numbered retry");
    assert_eq!(c.ok("ADD a @1"), int(0));
    server.snapshot().assert_same(&before, "the same record");
}

#[test]
fn index_of_a_newer_format_is_left_alone() {
    let (server, mut c) = DedupeIndex::start(P);
    c.add("a", [1]);
    c.plain("HSET p:crawlspace format 999");
    let before = server.snapshot();
    for line in ["LOOKUP #1", "COMMIT a", "REPAIR", "STATS", "PACK", "UNPACK"] {
        c.refused(line, "BADFORMAT 999");
    }
    server.snapshot().assert_same(&before, "refused commands");
}
