//! Tests of the list of captures: each can be reached, and links to itself.

use redis_tests::{assert_contains, assert_lacks};

use super::{link_with, links, page, search};
use crate::shelf::{Shelf, iso};

const URL: &str = "http://example.com/";

fn times(html: &str) -> Vec<String> {
    let cells = html.split("<td class=\"time\">").skip(1);
    cells
        .map(|rest| rest.split('<').next().unwrap().to_owned())
        .collect()
}

#[test]
fn all_captures_of_a_day_can_be_reached() {
    let mut shelf = Shelf::new();
    for number in 0..250 {
        let time = format!("2016010203{:02}{:02}", number / 60, number % 60);
        let json = format!("{{\"url\": \"{URL}\", \"digest\": \"{number}\"}}");
        shelf.index += &format!("com,example)/ {time} {json}\n");
    }
    let stage = shelf.serve();
    let first = page(&stage, &search("c", "example.com", "20160102"), 200);
    assert_contains(&first, "250 captures of");
    let mut seen = times(&first);
    assert!(first.contains("<caption>1 to 100 of 250, in the order of the index</caption>"));
    assert_lacks(&first, "rel=\"prev\"");
    let second = page(&stage, &link_with(&first, "skip=100"), 200);
    assert_contains(&second, "<caption>101 to 200 of 250");
    assert_contains(&second, "250 captures of");
    seen.extend(times(&second));
    assert_contains(&second, ">Next 50</a>");
    let third = page(&stage, &link_with(&second, "skip=200"), 200);
    assert_lacks(&third, "rel=\"next\"");
    seen.extend(times(&third));
    seen.dedup();
    assert_eq!(seen.len(), 250);
    assert!(seen.is_sorted());
    let back = page(&stage, &link_with(&third, "skip=100"), 200);
    assert_eq!(times(&back), times(&second));
    // A link to another span lists the captures of that span from the first one on.
    let month = link_with(&third, "when=201601");
    assert_lacks(&month, "skip");
    for beyond in ["skip=250", "skip=18446744073709551615"] {
        let target = format!("{}&{beyond}", search("c", "example.com", "20160102"));
        let html = page(&stage, &target, 200);
        assert!(html.contains("There are no captures after the first"));
        link_with(&html, "skip=150");
    }
    for no_number in ["skip=", "skip=-1", "skip=x"] {
        let target = format!("{}&{no_number}", search("c", "example.com", "20160102"));
        assert_eq!(times(&page(&stage, &target, 200)), times(&first));
    }
}

#[test]
fn each_capture_links_to_its_own_record() {
    let mut shelf = Shelf::new();
    let time = "20160102030405";
    let http = "HTTP/1.1 301 Moved\r\nLocation: https://www.example.com/\r\n\r\n";
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", "<urn:uuid:redirect>"),
        ("WARC-Date", &*iso(time)),
        ("WARC-Target-URI", URL),
    ];
    let slot = shelf.record("a.warc.gz", &fields, http.as_bytes());
    shelf.line(URL, time, &slot, ", \"status\": \"301\"");
    shelf.capture("a.warc.gz", URL, time, b"a page");
    shelf.capture("a.warc.gz", URL, "20160102030406", b"another page");
    let stage = shelf.serve();
    let html = page(&stage, &search("c", "example.com", ""), 200);
    let records: Vec<String> = links(&html)
        .into_iter()
        .filter(|link| link.starts_with("/c/resource?"))
        .map(|link| stage.get(&link).text())
        .collect();
    assert_eq!(records.len(), 3, "{html}");
    for end in [
        http,
        "\r\n\r\na page\r\n\r\n",
        "\r\n\r\nanother page\r\n\r\n",
    ] {
        let found = records.iter().filter(|record| record.contains(end));
        assert_eq!(found.count(), 1, "{end:?} in {records:?}");
    }
    let content = link_with(&html, "/20160102030406id_/http://example.com/");
    assert_eq!(content, "/c/20160102030406id_/http://example.com/");
    let content = stage.get(&content);
    assert_eq!((content.status, &*content.text()), (200, "another page"));
}
