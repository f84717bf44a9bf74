//! An index of many hashes, packed, crawl after crawl: what a hash takes and costs as it grows.

mod billion;
mod end;
mod report;

use redis_tests::Server;

use super::commit::commit_one;
use super::corpus::{Corpus, Crawl};
use super::lookup::{hundred, pipelined};
use super::scene::{Footprint, add_one, hashes, start_packed, start_plain};
use crate::Plan;
use crate::load::{Batches, Feeder};
use crate::report::{Section, say};
use crate::series::{Series, grouped};
use crate::told::slice_longest;
use end::End;

/// Hashes of a run that names no other number.
const HASHES: u64 = 10_000_000;
/// Crawls that they come in.
const CRAWLS: u64 = 20;
/// After how many crawls something is measured.
const STOPS: [u64; 4] = [2, 4, 10, 20];

/// Figures at one size.
#[derive(Default)]
struct Stop {
    hashes: u64,
    /// Growth of the packed server since it was empty, and of the one with `allhashes` alone.
    grown: Footprint,
    owners: Footprint,
    /// Look-ups a second: one hash a request, 100 hashes a call, and `HGET`.
    lookups: Series,
    hundreds: Series,
    hgets: Series,
    /// Nanoseconds a hash of the commits since the stop before.
    commits: Series,
    /// Milliseconds of the longest slice so far.
    slice: f64,
}

/// The two servers.
struct Pair {
    packed: Server,
    /// Has `allhashes` only: the peer of D1.
    plain: Server,
    empty: [Footprint; 2],
}

/// Fills an index with as many hashes as the plan says.
pub fn measure(plan: &Plan) -> Section {
    let corpus = Corpus { seed: plan.seed };
    let each = plan.scaled(plan.scale.unwrap_or(HASHES)) / CRAWLS;
    // One more than are filled in: it is committed while a child saves.
    let crawls = corpus.crawls(each * (CRAWLS + 1), CRAWLS + 1, 0);
    let packed = start_packed();
    let plain = start_plain();
    let empty = [&packed, &plain].map(Footprint::of);
    let mut pair = Pair {
        packed,
        plain,
        empty,
    };
    let mut stops: Vec<Stop> = Vec::new();
    let mut commits = Series::default();
    for (number, crawl) in (1..=CRAWLS).zip(&crawls) {
        say(&format!("scale: {} hashes", grouped(number * each)));
        commits.push(pair.add(&corpus, crawl, number - 1));
        if STOPS.contains(&number) {
            let mut stop = pair.stop(plan, &corpus, number * each);
            stop.commits = std::mem::take(&mut commits);
            stops.push(stop);
        }
    }
    let end = End::measure(plan, &corpus, &mut pair, &crawls);
    report::section(plan, &stops, &end)
}

impl Pair {
    /// Adds and commits a crawl; nanoseconds that the commit took for a hash.
    fn add(&self, corpus: &Corpus, crawl: &Crawl, number: u64) -> f64 {
        add_one(&self.packed, corpus, crawl, number);
        let (seconds, reply) = commit_one(&self.packed, crawl);
        assert_eq!(reply.ints(), [crawl.len() as i64, 0], "all are new");
        fill_owners(&self.plain, corpus, crawl);
        1e9 * seconds / crawl.len() as f64
    }

    fn stop(&self, plan: &Plan, corpus: &Corpus, size: u64) -> Stop {
        assert_eq!(hashes(&self.packed), size as i64);
        assert_eq!(hashes(&self.plain), size as i64);
        let [packed, plain] = [&self.packed, &self.plain].map(Footprint::of);
        let mut stop = Stop {
            hashes: size,
            grown: packed.since(self.empty[0], 1),
            owners: plain.since(self.empty[1], 1),
            slice: slice_longest(&self.packed),
            ..Stop::default()
        };
        let count = plan.scaled(20_000);
        let lookup = pipelined::asking(corpus, pipelined::LOOKUP, count, size, 0);
        let hget = pipelined::asking(corpus, pipelined::HGET, count, size, 0);
        let hundred = hundred::asking(corpus, plan.scaled(6_000), size);
        for rep in 1..=plan.reps {
            let rate = |server: &Server, batches: &Batches| {
                let run = plan.saturate(server, batches, rep);
                assert_eq!(run.nils, 0, "every hash is known");
                run.rate
            };
            stop.lookups.push(rate(&self.packed, &lookup));
            stop.hgets.push(rate(&self.plain, &hget));
            stop.hundreds.push(rate(&self.packed, &hundred));
        }
        stop
    }
}

/// `allhashes` as it is after a commit of the crawl.
fn fill_owners(server: &Server, corpus: &Corpus, crawl: &Crawl) {
    let mut feeder = Feeder::new(server);
    let numbers: Vec<u64> = crawl.hashes().collect();
    for chunk in numbers.chunks(50) {
        let hashes: Vec<_> = chunk.iter().map(|&n| corpus.hash(n)).collect();
        let mut words: Vec<&[u8]> = vec![b"HSET", b"allhashes"];
        for hash in &hashes {
            words.extend([&hash[..], crawl.id.as_bytes()]);
        }
        feeder.request(&words);
    }
    feeder.finish();
}
