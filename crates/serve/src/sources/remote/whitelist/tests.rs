//! Tests of accepted and rejected claims.

use redis_tests::{Rng, assert_lacks, rows};

use super::super::claim::header;
use super::*;

fn whitelist(url: &str, place: RecordLocation) -> Whitelist {
    let query = Query::parse([("url", url), ("from", "2010"), ("to", "2020")], None).unwrap();
    let members = Arc::from(r#""source": "a\"b", "source_type": "cdx""#);
    Whitelist::new(&query, members, place, &Arc::from("c"))
}

fn row_of(line: &str, place: RecordLocation) -> Result<String, Verdict> {
    row_for("http://a.com/*", line.as_bytes(), place)
}

fn row_for(url: &str, line: &[u8], place: RecordLocation) -> Result<String, Verdict> {
    let mut made = Made::default();
    let claim = Claim::of_line(line).ok_or(Verdict::Invalid)?;
    let verdict = whitelist(url, place).push(&claim, &mut made);
    let rows = made.take();
    assert_eq!(rows.len(), usize::from(verdict == Verdict::Row));
    let Some(row) = rows.first() else {
        return Err(verdict);
    };
    // Every created row is valid.
    assert_eq!(Row::new(row.line().clone()).as_ref(), Some(row));
    assert!(row.capture().is_some());
    Ok(String::from_utf8(row.json().to_vec()).unwrap())
}

const TAIL: &str = r#""source": "a\"b", "source_type": "cdx"}"#;

#[test]
fn row_has_only_permitted_fields() {
    let line = r#"wrong)/key 20160102030405 {"url": "http://a.com/x", "mime": "text/html", "status": 200, "digest": "sha1:ABC", "length": "12", "offset": 34, "filename": "a/b.warc.gz", "source": "evil", "source_type": "file", "live_url": "file:///etc/passwd", "load_url": "http://10.0.0.1/", "upstream_url": "http://10.0.0.1/", "languages": "eng", "robotflags": "A", "redirect": "-", "orig.length": "1", "orig.offset": "2", "orig.filename": "c.warc.gz"}"#;
    assert_eq!(
        row_of(line, RecordLocation::File).unwrap(),
        [
            r#"{"url": "http://a.com/x", "mime": "text/html", "status": "200", "digest": "sha1:ABC", "robotflags": "A", "length": "12", "offset": "34", "filename": "a/b.warc.gz", "orig.length": "1", "orig.offset": "2", "orig.filename": "c.warc.gz", "#,
            TAIL
        ]
        .concat()
    );
    let template = Template::new("http://h/{coll}/{timestamp}id_/{url}");
    assert_eq!(
        row_of(line, RecordLocation::Replay(template)).unwrap(),
        [
            r#"{"url": "http://a.com/x", "mime": "text/html", "status": "200", "digest": "sha1:ABC", "robotflags": "A", "live_url": "http://h/c/20160102030405id_/http://a.com/x", "load_url": "http://h/c/20160102030405id_/http://a.com/x", "#,
            TAIL
        ]
        .concat()
    );
    let given = row_of(line, RecordLocation::Given).unwrap();
    assert_lacks(&given, "_url");
    assert!(
        given.ends_with(r#""source": "a\"b:evil", "source_type": "cdx"}"#),
        "{given}"
    );
    assert!(!given.contains("passwd") && !given.contains("upstream_url"));
}

#[test]
fn urlkey_is_derived_from_the_url() {
    let key = |url: &str, line: &str| {
        let mut made = Made::default();
        let claim = Claim::of_line(line.as_bytes()).unwrap();
        let verdict = whitelist(url, RecordLocation::File).push(&claim, &mut made);
        let rows = made.take();
        let row = rows.first().ok_or(verdict)?;
        Ok(String::from_utf8(row.urlkey().to_vec()).unwrap())
    };
    let line = |key: &str, url: &str| format!("{key} 2016 {{\"url\": \"{url}\"}}");
    assert_eq!(
        key("a.com/*", &line("b,com)/", "http://www.A.com/x")).unwrap(),
        "com,a)/x"
    );
    assert_eq!(
        key("a.com/", &line("com,a)/", "http://b.com/")),
        Err(Verdict::Other)
    );
    assert_eq!(
        key("a.com/", &line("com,a)/", "http://a.com/x")),
        Err(Verdict::Other)
    );
    // The body of the request is only in the key.
    let post = line("com,a)/?__wb_method=post&b=c", "http://a.com/");
    let expected = "com,a)/?__wb_method=post&b=c";
    assert_eq!(key("a.com/?__wb_method=post&b=c", &post).unwrap(), expected);
    let lie = line("com,a)/secret?__wb_method=post", "http://a.com/");
    assert_eq!(key("a.com/*", &lie).unwrap(), "com,a)/");
}

#[test]
fn zone_after_the_digits_is_ignored() {
    for (given, digits) in [
        ("201602", Some("20160201000000")),
        ("201601020304Z", Some("20160102030400")),
        ("20160102030405Z", Some("20160102030405")),
        ("2016Z", None),
        ("Z", None),
    ] {
        assert_eq!(timestamp(given).as_deref(), digits, "{given}");
    }
}

#[test]
fn unrequested_or_invalid_captures_make_no_row() {
    let is = |line: &str, verdict| {
        assert_eq!(row_of(line, RecordLocation::File), Err(verdict), "{line}")
    };
    for line in [
        r#"com,a)/ 20091231235959 {"url": "http://a.com/"}"#,
        r#"com,a)/ 2021 {"url": "http://a.com/"}"#,
        r#"com,a)/ 20160102030405 {"url": "http://b.com/"}"#,
        r#"com,a)/ 2016 {"url": 5}"#,
        r#"com,a)/ 2016 {"url": "file:///a.com/"}"#,
        r#"com,a)/ 2016 {"url": "javascript://a.com/"}"#,
        r#"com,a)/ 2016 {"url": "http://a.com/\r\nX: y"}"#,
        r#"com,a)/ 2016 {"url": "http://a.com/ x"}"#,
        r#"com,a)/ 2016 {"url": "http://a.com/\u0000"}"#,
        r#"com,a)/ 2016 {"url": "http://a.com:port/"}"#,
    ] {
        is(line, Verdict::Other);
    }
    for line in [
        "",
        "<html>",
        "com,a)/ 2016",
        "com,a)/ 2016 ",
        r#"com,a)/ 2016 {"url": "http://a.com/""#,
        r#"com,a)/ 2016 {"url": "http://a.com/\ud800"}"#,
        r#"com,a)/ 2016 {"url": ["http://a.com/"]}"#,
        r#"com,a)/ 2016 {"url": {"url": "http://a.com/"}}"#,
        r#"com,a)/ 2016 {"url": null}"#,
        r#"com,a)/ 2016 {}"#,
        r#"com,a)/ 20161301 {"url": "http://a.com/"}"#,
        r#"com,a)/ 201 {"url": "http://a.com/"}"#,
        r#"com,a)/ 2016x {"url": "http://a.com/"}"#,
        r#"{"message": "not here"}"#,
    ] {
        is(line, Verdict::Invalid);
    }
    assert_eq!(
        row_for(
            "a.com/*",
            b"com,a)/ 2016 {\"url\": \"http://a.com/\xff\"}",
            RecordLocation::File
        ),
        Err(Verdict::Invalid)
    );
    let long = format!(
        "com,a)/ 2016 {{\"url\": \"http://a.com/{}\"}}",
        "x".repeat(MAX_URL)
    );
    is(&long, Verdict::Other);
}

#[test]
fn impossible_value_is_omitted() {
    for (member, kept) in [
        (r#""filename": "a.warc.gz""#, true),
        (r#""filename": "a/..b/c...warc""#, true),
        (r#""filename": "crawl-2016-01-02T03:04:05.warc.gz""#, true),
        (r#""filename": "s3:a""#, false),
        (r#""filename": "a-b://c""#, false),
        (r#""filename": "../a.warc.gz""#, false),
        (r#""filename": "a/../../b.warc.gz""#, false),
        (r#""filename": "a/..""#, false),
        (r#""filename": "./a""#, false),
        (r#""filename": "/etc/passwd""#, false),
        (r#""filename": "~/a""#, false),
        (r#""filename": "file:///etc/passwd""#, false),
        (r#""filename": "http://10.0.0.1/""#, false),
        (r#""filename": "C:\\a""#, false),
        (r#""filename": "a\\..\\b""#, false),
        (r#""filename": "a\u0000.warc""#, false),
        (r#""filename": "a\nb""#, false),
        (r#""filename": "..", "filename": "b""#, true),
        (r#""filename": "b", "filename": ".""#, false),
        (r#""mime": "text/html; charset=\"x\"""#, true),
        (r#""mime": "text/html\r\nSet-Cookie: a=b""#, false),
        (r#""mime": ["text/html"]"#, false),
        (r#""status": "200 OK""#, false),
        (r#""status": -200"#, false),
        (r#""status": 2e2"#, false),
        (r#""status": 2000"#, false),
        (r#""status": true"#, false),
        (r#""digest": "sha1:ABC DEF""#, false),
        (r#""length": "12""#, false),
        (r#""robotflags": "A\u007f""#, false),
    ] {
        let line = format!("com,a)/ 2016 {{\"url\": \"http://a.com/\", {member}}}");
        let row = row_of(&line, RecordLocation::File).unwrap();
        let bare = [r#"{"url": "http://a.com/", "#, TAIL].concat();
        assert_eq!(row != bare, kept, "{member}: {row}");
    }
    for (member, kept) in [
        ("\"offset\": 1, \"length\": 2", 2),
        ("\"offset\": -1, \"length\": \"2x\"", 0),
    ] {
        let line =
            format!("com,a)/ 2016 {{\"url\": \"http://a.com/\", \"filename\": \"a\", {member}}}");
        let row = row_of(&line, RecordLocation::File).unwrap();
        assert_eq!(
            row.matches("offset").count() + row.matches("length").count(),
            kept,
            "{row}"
        );
    }
    let long = format!(
        "com,a)/ 2016 {{\"url\": \"http://a.com/\", \"digest\": \"{}\"}}",
        "x".repeat(1 << 20)
    );
    assert!(row_of(&long, RecordLocation::File).unwrap().len() < 200);
}

#[test]
fn every_answer_format_makes_the_same_row() {
    let expected = [
        r#"{"url": "http://a.com/", "mime": "text/html", "status": "200", "digest": "ABC", "length": "12", "offset": "34", "filename": "a.warc.gz", "#,
        TAIL,
    ]
    .concat();
    for line in [
        r#"com,a)/ 20160102030405 {"url":"http://a.com/","mime":"text/html","status":"200","digest":"ABC","length":"12","offset":"34","filename":"a.warc.gz"}"#,
        r#"{"urlkey":"com,a)/","timestamp":"20160102030405","url":"http://a.com/","mime":"text/html","status":"200","digest":"ABC","length":"12","offset":"34","filename":"a.warc.gz"}"#,
        r#"{"urlkey":"com,a)/","timestamp":20160102030405,"original":"http://a.com/","mimetype":"text/html","statuscode":200,"digest":"ABC","length":12,"offset":34,"filename":"a.warc.gz","x":[{}]}"#,
        "com,a)/ 20160102030405 http://a.com/ text/html 200 ABC - - 12 34 a.warc.gz",
        "com,a)/ 20160102030405 http://a.com/ text/html 200 ABC - - 12 34 a.warc.gz - - -\r",
    ] {
        assert_eq!(
            row_of(line, RecordLocation::File).unwrap(),
            expected,
            "{line}"
        );
    }
    for (header_of, element) in rows![
        "[]",
            r#"["com,a)/", 20160102030405, "http://a.com/", "text/html", 200, "ABC", "-", "-", 12, 34, "a.warc.gz"]"#;
        "[]",
            r#"["com,a)/", "20160102030405", "http://a.com/", "text/html", "200", "ABC", "12", "34", "a.warc.gz"]"#;
        r#"["timestamp", "original", "filename", "offset", "length", "statuscode", "mimetype", "digest", "more"]"#,
            r#"["20160102030405", "http://a.com/", "a.warc.gz", "34", "12", "200", "text/html", "ABC", "x"]"#;
    ] {
        let columns = header(header_of.as_bytes()).unwrap_or_default();
        let claim = Claim::of_element(element.as_bytes(), &columns).unwrap();
        let mut made = Made::default();
        assert_eq!(
            whitelist("a.com", RecordLocation::File).push(&claim, &mut made),
            Verdict::Row
        );
        assert_eq!(made.take()[0].json(), expected.as_bytes(), "{element}");
    }
}

#[test]
fn random_bytes_cause_no_panic() {
    let mut rng = Rng::new("whitelist::noise");
    let line = r#"com,a)/ 20160102030405 {"url":"http://a.com/","mime":"text/html","status":"200","digest":"ABC","length":"12","offset":"34","filename":"a.warc.gz","source":"x"}"#;
    for _ in 0..5000 {
        let mut bytes = line.as_bytes().to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            match rng.below(3) {
                0 => bytes[at] = rng.bits() as u8,
                1 => {
                    bytes.remove(at);
                }
                _ => bytes.insert(at, *rng.pick(b"\"\\{}[], \r\n\0:u")),
            }
        }
        let _ = row_for("http://a.com/*", &bytes, RecordLocation::Given);
    }
}
