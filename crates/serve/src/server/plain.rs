//! A server of one page, for programs that have figures and nothing else to show.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::host::Accepted;
use super::reply::{message, page};
use super::stall::StallTimeout;
use crate::host::Host;

/// Maximum number of connections at a time; more wait.
const CONNECTIONS: usize = 32;
/// How long the head of a request, and the next bytes of an answer, may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Answers requests for `/metrics` with what `metrics` comes to, until `stop` is ready. Without `hosts`, a listener at a
/// loopback address accepts only addresses and `localhost` as the host of a request, and any other listener all hosts.
///
/// # Errors
/// When nothing more can be accepted.
pub async fn serve_metrics<F>(
    listener: TcpListener,
    hosts: Vec<Host>,
    metrics: impl Fn() -> F + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    F: Future<Output = String> + Send + 'static,
{
    let (metrics, hosts) = (Arc::new(metrics), Arc::new(hosts));
    let address = listener.local_addr()?.ip();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut stop = pin!(stop);
    loop {
        let place = Arc::clone(&places).acquire_owned().await;
        let (stream, _) = tokio::select! {
            () = &mut stop => return Ok(()),
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                // Out of descriptors, or the client went away meanwhile.
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    continue;
                }
            },
        };
        let (metrics, hosts) = (Arc::clone(&metrics), Arc::clone(&hosts));
        tokio::spawn(async move {
            let _place = place;
            let service = service_fn(move |request: Request<Incoming>| {
                let (metrics, hosts) = (Arc::clone(&metrics), Arc::clone(&hosts));
                async move {
                    let accepted = Accepted::at(address, &hosts, None);
                    if let Some(refused) = accepted.misdirected(&request) {
                        return Ok(refused);
                    }
                    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
                    Ok::<_, Infallible>(match request.uri().path() {
                        "/metrics" if reads => {
                            page(StatusCode::OK, crate::metrics::MEDIA, metrics().await)
                        }
                        "/metrics" => {
                            message(StatusCode::METHOD_NOT_ALLOWED, "this is read by GET")
                        }
                        _ => message(StatusCode::NOT_FOUND, "the figures are at /metrics"),
                    })
                }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(TIMEOUT)
                .serve_connection(TokioIo::new(StallTimeout::new(stream, TIMEOUT)), service);
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended");
            }
        });
    }
}
