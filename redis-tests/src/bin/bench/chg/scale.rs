//! C6: a growing frontier of many groups, each with kept URIs.

use std::time::Duration;

use redis_tests::{Server, ok};

use super::commands;
use super::hosts::Hosts;
use super::saturated::{WORKERS, our_pages};
use super::{queued, quiet};
use crate::Plan;
use crate::chart::Chart;
use crate::dedupe::{Footprint, rdb_bytes, reset};
use crate::load::Feeder;
use crate::report::{Findings, Goal, Section, note, say, table};
use crate::series::{Series, grouped, time};
use crate::targets;
use crate::told::Spent;

/// Number of groups unless the run names another one.
const GROUPS: u64 = 10_000_000;
/// Number of kept URIs per group.
const URIS: u64 = 10;
/// Divisors of the number of groups; at each resulting size, figures are measured.
const STOPS: [u64; 3] = [100, 10, 1];

/// Time limit for saving or loading 10⁸ URIs, which takes several minutes.
const TIMEOUT: Duration = Duration::from_secs(600);

/// Figures at one size.
struct Stop {
    groups: u64,
    /// Bytes per URI, including its share of the group.
    used: f64,
    resident: f64,
    /// Size of the RDB file in bytes, and seconds to load it.
    file: f64,
    load: f64,
    /// Server time per page, in microseconds.
    pages: Series,
}

/// Measures a frontier with the number of groups in the plan.
pub fn measure(plan: &Plan) -> Section {
    let hosts = Hosts { seed: plan.seed };
    let all = plan.scaled(plan.scale.unwrap_or(GROUPS));
    let mut server = quiet(redis_tests::simulated().timeout(TIMEOUT));
    let empty = Footprint::of(&server);
    let mut there = 0;
    let stops = STOPS.map(|share| {
        let groups = all / share;
        say(&format!("scale: {} groups", grouped(groups)));
        fill(&server, &hosts, there..groups);
        there = groups;
        stop(plan, &mut server, empty, groups)
    });
    section(plan, &stops)
}

fn fill(server: &Server, hosts: &Hosts, groups: std::ops::Range<u64>) {
    let before = queued(server);
    let mut feeder = Feeder::new(server);
    for chg in groups.clone() {
        commands::keep(&mut feeder, hosts, chg, URIS);
    }
    feeder.finish();
    let new = groups.end - groups.start;
    assert_eq!(queued(server) - before, new * URIS, "every URI is new");
}

fn stop(plan: &Plan, server: &mut Server, empty: Footprint, groups: u64) -> Stop {
    let uris = queued(server);
    let grown = Footprint::of(server).since(empty, uris);
    ok!(server.wire(), "SAVE");
    let file = rdb_bytes(server) as f64;
    let load = reset(server);
    assert_eq!(queued(server), uris);
    let mut pages = Series::default();
    for _ in 0..plan.reps {
        Spent::reset(server);
        our_pages(server, plan.span());
        pages.push(Spent::since_reset(server).each("chg.release"));
    }
    Stop {
        groups,
        used: grown.used,
        resident: grown.resident,
        file,
        load,
        pages,
    }
}

fn section(plan: &Plan, stops: &[Stop; 3]) -> Section {
    let mut found = Findings::default();
    let [few, _, many] = stops;
    let (groups, before) = (grouped(many.groups), format!("at {}", grouped(few.groups)));
    let bytes = |bytes: f64| format!("{bytes:.1} B");
    let micros = |micros: f64| format!("{micros:.2} µs");
    table! { found;
        "C6", format!("memory per kept URI at {groups} groups: growth of `used_memory`"), &before,
            bytes(many.used), bytes(few.used), many.used / few.used, targets::FRONTIER_MEMORY;
        "C6", format!("`RELEASE … DONE … NEXT` at {groups} groups, server time"), &before,
            many.pages.shown(micros), few.pages.shown(micros), many.pages.over(&few.pages), targets::FRONTIER_PAGE;
        "C6", format!("time to load a URI at {groups} groups"), before, time(each(many.load, many)),
            time(each(few.load, few)), each(many.load, many) / each(few.load, few), Goal::Known;
    }
    let line = |stop: &Stop| {
        let cells = [
            grouped(stop.groups),
            grouped(stop.groups * URIS),
            bytes(stop.used),
            bytes(stop.resident),
            bytes(each(stop.file, stop)),
            time(stop.load),
            stop.pages.shown(micros),
        ];
        format!("| {} |", cells.join(" | "))
    };
    let lines: Vec<String> = stops.iter().map(line).collect();
    note!(found, "scale.md"; lines = lines.join("\n"), workers = WORKERS, groups = many.groups);
    found.chart(Chart {
        name: "scale-frontier",
        title: "A frontier by the number of its groups".into(),
        unit: "bytes a URI; µs a page",
        places: stops.iter().map(|stop| grouped(stop.groups)).collect(),
        lines: vec![
            (
                "memory of a URI".into(),
                stops.iter().map(|stop| stop.used).collect(),
            ),
            (
                "a page".into(),
                stops.iter().map(|stop| stop.pages.median()).collect(),
            ),
        ],
        is_logarithmic: true,
    });
    Section {
        title: "CHG at scale",
        method: format!(
            include_str!("scale/method.md"),
            groups = groups,
            uris = URIS,
            seed = plan.seed
        ),
        found,
    }
}

fn each(figure: f64, stop: &Stop) -> f64 {
    figure / (stop.groups * URIS) as f64
}
