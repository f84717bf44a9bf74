//! The effect of the module on the speed of commands that do not use it.

use super::scene::{start_plain, start_plain_storage};
use crate::Plan;
use crate::load::{Batches, line, saturate};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, rate};
use crate::targets;

/// Number of turns per repetition.
const TURNS: usize = 10;

/// Writes that do not use the module: name, command up to the number of the key, rest of the
/// command, and the target for the ratio to the rate without the module.
const WRITES: [(&str, &str, &str, Goal); 5] = [
    ("`SET key:<n>`", "SET key:", " {x:<64}", targets::USED),
    (
        "`SET user:<n>:profile`",
        "SET user:",
        ":profile {x:<64}",
        targets::USED,
    ),
    (
        "`SET users:<n>:sessions`",
        "SET users:",
        ":sessions {x:<64}",
        targets::USED,
    ),
    (
        "`HSET myhash:<n>`",
        "HSET myhash:",
        " field {x:<64}",
        targets::USED,
    ),
    (
        "`HINCRBY h:<crawl>:counts`",
        "HINCRBY h:crawl-",
        ":counts totalUrls 1",
        targets::USED_COUNTS,
    ),
];

/// Measures writes of unrelated clients, and writes of a crawler that updates its own counts.
pub fn measure(plan: &Plan) -> Findings {
    let mut found = Findings::default();
    say("writes of bystanders with and without the module");
    // The servers contain no other data, because such data would compete for the CPU caches.
    let [bare, unused, used] = [start_plain(), start_plain_storage(), start_plain_storage()];
    for command in [&["DEDUPE.BEGIN", "", "crawl"][..], &["CHG.INFO", ""]] {
        used.wire().expect_ok(command);
    }
    let count = plan.scaled(5_000) as usize;
    let mut number = 0u64;
    for (name, before, after, goal) in WRITES {
        let after = after.replace("{x:<64}", &"x".repeat(64));
        let batches = Batches::new(count, 32, |out| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (number >> 40) % 100_000;
            line(out, &format!("{before}{key:06}{after}"));
        });
        let servers = [&bare, &unused, &used];
        let mut rates = [(); 3].map(|()| Series::default());
        // Write all keys once, so that the measured writes create no keys.
        for server in servers {
            saturate(server, &batches, plan.span() / 2, 0);
        }
        // Use short turns, because the load and the clock rate of the machine change within a
        // second, and the differences are only a few percent.
        for rep in 0..plan.reps {
            let mut sums = [0.0; 3];
            for turn in 0..TURNS {
                let first = (rep * TURNS + turn) * batches.len() / (plan.reps * TURNS);
                for (server, sum) in servers.iter().zip(&mut sums) {
                    *sum += saturate(server, &batches, plan.span() / TURNS as u32, first).rate;
                }
            }
            for (rates, sum) in rates.iter_mut().zip(sums) {
                rates.push(sum / TURNS as f64);
            }
        }
        let [bare, unused, used] = &rates;
        let peer = "a server without the module";
        table! { found;
            "D9", format!("{name}, pipeline depth 32, module loaded but not used"), peer,
                unused.shown(rate), bare.shown(rate), unused.over(bare), targets::UNUSED;
            "D9", format!("{name}, pipeline depth 32, module in use"), peer,
                used.shown(rate), bare.shown(rate), used.over(bare), goal;
        }
    }
    note!(found, "bystanders.md");
    found
}
