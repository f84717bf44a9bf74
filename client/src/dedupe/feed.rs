//! Many records of one crawl: put into calls, and calls into round trips, one of which is under way while the next ones
//! are made ready.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::{Added, Adding, Index, Sequence};
use crate::{Batch, Code, Error, Pending, Server};

/// Maximum number of records in a call: what the server does in well under a millisecond. It is part of what makes a
/// second run send the same calls, and so belongs into the name of their sequence.
pub const RECORDS: usize = 250;
/// Size of the records that ends a call before it has all of [`RECORDS`], in bytes.
pub const CALL_BYTES: usize = 256 << 10;
/// Maximum number of calls in a round trip.
const CALLS: u64 = 8;
/// Size of the records that ends a round trip before it has all of [`CALLS`], in bytes.
const TRIP_BYTES: usize = 1 << 20;
/// Number of round trips that are prepared while one is under way.
const AHEAD: usize = 2;

/// Takes records, in the order in which a second run would give the same ones.
pub struct Feed<'a> {
    prefix: &'a [u8],
    crawl: &'a [u8],
    /// What the names of the sequences begin with. Each place in a round trip has a sequence of its own, and the
    /// trips are numbered: a call that is refused while those behind it are not can then be sent again, because
    /// no other call has counted beyond it.
    writer: &'a str,
    number: u64,
    /// Hash, date and URL of the records, and where each of these ends.
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

/// Calls of one round trip, and where their replies will be.
#[derive(Default)]
struct Trip {
    batch: Batch,
    replies: Vec<Pending<u64>>,
    bytes: usize,
}

/// Error of [`Feed::push`] after a call has failed; [`feed`] gives the reason.
#[derive(Clone, Copy, Debug)]
pub struct Refused;

/// The name of the sequence of the calls at this position in their round trips.
pub fn writer_at(writer: &str, position: u64) -> String {
    format!("{writer} {position}")
}

/// Adds what `fill` gives to a crawl, the earliest record of a hash in whatever order they come. The same records with
/// the same name of a writer count once, however often and wherever this was cut off.
///
/// # Errors
/// That of `fill`, or that of a call that failed.
pub fn feed<T, E: From<Error> + From<Refused>>(
    index: &Index,
    crawl: &[u8],
    writer: &str,
    fill: impl FnOnce(&mut Feed<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let (to_send, to_be_sent) = sync_channel(AHEAD);
    let server = index.server();
    thread::scope(|scope| {
        let sender = scope.spawn(move || send(server, &to_be_sent));
        let mut feed = Feed {
            prefix: index.prefix(),
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
        // What the server said comes first: it is why the other side broke off.
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
                // An earlier run was further: it got to a later trip, and so all of this one had been done.
                Err(error) if error.code() == Some(Code::Stale) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

impl Feed<'_> {
    /// Adds a record, and sends a call when enough of them are there.
    ///
    /// # Errors
    /// When a call has failed; [`feed`] gives its error.
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
        let place = self.trip.replies.len() as u64;
        let writer = writer_at(self.writer, place);
        let sequence = Sequence {
            writer: writer.as_bytes(),
            number: self.number,
        };
        let adding = Adding {
            sequence: Some(sequence),
            earliest: true,
            ..Adding::default()
        };
        let index = Index::on(&self.trip.batch, self.prefix);
        let reply = index.add(self.crawl, &adding, &added);
        self.trip.replies.push(reply);
        self.trip.bytes += self.bytes.len();
        self.bytes.clear();
        self.records.clear();
        if place + 1 == CALLS || self.trip.bytes >= TRIP_BYTES {
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
        if !self.trip.replies.is_empty() {
            self.send()?;
        }
        Ok(())
    }
}
