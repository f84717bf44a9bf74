//! The HTTP server: connections, checks and headers common to all requests, and the operator's address.

pub(crate) mod append;
pub(crate) mod body;
pub(crate) mod gzip;
mod host;
pub(crate) mod indexes;
pub(crate) mod links;
pub(crate) mod listing;
mod origin;
pub(crate) mod output;
pub(crate) mod page;
mod plain;
pub(crate) mod records;
pub(crate) mod reply;
mod stall;
mod state;
pub(crate) mod target;

use std::collections::hash_map::RandomState;
use std::convert::Infallible;
use std::future::Future;
use std::hash::BuildHasher;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, HOST,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::Instrument;

use super::Federation;
use super::reload::Current;
use crawlspace_fetch::via::{Cycle, Via};

use self::body::Body;
use self::host::Accepted;
pub use self::plain::serve_metrics;
use self::reply::{empty, message};
use self::stall::StallTimeout;
use self::target::only_read;
use crate::routes;

/// Maximum size of the head of a request, in bytes.
const MAX_HEAD: usize = 128 * 1024;
/// Id of a request, which is also in the log.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Grace period of running requests when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Default maximum number of connections.
pub const CONNECTIONS: usize = 1024;

/// Options of a listener.
#[derive(Clone, Debug)]
pub struct Options {
    /// Timeout for receiving the head of a request, and for an idle connection.
    pub head: Duration,
    /// Timeout of a client that does not read the next bytes of a response.
    pub stall: Duration,
    /// Maximum number of connections; further connections wait.
    pub connections: usize,
    /// Logs each request.
    pub access_log: bool,
    /// Origin of pages that may read responses in a browser: `*`, or a single origin such as `https://replay.example`.
    pub allow_origin: Option<HeaderValue>,
    /// Serves only `/_status` and `/_metrics`, for the operator.
    pub operator: bool,
}

impl Options {
    /// Returns the number of file descriptors that the process may need: one per connection, open index and WARC files,
    /// and some for other servers and the process itself.
    pub fn descriptors(&self) -> u64 {
        let files = crawlspace_index::sorted::MAX_OPEN + crate::resource::MAX_OPEN_RECORDS;
        (self.connections + files + 128) as u64
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            head: Duration::from_secs(30),
            stall: Duration::from_secs(60),
            connections: CONNECTIONS,
            access_log: false,
            allow_origin: None,
            operator: false,
        }
    }
}

/// Returns the accepted connection. On an error, returns `None` after a short pause: the process is out of descriptors,
/// or the client has disconnected. Neither stops the server.
async fn stream_of(accepted: io::Result<(TcpStream, SocketAddr)>) -> Option<TcpStream> {
    match accepted {
        Ok((stream, _)) => Some(stream),
        Err(error) => {
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(20)).await;
            None
        }
    }
}

/// Serves requests until `stop` completes, and then lets running requests finish within a grace period. A request uses
/// the federation that is current when its head has arrived.
///
/// # Errors
/// Fails if no more connections can be accepted.
pub async fn serve(
    current: Arc<Current>,
    listener: TcpListener,
    options: Options,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(
        options.connections.min(Semaphore::MAX_PERMITS),
    ));
    if options.operator {
        let federation = current.federation();
        federation.net.refuse_operators(listener.local_addr()?);
    }
    let (options, address) = (Arc::new(options), listener.local_addr()?.ip());
    let (ending, ends) = watch::channel(false);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let place = tokio::select! {
            () = &mut stop => break,
            place = Arc::clone(&places).acquire_owned() => place,
        };
        let accepted = tokio::select! {
            () = &mut stop => break,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Some(stream) = stream_of(accepted).await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (current, options) = (Arc::clone(&current), Arc::clone(&options));
        let mut ends = ends.clone();
        connections.spawn(async move {
            let _place = place;
            let (head, stall) = (options.head, options.stall);
            let service = service_fn(move |request| {
                let (current, options) = (Arc::clone(&current), Arc::clone(&options));
                let answer = async move { logged(&current, request, address, &options).await };
                numbered(answer).map(Ok::<_, Infallible>)
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(head)
                .max_buf_size(MAX_HEAD)
                .serve_connection(TokioIo::new(StallTimeout::new(stream, stall)), service);
            let mut connection = pin!(connection);
            let outcome = tokio::select! {
                outcome = connection.as_mut() => outcome,
                _ = ends.changed() => {
                    connection.as_mut().graceful_shutdown();
                    connection.await
                }
            };
            if let Err(error) = outcome {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
    drop(listener);
    let _ = ending.send(true);
    if let Some(indexes) = &current.federation().indexes {
        indexes.stop();
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
    connections.shutdown().await;
    Ok(())
}

/// Adds an id to the response. The operator can find the request in the log by this id.
async fn numbered(answer: impl Future<Output = Response<Body>>) -> Response<Body> {
    static KEY: OnceLock<RandomState> = OnceLock::new();
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let id = KEY.get_or_init(RandomState::new).hash_one(number);
    let id = format!("{id:016x}");
    let span = tracing::error_span!("request", id);
    let mut response = answer.instrument(span).await;
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Answers a request, with all common headers. `address` is that of the listener.
async fn logged(
    current: &Current,
    request: Request<Incoming>,
    address: IpAddr,
    options: &Options,
) -> Response<Body> {
    let federation = current.federation();
    let about = options.access_log.then(|| {
        (
            Instant::now(),
            request.method().clone(),
            request.uri().clone(),
        )
    });
    let preflight = options.allow_origin.is_some()
        && request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    let mut hosts = request.headers().get_all(HOST).iter();
    let one_host = hosts.next().is_some() && hosts.next().is_none();
    let mut response = if !one_host && request.version() == Version::HTTP_11 {
        // RFC 9112, section 3.2.
        message(
            StatusCode::BAD_REQUEST,
            "the request must have one Host field",
        )
    } else if let Some(refused) = misdirected(&request, &federation, address, options) {
        refused
    } else if preflight {
        preflight_answer(request.headers())
    } else if head_size(&request) > MAX_HEAD {
        message(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            &format!("the head of the request has more than {MAX_HEAD} bytes"),
        )
    } else if options.operator {
        for_operator(current, &federation, &request).await
    } else if let Some(refused) = from_elsewhere(&request, &federation, options) {
        refused
    } else {
        match Via::of(request.headers()) {
            // Boxed, since a connection copies the future of its response.
            Ok(way) => {
                way.answer(routes::answer(federation, request).boxed())
                    .await
            }
            Err(Cycle) => message(StatusCode::LOOP_DETECTED, CYCLE),
        }
    };
    if let Some(origin) = &options.allow_origin {
        share(response.headers_mut(), origin);
    }
    if let Some((begun, method, uri)) = about {
        let millis = begun.elapsed().as_secs_f64() * 1000.0;
        let status = response.status().as_u16();
        tracing::info!(target: "access", %method, %uri, status, millis);
    }
    response
}

/// Refuses a request to another host. The operator's listener also accepts its own address, so that monitoring needs no
/// host name.
fn misdirected(
    request: &Request<Incoming>,
    federation: &Federation,
    address: IpAddr,
    options: &Options,
) -> Option<Response<Body>> {
    let public_url = federation.public_url.as_deref();
    let mut accepted = Accepted::at(address, &federation.config.hosts, public_url);
    accepted.local |= options.operator;
    accepted.misdirected(request)
}

/// Refuses a request from a page of another origin if the request changes state, here or at the server to which it is
/// forwarded. Reading changes nothing, except that job indexes may have to be built.
fn from_elsewhere(
    request: &Request<Incoming>,
    federation: &Federation,
    options: &Options,
) -> Option<Response<Body>> {
    let public_url = federation.public_url.as_deref();
    let allowed = options.allow_origin.as_ref();
    if request.uri().path().starts_with("/_indexes/") {
        origin::foreign(request, public_url, allowed)
    } else {
        origin::changing(request, public_url, allowed)
    }
}

/// Returns the size of a request's head in bytes, without insignificant parts.
fn head_size(request: &Request<Incoming>) -> usize {
    let uri = request.uri();
    let target = uri
        .path_and_query()
        .map_or(0, |target| target.as_str().len());
    let fields = request.headers().iter();
    // Size of `: ` and the line break.
    let sizes = fields.map(|(name, value)| name.as_str().len() + value.len() + 4);
    target + sizes.sum::<usize>()
}

const CYCLE: &str =
    "the request forms a cycle: a source of a collection leads back to that collection";

/// Allows pages of an origin to read a response (Fetch standard, CORS). A single named origin may also send
/// credentials, as browsers do when a service worker fetches a page for navigation.
fn share(headers: &mut HeaderMap, origin: &HeaderValue) {
    let any = HeaderValue::from_static("*");
    let exposed = if *origin == any {
        any
    } else {
        // In responses to requests with credentials, `*` is an ordinary header name.
        let names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        HeaderValue::try_from(names.join(", ")).unwrap_or(any)
    };
    if *origin != "*" {
        let yes = HeaderValue::from_static("true");
        headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
    }
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
}

/// Answers a CORS preflight request of a browser (Fetch standard).
fn preflight_answer(asked: &HeaderMap) -> Response<Body> {
    let mut response = empty(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    if let Some(method) = asked.get(ACCESS_CONTROL_REQUEST_METHOD) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method.clone());
    }
    if let Some(wanted) = asked.get(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

/// Answers at the operator's address: `/_status` and `/_metrics`.
async fn for_operator(
    current: &Current,
    federation: &Arc<Federation>,
    request: &Request<Incoming>,
) -> Response<Body> {
    if let Some(refused) = only_read(request.method()) {
        return refused;
    }
    match request.uri().path() {
        "/_status" => state::status(federation, &current.reloads()).await,
        "/_metrics" => state::metrics(federation, &current.reloads()).await,
        _ => message(
            StatusCode::NOT_FOUND,
            "this address serves only /_status and /_metrics",
        ),
    }
}
