//! Tests which capture is replayed from partial captures, and from captures of the same second.

use redis_tests::archive::collection::sha1_base32;
use redis_tests::http::{Answer, ask};

use super::cases::TIME;
use crate::serving::Stage;
use crate::shelf::{Shelf, iso};

/// Adds an HTTP response to an uncompressed file, with its index line.
pub fn capture(shelf: &mut Shelf, url: &str, time: &str, http: &str, body: &[u8], status: &str) {
    let slot = shelf.record(
        "a.warc",
        &[
            ("WARC-Type", "response"),
            (
                "WARC-Record-ID",
                &format!(
                    "<urn:uuid:{}>",
                    sha1_base32(format!("{url}{time}{http}").as_bytes())
                ),
            ),
            ("WARC-Date", &iso(time)),
            ("WARC-Target-URI", url),
            ("Content-Type", "application/http; msgtype=response"),
        ],
        &[http.as_bytes(), body].concat(),
    );
    shelf.line(
        url,
        time,
        &slot,
        &format!(", \"status\": \"{status}\", \"mime\": \"video/mp4\""),
    );
}

fn part(stage: &Stage, url: &str, range: &str) -> Answer {
    let target = format!("/c/{TIME}id_/{url}");
    ask(stage.address(), "GET", &target, &[("Range", range)], b"").unwrap()
}

#[test]
fn parts_of_captures_are_replayed() {
    let mut shelf = Shelf::new();
    let body: Vec<u8> = (0..1000u32).map(|n| (n % 251) as u8).collect();
    let (whole, pieces, lone, cut) = (
        "http://a.example/v.mp4",
        "http://b.example/v.mp4",
        "http://c.example/v.mp4",
        "http://d.example/v.mp4",
    );
    capture(
        &mut shelf,
        whole,
        TIME,
        "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n",
        &body,
        "200",
    );
    let partial = |first: usize, last: usize| {
        format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Type: video/mp4\r\nContent-Range: bytes {first}-{last}/1000\r\n\r\n"
        )
    };
    for (n, (first, last)) in [(0, 399), (400, 799), (800, 999)].into_iter().enumerate() {
        let time = format!("2016010203040{n}");
        capture(
            &mut shelf,
            pieces,
            &time,
            &partial(first, last),
            &body[first..=last],
            "206",
        );
    }
    capture(&mut shelf, lone, TIME, &partial(0, 999), &body, "206");
    // Partial captures that the recorder truncated. The one that starts first is the closest one.
    for (n, (first, end)) in [(700, 1000), (300, 800), (0, 400)].into_iter().enumerate() {
        let time = format!("2016010203040{n}");
        let http = partial(first, 999);
        capture(&mut shelf, cut, &time, &http, &body[first..end], "206");
    }
    let stage = shelf.serve();
    let all = stage.get(format!("/c/{TIME}id_/{whole}"));
    assert_eq!(
        (all.status, all.field("accept-ranges")),
        (200, Some("bytes"))
    );
    for (url, range, first, last) in [
        (whole, "bytes=0-", 0, 999),
        (whole, "bytes=10-19", 10, 19),
        (whole, "bytes=-5", 995, 999),
        (whole, "bytes=990-5000", 990, 999),
        (pieces, "bytes=0-", 0, 399),
        (pieces, "bytes=450-500", 450, 500),
        (pieces, "bytes=799-", 799, 799),
        (pieces, "bytes=-100", 900, 999),
        (lone, "bytes=5-6", 5, 6),
        (cut, "bytes=0-", 0, 399),
        (cut, "bytes=350-500", 350, 399),
        (cut, "bytes=400-", 400, 799),
        (cut, "bytes=-200", 800, 999),
    ] {
        let answer = part(&stage, url, range);
        assert_eq!(answer.status, 206, "{url} {range}: {}", answer.text());
        assert!(answer.body == body[first..=last], "{url} {range}");
        let expected = format!("bytes {first}-{last}/1000");
        assert_eq!(
            answer.field("content-range"),
            Some(&*expected),
            "{url} {range}"
        );
    }
    let beyond = part(&stage, whole, "bytes=1000-");
    assert_eq!(
        (beyond.status, beyond.field("content-range")),
        (416, Some("bytes */1000"))
    );
    assert!(beyond.body.is_empty());
    for ignored in ["bytes=0-1,5-6", "lines=0-1", "bytes=9-1"] {
        let answer = part(&stage, whole, ignored);
        assert!(answer.status == 200 && answer.body == body, "{ignored}");
    }
    let complete = stage.get(format!("/c/{TIME}id_/{lone}"));
    assert!(complete.status == 200 && complete.body == body);
    assert_eq!(complete.field("content-range"), None);
    let begin = stage.get(format!("/c/{TIME}id_/{cut}"));
    assert!(begin.status == 206 && begin.body == body[..400]);
    assert_eq!(begin.field("content-range"), Some("bytes 0-399/1000"));
}

#[test]
fn requested_capture_of_a_second_comes_first() {
    let mut shelf = Shelf::new();
    let ok = "HTTP/1.1 200 OK\r\n\r\n";
    let redirect = "HTTP/1.1 301 Moved\r\nLocation: https://other.example/\r\n\r\n";
    let partial = "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-0/9\r\n\r\n";
    for (url, http, body, status) in [
        ("http://a.example/Page", redirect, &b"moved"[..], "301"),
        ("http://a.example/Page", partial, b"p", "206"),
        ("http://a.example/Page", ok, b"Page", "200"),
        ("http://a.example/page", ok, b"page", "200"),
        ("https://a.example/page", ok, b"secure", "200"),
    ] {
        capture(&mut shelf, url, TIME, http, body, status);
    }
    let stage = shelf.serve();
    for (url, body) in [
        ("http://a.example/Page", "Page"),
        ("http://a.example/page", "page"),
        ("https://a.example/page", "secure"),
    ] {
        let answer = stage.get(format!("/c/{TIME}id_/{url}"));
        assert_eq!((answer.status, &*answer.text()), (200, body), "{url}");
    }
}
