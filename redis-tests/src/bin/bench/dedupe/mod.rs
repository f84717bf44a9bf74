//! `DEDUPE.*` on plain and packed storage, compared with the documented plain commands: D0 to D12.

mod aof;
mod bystanders;
mod commit;
mod copying;
mod corpus;
mod documented;
mod file;
mod jobs;
mod lookup;
mod memory;
mod packing;
mod plain;
mod removal;
mod scale;
mod scene;

use crate::Plan;
use crate::report::{Findings, Section, say};
use crate::series::grouped;
use corpus::Corpus;
use scene::Scene;

pub use documented::{commit_hashes, sum};
pub use scale::measure as scale;
pub use scene::{Footprint, rdb_bytes, reset};

/// Measures look-ups, storage, and the cost of the module for other commands.
pub fn measure(plan: &Plan) -> Section {
    let corpus = Corpus { seed: plan.seed };
    let hashes = plan.scaled(1_000_000);
    let sample = 10_000;
    let bytes: usize = (0..sample).map(|n| corpus.record(n, 0).value().len()).sum();
    Section {
        title: "DEDUPE",
        method: format!(
            include_str!("method.md"),
            hashes = grouped(hashes),
            bytes = bytes as f64 / sample as f64,
            seed = plan.seed,
            jobs = "[DEDUPE jobs](dedupe-jobs.md)",
        ),
        found: plan.findings(&[
            ("D0", &|| lookup::instructions::measure(plan, &corpus)),
            (ON_FILLED, &|| on_filled(plan, &corpus, hashes)),
            ("others", &|| plain::others(plan)),
        ]),
    }
}

/// Measures the jobs that change or read a whole crawl or a whole index.
pub fn measure_jobs(plan: &Plan) -> Section {
    let corpus = Corpus { seed: plan.seed };
    Section {
        title: "DEDUPE jobs",
        method: format!(
            include_str!("jobs_method.md"),
            seed = plan.seed,
            dedupe = "[DEDUPE](dedupe.md)",
        ),
        found: plan.findings(&[
            ("D5", &|| commit::measure(plan, &corpus)),
            ("aof", &|| aof::measure(plan, &corpus)),
            ("D8", &|| removal::measure(plan, &corpus)),
            ("packing", &|| packing::measure(plan, &corpus)),
            ("D10", &|| jobs::measure(plan, &corpus)),
            ("D12", &|| copying::measure(plan, &corpus)),
        ]),
    }
}

/// The measurements that share one filled scene.
const ON_FILLED: &str = "D1 D2 D3 D4 D6 D7 D9 D11";

/// Runs all measurements that share one filled scene.
fn on_filled(plan: &Plan, corpus: &Corpus, hashes: u64) -> Findings {
    let crawls = corpus.crawls(hashes, 10, 0);
    let mut scene = Scene::empty();
    let empty = scene.servers().map(Footprint::of);
    say("filling 10 crawls");
    scene.fill(corpus, &crawls, crawls.len());
    let full = scene.servers().map(Footprint::of);
    let mut found = lookup::measure(plan, &scene, corpus, hashes);
    if plan.wants("D6 D7") {
        let (loads, loaded) = file::load(plan, &mut scene);
        found.extend(plan.findings(&[
            ("D6", &|| {
                memory::findings(&scene, [empty, full, loaded], hashes)
            }),
            ("D7", &|| file::findings(&scene, &loads, hashes)),
        ]));
    }
    found.extend(plan.findings(&[
        ("D9", &|| bystanders::measure(plan)),
        ("D11", &|| plain::measure(plan, &scene, corpus, hashes)),
    ]));
    found
}
