//! The `crawlspace` command line tool.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use crawlspace_client::dedupe::{Committed, Index};
use crawlspace_client::index::{self, Tally};
use serde::Serialize;

/// Companion of the Crawlspace Redis module.
///
/// Exit status: 0 when everything went well, 1 when something failed, 2 when the command line is wrong.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Hash-based dedupe: which payloads have been seen.
    #[command(subcommand, arg_required_else_help = true)]
    Dedupe(Dedupe),
}

#[derive(Subcommand)]
enum Dedupe {
    /// Bring WARC files into a dedupe index, as a crawler would have done while it wrote them.
    ///
    /// Each response with a payload that nobody has stored becomes an entry of the crawl; one whose payload
    /// is known is counted as the revisit record that could have been written for it. Reading a file into
    /// the same crawl again counts nothing twice.
    #[command(name = "index")]
    Index(IndexFiles),
}

#[derive(Args)]
struct IndexFiles {
    /// The server, which has the Crawlspace module loaded.
    #[arg(long, value_name = "URL", default_value = "redis://127.0.0.1:6379/0")]
    redis: String,
    /// What stands before every key of the index; in a cluster a hash tag: '{coll-42}:'.
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: String,
    /// The crawl that the files belong to.
    #[arg(long, value_name = "ID")]
    crawl: String,
    /// Make the crawl part of the merged index when all files are in.
    #[arg(long)]
    commit: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// WARC files, plain or with each record compressed by itself (.warc.gz).
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Outcome<'a> {
    crawl: &'a str,
    #[serde(flatten)]
    tally: &'a Tally,
    committed: Option<Committed>,
    errors: &'a [String],
}

fn main() -> ExitCode {
    let CommandLine {
        subject: Subject::Dedupe(Dedupe::Index(files)),
    } = CommandLine::parse();
    match index_files(&files) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        // Whoever reads our output has seen enough (`| head`).
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("crawlspace: {error}");
            ExitCode::FAILURE
        }
    }
}

fn index_files(job: &IndexFiles) -> io::Result<bool> {
    let mut tally = Tally::default();
    let mut errors = Vec::new();
    let mut committed = None;
    let crawl = job.crawl.as_bytes();
    match Index::open(&job.redis, job.prefix.as_str()) {
        Err(error) => errors.push(error.to_string()),
        Ok(mut index) => {
            for file in &job.files {
                match index::add_file(&mut index, crawl, file, &mut tally) {
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
    for error in &errors {
        eprintln!("crawlspace: {error}");
    }
    if job.commit && committed.is_none() {
        eprintln!(
            "crawlspace: crawl {} is not committed, because of the above",
            job.crawl
        );
    }
    let mut out = io::stdout().lock();
    if job.json {
        let outcome = Outcome {
            crawl: &job.crawl,
            tally: &tally,
            committed,
            errors: &errors,
        };
        serde_json::to_writer(&mut out, &outcome)?;
        writeln!(out)?;
    } else if tally.records > 0 {
        print_table(&mut out, &job.crawl, &tally, committed)?;
    }
    out.flush()?;
    Ok(errors.is_empty())
}

fn print_table(
    out: &mut impl Write,
    crawl: &str,
    tally: &Tally,
    committed: Option<Committed>,
) -> io::Result<()> {
    let captures = tally.unique + tally.duplicates;
    let bold = io::stdout().is_terminal();
    let (on, off) = if bold {
        ("\x1b[1m", "\x1b[0m")
    } else {
        ("", "")
    };
    writeln!(out, "{on}crawl {crawl}{off}")?;
    let mut row = |name: &str, figure: String, note: String| {
        writeln!(
            out,
            "{}",
            format!("  {name:<12}{figure:>12}  {note}").trim_end()
        )
    };
    row("files", count(tally.files), String::new())?;
    row(
        "records",
        count(tally.records),
        format!(
            "{} responses, {} revisits",
            count(tally.responses),
            count(tally.revisits)
        ),
    )?;
    row(
        "unique",
        count(tally.unique),
        "payloads that were new to the index".into(),
    )?;
    row(
        "duplicates",
        count(tally.duplicates),
        share(tally.duplicates, captures),
    )?;
    if tally.skipped > 0 {
        row(
            "skipped",
            count(tally.skipped),
            "without valid payload digest, URL or date".into(),
        )?;
    }
    if tally.unresolved > 0 {
        row(
            "unresolved",
            count(tally.unresolved),
            "revisits of payloads that the index never saw".into(),
        )?;
    }
    row("bytes", count(tally.bytes), size(tally.bytes))?;
    row(
        "bytes saved",
        count(tally.bytes_saved),
        share(tally.bytes_saved, tally.bytes),
    )?;
    if let Some(Committed { new, known }) = committed {
        row(
            "committed",
            count(new),
            format!("hashes new to the merged index, {} known", count(known)),
        )?;
    }
    Ok(())
}

/// 1234567 as `1 234 567`.
fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    format!("{:.1} %", part as f64 * 100.0 / whole as f64)
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b >= 1e9 => format!("{:.1} GB", b / 1e9),
        b if b >= 1e6 => format!("{:.1} MB", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kB", b / 1e3),
        _ => String::new(),
    }
}
