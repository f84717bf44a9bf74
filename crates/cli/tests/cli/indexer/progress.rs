//! Tests the documented progress keys during and after an import.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crawlspace_index::timestamp::Timestamp;
use redis_tests::archive::{Entry, Shape};
use redis_tests::{Options, Relay, assert_contains, assert_lacks, ok, on_terminal, until, with};

use crate::indexer::guards::larger;
use crate::indexer::stage::{COPY, Stage, killed, sent_to, succeeded};

#[test]
fn progress_rises_from_0_to_1() {
    let shape = with!(Shape, captures: 200, waczs: 12);
    let stage = Stage::with("progress", Options::new(), 4, shape);
    let mut c = stage.server.wire();
    let counts = format!("{COPY}allcounts");
    let mut program = stage.import().start();
    let mut seen = vec![0.0];
    until("the import has ended", || {
        let progress = ok!(c, "HGET", counts, "updateProgress");
        if !progress.is_nil() {
            let progress: f64 = progress.text().parse().expect("a number");
            assert!((0.0..=1.0).contains(&progress), "{progress}");
            let last = seen[seen.len() - 1];
            assert!(progress >= last, "{progress} after {last}");
            if progress != last {
                seen.push(progress);
            }
        }
        program.ended().is_some()
    });
    succeeded(&program.end());
    assert_eq!(seen.last(), Some(&1.0), "{seen:?}");
    let stats = ok!(c, "DEDUPE.STATS", COPY).field("updateProgress");
    assert_eq!(stats.text().parse(), Ok(1.0));
}

#[test]
fn terminal_shows_lines_and_no_early_estimate() {
    let stage = Stage::new("on a terminal");
    let (status, shown) = on_terminal(stage.import().command(), 100, "");
    assert_eq!(status, 0, "{shown}");
    let draws = shown.split('\r').filter(|draw| draw.contains("packages"));
    let first: Vec<&str> = draws.filter(|draw| draw.contains(" 0/")).collect();
    assert!(!first.is_empty(), "{shown}");
    for draw in first {
        assert_contains(draw, " lines  ");
        assert_lacks(draw, "left");
    }
}

#[test]
fn second_import_has_its_own_progress() {
    let stage = Stage::with("second progress", Options::new(), 3, larger());
    let first = stage.folder.manifest_of("first.json", &stage.files_of(0));
    stage.import_of(&first).succeeds();
    let mut c = stage.server.wire();
    let counts = format!("{COPY}allcounts");
    assert_eq!(ok!(c, "HGET", counts, "updateProgress").text(), "1");
    let relay = Relay::to(&stage.server);
    // The whole manifest is queued, and no entry has been processed.
    let queued = || ok!(stage.server.wire(), "SCARD", format!("{COPY}src:qset")).int() > 0;
    let mut bytes = 500;
    let mut program = loop {
        relay.hold_after(bytes);
        let program = stage.import_over(&relay, COPY).start();
        until("the relay holds the import", || relay.holds());
        if queued() {
            break program;
        }
        killed(program, &relay);
        bytes += 500;
    };
    let progress = ok!(c, "HGET", counts, "updateProgress").text();
    relay.go_on();
    assert!(program.ended().is_none());
    succeeded(&program.end());
    stage.assert_once();
    assert_eq!(progress, "0", "progress before the first package is done");
}

#[test]
fn failed_file_counts_as_finished() {
    let stage = Stage::new("failed");
    let missing = |n: usize| Entry {
        name: format!("missing {n}"),
        path: "missing.wacz".into(),
        ..stage.folder.entries[0].clone()
    };
    let good = &stage.folder.entries[..2];
    let files = [&[missing(0), missing(1)], good].concat();
    let source = stage.folder.manifest_of("half.json", &files);
    let mut monitor = stage.server.wire();
    ok!(monitor, "MONITOR");
    let failed = stage.import_of(&source).fails_some();
    assert_eq!(failed.len(), 2, "{failed:?}");
    ok!(stage.server.wire(), "PING", "the end");
    let mut told: Vec<f64> = Vec::new();
    loop {
        let line = monitor.try_recv().expect("a line").text();
        if line.contains("the end") {
            break;
        }
        let set = line.split("\"updateProgress\" \"").nth(1);
        if let Some(progress) = set.and_then(|rest| rest.split('"').next()) {
            told.push(progress.parse().expect("a number"));
        }
    }
    told.dedup();
    assert_eq!(told, [0.0, 0.25, 0.5, 0.75, 1.0]);
}

#[test]
fn time_of_the_last_import_is_stored() {
    let stage = Stage::new("time");
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
    let from = now();
    stage.import().succeeds();
    let (noted, to) = (noted(&stage), now());
    // The value is in milliseconds, so the start time may be truncated.
    let is_within = noted + Duration::from_millis(1) > from && noted <= to;
    assert!(is_within, "{from:?} {noted:?} {to:?}");
    let mut again = self::noted(&stage);
    until("another import has another time", || {
        stage.import().succeeds();
        again = self::noted(&stage);
        again > noted
    });
}

/// Reads `last_update_ts`, which has the form `2026-03-19T10:20:15.123Z`.
fn noted(stage: &Stage) -> Duration {
    let text = ok!(stage.server.wire(), "GET", format!("{COPY}last_update_ts")).text();
    let zero = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let shape: String = text.chars().map(zero).collect();
    assert_eq!(shape, "0000-00-00T00:00:00.000Z", "{text}");
    let (seconds, rest) = text.split_once('.').expect("it is there");
    let digits = seconds.replace(['-', 'T', ':'], "");
    let date = Timestamp::earliest(digits.as_bytes()).expect("a date");
    let millis = rest[..3].parse().expect("digits");
    Duration::from_secs(date.seconds() as u64) + Duration::from_millis(millis)
}

#[test]
fn queue_matches_the_documentation() {
    let stage = Stage::with("queue", Options::new(), 3, larger());
    let relay = Relay::to(&stage.server);
    let mut c = stage.server.wire();
    let key = |name: &str| format!("{COPY}{name}");
    let mut bytes = 10_000;
    // Hold the import at a point where one file is being imported and others wait.
    let program = loop {
        relay.hold_after(bytes);
        let import = stage.import_over(&relay, COPY);
        let program = import.with("--lease", "30").start();
        until("the relay holds the import", || relay.holds());
        if ok!(c, "LLEN", key("pending:q")).int() == 1 && ok!(c, "LLEN", key("src:q")).int() > 0 {
            break program;
        }
        killed(program, &relay);
        bytes += 5_000;
        ok!(c, "FLUSHALL");
    };
    let entries = stage.folder.entries.iter();
    let mut names: Vec<String> = entries.map(|entry| entry.name.clone()).collect();
    names.sort();
    assert_eq!(redis_tests::set_key(&mut c, &key("src:qset")), names);
    let [pending, queued] = ["pending:q", "src:q"].map(|list| ok!(c, "LRANGE", key(list), 0, -1));
    let all = pending.items().iter().chain(queued.items());
    let mut listed: Vec<String> = all
        .map(|item| {
            let item: serde_json::Value = serde_json::from_slice(item.bytes()).expect("JSON");
            let name = item["name"].as_str().expect("a name").to_owned();
            let entry = stage.folder.entries.iter().find(|entry| entry.name == name);
            let entry = entry.expect("it is in the manifest");
            assert_eq!(item["crawlId"], entry.crawl);
            let path = stage.folder.file(&entry.path);
            assert_eq!(item["path"].as_str(), path.to_str());
            for (field, value) in [
                ("hash", serde_json::Value::from(&entry.hash[..])),
                ("size", entry.size.into()),
            ] {
                assert!(item[field] == value || item[field].is_null(), "{item}");
            }
            name
        })
        .collect();
    listed.sort();
    assert_eq!(listed, names);
    let guards = ok!(c, "KEYS", key("pending:q:*"));
    let [guard] = guards.items() else {
        panic!("one file is being imported: {guards:?}");
    };
    let left = ok!(c, "PTTL", guard.bytes()).int();
    assert!((1..=30_000).contains(&left), "it goes by itself: {left} ms");
    let committed = ok!(c, "SCARD", key("src:d"));
    assert_eq!(committed.int(), 0, "no crawl is committed yet");
    drop(program);
}

#[test]
fn many_small_files_take_few_commands() {
    let shape = with!(Shape, captures: 10, waczs: 1, plain: true);
    let stage = Stage::with("commands", Options::new().aof(false), 400, shape);
    let mut c = stage.server.wire();
    ok!(c, "CONFIG", "RESETSTAT");
    stage.import().succeeds();
    let calls = sent_to(&stage.server);
    let sent: u64 = calls.values().sum();
    let files = stage.folder.entries.len() as u64;
    assert_eq!(files, 400);
    assert!(sent <= 15 * files, "{sent} commands: {calls:?}");
    stage.assert_once();
}
