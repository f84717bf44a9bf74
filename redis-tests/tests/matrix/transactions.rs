//! Tests that a command has the same effect alone, in `MULTI`, in a script and in a pipeline, and
//! that clients that watch keys are notified only about changes.

use redis_tests::matrix::{Family, PREFIX};
use redis_tests::{Reply, Wire, cmd, ok, simple};

use crate::stage::{Outcome, Stage, changed, idle, steady, steady_data};

for_every_family!(
    each_sample_does_the_same_in_a_transaction_and_in_a_script,
    all_samples_do_the_same_one_by_one_in_a_pipeline_and_in_one_transaction,
    aborted_transactions_change_nothing,
    only_changes_are_seen_by_clients_that_watch_cache_or_listen,
);

const SCRIPT: &str = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";

/// Returns a call that runs a command in a script.
fn in_script(how: &str, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut eval = [how, SCRIPT, "1"]
        .map(|word| word.as_bytes().to_vec())
        .to_vec();
    eval.extend([words[1].clone(), words[0].clone()]);
    eval.extend_from_slice(&words[2..]);
    eval
}

#[track_caller]
fn in_transaction(wire: &mut Wire, words: &[Vec<u8>]) -> Reply {
    ok!(wire, "MULTI");
    assert_eq!(wire.expect_ok(words), simple("QUEUED"));
    ok!(wire, "EXEC").items()[0].clone()
}

fn each_sample_does_the_same_in_a_transaction_and_in_a_script(family: &Family) {
    let mut stage = Stage::of(family);
    for line in stage.family.samples {
        let alone = stage.alone(line);
        // Commands do not block in a script.
        let line = &line.replace("BLOCK 1", "BLOCK 0");
        stage.reset();
        let words = stage.words(line);
        let reply = in_transaction(&mut stage.wire, &words);
        Outcome::of(&reply, &mut stage.wire).assert_same(&alone, line);
        for how in ["EVAL", "EVAL_RO"] {
            stage.reset();
            let eval = in_script(how, &stage.words(line));
            let reply = stage.wire.call(&eval);
            if how == "EVAL" || !stage.writes(line) {
                Outcome::of(&reply, &mut stage.wire).assert_same(&alone, line);
            } else {
                let text = format!("{reply:?}");
                let refused = text.contains("read-only") || text.contains("Write commands");
                assert!(reply.is_error() && refused, "{line}: {text}");
                steady_data(&mut stage.wire).assert_same(&stage.before, line);
            }
        }
    }
}

fn all_samples_do_the_same_one_by_one_in_a_pipeline_and_in_one_transaction(family: &Family) {
    let mut stage = Stage::of(family);
    let samples = stage.family.samples;
    let one_by_one: Vec<Reply> = samples
        .iter()
        .map(|line| stage.wire.call(&stage.state.words(line)))
        .collect();
    let end = steady_data(&mut stage.wire);
    assert_ne!(end, stage.before);
    let same = |replies: &[Reply], wire: &mut Wire, how: &str| {
        for ((line, is), should) in samples.iter().zip(replies).zip(&one_by_one) {
            assert_eq!(steady(is), steady(should), "{line} {how}");
        }
        steady_data(wire).assert_same(&end, how);
    };
    stage.reset();
    let calls: Vec<_> = samples.iter().map(|line| stage.words(line)).collect();
    let replies = stage.wire.pipeline(calls);
    same(&replies, &mut stage.wire, "in a pipeline");
    stage.reset();
    ok!(stage.wire, "MULTI");
    for line in samples {
        assert_eq!(
            stage.wire.expect_ok(&stage.state.words(line)),
            simple("QUEUED")
        );
    }
    let replies = ok!(stage.wire, "EXEC");
    same(replies.items(), &mut stage.wire, "in one transaction");
}

fn aborted_transactions_change_nothing(family: &Family) {
    let mut stage = Stage::of(family);
    let command = stage.family.command(stage.family.samples[0]);
    let digest = stage.server.digest();
    ok!(stage.wire, "MULTI");
    for line in stage.family.samples {
        assert_eq!(
            stage.wire.expect_ok(&stage.state.words(line)),
            simple("QUEUED")
        );
    }
    assert!(cmd!(stage.wire, command, "").is_error());
    let error = stage.wire.expect_error(&["EXEC"]);
    assert!(error.starts_with("EXECABORT "), "{error}");
    assert_eq!(stage.server.digest(), digest);
}

/// The effects of a sample on clients that watch keys, cache keys, or listen to events.
struct Seen {
    /// True if the sample broke a `WATCH` of all existing and possible keys.
    watch: bool,
    /// Keys whose invalidation a caching client received.
    invalidated: Vec<String>,
    /// Keyspace events: keys and names.
    events: Vec<(String, String)>,
}

/// Runs a line and collects the notifications of all these clients.
fn watched(stage: &mut Stage, line: &str, keys: &[String]) -> Seen {
    let mut watcher = stage.server.wire();
    let mut tracker = stage.server.wire3();
    let mut listener = stage.server.wire();
    watcher.expect_ok(&[&["WATCH".to_owned()], keys].concat());
    ok!(tracker, "CLIENT", "TRACKING", "ON", "BCAST");
    ok!(listener, "PSUBSCRIBE", "__keyspace@0__:*");
    stage.wire.call(&stage.state.words(line));
    ok!(watcher, "MULTI");
    ok!(watcher, "PING");
    let watch = ok!(watcher, "EXEC").is_nil();
    let pushes = tracker.pushes();
    let invalidated = pushes.iter().flat_map(|push| push.items()[1].texts());
    ok!(stage.wire, "PUBLISH", "__keyspace@0__:end", "end");
    let mut events = Vec::new();
    loop {
        let message = listener.recv();
        let [_, _, channel, event] = message.items() else {
            panic!("{message:?}");
        };
        if event.text() == "end" {
            break;
        }
        let channel = channel.text();
        let (_, key) = channel.split_once(':').expect("a key");
        events.push((key.to_owned(), event.text()));
    }
    Seen {
        watch,
        invalidated: invalidated.collect(),
        events,
    }
}

fn only_changes_are_seen_by_clients_that_watch_cache_or_listen(family: &Family) {
    let mut stage = Stage::of(family);
    ok!(stage.wire, "CONFIG", "SET", "notify-keyspace-events", "KA");
    let idle = idle(&stage.family);
    for line in stage.family.samples.iter().chain(idle) {
        let call = stage.prepare(line);
        let before = steady_data(&mut stage.wire);
        stage.wire.call(&stage.state.words(call));
        let after = steady_data(&mut stage.wire);
        let changed = changed(&before, &after);
        assert!(changed.is_empty() || !idle.contains(line), "{line}");

        let line = stage.prepare(line);
        let keys = [before.names(), after.names()].concat();
        let seen = watched(&mut stage, line, &keys);
        steady_data(&mut stage.wire).assert_same(&after, line);
        if changed.is_empty() {
            assert!(!seen.watch, "{line} broke a WATCH");
            assert_eq!(seen.invalidated, [""; 0], "{line}");
            assert_eq!(seen.events, [], "{line}");
        } else if stage.family.name == "TAGS" {
            let event = (PREFIX.to_owned(), stage.family.command(line));
            assert_eq!(seen.events, [event], "{line}");
        }
        for key in &changed {
            assert!(seen.watch, "{line}");
            assert!(
                seen.invalidated.contains(key),
                "{line} changed {key} unseen"
            );
            let told = seen.events.iter().any(|(of, _)| of == key);
            assert!(told, "{line} changed {key} without an event");
        }
    }
}
