//! After a restart with any kind of persistence, the data and replies of every sample are
//! unchanged, and the server continues like a server that did not restart.

use redis_tests::matrix::{Family, PREFIX, State, split};
use redis_tests::{Options, Rng, Server, Snapshot, Wire, ok, until};

use crate::stage::{assert_goes_on, prepare_to_go_on, reads};

for_every_family!(
    debug_reload,
    rdb_of_a_shutdown,
    append_only_file_after_kill_9,
    append_only_file_with_preamble_after_kill_9,
    rewritten_append_only_file,
    rewritten_append_only_file_with_preamble,
    random_calls_are_the_same_on_a_replica_and_after_restarts,
    replica_of_a_server_without_earlier_replicas_misses_nothing,
);

fn debug_reload(family: &Family) {
    keeps_everything(family, family.options(), |server| {
        ok!(server.wire(), "DEBUG", "RELOAD");
    });
}

fn rdb_of_a_shutdown(family: &Family) {
    keeps_everything(family, family.options().rdb(), |server| {
        server.shutdown();
        server.restart();
    });
}

fn append_only_file_after_kill_9(family: &Family) {
    keeps_everything(
        family,
        family.options().aof_unsynced(false),
        Server::restart,
    );
}

fn append_only_file_with_preamble_after_kill_9(family: &Family) {
    keeps_everything(family, family.options().aof_unsynced(true), Server::restart);
}

fn rewritten_append_only_file(family: &Family) {
    let options = family.options().aof_unsynced(false);
    keeps_everything(family, options, Server::restart_rewritten);
}

fn rewritten_append_only_file_with_preamble(family: &Family) {
    let options = family.options().aof_unsynced(true);
    keeps_everything(family, options, Server::restart_rewritten);
}

/// Runs each sample in a separate database, then restarts the server. In one more database, runs
/// more commands and compares the results with those of a server that did not restart.
fn keeps_everything(family: &Family, options: Options, restart: impl Fn(&mut Server)) {
    let databases = (family.samples.len() + 1).to_string();
    let mut server = options.args(&["--databases", &databases]).start();
    let in_database = |server: &Server, number: usize| -> Wire {
        let mut wire = server.wire();
        ok!(wire, "SELECT", number);
        wire
    };
    let mut before = Vec::new();
    for (number, line) in family.samples.iter().enumerate() {
        let mut wire = in_database(&server, number);
        let state = family.fill(&mut wire, PREFIX);
        wire.expect_ok(&state.words(line));
        let told = reads(family, &state, &mut wire);
        before.push((state, told, Snapshot::of(&mut wire)));
    }
    let last = family.samples.len();
    let states = prepare_to_go_on(family, &mut in_database(&server, last));
    let digest = server.digest();
    restart(&mut server);
    assert_eq!(server.digest(), digest);
    for (number, (line, (state, told, data))) in family.samples.iter().zip(before).enumerate() {
        let mut wire = in_database(&server, number);
        Snapshot::of(&mut wire).assert_same(&data, line);
        assert_eq!(reads(family, &state, &mut wire), told, "{line}");
    }
    assert_eq!(server.digest(), digest, "reads write nothing");
    assert_goes_on(&states, family, &mut in_database(&server, last));
    assert_eq!(server.info_number("panics"), 0);
}

/// Sends plausible and random calls. One in ten calls is a transaction.
fn random_calls(family: &Family, rng: &mut Rng, states: &[State], wire: &mut Wire, calls: u64) {
    let odd = split(family.words);
    // An index that a server without the module must read is left plain.
    let packs = |line: &&&str| family.storage == "plain" && **line == "PACK";
    let samples: Vec<&str> = family
        .samples
        .iter()
        .filter(|line| !packs(line))
        .copied()
        .collect();
    let mut done = 0;
    for _ in 0..calls {
        let state = rng.pick(states);
        let line: &str = rng.pick::<&str>(&samples);
        let mut words = state.words(line);
        let makes_sense = rng.chance(60) || line.contains("BLOCK ");
        for at in (2..words.len()).filter(|_| !makes_sense) {
            if rng.chance(25) {
                words[at] = state.word(rng.pick::<&str>(&odd));
            }
        }
        if rng.chance(10) {
            ok!(wire, "MULTI");
            wire.call(&words);
            wire.call(&["EXEC"]);
        } else {
            let reply = format!("{:?}", wire.call(&words));
            assert!(
                !reply.to_lowercase().contains("internal"),
                "{line}: {reply}"
            );
            done += u64::from(!reply.starts_with("error"));
        }
    }
    assert!(done * 3 > calls, "only {done} of {calls} calls succeeded");
}

fn random_calls_are_the_same_on_a_replica_and_after_restarts(family: &Family) {
    let mut rng = Rng::new("random_calls_are_the_same_on_a_replica_and_after_restarts");
    for preamble in [false, true] {
        let mut server = family.options().aof_unsynced(preamble).start();
        let replica = family.options().replica_of(&server).start();
        // Plain keys can be read without the module.
        let bare = || Options::new().no_module();
        let bare = (family.storage == "plain").then(|| bare().replica_of(&server).start());
        let mut wire = server.wire();
        let states = ["", PREFIX, "b\r\n\0:"].map(|prefix| family.fill(&mut wire, prefix));
        for round in 0..3 {
            random_calls(family, &mut rng, &states, &mut server.wire(), 300);
            let (digest, snapshot) = (server.digest(), server.snapshot());
            for replica in [Some(&replica), bare.as_ref()].into_iter().flatten() {
                server.wait_for_replica_offset(replica);
                replica.snapshot().assert_same(&snapshot, "replica");
                assert_eq!(replica.digest(), digest, "replica");
            }
            match round {
                0 => server.restart(),
                1 => server.restart_rewritten(),
                _ => drop(ok!(server.wire(), "DEBUG", "RELOAD")),
            }
            server.snapshot().assert_same(&snapshot, "restart");
            assert_eq!(server.digest(), digest, "restart");
        }
        // A replica that connects later gets an RDB file.
        let late = family.options().replica_of(&server).start();
        server.wait_for_replica_offset(&late);
        assert_eq!(late.digest(), server.digest(), "late replica");
        assert_eq!(server.info_number("panics"), 0);
        if bare.is_some() {
            let digest = server.digest();
            server.restart_as(Options::new().no_module().aof_unsynced(preamble));
            assert_eq!(server.digest(), digest, "without the module");
        }
    }
}

/// Tests a server without replicas and append-only file, which does not replicate changes until a
/// new replica connects.
fn replica_of_a_server_without_earlier_replicas_misses_nothing(family: &Family) {
    let mut rng = Rng::new("replica_of_a_server_without_earlier_replicas_misses_nothing");
    for comes in ["replica", "file"] {
        let mut server = family.options().start();
        let states = ["", PREFIX].map(|prefix| family.fill(&mut server.wire(), prefix));
        let mut calls = |server: &Server, calls| {
            random_calls(family, &mut rng, &states, &mut server.wire(), calls);
        };
        ok!(server.wire(), "SAVE");
        calls(&server, 100);
        assert!(server.info_number("rdb_changes_since_last_save") > 0);
        // Save while there is no replica.
        ok!(server.wire(), "BGSAVE");
        calls(&server, 50);
        until("the snapshot is complete", || {
            server.info_number("rdb_bgsave_in_progress") == 0
        });
        calls(&server, 50);
        if comes == "file" {
            ok!(server.wire(), "CONFIG", "SET", "appendfsync", "no");
            ok!(server.wire(), "CONFIG", "SET", "appendonly", "yes");
            calls(&server, 100);
            server.until_rewritten();
            calls(&server, 50);
            let digest = server.digest();
            server.restart_as(family.options().aof_unsynced(true));
            assert_eq!(server.digest(), digest);
            continue;
        }
        let mut replica = family.options().start();
        let port = server.port().to_string();
        ok!(replica.wire(), "REPLICAOF", "127.0.0.1", port);
        for is_back in [false, true] {
            if is_back {
                replica.kill9();
                calls(&server, 50);
                replica.restart_as(family.options().replica_of(&server));
            }
            calls(&server, 100);
            server.wait_for_replica_offset(&replica);
            assert_eq!(replica.digest(), server.digest(), "back: {is_back}");
        }
    }
}
