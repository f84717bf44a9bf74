//! Tests `index lookup`.

use redis_tests::{assert_contains, assert_lacks, assert_starts, ends};
use std::fs;

use crate::index_cache::stage::Stage;
use crate::tool::tool;

/// Returns URL and date of a stored capture, as in the CDX of a job.
fn stored(job: u64) -> (String, String) {
    let (_, cdx) = redis_tests::harvest::logs(job, 4711, crate::index_cache::stage::LINES);
    let cdx = String::from_utf8(cdx).unwrap();
    let line = cdx
        .lines()
        .find(|line| line.starts_with("http"))
        .expect("a page");
    let fields: Vec<&str> = line.split(' ').collect();
    (fields[0].to_owned(), fields[2].to_owned())
}

#[test]
fn capture_is_found_by_url_date_and_digest() {
    let stage = Stage::of([1, 2]);
    let out = stage.path().join("copy");
    ends(
        stage.get("full", "1,2", &format!("--out {}", out.display())),
        0,
    );
    let (url, date) = stored(1);
    let cache = "lookup --kind full --jobs 1-2";
    let lines = ends(stage.index(&format!("{cache} --url {url}")), 0).out;
    let first = lines.lines().next().unwrap();
    assert_contains(first, format!(r#""url":"{url}""#));

    let found = ends(stage.index(&format!("{cache} --url {url} --json")), 0).json();
    assert_eq!(found.len(), lines.lines().count());
    let found = found
        .iter()
        .find(|one| one["timestamp"] == date)
        .unwrap_or_else(|| panic!("{date}: {lines}"));
    assert_eq!(found["url"], url);
    assert_eq!(found["job"], "1");
    assert_starts(found["filename"].as_str().unwrap(), "1-");

    let words = format!("--url {url} --closest {date} --json");
    let closest = ends(stage.index(&format!("{cache} {words}")), 0).object();
    assert_eq!(closest["timestamp"], date);

    // A copy of the index is searched by digest, with or without the name of the algorithm.
    let digest = found["digest"].as_str().unwrap();
    for digest in [digest.to_owned(), format!("sha1:{digest}")] {
        let out = out.display();
        let look = tool(format!("index lookup {out} --digest {digest} --json"));
        let found = ends(look, 0).json();
        assert!(found.iter().all(|one| {
            one["digest"]
                .as_str()
                .unwrap_or(&digest)
                .ends_with(digest.rsplit(':').next().unwrap())
        }));
        assert!(found.iter().any(|one| one["url"] == url), "{found:?}");
    }
}

#[test]
fn empty_result_gives_status_1() {
    let stage = Stage::of([1]);
    ends(stage.get("full", "1", ""), 0);
    let look = |words: &str| {
        let cache = "lookup --kind full --jobs 1";
        ends(stage.index(&format!("{cache} {words}")), 1)
    };
    for words in [
        "--url http://nowhere.example/",
        "--url http://nowhere.example/ --closest 2020",
        "--digest AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ] {
        let nothing = look(words);
        assert_eq!(&nothing.out[..], "", "{words:?}");
        assert_eq!(&nothing.errors[..], "", "{words:?}");
    }
    let bad = look("--url http://nowhere.example/ --closest yesterday");
    assert_contains(&bad.errors, "yesterday");
}

#[test]
fn index_is_given_by_its_folder_or_by_kind_and_jobs() {
    let refused =
        |words: &str| ends(tool(format!("index lookup --url http://a/ {words}")), 2).errors;
    let errors = refused("");
    assert_contains(&errors, "<PATH|--kind <KIND>>");
    let (what, _) = errors.split_once("Usage").unwrap();
    assert_lacks(what, "--cache-dir");
    let errors = refused("--kind full --jobs 1");
    let (what, _) = errors.split_once("Usage").unwrap();
    assert_contains(what, "--cache-dir <DIR>");
    assert_lacks(what, "PATH");
}

/// Checks that `lookup` finds what `get` of the same jobs has just built, under any name.
#[test]
fn index_of_some_jobs_is_searched_and_missing_jobs_are_reported() {
    let stage = Stage::of([1, 2, 7]);
    let (url, _) = stored(1);
    ends(stage.get("full", "1", ""), 0);
    ends(stage.get("full", "1-5,7", ""), 0);
    let look = stage.index(&format!("lookup --kind full --jobs 1-5,7 --url {url}"));
    let found = ends(look, 0);
    assert_contains(&found.out, format!(r#""url":"{url}""#));
    assert_starts(
        &found.errors,
        "crawlspace: searching the full index of jobs 1,2,7: no index has jobs 3-5 as well; ",
    );
    assert_contains(&found.errors, "crawlspace index get");
    // The larger index is not used, because it contains additional jobs.
    let look = stage.index(&format!("lookup --kind full --jobs 1,3 --url {url}"));
    assert_starts(
        &ends(look, 0).errors,
        "crawlspace: searching the full index of jobs 1: no index has jobs 3 as well; ",
    );
}

#[test]
fn lookup_does_not_build_an_index() {
    let stage = Stage::of([1, 2]);
    ends(stage.get("full", "1", ""), 0);
    let look = |words: &str| {
        let errors = ends(stage.index(&format!("lookup {words}")), 1).errors;
        assert_starts(&errors, "crawlspace: ");
        errors
    };
    let errors = look("--kind full --jobs 2 --url http://a/");
    assert_contains(&errors, "crawlspace index get");
    look("--kind dedup --jobs 1 --url http://a/");
    look("--kind cdx --jobs 1 --url http://a/");
    assert!(!stage.entry("fullcrawllogindex", "1-2-cache").exists());
    let metadata = stage.metadata();
    ends(
        tool(format!(
            "index lookup {} --url http://a/",
            metadata.display()
        )),
        1,
    );
    assert_eq!(fs::read_dir(stage.metadata()).unwrap().count(), 2);
}
