//! Tests that no capture is shown if a name is unknown or data are missing (fail closed).

use crate::stage;
use redis_tests::{Server, TagSpace, array, assert_error, bulk, int, ok, rows};

const NONE: [&str; 0] = [];

fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    s.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    s.ok("ADD TAG coll:1 org:1");
    s.ok("ADD TAG coll:2 org:1 private");
    s.ok("POINTSET all 'coll:* & !private'");
    s.ok("POINTSET careless !private");
    s
}

const FILES: [&str; 4] = rows![
    "ARCHIVEIT-1-a.warc"; "ARCHIVEIT-2-a.warc"; "ARCHIVEIT-3-a.warc"; "unrecognised.warc";
];

#[test]
fn all_public_needs_a_collection() {
    let (_server, mut s) = stage(space);
    assert_eq!(
        s.kept("POINT all FORMAT FILE", &FILES),
        [FILES[0], FILES[2]]
    );
    // According to the documentation, a capture that no rule matches is not private.
    assert_eq!(
        s.kept("POINT careless FORMAT FILE", &FILES),
        [FILES[0], FILES[2], FILES[3]]
    );
    assert_eq!(
        s.kept("WHERE 'org:1 & !private' FORMAT FILE", &FILES),
        [FILES[0]]
    );
}

#[test]
fn unknown_point_is_an_error_with_any_other_arguments() {
    let (_server, mut s) = stage(space);
    for arguments in rows![
        "POINT nobody FORMAT FILE"; "POINT nobody WHERE * FORMAT FILE";
        "POINT nobody FORMAT FILE RETURN COUNT"; "POINT nobody LIMIT 0 FORMAT FILE";
        "POINT nobody FORMAT FILE BADLINES DROP"; "WHERE '@nobody | *' FORMAT FILE";
        "WHERE '* | @nobody' FORMAT FILE LIMIT 0";
    ] {
        let words = format!("FILTER {arguments} LINES");
        s.refused_with(&words, &FILES, "NOPOINT ");
        s.refused_with(&words.replace(" LINES", " BLOB"), &[""], "NOPOINT ");
    }
    s.ok("POINTDEL all");
    let words = ["all", "FORMAT", "FILE", "LINES", "x"];
    s.refused_with("FILTER POINT", &words, "NOPOINT ");
    s.refused("LIST @nobody", "NOPOINT ");
    let words = ["nobody", "FORMAT", "FILE", "LINES", "x"];
    s.refused_with("EXPLAIN POINT", &words, "NOPOINT ");
}

#[test]
fn missing_key_shows_nothing() {
    let (_server, mut s) = stage(TagSpace::of);
    for arguments in rows![
        ""; "WHERE *"; "WHERE !private"; "WHERE 'a | !a'"; "FILTER status:.*"; "FILTER !tag:private";
    ] {
        let line = "k 2020 u m 200 d 7";
        assert_eq!(s.kept(arguments, &[line]), NONE, "{arguments}");
        let reply = s.ok_with(&format!("FILTER {arguments} RETURN BITS LINES"), &[line]);
        assert_eq!(reply, bulk([0]), "{arguments}");
        let reply = s.ok_with(&format!("FILTER {arguments} RETURN COUNT LINES"), &[line]);
        assert_eq!(reply, int(0), "{arguments}");
    }
    let words = ["all", "LINES", "k 2020 u m 200 d 7"];
    s.refused_with("FILTER POINT", &words, "NOPOINT ");
    let words = ["@all", "LINES", "k 2020 u m 200 d 7"];
    s.refused_with("FILTER WHERE", &words, "NOPOINT ");
    let words = ["*", "FORMAT", "FILE", "LINES", "f"];
    assert_eq!(s.ok_with("EXPLAIN WHERE", &words).field("keep"), int(0));
    // Invalid syntax is an error in any case.
    s.refused_with("FILTER WHERE", &["a &", "LINES", "x"], "SYNTAX ");
    assert_eq!(s.ok("LIST *").items()[1], array([]));
    assert!(!s.exists());
    for (name, n) in s.ok("INFO").pairs() {
        assert_eq!(n, int(0), "{name:?}");
    }
}

#[test]
fn key_that_is_deleted_expires_or_is_flushed_shows_nothing() {
    let (server, mut s) = stage(space);
    let gone: [&[&str]; 5] = rows![
        &["DEL", "tags"]; &["UNLINK", "tags"]; &["PEXPIREAT", "tags", "1"]; &["FLUSHALL"];
        &["RENAME", "tags", "other"];
    ];
    for words in gone {
        let mut s = space(&server);
        assert_eq!(s.kept("POINT all FORMAT FILE", &FILES).len(), 2);
        s.wire.expect_ok(words);
        assert_eq!(s.kept("WHERE * FORMAT FILE", &FILES), NONE, "{words:?}");
        let words = ["all", "FORMAT", "FILE", "LINES", "x"];
        s.refused_with("FILTER POINT", &words, "NOPOINT ");
        ok!(s.wire, "FLUSHALL");
    }
    assert_eq!(s.kept("WHERE * FORMAT FILE", &FILES), NONE);
    // A new space with the same key is a different space.
    let mut other = space(&server);
    other.ok("POINTSET all coll:3");
    assert_eq!(s.kept("POINT all FORMAT FILE", &FILES), [FILES[2]]);
}

#[test]
fn unknown_tags_match_nothing() {
    let (_server, mut s) = stage(space);
    for expression in ["coll:99", "nobody*", "coll:{98|99}", "COLL:1", "coll:1*x"] {
        let words = [expression, "FORMAT", "FILE", "LINES"];
        let reply = s.call_with("FILTER WHERE", &[&words[..], &FILES].concat());
        assert!(
            reply.is_error() || reply == array([]),
            "{expression}: {reply:?}"
        );
    }
    assert_eq!(s.kept("FILTER tag.coll:99 FORMAT FILE", &FILES), NONE);
}

#[test]
fn spaces_in_a_column_bring_no_other_file_name() {
    let (_server, mut s) = stage(space);
    s.ok("ADD FILE public.warc coll:3");
    // Nine columns with spaces in the URL look like twelve columns, in which another column is the
    // name of the WARC file.
    for url in rows![
        "http://e.com/a 1 public.warc x"; "http://e.com/a - public.warc x"; "http://e.com/a b c";
        "http://e.com/ x y z"; "- - 7 public.warc";
    ] {
        for last in ["- 5", "- - 5", "- - 7 5"] {
            let line = format!("k 2020 {url} text/html 200 D {last} ARCHIVEIT-2-a.warc");
            let kept = s.kept("POINT all BADLINES DROP", &[&line]);
            assert_eq!(kept, NONE, "{line}");
        }
    }
}

#[test]
fn key_of_another_type_is_refused_by_every_command() {
    let (_server, mut s) = stage(TagSpace::of);
    ok!(s.wire, "SET", "tags", "v");
    ok!(s.wire, "LPUSH", "list", "v");
    for key in ["tags", "list"] {
        s.key = key.to_owned();
        for line in rows![
            "ADD FILE f t"; "REM FILE f t"; "GET FILE f"; "GET FILE f ALL"; "LOAD FILE MERGE f t";
            "LOAD FILE REPLACE"; "LOAD FILE STAGE f t"; "SWAP FILE"; "SWAP FILE DISCARD";
            "RULESET r filename x t"; "RULEDEL r"; "RULES"; "POINTSET p t"; "POINTDEL p"; "POINTS";
            "POINTS p"; "FILTER LINES x"; "FILTER POINT p FORMAT FILE LINES x"; "EXPLAIN FORMAT FILE LINES x";
            "LIST *"; "SCAN FILE 0"; "INFO";
        ] {
            s.refused(line, "WRONGTYPE ");
        }
    }
    // A string is not a tag space.
    s.key = "space".to_owned();
    s.ok("ADD FILE f t");
    assert_error(&s.wire.call(&["GET", "space"]), "WRONGTYPE", "GET");
    ok!(s.wire, "SET", "space", "v");
    s.err("GET FILE f");
}

#[test]
fn the_end_of_a_line_is_not_part_of_a_name() {
    let (_server, mut s) = stage(space);
    s.ok("ADD FILE ARCHIVEIT-1-secret.warc.gz private");
    s.ok("ADD RECORD 'u 2019 ARCHIVEIT-1-record.warc.gz 7' private");
    for name in ["secret", "record"] {
        let cdx = format!("u 2019 http://u m 200 d - - 1 7 ARCHIVEIT-1-{name}.warc.gz");
        let record = format!("u 2019 ARCHIVEIT-1-{name}.warc.gz 7");
        for (format, line) in [("CDX", &cdx), ("AUTO", &cdx), ("RECORD", &record)] {
            for end in ["", "\n", "\r", "\r\n", "\t", "\r\r\n", "\t\n"] {
                let line = format!("{line}{end}");
                for batch in ["LINES", "BLOB"] {
                    let words = format!(
                        "FILTER POINT all BADLINES DROP FORMAT {format} RETURN COUNT {batch}"
                    );
                    let kept = s.ok_with(&words, &[&line]);
                    assert_eq!(kept, int(0), "{words} {line:?}");
                }
            }
        }
    }
    let names = [
        "ARCHIVEIT-1-secret.warc.gz\n",
        "ARCHIVEIT-1-secret.warc.gz\r\n",
    ];
    assert_eq!(s.kept("POINT all FORMAT FILE", &names), NONE);
    s.refused_with(
        "FILTER POINT all FORMAT FILE LINES",
        &["a\nb"],
        "BADLINE line 1",
    );
}

#[test]
fn a_record_is_tagged_in_every_folder() {
    let (_server, mut s) = stage(space);
    s.ok("ADD RECORD 'u 2019 ARCHIVEIT-1-a.warc.gz 7' private");
    for folder in ["", "/w/", "a/b/"] {
        let line = format!("u/x 2019 http://u m 200 d - - 1 7 {folder}ARCHIVEIT-1-a.warc.gz");
        let other = line.replace("u/x", "u");
        assert_eq!(s.kept("POINT all", &[&line, &other]), [line]);
    }
}

#[test]
fn text_of_a_name_in_a_regex_is_literal() {
    let (_server, mut s) = stage(space);
    for (expression, name) in rows![
        "\\$1", "S"; "(?$1)", "i"; "\\x{$1}", "41"; "A{$1}", "0,"; "[$1]", "^x"; "$1", ".*"; "x|$1", "|";
    ] {
        s.ok_with(
            "POINTSET",
            &["p-(.+)", &format!("filename~\"{expression}\"")],
        );
        // The point may cause an error, but must not show more captures.
        let point = format!("p-{name}");
        let words = [
            "FILTER", "FORMAT", "FILE", "RETURN", "COUNT", "POINT", &point, "LINES",
        ];
        let mut call = s.words(words[0]);
        call.extend(words[1..].iter().map(|word| word.as_bytes().to_vec()));
        call.push(FILES[0].as_bytes().to_vec());
        let reply = s.wire.call(&call);
        assert!(
            reply.is_error() || reply == int(0),
            "{expression} {name}: {reply:?}"
        );
    }
}
