//! Routing and retries: sends requests to the right server over the right connection, and receives replies.
//!
//! The rules are the same for blocking and async clients, so they are implemented once, over a [`Wire`] that abstracts
//! the connections.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crawlspace_retry::Backoff;
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value};

use super::batch::QueuedCall;
use super::call::Request;
use super::options::MAX_PAUSE;
use super::topology::{Address, Topology};
use super::{Batch, Code, Error, Options};

/// Maximum number of redirections to follow per call.
const REDIRECTIONS: u32 = 16;
/// Maximum time until a blocked call notices that its slot has moved to another server.
const WAIT_IN_CLUSTER: Duration = Duration::from_secs(10);

/// Transport of requests: opens connections and exchanges messages over them.
pub(super) trait Wire: Send + Sync + 'static {
    /// A connection for one exchange of requests and replies.
    type Line: Send;

    /// Returns a connection to this server, for a blocking call (`waits`) or a fast call.
    fn line(
        &self,
        topology: &Topology,
        to: &Address,
        waits: bool,
    ) -> impl Future<Output = Result<Self::Line, RedisError>> + Send;

    /// Sends each message over its connection, and returns the replies in the same order.
    fn exchange(
        &self,
        messages: Vec<(Self::Line, Message<'_>)>,
    ) -> impl Future<Output = Vec<Result<Vec<Value>, RedisError>>> + Send;

    /// Sleeps for this time.
    fn pause(&self, time: Duration) -> impl Future<Output = ()> + Send;
}

/// Commands that are sent together to one server.
pub(super) struct Message<'a> {
    pub commands: Vec<&'a Cmd>,
    /// True if `ASKING` is sent before each command.
    pub asking: bool,
}

impl Message<'_> {
    /// Returns the expected number of replies.
    pub fn replies(&self) -> usize {
        self.commands.len() * if self.asking { 2 } else { 1 }
    }
}

/// A server or a cluster, and the connections to it.
pub(super) struct Exchange<W> {
    pub wire: W,
    pub options: Options,
    topology: Topology,
    refreshing: AtomicBool,
}

/// The next destination of a request.
#[derive(Clone)]
enum Way {
    /// The node that owns the slot of the request.
    Owner,
    Moved(Address),
    Asked(Address),
}

/// State of a request that is being sent.
struct Leg {
    way: Way,
    reply: Option<Result<Value, Error>>,
    /// The latest failure of the request; `None` after a reply.
    trouble: Option<(RedisError, Address)>,
}

/// The result of an attempt.
#[derive(Default)]
struct Attempt {
    /// True if some requests must be retried after a pause.
    pause: bool,
    redirected: bool,
    /// True if the known slots may be outdated.
    outdated: bool,
}

impl<W: Wire> Exchange<W> {
    /// Connects, and checks if the server is part of a cluster.
    pub async fn open(wire: W, options: Options) -> Result<Exchange<W>, Error> {
        let exchange = Exchange {
            topology: Topology::new(options.seed()?),
            wire,
            options,
            refreshing: AtomicBool::new(false),
        };
        exchange
            .discover()
            .await
            .map_err(|cause| exchange.options.failed(cause))?;
        Ok(exchange)
    }

    /// Returns the maximum time for which a call may block. It is shorter than the timeout for a
    /// silent server. In a cluster it is even shorter, because blocked clients are not notified
    /// when their slot moves away.
    pub fn max_wait(&self) -> Duration {
        let max = self.options.job_timeout / 2;
        if self.topology.is_cluster() {
            max.min(WAIT_IN_CLUSTER)
        } else {
            max
        }
    }

    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    async fn discover(&self) -> Result<(), RedisError> {
        let mut info = redis::cmd("INFO");
        info.arg("cluster");
        if self.options.only_one {
            let line = self
                .wire
                .line(&self.topology, &Address::Seed, false)
                .await?;
            let nothing = Message {
                commands: Vec::new(),
                asking: false,
            };
            self.wire.exchange(vec![(line, nothing)]).await;
            return Ok(());
        }
        // The user may lack permission for `INFO`. In this case, redirections show that the server
        // is part of a cluster.
        if let Ok(info) = self.say(&Address::Seed, &info).await?.extract_error() {
            let info: String = redis::from_redis_value(info)?;
            if info.contains("cluster_enabled:1") {
                self.refresh().await;
            }
        }
        Ok(())
    }

    /// Sends a command to a server, without retries.
    async fn say(&self, to: &Address, command: &Cmd) -> Result<Value, RedisError> {
        let line = self.wire.line(&self.topology, to, false).await?;
        let message = Message {
            commands: vec![command],
            asking: false,
        };
        let mut replies = self.wire.exchange(vec![(line, message)]).await;
        let mut replies = replies.pop().unwrap_or_else(|| Ok(Vec::new()))?;
        Ok(replies.pop().unwrap_or(Value::Nil))
    }

    /// Asks the servers for the slots, one after the other, until one replies.
    async fn refresh(&self) {
        // If a refresh is already running, the caller follows the redirection that it received.
        if self.refreshing.swap(true, Ordering::SeqCst) {
            return;
        }
        let _done = Done(&self.refreshing);
        let mut slots = redis::cmd("CLUSTER");
        slots.arg("SLOTS");
        for address in self.topology.known() {
            let reply = self.say(&address, &slots).await;
            let reply = reply.and_then(Value::extract_error);
            if reply.and_then(|reply| self.topology.learn(&address, reply)) == Ok(true) {
                return;
            }
        }
    }

    /// Sends a request and returns its reply.
    pub async fn call(&self, request: Request) -> Result<Option<Value>, Error> {
        if request.command.is_none() {
            return Ok(None);
        }
        let mut replies = self.send(&mut [request]).await;
        match replies.pop() {
            Some(reply) => reply.map(Some),
            None => unreachable!("one reply per request"),
        }
    }

    /// Sends the calls of a batch, and delivers the replies.
    pub async fn batch(&self, batch: &Batch) -> Result<(), Error> {
        let (mut requests, delivers): (Vec<_>, Vec<_>) = batch
            .take()
            .into_iter()
            .map(|QueuedCall { request, deliver }| (request, deliver))
            .unzip();
        let replies = self.send(&mut requests).await;
        let mut outcome = Ok(());
        for (reply, deliver) in replies.into_iter().zip(delivers) {
            if let (Ok(()), Err(error)) = (&outcome, &reply)
                && error.word().is_none()
            {
                outcome = Err(error.clone());
            }
            deliver(reply.map(Some));
        }
        outcome
    }

    /// Sends the requests, with as many retries as necessary and allowed.
    async fn send(&self, requests: &mut [Request]) -> Vec<Result<Value, Error>> {
        let repeatable = requests.iter().all(|request| request.repeatable);
        let mut legs: Vec<Leg> = requests
            .iter()
            .map(|_| Leg {
                way: Way::Owner,
                reply: None,
                trouble: None,
            })
            .collect();
        let mut left = self.options.retries;
        let mut backoff = Backoff::new(MAX_PAUSE).with_random(self.options.random);
        let mut redirections = 0;
        loop {
            let attempt = self.attempt(requests, &mut legs, repeatable).await;
            if legs.iter().all(|leg| leg.reply.is_some()) {
                break;
            }
            redirections += u32::from(attempt.redirected);
            let spent = attempt.pause && left == 0;
            if spent || redirections > REDIRECTIONS || self.options.only_one {
                break;
            }
            if attempt.pause {
                self.wire.pause(backoff.pause()).await;
                left -= 1;
            }
            if attempt.outdated && (self.topology.is_cluster() || attempt.redirected) {
                self.refresh().await;
            }
            for (request, leg) in requests.iter_mut().zip(&legs) {
                if leg.reply.is_none() {
                    request.renew();
                }
            }
        }
        let named = requests.iter().map(|request| &request.name);
        let replies = legs.into_iter().zip(named);
        let replies = replies.map(|(leg, name)| match (leg.reply, leg.trouble) {
            (Some(reply), _) => reply,
            (None, Some((cause, address))) => Err(self.failed(name, cause, &address)),
            (None, None) => unreachable!("a request without a reply has an error"),
        });
        replies.collect()
    }

    fn failed(&self, name: &str, cause: RedisError, address: &Address) -> Error {
        if !cause.is_io_error() {
            return Error::new(name, cause);
        }
        let shown = match address {
            Address::Seed => self.options.shown(),
            Address::Node { host, port } => {
                let url = self.options.shown();
                let scheme = url.split_once("://").map_or("redis", |(scheme, _)| scheme);
                format!("{scheme}://{host}:{port}/")
            }
        };
        Error::new(format!("{name} at {shown}"), cause)
    }

    /// Sends each request that has no reply yet to its server, once.
    async fn attempt(&self, requests: &[Request], legs: &mut [Leg], repeatable: bool) -> Attempt {
        let mut attempt = Attempt::default();
        // Contact the servers in the order of their addresses. Otherwise, two callers that each
        // wait for connections to several servers could deadlock.
        let mut parts: BTreeMap<(Address, bool), Vec<usize>> = BTreeMap::new();
        for (index, leg) in legs.iter_mut().enumerate() {
            if leg.reply.is_none() {
                let to = match std::mem::replace(&mut leg.way, Way::Owner) {
                    Way::Owner => (self.topology.owner(requests[index].slot), false),
                    Way::Moved(to) => (to, false),
                    Way::Asked(to) => (to, true),
                };
                parts.entry(to).or_default().push(index);
            }
        }
        let (mut messages, mut sent) = (Vec::new(), Vec::new());
        for ((to, asking), part) in parts {
            let waits = part.iter().any(|&index| requests[index].waits);
            match self.wire.line(&self.topology, &to, waits).await {
                Ok(line) => {
                    let commands = part.iter().map(|&index| &requests[index].command);
                    let message = Message {
                        commands: commands.flatten().collect(),
                        asking,
                    };
                    messages.push((line, message));
                    sent.push((to, asking, part));
                }
                // The request was not sent, so a retry is always safe.
                Err(cause) => {
                    let again = cause.is_io_error() || is_busy(&cause);
                    attempt.lost(self, requests, legs, &part, &to, cause, again);
                }
            }
        }
        let outcomes = self.wire.exchange(messages).await;
        for (outcome, (to, asking, part)) in outcomes.into_iter().zip(sent) {
            match outcome {
                Ok(replies) => {
                    let every = if asking { 2 } else { 1 };
                    let replies = replies.into_iter().skip(every - 1).step_by(every);
                    for (index, reply) in part.into_iter().zip(replies) {
                        attempt.answered(self, &requests[index], &mut legs[index], &to, reply);
                    }
                }
                Err(cause) => {
                    let again = cause.is_io_error() && repeatable;
                    attempt.lost(self, requests, legs, &part, &to, cause, again);
                }
            }
        }
        attempt
    }
}

impl Attempt {
    /// Handles the requests of a server that sent no replies.
    #[allow(clippy::too_many_arguments)] // the state of one attempt
    fn lost<W: Wire>(
        &mut self,
        exchange: &Exchange<W>,
        requests: &[Request],
        legs: &mut [Leg],
        part: &[usize],
        to: &Address,
        cause: RedisError,
        again: bool,
    ) {
        self.pause |= again;
        self.outdated |= again;
        for &index in part {
            if again {
                legs[index].trouble = Some((cause.clone(), to.clone()));
            } else {
                let error = exchange.failed(&requests[index].name, cause.clone(), to);
                legs[index].reply = Some(Err(error));
            }
        }
    }

    /// Handles a reply, which may be a redirection or a request to retry later.
    fn answered<W: Wire>(
        &mut self,
        exchange: &Exchange<W>,
        request: &Request,
        leg: &mut Leg,
        from: &Address,
        reply: Value,
    ) {
        let Value::ServerError(refusal) = reply else {
            leg.reply = Some(Ok(reply));
            return;
        };
        let cause = RedisError::from(refusal);
        let moved = cause.kind() == ErrorKind::Server(ServerErrorKind::Moved);
        let asked = cause.kind() == ErrorKind::Server(ServerErrorKind::Ask);
        let elsewhere = if (moved || asked) && !exchange.options.only_one {
            exchange.topology.redirected(from, &cause, moved)
        } else {
            None
        };
        match elsewhere {
            Some(to) => {
                leg.way = if moved {
                    Way::Moved(to)
                } else {
                    Way::Asked(to)
                };
                self.redirected = true;
                self.outdated |= moved;
            }
            None if is_busy(&cause) => {
                self.pause = true;
                self.outdated = true;
            }
            None => {
                leg.reply = Some(Err(Error::new(&request.name[..], cause)));
                return;
            }
        }
        leg.trouble = Some((cause, from.clone()));
    }
}

/// Returns true if the server rejected the command, but will probably accept it soon. Returns false
/// for a replica without its master, because its recovery may take longer than the retries.
fn is_busy(cause: &RedisError) -> bool {
    let code = cause.code().and_then(Code::of);
    code.is_some_and(|code| code.is_transient() && code != Code::MasterDown)
}

struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Mutex;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::Server;

    /// A wire that reaches no server. It records the pauses.
    #[derive(Default)]
    struct Cut(Mutex<Vec<Duration>>);

    impl Wire for Cut {
        type Line = ();

        async fn line(&self, _: &Topology, _: &Address, _: bool) -> Result<(), RedisError> {
            Err(io::Error::from(io::ErrorKind::ConnectionRefused).into())
        }

        async fn exchange(&self, _: Vec<((), Message<'_>)>) -> Vec<Result<Vec<Value>, RedisError>> {
            Vec::new()
        }

        async fn pause(&self, time: Duration) {
            self.0.lock().unwrap().push(time);
        }
    }

    /// Returns the pauses between the attempts of a call whose attempts all fail.
    fn pauses(random: Option<fn() -> f64>) -> Vec<Duration> {
        let mut options = Server::options("redis://127.0.0.1:1/");
        options.random = random.unwrap_or(options.random);
        let exchange = Exchange {
            topology: Topology::new(options.seed().unwrap()),
            wire: Cut::default(),
            options,
            refreshing: AtomicBool::new(false),
        };
        let (request, _) = crate::Call::<()>::new(redis::cmd("PING")).split();
        let mut call = std::pin::pin!(exchange.call(request));
        let outcome = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(outcome, Poll::Ready(Err(_))), "{outcome:?}");
        exchange.wire.0.lock().unwrap().clone()
    }

    #[test]
    fn default_retries_outlast_a_failover() {
        let (least, most) = (pauses(Some(|| 0.0)), pauses(Some(|| 1.0)));
        assert!(least.iter().sum::<Duration>() >= Duration::from_secs(12));
        assert!(most.iter().sum::<Duration>() <= Duration::from_secs(30));
        let halves: Vec<Duration> = most.iter().map(|pause| *pause / 2).collect();
        assert_eq!(least, halves);
    }

    #[test]
    fn jitter_spreads_the_retries_of_two_clients() {
        assert_ne!(pauses(None), pauses(None));
    }
}
