//! A cluster: one frontier is one slot, and a slot that migrates is asked for at the right node.

use redis_tests::{
    BusyFrontier, Frontier, Lease, Options, Reply, Server, T0, Wire, int, ok, simple, until,
    until_some,
};

const F: &str = "{f}:";

fn node() -> Server {
    let options = Options::new().cluster_enabled();
    options.module_args(&["chg-simulated-time", "yes"]).start()
}

fn is_up(node: &Server) -> bool {
    ok!(node.wire(), "CLUSTER", "INFO")
        .text()
        .contains("cluster_state:ok")
}

fn one_node() -> Server {
    let node = node();
    ok!(node.wire(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383);
    until("the cluster is up", || is_up(&node));
    node
}

const EVERY_COMMAND: [&str; 23] = [
    "ADD crawl host 0",
    "ADDURI crawl host 0 0 http://host/",
    "NEXT",
    "RELEASE host 1 AT 0",
    "EXTEND host 1 1000",
    "SWEEP",
    "EXPIRED",
    "BLOCK host UNTIL 0",
    "PAUSE host",
    "RESUME host",
    "PAUSE",
    "LIMIT host GAP 5",
    "GROUP shared host",
    "DROP crawl",
    "DROP GROUP host",
    "MOVE host other",
    "WHY host",
    "INFO",
    "LIST",
    "URIS host",
    "CHECK",
    "REPAIR",
    "NEXT BLOCK 5",
];

#[test]
fn prefix_without_a_hash_tag_is_refused_clearly() {
    let node = one_node();
    for prefix in ["f:", "", "{}:", "f}:{", "{f"] {
        let mut f = Frontier::of(&node, prefix);
        for line in EVERY_COMMAND {
            let error = f.err(line);
            assert!(
                error.starts_with("BADPREFIX ") && error.contains("hash tag"),
                "{prefix} {line}: {error}"
            );
        }
    }
    assert_eq!(ok!(node.wire(), "DBSIZE"), int(0));
}

#[test]
fn frontier_with_a_hash_tag_works_in_its_slot() {
    let node = one_node();
    let mut f = Frontier::at(&node, T0);
    f.ok("INFO");
    f.ok("CHECK");
    f.err("WHY nobody");
    assert_eq!(ok!(f.wire, "DBSIZE"), int(0), "looking creates nothing");
    for line in [
        "RELEASE nobody 1 AT 0",
        "PAUSE nobody",
        "ADD crawl host soon",
    ] {
        f.err(line);
        assert_eq!(
            ok!(f.wire, "DBSIZE"),
            int(0),
            "{line} is refused, and creates nothing"
        );
    }
    let out = BusyFrontier::build(&mut f);
    f.release(&out.held, "DELAY 5 DONE crawl");
    f.ok("DROP other");
    f.assert_conserved();
    assert_eq!(ok!(f.wire, "TYPE", F).text(), "string", "the anchor key");
    let slot = ok!(f.wire, "CLUSTER", "KEYSLOT", F);
    for key in ok!(f.wire, "KEYS", "*").texts() {
        assert_eq!(ok!(f.wire, "CLUSTER", "KEYSLOT", key), slot, "{key}");
    }
}

#[test]
fn odd_ids_stay_in_the_slot_of_the_prefix() {
    let node = one_node();
    let mut f = Frontier::at(&node, T0);
    let slot = ok!(f.wire, "CLUSTER", "KEYSLOT", F);
    for id in ["{other}", "}{x}", "a{b}c"] {
        f.ok(format!("ADDURI {id} {id} 0 0 http://{id}/"));
        f.ok(format!("ADD {id} SEQ {id} 1 {id}2 0"));
        f.ok(format!("GROUP {id} {id}"));
        let lease = f.try_take().expect("a group");
        f.release(&lease, "DELAY 60000");
    }
    for key in ok!(f.wire, "KEYS", "*").texts() {
        assert_eq!(ok!(f.wire, "CLUSTER", "KEYSLOT", key), slot, "{key}");
    }
    f.assert_conserved();
}

#[test]
fn waiters_wake_in_a_cluster() {
    let node = one_node();
    let mut f = Frontier::real(&node);
    let mut waiter = redis_tests::blocked(&node, F, "NEXT BLOCK 0");
    let due = f.time() + 100;
    f.add("crawl", "host", due);
    let lease = Lease::only(&waiter.wire.recv());
    assert!(lease.deadline - 600_000 >= due);
}

/// Two nodes: `a` has the slot of [`F`], `b` the other half.
fn two_nodes() -> (Server, Server, i64) {
    let (a, b) = (node(), node());
    let mut ca = a.wire();
    let slot = ok!(ca, "CLUSTER", "KEYSLOT", F).int();
    let (mine, theirs) = if slot < 8192 {
        ((0, 8191), (8192, 16383))
    } else {
        ((8192, 16383), (0, 8191))
    };
    ok!(ca, "CLUSTER", "ADDSLOTSRANGE", mine.0, mine.1);
    ok!(b.wire(), "CLUSTER", "ADDSLOTSRANGE", theirs.0, theirs.1);
    ok!(b.wire(), "CLUSTER", "SET-CONFIG-EPOCH", 2);
    ok!(ca, "CLUSTER", "SET-CONFIG-EPOCH", 1);
    let port = ok!(b.wire(), "CONFIG", "GET", "cluster-port");
    let bus = port.pairs()[0].1.text();
    ok!(ca, "CLUSTER", "MEET", "127.0.0.1", b.port(), bus);
    until("both nodes know all slots", || is_up(&a) && is_up(&b));
    (a, b, slot)
}

fn first_word(reply: &Reply) -> String {
    match reply {
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(line).into_owned();
            line.split(' ').next().unwrap_or_default().to_owned()
        }
        _ => "ok".to_owned(),
    }
}

fn asking(c: &mut Wire, words: &[Vec<u8>]) -> Reply {
    ok!(c, "ASKING");
    c.call(words)
}

#[test]
fn command_for_another_nodes_slot_is_moved() {
    let (a, b, _) = two_nodes();
    Frontier::real(&a).add("crawl", "host", 0);
    let mut fb = Frontier::real(&b);
    for line in EVERY_COMMAND {
        let error = fb.err(line);
        assert!(
            error.starts_with("MOVED ") && error.ends_with(&a.port().to_string()),
            "{line}: {error}"
        );
    }
}

#[test]
fn migrating_frontier_is_served_asked_for_and_moved_whole() {
    let (a, b, slot) = two_nodes();
    let (mut fa, mut cb) = (Frontier::at(&a, T0), b.wire());
    fa.ok(format!(
        "ADDURI crawl kept {T0} 0 http://kept/ gated {T0} 0 http://gated/"
    ));
    fa.add("crawl", "waiting", T0 + 5000);
    let kept = fa.take("kept");
    let gated = fa.take("gated");
    let gate = fa.release(&gated, "DELAY 2000 DONE crawl");
    fa.add("crawl", "gated", T0);
    let digests = |f: &mut Frontier| [f.sums(), [f.due("gated").expect("there"), gate, 0]];
    let before = digests(&mut fa);

    let (id_a, id_b) = (
        ok!(fa.wire, "CLUSTER", "MYID").text(),
        ok!(cb, "CLUSTER", "MYID").text(),
    );
    ok!(cb, "CLUSTER", "SETSLOT", slot, "IMPORTING", id_a);
    ok!(fa.wire, "CLUSTER", "SETSLOT", slot, "MIGRATING", id_b);
    let keys = ok!(fa.wire, "CLUSTER", "GETKEYSINSLOT", slot, 1000).texts();
    assert!(keys.contains(&F.to_owned()) && keys.len() > 5, "{keys:?}");
    let add = fa.words("ADD crawl new 0");
    let mut added = 0;
    // While the keys are on both sides, every answer is right or says where to go or to try again.
    for key in keys {
        let reply = ok!(fa.wire, "MIGRATE", "127.0.0.1", b.port(), key, 0, 5000);
        assert_eq!(reply, simple("OK"));
        let here = fa.wire.call(&add);
        let reply = match first_word(&here).as_str() {
            "ASK" => asking(&mut cb, &add),
            _ => here,
        };
        match first_word(&reply).as_str() {
            "ok" => added += 1,
            "TRYAGAIN" => {}
            _ => panic!("after {key}: {reply:?}"),
        }
    }
    assert_eq!(first_word(&fa.wire.call(&add)), "ASK");
    assert_eq!(ok!(fa.wire, "DBSIZE"), int(0), "nothing stays behind");
    for c in [&mut cb, &mut fa.wire] {
        ok!(c, "CLUSTER", "SETSLOT", slot, "NODE", id_b);
    }
    assert_eq!(first_word(&fa.call("INFO")), "MOVED");
    let mut fb = Frontier::over(cb, F);
    fb.now = fa.now;
    until_some("the target owns the slot", || {
        (!fb.call("INFO").is_error()).then_some(())
    });
    assert_eq!(fb.count("new"), added);
    assert_eq!(fb.ok("DROP nobody").ints(), [0, 0]);
    let [groups, executions, total] = before[0].map(|n| n + added);
    assert_eq!(fb.sums(), [groups, executions, total]);
    assert_eq!(fb.due("gated"), Some(gate));
    fb.release(&kept, "DELAY 10 DONE crawl");
    fb.assert_conserved();
}

#[test]
fn waiter_whose_slot_leaves_does_not_wait_for_ever() {
    let (a, b, slot) = two_nodes();
    let mut fa = Frontier::real(&a);
    fa.ok("ADD crawl host 0 host 0");
    fa.take("host");
    let mut waiter = redis_tests::blocked(&a, F, "NEXT BLOCK 2000");
    let (id_a, id_b) = (
        ok!(fa.wire, "CLUSTER", "MYID").text(),
        ok!(b.wire(), "CLUSTER", "MYID").text(),
    );
    ok!(b.wire(), "CLUSTER", "SETSLOT", slot, "IMPORTING", id_a);
    ok!(fa.wire, "CLUSTER", "SETSLOT", slot, "MIGRATING", id_b);
    for key in ok!(fa.wire, "CLUSTER", "GETKEYSINSLOT", slot, 1000).texts() {
        ok!(fa.wire, "MIGRATE", "127.0.0.1", b.port(), key, 0, 5000);
    }
    for c in [&mut b.wire(), &mut fa.wire] {
        ok!(c, "CLUSTER", "SETSLOT", slot, "NODE", id_b);
    }
    // An error that sends it to the other node, or the end of its time.
    let reply = waiter.wire.recv();
    assert!(reply.is_nil() || reply.is_error(), "{reply:?}");
    assert_eq!(ok!(fa.wire, "DBSIZE"), int(0));
}
