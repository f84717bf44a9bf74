//! Tests that an import uses little memory for any input.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use redis_tests::archive::{Folder, store_in};
use redis_tests::{Ended, Rng, Server, assert_consistent, ok, sha256_of, until};

use crate::indexer::stage::{COPY, Indexer, succeeded};

/// Number of lines that an unoptimized build imports in half a minute.
const LINES: u64 = if cfg!(debug_assertions) {
    150_000
} else {
    2_400_000
};
const MIB: u64 = 1 << 20;
const LIMIT: u64 = 200 * MIB;

/// Writes a WACZ file with a gzipped index of these lines; returns the size of the text in bytes.
fn package(folder: &Folder, name: &str, lines: u64, mut line: impl FnMut(u64) -> String) -> u64 {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let mut text = 0;
    for n in 0..lines {
        let line = line(n);
        text += line.len() as u64;
        packed.write_all(line.as_bytes()).expect("memory takes it");
    }
    let packed = packed.finish().expect("memory takes it");
    store_in(&folder.file(name), &[("indexes/index.cdx.gz", &packed)]);
    let [plain, gzipped] = [text, packed.len() as u64].map(|bytes| bytes / MIB);
    println!("{plain} MiB of text in {gzipped} MiB");
    text
}

fn line(url: &str, n: u64, payload: u64, mime: &str) -> String {
    let hash = sha256_of(payload);
    let date = 20_240_101_000_000 + n / 60 % 24 * 10_000 + n % 60;
    format!(
        "com,example)/ {date} {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"status\": \"200\", \"digest\": \"{hash}\", \
         \"length\": \"{}\", \"offset\": \"{n}\", \"filename\": \"data-{}.warc.gz\"}}\n",
        1000 + n % 1000,
        n % 7
    )
}

fn import(folder: &Folder, name: &str) -> (Server, Ended, bool) {
    let server = Server::start();
    let source = folder.file(name);
    let import = Indexer::new(&source).redis(&server.url());
    let mut program = import.prefix(COPY).with("--crawl-id", "large").start();
    let mut c = server.wire();
    let guard = format!("{COPY}pending:q:{name}");
    let (mut holders, mut since, mut outlived) = (Vec::new(), None::<Instant>, false);
    until("the import has ended", || {
        let holder = ok!(c, "GET", guard);
        if !holder.is_nil() && holders.last() != Some(&holder) {
            holders.push(holder.clone());
        }
        if !holder.is_nil() {
            outlived |=
                since.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(1500);
        }
        program.ended().is_some()
    });
    assert!(holders.len() < 2, "it lost it to itself: {holders:?}");
    assert_consistent(&mut c, COPY);
    (server, program.end(), outlived)
}

fn count(server: &Server, field: &str) -> u64 {
    let count = ok!(server.wire(), "HGET", format!("{COPY}allcounts"), field);
    count.text().parse().expect("a number")
}

#[test]
fn memory_does_not_depend_on_the_size_of_an_index() {
    let folder = Folder::new();
    let revisits = |n: u64| n % 5 == 4;
    let text = package(&folder, "large.wacz", LINES, |n| {
        let mime = ["text/html", "warc/revisit"][usize::from(revisits(n))];
        let url = format!("https://www.example.com/a/page/of/usual/length/{n}.html");
        // Every payload is stored before its first revisit.
        line(&url, n, n / 5 % 1000, mime)
    });
    let (server, ended, outlived) = import(&folder, "large.wacz");
    let report = succeeded(&ended);
    println!("peak {} MiB, {} s", ended.peak / MIB, report["seconds"]);
    assert_eq!(report["lines"], LINES);
    assert_eq!(count(&server, "totalUrls"), LINES);
    assert_eq!(count(&server, "dupeUrls"), LINES / 5);
    assert!(cfg!(debug_assertions) || text > 600 * MIB, "{text} bytes");
    assert!(ended.peak < LIMIT, "{} MiB", ended.peak / MIB);
    if !outlived {
        println!("it was done before its guard had to be renewed");
    }
}

#[test]
fn memory_does_not_depend_on_the_length_of_lines() {
    let folder = Folder::new();
    let mut rng = Rng::new("long lines");
    let lines = if cfg!(debug_assertions) { 80 } else { 1600 };
    let text = package(&folder, "long.wacz", lines, |n| {
        // Repetitive, but less so than a decompression bomb.
        let words: Vec<String> = (0..8000).map(|_| format!("{:016x}", rng.bits())).collect();
        let url = format!("https://www.example.com/?{}", words.join("&").repeat(3));
        line(&url, n, n % 10, "text/html")
    });
    let (server, ended, _) = import(&folder, "long.wacz");
    succeeded(&ended);
    println!("peak {} MiB of {} MiB", ended.peak / MIB, text / MIB);
    assert_eq!(count(&server, "totalUrls"), lines);
    assert!(ended.peak < LIMIT, "{} MiB", ended.peak / MIB);
}

#[test]
fn manifest_of_many_files_takes_little_memory() {
    let folder = Folder::new();
    let path = folder.file("many.json");
    let mut manifest = BufWriter::new(File::create(&path).expect("a file"));
    let files = if cfg!(debug_assertions) {
        3_000
    } else {
        20_000
    };
    let mut write = |text: String| manifest.write_all(text.as_bytes()).expect("it is written");
    write("{\"resources\": [\n".into());
    for n in 0..files {
        let comma = if n == 0 { "" } else { "," };
        write(format!(
            "{comma}{{\"path\": \"missing/{n}.wacz\", \"crawlId\": \"crawl-{}\"}}\n",
            n % 50
        ));
    }
    write("]}".into());
    manifest.into_inner().expect("it is written");
    let server = Server::start();
    let import = Indexer::new(&path).redis(&server.url());
    let ended = import.prefix(COPY).start().end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
    println!("peak {} MiB", ended.peak / MIB);
    assert!(ended.peak < LIMIT, "{} MiB", ended.peak / MIB);
}
