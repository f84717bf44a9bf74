//! Tests of revisits, whose payload is in another record.

use redis_tests::archive::collection::sha1_base32;
use redis_tests::http::Answer;
use redis_tests::rows;

use crate::disclosure::logged;
use crate::resource::{check, field, record, target};
use crate::serving::Stage;
use crate::shelf::{HTTP, Shelf, Slot, iso};

const URL: &str = "http://example.com/";
const FIRST: &str = "20150101000000";
const LATER: &str = "20160101000000";
const TEXT: &[u8] = b"what was there both times";

/// Adds a revisit to `revisits.warc.gz`, with its index line.
fn revisit(shelf: &mut Shelf, url: &str, fields: &[(&str, &str)], http: &str, more: &str) -> Slot {
    let date = iso(LATER);
    let id = format!("<urn:uuid:revisit-{}>", sha1_base32(url.as_bytes()));
    let mut all = vec![
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", &*id),
        ("WARC-Date", &*date),
        ("WARC-Target-URI", url),
        ("Content-Type", "application/http; msgtype=response"),
    ];
    all.extend_from_slice(fields);
    let slot = shelf.record("revisits.warc.gz", &all, http.as_bytes());
    let more = format!(", \"mime\": \"warc/revisit\"{more}");
    shelf.line(url, LATER, &slot, &more);
    slot
}

fn digest() -> String {
    format!("sha1:{}", sha1_base32(TEXT))
}

/// Returns HTTP header and payload of a record of this time.
fn parts(answer: &Answer) -> (String, Vec<u8>) {
    let (head, block) = record(answer);
    assert_eq!(field(&head, "WARC-Type"), "response");
    assert_eq!(field(&head, "WARC-Date"), iso(LATER));
    let end = block.windows(4).position(|four| four == b"\r\n\r\n");
    let (http, payload) = block.split_at(end.unwrap() + 4);
    let http = String::from_utf8(http.to_vec()).unwrap();
    (http, payload.to_vec())
}

#[test]
fn revisit_returns_the_payload_of_its_original() {
    let mut shelf = Shelf::new();
    let digest = digest();
    let own = "HTTP/1.1 200 OK\r\nX-Own: yes\r\n\r\n";
    // Each case has its own collection with the original and the revisit.
    let mut config = String::from("collections:\n");
    let mut asked: Vec<(&str, bool)> = Vec::new();
    let mut add = |shelf: &mut Shelf, name: &'static str, has_own: bool| {
        let index = shelf.write_index(&format!("{name}.cdxj"));
        let warcs = shelf.warcs();
        config += &format!("  {name}:\n    index: {index}\n    resource: {warcs}\n");
        asked.push((name, has_own));
    };
    let with_digest = [("WARC-Payload-Digest", &*digest)];

    shelf.capture("a.warc.gz", URL, FIRST, TEXT);
    shelf.capture("a.warc.gz", URL, "20150601000000", b"something else");
    revisit(&mut shelf, URL, &with_digest, own, "");
    add(&mut shelf, "same_url", true);

    shelf.capture("b.warc", "http://other.example/x", FIRST, TEXT);
    let date = iso(FIRST);
    let fields = [
        ("WARC-Refers-To-Target-URI", "http://other.example/x"),
        ("WARC-Payload-Digest", &*digest),
        ("WARC-Refers-To-Date", &*date),
    ];
    revisit(&mut shelf, URL, &fields, own, "");
    add(&mut shelf, "other_url", true);

    // The revisit has no digest, only URL and date of its original.
    let slot = shelf.response("c.warc.gz", "http://other.example/y", FIRST, TEXT);
    shelf.line("http://other.example/y", FIRST, &slot, "");
    let fields = [
        ("WARC-Refers-To-Target-URI", "<http://other.example/y>"),
        ("WARC-Refers-To-Date", &*date),
    ];
    revisit(&mut shelf, URL, &fields, own, "");
    add(&mut shelf, "no_digest", true);

    shelf.capture("d.warc.gz", URL, FIRST, TEXT);
    revisit(&mut shelf, URL, &with_digest, "", "");
    add(&mut shelf, "no_header", false);

    shelf.capture("e.warc.gz", URL, FIRST, TEXT);
    let not_modified = "HTTP/1.1 304 Not Modified\r\n\r\n";
    revisit(&mut shelf, URL, &with_digest, not_modified, "");
    add(&mut shelf, "not_modified", false);

    // The row of this revisit locates the original, but the record does not.
    let slot = shelf.response("f.warc.gz", "http://hidden.example/", FIRST, TEXT);
    let more = format!(
        ", \"orig.filename\": \"{}\", \"orig.offset\": \"{}\", \"orig.length\": \"{}\"",
        slot.file, slot.offset, slot.length
    );
    revisit(&mut shelf, URL, &with_digest, own, &more);
    add(&mut shelf, "in_the_row", true);

    revisit(&mut shelf, URL, &with_digest, own, "");
    add(&mut shelf, "elsewhere", true);

    let stage = Stage::start(&config);
    let mut records = Vec::new();
    for (name, has_own) in asked {
        let answer = stage.get(target(name, URL, LATER));
        assert_eq!(answer.status, 200, "{name}: {}", answer.text());
        let (http, payload) = parts(&answer);
        assert_eq!(payload, TEXT, "{name}");
        assert_eq!(http, if has_own { own } else { HTTP }, "{name}");
        let (head, _) = record(&answer);
        assert_eq!(field(&head, "WARC-Target-URI"), URL);
        assert_eq!(field(&head, "WARC-Payload-Digest"), digest, "{name}");
        assert_eq!(field(&head, "WARC-Refers-To-Date"), iso(FIRST), "{name}");
        assert!(answer.field("warcserver-cdx").unwrap().contains(LATER));
        records.extend_from_slice(&answer.body);
    }
    check(&records, shelf.path());
}

#[test]
fn header_matches_the_payload() {
    let mut shelf = Shelf::new();
    let chunked = b"19\r\nwhat was there both times\r\n0\r\n\r\n";
    let digest = format!("sha1:{}", sha1_base32(chunked));
    let http = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX: theirs\r\n\r\n";
    let date = iso(FIRST);
    let fields = [
        ("WARC-Type", "response"),
        ("WARC-Record-ID", "<urn:uuid:original>"),
        ("WARC-Date", &*date),
        ("WARC-Target-URI", URL),
        ("WARC-Payload-Digest", &digest),
    ];
    let slot = shelf.record("a.warc.gz", &fields, &[http.as_bytes(), chunked].concat());
    shelf.line(URL, FIRST, &slot, &format!(", \"digest\": \"{digest}\""));
    let own = "HTTP/1.1 200 OK\r\nContent-Length: 25\r\nX: own\r\n\r\n";
    let fields = &[("WARC-Payload-Digest", &*digest)];
    revisit(&mut shelf, URL, fields, own, "");
    let stage = shelf.serve();
    let answer = stage.get(target("c", URL, LATER));
    let (http, payload) = parts(&answer);
    let expected = "HTTP/1.1 200 OK\r\nX: own\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(http, expected);
    assert_eq!(payload, chunked);
    check(&answer.body, shelf.path());
}

#[test]
fn some_revisits_need_no_original() {
    let mut shelf = Shelf::new();
    let empty = format!("sha1:{}", sha1_base32(b""));
    let moved = "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 25\r\n\r\n";
    let digest = digest();
    let fields = &[("WARC-Payload-Digest", &*digest)];
    revisit(&mut shelf, URL, fields, moved, "");
    let nothing = "http://example.com/nothing";
    let fields = &[("WARC-Payload-Digest", &*empty)];
    revisit(&mut shelf, nothing, fields, HTTP, "");
    let stage = shelf.serve();
    let mut records = Vec::new();
    for (url, head) in rows![
        URL, "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n";
        nothing, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0\r\n\r\n";
    ] {
        let answer = stage.get(target("c", url, LATER));
        assert_eq!(parts(&answer), (head.to_owned(), Vec::new()));
        records.extend_from_slice(&answer.body);
    }
    check(&records, shelf.path());
}

#[test]
fn missing_original_ends_the_search() {
    let mut shelf = Shelf::new();
    let digest = digest();
    let other = "http://example.com/other";
    // Two revisits refer to each other, and one refers to itself.
    let fields = |url| {
        [
            ("WARC-Payload-Digest", &*digest),
            ("WARC-Refers-To-Target-URI", url),
            ("WARC-Refers-To-Date", "2016-01-01T00:00:00Z"),
        ]
    };
    revisit(&mut shelf, URL, &fields(other), HTTP, "");
    revisit(&mut shelf, other, &fields(URL), HTTP, "");
    let itself = "http://example.com/itself";
    let slot = revisit(&mut shelf, itself, &fields(itself), HTTP, "");
    // The index lists the revisits as captures of another media type, not as revisits.
    let first = shelf.index.lines().next().unwrap();
    let first = first.replace("warc/revisit", "text/plain");
    shelf.index += &format!("{first}\n");
    shelf.line(itself, FIRST, &slot, ", \"mime\": \"text/plain\"");
    // Another payload has the same digest in its row.
    let lie = "http://example.com/lie";
    let wrong = shelf.response("a.warc.gz", lie, FIRST, b"a lie");
    let more = format!(", \"digest\": \"{digest}\"");
    shelf.line(lie, FIRST, &wrong, &more);
    revisit(&mut shelf, lie, &fields(lie), HTTP, "");
    let stage = shelf.serve();
    for url in [URL, other, itself, lie] {
        let answer = stage.get(&(target("c", url, LATER) + "&from=2016"));
        assert_eq!(answer.status, 404, "{url}: {}", answer.text());
        let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
        let tried = json["tried"].as_array().unwrap().len();
        for event in logged(&stage, &answer, "a record cannot be loaded", tried) {
            let error = event["error"].as_str().unwrap();
            assert!(error.contains("the original of the revisit"), "{event}");
        }
    }
}

#[test]
fn not_modified_capture_is_the_page_at_that_time() {
    let mut shelf = Shelf::new();
    let profile = (
        "WARC-Profile",
        "http://netpreserve.org/warc/1.0/revisit/server-not-modified",
    );
    let date = iso(FIRST);
    let nothing = format!("sha1:{}", sha1_base32(b""));
    let not_modified = "HTTP/1.1 304 Not Modified\r\n\r\n";
    let mut urls = Vec::new();
    for (name, fields, http) in [
        ("profile", vec![profile], ""),
        ("header", vec![profile], not_modified),
        (
            "date",
            vec![profile, ("WARC-Refers-To-Date", &*date)],
            not_modified,
        ),
        (
            "id",
            vec![profile, ("WARC-Refers-To", "<urn:uuid:first>")],
            not_modified,
        ),
        (
            "nothing",
            vec![profile, ("WARC-Payload-Digest", &*nothing)],
            not_modified,
        ),
        (
            "status",
            vec![("WARC-Payload-Digest", &*nothing)],
            not_modified,
        ),
    ] {
        let url = format!("http://{name}.example/");
        shelf.capture("a.warc.gz", &url, "20140101000000", b"older");
        shelf.capture("a.warc.gz", &url, FIRST, TEXT);
        shelf.capture("a.warc.gz", &url, "20160101000001", b"a second later");
        revisit(&mut shelf, &url, &fields, http, "");
        urls.push(url);
    }
    let stage = shelf.serve();
    for url in urls {
        let answer = stage.get(target("c", &url, LATER));
        assert_eq!(answer.status, 200, "{url}: {}", answer.text());
        let (http, payload) = parts(&answer);
        assert_eq!((&http[..], &payload[..]), (HTTP, TEXT), "{url}");
    }
}

#[test]
fn originals_behind_many_revisits_are_found_up_to_a_reported_limit() {
    let mut shelf = Shelf::new();
    let digest = digest();
    let more = format!(
        ", \"mime\": \"warc/revisit\", \"digest\": \"{}\"",
        sha1_base32(TEXT)
    );
    let own = "HTTP/1.1 200 OK\r\n\r\n";
    for (url, count) in [
        ("http://near.example/", 10_000),
        ("http://far.example/", 40_000),
    ] {
        shelf.capture("a.warc.gz", url, FIRST, TEXT);
        let fields = [("WARC-Payload-Digest", &*digest)];
        let slot = revisit(&mut shelf, url, &fields, own, "");
        for n in 0..count {
            let (hour, minute, second) = (n / 3600, n / 60 % 60, n % 60);
            let time = format!(
                "201506{:02}{:02}{minute:02}{second:02}",
                1 + hour / 24,
                hour % 24
            );
            shelf.line(url, &time, &slot, &more);
        }
    }
    let stage = shelf.serve();
    let near = stage.get(target("c", "http://near.example/", LATER));
    assert_eq!(near.status, 200, "{}", near.text());
    assert_eq!(parts(&near).1, TEXT);
    for _ in 0..2 {
        let far = stage.get(target("c", "http://far.example/", LATER));
        assert_eq!(far.status, 503, "{}", far.text());
        assert!(far.text().contains("limit exceeded"), "{}", far.text());
    }
}

#[test]
fn revisit_of_an_empty_payload_is_empty_with_any_digest() {
    let mut shelf = Shelf::new();
    let digests = [
        format!("sha1:{}", sha1_base32(b"")),
        "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855".to_owned(),
    ];
    let url = |n: usize| format!("http://empty{n}.example/");
    for (n, digest) in digests.iter().enumerate() {
        let fields = [("WARC-Payload-Digest", &**digest)];
        revisit(&mut shelf, &url(n), &fields, "HTTP/1.1 200 OK\r\n\r\n", "");
    }
    let stage = shelf.serve();
    for n in 0..digests.len() {
        let answer = stage.get(target("c", &url(n), LATER));
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(parts(&answer).1, b"");
    }
}
