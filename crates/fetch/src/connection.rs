//! An HTTP/1.1 connection to a server, which carries one exchange at a time.
//!
//! The task that waits for a response also drives the connection, which has no separate task: dropping the
//! future closes the connection and frees its memory immediately.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

/// Maximum size of a response head, in bytes. The `Link` fields of Memento archives are the longest in practice.
const MAX_HEAD: usize = 128 << 10;

/// The transport of a connection: TCP, TLS, or TLS inside the TLS connection to a proxy.
pub(super) type Wire = Box<dyn Io>;

/// A byte stream in both directions.
pub(super) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// An HTTP/1.1 connection to a server.
pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Drives the connection. `None` once the connection is closed.
    driver: Option<http1::Connection<TokioIo<Wire>, Full<Bytes>>>,
    /// The error that closed the connection, if any.
    broken: Option<hyper::Error>,
}

impl Connection {
    pub(crate) async fn new(wire: Wire) -> Result<Connection, hyper::Error> {
        let (sender, driver) = http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            // Parse leniently, because some archives run very old servers.
            .allow_spaces_after_header_name_in_responses(true)
            .allow_obsolete_multiline_headers_in_responses(true)
            .ignore_invalid_headers_in_responses(true)
            .handshake(TokioIo::new(wire))
            .await?;
        Ok(Connection {
            sender,
            driver: Some(driver),
            broken: None,
        })
    }

    /// Sends a request and waits for the head of the response.
    pub(crate) async fn ask(
        &mut self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<http::Response<Incoming>, hyper::Error> {
        let mut answer = pin!(self.sender.send_request(request));
        let (driver, broken) = (&mut self.driver, &mut self.broken);
        poll_fn(|cx| {
            drive(driver, broken, cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Returns the next bytes of a body, `None` at its end.
    pub(crate) fn poll_body(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        loop {
            // First return the bytes that were already received.
            let mut frame = Pin::new(&mut *body).poll_frame(cx);
            if frame.is_pending() {
                drive(&mut self.driver, &mut self.broken, cx);
                frame = Pin::new(&mut *body).poll_frame(cx);
            }
            return match frame {
                Poll::Pending => Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => Poll::Ready(Some(Ok(data))),
                    // Skip trailers, because the request did not ask for any.
                    _ => continue,
                },
                Poll::Ready(Some(Err(error))) => {
                    Poll::Ready(Some(Err(self.broken.take().unwrap_or(error))))
                }
                Poll::Ready(None) => Poll::Ready(self.broken.take().map(Err)),
            };
        }
    }

    /// Returns true if the connection can carry another exchange, that is, it is not known to be closed or
    /// broken.
    pub(crate) fn poll_is_free(&mut self, cx: &mut Context<'_>) -> bool {
        drive(&mut self.driver, &mut self.broken, cx);
        self.driver.is_some() && self.sender.is_ready()
    }
}

fn drive(
    driver: &mut Option<http1::Connection<TokioIo<Wire>, Full<Bytes>>>,
    broken: &mut Option<hyper::Error>,
    cx: &mut Context<'_>,
) {
    if let Some(running) = driver
        && let Poll::Ready(ended) = Pin::new(running).poll(cx)
    {
        *driver = None;
        *broken = ended.err();
    }
}
