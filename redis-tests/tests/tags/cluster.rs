//! In a cluster a space is a key like any other: it needs no hash tag, and moves with its slot.

use redis_tests::{Options, Server, TagSpace, int, ok, until};

fn node() -> Server {
    Options::new().cluster_enabled().start()
}

fn is_up(node: &Server) -> bool {
    ok!(node.wire(), "CLUSTER", "INFO")
        .text()
        .contains("cluster_state:ok")
}

#[test]
fn key_without_a_hash_tag_works() {
    let node = node();
    ok!(node.wire(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383);
    until("the cluster is up", || is_up(&node));
    for key in ["tags", "a:b", "{x}tags", "{}"] {
        let mut s = TagSpace::over(node.wire(), key);
        assert_eq!(s.ok("ADD FILE f coll:1"), int(1));
        s.ok("POINTSET all coll:*");
        s.ok("LOAD FILE STAGE g coll:2");
        s.ok("SWAP FILE");
        assert_eq!(s.kept("POINT all FORMAT FILE", &["f", "g"]), ["g"]);
        assert_eq!(s.figure("points"), 1);
    }
}

#[test]
fn space_of_another_node_is_asked_for_there() {
    let node = node();
    // The slot of `tags` is nobody's, so the other half answers that it has none of it.
    let mut c = node.wire();
    let slot = ok!(c, "CLUSTER", "KEYSLOT", "tags").int();
    ok!(c, "CLUSTER", "ADDSLOTSRANGE", 0, slot - 1, slot + 1, 16383);
    ok!(c, "CONFIG", "SET", "cluster-require-full-coverage", "no");
    until("the cluster is up", || is_up(&node));
    let mut s = TagSpace::of(&node);
    for line in [
        "ADD FILE f t",
        "GET FILE f",
        "FILTER FORMAT FILE LINES f",
        "INFO",
    ] {
        let error = s.err(line);
        assert!(error.starts_with("CLUSTERDOWN "), "{line}: {error}");
    }
    let key = (0..).map(|n| format!("tags{n}")).find(|key| {
        let theirs = ok!(c, "CLUSTER", "KEYSLOT", key).int();
        theirs != slot
    });
    let mut s = TagSpace::over(node.wire(), &key.expect("another slot"));
    s.ok("ADD FILE f t");
}
