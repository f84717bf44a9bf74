//! `CHG.*` against the seed's scripts, as Veidemann runs them, and against atomic scripts: C1 to C4.

mod atomic;
mod commands;
mod cost;
mod cycle;
mod hosts;
mod memory;
mod steps;
mod sweep;
mod veidemann;
mod wakeup;

use redis_tests::{Options, Server, ok};

use crate::Plan;
use crate::report::{Findings, Section};
use crate::series::grouped;
use hosts::Hosts;

/// What can be measured alone.
pub const PIECES: [&str; 5] = ["C1", "C2", "C3", "C4", "uris"];

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    let hosts = Hosts { seed: plan.seed };
    let mut found = Findings::default();
    let measures = [
        cycle::measure,
        cost::measure,
        sweep::measure,
        wakeup::measure,
        memory::measure,
    ];
    for (piece, measure) in PIECES.iter().zip(measures) {
        if plan.wants(&[piece]) {
            found.extend(measure(plan, &hosts));
        }
    }
    Section {
        title: "CHG",
        method: method(plan),
        rows: found.rows,
        analysis: found.analysis,
    }
}

fn method(plan: &Plan) -> String {
    format!(
        "Groups have ids of 28 bytes, URIs are of some 75 bytes and belong to 3 crawl executions with weights 1, 2 and \
         3; seed {}. Ours runs in a server with the module; the peers run in a server of the same version without it: \
         the seed's scripts and the plain commands around them as Veidemann's frontier sends them (with the one \
         correction that the script which adds puts the group and not the execution into `chg_wait`), and one atomic \
         Lua script for each step. Everything goes over the unix socket. Server time is what `INFO commandstats` says: \
         the time in commands without that of reading requests and writing replies, which makes several small commands \
         look cheaper than they are. The largest frontier has {} groups.",
        plan.seed,
        grouped(plan.scaled(1_000_000)),
    )
}

/// A server with the module and one without.
struct Scene {
    ours: Server,
    plain: Server,
}

impl Scene {
    fn empty() -> Scene {
        let quiet = |options: Options| options.args(&["--hz", "10"]).start();
        Scene {
            ours: quiet(Options::new().module_args(&["chg-simulated-time", "yes"])),
            plain: quiet(Options::new().no_module()),
        }
    }

    /// Forgets all data of both.
    fn clear(&self) {
        for server in [&self.ours, &self.plain] {
            ok!(server.wire(), "FLUSHALL", "SYNC");
        }
    }
}

/// `QCT`: URIs queued.
fn queued(server: &Server) -> u64 {
    let value = ok!(server.wire(), "GET", "QCT");
    if value.is_nil() {
        return 0;
    }
    value.text().parse().expect("QCT is a number")
}
