//! Tests of the real packaging and indexing programs from PyPI and npm: all captures of a WARC file are found in their
//! output.

use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::packages::{left_out, node, run, sized};

use super::python;
use crate::makers::asking::{Client, Expected, MatchType, WAYS, asked, by_urlkey, encoded, scan};
use crate::makers::corpus::{Corpus, many, odd, payload};
use crate::makers::maker::{Family, Row};
use crate::makers::requests::requests;
use crate::resource::record;
use crate::serving::Stage;

pub const PYTHON: [&str; 3] = ["wacz==0.6.0", "cdxj-indexer==1.5.0", "setuptools<81"];
const NODE: [&str; 2] = ["warcio@2.4.11", "@harvard-lil/js-wacz@0.1.6"];

/// Writes a WARC file with captures of unusual URLs, of many other URLs if the test has full size, and of responses to
/// requests with a body.
fn warc(folder: &Path) -> (Corpus, PathBuf) {
    let mut corpus = odd("data.warc.gz");
    for row in many(sized(1, 10_000)) {
        let [js, surt] = row.keys.each_ref().map(|key| &**key);
        let text = payload(&row.url, &row.time);
        corpus.capture("data.warc.gz", [&row.url, js, surt], &row.time, &text);
    }
    let captures = corpus.rows.len();
    for (n, [method, url, media, body, js, _, surt, ..]) in requests().iter().enumerate() {
        let answer = format!("answer to {method} {url} {body}");
        let time = format!("201601010000{n:02}");
        corpus.capture("data.warc.gz", [url, js, surt], &time, &answer);
        let id = format!("<urn:uuid:{}>", corpus.rows[captures].digest);
        corpus.rows.truncate(captures);
        let http = format!(
            "{method} / HTTP/1.1\r\nHost: example.com\r\nContent-Type: {media}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let date = format!("2016-01-01T00:00:{n:02}Z");
        let own = format!("<urn:uuid:00000000-0000-4000-8000-0000000000{n:02}>");
        let fields = [
            ("WARC-Type", "request"),
            ("WARC-Record-ID", &*own),
            ("WARC-Concurrent-To", &*id),
            ("WARC-Date", &*date),
            ("WARC-Target-URI", url),
            ("Content-Type", "application/http; msgtype=request"),
        ];
        corpus.record("data.warc.gz", &fields, http.as_bytes());
    }
    let path = folder.join("data.warc.gz");
    std::fs::write(&path, &corpus.warcs["data.warc.gz"]).unwrap();
    (corpus, path)
}

/// Queries a collection for everything in the WARC file.
fn assert_whole(stage: &Stage, name: &str, family: Family, corpus: &Corpus) {
    let mut client = Client::new(stage, name);
    let all = by_urlkey(&corpus.rows);
    // warcio.js reads some header fields as ISO 8859-1, so the URL of the row differs.
    let is_read = |row: &&Row| family == Family::Python || row.url.is_ascii();
    for (n, row) in corpus.rows.iter().filter(is_read).enumerate() {
        let expected = Expected::new(&all, row, family);
        asked(&mut client, n % WAYS, row, &expected, name);
        if n < 300 {
            let target = format!("resource?url={}&closest={}", encoded(&row.url), row.time);
            let (_, block) = record(&client.ask(&target));
            let expected = payload(&row.url, &row.time);
            assert!(block.ends_with(expected.as_bytes()), "{name}: {target}");
        }
    }
    // Responses to requests with a body are among the captures of their host, and are excluded.
    let part = "http://example.com/p/";
    let page = sized(1, 3000);
    scan(
        &mut client,
        part,
        MatchType::Prefix,
        &corpus.rows,
        page,
        name,
    );
    for [method, url, media, body, ..] in &requests() {
        let target = format!("resource?url={}", encoded(url));
        let answer = client.send(method, &target, media, body);
        assert_eq!(
            answer.status,
            200,
            "{name}: {method} {url} {body}: {}",
            answer.text()
        );
        let expected = format!("answer to {method} {url} {body}");
        assert!(
            record(&answer).1.ends_with(expected.as_bytes()),
            "{name}: {url}"
        );
    }
}

#[test]
fn captures_in_files_of_python_tools_are_found() {
    let Some(python) = python("makers-python", &PYTHON) else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (corpus, warc) = warc(dir.path());
    let folder = dir.path().join("index");
    std::fs::create_dir(&folder).unwrap();
    let package = dir.path().join("py.wacz");
    let mut wacz = Command::new(python.with_file_name("wacz"));
    run(wacz.args(["create", "-o"]).arg(&package).arg(&warc)).unwrap();
    // The two files may have different names. Small blocks give an index of many blocks.
    let mut indexer = Command::new(python.with_file_name("cdxj-indexer"));
    indexer
        .args(["--post-append", "--sort", "-l", sized("10", "300"), "-c"])
        .arg(folder.join("blocks.cdxj.gz"))
        .arg("-o")
        .arg(folder.join("all.idx"))
        .arg(&warc);
    run(&mut indexer).unwrap();
    let stage = Stage::start(&format!(
        "collections:\n  wacz: {}\n  indexer: {{index: {}, resource: {}}}\n",
        package.display(),
        folder.display(),
        dir.path().display()
    ));
    for name in ["wacz", "indexer"] {
        assert_whole(&stage, name, Family::Python, &corpus);
    }
}

#[test]
fn captures_in_files_of_javascript_tools_are_found() {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("makers-node");
    let node = match node(&home, &NODE) {
        Ok(node) => node,
        Err(reason) => return left_out("js-wacz", &reason),
    };
    let script = |path: &str| {
        let mut command = Command::new(&node);
        command.arg(home.join("node_modules").join(path));
        command
    };
    let dir = tempfile::tempdir().unwrap();
    let (corpus, warc) = warc(dir.path());
    let package = dir.path().join("js.wacz");
    let mut wacz = script("@harvard-lil/js-wacz/bin/cli.js");
    wacz.args(["create", "--log-level", "warn", "-f"])
        .arg(&warc)
        .arg("-o")
        .arg(&package);
    run(&mut wacz).unwrap();
    let mut indexer = script("warcio/dist/cli.js");
    let lines = run(indexer.arg("cdx-index").arg(&warc)).unwrap();
    let mut lines: Vec<&str> = lines.lines().collect();
    lines.sort_unstable();
    let plain = dir.path().join("js.cdxj");
    std::fs::write(&plain, lines.join("\n") + "\n").unwrap();
    let stage = Stage::start(&format!(
        "collections:\n  wacz: {}\n  warcio: {{index: {}, resource: {}}}\n",
        package.display(),
        plain.display(),
        dir.path().display()
    ));
    for name in ["wacz", "warcio"] {
        assert_whole(&stage, name, Family::Js, &corpus);
    }
}
