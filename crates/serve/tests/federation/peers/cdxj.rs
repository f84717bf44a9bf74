//! Compares the rows of WARC and ARC files, line by line, with those of cdxj-indexer from PyPI.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crawlspace_index::{Work, cdxj};
use crawlspace_warc::Reader;
use redis_tests::packages::run;
use serde::Deserialize;

use super::python;
use crate::deviations::cases::{INFO, TIME, arc, cases, member};

const INDEXER: &str = include_str!("cdxj.py");

/// cdxj-indexer writes the row, and then stops because the next record does not begin where it looks for it.
const STOPS: &str = "the next record is found in spite of a wrong length or end";
/// cdxj-indexer writes a row for a record whose end is unknown, and skips or misreads what follows.
const UNREADABLE: &str = "a record that cannot be delimited is reported as damage";
const DATE: &str = "dates of other time zones are converted to UTC";
const ARC: &str = "the columns of the header line are recognized";
const FINAL: &str = "the status is that of the final response";
/// cdxj-indexer only compares adjacent records: the first `WARC-Concurrent-To` of the second one with the id of the first.
const CONCURRENT: &str = "WARC-Concurrent-To holds in both directions, may be repeated, and links records near each other";
/// cdxj-indexer only recognizes `http:` and `https:` in lower case.
const SCHEME: &str = "schemes are case-insensitive";

/// Records whose rows differ from those of cdxj-indexer 1.5.0, with the reason.
const DIFFERENCES: [(&str, &str); 36] = [
    ("length off by 4, proven by digests", STOPS),
    ("length off by 4, proven by nothing", STOPS),
    ("closed by CR LF that counts", STOPS),
    ("closed by nothing", STOPS),
    ("closed by zeros", STOPS),
    ("closed by line ends and zeros", STOPS),
    ("length off by -20", UNREADABLE),
    ("length off by 200", UNREADABLE),
    ("header: a line that is not a field", UNREADABLE),
    ("header: a length that is not a number", UNREADABLE),
    ("header: an unknown version", UNREADABLE),
    ("header: two lengths that differ", UNREADABLE),
    ("date 2016-01-02T03:04:05+00:00", DATE),
    ("date 2016-01-02T05:04:05+02:00", DATE),
    ("date 2016-01-01T22:34:05-0430", DATE),
    (
        "header: a type in capitals",
        "record types are case-insensitive",
    ),
    ("HTTP: 1xx before", FINAL),
    ("HTTP: 1xx before, by the payload alone", FINAL),
    ("ARC: version 2", ARC),
    ("ARC: a type with a blank", ARC),
    (
        "ARC: no header of HTTP",
        "the whole block is the payload if it is not an HTTP message",
    ),
    (
        "POST with an invalid length",
        "the field requestBody is a text, even if the body is unknown",
    ),
    ("record between request and response", CONCURRENT),
    ("response that names its request", CONCURRENT),
    ("request that names its response", CONCURRENT),
    ("request that names several records", CONCURRENT),
    ("capture between response and request", CONCURRENT),
    ("metadata between response and request", CONCURRENT),
    (
        "revisit with a request",
        "a revisit has the key of its request",
    ),
    (
        "chunked body without a digest",
        "the payload has no chunked coding (WARC 1.1, section 6.3.2)",
    ),
    ("scheme in capitals", SCHEME),
    ("URL HTTP://example.com/Capitals", SCHEME),
    ("POST of AMF", "the body is encoded like any other one"),
    ("post in lower case", "methods are compared in upper case"),
    (
        "response without a digest, with a request",
        "the digest is that of the payload (cdxj-indexer has already read it, and writes that of nothing)",
    ),
    (
        "dns in ARC",
        "the media type of a record that is not an HTTP message is known",
    ),
];

/// The rows of a file, sorted.
#[derive(Debug, Deserialize, PartialEq)]
struct Indexed {
    lines: Vec<String>,
    /// The error that ended the file; the rows before it are in `lines`.
    error: Option<String>,
}

#[test]
fn rows_are_those_of_cdxj_indexer() {
    let Some(python) = python("makers-python", &super::makers::PYTHON) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let files = corpus(folder.path());
    let list: Vec<_> = files
        .iter()
        .map(|(_, path, has_requests)| serde_json::json!([path, has_requests]).to_string())
        .collect();
    let (script, names) = (folder.path().join("cdxj.py"), folder.path().join("files"));
    std::fs::write(&script, INDEXER).unwrap();
    std::fs::write(&names, list.join("\n")).unwrap();
    let theirs = run(Command::new(python).arg(&script).arg(&names)).unwrap();
    let mut different = BTreeSet::new();
    let mut wrong = Vec::new();
    for ((name, path, _), theirs) in files.iter().zip(theirs.lines()) {
        let theirs: Indexed = serde_json::from_str(theirs).unwrap();
        let ours = indexed(path);
        if ours.lines == theirs.lines && theirs.error.is_none() {
            continue;
        }
        let (case, _) = name.rsplit_once(", ").unwrap();
        match DIFFERENCES.iter().find(|(known, _)| *known == case) {
            Some((known, _)) => drop(different.insert(*known)),
            None => wrong.push(format!("{name}\nours: {ours:#?}\ntheirs: {theirs:#?}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(files.len() > 400, "{}", files.len());
    let gone: Vec<_> = DIFFERENCES
        .iter()
        .filter(|(case, _)| !different.contains(case))
        .collect();
    assert!(gone.is_empty(), "no difference any more: {gone:?}");
}

fn indexed(path: &Path) -> Indexed {
    let name = path.file_name().unwrap().to_str().unwrap();
    let mut lines = Vec::new();
    let warc = Reader::new(name, File::open(path).unwrap());
    let read = cdxj::rows(
        warc,
        name,
        &mut cdxj::Tally::default(),
        &Work::default(),
        &mut |row| {
            lines.push(String::from_utf8(row.to_vec()).unwrap());
            Ok(())
        },
    );
    lines.sort_unstable();
    lines.dedup();
    Indexed {
        lines,
        error: read.err().map(|error| error.to_string()),
    }
}

/// Writes the files: one for each record, compressed or not, between other records. Returns the name of each, its path,
/// and true if it contains requests.
fn corpus(folder: &Path) -> Vec<(String, PathBuf, bool)> {
    let mut files = Vec::new();
    let mut add = |name: &str, parts: &[&[u8]], ending: &str, has_requests: bool| {
        for is_packed in [false, true] {
            let number = files.len();
            let end = if is_packed { ".gz" } else { "" };
            let path = folder.join(format!("{number}.{ending}{end}"));
            let bytes: Vec<u8> = parts
                .iter()
                .enumerate()
                .flat_map(|(number, part)| {
                    if is_packed {
                        member(part, number)
                    } else {
                        part.to_vec()
                    }
                })
                .collect();
            std::fs::write(&path, bytes).unwrap();
            let form = if is_packed { "packed" } else { "plain" };
            files.push((format!("{name}, {form}"), path, has_requests));
        }
    };
    for case in cases() {
        match case.arc {
            Some(_) => add(
                &case.name,
                &[arc::DESCRIPTION.as_bytes(), &case.bytes()],
                "arc",
                false,
            ),
            None => add(&case.name, &[INFO, &case.bytes(), INFO], "warc", false),
        }
    }
    let dns = format!("dns:example.com 192.0.2.1 {TIME} text/dns 3\na b\n");
    add(
        "dns in ARC",
        &[arc::DESCRIPTION.as_bytes(), dns.as_bytes()],
        "arc",
        false,
    );
    for (name, records) in exchanges() {
        let records: Vec<&[u8]> = records.iter().map(Vec::as_slice).collect();
        add(name, &records, "warc", true);
    }
    files
}

/// Returns a record of this type.
fn record(kind: &str, uri: &str, fields: &[(&str, &str)], block: &[u8]) -> Vec<u8> {
    let mut header = format!(
        "WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {uri}\r\nWARC-Date: 2016-01-02T03:04:05Z\r\n"
    );
    for (name, value) in fields {
        header += &format!("{name}: {value}\r\n");
    }
    header += &format!("Content-Length: {}\r\n\r\n", block.len());
    [header.as_bytes(), block, b"\r\n\r\n"].concat()
}

const DIGEST: (&str, &str) = (
    "WARC-Payload-Digest",
    "sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A",
);
const ID: (&str, &str) = ("WARC-Record-ID", "<urn:uuid:1>");
const TO: (&str, &str) = ("WARC-Concurrent-To", "<urn:uuid:1>");
const OTHER: (&str, &str) = ("WARC-Record-ID", "<urn:uuid:2>");

/// Returns requests with their responses, and records of all types.
fn exchanges() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let uri = "http://example.com/form?a=b";
    let answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\nhello";
    let response = |own: (&str, &str), more: &[(&str, &str)]| {
        record("response", uri, &[&[own, DIGEST], more].concat(), answer)
    };
    let request = |own: (&str, &str), more: &[(&str, &str)], head: &str, body: &[u8]| {
        record(
            "request",
            uri,
            &[&[own], more].concat(),
            &[head.as_bytes(), b"\r\n", body].concat(),
        )
    };
    let form = "POST /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n";
    vec![
        (
            "request after its response",
            vec![response(ID, &[]), request(OTHER, &[TO], form, b"c=d%20e")],
        ),
        (
            "request before its response",
            vec![request(ID, &[], form, b"c=d%20e"), response(OTHER, &[TO])],
        ),
        (
            "request of another record",
            vec![
                response(OTHER, &[]),
                request(OTHER, &[TO], form, b"c=d%20e"),
            ],
        ),
        (
            "record between request and response",
            vec![
                response(ID, &[]),
                INFO.to_vec(),
                request(OTHER, &[TO], form, b"c=d%20e"),
            ],
        ),
        (
            "response that names its request",
            vec![
                response(ID, &[("WARC-Concurrent-To", "<urn:uuid:2>")]),
                request(OTHER, &[], form, b"c=d%20e"),
            ],
        ),
        (
            "request that names its response",
            vec![request(OTHER, &[TO], form, b"c=d%20e"), response(ID, &[])],
        ),
        (
            "request that names several records",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[("WARC-Concurrent-To", "<urn:uuid:9>"), TO],
                    form,
                    b"c=d%20e",
                ),
            ],
        ),
        (
            "capture between response and request",
            vec![
                response(ID, &[]),
                record(
                    "response",
                    "http://example.com/other",
                    &[("WARC-Record-ID", "<urn:uuid:3>"), DIGEST],
                    answer,
                ),
                request(OTHER, &[TO], form, b"c=d%20e"),
            ],
        ),
        (
            "metadata between response and request",
            vec![
                response(ID, &[]),
                record(
                    "metadata",
                    uri,
                    &[
                        ("WARC-Record-ID", "<urn:uuid:3>"),
                        TO,
                        ("Content-Type", "application/warc-fields"),
                    ],
                    b"a: b\r\n",
                ),
                request(OTHER, &[TO], form, b"c=d%20e"),
            ],
        ),
        (
            "revisit with a request",
            vec![
                record("revisit", uri, &[ID, DIGEST], b"HTTP/1.1 200 OK\r\n\r\n"),
                request(OTHER, &[TO], form, b"c=d%20e"),
            ],
        ),
        (
            "chunked body without a digest",
            vec![record(
                "response",
                uri,
                &[ID],
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            )],
        ),
        (
            "scheme in capitals",
            vec![record(
                "response",
                "HTTP://EXAMPLE.com:80/Upper",
                &[ID, DIGEST],
                answer,
            )],
        ),
        (
            "two responses for a request",
            vec![
                response(ID, &[]),
                request(OTHER, &[TO], form, b"c=d%20e"),
                response(OTHER, &[TO]),
            ],
        ),
        (
            "GET",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "GET /form HTTP/1.1\r\nHost: example.com\r\n",
                    b"",
                ),
            ],
        ),
        (
            "DELETE",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "DELETE /form HTTP/1.1\r\nHost: example.com\r\n",
                    b"",
                ),
            ],
        ),
        (
            "PUT of JSON",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "PUT /form HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 22\r\n",
                    br#"{"a": [1, null, "\u00e9"]}"#,
                ),
            ],
        ),
        (
            "POST of text",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "POST /form HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n",
                    b"hello",
                ),
            ],
        ),
        (
            "POST without a body",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "POST /form HTTP/1.1\r\nContent-Length: 0\r\n",
                    b"",
                ),
            ],
        ),
        (
            "POST without a length",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "POST /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n",
                    b"c=d",
                ),
            ],
        ),
        (
            "POST with an invalid length",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "POST /form HTTP/1.1\r\nContent-Length: x\r\n",
                    b"c=d",
                ),
            ],
        ),
        (
            "POST in chunks",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "POST /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nTransfer-Encoding: chunked\r\n",
                    b"3\r\nc=d\r\n0\r\n\r\n",
                ),
            ],
        ),
        (
            "POST of AMF",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "POST /form HTTP/1.1\r\nContent-Type: application/x-amf\r\nContent-Length: 3\r\n",
                    b"abc",
                ),
            ],
        ),
        (
            "post in lower case",
            vec![
                response(ID, &[]),
                request(
                    OTHER,
                    &[TO],
                    "post /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 3\r\n",
                    b"c=d",
                ),
            ],
        ),
        (
            "response without a digest, with a request",
            vec![
                record("response", uri, &[ID], answer),
                request(OTHER, &[TO], form, b"c=d%20e"),
            ],
        ),
        (
            "revisit",
            vec![record(
                "revisit",
                uri,
                &[ID, DIGEST],
                b"HTTP/1.1 304 Not Modified\r\nContent-Type: a/b\r\n\r\n",
            )],
        ),
        (
            "revisit without a header",
            vec![record("revisit", uri, &[ID, DIGEST], b"")],
        ),
        (
            "revisit without a digest",
            vec![record("revisit", uri, &[ID], b"")],
        ),
        (
            "resource",
            vec![record(
                "resource",
                uri,
                &[ID, DIGEST, ("Content-Type", "text/plain; charset=utf-8")],
                b"hello",
            )],
        ),
        (
            "resource without a type",
            vec![record(
                "resource",
                "urn:pageinfo:http://example.com/",
                &[ID, DIGEST],
                b"hello",
            )],
        ),
        (
            "metadata",
            vec![record(
                "metadata",
                uri,
                &[ID, DIGEST, ("Content-Type", "application/json")],
                b"{}",
            )],
        ),
        (
            "fields",
            vec![
                record(
                    "metadata",
                    uri,
                    &[ID, ("Content-Type", "application/warc-fields")],
                    b"a: b\r\n",
                ),
                record(
                    "resource",
                    uri,
                    &[ID, ("Content-Type", "application/warc-fields")],
                    b"a: b\r\n",
                ),
            ],
        ),
        (
            "conversion",
            vec![record("conversion", uri, &[ID, DIGEST], b"hello")],
        ),
        (
            "dns",
            vec![record(
                "response",
                "dns:example.com",
                &[ID, DIGEST, ("Content-Type", "text/dns")],
                b"20160102030405\n",
            )],
        ),
        (
            "unusual characters",
            vec![record(
                "response",
                "http://example.com/\u{e9} \u{1f600}\"\\",
                &[ID, DIGEST],
                b"HTTP/1.1 200 OK\r\nContent-Type: te\"xt/h\\tml\t;x\r\n\r\n",
            )],
        ),
        (
            "type in Latin-1",
            vec![record(
                "response",
                uri,
                &[ID, DIGEST],
                b"HTTP/1.1 200 OK\r\nContent-Type: text/\xe9\r\n\r\n",
            )],
        ),
        (
            "empty type",
            vec![record(
                "response",
                uri,
                &[ID, DIGEST],
                b"HTTP/1.1 200 OK\r\nContent-Type:\r\n\r\n",
            )],
        ),
        (
            "angle brackets",
            vec![record(
                "response",
                "<http://example.com/>",
                &[ID, DIGEST],
                answer,
            )],
        ),
        (
            "invalid URL",
            vec![record(
                "response",
                "http://example.com:x/",
                &[ID, DIGEST],
                answer,
            )],
        ),
    ]
}
