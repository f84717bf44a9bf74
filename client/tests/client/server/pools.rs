//! Tests a single server with many threads.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use crawlspace_client::frontier::{Frontier, Next, Wait};
use crawlspace_client::{Ask, Call, Server};
use redis_tests::{Server as Redis, assert_lacks, ok, until, with};

use crate::server::command;

fn connections(redis: &Redis) -> usize {
    let clients = ok!(redis.wire(), "CLIENT", "LIST").text();
    let over_tcp = |line: &&str| line.contains(" addr=127.0.0.1:");
    clients.lines().filter(over_tcp).count()
}

fn incr() -> Call<u64> {
    Call::new(command("INCR n"))
}

#[test]
fn threads_share_the_configured_number_of_connections() {
    let redis = Redis::start();
    for limit in [1, 3] {
        let before = connections(&redis);
        let server = Server::options(&redis.url()).connections(limit);
        let server = server.open().unwrap();
        let together = Barrier::new(8);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    together.wait();
                    for _ in 0..200 {
                        server.ask(incr()).unwrap();
                    }
                });
            }
        });
        assert!(connections(&redis) - before <= limit);
        drop(server);
        until("they are closed", || connections(&redis) == before);
    }
    let n = ok!(redis.wire(), "GET", "n");
    assert_eq!(n.text(), "3200");
}

#[test]
fn second_connection_serves_calls_during_a_wait() {
    let redis = Redis::start();
    let server = Server::options(&redis.url()).connections(2).open().unwrap();
    let frontier = Frontier::on(&server, "{f}:");
    let next = with!(Next, wait: Wait::ForEver);
    let waiting = thread::spawn({
        let frontier = frontier.clone();
        move || frontier.next(&next)
    });
    until("it waits", || redis.info_number("blocked_clients") == 1);
    frontier.add(b"crawl", None, &[(b"a", 0)]).unwrap();
    assert_eq!(waiting.join().unwrap().unwrap()[0].chg, b"a");
}

#[test]
fn silent_server_is_given_up_after_the_timeout() {
    let redis = Redis::start();
    let options = Server::options(&redis.url()).timeout(Duration::from_millis(50));
    let server = options.retries(0).open().unwrap();
    let begun = Instant::now();
    let sleep = || Call::<String>::new(command("DEBUG SLEEP 1"));
    let error = server.ask(sleep()).unwrap_err();
    assert!(error.is_connection(), "{error}");
    assert!(begun.elapsed() < Duration::from_secs(1));
    // A job may take longer than the timeout of fast calls.
    assert_eq!(server.ask(sleep().waits()).unwrap(), "OK");
}

#[test]
fn closed_connection_is_replaced() {
    let redis = Redis::start();
    let server = Server::open(&redis.url()).unwrap();
    assert_eq!(server.ask(incr()).unwrap(), 1);
    ok!(redis.wire(), "CLIENT", "KILL", "TYPE", "normal");
    assert_eq!(server.ask(incr().repeatable()).unwrap(), 2);
}

#[test]
fn database_and_password_of_the_url_are_used_and_not_shown() {
    let redis = Redis::start();
    let mut c = redis.wire();
    c.ok_line("ACL SETUSER worker on >se@cret ~* +@all");
    let url = format!("redis://worker:se%40cret@127.0.0.1:{}/3", redis.port());
    let server = Server::open(&url).unwrap();
    server.ask(incr()).unwrap();
    ok!(c, "SELECT", 3);
    assert_eq!(ok!(c, "GET", "n").text(), "1");
    assert!(!format!("{server:?}").contains("cret"));

    let wrong = format!("redis://worker:wr0ng@127.0.0.1:{}/", redis.port());
    let error = Server::open(&wrong).unwrap_err();
    assert_lacks(&error, "wr0ng");
    assert!(!format!("{error:?}").contains("wr0ng"), "{error:?}");
    let error = Server::open("redis://a:s3cret@127.0.0.1:1/").unwrap_err();
    assert_lacks(&error, "s3cret");
    for nonsense in ["", "http://x/", "redis://x:y:z/"] {
        Server::open(nonsense).unwrap_err();
    }
}

#[test]
fn unix_socket_works_as_a_server() {
    let redis = Redis::start();
    let url = format!("unix://{}", redis.unix_path().display());
    assert_eq!(Server::open(&url).unwrap().ask(incr()).unwrap(), 1);
}
