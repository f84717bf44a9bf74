//! C6: a growing packed frontier of many groups with stored URIs, and a frontier on plain keys.

use std::time::Duration;

use redis_tests::{Options, Server, ok};

use super::commands;
use super::hosts::Hosts;
use super::known;
use super::packing;
use super::saturated::{WORKERS, our_pages};
use super::{packed_options, queued, quiet};
use crate::Plan;
use crate::chart::Chart;
use crate::dedupe::{Footprint, rdb_bytes, reset};
use crate::load::Feeder;
use crate::machine::cpu_seconds;
use crate::report::{Findings, Section, note, say, table};
use crate::series::{Series, grouped, time};
use crate::targets;
use crate::told::Spent;

/// Number of groups with `--scale`, unless the run specifies another number.
const GROUPS: u64 = 10_000_000;
/// Number of groups without `--scale`, and of the second size with it.
const MANY: u64 = 1_000_000;
/// Number of stored URIs per group.
pub const URIS: u64 = 10;

/// Timeout for saving or loading 10⁸ URIs, which takes several minutes.
pub const TIMEOUT: Duration = Duration::from_secs(600);

/// Results for one size.
struct Stop {
    groups: u64,
    /// Bytes per URI, including the URI's share of its group.
    used: f64,
    resident: f64,
    /// Size of the RDB file in bytes.
    file: f64,
    /// Seconds from the start of loading the file to its end.
    wall: Series,
    /// CPU time to load the file, in seconds.
    load: Series,
    /// Server time per page, in microseconds.
    pages: Series,
    /// CPU time of the server per page, in microseconds.
    processor: Series,
}

/// Measures a packed frontier of up to a million groups.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let all = plan.scaled(MANY);
    let (found, _) = grow(plan, hosts, &[all / 10, all], "C6");
    found
}

/// Measures a packed frontier with the number of groups in the plan.
pub fn scale(plan: &Plan) -> Section {
    let hosts = Hosts { seed: plan.seed };
    let all = plan.scaled(plan.scale.unwrap_or(GROUPS));
    let found = plan.findings(&[
        ("C6", &|| frontiers(plan, &hosts, all)),
        ("C7", &|| {
            let groups = all / 10;
            packing::measure(plan, &hosts, groups, &format!("C7 SCALE={all}"))
        }),
        ("K1", &|| known::memory(&hosts, all * URIS)),
    ]);
    Section {
        title: "CHG at scale",
        method: format!(
            include_str!("scale/method.md"),
            groups = grouped(all),
            uris = URIS,
            seed = plan.seed
        ),
        found,
    }
}

/// Measures a packed frontier that grows to a number of groups.
fn frontiers(plan: &Plan, hosts: &Hosts, all: u64) -> Findings {
    let command = format!("chg SCALE={all}");
    let (mut found, stops) = grow(plan, hosts, &[all / 100, all / 10, all], &command);
    found.chart(Chart {
        name: "scale-frontier",
        title: "Time and memory of a packed frontier by the number of its groups".into(),
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
    found
}

/// Grows a packed frontier to each of the sizes, and a frontier on plain keys to the first size.
/// Returns the rows and the results for the packed frontier. `only` is the argument of `make bench`
/// that repeats the run.
fn grow(plan: &Plan, hosts: &Hosts, sizes: &[u64], only: &str) -> (Findings, Vec<Stop>) {
    let plain = stops(
        plan,
        hosts,
        "plain keys",
        redis_tests::simulated(),
        &sizes[..1],
    );
    let packed = stops(plan, hosts, "packed", packed_options(), sizes);
    let (plain, few) = (&plain[0], &packed[0]);
    let many = packed.last().expect("at least one size");
    let (groups, before) = (grouped(many.groups), format!("at {}", grouped(few.groups)));
    let beside = format!("plain keys at {}", grouped(plain.groups));
    let bytes = |bytes: f64| format!("{bytes:.1} B");
    let micros = |micros: f64| format!("{micros:.2} µs");
    let [load, few_load, plain_load] = [many, few, plain].map(|stop| stop.each(&stop.load));
    let mut found = Findings::default();
    table! { found;
        "C6", format!("memory per kept URI at {groups} groups, packed: growth of `used_memory`"), &before,
            bytes(many.used), bytes(few.used), many.used / few.used, targets::FRONTIER_MEMORY;
        "C6", format!("memory per kept URI at {groups} groups, packed"), &beside,
            bytes(many.used), bytes(plain.used), many.used, targets::FRONTIER_URI;
        "C6", format!("`RELEASE … DONE … NEXT` at {groups} groups, packed, server time"), &before,
            many.pages.shown(micros), few.pages.shown(micros), many.pages.over(&few.pages), targets::FRONTIER_PAGE;
        "C6", format!("RDB file per URI at {groups} groups, packed"), &beside,
            bytes(many.file), bytes(plain.file), many.file / plain.file, targets::FRONTIER_FILE;
        "C6", format!("processor time to load a URI at {} groups, packed", grouped(few.groups)), &beside,
            few_load.shown(nanos), plain_load.shown(nanos), few_load.over(&plain_load), targets::FRONTIER_LOAD;
        "C6", format!("processor time to load a URI at {groups} groups, packed"), &beside,
            load.shown(nanos), plain_load.shown(nanos), load.over(&plain_load), targets::FRONTIER_LOAD;
    }
    let line = |(storage, stop): (&str, &Stop)| {
        let cells = [
            storage.to_owned(),
            grouped(stop.groups),
            grouped(stop.groups * URIS),
            bytes(stop.used),
            bytes(stop.resident),
            bytes(stop.file),
            stop.wall.shown(time),
            stop.load.shown(time),
            stop.pages.shown(micros),
            stop.processor.shown(micros),
        ];
        format!("| {} |", cells.join(" | "))
    };
    let all = packed.iter().map(|stop| ("packed", stop));
    let lines: Vec<String> = [("plain", plain)]
        .into_iter()
        .chain(all)
        .map(line)
        .collect();
    note!(found, "scale.md"; lines = lines.join("\n"), workers = WORKERS, only = only);
    (found, packed)
}

/// Grows a frontier on a server with these options, and returns the results for each size.
fn stops(plan: &Plan, hosts: &Hosts, storage: &str, options: Options, sizes: &[u64]) -> Vec<Stop> {
    let mut server = quiet(options.timeout(TIMEOUT));
    let empty = Footprint::of(&server);
    let starting = cpu_seconds(server.pid());
    let mut there = 0;
    let stop = |&groups: &u64| {
        say(&format!("C6: {} groups, {storage}", grouped(groups)));
        if there > 0 {
            // The file contains the URIs that were fetched at the last size.
            reset(&mut server);
        }
        fill(&server, hosts, there..groups);
        there = groups;
        Stop::at(plan, &mut server, (empty, starting), groups)
    };
    sizes.iter().map(stop).collect()
}

/// Adds groups with [`URIS`] stored URIs each.
pub fn fill(server: &Server, hosts: &Hosts, groups: std::ops::Range<u64>) {
    let before = queued(server);
    let mut feeder = Feeder::new(server);
    for chg in groups.clone() {
        commands::keep(&mut feeder, hosts, chg, URIS);
    }
    feeder.finish();
    let new = groups.end - groups.start;
    assert_eq!(queued(server) - before, new * URIS, "every URI is new");
}

impl Stop {
    /// Measures a server with this number of groups. `empty` is the memory of the empty server, and
    /// `starting` the CPU time of its start. Each repetition loads the saved file.
    fn at(
        plan: &Plan,
        server: &mut Server,
        (empty, starting): (Footprint, f64),
        groups: u64,
    ) -> Stop {
        let uris = queued(server);
        let grown = Footprint::of(server).since(empty, uris);
        ok!(server.wire(), "SAVE");
        let file = rdb_bytes(server) as f64 / uris as f64;
        let [mut wall, mut load, mut pages, mut processor] = [(); 4].map(|()| Series::default());
        for _ in 0..plan.reps {
            wall.push(reset(server));
            load.push(cpu_seconds(server.pid()) - starting);
            assert_eq!(queued(server), uris);
            Spent::reset(server);
            let run = our_pages(server, plan.span());
            pages.push(Spent::since_reset(server).each("chg.release"));
            processor.push(1e6 * run.busy / run.rate);
        }
        Stop {
            groups,
            used: grown.used,
            resident: grown.resident,
            file,
            wall,
            load,
            pages,
            processor,
        }
    }

    /// Converts totals of the frontier to averages per URI.
    fn each(&self, figures: &Series) -> Series {
        let uris = (self.groups * URIS) as f64;
        figures.0.iter().map(|figure| figure / uris).collect()
    }
}

/// Formats seconds as nanoseconds.
fn nanos(seconds: f64) -> String {
    format!("{:.0} ns", 1e9 * seconds)
}
