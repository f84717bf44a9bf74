//! Tags on records: what a million of them take, and what they cost a filter and a toggle.

use std::time::Instant;

use redis_tests::{Options, Rng, Server, ok};

use super::corpus::{Archive, Capture, IN_A_FILE};
use super::filter::BATCH;
use super::space::{self, KEY, cost};
use super::toggle;
use crate::Plan;
use crate::load::{Connection, Feeder, encode};
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped, time};
use crate::told::Spent;

/// Records in a command while they are loaded.
const LOAD: u64 = 1_000;

/// What was measured, a figure for each repetition.
#[derive(Default)]
struct Figures {
    /// Bytes a record: by the server's account, by `MEMORY USAGE`, and in the peer's hash.
    used: Series,
    usage: Series,
    hash: Series,
    /// Seconds to load all: merged, staged and swapped in, and into the peer's hash.
    merge: Series,
    stage: Series,
    hset: Series,
    /// Seconds of the swap.
    swap: Series,
    /// Nanoseconds a capture: our filter, and the peer's look-up.
    filter: Series,
    hmget: Series,
    /// Microseconds of a toggle.
    toggle: Series,
}

/// Measures a space with tagged records, and a hash of the same.
pub fn measure(plan: &Plan, archive: &Archive) -> Findings {
    let count = plan.scaled(1_000_000);
    let mut figures = Figures::default();
    for rep in 1..=plan.reps {
        say(&format!(
            "{} record tags ({rep}/{})",
            grouped(count),
            plan.reps
        ));
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
            .0
            .push(load(&server, archive, count, &LOAD_MERGE));
        let each = |bytes: f64| bytes / count as f64;
        self.used.0.push(each(used() - before.0));
        self.usage.0.push(each(usage() - before.1));
        let info = ok!(server.wire(), "TAGS.INFO", KEY);
        assert_eq!(info.field("record-ids").int(), count as i64);

        let some = drawn(archive, count, order);
        let mut blob = String::new();
        for capture in &some {
            capture.cdx(&mut blob);
            blob.push('\n');
        }
        let all = [&b"POINT"[..], b"all", b"FORMAT", b"CDX", b"RETURN", b"BITS"];
        let (cost, bits) = cost(&server, &space::filter(&all, blob.as_bytes()), 10);
        assert!(space::kept(&bits) > 0);
        self.filter.0.push(cost.server * 1e9 / BATCH as f64);
        self.toggle.0.push(toggle::toggles(&server, archive, order));

        let staged = load(&server, archive, count, &LOAD_STAGE);
        let start = Instant::now();
        let swapped = ok!(server.wire(), "TAGS.SWAP", KEY, "RECORD").int();
        let swap = start.elapsed().as_secs_f64();
        assert_eq!(swapped, count as i64);
        self.swap.0.push(swap);
        self.stage.0.push(staged + swap);
    }

    fn theirs(&mut self, archive: &Archive, count: u64, order: u64) {
        let server = Options::new().no_module().start();
        let used = || server.info_number("used_memory") as f64;
        let before = used();
        self.hset.0.push(load(&server, archive, count, &HSET));
        self.hash.0.push((used() - before) / count as f64);
        let ids: Vec<String> = drawn(archive, count, order)
            .iter()
            .map(Capture::record)
            .collect();
        let mut words: Vec<&[u8]> = vec![b"HMGET", KEY];
        words.extend(ids.iter().map(|id| id.as_bytes()));
        let mut request = Vec::new();
        encode(&mut request, &words);
        let mut connection = Connection::unix(&server);
        let mut spent = Series::default();
        for _ in 0..10 {
            Spent::reset(&server);
            connection.send(&request);
            connection.read(1, |_| ());
            spent.0.push(Spent::since_reset(&server).micros(&["HMGET"]));
        }
        self.hmget.0.push(spent.median() * 1e3 / BATCH as f64);
    }
}

const LOAD_MERGE: [&[u8]; 4] = [b"TAGS.LOAD", KEY, b"RECORD", b"MERGE"];
const LOAD_STAGE: [&[u8]; 4] = [b"TAGS.LOAD", KEY, b"RECORD", b"STAGE"];
const HSET: [&[u8]; 2] = [b"HSET", KEY];

/// Seconds of the server to take all ids with their collection and organisation, after these words.
fn load(server: &Server, archive: &Archive, count: u64, command: &[&[u8]]) -> f64 {
    let mut feeder = Feeder::new(server);
    Spent::reset(server);
    for first in (0..count).step_by(LOAD as usize) {
        let numbers = first..count.min(first + LOAD);
        let pairs: Vec<[String; 2]> = numbers.map(|n| pair(archive, n)).collect();
        let mut words = command.to_vec();
        words.extend(pairs.iter().flatten().map(|word| word.as_bytes()));
        feeder.request(&words);
    }
    feeder.finish();
    Spent::since_reset(server).micros(&["TAGS.LOAD", "HSET"]) / 1e6
}

/// Id of a record and its tags, as the seed's index has them. The collection is not the one of the
/// file name.
fn pair(archive: &Archive, n: u64) -> [String; 2] {
    let collections = &archive.collections;
    let c = &collections[n as usize % collections.len()];
    let tags = format!("coll:{} org:{}", c.id, c.organisation);
    [archive.stored(n).record(), tags]
}

/// A batch of captures out of all.
fn drawn(archive: &Archive, count: u64, order: u64) -> Vec<Capture> {
    let mut rng = Rng::seeded(archive.seed.wrapping_add(order));
    let draw = |_| archive.stored(rng.below(count));
    (0..BATCH).map(draw).collect()
}

fn findings(of: &Figures, archive: &Archive, count: u64) -> Findings {
    let mut found = Findings::default();
    let mut row =
        |what: String, against: &str, [ours, theirs]: [&Series; 2], show: fn(f64) -> String| {
            found.rows.push(Row {
                id: "",
                what,
                against: against.into(),
                ours: show(ours.median()),
                theirs: if theirs.0.is_empty() {
                    String::new()
                } else {
                    show(theirs.median())
                },
                result: theirs.over(ours),
                goal: Goal::Known,
            });
        };
    let bytes = |b: f64| format!("{b:.0} B");
    let nanos = |n: f64| format!("{n:.0} ns");
    let all = grouped(count);
    let hash = "a hash, id → tags, by plain commands";
    row(
        "memory per tagged record".into(),
        hash,
        [&of.used, &of.hash],
        bytes,
    );
    row(
        format!("`LOAD … MERGE` of {all} records"),
        hash,
        [&of.merge, &of.hset],
        time,
    );
    row(
        format!("`LOAD … STAGE` and `SWAP` of {all} records"),
        hash,
        [&of.stage, &of.hset],
        time,
    );
    row(
        format!("all public, {all} records tagged"),
        "`HMGET` of the same captures' tags",
        [&of.filter, &of.hmget],
        nanos,
    );
    found.rows.push(Row {
        id: "T2",
        what: format!("toggle of one collection, {all} records tagged"),
        against: "–".into(),
        ours: format!("{:.2} µs", of.toggle.median()),
        theirs: String::new(),
        result: of.toggle.clone(),
        goal: Goal::AtMost(10.0, "µs"),
    });
    let lengths = (0..1_000).map(|n| archive.stored(n).record().len() as f64);
    found.note("Records.", format!(
        "The seed's tagging index: a record's id ({:.0} bytes on average, {IN_A_FILE} of them in a file) and, as tags, its \
         collection and organisation. Bytes are what the server uses more after loading; `MEMORY USAGE` says {:.0} B. {LOAD} \
         records go into a command; times are the server's; `SWAP` alone took its client {}. `HMGET` only fetches the tags; \
         the filter finds them for captures drawn at random, adds those of the file name, what all of them carry, and asks \
         the point.",
        lengths.sum::<f64>() / 1_000.0,
        of.usage.median(),
        time(of.swap.median()),
    ), &["make bench ONLY=records", "redis-cli MEMORY USAGE $space SAMPLES 0"]);
    found
}
