//! The filter syntax of three CDX servers, row by row of the specification's table.

use crate::stage;
use redis_tests::{Reply, Server, TagSpace, rows};

/// Eleven fields, so that every field name except the JSON ones is valid.
const LINE: &str = "com,example)/a 20200102030405 http://example.com/a text/html 200 SHA1 - - 123 456 dir/a.warc.gz";

/// The verdict of a filter on [`LINE`].
#[derive(Clone, Copy, PartialEq, Debug)]
enum Verdict {
    Keeps,
    Drops,
    /// An error with any code word.
    Error,
    BadField,
}
use Verdict::*;

fn verdict(s: &mut TagSpace, dialect: Option<&str>, spec: &str, line: &str) -> Verdict {
    let mut words = vec![spec];
    words.extend(dialect.iter().flat_map(|dialect| ["DIALECT", *dialect]));
    words.extend(["RETURN", "COUNT", "LINES", line]);
    match s.call_with("FILTER FILTER", &words) {
        Reply::Int(0) => Drops,
        Reply::Int(1) => Keeps,
        Reply::Error(line) if line.starts_with(b"BADFIELD ") => BadField,
        Reply::Error(_) => Error,
        other => panic!("{spec}: {other:?}"),
    }
}

fn check(table: &[(&str, [Verdict; 3])], line: &str) {
    let (_server, mut s) = stage(space);
    let mut wrong = Vec::new();
    for (spec, verdicts) in table {
        for (dialect, expected) in ["OUTBACK", "IA", "PYWB"].iter().zip(verdicts) {
            let got = verdict(&mut s, Some(dialect), spec, line);
            if got != *expected {
                wrong.push(format!(
                    "{spec:?} in {dialect}: {expected:?} expected, got {got:?}"
                ));
            }
        }
        let default = verdict(&mut s, None, spec, line);
        if default != verdicts[0] {
            wrong.push(format!("{spec:?} without a dialect: {default:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    s.ok("ADD FILE a.warc.gz coll:1 public a|b");
    s.ok("ADD TAG coll:1 org:7");
    s
}

#[test]
fn regex_or_contains() {
    check(
        &rows![
            // f:x
            "status:200", [Keeps, Keeps, Keeps]; "status:2..", [Keeps, Keeps, Drops];
            "status:20", [Drops, Drops, Keeps]; "status:.*0", [Keeps, Keeps, Drops];
            "status:404|200", [Keeps, Keeps, Drops]; "status:2|200", [Keeps, Keeps, Drops];
            "status:", [Drops, Drops, Keeps]; "url:http://example.com/a", [Keeps, Keeps, Keeps];
            "url:http:", [Drops, Drops, Keeps]; "mime:text/.*", [Keeps, Keeps, Drops];
            // Names and aliases are equivalent.
            "statuscode:200", [Keeps, Keeps, Keeps]; "mimetype:text/html", [Keeps, Keeps, Keeps];
            "original:http://example.com/a", [Keeps, Keeps, Keeps]; "redirecturl:-", [Keeps, Keeps, Keeps];
            "length:123", [Keeps, Keeps, Keeps]; "offset:456", [Keeps, Keeps, Keeps];
            "robotflags:-", [Keeps, Keeps, Keeps]; "digest:SHA1", [Keeps, Keeps, Keeps];
            "timestamp:2020.*", [Keeps, Keeps, Drops]; "timestamp:2020", [Drops, Drops, Keeps];
            "filename:dir/a.warc.gz", [Keeps, Keeps, Keeps]; "urlkey:com,example\\)/a", [Keeps, Keeps, Drops];
            "urlkey:com,example)", [Error, Error, Keeps];
        ],
        LINE,
    );
}

#[test]
fn tilde() {
    check(
        &rows![
            // ~f:x
            "~status:0", [Keeps, Keeps, Drops]; "~status:2", [Keeps, Keeps, Keeps];
            "~status:2.", [Drops, Drops, Keeps]; "~status:.0", [Drops, Drops, Keeps];
            "~status:0+", [Drops, Drops, Drops]; "~status:300|2", [Drops, Drops, Keeps];
            "~status:", [Keeps, Keeps, Keeps]; "~mime:html", [Keeps, Keeps, Drops];
            "~mime:.*html", [Drops, Drops, Keeps]; "~mime:(", [Drops, Drops, Error];
        ],
        LINE,
    );
}

#[test]
fn equals_sign() {
    check(
        &rows![
            // In the syntax of the Internet Archive, `=f:x` means the unknown field `=f`.
            "=status:200", [Error, Drops, Keeps]; "=status:20", [Error, Drops, Drops];
            "=status:2..", [Error, Drops, Drops]; "=status:.* 200 .*", [Error, Keeps, Drops];
            "=mime:text/html", [Error, Drops, Keeps]; "=status:", [Error, Drops, Drops];
        ],
        LINE,
    );
}

#[test]
fn negations() {
    check(
        &rows![
            // !f:x
            "!status:200", [Drops, Drops, Drops]; "!status:20", [Keeps, Keeps, Drops];
            "!status:2..", [Drops, Drops, Keeps]; "!status:404", [Keeps, Keeps, Keeps];
            // !=f:x
            "!=status:200", [Error, Keeps, Drops]; "!=status:20", [Error, Keeps, Keeps];
            "!=status:.* 200 .*", [Error, Drops, Keeps];
            // !~f:x
            "!~status:2", [Error, Keeps, Drops]; "!~status:0", [Error, Keeps, Keeps];
            "!~status:.* 200 .*", [Error, Drops, Keeps];
            // ~!f:x
            "~!status:0", [Drops, Drops, Drops]; "~!status:4", [Keeps, Keeps, Drops];
            "~!status:2.", [Keeps, Keeps, Drops]; "~!status:", [Drops, Drops, Keeps];
            "~!status:.*", [Keeps, Keeps, Keeps];
        ],
        LINE,
    );
}

#[test]
fn no_field() {
    check(
        &rows![
            ".* 200 .*", [Error, Keeps, Drops]; "200", [Error, Drops, Keeps];
            "!.* 200 .*", [Error, Drops, Keeps]; "!200", [Error, Keeps, Drops];
            "~com,.*html", [Error, Drops, Keeps]; "~html", [Error, Keeps, Drops];
            "=200", [Error, Drops, Drops]; "com,example\\)/a .*\\.gz", [Error, Keeps, Drops];
        ],
        LINE,
    );
    check(&[("=com,example)/a", [Error, Error, Drops])], LINE);
}

#[test]
fn unknown_field() {
    check(
        &rows![
            "colour:.* 200 .*", [BadField, Keeps, Drops]; "colour:200", [BadField, Drops, Drops];
            "colour:", [BadField, Drops, Keeps]; "!colour:.* 200 .*", [BadField, Drops, Keeps];
            "!colour:red", [BadField, Keeps, Keeps]; "!colour:", [BadField, Keeps, Drops];
            "~colour:.*", [BadField, Drops, Keeps]; "~colour:200", [BadField, Keeps, Drops];
            "=colour:", [Error, Drops, Keeps]; "=colour:red", [Error, Drops, Drops];
            "!=colour:", [Error, Keeps, Drops]; "Status:200", [BadField, Drops, Drops];
        ],
        LINE,
    );
}

#[test]
fn field_by_its_number() {
    // Documented in the README of the Internet Archive's server; a query with a number out of range
    // fails there.
    check(
        &rows![
            "4:200", [BadField, Keeps, Drops]; "4:404", [BadField, Drops, Drops];
            "!4:200", [BadField, Drops, Keeps]; "!4:404", [BadField, Keeps, Keeps];
            "~4:0", [BadField, Keeps, Drops]; "~!4:0", [BadField, Drops, Drops];
            "0:com,example\\)/a", [BadField, Keeps, Drops]; "8:123", [BadField, Keeps, Drops];
            "10:dir/a.warc.gz", [BadField, Keeps, Drops]; "11:x", [BadField, BadField, Drops];
            "!11:x", [BadField, BadField, Keeps]; "!14:x", [BadField, BadField, Keeps];
            "!99999999999:x", [BadField, BadField, Keeps];
        ],
        LINE,
    );
    check(
        &[
            ("6:7", [BadField, Keeps, Drops]),
            ("!7:x", [BadField, BadField, Keeps]),
        ],
        "com,example)/a 2020 http://example.com/a text/html 200 SHA1 7",
    );
    let (_server, mut s) = stage(space);
    // The whole batch fails, and the error names the line without the column.
    let lines = [
        LINE,
        "com,example)/a 2020 http://example.com/a text/html 200 SHA1 7",
    ];
    for asked in ["FILTER !8:124", "FILTER !0:x !8:124 !4:404"] {
        for command in [
            format!("FILTER {asked} DIALECT IA LINES"),
            format!("EXPLAIN {asked} DIALECT IA LINES"),
        ] {
            let lines = if command.starts_with('F') {
                &lines[..]
            } else {
                &lines[1..]
            };
            s.refused_with(&command, lines, "BADFIELD these lines have no column 8;");
        }
    }
    for format in ["FILE", "RECORD", "CDXJ"] {
        let words = ["!6:x", "DIALECT", "IA", "FORMAT", format, "LINES", "a"];
        s.refused_with(
            "FILTER FILTER",
            &words,
            "BADFIELD these lines have no column 6;",
        );
    }
}

#[test]
fn regexes_in_the_spelling_of_java() {
    let (_server, mut s) = stage(space);
    for (spec, keeps) in rows![
        "filename:\\Qdir/a.warc.gz\\E", true; "filename:\\Qdir/a.warc\\E", false;
        "filename:dir/a\\Q.\\Ewarc\\Q.gz", true; "digest:\\p{Upper}{3}\\p{Digit}", true;
        "!digest:[\\p{Alnum}]+", false; "digest:\\P{Upper}+", false; "mime:\\p{Alpha}+/\\H+", true;
        "!url:\\p{ASCII}+", false;
    ] {
        let expected = if keeps { Keeps } else { Drops };
        for dialect in ["OUTBACK", "IA"] {
            assert_eq!(
                verdict(&mut s, Some(dialect), spec, LINE),
                expected,
                "{spec} {dialect}"
            );
        }
    }
    for spec in rows![
        "url:h++"; "url:(?>h).*"; "url:(?=h).*"; "url:(h)\\1"; "url:\\p{L}+"; "url:(?U)h";
    ] {
        for dialect in ["OUTBACK", "IA"] {
            let words = [spec, "DIALECT", dialect, "LINES", LINE];
            s.refused_with("FILTER FILTER", &words, "BADRE ");
        }
    }
    // pywb does not use the regex syntax of Java.
    let words = ["~filename:\\Qdir\\E", "DIALECT", "PYWB", "LINES", LINE];
    s.refused_with("FILTER FILTER", &words, "BADRE ");
}

#[test]
fn fields_of_the_original_of_a_revisit() {
    check(
        &[
            ("originalLength:11", [Keeps, Keeps, Keeps]),
            ("originalOffset:22", [Keeps, Keeps, Keeps]),
            ("originalFilename:b.warc.gz", [Keeps, Keeps, Keeps]),
            ("!originalFilename:b.warc.gz", [Drops, Drops, Drops]),
            ("orig.length:11", [Keeps, Keeps, Keeps]),
            ("11:11", [BadField, Keeps, Drops]),
        ],
        &format!("{LINE} 11 22 b.warc.gz"),
    );
    let json = r#"com,example)/a 2020 {"originalLength": 11, "originalFilename": "b.warc.gz"}"#;
    check(
        &[
            ("originalLength:11", [Keeps; 3]),
            ("orig.filename:b.*z", [Keeps, Keeps, Drops]),
        ],
        json,
    );
}

#[test]
fn tags_are_the_same_in_all_three() {
    let all = |verdict| [verdict; 3];
    check(
        &rows![
            "tag.coll:1", all(Keeps); "tag.coll:2", all(Drops); "tag.coll:1|2", all(Keeps);
            "tag.coll:3|2|1", all(Keeps); "tag.coll:.*", all(Drops); "tag.coll:.", all(Drops);
            "tag.coll:", all(Error); "tag.org:7", all(Keeps); "tag.org:7|8", all(Keeps);
            "tag.org:77", all(Drops); "tag:public", all(Keeps); "tag:private|public", all(Keeps);
            "tag:coll:1", all(Keeps); "tag:coll:2|coll:1", all(Keeps); "tag:publi", all(Drops);
            "tag:coll:*", all(Drops); "!tag.coll:1", all(Drops); "!tag.coll:2", all(Keeps);
            "!tag.coll:2|1", all(Drops); "!tag:private", all(Keeps); "!tag:private|public", all(Drops);
            "!tag.any:thing", all(Keeps); "~tag.coll:1", all(Error); "=tag.coll:1", all(Error);
            "~tag:public", all(Error); "=tag:public", all(Error); "!=tag.coll:1", all(Error);
            "!~tag.coll:1", all(Error);
        ],
        LINE,
    );
}

#[test]
fn missing_columns() {
    // A line of seven fields has no WARC name, so the field reads as a dash.
    check(
        &[
            ("filename:-", [Keeps, Keeps, Keeps]),
            ("=filename:-", [Error, Drops, Keeps]),
            ("filename:a", [Drops, Drops, Drops]),
            ("length:7", [Keeps, Keeps, Keeps]),
            ("colour:x", [BadField, Drops, Drops]),
        ],
        "com,example)/a 2020 http://example.com/a text/html 200 SHA1 7",
    );
}

#[test]
fn json_fields() {
    let line = r#"com,example)/a 2020 {"url": "http://example.com/a", "status": 200, "colour": "red", "b": true, "filename": "x/a.warc.gz"}"#;
    check(
        &rows![
            "status:200", [Keeps, Keeps, Keeps]; "status:2.*", [Keeps, Keeps, Drops];
            "colour:red", [Keeps, Keeps, Keeps]; "colour:r.d", [Keeps, Keeps, Drops];
            "=colour:red", [Error, Drops, Keeps]; "b:true", [Keeps, Keeps, Keeps];
            "digest:", [Keeps, Keeps, Keeps]; "=digest:", [Error, Drops, Keeps];
            "original:http://.*", [Keeps, Keeps, Drops]; "tag.coll:1", [Keeps, Keeps, Keeps];
        ],
        line,
    );
}

#[test]
fn several_filters_are_anded_in_every_notation() {
    let (_server, mut s) = stage(space);
    let lines = [
        LINE.to_owned(),
        LINE.replace("200", "404"),
        LINE.replace("text/html", "image/png"),
        LINE.replace("a.warc", "b.warc"),
    ];
    for arguments in [
        "FILTER status:200 mime:text/.* tag.coll:1",
        "FILTER status:200 FILTER mime:text/.* FILTER tag.coll:1",
        "FILTER status:200 DIALECT OUTBACK FILTER mime:text/.* tag.coll:1",
        "DIALECT IA FILTER status:200 mime:text/.* WHERE coll:1",
        "FILTER =status:200 =mime:text/html tag.coll:1 DIALECT PYWB",
        "filter status:200 Filter mime:text/.* where 'status=200 & coll:1' dialect ia",
        "WHERE coll:1 FILTER !status:404 !mime:image/.* FORMAT CDX",
    ] {
        assert_eq!(s.kept(arguments, &lines), [LINE], "{arguments}");
    }
    assert_eq!(s.kept("FILTER !tag.coll:1", &lines), [&lines[3][..]]);
}

#[test]
fn invalid_specs_are_refused() {
    let (_server, mut s) = stage(space);
    for dialect in ["OUTBACK", "IA", "PYWB"] {
        for (spec, code) in [
            ("status:(", "BADRE "),
            ("~status:[", "BADRE "),
            ("!status:a**(", "BADRE "),
        ] {
            let words = [spec, "DIALECT", dialect, "LINES", LINE];
            let contains = (dialect == "PYWB") != spec.starts_with('~');
            let reply = s.call_with("FILTER FILTER", &words);
            match reply {
                Reply::Error(line) => assert!(
                    line.starts_with(code.as_bytes()) && !contains,
                    "{spec} {dialect}"
                ),
                other => assert!(contains, "{spec} {dialect}: {other:?}"),
            }
        }
    }
    s.err_with("FILTER DIALECT NONE FILTER status:200 LINES", &[LINE]);
    s.err_with("FILTER FILTER LINES", &[LINE]);
    s.err_with("FILTER FILTER status:200 FILTER LINES", &[LINE]);
    for spec in ["", ":", ":x", "!", "~", "=", "!:x"] {
        let words = [spec, "LINES", LINE];
        let error = s.err_with("FILTER FILTER", &words);
        assert!(
            error.starts_with("SYNTAX ") || error.starts_with("BADFIELD "),
            "{spec:?}: {error}"
        );
    }
}

#[test]
fn values_are_bytes_and_colons_after_the_first_belong_to_them() {
    let (_server, mut s) = stage(space);
    let line = "k 2020 urn:a:b m 200 d\u{fc} 7";
    for (spec, kept) in rows![
        "url:urn:a:b", true; "~url::a:", true; "url:urn", false; "digest:d..", true; "digest:d.", false;
        "digest:d\u{fc}", true; "digest:d\\xc3\\xbc", true;
    ] {
        let expected = if kept { Keeps } else { Drops };
        assert_eq!(verdict(&mut s, None, spec, line), expected, "{spec}");
    }
    let spec = [
        b"digest:d\xc3\xbc".as_slice(),
        b"RETURN",
        b"COUNT",
        b"LINES",
        line.as_bytes(),
    ];
    assert_eq!(s.ok_with("FILTER FILTER", &spec).int(), 1);
}
