//! `DEDUPE.*` against the documented plain commands: D1 to D5 and D8.

mod commit;
mod corpus;
mod cost;
mod documented;
mod lookup;
mod removal;

use std::fs;

use redis_tests::{Options, Server};

use crate::load::Feeder;
use crate::report::{say, Findings, Section};
use crate::series::grouped;
use crate::Plan;
use corpus::{Corpus, Crawl};

/// Prefix of the index: none, so that the keys are the documented ones.
const PREFIX: &[u8] = b"";

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    let corpus = Corpus { seed: plan.seed };
    let hashes = plan.scaled(1_000_000);
    let crawls = corpus.crawls(hashes, 10, 0);
    let mut found = Findings::default();
    {
        let mut scene = Scene::empty();
        let empty = scene.memory();
        say("filling 10 crawls");
        scene.fill(&corpus, &crawls, crawls.len());
        found.extend(lookup::measure(plan, &scene, &corpus, hashes));
        found.extend(cost::measure(plan, &mut scene, empty, hashes));
    }
    found.extend(commit::measure(plan, &corpus));
    found.extend(removal::measure(plan, &corpus));
    Section {
        title: "DEDUPE",
        method: method(plan, &corpus, hashes),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn method(plan: &Plan, corpus: &Corpus, hashes: u64) -> String {
    let sample = 10_000;
    let bytes: usize = (0..sample).map(|n| corpus.record(n, 0).value().len()).sum();
    format!(
        "Corpus: {} hashes (`sha256:` and 64 hex digits) in 10 crawls, URLs on 5 000 hosts of very unequal \
         size, records of {:.0} bytes on average; seed {}. Ours runs in a server with the module, on plain keys; peers \
         run in a server of the same version without it. Both hold the same data, and each pair is measured one after \
         the other in every repetition. Rates are those of requests encoded beforehand, sent over the unix socket on 8 \
         connections, with hashes drawn at random from all; \"busy\" is the share of a core that the server used, and \
         tells that the server and not the generator is measured. Replies are checked: every look-up returns a record, \
         and the index after a commit or a removal is compared with what the peer made.",
        grouped(hashes),
        bytes as f64 / sample as f64,
        plan.seed
    )
}

/// A server with the module and one without, with the same data.
struct Scene {
    ours: Server,
    plain: Server,
}

impl Scene {
    fn empty() -> Scene {
        let quiet = |options: Options| options.args(&["--hz", "10"]).start();
        Scene {
            ours: quiet(Options::new()),
            plain: quiet(Options::new().no_module()),
        }
    }

    /// Writes the crawls to both, each in its own way; the first `committed` are committed.
    fn fill(&mut self, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
        add(&self.ours, corpus, crawls, committed);
        documented::fill(&self.plain, corpus, crawls, committed);
        assert_eq!(
            documented::index_digest(&self.ours),
            documented::index_digest(&self.plain),
            "both servers hold the same index"
        );
    }

    /// Saves both, so that a later repetition can go back here.
    fn save(&self) {
        for server in [&self.ours, &self.plain] {
            redis_tests::ok!(server.wire(), "SAVE");
        }
    }

    /// Bytes of memory that the two use.
    fn memory(&self) -> [i64; 2] {
        [&self.ours, &self.plain].map(|server| server.info_number("used_memory"))
    }
}

/// Writes crawls with `DEDUPE.ADD`, 50 records a call; commits the first `committed`.
fn add(server: &Server, corpus: &Corpus, crawls: &[Crawl], committed: usize) {
    for (number, crawl) in crawls.iter().enumerate() {
        let mut feeder = Feeder::new(server);
        let hashes: Vec<u64> = crawl.hashes().collect();
        for chunk in hashes.chunks(50) {
            let records = chunk
                .iter()
                .map(|&n| (corpus.hash(n), corpus.record(n, number as u64)));
            let records: Vec<_> = records.collect();
            let mut words: Vec<&[u8]> = vec![b"DEDUPE.ADD", PREFIX, crawl.id.as_bytes()];
            for (hash, record) in &records {
                words.push(hash);
                let fields = [&record.wacz, &record.date, &record.url, &record.size];
                words.extend(fields.map(|field| field.as_bytes()));
            }
            feeder.request(&words);
        }
        if number < committed {
            feeder.request(&[b"DEDUPE.COMMIT", PREFIX, crawl.id.as_bytes()]);
        }
        feeder.finish();
    }
}

/// Kills a server and starts it again with the data it saved.
fn reset(server: &mut Server) {
    server.restart();
}

/// Bytes of a server's RDB file.
fn rdb_bytes(server: &Server) -> u64 {
    fs::metadata(server.dir().join("dump.rdb")).map_or(0, |file| file.len())
}
