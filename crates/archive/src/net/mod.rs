//! Requests to other servers, and where they may not go.
//!
//! No address is connected to that is private, loopback or link-local, unless the configuration allows it; names are
//! resolved here, the addresses that were checked are the ones that are connected to, and every redirect is checked
//! again. Proxies of the environment are not used, since they would go wherever they like.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, FuturesUnordered, StreamExt};
use http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, HOST, RANGE, USER_AGENT, VIA,
};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::Full;
use hyper::body::{Body as _, Incoming};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Host, Url};

use crate::source::{Limits, SourceError};
use crate::tls;

mod body;
mod connection;
pub mod exchange;
mod guard;
mod names;
mod network;
mod pool;
mod redirect;
mod unpack;
pub mod via;

use body::{Body, too_large};
use connection::{Connection, Wire};
pub use guard::Guard;
use names::Names;
pub use network::Network;
use pool::{Pool, Server};

/// `User-Agent` of all requests.
const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("crawlspace/", env!("CARGO_PKG_VERSION")));
/// Delay after which another address of the same host is tried beside those before it.
const STAGGER: Duration = Duration::from_millis(250);
/// Maximum number of redirects followed for one request.
pub(crate) const MAX_REDIRECTS: usize = 10;

/// The way to other servers, shared by everything that fetches.
pub struct Net {
    guard: Guard,
    names: Names,
    tls: TlsConnector,
    pool: Arc<Pool>,
    /// Where this server answers its operator.
    operator: OnceLock<SocketAddr>,
}

/// A request to an index, or for a part of a file. Redirects are followed.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `HEAD` or `POST`.
    pub method: Method,
    /// An `http` or `https` URL.
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
    pub body: BoxStream<'static, Result<Bytes, SourceError>>,
}

impl Net {
    /// A way to other servers, but for private addresses that are not allowed.
    ///
    /// # Errors
    /// When TLS cannot be set up; the text says why.
    pub fn new(allow_private: &[Network]) -> Result<Arc<Net>, String> {
        Ok(Arc::new(Net {
            guard: Guard::new(allow_private),
            names: Names::new(),
            tls: TlsConnector::from(Arc::new(tls::for_web()?)),
            pool: Arc::new(Pool::new()),
            operator: OnceLock::new(),
        }))
    }

    /// The addresses of a host that may be connected to.
    ///
    /// # Errors
    /// When it has no address, or none that the guard permits.
    pub(crate) async fn resolve(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, SourceError> {
        let found = self.names.addresses(host).await;
        let found =
            found.map_err(|why| SourceError::Connection(format!("no address of {host}: {why}")))?;
        let permitted = self.guard.permitted(host, &found).map_err(|why| {
            SourceError::Forbidden(format!(
                "{why}; `allow_private` in the configuration lists those that may be asked all the same"
            ))
        })?;
        if let Some(address) = permitted.iter().find(|one| self.is_operators(**one, port)) {
            return Err(SourceError::Forbidden(format!(
                "{host} is at {address}, where port {port} is for the operator of this server"
            )));
        }
        let with_port = |address| SocketAddr::new(address, port);
        Ok(permitted.into_iter().map(with_port).collect())
    }

    /// Refuses requests to the address at which this server answers its operator, whatever `allow_private` says.
    pub fn refuse_operators(&self, address: SocketAddr) {
        let _ = self.operator.set(address);
    }

    /// Whether that is where this server answers its operator. One that listens at all addresses may be at any.
    fn is_operators(&self, address: IpAddr, port: u16) -> bool {
        self.operator.get().is_some_and(|own| {
            let same = own.ip().to_canonical() == address.to_canonical();
            own.port() == port && (same || own.ip().is_unspecified() || address.is_unspecified())
        })
    }

    /// Sends a request, over a connection that was kept where there is one. An answer with a redirect is followed,
    /// up to ten times.
    ///
    /// # Errors
    /// When no head of an answer comes in time, whatever its status.
    pub async fn send(&self, request: Request, limits: &Limits) -> Result<Response, SourceError> {
        let mut request = request;
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.send_once(&request, limits).await?;
            match redirect::next(&request, &answer)? {
                Some(next) => request = next,
                None => return Ok(answer),
            }
        }
        Err(SourceError::Answer(format!(
            "it redirects more than {MAX_REDIRECTS} times"
        )))
    }

    /// Sends a request, and follows no redirect.
    ///
    /// # Errors
    /// When no head of an answer comes in time, whatever its status.
    pub async fn send_once(
        &self,
        request: &Request,
        limits: &Limits,
    ) -> Result<Response, SourceError> {
        let server = server_of(&request.url)?;
        let unpacks =
            !request.headers.contains_key(ACCEPT_ENCODING) && !request.headers.contains_key(RANGE);
        let deadline = Instant::now() + limits.first;
        // A kept connection may have been closed at the other end, which is found out when it is used. Nothing is
        // sent over one that would do harm if it came twice.
        let safe = matches!(request.method, Method::GET | Method::HEAD);
        if let Some(mut connection) = self.kept(&server).await.filter(|_| safe) {
            let asked = connection.ask(message(request, unpacks)?);
            match timeout_at(deadline, asked).await {
                Err(_) => return Err(SourceError::Timeout),
                Ok(Ok(answer)) => {
                    return self.answer(request, server, unpacks, limits, (connection, answer));
                }
                Ok(Err(error)) if error.is_parse() => return Err(no_answer(&error)),
                Ok(Err(_)) => {}
            }
        }
        let connecting = self.connect(&request.url, limits.connect);
        let wire = timeout_at(deadline, connecting)
            .await
            .map_err(|_| SourceError::Timeout)??;
        let mut connection = Connection::new(wire)
            .await
            .map_err(|error| no_answer(&error))?;
        let asked = connection.ask(message(request, unpacks)?);
        let asked = timeout_at(deadline, asked)
            .await
            .map_err(|_| SourceError::Timeout)?;
        let answer = asked.map_err(|error| no_answer(&error))?;
        self.answer(request, server, unpacks, limits, (connection, answer))
    }

    /// A connection to the host of a URL, over TLS where it says so.
    ///
    /// # Errors
    /// When no connection stands within that time, or the guard permits no address.
    async fn connect(&self, url: &Url, within: Duration) -> Result<Wire, SourceError> {
        let (is_tls, host, port) = server_of(url)?;
        let connecting = async {
            let addresses = self.resolve(&host, port).await?;
            let stream = any_of(addresses).await;
            let stream = stream.map_err(|error| no_connection(&host, port, &error))?;
            // A request is written at once, and waits for nothing.
            let _ = stream.set_nodelay(true);
            if !is_tls {
                return Ok(Wire::Plain(stream));
            }
            let name = match url.host() {
                Some(Host::Ipv4(address)) => ServerName::from(IpAddr::V4(address)),
                Some(Host::Ipv6(address)) => ServerName::from(IpAddr::V6(address)),
                _ => ServerName::try_from(host.trim_end_matches('.').to_owned())
                    .map_err(|error| no_connection(&host, port, &error))?,
            };
            let stream = self.tls.connect(name, stream).await;
            let stream = stream.map_err(|error| no_connection(&host, port, &error))?;
            Ok(Wire::Tls(Box::new(stream)))
        };
        match timeout(within, connecting).await {
            Ok(connected) => connected,
            Err(_) => Err(SourceError::Connection(format!(
                "no connection to {host}:{port} within {} s",
                within.as_secs_f64()
            ))),
        }
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
    ) -> Result<Response, SourceError> {
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

/// The first connection that comes about. The next address is tried when one fails, or takes long.
async fn any_of(addresses: Vec<SocketAddr>) -> std::io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let mut attempts: FuturesUnordered<BoxFuture<'_, std::io::Result<TcpStream>>> =
        FuturesUnordered::new();
    let mut failed = std::io::Error::from(std::io::ErrorKind::AddrNotAvailable);
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        if let Some(address) = next {
            attempts.push(Box::pin(TcpStream::connect(address)));
        }
        let tried = if is_last {
            attempts.next().await
        } else {
            match timeout(STAGGER, attempts.next()).await {
                Ok(tried) => tried,
                Err(_) => continue,
            }
        };
        match tried {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => failed = error,
            None if is_last => return Err(failed),
            None => {}
        }
    }
}

/// The server of a URL.
fn server_of(url: &Url) -> Result<Server, SourceError> {
    let is_tls = match url.scheme() {
        "http" => false,
        "https" => true,
        other => {
            return Err(SourceError::Forbidden(format!(
                "invalid URL scheme {other}: only http and https are fetched"
            )));
        }
    };
    match (url.host_str(), url.port_or_known_default()) {
        (Some(host), Some(port)) => Ok((is_tls, host.to_owned(), port)),
        _ => Err(SourceError::Forbidden(format!("there is no host in {url}"))),
    }
}

/// A request as it is sent.
fn message(request: &Request, unpacks: bool) -> Result<http::Request<Full<Bytes>>, SourceError> {
    let wrong = |what: &str| SourceError::Answer(format!("{what} cannot be sent: {}", request.url));
    let url = &request.url;
    let target = match url.query() {
        Some(query) => [url.path(), "?", query].concat(),
        None => url.path().to_owned(),
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

fn no_answer(error: &hyper::Error) -> SourceError {
    if error.is_parse() || error.is_parse_too_large() {
        return SourceError::Answer(format!("its answer is not HTTP: {}", innermost(error)));
    }
    if error.is_incomplete_message() {
        return SourceError::Connection("it closed the connection without an answer".to_owned());
    }
    SourceError::Connection(format!("no answer: {}", innermost(error)))
}

fn no_connection(host: &str, port: u16, error: &dyn std::error::Error) -> SourceError {
    SourceError::Connection(format!(
        "no connection to {host}:{port}: {}",
        innermost(error)
    ))
}

/// The error at the bottom, which says what happened.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests;
