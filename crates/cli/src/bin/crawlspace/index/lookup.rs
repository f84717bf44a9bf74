//! `crawlspace index lookup`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueHint};
use crawlspace_index::Lookup as Rows;
use crawlspace_index::row::Row;
use crawlspace_jobs::{Entry, Error, IndexKind, JobSet, MultiFileBasedCache, Work};
use serde_json::{Map, Value};

use super::{jobs, kind};
use crate::table::print_json;
use crate::terminal::complain;

/// Find captures in an index: by URL, or by digest.
///
/// Prints them as CDXJ lines, the earliest first. Give the index by its folder, or by the kind and jobs that were given
/// to `get`; this command builds nothing. If no index covers all of the jobs, the index with the most of these jobs is
/// searched, and the other jobs are printed on standard error.
///
/// Exit status: 0 when something is found, 1 when nothing is found or something failed, 2 when the
/// command line is wrong.
#[derive(Args)]
#[command(group = ArgGroup::new("index").args(["path", "kind"]).required(true))]
#[command(group = ArgGroup::new("what").args(["url", "digest"]).required(true))]
#[command(after_help = "Examples:
  crawlspace index lookup --kind full --jobs 1-8 --cache-dir /var/cache/crawlspace --url http://example.com/
  crawlspace index lookup dedup-index --digest B2LTWWPUOYAH7UIPQ7ZUPQ4VMBSVC36A")]
pub(crate) struct Lookup {
    /// The folder of an index, or of a copy.
    #[arg(
        value_name = "PATH",
        value_hint = ValueHint::DirPath,
        conflicts_with_all = ["kind", "jobs"]
    )]
    path: Option<PathBuf>,
    /// The kind of index, instead of PATH.
    #[arg(long, value_name = "KIND", value_parser = kind(), requires_all = ["jobs", "cache_dir"])]
    kind: Option<IndexKind>,
    /// The jobs: 1,2,5-8; @FILE for jobs that a file lists, - for jobs on standard input.
    #[arg(long, value_name = "JOBS", value_parser = jobs::jobs, requires = "kind")]
    jobs: Option<JobSet>,
    /// The folder of the caches, with --kind.
    #[arg(
        long,
        value_name = "DIR",
        env = "CRAWLSPACE_CACHE_DIR",
        value_hint = ValueHint::DirPath
    )]
    cache_dir: Option<PathBuf>,
    /// Find captures of this URL.
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Date of 4 to 14 digits: print only the closest capture, with --url.
    #[arg(long, value_name = "DATE", requires = "url", conflicts_with = "digest")]
    closest: Option<String>,
    /// Find captures with this digest, given with or without the prefix of its algorithm.
    #[arg(long, value_name = "DIGEST")]
    digest: Option<String>,
    /// Print captures as JSON, one per line.
    #[arg(long)]
    json: bool,
}

impl Lookup {
    pub(crate) fn run(&self) -> io::Result<bool> {
        match self.found()? {
            Ok(found) => Ok(found),
            Err(error) => {
                complain(error);
                Ok(false)
            }
        }
    }

    fn found(&self) -> io::Result<Result<bool, Error>> {
        let place = match self.place() {
            Ok(place) => place,
            Err(error) => return Ok(Err(error)),
        };
        let rows = match Rows::open(place.folder()) {
            Ok(rows) => rows,
            Err(error) => return Ok(Err(error)),
        };
        let mut found = false;
        let mut print = |row: &Row| -> io::Result<()> {
            found = true;
            if self.json {
                print_json(&object(row))
            } else {
                writeln!(
                    io::stdout(),
                    "{}",
                    String::from_utf8_lossy(row.line()).trim_end()
                )
            }
        };
        let all = match (&self.url, &self.closest, &self.digest) {
            (Some(url), Some(date), _) => match rows.closest(url, date) {
                Ok(row) => {
                    row.iter().try_for_each(&mut print)?;
                    return Ok(Ok(found));
                }
                Err(error) => Err(error),
            },
            (Some(url), None, _) => rows.by_url(url),
            (None, _, digest) => {
                let digest = digest.as_deref().unwrap_or_default();
                let bare = digest.rsplit_once(':').map_or(digest, |(_, bare)| bare);
                rows.by_digest(bare)
            }
        };
        let all = match all {
            Ok(all) => all,
            Err(error) => return Ok(Err(error)),
        };
        for row in all {
            match row {
                Ok(row) => print(&row)?,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(found))
    }

    fn place(&self) -> Result<IndexLocation, Error> {
        let (Some(kind), Some(jobs)) = (self.kind, &self.jobs) else {
            let path = self.path.clone().unwrap_or_default();
            return Ok(IndexLocation::Folder(path));
        };
        if kind == IndexKind::Cdx {
            let text = "an index of kind cdx cannot be searched: use dedup or full";
            return Err(Error::Request(text.to_owned()));
        }
        let dir = self.cache_dir.clone().unwrap_or_default();
        let mut largest: Option<Entry> = None;
        for folder in [kind.folder(), kind.client_folder()] {
            if !dir.join(folder).is_dir() {
                continue;
            }
            let cache = MultiFileBasedCache::open(&dir, folder, kind.form())?;
            let work = Work::default();
            if let Some(entry) = cache.hit(jobs, &work)? {
                return Ok(IndexLocation::Entry(entry));
            }
            let part = cache.largest_part_of(jobs, &work)?;
            let has = |entry: &Entry| entry.manifest().jobs.len();
            if part.as_ref().map(has) > largest.as_ref().map(has) {
                largest = part;
            }
        }
        let dir = dir.display();
        let Some(entry) = largest else {
            return Err(Error::Request(format!(
                "{dir}: there is no {kind} index of jobs {jobs}; crawlspace index get builds it"
            )));
        };
        let has = &entry.manifest().jobs;
        complain(format_args!(
            "searching the {kind} index of jobs {has}: no index has jobs {} as well; crawlspace index get looks for \
             them again",
            jobs.without(has)
        ));
        Ok(IndexLocation::Entry(entry))
    }
}

/// Location of the index.
enum IndexLocation {
    Folder(PathBuf),
    Entry(Entry),
}

impl IndexLocation {
    fn folder(&self) -> &Path {
        match self {
            IndexLocation::Folder(path) => path,
            IndexLocation::Entry(entry) => entry.path(),
        }
    }
}

/// Converts a capture to a JSON object.
fn object(row: &Row) -> Map<String, Value> {
    let text = |bytes: &[u8]| Value::String(String::from_utf8_lossy(bytes).into_owned());
    let mut object = Map::new();
    object.insert("urlkey".to_owned(), text(row.urlkey()));
    object.insert("timestamp".to_owned(), text(row.timestamp()));
    let members = serde_json::from_slice::<Map<String, Value>>(row.json());
    object.extend(members.unwrap_or_default());
    object
}
