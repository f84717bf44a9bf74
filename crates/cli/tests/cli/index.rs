//! Tests `crawlspace dedupe index` against a live server.

use std::path::{Display, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crawlspace_warc::{Compression, Writer};
use redis_tests::{
    Options, Outcome, Program, Relay, Reply, Server, assert_contains, ends, ok, outcome, until,
};
use serde_json::Value;

use crate::indexer::stage::sent_to;
use crate::tool::tool;

const DATE: &str = "2026-03-19T10:20:15Z";

/// A WARC file being written, with the size of each of its records.
pub(crate) struct Warc {
    path: PathBuf,
    bytes: Vec<u8>,
    sizes: Vec<u64>,
}

impl Warc {
    pub(crate) fn new(dir: &Path, name: &str) -> Warc {
        let mut warc = Warc {
            path: dir.join(name),
            bytes: Vec::new(),
            sizes: Vec::new(),
        };
        let id = format!("<urn:uuid:{name}>");
        warc.write(
            &[
                ("WARC-Type", "warcinfo"),
                ("WARC-Record-ID", &id),
                ("WARC-Date", DATE),
            ],
            b"software: test\r\n",
        );
        warc
    }

    fn write(&mut self, fields: &[(&str, &str)], block: &[u8]) {
        let fields: Vec<(&str, &[u8])> = fields
            .iter()
            .map(|(name, value)| (*name, value.as_bytes()))
            .collect();
        let size = Writer::new(&mut self.bytes, Compression::PerRecord).write(&fields, block);
        let size = size.unwrap();
        self.sizes.push(size);
    }

    pub(crate) fn capture(&mut self, kind: &str, uri: &str, hash: &str, body: &[u8]) -> u64 {
        let block = [b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n", body].concat();
        self.write(
            &[
                ("WARC-Type", kind),
                ("WARC-Record-ID", &format!("<urn:uuid:{uri}>")),
                ("WARC-Target-URI", uri),
                ("WARC-Date", DATE),
                ("WARC-Payload-Digest", hash),
            ],
            &block,
        );
        self.sizes[self.sizes.len() - 1]
    }

    pub(crate) fn save(&self) -> Display<'_> {
        std::fs::write(&self.path, &self.bytes).unwrap();
        self.path.display()
    }
}

/// Returns a valid hash in wget's encoding.
pub(crate) fn hash(n: usize) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let digits: String = (0..4)
        .rev()
        .map(|i| char::from(ALPHABET[n >> (5 * i) & 31]))
        .collect();
    format!("sha1:{}{digits}", "A".repeat(28))
}

/// Returns an incompressible body.
fn body(n: usize) -> Vec<u8> {
    (0..2000)
        .map(|i| ((i * 7919 + n * 104_729) >> 3) as u8)
        .collect()
}

fn index(server: &Server, crawl: &str, words: &str) -> (i32, Value, String) {
    let url = server.url();
    let tool = tool(format!(
        "dedupe index --json --redis {url} --crawl {crawl} {words}"
    ));
    let Outcome {
        status,
        out,
        errors,
    } = outcome(tool);
    let json = serde_json::from_str(&out).expect("JSON on standard output");
    let advice = format!("crawl {crawl} is not committed");
    let errors = errors.lines().filter(|line| !line.starts_with(&advice));
    let errors: Vec<&str> = errors.collect();
    (status, json, errors.join("\n"))
}

fn get(server: &Server, command: &str) -> String {
    match server.wire().ok_line(command) {
        Reply::Int(n) => n.to_string(),
        other => other.text(),
    }
}

#[test]
fn known_payloads_are_counted_and_new_ones_stored() {
    let dir = tempfile::tempdir().unwrap();
    let server = Options::new().plain().start();
    let mut first = Warc::new(dir.path(), "1.warc.gz");
    let size = first.capture("response", "http://a.example/", &hash(1), &body(1));
    first.capture("request", "http://a.example/", &hash(9), b"");
    first.capture("response", "http://a.example/copy", &hash(1), &body(1));
    first.capture(
        "response",
        "http://b.example/with space",
        &hash(2),
        &body(2),
    );
    let (status, json, errors) = index(&server, "one", &format!("--commit {}", first.save()));
    assert_eq!((status, &errors[..]), (0, ""), "{json}");
    assert_eq!(json["records"], 5);
    assert_eq!(json["responses"], 3);
    assert_eq!(json["unique"], 2);
    assert_eq!(json["duplicates"], 1);
    assert_eq!(json["bytes"], first.bytes.len());
    assert_eq!(json["committed"]["new"], 2);

    let stored = get(&server, &format!("HGET h:one {}", hash(1)));
    assert_eq!(stored, format!("0 20260319102015 http://a.example/ {size}"));
    assert_eq!(get(&server, &format!("HGET allhashes {}", hash(2))), "one");
    assert_eq!(get(&server, "HGET h:one:counts totalUrls"), "3");
    assert_eq!(get(&server, "HGET h:one:counts dupeUrls"), "1");
    let expected = json["bytesSaved"].to_string();
    assert_eq!(get(&server, "HGET h:one:counts conservedSize"), expected);
    let saved = json["bytesSaved"].as_u64().unwrap();
    assert!(saved > size / 2 && saved < size, "{saved} of {size}");

    let mut second = Warc::new(dir.path(), "2.warc.gz");
    second.capture("response", "http://a.example/", &hash(1), &body(1));
    second.capture("response", "http://c.example/", &hash(3), &body(3));
    let (status, json, _) = index(&server, "two", &format!("{}", second.save()));
    assert_eq!(status, 0);
    assert_eq!(json["unique"], 1);
    assert_eq!(json["duplicates"], 1);
    assert_eq!(json["committed"], Value::Null);
    assert_eq!(get(&server, "SISMEMBER uncommittedcrawls two"), "1");
    assert_eq!(get(&server, "SISMEMBER two:reqCrawls one"), "1");
}

#[test]
fn revisit_record_counts_with_its_actual_size() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    let original = warc.capture("response", "http://a.example/", &hash(1), &body(1));
    let revisit = warc.capture("revisit", "http://a.example/copy", &hash(1), b"");
    warc.capture("revisit", "http://elsewhere.example/", &hash(7), b"");
    let (status, json, _) = index(&server, "one", &format!("{}", warc.save()));
    assert_eq!(status, 0);
    assert_eq!(json["revisits"], 2);
    assert_eq!(json["duplicates"], 1);
    assert_eq!(json["unresolved"], 1);
    assert_eq!(json["bytesSaved"], original - revisit);
    let expected = (original - revisit).to_string();
    assert_eq!(get(&server, "HGET h:one:counts conservedSize"), expected);
}

#[test]
fn deduplicated_files_save_no_more_than_possible() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut first = Warc::new(dir.path(), "1.warc.gz");
    let original = first.capture("response", "http://a.example/", &hash(1), &body(1));
    let (status, ..) = index(&server, "one", &format!("--commit {}", first.save()));
    assert_eq!(status, 0);
    let mut second = Warc::new(dir.path(), "2.warc.gz");
    let revisit = second.capture("revisit", "http://a.example/", &hash(1), b"");
    let url = server.url();
    let file = second.save();
    let (status, json, _) = index(&server, "two", &format!("{file}"));
    assert_eq!(status, 0);
    let saved = original - revisit;
    assert_eq!(json["bytesSaved"], saved);
    assert_eq!(json["bytesSavedAlready"], saved);
    let table = outcome(tool(format!(
        "dedupe index --redis {url} --crawl three {file}"
    )));
    let bytes = second.bytes.len() as u64;
    let percent = saved as f64 * 100.0 / (bytes + saved) as f64;
    assert!(percent > 50.0 && percent < 100.0);
    assert_contains(&table.out, format!("{percent:.1} %"));
}

#[test]
fn empty_payloads_are_not_duplicates() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    // The indexer skips records with an empty payload, regardless of their digest.
    let nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for (n, hash) in [nothing, &hash(1), &hash(1)].into_iter().enumerate() {
        warc.capture("response", &format!("http://a.example/{n}"), hash, b"");
    }
    let (status, json, _) = index(&server, "one", &format!("{}", warc.save()));
    assert_eq!(status, 0);
    let figures = ["skipped", "unique", "duplicates", "bytesSaved"].map(|name| &json[name]);
    assert_eq!(figures, [3, 0, 0, 0]);
}

#[test]
fn reading_a_file_again_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "many.warc.gz");
    for n in 0..1300 {
        // Every fourth payload is the one that was written 50 records earlier, in the same or the previous batch.
        let payload = if n % 4 == 3 && n > 50 { n - 51 } else { n };
        warc.capture(
            "response",
            &format!("http://a.example/{n}"),
            &hash(payload),
            &body(payload),
        );
    }
    let file = warc.save();
    let (status, first, _) = index(&server, "one", &format!("{file}"));
    assert_eq!(status, 0);
    assert_eq!(
        first["unique"].as_u64().unwrap() + first["duplicates"].as_u64().unwrap(),
        1300
    );
    let before = server.snapshot();
    let (status, again, _) = index(&server, "one", &format!("{file}"));
    assert_eq!(status, 0);
    assert_eq!(server.snapshot(), before);
    for figure in ["unique", "duplicates", "bytes", "bytesSaved"] {
        assert_eq!(first[figure], again[figure], "{figure}");
    }
    let (_, json, _) = index(&server, "one", &format!("--commit {file}"));
    assert_eq!(json["committed"]["new"], first["unique"]);
}

#[test]
fn broken_connection_loses_nothing_and_counts_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let mut warc = Warc::new(dir.path(), "many.warc.gz");
    for n in 0..6000 {
        let payload = if n % 3 == 0 { n / 2 } else { n };
        warc.capture(
            "response",
            &format!("http://a.example/{n}"),
            &hash(payload),
            b"x",
        );
    }
    let file = warc.save();
    let (calm, rough) = (Server::start(), Server::start());
    let (status, expected, _) = index(&calm, "one", &format!("{file}"));
    assert_eq!(status, 0);

    let done = AtomicBool::new(false);
    let (status, found, errors) = std::thread::scope(|scope| {
        let vandal = scope.spawn(|| {
            let mut wire = rough.wire();
            until("the crawl has begun", || {
                wire.ok_line("EXISTS h:one") == Reply::Int(1)
            });
            let mut killed = 0;
            while !done.load(Ordering::Relaxed) {
                if let Reply::Int(n) = wire.ok_line("CLIENT KILL TYPE normal SKIPME yes") {
                    killed += n;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            killed
        });
        let outcome = index(&rough, "one", &format!("{file}"));
        done.store(true, Ordering::Relaxed);
        assert!(vandal.join().unwrap() > 0, "no connection was broken");
        outcome
    });
    assert_eq!((status, &errors[..]), (0, ""));
    assert_eq!(found, expected);
    assert_eq!(rough.snapshot(), calm.snapshot());
}

#[test]
fn refused_records_are_counted_once_they_are_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Options::new().plain().start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    warc.capture("response", "http://a.example/", &hash(1), &body(1));
    let (status, ..) = index(&server, "one", &format!("--commit {}", warc.save()));
    assert_eq!(status, 0);

    // The server refuses the `ADD` of the batch, but not its `REVISIT`.
    let mut warc = Warc::new(dir.path(), "2.warc.gz");
    warc.capture("response", "http://a.example/copy", &hash(1), &body(1));
    warc.capture("response", "http://b.example/", &hash(2), &body(2));
    let file = warc.save();
    let mut wire = server.wire();
    wire.ok_line("ACL SETUSER default -dedupe.add");
    let (status, json, errors) = index(&server, "two", &format!("--commit {file}"));
    assert_eq!((status, &json["unique"]), (1, &0.into()));
    assert_contains(&errors, "DEDUPE.ADD: NOPERM");
    assert_eq!(get(&server, "HGET h:two:counts dupeUrls"), "1");

    wire.ok_line("ACL SETUSER default +dedupe.add");
    let (status, json, _) = index(&server, "two", &format!("--commit {file}"));
    assert_eq!((status, &json["committed"]["new"]), (0, &1.into()));
    assert_eq!(get(&server, "HGET h:two:counts dupeUrls"), "1");
    assert_eq!(get(&server, "HGET h:two:counts totalUrls"), "2");
    assert_eq!(get(&server, &format!("HGET allhashes {}", hash(2))), "two");
}

#[test]
fn truncated_file_adds_its_whole_records_and_no_commit() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "cut.warc.gz");
    warc.capture("response", "http://a.example/", &hash(1), &body(1));
    let whole = warc.bytes.len();
    warc.capture("response", "http://b.example/", &hash(2), &body(2));
    warc.bytes.truncate(whole + 100);
    let mut good = Warc::new(dir.path(), "good.warc.gz");
    good.capture("response", "http://c.example/", &hash(3), &body(3));

    let (status, json, errors) = index(
        &server,
        "one",
        &format!("--commit {} {}", warc.save(), good.save()),
    );
    assert_eq!(status, 1);
    let expected = format!("cut.warc.gz: offset {whole}: the record is truncated");
    assert_contains(&errors, &expected);
    assert!(json["errors"][0].as_str().unwrap().ends_with(&expected));
    assert_contains(&errors, "crawl one is not committed");
    assert_eq!(json["files"], 1);
    assert_eq!(json["unique"], 2);
    assert_eq!(get(&server, "SISMEMBER uncommittedcrawls one"), "1");
    assert_eq!(get(&server, "SISMEMBER allcrawls one"), "0");
}

#[test]
fn captures_without_a_usable_digest_are_skipped_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    warc.capture("response", "http://a.example/", "", b"x");
    warc.capture("response", "http://a.example/", "sha1:short", b"x");
    warc.capture("response", "", &hash(1), b"x");
    warc.capture("response", "http://a.example/", &hash(1), b"x");
    let (status, json, _) = index(&server, "one", &format!("{}", warc.save()));
    assert_eq!(status, 0);
    assert_eq!((&json["skipped"], &json["unique"]), (&3.into(), &1.into()));
}

#[test]
fn files_without_record_ids_are_distinguished_and_counted_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let of = |name: &str, n: usize| {
        let mut warc = Warc::new(dir.path(), name);
        warc.bytes.clear();
        warc.write(&[("WARC-Type", "warcinfo"), ("WARC-Date", DATE)], b"");
        warc.capture("response", "http://a.example/", &hash(n), &body(n));
        warc.save().to_string()
    };
    let files = format!("{} {}", of("1.warc.gz", 1), of("2.warc.gz", 2));
    for _ in 0..2 {
        let (status, json, errors) = index(&server, "one", &files);
        assert_eq!((status, &errors[..]), (0, ""), "{json}");
        assert_eq!(get(&server, "HGET h:one:counts totalUrls"), "2");
    }
}

#[test]
fn spellings_of_a_digest_are_one_payload() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    let hex = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let base32 = "T6DNBAMIJR6WLGRP5KQMKWWQCWR36TY3FMFYELGRLVWBLMHQBIEA====";
    let spellings = [
        ("response", format!("sha256:{hex}")),
        ("response", format!("SHA-256:{}", hex.to_uppercase())),
        ("revisit", format!("sha-256:{hex}")),
        ("revisit", format!("sha256:{base32}")),
    ];
    for (n, (kind, digest)) in spellings.iter().enumerate() {
        warc.capture(kind, &format!("http://a.example/{n}"), digest, b"test");
    }
    let (status, json, _) = index(&server, "one", &warc.save().to_string());
    assert_eq!(status, 0);
    let found = ["unique", "duplicates", "unresolved"].map(|name| json[name].as_u64().unwrap());
    assert_eq!(found, [1, 3, 0], "{json}");
}

#[test]
fn digest_of_empty_content_matches_no_other_page() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    for (n, digest) in [
        "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",
        "md5:d41d8cd98f00b204e9800998ecf8427e",
    ]
    .iter()
    .enumerate()
    {
        for page in 0..2 {
            warc.capture(
                "response",
                &format!("http://a.example/{n}/{page}"),
                digest,
                &body(page),
            );
        }
    }
    let (status, json, _) = index(&server, "one", &warc.save().to_string());
    assert_eq!(status, 0);
    assert_eq!((&json["skipped"], &json["unique"]), (&4.into(), &0.into()));
}

#[test]
fn arc_records_get_the_digest_of_their_payload() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let description =
        "1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n";
    let mut arc = format!(
        "filedesc://1.arc 0.0.0.0 20130522091849 text/plain {}\n{description}\n",
        description.len()
    );
    let block = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhello";
    for page in ["a", "b"] {
        arc += &format!(
            "http://{page}.example/ 192.0.2.1 20130522091850 text/plain {}\n{block}\n",
            block.len()
        );
    }
    let path = dir.path().join("1.arc");
    std::fs::write(&path, arc).unwrap();
    let (status, json, errors) = index(&server, "one", &path.display().to_string());
    assert_eq!((status, &errors[..]), (0, ""), "{json}");
    assert_eq!(
        (&json["unique"], &json["duplicates"]),
        (&1.into(), &1.into()),
        "{json}"
    );
    let stored = get(&server, "HGET h:one sha1:VL2MMHO4YXUKFWV63YHTWSBM3GXKSQ2N");
    assert_contains(&stored, "20130522091850 http://a.example/");
}

#[test]
fn nonstandard_records_are_read_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let record = |n: usize, version: &str, off: i64, end: &str| {
        let block = format!("HTTP/1.1 200 OK\r\n\r\npage {n}");
        format!(
            "WARC/{version}\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{n}>\r\nWARC-Date: {DATE}\r\n\
             WARC-Target-URI: http://a.example/{n}\r\nWARC-Payload-Digest: {}\r\n\
             Content-Length: {}\r\n\r\n{block}{end}",
            hash(n),
            block.len() as i64 + off
        )
    };
    let file = [
        record(0, "0.17", 0, "\r\n\r\n"),
        record(1, "0.18", 0, "\n\n"),
        record(2, "1.0", -3, "\r\n\r\n"),
        record(3, "1.1", 2, "\r\n\r\n"),
        record(4, "1.1", 0, "\r\n\r\n\r\n\0\0\0\0"),
        record(5, "1.1", 0, ""),
    ];
    let path = dir.path().join("1.warc");
    std::fs::write(&path, file.concat()).unwrap();
    let (status, json, errors) = index(&server, "one", &path.display().to_string());
    assert_eq!((status, &errors[..]), (0, ""), "{json}");
    let found = ["records", "unique", "deviating"].map(|name| json[name].as_u64().unwrap());
    assert_eq!(found, [6, 6, 5], "{json}");
}

#[test]
fn prefix_is_prepended_to_every_key() {
    let dir = tempfile::tempdir().unwrap();
    let server = Options::new().plain().start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    warc.capture("response", "http://a.example/", &hash(1), b"x");
    let (status, ..) = index(
        &server,
        "one",
        &format!("--prefix {{coll-42}}: --commit {}", warc.save()),
    );
    assert_eq!(status, 0);
    assert_eq!(
        get(&server, &format!("HGET {{coll-42}}:allhashes {}", hash(1))),
        "one"
    );
    assert_eq!(get(&server, "EXISTS allhashes"), "0");
}

#[test]
fn table_shows_the_savings() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    warc.capture("response", "http://a.example/", &hash(1), &body(1));
    warc.capture("response", "http://b.example/", &hash(1), &body(1));
    let (url, file) = (server.url(), warc.save());
    let table = outcome(tool(format!(
        "dedupe index --redis {url} --crawl one --commit {file}"
    )))
    .out;
    assert_contains(&table, "crawl one\n");
    assert_contains(&table, "unique                 1");
    assert_contains(&table, "duplicates             1  50.0 %");
    assert_contains(&table, "committed              1");
    assert!(!table.contains('\x1b'), "no colours in a pipe");
}

#[test]
fn missing_module_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let server = Options::new().no_module().start();
    let mut warc = Warc::new(dir.path(), "1.warc.gz");
    warc.capture("response", "http://a.example/", &hash(1), b"x");
    let (status, _, errors) = index(&server, "one", &format!("--commit {}", warc.save()));
    assert_eq!(status, 1);
    assert_contains(&errors, "the server has not loaded the Crawlspace module");
}

#[test]
fn invalid_command_line_gives_exit_status_2() {
    for arguments in [
        "dedupe",
        "dedupe index",
        "dedupe index --crawl x",
        "--nonsense",
    ] {
        ends(tool(arguments), 2);
    }
    ends(tool("--help"), 0);
}

#[test]
fn wacz_files_and_warc_files_are_distinguished() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start();
    let mut warc = Warc::new(dir.path(), "a.warc.gz");
    let hash = redis_tests::sha256_of(1);
    warc.capture("response", "https://example.com/", &hash, b"a body");
    std::fs::write(&warc.path, &warc.bytes).unwrap();
    let (warc, url) = (warc.path.display(), server.url());
    let failed = ends(
        tool(format!("indexer --redis {url} --source-url {warc}")),
        1,
    );
    let advice = format!(
        "this is a WARC file, but indexer reads WACZ files and manifests: run crawlspace dedupe index --crawl ID {warc}"
    );
    assert_contains(&failed.errors, advice);

    let wacz = dir.path().join("a.wacz");
    std::fs::write(&wacz, b"PK\x03\x04").unwrap();
    let (status, _, errors) = index(&server, "x", &wacz.display().to_string());
    assert_eq!(status, 1);
    let advice = format!("run crawlspace indexer --source-url {}", wacz.display());
    assert_contains(&errors, advice);

    // The message says what remains to be done. Running the command that it names succeeds.
    let words = format!("dedupe index --redis {url} --crawl x {warc}");
    let errors = ends(tool(words), 0).errors;
    let advice =
        "crawl x is not committed, so other crawls do not find its payloads: run crawlspace ";
    let (_, commit) = errors.split_once(advice).expect("advice");
    ends(tool(format!("{} --redis {url}", commit.trim())), 0);
    assert_eq!(get(&server, "HLEN allhashes"), "1");
    let (status, _, errors) = index(&server, "x", &format!("--commit {warc}"));
    assert_eq!((status, &errors[..]), (0, ""));
}

#[test]
fn import_waits_for_a_restarting_server() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Options::new().aof(true).start();
    let files: Vec<String> = (0..3)
        .map(|n| {
            let mut warc = Warc::new(dir.path(), &format!("{n}.warc.gz"));
            for capture in 0..700 {
                let uri = format!("https://example.com/{n}/{capture}");
                let hash = redis_tests::sha256_of(n * 1_000 + capture);
                warc.capture("response", &uri, &hash, b"a body");
            }
            std::fs::write(&warc.path, &warc.bytes).unwrap();
            warc.path.display().to_string()
        })
        .collect();
    let files = files.join(" ");
    let relay = Relay::to(&server);
    let words = |url: &str, wait: &str| {
        format!("dedupe index --json --commit --redis {url} --wait {wait} --crawl x {files}")
    };
    for bytes in [1, 150_000, 400_000] {
        relay.hold_after(bytes);
        let mut program = Program::start(tool(words(&relay.url(), "1h")));
        until("the relay holds the import", || relay.holds());
        server.kill9();
        relay.refuse(true);
        relay.cut();
        let waits = "waiting for the server for another ";
        until("the program waits for the server", || {
            program.errors().contains(waits)
        });
        server.restart();
        relay.refuse(false);
        assert!(program.ended().is_none());
        let ended = program.end();
        assert!(ended.status.success(), "{}", ended.errors);
        assert_contains(&ended.errors, "the server is back");
        let report: Value = serde_json::from_str(&ended.out).unwrap();
        assert_eq!(
            (&report["unique"], &report["files"]),
            (&2_100.into(), &3.into())
        );
        assert_eq!(get(&server, "HLEN allhashes"), "2100");
        assert_eq!(get(&server, "HGET h:x:counts totalUrls"), "2100");
        server.wire().ok_line("FLUSHALL");
    }
    let vain = ends(tool(words("redis://127.0.0.1:1/", "700ms")), 1);
    assert_contains(
        &vain.errors,
        "run the same command again when the server is back: it continues where it stopped",
    );
}

#[test]
fn unreachable_server_and_missing_file_give_exit_status_1() {
    let nobody = tool("dedupe index --redis redis://127.0.0.1:1/ --wait 0s --crawl x x.warc.gz");
    assert_contains(ends(nobody, 1).errors, "connecting to redis://127.0.0.1:1/");

    let server = Options::new().no_module().start();
    let (status, _, errors) = index(&server, "x", "missing.warc.gz");
    assert_eq!(status, 1);
    assert_contains(&errors, "missing.warc.gz: offset 0: No such file");
}

#[test]
fn small_files_take_few_commands() {
    let folder = tempfile::tempdir().unwrap();
    let files: Vec<String> = (0..100)
        .map(|file| {
            let mut warc = Warc::new(folder.path(), &format!("{file}.warc.gz"));
            for n in 0..10 {
                // Half of the payloads are also in the previous file.
                let url = format!("http://e/{file}/{n}");
                warc.capture("response", &url, &hash(file * 5 + n), b"body");
            }
            warc.save().to_string()
        })
        .collect();
    let server = Server::start();
    // For each file and shard: at most a look-up, a call with new payloads, and a call with known ones.
    for (index, commands) in [
        ("--prefix {one}:", 4),
        ("--sharded three --shards 3", 9),
        ("--sharded twelve --shards 12", 16),
    ] {
        ok!(server.wire(), "CONFIG", "RESETSTAT");
        let words = format!(
            "dedupe index --crawl a --commit {index} {}",
            files.join(" ")
        );
        outcome(tool(format!("{words} --redis {}", server.url()))).exits(0);
        let calls = sent_to(&server);
        let sent: u64 = calls.values().sum();
        let most = commands * files.len() as u64;
        assert!(sent <= most, "{index}: {sent} commands: {calls:?}");
    }
}
