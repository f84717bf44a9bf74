//! `crawlspace dedupe stats` and `crawls`: statistics of an index and its crawls.

use std::io;

use clap::Args;
use crawlspace_client::dedupe::{self, Crawl, CrawlState, CrawlStats, Listed, Profile};
use serde::Serialize;

use super::Asking;
use crate::columns::Columns;
use crate::observe::{Kind, is_index};
use crate::storage;
use crate::table::{Table, bytes, count, share, size};
use crate::terminal::{Bytes, text};

/// Show the counts of an index, or of one crawl.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace dedupe stats
  crawlspace dedupe stats 2026-03 --prefix '{coll-42}:' --json")]
pub(crate) struct Stats {
    #[command(flatten)]
    asking: Asking,
    /// The crawl; by default the whole index.
    #[arg(value_name = "CRAWL", value_parser = Bytes::parser())]
    crawl: Option<Bytes>,
}

#[derive(Serialize)]
struct OfCrawl<'a> {
    crawl: &'a Bytes,
    #[serde(flatten)]
    stats: CrawlStats,
}

impl Stats {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let index = self.asking.index()?;
        match &self.crawl {
            None => {
                let stats = index.stats().map_err(io::Error::other)?;
                self.asking.expect(Kind::Index, is_index(&stats))?;
                self.asking.tell(&stats, |stats| self.print(stats))?;
            }
            Some(crawl) => {
                let stats = index.crawl_stats(crawl.as_bytes());
                let stats = stats.map_err(io::Error::other)?;
                self.asking.tell(&OfCrawl { crawl, stats }, print_crawl)?;
            }
        }
        Ok(true)
    }

    fn print(&self, stats: &dedupe::Stats) -> io::Result<()> {
        let heading = format!("index '{}'", self.asking.name());
        let mut table = Table::new(&heading, 14)?;
        let uncommitted = match stats.uncommitted {
            0 => String::new(),
            some => format!("and {} in progress", count(some)),
        };
        table.row("crawls", count(stats.crawls), &uncommitted)?;
        table.row("hashes", count(stats.hashes), "different payloads")?;
        print_records(
            &mut table,
            stats.total_urls,
            stats.dupe_urls,
            stats.conserved_size,
            stats.total_crawl_size,
        )?;
        if stats.removed_crawls > 0 {
            let gone = stats.removed_crawl_size;
            let note = format!("crawls that are not retained, {}", bytes(gone));
            table.row("removed", count(stats.removed_crawls), &note)?;
        }
        if let Some(progress) = stats.update_progress.filter(|&done| done < 1.0) {
            let done = format!("{:.1} %", progress * 100.0);
            table.row("import", done, "of the packages")?;
        }
        table.row("memory", count(stats.memory), &size(stats.memory))?;
        if stats.profile != Profile::Document {
            table.row("profile", stats.profile.word(), "")?;
        }
        storage::row(&mut table, "dedupe", stats.storage)?;
        table.end()
    }
}

fn print_crawl(of: &OfCrawl<'_>) -> io::Result<()> {
    let stats = &of.stats;
    let heading = format!("crawl {}: {}", of.crawl, state(stats.state));
    let mut table = Table::new(&heading, 14)?;
    table.row("hashes", count(stats.hashes), "different payloads")?;
    print_records(
        &mut table,
        stats.total_urls,
        stats.dupe_urls,
        stats.conserved_size,
        stats.total_crawl_size,
    )?;
    table.row("WACZ files", count(stats.waczs), "")?;
    let requires = "other crawls that it needs for complete replay";
    table.row("requires", count(stats.requires), requires)?;
    table.row("memory", count(stats.memory), &size(stats.memory))?;
    table.end()
}

fn print_records(
    table: &mut Table,
    records: u64,
    revisits: u64,
    saved: u64,
    waczs: u64,
) -> io::Result<()> {
    table.row("records", count(records), "")?;
    table.row("revisits", count(revisits), &share(revisits, records))?;
    table.row("bytes saved", count(saved), &size(saved))?;
    let note = match size(waczs) {
        none if none.is_empty() => "in finished WACZ files".to_owned(),
        size => format!("{size} in finished WACZ files"),
    };
    table.row("bytes", count(waczs), &note)
}

/// Returns a crawl's state as a word.
pub(super) fn state(state: CrawlState) -> &'static str {
    match state {
        CrawlState::Uncommitted => "uncommitted",
        CrawlState::Committed => "committed",
        CrawlState::Continued => "continued",
        CrawlState::Outgoing => "outgoing",
        CrawlState::Canceled => "canceled",
        CrawlState::Unlisted => "unlisted",
    }
}

/// List the crawls of an index.
///
/// A crawl is uncommitted while it runs, committed once other crawls find its payloads, and
/// continued if it was used again after its commit. It is outgoing or canceled if Browsertrix has
/// marked it for removal.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe crawls --uncommitted --prefix '{coll-42}:'")]
pub(crate) struct Crawls {
    #[command(flatten)]
    asking: Asking,
    /// List only crawls with something to commit.
    #[arg(long, conflicts_with = "committed")]
    uncommitted: bool,
    /// List only crawls that are part of the merged index.
    #[arg(long)]
    committed: bool,
    /// List only crawls that have records but are in no set of crawls; the server scans all of its
    /// keys to find them.
    #[arg(long, conflicts_with_all = ["committed", "uncommitted"])]
    unlisted: bool,
}

impl Crawls {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let listed = match (self.uncommitted, self.committed, self.unlisted) {
            (true, ..) => Some(Listed::Uncommitted),
            (_, true, _) => Some(Listed::Committed),
            (.., true) => Some(Listed::Unlisted),
            _ => None,
        };
        let index = self.asking.index()?;
        let crawls = index.crawls(listed).map_err(io::Error::other)?;
        if crawls.is_empty() {
            let stats = index.stats().map_err(io::Error::other)?;
            self.asking.expect(Kind::Index, is_index(&stats))?;
        }
        self.asking.tell_all(&crawls, print_crawls)?;
        Ok(true)
    }
}

fn print_crawls(crawls: &[Crawl]) -> io::Result<()> {
    let mut table =
        Columns::new("crawl | state | hashes> | records> | revisits> | saved> | size> | waczs>");
    for Crawl { crawl, standing } in crawls {
        table.row([
            text(crawl),
            state(standing.state).to_owned(),
            count(standing.hashes),
            count(standing.total_urls),
            share(standing.dupe_urls, standing.total_urls),
            bytes(standing.conserved_size),
            bytes(standing.total_crawl_size),
            count(standing.waczs),
        ]);
    }
    table.print()
}
