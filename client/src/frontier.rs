//! The `CHG.*` commands, with types in place of reply arrays.
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
mod lease;
mod listing;
mod operators;

use std::sync::Arc;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};

pub use self::figures::{Check, Execution, Info, Leased, Why};
pub use self::holds::{Budget, Held, Limits};
pub use self::lease::{Facts, Fetched, Lease, Next, Pause, Wait};
pub use self::listing::{ListedGroup, ListedUri, Page, Queue};
pub use self::operators::Expired;
pub use crate::dedupe::Sequence;
pub use crate::server::Error;
use crate::server::{Ask, Call, Server};

/// A moment, in milliseconds since the epoch by the server's clock.
pub type Millis = u64;

/// A URI that was found.
#[derive(Clone, Copy)]
pub struct Uri<'a> {
    /// The group of hosts that it belongs to.
    pub chg: &'a [u8],
    /// When it may be fetched; a time in the past, such as 0, means now.
    pub at: Millis,
    /// How far from a seed it was found.
    pub depth: u32,
    /// The URI.
    pub uri: &'a [u8],
}

debug_as_text! { Uri<'_> { chg: text, at: plain, depth: plain, uri: text } }

/// A frontier: the keys of one prefix.
///
/// A call whose connection breaks is sent again unless its description says otherwise.
#[derive(Clone)]
pub struct Frontier<S = Server> {
    server: S,
    prefix: Arc<[u8]>,
    /// Simulated time.
    now: Option<Millis>,
}

debug_as_text! { Frontier<S> where S { server: plain, prefix: text, now: plain } }

impl Frontier {
    /// Connects to the server at `url`, as [`Server::open`] does. `prefix` stands before every key of the
    /// frontier, and may be empty.
    ///
    /// ```no_run
    /// let frontier = crawlspace_client::frontier::Frontier::open("redis://127.0.0.1/", "{coll-42}:")?;
    /// println!("{} URIs are queued", frontier.info()?.uris);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the URL is invalid, or the server cannot be reached.
    pub fn open(url: &str, prefix: impl Into<Vec<u8>>) -> Result<Frontier, Error> {
        Ok(Frontier::on(&Server::open(url)?, prefix))
    }
}

impl<S: Ask> Frontier<S> {
    /// The frontier of this prefix on this server, or in this [`Batch`](crate::Batch).
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

    /// This frontier, asked over another connection, or in a [`Batch`](crate::Batch), for example.
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

    /// This frontier at a simulated time, which its calls take for the current time. They never wait, so
    /// [`Wait`] is ignored. Only where the server has `crawlspace.chg-simulated-time`.
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

    /// What it is asked over.
    pub fn server(&self) -> &S {
        &self.server
    }

    /// What stands before every key.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    fn command(&self, name: &str) -> Cmd {
        command(name, &self.prefix, self.now)
    }

    /// Something quick that may be sent twice.
    fn repeat<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> S::Answer<T> {
        self.server.ask(Call::new(command).repeatable())
    }

    /// Something quick that may not.
    fn once<T: FromRedisValue + Send + 'static>(&self, command: Cmd) -> S::Answer<T> {
        self.server.ask(Call::new(command))
    }

    /// `CHG.ADD`: a URI was queued for each of these groups, to be fetched at that time; the frontier
    /// counts it. Gives the number of URIs that each group has now; `None` where its budget is spent and
    /// the URI was not taken.
    ///
    /// A [`Sequence`] makes the call safe to send twice; without one, it is not sent again after a connection
    /// that broke.
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
    /// `STALE` when the writer has sent a higher number before; or when the server refuses or cannot be
    /// reached. Nothing was counted then, unless the connection broke.
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

    /// `CHG.ADDURI`: these URIs were found; the frontier keeps them. One that this execution has queued
    /// already counts once. Gives the number of URIs that each one's group has now; `None` where its budget
    /// is spent and the URI was not taken.
    ///
    /// `weight` is the execution's share of the fetches of a group that several executions want, from 1 to
    /// a million; it stays as it is when it is not said, and is 1 at first.
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
    /// When the server refuses or cannot be reached. Nothing was counted then, unless the connection broke.
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

/// Whole milliseconds, rounded up: a pause may be longer than it was asked for, never shorter.
fn millis(time: Duration) -> u64 {
    let whole = time.as_nanos().div_ceil(1_000_000);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_rounded_up() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_micros(1000)), 1);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
