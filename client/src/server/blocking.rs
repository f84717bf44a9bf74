//! The blocking client: calls wait for their reply.

use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use redis::{Connection, ConnectionLike, FromRedisValue, Pipeline, RedisError, Value};

use super::exchange::{Exchange, Message, Wire};
use super::options::{CONNECT, IDLE};
use super::topology::{Address, Topology};
use super::{Ask, Batch, Call, Error, Options, Steps};

/// A connection to a server or a cluster, whose calls block until the reply arrives.
///
/// Threads can share it: each call gets one of up to [`Options::connections`] connections, or waits
/// until one is free. Clones share their connections with the original.
///
/// ```no_run
/// use crawlspace_client::dedupe::Index;
/// use crawlspace_client::frontier::Frontier;
/// use crawlspace_client::Server;
/// let server = Server::options("redis://127.0.0.1/").connections(8).open()?;
/// let (index, frontier) = (Index::on(&server, "{coll-42}:"), Frontier::on(&server, "{coll-42}:"));
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| println!("{:?}", index.stats().map(|stats| stats.hashes)));
///     }
/// });
/// println!("{} URIs are queued", frontier.info()?.uris);
/// # Ok::<(), crawlspace_client::Error>(())
/// ```
#[derive(Clone)]
pub struct Server(Arc<Exchange<Pool>>);

impl Server {
    /// Connects to the server at `url`: `redis://host:port/db`, `rediss://…` with TLS,
    /// `unix:///path`; append `?protocol=resp3` for RESP3. If the server is part of a cluster, each
    /// call is sent to the node that owns its slot.
    ///
    /// ```no_run
    /// let server = crawlspace_client::Server::open("rediss://worker:secret@db.example:6379/?protocol=resp3")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails when the URL is invalid, or the server cannot be reached.
    pub fn open(url: &str) -> Result<Server, Error> {
        Server::options(url).open()
    }

    /// Returns options for connections to the server at `url`: see [`Options::open`].
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// let options = crawlspace_client::Server::options("redis://127.0.0.1/");
    /// let server = options.connections(4).timeout(Duration::from_secs(30)).open()?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn options(url: &str) -> Options {
        Options::new(url)
    }

    pub(super) fn with(options: Options) -> Result<Server, Error> {
        let pool = Pool::new(&options);
        let exchange = block_on(Exchange::open(pool, options))?;
        Ok(Server(Arc::new(exchange)))
    }

    pub(super) fn send(&self, batch: &Batch) -> Result<(), Error> {
        block_on(self.0.batch(batch))
    }

    /// Runs a transaction and returns the result of each command, or `None` if a watched key was
    /// changed. The client never retries a transaction. A `WATCH` before the transaction only has
    /// an effect with [`Options::only_one`].
    ///
    /// # Errors
    /// Fails when the server refuses the transaction or cannot be reached, or the connection
    /// breaks.
    pub fn transact(
        &self,
        commands: &Pipeline,
    ) -> Result<Option<Vec<Result<Value, RedisError>>>, Error> {
        let exchange = &self.0;
        exchange
            .wire
            .transact(exchange.topology(), commands)
            .map_err(|cause| Error::new("EXEC", cause))
    }
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Server")
            .field(&self.0.options.shown())
            .finish()
    }
}

impl Ask for Server {
    type Answer<T: Send + 'static> = Result<T, Error>;

    fn ask<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Error> {
        let (request, read) = call.split();
        read(block_on(self.0.call(request))?)
    }

    fn job_timeout(&self) -> Duration {
        self.0.options.job_timeout
    }
}

impl Steps for Server {
    fn max_wait(&self) -> Duration {
        self.0.max_wait()
    }

    async fn step<T: Send + 'static>(&self, call: Call<T>) -> Result<T, Error> {
        self.ask(call)
    }

    async fn step_batch(&self, batch: &Batch) -> Result<(), Error> {
        self.send(batch)
    }

    fn run<T: Send + 'static>(
        &self,
        steps: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        block_on(steps)
    }
}

/// Connection pool, with idle and busy connections per server.
#[derive(Clone)]
pub(super) struct Pool(Arc<Connections>);

struct Connections {
    nodes: Mutex<HashMap<Address, Node>>,
    freed: Condvar,
    /// Maximum number of connections per server, timeout of fast calls, timeout of blocking calls,
    /// and a flag that is true if the pool has a single connection that is never replaced.
    limit: usize,
    timeout: Duration,
    job_timeout: Duration,
    only_one: bool,
}

#[derive(Default)]
struct Node {
    /// Idle connections, each with the time at which it became idle.
    idle: Vec<(Instant, Connection)>,
    /// Number of connections, both idle and in use.
    open: usize,
    /// True if the only connection of the pool broke; it is not replaced.
    over: bool,
}

/// A slot of the pool. It contains a connection, unless the connection has not been opened yet.
pub(super) struct Line {
    pool: Pool,
    address: Address,
    connection: Option<Connection>,
    idle_since: Option<Instant>,
    /// True if the connection can be reused. Otherwise, dropping this value closes the connection.
    fit: bool,
}

impl Pool {
    fn new(options: &Options) -> Pool {
        Pool(Arc::new(Connections {
            nodes: Mutex::default(),
            freed: Condvar::new(),
            limit: options.connections.unwrap_or(1),
            timeout: options.timeout,
            job_timeout: options.job_timeout,
            only_one: options.only_one,
        }))
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<Address, Node>> {
        self.0.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a free slot of the pool.
    fn place(&self, address: &Address) -> Result<Line, RedisError> {
        let mut nodes = self.nodes();
        loop {
            let node = nodes.entry(address.clone()).or_default();
            if node.over {
                return Err(io::Error::from(io::ErrorKind::NotConnected).into());
            }
            let idle = node.idle.pop();
            if idle.is_some() || node.open < self.0.limit {
                node.open += usize::from(idle.is_none());
                return Ok(Line {
                    pool: self.clone(),
                    address: address.clone(),
                    idle_since: idle.as_ref().map(|(since, _)| *since),
                    connection: idle.map(|(_, connection)| connection),
                    fit: false,
                });
            }
            let freed = self.0.freed.wait(nodes);
            nodes = freed.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn transact<T: FromRedisValue>(
        &self,
        topology: &Topology,
        commands: &Pipeline,
    ) -> Result<T, RedisError> {
        let mut line = self.connect(topology, &Address::Seed, false)?;
        let done = commands.query(line.connection());
        line.fit = !done.as_ref().is_err_and(RedisError::is_io_error);
        done
    }

    fn connect(&self, topology: &Topology, to: &Address, waits: bool) -> Result<Line, RedisError> {
        let mut line = self.place(to)?;
        if !self.0.only_one && line.idle_since.is_some_and(|since| since.elapsed() > IDLE) {
            let works = line.connection().check_connection();
            line.connection = line.connection.take().filter(|_| works);
        }
        if line.connection.is_none() {
            let open = topology.client(to)?.get_connection_with_timeout(CONNECT)?;
            open.set_write_timeout(Some(self.0.timeout))?;
            line.connection = Some(open);
        }
        let timeout = if waits {
            self.0.job_timeout
        } else {
            self.0.timeout
        };
        line.connection().set_read_timeout(Some(timeout))?;
        Ok(line)
    }
}

impl Line {
    fn connection(&mut self) -> &mut Connection {
        match &mut self.connection {
            Some(open) => open,
            None => unreachable!("the connection is opened before it is used"),
        }
    }

    fn send(&mut self, message: &Message<'_>) -> Result<(), RedisError> {
        let mut bytes = Vec::new();
        for command in &message.commands {
            if message.asking {
                redis::cmd("ASKING").write_packed_command(&mut bytes);
            }
            command.write_packed_command(&mut bytes);
        }
        if bytes.is_empty() {
            Ok(())
        } else {
            self.connection().send_packed_command(&bytes)
        }
    }

    /// Receives `count` replies and returns the connection to the pool.
    fn receive(mut self, count: usize) -> Result<Vec<Value>, RedisError> {
        let mut replies = Vec::with_capacity(count);
        while replies.len() < count {
            match self.connection().recv_response()? {
                // Skip RESP3 push messages.
                Value::Push { .. } => {}
                reply => replies.push(reply),
            }
        }
        self.fit = self.connection().is_open();
        Ok(replies)
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut nodes = self.pool.nodes();
        if let Some(node) = nodes.get_mut(&self.address) {
            match self.connection.take() {
                Some(connection) if self.fit => {
                    node.idle.push((Instant::now(), connection));
                }
                _ => {
                    node.open -= 1;
                    node.over |= self.pool.0.only_one;
                }
            }
        }
        drop(nodes);
        self.pool.0.freed.notify_all();
    }
}

impl Wire for Pool {
    type Line = Line;

    async fn line(
        &self,
        topology: &Topology,
        to: &Address,
        waits: bool,
    ) -> Result<Line, RedisError> {
        self.connect(topology, to, waits)
    }

    async fn exchange(
        &self,
        messages: Vec<(Line, Message<'_>)>,
    ) -> Vec<Result<Vec<Value>, RedisError>> {
        // Send all messages before waiting for the first reply. Servers keep reading requests while their
        // replies are not being read, so this cannot deadlock.
        let sent: Vec<_> = messages
            .into_iter()
            .map(|(mut line, message)| {
                let sent = line.send(&message);
                sent.map(|()| (line, message.replies()))
            })
            .collect();
        let replies = sent
            .into_iter()
            .map(|sent| sent.and_then(|(line, count)| line.receive(count)));
        replies.collect()
    }

    async fn pause(&self, time: Duration) {
        thread::sleep(time);
    }
}

/// Runs a future of this module and blocks until it is ready. It is usually ready at the first
/// poll.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => thread::park(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn only_one_does_not_replace_a_broken_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("redis://{}/", listener.local_addr().expect("an address"));
        let answers = thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a connection");
            io::Write::write_all(&mut peer, b"+OK\r\n+OK\r\n").expect("it is open");
            // The proxy reads the handshake of the client, and then closes the connection.
            let _ = io::Read::read(&mut peer, &mut [0; 1024]);
            drop(peer);
            listener
        });
        let only = Server::options(&url).timeout(CONNECT).only_one();
        let only = only.open().expect("the server accepts");
        let listener = answers.join().expect("it ends");
        for _ in 0..2 {
            let ping = Call::<Value>::new(redis::cmd("PING")).repeatable();
            let error = only.ask(ping).expect_err("the peer has gone");
            assert!(error.is_connection(), "{error}");
        }
        listener.set_nonblocking(true).expect("it can");
        assert!(listener.accept().is_err(), "it connected again");
    }

    #[test]
    fn connection_refused_error_names_the_address() {
        let error = Server::open("redis://127.0.0.1:1/").expect_err("nobody listens on port 1");
        assert!(
            error
                .to_string()
                .starts_with("connecting to redis://127.0.0.1:1/: "),
            "{error}"
        );
        assert_eq!(error.code(), None);
        assert!(error.is_connection());
    }
}
