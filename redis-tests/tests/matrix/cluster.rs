//! Tests that in a cluster the keys of a family are in the slot of their prefix, and that clients
//! are redirected to the right node, even while the slot migrates.

use redis_tests::matrix::{Family, PREFIX, State};
use redis_tests::{Cluster, Reply, Wire, int, ok, simple, until};

use crate::stage::{Outcome, Stage, reads, steady, steady_data};

for_every_family!(
    each_sample_has_the_same_effect_in_a_cluster_and_in_one_slot,
    prefix_without_a_hash_tag_is_refused_clearly_and_a_key_needs_none,
    each_sample_is_sent_to_the_node_of_its_slot,
    migrating_slot_is_served_redirected_and_moved_completely,
    cluster_that_is_down_returns_an_error,
    replica_reads_after_readonly_and_sends_others_to_its_master,
);

fn first_word(reply: &Reply) -> String {
    match reply {
        Reply::Error(line) => {
            let line = String::from_utf8_lossy(line).into_owned();
            line.split(' ').next().unwrap_or_default().to_owned()
        }
        _ => String::new(),
    }
}

/// Returns true if the family has a key with the name of the prefix. With this key, the server
/// tracks the slot.
fn has_anchor(family: &Family) -> bool {
    family.name != "TAGS"
}

fn each_sample_has_the_same_effect_in_a_cluster_and_in_one_slot(family: &Family) {
    let mut stage = Stage::of(family);
    let cluster = Cluster::with(1, family.options());
    let mut c = cluster.nodes()[0].wire();
    let slot = ok!(c, "CLUSTER", "KEYSLOT", PREFIX);
    for line in family.samples {
        let alone = stage.alone(line);
        let state = family.refill(&mut c);
        let reply = c.expect_ok(&state.words(line));
        let Outcome { reply, data } = Outcome::of(&reply, &mut c);
        assert_eq!(reply, alone.reply, "{line}");
        let anchor = has_anchor(family).then_some(PREFIX.as_bytes());
        assert!(data.names().contains(&PREFIX.to_owned()), "{line}");
        let data = data.without(|key| Some(key) == anchor);
        data.assert_same(&alone.data, line);
        for key in ok!(c, "KEYS", "*").texts() {
            assert_eq!(ok!(c, "CLUSTER", "KEYSLOT", key), slot, "{line}: {key}");
        }
        // Read commands and failed commands create no keys.
        ok!(c, "FLUSHALL");
        let reply = c.call(&state.words(line));
        if reply.is_error() || !stage.writes(line) {
            assert_eq!(ok!(c, "DBSIZE"), int(0), "{line}: {reply:?}");
        }
    }
}

fn prefix_without_a_hash_tag_is_refused_clearly_and_a_key_needs_none(family: &Family) {
    let cluster = Cluster::with(1, family.options());
    let mut c = cluster.nodes()[0].wire();
    if !has_anchor(family) {
        let state = family.refill(&mut c);
        let all = |c: &mut Wire, state: &State| -> Vec<Reply> {
            let replies = state.replies(c, family.samples);
            replies.iter().map(|(_, reply)| steady(reply)).collect()
        };
        let replies = all(&mut c, &state);
        for key in ["tags", "a:b", "{x}tags", "{}"] {
            let state = family.fill(&mut c, key);
            assert_eq!(all(&mut c, &state), replies, "{key}");
        }
        return;
    }
    let mut state = family.refill(&mut c);
    ok!(c, "FLUSHALL");
    for prefix in ["f:", "", "{}:", "f}:{", "{f"] {
        state.prefix = prefix.to_owned();
        for line in family.samples {
            let error = c.expect_error(&state.words(line));
            let clear = error.starts_with("BADPREFIX ") && error.contains("hash tag");
            assert!(clear, "{prefix} {line}: {error}");
        }
    }
    assert_eq!(ok!(c, "DBSIZE"), int(0));
}

fn each_sample_is_sent_to_the_node_of_its_slot(family: &Family) {
    let cluster = Cluster::with(2, family.options());
    let owner = cluster.owner(PREFIX);
    let state = family.refill(&mut owner.wire());
    let other = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != owner.port());
    let other = other.expect("another node");
    let port = format!(":{}", owner.port());
    for line in family.samples {
        let error = other.wire().expect_error(&state.words(line));
        assert!(
            error.starts_with("MOVED ") && error.ends_with(&port),
            "{line}: {error}"
        );
    }
    assert_eq!(ok!(other.wire(), "DBSIZE"), int(0));
}

fn migrating_slot_is_served_redirected_and_moved_completely(family: &Family) {
    migrates(family, |key| i32::from(key == PREFIX));
    if has_anchor(family) {
        migrates(family, |key| i32::from(key != PREFIX));
    }
}

/// Moves the slot key by key, in this order.
fn migrates(family: &Family, order: impl Fn(&str) -> i32) {
    let cluster = Cluster::with(2, family.options());
    let from = cluster.owner(PREFIX);
    let to = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != from.port());
    let to = to.expect("another node");
    let (mut here, mut there) = (from.wire(), to.wire());
    let state = family.refill(&mut here);
    let told = reads(family, &state, &mut here);
    let data = steady_data(&mut here);
    let mut stage = Stage::of(family);
    let mut samples = family.samples.iter();
    let write = samples
        .find(|line| stage.writes(line))
        .expect("one that writes");
    let asked = |there: &mut Wire, line: &str| {
        ok!(there, "ASKING");
        there.call(&state.words(line))
    };

    cluster.begin_move(PREFIX, to);
    // All keys are still on this node, so reads are served.
    assert_eq!(reads(family, &state, &mut here), told);
    let slot = cluster.slot(PREFIX);
    let mut keys = ok!(here, "CLUSTER", "GETKEYSINSLOT", slot, 1000).texts();
    keys.sort_by_key(|key| order(key));
    let last = keys.len() - 1;
    for (number, key) in keys.iter().enumerate() {
        let moved = ok!(here, "MIGRATE", "127.0.0.1", to.port(), key, 0, 5000);
        assert_eq!(moved, simple("OK"));
        // While the keys are on both nodes, every reply must be correct, a redirect, or an error
        // that asks the client to try again.
        for (line, should) in &told {
            let mut reply = here.call(&state.words(line));
            if first_word(&reply) == "ASK" {
                reply = asked(&mut there, line);
            }
            let right = steady(&reply) == *should || first_word(&reply) == "TRYAGAIN";
            assert!(right, "{line} after {key}: {reply:?}");
        }
        for line in family.samples.iter().filter(|_| number < last) {
            let mut reply = here.call(&state.words(line));
            if first_word(&reply) == "ASK" {
                reply = asked(&mut there, line);
            }
            let read = told.iter().any(|(read, _)| read == line);
            let refused = first_word(&reply) == "TRYAGAIN";
            assert!(read || refused, "{line} after {key}: {reply:?}");
        }
    }
    // All keys have moved, but the target cannot know that before it owns the slot.
    for line in family.samples.iter().filter(|_| has_anchor(family)) {
        let reply = here.call(&state.words(line));
        assert_eq!(first_word(&reply), "ASK", "{line}");
        let reply = asked(&mut there, line);
        assert_eq!(first_word(&reply), "TRYAGAIN", "{line}");
    }
    assert_eq!(first_word(&here.call(&state.words(write))), "ASK");
    assert_eq!(
        ok!(here, "DBSIZE"),
        int(0),
        "no key stays on the old node of the slot"
    );
    cluster.finish_move(PREFIX, to);
    assert_eq!(first_word(&here.call(&state.words(write))), "MOVED");
    steady_data(&mut there).assert_same(&data, "moved");
    assert_eq!(reads(family, &state, &mut there), told);
    let alone = stage.alone(write);
    let reply = there.expect_ok(&state.words(write));
    assert_eq!(steady(&reply), alone.reply, "{write}");
}

fn cluster_that_is_down_returns_an_error(family: &Family) {
    let stage = Stage::of(family);
    let cluster = Cluster::with(1, family.options());
    let node = &cluster.nodes()[0];
    let mut c = node.wire();
    let state = family.refill(&mut c);
    let data = steady_data(&mut c);
    let (slot, other) = (cluster.slot(PREFIX), cluster.slot("another"));
    ok!(c, "CLUSTER", "DELSLOTS", other);
    until("the cluster is down", || {
        ok!(node.wire(), "CLUSTER", "INFO")
            .text()
            .contains("cluster_state:fail")
    });
    let all_say = |c: &mut Wire, error: &str| {
        let may_read = error.ends_with("only accepts read commands");
        for line in family.samples {
            let words = state.words(line);
            if may_read && !stage.writes(line) {
                until(line, || !c.call(&words).is_error());
            } else {
                assert_eq!(c.expect_error(&words), error, "{line}");
            }
        }
    };
    all_say(&mut c, "CLUSTERDOWN The cluster is down");
    ok!(c, "CONFIG", "SET", "cluster-allow-reads-when-down", "yes");
    all_say(
        &mut c,
        "CLUSTERDOWN The cluster is down and only accepts read commands",
    );
    ok!(c, "CONFIG", "SET", "cluster-require-full-coverage", "no");
    steady_data(&mut c).assert_same(&data, "refused");
    ok!(c, "FLUSHALL");
    ok!(c, "CLUSTER", "DELSLOTS", slot);
    all_say(&mut c, "CLUSTERDOWN Hash slot not served");
}

fn replica_reads_after_readonly_and_sends_others_to_its_master(family: &Family) {
    let stage = Stage::of(family);
    let cluster = Cluster::with(1, family.options());
    let node = &cluster.nodes()[0];
    let mut c = node.wire();
    let state = family.refill(&mut c);
    let replica = family.options().cluster_enabled().start();
    let mut r = replica.wire();
    let bus = ok!(c, "CONFIG", "GET", "cluster-port").pairs()[0].1.text();
    ok!(r, "CLUSTER", "MEET", "127.0.0.1", node.port(), bus);
    let id = ok!(c, "CLUSTER", "MYID").text();
    until("the replica knows its master", || {
        !r.call(&["CLUSTER", "REPLICATE", &id]).is_error()
    });
    node.wait_for_replica_offset(&replica);
    let here = format!(":{}", node.port());
    let read = state.words(family.reads[0]);
    until("it is the master's slot", || {
        let line = r.expect_error(&read);
        line.starts_with("MOVED ") && line.ends_with(&here)
    });
    ok!(r, "READONLY");
    assert_eq!(reads(family, &state, &mut r), reads(family, &state, &mut c));
    for line in family.samples {
        let reply = r.call(&state.words(line));
        // Redis 8.6 rejects the command on a replica before it reaches the module.
        let sent = ["MOVED", "READONLY"].contains(&&*first_word(&reply));
        assert_eq!(sent, stage.writes(line), "{line}: {reply:?}");
    }
    assert_eq!(replica.digest(), node.digest());
}
