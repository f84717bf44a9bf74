//! What the module costs commands that do not use it.

use super::scene::Scene;
use crate::Plan;
use crate::load::{Batches, line, saturate};
use crate::report::{Findings, Goal, note, say, table};
use crate::series::{Series, rate};

/// `SET` and `HSET` of clients that have nothing to do with the index.
pub fn measure(plan: &Plan, scene: &Scene) -> Findings {
    let mut found = Findings::default();
    say("SET and HSET with and without the module");
    let count = plan.scaled(5_000) as usize;
    let mut number = 0u64;
    for (name, head) in [("`SET`", "SET page:"), ("`HSET`", "HSET h:other ")] {
        let batches = Batches::new(count, 32, |out| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = (number >> 40) % 100_000;
            line(out, &format!("{head}{key:06} {:x<64}", ""));
        });
        let (mut ours, mut plain) = <(Series, Series)>::default();
        // Once over all keys, so that none is new in what is measured.
        for server in [&scene.ours, &scene.plain] {
            saturate(server, &batches, plan.span() / 2, 0);
        }
        for rep in 1..=plan.reps {
            ours.push(plan.saturate(&scene.ours, &batches, rep).rate);
            plain.push(plan.saturate(&scene.plain, &batches, rep).rate);
        }
        table! { found;
            "", format!("{name} pipelined by 32, module loaded"), "a server without the module",
                ours.shown(rate), plain.shown(rate), ours.over(&plain), Goal::Known;
        }
    }
    note!(found, "bystanders.md");
    found
}
