//! `crawlspace dedupe index`: WARC files into a dedupe index.

use std::io;
use std::path::PathBuf;

use clap::{Args, ValueHint};
use crawlspace_cli::index::{self, Tally};
use crawlspace_client::dedupe::Committed;
use serde::Serialize;

use crate::Asking;
use crate::table::{Table, count, print_json, share, size};
use crate::terminal::{Bytes, complain};

/// Bring WARC files into a dedupe index, as a crawler would have done while it wrote them.
///
/// Each response with a payload that nobody has stored becomes an entry of the crawl; one whose payload is known is
/// counted as the revisit record that could have been written for it. Reading a file into the same crawl again counts
/// nothing twice.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe index --crawl 2026-03 --commit part-1.warc.gz part-2.warc.gz")]
pub(crate) struct IndexFiles {
    #[command(flatten)]
    asking: Asking,
    /// The crawl that the files belong to.
    #[arg(long, value_name = "ID", value_parser = Bytes::parser())]
    crawl: Bytes,
    /// Make the crawl part of the merged index when all files are in.
    #[arg(long)]
    commit: bool,
    /// WARC files, plain or with each record compressed by itself (.warc.gz).
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
}

fn index_files(job: &IndexFiles) -> io::Result<bool> {
    let mut tally = Tally::default();
    let mut errors = Vec::new();
    let mut committed = None;
    let crawl = job.crawl.as_bytes();
    match job.asking.index() {
        Err(error) => errors.push(error.to_string()),
        Ok(index) => {
            for file in &job.files {
                match index::add_file(&index, crawl, file, &mut tally) {
                    Ok(()) => {}
                    Err(error @ index::Error::Warc(_)) => errors.push(error.to_string()),
                    Err(error @ index::Error::Dedupe(_)) => {
                        errors.push(format!("{}: {error}", file.display()));
                        break;
                    }
                }
            }
            if job.commit && errors.is_empty() {
                match index.commit(crawl) {
                    Ok(commit) => committed = Some(commit),
                    Err(error) => errors.push(error.to_string()),
                }
            }
        }
    }
    errors.iter().for_each(complain);
    if job.commit && committed.is_none() {
        let crawl = &job.crawl;
        complain(format_args!(
            "crawl {crawl} is not committed, because of the above"
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
            "without valid payload digest, URL or date, or with an empty payload",
        )?;
    }
    if tally.deviating > 0 {
        table.row(
            "deviating",
            count(tally.deviating),
            "records that deviate from the standard, read all the same",
        )?;
    }
    if tally.unresolved > 0 {
        table.row(
            "unresolved",
            count(tally.unresolved),
            "revisits of payloads that the index never saw",
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
