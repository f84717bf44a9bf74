//! Checks that docs/guide/metrics.md lists the exported metrics.

use std::collections::{BTreeMap, BTreeSet};

use redis_tests::http::get;

use super::{cells, read};
use crate::index_cache::stage::Stage as Archive;
use crate::serving::Stage;

/// Panics unless the section of the page has exactly one row for each metric in the text: name, labels, type and help
/// text.
pub(crate) fn must_be_listed(section: &str, text: &str) {
    let mut labels: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, rest)) = line.split_once('{') else {
            continue;
        };
        let (of, _) = rest.rsplit_once('}').expect("an end of labels");
        // No label value in these texts contains `",`.
        let keys = of
            .split("\",")
            .filter_map(|label| Some(label.split_once('=')?.0));
        labels.entry(name).or_default().extend(keys);
    }
    let mut expected = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, help) = line.split_once(' ').expect("a meaning");
        let kind = format!("# TYPE {name} ");
        let kind = text
            .lines()
            .find_map(|line| line.strip_prefix(&kind))
            .expect("a kind");
        let of = labels
            .get(name)
            .or_else(|| labels.get(&*format!("{name}_count")));
        let labels: Vec<String> = of
            .into_iter()
            .flatten()
            .map(|label| format!("`{label}`"))
            .collect();
        expected.push(format!(
            "| `{name}` | {} | {kind} | {help} |",
            labels.join(" ")
        ));
    }
    let page = read("docs/guide/metrics.md");
    let (_, rest) = page
        .split_once(&format!("\n## {section}\n"))
        .expect(section);
    let rows = rest.split("\n## ").next().expect("a section").lines();
    let rows: Vec<&str> = rows
        .filter(|row| row.starts_with("| `crawlspace_"))
        .collect();
    // Metrics without a sample have no labels in the text.
    let is_listed = |row: &String| {
        let [name, labels, kind, help] = cells(row)[..] else {
            panic!("{row}")
        };
        rows.iter().any(|listed| {
            let listed = cells(listed);
            listed[0] == name
                && (labels.is_empty() || listed[1] == labels)
                && listed[2..] == [kind, help]
        })
    };
    let missing: Vec<&String> = expected.iter().filter(|row| !is_listed(row)).collect();
    assert!(
        missing.is_empty() && rows.len() == expected.len(),
        "{section}: not {}",
        expected.join("\n")
    );
}

#[test]
fn guide_lists_the_metrics_of_serve() {
    let archive = Archive::of([]);
    let server = Stage::start(&format!(
        "indexes:\n  cache_dir: {}\n  metadata: {}\n\
         collections: {{a: {{index_group: {{b: ./none}}, resource: ./none}}}}\n",
        archive.cache().display(),
        archive.metadata().display()
    ));
    get(server.address(), "/a/index?url=example.com");
    let text = get(server.operator(), "/_metrics").text();
    must_be_listed("crawlspace serve", &text);
}
