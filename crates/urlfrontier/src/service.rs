//! The calls of the service.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crawlspace_client::frontier::{Held, Limits, Millis, State};
use futures_util::{Stream, StreamExt, TryStreamExt};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use crate::figures::Figures;
use crate::get::{self, Wanted};
use crate::health_proto::health_check_response::ServingStatus;
use crate::health_proto::health_server::Health;
use crate::health_proto::{HealthCheckRequest, HealthCheckResponse};
use crate::input::{crawl_of, key_of, queue_of, span_of, time_of};
use crate::list::{Filter, days_before};
use crate::proto::ack_message::Status as Ack;
use crate::proto::server::url_frontier_server::UrlFrontier;
use crate::proto::*;
use crate::put::{MAX_BATCHES, MAX_ITEMS, acknowledged};
use crate::store::{Store, status_of};

/// Number of queues or URLs in a listing, unless the client sets another one.
const LISTED: usize = 100;
/// Maximum number of queues in a listing, which is one message.
const MAX_LISTED: usize = 10_000;
/// Time in which the server of the module must answer a health check.
const HEALTH: Duration = Duration::from_secs(2);

type Reply<T> = Result<Response<T>, Status>;
type Replies<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Returns the current time.
pub(crate) fn now() -> Millis {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as Millis)
}

/// Signals that the server stops.
#[derive(Clone, Debug)]
pub(crate) struct Stopped(watch::Receiver<bool>);

impl Stopped {
    /// Waits until the server stops.
    pub(crate) async fn wait(&self) {
        if self.0.clone().wait_for(|stopped| *stopped).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The calls of URLFrontier over a frontier.
#[derive(Clone, Debug)]
pub struct Service {
    store: Arc<Store>,
    pub(crate) figures: Arc<Figures>,
    address: SocketAddr,
    stop: Arc<watch::Sender<bool>>,
}

impl Service {
    /// Creates a service that clients reach at an address.
    pub fn new(store: Store, address: SocketAddr) -> Service {
        Service {
            store: Arc::new(store),
            figures: Arc::default(),
            address,
            stop: Arc::new(watch::channel(false).0),
        }
    }

    /// Returns the metrics as text for Prometheus.
    pub fn metrics(&self) -> String {
        self.figures.text()
    }

    /// Ends all streams of clients after the acknowledgement of what was read.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
    }

    pub(crate) fn stopped(&self) -> Stopped {
        Stopped(self.stop.subscribe())
    }
}

fn failed(error: crawlspace_client::Error) -> Status {
    status_of(&error)
}

/// Returns an optional key of a queue.
fn optional(key: &str) -> Result<Option<&str>, Status> {
    match key {
        "" => Ok(None),
        key => queue_of(key).map(Some),
    }
}

#[tonic::async_trait]
impl UrlFrontier for Service {
    type GetURLsStream = Replies<UrlInfo>;
    type PutURLsStream = Replies<AckMessage>;
    type PutDiscoveredStream = Replies<BatchAck>;
    type ListURLsStream = Replies<UrlItem>;

    async fn get_ur_ls(&self, request: Request<GetParams>) -> Reply<Replies<UrlInfo>> {
        let wanted = Wanted::of(request.into_inner())?;
        let (store, figures) = (Arc::clone(&self.store), Arc::clone(&self.figures));
        Ok(Response::new(Box::pin(get::urls(store, figures, wanted))))
    }

    async fn put_ur_ls(&self, request: Request<Streaming<UrlItem>>) -> Reply<Replies<AckMessage>> {
        let (store, figures) = (Arc::clone(&self.store), Arc::clone(&self.figures));
        let open = Arc::new(self.figures.stream());
        let put = move |items| {
            let (store, figures, open) =
                (Arc::clone(&store), Arc::clone(&figures), Arc::clone(&open));
            async move {
                let acks = store.put(items).await;
                let statuses: Vec<Ack> = acks.iter().map(AckMessage::status).collect();
                figures.put(&statuses);
                drop(open);
                acks
            }
        };
        let acks = acknowledged(request.into_inner(), self.stopped(), MAX_ITEMS, put);
        Ok(Response::new(acks))
    }

    async fn put_discovered(
        &self,
        request: Request<Streaming<DiscoveredBatch>>,
    ) -> Reply<Replies<BatchAck>> {
        let (store, figures) = (Arc::clone(&self.store), Arc::clone(&self.figures));
        let open = Arc::new(self.figures.stream());
        let put = move |batches| {
            let (store, figures, open) =
                (Arc::clone(&store), Arc::clone(&figures), Arc::clone(&open));
            async move {
                let acks = store.put_batches(batches).await;
                let statuses: Vec<Ack> = acks.iter().flat_map(BatchAck::statuses).collect();
                figures.discovered(&statuses);
                drop(open);
                acks
            }
        };
        let acks = acknowledged(request.into_inner(), self.stopped(), MAX_BATCHES, put);
        Ok(Response::new(acks))
    }

    async fn block_queue_until(&self, request: Request<BlockQueueParams>) -> Reply<Empty> {
        let BlockQueueParams { key, time, .. } = request.into_inner();
        let key = queue_of(&key)?;
        let until = time_of(time, now())
            .ok_or_else(|| Status::invalid_argument("time is more than ten years ahead"))?;
        let frontier = &self.store.frontier;
        let mut blocked = frontier.block(key, until).await;
        if blocked
            .as_ref()
            .is_err_and(|error| error.word() == Some("NOCHG"))
            && until > 0
        {
            // Unlike CHG.BLOCK, CHG.LIMIT creates a group. The gap is removed again below.
            let gap = |millis| Limits {
                gap: Some(Duration::from_millis(millis)),
                ..Limits::default()
            };
            frontier.limit(key, &gap(1)).await.map_err(failed)?;
            blocked = frontier.block(key, until).await;
            frontier.limit(key, &gap(0)).await.map_err(failed)?;
        }
        match blocked {
            Err(error) if error.word() != Some("NOCHG") => Err(failed(error)),
            _ => Ok(Response::new(Empty {})),
        }
    }

    async fn set_delay(&self, request: Request<QueueDelayParams>) -> Reply<Empty> {
        let params = request.into_inner();
        let delay = span_of("delay_requestable", params.delay_requestable)?;
        match optional(&params.key)? {
            None => self.store.set_delay(delay).await.map_err(failed)?,
            Some(key) => {
                let limits = Limits {
                    delay: Some(Some(Duration::from_millis(delay))),
                    ..Limits::default()
                };
                self.store
                    .frontier
                    .limit(key, &limits)
                    .await
                    .map_err(failed)?;
            }
        }
        Ok(Response::new(Empty {}))
    }

    async fn get_stats(&self, request: Request<QueueWithinCrawlParams>) -> Reply<Stats> {
        let params = request.into_inner();
        let crawl = crawl_of(params.crawl_id)?;
        let key = optional(&params.key)?;
        let frontier = &self.store.frontier;
        let count = frontier
            .count(&crawl, key.map(str::as_bytes))
            .await
            .map_err(failed)?;
        let size = count.queued + count.leased;
        let (queues, active) = match key {
            Some(_) => (u64::from(count.known > 0), u64::from(size > 0)),
            None => {
                let info = frontier.info().await.map_err(failed)?;
                let active = info.groups_waiting + info.groups_ready + info.groups_busy;
                let active = active + info.groups_gated;
                (active + info.groups_idle, active)
            }
        };
        let counts = [
            ("completed", count.done + count.given_up),
            ("active_queues", active),
        ];
        Ok(Response::new(Stats {
            size,
            in_process: u32::try_from(count.leased).unwrap_or(u32::MAX),
            counts: counts.map(|(name, n)| (name.to_owned(), n)).into(),
            number_of_queues: queues,
            crawl_id: crawl,
        }))
    }

    async fn list_nodes(&self, _: Request<Empty>) -> Reply<StringList> {
        let values = vec![self.address.to_string()];
        Ok(Response::new(StringList { values }))
    }

    async fn list_crawls(&self, _: Request<Local>) -> Reply<StringList> {
        let values = self.store.crawls().await.map_err(failed)?;
        Ok(Response::new(StringList { values }))
    }

    async fn delete_crawl(&self, request: Request<DeleteCrawlMessage>) -> Reply<Long> {
        let crawl = crawl_of(request.into_inner().value)?;
        let value = self.store.delete_crawl(&crawl).await.map_err(failed)?;
        Ok(Response::new(Long { value }))
    }

    async fn list_queues(&self, request: Request<Pagination>) -> Reply<QueueList> {
        let params = request.into_inner();
        let crawl = crawl_of(params.crawl_id)?;
        let take = match params.size {
            0 => LISTED,
            size => MAX_LISTED.min(size as usize),
        };
        let range = (params.start as usize, take);
        let queues = self.store.queues(&crawl, params.include_inactive, range);
        let values = queues.await.map_err(failed)?;
        let info = self.store.frontier.info().await.map_err(failed)?;
        let total = info.groups_waiting + info.groups_ready + info.groups_busy + info.groups_gated;
        Ok(Response::new(QueueList {
            total,
            start: params.start,
            size: values.len() as u32,
            values,
            crawl_id: crawl,
        }))
    }

    async fn delete_queue(&self, request: Request<QueueWithinCrawlParams>) -> Reply<Long> {
        let params = request.into_inner();
        let (crawl, key) = (crawl_of(params.crawl_id)?, queue_of(&params.key)?);
        let value = self.store.delete_queue(&crawl, key).await.map_err(failed)?;
        Ok(Response::new(Long { value }))
    }

    async fn set_active(&self, request: Request<Active>) -> Reply<Empty> {
        let frontier = &self.store.frontier;
        let changed = if request.into_inner().state {
            frontier.resume(Held::Everything).await
        } else {
            frontier.pause(Held::Everything).await
        };
        changed.map_err(failed)?;
        Ok(Response::new(Empty {}))
    }

    async fn get_active(&self, _: Request<Local>) -> Reply<Boolean> {
        let info = self.store.frontier.info().await.map_err(failed)?;
        let state = info.paused != "all";
        Ok(Response::new(Boolean { state }))
    }

    async fn set_log_level(&self, request: Request<LogLevelParams>) -> Reply<Empty> {
        let params = request.into_inner();
        let (package, level) = (&params.package, params.level());
        tracing::info!(package, ?level, "SetLogLevel has no effect: use --log");
        Ok(Response::new(Empty {}))
    }

    async fn set_crawl_limit(&self, request: Request<CrawlLimitParams>) -> Reply<Empty> {
        let params = request.into_inner();
        let (crawl, key) = (crawl_of(params.crawl_id)?, queue_of(&params.key)?);
        let frontier = &self.store.frontier;
        let limited = frontier.limit_done(key, &crawl, params.limit.into()).await;
        limited.map_err(failed)?;
        Ok(Response::new(Empty {}))
    }

    async fn get_url_status(&self, request: Request<UrlStatusRequest>) -> Reply<UrlItem> {
        let UrlStatusRequest { url, key, crawl_id } = request.into_inner();
        let crawl = crawl_of(crawl_id)?;
        if url.is_empty() {
            return Err(Status::invalid_argument("url is empty"));
        }
        let known = self
            .store
            .frontier
            .known(&crawl, &[&url])
            .await
            .map_err(failed)?;
        let Some(known) = known.into_iter().next().flatten() else {
            return Err(Status::not_found("the crawl does not know this URL"));
        };
        let key = match &key[..] {
            "" => key_of(&url).unwrap_or_default().to_owned(),
            _ => key,
        };
        let due = match known.state {
            State::Queued | State::Leased => known.due,
            State::Done | State::GivenUp => None,
        };
        let item = known_item((url, key, crawl), due, Some(known.changed));
        Ok(Response::new(item))
    }

    async fn list_ur_ls(&self, request: Request<ListUrlParams>) -> Reply<Replies<UrlItem>> {
        let params = request.into_inner();
        let crawl = crawl_of(params.crawl_id)?;
        optional(&params.key)?;
        let (store, key) = (Arc::clone(&self.store), params.key);
        let filter = Filter::of(params.filter, params.ignore_case);
        let take = match params.size {
            0 => LISTED,
            size => size as usize,
        };
        let skip = params.start as usize;
        // The listing borrows the store, the key and the filter, so a task owns them.
        let (sender, receiver) = tokio::sync::mpsc::channel(16);
        tokio::spawn(async move {
            let key = Some(&key[..]).filter(|key| !key.is_empty());
            let urls = store.urls(&crawl, key, &filter).skip(skip).take(take);
            let items = urls.map_ok(|url| {
                let [uri, queue] = [url.uri, url.chg].map(lossy);
                known_item((uri, queue, crawl.clone()), url.due, url.changed)
            });
            let mut items = pin!(items);
            while let Some(item) = items.next().await {
                if sender.send(item.map_err(failed)).await.is_err() {
                    break;
                }
            }
        });
        let items = futures_util::stream::unfold(receiver, |mut receiver| async move {
            let item = receiver.recv().await?;
            Some((item, receiver))
        });
        Ok(Response::new(Box::pin(items)))
    }

    async fn count_ur_ls(&self, request: Request<CountUrlParams>) -> Reply<Long> {
        let params = request.into_inner();
        let crawl = crawl_of(params.crawl_id)?;
        let key = optional(&params.key)?;
        let filter = Filter::of(params.filter, params.ignore_case);
        let value = if filter.part.is_empty() {
            let count = self.store.frontier.count(&crawl, key.map(str::as_bytes));
            count.await.map_err(failed)?.known
        } else {
            let urls = self.store.urls(&crawl, key, &filter);
            let count = urls.try_fold(0, |count, _| std::future::ready(Ok(count + 1)));
            count.await.map_err(failed)?
        };
        Ok(Response::new(Long { value }))
    }

    async fn purge_ur_ls(&self, request: Request<PurgeUrlParams>) -> Reply<Long> {
        let params = request.into_inner();
        let crawl = crawl_of(params.crawl_id)?;
        let before = days_before(now(), params.days);
        let purged = self.store.purge(&crawl, optional(&params.key)?, before);
        let value = purged.await.map_err(failed)?;
        Ok(Response::new(Long { value }))
    }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns a URL with its date and the time of its last change, as in listings.
fn known_item(
    (url, key, crawl_id): (String, String, String),
    due: Option<Millis>,
    changed: Option<Millis>,
) -> UrlItem {
    let info = UrlInfo {
        url: url.clone(),
        key,
        metadata: HashMap::new(),
        crawl_id,
    };
    let known = KnownUrlItem {
        info: Some(info),
        refetchable_from_date: due.map_or(0, |due| due / 1000),
    };
    UrlItem {
        id: url,
        creation_date: changed.unwrap_or_default() / 1000,
        item: Some(url_item::Item::Known(known)),
    }
}

#[tonic::async_trait]
impl Health for Service {
    async fn check(&self, _: Request<HealthCheckRequest>) -> Reply<HealthCheckResponse> {
        let info = tokio::time::timeout(HEALTH, self.store.frontier.info());
        let status = match info.await {
            Ok(Ok(_)) => ServingStatus::Serving,
            _ => ServingStatus::NotServing,
        };
        Ok(Response::new(HealthCheckResponse {
            status: status.into(),
        }))
    }
}
