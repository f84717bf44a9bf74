//! Tests of `/<coll>?url=…` and `?q=type:urlquery`, for programs that are configured for
//! OutbackCDX.

use redis_tests::{assert_contains, assert_lacks, assert_starts};

use crate::serving::Stage;
use crate::shelf::Shelf;

/// Creates two captures of one page, and one of another page.
pub fn shelf() -> Shelf {
    let mut shelf = Shelf::new();
    for (url, time) in [
        ("http://example.com/a?b=1&c=2", "20140101000000"),
        ("http://example.com/a?b=1&c=2", "20160101000000"),
        ("http://example.com/b", "20180101000000"),
    ] {
        shelf.capture("a.warc.gz", url, time, format!("{url} {time}").as_bytes());
    }
    shelf
}

fn serve() -> (Shelf, Stage) {
    let mut shelf = shelf();
    let stage = shelf.serve();
    (shelf, stage)
}

#[test]
fn rows_are_eleven_columns() {
    let (_shelf, stage) = serve();
    for target in [
        "/c?url=http://example.com/b",
        "/c/?url=example.com/b&limit=1",
    ] {
        let answer = stage.get(target);
        assert_eq!(
            (answer.status, answer.media_type()),
            (200, "text/plain"),
            "{target}"
        );
        let text = answer.text();
        let columns: Vec<&str> = text.trim_end().split(' ').collect();
        assert_eq!(
            columns[..5],
            [
                "com,example)/b",
                "20180101000000",
                "http://example.com/b",
                "text/plain",
                "-"
            ]
        );
        assert_eq!((columns.len(), columns[10]), (11, "a.warc.gz"), "{text}");
    }
    let years = stage.get("/c?url=http://example.com/a?b=1%26c=2&sort=reverse&fl=timestamp");
    assert_eq!(years.text(), "20160101000000\n20140101000000\n");
    let years = stage.get("/c?url=http://example.com/a?b=1%26c=2&output=json&fl=timestamp");
    assert_eq!(
        years.text(),
        "[[\"20140101000000\"],\n[\"20160101000000\"]]\n"
    );
    // All rows from a URL on, of any host.
    for (from, limit, expected) in [
        ("http://example.com/a?b=1%26c=2", 9, "2014 2016 2018"),
        ("http://example.com/a?b=1%26c=3", 9, "2018"),
        ("http://aaa.com/", 2, "2014 2016"),
        ("http://example.com/c", 9, ""),
    ] {
        let target = format!("/c?url={from}&matchType=range&limit={limit}&fl=timestamp");
        let text = stage.get(&target).text();
        let years: Vec<&str> = text.lines().map(|line| &line[..4]).collect();
        assert_eq!(years.join(" "), expected, "{target}");
    }
    assert_eq!(stage.get("/c?url=").status, 400);
    assert_eq!(stage.get("/c").status, 404);
}

#[test]
fn openwayback_queries_are_answered_in_xml() {
    let (_shelf, stage) = serve();
    let url = "http%253A%252F%252Fexample.com%252Fa%253Fb%253D1%2526c%253D2";
    let answer = stage.get(format!("/c?q=type:urlquery+url:{url}"));
    assert_eq!(
        (answer.status, answer.media_type()),
        (200, "application/xml")
    );
    let text = answer.text();
    assert_starts(&text, "<?xml");
    assert_contains(&text, "<url>http://example.com/a?b=1&amp;c=2</url>");
    assert_contains(&text, "<file>a.warc.gz</file>");
    assert_eq!(text.matches("<result>").count(), 2);
    let first = stage
        .get(format!("/c?q=limit:1+type:urlquery+url:{url}"))
        .text();
    assert_contains(&first, "<capturedate>20140101000000</capturedate>");
    assert_lacks(&first, "20160101000000");
    let urls = stage
        .get("/c?q=type:prefixquery+url:http%253A%252F%252Fexample.com%252F")
        .text();
    assert_contains(&urls, "<originalurl>http://example.com/b</originalurl>");
    assert_contains(&urls, "<numversions>2</numversions>");
    let none = stage.get("/c?q=type:urlquery+url:example.org").text();
    assert_contains(&none, "<results>\n</results>");
    for wrong in [
        "type:urlquery",
        "type:other+url:a.com",
        "url:a.com+limit:-1",
    ] {
        assert_eq!(stage.get(format!("/c?q={wrong}")).status, 400, "{wrong}");
    }
}
