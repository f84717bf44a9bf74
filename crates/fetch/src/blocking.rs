//! Blocking requests, for callers that have no async runtime.
//!
//! All callers share one current-thread runtime: every thread that waits in `block_on` also drives the requests of the
//! other threads. On a thread of a server's runtime that is allowed to block, [`Client::over`] uses that runtime and its
//! [`Net`] instead.

use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, TryStreamExt};
use tokio::runtime::{Builder, Handle, Runtime};

use super::{BodyStream, Error, Guard, Net, Request};
use crate::source::Limits;

static RUNTIME: OnceLock<Runtime> = OnceLock::new();
/// One [`Net`] for each guard. All callers with the same guard share its connections.
static NETS: Mutex<Vec<Arc<Net>>> = Mutex::new(Vec::new());

/// Window over which the transfer rate of a body is measured.
const PACE_WINDOW: Duration = Duration::from_secs(60);

/// A response whose head has been received; reading its body blocks the thread.
pub type Response = super::Response<Body>;

/// A [`Net`], and the runtime on which callers block.
#[derive(Clone, Debug)]
pub struct Client {
    /// The network of the client.
    pub net: Arc<Net>,
    /// The runtime; `None` for the shared runtime of this module.
    runtime: Option<Handle>,
}

impl Client {
    /// Creates a client on the shared runtime. Without a guard, every address is permitted and the proxies of the
    /// environment are used.
    ///
    /// # Errors
    /// [`Error::Connection`] if TLS cannot be set up.
    pub fn new(guard: Option<&Guard>) -> Result<Client, Error> {
        let (net, runtime) = (shared(guard)?, None);
        Ok(Client { net, runtime })
    }

    /// Creates a client with the `net` of the current runtime. The client must be used on threads of that
    /// runtime that are allowed to block.
    ///
    /// # Panics
    /// Panics outside of a runtime.
    pub fn over(net: &Arc<Net>) -> Client {
        let (net, runtime) = (Arc::clone(net), Some(Handle::current()));
        Client { net, runtime }
    }

    /// Blocks until a future is ready.
    ///
    /// # Errors
    /// [`Error::Connection`] if the runtime cannot be set up.
    pub fn wait<T>(&self, awaited: impl Future<Output = T>) -> Result<T, Error> {
        Ok(match &self.runtime {
            Some(runtime) => runtime.block_on(awaited),
            None => runtime()?.block_on(awaited),
        })
    }

    /// Sends a request and waits for the head of the response, as [`Net::send`] does. A body that arrives at less than
    /// `pace` bytes per second, averaged over each minute, fails with an error.
    ///
    /// # Errors
    /// Fails with the errors of [`Net::send`] and [`wait`](Client::wait).
    pub fn send(&self, request: Request, limits: &Limits, pace: u64) -> Result<Response, Error> {
        let answer = self.wait(self.net.send(request, limits))??;
        Ok(Response {
            status: answer.status,
            headers: answer.headers,
            url: answer.url,
            body: self.body(paced(answer.body, pace)),
        })
    }

    /// Returns a reader of a body, whose errors wrap an [`Error`].
    pub fn body(&self, pieces: BodyStream) -> Body {
        self.read(pieces.map_err(io::Error::other).boxed())
    }

    pub(super) fn read(&self, pieces: BoxStream<'static, io::Result<Bytes>>) -> Body {
        let (client, piece) = (self.clone(), Bytes::new());
        Body {
            pieces,
            piece,
            client,
        }
    }
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
    let runtime = runtime.map_err(|error| {
        Error::Connection(format!(
            "cannot create the runtime for connections: {error}"
        ))
    })?;
    Ok(RUNTIME.get_or_init(|| runtime))
}

/// A reader of the pieces of a body or a file.
pub struct Body {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    piece: Bytes,
    client: Client,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.piece.is_empty() {
            let next = self.client.wait(self.pieces.next());
            self.piece = next
                .map_err(io::Error::other)?
                .transpose()?
                .unwrap_or_default();
        }
        let n = self.piece.len().min(into.len());
        self.piece.copy_to_slice(&mut into[..n]);
        Ok(n)
    }
}

/// Returns a body that fails if it arrives at less than `least` bytes per second.
pub(super) fn paced(body: BodyStream, least: u64) -> BodyStream {
    let mut pace = Pace::new(least);
    let mut counted = move |piece: Bytes| pace.count(piece.len()).map(|()| piece);
    body.map(move |piece| piece.and_then(&mut counted)).boxed()
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
    fn slow_body_is_given_up() {
        let of = |seconds, count| Pace {
            least: 1000,
            since: Instant::now() - Duration::from_secs(seconds),
            count,
        };
        assert!(of(0, 0).count(1).is_ok());
        assert!(of(59, 0).count(1).is_ok(), "the first minute is not over");
        assert!(of(70, 1000).count(1).is_err());
        let mut pace = of(60, 10_000_000);
        assert!(pace.count(1).is_ok());
        assert_eq!(pace.count, 0, "bytes of an earlier minute do not count");
    }
}
