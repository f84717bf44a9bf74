//! Guarded HTTP and S3 requests to other servers.
//!
//! Private, loopback and link-local addresses are refused unless the configuration allows them. The crate
//! resolves host names itself, requests connect to exactly the addresses that were checked, and every
//! redirect is checked again. Callers without a [`Guard`] may connect to any address. The proxy environment
//! variables are honoured only for these callers, because a proxy would bypass the guard. [`blocking`] is for
//! callers that block until the response arrives.
//!
//! An `s3` URL is fetched over HTTP or HTTPS from the object store that the environment configures, whose address is
//! checked like any other. [`RemoteFile`](file::RemoteFile) is for files of which parts are read repeatedly.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, StreamExt};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, PROXY_AUTHORIZATION,
    RANGE, USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Position, Url};

use crate::source::Limits;

pub mod blocking;
mod body;
mod connect;
mod connection;
mod error;
pub mod exchange;
pub mod file;
mod guard;
mod names;
mod pool;
pub mod range;
mod redirect;
pub mod s3;
pub mod source;
mod unpack;
pub mod via;

use body::{Body, too_large};
use connect::server_of;
use connection::Connection;
pub use crawlspace_retry::Backoff;
pub use error::Error;
use error::innermost;
use file::Files;
pub use guard::{Guard, Network};
use names::Names;
use pool::{Pool, Server};

/// Compiles and runs the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// HTTP statuses after which a request is retried, because the next response may differ. The guides list
/// these statuses (`docs/guide/wacz.md`). For index servers, 500 is final: the index cannot be built.
pub const RETRIED_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// Returns true if a retry may succeed after this HTTP status.
pub fn is_transient(status: u16) -> bool {
    RETRIED_STATUSES.contains(&status)
}

/// `User-Agent` of all requests.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("crawlspace/", env!("CARGO_PKG_VERSION")));
/// Maximum number of redirects that are followed for one request.
const MAX_REDIRECTS: usize = 10;

/// The HTTP client that all requests to other servers share: guard, resolver cache, connection pool.
pub struct Net {
    /// The guard. Without a guard, every address is permitted.
    guard: Option<Guard>,
    /// Proxies of the environment. Only used without a guard, since a proxy connects to any address.
    proxies: Option<Matcher>,
    names: Names,
    tls: TlsConnector,
    pool: Arc<Pool>,
    /// The address of this server's operator listener.
    operator: OnceLock<SocketAddr>,
    /// The object store for `s3` URLs, or the reason why the environment variables are invalid.
    store: Result<s3::Store, String>,
    files: Files,
}

/// A request to an index, or for a part of a file. [`Net::send`] follows redirects.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `HEAD` or `POST`; only `GET` for an `s3` URL.
    pub method: Method,
    /// An `http`, `https` or `s3` URL.
    pub url: Url,
    /// Header fields in addition to those of every request.
    pub headers: HeaderMap,
    /// The body of a `POST`.
    pub body: Bytes,
}

impl Request {
    /// Creates a `GET` request without extra header fields.
    pub fn get(url: Url) -> Request {
        Request {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }
}

/// A response whose head has been received and whose body is read as it arrives.
pub struct Response<B = BodyStream> {
    /// The HTTP status.
    pub status: u16,
    /// The header fields.
    pub headers: HeaderMap,
    /// The URL of the response, after redirects.
    pub url: Url,
    /// The decompressed body. Reading fails if the body is truncated, or exceeds a limit on time or bytes.
    pub body: B,
}

/// A response body as a stream of its pieces.
pub type BodyStream = BoxStream<'static, Result<Bytes, Error>>;

impl Net {
    /// Creates a client that refuses private addresses, except those in `allow_private`.
    ///
    /// # Errors
    /// Fails if TLS cannot be set up; the text contains the reason.
    pub fn new(allow_private: &[Network]) -> Result<Arc<Net>, String> {
        Net::with(Some(Guard::new(allow_private)))
    }

    /// Creates a client with a guard, or without one, in which case it uses the proxies of the environment.
    fn with(guard: Option<Guard>) -> Result<Arc<Net>, String> {
        Ok(Arc::new(Net {
            proxies: guard.is_none().then(Matcher::from_env),
            guard,
            names: Names::new(),
            tls: TlsConnector::from(Arc::new(connect::web_tls()?)),
            pool: Arc::new(Pool::new()),
            operator: OnceLock::new(),
            store: s3::Store::from_env(),
            files: Files::default(),
        }))
    }

    /// Refuses requests to the operator listener of this server, even if `allow_private` permits its address.
    pub fn refuse_operators(&self, address: SocketAddr) {
        let _ = self.operator.set(address);
    }

    /// Returns the address that [`Net::refuse_operators`] refuses, if it was set.
    pub fn operator(&self) -> Option<SocketAddr> {
        self.operator.get().copied()
    }

    /// Sends a request, over an idle connection of the pool if there is one, and follows up to ten redirects.
    ///
    /// # Errors
    /// Fails if no head of a response arrives in time. A response with an error status is `Ok`, not
    /// `Err`.
    pub async fn send(&self, request: Request, limits: &Limits) -> Result<Response, Error> {
        let mut request = request;
        let mut object = None;
        if request.url.scheme() == s3::SCHEME {
            object = Some(self.sign(&mut request)?);
        }
        for _ in 0..=MAX_REDIRECTS {
            let mut answer = self.send_once(&request, limits).await?;
            match redirect::next(&request, &answer)? {
                Some(next) => (request, object) = (next, None),
                None => {
                    // Return the `s3` URL: relative URLs must resolve to objects, and the signature must not
                    // leak.
                    answer.url = object.unwrap_or(answer.url);
                    return Ok(answer);
                }
            }
        }
        Err(Error::Answer(format!(
            "it redirects more than {MAX_REDIRECTS} times"
        )))
    }

    /// Replaces the `s3` URL of a request with a signed URL of its store. Returns the `s3` URL.
    fn sign(&self, request: &mut Request) -> Result<Url, Error> {
        if request.method != Method::GET {
            let why = format!("only GET is supported for {}", request.url);
            return Err(Error::Request(why));
        }
        let store = self.store.as_ref();
        let store = store.map_err(|why| Error::Refused(format!("{}: {why}", request.url)))?;
        let signed = store.sign(&request.url)?;
        Ok(std::mem::replace(&mut request.url, signed))
    }

    /// Sends a request without following redirects.
    ///
    /// # Errors
    /// Fails if no head of a response arrives in time. A response with an error status is `Ok`.
    pub async fn send_once(&self, request: &Request, limits: &Limits) -> Result<Response, Error> {
        let server = server_of(&request.url)?;
        let unpacks =
            !request.headers.contains_key(ACCEPT_ENCODING) && !request.headers.contains_key(RANGE);
        // TLS requests are tunnelled, so their request line has the same form as without a proxy.
        let proxy = self.proxy(&request.url).filter(|_| !server.0);
        let deadline = Instant::now() + limits.first;
        // The server may have closed an idle connection, which is only noticed when it is used. Therefore,
        // only requests that may safely be sent twice use idle connections.
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        if let Some(mut connection) = self.kept(&server).await.filter(|_| safe) {
            let asked = connection.ask(message(request, unpacks, proxy.as_ref())?);
            match timeout_at(deadline, asked).await {
                Err(_) => return Err(Error::Timeout),
                Ok(Ok(answer)) => {
                    return self.answer(request, server, unpacks, limits, (connection, answer));
                }
                Ok(Err(error)) if error.is_parse() => return Err(no_answer(&error)),
                Ok(Err(_)) => {}
            }
        }
        let connecting = self.connect(&request.url, limits.connect);
        let (wire, _) = timeout_at(deadline, connecting)
            .await
            .map_err(|_| Error::Timeout)??;
        let mut connection = Connection::new(wire)
            .await
            .map_err(|error| no_answer(&error))?;
        let asked = connection.ask(message(request, unpacks, proxy.as_ref())?);
        let asked = timeout_at(deadline, asked)
            .await
            .map_err(|_| Error::Timeout)?;
        let answer = asked.map_err(|error| no_answer(&error))?;
        self.answer(request, server, unpacks, limits, (connection, answer))
    }

    /// Returns an idle connection to a server that is not known to be closed.
    async fn kept(&self, server: &Server) -> Option<Connection> {
        loop {
            let mut connection = self.pool.take(server)?;
            let is_free =
                std::future::poll_fn(|cx| std::task::Poll::Ready(connection.poll_is_free(cx)));
            if is_free.await {
                return Some(connection);
            }
        }
    }

    fn answer(
        &self,
        request: &Request,
        server: Server,
        unpacks: bool,
        limits: &Limits,
        (mut connection, answer): (Connection, http::Response<Incoming>),
    ) -> Result<Response, Error> {
        let (head, incoming) = answer.into_parts();
        let mut headers = head.headers;
        // Fail early if the announced length exceeds the limit.
        if incoming.size_hint().lower() > limits.bytes {
            return Err(too_large(limits.bytes));
        }
        let is_gzip = unpacks && is_gzip(&headers);
        if is_gzip {
            headers.remove(CONTENT_ENCODING);
            headers.remove(CONTENT_LENGTH);
        }
        let body = if incoming.is_end_stream() {
            let waker = futures_util::task::noop_waker();
            if connection.poll_is_free(&mut std::task::Context::from_waker(&waker)) {
                self.pool.put(server, connection);
            }
            stream::empty().boxed()
        } else {
            let exchange = (connection, incoming);
            let home = (self.pool.clone(), server);
            Body::new(exchange, home, is_gzip, limits.silence, limits.bytes).boxed()
        };
        Ok(Response {
            status: head.status.as_u16(),
            headers,
            url: request.url.clone(),
            body,
        })
    }
}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Net");
        shown.field("guard", &self.guard).finish_non_exhaustive()
    }
}

/// Formats a URL for messages: without user, password and query, which may contain secrets.
pub fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // Neither call can fail, because an `http` or `https` URL has a host.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(url.query().map(|_| "…"));
    shown.set_fragment(None);
    shown.as_str().replace("?%E2%80%A6", "?…")
}

/// Builds the HTTP message of a request.
fn message(
    request: &Request,
    unpacks: bool,
    proxy: Option<&Intercept>,
) -> Result<http::Request<Full<Bytes>>, Error> {
    let wrong = |what: &str| Error::Answer(format!("{what} cannot be sent: {}", request.url));
    let url = &request.url;
    let path = &url[Position::BeforePath..Position::AfterQuery];
    let target = match proxy {
        Some(_) => [
            url.scheme(),
            "://",
            &url[Position::BeforeHost..Position::AfterPort],
            path,
        ]
        .concat(),
        None => path.to_owned(),
    };
    let mut message = http::Request::new(Full::new(request.body.clone()));
    *message.method_mut() = request.method.clone();
    *message.uri_mut() = target.parse().map_err(|_| wrong("this URL"))?;
    let headers = message.headers_mut();
    headers.reserve(request.headers.len() + 4);
    let host = match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => HeaderValue::try_from(format!("{host}:{port}")),
        (host, _) => HeaderValue::from_str(host.unwrap_or_default()),
    };
    headers.insert(HOST, host.map_err(|_| wrong("the host of this URL"))?);
    headers.insert(USER_AGENT, AGENT);
    if unpacks {
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if !url.username().is_empty() {
        headers.insert(
            AUTHORIZATION,
            redirect::credentials(url).ok_or_else(|| wrong("the name in this URL"))?,
        );
    }
    if let Some(via) = via::current() {
        headers.insert(VIA, via);
    }
    if let Some(auth) = proxy.and_then(Intercept::basic_auth) {
        headers.insert(PROXY_AUTHORIZATION, auth.clone());
    }
    for name in request.headers.keys() {
        headers.remove(name);
    }
    for (name, value) in &request.headers {
        headers.append(name, value.clone());
    }
    Ok(message)
}

fn is_gzip(headers: &HeaderMap) -> bool {
    let mut encodings = headers.get_all(CONTENT_ENCODING).into_iter();
    let first = encodings.next().map(|value| value.as_bytes().trim_ascii());
    let named = first.is_some_and(|word| {
        [&b"gzip"[..], b"x-gzip"]
            .iter()
            .any(|name| word.eq_ignore_ascii_case(name))
    });
    named && encodings.next().is_none()
}

fn no_answer(error: &hyper::Error) -> Error {
    if error.is_parse() || error.is_parse_too_large() {
        return Error::Answer(format!("its answer is not HTTP: {}", innermost(error)));
    }
    if error.is_incomplete_message() {
        return Error::Connection("it closed the connection without an answer".to_owned());
    }
    Error::Connection(format!("no answer: {}", innermost(error)))
}

#[cfg(test)]
mod tests;
