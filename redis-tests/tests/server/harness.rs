//! Tests of the harness itself: servers start, are killed, restart, and do not share data.

use redis_tests::{
    Cluster, Crawl, Options, Server, array, assert_replicated, bulk, err, fill_crawl, int, nil, ok,
    run,
};

fn plain() -> Server {
    Options::new().no_module().start()
}

#[test]
fn two_servers_do_not_share_data() {
    let (a, b) = (plain(), plain());
    ok!(a.wire(), "SET", "k", "of a");
    assert_eq!(ok!(b.wire(), "GET", "k"), nil());
    assert_ne!(a.digest(), b.digest());
    assert_ne!(a.port(), b.port());
    assert_ne!(a.pid(), b.pid());
}

#[test]
fn append_only_file_survives_kill9() {
    for preamble in [true, false] {
        let mut server = Options::new().no_module().aof(preamble).start();
        ok!(server.wire(), "SET", "k", [0u8, 13, 10, 255]);
        server.kill9();
        assert!(!server.is_alive());
        server.restart();
        assert_eq!(ok!(server.wire(), "GET", "k"), bulk([0u8, 13, 10, 255]));
    }
}

#[test]
fn rdb_file_survives_a_shutdown() {
    let mut server = Options::new().no_module().rdb().start();
    ok!(server.wire(), "SET", "k", "v");
    server.shutdown();
    server.restart();
    assert_eq!(ok!(server.wire(), "GET", "k"), bulk("v"));
}

#[test]
fn replica_catches_up() {
    let master = plain();
    let replica = Options::new().no_module().replica_of(&master).start();
    ok!(master.wire(), "SET", "k", "v");
    assert_replicated(&master, &replica);
    assert!(err!(replica.wire(), "SET", "k", "w").starts_with("READONLY "));
}

#[test]
fn snapshot_lists_differences() {
    let server = plain();
    let mut c = server.wire();
    ok!(c, "HSET", "p:h", "b", "2", "a", "1");
    ok!(c, "RPUSH", "p:l", "x");
    ok!(c, "SADD", "q:s", "m");
    let before = server.snapshot();
    ok!(c, "HSET", "p:h", "b", "3");
    let after = server.snapshot();
    assert_eq!(
        before.differences(&after),
        ["- p:h hash b = 2", "+ p:h hash b = 3"]
    );
    assert_eq!(after.under("p:").names(), ["h", "l"]);
    assert_eq!(server.snapshot_of(1).names(), [""; 0]);
}

#[test]
fn wire_shows_resp3_as_it_is() {
    let server = plain();
    let (mut two, mut three) = (server.wire(), server.wire3());
    ok!(two, "HSET", "h", "f", "v");
    let (flat, map) = (ok!(two, "HGETALL", "h"), ok!(three, "HGETALL", "h"));
    assert_eq!(flat, array([bulk("f"), bulk("v")]));
    assert_ne!(flat, map);
    assert_eq!(map.as_resp2(), flat);
    assert_eq!(map.field("f"), bulk("v"));
    assert_eq!(
        err!(two, "GET"),
        "ERR wrong number of arguments for 'get' command"
    );
}

#[test]
fn client_crate_and_wire_agree() {
    let server = plain();
    let mut conn = server.conn();
    run(&mut conn, &["SET", "k", "7"]).unwrap();
    let error = run(&mut conn, &["LPUSH", "k", "x"]).unwrap_err();
    assert_eq!(
        redis_tests::error_line(&error),
        err!(server.wire(), "LPUSH", "k", "x")
    );
    run(&mut server.conn3(), &["HGETALL", "h"]).unwrap();
    let error = run(
        &mut conn,
        &[
            "EVAL",
            "return redis.error_reply('NOCRAWL no such crawl')",
            "0",
        ],
    );
    assert_eq!(
        redis_tests::error_line(&error.unwrap_err()),
        "NOCRAWL no such crawl"
    );
}

#[test]
fn big_crawl_is_written_in_pipelines() {
    let server = plain();
    let mut c = server.wire();
    let crawl = Crawl::of("p:", "big", 0..20_000);
    fill_crawl(&mut c, &crawl);
    assert_eq!(ok!(c, "HLEN", "p:h:big"), int(20_000));
    assert_eq!(ok!(c, "HGET", "p:h:big:counts", "totalUrls"), bulk("20000"));
}

#[test]
fn cluster_node_starts() {
    let node = Options::new().no_module().cluster_enabled().start();
    ok!(node.wire(), "CLUSTER", "ADDSLOTSRANGE", 0, 16383);
    assert_eq!(node.info("cluster_enabled").as_deref(), Some("1"));
}

#[test]
fn cluster_shares_the_slots_and_moves_one() {
    let cluster = Cluster::with(3, Options::new().no_module());
    let keys = ["a", "b", "c", "{tag}:1", "\r\n"];
    for key in keys {
        ok!(cluster.owner(key).wire(), "SET", key, "v");
    }
    let of_three = cluster
        .nodes()
        .iter()
        .map(|node| ok!(node.wire(), "DBSIZE").int());
    assert_eq!(of_three.sum::<i64>(), keys.len() as i64);

    let from = cluster.owner("{tag}:1");
    let to = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != from.port())
        .unwrap();
    cluster.move_slot("{tag}:1", to);
    assert_eq!(cluster.owner("{tag}:2").port(), to.port());
    assert_eq!(ok!(to.wire(), "GET", "{tag}:1"), bulk("v"));
    assert!(err!(from.wire(), "GET", "{tag}:1").starts_with("MOVED "));
}
