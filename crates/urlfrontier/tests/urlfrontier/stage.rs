//! A server with the module, the service in this process, and a client.

use std::net::SocketAddr;
use std::time::Duration;

use crawlspace_client::AsyncServer;
use crawlspace_urlfrontier::codec::Codec;
use crawlspace_urlfrontier::proto::*;
use crawlspace_urlfrontier::server::{self, Options};
use crawlspace_urlfrontier::{Service, Store};
use futures_util::{Stream, StreamExt};
use http::uri::PathAndQuery;
use prost::Message;
use redis_tests::Server;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};

/// Prefix of the frontier.
pub const PREFIX: &str = "{u}:";

/// The server, and the service over it.
pub struct Stage {
    pub server: Server,
    pub address: SocketAddr,
    pub service: Service,
    stop: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

impl Stage {
    pub async fn new() -> Stage {
        Stage::with(redis_tests::Options::new().start(), Options::default()).await
    }

    /// Serves a frontier on this server.
    pub async fn with(server: Server, options: Options) -> Stage {
        let connection = AsyncServer::options(&server.url())
            .timeout(Duration::from_secs(30))
            .retries(6)
            .open_async();
        let connection = connection.await.unwrap();
        let store = Store::open(&connection, PREFIX).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Service::new(store, address);
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = server::serve(listener, service.clone(), options, async {
            stopped.await.ok();
        });
        Stage {
            server,
            address,
            service,
            stop: Some(stop),
            serving: tokio::spawn(serving),
        }
    }

    pub async fn client(&self) -> Client {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        Client::over(endpoint.connect().await.unwrap())
    }

    /// Stops the service, and returns the server.
    pub async fn stop(mut self) -> Server {
        self.stop.take().unwrap().send(()).unwrap();
        self.serving.await.unwrap();
        self.server
    }
}

/// A client of the service.
#[derive(Clone)]
pub struct Client(tonic::client::Grpc<Channel>);

fn path(name: &str) -> PathAndQuery {
    format!("/urlfrontier.URLFrontier/{name}").parse().unwrap()
}

impl Client {
    pub fn over(channel: Channel) -> Client {
        Client(tonic::client::Grpc::new(channel))
    }

    /// Sends a call with one reply.
    pub async fn call<Q, A>(&mut self, name: &str, message: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.send(name, Request::new(message)).await
    }

    pub async fn send<Q, A>(&mut self, name: &str, request: Request<Q>) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.unwrap();
        let codec = Codec::<Q, A>::default();
        let reply = self.0.unary(request, path(name), codec).await?;
        Ok(reply.into_inner())
    }

    /// Sends the health check of gRPC, and returns its status: 1 for serving, 2 for not serving.
    pub async fn health(&mut self) -> i32 {
        self.0.ready().await.unwrap();
        let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        // The reply has its status in field 1, which `Long` reads as a number.
        let codec = Codec::<Empty, Long>::default();
        let reply = self.0.unary(Request::new(Empty {}), path, codec).await;
        reply.unwrap().into_inner().value as i32
    }

    /// Sends a call with a stream of replies.
    pub async fn list<Q, A>(&mut self, name: &str, message: Q) -> Vec<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.unwrap();
        let codec = Codec::<Q, A>::default();
        let request = Request::new(message);
        let reply = self.0.server_streaming(request, path(name), codec).await;
        let replies = reply.unwrap().into_inner();
        replies.map(Result::unwrap).collect().await
    }

    /// Opens a stream in both directions.
    pub async fn stream<Q, A>(
        &mut self,
        name: &str,
        messages: impl Stream<Item = Q> + Send + 'static,
    ) -> Streaming<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.0.ready().await.unwrap();
        let codec = Codec::<Q, A>::default();
        let request = Request::new(messages);
        let reply = self.0.streaming(request, path(name), codec).await;
        reply.unwrap().into_inner()
    }

    /// Sends items and returns the acknowledgements of PutURLs.
    pub async fn put(&mut self, items: Vec<UrlItem>) -> Vec<(String, &'static str)> {
        let items = futures_util::stream::iter(items);
        let acks: Streaming<AckMessage> = self.stream("PutURLs", items).await;
        let acks = acks.map(|ack| shown(&ack.unwrap()));
        acks.collect().await
    }

    /// Sends one batch and returns its statuses.
    pub async fn put_batch(&mut self, items: Vec<UrlInfo>) -> Vec<&'static str> {
        let id = "batch".to_owned();
        let batches = futures_util::stream::iter([DiscoveredBatch { id, items }]);
        let mut acks: Streaming<BatchAck> = self.stream("PutDiscovered", batches).await;
        let ack = acks.message().await.unwrap().unwrap();
        assert_eq!(ack.id, "batch");
        assert!(acks.message().await.unwrap().is_none());
        ack.statuses().map(|status| status.as_str_name()).collect()
    }

    /// Takes URLs of any crawl.
    pub async fn get(&mut self, queues: u32, urls: u32) -> Vec<UrlInfo> {
        let params = GetParams {
            max_queues: queues,
            max_urls_per_queue: urls,
            ..GetParams::default()
        };
        self.list("GetURLs", params).await
    }

    /// Takes URLs, until there are some.
    pub async fn get_soon(&mut self, queues: u32, urls: u32) -> Vec<UrlInfo> {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            let got = self.get(queues, urls).await;
            if !got.is_empty() {
                return got;
            }
            assert!(std::time::Instant::now() < deadline, "no URL became due");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub fn shown(ack: &AckMessage) -> (String, &'static str) {
    (ack.id.clone(), ack.status().as_str_name())
}

/// A URL of the default crawl.
pub fn info(key: &str, url: &str) -> UrlInfo {
    UrlInfo {
        url: url.to_owned(),
        key: key.to_owned(),
        ..UrlInfo::default()
    }
}

pub fn in_crawl(crawl: &str, key: &str, url: &str) -> UrlInfo {
    UrlInfo {
        crawl_id: crawl.to_owned(),
        ..info(key, url)
    }
}

pub fn discovered(info: UrlInfo) -> UrlItem {
    let info = Some(info);
    UrlItem {
        item: Some(url_item::Item::Discovered(DiscoveredUrlItem { info })),
        ..UrlItem::default()
    }
}

/// A known URL that is due at a time in seconds since the epoch; 0 for never.
pub fn known(info: UrlInfo, refetchable_from_date: u64) -> UrlItem {
    let known = KnownUrlItem {
        info: Some(info),
        refetchable_from_date,
    };
    UrlItem {
        item: Some(url_item::Item::Known(known)),
        ..UrlItem::default()
    }
}

pub fn with_metadata(mut info: UrlInfo, metadata: &[(&str, &[&str])]) -> UrlInfo {
    let lists = metadata.iter().map(|(name, values)| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        ((*name).to_owned(), StringList { values })
    });
    info.metadata = lists.collect();
    info
}

/// The current time in seconds since the epoch.
pub fn seconds() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap().as_secs()
}

/// A stream whose messages the test sends one by one.
pub fn by_hand<T: Send + 'static>() -> (mpsc::UnboundedSender<T>, impl Stream<Item = T> + Send) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let stream = futures_util::stream::unfold(receiver, |mut receiver| async move {
        let message = receiver.recv().await?;
        Some((message, receiver))
    });
    (sender, stream)
}

pub fn params(key: &str, crawl: &str) -> QueueWithinCrawlParams {
    QueueWithinCrawlParams {
        key: key.to_owned(),
        crawl_id: crawl.to_owned(),
        local: false,
    }
}

pub async fn stats(client: &mut Client, key: &str, crawl: &str) -> [u64; 4] {
    let stats: Stats = client.call("GetStats", params(key, crawl)).await.unwrap();
    let count = |name| stats.counts[name];
    let in_process = u64::from(stats.in_process);
    [
        stats.size,
        in_process,
        count("completed"),
        count("active_queues"),
    ]
}

pub async fn block(client: &mut Client, key: &str, time: u64) -> Result<Empty, Status> {
    let params = BlockQueueParams {
        key: key.to_owned(),
        time,
        ..BlockQueueParams::default()
    };
    client.call("BlockQueueUntil", params).await
}

pub async fn delay(client: &mut Client, key: &str, seconds: u32) -> Result<Empty, Status> {
    let params = QueueDelayParams {
        key: key.to_owned(),
        delay_requestable: seconds,
        ..QueueDelayParams::default()
    };
    client.call("SetDelay", params).await
}
