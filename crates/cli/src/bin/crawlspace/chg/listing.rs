//! `crawlspace chg groups` and `uris`: lists of queued groups and URIs.

use std::io;

use clap::Args;
use clap::builder::PossibleValuesParser;
use crawlspace_client::Error;
use crawlspace_client::frontier::{ListedGroup, ListedUri, Page, Queue};

use crawlspace_compact::limits::chg::{COUNT, MAX_COUNT};

use super::existing;
use crate::columns::Columns;
use crate::table::count;
use crate::terminal::{Bytes, say, text};
use crate::{Asking, time};

/// List the queued groups, each with its queue.
///
/// Waiting groups come first, ordered by due time; then ready groups; then leased groups, ordered by deadline. Groups
/// without queued URIs are not listed. `--state freed` lists the leases that have freed their group, with the time until
/// which they keep their URIs.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg groups --state ready --count 1000 --json")]
pub(crate) struct Groups {
    #[command(flatten)]
    asking: Asking,
    /// List only the groups of this queue.
    #[arg(long, value_name = "QUEUE", value_parser = PossibleValuesParser::new(["waiting", "ready", "busy", "freed"]))]
    state: Option<String>,
    #[command(flatten)]
    most: Most,
}

/// List the URIs that are queued for a group of hosts.
///
/// They are ordered by crawl, then by depth, then by due time. Leased URIs are not listed: `chg why` shows them.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace chg uris example.com --count 1000 --json")]
pub(crate) struct Uris {
    #[command(flatten)]
    asking: Asking,
    /// The group of hosts.
    #[arg(value_name = "CHG", value_parser = Bytes::parser())]
    chg: Bytes,
    #[command(flatten)]
    most: Most,
}

#[derive(Args)]
struct Most {
    /// Maximum number of entries to list.
    #[arg(long, value_name = "N", default_value_t = COUNT, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
}

impl Most {
    /// Reads a paged listing up to the limit, and reports if there is more.
    fn of<T>(
        &self,
        page: impl Fn(Option<&[u8]>, u32) -> Result<Page<T>, Error>,
    ) -> io::Result<Vec<T>> {
        let mut listed = Vec::new();
        let mut cursor: Option<Vec<u8>> = None;
        loop {
            let left = self.count - listed.len() as u64;
            let wanted = u32::try_from(left.min(MAX_COUNT)).map_err(io::Error::other)?;
            let next = page(cursor.as_deref(), wanted).map_err(io::Error::other)?;
            listed.extend(next.entries);
            cursor = next.next;
            let is_enough = listed.len() as u64 >= self.count;
            if is_enough && cursor.is_some() {
                say("there may be more: increase --count");
            }
            if is_enough || cursor.is_none() {
                return Ok(listed);
            }
        }
    }
}

impl Groups {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let queue = self.state.as_deref().map(|state| match state {
            "waiting" => Queue::Waiting,
            "ready" => Queue::Ready,
            "busy" => Queue::Busy,
            _ => Queue::Freed,
        });
        let page = |cursor: Option<&[u8]>, count| frontier.list(queue, cursor, count);
        let groups = self.most.of(page)?;
        if groups.is_empty() {
            existing(&self.asking, &frontier)?;
        }
        self.asking.tell_all(&groups, print_groups)?;
        Ok(true)
    }
}

fn print_groups(groups: &[ListedGroup]) -> io::Result<()> {
    if groups.is_empty() {
        say("no group is queued");
        return Ok(());
    }
    let mut table = Columns::new("group | state | due | URIs>");
    for group in groups {
        let cells = [
            text(&group.chg),
            group.state.name().to_owned(),
            time::utc(group.due),
            count(group.count),
        ];
        table.row(cells);
    }
    table.print()
}

impl Uris {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let frontier = self.asking.frontier()?;
        let chg = self.chg.as_bytes();
        let page = |cursor: Option<&[u8]>, count| frontier.uris(chg, cursor, count);
        self.asking.tell_all(&self.most.of(page)?, print_uris)?;
        Ok(true)
    }
}

fn print_uris(uris: &[ListedUri]) -> io::Result<()> {
    if uris.is_empty() {
        say("no URI is queued for this group");
        return Ok(());
    }
    let mut table = Columns::new("crawl | depth> | due | tries> | uri");
    for uri in uris {
        table.row([
            text(&uri.execution),
            count(uri.depth.into()),
            time::utc(uri.due),
            count(uri.attempts.into()),
            text(&uri.uri),
        ]);
    }
    table.print()
}
