//! Tests when the storage of an index may change (clusters, full servers, replicas), and the
//! replies in each storage. (`matrix::acl` and `matrix::memory` test which users may change it, and
//! what a full server accepts.)

use redis_tests::{
    Cluster, DedupeIndex, Options, Reply, Server, Wire, bulk, ok, replies_of, small_index,
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
