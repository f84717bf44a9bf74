//! Tests several indexers that share the work, of which some die or are suspended for too long.

use redis_tests::archive::Shape;
use redis_tests::{Options, Relay, ok, until, with};

use crate::indexer::stage::{Stage, in_the_middle, killed, succeeded};

/// Returns a shape of larger crawls, which can be interrupted half-way.
pub fn larger() -> Shape {
    with!(Shape, captures: 1500)
}

#[test]
fn four_indexers_at_once_count_everything_once() {
    let stage = Stage::with("four", Options::new(), 4, larger());
    let import = stage.import().jobs(2);
    let started: Vec<_> = (0..4).map(|_| import.start()).collect();
    let ended = started.into_iter().map(|one| succeeded(&one.end()));
    let reports: Vec<_> = ended.collect();
    stage.assert_once();
    // Each package was imported by one of them.
    let imported = |report: &serde_json::Value| report["imported"].as_u64();
    let imported: u64 = reports.iter().filter_map(imported).sum();
    assert_eq!(imported as usize, stage.folder.entries.len(), "{reports:?}");
}

#[test]
fn another_indexer_takes_over_what_a_killed_one_had() {
    let mut stage = Stage::with("taken over", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    for round in 0..3 {
        let prefix = format!("{{over-{round}}}:");
        relay.hold_after(20_000 + stage.rng.below(200_000));
        let mut first = stage.import_over(&relay, &prefix).start();
        in_the_middle(&relay, &mut first);
        // The second one runs before the first one dies, and has no reason to touch the first one's packages.
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
fn an_indexer_that_wakes_up_beyond_its_lease_changes_nothing() {
    let mut stage = Stage::with("asleep", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    for round in 0..4 {
        let prefix = format!("{{asleep-{round}}}:");
        let import = stage.import().prefix(&prefix);
        // Its data arrive even after the others are done: the network was slow.
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
fn whatever_it_was_about_to_do_is_not_done_when_it_wakes_up() {
    let shape = with!(Shape, captures: 12, waczs: 3);
    let stage = Stage::with("any step", Options::new(), 2, shape);
    let relay = Relay::to(&stage.server);
    let all = {
        stage.import_over(&relay, "{undisturbed}:").succeeds();
        relay.sent()
    };
    // Dense enough to hit each of its steps in some round.
    let mut at = 300;
    while at < all {
        let prefix = format!("{{step-{at}}}:");
        relay.hold_after(at);
        let first = stage.import_over(&relay, &prefix);
        let mut first = first.with("--lease", "60").start();
        in_the_middle(&relay, &mut first);
        first.pause();
        // It was suspended for longer than its lease.
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
