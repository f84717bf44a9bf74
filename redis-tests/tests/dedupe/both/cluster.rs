//! A cluster: one prefix is one slot, and a slot that migrates is asked for at the right node.

use redis_tests::{
    DATE, Options, Reply, Server, Wire, add, array, assert_consistent, cmd, commit, err, int, ok,
    owners, record_of, sha256_of, until, until_some,
};

const P: &str = "{coll-42}:";

fn one_node() -> Server {
    let node = Options::new().cluster_enabled().start();
    ok!(node.wire(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383);
    until("the cluster is up", || node_is_up(&node));
    node
}

fn node_is_up(node: &Server) -> bool {
    ok!(node.wire(), "CLUSTER", "INFO")
        .text()
        .contains("cluster_state:ok")
}

#[test]
fn prefix_without_a_hash_tag_is_refused_clearly() {
    let node = one_node();
    let mut c = node.wire();
    let h = sha256_of(1);
    for p in ["p:", "", "{}:", "coll}:{", "{coll"] {
        let calls: [&[&str]; 5] = [
            &["DEDUPE.ADD", p, "a", &h, "0", DATE, "http://e.com/", "5"],
            &["DEDUPE.LOOKUP", p, &h],
            &["DEDUPE.COMMIT", p, "a"],
            &["DEDUPE.STATS", p],
            &["DEDUPE.CLAIM", p, "a", &h, "PX", "1000"],
        ];
        for words in calls {
            let line = c.expect_error(words);
            assert!(
                line.starts_with("BADPREFIX ") && line.contains("hash tag"),
                "{line}"
            );
        }
    }
    assert_eq!(ok!(c, "DBSIZE"), int(0));
}

#[test]
fn prefix_with_a_hash_tag_works_and_has_an_anchor_key() {
    let node = one_node();
    let mut c = node.wire();
    assert_eq!(owners(&mut c, P, [1]), ["-"]);
    assert_eq!(ok!(c, "DBSIZE"), int(0), "a look-up creates nothing");
    add(&mut c, P, "a", 0..2000);
    assert_eq!(ok!(c, "TYPE", P).text(), "string");
    assert_eq!(commit(&mut c, P, "a"), (2000, 0));
    add(&mut c, P, "b", 1000..3000);
    ok!(c, "DEDUPE.REVISIT", P, "b", "REF", "u", sha256_of(1), 5);
    assert_eq!(commit(&mut c, P, "b"), (1000, 1000));
    assert_eq!(ok!(c, "DEDUPE.REMOVE", P, "a").ints(), [1, 1000, 1000]);
    assert_eq!(owners(&mut c, P, [0, 1500, 2500]), ["-", "b", "b"]);
    assert_consistent(&mut c, P);
    let slot = ok!(c, "CLUSTER", "KEYSLOT", P);
    for key in ok!(c, "KEYS", "*").texts() {
        assert_eq!(ok!(c, "CLUSTER", "KEYSLOT", key), slot, "{key}");
    }
}

#[test]
fn odd_ids_stay_in_the_slot_of_the_prefix() {
    let node = one_node();
    let mut c = node.wire();
    let slot = ok!(c, "CLUSTER", "KEYSLOT", P);
    for id in ["{other}", "}{x}", "a{b}c"] {
        add(&mut c, P, id, [1]);
        ok!(c, "DEDUPE.WACZOPEN", P, id, "{w}.wacz");
        ok!(c, "DEDUPE.COMMIT", P, id);
    }
    for key in ok!(c, "KEYS", "*").texts() {
        assert_eq!(ok!(c, "CLUSTER", "KEYSLOT", key), slot, "{key}");
    }
}

/// Two nodes: `a` has the slot of [`P`], `b` half of the others.
fn two_nodes() -> (Server, Server, i64) {
    let (a, b) = (
        Options::new().cluster_enabled().start(),
        Options::new().cluster_enabled().start(),
    );
    let mut ca = a.wire();
    let slot = ok!(ca, "CLUSTER", "KEYSLOT", P).int();
    let (mine, theirs) = if slot < 8192 {
        ((0, 8191), (8192, 16383))
    } else {
        ((8192, 16383), (0, 8191))
    };
    ok!(ca, "CLUSTER", "ADDSLOTSRANGE", mine.0, mine.1);
    ok!(b.wire(), "CLUSTER", "ADDSLOTSRANGE", theirs.0, theirs.1);
    ok!(b.wire(), "CLUSTER", "SET-CONFIG-EPOCH", 2);
    ok!(ca, "CLUSTER", "SET-CONFIG-EPOCH", 1);
    let bus = ok!(b.wire(), "CONFIG", "GET", "cluster-port").pairs()[0]
        .1
        .text();
    ok!(ca, "CLUSTER", "MEET", "127.0.0.1", b.port(), bus);
    until("both nodes know all slots", || {
        node_is_up(&a) && node_is_up(&b)
    });
    (a, b, slot)
}

fn first_word(reply: &Reply) -> String {
    match reply {
        Reply::Error(line) => String::from_utf8_lossy(line)
            .split(' ')
            .next()
            .unwrap()
            .to_owned(),
        _ => "ok".to_owned(),
    }
}

fn asking(c: &mut Wire, words: &[&str]) -> Reply {
    ok!(c, "ASKING");
    c.call(words)
}

#[test]
fn command_for_another_nodes_slot_is_moved() {
    let (a, b, _) = two_nodes();
    add(&mut a.wire(), P, "a", 0..5);
    let mut cb = b.wire();
    for line in [
        err!(cb, "DEDUPE.LOOKUP", P, sha256_of(1)),
        err!(cb, "DEDUPE.COMMIT", P, "a"),
    ] {
        assert!(
            line.starts_with("MOVED ") && line.ends_with(&a.port().to_string()),
            "{line}"
        );
    }
}

#[test]
fn migrating_slot_is_served_asked_for_and_moved_anchor_first() {
    slot_migrates(|is_anchor| i32::from(!is_anchor));
}

#[test]
fn migrating_slot_is_served_asked_for_and_moved_anchor_last() {
    slot_migrates(i32::from);
}

fn slot_migrates(anchor_at: impl Fn(bool) -> i32) {
    let (a, b, slot) = two_nodes();
    let (mut ca, mut cb) = (a.wire(), b.wire());
    add(&mut ca, P, "a", 0..50);
    commit(&mut ca, P, "a");
    add(&mut ca, P, "open", 50..60);
    let (id_a, id_b) = (
        ok!(ca, "CLUSTER", "MYID").text(),
        ok!(cb, "CLUSTER", "MYID").text(),
    );
    ok!(cb, "CLUSTER", "SETSLOT", slot, "IMPORTING", id_a);
    ok!(ca, "CLUSTER", "SETSLOT", slot, "MIGRATING", id_b);

    let h = sha256_of(1);
    let h9 = sha256_of(900);
    let lookup = ["DEDUPE.LOOKUP", P, &h];
    let record = [
        "DEDUPE.ADD",
        P,
        "open",
        &h9,
        "0",
        DATE,
        "http://e.com/",
        "5",
    ];
    // All keys are still here, so what reads is served. New keys may not be made here any more.
    assert_eq!(ca.call(&lookup), array([record_of("a", 1)]));
    assert_eq!(first_word(&ca.call(&record)), "TRYAGAIN");

    let mut keys = ok!(ca, "CLUSTER", "GETKEYSINSLOT", slot, 1000).texts();
    assert!(keys.contains(&P.to_owned()) && keys.len() > 5, "{keys:?}");
    keys.sort_by_key(|key| anchor_at(key == P));
    // While the keys are on both sides, every answer is right or says where to go or to try again.
    for key in keys {
        let reply = ok!(ca, "MIGRATE", "127.0.0.1", b.port(), key, 0, 5000);
        assert_eq!(reply, redis_tests::simple("OK"));
        for (words, right) in [(&lookup[..], array([record_of("a", 1)])), (&record, int(1))] {
            let here = ca.call(words);
            let reply = match first_word(&here).as_str() {
                "ASK" => asking(&mut cb, words),
                _ => here,
            };
            assert!(
                reply == right || first_word(&reply) == "TRYAGAIN",
                "after {key} {words:?} said {reply:?}"
            );
        }
    }
    // All keys are there, which nobody there can know before the slot is.
    for words in [&lookup[..], &record] {
        assert_eq!(first_word(&ca.call(words)), "ASK");
        assert_eq!(first_word(&asking(&mut cb, words)), "TRYAGAIN");
    }
    assert_eq!(
        ok!(ca, "DBSIZE"),
        int(0),
        "nothing was created where the slot leaves"
    );

    for c in [&mut cb, &mut ca] {
        ok!(c, "CLUSTER", "SETSLOT", slot, "NODE", id_b);
    }
    assert_eq!(first_word(&ca.call(&lookup)), "MOVED");
    until_some("the target owns the slot", || {
        let reply = cb.call(&lookup);
        (reply == array([record_of("a", 1)])).then_some(())
    });
    assert_eq!(commit(&mut cb, P, "open"), (10, 0));
    assert_consistent(&mut cb, P);
}

#[test]
fn job_whose_slot_leaves_harms_nothing() {
    let (a, b, slot) = two_nodes();
    let (mut ca, mut cb, mut committer) = (a.wire(), b.wire(), a.wire());
    ok!(ca, "CONFIG", "SET", "crawlspace.slice-us", 50);
    redis_tests::Crawl {
        prefix: P,
        id: "a",
        first: 0,
        hashes: 60_000,
    }
    .add(&mut ca);
    committer.send(&["DEDUPE.COMMIT", P, "a"]);
    until("the commit is under way", || {
        ok!(ca, "EXISTS", format!("{P}committing")) == int(1)
    });
    let (id_a, id_b) = (
        ok!(ca, "CLUSTER", "MYID").text(),
        ok!(cb, "CLUSTER", "MYID").text(),
    );
    ok!(cb, "CLUSTER", "SETSLOT", slot, "IMPORTING", id_a);
    ok!(ca, "CLUSTER", "SETSLOT", slot, "MIGRATING", id_b);
    loop {
        let keys = ok!(ca, "CLUSTER", "GETKEYSINSLOT", slot, 1000).texts();
        if keys.is_empty() {
            break;
        }
        for key in keys {
            // NOKEY, when a running job dropped it meanwhile, is fine.
            ok!(
                ca,
                "MIGRATE",
                "127.0.0.1",
                b.port(),
                key,
                0,
                60_000,
                "REPLACE"
            );
        }
    }
    committer.recv();
    until("nothing runs any more", || {
        a.info_number("jobs_running") == 0
    });
    assert_eq!(ok!(ca, "DBSIZE"), int(0));
    for c in [&mut cb, &mut ca] {
        ok!(c, "CLUSTER", "SETSLOT", slot, "NODE", id_b);
    }
    until("the target serves the slot", || {
        !cb.call(&["DEDUPE.STATS", P]).is_error()
    });
    ok!(cb, "DEDUPE.COMMIT", P, "a");
    assert_eq!(owners(&mut cb, P, [0, 59_999]), ["a", "a"]);
    assert_eq!(
        ok!(cb, "HGET", format!("{P}allcounts"), "totalUrls").text(),
        "60000"
    );
    assert_consistent(&mut cb, P);
}

#[test]
fn cluster_that_is_down_says_so() {
    let node = one_node();
    let mut c = node.wire();
    add(&mut c, P, "a", [1]);
    commit(&mut c, P, "a");
    let (slot, other) = (
        ok!(c, "CLUSTER", "KEYSLOT", P).int(),
        ok!(c, "CLUSTER", "KEYSLOT", "{b}").int(),
    );
    let h = sha256_of(1);
    let lookup = ["DEDUPE.LOOKUP", P, &h];
    let record = ["DEDUPE.ADD", P, "a", &h, "0", DATE, "http://e.com/", "5"];
    ok!(c, "CLUSTER", "DELSLOTS", other);
    until("the cluster is down", || !node_is_up(&node));
    for words in [&lookup[..], &record] {
        assert_eq!(c.expect_error(words), "CLUSTERDOWN The cluster is down");
    }
    ok!(c, "CONFIG", "SET", "cluster-allow-reads-when-down", "yes");
    assert_eq!(c.expect_ok(&lookup), array([record_of("a", 1)]));
    let line = c.expect_error(&record);
    assert_eq!(
        line,
        "CLUSTERDOWN The cluster is down and only accepts read commands"
    );
    ok!(c, "CONFIG", "SET", "cluster-require-full-coverage", "no");
    ok!(c, "CLUSTER", "DELSLOTS", slot);
    for words in [&lookup[..], &record] {
        assert_eq!(c.expect_error(words), "CLUSTERDOWN Hash slot not served");
    }
}

#[test]
fn replica_reads_after_readonly_and_sends_others_to_its_master() {
    let (node, replica) = (one_node(), Options::new().cluster_enabled().start());
    let (mut c, mut r) = (node.wire(), replica.wire());
    add(&mut c, P, "a", [1]);
    commit(&mut c, P, "a");
    let bus = ok!(c, "CONFIG", "GET", "cluster-port").pairs()[0].1.text();
    ok!(r, "CLUSTER", "MEET", "127.0.0.1", node.port(), bus);
    let id = ok!(c, "CLUSTER", "MYID").text();
    until("the replica knows its master", || {
        !cmd!(r, "CLUSTER", "REPLICATE", id).is_error()
    });
    node.wait_for_replica_offset(&replica);
    let h = sha256_of(1);
    let lookup = ["DEDUPE.LOOKUP", P, &h];
    let here = format!(":{}", node.port());
    until("it is the master's slot", || {
        let line = r.expect_error(&lookup);
        line.starts_with("MOVED ") && line.ends_with(&here)
    });
    ok!(r, "READONLY");
    assert_eq!(r.expect_ok(&lookup), array([record_of("a", 1)]));
    assert_consistent(&mut r, P);
    // Before the module is asked, Redis 8.6 says that this is a replica.
    let line = err!(r, "DEDUPE.COMMIT", P, "a");
    assert!(
        line.starts_with("MOVED ") || line.starts_with("READONLY "),
        "{line}"
    );
}
