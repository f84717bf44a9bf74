//! Expressions over tags and fields: their meaning, and the errors for invalid ones.

use crate::stage;
use crawlspace_compact::limits::tags::EXPRESSION_BYTES;
use redis_tests::{Reply, Rng, Server, TagSpace, rows};

/// Creates a tag space with one WARC file for each of these sets of tags, named after its set.
fn space(server: &Server, sets: &[&str]) -> TagSpace {
    let mut s = TagSpace::of(server);
    for set in sets.iter().filter(|set| !set.is_empty()) {
        s.ok_with("LOAD FILE MERGE", &[file_of(set), (*set).to_owned()]);
    }
    // The key must exist even if no file has a tag.
    s.ok("ADD TAG unused nothing");
    s
}

fn file_of(set: &str) -> String {
    format!("warc-with {set}")
}

#[test]
fn table_of_expressions() {
    // Each row has an expression, a set of tags, and the verdict.
    let table: &[(&str, &str, bool)] = &rows![
        // Tags must match exactly, as a whole and case-sensitively.
        "a", "a", true; "a", "b", false; "a", "", false; "a", "aa", false; "aa", "a", false; "A", "a", false;
        "a:b,c-d$e/f\\g.h", "a:b,c-d$e/f\\g.h", true; "\u{fc}", "\u{fc}", true;
        // Every capture.
        "*", "", true; "*", "a", true; "!*", "a", false; "* & a", "b", false;
        // Prefixes.
        "a*", "abc", true; "a*", "a", true; "a*", "ba", false; "coll:*", "coll:1", true;
        "coll:*", "col", false; "coll:*", "coll:", true; "!coll:*", "org:1", true;
        // Alternatives.
        "coll:{1|2|3}", "coll:2", true; "coll:{1|2|3}", "coll:4", false; "coll:{1|2|3}", "coll:", false;
        "coll:{1|2|3}", "coll:1|2", false; "coll:{1}", "coll:1", true; "coll:{1}", "coll:11", false;
        "coll:{ 1 | 2 }", "coll:1", true; "{a|b}", "b", true; "{a|b}", "c", false; "!{a} & {b|c}", "c", true;
        "coll:{\"a|b\"|c}", "coll:a|b", true; "coll:{\"a|b\"|c}", "coll:a", false;
        "!coll:{1|2}", "coll:3", true;
        // And, or, not, and their precedence.
        "a & b", "a b", true; "a & b", "a", false; "a|b", "b", true; "a|b", "c", false; "!a", "", true;
        "!a", "a", false; "!!a", "a", true; "! ! !a", "a", false; "a | b & c", "a", true;
        "a | b & c", "b", false; "a & b | c", "c", true; "a & b | c", "a", false; "(a | b) & c", "a", false;
        "(a | b) & c", "a c", true; "a & (b | c)", "a c", true; "!a & b", "b", true; "!a & b", "a b", false;
        "!(a & b)", "a", true; "!(a | b)", "b", false; "!a | a", "a", true; "a & !b & !c", "a", true;
        "a & !b & !c", "a c", false; "a|b|c&d", "d", false; "a|b|c&d", "c d", true; "((((a))))", "a", true;
        "(a)|(b)", "b", true;
        // Spaces of any kind, or none.
        "  a  ", "a", true; "\ta\n&\r\nb", "a b", true; "a&b", "a b", true; "!( a )", "b", true;
        // Quotes.
        "\"a\"", "a", true; "'a'", "a", true; "\"a|b\"", "a|b", true; "\"a|b\"", "b", false;
        "\"a*\"", "a*", true; "\"a*\"", "ab", false; "\"*\"", "x", false; "\"a\"*", "ab", true;
        "'a*'*", "a*b", true; "'a*'*", "ab", false; "co\"ll:\"'1'2", "coll:12", true;
        "\"a\\\"b\"", "a\"b", true; "'a\\'b'", "a'b", true; "\"a'b\"", "a'b", true;
        "\"a\\\\b\"", "a\\b", true; "\"a\\nb\"", "a\\nb", true; "'!a'", "!a", true; "'(a)'", "(a)", true;
        "'a=b'", "a=b", true; "'@a'", "@a", true; "'coll:{1|2}'", "coll:{1|2}", true;
        "\"status\"=x", "a", false;
        // Filters on a field, here the name of the WARC file.
        "filename='warc-with a'", "a", true; "filename='warc-with a'", "b", false;
        "filename='warc-with'", "a", false; "filename~^warc-with", "a", true; "filename~a$", "a", true;
        "filename~^a$", "a", false; "filename~\"[xy](b|c)\"", "xc", true;
        "filename~\"^(warc|arc)-\"", "q", true; "filename~.{3}-w", "q", true; "filename~@*=!", "a", false;
        "filename*=with", "a", true; "filename*=WITH", "a", false; "filename*=.", "a", false;
        "filename*='h a'", "a", true; "filename*=\"h \"a", "a", true; "filename*=h|b", "b", true;
        "(filename*=zz)", "a", false; "!filename*=zz & a", "a", true; "filename=''", "a", false;
        "filename*=''", "a", true; "mime=-", "a", true; "status=200", "a", false;
        "mimetype=- & statuscode=- & original=-", "a", true;
    ];
    let server = Server::start();
    let mut sets: Vec<&str> = table.iter().map(|row| row.1).collect();
    sets.sort_unstable();
    sets.dedup();
    let mut s = space(&server, &sets);
    let mut wrong = Vec::new();
    for (expression, set, verdict) in table {
        let words = [
            expression,
            "FORMAT",
            "FILE",
            "RETURN",
            "COUNT",
            "LINES",
            &file_of(set),
        ];
        let got = s.call_with("FILTER WHERE", &words);
        if got != Reply::Int(i64::from(*verdict)) {
            wrong.push(format!(
                "{expression:?} of {set:?}: {verdict} expected, got {got:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Parses `N` in `... at byte N`.
fn place(error: &str) -> Option<usize> {
    let (_, after) = error.split_once(" at byte ")?;
    let digits = after.find(|c: char| !c.is_ascii_digit());
    after[..digits.unwrap_or(after.len())].parse().ok()
}

#[test]
fn errors_name_the_position() {
    let (_server, mut s) = stage(|server| space(server, &["a"]));
    // The positions that a reader would expect.
    let table: &[(&str, &[usize])] = &rows![
        "", &[0]; "   ", &[0, 3]; "a b", &[2]; "a   b", &[4]; "a \"b\"", &[2]; "a (b)", &[2]; "a !b", &[2];
        "a &", &[3]; "a & ", &[4]; "a |", &[3]; "& a", &[0]; "| a", &[0]; "a | | b", &[4]; "a && b", &[3];
        "a || b", &[3]; "!", &[1]; "a & !", &[5]; "!& a", &[1]; "()", &[1]; "(a", &[0, 2]; "((a)", &[0, 4];
        "(a & b", &[0, 6]; "a)", &[1]; "(a))", &[3]; "(a | )", &[5]; ")", &[0]; "\"a", &[0, 2];
        "x & 'a", &[4, 6]; "\"a\\\"", &[0, 4]; "\"\"", &[0, 2]; "''", &[0, 2]; "{}", &[0, 1];
        "coll:{}", &[5, 6]; "coll:{1", &[5, 7]; "coll:{1|", &[5, 8]; "coll:{1||2}", &[8]; "coll:{|1}", &[6];
        "coll:{1|}", &[8]; "coll:{1&2}", &[7]; "coll:{1 2}", &[8]; "coll:{1|{2}}", &[8]; "coll:{1*}", &[7];
        "coll:{1}x", &[8]; "coll:{1}*", &[8]; "}", &[0]; "a}", &[1]; "a*b", &[1, 2]; "**", &[1];
        "a**", &[1, 2]; "*a", &[0, 1]; "=x", &[0]; "~x", &[0]; "*=x", &[0, 1]; "a & =x", &[4]; "@", &[0, 1];
        "@ x", &[0, 1]; "@@x", &[1]; "a@x", &[1]; "@x@y", &[2]; "@x*", &[2]; "@x=y", &[2];
    ];
    let mut wrong = Vec::new();
    for (expression, places) in table {
        let words = [expression, "FORMAT", "FILE", "LINES", "f"];
        let reply = s.call_with("FILTER WHERE", &words);
        let Reply::Error(line) = &reply else {
            wrong.push(format!("{expression:?} replied {reply:?}"));
            continue;
        };
        let line = String::from_utf8_lossy(line).into_owned();
        let at = place(&line);
        if !line.starts_with("SYNTAX ") || !at.is_some_and(|at| places.contains(&at)) {
            wrong.push(format!("{expression:?} (one of {places:?}): {line}"));
        }
        // Every command that accepts an expression must return the same error.
        if *expression != "a & =x" {
            for other in ["POINTSET p", "LIST"] {
                let theirs = s.err_with(other, &[expression]);
                if theirs != line {
                    wrong.push(format!("{expression:?} of {other}: {theirs}, not {line}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn missing_fields_are_named() {
    let (_server, mut s) = stage(|server| space(server, &["a"]));
    let cdx = "k 2020 u m 200 d 5";
    for (format, line) in rows![
        "FILE", "f"; "RECORD", "k 1 f 0"; "CDX", cdx; "AUTO", cdx;
    ] {
        for test in rows![
            "colour=red"; "colour~red"; "colour*=red"; "a & !colour=red"; "'Status'=200";
        ] {
            let words = [test, "FORMAT", format, "LINES", line];
            s.refused_with("FILTER WHERE", &words, "BADFIELD ");
        }
    }
    let json = r#"k 2020 {"colour": "red", "status": "200"}"#;
    for format in ["CDXJ", "AUTO"] {
        for (test, kept) in rows![
            "colour=red", 1; "colour=blue", 0; "other=''", 1; "other=x", 0;
        ] {
            let words = [test, "FORMAT", format, "RETURN", "COUNT", "LINES", json];
            assert_eq!(s.ok_with("FILTER WHERE", &words).int(), kept, "{test}");
        }
    }
    // `AUTO` cannot detect the format without lines.
    let words = ["colour=red", "RETURN", "COUNT", "BLOB", ""];
    assert_eq!(s.ok_with("FILTER WHERE", &words).int(), 0);
}

#[test]
fn invalid_regexes_are_refused() {
    let (_server, mut s) = stage(|server| space(server, &["a"]));
    for regex in ["\"(\"", "[", "\"a{2,1}\"", "\"(?=a)\"", "\"\\1\"", "\"*\""] {
        let words = [&format!("url~{regex}"), "FORMAT", "CDX", "LINES", "f"];
        s.refused_with("FILTER WHERE", &words, "BADRE ");
    }
}

/// Runs an expression. It must get a reply, and the connection must stay usable.
fn answers(s: &mut TagSpace, expression: &[u8]) -> Reply {
    let words = [expression, b"FORMAT", b"FILE", b"LINES", b"warc-with a"];
    let reply = s.call_with("FILTER WHERE", &words);
    match &reply {
        Reply::Array(kept) => assert!(kept.len() <= 1),
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(line);
            let codes = ["SYNTAX ", "BADRE ", "BADFIELD ", "NOPOINT ", "TOOBIG "];
            let known = codes.iter().any(|code| line.starts_with(code));
            assert!(known, "{}: {line}", expression.escape_ascii());
            if line.starts_with("SYNTAX ") {
                let at = place(&line).unwrap_or_else(|| panic!("no place: {line}"));
                assert!(
                    at <= expression.len(),
                    "{}: {line}",
                    expression.escape_ascii()
                );
            }
        }
        other => panic!("{}: {other:?}", expression.escape_ascii()),
    }
    reply
}

#[test]
fn expressions_cut_at_every_byte_are_answered() {
    let (server, mut s) = stage(|server| space(server, &["a"]));
    let whole = [
        "coll:{1|\"2 3\"|'4'} & !(private | org:7*) | @p & filename~\"^(a|b)\\\"c\" | url*='x y'",
        "!!(((a|b)&c)|(\u{fc}\u{20ac} & 'q\\'r'\"s\\\\\"t*)) & mime=text/html & status~2.. & original=\"\"",
        "* | a* | {a|b} | a{b|c} | @\"p q\" | \"filename\"=x",
    ];
    s.ok("POINTSET p a");
    for expression in whole {
        let bytes = expression.as_bytes();
        for cut in 0..=bytes.len() {
            answers(&mut s, &bytes[..cut]);
            answers(&mut s, &bytes[cut..]);
            // Also try the expression with one byte removed, duplicated or changed.
            if cut < bytes.len() {
                answers(&mut s, &[&bytes[..cut], &bytes[cut + 1..]].concat());
                answers(
                    &mut s,
                    &[&bytes[..cut], &bytes[cut..=cut], &bytes[cut..]].concat(),
                );
                for other in [b'\0', 0xff, b'\\', b'"', b'(', b'}', b'|', b'=', b'*', b' '] {
                    answers(
                        &mut s,
                        &[&bytes[..cut], &[other], &bytes[cut + 1..]].concat(),
                    );
                }
            }
        }
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn random_expressions_are_answered() {
    let (server, mut s) = stage(|server| space(server, &["a"]));
    let mut rng = Rng::new("random_expressions_are_answered");
    let pieces = [
        "a", "b*", "*", "|", "&", "!", "(", ")", "{", "}", "\"", "'", "\\", "=", "~", "@", " ",
        "status", "filename", "coll:", "$1", "$", "\0", "\u{fc}",
    ];
    for _ in 0..5000 {
        let text: String = (0..rng.below(14)).map(|_| *rng.pick(&pieces)).collect();
        answers(&mut s, text.as_bytes());
    }
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..rng.below(12)).map(|_| rng.bits() as u8).collect();
        answers(&mut s, &bytes);
    }
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn nesting_is_limited_and_length_too() {
    let (server, mut s) = stage(|server| space(server, &["a"]));
    let nested = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(s.passes(&nested(100), "warc-with a"));
    for n in [101, 150, 1000, 100_000] {
        let reply = answers(&mut s, nested(n).as_bytes());
        assert!(reply.is_error(), "{n} parentheses: {reply:?}");
        let reply = answers(&mut s, "(".repeat(n).as_bytes());
        assert!(reply.is_error(), "{n} parentheses open: {reply:?}");
        answers(&mut s, format!("{}a", "!".repeat(n)).as_bytes());
        answers(&mut s, format!("{}a", "!(".repeat(n)).as_bytes());
    }
    // A long expression may have few levels.
    for word in [" | ", " & "] {
        let long = vec!["a"; 100_000].join(word);
        assert!(s.passes(&long, "warc-with a"), "{word}");
    }
    let many: Vec<String> = (0..60_000).map(|n| format!("coll:{n}")).collect();
    assert!(s.passes(&format!("{} | a", many.join("|")), "warc-with a"));
    let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
    assert!(s.passes(&format!("coll:{{{}}} | a", many.join("|")), "warc-with a"));
    let limit = EXPRESSION_BYTES;
    let padded = |n: usize| format!("a{}", " ".repeat(n - 1));
    assert!(s.passes(&padded(limit), "warc-with a"));
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn carried_tags_count_as_tags_of_the_capture() {
    let (_server, mut s) = stage(|server| space(server, &["coll:1", "coll:2", "coll:3"]));
    s.ok("ADD TAG coll:1 org:1");
    s.ok("ADD TAG coll:2 org:1 private");
    s.ok("ADD TAG org:1 country:nz");
    for (expression, verdicts) in [
        ("org:1", [true, true, false]),
        ("country:*", [true, true, false]),
        ("org:{1|3} & !private", [true, false, false]),
        ("coll:* & !org:1", [false, false, true]),
    ] {
        for (n, verdict) in verdicts.into_iter().enumerate() {
            let file = file_of(&format!("coll:{}", n + 1));
            assert_eq!(
                s.passes(expression, &file),
                verdict,
                "{expression} of {file}"
            );
        }
    }
}
