//! The six calls that StormCrawler sends.

use crawlspace_urlfrontier::proto::get_params::Item;
use crawlspace_urlfrontier::proto::*;
use tonic::Code;

use crate::stage::*;

fn urls(got: &[UrlInfo]) -> Vec<&str> {
    got.iter().map(|info| &info.url[..]).collect()
}

#[tokio::test]
async fn url_is_discovered_delivered_and_completed() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let a = with_metadata(
        info("example.com", "https://example.com/a"),
        &[("depth", &["1"]), ("path", &["x", "", "ü"])],
    );
    let mut item = discovered(a.clone());
    item.id = "my-id".to_owned();
    assert_eq!(client.put(vec![item]).await, [("my-id".to_owned(), "OK")]);
    let again = client.put(vec![discovered(a.clone())]).await;
    assert_eq!(again, [("https://example.com/a".to_owned(), "SKIPPED")]);
    assert_eq!(stats(&mut client, "", "").await, [1, 0, 0, 1]);

    let got = client.get(10, 10).await;
    let delivered = UrlInfo {
        crawl_id: "DEFAULT".to_owned(),
        ..a.clone()
    };
    assert_eq!(got, [delivered]);
    assert_eq!(client.get(10, 10).await, []);
    assert_eq!(stats(&mut client, "", "").await[..3], [1, 1, 0]);

    assert_eq!(client.put(vec![known(a.clone(), 0)]).await[0].1, "OK");
    assert_eq!(stats(&mut client, "", "").await[..3], [0, 0, 1]);
    assert_eq!(stats(&mut client, "example.com", "").await, [0, 0, 1, 0]);
    assert_eq!(client.put(vec![discovered(a)]).await[0].1, "SKIPPED");
    assert!(stage.service.metrics().contains("status=\"ok\"} 2\n"));
}

#[tokio::test]
async fn known_url_comes_back_at_its_date_with_its_metadata() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let a = with_metadata(info("k", "http://k/a"), &[("signature", &["abc"])]);
    assert_eq!(client.put(vec![known(a.clone(), 0)]).await[0].1, "OK");
    assert_eq!(client.get(0, 0).await, []);
    let due = seconds() + 1;
    assert_eq!(client.put(vec![known(a.clone(), due)]).await[0].1, "OK");
    assert_eq!(client.get(0, 0).await, []);
    assert_eq!(stats(&mut client, "", "").await, [1, 0, 0, 1]);
    let got = client.get_soon(1, 1).await;
    assert!(seconds() >= due);
    assert_eq!(got[0].metadata, a.metadata);
}

#[tokio::test]
async fn dates_decide_within_a_queue() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    delay(&mut client, "k", 0).await.unwrap();
    let now = seconds();
    // The URLs are not queued in the order of their due times.
    let dates = [
        ("http://k/3", now + 3),
        ("http://k/1", now + 1),
        ("http://k/2", now + 2),
    ];
    let items = dates.map(|(url, date)| known(info("k", url), date));
    client.put(items.to_vec()).await;
    let mut got = Vec::new();
    while got.len() < 3 {
        got.extend(client.get_soon(1, 1).await);
    }
    assert_eq!(urls(&got), ["http://k/1", "http://k/2", "http://k/3"]);
}

#[tokio::test]
async fn hold_ends_after_its_time_or_with_the_result() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    delay(&mut client, "", 0).await.unwrap();
    client.put(vec![discovered(info("k", "http://k/a"))]).await;
    let params = GetParams {
        delay_requestable: 1,
        ..GetParams::default()
    };
    let got: Vec<UrlInfo> = client.list("GetURLs", params).await;
    assert_eq!(urls(&got), ["http://k/a"]);
    assert_eq!(client.get(0, 0).await, []);
    // The client does not complete the URL, so the URL is delivered again.
    let got = client.get_soon(1, 1).await;
    assert_eq!(urls(&got), ["http://k/a"]);
    client.put(vec![known(got[0].clone(), seconds())]).await;
    assert_eq!(urls(&client.get_soon(1, 1).await), ["http://k/a"]);
}

#[tokio::test]
async fn limits_of_queues_and_urls_are_kept() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let infos = (0..60).map(|n| info(&format!("q{}", n % 6), &format!("http://q{}/{n}", n % 6)));
    assert_eq!(client.put_batch(infos.collect()).await, ["OK"; 60]);
    let got = client.get(2, 3).await;
    assert_eq!(got.len(), 6);
    assert_ne!(got[0].key, got[5].key);
    // A queue is not served again within its delay.
    let rest = client.get(0, 2).await;
    assert_eq!(rest.len(), 8);
    assert!(
        rest.iter()
            .all(|info| info.key != got[0].key && info.key != got[5].key)
    );
    assert_eq!(client.get(0, 0).await, []);
    let mut all: Vec<String> = [got, rest]
        .concat()
        .into_iter()
        .map(|info| info.url)
        .collect();
    while all.len() < 60 {
        all.extend(client.get_soon(0, 0).await.into_iter().map(|info| info.url));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 60);
}

#[tokio::test]
async fn key_and_crawl_select() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    for (crawl, key) in [("a", "k"), ("b", "k"), ("b", "l")] {
        let url = format!("http://{key}/{crawl}");
        client
            .put(vec![discovered(in_crawl(crawl, key, &url))])
            .await;
    }
    let get = |key: &str, crawl: Option<&str>| GetParams {
        key: key.to_owned(),
        item: crawl.map(|crawl| Item::CrawlId(crawl.to_owned())),
        ..GetParams::default()
    };
    // A key without a crawl selects nothing.
    for (key, crawl) in [
        ("k", None),
        ("k", Some("c")),
        ("none", Some("a")),
        ("", Some("c")),
    ] {
        let got: Vec<UrlInfo> = client.list("GetURLs", get(key, crawl)).await;
        assert_eq!(got, [], "{key} {crawl:?}");
    }
    let got: Vec<UrlInfo> = client.list("GetURLs", get("k", Some("b"))).await;
    assert_eq!(urls(&got), ["http://k/b"]);
    assert_eq!(got[0].crawl_id, "b");
    let got: Vec<UrlInfo> = client.list("GetURLs", get("", Some("b"))).await;
    assert_eq!(urls(&got), ["http://l/b"]);
    assert_eq!(urls(&client.get_soon(0, 0).await), ["http://k/a"]);
}

#[tokio::test]
async fn missing_key_is_derived_and_unusual_keys_work() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let long = "x".repeat(255);
    let keys = [
        "_DEFAULT_",
        "my_host.example",
        "a%5Fb",
        "a/b/c",
        "ü ",
        &long,
    ];
    let mut infos: Vec<UrlInfo> = keys
        .iter()
        .map(|key| info(key, &format!("http://h/{key}")))
        .collect();
    infos.push(info("", "https://derived.example:8080/a"));
    assert_eq!(client.put_batch(infos).await, ["OK"; 7]);
    let got = client.get(0, 0).await;
    let mut got: Vec<&str> = got.iter().map(|info| &info.key[..]).collect();
    got.sort_unstable();
    let mut expected = [&keys[..], &["derived.example"]].concat();
    expected.sort_unstable();
    assert_eq!(got, expected);
}

#[tokio::test]
async fn bad_input_is_refused_as_documented() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let ten_years = seconds() + 3653 * 86_400;
    let big = "m".repeat(64 * 1024);
    let bad = vec![
        discovered(info("k", "")),
        discovered(info(&"k".repeat(256), "http://k/")),
        discovered(info("", "/no-host")),
        discovered(in_crawl(&"c".repeat(1025), "k", "http://k/")),
        discovered(info("k", &format!("http://k/{}", "u".repeat(64 * 1024)))),
        discovered(with_metadata(info("k", "http://k/"), &[("m", &[&big])])),
        known(info("k", "http://k/"), ten_years + 60),
        known(info("k", "http://k/"), u64::MAX),
        UrlItem::default(),
    ];
    let number = bad.len();
    let mut items = bad;
    for (n, item) in items.iter_mut().enumerate() {
        item.id = n.to_string();
    }
    items.push(discovered(info("k", "http://k/good")));
    let acks = client.put(items).await;
    for (n, ack) in acks[..number].iter().enumerate() {
        assert_eq!(ack, &(n.to_string(), "SKIPPED"));
    }
    assert_eq!(acks[number].1, "OK");
    assert_eq!(stats(&mut client, "", "").await[..3], [1, 0, 0]);

    let argument = |result: Result<Empty, tonic::Status>| {
        assert_eq!(result.unwrap_err().code(), Code::InvalidArgument);
    };
    argument(block(&mut client, "", 1).await);
    argument(block(&mut client, "k", ten_years + 60).await);
    argument(block(&mut client, &"k".repeat(256), 1).await);
    argument(delay(&mut client, "k", u32::MAX).await);
    argument(delay(&mut client, "", u32::MAX).await);
    let long = params("", &"c".repeat(1025));
    argument(client.call("GetStats", long).await);
}

#[tokio::test]
async fn blocks_and_delays_before_the_first_url_are_kept_over_a_restart() {
    let server = redis_tests::Options::new().aof(true).start();
    let stage = Stage::with(server, Default::default()).await;
    let mut client = stage.client().await;
    block(&mut client, "blocked", seconds() + 3600)
        .await
        .unwrap();
    block(&mut client, "free", 0).await.unwrap();
    delay(&mut client, "slow", 3600).await.unwrap();
    delay(&mut client, "", 0).await.unwrap();
    let infos = ["blocked", "slow", "free"]
        .iter()
        .flat_map(|key| (0..2).map(move |n| info(key, &format!("http://{key}/{n}"))));
    client.put_batch(infos.collect()).await;
    let got = client.get(2, 1).await;
    assert_eq!(got.len(), 2);
    let held = stage.service.metrics();
    assert!(held.contains("delivered_urls_total 2\n"));
    client
        .call::<_, Empty>("SetActive", Active::default())
        .await
        .unwrap();
    let mut server = stage.stop().await;
    server.restart();
    let stage = Stage::with(server, Default::default()).await;
    let mut client = stage.client().await;
    let active: Boolean = client.call("GetActive", Local::default()).await.unwrap();
    assert!(!active.state);
    assert_eq!(client.get(0, 0).await, []);
    let active = Active {
        state: true,
        ..Active::default()
    };
    client.call::<_, Empty>("SetActive", active).await.unwrap();
    // The default delay of 0 and the long one of `slow` are kept, and so are the holds and the block.
    assert_eq!(urls(&client.get(0, 0).await), ["http://free/1"]);
    assert_eq!(stats(&mut client, "", "").await[..3], [6, 3, 0]);
    block(&mut client, "blocked", 0).await.unwrap();
    assert_eq!(client.get(1, 9).await.len(), 2);
    delay(&mut client, "slow", 0).await.unwrap();
}
