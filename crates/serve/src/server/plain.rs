//! A minimal server with a single page, for programs that only expose metrics.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

use super::body::Body;
use super::host::Accepted;
use super::reply::{message, page};
use super::stall::StallTimeout;
use super::stream_of;
use crate::host::Host;

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Maximum number of connections. A further connection closes the oldest one that is waiting for its client.
    connections: usize,
    /// Timeout of the head of a request.
    head: Duration,
    /// Timeout of a client that does not read its response.
    answer: Duration,
}

const LIMITS: Limits = Limits {
    connections: 64,
    head: Duration::from_secs(5),
    answer: Duration::from_secs(10),
};

/// An open connection.
struct Connection {
    task: AbortHandle,
    /// Set while the server collects the metrics for the connection's request.
    is_working: Arc<AtomicBool>,
}

/// Context of every response.
struct Figures<M> {
    metrics: M,
    address: IpAddr,
    hosts: Vec<Host>,
}

/// Answers requests for `/metrics` with the result of `metrics`, one per connection, until `stop` completes. Without
/// `hosts`, a listener at a loopback address accepts only requests to addresses and `localhost`, and any other listener
/// accepts requests to all hosts.
///
/// # Errors
/// Fails if the listener has no address.
pub async fn serve_metrics<F>(
    listener: TcpListener,
    hosts: Vec<Host>,
    metrics: impl Fn() -> F + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) -> io::Result<()>
where
    F: Future<Output = String> + Send + 'static,
{
    let address = listener.local_addr()?.ip();
    let figures = Figures {
        metrics,
        address,
        hosts,
    };
    serve(listener, LIMITS, figures, stop).await;
    Ok(())
}

async fn serve<M, F>(
    listener: TcpListener,
    limits: Limits,
    figures: Figures<M>,
    stop: impl Future<Output = ()>,
) where
    M: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = String> + Send + 'static,
{
    let figures = Arc::new(figures);
    let mut stop = pin!(stop);
    let mut tasks = JoinSet::new();
    // Oldest first.
    let mut open: VecDeque<Connection> = VecDeque::new();
    loop {
        let accepted = tokio::select! {
            () = &mut stop => return,
            Some(_) = tasks.join_next() => {
                open.retain(|connection| !connection.task.is_finished());
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let Some(stream) = stream_of(accepted).await else {
            continue;
        };
        if open.len() >= limits.connections {
            let waits = |connection: &Connection| !connection.is_working.load(Ordering::Relaxed);
            let Some(oldest) = open.iter().position(waits) else {
                tracing::warn!("a connection was closed: too many requests are being answered");
                continue;
            };
            if let Some(connection) = open.remove(oldest) {
                connection.task.abort();
            }
        }
        let is_working = Arc::new(AtomicBool::new(false));
        let request = one_request(
            stream,
            limits,
            Arc::clone(&figures),
            Arc::clone(&is_working),
        );
        let task = tasks.spawn(request);
        open.push_back(Connection { task, is_working });
    }
}

/// Answers the request of a connection.
async fn one_request<M, F>(
    stream: TcpStream,
    limits: Limits,
    figures: Arc<Figures<M>>,
    is_working: Arc<AtomicBool>,
) where
    M: Fn() -> F + Send + Sync + 'static,
    F: Future<Output = String> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (figures, is_working) = (Arc::clone(&figures), Arc::clone(&is_working));
        async move {
            is_working.store(true, Ordering::Relaxed);
            let response = figures.answer(&request).await;
            is_working.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(false)
        .serve_connection(
            TokioIo::new(StallTimeout::new(stream, limits.answer)),
            service,
        );
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended");
    }
}

impl<M, F> Figures<M>
where
    M: Fn() -> F,
    F: Future<Output = String>,
{
    async fn answer(&self, request: &Request<Incoming>) -> Response<Body> {
        if let Some(refused) = Accepted::at(self.address, &self.hosts, None).misdirected(request) {
            return refused;
        }
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/metrics" if reads => page(
                StatusCode::OK,
                crate::metrics::MEDIA,
                (self.metrics)().await,
            ),
            "/metrics" => message(
                StatusCode::METHOD_NOT_ALLOWED,
                "use GET to read the metrics",
            ),
            _ => message(StatusCode::NOT_FOUND, "the metrics are at /metrics"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};

    use tokio::sync::Notify;

    use super::*;

    const FEW: Limits = Limits {
        connections: 4,
        head: Duration::from_millis(200),
        answer: Duration::from_millis(200),
    };
    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

    /// Runs a server that returns its metrics once it is notified, and passes its address to `act`.
    fn with_server(limits: Limits, act: impl FnOnce(SocketAddr, &Notify)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let ready = Arc::new(Notify::new());
        let waits = Arc::clone(&ready);
        let figures = Figures {
            metrics: move || {
                let ready = Arc::clone(&waits);
                async move {
                    ready.notified().await;
                    "figures".to_owned()
                }
            },
            address: address.ip(),
            hosts: Vec::new(),
        };
        runtime.spawn(serve(listener, limits, figures, std::future::pending()));
        act(address, &ready);
        runtime.shutdown_background();
    }

    fn opened(address: SocketAddr, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        let long = Duration::from_secs(60);
        stream.set_read_timeout(Some(long)).unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    }

    /// Waits until the server closes a connection, and returns everything received before.
    fn rest(mut stream: TcpStream) -> String {
        let mut text = Vec::new();
        match stream.read_to_end(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection was not closed: {error}"),
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn half_open_connections_are_closed_for_a_new_one() {
        // No timeout closes the connections of this test.
        let patient = Limits {
            head: Duration::from_secs(600),
            ..FEW
        };
        with_server(patient, |address, ready| {
            let parts = ["", "GET /met", "GET /metrics HTTP/1.1\r\nHost: x\r\n"];
            let idle: Vec<TcpStream> = (0..200).map(|i| opened(address, parts[i % 3])).collect();
            ready.notify_one();
            let answer = rest(opened(address, GET));
            assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("figures"));
            // The server has closed the oldest connections.
            let first = idle.into_iter().next().unwrap();
            assert_eq!(rest(first), "");
        });
    }

    #[test]
    fn missing_request_head_ends_the_connection() {
        with_server(FEW, |address, _| {
            for sent in ["", "GET /met"] {
                let answer = rest(opened(address, sent));
                assert!(!answer.starts_with("HTTP/1.1 200 "), "{sent}");
            }
        });
    }

    #[test]
    fn requests_in_progress_keep_their_connections() {
        with_server(FEW, |address, ready| {
            let mut asked = Vec::new();
            // The server closes a further connection at once when all other connections have a request in
            // progress.
            while asked.len() < 100 {
                let mut stream = opened(address, GET);
                let short = Duration::from_millis(100);
                stream.set_read_timeout(Some(short)).unwrap();
                match stream.read(&mut [0; 1]) {
                    Err(error) if error.kind() != io::ErrorKind::ConnectionReset => {}
                    Ok(0) | Err(_) => break,
                    Ok(_) => panic!("a response before the metrics are collected"),
                }
                asked.push(stream);
            }
            assert_eq!(asked.len(), FEW.connections);
            for stream in asked {
                stream.set_read_timeout(None).unwrap();
                ready.notify_one();
                ready.notify_waiters();
                assert!(rest(stream).ends_with("figures"));
            }
        });
    }
}
