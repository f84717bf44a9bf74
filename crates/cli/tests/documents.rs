//! docs/dependencies.md names every direct dependency of every crate with those that use it, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Dependency → crates that use it: `module`, `client`, `archive (tests)`.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Adds the dependencies in the manifest of one crate.
fn add_required(manifest: &str, by: &str, uses: &mut Uses) {
    let mut section = "";
    let mut add = |name: &str, by: String| {
        uses.entry(name.to_owned()).or_default().insert(by);
    };
    let mut in_tests = Vec::new();
    let mut plain = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line.trim();
            continue;
        }
        let name = line.split(['=', '.']).next().unwrap_or_default().trim();
        if name.is_empty() || name.starts_with('#') {
            continue;
        }
        match section {
            "[dependencies]" | "[build-dependencies]" => {
                plain.insert(name);
                add(name, by.to_owned());
            }
            "[dev-dependencies]" => in_tests.push(name),
            _ => {}
        }
    }
    for name in in_tests {
        if !plain.contains(name) {
            add(name, format!("{by} (tests)"));
        }
    }
}

/// The tables of the page: the first column, and what the third one lists.
fn documented(page: &str) -> Uses {
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.filter_map(|row| {
        let (name, rest) = row.split_once('`')?;
        let used_by = rest.split(" | ").nth(2)?;
        let used_by = used_by.split(", ").map(str::to_owned).collect();
        Some((name.to_owned(), used_by))
    })
    .collect()
}

#[test]
fn every_dependency_has_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let mut uses = Uses::new();
    add_required(&read(&root.join("Cargo.toml")), "module", &mut uses);
    let mut folders = vec![root.join("client"), root.join("redis-tests")];
    let crates = std::fs::read_dir(root.join("crates")).unwrap();
    folders.extend(crates.map(|folder| folder.unwrap().path()));
    for folder in folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        add_required(&read(&folder.join("Cargo.toml")), &name, &mut uses);
    }
    assert!(uses.len() > 50, "{uses:?}");
    let documented = documented(&read(&root.join("docs/dependencies.md")));
    assert_eq!(uses, documented, "manifests (left), page (right)");
}
