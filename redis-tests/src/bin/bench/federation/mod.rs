//! `crawlspace serve` compared with pywb's index and resource server (F1 to F5, U1), and measured
//! on its own: WACZ files compared with plain files (U2), access rules (U3), and folders with many
//! files (U4).

mod closest;
mod corpus;
mod folders;
mod hanging;
mod lookups;
mod packages;
mod rules;
mod serving;
mod throughput;
mod upstream;
mod wrk;

use crate::Plan;
use crate::report::{Section, say};
use crate::series::grouped;
use corpus::Corpus;
use serving::Peer;

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    say("federation: generating an archive");
    let corpus = Corpus::new(plan);
    let peer = Peer::install();
    let peer = peer.as_ref();
    let found = plan.findings(&[
        ("F1 F2 F3", &|| throughput::measure(plan, &corpus, peer)),
        ("F4", &|| hanging::measure(plan, &corpus)),
        ("F5", &|| closest::measure(plan, &corpus, peer)),
        ("U1", &|| lookups::measure(plan, &corpus, peer)),
        ("U2", &|| packages::measure(plan, &corpus)),
        ("U3", &|| rules::measure(plan, &corpus)),
        ("U4", &|| folders::measure(plan, &corpus)),
    ]);
    let peer = match peer {
        Some(_) => {
            "The peer is the `warcserver` of pywb 2.10 under gunicorn with 2 gevent workers, on the same files"
        }
        None => "pywb cannot be installed here: its figures are missing",
    };
    Section {
        title: "Federation",
        method: format!(
            include_str!("method.md"),
            rows = grouped(corpus.rows),
            megabytes = corpus.bytes as f64 / 1e6,
            record = corpus.record_bytes(),
            records = grouped(corpus.records.len() as u64),
            seed = plan.seed,
            peer = peer,
            connections = wrk::CONNECTIONS,
            span = wrk::span(plan).as_secs_f64(),
        ),
        found,
    }
}
