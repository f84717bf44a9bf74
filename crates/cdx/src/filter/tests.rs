mod naive;

use super::*;
use crate::Read;

const DIALECTS: [Dialect; 3] = [Dialect::Outback, Dialect::Ia, Dialect::Pywb];

fn parse(spec: &str, dialect: Dialect) -> Result<Filter, FilterError> {
    Filter::parse(spec.as_bytes(), dialect, Limits::default())
}

fn verdict(filter: &Filter, line: &str, tags: &[&str]) -> Result<bool, UnknownField> {
    match Line::read(line.as_bytes(), Format::Auto).unwrap() {
        Read::Capture(line) => filter.passes(&line, &mut |tag| {
            tags.iter().any(|own| own.as_bytes() == tag)
        }),
        Read::Skipped => panic!("{line}"),
    }
}

/// Returns a line with this status and a URL that ends with `url`.
fn line(status: &str, url: &str) -> String {
    format!(
        "org,example)/ 20240102030405 http://example.org/{url} text/html {status} DIGEST - - 7 9 a.warc.gz"
    )
}

/// Expected result of a spec in one cell of the table.
enum Cell {
    /// A line that passes, and a line that does not.
    Passes(String, String),
    /// Every line fails: the value is always empty.
    Never,
    /// Every line passes.
    Always,
    Syntax(usize),
    BadField,
    /// Fails for the first line that is not CDXJ.
    UnknownField,
}

#[test]
fn dialects_match_the_table() {
    use Cell::*;
    let yes_no = |yes: &str, no: &str| Passes(line(yes, ""), line(no, ""));
    // Returns a line that matches `WHOLE`, and a line with the same status that does not match it.
    let whole = || Passes(line("200", "end"), line("200", "other"));
    let not_whole = || Passes(line("200", "other"), line("200", "end"));
    const WHOLE: &str = ".*/end.text/html.2...*";
    let with = |operators: &str| format!("{operators}status:{WHOLE}");
    let rows: Vec<(String, [Cell; 3])> = vec![
        // A full match: `2.|404` matches neither 200 nor 4040.
        (
            "status:2.|404".into(),
            [
                yes_no("404", "200"),
                yes_no("404", "4040"),
                yes_no("2.|404", "404"),
            ],
        ),
        (
            "~status:0.".into(),
            [
                yes_no("x0.x", "200"),
                yes_no("x0.x", "200"),
                yes_no("0.0", "200"),
            ],
        ),
        (
            "~status:2.".into(),
            [
                yes_no("x2.x", "200"),
                yes_no("x2.x", "200"),
                yes_no("200", "1200"),
            ],
        ),
        (
            "~status:a|b".into(),
            [
                yes_no("xa|bx", "a"),
                yes_no("xa|bx", "a"),
                yes_no("bx", "xb"),
            ],
        ),
        (with("="), [Syntax(0), whole(), Never]),
        (
            "=status:200".into(),
            [Syntax(0), Never, yes_no("200", "2000")],
        ),
        (
            "=status:2..".into(),
            [Syntax(0), Never, yes_no("2..", "200")],
        ),
        (
            "!status:2..".into(),
            [
                yes_no("2000", "200"),
                yes_no("2000", "200"),
                yes_no("200", "x2..x"),
            ],
        ),
        (with("!="), [Syntax(1), not_whole(), Always]),
        (
            "!=status:200".into(),
            [Syntax(1), Always, yes_no("2000", "200")],
        ),
        (with("!~"), [Syntax(1), not_whole(), Always]),
        (
            "!~status:2.".into(),
            [Syntax(1), Always, yes_no("1200", "200")],
        ),
        (
            "~!status:2.".into(),
            [yes_no("200", "x2.x"), yes_no("200", "x2.x"), Never],
        ),
        // These specs match an empty value.
        ("~!status:".into(), [Never, Never, Always]),
        (
            "~!status:x?".into(),
            [yes_no("200", "x?"), yes_no("200", "x?"), Always],
        ),
        (
            WHOLE.into(),
            [
                Syntax(WHOLE.len()),
                whole(),
                Passes(line("200", WHOLE), line("200", "end")),
            ],
        ),
        (
            format!("!{WHOLE}"),
            [
                Syntax(WHOLE.len() + 1),
                not_whole(),
                Passes(line("200", "end"), line("200", WHOLE)),
            ],
        ),
        ("~html 2".into(), [Syntax(7), yes_no("200", "404"), Never]),
        (
            "~org.*html 2".into(),
            [Syntax(12), Never, yes_no("200", "404")],
        ),
        ("=x".into(), [Syntax(0), Never, Never]),
        ("nosuch:.*end.*".into(), [UnknownField, whole(), Never]),
        ("nosuch:".into(), [UnknownField, Never, Always]),
        (
            "!nosuch:.*end.*".into(),
            [UnknownField, not_whole(), Always],
        ),
        ("~nosuch:end".into(), [UnknownField, whole(), Never]),
        ("=nosuch:".into(), [Syntax(0), Never, Always]),
        ("no such:.*end.*".into(), [BadField, whole(), Never]),
        (
            ":.*end.*".into(),
            [
                BadField,
                whole(),
                Passes(line("200", ".*end.*"), line("200", "end")),
            ],
        ),
        ("!!status:.*end.*".into(), [Syntax(1), not_whole(), Always]),
        ("~~status:end".into(), [Syntax(1), whole(), Never]),
        (
            "statuscode:404".into(),
            [
                yes_no("404", "200"),
                yes_no("404", "200"),
                yes_no("x404", "200"),
            ],
        ),
        // The first colon separates field and value.
        (
            "status:a:b".into(),
            [yes_no("a:b", "a"), yes_no("a:b", "a"), yes_no("a:b", "a")],
        ),
        (String::new(), [Syntax(0), Syntax(0), Syntax(0)]),
    ];
    let some = || {
        [
            line("200", "end"),
            line("404", ""),
            line("2..", "x"),
            line("-", WHOLE),
        ]
    };
    for (spec, cells) in rows {
        for (dialect, cell) in DIALECTS.into_iter().zip(cells) {
            let of = format!("{spec:?} in {}", dialect.name());
            let filter = parse(&spec, dialect);
            let verdict = |line: &str| match &filter {
                Ok(filter) => verdict(filter, line, &[]),
                Err(error) => panic!("{of}: {error}"),
            };
            match cell {
                Passes(yes, no) => {
                    assert_eq!(verdict(&yes), Ok(true), "{of}: {yes}");
                    assert_eq!(verdict(&no), Ok(false), "{of}: {no}");
                }
                Never => some()
                    .map(|line| assert_eq!(verdict(&line), Ok(false), "{of}: {line}"))
                    .into_iter()
                    .collect(),
                Always => some()
                    .map(|line| assert_eq!(verdict(&line), Ok(true), "{of}: {line}"))
                    .into_iter()
                    .collect(),
                Cell::UnknownField => {
                    for line in some() {
                        let unknown = super::UnknownField(b"nosuch"[..].into());
                        assert_eq!(verdict(&line), Err(unknown), "{of}");
                    }
                }
                Syntax(place) => match filter {
                    Err(FilterError::Syntax { at, .. }) => assert_eq!(at, place, "{of}"),
                    other => panic!("{of}: {other:?}"),
                },
                BadField => assert!(matches!(filter, Err(FilterError::BadField(_))), "{of}"),
            }
        }
    }
}

#[test]
fn tags_are_the_same_in_all_dialects() {
    // spec, tags that pass, tags that do not
    let rows: [(&str, &[&str], &[&str]); 8] = [
        (
            "tag.coll:7",
            &["coll:7"],
            &["coll:77", "coll:", "7", "coll"],
        ),
        ("tag.org:7|8", &["org:8"], &["org:7|8", "org:9", "8"]),
        (
            "tag:private",
            &["private"],
            &["tag:private", "privat", "private2"],
        ),
        ("tag:a|b:c", &["b:c"], &["b", "c"]),
        ("tag.coll:.*", &["coll:.*"], &["coll:7"]),
        (
            "tag.coll:(7|8)",
            &["coll:(7", "coll:8)"],
            &["coll:7", "coll:8"],
        ),
        ("tag.a.b:x:y", &["a.b:x:y"], &["a:x", "a.b:x"]),
        ("tag:!private", &["!private"], &["private"]),
    ];
    for dialect in DIALECTS {
        for (spec, yes, no) in rows {
            for (spec, negated) in [(spec.to_owned(), false), (format!("!{spec}"), true)] {
                let filter = parse(&spec, dialect).unwrap();
                assert_eq!(filter.tag_test().unwrap().0, negated);
                assert_eq!(filter.field(), None);
                assert_eq!(filter.check(Format::File), Ok(()));
                for (tags, wanted) in [(yes, true), (no, false)] {
                    for tag in tags {
                        let found = verdict(&filter, &line("200", ""), &[tag]);
                        assert_eq!(found, Ok(wanted != negated), "{spec} with {tag}");
                    }
                }
                // A capture without tags.
                assert_eq!(verdict(&filter, &line("200", ""), &[]), Ok(negated));
            }
        }
    }
}

#[test]
fn malformed_tag_filter_is_an_error_in_all_dialects() {
    let long = format!("tag.coll:{}", "x".repeat(1020));
    for (spec, place) in [
        ("~tag.coll:7", 0),
        ("=tag.coll:7", 0),
        ("!~tag.coll:7", 0),
        ("!=tag:7", 0),
        ("~!tag:7", 0),
        ("!!tag:7", 0),
        ("tag.coll", 8),
        ("!tag.coll", 9),
        ("tag.:7", 4),
        ("tag:", 4),
        ("tag.coll:", 9),
        ("!tag.coll:", 10),
        ("tag.coll:7|", 11),
        ("tag.coll:7||8", 11),
        ("tag.coll:7|8 9", 11),
        (&long, 9),
    ] {
        for dialect in DIALECTS {
            match parse(spec, dialect) {
                Err(FilterError::Syntax { at, .. }) => assert_eq!(at, place, "{spec}"),
                other => panic!("{spec}: {other:?}"),
            }
        }
    }
    assert!(parse(&long[..long.len() - 1], Dialect::Ia).is_ok());
    // Names that merely start with `tag` are field names.
    for spec in ["tags:x", "tagged.a:x"] {
        assert!(parse(spec, Dialect::Outback).unwrap().tag_test().is_none());
    }
}

#[test]
fn json_fields_match_fields_of_cdxj_lines() {
    let lang = r#"a 2 {"lang": "de", "n": 7}"#;
    let none = r#"a 2 {"url": "x"}"#;
    for (spec, dialect, has, lacks) in [
        ("lang:d.", Dialect::Outback, true, false),
        ("!lang:d.", Dialect::Outback, false, true),
        ("lang:", Dialect::Outback, false, true),
        ("n:7", Dialect::Outback, true, false),
        ("lang:d.", Dialect::Ia, true, false),
        // Any name may be the name of a JSON field. A missing field reads as empty.
        ("lang:", Dialect::Ia, false, true),
        ("mime:", Dialect::Ia, true, true),
        ("~lang:a 2", Dialect::Ia, false, false),
        ("=lang:de", Dialect::Pywb, true, false),
        ("=lang:", Dialect::Pywb, false, true),
        ("lang", Dialect::Pywb, true, false),
    ] {
        let filter = parse(spec, dialect).unwrap();
        assert_eq!(verdict(&filter, lang, &[]), Ok(has), "{spec}");
        assert_eq!(verdict(&filter, none, &[]), Ok(lacks), "{spec}");
    }
}

#[test]
fn json_field_is_refused_for_formats_without_json() {
    for dialect in DIALECTS {
        let filter = parse("lang:de", dialect).unwrap();
        for format in [Format::Auto, Format::Cdxj] {
            assert_eq!(filter.check(format), Ok(()));
        }
        for format in [Format::Cdx, Format::File, Format::Record] {
            assert_eq!(filter.check(format).is_err(), dialect == Dialect::Outback);
            assert_eq!(parse("mime:x", dialect).unwrap().check(format), Ok(()));
        }
    }
}

#[test]
fn refused_pattern_reports_the_reason() {
    for (spec, dialect) in [
        ("url:(", Dialect::Outback),
        ("!url:(", Dialect::Ia),
        ("(", Dialect::Ia),
        ("~url:(", Dialect::Pywb),
    ] {
        let error = parse(spec, dialect).unwrap_err();
        assert_eq!(
            error.to_string(),
            "unclosed group at byte 0 of the regex",
            "{spec}"
        );
    }
    // The operand of `contains` and `equals` is not a pattern.
    assert!(parse("~url:(", Dialect::Outback).is_ok());
    assert!(parse("=url:(", Dialect::Pywb).is_ok());
}

#[test]
fn has_tag_is_called_only_as_long_as_needed() {
    let filter = parse("tag:a|b|c", Dialect::Outback).unwrap();
    let raw = line("200", "");
    let Ok(Read::Capture(line)) = Line::read(raw.as_bytes(), Format::Auto) else {
        panic!()
    };
    let mut asked = Vec::new();
    let passes = filter.passes(&line, &mut |tag| {
        asked.push(tag.to_vec());
        tag == b"b"
    });
    assert_eq!(passes, Ok(true));
    assert_eq!(asked, [b"a", b"b"]);
}

#[test]
fn dialect_names_ignore_case() {
    for dialect in DIALECTS {
        assert_eq!(
            Dialect::parse(dialect.name().to_lowercase().as_bytes()),
            Some(dialect)
        );
    }
    assert_eq!(Dialect::parse(b"OUTBACKCDX"), None);
}

#[test]
fn number_names_a_column_only_in_ia() {
    // Column 4 is the status in lines of every width; column 8 of eleven is the length.
    let eleven = "a 2 http://a/b text/html 404 D - - 7 9 f.warc";
    let seven = "a 2 http://a/b text/html 200 D 7";
    let json = r#"a 2 {"url": "http://a/b", "status": "404", "4": "200"}"#;
    let no_column = |number: &str| Err(UnknownField(number.as_bytes().into()));
    for (spec, of_eleven, of_seven, of_json) in [
        ("4:404", Ok(true), Ok(false), Ok(true)),
        ("!4:404", Ok(false), Ok(true), Ok(false)),
        ("~4:0", Ok(true), Ok(true), Ok(true)),
        ("~!4:04", Ok(false), Ok(true), Ok(false)),
        ("+4:404", Ok(true), Ok(false), Ok(true)),
        ("004:404", Ok(true), Ok(false), Ok(true)),
        ("0:a", Ok(true), Ok(true), Ok(true)),
        ("1:2", Ok(true), Ok(true), Ok(true)),
        ("2:http://a/b", Ok(true), Ok(true), Ok(true)),
        ("6:7", Ok(false), Ok(true), no_column("6")),
        ("8:7", Ok(true), no_column("8"), no_column("8")),
        ("!8:7", Ok(false), no_column("8"), no_column("8")),
        ("10:f.warc", Ok(true), no_column("10"), no_column("10")),
        ("!13:x", no_column("13"), no_column("13"), no_column("13")),
        // A name that is not a number: the filter reads the whole line, as for an unknown field.
        ("-4:.*404.*", Ok(true), Ok(false), Ok(false)),
        ("4x:.*404.*", Ok(true), Ok(false), Ok(false)),
    ] {
        let filter = parse(spec, Dialect::Ia).unwrap();
        for (line, expected) in [(eleven, of_eleven), (seven, of_seven), (json, of_json)] {
            assert_eq!(verdict(&filter, line, &[]), expected, "{spec}: {line}");
        }
    }
    for spec in ["14:x", "!14:x", "~!99999999999999999999:x"] {
        let filter = parse(spec, Dialect::Ia);
        assert!(matches!(filter, Err(FilterError::BadField(_))), "{spec}");
    }
    for (number, formats) in [
        ("1", &[Format::File][..]),
        ("4", &[Format::File, Format::Record]),
        ("6", &[Format::File, Format::Record, Format::Cdxj]),
    ] {
        let filter = parse(&format!("!{number}:x"), Dialect::Ia).unwrap();
        for format in [
            Format::Auto,
            Format::Cdx,
            Format::Cdxj,
            Format::Record,
            Format::File,
        ] {
            let expected = if formats.contains(&format) {
                Err(UnknownField(number.as_bytes().into()))
            } else {
                Ok(())
            };
            assert_eq!(filter.check(format), expected, "{number} {}", format.name());
        }
    }
    // Dialects other than IA read a number as the name of a field.
    let unknown = parse("4:404", Dialect::Outback).unwrap();
    assert_eq!(verdict(&unknown, eleven, &[]), no_column("4"));
    let empty = parse("=4:", Dialect::Pywb).unwrap();
    assert_eq!(verdict(&empty, eleven, &[]), Ok(true));
}
