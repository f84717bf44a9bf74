//! Test stage: an index and a frontier with data, and the program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use redis_tests::{DATE, Outcome, Server, Wire, ok, outcome, sha256_of};

use crate::tool::tool;

pub const INDEX: &str = "{coll-42}:";
pub const FRONTIER: &str = "{web}:";

/// Runs `crawlspace <words> --redis … --prefix …`.
pub fn crawlspace(server: &Server, prefix: &str, words: &str) -> Outcome {
    let url = server.url();
    outcome(tool(format!("{words} --redis {url} --prefix '{prefix}'")))
}

/// Runs `crawlspace <words> <more> --redis … --prefix …` with words that need not be UTF-8.
pub fn crawlspace_bytes(server: &Server, prefix: &[u8], words: &str, more: &[&[u8]]) -> Outcome {
    let mut tool = tool(words);
    tool.args(more.iter().map(|word| OsStr::from_bytes(word)));
    tool.args(["--redis", &server.url(), "--prefix"]);
    outcome(tool.arg(OsStr::from_bytes(prefix)))
}

/// Adds three crawls: 2026-02, and 2026-03 with revisits of it, both committed; and 2026-04, which is not
/// committed.
pub fn index(server: &Server) -> Wire {
    let mut c = server.wire();
    let hash = sha256_of;
    ok!(c, "DEDUPE.WACZOPEN", INDEX, "2026-02", "2026-02-0.wacz");
    add(&mut c, "2026-02", 0..3);
    let wacz = (hash(1000), 5_242_880);
    c.ok_line(format!(
        "DEDUPE.WACZCLOSE {INDEX} 2026-02 0 2026-02-0.wacz {} {}",
        wacz.0, wacz.1
    ));
    ok!(c, "DEDUPE.COMMIT", INDEX, "2026-02");
    ok!(c, "DEDUPE.WACZOPEN", INDEX, "2026-03", "2026-03-0.wacz");
    add(&mut c, "2026-03", 2..5);
    c.ok_line(format!(
        "DEDUPE.REVISIT {INDEX} 2026-03 REF 5c0a2b7e {} 620 {} 480",
        hash(0),
        hash(1)
    ));
    ok!(c, "DEDUPE.COMMIT", INDEX, "2026-03");
    add(&mut c, "2026-04", 9..10);
    c
}

/// Adds records for a range of hashes, each of 5000 bytes.
pub fn add(c: &mut Wire, crawl: &str, hashes: std::ops::Range<u64>) {
    for n in hashes {
        let url = format!("https://example.com/{n}");
        c.ok_line(format!(
            "DEDUPE.ADD {INDEX} {crawl} {} 0 {DATE} {url} 5000",
            sha256_of(n)
        ));
    }
}

/// Adds three hosts with four URIs of two crawls.
pub fn frontier(server: &Server) -> Wire {
    let mut c = server.wire();
    for (crawl, chg, uri) in [
        ("crawl-1", "a.example", "https://a.example/"),
        ("crawl-1", "a.example", "https://a.example/about"),
        ("crawl-1", "b.example", "https://b.example/"),
        ("crawl-2", "c.example", "https://c.example/"),
    ] {
        ok!(c, "CHG.ADDURI", FRONTIER, crawl, chg, 0, 0, uri);
    }
    c
}
