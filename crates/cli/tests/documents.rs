//! docs/dependencies.md names every direct dependency of every crate, and no other.

use std::collections::BTreeSet;
use std::path::Path;

/// The crates in the dependency sections of a manifest.
fn required(manifest: &str) -> BTreeSet<String> {
    let mut section = "";
    let mut crates = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
        } else if matches!(
            section,
            "[dependencies]" | "[dev-dependencies]" | "[build-dependencies]"
        ) {
            let name = line.split(['=', '.']).next().unwrap_or_default().trim();
            if !name.is_empty() && !name.starts_with('#') {
                crates.insert(name.to_owned());
            }
        }
    }
    crates
}

/// The crates in the table under the heading of one of ours.
fn documented(page: &str, ours: &str) -> BTreeSet<String> {
    let heading = format!("## `{ours}`");
    let lines = page
        .lines()
        .skip_while(|line| !line.starts_with(&heading))
        .skip(1);
    let table = lines.take_while(|line| !line.starts_with("## "));
    table
        .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned()))
        .collect()
}

#[test]
fn every_dependency_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let page = read("docs/dependencies.md");
    for (ours, manifest) in [
        ("crawlspace", "Cargo.toml"),
        ("crawlspace-host", "crates/host/Cargo.toml"),
        ("crawlspace-cdx", "crates/cdx/Cargo.toml"),
        ("crawlspace-client", "client/Cargo.toml"),
        ("redis-tests", "redis-tests/Cargo.toml"),
    ] {
        let required = required(&read(manifest));
        assert!(!required.is_empty(), "{manifest}");
        assert_eq!(
            required,
            documented(&page, ours),
            "{manifest} (left), docs/dependencies.md (right)"
        );
    }
}
