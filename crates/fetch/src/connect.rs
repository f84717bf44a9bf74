//! Connections to servers: name resolution, the guard, proxies and TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use http::HeaderValue;
use hyper_util::client::proxy::matcher::Intercept;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use url::{Host, Position, Url};

use super::connection::Wire;
use super::error::innermost;
use super::pool::Server;
use super::{Error, Net};
use crawlspace_warc::http::{Head, MAX_HEAD, Status, length};

/// Delay after which the next address of a host is tried in parallel to the attempts already running.
const STAGGER: Duration = Duration::from_millis(250);

impl Net {
    /// Resolves a host to the addresses that the guard permits.
    async fn resolve(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, Error> {
        let found = self.names.addresses(host).await;
        let found = found
            .map_err(|why| unreachable(host, port, &format!("cannot resolve {host}: {why}")))?;
        let permitted = match &self.guard {
            Some(guard) => guard.permitted(host, &found).map_err(Error::Private)?,
            None => found.to_vec(),
        };
        if let Some(address) = permitted.iter().find(|one| self.is_operators(**one, port)) {
            return Err(Error::Refused(format!(
                "{host} has the address {address}, where port {port} is the operator listener of this server"
            )));
        }
        let with_port = |address| SocketAddr::new(address, port);
        Ok(permitted.into_iter().map(with_port).collect())
    }

    /// Returns true if this server's operator listener is at that address and port. A listener that is bound to all
    /// addresses matches every address.
    fn is_operators(&self, address: IpAddr, port: u16) -> bool {
        self.operator.get().is_some_and(|own| {
            let same = own.ip().to_canonical() == address.to_canonical();
            own.port() == port && (same || own.ip().is_unspecified() || address.is_unspecified())
        })
    }

    /// Returns the proxy that the environment configures for a URL, if this [`Net`] uses proxies.
    pub(super) fn proxy(&self, url: &Url) -> Option<Intercept> {
        let origin = url[..Position::BeforePath].parse().ok()?;
        self.proxies.as_ref()?.intercept(&origin)
    }

    /// Connects to the host of a URL, over TLS for `https`. Returns the connection and the address of the peer.
    ///
    /// # Errors
    /// Fails if the connection is not established within `within`, or the guard permits no address
    /// of the host.
    pub(super) async fn connect(
        &self,
        url: &Url,
        within: Duration,
    ) -> Result<(Wire, SocketAddr), Error> {
        let (is_tls, host, port) = server_of(url)?;
        let connecting = async {
            let Some(proxy) = self.proxy(url) else {
                let (wire, remote) = self.tcp(&host, port).await?;
                let wire = if is_tls {
                    self.tls(&host, port, wire).await?
                } else {
                    wire
                };
                return Ok((wire, remote));
            };
            let (of_proxy, auth) = (proxy.uri(), proxy.basic_auth());
            let (name, is_secure) = match of_proxy.scheme_str() {
                Some("http") => (of_proxy.host().unwrap_or_default(), false),
                Some("https") => (of_proxy.host().unwrap_or_default(), true),
                _ => {
                    return Err(Error::Refused(format!(
                        "the proxy {of_proxy} is not supported: use an http or https proxy"
                    )));
                }
            };
            let default = if is_secure { 443 } else { 80 };
            let at = of_proxy.port_u16().unwrap_or(default);
            let (mut wire, remote) = self.tcp(name, at).await?;
            if is_secure {
                wire = self.tls(name, at, wire).await?;
            }
            if is_tls {
                tunnel(&mut wire, &host, port, auth).await?;
                wire = self.tls(&host, port, wire).await?;
            }
            Ok((wire, remote))
        };
        match timeout(within, connecting).await {
            Ok(connected) => connected,
            Err(_) => {
                let why = format!("no connection within {} s", within.as_secs_f64());
                Err(unreachable(&host, port, &why))
            }
        }
    }

    async fn tcp(&self, host: &str, port: u16) -> Result<(Wire, SocketAddr), Error> {
        let addresses = self.resolve(host, port).await?;
        let stream = any_of(addresses).await;
        let stream = stream.map_err(|error| unreachable(host, port, &innermost(&error)))?;
        let remote = stream.peer_addr();
        let remote = remote.map_err(|error| unreachable(host, port, &innermost(&error)))?;
        // Requests are written in one go, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        Ok((Box::new(stream), remote))
    }

    async fn tls(&self, host: &str, port: u16, wire: Wire) -> Result<Wire, Error> {
        let name = match Host::parse(host) {
            Ok(Host::Ipv4(address)) => Ok(ServerName::from(IpAddr::V4(address))),
            Ok(Host::Ipv6(address)) => Ok(ServerName::from(IpAddr::V6(address))),
            _ => ServerName::try_from(host.trim_end_matches('.').to_owned()),
        };
        let name = name.map_err(|error| unreachable(host, port, &innermost(&error)))?;
        match self.tls.connect(name, wire).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => {
                let cause = error.get_ref().and_then(|cause| cause.downcast_ref());
                Err(match cause {
                    Some(rustls::Error::InvalidCertificate(why)) => {
                        Error::Untrusted(why.to_string())
                    }
                    _ => unreachable(host, port, &innermost(&error)),
                })
            }
        }
    }
}

/// Opens a tunnel to a server through a proxy with `CONNECT` (RFC 9110, section 9.3.6).
async fn tunnel(
    proxy: &mut Wire,
    host: &str,
    port: u16,
    auth: Option<&HeaderValue>,
) -> Result<(), Error> {
    let failed = |error: io::Error| unreachable(host, port, &format!("its proxy: {error}"));
    let mut request =
        format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n").into_bytes();
    if let Some(auth) = auth {
        request.extend([b"Proxy-Authorization: ", auth.as_bytes(), b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    proxy.write_all(&request).await.map_err(failed)?;
    proxy.flush().await.map_err(failed)?;
    let mut head = Vec::new();
    // No bytes follow the head, because the server behind the proxy sends nothing before our TLS handshake.
    while length(&head, 0).is_none() {
        if head.len() > MAX_HEAD || proxy.read_buf(&mut head).await.map_err(failed)? == 0 {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
    }
    match Head::new(head.into(), Status::read) {
        Ok(head) if (200..300).contains(&head.first.code) => Ok(()),
        Ok(head) => {
            let why = format!("its proxy answers with HTTP status {}", head.first.code);
            Err(unreachable(host, port, &why))
        }
        Err(why) => Err(unreachable(host, port, &format!("its proxy: {why}"))),
    }
}

/// Returns the first connection that is established. Tries the next address if one fails or takes longer than
/// `STAGGER`.
async fn any_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut addresses = addresses.into_iter();
    let mut attempts: FuturesUnordered<BoxFuture<'_, io::Result<TcpStream>>> =
        FuturesUnordered::new();
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
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

/// Returns the server that a URL names: whether it uses TLS, its host, and its port.
pub(super) fn server_of(url: &Url) -> Result<Server, Error> {
    let is_tls = match url.scheme() {
        "http" => false,
        "https" => true,
        other => {
            return Err(Error::Refused(format!(
                "invalid URL scheme {other}: only http and https are fetched"
            )));
        }
    };
    match (url.host_str(), url.port_or_known_default()) {
        (Some(host), Some(port)) => Ok((is_tls, host.to_owned(), port)),
        _ => Err(Error::Refused(format!("{url} has no host"))),
    }
}

fn unreachable(host: &str, port: u16, why: &str) -> Error {
    Error::Unreachable {
        server: format!("{host}:{port}"),
        why: why.to_owned(),
    }
}

/// TLS configuration, built once: reading the system's certificates takes milliseconds.
static WEB: OnceLock<Result<ClientConfig, String>> = OnceLock::new();

/// Returns the TLS configuration for web servers: server certificates are verified, no client certificate is sent.
/// Certificates of the system that cannot be parsed are skipped.
///
/// # Errors
/// Fails if TLS cannot be set up; the text contains the reason.
pub(super) fn web_tls() -> Result<ClientConfig, String> {
    let config = WEB.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(config)
    });
    config.clone()
}
