//! Features that only packed frontiers have: a key that can be moved and deleted as a whole, and
//! markers at the documented names.

use std::time::Duration;

use redis_tests::{
    BusyFrontier, Frontier, LEASE, Lease, Options, Reply, Server, T0, assert_replicated, blocked,
    bulk, frontier_view, int, ok, rows, simulated,
};

const F: &str = "{f}:";
const KEY: &str = "{f}:chg_packed";
const QUIET: Duration = Duration::from_millis(120);

fn real() -> (Server, Frontier) {
    let server = Options::new().packed().start();
    let f = Frontier::real(&server);
    (server, f)
}

/// Creates a frontier with a group in every state.
fn busy(options: Options) -> (Server, Frontier) {
    let server = options.packed().start();
    let mut f = Frontier::at(&server, T0);
    BusyFrontier::build(&mut f);
    (server, f)
}

#[track_caller]
fn assert_storage(f: &mut Frontier, storage: &str) {
    assert_eq!(f.ok("INFO").field("storage"), bulk(storage));
}

#[track_caller]
fn lease_of(waiter: &mut Frontier, chg: &str) -> Lease {
    let lease = Lease::only(&waiter.wire.recv());
    assert_eq!(lease.chg, chg, "{lease:?}");
    lease
}

/// Returns the plain keys that the frontier would have in plain storage.
fn view(f: &mut Frontier) -> redis_tests::Snapshot {
    frontier_view(&mut f.wire, F, redis_tests::Snapshot::of)
}

#[test]
fn waiter_outlives_the_packed_key_and_is_served_from_what_comes_after() {
    for gone in rows!["DEL"; "UNLINK"; "RENAME"; "MOVE"; "FLUSHALL"; "EVAL";] {
        let (server, mut f) = real();
        let soon = f.time() + 100;
        f.add("crawl", "gone", soon);
        let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
        match gone {
            "DEL" | "UNLINK" => ok!(f.wire, gone, KEY),
            "RENAME" => ok!(f.wire, "RENAME", KEY, "elsewhere"),
            "MOVE" => ok!(f.wire, "MOVE", KEY, 5),
            "EVAL" => ok!(f.wire, "EVAL", "return redis.call('DEL', KEYS[1])", 1, KEY),
            _ => ok!(f.wire, gone),
        };
        // Valkey 8.1 leaves the client in the other database.
        ok!(f.wire, "SELECT", 0);
        redis_tests::until("what was there would be due", || f.time() > soon + 30);
        assert!(!waiter.wire.has_reply(), "{gone}");
        f.refused("WHY gone", "NOCHG ");
        assert_eq!(f.figure("uris"), 0);
        f.add("crawl", "host", 0);
        lease_of(&mut waiter, "host");
        assert_storage(&mut f, "packed");
        f.assert_conserved();
    }
}

#[test]
fn value_that_left_its_key_is_never_used_again() {
    let (_server, mut f) = real();
    ok!(f.wire, "DEBUG", "SET-ACTIVE-EXPIRE", "0");
    let fill = |f: &mut Frontier| {
        f.add("crawl", "host", 0);
        // The first command opens the key, and the others use the value without opening it.
        assert_eq!(f.figure("uris"), 1);
        f.add("crawl", "host", 0);
        assert_eq!(f.figure("uris"), 2);
    };
    for gone in
        rows!["PEXPIRE"; "EXPIRE"; "SET"; "RESTORE"; "SWAPDB"; "FLUSHDB"; "FLUSHALL"; "EVAL";]
    {
        fill(&mut f);
        let mut left = 0;
        match gone {
            // No command deletes the key: it expires, and a read of the key would delete it.
            "PEXPIRE" => {
                ok!(f.wire, "PEXPIRE", KEY, 1);
                let soon = f.time() + 2;
                redis_tests::until("the key has expired", || f.time() > soon);
            }
            "EXPIRE" => {
                ok!(f.wire, "EXPIRE", KEY, 1000);
                assert_eq!(f.figure("uris"), 2);
                ok!(f.wire, "PEXPIREAT", KEY, 1);
            }
            "SET" => {
                ok!(f.wire, "SET", KEY, "text");
                f.refused("NEXT", "WRONGTYPE ");
                ok!(f.wire, "DEL", KEY);
            }
            "RESTORE" => {
                let dump = ok!(f.wire, "DUMP", KEY);
                f.add("crawl", "host", 0);
                ok!(f.wire, "RESTORE", KEY, 0, dump.bytes(), "REPLACE");
                left = 2;
            }
            "SWAPDB" => {
                ok!(f.wire, "SWAPDB", 0, 5);
            }
            "EVAL" => {
                let script = "redis.call('CHG.ADD', ARGV[1], 'crawl', 'host', '0') redis.call('UNLINK', KEYS[1]) return redis.call('CHG.NEXT', ARGV[1])";
                let leased = f.wire.call(&["EVAL", script, "1", KEY, F]);
                assert_eq!(leased, Reply::Nil);
            }
            _ => {
                ok!(f.wire, gone, "ASYNC");
            }
        }
        assert_eq!(f.figure("uris"), left, "{gone}");
        f.add("crawl", "other", 0);
        assert_eq!(f.figure("uris"), left + 1, "{gone}");
        f.assert_conserved();
        ok!(f.wire, "FLUSHALL");
        assert_eq!(f.figure("uris"), 0, "{gone}");
    }
}

#[test]
fn key_that_is_used_does_not_become_idle() {
    // Every use of a key adds one to its frequency.
    let policy = ["--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0"];
    let server = Options::new().packed().args(&policy).start();
    let mut f = Frontier::real(&server);
    f.add("crawl", "host", 0);
    let before = ok!(f.wire, "OBJECT", "FREQ", KEY).int();
    for _ in 0..2_000 {
        f.ok("EXPIRED");
    }
    assert!(ok!(f.wire, "OBJECT", "FREQ", KEY).int() > before);
}

#[test]
fn waiter_is_served_from_a_packed_key_that_arrives() {
    for arrives in rows!["RENAME"; "COPY"; "RESTORE"; "MOVE"; "SWAPDB";] {
        let (server, mut f) = real();
        let mut other = Frontier::of(&server, "{f}o:");
        if arrives == "MOVE" || arrives == "SWAPDB" {
            ok!(other.wire, "SELECT", 5);
            other = Frontier::over(other.wire, F);
        }
        let now = other.time();
        other.add("crawl", "arrived", now);
        let later = now + 150;
        other.add("crawl", "later", later);
        let key = other.key("chg_packed");
        let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
        assert!(waiter.wire.is_silent_for(QUIET), "{arrives}");
        match arrives {
            "RENAME" | "COPY" => ok!(f.wire, arrives, key, KEY),
            "RESTORE" => {
                let dump = ok!(f.wire, "DUMP", key);
                ok!(f.wire, "RESTORE", KEY, 0, dump.bytes())
            }
            "MOVE" => ok!(other.wire, "MOVE", key, 0),
            _ => ok!(f.wire, "SWAPDB", 0, 5),
        };
        lease_of(&mut waiter, "arrived");
        // The other group becomes due in a moment by the server's clock, or has become due already.
        waiter.send("NEXT BLOCK 0");
        let lease = lease_of(&mut waiter, "later");
        assert!(lease.deadline - LEASE >= later, "{arrives}");
        f.assert_conserved();
    }
}

#[test]
fn plain_commands_on_documented_names_are_refused() {
    let (server, mut f) = busy(simulated());
    let before = server.digest();
    for line in rows![
        "ZADD {f}:chg_wait 0 host"; "ZREM {f}:chg_busy held"; "RPUSH {f}:chg_ready host"; "LPOP {f}:chg_ready";
        "HINCRBY {f}:EIDC crawl 1"; "HGETALL {f}:EIDC"; "INCR {f}:QCT"; "GET {f}:QCT";
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = f.wire.call(&words);
        assert!(reply.is_error(), "{line}: {reply:?}");
        assert!(
            format!("{reply:?}").contains("WRONGTYPE"),
            "{line}: {reply:?}"
        );
    }
    assert_eq!(server.digest(), before);
    f.assert_conserved();
}

#[test]
fn deleted_marker_comes_back_and_a_plain_key_in_its_place_is_refused() {
    for name in rows!["chg_wait"; "chg_busy"; "chg_ready"; "EIDC"; "QCT";] {
        let (_server, mut f) = busy(simulated());
        let shown = view(&mut f);
        let key = f.key(name);
        let kind = ok!(f.wire, "TYPE", &key);
        ok!(f.wire, "DEL", &key);
        view(&mut f).assert_same(&shown, name);
        f.ok("EXPIRED COUNT 1");
        let now = T0 + 900_000;
        f.now = Some(now);
        f.add("crawl", "new", now + 5);
        assert_eq!(ok!(f.wire, "TYPE", &key), kind, "{name}");
        ok!(f.wire, "DEL", &key);
        ok!(f.wire, "SET", &key, "x");
        let error = f.err(format!("ADD crawl host {T0}"));
        assert!(
            error.starts_with("MIXED ") && error.contains(&key),
            "{error}"
        );
        let report = f.ok("CHECK");
        assert_eq!(report.field("consistent"), int(0), "{name}");
        let problems = report.field("problems").texts();
        assert!(
            problems.iter().any(|problem| problem.contains(&key)),
            "{problems:?}"
        );
        let error = f.err("REPAIR");
        assert!(error.contains(&key), "{error}");
        ok!(f.wire, "DEL", &key);
        f.ok("REPAIR");
        assert_eq!(ok!(f.wire, "TYPE", &key), kind, "{name}");
        f.add("crawl", "host", now + 5);
        f.assert_conserved();
    }
}

#[test]
fn files_and_replicas_hold_the_same_frontier() {
    for (what, options) in [
        ("RDB", simulated().rdb()),
        ("AOF", simulated().aof_unsynced(false)),
        ("AOF with a preamble", simulated().aof_unsynced(true)),
    ] {
        let (mut server, mut f) = busy(options);
        let replica = simulated().packed().replica_of(&server).start();
        assert_replicated(&server, &replica);
        for n in 0..500 {
            f.ok(format!(
                "ADDURI crawl host-{} {T0} {} http://h/{n}",
                n % 70,
                n % 3
            ));
        }
        f.pass(1000);
        while let Some(lease) = f.try_take() {
            let done = lease.execution.clone().unwrap_or("crawl".to_owned());
            f.call(redis_tests::release(
                &lease,
                format!("DELAY 3600000 DONE {done}"),
            ));
        }
        f.ok("DROP other");
        f.ok("SWEEP LIMIT 3");
        assert_replicated(&server, &replica);
        let (digest, shown) = (server.digest(), view(&mut f));
        for rewritten in [false, true] {
            match what {
                "RDB" => server.shutdown(),
                _ if rewritten => server.restart_rewritten(),
                _ => server.kill9(),
            }
            server.restart();
            assert_eq!(server.digest(), digest, "{what}");
            let mut f = Frontier::at(&server, f.time());
            view(&mut f).assert_same(&shown, what);
            f.assert_conserved();
        }
    }
}

#[test]
fn copy_has_the_digest_of_the_original_and_leads_a_life_of_its_own() {
    let (server, mut f) = busy(simulated());
    ok!(f.wire, "COPY", KEY, "{f}copy:chg_packed");
    let digests = ok!(f.wire, "DEBUG", "DIGEST-VALUE", KEY, "{f}copy:chg_packed");
    assert_eq!(digests.items()[0], digests.items()[1]);
    let usage = ok!(f.wire, "MEMORY", "USAGE", KEY).int();
    assert!(usage > 1000, "{usage}");
    let mut copy = Frontier::of(&server, "{f}copy:");
    copy.now = f.now;
    let total = f.total();
    copy.add("crawl", "only-here", T0);
    assert_eq!((f.total(), copy.total()), (total, total + 1));
    let digests = ok!(f.wire, "DEBUG", "DIGEST-VALUE", KEY, "{f}copy:chg_packed");
    assert_ne!(digests.items()[0], digests.items()[1]);
    f.assert_conserved();
    copy.assert_conserved();
}

/// Keys are evicted until enough memory is free, in random order.
#[test]
fn eviction_takes_all_of_a_packed_frontier_or_none_of_it() {
    let (mut whole, mut empty) = (0, 0);
    for _ in 0..16 {
        let (server, mut f) = real();
        for n in 0..400 {
            ok!(f.wire, "SET", format!("other-{n}"), "x".repeat(10 << 10));
        }
        for some in 0..20 {
            let uris = (0..100).map(|n| format!(" host-{n} 0 0 http://host-{n}/{some}"));
            f.ok(format!("ADDURI crawl{}", uris.collect::<String>()));
        }
        // About half of the keys must go.
        let limit = server.info_number("used_memory") - (2 << 20);
        // Nothing of a frontier expires.
        for (policy, reply) in [("volatile-random", "OOM "), ("allkeys-random", "")] {
            ok!(f.wire, "CONFIG", "SET", "maxmemory-policy", policy);
            ok!(f.wire, "CONFIG", "SET", "maxmemory", limit);
            match f.call("ADD crawl another 0") {
                Reply::Error(line) => assert!(line.starts_with(b"OOM "), "{policy}"),
                done => assert!(reply.is_empty(), "{policy}: {done:?}"),
            }
            ok!(f.wire, "CONFIG", "SET", "maxmemory", 0);
            if !reply.is_empty() {
                assert_eq!(f.figure("uris"), 2000, "{policy}");
            }
        }
        match f.figure("uris") {
            0 | 1 => empty += 1,
            2000 | 2001 => whole += 1,
            part => panic!("{part} of 2000 URIs are left"),
        }
        f.add("crawl", "more", 0);
        f.assert_conserved();
        assert_storage(&mut f, "packed");
        assert_eq!(server.info_number("panics"), 0);
    }
    assert!(whole > 0 && empty > 0, "{whole} whole, {empty} empty");
}

#[test]
fn unpacked_frontier_goes_on_in_plain_keys_on_all_servers() {
    let (mut server, mut f) = busy(simulated().aof_unsynced(false));
    let replica = simulated().packed().replica_of(&server).start();
    let shown = view(&mut f);
    let before = f.ok("LIST");
    f.ok("UNPACK");
    assert_storage(&mut f, "plain");
    assert_eq!(f.ok("LIST"), before);
    server.snapshot().assert_same(&shown, "unpacked");
    assert_replicated(&server, &replica);
    f.add("crawl", "plain", T0);
    f.assert_conserved();
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, f.time());
    f.take("ready");
    assert_eq!(f.take("plain").c, 1);
    f.assert_conserved();
}

#[test]
fn waiter_is_served_from_plain_keys_after_unpacking() {
    let (server, mut f) = real();
    let due = f.time() + 150;
    f.add("crawl", "host", due);
    let mut waiter = blocked(&server, F, "NEXT BLOCK 0");
    f.ok("UNPACK");
    lease_of(&mut waiter, "host");
    assert_eq!(ok!(f.wire, "HGET", "{f}:CHG:host", "c"), bulk("1"));
    f.assert_conserved();
}

#[test]
fn permission_is_needed_for_the_documented_names() {
    let (server, mut f) = real();
    f.add("crawl", "host", 0);
    let mut user = |keys: &str| {
        f.wire
            .line(&format!("ACL SETUSER alice reset on nopass +@all {keys}"));
        let mut wire = server.wire();
        ok!(wire, "AUTH", "alice", "any");
        Frontier::over(wire, F)
    };
    let documented =
        "~{f}: ~{f}:chg_wait ~{f}:chg_busy ~{f}:chg_ready ~{f}:EIDC ~{f}:QCT ~{f}:CHG:*";
    let mut alice = user(documented);
    alice.add("crawl", "host", 0);
    let lease = alice.take("host");
    alice.release(&lease, "AT 0 DONE crawl");
    for missing in rows!["chg_wait"; "chg_busy"; "chg_ready"; "EIDC"; "QCT"; "CHG:*";] {
        let mut alice = user(&documented.replace(&format!(" ~{{f}}:{missing}"), ""));
        for line in ["ADD crawl host 0", "NEXT", "SWEEP"] {
            let error = alice.err(line);
            assert!(error.starts_with("NOPERM "), "{missing}, {line}: {error}");
        }
    }
    let mut reader = user("%R~{f}:*");
    assert_eq!(reader.figure("uris"), 1);
    reader.refused("ADD crawl host 0", "NOPERM ");
    assert!(reader.wire.call(&["DEL", KEY]).is_error());
    assert_eq!(ok!(f.wire, "EXISTS", KEY), int(1));
}

#[test]
fn malformed_changes_are_refused() {
    let (server, mut f) = real();
    f.add("crawl", "host", 0);
    for words in rows![
        &["\u{7f}"][..]; &["\0"]; &["NOTHING", "x"]; &["CHUNK", ""]; &["CHUNK", "x"]; &["CHUNK", "x", "x"]; &[];
    ] {
        let call = [&["crawlspace.frontier", KEY], words].concat();
        let reply: Reply = f.wire.call(&call);
        assert!(reply.is_error(), "{words:?}: {reply:?}");
        let mut elsewhere = call;
        elsewhere[1] = "{f}elsewhere:chg_packed";
        assert!(f.wire.call(&elsewhere).is_error());
        assert_eq!(ok!(f.wire, "EXISTS", elsewhere[1]), int(0), "{words:?}");
    }
    assert_eq!(server.info_number("panics"), 0);
    f.assert_conserved();
}

/// Returns bytes that no symbol table can compress.
fn incompressible(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

#[test]
fn longest_incompressible_uri_is_kept_and_moved() {
    let server = simulated().packed().start();
    let mut f = Frontier::at(&server, T0);
    let uri = incompressible(65_536);
    let now = T0.to_string();
    for chg in ["from", "to"] {
        let added = ok!(
            f.wire,
            "CHG.ADDURI",
            F,
            "NOW",
            &now,
            "crawl",
            chg,
            0,
            0,
            &uri[..]
        );
        assert_eq!(added, Reply::Array(vec![int(1)]), "{chg}");
    }
    ok!(
        f.wire,
        "CHG.ADDURI",
        F,
        "NOW",
        &now,
        "crawl",
        "from",
        0,
        0,
        "http://a.b/"
    );
    ok!(f.wire, "CHG.MOVE", F, "NOW", &now, "from", "to");
    assert_eq!(f.figure("uris"), 2);
    let leases = f.ok("NEXT");
    assert_eq!(leases.items()[0].items()[6], Reply::Bulk(uri));
    f.assert_conserved();
}

#[test]
fn options_of_unknown_groups_keep_a_frontier_plain() {
    for line in ["LIMIT host BUDGET 1", "GROUP gate host other"] {
        let server = Options::new().plain().start();
        let mut f = Frontier::real(&server);
        f.ok(line);
        ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-storage", "packed");
        ok!(f.wire, "DEBUG", "RELOAD");
        f.add("crawl", "host", 0);
        assert_storage(&mut f, "plain");
        for storage in ["plain", "packed"] {
            let why = f.ok("WHY host");
            assert!(
                why.field("budget") == int(0) || why.field("group") == bulk("gate"),
                "{storage}: {why:?}"
            );
            f.ok("PACK");
        }
        assert_storage(&mut f, "packed");
        f.assert_conserved();
    }
}

#[test]
fn plain_frontier_can_follow_a_packed_one_whose_keys_were_deleted_one_by_one() {
    let (_server, mut f) = real();
    f.add("crawl", "packed", 0);
    ok!(f.wire, "DEL", KEY);
    // The markers are left, so the frontier is packed and empty.
    f.take_none();
    for name in rows!["chg_wait"; "chg_busy"; "chg_ready"; "EIDC"; "QCT";] {
        ok!(f.wire, "DEL", f.key(name));
    }
    ok!(f.wire, "CONFIG", "SET", "crawlspace.chg-storage", "plain");
    ok!(f.wire, "HSET", f.key("CHG:host"), "n", "0", "c", "1");
    ok!(f.wire, "HSET", f.key("EIDC"), "crawl", "1");
    ok!(f.wire, "SET", f.key("QCT"), "1");
    ok!(f.wire, "RPUSH", f.key("chg_ready"), "host");
    f.take("host");
    assert_storage(&mut f, "plain");
    f.assert_conserved();
}

#[test]
fn foreign_value_at_the_packed_key_is_refused() {
    let (_server, mut f) = real();
    ok!(f.wire, "SET", KEY, "x");
    f.refused("ADD crawl host 0", "WRONGTYPE ");
    f.refused("PACK", "WRONGTYPE ");
    ok!(f.wire, "DEL", KEY);
    f.add("crawl", "host", 0);
    ok!(f.wire, "SET", KEY, "x");
    f.refused("PACK", "WRONGTYPE ");
}
