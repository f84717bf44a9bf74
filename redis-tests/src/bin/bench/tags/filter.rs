//! T1: time to filter a capture, compared with the method of archives without tags.

use std::collections::BTreeMap;

use redis_tests::{Options, Server};

use super::corpus::{Archive, Capture};
use super::peer::{Outcome, Peer};
use super::space::{self, cost, cost_of_one};
use crate::Plan;
use crate::load::Connection;
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, time};
use crate::targets;

/// Number of captures per batch, for Crawlspace and for the peer.
pub const BATCH: u64 = 10_000;
/// Number of captures of an ordinary query.
const QUERY: u64 = 100;

/// A query, and the peer with which it is compared.
struct Case {
    id: &'static str,
    what: &'static str,
    /// Arguments. The last argument is the format of the lines.
    conditions: Vec<String>,
    /// Name of the peer, and the method of the Java program.
    peer: Option<(&'static str, String)>,
    captures: u64,
    line: fn(&Capture) -> String,
    /// Target for the time per capture, if there is one.
    target: Option<Goal>,
}

/// Measurements of a case, one for each repetition.
#[derive(Default)]
struct Figures {
    server: Series,
    seen: Series,
    theirs: Series,
    /// Duration of the first call in seconds, and time of the peer to build its filter.
    first: Series,
    build: Series,
}

/// Measures all cases.
pub fn measure(plan: &Plan, archive: &Archive, peer: Option<&Peer>) -> Findings {
    let calls = if plan.quick { 10 } else { 40 };
    let mut figures: Vec<Figures> = Vec::new();
    for rep in plan.repeat("T1: filters") {
        let server = Options::new().start();
        space::fill(&server, archive);
        let mut runs = BTreeMap::new();
        let cases = cases(archive, rep as u64);
        figures.resize_with(cases.len(), Figures::default);
        for (case, figures) in cases.iter().zip(&mut figures) {
            let kept = case.measure(&server, archive, calls, figures);
            if let (Some((_, method)), Some(peer)) = (&case.peer, peer) {
                let rounds = if plan.quick { 1 } else { 5 };
                let run = || peer.run(method, rounds);
                figures.compare(
                    &kept,
                    runs.entry(method.clone()).or_insert_with(run),
                    case.what,
                );
            }
        }
    }
    findings(&cases(archive, 0), &figures)
}

impl Case {
    /// Measures a case once. Returns bits for the captures that pass.
    fn measure(
        &self,
        server: &Server,
        archive: &Archive,
        calls: usize,
        to: &mut Figures,
    ) -> Vec<u8> {
        let blob = archive.blob(self.captures, self.line);
        let conditions = [&self.conditions[..], &["RETURN".to_owned()]].concat();
        let request = space::filter(&conditions, "BITS", &blob);
        let (first, _) = cost_of_one(server, &mut Connection::unix(server), &request);
        let (cost, bits) = cost(server, &request, calls);
        let each = |seconds: f64| seconds * 1e9 / self.captures as f64;
        to.server.push(each(cost.server));
        to.seen.push(each(cost.seen));
        to.first.push(first.server);
        bits
    }
}

impl Figures {
    fn compare(&mut self, ours: &[u8], theirs: &Outcome, what: &str) {
        let [mine, other] = [ours, &theirs.kept].map(space::kept);
        assert!(
            ours == theirs.kept,
            "{what}: Crawlspace keeps {mine} captures, the peer keeps {other}, and the sets differ"
        );
        self.theirs.push(theirs.each);
        self.build.push(theirs.build / 1e9);
    }
}

/// Returns the cases. The order of long alternatives depends on `order`.
fn cases(archive: &Archive, order: u64) -> Vec<Case> {
    let organisation = archive.collections[0].organisation;
    let collections = archive.alternatives(order);
    let case = |id, what, conditions: [&str; 2], peer: Option<(&'static str, &str)>| Case {
        id,
        what,
        conditions: [conditions, ["FORMAT", "CDX"]]
            .concat()
            .iter()
            .map(|&word| word.into())
            .collect(),
        peer: peer.map(|(against, method)| (against, method.into())),
        captures: BATCH,
        line: Capture::cdx,
        target: None,
    };
    let all = ["POINT", "all"];
    let plugin = "a Java plug-in for collections";
    let to_all = Some((plugin, "plugin-all"));
    let public = Some(("Java regex of all that are public", "regex-public"));
    let ten_thousand = Some(("Java regex of 10 000 alternatives", "regex-all"));
    let values = format!("tag.coll:{collections}");
    let regex = format!("filename:(.*/)?ARCHIVEIT-({collections})-.*");
    let (org, plugin_org) = (
        format!("org-{organisation}"),
        format!("plugin-org:{organisation}"),
    );
    let mut cases = Vec::from(redis_tests::rows![
        "T1", "all public", all, to_all;
        "T1", "all public", all, public;
        "T1", "any of 10 000 collections, by tag: `coll:*`", ["WHERE", "coll:*"], ten_thousand;
        "T1", "the same, by `FILTER tag.coll:` of 10 000 values", ["FILTER", &values], ten_thousand;
        "T1", "the same, by `FILTER filename:` with a regex of 10 000 alternatives", ["FILTER", &regex], ten_thousand;
        "", "one organization", ["POINT", &org], Some((plugin, &plugin_org[..]));
        "", "all public, CDXJ lines", all, to_all;
        "", "all public, 100 captures a call", all, None;
    ].map(|(id, what, conditions, peer)| case(id, what, conditions, peer)));
    cases[0].target = Some(targets::FILTER);
    cases[6].line = Capture::cdxj;
    cases[6].conditions[3] = "CDXJ".into();
    cases[7].captures = QUERY;
    cases
}

/// Cases whose first call must compile something: a list of tags, or a regular expression.
const COMPILED: std::ops::Range<usize> = 3..5;

fn findings(cases: &[Case], figures: &[Figures]) -> Findings {
    let mut found = Findings::default();
    let nanos = |each: f64| match each {
        n if n >= 10_000.0 => format!("{:.1} µs", n / 1e3),
        n => format!("{n:.0} ns"),
    };
    for (case, of) in cases.iter().zip(figures) {
        let (result, goal) = match case.target {
            Some(target) => (of.server.clone(), target),
            None => (of.theirs.over(&of.server), Goal::Known),
        };
        let against = case.peer.as_ref().map_or("–", |(against, _)| against);
        let ours = format!("{} ({})", of.server.shown(nanos), of.seen.shown(nanos));
        table! { found; case.id, case.what, against, ours, of.theirs.shown(nanos), result, goal; }
    }
    for (case, of) in cases[COMPILED].iter().zip(&figures[COMPILED]) {
        table! { found;
            "", case.what.replace("the same, by", "the first call of"), "building the Java regex",
                of.first.shown(time), of.build.shown(time), of.build.over(&of.first), Goal::Known;
        }
    }
    let each = |case: usize| figures[case].server.shown(nanos);
    note!(found, "filter.md"; each = each(0));
    note!(found, "lists.md"; table = each(3), regex = each(4), hundred = each(7));
    found
}
