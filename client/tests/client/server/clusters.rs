//! Tests a cluster: each call must reach the server that owns its slot.

use std::thread;
use std::time::Duration;

use crawlspace_client::dedupe::{Added, Adding, Index};
use crawlspace_client::frontier::{Frontier, Next, Wait};
use crawlspace_client::tags::{Kind, TagSpace};
use crawlspace_client::{Ask, AsyncServer, Batch, Call, Code, Server};
use redis_tests::{Cluster, Options, ok, sha256_of, until, with};

use crate::server::{command, run};

fn prefix(number: usize) -> String {
    format!("{{coll-{number}}}:")
}

fn record(hash: &str) -> Added<'_> {
    Added::new(
        hash.as_bytes(),
        0,
        b"20240501120000",
        b"https://example.com/",
        5120,
    )
}

#[test]
fn calls_are_sent_to_the_owner_of_their_keys() {
    let cluster = Cluster::start(3);
    let server = Server::open(&cluster.url()).unwrap();
    let hash = sha256_of(1);
    for number in 0..40 {
        let index = Index::on(&server, prefix(number));
        let new = index.add(b"crawl", &Adding::default(), &[record(&hash)]);
        assert_eq!(new.unwrap(), 1);
        assert_eq!(index.commit(b"crawl").unwrap().new, 1);
        assert!(index.lookup(None, &[hash.as_bytes()]).unwrap()[0].is_some());
        let frontier = Frontier::on(&server, prefix(number));
        frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
        assert_eq!(frontier.next(&Next::default()).unwrap().len(), 1);
        let space = TagSpace::on(&server, format!("tags-{number}"));
        assert_eq!(space.add(Kind::Tag, b"coll:1", &[b"org:1"]).unwrap(), 1);
    }
    for node in cluster.nodes() {
        assert!(ok!(node.wire(), "DBSIZE").int() > 0, "a server has nothing");
    }
    // Scripts are routed by their first key, other commands by an explicit key. Commands without a
    // key are sent to any server.
    let mut eval = command("EVAL");
    eval.arg("return redis.call('EXISTS', KEYS[1])")
        .arg(1)
        .arg("tags-7");
    assert_eq!(server.ask(Call::<u64>::new(eval)).unwrap(), 1);
    let usage = Call::<u64>::new(command("MEMORY USAGE tags-7")).key(b"tags-7");
    assert!(server.ask(usage).unwrap() > 0);
    assert_eq!(
        server.ask(Call::<String>::new(command("PING"))).unwrap(),
        "PONG"
    );
    let error = Index::on(&server, "no-tag:").stats().unwrap_err();
    assert_eq!(error.code(), Some(Code::BadPrefix), "{error}");
}

#[test]
fn async_calls_are_sent_to_the_owner_of_their_keys() {
    let cluster = Cluster::start(3);
    run(async {
        let server = AsyncServer::open(&cluster.url()).await.unwrap();
        let tasks = (0..40).map(|number| {
            let index = Index::on(&server, prefix(number));
            tokio::spawn(async move {
                let hash = sha256_of(1);
                let adding = Adding::default();
                index
                    .add(b"crawl", &adding, &[record(&hash)])
                    .await
                    .unwrap();
                index.commit(b"crawl").await.unwrap().new
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            assert_eq!(task.await.unwrap(), 1);
        }
    });
}

#[test]
fn batch_is_split_and_its_replies_keep_their_positions() {
    let cluster = Cluster::start(3);
    let server = Server::open(&cluster.url()).unwrap();
    let batch = Batch::new();
    let set = |number| command(&format!("SET key-{number} {number}"));
    let get = |number| command(&format!("GET key-{number}"));
    let calls: Vec<_> = (0..300_u64)
        .map(|number| {
            let stored = batch.ask(Call::<()>::new(set(number)));
            (stored, batch.ask(Call::<u64>::new(get(number))))
        })
        .collect();
    batch.send(&server).unwrap();
    for (number, (stored, got)) in calls.into_iter().enumerate() {
        stored.take().unwrap();
        assert_eq!(got.take().unwrap(), number as u64);
    }
    run(async {
        let server = AsyncServer::open(&cluster.url()).await.unwrap();
        let batch = Batch::new();
        let calls: Vec<_> = (0..300_u64)
            .map(|number| batch.ask(Call::<u64>::new(get(number))))
            .collect();
        batch.send_async(&server).await.unwrap();
        for (number, got) in calls.into_iter().enumerate() {
            assert_eq!(got.take().unwrap(), number as u64);
        }
    });
}

#[test]
fn moved_slot_is_followed() {
    let cluster = Cluster::start(3);
    let server = Server::open(&cluster.url()).unwrap();
    let asynchronous = run(AsyncServer::open(&cluster.url())).unwrap();
    let hash = sha256_of(1);
    let index = Index::on(&server, prefix(1));
    index
        .add(b"crawl", &Adding::default(), &[record(&hash)])
        .unwrap();
    for _ in 0..4 {
        let owner = cluster.owner(prefix(1)).port();
        let other = cluster.nodes().iter().find(|node| node.port() != owner);
        cluster.move_slot(prefix(1), other.unwrap());
        assert_eq!(index.crawl_stats(b"crawl").unwrap().hashes, 1);
        let batch = Batch::new();
        let calls: Vec<_> = (0..5)
            .map(|number| Index::on(&batch, prefix(number)).stats())
            .collect();
        batch.send(&server).unwrap();
        let crawls: Vec<_> = calls.into_iter().map(|call| call.take().unwrap()).collect();
        assert_eq!(crawls[1].uncommitted, 1);
        let stats = run(Index::on(&asynchronous, prefix(1)).crawl_stats(b"crawl"));
        assert_eq!(stats.unwrap().hashes, 1);
    }
}

#[test]
fn migrating_slot_is_asked_at_the_right_server() {
    let cluster = Cluster::start(3);
    let server = Server::open(&cluster.url()).unwrap();
    let asynchronous = run(AsyncServer::open(&cluster.url())).unwrap();
    let hash = sha256_of(1);
    let index = Index::on(&server, prefix(1));
    index
        .add(b"crawl", &Adding::default(), &[record(&hash)])
        .unwrap();
    index.commit(b"crawl").unwrap();
    let owner = cluster.owner(prefix(1)).port();
    let to = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != owner)
        .unwrap();
    let found = |index: &Index<Server>| {
        index
            .lookup(None, &[hash.as_bytes()])
            .map(|found| found[0].is_some())
    };
    cluster.begin_move(prefix(1), to);
    assert!(found(&index).unwrap(), "nothing has left");
    cluster.move_keys(prefix(1), to);
    // Before the slot itself has moved, the server does not know that all of its keys have arrived.
    let hasty = Server::options(&cluster.url()).retries(1).open().unwrap();
    let refused = found(&Index::on(&hasty, prefix(1))).unwrap_err();
    assert_eq!(refused.code(), Some(Code::TryAgain), "{refused}");
    let patient = thread::spawn({
        let (index, hash) = (index.clone(), hash.clone());
        move || index.lookup(None, &[hash.as_bytes()]).unwrap()[0].is_some()
    });
    cluster.finish_move(prefix(1), to);
    assert!(
        patient.join().unwrap(),
        "it is asked for at the other server"
    );
    let lookup = |index: &Index<Batch>| index.lookup(None, &[hash.as_bytes()]);
    let batch = Batch::new();
    let calls = (0..4).map(|number| lookup(&Index::on(&batch, prefix(number))));
    let calls: Vec<_> = calls.collect();
    batch.send(&server).unwrap();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.take().unwrap()[0].is_some(), number == 1, "{number}");
    }
    run(async {
        let batch = Batch::new();
        let two = [(); 2].map(|()| lookup(&Index::on(&batch, prefix(1))));
        batch.send_async(&asynchronous).await.unwrap();
        for one in two {
            assert!(one.take().unwrap()[0].is_some());
        }
    });
    assert_eq!(index.stats().unwrap().hashes, 1);
}

#[test]
fn waiting_client_follows_its_slot() {
    let cluster = Cluster::start(2);
    let server = Server::options(&cluster.url())
        .connections(2)
        .open()
        .unwrap();
    let frontier = Frontier::on(&server, prefix(1));
    frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    let lease = frontier.next(&Next::default()).unwrap().remove(0);
    let waiting = thread::spawn({
        let frontier = frontier.clone();
        move || {
            let wait = Wait::UpTo(Duration::from_secs(60));
            frontier.next(&with!(Next, wait))
        }
    });
    let owner = cluster.owner(prefix(1));
    until("it waits", || owner.info_number("blocked_clients") == 1);
    let to = cluster
        .nodes()
        .iter()
        .find(|node| node.port() != owner.port())
        .unwrap();
    cluster.move_slot(prefix(1), to);
    let now = crawlspace_client::frontier::Pause::For(Duration::ZERO);
    let nothing = crawlspace_client::frontier::Fetched::Nothing;
    frontier.release(&lease, &now, &nothing).unwrap();
    let got = waiting.join().unwrap();
    match got {
        Ok(leases) => assert_eq!(leases[0].chg, b"a"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn unreachable_server_fails_only_its_own_calls() {
    let mut cluster = Cluster::with(3, Options::new().aof_unsynced(true));
    let server = Server::options(&cluster.url()).retries(0).open().unwrap();
    for number in 0..30 {
        server
            .ask(Call::<()>::new(command(&format!("SET key-{number} 1"))))
            .unwrap();
    }
    let away = cluster.nodes()[2].port();
    let is_away =
        |cluster: &Cluster, number: u64| cluster.owner(format!("key-{number}")).port() == away;
    let of_others: Vec<bool> = (0..30).map(|number| !is_away(&cluster, number)).collect();
    assert!(of_others.contains(&true) && of_others.contains(&false));
    cluster.node_mut(2).kill9();
    let batch = Batch::new();
    let calls: Vec<_> = (0..30)
        .map(|number| batch.ask(Call::<u64>::new(command(&format!("GET key-{number}")))))
        .collect();
    assert!(batch.send(&server).unwrap_err().is_connection());
    for (call, is_there) in calls.into_iter().zip(of_others) {
        match call.take() {
            Ok(one) => assert!(is_there && one == 1),
            Err(error) => assert!(!is_there && error.is_connection(), "{error}"),
        }
    }
    cluster.node_mut(2).restart();
    cluster.wait_until_whole();
    for number in 0..30 {
        let get = Call::<u64>::new(command(&format!("GET key-{number}"))).repeatable();
        assert_eq!(server.ask(get).unwrap(), 1);
    }
}

#[test]
fn failover_to_a_replica_is_followed() {
    let cluster = Cluster::start(3);
    let replica = Options::new()
        .cluster_enabled()
        .args(&["--cluster-announce-ip", "127.0.0.1"])
        .start();
    let first = &cluster.nodes()[0];
    let bus = ok!(first.wire(), "CONFIG", "GET", "cluster-port").pairs()[0]
        .1
        .text();
    replica
        .wire()
        .ok_line(format!("CLUSTER MEET 127.0.0.1 {} {bus}", first.port()));
    let id = ok!(first.wire(), "CLUSTER", "MYID").text();
    until("the replica knows its master", || {
        !redis_tests::cmd!(replica.wire(), "CLUSTER", "REPLICATE", &id).is_error()
    });
    until("the replica is in step", || {
        replica.info("master_link_status").as_deref() == Some("up")
    });
    let key = (0..)
        .map(|number| format!("key-{number}"))
        .find(|key| cluster.owner(key).port() == first.port())
        .unwrap();
    let server = Server::open(&cluster.url()).unwrap();
    let incr = || Call::<u64>::new(command(&format!("INCR {key}")));
    assert_eq!(server.ask(incr()).unwrap(), 1);
    until("the replica knows whose slots it is to take over", || {
        ok!(replica.wire(), "CLUSTER", "SLOTS").items().len() == 3
    });
    until("the replica has what its master has", || {
        replica.info("slave_repl_offset") == first.info("master_repl_offset")
    });
    // `TAKEOVER` needs no election, which could fail and would then have to be repeated.
    ok!(replica.wire(), "CLUSTER", "FAILOVER", "TAKEOVER");
    until("the old master knows it", || {
        first.info("role").as_deref() == Some("slave")
    });
    assert_eq!(server.ask(incr()).unwrap(), 2);
    assert_eq!(server.ask(incr()).unwrap(), 3);
}

#[test]
fn user_without_info_finds_other_servers_by_redirections() {
    let cluster = Cluster::start(3);
    for node in cluster.nodes() {
        let mut c = node.wire();
        c.ok_line("ACL SETUSER worker on >secret ~* +get +set");
    }
    let url = format!(
        "redis://worker:secret@127.0.0.1:{}/",
        cluster.nodes()[0].port()
    );
    let server = Server::open(&url).unwrap();
    for number in 0..60 {
        let set = Call::<()>::new(command(&format!("SET key-{number} {number}")));
        server.ask(set).unwrap();
    }
    let batch = Batch::new();
    let calls: Vec<_> = (0..60)
        .map(|number| batch.ask(Call::<u64>::new(command(&format!("GET key-{number}")))))
        .collect();
    batch.send(&server).unwrap();
    for (number, call) in calls.into_iter().enumerate() {
        assert_eq!(call.take().unwrap(), number as u64);
    }
}
