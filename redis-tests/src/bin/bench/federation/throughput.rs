//! F1, F2 and F3: requests per second.

use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Instant;

use redis_tests::http::get;

use super::corpus::{Corpus, PREFIX_ROWS};
use super::serving::{Ours, Peer};
use super::upstream::{ROWS, Upstream};
use super::wrk;
use crate::Plan;
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, rate};
use crate::targets;

/// A kind of request.
struct Case {
    id: &'static str,
    what: String,
    targets: Vec<String>,
    /// Number of lines of a response; `None` if the response is a record.
    rows: Option<usize>,
    goal: Goal,
}

#[derive(Default)]
struct Figures {
    ours: Series,
    busy: Series,
    theirs: Series,
}

/// Measures all three.
pub fn measure(plan: &Plan, corpus: &Corpus, peer: Option<&Peer>) -> Findings {
    let upstream = Upstream::start();
    let config = format!("{}{}", corpus.config(), upstream.config());
    let ours = Ours::start(&corpus.path(""), &config);
    let theirs = peer.map(|peer| peer.start(&config));
    let wanted = cases(corpus).into_iter().filter(|case| plan.wants(case.id));
    let cases: Vec<Case> = wanted.collect();
    let mut figures: Vec<Figures> = Vec::new();
    figures.resize_with(cases.len(), Figures::default);
    let mut addresses = vec![ours.address()];
    addresses.extend(theirs.as_ref().map(|running| running.address()));
    for case in &cases {
        case.check(&addresses);
    }
    for rep in 1..=plan.reps {
        for (case, figures) in cases.iter().zip(&mut figures) {
            say(&format!("{}: {} ({rep}/{})", case.id, case.what, plan.reps));
            let (span, folder) = (wrk::span(plan), corpus.path(""));
            let rate = |address| wrk::rate(&folder, address, &case.targets, span);
            let before = ours.cpu();
            figures.ours.push(rate(ours.address()));
            figures
                .busy
                .push((ours.cpu() - before) / span.as_secs_f64());
            if let Some(theirs) = &theirs {
                figures.theirs.push(rate(theirs.address()));
            }
        }
    }
    let mut found = findings(&cases, &figures);
    if cases.iter().any(|case| case.rows.is_none()) {
        note!(found, "record.md"; unpacking = unpacking(corpus));
    }
    found
}

/// Returns how many microseconds the decompression of a record takes alone.
fn unpacking(corpus: &Corpus) -> f64 {
    let packed =
        std::fs::read(corpus.path("warcs/records.warc.gz")).expect("the records are there");
    let (mut rest, mut record) = (&packed[..], Vec::new());
    let begun = Instant::now();
    while !rest.is_empty() {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        record.clear();
        member
            .read_to_end(&mut record)
            .expect("the records are whole");
        rest = member.into_inner();
    }
    begun.elapsed().as_secs_f64() * 1e6 / corpus.records.len() as f64
}

fn cases(corpus: &Corpus) -> Vec<Case> {
    let index = |collection: &str, urls: &[String], star: &str| -> Vec<String> {
        let target = |url: &String| format!("/{collection}/index?url={url}{star}");
        urls.iter().map(target).collect()
    };
    let page = |page| format!("http://example.com/page/{page}");
    let pages: Vec<String> = (0..1_000).map(page).collect();
    let record = |url: &String| format!("/local/resource?url={url}");
    let kilobytes = corpus.record_bytes() as f64 / 1e3;
    let prefix_rows = PREFIX_ROWS as usize;
    Vec::from(redis_tests::rows![
        "F1", "index query, local CDXJ, 1 row".into(), index("local", &corpus.singles, ""), Some(1), targets::INDEX_QUERY;
        "F2", format!("index query, prefix, {PREFIX_ROWS} rows"), index("local", &corpus.prefixes, "*"),
            Some(prefix_rows), targets::PREFIX_QUERY;
        "F2", format!("index query, group of 3 remote sources, {ROWS} rows each"), index("group", &pages, ""),
            Some(3 * ROWS), targets::GROUP_QUERY;
        "F3", format!("resource, record of {kilobytes:.1} kB"), corpus.records.iter().map(record).collect(), None, targets::RESOURCE;
    ].map(|(id, what, targets, rows, goal)| Case { id, what, targets, rows, goal }))
}

impl Case {
    /// Checks that some responses are correct, and equal on both servers.
    fn check(&self, addresses: &[SocketAddr]) {
        for target in self.targets.iter().step_by(self.targets.len() / 3) {
            let answers = addresses.iter().map(|address| {
                let answer = get(*address, target);
                let text = answer.text();
                assert_eq!(answer.status, 200, "{address}{target}: {text}");
                let right = match self.rows {
                    Some(rows) => text.lines().count() == rows,
                    None => text.starts_with("WARC/1."),
                };
                assert!(right, "{address}{target}: {text}");
                self.gist(&text)
            });
            let answers: Vec<Vec<String>> = answers.collect();
            for other in &answers[1..] {
                assert_eq!(*other, answers[0], "{target}: both answer the same");
            }
        }
    }

    /// Returns the part of a response that must be equal on both servers: urlkey, timestamp and
    /// digest of each row, or the body of the HTTP response in the record.
    fn gist(&self, text: &str) -> Vec<String> {
        if self.rows.is_none() {
            let body = text.splitn(3, "\r\n\r\n").nth(2).unwrap_or_default();
            return vec![body.trim_end().to_owned()];
        }
        let row = |line: &str| {
            let (place, json) = line.split_once(" {").unwrap_or_default();
            let (_, digest) = json.split_once("\"digest\":").unwrap_or_default();
            let digest = digest.trim_start().split(',').next().unwrap_or_default();
            assert!(!digest.is_empty(), "a row without a digest: {line}");
            format!("{place} {digest}")
        };
        text.lines().map(row).collect()
    }
}

fn findings(cases: &[Case], figures: &[Figures]) -> Findings {
    let mut found = Findings::default();
    for (Case { id, what, goal, .. }, figures) in cases.iter().zip(figures) {
        let (ours, theirs, busy) = (&figures.ours, &figures.theirs, figures.busy.median());
        let goal = if theirs.0.is_empty() {
            Goal::Known
        } else {
            *goal
        };
        table! { found;
            *id, what, "pywb, 2 workers", format!("{} (busy {busy:.1})", ours.shown(rate)), theirs.shown(rate),
                ours.over(theirs), goal;
        }
        let micros = |series: &Series| 1e6 / series.median();
        note!(found, "throughput.md";
            id = id, what = what, cost = busy * micros(ours), ours = micros(ours), theirs = micros(theirs));
    }
    found
}
