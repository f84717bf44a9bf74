//! `crawlspace cdxj`: indexes WARC and ARC files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::thread::available_parallelism;

use clap::{Args, ValueHint};
use crawlspace_index::cdxj::{Built, Job, Tally};
use crawlspace_index::zipnum::{self, Options};
use crawlspace_index::{Error, Work};
use serde::Serialize;

use crate::file_kind::FileKind;
use crate::output::{Output, reported};
use crate::progress::watched;
use crate::size::size;
use crate::table::{Table, bytes, count, print_json};
use crate::terminal::complain;

/// Default memory for sorting in bytes.
const MEMORY: usize = 256 << 20;
/// Default number of lines in a ZipNum block, as cdxj-indexer writes them.
const LINES: u32 = 300;
/// Names of the files that are indexed in folders.
const ENDINGS: [&str; 4] = [".warc.gz", ".warc", ".arc.gz", ".arc"];

static MEMORY_TEXT: LazyLock<String> = LazyLock::new(|| format!("{}MiB", MEMORY >> 20));

/// Index WARC and ARC files: write their captures as sorted CDXJ, for serve, pywb and other tools.
///
/// Rows have the fields of cdxj-indexer: url, mime, status, digest, length, offset and filename; for responses to POST
/// and PUT requests also requestBody and method, and a urlkey that contains both. A payload digest that the record does
/// not state is computed.
///
/// The output file appears under its name when it is complete; until then, an existing file is kept. If a file is damaged, its
/// captures before the damage are indexed.
///
/// Exit status: 0 on success, 1 when a file could not be read completely or something failed, 2 when the command line is wrong.
#[derive(Args)]
#[command(after_help = "Examples:
  crawlspace cdxj crawl-1.warc.gz crawl-2.warc.gz >index.cdxj
  crawlspace cdxj /archive/warcs --output index.cdxj
  crawlspace cdxj /archive/warcs --dir-root /archive --zipnum --output index/all.idx --json")]
pub(crate) struct Cdxj {
    /// WARC and ARC files, plain or with each record compressed separately (.gz); folders stand for all files below
    /// them whose names end with .warc, .warc.gz, .arc or .arc.gz.
    #[arg(required = true, value_name = "FILE", value_hint = ValueHint::AnyPath)]
    files: Vec<PathBuf>,
    /// Write the index to this file instead of standard output.
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Write a ZipNum index: compressed blocks of lines in NAME.cdxj.gz, and an index of the blocks in --output
    /// NAME.idx.
    #[arg(long, requires = "output")]
    zipnum: bool,
    /// Number of lines in a block, with --zipnum.
    #[arg(long, value_name = "N", requires = "zipnum", default_value_t = LINES, value_parser = clap::value_parser!(u32).range(1..))]
    lines: u32,
    /// Write the names of the files relative to this folder, instead of without their folders.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    dir_root: Option<PathBuf>,
    /// Number of threads, each of which reads a file at a time; by default one per processor.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Memory for sorting; larger indexes are sorted on the disk.
    #[arg(long, value_name = "SIZE", default_value = MEMORY_TEXT.as_str(), value_parser = size)]
    memory: u64,
    /// Folder of temporary files; by default that of --output, or the folder of the system.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    temp_dir: Option<PathBuf>,
    /// Print counts and errors as JSON.
    #[arg(long, requires = "output")]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    #[serde(flatten)]
    tally: Tally,
    output: &'a Path,
    errors: &'a [String],
}

impl Cdxj {
    pub(crate) fn run(&self) -> io::Result<bool> {
        if self.zipnum && self.stem().is_none() {
            complain(
                "--output must end with .idx, because --zipnum writes NAME.idx and NAME.cdxj.gz",
            );
            std::process::exit(2);
        }
        let mut errors = Vec::new();
        let files = self.all_files(&mut errors);
        let threads = self.threads.map_or_else(
            || available_parallelism().map_or(1, usize::from),
            usize::from,
        );
        let folder = self.temp_dir.clone().or_else(|| self.folder());
        let job = Job {
            files: &files,
            threads,
            memory: usize::try_from(self.memory).unwrap_or(usize::MAX),
            folder: &folder.unwrap_or_else(std::env::temp_dir),
        };
        let written = watched(|work| {
            let mut built = job.run(work)?;
            errors.extend(built.errors.drain(..).map(|error| error.to_string()));
            if built.tally.records == 0 && !errors.is_empty() {
                return Ok(None);
            }
            self.write(built, threads, work).map(Some)
        })?;
        errors.iter().for_each(complain);
        let tally = match written {
            Ok(Some(tally)) => tally,
            Ok(None) => {
                complain("no index was written, because no record could be read");
                return Ok(false);
            }
            Err(error @ Error::Io { .. }) => return Err(reported(error)),
            Err(Error::Cancelled) => {
                complain("stopped; no index was written");
                return Ok(false);
            }
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        if tally.skipped > 0 {
            let skipped = count(tally.skipped);
            complain(format_args!(
                "captures without a row, because they have no valid URL or date: {skipped}"
            ));
        }
        if let Some(output) = &self.output {
            if self.json {
                print_json(&Report {
                    tally,
                    output,
                    errors: &errors,
                })?;
            } else {
                print_table(output, &tally)?;
            }
        }
        Ok(errors.is_empty())
    }

    /// Returns the files to index, each with its name in the rows.
    fn all_files(&self, errors: &mut Vec<String>) -> Vec<(PathBuf, String)> {
        let mut paths = Vec::new();
        for path in &self.files {
            if path.is_dir() {
                if let Err(error) = walk(path, &mut paths) {
                    errors.push(error);
                }
            } else if FileKind::of(path) == FileKind::Wacz {
                errors.push(format!(
                    "{}: this is a WACZ file, which contains its index; serve reads it as it is",
                    path.display()
                ));
            } else {
                paths.push(path.clone());
            }
        }
        let named = paths.into_iter().filter_map(|path| match self.name(&path) {
            Ok(name) => Some((path, name)),
            Err(error) => {
                errors.push(error);
                None
            }
        });
        named.collect()
    }

    /// Returns the name of a file in the rows.
    fn name(&self, path: &Path) -> Result<String, String> {
        let name = match &self.dir_root {
            None => path.file_name().map(PathBuf::from),
            Some(root) => {
                let whole = |path: &Path| {
                    let whole = fs::canonicalize(path);
                    whole.map_err(|error| format!("{}: cannot open: {error}", path.display()))
                };
                let (root, whole) = (whole(root)?, whole(path)?);
                let below = whole.strip_prefix(&root).map_err(|_| {
                    let root = root.display();
                    format!("{}: is not below --dir-root {root}", path.display())
                })?;
                Some(below.to_owned())
            }
        };
        Ok(name.unwrap_or_default().to_string_lossy().into_owned())
    }

    /// Returns the folder of the output.
    fn folder(&self) -> Option<PathBuf> {
        let folder = self.output.as_ref()?.parent()?;
        Some(if folder == Path::new("") {
            PathBuf::from(".")
        } else {
            folder.to_owned()
        })
    }

    /// Returns the name that both files of a ZipNum index share.
    fn stem(&self) -> Option<&str> {
        let name = self.output.as_ref()?.file_name()?.to_str()?;
        name.strip_suffix(".idx").filter(|stem| !stem.is_empty())
    }

    fn write(&self, built: Built, threads: usize, work: &Work) -> Result<Tally, Error> {
        work.begin("writing", built.tally.rows);
        match (&self.output, self.stem()) {
            (Some(output), Some(stem)) if self.zipnum => {
                self.write_zipnum(built, output, stem, threads, work)
            }
            (output, _) => {
                let output = Output::open(output.as_deref())?;
                let tally = write_lines(built, &output, work)?;
                output.commit()?;
                Ok(tally)
            }
        }
    }

    fn write_zipnum(
        &self,
        built: Built,
        output: &Path,
        stem: &str,
        threads: usize,
        work: &Work,
    ) -> Result<Tally, Error> {
        let folder = self.folder().unwrap_or_default();
        let failed = |action| Error::io(output, action);
        let temporary = tempfile::Builder::new()
            .prefix(".crawlspace-")
            .tempdir_in(&folder)
            .map_err(failed("create"))?;
        let options = Options {
            lines: self.lines as usize,
            // With only one thread, the calling thread compresses.
            threads: threads - 1,
            ..Options::by_url()
        };
        let mut writer = zipnum::Writer::create(temporary.path(), stem, options)?;
        let tally = built.for_each(|row| {
            writer.push(row)?;
            work.advance(1)
        })?;
        writer.finish()?;
        let names = [format!("{stem}.cdxj.gz"), format!("{stem}.idx")];
        let put = || {
            for name in &names {
                File::open(temporary.path().join(name))?.sync_all()?;
            }
            // Readers find an index by its .idx file: remove it first, so that no reader combines an old .idx
            // file with new blocks.
            match fs::remove_file(output) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            for name in &names {
                fs::rename(temporary.path().join(name), folder.join(name))?;
            }
            File::open(&folder)?.sync_all()
        };
        put().map_err(failed("write"))?;
        Ok(tally)
    }
}

/// Adds the WARC and ARC files below a folder, sorted by their paths.
fn walk(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), String> {
    let failed = |error| format!("{}: cannot read: {error}", folder.display());
    let entries = fs::read_dir(folder).map_err(failed)?;
    let entries: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut entries = entries.map_err(failed)?;
    entries.sort();
    for path in entries {
        let name = path.to_string_lossy();
        match fs::metadata(&path) {
            Ok(about) if about.is_dir() => walk(&path, paths)?,
            // Opening a named pipe would wait for its writer.
            Ok(about) if !about.is_file() => {}
            _ if ENDINGS.iter().any(|ending| name.ends_with(ending)) => paths.push(path),
            _ => {}
        }
    }
    Ok(())
}

fn write_lines(built: Built, output: &Output<'_>, work: &Work) -> Result<Tally, Error> {
    let mut out = BufWriter::with_capacity(256 * 1024, output.writer()?);
    let tally = built.for_each(|row| {
        let written = out.write_all(row).and_then(|()| out.write_all(b"\n"));
        written.map_err(|error| output.failed(error))?;
        work.advance(1)
    })?;
    out.flush().map_err(|error| output.failed(error))?;
    Ok(tally)
}

fn print_table(output: &Path, tally: &Tally) -> io::Result<()> {
    let mut table = Table::new(&output.display().to_string(), 12)?;
    table.row("files", count(tally.files), "")?;
    table.row("records", count(tally.records), &bytes(tally.bytes))?;
    table.row("rows", count(tally.rows), "")?;
    table.end()
}
