//! Clients that know only the documented keys, such as Veidemann, use their own scripts next to the
//! commands.

use std::time::Duration;

use crate::stage::{Audited, plain_stage as stage, real_plain_stage as real_stage};
use redis_tests::{Frontier, Lease, Reply, Server, T0, Wire, blocked, int, nil, ok, rows, until};

/// Veidemann's script for adding a URI, unchanged. By mistake, it puts the execution into the wait
/// queue.
const SEED_ADD: &str = "
local changes = redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2])
redis.call('HINCRBY', KEYS[1], ARGV[3], 1)
redis.call('HINCRBY', KEYS[3], ARGV[4], 1)
redis.call('INCR', KEYS[4])
if changes > 0 then
    redis.call('ZADD', KEYS[2], ARGV[2], ARGV[4])
end";

/// Veidemann's script for taking the next group.
const SEED_NEXT: &str = "
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
return redis.call('HGETALL', KEYS[2])";

/// Veidemann's queue worker.
const SEED_WORKER: &str = "
local res = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1])
for _, key in ipairs(res) do
    redis.call('ZREM', KEYS[1], key)
    redis.call('RPUSH', KEYS[2], key)
end";

/// A client with Veidemann's scripts on the frontier `{f}:`.
struct Plain {
    wire: Wire,
}

impl Plain {
    fn of(server: &Server) -> Plain {
        Plain {
            wire: server.wire(),
        }
    }

    /// Adds a URI with Veidemann's script. With `faulty`, the script is unchanged; otherwise it
    /// adds the group's id.
    fn add(&mut self, faulty: bool, chg: &str, at: i64, execution: &str) {
        let script = if faulty {
            SEED_ADD.to_owned()
        } else {
            SEED_ADD.replace("ARGV[2], ARGV[4])\nend", "ARGV[2], ARGV[5])\nend")
        };
        let key = format!("{{f}}:CHG:{chg}");
        ok!(
            self.wire,
            "EVAL",
            script,
            4,
            key,
            "{f}:chg_wait",
            "{f}:EIDC",
            "{f}:QCT",
            "n",
            at,
            "c",
            execution,
            chg
        );
    }

    /// Runs the queue worker once on both queues.
    fn sweep(&mut self, now: i64) {
        for queue in ["{f}:chg_wait", "{f}:chg_busy"] {
            ok!(
                self.wire,
                "EVAL",
                SEED_WORKER,
                2,
                queue,
                "{f}:chg_ready",
                now
            );
        }
    }

    /// Takes the next group as Veidemann does, if one becomes ready within a moment.
    fn next(&mut self, deadline: i64) -> Option<String> {
        let popped = ok!(self.wire, "BRPOP", "{f}:chg_ready", "0.05");
        let chg = (!popped.is_nil()).then(|| popped.items()[1].text())?;
        let key = format!("{{f}}:CHG:{chg}");
        ok!(
            self.wire,
            "EVAL",
            SEED_NEXT,
            2,
            "{f}:chg_busy",
            key,
            chg,
            deadline
        );
        Some(chg)
    }

    /// Releases a group as Veidemann does, after one of its URIs was fetched.
    fn release(&mut self, chg: &str, execution: &str, at: i64, now: i64) {
        let key = format!("{{f}}:CHG:{chg}");
        ok!(self.wire, "ZREM", "{f}:chg_busy", chg);
        ok!(self.wire, "HSET", key, "n", at);
        let left = ok!(self.wire, "HINCRBY", key, "c", -1).int();
        ok!(self.wire, "HINCRBY", "{f}:EIDC", execution, -1);
        ok!(self.wire, "DECR", "{f}:QCT");
        if left == 0 {
            ok!(self.wire, "DEL", key);
        } else if at > now {
            ok!(self.wire, "ZADD", "{f}:chg_wait", at, chg);
        } else {
            ok!(self.wire, "RPUSH", "{f}:chg_ready", chg);
        }
    }
}

fn with_plain() -> (Server, Audited, Plain) {
    let (server, frontier) = stage();
    let plain = Plain::of(&server);
    (server, frontier, plain)
}

#[test]
fn commands_fetch_uris_added_by_veidemanns_script() {
    let (_server, mut f, mut plain) = with_plain();
    plain.add(false, "host", T0 + 10, "crawl");
    plain.add(false, "host", T0, "crawl");
    assert_eq!(f.wait(), [("host".to_owned(), T0 + 10)]);
    f.take_none();
    f.pass(10);
    let lease = f.take("host");
    assert_eq!((lease.n, lease.c), (T0 + 10, 2));
    f.release(&lease, "DELAY 100 DONE crawl");
    assert_eq!((f.count("host"), f.queued("crawl"), f.total()), (1, 1, 1));
    f.pass(100);
    f.fetch("host", "AT 0 DONE crawl");
    assert_eq!(f.total(), 0);
}

#[test]
fn veidemanns_workers_fetch_uris_added_by_commands() {
    let (_server, mut f, mut plain) = with_plain();
    f.ok(format!("ADD crawl a {T0} a {T0} b {T0}"));
    // Groups that become due in the same millisecond are ordered by fractions of it, so plain
    // clients see the last of them one millisecond later.
    f.pass(1);
    plain.sweep(T0 + 1);
    assert_eq!(f.ready(), ["a", "b"]);
    // `BRPOP` takes the last group first.
    assert_eq!(plain.next(T0 + 1000), Some("b".to_owned()));
    assert_eq!(plain.next(T0 + 1000), Some("a".to_owned()));
    assert_eq!(f.busy().len(), 2);
    f.take_none();
    plain.release("b", "crawl", T0, T0 + 1);
    plain.release("a", "crawl", T0 + 500, T0 + 1);
    assert_eq!(f.wait(), [("a".to_owned(), T0 + 500)]);
    assert!(!f.exists("b"));
    f.pass(500);
    f.fetch("a", "AT 0 DONE crawl");
}

#[test]
fn group_of_a_dead_plain_worker_is_queued_again_at_its_timeout() {
    let (_server, mut f, mut plain) = with_plain();
    f.add("crawl", "host", T0);
    plain.sweep(T0);
    assert_eq!(plain.next(T0 + 1000), Some("host".to_owned()));
    f.pass(999);
    f.take_none();
    f.pass(1);
    assert_eq!(f.take("host").c, 1);
}

#[test]
fn veidemanns_queue_worker_queues_expired_leases_again() {
    let (_server, mut f, mut plain) = with_plain();
    f.add("crawl", "host", T0);
    let old = Lease::only(&f.ok("NEXT LEASE 1000"));
    f.pass(1000);
    plain.sweep(T0 + 1000);
    assert_eq!(
        (f.ready(), f.place("host")),
        (vec!["host".to_owned()], "ready".into())
    );
    let new = f.take("host");
    assert!(new.token > old.token);
    f.refused(redis_tests::release(&old, "AT 0 DONE crawl"), "STALE ");
    f.release(&new, "AT 0 DONE crawl");
}

#[test]
fn group_that_a_plain_client_took_is_not_leased_to_another() {
    let (_server, mut f, mut plain) = with_plain();
    f.ok(format!("ADD crawl host {T0} host {T0}"));
    plain.sweep(T0);
    plain.next(T0 + 5000);
    // Adding a URI does not queue a group that a client has already taken.
    f.add("crawl", "host", T0);
    assert_eq!(f.place("host"), "busy");
    f.take_none();
    assert_eq!(f.state("host"), "busy");
}

#[test]
fn bare_ids_pushed_by_hand_are_leased_and_leave_nothing_behind() {
    let (_server, mut f, _) = with_plain();
    let (ready, wait) = (f.key("chg_ready"), f.key("chg_wait"));
    ok!(f.wire, "RPUSH", ready, "pushed");
    ok!(f.wire, "ZADD", wait, T0 + 5, "waiting");
    let lease = f.take("pushed");
    assert_eq!((lease.n, lease.c), (T0, 0));
    f.take_none();
    f.release(&lease, "DELAY 100 DONE crawl");
    f.pass(5);
    let lease = f.take("waiting");
    assert_eq!(lease.c, 0);
    f.release(&lease, "AT 0");
    f.pass(100);
    f.take_none();
    assert_eq!(
        (f.place("pushed"), f.place("waiting")),
        ("".into(), "".into())
    );
    assert!(!f.exists("pushed") && !f.exists("waiting"));
    assert_eq!(f.sums(), [0, 0, 0]);
}

#[test]
fn id_that_stands_in_a_queue_twice_is_leased_once_at_a_time() {
    let (_server, mut f, _) = with_plain();
    f.ok(format!("ADD crawl host {T0} host {T0}"));
    let (ready, wait) = (f.key("chg_ready"), f.key("chg_wait"));
    ok!(f.wire, "RPUSH", ready, "host", "host");
    let lease = f.take("host");
    f.take_none();
    ok!(f.wire, "ZADD", wait, 0, "host");
    f.take_none();
    f.release(&lease, "DELAY 1000 DONE crawl");
    f.take_none();
    f.pass(1000);
    f.take("host");
    f.take_none();
}

#[test]
fn faulty_add_is_found_and_repaired() {
    let (_server, mut f, mut plain) = with_plain();
    plain.add(true, "host", T0, "crawl");
    assert_eq!(f.wait(), [("crawl".to_owned(), T0)], "the seed's fault");
    let check = f.ok("CHECK");
    assert_eq!(check.field("total").int(), 1);
    assert!(check.field("problems-total").int() > 0, "{check:?}");
    let problems = check.field("problems").texts().join("\n");
    assert!(problems.contains("host"), "{problems}");
    // An id that looks like a group is leased like a group, which does no harm.
    let lease = f.take("crawl");
    assert_eq!(lease.c, 0);
    f.release(&lease, "AT 0");
    f.take_none();
    f.ok("REPAIR");
    let lease = f.take("host");
    assert_eq!(lease.c, 1);
    f.release(&lease, "AT 0 DONE crawl");
}

#[test]
fn faulty_and_right_adds_side_by_side_lose_nothing_that_the_right_one_added() {
    let (_server, mut f, mut plain) = with_plain();
    for n in 0..10 {
        f.add("crawl", &format!("ours-{n}"), T0);
        plain.add(true, &format!("theirs-{n}"), T0, "crawl");
        plain.add(true, &format!("ours-{n}"), T0, "crawl");
    }
    let mut ours = 0;
    for _ in 0..100 {
        f.pass(10);
        let Some(lease) = f.try_take() else { break };
        if lease.chg.starts_with("ours") {
            ours += 1;
            f.release(&lease, "AT 0 DONE crawl");
        } else {
            assert_eq!(lease.chg, "crawl");
            f.release(&lease, "AT 0");
        }
    }
    assert_eq!(ours, 20);
    assert_eq!(f.total(), 10);
    f.ok("REPAIR");
    f.pass(10);
    for _ in 0..10 {
        let lease = f.try_take().expect("REPAIR brought them back");
        assert!(lease.chg.starts_with("theirs"), "{lease:?}");
        f.release(&lease, "AT 0 DONE crawl");
    }
    assert_eq!(f.total(), 0);
}

#[test]
fn group_lost_between_brpop_and_script_is_brought_back_by_repair() {
    let (_server, mut f, mut plain) = with_plain();
    f.add("crawl", "host", T0);
    plain.sweep(T0);
    // Veidemann's worker dies after `BRPOP`.
    ok!(plain.wire, "BRPOP", "{f}:chg_ready", 1);
    f.take_none();
    let check = f.ok("CHECK");
    assert!(check.field("problems-total").int() > 0, "{check:?}");
    f.ok("REPAIR");
    f.take("host");
}

#[test]
fn manually_damaged_counts_are_repaired() {
    let (_server, mut f, _) = with_plain();
    f.ok(format!("ADD one a {T0} b {T0}"));
    f.ok(format!("ADD two a {T0}"));
    let spoils: [&[&str]; 5] = rows![
        &["SET", "{f}:QCT", "77"]; &["HSET", "{f}:EIDC", "one", "-5"]; &["DEL", "{f}:EIDC"];
        &["DEL", "{f}:QCT"]; &["HSET", "{f}:EIDC", "nobody", "3"];
    ];
    for spoil in spoils {
        f.wire.expect_ok(spoil);
        let check = f.ok("CHECK");
        assert_eq!(check.field("consistent").int(), 0, "{spoil:?}: {check:?}");
        f.ok("REPAIR");
        f.assert_conserved();
        assert_eq!(f.total(), 3, "{spoil:?}");
        assert_eq!((f.queued("one"), f.queued("two")), (2, 1), "{spoil:?}");
    }
    // The count of a group is the only value that cannot be computed from other keys.
    ok!(f.wire, "HSET", "{f}:CHG:a", "c", 9);
    f.ok("REPAIR");
}

#[test]
fn impossible_counts_are_repaired() {
    let (_server, mut f, _) = with_plain();
    let most = i64::MAX.to_string();
    let most = most.as_str();
    let below = ["-1", "-9223372036854775808"];
    let (a, b, spare) = ("{f}:CHG:a", "{f}:CHG:b", "{f}:CHG:spare");
    let spoils: [&[&[&str]]; 9] = rows![
        &[&["HSET", a, "c", most]];
        &[&["HSET", a, "c", most], &["HSET", b, "c", most]];
        &[&["HSET", a, "e:one", most]];
        &[&["HSET", a, "e:one", most, "e:two", most, "e:nobody", most]];
        &[&["HSET", spare, "n", "0", "c", most], &["HSET", b, "e:x", most]];
        &[&["HSET", "{f}:EIDC", "one", most, "two", most, "x", most]];
        &[&["SET", "{f}:QCT", most], &["HSET", b, "c", most]];
        &[&["SET", "{f}:QCT", below[0]]];
        &[&["SET", "{f}:QCT", below[1]]];
    ];
    for spoil in spoils {
        ok!(f.wire, "FLUSHALL");
        f.ok(format!("ADD one a {T0} b {T0}"));
        f.ok(format!("ADD two a {T0}"));
        f.ok(format!("ADDURI one a {T0} 0 http://a/"));
        for words in spoil {
            f.wire.expect_ok(words);
        }
        let check = f.ok("CHECK");
        assert_eq!(check.field("consistent").int(), 0, "{spoil:?}: {check:?}");
        f.ok("REPAIR");
        f.assert_conserved();
        assert!((2..=4).contains(&f.total()), "{spoil:?}: {}", f.total());
        assert!(f.count("a") >= 1 && f.count("b") == 1, "{spoil:?}");
        f.take("a");
        f.take("b");
        f.take_none();
    }
    // If no URIs are queued, a negative total is also an error.
    ok!(f.wire, "FLUSHALL");
    ok!(f.wire, "SET", "{f}:QCT", "-1");
    assert_eq!(f.ok("CHECK").field("consistent").int(), 0);
    f.ok("REPAIR");
}

#[test]
fn leased_group_in_the_wrong_queue_is_repaired_at_once() {
    let (_server, mut f, mut plain) = with_plain();
    f.add("crawl", "host", T0);
    let lease = f.take("host");
    ok!(plain.wire, "ZREM", "{f}:chg_busy", "host");
    ok!(plain.wire, "ZADD", "{f}:chg_wait", T0, "host");
    let check = f.ok("CHECK");
    assert_eq!(check.field("problems-total").int(), 2, "{check:?}");
    f.ok("REPAIR");
    f.assert_conserved();
    f.take_none();
    f.release(&lease, "AT 0 DONE crawl");
}

#[test]
fn blocked_next_takes_turns_with_blocked_brpop() {
    let server = Server::start();
    let (mut f, mut popper) = (Frontier::real(&server), server.wire());
    popper.send(&["BRPOP", "{f}:chg_ready", "0"]);
    server.until_blocked(1);
    let mut waiter = blocked(&server, "{f}:", "NEXT BLOCK 0");
    // Each client gets one of the two pushed groups, and no group is granted twice.
    let mut plain = server.wire();
    ok!(plain, "RPUSH", "{f}:chg_ready", "x");
    ok!(plain, "RPUSH", "{f}:chg_ready", "y");
    let popped = popper.recv().items()[1].text();
    let leased = Lease::only(&waiter.wire.recv()).chg;
    let mut both = [popped, leased];
    both.sort();
    assert_eq!(both, ["x", "y"]);
    assert!(f.ready().is_empty());
}

/// Veidemann's release as one script, which makes its steps atomic.
const PLAIN_RELEASE: &str = "
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HSET', KEYS[2], 'n', ARGV[2])
local left = redis.call('HINCRBY', KEYS[2], 'c', -1)
redis.call('HINCRBY', KEYS[3], ARGV[3], -1)
redis.call('DECR', KEYS[4])
if left > 0 then redis.call('RPUSH', KEYS[5], ARGV[1]) else redis.call('DEL', KEYS[2]) end
return left";

#[test]
fn veidemanns_workers_and_commands_share_a_crawl_and_fetch_every_uri_once() {
    let (server, mut f) = real_stage();
    let (hosts, uris) = (40, 5);
    for host in 0..hosts {
        for n in 0..uris {
            if n % 2 == 0 {
                f.add("crawl", &format!("host-{host}"), 0);
            } else {
                let now = f.time();
                Plain::of(&server).add(false, &format!("host-{host}"), now, "crawl");
            }
        }
    }
    let over = std::sync::atomic::AtomicBool::new(false);
    let over = &over;
    let server = &server;
    let done =
        |over: &std::sync::atomic::AtomicBool| over.load(std::sync::atomic::Ordering::SeqCst);
    let fetched: Vec<i64> = std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut worker = Plain::of(server);
            while !done(over) {
                let now = redis_tests::server_time(&mut worker.wire);
                worker.sweep(now);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let plain = (0..2).map(|_| {
            scope.spawn(move || {
                let (mut worker, mut fetched) = (Plain::of(server), 0);
                while !done(over) {
                    let now = redis_tests::server_time(&mut worker.wire);
                    let Some(chg) = worker.next(now + 600_000) else {
                        continue;
                    };
                    let key = format!("{{f}}:CHG:{chg}");
                    let words = [
                        "EVAL",
                        PLAIN_RELEASE,
                        "5",
                        "{f}:chg_busy",
                        &key,
                        "{f}:EIDC",
                        "{f}:QCT",
                        "{f}:chg_ready",
                        &chg,
                        &now.to_string(),
                        "crawl",
                    ];
                    worker.wire.expect_ok(&words);
                    fetched += 1;
                }
                fetched
            })
        });
        let ours = (0..2).map(|_| {
            scope.spawn(move || {
                let (mut f, mut fetched) = (Frontier::real(server), 0);
                while !done(over) {
                    let reply = f.ok("NEXT BLOCK 20");
                    if reply != nil() {
                        let lease = Lease::only(&reply);
                        f.release(&lease, "AT 0 DONE crawl");
                        fetched += 1;
                    }
                }
                fetched
            })
        });
        let workers: Vec<_> = plain.collect::<Vec<_>>().into_iter().chain(ours).collect();
        until("everything is fetched", || f.total() <= 0);
        over.store(true, std::sync::atomic::Ordering::SeqCst);
        workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .collect()
    });
    assert_eq!(fetched.iter().sum::<i64>(), hosts * uris, "{fetched:?}");
    assert_eq!(f.sums(), [0, 0, 0]);
}

#[test]
fn documented_keys_are_plain_types() {
    let (_server, mut f, _) = with_plain();
    redis_tests::BusyFrontier::build(&mut f);
    for (key, kind) in rows![
        "CHG:waiting", "hash"; "chg_wait", "zset"; "chg_busy", "zset"; "chg_ready", "list"; "EIDC", "hash";
        "QCT", "string";
    ] {
        let key = f.key(key);
        assert_eq!(ok!(f.wire, "TYPE", key).text(), kind, "{key}");
    }
    let keys = ok!(f.wire, "KEYS", "*").texts();
    assert!(keys.iter().all(|key| key.starts_with("{f}:")), "{keys:?}");
    let total: Reply = ok!(f.wire, "INCRBY", "{f}:QCT", 0);
    assert_eq!(total, int(f.total()));
}
