//! Tests several indexers that share the work, while some of them die or are suspended for too long.

use redis_tests::archive::Shape;
use redis_tests::{Options, Relay, ok, until, with};

use crate::indexer::stage::{Stage, in_the_middle, killed, succeeded};

/// Returns a shape of larger crawls, which can be interrupted half-way.
pub fn larger() -> Shape {
    with!(Shape, captures: 1500)
}

#[test]
fn four_concurrent_indexers_count_everything_once() {
    let stage = Stage::with("four", Options::new(), 4, larger());
    let import = stage.import().jobs(2);
    let started: Vec<_> = (0..4).map(|_| import.start()).collect();
    let ended = started.into_iter().map(|one| succeeded(&one.end()));
    let reports: Vec<_> = ended.collect();
    stage.assert_once();
    // Each package was imported by exactly one indexer.
    let imported = |report: &serde_json::Value| report["imported"].as_u64();
    let imported: u64 = reports.iter().filter_map(imported).sum();
    assert_eq!(imported as usize, stage.folder.entries.len(), "{reports:?}");
}

#[test]
fn indexer_takes_over_the_work_of_a_killed_one() {
    let mut stage = Stage::with("taken over", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    for round in 0..3 {
        let prefix = format!("{{over-{round}}}:");
        relay.hold_after(20_000 + stage.rng.below(200_000));
        let mut first = stage.import_over(&relay, &prefix).start();
        in_the_middle(&relay, &mut first);
        // The second indexer runs before the first one dies, and must not touch the packages of the
        // first one.
        let mut second = stage.import().prefix(&prefix).start();
        until("the other one has begun", || {
            second.errors().contains("waiting") || second.ended().is_some()
        });
        killed(first, &relay);
        succeeded(&second.end());
        stage.assert_once_in(&prefix);
    }
}

#[test]
fn indexer_that_outlived_its_lease_changes_nothing() {
    let mut stage = Stage::with("asleep", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    for round in 0..4 {
        let prefix = format!("{{asleep-{round}}}:");
        let import = stage.import().prefix(&prefix);
        // The data of a suspended indexer arrive after the others have finished, as in a slow
        // network.
        relay.hold_after(5_000 + stage.rng.below(300_000));
        let mut first = stage.import_over(&relay, &prefix).start();
        in_the_middle(&relay, &mut first);
        first.pause();
        succeeded(&import.run());
        stage.assert_once_in(&prefix);
        relay.go_on();
        first.go_on();
        let ended = first.end();
        assert!(ended.status.success(), "{}", ended.errors);
        stage.assert_once_in(&prefix);
    }
}

#[test]
fn suspended_indexer_does_not_continue_its_work() {
    let shape = with!(Shape, captures: 12, waczs: 3);
    let stage = Stage::with("any step", Options::new(), 2, shape);
    let relay = Relay::to(&stage.server);
    let all = {
        stage.import_over(&relay, "{undisturbed}:").succeeds();
        relay.sent()
    };
    // The positions are dense enough to hit each step in some round.
    let mut at = 300;
    while at < all {
        let prefix = format!("{{step-{at}}}:");
        relay.hold_after(at);
        let first = stage.import_over(&relay, &prefix);
        let mut first = first.with("--lease", "60").start();
        in_the_middle(&relay, &mut first);
        first.pause();
        // The first indexer was suspended for longer than its lease.
        let mut c = stage.server.wire();
        for guard in ok!(c, "KEYS", format!("{prefix}pending:?:*")).items() {
            ok!(c, "DEL", guard.bytes());
        }
        stage.import().prefix(&prefix).succeeds();
        stage.assert_once_in(&prefix);
        relay.go_on();
        first.go_on();
        let ended = first.end();
        assert!(ended.status.success(), "{at}: {}", ended.errors);
        stage.assert_once_in(&prefix);
        at += 400;
    }
}
