//! The WACZ list of a crawl, and what a WACZ requires.

use redis_tests::{
    DedupeIndex, Server, Wire, add, bulk, commit, counts, int, nil, ok, set_key, sha256_of,
};

const P: &str = "p:";

#[test]
fn opening_is_idempotent_per_filename() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    assert_eq!(c.ok("WACZOPEN a 0.wacz"), int(0));
    assert_eq!(c.ok("WACZOPEN a 1.wacz"), int(1));
    assert_eq!(c.ok("WACZOPEN a 0.wacz"), int(0));
    assert_eq!(set_key(&mut c, "p:uncommittedcrawls"), ["a"]);
    assert_eq!(ok!(c, "LLEN", "p:c:a:wacz"), int(2));
    assert_eq!(
        ok!(c, "LINDEX", "p:c:a:wacz", 1),
        bulk(r#"{"filename":"1.wacz"}"#)
    );
}

#[test]
fn closing_twice_adds_the_size_once() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.ok("WACZOPEN a 0.wacz");
    let close = |c: &mut DedupeIndex, size: i64| {
        let reply = c.ok(format!("WACZCLOSE a 0 0.wacz sha256:ab '{size}'"));
        assert_eq!(reply, redis_tests::simple("OK"));
        counts(c, "p:h:a:counts")["totalCrawlSize"]
    };
    assert_eq!(close(&mut c, 500), 500);
    let before = server.snapshot();
    assert_eq!(close(&mut c, 500), 500);
    server
        .snapshot()
        .assert_same(&before, "the same close again");
    assert_eq!(close(&mut c, 700), 700);
    assert_eq!(close(&mut c, 100), 100);
    let list = c.ok("WACZLIST a");
    assert_eq!(list.items().len(), 1);
    assert_eq!(list.items()[0].field("filename"), bulk("0.wacz"));
    assert_eq!(list.items()[0].field("hash"), bulk("sha256:ab"));
    assert_eq!(list.items()[0].field("size"), int(100));
}

#[test]
fn file_that_is_closed_under_another_name_takes_its_place() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("other", [1]);
    c.ok("WACZOPEN other all.wacz");
    c.ok("WACZCLOSE other 0 all.wacz '' 5");
    c.commit("other");
    let base = server.snapshot();
    for crawl in ["a", "b"] {
        c.ok(format!("WACZOPEN '{crawl}' 2026-open.wacz"));
    }
    let close = |name: &str| format!("DEDUPE.WACZCLOSE {P} a 0 {name} sha256:ab 500");
    let words = |line: String| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let line = c.expect_error(&words(close("all.wacz")));
    assert!(
        line.starts_with("ERR ") && line.contains("RENAME"),
        "{line}"
    );
    c.expect_ok(&words(close("all.wacz") + " RENAME"));
    let before = server.snapshot();
    for option in [" RENAME", " rename", ""] {
        c.expect_ok(&words(close("all.wacz") + option));
    }
    for bad in [
        close("third.wacz") + " RENAME",
        close("2026-open.wacz"),
        close("all.wacz") + " AS",
    ] {
        assert!(c.expect_error(&words(bad)).starts_with("ERR "));
    }
    server.snapshot().assert_same(&before, "the same again");
    assert_eq!(counts(&mut c, "p:h:a:counts")["totalCrawlSize"], 500);
    assert_eq!(c.ok("WACZOPEN a all.wacz"), int(0));
    c.commit("a");
    assert_eq!(set_key(&mut c, "p:src:d"), ["all.wacz"]);
    // What a crawl of the same file name does that is never committed concerns nobody else.
    c.ok("WACZCLOSE b 0 all.wacz '' 7 RENAME");
    c.ok("CANCEL b");
    assert_eq!(set_key(&mut c, "p:src:d"), ["all.wacz"]);
    c.ok("REMOVE a");
    assert_eq!(set_key(&mut c, "p:src:d"), ["all.wacz"]);
    let counters = |key: &[u8]| key.ends_with(b"crawlspace");
    let base = base.without(counters);
    server
        .snapshot()
        .without(counters)
        .assert_same(&base, "both are gone");
}

#[test]
fn rename_since_the_last_commit_is_taken_back_by_a_cancel() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.ok("WACZOPEN a open.wacz");
    c.commit("a");
    let before = server.snapshot();
    c.ok("WACZCLOSE a 0 closed.wacz '' 7 RENAME");
    c.ok("CANCEL a");
    server.snapshot().assert_same(&before, "canceled");
}

#[test]
fn closed_entry_is_plain_json() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "q\"uote \\ \u{e9}.wacz");
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        P,
        "a",
        0,
        "q\"uote \\ \u{e9}.wacz",
        "sha256:ab",
        12
    );
    let entry = ok!(c, "LINDEX", "p:c:a:wacz", 0).text();
    assert_eq!(
        entry,
        "{\"filename\":\"q\\\"uote \\\\ \u{e9}.wacz\",\"hash\":\"sha256:ab\",\"size\":12}"
    );
    let list = c.ok("WACZLIST a");
    assert_eq!(
        list.items()[0].field("filename"),
        bulk("q\"uote \\ \u{e9}.wacz")
    );
}

#[test]
fn closing_what_is_not_open_changes_nothing() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.ok("WACZOPEN a 0.wacz");
    let before = server.snapshot();
    for (index, name) in [
        ("1", "0.wacz"),
        ("0", "other.wacz"),
        ("-1", "0.wacz"),
        ("x", "0.wacz"),
    ] {
        let line = c.err(format!("WACZCLOSE a '{index}' '{name}' sha256:ab 5"));
        assert!(line.starts_with("ERR "), "{line}");
    }
    for size in ["", "x", "-1", "1.5", "99999999999999999999"] {
        let line = c.err(format!("WACZCLOSE a 0 0.wacz sha256:ab '{size}'"));
        assert!(line.starts_with("ERR ") && line.contains("size"), "{line}");
    }
    assert!(c.err("WACZCLOSE b 0 0.wacz h 5").starts_with("NOCRAWL "));
    server.snapshot().assert_same(&before, "refused WACZCLOSE");
}

#[test]
fn entries_of_plain_clients_are_read() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    ok!(c, "SADD", "p:uncommittedcrawls", "a");
    ok!(
        c,
        "RPUSH",
        "p:c:a:wacz",
        r#"{ "size": 7, "filename": "p.wacz", "hash": "sha256:00", "x": [1] }"#
    );
    ok!(c, "RPUSH", "p:c:a:wacz", r#"{"filename":"open.wacz"}"#);
    let list = c.ok("WACZLIST a");
    assert_eq!(list.items()[0].field("size"), int(7));
    assert_eq!(list.items()[1].field("filename"), bulk("open.wacz"));
    assert_eq!(list.items()[1].find("hash"), None);
    assert_eq!(c.ok("WACZOPEN a p.wacz"), int(0));
    assert_eq!(c.ok("WACZOPEN a new.wacz"), int(2));
}

/// `base` ← `middle` ← `top`, each with two WACZ files; the second of `base` never finished.
fn chain(c: &mut Wire) {
    for (id, n) in [("base", 0), ("middle", 10), ("top", 20)] {
        for i in 0..2 {
            let name = format!("{id}-{i}.wacz");
            ok!(c, "DEDUPE.WACZOPEN", P, id, name);
            if (id, i) != ("base", 1) {
                let hash = format!("sha256:{id}{i}");
                ok!(c, "DEDUPE.WACZCLOSE", P, id, i, name, hash, 100 + i);
            }
        }
        add(c, P, id, [n]);
        ok!(
            c,
            "DEDUPE.ADD",
            P,
            id,
            sha256_of(n + 1),
            1,
            "20260101000000",
            "http://e.com/",
            900
        );
        commit(c, P, id);
        if id == "base" {
            ok!(
                c,
                "DEDUPE.REVISIT",
                P,
                "middle",
                "REF",
                "uuid-m",
                sha256_of(0),
                5
            );
        }
        if id == "middle" {
            ok!(
                c,
                "DEDUPE.REVISIT",
                P,
                "top",
                "REF",
                "uuid-t",
                sha256_of(11),
                5,
                sha256_of(11),
                5
            );
        }
    }
}

fn names(reply: &redis_tests::Reply) -> Vec<String> {
    reply
        .items()
        .iter()
        .map(|e| e.field("filename").text())
        .collect()
}

#[test]
fn requires_lists_every_wacz_of_the_required_crawls() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    chain(&mut c);
    let direct = c.ok("REQUIRES middle FORMAT RESP");
    assert_eq!(names(&direct), ["base-0.wacz", "base-1.wacz"]);
    let [closed, open] = direct.items() else {
        panic!("{direct:?}")
    };
    assert_eq!(closed.field("hash"), bulk("sha256:base0"));
    assert_eq!(closed.field("size"), int(100));
    assert_eq!(closed.field("crawlId"), bulk("base"));
    assert_eq!(open.field("crawlId"), bulk("base"));
    assert_eq!((open.find("hash"), open.find("size")), (None, None));

    let json = c.ok("REQUIRES middle").text();
    assert_eq!(
        json,
        concat!(
            r#"[{"filename":"base-0.wacz","hash":"sha256:base0","size":100,"crawlId":"base"},"#,
            r#"{"filename":"base-1.wacz","crawlId":"base"}]"#
        )
    );
    assert_eq!(c.ok("REQUIRES base"), bulk("[]"));
}

#[test]
fn requires_by_reference_lists_exactly_the_wacz_files_used() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    chain(&mut c);
    assert_eq!(set_key(&mut c, "p:uuid-t:duperefs"), ["middle 1"]);
    let used = c.ok("REQUIRES REF uuid-t FORMAT RESP");
    assert_eq!(names(&used), ["middle-1.wacz"]);
    let given = c.ok("REQUIRES REFS 'middle 1' 'base 0' FORMAT RESP");
    let mut given = names(&given);
    given.sort();
    assert_eq!(given, ["base-0.wacz", "middle-1.wacz"]);
    assert_eq!(c.ok("REQUIRES REF unknown"), bulk("[]"));
}

#[test]
fn requires_transitively_follows_the_required_crawls() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    chain(&mut c);
    let direct = c.ok("REQUIRES top FORMAT RESP");
    assert_eq!(names(&direct), ["middle-0.wacz", "middle-1.wacz"]);
    let all = c.ok("REQUIRES top TRANSITIVE FORMAT RESP");
    let mut all = names(&all);
    all.sort();
    assert_eq!(
        all,
        [
            "base-0.wacz",
            "base-1.wacz",
            "middle-0.wacz",
            "middle-1.wacz"
        ]
    );
}

#[test]
fn requires_survives_a_circle() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    chain(&mut c);
    c.ok("REVISIT base #20 5");
    let all = c.ok("REQUIRES top TRANSITIVE FORMAT RESP");
    assert!(!names(&all).is_empty());
}

#[test]
fn requiredby_names_the_crawls_that_would_break() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    chain(&mut c);
    let by = |c: &mut DedupeIndex, crawl: &str| c.ok(format!("REQUIREDBY '{crawl}'"));
    assert_eq!(
        by(&mut c, "middle").items(),
        [redis_tests::array([bulk("top"), int(2)])]
    );
    assert_eq!(
        by(&mut c, "base").items(),
        [redis_tests::array([bulk("middle"), int(1)])]
    );
    assert_eq!(by(&mut c, "top").items(), []);
    ok!(c, "SADD", "p:uncommittedcrawls", "plain");
    ok!(c, "SADD", "p:plain:reqCrawls", "top");
    assert_eq!(
        by(&mut c, "top").items(),
        [redis_tests::array([bulk("plain"), nil()])]
    );
}

#[test]
fn unknown_crawls_are_named() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for line in [
        c.err("REQUIRES nobody"),
        c.err("REQUIREDBY nobody"),
        c.err("WACZLIST nobody"),
        c.err("STATS nobody"),
    ] {
        assert!(
            line.starts_with("NOCRAWL ") && line.contains("nobody"),
            "{line}"
        );
    }
}

#[test]
fn requires_is_utf8_whatever_bytes_names_have() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let (crawl, file) = (b"base\xfe\"\\", b"f\xff\xc3\x28\xed\xa0\x80\x01\"\\.wacz");
    ok!(c, "DEDUPE.WACZOPEN", P, crawl, file);
    let [hash, index, date, url, size] = redis_tests::words_of(1);
    ok!(c, "DEDUPE.ADD", P, crawl, hash, index, date, url, size);
    ok!(c, "DEDUPE.COMMIT", P, crawl);
    c.add("top", [2]);
    c.ok("REVISIT top REF u #1 1");
    for words in [
        &["DEDUPE.REQUIRES", P, "top"][..],
        &["DEDUPE.REQUIRES", P, "REF", "u"],
    ] {
        let json = c.expect_ok(words);
        let text = std::str::from_utf8(json.bytes()).expect("JSON text is UTF-8");
        assert!(text.contains("\"filename\":\"f\u{fffd}"), "{text}");
        assert!(
            text.contains("\"crawlId\":\"base\u{fffd}\\\"\\\\\""),
            "{text}"
        );
        assert!(!text.bytes().any(|b| b < b' '), "{text:?}");
        // Every quote but those of the three or more strings is escaped.
        let quotes = text.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(quotes.matches('"').count() % 4, 0, "{text}");
    }
    // Who wants the bytes themselves gets them.
    let list = c.ok("REQUIRES top FORMAT RESP");
    assert_eq!(list.items()[0].field("filename"), bulk(file));
    assert_eq!(list.items()[0].field("crawlId"), bulk(crawl));
}
