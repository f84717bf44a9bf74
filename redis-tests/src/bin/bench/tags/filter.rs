//! T1: what filtering costs a capture, against what archives do without tags.

use std::collections::BTreeMap;

use redis_tests::{Options, Server};

use super::corpus::{Archive, Capture};
use super::peer::{Outcome, Peer};
use super::space::{self, cost, cost_of_one};
use crate::Plan;
use crate::load::Connection;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, time};

/// Captures in a batch, also of the peer's.
pub const BATCH: u64 = 10_000;
/// Captures of an ordinary query.
const QUERY: u64 = 100;

/// A question, and who else is asked it.
struct Case {
    id: &'static str,
    what: &'static str,
    conditions: Vec<Vec<u8>>,
    peer: Option<Theirs>,
    captures: u64,
    line: fn(&Capture, &mut String),
    /// Nanoseconds a capture, where there is a limit.
    limit: Option<f64>,
}

/// A method of the Java program.
struct Theirs {
    against: &'static str,
    method: String,
}

/// What was measured of a case, a figure for each repetition.
#[derive(Default)]
struct Figures {
    server: Series,
    seen: Series,
    theirs: Series,
    /// Seconds of the first call, and of the peer to build its filter.
    first: Series,
    build: Series,
}

/// Measures all cases.
pub fn measure(plan: &Plan, archive: &Archive, peer: Option<&Peer>) -> Findings {
    let calls = if plan.quick { 10 } else { 40 };
    let mut figures: Vec<Figures> = Vec::new();
    for rep in 1..=plan.reps {
        say(&format!("T1: filters ({rep}/{})", plan.reps));
        let server = Options::new().start();
        space::fill(&server, archive);
        let mut runs = BTreeMap::new();
        let cases = cases(archive, rep as u64);
        figures.resize_with(cases.len(), Figures::default);
        for (case, figures) in cases.iter().zip(&mut figures) {
            let kept = case.measure(&server, archive, calls, figures);
            if let (Some(theirs), Some(peer)) = (&case.peer, peer) {
                let rounds = if plan.quick { 1 } else { 5 };
                let run = runs
                    .entry(theirs.method.clone())
                    .or_insert_with(|| peer.run(&theirs.method, rounds));
                figures.compare(&kept, run, case.what);
            }
        }
    }
    findings(&cases(archive, 0), &figures)
}

impl Case {
    /// Adds what it costs to the figures; which captures are kept.
    fn measure(
        &self,
        server: &Server,
        archive: &Archive,
        calls: usize,
        figures: &mut Figures,
    ) -> Vec<u8> {
        let blob = archive.blob(self.captures, self.line);
        let conditions: Vec<&[u8]> = self.conditions.iter().map(Vec::as_slice).collect();
        let request = space::filter(&conditions, &blob);
        let (first, _) = cost_of_one(server, &mut Connection::unix(server), &request);
        let (cost, bits) = cost(server, &request, calls);
        let each = |seconds: f64| seconds * 1e9 / self.captures as f64;
        figures.server.0.push(each(cost.server));
        figures.seen.0.push(each(cost.seen));
        figures.first.0.push(first.server);
        bits
    }
}

impl Figures {
    fn compare(&mut self, ours: &[u8], theirs: &Outcome, what: &str) {
        assert!(
            ours == theirs.kept,
            "{what}: ours keeps {} captures, the peer {}, and they are not the same",
            space::kept(ours),
            space::kept(&theirs.kept)
        );
        self.theirs.0.push(theirs.each);
        self.build.0.push(theirs.build / 1e9);
    }
}

/// The questions; long ones in the order of this number.
fn cases(archive: &Archive, order: u64) -> Vec<Case> {
    let organisation = archive.collections[0].organisation;
    let collections = archive.alternatives(order);
    let case = |id, what, conditions: &[&str], peer| Case {
        id,
        what,
        conditions: conditions
            .iter()
            .chain(&["FORMAT", "CDX", "RETURN", "BITS"])
            .map(|word| word.as_bytes().to_vec())
            .collect(),
        peer,
        captures: BATCH,
        line: Capture::cdx,
        limit: None,
    };
    let plugin = |of: &str| {
        Some(Theirs {
            against: "the seed's plugin in Java",
            method: format!("plugin-{of}"),
        })
    };
    let regex = |of: &str, against| {
        Some(Theirs {
            against,
            method: format!("regex-{of}"),
        })
    };
    let all = &["POINT", "all"];
    let ten_thousand = "Java regex of 10 000 alternatives";
    let mut cdxj = case(
        "",
        "all public, CDXJ lines",
        &["POINT", "all"],
        plugin("all"),
    );
    cdxj.line = Capture::cdxj;
    cdxj.conditions[3] = b"CDXJ".to_vec();
    vec![
        Case {
            limit: Some(100.0),
            ..case("T1", "all public", all, plugin("all"))
        },
        case(
            "T1",
            "all public",
            all,
            regex("public", "Java regex of all that are public"),
        ),
        case(
            "T1",
            "any of 10 000 collections, by tag: `coll:*`",
            &["WHERE", "coll:*"],
            regex("all", ten_thousand),
        ),
        case(
            "T1",
            "the same, by `FILTER tag.coll:` of 10 000 values",
            &["FILTER", &format!("tag.coll:{collections}")],
            regex("all", ten_thousand),
        ),
        case(
            "T1",
            "the same, by `FILTER filename:` with a regex of 10 000 alternatives",
            &[
                "FILTER",
                &format!("filename:(.*/)?ARCHIVEIT-({collections})-.*"),
            ],
            regex("all", ten_thousand),
        ),
        case(
            "",
            "one organisation",
            &["POINT", &format!("org-{organisation}")],
            plugin(&format!("org:{organisation}")),
        ),
        cdxj,
        Case {
            captures: QUERY,
            ..case("", "all public, 100 captures a call", all, None)
        },
    ]
}

/// Cases whose first call has something to compile: tags of a list, and a regex.
const COMPILED: std::ops::Range<usize> = 3..5;

fn findings(cases: &[Case], figures: &[Figures]) -> Findings {
    let mut found = Findings::default();
    let nanos = |each: f64| match each {
        n if n >= 10_000.0 => format!("{:.1} µs", n / 1e3),
        n => format!("{n:.0} ns"),
    };
    for (case, of) in cases.iter().zip(figures) {
        let ratio = of.theirs.over(&of.server);
        let (result, goal) = match case.limit {
            Some(limit) => (of.server.clone(), Goal::AtMost(limit, "ns")),
            None => (ratio, Goal::Known),
        };
        found.rows.push(Row {
            id: case.id,
            what: case.what.into(),
            against: case.peer.as_ref().map_or("–", |p| p.against).into(),
            ours: format!(
                "{} ({})",
                nanos(of.server.median()),
                nanos(of.seen.median())
            ),
            theirs: if of.theirs.0.is_empty() {
                String::new()
            } else {
                nanos(of.theirs.median())
            },
            result,
            goal,
        });
    }
    for (case, of) in cases[COMPILED].iter().zip(&figures[COMPILED]) {
        let what = case.what.replace("the same, by", "the first call of");
        found.rows.push(Row {
            id: "",
            what,
            against: "building the Java regex".into(),
            ours: time(of.first.median()),
            theirs: if of.build.0.is_empty() {
                String::new()
            } else {
                time(of.build.median())
            },
            result: of.build.over(&of.first),
            goal: Goal::Known,
        });
    }
    let each = |case: usize| nanos(figures[case].server.median());
    found.note("T1.", format!(
        "The unit is a capture; in parentheses is what the client waited, sending and receiving included. A `FILTER` takes {} \
         for it: it splits the line, runs the rule's regex over the file name, finds the collection's tags and what they \
         carry, and asks the point. The plugin does the least that can be done: a regex, a number and a bit, on a file name \
         that lies there already, in a process that knows nothing but collections; to toggle, it has to be told, which is \
         not counted. The regex tries alternative after alternative, and most of all where nothing fits. Every peer keeps the \
         same captures as ours, bit for bit; one in twenty has a name that no rule knows, and nobody keeps it.",
        each(0),
    ), &["make bench ONLY=T1", "redis-cli INFO commandstats | grep tags.filter"]);
    found.note("T1, long lists.", format!(
        "For clients that go on sending lists: values of `tag.coll:` are looked up in a table ({}), and a regex of 10 000 \
         alternatives becomes an automaton that reads each byte of the name once, whatever the number of alternatives ({}). \
         Both are compiled at the first call and remembered. A query of 100 captures costs {} each: the call itself is shared \
         by fewer.",
        each(3), each(4), each(7),
    ), &["make bench ONLY=T1"]);
    found
}
