//! Rules extract tags from the fields of a capture. All rules apply. Each uses the first match of
//! its regex.

use crate::stage;
use redis_tests::{TagSpace, array, bulk, int, ok, rows, simple};

const NONE: [&str; 0] = [];

/// Returns a line of eleven fields with this WARC name.
fn cdx(file: &str) -> String {
    format!(
        "com,example)/a 20200102030405 http://example.com/a text/html 200 SHA1 - - 123 456 {file}"
    )
}

/// Returns the tags of one line.
fn tags_of(s: &mut TagSpace, line: &str) -> Vec<String> {
    let kept = s.ok_with("FILTER WHERE * RETURN TAGS LINES", &[line]);
    let [one] = kept.items() else {
        panic!("expected one line, got {kept:?}");
    };
    assert_eq!(one.items()[0], int(0));
    one.items()[1].texts()
}

#[test]
fn rule_of_the_seed_finds_collections_in_file_names() {
    let (_server, mut s) = stage(TagSpace::of);
    let rule = "RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1";
    assert_eq!(s.ok(rule), simple("OK"));
    for (file, tags) in [
        ("ARCHIVEIT-1068-20200101.warc.gz", &["coll:1068"][..]),
        ("/data/7/ARCHIVEIT-22-x-ARCHIVEIT-33-.warc.gz", &["coll:22"]),
        ("NOT-ARCHIVEIT-22-.warc.gz", &[]),
        ("archiveit-22-.warc.gz", &[]),
        ("ARCHIVEIT--.warc.gz", &[]),
    ] {
        assert_eq!(tags_of(&mut s, &cdx(file)), tags, "{file}");
        assert_eq!(s.tags(&format!("FILE {file} ALL")), tags, "{file}");
        assert_eq!(s.tags(&format!("FILE {file}")), NONE, "they are not stored");
    }
}

#[test]
fn all_rules_apply_and_each_may_give_many_tags() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok(
        "RULESET a filename '(?P<year>\\d{4})-(x)?' year:${year} first:$0 opt:$2 cost:$$5 ${1}s $1",
    );
    s.ok("RULESET b filename A seen");
    s.ok("RULESET c status '^(.)' class:$1");
    s.ok("RULESET d url '^https?://([^/]+)' host:$1");
    let tags = tags_of(&mut s, &cdx("A-2020-B-2021-x"));
    let expected = rows![
        "2020"; "2020s"; "class:2"; "cost:$5"; "first:2020-"; "host:example.com"; "seen"; "year:2020";
    ];
    assert_eq!(tags, expected, "an idle group gives no tag");
    let tags = tags_of(&mut s, &cdx("2021-x"));
    assert!(tags.contains(&"opt:x".to_owned()), "{tags:?}");
}

#[test]
fn a_template_that_gives_no_valid_tag_is_ignored() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("RULESET e filename '(z*)' $1");
    assert_eq!(
        tags_of(&mut s, &cdx("abc")),
        NONE,
        "an empty text is not a tag"
    );
    s.ok("RULESET e filename '^(.*)$' t:$1");
    let long = "x".repeat(1022);
    assert_eq!(tags_of(&mut s, &cdx(&long)), [format!("t:{long}")]);
    assert_eq!(tags_of(&mut s, &cdx(&format!("{long}y"))), NONE, "too long");
    // A WARC name may contain spaces, but a tag may not.
    let kept = |s: &mut TagSpace, file: &str| {
        let reply = s.ok_with("FILTER WHERE * FORMAT FILE RETURN TAGS LINES", &[file]);
        reply.items()[0].items()[1].texts()
    };
    assert_eq!(kept(&mut s, "a b"), NONE);
    assert_eq!(kept(&mut s, "ab"), ["t:ab"]);
}

#[test]
fn closure_includes_tags_of_rules() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("RULESET coll filename 'C(\\d+)' coll:$1");
    s.ok("ADD TAG coll:7 org:1 private");
    s.ok("ADD TAG org:1 country:nz");
    let all = ["coll:7", "country:nz", "org:1", "private"];
    assert_eq!(tags_of(&mut s, &cdx("C7")), all);
    assert_eq!(s.tags("FILE C7 ALL"), all);
    assert_eq!(s.tags("RECORD 'k 1 d/C7 0' ALL"), all);
    assert_eq!(tags_of(&mut s, &cdx("C8")), ["coll:8"]);
}

#[test]
fn rules_look_at_every_field_and_alias() {
    let (_server, mut s) = stage(TagSpace::of);
    // The line has fourteen fields: the length, offset and file name of the original come last.
    let line = "key 20200102 url mime 200 digest redirect robots 11 22 file 33 44 o-file";
    for (field, value) in rows![
        "urlkey", "key"; "timestamp", "20200102"; "url", "url"; "original", "url"; "mime", "mime";
        "mimetype", "mime"; "status", "200"; "statuscode", "200"; "digest", "digest"; "redirect", "redirect";
        "redirecturl", "redirect"; "robotflags", "robots"; "length", "11"; "offset", "22"; "filename", "file";
    ] {
        s.ok(format!("RULESET r {field} (.+) $1"));
        assert_eq!(tags_of(&mut s, line), [value], "{field}");
    }
}

#[test]
fn get_all_of_a_record_looks_at_its_four_fields() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("RULESET k urlkey ^com,(\\w+) domain:$1");
    s.ok("RULESET t timestamp ^(\\d{4}) year:$1");
    s.ok("RULESET f filename ^(.)/ folder:$1");
    s.ok("RULESET o offset ^0$ first");
    let record = "com,example)/ 20200101 d/f.warc 0";
    let tags = ["domain:example", "first", "folder:d", "year:2020"];
    assert_eq!(s.tags(&format!("RECORD '{record}' ALL")), tags);
    let kept = s.ok_with("FILTER WHERE * FORMAT RECORD RETURN TAGS LINES", &[record]);
    assert_eq!(kept.items()[0].items()[1].texts(), tags);
    // A record whose id does not have the form of a `RECORD` id has only the tags that were added
    // to it.
    s.ok("ADD RECORD odd t");
    assert_eq!(s.tags("RECORD odd ALL"), ["t"]);
}

#[test]
fn rules_on_json_fields_are_silent_where_there_are_none() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("RULESET c collection (.+) coll:$1");
    s.ok("RULESET d x-my_field.a2 (.+) my:$1");
    let json =
        r#"com,example)/ 2020 {"collection": "a\u0062", "x-my_field.a2": 7, "filename": "f"}"#;
    assert_eq!(tags_of(&mut s, json), ["coll:ab", "my:7"]);
    assert_eq!(
        tags_of(&mut s, r#"com,example)/ 2020 {"filename": "f"}"#),
        NONE
    );
    assert_eq!(tags_of(&mut s, &cdx("f")), NONE);
    assert_eq!(s.tags("FILE f ALL"), NONE);
}

#[test]
fn fields_and_templates_are_checked() {
    let (_server, mut s) = stage(TagSpace::of);
    let before = s.exists();
    let long = "f".repeat(65);
    for field in ["", "a b", "a:b", "f\u{fc}", "f/g", &long, "\0"] {
        let error = s.refused_with("RULESET r", &[field, "x", "t"], "BADFIELD ");
        assert!(error.contains("is not the name of a field;"), "{error}");
    }
    for (template, at) in rows![
        "$", 0; "a$", 1; "$x", 0; "ab$3", 2; "${", 0; "${1", 0; "${}", 0; "${nobody}", 0; "${9}", 0; "$$$", 2;
        "$1$ ", 2;
    ] {
        let error = s.refused_with("RULESET r filename (a)(b)", &[template], "SYNTAX ");
        let place = error
            .rsplit(' ')
            .next()
            .and_then(|n| n.parse::<usize>().ok());
        let place = place.unwrap_or_else(|| panic!("{template}: {error}"));
        assert!(
            place >= at && place <= template.len(),
            "{template}: {error}"
        );
        assert!(error.contains(" at byte "), "{template}: {error}");
    }
    for regex in rows![
        "("; "["; "a**b("; "(?P<a>x)(?P<a>y)"; "\\"; "(?<n"; "x{2,1}"; "(?=a)"; "\\1";
    ] {
        s.refused_with("RULESET r filename", &[regex, "t"], "BADRE ");
    }
    assert_eq!(s.exists(), before, "an error creates nothing");
    s.ok("RULESET r filename (a)(b) $2$1");
    // An invalid replacement leaves the rule unchanged.
    s.err("RULESET r filename ( t");
    assert_eq!(tags_of(&mut s, &cdx("ab")), ["ba"]);
}

#[test]
fn rules_are_listed_in_the_order_set_and_replaced_in_place() {
    let (_server, mut s) = stage(TagSpace::of);
    assert_eq!(s.ok("RULES"), array([]));
    s.ok("RULESET b filename x t");
    s.ok("RULESET a mimetype y t u");
    s.ok_with("RULESET", &[&b"\xff\x00"[..], b"url", b"\\xff", b"\xfe$0"]);
    let rule = |name: &[u8], field: &str, regex: &str, templates: &[&[u8]]| {
        let templates = templates.iter().map(bulk).collect();
        array([
            bulk(name),
            bulk(field),
            bulk(regex),
            redis_tests::Reply::Array(templates),
        ])
    };
    let mut rules = s.ok("RULES").items().to_vec();
    assert_eq!(rules[0], rule(b"b", "filename", "x", &[b"t"]));
    assert_eq!(rules[2], rule(b"\xff\x00", "url", "\\xff", &[b"\xfe$0"]));
    assert_eq!(rules[1].items()[3].texts(), ["t", "u"]);
    s.ok("RULESET b filename z v");
    rules[0] = rule(b"b", "filename", "z", &[b"v"]);
    assert_eq!(s.ok("RULES").items(), rules);
    assert_eq!(s.figure("rules"), 3);
    assert_eq!(s.ok("RULEDEL b"), int(1));
    assert_eq!(s.ok("RULEDEL b"), int(0));
    assert_eq!(s.ok("RULES").items(), &rules[1..]);
    s.ok("RULESET b filename x t");
    assert_eq!(
        s.ok("RULES").items()[2].items()[0],
        bulk("b"),
        "the rule is now the last one"
    );
}

#[test]
fn regexes_match_bytes() {
    let (_server, mut s) = stage(TagSpace::of);
    s.ok("RULESET dot filename '^(.)' first:$1");
    let kept = |s: &mut TagSpace, file: &[u8]| {
        let reply = s.ok_with("FILTER WHERE * FORMAT FILE RETURN TAGS LINES", &[file]);
        reply.items()[0].items()[1].clone()
    };
    assert_eq!(kept(&mut s, b"\xc3\xbc"), array([bulk(b"first:\xc3")]));
    assert_eq!(kept(&mut s, b"\xff"), array([bulk(b"first:\xff")]));
    s.ok("RULESET dot filename '(\\d+)' n:$1");
    assert_eq!(kept(&mut s, "\u{663}7".as_bytes()), array([bulk("n:7")]));
    s.ok("RULESET dot filename '(?i)(WARC)' $1");
    assert_eq!(kept(&mut s, b"a.warc"), array([bulk("warc")]));
}

#[test]
fn a_thousand_rules_are_accepted_and_one_more_is_not() {
    let (_server, mut s) = stage(TagSpace::of);
    for n in 0..1000 {
        s.ok(format!("RULESET r{n} filename ^{n}$ t{n}"));
    }
    s.refused("RULESET r1000 filename x t", "TOOBIG ");
    s.ok("RULESET r7 filename seven t7");
    assert_eq!(tags_of(&mut s, &cdx("999")), ["t999"]);
    s.ok("RULEDEL r3");
    s.ok("RULESET r1000 filename x t");
    assert_eq!(s.figure("rules"), 1000);
    ok!(s.wire, "PING");
}
