//! `NEXT … BLOCK` waits until a group may be fetched, for every event that makes it available.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::stage::{real_plain_stage, real_stage};
use redis_tests::{
    Frontier, LEASE, Lease, Server, array, blocked, bulk, int, nil, ok, release, rows, until,
};

const F: &str = "{f}:";
/// A time that is long enough to be sure that a command is blocked, and short enough for a fast
/// test.
const QUIET: Duration = Duration::from_millis(120);

fn waiter(server: &Server) -> Frontier {
    blocked(server, F, "NEXT BLOCK 0")
}

#[track_caller]
fn lease_of(waiter: &mut Frontier, chg: &str) -> Lease {
    let lease = Lease::only(&waiter.wire.recv());
    assert_eq!(lease.chg, chg, "{lease:?}");
    lease
}

/// Returns the time at which the server granted a lease of the default ten minutes.
fn granted(lease: &Lease) -> i64 {
    lease.deadline - LEASE
}

#[test]
fn waiter_wakes_for_a_new_group() {
    let (server, mut f) = real_stage();
    let mut waiter = waiter(&server);
    assert!(waiter.wire.is_silent_for(QUIET));
    f.add("crawl", "host", 0);
    let lease = lease_of(&mut waiter, "host");
    assert_eq!(lease.c, 1);
    assert_eq!(f.place("host"), "busy");
    waiter.release(&lease, "AT 0 DONE crawl");
}

#[test]
fn waiter_wakes_when_a_group_comes_due_and_not_before() {
    let (server, mut f) = real_stage();
    let due = f.time() + 200;
    f.add("crawl", "host", due);
    let mut waiter = waiter(&server);
    let lease = lease_of(&mut waiter, "host");
    assert_eq!(lease.n, due);
    assert!(granted(&lease) >= due, "{lease:?}");
}

#[test]
fn waiter_wakes_for_a_group_that_comes_due_before_the_one_it_waited_for() {
    let (server, mut f) = real_stage();
    let now = f.time();
    f.add("crawl", "late", now + 600_000);
    let mut waiter = waiter(&server);
    f.add("crawl", "early", now + 200);
    let lease = lease_of(&mut waiter, "early");
    assert!(granted(&lease) >= now + 200);
    let mut second = blocked(&server, F, "NEXT BLOCK 0");
    // The group itself may also become due earlier.
    f.add("crawl", "late", now);
    lease_of(&mut second, "late");
}

#[test]
fn waiters_wake_when_a_group_is_due_and_never_before() {
    let (server, mut f) = real_stage();
    // The benchmark measures how late they are.
    let start = f.time() + 100;
    let groups = 100;
    for n in 0..groups {
        f.add("crawl", &n.to_string(), start + 3 * n);
    }
    for n in 0..groups {
        let lease = Lease::only(&f.ok("NEXT BLOCK 0"));
        assert_eq!(lease.chg, n.to_string());
        assert!(granted(&lease) >= lease.n, "too early: {lease:?}");
    }
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn waiter_wakes_for_a_release() {
    let (server, mut f) = real_stage();
    f.ok("ADD crawl host 0 host 0");
    let held = f.take("host");
    let mut waiter = waiter(&server);
    f.release(&held, "AT 0 DONE crawl");
    let lease = lease_of(&mut waiter, "host");
    assert!(lease.token > held.token);
    assert_eq!(lease.c, 1);
}

#[test]
fn waiter_wakes_at_the_gate_of_a_release() {
    let (server, mut f) = real_stage();
    f.ok("ADD crawl host 0 host 0");
    let held = f.take("host");
    let mut waiter = waiter(&server);
    let gate = f.release(&held, "DELAY 200 DONE crawl");
    let lease = lease_of(&mut waiter, "host");
    assert!(granted(&lease) >= gate, "{lease:?}, gate {gate}");
}

#[test]
fn waiter_wakes_when_a_lease_ends() {
    let (server, mut f) = real_stage();
    f.add("crawl", "host", 0);
    let held = Lease::only(&f.ok("NEXT LEASE 200"));
    let mut waiter = waiter(&server);
    let lease = lease_of(&mut waiter, "host");
    assert!(granted(&lease) >= held.deadline);
    assert!(lease.token > held.token);
    assert_eq!(
        f.ok("EXPIRED"),
        array([array([bulk("host"), nil(), nil(), int(1)])])
    );
}

#[test]
fn waiter_wakes_when_an_extension_was_shorter_than_the_lease() {
    let (server, mut f) = real_stage();
    f.add("crawl", "host", 0);
    let held = f.take("host");
    let mut waiter = waiter(&server);
    let deadline = f.ok(format!("EXTEND host {} 100", held.token)).int();
    assert!(granted(&lease_of(&mut waiter, "host")) >= deadline);
}

#[test]
fn waiter_keeps_waiting_when_the_lease_was_extended() {
    let (server, mut f) = real_stage();
    f.add("crawl", "host", 0);
    let held = Lease::only(&f.ok("NEXT LEASE 100"));
    let mut waiter = waiter(&server);
    f.ok(format!("EXTEND host {} 600000", held.token));
    until("the first deadline is over", || {
        f.time() > held.deadline + 20
    });
    assert!(!waiter.wire.has_reply());
    f.release(&held, "AT 0");
    lease_of(&mut waiter, "host");
}

#[test]
fn waiter_wakes_for_resume_of_everything_a_group_or_an_execution() {
    let (server, mut f) = real_stage();
    for what in ["", " host", " EXECUTION crawl"] {
        ok!(f.wire, "FLUSHALL");
        f.add("crawl", "host", 0);
        f.ok(format!("PAUSE{what}"));
        let mut waiter = waiter(&server);
        f.add("crawl", "host", 0);
        assert!(waiter.wire.is_silent_for(QUIET), "PAUSE{what}");
        f.ok(format!("RESUME{what}"));
        lease_of(&mut waiter, "host");
    }
}

#[test]
fn waiter_wakes_when_a_block_ends() {
    let (server, mut f) = real_stage();
    f.add("crawl", "host", 0);
    let until = f.time() + 200;
    f.ok(format!("BLOCK host UNTIL {until}"));
    let mut first = waiter(&server);
    assert!(granted(&lease_of(&mut first, "host")) >= until);
    // The other client may also end the block.
    f.add("crawl", "other", 0);
    f.ok(format!("BLOCK other UNTIL {}", until + 600_000));
    let mut second = waiter(&server);
    f.ok("BLOCK other UNTIL 0");
    lease_of(&mut second, "other");
}

#[test]
fn waiter_wakes_when_a_group_may_be_leased_twice() {
    let (server, mut f) = real_stage();
    f.ok("ADD crawl host 0 host 0");
    let first = f.take("host");
    let mut waiter = waiter(&server);
    f.ok("LIMIT host PARALLEL 2");
    let second = lease_of(&mut waiter, "host");
    assert!(second.token > first.token);
}

#[test]
fn waiter_wakes_when_a_shared_gate_opens() {
    let (server, mut f) = real_stage();
    f.ok("GROUP shared a b");
    f.add("crawl", "a", 0);
    f.add("crawl", "b", 0);
    let a = f.take("a");
    let mut waiter = waiter(&server);
    assert!(waiter.wire.is_silent_for(QUIET));
    let gate = f.release(&a, "DELAY 150 DONE crawl");
    assert!(granted(&lease_of(&mut waiter, "b")) >= gate);
}

#[test]
fn waiter_wakes_when_a_host_moves_into_a_group() {
    let (server, mut f) = real_stage();
    let now = f.time();
    f.add("crawl", "from", now);
    f.ok("PAUSE from");
    let mut waiter = waiter(&server);
    f.ok("MOVE from to");
    lease_of(&mut waiter, "to");
}

#[test]
fn waiter_wakes_for_plain_writes() {
    let (server, mut f) = real_plain_stage();
    let (ready, wait, other) = (f.key("chg_ready"), f.key("chg_wait"), f.key("other"));
    for write in rows![
        "RPUSH"; "LPUSH"; "ZADD"; "ZADD later"; "RENAME"; "RPUSH in MULTI"; "EVAL";
    ] {
        let mut waiter = waiter(&server);
        let now = f.time();
        match write {
            "RPUSH" | "LPUSH" => ok!(f.wire, write, ready, "host"),
            "ZADD" => ok!(f.wire, "ZADD", wait, now, "host"),
            "ZADD later" => ok!(f.wire, "ZADD", wait, now + 100, "host"),
            "RENAME" => {
                ok!(f.wire, "RPUSH", other, "host");
                ok!(f.wire, "RENAME", other, ready)
            }
            "EVAL" => {
                let script = "return redis.call('RPUSH', KEYS[1], 'host')";
                ok!(f.wire, "EVAL", script, 1, ready)
            }
            _ => {
                ok!(f.wire, "MULTI");
                ok!(f.wire, "RPUSH", ready, "host");
                ok!(f.wire, "EXEC")
            }
        };
        let lease = lease_of(&mut waiter, "host");
        if write == "ZADD later" {
            assert!(granted(&lease) >= now + 100);
        }
        ok!(f.wire, "FLUSHALL");
    }
}

#[test]
fn a_group_wakes_only_the_longest_waiting_client() {
    let (server, mut f) = real_stage();
    let mut waiters: Vec<Frontier> = (0..5).map(|_| waiter(&server)).collect();
    f.add("crawl", "host-0", 0);
    lease_of(&mut waiters[0], "host-0");
    assert!(waiters[1].wire.is_silent_for(QUIET));
    assert!(waiters[1..].iter_mut().all(|w| !w.wire.has_reply()));
    f.ok("ADD crawl host-1 0 host-2 0");
    lease_of(&mut waiters[1], "host-1");
    lease_of(&mut waiters[2], "host-2");
    let due = f.time() + 100;
    f.ok(format!("ADD crawl host-3 {due} host-4 {due}"));
    lease_of(&mut waiters[3], "host-3");
    lease_of(&mut waiters[4], "host-4");
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn waiter_is_served_before_a_later_client() {
    let (server, mut f) = real_stage();
    let mut waiter = waiter(&server);
    let (add, next) = (f.words("ADD crawl host 0"), f.words("NEXT"));
    ok!(f.wire, "MULTI");
    f.wire.expect_ok(&add);
    f.wire.expect_ok(&next);
    let replies = ok!(f.wire, "EXEC");
    assert_eq!(replies.items()[1], nil());
    lease_of(&mut waiter, "host");
}

#[test]
fn waiters_of_different_frontiers_do_not_wake_each_other() {
    let (server, mut f) = real_stage();
    let mut other = blocked(&server, "{g}:", "NEXT BLOCK 0");
    let mut mine = waiter(&server);
    f.add("crawl", "host", 0);
    lease_of(&mut mine, "host");
    assert!(other.wire.is_silent_for(QUIET));
    Frontier::of(&server, "{g}:").add("crawl", "there", 0);
    lease_of(&mut other, "there");
}

#[test]
fn wait_ends_after_its_time() {
    let (server, mut f) = real_stage();
    let start = Instant::now();
    assert_eq!(f.ok("NEXT BLOCK 150"), nil());
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(145), "{waited:?}");
    f.add("crawl", "host", 0);
    let held = f.take("host");
    let reply = f.ok(release(&held, "DELAY 600000 NEXT BLOCK 50"));
    assert_eq!(reply.items()[0].int(), f.due("host").expect("a hash"));
    assert_eq!(reply.items()[1], nil());
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn release_with_next_waits_for_the_next_lease() {
    let (server, mut f) = real_stage();
    f.add("crawl", "a", 0);
    let a = f.take("a");
    f.send(release(
        &a,
        "DELAY 600000 DONE crawl NEXT LEASE 5000 BLOCK 0",
    ));
    server.until_blocked(1);
    let mut other = Frontier::real(&server);
    let due = other.due("a").expect("released before the wait");
    other.add("crawl", "b", 0);
    let reply = f.wire.recv();
    assert_eq!(reply.items()[0], int(due));
    let b = Lease::of(&reply.items()[1]);
    assert_eq!(b.chg, "b");
    assert!(b.deadline <= other.time() + 5000);
}

#[test]
fn client_unblock_ends_the_wait() {
    let (server, mut f) = real_stage();
    let mut waiter = Frontier::real(&server);
    let id = ok!(waiter.wire, "CLIENT", "ID").int();
    waiter.send("NEXT BLOCK 0");
    server.until_blocked(1);
    assert_eq!(ok!(f.wire, "CLIENT", "UNBLOCK", id), int(1));
    assert_eq!(waiter.wire.recv(), nil());
    // The client no longer waits.
    f.add("crawl", "host", 0);
    f.take("host");
    assert_eq!(f.figure("waiters"), 0);
}

#[test]
fn server_metrics_count_waiters() {
    let (server, mut f) = real_stage();
    let waiting = |server: &Server| server.info_number("chg_waiters");
    assert_eq!(waiting(&server), 0);
    // No URI is queued, so no timer is set.
    let mut first = waiter(&server);
    assert_eq!(waiting(&server), 1);
    let other = blocked(&server, "{other}:", "NEXT BLOCK 0");
    assert_eq!(waiting(&server), 2);
    assert_eq!(server.info_number("frontiers"), 2);
    f.add("crawl", "host", 0);
    lease_of(&mut first, "host");
    assert_eq!(waiting(&server), 1);
    other.wire.hang_up();
    until("the server notices", || waiting(&server) == 0);
}

#[test]
fn dead_waiter_gets_no_lease() {
    let (server, mut f) = real_stage();
    let (gone, mut patient) = (waiter(&server), waiter(&server));
    gone.wire.hang_up();
    server.until_blocked(1);
    f.add("crawl", "host", 0);
    lease_of(&mut patient, "host");
    assert_eq!(f.figure("waiters"), 0);
}

#[test]
fn waiter_that_dies_at_the_moment_of_its_lease_loses_no_group() {
    let (server, mut f) = real_stage();
    for n in 0..30 {
        let gone = blocked(&server, F, "NEXT LEASE 50 BLOCK 0");
        // Both commands arrive at the server in one iteration of its event loop, in either order.
        f.send(format!("ADD crawl host-{n} 0"));
        gone.wire.hang_up();
        f.wire.recv();
        let lease = Lease::only(&f.ok("NEXT BLOCK 0"));
        assert_eq!(lease.chg, format!("host-{n}"));
        f.release(&lease, "AT 0 DONE crawl");
    }
}

#[test]
fn lease_of_a_client_that_died_comes_back_at_its_deadline() {
    let (server, mut f) = real_stage();
    f.add("crawl", "host", 0);
    let mut dying = Frontier::real(&server);
    dying.send("NEXT LEASE 200");
    until("it has the lease", || f.place("host") == "busy");
    let deadline = f.busy()[0].1;
    dying.wire.hang_up();
    let lease = Lease::only(&f.ok("NEXT BLOCK 0"));
    assert_eq!((lease.chg.as_str(), lease.c), ("host", 1));
    assert!(granted(&lease) >= deadline);
}

#[test]
fn waiters_cost_no_commands_while_they_sleep() {
    let (server, mut f) = real_stage();
    let now = f.time();
    f.add("crawl", "host", now + 600_000);
    let mut waiters: Vec<Frontier> = (0..20).map(|_| waiter(&server)).collect();
    let mut calls = || {
        let stats = ok!(f.wire, "INFO", "commandstats").text();
        let of_ours = stats
            .lines()
            .filter(|l| l.contains("chg.") || l.contains("crawlspace"));
        let lines: Vec<String> = of_ours
            .map(|l| l.split(',').next().unwrap_or_default().to_owned())
            .collect();
        lines
    };
    let before = calls();
    assert!(!before.is_empty());
    assert!(waiters[0].wire.is_silent_for(Duration::from_millis(300)));
    assert_eq!(calls(), before);
}

#[test]
fn blocked_workers_fetch_every_uri_once_and_no_group_twice_at_a_time() {
    let (server, mut f) = real_stage();
    let (hosts, uris) = (30, 8);
    let engaged = Mutex::new(BTreeSet::new());
    let fetched: usize = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let mut f = Frontier::real(&server);
                    let mut fetched = 0;
                    let mut reply = f.ok("NEXT BLOCK 1000");
                    let mut lease = (!reply.is_nil()).then(|| Lease::only(&reply));
                    while let Some(held) = lease {
                        let fresh = engaged.lock().expect("no panic").insert(held.chg.clone());
                        assert!(fresh, "{} is leased twice", held.chg);
                        fetched += 1;
                        std::thread::yield_now();
                        engaged.lock().expect("no panic").remove(&held.chg);
                        reply = f.ok(release(&held, "DELAY 2 DONE crawl NEXT BLOCK 1000"));
                        let next = &reply.items()[1];
                        lease = (!next.is_nil()).then(|| Lease::of(next));
                    }
                    fetched
                })
            })
            .collect();
        for _ in 0..uris {
            for host in 0..hosts {
                f.add("crawl", &format!("host-{host}"), 0);
            }
        }
        workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .sum()
    });
    assert_eq!(fetched, hosts * uris);
    assert_eq!(f.total(), 0);
    f.assert_conserved();
    assert_eq!(server.info_number("blocked_clients"), 0);
}

#[test]
fn next_does_not_wait_in_a_transaction_or_script() {
    let (_server, mut f) = real_stage();
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
fn script_that_writes_to_a_queue_wakes_waiters_when_it_is_over() {
    let (server, mut f) = real_plain_stage();
    let mut waiter = redis_tests::blocked(&server, "{f}:", "NEXT BLOCK 0");
    // A group that the script adds and removes again must not be leased in between.
    let script = "redis.call('RPUSH', KEYS[1] .. 'chg_ready', 'x')
        redis.call('DEL', KEYS[1] .. 'chg_ready')
        redis.call('RPUSH', KEYS[1] .. 'chg_ready', 'y')
        return redis.call('LLEN', KEYS[1] .. 'chg_ready')";
    assert_eq!(ok!(f.wire, "EVAL", script, 1, "{f}:").int(), 1);
    assert_eq!(Lease::only(&waiter.wire.recv()).chg, "y");
}

/// Creates a user with access to these keys.
fn user(server: &Server, keys: &str) -> Frontier {
    let mut wire = server.wire();
    wire.line(&format!("ACL SETUSER alice on nopass +@all {keys}"));
    ok!(wire, "AUTH", "alice", "any");
    Frontier::over(wire, F)
}

#[test]
fn user_of_a_prefix_is_woken_by_another_user() {
    let (server, mut f) = real_stage();
    let mut alice = user(&server, "~{f}:*");
    alice.send("NEXT BLOCK 60000");
    server.until_blocked(1);
    f.add("crawl", "woken", 0);
    lease_of(&mut alice, "woken");
}

#[test]
fn waiter_that_lost_its_permission_takes_no_group_from_others() {
    let (server, mut f) = real_stage();
    let mut alice = user(&server, "~{f}:*");
    alice.send("NEXT BLOCK 0");
    server.until_blocked(1);
    let mut patient = waiter(&server);
    ok!(f.wire, "ACL", "SETUSER", "alice", "resetkeys", "~elsewhere");
    f.add("crawl", "one", 0);
    f.add("crawl", "two", 0);
    // The connection may have been closed, the wait may have ended with an error, or this client
    // may have got the lease. In any case, the other client gets a lease.
    let lease = Lease::only(&patient.wire.recv());
    assert!(["one", "two"].contains(&lease.chg.as_str()), "{lease:?}");
}
