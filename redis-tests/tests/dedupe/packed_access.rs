//! Who may change the storage of an index, and where: users, clusters, full servers, replicas.

use redis_tests::{
    Cluster, Crawl, Options, Reply, Server, Wire, add, array, assert_consistent, begin_change,
    change_storage, commit, indexed, int, is_packed, ok, owners, plain_view, record_of, replies_of,
    sha256_of, small_index, storage_of,
};

const P: &str = "{coll-42}:";

fn plain_server() -> Server {
    Options::new().plain().start()
}

fn user(server: &Server, name: &str, rules: &[&str]) -> Wire {
    let mut words = vec!["ACL", "SETUSER", name, "on", "nopass", "+@all"];
    words.extend(rules);
    server.wire().expect_ok(&words);
    let mut wire = server.wire();
    ok!(wire, "AUTH", name, "any");
    wire
}

#[track_caller]
fn refused(reply: Reply, code: &str, named: &str) {
    match reply {
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(&line).into_owned();
            let told = line.starts_with(&format!("{code} ")) && line.contains(named);
            assert!(told, "{code} {named}: {line}");
        }
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn user_of_the_prefix_may_change_the_storage_and_nobody_else() {
    let server = plain_server();
    let mut c = server.wire();
    small_index(&mut c, P);
    let expected = replies_of(&mut c, P);
    let mut alice = user(&server, "alice", &["~{coll-42}:*"]);
    let rules = [
        ("other", &["~{coll-43}:*"][..]),
        ("reader", &["%R~{coll-42}:*"]),
        ("narrow", &["~{coll-42}:[^h]*"]),
        ("records", &["~{coll-42}:h:*"]),
        ("blind", &["~{coll-42}:[^a]*"]),
        ("one", &["~{coll-42}:[^h]*", "~{coll-42}:h:b*"]),
    ];
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let before = server.snapshot();
        for (who, rules) in rules {
            let mut other = user(&server, who, rules);
            refused(other.call(&[name, P]), "NOPERM", P);
        }
        let mut idle = user(&server, "idle", &["~*", "-dedupe.pack", "-dedupe.unpack"]);
        refused(idle.call(&[name, P]), "NOPERM", "");
        server.snapshot().assert_same(&before, "refused");
        assert_eq!(change_storage(&mut alice, name, P).1, 30);
        assert_eq!(replies_of(&mut c, P), expected);
    }
}

#[test]
fn denials_are_the_same_on_both_storages() {
    let server = plain_server();
    let mut c = server.wire();
    small_index(&mut c, P);
    let rules = [
        &["~{coll-42}:*"][..],
        &["%R~{coll-42}:*"],
        &["~{coll-42}:[^h]*"],
        &["~{coll-42}:[^h]*", "~{coll-42}:h:b*"],
        &["~{coll-42}:h:*"],
    ];
    let (hash, all) = (sha256_of(1), sha256_of(15));
    let commands: [&[&str]; 9] = [
        &["DEDUPE.LOOKUP", P, &hash],
        &["DEDUPE.LOOKUP", P, "CRAWL", "open", "WITHWACZ", &hash, &all],
        &["DEDUPE.CLAIM", P, "open", &hash, "PX", "1"],
        &["DEDUPE.WACZLIST", P, "a"],
        &["DEDUPE.STATS", P, "a"],
        &["DEDUPE.REQUIRES", P, "open"],
        &["DEDUPE.REQUIREDBY", P, "a"],
        &["DEDUPE.CHECK", P],
        &["DEDUPE.COMMIT", P, "nobody"],
    ];
    let told = |said: Reply| match said {
        Reply::Array(items) => {
            let memory = items
                .iter()
                .position(|item| *item == redis_tests::bulk("memory"));
            let steady = items.iter().enumerate();
            let steady = steady.filter(|(i, _)| memory.is_none_or(|at| *i != at + 1));
            Reply::Array(steady.map(|(_, item)| item.clone()).collect())
        }
        other => other,
    };
    let says = |c: &mut Wire| {
        let mut replies = Vec::new();
        for (i, rules) in rules.iter().enumerate() {
            let mut other = user(&server, &format!("user-{i}"), rules);
            replies.extend(commands.map(|words| told(other.call(words))));
        }
        let packed = is_packed(c, P);
        (packed, replies)
    };
    let (was_packed, plain) = says(&mut c);
    ok!(c, "DEDUPE.PACK", P);
    let (packed, replies) = says(&mut c);
    assert!(packed && !was_packed);
    for (i, (plain, packed)) in plain.iter().zip(&replies).enumerate() {
        let (who, what) = (rules[i / commands.len()], commands[i % commands.len()]);
        assert_eq!(plain, packed, "{what:?} as {who:?}");
    }
}

#[test]
fn a_packed_index_lives_in_one_slot_and_moves_with_it() {
    let cluster = Cluster::with(2, Options::new().plain());
    let owner = cluster.owner(P);
    let mut c = owner.wire();
    let line = cluster
        .owner("p:")
        .wire()
        .expect_error(&["DEDUPE.PACK", "p:"]);
    assert!(line.starts_with("BADPREFIX "), "{line}");
    small_index(&mut c, P);
    let expected = replies_of(&mut c, P);
    assert_eq!(change_storage(&mut c, "DEDUPE.PACK", P).1, 30);
    let slot = cluster.slot(P);
    for key in ok!(c, "KEYS", "*").texts() {
        assert_eq!(cluster.slot(&key), slot, "{key}");
    }
    assert_eq!(replies_of(&mut c, P), expected);
    let mut nodes = cluster.nodes().iter();
    let other = nodes
        .find(|node| node.port() != owner.port())
        .expect("two nodes");
    let line = other.wire().expect_error(&["DEDUPE.UNPACK", P]);
    assert!(line.starts_with("MOVED "), "{line}");
    cluster.move_slot(P, other);
    let mut c = other.wire();
    assert_eq!(replies_of(&mut c, P), expected, "on the other node");
    assert_eq!(storage_of(&mut c, P), "packed");
    assert_eq!(change_storage(&mut c, "DEDUPE.UNPACK", P).1, 30);
    assert_eq!(replies_of(&mut c, P), expected);
    assert_consistent(&mut c, P);
}

fn large(c: &mut Wire) {
    ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
    for (id, first) in [("a", 0), ("b", 6_000)] {
        Crawl::of(P, id, first..first + 12_000).add(c);
        commit(c, P, id);
    }
}

#[test]
fn a_slot_that_leaves_while_the_storage_changes_takes_all_along() {
    let cluster = Cluster::with(2, Options::new().plain());
    large(&mut cluster.owner(P).wire());
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        let owner = cluster.owner(P);
        let mut nodes = cluster.nodes().iter();
        let other = nodes.find(|node| node.port() != owner.port()).unwrap();
        let mut c = other.wire();
        ok!(c, "CONFIG", "SET", "crawlspace.slice-us", 50);
        let mut changer = begin_change(owner, name, P);
        cluster.move_slot(P, other);
        changer.recv();
        owner.until_idle();
        assert_eq!(ok!(owner.wire(), "DBSIZE"), int(0), "{name}");
        let seen = owners(&mut c, P, (0..18_000).step_by(199));
        assert!(seen.iter().all(|owner| owner != "-"), "{name}: {seen:?}");
        change_storage(&mut c, name, P);
        assert_eq!(indexed(&mut c, P), 18_000);
        assert_consistent(&mut c, P);
    }
}

#[test]
fn a_change_that_meets_maxmemory_stops_cleanly_and_goes_on_later() {
    let server = Options::new().plain().aof_unsynced(false).start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut c = server.wire();
    large(&mut c);
    let before = plain_view(&mut c, P).without_storage();
    for (name, storage) in [("DEDUPE.PACK", "packed"), ("DEDUPE.UNPACK", "plain")] {
        let mut changer = begin_change(&server, name, P);
        ok!(c, "CONFIG", "SET", "maxmemory", 1);
        if storage == "packed" {
            // It frees memory.
            assert!(matches!(changer.recv(), Reply::Array(_)));
            ok!(c, "CONFIG", "SET", "maxmemory", 0);
            let after = plain_view(&mut c, P).without_storage();
            after.assert_same(&before, name);
            continue;
        }
        refused(changer.recv(), "OOM", "");
        server.until_idle();
        refused(c.call(&[name, P]), "OOM", "");
        assert!(storage_of(&mut c, P).ends_with("ing"));
        let seen = owners(&mut c, P, (0..18_000).step_by(199));
        assert!(seen.iter().all(|owner| owner != "-"), "{name}: {seen:?}");
        assert_eq!(indexed(&mut c, P), 18_000);
        ok!(c, "CONFIG", "SET", "maxmemory", 0);
        let (now, hashes, _) = change_storage(&mut c, name, P);
        assert_eq!(now, storage);
        assert!(hashes > 0 && hashes <= 18_000, "{hashes}");
        let after = plain_view(&mut c, P).without_storage();
        after.assert_same(&before, name);
        assert_consistent(&mut c, P);
    }
    server.wait_for_replica_offset(&replica);
    assert_eq!(server.digest(), replica.digest());
}

#[test]
fn a_full_server_still_frees_packed_crawls() {
    let server = Options::new().packed().start();
    let mut c = server.wire();
    for (id, hashes) in [("a", 0..20), ("b", 10..30)] {
        add(&mut c, P, id, hashes);
        commit(&mut c, P, id);
    }
    add(&mut c, P, "open", [50]);
    ok!(c, "CONFIG", "SET", "maxmemory", 1);
    let before = server.snapshot();
    refused(c.call(&["DEDUPE.COMMIT", P, "open"]), "OOM", "");
    refused(c.call(&["DEDUPE.UNPACK", P]), "OOM", "");
    server
        .snapshot()
        .assert_same(&before, "refused for want of memory");
    let found = ok!(c, "DEDUPE.LOOKUP", P, sha256_of(1));
    assert_eq!(found, array([record_of("a", 1)]));
    assert_eq!(ok!(c, "DEDUPE.CANCEL", P, "open"), int(1));
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "b").ints(), [1, 10, 0]);
    assert_eq!(owners(&mut c, P, [0, 15, 25]), ["a", "a", "-"]);
    ok!(c, "CONFIG", "SET", "maxmemory", 0);
    assert_consistent(&mut c, P);
}

#[test]
fn replicas_read_and_refuse() {
    let server = Options::new().packed().start();
    let replica = Options::new().plain().replica_of(&server).start();
    let (mut c, mut r) = (server.wire(), replica.wire());
    small_index(&mut c, P);
    server.wait_for_replica_offset(&replica);
    assert_eq!(replies_of(&mut r, P), replies_of(&mut c, P));
    assert_eq!(storage_of(&mut r, P), "packed");
    for name in ["DEDUPE.PACK", "DEDUPE.UNPACK"] {
        for p in [P, "{new}:"] {
            refused(r.call(&[name, p]), "READONLY", "");
        }
    }
    assert_eq!(server.digest(), replica.digest());
}
