//! C7: `CHG.PACK` and `CHG.UNPACK` of a frontier.

use std::time::Instant;

use redis_tests::{Server, ok};

use super::hosts::Hosts;
use super::scale::{TIMEOUT, URIS, fill};
use super::{queued, quiet};
use crate::Plan;
use crate::dedupe::Footprint;
use crate::machine::cpu_seconds;
use crate::report::{Findings, note, say, table};
use crate::series::{Series, grouped, rate, time};
use crate::slices::start_anew;
use crate::targets;
use crate::told::slice_longest;

/// Rate of the target, in URIs per second.
const RATE: f64 = 500_000.0;

/// Results of a command.
#[derive(Default)]
struct Figures {
    /// URIs per second.
    rate: Series,
    /// Processor time of the server per URI, in microseconds.
    processor: Series,
    /// Longest slice in milliseconds.
    slice: Series,
    /// Peak memory while the command runs, in percent above that of the plain frontier.
    peak: f64,
}

/// Measures both directions on a frontier of this number of groups. `only` is the argument of `make
/// bench` that repeats the run.
pub fn measure(plan: &Plan, hosts: &Hosts, groups: u64, only: &str) -> Findings {
    let uris = groups * URIS;
    say(&format!("C7: filling {} groups", grouped(groups)));
    let mut server = quiet(redis_tests::simulated().timeout(TIMEOUT));
    let empty = used(&server);
    fill(&server, hosts, 0..groups);
    let mut both = ["PACK", "UNPACK"].map(|command| (command, Figures::default()));
    for _ in plan.repeat("C7: PACK, UNPACK") {
        for (command, figures) in &mut both {
            start_anew(&mut server);
            let processor = cpu_seconds(server.pid());
            let start = Instant::now();
            run(&server, command, groups);
            figures
                .rate
                .push(uris as f64 / start.elapsed().as_secs_f64());
            let processor = cpu_seconds(server.pid()) - processor;
            figures.processor.push(1e6 * processor / uris as f64);
            figures.slice.push(slice_longest(&server));
        }
    }
    say("C7: memory of PACK and UNPACK");
    start_anew(&mut server);
    let mut sizes = vec![used(&server) - empty];
    for (command, figures) in &mut both {
        let peak = peak(&server, || run(&server, command, groups)) - empty;
        figures.peak = 100.0 * (peak / sizes[0] - 1.0);
        sizes.push(Footprint::of(&server).used - empty);
    }
    findings(groups, &sizes, &both, only)
}

/// Runs the command, which must move all groups.
fn run(server: &Server, command: &str, groups: u64) {
    let moved = ok!(server.wire(), format!("CHG.{command}"), "").int();
    assert_eq!(moved, groups as i64, "{command} moves all groups");
    assert_eq!(queued(server), groups * URIS, "{command} loses no URI");
}

/// Runs `work` in another thread, and reads the used memory until it ends. Returns the largest
/// figure.
fn peak(server: &Server, work: impl FnOnce() + Send) -> f64 {
    std::thread::scope(|threads| {
        let thread = threads.spawn(work);
        let mut peak: f64 = 0.0;
        while !thread.is_finished() {
            peak = peak.max(used(server));
        }
        thread.join().expect("the command succeeds");
        peak
    })
}

fn used(server: &Server) -> f64 {
    server.info_number("used_memory") as f64
}

fn findings(groups: u64, sizes: &[f64], both: &[(&str, Figures); 2], only: &str) -> Findings {
    let mut found = Findings::default();
    let uris = grouped(groups * URIS);
    for (command, figures) in both {
        let slice = time(figures.slice.high() / 1e3);
        let peak = format!("{:.1} %", figures.peak);
        table! { found;
            "C7", format!("`CHG.{command}` of {uris} URIs: URIs per second"), "500 000 per second",
                figures.rate.shown(rate), "", figures.rate.over_fixed(RATE), targets::PACKING_RATE;
            "C7", format!("longest slice of `CHG.{command}` of {uris} URIs"), "–",
                slice, "", &figures.slice, targets::FRONTIER_PACKING_SLICE;
            "C7", format!("peak memory during `CHG.{command}` of {uris} URIs"), "above the plain frontier",
                peak, "", figures.peak, targets::PACKING_MEMORY;
        }
    }
    let [pack, unpack] = [0, 1].map(|n| both[n].1.processor.median());
    let [plain, packed] = [0, 1].map(|n| sizes[n] / 1e6);
    note!(found, "packing.md";
        groups = grouped(groups), each = URIS, pack = pack, unpack = unpack, plain = plain,
        packed = packed, only = only);
    found
}
