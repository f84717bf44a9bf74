//! Tests when the storage of an index may change (clusters, full servers, replicas), and the
//! replies in each storage. (`matrix::acl` and `matrix::memory` test which users may change it, and
//! what a full server accepts.)

use redis_tests::{
    Cluster, DedupeIndex, Options, Reply, Server, Wire, assert_error, assert_replicated, bulk, int,
    ok, replies_of, small_index,
};

const P: &str = "{coll-42}:";

fn user(server: &Server, name: &str, rules: &[&str]) -> Wire {
    let mut words = vec!["ACL", "SETUSER", name, "on", "nopass", "+@all"];
    words.extend(rules);
    server.wire().expect_ok(&words);
    let mut wire = server.wire();
    ok!(wire, "AUTH", name, "any");
    wire
}

#[test]
fn denials_are_the_same_on_both_storages() {
    let (server, mut c) = DedupeIndex::on(Options::new().plain(), P);
    small_index(&mut c, P);
    let rules = [
        &["~{coll-42}:*"][..],
        &["%R~{coll-42}:*"],
        &["~{coll-42}:[^h]*"],
        &["~{coll-42}:[^h]*", "~{coll-42}:h:b*"],
        &["~{coll-42}:h:*"],
    ];
    let lines = [
        "LOOKUP #1",
        "LOOKUP CRAWL open WITHWACZ #1 #15",
        "CLAIM open #1 PX 1",
        "WACZLIST a",
        "STATS a",
        "REQUIRES open",
        "REQUIREDBY a",
        "CHECK",
        "COMMIT nobody",
    ];
    let steady = |mut said: Reply| {
        if let Reply::Array(items) = &mut said
            && let Some(memory) = items.iter().position(|item| *item == bulk("memory"))
        {
            items.remove(memory + 1);
        }
        said
    };
    let mut says = |storage: &str| {
        assert_eq!(c.storage(), storage);
        let mut replies = Vec::new();
        for (i, rules) in rules.iter().enumerate() {
            let mut user = DedupeIndex::over(user(&server, &format!("user-{i}"), rules), P);
            replies.extend(lines.map(|line| (rules, line, steady(user.call(line)))));
        }
        replies
    };
    let plain = says("plain");
    DedupeIndex::of(&server, P).ok("PACK");
    for (packed, plain) in says("packed").iter().zip(&plain) {
        assert_eq!(plain, packed);
    }
}

fn other_than<'a>(cluster: &'a Cluster, owner: &Server) -> &'a Server {
    let mut nodes = cluster.nodes().iter();
    let other = nodes.find(|node| node.port() != owner.port());
    other.expect("two nodes")
}

#[test]
fn a_packed_index_lives_in_one_slot_and_moves_with_it() {
    let cluster = Cluster::with(2, Options::new().plain());
    let owner = cluster.owner(P);
    let mut c = DedupeIndex::of(owner, P);
    let mut untagged = DedupeIndex::of(cluster.owner("p:"), "p:");
    untagged.refused("PACK", "BADPREFIX");
    small_index(&mut c, P);
    let expected = replies_of(&mut c, P);
    assert_eq!(c.change("PACK").1, 30);
    let slot = cluster.slot(P);
    for key in c.plain("KEYS *").texts() {
        assert_eq!(cluster.slot(&key), slot, "{key}");
    }
    assert_eq!(replies_of(&mut c, P), expected);
    let other = other_than(&cluster, owner);
    let mut c = DedupeIndex::of(other, P);
    c.refused("UNPACK", "MOVED");
    cluster.move_slot(P, other);
    assert_eq!(
        replies_of(&mut c, P),
        expected,
        "the other node must give the same replies"
    );
    assert_eq!(c.storage(), "packed");
    assert_eq!(c.change("UNPACK").1, 30);
    assert_eq!(replies_of(&mut c, P), expected);
    c.assert_consistent();
}

fn large(c: &mut DedupeIndex) {
    c.plain("CONFIG SET crawlspace.slice-us 50");
    for (id, first) in [("a", 0), ("b", 6_000)] {
        c.committed(id, first..first + 12_000);
    }
}

#[test]
fn a_slot_that_moves_while_the_storage_changes_is_complete() {
    let cluster = Cluster::with(2, Options::new().plain());
    large(&mut DedupeIndex::of(cluster.owner(P), P));
    for name in ["PACK", "UNPACK"] {
        let owner = cluster.owner(P);
        let other = other_than(&cluster, owner);
        let mut c = DedupeIndex::of(other, P);
        c.plain("CONFIG SET crawlspace.slice-us 50");
        let mut changer = DedupeIndex::of(owner, P).begun(name);
        cluster.move_slot(P, other);
        changer.recv();
        owner.until_idle();
        assert_eq!(ok!(owner.wire(), "DBSIZE"), int(0), "{name}");
        let seen = c.owners((0..18_000).step_by(199));
        assert!(seen.iter().all(|owner| owner != "-"), "{name}: {seen:?}");
        c.change(name);
        assert_eq!(c.indexed(), 18_000);
        c.assert_consistent();
    }
}

#[test]
fn a_change_that_reaches_maxmemory_stops_cleanly_and_continues_later() {
    let server = Options::new().plain().aof_unsynced(false).start();
    let replica = Options::new().plain().replica_of(&server).start();
    let mut c = DedupeIndex::of(&server, P);
    large(&mut c);
    let before = c.plain_view();
    for (name, storage) in [("PACK", "packed"), ("UNPACK", "plain")] {
        let mut changer = c.begun(name);
        c.plain("CONFIG SET maxmemory 1");
        if storage == "packed" {
            // Packing frees memory, so a full server allows it.
            assert!(matches!(changer.recv(), Reply::Array(_)));
            c.plain("CONFIG SET maxmemory 0");
            let after = c.plain_view();
            after.assert_same(&before, name);
            continue;
        }
        assert_error(&changer.recv(), "OOM", name);
        server.until_idle();
        c.refused(name, "OOM");
        assert!(c.storage().ends_with("ing"));
        let seen = c.owners((0..18_000).step_by(199));
        assert!(seen.iter().all(|owner| owner != "-"), "{name}: {seen:?}");
        assert_eq!(c.indexed(), 18_000);
        c.plain("CONFIG SET maxmemory 0");
        let (now, hashes, _) = c.change(name);
        assert_eq!(now, storage);
        assert!(hashes > 0 && hashes <= 18_000, "{hashes}");
        let after = c.plain_view();
        after.assert_same(&before, name);
        c.assert_consistent();
    }
    assert_replicated(&server, &replica);
}

#[test]
fn replicas_read_and_refuse() {
    let (server, mut c) = DedupeIndex::on(Options::new().packed(), P);
    let replica = Options::new().plain().replica_of(&server).start();
    let [mut r, mut new] = [P, "{new}:"].map(|p| DedupeIndex::of(&replica, p));
    small_index(&mut c, P);
    server.wait_for_replica_offset(&replica);
    assert_eq!(replies_of(&mut r, P), replies_of(&mut c, P));
    assert_eq!(r.storage(), "packed");
    for name in ["PACK", "UNPACK"] {
        r.refused(name, "READONLY");
        new.refused(name, "READONLY");
    }
    assert_eq!(server.digest(), replica.digest());
}
