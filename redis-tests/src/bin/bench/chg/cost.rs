//! C2: what adding, taking and releasing a group costs the server, at several sizes of the frontier.

use super::Scene;
use super::hosts::Hosts;
use super::steps::{Bench, Cost, Kind};
use crate::Plan;
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, grouped};

/// What is measured, in the order in which it is done.
const STEPS: [&str; 4] = [
    "`ADD`, new group",
    "`ADD`, known group",
    "`NEXT`",
    "`RELEASE`",
];

/// Measures all three at all sizes.
pub fn measure(plan: &Plan, hosts: &Hosts) -> Findings {
    let sizes = [5_000, plan.scaled(100_000), plan.scaled(1_000_000)];
    let scene = Scene::empty();
    let mut costs = [(); 3].map(|()| [(); 3].map(|()| <[Costs; 4]>::default()));
    let mut swept = Costs::default();
    for rep in 1..=plan.reps {
        for (size, costs) in sizes.iter().zip(&mut costs) {
            say(&format!(
                "C2: {} groups ({rep}/{})",
                grouped(*size),
                plan.reps
            ));
            for (kind, costs) in [Kind::Ours, Kind::Seed, Kind::Atomic].iter().zip(costs) {
                let server = match kind {
                    Kind::Ours => &scene.ours,
                    _ => &scene.plain,
                };
                let bench = Bench::on(*kind, server, hosts);
                let (once, sweep) = bench.run(*size);
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
        self.commands.0.push(cost.commands);
        self.processor.0.push(cost.processor);
    }

    /// `4.10 µs (12.9)`.
    fn text(&self) -> String {
        let [commands, processor] = [&self.commands, &self.processor].map(Series::median);
        format!("{commands:.2} µs ({processor:.1})")
    }
}

fn findings(sizes: &[u64; 3], costs: &[[[Costs; 4]; 3]; 3], swept: &Costs) -> Findings {
    let mut found = Findings::default();
    let [ours, seed, lua] = &costs[1];
    for (step, what) in STEPS.iter().enumerate() {
        let mut row = |against: &str, peer: &Costs, goal| {
            found.rows.push(Row {
                id: "C2",
                what: format!("{what}, server time at {} groups", grouped(sizes[1])),
                against: against.into(),
                ours: ours[step].text(),
                theirs: peer.text(),
                result: ours[step].commands.over(&peer.commands),
                goal,
            });
        };
        let against_lua = match step {
            2 => Goal::AtMost(0.5, "×"),
            _ => Goal::Known,
        };
        let goal = Goal::AtMost(0.85, "×");
        row("the seed's script and commands", &seed[step], goal);
        row("one atomic Lua script", &lua[step], against_lua);
    }
    let mut others = Vec::new();
    for (step, what) in STEPS.iter().enumerate() {
        let [small, _, large] = [0, 1, 2].map(|size| &costs[size]);
        let shown = |kind: usize| {
            let [small, large] = [small, large].map(|size| size[kind][step].commands.median());
            format!("{small:.2} → {large:.2} µs")
        };
        // What the larger frontier adds, in microseconds.
        let added = |kind: usize| {
            let [small, large] = [small, large].map(|size| size[kind][step].commands.median());
            large - small
        };
        found.rows.push(Row {
            id: "C2",
            what: format!(
                "{what}, what {} groups in place of {} add",
                grouped(sizes[2]),
                grouped(sizes[0])
            ),
            against: "one atomic Lua script".into(),
            ours: shown(0),
            theirs: shown(2),
            result: Series(vec![added(0).max(0.0) / added(2).max(0.01)]),
            goal: Goal::AtMost(1.0, "×"),
        });
        others.push(format!("{what} {}", shown(1)));
    }
    let ratios: Vec<String> = (STEPS.iter().enumerate())
        .map(|(step, what)| {
            let ratio = ours[step].processor.over(&seed[step].processor);
            format!("{what} {:.2}", ratio.median())
        })
        .collect();
    found.note("C2.", format!(
        "Server time is what `INFO commandstats` counts for requests that are sent one by one, as crawlers send them. It \
         leaves out reading requests and writing replies, and so makes four small commands look cheaper than they are; in \
         parentheses is the processor time that the server used in all. Results are our time over theirs by \
         `commandstats`; by processor time they are, against the seed's, {}. Due times are spread over an hour and ids are \
         scattered, so that every step touches memory at random. The seed's `NEXT` is `BRPOP` and a script, its `RELEASE` \
         four commands. Its `NEXT` finds groups only after a sweep, another {:.2} µs a group that are not counted; ours \
         and the atomic script take the head of `chg_wait` themselves, out of the large sorted set. The atomic scripts \
         know nothing of back-off, limits, gates, reports and retries.",
        ratios.join(", "), swept.commands.median(),
    ), &["make bench ONLY=C2", "redis-cli INFO commandstats | grep chg    # usec_per_call, after work of one's own"]);
    found.note("C2, growth.", format!(
        "A larger frontier has deeper sorted sets and lies in memory that no cache holds, whoever works on it. The result is \
         the time that it adds to ours over the time that it adds to the atomic script's. The seed's: {}.",
        others.join(", ")
    ), &["make bench ONLY=C2"]);
    found
}
