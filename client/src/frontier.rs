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

use std::sync::Arc;
use std::time::{Duration, Instant};

use redis::{Cmd, FromRedisValue, ParsingError, Value};
use serde::Serialize;

pub use self::figures::{Check, Execution, Info, Leased, Why};
pub use crate::dedupe::Sequence;
use crate::reply::{as_optional_text, as_text};
pub use crate::server::Error;
use crate::server::{Ask, Call, Server, Steps};

/// How long the server may keep a caller that waits, before the client asks again. Less than the time
/// after which the connection gives a silent server up for dead.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A moment, in milliseconds since the epoch by the server's clock.
pub type Millis = u64;

/// A URI that was found.
#[derive(Clone, Copy, Debug)]
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

/// The right to fetch from one group of hosts, until it is released or its deadline passes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lease {
    /// The group.
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// What tells this lease from every other one.
    pub token: u64,
    /// When it runs out and the group goes to somebody else.
    pub deadline: Millis,
    /// When the group became due.
    pub due: Millis,
    /// How many URIs of the group are queued, the leased one included.
    pub count: u64,
    /// Whose URI this is. `None` when the frontier only counts URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub execution: Option<Vec<u8>>,
    /// What to fetch. `None` when the frontier only counts URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub uri: Option<Vec<u8>>,
}

impl Lease {
    /// What to release it with when its URI is dealt with. Where the frontier only counts URIs it does not
    /// know whose: then this is [`Fetched::Nothing`], and the caller says [`Fetched::Done`] with the execution.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// frontier.release(&lease, &Pause::For(std::time::Duration::from_secs(1)), &lease.done())?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn done(&self) -> Fetched<'_> {
        match &self.execution {
            Some(execution) => Fetched::Done {
                execution,
                count: 1,
            },
            None => Fetched::Nothing,
        }
    }
}

impl FromRedisValue for Lease {
    fn from_redis_value(value: Value) -> Result<Lease, ParsingError> {
        let (chg, token, deadline, due, count, execution, uri) =
            FromRedisValue::from_redis_value(value)?;
        Ok(Lease {
            chg,
            token,
            deadline,
            due,
            count,
            execution,
            uri,
        })
    }
}

/// What leases are wanted.
#[derive(Clone, Copy, Debug)]
pub struct Next {
    /// How long they last; the server's `crawlspace.chg-lease` when it is not said.
    pub lease: Option<Duration>,
    /// How many at most.
    pub count: u32,
    /// What to do when no group is due.
    pub wait: Wait,
}

impl Default for Next {
    /// One, and only if there is one now.
    fn default() -> Next {
        Next {
            lease: None,
            count: 1,
            wait: Wait::No,
        }
    }
}

/// How long to wait for a group that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    No,
    /// Up to so long.
    UpTo(Duration),
    /// For ever.
    ForEver,
}

impl Wait {
    /// For how many milliseconds the server is to be asked to wait, after so long. `None`: not at all.
    /// Not for longer than `longest` at a time.
    fn left(self, waited: Duration, longest: Duration) -> Option<u64> {
        let left = match self {
            Wait::No => return None,
            Wait::UpTo(whole) => whole.checked_sub(waited)?.min(longest),
            Wait::ForEver => longest,
        };
        // 0 would mean for ever.
        Some(millis(left)).filter(|&ms| ms > 0)
    }
}

/// How long the group has to be left alone now.
#[derive(Clone, Copy, Debug)]
pub enum Pause {
    /// Until then.
    Until(Millis),
    /// For so long from now on.
    For(Duration),
    /// For as long as the server makes of these facts.
    Computed(Facts),
}

impl From<Facts> for Pause {
    fn from(facts: Facts) -> Pause {
        Pause::Computed(facts)
    }
}

/// What a fetch was like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// How long it took.
    pub elapsed: Duration,
    /// The pause is so many times as long: 0 to 1000, of which three decimals count; 1 when it is not said.
    pub factor: Option<f64>,
    /// It is at least so long.
    pub min: Option<Duration>,
    /// What is computed from the time that the fetch took is at most so long.
    pub max: Option<Duration>,
    /// `Crawl-delay` of the host's robots.txt.
    pub crawl_delay: Option<Duration>,
    /// `Retry-After` of the answer.
    pub retry_after: Option<Duration>,
    /// The status of the answer; negative when there was none. 429, 503 and their like make the server
    /// back off, step by step.
    pub status: Option<i32>,
}

/// What becomes of the URI of a lease.
#[derive(Clone, Copy, Debug)]
pub enum Fetched<'a> {
    /// It is dealt with. Where the frontier only counts URIs: `count` of this execution are.
    #[allow(missing_docs)]
    Done { execution: &'a [u8], count: u64 },
    /// It is to be tried again then.
    Retry(Millis),
    /// It goes back as it was.
    Nothing,
}

/// What to hold, or to let go on.
#[derive(Clone, Copy, Debug)]
pub enum Held<'a> {
    /// Every group of the frontier.
    Everything,
    /// One group.
    Group(&'a [u8]),
    /// One crawl.
    Execution(&'a [u8]),
}

/// What a group is allowed. What is not said stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How many fetches at a time.
    pub parallel: Option<u32>,
    /// The shortest time from the beginning of one fetch to that of the next.
    pub gap: Option<Duration>,
    /// How many more URIs it takes in.
    pub budget: Option<Budget>,
}

/// How many more URIs a group takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// So many.
    Left(u64),
    /// Any number.
    Unlimited,
}

/// A lease that ran out before it was released.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Expired {
    /// The group.
    #[serde(serialize_with = "as_text")]
    pub chg: Vec<u8>,
    /// Whose URI was leased, if the frontier keeps URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub execution: Option<Vec<u8>>,
    /// The URI that was leased, if the frontier keeps URIs.
    #[serde(serialize_with = "as_optional_text")]
    pub uri: Option<Vec<u8>>,
    /// How many times this has happened to it.
    pub times: u64,
}

impl FromRedisValue for Expired {
    fn from_redis_value(value: Value) -> Result<Expired, ParsingError> {
        let (chg, execution, uri, times) = FromRedisValue::from_redis_value(value)?;
        Ok(Expired {
            chg,
            execution,
            uri,
            times,
        })
    }
}

/// A frontier: the keys of one prefix.
///
/// A call whose connection breaks is sent again unless its description says otherwise.
#[derive(Clone, Debug)]
pub struct Frontier<S = Server> {
    server: S,
    prefix: Arc<[u8]>,
    /// Simulated time.
    now: Option<Millis>,
}

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
    /// When the URL is none, or nobody answers there.
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

    /// The same frontier, asked in another way: in a [`Batch`](crate::Batch), for example.
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

    /// The same frontier at a simulated time: for its calls it is then. Nobody waits in simulated time, so
    /// [`Wait`] is not looked at. Only where the server has `crawlspace.chg-simulated-time`.
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
        execution: &[u8],
        sequence: Option<Sequence<'_>>,
        uris: &[(&[u8], Millis)],
    ) -> S::Answer<Vec<Option<u64>>> {
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
        execution: &[u8],
        weight: Option<u32>,
        uris: &[Uri<'_>],
    ) -> S::Answer<Vec<Option<u64>>> {
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

    /// `CHG.RELEASE`: the fetch has ended. Gives the time at which the group will be due.
    ///
    /// Sending it twice changes nothing and gives the first answer, as long as nobody has leased the group
    /// since.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// let facts = Facts { elapsed: std::time::Duration::from_millis(300), ..Facts::default() };
    /// let due = frontier.release(&lease, &facts.into(), &lease.done())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `STALE` when the lease is not held any more, `NOCHG` when there is no such group (nothing was
    /// changed); or when the server refuses or cannot be reached. After a connection that broke, `STALE`
    /// may also mean that the release was done and the group is leased again.
    pub fn release(
        &self,
        lease: &Lease,
        pause: &Pause,
        fetched: &Fetched<'_>,
    ) -> S::Answer<Millis> {
        let release = self.release_command(lease, pause, fetched);
        self.repeat(release)
    }

    fn release_command(&self, lease: &Lease, pause: &Pause, fetched: &Fetched<'_>) -> Cmd {
        let mut release = self.command("CHG.RELEASE");
        release.arg(&lease.chg[..]).arg(lease.token);
        match pause {
            Pause::Until(at) => {
                release.arg("AT").arg(at);
            }
            Pause::For(delay) => {
                release.arg("DELAY").arg(millis(*delay));
            }
            Pause::Computed(facts) => facts.write_to(&mut release),
        }
        match fetched {
            Fetched::Done { execution, count } => {
                release.arg("DONE").arg(*execution);
                if *count != 1 {
                    release.arg(count);
                }
            }
            Fetched::Retry(at) => {
                release.arg("RETRY").arg(at);
            }
            Fetched::Nothing => {}
        }
        release
    }

    /// `CHG.EXTEND`: the lease lasts so long from now on. Gives the new deadline.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// let deadline = frontier.extend(&lease, std::time::Duration::from_secs(60))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `STALE` when the lease is not held any more, `NOCHG` when there is no such group; or when the server
    /// refuses or cannot be reached.
    pub fn extend(&self, lease: &Lease, by: Duration) -> S::Answer<Millis> {
        let mut extend = self.command("CHG.EXTEND");
        extend.arg(&lease.chg[..]).arg(lease.token).arg(millis(by));
        self.repeat(extend)
    }

    /// `CHG.BLOCK`: no fetches from this group until then. A time in the past ends a block.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// // Until the year 2033, by the server's clock; 0 would end it.
    /// frontier.block(b"example.com", 2_000_000_000_000)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when there is no such group; or when the server refuses or cannot be reached.
    pub fn block(&self, chg: &[u8], until: Millis) -> S::Answer<()> {
        let mut block = self.command("CHG.BLOCK");
        block.arg(chg).arg("UNTIL").arg(until);
        self.repeat(block)
    }

    /// `CHG.PAUSE`: no new fetches of these, until [`resume`](Frontier::resume).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.pause(Held::Execution(b"crawl-1"))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when there is no such group; or when the server refuses or cannot be reached.
    pub fn pause(&self, held: Held<'_>) -> S::Answer<()> {
        self.hold("CHG.PAUSE", held)
    }

    /// `CHG.RESUME`: fetches of these go on.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.resume(Held::Everything)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`pause`](Frontier::pause).
    pub fn resume(&self, held: Held<'_>) -> S::Answer<()> {
        self.hold("CHG.RESUME", held)
    }

    fn hold(&self, name: &str, held: Held<'_>) -> S::Answer<()> {
        let mut hold = self.command(name);
        match held {
            Held::Everything => {}
            Held::Group(chg) => {
                hold.arg(chg);
            }
            Held::Execution(execution) => {
                hold.arg("EXECUTION").arg(execution);
            }
        }
        self.repeat(hold)
    }

    /// `CHG.LIMIT`: what the group is allowed. May come before its first URI. With a budget it is not sent
    /// again after a connection that broke, because what was taken in meanwhile would not count.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.limit(b"example.com", &Limits { parallel: Some(2), ..Limits::default() })?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When no limit is given, or the server refuses or cannot be reached.
    pub fn limit(&self, chg: &[u8], limits: &Limits) -> S::Answer<()> {
        let mut limit = self.command("CHG.LIMIT");
        limit.arg(chg);
        if let Some(parallel) = limits.parallel {
            limit.arg("PARALLEL").arg(parallel);
        }
        if let Some(gap) = limits.gap {
            limit.arg("GAP").arg(millis(gap));
        }
        match limits.budget {
            Some(Budget::Left(uris)) => limit.arg("BUDGET").arg(uris),
            Some(Budget::Unlimited) => limit.arg("BUDGET").arg(-1),
            None => return self.repeat(limit),
        };
        self.once(limit)
    }

    /// `CHG.GROUP`: of these groups together, which are on one server for example, only one is fetched from
    /// at a time, and the pause after a fetch holds for all. An empty name takes them out of their group.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.share_gate(b"192.0.2.7", &[b"a.example", b"b.example"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn share_gate(&self, group: &[u8], chgs: &[&[u8]]) -> S::Answer<()> {
        if chgs.is_empty() {
            return self.server.ask(Call::known(()));
        }
        let mut share = self.command("CHG.GROUP");
        share.arg(group).arg(chgs);
        self.repeat(share)
    }

    /// `CHG.MOVE`: everything queued for `from` belongs to `to` now. Gives the number of URIs moved, and the
    /// number that `to` has now. It is not sent again after a connection that broke.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (moved, queued) = frontier.move_uris(b"www.example.com", b"example.com")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `LEASED` while somebody fetches from `from`, `NOCHG` when there is no such group; or when the server
    /// refuses or cannot be reached.
    pub fn move_uris(&self, from: &[u8], to: &[u8]) -> S::Answer<(u64, u64)> {
        let mut moving = self.command("CHG.MOVE");
        moving.arg(from).arg(to);
        self.server.ask(Call::new(moving).waits())
    }

    /// `CHG.DROP`: this crawl is aborted; its URIs go. Gives the number of groups that had any, and the
    /// number of URIs. After a connection that broke, what was left for the second time.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (groups, uris) = frontier.drop_execution(b"crawl-1")?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn drop_execution(&self, execution: &[u8]) -> S::Answer<(u64, u64)> {
        let mut drop = self.command("CHG.DROP");
        drop.arg(execution);
        self.server.ask(Call::new(drop).repeatable().waits())
    }

    /// `CHG.SWEEP`: moves what is due to `chg_ready`, for plain clients that take groups from there: all, or so
    /// many groups. Gives the number of groups from `chg_wait` and from `chg_busy`.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let (waited, ran_out) = frontier.sweep(Some(1000))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn sweep(&self, limit: Option<u64>) -> S::Answer<(u64, u64)> {
        let mut sweep = self.command("CHG.SWEEP");
        if let Some(limit) = limit {
            sweep.arg("LIMIT").arg(limit);
        }
        self.server.ask(Call::new(sweep).repeatable().waits())
    }

    /// `CHG.EXPIRED`: up to `count` leases that ran out, oldest first. Each is reported once, and not again
    /// when the connection breaks on the way.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// for report in frontier.expired(100)? {
    ///     println!("{} ran out {} times", String::from_utf8_lossy(&report.chg), report.times);
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn expired(&self, count: u32) -> S::Answer<Vec<Expired>> {
        let mut expired = self.command("CHG.EXPIRED");
        expired.arg("COUNT").arg(count);
        self.repeat(expired)
    }

    /// `CHG.WHY`: why is this group not being fetched from?
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{}", frontier.why(b"example.com")?.why);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when there is no such group; or when the server refuses or cannot be reached.
    pub fn why(&self, chg: &[u8]) -> S::Answer<Why> {
        let mut why = self.command("CHG.WHY");
        why.arg(chg);
        self.repeat(why)
    }

    /// `CHG.INFO`: the figures of the frontier.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let info = frontier.info()?;
    /// println!("{} URIs, {} hosts are due", info.uris, info.due);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn info(&self) -> S::Answer<Info> {
        let info = self.command("CHG.INFO");
        self.repeat(info)
    }

    /// `CHG.CHECK`: do all counts agree, and is each group where it belongs?
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// let check = frontier.check()?;
    /// assert!(check.consistent, "{:?}", check.problems);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn check(&self) -> S::Answer<Check> {
        let check = self.command("CHG.CHECK");
        self.server.ask(Call::new(check).repeatable().waits())
    }

    /// `CHG.REPAIR`: makes it so. Gives what was found, and how much of it was mended.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// println!("{:?} things were mended", frontier.repair()?.mended);
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the server refuses or cannot be reached.
    pub fn repair(&self) -> S::Answer<Check> {
        let repair = self.command("CHG.REPAIR");
        self.server.ask(Call::new(repair).repeatable().waits())
    }
}

impl<S: Steps> Frontier<S> {
    /// `CHG.NEXT`: leases of the groups that have been due for longest. Empty when there were none in time.
    ///
    /// A lease that a broken connection swallowed runs out at its deadline, and the group goes to somebody
    /// else.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// use std::time::Duration;
    /// let next = Next { wait: Wait::UpTo(Duration::from_secs(60)), count: 10, ..Next::default() };
    /// for lease in frontier.next(&next)? {
    ///     println!("fetch from {} now", String::from_utf8_lossy(&lease.chg));
    /// }
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `UNBLOCKED` when the server became a replica while this waited; or when the server refuses or cannot
    /// be reached.
    pub fn next(&self, next: &Next) -> S::Answer<Vec<Lease>> {
        let (frontier, next) = (self.clone(), *next);
        self.server
            .run(async move { frontier.take_next(next).await })
    }

    async fn take_next(&self, mut next: Next) -> Result<Vec<Lease>, Error> {
        let begun = Instant::now();
        let longest = self.longest_wait();
        let now = self.now;
        if now.is_some() {
            next.wait = Wait::No;
        }
        loop {
            let prefix = Arc::clone(&self.prefix);
            let command = move || {
                let mut command = command("CHG.NEXT", &prefix, now);
                if let Some(lease) = next.lease {
                    command.arg("LEASE").arg(millis(lease));
                }
                if next.count != 1 {
                    command.arg("COUNT").arg(next.count);
                }
                if let Some(block) = next.wait.left(begun.elapsed(), longest) {
                    command.arg("BLOCK").arg(block);
                }
                command
            };
            let mut call = Call::<Option<Vec<Lease>>>::new(command()).repeatable();
            if next.wait != Wait::No {
                call = call.waits();
            }
            match self.server.step(call.anew(command)).await? {
                Some(leases) => return Ok(leases),
                // `CLIENT UNBLOCK` also ends a wait; whoever waits for ever asks again then as well.
                None if next.wait.left(begun.elapsed(), longest).is_some() => {}
                None => return Ok(Vec::new()),
            }
        }
    }

    /// Less than the time after which the connection gives a silent server up for dead.
    fn longest_wait(&self) -> Duration {
        LONGEST_WAIT.min(self.server.longest_wait())
    }

    /// `CHG.RELEASE … NEXT`: the same, and the next lease in the same round trip. `next.count` is not
    /// looked at: one lease is given for one that was released.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), crawlspace_client::Error> {
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// # let Some(lease) = frontier.next(&Next::default())?.pop() else { return Ok(()) };
    /// use std::time::Duration;
    /// let facts = Facts { elapsed: Duration::from_millis(300), status: Some(200), ..Facts::default() };
    /// let next = Next { wait: Wait::ForEver, ..Next::default() };
    /// let (due, next_lease) = frontier.release_and_next(&lease, &facts.into(), &lease.done(), &next)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`release`](Frontier::release), and `UNBLOCKED` when the server became a replica while this
    /// waited: the release is done then.
    pub fn release_and_next(
        &self,
        lease: &Lease,
        pause: &Pause,
        fetched: &Fetched<'_>,
        next: &Next,
    ) -> S::Answer<(Millis, Option<Lease>)> {
        let begun = Instant::now();
        let mut release = self.release_command(lease, pause, fetched);
        release.arg("NEXT");
        if let Some(lease) = next.lease {
            release.arg("LEASE").arg(millis(lease));
        }
        let mut next = *next;
        if self.now.is_some() {
            next.wait = Wait::No;
        }
        let block = next.wait.left(Duration::ZERO, self.longest_wait());
        if let Some(block) = block {
            release.arg("BLOCK").arg(block);
        }
        let mut release = Call::<(Millis, Option<Lease>)>::new(release).repeatable();
        if block.is_some() {
            release = release.waits();
        }
        let frontier = self.clone();
        self.server.run(async move {
            let (due, taken) = frontier.server.step(release).await?;
            if taken.is_some() || next.wait == Wait::No {
                return Ok((due, taken));
            }
            // It waited for as long as a call may, or it was sent again: such a call does not wait.
            let wait = match next.wait {
                Wait::UpTo(whole) => match whole.checked_sub(begun.elapsed()) {
                    Some(left) => Wait::UpTo(left),
                    None => return Ok((due, None)),
                },
                for_ever => for_ever,
            };
            let rest = Next {
                wait,
                count: 1,
                ..next
            };
            Ok((due, frontier.take_next(rest).await?.pop()))
        })
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

impl Facts {
    fn write_to(&self, command: &mut Cmd) {
        command.arg("ELAPSED").arg(millis(self.elapsed));
        if let Some(factor) = self.factor {
            // The server reads plain decimals, and no more than three.
            command.arg("FACTOR").arg(format!("{factor:.3}"));
        }
        for (name, time) in [
            ("MIN", self.min),
            ("MAX", self.max),
            ("CRAWLDELAY", self.crawl_delay),
            ("RETRYAFTER", self.retry_after),
        ] {
            if let Some(time) = time {
                command.arg(name).arg(millis(time));
            }
        }
        if let Some(status) = self.status {
            command.arg("STATUS").arg(status);
        }
    }
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
    fn the_server_is_never_asked_to_wait_for_longer_than_the_connection_does() {
        let hour = Duration::from_secs(3600);
        let longest = LONGEST_WAIT.as_millis() as u64;
        assert!(LONGEST_WAIT < crate::server::PATIENCE);
        assert_eq!(Wait::No.left(Duration::ZERO, LONGEST_WAIT), None);
        assert_eq!(
            Wait::UpTo(hour).left(Duration::ZERO, LONGEST_WAIT),
            Some(longest)
        );
        assert_eq!(Wait::ForEver.left(hour, LONGEST_WAIT), Some(longest));
        let left = Wait::UpTo(hour).left(hour - Duration::from_millis(7), LONGEST_WAIT);
        assert_eq!(left, Some(7));
        let left = Wait::UpTo(hour).left(hour - Duration::from_micros(7), LONGEST_WAIT);
        assert_eq!(left, Some(1));
        // `BLOCK 0` would be for ever.
        assert_eq!(Wait::UpTo(hour).left(hour, LONGEST_WAIT), None);
        assert_eq!(Wait::UpTo(hour).left(2 * hour, LONGEST_WAIT), None);
    }

    #[test]
    fn a_pause_is_rounded_up() {
        assert_eq!(millis(Duration::from_micros(1)), 1);
        assert_eq!(millis(Duration::from_micros(1000)), 1);
        assert_eq!(millis(Duration::from_micros(1001)), 2);
        assert_eq!(millis(Duration::MAX), u64::MAX);
    }
}
