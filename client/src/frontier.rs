//! The `CHG.*` commands, with typed arguments and replies.
//!
//! ```no_run
//! use std::time::{Duration, Instant};
//! use crawlspace_client::frontier::{Facts, Frontier, Next, Uri, Wait};
//! let frontier = Frontier::open("redis://127.0.0.1/", "")?;
//! let seed = Uri { chg: b"example.com", at: 0, depth: 0, uri: b"https://example.com/" };
//! frontier.add_uris(b"crawl-1", None, &[seed])?;
//! let next = Next { wait: Wait::UpTo(Duration::from_secs(60)), ..Next::default() };
//! let mut lease = frontier.next(&next)?.pop();
//! while let Some(held) = lease {
//!     let begun = Instant::now();
//!     // fetch held.uri, store it, add what it links to
//!     let facts = Facts { elapsed: begun.elapsed(), min: Some(Duration::from_secs(1)), ..Facts::default() };
//!     lease = frontier.release_and_next(&held, &facts.into(), &held.done(), &next)?.1;
//! }
//! # Ok::<(), crawlspace_client::Error>(())
//! ```

mod figures;
mod holds;
mod known;
mod lease;
mod listing;
mod operators;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

pub use self::figures::{Check, DoneLimit, Execution, ExecutionInfo, Info, Leased, Why};
pub use self::holds::{Budget, Held, Limits};
pub use self::known::{
    Counts, Discovered, Discovery, Known, ListedUrl, Request, Selection, Settled, Space, State,
};
pub use self::lease::{Facts, Fetched, Lease, LeasedUri, Next, Pause, Wait};
pub use self::listing::{ListedGroup, ListedUri, Page, Queue};
pub use self::operators::Expired;
pub use crate::dedupe::Sequence;
pub use crate::server::Error;
use crate::server::{Ask, Call, Server};
pub use crate::storage::Storage;

/// A point in time, in milliseconds since the Unix epoch by the server's clock.
pub type Millis = u64;

/// A discovered URI to be queued.
#[derive(Clone, Copy)]
pub struct Uri<'a> {
    /// Host group (CHG) of the URI.
    pub chg: &'a [u8],
    /// Earliest time of the fetch. A time in the past, such as 0, means now.
    pub at: Millis,
    /// Number of links between a seed and this URI.
    pub depth: u32,
    /// The URI.
    pub uri: &'a [u8],
}

debug_as_text! { Uri<'_> { chg: text, at: plain, depth: plain, uri: text } }

/// A frontier: all keys with one prefix.
///
/// If the connection breaks, the client retries a call, unless the description of the call says
/// otherwise.
#[derive(Clone)]
pub struct Frontier<S = Server> {
    server: S,
    prefix: Arc<[u8]>,
    /// Simulated time, if any (see [`Frontier::at`]).
    now: Option<Millis>,
}

debug_as_text! { Frontier<S> where S { server: plain, prefix: text, now: plain } }

impl Frontier {
    /// Connects to the server at `url`, as [`Server::open`] does. Every key of the frontier begins with
    /// `prefix`, which may be empty.
    ///
    /// ```no_run
    /// let frontier = crawlspace_client::frontier::Frontier::open("redis://127.0.0.1/", "{coll-42}:")?;
    /// println!("{} URIs are queued", frontier.info()?.uris);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails when the URL is invalid, or the server cannot be reached.
    pub fn open(url: &str, prefix: impl Into<Vec<u8>>) -> Result<Frontier, Error> {
        Ok(Frontier::on(&Server::open(url)?, prefix))
    }
}

impl<S: Ask> Frontier<S> {
    /// Creates a handle for the frontier with this prefix on a server, or in a [`Batch`](crate::Batch).
    ///
    /// ```no_run
    /// use crawlspace_client::{frontier::{Frontier, Next}, AsyncServer};
    /// # async fn work() -> Result<(), crawlspace_client::Error> {
    /// let server = AsyncServer::open("redis://127.0.0.1/").await?;
    /// let frontier = Frontier::on(&server, "{coll-42}:");
    /// let leases = frontier.next(&Next::default()).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn on(server: &S, prefix: impl Into<Vec<u8>>) -> Frontier<S> {
        Frontier {
            server: server.clone(),
            prefix: prefix.into().into(),
            now: None,
        }
    }

    /// Returns a handle for the same frontier over another connection or a [`Batch`](crate::Batch).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// use crawlspace_client::Batch;
    /// let batch = Batch::new();
    /// let hosts = ["a.example", "b.example"].map(|chg| frontier.over(&batch).why(chg.as_bytes()));
    /// batch.send(frontier.server())?;
    /// for host in hosts {
    ///     println!("{}", host.take()?.why);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn over<Z: Ask>(&self, server: &Z) -> Frontier<Z> {
        Frontier {
            server: server.clone(),
            prefix: Arc::clone(&self.prefix),
            now: self.now,
        }
    }

    /// Returns a handle whose calls use `now` as the current time (simulated time). These calls
    /// never block, so they ignore [`Wait`]. Requires a server with `crawlspace.chg-simulated-time`
    /// enabled.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let then = frontier.at(1_700_000_000_000);
    /// let due = then.next(&Next::default())?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    pub fn at(&self, now: Millis) -> Frontier<S> {
        Frontier {
            now: Some(now),
            ..self.clone()
        }
    }

    /// Returns the server, connection or batch over which the calls are sent.
    pub fn server(&self) -> &S {
        &self.server
    }

    /// Returns the prefix of every key of the frontier.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    fn command(&self, name: &str) -> Cmd {
        command(name, &self.prefix, self.now)
    }

    /// Sends a fast command that can safely be sent twice.
    fn repeat<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> S::Answer<T> {
        self.server.ask(Call::new(command).repeatable())
    }

    /// Sends a fast command that must not be sent twice.
    fn once<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> S::Answer<T> {
        self.server.ask(Call::new(command))
    }

    /// Counts one queued URI for each of these groups, due at the given time (`CHG.ADD`). Returns
    /// the number of URIs that each group has now; `None` if its budget is used up and the URI was
    /// rejected.
    ///
    /// A call with a [`Sequence`] can safely be sent twice. Without a sequence, the client does not
    /// retry the call if the connection breaks.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let sequence = Some(Sequence { writer: b"worker-1", number: 1 });
    /// let queued = frontier.add(b"crawl-1", sequence, &[(b"example.com", 0)])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `STALE` when the writer has already sent a higher sequence number, or another server or
    /// connection error. After an error, the server has counted nothing, except possibly after a
    /// connection error.
    pub fn add(
        &self,
        execution: impl AsRef<[u8]>,
        sequence: Option<Sequence<'_>>,
        uris: &[(&[u8], Millis)],
    ) -> S::Answer<Vec<Option<u64>>> {
        let execution = execution.as_ref();
        if uris.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut add = self.command("CHG.ADD");
        add.arg(execution);
        if let Some(sequence) = sequence {
            sequence.write_to(&mut add);
        }
        for (chg, at) in uris {
            add.arg(*chg).arg(at);
        }
        match sequence {
            Some(_) => self.repeat(add),
            None => self.once(add),
        }
    }

    /// Queues discovered URIs, which the frontier stores (`CHG.ADDURI`). A URI that this execution
    /// has already queued is not counted again. Returns, for each URI, the number of URIs that its
    /// group has now; `None` if the budget of the group is used up and the URI was rejected.
    ///
    /// `weight` is the execution's share of the fetches of a group when several executions have
    /// URIs for it, from 1 to 1,000,000. The default is 1; `None` keeps the current weight.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let seed = Uri { chg: b"example.com", at: 0, depth: 0, uri: b"https://example.com/" };
    /// if frontier.add_uris(b"crawl-1", None, &[seed])?[0].is_none() {
    ///     println!("the budget of that host is spent");
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error. After an error, the server has
    /// counted nothing, except possibly after a connection error.
    pub fn add_uris(
        &self,
        execution: impl AsRef<[u8]>,
        weight: Option<u32>,
        uris: &[Uri<'_>],
    ) -> S::Answer<Vec<Option<u64>>> {
        let execution = execution.as_ref();
        if uris.is_empty() {
            return self.server.ask(Call::known(Vec::new()));
        }
        let mut add = self.command("CHG.ADDURI");
        add.arg(execution);
        if let Some(weight) = weight {
            add.arg("WEIGHT").arg(weight);
        }
        for uri in uris {
            add.arg(uri.chg).arg(uri.at).arg(uri.depth).arg(uri.uri);
        }
        self.repeat(add)
    }
}

fn command(name: &str, prefix: &[u8], now: Option<Millis>) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(prefix);
    if let Some(now) = now {
        command.arg("NOW").arg(now);
    }
    command
}

/// Converts a duration to whole milliseconds. Rounds up, because a pause may be longer than
/// requested, but never shorter.
fn millis(time: Duration) -> u64 {
    let whole = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_rounded_up() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_micros(1000)), 1);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
