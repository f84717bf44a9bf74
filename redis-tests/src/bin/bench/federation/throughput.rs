//! F1, F2 and F3: requests a second.

use std::net::SocketAddr;

use redis_tests::http::get;

use super::corpus::{Corpus, PREFIX_ROWS};
use super::serving::{Ours, Peer};
use super::upstream::{ROWS, Upstream};
use super::wrk;
use crate::Plan;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, rate};

/// A kind of request.
struct Case {
    id: &'static str,
    what: String,
    targets: Vec<String>,
    /// How many lines an answer has; `None` for a record.
    rows: Option<usize>,
    goal: f64,
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
    let cases: Vec<Case> = cases(corpus)
        .into_iter()
        .filter(|case| plan.wants(&[case.id]))
        .collect();
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
            let span = wrk::span(plan);
            let folder = corpus.path("");
            let before = ours.cpu();
            figures
                .ours
                .0
                .push(wrk::rate(&folder, ours.address(), &case.targets, span));
            figures
                .busy
                .0
                .push((ours.cpu() - before) / span.as_secs_f64());
            if let Some(theirs) = &theirs {
                figures
                    .theirs
                    .0
                    .push(wrk::rate(&folder, theirs.address(), &case.targets, span));
            }
        }
    }
    findings(&cases, &figures)
}

fn cases(corpus: &Corpus) -> Vec<Case> {
    let index = |collection: &str, urls: &[String], star: &str| -> Vec<String> {
        let target = |url: &String| format!("/{collection}/index?url={url}{star}");
        urls.iter().map(target).collect()
    };
    let pages: Vec<String> = (0..1_000)
        .map(|page| format!("http://example.com/page/{page}"))
        .collect();
    vec![
        Case {
            id: "F1",
            what: "index query, local CDXJ, 1 row".into(),
            targets: index("local", &corpus.singles, ""),
            rows: Some(1),
            goal: 10.0,
        },
        Case {
            id: "F2",
            what: format!("index query, prefix, {PREFIX_ROWS} rows"),
            targets: index("local", &corpus.prefixes, "*"),
            rows: Some(PREFIX_ROWS as usize),
            goal: 20.0,
        },
        Case {
            id: "F2",
            what: format!("index query, group of 3 remote sources, {ROWS} rows each"),
            targets: index("group", &pages, ""),
            rows: Some(3 * ROWS),
            goal: 20.0,
        },
        Case {
            id: "F3",
            what: format!(
                "resource, record of {:.1} kB",
                corpus.record_bytes() as f64 / 1e3
            ),
            targets: corpus
                .records
                .iter()
                .map(|url| format!("/local/resource?url={url}"))
                .collect(),
            rows: None,
            goal: 10.0,
        },
    ]
}

impl Case {
    /// Some answers must be what they should be, and the same from both.
    fn check(&self, addresses: &[SocketAddr]) {
        for target in self.targets.iter().step_by(self.targets.len() / 3) {
            let answers = addresses.iter().map(|address| {
                let answer = get(*address, target);
                let text = answer.text();
                assert_eq!(answer.status, 200, "{address}{target}: {text}");
                match self.rows {
                    Some(rows) => {
                        assert_eq!(text.lines().count(), rows, "{address}{target}: {text}")
                    }
                    None => assert!(text.starts_with("WARC/1."), "{address}{target}: {text}"),
                }
                self.gist(&text)
            });
            let answers: Vec<Vec<String>> = answers.collect();
            for other in &answers[1..] {
                assert_eq!(*other, answers[0], "{target}: both answer the same");
            }
        }
    }

    /// What both must say: urlkey, timestamp and digest of each row, or the body of the answer in the record.
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
    for (case, figures) in cases.iter().zip(figures) {
        let there = !figures.theirs.0.is_empty();
        let busy = figures.busy.median();
        found.rows.push(Row {
            id: case.id,
            what: case.what.clone(),
            against: "pywb, 2 workers".into(),
            ours: format!("{} (busy {busy:.1})", rate(figures.ours.median())),
            theirs: if there {
                rate(figures.theirs.median())
            } else {
                String::new()
            },
            result: figures.ours.over(&figures.theirs),
            goal: if there {
                Goal::AtLeast(case.goal)
            } else {
                Goal::Known
            },
        });
        let each = |rate: f64| 1e6 / rate;
        let cost = 1e6 * busy / figures.ours.median();
        let text = format!(
            "{}: a request costs {cost:.0} µs of processor here, and comes every {:.0} µs; pywb's comes every {:.0} µs.",
            case.what,
            each(figures.ours.median()),
            each(figures.theirs.median()),
        );
        found.note(
            &format!("{}.", case.id),
            text,
            &[&format!("make bench ONLY={}", case.id)],
        );
    }
    found
}
