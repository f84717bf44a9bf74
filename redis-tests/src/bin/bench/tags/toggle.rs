//! T2: time to make a collection private or public, so that the next filter sees the change.

use redis_tests::{Options, Rng, Server};

use super::corpus::{Archive, Capture, Collection};
use super::filter::BATCH;
use super::space::{self, ALL_PUBLIC, KEY, cost_of_one, kept};
use crate::Plan;
use crate::load::{Client, Connection};
use crate::report::{Findings, note, table};
use crate::series::Series;
use crate::targets;
use crate::told::Spent;

/// Number of measured toggles.
const TOGGLES: u64 = 2_000;

/// Measures the toggle, and the first filter after it.
pub fn measure(plan: &Plan, archive: &Archive) -> Findings {
    let (mut each, mut after, mut without) = <(Series, Series, Series)>::default();
    let pairs = if plan.quick { 20 } else { 100 };
    for rep in plan.repeat("T2: toggles") {
        let server = Options::new().start();
        space::fill(&server, archive);
        each.push(toggles(&server, archive, rep as u64));
        let [then, usual] = filters(&server, archive, pairs);
        after.push(then);
        without.push(usual);
    }
    let mut found = Findings::default();
    let micros = |micros| format!("{micros:.2} µs");
    let nanos = |micros| format!("{:.0} ns", micros * 1e3 / BATCH as f64);
    table! { found;
        "T2", "toggle of one collection: `ADD` or `REM` of an edge", "–", each.shown(micros), "",
            &each, targets::TOGGLE;
        "T2", "`FILTER` right after a toggle", "without one", after.shown(nanos), without.shown(nanos),
            after.over(&without), targets::AFTER_TOGGLE;
    }
    note!(found, "toggle.md"; toggles = TOGGLES, pairs = pairs);
    found
}

/// Returns the command that makes a collection private or public.
fn change(collection: &Collection, private: bool) -> String {
    let word = if private { "ADD" } else { "REM" };
    format!("TAGS.{word} {KEY} TAG coll:{} private", collection.id)
}

/// Returns the microseconds per toggle. At the end, all collections have their original state.
pub fn toggles(server: &Server, archive: &Archive, order: u64) -> f64 {
    let mut rng = Rng::seeded(archive.seed ^ order);
    let mut client = Client::unix(server);
    Spent::reset(server);
    for _ in 0..TOGGLES / 2 {
        let collection = rng.pick(&archive.collections);
        for private in [!collection.private, collection.private] {
            client.line(&change(collection, private));
        }
    }
    let spent = Spent::since_reset(server);
    assert_eq!(spent.calls("TAGS.ADD") + spent.calls("TAGS.REM"), TOGGLES);
    spent.micros(&["TAGS.ADD", "TAGS.REM"]) / TOGGLES as f64
}

/// Returns the microseconds of a filter directly after a toggle, and of a filter without a toggle
/// before it.
fn filters(server: &Server, archive: &Archive, pairs: u64) -> [f64; 2] {
    let blob = archive.blob(BATCH, Capture::cdx);
    let all = space::filter(&ALL_PUBLIC, "BITS", &blob);
    let mut connection = Connection::unix(server);
    let (_, mut before) = space::call(&mut connection, &all);
    let (mut after, mut without) = <(Series, Series)>::default();
    let mut wire = server.wire();
    for n in 0..pairs {
        // Choose a collection that has a capture in the batch.
        let file = archive.capture(n).filename;
        let of = |c: &&Collection| file.contains(&format!("ARCHIVEIT-{}-", c.id));
        let Some(collection) = archive.collections.iter().find(of) else {
            continue;
        };
        for private in [!collection.private, collection.private] {
            let (cost, bits) = cost_of_one(server, &mut connection, &all);
            without.push(cost.server * 1e6);
            assert!(bits == before, "without a toggle, the reply stays the same");
            assert_eq!(wire.line(&change(collection, private)).int(), 1);
            let (cost, bits) = cost_of_one(server, &mut connection, &all);
            after.push(cost.server * 1e6);
            let fewer = kept(&bits) < kept(&before);
            assert!(
                bits != before && fewer == private,
                "the next filter uses the new tags"
            );
            before = bits;
        }
    }
    [after.median(), without.median()]
}
