//! `crawlspace chg info`, `why` and `expired`: the state of a frontier for operators.

use std::io;

use clap::Args;
use crawlspace_client::frontier::{ExecutionInfo, Expired, Info, Why};
use crawlspace_compact::limits::chg::{COUNT, MAX_COUNT};

use super::existing;
use crate::columns::Columns;
use crate::table::{Table, count, duration, many};
use crate::terminal::{Bytes, say, text};
use crate::{Asking, storage, time};

/// Show the lengths and speed of the queues, and whether the pauses between fetches were kept.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg info --prefix '{web}:'
  crawlspace chg info --prefix '{web}:' --execution crawl-1")]
pub(crate) struct ShowInfo {
    /// Show one crawl execution, and the number of its known URLs in each state.
    #[arg(long, value_name = "ID")]
    execution: Option<String>,
    #[command(flatten)]
    asking: Asking,
}

impl ShowInfo {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let info = existing(&self.asking, &frontier)?;
        match &self.execution {
            None => self
                .asking
                .tell(&info, |info| print_info(&self.asking, info))?,
            Some(execution) => {
                let info = frontier.info_of(execution).map_err(io::Error::other)?;
                self.asking
                    .tell(&info, |info| print_execution(execution, info))?;
            }
        }
        Ok(true)
    }
}

/// Returns a sentence about the earliest time at which a group may be leased.
fn next_due(at: i64) -> String {
    let at = u64::try_from(at).map(time::utc);
    at.map_or_else(|_| String::new(), |at| format!("the next one at {at}"))
}

fn print_execution(execution: &str, info: &ExecutionInfo) -> io::Result<()> {
    let mut table = Table::new(&format!("execution '{execution}'"), 16)?;
    let paused = if info.paused {
        "paused; resume it with chg resume".to_owned()
    } else {
        next_due(info.next_due_ms)
    };
    table.row("URIs", count(info.uris), &paused)?;
    let states = [
        ("queued", info.queued),
        ("leased", info.leased),
        ("done", info.done),
        ("given up", info.given_up),
        ("known URLs", info.known),
    ];
    for (state, number) in states {
        if let Some(number) = number {
            table.row(state, count(number), "")?;
        }
    }
    table.end()
}

fn print_info(asking: &Asking, info: &Info) -> io::Result<()> {
    let mut table = Table::new(&format!("frontier '{}'", asking.server.prefix), 16)?;
    let crawls = format!("of {}", many(info.executions, "crawl"));
    table.row("URIs", count(info.uris), &crawls)?;
    let oldest = format!(
        "the first has been due for {}",
        duration(info.oldest_ready_ms)
    );
    let oldest = if info.due > 0 {
        oldest
    } else {
        next_due(info.next_due_ms)
    };
    table.row("groups due", count(info.due), &oldest)?;
    if info.known > 0 {
        let known = "remembered, in all states";
        table.row("known URLs", count(info.known), known)?;
    }
    table.row("ready", count(info.groups_ready), "in chg_ready")?;
    table.row("waiting", count(info.groups_waiting), "in chg_wait")?;
    table.row("busy", count(info.groups_busy), "are being fetched")?;
    let idle = "without URIs, in the pause after the last fetch";
    table.row("idle", count(info.groups_idle), idle)?;
    if info.groups_gated > 0 {
        let gated = "behind a shared gate that is closed";
        table.row("gated", count(info.groups_gated), gated)?;
    }
    match &info.paused[..] {
        "0" => {}
        "all" => table.line("Everything is paused; resume it with chg resume.")?,
        crawls => table.row("paused", crawls, "crawls")?,
    }
    let waiters = format!("{} workers wait for a host", count(info.waiters));
    let rate = format!("{}/s", count(info.rate_leases));
    table.row("leases", rate, &waiters)?;
    let reports = format!("expired; {} not read yet", count(info.expired_reports));
    table.row("expired", count(info.expired), &reports)?;
    if let (Some(pause), Some(margin)) = (info.smallest_pause_ms, info.smallest_margin_ms) {
        let observed = format!("the minimum of {} measured", count(info.pauses_observed));
        table.row("smallest pause", duration(pause), &observed)?;
        let late = match u64::try_from(margin) {
            Ok(late) => {
                format!("every fetch waited for its pause; the earliest started {late} ms after it")
            }
            Err(_) => format!(
                "a fetch started {} ms before its pause was over",
                margin.unsigned_abs()
            ),
        };
        table.row(
            "politeness",
            if margin < 0 { "BROKEN" } else { "kept" },
            &late,
        )?;
    }
    storage::row(&mut table, "chg", info.storage)?;
    table.end()
}

/// Explain why a host is not being fetched from.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg why example.com --prefix '{web}:'")]
pub(crate) struct ShowWhy {
    #[command(flatten)]
    asking: Asking,
    /// The group of hosts.
    #[arg(value_name = "CHG", value_parser = Bytes::parser())]
    chg: Bytes,
}

impl ShowWhy {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let why = self.asking.frontier()?.why(self.chg.as_bytes());
        let why = why.map_err(io::Error::other)?;
        self.asking.tell(&why, print_why)?;
        Ok(true)
    }
}

fn print_why(why: &Why) -> io::Result<()> {
    let chg = text(&why.chg);
    let mut table = Table::new(&format!("{chg}: {}", why.state), 12)?;
    table.line(&why.why)?;
    if why.r#in > 0 && why.leases.is_empty() {
        table.row("due in", duration(why.r#in), "")?;
    }
    table.row("URIs", count(why.count), "")?;
    for one in &why.executions {
        let whose = format!("of crawl {}", text(&one.execution));
        table.row("", count(one.uris), &whose)?;
    }
    for lease in &why.leases {
        let age = duration(lease.age);
        let left = lease.deadline.saturating_sub(lease.granted + lease.age);
        let uri = lease.uri.as_deref().map(text);
        let what = match uri {
            Some(uri) => format!("ago, for another {}: {uri}", duration(left)),
            None => format!("ago, for another {}", duration(left)),
        };
        table.row("leased", age, &what)?;
    }
    if why.parallel > 1 {
        table.row("parallel", count(why.parallel), "fetches at a time")?;
    }
    if why.gap > 0 {
        let starts = "between the starts of two fetches";
        table.row("gap", duration(why.gap), starts)?;
    }
    if let Some(delay) = why.delay {
        let after = "after a fetch, if the worker does not set the pause";
        table.row("delay", duration(delay), after)?;
    }
    if let Some(budget) = why.budget {
        table.row("budget", count(budget), "more URIs are accepted")?;
    }
    for one in &why.done_limits {
        let (limit, whose) = (count(one.limit), text(&one.execution));
        let most = format!("of at most {limit} URLs of crawl {whose}");
        table.row("done", count(one.done), &most)?;
    }
    if why.backoff > 0 {
        table.row("back-off", count(why.backoff), "steps")?;
    }
    if why.expired > 0 {
        table.row("expired", count(why.expired), "leases in a row expired")?;
    }
    table.end()
}

/// Show the expired leases of workers that died or took longer than their lease.
///
/// Each expired lease is shown once, because reading a report removes it from the server's list. The work is not
/// lost: another worker gets it.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg expired --count 1000 --json")]
pub(crate) struct ShowExpired {
    #[command(flatten)]
    asking: Asking,
    /// Maximum number of leases to show.
    #[arg(long, value_name = "N", default_value_t = COUNT as u32, value_parser = clap::value_parser!(u32).range(1..=MAX_COUNT as i64))]
    count: u32,
}

impl ShowExpired {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let reports = self.asking.frontier()?.expired(self.count);
        let reports = reports.map_err(io::Error::other)?;
        self.asking.tell_all(&reports, print_expired)?;
        Ok(true)
    }
}

fn print_expired(reports: &[Expired]) -> io::Result<()> {
    if reports.is_empty() {
        say("no lease expired");
        return Ok(());
    }
    let mut table = Columns::new("group | times> | crawl | uri");
    for report in reports {
        let or_none = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(text).unwrap_or_default();
        table.row([
            text(&report.chg),
            count(report.times),
            or_none(&report.execution),
            or_none(&report.uri),
        ]);
    }
    table.print()
}
