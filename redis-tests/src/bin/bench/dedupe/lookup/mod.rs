//! D0 to D4: look-ups.

pub mod hundred;
pub mod instructions;
mod one_by_one;
pub mod pipelined;

use redis_tests::{Reply, Server};

use super::corpus::{Corpus, HASH_LEN};
use super::scene::{Scene, records};
use crate::Plan;
use crate::load::Throughput;
use crate::report::{Findings, Goal, table};
use crate::series::{Series, rate};

/// Measures look-ups on an index of `hashes` hashes.
pub fn measure(plan: &Plan, scene: &Scene, corpus: &Corpus, hashes: u64) -> Findings {
    check_records(&scene.ours, corpus, hashes);
    check_records(&scene.packed, corpus, hashes);
    plan.findings(&[
        ("D1 D2", &|| pipelined::measure(plan, scene, corpus, hashes)),
        ("D3", &|| one_by_one::measure(plan, scene, corpus, hashes)),
        ("D4", &|| hundred::measure(plan, scene, corpus, hashes)),
    ])
}

/// Draws hashes below a limit. Equal seeds result in equal hashes.
struct Draws<'a> {
    corpus: &'a Corpus,
    limit: u64,
    offset: u64,
    drawn: u64,
}

impl Draws<'_> {
    fn hash(&mut self) -> [u8; HASH_LEN] {
        self.drawn += 1;
        let n = self.corpus.bits(self.drawn, 3) % self.limit;
        self.corpus.hash(self.offset + n)
    }
}

fn draws(corpus: &Corpus, limit: u64) -> Draws<'_> {
    Draws {
        corpus,
        limit,
        offset: 0,
        drawn: 0,
    }
}

/// Checks that a sample of records of the ten crawls is complete and unchanged.
fn check_records(server: &Server, corpus: &Corpus, hashes: u64) {
    let numbers: Vec<u64> = (0..1_000).map(|i| corpus.bits(i, 3) % hashes).collect();
    let asked: Vec<_> = numbers.iter().map(|&n| corpus.hash(n)).collect();
    let got = records(server, &asked);
    for (n, record) in numbers.into_iter().zip(got.items()) {
        let [_, wacz, date, url, size] = record.items() else {
            panic!("{record:?} is a record");
        };
        let [wacz, size] = [wacz, size].map(Reply::int);
        let got = format!("{wacz} {} {} {size}", date.text(), url.text());
        let written = corpus.record(n, n / (hashes / 10));
        assert_eq!(got, written.value(), "record of hash {n}");
    }
}

/// Several runs of one kind.
#[derive(Default)]
struct Runs {
    rate: Series,
    busy: Series,
}

impl Runs {
    fn push(&mut self, run: Throughput) {
        self.rate.push(run.rate);
        self.busy.push(run.busy);
    }

    /// Formats the rate, `2.06 M/s`, and the server's processor use.
    fn text(&self) -> String {
        format!("{} (busy {:.0} %)", self.rate.shown(rate), self.busy())
    }

    /// Returns the wall-clock time per request in microseconds.
    fn each(&self) -> f64 {
        1e6 / self.rate.median()
    }

    /// Returns the server's CPU time per request in microseconds.
    fn cpu(&self) -> f64 {
        let spent = self.busy.over(&self.rate);
        1e6 * spent.median()
    }

    /// Returns the server's processor use in percent of a core.
    fn busy(&self) -> f64 {
        100.0 * self.busy.median()
    }
}

/// Adds rows that compare runs. Each row has an id, the name of the measurement, the name of the
/// peer, both runs, and the goal.
fn compare<const N: usize>(
    found: &mut Findings,
    rows: [(&str, &str, &str, &Runs, &Runs, Goal); N],
) {
    for (id, what, against, ours, peer, goal) in rows {
        table! { found; id, what, against, ours.text(), peer.text(), ours.rate.over(&peer.rate), goal; }
    }
}
