//! Tests `crawlspace index get --server` with clients that are separate processes, some of which are killed.

#[path = "../../../../jobs/tests/jobs/client/parcels.rs"]
#[allow(dead_code)]
mod parcels;

use std::path::Path;

use crawlspace_jobs::{IndexKind, Work};
use redis_tests::http::get;
use redis_tests::{Part, Program, ScriptedHost, until};
use serde_json::Value;

use self::parcels::{Desk, arrives, made, set, tar_of, write};
use super::stage::Stage as Archive;
use crate::serving::Stage;
use crate::tool::tool;

fn client(server: &str, kind: &str, jobs: &str, cache_dir: &Path) -> Program {
    let command = tool(format!(
        "index get --json --server {server} --kind {kind} --jobs {jobs} --cache-dir {}",
        cache_dir.display()
    ));
    Program::start(command)
}

/// Starts a server that serves only the indexes of an archive.
fn start(archive: &Archive) -> Stage {
    Stage::start(&format!(
        "indexes:\n  cache_dir: {}\n  metadata: {}\n",
        archive.cache().display(),
        archive.metadata().display()
    ))
}

#[test]
fn client_gets_the_index_and_then_needs_no_server() {
    let archive = Archive::of(1..=3);
    let server = start(&archive);
    let desk = Desk::new();
    let folder = &desk.options.cache_dir;
    let url = server.url();
    let ended = client(&url, "full", "1-3,9", folder).end();
    assert!(ended.status.success(), "{}", ended.errors);
    assert!(ended.errors.contains('9'), "{}", ended.errors);
    let got: Value = serde_json::from_str(&ended.out).expect(&ended.out);
    let path = folder.join("FULL_CRAWL_LOG/1-2-3-cache");
    assert_eq!(got["path"], path.to_str().unwrap());
    assert!(path.join("url.cdxj").is_file());

    drop(server);
    let ended = client(&url, "full", "1-3", folder).end();
    assert!(ended.status.success(), "{}", ended.errors);
    let again: Value = serde_json::from_str(&ended.out).expect(&ended.out);
    assert_eq!(again["path"], got["path"]);
    let ended = client(&url, "dedup", "one", folder).end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.errors);
}

#[test]
fn killed_client_leaves_nothing_that_blocks() {
    let desk = Desk::new();
    let tar = tar_of(IndexKind::Full, "1,2");
    let half = tar[..tar.len() / 2].to_vec();
    let silent = ScriptedHost::start(move |_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-tar\r\n\r\n";
        let half = Part::Bytes(half.clone());
        vec![Part::Bytes(head.into()), half, Part::Silence]
    });
    let program = client(&silent.url(""), "full", "1,2", &desk.options.cache_dir);
    let draft = desk
        .options
        .cache_dir
        .join("FULL_CRAWL_LOG/.1-2-cache.draft");
    until("the program writes the index", || {
        draft.join("digest.cdxj").exists()
    });
    program.kill9();
    assert!(draft.exists());
    assert!(
        !desk
            .options
            .cache_dir
            .join("FULL_CRAWL_LOG/1-2-cache")
            .exists()
    );

    let host = ScriptedHost::start(move |_| arrives(&tar));
    let client = desk.strict(&host.url(""));
    let index = client.get_index(IndexKind::Full, &set("1,2"), &Work::default());
    assert_eq!(index.unwrap().found, set("1,2"));
    assert!(!draft.exists());
}

/// Size of the transfer in bytes, much larger than the memory that either side may use.
const LARGE: usize = 96 << 20;

#[test]
fn large_index_takes_little_memory_on_both_sides() {
    let archive = Archive::of([]);
    let line = format!("http://example.com/ {}\n", "x".repeat(1000));
    let text = line.repeat(LARGE / line.len());
    let entry = made(&archive.cache(), IndexKind::Cdx, "1,2", |draft| {
        write(draft, "cdx", text.as_bytes());
        Ok(())
    });
    drop(entry);
    let mut server = start(&archive);
    let desk = Desk::new();
    let ended = client(&server.url(), "cdx", "1,2", &desk.options.cache_dir).end_at_last();
    assert!(ended.status.success(), "{}", ended.errors);
    let copy = std::fs::read(desk.options.cache_dir.join("CDX/1-2-cache")).unwrap();
    assert!(copy == text.as_bytes());
    // The server does not read ahead for a client that does not read its response, either.
    let mut idle = redis_tests::http::Connection::open(server.address()).unwrap();
    idle.send("GET", "/_indexes/cdx?jobs=1,2", &[], b"")
        .unwrap();
    idle.first_byte().unwrap();
    assert_eq!(get(server.operator(), "/_status").status, 200);
    server.program_mut().interrupt();
    drop(idle);
    let peak = redis_tests::until_some("the server has ended", || {
        server.program_mut().ended().map(|ended| ended.peak)
    });
    for (who, peak) in [("client", ended.peak), ("server", peak)] {
        assert!(
            peak > 1 << 20 && peak < LARGE as u64 / 2,
            "{who}: {} MiB",
            peak >> 20
        );
    }
}
