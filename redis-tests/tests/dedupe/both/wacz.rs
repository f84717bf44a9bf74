//! The list of WACZ files of a crawl, and the WACZ files that it requires.

use redis_tests::{DedupeIndex, array, bulk, int, nil, ok, rows, words_of};

const P: &str = "p:";

#[test]
fn opening_is_idempotent_per_filename() {
    let (_server, mut c) = DedupeIndex::start(P);
    assert_eq!(c.ok("WACZOPEN a 0.wacz"), int(0));
    assert_eq!(c.ok("WACZOPEN a 1.wacz"), int(1));
    assert_eq!(c.ok("WACZOPEN a 0.wacz"), int(0));
    assert_eq!(c.set("uncommittedcrawls"), ["a"]);
    assert_eq!(c.plain("LLEN p:c:a:wacz"), int(2));
    assert_eq!(
        c.plain("LINDEX p:c:a:wacz 1"),
        bulk(r#"{"filename":"1.wacz"}"#)
    );
}

#[test]
fn closing_twice_adds_the_size_once() {
    let (server, mut c) = DedupeIndex::start(P);
    c.ok("WACZOPEN a 0.wacz");
    let close = |c: &mut DedupeIndex, size: i64| {
        let reply = c.ok(format!("WACZCLOSE a 0 0.wacz sha256:ab {size}"));
        assert_eq!(reply, redis_tests::simple("OK"));
        c.counts("h:a:counts")["totalCrawlSize"]
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
    let entry = &list.items()[0];
    let [name, hash, size] = ["filename", "hash", "size"].map(|name| entry.field(name));
    assert_eq!([name, hash], [bulk("0.wacz"), bulk("sha256:ab")]);
    assert_eq!(size, int(100));
}

#[test]
fn file_that_is_closed_under_another_name_takes_its_place() {
    let (server, mut c) = DedupeIndex::start(P);
    c.add("other", [1]);
    c.ok("WACZOPEN other all.wacz");
    c.ok("WACZCLOSE other 0 all.wacz '' 5");
    c.commit("other");
    let base = server.snapshot();
    for crawl in ["a", "b"] {
        c.ok(format!("WACZOPEN {crawl} 2026-open.wacz"));
    }
    let close = |name: &str, option: &str| format!("WACZCLOSE a 0 {name} sha256:ab 500 {option}");
    c.refused(close("all.wacz", ""), "ERR RENAME");
    c.ok(close("all.wacz", "RENAME"));
    let before = server.snapshot();
    for option in ["RENAME", "rename", ""] {
        c.ok(close("all.wacz", option));
    }
    for (name, option) in rows!["third.wacz", "RENAME"; "2026-open.wacz", ""; "all.wacz", "AS";] {
        c.refused(close(name, option), "ERR");
    }
    server.snapshot().assert_same(&before, "the same again");
    assert_eq!(c.counts("h:a:counts")["totalCrawlSize"], 500);
    assert_eq!(c.ok("WACZOPEN a all.wacz"), int(0));
    c.commit("a");
    assert_eq!(c.set("src:d"), ["all.wacz"]);
    // Another crawl with the same file name that is never committed has no effect.
    c.ok("WACZCLOSE b 0 all.wacz '' 7 RENAME");
    c.ok("CANCEL b");
    assert_eq!(c.set("src:d"), ["all.wacz"]);
    c.ok("REMOVE a");
    assert_eq!(c.set("src:d"), ["all.wacz"]);
    let after = server.snapshot().without_counters();
    after.assert_same(&base.without_counters(), "both are gone");
}

#[test]
fn rename_since_the_last_commit_is_undone_by_a_cancel() {
    let (server, mut c) = DedupeIndex::start(P);
    c.ok("WACZOPEN a open.wacz");
    c.commit("a");
    let before = server.snapshot();
    c.ok("WACZCLOSE a 0 closed.wacz '' 7 RENAME");
    c.ok("CANCEL a");
    server.snapshot().assert_same(&before, "canceled");
}

#[test]
fn closed_entry_is_plain_json() {
    let (_server, mut c) = DedupeIndex::start(P);
    let name = "q\"uote \\ \u{e9}.wacz";
    c.wacz("a", name);
    let json = "{\"filename\":\"q\\\"uote \\\\ \u{e9}.wacz\",\"hash\":\"sha256:ab\",\"size\":100}";
    assert_eq!(c.plain("LINDEX p:c:a:wacz 0"), bulk(json));
    let list = c.ok("WACZLIST a");
    assert_eq!(list.items()[0].field("filename"), bulk(name));
}

#[test]
fn closing_what_is_not_open_changes_nothing() {
    let (server, mut c) = DedupeIndex::start(P);
    c.ok("WACZOPEN a 0.wacz");
    let before = server.snapshot();
    for file in ["1 0.wacz", "0 other.wacz", "-1 0.wacz", "x 0.wacz"] {
        c.refused(format!("WACZCLOSE a {file} sha256:ab 5"), "ERR");
    }
    for size in ["''", "x", "-1", "1.5", "99999999999999999999"] {
        let close = format!("WACZCLOSE a 0 0.wacz sha256:ab {size}");
        c.refused(close, "ERR size");
    }
    c.refused("WACZCLOSE b 0 0.wacz h 5", "NOCRAWL");
    server.snapshot().assert_same(&before, "refused WACZCLOSE");
}

#[test]
fn entries_of_plain_clients_are_read() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.plain("SADD p:uncommittedcrawls a");
    let closed = r#"{ "size": 7, "filename": "p.wacz", "hash": "sha256:00", "x": [1] }"#;
    let open = r#"{"filename":"open.wacz"}"#;
    c.plain(format!("RPUSH p:c:a:wacz '{closed}' {open}"));
    let list = c.ok("WACZLIST a");
    assert_eq!(list.items()[0].field("size"), int(7));
    assert_eq!(list.items()[1].field("filename"), bulk("open.wacz"));
    assert_eq!(list.items()[1].find("hash"), None);
    assert_eq!(c.ok("WACZOPEN a p.wacz"), int(0));
    assert_eq!(c.ok("WACZOPEN a new.wacz"), int(2));
}

/// Creates `base` ← `middle` ← `top` with two WACZ files each. The second file of `base` is never
/// closed.
fn chain(c: &mut DedupeIndex) {
    for (id, n) in [("base", 0), ("middle", 10), ("top", 20)] {
        for i in 0..2 {
            c.ok(format!("WACZOPEN {id} {id}-{i}.wacz"));
            if (id, i) != ("base", 1) {
                let close = format!("WACZCLOSE {id} {i} {id}-{i}.wacz sha256:{id}{i} 10{i}");
                c.ok(close);
            }
        }
        let second = format!("#{} 1 20260101000000 http://e.com/ 900", n + 1);
        c.ok(format!("ADD {id} @{n} {second}"));
        c.commit(id);
        if id == "base" {
            c.ok("REVISIT middle REF uuid-m #0 5");
        }
        if id == "middle" {
            c.ok("REVISIT top REF uuid-t #11 5 #11 5");
        }
    }
}

/// Returns the sorted names of the files in the reply to a line.
fn names(c: &mut DedupeIndex, line: &str) -> Vec<String> {
    let reply = c.ok(line);
    let entries = reply.items().iter();
    let mut names: Vec<String> = entries.map(|e| e.field("filename").text()).collect();
    names.sort();
    names
}

#[test]
fn requires_lists_every_wacz_of_the_required_crawls() {
    let (_server, mut c) = DedupeIndex::start(P);
    chain(&mut c);
    let entries = concat!(
        r#"[["filename", "base-0.wacz", "hash", "sha256:base0", "size", 100, "crawlId", "base"], "#,
        r#"["filename", "base-1.wacz", "crawlId", "base"]]"#
    );
    let reply = c.ok("REQUIRES middle FORMAT RESP");
    assert_eq!(format!("{reply:?}"), entries);
    let json = concat!(
        r#"[{"filename":"base-0.wacz","hash":"sha256:base0","size":100,"crawlId":"base"},"#,
        r#"{"filename":"base-1.wacz","crawlId":"base"}]"#
    );
    assert_eq!(c.ok("REQUIRES middle"), bulk(json));
    assert_eq!(c.ok("REQUIRES base"), bulk("[]"));
}

#[test]
fn requires_by_reference_lists_exactly_the_wacz_files_used() {
    let (_server, mut c) = DedupeIndex::start(P);
    chain(&mut c);
    assert_eq!(c.set("uuid-t:duperefs"), ["middle 1"]);
    let used = names(&mut c, "REQUIRES REF uuid-t FORMAT RESP");
    assert_eq!(used, ["middle-1.wacz"]);
    let given = names(&mut c, "REQUIRES REFS 'middle 1' 'base 0' FORMAT RESP");
    assert_eq!(given, ["base-0.wacz", "middle-1.wacz"]);
    assert_eq!(c.ok("REQUIRES REF unknown"), bulk("[]"));
}

#[test]
fn requires_transitively_follows_the_required_crawls() {
    let (_server, mut c) = DedupeIndex::start(P);
    chain(&mut c);
    let middle = ["middle-0.wacz", "middle-1.wacz"];
    assert_eq!(names(&mut c, "REQUIRES top FORMAT RESP"), middle);
    let all = names(&mut c, "REQUIRES top TRANSITIVE FORMAT RESP");
    assert_eq!(all, [["base-0.wacz", "base-1.wacz"], middle].concat());
}

#[test]
fn requires_survives_a_circle() {
    let (_server, mut c) = DedupeIndex::start(P);
    chain(&mut c);
    c.ok("REVISIT base #20 5");
    let all = names(&mut c, "REQUIRES top TRANSITIVE FORMAT RESP");
    assert!(!all.is_empty());
}

#[test]
fn requiredby_names_the_crawls_that_would_break() {
    let (_server, mut c) = DedupeIndex::start(P);
    chain(&mut c);
    let one = |crawl: &str, times| array([array([bulk(crawl), times])]);
    assert_eq!(c.ok("REQUIREDBY middle"), one("top", int(2)));
    assert_eq!(c.ok("REQUIREDBY base"), one("middle", int(1)));
    assert_eq!(c.ok("REQUIREDBY top"), array([]));
    c.plain("SADD p:uncommittedcrawls plain");
    c.plain("SADD p:plain:reqCrawls top");
    assert_eq!(c.ok("REQUIREDBY top"), one("plain", nil()));
}

#[test]
fn unknown_crawls_are_named() {
    let (_server, mut c) = DedupeIndex::start(P);
    for name in ["REQUIRES", "REQUIREDBY", "WACZLIST", "STATS"] {
        c.refused(format!("{name} nobody"), "NOCRAWL nobody");
    }
}

#[test]
fn requires_is_utf8_for_names_of_any_bytes() {
    let (_server, mut c) = DedupeIndex::start(P);
    let (crawl, file) = (b"base\xfe\"\\", b"f\xff\xc3\x28\xed\xa0\x80\x01\"\\.wacz");
    ok!(c, "DEDUPE.WACZOPEN", P, crawl, file);
    let [hash, index, date, url, size] = words_of(1);
    ok!(c, "DEDUPE.ADD", P, crawl, hash, index, date, url, size);
    ok!(c, "DEDUPE.COMMIT", P, crawl);
    c.add("top", [2]);
    c.ok("REVISIT top REF u #1 1");
    let crawl_id = "\"crawlId\":\"base\u{fffd}\\\"\\\\\"";
    for line in ["REQUIRES top", "REQUIRES REF u"] {
        let json = c.ok(line);
        let text = std::str::from_utf8(json.bytes()).expect("JSON text is UTF-8");
        assert!(text.contains("\"filename\":\"f\u{fffd}"), "{text}");
        assert!(text.contains(crawl_id), "{text}");
        assert!(!text.bytes().any(|b| b < b' '), "{text:?}");
        // All quotes inside strings must be escaped.
        let quotes = text.replace("\\\\", "").replace("\\\"", "");
        assert_eq!(quotes.matches('"').count() % 4, 0, "{text}");
    }
    // A client that needs the raw bytes can request RESP.
    let list = c.ok("REQUIRES top FORMAT RESP");
    assert_eq!(list.items()[0].field("filename"), bulk(file));
    assert_eq!(list.items()[0].field("crawlId"), bulk(crawl));
}
