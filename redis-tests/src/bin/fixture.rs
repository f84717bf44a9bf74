//! Writes the data of a server with this version of the module, and its replies, into
//! `redis-tests/fixtures/VERSION`. Run this program once for every release. Later versions must
//! load the fixture (`tests/server/versions.rs`).
//!
//! ```text
//! cargo build --release -p crawlspace
//! cargo run -p redis-tests --bin fixture
//! ```

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use redis_tests::examples::show;
use redis_tests::matrix::{Family, PREFIX, families};
use redis_tests::words::line;
use redis_tests::{Wire, ok, simulated};

/// Calls whose replies may contain more fields in later versions.
const FIGURES: [&str; 3] = ["INFO", "STATS", "CRAWLS"];

/// One call per family that continues with the stored data. This call runs after all other calls.
const GOES_ON: [(&str, &str); 3] = [
    ("DEDUPE", "COMMIT open"),
    ("CHG", "RELEASE held <held> DELAY 1000 DONE crawl"),
    ("TAGS", "ADD FILE f more"),
];

fn main() {
    let folder = folder();
    let databases = families().len() * 2;
    let server = simulated()
        .aof(false)
        .args(&["--databases", &databases.to_string()])
        .start();
    let mut page = format!(
        "What a server with version {} replies about `dump.rdb` and about `appendonlydir`, both of Redis {}.\n\
         Written by `cargo run -p redis-tests --bin fixture`.\n",
        env!("CARGO_PKG_VERSION"),
        server.info("redis_version").expect("a version"),
    );
    // The append-only file contains the first half as the module's types rewrite it, and the second
    // half as the original commands.
    let mut database = 0;
    let mut going_on = Vec::new();
    for half in 0..2 {
        for family in families() {
            let mut wire = server.wire();
            ok!(wire, "SELECT", database);
            going_on.push(fill(&family, database, &mut wire, &mut page));
            database += 1;
        }
        if half == 0 {
            ok!(server.wire(), "BGREWRITEAOF");
            server.until_rewritten();
        }
    }
    ok!(server.wire(), "SAVE");
    // The fixture does not contain later writes.
    let _ = fs::remove_dir_all(&folder);
    let files = folder.join("appendonlydir");
    fs::create_dir_all(&files).expect("the folder is writable");
    let copied = Command::new("cp")
        .args(["-r", "dump.rdb", "appendonlydir"])
        .arg(&folder)
        .current_dir(server.dir())
        .status();
    assert!(copied.is_ok_and(|status| status.success()), "cp failed");
    for (database, words) in going_on.into_iter().enumerate() {
        let mut wire = server.wire();
        ok!(wire, "SELECT", database);
        write!(page, "\n```redis\n> SELECT {database}\nOK\n").expect("text");
        step(&mut wire, &words, &mut page);
        page.push_str("```\n");
    }
    fs::write(folder.join("replies.md"), page).expect("the folder is writable");
    println!("{}", folder.display());
}

fn folder() -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    fixtures.join(env!("CARGO_PKG_VERSION"))
}

/// Fills a database with the data of a family and records the replies. Returns the arguments of the
/// call of `GOES_ON`.
fn fill(family: &Family, database: usize, wire: &mut Wire, page: &mut String) -> Vec<Vec<u8>> {
    let storage = match family.storage {
        "packed" => "packed",
        _ => "plain",
    };
    for setting in ["crawlspace.dedupe-storage", "crawlspace.chg-storage"] {
        ok!(wire, "CONFIG", "SET", setting, storage);
    }
    let state = family.fill(wire, PREFIX);
    for line in known_urls(family) {
        wire.expect_ok(&state.words(line));
    }
    // A claim would expire as time passes.
    if family.name == "DEDUPE" {
        wire.expect_ok(&state.words("UNCLAIM <h30> <token>"));
    }
    write!(
        page,
        "\n## {}\n\n```redis\n> SELECT {database}\nOK\n",
        family.title()
    )
    .expect("text");
    let is_figures = |read: &&&str| FIGURES.iter().any(|name| read.starts_with(name));
    let reads = family.reads.iter().filter(|read| !is_figures(read));
    let of_known = known_urls(family).iter().map(|_| &KNOWN);
    for read in reads.chain(of_known.take(1)) {
        step(wire, &state.words(read), page);
    }
    page.push_str("```\n");
    let goes_on = GOES_ON.iter().find(|(name, _)| *name == family.name);
    state.words(goes_on.expect("of each family").1)
}

/// Reads the known URLs.
const KNOWN: &str = "KNOWN known http://k.org/ http://k.org/a b http://k.org/c";

/// Returns the calls that write known URLs, which only packed frontiers have.
fn known_urls(family: &Family) -> &'static [&'static str] {
    if (family.name, family.storage) != ("CHG", "packed") {
        return &[];
    }
    &[
        "SPACE known TEXT YES SHARE weekly",
        "DISCOVER known URI ITEMS 2 k.org <soon> 1 http://k.org/ k.org <soon> 1 http://k.org/a",
        "DISCOVER known KEYPAYLOAD ITEMS 1 k.org <soon> 1 http://k.org/b b payload",
        "SETTLE known STATUS 200 ITEMS 1 k.org http://k.org/a NEVER",
    ]
}

/// Runs a command. Records the command and its reply in the format of the documentation.
fn step(wire: &mut Wire, words: &[Vec<u8>], page: &mut String) {
    let reply = wire.expect_ok(words);
    writeln!(page, "> {}", line(words)).expect("text");
    for line in show(&reply) {
        writeln!(page, "{line}").expect("text");
    }
}
