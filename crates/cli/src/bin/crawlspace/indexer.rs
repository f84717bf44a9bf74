//! `crawlspace indexer`: imports WACZ files into a dedupe index.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, ValueHint};
use crawlspace_cli::any_index::AnyIndex;
use crawlspace_cli::indexer::{
    CommittedCrawl, Event, Import, LEASE, LeftInPlace, Report, set_aside,
};
use crawlspace_client::Code;
use crawlspace_client::dedupe::Committed;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use serde_json::json;

use crate::file_kind::FileKind;
use crate::outage::{Outage, Wait};
use crate::stop;
use crate::table::{Table, count, many, print_json, shown};
use crate::terminal::complain;
use crate::{Server, Sharding};

/// Import WACZ files into a dedupe index.
///
/// Reads the CDX(J) indexes of the packages, adds their records to their crawls, commits the crawls, and counts the
/// revisits and their dependencies. WARC files are not read. Only the needed parts of a remote package are fetched,
/// if its server supports ranges. For WARC files, see `crawlspace dedupe index`.
///
/// A JSON manifest lists packages under "resources", each with path (relative to the manifest, or a
/// URL) and, if known, name, hash, size and crawlId. A path that ends in .json is another manifest.
/// The manifest must list the whole collection: crawls of the index that it does not list are
/// counted as removed, or removed with --remove.
///
/// Several indexers may run at once, on one or several machines: they share the work. Packages that were imported before
/// are skipped, and an interrupted import resumes where it stopped when it is run again. A package that cannot be
/// imported is reported and skipped; the next run tries it again.
///
/// Exit status: 0 when everything is imported, 1 when a package could not be imported (not with --ignore-failed) or
/// something failed, 2 when the command line is wrong.
#[derive(Args)]
#[command(after_help = "Options by their names in Browsertrix's indexer:
  --redisDedupeUrl is --redis, --sourceUrl is --source-url, --sourceCrawlId is --crawl-id, --removing is --remove,
  --commitCrawlId is --commit-crawl-id, --cancelCrawlId is --cancel-crawl-id

Examples:
  crawlspace indexer --source-url crawl.wacz --crawl-id 2026-03
  crawlspace indexer --source-url https://example.org/collection.json --prefix '{coll-42}:' --jobs 4
  crawlspace indexer --source-url collection.json --remove --json
  crawlspace indexer --source-url collection.json --sharded coll-42 --shards 30
  crawlspace indexer --commit-crawl-id 2026-03")]
pub(crate) struct Indexer {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    sharding: Sharding,
    #[command(flatten)]
    what: What,
    /// The crawl of packages without a crawlId in the manifest; by default each package is a crawl
    /// named after it.
    #[arg(long, aliases = ["crawlId", "sourceCrawlId"], value_name = "ID", conflicts_with_all = ["commit_crawl_id", "cancel_crawl_id"])]
    crawl_id: Option<String>,
    /// Remove the crawls that the manifest does not list.
    #[arg(long, alias = "removing", conflicts_with_all = ["commit_crawl_id", "cancel_crawl_id"])]
    remove: bool,
    /// Accept an empty manifest with --remove, which removes everything.
    #[arg(long, requires = "remove")]
    allow_empty: bool,
    /// Read each package completely and compare it with the hash in the manifest.
    #[arg(long)]
    verify: bool,
    /// Number of packages imported at the same time.
    #[arg(long, short, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,
    /// Time in seconds after which another indexer takes over the package of an indexer that died.
    #[arg(long, value_name = "SECONDS", default_value_t = LEASE.as_secs() as u16, value_parser = clap::value_parser!(u16).range(1..=3600))]
    lease: u16,
    #[command(flatten)]
    wait: Wait,
    /// Exit with status 0 even if packages could not be imported. They are reported, and the next run tries them
    /// again.
    #[arg(long, alias = "ignoreFailed")]
    ignore_failed: bool,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

/// The action: exactly one of these.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct What {
    /// A WACZ file or a JSON manifest: path or http(s) URL.
    #[arg(long, alias = "sourceUrl", value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    source_url: Option<String>,
    /// Import nothing; commit this crawl, so that all of its hashes become visible. An unknown
    /// crawl is not an error.
    #[arg(long, alias = "commitCrawlId", value_name = "ID")]
    commit_crawl_id: Option<String>,
    /// Import nothing; drop the uncommitted records of this crawl. An unknown crawl is not an
    /// error. A committed crawl is counted as removed, and removed by the next import with --remove
    /// that does not list it.
    #[arg(long, alias = "cancelCrawlId", value_name = "ID")]
    cancel_crawl_id: Option<String>,
}

impl Indexer {
    pub(crate) fn run(&self) -> io::Result<bool> {
        match &self.what {
            What {
                commit_crawl_id: Some(crawl),
                ..
            } => self.commit(crawl),
            What {
                cancel_crawl_id: Some(crawl),
                ..
            } => self.cancel(crawl),
            What { source_url, .. } => self.import(source_url.as_deref().unwrap_or_default()),
        }
    }

    fn index(&self) -> io::Result<AnyIndex> {
        self.sharding.open(&self.server).map_err(io::Error::other)
    }

    /// Commits a crawl. A missing crawl is not an error, as in Browsertrix's indexer, because a
    /// cluster would retry a failed job.
    fn commit(&self, crawl: &str) -> io::Result<bool> {
        let hashes = match self.index()?.commit(crawl.as_bytes()) {
            Err(error) if error.code() == Some(Code::NoCrawl) => {
                complain(format_args!("nothing to commit: {error}"));
                Committed::default()
            }
            other => other.map_err(io::Error::other)?,
        };
        let committed = CommittedCrawl {
            crawl: crawl.to_owned(),
            hashes,
        };
        if self.json {
            print_json(&committed)?
        } else {
            writeln!(io::stdout(), "{}", line_of(&committed))?
        }
        Ok(true)
    }

    /// Cancels a crawl. Does nothing if an earlier run has canceled this crawl. A committed crawl (with
    /// --dedupeConcurrent, every crawl) is set aside, and the next import with --remove removes it.
    fn cancel(&self, crawl: &str) -> io::Result<bool> {
        let index = self.index()?;
        let (hashes, is_aside) = match index.cancel(crawl.as_bytes()) {
            Err(error) if error.code() == Some(Code::NoCrawl) => (0, false),
            Err(error) if error.code() == Some(Code::Committed) => {
                set_aside(&index, crawl).map_err(io::Error::other)?;
                (0, true)
            }
            other => (other.map_err(io::Error::other)?, false),
        };
        if self.json {
            print_json(&json!({ "crawl": crawl, "canceled": hashes, "setAside": is_aside }))?
        } else if is_aside {
            let crawl = shown(crawl);
            let note = "it was committed, so it is now counted as removed";
            writeln!(io::stdout(), "crawl {crawl}: {note}")?
        } else {
            writeln!(
                io::stdout(),
                "crawl {}: {} hashes canceled",
                shown(crawl),
                count(hashes)
            )?
        }
        Ok(true)
    }

    fn import(&self, source: &str) -> io::Result<bool> {
        if FileKind::of(Path::new(source)) == FileKind::Warc {
            complain(format_args!(
                "{source}: this is a WARC file, but indexer reads WACZ files and manifests: run crawlspace dedupe \
                 index --crawl ID {source}"
            ));
            return Ok(false);
        }
        let stop = stop::on_signal(1)?;
        let progress = Progress::new();
        let report = Import::of(source).and_then(|import| {
            let import = Import {
                redis: self.server.redis.clone(),
                index: self.sharding.name(&self.server),
                crawl: self.crawl_id.clone(),
                jobs: usize::from(self.jobs),
                remove: self.remove,
                allow_empty: self.allow_empty,
                verify: self.verify,
                lease: Duration::from_secs(self.lease.into()),
                wait: self.wait.wait,
                ..import
            };
            import.run_until(&|event: Event<'_>| progress.event(event), stop)
        });
        progress.end();
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        if self.json {
            print_json(&report)?;
        } else {
            print_report(&report)?;
        }
        if let Some(reason) = &report.not_compared {
            eprintln!("crawlspace: {}", shown(reason));
        }
        if report.stopped {
            eprintln!("crawlspace: stopped; run the same command again to resume");
        }
        let failed = !report.failed.is_empty() && !self.ignore_failed;
        Ok(!failed && report.not_compared.is_none() && !report.stopped)
    }
}

/// Formats a committed crawl as a line.
fn line_of(crawl: &CommittedCrawl) -> String {
    let (new, known) = (count(crawl.hashes.new), count(crawl.hashes.known));
    format!(
        "crawl {}: {new} new hashes, {known} known",
        shown(&crawl.crawl)
    )
}

fn print_report(report: &Report) -> io::Result<()> {
    let heading = many(report.listed, "package");
    let mut table = Table::new(&heading, 18)?;
    table.row("imported", count(report.imported), "")?;
    if report.already_imported > 0 {
        let before = count(report.already_imported);
        table.row("known", before, "imported before")?;
    }
    if report.already_in_index > 0 {
        let present = count(report.already_in_index);
        let note = "already in the index, because their crawlers added them";
        table.row("present", present, note)?;
    }
    if !report.failed.is_empty() {
        let failed = count(report.failed.len() as u64);
        table.row("failed", failed, "the next run tries them again")?;
    }
    let rate = report.lines as f64 / report.seconds.max(0.001);
    table.row(
        "lines",
        count(report.lines),
        &format!("in {:.1} s, {}/s", report.seconds, count(rate as u64)),
    )?;
    table.row("responses", count(report.responses), "")?;
    table.row("revisits", count(report.revisits), "")?;
    if report.unresolved > 0 {
        let note = "revisits whose originals are not in the index; they are counted when the originals are added";
        table.row("unresolved", count(report.unresolved), note)?;
    }
    if report.other > 0 {
        table.row(
            "other",
            count(report.other),
            "captures without an HTTP record",
        )?;
    }
    if report.bad_lines > 0 {
        table.row("bad lines", count(report.bad_lines), "skipped; among them:")?;
        for example in &report.bad_line_examples {
            table.line(&shown(example))?;
        }
    }
    let new: u64 = report.crawls.iter().map(|crawl| crawl.hashes.new).sum();
    let note = format!("committed, with {} new hashes", count(new));
    table.row("crawls", count(report.crawls.len() as u64), &note)?;
    if report.removed_crawls > 0 {
        let note = format!("with {} hashes", count(report.removed_hashes));
        table.row("removed", count(report.removed_crawls), &note)?;
    } else if report.unlisted_crawls > 0 {
        let note = "crawls of the index; --remove removes them";
        table.row("not listed", count(report.unlisted_crawls), note)?;
    }
    if !report.left_in_place.is_empty() {
        let left = count(report.left_in_place.len() as u64);
        table.row("left", left, "crawls that are not listed but kept:")?;
        for LeftInPlace { crawl, reason } in &report.left_in_place {
            table.line(&shown(&format!("{crawl}: {reason}")))?;
        }
    }
    table.end()
}

/// Progress on standard error, separate from the result on standard output: a bar on a terminal, otherwise lines.
struct Progress {
    bar: Option<ProgressBar>,
    /// Number of index lines read.
    lines: Arc<AtomicU64>,
    outage: Outage,
}

impl Progress {
    fn new() -> Progress {
        let lines = Arc::new(AtomicU64::new(0));
        let bar = io::stderr().is_terminal().then(|| {
            let read = Arc::clone(&lines);
            let read = move |_: &ProgressState, out: &mut dyn fmt::Write| {
                // Writing to a string cannot fail.
                let _ = out.write_str(&count(read.load(Ordering::Relaxed)));
            };
            // The remaining time is unknown until the first package is finished.
            let left = |state: &ProgressState, out: &mut dyn fmt::Write| {
                if state.pos() > 0 {
                    let _ = write!(out, ", {:#} left", HumanDuration(state.eta()));
                }
            };
            let style = "{bar:30} {pos}/{len} packages, {lines} lines  {msg}  {elapsed}{left}";
            let style = ProgressStyle::with_template(style).unwrap_or(ProgressStyle::default_bar());
            let bar = ProgressBar::new(0);
            bar.set_style(style.with_key("lines", read).with_key("left", left));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress {
            bar,
            lines,
            outage: Outage::default(),
        }
    }

    fn event(&self, event: Event<'_>) {
        match event {
            Event::Queued {
                listed,
                already_imported,
                already_in_index,
            } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(listed.saturating_sub(already_imported + already_in_index));
                }
                let mut line = many(listed, "package");
                for (known, how) in [
                    (already_imported, "imported before"),
                    (already_in_index, "already in the index"),
                ] {
                    if known > 0 {
                        line += &format!(", {} {how}", count(known));
                    }
                }
                self.say(&line);
            }
            Event::Left { left, total } => {
                if let Some(bar) = &self.bar {
                    bar.set_length(total);
                    bar.set_position(total.saturating_sub(left));
                }
            }
            Event::Lines(more) => _ = self.lines.fetch_add(more, Ordering::Relaxed),
            Event::Imported { name, records } => {
                self.say(&format!("{}: {} records", shown(name), count(records)));
            }
            Event::Failed(failed) => {
                let line = format!("crawlspace: {}: {}", failed.name, failed.reason);
                let line = shown(&line);
                match &self.bar {
                    Some(bar) => bar.println(line),
                    None => eprintln!("{line}"),
                }
            }
            Event::Waiting(others) if others > 0 => {
                self.say(&format!("waiting for other indexers: {}", count(others)));
            }
            Event::Committed(crawl) => self.say(&line_of(crawl)),
            Event::Revisits => self.say("counting revisits"),
            Event::Away { error, left } => self.outage.away(self.bar.as_ref(), error, left),
            Event::Back => self.outage.back(self.bar.as_ref()),
            _ => {}
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(line.to_owned()),
            // A closed standard error must not stop the import.
            None => _ = writeln!(io::stderr(), "{line}"),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
