//! A connection in the middle of an exchange: what is still to be sent, what was received and not used, and how long
//! all of it may take.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use super::outgoing::Body;
use crate::Error;
use crate::connection::Wire;
use crate::source::Limits;
use crawlspace_warc::http::{self, Head, MAX_HEAD, Status};

/// Size of a read, in bytes.
const READ_SIZE: usize = 16 * 1024;
/// Maximum number of interim answers (1xx) before the final one.
const MAX_INTERIM: usize = 16;
/// Maximum timeout: a longer one could be beyond what a clock can count.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A connection on which one request is sent, and one answer read, at the same time.
pub(super) struct Dialogue {
    stream: ReadHalf<Wire>,
    /// What was received and not used yet.
    pub buffer: BytesMut,
    /// The request, as long as not all of it was sent.
    upload: Option<BoxFuture<'static, Result<(), Error>>>,
    /// Why the request could not be sent: a server may answer all the same.
    unsent: Option<Error>,
    until: Instant,
    limits: Limits,
}

/// The deadline that is `limit` from now.
pub(super) fn deadline(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit.min(MAX_TIMEOUT)).unwrap_or(now)
}

enum Event {
    Sent(Result<(), Error>),
    Received(io::Result<usize>),
}

impl Dialogue {
    pub(crate) fn new(
        stream: Wire,
        head: Vec<u8>,
        body: Body,
        until: Instant,
        limits: &Limits,
    ) -> Dialogue {
        let (read, write) = tokio::io::split(stream);
        Dialogue {
            stream: read,
            buffer: BytesMut::new(),
            upload: Some(upload(write, head, body, limits.silence).boxed()),
            unsent: None,
            until,
            limits: *limits,
        }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Reads the header of the answer, past interim ones.
    pub(super) async fn answer(&mut self) -> Result<Head<Status>, Error> {
        for _ in 0..=MAX_INTERIM {
            let head = self.head().await?;
            match head.first.code {
                101 => return Err(wrong("it changes to another protocol, unasked")),
                100..=199 => {}
                _ => return Ok(head),
            }
        }
        Err(wrong("it sends one interim answer after the other"))
    }

    async fn head(&mut self) -> Result<Head<Status>, Error> {
        let mut seen = 0;
        let mut until = None;
        loop {
            // Some servers send a line end after the body before, or before the answer.
            if seen == 0 {
                let blank = self
                    .buffer
                    .iter()
                    .take_while(|byte| matches!(byte, b'\r' | b'\n'));
                let blank = blank.take(4).count();
                let _ = self.buffer.split_to(blank);
            }
            let known = self.buffer.len().min(7);
            if self.buffer.get(..known) != b"HTTP/1.".get(..known) {
                // Nothing that comes later could make it one of HTTP/1.
                let begin = self
                    .buffer
                    .get(..self.buffer.len().min(60))
                    .unwrap_or_default();
                Status::read(begin).map_err(Error::Answer)?;
            }
            if let Some(length) = http::length(&self.buffer, seen) {
                if length > MAX_HEAD {
                    return Err(too_long());
                }
                let raw = self.buffer.split_to(length).freeze();
                return Head::new(raw, Status::read).map_err(Error::Answer);
            }
            seen = self.buffer.len();
            if seen > MAX_HEAD {
                return Err(too_long());
            }
            // The wait for an answer begins when all of the request was sent.
            let until = match self.upload {
                Some(_) => self.until,
                None => *until.get_or_insert_with(|| deadline(self.limits.first)),
            };
            match self.step(until).await? {
                None | Some(1..) => {}
                Some(0) => {
                    return Err(self.unsent.take().unwrap_or_else(|| match seen {
                        0 => Error::Connection(
                            "the server closed the connection without an answer".to_owned(),
                        ),
                        _ => cut_off(),
                    }));
                }
            }
        }
    }

    /// Receives more; 0 is the end of what comes.
    pub(crate) async fn fill(&mut self) -> Result<usize, Error> {
        loop {
            let until = deadline(self.limits.silence);
            if let Some(received) = self.step(until).await? {
                return Ok(received);
            }
        }
    }

    /// Receives more, or ends the sending, in which case there is no number.
    async fn step(&mut self, until: Instant) -> Result<Option<usize>, Error> {
        let until = until.min(self.until);
        self.buffer.reserve(READ_SIZE);
        let upload = self.upload.as_mut();
        let sent = async {
            match upload {
                Some(upload) => upload.await,
                None => std::future::pending().await,
            }
        };
        let event = async {
            tokio::select! {
                biased;
                received = self.stream.read_buf(&mut self.buffer) => Event::Received(received),
                result = sent => Event::Sent(result),
            }
        };
        match timeout_at(until, event).await {
            Err(_) => Err(Error::Timeout),
            Ok(Event::Sent(result)) => {
                self.upload = None;
                self.unsent = result.err();
                Ok(None)
            }
            Ok(Event::Received(Ok(received))) => Ok(Some(received)),
            // Of TLS: the connection was closed without the farewell that tells it from one that was cut.
            Ok(Event::Received(Err(error))) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(cut_off())
            }
            Ok(Event::Received(Err(error))) => {
                Err(Error::Connection(format!("the connection broke: {error}")))
            }
        }
    }
}

/// Sends a request. That the server takes nothing for too long is an error.
async fn upload(
    mut stream: WriteHalf<Wire>,
    head: Vec<u8>,
    body: Body,
    silence: Duration,
) -> Result<(), Error> {
    let mut send = async |bytes: Bytes| -> Result<(), Error> {
        let broken =
            |error: io::Error| Error::Connection(format!("the request could not be sent: {error}"));
        let mut bytes = bytes;
        while !bytes.is_empty() {
            let sent = timeout(silence, stream.write_buf(&mut bytes)).await;
            if sent.map_err(|_| Error::Timeout)?.map_err(broken)? == 0 {
                return Err(broken(io::ErrorKind::WriteZero.into()));
            }
        }
        let flushed = timeout(silence, stream.flush()).await;
        flushed.map_err(|_| Error::Timeout)?.map_err(broken)
    };
    send(Bytes::from(head)).await?;
    match body {
        Body::None => {}
        Body::Bytes(bytes) => send(bytes).await?,
        Body::Stream(length, mut stream) => {
            let broken = |why: String| Error::Connection(format!("the body of the request: {why}"));
            let mut left = length;
            while let Some(bytes) = stream.next().await {
                let bytes = bytes.map_err(broken)?;
                left = left
                    .checked_sub(bytes.len() as u64)
                    .ok_or_else(|| broken(format!("it is longer than {length} bytes")))?;
                send(bytes).await?;
            }
            if left > 0 {
                return Err(broken(format!("it is shorter than {length} bytes")));
            }
        }
    }
    Ok(())
}

pub(super) fn wrong(what: impl Into<String>) -> Error {
    Error::Answer(what.into())
}

pub(super) fn cut_off() -> Error {
    Error::Connection("the answer is cut off".to_owned())
}

fn too_long() -> Error {
    Error::TooLarge(format!(
        "the header of the answer is longer than {MAX_HEAD} bytes"
    ))
}
