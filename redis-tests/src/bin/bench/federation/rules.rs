//! U3: time that a million access rules add to a query.

use std::fmt::Write as _;

use redis_tests::http::get;

use super::corpus::{Corpus, PREFIX_ROWS};
use super::serving::Ours;
use super::wrk;
use crate::Plan;
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped, rate};
use crate::targets;

/// Number of rules in the file.
const RULES: u64 = 1_000_000;

/// Measures queries with and without the rules.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    let rules = write(plan, corpus);
    let dir = corpus.path("");
    let dir = dir.display();
    let config = format!(
        "collections:\n\
         \x20 open: {{index: {dir}/index.cdxj}}\n\
         \x20 ruled: {{index: {dir}/index.cdxj, acl_paths: {dir}/rules.aclj}}\n"
    );
    let ours = Ours::start(&corpus.path(""), &config);
    let targets = |collection: &str, urls: &[String], star: &str| -> Vec<String> {
        let target = |url: &String| format!("/{collection}/index?url={url}{star}&nosource=true");
        urls.iter().map(target).collect()
    };
    let mut found = Findings::default();
    for (what, urls, star, rows, goal) in [
        (
            "a prefix query",
            &corpus.prefixes,
            "*",
            PREFIX_ROWS,
            targets::RULES_ROW,
        ),
        (
            "an index query",
            &corpus.singles,
            "",
            1,
            targets::RULES_QUERY,
        ),
    ] {
        let [ruled, open] = ["ruled", "open"].map(|one| targets(one, urls, star));
        for (one, other) in ruled.iter().zip(&open).step_by(urls.len() / 3) {
            let [one, other] = [one, other].map(|target| get(ours.address(), target));
            assert_eq!(
                (one.status, &one.body),
                (200, &other.body),
                "every row is allowed"
            );
        }
        let [mut with, mut without, mut cost] = [(); 3].map(|()| Series::default());
        for rep in 1..=plan.reps {
            say(&format!("U3: {what} ({rep}/{})", plan.reps));
            let (span, folder) = (wrk::span(plan), corpus.path(""));
            let run = |targets: &[String]| {
                let before = ours.cpu();
                let rate = wrk::rate(&folder, ours.address(), targets, span);
                (rate, (ours.cpu() - before) / span.as_secs_f64() / rate)
            };
            let (ruled, open) = (run(&ruled), run(&open));
            with.push(ruled.0);
            without.push(open.0);
            cost.push((ruled.1 - open.1) / rows as f64 * 1e9);
        }
        table! { found;
            "U3", format!("{} access rules, {what} with {rows} rows: time added per row", grouped(rules)), "no rules",
                with.shown(rate), without.shown(rate), &cost, goal;
        }
    }
    note!(found, "rules.md"; rules = grouped(rules));
    found
}

/// Writes a rule for each row of the index, which allows its urlkey, and more rules, which exclude
/// other sites. Returns the number of rules.
fn write(plan: &Plan, corpus: &Corpus) -> u64 {
    let rules = plan.scaled(RULES);
    let index = std::fs::read_to_string(corpus.path("index.cdxj"));
    let index = index.expect("the file was written before");
    let mut text = String::new();
    let mut near = 0;
    for line in index.lines() {
        let key = line.split(' ').next().unwrap_or_default();
        // One rule in eight has a prefix of urlkeys; all other rules have an exact urlkey.
        let end = if near % 8 == 0 { "" } else { "###" };
        let _ = writeln!(text, "{key}{end} - {{\"access\": \"allow\"}}");
        near += 1;
    }
    for number in near..rules {
        let _ = writeln!(text, "org,archive-{number})/ - {{\"access\": \"exclude\"}}");
    }
    corpus.write("rules.aclj", &text);
    near.max(rules)
}
