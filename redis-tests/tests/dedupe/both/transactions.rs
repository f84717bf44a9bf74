//! MULTI, Lua, WATCH, client tracking and keyspace notifications.

use redis_tests::{
    Crawl, DATE, Reply, Server, Snapshot, Wire, add, array, assert_consistent, bulk, commit, int,
    ok, owners, packed_by_default, record_of, sha256_of,
};

const P: &str = "p:";

/// Every writing command in an order in which each of them changes something.
fn writes() -> Vec<Vec<String>> {
    let h = sha256_of;
    let lines = [
        format!("DEDUPE.PROFILE {P} document"),
        format!(
            "DEDUPE.ADD {P} a {} 0 {DATE} http://e.com/ 500 {} 0 {DATE} http://e.com/2 500",
            h(1),
            h(2)
        ),
        format!("DEDUPE.BEGIN {P} begun VISIBLE"),
        format!("DEDUPE.WACZOPEN {P} a open.wacz"),
        format!("DEDUPE.WACZCLOSE {P} a 0 a.wacz sha256:ab 77 RENAME"),
        format!("DEDUPE.REVISIT {P} a {} 5", h(1)),
        format!("DEDUPE.REVISIT {P} a NOREF {} 5 ORIGINAL z 0 9", h(1)),
        format!("DEDUPE.COMMIT {P} a"),
        format!(
            "DEDUPE.ADD {P} b SEQ w 1 {} 0 {DATE} http://e.com/ 500 {} 0 {DATE} http://e.com/3 500",
            h(1),
            h(3)
        ),
        format!("DEDUPE.REVISIT {P} b REF u {} 5", h(2)),
        format!("DEDUPE.COMMIT {P} b"),
        format!("DEDUPE.ADD {P} a {} 0 {DATE} http://e.com/ 500", h(4)),
        format!("DEDUPE.CLAIM {P} b {} PX 600000", h(5)),
        format!("DEDUPE.UNCLAIM {P} {} 1", h(5)),
        format!("DEDUPE.CANCEL {P} a"),
        format!("DEDUPE.ADD {P} c {} 0 {DATE} http://e.com/ 500", h(6)),
        format!("DEDUPE.CANCEL {P} c"),
        format!("DEDUPE.RETAIN {P} b"),
        format!("DEDUPE.REMOVE {P} a"),
        format!("DEDUPE.RETAIN {P} PURGE b"),
    ];
    let split = |line: &String| line.split(' ').map(str::to_owned).collect();
    lines.iter().map(split).collect()
}

fn run_directly(c: &mut Wire) -> Vec<Reply> {
    writes().iter().map(|words| c.expect_ok(words)).collect()
}

#[test]
fn every_command_does_the_same_in_a_transaction() {
    let (direct, multi) = (Server::start(), Server::start());
    let expected = run_directly(&mut direct.wire());
    let mut c = multi.wire();
    ok!(c, "MULTI");
    for words in writes() {
        assert_eq!(c.expect_ok(&words), redis_tests::simple("QUEUED"));
    }
    assert_eq!(ok!(c, "EXEC"), Reply::Array(expected));
    multi
        .snapshot()
        .assert_same(&direct.snapshot(), "transaction");
    assert_eq!(multi.digest(), direct.digest());
}

#[test]
fn every_command_does_the_same_in_a_script() {
    let (direct, scripted) = (Server::start(), Server::start());
    let expected = run_directly(&mut direct.wire());
    let mut c = scripted.wire();
    let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
    for (words, expected) in writes().iter().zip(expected) {
        let mut eval = vec!["EVAL", script, "1", &words[1], &words[0]];
        eval.extend(words[2..].iter().map(String::as_str));
        assert_eq!(c.expect_ok(&eval), expected, "{words:?}");
    }
    let reads: [&[&str]; 6] = [
        &["DEDUPE.STATS"],
        &["DEDUPE.CRAWLS"],
        &["DEDUPE.CHECK"],
        &["DEDUPE.REQUIREDBY", "b"],
        &["DEDUPE.REQUIRES", "b"],
        &["DEDUPE.WACZLIST", "b"],
    ];
    for read in reads {
        let mut eval = vec!["EVAL", script, "1", P, read[0]];
        eval.extend(&read[1..]);
        c.expect_ok(&eval);
    }
    scripted
        .snapshot()
        .assert_same(&direct.snapshot(), "script");
}

#[test]
fn read_only_scripts_may_read() {
    let server = Server::start();
    let mut c = server.wire();
    add(&mut c, P, "a", [1]);
    commit(&mut c, P, "a");
    let script = "return redis.call('DEDUPE.LOOKUP', KEYS[1], ARGV[1])";
    assert_eq!(
        ok!(c, "EVAL_RO", script, 1, P, sha256_of(1)),
        array([record_of("a", 1)])
    );
    let script = "return redis.call('DEDUPE.COMMIT', KEYS[1], 'a')";
    assert!(redis_tests::err!(c, "EVAL_RO", script, 1, P).contains("read-only"));
}

#[test]
fn large_jobs_run_through_inside_a_transaction() {
    let server = Server::start();
    let mut c = server.wire();
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 30_000,
    }
    .add(&mut c);
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.COMMIT", P, "a");
    ok!(c, "DEDUPE.LOOKUP", P, sha256_of(29_999));
    let replies = ok!(c, "EXEC");
    assert_eq!(replies.items()[0], array([int(30_000), int(0)]));
    assert_eq!(replies.items()[1], array([record_of("a", 29_999)]));
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.REMOVE", P, "a");
    assert_eq!(ok!(c, "EXEC").items()[0].ints(), [1, 30_000, 0]);
    assert_consistent(&mut c, P);
}

#[test]
fn transaction_during_a_running_job_ends_in_a_serial_outcome() {
    let server = Server::start();
    let (mut c, mut committer) = (server.wire(), server.wire());
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 60_000,
    }
    .add(&mut c);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    redis_tests::until("the commit is under way", || {
        ok!(c, "EXISTS", "p:committing") == int(1)
    });
    ok!(c, "MULTI");
    ok!(c, "DEDUPE.COMMIT", P, "a");
    let inside = ok!(c, "EXEC").items()[0].clone();
    let outside = committer.recv();
    let full = array([int(60_000), int(0)]);
    assert!(inside == full || outside == full, "{inside:?} {outside:?}");
    assert_eq!(ok!(c, "HGET", "p:allcounts", "totalUrls"), bulk("60000"));
    assert_eq!(owners(&mut c, P, [0, 59_999]), ["a", "a"]);
    assert_consistent(&mut c, P);
}

/// Commands that change nothing on the index of [`unchanging_index`].
fn unchanging() -> Vec<Vec<String>> {
    let h = sha256_of;
    let record = |n: u64| {
        let words = redis_tests::words_of(n).map(|w| String::from_utf8(w).unwrap());
        words.join(" ")
    };
    let lines = [
        format!("DEDUPE.LOOKUP {P} {}", h(1)),
        format!("DEDUPE.LOOKUP {P} CRAWL open WITHWACZ {}", h(1)),
        format!("DEDUPE.ADD {P} open {}", record(5)),
        format!("DEDUPE.ADD {P} open SEQ w 1 {}", record(6)),
        format!("DEDUPE.REVISIT {P} open SEQ w 1 {} 5", h(1)),
        format!("DEDUPE.REVISIT {P} open {} 5", h(999)),
        format!("DEDUPE.BEGIN {P} open"),
        format!("DEDUPE.WACZOPEN {P} a a.wacz"),
        format!("DEDUPE.WACZCLOSE {P} a 0 a.wacz sha256:ab 77"),
        format!("DEDUPE.WACZCLOSE {P} a 0 a.wacz sha256:ab 77 RENAME"),
        format!("DEDUPE.WACZLIST {P} a"),
        format!("DEDUPE.COMMIT {P} a"),
        format!("DEDUPE.CANCEL {P} a"),
        format!("DEDUPE.CANCEL {P} nobody"),
        format!("DEDUPE.REMOVE {P} nobody"),
        format!("DEDUPE.RETAIN {P} nobody"),
        format!("DEDUPE.RETAIN {P} a"),
        format!("DEDUPE.CLAIM {P} open {} PX 1000", h(1)),
        format!("DEDUPE.CLAIM {P} open {} PX 1000", h(7)),
        format!("DEDUPE.UNCLAIM {P} {} 1", h(8)),
        format!("DEDUPE.UNCLAIM {P} {} 99", h(7)),
        format!("DEDUPE.REQUIRES {P} a"),
        format!("DEDUPE.REQUIREDBY {P} a"),
        format!("DEDUPE.STATS {P}"),
        format!("DEDUPE.STATS {P} a"),
        format!("DEDUPE.CRAWLS {P}"),
        format!("DEDUPE.CHECK {P}"),
        format!("DEDUPE.REPAIR {P}"),
        format!("DEDUPE.PROFILE {P}"),
        format!(
            "DEDUPE.{} {P}",
            if packed_by_default() {
                "PACK"
            } else {
                "UNPACK"
            }
        ),
    ];
    let split = |line: &String| line.split(' ').map(str::to_owned).collect();
    lines.iter().map(split).collect()
}

fn unchanging_index(c: &mut Wire) {
    add(c, P, "a", 0..3);
    ok!(c, "DEDUPE.WACZOPEN", P, "a", "a.wacz");
    ok!(c, "DEDUPE.WACZCLOSE", P, "a", 0, "a.wacz", "sha256:ab", 77);
    commit(c, P, "a");
    add(c, P, "open", [5]);
    ok!(
        c,
        "DEDUPE.REVISIT",
        P,
        "open",
        "SEQ",
        "w",
        1,
        sha256_of(1),
        5
    );
    ok!(c, "DEDUPE.CLAIM", P, "other", sha256_of(7), "PX", 600_000);
    ok!(c, "DEDUPE.RETAIN", P, "a");
}

#[test]
fn commands_that_change_nothing_do_not_disturb_watch() {
    let server = Server::start();
    let (mut c, mut watcher) = (server.wire(), server.wire());
    unchanging_index(&mut c);
    let before = Snapshot::of(&mut c);
    let mut disturbed = Vec::new();
    for words in unchanging() {
        let mut watch = vec!["WATCH".to_owned()];
        watch.extend(before.names());
        watcher.expect_ok(&watch);
        c.call(&words);
        ok!(watcher, "MULTI");
        ok!(watcher, "PING");
        if ok!(watcher, "EXEC").is_nil() {
            disturbed.push(words.join(" "));
        }
        Snapshot::of(&mut c).assert_same(&before, &words.join(" "));
    }
    assert_eq!(disturbed, [""; 0], "these broke a WATCH");
}

#[test]
fn commands_that_change_nothing_do_not_invalidate_tracked_keys() {
    let server = Server::start();
    let (mut c, mut tracker) = (server.wire(), server.wire3());
    unchanging_index(&mut c);
    ok!(tracker, "CLIENT", "TRACKING", "ON", "BCAST");
    let mut invalidated = Vec::new();
    for words in unchanging() {
        c.call(&words);
        if !tracker.pushes().is_empty() {
            invalidated.push(words.join(" "));
        }
    }
    assert_eq!(invalidated, [""; 0], "these invalidated tracked keys");
    add(&mut c, P, "open", [6]);
    redis_tests::until("a change invalidates", || !tracker.pushes().is_empty());
}

#[test]
fn every_changed_key_is_notified() {
    let server = Server::start();
    let mut c = server.wire();
    ok!(c, "CONFIG", "SET", "notify-keyspace-events", "KA");
    let mut silent = Vec::new();
    let mut before = Snapshot::of(&mut c);
    for words in writes() {
        let mut listener = server.wire();
        ok!(listener, "PSUBSCRIBE", "__keyspace@0__:*");
        c.expect_ok(&words);
        let after = Snapshot::of(&mut c);
        ok!(c, "PUBLISH", "__keyspace@0__:end", "end");
        let mut notified = Vec::new();
        loop {
            let message = listener.recv();
            let channel = message.items()[2].text();
            if message.items()[3] == bulk("end") {
                break;
            }
            notified.push(channel.split_once(':').unwrap().1.to_owned());
        }
        for key in changed_keys(&before, &after) {
            if !notified.contains(&key) {
                silent.push(format!("{key} by {}", words.join(" ")));
            }
        }
        before = after;
    }
    assert_eq!(silent, [""; 0], "changed without a notification");
}

fn changed_keys(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut names = before.names();
    names.extend(after.names());
    names.sort();
    names.dedup();
    let only = |name: &String, s: &Snapshot| s.clone().without(|key| key != name.as_bytes());
    names.retain(|name| only(name, before) != only(name, after));
    names
}

#[test]
fn jobs_notify_the_keys_of_their_slices() {
    let server = Server::start();
    let mut c = server.wire();
    Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 30_000,
    }
    .add(&mut c);
    ok!(c, "CONFIG", "SET", "notify-keyspace-events", "KA");
    let mut listener = server.wire();
    ok!(listener, "SUBSCRIBE", "__keyspace@0__:p:allhashes");
    commit(&mut c, P, "a");
    assert!(!listener.is_silent_for(std::time::Duration::from_secs(5)));
}

#[test]
fn watch_sees_a_change_by_a_command() {
    let server = Server::start();
    let (mut c, mut watcher) = (server.wire(), server.wire());
    add(&mut c, P, "a", [1]);
    ok!(watcher, "WATCH", "p:h:a", "p:h:a:counts");
    add(&mut c, P, "a", [2]);
    ok!(watcher, "MULTI");
    ok!(watcher, "PING");
    assert!(ok!(watcher, "EXEC").is_nil());
}
