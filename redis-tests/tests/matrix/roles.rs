//! A replica has the data of its master, gives the same replies, refuses writes, and can take over
//! after a failover.

use redis_tests::matrix::Family;
use redis_tests::{Server, Wire, ok, rows};

use crate::stage::{
    Stage, assert_goes_on, empty_caches, idle, prepare_to_go_on, steady, steady_data,
};

for_every_family!(
    each_sample_has_the_same_effect_on_a_replica,
    commands_without_effect_are_not_replicated,
    early_and_late_replicas_continue_after_a_failover,
);

fn with_replica(family: &Family) -> (Stage, Server) {
    let stage = Stage::of(family);
    let replica = stage.family.options().replica_of(&stage.server).start();
    (stage, replica)
}

fn each_sample_has_the_same_effect_on_a_replica(family: &Family) {
    let (mut stage, replica) = with_replica(family);
    let mut r = replica.wire();
    for line in stage.family.samples {
        let alone = stage.alone(line);
        stage.server.wait_for_replica_offset(&replica);
        let data = steady_data(&mut r);
        data.assert_same(&alone.data, line);
        assert_eq!(replica.digest(), stage.server.digest(), "{line}");
        let reads = stage.reads(&mut stage.server.wire());
        assert_eq!(stage.reads(&mut r), reads, "{line}");
        if stage.writes(line) {
            let error = r.expect_error(&stage.words(line));
            assert!(error.starts_with("READONLY "), "{line}: {error}");
        } else {
            let reply = r.expect_ok(&stage.words(line));
            assert_eq!(steady(&reply), alone.reply, "{line}");
        }
    }
    assert_eq!(replica.digest(), stage.server.digest(), "refused, and read");
}

/// Returns the commands that the master replicates while `run` runs.
fn replicated(stage: &mut Stage, monitor: &mut Wire, run: impl FnOnce(&mut Stage)) -> Vec<String> {
    run(stage);
    ok!(stage.wire, "PUBLISH", "end", "");
    let lines = std::iter::from_fn(|| {
        let line = monitor.recv().text();
        (!line.contains("\"PUBLISH\"")).then_some(line)
    });
    let own = rows![
        "\"PING\""; "\"SELECT\""; "\"REPLCONF\""; "\"ping\""; "\"replconf\"";
    ];
    lines
        .filter(|line| !own.iter().any(|word| line.contains(word)))
        .collect()
}

fn commands_without_effect_are_not_replicated(family: &Family) {
    let (mut stage, replica) = with_replica(family);
    stage.server.wait_for_replica_offset(&replica);
    let mut monitor = replica.wire();
    ok!(monitor, "MONITOR");
    for line in stage.family.samples.iter().chain(idle(&stage.family)) {
        let mut call = "";
        replicated(&mut stage, &mut monitor, |stage| call = stage.prepare(line));
        let before = steady_data(&mut stage.wire);
        let sent = replicated(&mut stage, &mut monitor, |stage| {
            stage.wire.call(&stage.state.words(call));
        });
        let changed = steady_data(&mut stage.wire) != before;
        assert!(changed || sent.is_empty(), "{line}: {sent:?}");
    }
}

fn early_and_late_replicas_continue_after_a_failover(family: &Family) {
    for is_killed in [false, true] {
        let mut master = family.options().start();
        let early = family.options().replica_of(&master).start();
        let states = prepare_to_go_on(family, &mut master.wire());
        let late = family.options().replica_of(&master).start();
        for replica in [&early, &late] {
            master.wait_for_replica_offset(replica);
        }
        if is_killed {
            master.kill9();
        }
        for replica in [&early, &late] {
            ok!(replica.wire(), "REPLICAOF", "NO", "ONE");
            assert_goes_on(&states, family, &mut replica.wire());
            assert_eq!(replica.info_number("panics"), 0);
        }
        if !is_killed {
            let mut wire = master.wire();
            empty_caches(&mut wire);
            assert_goes_on(&states, family, &mut wire);
        }
    }
}
