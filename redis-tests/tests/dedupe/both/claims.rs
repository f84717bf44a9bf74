//! CLAIM: two workers that meet the same new payload do not both store it.

use std::time::{Duration, Instant};

use redis_tests::{
    DedupeIndex, Options, Reply, Server, Wire, array, bulk, int, ok, record_of, sha256_of, until,
    words_of,
};

const P: &str = "p:";
/// Long enough to be sure that a command is blocked, short enough not to be felt.
const QUIET: Duration = Duration::from_millis(150);

fn claim(c: &mut Wire, crawl: &str, n: u64) -> Reply {
    ok!(c, "DEDUPE.CLAIM", P, crawl, sha256_of(n), "PX", 600_000)
}

fn claimed(reply: &Reply) -> String {
    let items = reply.items();
    assert_eq!(items[0], bulk("CLAIMED"), "{reply:?}");
    assert_eq!(items.len(), 2, "{reply:?}");
    items[1].text()
}

fn pending(reply: &Reply) -> (String, i64) {
    let items = reply.items();
    assert_eq!(items[0], bulk("PENDING"), "{reply:?}");
    (items[1].text(), items[2].int())
}

fn dupe(reply: &Reply) -> Reply {
    let items = reply.items();
    assert_eq!(items[0], bulk("DUPE"), "{reply:?}");
    items[1].clone()
}

fn settle(c: &mut Wire, crawl: &str, token: &str, n: u64) -> Reply {
    let mut words: Vec<Vec<u8>> = ["DEDUPE.ADD", P, crawl, "TOKEN", token]
        .iter()
        .map(|w| w.as_bytes().to_vec())
        .collect();
    words.extend(words_of(n));
    c.call(&words)
}

/// A client blocked on hash `n`, seen by the server.
fn blocked(server: &Server, crawl: &str, n: u64) -> Wire {
    let before = server.info_number("blocked_clients");
    let mut waiter = server.wire();
    let hash = sha256_of(n);
    waiter.send(&[
        "DEDUPE.CLAIM",
        P,
        crawl,
        &hash,
        "PX",
        "600000",
        "BLOCK",
        "60000",
    ]);
    until("the claim is blocked", || {
        server.info_number("blocked_clients") > before
    });
    waiter
}

#[test]
fn claim_is_granted_once_and_settled_by_add() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    assert!(token.bytes().all(|b| b.is_ascii_digit()), "{token}");
    let (holder, left) = pending(&claim(&mut c, "b", 1));
    assert_eq!(holder, "a");
    assert!((1..=600_000).contains(&left), "{left}");
    assert_eq!(settle(&mut c, "a", &token, 1), int(1));
    assert_eq!(ok!(c, "EXISTS", "p:claims"), int(0));
    assert_eq!(dupe(&claim(&mut c, "a", 1)), record_of("a", 1));
    c.commit("a");
    assert_eq!(dupe(&claim(&mut c, "b", 1)), record_of("a", 1));
    assert_eq!(ok!(c, "EXISTS", "p:claims"), int(0));
}

#[test]
fn claim_does_not_start_a_crawl() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    assert_eq!(ok!(c, "EXISTS", "p:uncommittedcrawls", "p:h:a"), int(0));
    assert_eq!(c.ok(format!("UNCLAIM #1 '{token}'")), int(1));
    assert!(c.err("COMMIT a").starts_with("NOCRAWL "));
}

#[test]
fn unclaim_gives_it_up() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    let line = c.err("UNCLAIM #1 999999");
    assert!(line.starts_with("STALE "), "{line}");
    assert_eq!(c.ok(format!("UNCLAIM #1 '{token}'")), int(1));
    assert_eq!(c.ok(format!("UNCLAIM #1 '{token}'")), int(0));
    let next = claimed(&claim(&mut c, "b", 1));
    assert_ne!(next, token, "a token is never given twice");
}

#[test]
fn add_with_anothers_token_is_stale_and_changes_nothing() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let old = claimed(&c.ok("CLAIM a #1 PX 1"));
    let new = until_claimed(&mut c, "b", 1);
    let before = server.snapshot();
    match settle(&mut c, "a", &old, 1) {
        Reply::Error(line) => assert!(line.starts_with(b"STALE "), "{line:?}"),
        other => panic!("{other:?}"),
    }
    server.snapshot().assert_same(&before, "stale ADD");
    assert_eq!(settle(&mut c, "b", &new, 1), int(1));
}

fn until_claimed(c: &mut Wire, crawl: &str, n: u64) -> String {
    redis_tests::until_some("the claim expires", || {
        let reply = claim(c, crawl, n);
        (reply.items()[0] == bulk("CLAIMED")).then(|| claimed(&reply))
    })
}

#[test]
fn expired_claim_is_still_good_when_nobody_else_took_it() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&c.ok("CLAIM a #1 PX 1"));
    // Over after a millisecond; another claim of a hash with the same deadline tells.
    let other = claimed(&c.ok("CLAIM a #2 PX 1"));
    until_claimed(&mut c, "b", 2);
    assert_ne!(token, other);
    assert_eq!(settle(&mut c, "a", &token, 1), int(1));
}

#[test]
fn same_worker_is_told_that_its_claim_is_pending() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    assert_eq!(pending(&claim(&mut c, "a", 1)).0, "a");
}

#[test]
fn spelling_of_a_claimed_hash_does_not_matter() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let hash = sha256_of(1);
    let bare = hash.strip_prefix("sha256:").unwrap();
    let token = claimed(&claim(&mut c, "a", 1));
    let reply = c.ok(format!("CLAIM b '{bare}' PX 1000"));
    assert_eq!(pending(&reply).0, "a");
    assert_eq!(c.ok(format!("UNCLAIM '{bare}' '{token}'")), int(1));
}

#[test]
fn waiter_wakes_when_the_holder_adds() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut same = blocked(&server, "a", 1);
    let mut other = blocked(&server, "b", 1);
    let mut third = blocked(&server, "c", 1);
    assert!(same.is_silent_for(QUIET));
    assert_eq!(settle(&mut c, "a", &token, 1), int(1));
    assert_eq!(dupe(&same.recv()), record_of("a", 1));
    // Another crawl does not see the record before its commit: the next in line gets the claim.
    let next = claimed(&other.recv());
    assert!(third.is_silent_for(QUIET));
    assert_eq!(settle(&mut c, "b", &next, 1), int(1));
    claimed(&third.recv());
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn waiters_wake_when_the_holder_commits() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "b", 1));
    let mut waiter = blocked(&server, "c", 1);
    c.add("a", [1]);
    c.commit("a");
    // The hash is in the index now, whoever had claimed it.
    let reply = redis_tests::within(Duration::from_secs(2), || {
        waiter.has_reply().then(|| waiter.recv())
    });
    match reply {
        Some(reply) => assert_eq!(dupe(&reply), record_of("a", 1)),
        // Waiting on for the holder is right too, as long as it ends with it.
        None => {
            ok!(c, "DEL", "p:claims");
            assert_eq!(dupe(&waiter.recv()), record_of("a", 1));
        }
    }
}

#[test]
fn waiter_wakes_when_the_holder_gives_up() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut waiter = blocked(&server, "b", 1);
    assert_eq!(c.ok(format!("UNCLAIM #1 '{token}'")), int(1));
    let next = claimed(&waiter.recv());
    assert_eq!(pending(&claim(&mut c, "c", 1)).0, "b");
    assert_eq!(settle(&mut c, "b", &next, 1), int(1));
}

#[test]
fn waiter_wakes_when_the_claim_expires() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&c.ok("CLAIM a #1 PX 200"));
    let start = Instant::now();
    let hash = sha256_of(1);
    let reply = ok!(
        c,
        "DEDUPE.CLAIM",
        P,
        "b",
        hash,
        "PX",
        600_000,
        "BLOCK",
        60_000
    );
    claimed(&reply);
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{:?}",
        start.elapsed()
    );
}

#[test]
fn waiter_wakes_when_the_holder_is_canceled() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("a", [7]);
    claimed(&claim(&mut c, "a", 1));
    let mut waiter = blocked(&server, "b", 1);
    assert_eq!(c.ok("CANCEL a"), int(1));
    claimed(&waiter.recv());
}

#[test]
fn waiter_wakes_when_a_plain_client_deletes_the_claims() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    let mut waiter = blocked(&server, "b", 1);
    ok!(c, "DEL", "p:claims");
    claimed(&waiter.recv());
    let mut second = blocked(&server, "c", 1);
    ok!(c, "HDEL", "p:claims", sha256_of(1));
    claimed(&second.recv());
    let mut third = blocked(&server, "a", 1);
    ok!(c, "FLUSHALL");
    claimed(&third.recv());
}

#[test]
fn blocked_claim_gives_up_after_its_time() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    let start = Instant::now();
    let reply = c.ok("CLAIM b #1 PX 1000 BLOCK 100");
    assert_eq!(pending(&reply).0, "a");
    assert!(
        start.elapsed() >= Duration::from_millis(95),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn waiter_that_hangs_up_does_not_take_the_claim() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    let gone = blocked(&server, "b", 1);
    let mut patient = blocked(&server, "c", 1);
    gone.hang_up();
    until("the server notices", || {
        server.info_number("blocked_clients") == 1
    });
    assert_eq!(c.ok(format!("UNCLAIM #1 '{token}'")), int(1));
    claimed(&patient.recv());
    until("no waiter is left", || {
        server.info_number("claims_pending") == 0
    });
}

#[test]
fn client_unblock_ends_the_wait() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    let mut waiter = server.wire();
    let id = ok!(waiter, "CLIENT", "ID").int();
    let hash = sha256_of(1);
    waiter.send(&[
        "DEDUPE.CLAIM",
        P,
        "b",
        &hash,
        "PX",
        "1000",
        "BLOCK",
        "60000",
    ]);
    until("the claim is blocked", || {
        server.info_number("blocked_clients") == 1
    });
    // Whether a module's client can be unblocked is the server's choice; nothing may break.
    let unblocked = ok!(c, "CLIENT", "UNBLOCK", id, "ERROR").int();
    if unblocked == 1 {
        waiter.recv();
    }
    ok!(c, "PING");
}

#[test]
fn claim_in_a_transaction_or_script_does_not_block() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    ok!(c, "MULTI");
    ok!(
        c,
        "DEDUPE.CLAIM",
        P,
        "b",
        sha256_of(1),
        "PX",
        1000,
        "BLOCK",
        60_000
    );
    let reply = ok!(c, "EXEC");
    assert_eq!(pending(&reply.items()[0]).0, "a");
    let script =
        "return redis.call('DEDUPE.CLAIM', KEYS[1], 'b', ARGV[1], 'PX', '9', 'BLOCK', '60000')";
    let reply = ok!(c, "EVAL", script, 1, P, sha256_of(1));
    assert_eq!(pending(&reply).0, "a");
}

#[test]
fn claims_of_different_hashes_do_not_wake_each_other() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let one = claimed(&claim(&mut c, "a", 1));
    claimed(&claim(&mut c, "a", 2));
    let mut waiter = blocked(&server, "b", 2);
    assert_eq!(settle(&mut c, "a", &one, 1), int(1));
    assert!(waiter.is_silent_for(QUIET));
}

#[test]
fn claims_live_in_their_own_database() {
    let server = Server::start();
    let (mut zero, mut one) = (server.wire(), server.wire());
    ok!(one, "SELECT", 1);
    claimed(&claim(&mut zero, "a", 1));
    claimed(&claim(&mut one, "a", 1));
    let mut waiter = blocked(&server, "b", 1);
    ok!(one, "FLUSHDB");
    assert!(waiter.is_silent_for(QUIET));
    ok!(zero, "FLUSHDB");
    claimed(&waiter.recv());
}

#[test]
fn many_workers_store_a_payload_once() {
    let server = Server::start();
    let hashes = 40;
    let stored: i64 = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut c = DedupeIndex::of(&server, P);
                    let mut stored = 0;
                    for n in 0..hashes {
                        let hash = sha256_of(n);
                        let reply = ok!(
                            c,
                            "DEDUPE.CLAIM",
                            P,
                            "a",
                            hash,
                            "PX",
                            60_000,
                            "BLOCK",
                            60_000
                        );
                        if reply.items()[0] == bulk("CLAIMED") {
                            stored += 1;
                            assert_eq!(settle(&mut c, "a", &claimed(&reply), n), int(1));
                        } else {
                            assert_eq!(dupe(&reply), record_of("a", n));
                        }
                    }
                    stored
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .sum()
    });
    assert_eq!(stored, hashes as i64);
    assert_eq!(ok!(server.wire(), "EXISTS", "p:claims"), int(0));
}

#[test]
fn claim_replicates_without_the_clock() {
    let server = Options::new().aof(false).start();
    let replica = Options::new().replica_of(&server).start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    claimed(&c.ok("CLAIM a #2 PX 1"));
    until_claimed(&mut c, "b", 2);
    c.ok(format!("UNCLAIM #1 '{token}'"));
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn claim_arguments_are_checked() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    for (words, named) in [
        (&["PX", "0"][..], "PX"),
        (&["PX", "-5"], "PX"),
        (&["PX", "soon"], "PX"),
        (&["PX", "10", "BLOCK", "x"], "BLOCK"),
        (&["PX", "10", "BLOCK", "-1"], "BLOCK"),
        (&["PX", "10", "WAIT", "5"], "WAIT"),
        (&["EX", "10"], "PX"),
    ] {
        let hash = sha256_of(1);
        let mut all = vec!["DEDUPE.CLAIM", P, "a", &hash];
        all.extend(words);
        let line = c.expect_error(&all);
        assert!(
            line.starts_with("ERR ") && line.contains(named),
            "{words:?}: {line}"
        );
    }
    assert_eq!(server.snapshot().names(), [""; 0]);
    assert_eq!(c.ok("LOOKUP #1"), array([redis_tests::nil()]));
}

#[test]
fn known_payload_comes_with_its_wacz_when_asked_for() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let token = claimed(&claim(&mut c, "a", 1));
    let ask = |c: &mut Wire, options: &[&str]| {
        let hash = sha256_of(1);
        let mut words = vec!["DEDUPE.CLAIM", P, "a", &hash, "PX", "60000"];
        words.extend(options);
        c.send(&words);
    };
    let mut waiter = server.wire();
    ask(&mut waiter, &["WITHWACZ", "BLOCK", "60000"]);
    until("the claim is blocked", || {
        server.info_number("claims_pending") == 1
    });
    c.ok("WACZOPEN a 0.wacz");
    c.ok("WACZOPEN a 1.wacz");
    settle(&mut c, "a", &token, 1);
    let mut with_wacz = record_of("a", 1).items().to_vec();
    with_wacz.push(bulk("0.wacz"));
    assert_eq!(dupe(&waiter.recv()).items(), with_wacz);
    for options in [&["WITHWACZ"][..], &["BLOCK", "5", "withwacz"]] {
        ask(&mut c, options);
        assert_eq!(dupe(&c.recv()).items(), with_wacz);
    }
    ask(&mut c, &["WITHWACZ", "WITHWACZ"]);
    assert!(c.recv().is_error());
    ok!(c, "DEL", "p:c:a:wacz");
    ask(&mut c, &["WITHWACZ"]);
    *with_wacz.last_mut().unwrap() = redis_tests::nil();
    assert_eq!(dupe(&c.recv()).items(), with_wacz);
    // New payloads and pending ones are as without the word.
    let hash = sha256_of(2);
    for state in ["CLAIMED", "PENDING"] {
        let reply = ok!(c, "DEDUPE.CLAIM", P, "a", hash, "PX", 60_000, "WITHWACZ");
        assert_eq!(reply.items()[0], bulk(state));
    }
}

#[test]
fn claims_that_ran_out_do_not_pile_up() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let claims = (0..6000).map(|n| {
        let hash = sha256_of(n);
        ["DEDUPE.CLAIM", P, "a", &hash, "PX", "1"]
            .map(str::to_owned)
            .to_vec()
    });
    for reply in c.pipeline(claims) {
        claimed(&reply);
    }
    let kept = ok!(c, "HLEN", "p:claims").int();
    assert!(kept < 2000, "{kept} of 6000 claims are still there");
}

#[test]
fn waits_that_time_out_leave_nothing_behind() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    for _ in 0..50 {
        let reply = c.ok("CLAIM b #1 PX 1000 BLOCK 1");
        assert_eq!(pending(&reply).0, "a");
    }
    assert_eq!(server.info_number("blocked_clients"), 0);
    assert_eq!(server.info_number("claims_pending"), 0);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn claim_that_runs_out_while_writes_are_paused_is_handed_on_afterwards() {
    // Whoever writes during such a pause and has to pass it on ends the server.
    let server = Options::new().aof(false).start();
    let replica = Options::new().replica_of(&server).start();
    server.wait_for_replica_offset(&replica);
    let mut c = DedupeIndex::of(&server, P);
    claimed(&c.ok("CLAIM a #1 PX 1500"));
    let seconds = |c: &mut Wire| -> f64 {
        let time = ok!(c, "TIME").texts();
        time[0].parse::<f64>().unwrap() + time[1].parse::<f64>().unwrap() / 1e6
    };
    let end = seconds(&mut c) + 1.5;
    let mut waiter = blocked(&server, "b", 1);
    ok!(c, "CLIENT", "PAUSE", 60_000, "WRITE");
    assert!(
        !waiter.has_reply(),
        "the claim ran out before the pause began"
    );
    until("the claim has run out", || seconds(&mut c) > end);
    assert!(waiter.is_silent_for(QUIET), "nobody may write now");
    ok!(c, "CLIENT", "UNPAUSE");
    let token = claimed(&waiter.recv());
    assert_eq!(settle(&mut c, "b", &token, 1), int(1));
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn wait_that_ends_together_with_the_claim_is_answered() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    let mut waiters: Vec<Wire> = (0..60).map(|_| server.wire()).collect();
    let mut first = 0;
    for time in ["1", "2", "3", "20", "50"] {
        for (n, waiter) in waiters.iter_mut().enumerate() {
            let hash = sha256_of(first + n as u64);
            claimed(&c.ok(format!("CLAIM a '{hash}' PX '{time}'")));
            let words = ["DEDUPE.CLAIM", P, "b", &hash, "PX", "600000", "BLOCK", time];
            waiter.send(&words);
        }
        for (n, waiter) in waiters.iter_mut().enumerate() {
            let hash = sha256_of(first + n as u64);
            let reply = waiter
                .try_recv()
                .unwrap_or_else(|e| panic!("waiter {n} of BLOCK {time} has no answer: {e}"));
            if reply.items()[0] == bulk("CLAIMED") {
                let token = claimed(&reply);
                assert_eq!(c.ok(format!("UNCLAIM '{hash}' '{token}'")), int(1));
            } else {
                // Then it has not got a token that it was not told of.
                pending(&reply);
                until_claimed(&mut c, "c", first + n as u64);
            }
        }
        first += waiters.len() as u64;
    }
    assert_eq!(server.info_number("blocked_clients"), 0);
    assert_eq!(server.info_number("claims_pending"), 0);
}

#[test]
fn cancel_ends_the_waits_of_its_crawl() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    c.add("b", [7]);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut canceled = blocked(&server, "b", 1);
    let mut behind = blocked(&server, "c", 1);
    assert_eq!(c.ok("CANCEL b"), int(1));
    match canceled.recv() {
        Reply::Error(line) => assert!(line.starts_with(b"CANCELED "), "{line:?}"),
        other => panic!("the crawl is gone, but its waiter got {other:?}"),
    }
    assert!(behind.is_silent_for(QUIET));
    assert_eq!(c.ok(format!("UNCLAIM #1 '{token}'")), int(1));
    claimed(&behind.recv());
    assert_eq!(pending(&claim(&mut c, "d", 1)).0, "c");
}

#[test]
fn token_that_was_never_given_is_not_said_to_have_run_out() {
    let server = Server::start();
    let mut c = DedupeIndex::of(&server, P);
    claimed(&claim(&mut c, "a", 1));
    match settle(&mut c, "a", "999999", 1) {
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(&line).into_owned();
            assert!(line.starts_with("STALE "), "{line}");
            assert!(!line.contains("ran out"), "{line}");
        }
        other => panic!("{other:?}"),
    }
}
