//! Tests `crawlspace cdxj`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use crawlspace_index::zipnum::Blocks;
use crawlspace_warc::{Compression, Writer};
use redis_tests::http::get;
use redis_tests::packages::left_out;
use redis_tests::pywb::{App, Pywb};
use redis_tests::{Outcome, Rng, assert_contains, outcome};
use serde_json::Value;

use crate::index_cache::guide::{Reader, blocks};
use crate::tool::{FULL_OUTPUT, limited, script, tool};

/// Writes a WARC file with captures of URLs in random order, half of them without a stated digest.
fn warc(path: &Path, captures: u64, rng: &mut Rng) {
    let mut bytes = Vec::new();
    for _ in 0..captures {
        let number = rng.below(1_000_000);
        let uri = format!("http://host-{}.example/page/{number}", number % 97);
        let date = format!("2026-03-19T10:{:02}:{:02}Z", number % 60, number / 60 % 60);
        let digest = "sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A";
        let mut fields: Vec<(&str, &[u8])> = vec![
            ("WARC-Type", b"response"),
            ("WARC-Target-URI", uri.as_bytes()),
            ("WARC-Date", date.as_bytes()),
        ];
        if number.is_multiple_of(2) {
            fields.push(("WARC-Payload-Digest", digest.as_bytes()));
        }
        let block = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\npage {number}");
        let written =
            Writer::new(&mut bytes, Compression::PerRecord).write(&fields, block.as_bytes());
        written.unwrap();
    }
    fs::write(path, bytes).unwrap();
}

/// Writes a folder of WARC files.
fn folder(files: u64, captures: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut rng = Rng::new("cdxj");
    fs::create_dir(folder.path().join("warcs")).unwrap();
    for number in 0..files {
        let path = folder.path().join(format!("warcs/{number}.warc.gz"));
        warc(&path, captures, &mut rng);
    }
    folder
}

fn run(folder: &Path, words: &str) -> Outcome {
    let mut tool = tool(format!("cdxj {words}"));
    tool.current_dir(folder);
    outcome(tool)
}

/// Returns the names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

#[test]
fn rows_are_sorted_whatever_the_memory_and_threads() {
    let folder = folder(5, 400);
    let dir = folder.path();
    // Named pipes in folders are not read, because this would wait for a writer.
    let pipe = dir.join("warcs/pipe.warc");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let first = run(dir, "warcs --threads 1");
    assert_eq!((first.status, &*first.errors), (0, ""));
    let rows: Vec<&str> = first.out.lines().collect();
    assert!(rows.is_sorted() && rows.len() > 1900, "{}", rows.len());
    assert!(rows[0].contains(r#""filename": "#) && rows[0].contains(r#""digest": "sha1:"#));
    // With 16 KiB, the rows are sorted on the disk, in dozens of runs.
    for words in ["--threads 3", "--threads 2 --memory 16KiB", "warcs warcs"] {
        let other = run(dir, &format!("warcs {words}"));
        assert_eq!((other.status, &*other.errors), (0, ""), "{words}");
        assert!(other.out == first.out, "{words}");
    }
    let named = run(dir, "warcs --dir-root .").out;
    assert_eq!(named.replace(r#""warcs/"#, "\""), first.out);
    assert_eq!(names(dir), BTreeSet::from(["warcs".to_owned()]));
}

#[test]
fn index_is_written_whole() {
    let folder = folder(2, 300);
    let dir = folder.path();
    let expected = run(dir, "warcs").out;
    let done = run(dir, "warcs --output index.cdxj --json");
    let counts: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_eq!(counts["rows"], expected.lines().count());
    assert_eq!(
        (&counts["files"], &counts["records"]),
        (&2.into(), &600.into())
    );
    assert_eq!(
        fs::read_to_string(dir.join("index.cdxj")).unwrap(),
        expected
    );
    let done = run(dir, "warcs --zipnum --lines 10 --output blocks.idx");
    assert_eq!(done.status, 0, "{}", done.errors);
    assert_contains(&done.out, "rows");
    let mut blocks = Blocks::open(dir, "blocks").unwrap();
    let mut text = Vec::new();
    while let Some(block) = blocks.next().unwrap() {
        text.extend_from_slice(block);
    }
    assert_eq!(String::from_utf8(text).unwrap(), expected);
    // A second run replaces the index.
    assert_eq!(
        run(dir, "warcs/0.warc.gz --zipnum --output blocks.idx").status,
        0
    );
    let expected = ["blocks.cdxj.gz", "blocks.idx", "index.cdxj", "warcs"];
    assert_eq!(names(dir), expected.map(str::to_owned).into());
}

#[test]
fn failed_write_keeps_the_old_index() {
    let folder = folder(2, 300);
    let dir = folder.path();
    for words in ["--output index.cdxj", "--zipnum --output blocks.idx"] {
        let old = format!("warcs/0.warc.gz {words}");
        assert_eq!(run(dir, &old).status, 0);
    }
    let files = ["blocks.cdxj.gz", "blocks.idx", "index.cdxj"];
    let old = files.map(|name| fs::read(dir.join(name)).unwrap());
    for words in [
        "--output index.cdxj",
        "--zipnum --output blocks.idx",
        "--output new.cdxj",
    ] {
        let failed = outcome(limited(format!("cdxj warcs {words}"), dir)).exits(1);
        assert_contains(&failed.errors, "cannot write: File too large");
    }
    assert_eq!(files.map(|name| fs::read(dir.join(name)).unwrap()), old);
    assert_eq!(names(dir).len(), 4);
    let full = outcome(script("crawlspace cdxj warcs > /dev/full", dir)).exits(1);
    assert_eq!(full.errors, format!("crawlspace: {FULL_OUTPUT}\n"));
    // A closed pipe is no error to report.
    let closed = "crawlspace cdxj warcs warcs | head -c 1 > /dev/null";
    assert_eq!(outcome(script(closed, dir)).exits(0).errors, "");
}

#[test]
fn damaged_file_is_indexed_up_to_the_damage() {
    let folder = folder(2, 20);
    let dir = folder.path();
    let whole = run(dir, "warcs").out;
    let path = dir.join("warcs/1.warc.gz");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let done = run(dir, "warcs missing.warc.gz --output index.cdxj --json");
    assert_eq!(done.status, 1);
    assert_contains(&done.errors, "1.warc.gz");
    assert_contains(&done.errors, "missing.warc.gz");
    let rows = fs::read_to_string(dir.join("index.cdxj")).unwrap();
    let of = |file: &str, rows: &str| rows.lines().filter(|row| row.contains(file)).count();
    assert_eq!(of("0.warc.gz", &rows), of("0.warc.gz", &whole));
    assert!((1..of("1.warc.gz", &whole)).contains(&of("1.warc.gz", &rows)));
    // If nothing can be read, an existing index is kept.
    let done = run(dir, "missing.warc.gz --output index.cdxj");
    assert_eq!(done.status, 1);
    assert_eq!(fs::read_to_string(dir.join("index.cdxj")).unwrap(), rows);
}

#[test]
fn killed_indexer_leaves_nothing_half_written() {
    let folder = folder(3, 2000);
    let dir = folder.path();
    let words = [
        "warcs --output index.cdxj",
        "warcs --zipnum --output blocks.idx",
    ];
    let begun = Instant::now();
    for words in words {
        assert_eq!(run(dir, words).status, 0);
    }
    let time = begun.elapsed() / 2;
    let files = ["index.cdxj", "blocks.idx", "blocks.cdxj.gz"];
    let whole = files.map(|name| fs::read(dir.join(name)).unwrap());
    let mut rng = Rng::new("killed_indexer_leaves_nothing_half_written");
    let mut killed = 0;
    for round in 0..20 {
        let exists = round % 4 < 2;
        for (name, whole) in files.iter().zip(&whole) {
            if exists {
                fs::write(dir.join(name), whole).unwrap();
            } else {
                let _ = fs::remove_file(dir.join(name));
            }
        }
        let mut tool = tool(format!("cdxj {}", words[round % 2]));
        tool.current_dir(dir).stdout(Stdio::null());
        let mut child = tool.spawn().unwrap();
        std::thread::sleep(time * rng.below(110) as u32 / 100);
        child.kill().unwrap();
        killed += u32::from(!child.wait().unwrap().success());
        for (name, whole) in files.iter().zip(&whole) {
            // The index of the blocks exists only with its blocks.
            let found = fs::read(dir.join(name)).ok();
            assert!(found.is_none() || found.as_ref() == Some(whole), "{name}");
            assert!(found.is_some() || !exists || *name != "index.cdxj");
        }
        for name in names(dir) {
            let is_temporary = name.starts_with(".crawlspace-");
            assert!(
                is_temporary || name == "warcs" || files.contains(&&*name),
                "{name}"
            );
        }
    }
    assert!(killed > 5, "{killed}");
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = folder(1, 1);
    for (words, status, message) in [
        (
            "warcs --zipnum --output index.cdxj",
            2,
            "must end with .idx",
        ),
        ("warcs --json", 2, "--output"),
        ("warcs --threads 0", 2, "--threads"),
        ("warcs --zipnum --output x.idx --lines 0", 2, "--lines"),
        ("warcs --dir-root warcs/none", 1, "warcs/none"),
    ] {
        let done = run(folder.path(), words);
        assert_eq!(done.status, status, "{words}");
        assert_contains(&done.errors, message);
    }
}

/// Writes the WARC file of the guide: a page, a form and its answer.
fn example(path: &Path) {
    let mut bytes = Vec::new();
    let mut write = |kind: &str, id: &str, uri: &str, second: u32, http: &str| {
        let id = format!("<urn:uuid:{id}>");
        let date = format!("2026-03-19T10:20:{second}Z");
        let mut fields: Vec<(&str, &[u8])> = vec![
            ("WARC-Type", kind.as_bytes()),
            ("WARC-Record-ID", id.as_bytes()),
            ("WARC-Target-URI", uri.as_bytes()),
            ("WARC-Date", date.as_bytes()),
        ];
        if kind == "request" {
            fields.push(("WARC-Concurrent-To", b"<urn:uuid:3>"));
        }
        let written =
            Writer::new(&mut bytes, Compression::PerRecord).write(&fields, http.as_bytes());
        written.unwrap();
    };
    let page = |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n{body}\n");
    let form = "http://example.com/form";
    write(
        "response",
        "1",
        "http://example.com/",
        15,
        &page("<p>hello, archive</p>"),
    );
    write(
        "response",
        "2",
        form,
        17,
        &page("<form method=post><input name=name></form>"),
    );
    write("response", "3", form, 19, &page("<p>thanks, value</p>"));
    let post = "POST /form HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\nname=value";
    write("request", "4", form, 19, post);
    fs::write(path, bytes).unwrap();
}

#[test]
fn guide_leads_from_warc_files_to_pywb() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/warc-to-replay.md");
    let blocks = blocks(&fs::read_to_string(page).unwrap());
    let mut reader = Reader::new();
    fs::create_dir(reader.folder.path().join("warcs")).unwrap();
    example(&reader.folder.path().join("warcs/example.warc.gz"));
    // The first part serves the files, the second one an index file.
    let second = blocks
        .iter()
        .position(|(language, _)| language == "console");
    let (folder, index) = blocks.split_at(second.unwrap());
    for part in [folder, index] {
        reader.run_all(part);
        match Pywb::install(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("pywb")) {
            Ok(pywb) => replay_with(&pywb, &reader, &blocks),
            Err(reason) => left_out("pywb", &reason),
        }
    }
}

/// Replays the captures of the guide with its configuration of pywb.
fn replay_with(pywb: &Pywb, reader: &Reader, blocks: &[(String, Vec<String>)]) {
    let (_, config) = blocks
        .iter()
        .find(|(language, _)| language == "yaml pywb")
        .unwrap();
    let (_, address) = reader.server.as_ref().unwrap();
    let config = config.join("\n").replace("http://127.0.0.1:8080", address);
    let running = pywb.start(App::Wayback, &config, 1);
    for (time, path, text) in [
        ("20260319102015", "", "<p>hello, archive</p>"),
        ("20260319102017", "form", "<form method=post>"),
    ] {
        let replay = get(
            running.address(),
            &format!("/web/{time}id_/http://example.com/{path}"),
        );
        assert_eq!(replay.status, 200, "{}", replay.text());
        assert_contains(replay.text(), text);
    }
}
