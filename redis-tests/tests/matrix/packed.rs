//! Packed indexes and frontiers, and those in the middle of `PACK` and `UNPACK`, survive everything that happens to
//! keys and servers.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use redis_tests::packable::{Family, Packable, during};
use redis_tests::{
    Cluster, Options, Reply, Server, assert_error, assert_replicated, bulk, cmd, err, int, ok,
    rows, simple, until,
};

/// Creates a test of each of these functions for indexes and for frontiers.
macro_rules! for_both {
    ($($property:ident),+ $(,)?) => {
        for_both!(@ index Index $($property)+);
        for_both!(@ frontier Frontier $($property)+);
    };
    (@ $module:ident $family:ident $($property:ident)+) => {
        mod $module {
            $(#[test]
            fn $property() {
                super::$property(redis_tests::packable::Family::$family);
            })+
        }
    };
}

for_both!(
    killed_conversion_finishes_or_turns_around,
    conversion_survives_a_shutdown_and_a_reload,
    conversion_survives_swapdb,
    flush_ends_a_conversion,
    pack_and_unpack_at_once_end_in_one_of_the_two,
    keys_deleted_during_a_conversion_do_not_hang_it,
    transaction_converts_in_the_middle_of_other_jobs,
    conversion_that_reaches_maxmemory_stops_cleanly_and_continues_later,
    replicas_miss_nothing_during_a_conversion,
    replica_that_joins_during_a_conversion_is_equal,
    new_master_finishes_the_conversion_of_the_old_one,
    conversion_ends_with_an_error_when_its_server_becomes_a_replica,
    slot_that_moves_during_a_conversion_is_complete,
    value_longer_than_a_string_is_replicated_and_rewritten_and_moved,
    copies_and_dumps_are_equal,
    memory_usage_equals_the_growth_of_the_server,
    large_value_is_freed_in_the_background,
    defragmentation_moves_the_value_and_does_no_harm,
    type_expiry_and_scan_are_those_of_a_key,
    marker_announces_no_family,
);

const NAMES: [&str; 2] = ["PACK", "UNPACK"];

fn plain_replica(server: &Server) -> Server {
    Options::new().plain().replica_of(server).start()
}

fn value_digest(data: &mut Packable, key: &str) -> String {
    let digests = ok!(data.wire, "DEBUG", "DIGEST-VALUE", key);
    digests.texts().remove(0)
}

fn killed_conversion_finishes_or_turns_around(family: Family) {
    let cases = rows!["PACK", "PACK"; "PACK", "UNPACK"; "UNPACK", "UNPACK"; "UNPACK", "PACK";];
    for (number, (first, then)) in cases.into_iter().enumerate() {
        let what = format!("half a {first}, then {then}");
        let options = Options::new().aof_unsynced(number % 2 == 0);
        let (mut server, mut data) = Packable::on(options, family);
        let before = data.view();
        if first == "UNPACK" {
            data.run("PACK");
        }
        let mut mover = data.begun(&server, first);
        server.kill_under(&mut mover);
        for rewritten in [false, true] {
            if rewritten {
                server.restart_rewritten();
            }
            data = Packable::of(&server, family);
            assert_eq!(data.storage(), during(first), "{what}");
            data.assert_whole(&what);
            let error = err!(data.wire, "ZADD", family.marker(), 0, "x");
            assert!(error.starts_with("WRONGTYPE"), "{error}");
        }
        let replica = plain_replica(&server);
        data.run(then);
        assert_eq!(data.storage() == "packed", then == "PACK", "{what}");
        data.assert_whole(&what);
        assert_replicated(&server, &replica);
        data.view().assert_same(&before, &what);
        data.assert_consistent();
        assert_eq!(server.info_number("panics"), 0);
    }
}

fn conversion_survives_a_shutdown_and_a_reload(family: Family) {
    let (mut server, mut data) = Packable::on(Options::new().rdb(), family);
    let before = data.view();
    for name in NAMES {
        data.begun(&server, name).hang_up();
        server.shutdown();
        server.restart();
        data = Packable::of(&server, family);
        data.wire.ok_line("CONFIG SET crawlspace.slice-us 50");
        data.assert_whole("after a shutdown");
        let mut mover = data.sent(&server, name);
        ok!(data.wire, "DEBUG", "RELOAD");
        mover.recv();
        server.until_idle();
        data.assert_whole("after a reload");
        data.run(name);
        data.view().assert_same(&before, name);
    }
    data.assert_consistent();
}

fn conversion_survives_swapdb(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    for name in NAMES {
        let mut mover = data.begun(&server, name);
        ok!(data.wire, "SWAPDB", 0, 1);
        mover.recv();
        server.until_idle();
        ok!(data.wire, "SELECT", 1);
        data.assert_whole(name);
        data.run(name);
        data.assert_whole(name);
        data.assert_consistent();
        ok!(data.wire, "SWAPDB", 0, 1);
        ok!(data.wire, "SELECT", 0);
        data.assert_whole(name);
    }
}

fn flush_ends_a_conversion(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    for (name, flush) in [("PACK", "FLUSHALL"), ("UNPACK", "FLUSHALL ASYNC")] {
        if name == "UNPACK" {
            data.run("PACK");
        }
        let mut mover = data.begun(&server, name);
        data.wire.ok_line(flush);
        mover.recv();
        server.until_idle();
        data.wire.ok_line(flush);
        data.build();
        data.assert_whole(name);
        data.assert_consistent();
    }
}

fn pack_and_unpack_at_once_end_in_one_of_the_two(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let before = data.view();
    let mut movers = NAMES.map(|name| data.sent(&server, name));
    for mover in &mut movers {
        let reply = mover.recv();
        assert!(!reply.is_error(), "{reply:?}");
    }
    data.view().assert_same(&before, "PACK and UNPACK at once");
    data.assert_consistent();
}

fn keys_deleted_during_a_conversion_do_not_hang_it(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    for name in NAMES {
        for deleted in family.keys() {
            ok!(data.wire, "FLUSHALL");
            data.build();
            if name == "UNPACK" {
                data.run("PACK");
            }
            let mut mover = data.begun(&server, name);
            ok!(data.wire, "DEL", format!("{{m}}:{deleted}"));
            mover.recv();
            server.until_idle();
            data.run("REPAIR");
            if deleted == "allcrawls" {
                // The records of the crawls are complete, but the crawls are in no list, so the check cannot tell if
                // they should be kept.
                for crawl in ["a", "b"] {
                    data.call(&format!("COMMIT {crawl}"));
                }
                data.run("REPAIR");
            }
            data.assert_consistent();
            assert_eq!(server.info_number("panics"), 0, "{name}, {deleted}");
        }
    }
}

fn transaction_converts_in_the_middle_of_other_jobs(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let convert = |data: &mut Packable, name: &str| {
        ok!(data.wire, "MULTI");
        data.run(name);
        let done = ok!(data.wire, "EXEC");
        assert!(!done.items()[0].is_error(), "{done:?}");
    };
    for (first, inside) in
        rows!["PACK", "UNPACK"; "UNPACK", "PACK"; "PACK", "PACK"; "UNPACK", "UNPACK";]
    {
        if (first == "PACK") != (data.storage() == "plain") {
            convert(&mut data, if first == "PACK" { "UNPACK" } else { "PACK" });
        }
        let mut mover = data.begun(&server, first);
        convert(&mut data, inside);
        data.assert_whole(first);
        let reply = mover.recv();
        assert!(!reply.is_error(), "{first}, {inside}: {reply:?}");
        data.assert_whole(first);
        data.assert_consistent();
    }
    // Each job is submitted before the transaction; most are still running then.
    let jobs: &[&str] = match family {
        Family::Index => &["REMOVE b"],
        Family::Frontier => &rows![
            "CHECK"; "REPAIR"; "SWEEP"; "PAUSE EXECUTION other"; "DROP other";
        ],
    };
    for (job, name) in jobs.iter().zip(NAMES.into_iter().cycle()) {
        let mut running = data.sent(&server, job);
        until("the job runs", || {
            running.has_reply() || server.info_number("jobs_running") > 0
        });
        convert(&mut data, name);
        let reply = running.recv();
        assert!(!reply.is_error(), "{job}, {name}: {reply:?}");
        data.assert_consistent();
    }
    assert_eq!(server.info_number("panics"), 0);
}

fn conversion_that_reaches_maxmemory_stops_cleanly_and_continues_later(family: Family) {
    let (server, mut data) = Packable::on(Options::new().aof_unsynced(false), family);
    let replica = plain_replica(&server);
    let before = data.view();
    // Packing frees memory, so a full server finishes it.
    let mut mover = data.begun(&server, "PACK");
    ok!(data.wire, "CONFIG", "SET", "maxmemory", 1);
    let reply = mover.recv();
    assert!(!reply.is_error(), "{reply:?}");
    ok!(data.wire, "CONFIG", "SET", "maxmemory", 0);
    data.view().assert_same(&before, "PACK");
    let mut mover = data.begun(&server, "UNPACK");
    ok!(data.wire, "CONFIG", "SET", "maxmemory", 1);
    assert_error(&mover.recv(), "OOM", "UNPACK");
    server.until_idle();
    assert_error(&data.call("UNPACK"), "OOM", "UNPACK");
    assert_eq!(data.storage(), "unpacking");
    data.assert_whole("in a full server");
    ok!(data.wire, "CONFIG", "SET", "maxmemory", 0);
    data.run("UNPACK");
    data.view().assert_same(&before, "UNPACK");
    data.assert_consistent();
    assert_replicated(&server, &replica);
}

fn replicas_miss_nothing_during_a_conversion(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let replica = plain_replica(&server);
    server.wait_for_replica_offset(&replica);
    let over = AtomicBool::new(false);
    let (looks, seen) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut copy = Packable::of(&replica, family);
            while !over.load(Relaxed) {
                let storage = copy.storage();
                let at = NAMES.iter().position(|name| storage == during(name));
                seen.fetch_or(at.map_or(0, |at| 1 << at), Relaxed);
                copy.assert_whole(&storage);
                looks.fetch_add(1, Relaxed);
            }
        });
        until("the replica was seen in the middle of both", || {
            for name in NAMES {
                data.run(name);
            }
            server.wait_for_replica_offset(&replica);
            watcher.is_finished() || looks.load(Relaxed) > 5 && seen.load(Relaxed) == 3
        });
        over.store(true, Relaxed);
        watcher.join().expect("nothing is missed");
    });
    assert_replicated(&server, &replica);
}

fn replica_that_joins_during_a_conversion_is_equal(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let early = plain_replica(&server);
    server.wait_for_replica_offset(&early);
    for name in NAMES {
        let mut mover = data.begun(&server, name);
        let joined = plain_replica(&server);
        data.assert_whole(name);
        mover.recv();
        for (replica, when) in [(&joined, "joined in the middle"), (&early, "all along")] {
            assert_replicated(&server, replica);
            let mut copy = Packable::of(replica, family);
            copy.view()
                .assert_same(&data.view(), &format!("{name}, {when}"));
        }
    }
}

fn new_master_finishes_the_conversion_of_the_old_one(family: Family) {
    for name in NAMES {
        let (mut server, mut data) = Packable::on(Options::new(), family);
        let before = data.view();
        let replica = plain_replica(&server);
        if name == "UNPACK" {
            data.run("PACK");
        }
        server.wait_for_replica_offset(&replica);
        let _mover = data.begun(&server, name);
        let mut copy = Packable::of(&replica, family);
        until("the replica is in the middle", || {
            copy.storage() == during(name)
        });
        server.kill9();
        ok!(copy.wire, "REPLICAOF", "NO", "ONE");
        copy.assert_whole("promoted in the middle");
        copy.run(name);
        copy.assert_whole("finished");
        copy.view().assert_same(&before, name);
        copy.assert_consistent();
    }
}

fn conversion_ends_with_an_error_when_its_server_becomes_a_replica(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let other = Options::new().plain().start();
    let mut mover = data.begun(&server, "PACK");
    ok!(data.wire, "REPLICAOF", "127.0.0.1", other.port());
    assert!(mover.recv().is_error());
    server.until_idle();
    assert_replicated(&other, &server);
}

fn slot_that_moves_during_a_conversion_is_complete(family: Family) {
    let cluster = Cluster::with(2, Options::new().plain());
    let slot = cluster.slot(family.key());
    let key = family.key();
    Packable::of(cluster.owner(&key), family).build();
    for whole in [false, true] {
        if whole && !cluster.moves_whole() {
            eprintln!("this server does not move slots as a whole");
            return;
        }
        for name in NAMES {
            let from = cluster.owner(&key);
            let mut nodes = cluster.nodes().iter();
            let to = nodes.find(|node| node.port() != from.port());
            let to = to.expect("two nodes");
            ok!(to.wire(), "CONFIG", "SET", "crawlspace.slice-us", 50);
            let mut mover = Packable::of(from, family).begun(from, name);
            if whole {
                cluster.move_whole(&key, to);
            } else {
                cluster.move_slot(&key, to);
            }
            mover.recv();
            from.until_idle();
            until("all keys have left", || {
                ok!(from.wire(), "CLUSTER", "COUNTKEYSINSLOT", slot) == int(0)
            });
            let mut data = Packable::of(to, family);
            data.assert_whole(name);
            data.run(name);
            data.assert_whole(name);
            data.assert_consistent();
        }
    }
}

fn value_longer_than_a_string_is_replicated_and_rewritten_and_moved(family: Family) {
    let limit = ["--proto-max-bulk-len", "1048576"];
    let options = || Options::new().aof_unsynced(false).args(&limit);
    let (mut server, mut data) = Packable::on(options(), family);
    data.grow();
    let (digest, key) = (server.digest(), family.key());
    let replica = Options::new().args(&limit).replica_of(&server).start();
    assert_replicated(&server, &replica);
    server.restart_rewritten();
    assert_eq!(server.digest(), digest);
    // `MIGRATE` sends the value as one string, and loses nothing if the other server refuses it.
    let mut c = server.wire();
    let size = ok!(c, "DUMP", key).bytes().len();
    assert!(size > 1 << 20, "{size}");
    let other = Options::new().args(&limit).start();
    let migrate =
        |c: &mut redis_tests::Wire| cmd!(c, "MIGRATE", "127.0.0.1", other.port(), key, 0, 60_000);
    assert!(migrate(&mut c).is_error());
    assert_eq!(server.digest(), digest);
    ok!(
        other.wire(),
        "CONFIG",
        "SET",
        "proto-max-bulk-len",
        2 * size
    );
    let before = value_digest(&mut Packable::of(&server, family), &key);
    assert_eq!(migrate(&mut c), simple("OK"));
    assert_eq!(
        value_digest(&mut Packable::of(&other, family), &key),
        before
    );
}

fn copies_and_dumps_are_equal(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let key = family.key();
    for step in ["halfway", "packed"] {
        if step == "halfway" {
            let mut mover = data.begun(&server, "PACK");
            ok!(data.wire, "DEBUG", "RELOAD");
            mover.recv();
        } else {
            data.run("PACK");
        }
        let digest = value_digest(&mut data, &key);
        ok!(data.wire, "COPY", key, "copy", "REPLACE");
        let dump = ok!(data.wire, "DUMP", key);
        ok!(data.wire, "RESTORE", "restored", 0, dump.bytes(), "REPLACE");
        for copy in ["copy", "restored"] {
            assert_eq!(value_digest(&mut data, copy), digest, "{step}, {copy}");
        }
        ok!(data.wire, "RENAME", key, "elsewhere");
        ok!(data.wire, "RENAME", "copy", key);
        data.assert_whole(step);
    }
    data.assert_consistent();
}

/// Bytes of small blocks that the module keeps when they are freed.
const KEPT: i64 = 140_000;

fn memory_usage_equals_the_growth_of_the_server(family: Family) {
    for loaded in [false, true] {
        let (server, mut data) = Packable::on(Options::new(), family);
        // Valkey frees deleted values on another thread, some time later.
        data.wire.ok_line("CONFIG SET lazyfree-lazy-user-del no");
        data.grow();
        if loaded {
            ok!(data.wire, "DEBUG", "RELOAD");
        }
        let said = ok!(data.wire, "MEMORY", "USAGE", family.key()).int();
        // The server may shrink the buffers of this client, and free the previous keys, at any time.
        drop(data);
        let used = || {
            until("the server has freed what it does not need", || {
                server.info_number("connected_clients") == 1
                    && server.info_number("lazyfree_pending_objects") == 0
            });
            server.info_number("used_memory")
        };
        let before = used();
        ok!(server.wire(), "DEL", family.key());
        let measured = before - used();
        let what = format!("{said} said, {measured} measured, loaded: {loaded}");
        eprintln!("{what}");
        assert!((said - measured).abs() <= measured / 50 + KEPT, "{what}");
    }
}

fn large_value_is_freed_in_the_background(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    data.grow();
    let before = server.info_number("lazyfreed_objects");
    let usage = ok!(data.wire, "MEMORY", "USAGE", family.key()).int();
    let used = server.info_number("used_memory");
    ok!(data.wire, "UNLINK", family.key());
    until("it is freed in the background", || {
        server.info_number("lazyfreed_objects") > before
            && server.info_number("used_memory") < used - usage / 2
    });
    ok!(data.wire, "FLUSHALL", "ASYNC");
    assert_eq!(server.info_number("panics"), 0);
}

fn defragmentation_moves_the_value_and_does_no_harm(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    if let Reply::Error(line) = cmd!(data.wire, "CONFIG", "SET", "activedefrag", "yes") {
        eprintln!("not tried: {}", String::from_utf8_lossy(&line));
        return;
    }
    for setting in rows![
        "ignore-bytes 1"; "threshold-lower 0"; "threshold-upper 1"; "cycle-min 50"; "cycle-max 90";
    ] {
        data.wire
            .ok_line(format!("CONFIG SET active-defrag-{setting}"));
    }
    data.grow();
    // Removing a part of the data leaves gaps in memory.
    match family {
        Family::Index => drop(data.run("REMOVE large")),
        Family::Frontier => {
            for n in (0..7_000).step_by(2) {
                data.run(&format!("DROP GROUP large-{n}"));
            }
        }
    }
    data.assert_consistent();
    let digest = server.digest();
    let hits = server.info_number("active_defrag_hits");
    until("something has moved", || {
        server.info_number("active_defrag_hits") > hits + 1_000
    });
    assert_eq!(server.digest(), digest);
    data.assert_consistent();
    let mut mover = data.begun(&server, "UNPACK");
    mover.recv();
    data.assert_consistent();
    assert_eq!(server.info_number("panics"), 0);
}

fn type_expiry_and_scan_are_those_of_a_key(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    data.run("PACK");
    let (key, kind) = match family {
        Family::Index => (family.key(), "crawlpack"),
        Family::Frontier => (family.key(), "crawlfron"),
    };
    assert_eq!(ok!(data.wire, "TYPE", key), simple(kind));
    assert_eq!(ok!(data.wire, "OBJECT", "ENCODING", key), bulk("raw"));
    err!(data.wire, "HGET", key, "x");
    let found = ok!(data.wire, "SCAN", 0, "TYPE", kind, "COUNT", 1000);
    assert_eq!(found.items()[1].texts(), [key.as_str()]);
    assert_eq!(ok!(data.wire, "PEXPIRE", key, 600_000), int(1));
    match family {
        Family::Index => drop(data.run("REMOVE b")),
        Family::Frontier => drop(data.run("NEXT")),
    }
    let left = ok!(data.wire, "PTTL", key).int();
    assert!(left > 0, "changes keep the time to live");
    assert_eq!(ok!(data.wire, "PEXPIREAT", key, 1), int(1));
    assert_eq!(ok!(data.wire, "EXISTS", key), int(0));
    assert_eq!(data.storage(), "packed");
    match family {
        // The sets of crawls are in other keys, which have not expired.
        Family::Index => drop(data.run("REPAIR")),
        Family::Frontier => assert_eq!(data.run("INFO").field("uris"), int(0)),
    }
    data.assert_consistent();
    assert_eq!(server.info_number("panics"), 0);
}

fn marker_announces_no_family(family: Family) {
    let (server, mut data) = Packable::on(Options::new(), family);
    let replica = plain_replica(&server);
    server.wait_for_replica_offset(&replica);
    let mut listeners = [&server, &replica].map(|server| {
        let mut wire = server.wire();
        ok!(wire, "CONFIG", "SET", "notify-keyspace-events", "KA");
        ok!(
            wire,
            "SUBSCRIBE",
            format!("__keyspace@0__:{}", family.marker())
        );
        wire
    });
    data.run("PACK");
    for listener in &mut listeners {
        until("the marker is announced", || {
            let message = listener.recv();
            message.items()[2] == bulk("crawlspace.marker")
        });
    }
}
