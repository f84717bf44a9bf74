//! Listings of a tag space: `SCAN`, `LIST` and `INFO`.

use std::collections::{BTreeMap, BTreeSet};

use crate::stage;
use redis_tests::{Rng, Server, TagSpace, array, bulk, int, ok, rows};

/// Returns every page of a listing. The cursor is inserted between `before` and `after`.
fn walk(s: &mut TagSpace, before: &str, after: &str) -> Vec<Vec<String>> {
    let mut cursor = "0".to_owned();
    let mut pages = Vec::new();
    loop {
        let reply = s.ok(format!("{before} {cursor} {after}"));
        let [next, page] = reply.items() else {
            panic!("{reply:?}");
        };
        pages.push(page.texts());
        cursor = next.text();
        if cursor == "0" {
            return pages;
        }
        assert!(pages.len() < 100_000, "the listing returns too many pages");
    }
}

fn pairs(pages: Vec<Vec<String>>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for page in pages {
        for pair in page.chunks(2) {
            all.insert(pair[0].clone(), pair[1].clone());
        }
    }
    all
}

fn filled(server: &Server, count: usize) -> (TagSpace, BTreeMap<String, String>) {
    let mut s = TagSpace::of(server);
    let all: BTreeMap<String, String> = (0..count)
        .map(|n| (format!("file-{n}"), format!("coll:{} x{n}", n % 10)))
        .collect();
    let words: Vec<&String> = all.iter().flat_map(|(id, tags)| [id, tags]).collect();
    s.ok_with("LOAD FILE MERGE", &words);
    (s, all)
}

#[test]
fn scan_gives_every_id_with_its_tags() {
    let server = Server::start();
    let (mut s, all) = filled(&server, 1000);
    for count in ["", "COUNT 1", "COUNT 7", "COUNT 100000"] {
        let pages = walk(&mut s, "SCAN FILE", count);
        let longest = pages.iter().map(Vec::len).max();
        assert!(count != "COUNT 7" || longest < Some(100), "{longest:?}");
        assert_eq!(pairs(pages), all, "{count}");
    }
    let found = pairs(walk(&mut s, "SCAN FILE", "PREFIX file-99"));
    let wanted = all.iter().filter(|(id, _)| id.starts_with("file-99"));
    let wanted: BTreeMap<String, String> = wanted.map(|(a, b)| (a.clone(), b.clone())).collect();
    assert_eq!(found, wanted);
    assert_eq!(
        pairs(walk(&mut s, "SCAN FILE", "PREFIX none COUNT 3")).len(),
        0
    );
    assert_eq!(s.ok("SCAN TAG 0"), array([bulk("0"), array([])]));
    for line in rows![
        "SCAN FILE"; "SCAN FILE x"; "SCAN FILE -1"; "SCAN NONE 0"; "SCAN FILE 0 COUNT 0";
        "SCAN FILE 0 COUNT x"; "SCAN FILE 0 PREFIX"; "SCAN FILE 0 NONE";
    ] {
        s.err(line);
    }
}

#[test]
fn scan_gives_tags_sorted_and_ids_byte_for_byte() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok_with("ADD RECORD", &[&b"a b \xff\x00"[..], b"z", b"\xfe", b"a"]);
    let reply = s.ok("SCAN RECORD 0");
    assert_eq!(
        reply,
        array([bulk("0"), array([bulk(b"a b \xff\x00"), bulk(b"a z \xfe")])])
    );
}

#[test]
fn scan_returns_every_id_that_exists_throughout() {
    let server = Server::start();
    let mut rng = Rng::new("scan_returns_every_id_that_exists_throughout");
    for round in 0..20 {
        let (mut s, all) = filled(&server, 300);
        let mut other = TagSpace::of(&server);
        let mut removed = BTreeSet::new();
        let mut found = BTreeSet::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = s.ok(format!("SCAN FILE {cursor} COUNT {}", 1 + rng.below(20)));
            let page = reply.items()[1].texts();
            found.extend(page.chunks(2).map(|pair| pair[0].clone()));
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
            match rng.below(5) {
                0 => {
                    let id = format!("file-{}", rng.below(300));
                    other.ok(format!("LOAD FILE SET {id} ''"));
                    removed.insert(id);
                }
                1 => {
                    let n = rng.below(100) + 1;
                    let new: Vec<String> = (0..n)
                        .flat_map(|n| [format!("new-{round}-{n}"), "t".into()])
                        .collect();
                    other.ok_with("LOAD FILE MERGE", &new);
                }
                2 => {
                    other.ok(format!(
                        "ADD FILE file-{} more{}",
                        rng.below(300),
                        rng.below(99)
                    ));
                }
                3 => {
                    let gone: Vec<String> = (0..100)
                        .flat_map(|n| [format!("new-{round}-{n}"), String::new()])
                        .collect();
                    other.ok_with("LOAD FILE SET", &gone);
                }
                _ => (),
            }
        }
        for id in all.keys().filter(|id| !removed.contains(*id)) {
            assert!(found.contains(id), "{id} existed all the time");
        }
        ok!(s.wire, "FLUSHALL");
    }
}

#[test]
fn list_gives_the_tags_that_satisfy_an_expression() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("ADD TAG coll:1 org:1");
    s.ok("ADD TAG coll:2 org:1 private");
    s.ok("ADD TAG coll:3 org:2");
    s.ok("ADD FILE f coll:4 own");
    s.ok("ADD RECORD r of-record");
    s.ok("RULESET r filename (.) by-rule");
    s.ok("POINTSET pub 'coll:* & !private'");
    let list = |s: &mut TagSpace, line: &str| {
        let mut tags = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let reply = s.ok(format!("LIST {line} CURSOR {cursor}"));
            tags.extend(reply.items()[1].texts());
            cursor = reply.items()[0].text();
            if cursor == "0" {
                break;
            }
        }
        tags.sort();
        tags.dedup();
        tags
    };
    let all = rows![
        "coll:1"; "coll:2"; "coll:3"; "coll:4"; "of-record"; "org:1"; "org:2"; "own"; "private";
    ];
    assert_eq!(list(&mut s, "*"), all);
    assert_eq!(list(&mut s, "* COUNT 1"), all);
    assert_eq!(list(&mut s, "@pub"), ["coll:1", "coll:3", "coll:4"]);
    assert_eq!(list(&mut s, "'coll:* & private' COUNT 2"), ["coll:2"]);
    assert_eq!(list(&mut s, "org:1"), ["coll:1", "coll:2", "org:1"]);
    assert_eq!(
        list(&mut s, "org:1 PREFIX coll: COUNT 1"),
        ["coll:1", "coll:2"]
    );
    assert_eq!(list(&mut s, "'!org:*' PREFIX coll:"), ["coll:4"]);
    assert_eq!(list(&mut s, "none"), [""; 0]);
    assert_eq!(list(&mut s, "* PREFIX org:"), ["org:1", "org:2"]);
    for test in ["status=200", "'a | url*=x'", "filename~x"] {
        s.refused(format!("LIST {test}"), "BADFIELD ");
    }
    // A tag without edges does not exist.
    s.ok("REM FILE f own");
    s.ok("REM TAG coll:3 org:2");
    let left = rows![
        "coll:1"; "coll:2"; "coll:4"; "of-record"; "org:1"; "private";
    ];
    assert_eq!(list(&mut s, "*"), left);
    for line in rows![
        "LIST"; "LIST * COUNT 0"; "LIST * COUNT x"; "LIST * CURSOR x"; "LIST * NONE"; "LIST * PREFIX";
    ] {
        s.err(line);
    }
}

#[test]
fn list_pages_through_many_tags() {
    let (_server, mut s) = stage(TagSpace::of);
    let many: Vec<String> = (0..5000)
        .flat_map(|n| [format!("coll:{n}"), format!("org:{}", n % 7)])
        .collect();
    s.ok_with("LOAD TAG MERGE", &many);
    s.ok("ADD TAG coll:77 private");
    let first = s.ok("LIST coll:*");
    assert_ne!(first.items()[0].text(), "0", "more than a thousand");
    assert!(first.items()[1].items().len() <= 1000);
    let mut found = BTreeSet::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = s.ok(format!(
            "LIST 'coll:* & org:3 & !private' CURSOR {cursor} COUNT 50"
        ));
        found.extend(reply.items()[1].texts());
        cursor = reply.items()[0].text();
        if cursor == "0" {
            break;
        }
    }
    let wanted = (0..5000)
        .filter(|n| n % 7 == 3 && *n != 77)
        .map(|n| format!("coll:{n}"));
    assert_eq!(found, wanted.collect());
}

#[test]
fn info_shows_all_figures() {
    let (_server, mut s) = stage(TagSpace::of);
    let empty = s.ok("INFO");
    for (name, value) in empty.pairs() {
        assert_eq!(value, int(0), "{name:?}");
    }
    assert!(!s.exists());
    s.ok("ADD RECORD r a b");
    s.ok("ADD FILE f a");
    s.ok("ADD FILE g a b c");
    s.ok("ADD TAG a x");
    s.ok("LOAD FILE STAGE h a i b j ''");
    s.ok("LOAD TAG STAGE h a");
    s.ok("RULESET r filename x t");
    s.ok("POINTSET p t");
    s.ok("POINTSET q t");
    for (name, value) in rows![
        "record-ids", 1; "record-edges", 2; "file-ids", 2; "file-edges", 4; "tag-ids", 1; "tag-edges", 1;
        "staged-record-ids", 0; "staged-file-ids", 2; "staged-tag-ids", 1; "rules", 1; "points", 2;
    ] {
        assert_eq!(s.figure(name), value, "{name}");
    }
    // The tags in edges are a, b, c and x, and possibly those of staged copies.
    assert_eq!(s.figure("tags"), 4);
    assert!(s.figure("memory") > 0);
    s.ok("REM FILE g c b");
    assert_eq!(s.figure("tags"), 3, "the record still has the tag b");
    s.ok("REM RECORD r b");
    assert_eq!(s.figure("tags"), 2);
    assert_eq!(s.figure("record-edges"), 1);
    ok!(s.wire, "PING");
}
