//! Tests `crawlspace config`, and how `crawlspace serve` handles invalid configurations.

use redis_tests::{Outcome, assert_contains, assert_lacks, assert_starts, outcome};
use std::path::Path;

use crate::tool::tool;

/// Runs the tool in that folder.
fn crawlspace(folder: &Path, words: &str) -> Outcome {
    outcome(tool(words).current_dir(folder))
}

#[test]
fn all_configuration_errors_are_reported_and_nothing_is_served() {
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
fn unsupported_index_formats_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let wget = " CDX a b a m s k r M V g u\nhttp://example.com/ 20200101000000 http://example.com/ text/html 200 D - - 1 a.warc.gz <urn:uuid:1>\n";
    let good = "com,example)/ 20200101000000 {\"url\": \"http://example.com/\"}\n";
    for (name, text, status, what) in [
        ("wget.cdx", wget, 1, "its header names the columns"),
        (
            "page.cdxj",
            "<!DOCTYPE html>\n",
            1,
            "none of its lines is a capture",
        ),
        (
            "x.idx",
            "com,example)/ 20200101000000 x.gz 0 10\n",
            1,
            "none of its lines describes a block",
        ),
        ("good.cdxj", good, 0, ""),
        ("empty.cdxj", "", 0, ""),
        ("broken.wacz", "PK no zip", 0, "(warning)"),
        ("none.cdxj", "-", 0, "none.cdxj: No such file or directory"),
    ] {
        if text != "-" {
            write(name, text);
        }
        write(
            "config.yaml",
            &format!("collections: {{c: {{index: ./{name}, resource: ./}}}}\n"),
        );
        let checked = crawlspace(folder.path(), "config check config.yaml");
        assert_eq!(checked.status, status, "{name}: {}", checked.errors);
        assert_contains(&checked.errors, what);
        assert_eq!(
            checked.out.ends_with("OK\n"),
            status == 0,
            "{name}: {}",
            checked.out
        );
    }
}

#[test]
fn rule_keys_that_match_no_urlkey_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    let config = "collections: {live: {index: $live, acl_paths: ./rules.aclj}}\n";
    std::fs::write(folder.path().join("config.yaml"), config).unwrap();
    for (key, meant) in [
        ("com,example,www)/p", "com,example)/p"),
        ("com,example)/P", "com,example)/p"),
        ("(com,example,)/p", "com,example)/p"),
        ("com,example)/p/###", "com,example)/p###"),
        ("com,example)/%70", "com,example)/p"),
    ] {
        let check = |key: &str| {
            let rules = format!(
                "org,a)/ - {{\"access\": \"block\"}}\n{key} - {{\"access\": \"exclude\"}}\n"
            );
            std::fs::write(folder.path().join("rules.aclj"), rules).unwrap();
            crawlspace(folder.path(), "config check config.yaml")
        };
        let errors = check(key).exits(1).errors;
        assert_contains(&errors, "rules.aclj:2: ");
        assert_contains(&errors, format!("write {meant:?}"));
        check(meant).exits(0);
    }
}

#[test]
fn server_that_answers_for_any_host_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    for (hosts, noted) in [("", true), ("hosts: [archive.example]\n", false)] {
        let text = format!("{hosts}collections: {{live: $live}}\n");
        std::fs::write(folder.path().join("config.yaml"), text).unwrap();
        let checked = crawlspace(folder.path(), "config check config.yaml").exits(0);
        assert_eq!(checked.out, "OK\n");
        let note = "config.yaml: note: hosts is not set: ";
        assert_eq!(
            checked.errors.starts_with(note),
            noted,
            "{}",
            checked.errors
        );
    }
}

#[test]
fn no_part_of_a_password_is_printed() {
    let folder = tempfile::tempdir().unwrap();
    for url in [
        "redis://u:12/hidden@127.0.0.1:1/0/k",
        "redis://:hidden/x@127.0.0.1:1/0/k",
        "redis://:hidden?x@127.0.0.1:1/0/k",
        "redis://:hidden#x@127.0.0.1:1/0/k",
        "redis://:hidden%2Fx@127.0.0.1:1/0/k",
        "redis://hidden@127.0.0.1:1/0/k",
    ] {
        let text = format!("collections: {{a: {{index: '{url}', resource: ./}}}}\n");
        std::fs::write(folder.path().join("config.yaml"), text).unwrap();
        for words in ["config check config.yaml", "config show config.yaml"] {
            let seen = crawlspace(folder.path(), words);
            assert_lacks(&seen.out, "hidden");
            assert_lacks(&seen.errors, "hidden");
        }
    }
}

#[test]
fn shown_configuration_is_equivalent_and_hides_passwords() {
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
