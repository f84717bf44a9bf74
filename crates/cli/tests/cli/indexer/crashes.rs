//! Tests indexers, servers and connections that die repeatedly at random points.

use redis_tests::archive::Shape;
use redis_tests::{Ended, Options, Program, Relay, Rng, assert_contains, ok, until, with};

use crate::indexer::guards::larger;
use crate::indexer::stage::{COPY, Indexer, Stage, in_the_middle, killed, report};

/// Returns the number of bytes that an undisturbed import sends.
fn undisturbed(stage: &Stage, relay: &Relay) -> u64 {
    let before = relay.sent();
    let import = stage.import_over(relay, "{undisturbed}:").run();
    assert!(import.status.success(), "{}", import.errors);
    relay.sent() - before
}

/// Starts an import over the relay repeatedly. When the import has sent a random number of bytes, calls `strike`, which
/// returns how the import ended, and starts the import again. The last run is not disturbed.
fn until_done(
    import: &Indexer,
    relay: &Relay,
    all: u64,
    rng: &mut Rng,
    mut strike: impl FnMut(Program, &mut Rng) -> Ended,
) {
    let (mut struck, mut last) = (0, String::new());
    for _ in 0..12 {
        // Let each run finish some of the files, so that the next run begins at another position.
        let farthest = all / rng.pick(&[2, 6, 12]);
        relay.hold_after(1 + rng.below(farthest));
        let mut program = import.start();
        in_the_middle(relay, &mut program);
        if relay.holds() {
            struck += 1;
            last = strike(program, rng).errors;
            continue;
        }
        relay.go_on();
        if program.end().status.success() {
            break;
        }
    }
    relay.go_on();
    println!("struck {struck} times");
    let ended = import.run();
    assert!(ended.status.success(), "{}\nbefore: {last}", ended.errors);
}

/// Fails unless imports that are killed repeatedly count everything once, within this number of rounds.
fn killed_again_and_again(mut stage: Stage, jobs: u32, rounds: u32) {
    let relay = Relay::to(&stage.server);
    let all = undisturbed(&stage, &relay);
    for round in 0..rounds {
        let prefix = format!("{{killed-{round}}}:");
        let import = stage.import_over(&relay, &prefix).jobs(jobs);
        until_done(&import, &relay, all, &mut stage.rng, |program, _| {
            killed(program, &relay)
        });
        stage.assert_once_in(&prefix);
    }
}

/// Calls `strike`, which the program survives, again and again until the program has ended.
fn until_ended(
    mut program: Program,
    relay: &Relay,
    farthest: u64,
    rng: &mut Rng,
    mut strike: impl FnMut(),
) -> Ended {
    for strikes in 1.. {
        strike();
        relay.hold_after(1 + rng.below(farthest));
        in_the_middle(relay, &mut program);
        if program.ended().is_some() {
            println!("struck {strikes} times");
            break;
        }
    }
    program.end()
}

#[test]
fn repeatedly_killed_import_counts_everything_once() {
    for jobs in [1, 3] {
        killed_again_and_again(Stage::with("killed", Options::new(), 3, larger()), jobs, 2);
    }
}

#[test]
fn import_killed_among_many_small_files_counts_everything_once() {
    // Most of the traffic consists of queue steps, lists of files and commits.
    let shape = with!(Shape, captures: 40, waczs: 20, known: 60);
    killed_again_and_again(Stage::with("small", Options::new(), 4, shape), 1, 4);
}

#[test]
fn import_killed_among_many_small_crawls_counts_everything_once() {
    let shape = with!(Shape, captures: 8, waczs: 1, known: 60);
    killed_again_and_again(Stage::with("many", Options::new(), 90, shape), 2, 2);
}

#[test]
fn broken_connections_count_nothing_twice() {
    let mut stage = Stage::with("cut", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    let all = undisturbed(&stage, &relay);
    let import = stage.import_over(&relay, COPY).jobs(2);
    until_done(&import, &relay, all, &mut stage.rng, |program, rng| {
        // The program reconnects, so its connection can be cut again.
        until_ended(program, &relay, all / 3, rng, || relay.cut())
    });
    stage.assert_once();
}

#[test]
fn killed_server_has_everything_once_after_its_restart() {
    let mut stage = Stage::with("server killed", Options::new().aof(true), 3, larger());
    let relay = Relay::to(&stage.server);
    let all = undisturbed(&stage, &relay);
    let import = stage.import_over(&relay, COPY).jobs(2);
    let Stage { server, rng, .. } = &mut stage;
    until_done(&import, &relay, all, rng, |program, rng| {
        // The program reconnects and continues, so the server can die again.
        until_ended(program, &relay, all / 3, rng, || {
            // Data that the relay holds back never arrive, as if the power failed while they were
            // in transit.
            server.kill9();
            relay.cut();
            server.restart();
        })
    });
    stage.assert_once();
}

#[test]
fn interrupted_import_says_so_and_resumes() {
    let mut stage = Stage::with("interrupted", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    let all = undisturbed(&stage, &relay);
    let import = stage.import_over(&relay, COPY).jobs(2);
    until_done(&import, &relay, all, &mut stage.rng, |mut program, _| {
        program.interrupt();
        relay.go_on();
        let ended = program.end();
        // The program may have been at its last step, where a suspension has no effect.
        if ended.status.success() {
            return ended;
        }
        assert_eq!(ended.status.code(), Some(1), "{}", ended.errors);
        assert_contains(&ended.errors, "stopped");
        assert_eq!(report(&ended)["stopped"], true);
        ended
    });
    stage.assert_once();
}

#[test]
fn interrupted_import_leaves_no_lease() {
    let stage = Stage::with("no lease", Options::new(), 2, larger());
    let relay = Relay::to(&stage.server);
    let all = undisturbed(&stage, &relay);
    relay.hold_after(all / 2);
    let import = stage.import_over(&relay, COPY).with("--lease", "3600");
    let mut program = import.start();
    until("the relay holds the import", || relay.holds());
    program.interrupt();
    relay.go_on();
    assert_eq!(program.end().status.code(), Some(1));
    let guards = ok!(stage.server.wire(), "KEYS", format!("{COPY}pending:?:*"));
    assert_eq!(guards.items(), [], "guards without an owner");
    import.succeeds();
    stage.assert_once();
}
