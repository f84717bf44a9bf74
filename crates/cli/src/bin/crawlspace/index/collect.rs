//! `crawlspace index gc`.

use std::io;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use clap::Args;
use crawlspace_jobs::operations::{self, Collected, Reason};
use crawlspace_jobs::{DEFAULT_GRACE, Limits};
use serde::Serialize;

use super::CacheDir;
use crate::columns::Columns;
use crate::progress::watched;
use crate::size::size;
use crate::table::{Table, bytes, count, print_json};
use crate::terminal::complain;
use crate::time::span;

/// Default of the library, in minutes.
static GRACE: LazyLock<String> = LazyLock::new(|| format!("{}m", DEFAULT_GRACE.as_secs() / 60));

/// Free space: remove the least recently used entries, and leftovers of builders that died.
///
/// Without limits, only the leftovers are removed. Entries that are open, or were used within
/// --grace, stay. An entry is removed together with its lock file. Removed entries can be built
/// again at any time.
///
/// Exit status: 0 when the limits are met, 1 when they are exceeded because entries are in use or
/// something failed, 2 when the command line is wrong.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace index gc --cache-dir /var/cache/crawlspace --max-size 100GB --min-free 10GB --max-age 90d")]
pub(crate) struct Collect {
    #[command(flatten)]
    cache: CacheDir,
    /// Maximum total size of all entries.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Minimum free space in the file system.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_free: Option<u64>,
    /// Remove entries that were not used for this time: 90d.
    #[arg(long, value_name = "TIME", value_parser = span)]
    max_age: Option<Duration>,
    /// Time after its last use during which an entry is never removed.
    #[arg(long, value_name = "TIME", default_value = GRACE.as_str(), value_parser = span)]
    grace: Duration,
    /// Only print what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CollectReport<'a> {
    dry_run: bool,
    removed: Vec<Gone<'a>>,
    kept_in_use: u64,
    entries: u64,
    bytes: u64,
    free: u64,
    within_limits: bool,
}

#[derive(Serialize)]
struct Gone<'a> {
    path: &'a Path,
    size: u64,
    why: &'static str,
}

impl Collect {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let limits = Limits {
            max_bytes: self.max_size,
            min_free: self.min_free,
            max_age: self.max_age,
            grace: self.grace,
        };
        let dir = &self.cache.cache_dir;
        let collected = watched(|work| operations::collect(dir, &limits, self.dry_run, work))?;
        let collected = match collected {
            Ok(collected) => collected,
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        if self.json {
            print_json(&self.answer(&collected))?
        } else {
            self.print(&collected)?
        }
        if !collected.within_limits {
            complain(format_args!(
                "the limits are exceeded: {}",
                kept(collected.kept)
            ));
        }
        Ok(collected.within_limits)
    }

    fn answer<'a>(&self, collected: &'a Collected) -> CollectReport<'a> {
        let removed = collected.removed.iter().map(|one| Gone {
            path: &one.path,
            size: one.size,
            why: one.why.name(),
        });
        CollectReport {
            dry_run: self.dry_run,
            removed: removed.collect(),
            kept_in_use: collected.kept,
            entries: collected.entries,
            bytes: collected.bytes,
            free: collected.free,
            within_limits: collected.within_limits,
        }
    }

    fn print(&self, collected: &Collected) -> io::Result<()> {
        if !collected.removed.is_empty() {
            let what = if self.dry_run { "would go" } else { "gone" };
            let mut table = Columns::new(&format!("{what} | size> | why"));
            for one in &collected.removed {
                table.row([
                    &one.path.display().to_string(),
                    &bytes(one.size),
                    reason(one.why),
                ]);
            }
            table.print()?;
        }
        let left = if self.dry_run {
            "would be left"
        } else {
            "are left"
        };
        let heading = format!("{} {left}", entries(collected.entries));
        let mut table = Table::new(&heading, 10)?;
        table.row("bytes", count(collected.bytes), &bytes(collected.bytes))?;
        table.row("free", count(collected.free), &bytes(collected.free))?;
        if collected.kept > 0 {
            table.row(
                "kept",
                count(collected.kept),
                "in use, or used a moment ago",
            )?;
        }
        table.end()
    }
}

fn entries(n: u64) -> String {
    match n {
        1 => "1 entry".to_owned(),
        n => format!("{} entries", count(n)),
    }
}

/// Returns the reason why the limits are still exceeded.
fn kept(n: u64) -> String {
    match n {
        0 => "no other entry can be removed".to_owned(),
        1 => "1 entry that should be removed is in use, or was used a moment ago".to_owned(),
        n => format!(
            "{} entries that should be removed are in use, or were used a moment ago",
            count(n)
        ),
    }
}

fn reason(why: Reason) -> &'static str {
    match why {
        Reason::Age => "unused for longer than the limit",
        Reason::Size => "the total size is above the limit",
        Reason::Room => "the free space is below the limit",
        Reason::Left => "its builder died",
    }
}
