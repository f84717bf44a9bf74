//! The body of a response, with limits on time and bytes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::Incoming;
use tokio::time::{Instant, Sleep, sleep};

use super::connection::Connection;
use super::pool::{Pool, Server};
use super::unpack::Unpack;
use super::{Error, innermost};

/// A body that is streamed as it arrives. Dropping the body closes the connection,
/// unless the body was read to its end.
pub(super) struct Body {
    /// The open connection. `None` after the end, and after an error.
    open: Option<Open>,
    unpack: Option<Unpack>,
    silence: Duration,
    timer: Pin<Box<Sleep>>,
    /// True while the silence timer is running.
    waits: bool,
    most: u64,
    /// Number of bytes received, and number of bytes returned after decompression.
    came: u64,
    given: u64,
}

struct Open {
    connection: Connection,
    incoming: Incoming,
    pool: Arc<Pool>,
    server: Server,
}

impl Body {
    pub(crate) fn new(
        (connection, incoming): (Connection, Incoming),
        (pool, server): (Arc<Pool>, Server),
        is_gzip: bool,
        silence: Duration,
        most: u64,
    ) -> Body {
        Body {
            open: Some(Open {
                connection,
                incoming,
                pool,
                server,
            }),
            unpack: is_gzip.then(Unpack::default),
            silence,
            timer: Box::pin(sleep(silence)),
            waits: false,
            most,
            came: 0,
            given: 0,
        }
    }

    /// Returns the next bytes of the body as they were sent, before decompression.
    fn poll_packed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(open) = &mut self.open else {
            return Poll::Ready(None);
        };
        let came = match open.connection.poll_body(&mut open.incoming, cx) {
            Poll::Ready(came) => came,
            Poll::Pending => {
                if !self.waits {
                    self.waits = true;
                    self.timer.as_mut().reset(Instant::now() + self.silence);
                }
                if self.timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                self.open = None;
                return Poll::Ready(Some(Err(Error::Silence)));
            }
        };
        self.waits = false;
        match came {
            Some(Ok(bytes)) => {
                self.came = self.came.saturating_add(bytes.len() as u64);
                if self.came > self.most {
                    self.open = None;
                    return Poll::Ready(Some(Err(too_large(self.most))));
                }
                Poll::Ready(Some(Ok(bytes)))
            }
            Some(Err(error)) => {
                self.open = None;
                let why = format!("connection lost: {}", innermost(&error));
                Poll::Ready(Some(Err(Error::Connection(why))))
            }
            None => {
                if let Some(Open {
                    mut connection,
                    pool,
                    server,
                    ..
                }) = self.open.take()
                    && connection.poll_is_free(cx)
                    && connection.poll_is_free(cx)
                {
                    pool.put(server, connection);
                }
                Poll::Ready(None)
            }
        }
    }

    fn poll_unpacked(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        loop {
            if let Some(unpack) = &mut self.unpack {
                match unpack.next() {
                    Ok(Some(piece)) => return Poll::Ready(Some(Ok(piece))),
                    Ok(None) => {}
                    Err(why) => {
                        return Poll::Ready(Some(Err(self.give_up(Error::Answer(why)))));
                    }
                }
            }
            let came = match self.poll_packed(cx) {
                Poll::Ready(came) => came,
                Poll::Pending => return Poll::Pending,
            };
            match (came, &mut self.unpack) {
                (Some(Ok(packed)), Some(unpack)) => unpack.feed(packed),
                (None, Some(unpack)) => {
                    let complete = unpack.is_complete();
                    self.unpack = None;
                    let cut = || Error::Answer("its gzip data is truncated".to_owned());
                    return Poll::Ready((!complete).then(|| Err(cut())));
                }
                (came, _) => return Poll::Ready(came),
            }
        }
    }

    fn give_up(&mut self, error: Error) -> Error {
        self.open = None;
        self.unpack = None;
        error
    }
}

impl Stream for Body {
    type Item = Result<Bytes, Error>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        let next = match body.poll_unpacked(cx) {
            Poll::Ready(next) => next,
            Poll::Pending => return Poll::Pending,
        };
        Poll::Ready(match next {
            Some(Ok(bytes)) => {
                body.given = body.given.saturating_add(bytes.len() as u64);
                if body.given > body.most {
                    Some(Err(body.give_up(too_large(body.most))))
                } else {
                    Some(Ok(bytes))
                }
            }
            Some(Err(error)) => Some(Err(body.give_up(error))),
            None => None,
        })
    }
}

pub(super) fn too_large(most: u64) -> Error {
    Error::TooLarge(format!("its answer is larger than {most} bytes"))
}
