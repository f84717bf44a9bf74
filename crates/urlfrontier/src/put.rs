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
/// Maximum number of URLs of a command. Such a command takes about 1.5 ms, during which the server runs no other
/// command.
const SLICE: usize = 128;

/// The messages of a stream that are available, and the way it ended.
pub(crate) struct Chunk<T> {
    pub(crate) messages: Vec<T>,
    /// Set once the end of the stream has been read; contains the error that ended the stream, if any.
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

/// Determines the status of an item of PutURLs.
enum Fate {
    /// This status, which was decided without the server.
    Decided(Ack),
    /// The outcome of the discovered item with this number.
    Discovered(usize),
    /// The outcome of the known item with this number.
    Known(usize),
}

/// Items that were read together, without those that can never be accepted.
#[derive(Default)]
struct Items {
    /// Known items, with their due time; `None` if they are completed.
    known: Vec<(Item, Option<u64>)>,
    discovered: Vec<Item>,
}

/// The statuses of [`Items`].
struct Statuses {
    known: Vec<Ack>,
    discovered: Vec<Ack>,
}

/// The numbers of the items that a command contains, and the pending answer.
type Asked<T> = (Vec<usize>, Pending<Vec<T>>);

impl Store {
    /// Adds or updates URLs. Returns one acknowledgement for each, in the same order. If a URL occurs several times, the
    /// last of its known items is used.
    pub(crate) async fn put(&self, items: Vec<UrlItem>) -> Vec<AckMessage> {
        let now = now();
        let mut ids = Vec::with_capacity(items.len());
        let mut fates = Vec::with_capacity(items.len());
        let mut accepted = Items::default();
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
            fates.push(match (Item::of(info), at) {
                (None, _) | (_, Some(None)) => Fate::Decided(Ack::Skipped),
                (Some(item), None) => {
                    accepted.discovered.push(item);
                    Fate::Discovered(accepted.discovered.len() - 1)
                }
                (Some(item), Some(Some(at))) => {
                    accepted.known.push((item, at));
                    Fate::Known(accepted.known.len() - 1)
                }
            });
        }
        let statuses = self.send(&accepted).await;
        let acks = ids.into_iter().zip(fates).map(|(id, fate)| {
            let status = match fate {
                Fate::Decided(status) => status,
                Fate::Discovered(number) => statuses.discovered[number],
                Fate::Known(number) => statuses.known[number],
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
        let mut items = Items::default();
        let discovered = &mut items.discovered;
        let mut placed: Vec<(String, Vec<Option<usize>>)> = Vec::with_capacity(batches.len());
        for DiscoveredBatch { id, items: infos } in batches {
            let places = infos.into_iter().map(|info| {
                discovered.push(Item::of(info)?);
                Some(discovered.len() - 1)
            });
            let places = places.collect();
            placed.push((id, places));
        }
        let found = self.send(&items).await.discovered;
        let acks = placed.into_iter().map(|(id, places)| BatchAck {
            id,
            statuses: places
                .into_iter()
                .map(|place| place.map_or(Ack::Skipped, |place| found[place]).into())
                .collect(),
        });
        acks.collect()
    }

    /// Sends items to the server of the module, and returns their statuses.
    async fn send(&self, items: &Items) -> Statuses {
        let mut statuses = self.send_once(items).await;
        if statuses.is_none() && self.prepare().await.is_ok() {
            // The server had lost its data; `prepare` has created the packed frontier again.
            statuses = self.send_once(items).await;
        }
        statuses.unwrap_or_else(|| Statuses {
            known: vec![Ack::Fail; items.known.len()],
            discovered: vec![Ack::Fail; items.discovered.len()],
        })
    }

    /// Sends items once. Returns `None` if there is no packed frontier.
    async fn send_once(&self, items: &Items) -> Option<Statuses> {
        let batch = Batch::new();
        let over = self.frontier.over(&batch);
        let mut settled: Vec<Asked<Option<bool>>> = Vec::new();
        // Known items come first, so that a URL that is also among the discovered items counts as known.
        for (crawl, places) in by_crawl(items.known.iter().map(|(item, _)| item)) {
            if self.note_crawl(crawl).await.is_err() {
                continue;
            }
            for slice in places.chunks(SLICE) {
                let urls = slice.iter().map(|place| {
                    let (item, at) = &items.known[*place];
                    let settled = Settled {
                        chg: item.key.as_bytes(),
                        uri: item.url.as_bytes(),
                        at: *at,
                    };
                    let payload = at.map_or(&[][..], |_| &item.payload);
                    (settled, payload)
                });
                let pending = over.settle_payloads(crawl, None, &urls.collect::<Vec<_>>());
                settled.push((slice.to_vec(), pending));
            }
        }
        let mut found: Vec<Asked<Discovered>> = Vec::new();
        for (crawl, places) in by_crawl(items.discovered.iter()) {
            if self.note_crawl(crawl).await.is_err() {
                continue;
            }
            let (bare, with): (Vec<usize>, Vec<usize>) = places
                .into_iter()
                .partition(|place| items.discovered[*place].payload.is_empty());
            for slice in bare.chunks(SLICE) {
                let uris = slice.iter().map(|place| uri(&items.discovered[*place]));
                let uris: Vec<Uri<'_>> = uris.collect();
                let pending = over.discover(crawl, &Discovery::default(), &uris);
                found.push((slice.to_vec(), pending));
            }
            for slice in with.chunks(SLICE) {
                let uris = slice.iter().map(|place| {
                    let item = &items.discovered[*place];
                    (uri(item), &item.payload[..])
                });
                let uris: Vec<(Uri<'_>, &[u8])> = uris.collect();
                let pending = over.discover_payloads(crawl, &Discovery::default(), &uris);
                found.push((slice.to_vec(), pending));
            }
        }
        // Each answer records whether it was sent.
        let _ = batch.send_async(self.frontier.server()).await;
        let known = statuses_of(items.known.len(), settled, |changed| match changed {
            Some(_) => Ack::Ok,
            None => Ack::Skipped,
        })?;
        let discovered = statuses_of(items.discovered.len(), found, |found| match found {
            Discovered::New(_) => Ack::Ok,
            Discovered::Known | Discovered::Refused => Ack::Skipped,
        })?;
        Some(Statuses { known, discovered })
    }
}

fn uri(item: &Item) -> Uri<'_> {
    Uri {
        chg: item.key.as_bytes(),
        at: 0,
        depth: 0,
        uri: item.url.as_bytes(),
    }
}

/// Returns the statuses of items from answers, each with the numbers of its items. Items without an answer have failed.
/// Returns `None` if there is no packed frontier.
fn statuses_of<T>(
    number: usize,
    answers: Vec<Asked<T>>,
    status: impl Fn(T) -> Ack,
) -> Option<Vec<Ack>> {
    let mut statuses = vec![Ack::Fail; number];
    for (places, answer) in answers {
        match answer.take() {
            Ok(outcomes) => {
                for (place, outcome) in places.into_iter().zip(outcomes) {
                    statuses[place] = status(outcome);
                }
            }
            Err(error) if error.word() == Some("PLAIN") => return None,
            Err(error) => tracing::warn!(%error, "URLs were not added or updated"),
        }
    }
    Some(statuses)
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
