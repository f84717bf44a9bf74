//! Requests to other servers, and where they may not go.
//!
//! No address is connected to that is private, loopback or link-local, unless the configuration allows it; names are
//! resolved here, the addresses that were checked are the ones that are connected to, and every redirect is checked
//! again. Callers that may go anywhere have no [`Guard`]; these alone use the proxies of the environment, which would
//! connect to wherever they like. Callers that wait for an answer use [`blocking`].
//!
//! An `s3` URL is fetched over http or https from the store that the environment names, which is at an address like any
//! other. Parts of files that are read again and again are those of a [`RemoteFile`](file::RemoteFile).

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

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// HTTP statuses after which a request is retried: the next answer may be another one. The guides list them
/// (`docs/guide/wacz.md`). Of servers of indexes, 500 is final: the index cannot be built.
pub const RETRIED_STATUSES: [u16; 7] = [408, 425, 429, 500, 502, 503, 504];

/// Returns true if the next answer may be another one than this HTTP status.
pub fn is_transient(status: u16) -> bool {
    RETRIED_STATUSES.contains(&status)
}

/// `User-Agent` of all requests.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("crawlspace/", env!("CARGO_PKG_VERSION")));
/// Maximum number of redirects followed for one request.
const MAX_REDIRECTS: usize = 10;

/// The way to other servers, shared by everything that fetches.
pub struct Net {
    /// Without one, any address may be connected to.
    guard: Option<Guard>,
    /// Proxies of the environment, which would connect to wherever they like: they are for those without a guard.
    proxies: Option<Matcher>,
    names: Names,
    tls: TlsConnector,
    pool: Arc<Pool>,
    /// Where this server answers its operator.
    operator: OnceLock<SocketAddr>,
    /// Where objects of `s3` URLs are, or what of the environment cannot be used.
    store: Result<s3::Store, String>,
    files: Files,
}

/// A request to an index, or for a part of a file. Redirects are followed.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `HEAD` or `POST`; `GET` of an `s3` URL.
    pub method: Method,
    /// An `http`, `https` or `s3` URL.
    pub url: Url,
    /// Header fields besides those that every request has.
    pub headers: HeaderMap,
    /// The body of a `POST`.
    pub body: Bytes,
}

impl Request {
    /// A `GET` without anything special.
    pub fn get(url: Url) -> Request {
        Request {
            method: Method::GET,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }
}

/// An answer whose head is there, and whose body is read as it comes.
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The header.
    pub headers: HeaderMap,
    /// Where it came from after redirects.
    pub url: Url,
    /// The body, unpacked. It ends with an error when it breaks off, or when a limit on time or bytes is reached.
    pub body: BodyStream,
}

/// A body as it comes.
pub type BodyStream = BoxStream<'static, Result<Bytes, Error>>;

impl Net {
    /// A way to other servers, but for private addresses that are not allowed.
    ///
    /// # Errors
    /// When TLS cannot be set up; the text says why.
    pub fn new(allow_private: &[Network]) -> Result<Arc<Net>, String> {
        Net::with(Some(Guard::new(allow_private)))
    }

    /// A way to the servers that a guard permits, or to all, by the proxies of the environment.
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

    /// Refuses requests to the address at which this server answers its operator, whatever `allow_private` says.
    pub fn refuse_operators(&self, address: SocketAddr) {
        let _ = self.operator.set(address);
    }

    /// The address that [`Net::refuse_operators`] refuses, if there is one.
    pub fn operator(&self) -> Option<SocketAddr> {
        self.operator.get().copied()
    }

    /// Sends a request, over a connection that was kept where there is one. An answer with a redirect is followed,
    /// up to ten times.
    ///
    /// # Errors
    /// When no head of an answer comes in time, whatever its status.
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
                    // What is relative to it is an object as well, and a signature is nobody's business.
                    answer.url = object.unwrap_or(answer.url);
                    return Ok(answer);
                }
            }
        }
        Err(Error::Answer(format!(
            "it redirects more than {MAX_REDIRECTS} times"
        )))
    }

    /// Makes a request for an object one that its store understands. Gives the URL of the object.
    fn sign(&self, request: &mut Request) -> Result<Url, Error> {
        if request.method != Method::GET {
            let why = format!("only GET is possible for {}", request.url);
            return Err(Error::Request(why));
        }
        let store = self.store.as_ref();
        let store = store.map_err(|why| Error::Refused(format!("{}: {why}", request.url)))?;
        let signed = store.sign(&request.url)?;
        Ok(std::mem::replace(&mut request.url, signed))
    }

    /// Sends a request, and follows no redirect.
    ///
    /// # Errors
    /// When no head of an answer comes in time, whatever its status.
    pub async fn send_once(&self, request: &Request, limits: &Limits) -> Result<Response, Error> {
        let server = server_of(&request.url)?;
        let unpacks =
            !request.headers.contains_key(ACCEPT_ENCODING) && !request.headers.contains_key(RANGE);
        // Requests over TLS go through a tunnel, of which they know nothing.
        let proxy = self.proxy(&request.url).filter(|_| !server.0);
        let deadline = Instant::now() + limits.first;
        // A kept connection may have been closed at the other end, which is found out when it is used. Nothing is
        // sent over one that would do harm if it came twice.
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

    /// A kept connection that is still open, as far as can be known.
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
        // What is announced as too much is not waited for.
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

/// A URL as messages name it: without the user, the password and the query, which may hold secrets.
pub fn shown(url: &Url) -> String {
    let mut shown = url.clone();
    // Neither can fail: such URLs have a host.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    shown.set_query(url.query().map(|_| "…"));
    shown.set_fragment(None);
    shown.as_str().replace("?%E2%80%A6", "?…")
}

/// A request as it is sent.
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
