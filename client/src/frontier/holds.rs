//! Limits, pauses and blocks of host groups.

use std::time::Duration;

use super::{Frontier, Millis, millis};
use crate::reply::shown;
use crate::server::{Ask, Call};

/// The target of a pause or resume.
#[derive(Clone, Copy)]
pub enum Held<'a> {
    /// Every group of the frontier.
    Everything,
    /// A single group.
    Group(&'a [u8]),
    /// A single crawl execution.
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

/// Limits of a group. A `None` field keeps the current setting.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Maximum number of parallel fetches.
    pub parallel: Option<u32>,
    /// Minimum time from the start of one fetch to the start of the next.
    pub gap: Option<Duration>,
    /// Pause after a fetch if the release specifies none, and minimum of a computed pause. `Some(None)`
    /// removes the setting.
    pub delay: Option<Option<Duration>>,
    /// Number of URIs that the group still accepts.
    pub budget: Option<Budget>,
}

/// Number of URIs that a group still accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// A fixed number.
    Left(u64),
    /// Unlimited.
    Unlimited,
}

impl<S: Ask> Frontier<S> {
    /// Blocks fetches from a group until the given time (`CHG.BLOCK`). A time in the past ends the block.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// // Blocks until the year 2033, by the server's clock; 0 would end the block.
    /// frontier.block(b"example.com", 2_000_000_000_000)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when the group does not exist, or another server or connection error.
    pub fn block(&self, chg: impl AsRef<[u8]>, until: Millis) -> S::Answer<()> {
        let chg = chg.as_ref();
        let mut block = self.command("CHG.BLOCK");
        block.arg(chg).arg("UNTIL").arg(until);
        self.repeat(block)
    }

    /// Pauses new fetches of the frontier, a group or an execution until [`resume`](Frontier::resume)
    /// (`CHG.PAUSE`).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.pause(Held::Execution(b"crawl-1"))?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NOCHG` when the group does not exist, or another server or connection error.
    pub fn pause(&self, held: Held<'_>) -> S::Answer<()> {
        self.hold("CHG.PAUSE", held)
    }

    /// Resumes fetches of the frontier, a group or an execution (`CHG.RESUME`).
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.resume(Held::Everything)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the errors of [`pause`](Frontier::pause).
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

    /// Sets limits of a group (`CHG.LIMIT`). The group need not have any URIs yet. If the
    /// connection breaks, the client does not retry a call with a budget, because a retry would
    /// reset the number of URIs that the group accepted in the meantime.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.limit(b"example.com", &Limits { parallel: Some(2), ..Limits::default() })?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails if no limit is given, or with a server or connection error.
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

    /// Stops fetches of a group for an execution once this number of its URLs are done (`CHG.LIMIT … DONE`). 0 removes
    /// this limit. The frontier must be packed. The server counts the URLs of the execution first, which takes a while
    /// if there are many.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.limit_done(b"example.com", b"crawl-1", 1000)?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// `PLAIN` if the frontier is not packed, or another server or connection error.
    pub fn limit_done(
        &self,
        chg: impl AsRef<[u8]>,
        execution: impl AsRef<[u8]>,
        urls: u64,
    ) -> S::Answer<()> {
        let mut limit = self.command("CHG.LIMIT");
        limit.arg(chg.as_ref()).arg("DONE").arg(urls);
        limit.arg("EXECUTION").arg(execution.as_ref());
        self.server.ask(Call::new(limit).repeatable().waits())
    }

    /// Puts groups behind a shared gate, for example because their hosts are on one server
    /// (`CHG.GROUP`). Workers then fetch from only one of these groups at a time, and the pause
    /// after a fetch applies to all of them. An empty name removes the groups from their shared
    /// gate.
    ///
    /// ```no_run
    /// # use crawlspace_client::frontier::*;
    /// # let frontier = Frontier::open("redis://127.0.0.1/", "")?;
    /// frontier.share_gate(b"192.0.2.7", &[b"a.example", b"b.example"])?;
    /// # Ok::<(), crawlspace_client::Error>(())
    /// ```
    ///
    /// # Errors
    /// Fails with the error of the server, or a connection error.
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
