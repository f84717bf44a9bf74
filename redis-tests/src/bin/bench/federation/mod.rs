//! `crawlspace serve` against pywb's index and resource server: F1 to F5.

mod closest;
mod corpus;
mod hanging;
mod serving;
mod throughput;
mod upstream;
mod wrk;

use crate::Plan;
use crate::report::{Section, say};
use crate::series::grouped;
use corpus::Corpus;
use serving::Peer;

/// What can be measured alone.
pub const PIECES: [&str; 5] = ["F1", "F2", "F3", "F4", "F5"];

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    say("federation: making an archive up");
    let corpus = Corpus::new(plan);
    let peer = Peer::install();
    let mut found = crate::report::Findings::default();
    if plan.wants(&["F1", "F2", "F3"]) {
        found.extend(throughput::measure(plan, &corpus, peer.as_ref()));
    }
    if plan.wants(&["F4"]) {
        found.extend(hanging::measure(plan, &corpus));
    }
    if plan.wants(&["F5"]) {
        found.extend(closest::measure(plan, &corpus, peer.as_ref()));
    }
    Section {
        title: "Federation",
        method: method(plan, &corpus, peer.as_ref()),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn method(plan: &Plan, corpus: &Corpus, peer: Option<&Peer>) -> String {
    let peer = match peer {
        Some(_) => "The peer is the `warcserver` of pywb 2.10 under gunicorn with 2 gevent workers, on the same files".to_owned(),
        None => "pywb cannot be installed here: its figures are missing".into(),
    };
    format!(
        "One CDXJ file of {} captures, {:.0} MB, WARC records of {} bytes on average in {} gzip members; seed {}. Ours is \
         `crawlspace serve` in release build as it comes. {peer}. Both are asked by `wrk` with {} connections from one thread, \
         for {:.1} s each, one after the other in every repetition, for URLs drawn at random; that some of the answers are \
         the same is checked before. Server and load generator share the machine, so the generator takes from both; \"busy\" is the \
         processor time of ours in cores.",
        grouped(corpus.rows),
        corpus.bytes as f64 / 1e6,
        corpus.record_bytes(),
        grouped(corpus.records.len() as u64),
        plan.seed,
        wrk::CONNECTIONS,
        wrk::span(plan).as_secs_f64(),
    )
}
