//! Tests `--server`: indexes built by a server.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_tests::{Program, ScriptedHost, Server, answer, assert_contains, ends};
use serde_json::json;

use crate::index_cache::stage::Stage;
use crate::tool::tool;

/// Starts `crawlspace serve` for the jobs of a stage with its own cache folder, and returns its
/// address.
fn serve(stage: &Stage) -> (Program, String) {
    let config = stage.path().join("config.yaml");
    let text = "indexes:\n  cache_dir: ./theirs\n  metadata: [./metadata]\n";
    fs::write(&config, text).unwrap();
    start(&config)
}

fn start(config: &Path) -> (Program, String) {
    let config = config.display();
    let serve = tool(format!("serve --config {config} --bind 127.0.0.1:0"));
    let mut program = Program::start(serve);
    let url = format!("http://{}/", program.address());
    (program, url)
}

fn get(stage: &Stage, url: &str, kind: &str, jobs: &str, words: &str) -> Command {
    let get = format!("get --kind {kind} --jobs '{jobs}' --server {url} --json");
    stage.index(&format!("{get} {words}"))
}

#[test]
fn index_of_a_server_is_cached_like_a_local_one() {
    let stage = Stage::of([1, 2]);
    let (server, url) = serve(&stage);
    let got = ends(get(&stage, &url, "full", "1,2,9", ""), 0);
    let answer = got.object();
    assert_eq!(answer["jobs"], json!([1, 2]));
    assert_eq!(
        answer["path"],
        stage.entry("FULL_CRAWL_LOG", "1-2-cache").to_str().unwrap()
    );
    assert_eq!(answer["missing"][0]["reason"], "no-job");
    assert_contains(&got.errors, "job 9: no such job");
    assert!(
        stage
            .entry("FULL_CRAWL_LOG", "1-2-cache")
            .join("url.cdxj")
            .exists()
    );

    // The copy can be searched, listed, verified and collected like any other entry, without the
    // server.
    drop(server);
    let (_, cdx) = redis_tests::harvest::logs(1, 4711, crate::index_cache::stage::LINES);
    let cdx = String::from_utf8(cdx).unwrap();
    let page = cdx.lines().find(|line| line.starts_with("http")).unwrap();
    let words = format!(
        "lookup --kind full --jobs 1-2 --url {}",
        page.split(' ').next().unwrap()
    );
    assert!(!ends(stage.index(&words), 0).out.is_empty());
    let listed = ends(stage.index("list --json"), 0).json();
    assert!(
        listed
            .iter()
            .any(|one| one["cache"] == "FULL_CRAWL_LOG" && one["state"] == "whole")
    );
    ends(stage.index("verify"), 0);
    assert_eq!(
        ends(get(&stage, &url, "full", "1-2", "--strict"), 0).object()["jobs"],
        json!([1, 2])
    );
    ends(stage.index("gc --max-size 0 --grace 0s"), 0);
    assert!(!stage.entry("FULL_CRAWL_LOG", "1-2-cache").exists());
}

#[test]
fn index_of_no_jobs_is_empty_locally_and_from_a_server() {
    let stage = Stage::of([1]);
    let (_server, url) = serve(&stage);
    for (kind, local, copied) in [
        ("full", "fullcrawllogindex", "FULL_CRAWL_LOG"),
        ("cdx", "cdxindex", "CDX"),
    ] {
        let here = ends(stage.get(kind, "", "--json"), 0).object();
        let there = ends(get(&stage, &url, kind, "", "--strict"), 0).object();
        for (answer, folder) in [(here, local), (there, copied)] {
            let entry = stage.entry(folder, "empty-cache");
            assert_eq!(answer["path"], entry.to_str().unwrap());
            assert_eq!(answer["jobs"], json!([]));
            assert_eq!(answer["missing"], json!([]));
        }
    }
}

#[test]
fn index_of_a_server_loads_into_a_dedupe_index() {
    let stage = Stage::of([1, 2]);
    let (_server, url) = serve(&stage);
    let (theirs, ours) = (Server::start(), Server::start());
    let (into_theirs, into_ours) = (theirs.url(), ours.url());
    let answer = ends(
        get(
            &stage,
            &url,
            "dedup",
            "1-2",
            &format!("--into {into_theirs}"),
        ),
        0,
    )
    .object();
    assert_eq!(answer["loaded"]["jobs"][1]["outcome"], "committed");
    ends(stage.get("dedup", "1-2", &format!("--into {into_ours}")), 0);
    theirs
        .snapshot()
        .assert_same(&ours.snapshot(), "from a server, and from metadata files");
}

#[test]
fn endless_retry_after_is_limited_by_the_timeout() {
    for for_ever in ["999999999999999", "999999999999999999999999999999"] {
        let first = AtomicBool::new(true);
        let host = ScriptedHost::start(move |_| {
            // The first response reports progress; the following responses do not.
            let is_first = first.swap(false, Ordering::SeqCst);
            let stage = if is_first { "sorting" } else { "" };
            let state = json!({ "state": "building", "stage": stage }).to_string();
            answer(202, &[("Retry-After", for_ever)], state)
        });
        let stage = Stage::of([]);
        let failed = ends(get(&stage, &host.url("/"), "full", "1", "--wait 1"), 1);
        assert_eq!(host.asked().len(), 2);
        let told = "the server is still building the index (sorting); gave up after ";
        let (_, waited) = failed.errors.split_once(told).expect(&failed.errors);
        let waited: u64 = waited.strip_suffix(" s\n").unwrap().parse().unwrap();
        assert!(waited >= 1, "{}", failed.errors);
    }
}

#[test]
fn invalid_server_is_reported() {
    let stage = Stage::of([]);
    for url in ["nonsense", "redis://127.0.0.1/"] {
        let failed = ends(get(&stage, url, "full", "1", ""), 1);
        assert_contains(&failed.errors, url);
    }
    // A server without job indexes says so.
    let config = stage.path().join("config.yaml");
    fs::write(&config, "collections:\n  here: ./indexes\n").unwrap();
    let (_server, url) = start(&config);
    let failed = ends(get(&stage, &url, "full", "1", ""), 1);
    assert_contains(&failed.errors, "offers no indexes");
}
