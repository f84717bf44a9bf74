//! T2: a collection becomes private or public, and the next filter knows.

use redis_tests::{Options, Rng, Server, ok};

use super::corpus::{Archive, Capture};
use super::filter::BATCH;
use super::space::{self, KEY, cost_of_one, kept};
use crate::Plan;
use crate::load::{Connection, encode};
use crate::report::{Findings, Goal, Row, say};
use crate::series::Series;
use crate::told::Spent;

/// Toggles that are counted.
const TOGGLES: u64 = 2_000;

/// Measures the toggle, and the filter right after it.
pub fn measure(plan: &Plan, archive: &Archive) -> Findings {
    let (mut each, mut after, mut without) = <(Series, Series, Series)>::default();
    let pairs = if plan.quick { 20 } else { 100 };
    for rep in 1..=plan.reps {
        say(&format!("T2: toggles ({rep}/{})", plan.reps));
        let server = Options::new().start();
        space::fill(&server, archive);
        each.0.push(toggles(&server, archive, rep as u64));
        let [then, usual] = filters(&server, archive, pairs);
        after.0.push(then);
        without.0.push(usual);
    }
    let mut found = Findings::default();
    found.rows.push(Row {
        id: "T2",
        what: "toggle of one collection: `ADD` or `REM` of an edge".into(),
        against: "–".into(),
        ours: format!("{:.2} µs", each.median()),
        theirs: String::new(),
        result: each,
        goal: Goal::AtMost(10.0, "µs"),
    });
    let shown = |micros: &Series| format!("{:.0} ns", micros.median() * 1e3 / BATCH as f64);
    found.rows.push(Row {
        id: "T2",
        what: "`FILTER` right after a toggle".into(),
        against: "without one".into(),
        ours: shown(&after),
        theirs: shown(&without),
        result: after.over(&without),
        goal: Goal::AtMost(1.2, "×"),
    });
    found.note("T2.", format!(
        "Server time of {TOGGLES} toggles that are sent one by one, collections drawn at random from all; then {pairs} batches \
         of \"all public\" after a toggle and as many without one, by turns. That the captures of the collection are gone, \
         and are there again, is checked each time. Nothing is reindexed: an edge is written, and the next batch follows it.",
    ), &["make bench ONLY=T2", "redis-cli TAGS.ADD $space TAG coll:1068 private", "redis-cli INFO commandstats | grep tags"]);
    found
}

/// One toggle: whether the collection is to be private.
pub fn request(collection: u64, private: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let command: &[u8] = if private { b"TAGS.ADD" } else { b"TAGS.REM" };
    let id = format!("coll:{collection}");
    encode(&mut out, &[command, KEY, b"TAG", id.as_bytes(), b"private"]);
    out
}

/// Microseconds of a toggle. Afterwards everything is as it was.
pub fn toggles(server: &Server, archive: &Archive, order: u64) -> f64 {
    let mut rng = Rng::seeded(archive.seed ^ order);
    let mut connection = Connection::unix(server);
    Spent::reset(server);
    for _ in 0..TOGGLES / 2 {
        let collection = rng.pick(&archive.collections);
        for private in [!collection.private, collection.private] {
            connection.send(&request(collection.id, private));
            connection.read(1, |_| ());
        }
    }
    let spent = Spent::since_reset(server);
    assert_eq!(spent.calls("TAGS.ADD") + spent.calls("TAGS.REM"), TOGGLES);
    spent.micros(&["TAGS.ADD", "TAGS.REM"]) / TOGGLES as f64
}

/// Microseconds of a batch right after a toggle, and of one without.
fn filters(server: &Server, archive: &Archive, pairs: u64) -> [f64; 2] {
    let blob = archive.blob(BATCH, Capture::cdx);
    let all = space::filter(
        &[b"POINT", b"all", b"FORMAT", b"CDX", b"RETURN", b"BITS"],
        &blob,
    );
    let mut connection = Connection::unix(server);
    let (_, mut before) = space::call(&mut connection, &all);
    let (mut after, mut without) = <(Series, Series)>::default();
    let mut wire = server.wire();
    for n in 0..pairs {
        // A collection that some capture of the batch is of.
        let file = archive.capture(n).filename;
        let of = |c: &&super::corpus::Collection| file.contains(&format!("ARCHIVEIT-{}-", c.id));
        let Some(collection) = archive.collections.iter().find(of) else {
            continue;
        };
        for private in [!collection.private, collection.private] {
            let (cost, bits) = cost_of_one(server, &mut connection, &all);
            without.0.push(cost.server * 1e6);
            assert!(bits == before, "without a toggle nothing changes");
            let tag = format!("coll:{}", collection.id);
            let change = if private { "TAGS.ADD" } else { "TAGS.REM" };
            assert_eq!(ok!(wire, change, KEY, "TAG", tag, "private").int(), 1);
            let (cost, bits) = cost_of_one(server, &mut connection, &all);
            after.0.push(cost.server * 1e6);
            let fewer = kept(&bits) < kept(&before);
            assert!(
                bits != before && fewer == private,
                "the toggle holds at once"
            );
            before = bits;
        }
    }
    [after.median(), without.median()]
}
