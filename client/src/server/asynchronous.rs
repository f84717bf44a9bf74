//! The async client: calls are futures.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Pipeline, RedisError, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::exchange::{Exchange, Message, Wire};
use super::options::{CONNECT, IDLE};
use super::topology::{Address, Topology};
use super::{Ask, Batch, Call, Error, Options, Steps};

/// Maximum number of idle connections that are kept per server for blocking calls.
const MAX_IDLE: usize = 32;

/// A connection to a server or a cluster, whose calls are futures. They require a `tokio` runtime.
///
/// Fast calls share one connection per server and do not wait for each other. Blocking calls and
/// jobs get their own connections, which are kept for reuse. Dropping the future of such a call
/// closes its connection, so that the server notices that the caller has disconnected. A job that
/// the call has already started continues. Clones share their connections with the original.
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_client::AsyncServer;
/// # async fn crawl() -> Result<(), crawlspace_client::Error> {
/// let server = AsyncServer::open("redis://127.0.0.1/").await?;
/// let index = Index::on(&server, "{coll-42}:");
/// let known = index.lookup(None, &[b"sha1:B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A"]).await?;
/// println!("{}", if known[0].is_some() { "a revisit" } else { "a response" });
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct AsyncServer(Arc<Exchange<AsyncPool>>);

/// Future of a call, which is sent when it is first polled.
#[must_use = "the call is sent only when the answer is awaited"]
pub struct Answer<T>(Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>);

impl AsyncServer {
    /// Connects to the server at `url`, as [`Server::open`](super::Server::open) does.
    ///
    /// # Errors
    /// Fails when the URL is invalid, or the server cannot be reached.
    pub async fn open(url: &str) -> Result<AsyncServer, Error> {
        AsyncServer::options(url).open_async().await
    }

    /// Returns options for a connection to the server at `url`: see [`Options::open_async`].
    pub fn options(url: &str) -> Options {
        Options::new(url)
    }

    pub(super) async fn with(options: Options) -> Result<AsyncServer, Error> {
        if options.only_one {
            let cause = (
                redis::ErrorKind::InvalidClientConfig,
                "only_one needs a blocking client: use Server instead of AsyncServer",
            );
            return Err(options.failed(cause.into()));
        }
        let lines = AsyncPool::new(&options);
        let exchange = Exchange::open(lines, options).await?;
        Ok(AsyncServer(Arc::new(exchange)))
    }
}

impl std::fmt::Debug for AsyncServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncServer")
            .field(&self.0.options.shown())
            .finish()
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, Error>> {
        self.0.as_mut().poll(context)
    }
}

impl<T> std::fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl Ask for AsyncServer {
    type Answer<T: Send + 'static> = Answer<T>;

    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Answer<T> {
        let server = self.clone();
        Answer(Box::pin(async move { server.step(call).await }))
    }

    fn job_timeout(&self) -> Duration {
        self.0.options.job_timeout
    }
}

impl Steps for AsyncServer {
    fn max_wait(&self) -> Duration {
        self.0.max_wait()
    }

    async fn step<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Error> {
        let (request, read) = call.split();
        read(self.0.call(request).await?)
    }

    async fn step_batch(&self, batch: &Batch) -> Result<(), Error> {
        self.0.batch(batch).await
    }

    fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Answer<T> {
        Answer(Box::pin(steps))
    }
}

/// Connections per server.
pub(super) struct AsyncPool {
    nodes: Mutex<HashMap<Address, Arc<Node>>>,
    limit: usize,
    timeout: Duration,
    job_timeout: Duration,
}

struct Node {
    /// The connection that the fast calls share, with a unique connection number.
    quick: tokio::sync::Mutex<Option<(u64, MultiplexedConnection)>>,
    /// Idle connections for blocking calls, each with the time since which it has been idle.
    kept: Mutex<Vec<(Instant, MultiplexedConnection)>>,
    /// Number of connections for blocking calls that may still be opened.
    permits: Arc<Semaphore>,
}

/// A connection for one exchange of requests and replies.
pub(super) struct Line {
    node: Arc<Node>,
    connection: MultiplexedConnection,
    whose: Whose,
    /// Timeout per reply.
    timeout: Duration,
}

enum Whose {
    /// The shared connection of the fast calls, with its number.
    Shared(u64),
    Own(#[allow(dead_code)] OwnedSemaphorePermit), // held for as long as the connection is used
}

impl AsyncPool {
    fn new(options: &Options) -> AsyncPool {
        let limit = options.connections.unwrap_or(Semaphore::MAX_PERMITS);
        AsyncPool {
            nodes: Mutex::default(),
            limit: limit.min(Semaphore::MAX_PERMITS),
            timeout: options.timeout,
            job_timeout: options.job_timeout,
        }
    }

    fn node(&self, address: &Address) -> Arc<Node> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        let node = nodes.entry(address.clone()).or_insert_with(|| {
            Arc::new(Node {
                quick: tokio::sync::Mutex::default(),
                kept: Mutex::default(),
                permits: Arc::new(Semaphore::new(self.limit)),
            })
        });
        Arc::clone(node)
    }

    async fn connect(
        &self,
        topology: &Topology,
        to: &Address,
    ) -> Result<MultiplexedConnection, RedisError> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT))
            .set_response_timeout(Some(self.timeout));
        let client = topology.client(to)?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        connecting.await
    }
}

impl Node {
    /// Takes an idle connection that still works out of the pool.
    async fn take_kept(&self) -> Option<MultiplexedConnection> {
        loop {
            let kept = self
                .kept
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let (since, mut connection) = kept?;
            let ping = redis::cmd("PING");
            if since.elapsed() < IDLE || connection.send_packed_command(&ping).await.is_ok() {
                return Some(connection);
            }
        }
    }
}

impl Line {
    async fn exchange(mut self, message: &Message<'_>) -> Result<Vec<Value>, RedisError> {
        let outcome = self.converse(message).await;
        match (&outcome, self.whose) {
            (Ok(_), Whose::Shared(_)) => {}
            (Ok(_), Whose::Own(_)) => {
                let kept = self.node.kept.lock();
                let mut kept = kept.unwrap_or_else(PoisonError::into_inner);
                if kept.len() < MAX_IDLE {
                    kept.push((Instant::now(), self.connection));
                }
            }
            (Err(_), Whose::Shared(number)) => {
                let mut quick = self.node.quick.lock().await;
                if quick.as_ref().is_some_and(|(now, _)| *now == number) {
                    *quick = None;
                }
            }
            (Err(_), Whose::Own(_)) => {}
        }
        outcome
    }

    async fn converse(&mut self, message: &Message<'_>) -> Result<Vec<Value>, RedisError> {
        let replies = u32::try_from(message.replies()).unwrap_or(u32::MAX);
        let timeout = self.timeout.saturating_mul(replies.max(1));
        self.connection.set_response_timeout(timeout);
        match &message.commands[..] {
            [] => Ok(Vec::new()),
            [command] if !message.asking => {
                let reply = self.connection.send_packed_command(command).await?;
                Ok(vec![reply])
            }
            commands => {
                let mut pipeline = Pipeline::with_capacity(message.replies());
                for &command in commands {
                    if message.asking {
                        pipeline.add_command(redis::cmd("ASKING"));
                    }
                    pipeline.add_command(command.clone());
                }
                let count = message.replies();
                let sending = self.connection.send_packed_commands(&pipeline, 0, count);
                sending.await
            }
        }
    }
}

impl Wire for AsyncPool {
    type Line = Line;

    async fn line(
        &self,
        topology: &Topology,
        to: &Address,
        waits: bool,
    ) -> Result<Line, RedisError> {
        let node = self.node(to);
        if waits {
            let place = Arc::clone(&node.permits).acquire_owned().await;
            let Ok(place) = place else {
                unreachable!("nobody closes the semaphore");
            };
            let connection = match node.take_kept().await {
                Some(kept) => kept,
                None => self.connect(topology, to).await?,
            };
            return Ok(Line {
                node,
                connection,
                whose: Whose::Own(place),
                timeout: self.job_timeout,
            });
        }
        // The lock makes other callers wait while the connection is being opened.
        let mut quick = node.quick.lock().await;
        let (number, connection) = match quick.take() {
            Some(there) => there,
            None => {
                let connection = self.connect(topology, to).await?;
                (numbered(), connection)
            }
        };
        *quick = Some((number, connection.clone()));
        drop(quick);
        Ok(Line {
            node,
            connection,
            whose: Whose::Shared(number),
            timeout: self.timeout,
        })
    }

    async fn exchange(
        &self,
        messages: Vec<(Line, Message<'_>)>,
    ) -> Vec<Result<Vec<Value>, RedisError>> {
        let exchanges = messages
            .into_iter()
            .map(|(line, message)| async move { line.exchange(&message).await });
        join_all(exchanges).await
    }

    async fn pause(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

/// Returns a number that no other connection has.
fn numbered() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed)
}
