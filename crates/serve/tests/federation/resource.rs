//! Tests of `/<coll>/resource` with local files.

use std::path::Path;

use redis_tests::archive::collection::{Capture, Collection, Shape, sha1_base32};
use redis_tests::http::{Answer, Connection};
use redis_tests::packages::{left_out, python};
use redis_tests::{Rng, assert_contains, assert_lacks, assert_starts, with};
use tempfile::TempDir;

use crate::serving::Stage;

/// An archive in a folder, and a server for it.
pub struct Archive {
    dir: TempDir,
    made: Collection,
    pub stage: Stage,
}

impl Archive {
    pub fn new(test: &str) -> Archive {
        let dir = tempfile::tempdir().unwrap();
        let shape = with!(Shape, captures: 600, most: 60, per_file: 80);
        let mut made = Collection::new(&mut Rng::new(test), shape);
        let archive = dir.path().join("archive");
        made.store(&archive);
        std::fs::create_dir(dir.path().join("index")).unwrap();
        std::fs::write(dir.path().join("index/all.cdxj"), made.cdxj()).unwrap();
        let folder = dir.path().display();
        let stage = Stage::start(&format!(
            "collections:\n  all:\n    index: {folder}/index\n    resource: {folder}/archive\n"
        ));
        Archive { dir, made, stage }
    }

    /// Returns the captures of requests without a body, except captures with the same URL and time as another.
    pub fn captures(&self) -> impl Iterator<Item = &Capture> {
        let captures = &self.made.captures;
        captures.iter().enumerate().filter_map(|(at, capture)| {
            let same =
                |other: &Capture| other.key == capture.key && other.timestamp == capture.timestamp;
            let is_alone = !captures[..at].last().is_some_and(same)
                && !captures[at + 1..].first().is_some_and(same);
            (capture.posted.is_none() && is_alone).then_some(capture)
        })
    }
}

impl Archive {
    /// Returns captures of requests with a body.
    pub fn posted(&self) -> Vec<&Capture> {
        let captures = self.made.captures.iter();
        captures
            .filter(|capture| capture.posted.is_some())
            .collect()
    }
}

pub fn target(collection: &str, url: &str, timestamp: &str) -> String {
    let url: String = url::form_urlencoded::byte_serialize(url.as_bytes()).collect();
    format!("/{collection}/resource?url={url}&closest={timestamp}")
}

/// Splits a response with a single record into the record's header and block.
pub fn record(answer: &Answer) -> (String, Vec<u8>) {
    assert_eq!(answer.status, 200, "{}", answer.text());
    let body = &answer.body;
    let end = body
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .expect("a header")
        + 4;
    let head = String::from_utf8(body[..end].to_vec()).unwrap();
    let length: usize = field(&head, "Content-Length").parse().unwrap();
    assert_eq!(body.len(), end + length + 4, "{head}");
    assert!(body.ends_with(b"\r\n\r\n"));
    assert_eq!(
        answer.field("content-length").unwrap().parse(),
        Ok(body.len())
    );
    (head, body[end..end + length].to_vec())
}

/// Returns the value of a field in a header.
pub fn field<'a>(head: &'a str, name: &str) -> &'a str {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        .unwrap_or_else(|| panic!("no {name} in {head}"))
}

/// Validates records in a file with warcio, a third-party checker.
pub fn check(records: &[u8], folder: &Path) {
    let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warcio");
    std::fs::create_dir_all(&venv).unwrap();
    let python = match python(&venv, &["warcio==1.8.*", "setuptools<81"]) {
        Ok(python) => python,
        Err(why) => return left_out("warcio check", &why),
    };
    let file = folder.join("records.warc");
    std::fs::write(&file, records).unwrap();
    let checked = std::process::Command::new(python)
        .args(["-m", "warcio.cli", "check", "-v"])
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&checked.stdout).into_owned()
        + &String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
    assert_lacks(&said, "WARNING");
    assert_lacks(&said, "ERROR");
}

#[test]
fn every_capture_of_an_archive_is_loaded_and_valid() {
    let archive = Archive::new("every_capture_of_an_archive_is_loaded_and_valid");
    let mut connection = Connection::open(archive.stage.address()).unwrap();
    let mut records = Vec::new();
    let mut revisits = 0;
    for capture in archive.captures() {
        let target = target("all", &capture.url, &capture.timestamp);
        let answer = connection.ask("GET", &target, &[], b"").unwrap();
        assert_eq!(answer.status, 200, "{capture:?}: {}", answer.text());
        let (head, block) = record(&answer);
        assert_eq!(field(&head, "WARC-Type"), "response", "{capture:?}");
        assert_eq!(field(&head, "WARC-Target-URI"), capture.url);
        let digits: String = field(&head, "WARC-Date")
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        assert_eq!(digits, capture.timestamp);
        assert!(block.ends_with(&capture.payload), "{capture:?}");
        let http = block.len() - capture.payload.len();
        assert_eq!(
            String::from_utf8_lossy(&block[..http]),
            capture.http_head(),
            "{capture:?}"
        );
        let digest = format!("sha1:{}", sha1_base32(&capture.payload));
        assert_eq!(field(&head, "WARC-Payload-Digest"), digest);
        if capture.original.is_some() {
            revisits += 1;
        }
        for (name, value) in [
            ("content-type", "application/warc-record"),
            ("warcserver-type", "warc"),
            ("archive-source-coll", "all"),
            ("warcserver-source-coll", "all"),
            ("warc-target-uri", &capture.url),
        ] {
            assert_eq!(answer.field(name), Some(value));
        }
        assert!(answer.field("memento-datetime").unwrap().ends_with(" GMT"));
        let link = answer.field("link").unwrap();
        for relation in ["original", "timegate", "timemap"] {
            assert_contains(link, format!("rel=\"{relation}\""));
        }
        let row = answer.field("warcserver-cdx").unwrap();
        assert_starts(row, format!("{} {} {{", capture.key, capture.timestamp));
        records.extend_from_slice(&answer.body);
    }
    assert!(revisits > 20, "{revisits} revisits");
    check(&records, archive.dir.path());
}

#[test]
fn requests_with_a_body_get_their_response() {
    let archive = Archive::new("requests_with_a_body_get_their_response");
    let mut connection = Connection::open(archive.stage.address()).unwrap();
    let posted = archive.posted();
    assert!(posted.len() > 5);
    for capture in posted.iter().take(20) {
        let body = capture.posted.as_deref().unwrap();
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let asked = target("all", &capture.url, &capture.timestamp);
        let plain = connection.ask("POST", &asked, &form, body.as_bytes());
        let plain = plain.unwrap();
        assert!(record(&plain).1.ends_with(&capture.payload), "{capture:?}");
        let row = plain.field("warcserver-cdx").unwrap();
        assert_starts(row, format!("{} {} ", capture.key, capture.timestamp));
        // Post the same request as a message.
        for version in [" HTTP/1.1", " HTTP/1.0", ""] {
            let message = format!(
                "POST /nowhere{version}\r\nHost: nowhere.example\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                 Content-Length: {}\r\n\r\n{body}",
                body.len()
            );
            for path in ["resource-post", "resource/postreq"] {
                let asked = asked.replace("/resource?", &format!("/{path}?"));
                let answer = connection.ask("POST", &asked, &[], message.as_bytes());
                let answer = answer.unwrap();
                assert_eq!(answer.body, plain.body, "{path}{version}");
            }
        }
        let other = connection.ask("POST", &asked, &form, b"something=else");
        let other = other.unwrap();
        assert_eq!(other.status, 404, "{}", other.text());
    }
}

#[test]
fn head_returns_everything_but_the_record() {
    let archive = Archive::new("head_returns_everything_but_the_record");
    let mut connection = Connection::open(archive.stage.address()).unwrap();
    for capture in archive.captures().take(30) {
        let asked = target("all", &capture.url, &capture.timestamp);
        let get = connection.ask("GET", &asked, &[], b"").unwrap();
        let head = connection.ask("HEAD", &asked, &[], b"").unwrap();
        assert_eq!((head.status, head.body.len()), (200, 0));
        let told = |answer: &Answer| {
            let fields = answer
                .fields
                .iter()
                .filter(|(name, _)| !matches!(&name[..], "date" | "x-request-id"));
            fields.cloned().collect::<Vec<_>>()
        };
        assert_eq!(told(&head), told(&get));
    }
}
