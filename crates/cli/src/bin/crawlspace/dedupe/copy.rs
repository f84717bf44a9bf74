//! `crawlspace dedupe copy`: copies an index from a server without the module.

use std::io;

use clap::Args;
use crawlspace_cli::copy::{Away, Copied, Copy};

use crate::outage::{Outage, Wait};
use crate::progress::watched;
use crate::storage::sentence;
use crate::table::{Table, count};
use crate::terminal::{Bytes, complain};
use crate::url::redis_url;

use super::Asking;

/// Copy an index from a server without the module, such as Kvrocks, Dragonfly or an older Redis.
///
/// Reads the documented keys by plain commands, and writes them to --redis and --prefix. An interrupted copy can be run
/// again: it skips complete crawls, and repeats the crawl that it was copying. Crawls that were added to the source
/// since then are copied as well. Do not use the copy before this command has succeeded, and stop the programs that
/// write to the source before the last run.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe copy --from redis://kvrocks.example:6666 --packed --prefix '{coll-42}:'")]
pub(crate) struct CopyIndex {
    #[command(flatten)]
    asking: Asking,
    /// The server with the index; in a cluster, the node that owns the slot of the prefix.
    #[arg(long, value_name = "URL", value_parser = redis_url)]
    from: String,
    /// Prefix of the index on that server; by default the same as --prefix. Required with --sharded.
    #[arg(long, value_name = "PREFIX", value_parser = Bytes::parser())]
    from_prefix: Option<Bytes>,
    /// Pack the copy. Needs the memory of a packed index, and of a million records (or the largest crawl) in plain keys.
    #[arg(long)]
    packed: bool,
    #[command(flatten)]
    wait: Wait,
}

impl CopyIndex {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let server = &self.asking.server;
        let from_prefix = match (&self.from_prefix, &self.asking.sharding.sharded) {
            (Some(prefix), _) => prefix,
            (None, None) => &server.prefix,
            (None, Some(_)) => {
                complain("--sharded is the name of the copy: pass --from-prefix for the source");
                return Ok(false);
            }
        };
        let copy = Copy {
            from: self.from.clone(),
            from_prefix: from_prefix.as_bytes().to_vec(),
            to: server.redis.clone(),
            copy: self.asking.sharding.name(server),
            packed: self.packed,
            wait: self.wait.wait,
        };
        let outage = Outage::default();
        let tell = |away: Option<Away<'_>>| match away {
            Some((error, left)) => outage.away(None, error, left),
            None => outage.back(None),
        };
        let copied = watched(|work| copy.run(work, &tell))?;
        match copied {
            Ok(copied) => {
                self.asking.tell(&copied, print)?;
                Ok(true)
            }
            Err(error) => {
                complain(error);
                Ok(false)
            }
        }
    }
}

fn print(copied: &Copied) -> io::Result<()> {
    let mut table = Table::new(&sentence("copy", copied.storage), 14)?;
    let already = match copied.already_copied {
        0 => String::new(),
        some => format!("{} of them copied before", count(some)),
    };
    table.row("crawls", count(copied.crawls), &already)?;
    let rate = copied.records as f64 / copied.seconds.max(0.001);
    let note = match copied.already_copied {
        0 => format!("in {:.1} s, {}/s", copied.seconds, count(rate as u64)),
        _ => String::new(),
    };
    table.row("records", count(copied.records), &note)?;
    if copied.interruptions > 0 {
        let note = "times, the copy continued after a server was unavailable";
        table.row("interrupted", count(copied.interruptions), note)?;
    }
    table.row("profile", copied.profile.word(), "")?;
    table.end()
}
