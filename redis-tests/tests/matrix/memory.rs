//! Tests that at `maxmemory`, commands that need memory are refused without any effect, and all
//! other commands work.

use redis_tests::matrix::Family;
use redis_tests::{Reply, ok};

use crate::stage::{Outcome, Stage, steady_data};

for_every_family!(full_memory_refuses_only_commands_that_need_memory);

fn full_memory_refuses_only_commands_that_need_memory(family: &Family) {
    let mut stage = Stage::of(family);
    for line in family.samples {
        let alone = stage.alone(line);
        stage.reset();
        ok!(stage.wire, "CONFIG", "SET", "maxmemory", 1);
        let reply = stage.wire.call(&stage.state.words(line));
        if stage.grammar(line).has("denyoom") {
            let refused = matches!(&reply, Reply::Error(error) if error.starts_with(b"OOM "));
            assert!(refused, "{line}: {reply:?}");
            steady_data(&mut stage.wire).assert_same(&stage.before, line);
        } else {
            Outcome::of(&reply, &mut stage.wire).assert_same(&alone, line);
        }
        ok!(stage.wire, "CONFIG", "SET", "maxmemory", 0);
    }
}
