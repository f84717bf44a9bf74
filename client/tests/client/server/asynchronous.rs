//! Tests the async client.

use std::time::Duration;

use crawlspace_client::dedupe::Index;
use crawlspace_client::frontier::{Frontier, Next, Pause, Wait};
use crawlspace_client::{Ask, AsyncServer, Call};
use redis_tests::{Server as Redis, ok, until, with};

use crate::server::{command, run};

/// Counts the TCP connections of the server; the test harness uses a Unix socket.
fn connections(redis: &Redis) -> usize {
    let clients = ok!(redis.wire(), "CLIENT", "LIST").text();
    clients
        .lines()
        .filter(|line| line.contains(" addr=127.0.0.1:"))
        .count()
}

fn up_to(time: Duration) -> Next {
    with!(Next, wait: Wait::UpTo(time))
}

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn fast_calls_share_a_connection() {
    let redis = Redis::start();
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let calls = (0..500).map(|n| {
            let server = server.clone();
            tokio::spawn(async move {
                let echo = Call::<u64>::new(command(&format!("ECHO {n}")));
                assert_eq!(server.ask(echo).await.unwrap(), n);
            })
        });
        for call in calls.collect::<Vec<_>>() {
            call.await.unwrap();
        }
        assert_eq!(connections(&redis), 1);
    });
}

#[test]
fn blocking_call_delays_no_other_and_its_connection_is_reused() {
    let redis = Redis::start();
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let frontier = Frontier::on(&server, "{f}:");
        let waiting = |number: usize| {
            let frontier = frontier.clone();
            let task = tokio::spawn(async move { frontier.next(&up_to(MINUTE)).await });
            until("they wait", || {
                redis.info_number("blocked_clients") == number as i64
            });
            task
        };
        let waiting = [waiting(1), waiting(2), waiting(3)];
        frontier
            .add(b"crawl", None, &[(b"a", 0), (b"b", 0), (b"c", 0)])
            .await
            .unwrap();
        for task in waiting {
            assert_eq!(task.await.unwrap().unwrap().len(), 1);
        }
        assert_eq!(connections(&redis), 4);
        for _ in 0..10 {
            frontier.check().await.unwrap();
        }
        assert_eq!(connections(&redis), 4);
    });
}

#[test]
fn concurrent_waits_are_limited() {
    let redis = Redis::start();
    run(async {
        let options = AsyncServer::options(&redis.url()).connections(2);
        let server = options.open_async().await.unwrap();
        let checks = (0..20).map(|_| {
            let index = Index::on(&server, "");
            tokio::spawn(async move { index.check().await })
        });
        for check in checks.collect::<Vec<_>>() {
            assert!(check.await.unwrap().unwrap().ok);
        }
        assert!(connections(&redis) <= 3, "{}", connections(&redis));
    });
}

#[test]
fn dropped_wait_closes_its_connection() {
    let redis = Redis::start();
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let frontier = Frontier::on(&server, "{f}:");
        let waiting = tokio::spawn({
            let frontier = frontier.clone();
            async move { frontier.next(&up_to(MINUTE)).await }
        });
        until("it waits", || redis.info_number("blocked_clients") == 1);
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        until("the server knows", || {
            redis.info_number("blocked_clients") == 0
        });

        // The server leases a new group to a live caller, and no caller gets the reply to another
        // caller's call.
        frontier.add(b"crawl", None, &[(b"a", 0)]).await.unwrap();
        let lease = frontier.next(&up_to(MINUTE)).await.unwrap().remove(0);
        assert_eq!(&lease.chg, b"a");
        let now = Pause::For(Duration::ZERO);
        frontier.release(&lease, &now, &lease.done()).await.unwrap();
        assert_eq!(frontier.info().await.unwrap().leases, 1);
    });
}

#[test]
fn dropped_fast_call_leaves_no_reply_for_another() {
    let redis = Redis::start();
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        for n in 0..200_u64 {
            let dropped = server.ask(Call::<u64>::new(command("ECHO 777777")));
            // The call is polled once, so it may or may not have been sent.
            let soon = tokio::time::timeout(Duration::ZERO, dropped).await;
            assert!(soon.is_err() || soon.is_ok_and(|echo| echo.unwrap() == 777_777));
            let echo = Call::<u64>::new(command(&format!("ECHO {n}")));
            assert_eq!(server.ask(echo).await.unwrap(), n);
        }
        assert_eq!(connections(&redis), 1);
    });
}

#[test]
fn job_continues_when_its_caller_disconnects() {
    let redis = Redis::start();
    redis_tests::add(&mut redis.wire(), "", "crawl", 0..20_000);
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        let index = Index::on(&server, "");
        let committing = tokio::spawn({
            let index = index.clone();
            async move { index.commit(b"crawl").await }
        });
        until("the job runs, or is done", || {
            redis.info_number("jobs_running") + redis.info_number("jobs_done") > 0
        });
        committing.abort();
        let _ = committing.await;
        let again = index.commit(b"crawl").await.unwrap();
        assert!([0, 20_000].contains(&again.new), "{again:?}");
        assert_eq!(index.stats().await.unwrap().hashes, 20_000);
    });
}

#[test]
fn future_sends_nothing_before_it_is_polled() {
    let redis = Redis::start();
    run(async {
        let server = AsyncServer::open(&redis.url()).await.unwrap();
        drop(server.ask(Call::<u64>::new(command("INCR n"))));
        let n = server.ask(Call::<Option<u64>>::new(command("GET n")));
        assert_eq!(n.await.unwrap(), None);
    });
}

#[test]
fn server_outlives_the_runtime_of_its_connections() {
    let redis = Redis::start();
    let server = run(AsyncServer::open(&redis.url())).unwrap();
    for n in 1..4 {
        let incr = Call::<u64>::new(command("INCR n"));
        assert_eq!(run(server.ask(incr.repeatable())).unwrap(), n);
        let check = Index::on(&server, "").check();
        assert!(run(check).unwrap().ok);
    }
}
