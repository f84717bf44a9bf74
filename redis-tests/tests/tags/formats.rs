//! Lines of every format, bad lines, and every reply format.

use crate::stage;
use redis_tests::{Reply, Server, TagSpace, array, bulk, int, ok, rows};

const NONE: [&str; 0] = [];

/// Returns a line of `width` fields. The value of each column without a number is its name.
fn line_of(width: usize, date: &str) -> String {
    let first = "urlkey DATE url mime 200 digest";
    let rest = match width {
        7 => "123",
        9 => "redirect 456 filename",
        10 => "redirect robotflags 456 filename",
        11 => "redirect robotflags 123 456 filename",
        12 => "redirect 456 filename 88 99 o-filename",
        13 => "redirect robotflags 456 filename 88 99 o-filename",
        14 => "redirect robotflags 123 456 filename 88 99 o-filename",
        _ => panic!("no width {width}"),
    };
    format!("{first} {rest}").replace("DATE", date)
}

const WIDTHS: [usize; 7] = [7, 9, 10, 11, 12, 13, 14];

fn space(server: &Server) -> TagSpace {
    let mut s = TagSpace::of(server);
    s.ok("ADD TAG unused nothing");
    s
}

#[test]
fn every_width_has_its_columns_in_their_places() {
    let (_server, mut s) = stage(space);
    let fields = rows![
        "urlkey", "urlkey", 0; "timestamp", "2020", 0; "url", "url", 0; "original", "url", 0;
        "mime", "mime", 0; "status", "200", 0; "digest", "digest", 0; "redirect", "redirect", 9;
        "robotflags", "robotflags", 10; "length", "123", 7; "offset", "456", 9; "filename", "filename", 9;
    ];
    for width in WIDTHS {
        let line = line_of(width, "2020");
        for (field, value, from) in fields {
            let has = match field {
                "length" => [7, 11, 14].contains(&width),
                "robotflags" => [10, 11, 13, 14].contains(&width),
                _ => width >= from,
            };
            let value = if has { value } else { "-" };
            for format in ["AUTO", "CDX"] {
                let arguments = format!("WHERE {field}={value} FORMAT {format}");
                assert_eq!(
                    s.kept(&arguments, &[&line]),
                    [&line[..]],
                    "{width}: {arguments}"
                );
            }
        }
    }
}

#[test]
fn record_tags_are_found_by_key_date_file_and_offset() {
    let (_server, mut s) = stage(space);
    s.ok("ADD RECORD 'urlkey 2020 filename 456' t");
    s.ok("ADD RECORD 'urlkey 2020 - -' dashes");
    for width in WIDTHS {
        let line = line_of(width, "2020");
        let tag = if width == 7 { "dashes" } else { "t" };
        for (date, kept) in [("2020", 1), ("2021", 0)] {
            let line = line.replace("2020", date);
            let words = [tag, "RETURN", "COUNT", "LINES", &line];
            assert_eq!(s.ok_with("FILTER WHERE", &words).int(), kept, "{line}");
        }
    }
    let json = r#"urlkey 2020 {"filename": "filename", "offset": "456"}"#;
    assert_eq!(s.kept("WHERE t", &[json]), [json]);
    s.ok("ADD RECORD 'urlkey 2020 filename 7' seven");
    let json = r#"urlkey 2020 {"filename": "filename", "offset": 7}"#;
    assert_eq!(s.kept("WHERE seven", &[json]), [json]);
    let record = "urlkey 2020 filename 456";
    assert_eq!(s.kept("WHERE t FORMAT RECORD", &[record]), [record]);
}

#[test]
fn file_tags_are_found_by_name_and_base_name() {
    let (_server, mut s) = stage(space);
    s.ok("ADD FILE a.warc base");
    s.ok("ADD FILE x/a.warc full");
    s.ok("ADD FILE - dash");
    let line = |file: &str| line_of(11, "2020").replace("filename", file);
    for (file, base, full) in rows![
        "a.warc", 1, 0; "x/a.warc", 1, 1; "/y/x/a.warc", 1, 0; "a.warc/", 0, 0; "xa.warc", 0, 0;
    ] {
        for (tag, kept) in [("base", base), ("full", full)] {
            let json = format!(r#"k 2020 {{"filename": "{file}"}}"#);
            for (format, line) in [
                ("AUTO", line(file)),
                ("CDXJ", json),
                ("RECORD", format!("k 2020 {file} 0")),
                ("FILE", file.to_owned()),
            ] {
                let words = [tag, "FORMAT", format, "RETURN", "COUNT", "LINES", &line];
                assert_eq!(
                    s.ok_with("FILTER WHERE", &words).int(),
                    kept,
                    "{tag}: {line}"
                );
            }
        }
    }
}

#[test]
fn json_fields_are_read_as_they_are_meant() {
    let (_server, mut s) = stage(space);
    let line = r#"com,example)/ 20200102 { "url":"http:\/\/e\u00fc\"\\/", "mime" : null, "status":200, "digest":-1.50e3, "length":true, "a":[1, "x"], "o":{"p": {}}, "dup":"first", "dup":"last", "e":"", "filename":"\ud83d\ude00.warc"}"#;
    for (test, kept) in rows![
        "urlkey='com,example)/'", true; "timestamp=20200102", true; "url='http://e\u{fc}\"\\\\/'", true;
        "original~^http", true; "mime=''", true; "status=200", true; "statuscode=200", true;
        "digest=-1.50e3", true; "length=true", true; "a*=x", true; "o*=p", true; "dup=last", true;
        "dup=first", false; "e=''", true; "missing=''", true; "redirect=''", true; "redirect=-", false;
        "filename=\u{1f600}.warc", true;
    ] {
        let words = [test, "RETURN", "COUNT", "LINES", line];
        let got = s.ok_with("FILTER WHERE", &words);
        assert_eq!(got, int(i64::from(kept)), "{test}");
    }
}

#[test]
fn formats_are_detected_line_by_line() {
    let (_server, mut s) = stage(space);
    let lines = [
        line_of(11, "2020"),
        r#"k 2020 {"status": "200", "filename": "f"}"#.to_owned(),
        line_of(7, "2020"),
        r#"k 2020 {}"#.to_owned(),
        line_of(9, "2020"),
    ];
    let kept = s.kept("WHERE status=200", &lines);
    assert_eq!(kept, [&lines[0][..], &lines[1], &lines[2], &lines[4]]);
    for (format, line) in [("CDX", 1), ("CDXJ", 0)] {
        let words = ["*", "FORMAT", format, "LINES", &lines[line]];
        s.refused_with("FILTER WHERE", &words, "BADLINE line 1");
    }
}

#[test]
fn headers_and_blank_lines_count_but_are_never_kept() {
    let (_server, mut s) = stage(space);
    let (a, b) = (line_of(11, "1"), line_of(11, "2"));
    let lines = [" CDX N b a m s k r M S V g", &a, "", " CDX A b", &b, "   "];
    // A line of spaces is blank or bad, and is not kept.
    assert_eq!(s.kept("", &lines[..5]), [&a[..], &b]);
    let index = s.ok_with("FILTER RETURN INDEX LINES", &lines[..5]);
    assert_eq!(index.ints(), [1, 4]);
    let bits = s.ok_with("FILTER RETURN BITS LINES", &lines[..5]);
    assert_eq!(bits, bulk([0b0100_1000]));
    assert_eq!(s.kept("BADLINES DROP", &lines), [&a[..], &b]);
    let blob = format!(" CDX N b\r\n{a}\r\n\r\n\n{b}");
    let reply = s.ok_with("FILTER BLOB", &[&blob]);
    assert_eq!(reply, bulk(format!("{a}\n{b}\n")));
    let index = s.ok_with("FILTER RETURN INDEX BLOB", &[&blob]);
    assert_eq!(index.ints(), [1, 4]);
}

/// Headers whose columns are not in the documented order.
const HEADERS: [&str; 4] = [
    " CDX a b a m s k r M V g u",
    " CDX N b a m s k r M S g V",
    "CDX N b h m s k r V g",
    "\u{feff} CDX N b a m s k V r g",
];

#[test]
fn a_header_with_another_order_of_columns_is_an_error_even_where_bad_lines_are_dropped() {
    let (_server, mut s) = stage(space);
    let good = line_of(11, "2020");
    for header in HEADERS {
        let lines = [&good[..], header, &good];
        let blob = lines.join("\n");
        for arguments in [
            "",
            "BADLINES DROP",
            "BADLINES DROP RETURN COUNT",
            "FORMAT CDX BADLINES DROP",
        ] {
            let words = format!("FILTER {arguments} LINES");
            s.refused_with(&words, &lines, "BADLINE line 2: its header names columns");
            let words = format!("FILTER {arguments} BLOB");
            s.refused_with(&words, &[&blob], "BADLINE line 2: its header names columns");
        }
        // The limit is reached before the header is read.
        assert_eq!(s.kept("LIMIT 1", &lines), [&good[..]]);
        let said = s.err_with("EXPLAIN", &["LINES", header]);
        assert!(said.contains("its header names columns"), "{said}");
        let said = s.err_with("FILTER BADLINES DROP LINES", &lines);
        assert!(!said.contains("BADLINES DROP skips"), "{said}");
    }
    // A CDXJ file may have a header.
    let json = r#"urlkey 2020 {"filename": "filename", "offset": "456"}"#;
    for header in [HEADERS[0], " CDXJ urlkey timestamp JSON"] {
        assert_eq!(s.kept("FORMAT CDXJ", &[header, json]), [json]);
    }
    assert_eq!(s.kept("", &[" CDXJ urlkey timestamp JSON", json]), [json]);
}

#[test]
fn lines_of_wget_are_refused_without_their_header_too() {
    let (_server, mut s) = stage(space);
    s.ok("RULESET coll filename '(?:^|/)ARCHIVEIT-(\\d+)-' coll:$1");
    s.ok("ADD TAG coll:1069 private");
    let line = "http://e.org/ 2020 http://e.org/ text/html 200 digest - - 345 ARCHIVEIT-1069-A.warc.gz <urn:uuid:f1>";
    let words = ["!private", "LINES", line];
    s.refused_with("FILTER WHERE", &words, "BADLINE line 1: column 10");
    assert_eq!(s.kept("WHERE !private BADLINES DROP", &[line]), NONE);
}

#[test]
fn bad_lines_are_numbered_or_dropped() {
    let (_server, mut s) = stage(space);
    let good = line_of(11, "2020");
    let bad: [&[u8]; 21] = rows![
        b"a"; b"a 2020"; b"a 2020 b"; b"1 2 3 4 5 6"; b"a 2020 u m 200 d 7 8";
        b"a 2020 u m 200 d 7 8 9 10 11 12 13 14 15"; b"a date u m 200 d 7"; b"a 20x0 u m 200 d 7";
        b"a - u m 200 d 7"; b"a  2020 u m 200 d 7"; b"a 2020  m 200 d 7"; b"a 2020 u m 200 d ";
        b" a 2020 u m 200 d 7"; b"a 2020 {"; b"a 2020 {}x"; b"a 2020 {\"a\":}"; b"a 2020 {\"a\":\"\xff\"}";
        b"a 2020 {\"a\":\"\\ud800x\"}"; b"a 2020 {'a':1}"; b"a x {}"; b"a 2020 {\"a\":1} {\"b\":1}";
    ];
    for line in bad {
        let told = line.escape_ascii();
        let lines: [&[u8]; 3] = [good.as_bytes(), line, good.as_bytes()];
        s.refused_with("FILTER LINES", &lines, "BADLINE line 2: ");
        let blob = lines.join(&b'\n');
        s.refused_with("FILTER BLOB", &[&blob], "BADLINE line 2: ");
        for arguments in ["BADLINES DROP", "BADLINES DROP RETURN INDEX"] {
            let reply = s.ok_with(&format!("FILTER {arguments} LINES"), &lines);
            let expected = if arguments.contains("INDEX") {
                array([int(0), int(2)])
            } else {
                array([bulk(&good), bulk(&good)])
            };
            assert_eq!(reply, expected, "{told}");
        }
        // A line that is never read is not reported as bad.
        assert_eq!(
            s.ok_with("FILTER LIMIT 1 LINES", &lines),
            array([bulk(&good)])
        );
        s.refused_with(
            "FILTER LIMIT 2 BADLINES ERROR LINES",
            &lines,
            "BADLINE line 2: ",
        );
    }
    for line in ["a 2020 b", "a 2020 b c d", "a x b c", "a  b c"] {
        let words = ["RECORD", "LINES", "k 1 f 0", line];
        s.refused_with("FILTER FORMAT", &words, "BADLINE line 2: ");
    }
}

#[test]
fn every_reply_format_has_the_same_captures() {
    let (_server, mut s) = stage(space);
    s.ok("ADD FILE even t u");
    s.ok("ADD TAG t carried");
    let lines: Vec<&str> = (0..19)
        .map(|n| if n % 3 == 0 { "even" } else { "odd" })
        .collect();
    let blob = lines.join("\n");
    let kept: Vec<i64> = (0..19).filter(|n| n % 3 == 0).collect();
    for (given, words) in [("LINES", lines.clone()), ("BLOB", vec![&blob[..]])] {
        let mut ask = |form: &str| {
            s.ok_with(
                &format!("FILTER WHERE t FORMAT FILE {form} {given}"),
                &words,
            )
        };
        let plain = match given {
            "LINES" => Reply::Array(vec![bulk("even"); 7]),
            _ => bulk("even\n".repeat(7)),
        };
        assert_eq!(ask(""), plain);
        assert_eq!(ask("RETURN LINES"), plain);
        assert_eq!(ask("return index").ints(), kept);
        assert_eq!(ask("RETURN COUNT"), int(7));
        // Set bits: 0 3 6 | 9 12 15 | 18
        assert_eq!(
            ask("RETURN BITS"),
            bulk([0b1001_0010, 0b0100_1001, 0b0010_0000])
        );
        let tags = || array([bulk("carried"), bulk("t"), bulk("u")]);
        let pairs = kept.iter().map(|n| array([int(*n), tags()]));
        assert_eq!(ask("RETURN TAGS"), Reply::Array(pairs.collect()));
    }
}

#[test]
fn nothing_kept_is_empty_not_nil() {
    let (_server, mut s) = stage(space);
    for (form, lines, blob) in rows![
        "LINES", array([]), bulk(""); "INDEX", array([]), array([]); "COUNT", int(0), int(0);
        "BITS", bulk([0]), bulk([0]); "TAGS", array([]), array([]);
    ] {
        let words = [form, "LINES", "f", "g"];
        assert_eq!(
            s.ok_with("FILTER WHERE none FORMAT FILE RETURN", &words),
            lines,
            "{form}"
        );
        let words = [form, "BLOB", "f\ng\n"];
        assert_eq!(
            s.ok_with("FILTER WHERE none FORMAT FILE RETURN", &words),
            blob,
            "{form}"
        );
    }
    assert_eq!(s.ok_with("FILTER RETURN BITS BLOB", &[""]), bulk(""));
    assert_eq!(s.ok_with("FILTER RETURN COUNT BLOB", &[""]), int(0));
    assert_eq!(s.ok_with("FILTER BLOB", &[""]), bulk(""));
    let eight = ["f"; 8];
    assert_eq!(
        s.ok_with("FILTER FORMAT FILE RETURN BITS LINES", &eight),
        bulk([0xff])
    );
    let nine = ["f"; 9];
    assert_eq!(
        s.ok_with("FILTER FORMAT FILE RETURN BITS LINES", &nine),
        bulk([0xff, 0x80])
    );
}

#[test]
fn lines_are_returned_byte_for_byte() {
    let (_server, mut s) = stage(space);
    let lines: [&[u8]; 4] = rows![
        b"\xff\x00\xfe"; "\u{fc} \u{20ac}".as_bytes(); b"a\tb"; b"LINES";
    ];
    let reply = s.ok_with("FILTER FORMAT FILE LINES", &lines);
    assert_eq!(reply, array(lines.map(bulk)));
    let blob = lines.join(&b'\n');
    let reply = s.ok_with("FILTER FORMAT FILE BLOB", &[&blob]);
    assert_eq!(reply, bulk([&blob[..], b"\n"].concat()));
}

#[test]
fn collapse_keeps_the_first_of_each_run() {
    let (_server, mut s) = stage(space);
    let line = |key: &str, date: &str, digest: &str| format!("{key} {date} u m 200 {digest} 7");
    let lines = [
        line("a", "20200101", "x"),
        line("a", "20200102", "x"),
        line("a", "20200103", "y"),
        line("a", "20210101", "x"),
        line("b", "20210102", "x"),
        line("b", "20210103", "x"),
    ];
    let index = |s: &mut TagSpace, arguments: &str| {
        s.ok_with(&format!("FILTER {arguments} RETURN INDEX LINES"), &lines)
            .ints()
    };
    assert_eq!(index(&mut s, "COLLAPSE digest"), [0, 2, 3]);
    assert_eq!(index(&mut s, "COLLAPSE urlkey"), [0, 4]);
    assert_eq!(index(&mut s, "collapse timestamp:4"), [0, 3]);
    assert_eq!(index(&mut s, "COLLAPSE timestamp"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(index(&mut s, "COLLAPSE timestamp:100"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(index(&mut s, "COLLAPSE statuscode"), [0]);
    assert_eq!(
        index(&mut s, "COLLAPSE filename"),
        [0],
        "all lines lack the column"
    );
    // Lines that do not pass the filter do not end a sequence of equal lines.
    assert_eq!(index(&mut s, "FILTER !digest:y COLLAPSE digest"), [0]);
    assert_eq!(
        index(&mut s, "FILTER !timestamp:20200101 COLLAPSE digest"),
        [1, 2, 3]
    );
    s.refused_with("FILTER COLLAPSE colour LINES", &lines, "BADFIELD ");
    for bad in ["timestamp:x", "timestamp:-1", "timestamp:", "", ":4"] {
        let words = [&[bad, "LINES"][..], &lines.each_ref().map(String::as_str)].concat();
        s.err_with("FILTER COLLAPSE", &words);
    }
    let json = rows![
        r#"a 1 {"colour": "red"}"#; r#"a 2 {"colour": "red"}"#; r#"a 3 {}"#; r#"a 4 {}"#;
    ];
    assert_eq!(s.kept("COLLAPSE colour", &json), [json[0], json[2]]);
    // Headers, blank and bad lines do not end a sequence of equal lines.
    let mixed = [&lines[0][..], "", " CDX x", "bad", &lines[1]];
    assert_eq!(
        s.kept("COLLAPSE digest BADLINES DROP", &mixed),
        [&lines[0][..]]
    );
}

#[test]
fn order_is_filter_then_collapse_then_skip_then_limit() {
    let (_server, mut s) = stage(space);
    s.ok("RULESET r filename '^(.)' $1");
    let lines: Vec<String> = "ppqabbaabbcq"
        .chars()
        .enumerate()
        .map(|(n, c)| format!("{c}{n}"))
        .collect();
    let mut index = |arguments: &str| {
        s.ok_with(
            &format!("FILTER FORMAT FILE {arguments} RETURN INDEX LINES"),
            &lines,
        )
        .ints()
    };
    let all: Vec<i64> = (0..12).collect();
    assert_eq!(index(""), all);
    assert_eq!(index("SKIP 10"), [10, 11]);
    assert_eq!(index("SKIP 12"), [0; 0]);
    assert_eq!(index("SKIP 9223372036854775807"), [0; 0]);
    assert_eq!(index("LIMIT 2"), [0, 1]);
    assert_eq!(index("LIMIT 0"), [0; 0]);
    assert_eq!(index("LIMIT 100"), all);
    assert_eq!(index("SKIP 3 LIMIT 2"), [3, 4]);
    assert_eq!(index("LIMIT 2 SKIP 3"), [3, 4]);
    // First letter of the file name, and number of each line: a3 b4 b5 a6 a7 b8 b9 c10
    assert_eq!(index("WHERE 'a|b|c' COLLAPSE filename:1"), [3, 4, 6, 8, 10]);
    assert_eq!(
        index("LIMIT 2 WHERE 'a|b|c' SKIP 1 COLLAPSE filename:1"),
        [4, 6]
    );
    assert_eq!(index("COLLAPSE filename:1 SKIP 1 LIMIT 3"), [2, 3, 4]);
    let bits = s.ok_with(
        "FILTER FORMAT FILE WHERE 'a|b|c' COLLAPSE filename:1 SKIP 1 LIMIT 2 RETURN BITS LINES",
        &lines,
    );
    assert_eq!(bits, bulk([0b0000_1010, 0]));
    let count = s.ok_with(
        "FILTER FORMAT FILE WHERE b SKIP 1 LIMIT 100 RETURN COUNT LINES",
        &lines,
    );
    assert_eq!(count, int(3));
}

#[test]
fn point_where_and_filters_are_all_anded() {
    let (_server, mut s) = stage(space);
    s.ok("RULESET r filename '^(.)(.)(.)' $1 2$2 3$3");
    s.ok("POINTSET p a");
    let lines = ["xyz", "ayz", "abz", "abc", "xbc", "aac"];
    assert_eq!(
        s.kept("FORMAT FILE POINT p", &lines),
        ["ayz", "abz", "abc", "aac"]
    );
    assert_eq!(
        s.kept("FORMAT FILE POINT p WHERE 2b", &lines),
        ["abz", "abc"]
    );
    assert_eq!(
        s.kept("WHERE 2b FILTER tag:3c POINT p FORMAT FILE", &lines),
        ["abc"]
    );
    assert_eq!(s.kept("FORMAT FILE FILTER tag:3c !tag:2b", &lines), ["aac"]);
}

#[test]
fn options_are_given_once_and_lines_last() {
    let (_server, mut s) = stage(space);
    s.ok("POINTSET p a");
    let twice = rows![
        "POINT p POINT p"; "WHERE a WHERE b"; "DIALECT IA DIALECT IA"; "COLLAPSE digest COLLAPSE digest";
        "SKIP 1 SKIP 1"; "LIMIT 1 LIMIT 1"; "FORMAT CDX FORMAT CDX"; "BADLINES DROP BADLINES DROP";
        "RETURN COUNT RETURN COUNT";
    ];
    for arguments in twice {
        s.err(format!("FILTER {arguments} LINES x"));
    }
    for arguments in rows![
        ""; "WHERE a"; "LINES"; "BLOB"; "BLOB a b"; "NONSENSE LINES x"; "FORMAT NONE LINES x";
        "RETURN NONE LINES x"; "BADLINES NONE LINES x"; "SKIP -1 LINES x"; "SKIP x LINES x";
        "LIMIT -1 LINES x"; "LIMIT 1.5 LINES x"; "LIMIT 99999999999999999999 LINES x"; "WHERE LINES x";
        "POINT LINES x";
    ] {
        let words = format!("FILTER {arguments}");
        s.err(words.trim());
    }
    assert_eq!(
        s.kept("FORMAT FILE", &["LINES", "BLOB", "WHERE"]),
        ["LINES", "BLOB", "WHERE"]
    );
    assert_eq!(
        s.kept("", &NONE[..0].iter().chain(&[""]).collect::<Vec<_>>()),
        NONE
    );
    ok!(s.wire, "PING");
}
