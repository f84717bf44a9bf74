//! Tests `crawlspace tags filter`, `explain` and `info` against a live server.

use std::io::Write;
use std::process::{Output, Stdio};

use redis_tests::{Server, assert_contains, assert_starts};
use serde_json::Value;

use crate::tool::tool;

/// Starts a server with a tag space like Archive-It's.
fn archive() -> Server {
    let server = Server::start();
    let mut wire = server.wire();
    for line in [
        r"TAGS.RULESET tags coll filename (?:^|/)ARCHIVEIT-(\d+)- coll:$1",
        "TAGS.POINTSET tags all 'coll:* & !private'",
        r"TAGS.POINTSET tags org-(\d+) org:$1",
        "TAGS.ADD tags TAG coll:1 org:7",
        "TAGS.ADD tags TAG coll:2 org:7 private",
    ] {
        wire.ok_line(line);
    }
    server
}

fn cdx(collection: u32) -> String {
    format!(
        "org,example)/ 20240501120000 http://example.org/ text/html 200 AAAA - - 100 17 \
         ARCHIVEIT-{collection}-2024.warc.gz"
    )
}

/// Runs `crawlspace tags` with this input on standard input.
fn crawlspace(server: &Server, words: &str, input: impl AsRef<[u8]>) -> Output {
    let input = input.as_ref();
    let mut child = tool(format!("tags {words} --redis {}", server.url()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // The tool may stop reading before the end.
        scope.spawn(move || drop(stdin.write_all(input)));
        child.wait_with_output().unwrap()
    })
}

fn said(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

#[test]
fn file_of_any_size_is_filtered_with_its_header() {
    let server = archive();
    let header = " CDX N b a m s k r M S V g\n";
    let mut input = header.to_owned();
    let mut expected = header.to_owned();
    for n in 0..30_000u32 {
        let line = cdx(n % 3) + "\n";
        input.push_str(&line);
        if n % 3 != 2 {
            expected.push_str(&line);
        }
    }
    let words = "filter --key tags --point all";
    let output = crawlspace(&server, words, &input);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout == expected.as_bytes(), "other lines");

    // The last line has no line break.
    input.push_str("no line");
    let output = crawlspace(&server, words, &input);
    assert_eq!(output.status.code(), Some(1));
    assert_contains(said(output.stderr), "BADLINE line 30002: ");
    let words = format!("{words} --drop-bad-lines");
    let output = crawlspace(&server, &words, &input);
    assert!(output.stdout == expected.as_bytes(), "other lines");
}

#[test]
fn file_with_another_column_order_is_refused() {
    let server = archive();
    // As written by `wget --warc-cdx`: the last column is the id of the record.
    let header = " CDX a b a m s k r M V g u\n";
    let line = "http://example.org/ 20240501120000 http://example.org/ text/html 200 AAAA - - 17 \
                ARCHIVEIT-2-2024.warc.gz <urn:uuid:f1f1f1f1-1111-4111-8111-111111111111>\n";
    for words in [
        "filter --key tags --where !private",
        "filter --key tags --where !private --drop-bad-lines",
        "filter --key tags --where !private --format cdx --drop-bad-lines",
    ] {
        let output = crawlspace(&server, words, format!("{header}{line}"));
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert_eq!(said(output.stdout), "", "{words}");
        assert_contains(said(output.stderr), "BADLINE line 1: its header names");
    }
    // After the first batch, the output of the previous batches is printed.
    let mut input = String::new();
    for _ in 0..15_000 {
        input.push_str(&cdx(1));
        input.push('\n');
    }
    let expected = input.clone();
    input.push_str(header);
    input.push_str(line);
    let words = "filter --key tags --where !private --drop-bad-lines";
    let output = crawlspace(&server, words, input);
    assert_eq!(output.status.code(), Some(1));
    assert!(expected.as_bytes().starts_with(&output.stdout));
    assert_contains(said(output.stderr), "BADLINE line 15001: its header names");
}

#[test]
fn invalid_filter_is_an_error_even_for_an_empty_file() {
    let server = archive();
    for input in [String::new(), cdx(1)] {
        let words = "filter --key tags --point nowhere";
        let output = crawlspace(&server, words, input);
        assert_eq!(output.status.code(), Some(1));
        assert_contains(said(output.stderr), "NOPOINT");
    }
    let words = "filter --key tags --where coll:* --filter tag.org:7 --filter !tag:x|private --dialect pywb --format file";
    let files = b"ARCHIVEIT-1-a.warc.gz\nARCHIVEIT-2-b.warc.gz\nARCHIVEIT-3-c.warc.gz";
    let output = crawlspace(&server, words, files);
    assert_eq!(output.stdout, b"ARCHIVEIT-1-a.warc.gz\n", "{output:?}");
    let words = "filter --key no-space --where *";
    let output = crawlspace(&server, words, cdx(1));
    assert!(output.status.success() && output.stdout.is_empty());
}

#[test]
fn explanation_and_figures_are_shown() {
    let server = archive();
    let line = cdx(2);
    let words = format!("explain --key tags --point all '{line}'");
    let output = crawlspace(&server, &words, b"");
    let told = said(output.stdout);
    assert_contains(&told, "It does NOT pass.");
    assert_contains(&told, "tag private by tag coll:2");
    assert_contains(&told, "NO  POINT all");
    assert_contains(&told, "yes     coll:*");
    let output = crawlspace(&server, &format!("{words} --json"), b"");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["keep"], false);
    assert_eq!(told["tags"][0]["source"], "rule coll");

    let output = crawlspace(&server, "info --key tags", b"");
    let told = said(output.stdout);
    assert_starts(&told, "tag space 'tags'\n");
    assert_contains(&told, "with 3 tags");
    let output = crawlspace(&server, "info --key tags --json", b"");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["rules"], 1);
}
