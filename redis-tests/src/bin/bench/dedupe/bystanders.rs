//! What the module costs commands that do not use it.

use super::scene::Scene;
use crate::Plan;
use crate::load::{Batches, encode, saturate};
use crate::report::{Findings, Goal, Row, say};
use crate::series::{Series, rate};

/// `SET` and `HSET` of clients that have nothing to do with the index.
pub fn measure(plan: &Plan, scene: &Scene) -> Findings {
    let mut found = Findings::default();
    say("SET and HSET with and without the module");
    let count = plan.scaled(5_000) as usize;
    let mut number = 0u64;
    let mut key = || {
        number = number
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("{:06}", (number >> 40) % 100_000)
    };
    let set = Batches::new(count, 32, |out| {
        let key = format!("page:{}", key());
        encode(out, &[b"SET", key.as_bytes(), &[b'x'; 64]]);
    });
    let hset = Batches::new(count, 32, |out| {
        encode(out, &[b"HSET", b"h:other", key().as_bytes(), &[b'x'; 64]]);
    });
    for (name, batches) in [("`SET`", set), ("`HSET`", hset)] {
        let (mut ours, mut plain) = <(Series, Series)>::default();
        // Once over all keys, so that none is new in what is measured.
        for server in [&scene.ours, &scene.plain] {
            saturate(server, &batches, plan.span() / 2, 0);
        }
        for rep in 0..plan.reps {
            let first = rep * batches.len() / plan.reps;
            ours.0
                .push(saturate(&scene.ours, &batches, plan.span(), first).rate);
            plain
                .0
                .push(saturate(&scene.plain, &batches, plan.span(), first).rate);
        }
        found.rows.push(Row {
            id: "",
            what: format!("{name} pipelined by 32, module loaded"),
            against: "a server without the module".into(),
            ours: rate(ours.median()),
            theirs: rate(plain.median()),
            result: ours.over(&plain),
            goal: Goal::Known,
        });
    }
    found.note(
        "Bystanders.",
        "What loading the module costs commands that do not use it. The module hears of writes by plain clients only \
         through keyspace events that it subscribes to; whatever it does with them shows here."
            .into(),
        &[
            "make bench ONLY=bystanders",
            "redis-benchmark -P 32 -c 8 -r 100000 -n 3000000 -d 64 -t set,hset    # with and without the module",
        ],
    );
    found
}
