//! `crawlspace chg pause`, `resume` and `block`: pausing of hosts.

use std::io::{self, Write};
use std::time::Duration;

use clap::{ArgGroup, Args};
use crawlspace_client::frontier::{Frontier, Held, Millis};
use crawlspace_client::{Ask, Call};
use serde::Serialize;

use crate::terminal::{Bytes, shown};
use crate::{Asking, time};

/// Pause one group, one crawl, or everything, until `resume`.
///
/// The server grants no new leases while a pause lasts. Current leases stay valid, and queued URIs keep their
/// positions.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg pause example.com
  crawlspace chg pause --execution crawl-1
  crawlspace chg pause")]
pub(crate) struct Pause {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    what: What,
}

/// Resume one group, one crawl, or everything.
///
/// Resuming ends only the pause of the same kind: a group that was paused individually stays paused when everything
/// is resumed.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg resume example.com
  crawlspace chg resume --execution crawl-1
  crawlspace chg resume")]
pub(crate) struct Resume {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    what: What,
}

#[derive(Args)]
struct What {
    /// The group of hosts; without it, everything.
    #[arg(value_name = "CHG", value_parser = Bytes::parser(), conflicts_with = "execution")]
    chg: Option<Bytes>,
    /// A crawl.
    #[arg(long, value_name = "ID", value_parser = Bytes::parser())]
    execution: Option<Bytes>,
}

#[derive(Serialize)]
struct HoldReport<'a> {
    /// State after the command.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    chg: &'a Option<Bytes>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: &'a Option<Bytes>,
}

impl What {
    fn held(&self) -> Held<'_> {
        match (&self.chg, &self.execution) {
            (Some(chg), _) => Held::Group(chg.as_bytes()),
            (_, Some(execution)) => Held::Execution(execution.as_bytes()),
            _ => Held::Everything,
        }
    }

    fn tell(&self, asking: &Asking, state: &'static str) -> io::Result<bool> {
        let outcome = HoldReport {
            state,
            chg: &self.chg,
            execution: &self.execution,
        };
        asking.tell(&outcome, |_| {
            let what = match (&self.chg, &self.execution) {
                (Some(chg), _) => format!("group {chg}"),
                (_, Some(execution)) => format!("crawl {execution}"),
                _ => format!("frontier '{}'", asking.server.prefix),
            };
            writeln!(io::stdout(), "{what}: {state}")
        })?;
        Ok(true)
    }
}

impl Pause {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let paused = self.asking.frontier()?.pause(self.what.held());
        paused.map_err(io::Error::other)?;
        self.what.tell(&self.asking, "paused")
    }
}

impl Resume {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let resumed = self.asking.frontier()?.resume(self.what.held());
        resumed.map_err(io::Error::other)?;
        self.what.tell(&self.asking, "resumed")
    }
}

/// Block fetches from a group until a given time.
///
/// A held lease stays valid: the block begins with its release.
#[derive(Args)]
#[command(
    group = ArgGroup::new("end").required(true),
    after_help = "Examples:
  crawlspace chg block example.com --for 2h
  crawlspace chg block example.com --until 2026-03-19T10:20:15Z
  crawlspace chg block example.com --off"
)]
pub(crate) struct Block {
    #[command(flatten)]
    asking: Asking,
    /// The group of hosts.
    #[arg(value_name = "CHG", value_parser = Bytes::parser())]
    chg: Bytes,
    /// Duration from now, by the server's clock: 90s, 15m, 2h, 1d.
    #[arg(long = "for", value_name = "SPAN", value_parser = time::span, group = "end")]
    span: Option<Duration>,
    /// End of the block: a time in UTC, or milliseconds since the epoch.
    #[arg(long, value_name = "TIME", value_parser = time::moment, group = "end")]
    until: Option<Millis>,
    /// End a block now.
    #[arg(long, group = "end")]
    off: bool,
}

#[derive(Serialize)]
struct Blocked<'a> {
    chg: &'a Bytes,
    /// End of the block; 0 if the group is not blocked.
    #[serde(rename = "blocked-until")]
    until: Millis,
}

impl Block {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let until = match (self.span, self.until) {
            (Some(span), _) => now(&frontier)?.saturating_add(span.as_millis() as u64),
            (_, Some(until)) => until,
            _ => 0,
        };
        let blocked = frontier.block(self.chg.as_bytes(), until);
        blocked.map_err(io::Error::other)?;
        let chg = &self.chg;
        self.asking.tell(&Blocked { chg, until }, |_| {
            let line = match until {
                0 => format!("group {chg}: not blocked"),
                until => format!("group {chg}: blocked until {}", time::utc(until)),
            };
            writeln!(io::stdout(), "{}", shown(&line))
        })?;
        Ok(true)
    }
}

/// Returns the time of the server that holds the frontier.
fn now(frontier: &Frontier) -> io::Result<Millis> {
    let time = Call::<(u64, u64)>::new(redis::cmd("TIME")).repeatable();
    let time = frontier.server().ask(time.key(frontier.prefix()));
    let (seconds, micros) = time.map_err(io::Error::other)?;
    Ok(seconds * 1000 + micros / 1000)
}
