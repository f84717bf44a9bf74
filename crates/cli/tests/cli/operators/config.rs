//! `crawlspace config`, and how `crawlspace serve` takes what is wrong.

use redis_tests::{Outcome, assert_contains, assert_lacks, assert_starts, outcome};
use std::path::Path;

use crate::tool::tool;

/// Runs it in that folder.
fn crawlspace(folder: &Path, words: &str) -> Outcome {
    outcome(tool(words).current_dir(folder))
}

#[test]
fn everything_that_is_wrong_is_told_and_nothing_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let text = "collections:\n  good: $live\n  a: cdx+http://h/cdx\n  b: {indx: \"\\e[31m\"}\n";
    std::fs::write(folder.path().join("config.yaml"), text).unwrap();
    for words in [
        "config check config.yaml",
        "config show config.yaml",
        "serve --bind 127.0.0.1:0 --config config.yaml",
    ] {
        let Outcome {
            status,
            out,
            errors,
        } = crawlspace(folder.path(), words);
        assert_eq!((status, &*out), (1, ""), "{words:?}: {errors}");
        let places: Vec<&str> = errors
            .lines()
            .map(|line| line.split(": ").next().unwrap())
            .collect();
        let wanted = ["config.yaml:3:6", "config.yaml:4:6", "config.yaml:4:7"];
        assert_eq!(places, wanted, "{words:?}: {errors}");
    }
    let missing = crawlspace(folder.path(), "config check none.yaml").exits(1);
    assert_starts(&missing.errors, "none.yaml: this file cannot be read: ");
}

#[test]
fn what_is_shown_is_the_same_configuration_and_hides_passwords() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "debug: true\ncollections:\n  a: {index: 'redis://u:hidden@h/k', resource: ./warcs}\n";
    std::fs::write(folder.path().join("config.yaml"), text).unwrap();
    let shown = |words: &str| {
        let words = format!("config show {words}");
        let outcome = crawlspace(folder.path(), &words);
        assert_eq!(outcome.status, 0, "{}", outcome.errors);
        (outcome.out, outcome.errors)
    };
    let (masked, remarks) = shown("config.yaml");
    assert_contains(&masked, "redis://u:***@h:6379/0/k");
    assert_lacks(&masked, "hidden");
    assert_starts(&remarks, "config.yaml:1:1: debug has no effect here");

    for (form, again) in [
        ("--secrets", "again.yaml"),
        ("--secrets --json", "again.json"),
    ] {
        let (text, _) = shown(&format!("{form} config.yaml"));
        assert_contains(&text, "redis://u:hidden@h:6379/0/k");
        std::fs::write(folder.path().join(again), &text).unwrap();
        let (same, remarks) = shown(&format!("{form} {again}"));
        assert_eq!((same, &*remarks), (text, ""));
    }
}
