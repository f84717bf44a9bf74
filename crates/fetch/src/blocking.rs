//! Blocking requests, for callers without a runtime of their own.
//!
//! All callers share one current-thread runtime: every thread that waits in `block_on` also drives the requests of the
//! other threads. On a thread of a server's runtime that is allowed to block, [`send_over`] uses that runtime and its
//! [`Net`] instead.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use futures_util::stream::StreamExt;
use http::HeaderMap;
use tokio::runtime::{Builder, Handle, Runtime};
use url::Url;

use super::{BodyStream, Error, Guard, Net, Request};
use crate::source::Limits;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// A [`Net`] per guard, which keeps the connections of all its callers.
static NETS: Mutex<Vec<Arc<Net>>> = Mutex::new(Vec::new());

/// Window over which the transfer rate of a body is measured.
const PACE_WINDOW: Duration = Duration::from_secs(60);

/// A response whose head has been received; reading its body blocks the thread.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    /// The URL of the response, after redirects.
    pub url: Url,
    /// The body.
    pub body: Body,
}

/// Sends a request and waits for the head of the response, as [`Net::send`] does. Without a guard, every address is
/// permitted and the proxies of the environment are used. A body that arrives at less than `pace` bytes per second,
/// averaged over each minute, fails with an error.
///
/// # Errors
/// The errors of [`Net::send`], and [`Error::Connection`] if TLS or the runtime cannot be set up.
pub fn send(
    request: Request,
    guard: Option<&Guard>,
    limits: &Limits,
    pace: u64,
) -> Result<Response, Error> {
    let net = shared(guard)?;
    let answer = runtime()?.block_on(net.send(request, limits))?;
    Ok(Response::of(answer, None, pace))
}

/// Sends a request as [`send`] does, through the `net` of the current runtime. Must be called on a thread of that
/// runtime that is allowed to block.
///
/// # Errors
/// The errors of [`Net::send`].
///
/// # Panics
/// Panics outside of a runtime, and on a thread of a runtime that must not block.
pub fn send_over(
    net: &Arc<Net>,
    request: Request,
    limits: &Limits,
    pace: u64,
) -> Result<Response, Error> {
    let runtime = Handle::current();
    let answer = runtime.block_on(net.send(request, limits))?;
    Ok(Response::of(answer, Some(runtime), pace))
}

/// Blocks until a future that does network I/O is ready, on the current runtime or on the shared one.
pub fn wait(awaited: BoxFuture<'static, ()>) {
    if let Ok(server) = Handle::try_current() {
        return server.block_on(awaited);
    }
    loop {
        match runtime() {
            Ok(runtime) => return runtime.block_on(awaited),
            // No runtime can be created: the process is out of file descriptors.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl Response {
    fn of(answer: super::Response, runtime: Option<Handle>, pace: u64) -> Response {
        Response {
            status: answer.status,
            headers: answer.headers,
            url: answer.url,
            body: Body {
                pieces: answer.body,
                piece: Bytes::new(),
                pace: Pace::new(pace),
                runtime,
            },
        }
    }
}

fn shared(guard: Option<&Guard>) -> Result<Arc<Net>, Error> {
    let mut nets = NETS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(net) = nets.iter().find(|net| net.guard.as_ref() == guard) {
        return Ok(Arc::clone(net));
    }
    let net = Net::with(guard.cloned()).map_err(Error::Connection)?;
    nets.push(Arc::clone(&net));
    Ok(net)
}

fn runtime() -> Result<&'static Runtime, Error> {
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Error::Connection(format!("no connections: {error}")))?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// The body of a response. Read errors wrap an [`Error`].
pub struct Body {
    pieces: BodyStream,
    piece: Bytes,
    pace: Pace,
    /// The runtime that drives the body; `None` for the shared runtime of this module.
    runtime: Option<Handle>,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let next = match &self.runtime {
                Some(runtime) => runtime.block_on(self.pieces.next()).transpose(),
                None => {
                    runtime().and_then(|runtime| runtime.block_on(self.pieces.next()).transpose())
                }
            };
            let next = next.map(Option::unwrap_or_default);
            let paced = next.and_then(|piece| self.pace.count(piece.len()).map(|()| piece));
            self.piece = paced.map_err(io::Error::other)?;
        }
        let n = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..n]);
        Ok(n)
    }
}

/// Enforces a minimum transfer rate: a server that sends a byte now and then never triggers the silence timeout.
struct Pace {
    least: u64,
    since: Instant,
    count: u64,
}

impl Pace {
    fn new(least: u64) -> Pace {
        Pace {
            least,
            since: Instant::now(),
            count: 0,
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), Error> {
        self.count += bytes as u64;
        let elapsed = self.since.elapsed();
        if elapsed < PACE_WINDOW {
            return Ok(());
        }
        if self.count < self.least.saturating_mul(elapsed.as_secs()) {
            return Err(Error::Connection(format!(
                "the server sends fewer than {} bytes per second",
                self.least
            )));
        }
        *self = Pace::new(self.least);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_must_come_at_some_pace() {
        let of = |seconds, count| Pace {
            least: 1000,
            since: Instant::now() - Duration::from_secs(seconds),
            count,
        };
        assert!(of(0, 0).count(1).is_ok());
        assert!(of(59, 0).count(1).is_ok(), "it is too early to say");
        assert!(of(70, 1000).count(1).is_err());
        let mut pace = of(60, 10_000_000);
        assert!(pace.count(1).is_ok());
        assert_eq!(pace.count, 0, "what came before is no credit");
    }
}
