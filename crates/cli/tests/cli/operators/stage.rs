//! An index and a frontier with something in them, and the program.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

use redis_tests::{DATE, Server, Wire, ok, sha256_of};
use serde_json::Value;

pub const INDEX: &str = "{coll-42}:";
pub const FRONTIER: &str = "{web}:";

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    pub status: i32,
    pub out: String,
    pub errors: String,
}

impl Outcome {
    /// The lines of JSON on standard output.
    pub fn json(&self) -> Vec<Value> {
        let lines = self.out.lines();
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        lines.map(read).collect()
    }

    /// The one line of JSON.
    pub fn object(&self) -> Value {
        let mut lines = self.json();
        assert_eq!(lines.len(), 1, "{self:?}");
        lines.remove(0)
    }
}

/// The program, in an environment without settings.
pub fn program() -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_crawlspace"));
    program
        .env_remove("CRAWLSPACE_REDIS")
        .env_remove("CRAWLSPACE_PREFIX")
        .stdin(Stdio::null());
    program
}

pub fn program_folder() -> &'static Path {
    let program = Path::new(env!("CARGO_BIN_EXE_crawlspace"));
    program.parent().expect("it lies in a folder")
}

pub fn run(command: &mut Command) -> Outcome {
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Outcome {
        status: output.status.code().expect("it ends by itself"),
        out: text(output.stdout),
        errors: text(output.stderr),
    }
}

/// Runs `crawlspace <words> --redis … --prefix …`.
pub fn crawlspace(server: &Server, prefix: &str, words: &[&str]) -> Outcome {
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    crawlspace_bytes(server, prefix.as_bytes(), &words)
}

pub fn crawlspace_bytes(server: &Server, prefix: &[u8], words: &[OsString]) -> Outcome {
    let url = server.url();
    let place = [
        OsStr::new("--redis"),
        OsStr::new(&url),
        OsStr::new("--prefix"),
        OsStr::from_bytes(prefix),
    ];
    run(program().args(words).args(place))
}

/// Three crawls: 2026-02, 2026-03, which has revisits of it, both committed; and 2026-04, which is not.
pub fn index(server: &Server) -> Wire {
    let mut c = server.wire();
    let hash = sha256_of;
    ok!(c, "DEDUPE.WACZOPEN", INDEX, "2026-02", "2026-02-0.wacz");
    add(&mut c, "2026-02", 0..3);
    let wacz = (hash(1000), 5_242_880);
    ok!(
        c,
        "DEDUPE.WACZCLOSE",
        INDEX,
        "2026-02",
        0,
        "2026-02-0.wacz",
        wacz.0,
        wacz.1
    );
    ok!(c, "DEDUPE.COMMIT", INDEX, "2026-02");
    ok!(c, "DEDUPE.WACZOPEN", INDEX, "2026-03", "2026-03-0.wacz");
    add(&mut c, "2026-03", 2..5);
    ok!(
        c,
        "DEDUPE.REVISIT",
        INDEX,
        "2026-03",
        "REF",
        "5c0a2b7e",
        hash(0),
        620,
        hash(1),
        480
    );
    ok!(c, "DEDUPE.COMMIT", INDEX, "2026-03");
    add(&mut c, "2026-04", 9..10);
    c
}

/// Records of so many hashes, of 5000 bytes each.
pub fn add(c: &mut Wire, crawl: &str, hashes: std::ops::Range<u64>) {
    for n in hashes {
        let url = format!("https://example.com/{n}");
        ok!(
            c,
            "DEDUPE.ADD",
            INDEX,
            crawl,
            sha256_of(n),
            0,
            DATE,
            url,
            5000
        );
    }
}

/// Three hosts with four URIs of two crawls.
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
