//! What the index takes: memory, RDB file, and what the module costs commands that do not use it.

use redis_tests::Server;

use super::{rdb_bytes, reset, Scene};
use crate::load::{encode, saturate, Batches};
use crate::report::{say, Findings, Goal, Row};
use crate::series::{rate, Series};
use crate::Plan;

/// Measures a filled scene that took `empty` bytes before it was filled. Writes to it afterwards.
pub fn measure(plan: &Plan, scene: &mut Scene, empty: [i64; 2], hashes: u64) -> Findings {
    let mut found = Findings::default();
    memory_and_file(scene, empty, hashes, &mut found);
    bystanders(plan, scene, &mut found);
    found
}

fn memory_and_file(scene: &mut Scene, empty: [i64; 2], hashes: u64, found: &mut Findings) {
    say("memory, RDB file");
    let per_hash = |bytes: f64| bytes / hashes as f64;
    let full = scene.memory();
    let memory = [0, 1].map(|i| per_hash((full[i] - empty[i]) as f64));
    scene.save();
    let file = [&scene.ours, &scene.plain].map(|s| per_hash(rdb_bytes(s) as f64));
    let load = [&mut scene.ours, &mut scene.plain].map(load_seconds);
    let rows = [
        ("memory per hash", memory, "B"),
        ("RDB file per hash", file, "B"),
        ("time to load the RDB file", load, "s"),
    ];
    for (what, [ours, plain], unit) in rows {
        let show = |v: f64| match unit {
            "B" => format!("{v:.0} B"),
            _ => format!("{v:.2} s"),
        };
        found.rows.push(Row {
            id: "",
            what: what.into(),
            against: "the documented layout by plain commands".into(),
            ours: show(ours),
            theirs: show(plain),
            result: Series(vec![plain / ours]),
            goal: Goal::Known,
        });
    }
    found.note("Memory.", format!(
        "On plain keys an index takes what the documented layout takes, {:.0} B a hash ({:.0} B with the module's own \
         keys for commit order, counts at the last commit and further holders). Most of it is kept twice: each hash \
         stands in `allhashes` and in `h:<crawl>`, as text.",
        memory[1], memory[0],
    ));
}

/// Starts the server on its RDB file again; what its log says of the time to load it.
fn load_seconds(server: &mut Server) -> f64 {
    reset(server);
    let log = server.log();
    let said = log.rsplit("DB loaded from disk: ").next();
    let number = said.and_then(|text| text.split_whitespace().next());
    number.and_then(|n| n.parse().ok()).unwrap_or(f64::NAN)
}

/// `SET` and `HSET` of clients that have nothing to do with the index.
fn bystanders(plan: &Plan, scene: &Scene, found: &mut Findings) {
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
    );
}
