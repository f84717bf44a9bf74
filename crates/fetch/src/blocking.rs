//! Requests of callers that wait for them.
//!
//! They share one runtime without a thread of its own: whoever waits drives it, for the others as well. On threads of a
//! server that may wait, its own runtime does it, over its own way to other servers.

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
/// A way to other servers for each guard; it keeps the connections of all callers.
static NETS: Mutex<Vec<Arc<Net>>> = Mutex::new(Vec::new());

/// Time over which the pace of a body is measured.
const PACE_WINDOW: Duration = Duration::from_secs(60);

/// An answer whose head is there, and whose body blocks the thread that reads it.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The header.
    pub headers: HeaderMap,
    /// Where it came from after redirects.
    pub url: Url,
    /// The body.
    pub body: Body,
}

/// Sends a request as [`Net::send`] does. Without a guard any address may be connected to, and the proxies of the
/// environment are used. A body that comes at less than `pace` bytes per second, over each minute, is an error.
///
/// # Errors
/// As [`Net::send`].
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

/// Sends a request as [`send`] does, over the way to other servers of a runtime, on a thread of it that may wait.
///
/// # Errors
/// As [`Net::send`].
///
/// # Panics
/// Outside of a runtime, and on a thread of it that must not wait.
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

/// Waits for something that other servers have part in.
pub fn wait(awaited: BoxFuture<'static, ()>) {
    if let Ok(server) = Handle::try_current() {
        return server.block_on(awaited);
    }
    loop {
        match runtime() {
            Ok(runtime) => return runtime.block_on(awaited),
            // The system has no descriptors left for one.
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

/// The body of an answer. What goes wrong with it is an [`Error`] within that of reading it.
pub struct Body {
    pieces: BodyStream,
    piece: Bytes,
    pace: Pace,
    /// What drives it, in place of the runtime of this module.
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

/// Checks the pace of a body: a server that sends a byte now and then is never silent.
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
