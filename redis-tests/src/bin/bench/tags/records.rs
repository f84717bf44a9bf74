//! Tags on records: the memory of a million tagged records, and the time for a filter and a toggle.

use std::time::Instant;

use redis_tests::{Options, Rng, Server, ok};

use super::corpus::{Archive, Capture, IN_A_FILE, blob};
use super::filter::BATCH;
use super::space::{self, ALL_PUBLIC, KEY, cost};
use super::toggle;
use crate::Plan;
use crate::load::{Client, Feeder};
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, grouped, time};
use crate::targets;
use crate::told::Spent;

/// Number of records per command while loading.
const LOAD: u64 = 1_000;

/// Measurements, one for each repetition.
#[derive(Default)]
struct Figures {
    /// Bytes per record: by the server's used memory, by `MEMORY USAGE`, and in the peer's hash.
    used: Series,
    usage: Series,
    hash: Series,
    /// Seconds to load all records: merged, staged and swapped in, and loaded into the peer's hash.
    merge: Series,
    stage: Series,
    hset: Series,
    /// Seconds of the swap.
    swap: Series,
    /// Nanoseconds per capture: filter, and the peer's look-up.
    filter: Series,
    hmget: Series,
    /// Microseconds of a toggle.
    toggle: Series,
}

/// Measures a tag space with tagged records, and a hash with the same data.
pub fn measure(plan: &Plan, archive: &Archive) -> Findings {
    let count = plan.scaled(1_000_000);
    let mut figures = Figures::default();
    for rep in plan.repeat(format!("{} record tags", grouped(count))) {
        figures.ours(archive, count, rep as u64);
        figures.theirs(archive, count, rep as u64);
    }
    findings(&figures, archive, count)
}

impl Figures {
    fn ours(&mut self, archive: &Archive, count: u64, order: u64) {
        let server = Options::new().start();
        space::fill(&server, archive);
        let used = || server.info_number("used_memory") as f64;
        let usage = || ok!(server.wire(), "MEMORY", "USAGE", KEY, "SAMPLES", 0).int() as f64;
        let before = (used(), usage());
        self.merge
            .push(load(&server, archive, count, "TAGS.LOAD tags RECORD MERGE"));
        let each = |bytes: f64| bytes / count as f64;
        self.used.push(each(used() - before.0));
        self.usage.push(each(usage() - before.1));
        let info = ok!(server.wire(), "TAGS.INFO", KEY);
        assert_eq!(info.field("record-ids").int(), count as i64);

        let blob = blob(drawn(archive, count, order), Capture::cdx);
        let (cost, bits) = cost(&server, &space::filter(&ALL_PUBLIC, "BITS", &blob), 10);
        assert!(space::kept(&bits) > 0);
        self.filter.push(cost.server * 1e9 / BATCH as f64);
        self.toggle.push(toggle::toggles(&server, archive, order));

        let staged = load(&server, archive, count, "TAGS.LOAD tags RECORD STAGE");
        let start = Instant::now();
        let swapped = ok!(server.wire(), "TAGS.SWAP", KEY, "RECORD").int();
        let swap = start.elapsed().as_secs_f64();
        assert_eq!(swapped, count as i64);
        self.swap.push(swap);
        self.stage.push(staged + swap);
    }

    fn theirs(&mut self, archive: &Archive, count: u64, order: u64) {
        let server = Options::new().no_module().start();
        let used = || server.info_number("used_memory") as f64;
        let before = used();
        self.hset.push(load(&server, archive, count, "HSET tags"));
        self.hash.push((used() - before) / count as f64);
        let ids: Vec<String> = drawn(archive, count, order)
            .map(|capture| capture.record())
            .collect();
        let mut client = Client::unix(&server);
        let spent = (0..10).map(|_| {
            Spent::reset(&server);
            client.ask(
                ["HMGET", KEY]
                    .into_iter()
                    .chain(ids.iter().map(String::as_str)),
            );
            Spent::since_reset(&server).micros(&["HMGET"])
        });
        let spent: Series = spent.collect();
        self.hmget.push(spent.median() * 1e3 / BATCH as f64);
    }
}

/// Loads all record ids with their collection and organization, with this command. Returns the
/// server time in seconds.
fn load(server: &Server, archive: &Archive, count: u64, command: &str) -> f64 {
    let mut feeder = Feeder::new(server);
    Spent::reset(server);
    for first in (0..count).step_by(LOAD as usize) {
        let numbers = first..count.min(first + LOAD);
        let pairs: Vec<String> = numbers.flat_map(|n| pair(archive, n)).collect();
        feeder.request_with(command, &pairs);
    }
    feeder.finish();
    Spent::since_reset(server).micros(&["TAGS.LOAD", "HSET"]) / 1e6
}

/// Returns the id of a record and its tags in the format of the tagging index. The collection of
/// the record differs from the collection in the file name.
fn pair(archive: &Archive, n: u64) -> [String; 2] {
    let collections = &archive.collections;
    let c = &collections[n as usize % collections.len()];
    let tags = format!("coll:{} org:{}", c.id, c.organisation);
    [archive.stored(n).record(), tags]
}

/// Returns a random batch of captures.
fn drawn(archive: &Archive, count: u64, order: u64) -> impl Iterator<Item = Capture> {
    let mut rng = Rng::seeded(archive.seed.wrapping_add(order));
    (0..BATCH).map(move |_| archive.stored(rng.below(count)))
}

fn findings(of: &Figures, archive: &Archive, count: u64) -> Findings {
    let mut found = Findings::default();
    let bytes = |b: f64| format!("{b:.0} B");
    let nanos = |n: f64| format!("{n:.0} ns");
    let micros = |micros: f64| format!("{micros:.2} µs");
    let all = grouped(count);
    let hash = "a hash, id → tags, by plain commands";
    table! { found;
        "", "memory per tagged record", hash, of.used.shown(bytes), of.hash.shown(bytes),
            of.hash.over(&of.used), Goal::Known;
        "", format!("`LOAD … MERGE` of {all} records"), hash, of.merge.shown(time), of.hset.shown(time),
            of.hset.over(&of.merge), Goal::Known;
        "", format!("`LOAD … STAGE` and `SWAP` of {all} records"), hash, of.stage.shown(time), of.hset.shown(time),
            of.hset.over(&of.stage), Goal::Known;
        "", format!("all public, {all} records tagged"), "`HMGET` of the same captures' tags",
            of.filter.shown(nanos), of.hmget.shown(nanos), of.hmget.over(&of.filter), Goal::Known;
        "T2", format!("toggle of one collection, {all} records tagged"), "–", of.toggle.shown(micros), "",
            &of.toggle, targets::TOGGLE;
    }
    let lengths: Series = (0..1_000)
        .map(|n| archive.stored(n).record().len() as f64)
        .collect();
    note!(found, "records.md";
        length = lengths.0.iter().sum::<f64>() / 1_000.0, in_a_file = IN_A_FILE, usage = of.usage.median(),
        load = LOAD, swap = of.swap.shown(time));
    found
}
