//! `crawlspace dedupe export` and `import`: an index as lines.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use crawlspace_cli::copy::{Error, Export, Import, Imported};

use crate::output::{Output, reported};
use crate::progress::watched;
use crate::storage::sentence;
use crate::table::{Table, count, many};
use crate::terminal::{at, complain, say};

use super::Asking;

/// Capacity of the buffers of files.
const BUFFER: usize = 1 << 20;

/// Write an index as lines: a CDXJ row for each record, with the id of its crawl.
///
/// Lines that begin with ! describe the crawls, their counts and WACZ files, and the other keys. The server need not
/// have the module if the index is in plain keys. Stop the programs that write to the index meanwhile. A sharded index
/// is written as one index, which `import` can spread over any number of shards.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe export --prefix '{coll-42}:' --out coll-42.cdxj")]
pub(crate) struct ExportLines {
    #[command(flatten)]
    asking: Asking,
    /// The file to write, by default standard output. The file appears under its name when it is complete; until then,
    /// an existing file is kept.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    out: Option<PathBuf>,
}

impl ExportLines {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let export = Export {
            from: self.asking.server.redis.clone(),
            index: self.asking.sharding.name(&self.asking.server),
        };
        if self.asking.json && self.out.is_none() {
            complain("--json needs --out, because the lines are on standard output");
            return Ok(false);
        }
        let output = Output::open(self.out.as_deref()).map_err(reported)?;
        let mut write = BufWriter::with_capacity(BUFFER, output.writer().map_err(reported)?);
        let exported = match watched(|work| export.run(&mut write, work))? {
            Ok(exported) => exported,
            Err(Error::Lines(error)) => return Err(reported(output.failed(error))),
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        drop(write);
        output.commit().map_err(reported)?;
        match self.out {
            Some(_) => self.asking.tell(&exported, |exported| {
                let mut table = Table::new("exported", 14)?;
                table.row("crawls", count(exported.crawls), "")?;
                table.row("records", count(exported.records), "")?;
                table.end()
            })?,
            None => say(format_args!(
                "{} in {}",
                many(exported.records, "record"),
                many(exported.crawls, "crawl")
            )),
        }
        Ok(true)
    }
}

/// Read the lines of `dedupe export` into an index.
///
/// The crawls become visible at the end, unless lines of the export are missing. Every crawl of the target must be in
/// the lines. Bad lines are skipped, and reported with their numbers. Exit status 1 if lines are bad or missing. An
/// interrupted import can be run again.
#[derive(Args)]
#[command(after_help = "Example:
  crawlspace dedupe import --prefix '{coll-42}:' --packed coll-42.cdxj")]
pub(crate) struct ImportLines {
    #[command(flatten)]
    asking: Asking,
    /// Pack the index.
    #[arg(long)]
    packed: bool,
    /// The file to read; `-` for standard input.
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

impl ImportLines {
    pub(crate) fn run(&self) -> io::Result<bool> {
        let import = Import {
            to: self.asking.server.redis.clone(),
            index: self.asking.sharding.name(&self.asking.server),
            packed: self.packed,
        };
        let mut lines: Box<dyn BufRead> = if self.file == Path::new("-") {
            Box::new(BufReader::with_capacity(BUFFER, io::stdin()))
        } else {
            let file = File::open(&self.file).map_err(at(&self.file))?;
            Box::new(BufReader::with_capacity(BUFFER, file))
        };
        let imported = match watched(|work| import.run(&mut lines, work))? {
            Ok(imported) => imported,
            Err(error) => {
                complain(error);
                return Ok(false);
            }
        };
        for bad in &imported.examples {
            complain(format_args!(
                "{}:{}: {}",
                self.file.display(),
                bad.line,
                bad.why
            ));
        }
        self.asking.tell(&imported, print)?;
        Ok(imported.bad_lines == 0)
    }
}

fn print(imported: &Imported) -> io::Result<()> {
    let mut table = Table::new(&sentence("index", imported.storage), 14)?;
    table.row("crawls", count(imported.crawls), "")?;
    table.row("records", count(imported.records), "")?;
    if imported.bad_lines > 0 {
        table.row("bad lines", count(imported.bad_lines), "skipped")?;
    }
    table.row("profile", imported.profile.word(), "")?;
    table.end()
}
