//! `crawlspace chg move`, `drop` and `sweep`: changes of the queues.

use std::io::{self, Write};

use clap::Args;
use crawlspace_client::frontier::Frontier;
use crawlspace_client::{Ask, Call, Code};
use serde::Serialize;

use crate::Asking;
use crate::table::{count, many};
use crate::terminal::{Bytes, Consent, say};

/// Move everything that is queued for one group to another group.
///
/// Use it when the address of a host that was queued by name becomes known. The pauses of both groups still apply.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg move a.example 192.0.2.7")]
pub(crate) struct Move {
    #[command(flatten)]
    asking: Asking,
    /// The group to take URIs from.
    #[arg(value_name = "FROM", value_parser = Bytes::parser())]
    from: Bytes,
    /// The group to move them to.
    #[arg(value_name = "TO", value_parser = Bytes::parser())]
    to: Bytes,
}

#[derive(Serialize)]
struct Moved<'a> {
    from: &'a Bytes,
    to: &'a Bytes,
    moved: u64,
    /// Number of URIs that the target group has now.
    count: u64,
}

impl Move {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let Move { asking, from, to } = self;
        let moved = asking.frontier()?.move_uris(from.as_bytes(), to.as_bytes());
        let (moved, now) = moved.map_err(io::Error::other)?;
        let outcome = Moved {
            from,
            to,
            moved,
            count: now,
        };
        asking.tell(&outcome, |_| {
            let (moved, now) = (many(moved, "URI"), count(now));
            writeln!(io::stdout(), "{moved} moved; group {to} has {now}")
        })?;
        Ok(true)
    }
}

/// Abort a crawl, or empty a group: all of its URIs are removed.
///
/// Prints their number and asks for confirmation, unless --yes is given. Emptying a group removes
/// the URIs of all crawls, which continue elsewhere; the pause and the limits of the group stay.
/// New URIs are accepted afterwards; for an aborted crawl, only after the deadline of its last lease.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg drop crawl-1 --prefix '{web}:'
  crawlspace chg drop --group trap.example")]
pub(crate) struct Drop {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    consent: Consent,
    /// The crawl.
    #[arg(value_name = "EXECUTION", value_parser = Bytes::parser(), required_unless_present = "group")]
    execution: Option<Bytes>,
    /// A group of hosts, instead of a crawl.
    #[arg(long, value_name = "CHG", value_parser = Bytes::parser(), conflicts_with = "execution")]
    group: Option<Bytes>,
}

#[derive(Serialize)]
struct Dropped<'a> {
    execution: &'a Bytes,
    groups: u64,
    uris: u64,
}

#[derive(Serialize)]
struct Emptied<'a> {
    group: &'a Bytes,
    executions: u64,
    uris: u64,
}

impl Drop {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        match (&self.group, &self.execution) {
            (Some(group), _) => self.empty(&frontier, group),
            (None, Some(execution)) => self.abort(&frontier, execution),
            // clap requires a crawl or a group.
            (None, None) => Ok(false),
        }
    }

    fn abort(&self, frontier: &Frontier, execution: &Bytes) -> io::Result<bool> {
        let what = format!("crawl {execution}");
        if !self.is_wanted(&what, queued(frontier, execution.as_bytes())?)? {
            return Ok(false);
        }
        let dropped = self
            .asking
            .waited(&["drop"], || frontier.drop_execution(execution.as_bytes()));
        let (groups, uris) = dropped.map_err(io::Error::other)?;
        let outcome = Dropped {
            execution,
            groups,
            uris,
        };
        self.tell(&outcome, &what, uris, &many(groups, "group"))
    }

    fn empty(&self, frontier: &Frontier, group: &Bytes) -> io::Result<bool> {
        let what = format!("group {group}");
        let why = frontier.why(group.as_bytes()).map_err(io::Error::other)?;
        if !self.is_wanted(&what, Some(why.count))? {
            return Ok(false);
        }
        let dropped = frontier.drop_group(group.as_bytes());
        let (executions, uris) = dropped.map_err(io::Error::other)?;
        let outcome = Emptied {
            group,
            executions,
            uris,
        };
        self.tell(&outcome, &what, uris, &many(executions, "crawl"))
    }

    fn is_wanted(&self, what: &str, queued: Option<u64>) -> io::Result<bool> {
        match queued {
            Some(queued) => say(format_args!("{what}: {} queued", many(queued, "URI"))),
            None => say(format_args!(
                "{what}: the number of its URIs is not known, because the frontier is not in plain keys"
            )),
        }
        self.consent.given("Drop them all?")
    }

    fn tell(&self, outcome: &impl Serialize, what: &str, uris: u64, of: &str) -> io::Result<bool> {
        self.asking.tell(outcome, |_| {
            let uris = many(uris, "URI");
            writeln!(io::stdout(), "{what}: {uris} of {of} dropped")
        })?;
        Ok(true)
    }
}

/// Returns the number of queued URIs of this crawl, from its documented key. A packed frontier does not have
/// that key.
fn queued(frontier: &Frontier, execution: &[u8]) -> io::Result<Option<u64>> {
    let mut queued = redis::cmd("HGET");
    queued
        .arg([frontier.prefix(), b"EIDC"].concat())
        .arg(execution);
    let queued = Call::<Option<u64>>::new(queued).repeatable();
    match frontier.server().ask(queued) {
        Ok(queued) => Ok(Some(queued.unwrap_or(0))),
        Err(error) if error.code() == Some(Code::WrongType) => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Move due groups to chg_ready, for plain clients that take groups from there.
///
/// This is the queue worker of the published design. Clients that use CHG.NEXT do not need it.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg sweep --limit 1000")]
pub(crate) struct Sweep {
    #[command(flatten)]
    asking: Asking,
    /// Maximum number of groups to move.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Swept {
    from_wait: u64,
    from_busy: u64,
}

impl Sweep {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let swept = self
            .asking
            .waited(&["sweep"], || frontier.sweep(self.limit));
        let (from_wait, from_busy) = swept.map_err(io::Error::other)?;
        let swept = Swept {
            from_wait,
            from_busy,
        };
        self.asking.tell(&swept, |_| {
            let (waited, late) = (many(from_wait, "group"), many(from_busy, "lease"));
            writeln!(io::stdout(), "{waited} came due, {late} expired")
        })?;
        Ok(true)
    }
}
