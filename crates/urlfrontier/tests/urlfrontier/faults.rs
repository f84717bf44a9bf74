//! Tests for faults of URLFrontier 2.6 that this service must not have, named by their letters in
//! `docs/guide/urlfrontier.md`.

use crawlspace_urlfrontier::proto::*;

use crate::stage::*;

#[tokio::test]
async fn repeated_results_do_not_change_the_counts() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let a = info("k", "http://k/a");
    client.put(vec![discovered(a.clone())]).await;
    for _ in 0..3 {
        client
            .put(vec![known(a.clone(), 0), known(a.clone(), 0)])
            .await;
        assert_eq!(stats(&mut client, "", "").await[..3], [0, 0, 1]);
    }
    let later = seconds() + 3600;
    client.put(vec![known(a.clone(), later)]).await;
    assert_eq!(stats(&mut client, "", "").await[..3], [1, 0, 0]);
    client.put(vec![known(a.clone(), later), known(a, 0)]).await;
    assert_eq!(stats(&mut client, "", "").await[..3], [0, 0, 1]);
}

#[tokio::test]
async fn last_of_several_results_in_one_read_counts() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let a = info("k", "http://k/a");
    let later = seconds() + 3600;
    let items = vec![
        discovered(a.clone()),
        known(a.clone(), later),
        discovered(a.clone()),
        known(with_metadata(a.clone(), &[("n", &["2"])]), 1),
    ];
    let acks = client.put(items).await;
    let statuses: Vec<&str> = acks.iter().map(|ack| ack.1).collect();
    assert_eq!(statuses, ["SKIPPED", "OK", "SKIPPED", "OK"]);
    let got = client.get(1, 1).await;
    assert_eq!(got[0].metadata["n"].values, ["2"]);
}

#[tokio::test]
async fn duplicates_in_a_batch_are_skipped() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let a = with_metadata(info("k", "http://k/a"), &[("n", &["1"])]);
    let batch = vec![
        a.clone(),
        a.clone(),
        info("k", ""),
        info("k", "http://k/b"),
        a,
    ];
    let statuses = client.put_batch(batch).await;
    assert_eq!(statuses, ["OK", "SKIPPED", "SKIPPED", "OK", "SKIPPED"]);
    assert_eq!(client.put_batch(Vec::new()).await, [""; 0]);
}

#[tokio::test]
async fn crawls_share_the_delay_of_a_host() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    delay(&mut client, "", 3600).await.unwrap();
    for crawl in ["a", "b"] {
        client
            .put(vec![discovered(in_crawl(
                crawl,
                "k",
                &format!("http://k/{crawl}"),
            ))])
            .await;
    }
    let get = |crawl: &str| GetParams {
        item: Some(get_params::Item::CrawlId(crawl.to_owned())),
        ..GetParams::default()
    };
    let got: Vec<UrlInfo> = client.list("GetURLs", get("a")).await;
    assert_eq!(got.len(), 1);
    let got: Vec<UrlInfo> = client.list("GetURLs", get("b")).await;
    assert_eq!(got, []);
}

#[tokio::test]
async fn own_delay_replaces_the_default_even_if_it_is_shorter() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    delay(&mut client, "", 3600).await.unwrap();
    delay(&mut client, "fast", 0).await.unwrap();
    let infos = ["fast", "slow"]
        .iter()
        .flat_map(|key| (0..3).map(move |n| info(key, &format!("http://{key}/{n}"))));
    client.put_batch(infos.collect()).await;
    let mut got = Vec::new();
    for _ in 0..4 {
        got.extend(client.get(2, 1).await);
    }
    let slow = got.iter().filter(|info| info.key == "slow").count();
    assert_eq!((got.len(), slow), (4, 1));
}

#[tokio::test]
async fn result_is_one_command_of_the_server() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let a = with_metadata(info("k", "http://k/a"), &[("n", &["1"])]);
    client.put(vec![discovered(a.clone())]).await;
    assert_eq!(client.get(1, 1).await.len(), 1);
    let calls = || stage.server.info_number("total_commands_processed");
    let before = calls();
    client.put(vec![known(a, seconds() + 3600)]).await;
    // The second call is the INFO of this test.
    assert_eq!(calls() - before, 2);
    assert_eq!(stats(&mut client, "", "").await[..3], [1, 0, 0]);
}

#[tokio::test]
async fn completed_url_keeps_its_state_and_gets_new_metadata_when_it_is_scheduled() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let old = with_metadata(info("k", "http://k/a"), &[("n", &["old"]), ("m", &["1"])]);
    client
        .put(vec![discovered(old.clone()), known(old.clone(), 0)])
        .await;
    let params = UrlStatusRequest {
        url: old.url.clone(),
        ..UrlStatusRequest::default()
    };
    let status: UrlItem = client.call("GetURLStatus", params).await.unwrap();
    assert!(status.creation_date > 0);
    let Some(url_item::Item::Known(completed)) = status.item else {
        panic!("not a known item");
    };
    assert_eq!(completed.refetchable_from_date, 0);
    let new = with_metadata(info("k", "http://k/a"), &[("n", &["new"])]);
    client.put(vec![known(new.clone(), 1)]).await;
    assert_eq!(client.get(1, 1).await[0].metadata, new.metadata);
    // A result without metadata removes the old one.
    client.put(vec![known(info("k", "http://k/a"), 1)]).await;
    delay(&mut client, "k", 0).await.unwrap();
    assert_eq!(client.get_soon(1, 1).await[0].metadata.len(), 0);
}

#[tokio::test]
async fn url_is_stored_once() {
    const URLS: usize = 20_000;
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let url = |n: usize| format!("http://host-{}.example/{}/{n}", n % 100, "x".repeat(200));
    for chunk in (0..URLS).collect::<Vec<_>>().chunks(5000) {
        let infos = chunk
            .iter()
            .map(|n| info(&format!("q{}", n % 100), &url(*n)));
        assert!(
            client
                .put_batch(infos.collect())
                .await
                .iter()
                .all(|status| *status == "OK")
        );
    }
    let key = format!("{PREFIX}chg_packed");
    let usage = stage
        .server
        .wire()
        .ok_line(format!("MEMORY USAGE {key} SAMPLES 0"));
    let each = usage.int() as usize / URLS;
    assert!(
        each < url(0).len(),
        "{each} bytes of memory for a URL of {} bytes",
        url(0).len()
    );
}

#[tokio::test]
async fn start_after_a_crash_reads_no_urls() {
    let server = redis_tests::Options::new().aof(true).start();
    let stage = Stage::with(server, Default::default()).await;
    let mut client = stage.client().await;
    let infos = (0..5000).map(|n| {
        info(
            &format!("q{}", n % 500),
            &format!("http://q{}/{n}", n % 500),
        )
    });
    client.put_batch(infos.collect()).await;
    assert_eq!(client.get(100, 1).await.len(), 100);
    let mut server = stage.stop().await;
    server.restart();
    let stage = Stage::with(server, Default::default()).await;
    let mut client = stage.client().await;
    assert_eq!(client.get(1, 1).await.len(), 1);
    let calls = stage.server.info_number("total_commands_processed");
    assert!(calls < 20, "{calls} commands before the first URL");
    assert_eq!(stats(&mut client, "", "").await[..3], [5000, 101, 0]);
}
