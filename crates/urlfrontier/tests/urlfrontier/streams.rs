//! Streams: every item is acknowledged once, even if the client, the service or the server fails.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crawlspace_urlfrontier::proto::*;
use futures_util::StreamExt;
use tonic::{Code, Streaming};

use crate::stage::*;

#[tokio::test]
async fn items_are_acknowledged_while_the_stream_is_open() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let (sender, items) = by_hand();
    sender.send(discovered(info("k", "http://k/0"))).unwrap();
    let mut acks: Streaming<AckMessage> = client.stream("PutURLs", items).await;
    assert_eq!(shown(&acks.message().await.unwrap().unwrap()).1, "OK");
    for n in 1..20 {
        sender
            .send(discovered(info("k", &format!("http://k/{n}"))))
            .unwrap();
        let ack = acks.message().await.unwrap().unwrap();
        assert_eq!(shown(&ack), (format!("http://k/{n}"), "OK"));
    }
    drop(sender);
    assert!(acks.message().await.unwrap().is_none());
}

#[tokio::test]
async fn every_item_is_acknowledged_once_at_the_end_of_a_stream() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let items = (0..5000).map(|n| {
        let mut item = match n % 3 {
            0 => known(info("k", &format!("http://k/{n}")), 0),
            1 => discovered(info("k", &format!("http://k/{}", n / 7))),
            _ => UrlItem::default(),
        };
        item.id = n.to_string();
        item
    });
    let acks = client.put(items.collect()).await;
    let ids: HashSet<&str> = acks.iter().map(|(id, _)| &id[..]).collect();
    assert_eq!((acks.len(), ids.len()), (5000, 5000));
    assert!(acks.iter().all(|(_, status)| *status != "FAIL"));
}

#[tokio::test]
async fn no_more_than_1024_items_are_read_before_their_acknowledgements() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    // The client never reads acknowledgements, and their long ids fill the buffers of the connection.
    let long = "i".repeat(8000);
    let items = futures_util::stream::iter(0..200_000).map(move |n| {
        let mut item = discovered(info("k", &format!("http://k/{n}")));
        item.id = format!("{n}{long}");
        item
    });
    let acks: Streaming<AckMessage> = client.stream("PutURLs", items).await;
    let mut before = 0;
    let queued = loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let [queued, ..] = stats(&mut stage.client().await, "", "").await;
        if queued == before && queued > 0 {
            break queued;
        }
        before = queued;
    };
    // 1 024 items, and those whose acknowledgements are in the buffers: some hundreds of KiB.
    assert!(queued < 3000, "{queued} items were read");
    drop(acks);
}

#[tokio::test]
async fn failed_server_is_a_failed_item() {
    let mut stage = Stage::new().await;
    let mut client = stage.client().await;
    assert_eq!(
        client.put(vec![discovered(info("k", "http://k/a"))]).await[0].1,
        "OK"
    );
    stage.server.kill9();
    let items = vec![
        discovered(info("k", "http://k/b")),
        known(info("k", "http://k/c"), 0),
        known(info("k", "http://k/d"), seconds()),
        discovered(info("k", "")),
    ];
    let statuses: Vec<&str> = client.put(items).await.iter().map(|ack| ack.1).collect();
    assert_eq!(statuses, ["FAIL", "FAIL", "FAIL", "SKIPPED"]);
    let result = block(&mut client, "k", 1).await;
    assert_eq!(result.unwrap_err().code(), Code::Unavailable);
    // The server comes back without its data.
    stage.server.restart();
    assert_eq!(
        client.put(vec![discovered(info("k", "http://k/b"))]).await[0].1,
        "OK"
    );
    assert_eq!(client.get(0, 0).await.len(), 1);
}

#[tokio::test]
async fn streams_end_when_the_service_stops() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let (sender, items) = by_hand();
    for n in 0..100 {
        sender
            .send(discovered(info("k", &format!("http://k/{n}"))))
            .unwrap();
    }
    let mut acks: Streaming<AckMessage> = client.stream("PutURLs", items).await;
    for n in 0..100 {
        let ack = acks.message().await.unwrap().unwrap();
        assert_eq!(shown(&ack), (format!("http://k/{n}"), "OK"));
    }
    let begun = std::time::Instant::now();
    let server = stage.stop().await;
    assert!(begun.elapsed() < Duration::from_secs(4));
    assert_eq!(acks.message().await.unwrap_err().code(), Code::Unavailable);
    drop((sender, server));
}

/// A client that sends items until it has the number of acknowledgements, again after a failure.
async fn crawl(mut client: Client, name: usize, count: usize) -> HashMap<String, &'static str> {
    let mut done = HashMap::new();
    let mut left: Vec<String> = (0..count).map(|n| format!("http://q{name}/{n}")).collect();
    while !left.is_empty() {
        let items = left
            .iter()
            .map(|url| discovered(info(&format!("q{name}"), url)));
        let acks = client.put(items.collect()).await;
        assert_eq!(acks.len(), left.len(), "one acknowledgement for each item");
        let failed = acks.into_iter().filter(|(url, status)| {
            if *status != "FAIL" {
                assert_eq!(done.insert(url.clone(), *status), None);
            }
            *status == "FAIL"
        });
        left = failed.map(|(url, _)| url).collect();
    }
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_survive_other_clients_and_restarts_of_the_server() {
    const CLIENTS: usize = 64;
    const ITEMS: usize = 400;
    let server = redis_tests::Options::new().aof(true).start();
    let mut stage = Stage::with(server, Default::default()).await;
    let shared = stage.client().await;
    // Clients that stall: they do not read. Clients that vanish: they close their connection in the middle.
    let mut bad = Vec::new();
    for n in 0..16 {
        let mut client = stage.client().await;
        let items = futures_util::stream::iter(0..4000).map(move |item| {
            discovered(info(&format!("bad{n}"), &format!("http://bad{n}/{item}")))
        });
        let acks: Streaming<AckMessage> = client.stream("PutURLs", items).await;
        bad.push((client, acks));
    }
    let crawls = (0..CLIENTS).map(|n| tokio::spawn(crawl(shared.clone(), n, ITEMS)));
    let crawls: Vec<_> = crawls.collect();
    bad.truncate(8);
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        tokio::task::block_in_place(|| stage.server.restart());
    }
    for (n, done) in crawls.into_iter().enumerate() {
        let done = done.await.unwrap();
        assert_eq!(done.len(), ITEMS);
        // No acknowledgement without effect, and none missing.
        let mut client = stage.client().await;
        let [size, ..] = stats(&mut client, &format!("q{n}"), "").await;
        assert_eq!(size as usize, ITEMS);
    }
}
