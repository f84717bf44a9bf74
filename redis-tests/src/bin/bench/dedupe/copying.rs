//! D12: `crawlspace dedupe copy` from a server without the module, compared with `MIGRATE` of all
//! keys.

use std::process::Command;
use std::time::{Duration, Instant};

use redis_tests::{Program, Server, ok};

use super::corpus::Corpus;
use super::documented;
use super::scene::{hashes, records, start_packed, start_plain};
use crate::load::Watch;
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, grouped, rate, time};
use crate::{Plan, targets, tool};

/// Rate of the target, in hashes per second.
const RATE: f64 = 100_000.0;
/// Number of copied hashes that are compared.
const SAMPLE: u64 = 1_000;
/// Time limit for a command.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Measures both ways on the same index.
pub fn measure(plan: &Plan, corpus: &Corpus) -> Findings {
    let size = plan.scaled(1_000_000);
    say("D12: filling");
    let source = start_plain();
    documented::fill(&source, corpus, &corpus.crawls(size, 10, 0), 10);
    let (mut copied, mut migrated) = (Series::default(), Series::default());
    let [mut stopped, mut reading, mut writing, mut programs] = [(); 4].map(|()| Series::default());
    for _ in plan.repeat("D12: copy, MIGRATE") {
        let copy = start_packed();
        let (from, to) = (Watch::start(&source), Watch::start(&copy));
        let start = Instant::now();
        programs.push(run(&source, &copy));
        let seconds = start.elapsed().as_secs_f64();
        copied.push(size as f64 / seconds);
        let busy = |watch: Watch| 1e6 * watch.stop(1, 0).busy * seconds / size as f64;
        reading.push(busy(from));
        writing.push(busy(to));
        let target = start_packed();
        let start = Instant::now();
        stopped.push(migrate(&source, &target));
        migrated.push(size as f64 / start.elapsed().as_secs_f64());
        for server in [&copy, &target] {
            assert_eq!(hashes(server), size as i64, "all hashes were copied");
        }
        let sample: Vec<_> = (0..SAMPLE)
            .map(|n| corpus.hash(corpus.bits(n, 3) % size))
            .collect();
        let [ours, theirs] = [&copy, &target].map(|server| records(server, &sample));
        assert_eq!(ours, theirs, "the same records");
        assert!(ours.items().iter().all(|record| !record.is_nil()));
    }
    let mut found = Findings::default();
    let what = "hashes copied a second by `dedupe copy --packed`";
    table! { found;
        "D12", what, "100 000 a second", copied.shown(rate), "", copied.over_fixed(RATE), targets::COPY;
        "", what, "`MIGRATE` of all keys, then `PACK`", copied.shown(rate), migrated.shown(rate),
            copied.over(&migrated), Goal::Known;
    }
    let micros = |series: &Series, figure: f64| series.median() * figure;
    note!(found, "copying.md";
        size = grouped(size), reading = micros(&reading, 1.0), writing = micros(&writing, 1.0),
        program = micros(&programs, 1e6 / size as f64), stopped = stopped.shown(time));
    found
}

/// Copies the index with the tool. Returns the processor time of the tool in seconds.
fn run(source: &Server, copy: &Server) -> f64 {
    let mut command = Command::new(tool());
    command
        .args(["dedupe", "copy", "--packed", "--from", &source.url()])
        .args(["--redis", &copy.url()]);
    let ended = Program::start(command).end_at_last();
    assert!(ended.status.success(), "{}", ended.errors);
    ended.cpu.as_secs_f64()
}

/// Copies all keys with `MIGRATE` and packs the copy. Returns the longest time of a command during
/// which the source serves no other client, in seconds.
fn migrate(source: &Server, target: &Server) -> f64 {
    let mut wire = source.wire().within(TIMEOUT);
    let (host, port) = ("127.0.0.1", target.port());
    let mut longest: f64 = 0.0;
    for key in ok!(wire, "KEYS", "*").items() {
        let start = Instant::now();
        ok!(
            wire,
            "MIGRATE",
            host,
            port,
            key.bytes(),
            0,
            TIMEOUT.as_secs() * 1000,
            "COPY"
        );
        longest = longest.max(start.elapsed().as_secs_f64());
    }
    ok!(target.wire().within(TIMEOUT), "DEDUPE.PACK", "");
    longest
}
