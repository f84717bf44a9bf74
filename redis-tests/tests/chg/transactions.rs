//! MULTI, Lua, WATCH, client tracking and keyspace notifications.

use redis_tests::{
    BusyFrontier, Frontier, Lease, Reply, Server, Snapshot, T0, array, bulk, nil, ok, release,
    simple, simulated,
};

/// Every writing command in an order in which each of them changes something. Tokens are those of
/// a fresh frontier: a thousand a millisecond.
fn writes() -> Vec<String> {
    let token = |n: i64| T0 * 1000 + n;
    vec![
        format!("ADD crawl a {T0} b {T0} c {T0} d {}", T0 + 500),
        format!("ADD crawl SEQ w 1 a {T0}"),
        format!("ADDURI crawl WEIGHT 2 kept {T0} 1 http://kept/1 kept {T0} 0 http://kept/0"),
        "NEXT LEASE 1000".into(),
        "NEXT COUNT 2".into(),
        format!("EXTEND a {} 5000", token(0)),
        format!("RELEASE a {} DELAY 0 DONE crawl", token(0)),
        format!(
            "RELEASE b {} ELAPSED 100 FACTOR 2 STATUS 503 DONE crawl NEXT",
            token(1)
        ),
        format!("RELEASE c {} AT 0 RETRY {}", token(2), T0 + 900),
        "NEXT LEASE 1".into(),
        format!("BLOCK d UNTIL {}", T0 + 700),
        "PAUSE d".into(),
        "RESUME d".into(),
        "PAUSE EXECUTION crawl".into(),
        "RESUME EXECUTION crawl".into(),
        "PAUSE".into(),
        "RESUME".into(),
        "LIMIT d PARALLEL 2 GAP 10 BUDGET 5".into(),
        "GROUP shared d c".into(),
        "MOVE d e".into(),
        "SWEEP".into(),
        "EXPIRED".into(),
        "DROP GROUP kept".into(),
        "DROP crawl".into(),
    ]
}

/// Runs `line` a millisecond after the one before.
fn each(f: &mut Frontier, mut run: impl FnMut(&mut Frontier, &str) -> Reply) -> Vec<Reply> {
    let lines = writes();
    let replies = lines.iter().map(|line| {
        if line.starts_with("SWEEP") {
            f.pass(10);
        }
        run(f, line)
    });
    replies.collect()
}

fn run_directly(server: &Server) -> Vec<Reply> {
    let mut f = Frontier::at(server, T0);
    each(&mut f, |f, line| f.ok(line))
}

#[test]
fn every_command_does_the_same_in_a_transaction() {
    let (direct, multi) = (simulated().start(), simulated().start());
    let expected = run_directly(&direct);
    let mut f = Frontier::at(&multi, T0);
    ok!(f.wire, "MULTI");
    each(&mut f, |f, line| {
        let reply = f.ok(line);
        assert_eq!(reply, simple("QUEUED"));
        reply
    });
    assert_eq!(ok!(f.wire, "EXEC"), Reply::Array(expected));
    multi
        .snapshot()
        .assert_same(&direct.snapshot(), "transaction");
    assert_eq!(multi.digest(), direct.digest());
}

#[test]
fn every_command_does_the_same_in_a_script() {
    let (direct, scripted) = (simulated().start(), simulated().start());
    let expected = run_directly(&direct);
    let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
    let eval = |f: &mut Frontier, line: &str| {
        let words = f.words(line);
        let mut eval: Vec<&[u8]> = vec![b"EVAL", script.as_bytes(), b"1", &words[1], &words[0]];
        eval.extend(words[2..].iter().map(Vec::as_slice));
        f.wire.expect_ok(&eval)
    };
    let mut f = Frontier::at(&scripted, T0);
    let replies = each(&mut f, eval);
    for ((line, is), should) in writes().iter().zip(&replies).zip(&expected) {
        // A script cuts an array at its first nil.
        if !format!("{should:?}").contains("nil") {
            assert_eq!(is, should, "{line}");
        }
    }
    for line in ["WHY a", "INFO", "LIST", "URIS a", "CHECK"] {
        eval(&mut f, line);
    }
    scripted
        .snapshot()
        .assert_same(&direct.snapshot(), "script");
}

#[test]
fn every_write_writes() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    let mut before = server.digest();
    each(&mut f, |f, line| {
        let reply = f.ok(line);
        let after = server.digest();
        assert_ne!(after, before, "{line} changed nothing: {reply:?}");
        before = after;
        reply
    });
}

#[test]
fn next_does_not_wait_in_a_transaction_or_script() {
    let server = Server::start();
    let mut f = Frontier::real(&server);
    let next = f.words("NEXT BLOCK 0");
    ok!(f.wire, "MULTI");
    f.wire.expect_ok(&next);
    assert_eq!(ok!(f.wire, "EXEC"), array([nil()]));
    let script = "return redis.call('CHG.NEXT', KEYS[1], 'BLOCK', '0')";
    assert_eq!(ok!(f.wire, "EVAL", script, 1, "{f}:"), nil());
    f.add("crawl", "host", 0);
    let lease = f.take("host");
    let line = f.words(release(&lease, "DELAY 60000 NEXT BLOCK 0"));
    ok!(f.wire, "MULTI");
    f.wire.expect_ok(&line);
    let reply = ok!(f.wire, "EXEC");
    assert_eq!(reply.items()[0].items()[1], nil());
    f.add("crawl", "another", 0);
    let reply = ok!(f.wire, "EVAL", script, 1, "{f}:");
    assert_eq!(reply.items()[0].items()[0], bulk("another"));
}

#[test]
fn read_only_scripts_may_read() {
    let server = Server::start();
    let mut f = Frontier::real(&server);
    f.add("crawl", "host", 0);
    let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
    ok!(f.wire, "EVAL_RO", script, 1, "{f}:", "CHG.WHY", "host");
    ok!(f.wire, "EVAL_RO", script, 1, "{f}:", "CHG.INFO");
    ok!(f.wire, "EVAL_RO", script, 1, "{f}:", "CHG.LIST");
    ok!(f.wire, "EVAL_RO", script, 1, "{f}:", "CHG.URIS", "host");
    ok!(f.wire, "EVAL_RO", script, 1, "{f}:", "CHG.CHECK");
    let error = redis_tests::err!(f.wire, "EVAL_RO", script, 1, "{f}:", "CHG.NEXT");
    assert!(
        error.contains("read-only") || error.contains("Write commands"),
        "{error}"
    );
}

#[test]
fn script_that_writes_to_a_queue_wakes_waiters_when_it_is_over() {
    let server = Server::start();
    let mut f = Frontier::real(&server);
    let mut waiter = redis_tests::blocked(&server, "{f}:", "NEXT BLOCK 0");
    // What the script takes back is not leased in the middle of it.
    let script = "redis.call('RPUSH', KEYS[1] .. 'chg_ready', 'x')
        redis.call('DEL', KEYS[1] .. 'chg_ready')
        redis.call('RPUSH', KEYS[1] .. 'chg_ready', 'y')
        return redis.call('LLEN', KEYS[1] .. 'chg_ready')";
    assert_eq!(ok!(f.wire, "EVAL", script, 1, "{f}:").int(), 1);
    assert_eq!(Lease::only(&waiter.wire.recv()).chg, "y");
}

/// Commands that change nothing on a frontier with a group in every state.
fn unchanging(out: &BusyFrontier) -> Vec<String> {
    let (idle, gate) = &out.released;
    vec![
        release(idle, format!("AT {gate} DONE crawl")),
        "RELEASE held 5 AT 0".into(),
        "RELEASE nobody 5 AT 0".into(),
        "EXTEND held 5 1000".into(),
        "ADD crawl SEQ writer 3 numbered 0".into(),
        "ADD crawl SEQ writer 2 numbered 0".into(),
        "ADD crawl host soon".into(),
        format!("ADDURI other kept {T0} 1 http://kept/2"),
        "BLOCK nobody UNTIL 0".into(),
        "BLOCK waiting UNTIL 0".into(),
        "PAUSE paused".into(),
        "RESUME waiting".into(),
        "PAUSE EXECUTION held-back".into(),
        "RESUME EXECUTION nobody".into(),
        "RESUME".into(),
        "LIMIT parallel PARALLEL 2".into(),
        "GROUP shared member1 member2".into(),
        "DROP nobody".into(),
        "DROP GROUP nobody".into(),
        "MOVE held waiting".into(),
        "WHY held".into(),
        "INFO".into(),
        "LIST".into(),
        "URIS kept".into(),
        "CHECK".into(),
        "REPAIR".into(),
    ]
}

fn every_state() -> (Server, Frontier, BusyFrontier) {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    let out = BusyFrontier::build(&mut f);
    // The one that is ready is taken, so that NEXT finds nothing.
    f.take("ready");
    f.take_none();
    f.ok("SWEEP");
    f.ok("EXPIRED");
    (server, f, out)
}

#[test]
fn commands_that_change_nothing_do_not_disturb_watch() {
    let (server, mut f, out) = every_state();
    let mut watcher = server.wire();
    let before = Snapshot::of(&mut f.wire);
    let mut disturbed = Vec::new();
    let mut lines = unchanging(&out);
    lines.extend(["NEXT", "NEXT COUNT 5", "SWEEP", "EXPIRED"].map(String::from));
    for line in lines {
        let mut watch = vec!["WATCH".to_owned()];
        watch.extend(before.names());
        watcher.expect_ok(&watch);
        f.call(&line);
        ok!(watcher, "MULTI");
        ok!(watcher, "PING");
        if ok!(watcher, "EXEC").is_nil() {
            disturbed.push(line.clone());
        }
        Snapshot::of(&mut f.wire).assert_same(&before, &line);
    }
    assert_eq!(disturbed, [""; 0], "these broke a WATCH");
}

#[test]
fn commands_that_change_nothing_do_not_invalidate_tracked_keys() {
    let (server, mut f, out) = every_state();
    let mut tracker = server.wire3();
    ok!(tracker, "CLIENT", "TRACKING", "ON", "BCAST");
    let mut invalidated = Vec::new();
    for line in unchanging(&out) {
        f.call(&line);
        if !tracker.pushes().is_empty() {
            invalidated.push(line);
        }
    }
    assert_eq!(invalidated, [""; 0], "these invalidated tracked keys");
    f.add("crawl", "waiting", T0);
    redis_tests::until("a change invalidates", || !tracker.pushes().is_empty());
}

#[test]
fn every_changed_key_is_notified() {
    let server = simulated().start();
    let mut f = Frontier::at(&server, T0);
    ok!(f.wire, "CONFIG", "SET", "notify-keyspace-events", "KA");
    let mut silent = Vec::new();
    let mut before = Snapshot::of(&mut f.wire);
    each(&mut f, |f, line| {
        let mut listener = server.wire();
        ok!(listener, "PSUBSCRIBE", "__keyspace@0__:*");
        let reply = f.ok(line);
        let after = Snapshot::of(&mut f.wire);
        ok!(f.wire, "PUBLISH", "__keyspace@0__:end", "end");
        let mut notified = Vec::new();
        loop {
            let message = listener.recv();
            if message.items()[3] == bulk("end") {
                break;
            }
            let channel = message.items()[2].text();
            let (_, key) = channel.split_once(':').expect("a key");
            notified.push(key.to_owned());
        }
        for key in changed_keys(&before, &after) {
            if !notified.contains(&key) {
                silent.push(format!("{key} by {line}"));
            }
        }
        before = after;
        reply
    });
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
fn watch_sees_a_lease() {
    let server = simulated().start();
    let (mut f, mut watcher) = (Frontier::at(&server, T0), server.wire());
    f.add("crawl", "host", T0);
    ok!(watcher, "WATCH", "{f}:chg_busy");
    f.take("host");
    ok!(watcher, "MULTI");
    ok!(watcher, "PING");
    assert!(ok!(watcher, "EXEC").is_nil());
}
