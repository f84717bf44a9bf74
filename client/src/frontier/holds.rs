//! What a group of hosts is allowed, and what holds it.

use std::time::Duration;

use super::{Frontier, Millis, millis};
use crate::reply::shown;
use crate::server::{Ask, Call};

/// What to hold, or to resume.
#[derive(Clone, Copy)]
pub enum Held<'a> {
    /// Every group of the frontier.
    Everything,
    /// One group.
    Group(&'a [u8]),
    /// One crawl.
    Execution(&'a [u8]),
}

impl std::fmt::Debug for Held<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Everything => f.write_str("Everything"),
            Self::Group(bytes) => f.debug_tuple("Group").field(&shown::text(bytes)).finish(),
            Self::Execution(bytes) => f
                .debug_tuple("Execution")
                .field(&shown::text(bytes))
                .finish(),
        }
    }
}

/// What a group is allowed. What is not said stays as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// How many fetches at a time.
    pub parallel: Option<u32>,
    /// The shortest time from the beginning of one fetch to that of the next.
    pub gap: Option<Duration>,
    /// The pause after a fetch where a release says none, and the least where it is computed. `Some(None)`
    /// for none.
    pub delay: Option<Option<Duration>>,
    /// How many more URIs it takes in.
    pub budget: Option<Budget>,
}

/// How many more URIs a group takes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// This number.
    Left(u64),
    /// Any number.
    Unlimited,
}

impl<S: Ask> Frontier<S> {
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
    pub fn block(&self, chg: impl AsRef<[u8]>, until: Millis) -> S::Answer<()> {
        let chg = chg.as_ref();
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
    pub fn limit(&self, chg: impl AsRef<[u8]>, limits: &Limits) -> S::Answer<()> {
        let chg = chg.as_ref();
        let mut limit = self.command("CHG.LIMIT");
        limit.arg(chg);
        if let Some(parallel) = limits.parallel {
            limit.arg("PARALLEL").arg(parallel);
        }
        if let Some(gap) = limits.gap {
            limit.arg("GAP").arg(millis(gap));
        }
        match limits.delay {
            Some(Some(delay)) => drop(limit.arg("DELAY").arg(millis(delay))),
            Some(None) => drop(limit.arg("DELAY").arg(-1)),
            None => {}
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
    pub fn share_gate(&self, group: impl AsRef<[u8]>, chgs: &[&[u8]]) -> S::Answer<()> {
        let group = group.as_ref();
        if chgs.is_empty() {
            return self.server.ask(Call::known(()));
        }
        let mut share = self.command("CHG.GROUP");
        share.arg(group).arg(chgs);
        self.repeat(share)
    }
}
