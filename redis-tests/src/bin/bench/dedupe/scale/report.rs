//! What is said of an index of many hashes.

use std::fmt::Write as _;

use super::end::End;
use super::{CRAWLS, Stop, billion};
use crate::Plan;
use crate::others::{Loaded, RATE};
use crate::report::{Findings, Goal, Row, Section};
use crate::series::{Series, grouped, rate, time};

/// The section.
pub fn section(plan: &Plan, stops: &[Stop], end: &End) -> Section {
    let mut found = rows(stops, end);
    let repeat = format!("make bench SCALE={}", end.hashes);
    let repeat = &[&repeat[..]];
    found.note("By size.", sizes(stops), repeat);
    let (first, last) = (&stops[0], &stops[stops.len() - 1]);
    found.note("Growth.", format!(
        "Memory is growth since the server was empty; {} The table grows by splitting one small part of itself at a time, \
         and each crawl has chunks of its own. The larger the index, the less of the memory that a request touches is in the \
         processor's caches and in its table of pages: a look-up, which touches two places, takes {:.2} µs at {} hashes and \
         {:.2} µs at {}; an `HGET`, which touches four, {:.2} and {:.2} µs.",
        end.parts,
        1e6 / first.lookups.median(), grouped(first.hashes), 1e6 / last.lookups.median(), grouped(last.hashes),
        1e6 / first.hgets.median(), 1e6 / last.hgets.median(),
    ), repeat);
    found.note("File, fork, removal.", format!(
        "The RDB file of {} hashes has {:.0} MB, {:.1} B a hash; `SAVE` wrote it in {}, and the server loaded it in {}, {:.0} ns a \
         hash, after which the process had grown by {:.1} B a hash. Then a crawl of {} hashes was committed while a child saved: \
         the fork of {:.0} MB took {}, the commit {}, and {:.0} MB of pages were copied. Then crawls were removed \
         while others asked {RATE} times a second: {} each, others waited {}, and {} when nothing ran.",
        grouped(end.hashes), end.file / 1e6, end.file / end.hashes as f64, time(end.save), time(end.load),
        1e9 * end.load / end.hashes as f64, end.loaded.resident / end.hashes as f64,
        grouped(end.meanwhile), end.forked / 1e6, time(end.fork), time(end.commit), end.copied / 1e6,
        time(end.removal.seconds.median()),
        Loaded::quantiles(&end.removal.during), Loaded::quantiles(&end.removal.idle),
    ), repeat);
    found.note(
        "A thousand million hashes.",
        billion::paragraph(stops, end),
        repeat,
    );
    Section {
        title: "DEDUPE at scale",
        method: format!(
            "One packed index of {} hashes of the corpus above in {CRAWLS} crawls, each written with `DEDUPE.ADD` and \
             committed before the next one begins; seed {}. Beside it a server without the module that has the same \
             `allhashes` and nothing else, for `HGET`. After some of the crawls everything stops and is measured.",
            grouped(end.hashes),
            plan.seed,
        ),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn rows(stops: &[Stop], end: &End) -> Findings {
    let mut found = Findings::default();
    let (first, last) = (&stops[0], &stops[stops.len() - 1]);
    let size = grouped(last.hashes);
    let mut row = |id, what: String, against: &str, ours: String, theirs: String, result, goal| {
        found.rows.push(Row {
            id,
            what,
            against: against.into(),
            ours,
            theirs,
            result,
            goal,
        });
    };
    let each = |bytes: f64, stop: &Stop| bytes / stop.hashes as f64;
    for (what, figure) in [
        ("`used_memory`", [last.grown.used, first.grown.used]),
        ("the process", [last.grown.resident, first.grown.resident]),
    ] {
        let [now, then] = [each(figure[0], last), each(figure[1], first)];
        row(
            "D6",
            format!("memory per hash at {size}, packed: growth of {what}"),
            &format!("at {}", grouped(first.hashes)),
            format!("{now:.1} B"),
            format!("{then:.1} B"),
            Series(vec![now]),
            Goal::AtMost(80.0, "B"),
        );
    }
    row(
        "D1",
        format!("`LOOKUP` of one hash, pipelined by 32, packed, {size}"),
        "one plain `HGET` of as many",
        rate(last.lookups.median()),
        rate(last.hgets.median()),
        last.lookups.over(&last.hgets),
        Goal::AtLeast(1.1),
    );
    let nanos = |series: &Series| format!("{:.0} ns", series.median());
    row(
        "D5",
        format!("`COMMIT`, a hash, at {size}"),
        &format!("at {}", grouped(first.hashes)),
        nanos(&last.commits),
        nanos(&first.commits),
        Series(vec![last.commits.median() / first.commits.median()]),
        Goal::Known,
    );
    row(
        "D5",
        "longest slice while it was filled".into(),
        "–",
        time(last.slice / 1e3),
        String::new(),
        Series(vec![last.slice]),
        Goal::Never(1.0, "ms"),
    );
    row(
        "D8",
        format!("`REMOVE` of {} hashes", grouped(end.removed.unsigned_abs())),
        "–",
        time(end.removal.seconds.median()),
        String::new(),
        end.removal.seconds.clone(),
        Goal::Told("s"),
    );
    row(
        "D8",
        "longest slice of loading, committing while a child saves, and removing".into(),
        "–",
        time(end.slice / 1e3),
        String::new(),
        Series(vec![end.slice]),
        Goal::Never(1.0, "ms"),
    );
    row(
        "D8",
        "others meanwhile: p50 / p99 / p99.9; p99.9 above idle".into(),
        "–",
        Loaded::quantiles(&end.removal.during),
        String::new(),
        end.removal.above_idle(),
        Goal::AtMost(3.0, "ms"),
    );
    found
}

/// A table with a line for each size.
fn sizes(stops: &[Stop]) -> String {
    let mut text = String::from(
        "Rates are medians; a commit's time is that of the crawls since the size before.\n\n\
         | hashes | `used_memory` a hash | process a hash | `allhashes` alone | `LOOKUP` | `HGET` | ratio | 100 a call | \
         `COMMIT` a hash | longest slice so far |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for stop in stops {
        let bytes = |bytes: f64| format!("{:.1} B", bytes / stop.hashes as f64);
        let ratio = stop.lookups.over(&stop.hgets);
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.2} × ({:.2}–{:.2}) | {} | {:.0} ns ({:.0}–{:.0}) | {} |",
            grouped(stop.hashes),
            bytes(stop.grown.used),
            bytes(stop.grown.resident),
            bytes(stop.owners.used),
            rate(stop.lookups.median()),
            rate(stop.hgets.median()),
            ratio.median(),
            ratio.low(),
            ratio.high(),
            rate(stop.hundreds.median()),
            stop.commits.median(),
            stop.commits.low(),
            stop.commits.high(),
            time(stop.slice / 1e3),
        );
    }
    text
}
