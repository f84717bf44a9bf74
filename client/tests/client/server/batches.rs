//! Tests batches of calls.

use crawlspace_client::dedupe::{Added, Adding, Index};
use crawlspace_client::tags::{Kind, TagSpace};
use crawlspace_client::{Ask, AsyncServer, Batch, Call, Code, Server};
use redis_tests::{Server as Redis, assert_contains, sha256_of};

use crate::server::{command, run};

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
fn each_call_gets_its_own_reply() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let batch = Batch::new();
    let (index, space) = (Index::on(&batch, "{i}:"), TagSpace::on(&batch, "tags"));
    let hashes: Vec<String> = (0..50).map(sha256_of).collect();
    let adding = Adding::default();
    let file = index.wacz_open(b"crawl", b"a.wacz");
    let added: Vec<_> = hashes
        .iter()
        .map(|hash| index.add(b"crawl", &adding, &[record(hash)]))
        .collect();
    let refused = index.add(b"crawl", &adding, &[record("short")]);
    let tags = space.add(Kind::Tag, b"coll:1", &[b"org:1", b"private"]);
    let committed = index.commit(b"crawl");
    let none = index.lookup(None, &[]);
    let known = index.lookup(None, &[hashes[7].as_bytes()]);
    assert_eq!(batch.len(), 55, "calls that need no server are not sent");
    assert_eq!(none.take().unwrap(), []);

    batch.send(&server).unwrap();
    assert!(batch.is_empty());
    assert_eq!(file.take().unwrap(), 0);
    for one in added {
        assert_eq!(one.take().unwrap(), 1);
    }
    assert_eq!(refused.take().unwrap_err().code(), Some(Code::BadHash));
    assert_eq!(tags.take().unwrap(), 2);
    assert_eq!(committed.take().unwrap().new, 50);
    let known = known.take().unwrap();
    assert_eq!(known[0].as_ref().unwrap().crawl, b"crawl");
}

#[test]
fn empty_and_unsent_batches_are_handled() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let batch = Batch::new();
    batch.send(&server).unwrap();
    let never = Index::on(&batch, "").stats();
    let error = never.take().unwrap_err();
    assert_contains(&error, "not been sent");
    assert_eq!(error.code(), None);
    // The call is still in the batch, although its caller no longer waits for it.
    batch.send(&server).unwrap();
}

#[test]
fn async_batch_is_sent_when_it_is_awaited() {
    let redis = Redis::start();
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let batch = Batch::new();
        let calls: Vec<_> = (0..1000)
            .map(|n| batch.ask(Call::<u64>::new(command(&format!("ECHO {n}")))))
            .collect();
        batch.send_async(&server).await.unwrap();
        for (n, call) in calls.into_iter().enumerate() {
            assert_eq!(call.take().unwrap(), n as u64);
        }
    });
}

#[test]
fn many_threads_can_send_batches() {
    let redis = Redis::start();
    let server = Server::options(&redis.url()).connections(2).open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..50 {
                    let batch = Batch::new();
                    let calls: Vec<_> = (0..20)
                        .map(|n| {
                            let text = format!("{thread}.{round}.{n}");
                            let echo = Call::<String>::new(command(&format!("ECHO {text}")));
                            (text, batch.ask(echo))
                        })
                        .collect();
                    batch.send(server).unwrap();
                    for (text, call) in calls {
                        assert_eq!(call.take().unwrap(), text);
                    }
                }
            });
        }
    });
}

#[test]
fn reply_of_the_wrong_type_fails_only_that_call() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    let batch = Batch::new();
    let number = batch.ask(Call::<u64>::new(command("ECHO words")));
    let text = batch.ask(Call::<String>::new(command("ECHO words")));
    batch.send(&server).unwrap();
    let error = number.take().unwrap_err();
    assert!(!error.is_connection(), "{error}");
    assert_eq!(error.word(), None);
    assert_eq!(text.take().unwrap(), "words");
}
