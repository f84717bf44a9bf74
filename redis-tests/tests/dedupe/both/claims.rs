//! `CLAIM`: if two workers meet the same new payload, only one of them stores it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use redis_tests::{
    DedupeIndex, Options, Reply, Server, Wire, array, assert_error, assert_lacks,
    assert_replicated, bulk, int, nil, ok, record_of, rows, sha256_of, until,
};

const P: &str = "p:";
/// A time that is long enough to be sure that a command is blocked, and short enough for a fast
/// test.
const QUIET: Duration = Duration::from_millis(150);

fn claim(c: &mut DedupeIndex, crawl: &str, n: u64) -> Reply {
    c.ok(format!("CLAIM {crawl} #{n} PX 600000"))
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

fn settle(c: &mut DedupeIndex, crawl: &str, token: &str, n: u64) -> Reply {
    c.call(format!("ADD {crawl} TOKEN {token} @{n}"))
}

/// Returns a client that the server reports as blocked on hash `n`.
fn blocked(c: &mut DedupeIndex, crawl: &str, n: u64) -> Wire {
    c.blocked(format!("CLAIM {crawl} #{n} PX 600000 BLOCK 60000"))
}

#[track_caller]
fn assert_nobody_waits(server: &Server) {
    assert_eq!(server.info_number("blocked_clients"), 0);
    assert_eq!(server.info_number("claims_pending"), 0);
}

#[test]
fn claim_is_granted_once_and_settled_by_add() {
    let (_server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    assert!(token.bytes().all(|b| b.is_ascii_digit()), "{token}");
    let (holder, left) = pending(&claim(&mut c, "b", 1));
    assert_eq!(holder, "a");
    assert!((1..=600_000).contains(&left), "{left}");
    assert_eq!(settle(&mut c, "a", &token, 1), int(1));
    assert_eq!(c.plain("EXISTS p:claims"), int(0));
    assert_eq!(dupe(&claim(&mut c, "a", 1)), record_of("a", 1));
    c.commit("a");
    assert_eq!(dupe(&claim(&mut c, "b", 1)), record_of("a", 1));
    assert_eq!(c.plain("EXISTS p:claims"), int(0));
}

#[test]
fn claim_does_not_start_a_crawl() {
    let (_server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    assert_eq!(c.plain("EXISTS p:uncommittedcrawls p:h:a"), int(0));
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(1));
    c.refused("COMMIT a", "NOCRAWL");
}

#[test]
fn unclaim_gives_it_up() {
    let (_server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    c.refused("UNCLAIM #1 999999", "STALE");
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(1));
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(0));
    let next = claimed(&claim(&mut c, "b", 1));
    assert_ne!(next, token, "no token is used twice");
}

#[test]
fn add_with_the_token_of_another_claim_is_stale_and_changes_nothing() {
    let (server, mut c) = DedupeIndex::start(P);
    let old = claimed(&c.ok("CLAIM a #1 PX 1"));
    let new = until_claimed(&mut c, "b", 1);
    let before = server.snapshot();
    assert_error(&settle(&mut c, "a", &old, 1), "STALE", "refused");
    server.snapshot().assert_same(&before, "stale ADD");
    assert_eq!(settle(&mut c, "b", &new, 1), int(1));
}

fn until_claimed(c: &mut DedupeIndex, crawl: &str, n: u64) -> String {
    redis_tests::until_some("the claim expires", || {
        let reply = claim(c, crawl, n);
        (reply.items()[0] == bulk("CLAIMED")).then(|| claimed(&reply))
    })
}

#[test]
fn expired_claim_is_still_good_when_nobody_else_took_it() {
    let (_server, mut c) = DedupeIndex::start(P);
    let token = claimed(&c.ok("CLAIM a #1 PX 1"));
    // The claim expires after a millisecond. Another claim with the same deadline shows when that
    // has happened.
    let other = claimed(&c.ok("CLAIM a #2 PX 1"));
    until_claimed(&mut c, "b", 2);
    assert_ne!(token, other);
    assert_eq!(settle(&mut c, "a", &token, 1), int(1));
}

#[test]
fn same_worker_is_told_that_its_claim_is_pending() {
    let (_server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    assert_eq!(pending(&claim(&mut c, "a", 1)).0, "a");
}

#[test]
fn spelling_of_a_claimed_hash_does_not_matter() {
    let (_server, mut c) = DedupeIndex::start(P);
    let hash = sha256_of(1);
    let bare = hash.trim_start_matches("sha256:");
    let token = claimed(&claim(&mut c, "a", 1));
    let reply = c.ok(format!("CLAIM b {bare} PX 1000"));
    assert_eq!(pending(&reply).0, "a");
    assert_eq!(c.ok(format!("UNCLAIM {bare} {token}")), int(1));
}

#[test]
fn waiter_wakes_when_the_holder_adds() {
    let (server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut same = blocked(&mut c, "a", 1);
    let mut other = blocked(&mut c, "b", 1);
    let mut third = blocked(&mut c, "c", 1);
    assert!(same.is_silent_for(QUIET));
    assert_eq!(settle(&mut c, "a", &token, 1), int(1));
    assert_eq!(dupe(&same.recv()), record_of("a", 1));
    // Another crawl does not see the record before the commit, so the next waiting client gets the
    // claim.
    let next = claimed(&other.recv());
    assert!(third.is_silent_for(QUIET));
    assert_eq!(settle(&mut c, "b", &next, 1), int(1));
    claimed(&third.recv());
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn waiters_wake_when_the_holder_commits() {
    let (_server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "b", 1));
    let mut waiter = blocked(&mut c, "c", 1);
    c.committed("a", [1]);
    // The hash is in the index now, regardless of which crawl claimed it.
    let reply = redis_tests::within(Duration::from_secs(2), || {
        waiter.has_reply().then(|| waiter.recv())
    });
    match reply {
        Some(reply) => assert_eq!(dupe(&reply), record_of("a", 1)),
        // The client may also continue to wait for the holder of the claim. In this case, the wait
        // must end together with the claim.
        None => {
            c.plain("DEL p:claims");
            assert_eq!(dupe(&waiter.recv()), record_of("a", 1));
        }
    }
}

#[test]
fn waiter_wakes_when_the_holder_gives_up() {
    let (_server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut waiter = blocked(&mut c, "b", 1);
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(1));
    let next = claimed(&waiter.recv());
    assert_eq!(pending(&claim(&mut c, "c", 1)).0, "b");
    assert_eq!(settle(&mut c, "b", &next, 1), int(1));
}

#[test]
fn waiter_wakes_when_the_claim_expires() {
    let (_server, mut c) = DedupeIndex::start(P);
    claimed(&c.ok("CLAIM a #1 PX 200"));
    let start = Instant::now();
    claimed(&c.ok("CLAIM b #1 PX 600000 BLOCK 60000"));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[test]
fn waiter_wakes_when_the_holder_is_canceled() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("a", [7]);
    claimed(&claim(&mut c, "a", 1));
    let mut waiter = blocked(&mut c, "b", 1);
    assert_eq!(c.ok("CANCEL a"), int(1));
    claimed(&waiter.recv());
}

#[test]
fn waiter_wakes_when_a_plain_client_deletes_the_claims() {
    let (_server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    let mut waiter = blocked(&mut c, "b", 1);
    c.plain("DEL p:claims");
    claimed(&waiter.recv());
    let mut second = blocked(&mut c, "c", 1);
    c.plain("HDEL p:claims #1");
    claimed(&second.recv());
    let mut third = blocked(&mut c, "a", 1);
    c.plain("FLUSHALL");
    claimed(&third.recv());
}

#[test]
fn blocked_claim_gives_up_after_its_time() {
    let (server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    let start = Instant::now();
    let reply = c.ok("CLAIM b #1 PX 1000 BLOCK 100");
    assert_eq!(pending(&reply).0, "a");
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(95), "{took:?}");
    assert_nobody_waits(&server);
}

#[test]
fn waiter_that_hangs_up_does_not_take_the_claim() {
    let (server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    let gone = blocked(&mut c, "b", 1);
    let mut patient = blocked(&mut c, "c", 1);
    gone.hang_up();
    until("the server notices", || {
        server.info_number("blocked_clients") == 1
    });
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(1));
    claimed(&patient.recv());
    until("no waiter is left", || {
        server.info_number("claims_pending") == 0
    });
}

#[test]
fn client_unblock_ends_the_wait() {
    let (server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    let mut waiter = c.another();
    let id = waiter.plain("CLIENT ID").int();
    waiter.send("CLAIM b #1 PX 1000 BLOCK 60000");
    until("the claim is blocked", || {
        server.info_number("blocked_clients") == 1
    });
    // A server may refuse to unblock a client of a module. Both outcomes must do no harm.
    let unblocked = c.plain(format!("CLIENT UNBLOCK {id} ERROR")).int();
    if unblocked == 1 {
        waiter.recv();
    }
    c.plain("PING");
}

#[test]
fn claim_in_a_transaction_or_script_does_not_block() {
    let (_server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    c.plain("MULTI");
    c.ok("CLAIM b #1 PX 1000 BLOCK 60000");
    let reply = c.plain("EXEC");
    assert_eq!(pending(&reply.items()[0]).0, "a");
    let script =
        "return redis.call('DEDUPE.CLAIM', KEYS[1], 'b', ARGV[1], 'PX', '9', 'BLOCK', '60000')";
    let reply = ok!(c, "EVAL", script, 1, P, sha256_of(1));
    assert_eq!(pending(&reply).0, "a");
}

#[test]
fn claims_of_different_hashes_do_not_wake_each_other() {
    let (_server, mut c) = DedupeIndex::start(P);
    let one = claimed(&claim(&mut c, "a", 1));
    claimed(&claim(&mut c, "a", 2));
    let mut waiter = blocked(&mut c, "b", 2);
    assert_eq!(settle(&mut c, "a", &one, 1), int(1));
    assert!(waiter.is_silent_for(QUIET));
}

#[test]
fn claims_belong_to_one_database() {
    let (_server, mut zero) = DedupeIndex::start(P);
    let mut one = zero.another();
    one.plain("SELECT 1");
    claimed(&claim(&mut zero, "a", 1));
    claimed(&claim(&mut one, "a", 1));
    let mut waiter = blocked(&mut zero, "b", 1);
    one.plain("FLUSHDB");
    assert!(waiter.is_silent_for(QUIET));
    zero.plain("FLUSHDB");
    claimed(&waiter.recv());
}

#[test]
fn many_workers_store_a_payload_once() {
    let (server, mut c) = DedupeIndex::start(P);
    let hashes = 40;
    let stored = AtomicU64::new(0);
    let work = || {
        let mut c = DedupeIndex::of(&server, P);
        for n in 0..hashes {
            let reply = c.ok(format!("CLAIM a #{n} PX 60000 BLOCK 60000"));
            if reply.items()[0] == bulk("CLAIMED") {
                stored.fetch_add(1, Ordering::Relaxed);
                assert_eq!(settle(&mut c, "a", &claimed(&reply), n), int(1));
            } else {
                assert_eq!(dupe(&reply), record_of("a", n));
            }
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(work))));
    assert_eq!(stored.into_inner(), hashes);
    assert_eq!(c.plain("EXISTS p:claims"), int(0));
}

#[test]
fn claim_replicates_without_the_clock() {
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new().aof(false), P);
    let token = claimed(&claim(&mut c, "a", 1));
    claimed(&c.ok("CLAIM a #2 PX 1"));
    until_claimed(&mut c, "b", 2);
    c.ok(format!("UNCLAIM #1 {token}"));
    assert_replicated(&server, &replica);
}

#[test]
fn claim_arguments_are_checked() {
    let (server, mut c) = DedupeIndex::start(P);
    for (options, told) in rows![
        "PX 0", "ERR PX";
        "PX -5", "ERR PX";
        "PX soon", "ERR PX";
        "PX 10 BLOCK x", "ERR BLOCK";
        "PX 10 BLOCK -1", "ERR BLOCK";
        "PX 10 WAIT 5", "ERR WAIT";
        "EX 10", "ERR PX";
    ] {
        c.refused(format!("CLAIM a #1 {options}"), told);
    }
    assert_eq!(server.snapshot().names(), [""; 0]);
    assert_eq!(c.ok("LOOKUP #1"), array([nil()]));
}

#[test]
fn known_payload_comes_with_its_wacz_when_asked_for() {
    let (_server, mut c) = DedupeIndex::start(P);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut waiter = c.blocked("CLAIM a #1 PX 60000 WITHWACZ BLOCK 60000");
    c.ok("WACZOPEN a 0.wacz");
    c.ok("WACZOPEN a 1.wacz");
    settle(&mut c, "a", &token, 1);
    let with = |name: Reply| [record_of("a", 1).items(), &[name]].concat();
    assert_eq!(dupe(&waiter.recv()).items(), with(bulk("0.wacz")));
    for options in ["WITHWACZ", "BLOCK 5 withwacz"] {
        let reply = c.ok(format!("CLAIM a #1 PX 60000 {options}"));
        assert_eq!(dupe(&reply).items(), with(bulk("0.wacz")));
    }
    c.err("CLAIM a #1 PX 60000 WITHWACZ WITHWACZ");
    c.plain("DEL p:c:a:wacz");
    let reply = c.ok("CLAIM a #1 PX 60000 WITHWACZ");
    assert_eq!(dupe(&reply).items(), with(nil()));
    // For new and for pending payloads, the option does not change the reply.
    for state in ["CLAIMED", "PENDING"] {
        let reply = c.ok("CLAIM a #2 PX 60000 WITHWACZ");
        assert_eq!(reply.items()[0], bulk(state));
    }
}

#[test]
fn expired_claims_do_not_accumulate() {
    let (_server, mut c) = DedupeIndex::start(P);
    let claims: Vec<_> = (0..6000)
        .map(|n| c.words(format!("CLAIM a #{n} PX 1")))
        .collect();
    for reply in c.pipeline(claims) {
        claimed(&reply);
    }
    let kept = c.plain("HLEN p:claims").int();
    assert!(kept < 2000, "{kept} of 6000 claims are still there");
}

#[test]
fn waits_that_time_out_leave_nothing_behind() {
    let (server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    for _ in 0..50 {
        let reply = c.ok("CLAIM b #1 PX 1000 BLOCK 1");
        assert_eq!(pending(&reply).0, "a");
    }
    assert_nobody_waits(&server);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn claim_that_expires_while_writes_are_paused_is_passed_on_afterwards() {
    // During such a pause, a write that is replicated would crash the server.
    let (server, replica, mut c) = DedupeIndex::replicated(Options::new().aof(false), P);
    server.wait_for_replica_offset(&replica);
    claimed(&c.ok("CLAIM a #1 PX 1500"));
    let seconds = |c: &mut DedupeIndex| -> f64 {
        let time = c.plain("TIME").texts();
        time[0].parse::<f64>().unwrap() + time[1].parse::<f64>().unwrap() / 1e6
    };
    let end = seconds(&mut c) + 1.5;
    let mut waiter = blocked(&mut c, "b", 1);
    c.plain("CLIENT PAUSE 60000 WRITE");
    assert!(
        !waiter.has_reply(),
        "the claim expired before the pause began"
    );
    until("the claim has run out", || seconds(&mut c) > end);
    assert!(waiter.is_silent_for(QUIET), "no client may write now");
    c.plain("CLIENT UNPAUSE");
    let token = claimed(&waiter.recv());
    assert_eq!(settle(&mut c, "b", &token, 1), int(1));
    assert_replicated(&server, &replica);
}

#[test]
fn wait_that_ends_together_with_the_claim_gets_a_reply() {
    let (server, mut c) = DedupeIndex::start(P);
    let mut waiters: Vec<_> = (0..60).map(|_| c.another()).collect();
    for (first, time) in [(0, 1), (60, 2), (120, 3), (180, 20), (240, 50)] {
        for (n, waiter) in (first..).zip(&mut waiters) {
            claimed(&c.ok(format!("CLAIM a #{n} PX {time}")));
            waiter.send(format!("CLAIM b #{n} PX 600000 BLOCK {time}"));
        }
        for (n, waiter) in (first..).zip(&mut waiters) {
            let reply = waiter.try_recv();
            let reply = reply.unwrap_or_else(|e| panic!("hash {n}, BLOCK {time}: no answer: {e}"));
            if reply.items()[0] == bulk("CLAIMED") {
                let token = claimed(&reply);
                assert_eq!(c.ok(format!("UNCLAIM #{n} {token}")), int(1));
            } else {
                // The wait ended first, so the server must not have granted the claim to this
                // client.
                pending(&reply);
                until_claimed(&mut c, "c", n);
            }
        }
    }
    assert_nobody_waits(&server);
}

#[test]
fn cancel_ends_the_waits_of_its_crawl() {
    let (_server, mut c) = DedupeIndex::start(P);
    c.add("b", [7]);
    let token = claimed(&claim(&mut c, "a", 1));
    let mut canceled = blocked(&mut c, "b", 1);
    let mut behind = blocked(&mut c, "c", 1);
    assert_eq!(c.ok("CANCEL b"), int(1));
    assert_error(&canceled.recv(), "CANCELED", "its waiter");
    assert!(behind.is_silent_for(QUIET));
    assert_eq!(c.ok(format!("UNCLAIM #1 {token}")), int(1));
    claimed(&behind.recv());
    assert_eq!(pending(&claim(&mut c, "d", 1)).0, "c");
}

#[test]
fn unknown_token_is_not_reported_as_expired() {
    let (_server, mut c) = DedupeIndex::start(P);
    claimed(&claim(&mut c, "a", 1));
    let line = c.err("ADD a TOKEN 999999 @1");
    assert!(line.starts_with("STALE "), "{line}");
    assert_lacks(line, "expired");
}
