//! `CHG.PACK` and `CHG.UNPACK` of a frontier that is in use: at every step, each command finds all
//! groups and URIs, and a crash loses none of them.

use std::time::{Duration, Instant};

use redis_tests::{
    BusyFrontier, DedupeIndex, Frontier, Lease, Options, Server, T0, assert_replicated, bulk, err,
    int, ok, rows, simulated,
};

const F: &str = "{f}:";
const DOCUMENTED: [&str; 5] = ["chg_wait", "chg_busy", "chg_ready", "EIDC", "QCT"];

/// Adds hosts with two stored URIs and one counted URI.
fn fill(f: &mut Frontier, hosts: std::ops::Range<u32>) {
    let hosts: Vec<u32> = hosts.collect();
    for some in hosts.chunks(100) {
        let mut kept = String::new();
        let mut counted = String::new();
        for n in some {
            for page in 0..2 {
                kept += &format!(" host-{n} 0 {page} https://host-{n}.example/page/{page}");
            }
            counted += &format!(" host-{n} 0");
        }
        f.ok(format!("ADDURI crawl{kept}"));
        f.ok(format!("ADD other{counted}"));
    }
}

/// Number of URIs of the large hosts.
const LARGE: i64 = 5000;

/// Adds a host with many URIs, and one with many executions.
fn fill_large(f: &mut Frontier) {
    for some in 0..30 {
        let mut uris = String::new();
        for n in some * 100..some * 100 + 100 {
            let depth = n % 3;
            uris += &format!(" large 0 {depth} https://large.example/{}/page-{n}", n / 9);
        }
        f.ok(format!("ADDURI crawl{uris}"));
    }
    for execution in 0..200 {
        let mut uris = String::new();
        for n in 0..10 {
            uris += &format!(" crowd 0 0 https://crowd.example/{execution}/{n}");
        }
        f.ok(format!("ADDURI crawl-{execution}{uris}"));
    }
}

/// Ends a lease. A URI that is only counted belongs to the execution `other`.
fn done(f: &mut Frontier, lease: &Lease) {
    let execution = lease.execution.as_deref().unwrap_or("other");
    f.release(lease, format!("AT 0 DONE {execution}"));
}

/// Starts `PACK` or `UNPACK`, and waits until the conversion is running.
fn start(server: &Server, command: &str) -> Frontier {
    let mut mover = Frontier::real(server);
    ok!(mover.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    mover.send(command);
    mover
}

#[track_caller]
fn assert_storage(f: &mut Frontier, storage: &str) {
    assert_eq!(f.ok("INFO").field("storage"), bulk(storage));
}

/// Fetches all due URIs. Returns their number.
fn finish(f: &mut Frontier) -> i64 {
    let mut fetched = 0;
    while let Some(lease) = f.try_take() {
        done(f, &lease);
        fetched += 1;
    }
    fetched
}

#[test]
fn frontier_goes_to_the_packed_value_and_back_on_all_servers() {
    let mut server = simulated().plain().aof_unsynced(false).start();
    let replica = simulated().plain().replica_of(&server).start();
    let mut f = Frontier::at(&server, T0);
    BusyFrontier::build(&mut f);
    let shown = server.snapshot();
    let listed = f.ok("LIST");
    let groups = f.ok("PACK");
    assert!(groups.int() > 5, "{groups:?}");
    assert_storage(&mut f, "packed");
    assert_eq!(f.ok("LIST"), listed);
    f.assert_conserved();
    let mut keys: Vec<String> = ok!(f.wire, "KEYS", "*")
        .items()
        .iter()
        .map(|key| key.text())
        .collect();
    keys.sort();
    let mut expected: Vec<String> = DOCUMENTED.map(|name| f.key(name)).into();
    expected.push(f.key("chg_packed"));
    expected.sort();
    assert_eq!(keys, expected);
    assert_replicated(&server, &replica);
    assert_eq!(f.ok("PACK"), int(0));
    let digest = server.digest();
    server.kill9();
    server.restart();
    assert_eq!(server.digest(), digest);
    let mut f = Frontier::at(&server, T0);
    assert_eq!(f.ok("UNPACK"), groups);
    assert_storage(&mut f, "plain");
    server.snapshot().assert_same(&shown, "unpacked");
    assert_eq!(f.ok("UNPACK"), int(0));
    f.assert_conserved();
}

#[test]
fn move_that_a_crash_interrupts_continues_or_turns_around() {
    for (first, then) in
        rows![("PACK", "PACK"); ("PACK", "UNPACK"); ("UNPACK", "UNPACK"); ("UNPACK", "PACK");]
    {
        let mut server = Options::new().plain().aof(true).start();
        let mut f = Frontier::real(&server);
        fill(&mut f, 0..600);
        fill_large(&mut f);
        let plain = server.snapshot();
        if first == "UNPACK" {
            f.ok("PACK");
        }
        let moving = if first == "PACK" {
            "packing"
        } else {
            "unpacking"
        };
        let mover = start(&server, first);
        redis_tests::until("the frontier moves", || {
            f.ok("INFO").field("storage") == bulk(moving)
        });
        server.kill9();
        drop(mover);
        server.restart();
        let replica = Options::new().plain().replica_of(&server).start();
        let mut f = Frontier::real(&server);
        assert_storage(&mut f, moving);
        f.assert_consistent();
        for name in DOCUMENTED {
            let error = err!(f.wire, "ZADD", f.key(name), 0, "host");
            assert!(error.starts_with("WRONGTYPE"), "{error}");
        }
        assert_replicated(&server, &replica);
        let packed = f.key("chg_packed");
        let dump = ok!(f.wire, "DUMP", packed);
        ok!(f.wire, "RESTORE", "copy", 0, dump.bytes());
        assert_eq!(
            ok!(f.wire, "DEBUG", "DIGEST-VALUE", "copy"),
            ok!(f.wire, "DEBUG", "DIGEST-VALUE", packed)
        );
        ok!(f.wire, "DEL", "copy");
        server.restart_rewritten();
        let mut f = Frontier::real(&server);
        assert_storage(&mut f, moving);
        f.assert_consistent();
        f.ok(then);
        f.ok("UNPACK");
        server.snapshot().assert_same(&plain, "as before");
        assert_eq!(f.total(), 1800 + LARGE);
        assert!(f.try_take().is_some());
    }
}

#[test]
fn workers_go_on_while_the_frontier_moves() {
    let server = Options::new().plain().aof_unsynced(false).start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    fill(&mut f, 0..1000);
    fill_large(&mut f);
    let (mut fetched, mut moves, mut hosts, mut jobs) = (0, 0, 1000, 0);
    let mut seen = std::collections::BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        let command = ["PACK", "UNPACK"][moves % 2];
        let mut mover = start(&server, command);
        while !mover.wire.has_reply() {
            let job = server.info("job_0").unwrap_or_default();
            jobs += usize::from(job.starts_with("db=0,prefix={f}:,kind=frontier,work="));
            fill(&mut f, hosts..hosts + 1);
            hosts += 1;
            for _ in 0..3 {
                let lease: Lease = f.try_take().expect("much is queued");
                if let Some(uri) = &lease.uri {
                    assert!(seen.insert(uri.clone()), "fetched twice: {uri:?}");
                }
                done(&mut f, &lease);
                fetched += 1;
            }
        }
        assert!(!mover.wire.recv().is_error());
        moves += 1;
    }
    assert!(moves >= 2 && fetched > 100, "{moves} moves, {fetched} URIs");
    assert!(jobs > 0, "INFO names the jobs");
    f.assert_conserved();
    assert_replicated(&server, &replica);
    assert_eq!(fetched + finish(&mut f), i64::from(hosts) * 3 + LARGE);
    assert_eq!(f.total(), 0);
    assert_eq!(server.info_number("panics"), 0);
}

#[test]
fn large_groups_are_dropped_moved_and_fetched_in_the_middle_of_a_move() {
    for (n, command) in rows![(0, "PACK"); (1, "UNPACK"); (2, "PACK"); (3, "UNPACK");] {
        let mut server = Options::new().plain().aof(true).start();
        let mut f = Frontier::real(&server);
        fill_large(&mut f);
        if command == "UNPACK" {
            f.ok("PACK");
        }
        let mover = start(&server, command);
        // The crash is somewhere in a large group.
        for _ in 0..20 * n {
            f.ok("INFO");
        }
        server.kill9();
        drop(mover);
        server.restart();
        let replica = Options::new().plain().replica_of(&server).start();
        let mut f = Frontier::real(&server);
        for line in [
            "ADDURI crawl large 0 1 https://large.example/1/page-9",
            "ADDURI crawl large 0 1 https://large.example/333/page-2999",
            "ADDURI crawl large 0 1 https://large.example/new",
            "ADDURI new crowd 0 1 https://crowd.example/new",
        ] {
            f.ok(line);
        }
        assert_eq!(f.figure("uris"), LARGE + 2);
        for _ in 0..40 {
            let lease = f.try_take().expect("much is queued");
            done(&mut f, &lease);
        }
        f.assert_consistent();
        let dropped = f.ok("DROP crawl-100").items()[1].int();
        let large = f.ok("MOVE large elsewhere").items()[0].int();
        assert!(large > 2900, "{large}");
        f.ok("MOVE crowd elsewhere");
        let total = f.figure("uris");
        assert_eq!(total, LARGE + 2 - 40 - dropped);
        f.assert_consistent();
        assert_replicated(&server, &replica);
        for command in [command, "UNPACK", "PACK"] {
            f.ok(command);
            assert_eq!(f.total(), total, "{command}");
            f.assert_conserved();
        }
        assert_replicated(&server, &replica);
        assert_eq!(finish(&mut f), total);
        assert_eq!(server.info_number("panics"), 0);
    }
}

#[test]
fn a_move_is_replicated_as_the_names_of_what_moved() {
    let server = Options::new().plain().start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut f = Frontier::real(&server);
    fill(&mut f, 0..5000);
    fill_large(&mut f);
    assert_replicated(&server, &replica);
    let sent = |f: &mut Frontier| {
        let info = ok!(f.wire, "INFO", "replication").text();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("master_repl_offset:").map(str::to_owned));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    for command in ["PACK", "UNPACK"] {
        let before = sent(&mut f);
        f.ok(command);
        let bytes = sent(&mut f) - before;
        println!(
            "{command}: {bytes} bytes for 5002 groups and {} URIs",
            15_000 + LARGE
        );
        assert!(bytes < 5002 * 40, "{command}: {bytes} bytes");
        assert_replicated(&server, &replica);
    }
}

#[test]
fn waiter_is_served_after_each_move() {
    let server = Options::new().plain().start();
    let mut f = Frontier::real(&server);
    for command in ["PACK", "UNPACK"] {
        let due = f.time() + 150;
        f.add("crawl", "host", due);
        let mut waiter = redis_tests::blocked(&server, F, "NEXT BLOCK 0");
        assert!(!f.ok(command).is_error());
        let lease = Lease::only(&waiter.wire.recv());
        assert_eq!(lease.chg, "host", "{command}");
        f.release(&lease, "AT 0 DONE crawl");
        f.assert_conserved();
    }
}

#[test]
fn packing_needs_hardly_more_memory_than_the_plain_keys() {
    assert_memory(2, |f| fill(f, 0..20_000));
    let server = assert_memory(1, |f| {
        for host in 0..20 {
            for some in 0..50_u64 {
                let mut uris = String::new();
                for n in some * 100..some * 100 + 100 {
                    let path = redis_tests::sha256_of(n);
                    uris += &format!(" large-{host} 0 0 https://large-{host}.example/{path}");
                }
                f.ok(format!("ADDURI crawl{uris}"));
            }
        }
        fill_large(f);
    });
    let cpu = server.info_number("slice_longest_cpu_us");
    println!("longest slice {cpu} us");
    assert!(cpu < LONGEST_US, "{cpu} us");
}

/// Longest CPU time of a slice in microseconds. Builds for tests may be slow.
const LONGEST_US: i64 = if cfg!(debug_assertions) { 5000 } else { 1000 };

/// Memory of the symbol tables and of their training in bytes, which does not grow with the frontier.
const TABLES: u64 = 2 << 20;

/// Packs a frontier, and checks that this needs at most 5 % more memory, and frees all but `1 / part` of it.
fn assert_memory(part: u64, fill: impl Fn(&mut Frontier)) -> Server {
    let server = Options::new().plain().start();
    let mut f = Frontier::real(&server);
    let used = |f: &mut Frontier| {
        let info = ok!(f.wire, "INFO", "memory").text();
        let line = info
            .lines()
            .find_map(|line| line.strip_prefix("used_memory:").map(str::to_owned));
        line.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = used(&mut f);
    fill(&mut f);
    let plain = used(&mut f) - before;
    let mut mover = start(&server, "PACK");
    let mut peak = plain;
    while !mover.wire.has_reply() {
        peak = peak.max(used(&mut f).saturating_sub(before));
    }
    let packed = used(&mut f).saturating_sub(before);
    println!("plain {plain}, peak {peak}, packed {packed}");
    assert!(peak < plain + plain / 20 + TABLES, "{peak} after {plain}");
    assert!(packed < plain / part + TABLES, "{packed} after {plain}");
    server
}

#[test]
fn key_of_another_type_stops_a_move_before_it_begins() {
    for name in [
        "chg_answers",
        "chg_past",
        "chg_expired",
        "chg_token",
        "QCT",
        "chg_packed",
    ] {
        let server = Options::new().plain().start();
        let mut f = Frontier::real(&server);
        fill(&mut f, 0..10);
        let key = f.key(name);
        ok!(f.wire, "DEL", key);
        ok!(f.wire, "SADD", key, "of another program");
        let before = server.digest();
        let error = f.err("PACK");
        assert!(error.starts_with("WRONGTYPE"), "{name}: {error}");
        assert_eq!(server.digest(), before, "{name}");
        ok!(f.wire, "DEL", key);
        assert_storage(&mut f, "plain");
        assert_eq!(f.ok("PACK"), int(10), "{name}");
    }
}

#[test]
fn index_with_the_same_prefix_is_packed_independently() {
    let server = Options::new().plain().start();
    let mut index = DedupeIndex::of(&server, F);
    index.add("crawl", 0..20_000);
    index.commit("crawl");
    let mut f = Frontier::real(&server);
    fill(&mut f, 0..500);
    ok!(f.wire, "CONFIG", "SET", "crawlspace.slice-us", 50);
    let mut packing = server.wire();
    packing.send(&["DEDUPE.PACK", F]);
    redis_tests::until("the index is being packed", || {
        index.ok("STATS").field("storage") == bulk("packing")
    });
    // The frontier's job must not wait for the index's job, and must not be mistaken for it.
    assert_eq!(f.ok("PACK"), int(500));
    assert_storage(&mut f, "packed");
    assert_eq!(packing.recv().field("hashes"), int(20_000));
}

#[test]
fn transaction_moves_a_frontier_at_once() {
    let server = Options::new().plain().start();
    let mut f = Frontier::real(&server);
    fill(&mut f, 0..50);
    ok!(f.wire, "MULTI");
    f.ok("PACK");
    f.ok("NEXT");
    let replies = ok!(f.wire, "EXEC");
    assert_eq!(replies.items()[0], int(50));
    assert_storage(&mut f, "packed");
}
