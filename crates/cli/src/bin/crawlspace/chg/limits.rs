//! `crawlspace chg limit` and `group`: limits of host groups.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use crawlspace_client::frontier::{Budget, Limits};
use serde::Serialize;

use crate::table::{duration, many};
use crate::terminal::Bytes;
use crate::{Asking, time};

/// Set the limits of a group. Limits that are not given stay unchanged.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg limit cdn.example --parallel 4 --gap 250ms
  crawlspace chg limit slow.example --delay 30s
  crawlspace chg limit calendar.example --budget 10000
  crawlspace chg limit calendar.example --budget none
  crawlspace chg limit a.example --done 1000 --execution crawl-1")]
pub(crate) struct Limit {
    #[command(flatten)]
    asking: Asking,
    /// The group of hosts.
    #[arg(value_name = "CHG", value_parser = Bytes::parser())]
    chg: Bytes,
    /// Maximum number of concurrent fetches, up to 1000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    parallel: Option<u32>,
    /// Minimum time between the starts of two fetches: 250ms, 2s.
    #[arg(long, value_name = "SPAN", value_parser = time::span)]
    gap: Option<Duration>,
    /// Pause after a fetch if the worker gives none, and the minimum of a computed pause: 30s, or
    /// none.
    #[arg(long, value_name = "SPAN|none", value_parser = delay)]
    delay: Option<Delay>,
    /// Number of URIs that the group still accepts, or none for no limit.
    #[arg(
        long,
        value_name = "N|none",
        value_parser = budget,
        required_unless_present_any = ["parallel", "gap", "delay", "done"]
    )]
    budget: Option<Budget>,
    /// Number of done URLs of a crawl after which its URLs in this group are no longer fetched, or none
    /// for no limit. The frontier must be packed.
    #[arg(long, value_name = "N|none", value_parser = done, requires = "execution")]
    done: Option<Done>,
    /// The crawl of --done.
    #[arg(long, value_name = "EXECUTION", value_parser = Bytes::parser(), requires = "done")]
    execution: Option<Bytes>,
}

/// A number of done URLs; 0 for no limit.
#[derive(Clone, Copy)]
struct Done(u64);

fn done(given: &str) -> Result<Done, String> {
    match given {
        "none" => Ok(Done(0)),
        number => match number.parse() {
            Ok(urls @ 1..) => Ok(Done(urls)),
            _ => Err("write a number above 0, or none for no limit".to_owned()),
        },
    }
}

/// A pause, or `none`.
#[derive(Clone, Copy)]
struct Delay(Option<Duration>);

fn delay(given: &str) -> Result<Delay, String> {
    match given {
        "none" => Ok(Delay(None)),
        span => time::span(span).map(|span| Delay(Some(span))),
    }
}

fn budget(given: &str) -> Result<Budget, String> {
    match given {
        "none" => Ok(Budget::Unlimited),
        number => match number.parse() {
            Ok(uris) => Ok(Budget::Left(uris)),
            Err(_) => Err("write a number, or none for no limit".to_owned()),
        },
    }
}

#[derive(Serialize)]
struct Allowed<'a> {
    chg: &'a Bytes,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel: Option<u32>,
    /// The limit in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    gap: Option<u64>,
    /// The limit in milliseconds; `null` for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    delay: Option<Option<u64>>,
    /// `null` for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<Option<u64>>,
    /// `null` for any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<Option<u64>>,
    /// The crawl of `done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<&'a Bytes>,
}

impl Limit {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let limits = Limits {
            parallel: self.parallel,
            gap: self.gap,
            delay: self.delay.map(|Delay(delay)| delay),
            budget: self.budget,
        };
        let frontier = self.asking.frontier()?;
        let chg = self.chg.as_bytes();
        if let (Some(Done(urls)), Some(execution)) = (self.done, &self.execution) {
            let limited = frontier.limit_done(chg, execution.as_bytes(), urls);
            limited.map_err(io::Error::other)?;
        }
        let has_others = self.parallel.is_some() || self.budget.is_some();
        if has_others || self.gap.is_some() || self.delay.is_some() {
            frontier.limit(chg, &limits).map_err(io::Error::other)?;
        }
        let allowed = Allowed {
            chg: &self.chg,
            parallel: self.parallel,
            gap: self.gap.map(|gap| gap.as_millis() as u64),
            delay: self
                .delay
                .map(|Delay(delay)| delay.map(|delay| delay.as_millis() as u64)),
            budget: self.budget.map(|budget| match budget {
                Budget::Left(uris) => Some(uris),
                Budget::Unlimited => None,
            }),
            done: self.done.map(|Done(urls)| (urls > 0).then_some(urls)),
            execution: self.execution.as_ref(),
        };
        self.asking.tell(&allowed, |allowed| {
            let parallel = allowed.parallel.map(|n| format!("{n} at a time"));
            let gap = allowed.gap.map(|gap| format!("{} apart", duration(gap)));
            let delay = allowed.delay.map(|delay| match delay {
                Some(ms) => format!("a pause of {}", duration(ms)),
                None => "no pause of its own".to_owned(),
            });
            let budget = allowed.budget.map(|budget| match budget {
                Some(uris) => many(uris, "more URI"),
                None => "any number of URIs".to_owned(),
            });
            let done = allowed.done.zip(allowed.execution);
            let done = done.map(|(done, execution)| match done {
                Some(urls) => format!("{} of {execution}", many(urls, "done URL")),
                None => format!("any number of done URLs of {execution}"),
            });
            let said: Vec<String> = [parallel, gap, delay, budget, done]
                .into_iter()
                .flatten()
                .collect();
            writeln!(io::stdout(), "group {}: {}", self.chg, said.join(", "))
        })?;
        Ok(true)
    }
}

/// Put several groups behind one shared gate, for hosts of one server or one operator.
///
/// Only one of the groups is fetched from at a time, and the pause after a fetch applies to all of them. A group has
/// at most one gate; an empty name removes the groups from their gates.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace chg group 192.0.2.7 a.example b.example
  crawlspace chg group '' a.example")]
pub(crate) struct Group {
    #[command(flatten)]
    asking: Asking,
    /// The name of the gate, such as an address or an operator.
    #[arg(value_name = "GROUP", value_parser = Bytes::parser())]
    group: Bytes,
    /// The groups of hosts.
    #[arg(required = true, value_name = "CHG", value_parser = Bytes::parser())]
    chgs: Vec<Bytes>,
}

#[derive(Serialize)]
struct Gate<'a> {
    /// Empty for none.
    group: &'a Bytes,
    chgs: &'a [Bytes],
}

impl Group {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let chgs: Vec<&[u8]> = self.chgs.iter().map(Bytes::as_bytes).collect();
        let shared = self
            .asking
            .frontier()?
            .share_gate(self.group.as_bytes(), &chgs);
        shared.map_err(io::Error::other)?;
        let gate = Gate {
            group: &self.group,
            chgs: &self.chgs,
        };
        self.asking.tell(&gate, |gate| {
            let groups = match gate.chgs {
                [chg] => format!("group {chg}"),
                chgs => many(chgs.len() as u64, "group"),
            };
            match gate.group.as_bytes() {
                b"" => writeln!(io::stdout(), "{groups}: no shared gate"),
                _ => writeln!(io::stdout(), "{groups}: shared gate {}", gate.group),
            }
        })?;
        Ok(true)
    }
}
