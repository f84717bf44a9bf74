//! PutURLs and PutDiscovered: items become commands, and replies become acknowledgements.

use std::collections::HashMap;
use std::pin::Pin;

use crawlspace_client::frontier::{Discovered, Discovery, Settled, Uri};
use crawlspace_client::{Batch, Pending};
use futures_util::{FutureExt, Stream, StreamExt};
use prost::Message;
use tonic::{Status, Streaming};

use crate::input::{Item, time_of};
use crate::proto::ack_message::Status as Ack;
use crate::proto::url_item;
use crate::proto::{AckMessage, BatchAck, DiscoveredBatch, UrlItem};
use crate::service::{Stopped, now};
use crate::store::Store;

/// Maximum number of items of PutURLs that are read before they are acknowledged.
pub(crate) const MAX_ITEMS: usize = 1024;
/// Maximum number of batches of PutDiscovered that are read before they are acknowledged.
pub(crate) const MAX_BATCHES: usize = 16;
/// Size of the messages, in bytes, after which no further ones are read before they are acknowledged.
const MAX_BYTES: usize = 4 << 20;
/// Maximum number of URLs of a command. They take about 1.5 ms, during which the server runs no other command.
const SLICE: usize = 128;
/// Number of attempts to schedule a URL that other clients add at the same time.
const ATTEMPTS: u32 = 3;

/// The messages of a stream that are available, and the way it ended.
pub(crate) struct Chunk<T> {
    pub(crate) messages: Vec<T>,
    /// The end of the stream, once it has been read: an error, or none.
    pub(crate) end: Option<Option<Status>>,
}

/// Waits for a message, and reads those that follow without waiting.
pub(crate) async fn chunk<T: Message>(
    stream: &mut Streaming<T>,
    stopped: &Stopped,
    most: usize,
) -> Chunk<T> {
    let mut messages: Vec<T> = Vec::new();
    let mut bytes = 0;
    let first = tokio::select! {
        biased;
        () = stopped.wait() => {
            let end = Some(Some(Status::unavailable("the server is stopping")));
            return Chunk { messages, end };
        }
        first = stream.next() => first,
    };
    let mut next = Some(first);
    let mut end = None;
    while let Some(read) = next {
        match read {
            Some(Ok(message)) => {
                bytes += message.encoded_len();
                messages.push(message);
            }
            Some(Err(error)) => end = Some(Some(error)),
            None => end = Some(None),
        }
        if end.is_some() || messages.len() >= most || bytes >= MAX_BYTES {
            break;
        }
        next = stream.next().now_or_never();
    }
    Chunk { messages, end }
}

/// Turns chunks of a stream into acknowledgements. The next chunk is read when all acknowledgements of the previous one
/// have been sent.
pub(crate) fn acknowledged<T, A, F>(
    stream: Streaming<T>,
    stopped: Stopped,
    most: usize,
    put: impl Fn(Vec<T>) -> F + Send + 'static,
) -> Pin<Box<dyn Stream<Item = Result<A, Status>> + Send>>
where
    T: Message + Default + 'static,
    A: Send + 'static,
    F: Future<Output = Vec<A>> + Send,
{
    let state = (stream, Vec::new().into_iter(), None, stopped, put);
    Box::pin(futures_util::stream::unfold(
        state,
        move |state| async move {
            let (mut stream, mut acks, mut end, stopped, put) = state;
            loop {
                if let Some(ack) = acks.next() {
                    return Some((Ok(ack), (stream, acks, end, stopped, put)));
                }
                match end.take() {
                    Some(Some(error)) => {
                        return Some((Err(error), (stream, acks, Some(None), stopped, put)));
                    }
                    Some(None) => return None,
                    None => {}
                }
                let read = chunk(&mut stream, &stopped, most).await;
                end = read.end;
                acks = put(read.messages).await.into_iter();
            }
        },
    ))
}

/// The source of the status of an item of PutURLs.
enum Fate {
    /// The item itself.
    Decided(Ack),
    /// The outcome of the discovered item with this number.
    Discovered(usize),
    /// The outcome of the known item with this number.
    Known(usize),
    /// The outcome of an earlier known item with the same URL, by its number.
    After(usize),
}

impl Store {
    /// Adds or updates URLs. Returns one acknowledgement for each, in the same order.
    pub(crate) async fn put(&self, items: Vec<UrlItem>) -> Vec<AckMessage> {
        let now = now();
        let mut ids = Vec::with_capacity(items.len());
        let mut fates = Vec::with_capacity(items.len());
        let mut discovered: Vec<Item> = Vec::new();
        let mut known: Vec<(Item, Option<u64>)> = Vec::new();
        // Known items by crawl and URL: the last one counts.
        let mut places: HashMap<(String, String), usize> = HashMap::new();
        for UrlItem { id, item, .. } in items {
            let (info, date) = match item {
                Some(url_item::Item::Discovered(item)) => (item.info, None),
                Some(url_item::Item::Known(item)) => (item.info, Some(item.refetchable_from_date)),
                None => (None, None),
            };
            let info = info.unwrap_or_default();
            ids.push(match &id[..] {
                "" => info.url.clone(),
                _ => id,
            });
            let at = date.map(|date| match date {
                0 => Some(None),
                date => time_of(date, now).map(Some),
            });
            let (Some(item), Some(at)) = (Item::of(info), at.map_or(Some(None), |at| at.map(Some)))
            else {
                fates.push(Fate::Decided(Ack::Skipped));
                continue;
            };
            let named = at.is_some() || !places.is_empty();
            let place = named.then(|| (item.crawl.clone(), item.url.clone()));
            let earlier = place.as_ref().and_then(|place| places.get(place).copied());
            fates.push(match (at, earlier) {
                (None, Some(number)) => Fate::After(number),
                (None, None) => {
                    discovered.push(item);
                    Fate::Discovered(discovered.len() - 1)
                }
                (Some(at), Some(number)) => {
                    known[number] = (item, at);
                    Fate::Known(number)
                }
                (Some(at), None) => {
                    known.push((item, at));
                    places.extend(place.map(|place| (place, known.len() - 1)));
                    Fate::Known(known.len() - 1)
                }
            });
        }
        let found = self.discover(&discovered).await;
        let settled = self.settle(&known).await;
        let acks = ids.into_iter().zip(fates).map(|(id, fate)| {
            let status = match fate {
                Fate::Decided(status) => status,
                Fate::Discovered(number) => found[number],
                Fate::Known(number) => settled[number],
                Fate::After(number) => match settled[number] {
                    Ack::Fail => Ack::Fail,
                    _ => Ack::Skipped,
                },
            };
            AckMessage {
                id,
                status: status.into(),
            }
        });
        acks.collect()
    }

    /// Adds the URLs of batches. Returns one acknowledgement for each batch, in the same order.
    pub(crate) async fn put_batches(&self, batches: Vec<DiscoveredBatch>) -> Vec<BatchAck> {
        let mut items = Vec::new();
        let mut placed: Vec<(String, Vec<Option<usize>>)> = Vec::with_capacity(batches.len());
        for DiscoveredBatch { id, items: infos } in batches {
            let places = infos.into_iter().map(|info| {
                items.push(Item::of(info)?);
                Some(items.len() - 1)
            });
            let places = places.collect();
            placed.push((id, places));
        }
        let found = self.discover(&items).await;
        let acks = placed.into_iter().map(|(id, places)| BatchAck {
            id,
            statuses: places
                .into_iter()
                .map(|place| place.map_or(Ack::Skipped, |place| found[place]).into())
                .collect(),
        });
        acks.collect()
    }

    /// Queues the URLs that are unknown, and returns the status of each.
    async fn discover(&self, items: &[Item]) -> Vec<Ack> {
        let all: Vec<(&Item, u64)> = items.iter().map(|item| (item, 0)).collect();
        let found = self.discover_at(&all).await;
        let found = found.into_iter().map(|found| match found {
            Some(Discovered::New(_)) => Ack::Ok,
            Some(Discovered::Known | Discovered::Refused) => Ack::Skipped,
            None => Ack::Fail,
        });
        found.collect()
    }

    /// Queues the URLs that are unknown for a time. Returns the outcome of each; `None` if it is uncertain.
    async fn discover_at(&self, items: &[(&Item, u64)]) -> Vec<Option<Discovered>> {
        let mut found = self.discover_once(items).await;
        if matches!(found, Err(true)) && self.prepare().await.is_ok() {
            // The server has lost its data, and has a packed frontier again.
            found = self.discover_once(items).await;
        }
        found.unwrap_or_else(|_| vec![None; items.len()])
    }

    /// Queues URLs once. Fails with `true` if there is no packed frontier.
    async fn discover_once(&self, items: &[(&Item, u64)]) -> Result<Vec<Option<Discovered>>, bool> {
        let batch = Batch::new();
        let over = self.frontier.over(&batch);
        let mut asked: Vec<(Vec<usize>, Pending<Vec<Discovered>>)> = Vec::new();
        for (crawl, places) in by_crawl(items.iter().map(|(item, _)| *item)) {
            if self.note_crawl(crawl).await.is_err() {
                continue;
            }
            let (bare, with): (Vec<usize>, Vec<usize>) = places
                .into_iter()
                .partition(|place| items[*place].0.payload.is_empty());
            for slice in bare.chunks(SLICE) {
                let uris: Vec<Uri<'_>> = slice.iter().map(|place| uri(&items[*place])).collect();
                let pending = over.discover(crawl, &Discovery::default(), &uris);
                asked.push((slice.to_vec(), pending));
            }
            for slice in with.chunks(SLICE) {
                let uris = slice.iter().map(|place| {
                    let item = &items[*place];
                    (uri(item), &item.0.payload[..])
                });
                let uris: Vec<(Uri<'_>, &[u8])> = uris.collect();
                let pending = over.discover_payloads(crawl, &Discovery::default(), &uris);
                asked.push((slice.to_vec(), pending));
            }
        }
        // Each answer tells whether it was sent.
        let _ = batch.send_async(self.frontier.server()).await;
        let mut found = vec![None; items.len()];
        for (places, pending) in asked {
            match pending.take() {
                Ok(outcomes) => {
                    for (place, outcome) in places.into_iter().zip(outcomes) {
                        found[place] = Some(outcome);
                    }
                }
                Err(error) if error.word() == Some("PLAIN") => return Err(true),
                Err(error) => tracing::warn!(%error, "URLs were not added"),
            }
        }
        Ok(found)
    }

    /// Ends the URLs, or schedules those with a time. A URL is named once.
    async fn settle(&self, items: &[(Item, Option<u64>)]) -> Vec<Ack> {
        let mut statuses = vec![Ack::Fail; items.len()];
        let mut left: Vec<usize> = (0..items.len()).collect();
        for _ in 0..ATTEMPTS {
            if left.is_empty() {
                break;
            }
            let outcomes = self.settle_once(items, &left).await;
            for (place, outcome) in left.iter().zip(&outcomes) {
                statuses[*place] = outcome.unwrap_or(Ack::Fail);
            }
            let again = left.into_iter().zip(outcomes);
            left = again
                .filter_map(|(place, outcome)| outcome.is_none().then_some(place))
                .collect();
        }
        statuses
    }

    /// Settles URLs once. Returns the status of each; `None` if another client added it at the same time.
    ///
    /// `CHG.SETTLE` has no payload. So a URL that is to be fetched again is ended, forgotten, and discovered with its
    /// date and metadata.
    async fn settle_once(
        &self,
        items: &[(Item, Option<u64>)],
        places: &[usize],
    ) -> Vec<Option<Ack>> {
        let mut statuses: HashMap<usize, Ack> = HashMap::new();
        let batch = Batch::new();
        let over = self.frontier.over(&batch);
        let mut asked = Vec::new();
        for (crawl, numbers) in by_crawl(places.iter().map(|place| &items[*place].0)) {
            if self.note_crawl(crawl).await.is_err() {
                continue;
            }
            let numbers: Vec<usize> = numbers.into_iter().map(|number| places[number]).collect();
            for slice in numbers.chunks(SLICE) {
                let urls = slice.iter().map(|place| Settled {
                    chg: items[*place].0.key.as_bytes(),
                    uri: items[*place].0.url.as_bytes(),
                    at: None,
                });
                let ended = over.settle(crawl, None, &urls.collect::<Vec<_>>());
                let due = slice.iter().filter(|place| items[**place].1.is_some());
                let due: Vec<&[u8]> = due.map(|place| items[*place].0.url.as_bytes()).collect();
                let forgotten = over.forget(crawl, &due);
                asked.push((slice.to_vec(), ended, forgotten));
            }
        }
        let _ = batch.send_async(self.frontier.server()).await;
        let mut due: Vec<usize> = Vec::new();
        let mut lost = false;
        for (slice, ended, forgotten) in asked {
            let (ended, forgotten) = (ended.take(), forgotten.take());
            if let Some(error) = ended.as_ref().err().or(forgotten.as_ref().err()) {
                lost |= error.word() == Some("PLAIN");
                tracing::warn!(%error, "URLs were not updated");
            }
            let (Ok(ended), Ok(_)) = (ended, forgotten) else {
                continue;
            };
            for (place, changed) in slice.into_iter().zip(ended) {
                match (changed, items[place].1) {
                    (None, _) => drop(statuses.insert(place, Ack::Skipped)),
                    (Some(_), None) => drop(statuses.insert(place, Ack::Ok)),
                    (Some(_), Some(_)) => due.push(place),
                }
            }
        }
        if lost && let Err(error) = self.prepare().await {
            tracing::warn!(%error, "there is no packed frontier");
        }
        let scheduled: Vec<(&Item, u64)> = due
            .iter()
            .map(|place| (&items[*place].0, items[*place].1.unwrap_or(0)))
            .collect();
        let found = self.discover_at(&scheduled).await;
        let mut raced = Vec::new();
        for (place, found) in due.into_iter().zip(found) {
            match found {
                Some(Discovered::New(_)) => drop(statuses.insert(place, Ack::Ok)),
                Some(Discovered::Refused) => drop(statuses.insert(place, Ack::Skipped)),
                Some(Discovered::Known) => raced.push(place),
                None => {}
            }
        }
        let outcomes = places.iter().map(|place| {
            let decided = !raced.contains(place);
            decided.then(|| statuses.get(place).copied().unwrap_or(Ack::Fail))
        });
        outcomes.collect()
    }
}

fn uri<'a>((item, at): &(&'a Item, u64)) -> Uri<'a> {
    Uri {
        chg: item.key.as_bytes(),
        at: *at,
        depth: 0,
        uri: item.url.as_bytes(),
    }
}

/// Groups the numbers of items by crawl, in the order in which the crawls first occur.
fn by_crawl<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<(&'a str, Vec<usize>)> {
    let mut groups: Vec<(&str, Vec<usize>)> = Vec::new();
    let mut places: HashMap<&str, usize> = HashMap::new();
    for (number, item) in items.enumerate() {
        let crawl = &item.crawl[..];
        // Most items have the crawl of the previous one.
        let last = groups.last().is_some_and(|(last, _)| *last == crawl);
        let place = if last {
            groups.len() - 1
        } else {
            *places.entry(crawl).or_insert_with(|| {
                groups.push((crawl, Vec::new()));
                groups.len() - 1
            })
        };
        groups[place].1.push(number);
    }
    groups
}
