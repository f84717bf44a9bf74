//! Measures a URLFrontier service: `load ADDRESS [URLS [CLOSED]]`. Works with any server of this interface, which must be
//! empty. Serves a frontier in this process if it gets the URL of a Redis server instead of an address. CLOSED is the
//! number of queues that may not be delivered during the last measurement.

use std::time::{Duration, Instant};

use crawlspace_client::AsyncServer;
use crawlspace_urlfrontier::codec::Codec;
use crawlspace_urlfrontier::proto::*;
use crawlspace_urlfrontier::server::{self, Options};
use crawlspace_urlfrontier::{Service, Store};
use futures_util::{Stream, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use tokio::net::TcpListener;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
struct Client(tonic::client::Grpc<Channel>);

impl Client {
    async fn stream<Q, A>(
        &mut self,
        path: &'static str,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Result<Streaming<A>, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await?;
        let codec = Codec::<Q, A>::default();
        let path = PathAndQuery::from_static(path);
        let reply = self
            .0
            .streaming(Request::new(messages), path, codec)
            .await?;
        Ok(reply.into_inner())
    }
}

/// Returns URL number `n`, in one of `queues` queues.
fn url(n: usize, queues: usize) -> UrlInfo {
    let host = format!("host-{}.example", n % queues);
    UrlInfo {
        url: format!("https://{host}/pages/2026/{n}.html"),
        key: host,
        ..UrlInfo::default()
    }
}

/// Sends URLs in batches of 256 over two streams. Returns how many were new.
async fn put_batches(
    client: &Client,
    urls: std::ops::Range<usize>,
    queues: usize,
) -> Result<usize, Failure> {
    let middle = urls.start.midpoint(urls.end);
    let halves = [urls.start..middle, middle..urls.end].map(|half| {
        let mut client = client.clone();
        tokio::spawn(async move {
            let batches = half.clone().step_by(256).map(move |start| DiscoveredBatch {
                id: start.to_string(),
                items: (start..half.end.min(start + 256))
                    .map(|n| url(n, queues))
                    .collect(),
            });
            let path = "/urlfrontier.URLFrontier/PutDiscovered";
            let batches = futures_util::stream::iter(batches);
            let mut acks: Streaming<BatchAck> = client.stream(path, batches).await?;
            let mut new = 0;
            while let Some(ack) = acks.message().await? {
                new += ack.statuses.iter().filter(|status| **status == 0).count();
            }
            Ok::<usize, Failure>(new)
        })
    });
    let mut new = 0;
    for half in halves {
        new += half.await??;
    }
    Ok(new)
}

async fn put(
    client: &mut Client,
    range: std::ops::Range<usize>,
    queues: usize,
) -> Result<usize, Failure> {
    let items = range.map(move |n| {
        let info = Some(url(n, queues));
        UrlItem {
            item: Some(url_item::Item::Discovered(DiscoveredUrlItem { info })),
            ..UrlItem::default()
        }
    });
    let items = futures_util::stream::iter(items);
    let acks: Streaming<AckMessage> = client
        .stream("/urlfrontier.URLFrontier/PutURLs", items)
        .await?;
    let ok = acks.filter(|ack| std::future::ready(ack.as_ref().is_ok_and(|ack| ack.status == 0)));
    Ok(ok.count().await)
}

async fn get(client: &mut Client, queues: u32, urls: u32) -> Result<usize, Failure> {
    let params = GetParams {
        max_queues: queues,
        max_urls_per_queue: urls,
        delay_requestable: 3600,
        item: Some(get_params::Item::CrawlId(String::new())),
        ..GetParams::default()
    };
    let params = futures_util::stream::iter([params]);
    let urls: Streaming<UrlInfo> = client
        .stream("/urlfrontier.URLFrontier/GetURLs", params)
        .await?;
    Ok(urls
        .filter(|url| std::future::ready(url.is_ok()))
        .count()
        .await)
}

/// Serves a frontier, and returns the address.
async fn serve(redis: &str) -> Result<String, Failure> {
    let server = AsyncServer::open(redis).await?;
    let store = Store::open(&server, "{load}:").await?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let service = Service::new(store, address);
    let stop = std::future::pending();
    tokio::spawn(server::serve(listener, service, Options::default(), stop));
    Ok(address.to_string())
}

/// Sets the delay of queues to an hour, so that a queue stays closed once it was delivered.
async fn close_for_an_hour(client: &mut Client) -> Result<(), Failure> {
    let params = QueueDelayParams {
        delay_requestable: 3600,
        ..QueueDelayParams::default()
    };
    let params = futures_util::stream::iter([params]);
    let mut reply: Streaming<Empty> = client
        .stream("/urlfrontier.URLFrontier/SetDelay", params)
        .await?;
    reply.message().await?;
    Ok(())
}

fn rate(what: &str, count: usize, took: Duration) {
    println!("{what}: {:.0} URLs/s", count as f64 / took.as_secs_f64());
}

fn quantiles(what: &str, mut times: Vec<Duration>) {
    times.sort_unstable();
    for part in [50, 99] {
        let time = times[times.len() * part / 100];
        println!("{what}, p{part}: {:.2} ms", time.as_secs_f64() * 1e3);
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let address = args
        .next()
        .ok_or("usage: load ADDRESS|REDIS-URL [URLS [CLOSED]]")?;
    let urls: usize = args.next().map_or(Ok(500_000), |urls| urls.parse())?;
    let closed: usize = args.next().map_or(Ok(100_000), |closed| closed.parse())?;
    let queues = urls / 50;
    let address = if address.contains("://") {
        serve(&address).await?
    } else {
        address
    };
    let endpoint = Endpoint::from_shared(format!("http://{address}"))?;
    let mut client = Client(tonic::client::Grpc::new(endpoint.connect().await?));
    close_for_an_hour(&mut client).await?;

    let begun = Instant::now();
    let new = put_batches(&client, 0..urls, queues).await?;
    rate("PutDiscovered 256, new", urls, begun.elapsed());
    assert_eq!(new, urls);
    let begun = Instant::now();
    let new = put_batches(&client, 0..urls, queues).await?;
    rate("PutDiscovered 256, known", urls, begun.elapsed());
    assert_eq!(new, 0);
    let begun = Instant::now();
    let single = urls / 5;
    let new = put(&mut client, urls..urls + single, queues).await?;
    rate("PutURLs, new", single, begun.elapsed());
    assert_eq!(new, single);

    let begun = Instant::now();
    let (mut got, mut times) = (0, Vec::new());
    for _ in 0..queues / 100 {
        let begun = Instant::now();
        got += get(&mut client, 100, 10).await?;
        times.push(begun.elapsed());
    }
    assert_eq!(got, queues / 100 * 1000);
    rate("GetURLs 100 × 10", got, begun.elapsed());
    quantiles("GetURLs 100 × 10", times);

    // Each of these queues has one URL; their numbers follow all numbers used before.
    let first = (urls + single) * 2;
    put_batches(&client, first..first + closed, usize::MAX).await?;
    while get(&mut client, 0, 1).await? > 0 {}
    let mut times = Vec::new();
    for round in 1..=200 {
        let first = first * (round + 1);
        // 100 queues with 10 URLs each.
        let urls = (first..first + 1000).map(|n| UrlInfo {
            key: format!("open-{round}-{}", n % 100),
            ..url(n, usize::MAX)
        });
        let batch = DiscoveredBatch {
            items: urls.collect(),
            ..DiscoveredBatch::default()
        };
        let batch = futures_util::stream::iter([batch]);
        let path = "/urlfrontier.URLFrontier/PutDiscovered";
        let mut acks: Streaming<BatchAck> = client.stream(path, batch).await?;
        acks.message().await?;
        let begun = Instant::now();
        assert_eq!(get(&mut client, 100, 10).await?, 1000);
        times.push(begun.elapsed());
    }
    quantiles("GetURLs 100 × 10, closed queues", times);
    Ok(())
}
