//! Rows and notes about an index of many hashes.

use super::end::End;
use super::{CRAWLS, Stop, billion};
use crate::Plan;
use crate::chart::Chart;
use crate::others::{MEANWHILE, RATE};
use crate::report::{Findings, Goal, Section, note, table};
use crate::series::{Series, grouped, rate, time};
use crate::targets;

/// Returns the section.
pub fn section(plan: &Plan, stops: &[Stop], end: &End) -> Section {
    let mut found = rows(stops, end);
    let (few, many) = (&stops[0], &stops[stops.len() - 1]);
    let micros = |series: &Series| 1e6 / series.median();
    let lines: Vec<String> = stops.iter().map(line).collect();
    let hashes = end.hashes;
    note!(found, "sizes.md"; lines = lines.join("\n"), hashes = hashes);
    note!(found, "growth.md";
        parts = end.parts, few = grouped(few.hashes), many = grouped(many.hashes), hashes = hashes,
        few_lookup = micros(&few.lookups), many_lookup = micros(&many.lookups),
        few_hget = micros(&few.hgets), many_hget = micros(&many.hgets));
    let line = |name: &str, figure: &dyn Fn(&Stop) -> f64| {
        (name.to_owned(), stops.iter().map(figure).collect())
    };
    let places: Vec<String> = stops.iter().map(|stop| grouped(stop.hashes)).collect();
    let bytes = |bytes: f64, stop: &Stop| bytes / stop.hashes as f64;
    found.chart(Chart {
        name: "scale-memory",
        title: "Memory of a hash by the number of hashes".into(),
        unit: "bytes",
        places: places.clone(),
        lines: vec![
            line("packed, used_memory", &|stop| bytes(stop.grown.used, stop)),
            line("packed, the process", &|stop| {
                bytes(stop.grown.resident, stop)
            }),
            line("allhashes alone", &|stop| bytes(stop.owners.used, stop)),
        ],
        is_logarithmic: false,
    });
    found.chart(Chart {
        name: "scale-lookups",
        title: "Look-ups by the number of hashes".into(),
        unit: "thousands a second",
        places,
        lines: vec![
            line("LOOKUP, packed", &|stop| stop.lookups.median() / 1e3),
            line("HGET", &|stop| stop.hgets.median() / 1e3),
            line("LOOKUP, 100 a call", &|stop| stop.hundreds.median() / 1e3),
        ],
        is_logarithmic: false,
    });
    let each = |figure: f64| figure / hashes as f64;
    note!(found, "file.md";
        hashes = grouped(hashes), file = end.file / 1e6, file_each = each(end.file), save = time(end.save),
        load = time(end.load), load_each = 1e9 * each(end.load), loaded = each(end.loaded.resident),
        crawl = grouped(end.meanwhile), forked = end.forked / 1e6, fork = time(end.fork), commit = time(end.commit),
        copied = end.copied / 1e6, rate = RATE, removal = end.removal.seconds.shown(time),
        during = end.removal.during(), idle = end.removal.idle(), number = hashes);
    billion::add_to(&mut found, stops, end);
    Section {
        title: "DEDUPE at scale",
        method: format!(
            include_str!("method.md"),
            hashes = grouped(hashes),
            crawls = CRAWLS,
            seed = plan.seed,
        ),
        found,
    }
}

fn rows(stops: &[Stop], end: &End) -> Findings {
    let mut found = Findings::default();
    let (first, last) = (&stops[0], &stops[stops.len() - 1]);
    let size = grouped(last.hashes);
    let before = format!("at {}", grouped(first.hashes));
    let bytes = |bytes: f64| format!("{bytes:.1} B");
    let each = |bytes: f64, stop: &Stop| bytes / stop.hashes as f64;
    for (what, figure) in [
        ("`used_memory`", [last.grown.used, first.grown.used]),
        ("the process", [last.grown.resident, first.grown.resident]),
    ] {
        let [now, then] = [each(figure[0], last), each(figure[1], first)];
        table! { found;
            "D6", format!("memory per hash at {size}, packed: growth of {what}"), &before, bytes(now), bytes(then),
                now, targets::MEMORY;
        }
    }
    let nanos = |nanos: f64| format!("{nanos:.0} ns");
    let slice = |ms: f64| time(ms / 1e3);
    let removed = &end.removal.seconds;
    table! { found;
        "D1", format!("`LOOKUP` of one hash, pipeline depth 32, packed, {size}"), "one plain `HGET` on a hash with as many fields",
            last.lookups.shown(rate), last.hgets.shown(rate), last.lookups.over(&last.hgets), targets::LOOKUP_PACKED_LARGE;
        "D5", format!("`COMMIT` per hash, at {size}"), before, last.commits.shown(nanos), first.commits.shown(nanos),
            last.commits.median() / first.commits.median(), Goal::Known;
        "D5", "longest slice while the index was filled", "–", slice(last.slice), "", last.slice, targets::COMMIT_SLICE;
        "D8", format!("`REMOVE` of {} hashes", grouped(end.removed.unsigned_abs())), "–", removed.shown(time), "",
            removed, Goal::Told("s");
        "D8", "longest slice of loading, committing while a child saves, and removing", "–", slice(end.slice), "",
            end.slice, targets::REMOVE_SLICE;
        "D8", MEANWHILE, "–", end.removal.during(), "", end.removal.above_idle(), targets::REMOVE_OTHERS;
    }
    found
}

/// Returns a line of the table of sizes.
fn line(stop: &Stop) -> String {
    let bytes = |bytes: f64| format!("{:.1} B", bytes / stop.hashes as f64);
    let with_range = |series: &Series, digits: usize, unit: &str| {
        let [median, low, high] = [series.median(), series.low(), series.high()];
        format!("{median:.digits$} {unit} ({low:.digits$}–{high:.digits$})")
    };
    let cells = [
        grouped(stop.hashes),
        bytes(stop.grown.used),
        bytes(stop.grown.resident),
        bytes(stop.owners.used),
        stop.lookups.shown(rate),
        stop.hgets.shown(rate),
        with_range(&stop.lookups.over(&stop.hgets), 2, "×"),
        stop.hundreds.shown(rate),
        with_range(&stop.commits, 0, "ns"),
        time(stop.slice / 1e3),
    ];
    format!("| {} |", cells.join(" | "))
}
