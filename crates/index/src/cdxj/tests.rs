use crawlspace_warc::digest::{Algorithm, of};
use crawlspace_warc::{Compression, Reader, Writer};

use super::{Tally, rows};
use crate::Work;

/// A record of an exchange: its type, its id, and the records that it names.
type Of<'a> = (&'a str, u32, &'a [u32]);

const FORM: &str = "http://example.com/form";

fn file(records: &[Of], uri: &str) -> Vec<u8> {
    let mut file = Vec::new();
    for (kind, id, to) in records {
        let id = format!("<urn:uuid:{id}>");
        let to: Vec<String> = to.iter().map(|id| format!("<urn:uuid:{id}>")).collect();
        let mut fields: Vec<(&str, &[u8])> = vec![
            ("WARC-Type", kind.as_bytes()),
            ("WARC-Record-ID", id.as_bytes()),
            ("WARC-Target-URI", uri.as_bytes()),
            ("WARC-Date", b"2026-03-19T10:20:15Z"),
        ];
        if *kind == "metadata" {
            fields.push(("Content-Type", b"application/json"));
        }
        fields.extend(to.iter().map(|id| ("WARC-Concurrent-To", id.as_bytes())));
        let block: &[u8] = match *kind {
            "request" => {
                b"POST /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n\r\na=b"
            }
            "get" => b"GET /form HTTP/1.1\r\n\r\n",
            "metadata" => b"{}",
            _ => b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello",
        };
        if *kind == "get" {
            fields[0].1 = b"request";
        }
        Writer::new(&mut file, Compression::None)
            .write(&fields, block)
            .unwrap();
    }
    file
}

fn indexed(file: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let mut tally = Tally::default();
    let warc = Reader::new("a.warc", file);
    rows(warc, "a.warc", &mut tally, &Work::default(), &mut |row| {
        found.push(String::from_utf8(row.to_vec()).unwrap());
        Ok(())
    })
    .unwrap();
    assert_eq!(tally.rows, found.len() as u64);
    found
}

/// Returns true for each row that has the key of a POST request. The rows must be in the order of the file.
fn posts(records: &[Of]) -> Vec<bool> {
    let rows = indexed(&file(records, FORM));
    let offset = |row: &String| -> u64 {
        let (_, offset) = row.split_once(r#""offset": ""#).unwrap();
        offset.split('"').next().unwrap().parse().unwrap()
    };
    assert!(rows.is_sorted_by_key(offset), "{rows:?}");
    let is_post = |row: &String| {
        let is_post = row.starts_with("com,example)/form?__wb_method=post&a=b ");
        assert_eq!(is_post, row.contains(r#""method": "POST""#), "{row}");
        is_post
    };
    rows.iter().map(is_post).collect()
}

#[test]
fn linked_requests_change_the_key() {
    let cases: [(&[Of], &[bool]); 15] = [
        (&[("response", 1, &[]), ("request", 2, &[1])], &[true]),
        (&[("request", 2, &[]), ("response", 1, &[2])], &[true]),
        (&[("response", 1, &[2]), ("request", 2, &[])], &[true]),
        (&[("request", 2, &[1]), ("response", 1, &[])], &[true]),
        (&[("response", 1, &[2]), ("request", 2, &[1])], &[true]),
        (&[("response", 1, &[]), ("request", 2, &[9, 1])], &[true]),
        (&[("response", 1, &[9, 2]), ("request", 2, &[])], &[true]),
        (&[("revisit", 1, &[]), ("request", 2, &[1])], &[true]),
        // A record of another type never has a request.
        (
            &[
                ("response", 1, &[]),
                ("metadata", 3, &[1, 2]),
                ("request", 2, &[1]),
            ],
            &[true, false],
        ),
        (
            &[
                ("response", 1, &[]),
                ("response", 3, &[]),
                ("request", 2, &[1]),
            ],
            &[true, false],
        ),
        (
            &[
                ("response", 1, &[]),
                ("response", 3, &[]),
                ("request", 2, &[3]),
            ],
            &[false, true],
        ),
        (
            &[
                ("request", 2, &[]),
                ("get", 4, &[]),
                ("response", 3, &[4]),
                ("response", 1, &[2]),
            ],
            &[false, true],
        ),
        (&[("response", 1, &[]), ("request", 2, &[9])], &[false]),
        (&[("response", 1, &[]), ("request", 2, &[])], &[false]),
        (&[("response", 1, &[]), ("get", 2, &[1])], &[false]),
    ];
    for (records, expected) in cases {
        assert_eq!(posts(records), expected, "{records:?}");
    }
}

#[test]
fn request_of_another_url_is_not_linked() {
    let mut bytes = file(&[("response", 1, &[])], "http://example.com/");
    bytes.extend(file(&[("request", 2, &[1])], FORM));
    assert!(indexed(&bytes)[0].starts_with("com,example)/ "));
}

#[test]
fn records_wait_for_fifteen_others() {
    for (between, is_found) in [(15, true), (16, false)] {
        let numbers = 100..100 + between;
        let mut records: Vec<Of> = vec![("response", 1, &[])];
        records.extend(numbers.clone().map(|id| ("response", id, &[][..])));
        records.push(("request", 2, &[1]));
        assert_eq!(posts(&records)[0], is_found, "{between}");
        let mut records: Vec<Of> = vec![("request", 2, &[])];
        records.extend(numbers.map(|id| ("request", id, &[][..])));
        records.push(("response", 1, &[2]));
        assert_eq!(posts(&records), [is_found], "{between}");
    }
}

#[test]
fn computed_digest_is_that_of_the_payload_without_chunks() {
    let digest = |body: &str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut file = Vec::new();
        let fields: [(&str, &[u8]); 3] = [
            ("WARC-Type", b"response"),
            ("WARC-Target-URI", b"http://example.com/"),
            ("WARC-Date", b"2026-03-19T10:20:15Z"),
        ];
        Writer::new(&mut file, Compression::None)
            .write(&fields, format!("{head}{body}").as_bytes())
            .unwrap();
        let row = indexed(&file).pop().unwrap();
        let (_, digest) = row.split_once(r#""digest": ""#).unwrap();
        digest.split('"').next().unwrap().to_owned()
    };
    let sha1 = |bytes: &[u8]| of(Algorithm::Sha1, bytes).text();
    for body in [
        "5\r\nhello\r\n0\r\n\r\n",
        "2\r\nhe\r\n3;x\r\nllo\r\n0\r\nA: b\r\n\r\n",
        "5\nhello\n0\n\nanything",
        "5\r\nhello\r\n0\r\n",
    ] {
        assert_eq!(digest(body), sha1(b"hello"), "{body:?}");
    }
    for body in ["hello", "5\r\nhello\r\n", "5\r\nhello!\r\n0\r\n\r\n", ""] {
        assert_eq!(digest(body), sha1(body.as_bytes()), "{body:?}");
    }
    // Chunks may end anywhere in the pieces that are read.
    let long = "x".repeat(200_000);
    let coded: String = (0..200_000)
        .step_by(1000)
        .map(|at| format!("3e8\r\n{}\r\n", &long[at..at + 1000]))
        .collect();
    assert_eq!(digest(&format!("{coded}0\r\n\r\n")), sha1(long.as_bytes()));
}

#[test]
fn schemes_are_case_insensitive() {
    let rows = indexed(&file(
        &[("response", 1, &[]), ("request", 2, &[1])],
        "HTTP://EXAMPLE.com:80/Upper",
    ));
    let beginning = r#"com,example)/upper?__wb_method=post&a=b 20260319102015 {"url": "HTTP://EXAMPLE.com:80/Upper", "mime": "text/html", "status": "200", "digest": "sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N", "#;
    assert!(rows[0].starts_with(beginning), "{rows:?}");
}
