//! `crawlspace dedupe commit`, `cancel`, `remove` and `retain`: the end of crawls.

use std::collections::BTreeSet;
use std::io;

use clap::Args;
use crawlspace_cli::any_index::AnyIndex;
use crawlspace_client::Error;
use crawlspace_client::dedupe::{Committed, CrawlState, CrawlStats, Listed, Removed};
use serde::Serialize;

use super::Asking;
use crate::table::{Table, bytes, count, many};
use crate::terminal::{Bytes, Consent, complain, say, text};

/// Merge crawls into the index, so that other crawls find their payloads.
///
/// An interrupted commit resumes where it stopped. A commit without new records changes nothing.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe commit 2026-03 --prefix '{coll-42}:'")]
pub(crate) struct Commit {
    #[command(flatten)]
    asking: Asking,
    /// The crawls.
    #[arg(required = true, value_name = "CRAWL", value_parser = Bytes::parser())]
    crawls: Vec<Bytes>,
}

#[derive(Serialize)]
struct CommittedCrawl<'a> {
    crawl: &'a Bytes,
    #[serde(flatten)]
    committed: Committed,
}

impl Commit {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        each(&self.crawls, |crawl| {
            let committed = self
                .asking
                .waited(&["commit"], || index.commit(crawl.as_bytes()))?;
            Ok(self
                .asking
                .tell(&CommittedCrawl { crawl, committed }, |_| {
                    let mut table = Table::new(&format!("crawl {crawl}: committed"), 12)?;
                    let new = "hashes that the index did not have";
                    table.row("new", count(committed.new), new)?;
                    let known = "hashes that another crawl owns";
                    table.row("known", count(committed.known), known)?;
                    table.end()
                })?)
        })
    }
}

/// Failure for one of several crawls: the server returns an error, or the output fails.
enum Failure {
    Refused(Error),
    Output(io::Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

/// Processes crawls one after the other; an error of the server for one crawl does not stop the others.
fn each(crawls: &[Bytes], mut work: impl FnMut(&Bytes) -> Result<(), Failure>) -> io::Result<bool> {
    let mut all = true;
    for crawl in crawls {
        match work(crawl) {
            Ok(()) => {}
            Err(Failure::Refused(error)) if error.is_connection() => {
                return Err(io::Error::other(error));
            }
            Err(Failure::Refused(error)) => {
                complain(error);
                all = false;
            }
            Err(Failure::Output(error)) => return Err(error),
        }
    }
    Ok(all)
}

/// Drop everything that crawls have added since their last commit, or all their records if they were never committed.
///
/// Prints what will be dropped and asks for confirmation, unless --yes is given.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe cancel 2026-03 --prefix '{coll-42}:'")]
pub(crate) struct Cancel {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    consent: Consent,
    /// The crawls.
    #[arg(required = true, value_name = "CRAWL", value_parser = Bytes::parser())]
    crawls: Vec<Bytes>,
}

#[derive(Serialize)]
struct CancelledCrawl<'a> {
    crawl: &'a Bytes,
    dropped: u64,
}

impl Cancel {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        let Some(crawls) = describe(&index, &self.crawls)? else {
            return Ok(false);
        };
        for (crawl, stats) in crawls {
            match stats.state {
                CrawlState::Uncommitted | CrawlState::Canceled | CrawlState::Unlisted => {
                    say(format_args!("  crawl {crawl} will be removed completely"));
                }
                CrawlState::Outgoing => {
                    complain(format_args!(
                        "a purge by Browsertrix has set crawl {crawl} aside; remove it with dedupe remove"
                    ));
                    return Ok(false);
                }
                CrawlState::Continued => {
                    say(format_args!(
                        "  crawl {crawl} will lose everything added since its last commit"
                    ));
                }
                CrawlState::Committed => {
                    complain(format_args!(
                        "crawl {crawl} has nothing new since its commit; remove it with dedupe remove"
                    ));
                    return Ok(false);
                }
            }
        }
        if !self
            .consent
            .given(&format!("Cancel {}?", these(self.crawls.len())))?
        {
            return Ok(false);
        }
        each(&self.crawls, |crawl| {
            let dropped = self
                .asking
                .waited(&["cancel"], || index.cancel(crawl.as_bytes()))?;
            Ok(self.asking.tell(&CancelledCrawl { crawl, dropped }, |_| {
                let mut table = Table::new(&format!("crawl {crawl}: cancelled"), 12)?;
                table.row("dropped", count(dropped), "hashes")?;
                table.end()
            })?)
        })
    }
}

/// Remove committed crawls from the index, as if they had never been in it.
///
/// Prints what will be removed and which other crawls can then no longer be replayed in full, and asks for
/// confirmation, unless --yes is given.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe remove 2026-01 2026-02 --prefix '{coll-42}:'")]
pub(crate) struct Remove {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    consent: Consent,
    /// The crawls.
    #[arg(required = true, value_name = "CRAWL", value_parser = Bytes::parser())]
    crawls: Vec<Bytes>,
}

impl Remove {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        let Some(crawls) = describe(&index, &self.crawls)? else {
            return Ok(false);
        };
        let never = |(_, stats): &&(&Bytes, CrawlStats)| {
            matches!(stats.state, CrawlState::Uncommitted | CrawlState::Unlisted)
        };
        if let Some((crawl, _)) = crawls.iter().find(never) {
            complain(format_args!(
                "crawl {crawl} was never committed; drop it with dedupe cancel"
            ));
            return Ok(false);
        }
        let ids: Vec<&[u8]> = self.crawls.iter().map(Bytes::as_bytes).collect();
        warn_of_dependents(&index, &ids)?;
        let question = format!("Remove {}?", these(ids.len()));
        if !self.consent.given(&question)? {
            return Ok(false);
        }
        let removed = self.asking.waited(&["remove"], || index.remove(&ids));
        let removed = removed.map_err(io::Error::other)?;
        self.asking.tell(&removed, print_removed)?;
        Ok(true)
    }
}

fn print_removed(removed: &Removed) -> io::Result<()> {
    let mut table = Table::new(&format!("{} removed", many(removed.crawls, "crawl")), 12)?;
    let dropped = "hashes removed from the index";
    table.row("dropped", count(removed.dropped), dropped)?;
    let reowned = "hashes that another crawl owns now";
    table.row("re-owned", count(removed.reowned), reowned)?;
    table.end()
}

/// Declare which crawls make up the collection. Other committed crawls are counted as removed; --purge removes them.
///
/// With --purge, prints what will be removed and which crawls can then no longer be replayed in full, and asks for
/// confirmation, unless --yes is given.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace dedupe retain 2026-02 2026-03
  crawlspace dedupe retain --purge 2026-02 2026-03")]
pub(crate) struct Retain {
    #[command(flatten)]
    asking: Asking,
    #[command(flatten)]
    consent: Consent,
    /// Remove all other committed crawls.
    #[arg(long)]
    purge: bool,
    /// The crawls of the collection.
    #[arg(required = true, value_name = "CRAWL", value_parser = Bytes::parser())]
    crawls: Vec<Bytes>,
}

#[derive(Serialize)]
struct EndReport {
    purged: bool,
    crawls: u64,
    dropped: u64,
    reowned: u64,
}

impl Retain {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        let retained: Vec<&[u8]> = self.crawls.iter().map(Bytes::as_bytes).collect();
        if self.purge && !self.is_wanted(&index, &retained)? {
            return Ok(false);
        }
        let works = ["retain-purge", "retain"];
        let outcome = self
            .asking
            .waited(&works, || index.retain(self.purge, &retained));
        let outcome = outcome.map_err(io::Error::other)?;
        let outcome = EndReport {
            purged: self.purge,
            crawls: outcome.crawls,
            dropped: outcome.dropped,
            reowned: outcome.reowned,
        };
        self.asking.tell(&outcome, |outcome| {
            if outcome.purged {
                return print_removed(&Removed {
                    crawls: outcome.crawls,
                    dropped: outcome.dropped,
                    reowned: outcome.reowned,
                });
            }
            let heading = format!("{} retained", these(self.crawls.len()));
            let mut table = Table::new(&heading, 12)?;
            let others =
                "other crawls count as removed, but stay in the index; --purge removes them";
            table.row("others", count(outcome.crawls), others)?;
            table.end()
        })?;
        Ok(true)
    }

    /// Asks for confirmation that all other crawls are to be removed.
    fn is_wanted(&self, index: &AnyIndex, retained: &[&[u8]]) -> io::Result<bool> {
        if describe(index, &self.crawls)?.is_none() {
            return Ok(false);
        }
        let kept: BTreeSet<&[u8]> = retained.iter().copied().collect();
        let committed = index.crawls(Some(Listed::Committed));
        let committed = committed.map_err(io::Error::other)?;
        let mut leaving = Vec::new();
        for crawl in &committed {
            if !kept.contains(&crawl.crawl[..]) {
                let hashes = count(crawl.standing.hashes);
                say(format_args!(
                    "  crawl {} is removed, with {hashes} hashes",
                    text(&crawl.crawl)
                ));
                leaving.push(&crawl.crawl[..]);
            }
        }
        if leaving.is_empty() {
            return Ok(true);
        }
        warn_of_dependents(index, &leaving)?;
        self.consent.given(&format!(
            "Remove {}, and keep {}?",
            these(leaving.len()),
            count(kept.len() as u64)
        ))
    }
}

/// Prints a description of each of these crawls. If a crawl does not exist, prints an error and returns `None`.
fn describe<'a>(
    index: &AnyIndex,
    crawls: &'a [Bytes],
) -> io::Result<Option<Vec<(&'a Bytes, CrawlStats)>>> {
    let mut described = Vec::new();
    let mut complete = true;
    for crawl in crawls {
        match index.crawl_stats(crawl.as_bytes()) {
            Ok(stats) => described.push((crawl, stats)),
            Err(error) if error.is_connection() => return Err(io::Error::other(error)),
            Err(error) => {
                complain(error);
                complete = false;
            }
        }
    }
    if !complete {
        return Ok(None);
    }
    for (crawl, stats) in &described {
        say(format_args!(
            "crawl {crawl}: {}, {} hashes, {}, {} in {}",
            super::crawls::state(stats.state),
            count(stats.hashes),
            many(stats.total_urls, "record"),
            bytes(stats.total_crawl_size),
            many(stats.waczs, "WACZ file")
        ));
    }
    Ok(Some(described))
}

/// Warns of remaining crawls whose originals are in crawls to be removed.
fn warn_of_dependents(index: &AnyIndex, leaving: &[&[u8]]) -> io::Result<()> {
    for crawl in leaving {
        let dependents = index.required_by(crawl).map_err(io::Error::other)?;
        let staying = |id: &[u8]| !leaving.contains(&id);
        for dependent in dependents.iter().filter(|d| staying(&d.crawl)) {
            let revisits = dependent.revisits.map_or("some".to_owned(), count);
            say(format_args!(
                "  crawl {} has {revisits} revisits whose originals are in {}: it needs that crawl for complete replay",
                text(&dependent.crawl),
                text(crawl)
            ));
        }
    }
    Ok(())
}

fn these(crawls: usize) -> String {
    many(crawls as u64, "crawl")
}
