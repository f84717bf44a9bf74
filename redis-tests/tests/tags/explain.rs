//! `EXPLAIN` shows the source of each tag and the result of each clause, and its verdict agrees
//! with `FILTER`.

use crate::stage;
use redis_tests::{Reply, Server, TagSpace, array, bulk, int, ok, rows};

const LINE: &str = "com,example)/a 20200102030405 http://example.com/a text/html 200 SHA1 - - 123 456 d/ARCHIVEIT-7-x.warc.gz";

fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    s.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    s.ok("ADD TAG coll:7 org:1");
    s.ok("ADD TAG org:1 country:nz");
    s.ok("ADD FILE ARCHIVEIT-7-x.warc.gz of-file");
    s.ok("ADD RECORD 'com,example)/a 20200102030405 d/ARCHIVEIT-7-x.warc.gz 456' of-record");
    s.ok("POINTSET org-(\\d+) 'org:$1 & !private'");
    s
}

fn explain(s: &mut TagSpace, arguments: &str, line: &str) -> Reply {
    s.ok_with(&format!("EXPLAIN {arguments} LINES"), &[line])
}

#[test]
fn tags_come_with_their_sources() {
    let (_server, mut s) = stage(space);
    let reply = explain(&mut s, "", LINE);
    let pair = |tag: &str, source: &str| array([bulk(tag), bulk(source)]);
    let expected = array([
        pair("coll:7", "rule coll"),
        pair("country:nz", "tag org:1"),
        pair("of-file", "file"),
        pair("of-record", "record"),
        pair("org:1", "tag coll:7"),
    ]);
    let mut tags = reply.field("tags").items().to_vec();
    tags.sort();
    assert_eq!(Reply::Array(tags), expected);
    assert_eq!(reply.field("keep"), int(1));
    assert_eq!(reply.field("format").text().to_lowercase(), "cdx");
    let record = "com,example)/a 20200102030405 d/ARCHIVEIT-7-x.warc.gz 456";
    assert_eq!(reply.field("record").text(), record);
    assert!(!reply.field("why").text().is_empty());
}

#[test]
fn formats_and_record_ids_are_shown() {
    let (_server, mut s) = stage(space);
    for (format, line, told, record) in rows![
        "AUTO", "k 2020 u m 200 d 7", "cdx", "k 2020 - -";
        "CDX", "k 2020 u m 200 d - 5 f", "cdx", "k 2020 f 5";
        "AUTO", r#"k 2020 {"offset": 5, "filename": "f"}"#, "cdxj", "k 2020 f 5";
        "RECORD", "k 2020 f 5", "record", "k 2020 f 5";
    ] {
        let reply = explain(&mut s, &format!("FORMAT {format}"), line);
        assert_eq!(reply.field("format").text().to_lowercase(), told, "{line}");
        assert_eq!(reply.field("record").text(), record, "{line}");
    }
    let reply = explain(&mut s, "FORMAT FILE", "d/f.warc");
    assert_eq!(reply.field("format").text().to_lowercase(), "file");
}

/// Collects every clause with its parts, depth first: text and verdict.
fn clauses(reply: &Reply, into: &mut Vec<(String, i64)>) {
    for clause in reply.items() {
        let [text, verdict, parts] = clause.items() else {
            panic!("{clause:?}");
        };
        into.push((text.text(), verdict.int()));
        clauses(parts, into);
    }
}

#[test]
fn each_clause_has_its_verdict() {
    let (_server, mut s) = stage(space);
    let arguments = "POINT org-1 WHERE 'coll:8 | country:*' FILTER status:404 !tag:private";
    let reply = explain(&mut s, arguments, LINE);
    assert_eq!(reply.field("keep"), int(0));
    let top = reply.field("clauses");
    let verdicts: Vec<i64> = top.items().iter().map(|c| c.items()[1].int()).collect();
    assert_eq!(verdicts, [1, 1, 0, 1], "{top:?}");
    let mut all = Vec::new();
    clauses(&top, &mut all);
    let has = |what: &str, verdict: i64| {
        all.iter()
            .any(|(text, v)| text.contains(what) && *v == verdict)
    };
    for (what, verdict) in rows![
        "org:1", 1; "private", 0; "coll:8", 0; "country:*", 1; "status:404", 0;
    ] {
        assert!(has(what, verdict), "{what} {verdict}: {all:?}");
    }
    let why = reply.field("why").text();
    assert!(why.contains("status:404"), "{why}");
}

#[test]
fn verdict_is_that_of_filter() {
    let (_server, mut s) = stage(space);
    for arguments in rows![
        ""; "WHERE coll:7"; "WHERE coll:8"; "POINT org-1"; "POINT org-2";
        "WHERE 'of-file & of-record & org:1'"; "WHERE '!of-file'"; "FILTER status:200"; "FILTER !status:200";
        "FILTER tag.coll:7|8 !tag:private"; "DIALECT PYWB FILTER =status:200 html";
        "DIALECT IA FILTER '.* 200 .*'"; "POINT org-1 WHERE status=404";
    ] {
        let keeps = s.kept(arguments, &[LINE]).len() as i64;
        let reply = explain(&mut s, arguments, LINE);
        assert_eq!(reply.field("keep"), int(keeps), "{arguments}: {reply:?}");
    }
}

#[test]
fn exactly_one_line_is_explained() {
    let (_server, mut s) = stage(space);
    s.err("EXPLAIN LINES");
    s.err("EXPLAIN FORMAT FILE LINES a b");
    s.err("EXPLAIN");
    s.refused("EXPLAIN LINES bad", "BADLINE line 1");
    s.refused_with("EXPLAIN FILTER colour:red LINES", &[LINE], "BADFIELD ");
    // `EXPLAIN` changes nothing.
    let before = s.digest();
    explain(&mut s, "WHERE x", LINE);
    assert_eq!(s.digest(), before);
}

#[test]
fn explanation_is_a_map_to_clients_of_resp3() {
    let server = Server::start();
    space(&server);
    let mut three = TagSpace::over(server.wire3(), "tags");
    let mut two = TagSpace::of(&server);
    for line in ["EXPLAIN FORMAT FILE LINES f", "INFO"] {
        let (old, new) = (two.ok(line), three.ok(line));
        assert!(matches!(new, Reply::Map(_)), "{line}: {new:?}");
        assert_eq!(new.as_resp2(), old, "{line}");
    }
    ok!(two.wire, "PING");
}

#[test]
fn a_tag_with_several_sources_is_shown_with_one_of_them() {
    let (_server, mut s) = stage(space);
    s.ok("ADD FILE ARCHIVEIT-7-x.warc.gz coll:7 org:1");
    s.ok("ADD RECORD 'com,example)/a 20200102030405 d/ARCHIVEIT-7-x.warc.gz 456' org:1");
    let reply = explain(&mut s, "", LINE);
    for pair in reply.field("tags").items() {
        let [tag, source] = &pair.texts()[..] else {
            panic!("{pair:?}");
        };
        let allowed: &[&str] = match &tag[..] {
            "coll:7" => &["rule coll", "file"],
            "org:1" => &["record", "file", "tag coll:7"],
            "country:nz" => &["tag org:1"],
            "of-file" => &["file"],
            "of-record" => &["record"],
            other => panic!("{other}"),
        };
        assert!(allowed.contains(&&source[..]), "{tag} from {source}");
    }
}
