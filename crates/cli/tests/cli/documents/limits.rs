//! Checks that docs/limits.md has the values of the constants, and every limit of the commands.

use std::collections::BTreeSet;

use crawlspace_compact::limits;

use super::figures::{constant, spellings};
use super::{cells, read};

/// Limits documented elsewhere: a property of clusters, a part of another limit, settings in
/// docs/commands/README.md.
const ELSEWHERE: [&str; 5] = [
    "every::SLOTS",
    "chg::MAX_STEPS",
    "chg::LEASE_MS",
    "chg::ATTEMPTS",
    "chg::MAX_ATTEMPTS",
];

#[test]
fn table_has_the_values_of_the_constants() {
    let page = read("docs/limits.md");
    let rows: Vec<Vec<&str>> = page
        .lines()
        .map(cells)
        .filter(|row| row.len() == 5)
        .collect();
    let mut named = BTreeSet::new();
    let mut wrong = Vec::new();
    for row in rows.iter().filter(|row| row[4].starts_with('[')) {
        let [_, value, .., link] = row[..] else {
            unreachable!("five cells")
        };
        let (name, path) = link
            .strip_prefix("[`")
            .and_then(|link| link.strip_suffix(')')?.split_once("`](../"))
            .unwrap_or_else(|| panic!("{link} is not a link to a constant"));
        let expected = spellings(constant(path, name));
        if !expected.iter().any(|spelling| spelling == value) {
            wrong.push(format!("{path} {name}: {value}, not {expected:?}"));
        }
        named.insert(name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(rows.len() > 100, "{}", rows.len());
    for (family, all) in [
        ("every", limits::every::ALL),
        ("dedupe", limits::dedupe::ALL),
        ("chg", limits::chg::ALL),
        ("tags", limits::tags::ALL),
    ] {
        for (name, value) in all {
            let name = format!("{family}::{name}");
            let (parsed, _) = constant("crates/compact/src/limits.rs", &name);
            assert_eq!(parsed, *value, "{name}");
            let listed = named.contains(&*name) || ELSEWHERE.contains(&&*name);
            assert!(listed, "docs/limits.md has no {name}");
        }
    }
}

#[test]
fn release_page_lists_the_back_off_statuses() {
    let ranges = limits::chg::TROUBLE
        .iter()
        .map(|range| match range.clone().count() {
            1 => range.start().to_string(),
            _ => format!("{} to {}", range.start(), range.end()),
        });
    let ranges: Vec<String> = ranges.collect();
    let expected = format!("{} and a negative status indicate", ranges.join(", "));
    let page = read("docs/commands/chg.release.md").replace('\n', " ");
    assert!(page.contains(&expected), "{expected}");
}
