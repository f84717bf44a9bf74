//! `DEDUPE.*` against the documented plain commands, on plain keys and packed: D1 to D8.

mod aof;
mod bystanders;
mod commit;
mod corpus;
mod documented;
mod file;
mod lookup;
mod memory;
mod packing;
mod removal;
mod scale;
mod scene;

use crate::Plan;
use crate::report::{Findings, Section, say};
use crate::series::grouped;
use corpus::Corpus;
use scene::{Footprint, Scene};

pub use scale::{HASHES as SCALE, measure as scale};

/// Prefix of the index: none, so that the keys are the documented ones.
const PREFIX: &[u8] = b"";

/// What is measured on one and the same filled scene.
const ON_FILLED: [&str; 7] = ["D1", "D2", "D3", "D4", "D6", "D7", "bystanders"];

/// What can be measured alone.
pub const PIECES: [&str; 11] = [
    "D1",
    "D2",
    "D3",
    "D4",
    "D5",
    "D6",
    "D7",
    "D8",
    "packing",
    "aof",
    "bystanders",
];

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    let corpus = Corpus { seed: plan.seed };
    let hashes = plan.scaled(1_000_000);
    let mut found = Findings::default();
    if plan.wants(&ON_FILLED) {
        found.extend(on_filled(plan, &corpus, hashes));
    }
    if plan.wants(&["D5"]) {
        found.extend(commit::measure(plan, &corpus));
    }
    if plan.wants(&["aof"]) {
        found.extend(aof::measure(plan, &corpus));
    }
    if plan.wants(&["D8"]) {
        found.extend(removal::measure(plan, &corpus));
    }
    if plan.wants(&["packing"]) {
        found.extend(packing::measure(plan, &corpus));
    }
    Section {
        title: "DEDUPE",
        method: method(plan, &corpus, hashes),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn on_filled(plan: &Plan, corpus: &Corpus, hashes: u64) -> Findings {
    let crawls = corpus.crawls(hashes, 10, 0);
    let mut scene = Scene::empty();
    let empty = scene.servers().map(Footprint::of);
    say("filling 10 crawls");
    scene.fill(corpus, &crawls, crawls.len());
    let full = scene.servers().map(Footprint::of);
    let mut found = lookup::measure(plan, &scene, corpus, hashes);
    let wants = |piece| plan.wants(&[piece]);
    if wants("D6") || wants("D7") {
        let (loads, loaded) = file::load(plan, &mut scene);
        if wants("D6") {
            found.extend(memory::findings(&scene, [empty, full, loaded], hashes));
        }
        if wants("D7") {
            found.extend(file::findings(&scene, &loads, hashes));
        }
    }
    if wants("bystanders") {
        found.extend(bystanders::measure(plan, &scene));
    }
    found
}

fn method(plan: &Plan, corpus: &Corpus, hashes: u64) -> String {
    let sample = 10_000;
    let bytes: usize = (0..sample).map(|n| corpus.record(n, 0).value().len()).sum();
    format!(
        "Corpus: {} hashes (`sha256:` and 64 hex digits) in 10 crawls, URLs on 5 000 hosts of very unequal \
         size, records of {:.0} bytes on average; seed {}. Ours runs in a server with the module, on plain keys, and \
         in another with a packed index (`dedupe-storage packed`); peers run in a server of the same version without \
         it. All three hold the same data, and what is compared is measured one after the other in every repetition. \
         Rates are those of requests encoded beforehand, sent over the unix socket on 8 connections, with hashes drawn \
         at random from all; \"busy\" is the share of a core that the server used, and tells that the server and not \
         the generator is measured. Replies are checked: every look-up returns a record, the index after a commit or a \
         removal is compared with what the peer made, and the packed one with the plain one.",
        grouped(hashes),
        bytes as f64 / sample as f64,
        plan.seed
    )
}
