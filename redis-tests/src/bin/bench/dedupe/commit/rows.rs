//! What is said of the commits.

use super::{Figures, Measured};
use crate::others::{Loaded, RATE};
use crate::report::{Findings, Goal, Row};
use crate::series::{Series, time};

const LUA: &str = "one Lua script";
const LOOP: &str = "the documented client loop, loopback TCP";
const ON_PLAIN: &str = "`COMMIT` on plain keys";

fn show(series: &Series) -> String {
    time(series.median())
}

/// Rows and paragraphs.
pub fn findings(of: &Measured) -> Findings {
    let mut found = Findings::default();
    durations(of, &mut found);
    for (storage, figures) in [("plain keys", &of.plain), ("packed", &of.packed)] {
        slices(of, storage, figures, &mut found);
    }
    notes(of, &mut found);
    found
}

fn durations(of: &Measured, found: &mut Findings) {
    let what = |storage: &str| format!("`COMMIT` of {} k hashes, {storage}", of.size / 1000);
    let mut row = |what: String, against: &str, [mine, theirs]: [&Series; 2], goal| {
        found.rows.push(Row {
            id: "D5",
            what,
            against: against.into(),
            ours: show(mine),
            theirs: show(theirs),
            result: theirs.over(mine),
            goal,
        });
    };
    for (storage, figures) in [("plain keys", &of.plain), ("packed", &of.packed)] {
        let alone = |peer| [&figures.alone, peer];
        let client: Series = figures.alone.0.iter().map(|_| of.client).collect();
        row(what(storage), LOOP, alone(&client), Goal::AtLeast(12.0));
        row(
            format!("{}, nobody else asks", what(storage)),
            LUA,
            alone(&of.lua.alone),
            Goal::AtLeast(1.0),
        );
        row(
            "the same, processor time of the server".into(),
            LUA,
            [&figures.cpu, &of.lua.cpu],
            Goal::Known,
        );
        row(
            format!("{}, others ask {RATE} times a second", what(storage)),
            LUA,
            [&figures.loaded.seconds, &of.lua.loaded.seconds],
            Goal::AtLeast(0.6),
        );
    }
    row(
        what("packed"),
        ON_PLAIN,
        [&of.packed.alone, &of.plain.alone],
        Goal::AtLeast(1.0),
    );
    row(
        format!("{}, others ask {RATE} times a second", what("packed")),
        ON_PLAIN,
        [&of.packed.loaded.seconds, &of.plain.loaded.seconds],
        Goal::Known,
    );
}

fn slices(of: &Measured, storage: &str, figures: &Figures, found: &mut Findings) {
    let mut row = |what: String, mine: String, theirs: String, result, goal| {
        found.rows.push(Row {
            id: "D5",
            what,
            against: LUA.into(),
            ours: mine,
            theirs,
            result,
            goal,
        });
    };
    row(
        format!("longest slice, {storage}"),
        time(figures.slices.high() / 1e3),
        show(&of.lua.alone),
        figures.slices.clone(),
        Goal::Never(1.0, "ms"),
    );
    row(
        format!("others meanwhile, {storage}: p50 / p99 / p99.9; p99.9 above idle"),
        Loaded::quantiles(&figures.loaded.during),
        Loaded::quantiles(&of.lua.loaded.during),
        figures.loaded.above_idle(),
        Goal::AtMost(3.0, "ms"),
    );
}

fn notes(of: &Measured, found: &mut Findings) {
    let each = |series: &Series| 1e6 * series.median() / of.size as f64;
    found.note("D5, duration.", format!(
        "The crawl is committed into an index of as many hashes, of which it shares 5 %. The documented loop, run once, \
         waits for one reply for each hash ({:.0} µs each, over loopback; over a network several times that). The script saves \
         the round trips, but calls into Redis through its command table for each hash, holds all of them in Lua's \
         memory, and nobody else is served for {}. `COMMIT` on plain keys takes {:.2} µs a hash; it \
         looks each one up and sets it by the low-level key interface, remembers further holders of known hashes, and \
         sends each slice to replicas and the append-only file as plain `HSET`. On a packed index it takes {:.2} µs a hash: \
         it moves the records as well, out of the crawl's plain hash into the value, and what replicas are sent is the \
         hashes alone, since they have the records. Every run starts from a server that has just loaded the data from its \
         RDB file.",
        1e6 * of.client / of.size as f64, show(&of.lua.alone), each(&of.plain.alone), each(&of.packed.alone),
    ), &[
        "make bench ONLY=D5",
        "time redis-cli DEDUPE.COMMIT '' $crawl",
    ]);
    let said = |figures: &Figures| {
        format!(
            "{} in place of {}, others {}, longest slice {:.2} ms",
            show(&figures.loaded.seconds),
            show(&figures.alone),
            Loaded::quantiles(&figures.loaded.during),
            figures.slices.high(),
        )
    };
    found.note("D5, others.", format!(
        "Other clients send {RATE} requests a second, half look-ups, half `GET`, when they are due and not when the last \
         one is answered, so that a pause is charged with all that came in it. Idle, they wait {} (half, 99 %, 99.9 % \
         of them); during the script {}. Slices leave the server to others after every half \
         millisecond of work, and the more others ask the longer the job takes: on plain keys {}; packed {}. A \
         thread that did nothing but look at the clock for two seconds before these runs was kept from it for up to {:.2} ms.",
        Loaded::quantiles(&of.plain.loaded.idle), Loaded::quantiles(&of.lua.loaded.during),
        said(&of.plain), said(&of.packed), 1e3 * of.stall,
    ), &[
        "make bench ONLY=D5",
        "redis-cli --latency-history -i 1    # while another client commits",
        "redis-cli INFO crawlspace | grep slice_longest",
    ]);
}
