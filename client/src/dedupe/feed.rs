//! Bulk import of the records of one crawl: packs records into calls and calls into round trips,
//! and prepares the next round trips while one is in progress.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::{Added, Adding, Index, Sequence, Sharded};
use crate::{Batch, Code, Error, Pending, Server};

/// Maximum number of records per call. The server processes such a call in well under a
/// millisecond. A repeated run sends the same calls only if this limit has not changed, so the name
/// of the sequence must include the limit.
pub const RECORDS: usize = 250;
/// Size limit of a call in bytes: a call ends at this size even if it has fewer than [`RECORDS`] records.
pub const CALL_BYTES: usize = 256 << 10;
/// Maximum number of calls per round trip.
const CALLS: u64 = 8;
/// Size limit of a round trip in bytes: it ends at this size even if it has fewer than [`CALLS`] calls.
const TRIP_BYTES: usize = 1 << 20;
/// Number of round trips that are prepared while one is in progress.
const AHEAD: usize = 2;

/// An index whose records can be added by the calls of a [`Batch`].
pub trait BatchAdd: Sync {
    /// Returns the server of the index.
    fn server(&self) -> &Server;

    /// Queues the calls that add these records. Returns their pending replies.
    fn add_in_batch(
        &self,
        batch: &Batch,
        crawl: &[u8],
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> Vec<Pending<u64>>;
}

impl BatchAdd for Index {
    fn server(&self) -> &Server {
        self.server()
    }

    fn add_in_batch(
        &self,
        batch: &Batch,
        crawl: &[u8],
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> Vec<Pending<u64>> {
        vec![self.over(batch).add(crawl, adding, added)]
    }
}

/// Queues one call for each shard that has some of the records.
impl BatchAdd for Sharded {
    fn server(&self) -> &Server {
        self.server()
    }

    fn add_in_batch(
        &self,
        batch: &Batch,
        crawl: &[u8],
        adding: &Adding<'_>,
        added: &[Added<'_>],
    ) -> Vec<Pending<u64>> {
        self.add_parts(batch, crawl, adding, added)
    }
}

/// Packs records into calls. If a run is repeated, it must push the same records in the same order.
pub struct Feed<'a> {
    index: &'a dyn BatchAdd,
    crawl: &'a [u8],
    /// Prefix of the names of the sequences. Each position in a round trip has its own sequence,
    /// and the round trips are numbered. Therefore a refused call can be sent again even if later
    /// calls were accepted: these did not advance its sequence.
    writer: &'a str,
    number: u64,
    /// Hash, date and URL of all records, one after the other. `records` contains the end of each
    /// part.
    bytes: Vec<u8>,
    records: Vec<Ends>,
    trip: Trip,
    to_send: SyncSender<Trip>,
}

struct Ends {
    hash: usize,
    date: usize,
    url: usize,
    wacz_index: u64,
    size: u64,
}

/// The calls of one round trip, and their pending replies.
#[derive(Default)]
struct Trip {
    batch: Batch,
    replies: Vec<Pending<u64>>,
    calls: u64,
    bytes: usize,
}

/// Error of [`Feed::push`] after a call has failed. [`feed`] returns the cause.
#[derive(Clone, Copy, Debug)]
pub struct Refused;

/// Returns the name of the sequence for the calls at this position of their round trips.
pub fn writer_at(writer: &str, position: u64) -> String {
    format!("{writer} {position}")
}

/// Adds to a crawl the records that `fill` pushes. If several records have the same hash, keeps the
/// earliest, regardless of their order.
///
/// An interrupted run can be repeated any number of times: the server counts the same records with
/// the same writer name once.
///
/// # Errors
/// The error of `fill`, or the error of a call that failed.
pub fn feed<T, E: From<Error> + From<Refused>>(
    index: &dyn BatchAdd,
    crawl: &[u8],
    writer: &str,
    fill: impl FnOnce(&mut Feed<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let (to_send, to_be_sent) = sync_channel(AHEAD);
    let server = index.server();
    thread::scope(|scope| {
        let sender = scope.spawn(move || send(server, &to_be_sent));
        let mut feed = Feed {
            index,
            crawl,
            writer,
            number: 1,
            bytes: Vec::new(),
            records: Vec::new(),
            trip: Trip::default(),
            to_send,
        };
        let filled = fill(&mut feed).and_then(|filled| Ok(feed.finish().map(|()| filled)?));
        drop(feed);
        // The error of the server takes precedence, because it is the reason why `fill` stopped.
        match sender.join() {
            Ok(Ok(())) => filled,
            Ok(Err(error)) => Err(error.into()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

fn send(server: &Server, trips: &Receiver<Trip>) -> Result<(), Error> {
    for trip in trips {
        trip.batch.send(server)?;
        for reply in trip.replies {
            match reply.take() {
                Ok(_) => {}
                // An earlier run has already sent a later call of this sequence, so the server has counted
                // all calls of this round trip.
                Err(error) if error.code() == Some(Code::Stale) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

impl Feed<'_> {
    /// Adds a record. Sends a call when enough records are buffered.
    ///
    /// # Errors
    /// Fails if a call has failed. [`feed`] returns the cause.
    pub fn push(&mut self, record: Added<'_>) -> Result<(), Refused> {
        let mut end = |part: &[u8]| {
            self.bytes.extend_from_slice(part);
            self.bytes.len()
        };
        let ends = Ends {
            hash: end(record.hash),
            date: end(record.date),
            url: end(record.url),
            wacz_index: record.wacz_index,
            size: record.size,
        };
        self.records.push(ends);
        if self.records.len() == RECORDS || self.bytes.len() >= CALL_BYTES {
            self.call()?;
        }
        Ok(())
    }

    fn call(&mut self) -> Result<(), Refused> {
        let mut begin = 0;
        let added: Vec<Added<'_>> = self
            .records
            .iter()
            .map(|ends| {
                let record = Added {
                    hash: &self.bytes[begin..ends.hash],
                    wacz_index: ends.wacz_index,
                    date: &self.bytes[ends.hash..ends.date],
                    url: &self.bytes[ends.date..ends.url],
                    size: ends.size,
                };
                begin = ends.url;
                record
            })
            .collect();
        let writer = writer_at(self.writer, self.trip.calls);
        let sequence = Sequence {
            writer: writer.as_bytes(),
            number: self.number,
        };
        let adding = Adding {
            sequence: Some(sequence),
            earliest: true,
            ..Adding::default()
        };
        let batch = &self.trip.batch;
        let replies = self.index.add_in_batch(batch, self.crawl, &adding, &added);
        self.trip.replies.extend(replies);
        self.trip.calls += 1;
        self.trip.bytes += self.bytes.len();
        self.bytes.clear();
        self.records.clear();
        if self.trip.calls == CALLS || self.trip.bytes >= TRIP_BYTES {
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Refused> {
        let trip = std::mem::take(&mut self.trip);
        self.number += 1;
        self.to_send.send(trip).map_err(|_| Refused)
    }

    fn finish(&mut self) -> Result<(), Refused> {
        if !self.records.is_empty() {
            self.call()?;
        }
        if self.trip.calls > 0 {
            self.send()?;
        }
        Ok(())
    }
}
