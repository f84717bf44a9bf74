//! The HTTP server of the exporter: one page, and connections that cannot keep a scrape from being answered.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinSet};

/// The media type of figures for Prometheus.
const FIGURES: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// What connections may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of connections. One more ends the oldest of those that wait for their client.
    pub(super) connections: usize,
    /// Timeout of the head of a request.
    pub(super) head: Duration,
    /// Timeout of a client that reads its answer.
    pub(super) answer: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 64,
            head: Duration::from_secs(5),
            answer: Duration::from_secs(10),
        }
    }
}

/// A connection that is open.
struct Connection {
    task: AbortHandle,
    /// Set while the figures for its request are read.
    is_working: Arc<AtomicBool>,
}

/// Answers requests for `/metrics` with what `metrics` comes to, one per connection, until `stop` is ready.
pub(super) async fn serve<F>(
    listener: TcpListener,
    limits: Limits,
    metrics: impl Fn() -> F + Send + Sync + 'static,
    stop: impl Future<Output = ()>,
) where
    F: Future<Output = String> + Send + 'static,
{
    let metrics = Arc::new(metrics);
    let mut stop = pin!(stop);
    let mut tasks = JoinSet::new();
    // The oldest one first.
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // Out of descriptors, or the client went away meanwhile.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
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
        let task = tasks.spawn(one_request(
            stream,
            limits,
            Arc::clone(&metrics),
            Arc::clone(&is_working),
        ));
        open.push_back(Connection { task, is_working });
    }
}

/// Answers the request of a connection.
async fn one_request<F>(
    stream: TcpStream,
    limits: Limits,
    metrics: Arc<impl Fn() -> F + Send + Sync + 'static>,
    is_working: Arc<AtomicBool>,
) where
    F: Future<Output = String> + Send + 'static,
{
    let is_answered = Arc::new(Notify::new());
    let answered = Arc::clone(&is_answered);
    let service = service_fn(move |request: Request<Incoming>| {
        let (metrics, is_working) = (Arc::clone(&metrics), Arc::clone(&is_working));
        let answered = Arc::clone(&answered);
        async move {
            is_working.store(true, Ordering::Relaxed);
            let response = answer(&request, &*metrics).await;
            is_working.store(false, Ordering::Relaxed);
            answered.notify_one();
            Ok::<_, Infallible>(response)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let late = async {
        is_answered.notified().await;
        tokio::time::sleep(limits.answer).await;
    };
    tokio::select! {
        outcome = connection => if let Err(error) = outcome {
            tracing::debug!(%error, "a connection ended");
        },
        () = late => tracing::debug!("a client did not read its answer in time"),
    }
}

async fn answer<F>(request: &Request<Incoming>, metrics: &impl Fn() -> F) -> Response<Full<Bytes>>
where
    F: Future<Output = String>,
{
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/metrics" if reads => page(StatusCode::OK, FIGURES, metrics().await),
        "/metrics" => page(
            StatusCode::METHOD_NOT_ALLOWED,
            TEXT,
            "use GET to read the figures\n".to_owned(),
        ),
        _ => page(
            StatusCode::NOT_FOUND,
            TEXT,
            "the figures are at /metrics\n".to_owned(),
        ),
    }
}

fn page(status: StatusCode, media: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::time::Instant;

    use super::*;

    const FEW: Limits = Limits {
        connections: 4,
        head: Duration::from_millis(200),
        answer: Duration::from_millis(200),
    };

    /// Runs a server whose figures take some time, and hands its address to `act`.
    fn with_server(limits: Limits, figures: Duration, act: impl FnOnce(SocketAddr)) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = runtime
            .block_on(TcpListener::bind("127.0.0.1:0"))
            .expect("a port");
        let address = listener.local_addr().unwrap();
        let metrics = move || async move {
            tokio::time::sleep(figures).await;
            // More than sockets take without a reader.
            "x".repeat(32 << 20)
        };
        runtime.spawn(serve(listener, limits, metrics, std::future::pending()));
        act(address);
        runtime.shutdown_background();
    }

    fn opened(address: SocketAddr, sent: &str) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(sent.as_bytes()).unwrap();
        stream
    }

    /// Waits until the server has closed a connection, and returns what came before that.
    fn rest(mut stream: TcpStream) -> Vec<u8> {
        let mut text = Vec::new();
        match stream.read_to_end(&mut text) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("the connection was not closed: {error}"),
        }
        text
    }

    const GET: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";

    #[test]
    fn half_open_connections_make_room_for_a_new_one_at_once() {
        let patient = Limits {
            head: Duration::from_secs(600),
            ..FEW
        };
        with_server(patient, Duration::ZERO, |address| {
            let parts = ["", "GET /met", "GET /metrics HTTP/1.1\r\nHost: x\r\n"];
            let idle: Vec<TcpStream> = (0..200)
                .map(|i| opened(address, parts[i % parts.len()]))
                .collect();
            let begun = Instant::now();
            let answer = rest(opened(address, GET));
            assert!(answer.starts_with(b"HTTP/1.1 200 "));
            assert!(begun.elapsed() < Duration::from_secs(10));
            // The oldest ones had to go.
            let first = idle.into_iter().next().unwrap();
            assert_eq!(rest(first), b"");
        });
    }

    #[test]
    fn a_head_that_does_not_come_ends_the_connection() {
        with_server(FEW, Duration::ZERO, |address| {
            for sent in ["", "GET /met"] {
                let begun = Instant::now();
                let answer = rest(opened(address, sent));
                assert!(!answer.starts_with(b"HTTP/1.1 200 "), "{sent}");
                assert!(begun.elapsed() >= FEW.head, "{sent}");
            }
        });
    }

    #[test]
    fn a_client_that_does_not_read_is_ended_and_requests_under_way_are_not() {
        with_server(FEW, Duration::from_millis(500), |address| {
            let asked: Vec<TcpStream> =
                (0..FEW.connections).map(|_| opened(address, GET)).collect();
            std::thread::sleep(Duration::from_millis(200));
            // There is no place, and nobody idle to take one from.
            assert_eq!(rest(opened(address, GET)), b"");
            std::thread::sleep(Duration::from_millis(1500));
            for stream in asked {
                let answer = rest(stream);
                assert!(answer.starts_with(b"HTTP/1.1 200 "));
                assert!(answer.len() < 32 << 20, "{} bytes", answer.len());
            }
        });
    }
}
