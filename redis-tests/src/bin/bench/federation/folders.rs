//! U4: duration of a query for one URL in a folder of many files.

use std::path::Path;
use std::time::Duration;

use redis_tests::archive::store_in;
use redis_tests::http::get;

use super::corpus::Corpus;
use super::packages::blocks;
use super::serving::Ours;
use super::wrk;
use crate::Plan;
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped};
use crate::targets;

/// Captures per file.
const CAPTURES: u64 = 1000;
/// Number of queried URLs.
const URLS: u64 = 200;

/// Measures the queries.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    let mut found = Findings::default();
    for (what, single, is_packed, count, goal) in [
        (
            "packages",
            "one package",
            true,
            1000,
            targets::MANY_PACKAGES,
        ),
        (
            "CDX files",
            "one CDX file",
            false,
            2000,
            targets::MANY_FILES,
        ),
    ] {
        let count = plan.scaled(count);
        let [one, many] = ["one", "many"].map(|name| corpus.path(&format!("{name}-{is_packed}")));
        write(&one, 1, is_packed);
        write(&many, count, is_packed);
        let source = |path: &Path| {
            if is_packed {
                format!("wacz+{}", path.display())
            } else {
                format!("{{index: {0}, resource: {0}}}", path.display())
            }
        };
        let config = format!(
            "collections:\n  one: {}\n  many: {}\n",
            source(&one),
            source(&many)
        );
        let ours = Ours::start(&corpus.path(""), &config);
        let targets = |collection: &str, count: u64| -> Vec<String> {
            let url = |n: u64| url(n % count, n * 7 % CAPTURES);
            let target = |url: String| format!("/{collection}/index?url={url}&nosource=true");
            (0..URLS).map(|n| target(url(n * 13))).collect()
        };
        let [one, many] = [targets("one", 1), targets("many", count)];
        for target in one.iter().chain(&many) {
            let answer = get(ours.address(), target);
            let lines = answer.body.split(|byte| *byte == b'\n').count() - 1;
            assert_eq!((answer.status, lines), (200, 1), "{target}");
        }
        settle(&ours);
        // The server lists the folder once a second. After that, it uses its cached data about the
        // files.
        get(ours.address(), &many[0]);
        let [mut in_many, mut in_one] = [(); 2].map(|()| Series::default());
        for rep in 1..=plan.reps {
            say(&format!(
                "U4: {} {what} ({rep}/{})",
                grouped(count),
                plan.reps
            ));
            let (span, folder) = (wrk::span(plan), corpus.path(""));
            let run = |targets: &[String]| {
                let before = ours.cpu();
                let rate = wrk::rate(&folder, ours.address(), targets, span);
                (ours.cpu() - before) / span.as_secs_f64() / rate * 1e6
            };
            in_many.push(run(&many));
            in_one.push(run(&one));
        }
        let micros = |cost: f64| format!("{cost:.0} µs");
        table! { found;
            "U4", format!("index query, 1 row, in a folder of {} {what}: processor time", grouped(count)), single,
                in_many.shown(micros), in_one.shown(micros), in_many.over(&in_one), goal;
        }
    }
    note!(found, "folders.md"; captures = grouped(CAPTURES));
    found
}

/// Waits until the server has read the files of the folder in the background.
fn settle(ours: &Ours) {
    let mut before = f64::NEG_INFINITY;
    while ours.cpu() - before > 0.02 {
        before = ours.cpu();
        std::thread::sleep(Duration::from_secs(2));
    }
}

fn url(file: u64, capture: u64) -> String {
    let site = (file * 7 + capture) % 500;
    format!("http://site{site}.example.com/{file}/page-{capture:05}")
}

/// Writes `count` indexes into a folder, as WACZ packages or CDXJ files.
fn write(folder: &Path, count: u64, is_packed: bool) {
    std::fs::create_dir_all(folder).expect("the folder is writable");
    for file in 0..count {
        let line = |capture: u64| {
            let url = url(file, capture);
            let (host, path) = url["http://".len()..].split_once('/').unwrap_or_default();
            let host = host.split('.').rev().collect::<Vec<_>>().join(",");
            format!(
                "{host})/{path} 20200101000000 {{\"url\": \"{url}\", \"mime\": \"text/html\", \"status\": \"200\", \
                 \"digest\": \"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A\", \"length\": \"1234\", \"offset\": \"{}\", \
                 \"filename\": \"{file}.warc.gz\"}}",
                capture * 1234
            )
        };
        let mut lines: Vec<String> = (0..CAPTURES).map(line).collect();
        lines.sort_unstable();
        if !is_packed {
            let path = folder.join(format!("{file:04}.cdxj"));
            std::fs::write(path, lines.join("\n") + "\n").expect("the folder is writable");
            continue;
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let (packed, secondary) = blocks(&lines);
        let members: [(&str, &[u8]); 3] = [
            ("indexes/index.cdx.gz", &packed),
            ("indexes/index.idx", secondary.as_bytes()),
            (
                "datapackage.json",
                b"{\"profile\": \"data-package\", \"resources\": []}",
            ),
        ];
        store_in(&folder.join(format!("{file:04}.wacz")), &members);
    }
}
