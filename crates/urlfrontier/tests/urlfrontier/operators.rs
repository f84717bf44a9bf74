//! The calls of URLFrontier's command line client.

use crawlspace_urlfrontier::proto::*;
use tonic::Code;

use crate::stage::*;

async fn filled() -> (Stage, Client) {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let infos = (0..30).map(|n| {
        let crawl = ["", "other"][n % 2];
        in_crawl(
            crawl,
            &format!("q{}", n % 3),
            &format!("http://q{}/Page-{n}", n % 3),
        )
    });
    assert_eq!(client.put_batch(infos.collect()).await, ["OK"; 30]);
    (stage, client)
}

async fn count(client: &mut Client, key: &str, filter: Option<&str>, ignore_case: bool) -> u64 {
    let params = CountUrlParams {
        key: key.to_owned(),
        filter: filter.map(str::to_owned),
        ignore_case: Some(ignore_case),
        ..CountUrlParams::default()
    };
    let count: Long = client.call("CountURLs", params).await.unwrap();
    count.value
}

#[tokio::test]
async fn queues_and_crawls_are_listed() {
    let (stage, mut client) = filled().await;
    let crawls: StringList = client.call("ListCrawls", Local::default()).await.unwrap();
    assert_eq!(crawls.values, ["DEFAULT", "other"]);
    let nodes: StringList = client.call("ListNodes", Empty {}).await.unwrap();
    assert_eq!(nodes.values, [stage.address.to_string()]);
    let mut list = async |crawl: &str, start, size, include_inactive| {
        let params = Pagination {
            start,
            size,
            include_inactive,
            crawl_id: crawl.to_owned(),
            local: false,
        };
        let list: QueueList = client.call("ListQueues", params).await.unwrap();
        let mut values = list.values;
        values.sort_unstable();
        values
    };
    assert_eq!(list("", 0, 0, false).await, ["q0", "q1", "q2"]);
    assert_eq!(list("other", 0, 0, false).await, ["q0", "q1", "q2"]);
    assert_eq!(list("nothing", 0, 0, true).await, [""; 0]);
    let pages = [list("", 0, 2, false).await, list("", 2, 2, false).await].concat();
    assert_eq!(pages.len(), 3);
    let mut other = stage.client().await;
    block(&mut other, "q1", seconds() + 3600).await.unwrap();
    assert_eq!(list("", 0, 0, false).await, ["q0", "q2"]);
    assert_eq!(list("", 0, 0, true).await, ["q0", "q1", "q2"]);
}

#[tokio::test]
async fn urls_are_listed_and_counted() {
    let (_stage, mut client) = filled().await;
    let params = ListUrlParams {
        size: 1000,
        ..ListUrlParams::default()
    };
    let all: Vec<UrlItem> = client.list("ListURLs", params.clone()).await;
    assert_eq!(all.len(), 15);
    let Some(url_item::Item::Known(first)) = &all[0].item else {
        panic!("not a known item");
    };
    assert!(first.refetchable_from_date <= seconds());
    let page = ListUrlParams {
        start: 10,
        ..params.clone()
    };
    let rest: Vec<UrlItem> = client.list("ListURLs", page).await;
    assert_eq!(rest, all[10..]);
    let some = ListUrlParams {
        key: "q1".to_owned(),
        filter: Some("PAGE-1".to_owned()),
        ignore_case: Some(true),
        ..params
    };
    let some: Vec<UrlItem> = client.list("ListURLs", some).await;
    assert_eq!(some.len(), 2); // 10 and 16
    assert_eq!(count(&mut client, "", None, false).await, 15);
    assert_eq!(count(&mut client, "q1", None, false).await, 5);
    assert_eq!(count(&mut client, "", Some("page"), false).await, 0);
    assert_eq!(count(&mut client, "", Some("page"), true).await, 15);
}

#[tokio::test]
async fn status_of_a_url() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let due = seconds() + 1000;
    client
        .put(vec![
            known(info("k", "http://k/a"), due),
            known(info("k", "http://k/b"), 0),
        ])
        .await;
    let mut status = async |url: &str| {
        let params = UrlStatusRequest {
            url: url.to_owned(),
            key: "k".to_owned(),
            ..UrlStatusRequest::default()
        };
        let item: UrlItem = client.call("GetURLStatus", params).await?;
        let Some(url_item::Item::Known(known)) = item.item else {
            panic!("not a known item");
        };
        Ok::<_, tonic::Status>((known.refetchable_from_date, known.info.unwrap().url))
    };
    assert_eq!(
        status("http://k/a").await.unwrap(),
        (due, "http://k/a".to_owned())
    );
    assert_eq!(status("http://k/b").await.unwrap().0, 0);
    assert_eq!(
        status("http://k/c").await.unwrap_err().code(),
        Code::NotFound
    );
    assert_eq!(status("").await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn queues_and_crawls_are_deleted_and_purged() {
    let (_stage, mut client) = filled().await;
    client
        .put(vec![known(info("q0", "http://q0/done"), 0)])
        .await;
    let deleted: Long = client.call("DeleteQueue", params("q0", "")).await.unwrap();
    assert_eq!(deleted.value, 6);
    assert_eq!(stats(&mut client, "", "").await[..3], [10, 0, 0]);
    assert_eq!(stats(&mut client, "", "other").await[..3], [15, 0, 0]);
    // Nothing is older than a day.
    let purge = |key: &str, days| PurgeUrlParams {
        key: key.to_owned(),
        crawl_id: "other".to_owned(),
        days,
    };
    let purged: Long = client.call("PurgeURLs", purge("", 1)).await.unwrap();
    assert_eq!(purged.value, 0);
    let purged: Long = client.call("PurgeURLs", purge("q1", 0)).await.unwrap();
    assert_eq!(purged.value, 5);
    client.get(0, 0).await;
    let crawl = DeleteCrawlMessage {
        value: "other".to_owned(),
        local: false,
    };
    let deleted: Long = client.call("DeleteCrawl", crawl).await.unwrap();
    assert_eq!(deleted.value, 10);
    assert_eq!(stats(&mut client, "", "other").await[..3], [0, 0, 0]);
    let crawls: StringList = client.call("ListCrawls", Local::default()).await.unwrap();
    assert_eq!(crawls.values, ["DEFAULT"]);
    // The crawl can be started again at once.
    let again = in_crawl("other", "q0", "http://q0/Page-3");
    assert_eq!(client.put_batch(vec![again]).await, ["OK"]);
}

#[tokio::test]
async fn inactive_frontier_delivers_nothing() {
    let (_stage, mut client) = filled().await;
    let mut set = async |state| {
        let active = Active {
            state,
            local: false,
        };
        client.call::<_, Empty>("SetActive", active).await.unwrap();
        let active: Boolean = client.call("GetActive", Local::default()).await.unwrap();
        assert_eq!(active.state, state);
        client.get(1, 1).await.len()
    };
    assert_eq!(set(false).await, 0);
    assert_eq!(set(true).await, 1);
    client
        .call::<_, Empty>("SetLogLevel", LogLevelParams::default())
        .await
        .unwrap();
}

/// Returns the URLs of a listing in order, each with its date.
async fn listed(client: &mut Client, crawl: &str) -> Vec<(String, u64)> {
    let params = ListUrlParams {
        size: 1000,
        crawl_id: crawl.to_owned(),
        ..ListUrlParams::default()
    };
    let items: Vec<UrlItem> = client.list("ListURLs", params).await;
    let items = items.into_iter().map(|item| match item.item {
        Some(url_item::Item::Known(known)) => {
            assert!(item.creation_date > 0);
            (known.info.unwrap().url, known.refetchable_from_date)
        }
        other => panic!("{other:?}"),
    });
    let mut urls: Vec<(String, u64)> = items.collect();
    urls.sort_unstable();
    urls
}

#[tokio::test]
async fn urls_that_cannot_be_delivered_are_listed_counted_and_purged() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let mut frontier = redis_tests::Frontier::of(&stage.server, PREFIX);
    frontier.ok("GROUP shared gated open");
    delay(&mut client, "", 3600).await.unwrap();
    let url = |key: &str| format!("http://{key}/");
    for keys in [&["held", "open"][..], &["blocked", "gated", "paused"]] {
        let infos = keys.iter().map(|key| info(key, &url(key)));
        client.put_batch(infos.collect()).await;
        if keys.len() == 2 {
            // Closes the shared gate.
            assert_eq!(client.get(0, 0).await.len(), 2);
        }
    }
    block(&mut client, "blocked", seconds() + 3600)
        .await
        .unwrap();
    frontier.ok("PAUSE paused");
    assert_eq!(client.get(0, 0).await, []);

    let keys = ["blocked", "gated", "held", "open", "paused"];
    for (include_inactive, expected) in [(true, &keys[..]), (false, &["gated", "held", "open"])] {
        let params = Pagination {
            include_inactive,
            ..Pagination::default()
        };
        let list: QueueList = client.call("ListQueues", params).await.unwrap();
        let mut values = list.values;
        values.sort_unstable();
        assert_eq!(values, expected);
    }
    frontier.ok("PAUSE EXECUTION DEFAULT");
    let all = listed(&mut client, "").await;
    let all: Vec<&str> = all.iter().map(|(url, _)| &url[..]).collect();
    assert_eq!(all, keys.map(url));
    assert_eq!(count(&mut client, "", Some("http"), false).await, 5);
    assert_eq!(count(&mut client, "gated", Some("http"), false).await, 1);
    let purge = PurgeUrlParams::default();
    let purged: Long = client.call("PurgeURLs", purge).await.unwrap();
    assert_eq!(purged.value, 3);
    let left = listed(&mut client, "").await;
    let left: Vec<&str> = left.iter().map(|(url, _)| &url[..]).collect();
    assert_eq!(left, ["http://held/", "http://open/"]);
    let deleted: Long = client
        .call("DeleteQueue", params("held", ""))
        .await
        .unwrap();
    assert_eq!(deleted.value, 0, "a client holds its URL");
}

#[tokio::test]
async fn completed_urls_are_listed_if_the_crawl_keeps_their_texts() {
    let stage = Stage::new().await;
    let mut client = stage.client().await;
    let mut frontier = redis_tests::Frontier::of(&stage.server, PREFIX);
    frontier.ok("SPACE texts TEXT YES");
    let due = seconds() + 3600;
    for crawl in ["texts", ""] {
        let done = known(in_crawl(crawl, "k", "http://k/done"), 0);
        let queued = known(in_crawl(crawl, "k", "http://k/queued"), due);
        client.put(vec![done, queued]).await;
    }
    let [done, queued] = [("http://k/done", 0), ("http://k/queued", due)];
    let owned = |(url, due): (&str, u64)| (url.to_owned(), due);
    assert_eq!(
        listed(&mut client, "texts").await,
        [owned(done), owned(queued)]
    );
    assert_eq!(listed(&mut client, "").await, [owned(queued)]);
    assert_eq!(listed(&mut client, "nothing").await, []);
}
