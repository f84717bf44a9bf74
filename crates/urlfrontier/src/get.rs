//! Implements GetURLs: leases groups, and returns their URLs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crawlspace_client::frontier::{Lease, Next};
use futures_util::Stream;
use prost::Message;
use tonic::Status;

use crate::figures::Figures;
use crate::input::{crawl_of, queue_of, span_of};
use crate::proto::get_params::Item;
use crate::proto::{GetParams, UrlInfo};
use crate::store::{Store, status_of};

/// Time in seconds for which a client holds URLs unless it says otherwise.
const HOLD: u32 = 30;
/// Maximum number of URLs of a queue in one call.
const MAX_URLS: u32 = 1000;
/// Maximum number of URLs that one command leases from several queues; one queue alone may give up to [`MAX_URLS`].
/// Leasing these URLs takes about 3 ms, during which the server runs no other command.
const SLICE: u32 = 200;

/// A valid request.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// A single queue.
    key: Option<String>,
    queues: u32,
    next: Next,
}

impl Wanted {
    /// Checks a request. Returns `None` if it can have no result.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the crawl, the queue or the time is out of range.
    pub(crate) fn of(params: GetParams) -> Result<Option<Wanted>, Status> {
        let crawl = match params.item {
            Some(Item::CrawlId(crawl)) => Some(crawl_of(crawl)?),
            Some(Item::AnyCrawlId(_)) | None => None,
        };
        let key = match &params.key[..] {
            "" => None,
            key => Some(queue_of(key)?.to_owned()),
        };
        if key.is_some() && crawl.is_none() {
            return Ok(None);
        }
        let hold = match params.delay_requestable {
            0 => HOLD,
            hold => hold,
        };
        let uris = match params.max_urls_per_queue {
            0 => MAX_URLS,
            most => most.min(MAX_URLS),
        };
        let queues = match params.max_queues {
            0 => u32::MAX,
            most => most,
        };
        Ok(Some(Wanted {
            key,
            queues,
            next: Next {
                lease: Some(Duration::from_millis(span_of("delay_requestable", hold)?)),
                execution: crawl.map(String::into_bytes),
                uris: Some(uris),
                ..Next::default()
            },
        }))
    }
}

/// The rest of a request.
struct Rest {
    store: Arc<Store>,
    figures: Arc<Figures>,
    wanted: Wanted,
    /// URLs that are leased and not sent yet.
    urls: std::vec::IntoIter<UrlInfo>,
    /// Queues that this request has leased. If a queue without a delay is leased again, all other due
    /// queues were leased before, and the request ends.
    seen: HashSet<Vec<u8>>,
    done: bool,
    begun: Instant,
    sent: u64,
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.figures.got(self.sent, self.begun.elapsed());
    }
}

/// Leases URLs and returns them. The next ones are leased when the previous ones have been sent.
pub(crate) fn urls(
    store: Arc<Store>,
    figures: Arc<Figures>,
    wanted: Option<Wanted>,
) -> impl Stream<Item = Result<UrlInfo, Status>> + Send {
    let rest = wanted.map(|wanted| Rest {
        store,
        figures,
        wanted,
        urls: Vec::new().into_iter(),
        seen: HashSet::new(),
        done: false,
        begun: Instant::now(),
        sent: 0,
    });
    futures_util::stream::unfold(rest, |rest| async move {
        let mut rest = rest?;
        loop {
            if let Some(url) = rest.urls.next() {
                rest.sent += 1;
                return Some((Ok(url), Some(rest)));
            }
            if rest.done {
                return None;
            }
            if let Err(error) = rest.lease().await {
                return Some((Err(error), None));
            }
        }
    })
}

impl Rest {
    async fn lease(&mut self) -> Result<(), Status> {
        let delay = self
            .store
            .delay()
            .await
            .map_err(|error| status_of(&error))?;
        let wanted = &mut self.wanted;
        wanted.next.gate = Some(Duration::from_millis(delay));
        let frontier = &self.store.frontier;
        let leases: Vec<Lease> = if let Some(key) = &wanted.key {
            self.done = true;
            match frontier.next_in(key, &wanted.next).await {
                Ok(lease) => lease.into_iter().collect(),
                Err(error) if error.word() == Some("NOCHG") => Vec::new(),
                Err(error) => return Err(status_of(&error)),
            }
        } else {
            let uris = wanted.next.uris.unwrap_or(1).max(1);
            let count = (SLICE / uris).max(1).min(wanted.queues);
            wanted.next.count = count;
            let leases = frontier.next(&wanted.next).await;
            let leases = leases.map_err(|error| status_of(&error))?;
            let got = u32::try_from(leases.len()).unwrap_or(u32::MAX);
            wanted.queues = wanted.queues.saturating_sub(got);
            self.done = got < count || wanted.queues == 0;
            leases
        };
        for lease in &leases {
            if !self.seen.insert(lease.chg.clone()) {
                self.done = true;
            }
        }
        self.urls = leases
            .into_iter()
            .flat_map(infos)
            .collect::<Vec<_>>()
            .into_iter();
        Ok(())
    }
}

/// Returns the URLs of a lease. Omits those that a message cannot contain because they are not UTF-8.
fn infos(lease: Lease) -> impl Iterator<Item = UrlInfo> {
    let key = String::from_utf8(lease.chg);
    let crawl_id = lease.execution.map_or(Ok(String::new()), String::from_utf8);
    lease.uris.into_iter().filter_map(move |leased| {
        let url = String::from_utf8(leased.uri);
        let (Ok(url), Ok(key), Ok(crawl_id)) = (url, &key, &crawl_id) else {
            tracing::warn!("a leased URL is not UTF-8, so it cannot be delivered");
            return None;
        };
        // Other programs may have added the URL with a payload of their own.
        let payload = leased.payload.unwrap_or_default();
        let metadata = UrlInfo::decode(&payload[..]).unwrap_or_default().metadata;
        Some(UrlInfo {
            url,
            key: key.clone(),
            metadata,
            crawl_id: crawl_id.clone(),
        })
    })
}
