//! A connection in the middle of an exchange: the request that is still being sent, bytes that were received and not
//! consumed yet, and the deadline for the whole exchange.

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
/// Maximum number of interim responses (1xx) before the final one.
const MAX_INTERIM: usize = 16;
/// Maximum timeout. A longer timeout could overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// A connection that sends one request and reads its response at the same time.
pub(super) struct Dialogue {
    stream: ReadHalf<Wire>,
    /// Bytes received and not consumed yet.
    pub buffer: BytesMut,
    /// The request, until all of it is sent.
    upload: Option<BoxFuture<'static, Result<(), Error>>>,
    /// The error that stopped the sending of the request. The server may still send a response.
    unsent: Option<Error>,
    until: Instant,
    limits: Limits,
}

/// Returns the deadline that is `limit` from now.
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

    /// Reads the header of the final response, skipping interim ones.
    pub(super) async fn answer(&mut self) -> Result<Head<Status>, Error> {
        for _ in 0..=MAX_INTERIM {
            let head = self.head().await?;
            match head.first.code {
                101 => {
                    return Err(wrong(
                        "it switches to another protocol, which was not requested",
                    ));
                }
                100..=199 => {}
                _ => return Ok(head),
            }
        }
        Err(wrong("it sends too many interim responses (status 1xx)"))
    }

    async fn head(&mut self) -> Result<Head<Status>, Error> {
        let mut seen = 0;
        let mut until = None;
        loop {
            // Some servers send a line break after the previous body, or before the response.
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
                // The first bytes are not the beginning of an HTTP/1 response, so reading more bytes is
                // pointless.
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
            // The timeout for the response starts when the whole request has been sent.
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

    /// Receives more bytes. Returns the number of received bytes, or 0 at the end of the stream.
    pub(crate) async fn fill(&mut self) -> Result<usize, Error> {
        loop {
            let until = deadline(self.limits.silence);
            if let Some(received) = self.step(until).await? {
                return Ok(received);
            }
        }
    }

    /// Waits until bytes are received, and returns their number, or until the request has been sent, and returns
    /// `None`.
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
            // TLS: the connection was closed without a `close_notify` alert, so the response may have been
            // truncated.
            Ok(Event::Received(Err(error))) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(cut_off())
            }
            Ok(Event::Received(Err(error))) => {
                Err(Error::Connection(format!("the connection broke: {error}")))
            }
        }
    }
}

/// Sends a request. Fails if the server accepts no bytes for longer than `silence`.
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
    Error::Connection("the response is truncated".to_owned())
}

fn too_long() -> Error {
    Error::TooLarge(format!(
        "the header of the answer is longer than {MAX_HEAD} bytes"
    ))
}
