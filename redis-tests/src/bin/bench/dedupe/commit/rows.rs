//! Rows and notes about commits.

use super::Measured;
use crate::chart::Chart;
use crate::others::{Long, MEANWHILE, RATE, WAITS};
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, time};
use crate::targets;

/// Returns the rows and paragraphs.
pub fn findings(of: &Measured) -> Findings {
    let mut found = Findings::default();
    let script = "one Lua script";
    let lua = &of.lua;
    let storages = ["plain keys", "packed"];
    let what =
        storages.map(|storage| format!("`COMMIT` of {} k hashes, {storage}", of.size / 1000));
    let [plain, packed] = &of.ours;
    let mut row = |what: String, against: &str, mine: &Series, theirs: &Series, goal| {
        table! { found; "D5", what, against, mine.shown(time), theirs.shown(time), theirs.over(mine), goal; }
    };
    for (what, ours) in what.iter().zip(&of.ours) {
        let client: Series = ours.alone.0.iter().map(|_| of.client).collect();
        let seconds = [&ours.loaded.seconds, &lua.loaded.seconds];
        for (what, against, [mine, theirs], goal) in redis_tests::rows![
            what.clone(), "the documented client loop, loopback TCP", [&ours.alone, &client], targets::COMMIT_CLIENT;
            format!("{what}, no other clients"), script, [&ours.alone, &lua.alone], targets::COMMIT_SCRIPT;
            "the same, processor time of the server".into(), script, [&ours.cpu, &lua.cpu], Goal::Known;
            format!("{what}, other clients send {RATE} requests per second"), script, seconds, targets::COMMIT_LOADED;
        ] {
            row(what, against, mine, theirs, goal);
        }
    }
    let on_plain = "`COMMIT` on plain keys";
    row(
        what[1].clone(),
        on_plain,
        &packed.alone,
        &plain.alone,
        targets::COMMIT_PACKED,
    );
    let loaded = format!("{}, other clients send {RATE} requests per second", what[1]);
    row(
        loaded,
        on_plain,
        &packed.loaded.seconds,
        &plain.loaded.seconds,
        Goal::Known,
    );
    for (storage, ours) in storages.iter().zip(&of.ours) {
        table! { found;
            "D5", format!("longest slice, {storage}"), script, ours.slice(), lua.alone.shown(time),
                &ours.slices, targets::COMMIT_SLICE;
            "D5", MEANWHILE.replace(':', &format!(", {storage}:")), script,
                ours.loaded.during(), lua.loaded.during(), ours.loaded.above_idle(), targets::COMMIT_OTHERS;
        }
    }
    let each = |series: &Series| 1e6 * series.median() / of.size as f64;
    note!(found, "duration.md";
        client = 1e6 * of.client / of.size as f64, script = lua.alone.shown(time),
        plain = each(&plain.alone), packed = each(&packed.alone));
    let said = |figures: &Long| {
        let (loaded, alone) = (
            figures.loaded.seconds.shown(time),
            figures.alone.shown(time),
        );
        let (during, slice) = (figures.loaded.during(), figures.slices.high());
        format!("{loaded} instead of {alone}, waits of {during}, longest slice {slice:.2} ms")
    };
    note!(found, "others.md";
        rate = RATE, idle = plain.loaded.idle(), script = lua.loaded.during(),
        plain = said(plain), packed = said(packed), stall = 1e3 * of.stall);
    found.chart(Chart {
        name: "commit",
        title: "Waits of other clients during a commit, by share of requests".into(),
        unit: "ms",
        places: WAITS.map(|(name, _)| name.to_owned()).to_vec(),
        lines: [
            ("COMMIT, plain keys", plain),
            ("COMMIT, packed", packed),
            ("one Lua script", lua),
        ]
        .map(|(name, figures)| (name.to_owned(), figures.loaded.waits()))
        .to_vec(),
        is_logarithmic: true,
    });
    found
}
