//! `crawlspace index get`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueHint};
use crawlspace_jobs::load::CrawlName;
use crawlspace_jobs::{
    DEFAULT_MEMORY, DEFAULT_WAIT, Error, Index, IndexCaches, IndexKind, IndexRequestClient, JobSet,
    Missing, MissingJob, Options, Work, operations,
};
use serde::Serialize;

use super::load::{Into, Outcomes, Source};
use super::{CacheDir, jobs, kind};
use crate::open_files;
use crate::progress::watched;
use crate::size::size;
use crate::table::{Table, bytes, count, many, print_json};
use crate::terminal::{Bytes, complain};

/// Defaults of the library, in the format of this command's options.
static WAIT: LazyLock<String> = LazyLock::new(|| DEFAULT_WAIT.as_secs().to_string());
static MEMORY: LazyLock<String> = LazyLock::new(|| format!("{}GiB", DEFAULT_MEMORY >> 30));

/// Get the index of some jobs from the cache, or build and cache it.
///
/// An index that is older than the metadata files of its jobs, or than the indexes that it was merged from, is built again.
///
/// Prints its path and the jobs that it covers. If jobs are missing, prints them with the reasons
/// on standard error, and returns the index of the others. It is cached under the name of the jobs
/// that it covers, so that the next request looks for the missing ones again.
///
/// An index of kind dedup has the captures of all media types except text, from crawl.log and CDX;
/// full has all captures; cdx has the lines of the CDX files. The first two kinds are folders with
/// ZipNum indexes of CDXJ lines, by URL and by digest.
///
/// If a run is interrupted, for example by Ctrl-C, the same command resumes where it stopped.
///
/// Exit status: 0 when there is an index, with --strict only if no job is missing; 1 when something failed, or no job could be read; 2
/// when the command line is wrong.
#[derive(Args)]
#[command(group = ArgGroup::new("source").args(["metadata", "server"]).required(true))]
#[command(after_help = "Examples:
  crawlspace index get --kind full --jobs 1-8 --metadata /archive/metadata --cache-dir /var/cache/crawlspace
  crawlspace index get --kind dedup --jobs @jobs.txt --server http://indexes.example:8080 --cache-dir cache --out dedup-index
  crawlspace index get --kind dedup --jobs 7,9 --metadata metadata --cache-dir cache --into redis://127.0.0.1/ --prefix '{coll-42}:'")]
pub(crate) struct Get {
    /// The kind of index.
    #[arg(long, value_name = "KIND", value_parser = kind())]
    kind: IndexKind,
    /// The jobs: 1,2,5-8; @FILE for jobs that a file lists, - for jobs on standard input.
    #[arg(long, value_name = "JOBS", value_parser = jobs::jobs)]
    jobs: JobSet,
    /// Metadata files: folders, files that list them, or URLs of either.
    #[arg(long, value_name = "WHERE", num_args = 1.., value_hint = ValueHint::AnyPath)]
    metadata: Vec<String>,
    /// A server that has the indexes (crawlspace serve), instead of metadata files.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    #[command(flatten)]
    cache: CacheDir,
    /// Copy the index to this folder, which is created completely or not at all.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    out: Option<PathBuf>,
    /// Load the index into the dedupe index of this server: each job becomes a crawl, which is
    /// committed.
    #[arg(long, value_name = "URL")]
    into: Option<String>,
    /// Prefix of every key of the dedupe index, with --into.
    #[arg(
        long,
        value_name = "PREFIX",
        env = "CRAWLSPACE_PREFIX",
        default_value = "",
        hide_default_value = true,
        value_parser = Bytes::parser()
    )]
    prefix: Bytes,
    /// Names of the crawls, with --into.
    #[arg(long, value_name = "TEMPLATE", requires = "into", default_value_t)]
    crawl_id: CrawlName,
    /// Timeout for a build of the same index by another process, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = WAIT.as_str(), value_parser = seconds)]
    wait: Duration,
    /// Memory for sorting; larger indexes are sorted on the disk.
    #[arg(long, value_name = "SIZE", default_value = MEMORY.as_str(), value_parser = size)]
    memory: u64,
    /// Exit with status 1 if a job is missing.
    #[arg(long)]
    strict: bool,
    /// Build the index again from the current state of the archive, even if nothing seems to have
    /// changed. Other indexes of these jobs are rebuilt when they are next requested.
    #[arg(long, conflicts_with = "server")]
    rebuild: bool,
    /// Print the outcome as JSON.
    #[arg(long)]
    json: bool,
}

/// Result of the command.
struct Got {
    index: Index,
    /// Jobs whose newer metadata files cannot be read.
    outdated: Vec<MissingJob>,
    loaded: Option<Outcomes>,
}

impl Get {
    pub(crate) fn run(&self) -> io::Result<bool> {
        if self.into.is_some() && self.kind == IndexKind::Cdx {
            complain(
                "--into needs --kind dedup or full, because the lines of a CDX have no digests",
            );
            std::process::exit(2);
        }
        if self.into.as_deref().is_some_and(|url| !is_server(url)) {
            // The message does not repeat the URL, because the URL may contain a password.
            complain(
                "--into is not the URL of a server: write redis://host:port/, rediss://host:port/ or unix:///path",
            );
            std::process::exit(2);
        }
        let into = self.into.as_ref().map(|url| Into {
            url,
            prefix: self.prefix.as_bytes(),
            name: &self.crawl_id,
        });
        open_files::allow_more();
        // Fail now if the server is unreachable, not after hours of building.
        let into = match into.map(Into::open).transpose() {
            Ok(into) => into,
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        let got = watched(|work| -> Result<Got, Error> {
            let source = self.source(work)?;
            let index = match (&source, self.rebuild) {
                (Source::Caches(caches), true) => {
                    caches.rebuild_index(self.kind, &self.jobs, work)?
                }
                _ => source.get(self.kind, &self.jobs, work)?,
            };
            if let Some(out) = &self.out {
                operations::copy(&index.entry, out, work)?;
            }
            let loaded = into.map(|into| into.load(&source, self.kind, &index.found, work));
            let outdated = match &source {
                Source::Caches(caches) => caches.outdated(&index),
                Source::Server(_) => Vec::new(),
            };
            Ok(Got {
                index,
                outdated,
                loaded,
            })
        })?;
        let got = match got {
            Ok(got) => got,
            Err(error) if error.is_full() => {
                complain(format_args!(
                    "{error}; crawlspace index gc removes old indexes from the cache"
                ));
                return Ok(false);
            }
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        self.tell(&got)?;
        let is_loaded = got.loaded.as_ref().is_none_or(Outcomes::are_complete);
        let is_good_enough = if self.strict {
            got.index.missing.is_empty()
        } else {
            !nothing_could_be_read(&got.index)
        };
        Ok(is_loaded && is_good_enough)
    }

    fn source(&self, work: &Work) -> Result<Source, Error> {
        let options = Options {
            cache_dir: self.cache.cache_dir.clone(),
            metadata: self.metadata.clone(),
            wait: self.wait,
            memory: usize::try_from(self.memory).unwrap_or(usize::MAX),
            ..Options::default()
        };
        work.check()?;
        Ok(match &self.server {
            Some(server) => Source::Server(Box::new(IndexRequestClient::open(server, options)?)),
            None => Source::Caches(Box::new(IndexCaches::open(options)?)),
        })
    }

    fn tell(&self, got: &Got) -> io::Result<()> {
        let Got {
            index,
            outdated,
            loaded,
        } = got;
        let manifest = index.entry.manifest();
        if self.json {
            print_json(&GetReport {
                kind: self.kind.name(),
                path: index.entry.path(),
                jobs: index.found.iter().map(|job| job.0).collect(),
                missing: index.missing.iter().map(Lacking::of).collect(),
                lines: manifest.lines(),
                size: manifest.size(),
                made: &manifest.made,
                counts: &manifest.counts,
                notes: &manifest.notes,
                outdated: outdated.iter().map(Lacking::of).collect(),
                out: self.out.as_deref(),
                loaded: loaded.as_ref(),
            })?
        } else {
            print(index, self.out.as_deref())?
        }
        for note in &manifest.notes {
            complain(note);
        }
        for run in runs(&index.missing) {
            complain(run);
        }
        for one in outdated {
            complain(format_args!(
                "job {}: the index is older than a metadata file that cannot be read: {}",
                one.job, one.why
            ));
        }
        if let Some(loaded) = loaded {
            loaded.tell(self.json)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct GetReport<'a> {
    kind: &'a str,
    path: &'a Path,
    jobs: Vec<u64>,
    missing: Vec<Lacking>,
    lines: Option<u64>,
    size: u64,
    made: &'a str,
    counts: &'a std::collections::BTreeMap<String, u64>,
    notes: &'a [String],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    outdated: Vec<Lacking>,
    #[serde(skip_serializing_if = "Option::is_none")]
    out: Option<&'a Path>,
    #[serde(skip_serializing_if = "Option::is_none")]
    loaded: Option<&'a Outcomes>,
}

/// A missing job, for JSON.
#[derive(Serialize)]
struct Lacking {
    job: u64,
    reason: &'static str,
    why: String,
}

impl Lacking {
    fn of(missing: &MissingJob) -> Lacking {
        Lacking {
            job: missing.job.0,
            reason: match missing.why {
                Missing::NoJob => "no-job",
                Missing::NoRecord { .. } => "no-record",
                Missing::Unreadable { .. } => "unreadable",
            },
            why: missing.why.to_string(),
        }
    }
}

fn print(index: &Index, out: Option<&Path>) -> io::Result<()> {
    let manifest = index.entry.manifest();
    // The first line is only the path, for scripts.
    let mut table = Table::new(&index.entry.path().display().to_string(), 8)?;
    let jobs = index.found.len() as u64;
    table.row("jobs", count(jobs), &few(&index.found))?;
    if !index.missing.is_empty() {
        let missing = index.missing.len() as u64;
        table.row("missing", count(missing), &many_reasons(&index.missing))?;
    }
    if let Some(lines) = manifest.lines() {
        table.row("lines", count(lines), "")?;
    }
    for (row, counted, what) in [
        (
            "nearest",
            "originNearest",
            "have the position of a CDX row whose timestamp differs by a second",
        ),
        (
            "revisits",
            "revisits",
            "have no position, because no payload was stored for them",
        ),
    ] {
        let number = manifest.counts.get(counted).copied().unwrap_or(0);
        if number > 0 {
            table.row(row, count(number), what)?;
        }
    }
    table.row("bytes", count(manifest.size()), &bytes(manifest.size()))?;
    if let Some(out) = out {
        table.line(&format!("copied to {}", out.display()))?;
    }
    table.end()
}

/// Returns true if reading failed for all jobs: the archive may be unavailable, and an empty index would be misleading.
fn nothing_could_be_read(index: &Index) -> bool {
    let mut missing = index.missing.iter();
    !index.missing.is_empty() && index.found.is_empty() && missing.all(is_unreadable)
}

fn is_unreadable(missing: &MissingJob) -> bool {
    matches!(missing.why, Missing::Unreadable { .. })
}

/// Formats the jobs on one line, truncated if necessary.
fn few(jobs: &JobSet) -> String {
    const WIDTH: usize = 60;
    let text = jobs.to_string();
    match text.char_indices().nth(WIDTH) {
        None => text,
        Some((end, _)) => {
            let begin = text.get(..end).unwrap_or_default();
            let begin = begin.rsplit_once(',').map_or(begin, |(begin, _)| begin);
            format!("{begin},\u{2026}")
        }
    }
}

/// Formats the missing jobs with their reasons for people: consecutive jobs with the same reason share a line.
fn runs(missing: &[MissingJob]) -> impl Iterator<Item = String> + '_ {
    let follows = |one: &MissingJob, next: &MissingJob| {
        one.job.0.checked_add(1) == Some(next.job.0) && one.why == next.why
    };
    missing.chunk_by(follows).filter_map(|run| match run {
        [] => None,
        [MissingJob { job, why }] => Some(format!("job {job}: {why}")),
        [first, .., last] => Some(format!("jobs {}-{}: {}", first.job, last.job, first.why)),
    })
}

/// Parses the value of `--wait`.
fn seconds(given: &str) -> Result<Duration, String> {
    let number = given.parse().map(Duration::from_secs);
    number.map_err(|_| "write a number of seconds, such as 3600".to_owned())
}

/// Returns true if this is the URL of a server that can hold a dedupe index.
fn is_server(url: &str) -> bool {
    redis::IntoConnectionInfo::into_connection_info(url).is_ok()
}

fn many_reasons(missing: &[MissingJob]) -> String {
    match missing.iter().filter(|one| is_unreadable(one)).count() {
        0 => String::new(),
        some => format!(
            "{} could not be read; run the command again later",
            many(some as u64, "job")
        ),
    }
}
