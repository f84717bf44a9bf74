//! The HTTP server: which path is answered by what.

mod body;
mod index;
mod output;
mod patience;
mod reply;
mod resource;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{watch, Semaphore};
use tokio::task::JoinSet;

use super::collection::Collection;
use super::Federation;

pub use self::body::{frames, whole, Body, Broken};
pub use self::index::{refusal, with_errors};
use self::patience::Patient;
pub use self::reply::{empty, json, message, page};

/// How long the head of a request may take, and a connection be idle.
const HEAD: Duration = Duration::from_secs(30);
/// How long a client may take to accept the next bytes of an answer.
const STALL: Duration = Duration::from_secs(60);
/// The largest head of a request, in bytes.
const LARGEST_HEAD: usize = 128 * 1024;
/// How many connections there are at most; more wait.
const CONNECTIONS: usize = 4096;
/// How long requests that are under way may take when the server is to end.
const FAREWELL: Duration = Duration::from_secs(5);

/// Answers requests until `stop` is ready, and then those that are under way, for some seconds.
///
/// # Errors
/// When nothing more can be accepted.
pub async fn serve(
    federation: Arc<Federation>,
    listener: TcpListener,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
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
        let stream = match accepted {
            Ok((stream, _)) => stream,
            // Out of descriptors, or the client went away meanwhile: neither ends the server.
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let federation = Arc::clone(&federation);
        let mut ends = ends.clone();
        connections.spawn(async move {
            let _place = place;
            let service = service_fn(move |request| {
                let federation = Arc::clone(&federation);
                async move { Ok::<_, Infallible>(answer(federation, request).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .max_buf_size(LARGEST_HEAD)
                .serve_connection(TokioIo::new(Patient::new(stream, STALL)), service);
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
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(FAREWELL, all).await;
    connections.shutdown().await;
    Ok(())
}

/// What a path asks of a collection.
struct Asked<'a> {
    federation: &'a Arc<Federation>,
    collection: &'a Arc<Collection>,
    point: Option<String>,
}

async fn answer(federation: Arc<Federation>, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let Some((first, rest)) = path.strip_prefix('/').map(|path| split(path)) else {
        return message(StatusCode::BAD_REQUEST, "the path must begin with /");
    };
    let name = decoded(first);
    let Some(collection) = federation.collection(&name) else {
        let text = format!("there is no collection {name:?}; / lists those that there are");
        return message(StatusCode::NOT_FOUND, &text);
    };
    let (point, rest) = match split(rest) {
        ("ap", rest) => {
            let (point, rest) = split(rest);
            (Some(decoded(point)), rest)
        }
        _ => (None, rest),
    };
    let asked = Asked {
        federation: &federation,
        collection,
        point,
    };
    match rest {
        "index" => index::answer(&asked, &request).await,
        "resource" => resource::answer(&asked, request).await,
        "resource-post" | "resource/postreq" => resource::answer_message(&asked, request).await,
        _ => {
            let text = format!("{path:?}: a collection has index, resource, resource-post, timemap/link/<url> and timegate/<url>");
            message(StatusCode::NOT_FOUND, &text)
        }
    }
}

/// The first part of a path, and what comes after the slash behind it.
fn split(path: &str) -> (&str, &str) {
    path.split_once('/').unwrap_or((path, ""))
}

fn decoded(part: &str) -> String {
    percent_encoding::percent_decode_str(part)
        .decode_utf8_lossy()
        .into_owned()
}

/// Refuses what is neither `GET` nor `HEAD`.
fn only_read(method: &Method) -> Option<Response<Body>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let mut refused = message(
        StatusCode::METHOD_NOT_ALLOWED,
        &format!("{method}: GET or HEAD is expected here"),
    );
    let allowed = http::HeaderValue::from_static("GET, HEAD");
    refused.headers_mut().insert(http::header::ALLOW, allowed);
    Some(refused)
}
