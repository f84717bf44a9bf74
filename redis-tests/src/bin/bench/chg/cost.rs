//! C2: server time for adding, leasing and releasing a group, at several sizes of the frontier.

use super::Scene;
use super::hosts::Hosts;
use super::steps::{Bench, Cost, Kind};
use crate::Plan;
use crate::report::{Findings, Goal, note, table};
use crate::series::{Series, grouped};
use crate::targets;

/// Measured steps, in the order in which they run.
const STEPS: [&str; 4] = [
    "`ADD`, new group",
    "`ADD`, known group",
    "`NEXT`",
    "`RELEASE`",
];

/// Performance targets of each step, as ratios to Veidemann's commands and to the atomic scripts.
const TARGETS: [[Goal; 2]; 4] = [
    [targets::ADD_SEED, targets::ADD_SCRIPT],
    [targets::ADD_SEED, targets::ADD_SCRIPT],
    [targets::NEXT_SEED, targets::NEXT_SCRIPT],
    [targets::RELEASE_SEED, targets::RELEASE_SCRIPT],
];

/// Measures all three clients with all sizes.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let sizes = [5_000, plan.scaled(100_000), plan.scaled(1_000_000)];
    let scene = Scene::empty();
    let mut costs = [(); 3].map(|()| [(); 3].map(|()| <[Costs; 4]>::default()));
    let mut swept = Costs::default();
    for rep in 1..=plan.reps {
        for (size, costs) in sizes.iter().zip(&mut costs) {
            crate::report::say(&format!(
                "C2: {} groups ({rep}/{})",
                grouped(*size),
                plan.reps
            ));
            for (kind, costs) in [Kind::Ours, Kind::Seed, Kind::Atomic].iter().zip(costs) {
                let server = if *kind == Kind::Ours {
                    &scene.ours
                } else {
                    &scene.plain
                };
                let (once, sweep) = Bench::on(*kind, server, hosts).run(*size);
                for (costs, cost) in costs.iter_mut().zip(once) {
                    costs.push(cost);
                }
                if *kind == Kind::Seed && *size == sizes[1] {
                    swept.push(sweep);
                }
            }
        }
    }
    findings(&sizes, &costs, &swept)
}

/// Costs of one step, measured several times.
#[derive(Default)]
struct Costs {
    commands: Series,
    processor: Series,
}

impl Costs {
    fn push(&mut self, cost: Cost) {
        self.commands.push(cost.commands);
        self.processor.push(cost.processor);
    }

    /// Formats the cost: `4.10 µs (12.9)`.
    fn text(&self) -> String {
        let [commands, processor] = [&self.commands, &self.processor].map(Series::median);
        format!("{commands:.2} µs ({processor:.1})")
    }
}

fn findings(sizes: &[u64; 3], costs: &[[[Costs; 4]; 3]; 3], swept: &Costs) -> Findings {
    let mut found = Findings::default();
    let [ours, seed, lua] = &costs[1];
    let [few, some, many] = sizes.map(grouped);
    let (mut others, mut ratios) = (Vec::new(), Vec::new());
    for (step, what) in STEPS.iter().enumerate() {
        let (ours, seed, lua) = (&ours[step], &seed[step], &lua[step]);
        let [of_seed, of_lua] = TARGETS[step];
        let what_at = format!("{what}, server time at {some} groups");
        table! { found;
            "C2", &what_at, "Veidemann's script and commands, by processor time", ours.text(), seed.text(),
                ours.processor.over(&seed.processor), of_seed;
            "C2", what_at, "one atomic Lua script, by `commandstats`", ours.text(), lua.text(),
                ours.commands.over(&lua.commands), of_lua;
        }
        let ratio = ours.commands.over(&seed.commands);
        ratios.push(format!("{:.2} for {what}", ratio.median()));
    }
    for (step, what) in STEPS.iter().enumerate() {
        let medians = |kind: usize| [0, 2].map(|size| costs[size][kind][step].commands.median());
        let shown = |kind| {
            let [small, large] = medians(kind);
            format!("{small:.2} → {large:.2} µs")
        };
        // Additional time for the larger frontier, in microseconds.
        let [ours, _, lua] = [0, 1, 2].map(|kind| medians(kind)[1] - medians(kind)[0]);
        table! { found;
            "C2", format!("{what}, time added by {many} groups instead of {few}"), "one atomic Lua script",
                shown(0), shown(2), ours.max(0.0) / lua.max(0.01), targets::GROWTH;
        }
        others.push(format!("{} for {what}", shown(1)));
    }
    note!(found, "cost.md"; ratios = ratios.join("; "), swept = swept.commands.median());
    note!(found, "growth.md"; others = others.join("; "));
    found
}
