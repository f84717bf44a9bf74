//! Measures a packed index that grows crawl by crawl: memory and time per hash at each size.

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

/// Number of hashes, unless the run specifies another number.
const HASHES: u64 = 10_000_000;
/// Number of crawls into which the hashes are divided.
const CRAWLS: u64 = 20;
/// Numbers of crawls after which the index is measured.
const STOPS: [u64; 4] = [2, 4, 10, 20];

/// Results for one size.
#[derive(Default)]
struct Stop {
    hashes: u64,
    /// Memory growth since the empty server, of the packed server and of the server with
    /// `allhashes` only.
    grown: Footprint,
    owners: Footprint,
    /// Look-ups per second: one hash per request, 100 hashes per call, and `HGET`.
    lookups: Series,
    hundreds: Series,
    hgets: Series,
    /// Nanoseconds per hash of the commits since the previous stop.
    commits: Series,
    /// Milliseconds of the longest slice so far.
    slice: f64,
}

/// The two servers.
struct Pair {
    packed: Server,
    /// The server with `allhashes` only: the peer of D1.
    plain: Server,
    empty: [Footprint; 2],
}

/// Measures an index with the number of hashes in the plan.
pub fn measure(plan: &Plan) -> Section {
    let corpus = Corpus { seed: plan.seed };
    let each = plan.scaled(plan.scale.unwrap_or(HASHES)) / CRAWLS;
    // One more crawl, which is committed while a child process saves.
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
    /// Adds and commits a crawl. Returns nanoseconds per hash of the commit.
    fn add(&self, corpus: &Corpus, crawl: &Crawl, number: u64) -> f64 {
        add_one(&self.packed, corpus, crawl, number);
        let (seconds, reply) = commit_one(&self.packed, crawl);
        assert_eq!(reply.ints(), [crawl.len() as i64, 0], "all hashes are new");
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

/// Writes `allhashes` as a commit of the crawl would.
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
