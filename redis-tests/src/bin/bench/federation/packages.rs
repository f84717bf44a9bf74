//! U2: a WACZ file compared with the same content in plain files.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

use flate2::write::GzEncoder;
use redis_tests::archive::store_in;
use redis_tests::http::get;

use super::corpus::Corpus;
use super::serving::Ours;
use super::wrk;
use crate::Plan;
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped, rate};
use crate::targets;

/// Approximate number of rows in the package's index: the rows of the records and some other rows.
const ROWS: usize = 40_000;
/// Number of rows per block, as the tools of the format write them.
const BLOCK: usize = 1024;

/// Measures both forms.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    let (rows, urls) = pack(corpus);
    let dir = corpus.path("");
    let dir = dir.display();
    let config = format!(
        "collections:\n\
         \x20 plain: {{index: {dir}/package.cdxj, resource: {dir}/warcs}}\n\
         \x20 packed: {dir}/package.wacz\n"
    );
    let ours = Ours::start(&corpus.path(""), &config);
    let targets = |collection: &str, api: &str, urls: &[String]| -> Vec<String> {
        let target = |url: &String| format!("/{collection}/{api}?url={url}&nosource=true");
        urls.iter().map(target).collect()
    };
    let mut found = Findings::default();
    for (what, api, urls) in [
        ("index query in a local WACZ, 1 row", "index", &urls),
        ("resource of a local WACZ", "resource", &corpus.records),
    ] {
        let [packed, plain] = ["packed", "plain"].map(|one| targets(one, api, urls));
        for (one, other) in packed.iter().zip(&plain).step_by(urls.len() / 3) {
            let [one, other] = [one, other].map(|target| get(ours.address(), target));
            assert_eq!(
                (one.status, &one.body),
                (200, &other.body),
                "{api}: both answer the same"
            );
        }
        let (mut in_package, mut in_files) = (Series::default(), Series::default());
        for rep in 1..=plan.reps {
            say(&format!("U2: {what} ({rep}/{})", plan.reps));
            let (span, folder) = (wrk::span(plan), corpus.path(""));
            in_package.push(wrk::rate(&folder, ours.address(), &packed, span));
            in_files.push(wrk::rate(&folder, ours.address(), &plain, span));
        }
        table! { found;
            "U2", what, "the same CDXJ and WARC as files", in_package.shown(rate), in_files.shown(rate),
                in_package.over(&in_files), targets::PACKAGE;
        }
    }
    note!(found, "packages.md"; rows = grouped(rows), block = BLOCK);
    found
}

/// Writes a part of the index as a file, and a package with the same rows and the records. Returns
/// the number of rows, and URLs that have only one row.
fn pack(corpus: &Corpus) -> (u64, Vec<String>) {
    let read = |path: PathBuf| std::fs::read(path).expect("the file was written before");
    let text = String::from_utf8(read(corpus.path("index.cdxj"))).expect("the index is UTF-8");
    let every = text.lines().count().div_ceil(ROWS);
    let lines = text.lines().enumerate();
    let lines: Vec<&str> = lines
        .filter(|(number, line)| number % every == 0 || line.contains("\"records.warc.gz\""))
        .map(|(_, line)| line)
        .collect();
    let url = |line: &&str| {
        Some(
            line.split("\"url\": \"")
                .nth(1)?
                .split('"')
                .next()?
                .to_owned(),
        )
    };
    let urls: Vec<String> = lines.iter().step_by(10).filter_map(url).collect();
    let (packed, secondary) = blocks(&lines);
    let plain = lines.join("\n") + "\n";
    std::fs::write(corpus.path("package.cdxj"), plain).expect("the folder is writable");
    let records = read(corpus.path("warcs/records.warc.gz"));
    let members: [(&str, &[u8]); 4] = [
        ("archive/records.warc.gz", &records),
        ("indexes/index.cdx.gz", &packed),
        ("indexes/index.idx", secondary.as_bytes()),
        (
            "datapackage.json",
            b"{\"profile\": \"data-package\", \"resources\": []}",
        ),
    ];
    store_in(&corpus.path("package.wacz"), &members);
    (lines.len() as u64, urls)
}

/// Compresses an index in blocks. Returns the blocks and their secondary index.
pub(super) fn blocks(lines: &[&str]) -> (Vec<u8>, String) {
    let (mut packed, mut secondary) = (Vec::new(), String::new());
    let name = "index.cdx.gz";
    let _ = writeln!(
        secondary,
        "!meta 0 {{\"format\": \"cdxj-gzip-1.0\", \"filename\": \"{name}\"}}"
    );
    for block in lines.chunks(BLOCK) {
        let mut member = GzEncoder::new(Vec::new(), flate2::Compression::default());
        let text = block
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>();
        let written = member
            .write_all(text.as_bytes())
            .and_then(|()| member.finish());
        let member = written.expect("writing to memory cannot fail");
        let begin = block[0].split(" {").next().unwrap_or_default();
        let (offset, length) = (packed.len(), member.len());
        let _ = writeln!(
            secondary,
            "{begin} {{\"offset\": {offset}, \"length\": {length}, \"filename\": \"{name}\"}}"
        );
        packed.extend(member);
    }
    (packed, secondary)
}
