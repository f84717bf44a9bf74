//! `crawlspace frontier …`: which hosts may be fetched from now, and why the others may not.

use std::io;

use clap::{Args, Subcommand};
use crawlspace_client::frontier::{self, Check, Error, Expired, Info, Why};
use serde::Serialize;

use crate::table::{count, duration, print_json, Table};
use crate::Server;

#[derive(Subcommand)]
pub enum Frontier {
    /// Show how long the queues are, how fast they move, and whether politeness was kept.
    Info(Figures),
    /// Tell why a host is not being fetched from.
    Why(OneGroup),
    /// Prove that all counts agree and each group is where it belongs. Exit status 1 if something is wrong.
    Check(Figures),
    /// Show the leases that ran out: workers that died, or were slower than they said.
    ///
    /// Each is shown once: reading a report takes it off the server's list. The work itself is not lost, it
    /// went to somebody else.
    Expired(Reports),
}

#[derive(Args)]
pub struct Figures {
    #[command(flatten)]
    server: Server,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct OneGroup {
    #[command(flatten)]
    figures: Figures,
    /// The group of hosts.
    #[arg(value_name = "CHG")]
    chg: String,
}

#[derive(Args)]
pub struct Reports {
    #[command(flatten)]
    figures: Figures,
    /// How many at most.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    count: u32,
}

impl Frontier {
    pub fn run(&self) -> io::Result<bool> {
        match self {
            Frontier::Info(figures) => figures.show(|f| f.info(), |info| print_info(figures, info)),
            Frontier::Why(OneGroup { figures, chg }) => {
                figures.show(|f| f.why(chg.as_bytes()), print_why)
            }
            Frontier::Check(figures) => figures.show(|f| f.check(), print_check),
            Frontier::Expired(Reports { figures, count }) => {
                figures.show(|f| f.expired(*count), |reports| print_expired(reports))
            }
        }
    }
}

/// What is asked of a frontier, and whether it is as it should be.
trait Answer: Serialize {
    fn is_well(&self) -> bool {
        true
    }
}

impl Answer for Info {}
impl Answer for Why {}
impl Answer for Vec<Expired> {}
impl Answer for Check {
    fn is_well(&self) -> bool {
        self.consistent
    }
}

impl Figures {
    fn show<T: Answer>(
        &self,
        ask: impl FnOnce(&frontier::Frontier) -> Result<T, Error>,
        print: impl FnOnce(&T) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Server { redis, prefix } = &self.server;
        let answer = frontier::Frontier::open(redis, prefix.as_str()).and_then(|open| ask(&open));
        match answer {
            Ok(answer) if self.json => print_json(&answer).map(|()| answer.is_well()),
            Ok(answer) => print(&answer).map(|()| answer.is_well()),
            Err(error) => {
                eprintln!("crawlspace: {error}");
                Ok(false)
            }
        }
    }
}

fn print_info(figures: &Figures, info: &Info) -> io::Result<()> {
    let mut table = Table::new(&format!("frontier '{}'", figures.server.prefix), 16)?;
    let crawls = format!("of {} crawls", count(info.executions));
    table.row("URIs", count(info.uris), &crawls)?;
    let oldest = format!("the first for {}", duration(info.oldest_ready_ms));
    let oldest = if info.due > 0 { &oldest } else { "" };
    table.row("groups due", count(info.due), oldest)?;
    table.row("ready", count(info.groups_ready), "in chg_ready")?;
    table.row("waiting", count(info.groups_waiting), "in chg_wait")?;
    table.row("busy", count(info.groups_busy), "are being fetched from")?;
    let idle = "without URIs, in the pause after the last fetch";
    table.row("idle", count(info.groups_idle), idle)?;
    match &info.paused[..] {
        "0" => {}
        "all" => table.line("Everything is paused: CHG.RESUME lets it go on.")?,
        crawls => table.row("paused", crawls, "crawls")?,
    }
    let waiters = format!("{} workers wait for a host", count(info.waiters));
    let rate = format!("{}/s", count(info.rate_leases));
    table.row("leases", rate, &waiters)?;
    let reports = format!("ran out; {} not read yet", count(info.expired_reports));
    table.row("expired", count(info.expired), &reports)?;
    if let (Some(pause), Some(margin)) = (info.smallest_pause_ms, info.smallest_margin_ms) {
        let observed = format!("of {} that were measured", count(info.pauses_observed));
        table.row("smallest pause", duration(pause), &observed)?;
        let late = match u64::try_from(margin) {
            Ok(late) => format!("no fetch came sooner than asked; the promptest {late} ms after"),
            Err(_) => format!("a fetch came {} ms too soon", margin.unsigned_abs()),
        };
        table.row(
            "politeness",
            if margin < 0 { "BROKEN" } else { "kept" },
            &late,
        )?;
    }
    table.end()
}

fn print_why(why: &Why) -> io::Result<()> {
    let chg = String::from_utf8_lossy(&why.chg);
    let mut table = Table::new(&format!("{chg}: {}", why.state), 12)?;
    table.line(&why.why)?;
    if why.r#in > 0 && why.leases.is_empty() {
        table.row("due in", duration(why.r#in), "")?;
    }
    table.row("URIs", count(why.count), "")?;
    for one in &why.executions {
        let whose = format!("of crawl {}", String::from_utf8_lossy(&one.execution));
        table.row("", count(one.uris), &whose)?;
    }
    for lease in &why.leases {
        let age = duration(lease.age);
        let left = lease.deadline.saturating_sub(lease.granted + lease.age);
        let uri = lease.uri.as_deref().map(String::from_utf8_lossy);
        let what = match uri {
            Some(uri) => format!("ago, for another {}: {uri}", duration(left)),
            None => format!("ago, for another {}", duration(left)),
        };
        table.row("leased", age, &what)?;
    }
    if why.backoff > 0 {
        table.row("back-off", count(why.backoff), "steps")?;
    }
    if why.expired > 0 {
        table.row("expired", count(why.expired), "leases in a row ran out")?;
    }
    table.end()
}

fn print_check(check: &Check) -> io::Result<()> {
    let verdict = if check.consistent {
        "The frontier is consistent."
    } else {
        "The frontier is NOT consistent; CHG.REPAIR mends it."
    };
    let mut table = Table::new(verdict, 16)?;
    table.row("groups", count(check.groups), "")?;
    table.row("executions", count(check.executions), "")?;
    table.row("URIs", count(check.total), "in all (QCT)")?;
    table.row("", count(check.sum_groups), "sum over the groups")?;
    let executions = "sum over the executions";
    table.row("", count(check.sum_executions), executions)?;
    table.row("problems", count(check.problems_total), "")?;
    for problem in &check.problems {
        table.line(problem)?;
    }
    if check.disturbed {
        table.line("It was written to meanwhile: look again before you believe it.")?;
    }
    table.end()
}

fn print_expired(reports: &[Expired]) -> io::Result<()> {
    let mut table = Table::new(&format!("{} leases ran out", reports.len()), 30)?;
    for report in reports {
        let uri = report.uri.as_deref().map(String::from_utf8_lossy);
        let times = format!("{} times", report.times);
        let chg = String::from_utf8_lossy(&report.chg);
        table.row(&chg, times, uri.as_deref().unwrap_or_default())?;
    }
    table.end()
}
