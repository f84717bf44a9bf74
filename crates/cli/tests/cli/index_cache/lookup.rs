//! Finding captures in an index.

use std::fs;

use crate::index_cache::stage::{Stage, ends};

/// A capture that is stored, as the CDX of a job has it: URL and date.
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
fn a_capture_is_found_by_url_by_date_and_by_digest() {
    let stage = Stage::of([1, 2]);
    let out = stage.path().join("copy");
    ends(
        stage.get("full", "1,2", &["--out", out.to_str().unwrap()]),
        0,
    );
    let (url, date) = stored(1);
    let cache = ["lookup", "--kind", "full", "--jobs", "1-2"];
    let lines = ends(stage.index(&[&cache[..], &["--url", &url]].concat()), 0).out;
    let first = lines.lines().next().unwrap();
    assert!(first.contains(&format!(r#""url":"{url}""#)), "{first}");

    let found = ends(
        stage.index(&[&cache[..], &["--url", &url, "--json"]].concat()),
        0,
    )
    .json();
    assert_eq!(found.len(), lines.lines().count());
    let found = found
        .iter()
        .find(|one| one["timestamp"] == date)
        .unwrap_or_else(|| panic!("{date}: {lines}"));
    assert_eq!(found["url"], url);
    assert_eq!(found["job"], "1");
    assert!(
        found["filename"].as_str().unwrap().starts_with("1-"),
        "{found}"
    );

    let words = ["--url", &url, "--closest", &date, "--json"];
    let closest = ends(stage.index(&[&cache[..], &words].concat()), 0).object();
    assert_eq!(closest["timestamp"], date);

    // The same in a copy, by digest: with or without the name of the algorithm.
    let digest = found["digest"].as_str().unwrap();
    for digest in [digest.to_owned(), format!("sha1:{digest}")] {
        let mut look = crate::index_cache::stage::program();
        look.args(["index", "lookup"])
            .arg(&out)
            .args(["--digest", &digest, "--json"]);
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
fn nothing_found_is_status_1() {
    let stage = Stage::of([1]);
    ends(stage.get("full", "1", &[]), 0);
    let look = |words: &[&str]| {
        let cache = ["lookup", "--kind", "full", "--jobs", "1"];
        ends(stage.index(&[&cache[..], words].concat()), 1)
    };
    for words in [
        &["--url", "http://nowhere.example/"][..],
        &["--url", "http://nowhere.example/", "--closest", "2020"],
        &["--digest", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"],
    ] {
        let nothing = look(words);
        assert_eq!(
            (&nothing.out[..], &nothing.errors[..]),
            ("", ""),
            "{words:?}"
        );
    }
    let bad = look(&["--url", "http://nowhere.example/", "--closest", "yesterday"]);
    assert!(bad.errors.contains("yesterday"), "{}", bad.errors);
}

#[test]
fn an_index_is_given_by_its_folder_or_by_kind_and_jobs_and_the_caches() {
    let refused = |words: &[&str]| {
        let mut look = crate::index_cache::stage::program();
        look.args(["index", "lookup", "--url", "http://a/"])
            .args(words);
        ends(look, 2).errors
    };
    let errors = refused(&[]);
    assert!(errors.contains("<PATH|--kind <KIND>>"), "{errors}");
    let (what, _) = errors.split_once("Usage").unwrap();
    assert!(!what.contains("--cache-dir"), "{what}");
    let errors = refused(&["--kind", "full", "--jobs", "1"]);
    let (what, _) = errors.split_once("Usage").unwrap();
    assert!(what.contains("--cache-dir <DIR>"), "{what}");
    assert!(!what.contains("PATH"), "{what}");
}

#[test]
fn an_index_that_is_not_there_is_not_built() {
    let stage = Stage::of([1, 2]);
    ends(stage.get("full", "1", &[]), 0);
    let look = |words: &[&str]| {
        let errors = ends(stage.index(&[&["lookup"], words].concat()), 1).errors;
        assert!(errors.starts_with("crawlspace: "), "{errors}");
        errors
    };
    let errors = look(&["--kind", "full", "--jobs", "1-2", "--url", "http://a/"]);
    assert!(errors.contains("crawlspace index get"), "{errors}");
    look(&["--kind", "dedup", "--jobs", "1", "--url", "http://a/"]);
    look(&["--kind", "cdx", "--jobs", "1", "--url", "http://a/"]);
    assert!(!stage.entry("fullcrawllogindex", "1-2-cache").exists());
    let mut look = crate::index_cache::stage::program();
    look.args(["index", "lookup"])
        .arg(stage.metadata())
        .args(["--url", "http://a/"]);
    ends(look, 1);
    assert_eq!(fs::read_dir(stage.metadata()).unwrap().count(), 2);
}
