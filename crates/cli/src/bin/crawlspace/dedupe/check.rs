//! `crawlspace dedupe check` and `repair`.

use std::io;

use clap::Args;
use crawlspace_client::dedupe;

use super::Asking;
use crate::observe::{Kind, is_index};
use crate::table::{Table, count};

/// Prove that an index is consistent, or list its faults. Exit status 1 if something is wrong.
///
/// The server reads the whole index in slices, and serves other clients between them. If clients write to the index
/// meanwhile, the check may report these writes as problems: run it again before you act on them.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe check --prefix '{coll-42}:' || crawlspace dedupe repair --prefix '{coll-42}:'")]
pub(crate) struct Check {
    #[command(flatten)]
    asking: Asking,
}

impl Check {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        let check = index.check().map_err(io::Error::other)?;
        if check.ok && check.crawls + check.hashes + check.unlisted_crawls == 0 {
            let stats = index.stats().map_err(io::Error::other)?;
            self.asking.expect(Kind::Index, is_index(&stats))?;
        }
        self.asking.tell(&check, print)?;
        Ok(check.ok)
    }
}

/// Make an index consistent.
///
/// Repairs the faults that `check` finds. An interrupted commit or removal is left as it is: send its command again.
/// Exit status 0 when the repair is complete, even if there were faults.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe repair --prefix '{coll-42}:' --json")]
pub(crate) struct Repair {
    #[command(flatten)]
    asking: Asking,
}

impl Repair {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let repair = self.asking.index()?.repair().map_err(io::Error::other)?;
        self.asking.tell(&repair, print)?;
        Ok(true)
    }
}

fn print(check: &dedupe::Check) -> io::Result<()> {
    let heading = match (check.ok, check.repaired) {
        (true, _) => "The index is consistent.",
        (false, None) => "The index is NOT consistent; dedupe repair fixes it.",
        (false, Some(_)) => "The index was NOT consistent.",
    };
    let mut table = Table::new(heading, 18)?;
    table.row("crawls", count(check.crawls), "")?;
    table.row("hashes", count(check.hashes), "")?;
    let faults = [
        (
            "dangling owners",
            check.dangling_owners,
            "hashes whose owner has no record of them",
        ),
        (
            "missing hashes",
            check.missing_hashes,
            "hashes of committed crawls that the merged index lacks",
        ),
        (
            "hidden owners",
            check.hidden_owners,
            "hashes whose owner is not committed",
        ),
        (
            "bad records",
            check.bad_records,
            "invalid records, which are skipped; repair does not change them",
        ),
        (
            "count drift",
            check.count_drift,
            "counts that are not the sum over the crawls",
        ),
        (
            "leaked keys",
            check.leaked_keys,
            "keys of this module about crawls that do not exist",
        ),
        (
            "to remove",
            check.to_remove_crawls,
            "crawls that a purge by Browsertrix has neither restored nor deleted",
        ),
        (
            "stale holders",
            check.stale_holders,
            "incorrect lists of further holders",
        ),
        (
            "interrupted",
            check.interrupted,
            "commits, removals or storage changes that are running or were interrupted: send them again",
        ),
    ];
    for (name, found, meaning) in faults {
        if found > 0 {
            table.row(name, count(found), meaning)?;
        }
    }
    if check.placeholders > 0 {
        let meaning = "unfinished WACZ files (not a fault)";
        table.row("placeholders", count(check.placeholders), meaning)?;
    }
    if check.unlisted_crawls > 0 {
        let meaning =
            "crawls in no set of crawls: running, or to be ended by COMMIT or CANCEL; not a fault";
        table.row("unlisted crawls", count(check.unlisted_crawls), meaning)?;
    }
    if let Some(repaired) = check.repaired {
        table.row("repaired", count(repaired), "faults fixed")?;
    }
    table.end()
}
