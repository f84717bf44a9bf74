//! Tests which calls the client retries after a broken connection.

use crawlspace_client::dedupe::{Added, Adding, Index, Sequence};
use crawlspace_client::frontier::Frontier;
use crawlspace_client::{Ask, AsyncServer, Batch, Call, Server};
use redis_tests::{Server as Redis, assert_starts, but, ok, with};

use crate::server::vandal::{Cut, Vandal};
use crate::server::{command, run};

const BOTH: [Cut; 2] = [Cut::Before, Cut::After];

fn incr() -> Call<u64> {
    Call::new(command("INCR n"))
}

fn get() -> Call<Option<u64>> {
    Call::<Option<u64>>::new(command("GET n"))
}

#[test]
fn repeatable_call_is_retried() {
    for cut in BOTH {
        let redis = Redis::start();
        let vandal = Vandal::of(&redis, "INCR", cut, 3);
        let server = Server::open(&vandal.url()).unwrap();
        let n = server.ask(incr().repeatable()).unwrap();
        assert!(vandal.is_done());
        assert_eq!(vandal.seen(), 4, "{cut:?}");
        // The caller declares that a retry is safe.
        assert_eq!(n, if cut == Cut::After { 4 } else { 1 }, "{cut:?}");
    }
}

#[test]
fn unrepeatable_call_is_sent_once() {
    for cut in BOTH {
        let redis = Redis::start();
        let vandal = Vandal::of(&redis, "INCR", cut, 1);
        let server = Server::open(&vandal.url()).unwrap();
        let error = server.ask(incr()).unwrap_err();
        assert!(error.is_connection(), "{error}");
        assert_eq!((error.code(), error.word()), (None, None), "{error}");
        let place = format!("INCR at {}: ", vandal.url());
        assert_starts(&error, &place);
        assert_eq!(vandal.seen(), 1);
        let counted = if cut == Cut::After { Some(1) } else { None };
        assert_eq!(server.ask(get()).unwrap(), counted, "the next call works");
    }
}

#[test]
fn async_calls_are_retried_in_the_same_way() {
    for (cut, waits) in BOTH.into_iter().flat_map(|cut| [(cut, false), (cut, true)]) {
        let redis = Redis::start();
        let as_said = |call: Call<u64>| if waits { call.waits() } else { call };
        let vandal = Vandal::of(&redis, "INCR", cut, 1);
        run(async {
            let server = AsyncServer::open(&vandal.url()).await.unwrap();
            let error = server.ask(as_said(incr())).await.unwrap_err();
            assert!(error.is_connection(), "{error}");
            assert_eq!(vandal.seen(), 1);
            server.ask(get()).await.unwrap();
        });
        let vandal = Vandal::of(&redis, "INCR", cut, 3);
        run(async {
            let server = AsyncServer::open(&vandal.url()).await.unwrap();
            server.ask(as_said(incr()).repeatable()).await.unwrap();
        });
        assert_eq!(vandal.seen(), 4);
    }
}

#[test]
fn retries_end() {
    let redis = Redis::start();
    let vandal = Vandal::of(&redis, "INCR", Cut::Before, u32::MAX);
    let server = Server::options(&vandal.url()).retries(2).open().unwrap();
    let error = server.ask(incr().repeatable()).unwrap_err();
    assert!(error.is_connection(), "{error}");
    assert_eq!(vandal.seen(), 3);
}

#[test]
fn calls_wait_for_a_restarting_server_and_lose_nothing() {
    let mut redis = redis_tests::Options::new().aof(true).start();
    let server = Server::options(&redis.url()).retries(10).open().unwrap();
    server.ask(incr()).unwrap();
    redis.kill9();
    let waiting = std::thread::spawn({
        let server = server.clone();
        move || server.ask(get().repeatable())
    });
    redis.restart();
    assert_eq!(waiting.join().unwrap().unwrap(), Some(1));
}

#[test]
fn unsent_calls_are_always_retried() {
    let mut redis = redis_tests::Options::new().aof(true).start();
    let server = Server::options(&redis.url()).retries(10).open().unwrap();
    redis.kill9();
    // This call detects the broken connection, so the server has not executed the call.
    server.ask(get()).unwrap_err();
    let waiting = std::thread::spawn({
        let server = server.clone();
        move || server.ask(incr())
    });
    redis.restart();
    assert_eq!(waiting.join().unwrap().unwrap(), 1);
}

#[test]
fn batch_is_retried_only_if_all_its_calls_are_repeatable() {
    for cut in BOTH {
        let redis = Redis::start();
        let vandal = Vandal::of(&redis, "INCR", cut, 1);
        let server = Server::open(&vandal.url()).unwrap();
        let batch = Batch::new();
        let (n, value) = (batch.ask(incr()), batch.ask(get().repeatable()));
        let error = batch.send(&server).unwrap_err();
        assert!(error.is_connection(), "{error}");
        assert!(n.take().unwrap_err().is_connection());
        assert!(value.take().unwrap_err().is_connection());
        assert_eq!(vandal.seen(), 1);

        let vandal = Vandal::of(&redis, "INCR", cut, 2);
        let server = Server::open(&vandal.url()).unwrap();
        let (n, value) = (
            batch.ask(incr().repeatable()),
            batch.ask(get().repeatable()),
        );
        batch.send(&server).unwrap();
        assert_eq!(Some(n.take().unwrap()), value.take().unwrap());
        assert_eq!(vandal.seen(), 3);
    }
}

#[test]
fn records_with_a_sequence_count_once_and_others_are_not_retried() {
    let redis = Redis::start();
    let record = Added::new(
        b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A",
        0,
        b"20240501120000",
        b"https://example.com/",
        5120,
    );
    let vandal = Vandal::of(&redis, "DEDUPE.ADD", Cut::After, 1);
    let index = Index::open(&vandal.url(), "").unwrap();
    let alone = index.add(b"crawl", &Adding::default(), &[record]);
    assert!(alone.unwrap_err().is_connection());
    assert_eq!(vandal.seen(), 1);

    let vandal = Vandal::of(&redis, "DEDUPE.ADD", Cut::After, 2);
    let index = Index::open(&vandal.url(), "").unwrap();
    let adding = with!(Adding, sequence: Some(Sequence { writer: b"w", number: 1 }));
    let other = but!(record, url: b"https://example.com/other");
    assert_eq!(index.add(b"crawl", &adding, &[other]).unwrap(), 0);
    assert_eq!(vandal.seen(), 3);
    assert_eq!(index.crawl_stats(b"crawl").unwrap().total_urls, 2);
}

#[test]
fn move_of_uris_is_not_retried() {
    let redis = Redis::start();
    let vandal = Vandal::of(&redis, "CHG.MOVE", Cut::After, 1);
    let frontier = Frontier::open(&vandal.url(), "").unwrap();
    frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    let error = frontier.move_uris(b"a", b"b").unwrap_err();
    assert!(error.is_connection(), "{error}");
    assert_eq!(vandal.seen(), 1);
    let left = ok!(redis.wire(), "HGET", "CHG:b", "c");
    assert_eq!(left.text(), "1");
}
