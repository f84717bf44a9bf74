//! `crawlspace dedupe index`: imports WARC files into a dedupe index.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use clap::{Args, ValueHint};
use crawlspace_cli::any_index::{AnyIndex, OpenError};
use crawlspace_cli::away::Patience;
use crawlspace_cli::index::{self, Tally};
use crawlspace_client::Error;
use crawlspace_client::dedupe::Committed;
use serde::Serialize;

use super::Asking;
use crate::file_kind::FileKind;
use crate::outage::{Outage, Wait, spinner};
use crate::table::{Table, count, print_json, share, size};
use crate::terminal::{Bytes, complain, say};

/// Import WARC and ARC files into a dedupe index, as a crawler would have filled it while writing them.
///
/// Each response with a new payload becomes an entry of the crawl; a response with a known payload is counted as the
/// revisit record that could have been written for it. Importing a file into the same crawl again counts nothing
/// twice. For WACZ files, see `crawlspace indexer`; for job indexes, `crawlspace index get --into`.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe index --crawl 2026-03 --commit part-1.warc.gz part-2.warc.gz")]
pub(crate) struct IndexFiles {
    #[command(flatten)]
    asking: Asking,
    /// The crawl that the files belong to.
    #[arg(long, value_name = "ID", value_parser = Bytes::parser())]
    crawl: Bytes,
    /// Commit the crawl when all files are imported.
    #[arg(long)]
    commit: bool,
    #[command(flatten)]
    wait: Wait,
    /// WARC and ARC files, plain or with each record compressed separately (.gz).
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::FilePath)]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IndexReport<'a> {
    crawl: &'a Bytes,
    #[serde(flatten)]
    tally: &'a Tally,
    committed: Option<Committed>,
    errors: &'a [String],
}

impl IndexFiles {
    pub(crate) fn run(&self) -> io::Result<bool> {
        index_files(self)
    }

    /// Opens the index, after waiting for the server.
    fn open(&self) -> Result<AnyIndex, String> {
        let Asking { plain, sharding } = &self.asking;
        let opened = self.patiently(|| match sharding.open(&plain.server) {
            Err(OpenError::Index(error)) => Err(error),
            other => Ok(other),
        })?;
        opened.map_err(|error| error.to_string())
    }

    /// Repeats the call while the server is unavailable, after waiting for it. Returns the message of any other error.
    fn patiently<T>(&self, mut call: impl FnMut() -> Result<T, Error>) -> Result<T, String> {
        let goes_on = AtomicBool::new(false);
        let url = &self.asking.server.redis;
        let mut patience = Patience::new(url, self.wait.wait, &goes_on);
        let (outage, line) = (Outage::default(), spinner());
        let outcome = loop {
            let error = match call() {
                Ok(done) => break Ok(done),
                Err(error) => error,
            };
            let tell = |error: &Error, left| outage.away(line.as_ref(), error, left);
            match patience.wait(error, tell) {
                Ok(()) => outage.back(line.as_ref()),
                Err(error) if error.is_transient() => {
                    break Err(format!(
                        "{error}; run the same command again when the server is back: it continues where it stopped"
                    ));
                }
                Err(error) => break Err(error.to_string()),
            }
        };
        if let Some(line) = line {
            line.finish_and_clear();
        }
        outcome
    }
}

fn index_files(job: &IndexFiles) -> io::Result<bool> {
    let mut tally = Tally::default();
    let mut errors = Vec::new();
    let mut committed = None;
    let crawl = job.crawl.as_bytes();
    match job.open() {
        Err(error) => errors.push(error),
        Ok(index) => {
            for file in &job.files {
                if FileKind::of(file) == FileKind::Wacz {
                    let file = file.display();
                    errors.push(format!(
                        "{file}: this is a WACZ file, but dedupe index reads WARC files: run crawlspace indexer \
                         --source-url {file}"
                    ));
                    continue;
                }
                // A retry reads the file again from its start, because batches may be lost. Records
                // that are already in the index are not counted again.
                let added = job.patiently(|| {
                    let mut of_all = tally.clone();
                    match index::add_file(&index, crawl, file, &mut of_all) {
                        Err(index::Error::Dedupe(error)) if error.is_transient() => Err(error),
                        other => {
                            tally = of_all;
                            Ok(other)
                        }
                    }
                });
                match added {
                    Ok(Ok(())) => {}
                    Ok(Err(error @ index::Error::Warc(_))) => errors.push(error.to_string()),
                    Ok(Err(error @ index::Error::Dedupe(_))) => {
                        errors.push(format!("{}: {error}", file.display()));
                        break;
                    }
                    Err(error) => {
                        errors.push(format!("{}: {error}", file.display()));
                        break;
                    }
                }
            }
            if job.commit && errors.is_empty() {
                match job.patiently(|| index.commit(crawl)) {
                    Ok(commit) => committed = Some(commit),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    errors.iter().for_each(complain);
    if job.commit && committed.is_none() {
        let crawl = &job.crawl;
        complain(format_args!(
            "crawl {crawl} is not committed, because of the errors above"
        ));
    }
    if !job.commit && tally.records > 0 {
        let crawl = &job.crawl;
        let index = job.asking.selection();
        say(format_args!(
            "crawl {crawl} is not committed, so other crawls do not find its payloads: run crawlspace dedupe commit {crawl} {index}"
        ));
    }
    if job.asking.json {
        print_json(&IndexReport {
            crawl: &job.crawl,
            tally: &tally,
            committed,
            errors: &errors,
        })?;
    } else if tally.records > 0 {
        print_table(&job.crawl, &tally, committed)?;
    }
    Ok(errors.is_empty())
}

fn print_table(crawl: &Bytes, tally: &Tally, committed: Option<Committed>) -> io::Result<()> {
    let captures = tally.unique + tally.duplicates;
    let mut table = Table::new(&format!("crawl {crawl}"), 12)?;
    table.row("files", count(tally.files), "")?;
    table.row(
        "records",
        count(tally.records),
        &format!(
            "{} responses, {} revisits",
            count(tally.responses),
            count(tally.revisits)
        ),
    )?;
    table.row(
        "unique",
        count(tally.unique),
        "payloads that were new to the index",
    )?;
    table.row(
        "duplicates",
        count(tally.duplicates),
        &share(tally.duplicates, captures),
    )?;
    if tally.skipped > 0 {
        table.row(
            "skipped",
            count(tally.skipped),
            "no valid payload digest, URL or date, or an empty payload",
        )?;
    }
    if tally.deviating > 0 {
        table.row(
            "deviating",
            count(tally.deviating),
            "records that deviate from the standard but were read",
        )?;
    }
    if tally.unresolved > 0 {
        table.row(
            "unresolved",
            count(tally.unresolved),
            "revisits of payloads that are not in the index",
        )?;
    }
    table.row("bytes", count(tally.bytes), &size(tally.bytes))?;
    table.row(
        "bytes saved",
        count(tally.bytes_saved),
        &share(tally.bytes_saved, tally.bytes_undeduplicated()),
    )?;
    if let Some(Committed { new, known }) = committed {
        table.row(
            "committed",
            count(new),
            &format!("hashes new to the merged index, {} known", count(known)),
        )?;
    }
    table.end()
}
