//! The server: connections, TLS, the token, and the end.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crawlspace_compact::token::Token;
use http::{HeaderMap, Request, Response, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::Service as _;

use crate::health_proto::health_server::HealthServer;
use crate::proto::server::url_frontier_server::UrlFrontierServer;
use crate::service::Service;

/// Maximum number of connections; further ones wait.
const CONNECTIONS: usize = 1024;
/// Maximum number of concurrent calls of a connection.
const CALLS: u32 = 256;
/// Number of bytes that a client may send over a stream before they are read.
const WINDOW: u32 = 1 << 20;
/// Number of bytes that a client may send over all streams of a connection before they are read.
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Number of bytes of a stream that are buffered for a client that does not read them.
const SEND_BUFFER: usize = 256 << 10;
/// Interval of pings, and timeout of a reply to a ping, after which the client is disconnected.
const PING: Duration = Duration::from_secs(30);
/// Time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Time for the running calls when the server stops.
const GRACE: Duration = Duration::from_secs(5);

/// Options of the server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Certificate and key. Without them, connections are not encrypted.
    pub tls: Option<Arc<ServerConfig>>,
    /// Token that every request must have in `authorization: Bearer TOKEN`.
    pub token: Option<Token>,
}

/// Reads the certificate chain and the key of a server from PEM files.
///
/// # Errors
/// Fails if a file cannot be read, or its contents are not a certificate or key.
pub fn tls(certificate: &Path, key: &Path) -> io::Result<Arc<ServerConfig>> {
    let named = |path: &Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| named(certificate, &error))?;
    let secret = PrivateKeyDer::from_pem_file(key).map_err(|error| named(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| named(certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Serves calls until `stop` completes. Then streams end after the acknowledgement of what was read, and running calls
/// get some seconds to finish.
pub async fn serve(
    listener: TcpListener,
    service: Service,
    options: Options,
    stop: impl Future<Output = ()>,
) {
    let options = Arc::new(options);
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let accepting = async {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            };
            let _ = stream.set_nodelay(true);
            let (service, options) = (service.clone(), Arc::clone(&options));
            connections.spawn(async move {
                let open = service.figures.connection();
                match &options.tls {
                    None => connection(stream, service, &options).await,
                    Some(config) => {
                        let acceptor = TlsAcceptor::from(Arc::clone(config));
                        let handshake = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream));
                        if let Ok(Ok(stream)) = handshake.await {
                            connection(stream, service, &options).await;
                        }
                    }
                }
                drop((open, place));
            });
            while connections.try_join_next().is_some() {}
        }
    };
    tokio::select! {
        () = stop => {}
        () = accepting => {}
    }
    drop(listener);
    service.stop();
    let all = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all).await.is_err() {
        tracing::warn!("some calls did not end in time and were aborted");
    }
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: Service,
    options: &Arc<Options>,
) {
    let stopped = service.stopped();
    let calls = {
        let options = Arc::clone(options);
        let frontier = UrlFrontierServer::new(service.clone());
        let health = HealthServer::new(service.clone());
        service_fn(move |request: Request<Incoming>| {
            let (mut frontier, mut health) = (frontier.clone(), health.clone());
            let allowed = may(&options, request.headers());
            let figures = Arc::clone(&service.figures);
            async move {
                let is_health = request.uri().path().starts_with("/grpc.health.v1.Health/");
                let response: Result<Response<Body>, Infallible> = if is_health {
                    health.call(request).await
                } else if allowed {
                    frontier.call(request).await
                } else {
                    figures.unauthenticated();
                    let refused = "the request lacks the token: authorization: Bearer TOKEN";
                    Ok(Status::unauthenticated(refused).into_http())
                };
                response
            }
        })
    };
    let serving = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(CALLS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .serve_connection(TokioIo::new(stream), calls);
    let mut serving = std::pin::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stopped.wait() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// Returns true if a request has the token, or needs none.
fn may(options: &Options, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION);
    options
        .token
        .as_ref()
        .is_none_or(|token| given.is_some_and(|given| token.permits(given.as_bytes())))
}
