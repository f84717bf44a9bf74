//! `CHG.*` compared with the scripts of Veidemann's frontier and with atomic scripts: C0 to C7.

mod commands;
mod cost;
mod cycle;
mod grpc;
mod hosts;
mod instructions;
mod jobs;
mod known;
mod log;
mod longest;
mod memory;
mod packing;
mod pauses;
mod saturated;
mod scale;
mod steps;
mod sweep;
mod veidemann;
mod wakeup;

use redis_tests::{Options, Server, ok};

use crate::Plan;
use crate::report::Section;
use crate::series::grouped;
use hosts::Hosts;

pub use scale::scale;

/// Measures the family.
pub fn measure(plan: &Plan) -> Section {
    let hosts = Hosts { seed: plan.seed };
    let found = plan.findings(&[
        ("C0", &|| instructions::measure(plan, &hosts)),
        ("C1", &|| cycle::measure(plan, &hosts)),
        ("C2", &|| cost::measure(plan, &hosts)),
        ("C3", &|| sweep::measure(plan, &hosts)),
        ("C4", &|| wakeup::measure(plan, &hosts)),
        ("C5", &|| saturated::measure(plan, &hosts)),
        ("C6", &|| scale::measure(plan, &hosts)),
        ("C7", &|| {
            packing::measure(plan, &hosts, plan.scaled(100_000), "C7")
        }),
        ("K1", &|| known::measure(plan, &hosts)),
        ("G1", &|| grpc::measure(plan)),
        ("slices", &|| jobs::measure(plan, &hosts)),
        ("commands", &|| longest::measure(plan, &hosts)),
        ("uris", &|| memory::measure(plan, &hosts)),
        ("log", &|| log::measure(plan, &hosts)),
        ("pauses", &|| pauses::measure(plan, &hosts)),
    ]);
    let groups = grouped(plan.scaled(1_000_000));
    Section {
        title: "CHG",
        method: format!(include_str!("method.md"), seed = plan.seed, groups = groups),
        found,
    }
}

/// A server with the module and one without it.
struct Scene {
    ours: Server,
    plain: Server,
}

impl Scene {
    fn empty() -> Scene {
        Scene {
            ours: ours(),
            plain: quiet(Options::new().no_module()),
        }
    }

    /// Deletes all data on both servers.
    fn clear(&self) {
        for server in [&self.ours, &self.plain] {
            ok!(server.wire(), "FLUSHALL", "SYNC");
        }
    }
}

/// Starts a server with the module.
fn ours() -> Server {
    quiet(redis_tests::simulated())
}

/// Starts a server with the module that packs frontiers.
fn packed() -> Server {
    quiet(packed_options())
}

/// Returns the options of a server with the module that packs frontiers.
fn packed_options() -> Options {
    let args = ["chg-simulated-time", "yes", "chg-storage", "packed"];
    Options::new().module_args(&args)
}

fn quiet(options: Options) -> Server {
    options.args(&["--hz", "10"]).start()
}

/// Returns `QCT`, the number of queued URIs.
fn queued(server: &Server) -> u64 {
    let mut wire = server.wire();
    if ok!(wire, "TYPE", "chg_packed").text() != "none" {
        return ok!(wire, "CHG.INFO", "").field("uris").int() as u64;
    }
    let value = ok!(wire, "GET", "QCT");
    if value.is_nil() {
        return 0;
    }
    value.text().parse().expect("QCT is a number")
}
